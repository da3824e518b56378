//! The options of planning, shared by `plan` and `train`.

use crate::Failure;
use crate::commands::gradient::GradientOptions;
use halflit::Request;
use halflit::noise::{Probability, Rational};
use halflit::table::Budget;

/// What may be fixed by hand; everything else is chosen from public facts.
#[derive(clap::Args)]
pub struct PlanOptions {
    /// Spend at most this epsilon in this release [default: the declared budget].
    #[arg(long, allow_negative_numbers = true)]
    epsilon: Option<f64>,
    /// With this delta [default: the declared budget].
    #[arg(long, allow_negative_numbers = true)]
    delta: Option<f64>,
    /// Take this mechanism instead of the one with the smallest predicted error.
    #[arg(long, value_name = "NAME")]
    mechanism: Option<String>,
    /// Let each unit take part in a step with this probability, as 1/64 or 0.01 [default: everyone in every step].
    #[arg(long, value_name = "RATE")]
    sampling_rate: Option<String>,
    /// Number of gradient steps [default: from the constants].
    #[arg(long)]
    steps: Option<u64>,
    /// Largest norm of one unit's contribution [default: from the constants].
    #[arg(long, value_name = "NORM", allow_negative_numbers = true)]
    clip_norm: Option<f64>,
    #[command(flatten)]
    gradient: GradientOptions,
}

impl PlanOptions {
    /// The request, with every number checked.
    pub fn request(&self, declared: Budget) -> Result<Request, Failure> {
        let budget = budget(self.epsilon, self.delta, declared)?;
        if self.steps == Some(0) {
            return Err(Failure::BadInput(
                "--steps 0: must be at least 1; leave it out to have it chosen".to_owned(),
            ));
        }
        if let Some(norm) = self.clip_norm.filter(|norm| !(norm.is_finite() && *norm > 0.0)) {
            return Err(Failure::BadInput(format!("--clip-norm {norm}: must be a finite number above 0")));
        }
        let sampling_rate = self.sampling_rate.as_deref().map(rate).transpose()?;
        Ok(Request {
            budget: Some(budget),
            mechanism: self.mechanism.clone(),
            centre: self.gradient.centre(),
            sampling_rate,
            steps: self.steps,
            clip_norm: self.clip_norm,
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
    if !(delta > 0.0 && delta < 1.0) {
        return Err(Failure::BadInput(format!(
            "--delta {delta}: must lie strictly between 0 and 1, such as 1e-6"
        )));
    }
    Ok(Budget { epsilon, delta })
}

fn rate(text: &str) -> Result<Probability, Failure> {
    let refused = || {
        Failure::BadInput(format!(
            "--sampling-rate {text}: must be a ratio such as 1/64 or a decimal such as 0.01, above 0 and at most 1"
        ))
    };
    let ratio: Rational = text.parse().map_err(|_| refused())?;
    if ratio.numerator() == 0 {
        return Err(refused());
    }
    Probability::try_from(ratio).map_err(|_| refused())
}
