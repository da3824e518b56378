//! Standard errors of a model's weights, or the reason why there are none.

use serde::{Deserialize, Serialize};

/// What is known about the accuracy of the weights.
///
/// Errors count the noise and the labels' own scatter under the fitted model. The pull of the penalties towards zero is not in them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum StandardErrors {
    /// One vector per output; a weight that the penalties decided has none.
    Given(Vec<Vec<Option<f64>>>),
    /// There are none.
    Absent {
        /// Why, as half a sentence.
        reason: String,
    },
}

impl StandardErrors {
    pub(crate) fn absent(reason: &str) -> Self {
        StandardErrors::Absent { reason: reason.to_owned() }
    }

    /// Errors of all weights, output after output.
    pub(crate) fn given(errors: Vec<Option<f64>>, outputs: usize) -> Self {
        let width = (errors.len() / outputs.max(1)).max(1);
        StandardErrors::Given(errors.chunks(width).map(<[Option<f64>]>::to_vec).collect())
    }

    /// Whether the shape is that of `outputs` vectors of `width` weights and every error is a positive number.
    pub(crate) fn fit(&self, outputs: usize, width: usize) -> bool {
        match self {
            StandardErrors::Absent { .. } => true,
            StandardErrors::Given(errors) => {
                let is_positive = |error: &Option<f64>| error.is_none_or(|e| e.is_finite() && e > 0.0);
                errors.len() == outputs
                    && errors.iter().all(|vector| vector.len() == width && vector.iter().all(is_positive))
            }
        }
    }
}
