//! The lower ends: an explicit test that tells the two tables apart.
//!
//! Outcomes are merged into cells and each cell is given its grid index; the test adds up the indices over all releases
//! and says "P" when the sum S reaches a threshold. Whatever the cells, P(S >= J) - e^eps Q(S >= J) <= delta(eps), so
//! the best threshold gives a lower bound. Both probabilities are composed like the upper law, the first rounded down
//! and the second rounded up. See `proof.md`, section 5.

use super::compose::{Composed, Factor, compose, log_beyond, log_chernoff, tilted_mean_index};
use super::fft::{RealFft, UNIT_ROUNDOFF};
use super::lattice::{Cell, Decisive, Lattice, Law, merged};
use super::plan::Plan;
use super::tail_sums::TailSums;
use super::upper::{log_some_decisive, some};
use crate::renyi::log_add;
use libm::{exp, expm1, log};
use std::ops::Range;
use std::rc::Rc;

/// Probabilities that the test statistic reaches a threshold.
pub struct LowerTail {
    under_p: AtLeast,
    under_q: AtLeast,
    wrapped: Wrapped,
    /// log of the Q-probability beyond the window, rounded up.
    log_beyond: f64,
    /// Where the best threshold is to be expected.
    useful: Range<usize>,
    /// P-probability of a decisive loss or of an outcome that Q never produces, rounded down: the test says "P" then.
    decisive_p: f64,
    /// log of the Q-probability of a decisive loss, rounded up.
    log_decisive_q: f64,
}

impl LowerTail {
    /// Composes the statistic under both laws, in the window of the plan.
    pub fn new(lattices: &[(Lattice, u64)], plan: &Plan, fft: &Rc<RealFft>) -> Self {
        let side_p = Side::new(lattices, |cell| cell.p, -1.0);
        let side_q = Side::new(lattices, |cell| cell.q_lifted, 1.0);
        let (factors_p, factors_q) = (side_p.factors(), side_q.factors());
        // Losses lie above the index of their cell by less than a step; over all releases the window moves by the mean.
        let start = plan.start - side_p.mean_offset(lattices, plan).round() as i64;
        // The best threshold is close to epsilon; others would be sound but useless.
        let centre =
            ((plan.place.epsilon / plan.spacing) as i64 - plan.start).clamp(0, plan.len as i64 - 1) as usize;
        let reach = plan.len / 16 + 64;
        let decisive_p =
            some(lattices, |lattice| lattice.revealed + lattice.decisive.p * (1.0 - Decisive::ERROR));
        let top = (start + plan.len as i64) as f64 * plan.spacing;
        LowerTail {
            under_p: AtLeast::new(&factors_p, plan, 0.0, start, fft),
            // The masses under Q are lifted by e^loss.
            under_q: AtLeast::new(&factors_q, plan, 1.0, start, fft),
            wrapped: Wrapped::new(&factors_p, plan, start),
            log_beyond: log_beyond(&factors_q, plan.spacing, plan.outer_tilts.top, top) - top,
            useful: centre.saturating_sub(reach)..(centre + reach).min(plan.len),
            decisive_p: decisive_p * (1.0 - 1e-12),
            log_decisive_q: log_some_decisive(lattices) + 4.0 * Decisive::ERROR,
        }
    }

    /// A lower bound on delta(eps).
    pub fn delta(&self, eps: f64) -> f64 {
        let gap = |p: f64, log_q: f64| p - exp(eps + log_q) * (1.0 + 4.0 * UNIT_ROUNDOFF);
        // Taken down once more, by more than the quotients behind the pairs were rounded up.
        self.best(gap) * (1.0 - 1e-11)
    }

    /// A lower bound on the smallest epsilon >= 0 with delta(epsilon) <= delta.
    pub fn epsilon(&self, delta: f64) -> f64 {
        // P - e^eps Q > delta holds for every eps below log((P - delta)/Q).
        let reached = |p: f64, log_q: f64| if p > delta { log(p - delta) - log_q } else { 0.0 };
        // Taken down once more, by more than the quotients behind the pairs were rounded up.
        (self.best(reached) * (1.0 - 1e-12) - 1e-13).max(0.0)
    }

