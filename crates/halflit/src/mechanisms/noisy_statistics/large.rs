//! Weights where second derivatives are too many to assemble: a penalised fit to the noisy sum. No privacy in here: post-processing.
//!
//! ```text
//! w = argmin sum_i omega_i A(<w, x_i>) - <w, S~> + w^T R w / 2,      R = N # Lambda/tau^2
//! ```
//!
//! The most likely weights of [`posterior`](super::posterior) multiply a direction of curvature h by h^2 / (h^2 + s^2/tau^2), a penalty r by h / (h + r); both are a half at the same h if r is the
//! geometric mean of the noise's covariance N and of the weights' precision. The penalised fit is a convex problem whose condition is that of h, not of h^2.
//!
//! It is solved by a limited-memory quasi-Newton method. What makes it fast is the first guess of the inverse curvature: output by output, as if outputs did not touch each other,
//!
//! ```text
//! (H_k + R)^-1,     H_k = sum_i omega_i m_ik (1 - m_ik) x_i x_i^T
//! ```
//!
//! with the soft labels m_ik of some of the rows under the present weights; it is worked out anew now and then.
//!
//! A penalty is too lenient with what the noise drowns: where h is far below r it leaves noise of size tau in the weights, the most likely weights next to none. So in the end each output's weights are
//! multiplied by what the two differ in,
//!
//! ```text
//! w_k <- (H_k N^-1 H_k + Lambda/tau^2)^-1 H_k N^-1 (H_k + R) w_k
//! ```
//!
//! which changes nothing where h is far above r.

use super::design::Design;
use super::fit::{Denoised, soft_label};
use super::matrix::{apply, inner, product, transposed};
use super::one_output::flat_curvature;
use super::posterior::{Observation, shaped, unshaped};
use crate::mechanisms::MechanismError;
use crate::problem::FEATURE_UNIT;
use halflit_convex::quasi_newton::{self, Smooth};
use halflit_convex::solver::Cholesky;
use halflit_convex::{Eigen, Rows};
use rayon::prelude::*;

/// First guesses at most, and steps with each.
const GUESSES: usize = 10;
const STEPS: usize = 20;

/// Up to this many features matrices are worked out; beyond, their diagonals.
const LARGEST_MATRIX: usize = 1024;

/// A guess looks at no more than this many rows.
const GUESSED_ROWS: usize = 8192;

/// An output is taken to have at least this share of the rows.
const LEAST_SHARE: f64 = 1e-3;

/// What a step must promise to lower the objective by for another one, in units of log-likelihood.
const LEAST_DECREASE: f64 = 1e-3;

/// A symmetric matrix, or its diagonal.
enum Penalty {
    Matrix(Vec<f64>),
    Diagonal(Vec<f64>),
}

impl Penalty {
    /// R = N # P: with P = L L^T it is L (L^-1 N L^-T)^(1/2) L^T.
    fn geometric_mean(observation: &Observation<'_>, width: usize, prior: f64) -> Self {
        let diagonal = || {
            let unit = observation.noise_std * prior.sqrt();
            Penalty::Diagonal(observation.prior.scales().iter().map(|scale| unit * scale.max(1e-3)).collect())
        };
        if width > LARGEST_MATRIX {
            return diagonal();
        }
        let mut precision = vec![0.0; width * width];
        observation.prior.add_to(&mut precision, prior);
        let Some(factor) = Cholesky::factor(precision, width) else { return diagonal() };
        // Columns of s L^-1 T^-1; their products with each other are L^-1 N L^-T.
        let unit = |place: usize| (0..width).map(|i| f64::from(u8::from(i == place))).collect::<Vec<f64>>();
        let columns: Vec<f64> = (0..width)
            .flat_map(|place| factor.solve_lower(&unshaped(observation.shape, &unit(place))))
            .map(|entry| entry * observation.noise_std)
            .collect();
        let rows = transposed(&columns, width);
        let Some(eigen) = Eigen::of(&product(&rows, &rows, width), width) else { return diagonal() };
        // L V^T with V's rows the eigenvectors, each column times the fourth root of its eigenvalue: R is its product with itself.
        let mut turned = Vec::with_capacity(width * width);
        for row in 0..width {
            for (vector, value) in eigen.vectors.chunks_exact(width).zip(&eigen.values) {
                let entry: f64 = factor.row(row).iter().zip(vector).map(|(l, v)| l * v).sum();
                turned.push(entry * value.max(0.0).sqrt().sqrt());
            }
        }
        Penalty::Matrix(product(&turned, &turned, width))
    }

