use super::Norm;

/// Scales an integer vector so that its norm is at most `radius`, exactly; says whether it had to.
///
/// A pure function of the vector: one already inside is untouched, otherwise every coordinate is multiplied by
/// radius / (norm rounded up) and rounded toward zero. Both roundings only shorten it.
pub fn clip(norm: Norm, vector: &mut [i64], radius: u64) -> bool {
    let length = match norm {
        Norm::L1 => vector.iter().map(|x| u128::from(x.unsigned_abs())).sum(),
        Norm::L2 => l2_norm_rounded_up(vector),
    };
    let must_shrink = length > u128::from(radius);
    if must_shrink {
        for x in vector {
            // |x| radius < 2^127; the quotient is at most |x| because radius < length.
            let scaled = (u128::from(x.unsigned_abs()) * u128::from(radius) / length) as i64;
            *x = if *x < 0 { -scaled } else { scaled };
        }
    }
    must_shrink
}

/// The l2 norm, rounded up to an integer; exact up to that rounding while the squared norm is below 2^128, and at most
/// 2^32 too large beyond.
fn l2_norm_rounded_up(vector: &[i64]) -> u128 {
    // The squared norm is high 2^64 + low, low < 2^64 after the carry. Fewer than 2^60 coordinates fit into memory,
    // each adding less than 2^62 + 1 to high: no overflow.
    let (mut high, mut low) = (0u128, 0u128);
    for x in vector {
        let square = u128::from(x.unsigned_abs()).pow(2);
        high += square >> 64;
        low += square & u128::from(u64::MAX);
    }
    high += low >> 64;
    low &= u128::from(u64::MAX);
    if high >> 64 == 0 {
        isqrt_rounded_up(high << 64 | low)
    } else {
        // sqrt(high 2^64 + low) < sqrt(high + 1) 2^32 <= (isqrt(high) + 1) 2^32
        (high.isqrt() + 1) << 32
    }
}

fn isqrt_rounded_up(value: u128) -> u128 {
    let root = value.isqrt();
    if root * root == value { root } else { root + 1 }
}

/// The largest integer s with s^2 * squared_norm <= radius^2: how large a coefficient a row may get. Zero for a zero
/// row, which contributes nothing.
pub fn coefficient_limit(radius: u64, squared_norm: u64) -> u64 {
    if squared_norm == 0 {
        return 0;
    }
    // s^2 <= radius^2 / squared_norm iff s^2 <= floor(radius^2 / squared_norm); the root is at most radius.
    (u128::from(radius).pow(2) / u128::from(squared_norm)).isqrt() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use num_bigint::BigUint;
    use proptest::prelude::*;

    fn squared(vector: &[i64]) -> BigUint {
        vector.iter().map(|x| BigUint::from(x.unsigned_abs()).pow(2)).sum()
    }

    fn vectors() -> impl Strategy<Value = Vec<i64>> {
        let coordinate = prop_oneof![any::<i64>(), -1000i64..1000, Just(i64::MIN), Just(i64::MAX), Just(0)];
        proptest::collection::vec(coordinate, 0..12)
    }

    proptest! {
        #[test]
        fn clipped_vectors_are_inside_and_keep_their_direction(
            vector in vectors(),
            radius in prop_oneof![0u64..2000, any::<u64>()],
        ) {
            let mut clipped = vector.clone();
            let shrunk = clip(Norm::L2, &mut clipped, radius);
            prop_assert!(squared(&clipped) <= BigUint::from(radius).pow(2));
            // Untouched exactly when it was inside: the one-unit rounding of the norm cannot clip what is inside.
            prop_assert_eq!(shrunk, squared(&vector) > BigUint::from(radius).pow(2));
            for (new, old) in clipped.iter().zip(&vector) {
                prop_assert!(new.unsigned_abs() <= old.unsigned_abs());
                prop_assert!(*new == 0 || new.signum() == old.signum());
            }
            if !shrunk {
                prop_assert_eq!(&clipped, &vector);
            }
            let mut again = clipped.clone();
            prop_assert!(!clip(Norm::L2, &mut again, radius));
        }

        #[test]
        fn clipping_loses_little(vector in proptest::collection::vec(-1_000_000i64..1_000_000, 1..10)) {
            let radius = 100_000;
            let mut clipped = vector.clone();
            if clip(Norm::L2, &mut clipped, radius) {
                // Each coordinate loses less than one unit to rounding and a share 1/length to the rounded norm.
                let length = squared(&clipped).sqrt() + 1u8;
                prop_assert!(length + 2 * vector.len() as u64 + 1u8 >= BigUint::from(radius));
            }
        }

        #[test]
        fn l1_clip_is_inside(vector in vectors(), radius in any::<u64>()) {
            let size = |v: &[i64]| v.iter().map(|x| u128::from(x.unsigned_abs())).sum::<u128>();
            let mut clipped = vector.clone();
            prop_assert_eq!(clip(Norm::L1, &mut clipped, radius), size(&vector) > u128::from(radius));
            prop_assert!(size(&clipped) <= u128::from(radius));
        }

        #[test]
        fn coefficient_limits_are_the_largest(radius in any::<u64>(), squared_norm in 1u64..) {
            let limit = BigUint::from(coefficient_limit(radius, squared_norm));
            let allowed = BigUint::from(radius).pow(2);
            prop_assert!(limit.pow(2) * squared_norm <= allowed);
            prop_assert!((limit + 1u8).pow(2) * squared_norm > allowed);
        }
    }

    #[test]
    fn a_vector_on_the_sphere_is_untouched() {
        let mut vector = [3, -4];
        assert!(!clip(Norm::L2, &mut vector, 5));
        assert_eq!(vector, [3, -4]);
        assert!(clip(Norm::L2, &mut vector, 4));
        assert_eq!(vector, [2, -3]);
    }

    #[test]
    fn zero_rows_and_zero_radius_contribute_nothing() {
        assert_eq!(coefficient_limit(1 << 40, 0), 0);
        assert_eq!(coefficient_limit(0, 5), 0);
        let mut vector = [i64::MIN, 7];
        assert!(clip(Norm::L2, &mut vector, 0));
        assert_eq!(vector, [0, 0]);
    }
}
