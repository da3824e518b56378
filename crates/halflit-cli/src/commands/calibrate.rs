use super::accounting::{
    ChangeName, FIGURES, Plot, Rate, change_in_words, checked, counted, ends, fixed_size, repeated,
};
use super::options::{check_delta, count, number};
use crate::Failure;
use halflit::figures::{at_least, at_most, whole};
use halflit::privacy::calibrate::{self, Budget, Calibrated, Careful};
use halflit::privacy::{
    Change, Delta, Epsilon, Event, L1Sensitivity, LaplaceScale, NoiseMultiplier, Profile, SamplingRate,
    change_of,
};
use serde_json::json;
use std::num::NonZeroU64;

/// Find the smallest noise, the most steps or the largest sampling rate that a budget allows.
///
/// The answer lies on the safe side of the budget and is priced again from scratch before it is given. A noise multiplier is
/// always the standard deviation of the noise over the clip norm; how far one unit moves the sum follows from --change, which therefore has no
/// default.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  halflit calibrate poisson-gaussian --epsilon 2 --delta 1e-5 --rate 500/29700 --steps 5000 --change zero-out\n  \
                  halflit calibrate gaussian --epsilon 1 --delta 1e-6 --change replace\n  \
                  halflit calibrate poisson-gaussian --epsilon 2 --delta 1e-5 --rate 0.01 --noise-multiplier 2 --change replace --find steps"
)]
pub struct Args {
    #[command(subcommand)]
    release: Planned,
}

#[derive(clap::Subcommand)]
enum Planned {
    /// Gaussian noise on a sum over all units.
    Gaussian(Gaussian),
    /// Laplace noise on a statistic with a proved l1 sensitivity.
    Laplace(Laplace),
    /// Epsilon-differentially private releases: finds the epsilon of each, or how many.
    Pure(Pure),
    /// Gaussian noise on a sum over a batch with each unit in it independently with the same probability (DP-SGD).
    PoissonGaussian(Sampled),
    /// Gaussian noise on a sum over a uniformly random batch of fixed size. Replace only.
    FixedSizeGaussian(Sampled),
}

/// What may be spent.
#[derive(clap::Args)]
struct Allowed {
    /// Spend at most this epsilon.
    #[arg(long, allow_negative_numbers = true, value_parser = number)]
    epsilon: f64,
    /// At this delta.
    #[arg(long, allow_negative_numbers = true, value_parser = number)]
    delta: f64,
    #[command(flatten)]
    plot: Plot,
}

/// What is sought among releases without sampling.
#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum Find {
    /// The smallest noise (the largest epsilon of each release, for pure ones)
    Noise,
    /// The most steps
    Steps,
}

/// What is sought among sampled releases.
#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum FindSampled {
    /// The smallest noise
    Noise,
    /// The most steps
    Steps,
    /// The largest sampling rate
    Rate,
}

#[derive(clap::Args)]
struct Gaussian {
    /// How often [default: 1; left out with --find steps].
    #[arg(long, value_parser = count, allow_negative_numbers = true)]
    steps: Option<u64>,
    /// Standard deviation of the noise over the clip norm (with --find steps).
    #[arg(long, allow_negative_numbers = true, value_parser = number)]
    noise_multiplier: Option<f64>,
    /// How neighbouring tables differ.
    #[arg(long, value_enum)]
    change: ChangeName,
    /// What to find; everything else is given.
    #[arg(long, value_enum, default_value = "noise")]
    find: Find,
    #[command(flatten)]
    allowed: Allowed,
}

#[derive(clap::Args)]
struct Laplace {
    /// How far a change of one unit moves the statistic in l1 norm.
    #[arg(long, allow_negative_numbers = true, value_parser = number)]
    sensitivity: f64,
    /// How often [default: 1; left out with --find steps].
    #[arg(long, value_parser = count, allow_negative_numbers = true)]
    steps: Option<u64>,
    /// Scale of the noise (with --find steps).
    #[arg(long, allow_negative_numbers = true, value_parser = number)]
    scale: Option<f64>,
    /// What to find; everything else is given.
    #[arg(long, value_enum, default_value = "noise")]
    find: Find,
    #[command(flatten)]
    allowed: Allowed,
}

