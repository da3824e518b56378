//! Fitting models to a noisy statistic: post-processing only.
//!
//! Two penalised fits follow each other. The first finds, among the statistics that labels could have produced, one near the noisy one; the
//! second fits the model to it:
//!
//! ```text
//! v  = argmin (1/W) (sum_i omega_i B(<v, x_i>) - <v, S~>) + (mu/2) ||v||^2          S^ = sum_i omega_i x_i B'(<v, x_i>)
//! w  = argmin (1/W) (sum_i omega_i A(<w, x_i>) - <w, S^>) + (lambda/2) ||w||^2
//! ```
//!
//! B is the log-partition function of the label's extreme values (logistic for two of them, softmax for classes), so B' lies inside conv t(Y): the soft
//! labels m_i = B'(<v, x_i>). By duality S^ minimises ||S~ - S||^2 / 2 plus mu W times the negative entropy of the soft labels over the feasible set, a smooth
//! projection onto it; mu -> 0 is the projection itself. Both maps are differentiable, so Stein's identity prices the whole procedure exactly:
//!
//! ```text
//! estimated loss(w) = (1/W) (sum_i omega_i A(<w, x_i>) - <w, S~>) + (sigma^2 / W) tr(dw/dS~)
//! dw/dS~ = (H_w + W lambda)^-1 H_v (H_v + W mu)^-1
//! ```
//!
//! On request the second fit is repeated around its own result, which removes most of the pull of its penalty towards zero; the derivative follows.

use super::design::{Design, ball_or_whole};
use super::lattice::LabelSteps;
use super::matrix::{apply, inner, product, shifted_inverse, trace};
use super::statistics::LabelStatistics;
use crate::mechanisms::MechanismError;
use halflit_convex::solver::{self, ProblemSpec, SecondOrder};
use halflit_convex::{Domain, Loss, LossSpec};
use serde::Serialize;

/// How near the minimizer a fit must be, relative to what the noise moves it: the certified solver's tolerance.
const TOLERANCE: f64 = 1e-5;

/// Up to this many weights second derivatives are assembled for risk estimates and standard errors.
pub(super) const LARGEST_ASSEMBLED: usize = 1024;

/// The penalties that are tried, W lambda in units of the noise, most careful first.
///
/// A weight of ordinary size (1) in a direction with curvature h is told apart from the noise if h exceeds sigma; penalties that are
/// far from sigma are never the best. See `proof.md`.
pub(super) const PENALTIES: [f64; 5] = [3.2, 1.6, 0.8, 0.4, 0.2];

/// W mu in units of the noise: small enough that a sum inside the feasible set stays where it is, large enough for Newton's method.
const SMOOTHING: f64 = 0.1;

/// The penalties of one fit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Penalties {
    /// mu: how strongly the statistic is smoothed first; none fits it as it is.
    pub smoothing: Option<f64>,
    /// lambda: the l2 penalty of the model.
    pub regularization: f64,
    /// Whether the model's penalty pulls towards zero only; otherwise the fit is repeated once around its own result.
    pub plain: bool,
}

/// A model fitted to a released statistic.
#[derive(Clone, Debug)]
pub struct Fit {
    /// The weights, output after output.
    pub weights: Vec<f64>,
    /// What it was fitted with.
    pub penalties: Penalties,
    /// Stein's unbiased estimate of the mean loss of these weights (squared loss: up to a constant); none beyond 1024 weights.
    pub estimated_loss: Option<f64>,
    /// dw/dS~ and the Hessian at the weights, in the scale of sums.
    pub(super) sensitivity: Option<Response>,
}

/// How the weights answer to the statistic.
#[derive(Clone, Debug)]
pub(super) struct Response {
    /// dw/dS~, row-major.
    pub jacobian: Vec<f64>,
    /// sum_i omega_i A''(<w, x_i>) x_i x_i^T.
    pub hessian: Vec<f64>,
}

/// The smoothed statistic.
struct Smoothed {
    start: Vec<f64>,
    statistic: Vec<f64>,
    /// dS^/dS~, where it was assembled.
    jacobian: Option<Vec<f64>>,
}

/// Fits models to a statistic on public features.
#[derive(Clone, Debug)]
pub struct Fitter<'a> {
    statistics: &'a LabelStatistics,
    pub(super) design: Design,
}

