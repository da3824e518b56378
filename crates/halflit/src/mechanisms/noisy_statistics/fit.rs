//! Fitting models to a noisy statistic: post-processing only.
//!
//! First the sum is denoised: [`posterior`](super::posterior) finds the most likely weights given the noisy sum, for weights of an expected size tau. Without a declared
//! penalty these weights are the model. With one, or in a declared ball, the model is fitted to the denoised sum S^ by the certified solver:
//!
//! ```text
//! w = argmin (1/W) (sum_i omega_i A(<w, x_i>) - <w, S^>) + (lambda/2) ||w||^2
//! ```
//!
//! tau is the one for which the noisy sum itself is most likely. Every step is differentiable, so Stein's identity gives an unbiased estimate of the loss of whatever
//! comes out (noise covariance s^2 (T^T T)^-1):
//!
//! ```text
//! estimated loss(w) = (1/W) (sum_i omega_i A(<w, x_i>) - <w, S~>) + (s^2 / W) tr(dw/dS~' T^-T)
//! ```
//!
//! Beyond [`LARGEST_ASSEMBLED`] weights no second derivatives are assembled ([`large`](super::large)): the weights minimise the loss of the noisy sum with a penalty of the
//! size tau, tau is chosen as if the sum answered linearly to weights, and there is no estimate.

use super::design::Design;
use super::large;
use super::lattice::LabelSteps;
use super::matrix::{apply, inner, product, shifted_inverse, transposed};
use super::posterior::{Observation, unshaped, unshaped_back};
use super::prior::Prior;
use super::projection::{self, Projection};
use super::statistics::LabelStatistics;
use crate::mechanisms::MechanismError;
use crate::mechanisms::noisy_gradient::remove_common_part;
use crate::problem::scores;
use halflit_convex::solver::{self, SecondOrder};
use halflit_convex::{Domain, Eigen, LabelDomain, Loss};
use serde::Serialize;
use std::fmt;
use std::sync::OnceLock;

/// How near the minimizer a fit must be, relative to what the noise moves it: the certified solver's tolerance.
const TOLERANCE: f64 = 1e-5;

/// Up to this many weights second derivatives are assembled for risk estimates and standard errors.
pub(super) const LARGEST_ASSEMBLED: usize = 512;

/// Curvature of less than this share of the largest is that of rounding.
const EMPTY: f64 = 1e-10;

/// The sizes of weights that are tried, most careful first: in units of standard deviations weights are of order one. See `proof.md`.
const WEIGHT_SIZES: [f64; 7] = [0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0];

/// The logarithm of how likely a size is before the sum is seen: weights are of size about a half, give or take a factor of four. It decides where the noise drowns everything and
/// the sum is as likely for one size as for another.
fn expectation(size: f64) -> f64 {
    -0.5 * ((size / 0.5).ln() / 4f64.ln()).powi(2)
}

/// Which sum a model is fitted to.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Sums {
    /// The noisy sum as it is, but for directions in which all features are zero. No labels may have such a sum, so a penalty or a ball is needed.
    AsReleased,
    /// The nearest sum that labels can have ([`Fitter::projection`]). The noise that is left is not normal: no estimate of the loss, no standard errors.
    Projected,
    /// The sum of the most likely weights.
    Denoised {
        /// tau: the size that weights are expected to have.
        weight_size: f64,
    },
}

impl fmt::Display for Sums {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Sums::AsReleased => f.write_str("as they are"),
            Sums::Projected => f.write_str("projected onto what labels can add up to"),
            Sums::Denoised { weight_size } => write!(f, "denoised for weights of size {weight_size}"),
        }
    }
}

/// What a fit is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Penalties {
    /// What the model is fitted to.
    pub sums: Sums,
    /// lambda: the l2 penalty of the model; none takes the most likely weights, of denoised sums only.
    pub regularization: Option<f64>,
}

