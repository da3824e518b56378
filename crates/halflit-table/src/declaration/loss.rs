//! The declared loss, and the loss on encoded labels that it stands for.

use super::ColumnDomain;
use crate::encoding::Affine;
use halflit_convex::{Interval, Loss, LossError, LossSpec};

/// A loss with its parameters as declared, in units of the file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DeclaredLoss {
    /// Two classes.
    Logistic,
    /// Three classes or more.
    Softmax,
    /// Two classes, margin loss.
    Hinge,
    /// Two classes, margin loss with a rounded corner.
    SmoothedHinge {
        /// Width of the rounded corner, in units of the score.
        smoothing: f64,
    },
    /// Regression.
    Squared,
    /// Regression that limits the influence of outliers.
    Huber {
        /// Residuals beyond it count linearly; in units of the label.
        threshold: f64,
    },
    /// A smooth relative of Huber.
    PseudoHuber {
        /// Residuals well beyond it count linearly; in units of the label.
        threshold: f64,
    },
    /// Median regression.
    Absolute,
    /// Quantile regression.
    Quantile {
        /// The quantile, strictly between 0 and 1.
        quantile: f64,
    },
    /// Counts.
    Poisson {
        /// Scores are kept in [-max_abs_score, max_abs_score].
        max_abs_score: f64,
    },
}

/// What a loss is about.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Predicts {
    OneOfTwo,
    OneOfMany,
    Number,
    Count,
}

impl DeclaredLoss {
    pub(crate) fn predicts(self) -> Predicts {
        match self {
            DeclaredLoss::Logistic | DeclaredLoss::Hinge | DeclaredLoss::SmoothedHinge { .. } => {
                Predicts::OneOfTwo
            }
            DeclaredLoss::Softmax => Predicts::OneOfMany,
            DeclaredLoss::Poisson { .. } => Predicts::Count,
            DeclaredLoss::Squared
            | DeclaredLoss::Huber { .. }
            | DeclaredLoss::PseudoHuber { .. }
            | DeclaredLoss::Absolute
            | DeclaredLoss::Quantile { .. } => Predicts::Number,
        }
    }

    /// The name in the declaration.
    pub fn name(self) -> &'static str {
        match self {
            DeclaredLoss::Logistic => "logistic",
            DeclaredLoss::Softmax => "softmax",
            DeclaredLoss::Hinge => "hinge",
            DeclaredLoss::SmoothedHinge { .. } => "smoothed-hinge",
            DeclaredLoss::Squared => "squared",
            DeclaredLoss::Huber { .. } => "huber",
            DeclaredLoss::PseudoHuber { .. } => "pseudo-huber",
            DeclaredLoss::Absolute => "absolute",
            DeclaredLoss::Quantile { .. } => "quantile",
            DeclaredLoss::Poisson { .. } => "poisson",
        }
    }

    /// The loss on labels encoded from this domain: regression labels are scaled to [-1, 1], and lengths with them.
    pub(super) fn on_encoded_labels(self, label: &ColumnDomain) -> Result<Loss, LossError> {
        let (classes, (low, high)) = match label {
            ColumnDomain::Values(values) => (values.len(), (0.0, 0.0)),
            ColumnDomain::Bounds { low, high } => (0, (*low, *high)),
        };
        let scaled = |length: f64| Affine::new(low, high).encode_length(length);
        let labels = Interval::UNIT;
        Loss::new(match self {
            DeclaredLoss::Logistic => LossSpec::Logistic,
            DeclaredLoss::Softmax => LossSpec::Softmax { classes },
            DeclaredLoss::Hinge => LossSpec::Hinge,
            DeclaredLoss::SmoothedHinge { smoothing } => LossSpec::SmoothedHinge { smoothing },
            DeclaredLoss::Squared => LossSpec::Squared { labels },
            DeclaredLoss::Huber { threshold } => LossSpec::Huber { threshold: scaled(threshold), labels },
            DeclaredLoss::PseudoHuber { threshold } => {
                LossSpec::PseudoHuber { threshold: scaled(threshold), labels }
            }
            DeclaredLoss::Absolute => LossSpec::Absolute { labels },
            DeclaredLoss::Quantile { quantile } => LossSpec::Quantile { level: quantile, labels },
            DeclaredLoss::Poisson { max_abs_score } => LossSpec::Poisson { max_count: high, max_abs_score },
        })
    }
}
