//! The logarithm of the gamma function, and what Stirling's formula leaves out.

use libm::{lgamma, log};

/// log Gamma(x) for x > 0 (infinite at 0, NaN below).
pub fn log_gamma(x: f64) -> f64 {
    if x > 0.0 {
        lgamma(x)
    } else if x == 0.0 {
        f64::INFINITY
    } else {
        f64::NAN
    }
}

/// log(sqrt(2 pi)).
const LOG_SQRT_2PI: f64 = 0.918_938_533_204_672_8;

/// log Gamma(x + 1) - [(x + 1/2) log x - x + log sqrt(2 pi)], the remainder of Stirling's formula, for x > 0.
///
/// It is small and smooth, so that products of gammas with large arguments keep their relative accuracy.
pub(super) fn stirling_remainder(x: f64) -> f64 {
    if x < 16.0 {
        return lgamma(x + 1.0) - ((x + 0.5) * log(x) - x + LOG_SQRT_2PI);
    }
    // Bernoulli numbers B_2k/(2k(2k-1)); the first term left out is below 2e-19 at x = 16.
    let y = 1.0 / (x * x);
    let series = 1.0 / 12.0
        - y * (1.0 / 360.0
            - y * (1.0 / 1260.0
                - y * (1.0 / 1680.0 - y * (1.0 / 1188.0 - y * (691.0 / 360_360.0 - y / 156.0)))));
    series / x
}
