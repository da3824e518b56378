//! Labels as the losses want them, and back.

use super::affine::Affine;
use serde::{Deserialize, Serialize};

/// How the label column becomes the y of the loss.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum LabelEncoding {
    /// One of these values, in declared order.
    Classes {
        /// The values; the position is the class.
        values: Vec<String>,
        /// The y of a class.
        coding: ClassCoding,
    },
    /// A number from `low` to `high`, mapped to [-1, 1].
    Scaled {
        /// The label that becomes -1.
        low: f64,
        /// The label that becomes 1.
        high: f64,
    },
    /// A count from `low` to `high`, kept as it is.
    Counts {
        /// The smallest count, at least 0.
        low: f64,
        /// The largest count.
        high: f64,
    },
}

/// The y of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClassCoding {
    /// 0 and 1 (logistic).
    ZeroOne,
    /// -1 and +1 (hinge and smoothed hinge).
    PlusMinus,
    /// The position (softmax).
    Index,
}

impl LabelEncoding {
    /// The names of the classes; none for a number.
    pub fn classes(&self) -> Option<&[String]> {
        match self {
            LabelEncoding::Classes { values, .. } => Some(values),
            _ => None,
        }
    }

    /// A predicted number in units of the file; none for classes.
    pub fn decode_number(&self, encoded: f64) -> Option<f64> {
        match self {
            LabelEncoding::Classes { .. } => None,
            LabelEncoding::Scaled { low, high } => Some(Affine::new(*low, *high).decode(encoded)),
            LabelEncoding::Counts { .. } => Some(encoded),
        }
    }
}

impl ClassCoding {
    /// The y of a class.
    pub(crate) fn number(self, class: u32) -> f64 {
        match self {
            ClassCoding::PlusMinus => 2.0 * f64::from(class) - 1.0,
            ClassCoding::ZeroOne | ClassCoding::Index => f64::from(class),
        }
    }
}
