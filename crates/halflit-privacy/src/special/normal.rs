//! The normal distribution, tail-safe.
//!
//! The workhorse is the Mills ratio R(x) = Phi(-x)/phi(x): it varies slowly where both tails vanish, so that products
//! and differences of tails become products and differences of moderate numbers.

use libm::{erf, erfc, exp, expm1, log, log1p, sqrt};

/// 1/sqrt(2 pi), rounded to nearest.
const INV_SQRT_2PI: f64 = 0.398_942_280_401_432_7;
/// log(sqrt(2 pi)).
const LOG_SQRT_2PI: f64 = 0.918_938_533_204_672_8;
/// 1/sqrt(2) as the sum of two doubles.
const INV_SQRT_2: (f64, f64) = (std::f64::consts::FRAC_1_SQRT_2, -4.833_646_656_726_457e-17);
/// From here on the continued fraction of the Mills ratio replaces erfc.
const CONTINUED_FRACTION_FROM: f64 = 4.0;

/// The standard normal density.
///
/// The square is split so that the relative error stays near one ulp also where x^2/2 is large.
pub fn normal_density(x: f64) -> f64 {
    let square = x * x;
    let rest = x.mul_add(x, -square);
    // exp(-x^2/2) = exp(-square/2) * (1 - rest/2 + ..)
    let value = INV_SQRT_2PI * exp(-0.5 * square);
    if rest.is_finite() { value - value * (0.5 * rest) } else { value }
}

/// Phi(-x)/phi(x), the Mills ratio; infinite where phi underflows on the left.
pub fn mills_ratio(x: f64) -> f64 {
    if x >= CONTINUED_FRACTION_FROM {
        return 1.0 / (x + mills_tail(x));
    }
    normal_cdf(-x) / normal_density(x)
}

/// The continued fraction 1/(x + 2/(x + 3/(x + ..))), for x >= 4: R(x) = 1/(x + mills_tail(x)).
fn mills_tail(x: f64) -> f64 {
    // The remainder after n levels decreases like exp(-2x sqrt(2n)): 60 levels leave less than 1e-17 at x = 4.
    let levels = if x < 8.0 { 60 } else { 24 };
    let mut tail = 0.0;
    for level in (1..=levels).rev() {
        tail = f64::from(level) / (x + tail);
    }
    tail
}

/// -R'(x) = 1 - x R(x), without the cancellation for large x.
fn mills_slope(x: f64) -> f64 {
    if x >= CONTINUED_FRACTION_FROM {
        // 1 - x/(x + t) = t/(x + t)
        let tail = mills_tail(x);
        return tail / (x + tail);
    }
    1.0 - x * mills_ratio(x)
}

/// Nodes and weights of the eight-point Gauss rule on [-1, 1], positive half.
const GAUSS_8: [(f64, f64); 4] = [
    (0.183_434_642_495_649_8, 0.362_683_783_378_362),
    (0.525_532_409_916_329, 0.313_706_645_877_887_27),
    (0.796_666_477_413_626_7, 0.222_381_034_453_374_48),
    (0.960_289_856_497_536_3, 0.101_228_536_290_376_26),
];

/// R(a) - R(a + width) for width >= 0, accurate also when the two nearly agree.
///
/// The width is given, not the other end: where it is tiny, a rounded end would change it by a large part.
/// With phi(a) = e^eps phi(a + width) this is the hockey-stick divergence of two normals: Phi(-a) - e^eps Phi(-a - width).
pub fn mills_difference(a: f64, width: f64) -> f64 {
    if !(width > 0.0) {
        return 0.0;
    }
    let (left, right) = (mills_ratio(a), mills_ratio(a + width));
    // Far apart: at most two bits are lost.
    if right <= 0.75 * left {
        return left - right;
    }
    // Close: integrate the slope, which varies by a few ten percent over [a, a + width].
    let half = 0.5 * width;
    let middle = a + half;
    let slopes: f64 = GAUSS_8
        .iter()
        .map(|&(node, weight)| {
            weight * (mills_slope(middle - half * node) + mills_slope(middle + half * node))
        })
        .sum();
    half * slopes
}