    fn apply(&self, weights: &[f64]) -> Vec<f64> {
        match self {
            Penalty::Matrix(matrix) => {
                let width = matrix.len().isqrt().max(1);
                weights.chunks_exact(width).flat_map(|block| apply(matrix, block)).collect()
            }
            Penalty::Diagonal(diagonal) => {
                weights.iter().zip(diagonal.iter().cycle()).map(|(w, d)| w * d).collect()
            }
        }
    }
}

/// The first guess of the inverse curvature: one matrix per output, or one diagonal.
enum Guess {
    Matrices(Vec<Cholesky>),
    Diagonal(Vec<f64>),
}

impl Guess {
    fn new(design: &Design, penalty: &Penalty, weights: &[f64]) -> Self {
        match penalty {
            Penalty::Matrix(matrix) => {
                let width = design.rows.width();
                let factor = |mut hessian: Vec<f64>| {
                    hessian.iter_mut().zip(matrix).for_each(|(entry, r)| *entry += r);
                    Cholesky::factor(hessian, width)
                };
                let factors: Option<Vec<Cholesky>> =
                    own_hessians(design, weights).into_iter().map(factor).collect();
                let flat = || Guess::Diagonal(matrix.iter().step_by(width + 1).map(|r| 1.0 / r).collect());
                factors.map_or_else(flat, Guess::Matrices)
            }
            Penalty::Diagonal(diagonal) => {
                let curvature = flat_curvature(design) * design.total_weight;
                Guess::Diagonal(diagonal.iter().map(|r| 1.0 / (r + curvature)).collect())
            }
        }
    }

    fn apply(&self, gradient: &[f64]) -> Vec<f64> {
        match self {
            Guess::Matrices(factors) => {
                let width = (gradient.len() / factors.len().max(1)).max(1);
                let blocks = gradient.chunks_exact(width).zip(factors);
                blocks.flat_map(|(block, factor)| factor.solve(block)).collect()
            }
            Guess::Diagonal(inverse) => {
                gradient.iter().zip(inverse.iter().cycle()).map(|(g, inverse)| g * inverse).collect()
            }
        }
    }
}

/// H_k for every output k, from evenly spaced rows.
fn own_hessians(design: &Design, weights: &[f64]) -> Vec<Vec<f64>> {
    let (rows, width, outputs) = (&design.rows, design.rows.width(), design.loss.outputs());
    let count = rows.len().min(GUESSED_ROWS);
    let scale = FEATURE_UNIT * FEATURE_UNIT * rows.len() as f64 / count.max(1) as f64;
    let bends = |row: usize| -> Vec<f64> {
        match outputs {
            1 => vec![flat_curvature(design)],
            _ => soft_label(design, row, weights).iter().map(|m| m * (1.0 - m)).collect(),
        }
    };
    let seen: Vec<(usize, Vec<f64>)> = (0..count)
        .into_par_iter()
        .map(|index| index * rows.len() / count)
        .map(|row| (row, bends(row)))
        .collect();
    let of_output = |output: usize| {
        let mut hessian = vec![0.0; width * width];
        let mut dense = vec![0.0; width];
        for (row, bends) in &seen {
            let share = scale * design.weight(*row) * bends[output];
            // What hardly bends adds nothing to a guess.
            if share < 1e-6 * scale {
                continue;
            }
            match rows {
                Rows::Dense(rows) => {
                    dense.iter_mut().zip(rows.row(*row)).for_each(|(x, &q)| *x = f64::from(q));
                    for (i, line) in hessian.chunks_exact_mut(width.max(1)).enumerate() {
                        let factor = share * dense[i];
                        line[..=i].iter_mut().zip(&dense).for_each(|(entry, x)| *entry += factor * x);
                    }
                }
                // Columns ascend.
                Rows::Sparse(rows) => {
                    for (i, x) in rows.row(*row).iter() {
                        for (j, y) in rows.row(*row).iter().take_while(|(j, _)| *j <= i) {
                            hessian[i * width + j] += share * f64::from(x) * f64::from(y);
                        }
                    }
                }
            }
        }
        for i in 0..width {
            for j in 0..i {
                hessian[j * width + i] = hessian[i * width + j];
            }
        }
        hessian
    };
    (0..outputs).into_par_iter().map(of_output).collect()
}

