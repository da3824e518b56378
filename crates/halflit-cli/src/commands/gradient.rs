//! The options that fix parts of `noisy_gradient`.

use super::options::{count, number, positive_count};
use crate::Failure;
use clap::ValueEnum;
use halflit::figures::{declared, whole};
use halflit::mechanisms::noisy_gradient::Params;
use halflit::mechanisms::noisy_gradient::modes::{self, Constants};
use halflit::mechanisms::noisy_gradient::parts::{
    Average, Centre, Clip, Combiner, DescentChoice, PublicPart, Sampling, Start,
};
use halflit::noise::{Probability, Rational};
use halflit::table::PublicFacts;
use halflit::{MechanismError, PlanError};
use std::num::NonZeroU64;

/// Parts of `noisy_gradient` that may be fixed by hand: if one is, that is the mechanism. What is left out follows from declared constants, the noise and public rows.
#[derive(clap::Args)]
#[command(next_help_heading = "Parts of noisy_gradient (any of them selects it)")]
pub struct GradientOptions {
    /// A method by name; the options below are its constants.
    #[arg(long, value_enum)]
    method: Option<Method>,
    /// Let each unit take part in a step with this probability, as 1/64, 0.01 or 1e-2; on average at least one unit per step [default: everyone in every step].
    #[arg(long, value_name = "RATE", allow_negative_numbers = true)]
    sampling_rate: Option<String>,
    /// Let every unit take part in one step only, dealt into this many batches; at most as many as there are units.
    #[arg(long, value_name = "BATCHES", conflicts_with = "sampling_rate", value_parser = positive_count, allow_negative_numbers = true)]
    one_pass: Option<NonZeroU64>,
    /// Number of gradient steps, at most 10,000,000.
    #[arg(long, value_parser = count, allow_negative_numbers = true)]
    steps: Option<u64>,
    /// Largest norm of one unit's contribution, from 1e-9 to 1e9.
    #[arg(long, value_name = "NORM", allow_negative_numbers = true, value_parser = number)]
    clip_norm: Option<f64>,
    /// Measure the clip norm in every step: the norm that this share of the contributions stays below, from 0.001 to 0.999.
    #[arg(long, value_name = "SHARE", conflicts_with = "clip_norm", allow_negative_numbers = true, value_parser = number)]
    clip_quantile: Option<f64>,
    /// What is subtracted from a unit's gradient before it is clamped [default: the better one].
    #[arg(long, value_enum)]
    centre: Option<CentreName>,
    /// How much the hidden part of the gradient counts beside what follows from public columns, from 1e-9 to 1e9 [default: 1].
    #[arg(long, allow_negative_numbers = true, value_parser = number)]
    hidden_weight: Option<f64>,
    /// Take the known part of each unit in a step with this probability, drawn by itself [default: as often as the hidden part].
    #[arg(long, value_name = "RATE", allow_negative_numbers = true)]
    known_rate: Option<String>,
    /// Begin at zero or at the public rows' own fit.
    #[arg(long, value_enum)]
    start: Option<StartName>,
    /// Weight of the private gradient against the public rows' gradient, above 0 and at most 1, or `auto` [default: every row counts the same].
    #[arg(long, allow_negative_numbers = true)]
    alpha: Option<String>,
    /// Take this many public rows in a step, drawn anew [default: all].
    #[arg(long, value_name = "ROWS", value_parser = positive_count, allow_negative_numbers = true)]
    public_batch: Option<NonZeroU64>,
    /// Take public gradients as long as they are instead of rescaling them to the clip norm (paper-002-alg-1).
    #[arg(long)]
    keep_public_norms: bool,
    /// Length of a step, from 1e-9 to 1e9.
    #[arg(long, allow_negative_numbers = true, value_parser = number)]
    step_size: Option<f64>,
    /// Share of the velocity that survives a step, 0 or more and below 1.
    #[arg(long, allow_negative_numbers = true, value_parser = number)]
    momentum: Option<f64>,
    /// Which iterates are returned [default: the average of the second half; the last one of a named method].
    #[arg(long, value_enum)]
    average: Option<AverageName>,
    /// Each step spends this many times the squared mu of the one before, from 0.1 to 10 [default: 1].
    #[arg(long, allow_negative_numbers = true, value_parser = number)]
    budget_growth: Option<f64>,
}