#[derive(clap::Args)]
struct Pure {
    /// How often [default: 1; left out with --find steps].
    #[arg(long, value_parser = count, allow_negative_numbers = true)]
    steps: Option<u64>,
    /// The epsilon of one release (with --find steps).
    #[arg(long, allow_negative_numbers = true, value_parser = number)]
    epsilon_each: Option<f64>,
    /// What to find; everything else is given.
    #[arg(long, value_enum, default_value = "noise")]
    find: Find,
    #[command(flatten)]
    allowed: Allowed,
}

#[derive(clap::Args)]
struct Sampled {
    /// Expected batch size over number of units, as 0.01 or 500/29700 (left out with --find rate).
    #[arg(long, visible_alias = "fraction", allow_negative_numbers = true)]
    rate: Option<Rate>,
    /// How many batches (left out with --find steps).
    #[arg(long, value_parser = count, allow_negative_numbers = true)]
    steps: Option<u64>,
    /// Standard deviation of the noise over the clip norm (left out with --find noise).
    #[arg(long, allow_negative_numbers = true, value_parser = number)]
    noise_multiplier: Option<f64>,
    /// How neighbouring tables differ.
    #[arg(long, value_enum)]
    change: ChangeName,
    /// What to find; everything else is given.
    #[arg(long, value_enum, default_value = "noise")]
    find: FindSampled,
    #[command(flatten)]
    allowed: Allowed,
}

/// A parameter that fits, in numbers and in words.
struct Found {
    /// Its key in the JSON answer.
    key: &'static str,
    /// The full number: use this one.
    value: serde_json::Value,
    /// The answer as a clause, rounded to the safe side.
    words: String,
    calibrated: Calibrated<()>,
}

pub fn run(args: Args, json: bool) -> Result<(), Failure> {
    match args.release {
        Planned::Gaussian(gaussian) => {
            let budget = gaussian.allowed.budget()?;
            gaussian.allowed.tell(budget, gaussian.find(budget)?, json)
        }
        Planned::Laplace(laplace) => {
            let budget = laplace.allowed.budget()?;
            laplace.allowed.tell(budget, laplace.find(budget)?, json)
        }
        Planned::Pure(pure) => {
            let budget = pure.allowed.budget()?;
            pure.allowed.tell(budget, pure.find(budget)?, json)
        }
        Planned::PoissonGaussian(sampled) => {
            let budget = sampled.allowed.budget()?;
            let change: Change = sampled.change.into();
            let batch = |rate, noise_multiplier| Event::PoissonGaussian { rate, noise_multiplier, change };
            sampled.allowed.tell(budget, sampled.find(budget, batch)?, json)
        }
        Planned::FixedSizeGaussian(sampled) => {
            let budget = sampled.allowed.budget()?;
            // Refuses zero-out before anything is sought.
            fixed_size(SamplingRate::new(1.0).map_err(Failure::bad_input)?, any_noise()?, sampled.change)?;
            let batch = |fraction, noise_multiplier| Event::FixedSizeGaussian { fraction, noise_multiplier };
            sampled.allowed.tell(budget, sampled.find(budget, batch)?, json)
        }
    }
}

fn any_noise() -> Result<NoiseMultiplier, Failure> {
    NoiseMultiplier::new(1.0).map_err(Failure::bad_input)
}

impl Gaussian {
    fn find(&self, budget: Budget) -> Result<Found, Failure> {
        let change = self.change.into();
        let step = |noise_multiplier| Event::Gaussian { noise_multiplier, change };
        match self.find {
            Find::Noise => {
                sought(self.noise_multiplier, "--noise-multiplier", "noise")?;
                let steps = counted(self.steps.unwrap_or(1))?;
                Found::noise(calibrate::noise_multiplier(budget, |noise| repeated(step(noise), steps)))
            }
            Find::Steps => {
                sought(self.steps, "--steps", "steps")?;
                let noise = given_noise(self.noise_multiplier)?;
                Found::steps(calibrate::steps(budget, |count| repeated(step(noise), at_least_one(count))))
            }
        }
    }
}

