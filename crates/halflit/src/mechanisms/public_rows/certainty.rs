//! How far from the best weights a fit to the public rows is.
//!
//! The fit's covariance is phi / n times the inverse curvature H, so its expected excess risk is phi d / 2n. For likelihoods (logistic, softmax, Poisson) phi = 1: slopes vary as much as the
//! loss is curved. For others phi is the mean squared slope over the mean curvature, a residual variance for the squared loss, and the public rows tell both. No private cell is read.

use super::fitted;
use crate::mechanisms::MechanismError;
use crate::mechanisms::noisy_gradient::schedule::curvature;
use crate::problem::{Problem, scores};
use halflit_convex::LabelDomain;

/// Rows that are looked at: one number needs no more.
const MOST_ROWS: usize = 10_000;

/// phi.
pub(crate) fn dispersion(problem: &Problem) -> Result<f64, MechanismError> {
    let loss = problem.loss();
    let is_likelihood = matches!(loss.label_domain(), LabelDomain::Classes(_) | LabelDomain::Binary)
        || loss.name() == "poisson";
    let (rows, labels) = problem.public_data();
    if is_likelihood || !loss.is_smooth() || rows.is_empty() {
        return Ok(1.0);
    }
    let (count, size) = (rows.len() as f64, problem.dimension() as f64);
    // Too few rows fit themselves: how far the labels are from zero says more than their residuals.
    let (weights, freedom) = if count > 1.05 * size {
        (fitted(problem)?, (count - size) / count)
    } else {
        (vec![0.0; problem.dimension()], 1.0)
    };
    let mut slope = vec![0.0; loss.outputs()];
    let picked = (0..rows.len()).step_by(rows.len().div_ceil(MOST_ROWS));
    let seen = picked.clone().count() as f64;
    let (mut squares, mut bends) = (0.0, 0.0);
    for row in picked {
        let scores = scores(rows, row, &weights);
        loss.derivative(&scores, labels[row], &mut slope);
        squares += slope.iter().map(|slope| slope * slope).sum::<f64>();
        bends += scores.first().and_then(|&score| loss.curvature(score, labels[row])).unwrap_or(1.0);
    }
    // No row lies where the loss bends: as if one did.
    let bend = (bends / seen).max(curvature(loss) / seen);
    // One or two rows may happen to lie where the labels are predicted: what labels vary in their domain counts as much as such chance does.
    let by_chance = match loss.label_domain() {
        LabelDomain::Within(interval) => (interval.high - interval.low).powi(2) / (12.0 * count * count),
        _ => 0.0,
    };
    let phi = squares / (seen * freedom * bend) + by_chance;
    Ok(if phi.is_finite() && phi > 0.0 { phi } else { 1.0 })
}
