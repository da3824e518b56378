//! Losses: values, derivatives, the constants that enforce or predict bounds, and conjugates for duality gaps.
//!
//! A loss is declared as a [`LossSpec`] (plain data) and becomes a [`Loss`] by [`Loss::new`], which checks its parameters.
//! Losses of a score z = <w, x> implement [`ScalarLoss`], one small file per loss or family; [`Softmax`] has one score per
//! class; [`Loss::is_mean`] is 1/2 ||w - x||^2, whose score is the row itself.

mod hinge;
mod kinked;
mod logistic;
mod poisson;
mod regression;
mod rule;
mod scalar;
mod softmax;

pub use hinge::SmoothedHinge;
pub use kinked::{Absolute, Hinge, Quantile};
pub use logistic::Logistic;
pub use poisson::Poisson;
pub use regression::{Huber, PseudoHuber, Squared};
pub use rule::LossRule;
pub use scalar::{Kink, ScalarLoss};
pub use softmax::Softmax;
pub(crate) use softmax::one_hot;

use serde::{Deserialize, Serialize};

/// A loss as declared: plain data, unchecked.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "kebab-case", deny_unknown_fields)]
pub enum LossSpec {
    /// log(1 + e^z) - y z for labels 0 and 1.
    Logistic,
    /// Multinomial logistic loss over `classes` classes, labels 0, 1, ..
    Softmax {
        /// Number of classes, at least 2.
        classes: usize,
    },
    /// (z - y)^2 / 2.
    Squared {
        /// Label bounds.
        labels: Interval,
    },
    /// e^z - y z, continued in straight lines where |z| exceeds the bound, so that its derivative stays bounded.
    Poisson {
        /// Largest label; labels are counts from 0.
        max_count: f64,
        /// Bound on |z| inside which the loss is the Poisson loss.
        max_abs_score: f64,
    },
    /// Squared near zero, linear beyond the threshold.
    Huber {
        /// Where the derivative stops growing.
        threshold: f64,
        /// Label bounds.
        labels: Interval,
    },
    /// k^2 (sqrt(1 + ((z - y)/k)^2) - 1): a smooth Huber loss.
    PseudoHuber {
        /// Limit of the derivative.
        threshold: f64,
        /// Label bounds.
        labels: Interval,
    },
    /// max(0, 1 - y z) for labels -1 and +1.
    Hinge,
    /// The hinge with its kink replaced by a parabola of width `smoothing`.
    SmoothedHinge {
        /// Width of the parabola in the margin.
        smoothing: f64,
    },
    /// |z - y|.
    Absolute {
        /// Label bounds.
        labels: Interval,
    },
    /// The pinball loss, minimised by the conditional quantile.
    Quantile {
        /// Which quantile, strictly between 0 and 1.
        level: f64,
        /// Label bounds.
        labels: Interval,
    },
    /// 1/2 ||w - x||^2: the minimizer is the mean row. No labels.
    Mean,
}

/// A closed interval of labels.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// [-1, 1], to which the encoder scales regression labels.
    pub const UNIT: Interval = Interval { low: -1.0, high: 1.0 };

    /// The largest magnitude in the interval.
    pub fn magnitude(&self) -> f64 {
        self.low.abs().max(self.high.abs())
    }
}

/// Which labels a loss takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LabelDomain {
    /// 0 or 1.
    Binary,
    /// -1 or +1.
    Signs,
    /// 0, 1, .. below this number.
    Classes(usize),
    /// Any number in the interval.
    Within(Interval),
    /// The loss has no label.
    None,
}

impl LabelDomain {
    /// Whether a label belongs to the domain. NaN belongs to none.
    pub fn contains(&self, label: f64) -> bool {
        match *self {
            LabelDomain::Binary => label == 0.0 || label == 1.0,
            LabelDomain::Signs => label == -1.0 || label == 1.0,
            LabelDomain::Classes(classes) => label >= 0.0 && label < classes as f64 && label.fract() == 0.0,
            LabelDomain::Within(interval) => label >= interval.low && label <= interval.high,
            LabelDomain::None => true,
        }
    }

    /// The two labels at which a scalar derivative takes its extreme values: it is monotone in the label.
    pub(crate) fn ends(&self) -> Option<(f64, f64)> {
        match *self {
            LabelDomain::Binary => Some((0.0, 1.0)),
            LabelDomain::Signs => Some((-1.0, 1.0)),
            LabelDomain::Within(interval) => Some((interval.low, interval.high)),
            LabelDomain::Classes(_) | LabelDomain::None => None,
        }
    }
}

/// Why a loss was refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum LossError {
    /// A parameter outside its range.
    #[error("{loss}: {name} is {value}; it must be {allowed}")]
    Parameter {
        /// Which loss.
        loss: &'static str,
        /// Which parameter.
        name: &'static str,
        /// Its value.
        value: f64,
        /// What is allowed.
        allowed: &'static str,
    },
    /// Label bounds that are not an interval.
    #[error(
        "{loss}: the labels [{low}, {high}] are not an interval; give finite bounds with low < high, at most 1e6 in magnitude"
    )]
    Labels {
        /// Which loss.
        loss: &'static str,
        /// Lower end.
        low: f64,
        /// Upper end.
        high: f64,
    },
}