impl<'a> Fitter<'a> {
    pub(super) fn new(statistics: &'a LabelStatistics, design: Design) -> Result<Self, MechanismError> {
        let fits = statistics.loss == design.loss
            && statistics.sums.len() == design.size()
            && statistics.total_weight == design.total_weight
            && statistics.features_sha256 == design.digest();
        if fits { Ok(Fitter { statistics, design }) } else { Err(MechanismError::OtherTable) }
    }

    /// The fit with the penalties that Stein's estimate prefers; with a declared penalty, the smoothing alone is chosen.
    ///
    /// # Errors
    /// None in practice: penalties are positive and the solver certifies every tolerance asked for here.
    pub fn choose(&self, declared: Option<f64>) -> Result<Fit, MechanismError> {
        let scale = self.statistics.noise_std / self.statistics.total_weight;
        let objective = |fit: &Fit| {
            let penalty = declared.map_or(0.0, |lambda| 0.5 * lambda * inner(&fit.weights, &fit.weights));
            fit.estimated_loss.map(|loss| loss + penalty)
        };
        let mut chosen: Option<Fit> = None;
        let mut start = None;
        let mut rejected = 0;
        for penalty in PENALTIES {
            let smoothing = Some(least(SMOOTHING * scale));
            let regularization = least(declared.unwrap_or(penalty * scale));
            let fit =
                self.fit_from(Penalties { smoothing, regularization, plain: true }, start.as_deref())?;
            start = Some(fit.weights.clone());
            let Some(current) = &chosen else {
                chosen = Some(fit);
                continue;
            };
            match (objective(&fit), objective(current)) {
                (Some(new), Some(old)) if new < old => chosen = Some(fit),
                // Nothing to compare by: the middle of the list.
                (None, _) if penalty >= PENALTIES[PENALTIES.len() / 2] => chosen = Some(fit),
                _ => rejected += 1,
            }
            // The estimates have a single valley but for the noise.
            if rejected == 2 {
                break;
            }
        }
        chosen.ok_or(MechanismError::not_positive("number of penalties", 0.0))
    }

    /// The fit with given penalties.
    ///
    /// # Errors
    /// A penalty that is not positive, or that no certificate fits.
    pub fn fit(&self, penalties: Penalties) -> Result<Fit, MechanismError> {
        self.fit_from(penalties, None)
    }

    /// One fit per penalty, each started from the one before: a regularization path.
    ///
    /// # Errors
    /// As [`Fitter::fit`].
    pub fn path(&self, smoothing: Option<f64>, regularizations: &[f64]) -> Result<Vec<Fit>, MechanismError> {
        let mut path: Vec<Fit> = Vec::with_capacity(regularizations.len());
        for &regularization in regularizations {
            let start = path.last().map(|fit| fit.weights.clone());
            path.push(self.fit_from(Penalties { smoothing, regularization, plain: true }, start.as_deref())?);
        }
        Ok(path)
    }

    /// The denoised soft labels m_i of the private rows and then of the public rows: one entry per output for each row.
    ///
    /// # Errors
    /// A smoothing that is not positive.
    pub fn soft_labels(&self, smoothing: f64) -> Result<Vec<Vec<f64>>, MechanismError> {
        let smoothed = self.smooth(smoothing, None)?;
        let (loss, low, width) = self.projection();
        let columns = self.design.rows.width();
        let mut labels = Vec::with_capacity(self.design.rows.len());
        let mut derivative = vec![0.0; loss.outputs()];
        for row in 0..self.design.rows.len() {
            let x = self.design.rows.dense_row(row)?;
            let scores: Vec<f64> = smoothed
                .start
                .chunks(columns)
                .map(|v| {
                    v.iter().zip(&x).map(|(v, &q)| v * f64::from(q) * crate::problem::FEATURE_UNIT).sum()
                })
                .collect();
            // The derivative at label 0 is B' (logistic) or B' - e_0 (softmax).
            loss.derivative(&scores, 0.0, &mut derivative);
            if loss.outputs() > 1 {
                derivative[0] += 1.0;
            }
            labels.push(derivative.iter().map(|m| low + width * m).collect());
        }
        Ok(labels)
    }

