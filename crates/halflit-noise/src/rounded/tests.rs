//! Hypothesis of every test: the draws are independent with law round(2^bits Z). Level 1e-6 each, seeds fixed. Power: the
//! same test must reject a scale wrong by 2 % and a shift of 0.01.

use super::*;
use crate::statistics::{above, counts_fit, distribution_fits, frequency_fits, stream, uncorrelated};

const LAWS: [Law; 3] = [Law::Normal, Law::Laplace, Law::Exponential];

fn bits(bits: u32) -> FractionBits {
    FractionBits::new(bits).unwrap()
}

fn draws(law: Law, bits: FractionBits, seed: u8, count: usize) -> Vec<i64> {
    let mut out = vec![0; count];
    stream(seed).fill_rounded(law, bits, &mut out);
    out
}

/// Hands out `count` draws in batches, so that large counts need little memory.
fn in_batches(law: Law, bits: FractionBits, seed: u8, count: usize, mut use_batch: impl FnMut(&[i64])) {
    let (mut stream, mut batch) = (stream(seed), vec![0; 1 << 20]);
    let mut left = count;
    while left > 0 {
        let size = left.min(batch.len());
        stream.fill_rounded(law, bits, &mut batch[..size]);
        use_batch(&batch[..size]);
        left -= size;
    }
}

/// P(V >= v): V >= v iff Z rounds to at least v, that is 2^bits Z >= v - 1/2.
fn at_least(law: Law, bits: FractionBits, v: i64) -> f64 {
    above(law, (v as f64 - 0.5) / bits.scale())
}

fn at_most(law: Law, bits: FractionBits, v: i64) -> f64 {
    1.0 - at_least(law, bits, v + 1)
}

/// Cells of equal width between `first` and `last` (in units of the scale), and one open cell at each end that has any
/// probability: 130 cells for normal and Laplace, 129 for the exponential.
struct Cells {
    law: Law,
    bits: FractionBits,
    first: i64,
    width: i64,
    inner: i64,
}

impl Cells {
    fn new(law: Law, bits: FractionBits) -> Self {
        let unit = 1i64 << bits.get();
        let (first, width) = match law {
            Law::Normal => (-4 * unit, unit / 16),
            Law::Laplace => (-8 * unit, unit / 8),
            Law::Exponential => (0, unit / 16),
        };
        Cells { law, bits, first, width, inner: 128 }
    }

    /// Lower ends of all cells but the lowest.
    fn edges(&self) -> Vec<i64> {
        let skipped = i64::from(self.law == Law::Exponential);
        (skipped..=self.inner).map(|i| self.first + i * self.width).collect()
    }

    fn probabilities(&self) -> Vec<f64> {
        let tails: Vec<f64> = self.edges().into_iter().map(|v| at_least(self.law, self.bits, v)).collect();
        let inner = tails.windows(2).map(|pair| pair[0] - pair[1]);
        std::iter::once(1.0 - tails[0]).chain(inner).chain([tails[tails.len() - 1]]).collect()
    }

    fn counts(&self, draws: &[i64]) -> Vec<u64> {
        let edges = self.edges();
        let mut counts = vec![0; edges.len() + 1];
        for &v in draws {
            let cell = (v - edges[0]).div_euclid(self.width).clamp(-1, edges.len() as i64 - 1) + 1;
            counts[cell as usize] += 1;
        }
        counts
    }

    fn fit(&self, draws: &[i64]) -> bool {
        counts_fit(&self.counts(draws), &self.probabilities())
    }
}

/// Draws as a sampler with the scale 2 % too small or too large, or shifted by 0.01, would give them.
fn distortions(bits: FractionBits) -> [impl Fn(i64) -> i64; 4] {
    let unit = 1i64 << bits.get();
    [(98, 0), (102, 0), (100, 1), (100, -1)].map(move |(percent, hundredths)| {
        move |v: i64| (i128::from(v) * percent / 100 + i128::from(hundredths * unit / 100)) as i64
    })
}

#[test]
fn cells_have_the_exact_probabilities() {
    for (seed, law) in (10..).zip(LAWS) {
        for k in [16, 20, 31, 44] {
            let drawn = draws(law, bits(k), seed, 4_000_000);
            assert!(Cells::new(law, bits(k)).fit(&drawn), "{law:?} at {k} bits");
        }
    }
}