/// A checked loss.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "LossSpec", into = "LossSpec")]
pub struct Loss(Form);

/// The shapes a loss may have, with its checked parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Form {
    Logistic(Logistic),
    Squared(Squared),
    Poisson(Poisson),
    Huber(Huber),
    PseudoHuber(PseudoHuber),
    Hinge(Hinge),
    SmoothedHinge(SmoothedHinge),
    Absolute(Absolute),
    Quantile(Quantile),
    Softmax(Softmax),
    Mean,
}

/// Evaluates `$body` with `$loss` bound to the scalar loss inside, each monomorphised, or `$other` for the other forms.
macro_rules! with_scalar {
    ($form:expr, $loss:ident => $body:expr, $other:pat => $rest:expr) => {
        match $form {
            $crate::loss::Form::Logistic($loss) => $body,
            $crate::loss::Form::Squared($loss) => $body,
            $crate::loss::Form::Poisson($loss) => $body,
            $crate::loss::Form::Huber($loss) => $body,
            $crate::loss::Form::PseudoHuber($loss) => $body,
            $crate::loss::Form::Hinge($loss) => $body,
            $crate::loss::Form::SmoothedHinge($loss) => $body,
            $crate::loss::Form::Absolute($loss) => $body,
            $crate::loss::Form::Quantile($loss) => $body,
            $other => $rest,
        }
    };
}
pub(crate) use with_scalar;

impl Loss {
    /// Checks a declared loss.
    pub fn new(spec: LossSpec) -> Result<Self, LossError> {
        Ok(Loss(match spec {
            LossSpec::Logistic => Form::Logistic(Logistic),
            LossSpec::Softmax { classes } => Form::Softmax(Softmax::new(classes)?),
            LossSpec::Squared { labels } => Form::Squared(Squared::new(labels)?),
            LossSpec::Poisson { max_count, max_abs_score } => {
                Form::Poisson(Poisson::new(max_count, max_abs_score)?)
            }
            LossSpec::Huber { threshold, labels } => Form::Huber(Huber::new(threshold, labels)?),
            LossSpec::PseudoHuber { threshold, labels } => {
                Form::PseudoHuber(PseudoHuber::new(threshold, labels)?)
            }
            LossSpec::Hinge => Form::Hinge(Hinge),
            LossSpec::SmoothedHinge { smoothing } => Form::SmoothedHinge(SmoothedHinge::new(smoothing)?),
            LossSpec::Absolute { labels } => Form::Absolute(Absolute::new(labels)?),
            LossSpec::Quantile { level, labels } => Form::Quantile(Quantile::new(level, labels)?),
            LossSpec::Mean => Form::Mean,
        }))
    }

    /// The declaration this loss came from.
    pub fn spec(&self) -> LossSpec {
        match self.0 {
            Form::Logistic(_) => LossSpec::Logistic,
            Form::Softmax(loss) => LossSpec::Softmax { classes: loss.classes() },
            Form::Squared(loss) => LossSpec::Squared { labels: loss.labels },
            Form::Poisson(loss) => {
                LossSpec::Poisson { max_count: loss.max_count, max_abs_score: loss.max_abs_score }
            }
            Form::Huber(loss) => LossSpec::Huber { threshold: loss.threshold, labels: loss.labels },
            Form::PseudoHuber(loss) => {
                LossSpec::PseudoHuber { threshold: loss.threshold, labels: loss.labels }
            }
            Form::Hinge(_) => LossSpec::Hinge,
            Form::SmoothedHinge(loss) => LossSpec::SmoothedHinge { smoothing: loss.smoothing },
            Form::Absolute(loss) => LossSpec::Absolute { labels: loss.labels },
            Form::Quantile(loss) => LossSpec::Quantile { level: loss.level, labels: loss.labels },
            Form::Mean => LossSpec::Mean,
        }
    }

    pub(crate) fn form(&self) -> Form {
        self.0
    }

