//! Published tables, and published mistakes: the naive accounting understates, ours does not.

use crate::{delta, epsilon, poisson, times};
use halflit_privacy::calibrate::{Budget, noise_multiplier};
use halflit_privacy::special::normal_cdf;
use halflit_privacy::{
    BatchStatistic, Change, Event, L2Radius, NoiseMultiplier, NoiseStd, Profile, SamplingRate,
};

/// Paper 002, Tables 11 and 12: fraction of public rows, noise multiplier at epsilon 2, at epsilon 4
/// (n = 30,000, 500 private rows a batch, T = 5,000, delta = 1e-5).
const TABLES_11_AND_12: [(f64, f64, f64); 9] = [
    (0.01, 2.490, 1.470),
    (0.03, 2.529, 1.489),
    (0.04, 2.568, 1.509),
    (0.1, 2.744, 1.597),
    (0.25, 3.252, 1.860),
    (0.5, 4.805, 2.671),
    (0.75, 9.531, 5.176),
    (0.9, 23.672, 12.812),
    (0.95, 47.344, 25.586),
];

/// Their noise is that of zero-out at the rate 1/ceil(n_priv/500), within 1 %.
#[test]
fn paper_002_tables_11_and_12_are_zero_out() {
    for (public, at_two, at_four) in TABLES_11_AND_12 {
        let private = (30_000.0 * (1.0 - public)).round() as u64;
        let rate = SamplingRate::at_least(1, private.div_ceil(500)).unwrap();
        for (eps, published) in [(2.0, at_two), (4.0, at_four)] {
            let budget = Budget { epsilon: epsilon(eps), delta: delta(1e-5) };
            let plan = |noise_multiplier: NoiseMultiplier| {
                times(Event::PoissonGaussian { rate, noise_multiplier, change: Change::ZeroOut }, 5_000)
            };
            let ours = noise_multiplier(budget, plan).unwrap();
            assert!(ours.epsilon.upper <= eps);
            assert!(
                (ours.value.get() / published - 1.0).abs() < 0.01,
                "{public} {eps}: {} {published}",
                ours.value
            );
        }
    }
}

/// Under replace the same noise is far from (2, 1e-5): delta is 1.48e-2 at the papers' rate 1/60 and 1.58e-2 at 500/29,700.
#[test]
fn paper_002_noise_is_not_enough_under_replace() {
    for (rate, expected) in [(1.0 / 60.0, 1.475e-2), (500.0 / 29_700.0, 1.58e-2)] {
        let priced = Profile::of(&times(poisson(rate, 2.490, Change::Replace), 5_000)).unwrap();
        let spent = priced.delta(epsilon(2.0));
        assert!(spent.upper < 1.01 * spent.lower);
        assert!((spent.upper / expected - 1.0).abs() < 0.005, "{rate}: {spent:?}");
        // In epsilon at delta 1e-5: more than twice what the table says.
        assert!(priced.epsilon(delta(1e-5)).lower > 4.0, "{:?}", priced.epsilon(delta(1e-5)));
    }
}

