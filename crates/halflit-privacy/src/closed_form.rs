//! Closed forms: the Gaussian mechanism, zero-concentrated privacy, and the solvers that invert curves.

use crate::number::Interval;
use crate::special::{mills_difference, mills_ratio, normal_cdf, normal_density};
use libm::{exp, log, log1p};

/// Relative error of the special functions behind the closed forms (measured: 2e-14; stated with a margin).
pub(crate) const CLOSED_FORM_ERROR: f64 = 1e-12;

/// Beyond this mu squares overflow and nothing is hidden: no answer but the trivial one.
const LARGEST_MU: f64 = 1e100;

/// delta(eps) of a Gaussian mechanism with mu = sensitivity/std (Balle and Wang 2018), in Mills ratios:
///
/// Phi(-a) - e^eps Phi(-b) = phi(a) [R(a) - R(b)], a = eps/mu - mu/2, b = a + mu.
pub(crate) fn gaussian_delta(mu: f64, eps: f64) -> Interval {
    if mu == 0.0 {
        return Interval { lower: 0.0, upper: 0.0 };
    }
    if !(mu <= LARGEST_MU) {
        return Interval { lower: 0.0, upper: 1.0 };
    }
    let (a, size) = (eps / mu - 0.5 * mu, eps / mu + 0.5 * mu);
    if a > 1e9 {
        return Interval { lower: 0.0, upper: f64::MIN_POSITIVE };
    }
    let value = |a: f64| {
        if a < -5.0 {
            // Far to the left R(a) overflows and nothing cancels: Phi(-a) - phi(a) R(b).
            normal_cdf(-a) - normal_density(a) * mills_ratio(a + mu)
        } else {
            normal_density(a) * mills_difference(a, mu)
        }
    };
    // a is known to within `error`; for a fixed mu delta decreases in a, as it does in eps.
    let error = 2.0 * f64::EPSILON * size;
    let lower = value(a + error) * (1.0 - CLOSED_FORM_ERROR);
    let upper = value(a - error) * (1.0 + CLOSED_FORM_ERROR);
    Interval::new(lower.max(0.0), upper).at_most_one().never_zero()
}

/// The smallest eps >= 0 with delta(eps) <= delta.
pub(crate) fn gaussian_epsilon(mu: f64, delta: f64) -> Interval {
    if mu == 0.0 {
        return Interval { lower: 0.0, upper: 0.0 };
    }
    if delta == 0.0 {
        return Interval { lower: f64::INFINITY, upper: f64::INFINITY };
    }
    if !(mu <= LARGEST_MU) {
        return Interval { lower: 0.0, upper: f64::INFINITY };
    }
    // delta(mu^2/2 + mu t) <= Phi(-t): far enough out for any positive double.
    let far = 0.5 * mu * mu + 40.0 * mu;
    let upper = smallest_epsilon(far, |eps| gaussian_delta(mu, eps).upper <= delta);
    let lower = largest_epsilon(far, |eps| gaussian_delta(mu, eps).lower > delta);
    Interval::new(lower, upper)
}

/// delta of rho-zCDP at eps: inf over a > 1 of exp((a-1)(a rho - eps))/(a-1) (1 - 1/a)^a (Canonne, Kamath, Steinke 2020).
pub(crate) fn zcdp_delta(rho: f64, eps: f64) -> f64 {
    if rho == 0.0 {
        return 0.0;
    }
    let log_bound = |order: f64| renyi_log_delta(order, order * rho, eps);
    // The exponent is convex in the order; its minimum lies near (eps + rho)/(2 rho). Any order gives a valid bound.
    let guess = 1.0 + ((eps + rho) / (2.0 * rho) - 1.0).max(1e-3);
    let log_delta = minimum(log_bound, 1.0 + 1e-3 * (guess - 1.0), 1.0 + 10.0 * guess);
    (exp(log_delta) * (1.0 + CLOSED_FORM_ERROR)).clamp(f64::MIN_POSITIVE, 1.0)
}

