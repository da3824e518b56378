//! The primitives with 512-bit vectors.

use super::*;
use std::arch::x86_64::*;

/// 16-bit integers in a vector.
const WIDE: usize = 32;

/// Rows whose scores are computed together, so that one vector holds their eight 64-bit sums at the end.
const ROWS: usize = 8;

/// # Safety
/// The processor has the features below; `digits` are padded to whole vectors.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(super) unsafe fn dots(panel: &Panel<'_>, digits: (&[i16], &[i16]), scores: &mut [i64]) {
    let vectors = panel.width.div_ceil(WIDE);
    let (low, high) = digits;
    assert!(low.len() >= vectors * WIDE && high.len() >= vectors * WIDE);
    for (offsets, scores) in panel.offsets.chunks(ROWS).zip(scores.chunks_mut(ROWS)) {
        // a short last group repeats its last row; the surplus scores are not stored
        let starts: [*const i16; ROWS] =
            std::array::from_fn(|row| panel.values[offsets[row.min(offsets.len() - 1)]..].as_ptr());
        let mut totals = [_mm512_setzero_si512(); ROWS];
        let mut vector = 0;
        while vector < vectors {
            let end = (vector + VECTORS_PER_PANEL).min(vectors);
            let mut low_sums = [_mm512_setzero_si512(); ROWS];
            let mut high_sums = [_mm512_setzero_si512(); ROWS];
            for vector in vector..end {
                // SAFETY: vector < vectors, and rows and digits extend to whole vectors.
                let (low, high) = unsafe {
                    (
                        _mm512_loadu_si512(low.as_ptr().add(vector * WIDE).cast()),
                        _mm512_loadu_si512(high.as_ptr().add(vector * WIDE).cast()),
                    )
                };
                for row in 0..ROWS {
                    // SAFETY: as above.
                    let q = unsafe { _mm512_loadu_si512(starts[row].add(vector * WIDE).cast()) };
                    low_sums[row] = _mm512_dpwssd_epi32(low_sums[row], q, low);
                    high_sums[row] = _mm512_dpwssd_epi32(high_sums[row], q, high);
                }
            }
            for row in 0..ROWS {
                totals[row] = _mm512_add_epi64(totals[row], widen(low_sums[row], high_sums[row]));
            }
            vector = end;
        }
        let mut sums = [0i64; ROWS];
        // SAFETY: `sums` is one vector long.
        unsafe { _mm512_storeu_si512(sums.as_mut_ptr().cast(), reduce(totals)) };
        scores.copy_from_slice(&sums[..scores.len()]);
    }
}

/// low + 2^13 high, lanes 2j and 2j+1 added, in 64 bits.
#[target_feature(enable = "avx512f")]
#[inline]
fn widen(low: __m512i, high: __m512i) -> __m512i {
    let base = _mm512_set1_epi64(1 << DIGIT_BITS);
    let low =
        _mm512_add_epi64(_mm512_srai_epi64::<32>(low), _mm512_srai_epi64::<32>(_mm512_slli_epi64::<32>(low)));
    let high =
        _mm512_add_epi64(_mm512_mul_epi32(high, base), _mm512_mul_epi32(_mm512_srli_epi64::<32>(high), base));
    _mm512_add_epi64(low, high)
}

