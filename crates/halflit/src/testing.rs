//! Small tables for tests: every combination of unit, visibility, change and loss.

use crate::Problem;
use halflit_noise::NoiseSource;
use halflit_table::{Column, Declaration, Declared, OutOfDomain, Table};

/// A generated table and how it is declared.
#[derive(Clone)]
pub struct Story {
    /// One of the declaration's losses.
    pub loss: &'static str,
    /// The unit is a user with several rows.
    pub by_user: bool,
    /// The numeric feature `x` and the categorical feature `c` are public.
    pub public: Vec<&'static str>,
    /// Zero-out instead of replace.
    pub zero_out: bool,
    /// Some rows are public.
    pub public_rows: bool,
    pub epsilon: f64,
    pub cells: Cells,
}

/// The cells of a generated table.
#[derive(Clone)]
pub struct Cells {
    pub x: Vec<f64>,
    pub u: Vec<f64>,
    pub c: Vec<String>,
    pub y: Vec<String>,
    pub user: Vec<String>,
    pub consent: Vec<String>,
}

pub const LOSSES: [&str; 10] = [
    "logistic",
    "softmax",
    "hinge",
    "smoothed-hinge",
    "squared",
    "huber",
    "pseudo-huber",
    "absolute",
    "quantile",
    "poisson",
];

impl Story {
    /// Full differential privacy, logistic loss.
    pub fn new(rows: usize) -> Self {
        Story {
            loss: "logistic",
            by_user: false,
            public: Vec::new(),
            zero_out: false,
            public_rows: false,
            epsilon: 1.0,
            cells: Cells::generated(rows),
        }
    }

    pub fn loss(self, loss: &'static str) -> Self {
        let cells = self.cells.with_labels_for(loss);
        Story { loss, cells, ..self }
    }

    pub fn declaration(&self) -> String {
        let parameter = match self.loss {
            "smoothed-hinge" => "smoothing = 0.5",
            "huber" | "pseudo-huber" => "huber_threshold = 2.0",
            "quantile" => "quantile = 0.7",
            "poisson" => "max_abs_score = 2.0",
            _ => "",
        };
        let unit = if self.by_user { "unit = \"user\"\nuser = \"user\"" } else { "unit = \"row\"" };
        let change = match (self.zero_out, self.by_user) {
            (false, _) => "change = \"replace\"".to_owned(),
            (true, false) => format!("change = \"zero-out\"\nrows = {}", self.private_rows()),
            (true, true) => format!("change = \"zero-out\"\nusers = {}", self.private_users()),
        };
        let selector =
            if self.public_rows { "public_rows = { column = \"consent\", equals = \"yes\" }" } else { "" };
        let visibility =
            |column: &str| if self.public.contains(&column) { "visibility = \"public\"" } else { "" };
        let label = match kind(self.loss) {
            Kind::Two => "values = [\"no\", \"yes\"]",
            Kind::Three => "values = [\"low\", \"middle\", \"high\"]",
            Kind::Number => "bounds = [0, 10]",
            Kind::Count => "bounds = [0, 6]",
        };
        format!(
            "[budget]\nepsilon = {}\ndelta = 1e-6\n[protect]\n{unit}\n{change}\n{selector}\n[task]\nlabel = \"y\"\nloss = \"{}\"\n{parameter}\n\
             [columns.user]\nvisibility = \"public\"\nuse = false\n[columns.consent]\nvisibility = \"public\"\nuse = false\n\
             [columns.x]\nbounds = [-3, 3]\n{}\n[columns.u]\nbounds = [0, 1]\n{}\n[columns.c]\nvalues = [\"a\", \"b\", \"d\"]\n{}\n\
             [columns.y]\n{label}\n{}\n",
            self.epsilon,
            self.loss,
            visibility("x"),
            visibility("u"),
            visibility("c"),
            visibility("y"),
        )
    }

    pub fn problem(&self) -> Problem {
        self.problem_declared(&self.declaration())
    }

    /// With a declared ball around zero.
    pub fn problem_in_ball(&self, radius: f64) -> Problem {
        self.problem_declared(
            &self.declaration().replace("[task]\n", &format!("[task]\nradius = {radius}\n")),
        )
    }

