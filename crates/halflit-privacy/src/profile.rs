//! The privacy profile of an event tree: delta as a function of epsilon, epsilon as a function of delta.
//!
//! Every answer is an interval. Its upper end is what may be claimed; its lower end is proved by an explicit test that
//! tells two tables apart, so the two together show how much the accounting itself gives away.

use crate::closed_form::{
    CLOSED_FORM_ERROR, gaussian_delta, gaussian_epsilon, largest_epsilon, smallest_epsilon, zcdp_delta,
};
use crate::composition::{Composition, Parts, add_up, alternatives, below, times_up};
use crate::error::AccountingError;
use crate::event::Event;
use crate::number::{Delta, Epsilon, Interval};
use crate::pld::{Composer, Direction, Pair};
use crate::renyi::RenyiCurve;
use libm::{expm1, log1p};
use serde::{Deserialize, Serialize};
use std::num::NonZeroU64;
use std::rc::Rc;

/// What a tree of events costs at every epsilon and every delta, in both directions of the relation.
pub struct Profile {
    alternatives: Vec<Composition>,
    composer: Rc<Composer>,
    /// How many units change at once.
    group: u64,
}

/// One point of a profile, as stored in certificates.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfilePoint {
    /// The epsilon.
    pub epsilon: f64,
    /// delta at that epsilon.
    pub delta: Interval,
}

const NOTHING: Interval = Interval { lower: 0.0, upper: 0.0 };

impl Profile {
    /// The profile of an event tree.
    pub fn of(event: &Event) -> Result<Self, AccountingError> {
        Profile::with_composer(event, Rc::default())
    }

    /// The same, sharing the transforms that were planned for other profiles.
    pub(crate) fn with_composer(event: &Event, composer: Rc<Composer>) -> Result<Self, AccountingError> {
        Ok(Profile { alternatives: alternatives(event)?, composer, group: 1 })
    }

    /// The profile against changes of up to `units` units at once, such as all rows of a user with at most that many.
    ///
    /// For a profile: delta_m(m eps) <= delta(eps) (e^{m eps} - 1)/(e^eps - 1). Gaussians alone: mu m, exactly. The
    /// lower end stays that of a single unit.
    pub fn for_groups_of(mut self, units: NonZeroU64) -> Self {
        self.group = self.group.saturating_mul(units.get());
        self
    }

    /// delta at this epsilon.
    pub fn delta(&self, epsilon: Epsilon) -> Interval {
        let eps = epsilon.get();
        if self.group > 1 {
            return self.group_delta(eps);
        }
        self.worst(|view| view.delta(eps))
    }

    /// The smallest epsilon at which delta is at most the given one; infinite if there is none.
    pub fn epsilon(&self, delta: Delta) -> Interval {
        let delta = delta.get();
        if self.group > 1 {
            return self.group_epsilon(delta);
        }
        self.worst(|view| view.epsilon(delta))
    }

    /// The upper end of delta alone, which takes less than half the time; `forward_only` leaves one direction out and is
    /// then no bound, only a good guess.
    pub(crate) fn delta_upper(&self, epsilon: Epsilon, forward_only: bool) -> f64 {
        self.views().map(|view| view.delta_upper(epsilon.get(), forward_only)).fold(0.0, f64::max)
    }

    /// A rough log delta, for starting values.
    pub(crate) fn approximate_log_delta(&self, epsilon: Epsilon) -> f64 {
        self.views().map(|view| view.approximate_log_delta(epsilon.get())).fold(f64::NEG_INFINITY, f64::max)
    }

    /// The profile at `count` equally spaced epsilons, from zero to where delta has fallen to 1e-12.
    pub fn points(&self, count: usize) -> Vec<ProfilePoint> {
        let smallest = Delta::new(1e-12).expect("a delta");
        let far = self.epsilon(smallest).upper;
        let far = if far.is_finite() { far.min(1e9) } else { 1.0 };
        let last = count.saturating_sub(1).max(1) as f64;
        let point = |j: usize| {
            let epsilon = far * (j as f64 / last);
            let checked = Epsilon::new(epsilon).expect("between zero and a finite epsilon");
            ProfilePoint { epsilon, delta: self.delta(checked) }
        };
        (0..count).map(point).collect()
    }

