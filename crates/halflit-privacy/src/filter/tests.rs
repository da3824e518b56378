use super::*;

#[test]
fn the_gdp_filter_stops_before_its_cap_and_not_early() {
    let mut filter = GdpFilter::new(Mu::new(1.0).unwrap());
    let each = Mu::new(0.1).unwrap();
    let spent = (0..200).take_while(|_| filter.spend(each).is_ok()).count();
    // 0.1^2 * 100 = 1 in real numbers; rounding may cost the last one.
    assert!((99..=100).contains(&spent), "{spent}");
    let before = filter.clone();
    let error = filter.spend(Mu::new(0.5).unwrap()).unwrap_err();
    assert_eq!(filter, before, "a refused release spends nothing");
    assert_eq!(error.measure, "squared mu");
    assert!(filter.spend(Mu::new(0.0).unwrap()).is_ok());
    assert!(filter.left() < 0.11);
}

#[test]
fn the_zcdp_filter_adds_rho() {
    let mut filter = ZcdpFilter::new(Rho::new(1.0).unwrap());
    assert!(filter.spend(Rho::new(0.75).unwrap()).is_ok());
    assert!(filter.spend(Rho::new(0.5).unwrap()).is_err());
    assert!(filter.spend(Rho::new(0.25 - 1e-12).unwrap()).is_ok());
    assert!(filter.left() >= 0.0);
}

#[test]
fn what_is_left_can_be_spent() {
    let mut filter = GdpFilter::new(Mu::new(2.0).unwrap());
    filter.spend(Mu::new(1.3).unwrap()).unwrap();
    filter.spend(Mu::new(filter.left()).unwrap()).unwrap();
}

#[test]
fn an_empty_filter_lets_nothing_pass() {
    let mut filter = GdpFilter::new(Mu::new(0.0).unwrap());
    assert!(filter.spend(Mu::new(1e-6).unwrap()).is_err());
    assert!(filter.spend(Mu::new(0.0).unwrap()).is_ok());
}

mod under_a_cap {
    use super::super::*;
    use crate::calibrate::Budget;
    use crate::closed_form::gaussian_delta;
    use crate::{
        AccountingError, Change, Delta, Epsilon, Event, L1Sensitivity, LaplaceScale, Mu, NoiseMultiplier,
        Profile, Rho, RunCount, SamplingRate,
    };

    fn cap(epsilon: f64, delta: f64) -> Budget {
        Budget { epsilon: Epsilon::new(epsilon).unwrap(), delta: Delta::new(delta).unwrap() }
    }

    fn gaussian(mu: f64) -> Event {
        Event::Gdp { mu: Mu::new(mu).unwrap() }
    }

    fn pure(epsilon: f64) -> Event {
        Event::PureDp { epsilon: Epsilon::new(epsilon).unwrap() }
    }

    fn sampled(rate: f64, noise: f64, steps: u64, change: Change) -> Event {
        let step = Event::PoissonGaussian {
            rate: SamplingRate::new(rate).unwrap(),
            noise_multiplier: NoiseMultiplier::new(noise).unwrap(),
            change,
        };
        step.repeated(steps).unwrap()
    }

    /// As many copies of the event as the cap admits one after the other.
    fn admitted(cap: Budget, event: &Event, most: usize) -> usize {
        let mut charges = Vec::new();
        while charges.len() < most && fits(cap, &charges, event).is_ok() {
            charges.push(event.clone());
        }
        charges.len()
    }

    /// Without a delta only pure releases fit, their epsilons add up to the last bit, and nothing is no number.
    #[test]
    fn a_cap_without_delta_adds_up_pure_releases_and_refuses_the_others() {
        let cap = cap(1.0, 0.0);
        assert_eq!(admitted(cap, &pure(0.25), 10), 4);
        assert_eq!(admitted(cap, &pure(1.0), 10), 1);
        let laplace = Event::Laplace {
            sensitivity: L1Sensitivity::new(2.0).unwrap(),
            // Just below one half, which a quotient rounded up would exceed.
            scale: LaplaceScale::new(4.0f64.next_up().next_up()).unwrap(),
        };
        assert_eq!(admitted(cap, &laplace, 10), 2);
        assert!(fits(cap, &[pure(0.3)], &pure(0.7)).is_ok());
        assert!(fits(cap, &[pure(0.3)], &pure(0.7001)).is_err());
        for event in [
            gaussian(1e-6),
            sampled(1e-3, 100.0, 1, Change::Replace),
            Event::Zcdp { rho: Rho::new(1e-9).unwrap() },
        ] {
            for charges in [vec![], vec![pure(0.3)]] {
                let refused = fits(cap, &charges, &event).unwrap_err();
                let CapError::Exceeded { gaussian_left, .. } = refused else { panic!("{refused}") };
                assert_eq!(gaussian_left, 0.0);
            }
            // A history that was never admitted leaves nothing either.
            let room = Room::new(cap, std::slice::from_ref(&event)).unwrap();
            assert_eq!(room.pure_left(), 0.0);
            assert!(room.admit(&pure(0.1)).is_err());
        }
        let charges = [pure(0.3), laplace];
        let left = Room::new(cap, &charges).unwrap().pure_left();
        assert!((left - 0.2).abs() < 1e-14, "{left}");
        assert!(fits(cap, &charges, &pure(left)).is_ok());
    }

