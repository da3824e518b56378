//! The mean loss 1/2 ||w - x||^2 in closed form: the minimizer is a projection of a weighted mean.

use super::passes::{FEATURE_UNIT, add};
use super::{Attempt, Evidence, Problem, Solution, linear};
use crate::double::Double;

/// (sum_i share_i x_i, sum_i share_i, sum_i share_i ||x_i||^2).
fn moments(problem: &Problem<'_>) -> (Vec<f64>, f64, f64) {
    let passes = &problem.passes;
    let chunks = passes.chunks(|range| {
        let mut sum = vec![0.0; problem.size()];
        let mut block = vec![0.0; problem.size()];
        let (mut weight, mut squares) = (0.0, 0.0);
        for start in range.clone().step_by(256) {
            let rows = start..(start + 256).min(range.end);
            let shares: Vec<f64> = rows.clone().map(|row| passes.share(row)).collect();
            block.fill(0.0);
            passes.add_rows(rows.clone(), &shares, &mut block);
            add(&mut sum, &block);
            weight += shares.iter().sum::<f64>();
            squares += rows
                .zip(&shares)
                .map(|(row, share)| {
                    share * passes.rows.squared_norms()[row] as f64 * FEATURE_UNIT * FEATURE_UNIT
                })
                .sum::<f64>();
        }
        (sum, weight, squares)
    });
    let mut total = (vec![0.0; problem.size()], 0.0, 0.0);
    for (sum, weight, squares) in &chunks {
        add(&mut total.0, sum);
        total.1 += weight;
        total.2 += squares;
    }
    total.0.iter_mut().for_each(|value| *value *= FEATURE_UNIT);
    total
}

pub(super) fn value(problem: &Problem<'_>, weights: &[f64]) -> f64 {
    let (sum, weight, squares) = moments(problem);
    let average = 0.5 * (weight * linear::dot(weights, weights) + squares) - linear::dot(weights, &sum);
    average + problem.simple_value(weights)
}

/// F is an isotropic quadratic, so its minimizer over K is the projection of the free minimizer
/// (sum_i share_i x_i + lambda w_0 + S) / (sum_i share_i + lambda).
pub(super) fn solve(problem: &Problem<'_>) -> Solution {
    let (sum, weight, _) = moments(problem);
    let lambda = Double::from(problem.regularization);
    let divisor = Double::from(weight) + lambda;
    let mut point: Vec<Double> = (0..problem.size())
        .map(|j| {
            let pull = lambda * Double::from(problem.anchor[j]) + Double::from(problem.linear[j]);
            (Double::from(sum[j]) + pull) / divisor
        })
        .collect();
    problem.domain.project_number(&mut point);
    let mut weights: Vec<f64> = point.iter().map(|w| w.to_f64()).collect();
    problem.domain.project(&mut weights);
    let distance = problem.bounds.closed_form_error();
    Attempt { weights, distance, evidence: Evidence::ClosedForm, passes: 1 }.into_solution()
}