    /// The mu of Gaussian differential privacy, if the whole tree is Gaussian.
    pub fn gdp_mu(&self) -> Option<f64> {
        self.largest(|composition| {
            let only = composition.upper.pairs.is_empty()
                && composition.rho == 0.0
                && composition.selected.is_none();
            only.then(|| composition.upper.mu() * self.group as f64)
        })
    }

    /// The rho of zero-concentrated differential privacy, if the tree is made of Gaussian, pure and zero-concentrated
    /// events: mu^2/2, eps^2/2 and rho add up; a group of m pays m^2 times.
    pub fn zcdp_rho(&self) -> Option<f64> {
        self.largest(|composition| {
            let mut rho = 0.5 * composition.upper.mu_squared + composition.rho;
            for (pair, count) in &composition.upper.pairs {
                match pair {
                    Pair::RandomizedResponse { eps, delta } if *delta == 0.0 => {
                        rho += *count as f64 * 0.5 * eps * eps
                    }
                    Pair::Laplace(ratio) => rho += *count as f64 * 0.5 * ratio * ratio,
                    _ => return None,
                }
            }
            let group = self.group as f64;
            composition.selected.is_none().then_some(rho * group * group * (1.0 + 1e-14))
        })
    }

    fn largest(&self, cost: impl Fn(&Composition) -> Option<f64>) -> Option<f64> {
        self.alternatives.iter().map(cost).try_fold(0.0, |largest: f64, cost| Some(largest.max(cost?)))
    }

    fn worst(&self, answer: impl Fn(View) -> Interval) -> Interval {
        self.views().map(answer).fold(NOTHING, Interval::max)
    }

    fn views(&self) -> impl Iterator<Item = View<'_>> {
        self.alternatives.iter().map(|composition| View { composition, composer: &self.composer })
    }

    fn group_delta(&self, eps: f64) -> Interval {
        if let Some(mu) = self.gdp_mu() {
            let mu = mu.next_up();
            return Interval::new(gaussian_delta(below(mu), eps).lower, gaussian_delta(mu, eps).upper);
        }
        let upper = self.group_delta_upper(eps);
        let lower = self.worst(|view| view.delta(eps)).lower;
        Interval::new(lower.min(upper), upper)
    }

    /// The upper end alone, for groups of anything but Gaussians.
    fn group_delta_upper(&self, eps: f64) -> f64 {
        // Not above eps/m: a smaller epsilon has a larger delta.
        let each = (eps / self.group as f64).next_down().max(0.0);
        let single = self.views().map(|view| view.delta_upper(each, false)).fold(0.0, f64::max);
        // (e^{m e} - 1)/(e^e - 1), which is m at zero.
        let factor = if each > 0.0 { expm1(eps) / expm1(each) } else { self.group as f64 };
        let upper = if single == 0.0 { 0.0 } else { (single * factor * (1.0 + 1e-14)).min(1.0) };
        // rho m^2, where there is a rho.
        self.zcdp_rho().map_or(upper, |rho| upper.min(zcdp_delta(rho, eps)))
    }

    fn group_epsilon(&self, delta: f64) -> Interval {
        if let Some(mu) = self.gdp_mu() {
            let mu = mu.next_up();
            return Interval::new(
                gaussian_epsilon(below(mu), delta).lower,
                gaussian_epsilon(mu, delta).upper,
            );
        }
        let lower = self.worst(|view| view.epsilon(delta)).lower;
        // The bound need not decrease everywhere; any epsilon at which it is small enough is a valid answer.
        let upper = coarse_smallest(|eps| self.group_delta_upper(eps) <= delta);
        Interval::new(lower, upper)
    }
}

/// Below this an epsilon is not sought any closer. Halving would go on for as long as there are doubles where any positive
/// epsilon is enough but zero is not.
const SMALLEST_SOUGHT: f64 = 1e-15;

