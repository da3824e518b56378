//! Single-precision arithmetic on vectors.

use super::lanes::Vectors;

/// Up to this magnitude [`round`] gives the nearest integer, and two digits hold it.
pub(super) const SINGLE_COEFFICIENT: u32 = 1 << 22;

/// 1.5 * 2^23: added to numbers of up to 2^22 it leaves the nearest integer in the low bits.
const MAGIC: f32 = 12_582_912.0;

/// The integers nearest to numbers of magnitude at most [`SINGLE_COEFFICIENT`].
#[inline(always)]
pub(super) fn round<V: Vectors>(v: V, x: V::Floats) -> V::Integers {
    // the sum is at least 2^23, where floats are integers, and at most 2^24, where their bits still count on
    v.bits(x + v.splat(MAGIC)) - v.splat_integer(MAGIC.to_bits() as i32)
}

/// [-most, most], for [`within`].
#[inline(always)]
pub(super) fn bounds<V: Vectors>(v: V, most: f32) -> [V::Floats; 2] {
    [v.splat(-most), v.splat(most)]
}

/// x within bounds; what is not a number becomes the upper one.
#[inline(always)]
pub(super) fn within<V: Vectors>(v: V, x: V::Floats, [least, most]: [V::Floats; 2]) -> V::Floats {
    v.greater(v.lesser(x, most), least)
}

/// 2^x for |x| <= 125 to within 2.1e-7; 1 for 0.
#[inline(always)]
pub(super) fn power_of_two<V: Vectors>(v: V, x: V::Floats) -> V::Floats {
    let shifted = x + v.splat(MAGIC);
    let f = x - (shifted - v.splat(MAGIC));
    // 2^f to within 1.1e-7 for |f| <= 1/2; in pairs of terms, because a chain of five would keep the processor waiting
    let f2 = f * f;
    let low = v.splat(std::f32::consts::LN_2) + v.splat(2.402_228_3e-1) * f;
    let high = v.splat(5.550_558_5e-2) + v.splat(9.669_691e-3) * f;
    let p = v.splat(1.0) + f * (low + f2 * (high + v.splat(1.330_060_5e-3) * f2));
    // 0.7 < p < 1.42: the integer is added to its exponent, and the bits of the magic number are shifted out
    v.as_floats(v.bits(p) + v.to_exponents(v.bits(shifted)))
}

/// The number nearest to x within [-most, most]; what is not a number becomes `most`.
#[inline(always)]
pub(super) fn to_single(x: f64, most: f64) -> f32 {
    let x = if x < most { x } else { most };
    (if x > -most { x } else { -most }) as f32
}

#[cfg(test)]
mod tests {
    use super::super::lanes::{Arrays, Level, SIXTEEN, VectorWork};
    use super::*;
    use crate::testing::Numbers;

    /// What the functions give for sixteen numbers.
    struct Results<'a>(&'a [f32; SIXTEEN], &'a mut [[i32; SIXTEEN]; 3]);

    impl VectorWork for Results<'_> {
        #[inline(always)]
        fn run(self, v: impl Vectors) {
            let Results(x, results) = self;
            let limits = bounds(v, SINGLE_COEFFICIENT as f32);
            v.store_integers(round(v, within(v, v.load(x), limits)), &mut results[0]);
            v.store_integers(v.bits(within(v, v.load(x), limits)), &mut results[1]);
            v.store_integers(
                v.bits(power_of_two(v, within(v, v.load(x), bounds(v, 125.0)))),
                &mut results[2],
            );
        }
    }

    #[test]
    fn all_vectors_give_the_same_bits_and_the_right_ones() {
        let mut numbers = Numbers::new(11);
        let most = SINGLE_COEFFICIENT as f32;
        let odd = [0.0, -0.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, most, 0.5 - most, 1e-40];
        let odd: [f32; SIXTEEN] = std::array::from_fn(|lane| odd[lane * 5 % odd.len()]);
        for case in 0..2000 {
            let scale = 2f64.powi(case % 50 - 25);
            let x =
                if case == 0 { odd } else { std::array::from_fn(|_| (numbers.symmetric() * scale) as f32) };
            let mut plain = [[0; SIXTEEN]; 3];
            Results(&x, &mut plain).run(Arrays);
            for &level in Level::available() {
                let mut results = [[0; SIXTEEN]; 3];
                level.work(Results(&x, &mut results));
                assert_eq!(results, plain, "{} {x:?}", level.name());
            }
            for (lane, &x) in x.iter().enumerate() {
                let held = if x.is_nan() { most } else { x.clamp(-most, most) };
                assert_eq!(plain[0][lane], held.round_ties_even() as i32, "{x}");
                let power = f64::from(if x.is_nan() { 125.0 } else { x.clamp(-125.0, 125.0) }).exp2();
                let found = f64::from(f32::from_bits(plain[2][lane] as u32));
                assert!((found / power - 1.0).abs() < 2.1e-7, "{x} {found} {power}");
            }
        }
    }

    #[test]
    fn doubles_are_cut_off() {
        let cases = [(f64::NAN, 3.0), (f64::INFINITY, 3.0), (-1e300, -3.0), (-0.25, -0.25), (1e-60, 0.0)];
        for (x, expected) in cases {
            assert_eq!(to_single(x, 3.0), expected);
        }
    }
}