    /// The largest value, at least zero, over a choice of thresholds, of a function of the P-probability of the test,
    /// rounded down, and the log of its Q-probability, rounded up. Any choice is sound.
    fn best(&self, value: impl Fn(f64, f64) -> f64) -> f64 {
        let at = |j: usize| {
            let log_q = log_add(log_add(self.under_q.log_at_most(j), self.log_beyond), self.log_decisive_q);
            let p = self.under_p.at_least(j, &self.wrapped) + self.decisive_p;
            let value = value(p, log_q);
            // An overflow is not a bound; zero is.
            if value > 0.0 && value.is_finite() && log_q < 1.0 { value } else { 0.0 }
        };
        let (first, last) = (self.useful.start, self.useful.end - 1);
        let mut step = ((last - first) / LOOKS).max(1);
        let (mut best, mut place) = (0.0, first);
        let look = |j: usize, best: &mut f64, place: &mut usize| {
            let value = at(j);
            if value > *best {
                (*best, *place) = (value, j);
            }
        };
        for j in (first..=last).step_by(step) {
            look(j, &mut best, &mut place);
        }
        while step > 1 {
            step = step.div_ceil(2);
            let centre = place;
            look(centre.saturating_sub(step).max(first), &mut best, &mut place);
            look((centre + step).min(last), &mut best, &mut place);
            if step == 2 {
                step = 1;
            }
        }
        best
    }
}

/// How many thresholds are tried before the best one is looked for more closely.
const LOOKS: usize = 48;

/// The tails of the statistic under one law, whose masses were lifted by e^{lift loss}.
struct AtLeast {
    tails: TailSums,
    /// What undoes the tilt and the lift.
    rate: f64,
    spacing: f64,
    start: i64,
    log_scale: f64,
    weight_error: f64,
}

impl AtLeast {
    fn new(factors: &[Factor], plan: &Plan, lift: f64, start: i64, fft: &Rc<RealFft>) -> Self {
        let (rate, spacing) = (plan.theta + lift, plan.spacing);
        let Composed { masses, log_scale, weight_error } = compose(factors, spacing, plan.theta, start, fft);
        AtLeast { tails: masses.tails(rate, spacing), rate, spacing, start, log_scale, weight_error }
    }

    fn threshold(&self, j: usize) -> f64 {
        (self.start + j as i64) as f64 * self.spacing
    }

    fn slack(&self, exponent: f64) -> f64 {
        self.weight_error + 8.0 * UNIT_ROUNDOFF * (1.0 + self.log_scale.abs() + exponent.abs())
    }

    /// A lower bound on the probability that the statistic is at least the j-th threshold of the window.
    fn at_least(&self, j: usize, wrapped: &Wrapped) -> f64 {
        let exponent = self.rate * self.threshold(j);
        let sum = self.tails.at(j) * (1.0 - self.tails.sum_error) - self.tails.round_off;
        let inside = sum * exp(self.log_scale - exponent - self.slack(exponent));
        let bound = inside - wrapped.bound(self.threshold(j));
        if bound > 0.0 && bound <= 1.0 { bound } else { 0.0 }
    }

    /// An upper bound on the logarithm of that probability, without what lies beyond the window.
    fn log_at_most(&self, j: usize) -> f64 {
        let exponent = self.rate * self.threshold(j);
        let sum = self.tails.at(j).max(0.0) * (1.0 + self.tails.sum_error) + self.tails.round_off;
        self.log_scale - exponent + log(sum) + self.slack(exponent)
    }
}

/// The cells of every part under one of the two measures.
struct Side {
    laws: Vec<(Law, u64)>,
}

impl Side {
    /// Cell masses, moved by their error in the direction of `sign`.
    fn new(lattices: &[(Lattice, u64)], mass: fn(&Cell) -> f64, sign: f64) -> Self {
        // What is too small for a double is something when it is rounded up, and nothing when down.
        let smallest = if sign > 0.0 { f64::MIN_POSITIVE } else { 0.0 };
        let moved = |cell: &Cell| {
            // Where the error is larger than the mass there may be nothing, but never less.
            let factor = (1.0 + sign * (cell.error + 4.0 * UNIT_ROUNDOFF)).max(0.0);
            (cell.index, mass(cell) * factor + smallest)
        };
        let law = |lattice: &Lattice| merged(lattice.cells.iter().map(moved).collect());
        Side { laws: lattices.iter().map(|(lattice, count)| (law(lattice), *count)).collect() }
    }