/// log of exp((a-1)(R - eps))/(a-1) (1 - 1/a)^a, the delta that a Renyi bound R of order a gives at eps; rounded up.
pub(crate) fn renyi_log_delta(order: f64, renyi: f64, eps: f64) -> f64 {
    let gap = (order - 1.0) * (renyi - eps);
    let constant = order * log1p(-1.0 / order) - log(order - 1.0);
    gap + constant + 4.0 * f64::EPSILON * (1.0 + (order - 1.0) * (renyi.abs() + eps) + constant.abs())
}

/// The smallest value found by golden-section search for a unimodal function on [low, high], on a log scale from 1.
fn minimum(function: impl Fn(f64) -> f64, low: f64, high: f64) -> f64 {
    const GOLDEN: f64 = 0.618_033_988_749_894_9;
    let at = |t: f64| function(1.0 + exp(t));
    let (mut left, mut right) = (log(low - 1.0), log(high - 1.0));
    let mut inner = (right - GOLDEN * (right - left), left + GOLDEN * (right - left));
    let mut values = (at(inner.0), at(inner.1));
    for _ in 0..80 {
        if values.0 <= values.1 {
            right = inner.1;
            inner = (right - GOLDEN * (right - left), inner.0);
            values = (at(inner.0), values.0);
        } else {
            left = inner.0;
            inner = (inner.1, left + GOLDEN * (right - left));
            values = (values.1, at(inner.1));
        }
    }
    values.0.min(values.1)
}

/// The smallest eps in [0, inf) at which a condition that stays true once true holds, to one part in 1e14; the answer
/// satisfies the condition. Infinite if it fails up to 1e12 times `far`, or as far as doubles go.
pub(crate) fn smallest_epsilon(far: f64, holds: impl Fn(f64) -> bool) -> f64 {
    if holds(0.0) {
        return 0.0;
    }
    let mut high = far.max(1e-300);
    let mut low = 0.0;
    while !holds(high) {
        low = high;
        high *= 4.0;
        if !(high <= 1e12 * far && high.is_finite()) {
            return f64::INFINITY;
        }
    }
    bisect(low, high, &holds).1
}

/// The largest eps at which a condition that stays false once false still holds; zero if it never does.
pub(crate) fn largest_epsilon(far: f64, holds: impl Fn(f64) -> bool) -> f64 {
    if !holds(0.0) {
        return 0.0;
    }
    let mut high = far.max(1e-300);
    let mut low = 0.0;
    while holds(high) {
        low = high;
        high *= 4.0;
        if !(high <= 1e12 * far && high.is_finite()) {
            return low;
        }
    }
    bisect(low, high, &|eps| !holds(eps)).0
}

