//! One and two releases by plain numerical integration of the definition, with nothing shared with the crate but erf.

use crate::{delta, epsilon, fixed_size, poisson, times};
use halflit_privacy::{Change, Event, Interval, NoiseMultiplier, Profile, SamplingRate};

fn density(x: f64) -> f64 {
    (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt()
}

/// A law on the line as weighted normals: (weight, mean), in noise standard deviations.
type Law = Vec<(f64, f64)>;

fn at(law: &Law, z: f64) -> f64 {
    law.iter().map(|(weight, mean)| weight * density(z - mean)).sum()
}

/// int (p - e^eps q)_+ by the midpoint rule; the kink costs O(step^2).
fn one_step(p: &Law, q: &Law, eps: f64) -> f64 {
    let step = 1e-4;
    let cells = 300_000;
    let value = |j: i32| {
        let z = -15.0 + step * (f64::from(j) + 0.5);
        (at(p, z) - eps.exp() * at(q, z)).max(0.0)
    };
    (0..cells).map(value).sum::<f64>() * step
}

/// The same in the plane: two independent releases.
fn two_steps(p: &Law, q: &Law, eps: f64) -> f64 {
    let step = 0.01;
    let cells = 2400;
    let values: Vec<(f64, f64)> = (0..cells)
        .map(|j| {
            let z = -12.0 + step * (f64::from(j) + 0.5);
            (at(p, z), eps.exp() * at(q, z))
        })
        .collect();
    let mut sum = 0.0;
    for &(p1, q1) in &values {
        for &(p2, q2) in &values {
            // q carries e^eps twice; once is enough.
            sum += (p1 * p2 - q1 * q2 * (-eps).exp()).max(0.0);
        }
    }
    sum * step * step
}

fn close(answer: Interval, truth: f64, error: f64, name: &str) {
    assert!(
        answer.lower <= truth * (1.0 + error) && truth * (1.0 - error) <= answer.upper,
        "{name}: {answer:?} {truth}"
    );
    assert!(answer.upper <= answer.lower * 1.01, "{name}: {answer:?}");
}

/// Both relations of Poisson sampling, both directions, one and two steps.
#[test]
fn poisson_sampling_agrees_with_integration() {
    for (q, s) in [(0.1, 1.0), (0.5, 2.0), (0.02, 0.6)] {
        let k = 1.0 / s;
        let p: Law = vec![(1.0 - q, 0.0), (q, k)];
        let cases: [(Change, Law); 2] =
            [(Change::ZeroOut, vec![(1.0, 0.0)]), (Change::Replace, vec![(1.0 - q, 0.0), (q, -k)])];
        for (change, other) in cases {
            let event = poisson(q, s, change);
            for eps in [0.0, 0.1, 0.7] {
                let truth = one_step(&p, &other, eps).max(one_step(&other, &p, eps));
                let name = format!("{q} {s} {change:?} {eps}");
                close(Profile::of(&event).unwrap().delta(epsilon(eps)), truth, 1e-6, &name);
                let truth = two_steps(&p, &other, eps).max(two_steps(&other, &p, eps));
                let twice = Profile::of(&times(event.clone(), 2)).unwrap().delta(epsilon(eps));
                close(twice, truth, 2e-3, &format!("{name} twice"));
            }
        }
    }
}

/// Subsets of a fixed size, without replacement, by enumeration: n units with contributions in [-1, 1], a batch of m; the
/// mechanism's own output laws for neighbouring tables, for every placing of the other contributions at the ends.
#[test]
fn fixed_size_subsets_dominate_every_small_table() {
    for (n, m) in [(2u32, 1u32), (3, 1), (4, 2), (5, 2), (6, 3), (6, 5)] {
        let s = 1.3;
        let event = Event::FixedSizeGaussian {
            fraction: SamplingRate::at_least(u64::from(m), u64::from(n)).unwrap(),
            noise_multiplier: NoiseMultiplier::new(s).unwrap(),
        };
        let profile = Profile::of(&event).unwrap();
        let law = |table: &[f64]| -> Law {
            let subsets: Vec<u32> = (0u32..1 << n).filter(|set| set.count_ones() == m).collect();
            let weight = 1.0 / subsets.len() as f64;
            let sum = |set: u32| (0..n).filter(|i| set >> i & 1 == 1).map(|i| table[i as usize]).sum::<f64>();
            subsets.into_iter().map(|set| (weight, sum(set) / s)).collect()
        };
        let mut worst = [0.0f64; 3];
        for others in 0..1u32 << (n - 1) {
            let table = |own: f64| -> Vec<f64> {
                let rest = (0..n - 1).map(|i| if others >> i & 1 == 1 { 1.0 } else { -1.0 });
                std::iter::once(own).chain(rest).collect()
            };
            let (p, q) = (law(&table(1.0)), law(&table(-1.0)));
            for (value, eps) in worst.iter_mut().zip([0.0, 0.3, 1.0]) {
                *value = value.max(coarse(&p, &q, eps)).max(coarse(&q, &p, eps));
            }
        }
        for (value, eps) in worst.into_iter().zip([0.0, 0.3, 1.0]) {
            let bound = profile.delta(epsilon(eps));
            assert!(value <= bound.upper * (1.0 + 1e-5), "{n} {m} {eps}: {value} {bound:?}");
            // Attained: the others all at one end leave exactly the dominating pair.
            assert!(value >= bound.lower * (1.0 - 1e-5), "{n} {m} {eps}: {value} {bound:?}");
        }
    }
}

fn coarse(p: &Law, q: &Law, eps: f64) -> f64 {
    let step = 0.004;
    let value = |j: i32| {
        let z = -16.0 + step * (f64::from(j) + 0.5);
        (at(p, z) - eps.exp() * at(q, z)).max(0.0)
    };
    (0..8000).map(value).sum::<f64>() * step
}

/// Two fixed-size releases: the composed dominating pair, made of its three parts (losses above, below and at zero).
#[test]
fn two_fixed_size_releases_agree_with_integration() {
    let (gamma, s): (f64, f64) = (0.2, 1.5);
    let k = 2.0 / s;
    // Outcomes on a fine grid of z >= k/2 of the one-sided pair, their mirror image, and the atom.
    let one_sided: Law = vec![(1.0 - gamma, 0.0), (gamma, k)];
    let base: Law = vec![(1.0, 0.0)];
    let step = 0.004;
    let mut outcomes: Vec<(f64, f64)> = Vec::new();
    for j in 0..2200 {
        let z = 0.5 * k + step * (f64::from(j) + 0.5);
        let (p, q) = (at(&one_sided, z) * step, at(&base, z) * step);
        outcomes.push((p, q));
        outcomes.push((q, p));
    }
    let rest = 1.0 - outcomes.iter().map(|outcome| outcome.0).sum::<f64>();
    outcomes.push((rest, rest));
    let event = Event::FixedSizeGaussian {
        fraction: SamplingRate::new(gamma).unwrap(),
        noise_multiplier: NoiseMultiplier::new(s).unwrap(),
    };
    let profile = Profile::of(&times(event, 2)).unwrap();
    for eps in [0.0f64, 0.2, 0.9] {
        let mut truth = 0.0;
        for (p1, q1) in &outcomes {
            for (p2, q2) in &outcomes {
                truth += (p1 * p2 - eps.exp() * q1 * q2).max(0.0);
            }
        }
        close(profile.delta(epsilon(eps)), truth, 2e-4, &format!("{eps}"));
    }
}

/// Exchanging the branches of the fixed-size pair is unsound: the other branch is smaller on both sides of the kink.
#[test]
fn the_other_branch_of_the_fixed_size_pair_would_understate() {
    let (gamma, k) = (0.2, 1.5);
    let (p, q): (Law, Law) = (vec![(1.0, 0.0)], vec![(1.0, k)]);
    let (mixed_p, mixed_q): (Law, Law) =
        (vec![(gamma, 0.0), (1.0 - gamma, k)], vec![(1.0 - gamma, 0.0), (gamma, k)]);
    for eps in [0.1, 0.5] {
        let right = coarse(&mixed_p, &q, eps);
        let wrong = coarse(&p, &mixed_q, eps);
        assert!(wrong < 0.9 * right, "{eps}: {wrong} {right}");
    }
}

/// Randomized response and Laplace, composed, by enumeration of their outcomes.
#[test]
fn bounded_losses_agree_with_enumeration() {
    let eps0 = 0.3f64;
    let event = Event::PureDp { epsilon: epsilon(eps0) };
    for count in [1u64, 2, 5, 20] {
        let profile = Profile::of(&times(event.clone(), count)).unwrap();
        for eps in [0.0, 0.45, 1.2] {
            let likely = 1.0 / (1.0 + (-eps0).exp());
            let n = count as i32;
            let mut binomial = 1.0;
            let mut truth = 0.0;
            for j in 0..=n {
                let p = binomial * likely.powi(j) * (1.0 - likely).powi(n - j);
                let q = binomial * likely.powi(n - j) * (1.0 - likely).powi(j);
                truth += (p - f64::exp(eps) * q).max(0.0);
                binomial *= f64::from(n - j) / f64::from(j + 1);
            }
            let answer = profile.delta(epsilon(eps));
            assert!(
                answer.lower <= truth * (1.0 + 1e-9) && truth <= answer.upper * (1.0 + 1e-9) + 1e-300,
                "{count} {eps}: {answer:?} {truth}"
            );
        }
        // Nothing beyond the sum of the losses.
        assert_eq!(profile.delta(epsilon(eps0 * count as f64 * 1.000_001)).upper, 0.0);
        let all = profile.epsilon(delta(0.0));
        assert!((all.upper / (eps0 * count as f64) - 1.0).abs() < 1e-9, "{all:?}");
    }
}

/// (event, eps, delta), made with mpmath 1.3.0 at 60 digits from the definition: noise so large that
/// the two ends of every difference of tails nearly agree.
#[test]
fn huge_noise_keeps_its_digits() {
    let noise = 730_276_507.25;
    let cases = [
        (poisson(0.005, noise, Change::ZeroOut), 9.585_410_362_384_351e-11, 3.773_512_571_200_04e-57),
        (poisson(0.005, noise, Change::Replace), 1.917_082_072_476_870_2e-10, 7.547_010_820_958_564e-57),
        (fixed_size(0.005, noise), 1.917_082_072_476_870_2e-10, 7.547_039_464_591_781e-57),
        (poisson(0.3, noise, Change::ZeroOut), 3.820_470_701_578_905e-9, 3.034_010_240_278_388_5e-31),
        (poisson(0.3, noise, Change::Replace), 7.640_941_403_157_81e-9, 6.068_018_073_499_035e-31),
        (fixed_size(0.3, noise), 7.640_941_403_157_81e-9, 6.068_022_910_798_137e-31),
    ];
    for (event, eps, truth) in cases {
        let answer = Profile::of(&event).unwrap().delta(epsilon(eps));
        assert!(answer.lower <= truth && truth <= answer.upper, "{event:?}: {answer:?} {truth}");
        assert!(answer.upper - answer.lower <= 1e-10 * truth, "{event:?}: {answer:?}");
    }
}

/// The largest loss of three releases of epsilon 0.7 is 2.2e-16 above 3 * 0.7 in doubles: there delta is not zero yet.
#[test]
fn the_largest_loss_is_not_rounded_down() {
    let answer =
        Profile::of(&times(Event::PureDp { epsilon: epsilon(0.7) }, 3)).unwrap().delta(epsilon(3.0 * 0.7));
    // (2.2e-16)/(1 + e^-0.7)^3, made with mpmath 1.3.0.
    let truth = 6.624_236e-17;
    assert!(answer.lower <= truth && truth <= answer.upper && answer.upper < 1e-7, "{answer:?}");
}

/// The noise of a Gaussian is rounded to the unsafe side for the lower end: it must be rounded back. mpmath 1.3.0, 60 digits.
#[test]
fn the_lower_end_of_a_gaussian_is_rounded_down() {
    let gaussian = |noise: f64, change: Change, count: u64| {
        times(Event::Gaussian { noise_multiplier: NoiseMultiplier::new(noise).unwrap(), change }, count)
    };
    let cases = [
        (
            gaussian(5_301.084_087_213_237, Change::ZeroOut, 1),
            2.226_530_401_476_842_6e-10,
            0.000_828_227_644_881_676_9,
        ),
        (
            gaussian(101_595_423.741_927_39, Change::Replace, 1_000_000_000),
            9.207_557_415_305_03e-85,
            0.011_789_038_495_773_431,
        ),
    ];
    for (event, d, truth) in cases {
        let answer = Profile::of(&event).unwrap().epsilon(delta(d));
        assert!(answer.lower <= truth && truth <= answer.upper, "{event:?}: {answer:?} {truth}");
        assert!(answer.upper <= answer.lower * (1.0 + 1e-11), "{event:?}: {answer:?}");
    }
}
