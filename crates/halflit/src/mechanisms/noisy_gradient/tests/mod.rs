//! What the tests have in common.

mod methods;
mod prices;
mod sums;

use super::parts::*;
use super::*;
use crate::problem::{FEATURE_UNIT, Problem};
use crate::testing::{Numbers, Story};
use halflit_noise::SumLattice;
use halflit_privacy::calibrate::Budget;
use halflit_privacy::{Delta, Epsilon};
use halflit_table::Unsealed;

fn budget(epsilon: f64) -> Budget {
    Budget { epsilon: Epsilon::new(epsilon).unwrap(), delta: Delta::new(1e-6).unwrap() }
}

#[expect(clippy::disallowed_methods, reason = "tests look at the integer sums themselves")]
fn key() -> Unsealed {
    Unsealed::charge_was_recorded()
}

fn plan(story: &Story, params: &Params) -> Plan {
    Plan::new(&story.problem(), params, budget(story.epsilon)).unwrap()
}

fn weights(problem: &Problem, seed: u64) -> Vec<f64> {
    let mut numbers = Numbers(seed);
    (0..problem.dimension()).map(|_| 2.0 * numbers.next() - 1.0).collect()
}

fn lattice(plan: &Plan) -> &SumLattice {
    &plan.levels[0].0
}

/// What one lattice unit is worth under a fixed clip norm.
fn unit_of(plan: &Plan) -> f64 {
    clip_norm(plan) * lattice(plan).unit()
}

fn clip_norm(plan: &Plan) -> f64 {
    match plan.clip {
        Clip::Fixed { norm } => norm,
        Clip::Quantile { .. } | Clip::ResidualScale => 1.0,
    }
}

fn clipped_at(norm: f64) -> Params {
    Params { clip: Some(Clip::Fixed { norm }), ..Params::default() }
}

/// The sum of the units' gradients, row by row in floating point.
fn gradient(problem: &Problem, weights: &[f64]) -> Vec<f64> {
    let key = key();
    let rows = problem.encoded().private_rows().open(&key);
    let labels = problem.encoded().private_labels().open(&key);
    let share: Vec<f64> = match problem.encoded().private_units().open(&key) {
        halflit_table::Units::Rows(rows) => vec![1.0; *rows],
        halflit_table::Units::Users { offsets } => offsets
            .windows(2)
            .flat_map(|user| vec![1.0 / (user[1] - user[0]) as f64; user[1] - user[0]])
            .collect(),
    };
    let (width, outputs) = (rows.width(), problem.loss().outputs());
    let mut total = vec![0.0; width * outputs];
    for row in 0..rows.len() {
        let x: Vec<f64> = rows.dense_row(row).unwrap().iter().map(|&q| f64::from(q) * FEATURE_UNIT).collect();
        let scores: Vec<f64> =
            weights.chunks(width).map(|weights| weights.iter().zip(&x).map(|(w, x)| w * x).sum()).collect();
        let mut derivative = vec![0.0; outputs];
        problem.loss().derivative(&scores, labels[row], &mut derivative);
        for (output, derivative) in derivative.iter().enumerate() {
            for (column, x) in x.iter().enumerate() {
                total[output * width + column] += share[row] * derivative * x;
            }
        }
    }
    total
}

fn with_public_rows(rows: usize) -> Story {
    Story { public_rows: true, ..Story::new(rows) }
}

/// The mean loss of the private rows.
fn risk(problem: &Problem, weights: &[f64]) -> f64 {
    let key = key();
    let rows = problem.encoded().private_rows().open(&key);
    let labels = problem.encoded().private_labels().open(&key);
    let total: f64 = (0..rows.len())
        .map(|row| {
            let x = rows.dense_row(row).unwrap();
            let score = |w: &[f64]| w.iter().zip(&x).map(|(w, &q)| w * f64::from(q) * FEATURE_UNIT).sum();
            let scores: Vec<f64> = weights.chunks(rows.width()).map(score).collect();
            problem.loss().value(&scores, labels[row])
        })
        .sum();
    total / labels.len() as f64
}