/// Scales are sought between these multiples of the sensitivity.
const LAPLACE_RANGE: (f64, f64) = (1e-3, 1e9);
/// The epsilon of one release is sought between these.
const PURE_RANGE: (f64, f64) = (1e-9, 1e3);

impl Laplace {
    fn find(&self, budget: Budget) -> Result<Found, Failure> {
        let sensitivity = checked("--sensitivity", self.sensitivity, L1Sensitivity::new)?;
        let step = |scale| Event::Laplace { sensitivity, scale };
        match self.find {
            Find::Noise => {
                sought(self.scale, "--scale", "noise")?;
                let steps = counted(self.steps.unwrap_or(1))?;
                let found = calibrate::continuous(
                    "scale over sensitivity",
                    budget,
                    Careful::Large,
                    LAPLACE_RANGE,
                    |ratio| {
                        let scale = LaplaceScale::new(ratio * sensitivity.get())?;
                        Ok((scale.get(), repeated(step(scale), steps)))
                    },
                );
                let calibrated = found.map_err(Failure::bad_input)?;
                let words = format!("the smallest Laplace scale is {}", at_most(calibrated.value, FIGURES));
                Ok(Found::new("scale", calibrated, words))
            }
            Find::Steps => {
                sought(self.steps, "--steps", "steps")?;
                let scale = self.scale.ok_or_else(|| missing("--scale", "steps"))?;
                let scale = checked("--scale", scale, LaplaceScale::new)?;
                Found::steps(calibrate::steps(budget, |count| repeated(step(scale), at_least_one(count))))
            }
        }
    }
}

impl Pure {
    fn find(&self, budget: Budget) -> Result<Found, Failure> {
        let step = |epsilon| Event::PureDp { epsilon };
        match self.find {
            Find::Noise => {
                sought(self.epsilon_each, "--epsilon-each", "noise")?;
                let steps = counted(self.steps.unwrap_or(1))?;
                let found = calibrate::continuous(
                    "epsilon of each release",
                    budget,
                    Careful::Small,
                    PURE_RANGE,
                    |epsilon| Ok((epsilon, repeated(step(Epsilon::new(epsilon)?), steps))),
                );
                let calibrated = found.map_err(Failure::bad_input)?;
                let words =
                    format!("the largest epsilon of each release is {}", at_least(calibrated.value, FIGURES));
                Ok(Found::new("epsilon_each", calibrated, words))
            }
            Find::Steps => {
                sought(self.steps, "--steps", "steps")?;
                let epsilon = self.epsilon_each.ok_or_else(|| missing("--epsilon-each", "steps"))?;
                let epsilon = checked("--epsilon-each", epsilon, Epsilon::new)?;
                Found::steps(calibrate::steps(budget, |count| repeated(step(epsilon), at_least_one(count))))
            }
        }
    }
}

impl Sampled {
    fn find(
        &self,
        budget: Budget,
        batch: impl Fn(SamplingRate, NoiseMultiplier) -> Event,
    ) -> Result<Found, Failure> {
        let rate = || self.rate.map(|rate| rate.0);
        match self.find {
            FindSampled::Noise => {
                sought(self.noise_multiplier, "--noise-multiplier", "noise")?;
                let rate = rate().ok_or_else(|| missing("--rate", "noise"))?;
                let steps = counted(self.steps.ok_or_else(|| missing("--steps", "noise"))?)?;
                Found::noise(calibrate::noise_multiplier(budget, |noise| repeated(batch(rate, noise), steps)))
            }
            FindSampled::Steps => {
                sought(self.steps, "--steps", "steps")?;
                let rate = rate().ok_or_else(|| missing("--rate", "steps"))?;
                let noise = given_noise(self.noise_multiplier)?;
                Found::steps(calibrate::steps(budget, |count| {
                    repeated(batch(rate, noise), at_least_one(count))
                }))
            }
            FindSampled::Rate => {
                sought(rate(), "--rate", "rate")?;
                let noise = given_noise(self.noise_multiplier)?;
                let steps = counted(self.steps.ok_or_else(|| missing("--steps", "rate"))?)?;
                let found = calibrate::sampling_rate(budget, |rate| repeated(batch(rate, noise), steps));
                let calibrated = found.map_err(Failure::bad_input)?;
                let words =
                    format!("the largest sampling rate is {}", at_least(calibrated.value.get(), FIGURES));
                Ok(Found::new("rate", calibrated, words))
            }
        }
    }
}