    #[test]
    fn gaussians_use_the_cap_almost_up_and_never_more() {
        for (eps, delta) in [(0.1, 1e-6), (1.0, 1e-6), (8.0, 1e-9)] {
            let cap = cap(eps, delta);
            let whole = Room::new(cap, &[]).unwrap().gaussian_left();
            assert!(gaussian_delta(whole, eps).upper <= delta);
            assert!(gaussian_delta(whole * 1.000_001, eps).lower > delta);
            let each = gaussian(whole / 10.0);
            let count = admitted(cap, &each, 200);
            let total = Profile::of(&each.clone().repeated(count as u64).unwrap()).unwrap();
            assert!(total.delta(cap.epsilon).upper <= delta);
            // A hundred fill the cap exactly; an eighth of delta is kept back for other kinds of release.
            assert!((95..100).contains(&count), "{eps} {delta}: {count}");
            let rule = fits(cap, std::slice::from_ref(&each), &each).unwrap();
            assert!(matches!(rule, Rule::Gaussian { .. }), "{rule:?}");
        }
    }

    #[test]
    fn what_is_left_fits_and_little_more_does() {
        let cap = cap(2.0, 1e-6);
        let histories = [
            vec![],
            vec![gaussian(0.2)],
            vec![gaussian(0.1), pure(0.1)],
            vec![sampled(0.01, 1.5, 1000, Change::ZeroOut)],
            vec![sampled(0.01, 1.5, 1000, Change::ZeroOut), Event::Zcdp { rho: Rho::new(0.001).unwrap() }],
            vec![pure(1.0)],
        ];
        for charges in histories {
            let left = Room::new(cap, &charges).unwrap().gaussian_left();
            assert!(left > 0.05, "{charges:?}: {left}");
            assert!(fits(cap, &charges, &gaussian(left)).is_ok(), "{charges:?}: {left}");
            let error = fits(cap, &charges, &gaussian(left * 1.0001)).unwrap_err();
            assert!(matches!(error, CapError::Exceeded { gaussian_left, .. } if gaussian_left == left));
        }
    }

    #[test]
    fn the_first_release_is_priced_by_its_own_profile() {
        let plan = sampled(0.01, 1.0, 1000, Change::ZeroOut);
        let delta = Delta::new(1e-5).unwrap();
        let epsilon = Profile::of(&plan).unwrap().epsilon(delta).upper;
        // A hair above what the accountant claims: fits. A hair below: not.
        assert!(matches!(fits(cap(epsilon * 1.001, 1e-5), &[], &plan), Ok(Rule::Alone { .. })));
        assert!(fits(cap(epsilon * 0.999, 1e-5), &[], &plan).is_err());
        // Nothing else fits after a release that filled the cap by its own profile, whatever its kind.
        let full = cap(epsilon * 1.001, 1e-5);
        for next in [pure(1e-9), gaussian(1e-6), plan.clone()] {
            assert!(fits(full, std::slice::from_ref(&plan), &next).is_err(), "{next:?}");
        }
    }

    #[test]
    fn sampled_plans_add_up_by_renyi() {
        let plan = sampled(0.01, 1.5, 1000, Change::Replace);
        let cap = cap(4.0, 1e-5);
        let count = admitted(cap, &plan, 100);
        let together = |count: usize| {
            Profile::of(&plan.clone().repeated(count as u64).unwrap()).unwrap().delta(cap.epsilon).upper
        };
        assert!(count >= 3 && together(count) <= 1e-5, "{count}");
        let last = fits(cap, &vec![plan.clone(); count - 1], &plan).unwrap();
        assert!(matches!(last, Rule::Renyi { divergence, most, .. } if divergence <= most), "{last:?}");
    }

