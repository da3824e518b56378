use super::super::block::BLOCK_ROWS;
use super::super::clamp::QUICK_COEFFICIENT;
use super::COEFFICIENT_DIGIT_BITS;

/// A block's coefficients in digits: s = d0 + 2^12 d1 + 2^24 d2 with -2^11 <= d < 2^11.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Digits([[i16; BLOCK_ROWS]; 3]);

impl Digits {
    /// Of no rows.
    pub(super) const NONE: Digits = Digits([[0; BLOCK_ROWS]; 3]);

    /// The lowest `COUNT` digits, which hold |s| <= MAX_COEFFICIENT if there are three; absent rows get zeros.
    #[inline(always)]
    pub(super) fn of<const COUNT: usize>(coefficients: &[i32]) -> Self {
        const HALF: i32 = 1 << (COEFFICIENT_DIGIT_BITS - 1);
        const MASK: i32 = (1 << COEFFICIENT_DIGIT_BITS) - 1;
        let mut left = <[i32; BLOCK_ROWS]>::try_from(coefficients).unwrap_or_else(|_| {
            let mut padded = [0; BLOCK_ROWS];
            padded[..coefficients.len()].copy_from_slice(coefficients);
            padded
        });
        let mut all = Digits::NONE;
        for digits in &mut all.0[..COUNT] {
            for (digit, left) in digits.iter_mut().zip(&mut left) {
                let own = (left.wrapping_add(HALF) & MASK).wrapping_sub(HALF);
                *left = left.wrapping_sub(own) >> COEFFICIENT_DIGIT_BITS;
                *digit = own as i16;
            }
        }
        all
    }

    /// One digit of rows 2 pair and 2 pair + 1, as the two halves of a 32-bit integer.
    #[inline(always)]
    pub(super) fn of_pair(&self, digit: usize, pair: usize) -> i32 {
        let [first, second] = self.0[digit].as_chunks::<2>().0[pair];
        i32::from(first as u16) | i32::from(second) << 16
    }
}

/// Whether two digits hold every coefficient: a third of the multiplications is saved, the sums are the same integers.
#[inline(always)]
pub(super) fn two_digits(coefficients: &[i32]) -> bool {
    coefficients.iter().fold(0, |most, s| s.unsigned_abs().max(most)) <= QUICK_COEFFICIENT
}
