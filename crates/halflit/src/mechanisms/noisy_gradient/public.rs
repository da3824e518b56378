//! Sums over the public rows: they need no clamp and no noise, so they are taken on the finest lattice that cannot overflow.

use super::MechanismError;
use super::sampler::PublicBatch;
use crate::problem::FEATURE_UNIT;
use halflit_convex::kernel::{
    Batch, Block, KernelError, LatticeWeights, MAX_COEFFICIENT, RowSums, Rule, SUM_LIMIT,
};
use halflit_convex::loss::LossRule;
use halflit_convex::{Loss, Rows};
use std::sync::{Mutex, PoisonError};

/// Sums that need no clamp: public numbers, on the finest lattice that cannot overflow.
pub(super) struct ExactSums<'a> {
    pub sums: RowSums<'a>,
    pub largest_coefficient: f64,
}

impl<'a> ExactSums<'a> {
    pub fn new(rows: &'a Rows) -> Result<Self, MechanismError> {
        let bound = (SUM_LIMIT - 1) / (rows.len() as u64).max(1);
        let longest_row = (rows.max_squared_norm().isqrt() + 1) as f64;
        let largest_coefficient = (bound as f64 / longest_row).min(f64::from(MAX_COEFFICIENT));
        Ok(ExactSums { sums: RowSums::new(rows, bound)?, largest_coefficient })
    }

    /// Coefficient steps per unit of derivative: as many as fit for derivatives up to `largest`.
    pub fn scale(&self, largest: f64) -> f64 {
        0.9 * self.largest_coefficient / largest.max(1e-6)
    }
}

/// Integer sums in real units.
pub(super) fn to_real(sums: &[i64], scale: f64) -> Vec<f64> {
    sums.iter().map(|&sum| sum as f64 * (FEATURE_UNIT / scale)).collect()
}

/// How long a public row's gradient is made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Length {
    AsItIs,
    /// Rescaled to this norm.
    Exactly(f64),
    /// Clipped to this norm.
    AtMost(f64),
}

/// The public rows as one run needs them.
pub(super) struct PublicRows<'a> {
    loss: Loss,
    labels: &'a [f64],
    row_norm: f64,
    exact: ExactSums<'a>,
}

/// The mean gradient of some public rows.
pub(super) struct PublicGradient {
    pub mean: Vec<f64>,
    /// How many rows it is the mean of.
    pub rows: usize,
    /// V^2: mean squared distance of a row's gradient to the mean.
    pub variance: f64,
}

impl<'a> PublicRows<'a> {
    /// `row_norm` bounds every row's norm. None if there are no rows.
    pub fn new(
        loss: Loss,
        rows: &'a Rows,
        labels: &'a [f64],
        row_norm: f64,
    ) -> Result<Option<Self>, MechanismError> {
        if rows.is_empty() {
            return Ok(None);
        }
        Ok(Some(PublicRows { loss, labels, row_norm, exact: ExactSums::new(rows)? }))
    }

    /// Number of public rows.
    pub fn len(&self) -> usize {
        self.exact.sums.rows().len()
    }

    /// The mean gradient over a batch, every row's gradient as long as `length` says.
    pub fn gradient(
        &self,
        weights: &LatticeWeights,
        batch: &PublicBatch,
        length: Length,
    ) -> Result<PublicGradient, MechanismError> {
        let squares: f64 = weights.rounded().iter().map(|w| w * w).sum();
        let largest = self.loss.derivative_bound(squares.sqrt() * self.row_norm);
        let shortest = self.exact.sums.rows().squared_norms().iter().filter(|&&norm| norm > 0).min();
        let shortest = shortest.map_or(1.0, |&norm| (norm as f64).sqrt() * FEATURE_UNIT);
        let scale = self.exact.scale(match length {
            Length::AsItIs | Length::AtMost(_) => largest,
            Length::Exactly(norm) => norm / shortest,
        });
        let rule = PublicRule {
            derivative: LossRule::derivative(self.loss, self.labels, 1.0),
            loss: self.loss,
            squared_norms: self.exact.sums.rows().squared_norms(),
            length,
            scale,
            squares: Mutex::new(0.0),
        };
        let sum = self.exact.sums.sum(weights, &rule, batch.as_batch())?;
        let rows = batch.count(self.len());
        let (count, divisor) = (rows.max(1) as f64, batch.divisor(self.len()));
        let mean: Vec<f64> = to_real(&sum, scale).iter().map(|sum| sum / divisor).collect();
        let second_moment = rule.squares.into_inner().unwrap_or_else(PoisonError::into_inner) / count;
        let variance = (second_moment - mean.iter().map(|g| g * g).sum::<f64>()).max(0.0);
        Ok(PublicGradient { mean, rows, variance })
    }