/// Like `smallest_epsilon` but to one part in a million: each question is expensive.
fn coarse_smallest(holds: impl Fn(f64) -> bool) -> f64 {
    if holds(0.0) {
        return 0.0;
    }
    let (mut low, mut high) = (0.0, 1.0);
    while !holds(high) {
        low = high;
        high *= 2.0;
        if high > 1e9 {
            return f64::INFINITY;
        }
    }
    while high - low > 1e-6 * high && high > SMALLEST_SOUGHT {
        let middle = 0.5 * (low + high);
        if holds(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    high
}

/// One composition with the means to price it.
struct View<'a> {
    composition: &'a Composition,
    composer: &'a Composer,
}

impl View<'_> {
    fn delta(&self, eps: f64) -> Interval {
        let composition = self.composition;
        if composition.rho == 0.0 && composition.selected.is_none() {
            return self.parts_delta(&composition.upper, composition.upper.mu(), eps);
        }
        let upper = self.renyi_delta(&self.renyi_total(), eps);
        let numeric = self.directions(&composition.upper_pairs(), |pairs, direction, other| {
            Interval::new(0.0, self.composer.delta_upper(pairs, direction, eps, other.upper).0)
        });
        let lower = self.parts_delta(&composition.lower, composition.lower.mu_below(), eps).lower;
        Interval::new(lower, upper.min(numeric.upper))
    }

    fn epsilon(&self, delta: f64) -> Interval {
        let composition = self.composition;
        if composition.rho == 0.0 && composition.selected.is_none() {
            return self.parts_epsilon(&composition.upper, composition.upper.mu(), delta);
        }
        let renyi = self.renyi_total();
        let upper = smallest_epsilon(1.0, |eps| self.renyi_delta(&renyi, eps) <= delta);
        let numeric = self.directions(&composition.upper_pairs(), |pairs, direction, other| {
            Interval::new(0.0, self.composer.epsilon_upper(pairs, direction, delta, other.upper))
        });
        let lower = self.parts_epsilon(&composition.lower, composition.lower.mu_below(), delta).lower;
        Interval::new(lower, upper.min(numeric.upper))
    }

    fn delta_upper(&self, eps: f64, forward_only: bool) -> f64 {
        let composition = self.composition;
        let pairs = composition.upper.with_gaussian(composition.upper.mu());
        if composition.rho > 0.0 || composition.selected.is_some() || is_closed_form(&pairs) {
            return self.delta(eps).upper;
        }
        let upper = |pairs: &[(Pair, u64)], direction: Direction, other: Interval| match bounded_loss(
            pairs, direction,
        ) {
            Some(largest) if eps >= largest => revealed(pairs),
            _ => {
                let (delta, is_rough) = self.composer.delta_upper(pairs, direction, eps, other.upper);
                let renyi = || composition.upper.renyi(composition.upper.mu()).delta_at(eps);
                Interval::new(0.0, if is_rough { delta.min(renyi()) } else { delta })
            }
        };
        if forward_only {
            return upper(&pairs, Direction::Forward, NOTHING).upper;
        }
        self.directions(&pairs, upper).upper
    }

    fn approximate_log_delta(&self, eps: f64) -> f64 {
        let composition = self.composition;
        let pairs = composition.upper.with_gaussian(composition.upper.mu());
        if composition.rho > 0.0 || composition.selected.is_some() || is_closed_form(&pairs) {
            return libm::log(self.delta(eps).upper.max(f64::MIN_POSITIVE));
        }
        self.composer.approximate_log_delta(&pairs, Direction::Forward, eps)
    }

    /// Everything in Renyi terms; `None` if zero-concentrated events alone have a closed form.
    fn renyi_total(&self) -> Option<RenyiCurve> {
        let composition = self.composition;
        let is_closed = composition.selected.is_none() && composition.upper.pairs.is_empty();
        (!is_closed).then(|| composition.renyi_total())
    }

    /// The bound by Renyi terms alone.
    fn renyi_delta(&self, total: &Option<RenyiCurve>, eps: f64) -> f64 {
        match total {
            Some(curve) => curve.delta_at(eps),
            None => {
                let rho = add_up(self.composition.rho, 0.5 * self.composition.upper.mu_squared);
                zcdp_delta(rho, eps)
            }
        }
    }

    /// Where the numbers leave a wide gap (rates and noises far from anything in use), the Renyi bound may be better.
    fn parts_delta(&self, parts: &Parts, mu: f64, eps: f64) -> Interval {
        let answer = self.numeric_delta(parts, mu, eps);
        if !is_wide(answer) {
            return answer;
        }
        let upper = parts.renyi(mu).delta_at(eps);
        Interval::new(answer.lower.max(single_delta(parts, mu, eps)), answer.upper.min(upper))
    }

    fn numeric_delta(&self, parts: &Parts, mu: f64, eps: f64) -> Interval {
        match parts.pairs.as_slice() {
            [] => Interval::new(gaussian_delta(below(mu), eps).lower, gaussian_delta(mu, eps).upper),
            [(pair, 1)] if mu == 0.0 => pair.delta_bounds(eps),
            _ => self.directions(&parts.with_gaussian(mu), |pairs, direction, other| {
                match bounded_loss(pairs, direction) {
                    Some(largest) if eps >= largest => revealed(pairs),
                    _ => self.composer.delta(pairs, direction, eps, other.enough()),
                }
            }),
        }
    }

    fn parts_epsilon(&self, parts: &Parts, mu: f64, delta: f64) -> Interval {
        let answer = self.numeric_epsilon(parts, mu, delta);
        if !is_wide(answer) {
            return answer;
        }
        // A grid laid around a positive epsilon may miss that zero is enough.
        if self.parts_delta(parts, mu, 0.0).upper <= delta {
            return NOTHING;
        }
        let renyi = parts.renyi(mu);
        let upper = smallest_epsilon(1.0, |eps| renyi.delta_at(eps) <= delta);
        let lower = largest_epsilon(1.0, |eps| single_delta(parts, mu, eps) > delta);
        Interval::new(answer.lower.max(lower), answer.upper.min(upper))
    }

    fn numeric_epsilon(&self, parts: &Parts, mu: f64, delta: f64) -> Interval {
        match parts.pairs.as_slice() {
            [] => Interval::new(gaussian_epsilon(below(mu), delta).lower, gaussian_epsilon(mu, delta).upper),
            [(pair, 1)] if mu == 0.0 => single_epsilon(pair, delta),
            _ => self.directions(&parts.with_gaussian(mu), |pairs, direction, other| {
                // Total variation adds up: below delta there is nothing to solve.
                let variation: f64 =
                    pairs.iter().map(|(pair, count)| *count as f64 * pair.delta_bounds(0.0).upper).sum();
                if variation * (1.0 + CLOSED_FORM_ERROR) <= delta {
                    return NOTHING;
                }
                let revealed = revealed(pairs);
                let bounded = bounded_loss(pairs, direction);
                if delta < revealed.lower || (delta == 0.0 && bounded.is_none()) {
                    return Interval { lower: f64::INFINITY, upper: f64::INFINITY };
                }
                let largest = match bounded {
                    // Rounded up already: a sum of pure epsilons is claimed as it is.
                    Some(largest) if delta == 0.0 => {
                        return Interval::new(largest * (1.0 - CLOSED_FORM_ERROR), largest);
                    }
                    // No epsilon beyond the largest loss.
                    Some(largest) if delta >= revealed.upper => largest * (1.0 + CLOSED_FORM_ERROR),
                    _ => f64::INFINITY,
                };
                if largest <= other.lower {
                    return NOTHING;
                }
                let answer = self.composer.epsilon(pairs, direction, delta, other.enough());
                Interval::new(answer.lower, answer.upper.min(largest))
            }),
        }
    }

    /// The larger of both directions; one if they agree. The second is told the first one's answer.
    fn directions(
        &self,
        pairs: &[(Pair, u64)],
        answer: impl Fn(&[(Pair, u64)], Direction, Interval) -> Interval,
    ) -> Interval {
        let forward = answer(pairs, Direction::Forward, NOTHING);
        if pairs.iter().all(|(pair, _)| pair.is_symmetric()) {
            return forward;
        }
        forward.max(answer(pairs, Direction::Reversed, forward))
    }
}

