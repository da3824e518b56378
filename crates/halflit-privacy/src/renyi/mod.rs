//! Renyi bounds: the native composition of zero-concentrated and repeat-and-select events, and an accountant to compare with.
//!
//! A curve holds an upper bound on the Renyi divergence, in both directions, at each of a fixed list of orders; infinite
//! where none is known. Curves add under composition and take the larger value under parallel composition, also when
//! each release is chosen after seeing the earlier ones (Mironov 2017).

mod moments;
mod selection;

use crate::closed_form::{renyi_log_delta, smallest_epsilon};
use crate::event::{Event, Price};
use crate::number::{Delta, Epsilon};
use crate::pld::{Mixture, Pair};
use libm::{exp, expm1, log1p};
use moments::{fixed_size_renyi, mixture_renyi};

/// Orders per factor of ten of (order - 1).
const ORDERS_PER_DECADE: i32 = 24;
/// Smallest and largest power of ten of (order - 1), in steps of the above.
const ORDER_STEPS: std::ops::RangeInclusive<i32> = -48..=96;

/// The orders at which every curve is known.
fn orders() -> impl Iterator<Item = f64> {
    ORDER_STEPS.map(|step| 1.0 + libm::exp10(f64::from(step) / f64::from(ORDERS_PER_DECADE)))
}

/// Upper bounds on the Renyi divergence of an event, order by order.
#[derive(Debug, Clone, PartialEq)]
pub struct RenyiCurve {
    bounds: Vec<f64>,
}

impl RenyiCurve {
    /// The curve of an event.
    pub fn of(event: &Event) -> Self {
        if let Some(price) = Price::of(event) {
            return match price {
                Price::Gaussian(mu) => RenyiCurve::gaussian(mu),
                Price::Zcdp(rho) => RenyiCurve::from_bounds(|order| order * rho),
                Price::Pair(pair) => RenyiCurve::of_pair(&pair),
            };
        }
        match event {
            Event::Composed(events) => events
                .iter()
                .map(RenyiCurve::of)
                .fold(RenyiCurve::zero(), |total, curve| total.plus(&curve, 1)),
            Event::Repeated { event, count } => RenyiCurve::zero().plus(&RenyiCurve::of(event), count.get()),
            Event::Parallel(events) => events
                .iter()
                .map(RenyiCurve::of)
                .fold(RenyiCurve::zero(), |largest, curve| largest.max(&curve)),
            Event::RepeatAndSelect { event, runs } => selection::select(&RenyiCurve::of(event), runs),
            // A leaf without a price cannot exist: Price::of matches every kind.
            _ => RenyiCurve::from_bounds(|_| f64::INFINITY),
        }
    }

    /// The curve of a dominating pair.
    pub(crate) fn of_pair(pair: &Pair) -> Self {
        match pair {
            Pair::Mixture(mixture) if mixture.rate == 1.0 => RenyiCurve::gaussian(unsampled_shift(mixture)),
            Pair::Mixture(mixture) => RenyiCurve::from_bounds(|order| mixture_renyi(mixture, order)),
            Pair::FixedSize(mixture) => RenyiCurve::from_bounds(|order| fixed_size_renyi(mixture, order)),
            Pair::Laplace(ratio) => RenyiCurve::from_bounds(|order| laplace_renyi(*ratio, order)),
            Pair::RandomizedResponse { eps, delta } if *delta == 0.0 => {
                RenyiCurve::from_bounds(|order| randomized_response_renyi(*eps, order))
            }
            Pair::RandomizedResponse { .. } => RenyiCurve::from_bounds(|_| f64::INFINITY),
            Pair::Curve(curve) => curve.renyi().clone(),
        }
    }

    /// A Gaussian with mean difference mu: order mu^2/2.
    pub(crate) fn gaussian(mu: f64) -> Self {
        RenyiCurve::from_bounds(|order| 0.5 * order * mu * mu)
    }

    /// Nothing happened.
    pub(crate) fn zero() -> Self {
        RenyiCurve::from_bounds(|_| 0.0)
    }

    /// Every bound is rounded up by a few ulps.
    pub(crate) fn from_bounds(bound: impl Fn(f64) -> f64) -> Self {
        RenyiCurve { bounds: orders().map(|order| bound(order) * (1.0 + 8.0 * f64::EPSILON)).collect() }
    }