    /// The name used in declarations.
    pub fn name(&self) -> &'static str {
        match self.0 {
            Form::Logistic(_) => "logistic",
            Form::Softmax(_) => "softmax",
            Form::Squared(_) => "squared",
            Form::Poisson(_) => "poisson",
            Form::Huber(_) => "huber",
            Form::PseudoHuber(_) => "pseudo-huber",
            Form::Hinge(_) => "hinge",
            Form::SmoothedHinge(_) => "smoothed-hinge",
            Form::Absolute(_) => "absolute",
            Form::Quantile(_) => "quantile",
            Form::Mean => "mean",
        }
    }

    /// Weight vectors the model has: the number of classes for softmax, else 1.
    pub fn outputs(&self) -> usize {
        match self.0 {
            Form::Softmax(loss) => loss.classes(),
            _ => 1,
        }
    }

    /// Which labels it takes.
    pub fn label_domain(&self) -> LabelDomain {
        with_scalar!(self.0, loss => loss.label_domain(), form => match form {
            Form::Softmax(loss) => LabelDomain::Classes(loss.classes()),
            _ => LabelDomain::None,
        })
    }

    /// Whether the label enters linearly: loss = A(z) - t(y) z. Then one release of sum_i x_i t(y_i) suffices for training.
    pub fn is_canonical(&self) -> bool {
        with_scalar!(self.0, loss => loss.is_canonical(), form => matches!(form, Form::Softmax(_)))
    }

    /// Whether the derivative is Lipschitz.
    pub fn is_smooth(&self) -> bool {
        self.curvature_bound().is_some()
    }

    /// Whether this is 1/2 ||w - x||^2, which has no score.
    pub fn is_mean(&self) -> bool {
        self.0 == Form::Mean
    }

    /// Bound on the norm of the derivative in the scores, over the label domain and scores up to `max_abs_score`.
    ///
    /// Infinite where no bound exists. The mean loss has derivative -1 in its row part.
    pub fn derivative_bound(&self, max_abs_score: f64) -> f64 {
        with_scalar!(self.0, loss => loss.derivative_bound(max_abs_score), form => match form {
            Form::Softmax(_) => Softmax::DERIVATIVE_BOUND,
            _ => 1.0,
        })
    }

    /// Bound on the loss over the label domain and scores up to `max_abs_score`, for a loss that is never negative; else `None`.
    pub fn value_bound(&self, max_abs_score: f64) -> Option<f64> {
        with_scalar!(self.0, loss => loss.value_bound(max_abs_score), form => match form {
            // log sum e^z - z_y <= log K + max z - z_y
            Form::Softmax(loss) => Some((loss.classes() as f64).ln() + 2.0 * max_abs_score + 1e-12),
            _ => None,
        })
    }

    /// Bound on the second derivative (softmax: on the largest eigenvalue); `None` for losses with a kink.
    pub fn curvature_bound(&self) -> Option<f64> {
        with_scalar!(self.0, loss => loss.curvature_bound(), form => match form {
            Form::Softmax(_) => Some(Softmax::CURVATURE_BOUND),
            _ => Some(1.0),
        })
    }

    /// The second derivative in the score, zero at kinks; `None` unless the loss has one score.
    pub fn curvature(&self, score: f64, label: f64) -> Option<f64> {
        with_scalar!(self.0, loss => Some(loss.curvature(score, label)), _ => None)
    }

    /// Lowest and highest derivative at score z over the label domain; `None` unless the loss has one score.
    pub fn derivative_range(&self, score: f64) -> Option<(f64, f64)> {
        with_scalar!(self.0, loss => Some(loss.derivative_range(score)), _ => None)
    }

    /// Radius of the smallest ball around the midrange centre that holds the derivative for every label.
    ///
    /// Half the widest label range over scores up to `max_abs_score`; softmax: sqrt((K-1)/K).
    pub fn midrange_radius(&self, max_abs_score: f64) -> f64 {
        with_scalar!(self.0, loss => loss.midrange_radius(max_abs_score), form => match form {
            Form::Softmax(loss) => loss.midrange_radius(),
            _ => 0.0,
        })
    }

    /// The loss of one row: `scores` has one entry per output.
    ///
    /// The mean loss has no scores and gives NaN: it is 1/2 ||w - x||^2.
    pub fn value(&self, scores: &[f64], label: f64) -> f64 {
        with_scalar!(self.0, loss => loss.value(scores[0], label), form => match form {
            Form::Softmax(loss) => loss.value(scores, label),
            _ => f64::NAN,
        })
    }

    /// The derivative of one row's loss in its scores.
    pub fn derivative(&self, scores: &[f64], label: f64, derivative: &mut [f64]) {
        with_scalar!(self.0, loss => derivative[0] = loss.derivative(scores[0], label), form => match form {
            Form::Softmax(loss) => loss.derivative(scores, label, derivative),
            _ => derivative.fill(-1.0),
        })
    }

    /// The convex conjugate sup_z (slope z - loss(z, label)) of a loss with one score; `None` for the others.
    pub fn conjugate(&self, slope: f64, label: f64) -> Option<f64> {
        with_scalar!(self.0, loss => Some(loss.conjugate(slope, label)), _ => None)
    }
}

impl TryFrom<LossSpec> for Loss {
    type Error = LossError;

    fn try_from(spec: LossSpec) -> Result<Self, LossError> {
        Loss::new(spec)
    }
}

impl From<Loss> for LossSpec {
    fn from(loss: Loss) -> LossSpec {
        loss.spec()
    }
}

/// Refuses a parameter outside (low, high]; NaN is outside.
fn check(
    loss: &'static str,
    name: &'static str,
    value: f64,
    allowed: &'static str,
    is_allowed: bool,
) -> Result<f64, LossError> {
    if is_allowed { Ok(value) } else { Err(LossError::Parameter { loss, name, value, allowed }) }
}

/// Refuses label bounds that are no interval of sensible size.
fn check_labels(loss: &'static str, labels: Interval) -> Result<Interval, LossError> {
    let Interval { low, high } = labels;
    if low < high && labels.magnitude() <= 1e6 {
        Ok(labels)
    } else {
        Err(LossError::Labels { loss, low, high })
    }
}

#[cfg(test)]
pub(crate) mod tests;
