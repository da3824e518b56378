//! The upper ends: delta and epsilon of the composed dominating law.

use super::compose::{Composed, Factor, compose, log_beyond, log_chernoff};
use super::fft::{RealFft, UNIT_ROUNDOFF};
use super::lattice::{Decisive, Lattice};
use super::plan::Plan;
use super::tail_sums::TailSums;
use crate::renyi::log_add;
use libm::{exp, expm1, log, log1p};
use std::rc::Rc;

/// The upper tail of a composed dominating law, ready for questions.
///
/// With r_i the tilted masses, A_j = sum_{i>=j} r_i e^{-theta (i-j) h} and B_j the same with theta + 1, for eps in
/// ((j-1)h, jh]: delta(eps) = e^{log_scale - theta j h} [A_j - e^{eps - jh} B_j + round-off] + constant.
pub struct UpperTail {
    spacing: f64,
    theta: f64,
    /// Index of the first grid point of the window.
    start: i64,
    /// A_j.
    above: TailSums,
    /// B_j.
    above_discounted: TailSums,
    log_scale: f64,
    /// Added to every answer: infinite losses and everything beyond the window.
    constant: f64,
    /// What decisive losses add.
    decisive: DecisiveShare,
    /// log of the relative error of every tilted weight, over all copies.
    weight_error: f64,
    /// The epsilon for which the tilt is best.
    centre: f64,
    /// Bound on what the errors of the tilted masses may amount to in A_j - e^{eps - jh} B_j, for every j.
    round_off: f64,
}

impl UpperTail {
    /// Composes the dominating laws as planned. Every law must have finite losses.
    pub fn new(lattices: &[(Lattice, u64)], plan: &Plan, fft: &Rc<RealFft>) -> Self {
        let factors: Vec<Factor> =
            lattices.iter().map(|(lattice, count)| Factor { law: &lattice.upper, count: *count }).collect();
        let composed = compose(&factors, plan.spacing, plan.theta, plan.start, fft);
        let infinite = some(lattices, |lattice| lattice.infinite) * (1.0 + 1e-12);
        let decisive = DecisiveShare::new(lattices, &factors, plan);
        let top = (plan.start + plan.len as i64) as f64 * plan.spacing;
        let beyond = exp(log_beyond(&factors, plan.spacing, plan.outer_tilts.top, top)) * (1.0 + 1e-12);
        let Composed { masses, log_scale, weight_error } = composed;
        UpperTail {
            spacing: plan.spacing,
            theta: plan.theta,
            start: plan.start,
            above: masses.tails(plan.theta, plan.spacing),
            above_discounted: masses.tails(plan.theta + 1.0, plan.spacing),
            log_scale,
            constant: infinite + beyond,
            decisive,
            weight_error,
            centre: plan.place.epsilon,
            // For eps in ((j-1)h, jh] the discount e^{eps - jh} lies between e^-h and one.
            round_off: masses.difference_error(plan.theta, plan.spacing),
        }
    }

    fn grid(&self, index: i64) -> f64 {
        index as f64 * self.spacing
    }

    /// The largest epsilon that the window can answer for.
    pub fn top(&self) -> f64 {
        self.grid(self.start + self.above.len() as i64)
    }

    /// Whether this epsilon is the smallest that the window can answer for.
    pub fn is_bottom(&self, eps: f64) -> bool {
        eps > 0.0 && eps <= self.grid(self.start + 1)
    }

    /// Whether most of the bound on delta(eps) is what the window and the grid leave out.
    pub fn is_mostly_outside(&self, eps: f64) -> bool {
        self.constant > 0.5 * self.delta(eps)
    }

    /// About how much of the bound on delta(eps) is round-off of the transform.
    pub fn round_off_share(&self, eps: f64) -> f64 {
        let index = (eps / self.spacing).floor() as i64 + 1;
        self.factor(index) * self.round_off / self.delta(eps)
    }

    /// -d log delta/d eps at eps: e^eps times the Q-probability of larger losses, over delta.
    pub fn slope(&self, eps: f64) -> f64 {
        let index = (eps / self.spacing).floor() as i64 + 1;
        let entry = usize::try_from(index - self.start).unwrap_or(0);
        let discount = exp(eps - self.grid(index));
        let tail = self.factor(index) * discount * self.above_discounted.at(entry);
        (tail + exp(eps + self.decisive.log_q)) / self.delta(eps)
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
        let entry = usize::try_from(index - self.start).unwrap_or(usize::MAX);
        let discount = exp((eps - self.grid(index)).min(0.0)) * (1.0 - 4.0 * UNIT_ROUNDOFF);
        let sum = self.above.at(entry) * (1.0 + self.above.sum_error)
            - discount * self.above_discounted.at(entry) * (1.0 - self.above_discounted.sum_error)
            + self.round_off;
        let inside = if sum > 0.0 { self.factor(index) * sum } else { 0.0 };
        let delta = inside + self.constant + self.decisive.at(eps);
        // An overflow anywhere above is not a bound: NaN and infinity both become one.
        if sum.is_finite() && delta < 1.0 { delta } else { 1.0 }
    }

