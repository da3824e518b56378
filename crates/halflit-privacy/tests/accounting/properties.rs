//! What must hold for every number that a caller may give.

use crate::{delta, epsilon, fixed_size, poisson, times};
use halflit_privacy::calibrate::{
    Budget, CalibrationError, Careful, continuous, noise_multiplier, sampling_rate, steps,
};
use halflit_privacy::{
    Change, Delta, Epsilon, Event, Interval, L1Sensitivity, L2Radius, L2Sensitivity, LaplaceScale, Mu,
    NoiseMultiplier, NoiseStd, Profile, Rho, RunCount, SamplingRate,
};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use std::num::NonZeroU64;

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![Just(Change::ZeroOut), Just(Change::Replace)]
}

/// Log-uniform numbers.
fn spread(low: f64, high: f64) -> impl Strategy<Value = f64> {
    (low.ln()..high.ln()).prop_map(f64::exp)
}

fn sampled() -> impl Strategy<Value = (f64, f64, u64, Change)> {
    (spread(1e-4, 1.0), spread(0.5, 20.0), spread(1.0, 3e3), change())
        .prop_map(|(rate, noise, steps, change)| (rate, noise, steps as u64, change))
}

fn is_sane(answer: Interval) -> bool {
    answer.lower >= 0.0 && answer.lower <= answer.upper && !answer.upper.is_nan()
}

