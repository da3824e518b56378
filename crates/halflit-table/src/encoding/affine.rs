//! The map of declared bounds to [-1, 1] and back.

use halflit_convex::FEATURE_SCALE;

/// The affine map of [low, high] to [-1, 1].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Affine {
    low: f64,
    high: f64,
    middle: f64,
    half_width: f64,
}

impl Affine {
    pub(crate) fn new(low: f64, high: f64) -> Affine {
        // Halves first: high - low may overflow.
        Affine { low, high, middle: low / 2.0 + high / 2.0, half_width: high / 2.0 - low / 2.0 }
    }

    /// Whether the bounds are finite, in order, and apart by more than subnormal dust.
    pub(crate) fn is_sound(&self) -> bool {
        self.low.is_finite() && self.high.is_finite() && self.half_width >= f64::MIN_POSITIVE
    }

    pub(crate) fn contains(&self, value: f64) -> bool {
        value >= self.low && value <= self.high
    }

    /// Clamped to the bounds, then to [-1, 1] whatever the rounding. What is not a number goes to the middle.
    pub(crate) fn encode(&self, value: f64) -> f64 {
        if value.is_nan() {
            return 0.0;
        }
        // max and min, not clamp: the bounds of an unsound map must not panic.
        let inside = value.max(self.low).min(self.high);
        ((inside - self.middle) / self.half_width).clamp(-1.0, 1.0)
    }

    /// The nearest point of the feature lattice, at most 2^14 in magnitude; halves go away from zero.
    pub(crate) fn encode_to_lattice(&self, value: f64) -> i16 {
        let scaled = self.encode(value) * f64::from(FEATURE_SCALE);
        // trunc(x + sign(x)/2) with |x| <= 2^14
        (scaled + 0.5f64.copysign(scaled)) as i16
    }

    pub(crate) fn decode(&self, encoded: f64) -> f64 {
        encoded.mul_add(self.half_width, self.middle)
    }

    /// A length in units of the column, in units of the encoded column.
    pub(crate) fn encode_length(&self, length: f64) -> f64 {
        length / self.half_width
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ends_and_middle_are_exact() {
        for (low, high) in
            [(17.0, 90.0), (-1.0, 1.0), (0.0, 1e-300), (-f64::MAX, f64::MAX), (1e300, f64::MAX), (0.1, 0.3)]
        {
            let affine = Affine::new(low, high);
            assert!(affine.is_sound());
            let ends = [low, high, f64::NEG_INFINITY, f64::INFINITY, f64::NAN]
                .map(|value| affine.encode_to_lattice(value));
            assert_eq!(
                ends,
                [-FEATURE_SCALE, FEATURE_SCALE, -FEATURE_SCALE, FEATURE_SCALE, 0],
                "{low} {high}"
            );
        }
        for (low, high) in [(1.0, 1.0), (2.0, 1.0), (0.0, f64::INFINITY), (f64::NAN, 1.0), (0.0, 1e-310)] {
            assert!(!Affine::new(low, high).is_sound(), "{low} {high}");
        }
    }

    proptest! {
        #[test]
        fn a_value_comes_back_within_half_a_step(low in -1e6f64..1e6, width in 1e-3f64..1e6, share in 0.0f64..=1.0) {
            let affine = Affine::new(low, low + width);
            let value = (low + share * width).min(low + width);
            let lattice = affine.encode_to_lattice(value);
            prop_assert!(lattice.unsigned_abs() <= FEATURE_SCALE.unsigned_abs());
            let back = affine.decode(f64::from(lattice) / f64::from(FEATURE_SCALE));
            // half a step of width / 2^14 / 2, and the rounding of a few operations
            let tolerance = width / 32768.0 / 2.0 * (1.0 + 1e-9) + 4.0 * f64::EPSILON * (low.abs() + width);
            prop_assert!((back - value).abs() <= tolerance * 2.0);
            prop_assert!((affine.decode(affine.encode(value)) - value).abs() <= 8.0 * f64::EPSILON * (low.abs() + width));
        }

        #[test]
        fn anything_encodes(low: f64, high: f64, value: f64) {
            let affine = Affine::new(low, high);
            prop_assume!(affine.is_sound());
            prop_assert!(affine.encode(value).abs() <= 1.0);
            prop_assert!(affine.encode_to_lattice(value).unsigned_abs() <= FEATURE_SCALE.unsigned_abs());
        }
    }
}
