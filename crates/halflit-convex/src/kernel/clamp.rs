//! The clamp: what makes the bound on a unit's contribution a fact about integers.
//!
//! A row contributes s * q with |s| <= isqrt(floor(B^2 / ||q||^2)), hence ||s q||^2 = s^2 ||q||^2 <= B^2 exactly. The limit
//! depends on the row alone, so it is computed once; the clamp itself is applied in every pass, whatever the rule returned.

use super::block::BLOCK_ROWS;
use crate::math::ROUNDING_MAGIC;

/// Largest magnitude of a coefficient: three balanced digits in base 2^12 hold it (see the kernel's integer layout).
pub const MAX_COEFFICIENT: u32 = (1 << 29) - (1 << 20);

/// Up to this magnitude two digits hold a coefficient, and passes are quicker: digits run from -2^11 to 2^11 - 1.
pub const QUICK_COEFFICIENT: u32 = (1 << 23) - (1 << 11) - 1;

/// The largest |s| with ||s q|| <= bound, at most [`MAX_COEFFICIENT`]; zero for a zero row, which then contributes nothing.
pub fn coefficient_limit(bound: u64, squared_norm: u64) -> u32 {
    if squared_norm == 0 {
        return 0;
    }
    // s <= isqrt(floor(B^2 / N)) implies s^2 <= B^2 / N, that is s^2 N <= B^2
    let limit = (u128::from(bound) * u128::from(bound) / u128::from(squared_norm)).isqrt();
    limit.min(u128::from(MAX_COEFFICIENT)) as u32
}

/// The integer coefficient nearest to `value` within the limit. NaN becomes zero.
///
/// The limit is an integer, so clamping before rounding is the same as after it.
#[inline(always)]
pub fn clamp_coefficient(value: f64, limit: u32) -> i32 {
    let limit = f64::from(limit);
    #[allow(clippy::eq_op)]
    // NaN is the one value that differs from itself; the selects below compile to vector blends
    let value = if value == value { value } else { 0.0 };
    let value = if value > limit { limit } else { value };
    let value = if value < -limit { -limit } else { value };
    // |value| <= 2^29, so the nearest integer sits in the low 32 bits
    (value + ROUNDING_MAGIC).to_bits() as i32
}

/// Scales an integer vector toward zero until its norm is at most `limit`; leaves it alone when it already is.
///
/// The factor is a fraction rounded down and every product is truncated toward zero, so the norm never exceeds `limit`.
/// The caller keeps every |v_j| and the norm below 2^62.
pub(crate) fn clip_to_norm(vector: &mut [i64], limit: u64) {
    let squared: u128 = vector.iter().map(|&v| u128::from(v.unsigned_abs()).pow(2)).sum();
    if squared <= u128::from(limit).pow(2) {
        return;
    }
    // ||v|| <= root, so ||v|| * factor / 2^64 <= limit
    let root = ceil_sqrt(squared);
    let factor = (u128::from(limit) << 64) / u128::from(root);
    for value in vector {
        // |v| < 2^62 and factor < 2^64 (limit < root): the product fits in 126 bits
        let scaled = ((u128::from(value.unsigned_abs()) * factor) >> 64) as i64;
        *value = if *value < 0 { -scaled } else { scaled };
    }
}

/// The smallest integer whose square is at least `square`, for `square` below 2^124.
pub(crate) fn ceil_sqrt(square: u128) -> u64 {
    let root = match u64::try_from(square) {
        // a root in doubles, cut off, is the one sought or one less
        Ok(small) if small < 1 << 62 => u128::from((small as f64).sqrt() as u64),
        _ => square.isqrt(),
    };
    (if root * root < square { root + 1 } else { root }) as u64
}

/// Integer coefficients of a block of rows: rounds each, then clips every row's joint norm over the outputs to its limit.
///
/// `values` and `coefficients` are output-major: entry `output * limits.len() + row`.
#[inline(always)]
pub(crate) fn clamp_block(values: &[f64], limits: &[u32], coefficients: &mut [i32]) {
    let rows = limits.len();
    for (values, coefficients) in values.chunks_exact(rows).zip(coefficients.chunks_exact_mut(rows)) {
        for ((coefficient, &value), &limit) in coefficients.iter_mut().zip(values).zip(limits) {
            *coefficient = clamp_coefficient(value, limit);
        }
    }
    if values.len() > rows {
        clip_rows(limits, coefficients);
    }
}

/// Outputs whose squares, each below 2^58, add up within 64 bits.
const OUTPUTS_IN_A_SUM: usize = 63;

/// Bits of a factor below 1: times a coefficient it keeps to 64 bits, and what is cut off is less than one unit.
const FACTOR_BITS: u32 = 31;

