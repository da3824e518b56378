//! What noise on the sum of one output costs, and the shape of noise that costs least. From public features alone; no privacy in here.
//!
//! Noise of covariance N on the sum of an output with Hessian H costs (1/2) tr(H C) of summed loss, C = (H N^-1 H + Lambda/tau^2)^-1. Among noises that hide every row this is
//! smallest for N = s^2 S with S an ellipsoid around the rows: its derivative in N is Q = N^-1 H C H C H N^-1, so S is found by minimising tr(Q S) ([`Ellipsoid`]), and Q
//! again at the result.

use super::design::Design;
use super::matrix::{inner, product, shifted_inverse, transposed};
use super::prior::Prior;
use super::shape::{LARGEST_SHAPED, Shape};
use crate::mechanisms::MechanismError;
use crate::problem::FEATURE_UNIT;
use halflit_convex::solver::Cholesky;
use halflit_convex::{Ellipsoid, Rows};

/// Rounds of ellipsoid and derivative; the second gains a few per cent, a third next to nothing.
const SHAPE_ROUNDS: usize = 2;

/// One output of a model: what is expected of its weights, and how the loss bends there.
pub(crate) struct OneOutput<'a> {
    /// Lambda.
    pub prior: &'a Prior,
    /// tau^2.
    pub prior_variance: f64,
    /// H, row-major.
    pub hessian: Vec<f64>,
}

impl<'a> OneOutput<'a> {
    /// H at weights zero; `None` for more features than noise is shaped for.
    pub fn flat(
        design: &Design,
        prior: &'a Prior,
        prior_variance: f64,
    ) -> Result<Option<Self>, MechanismError> {
        if design.rows.width() > LARGEST_SHAPED {
            return Ok(None);
        }
        let curvature = flat_curvature(design);
        let hessian = design.moments()?.iter().map(|entry| curvature * entry).collect();
        Ok(Some(OneOutput { prior, prior_variance, hessian }))
    }

    /// Predicted excess of the summed loss after noise of this standard deviation on every coordinate of T S.
    pub fn after_noise(&self, shape: Option<&Shape>, noise_std: f64) -> Option<f64> {
        let width = self.width();
        let unit = |place: usize| (0..width).map(|i| f64::from(u8::from(i == place))).collect::<Vec<f64>>();
        // N^-1 = T^T T / s^2, column by column.
        let columns = (0..width).map(unit).map(|unit| match shape {
            Some(shape) => shape.apply_transposed(&shape.apply(&unit)),
            None => unit,
        });
        let precision: Vec<f64> = columns.flatten().map(|entry| entry / noise_std.powi(2)).collect();
        self.excess(&precision)
    }

    fn width(&self) -> usize {
        self.hessian.len().isqrt()
    }

    /// The shape with the smallest predicted excess, where a row on the surface of its ellipsoid is hidden by noise of standard deviation `noise_per_row`; none where
    /// round noise is predicted to do as well, or for many features.
    pub fn best_shape(&self, rows: &Rows, noise_per_row: f64) -> Option<Shape> {
        let width = self.width();
        if width > LARGEST_SHAPED {
            return None;
        }
        let longest = (rows.max_squared_norm() as f64).sqrt() * FEATURE_UNIT;
        // N^-1
        let mut round: Vec<f64> = vec![0.0; width * width];
        round.iter_mut().step_by(width + 1).for_each(|entry| *entry = (noise_per_row * longest).powi(-2));
        let (mut precision, mut found) = (round.clone(), None);
        for _ in 0..SHAPE_ROUNDS {
            let ellipsoid = Ellipsoid::around(rows, &self.derivative(&precision)?)?;
            precision = ellipsoid.inverse().iter().map(|entry| entry / noise_per_row.powi(2)).collect();
            found = Some(ellipsoid);
        }
        let shape = Shape::of(&found?)?;
        (self.excess(&precision)? < self.excess(&round)?).then_some(shape)
    }

    /// C, given N^-1; and H N^-1.
    fn covariance(&self, precision: &[f64]) -> Option<(Vec<f64>, Vec<f64>)> {
        let width = self.width();
        let filtered = product(&self.hessian, precision, width);
        let mut information = product(&filtered, &self.hessian, width);
        self.prior.add_to(&mut information, 1.0 / self.prior_variance);
        Some((shifted_inverse(&information, width, 0.0)?, filtered))
    }

    /// tr(H C) / 2.
    fn excess(&self, precision: &[f64]) -> Option<f64> {
        let (covariance, _) = self.covariance(precision)?;
        Some(0.5 * inner(&covariance, &self.hessian))
    }

    /// Q = N^-1 H C H C H N^-1: what noise in a direction costs.
    fn derivative(&self, precision: &[f64]) -> Option<Vec<f64>> {
        let (width, hessian) = (self.width(), &self.hessian);
        let (covariance, filtered) = self.covariance(precision)?;
        // K = C H N^-1; Q = K^T H K = (L^T K)^T (L^T K) with H = L L^T: positive semidefinite by construction.
        let gain = product(&covariance, &transposed(&filtered, width), width);
        let mut regular = hessian.clone();
        let largest = (0..width).map(|i| hessian[i * (width + 1)]).fold(0.0, f64::max);
        regular.iter_mut().step_by(width + 1).for_each(|entry| *entry += 1e-12 * largest);
        let factor = Cholesky::factor(regular, width)?;
        let mut rooted = vec![0.0; width * width];
        for (row, gain) in gain.chunks_exact(width).enumerate() {
            for (column, &entry) in factor.row(row).iter().enumerate() {
                // rooted = (L^T K): row `column` collects L[row][column] K[row]
                let line = &mut rooted[column * width..(column + 1) * width];
                line.iter_mut().zip(gain).for_each(|(sum, gain)| *sum += entry * gain);
            }
        }
        let columns = transposed(&rooted, width);
        Some(product(&columns, &columns, width))
    }
}

/// A'' of one output at score zero.
pub(super) fn flat_curvature(design: &Design) -> f64 {
    match (design.loss.outputs(), design.loss.name()) {
        (1, "logistic") => 0.25,
        (1, _) => 1.0,
        (classes, _) => (classes as f64 - 1.0) / (classes as f64).powi(2),
    }
}