/// A model fitted to a released statistic.
#[derive(Clone, Debug)]
pub struct Fit {
    /// The weights, output after output.
    pub weights: Vec<f64>,
    /// What it was fitted with.
    pub penalties: Penalties,
    /// Stein's unbiased estimate of the mean loss of these weights (squared loss: up to a constant); none for projected sums and beyond 512 weights.
    pub estimated_loss: Option<f64>,
    /// The standard deviation that the noise gives that estimate if the weights are held: s ||T^-T w|| / W.
    pub estimate_deviation: Option<f64>,
    /// How the weights answer to the released vector.
    pub(super) response: Option<Response>,
}

/// How weights answer to the released vector.
#[derive(Clone, Debug)]
pub(super) struct Response {
    /// dw/dS~', row-major.
    pub jacobian: Vec<f64>,
    /// sum_i omega_i A''(<w, x_i>) x_i x_i^T.
    pub hessian: Vec<f64>,
}

/// The denoised sum, and the weights that explain it.
#[derive(Clone)]
pub(super) struct Denoised {
    pub weights: Vec<f64>,
    /// (1/W) sum_i omega_i A there.
    pub value: f64,
    /// S^.
    pub statistic: Vec<f64>,
    /// How weights and, through the Hessian, S^ answer to the released vector.
    pub response: Option<Response>,
    /// log p(S~' | tau), up to a constant.
    pub evidence: f64,
}

/// Fits models to a statistic on public features.
#[derive(Clone, Debug)]
pub struct Fitter<'a> {
    statistics: &'a LabelStatistics,
    pub(crate) design: Design,
    prior: Prior,
    /// S~ = T^-1 S~'.
    noisy: Vec<f64>,
    /// Directions in which all features are zero, once someone has asked for them.
    empty_directions: OnceLock<Vec<Vec<f64>>>,
}

impl<'a> Fitter<'a> {
    pub(crate) fn new(statistics: &'a LabelStatistics, design: Design) -> Result<Self, MechanismError> {
        if statistics.label != design.label {
            return Err(MechanismError::OtherLabel { name: statistics.label.name.clone() });
        }
        let shape = statistics.shape.as_ref();
        let fits = statistics.loss == design.loss
            && statistics.sums.len() == design.size()
            && statistics.total_weight == design.total_weight
            && shape.is_none_or(|shape| shape.size() == design.rows.width())
            && statistics.features_sha256 == design.digest();
        if !fits {
            return Err(MechanismError::OtherTable);
        }
        let (prior, noisy) = (Prior::of(&design), unshaped(shape, &statistics.sums));
        Ok(Fitter { statistics, design, prior, noisy, empty_directions: OnceLock::new() })
    }

    /// The expected size of weights under which the noisy sum is most likely.
    ///
    /// # Errors
    /// None for released statistics.
    pub fn likeliest_size(&self) -> Result<f64, MechanismError> {
        Ok(if self.is_large() { self.likely_size()? } else { self.likeliest()?.0 })
    }

    /// The fit for the expected size of weights under which the noisy sum is most likely; with the declared penalty, if there is one.
    ///
    /// # Errors
    /// A penalty that is not positive.
    pub fn choose(&self, declared: Option<f64>) -> Result<Fit, MechanismError> {
        declared.map_or(Ok(()), |lambda| positive("regularization", lambda))?;
        let (weight_size, denoised) = if self.is_large() {
            let size = self.likely_size()?;
            (size, self.denoised(size, None)?)
        } else {
            self.likeliest()?
        };
        let sums = Sums::Denoised { weight_size };
        self.finished(Penalties { sums, regularization: declared }, denoised)
    }

    /// The size under which the noisy sum is most likely by Laplace's approximation, with its fit.
    fn likeliest(&self) -> Result<(f64, Denoised), MechanismError> {
        let mut chosen: Option<(f64, f64, Denoised)> = None;
        for size in WEIGHT_SIZES {
            let weight_size = size * self.unit_of_weights();
            let start = chosen.as_ref().map(|(_, _, current)| current.weights.as_slice());
            let next = self.denoised(weight_size, start)?;
            let likelihood = next.evidence + expectation(size);
            // One hill: beyond the top it only falls.
            if chosen.as_ref().is_some_and(|(current, _, _)| !(likelihood > *current)) {
                break;
            }
            chosen = Some((likelihood, weight_size, next));
        }
        let (_, weight_size, denoised) =
            chosen.ok_or(MechanismError::not_positive("number of weight sizes", 0.0))?;
        Ok((weight_size, denoised))
    }

