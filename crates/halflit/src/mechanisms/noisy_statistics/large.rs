//! The most likely weights where second derivatives are too many to assemble: the objective of [`posterior`](super::posterior), minimised by a limited-memory quasi-Newton method.
//!
//! What makes it fast is the first guess of the inverse curvature. With M = sum_i omega_i x_i x_i^T and a class of share p, the Hessian's own block is about p (1 - p) M, so the curvature of phi there is
//!
//! ```text
//! h^2 M T^T T M / s^2 + Lambda / tau^2,     h = p (1 - p)
//! ```
//!
//! One eigenvalue decomposition, of L^-1 M T^T T M L^-T with Lambda = L L^T, inverts it for every class. No privacy in here: post-processing.

use super::design::Design;
use super::fit::Denoised;
use super::matrix::{apply, inner, product, transposed};
use super::posterior::{Observation, shaped, shaped_back, unshaped};
use crate::mechanisms::MechanismError;
use halflit_convex::solver::{self, Cholesky};
use halflit_convex::{Domain, Eigen, Interval, Loss, LossSpec};
use std::collections::VecDeque;

/// Steps at most; twenty to forty are usual.
const STEPS: usize = 100;

/// Pairs of differences that are remembered.
const MEMORY: usize = 10;

/// Up to this many features the first guess is worked out; beyond, it is the prior alone.
const LARGEST_GUESSED: usize = 1024;

/// What a step must promise to lower phi by for another one, in units of log-likelihood.
const LEAST_DECREASE: f64 = 1e-2;

/// A class is taken to have at least this share of the rows.
const LEAST_SHARE: f64 = 1e-3;

/// The first guess of the inverse curvature.
struct Guess {
    /// L.
    factor: Cholesky,
    eigen: Eigen,
    /// h^2 / s^2 of every output.
    strengths: Vec<f64>,
    /// 1 / tau^2.
    prior: f64,
}

impl Guess {
    fn new(
        design: &Design,
        observation: &Observation<'_>,
        prior: f64,
    ) -> Result<Option<Self>, MechanismError> {
        let width = design.rows.width();
        if width > LARGEST_GUESSED {
            return Ok(None);
        }
        // The Hessian of the squared loss at zero is the mean of x x^T.
        let labels = Interval { low: -1.0, high: 1.0 };
        let squared = Loss::new(LossSpec::Squared { labels }).expect("-1 and 1 bound an interval");
        let moments = solver::Problem::new(design.spec(squared, 1.0, None, Domain::whole(width, None)?))?
            .second_order(&vec![0.0; width])
            .hessian;
        let images: Vec<f64> = moments
            .chunks_exact(width)
            .flat_map(|row| shaped(observation.shape, row))
            .map(|entry| entry * design.total_weight)
            .collect();
        let Some(factor) = observation.prior.factor() else { return Ok(None) };
        // L^-1 (M T^T): column by column of its transpose, then the product with its own transpose.
        let columns: Vec<f64> = transposed(&images, width)
            .chunks_exact(width)
            .flat_map(|column| factor.solve_lower(column))
            .collect();
        let rows = transposed(&columns, width);
        let Some(eigen) = Eigen::of(&product(&rows, &rows, width), width) else { return Ok(None) };
        let strengths = curvatures(design, observation)
            .into_iter()
            .map(|h| (h / observation.noise_std).powi(2))
            .collect();
        Ok(Some(Guess { factor, eigen, strengths, prior }))
    }

    fn apply(&self, gradient: &[f64]) -> Vec<f64> {
        let width = self.eigen.values.len();
        let mut result = Vec::with_capacity(gradient.len());
        for (block, strength) in gradient.chunks_exact(width).zip(&self.strengths) {
            let mut turned = apply(&self.eigen.vectors, &self.factor.solve_lower(block));
            for (entry, value) in turned.iter_mut().zip(&self.eigen.values) {
                *entry /= strength * value.max(0.0) + self.prior;
            }
            let mut back = vec![0.0; width];
            for (vector, entry) in self.eigen.vectors.chunks_exact(width).zip(&turned) {
                back.iter_mut().zip(vector).for_each(|(sum, v)| *sum += entry * v);
            }
            result.extend(self.factor.solve_upper(&back));
        }
        result
    }
}