    fn fit_from(&self, penalties: Penalties, start: Option<&[f64]>) -> Result<Fit, MechanismError> {
        let Penalties { smoothing, regularization, plain } = penalties;
        for (name, value) in [("regularization", regularization), ("smoothing", smoothing.unwrap_or(1.0))] {
            if !(value.is_finite() && value > 0.0) {
                return Err(MechanismError::not_positive(name, value));
            }
        }
        let (noisy, weight) = (&self.statistics.sums, self.statistics.total_weight);
        let smoothed = smoothing.map(|mu| self.smooth(mu, start)).transpose()?;
        let statistic = smoothed.as_ref().map_or(noisy, |smoothed| &smoothed.statistic);
        let size = self.design.size();
        let rounds = if plain { 1 } else { 2 };
        let radius = self.design.radius;
        let fitted = self.repeated(self.design.loss, statistic, regularization, radius, start, rounds)?;
        let response = fitted.response.and_then(|model| {
            let jacobian = match &smoothed {
                // The noise of softmax has no part that all classes share, see `remove_common_part`.
                None => without_common_part(model.jacobian, self.design.loss.outputs(), size),
                Some(smoothed) => {
                    product(&model.jacobian, &transposed(smoothed.jacobian.as_ref()?, size), size)
                }
            };
            Some(Response { jacobian, hessian: model.hessian })
        });
        let estimated_loss = response.as_ref().map(|response| {
            let divergence = trace(&response.jacobian, size);
            let variance = self.statistics.noise_std.powi(2);
            fitted.value + (variance * divergence - inner(&fitted.weights, noisy)) / weight
        });
        Ok(Fit { weights: fitted.weights, penalties, estimated_loss, sensitivity: response })
    }

    /// The penalised fit to a statistic, repeated around its own result, with its derivative in the statistic.
    fn repeated(
        &self,
        loss: Loss,
        statistic: &[f64],
        penalty: f64,
        radius: Option<f64>,
        start: Option<&[f64]>,
        rounds: usize,
    ) -> Result<Fitted, MechanismError> {
        let (size, weight) = (self.design.size(), self.statistics.total_weight);
        let l = weight * penalty;
        let mut anchor: Option<Vec<f64>> = None;
        let mut start = start.map(<[f64]>::to_vec);
        // dw/dS of the round before.
        let mut earlier: Option<Vec<f64>> = None;
        let mut round = 0;
        loop {
            round += 1;
            let domain = ball_or_whole(size, radius)?;
            let found =
                solve(&self.design, loss, statistic, penalty, domain, anchor.as_deref(), start.as_deref())?;
            let response = found.second.as_ref().and_then(|second| {
                let hessian: Vec<f64> = second.hessian.iter().map(|h| h * weight).collect();
                let pressure =
                    pressure(radius, &found.weights, second, statistic, weight, penalty, anchor.as_deref());
                let mut inverse = shifted_inverse(&hessian, size, l + weight * pressure)?;
                if pressure > 0.0 {
                    remove_radial_part(&mut inverse, &found.weights);
                }
                let mut jacobian = inverse.clone();
                if let Some(earlier) = &earlier {
                    // G_2 (I + l dw_1/dS)
                    let pulled = product(&inverse, &transposed(earlier, size), size);
                    jacobian.iter_mut().zip(&pulled).for_each(|(entry, pulled)| *entry += l * pulled);
                }
                Some(Response { jacobian, hessian })
            });
            if round >= rounds {
                let Solved { weights, value, gradient, .. } = found;
                return Ok(Fitted { weights, value, gradient, response });
            }
            earlier = response.map(|response| response.jacobian);
            start = Some(found.weights.clone());
            anchor = Some(found.weights);
        }
    }

    /// B, and the interval that its derivative is stretched to: low + width * B'.
    fn projection(&self) -> (Loss, f64, f64) {
        match self.design.labels {
            LabelSteps::Interval { low, high } => (logistic(), low, high - low),
            LabelSteps::Classes { .. } => (self.design.loss, 0.0, 1.0),
        }
    }

    fn smooth(&self, smoothing: f64, start: Option<&[f64]>) -> Result<Smoothed, MechanismError> {
        if !(smoothing.is_finite() && smoothing > 0.0) {
            return Err(MechanismError::not_positive("smoothing", smoothing));
        }
        let (loss, low, width) = self.projection();
        let (size, weight) = (self.design.size(), self.statistics.total_weight);
        let outputs = loss.outputs();
        let shift = |index: usize| low * self.design.feature_sums[index % (size / outputs)];
        let scaled: Vec<f64> =
            self.statistics.sums.iter().enumerate().map(|(index, s)| (s - shift(index)) / width).collect();
        // Weights of another loss are no start.
        let start = start.filter(|_| loss == self.design.loss);
        let fitted = self.repeated(loss, &scaled, smoothing, None, start, 1)?;
        let statistic = fitted
            .gradient
            .iter()
            .enumerate()
            .map(|(index, gradient)| shift(index) + width * weight * gradient)
            .collect();
        // dS^/dS~ = H dv/dS': the stretching of the labels cancels.
        let jacobian = fitted
            .response
            .map(|response| product(&response.hessian, &transposed(&response.jacobian, size), size));
        Ok(Smoothed { start: fitted.weights, statistic, jacobian })
    }
}