    /// The weights of a penalised fit, whatever their number: no second derivative is assembled, no loss estimated. For many outputs far quicker than [`Fitter::choose`].
    pub(crate) fn penalised_weights(&self) -> Result<Vec<f64>, MechanismError> {
        let problem = self.averages()?;
        let found = large::penalised(&self.design, &self.observation(&problem), self.likely_size()?);
        Ok(found.weights)
    }

    /// The size under which the noisy sum is most likely if it answers linearly to weights.
    fn likely_size(&self) -> Result<f64, MechanismError> {
        let problem = self.averages()?;
        let evidence = large::Evidence::new(&self.design, &self.observation(&problem))?;
        let likelihood = |size: f64| {
            let of_size =
                evidence.as_ref().map_or(0.0, |evidence| evidence.of_size(size * self.unit_of_weights()));
            of_size + expectation(size)
        };
        let most = |a: &f64, b: &f64| likelihood(*a).total_cmp(&likelihood(*b));
        Ok(WEIGHT_SIZES.into_iter().max_by(most).unwrap_or(1.0) * self.unit_of_weights())
    }

    /// Whether no second derivatives are assembled.
    fn is_large(&self) -> bool {
        self.design.size() > LARGEST_ASSEMBLED
    }

    /// Scores of classes and counts are of order one; regression labels were scaled to [-1, 1], which their features share.
    fn unit_of_weights(&self) -> f64 {
        match self.design.loss.label_domain() {
            LabelDomain::Within(_) if self.design.loss.name() != "poisson" => 0.25,
            _ => 1.0,
        }
    }

    /// The fit with given penalties.
    ///
    /// # Errors
    /// A penalty that is not positive, none at all where one is needed, or one that no certificate fits.
    pub fn fit(&self, penalties: Penalties) -> Result<Fit, MechanismError> {
        let Penalties { sums, regularization } = penalties;
        match (sums, regularization) {
            (_, Some(lambda)) => positive("regularization", lambda)?,
            (Sums::Denoised { .. }, None) => {}
            (Sums::AsReleased | Sums::Projected, None) => {
                return Err(MechanismError::not_positive("regularization", 0.0));
            }
        }
        self.finished(penalties, self.sums(sums)?)
    }

    fn sums(&self, sums: Sums) -> Result<Denoised, MechanismError> {
        match sums {
            Sums::AsReleased => {
                let mut statistic = self.noisy.clone();
                self.remove_empty_directions(&mut statistic)?;
                Ok(self.unexplained(statistic))
            }
            Sums::Projected => Ok(self.unexplained(self.projection()?.sums.concat())),
            Sums::Denoised { weight_size } => {
                positive("weight_size", weight_size)?;
                self.denoised(weight_size, None)
            }
        }
    }

    /// One fit per penalty to the same sum, which is worked out once: a regularization path. Without a choice of sums, denoised for weights of the size under which they are most likely.
    ///
    /// # Errors
    /// As [`Fitter::fit`].
    pub fn path(&self, sums: Option<Sums>, regularizations: &[f64]) -> Result<Vec<Fit>, MechanismError> {
        regularizations.iter().try_for_each(|&lambda| positive("regularization", lambda))?;
        let likeliest = || Ok(Sums::Denoised { weight_size: self.likeliest_size()? });
        let sums = sums.map_or_else(likeliest, Ok::<Sums, MechanismError>)?;
        let denoised = self.sums(sums)?;
        let fit =
            |&lambda: &f64| self.finished(Penalties { sums, regularization: Some(lambda) }, denoised.clone());
        regularizations.iter().map(fit).collect()
    }