/// Clips every row's joint norm over the outputs to its limit.
#[inline(always)]
pub(super) fn clip_rows(limits: &[u32], coefficients: &mut [i32]) {
    let rows = limits.len();
    assert!(rows <= BLOCK_ROWS);
    let mut squared = [0u128; BLOCK_ROWS];
    for several in coefficients.chunks(OUTPUTS_IN_A_SUM * rows) {
        let mut sums = [0u64; BLOCK_ROWS];
        for output in several.chunks_exact(rows) {
            for (sum, coefficient) in sums.iter_mut().zip(output) {
                let size = u64::from(coefficient.unsigned_abs());
                *sum = sum.wrapping_add(size.wrapping_mul(size));
            }
        }
        squared.iter_mut().zip(sums).for_each(|(squared, sum)| *squared += u128::from(sum));
    }
    let mut factors = [1u64 << FACTOR_BITS; BLOCK_ROWS];
    let mut any_is_long = false;
    for ((factor, squared), &limit) in factors.iter_mut().zip(squared).zip(limits) {
        if squared > u128::from(limit).pow(2) {
            // ||v|| <= root, so ||v|| * factor / 2^31 <= limit
            *factor = (u64::from(limit) << FACTOR_BITS) / ceil_sqrt(squared);
            any_is_long = true;
        }
    }
    if any_is_long {
        for output in coefficients.chunks_exact_mut(rows) {
            for (coefficient, factor) in output.iter_mut().zip(factors) {
                let size = (u64::from(coefficient.unsigned_abs()).wrapping_mul(factor) >> FACTOR_BITS) as i32;
                *coefficient = if *coefficient < 0 { size.wrapping_neg() } else { size };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn squared(vector: &[i64]) -> u128 {
        vector.iter().map(|&v| u128::from(v.unsigned_abs()).pow(2)).sum()
    }

    proptest! {
        #[test]
        fn the_limit_is_the_largest_that_fits(bound in 0u64..1 << 50, norm in 1u64..1 << 45) {
            let limit = u128::from(coefficient_limit(bound, norm));
            prop_assert!(limit * limit * u128::from(norm) <= u128::from(bound).pow(2));
            if limit < u128::from(MAX_COEFFICIENT) {
                prop_assert!((limit + 1).pow(2) * u128::from(norm) > u128::from(bound).pow(2));
            }
        }

        #[test]
        fn a_coefficient_is_the_nearest_integer_within_its_limit(value in -1e10f64..1e10, limit in 0..=MAX_COEFFICIENT) {
            let bound = f64::from(limit);
            let expected = value.round_ties_even().clamp(-bound, bound) as i32;
            prop_assert_eq!(clamp_coefficient(value, limit), expected);
        }

        #[test]
        fn clipping_keeps_the_norm_and_almost_the_length(
            mut vector in prop::collection::vec(-(1i64 << 59)..1 << 59, 1..8),
            limit in 1u64..1 << 60,
        ) {
            let before = vector.clone();
            clip_to_norm(&mut vector, limit);
            prop_assert!(squared(&vector) <= u128::from(limit).pow(2));
            if squared(&before) <= u128::from(limit).pow(2) {
                prop_assert_eq!(vector, before);
            } else {
                // truncation costs less than one unit per coordinate, and the factor at most one more
                let lost = (limit as f64) - (squared(&vector) as f64).sqrt();
                prop_assert!(lost <= 2.0 * (vector.len() as f64).sqrt() + limit as f64 * 1e-15, "{lost}");
            }
        }

        #[test]
        fn several_outputs_share_one_bound(values in prop::collection::vec(-2e9f64..2e9, 1..20), limit in 0..=MAX_COEFFICIENT) {
            let mut coefficients = vec![0i32; values.len()];
            clamp_block(&values, &[limit], &mut coefficients);
            let wide: Vec<i64> = coefficients.iter().map(|&c| i64::from(c)).collect();
            prop_assert!(squared(&wide) <= u128::from(limit).pow(2));
            let exact: Vec<i64> = values.iter().map(|v| v.round_ties_even() as i64).collect();
            if squared(&exact) <= u128::from(limit).pow(2) {
                prop_assert_eq!(wide, exact);
            }
        }
    }

    #[test]
    fn roots_are_rounded_up() {
        let mut roots: Vec<u128> =
            (0..62).flat_map(|bits| [(1 << bits) - 1, 1 << bits, (1 << bits) + 1]).collect();
        roots.extend((0..100_000u128).map(|i| i * 0x9e37_79b9 % (1 << 31)));
        for root in roots {
            for square in [root * root, root * root + 1, (root + 1) * (root + 1) - 1] {
                let found = u128::from(ceil_sqrt(square));
                assert!(
                    found * found >= square && (found == 0 || (found - 1) * (found - 1) < square),
                    "{square}"
                );
            }
        }
    }

    #[test]
    fn odd_values_have_a_place() {
        assert_eq!(clamp_coefficient(f64::NAN, 7), 0);
        assert_eq!(clamp_coefficient(f64::INFINITY, 7), 7);
        assert_eq!(clamp_coefficient(f64::NEG_INFINITY, MAX_COEFFICIENT), -(MAX_COEFFICIENT as i32));
        assert_eq!(clamp_coefficient(-2.5, 7), -2);
        assert_eq!(coefficient_limit(u64::MAX, 1), MAX_COEFFICIENT);
        assert_eq!(coefficient_limit(u64::MAX, 0), 0);
        assert_eq!(coefficient_limit(0, 5), 0);
    }
}
