//! What a plan may expect, from public features alone. No privacy in here.
//!
//! The rehearsal: weights are drawn once and for all (fixed signs, each of size sqrt(v)), the Hessian H of the summed loss is taken there, and the excess of the mean
//! loss follows from the filter that the penalties put on each direction of H. With G = (H + l)^-1, B = G H and l = W lambda,
//!
//! ```text
//! noise sigma^2 I (smoothing left out):          (1/2W) (sigma^2 + v l^2) tr(G B)
//! noise kappa sum x x^T:                         (1/2W) ( kappa tr(G H G X) + v l^2 tr(G B) )
//! ```

use super::design::Design;
use super::fit::{LARGEST_ASSEMBLED, PENALTIES};
use super::matrix::{inner, product, shifted_inverse, trace};
use crate::mechanisms::{MechanismError, prior_radius};
use halflit_convex::Domain;
use halflit_convex::solver::{self, ProblemSpec};

/// The rehearsal on public features.
pub(crate) struct Rehearsal {
    size: usize,
    total_weight: f64,
    /// v: the squared size of a weight.
    prior_variance: f64,
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
        let problem = solver::Problem::new(ProblemSpec {
            rows: &design.rows,
            row_norm: design.row_norm,
            labels: None,
            row_weights: design.weights.as_deref(),
            total_weight: design.total_weight,
            loss: design.loss,
            regularization: 1.0,
            anchor: None,
            linear: None,
            domain: Domain::whole(size, None)?,
        })?;
        let weights: Vec<f64> = (0..size).map(|index| prior_variance.sqrt() * sign(index)).collect();
        let at = |weights: &[f64]| -> Vec<f64> {
            problem.second_order(weights).hessian.iter().map(|h| h * design.total_weight).collect()
        };
        let (hessian, flat_hessian) = (at(&weights), at(&vec![0.0; size]));
        Ok(Some(Rehearsal { size, total_weight: design.total_weight, prior_variance, hessian, flat_hessian }))
    }

    /// Predicted excess after Gaussian noise of this standard deviation on every coordinate of the sum.
    pub fn after_noise(&self, noise_std: f64) -> f64 {
        let excess = |penalty: f64| {
            let l = penalty * noise_std;
            let g = shifted_inverse(&self.hessian, self.size, l)?;
            // tr(G B) = tr(G) - l tr(G^2)
            let filtered = trace(&g, self.size) - l * inner(&g, &g);
            let sum = (noise_std * noise_std + self.prior_variance * l * l) * filtered;
            Some(0.5 * sum / self.total_weight)
        };
        PENALTIES.into_iter().filter_map(excess).fold(f64::INFINITY, f64::min)
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
