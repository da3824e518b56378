//! Choosing tilt, window and grid before anything is computed: adaptive, and without influence on soundness.
//!
//! Legend: K(theta) = log E_P[e^{theta L}] of the composed loss, theta the tilt, sigma^2 = K''(theta).
//! At the saddle point K'(theta) = eps the tilted loss is centred on eps, and
//! delta(eps) ~ e^{K - theta eps} [R(theta sigma) - R((theta+1) sigma)]/sqrt(2 pi), R the Mills ratio.

use super::mixture_lattice::Widths;
use super::pair::{Direction, Pair};
use super::sketch::{Cumulant, Sketch};
use crate::special::{log_normal_cdf, mills_difference, mills_ratio};
use libm::{exp, exp2, log, sqrt};

/// The longest transform; beyond it the grid gets coarser and the interval wider.
pub const LONGEST: usize = 1 << 19;
/// The longest window that is composed without a transform.
pub const LONGEST_DIRECT: usize = 1 << 11;
const SHORTEST: usize = 1 << 8;
/// The widest cell of losses, far from where they matter.
const WIDEST: f64 = 16.0;
/// How small the mass outside the window is, relative to delta (natural log).
const LOG_OUTSIDE: f64 = -16.0;

/// The question asked of a composition.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Target {
    /// delta at this epsilon.
    Epsilon(f64),
    /// epsilon at this delta.
    Delta(f64),
    /// Either, where the answer is already known roughly: (epsilon, delta).
    Both(f64, f64),
}

/// Sketches of the composed parts in one direction.
pub struct Composition<'a> {
    parts: Vec<(Sketch, f64)>,
    pairs: &'a [(Pair, u64)],
    direction: Direction,
    /// The relative error of epsilon that the grid may cause.
    tolerance: f64,
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
    /// The epsilon around which the window was laid.
    pub epsilon: f64,
    /// The log delta for which the window was laid.
    pub log_delta: f64,
    /// Whether to compose by sums of products instead of transforms: slow, and free of absolute round-off.
    pub is_direct: bool,
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
}

/// A window for one choice of the tilt.
#[derive(Clone, Copy)]
struct Window {
    theta: f64,
    bottom: f64,
    top: f64,
    bottom_tilt: f64,
}

