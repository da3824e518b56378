//! The upper ends: delta and epsilon of the composed dominating law.

use super::compose::{Composed, Factor, Method, compose, log_chernoff};
use super::fft::UNIT_ROUNDOFF;
use super::lattice::Lattice;
use super::plan::Plan;
use libm::{exp, expm1, log, log1p};

/// The upper tail of a composed dominating law, ready for questions.
///
/// With r_i the tilted masses, A_j = sum_{i>=j} r_i e^{-theta (i-j) h} and B_j the same with theta + 1, for eps in
/// ((j-1)h, jh]: delta(eps) = e^{log_scale - theta j h} [A_j - e^{eps - jh} B_j] + constant.
pub struct UpperTail {
    spacing: f64,
    theta: f64,
    /// Index of the first grid point of the window.
    start: i64,
    /// A_j; one more entry than the window, zero.
    above: Vec<f64>,
    /// B_j.
    above_discounted: Vec<f64>,
    log_scale: f64,
    /// Added to every answer: infinite losses and everything beyond the window.
    constant: f64,
    /// Relative error of the sums, up and down.
    sum_error: f64,
    /// log of the relative error of every tilted weight, over all copies.
    weight_error: f64,
    /// The epsilon for which the tilt is best.
    centre: f64,
    /// Absolute error of every tilted mass, already added.
    entry_error: f64,
}

impl UpperTail {
    /// Composes the dominating laws as planned. Every law must have finite losses.
    pub fn new(lattices: &[(Lattice, u64)], plan: &Plan, method: Method) -> Self {
        let factors: Vec<Factor> =
            lattices.iter().map(|(lattice, count)| Factor { law: &lattice.upper, count: *count }).collect();
        let composed = compose(&factors, plan.spacing, plan.theta, plan.start, method);
        // 1 - prod (1 - p)^count, rounded up.
        let log_finite: f64 =
            lattices.iter().map(|(lattice, count)| *count as f64 * log1p(-lattice.infinite)).sum();
        let infinite = -expm1(log_finite) * (1.0 + 1e-12);
        let beyond = beyond_top(&factors, plan);
        let Composed { theta, spacing, start, tilted, log_scale, entry_error, weight_error } = composed;
        let len = tilted.len();
        let (mut above, mut above_discounted) = (vec![0.0; len + 1], vec![0.0; len + 1]);
        let (decay, decay_discounted) = (exp(-theta * spacing), exp(-(theta + 1.0) * spacing));
        for j in (0..len).rev() {
            let mass = tilted[j] + entry_error;
            above[j] = mass + decay * above[j + 1];
            above_discounted[j] = mass + decay_discounted * above_discounted[j + 1];
        }
        UpperTail {
            spacing,
            theta,
            start,
            above,
            above_discounted,
            log_scale,
            constant: infinite + beyond,
            // Every step of the recursion multiplies the relative error by at most 1 + 4u.
            sum_error: UNIT_ROUNDOFF * (4.0 * len as f64 + 16.0),
            weight_error,
            centre: plan.epsilon,
            entry_error,
        }
    }

    fn grid(&self, index: i64) -> f64 {
        index as f64 * self.spacing
    }

    /// The largest epsilon that the window can answer for.
    pub fn top(&self) -> f64 {
        self.grid(self.start + self.above.len() as i64 - 1)
    }

    /// How far the tilt is from the best one for this epsilon, in units of log delta.
    pub fn misfit(&self, eps: f64) -> f64 {
        self.theta * (eps - self.centre).abs()
    }

    /// About how much of the bound on delta(eps) is round-off of the transform.
    pub fn round_off_share(&self, eps: f64) -> f64 {
        let index = (eps / self.spacing).floor() as i64 + 1;
        let steps = (self.start + self.above.len() as i64 - index).max(0) as f64;
        let sum =
            |tilt: f64| -expm1(-tilt * self.spacing * steps) / -expm1(-tilt * self.spacing).min(-1e-300);
        // The same sums over the error alone.
        let error = self.entry_error * (sum(self.theta.max(1e-12)) - sum(self.theta + 1.0)).max(0.0);
        self.factor(index) * error / self.delta(eps)
    }

    /// e^{log_scale - theta j h}, rounded up.
    fn factor(&self, index: i64) -> f64 {
        let exponent = self.theta * self.grid(index);
        let slack = self.weight_error + 4.0 * UNIT_ROUNDOFF * (1.0 + self.log_scale.abs() + exponent.abs());
        exp(self.log_scale - exponent + slack)
    }

    /// An upper bound on delta(eps), for eps in the window; one below it.
    pub fn delta(&self, eps: f64) -> f64 {
        // A slightly smaller epsilon has a larger delta: the roundings of the index and of the grid are on that side.
        let eps = eps * (1.0 - 8.0 * UNIT_ROUNDOFF);
        let index = (eps / self.spacing).floor() as i64 + 1;
        if index <= self.start {
            return 1.0;
        }
        let entry = usize::try_from(index - self.start).unwrap_or(usize::MAX).min(self.above.len() - 1);
        let discount = exp((eps - self.grid(index)).min(0.0)) * (1.0 - 4.0 * UNIT_ROUNDOFF);
        let sum = self.above[entry] * (1.0 + self.sum_error)
            - discount * self.above_discounted[entry] * (1.0 - self.sum_error);
        let delta = if sum > 0.0 { self.factor(index) * sum + self.constant } else { self.constant };
        // An overflow anywhere above is not a bound: NaN and infinity both become one.
        if sum.is_finite() && delta < 1.0 { delta } else { 1.0 }
    }

    /// The smallest epsilon >= 0 of the window at which the upper bound is at most delta; `None` if it is not there.
    pub fn epsilon(&self, delta: f64) -> Option<f64> {
        if self.start <= 0 && self.delta(0.0) <= delta {
            return Some(0.0);
        }
        if !(self.delta(self.top()) <= delta) {
            return None;
        }
        // delta decreases: find the first grid point at which it is small enough.
        let (mut high, mut low) = (self.start + self.above.len() as i64 - 1, self.start.max(0));
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.delta(self.grid(middle)) <= delta {
                high = middle;
            } else {
                low = middle;
            }
        }
        // Between grid points delta is linear in e^eps: solve, then step up until the bound itself agrees.
        let entry = usize::try_from(high - self.start).ok()?;
        let wanted = (delta - self.constant) / self.factor(high);
        let solved = self.grid(high) + log((self.above[entry] - wanted) / self.above_discounted[entry]);
        let mut eps = if solved > self.grid(low) { solved } else { self.grid(low) };
        let mut nudge = 1e-15 * (1.0 + eps);
        while eps < self.grid(high) {
            if self.delta(eps) <= delta {
                return Some(eps);
            }
            eps += nudge;
            nudge *= 4.0;
        }
        Some(self.grid(high))
    }
}

/// The Chernoff bound on the mass beyond the window's top, at a few tilts around the planned one.
fn beyond_top(factors: &[Factor], plan: &Plan) -> f64 {
    let top = (plan.start + plan.len as i64) as f64 * plan.spacing;
    let largest: f64 = factors
        .iter()
        .map(|factor| {
            factor.count as f64 * factor.law.last().map_or(0, |entry| entry.0) as f64 * plan.spacing
        })
        .sum();
    if largest < top {
        return 0.0;
    }
    let tilts = [1.0, 1.1, 1.3].map(|scale| scale * plan.outer_tilts.top);
    let best =
        tilts.map(|tilt| log_chernoff(factors, plan.spacing, tilt, top)).into_iter().fold(0.0, f64::min);
    exp(best) * (1.0 + 1e-12)
}
