//! The primitives with 256-bit vectors.

use super::*;
use std::arch::x86_64::*;

/// 16-bit integers in a vector.
pub(super) const WIDE: usize = 16;

/// Rows whose scores are computed together.
pub(super) const ROWS: usize = 4;

/// # Safety
/// The processor has AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn dots(panel: &Panel<'_>, digits: (&[i16], &[i16]), scores: &mut [i64]) {
    let vectors = panel.width.div_ceil(WIDE);
    let (low, high) = digits;
    assert!(low.len() >= vectors * WIDE && high.len() >= vectors * WIDE);
    let starts = panel.starts();
    // what the products' lanes begin at
    let panels = vectors.div_ceil(VECTORS_PER_PANEL) as i64;
    let begun = _mm256_set1_epi64x(panels.wrapping_mul(8 * (1 << 31) * (1 + (1 << DIGIT_BITS))));
    let (ahead, looks_ahead) = (panel.ahead(), !panel.ahead.is_empty());
    for ((starts, ahead), scores) in
        starts.as_chunks::<ROWS>().0.iter().zip(ahead.as_chunks::<ROWS>().0).zip(scores.chunks_mut(ROWS))
    {
        if looks_ahead {
            ahead.iter().for_each(|row| ask_for(row.wrapping_add(panel.width)));
        }
        let mut totals = [_mm256_setzero_si256(); ROWS];
        let mut vector = 0;
        while vector < vectors {
            let end = (vector + VECTORS_PER_PANEL).min(vectors);
            // Beginning at 2^31 instead of 0, lanes have no sign and are widened by fewer instructions.
            let mut low_sums = [_mm256_set1_epi32(i32::MIN); ROWS];
            let mut high_sums = low_sums;
            for vector in vector..end {
                // a cache line holds two vectors
                if looks_ahead && vector % 2 == 0 {
                    ahead.iter().for_each(|row| ask_for(row.wrapping_add(vector * WIDE)));
                }
                // SAFETY: vector < vectors, and rows and digits extend to whole vectors.
                let load = |start: *const i16| unsafe { _mm256_loadu_si256(start.add(vector * WIDE).cast()) };
                let (low, high) = (load(low.as_ptr()), load(high.as_ptr()));
                for (row, q) in starts.map(load).into_iter().enumerate() {
                    low_sums[row] = _mm256_add_epi32(low_sums[row], _mm256_madd_epi16(q, low));
                    high_sums[row] = _mm256_add_epi32(high_sums[row], _mm256_madd_epi16(q, high));
                }
            }
            for row in 0..ROWS {
                totals[row] = _mm256_add_epi64(totals[row], widen(low_sums[row], high_sums[row]));
            }
            vector = end;
        }
        let mut sums = [0i64; ROWS];
        // SAFETY: `sums` is one vector long.
        unsafe { _mm256_storeu_si256(sums.as_mut_ptr().cast(), _mm256_sub_epi64(reduce(totals), begun)) };
        match <&mut [i64; ROWS]>::try_from(&mut *scores) {
            Ok(scores) => *scores = sums,
            Err(_) => scores.copy_from_slice(&sums[..scores.len()]),
        }
    }
}

/// low + 2^12 high, lanes 2j and 2j+1 added, in 64 bits, for 32-bit lanes without sign.
#[target_feature(enable = "avx2")]
#[inline]
pub(super) fn widen(low: __m256i, high: __m256i) -> __m256i {
    let lower_half = _mm256_set1_epi64x(0xffff_ffff);
    let [low, high] =
        [low, high].map(|x| _mm256_add_epi64(_mm256_and_si256(x, lower_half), _mm256_srli_epi64::<32>(x)));
    _mm256_add_epi64(low, _mm256_slli_epi64::<{ DIGIT_BITS as i32 }>(high))
}

