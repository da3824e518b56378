//! Choosing tilt, window and grid before anything is computed: adaptive, and without influence on soundness.
//!
//! Legend: K(theta) = log E_P[e^{theta L}] of the composed loss, theta the tilt, sigma^2 = K''(theta).
//! At the saddle point K'(theta) = eps the tilted loss is centred on eps, and
//! delta(eps) ~ e^{K - theta eps} [R(theta sigma) - R((theta+1) sigma)]/sqrt(2 pi), R the Mills ratio.

use super::lattice::WIDEST;
use super::law::{Law, log_delta_at_saddle, log_hockey_stick};
use super::mixture_lattice::Widths;
use super::pair::{Direction, Pair};
use super::sketch::{Point, Sketch, cut_above, range, tilted_tails};
use crate::special::log_normal_cdf;
use libm::{exp, exp2, log, sqrt};

/// The longest transform; beyond it the grid gets coarser and the interval wider.
pub const LONGEST: usize = 1 << 18;
/// The longest transform before the slope of the curve is known.
const LONGEST_LOOK: usize = 1 << 14;
const SHORTEST: usize = 1 << 8;
/// Steps of the window that are kept free: the law on the grid reaches a little further than the losses.
const FREE: usize = 48;
/// How small everything left out is, relative to delta (natural log).
const LOG_OUTSIDE: f64 = -14.0;
/// How much larger than delta the Chernoff bound at the tilt may be (natural log) before the round-off of one release is
/// in the way; n releases have n times as much.
const LOG_ROOM: f64 = 28.0;
/// The smallest log delta that is told apart from zero.
const LOG_SMALLEST: f64 = -690.0;

/// A point of the curve, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Place {
    /// Its epsilon.
    pub epsilon: f64,
    /// log delta there.
    pub log_delta: f64,
    /// -d log delta/d epsilon there, if it was computed.
    pub slope: Option<f64>,
}

/// Sketches of the composed parts in one direction.
pub struct Composition<'a> {
    parts: Vec<(Sketch, f64)>,
    pairs: &'a [(Pair, u64)],
    direction: Direction,
    tolerance: Tolerance,
}

/// What the grid may cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tolerance {
    /// The relative error of epsilon that it may cause.
    pub epsilon: f64,
    /// The relative error of delta that it may cause.
    pub delta: f64,
}

/// Where to compute.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The exponential tilt.
    pub theta: f64,
    /// Tilts for Chernoff bounds outside the window.
    pub outer_tilts: OuterTilts,
    /// Grid step, with few significant bits.
    pub spacing: f64,
    /// Transform length.
    pub len: usize,
    /// Smallest loss in the window, in grid steps.
    pub start: i64,
    /// P-mass that each part may cut off.
    pub tail_mass: f64,
    /// Single losses from this index on are so far above epsilon that they decide alone; they stay off the grid.
    pub decisive: i64,
    /// The point of the curve for which this was laid out.
    pub place: Place,
    /// Cell widths for each part.
    pub widths: Vec<Widths>,
}

/// Tilts that centre the loss on places outside the window.
#[derive(Debug, Clone, Copy)]
pub struct OuterTilts {
    /// Above the window.
    pub top: f64,
    /// Below the window.
    pub bottom: f64,
    /// A whole window's length above epsilon: what wraps around onto epsilon.
    pub wrap: f64,
    /// Far below zero: what could bring a decisive loss down again.
    pub down: f64,
}

/// A window for one choice of the tilt.
#[derive(Clone, Copy)]
struct Window {
    theta: f64,
    bottom: f64,
    top: f64,
    bottom_tilt: f64,
    /// Whether the window ends where the losses do.
    is_whole: bool,
}

impl Window {
    fn width(&self) -> f64 {
        self.top - self.bottom
    }
}

impl<'a> Composition<'a> {
    /// Sketches every part.
    pub fn new(pairs: &'a [(Pair, u64)], direction: Direction, tolerance: Tolerance) -> Self {
        let parts = pairs.iter().map(|(pair, count)| (pair.sketch(direction), *count as f64)).collect();
        Composition { parts, pairs, direction, tolerance }
    }

