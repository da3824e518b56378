use super::*;
use crate::{Interval, Profile};

pub(crate) fn multiplier(value: f64) -> NoiseMultiplier {
    NoiseMultiplier::new(value).unwrap()
}

fn rate(value: f64) -> SamplingRate {
    SamplingRate::new(value).unwrap()
}

fn epsilon(value: f64) -> Epsilon {
    Epsilon::new(value).unwrap()
}

fn delta(value: f64) -> Delta {
    Delta::new(value).unwrap()
}

/// One event of every variant. The match makes a new variant a compile error here until it is listed.
fn every_variant() -> Vec<Event> {
    let all = vec![
        Event::Gaussian { noise_multiplier: multiplier(5.0), change: Change::Replace },
        Event::GaussianDiameter {
            sensitivity: L2Sensitivity::new(0.3).unwrap(),
            noise_std: NoiseStd::new(1.0).unwrap(),
        },
        Event::Laplace {
            sensitivity: L1Sensitivity::new(0.2).unwrap(),
            scale: LaplaceScale::new(1.0).unwrap(),
        },
        Event::PureDp { epsilon: epsilon(0.2) },
        Event::ApproxDp { epsilon: epsilon(0.1), delta: delta(1e-4) },
        Event::Zcdp { rho: Rho::new(0.02).unwrap() },
        Event::Gdp { mu: Mu::new(0.2).unwrap() },
        Event::PoissonGaussian {
            rate: rate(0.1),
            noise_multiplier: multiplier(1.0),
            change: Change::Replace,
        },
        Event::FixedSizeGaussian { fraction: rate(0.1), noise_multiplier: multiplier(2.0) },
        Event::Composed(vec![
            Event::PureDp { epsilon: epsilon(0.1) },
            Event::PoissonGaussian {
                rate: rate(0.1),
                noise_multiplier: multiplier(2.0),
                change: Change::Replace,
            },
        ]),
        Event::Repeated {
            event: Box::new(Event::PureDp { epsilon: epsilon(0.1) }),
            count: NonZeroU64::new(2).unwrap(),
        },
        Event::Parallel(vec![
            Event::PureDp { epsilon: epsilon(0.3) },
            Event::Gdp { mu: Mu::new(0.3).unwrap() },
        ]),
        Event::RepeatAndSelect {
            event: Box::new(Event::PureDp { epsilon: epsilon(0.1) }),
            runs: RunCount::truncated_negative_binomial(1.0, 0.2).unwrap(),
        },
        Event::RepeatAndSelect {
            event: Box::new(Event::Gdp { mu: Mu::new(0.1).unwrap() }),
            runs: RunCount::poisson(3.0).unwrap(),
        },
    ];
    for event in &all {
        match event {
            Event::Gaussian { .. }
            | Event::GaussianDiameter { .. }
            | Event::Laplace { .. }
            | Event::PureDp { .. }
            | Event::ApproxDp { .. }
            | Event::Zcdp { .. }
            | Event::Gdp { .. }
            | Event::PoissonGaussian { .. }
            | Event::FixedSizeGaussian { .. }
            | Event::Composed(_)
            | Event::Repeated { .. }
            | Event::Parallel(_)
            | Event::RepeatAndSelect { .. } => {}
        }
    }
    all
}

fn at(event: &Event, eps: f64) -> Interval {
    Profile::of(event).unwrap().delta(epsilon(eps))
}

/// Equal up to the grids of two computations.
fn agree(a: Interval, b: Interval) -> bool {
    let close = |x: f64, y: f64| (x - y).abs() <= 0.01 * x.max(y) + 1e-12;
    close(a.upper, b.upper) && a.lower <= b.upper * (1.0 + 1e-9) && b.lower <= a.upper * (1.0 + 1e-9)
}

/// Equal up to a few roundings of sums.
fn same(a: Interval, b: Interval) -> bool {
    (a.upper - b.upper).abs() <= 1e-11 * b.upper && (a.lower - b.lower).abs() <= 1e-11 * b.upper
}