#[test]
fn cell_test_rejects_wrong_scales_and_shifts() {
    for (seed, law) in (10..).zip(LAWS) {
        let drawn = draws(law, bits(20), seed, 4_000_000);
        let cells = Cells::new(law, bits(20));
        for (i, distort) in distortions(bits(20)).into_iter().enumerate() {
            let distorted: Vec<i64> = drawn.iter().map(|&v| distort(v)).collect();
            assert!(!cells.fit(&distorted), "{law:?}, distortion {i}");
        }
    }
}

#[test]
fn distribution_function_is_exact_and_the_test_has_power() {
    for (seed, law) in (20..).zip(LAWS) {
        let k = bits(18);
        let drawn = draws(law, k, seed, 3_000_000);
        assert!(distribution_fits(drawn.clone(), |v| at_most(law, k, v)), "{law:?}");
        for (i, distort) in distortions(k).into_iter().enumerate() {
            let distorted = drawn.iter().map(|&v| distort(v)).collect();
            assert!(!distribution_fits(distorted, |v| at_most(law, k, v)), "{law:?}, distortion {i}");
        }
    }
}

/// The lowest digits of a rounded draw are uniform to far beyond what can be seen (Poisson summation: the deviation at
/// 2^-8 of the scale is below e^(-2 pi^2 2^16) for the normal and 1e-6 for the Laplace law; it is about 1e-3 for the
/// exponential, whose density jumps at zero, so that one is left out). A lost or repeated digit shows at once.
#[test]
fn lowest_digits_are_uniform() {
    for law in [Law::Normal, Law::Laplace] {
        for k in [16, 22, 23, 24, 30, 38, 39, 44] {
            let mut low = vec![0; 256];
            let mut next = vec![0; 256];
            for v in draws(law, bits(k), 30, 1_000_000) {
                low[v.rem_euclid(256) as usize] += 1;
                next[(v >> (k - 16)).rem_euclid(256) as usize] += 1;
            }
            assert!(counts_fit(&low, &[1.0 / 256.0; 256]), "{law:?}: lowest eight of {k} bits");
            assert!(counts_fit(&next, &[1.0 / 256.0; 256]), "{law:?}: digits 9 to 16 of {k} bits");
        }
    }
}

#[test]
fn zero_and_its_neighbours_have_the_exact_probability() {
    let (k, draws) = (bits(16), 30_000_000);
    for (seed, law) in (40..).zip(LAWS) {
        let mut counts = [0; 4];
        in_batches(law, k, seed, draws, |batch| {
            for &v in batch {
                if (-1..=2).contains(&v) {
                    counts[(v + 1) as usize] += 1;
                }
            }
        });
        for (v, count) in (-1..).zip(counts) {
            let probability = at_least(law, k, v) - at_least(law, k, v + 1);
            assert!(frequency_fits(count, draws as u64, probability), "{law:?}: {count} draws of {v}");
            // Power: twice or half the probability (a sign or a rounding gone wrong) is rejected.
            if probability > 0.0 {
                assert!(!frequency_fits(count, draws as u64, probability * 2.0));
                assert!(!frequency_fits(count, draws as u64, probability / 2.0));
            }
        }
    }
}

/// Exceedances that plain sampling can see. Farther out, to 8 sigma, see the tail blocks in strips/tests.rs.
#[test]
fn exceedances_have_the_exact_probability() {
    let (k, draws) = (bits(20), 100_000_000);
    for (law, thresholds) in [(Law::Normal, [3.0, 4.0, 4.5, 5.0]), (Law::Exponential, [8.0, 9.0, 12.0, 14.0])]
    {
        let edges = thresholds.map(|threshold| (threshold * k.scale()) as i64);
        let mut seen = [0; 4];
        in_batches(law, k, 50, draws, |batch| {
            for v in batch.iter().map(|v| v.abs()).filter(|&v| v >= edges[0]) {
                for (seen, edge) in seen.iter_mut().zip(edges) {
                    *seen += u64::from(v >= edge);
                }
            }
        });
        for ((threshold, edge), seen) in thresholds.into_iter().zip(edges).zip(seen) {
            let sides = if law == Law::Normal { 2.0 } else { 1.0 };
            let fits = |probability: f64| frequency_fits(seen, draws as u64, sides * probability);
            assert!(fits(at_least(law, k, edge)), "{law:?}: {seen} beyond {threshold}");
            // Power: a scale wrong by 2 % changes the tail by e^(0.02 x^2) or e^(0.02 x); enough counts up to 4 and 9.
            if threshold <= 4.0 || law == Law::Exponential && threshold <= 9.0 {
                assert!(!fits(above(law, threshold / 0.98)) && !fits(above(law, threshold / 1.02)));
            }
        }
    }
}