impl<'a> Composition<'a> {
    /// Sketches every part.
    pub fn new(pairs: &'a [(Pair, u64)], direction: Direction, tolerance: f64) -> Self {
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

    /// Whether sums of products stay accurate over this many copies.
    pub fn allows_direct(&self) -> bool {
        self.pairs.iter().all(|(_, count)| *count <= 1 << 20)
    }

    /// K and its derivatives at theta.
    fn cumulant(&self, theta: f64) -> Cumulant {
        let mut total = Cumulant { value: 0.0, mean: 0.0, variance: 0.0 };
        for (sketch, count) in &self.parts {
            let part = sketch.cumulant(theta);
            total.value += count * part.value;
            total.mean += count * part.mean;
            total.variance += count * part.variance;
        }
        total
    }

    /// From `start` on in the direction of `sign`, the first tilt at which a decreasing function reaches zero; the end
    /// of the useful range if it never does. Accurate to one part in a thousand, which is enough for planning.
    fn solve_tilt(&self, start: f64, sign: f64, height: impl Fn(f64, Cumulant) -> f64) -> f64 {
        let at_start = self.cumulant(start);
        let mut low = (start, height(start, at_start));
        if low.1 <= 0.0 {
            return start;
        }
        let mut step = 0.5 / sqrt(at_start.variance.max(1e-300));
        let mut high = loop {
            let tilt = low.0 + sign * step;
            let cumulant = self.cumulant(tilt);
            let value = height(tilt, cumulant);
            if value <= 0.0 {
                break (tilt, value);
            }
            // Tilted so far that the loss sits at the end of its range: nothing more to gain.
            if cumulant.variance * tilt * tilt < 1e-9 || !tilt.is_finite() {
                return tilt;
            }
            (low, step) = ((tilt, value), 2.0 * step);
        };
        // Regula falsi with the Illinois weight: keeps the bracket, converges fast on smooth functions.
        for _ in 0..60 {
            if (high.0 - low.0).abs() <= 1e-3 * high.0.abs().max(low.0.abs()) {
                break;
            }
            let tilt = (low.0 * high.1 - high.0 * low.1) / (high.1 - low.1);
            let value = height(tilt, self.cumulant(tilt));
            if value.abs() <= 1e-3 {
                return tilt;
            }
            if value <= 0.0 {
                high = (tilt, value);
                low.1 *= 0.5;
            } else {
                low = (tilt, value);
                high.1 *= 0.5;
            }
        }
        high.0
    }

    /// The saddle-point approximation to log delta(eps); for starting values only.
    pub fn approximate_log_delta(&self, eps: f64) -> f64 {
        let theta = self.solve_tilt(0.0, 1.0, |_, cumulant| eps - cumulant.mean);
        let cumulant = self.cumulant(theta);
        if theta == 0.0 {
            // Most outcomes have a larger loss: a normal law without tilt.
            return log_normal_cdf((cumulant.mean - eps) / sqrt(cumulant.variance.max(1e-300)));
        }
        cumulant.value - theta * eps + log_hockey_stick(theta, cumulant)
    }

    /// Tilt, window and grid for a question; `refinement` halves the grid step that many times. A direct plan is short.
    pub fn plan(&self, target: Target, refinement: u32, is_direct: bool) -> Plan {
        let longest = if is_direct { LONGEST_DIRECT } else { LONGEST };
        let saddle = match target {
            Target::Epsilon(eps) | Target::Both(eps, _) => {
                self.solve_tilt(0.0, 1.0, |_, cumulant| eps - cumulant.mean)
            }
            Target::Delta(delta) => {
                let log_target = log(delta.max(1e-300));
                self.solve_tilt(0.0, 1.0, |theta, cumulant| {
                    let log_delta =
                        cumulant.value - theta * cumulant.mean + log_hockey_stick(theta, cumulant);
                    // A negative epsilon is never asked for.
                    (log_delta - log_target).max(-cumulant.mean)
                })
            }
        };
        let centre = self.cumulant(saddle);
        let epsilon = match target {
            Target::Epsilon(eps) | Target::Both(eps, _) => eps,
            Target::Delta(_) => centre.mean.max(0.0),
        };
        let log_delta = match target {
            Target::Both(_, delta) => log(delta.max(1e-300)),
            _ => centre.value - saddle * centre.mean + log_hockey_stick(saddle, centre),
        };
        let top_limit = log_delta + LOG_OUTSIDE;
        let top_tilt =
            self.solve_tilt(saddle, 1.0, |tilt, cumulant| cumulant.value - tilt * cumulant.mean - top_limit);
        let window = self.window(saddle, epsilon, log_delta, self.cumulant(top_tilt).mean);

        let steps: f64 = self.parts.iter().map(|part| part.1).sum();
        let spacing =
            self.spacing(saddle, epsilon, centre.variance, steps) / f64::from(1u32 << refinement.min(20));
        // No finer than 2^-28 of the losses of one part, so that grid points are exact, nor than 2^-50 of the total.
        let range = |(low, high): (f64, f64)| high - low;
        let single = self.parts.iter().map(|(sketch, _)| range(sketch.range())).fold(0.0, f64::max);
        let total = window.top.abs().max(window.bottom.abs()).max(epsilon);
        let spacing = spacing.max(single * exp2(-28.0)).max(total * exp2(-50.0));
        let width = (window.top - window.bottom).max(spacing * (SHORTEST - 4) as f64);
        let len = (width / (1.15 * spacing)).ceil().min(longest as f64) as usize;
        let len = len.next_power_of_two().clamp(SHORTEST, longest);
        // Four steps are kept free for rounding at the ends.
        let spacing = self.align(round_up(width / (len - 4) as f64));
        let theta = window.theta;
        let wrap = self.wrap_tilt(theta, epsilon + len as f64 * spacing);
        // The tilted mass that decides: delta = e^{K - theta eps} times it.
        let log_share = (log_delta - (self.cumulant(theta).value - theta * epsilon)).min(0.0);
        Plan {
            theta,
            outer_tilts: OuterTilts { top: top_tilt, bottom: window.bottom_tilt, wrap },
            spacing,
            len,
            start: (window.bottom / spacing).floor() as i64 - 1,
            tail_mass: (1e-9 * exp(log_delta.clamp(-600.0, 0.0)) / steps).max(1e-290),
            epsilon,
            log_delta,
            is_direct,
            widths: self.widths(theta, spacing, log_share),
        }
    }

    /// The shortest window: beyond its top lies e^LOG_OUTSIDE of delta, below its bottom as much under the tilted law,
    /// and what wraps around onto epsilon is as small.
    ///
    /// Rare large losses can make the saddle-point tilt carry a second heap of mass far above epsilon; a smaller tilt
    /// leaves it where it is and costs little accuracy.
    fn window(&self, saddle: f64, epsilon: f64, log_delta: f64, top_mean: f64) -> Window {
        let mut best: Option<Window> = None;
        for share in [1.0, 0.85, 0.7, 0.5] {
            let (window, extended) = self.window_at(share * saddle, epsilon, log_delta, top_mean);
            if best.is_none_or(|other| window.top - window.bottom < other.top - other.bottom) {
                best = Some(window);
            }
            if !extended {
                break;
            }
        }
        best.expect("the first share always gives a window")
    }

    fn window_at(&self, theta: f64, epsilon: f64, log_delta: f64, top_mean: f64) -> (Window, bool) {
        let centre = self.cumulant(theta);
        let margin = 0.25 * sqrt(centre.variance);
        let (smallest, largest) = self.total_range();
        let mut top = (top_mean.max(epsilon) + margin).min(largest.max(epsilon));
        // The tilted probability that decides: delta = e^{K - theta eps} times it.
        let bottom_limit = log_delta - (centre.value - theta * epsilon) + LOG_OUTSIDE;
        let bottom_tilt = self.solve_tilt(theta, -1.0, |tilt, cumulant| {
            cumulant.value - centre.value + (theta - tilt) * cumulant.mean - bottom_limit
        });
        let bottom = (self.cumulant(bottom_tilt).mean.min(epsilon) - margin).max(smallest.min(epsilon));
        let mut extended = false;
        for _ in 0..12 {
            let place = epsilon + top - bottom;
            let tilt = self.wrap_tilt(theta, place);
            // What lies a window's length above epsilon comes down onto it, magnified by e^{theta length}.
            let log_wrapped = self.cumulant(tilt).value - tilt * place + theta * (top - bottom);
            if log_wrapped <= log_delta + LOG_OUTSIDE || top >= largest {
                break;
            }
            extended = true;
            top += 0.2 * (top - bottom);
        }
        (Window { theta, bottom, top, bottom_tilt }, extended)
    }

    fn wrap_tilt(&self, theta: f64, place: f64) -> f64 {
        self.solve_tilt(theta, 1.0, |_, cumulant| place - cumulant.mean)
    }

    /// The grid step at which connect-the-dots moves log delta by `tolerance` times what epsilon is worth.
    ///
    /// Each step adds variance h^2/6 in the mean; log delta moves by theta (theta+1)/2 per unit of variance.
    fn spacing(&self, theta: f64, epsilon: f64, variance: f64, steps: f64) -> f64 {
        let worth = (theta * epsilon).max(1.0);
        let sensitivity = 0.5 * theta * (theta + 1.0) + 0.5 / variance.max(1e-300);
        sqrt(6.0 * self.tolerance * worth / (sensitivity * steps))
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

    fn total_range(&self) -> (f64, f64) {
        let other = match self.direction {
            Direction::Forward => Direction::Reversed,
            Direction::Reversed => Direction::Forward,
        };
        let mut total = (0.0, 0.0);
        for ((sketch, count), (pair, _)) in self.parts.iter().zip(self.pairs) {
            let (low, high) = sketch.range();
            let (smallest, largest) = (-pair.largest_loss(other), pair.largest_loss(self.direction));
            total.0 += count * if smallest.is_finite() { smallest } else { low };
            total.1 += count * if largest.is_finite() { largest } else { high };
        }
        total
    }

    /// Cells may be w steps wide where the tilted mass further out is below 0.01/w^2 of what decides, also when it is moved
    /// to the inner end: that adds less than a tenth to the variance that the narrow cells add.
    fn widths(&self, theta: f64, spacing: f64, log_share: f64) -> Vec<Widths> {
        let sizes: Vec<i64> =
            (1..=40).map(|power| 1i64 << power).filter(|&size| size as f64 * spacing <= WIDEST).collect();
        let log_mass = |&size: &i64| {
            let width = size as f64 * spacing;
            log_share + log(0.01) - 2.0 * log(size as f64) - ((theta.abs() + 1.0) * width - 0.2).max(0.0)
        };
        let masses: Vec<f64> = sizes.iter().map(log_mass).collect();
        let steps = |losses: Vec<f64>, sign: f64| -> Vec<(i64, i64)> {
            let from = |loss: f64| ((sign * loss).max(0.0) / spacing).ceil() as i64 + 1;
            losses.into_iter().map(from).zip(sizes.iter().copied()).collect()
        };
        let widths = |(sketch, _): &(Sketch, f64)| {
            let (right, left) = sketch.tilted_tails(theta, &masses);
            let (right, left) = (steps(right, 1.0), steps(left, -1.0));
            match self.direction {
                Direction::Forward => Widths { right, left },
                Direction::Reversed => Widths { right: left, left: right },
            }
        };
        self.parts.iter().map(widths).collect()
    }
}

/// log of int_0^inf (e^{-theta y} - e^{-(theta+1) y}) N(0, sigma^2)(dy) = [R(theta sigma) - R((theta+1) sigma)]/sqrt(2 pi).
fn log_hockey_stick(theta: f64, cumulant: Cumulant) -> f64 {
    let sigma = sqrt(cumulant.variance);
    if !(sigma > 0.0) {
        return 0.0;
    }
    let difference = mills_difference(theta * sigma, (theta + 1.0) * sigma);
    log(difference.max(1e-300 * mills_ratio(theta * sigma))) - 0.918_938_533_204_672_8
}

/// Rounded up to 24 significant bits, so that every grid point index * spacing is an exact double.
fn round_up(x: f64) -> f64 {
    let low_bits = (1u64 << 29) - 1;
    f64::from_bits((x.to_bits() + low_bits) & !low_bits)
}
