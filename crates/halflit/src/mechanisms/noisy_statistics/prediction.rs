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
//! The shape of the noise that makes the first smallest is found in `one_output`.

use super::design::Design;
use super::fit::LARGEST_ASSEMBLED;
use super::matrix::{inner, product, shifted_inverse, trace};
use super::one_output::OneOutput;
use super::posterior::shaped;
use super::prior::Prior;
use super::shape::Shape;
use crate::mechanisms::{MechanismError, prior_radius};
use halflit_convex::Domain;
use halflit_convex::solver;

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
        let prior_variance = prior_variance(design);
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

    /// What noise of any shape does to one output.
    pub fn one_output(&self) -> OneOutput<'_> {
        OneOutput { prior: &self.prior, prior_variance: self.prior_variance, hessian: self.mean_block() }
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

/// tau^2: the squared size that a weight is expected to have.
pub(crate) fn prior_variance(design: &Design) -> f64 {
    let size = design.size();
    prior_radius(design.loss, size, design.radius).powi(2) / size as f64
}

/// A fixed sequence of signs without pattern: the parity of the set bits (Thue and Morse).
fn sign(index: usize) -> f64 {
    if index.count_ones().is_multiple_of(2) { 1.0 } else { -1.0 }
}
