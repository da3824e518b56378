use super::accounting::{
    ChangeName, FIGURES, Plot, Rate, change_in_words, checked, counted, ends, fixed_size, repeated,
};
use super::options::{count, number, positive_count};
use crate::Failure;
use halflit::figures::{about, at_most, whole};
use halflit::privacy::{
    Change, Delta, Epsilon, Event, Interval, L1Sensitivity, LaplaceScale, NoiseMultiplier, Profile, change_of,
};
use serde_json::json;
use std::num::NonZeroU64;
use std::path::PathBuf;

/// Price releases: epsilon at a delta, or delta at an epsilon.
///
/// Answers with an interval: the truth is proved to lie in it, and its upper end is what may be claimed. Nothing is read but the arguments (or a file
/// of events), nothing is spent. A noise multiplier is always the standard deviation of the noise over the clip norm; how far one unit moves
/// the sum (once the clip norm or twice) follows from --change, which therefore has no default.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  halflit account poisson-gaussian --rate 0.01 --noise-multiplier 1 --steps 10000 --change zero-out --delta 1e-5\n  \
                  halflit account gaussian --noise-multiplier 10 --steps 3 --change replace --epsilon 1 --plot profile.svg\n  \
                  halflit account events plan.json --delta 1e-6"
)]
pub struct Args {
    #[command(subcommand)]
    release: Released,
}

#[derive(clap::Subcommand)]
enum Released {
    /// Gaussian noise on a sum over all units.
    Gaussian(Gaussian),
    /// Laplace noise on a statistic with a proved l1 sensitivity.
    Laplace(Laplace),
    /// Any epsilon-differentially private release: randomized response, AboveThreshold, a local randomizer.
    Pure(Pure),
    /// Gaussian noise on a sum over a batch with each unit in it independently with the same probability (DP-SGD).
    PoissonGaussian(Sampled),
    /// Gaussian noise on a sum over a uniformly random batch of fixed size. Replace only.
    FixedSizeGaussian(Sampled),
    /// A tree of events in a JSON file, as certificates hold it.
    ///
    /// Every event is an object with a kind: gaussian, gaussian-diameter, laplace, pure-dp, approx-dp, zcdp, gdp, poisson-gaussian,
    /// fixed-size-gaussian, composed, repeated, parallel, repeat-and-select.
    #[command(
        after_help = "Example of a file:\n  {\"kind\": \"composed\", \"events\": [\n    {\"kind\": \"pure-dp\", \"epsilon\": 0.1},\n    {\"kind\": \
                      \"repeated\", \"count\": 1000, \"event\":\n      {\"kind\": \"poisson-gaussian\", \"rate\": 0.01, \"noise_multiplier\": 1.0, \
                      \"change\": \"replace\"}}]}"
    )]
    Events(Events),
}

#[derive(clap::Args)]
struct Gaussian {
    /// Standard deviation of the noise over the clip norm.
    #[arg(long, allow_negative_numbers = true, value_parser = number)]
    noise_multiplier: f64,
    /// How often.
    #[arg(long, default_value_t = 1, value_parser = count, allow_negative_numbers = true)]
    steps: u64,
    /// How neighbouring tables differ.
    #[arg(long, value_enum)]
    change: ChangeName,
    #[command(flatten)]
    question: Question,
}

#[derive(clap::Args)]
struct Laplace {
    /// How far a change of one unit moves the statistic in l1 norm.
    #[arg(long, allow_negative_numbers = true, value_parser = number)]
    sensitivity: f64,
    /// Scale of the noise in each coordinate (its standard deviation over the square root of 2).
    #[arg(long, allow_negative_numbers = true, value_parser = number)]
    scale: f64,
    /// How often.
    #[arg(long, default_value_t = 1, value_parser = count, allow_negative_numbers = true)]
    steps: u64,
    #[command(flatten)]
    question: Question,
}

#[derive(clap::Args)]
struct Pure {
    /// The epsilon of one release. (--epsilon asks for delta at that epsilon of all of them.)
    #[arg(long, allow_negative_numbers = true, value_parser = number)]
    epsilon_each: f64,
    /// How often.
    #[arg(long, default_value_t = 1, value_parser = count, allow_negative_numbers = true)]
    steps: u64,
    #[command(flatten)]
    question: Question,
}

#[derive(clap::Args)]
struct Sampled {
    /// Expected batch size over number of units, as 0.01 or 500/29700.
    #[arg(long, visible_alias = "fraction", allow_negative_numbers = true)]
    rate: Rate,
    /// Standard deviation of the noise over the clip norm.
    #[arg(long, allow_negative_numbers = true, value_parser = number)]
    noise_multiplier: f64,
    /// How many batches.
    #[arg(long, value_parser = count, allow_negative_numbers = true)]
    steps: u64,
    /// How neighbouring tables differ.
    #[arg(long, value_enum)]
    change: ChangeName,
    #[command(flatten)]
    question: Question,
}

