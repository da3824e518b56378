//! The demo's data: advertisements shown on web pages, some of them clicked.
//!
//! Everything about the page is public. The reader's income bracket and whether they clicked are not, except for the few
//! readers who consented. A reader sees several advertisements, so the protected unit is the reader. The table is generated
//! by the formula below from a fixed number sequence: it is the same on every machine and describes nobody.

use std::fmt::Write;

/// Readers in the training table.
pub const READERS: u64 = 20_000;
/// Readers in the table that the trained model is tried on.
pub const NEW_READERS: u64 = 4_000;

/// What each value adds to the log-odds of a click.
type Effects<const N: usize> = [(&'static str, f64); N];

const TOPICS: Effects<20> = [
    ("news", -0.4),
    ("politics", -0.8),
    ("sport", 0.2),
    ("finance", 0.5),
    ("cooking", -0.1),
    ("travel", 0.9),
    ("games", -0.9),
    ("music", 0.1),
    ("film", 0.0),
    ("books", -0.3),
    ("health", 0.4),
    ("science", -0.5),
    ("fashion", 0.8),
    ("garden", 0.3),
    ("cars", 0.6),
    ("housing", 0.7),
    ("jobs", -0.2),
    ("schools", -0.6),
    ("pets", 0.2),
    ("weather", -1.0),
];
const REGIONS: Effects<12> = [
    ("north", -0.3),
    ("north-east", -0.1),
    ("east", 0.2),
    ("south-east", 0.4),
    ("south", 0.5),
    ("south-west", 0.3),
    ("west", 0.1),
    ("north-west", -0.2),
    ("centre", 0.0),
    ("capital", 0.6),
    ("coast", -0.5),
    ("islands", -0.6),
];
const DEVICES: Effects<3> = [("phone", 0.3), ("tablet", 0.0), ("desktop", -0.3)];
const INCOMES: Effects<5> = [("lowest", -1.1), ("low", -0.6), ("middle", 0.0), ("high", 0.5), ("top", 1.0)];
const INTERCEPT: f64 = -0.9;
/// From the top slot of the page (1) to the lowest (8).
const SLOT_EFFECT: f64 = -1.4;
/// From midnight (0) to the last hour of the day (23).
const HOUR_EFFECT: f64 = 0.6;

/// The declaration that goes with the table.
pub const DECLARATION: &str = r#"# What is private in ads.csv, and for whom. `halflit check ads.csv` reads it back in plain English.

[budget]
epsilon = 1.0
delta = 1e-6

[protect]
unit = "user"
user = "reader"
change = "replace"
public_rows = { column = "consent", equals = "yes" }

[task]
label = "clicked"
loss = "logistic"

[columns.reader]
visibility = "public"
use = false

[columns.consent]
visibility = "public"
use = false

[columns.topic]
visibility = "public"
values = [
    "news", "politics", "sport", "finance", "cooking", "travel", "games", "music", "film", "books",
    "health", "science", "fashion", "garden", "cars", "housing", "jobs", "schools", "pets", "weather",
]

[columns.region]
visibility = "public"
values = [
    "north", "north-east", "east", "south-east", "south", "south-west", "west", "north-west",
    "centre", "capital", "coast", "islands",
]

[columns.device]
visibility = "public"
values = ["phone", "tablet", "desktop"]

[columns.hour]
visibility = "public"
bounds = [0, 23]

[columns.slot]
visibility = "public"
bounds = [1, 8]

[columns.income]
values = ["lowest", "low", "middle", "high", "top"]

[columns.clicked]
values = ["no", "yes"]
"#;

/// A CSV table of `readers` readers; different `edition`s are independent draws of the same population.
pub fn table(edition: u64, readers: u64) -> String {
    let mut numbers = Numbers(edition.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut csv = String::from("reader,consent,topic,region,device,hour,slot,income,clicked\n");
    for reader in 0..readers {
        let consent = if numbers.uniform() < 0.02 { "yes" } else { "no" };
        let (device, device_effect) = numbers.pick(&DEVICES);
        let (income, income_effect) = numbers.pick(&INCOMES);
        let (region, region_effect) = numbers.pick(&REGIONS);
        let mood = numbers.uniform() + numbers.uniform() - 1.0;
        for _ in 0..1 + numbers.below(9) {
            let (topic, topic_effect) = numbers.pick(&TOPICS);
            let hour = numbers.below(24);
            let slot = 1 + numbers.below(8);
            let log_odds = INTERCEPT
                + topic_effect
                + region_effect
                + device_effect
                + income_effect
                + mood
                + HOUR_EFFECT * hour as f64 / 23.0
                + SLOT_EFFECT * (slot - 1) as f64 / 7.0;
            let clicked = if numbers.uniform() < 1.0 / (1.0 + (-log_odds).exp()) { "yes" } else { "no" };
            let _ = writeln!(
                csv,
                "r{edition}-{reader},{consent},{topic},{region},{device},{hour},{slot},{income},{clicked}"
            );
        }
    }
    csv
}

/// The splitmix64 sequence. Not noise: it only makes up the demo's data.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn pick<const N: usize>(&mut self, effects: &Effects<N>) -> (&'static str, f64) {
        effects[self.below(N as u64)]
    }

    fn below(&mut self, bound: u64) -> usize {
        (self.next() % bound) as usize
    }
}