    /// X^T (X v) / n for one output.
    pub fn gram(&self, vector: &[f64]) -> Result<Vec<f64>, MechanismError> {
        let weights = LatticeWeights::new(vector, 1)?;
        let length = vector.iter().map(|v| v * v).sum::<f64>().sqrt();
        let scale = self.exact.scale(1.01 * length * self.row_norm);
        let rule = halflit_convex::kernel::PerRow(|_, score| scale * score);
        let sum = self.exact.sums.sum(&weights, &rule, Batch::All)?;
        let count = self.len() as f64;
        Ok(to_real(&sum, scale).iter().map(|sum| sum / count).collect())
    }

    /// X^T y / n for one output.
    pub fn moments(&self, width: usize) -> Result<Vec<f64>, MechanismError> {
        let weights = LatticeWeights::new(&vec![0.0; width], 1)?;
        let largest = self.labels.iter().fold(0.0f64, |most, label| most.max(label.abs()));
        let scale = self.exact.scale(1.01 * largest);
        let labels = self.labels;
        let rule = halflit_convex::kernel::PerRow(|row: usize, _| scale * labels[row]);
        let sum = self.exact.sums.sum(&weights, &rule, Batch::All)?;
        let count = self.len() as f64;
        Ok(to_real(&sum, scale).iter().map(|sum| sum / count).collect())
    }

    /// Mean of y^2.
    pub fn mean_square_label(&self) -> f64 {
        self.labels.iter().map(|label| label * label).sum::<f64>() / self.len() as f64
    }

    /// Mean squared norm of a row.
    pub fn mean_squared_norm(&self) -> f64 {
        let norms = self.exact.sums.rows().squared_norms();
        norms.iter().map(|&norm| norm as f64).sum::<f64>() * FEATURE_UNIT * FEATURE_UNIT / self.len() as f64
    }

    /// Mean fourth power of a row's norm.
    pub fn mean_fourth_norm(&self) -> f64 {
        let norms = self.exact.sums.rows().squared_norms();
        let square = |norm: u64| (norm as f64 * FEATURE_UNIT * FEATURE_UNIT).powi(2);
        norms.iter().map(|&norm| square(norm)).sum::<f64>() / self.len() as f64
    }
}

/// The derivative, perhaps rescaled row by row; adds up the squared norms of the gradients on the way.
struct PublicRule<'a> {
    derivative: LossRule<'a>,
    loss: Loss,
    squared_norms: &'a [u64],
    length: Length,
    scale: f64,
    squares: Mutex<f64>,
}

impl Rule for PublicRule<'_> {
    fn outputs(&self) -> usize {
        self.loss.outputs()
    }

    fn check(&self, rows: usize) -> Result<(), KernelError> {
        self.derivative.check(rows)
    }

    fn fill(&self, block: &Block<'_>, scores: &[f64], coefficients: &mut [f64]) {
        self.derivative.fill(block, scores, coefficients);
        let (rows, mut total) = (block.len(), 0.0);
        for position in 0..rows {
            let norm = self.squared_norms[block.row(position)] as f64 * FEATURE_UNIT * FEATURE_UNIT;
            let squares = coefficients.iter().skip(position).step_by(rows).map(|c| c * c).sum::<f64>();
            let length = (squares * norm).sqrt();
            let factor = match self.length {
                Length::Exactly(wanted) if length > 0.0 => wanted / length,
                Length::AtMost(most) if length > most => most / length,
                _ => 1.0,
            };
            total += (factor * length).powi(2);
            for coefficient in coefficients.iter_mut().skip(position).step_by(rows) {
                *coefficient *= factor * self.scale;
            }
        }
        *self.squares.lock().unwrap_or_else(PoisonError::into_inner) += total;
    }
}
