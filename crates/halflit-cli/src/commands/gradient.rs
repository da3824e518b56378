//! The options that fix parts of `noisy_gradient`.

use crate::Failure;
use halflit::mechanisms::noisy_gradient::parts::{
    Average, Centre, Clip, Combiner, Descent, PublicPart, Sampling, Start,
};
use halflit::mechanisms::noisy_gradient::{Params, modes};
use std::num::NonZeroU64;

/// Parts of `noisy_gradient` that may be fixed by hand; each needs what its description says.
#[derive(clap::Args)]
#[command(next_help_heading = "Parts of noisy_gradient")]
pub struct GradientOptions {
    /// A method by name; the options below change its parts.
    #[arg(long, value_enum)]
    method: Option<Method>,
    /// What is subtracted from a unit's gradient before it is clamped [default: the better one].
    #[arg(long, value_enum)]
    centre: Option<CentreName>,
    /// How much the hidden part of the gradient counts beside what follows from public columns [default: 1].
    #[arg(long, allow_negative_numbers = true)]
    hidden_weight: Option<f64>,
    /// Begin at zero or at the public rows' own fit.
    #[arg(long, value_enum)]
    start: Option<StartName>,
    /// Weight of the private gradient against the public rows' gradient, 0 to 1, or `auto` [default: every row counts the same].
    #[arg(long)]
    alpha: Option<String>,
    /// Measure the clip norm in every step: the norm that this share of the contributions stays below.
    #[arg(long, value_name = "SHARE", conflicts_with = "clip_norm", allow_negative_numbers = true)]
    clip_quantile: Option<f64>,
    /// Let every unit take part in one step only, dealt into this many batches.
    #[arg(long, value_name = "BATCHES", conflicts_with = "sampling_rate")]
    one_pass: Option<NonZeroU64>,
    /// Take this many public rows in a step, drawn anew [default: all].
    #[arg(long, value_name = "ROWS")]
    public_batch: Option<NonZeroU64>,
    /// Length of a step [default: from the constants].
    #[arg(long, allow_negative_numbers = true)]
    step_size: Option<f64>,
    /// Which iterates are returned [default: the average of the second half].
    #[arg(long, value_enum)]
    average: Option<AverageName>,
    /// Each step spends this many times the squared mu of the one before [default: 1].
    #[arg(long, allow_negative_numbers = true)]
    budget_growth: Option<f64>,
}

/// A method by name.
#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum Method {
    /// Full-batch noisy gradient descent, last iterate.
    DpGd,
    /// Noisy stochastic gradient descent; give --sampling-rate.
    DpSgd,
    /// Algorithm 1 of Lowy et al. 2024; give --sampling-rate (or --one-pass), --public-batch and --alpha.
    #[value(name = "paper-002-alg-1")]
    Paper002Alg1,
    /// Algorithm 1 of Mahloujifar et al. 2023 (feature DP) for public columns, momentum 0.9; give --sampling-rate and --clip-norm.
    #[value(name = "paper-003-alg-1")]
    Paper003Alg1,
    /// Public-data-assisted mirror descent for linear regression; give --sampling-rate.
    PdaMd,
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

/// Regularization of the public second moments in PDA-MD, as in its authors' experiments.
const RIDGE: f64 = 0.01;

/// Step size of a named method when none is given: safe for rows of norm 1 and curvature 1.
const STEP_SIZE: f64 = 0.5;

impl GradientOptions {
    /// The centre, if it is fixed.
    pub fn centre(&self) -> Option<Centre> {
        self.centre.map(|centre| match centre {
            CentreName::Zero => Centre::Zero,
            CentreName::Midrange => Centre::Midrange,
            CentreName::Imputed => Centre::Imputed,
            CentreName::PublicMean => Centre::PublicMean,
            CentreName::LastRelease => Centre::LastRelease,
        })
    }