/// The penalised fit's weights as the most likely ones would be, output by output; none where matrices are not worked out.
fn without_drowned(
    design: &Design,
    observation: &Observation<'_>,
    penalty: &Penalty,
    weights: &[f64],
    prior: f64,
) -> Option<Vec<f64>> {
    let Penalty::Matrix(penalty) = penalty else { return None };
    let width = design.rows.width();
    let shape = observation.shape;
    let mut careful = Vec::with_capacity(weights.len());
    for (hessian, own) in own_hessians(design, weights).into_iter().zip(weights.chunks_exact(width)) {
        // Rows of H T^T / s; their products with each other are H N^-1 H.
        let images: Vec<f64> = hessian
            .chunks_exact(width)
            .flat_map(|row| shaped(shape, row))
            .map(|entry| entry / observation.noise_std)
            .collect();
        let mut information = product(&images, &images, width);
        observation.prior.add_to(&mut information, prior);
        let pulled: Vec<f64> =
            apply(&hessian, own).iter().zip(apply(penalty, own)).map(|(h, r)| h + r).collect();
        let explained: Vec<f64> =
            shaped(shape, &pulled).iter().map(|entry| entry / observation.noise_std).collect();
        careful.extend(Cholesky::factor(information, width)?.solve(&apply(&images, &explained)));
    }
    careful.iter().all(|weight| weight.is_finite()).then_some(careful)
}

/// The penalised objective, with its first guess.
struct Penalised<'a> {
    observation: &'a Observation<'a>,
    /// S~ = T^-1 S~'.
    noisy: Vec<f64>,
    penalty: Penalty,
    guess: Guess,
}

impl Smooth for Penalised<'_> {
    /// (1/W) sum_i omega_i A and its gradient.
    type At = (f64, Vec<f64>);

    fn at(&self, weights: &[f64]) -> Self::At {
        self.observation.problem.first_order(weights)
    }

    fn value(&self, weights: &[f64], (average, _): &Self::At) -> f64 {
        let pulled = self.penalty.apply(weights);
        average * self.observation.total_weight - inner(weights, &self.noisy) + 0.5 * inner(weights, &pulled)
    }

    fn gradient(&self, weights: &[f64], (_, average): &Self::At) -> Vec<f64> {
        let total = self.observation.total_weight;
        let own = average.iter().zip(&self.noisy).zip(self.penalty.apply(weights));
        own.map(|((average, noisy), pull)| average * total - noisy + pull).collect()
    }

    fn guess(&self, gradient: &[f64]) -> Vec<f64> {
        self.guess.apply(gradient)
    }
}

/// How likely the noisy sum is for weights of a size, up to a constant, with S(w) taken to be linear: around independence of label and features the sum of output k is
///
/// ```text
/// S_k - p_k sum_i omega_i x_i  ~  h_k M w_k,      h_k = p_k (1 - p_k),   M = sum_i omega_i (x_i - m)(x_i - m)^T
/// ```
///
/// so what is left of the released vector after the share p_k of the output is normal with covariance tau^2 h_k^2 T M Lambda^-1 M T^T + s^2.
pub(super) struct Evidence {
    /// (h_k^2, squares of what is left along the eigenvectors) of every output.
    outputs: Vec<(f64, Vec<f64>)>,
    /// Eigenvalues of T M Lambda^-1 M T^T.
    spread: Vec<f64>,
    noise_variance: f64,
}

