//! The replaceable parts of the split gradient: centre, sampling, clip rule, combiner, public part, start, descent.
//!
//! Each is a small choice with a name; [`super::Params`] may fix any of them, and a certificate states all of them. None may depend
//! on a private cell: they are fixed before the key exists.

use halflit_noise::Probability;
use serde::{Deserialize, Serialize};
use std::num::NonZeroU64;

/// What is subtracted from a unit's gradient before it is clamped, and added back exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Centre {
    /// Nothing.
    Zero,
    /// The middle of the values that the gradient's coefficient can take over the sensitive cells, times the public features.
    Midrange,
    /// The gradient of the row with its sensitive cells filled in: with what public rows have on average, or with the middle of their domain.
    Imputed,
    /// The mean gradient of the public rows: one vector for all units.
    PublicMean,
    /// The previous noisy estimate of the mean gradient: one vector for all units.
    LastRelease,
}

impl Centre {
    /// The centre by name, as in certificates.
    pub fn name(self) -> &'static str {
        match self {
            Centre::Zero => "zero",
            Centre::Midrange => "midrange",
            Centre::Imputed => "imputed",
            Centre::PublicMean => "public-mean",
            Centre::LastRelease => "last-release",
        }
    }

    /// Whether all units share one centre vector.
    pub(super) fn is_common(self) -> bool {
        matches!(self, Centre::PublicMean | Centre::LastRelease)
    }
}

/// Which units take part in a step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Sampling {
    /// All of them, in every step.
    #[default]
    FullBatch,
    /// Each one independently with this probability, anew in every step.
    Poisson(Probability),
    /// Each one in exactly one step: the units are dealt at random into this many batches, one batch per step.
    OnePass {
        /// Number of batches, which is the number of steps.
        batches: NonZeroU64,
    },
}

impl Sampling {
    /// The expected share of the units that take part in a step.
    pub fn share(self) -> f64 {
        match self {
            Sampling::FullBatch => 1.0,
            Sampling::Poisson(rate) => rate.ratio().to_f64(),
            Sampling::OnePass { batches } => 1.0 / batches.get() as f64,
        }
    }
}

/// The largest norm of a unit's hidden contribution.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "rule", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Clip {
    /// The same in every step.
    Fixed {
        /// The norm.
        norm: f64,
    },
    /// The quantile of the contributions' norms, measured in every step by a noisy histogram of the same batch.
    Quantile {
        /// Share of the contributions that should stay unclipped.
        level: f64,
    },
    /// The scale of the residuals, measured in every step by a noisy histogram of the same batch, times a factor that balances
    /// clipping against noise. Regression only.
    ResidualScale,
}

impl Clip {
    /// Whether every step releases a histogram of norms besides the gradient.
    pub fn is_measured(self) -> bool {
        !matches!(self, Clip::Fixed { .. })
    }
}

/// How the private and the public mean gradient become one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "rule", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Combiner {
    /// By their weights in the objective: every row counts the same.
    Sum,
    /// alpha * private + (1 - alpha) * public.
    Constant {
        /// alpha.
        alpha: f64,
    },
    /// The alpha that minimises the variance of the combination, from the noise and the spread of the public gradients, anew in every
    /// step (Lowy et al. 2024, Proposition 8).
    Automatic,
}

/// What is taken from the public rows in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "rule", rename_all = "kebab-case", deny_unknown_fields)]
pub enum PublicPart {
    /// Their mean gradient, without noise.
    Mean {
        /// How many of them, drawn anew in every step; all if not said.
        batch: Option<NonZeroU64>,
        /// Whether every public gradient is rescaled to the clip norm.
        rescaled: bool,
    },
    /// Nothing special: they are drawn and clipped like private rows, and the noise is what it would be if they were.
    AsPrivate,
}

impl Default for PublicPart {
    fn default() -> Self {
        PublicPart::Mean { batch: None, rescaled: false }
    }
}

/// Where the descent begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// At zero.
    #[default]
    Zero,
    /// At the minimizer of the public rows' penalised mean loss.
    PublicMinimizer,
}

/// Which iterates are returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Average {
    /// The last one.
    Last,
    /// The average of all.
    Uniform,
    /// The average of the second half.
    Suffix,
    /// The average with weights growing like the step's number (Rakhlin, Shamir, Sridharan 2012; Shamir and Zhang 2013).
    Weighted,
}

/// How estimates of the gradient become weights.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "rule", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Descent {
    /// v <- m v + gradient; w <- w - step v.
    Momentum {
        /// Length of a step along the velocity.
        step_size: f64,
        /// Share of the velocity that survives a step.
        momentum: f64,
        /// What is returned.
        average: Average,
    },
    /// Plain steps along the gradient times (X^T X / n + r I)^-1 of the public rows, scaled to largest eigenvalue 1 (Amid et al. 2022).
    Preconditioned {
        /// Length of a step.
        step_size: f64,
        /// r.
        ridge: f64,
        /// What is returned.
        average: Average,
    },
    /// Newton steps with the curvature of the public rows, damped as far as the public fit is more certain than the noisy gradients.
    Newton {
        /// Standard deviation of the noise on every coordinate of a mean gradient.
        noise: f64,
    },
    /// Accelerated stochastic approximation (Ghadimi and Lan 2012).
    Accelerated {
        /// gamma: at least twice the smoothness, more when gradients are noisy.
        damping: f64,
        /// mu: the declared penalty; zero for convex objectives.
        strong_convexity: f64,
    },
    /// Every noisy gradient is read as a measurement of the minimizer; the weights are the most likely ones given all measurements so
    /// far and the public rows. Regression only.
    Posterior,
}

/// A descent that a caller asks for. Numbers that are left open follow from declared constants, the number of steps and the noise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DescentChoice {
    /// [`Descent::Momentum`].
    Momentum {
        /// Length of a step.
        step_size: Option<f64>,
        /// Share of the velocity that survives a step; with a given step size none does unless said.
        momentum: Option<f64>,
        /// What is returned.
        average: Average,
    },
    /// [`Descent::Preconditioned`].
    Preconditioned {
        /// Length of a step.
        step_size: Option<f64>,
        /// r; by default a hundredth of the public features' mean second moment.
        ridge: Option<f64>,
        /// What is returned.
        average: Average,
    },
    /// [`Descent::Newton`].
    Newton,
    /// [`Descent::Accelerated`]; strongly convex if a penalty is declared.
    Accelerated {
        /// gamma.
        damping: Option<f64>,
    },
    /// [`Descent::Posterior`].
    Posterior,
}
