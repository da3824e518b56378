//! Rough pictures of pairs, for planning only: nothing that is claimed rests on them.

use super::mixture::Mixture;
use libm::{exp, log};

/// Weighted losses under P.
#[derive(Debug, Clone)]
pub struct Sketch {
    /// (loss, P-weight), increasing in the loss.
    points: Vec<(f64, f64)>,
}

/// log E[e^{theta L}] with its first two derivatives.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cumulant {
    /// The logarithm of the moment generating function.
    pub value: f64,
    /// The mean of the tilted loss.
    pub mean: f64,
    /// The variance of the tilted loss.
    pub variance: f64,
}

impl Sketch {
    /// From (loss, P-weight) pairs.
    pub fn from_losses(points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let mut points: Vec<(f64, f64)> = points.into_iter().filter(|point| point.1 > 0.0).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Sketch { points }
    }

    /// The trapezoid rule in z; its step resolves both the normal density and the bend of the likelihood ratio.
    pub fn of_mixture(mixture: &Mixture) -> Self {
        let (step, low, high) = nodes(mixture);
        Sketch::from_losses((low..=high).map(|j| {
            let z = step * j as f64;
            (mixture.loss(z), step * mixture.densities(z).0)
        }))
    }

    /// Losses above zero from the one-sided pair, their mirror image, and the atom at zero.
    pub fn of_fixed_size(mixture: &Mixture) -> Self {
        let (step, low, high) = nodes(mixture);
        let mut points = Vec::new();
        for j in low..=high {
            let z = step * j as f64;
            let loss = mixture.loss(z);
            if loss > 0.0 {
                let (p, q) = mixture.densities(z);
                points.push((loss, step * p));
                points.push((-loss, step * q));
            }
        }
        let atom = (1.0 - mixture.rate) * libm::erf(0.5 * mixture.shift * std::f64::consts::FRAC_1_SQRT_2);
        points.push((0.0, atom));
        Sketch::from_losses(points)
    }

    /// Two atoms and the density between them.
    pub fn of_laplace(ratio: f64) -> Self {
        let cells = 200;
        let width = 2.0 * ratio / f64::from(cells);
        let between = (0..cells).map(|j| {
            let loss = -ratio + width * (f64::from(j) + 0.5);
            (loss, width * 0.25 * exp(0.5 * (loss - ratio)))
        });
        Sketch::from_losses(between.chain([(ratio, 0.5), (-ratio, 0.5 * exp(-ratio))]))
    }

    /// Under Q, with the sign of the loss changed.
    pub fn reversed(self) -> Self {
        Sketch::from_losses(self.points.into_iter().map(|(loss, weight)| (-loss, weight * exp(-loss))))
    }

    /// The smallest and the largest loss of the sketch.
    pub fn range(&self) -> (f64, f64) {
        let first = self.points.first().map_or(0.0, |point| point.0);
        (first, self.points.last().map_or(0.0, |point| point.0))
    }

    /// The cumulant generating function at theta.
    pub fn cumulant(&self, theta: f64) -> Cumulant {
        // Exponents relative to the largest end, so that nothing overflows.
        let (first, last) = self.range();
        let largest = (theta * first).max(theta * last);
        let (mut mass, mut moment, mut square) = (0.0, 0.0, 0.0);
        for &(loss, weight) in &self.points {
            let tilted = weight * exp(theta * loss - largest);
            mass += tilted;
            moment += tilted * loss;
            square += tilted * loss * loss;
        }
        if !(mass > 0.0) {
            // All weight underflowed: the end of the range carries everything.
            let loss = if theta >= 0.0 { last } else { first };
            return Cumulant { value: theta * loss, mean: loss, variance: 0.0 };
        }
        let mean = moment / mass;
        Cumulant { value: largest + log(mass), mean, variance: (square / mass - mean * mean).max(0.0) }
    }

    /// For each of the given log masses, decreasing: the loss beyond which the tilted law has less, on the right and on
    /// the left.
    pub fn tilted_tails(&self, theta: f64, log_masses: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let log_total = self.cumulant(theta).value;
        let weigh = |&(loss, weight): &(f64, f64)| (loss, log(weight) + theta * loss - log_total);
        let tilted: Vec<(f64, f64)> = self.points.iter().map(weigh).collect();
        (tail_points(tilted.iter().rev(), log_masses), tail_points(tilted.iter(), log_masses))
    }
}

/// Walking inward from one end: the loss at which the mass seen so far passes each of the given log masses.
fn tail_points<'a>(points: impl Iterator<Item = &'a (f64, f64)>, log_masses: &[f64]) -> Vec<f64> {
    let mut places = vec![0.0; log_masses.len()];
    let mut open = log_masses.len();
    let mut log_seen = f64::NEG_INFINITY;
    for &(loss, log_weight) in points {
        log_seen = crate::renyi::log_add(log_seen, log_weight);
        // The smallest masses are passed first.
        while open > 0 && log_seen > log_masses[open - 1] {
            open -= 1;
            places[open] = loss;
        }
        if open == 0 {
            break;
        }
    }
    places
}

/// The most nodes; very large shifts get a coarser picture.
const MOST_NODES: f64 = 3000.0;

fn nodes(mixture: &Mixture) -> (f64, i64, i64) {
    let low = if mixture.two_sided { 40.0 + mixture.shift } else { 40.0 };
    let high = 40.0 + mixture.shift;
    let step = 0.25f64.min(0.5 / mixture.shift).max((low + high) / MOST_NODES);
    let reach = |z: f64| (z / step).ceil() as i64;
    (step, -reach(low), reach(high))
}
