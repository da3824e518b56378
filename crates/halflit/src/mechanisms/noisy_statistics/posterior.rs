//! The most likely weights given the noisy sum: post-processing only.
//!
//! The released vector is S~' = T S + s Z with S = sum_i omega_i x_i t(y_i)^T. A model w explains it by S(w) = sum_i omega_i x_i A'(<w, x_i>)^T, the gradient of the summed
//! log-partition function; weights are expected to follow the law of [`prior`](super::prior), of size tau:
//!
//! ```text
//! w = argmin phi(w),   phi(w) = ||S~' - T S(w)||^2 / (2 s^2) + w^T Lambda w / (2 tau^2)
//! ```
//!
//! A direction with curvature h (in units of Lambda) is multiplied by h^2 / (h^2 + s^2/tau^2): what the noise drowns is left at zero, what it does not is left alone. (A ridge penalty
//! multiplies by h / (h + l) and so takes more from the clear directions for the same care with the drowned ones.) At the minimum S(w) is a sum
//! that soft labels A'(<w, x_i>) really have, so it is in the feasible set of logistic and softmax models.
//!
//! Gauss-Newton steps with backtracking from w = 0 or from the result for a smaller tau. phi need not be convex; any point reached is a legitimate
//! post-processing, and the derivative dw/dS~' of a minimum, which Stein's identity and standard errors use, is exact:
//!
//! ```text
//! dw/dS~' = (J^T J / s^2 - D / s^2 + Lambda / tau^2)^-1 J^T / s^2,     J = T H,   D = dH/dw [T^T (S~' - T S(w))]
//! ```
//!
//! How likely S~' itself is for a given tau follows by Laplace's approximation, up to a constant:
//!
//! ```text
//! log p(S~' | tau) ~ -phi(w) - size log tau - log det(J^T J / s^2 + Lambda / tau^2) / 2
//! ```

use super::matrix::{apply, inner, product, shifted_inverse, transposed};
use super::prior::Prior;
use super::shape::Shape;
use halflit_convex::solver::{Cholesky, Problem, SecondOrder};

/// Steps at most; five are usual.
const STEPS: usize = 60;

/// What a step must promise to lower phi by for another one: far less than one unit of log-likelihood.
const LEAST_DECREASE: f64 = 1e-9;

/// How far scores move when H is differentiated by differences.
const SCORE_STEP: f64 = 1e-2;

/// A noisy sum and what is known about it.
pub(super) struct Observation<'a> {
    /// The average log-partition function of the rows.
    pub problem: &'a Problem<'a>,
    /// W.
    pub total_weight: f64,
    /// T; none is the identity.
    pub shape: Option<&'a Shape>,
    /// S~', output after output.
    pub sums: &'a [f64],
    /// s.
    pub noise_std: f64,
    /// Lambda.
    pub prior: &'a Prior,
    /// Largest norm of a row.
    pub row_norm: f64,
}

/// The minimum of phi.
pub(super) struct MostLikely {
    pub weights: Vec<f64>,
    /// (1/W) sum_i omega_i A(<w, x_i>).
    pub value: f64,
    /// S(w).
    pub statistic: Vec<f64>,
    /// H = sum_i omega_i A''(<w, x_i>) x_i x_i^T.
    pub hessian: Vec<f64>,
    /// dw/dS~', row-major.
    pub response: Vec<f64>,
    /// log p(S~' | tau), up to a constant.
    pub evidence: f64,
}

/// T v, block by block of outputs.
pub(super) fn shaped(shape: Option<&Shape>, vector: &[f64]) -> Vec<f64> {
    blockwise(shape, vector, Shape::apply)
}

/// T^T v.
pub(super) fn shaped_back(shape: Option<&Shape>, vector: &[f64]) -> Vec<f64> {
    blockwise(shape, vector, Shape::apply_transposed)
}

/// T^-1 v.
pub(super) fn unshaped(shape: Option<&Shape>, vector: &[f64]) -> Vec<f64> {
    blockwise(shape, vector, Shape::solve)
}

/// T^-T v.
pub(super) fn unshaped_back(shape: Option<&Shape>, vector: &[f64]) -> Vec<f64> {
    blockwise(shape, vector, Shape::solve_transposed)
}

fn blockwise(shape: Option<&Shape>, vector: &[f64], map: fn(&Shape, &[f64]) -> Vec<f64>) -> Vec<f64> {
    match shape {
        None => vector.to_vec(),
        Some(shape) => vector.chunks_exact(shape.size()).flat_map(|block| map(shape, block)).collect(),
    }
}

