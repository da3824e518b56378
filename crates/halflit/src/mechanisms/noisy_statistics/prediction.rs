//! What a plan may expect, and the shape of noise that it then wants, from public features alone. No privacy in here.
//!
//! The rehearsal: weights are drawn once and for all (fixed signs, each of size tau in its own units, `prior.rs`), the Hessian H of the summed loss is taken there, and the excess of the mean
//! loss follows from what the fit makes of each direction of H.
//!
//! ```text
//! noise of covariance N on the sum, most likely weights:      (1/2W) tr(H C),   C = (H N^-1 H + Lambda/tau^2)^-1
//! noise kappa sum x x^T, ridge penalty l = W lambda:          (1/2W) (kappa tr(G H G X) + tau^2 l^2 tr(G H G)),   G = (H + l)^-1
//! ```
//!
//! The first is smallest, among noises that hide every row, for N = s^2 S with S an ellipsoid around the rows: its derivative in N is Q = N^-1 H C H C H N^-1, so S is found by
//! minimising tr(Q S) ([`Ellipsoid`]), and Q again at the result.

use super::design::Design;
use super::fit::LARGEST_ASSEMBLED;
use super::matrix::{inner, product, shifted_inverse, trace, transposed};
use super::posterior::shaped;
use super::prior::Prior;
use super::shape::{LARGEST_SHAPED, Shape};
use crate::mechanisms::{MechanismError, prior_radius};
use halflit_convex::solver::{self, Cholesky};
use halflit_convex::{Domain, Ellipsoid, Rows};

/// Rounds of ellipsoid and derivative; the second gains a few per cent, a third next to nothing.
const SHAPE_ROUNDS: usize = 2;

/// The rehearsal on public features.
pub(crate) struct Rehearsal {
    size: usize,
    width: usize,
    total_weight: f64,
    /// tau^2: the squared size of a weight.
    prior_variance: f64,
    /// Lambda.
    prior: Prior,
    /// H at the rehearsal weights, in the scale of sums.
    hessian: Vec<f64>,
    /// H at zero.
    flat_hessian: Vec<f64>,
}

impl Rehearsal {
    /// Reads public features; `None` beyond the number of weights for which Hessians are assembled.
    pub fn new(design: &Design) -> Result<Option<Self>, MechanismError> {
        let size = design.size();
        if size > LARGEST_ASSEMBLED {
            return Ok(None);
        }
        let radius = prior_radius(design.loss, size, design.radius);
        let prior_variance = radius * radius / size as f64;
        let problem = solver::Problem::new(design.spec(design.loss, 1.0, None, Domain::whole(size, None)?))?;
        let prior = Prior::of(design);
        let weights = prior.typical(prior_variance.sqrt(), sign, design.loss.outputs());
        let at = |weights: &[f64]| -> Vec<f64> {
            problem.second_order(weights).hessian.iter().map(|h| h * design.total_weight).collect()
        };
        let (hessian, flat_hessian) = (at(&weights), at(&vec![0.0; size]));
        let (width, total_weight) = (design.rows.width(), design.total_weight);
        Ok(Some(Rehearsal { size, width, total_weight, prior_variance, prior, hessian, flat_hessian }))
    }

    /// Predicted excess after noise of this standard deviation on every coordinate of T S.
    pub fn after_noise(&self, shape: Option<&Shape>, noise_std: f64) -> f64 {
        // H N^-1 H = (T H)^T (T H) / s^2
        let images: Vec<f64> =
            self.hessian.chunks_exact(self.size).flat_map(|row| shaped(shape, row)).collect();
        let mut precision = product(&images, &images, self.size);
        precision.iter_mut().for_each(|entry| *entry /= noise_std * noise_std);
        self.prior.add_to(&mut precision, 1.0 / self.prior_variance);
        shifted_inverse(&precision, self.size, 0.0)
            .map_or(f64::INFINITY, |covariance| 0.5 * inner(&covariance, &self.hessian) / self.total_weight)
    }

