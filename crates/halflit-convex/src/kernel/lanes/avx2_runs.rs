//! Runs of consecutive rows with 256-bit vectors.

use super::avx2::{ROWS, WIDE, reduce, widen};
use super::runs::Run;
use super::*;
use std::arch::x86_64::*;

/// # Safety
/// The processor has AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn scores(run: &Run<'_>, digits: (&[i16], &[i16]), scores: &mut [i64; BLOCK_ROWS]) {
    let (width, vectors) = (run.width(), run.width().div_ceil(WIDE));
    assert!(digits.0.len() >= vectors * WIDE && digits.1.len() >= vectors * WIDE);
    let digits = [digits.0.as_ptr(), digits.1.as_ptr()];
    // what the products' lanes begin at, see `avx2::dots`
    let panels = vectors.div_ceil(VECTORS_PER_PANEL) as i64;
    let begun = _mm256_set1_epi64x(panels.wrapping_mul(8 * (1 << 31) * (1 + (1 << DIGIT_BITS))));
    let mut start = run.start();
    let mut asked = start.wrapping_add(BLOCK_ROWS * width);
    for scores in scores.as_chunks_mut::<ROWS>().0 {
        let (mut totals, mut column, mut left) = ([_mm256_setzero_si256(); ROWS], 0, vectors);
        while left > 0 {
            let panel = left.min(VECTORS_PER_PANEL);
            left -= panel;
            let mut sums = [[_mm256_set1_epi32(i32::MIN); 2]; ROWS];
            // SAFETY: rows and digits extend to whole vectors, and `column` counts as many as there are.
            unsafe {
                for _ in 0..panel / 2 {
                    add_products(start, width, digits, column, &mut sums);
                    add_products(start, width, digits, column.wrapping_add(WIDE), &mut sums);
                    column = column.wrapping_add(2 * WIDE);
                }
                if panel % 2 == 1 {
                    add_products(start, width, digits, column, &mut sums);
                    column = column.wrapping_add(WIDE);
                }
            }
            for (total, [low, high]) in totals.iter_mut().zip(sums) {
                *total = _mm256_add_epi64(*total, widen(low, high));
            }
        }
        // SAFETY: `scores` is one vector long.
        unsafe { _mm256_storeu_si256(scores.as_mut_ptr().cast(), _mm256_sub_epi64(reduce(totals), begun)) };
        start = start.wrapping_add(ROWS * width);
        if run.looks_ahead() {
            asked = ask_until(asked, start.wrapping_add(BLOCK_ROWS * width));
        }
    }
}

/// sums[row][digit] += digits times features of a vector of columns, for rows that follow one another.
///
/// # Safety
/// The processor has AVX2; rows and digits hold a vector at `column`.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn add_products(
    start: *const i16,
    width: usize,
    digits: [*const i16; 2],
    column: usize,
    sums: &mut [[__m256i; 2]; ROWS],
) {
    // SAFETY: the caller's.
    let load = |place: *const i16| unsafe { _mm256_loadu_si256(place.wrapping_add(column).cast()) };
    let multipliers = [load(digits[0]), load(digits[1])];
    for (row, sums) in sums.iter_mut().enumerate() {
        let q = load(start.wrapping_add(row * width));
        for (sum, multipliers) in sums.iter_mut().zip(multipliers) {
            *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(q, multipliers));
        }
    }
}

/// Asks for everything from a place on and until another, perhaps a little further; returns where that ended.
#[inline(always)]
fn ask_until(mut place: *const i16, end: *const i16) -> *const i16 {
    while place < end {
        for line in 0..4 {
            ask_for(place.wrapping_add(line * LINE));
        }
        place = place.wrapping_add(4 * LINE);
    }
    place
}

/// # Safety
/// The processor has AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn sums(run: &Run<'_>, coefficients: [&[i32; BLOCK_ROWS]; 2], sums: [&mut [i64]; 2]) {
    // SAFETY: the features are those of this function.
    unsafe {
        if two_digits(coefficients[0]) && two_digits(coefficients[1]) {
            sums_with::<2>(run, coefficients, sums);
        } else {
            sums_with::<3>(run, coefficients, sums);
        }
    }
}

/// # Safety
/// The processor has AVX2.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn sums_with<const DIGITS: usize>(
    run: &Run<'_>,
    coefficients: [&[i32; BLOCK_ROWS]; 2],
    [one, other]: [&mut [i64]; 2],
) {
    let vectors = run.width().div_ceil(WIDE);
    assert!(one.len() >= vectors * WIDE && other.len() >= vectors * WIDE);
    let digits = Digits::<DIGITS>::of(coefficients);
    let sums = one.as_chunks_mut::<WIDE>().0.iter_mut().zip(other.as_chunks_mut::<WIDE>().0);
    for (vector, (one, other)) in sums.enumerate().take(vectors) {
        // SAFETY: the features are those of this function; rows extend to whole vectors.
        unsafe { column_sums(run, &digits, vector * WIDE, [one, other]) };
    }
}

