//! Doubles taken apart, so that comparisons and roundings on them can be exact.

/// Writes a finite `value >= 0` as `mantissa * 2^exponent`, exactly.
pub(crate) fn decompose(value: f64) -> (u64, i32) {
    let bits = value.to_bits();
    let field = ((bits >> 52) & 0x7ff) as i32;
    let fraction = bits & ((1 << 52) - 1);
    // A zero exponent field means a subnormal: no hidden bit, same scale as field 1.
    if field == 0 { (fraction, -1074) } else { (fraction | 1 << 52, field - 1075) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn putting_the_parts_together_gives_the_value(value in proptest::num::f64::POSITIVE | proptest::num::f64::SUBNORMAL) {
            let value = value.abs();
            let (mantissa, exponent) = decompose(value);
            // Two exact steps, because 2^exponent alone may underflow.
            let back = mantissa as f64 * 2f64.powi(exponent / 2) * 2f64.powi(exponent - exponent / 2);
            prop_assert_eq!(back, value);
        }
    }

    #[test]
    fn zero_has_a_zero_mantissa() {
        assert_eq!(decompose(0.0).0, 0);
    }
}