/// Whether an interval says so little that another bound is worth its time.
fn is_wide(answer: Interval) -> bool {
    answer.upper > 1.1 * answer.lower && answer.upper > 1e-12
}

/// One Gaussian or one single release.
fn is_closed_form(pairs: &[(Pair, u64)]) -> bool {
    matches!(pairs, [] | [(_, 1)])
}

/// The largest total loss, where every part is bounded; rounded up, because from there on delta is what is revealed.
fn bounded_loss(pairs: &[(Pair, u64)], direction: Direction) -> Option<f64> {
    let part = |(pair, count): &(Pair, u64)| times_up(*count, pair.largest_loss(direction));
    let total = pairs.iter().map(part).fold(0.0, add_up);
    total.is_finite().then_some(total)
}

/// The probability that some release reveals everything.
fn revealed(pairs: &[(Pair, u64)]) -> Interval {
    let log_hidden = |(pair, count): &(Pair, u64)| match pair {
        Pair::RandomizedResponse { delta, .. } => *count as f64 * log1p(-delta),
        _ => 0.0,
    };
    Interval::around(-expm1(pairs.iter().map(log_hidden).sum()), CLOSED_FORM_ERROR)
}

/// The largest delta of any one of the releases: all of them together cost at least as much.
fn single_delta(parts: &Parts, mu: f64, eps: f64) -> f64 {
    let pairs = parts.pairs.iter().map(|(pair, _)| pair.delta_bounds(eps).lower);
    pairs.fold(gaussian_delta(below(mu), eps).lower, f64::max)
}