/// A method by name.
#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum Method {
    /// Noisy gradient descent with full batches; public rows count like private ones.
    DpGd,
    /// Noisy stochastic gradient descent; public rows count like private ones. Needs --sampling-rate or --one-pass.
    DpSgd,
    /// Algorithm 1 of Lowy et al. 2024, from the public rows' own fit. Needs --alpha, and --sampling-rate or --one-pass.
    #[value(name = "paper-002-alg-1")]
    Paper002Alg1,
    /// Its accelerated variant (Appendix E.3.1). Needs --alpha and --one-pass.
    #[value(name = "paper-002-accelerated")]
    Paper002Accelerated,
    /// Algorithm 1 of Mahloujifar et al. 2023 (feature DP) for public columns, momentum 0.9 unless given. Needs --sampling-rate; --hidden-weight is its alpha.
    #[value(name = "paper-003-alg-1")]
    Paper003Alg1,
    /// Public-data-assisted mirror descent for linear regression.
    PdaMd,
    /// Newton steps from the public rows' own fit, with their curvature.
    Newton,
    /// The posterior of public rows and noisy gradients, for linear regression.
    Posterior,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum CentreName {
    Zero,
    Midrange,
    Imputed,
    PublicMean,
    LastRelease,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum StartName {
    Zero,
    PublicMinimizer,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum AverageName {
    Last,
    Uniform,
    Suffix,
    Weighted,
}

impl Method {
    /// The options that it has.
    fn options(self) -> &'static [&'static str] {
        match self {
            Method::DpGd => &[
                "--steps",
                "--clip-norm",
                "--clip-quantile",
                "--start",
                "--step-size",
                "--momentum",
                "--average",
                "--budget-growth",
            ],
            Method::DpSgd => &[
                "--sampling-rate",
                "--one-pass",
                "--steps",
                "--clip-norm",
                "--clip-quantile",
                "--start",
                "--step-size",
                "--momentum",
                "--average",
            ],
            Method::Paper002Alg1 => &[
                "--sampling-rate",
                "--one-pass",
                "--alpha",
                "--steps",
                "--clip-norm",
                "--clip-quantile",
                "--start",
                "--public-batch",
                "--keep-public-norms",
                "--step-size",
                "--momentum",
                "--average",
            ],
            Method::Paper002Accelerated => &[
                "--one-pass",
                "--alpha",
                "--steps",
                "--clip-norm",
                "--clip-quantile",
                "--start",
                "--public-batch",
            ],
            Method::Paper003Alg1 => &[
                "--sampling-rate",
                "--steps",
                "--clip-norm",
                "--clip-quantile",
                "--hidden-weight",
                "--known-rate",
                "--step-size",
                "--momentum",
                "--average",
            ],
            Method::PdaMd => &[
                "--sampling-rate",
                "--one-pass",
                "--steps",
                "--clip-norm",
                "--clip-quantile",
                "--start",
                "--step-size",
                "--average",
            ],
            Method::Newton => &["--steps", "--clip-norm", "--clip-quantile", "--centre", "--budget-growth"],
            Method::Posterior => &["--steps", "--budget-growth"],
        }
    }
}

/// A constant that a method has no default for.
struct Needed {
    /// Any of these gives it.
    options: &'static [&'static str],
    /// What to write.
    example: &'static str,
}

const BATCHES: Needed = Needed {
    options: &["--sampling-rate", "--one-pass"],
    example: "batches (--sampling-rate, such as 1/64, or --one-pass, such as 100)",
};
const POISSON_BATCHES: Needed =
    Needed { options: &["--sampling-rate"], example: "batches (--sampling-rate, such as 1/64)" };
const ONE_PASS: Needed = Needed { options: &["--one-pass"], example: "one pass (--one-pass, such as 100)" };
const ALPHA: Needed = Needed {
    options: &["--alpha"],
    example: "the weight of the private gradient (--alpha, a number from 1e-6 to 1, such as 0.5)",
};

impl Method {
    /// The constants that must be given.
    fn needed(self) -> &'static [Needed] {
        match self {
            Method::DpSgd => &[BATCHES],
            Method::Paper002Alg1 => &[BATCHES, ALPHA],
            Method::Paper002Accelerated => &[ONE_PASS, ALPHA],
            Method::Paper003Alg1 => &[POISSON_BATCHES],
            Method::DpGd | Method::PdaMd | Method::Newton | Method::Posterior => &[],
        }
    }
}

/// Generous on purpose: it stops slips such as 10^9 before they are paid for, and nothing else.
const MOST_STEPS: u64 = 10_000_000;

/// Momentum of Algorithm 1 of Mahloujifar et al. 2023, as in their experiments.
const FEATURE_DP_MOMENTUM: f64 = 0.9;

