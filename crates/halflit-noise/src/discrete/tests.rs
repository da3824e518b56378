//! Level 1e-6 per test, seeds fixed. Power: a probability wrong by 2 % is rejected (6 % for e^-5).

use super::*;
use crate::keystream::testing::{Scripted, keystream};
use crate::statistics::{counts_fit, frequency_fits, stream};

fn ratio(numerator: u64, denominator: u64) -> Rational {
    Rational::new(numerator, denominator).unwrap()
}

fn successes(trials: u64, mut trial: impl FnMut() -> bool) -> u64 {
    (0..trials).filter(|_| trial()).count() as u64
}

/// The counts agree with `probability`, and disagree with one that is wrong by the relative `error`.
fn assert_frequency(seen: u64, trials: u64, probability: f64, error: f64) {
    assert!(frequency_fits(seen, trials, probability), "{seen} of {trials}, expected {probability}");
    for wrong in [probability * (1.0 - error), probability * (1.0 + error)] {
        assert!(wrong >= 1.0 || !frequency_fits(seen, trials, wrong), "no power against {wrong}");
    }
}

#[test]
fn coins_have_their_probability() {
    let mut random = keystream(81);
    let trials = 3_000_000;
    for (numerator, denominator) in [(1, 2), (1, 3), (999, 1000), (1, 10), (u64::MAX - 1, u64::MAX)] {
        let coin = Coin::new(Probability::new(numerator, denominator).unwrap());
        let seen = successes(trials, || coin.throw(&mut *random));
        assert_frequency(seen, trials, numerator as f64 / denominator as f64, 0.02);
    }
    for (numerator, denominator, always) in [(0, 7, false), (7, 7, true), (1, u64::MAX, false)] {
        let coin = Coin::new(Probability::new(numerator, denominator).unwrap());
        assert!((0..10_000).all(|_| coin.throw(&mut *random) == always));
    }
    for (numerator, always) in [(0, false), (7, true)] {
        let coin = Coin::new(Probability::new(numerator, 7).unwrap());
        for word in [0, u64::MAX] {
            assert_eq!(coin.throw(&mut Scripted::words(&[word; 4])), always);
        }
    }
}

/// Ties in the first digit, and in the second, are settled by the next one: 1/3 = 0.5555.. in base 16, 1/2 = 0.8.
#[test]
fn ties_are_settled_by_later_digits() {
    let third = Coin::new(Probability::new(1, 3).unwrap());
    let fives = 0x5555_5555_5555_5555;
    for (words, verdict) in [
        ([fives - 1, 0, 0], true),
        ([fives + 1, 0, 0], false),
        ([fives, fives - 1, 0], true),
        ([fives, fives + 1, 0], false),
        ([fives, fives, 0], true),
        ([fives, fives, u64::MAX], false),
    ] {
        assert_eq!(third.throw(&mut Scripted::words(&words)), verdict, "{words:x?}");
    }
    let half = Coin::new(Probability::new(1, 2).unwrap());
    assert!(half.throw(&mut Scripted::words(&[(1 << 63) - 1])));
    assert!(!half.throw(&mut Scripted::words(&[1 << 63])));
}

#[test]
fn exponential_coins_have_their_probability() {
    let mut random = keystream(82);
    for (exponent, trials, error) in [
        (ratio(1, 1000), 1_000_000, 0.02),
        (ratio(1, 2), 1_000_000, 0.02),
        (ratio(1, 1), 1_000_000, 0.02),
        (ratio(u64::MAX / 2, u64::MAX), 1_000_000, 0.02),
        (ratio(7, 3), 3_000_000, 0.02),
        (ratio(5, 1), 3_000_000, 0.06),
    ] {
        let seen = successes(trials, || bernoulli_exp_neg(exponent, &mut *random));
        assert_frequency(seen, trials, (-exponent.to_f64()).exp(), error);
    }
    assert!((0..1000).all(|_| bernoulli_exp_neg(ratio(0, 5), &mut *random)));
    // e^-(2^64): the first of 2^64 coins to fail ends it.
    assert!((0..1000).all(|_| !bernoulli_exp_neg(ratio(u64::MAX, 1), &mut *random)));
}

#[test]
fn uniform_integers_are_uniform() {
    let mut random = keystream(83);
    let mut counts = [0; 10];
    for _ in 0..1_000_000 {
        counts[uniform_below(NonZeroU64::new(10).unwrap(), &mut *random) as usize] += 1;
    }
    assert!(counts_fit(&counts, &[0.1; 10]));
    let mut biased = [0.1; 10];
    (biased[0], biased[1]) = (0.102, 0.098);
    assert!(!counts_fit(&counts, &biased));

    // 3 * 2^62 results: without the second draw a third of them would come up twice as often.
    let bound = NonZeroU64::new(3 << 62).unwrap();
    let low = successes(1_000_000, || uniform_below(bound, &mut *random) < 1 << 62);
    assert_frequency(low, 1_000_000, 1.0 / 3.0, 0.02);
    let thirds = successes(1_000_000, || uniform_below(bound, &mut *random).is_multiple_of(3));
    assert_frequency(thirds, 1_000_000, 1.0 / 3.0, 0.02);
    assert_eq!(uniform_below(NonZeroU64::MIN, &mut *random), 0);
}

