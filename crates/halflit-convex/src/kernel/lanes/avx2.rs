//! The primitives with 256-bit vectors.

use super::*;
use std::arch::x86_64::*;

/// 16-bit integers in a vector.
const WIDE: usize = 16;

/// Rows whose scores are computed together.
const ROWS: usize = 4;

/// # Safety
/// The processor has AVX2; `digits` are padded to whole vectors.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn dots(panel: &Panel<'_>, digits: (&[i16], &[i16]), scores: &mut [i64]) {
    let vectors = panel.width.div_ceil(WIDE);
    let (low, high) = digits;
    assert!(low.len() >= vectors * WIDE && high.len() >= vectors * WIDE);
    for (offsets, scores) in panel.offsets.chunks(ROWS).zip(scores.chunks_mut(ROWS)) {
        // a short last group repeats its last row; the surplus scores are not stored
        let starts: [*const i16; ROWS] =
            std::array::from_fn(|row| panel.values[offsets[row.min(offsets.len() - 1)]..].as_ptr());
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
/// The processor has AVX2; `sums` holds whole vectors.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn accumulate(panel: &Panel<'_>, digits: &Digits, sums: &mut [i64]) {
    let vectors = panel.width.div_ceil(WIDE);
    assert!(sums.len() >= vectors * WIDE);
    for (vector, sums) in sums.chunks_exact_mut(WIDE).take(vectors).enumerate() {
        // [half][digit]
        let mut tile = [[_mm256_setzero_si256(); 3]; 2];
        for (pair, digits) in panel.offsets.chunks(2).zip(&digits.packed) {
            // a lone last row is paired with itself: its partner's digits are zero
            let first = panel.values[pair[0]..].as_ptr();
            let second = panel.values[pair[pair.len() - 1]..].as_ptr();
            // SAFETY: rows extend to whole vectors.
            let (a, b) = unsafe {
                (
                    _mm256_loadu_si256(first.add(vector * WIDE).cast()),
                    _mm256_loadu_si256(second.add(vector * WIDE).cast()),
                )
            };
            let interleaved = [_mm256_unpacklo_epi16(a, b), _mm256_unpackhi_epi16(a, b)];
            for (q, half) in interleaved.into_iter().zip(&mut tile) {
                for (sum, &digit) in half.iter_mut().zip(digits) {
                    *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(q, _mm256_set1_epi32(digit)));
                }
            }
        }
        for (digits, sums) in tile.iter().zip(sums.chunks_exact_mut(WIDE / 2)) {
            let mut lanes = [[0i32; WIDE / 2]; 3];
            for (lanes, &digit) in lanes.iter_mut().zip(digits) {
                // SAFETY: `lanes` is one vector long.
                unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), digit) };
            }
            for (lane, sum) in sums.iter_mut().enumerate() {
                let [d0, d1, d2] = [0, 1, 2].map(|digit| i64::from(lanes[digit][lane]));
                let high = (d1 << COEFFICIENT_DIGIT_BITS).wrapping_add(d2 << (2 * COEFFICIENT_DIGIT_BITS));
                *sum = sum.wrapping_add(d0).wrapping_add(high);
            }
        }
    }
}

/// # Safety
/// The processor has AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn fill<R: Rule>(rule: &R, block: &Block<'_>, scores: &[f64], values: &mut [f64]) {
    rule.fill(block, scores, values);
}

/// # Safety
/// The processor has AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn clamp(values: &[f64], limits: &[u32], coefficients: &mut [i32]) {
    crate::kernel::clamp::clamp_block(values, limits, coefficients);
}
