//! What statistical tests share: exact tails and tests of level alpha = 1e-6.

use crate::{Law, NoiseSource, Stream};

/// The level of every test here. Seeds are fixed, so a test that passes once passes always.
pub(crate) const ALPHA: f64 = 1e-6;

pub(crate) fn stream(seed: u8) -> Stream {
    NoiseSource::seeded_for_tests([seed; 32]).stream().expect("a seeded source needs no system key")
}

/// P(Z >= x) for the continuous law at scale one, accurate in the tail: erfc of the libm crate is within one unit in the
/// last place (checked against mpmath below).
pub(crate) fn above(law: Law, x: f64) -> f64 {
    match law {
        Law::Normal => libm::erfc(x / std::f64::consts::SQRT_2) / 2.0,
        Law::Laplace if x < 0.0 => 1.0 - (x.exp() / 2.0),
        Law::Laplace => (-x).exp() / 2.0,
        Law::Exponential => (-x.max(0.0)).exp(),
    }
}

/// Upper 1e-6 points of the chi-square law by degrees of freedom: scipy 1.17.1, scipy.stats.chi2.isf(1e-6, df).
const CHI_SQUARE_CRITICAL: [(usize, f64); 12] = [
    (9, 44.810_937_870_687_82),
    (15, 56.493_442_499_773_38),
    (20, 65.420_681_035_047_83),
    (25, 73.894_538_622_868_1),
    (29, 80.435_970_420_492_45),
    (30, 82.044_143_137_042_84),
    (32, 85.231_550_717_098_97),
    (40, 97.652_957_415_063_04),
    (119, 207.198_609_255_720_2),
    (128, 218.906_376_083_433_86),
    (129, 220.201_334_697_405_1),
    (255, 377.078_115_498_986_73),
];

/// Whether counts agree with cell probabilities by Pearson's chi-square test at level 1e-6.
///
/// Every cell must expect at least 20 counts, so that the chi-square approximation holds.
pub(crate) fn counts_fit(counts: &[u64], probabilities: &[f64]) -> bool {
    assert_eq!(counts.len(), probabilities.len());
    let total: f64 = probabilities.iter().sum();
    assert!((total - 1.0).abs() < 1e-12, "cell probabilities sum to {total}");
    let draws = counts.iter().sum::<u64>() as f64;
    let statistic: f64 = counts
        .iter()
        .zip(probabilities)
        .map(|(&count, &probability)| {
            let expected = draws * probability;
            assert!(expected >= 20.0, "a cell expects {expected} counts");
            (count as f64 - expected).powi(2) / expected
        })
        .sum();
    let (_, critical) = CHI_SQUARE_CRITICAL
        .into_iter()
        .find(|&(freedom, _)| freedom + 1 == counts.len())
        .expect("add this number of cells to the table");
    statistic < critical
}

/// Whether `successes` of `trials` agree with a success probability, at level 1e-6 exactly bounded: by Chernoff each side
/// has probability at most e^(-trials KL(successes / trials, probability)).
pub(crate) fn frequency_fits(successes: u64, trials: u64, probability: f64) -> bool {
    let (k, n, p) = (successes as f64, trials as f64, probability);
    let term = |count: f64, expected: f64| if count == 0.0 { 0.0 } else { count * (count / expected).ln() };
    term(k, n * p) + term(n - k, n * (1.0 - p)) < (2.0 / ALPHA).ln()
}

/// Whether draws agree with a distribution function by the Kolmogorov-Smirnov test: by the Dvoretzky-Kiefer-Wolfowitz
/// inequality with Massart's constant, valid for every law and every n, the distance exceeds sqrt(ln(2/alpha) / 2n) with
/// probability at most alpha. `at_most(v)` is P(V <= v).
pub(crate) fn distribution_fits(mut draws: Vec<i64>, at_most: impl Fn(i64) -> f64) -> bool {
    draws.sort_unstable();
    let n = draws.len() as f64;
    let critical = ((2.0 / ALPHA).ln() / (2.0 * n)).sqrt();
    let mut seen = 0.0;
    draws.chunk_by(|a, b| a == b).all(|ties| {
        let before = (seen / n - at_most(ties[0] - 1)).abs();
        seen += ties.len() as f64;
        let after = (seen / n - at_most(ties[0])).abs();
        before < critical && after < critical
    })
}

/// Whether two sequences look uncorrelated: n^(1/2) r is standard normal to first order, |z| < 4.892 has level 1e-6.
pub(crate) fn uncorrelated(pairs: impl Iterator<Item = (f64, f64)>) -> bool {
    let (mut n, mut x1, mut y1, mut xx, mut yy, mut xy) = (0.0f64, 0.0, 0.0, 0.0, 0.0, 0.0);
    for (x, y) in pairs {
        n += 1.0;
        x1 += x;
        y1 += y;
        xx += x * x;
        yy += y * y;
        xy += x * y;
    }
    let covariance = xy / n - x1 / n * (y1 / n);
    let variances = (xx / n - (x1 / n).powi(2)) * (yy / n - (y1 / n).powi(2));
    (n.sqrt() * covariance / variances.sqrt()).abs() < 4.892
}

#[cfg(test)]
mod tests {
    use super::*;

    /// mpmath 1.3.0 at 50 digits: erfc(x / sqrt(2)) / 2.
    #[test]
    fn normal_tails_agree_with_arbitrary_precision_software() {
        for (x, tail) in [
            (0.5, 3.085_375_387_259_869e-1),
            (3.0, 1.349_898_031_630_094_6e-3),
            (5.0, 2.866_515_718_791_939e-7),
            (7.0, 1.279_812_543_885_835e-12),
            (8.25, 7.919_726_314_642_477e-17),
        ] {
            let error = above(Law::Normal, x) / tail - 1.0;
            assert!(error.abs() < 1e-14, "tail at {x} is off by {error}");
        }
    }

    #[test]
    fn critical_values_separate() {
        assert!(frequency_fits(500, 1000, 0.5) && !frequency_fits(600, 1000, 0.5));
        assert!(frequency_fits(0, 10, 0.5) && !frequency_fits(0, 30, 0.5));
        assert!(uncorrelated((0..1000).map(|i| (f64::from(i % 7), f64::from(i % 11)))));
        assert!(!uncorrelated((0..1000).map(|i| (f64::from(i % 7), f64::from(i % 14)))));
    }
}