impl Observation<'_> {
    /// Minimises phi for weights of size tau.
    pub fn most_likely(&self, weight_size: f64, start: Option<&[f64]>) -> MostLikely {
        let size = self.sums.len();
        let (precision, prior) = (self.noise_std.powi(-2), weight_size.powi(-2));
        let mut weights = start.map_or_else(|| vec![0.0; size], <[f64]>::to_vec);
        let mut at = self.problem.second_order(&weights);
        for _ in 0..STEPS {
            let (images, residual) = self.linearized(&at);
            let explained = apply(&images, &residual);
            let pulled = self.prior.apply(&weights);
            let gradient: Vec<f64> =
                pulled.iter().zip(&explained).map(|(pull, slope)| prior * pull - precision * slope).collect();
            let curvature = self.curvature(&images, precision, prior);
            let Some(factor) = Cholesky::factor(curvature, size) else { break };
            let step = factor.solve(&gradient);
            let promised = inner(&gradient, &step);
            if !(promised > LEAST_DECREASE) {
                break;
            }
            let Some(moved) = self.moved(&weights, &at, &step, promised, prior) else { break };
            weights = moved;
            at = self.problem.second_order(&weights);
        }
        self.finished(weights, &at, precision, prior)
    }

    /// The farthest of the halved steps that lowers phi by a fair share of what was promised.
    fn moved(
        &self,
        weights: &[f64],
        at: &SecondOrder,
        step: &[f64],
        promised: f64,
        prior: f64,
    ) -> Option<Vec<f64>> {
        let before = self.phi(weights, &at.gradient, prior);
        (0..30).map(|halvings| 0.5f64.powi(halvings)).find_map(|share| {
            let moved: Vec<f64> = weights.iter().zip(step).map(|(w, s)| w - share * s).collect();
            let (_, gradient) = self.problem.first_order(&moved);
            // A comparison that NaN fails.
            (self.phi(&moved, &gradient, prior) <= before - 1e-4 * share * promised).then_some(moved)
        })
    }

    /// phi, given the gradient of the average; `prior` is 1 / tau^2.
    pub(super) fn phi(&self, weights: &[f64], gradient: &[f64], prior: f64) -> f64 {
        let residual = self.residual(gradient);
        let pulled = self.prior.apply(weights);
        0.5 * inner(&residual, &residual) / self.noise_std.powi(2) + 0.5 * prior * inner(weights, &pulled)
    }

    /// S~' - T S(w), given the gradient of the average.
    pub(super) fn residual(&self, gradient: &[f64]) -> Vec<f64> {
        let explained: Vec<f64> = gradient.iter().map(|g| g * self.total_weight).collect();
        self.sums.iter().zip(shaped(self.shape, &explained)).map(|(sum, explained)| sum - explained).collect()
    }

    /// J^T = H T^T, row-major, and the residual.
    fn linearized(&self, at: &SecondOrder) -> (Vec<f64>, Vec<f64>) {
        let size = self.sums.len();
        let mut images = Vec::with_capacity(size * size);
        for row in at.hessian.chunks_exact(size.max(1)) {
            images.extend(shaped(self.shape, row).iter().map(|entry| entry * self.total_weight));
        }
        (images, self.residual(&at.gradient))
    }

    /// J^T J / s^2 + Lambda / tau^2.
    fn curvature(&self, images: &[f64], precision: f64, prior: f64) -> Vec<f64> {
        let size = self.sums.len();
        let mut curvature = product(images, images, size);
        curvature.iter_mut().for_each(|entry| *entry *= precision);
        self.prior.add_to(&mut curvature, prior);
        curvature
    }

    fn finished(&self, weights: Vec<f64>, at: &SecondOrder, precision: f64, prior: f64) -> MostLikely {
        let size = self.sums.len();
        let (images, residual) = self.linearized(at);
        let steps = self.curvature(&images, precision, prior);
        let bend = self.bend(&weights, &shaped_back(self.shape, &residual));
        let exact: Vec<f64> = steps.iter().zip(&bend).map(|(step, bend)| step - precision * bend).collect();
        // At a minimum the exact matrix is positive definite; elsewhere the Gauss-Newton one is.
        let inverse = shifted_inverse(&exact, size, 0.0).or_else(|| shifted_inverse(&steps, size, 0.0));
        let mut response = inverse.map_or_else(
            || vec![0.0; size * size],
            |inverse| product(&inverse, &transposed(&images, size), size),
        );
        response.iter_mut().for_each(|entry| *entry *= precision);
        let log_determinant =
            Cholesky::factor(steps, size).map_or(f64::INFINITY, |factor| factor.log_determinant());
        let evidence =
            0.5 * size as f64 * prior.ln() - self.phi(&weights, &at.gradient, prior) - 0.5 * log_determinant;
        MostLikely {
            evidence,
            weights,
            value: at.value,
            statistic: at.gradient.iter().map(|g| g * self.total_weight).collect(),
            hessian: at.hessian.iter().map(|h| h * self.total_weight).collect(),
            response,
        }
    }

    /// dH/dw along a direction, by central differences.
    fn bend(&self, weights: &[f64], direction: &[f64]) -> Vec<f64> {
        let length = inner(direction, direction).sqrt() * self.row_norm;
        if !(length > 0.0 && length.is_finite()) {
            return vec![0.0; weights.len() * weights.len()];
        }
        let step = SCORE_STEP / length;
        let hessian = |sign: f64| {
            let moved: Vec<f64> = weights.iter().zip(direction).map(|(w, d)| w + sign * step * d).collect();
            self.problem.second_order(&moved).hessian
        };
        let (ahead, behind) = (hessian(1.0), hessian(-1.0));
        let scale = self.total_weight / (2.0 * step);
        ahead.iter().zip(&behind).map(|(a, b)| (a - b) * scale).collect()
    }
}