/// Sums the lanes of each of four vectors: lane r of the result is the sum of vector r.
#[target_feature(enable = "avx2")]
#[inline]
pub(super) fn reduce(rows: [__m256i; ROWS]) -> __m256i {
    // pairs of rows share a vector: even lanes the first row, odd lanes the second
    let pair = |a, b| _mm256_add_epi64(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
    let (a, b) = (pair(rows[0], rows[1]), pair(rows[2], rows[3]));
    _mm256_add_epi64(_mm256_permute2x128_si256::<0x20>(a, b), _mm256_permute2x128_si256::<0x31>(a, b))
}

/// # Safety
/// The processor has AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn accumulate(panel: &Panel<'_>, coefficients: &[i32], sums: &mut [i64]) {
    let vectors = panel.width.div_ceil(WIDE);
    assert!(sums.len() >= vectors * WIDE);
    let starts = panel.starts();
    let digits = pack(coefficients);
    let pairs = panel.offsets.len().div_ceil(2);
    let two = two_digits(coefficients);
    let mut vector = 0;
    while vector < vectors {
        // As many running sums as registers hold: 2 * 2 * 2 or 1 * 2 * 3.
        // SAFETY: the features are those of this function; rows and sums extend to whole vectors.
        vector += unsafe {
            match (vectors - vector, two) {
                (_, false) => tile::<1, 3>(&starts, &digits, pairs, vector, sums),
                (1, true) => tile::<1, 2>(&starts, &digits, pairs, vector, sums),
                (_, true) => tile::<2, 2>(&starts, &digits, pairs, vector, sums),
            }
        };
    }
}

/// Adds up `TILE` vectors of columns from `first_vector` on; returns how many these were.
///
/// # Safety
/// The processor has AVX2; rows and sums hold these vectors.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn tile<const TILE: usize, const DIGITS: usize>(
    starts: &[*const i16; BLOCK_ROWS],
    digits: &PackedDigits,
    pairs: usize,
    first_vector: usize,
    sums: &mut [i64],
) -> usize {
    // [vector][half][digit]
    let mut tile = [[[_mm256_setzero_si256(); DIGITS]; 2]; TILE];
    // a lone last row is paired with itself: its partner's digits are zero
    for (pair, starts) in starts.as_chunks::<2>().0[..pairs].iter().enumerate() {
        let digits: [__m256i; DIGITS] = std::array::from_fn(|digit| _mm256_set1_epi32(digits[digit][pair]));
        for (vector, halves) in tile.iter_mut().enumerate() {
            let column = (first_vector + vector) * WIDE;
            // SAFETY: rows extend to whole vectors.
            let [a, b] = starts.map(|start| unsafe { _mm256_loadu_si256(start.wrapping_add(column).cast()) });
            let interleaved = [_mm256_unpacklo_epi16(a, b), _mm256_unpackhi_epi16(a, b)];
            for (q, half) in interleaved.into_iter().zip(halves) {
                for (sum, digit) in half.iter_mut().zip(digits) {
                    *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(q, digit));
                }
            }
        }
    }
    let sums = &mut sums[first_vector * WIDE..][..TILE * WIDE];
    for (digits, sums) in tile.as_flattened().iter().zip(sums.chunks_exact_mut(WIDE / 2)) {
        let lower = digits.map(|digit| _mm256_cvtepi32_epi64(_mm256_castsi256_si128(digit)));
        let upper = digits.map(|digit| _mm256_cvtepi32_epi64(_mm256_extracti128_si256::<1>(digit)));
        for (digits, sums) in [lower, upper].into_iter().zip(sums.chunks_exact_mut(4)) {
            let second = _mm256_slli_epi64::<{ COEFFICIENT_DIGIT_BITS as i32 }>(digits[1]);
            let mut total = _mm256_add_epi64(digits[0], second);
            if DIGITS == 3 {
                let third = _mm256_slli_epi64::<{ 2 * COEFFICIENT_DIGIT_BITS as i32 }>(digits[DIGITS - 1]);
                total = _mm256_add_epi64(total, third);
            }
            // SAFETY: four 64-bit integers, by the chunk size.
            unsafe {
                let sum = _mm256_loadu_si256(sums.as_ptr().cast());
                _mm256_storeu_si256(sums.as_mut_ptr().cast(), _mm256_add_epi64(sum, total));
            }
        }
    }
    TILE
}

/// # Safety
/// The processor has AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn coefficients<R: Rule>(rule: &R, block: &Block<'_>, work: Coefficients<'_>) {
    work.fill(rule, block);
}

/// # Safety
/// The processor has AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn run<T>(work: impl FnOnce() -> T) -> T {
    work()
}