    /// The nearest sum that labels can have, and soft labels that have it.
    ///
    /// # Errors
    /// None for released statistics.
    pub fn projection(&self) -> Result<Projection, MechanismError> {
        Ok(projection::project(&self.design, self.statistics)?)
    }

    /// The fit of a path with the least of Stein's estimates; none of a path without estimates.
    ///
    /// For sums that were denoised. Where sums as they are lie outside what labels can add up to, weak penalties have no finite minimum to converge to, and the estimates of what
    /// they reach vary by more than any loss: no weak penalty should be on such a path.
    pub fn least_estimated(path: Vec<Fit>) -> Option<Fit> {
        let estimated = path.into_iter().filter_map(|fit| Some((fit.estimated_loss?, fit)));
        estimated.min_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, fit)| fit)
    }

    /// The denoised soft labels m_i of the private rows and then of the public rows: one entry per output for each row.
    ///
    /// # Errors
    /// A size that is not positive.
    pub fn soft_labels(&self, weight_size: f64) -> Result<Vec<Vec<f64>>, MechanismError> {
        positive("weight_size", weight_size)?;
        let weights = self.denoised(weight_size, None)?.weights;
        Ok((0..self.design.rows.len()).map(|row| soft_label(&self.design, row, &weights)).collect())
    }

    /// The model from the denoised sum, and Stein's estimate of its loss.
    fn finished(&self, penalties: Penalties, denoised: Denoised) -> Result<Fit, MechanismError> {
        let square = inner(&denoised.weights, &denoised.weights);
        let is_inside = self.design.radius.is_none_or(|radius| square <= radius * radius);
        let (weights, value, response) = match penalties.regularization {
            None if is_inside => (denoised.weights, denoised.value, denoised.response),
            given => self.refitted(&denoised, given.unwrap_or(0.0))?,
        };
        // A projection has no derivative that would hold everywhere.
        let response = response.filter(|_| penalties.sums != Sums::Projected);
        let estimated_loss = response.as_ref().map(|response| {
            let variance = self.statistics.noise_std.powi(2);
            let correction = variance * self.divergence(&response.jacobian) - inner(&weights, &self.noisy);
            value + correction / self.statistics.total_weight
        });
        let noise = unshaped_back(self.statistics.shape.as_ref(), &weights);
        let deviation =
            self.statistics.noise_std * inner(&noise, &noise).sqrt() / self.statistics.total_weight;
        let estimate_deviation = estimated_loss.map(|_| deviation);
        Ok(Fit { weights, penalties, estimated_loss, estimate_deviation, response })
    }

    /// tr(dw/dS~' T^-T): row j of the product of T^-T and the columns of the Jacobian, summed along the diagonal.
    pub(super) fn divergence(&self, jacobian: &[f64]) -> f64 {
        let size = self.design.size();
        let shape = self.statistics.shape.as_ref();
        // (J T^-T)_aa = (T^-1 J_a)_a for row a of J.
        jacobian.chunks_exact(size).enumerate().map(|(a, row)| unshaped(shape, row)[a]).sum()
    }

    /// The average log-partition function on all rows.
    fn averages(&self) -> Result<solver::Problem<'_>, MechanismError> {
        let size = self.design.size();
        Ok(solver::Problem::new(self.design.spec(self.design.loss, 1.0, None, Domain::whole(size, None)?))?)
    }

    fn observation<'b>(&'b self, problem: &'b solver::Problem<'b>) -> Observation<'b> {
        Observation {
            problem,
            total_weight: self.statistics.total_weight,
            shape: self.statistics.shape.as_ref(),
            sums: &self.statistics.sums,
            noise_std: self.statistics.noise_std,
            prior: &self.prior,
            row_norm: self.design.row_norm,
        }
    }

    pub(super) fn denoised(
        &self,
        weight_size: f64,
        start: Option<&[f64]>,
    ) -> Result<Denoised, MechanismError> {
        let problem = self.averages()?;
        let observation = self.observation(&problem);
        if self.is_large() {
            return Ok(large::penalised(&self.design, &observation, weight_size));
        }
        let found = observation.most_likely(weight_size, start);
        Ok(Denoised {
            evidence: found.evidence,
            weights: found.weights,
            value: found.value,
            statistic: found.statistic,
            response: Some(Response { jacobian: found.response, hessian: found.hessian }),
        })
    }

    /// Takes out of a sum what no labels can put there: categories that add up to the intercept leave directions in which there is only noise.
    fn remove_empty_directions(&self, sum: &mut [f64]) -> Result<(), MechanismError> {
        for direction in self.empty_directions()? {
            let along = inner(direction, sum);
            sum.iter_mut().zip(direction).for_each(|(sum, d)| *sum -= along * d);
        }
        Ok(())
    }

    fn empty_directions(&self) -> Result<&[Vec<f64>], MechanismError> {
        if let Some(known) = self.empty_directions.get() {
            return Ok(known);
        }
        let size = self.design.size();
        let eigen = match self.is_large() {
            true => None,
            false => Eigen::of(&self.averages()?.second_order(&vec![0.0; size]).hessian, size),
        };
        let found = eigen.map_or_else(Vec::new, |eigen| {
            let largest = eigen.values.iter().fold(0.0, |a: f64, &b| a.max(b));
            let along = eigen.vectors.chunks_exact(size.max(1)).zip(&eigen.values);
            along.filter(|(_, value)| **value <= EMPTY * largest).map(|(vector, _)| vector.to_vec()).collect()
        });
        Ok(self.empty_directions.get_or_init(|| found))
    }

    /// A sum that no weights are known to explain.
    fn unexplained(&self, statistic: Vec<f64>) -> Denoised {
        Denoised {
            weights: vec![0.0; self.design.size()],
            value: 0.0,
            statistic,
            response: None,
            evidence: f64::NEG_INFINITY,
        }
    }

    /// The penalised fit to the denoised sum, in the declared ball, with its response to the released vector.
    #[allow(clippy::type_complexity, reason = "weights, value and response of a fit, taken apart at once")]
    fn refitted(
        &self,
        denoised: &Denoised,
        lambda: f64,
    ) -> Result<(Vec<f64>, f64, Option<Response>), MechanismError> {
        let (size, weight) = (self.design.size(), self.statistics.total_weight);
        let lambda = least(lambda);
        let domain = self.design.domain()?;
        let start = Some(denoised.weights.as_slice());
        let found = solve(&self.design, self.design.loss, &denoised.statistic, lambda, domain, start)?;
        let response = found.second.as_ref().and_then(|second| {
            let hessian: Vec<f64> = second.hessian.iter().map(|h| h * weight).collect();
            let pressure =
                pressure(self.design.radius, &found.weights, second, &denoised.statistic, weight, lambda);
            let mut inverse = shifted_inverse(&hessian, size, weight * (lambda + pressure))?;
            if pressure > 0.0 {
                remove_radial_part(&mut inverse, &found.weights);
            }
            Some((inverse, hessian))
        });
        let response = response.map(|(inverse, hessian)| {
            Ok::<_, MechanismError>(Response { jacobian: self.chained(&inverse, denoised)?, hessian })
        });
        Ok((found.weights, found.value, response.transpose()?))
    }

    /// dw/dS^ times dS^/dS~'.
    fn chained(&self, inverse: &[f64], denoised: &Denoised) -> Result<Vec<f64>, MechanismError> {
        let size = self.design.size();
        Ok(match &denoised.response {
            // S^ = S(v), dS^ = H_v dv.
            Some(response) => {
                let through = product(inverse, &response.hessian, size);
                product(&through, &transposed(&response.jacobian, size), size)
            }
            // S^ = T^-1 S~'; the noise of softmax has no part that all classes share, see `remove_common_part`.
            None => {
                let mut jacobian: Vec<f64> = inverse.to_vec();
                for row in jacobian.chunks_exact_mut(size.max(1)) {
                    self.remove_empty_directions(row)?;
                    remove_common_part(row, self.design.loss.outputs());
                }
                let shape = self.statistics.shape.as_ref();
                jacobian.chunks_exact(size.max(1)).flat_map(|row| unshaped_back(shape, row)).collect()
            }
        })
    }
}

