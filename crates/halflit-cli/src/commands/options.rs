//! The options of planning, shared by `plan` and `train`.

use crate::Failure;
use crate::commands::gradient::GradientOptions;
use halflit::Request;
use halflit::table::Budget;

/// What may be fixed by hand; everything else is chosen from public facts.
#[derive(clap::Args)]
pub struct PlanOptions {
    /// Spend at most this epsilon in this release [default: the declared budget].
    #[arg(long, allow_negative_numbers = true)]
    epsilon: Option<f64>,
    /// With this delta; 0 asks for pure differential privacy [default: the declared budget].
    #[arg(long, allow_negative_numbers = true)]
    delta: Option<f64>,
    /// Take this mechanism instead of the one with the smallest predicted error.
    #[arg(long, value_name = "NAME")]
    mechanism: Option<String>,
    #[command(flatten)]
    gradient: GradientOptions,
}

impl PlanOptions {
    /// The request, with every number checked.
    pub fn request(&self, declared: Budget) -> Result<Request, Failure> {
        let budget = budget(self.epsilon, self.delta, declared)?;
        Ok(Request {
            budget: Some(budget),
            mechanism: self.mechanism.clone(),
            gradient: self.gradient.params()?,
        })
    }
}

/// The budget of one release: what was asked for, else what was declared.
pub fn budget(epsilon: Option<f64>, delta: Option<f64>, declared: Budget) -> Result<Budget, Failure> {
    let epsilon = epsilon.unwrap_or(declared.epsilon);
    let delta = delta.unwrap_or(declared.delta);
    if !(epsilon.is_finite() && epsilon > 0.0) {
        return Err(Failure::BadInput(format!(
            "--epsilon {epsilon}: must be a finite number above 0, such as 0.5"
        )));
    }
    if !(0.0..1.0).contains(&delta) {
        return Err(Failure::BadInput(format!(
            "--delta {delta}: must be at least 0 and below 1, such as 1e-6, or 0 for pure differential privacy"
        )));
    }
    Ok(Budget { epsilon, delta })
}