/// A shipped accountant ignores the count for one kind of event. Here k repetitions, k copies in a list, and nested
/// repetitions cost the same, and more than one, for every kind.
#[test]
fn k_times_costs_k_times_for_every_variant() {
    for event in every_variant() {
        let repeated = event.clone().repeated(6).unwrap();
        let listed = Event::Composed(vec![event.clone(); 6]);
        let nested = event.clone().repeated(3).unwrap().repeated(2).unwrap();
        let answers = [&repeated, &listed, &nested].map(|tree| at(tree, 0.4));
        assert!(agree(answers[0], answers[1]) && agree(answers[0], answers[2]), "{event:?}: {answers:?}");
        let once = at(&event, 0.4);
        assert!(answers[0].upper > 1.5 * once.upper, "{event:?}: {once:?} {answers:?}");
        // Once is once.
        assert!(same(at(&event.clone().repeated(1).unwrap(), 0.3), at(&event, 0.3)), "{event:?}");
    }
}

/// Order does not matter, and adding nothing adds nothing.
#[test]
fn composition_commutes_for_every_pair_of_variants() {
    let nothing =
        [Event::Composed(vec![]), Event::Parallel(vec![]), Event::Gdp { mu: Mu::new(0.0).unwrap() }];
    let all = every_variant();
    for (position, one) in all.iter().enumerate() {
        let other = &all[(position + 3) % all.len()];
        let (ab, ba) = (
            Event::Composed(vec![one.clone(), other.clone()]),
            Event::Composed(vec![other.clone(), one.clone()]),
        );
        let (ab, ba) = (at(&ab, 0.4), at(&ba, 0.4));
        assert!(agree(ab, ba), "{one:?} {other:?}: {ab:?} {ba:?}");
        assert!(ab.upper >= at(one, 0.4).upper * (1.0 - 1e-3), "{one:?} {other:?}");
        for empty in &nothing {
            let with = Event::Composed(vec![one.clone(), empty.clone()]);
            assert!(same(at(&with, 0.4), at(one, 0.4)), "{one:?} {empty:?}");
        }
    }
}

#[test]
fn nothing_costs_nothing() {
    for nothing in [
        Event::Composed(vec![]),
        Event::Parallel(vec![]),
        Event::Composed(vec![]).repeated(1_000_000).unwrap(),
        Event::PureDp { epsilon: epsilon(0.0) },
        Event::Zcdp { rho: Rho::new(0.0).unwrap() },
        Event::Gdp { mu: Mu::new(0.0).unwrap() },
    ] {
        assert_eq!(at(&nothing, 0.0), Interval { lower: 0.0, upper: 0.0 }, "{nothing:?}");
        let answer = Profile::of(&nothing).unwrap().epsilon(delta(0.0));
        assert_eq!(answer, Interval { lower: 0.0, upper: 0.0 }, "{nothing:?}");
    }
}

/// Disjoint units: the worst branch, however many there are.
#[test]
fn parallel_costs_the_worst_branch() {
    let branch = |mu: f64| Event::Gdp { mu: Mu::new(mu).unwrap() };
    let many = Event::Parallel((1..=50).map(|j| branch(0.01 * f64::from(j))).collect());
    assert_eq!(at(&many, 0.2), at(&branch(0.5), 0.2));
    // Branches of different kinds: neither covers the other, both are priced.
    let (pure, gaussian) = (Event::PureDp { epsilon: epsilon(0.5) }, branch(0.5));
    let both = Event::Parallel(vec![pure.clone(), gaussian.clone()]);
    for eps in [0.0, 0.4, 0.7] {
        assert_eq!(at(&both, eps).upper, at(&pure, eps).upper.max(at(&gaussian, eps).upper));
    }
    // Repeated with free choice each time: at least either alone.
    let twice = both.repeated(2).unwrap();
    for one in [pure, gaussian] {
        assert!(at(&twice, 0.3).upper >= at(&one.repeated(2).unwrap(), 0.3).upper * (1.0 - 1e-6));
    }
}

/// Rate one is no sampling; the smallest rate costs next to nothing.
#[test]
fn the_ends_of_the_sampling_rate() {
    for change in [Change::ZeroOut, Change::Replace] {
        let sampled =
            |q: f64| Event::PoissonGaussian { rate: rate(q), noise_multiplier: multiplier(2.0), change };
        let plain = Event::Gaussian { noise_multiplier: multiplier(2.0), change };
        for eps in [0.0, 0.3, 2.0] {
            let (a, b) = (at(&sampled(1.0), eps), at(&plain, eps));
            assert!((a.upper / b.upper - 1.0).abs() < 1e-12, "{a:?} {b:?}");
            let almost = at(&sampled(1.0f64.next_down()), eps);
            assert!((almost.upper / b.upper - 1.0).abs() < 1e-6, "{almost:?} {b:?}");
            assert!(at(&sampled(1.1e-15), eps).upper < 1e-14);
        }
    }
    let fixed = |q: f64| Event::FixedSizeGaussian { fraction: rate(q), noise_multiplier: multiplier(2.0) };
    let plain = Event::Gaussian { noise_multiplier: multiplier(2.0), change: Change::Replace };
    assert_eq!(at(&fixed(1.0), 0.5), at(&plain, 0.5));
}