#[derive(clap::Args)]
struct Events {
    /// The file.
    file: PathBuf,
    /// Refuse the file unless its events are priced for this change [default: what the events say].
    #[arg(long, value_enum)]
    change: Option<ChangeName>,
    #[command(flatten)]
    question: Question,
}

/// What is asked about the releases.
#[derive(clap::Args)]
struct Question {
    #[command(flatten)]
    at: At,
    /// Price changes of up to this many units at once, such as all rows of a user.
    #[arg(long, value_name = "UNITS", default_value = "1", value_parser = positive_count, allow_negative_numbers = true)]
    group_size: NonZeroU64,
    #[command(flatten)]
    plot: Plot,
}

#[derive(clap::Args)]
#[group(required = true, multiple = false)]
struct At {
    /// Ask for epsilon at this delta.
    #[arg(long, allow_negative_numbers = true, value_parser = number)]
    delta: Option<f64>,
    /// Ask for delta at this epsilon.
    #[arg(long, allow_negative_numbers = true, value_parser = number)]
    epsilon: Option<f64>,
}

/// Releases to be priced: the event, and a clause about it that ends with what it is under.
struct Priced {
    event: Event,
    words: String,
    change: Option<Change>,
}

pub fn run(args: Args, json: bool) -> Result<(), Failure> {
    let (priced, question) = match args.release {
        Released::Gaussian(gaussian) => gaussian.priced()?,
        Released::Laplace(laplace) => laplace.priced()?,
        Released::Pure(pure) => pure.priced()?,
        Released::PoissonGaussian(sampled) => sampled.poisson()?,
        Released::FixedSizeGaussian(sampled) => sampled.fixed_size()?,
        Released::Events(events) => events.priced()?,
    };
    answer(&priced, &question, json)
}

impl Gaussian {
    fn priced(self) -> Result<(Priced, Question), Failure> {
        let noise_multiplier = checked("--noise-multiplier", self.noise_multiplier, NoiseMultiplier::new)?;
        let change = self.change.into();
        let event = repeated(Event::Gaussian { noise_multiplier, change }, counted(self.steps)?);
        let words =
            format!("{} with noise multiplier {noise_multiplier}", times(self.steps, "Gaussian release"));
        Ok((Priced { event, words, change: Some(change) }, self.question))
    }
}

impl Laplace {
    fn priced(self) -> Result<(Priced, Question), Failure> {
        let sensitivity = checked("--sensitivity", self.sensitivity, L1Sensitivity::new)?;
        let scale = checked("--scale", self.scale, LaplaceScale::new)?;
        let event = repeated(Event::Laplace { sensitivity, scale }, counted(self.steps)?);
        let releases = times(self.steps, "Laplace release");
        let words = format!("{releases} of scale {scale} and l1 sensitivity {sensitivity}");
        Ok((Priced { event, words, change: None }, self.question))
    }
}

impl Pure {
    fn priced(self) -> Result<(Priced, Question), Failure> {
        let epsilon = checked("--epsilon-each", self.epsilon_each, Epsilon::new)?;
        let event = repeated(Event::PureDp { epsilon }, counted(self.steps)?);
        let words = format!("{} of epsilon {epsilon}", times(self.steps, "pure release"));
        Ok((Priced { event, words, change: None }, self.question))
    }
}

impl Sampled {
    fn poisson(self) -> Result<(Priced, Question), Failure> {
        let noise_multiplier = checked("--noise-multiplier", self.noise_multiplier, NoiseMultiplier::new)?;
        let event =
            Event::PoissonGaussian { rate: self.rate.0, noise_multiplier, change: self.change.into() };
        self.batches(event, "Poisson batch")
    }

    fn fixed_size(self) -> Result<(Priced, Question), Failure> {
        let noise_multiplier = checked("--noise-multiplier", self.noise_multiplier, NoiseMultiplier::new)?;
        let event = fixed_size(self.rate.0, noise_multiplier, self.change)?;
        self.batches(event, "fixed-size batch")
    }

    fn batches(self, event: Event, what: &str) -> Result<(Priced, Question), Failure> {
        let event = repeated(event, counted(self.steps)?);
        let rate = about(self.rate.0.get(), FIGURES);
        let words = format!(
            "{} at rate {rate} with noise multiplier {}",
            times(self.steps, what),
            self.noise_multiplier
        );
        Ok((Priced { event, words, change: Some(self.change.into()) }, self.question))
    }
}

impl Events {
    fn priced(self) -> Result<(Priced, Question), Failure> {
        let path = self.file.display();
        let text = std::fs::read_to_string(&self.file)
            .map_err(|error| Failure::BadInput(format!("the events {path} cannot be read: {error}")))?;
        let event: Event = serde_json::from_str(&text)
            .map_err(|error| Failure::BadInput(format!("{path} is not a tree of events: {error}")))?;
        let change = change_of(&event).map_err(|error| Failure::BadInput(format!("{path}: {error}")))?;
        if let (Some(assumed), Some(declared)) = (change, self.change.map(Change::from))
            && assumed != declared
        {
            return Err(Failure::BadInput(format!(
                "{path}: the events assume {assumed}, but --change says {declared}; price them again for {declared}"
            )));
        }
        Ok((Priced { event, words: format!("the events of {path}"), change }, self.question))
    }
}

