//! The primitives with 256-bit vectors.

use super::*;
use std::arch::x86_64::*;

/// 16-bit integers in a vector.
pub(super) const WIDE: usize = 16;

/// Rows whose scores are computed together.
const ROWS: usize = 4;

/// # Safety
/// The processor has AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn dots(panel: &Panel<'_>, digits: (&[i16], &[i16]), scores: &mut [i64]) {
    let vectors = panel.width.div_ceil(WIDE);
    let (low, high) = digits;
    assert!(low.len() >= vectors * WIDE && high.len() >= vectors * WIDE);
    let starts = panel.starts();
    let lines = panel.ahead.len().div_ceil(BLOCK_ROWS / ROWS);
    for ((group, starts), scores) in
        starts.as_chunks::<ROWS>().0.iter().enumerate().zip(scores.chunks_mut(ROWS))
    {
        panel.prefetch(group * lines, (group + 1) * lines);
        let mut totals = [_mm256_setzero_si256(); ROWS];
        let mut vector = 0;
        while vector < vectors {
            let end = (vector + VECTORS_PER_PANEL).min(vectors);
            let mut low_sums = [_mm256_setzero_si256(); ROWS];
            let mut high_sums = [_mm256_setzero_si256(); ROWS];
            for vector in vector..end {
                // SAFETY: vector < vectors, and rows and digits extend to whole vectors.
                let (low, high) = unsafe {
                    (
                        _mm256_loadu_si256(low.as_ptr().add(vector * WIDE).cast()),
                        _mm256_loadu_si256(high.as_ptr().add(vector * WIDE).cast()),
                    )
                };
                for row in 0..ROWS {
                    // SAFETY: as above.
                    let q = unsafe { _mm256_loadu_si256(starts[row].add(vector * WIDE).cast()) };
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
        unsafe { _mm256_storeu_si256(sums.as_mut_ptr().cast(), reduce(totals)) };
        scores.copy_from_slice(&sums[..scores.len()]);
    }
}

/// low + 2^13 high, lanes 2j and 2j+1 added, in 64 bits.
#[target_feature(enable = "avx2")]
#[inline]
fn widen(low: __m256i, high: __m256i) -> __m256i {
    // multiplying by one sign-extends the even lanes; shifting brings the odd ones down
    let extend = |x, factor| {
        let factor = _mm256_set1_epi64x(factor);
        _mm256_add_epi64(_mm256_mul_epi32(x, factor), _mm256_mul_epi32(_mm256_srli_epi64::<32>(x), factor))
    };
    _mm256_add_epi64(extend(low, 1), extend(high, 1 << DIGIT_BITS))
}

/// Sums the lanes of each of four vectors: lane r of the result is the sum of vector r.
#[target_feature(enable = "avx2")]
#[inline]
fn reduce(rows: [__m256i; ROWS]) -> __m256i {
    // pairs of rows share a vector: even lanes the first row, odd lanes the second
    let pair = |a, b| _mm256_add_epi64(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
    let (a, b) = (pair(rows[0], rows[1]), pair(rows[2], rows[3]));
    _mm256_add_epi64(_mm256_permute2x128_si256::<0x20>(a, b), _mm256_permute2x128_si256::<0x31>(a, b))
}

/// # Safety
/// The processor has AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn accumulate(panel: &Panel<'_>, coefficients: &[i32], sums: &mut [i64]) {
    // SAFETY: the features are those of this function.
    unsafe {
        match two_digits(coefficients) {
            true => accumulate_digits::<2>(panel, coefficients, sums),
            false => accumulate_digits::<3>(panel, coefficients, sums),
        }
    }
}

/// # Safety
/// The processor has AVX2.
#[target_feature(enable = "avx2")]
unsafe fn accumulate_digits<const DIGITS: usize>(panel: &Panel<'_>, coefficients: &[i32], sums: &mut [i64]) {
    let vectors = panel.width.div_ceil(WIDE);
    assert!(sums.len() >= vectors * WIDE);
    let starts = panel.starts();
    let digits = pack(coefficients);
    let pairs = panel.offsets.len().div_ceil(2);
    for (vector, sums) in sums.chunks_exact_mut(WIDE).take(vectors).enumerate() {
        // [half][digit]
        let mut tile = [[_mm256_setzero_si256(); DIGITS]; 2];
        // a lone last row is paired with itself: its partner's digits are zero
        for (pair, starts) in starts.as_chunks::<2>().0[..pairs].iter().enumerate() {
            let digits: [__m256i; DIGITS] =
                std::array::from_fn(|digit| _mm256_set1_epi32(digits[digit][pair]));
            // SAFETY: rows extend to whole vectors.
            let [a, b] =
                starts.map(|start| unsafe { _mm256_loadu_si256(start.wrapping_add(vector * WIDE).cast()) });
            let interleaved = [_mm256_unpacklo_epi16(a, b), _mm256_unpackhi_epi16(a, b)];
            for (q, half) in interleaved.into_iter().zip(&mut tile) {
                for (sum, digit) in half.iter_mut().zip(digits) {
                    *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(q, digit));
                }
            }
        }
        for (digits, sums) in tile.iter().zip(sums.chunks_exact_mut(WIDE / 2)) {
            let lower = digits.map(|digit| _mm256_cvtepi32_epi64(_mm256_castsi256_si128(digit)));
            let upper = digits.map(|digit| _mm256_cvtepi32_epi64(_mm256_extracti128_si256::<1>(digit)));
            for (digits, sums) in [lower, upper].into_iter().zip(sums.chunks_exact_mut(4)) {
                let second = _mm256_slli_epi64::<{ COEFFICIENT_DIGIT_BITS as i32 }>(digits[1]);
                let mut total = _mm256_add_epi64(digits[0], second);
                if DIGITS == 3 {
                    let third =
                        _mm256_slli_epi64::<{ 2 * COEFFICIENT_DIGIT_BITS as i32 }>(digits[DIGITS - 1]);
                    total = _mm256_add_epi64(total, third);
                }
                // SAFETY: four 64-bit integers, by the chunk size.
                unsafe {
                    let sum = _mm256_loadu_si256(sums.as_ptr().cast());
                    _mm256_storeu_si256(sums.as_mut_ptr().cast(), _mm256_add_epi64(sum, total));
                }
            }
        }
    }
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