    /// The shape with the smallest predicted excess, where a row on the surface of its ellipsoid is hidden by noise of standard deviation `noise_per_row`; none where
    /// round noise is predicted to do as well, or for many features.
    pub fn best_shape(&self, rows: &Rows, noise_per_row: f64) -> Option<Shape> {
        let width = self.width;
        if width > LARGEST_SHAPED {
            return None;
        }
        let classes = self.mean_block();
        let longest = (rows.max_squared_norm() as f64).sqrt() * crate::problem::FEATURE_UNIT;
        let round = noise_per_row * longest;
        // N^-1
        let mut precision: Vec<f64> = vec![0.0; width * width];
        precision.iter_mut().step_by(width + 1).for_each(|entry| *entry = round.powi(-2));
        let mut found = None;
        for _ in 0..SHAPE_ROUNDS {
            let cost = self.derivative(&classes, &precision)?;
            let ellipsoid = Ellipsoid::around(rows, &cost)?;
            precision = ellipsoid.inverse().iter().map(|entry| entry / noise_per_row.powi(2)).collect();
            found = Some(ellipsoid);
        }
        let shape = Shape::of(&found?)?;
        (self.after_noise(Some(&shape), noise_per_row) < self.after_noise(None, round)).then_some(shape)
    }

    /// The Hessian of one output: the mean over the classes' own blocks.
    fn mean_block(&self) -> Vec<f64> {
        let (width, size) = (self.width, self.size);
        let outputs = size / width;
        let entry = |place: usize| {
            let block =
                |k: usize| self.hessian[(k * width + place / width) * size + k * width + place % width];
            (0..outputs).map(block).sum::<f64>() / outputs as f64
        };
        (0..width * width).map(entry).collect()
    }

    /// Q = N^-1 H C H C H N^-1, given H and N^-1 of one output: what noise in a direction costs.
    fn derivative(&self, hessian: &[f64], precision: &[f64]) -> Option<Vec<f64>> {
        let width = self.width;
        let filtered = product(hessian, precision, width);
        let mut information = product(&filtered, hessian, width);
        self.prior.add_to(&mut information, 1.0 / self.prior_variance);
        let covariance = shifted_inverse(&information, width, 0.0)?;
        // K = C H N^-1; Q = K^T H K = (L^T K)^T (L^T K) with H = L L^T: positive semidefinite by construction.
        let gain = product(&covariance, &transposed(&filtered, width), width);
        let mut regular = hessian.to_vec();
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

    /// The penalty l = W lambda, from a list, with the smallest predicted excess after noise of covariance `kappa` sum_i x_i x_i^T; and that excess.
    ///
    /// `curvature` is A''(0), which turns the Hessian at zero into sum_i x_i x_i^T.
    pub fn after_row_noise(&self, kappa: f64, curvature: f64) -> Option<(f64, f64)> {
        // Noise of this size on a row sum of norm sqrt(W): the scale at which penalties matter.
        let scale = (kappa * self.total_weight).sqrt();
        let excess = |penalty: f64| {
            let l = penalty * scale;
            let g = shifted_inverse(&self.hessian, self.size, l)?;
            let g2 = product(&g, &g, self.size);
            // G H G = G - l G^2
            let filtered: Vec<f64> = g.iter().zip(&g2).map(|(g, g2)| g - l * g2).collect();
            let noise = kappa * inner(&filtered, &self.flat_hessian) / curvature;
            let bias = self.prior_variance * l * l * trace(&filtered, self.size);
            Some((l, 0.5 * (noise + bias) / self.total_weight))
        };
        let penalties = (-8..=6).map(|power| 2f64.powi(power));
        penalties.filter_map(excess).min_by(|a, b| a.1.total_cmp(&b.1))
    }
}

/// A fixed sequence of signs without pattern: the parity of the set bits (Thue and Morse).
fn sign(index: usize) -> f64 {
    if index.count_ones().is_multiple_of(2) { 1.0 } else { -1.0 }
}
