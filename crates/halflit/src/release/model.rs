//! The released model: weights and the encoding that they belong to.

use super::StandardErrors;
use halflit_convex::{FEATURE_SCALE, Loss, Rows};
use halflit_table::{EncodeError, Encoding, LabelEncoding, OutOfDomain, Table};
use serde::{Deserialize, Serialize};

/// Format of `model.json`; grows when its meaning changes.
pub const MODEL_FORMAT: u32 = 1;

/// A linear model with everything needed to apply it to a new file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "ModelRecord", into = "ModelRecord")]
pub struct Model {
    software: String,
    loss: Loss,
    encoding: Encoding,
    /// One vector per output, each of the encoding's width.
    weights: Vec<Vec<f64>>,
    standard_errors: Option<StandardErrors>,
}

/// Why a stored model is refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// Written by a later version.
    #[error(
        "model format {found} is not known to this version, which reads format {MODEL_FORMAT}; update halflit"
    )]
    Format {
        /// The file's format.
        found: u32,
    },
    /// Weights that do not fit the encoding.
    #[error(
        "the model has {outputs} weight vectors of length {width}; its loss and encoding need {needed_outputs} of length {needed_width}"
    )]
    Shape {
        /// Vectors found.
        outputs: usize,
        /// Length of the first that does not fit, or of all.
        width: usize,
        /// Vectors needed.
        needed_outputs: usize,
        /// Length needed.
        needed_width: usize,
    },
    /// A weight that is no number.
    #[error("weight {index} of output {output} is {value}; every weight must be a finite number")]
    Weight {
        /// Which output.
        output: usize,
        /// Which coordinate.
        index: usize,
        /// Its value.
        value: f64,
    },
    /// Standard errors that do not fit the weights.
    #[error(
        "the standard errors do not fit the weights: one positive number or null is needed for each of them"
    )]
    StandardErrors,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelRecord {
    halflit_model: u32,
    software: String,
    loss: Loss,
    encoding: Encoding,
    coordinates: Vec<String>,
    weights: Vec<Vec<f64>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    standard_errors: Option<StandardErrors>,
}

impl TryFrom<ModelRecord> for Model {
    type Error = ModelError;

    fn try_from(record: ModelRecord) -> Result<Self, ModelError> {
        if record.halflit_model != MODEL_FORMAT {
            return Err(ModelError::Format { found: record.halflit_model });
        }
        let model = Model::new(record.loss, record.encoding, record.weights)?;
        Model { software: record.software, ..model }.with_standard_errors(record.standard_errors)
    }
}

impl From<Model> for ModelRecord {
    fn from(model: Model) -> Self {
        ModelRecord {
            halflit_model: MODEL_FORMAT,
            software: model.software,
            coordinates: model.encoding.coordinate_names(),
            loss: model.loss,
            encoding: model.encoding,
            weights: model.weights,
            standard_errors: model.standard_errors,
        }
    }
}

impl Model {
    /// A model; refuses weights that do not fit the encoding or are no numbers.
    pub fn new(loss: Loss, encoding: Encoding, weights: Vec<Vec<f64>>) -> Result<Self, ModelError> {
        let (needed_outputs, needed_width) = (loss.outputs(), encoding.width());
        let misfit = weights.iter().find(|vector| vector.len() != needed_width);
        if weights.len() != needed_outputs || misfit.is_some() {
            let width = misfit.or(weights.first()).map_or(0, Vec::len);
            return Err(ModelError::Shape { outputs: weights.len(), width, needed_outputs, needed_width });
        }
        for (output, vector) in weights.iter().enumerate() {
            if let Some(index) = vector.iter().position(|weight| !weight.is_finite()) {
                return Err(ModelError::Weight { output, index, value: vector[index] });
            }
        }
        Ok(Model { software: crate::SOFTWARE.to_owned(), loss, encoding, weights, standard_errors: None })
    }

    /// The same model with standard errors; refuses errors that do not fit the weights.
    pub fn with_standard_errors(self, errors: Option<StandardErrors>) -> Result<Self, ModelError> {
        let (outputs, width) = (self.weights.len(), self.encoding.width());
        if errors.as_ref().is_some_and(|errors| !errors.fit(outputs, width)) {
            return Err(ModelError::StandardErrors);
        }
        Ok(Model { standard_errors: errors, ..self })
    }

    /// The loss it was trained for.
    pub fn loss(&self) -> Loss {
        self.loss
    }

    /// How cells become rows.
    pub fn encoding(&self) -> &Encoding {
        &self.encoding
    }

    /// One weight vector per output.
    pub fn weights(&self) -> &[Vec<f64>] {
        &self.weights
    }

    /// Standard errors of the weights, or why there are none; nothing if the mechanism says neither.
    pub fn standard_errors(&self) -> Option<&StandardErrors> {
        self.standard_errors.as_ref()
    }

