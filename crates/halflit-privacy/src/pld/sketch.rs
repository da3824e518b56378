//! Rough pictures of pairs, for planning only: nothing that is claimed rests on them.

use super::mixture::Mixture;
use super::mixture_lattice::GAUSS_8;
use libm::{exp, log};

/// Weighted losses.
#[derive(Debug, Clone)]
pub struct Sketch {
    /// Increasing in the loss.
    points: Vec<Point>,
}

/// An outcome.
#[derive(Debug, Clone, Copy)]
pub struct Point {
    /// Its loss.
    pub loss: f64,
    /// Its probability under P.
    pub p: f64,
    /// Its probability under Q.
    pub q: f64,
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
    pub fn from_losses(losses: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Sketch::from_points(losses.into_iter().map(|(loss, p)| Point { loss, p, q: p * exp(-loss) }))
    }

    fn from_points(points: impl IntoIterator<Item = Point>) -> Self {
        let mut points: Vec<Point> = points.into_iter().filter(|point| point.p > 0.0).collect();
        points.sort_by(|a, b| a.loss.total_cmp(&b.loss));
        Sketch { points }
    }

    /// The trapezoid rule in z; its step resolves both the normal density and the bend of the likelihood ratio.
    pub fn of_mixture(mixture: &Mixture) -> Self {
        let low = if mixture.two_sided { FAR + mixture.shift } else { FAR };
        let high = FAR + mixture.shift;
        let step = 0.25f64.min(0.5 / mixture.shift).max((low + high) / MOST_NODES);
        let reach = |z: f64| (z / step).ceil() as i64;
        Sketch::from_points((-reach(low)..=reach(high)).map(|j| {
            let z = step * j as f64;
            let (p, q) = mixture.densities(z);
            Point { loss: mixture.loss(z), p: step * p, q: step * q }
        }))
    }

    /// Losses above zero from the one-sided pair, their mirror image, and the atom at zero.
    ///
    /// The half-line begins where the density does not vanish, so it is divided into Gauss panels: a sketch whose total
    /// is wrong by one part in n is wrong by a factor e over n releases.
    pub fn of_fixed_size(mixture: &Mixture) -> Self {
        let panel = 1.0f64.min(2.0 / mixture.shift).max(8.0 * FAR / MOST_NODES);
        let mut points = Vec::new();
        for (z, weight) in gauss_nodes(0.5 * mixture.shift, FAR + mixture.shift, panel) {
            let (loss, (p, q)) = (mixture.loss(z), mixture.densities(z));
            points.push(Point { loss, p: weight * p, q: weight * q });
            points.push(Point { loss: -loss, p: weight * q, q: weight * p });
        }
        let atom = (1.0 - points.iter().map(|point| point.p).sum::<f64>()).max(0.0);
        points.push(Point { loss: 0.0, p: atom, q: atom });
        Sketch::from_points(points)
    }

    /// Two atoms and the density between them.
    pub fn of_laplace(ratio: f64) -> Self {
        let panel = 0.5f64.min(0.25 * ratio).max(16.0 * ratio / MOST_NODES);
        let density = |loss: f64| 0.25 * exp(0.5 * (loss - ratio));
        let between = gauss_nodes(-ratio, ratio, panel).map(|(loss, weight)| (loss, weight * density(loss)));
        Sketch::from_losses(between.chain([(ratio, 0.5), (-ratio, 0.5 * exp(-ratio))]))
    }

    /// Under Q, with the sign of the loss changed.
    pub fn reversed(mut self) -> Self {
        self.points.reverse();
        for point in &mut self.points {
            *point = Point { loss: -point.loss, p: point.q, q: point.p };
        }
        self
    }

    /// The outcomes without those of the largest losses that have P-mass `tail_mass` together, and those of the smallest
    /// that have as much Q-mass; one more on either side.
    pub fn within(&self, tail_mass: f64) -> Vec<Point> {
        let beyond = |masses: &mut dyn Iterator<Item = f64>| {
            let mut seen = 0.0;
            let is_outside = |mass: f64| {
                seen += mass;
                seen <= tail_mass
            };
            masses.map(is_outside).take_while(|&outside| outside).count().saturating_sub(1)
        };
        let first = beyond(&mut self.points.iter().map(|point| point.q));
        let last = self.points.len() - beyond(&mut self.points.iter().rev().map(|point| point.p));
        if first < last { self.points[first..last].to_vec() } else { self.points.clone() }
    }
}

/// Leaves out losses above this one; the first of them stays, lowered to it, so that the range reaches all the way.
pub fn cut_above(points: &mut Vec<Point>, loss: f64) {
    let kept = points.partition_point(|point| point.loss <= loss);
    points.truncate(kept + 1);
    if let Some(last) = points.last_mut() {
        last.loss = last.loss.min(loss);
    }
}

/// The smallest and the largest loss.
pub fn range(points: &[Point]) -> (f64, f64) {
    (points.first().map_or(0.0, |point| point.loss), points.last().map_or(0.0, |point| point.loss))
}

/// The cumulant generating function at theta.
pub fn cumulant(points: &[Point], theta: f64) -> Cumulant {
    // Exponents and losses relative to the end that the tilt favours, so that nothing overflows or cancels there.
    let (first, last) = range(points);
    let pivot = if theta >= 0.0 { last } else { first };
    let (mut mass, mut moment, mut square) = (0.0, 0.0, 0.0);
    for point in points {
        let distance = point.loss - pivot;
        let tilted = point.p * exp(theta * distance);
        mass += tilted;
        moment += tilted * distance;
        square += tilted * distance * distance;
    }
    if !(mass > 0.0) {
        // All weight underflowed: the end of the range carries everything.
        return Cumulant { value: theta * pivot, mean: pivot, variance: 0.0 };
    }
    let offset = moment / mass;
    Cumulant {
        value: theta * pivot + log(mass),
        mean: pivot + offset,
        variance: (square / mass - offset * offset).max(0.0),
    }
}

/// For each of the given log masses, decreasing: the loss beyond which the tilted law has less, on the right and on the
/// left.
pub fn tilted_tails(points: &[Point], theta: f64, log_masses: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let log_total = cumulant(points, theta).value;
    let tilted: Vec<(f64, f64)> =
        points.iter().map(|point| (point.loss, log(point.p) + theta * point.loss - log_total)).collect();
    (tail_points(tilted.iter().rev(), log_masses), tail_points(tilted.iter(), log_masses))
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

/// Beyond this many standard deviations a normal law has less mass than any double.
const FAR: f64 = 40.0;
/// The most nodes; very large shifts get a coarser picture.
const MOST_NODES: f64 = 3000.0;

/// (node, weight) of the eight-point Gauss rule on panels of at most the given width.
fn gauss_nodes(low: f64, high: f64, panel: f64) -> impl Iterator<Item = (f64, f64)> {
    let panels = ((high - low) / panel).ceil().max(1.0);
    let half = 0.5 * (high - low) / panels;
    (0..panels as u32).flat_map(move |j| {
        let middle = low + half * f64::from(2 * j + 1);
        GAUSS_8.into_iter().flat_map(move |(node, weight)| {
            [(middle - half * node, half * weight), (middle + half * node, half * weight)]
        })
    })
}
