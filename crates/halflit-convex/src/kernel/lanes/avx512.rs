//! The primitives with 512-bit vectors.

use super::digits::{Digits, two_digits};
use super::*;
use std::arch::x86_64::*;

/// 16-bit integers in a vector.
pub(super) const WIDE: usize = 32;

/// Rows whose scores are computed together, so that one vector holds their eight 64-bit sums at the end.
const ROWS: usize = 8;

/// # Safety
/// The processor has the features below.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(super) unsafe fn dots(panel: &Panel<'_>, digits: (&[i16], &[i16]), outputs: usize, scores: &mut [i64]) {
    let asked = panel.upcoming.share(SCORING, panel.offsets.len().div_ceil(ROWS) * outputs);
    let vectors = panel.width.div_ceil(WIDE);
    let (low, high) = digits;
    assert!(low.len() >= vectors * WIDE && high.len() >= vectors * WIDE);
    let starts = panel.starts();
    // Hidden from the compiler, which would turn multiplications by powers of two into twice as many shifts, and those
    // have one port where multiplications have two.
    let places = std::hint::black_box([1, 1 << DIGIT_BITS]).map(|place| _mm512_set1_epi64(place));
    for (starts, scores) in starts.as_chunks::<ROWS>().0.iter().zip(scores.chunks_mut(ROWS)) {
        panel.upcoming.ask(asked);
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
                totals[row] = _mm512_add_epi64(totals[row], widen(low_sums[row], high_sums[row], places));
            }
            vector = end;
        }
        let mut sums = [0i64; ROWS];
        // SAFETY: `sums` is one vector long.
        unsafe { _mm512_storeu_si512(sums.as_mut_ptr().cast(), reduce(totals)) };
        match <&mut [i64; ROWS]>::try_from(&mut *scores) {
            Ok(scores) => *scores = sums,
            Err(_) => scores.copy_from_slice(&sums[..scores.len()]),
        }
    }
}

/// low + 2^12 high, lanes 2j and 2j+1 added, in 64 bits. `places` are the worths of the two digits.
#[target_feature(enable = "avx512f")]
#[inline]
fn widen(low: __m512i, high: __m512i, places: [__m512i; 2]) -> __m512i {
    let [low, high] = [(low, places[0]), (high, places[1])].map(|(x, place)| {
        // the multiplication reads the even 32-bit lanes; the shuffle brings the odd ones there
        let odd = _mm512_shuffle_epi32::<0b11_11_01_01>(x);
        _mm512_add_epi64(_mm512_mul_epi32(x, place), _mm512_mul_epi32(odd, place))
    });
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
/// The processor has the features below.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(super) unsafe fn accumulate(panel: &Panel<'_>, coefficients: &[i32], outputs: usize, sums: &mut [i64]) {
    let vectors = panel.width.div_ceil(WIDE);
    let asked = panel.upcoming.share(SUMMING, vectors.div_ceil(4) * outputs);
    assert!(sums.len() >= vectors * WIDE);
    let starts = panel.starts();
    let digits = Digits::of::<3>(coefficients);
    let two = two_digits(coefficients);
    let pairs = panel.offsets.len().div_ceil(2);
    let mut vector = 0;
    while vector < vectors {
        let left = vectors - vector;
        panel.upcoming.ask(asked);
        // Four vectors at a time fill the registers with running sums: 4 * 2 * 3.
        // SAFETY: the features are those of this function; rows and sums extend to whole vectors.
        unsafe {
            match (left, two) {
                (1, false) => tile::<1, 3>(&starts, &digits, pairs, vector, sums),
                (2, false) => tile::<2, 3>(&starts, &digits, pairs, vector, sums),
                (3, false) => tile::<3, 3>(&starts, &digits, pairs, vector, sums),
                (_, false) => tile::<4, 3>(&starts, &digits, pairs, vector, sums),
                (1, true) => tile::<1, 2>(&starts, &digits, pairs, vector, sums),
                (2, true) => tile::<2, 2>(&starts, &digits, pairs, vector, sums),
                (3, true) => tile::<3, 2>(&starts, &digits, pairs, vector, sums),
                (_, true) => tile::<4, 2>(&starts, &digits, pairs, vector, sums),
            }
        }
        vector += left.min(4);
    }
}

/// # Safety
/// The features below; rows and sums hold `TILE` vectors from `first_vector` on.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline]
unsafe fn tile<const TILE: usize, const DIGITS: usize>(
    starts: &[*const i16; BLOCK_ROWS],
    digits: &Digits,
    pairs: usize,
    first_vector: usize,
    sums: &mut [i64],
) {
    // [vector][half][digit]
    let mut tile = [[[_mm512_setzero_si512(); DIGITS]; 2]; TILE];
    // a lone last row is paired with itself: its partner's digits are zero
    for (pair, starts) in starts.as_chunks::<2>().0[..pairs].iter().enumerate() {
        let digits: [__m512i; DIGITS] =
            std::array::from_fn(|digit| _mm512_set1_epi32(digits.of_pair(digit, pair)));
        for (vector, halves) in tile.iter_mut().enumerate() {
            let column = (first_vector + vector) * WIDE;
            // SAFETY: rows extend to whole vectors.
            let [a, b] = starts.map(|start| unsafe { _mm512_loadu_si512(start.wrapping_add(column).cast()) });
            let interleaved = [_mm512_unpacklo_epi16(a, b), _mm512_unpackhi_epi16(a, b)];
            for (q, half) in interleaved.into_iter().zip(halves) {
                for (sum, digit) in half.iter_mut().zip(digits) {
                    *sum = _mm512_dpwssd_epi32(*sum, q, digit);
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
            for (digits, sums) in [lower, upper].into_iter().zip(sums.chunks_exact_mut(8)) {
                let mut total =
                    _mm512_add_epi64(digits[0], _mm512_slli_epi64::<COEFFICIENT_DIGIT_BITS>(digits[1]));
                if DIGITS == 3 {
                    let third = _mm512_slli_epi64::<{ 2 * COEFFICIENT_DIGIT_BITS }>(digits[DIGITS - 1]);
                    total = _mm512_add_epi64(total, third);
                }
                // SAFETY: eight 64-bit integers, by the chunk size.
                unsafe {
                    let sum = _mm512_loadu_si512(sums.as_ptr().cast());
                    _mm512_storeu_si512(sums.as_mut_ptr().cast(), _mm512_add_epi64(sum, total));
                }
            }
        }
    }
}

/// Where in its vector [`accumulate`] keeps a column of it.
///
/// Unpacking interleaves within 128-bit lanes of 8 columns: lane L puts its columns 0..4 into the first half of the
/// vector's sums and 4..8 into the second half, four per lane.
#[inline(always)]
pub(super) fn place_of(column: usize) -> usize {
    column % 8 / 4 * (WIDE / 2) + column / 8 * 4 + column % 4
}

/// # Safety
/// The processor has the features below.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(super) unsafe fn coefficients<R: Rule>(rule: &R, block: &Block<'_>, work: Coefficients<'_>) {
    work.fill(rule, block);
}

/// # Safety
/// The processor has the features below.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(super) unsafe fn run<T>(work: impl FnOnce() -> T) -> T {
    work()
}