/// The digits of both sets of coefficients, in the order in which pairs of rows need them.
#[repr(align(64))]
struct Digits<const DIGITS: usize>([[[i16; BLOCK_ROWS]; DIGITS]; 2]);

impl<const DIGITS: usize> Digits<DIGITS> {
    /// s = d0 + 2^12 d1 + 2^24 d2 with -2^11 <= d < 2^11, for coefficients that so many digits hold.
    #[inline(always)]
    fn of(coefficients: [&[i32; BLOCK_ROWS]; 2]) -> Self {
        const HALF: i32 = 1 << (COEFFICIENT_DIGIT_BITS - 1);
        const MASK: i32 = (1 << COEFFICIENT_DIGIT_BITS) - 1;
        let mut all = Digits([[[0; BLOCK_ROWS]; DIGITS]; 2]);
        for (coefficients, digits) in coefficients.into_iter().zip(&mut all.0) {
            let mut left = *coefficients;
            for digits in digits {
                for (digit, left) in digits.iter_mut().zip(&mut left) {
                    let own = (left.wrapping_add(HALF) & MASK).wrapping_sub(HALF);
                    *left = left.wrapping_sub(own) >> COEFFICIENT_DIGIT_BITS;
                    *digit = own as i16;
                }
            }
        }
        all
    }

    /// One digit of two neighbouring rows, in every lane.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn of_pair(&self, set: usize, digit: usize, pair: usize) -> __m256i {
        let [low, high] = self.0[set][digit].as_chunks::<2>().0[pair].map(|digit| i32::from(digit as u16));
        _mm256_set1_epi32(low | high << 16)
    }
}

/// Adds up the vector of columns from `column` on for both sets: 2 * 2 * `DIGITS` running sums.
///
/// # Safety
/// The processor has AVX2; rows hold this vector.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn column_sums<const DIGITS: usize>(
    run: &Run<'_>,
    digits: &Digits<DIGITS>,
    column: usize,
    sums: [&mut [i64; WIDE]; 2],
) {
    // [set][digit][half]; lanes begin at 2^31, so that they have no sign and are widened by fewer instructions
    let mut lanes = [[[_mm256_set1_epi32(i32::MIN); 2]; DIGITS]; 2];
    let mut start = run.start().wrapping_add(column);
    for pair in 0..BLOCK_ROWS / 2 {
        // SAFETY: rows extend to whole vectors.
        let (a, b) = unsafe {
            (_mm256_loadu_si256(start.cast()), _mm256_loadu_si256(start.wrapping_add(run.width()).cast()))
        };
        start = start.wrapping_add(2 * run.width());
        let halves = [_mm256_unpacklo_epi16(a, b), _mm256_unpackhi_epi16(a, b)];
        for (set, lanes) in lanes.iter_mut().enumerate() {
            for (digit, lanes) in lanes.iter_mut().enumerate() {
                let multipliers = digits.of_pair(set, digit, pair);
                for (sum, q) in lanes.iter_mut().zip(halves) {
                    *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(q, multipliers));
                }
            }
        }
    }
    let lower_half = _mm256_set1_epi64x(0xffff_ffff);
    let worth = if DIGITS == 3 { (1 << 24) + (1 << 12) + 1 } else { (1 << 12) + 1 };
    let begun = _mm256_set1_epi64x((1 << 31) * worth);
    for (lanes, sums) in lanes.iter().zip(sums) {
        for (half, sums) in sums.as_chunks_mut::<{ WIDE / 2 }>().0.iter_mut().enumerate() {
            let (mut even, mut odd) = (_mm256_setzero_si256(), _mm256_setzero_si256());
            for digit in lanes.iter().rev() {
                // Horner's rule in base 2^12
                even = _mm256_slli_epi64::<{ COEFFICIENT_DIGIT_BITS as i32 }>(even);
                odd = _mm256_slli_epi64::<{ COEFFICIENT_DIGIT_BITS as i32 }>(odd);
                even = _mm256_add_epi64(even, _mm256_and_si256(digit[half], lower_half));
                odd = _mm256_add_epi64(odd, _mm256_srli_epi64::<32>(digit[half]));
            }
            for (total, sums) in [even, odd].into_iter().zip(sums.as_chunks_mut::<4>().0) {
                // SAFETY: four 64-bit integers, by the chunk size.
                unsafe {
                    let sum = _mm256_loadu_si256(sums.as_ptr().cast());
                    let total = _mm256_sub_epi64(total, begun);
                    _mm256_storeu_si256(sums.as_mut_ptr().cast(), _mm256_add_epi64(sum, total));
                }
            }
        }
    }
}

/// Where [`sums`] keeps a column.
///
/// Unpacking puts columns 0..4 and 8..12 of a vector into its first half, the others into the second; widening puts even lanes
/// before odd ones.
pub(super) fn place_of(column: usize) -> usize {
    let (vector, place) = (column / WIDE, column % WIDE);
    let (half, lane) = (place % 8 / 4, place / 8 * 4 + place % 4);
    vector * WIDE + half * (WIDE / 2) + lane % 2 * 4 + lane / 2
}