fn floats(values: &[i64]) -> impl Iterator<Item = f64> + '_ {
    values.iter().map(|&v| v as f64)
}

/// Neighbouring draws, magnitudes of neighbouring draws, draws of two streams, draws of two calls and draws on both sides
/// of a chunk border: uncorrelated. A dependence of 1 % is rejected.
#[test]
fn draws_are_independent_across_positions_calls_and_streams() {
    let n = 1_000_000;
    for (seed, law) in (60..).zip(LAWS) {
        let drawn = draws(law, bits(32), seed, n);
        for lag in [1, 2, 3, 8, crate::source::CHUNK_DRAWS] {
            assert!(uncorrelated(floats(&drawn).zip(floats(&drawn[lag..]))), "{law:?}, lag {lag}");
            let magnitudes = |v: &[i64]| v.iter().map(|v| v.abs() as f64).collect::<Vec<_>>();
            let (here, there) = (magnitudes(&drawn), magnitudes(&drawn[lag..]));
            assert!(uncorrelated(here.into_iter().zip(there)), "{law:?}, magnitudes, lag {lag}");
        }
        let echo = drawn.iter().zip(&drawn[1..]).map(|(&a, &b)| (a as f64, b as f64 + 0.01 * a as f64));
        assert!(!uncorrelated(echo), "{law:?}: an echo of 1 % is not seen");

        let mut source = crate::NoiseSource::seeded_for_tests([seed; 32]);
        let mut streams = [source.stream().unwrap(), source.stream().unwrap()];
        let mut other = [vec![0; n], vec![0; n]];
        for (stream, out) in streams.iter_mut().zip(&mut other) {
            stream.fill_rounded(law, bits(32), out);
        }
        assert!(uncorrelated(floats(&other[0]).zip(floats(&other[1]))), "{law:?}: streams");
        let mut second_call = vec![0; n];
        streams[0].fill_rounded(law, bits(32), &mut second_call);
        assert!(uncorrelated(floats(&other[0]).zip(floats(&second_call))), "{law:?}: calls");
        assert!(other[0].iter().zip(&second_call).filter(|(a, b)| a == b).count() < 10);
    }
}

#[test]
fn bulk_fills_do_not_depend_on_threads() {
    for law in LAWS {
        for count in [0, 1, 100, crate::source::CHUNK_DRAWS, crate::source::CHUNK_DRAWS + 1, 100_000] {
            let expected = draws(law, bits(24), 70, count);
            for threads in [1, 2, 7] {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                let mut out = vec![0; count];
                let mut stream = stream(70);
                pool.install(|| stream.par_fill_rounded(law, bits(24), &mut out));
                assert_eq!(out, expected, "{law:?}: {count} draws on {threads} threads");
            }
        }
    }
}

#[test]
fn single_draws_and_short_fills_are_one_sequence() {
    let mut single = stream(71);
    let one_by_one: Vec<i64> = (0..500).map(|_| single.rounded(Law::Normal, bits(40))).collect();
    assert_eq!(one_by_one, draws(Law::Normal, bits(40), 71, 500));
}

#[test]
fn fraction_bits_outside_the_range_are_refused() {
    for value in [0, 15, 45, u32::MAX] {
        assert_eq!(FractionBits::new(value), Err(NoiseError::FractionBits { value, least: 16, most: 44 }));
    }
}

#[test]
fn rounding_is_to_the_nearest_integer() {
    for (magnitude, rounded) in [(0, 0), (1, 1), (2, 1), (3, 2), (4, 2), (5, 3)] {
        assert_eq!(halve_up(magnitude), rounded);
        assert_eq!(signed(Draw { sign: 1, magnitude }), -rounded);
        assert_eq!(signed(Draw { sign: 0, magnitude }), rounded);
    }
    assert_eq!(signed(Draw { sign: 1, magnitude: i64::MAX as u64 }), -(1 << 62));
}