    /// With another declaration.
    pub fn problem_declared(&self, declaration: &str) -> Problem {
        let declaration =
            Declaration::parse(declaration, "privacy.toml").unwrap_or_else(|error| panic!("{error}"));
        let declared = Declared::bind(declaration, self.cells.table(kind(self.loss))).unwrap();
        Problem::pose(declared, OutOfDomain::Refuse).unwrap()
    }

    fn private_rows(&self) -> usize {
        self.cells.consent.iter().filter(|consent| !self.public_rows || *consent != "yes").count()
    }

    fn private_users(&self) -> usize {
        let private = self.cells.user.iter().zip(&self.cells.consent);
        let users: std::collections::BTreeSet<_> = private
            .filter(|(_, consent)| !self.public_rows || *consent != "yes")
            .map(|(user, _)| user)
            .collect();
        users.len()
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Two,
    Three,
    Number,
    Count,
}

fn kind(loss: &str) -> Kind {
    match loss {
        "logistic" | "hinge" | "smoothed-hinge" => Kind::Two,
        "softmax" => Kind::Three,
        "poisson" => Kind::Count,
        _ => Kind::Number,
    }
}

impl Cells {
    /// Labels follow the features with some scatter; users own one to five rows.
    fn generated(rows: usize) -> Self {
        let mut numbers = Numbers(7);
        let mut cells = Cells { x: vec![], u: vec![], c: vec![], y: vec![], user: vec![], consent: vec![] };
        let mut user = 0;
        for _ in 0..rows {
            cells.x.push(6.0 * numbers.next() - 3.0);
            cells.u.push(numbers.next());
            cells.c.push(["a", "b", "d"][(3.0 * numbers.next()) as usize].to_owned());
            if numbers.next() < 0.4 {
                user += 1;
            }
            cells.user.push(format!("u{user:05}"));
            cells.consent.push(if user % 10 == 3 { "yes" } else { "no" }.to_owned());
        }
        cells.with_labels_for("logistic")
    }

    fn with_labels_for(self, loss: &str) -> Self {
        let mut numbers = Numbers(11);
        let label = |(&x, &u): (&f64, &f64)| {
            let signal = x + u - 0.5 + 2.0 * (numbers.next() - 0.5);
            match kind(loss) {
                Kind::Two => if signal > 0.0 { "yes" } else { "no" }.to_owned(),
                Kind::Three => {
                    ["low", "middle", "high"][((signal + 3.0) / 2.0).clamp(0.0, 2.0) as usize].to_owned()
                }
                Kind::Number => format!("{}", (5.0 + 1.2 * signal).clamp(0.0, 10.0)),
                Kind::Count => format!("{}", (2.0 + signal).clamp(0.0, 6.0).round()),
            }
        };
        let y = self.x.iter().zip(&self.u).map(label).collect();
        Cells { y, ..self }
    }

    /// The table as a new file for a model of this loss.
    pub fn table_for(&self, loss: &str) -> Table {
        self.table(kind(loss))
    }

    fn table(&self, kind: Kind) -> Table {
        let labels = match kind {
            Kind::Two | Kind::Three => Column::Text(self.y.clone()),
            Kind::Number | Kind::Count => {
                Column::Numbers(self.y.iter().map(|y| y.parse().unwrap()).collect())
            }
        };
        Table::from_columns(vec![
            ("user".to_owned(), Column::Text(self.user.clone())),
            ("consent".to_owned(), Column::Text(self.consent.clone())),
            ("x".to_owned(), Column::Numbers(self.x.clone())),
            ("u".to_owned(), Column::Numbers(self.u.clone())),
            ("c".to_owned(), Column::Text(self.c.clone())),
            ("y".to_owned(), labels),
        ])
        .unwrap()
    }
}

/// A fixed number sequence in [0, 1): makes up test data, never noise.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Noise that repeats.
pub fn seeded(seed: u8) -> NoiseSource {
    NoiseSource::seeded_for_tests([seed; 32])
}