/// Not decreasing, up to the width of the two answers' grids: the lower end of what costs less is at most the upper end of
/// what costs more.
fn not_above(less: Interval, more: Interval) -> bool {
    less.lower <= more.upper * (1.0 + 1e-9) && less.upper <= more.upper * 1.02 + 1e-12
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, rng_seed: RngSeed::Fixed(20), ..ProptestConfig::default() })]

    #[test]
    fn profiles_decrease((rate, noise, count, change) in sampled(), first in 0.0..3.0f64, more in 0.0..3.0f64) {
        let profile = Profile::of(&times(poisson(rate, noise, change), count)).unwrap();
        let (near, far) = (profile.delta(epsilon(first)), profile.delta(epsilon(first + more)));
        prop_assert!(is_sane(near) && is_sane(far) && near.upper <= 1.0);
        prop_assert!(not_above(far, near), "{near:?} {far:?}");
        let (small, large) = (profile.epsilon(delta(1e-8)), profile.epsilon(delta(1e-4)));
        prop_assert!(is_sane(small) && is_sane(large) && not_above(large, small), "{small:?} {large:?}");
    }

    #[test]
    fn cost_grows_with_rate_steps_and_less_noise((rate, noise, count, change) in sampled(), eps in 0.05..3.0f64) {
        let cost = |rate: f64, noise: f64, count: u64| {
            Profile::of(&times(poisson(rate, noise, change), count)).unwrap().delta(epsilon(eps))
        };
        let here = cost(rate, noise, count);
        prop_assert!(is_sane(here));
        for more in [cost((1.3 * rate).min(1.0), noise, count), cost(rate, noise / 1.3, count), cost(rate, noise, 2 * count)] {
            prop_assert!(not_above(here, more), "{here:?} {more:?}");
        }
    }

    #[test]
    fn epsilon_and_delta_are_inverse((rate, noise, count, change) in sampled(), d in spread(1e-10, 1e-3)) {
        let profile = Profile::of(&times(poisson(rate, noise, change), count)).unwrap();
        let eps = profile.epsilon(delta(d));
        prop_assert!(is_sane(eps));
        if eps.upper > 0.0 && eps.upper < 1e6 {
            let back = profile.delta(epsilon(eps.upper));
            prop_assert!(back.lower <= d, "{eps:?} {back:?} {d}");
            prop_assert!(back.upper >= 0.9 * d, "{eps:?} {back:?} {d}");
        }
    }

    #[test]
    fn fixed_size_subsets_behave(rate in spread(1e-3, 1.0), noise in spread(1.0, 20.0), count in 1..2000u64, eps in 0.0..2.0f64) {
        let at = |rate: f64, noise: f64, count: u64| Profile::of(&times(fixed_size(rate, noise), count)).unwrap().delta(epsilon(eps));
        let here = at(rate, noise, count);
        prop_assert!(is_sane(here));
        prop_assert!(not_above(here, at((1.5 * rate).min(1.0), noise, count)));
        prop_assert!(not_above(here, at(rate, noise / 1.5, count)));
        prop_assert!(not_above(here, at(rate, noise, count + 1)));
        // Never more than without sampling: mu = 2 sqrt(count)/noise.
        let plain = Event::Gdp { mu: Mu::new(2.0 * (count as f64).sqrt() / noise * (1.0 + 1e-12)).unwrap() };
        prop_assert!(not_above(here, Profile::of(&plain).unwrap().delta(epsilon(eps))));
    }

    /// Gaussians compose in closed form, however they are written down.
    #[test]
    fn gaussians_add_their_squares(mus in prop::collection::vec(0.01..2.0f64, 1..6), eps in 0.0..4.0f64) {
        let tree = Event::Composed(mus.iter().map(|mu| Event::Gdp { mu: Mu::new(*mu).unwrap() }).collect());
        let total = mus.iter().map(|mu| mu * mu).sum::<f64>().sqrt();
        let one = Profile::of(&Event::Gdp { mu: Mu::new(total).unwrap() }).unwrap();
        let (sum, whole) = (Profile::of(&tree).unwrap().delta(epsilon(eps)), one.delta(epsilon(eps)));
        prop_assert!((sum.upper / whole.upper - 1.0).abs() < 1e-9, "{sum:?} {whole:?}");
        prop_assert!(sum.upper - sum.lower <= 1e-9 * sum.upper);
    }

    /// Every calibration fits its own budget when priced again, and a little less care does not.
    #[test]
    fn calibration_ends_on_the_safe_side((rate, _, count, change) in sampled(), eps in spread(0.1, 8.0), d in spread(1e-9, 1e-4)) {
        let budget = Budget { epsilon: epsilon(eps), delta: delta(d) };
        let fits = |event: &Event| {
            let profile = Profile::of(event).unwrap();
            profile.epsilon(delta(d)).upper <= eps * (1.0 + 1e-9) && profile.delta(epsilon(eps)).upper <= d * (1.0 + 1e-9)
        };
        let plan = |noise: NoiseMultiplier| times(poisson(rate, noise.get(), change), count);
        let found = noise_multiplier(budget, plan).unwrap();
        prop_assert!(fits(&found.event) && found.epsilon.upper <= eps);
        if found.value.get() > 0.011 {
            let less = Profile::of(&plan(NoiseMultiplier::new(found.value.get() * 0.99).unwrap())).unwrap();
            prop_assert!(less.delta(epsilon(eps)).upper > d, "{}", found.value);
        }
    }

    #[test]
    fn steps_and_rates_are_calibrated_on_the_safe_side(noise in spread(0.8, 5.0), change in change(), eps in spread(0.5, 4.0)) {
        let budget = Budget { epsilon: epsilon(eps), delta: delta(1e-6) };
        let plan = |count: u64| times(poisson(0.01, noise, change), count);
        match steps(budget, plan) {
            Ok(found) => {
                prop_assert!(Profile::of(&plan(found.value)).unwrap().epsilon(delta(1e-6)).upper <= eps);
                let more = found.value + 1 + found.value / 100;
                prop_assert!(Profile::of(&plan(more)).unwrap().epsilon(delta(1e-6)).upper > eps, "{}", found.value);
            }
            Err(error) => {
                let nothing_fits = matches!(error, CalibrationError::NothingFits { .. });
                prop_assert!(nothing_fits);
                prop_assert!(Profile::of(&plan(1)).unwrap().epsilon(delta(1e-6)).upper > eps);
            }
        }
        let plan = |rate: SamplingRate| times(poisson(rate.get(), noise, change), 200);
        let found = sampling_rate(budget, plan).unwrap();
        prop_assert!(Profile::of(&found.event).unwrap().epsilon(delta(1e-6)).upper <= eps);
        if found.value.get() < 0.98 {
            let more = plan(SamplingRate::new(found.value.get() * 1.01).unwrap());
            prop_assert!(Profile::of(&more).unwrap().epsilon(delta(1e-6)).upper > eps, "{}", found.value);
        }
    }

    /// NaN, infinities and what lies outside its range are refused by every number.
    #[test]
    fn only_numbers_in_range_are_taken(x in any::<f64>()) {
        let ok = x.is_finite();
        prop_assert_eq!(Epsilon::new(x).is_ok(), ok && (0.0..=1e9).contains(&x));
        prop_assert_eq!(Delta::new(x).is_ok(), ok && (0.0..1.0).contains(&x));
        prop_assert_eq!(SamplingRate::new(x).is_ok(), ok && x > 1e-15 && x <= 1.0);
        prop_assert_eq!(NoiseMultiplier::new(x).is_ok(), ok && (0.01..=1e9).contains(&x));
        prop_assert_eq!(Mu::new(x).is_ok(), ok && (0.0..=1e6).contains(&x));
        prop_assert_eq!(Rho::new(x).is_ok(), ok && (0.0..=1e12).contains(&x));
        for positive in [L2Sensitivity::new(x).is_ok(), L1Sensitivity::new(x).is_ok(), L2Radius::new(x).is_ok(), NoiseStd::new(x).is_ok(), LaplaceScale::new(x).is_ok()] {
            prop_assert_eq!(positive, ok && x > 0.0 && x <= 1e300);
        }
        prop_assert!(RunCount::poisson(x).is_err() || (ok && x > 0.0));
        prop_assert!(RunCount::truncated_negative_binomial(x, 0.5).is_err() || (ok && x > -1.0));
        prop_assert!(RunCount::truncated_negative_binomial(1.0, x).is_err() || (ok && x > 0.0 && x < 1.0));
    }

    /// A group of m pays at least as much as one unit, and for Gaussians exactly mu m.
    #[test]
    fn groups_pay_more(units in 1..6u64, eps in 0.1..3.0f64, noise in 1.0..5.0f64) {
        let group = NonZeroU64::new(units).unwrap();
        let event = poisson(0.1, noise, Change::Replace);
        let one = Profile::of(&event).unwrap().delta(epsilon(eps));
        let many = Profile::of(&event).unwrap().for_groups_of(group).delta(epsilon(eps));
        prop_assert!(many.upper >= one.upper * (1.0 - 1e-9) && is_sane(many), "{one:?} {many:?}");
        let mu = |mu: f64| Profile::of(&Event::Gdp { mu: Mu::new(mu).unwrap() }).unwrap();
        let scaled = mu(units as f64 / noise).delta(epsilon(eps)).upper;
        let grouped = mu(1.0 / noise).for_groups_of(group).delta(epsilon(eps)).upper;
        prop_assert!((grouped / scaled - 1.0).abs() < 1e-9);
    }
}