#[test]
fn permutations_are_uniform() {
    let mut stream = stream(84);
    let mut counts = [0; 120];
    for _ in 0..240_000 {
        let order = stream.permutation(5);
        // The rank of the order among all 120.
        let rank = (0..5).fold(0, |rank, i| {
            let smaller_later = order[i + 1..].iter().filter(|&&later| later < order[i]).count();
            rank * (5 - i) + smaller_later
        });
        counts[rank] += 1;
    }
    assert!(counts_fit(&counts, &[1.0 / 120.0; 120]));
    // Power: one order 20 % too frequent at the cost of another is rejected.
    let mut biased = [1.0 / 120.0; 120];
    (biased[3], biased[4]) = (1.2 / 120.0, 0.8 / 120.0);
    assert!(!counts_fit(&counts, &biased));
    assert!(stream.permutation(0).is_empty());
    let mut long = stream.permutation(1000);
    long.sort_unstable();
    assert!(long.into_iter().eq(0..1000));
}

#[test]
fn geometric_variables_have_their_law() {
    let mut random = keystream(85);
    for rate in [ratio(1, 2), ratio(3, 7), ratio(9, 10)] {
        let decay = (-rate.to_f64()).exp();
        let mut counts = [0; 10];
        for _ in 0..1_000_000 {
            counts[geometric(rate, &mut *random).min(9) as usize] += 1;
        }
        let law = |decay: f64| {
            (0..9).map(|m| (1.0 - decay) * decay.powi(m)).chain([decay.powi(9)]).collect::<Vec<f64>>()
        };
        assert!(counts_fit(&counts, &law(decay)), "{rate}");
        assert!(!counts_fit(&counts, &law(decay * 1.02)), "{rate}: no power");
    }
}

/// Both ways of drawing, on supports where each is used and where the other one would be.
#[test]
fn truncated_discrete_laplace_has_its_law() {
    let mut random = keystream(86);
    for (rate, centre) in
        [(ratio(1, 4), 15), (ratio(1, 20), 15), (ratio(0, 1), 10), (ratio(1, 2), 10), (ratio(1, 3), 15)]
    {
        let law = TruncatedDiscreteLaplace::new(rate, centre).unwrap();
        let draw_counts = |draw: &mut dyn FnMut() -> u64| {
            let mut counts = vec![0; 2 * centre as usize + 1];
            for _ in 0..1_000_000 {
                counts[draw() as usize] += 1;
            }
            counts
        };
        let probabilities = |rate: f64| {
            let weights: Vec<f64> =
                (0..=2 * centre).map(|r| (-rate * r.abs_diff(centre) as f64).exp()).collect();
            let total: f64 = weights.iter().sum();
            weights.into_iter().map(|weight| weight / total).collect::<Vec<f64>>()
        };
        let counts = draw_counts(&mut || law.draw(&mut *random));
        assert!(counts_fit(&counts, &probabilities(rate.to_f64())), "{law:?}");
        assert!(!counts_fit(&counts, &probabilities(rate.to_f64() * 1.02 + 0.004)), "{law:?}: no power");
        if rate.numerator() > 0 {
            assert!(counts_fit(
                &draw_counts(&mut || law.draw_steep(&mut *random)),
                &probabilities(rate.to_f64())
            ));
        }
    }
    let point = TruncatedDiscreteLaplace::new(ratio(1, 1), 0).unwrap();
    assert_eq!(point.draw(&mut *random), 0);
    assert!(TruncatedDiscreteLaplace::new(ratio(1, 1), u64::MAX).is_err());
    let wide = TruncatedDiscreteLaplace::new(ratio(1, u64::MAX), 1 << 62).unwrap();
    assert!((0..100).all(|_| wide.draw(&mut *random) <= 1 << 63));
}

#[test]
fn stream_methods_are_the_same_draws() {
    let (mut a, mut b) = (stream(87), stream(87));
    let random = b.bytes();
    let probability = Probability::new(1, 3).unwrap();
    let law = TruncatedDiscreteLaplace::new(ratio(1, 3), 12).unwrap();
    let bound = NonZeroU64::new(1000).unwrap();
    for _ in 0..100 {
        assert_eq!(a.bernoulli(probability), Coin::new(probability).throw(random));
        assert_eq!(a.bernoulli_exp_neg(ratio(2, 3)), bernoulli_exp_neg(ratio(2, 3), random));
        assert_eq!(a.uniform_below(bound), uniform_below(bound, random));
        assert_eq!(a.truncated_discrete_laplace(law), law.draw(random));
    }
}