impl GradientOptions {
    /// The fixed parts, with every number checked; the default if nothing is fixed.
    pub fn params(&self, facts: &PublicFacts) -> Result<Params, Failure> {
        self.check_counts(facts)?;
        for (name, value, low, high) in [
            ("--clip-norm", self.clip_norm, 1e-9, 1e9),
            ("--clip-quantile", self.clip_quantile, 0.001, 0.999),
            ("--hidden-weight", self.hidden_weight, 1e-9, 1e9),
            ("--step-size", self.step_size, 1e-9, 1e9),
            ("--budget-growth", self.budget_growth, 0.1, 10.0),
        ] {
            if let Some(value) = value.filter(|value| !(low..=high).contains(value)) {
                let [value, low, high] = [value, low, high].map(declared);
                return refused(format!("{name} {value}: must be a number from {low} to {high}"));
            }
        }
        if let Some(momentum) = self.momentum.filter(|momentum| !(0.0..1.0).contains(momentum)) {
            return refused(format!("--momentum {momentum}: must be at least 0 and below 1, such as 0.9"));
        }
        if self.keep_public_norms && self.method != Some(Method::Paper002Alg1) {
            return refused("--keep-public-norms: only --method paper-002-alg-1 rescales public gradients");
        }
        let mut params = match self.method {
            Some(method) => self.method_params(method)?,
            None => self.open_params()?,
        };
        params.centre = self.centre().or(params.centre);
        params.hidden_weight = self.hidden_weight.or(params.hidden_weight);
        let known_rate = self.known_rate.as_deref().map(|text| rate("--known-rate", text)).transpose()?;
        params.known_rate = known_rate.or(params.known_rate);
        params.clip = self.clip_quantile.map(|level| Clip::Quantile { level }).or(params.clip);
        params.budget_growth = self.budget_growth.or(params.budget_growth);
        Ok(params)
    }

    /// Refuses counts that no run would come to the end of, or that leave most steps without anybody.
    fn check_counts(&self, facts: &PublicFacts) -> Result<(), Failure> {
        let (units, public_rows) = (facts.private_units, facts.public_rows);
        let batches = match (&self.sampling_rate, self.one_pass) {
            (Some(rate), _) => Some(format!("--sampling-rate {rate}")),
            (None, batches) => batches.map(|batches| format!("--one-pass {batches}")),
        };
        match self {
            Self { budget_growth: Some(growth), .. } if *growth != 1.0 && batches.is_some() => {
                return refused(format!(
                    "--budget-growth {}: steps on batches must all spend the same, and {} asks for batches; leave out one of the two",
                    declared(*growth),
                    batches.unwrap_or_default()
                ));
            }
            Self { one_pass: Some(batches), steps: Some(steps), .. } if *steps > batches.get() => {
                return refused(format!(
                    "--steps {steps}: --one-pass {batches} deals the units into {batches} batches, one for each step; give at most --steps {batches}, or more batches"
                ));
            }
            Self { steps: Some(0), .. } => {
                return refused("--steps 0: must be at least 1; leave it out to have it chosen");
            }
            Self { steps: Some(steps), .. } if *steps > MOST_STEPS => {
                return refused(format!(
                    "--steps {steps}: must be at most {}; leave it out to have it chosen",
                    whole(MOST_STEPS)
                ));
            }
            Self { one_pass: Some(batches), .. } if batches.get() > units => {
                return refused(format!(
                    "--one-pass {batches}: there are {} units to deal into batches, and some would be empty; give at most that many",
                    whole(units)
                ));
            }
            Self { public_batch: Some(rows), .. } if public_rows > 0 && rows.get() > public_rows => {
                return refused(format!(
                    "--public-batch {rows}: there are {} public rows; give at most that many",
                    whole(public_rows)
                ));
            }
            _ => {}
        }
        let Some(text) = &self.sampling_rate else { return Ok(()) };
        let rate = rate("--sampling-rate", text)?.ratio();
        let expected = u128::from(rate.numerator()) * u128::from(units);
        if expected < u128::from(rate.denominator().get()) {
            return refused(format!(
                "--sampling-rate {text}: with {} units a step would have fewer than one of them on average; give at least 1/{units}",
                whole(units)
            ));
        }
        Ok(())
    }

    /// Why nothing could be planned, in terms of the option that is to blame where that is known.
    pub fn explained(&self, error: &PlanError) -> Failure {
        match (error, self.budget_growth) {
            // Only a growth spreads the budget so thin that the noise of some step has no number.
            (
                PlanError::Mechanism(
                    MechanismError::Lattice(_)
                    | MechanismError::Parameter(_)
                    | MechanismError::NotPositive { .. },
                ),
                Some(growth),
            ) if growth != 1.0 => Failure::BadInput(format!(
                "--budget-growth {growth}: over that many steps it leaves next to nothing for some of them; give a number nearer to 1, or fewer --steps ({error})"
            )),
            _ => Failure::bad_input(error),
        }
    }