    #[test]
    fn pure_releases_add_up_without_delta() {
        let cap = cap(1.0, 0.0);
        assert_eq!(admitted(cap, &pure(0.25), 100), 4);
        assert!(fits(cap, &[pure(0.5)], &gaussian(1e-3)).is_err());
        let laplace = Event::Laplace {
            sensitivity: L1Sensitivity::new(1.0).unwrap(),
            scale: LaplaceScale::new(4.0).unwrap(),
        };
        // The quotient 1/4 is rounded up, so three fit and a fourth would stand just above the cap.
        assert_eq!(admitted(cap, &laplace, 100), 3);
        // What follows a pure release has the rest of epsilon and all of delta.
        let left = Room::new(self::cap(2.0, 1e-6), &[pure(1.0)]).unwrap().gaussian_left();
        let rest = Room::new(self::cap(1.0, 1e-6), &[]).unwrap().gaussian_left();
        assert_eq!(left, rest);
        // With a positive delta many small pure releases fit better than their sum says.
        assert!(admitted(self::cap(1.0, 1e-6), &pure(0.01), 1000) > 250);
    }

    #[test]
    fn releases_that_may_reveal_everything_have_a_small_share() {
        let cap = cap(2.0, 1e-6);
        let risky = |delta: f64| Event::ApproxDp {
            epsilon: Epsilon::new(0.1).unwrap(),
            delta: Delta::new(delta).unwrap(),
        };
        assert!(fits(cap, &[], &risky(0.9e-6)).is_ok());
        assert!(fits(cap, &[risky(0.9e-6)], &risky(1e-9)).is_err());
        assert_eq!(admitted(cap, &risky(1e-8), 20), 6);
        assert!(fits(cap, &[gaussian(0.1)], &risky(1e-8)).is_ok());
        assert!(fits(cap, &[gaussian(0.1)], &risky(1e-7)).is_err());
    }

    #[test]
    fn what_costs_nothing_always_fits() {
        let nothing = [
            Event::Composed(vec![]),
            Event::Parallel(vec![]),
            pure(0.0),
            gaussian(0.0),
            gaussian(0.0).repeated(9).unwrap(),
        ];
        for event in nothing {
            let cap = cap(0.0, 0.0);
            assert_eq!(fits(cap, &[], &event), Ok(Rule::Nothing), "{event:?}");
            assert!(fits(cap, &[event.clone(), event.clone()], &event).is_ok());
            // The first charge that costs something is the first release.
            assert!(matches!(fits(self::cap(1.0, 1e-6), &[event], &gaussian(0.2)), Ok(Rule::Alone { .. })));
        }
        assert!(fits(cap(0.0, 0.0), &[], &gaussian(1e-9)).is_err());
    }

    #[test]
    fn charges_for_another_change_are_refused() {
        let cap = cap(5.0, 1e-5);
        let history = [sampled(0.01, 2.0, 10, Change::Replace)];
        let error = fits(cap, &history, &sampled(0.01, 2.0, 10, Change::ZeroOut)).unwrap_err();
        assert_eq!(error, CapError::Accounting(AccountingError::MixedChanges));
        let history = [history[0].clone(), sampled(0.01, 2.0, 10, Change::ZeroOut)];
        assert!(matches!(fits(cap, &history, &pure(0.1)), Err(CapError::Accounting(_))));
    }

    /// Every kind of event can be charged, and charging it k times costs what its k-fold repetition costs.
    #[test]
    fn repetitions_cost_what_separate_charges_cost() {
        let cap = cap(3.0, 1e-5);
        let selection = Event::RepeatAndSelect {
            event: Box::new(pure(0.02)),
            runs: RunCount::truncated_negative_binomial(1.0, 0.1).unwrap(),
        };
        let events = [
            gaussian(0.1),
            pure(0.1),
            Event::Zcdp { rho: Rho::new(0.004).unwrap() },
            sampled(0.02, 2.0, 30, Change::ZeroOut),
            Event::FixedSizeGaussian {
                fraction: SamplingRate::new(0.02).unwrap(),
                noise_multiplier: NoiseMultiplier::new(4.0).unwrap(),
            },
            Event::Parallel(vec![pure(0.05), gaussian(0.05)]),
            selection,
        ];
        for event in events {
            let separate = Room::new(cap, &vec![event.clone(); 5]).unwrap();
            let first = event.clone();
            let mixed = Room::new(cap, &[first, event.clone().repeated(4).unwrap()]).unwrap();
            let (a, b) = (separate.gaussian_left(), mixed.gaussian_left());
            assert!(a > 0.0 && (a - b).abs() <= 1e-9 * a, "{event:?}: {a} {b}");
            assert!(a < Room::new(cap, std::slice::from_ref(&event)).unwrap().gaussian_left(), "{event:?}");
        }
    }