/// Phi(x).
pub fn normal_cdf(x: f64) -> f64 {
    // t + rest = -x/sqrt(2) to about 106 bits, because erfc turns an error of the argument into 2 t^2 times as much.
    let t = -x * INV_SQRT_2.0;
    let rest = (-x).mul_add(INV_SQRT_2.0, -t) - x * INV_SQRT_2.1;
    if !rest.is_finite() {
        return if x > 0.0 { 1.0 } else { 0.0 };
    }
    // erfc(t + rest) = erfc(t) - 2/sqrt(pi) exp(-t^2) rest + ..
    let correction = std::f64::consts::FRAC_2_SQRT_PI * exp(-t * t) * rest;
    0.5 * (erfc(t) - correction)
}

/// log Phi(x), for any x.
pub fn log_normal_cdf(x: f64) -> f64 {
    if x > 1.0 {
        return log1p(-normal_cdf(-x));
    }
    if x > -CONTINUED_FRACTION_FROM {
        return log(normal_cdf(x));
    }
    // log Phi(x) = -x^2/2 - log sqrt(2 pi) + log R(-x)
    -0.5 * x * x - LOG_SQRT_2PI + log(mills_ratio(-x))
}

/// Phi(b) - Phi(a) for a <= b, relative accuracy kept when both lie in one tail or close together.
pub fn normal_cdf_difference(a: f64, b: f64) -> f64 {
    if !(a < b) {
        return 0.0;
    }
    if a + b < 0.0 {
        // Work in the right tail: Phi(b) - Phi(a) = Phi(-a) - Phi(-b).
        return normal_cdf_difference(-b, -a);
    }
    if a == f64::NEG_INFINITY || b == f64::INFINITY || b - a > 1.0 {
        return if a > -1.0 { normal_cdf(-a) - normal_cdf(-b) } else { normal_cdf(b) - normal_cdf(a) };
    }
    // phi(a) R(a) - phi(b) R(b) = phi(a) [ (R(a) - R(b)) + R(b) (1 - phi(b)/phi(a)) ]
    let log_ratio = -0.5 * (b - a) * (b + a);
    normal_density(a) * (mills_difference(a, b - a) - mills_ratio(b) * expm1(log_ratio))
}

/// The x with log Phi(x) = log_p, for log_p < 0; -inf and +inf at the ends.
pub fn normal_quantile_of_log(log_p: f64) -> f64 {
    if !(log_p < 0.0) {
        return f64::INFINITY;
    }
    if log_p == f64::NEG_INFINITY {
        return f64::NEG_INFINITY;
    }
    if log_p > -std::f64::consts::LN_2 {
        // Upper half: use the lower tail, 1 - p = -expm1(log p).
        return -normal_quantile_of_log(log(-expm1(log_p)));
    }
    // log Phi is concave and increasing: Newton from the left of the root moves right without passing it.
    // Phi(x) <= exp(-x^2/2)/2 for x <= 0 puts the start on the left.
    let mut x = -sqrt(-2.0 * (log_p + std::f64::consts::LN_2)).max(0.0);
    for _ in 0..60 {
        // d/dx log Phi(x) = phi(x)/Phi(x) = 1/R(-x)
        let step = (log_p - log_normal_cdf(x)) * mills_ratio(-x);
        x += step;
        if step.abs() <= 1e-16 * x.abs() {
            break;
        }
    }
    x
}

/// The x with Phi(x) = p.
pub fn normal_quantile(p: f64) -> f64 {
    if (p - 0.5).abs() > 0.25 {
        return if p > 0.5 { -normal_quantile_of_log(log(1.0 - p)) } else { normal_quantile_of_log(log(p)) };
    }
    // Near the middle log p says little about x: Newton on erf(x/sqrt(2))/2 = p - 1/2, which is exact at zero.
    let target = p - 0.5;
    let mut x = target / INV_SQRT_2PI;
    for _ in 0..6 {
        x -= (0.5 * erf(x * INV_SQRT_2.0) - target) / normal_density(x);
    }
    x
}
