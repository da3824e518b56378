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
use crate::loss::Kink;

/// The path's barrier weight from which on it knows what is active.
pub(super) const LARGEST_WEIGHT: f64 = 1e-7;

/// Passes that one candidate takes.
pub(super) const PASSES: u64 = 3 * ROUNDS as u64 + 2;

/// Guesses of what is active that one polish tries.
const REVISIONS: usize = 6;

/// Distances below this are zero.
const SAME: f64 = 1e-12;

/// Rounds of the method of multipliers; each multiplies the error by about PENALTY / (PENALTY + eigenvalue).
const ROUNDS: usize = 5;

/// Weight of the multipliers' proximal term.
const PENALTY: f64 = 1e-6;

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

    fn force(&self) -> f64 {
        match self {
            Wall::Sphere { force, .. } | Wall::Plane { force } => *force,
        }
    }

    fn push(&mut self, more: f64) {
        match self {
            Wall::Sphere { force, .. } | Wall::Plane { force } => *force += more,
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

/// Candidates with everything active put exactly in its place: the guess that the path suggests, then revisions of it.
///
/// Each is a point of the domain with one slope per row, ready for a certificate.
pub(super) fn polish(
    problem: &Problem<'_>,
    weights: &[f64],
    slopes: Vec<f64>,
    barrier: f64,
) -> Vec<(Vec<f64>, Vec<f64>)> {
    let mut candidates = Vec::new();
    if problem.size() > LARGEST_ASSEMBLED {
        return candidates;
    }
    let mut guess = Guess::new(problem, weights, slopes, barrier);
    for _ in 0..REVISIONS {
        if guess.solve().is_none() {
            break;
        }
        candidates.push(guess.candidate());
        if !guess.revise() {
            break;
        }
    }
    candidates
}

/// What is taken to be active, and the solution of the system that follows.
struct Guess<'p, 'a> {
    problem: &'p Problem<'a>,
    kinks: Vec<Kink>,
    /// Rows that sit on their kink.
    on_kink: Vec<bool>,
    /// Coordinates held at a bound: -1 at a lower one, 1 at an upper one, 0 when free.
    held: Vec<i8>,
    walls: Vec<Wall<'p>>,
    weights: Vec<f64>,
    slopes: Vec<f64>,
}

impl<'p, 'a> Guess<'p, 'a> {
    fn new(problem: &'p Problem<'a>, weights: &[f64], mut slopes: Vec<f64>, barrier: f64) -> Self {
        let kinks = fine::kinks(problem);
        let distances = fine::distances(problem, weights);
        let on_kink: Vec<bool> = (0..kinks.len())
            .map(|row| {
                // On the path distance * (room of the slope) is about the barrier's weight: one of the two is small.
                let (kink, slope, distance) = (&kinks[row], slopes[row], distances[row]);
                let room = (slope - kink.low_slope).min(kink.high_slope - slope);
                if distance.abs() >= room {
                    slopes[row] = if distance < 0.0 { kink.low_slope } else { kink.high_slope };
                }
                distance.abs() < room
            })
            .collect();
        let mut guess = Guess {
            problem,
            kinks,
            on_kink,
            held: vec![0; weights.len()],
            walls: Vec::new(),
            weights: weights.to_vec(),
            slopes,
        };
        // a wall is active when the barrier's force barrier / room exceeds the room
        guess.hold(|room| room * room < barrier);
        let touching = |ball: &'p Ball| {
            let room = Wall::Sphere { ball, force: 0.0 }.distance(weights).0.abs();
            (room * room < barrier)
                .then(|| Wall::Sphere { ball, force: barrier / room.max(f64::MIN_POSITIVE) })
        };
        guess.walls = match problem.domain.shape() {
            Shape::Ball(ball) => touching(ball).into_iter().collect(),
            Shape::TwoBalls(balls) => {
                [&balls.first, &balls.second].into_iter().filter_map(touching).collect()
            }
            Shape::Simplex { .. } => vec![Wall::Plane { force: 0.0 }],
            Shape::Whole { .. } | Shape::Box { .. } => Vec::new(),
        };
        guess
    }

    /// Holds every coordinate whose room to a bound says so; says whether one is new.
    fn hold(&mut self, is_active: impl Fn(f64) -> bool) -> bool {
        let mut changed = false;
        for j in 0..self.weights.len() {
            for side in [-1, 1] {
                let Some(bound) = self.bound(j, side) else { continue };
                if self.held[j] == 0 && is_active((bound - self.weights[j]) * f64::from(side)) {
                    (self.held[j], self.weights[j]) = (side, bound);
                    changed = true;
                }
            }
        }
        changed
    }

    /// The bound of a coordinate on one side, where the domain has one.
    fn bound(&self, j: usize, side: i8) -> Option<f64> {
        match self.problem.domain.shape() {
            Shape::Box { low, high } => Some(if side < 0 { low[j] } else { high[j] }),
            Shape::Simplex { .. } if side < 0 => Some(0.0),
            _ => None,
        }
    }

    /// Gradient of the Lagrangian: rows, regularizer, and the forces of the walls.
    fn residual(&self, pull: impl Fn(usize) -> f64 + Sync) -> Vec<f64> {
        let share = |row: usize| self.problem.passes.share(row);
        let mut residual = fine::row_sum(self.problem, |row| share(row) * self.slopes[row] + pull(row));
        self.problem.add_simple_gradient(&self.weights, &mut residual);
        for wall in &self.walls {
            axpy(&mut residual, wall.force(), &wall.distance(&self.weights).1);
        }
        residual
    }

    /// The method of multipliers on the present guess.
    fn solve(&mut self) -> Option<()> {
        let size = self.weights.len();
        let share = |row: usize| self.problem.passes.share(row) / PENALTY;
        let on_kink = self.on_kink.clone();
        let pull = |row: usize| if on_kink[row] { share(row) } else { 0.0 };
        let rows_matrix = super::hessian::weighted(&self.problem.passes, pull);
        for _ in 0..ROUNDS {
            let distances = fine::distances(self.problem, &self.weights);
            let mut residual = self.residual(|row| pull(row) * distances[row]);
            let mut matrix = rows_matrix.clone();
            let mut diagonal = self.problem.regularization;
            for wall in &self.walls {
                let (distance, normal) = wall.distance(&self.weights);
                axpy(&mut residual, distance / PENALTY, &normal);
                for (i, &value) in normal.iter().enumerate() {
                    axpy(&mut matrix[i * size..i * size + i + 1], value / PENALTY, &normal);
                }
                diagonal += wall.curvature();
            }
            for j in 0..size {
                matrix[j * size + j] += diagonal;
                if self.held[j] != 0 {
                    residual[j] = 0.0;
                    matrix[j * size..j * size + j].fill(0.0);
                    (j + 1..size).for_each(|i| matrix[i * size + j] = 0.0);
                }
            }
            axpy(&mut self.weights, -1.0, &Cholesky::factor(matrix, size)?.solve(&residual));
            let distances = fine::distances(self.problem, &self.weights);
            for (row, slope) in self.slopes.iter_mut().enumerate().filter(|&(row, _)| on_kink[row]) {
                *slope += distances[row] / PENALTY;
            }
            for wall in &mut self.walls {
                let distance = wall.distance(&self.weights).0;
                wall.push(distance / PENALTY);
            }
        }
        self.weights.iter().all(|w| w.is_finite()).then_some(())
    }

    /// The present solution, made feasible.
    fn candidate(&self) -> (Vec<f64>, Vec<f64>) {
        let mut weights = self.weights.clone();
        self.problem.domain.project(&mut weights);
        let slopes =
            self.slopes.iter().zip(&self.kinks).map(|(s, kink)| s.clamp(kink.low_slope, kink.high_slope));
        (weights, slopes.collect())
    }

    /// Corrects the guess where the solution contradicts it; says whether anything changed.
    fn revise(&mut self) -> bool {
        let mut changed = false;
        let distances = fine::distances(self.problem, &self.weights);
        for (row, &distance) in distances.iter().enumerate() {
            let Kink { low_slope, high_slope, .. } = self.kinks[row];
            if self.on_kink[row] {
                // a slope beyond its range: the row leaves its kink on that side
                let slope = self.slopes[row];
                let outside = slope < low_slope || slope > high_slope;
                if outside {
                    (self.on_kink[row], self.slopes[row]) = (false, slope.clamp(low_slope, high_slope));
                    changed = true;
                }
            } else {
                // a slope on the wrong side: the row has crossed its kink
                let expected = if distance < 0.0 { low_slope } else { high_slope };
                if self.slopes[row] != expected && distance.abs() > SAME {
                    self.on_kink[row] = true;
                    changed = true;
                }
            }
        }
        // a held coordinate that the gradient pulls inward is let go; a free one beyond its bound is held
        let residual = self.residual(|_| 0.0);
        for (held, residual) in self.held.iter_mut().zip(&residual) {
            if *held != 0 && residual * f64::from(*held) > 0.0 {
                *held = 0;
                changed = true;
            }
        }
        changed | self.hold(|room| room < -SAME)
    }
}