    /// Applies the model to every row of a table.
    ///
    /// # Errors
    /// A column of the encoding that is missing; cells outside their domains, if they are refused.
    pub fn predict(&self, table: &Table, out_of_domain: OutOfDomain) -> Result<Predictions, EncodeError> {
        let rows = self.encoding.encode_features(table, out_of_domain)?;
        let scores: Vec<Vec<f64>> = (0..rows.len()).map(|row| self.scores(&rows, row)).collect();
        Ok(match self.encoding.label() {
            LabelEncoding::Classes { values, .. } => Predictions::Classes {
                names: values.clone(),
                probabilities: match self.loss.name() {
                    "logistic" => Some(scores.iter().map(|score| two_classes(score[0])).collect()),
                    "softmax" => Some(scores.iter().map(|scores| softmax(scores)).collect()),
                    _ => None,
                },
                classes: scores.iter().map(|scores| likeliest(scores)).collect(),
            },
            label => Predictions::Numbers(
                scores
                    .iter()
                    .map(|score| {
                        let encoded = if self.loss.name() == "poisson" { score[0].exp() } else { score[0] };
                        label.decode_number(encoded).unwrap_or(encoded)
                    })
                    .collect(),
            ),
        })
    }

    /// How well the model does on a table that has the label. Not private: it is for whoever holds that table.
    ///
    /// # Errors
    /// As [`Model::predict`], and for the label.
    pub fn evaluate(&self, table: &Table, out_of_domain: OutOfDomain) -> Result<Evaluation, EncodeError> {
        let rows = self.encoding.encode_features(table, out_of_domain)?;
        let labels = self.encoding.encode_labels(table, out_of_domain)?;
        let count = rows.len().max(1) as f64;
        let scores: Vec<Vec<f64>> = (0..rows.len()).map(|row| self.scores(&rows, row)).collect();
        let mean_loss =
            scores.iter().zip(&labels).map(|(scores, &label)| self.loss.value(scores, label)).sum::<f64>()
                / count;
        let accuracy = self.encoding.label().classes().map(|_| {
            let is_right = |(scores, &label): (&Vec<f64>, &f64)| likeliest(scores) == class_of(label);
            scores.iter().zip(&labels).filter(|pair| is_right(*pair)).count() as f64 / count
        });
        let r_squared = (accuracy.is_none() && self.loss.name() != "poisson").then(|| {
            let mean = labels.iter().sum::<f64>() / count;
            let spread: f64 = labels.iter().map(|label| (label - mean).powi(2)).sum();
            let error: f64 =
                scores.iter().zip(&labels).map(|(score, label)| (score[0] - label).powi(2)).sum();
            1.0 - error / spread
        });
        Ok(Evaluation { rows: rows.len(), mean_loss, accuracy, r_squared })
    }

    fn scores(&self, rows: &Rows, row: usize) -> Vec<f64> {
        let score = |weights: &Vec<f64>| -> f64 {
            let sum: f64 = match rows {
                Rows::Dense(rows) => rows.row(row).iter().zip(weights).map(|(&q, w)| f64::from(q) * w).sum(),
                Rows::Sparse(rows) => {
                    rows.row(row).iter().map(|(column, q)| f64::from(q) * weights[column]).sum()
                }
            };
            sum / f64::from(FEATURE_SCALE)
        };
        self.weights.iter().map(score).collect()
    }
}

/// What a model says about the rows of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Predictions {
    /// One class per row.
    Classes {
        /// The names of the classes.
        names: Vec<String>,
        /// The likeliest class of each row.
        classes: Vec<usize>,
        /// The probability of each class, for losses that have one.
        probabilities: Option<Vec<Vec<f64>>>,
    },
    /// One number per row, in units of the training file.
    Numbers(Vec<f64>),
}

impl Predictions {
    /// Number of rows.
    pub fn len(&self) -> usize {
        match self {
            Predictions::Classes { classes, .. } => classes.len(),
            Predictions::Numbers(numbers) => numbers.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// How well a model does on a labelled table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Evaluation {
    /// Number of rows.
    pub rows: usize,
    /// Mean loss on encoded labels.
    pub mean_loss: f64,
    /// Share of rows whose class is right.
    pub accuracy: Option<f64>,
    /// Share of the label's variance explained.
    pub r_squared: Option<f64>,
}

fn two_classes(score: f64) -> Vec<f64> {
    let positive = 1.0 / (1.0 + (-score).exp());
    vec![1.0 - positive, positive]
}

fn softmax(scores: &[f64]) -> Vec<f64> {
    let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let powers: Vec<f64> = scores.iter().map(|score| (score - most).exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.into_iter().map(|power| power / sum).collect()
}

/// One score: class 1 if it is positive. Several: the largest.
fn likeliest(scores: &[f64]) -> usize {
    match scores {
        [score] => usize::from(*score > 0.0),
        _ => scores.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).map_or(0, |(class, _)| class),
    }
}

/// The class of an encoded label: 0/1, -1/+1, or the class itself.
fn class_of(label: f64) -> usize {
    if label > 0.0 { label as usize } else { 0 }
}