/// The sensitivity follows from the change, in one place: replace is twice zero-out.
#[test]
fn replace_is_never_priced_as_zero_out() {
    let gaussian = |noise: f64, change| Event::Gaussian { noise_multiplier: multiplier(noise), change };
    assert_eq!(at(&gaussian(2.0, Change::Replace), 0.5), at(&gaussian(1.0, Change::ZeroOut), 0.5));
    let sampled =
        |change| Event::PoissonGaussian { rate: rate(0.1), noise_multiplier: multiplier(1.0), change };
    assert!(at(&sampled(Change::Replace), 0.5).lower > at(&sampled(Change::ZeroOut), 0.5).upper);
}

#[test]
fn json_brings_every_variant_back_and_checks_it() {
    for event in every_variant() {
        let text = serde_json::to_string(&event).unwrap();
        assert_eq!(serde_json::from_str::<Event>(&text).unwrap(), event, "{text}");
    }
    for bad in [
        r#"{"kind":"gaussian","noise_multiplier":-1.0,"change":"replace"}"#,
        r#"{"kind":"gaussian","noise_multiplier":1.0}"#,
        r#"{"kind":"gaussian","noise_multiplier":1.0,"change":"replace","extra":1}"#,
        r#"{"kind":"poisson-gaussian","rate":0.0,"noise_multiplier":1.0,"change":"replace"}"#,
        r#"{"kind":"poisson-gaussian","rate":1.5,"noise_multiplier":1.0,"change":"replace"}"#,
        r#"{"kind":"poisson-gaussian-diameter","rate":0.5,"sensitivity":1.0,"noise_std":1.0}"#,
        r#"{"kind":"repeated","event":{"kind":"pure-dp","epsilon":1.0},"count":0}"#,
        r#"{"kind":"repeated","event":{"kind":"pure-dp","epsilon":1.0},"count":-3}"#,
        r#"{"kind":"approx-dp","epsilon":1.0,"delta":1.0}"#,
        r#"{"kind":"pure-dp","epsilon":1e999}"#,
        r#"{"kind":"zcdp","rho":null}"#,
        r#"{"kind":"unknown"}"#,
        r#"{"kind":"repeat-and-select","event":{"kind":"pure-dp","epsilon":1.0},"runs":{"family":"poisson","mean":0.0}}"#,
        r#"{"kind":"repeat-and-select","event":{"kind":"pure-dp","epsilon":1.0},"runs":{"family":"truncated-negative-binomial","eta":-1.0,"gamma":0.5}}"#,
    ] {
        assert!(serde_json::from_str::<Event>(bad).is_err(), "{bad}");
    }
}

/// Trees that are too deep, too wide in choices or too long are refused, not guessed.
#[test]
fn unreasonable_trees_are_refused() {
    use crate::AccountingError;
    let mut deep = Event::PureDp { epsilon: epsilon(1.0) };
    for _ in 0..100 {
        deep = Event::Composed(vec![deep]);
    }
    assert!(matches!(Profile::of(&deep), Err(AccountingError::TooDeep { .. })));
    let endless =
        Event::PureDp { epsilon: epsilon(1.0) }.repeated(1 << 40).unwrap().repeated(1 << 20).unwrap();
    assert!(matches!(Profile::of(&endless), Err(AccountingError::TooManyRepetitions { .. })));
    let choice = Event::Parallel(vec![
        Event::PureDp { epsilon: epsilon(0.5) },
        Event::Gdp { mu: Mu::new(0.5).unwrap() },
    ]);
    assert!(matches!(
        Profile::of(&choice.repeated(1000).unwrap()),
        Err(AccountingError::TooManyAlternatives { .. })
    ));
    assert!(Event::PureDp { epsilon: epsilon(1.0) }.repeated(0).is_err());
    assert!(Event::poisson_batch(rate(0.1), &[], Change::Replace).is_err());
}
