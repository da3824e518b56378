//! Elementary functions in plain IEEE arithmetic: the same bits on every processor.
//!
//! A unit's coefficient must not depend on which vector width or which C library evaluated it, so the exponential is ours:
//! additions, multiplications and bit operations only, no fused multiply-add, no table, no branch.

/// 1.5 * 2^52: adding it to |x| < 2^51 leaves the nearest integer to x in the low bits (ties to even).
pub(crate) const ROUNDING_MAGIC: f64 = 6_755_399_441_055_744.0;

/// Upper bound on the relative error of [`exp`] on -708 <= x <= 709.
///
/// Argument reduction is exact to 2^-70 relative, the truncated series to 2^-57, the evaluation 1 + (r + r^2 q) to
/// 1.5 units in the last place: 2^-51 leaves a factor of more than two.
pub(crate) const EXP_RELATIVE_ERROR: f64 = 1.0 / (1u64 << 51) as f64;

const LN_2_HIGH: f64 = 6.931_471_803_691_238e-1; // 32 leading bits of ln 2: k * LN_2_HIGH is exact for |k| < 2^20
const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;

/// e^x, with x clamped to [-708, 709] (both ends are finite and normal). NaN stays NaN.
#[inline(always)]
pub(crate) fn exp(x: f64) -> f64 {
    let x = if x < -708.0 { -708.0 } else { x };
    let x = if x > 709.0 { 709.0 } else { x };
    let shifted = x * std::f64::consts::LOG2_E + ROUNDING_MAGIC;
    let k = shifted - ROUNDING_MAGIC;
    let r = (x - k * LN_2_HIGH) - k * LN_2_LOW;
    // e^r = 1 + r + r^2 (1/2! + r/3! + ... + r^11/13!); |r| <= 0.35, so the next term is below 2^-57
    // In pairs and pairs of pairs: a chain of twelve would keep the processor waiting.
    let (r2, r4) = (r * r, (r * r) * (r * r));
    let pair = |low: f64, high: f64| low + high * r;
    let four = |low: f64, high: f64| low + high * r2;
    let least = four(pair(1.0 / 2.0, 1.0 / 6.0), pair(1.0 / 24.0, 1.0 / 120.0));
    let middle = four(pair(1.0 / 720.0, 1.0 / 5_040.0), pair(1.0 / 40_320.0, 1.0 / 362_880.0));
    let last =
        four(pair(1.0 / 3_628_800.0, 1.0 / 39_916_800.0), pair(1.0 / 479_001_600.0, 1.0 / 6_227_020_800.0));
    let q = least + (middle + last * r4) * r4;
    let series = 1.0 + (r + r2 * q);
    let biased = shifted.to_bits().wrapping_sub(ROUNDING_MAGIC.to_bits()).wrapping_add(1023);
    series * f64::from_bits(biased << 52)
}

/// The nearest double, as `x as f64`, in operations that vectors of every width have.
///
/// Both halves are put below the exponents of 2^52 and 2^84, the upper one with its sign bit turned; taking 2^84 + 2^63 + 2^52 away is exact, so that one rounding is left.
#[inline(always)]
pub(crate) fn to_float(x: i64) -> f64 {
    let low = f64::from_bits((x as u64 & 0xffff_ffff) | 0x4330 << 48);
    let high = f64::from_bits((x as u64 >> 32) ^ 0x4530_0000_8000_0000);
    (high - 19_342_822_341_709_703_277_445_120.0) + low
}

/// 1 / (1 + e^-z), accurate to a few units in the last place on both sides.
#[inline(always)]
pub(crate) fn sigmoid(z: f64) -> f64 {
    let e = exp(-z.abs());
    let numerator = if z >= 0.0 { 1.0 } else { e };
    numerator / (1.0 + e)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// e^x in 106 bits or so: the series of e^(x / 2^10) in pairs of doubles, squared ten times.
    fn exp_reference(x: f64) -> f64 {
        use crate::double::Double;
        let small = Double::from(x * (1.0 / 1024.0));
        let mut term = Double::from(1.0);
        let mut sum = Double::from(1.0);
        for n in 1..40 {
            term = term * small / Double::from(f64::from(n));
            sum = sum + term;
        }
        for _ in 0..10 {
            sum = sum * sum;
        }
        sum.to_f64()
    }

    #[test]
    fn exp_is_within_its_stated_error() {
        let mut worst = 0.0f64;
        for step in 0..40_000 {
            let x = -707.9 + 1416.0 * f64::from(step) / 40_000.0;
            let exact = exp_reference(x);
            worst = worst.max(((exp(x) - exact) / exact).abs());
        }
        assert!(worst <= EXP_RELATIVE_ERROR, "{worst:e}");
        // The bound is not idle: a single dropped term of the series would break it.
        assert!(worst >= EXP_RELATIVE_ERROR / 16.0, "{worst:e}");
    }

    #[test]
    fn integers_become_the_nearest_doubles() {
        let mut x = 1i64;
        for step in 0..100_000i64 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(step);
            let cut = x >> (step % 64);
            for integer in [cut, -(cut >> 1), i64::MAX - (cut & 0xffff), i64::MIN + (cut & 0xffff)] {
                assert_eq!(to_float(integer), integer as f64, "{integer}");
            }
        }
    }

    #[test]
    fn exp_is_tame_everywhere() {
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(f64::NEG_INFINITY), exp(-708.0));
        assert!(exp(-708.0) > 0.0 && exp(-708.0) < 1e-300);
        assert!(exp(f64::INFINITY).is_finite() && exp(709.0) > 1e307);
        assert!(exp(f64::NAN).is_nan());
    }

    #[test]
    fn sigmoid_is_symmetric_and_saturates() {
        for step in -4000..4000 {
            let z = f64::from(step) / 50.0;
            assert!((sigmoid(z) + sigmoid(-z) - 1.0).abs() <= 2.0 * f64::EPSILON);
            assert!((0.0..=1.0).contains(&sigmoid(z)));
        }
        assert_eq!(sigmoid(1e300), 1.0);
        assert!(sigmoid(-1e300) < 1e-300);
    }
}