/// A group conversion against the truth: replace changes two contributions at once under zero-out, so two zero-outs
/// must cover one replace for every rate.
#[test]
fn two_zero_outs_cover_one_replace() {
    let pair = NonZeroU64::new(2).unwrap();
    for (rate, noise) in [(0.05, 1.0), (0.3, 2.0), (1.0, 3.0)] {
        for eps in [0.2, 1.0, 2.0] {
            let replaced = Profile::of(&poisson(rate, noise, Change::Replace)).unwrap().delta(epsilon(eps));
            let grouped = Profile::of(&poisson(rate, noise, Change::ZeroOut))
                .unwrap()
                .for_groups_of(pair)
                .delta(epsilon(eps));
            assert!(
                replaced.lower <= grouped.upper * (1.0 + 1e-9),
                "{rate} {noise} {eps}: {replaced:?} {grouped:?}"
            );
        }
    }
}

/// Extreme but legal numbers: an answer, in time, with its ends in order. None of these may hang, panic or be NaN.
#[test]
fn extreme_numbers_get_an_answer() {
    let mut cases = vec![(0.5, 1e4, 1 << 40), (1e-6, 0.01, 1)];
    for rate in [1.1e-15, 1e-6, 0.5, 1.0f64.next_down()] {
        cases.extend([(rate, 0.3, 3), (rate, 1e9, 3)]);
    }
    for (rate, noise, count) in cases {
        let events = [
            poisson(rate, noise, Change::ZeroOut),
            poisson(rate, noise, Change::Replace),
            fixed_size(rate, noise),
        ];
        for event in events {
            let profile = Profile::of(&times(event, count)).unwrap();
            let answers = [profile.epsilon(delta(1e-6)), profile.delta(epsilon(1.0))];
            assert!(answers.into_iter().all(is_sane), "{rate} {noise} {count}: {answers:?}");
            assert!(
                answers[0].upper.is_finite() && answers[1].upper > 0.0,
                "{rate} {noise} {count}: {answers:?}"
            );
        }
    }
}

/// Budgets of zero: only what is bounded fits.
#[test]
fn a_delta_of_zero_admits_bounded_losses_only() {
    let budget = Budget { epsilon: epsilon(1.0), delta: delta(0.0) };
    let gaussian = noise_multiplier(budget, |noise| poisson(0.5, noise.get(), Change::Replace));
    assert!(matches!(gaussian, Err(CalibrationError::NothingFits { .. })));
    let pure = steps(budget, |count| times(Event::PureDp { epsilon: epsilon(0.125) }, count)).unwrap();
    assert!((7..=8).contains(&pure.value), "{}", pure.value);
}

/// A sensitivity so far above its noise that squares overflow: no privacy, but an answer.
#[test]
fn no_privacy_at_all_is_answered() {
    let event = Event::GaussianDiameter {
        sensitivity: L2Sensitivity::new(2e210).unwrap(),
        noise_std: NoiseStd::new(0.3).unwrap(),
    };
    for event in [event.clone(), Event::Composed(vec![event, poisson(0.1, 1.0, Change::ZeroOut)])] {
        let profile = Profile::of(&event).unwrap();
        assert_eq!(profile.epsilon(delta(1e-6)).upper, f64::INFINITY);
        assert_eq!(profile.delta(epsilon(1.0)).upper, 1.0);
    }
}

/// Very little noise lies near the end of the range that is searched: it is found there, too.
#[test]
fn noise_for_generous_budgets_is_as_small_as_it_can_be() {
    let sensitivity = L2Sensitivity::new(1.0).unwrap();
    let build = |std: f64| {
        let noise_std = NoiseStd::new(std)?;
        Ok((std, Event::GaussianDiameter { sensitivity, noise_std }))
    };
    for epsilon in [0.1, 1.0, 30.0, 600.0, 860.0, 1000.0, 1500.0, 1900.0, 2500.0] {
        let budget = Budget { epsilon: Epsilon::new(epsilon).unwrap(), delta: Delta::new(1e-6).unwrap() };
        let found = continuous("noise", budget, Careful::Large, (0.01, 1e9), build).unwrap();
        assert!(
            found.epsilon.upper <= epsilon && found.epsilon.upper > 0.9999 * epsilon,
            "{epsilon}: {found:?}"
        );
    }
}