fn given_noise(noise_multiplier: Option<f64>) -> Result<NoiseMultiplier, Failure> {
    let given = noise_multiplier.ok_or_else(|| {
        Failure::BadInput("--noise-multiplier is missing: only one thing can be found".to_owned())
    })?;
    checked("--noise-multiplier", given, NoiseMultiplier::new)
}

fn missing(option: &str, find: &str) -> Failure {
    Failure::BadInput(format!("{option} is missing: --find {find} needs it"))
}

/// What is to be found may not be given.
fn sought<T>(given: Option<T>, option: &str, find: &str) -> Result<(), Failure> {
    match given {
        None => Ok(()),
        Some(_) => Err(Failure::BadInput(format!(
            "{option} is given, but it is what --find {find} looks for; leave it out, or find something else"
        ))),
    }
}

fn at_least_one(count: u64) -> NonZeroU64 {
    NonZeroU64::new(count).unwrap_or(NonZeroU64::MIN)
}

impl Found {
    fn new<T: serde::Serialize>(key: &'static str, calibrated: Calibrated<T>, words: String) -> Self {
        let Calibrated { value, event, epsilon } = calibrated;
        Found { key, value: json!(value), words, calibrated: Calibrated { value: (), event, epsilon } }
    }

    fn noise(
        found: Result<Calibrated<NoiseMultiplier>, calibrate::CalibrationError>,
    ) -> Result<Self, Failure> {
        let calibrated = found.map_err(Failure::bad_input)?;
        let words = format!(
            "the smallest noise multiplier (standard deviation of the noise over the clip norm) is {}",
            at_most(calibrated.value.get(), FIGURES)
        );
        Ok(Found::new("noise_multiplier", calibrated, words))
    }

    fn steps(found: Result<Calibrated<u64>, calibrate::CalibrationError>) -> Result<Self, Failure> {
        let calibrated = found.map_err(Failure::bad_input)?;
        let words = format!("the largest number of steps is {}", whole(calibrated.value));
        Ok(Found::new("steps", calibrated, words))
    }
}

impl Allowed {
    /// What may be spent, with the place of the drawing checked before anything is sought.
    fn budget(&self) -> Result<Budget, Failure> {
        self.plot.check()?;
        check_delta(self.delta)?;
        Ok(Budget {
            epsilon: checked("--epsilon", self.epsilon, Epsilon::new)?,
            delta: checked("--delta", self.delta, Delta::new)?,
        })
    }

    fn tell(&self, budget: Budget, found: Found, json: bool) -> Result<(), Failure> {
        let Calibrated { event, epsilon, .. } = &found.calibrated;
        if self.plot.plot.is_some() {
            let profile = Profile::of(event).map_err(Failure::failed)?;
            self.plot.draw(&profile, (budget.epsilon.get(), budget.delta.get()))?;
        }
        let change = change_of(event).map_err(Failure::failed)?;
        if json {
            let mut answer = json!({
                "budget": { "epsilon": budget.epsilon, "delta": budget.delta },
                "epsilon": epsilon,
                "change": change,
                "event": event,
                "plot": self.plot.plot,
            });
            answer[found.key] = found.value;
            println!("{answer}");
            return Ok(());
        }
        let under = change_in_words(change, 1);
        let Budget { epsilon: allowed, delta } = budget;
        println!("For ({allowed}, {delta})-differential privacy {under},\n{}.", found.words);
        let [lower, upper] = ends(*epsilon);
        println!("\n  {:<23} {}", found.key.replace('_', " "), found.value);
        println!("  {:<23} between {lower} and {upper}", format!("epsilon at delta {delta}"));
        self.plot.announce();
        Ok(())
    }
}