    /// What is composed.
    pub fn pairs(&self) -> &'a [(Pair, u64)] {
        self.pairs
    }

    /// In which direction.
    pub fn direction(&self) -> Direction {
        self.direction
    }

    fn steps(&self) -> f64 {
        self.parts.iter().map(|part| part.1).sum()
    }

    /// What decides a delta of this size.
    fn law(&self, log_delta: f64) -> Law {
        let tail_mass = exp(log_delta + LOG_OUTSIDE) / self.steps();
        Law { parts: self.parts.iter().map(|(sketch, count)| (sketch.within(tail_mass), *count)).collect() }
    }

    /// The epsilon of a delta, by the saddle-point approximation.
    pub fn place_of_delta(&self, delta: f64) -> Place {
        let log_delta = log(delta).max(LOG_SMALLEST);
        let law = self.law(log_delta);
        let saddle = law.solve_tilt(0.0, 1.0, |theta, cumulant| {
            // A negative epsilon is never asked for.
            (log_delta_at_saddle(theta, cumulant) - log_delta).max(-cumulant.mean)
        });
        let cumulant = law.cumulant(saddle);
        // Where rare large losses take over the mean jumps; the Chernoff bound does not.
        let chernoff = (cumulant.value - log_delta) / saddle;
        let epsilon = if chernoff < cumulant.mean { chernoff } else { cumulant.mean };
        Place { epsilon: epsilon.max(0.0), log_delta, slope: None }
    }

    /// The delta of an epsilon, likewise. What is left out depends on delta: found by repetition.
    pub fn place_of_epsilon(&self, epsilon: f64) -> Place {
        let mut log_delta = -40.0;
        for _ in 0..6 {
            let law = self.law(log_delta);
            let theta = law.tilt_to(epsilon, 0.0, 1.0);
            let cumulant = law.cumulant(theta);
            let found = if theta == 0.0 {
                // Most outcomes have a larger loss: a normal law without tilt.
                log_normal_cdf((cumulant.mean - epsilon) / sqrt(cumulant.variance.max(1e-300)))
            } else {
                cumulant.value - theta * epsilon + log_hockey_stick(theta, cumulant)
            };
            let found = found.clamp(LOG_SMALLEST, 0.0);
            let is_settled = (found - log_delta).abs() < 0.5;
            log_delta = found;
            if is_settled {
                break;
            }
        }
        Place { epsilon, log_delta, slope: None }
    }

    /// Tilt, window and grid for a place; `refinement` halves the grid step that many times.
    pub fn plan(&self, place: Place, refinement: u32) -> Plan {
        let place = Place { log_delta: place.log_delta.max(LOG_SMALLEST), ..place };
        let Place { epsilon, log_delta, slope } = place;
        let limit = log_delta + LOG_OUTSIDE;
        let mut law = self.law(log_delta);
        let (decisive, down) = law.decisive(epsilon);
        for ((points, _), (pair, _)) in law.parts.iter_mut().zip(self.pairs) {
            if pair.has_exact_tail(self.direction) {
                cut_above(points, decisive);
            }
        }

        // Beyond the cap the bound at epsilon gains nothing: delta itself is about e^{-saddle (epsilon - mean)/2}.
        let cap = 4.0 * (5.0 - log_delta) / (epsilon - law.cumulant(0.0).mean).max(1e-300);
        let saddle = law.tilt_to(epsilon, 0.0, 1.0).min(cap);
        let top_tilt =
            law.solve_tilt(0.0, 1.0, |tilt, cumulant| cumulant.value - tilt * cumulant.mean - limit);
        let top = law.cumulant(top_tilt).mean;
        let window = self.window(&law, saddle, place, top);
        let theta = window.theta;

        let spacing = match slope {
            // Where what was left out dominates, the slope says nothing.
            Some(slope) if slope > 0.05 * saddle => self.spacing(slope.min(cap), epsilon),
            // Near the centre of a normal law the slope is about 1.25/sigma, and the tilt is zero.
            _ => self.spacing(saddle + 1.25 / sqrt(law.cumulant(theta).variance), epsilon),
        };
        let spacing = spacing / f64::from(1u32 << refinement.min(20));
        // No finer than 2^-28 of the losses of one part, so that grid points are exact, nor than 2^-50 of the total.
        let single = law
            .parts
            .iter()
            .map(|(points, _)| range(points))
            .fold(0.0f64, |largest, (low, high)| largest.max(high - low));
        let total = window.top.abs().max(window.bottom.abs()).max(epsilon);
        let spacing = spacing.max(single * exp2(-28.0)).max(total * exp2(-50.0));
        // Moved to grid points, n losses together reach beyond their common end by about sqrt(n)/2 steps.
        let free = FREE + if window.is_whole { (8.0 * sqrt(self.steps())).min(16384.0) as usize } else { 0 };
        let width = window.width().max(spacing * (SHORTEST - FREE) as f64);
        // The first look at a curve only has to find the place, unless the place is known: close to a normal law the
        // saddle point is good to a part in a thousand.
        let is_found = place.slope.is_some() || law.skewness(saddle) < 0.1;
        let longest = if is_found { LONGEST } else { LONGEST_LOOK };
        let len = (width / (1.3 * spacing)).ceil().min(longest as f64) as usize + free;
        let len = len.next_power_of_two().clamp(SHORTEST, longest);
        let spacing = self.align(round_up(width / len.saturating_sub(free).max(len / 2) as f64));
        let wrap = law.tilt_to(epsilon + len as f64 * spacing, theta, 1.0);
        // The tilted mass that decides: delta = e^{K - theta eps} times it.
        let log_share = (log_delta - (law.cumulant(theta).value - theta * epsilon)).min(0.0);
        Plan {
            theta,
            outer_tilts: OuterTilts { top: top_tilt, bottom: window.bottom_tilt, wrap, down },
            spacing,
            len,
            start: (window.bottom / spacing).floor() as i64 - free as i64 / 2,
            tail_mass: (exp(limit) / self.steps()).max(1e-290),
            decisive: (decisive / spacing).ceil() as i64 + 2,
            place,
            widths: self.widths(&law, theta, (down, top_tilt), spacing, log_share),
        }
    }

    /// The shortest window over a few tilts around the saddle point, where round-off is not in the way.
    fn window(&self, law: &Law, saddle: f64, place: Place, top: f64) -> Window {
        let room = LOG_ROOM - log(self.steps());
        // Round-off is magnified by how far the Chernoff bound of the tilt is above delta.
        let burden = |theta: f64| {
            let log_bound = law.cumulant(theta).value - theta * place.epsilon;
            1.0 + exp(log_bound - place.log_delta - room)
        };
        let mut best = self.window_at(law, saddle, place, top);
        let mut cost = burden(saddle) * best.width();
        for share in [1.3, 0.85, 0.7, 0.5, 0.3, 0.1] {
            let (theta, shortest) = (share * saddle, (top - place.epsilon).max(0.0));
            // No window is shorter than from epsilon to the top.
            if saddle > 0.0 && burden(theta) * shortest < cost {
                let window = self.window_at(law, theta, place, top);
                let other = burden(theta) * window.width();
                if other < cost {
                    (best, cost) = (window, other);
                }
            }
        }
        best
    }

    /// Beyond the top lies e^LOG_OUTSIDE of delta; what wraps around onto epsilon and above, from either side, is as
    /// small.
    fn window_at(&self, law: &Law, theta: f64, place: Place, top: f64) -> Window {
        let Place { epsilon, log_delta, .. } = place;
        let limit = log_delta + LOG_OUTSIDE;
        let margin = 0.05 * sqrt(law.cumulant(theta).variance);
        let (smallest, largest) = self.total_range(law);
        let mut top = (top.max(epsilon) + margin).min(largest.max(epsilon));
        let (bottom_tilt, bottom) = law.bottom(top, theta, limit);
        let bottom = (bottom.min(epsilon) - margin).max(smallest.min(epsilon));
        for _ in 0..30 {
            let place = epsilon + top - bottom;
            let tilt = law.tilt_to(place, theta, 1.0);
            // What lies a window's length above epsilon comes down onto it, magnified by e^{theta length}.
            let log_wrapped = law.cumulant(tilt).value - tilt * place + theta * (top - bottom);
            if log_wrapped <= limit || top >= largest {
                break;
            }
            top += 0.15 * (top - bottom);
        }
        Window { theta, bottom, top, bottom_tilt, is_whole: bottom <= smallest || top >= largest }
    }

    /// The grid step at which connect-the-dots moves log delta by as much as is tolerated.
    ///
    /// Each release adds variance h^2/6 in the mean; log delta moves by slope (slope+1)/2 per unit of variance.
    fn spacing(&self, slope: f64, epsilon: f64) -> f64 {
        let allowed = (self.tolerance.epsilon * (slope * epsilon).max(0.3)).min(self.tolerance.delta);
        sqrt(12.0 * allowed / (slope * (slope + 1.0) * self.steps()))
    }

    /// By how much a plan's grid is coarser than a place asks for.
    pub fn coarseness(&self, plan: &Plan, place: Place) -> f64 {
        place.slope.map_or(1.0, |slope| plan.spacing / self.spacing(slope, place.epsilon))
    }

    /// Randomized response alone is exact when its epsilon is a grid point.
    fn align(&self, spacing: f64) -> f64 {
        match self.pairs {
            [(Pair::RandomizedResponse { eps, .. }, _)] if *eps >= spacing => {
                round_up(eps / (eps / spacing).floor())
            }
            _ => spacing,
        }
    }

    fn total_range(&self, law: &Law) -> (f64, f64) {
        let other = match self.direction {
            Direction::Forward => Direction::Reversed,
            Direction::Reversed => Direction::Forward,
        };
        let mut total = (0.0, 0.0);
        for ((points, count), (pair, _)) in law.parts.iter().zip(self.pairs) {
            let (low, high) = range(points);
            let (smallest, largest) = (-pair.largest_loss(other), pair.largest_loss(self.direction));
            total.0 += count * if smallest.is_finite() { smallest } else { low };
            total.1 += count * if largest.is_finite() { largest } else { high };
        }
        total
    }

    /// Cells may be w steps wide where the tilted mass further out is below 0.01/w^2 of what decides, also when it is moved
    /// to the inner end: that adds less than a tenth to the variance that the narrow cells add.
    ///
    /// The Chernoff bounds with the outer tilts must not suffer either.
    fn widths(&self, law: &Law, theta: f64, outer: (f64, f64), spacing: f64, log_share: f64) -> Vec<Widths> {
        let sizes: Vec<i64> =
            (1..=40).map(|power| 1i64 << power).filter(|&size| size as f64 * spacing <= WIDEST).collect();
        let log_mass = |&size: &i64, theta: f64| {
            let width = size as f64 * spacing;
            log(0.01) - 2.0 * log(size as f64) - ((theta.abs() + 1.0) * width - 0.2).max(0.0)
        };
        let masses: Vec<f64> = sizes.iter().map(|size| log_share + log_mass(size, theta)).collect();
        let masses_down: Vec<f64> = sizes.iter().map(|size| log_mass(size, outer.0)).collect();
        let masses_up: Vec<f64> = sizes.iter().map(|size| log_mass(size, outer.1)).collect();
        let steps = |losses: Vec<f64>, sign: f64| -> Vec<(i64, i64)> {
            let from = |loss: f64| ((sign * loss).max(0.0) / spacing).ceil() as i64 + 1;
            losses.into_iter().map(from).zip(sizes.iter().copied()).collect()
        };
        let widths = |((points, _), (pair, _)): (&(Vec<Point>, f64), &(Pair, u64))| {
            let (mut right, mut left) = tilted_tails(points, theta, &masses);
            let (above, _) = tilted_tails(points, outer.1, &masses_up);
            let (_, below) = tilted_tails(points, outer.0, &masses_down);
            right.iter_mut().zip(above).for_each(|(place, other)| *place = place.max(other));
            left.iter_mut().zip(below).for_each(|(place, other)| *place = place.min(other));
            let (right, left) = (steps(right, 1.0), steps(left, -1.0));
            // Pairs that differ from their exchange are discretized forward and then exchanged.
            match self.direction {
                Direction::Reversed if !pair.is_symmetric() => Widths { right: left, left: right },
                _ => Widths { right, left },
            }
        };
        law.parts.iter().zip(self.pairs).map(widths).collect()
    }
}

/// Rounded up to 24 significant bits, so that every grid point index * spacing is an exact double.
fn round_up(x: f64) -> f64 {
    let low_bits = (1u64 << 29) - 1;
    f64::from_bits((x.to_bits() + low_bits) & !low_bits)
}
