//! The regularized incomplete beta function and its inverse, for parameters up to 1e6 and beyond.

use super::gamma::stirling_remainder;
use libm::{exp, log, log1p, sqrt};
use std::f64::consts::PI;

/// I_x(a, b) for a, b > 0 and 0 <= x <= 1; NaN outside.
///
/// The continued fraction converges in O(sqrt(max(a, b))) steps on the side of the mean where it is used.
pub fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    let valid = a.is_finite() && a > 0.0 && b.is_finite() && b > 0.0 && (0.0..=1.0).contains(&x);
    if !valid {
        return f64::NAN;
    }
    lower_and_upper(a, b, x, 1.0 - x).0
}

/// (I_x(a, b), 1 - I_x(a, b)), the smaller one to full relative accuracy; `y` is 1 - x.
fn lower_and_upper(a: f64, b: f64, x: f64, y: f64) -> (f64, f64) {
    if x == 0.0 {
        return (0.0, 1.0);
    }
    if y == 0.0 {
        return (1.0, 0.0);
    }
    if x <= (a + 1.0) / (a + b + 2.0) {
        let lower = front_factor(a, b, x, y) / continued_fraction(a, b, x, y);
        (lower, 1.0 - lower)
    } else {
        let upper = front_factor(a, b, x, y) / continued_fraction(b, a, y, x);
        (1.0 - upper, upper)
    }
}

/// x^a y^b / B(a, b) with y = 1 - x, relative accuracy kept for large a and b.
fn front_factor(a: f64, b: f64, x: f64, y: f64) -> f64 {
    // B(a, b) = B(a, b + 1) (a + b)/b lifts small parameters to where Stirling's formula serves.
    if b < 1.0 {
        return front_factor(a, b + 1.0, x, y) / y * (b / (a + b));
    }
    if a < 1.0 {
        return front_factor(a + 1.0, b, x, y) / x * (a / (a + b));
    }
    // Gamma(z) = sqrt(2 pi / z) (z/e)^z exp(stirling_remainder(z)), hence with n = a + b
    // x^a y^b / B = sqrt(ab / (2 pi n)) exp(-a D(x n / a) - b D(y n / b) + remainders), D(r) = r - 1 - log r >= 0,
    // where a(x n/a - 1) + b(y n/b - 1) = 0 makes the linear parts cancel.
    let n = a + b;
    // What the rounding of n lost; |larger| first makes the sum exact (Dekker).
    let n_rest = if a >= b { b - (n - a) } else { a - (n - b) };
    let excess = x.mul_add(n, -a) + x * n_rest;
    let deviance = a * log_deviance(excess / a, x * n / a) + b * log_deviance(-excess / b, y * n / b);
    let remainders = stirling_remainder(n) - stirling_remainder(a) - stirling_remainder(b);
    sqrt(a / n * b / (2.0 * PI)) * exp(remainders - deviance)
}

/// t - log(ratio) >= 0 for ratio = 1 + t > 0: accurate for small t, and for a small ratio, of which 1 + t knows few digits.
fn log_deviance(t: f64, ratio: f64) -> f64 {
    if ratio < 0.5 {
        return t - log(ratio);
    }
    if t.abs() > 0.1 {
        return t - log1p(t);
    }
    // With w = t/(2 + t): log(1+t) = 2 atanh(w) and t = 2w/(1-w), so t - log(1+t) = t w - 2(w^3/3 + w^5/5 + ..).
    let w = t / (2.0 + t);
    let w2 = w * w;
    let mut odd_powers = 0.0;
    for k in (1..=8).rev() {
        odd_powers = w2 * (1.0 / f64::from(2 * k + 1) + odd_powers);
    }
    t * w - 2.0 * w * odd_powers
}

/// The even part of the continued fraction of I_x(a, b) (DLMF 8.17.22) by the modified Lentz method: below the mean
/// every partial denominator is a sum of positive terms, so nothing cancels.
///
/// I_x(a, b) = x^a y^b / B(a, b) / (d_0 + n_1/(d_1 + n_2/(d_2 + ..)))
fn continued_fraction(a: f64, b: f64, x: f64, y: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let away_from_zero = |value: f64| if value.abs() < TINY { TINY } else { value };
    // a - (a + b) x = a y - b x, which is exact where x is close to one.
    let gap = a * y - b * x + 1.0;
    let mut fraction = away_from_zero(a * gap / (a + 1.0));
    let (mut c, mut d) = (fraction, 0.0);
    // 200 + 60 sqrt(max) steps are several times what parameters up to 1e8 need.
    let steps = 200 + (60.0 * sqrt(a.max(b))).min(1e7) as u32;
    for step in 1..=steps {
        let m = f64::from(step);
        let width = a + 2.0 * m;
        let numerator =
            (a + m - 1.0) / (width - 1.0) * ((a + b + m - 1.0) / (width - 1.0)) * m * (b - m) * x * x;
        let denominator =
            m + m * (b - m) * x / (width - 1.0) + (a + m) * (gap + m * (1.0 + y)) / (width + 1.0);
        d = 1.0 / away_from_zero(denominator + numerator * d);
        c = away_from_zero(denominator + numerator / c);
        let change = c * d;
        fraction *= change;
        if (change - 1.0).abs() < 1e-16 {
            break;
        }
    }
    fraction
}

/// The x with I_x(a, b) = p, for 0 <= p <= 1; NaN outside.
pub fn inverse_incomplete_beta(a: f64, b: f64, p: f64) -> f64 {
    let valid = a.is_finite() && a > 0.0 && b.is_finite() && b > 0.0 && (0.0..=1.0).contains(&p);
    if !valid {
        return f64::NAN;
    }
    if p == 0.0 || p == 1.0 {
        return p;
    }
    // Bracketed Newton on the smaller tail: I is increasing, its derivative is front_factor/(x y).
    let (mut low, mut high) = (0.0f64, 1.0f64);
    let mut x = a / (a + b);
    for _ in 0..200 {
        let y = 1.0 - x;
        let (lower, upper) = lower_and_upper(a, b, x, y);
        let miss = if p <= 0.5 { lower - p } else { (1.0 - p) - upper };
        if miss == 0.0 {
            return x;
        }
        if miss > 0.0 {
            high = x;
        } else {
            low = x;
        }
        // On a log scale the tail is nearly linear in x: step by (log I - log p) I/I' where I is far above p.
        let slope = front_factor(a, b, x, y) / (x * y);
        let newton = if p <= 0.5 && lower > 0.0 {
            x - lower / slope * log(lower / p)
        } else if p > 0.5 && upper > 0.0 {
            x + upper / slope * log(upper / (1.0 - p))
        } else {
            f64::NAN
        };
        let next = if newton > low && newton < high { newton } else { bisection(low, high) };
        if next == x || next == low || next == high {
            return next;
        }
        x = next;
    }
    x
}

/// The middle of the bracket; on a log scale while it still reaches down to zero.
fn bisection(low: f64, high: f64) -> f64 {
    if low == 0.0 {
        high * 1e-3
    } else if high / low > 4.0 {
        sqrt(low * high)
    } else {
        0.5 * (low + high)
    }
}