/// h of every output: p (1 - p) with the share p of a class read off the noisy sum of the column that is largest in total; one output: A''(0).
fn curvatures(design: &Design, observation: &Observation<'_>) -> Vec<f64> {
    let outputs = design.loss.outputs();
    if outputs == 1 {
        return vec![if design.loss.name() == "logistic" { 0.25 } else { 1.0 }];
    }
    let width = design.rows.width();
    let noisy = unshaped(observation.shape, observation.sums);
    let column =
        (0..width).max_by(|&a, &b| design.feature_sums[a].total_cmp(&design.feature_sums[b])).unwrap_or(0);
    let share = |output: usize| noisy[output * width + column] / design.feature_sums[column];
    (0..outputs).map(|output| share(output).clamp(LEAST_SHARE, 0.5)).map(|p| p * (1.0 - p)).collect()
}

/// Minimises phi for weights of size tau.
pub(super) fn most_likely(
    design: &Design,
    observation: &Observation<'_>,
    weight_size: f64,
) -> Result<Denoised, MechanismError> {
    let (size, prior) = (observation.sums.len(), weight_size.powi(-2));
    let guess = Guess::new(design, observation, prior)?;
    let mut weights = vec![0.0; size];
    let (mut value, mut average) = observation.problem.first_order(&weights);
    let mut gradient = observation.gradient(&weights, &average, prior);
    let mut memory: VecDeque<(Vec<f64>, Vec<f64>)> = VecDeque::new();
    for _ in 0..STEPS {
        let step = two_loops(&memory, &gradient, |g| {
            guess.as_ref().map_or_else(|| g.iter().map(|g| g / prior).collect(), |guess| guess.apply(g))
        });
        let promised = inner(&gradient, &step);
        if !(promised > LEAST_DECREASE) {
            break;
        }
        let before = observation.phi(&weights, &average, prior);
        let found = (0..30).map(|halvings| 0.5f64.powi(halvings)).find_map(|share| {
            let moved: Vec<f64> = weights.iter().zip(&step).map(|(w, s)| w - share * s).collect();
            let (value, average) = observation.problem.first_order(&moved);
            let is_lower = observation.phi(&moved, &average, prior) <= before - 1e-4 * share * promised;
            is_lower.then_some((moved, value, average))
        });
        let Some((moved, new_value, new_average)) = found else { break };
        let slope = observation.gradient(&moved, &new_average, prior);
        let difference: Vec<f64> = moved.iter().zip(&weights).map(|(new, old)| new - old).collect();
        let bend: Vec<f64> = slope.iter().zip(&gradient).map(|(new, old)| new - old).collect();
        if inner(&difference, &bend) > 0.0 {
            memory.push_back((difference, bend));
            if memory.len() > MEMORY {
                memory.pop_front();
            }
        }
        (weights, value, average, gradient) = (moved, new_value, new_average, slope);
    }
    let statistic = average.iter().map(|g| g * observation.total_weight).collect();
    Ok(Denoised { weights, value, statistic, response: None, evidence: f64::NEG_INFINITY })
}

impl Observation<'_> {
    /// The gradient of phi: Lambda w / tau^2 - H T^T (S~' - T S(w)) / s^2.
    fn gradient(&self, weights: &[f64], average: &[f64], prior: f64) -> Vec<f64> {
        let back = shaped_back(self.shape, &self.residual(average));
        let explained = self.problem.curvature_along(weights, &back);
        let scale = self.total_weight / self.noise_std.powi(2);
        let pulled = self.prior.apply(weights);
        pulled.iter().zip(&explained).map(|(pull, slope)| prior * pull - scale * slope).collect()
    }
}

/// The quasi-Newton step for a gradient (Nocedal and Wright, Algorithm 7.4) around a first guess.
fn two_loops(
    memory: &VecDeque<(Vec<f64>, Vec<f64>)>,
    gradient: &[f64],
    guess: impl Fn(&[f64]) -> Vec<f64>,
) -> Vec<f64> {
    let mut q = gradient.to_vec();
    let mut factors = Vec::with_capacity(memory.len());
    for (s, y) in memory.iter().rev() {
        let factor = inner(s, &q) / inner(s, y);
        q.iter_mut().zip(y).for_each(|(q, y)| *q -= factor * y);
        factors.push(factor);
    }
    let mut step = guess(&q);
    for ((s, y), factor) in memory.iter().zip(factors.iter().rev()) {
        let back = inner(y, &step) / inner(s, y);
        step.iter_mut().zip(s).for_each(|(step, s)| *step += (factor - back) * s);
    }
    step
}
