//! The released statistic as a value: any number of models can be fitted to it, at no further cost.

use super::design::Design;
use super::fit::Fitter;
use super::posterior::unshaped;
use super::shape::Shape;
use crate::mechanisms::MechanismError;
use crate::problem::Problem;
use halflit_convex::Loss;
use halflit_table::LabelEncoding;
use serde::{Deserialize, Serialize};

/// Format of `statistics.json`; grows when its meaning changes.
pub const STATISTICS_FORMAT: u32 = 3;

/// The column that the sums are about, and how its cells became numbers: a model that reads them otherwise would be a model of something else.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabelColumn {
    /// Its name.
    pub name: String,
    /// How it was read.
    pub encoding: LabelEncoding,
}

impl LabelColumn {
    pub(super) fn of(problem: &Problem) -> Self {
        let encoding = problem.encoding();
        LabelColumn { name: encoding.label_name().to_owned(), encoding: encoding.label().clone() }
    }
}

/// S~' = T S plus noise with S = sum_i omega_i x_i t(y_i)^T: all that a canonical loss needs of the labels.
///
/// T is a public matrix that shapes the noise.
/// It is the output of a private release, so everything computed from it and from public features is post-processing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Record", into = "Record")]
pub struct LabelStatistics {
    /// What the labels were read as.
    pub(super) loss: Loss,
    /// Which column they are from.
    pub(super) label: LabelColumn,
    /// T; none is the identity.
    pub(super) shape: Option<Shape>,
    /// S~', output after output.
    pub(super) sums: Vec<f64>,
    /// Standard deviation of the noise in every coordinate.
    pub(super) noise_std: f64,
    /// W.
    pub(super) total_weight: f64,
    /// M: private rows have the weights floor(M omega_i) / M.
    pub(super) steps_per_weight: u64,
    /// What the public features hash to: another table is refused.
    pub(super) features_sha256: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    halflit_statistics: u32,
    loss: Loss,
    label: LabelColumn,
    noise_std: f64,
    total_weight: f64,
    steps_per_weight: u64,
    features_sha256: String,
    /// One vector per output, each with one entry per coordinate of a row; with a shape, its image.
    sums: Vec<Vec<f64>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    shape: Option<Shape>,
}

/// Why a stored statistic is refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum StatisticsError {
    /// Written by a later version.
    #[error(
        "statistics format {found} is not known to this version, which reads format {STATISTICS_FORMAT}; update halflit"
    )]
    Format {
        /// The file's format.
        found: u32,
    },
    /// Numbers that make no statistic.
    #[error("the {field} of the statistics is {value}; it must be {allowed}")]
    Number {
        /// Which.
        field: &'static str,
        /// Its value.
        value: f64,
        /// What is allowed.
        allowed: &'static str,
    },
    /// Vectors that do not fit the loss.
    #[error(
        "the statistics have {found} vectors or vectors of unequal length; their loss needs {needed} of one length"
    )]
    Shape {
        /// Vectors found.
        found: usize,
        /// Vectors needed.
        needed: usize,
    },
    /// A shape of the noise for another number of coordinates.
    #[error("the shape of the noise has {rows} rows, the sums have {width} coordinates; they must agree")]
    Noise {
        /// Rows of the shape.
        rows: usize,
        /// Coordinates of the sums.
        width: usize,
    },
}

impl TryFrom<Record> for LabelStatistics {
    type Error = StatisticsError;

    fn try_from(record: Record) -> Result<Self, StatisticsError> {
        if record.halflit_statistics != STATISTICS_FORMAT {
            return Err(StatisticsError::Format { found: record.halflit_statistics });
        }
        let needed = record.loss.outputs();
        let width = record.sums.first().map_or(0, Vec::len);
        let fits = record.sums.len() == needed && record.sums.iter().all(|sums| sums.len() == width);
        if !fits || width == 0 || !record.loss.is_canonical() {
            return Err(StatisticsError::Shape { found: record.sums.len(), needed });
        }
        let sums: Vec<f64> = record.sums.concat();
        let positive = "a finite number above 0";
        for (field, value) in [("noise_std", record.noise_std), ("total_weight", record.total_weight)] {
            if !(value.is_finite() && value > 0.0) {
                return Err(StatisticsError::Number { field, value, allowed: positive });
            }
        }
        if !(1..=1 << 44).contains(&record.steps_per_weight) {
            let value = record.steps_per_weight as f64;
            return Err(StatisticsError::Number {
                field: "steps_per_weight",
                value,
                allowed: "from 1 to 2^44",
            });
        }
        if let Some(&value) = sums.iter().find(|sum| !sum.is_finite()) {
            return Err(StatisticsError::Number { field: "sums", value, allowed: "finite" });
        }
        let Record { loss, label, noise_std, total_weight, steps_per_weight, features_sha256, shape, .. } =
            record;
        if let Some(shape) = shape.as_ref().filter(|shape| shape.size() != width) {
            return Err(StatisticsError::Noise { rows: shape.size(), width });
        }
        Ok(LabelStatistics {
            loss,
            label,
            shape,
            sums,
            noise_std,
            total_weight,
            steps_per_weight,
            features_sha256,
        })
    }
}

impl From<LabelStatistics> for Record {
    fn from(statistics: LabelStatistics) -> Self {
        let width = statistics.sums.len() / statistics.loss.outputs().max(1);
        Record {
            halflit_statistics: STATISTICS_FORMAT,
            loss: statistics.loss,
            label: statistics.label,
            noise_std: statistics.noise_std,
            total_weight: statistics.total_weight,
            steps_per_weight: statistics.steps_per_weight,
            features_sha256: statistics.features_sha256,
            sums: statistics.sums.chunks(width.max(1)).map(<[f64]>::to_vec).collect(),
            shape: statistics.shape,
        }
    }
}

impl LabelStatistics {
    /// Fits models to the statistic on the public features of the problem. No private cell is read.
    ///
    /// # Errors
    /// A problem with other features, another loss, or whose features are not public.
    pub fn fitter<'a>(&'a self, problem: &Problem) -> Result<Fitter<'a>, MechanismError> {
        Fitter::new(self, Design::new(problem, self.steps_per_weight)?)
    }

    /// Standard deviation of the noise in every coordinate of the released vector.
    pub fn noise_std(&self) -> f64 {
        self.noise_std
    }

    /// The noisy sums S~ = T^-1 S~', one vector per output.
    pub fn sums(&self) -> Vec<Vec<f64>> {
        let sums = unshaped(self.shape.as_ref(), &self.sums);
        sums.chunks((sums.len() / self.loss.outputs().max(1)).max(1)).map(<[f64]>::to_vec).collect()
    }
}