impl Evidence {
    /// `None` for many features.
    pub fn new(design: &Design, observation: &Observation<'_>) -> Result<Option<Self>, MechanismError> {
        let width = design.rows.width();
        if width > LARGEST_MATRIX {
            return Ok(None);
        }
        let sums = &design.feature_sums;
        let mut moments = design.moments()?;
        for (i, line) in moments.chunks_exact_mut(width).enumerate() {
            line.iter_mut().zip(sums).for_each(|(entry, sum)| *entry -= sums[i] * sum / design.total_weight);
        }
        let mut precision = vec![0.0; width * width];
        observation.prior.add_to(&mut precision, 1.0);
        let Some(factor) = Cholesky::factor(precision, width) else { return Ok(None) };
        // Rows of M T^T are images of rows of M; columns of L^-1 M T^T, then its products with itself.
        let images: Vec<f64> =
            moments.chunks_exact(width).flat_map(|row| shaped(observation.shape, row)).collect();
        let columns: Vec<f64> = transposed(&images, width)
            .chunks_exact(width)
            .flat_map(|column| factor.solve_lower(column))
            .collect();
        let Some(eigen) = Eigen::of(&product(&columns, &columns, width), width) else { return Ok(None) };
        let noisy = unshaped(observation.shape, observation.sums);
        // The column that is largest in total tells an output's share best.
        let largest = (0..width).max_by(|&a, &b| sums[a].abs().total_cmp(&sums[b].abs())).unwrap_or(0);
        let outputs =
            noisy.chunks_exact(width).zip(observation.sums.chunks_exact(width)).map(|(noisy, released)| {
                let share = noisy[largest] / sums[largest];
                let known: Vec<f64> = sums.iter().map(|sum| share * sum).collect();
                let known = shaped(observation.shape, &known);
                let left: Vec<f64> = released.iter().zip(&known).map(|(sum, known)| sum - known).collect();
                let squares = apply(&eigen.vectors, &left).iter().map(|along| along * along).collect();
                let p = share.clamp(LEAST_SHARE, 0.5);
                ((p * (1.0 - p)).powi(2), squares)
            });
        Ok(Some(Evidence {
            outputs: outputs.collect(),
            spread: eigen.values.iter().map(|value| value.max(0.0)).collect(),
            noise_variance: observation.noise_std.powi(2),
        }))
    }

    pub fn of_size(&self, weight_size: f64) -> f64 {
        let of_output = |(bend, squares): &(f64, Vec<f64>)| -> f64 {
            let variances =
                self.spread.iter().map(|spread| weight_size.powi(2) * bend * spread + self.noise_variance);
            variances.zip(squares).map(|(variance, square)| square / variance + variance.ln()).sum()
        };
        -0.5 * self.outputs.iter().map(of_output).sum::<f64>()
    }
}

/// The penalised fit for weights of size tau.
pub(super) fn penalised(design: &Design, observation: &Observation<'_>, weight_size: f64) -> Denoised {
    let mut weights = vec![0.0; observation.sums.len()];
    let penalty = Penalty::geometric_mean(observation, design.rows.width(), weight_size.powi(-2));
    let guess = Guess::new(design, &penalty, &weights);
    let noisy = unshaped(observation.shape, observation.sums);
    let mut objective = Penalised { observation, noisy, penalty, guess };
    let mut at = objective.at(&weights);
    let mut value = objective.value(&weights, &at);
    for _ in 0..GUESSES {
        (weights, at) = quasi_newton::descend(&objective, weights, STEPS, LEAST_DECREASE);
        let reached = objective.value(&weights, &at);
        // A comparison that NaN fails.
        if !(value - reached > LEAST_DECREASE) {
            break;
        }
        value = reached;
        objective.guess = Guess::new(design, &objective.penalty, &weights);
    }
    if let Some(careful) =
        without_drowned(design, observation, &objective.penalty, &weights, weight_size.powi(-2))
    {
        at = objective.at(&careful);
        weights = careful;
    }
    let statistic = at.1.iter().map(|g| g * observation.total_weight).collect();
    Denoised { weights, value: at.0, statistic, response: None, evidence: f64::NEG_INFINITY }
}