/// Paper 003, Theorem 2.1, prices a Poisson-sampled sum with the DIAMETER of the private gradients. Gradients (1, 0) and
/// (1, 0.1), noise 0.05, rate 0.01: whoever sees the first coordinate near one knows that the unit was sampled, and the second
/// then tells the two apart as well as without sampling.
#[test]
fn a_diameter_under_sampling_understates() {
    let (rate, noise, eps) = (0.01, 0.05, 2.0);
    // What the theorem claims: multiplier noise/diameter, zero-out.
    let claimed = Profile::of(&poisson(rate, noise / 0.1, Change::ZeroOut)).unwrap().delta(epsilon(eps));
    assert!((claimed.upper / 5.4e-5 - 1.0).abs() < 0.01, "{claimed:?}");
    // What is true at least: P(A) - e^eps Q(A) for A = {first > 1/2, second < t}, with exact normal probabilities.
    let set = |second_mean: f64, t: f64| {
        let sampled = normal_cdf((1.0 - 0.5) / noise) * normal_cdf((t - second_mean) / noise);
        let not_sampled = normal_cdf(-0.5 / noise) * normal_cdf(t / noise);
        rate * sampled + (1.0 - rate) * not_sampled
    };
    let attack = |t: f64| set(0.0, t) - eps.exp() * set(0.1, t);
    let truth = (0..200).map(|j| attack(-0.05 + 0.001 * f64::from(j))).fold(0.0, f64::max);
    assert!(truth > 3.3e-3 && truth > 50.0 * claimed.upper, "{truth}");
    // Ours takes the enforced radius, sqrt(1.01), and cannot be given a diameter.
    let radius = L2Radius::new(1.01f64.sqrt()).unwrap();
    let multiplier = NoiseMultiplier::of(NoiseStd::new(noise).unwrap(), radius).unwrap();
    let ours = Profile::of(&poisson(rate, multiplier.get(), Change::Replace)).unwrap().delta(epsilon(eps));
    assert!(ours.upper >= truth, "{ours:?} {truth}");
    // Centred at (1, 0.05) first, the radius is 0.05 and the price is small, and honest.
    let radius = L2Radius::new(0.05).unwrap();
    let multiplier = NoiseMultiplier::of(NoiseStd::new(noise).unwrap(), radius).unwrap();
    let centred = Profile::of(&poisson(rate, multiplier.get(), Change::Replace)).unwrap().delta(epsilon(eps));
    assert!(centred.upper < truth, "{centred:?}");
}

/// A gradient and a count computed on the same batch are one event. Charged as two sampled events they seem to come from
/// two batches, and delta is understated by a factor of 500.
#[test]
fn statistics_of_one_batch_charged_separately_understate() {
    let statistic = |radius: f64, noise: f64| BatchStatistic {
        l2_radius: L2Radius::new(radius).unwrap(),
        noise_std: NoiseStd::new(noise).unwrap(),
    };
    let rate = SamplingRate::new(0.001).unwrap();
    for change in [Change::ZeroOut, Change::Replace] {
        // The clip-quantile count is a centred indicator: radius 1/2.
        let joint = Event::poisson_batch(rate, &[statistic(1.0, 1.0), statistic(0.5, 0.5)], change).unwrap();
        let expected = poisson(0.001, 0.5f64.sqrt(), change);
        let (
            Event::PoissonGaussian { noise_multiplier: a, .. },
            Event::PoissonGaussian { noise_multiplier: b, .. },
        ) = (&joint, &expected)
        else {
            panic!("one sampled event")
        };
        assert!(a.get() <= b.get() && a.get() > b.get() * (1.0 - 1e-14));
        let one = || poisson(0.001, 1.0, change);
        let naive = Profile::of(&Event::Composed(vec![one(), one()])).unwrap().delta(epsilon(2.0));
        let ours = Profile::of(&joint).unwrap().delta(epsilon(2.0));
        assert!(ours.lower > 500.0 * naive.upper, "{ours:?} {naive:?}");
        // The truth, by an attack on the sum of the two outputs, which has multiplier 1/sqrt(2): exact normal tails.
        let (q, k) = (0.001, 2.0f64.sqrt());
        let far = if change == Change::Replace { k } else { 0.0 };
        let tail = |mean: f64, t: f64| (1.0 - q) * normal_cdf(-t) + q * normal_cdf(mean - t);
        let attack = |t: f64| tail(k, t) - 2.0f64.exp() * tail(-far, t);
        let truth = (0..400).map(|j| attack(0.02 * f64::from(j))).fold(0.0, f64::max);
        assert!(truth <= ours.upper && truth > 0.99 * ours.lower && truth > 500.0 * naive.upper, "{truth}");
    }
}
