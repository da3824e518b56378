//! The options of planning, shared by `plan` and `train`.

use crate::Failure;
use crate::commands::gradient::GradientOptions;
use halflit::figures;
use halflit::table::Budget;
use halflit::{Plans, Problem, Request, Watch};
use std::num::NonZeroU64;

/// What may be fixed by hand; everything else is chosen from public facts.
#[derive(clap::Args)]
pub struct PlanOptions {
    /// Spend at most this epsilon in this release, above 0 and at most 1e9 [default: the declared budget].
    #[arg(long, allow_negative_numbers = true, value_parser = number)]
    epsilon: Option<f64>,
    /// With this delta, at most 0.5; 0 asks for pure differential privacy [default: the declared budget].
    #[arg(long, allow_negative_numbers = true, value_parser = number)]
    delta: Option<f64>,
    /// Take this mechanism instead of the one with the smallest predicted error; halflit plan lists them.
    #[arg(long, value_name = "NAME")]
    mechanism: Option<String>,
    #[command(flatten)]
    gradient: GradientOptions,
}

impl PlanOptions {
    /// Everything that can be done about the problem, with every option checked.
    pub fn plans(&self, problem: Problem, watch: &mut dyn Watch) -> Result<Plans, Failure> {
        let budget = budget(self.epsilon, self.delta, problem.budget())?;
        let request = Request {
            budget: Some(budget),
            mechanism: self.mechanism.clone(),
            gradient: self.gradient.params(problem.facts())?,
        };
        Plans::watched(problem, &request, watch).map_err(|error| self.gradient.explained(&error))
    }
}

/// A count on the command line.
pub fn count(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| "give a whole number in plain digits, such as 2000".to_owned())
}

/// A count on the command line that cannot be zero.
pub fn positive_count(text: &str) -> Result<NonZeroU64, String> {
    let refused = || "give a whole number of at least 1 in plain digits, such as 100".to_owned();
    count(text).ok().and_then(NonZeroU64::new).ok_or_else(refused)
}

/// A number on the command line.
pub fn number(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| "give a number, such as 0.5 or 1e-6".to_owned())
}

/// The budget of one release: what was asked for, else what was declared.
pub fn budget(epsilon: Option<f64>, delta: Option<f64>, declared: Budget) -> Result<Budget, Failure> {
    let epsilon = epsilon.unwrap_or(declared.epsilon);
    let delta = delta.unwrap_or(declared.delta);
    if !(epsilon > 0.0 && epsilon <= Budget::MOST_EPSILON) {
        return Err(Failure::BadInput(format!(
            "--epsilon {}: must be a number above 0 and at most 1e9, such as 0.5",
            figures::declared(epsilon)
        )));
    }
    check_delta(delta)?;
    Ok(Budget { epsilon, delta })
}

/// Refuses a delta that promises nothing.
pub fn check_delta(delta: f64) -> Result<(), Failure> {
    if (0.0..=Budget::MOST_DELTA).contains(&delta) {
        return Ok(());
    }
    Err(Failure::BadInput(format!(
        "--delta {}: must be at least 0 and at most {}, such as 1e-6, or 0 for pure differential privacy; a promise that may fail more often than not \
         promises nothing",
        figures::declared(delta),
        Budget::MOST_DELTA
    )))
}