    /// delta of an adversary who sees the output of a Gaussian of `mu` and then takes the worst of several second
    /// releases, each given by its conditional curve: int max_i delta_i(eps - l) N(mu^2/2, mu^2)(dl), Simpson's rule.
    fn adaptive_delta(mu: f64, eps: f64, second: &[&dyn Fn(f64) -> f64]) -> f64 {
        let panels = 20_000;
        let step = 24.0 / f64::from(panels);
        let weight = |j: i32| if j == 0 || j == panels { 1.0 } else { f64::from(2 + 2 * (j % 2)) };
        let integrand = |x: f64| {
            let loss = 0.5 * mu * mu + mu * x;
            let worst = second.iter().map(|curve| curve(eps - loss)).fold(0.0, f64::max);
            crate::special::normal_density(x) * worst
        };
        (0..=panels).map(|j| weight(j) * integrand(-12.0 + step * f64::from(j))).sum::<f64>() * step / 3.0
    }

    /// H_{e^x} of randomized response, for any real x.
    fn randomized_response(eps: f64, x: f64) -> f64 {
        let likely = 1.0 / (1.0 + (-eps).exp());
        let gap = |p: f64, q: f64| (p - x.exp() * q).max(0.0);
        gap(likely, 1.0 - likely) + gap(1.0 - likely, likely)
    }

    /// The largest x in (0, 50) at which the condition, once false, stays false.
    fn largest(holds: impl Fn(f64) -> bool) -> f64 {
        let (mut low, mut high) = (0.0, 50.0);
        for _ in 0..60 {
            let middle = 0.5 * (low + high);
            if holds(middle) { low = middle } else { high = middle }
        }
        low
    }

    /// The attack that a filter must withstand: choose what to release second after seeing how much the first one gave
    /// away. "Everything so far, composed, fits" is broken by it; this filter is not.
    #[test]
    fn an_adversary_who_chooses_after_looking_stays_within_the_cap() {
        let (eps, delta, first) = (1.0, 1e-3, 0.2);
        let cap = cap(eps, delta);
        let composed_delta = |second: Event| {
            Profile::of(&Event::Composed(vec![gaussian(first), second])).unwrap().delta(cap.epsilon).upper
        };
        // The naive rule: the composition of what happened fits.
        let mu = largest(|mu| composed_delta(gaussian(mu)) <= delta);
        let response = largest(|e| composed_delta(pure(e)) <= delta);
        let gaussian_curve = |x: f64| gaussian_delta(mu, x).upper;
        let naive = adaptive_delta(first, eps, &[&gaussian_curve, &|x| randomized_response(response, x)]);
        assert!(naive > 1.05 * delta, "{naive}");
        // Each of the two alone is within the cap: it is the choice that breaks it.
        assert!(adaptive_delta(first, eps, &[&gaussian_curve]) <= delta * 1.000_1);
        assert!(adaptive_delta(first, eps, &[&|x| randomized_response(response, x)]) <= delta * 1.000_1);

        // This filter: the most of every kind that it admits.
        let history = [gaussian(first)];
        let admits = |event: Event| fits(cap, &history, &event).is_ok();
        let mu = largest(|mu| admits(gaussian(mu)));
        let response = largest(|e| admits(pure(e)));
        let shift = largest(|k| {
            k > 0.0
                && k < 50.0
                && NoiseMultiplier::new(1.0 / k)
                    .is_ok_and(|_| admits(sampled(0.1, 1.0 / k, 1, Change::ZeroOut)))
        });
        assert!(mu > 0.1 && response > 0.1 && shift > 0.1, "{mu} {response} {shift}");
        let mixture = crate::pld::Mixture { rate: 0.1, shift, two_sided: false };
        let curves: [&dyn Fn(f64) -> f64; 4] = [
            &|x| gaussian_delta(mu, x).upper,
            &|x| randomized_response(response, x),
            &|x| mixture.delta(x),
            &|x| mixture.delta_reversed(x),
        ];
        let filtered = adaptive_delta(first, eps, &curves);
        assert!(filtered <= delta && filtered > 0.5 * delta, "{filtered}");
    }
}