/// epsilon of one release, by its closed form.
fn single_epsilon(pair: &Pair, delta: f64) -> Interval {
    let is_enough = |eps: f64| pair.delta_bounds(eps).upper <= delta;
    let upper = smallest_epsilon(1.0, is_enough);
    // A search stops a few ulps behind a bounded loss: the loss itself is the end.
    let largest = pair.largest_loss(Direction::Forward).max(pair.largest_loss(Direction::Reversed));
    let upper = if largest < upper && is_enough(largest) { largest } else { upper };
    let lower = largest_epsilon(1.0, |eps| pair.delta_bounds(eps).lower > delta);
    Interval::new(lower, upper)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against m units a release of epsilon e may cost m e. In doubles eps/m rounds up to e for some eps below m e, where
    /// delta is tiny but not zero: priced at eps/m as rounded, it would be zero.
    #[test]
    fn a_group_is_not_priced_above_its_share_of_epsilon() {
        for (units, each, eps) in [(3, 0.01, 0.03), (5, 0.05, 0.25), (7, 0.29, 2.03)] {
            let group = NonZeroU64::new(units).unwrap();
            let m = units as f64;
            assert!(m.mul_add(each, -eps) > 0.0 && eps / m >= each, "no trap: {units} {each} {eps}");
            let event = Event::PureDp { epsilon: Epsilon::new(each).unwrap() };
            let profile = Profile::of(&event).unwrap().for_groups_of(group);
            let delta = profile.delta(Epsilon::new(eps).unwrap()).upper;
            // Some mechanism has (e^{m e} - e^eps)/(1 + e^{m e}).
            let truth = m.mul_add(each, -eps) / (1.0 + libm::exp(-eps));
            assert!(truth <= delta && delta < 1e-12, "{units} {each} {eps}: {delta}");
        }
    }

    /// Pure releases cost what they say, to the last bit, alone and added up; Gaussian ones have no price at delta = 0.
    #[test]
    fn at_delta_zero_pure_releases_cost_what_they_say() {
        let pure = |epsilon: f64| Event::PureDp { epsilon: Epsilon::new(epsilon).unwrap() };
        let upper = |event: &Event| Profile::of(event).unwrap().epsilon(Delta::new(0.0).unwrap()).upper;
        for epsilon in [1e-6, 0.1, 0.5, 1.0, 4.0, 200.0] {
            assert_eq!(upper(&pure(epsilon)), epsilon);
            let scale = crate::number::LaplaceScale::new(2.0 / epsilon).unwrap();
            let sensitivity = crate::number::L1Sensitivity::new(2.0).unwrap();
            let laplace = upper(&Event::Laplace { sensitivity, scale });
            assert!(laplace >= epsilon * (1.0 - 1e-15) && laplace <= epsilon * (1.0 + 1e-15), "{laplace}");
        }
        assert_eq!(upper(&Event::Composed(vec![pure(0.25), pure(0.5)])), 0.75);
        assert_eq!(upper(&Event::Composed(vec![pure(0.3), pure(0.7)])), 1.0);
        let gaussian = Event::Gdp { mu: crate::number::Mu::new(1e-3).unwrap() };
        assert_eq!(upper(&gaussian), f64::INFINITY);
        assert_eq!(upper(&Event::Composed(vec![gaussian, pure(1.0)])), f64::INFINITY);
    }

    /// Bisection between zero and the smallest double would never end.
    #[test]
    fn a_search_for_epsilon_ends_where_all_but_zero_are_enough() {
        let found = coarse_smallest(|eps| eps > 0.0);
        assert!(found > 0.0 && found <= SMALLEST_SOUGHT, "{found}");
    }
}