/// "1 Gaussian release", "10,000 Poisson batches".
fn times(count: u64, what: &str) -> String {
    let plural = match (count, what.ends_with("ch")) {
        (1, _) => "",
        (_, true) => "es",
        (_, false) => "s",
    };
    format!("{} {what}{plural}", whole(count))
}

fn answer(priced: &Priced, question: &Question, json: bool) -> Result<(), Failure> {
    question.plot.check()?;
    let group = question.group_size;
    let profile = Profile::of(&priced.event).map_err(Failure::bad_input)?.for_groups_of(group);
    let asked = match (question.at.delta, question.at.epsilon) {
        (Some(delta), _) => Asked::Epsilon(checked("--delta", delta, Delta::new)?),
        (None, Some(epsilon)) => Asked::Delta(checked("--epsilon", epsilon, Epsilon::new)?),
        (None, None) => return Err(Failure::BadInput("ask with --delta or --epsilon".to_owned())),
    };
    let (epsilon, delta) = asked.answer(&profile);
    question.plot.draw(&profile, (epsilon.upper, delta.upper))?;
    let (mu, rho) = (profile.gdp_mu(), profile.zcdp_rho());
    if json {
        let given = |interval: Interval, is_given: bool| {
            if is_given { json!(interval.upper) } else { json!(interval) }
        };
        let is_delta_given = matches!(asked, Asked::Epsilon(_));
        println!(
            "{}",
            json!({
                "epsilon": given(epsilon, !is_delta_given),
                "delta": given(delta, is_delta_given),
                "change": priced.change,
                "group_size": group,
                "gdp_mu": mu,
                "zcdp_rho": rho,
                "event": priced.event,
                "plot": question.plot.plot,
            })
        );
        return Ok(());
    }
    let under = change_in_words(priced.change, group.get());
    let mut words = priced.words.clone();
    words[..1].make_ascii_uppercase();
    let verb = if words.starts_with("1 ") { "is" } else { "are" };
    if epsilon.upper.is_finite() {
        let (epsilon, delta) = (at_most(epsilon.upper, FIGURES), at_most(delta.upper, FIGURES));
        println!("{words} {verb} ({epsilon}, {delta})-differentially private {under}.");
    } else {
        let delta = at_most(delta.upper, FIGURES);
        println!("{words} {verb} not differentially private at delta {delta} for any epsilon, {under}.");
    }
    if let Some(mu) = mu.filter(|mu| *mu > 0.0) {
        let rho = rho.map_or(String::new(), |rho| format!(" and {}-zCDP", at_most(rho, FIGURES)));
        println!("Also {}-Gaussian differentially private{rho}.", at_most(mu, FIGURES));
    }
    asked.table(&profile);
    question.plot.announce();
    Ok(())
}

/// What is sought, with what is given.
enum Asked {
    Epsilon(Delta),
    Delta(Epsilon),
}

/// A given number as an interval of no length.
fn exactly(value: f64) -> Interval {
    Interval { lower: value, upper: value }
}

impl Asked {
    fn answer(&self, profile: &Profile) -> (Interval, Interval) {
        match self {
            Asked::Epsilon(delta) => (profile.epsilon(*delta), exactly(delta.get())),
            Asked::Delta(epsilon) => (exactly(epsilon.get()), profile.delta(*epsilon)),
        }
    }

    /// The answer among its neighbours.
    fn table(&self, profile: &Profile) {
        let (given, sought) = match self {
            Asked::Epsilon(_) => ("delta", "epsilon"),
            Asked::Delta(_) => ("epsilon", "delta"),
        };
        println!("\n  {given:>10}  {:>20}  {:>12}", format!("{sought} at least"), "at most");
        let row = |given: f64, answer: Interval| {
            let [lower, upper] = ends(answer);
            println!("  {:>10}  {lower:>20}  {upper:>12}", about(given, FIGURES));
        };
        match self {
            Asked::Epsilon(delta) => {
                let factors = if delta.get() > 0.0 { &[100.0, 10.0, 1.0, 0.1, 0.01][..] } else { &[1.0] };
                for delta in factors.iter().filter_map(|factor| Delta::new(delta.get() * factor).ok()) {
                    row(delta.get(), profile.epsilon(delta));
                }
            }
            Asked::Delta(epsilon) => {
                let factors = if epsilon.get() > 0.0 { &[0.25, 0.5, 1.0, 2.0, 4.0][..] } else { &[1.0] };
                for epsilon in factors.iter().filter_map(|factor| Epsilon::new(epsilon.get() * factor).ok()) {
                    row(epsilon.get(), profile.delta(epsilon));
                }
            }
        }
    }
}
