//! Level 1e-6 per test, seeds fixed. Power: a rate wrong by 2 % is rejected.

use super::*;
use crate::keystream::testing::{Scripted, keystream};
use crate::statistics::{counts_fit, frequency_fits, stream, uncorrelated};
use crate::strips::reference;

fn sampler(numerator: u64, denominator: u64) -> PoissonSampler {
    PoissonSampler::new(Probability::new(numerator, denominator).unwrap())
}

/// Hypothesis: the gaps between included units are geometric with ratio 1 - rate. Sizes of subsamples are then binomial;
/// both are tested, and so is that gaps do not depend on the gap before.
#[test]
fn gaps_are_geometric_with_the_rate() {
    for (numerator, denominator) in [(1, 20), (1, 7), (1, 4), (3, 10)] {
        let (mut random, units) = (keystream(91), 6_000_000);
        let rate = numerator as f64 / denominator as f64;
        let included = sampler(numerator, denominator).draw(units, &mut *random);
        assert!(included.is_sorted_by(|a, b| a < b));
        let size_fits = |rate: f64| frequency_fits(included.len() as u64, units.into(), rate);
        assert!(size_fits(rate), "{numerator}/{denominator}: {} included", included.len());
        assert!(!size_fits(rate * 0.98) && !size_fits(rate * 1.02), "{numerator}/{denominator}: no power");

        let gaps: Vec<u32> = included.windows(2).map(|pair| pair[1] - pair[0] - 1).collect();
        // Ten cells of `width` gaps each, the last one open.
        let width = (0.5 / rate).ceil() as u32;
        let mut counts = [0; 10];
        for gap in &gaps {
            counts[(gap / width).min(9) as usize] += 1;
        }
        let law = |rate: f64| -> Vec<f64> {
            let at_least = |cell: u32| (1.0 - rate).powi((cell * width) as i32);
            (0..9).map(|cell| at_least(cell) - at_least(cell + 1)).chain([at_least(9)]).collect()
        };
        assert!(counts_fit(&counts, &law(rate)), "{numerator}/{denominator}: {counts:?}");
        assert!(!counts_fit(&counts, &law(rate * 0.98)), "{numerator}/{denominator}: no power");
        assert!(uncorrelated(gaps.iter().zip(&gaps[1..]).map(|(&a, &b)| (a.into(), b.into()))));
    }
}

/// Hypothesis: every unit has the same rate, first and last ones included.
#[test]
fn every_unit_has_the_rate() {
    let (units, rounds) = (256, 40_000);
    for (numerator, denominator) in [(1, 10), (1, 3), (1, 100)] {
        let (mut random, sampler) = (keystream(92), sampler(numerator, denominator));
        let mut counts = vec![0u64; units as usize];
        for _ in 0..rounds {
            for unit in sampler.draw(units, &mut *random) {
                counts[unit as usize] += 1;
            }
        }
        let rate = numerator as f64 / denominator as f64;
        for unit in [0, 1, 128, 254, 255] {
            assert!(frequency_fits(counts[unit], rounds, rate), "unit {unit}: {}", counts[unit]);
        }
        assert!(counts_fit(&counts, &[1.0 / 256.0; 256]), "{numerator}/{denominator}");
        let ramp: Vec<f64> = (0..256).map(|unit| (1.0 + 0.2 * (unit as f64 / 127.5 - 1.0)) / 256.0).collect();
        assert!(!counts_fit(&counts, &ramp), "a ramp of 20 % is not rejected");
    }
}

#[test]
fn rare_rates_are_exact_too() {
    let mut random = keystream(93);
    for denominator in [1_000_000, 1 << 44, u64::MAX] {
        let sampler = sampler(1, denominator);
        let units = 1_000_000_000;
        let seen: u64 = (0..200).map(|_| sampler.draw(units, &mut *random).len() as u64).sum();
        assert!(
            frequency_fits(seen, 200 * u64::from(units), 1.0 / denominator as f64),
            "1/{denominator}: {seen}"
        );
    }
}

#[test]
fn certain_rates_include_nobody_or_everybody() {
    let mut random = keystream(94);
    assert!(sampler(0, 3).draw(1000, &mut *random).is_empty());
    assert!(sampler(3, 3).draw(1000, &mut *random).into_iter().eq(0..1000));
    assert!(sampler(1, 50).draw(0, &mut *random).is_empty());
}

/// The digits of rate / c computed a second way; a uniform number that agrees with them for one, two or three digits and
/// then falls below (above) is kept (dropped).
#[test]
fn thinning_refines_ties() {
    for (numerator, denominator) in [(1, 10), (1, 1000), (12_345, 67_890_123), (1, 1 << 50)] {
        let thinning = Thinning::new(Probability::new(numerator, denominator).unwrap());
        let lambda = Dyadic { numerator: thinning.steps.into(), fraction_bits: thinning.shift.into() };
        let (lower, _) = reference::exp_neg(&lambda, 600);
        let complement = (BigUint::from(1u8) << 600u32) - lower;
        // 32 + 3 * 64 bits.
        let keep = (BigUint::from(numerator) << 824u32) / (complement * denominator);
        let mut digits: Vec<u64> = keep.iter_u64_digits().collect();
        digits.resize(4, 0);
        digits.reverse();
        assert_eq!(thinning.keep_digit, digits[0], "{numerator}/{denominator}");
        for agreeing in 0..4 {
            for (last, verdict) in
                [(digits[agreeing].checked_sub(1), true), (digits[agreeing].checked_add(1), false)]
            {
                let Some(last) = last else { continue };
                let mut script = Vec::new();
                for (place, digit) in digits[..agreeing].iter().chain([&last]).enumerate() {
                    let bytes = if place == 0 { KEEP_BYTES as usize } else { 8 };
                    script.extend(&digit.to_le_bytes()[..bytes]);
                }
                let length = script.len();
                let mut script = Scripted::new(&script, 0);
                assert_eq!(
                    thinning.keeps(&mut script),
                    verdict,
                    "{numerator}/{denominator}: {agreeing} {last:x}"
                );
                assert_eq!(script.taken, length);
            }
        }
    }
}

#[test]
fn candidates_are_frequent_enough_and_hardly_more() {
    for denominator in [4, 5, 17, 1000, 1 << 20, 1 << 36] {
        let thinning = Thinning::new(Probability::new(1, denominator).unwrap());
        let lambda = thinning.steps as f64 * 0.5f64.powi(thinning.shift as i32);
        let keep = 1.0 / denominator as f64 / -(-lambda).exp_m1();
        assert!(keep < 1.0 && keep > 0.98, "1/{denominator}: {keep}");
    }
}

#[test]
fn stream_method_is_the_same_draw() {
    let (mut a, mut b) = (stream(95), stream(95));
    let sampler = sampler(1, 25);
    assert_eq!(a.poisson_subsample(10_000, &sampler), sampler.draw(10_000, b.bytes()));
    assert_eq!(sampler.rate(), Probability::new(1, 25).unwrap());
}
