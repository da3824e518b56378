//! Bounds on the distance to the minimizer, proved from one gradient or one duality gap. See `proof.md`.

use super::{Attempt, Evidence, Problem, fine, length_up};
use crate::domain::ROUNDOFF;
use crate::double::{DOUBLE_ROUNDOFF, Double};

/// The gradient-mapping certificate of `weights`, given the computed gradient of F there.
///
/// `gradient_error` bounds the error of that gradient, `smoothness` is beta. Infinite outside the region on which the bounds hold.
pub(super) fn gradient_mapping(
    problem: &Problem<'_>,
    weights: &[f64],
    gradient: &[f64],
    smoothness: f64,
    gradient_error: f64,
) -> f64 {
    let bounds = &problem.bounds;
    if !(length_up(weights) <= bounds.reach) {
        return f64::INFINITY;
    }
    let mapping = if problem.is_unconstrained() {
        length_up(gradient)
    } else {
        // (w - P(w - g / beta)) beta, in pairs of doubles
        let step = Double::from(1.0) / Double::from(smoothness);
        let mut moved: Vec<Double> =
            weights.iter().zip(gradient).map(|(&w, &g)| Double::from(w) - step * Double::from(g)).collect();
        problem.domain.project_number(&mut moved);
        let difference: Vec<f64> =
            moved.iter().zip(weights).map(|(&m, &w)| (Double::from(w) - m).to_f64()).collect();
        let size = bounds.reach + (length_up(gradient) + gradient_error) / smoothness;
        (length_up(&difference) + bounds.projection_error(size)) * smoothness
    };
    // (1 - 8u) ... : a handful of roundings, outward
    (mapping + gradient_error) / problem.bounds.strong_convexity * (1.0 + 16.0 * ROUNDOFF)
}

/// The duality-gap certificate of `weights`, a point of the domain, for a kinked loss, from one slope a_i per row.
///
/// Any slopes within their ranges prove something; near the optimum the slopes of the optimum prove most. With
/// p = w_0 - (sum_i share_i a_i x_i - S) / lambda the gap is
/// sum_i share_i (loss(z_i) + conjugate(a_i) - a_i z_i) + (lambda/2) (||w - p||^2 - ||P_K(p) - p||^2).
/// A point that rounding left a distance o outside the domain may have an objective below the minimum: its nearest point inside has a
/// gap larger by at most ||grad F|| o.
pub(super) fn duality_gap(problem: &Problem<'_>, weights: &[f64], slopes: &[f64]) -> Attempt {
    let bounds = &problem.bounds;
    let (slope_sum, terms) = fine::dual_sums(problem, weights, slopes);
    let lambda = Double::from(problem.regularization);
    let target: Vec<Double> = (0..problem.size())
        .map(|j| {
            let pull = Double::from(problem.linear[j]) - Double::from(slope_sum[j]);
            Double::from(problem.anchor[j]) + pull / lambda
        })
        .collect();
    let mut nearest = target.clone();
    problem.domain.project_number(&mut nearest);
    // ||w - p||^2 - ||P p - p||^2 = <w - P p, w + P p - 2 p>
    let apart: Vec<Double> = weights.iter().zip(&nearest).map(|(&w, &n)| Double::from(w) - n).collect();
    let difference = (0..weights.len()).fold(Double::ZERO, |sum, j| {
        let other = (Double::from(weights[j]) - target[j]) + (nearest[j] - target[j]);
        sum + apart[j] * other
    });
    let apart = length_up(&apart.iter().map(|a| a.to_f64()).collect::<Vec<_>>());

    // p is off by delta, and the derivative of the difference in p is lambda (P p - w)
    let size = bounds.reach + length_up(&target.iter().map(|t| t.to_f64()).collect::<Vec<_>>());
    let rounding = bounds.projection_error(size);
    let delta =
        (bounds.sum_error() + 4.0 * ROUNDOFF * bounds.gradient_bound()) / problem.regularization + rounding;
    // the inner product of pairs of doubles: a rounding per coordinate
    let product = (weights.len() as f64 + 8.0) * DOUBLE_ROUNDOFF * apart * 2.0 * size;
    let quadratic = 0.5 * difference.to_f64().max(0.0) * (1.0 + 4.0 * ROUNDOFF)
        + delta * (apart + delta)
        + rounding * (size + rounding)
        + product;
    let terms = terms * (1.0 + bounds.relative_sum_error()) + bounds.gap_error();
    let outside = problem.domain.outside(weights);
    let gap = terms + problem.regularization * quadratic + bounds.gradient_bound() * outside;
    let distance = (outside + (2.0 * gap / problem.regularization).sqrt()) * (1.0 + 16.0 * ROUNDOFF);
    let proved = length_up(weights) <= bounds.reach && problem.domain.contains(weights);
    Attempt {
        weights: weights.to_vec(),
        distance: if proved { distance } else { f64::INFINITY },
        evidence: Evidence::DualityGap,
        passes: 1,
    }
}