    /// This and `count` times the other; nothing adds nothing, also where the other has no bound.
    pub(crate) fn plus(&self, other: &RenyiCurve, count: u64) -> Self {
        let count = count as f64;
        self.zip(other, |a, b| (a + count * b) * (1.0 + 2.0 * f64::EPSILON))
    }

    /// The larger bound at every order.
    pub(crate) fn max(&self, other: &RenyiCurve) -> Self {
        self.zip(other, f64::max)
    }

    fn zip(&self, other: &RenyiCurve, combine: impl Fn(f64, f64) -> f64) -> Self {
        RenyiCurve { bounds: self.bounds.iter().zip(&other.bounds).map(|(a, b)| combine(*a, *b)).collect() }
    }

    /// (order, bound) where a bound is known.
    pub fn points(&self) -> impl Iterator<Item = (f64, f64)> {
        self.all_points().filter(|(_, bound)| bound.is_finite())
    }

    /// (order, bound) at every order, infinite where no bound is known.
    pub(crate) fn all_points(&self) -> impl Iterator<Item = (f64, f64)> {
        orders().zip(self.bounds.iter().copied())
    }

    /// The bound at the order in this place of the list.
    pub(crate) fn at(&self, place: usize) -> f64 {
        self.bounds[place]
    }

    /// An upper bound on delta(eps).
    pub fn delta(&self, epsilon: Epsilon) -> f64 {
        self.delta_at(epsilon.get())
    }

    pub(crate) fn delta_at(&self, eps: f64) -> f64 {
        // Nothing at any order means nothing happened.
        if self.bounds.iter().all(|bound| *bound == 0.0) {
            return 0.0;
        }
        let best = self.points().map(|(order, bound)| renyi_log_delta(order, bound, eps)).fold(0.0, f64::min);
        // An underflow is not a guarantee.
        (exp(best) * (1.0 + 4.0 * f64::EPSILON)).clamp(f64::MIN_POSITIVE, 1.0)
    }

    /// An upper bound on the smallest eps with delta(eps) <= delta; infinite if none is known.
    pub fn epsilon(&self, delta: Delta) -> f64 {
        let delta = delta.get();
        smallest_epsilon(1.0, |eps| self.delta_at(eps) <= delta)
    }
}

/// How far apart the two normals of an unsampled mixture are.
fn unsampled_shift(mixture: &Mixture) -> f64 {
    if mixture.two_sided { 2.0 * mixture.shift } else { mixture.shift }
}

/// Laplace: log[ a/(2a-1) e^{(a-1) ratio} + (a-1)/(2a-1) e^{-a ratio} ]/(a-1) (Mironov 2017, Proposition 6).
fn laplace_renyi(ratio: f64, order: f64) -> f64 {
    // log of the bracket over e^{(a-1) ratio}: log(1 + (a-1)/(2a-1) (e^{-(2a-1) ratio} - 1))
    let weight = (order - 1.0) / (2.0 * order - 1.0);
    ratio + log1p(weight * expm1(-(2.0 * order - 1.0) * ratio)) / (order - 1.0)
}

/// Randomized response: log[ (e^{a eps} + e^{(1-a) eps})/(1 + e^eps) ]/(a-1).
fn randomized_response_renyi(eps: f64, order: f64) -> f64 {
    // e^{(a-1) eps} (1 + e^{(1-2a) eps})/(1 + e^{-eps})
    let log_ratio = log1p(exp((1.0 - 2.0 * order) * eps)) - log1p(exp(-eps));
    // Both terms nearly cancel for small eps; the Gaussian-like bound a eps^2/2 is then tighter than round-off.
    let direct = eps + (log_ratio + 4.0 * f64::EPSILON) / (order - 1.0);
    direct.min(0.5 * order * eps * eps).max(0.0)
}

/// log(x) for a sum of exponentials: log(e^a + e^b).
pub(crate) fn log_add(a: f64, b: f64) -> f64 {
    let (small, large) = if a < b { (a, b) } else { (b, a) };
    if small == f64::NEG_INFINITY { large } else { large + log1p(exp(small - large)) }
}

#[cfg(test)]
mod tests;