    /// The options that are given, besides the method.
    fn given(&self) -> Vec<&'static str> {
        [
            ("--sampling-rate", self.sampling_rate.is_some()),
            ("--one-pass", self.one_pass.is_some()),
            ("--steps", self.steps.is_some()),
            ("--clip-norm", self.clip_norm.is_some()),
            ("--clip-quantile", self.clip_quantile.is_some()),
            ("--centre", self.centre.is_some()),
            ("--hidden-weight", self.hidden_weight.is_some()),
            ("--known-rate", self.known_rate.is_some()),
            ("--start", self.start.is_some()),
            ("--alpha", self.alpha.is_some()),
            ("--public-batch", self.public_batch.is_some()),
            ("--keep-public-norms", self.keep_public_norms),
            ("--step-size", self.step_size.is_some()),
            ("--momentum", self.momentum.is_some()),
            ("--average", self.average.is_some()),
            ("--budget-growth", self.budget_growth.is_some()),
        ]
        .into_iter()
        .filter_map(|(option, is_given)| is_given.then_some(option))
        .collect()
    }

    /// The constants of a method.
    fn constants(&self) -> Result<Constants, Failure> {
        Ok(Constants {
            steps: self.steps.and_then(NonZeroU64::new),
            step_size: self.step_size,
            clip_norm: self.clip_norm,
            sampling: self.sampling()?.unwrap_or_default(),
            public_batch: self.public_batch,
            start: self.start().unwrap_or_default(),
            average: self.average().unwrap_or(Average::Last),
        })
    }

    fn method_params(&self, method: Method) -> Result<Params, Failure> {
        let constants = self.constants()?;
        let warm = Constants { start: self.start().unwrap_or(Start::PublicMinimizer), ..constants };
        let name = method.to_possible_value().map_or_else(String::new, |name| name.get_name().to_owned());
        let alpha = || match self.alpha.as_deref().map(combiner).transpose()? {
            Some(Combiner::Constant { alpha }) => Ok(alpha),
            _ => refused(format!(
                "--alpha auto: --method {name} needs a number from 1e-6 to 1, the weight of the private gradient, such as --alpha 0.5"
            )),
        };
        let given = self.given();
        if let Some(option) = given.iter().find(|option| !method.options().contains(option)) {
            return refused(format!(
                "{option}: --method {name} has no such part; its parts are {}; or leave out --method",
                method.options().join(", ")
            ));
        }
        let missing: Vec<&str> = method
            .needed()
            .iter()
            .filter(|constant| constant.options.iter().all(|option| !given.contains(option)))
            .map(|constant| constant.example)
            .collect();
        if !missing.is_empty() {
            return refused(format!("--method {name} needs {}", missing.join(", and ")));
        }
        let params = match method {
            Method::DpGd | Method::DpSgd => constants.dp_sgd(),
            Method::Paper002Alg1 if self.keep_public_norms => {
                let public = PublicPart::Mean { batch: self.public_batch, rescaled: false };
                Params { public: Some(public), ..warm.algorithm_1(alpha()?) }
            }
            Method::Paper002Alg1 => warm.algorithm_1(alpha()?),
            Method::Paper002Accelerated => warm.accelerated(alpha()?),
            Method::Paper003Alg1 => constants
                .feature_dp(self.hidden_weight.unwrap_or(1.0), self.momentum.unwrap_or(FEATURE_DP_MOMENTUM)),
            Method::PdaMd => warm.pda_md(None),
            Method::Newton => Params {
                start: Some(Start::PublicMinimizer),
                descent: Some(DescentChoice::Newton),
                ..self.steps_and_clip()
            },
            Method::Posterior => Params { steps: self.steps, ..modes::posterior() },
        };
        Ok(match (params.descent, self.momentum) {
            (Some(DescentChoice::Momentum { step_size, average, .. }), Some(_)) => {
                let descent = DescentChoice::Momentum { step_size, momentum: self.momentum, average };
                Params { descent: Some(descent), ..params }
            }
            _ => params,
        })
    }

    /// What is fixed without a method's name.
    fn open_params(&self) -> Result<Params, Failure> {
        let has_descent = self.step_size.is_some() || self.momentum.is_some() || self.average.is_some();
        Ok(Params {
            sampling: self.sampling()?,
            start: self.start(),
            combiner: self.alpha.as_deref().map(combiner).transpose()?,
            public: self.public_batch.map(|batch| PublicPart::Mean { batch: Some(batch), rescaled: false }),
            descent: has_descent.then_some(DescentChoice::Momentum {
                step_size: self.step_size,
                momentum: self.momentum,
                average: self.average().unwrap_or(Average::Suffix),
            }),
            ..self.steps_and_clip()
        })
    }

    fn steps_and_clip(&self) -> Params {
        Params {
            steps: self.steps,
            clip: self.clip_norm.map(|norm| Clip::Fixed { norm }),
            ..Params::default()
        }
    }

    fn sampling(&self) -> Result<Option<Sampling>, Failure> {
        if let Some(batches) = self.one_pass {
            return Ok(Some(Sampling::OnePass { batches }));
        }
        let rate = self.sampling_rate.as_deref().map(|text| rate("--sampling-rate", text)).transpose()?;
        Ok(rate.map(Sampling::Poisson))
    }

    fn centre(&self) -> Option<Centre> {
        self.centre.map(|centre| match centre {
            CentreName::Zero => Centre::Zero,
            CentreName::Midrange => Centre::Midrange,
            CentreName::Imputed => Centre::Imputed,
            CentreName::PublicMean => Centre::PublicMean,
            CentreName::LastRelease => Centre::LastRelease,
        })
    }

    fn start(&self) -> Option<Start> {
        self.start.map(|start| match start {
            StartName::Zero => Start::Zero,
            StartName::PublicMinimizer => Start::PublicMinimizer,
        })
    }

    fn average(&self) -> Option<Average> {
        self.average.map(|average| match average {
            AverageName::Last => Average::Last,
            AverageName::Uniform => Average::Uniform,
            AverageName::Suffix => Average::Suffix,
            AverageName::Weighted => Average::Weighted,
        })
    }
}

