//! Both ends close together wherever the numbers are ones that someone might use, and around the truth.

use crate::{delta, epsilon, fixed_size, poisson, times};
use halflit_privacy::{
    Change, Event, Interval, L1Sensitivity, LaplaceScale, Mu, NoiseMultiplier, Profile, SamplingRate,
};

/// Subsets of a fixed size and rare large losses over many steps: (kind, rate, multiplier, steps, epsilon, delta).
///
/// Made once with a plain Fourier transform in numpy 2.4.6: four million outcomes, each divided between the two nearest of
/// 2^19 or 2^20 losses, one exponential tilt, no bound on anything. Halving the grid moves delta by less than 5e-4.
const PLAIN_TRANSFORM: [(&str, f64, f64, u64, f64, f64); 10] = [
    ("fixed-size", 0.01, 1.0, 500, 11.046, 1.000_405e-5),
    ("fixed-size", 0.01, 1.0, 3000, 26.098, 1.000_495e-5),
    ("fixed-size", 0.1, 5.0, 1000, 8.0, 3.273_438e-7),
    ("fixed-size", 0.5, 20.0, 2000, 9.0, 1.029_024e-3),
    ("fixed-size", 0.001, 0.5, 300, 9.0, 7.637_094e-3),
    ("replace", 1e-4, 1.0, 3000, 0.1159, 1.002_622e-12),
    ("replace", 2e-4, 1.0, 546, 0.097, 1.003_318e-10),
    ("zero-out", 1e-4, 0.7, 3000, 0.06, 1.001_191e-5),
    ("zero-out", 1e-4, 0.5, 500, 3.3289, 1.000_632e-9),
    ("zero-out", 1e-3, 0.3, 100, 14.0, 6.991_542e-7),
];

fn release(kind: &str, rate: f64, noise: f64) -> Event {
    match kind {
        "fixed-size" => fixed_size(rate, noise),
        "replace" => poisson(rate, noise, Change::Replace),
        _ => poisson(rate, noise, Change::ZeroOut),
    }
}

#[test]
fn rare_losses_and_fixed_sizes_agree_with_a_plain_transform() {
    for (kind, rate, noise, steps, eps, truth) in PLAIN_TRANSFORM {
        let profile = Profile::of(&times(release(kind, rate, noise), steps)).unwrap();
        let answer = profile.delta(epsilon(eps));
        assert!(
            answer.lower <= truth * 1.0005 && truth * 0.9995 <= answer.upper,
            "{kind} {rate} {noise} {steps}: {answer:?} {truth}"
        );
        assert!(answer.upper <= 1.03 * answer.lower, "{kind} {rate} {noise} {steps}: {answer:?}");
    }
}

fn is_narrow(answer: Interval) -> bool {
    answer.upper <= 1.005 * answer.lower || answer.upper < 1e-9
}

/// Eighty settings, spread evenly on a log scale over rates 1e-4..1, multipliers 0.3..50, steps 1..1e6 and deltas
/// 1e-12..1e-3 by the multiples of irrational numbers.
#[test]
fn epsilon_is_known_to_half_a_percent() {
    let at = |place: u32, step: f64, low: f64, high: f64| {
        let share = (f64::from(place) * step).fract();
        low * (high / low).powf(share)
    };
    for place in 0..80 {
        let rate = at(place, 0.618_033_989, 1e-4, 1.0);
        let noise = at(place, 0.754_877_666, 0.3, 50.0);
        let steps = at(place, 0.569_840_291, 1.0, 1e6) as u64;
        let smallest = at(place, 0.819_172_513, 1e-12, 1e-3);
        let event = match place % 5 {
            0 | 1 => poisson(rate, noise, Change::ZeroOut),
            2 => poisson(rate, noise, Change::Replace),
            3 => fixed_size(rate, noise),
            _ => Event::Laplace {
                sensitivity: L1Sensitivity::new(rate).unwrap(),
                scale: LaplaceScale::new(noise).unwrap(),
            },
        };
        let answer = Profile::of(&times(event.clone(), steps)).unwrap().epsilon(delta(smallest));
        assert!(is_narrow(answer), "{event:?} {steps} {smallest:e}: {answer:?}");
    }
}

/// Randomized response alone: the law is discrete and delta falls in steps.
#[test]
fn a_few_pure_releases_are_known_exactly() {
    for (eps, count) in [(0.61, 2), (3.6e-4, 2), (0.08, 3), (5e-3, 8), (0.3, 40)] {
        let event = times(Event::PureDp { epsilon: epsilon(eps) }, count);
        for smallest in [1e-12, 1e-7, 1e-3] {
            let answer = Profile::of(&event).unwrap().epsilon(delta(smallest));
            assert!(is_narrow(answer), "{eps} {count} {smallest}: {answer:?}");
        }
    }
}

/// Releases of very different sizes in one composition.
#[test]
fn mixtures_of_large_and_small_are_known_to_half_a_percent() {
    let gaussian = |mu: f64| Event::Gdp { mu: Mu::new(mu).unwrap() };
    let pure = |eps: f64, count: u64| times(Event::PureDp { epsilon: epsilon(eps) }, count);
    let mixtures = [
        // exp(mu^2/2) overflows a double from 38 on.
        vec![gaussian(38.0), pure(0.029, 36)],
        vec![gaussian(100.0), pure(0.029, 36)],
        // Losses so small that all of them fall into the cells next to zero.
        vec![gaussian(1.6), times(poisson(2.7e-4, 25.0, Change::Replace), 22)],
        vec![
            times(
                Event::Laplace {
                    sensitivity: L1Sensitivity::new(1.0).unwrap(),
                    scale: LaplaceScale::new(23.8).unwrap(),
                },
                70,
            ),
            times(poisson(2.04e-4, 29.4, Change::ZeroOut), 1894),
        ],
        vec![pure(1e-3, 500), times(poisson(0.02, 1.1, Change::ZeroOut), 900), gaussian(0.02)],
    ];
    for events in mixtures {
        let answer = Profile::of(&Event::Composed(events.clone())).unwrap().epsilon(delta(6.8e-6));
        assert!(is_narrow(answer), "{events:?}: {answer:?}");
    }
}

/// Far beyond use: wide intervals are allowed, but not endless work, and not no answer.
#[test]
fn huge_gaussians_beside_something_else_are_answered() {
    for mu in [250.0, 1e3, 1e5] {
        let event = Event::Composed(vec![
            Event::Gdp { mu: Mu::new(mu).unwrap() },
            poisson(0.1, 1.0, Change::ZeroOut),
        ]);
        let answer = Profile::of(&event).unwrap().epsilon(delta(1e-6));
        assert!(answer.lower > 0.49 * mu * mu && answer.upper < 0.6 * mu * mu, "{mu}: {answer:?}");
    }
    let event = Event::Composed(vec![
        Event::Laplace {
            sensitivity: L1Sensitivity::new(1e7).unwrap(),
            scale: LaplaceScale::new(1.0).unwrap(),
        },
        times(
            Event::PoissonGaussian {
                rate: SamplingRate::new(1e-6).unwrap(),
                noise_multiplier: NoiseMultiplier::new(100.0).unwrap(),
                change: Change::ZeroOut,
            },
            1000,
        ),
    ]);
    let answer = Profile::of(&event).unwrap().epsilon(delta(1e-6));
    assert!(answer.lower <= answer.upper && answer.upper <= 1.1e7, "{answer:?}");
}