/// Narrows a bracket at whose lower end `above` is false and at whose upper end it is true.
fn bisect(mut low: f64, mut high: f64, above: &impl Fn(f64) -> bool) -> (f64, f64) {
    for _ in 0..1100 {
        // Geometric while the bracket spans several powers of two, so that small answers are found relatively.
        let middle = if low > 0.0 && high > 4.0 * low {
            libm::sqrt(low) * libm::sqrt(high)
        } else if low == 0.0 && high > 1e-300 {
            high * 0.25
        } else {
            low + 0.5 * (high - low)
        };
        if !(middle > low && middle < high) || high - low <= 1e-14 * high {
            break;
        }
        if above(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    (low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// (mu, eps, delta) from the definition, made with mpmath 1.3.0 at 50 digits; arguments are the doubles shown.
    const GAUSSIAN: [(f64, f64, f64); 10] = [
        (1.0, 1.0, 0.126_936_737_506_643_95),
        (1.0, 0.0, 0.382_924_922_548_026_2),
        (0.01, 0.05, 5.481_440_200_746_873e-10),
        (5.0, 33.0, 1.096_293_325_102_361e-5),
        (0.5, 4.0, 2.706_033_802_956_907e-16),
        (30.0, 400.0, 0.948_703_047_155_936_9),
        (0.000_1, 0.000_2, 8.491_551_721_200_35e-7),
        (1e3, 507_000.0, 1.270_741_330_975_977_5e-12),
        // A mu so small that a rounded end of the difference of Mills ratios would be felt.
        (1.3e-9, 1.7e-8, 2.192_353_059_199_501e-49),
        (3.7e-7, 1.9e-6, 9.502_484_685_363_147e-15),
    ];

    #[test]
    fn the_gaussian_curve_matches_golden_values() {
        for (mu, eps, delta) in GAUSSIAN {
            let answer = gaussian_delta(mu, eps);
            assert!(answer.lower <= delta && delta <= answer.upper, "{mu} {eps}: {answer:?} {delta}");
            assert!(answer.upper - answer.lower <= 1e-9 * delta, "{mu} {eps}: {answer:?}");
        }
    }

    #[test]
    fn epsilon_inverts_delta_on_the_safe_side() {
        for mu in [1e-3, 0.2, 1.0, 7.0, 3000.0] {
            for delta in [0.5, 1e-2, 1e-5, 1e-12, 1e-100] {
                let eps = gaussian_epsilon(mu, delta);
                assert!(eps.lower <= eps.upper);
                assert!(gaussian_delta(mu, eps.upper).upper <= delta);
                if eps.upper > 0.0 {
                    assert!(eps.upper - eps.lower <= 1e-9 * eps.upper, "{mu} {delta}: {eps:?}");
                }
            }
        }
        assert_eq!(gaussian_epsilon(1.0, 0.0).lower, f64::INFINITY);
        assert_eq!(gaussian_epsilon(0.0, 0.0).upper, 0.0);
    }

    /// A normal law reaches everywhere: no finite epsilon makes delta zero, also where the tail is below every double.
    #[test]
    fn an_underflow_is_not_a_guarantee() {
        for (mu, eps) in [(1e-3, 0.5), (1e-9, 1.0), (1.0, 1e9), (1e-200, 1e-3), (1e-320, 1.0)] {
            let delta = gaussian_delta(mu, eps);
            assert!(delta.lower == 0.0 && delta.upper > 0.0 && delta.upper < 1e-300, "{mu} {eps}: {delta:?}");
            assert!(zcdp_delta(0.5 * mu * mu, eps) > 0.0 || mu * mu == 0.0, "{mu} {eps}");
        }
    }

    /// Doubles this small lie 5e-324 apart, which no relative error covers: in these units the truths are 1495491.688, 33116.505
    /// and 15.760 (mpmath 1.3.0, 60 digits), and a lower end rounded to the nearest would lie above each of them.
    #[test]
    fn a_lower_end_without_all_its_digits_is_zero() {
        for eps in [38.5, 38.6, 38.8] {
            let delta = gaussian_delta(1.0, eps);
            assert_eq!((delta.lower, delta.upper), (0.0, f64::MIN_POSITIVE), "{eps}");
        }
        // 5.1e-308 has all its digits.
        assert!(gaussian_delta(1.0, 37.9).lower > 0.0);
    }

    /// No privacy at all has an answer, and in time.
    #[test]
    fn a_mu_beyond_every_square_is_answered() {
        for mu in [1e101, 1e160, 1e300, f64::INFINITY, f64::NAN] {
            assert_eq!(gaussian_epsilon(mu, 1e-6).upper, f64::INFINITY);
            assert_eq!(gaussian_delta(mu, 1.0).upper, 1.0);
        }
        assert_eq!(smallest_epsilon(f64::INFINITY, |_| false), f64::INFINITY);
        assert_eq!(largest_epsilon(f64::INFINITY, |_| true), f64::INFINITY);
    }

    /// The tight conversion beats the textbook one (eps = rho + 2 sqrt(rho log(1/delta))), and respects the Gaussian
    /// with the same rho, which is a rho-zCDP mechanism.
    #[test]
    fn zcdp_lies_between_the_gaussian_and_the_textbook() {
        for rho in [1e-4, 0.01, 0.5, 2.0, 50.0] {
            for delta in [1e-2f64, 1e-6, 1e-12] {
                let textbook = rho + 2.0 * (rho * (1.0 / delta).ln()).sqrt();
                assert!(zcdp_delta(rho, textbook) < delta);
                let mu = (2.0 * rho).sqrt();
                assert!(zcdp_delta(rho, textbook) > gaussian_delta(mu, textbook).upper);
            }
        }
        assert_eq!(zcdp_delta(0.0, 0.0), 0.0);
    }
}