    fn factors(&self) -> Vec<Factor<'_>> {
        self.laws.iter().map(|(law, count)| Factor { law, count: *count }).collect()
    }

    /// How many steps the composed loss lies above the composed statistic, in the mean of the tilted laws.
    fn mean_offset(&self, lattices: &[(Lattice, u64)], plan: &Plan) -> f64 {
        let mean = |law: &[(i64, f64)]| tilted_mean_index(law, plan.spacing, plan.theta);
        let mut total = 0.0;
        for ((lattice, count), (law, _)) in lattices.iter().zip(&self.laws) {
            total += *count as f64 * (mean(&lattice.upper) - mean(law));
        }
        total
    }
}

/// What the cycle puts into the wrong place: entry J of the window also holds the tilted masses at J + mN for m = 1, 2,
/// .. and at J - mN. After the tilt is undone, a sum from threshold J on contains too much by at most
///
/// - sum_m e^{theta m N h} P(S >= J + mN) <= e^{K(t) - t J h} x/(1-x), x = e^{-(t-theta) N h}, for any t > theta (Chernoff),
/// - sum_m e^{-theta m N h} P(start - mN <= S < start - (m-1)N), which is at most e^{K(t) - t b} x/(1-x) with
///   x = e^{-(theta-t) N h} for any 0 < t < theta, where b is the window's first loss; e^{K(t) - t b - theta N h}/(1-x) for any
///   t < 0; and e^{-theta N h}, because the blocks are disjoint.
struct Wrapped {
    log_above: f64,
    tilt_above: f64,
    log_below: f64,
}

impl Wrapped {
    fn new(factors: &[Factor], plan: &Plan, start: i64) -> Self {
        let (theta, length) = (plan.theta, plan.len as f64 * plan.spacing);
        let tilt_above = plan.outer_tilts.wrap;
        let bottom = start as f64 * plan.spacing;
        // K(t) - t N h + theta N h - log(1 - x)
        let log_first = log_chernoff(factors, plan.spacing, tilt_above, length) + theta * length;
        let log_geometric = log(-expm1(-(tilt_above - theta) * length));
        let below = |tilt: f64| {
            let once = (theta - tilt.max(0.0)) * length;
            let log_rest = log(-expm1(-(theta - tilt) * length));
            log_chernoff(factors, plan.spacing, tilt, bottom) - once - log_rest
        };
        // Where the window ends with the losses the plan's tilt may be far too large for the grid.
        let tilts = [plan.outer_tilts.bottom, -1.0 / plan.spacing, -0.25 / plan.spacing];
        let log_below = tilts.map(below).into_iter().fold(-theta * length, f64::min);
        Wrapped { log_above: log_first - log_geometric, tilt_above, log_below }
    }

    /// NaN where the tilt does not exceed theta; the caller then has no bound.
    fn bound(&self, threshold: f64) -> f64 {
        // With what is too small for a double, over at most 2^50 releases.
        (exp(self.log_above - self.tilt_above * threshold) + exp(self.log_below)) * (1.0 + 1e-9) + 1e-285
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounded down by more than itself a mass would be negative, and composed an even number of times positive again.
    #[test]
    fn a_mass_smaller_than_its_error_is_rounded_down_to_nothing() {
        let mut lattice = Lattice::empty(1.0);
        lattice.cells.push(Cell { index: 0, p: 0.25, q_lifted: 0.25, error: 1e-6 });
        lattice.cells.push(Cell { index: 1, p: 0.75, q_lifted: 0.75, error: 1.5 });
        let lattices = [(lattice, 2)];
        let under_p = &Side::new(&lattices, |cell| cell.p, -1.0).laws[0].0;
        assert!(under_p[0].1 > 0.0 && under_p[0].1 < 0.25, "{under_p:?}");
        assert_eq!(under_p[1], (1, 0.0));
        // The other direction has no such end.
        let under_q = &Side::new(&lattices, |cell| cell.q_lifted, 1.0).laws[0].0;
        assert!(under_q[1].1 >= 2.5 * 0.75, "{under_q:?}");
    }
}