/// Minimises (1/W) (sum_i omega_i A(<w, x_i>) - <w, S>) + (lambda/2) ||w - anchor||^2 over the domain.
fn solve(
    design: &Design,
    loss: Loss,
    statistic: &[f64],
    regularization: f64,
    domain: Domain,
    anchor: Option<&[f64]>,
    start: Option<&[f64]>,
) -> Result<Solved, MechanismError> {
    let Design { rows, weights, total_weight, row_norm, .. } = design;
    let linear: Vec<f64> = statistic.iter().map(|s| s / total_weight).collect();
    let problem = solver::Problem::new(ProblemSpec {
        rows,
        row_norm: *row_norm,
        labels: None,
        row_weights: weights.as_deref(),
        total_weight: *total_weight,
        loss,
        regularization,
        anchor,
        linear: Some(&linear),
        domain,
    })?;
    let tolerance = TOLERANCE.max(problem.smallest_tolerance());
    let weights = solver::minimize_from(&problem, tolerance, start)?.weights;
    if weights.len() > LARGEST_ASSEMBLED {
        let (value, gradient) = problem.first_order(&weights);
        return Ok(Solved { weights, value, gradient, second: None });
    }
    let second = problem.second_order(&weights);
    Ok(Solved { weights, value: second.value, gradient: second.gradient.clone(), second: Some(second) })
}

/// The weights of the one-stage fit to any statistic, in the declared ball.
pub(crate) fn plain_fit(
    design: &Design,
    statistic: &[f64],
    regularization: f64,
) -> Result<Vec<f64>, MechanismError> {
    solve(design, design.loss, statistic, least(regularization), design.domain()?, None, None)
        .map(|found| found.weights)
}

/// A minimizer, and the average of A there with its derivatives.
struct Solved {
    weights: Vec<f64>,
    value: f64,
    gradient: Vec<f64>,
    second: Option<SecondOrder>,
}

/// The last of the repeated fits, with its derivative in the statistic where that was assembled.
struct Fitted {
    weights: Vec<f64>,
    value: f64,
    gradient: Vec<f64>,
    response: Option<Response>,
}

/// How hard a ball presses: the multiplier of its constraint, zero inside it.
fn pressure(
    radius: Option<f64>,
    weights: &[f64],
    second: &SecondOrder,
    statistic: &[f64],
    total_weight: f64,
    lambda: f64,
    anchor: Option<&[f64]>,
) -> f64 {
    let Some(radius) = radius else { return 0.0 };
    let square = inner(weights, weights);
    if square.sqrt() < radius * (1.0 - 1e-7) {
        return 0.0;
    }
    // gradient + lambda (w - anchor) = - pressure * w
    let along: f64 = (0..weights.len())
        .map(|i| {
            let pull = lambda * (weights[i] - anchor.map_or(0.0, |anchor| anchor[i]));
            weights[i] * (second.gradient[i] - statistic[i] / total_weight + pull)
        })
        .sum();
    (-along / square).max(0.0)
}

fn transposed(matrix: &[f64], size: usize) -> Vec<f64> {
    (0..size * size).map(|k| matrix[(k % size) * size + k / size]).collect()
}

/// The solver wants a penalty of at least this.
fn least(penalty: f64) -> f64 {
    penalty.max(1e-9)
}

fn logistic() -> Loss {
    Loss::new(LossSpec::Logistic).expect("the logistic loss has no parameter")
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

/// J P with P = I - 11^T/K over the classes.
fn without_common_part(mut jacobian: Vec<f64>, outputs: usize, size: usize) -> Vec<f64> {
    for row in jacobian.chunks_exact_mut(size.max(1)) {
        crate::mechanisms::noisy_gradient::remove_common_part(row, outputs);
    }
    jacobian
}