/// Sums the lanes of each of eight vectors: lane r of the result is the sum of vector r.
#[target_feature(enable = "avx512f")]
#[inline]
fn reduce(rows: [__m512i; ROWS]) -> __m512i {
    // pairs of rows share a vector: even lanes the first row, odd lanes the second
    let pair = |a, b| _mm512_add_epi64(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
    // 128-bit lanes 0+1 and 2+3 of each operand
    let fold =
        |a, b| _mm512_add_epi64(_mm512_shuffle_i64x2::<0x88>(a, b), _mm512_shuffle_i64x2::<0xdd>(a, b));
    let [a, b, c, d] = [0, 2, 4, 6].map(|row| pair(rows[row], rows[row + 1]));
    fold(fold(a, b), fold(c, d))
}

/// # Safety
/// The processor has the features below; `sums` holds whole vectors.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(super) unsafe fn accumulate(panel: &Panel<'_>, digits: &Digits, sums: &mut [i64]) {
    let vectors = panel.width.div_ceil(WIDE);
    assert!(sums.len() >= vectors * WIDE);
    let mut vector = 0;
    while vector < vectors {
        // Two vectors at a time: twelve running sums hide the latency of the multiply-add.
        // SAFETY: the features are those of this function, the extents as checked.
        unsafe {
            if vector + 2 <= vectors {
                accumulate_tile::<2>(panel, digits, vector, sums);
                vector += 2;
            } else {
                accumulate_tile::<1>(panel, digits, vector, sums);
                vector += 1;
            }
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline]
unsafe fn accumulate_tile<const TILE: usize>(
    panel: &Panel<'_>,
    digits: &Digits,
    first_vector: usize,
    sums: &mut [i64],
) {
    // [vector][half][digit]
    let mut tile = [[[_mm512_setzero_si512(); 3]; 2]; TILE];
    for (pair, digits) in panel.offsets.chunks(2).zip(&digits.packed) {
        // a lone last row is paired with itself: its partner's digits are zero
        let first = panel.values[pair[0]..].as_ptr();
        let second = panel.values[pair[pair.len() - 1]..].as_ptr();
        for (vector, halves) in tile.iter_mut().enumerate() {
            let column = (first_vector + vector) * WIDE;
            // SAFETY: rows extend to whole vectors.
            let (a, b) = unsafe {
                (_mm512_loadu_si512(first.add(column).cast()), _mm512_loadu_si512(second.add(column).cast()))
            };
            let interleaved = [_mm512_unpacklo_epi16(a, b), _mm512_unpackhi_epi16(a, b)];
            for (q, half) in interleaved.into_iter().zip(halves) {
                for (sum, &digit) in half.iter_mut().zip(digits) {
                    *sum = _mm512_dpwssd_epi32(*sum, q, _mm512_set1_epi32(digit));
                }
            }
        }
    }
    for (vector, halves) in tile.iter().enumerate() {
        for (half, digits) in halves.iter().enumerate() {
            let start = (first_vector + vector) * WIDE + half * (WIDE / 2);
            let sums = &mut sums[start..start + WIDE / 2];
            let lower = digits.map(|digit| _mm512_cvtepi32_epi64(_mm512_castsi512_si256(digit)));
            let upper = digits.map(|digit| _mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64::<1>(digit)));
            for (part, [d0, d1, d2]) in [lower, upper].into_iter().enumerate() {
                let total = _mm512_add_epi64(
                    d0,
                    _mm512_add_epi64(
                        _mm512_slli_epi64::<COEFFICIENT_DIGIT_BITS>(d1),
                        _mm512_slli_epi64::<{ 2 * COEFFICIENT_DIGIT_BITS }>(d2),
                    ),
                );
                let slot = sums[part * 8..part * 8 + 8].as_mut_ptr();
                // SAFETY: eight 64-bit integers, as just sliced.
                unsafe {
                    let sum = _mm512_loadu_si512(slot.cast());
                    _mm512_storeu_si512(slot.cast(), _mm512_add_epi64(sum, total));
                }
            }
        }
    }
}

/// # Safety
/// The processor has the features below.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(super) unsafe fn fill<R: Rule>(rule: &R, block: &Block<'_>, scores: &[f64], values: &mut [f64]) {
    rule.fill(block, scores, values);
}

/// # Safety
/// The processor has the features below.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(super) unsafe fn clamp(values: &[f64], limits: &[u32], coefficients: &mut [i32]) {
    crate::kernel::clamp::clamp_block(values, limits, coefficients);
}