fn refused<T>(message: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::BadInput(message.into()))
}

fn combiner(text: &str) -> Result<Combiner, Failure> {
    if text == "auto" {
        return Ok(Combiner::Automatic);
    }
    match text.parse() {
        Ok(alpha) if (LEAST_ALPHA..=1.0).contains(&alpha) => Ok(Combiner::Constant { alpha }),
        Ok(alpha) if (0.0..LEAST_ALPHA).contains(&alpha) => refused(format!(
            "--alpha {text}: must be a number from 1e-6 to 1, or auto; the budget would buy private gradients that count nothing (the public rows alone: \
             --mechanism public_rows, which is free)"
        )),
        _ => refused(format!("--alpha {text}: must be a number from 1e-6 to 1, or auto")),
    }
}

/// Less is nothing.
const LEAST_ALPHA: f64 = 1e-6;

fn rate(option: &str, text: &str) -> Result<Probability, Failure> {
    let allowed = "must be a ratio such as 1/64 or a decimal such as 0.01 or 1e-2, above 0 and at most 1";
    let written = without_exponent(text).unwrap_or_else(|| text.to_owned());
    let ratio = written.parse::<Rational>().ok().filter(|ratio| ratio.numerator() > 0);
    match ratio.map(Probability::try_from) {
        Some(Ok(rate)) => Ok(rate),
        _ => refused(format!("{option} {text}: {allowed}")),
    }
}

/// `1e-2` and `2.5e-3` as ratios of whole numbers, exactly; none for anything else, and where the digits do not fit.
fn without_exponent(text: &str) -> Option<String> {
    let (mantissa, exponent) = text.split_once(['e', 'E'])?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits: u64 = format!("{whole}{fraction}").parse().ok()?;
    let power = exponent.parse::<i32>().ok()?.checked_sub(i32::try_from(fraction.len()).ok()?)?;
    let scale = 10u64.checked_pow(power.unsigned_abs())?;
    match power {
        0.. => Some(format!("{}/1", digits.checked_mul(scale)?)),
        _ => Some(format!("{digits}/{scale}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_may_have_an_exponent() {
        for (text, ratio) in
            [("1e-2", "1/100"), ("2.5e-3", "25/10000"), ("1E0", "1/1"), ("0.5e0", "5/10"), ("1e-2", "0.01")]
        {
            let read = rate("--sampling-rate", text).unwrap_or_else(|_| panic!("{text}"));
            assert_eq!(read, ratio.parse::<Rational>().unwrap().try_into().unwrap(), "{text}");
        }
        for wrong in ["1e1", "e-2", "1e", "1e-99", "-1e-2", "1e-2e-2", "0e-1", "1/1e2", "NaN", ""] {
            assert!(rate("--sampling-rate", wrong).is_err(), "{wrong}");
        }
    }
}