    /// The fixed parts, with every number checked; none if nothing is fixed.
    pub fn params(&self) -> Result<Option<Params>, Failure> {
        let mut params = self.method.map(|method| self.method_params(method)).unwrap_or_default();
        if let Some(start) = self.start {
            params.start = Some(match start {
                StartName::Zero => Start::Zero,
                StartName::PublicMinimizer => Start::PublicMinimizer,
            });
        }
        if let Some(weight) = self.hidden_weight {
            if !(weight.is_finite() && weight > 0.0) {
                return Err(Failure::BadInput(format!(
                    "--hidden-weight {weight}: must be a finite number above 0"
                )));
            }
            params.hidden_weight = Some(weight);
        }
        if let Some(alpha) = &self.alpha {
            params.combiner = Some(combiner(alpha)?);
        }
        if let Some(level) = self.clip_quantile {
            if !(level > 0.0 && level < 1.0) {
                return Err(Failure::BadInput(format!(
                    "--clip-quantile {level}: must lie strictly between 0 and 1, such as 0.8"
                )));
            }
            params.clip = Some(Clip::Quantile { level });
        }
        if let Some(batches) = self.one_pass {
            params.sampling = Some(Sampling::OnePass { batches });
        }
        if self.public_batch.is_some() {
            params.public =
                Some(PublicPart { batch: self.public_batch, ..params.public.unwrap_or_default() });
        }
        if let Some(value) = self.step_size.filter(|size| !(size.is_finite() && *size > 0.0)) {
            return Err(Failure::BadInput(format!("--step-size {value}: must be a finite number above 0")));
        }
        if params.descent.is_none() && (self.step_size.is_some() || self.average.is_some()) {
            params.descent = Some(self.plain_descent());
        }
        if let Some(growth) = self.budget_growth {
            if !(growth.is_finite() && growth > 0.0) {
                return Err(Failure::BadInput(format!(
                    "--budget-growth {growth}: must be a finite number above 0"
                )));
            }
            params.budget_growth = Some(growth);
        }
        Ok((params != Params::default()).then_some(params))
    }

    fn method_params(&self, method: Method) -> Params {
        let descent = Some(self.plain_descent());
        let centre = Some(Centre::Zero);
        let rescaled = Some(PublicPart { batch: None, rescaled: true });
        match method {
            Method::Posterior => modes::posterior(),
            Method::DpGd | Method::DpSgd => Params { centre, descent, ..Params::default() },
            Method::Paper002Alg1 => {
                let combiner = Some(Combiner::Constant { alpha: 0.5 });
                let start = Some(Start::PublicMinimizer);
                Params { centre, descent, combiner, start, public: rescaled, ..Params::default() }
            }
            Method::Paper003Alg1 => Params {
                centre: Some(Centre::Imputed),
                descent: Some(Descent::Momentum {
                    step_size: self.step_size.unwrap_or(STEP_SIZE),
                    momentum: 0.9,
                    average: self.average_or(Average::Last),
                }),
                ..Params::default()
            },
            Method::PdaMd => Params {
                centre,
                start: Some(Start::PublicMinimizer),
                combiner: Some(Combiner::Constant { alpha: 1.0 }),
                descent: Some(Descent::Preconditioned {
                    step_size: self.step_size.unwrap_or(STEP_SIZE),
                    ridge: RIDGE,
                    average: self.average_or(Average::Last),
                }),
                ..Params::default()
            },
        }
    }

    fn plain_descent(&self) -> Descent {
        Descent::Momentum {
            step_size: self.step_size.unwrap_or(STEP_SIZE),
            momentum: 0.0,
            average: self.average_or(Average::Last),
        }
    }

    fn average_or(&self, default: Average) -> Average {
        self.average.map_or(default, |average| match average {
            AverageName::Last => Average::Last,
            AverageName::Uniform => Average::Uniform,
            AverageName::Suffix => Average::Suffix,
            AverageName::Weighted => Average::Weighted,
        })
    }
}

fn combiner(text: &str) -> Result<Combiner, Failure> {
    if text == "auto" {
        return Ok(Combiner::Automatic);
    }
    match text.parse() {
        Ok(alpha) if (0.0..=1.0).contains(&alpha) => Ok(Combiner::Constant { alpha }),
        _ => Err(Failure::BadInput(format!("--alpha {text}: must be a number from 0 to 1, or auto"))),
    }
}