/// A' of one row under some weights: one entry per output, between the labels.
pub(crate) fn soft_label(design: &Design, row: usize, weights: &[f64]) -> Vec<f64> {
    let loss = design.loss;
    let (least, most) = match design.labels {
        LabelSteps::Interval { low, high } => (low, high),
        LabelSteps::Classes { .. } => (0.0, 1.0),
    };
    let scores = scores(&design.rows, row, weights);
    let mut derivative = vec![0.0; loss.outputs()];
    // The derivative at label 0 is A' (one output) or A' - e_0 (classes).
    loss.derivative(&scores, 0.0, &mut derivative);
    if loss.outputs() > 1 {
        derivative[0] += 1.0;
    }
    derivative.iter().map(|m| m.clamp(least, most)).collect()
}

fn positive(name: &'static str, value: f64) -> Result<(), MechanismError> {
    if value.is_finite() && value > 0.0 { Ok(()) } else { Err(MechanismError::not_positive(name, value)) }
}

/// Minimises (1/W) (sum_i omega_i A(<w, x_i>) - <w, S>) + (lambda/2) ||w||^2 over the domain.
fn solve(
    design: &Design,
    loss: Loss,
    statistic: &[f64],
    regularization: f64,
    domain: Domain,
    start: Option<&[f64]>,
) -> Result<Solved, MechanismError> {
    let linear: Vec<f64> = statistic.iter().map(|s| s / design.total_weight).collect();
    let problem = solver::Problem::new(design.spec(loss, regularization, Some(&linear), domain))?;
    let weights = solver::minimize_as_far_as_possible(&problem, TOLERANCE, start)?.weights;
    if weights.len() > LARGEST_ASSEMBLED {
        let value = problem.first_order(&weights).0;
        return Ok(Solved { weights, value, second: None });
    }
    let second = problem.second_order(&weights);
    Ok(Solved { weights, value: second.value, second: Some(second) })
}

