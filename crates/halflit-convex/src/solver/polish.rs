//! The last digits of a kinked problem: once a path has shown which rows sit on their kink, solve for them exactly.
//!
//! On the rows A that sit on their kink the minimizer satisfies z_i = at_i, all other slopes are at an end of their range, and the
//! slopes of A, with the forces of the active walls of the domain, balance the gradient. That is a system in w, the slopes
//! of A and the forces; the method of multipliers solves it, also when rows of A repeat. Nothing here is
//! trusted: a certificate follows.

use super::linear::{Cholesky, axpy, dot};
use super::newton::LARGEST_ASSEMBLED;
use super::passes::smoothed;
use super::{Problem, fine};
use crate::domain::{Ball, Shape};

/// The path's barrier weight from which on it knows what is active.
pub(super) const LARGEST_WEIGHT: f64 = 1e-7;

/// Passes that one polish makes.
pub(super) const PASSES: u64 = 2 * ROUNDS as u64 + 1;

/// Rounds of the method of multipliers; each multiplies the error by about PENALTY / (PENALTY + eigenvalue).
const ROUNDS: usize = 5;

/// Weight of the multipliers' proximal term.
const PENALTY: f64 = 1e-6;

/// Slopes nearer to an end of their range than this share of it count as being there.
const SNAP: f64 = 1e-2;

/// One slope per row: that of the kink smoothed by a barrier of the given weight.
pub(super) fn barrier_slopes(problem: &Problem<'_>, weights: &[f64], barrier: f64) -> Vec<f64> {
    fine::distances(problem, weights)
        .into_iter()
        .zip(fine::kinks(problem))
        .map(|(distance, kink)| smoothed(kink, barrier, kink.at + distance).1)
        .collect()
}

/// A curved or slanted wall of the domain that the minimizer touches, with the force it exerts.
enum Wall<'a> {
    Sphere { ball: &'a Ball, force: f64 },
    Plane { force: f64 },
}

impl Wall<'_> {
    /// Distance beyond the wall, and its unit normal (the plane's is not normalised: its distance is that of the sum).
    fn distance(&self, weights: &[f64]) -> (f64, Vec<f64>) {
        match self {
            Wall::Sphere { ball, .. } => {
                let offset: Vec<f64> = weights.iter().zip(ball.centre()).map(|(w, c)| w - c).collect();
                let length = dot(&offset, &offset).sqrt().max(f64::MIN_POSITIVE);
                (length - ball.radius(), offset.iter().map(|o| o / length).collect())
            }
            Wall::Plane { .. } => (weights.iter().sum::<f64>() - 1.0, vec![1.0; weights.len()]),
        }
    }

    fn force(&mut self) -> &mut f64 {
        match self {
            Wall::Sphere { force, .. } | Wall::Plane { force } => force,
        }
    }

    /// Second derivative of the wall's term: a sphere bends.
    fn curvature(&self) -> f64 {
        match self {
            Wall::Sphere { ball, force } => (force / ball.radius()).max(0.0),
            Wall::Plane { .. } => 0.0,
        }
    }
}

/// What of the domain is active at a point of the path: coordinates fixed at a bound, and walls.
fn active<'a>(problem: &'a Problem<'_>, weights: &mut [f64], barrier: f64) -> (Vec<bool>, Vec<Wall<'a>>) {
    let mut fixed = vec![false; weights.len()];
    let mut walls = Vec::new();
    // the barrier's force barrier / room exceeds the room
    let is_active = |room: f64| room * room < barrier;
    let mut fix = |weights: &mut [f64], j: usize, bound: f64| {
        if is_active((weights[j] - bound).abs()) {
            weights[j] = bound;
            fixed[j] = true;
        }
    };
    let mut touch = |ball: &'a Ball, weights: &[f64]| {
        let (beyond, _) = Wall::Sphere { ball, force: 0.0 }.distance(weights);
        if is_active(beyond.abs()) {
            walls.push(Wall::Sphere { ball, force: barrier / beyond.abs().max(f64::MIN_POSITIVE) });
        }
    };
    match problem.domain.shape() {
        Shape::Whole { .. } => {}
        Shape::Ball(ball) => touch(ball, weights),
        Shape::TwoBalls(balls) => {
            [&balls.first, &balls.second].into_iter().for_each(|ball| touch(ball, weights))
        }
        Shape::Box { low, high } => {
            for j in 0..weights.len() {
                fix(weights, j, low[j]);
                fix(weights, j, high[j]);
            }
        }
        Shape::Simplex { .. } => {
            (0..weights.len()).for_each(|j| fix(weights, j, 0.0));
            walls.push(Wall::Plane { force: 0.0 });
        }
    }
    (fixed, walls)
}

/// Weights and slopes with everything active put exactly in its place. `None` when the problem is too large or degenerate.
pub(super) fn polish(
    problem: &Problem<'_>,
    weights: &[f64],
    mut slopes: Vec<f64>,
    barrier: f64,
) -> Option<(Vec<f64>, Vec<f64>)> {
    let size = problem.size();
    if size > LARGEST_ASSEMBLED {
        return None;
    }
    let kinks = fine::kinks(problem);
    let on_kink: Vec<bool> = kinks
        .iter()
        .zip(&mut slopes)
        .map(|(kink, slope)| {
            let margin = SNAP * (kink.high_slope - kink.low_slope);
            let (low, high) = (*slope < kink.low_slope + margin, *slope > kink.high_slope - margin);
            let end = if low { kink.low_slope } else { kink.high_slope };
            *slope = if low || high { end } else { *slope };
            !(low || high)
        })
        .collect();
    let pull = |row: usize| if on_kink[row] { problem.passes.share(row) / PENALTY } else { 0.0 };
    let rows_matrix = super::hessian::weighted(&problem.passes, pull);
    let mut weights = weights.to_vec();
    let (fixed, mut walls) = active(problem, &mut weights, barrier);
    for _ in 0..ROUNDS {
        let distances = fine::distances(problem, &weights);
        let mut residual = fine::row_sum(problem, |row| {
            problem.passes.share(row) * slopes[row] + pull(row) * distances[row]
        });
        problem.add_simple_gradient(&weights, &mut residual);
        let mut matrix = rows_matrix.clone();
        let mut diagonal = problem.regularization;
        for wall in &mut walls {
            let (distance, normal) = wall.distance(&weights);
            axpy(&mut residual, *wall.force() + distance / PENALTY, &normal);
            for (i, &value) in normal.iter().enumerate() {
                axpy(&mut matrix[i * size..i * size + i + 1], value / PENALTY, &normal);
            }
            diagonal += wall.curvature();
        }
        for j in 0..size {
            matrix[j * size + j] += diagonal;
            if fixed[j] {
                residual[j] = 0.0;
                matrix[j * size..j * size + j].fill(0.0);
                (j + 1..size).for_each(|i| matrix[i * size + j] = 0.0);
            }
        }
        axpy(&mut weights, -1.0, &Cholesky::factor(matrix, size)?.solve(&residual));
        let distances = fine::distances(problem, &weights);
        for (row, slope) in slopes.iter_mut().enumerate().filter(|&(row, _)| on_kink[row]) {
            *slope += distances[row] / PENALTY;
        }
        for wall in &mut walls {
            *wall.force() += wall.distance(&weights).0 / PENALTY;
        }
    }
    for (slope, kink) in slopes.iter_mut().zip(&kinks) {
        *slope = slope.clamp(kink.low_slope, kink.high_slope);
    }
    problem.domain.project(&mut weights);
    Some((weights, slopes))
}