    /// An epsilon >= 0 of the window at which the upper bound is at most delta, the smallest up to rounding; `None` if
    /// there seems to be none.
    pub fn epsilon(&self, delta: f64) -> Option<f64> {
        let holds = |eps: f64| self.delta(eps) <= delta;
        if self.start <= 0 && holds(0.0) {
            return Some(0.0);
        }
        // Close to the decisive losses the bound may rise again: look below them too.
        let near = self.centre + 0.25 * (self.decisive.loss - self.centre);
        let mut high = [self.top(), self.top().min(near), self.centre].into_iter().find(|&eps| holds(eps))?;
        let mut low = self.grid(self.start.max(0));
        while high - low > 1e-14 * high {
            let middle = 0.5 * (low + high);
            if !(low < middle && middle < high) {
                break;
            }
            if holds(middle) {
                high = middle;
            } else {
                low = middle;
            }
        }
        Some(high)
    }
}

/// 1 - prod (1 - p)^count: the probability that some release has a property that each has with probability p.
pub fn some(lattices: &[(Lattice, u64)], p: impl Fn(&Lattice) -> f64) -> f64 {
    let log_none: f64 = lattices.iter().map(|(lattice, count)| *count as f64 * log1p(-p(lattice))).sum();
    -expm1(log_none)
}

/// What outcomes with at least one decisive loss add to delta: P - e^eps Q of all of them, and what those among them
/// can take away that end up below eps after all (`proof.md`, section 2.6).
struct DecisiveShare {
    /// Their probability under P, rounded up.
    p: f64,
    /// log of their probability under Q, rounded down.
    log_q: f64,
    /// log of Q(decisive and S < eps) is at most this plus tilt * eps.
    log_down: f64,
    tilt: f64,
    /// The smallest decisive loss.
    loss: f64,
}

/// log of the Q-probability that some loss is decisive, within [`Decisive::ERROR`] of it, relatively.
pub fn log_some_decisive(lattices: &[(Lattice, u64)]) -> f64 {
    let log_one = |decisive: &Decisive| log(decisive.q_lifted) - decisive.loss;
    let log_sum = lattices
        .iter()
        .filter(|(lattice, _)| lattice.decisive.p > 0.0)
        .map(|(lattice, count)| log(*count as f64) + log_one(&lattice.decisive))
        .fold(f64::NEG_INFINITY, log_add);
    // 1 - prod (1 - q)^count lies between sum - sum^2/2 and the sum, which may be below every double.
    if log_sum < -30.0 {
        return log_sum;
    }
    log(some(
        lattices,
        |lattice| if lattice.decisive.p > 0.0 { exp(log_one(&lattice.decisive)) } else { 0.0 },
    ))
}

impl DecisiveShare {
    fn new(lattices: &[(Lattice, u64)], factors: &[Factor], plan: &Plan) -> Self {
        let tilt = -(plan.outer_tilts.down + 1.0);
        let decisive = |lattice: &Lattice| match lattice.decisive.p {
            p if p > 0.0 => p * (1.0 + Decisive::ERROR) + f64::MIN_POSITIVE,
            _ => 0.0,
        };
        let p = some(lattices, decisive) * (1.0 + 1e-12);
        let mut loss = f64::INFINITY;
        let (mut log_others, mut missing, mut log_down) = (0.0, 0.0, f64::NEG_INFINITY);
        if p == 0.0 {
            return DecisiveShare { p, log_q: f64::NEG_INFINITY, log_down, tilt, loss };
        }
        // E_Q[e^{-tilt L}] of every release, decisive losses included.
        let mut moments = Vec::new();
        for ((lattice, count), factor) in lattices.iter().zip(factors) {
            missing += *count as f64 * (lattice.infinite_reversed + 1e-12);
            let Decisive { loss, q_lifted, .. } = lattice.decisive;
            let decisive = log(q_lifted) - (tilt + 1.0) * loss;
            let one = Factor { law: factor.law, count: 1 };
            let moment = log_add(log_chernoff(&[one], plan.spacing, -1.0 - tilt, 0.0), decisive) + 1e-9;
            log_others += *count as f64 * moment;
            moments.push(moment);
        }
        for ((lattice, count), moment) in lattices.iter().zip(moments) {
            let decisive = lattice.decisive;
            if decisive.p > 0.0 {
                loss = loss.min(decisive.loss);
                // count Q(decisive) e^{-tilt (loss - eps)} E[e^{-tilt (sum of the others)}]
                let log_one = log(*count as f64 * decisive.q_lifted) - (tilt + 1.0) * decisive.loss;
                log_down = log_add(log_down, log_one + log_others - moment);
            }
        }
        // What the left ends of the laws leave out is missing under Q.
        let kept = (1.0 - missing).max(0.0) * (1.0 - 4.0 * Decisive::ERROR);
        let log_q = log_some_decisive(lattices) + log(kept);
        let slack = 4.0 * UNIT_ROUNDOFF * (1.0 + log_down.abs() + (tilt + 1.0) * loss.abs());
        DecisiveShare { p, log_q, log_down: log_down + slack + 1e-6, tilt, loss }
    }

    /// An upper bound on what they add at eps.
    fn at(&self, eps: f64) -> f64 {
        if self.p == 0.0 {
            return 0.0;
        }
        let down = exp(self.log_down + (1.0 + self.tilt) * eps) * (1.0 + 1e-9);
        let credit = exp(eps + self.log_q) * (1.0 - 1e-9);
        // Without any credit it is at most P; NaN is no credit.
        if down < credit { self.p - (credit - down) } else { self.p }
    }
}