/// The weights of the one-stage fit to any statistic, in the declared ball.
pub(crate) fn plain_fit(
    design: &Design,
    statistic: &[f64],
    regularization: f64,
) -> Result<Vec<f64>, MechanismError> {
    solve(design, design.loss, statistic, least(regularization), design.domain()?, None)
        .map(|found| found.weights)
}

/// A minimizer, and the average of A there with its derivatives.
struct Solved {
    weights: Vec<f64>,
    value: f64,
    second: Option<SecondOrder>,
}

/// How hard a ball presses: the multiplier of its constraint, zero inside it.
fn pressure(
    radius: Option<f64>,
    weights: &[f64],
    second: &SecondOrder,
    statistic: &[f64],
    total_weight: f64,
    lambda: f64,
) -> f64 {
    let Some(radius) = radius else { return 0.0 };
    let square = inner(weights, weights);
    if square.sqrt() < radius * (1.0 - 1e-7) {
        return 0.0;
    }
    // gradient + lambda w = - pressure * w
    let slope = |i: usize| second.gradient[i] - statistic[i] / total_weight + lambda * weights[i];
    let along: f64 = (0..weights.len()).map(|i| weights[i] * slope(i)).sum();
    (-along / square).max(0.0)
}

/// The solver wants a penalty of at least this.
fn least(penalty: f64) -> f64 {
    penalty.max(1e-9)
}

/// On the ball the weights move along it only: G - G w w^T G / (w^T G w).
fn remove_radial_part(inverse: &mut [f64], weights: &[f64]) {
    let moved = apply(inverse, weights);
    let along = inner(&moved, weights);
    if along > 0.0 {
        for (i, row) in inverse.chunks_exact_mut(weights.len()).enumerate() {
            for (entry, other) in row.iter_mut().zip(&moved) {
                *entry -= moved[i] * other / along;
            }
        }
    }
}
