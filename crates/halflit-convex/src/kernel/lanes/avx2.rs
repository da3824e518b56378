//! The primitives with 256-bit vectors.

use super::blocks::Places;
use super::digits::{Digits, two_digits};
use super::*;
use std::arch::x86_64::*;

/// 16-bit integers in a vector.
pub(super) const WIDE: usize = 16;

/// Rows whose scores are computed together.
const ROWS: usize = 4;

/// # Safety
/// The processor has AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn dots(block: &impl DenseBlock, weights: &LatticeWeights, scores: &mut [i64]) {
    let (len, outputs) = (block.len(), weights.outputs());
    let vectors = block.width().div_ceil(WIDE);
    let places = block.places();
    let cached_rows = (CACHED_FEATURES / block.width().max(1) / ROWS).max(1) * ROWS;
    let turns = len.div_ceil(ROWS) * outputs;
    let asked = block.upcoming().share(scoring(outputs), turns);
    for first in (0..len).step_by(cached_rows) {
        let end = (first + cached_rows).min(len);
        for (output, scores) in scores.chunks_exact_mut(len).enumerate() {
            let (low, high) = weights.digits(output);
            assert!(low.len() * LANES >= vectors * WIDE && high.len() * LANES >= vectors * WIDE);
            let digits = [low.as_ptr().cast(), high.as_ptr().cast()];
            let (asks, scores) = ((block.upcoming(), asked), &mut scores[first..end]);
            // SAFETY: the features are those of this function; rows and digits extend to whole vectors.
            unsafe {
                if vectors <= SHORT_ROW {
                    output_dots::<true>(&places, first, digits, vectors, asks, scores);
                } else {
                    output_dots::<false>(&places, first, digits, vectors, asks, scores);
                }
            }
        }
    }
}

/// The scores of the rows from `first_row` on for one output, asking for so many upcoming lines with every four rows; `SHORT` if there are at most [`SHORT_ROW`] vectors.
///
/// # Safety
/// The processor has AVX2; the digits hold `vectors` vectors, and so do the rows.
#[target_feature(enable = "avx2")]
// on its own it has the registers to itself
#[inline(never)]
unsafe fn output_dots<const SHORT: bool>(
    places: &impl Places,
    first_row: usize,
    digits: [*const i16; 2],
    vectors: usize,
    (upcoming, asked): (&Upcoming, usize),
    scores: &mut [i64],
) {
    for (four, scores) in scores.chunks_mut(ROWS).enumerate() {
        let row = first_row.wrapping_add(four.wrapping_mul(ROWS));
        upcoming.ask(asked);
        let rows = std::array::from_fn(|own| places.row(row.wrapping_add(own)));
        // SAFETY: the caller's.
        let totals = unsafe {
            if SHORT { short_products(&rows, digits, vectors) } else { long_products(&rows, digits, vectors) }
        };
        let mut sums = [0i64; ROWS];
        // SAFETY: `sums` is one vector long.
        unsafe { _mm256_storeu_si256(sums.as_mut_ptr().cast(), totals) };
        match scores.first_chunk_mut() {
            Some(scores) => *scores = sums,
            None => scores.copy_from_slice(&sums[..scores.len()]),
        }
    }
}

/// Vectors whose digit products leave room in a lane for those of another: |16 products| < 2^30.
const SHORT_ROW: usize = VECTORS_PER_PANEL / 2;

/// Weights times features of four rows of at most [`SHORT_ROW`] vectors.
///
/// # Safety
/// The processor has AVX2; the digits hold `vectors` vectors, and so do the rows.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn short_products(rows: &[*const i16; ROWS], digits: [*const i16; 2], vectors: usize) -> __m256i {
    // Beginning at 2^30 instead of 0, lanes and sums of two lanes have no sign.
    let mut sums = [[_mm256_set1_epi32(1 << 30); 2]; ROWS];
    // SAFETY: the caller's.
    unsafe { add_panel(rows, digits, 0, vectors, &mut sums) };
    let begun = _mm256_set1_epi64x(8 * (1 << 30) * (1 + (1 << DIGIT_BITS)));
    let zero = _mm256_setzero_si256();
    // two rows share a vector: even lanes the first, odd lanes the second
    let pair = |a, b| _mm256_add_epi32(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
    let widen = |x| _mm256_add_epi64(_mm256_unpacklo_epi32(x, zero), _mm256_unpackhi_epi32(x, zero));
    let two = |[low, high]: [__m256i; 2], [other_low, other_high]: [__m256i; 2]| {
        let (low, high) = (widen(pair(low, other_low)), widen(pair(high, other_high)));
        _mm256_add_epi64(low, _mm256_slli_epi64::<{ DIGIT_BITS as i32 }>(high))
    };
    _mm256_sub_epi64(add_halves(two(sums[0], sums[1]), two(sums[2], sums[3])), begun)
}

/// Weights times features of four rows.
///
/// # Safety
/// The processor has AVX2; the digits hold `vectors` vectors, and so do the rows.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn long_products(rows: &[*const i16; ROWS], digits: [*const i16; 2], vectors: usize) -> __m256i {
    let mut totals = [_mm256_setzero_si256(); ROWS];
    for first in (0..vectors).step_by(VECTORS_PER_PANEL) {
        // Beginning at 2^31 instead of 0, lanes have no sign and are widened by fewer instructions.
        let mut sums = [[_mm256_set1_epi32(i32::MIN); 2]; ROWS];
        let panel = (vectors - first).min(VECTORS_PER_PANEL);
        // SAFETY: the caller's.
        unsafe { add_panel(rows, digits, first * WIDE, panel, &mut sums) };
        for (total, [low, high]) in totals.iter_mut().zip(sums) {
            *total = _mm256_add_epi64(*total, widen(low, high));
        }
    }
    let panels = vectors.div_ceil(VECTORS_PER_PANEL) as i64;
    let begun = _mm256_set1_epi64x(panels.wrapping_mul(8 * (1 << 31) * (1 + (1 << DIGIT_BITS))));
    let pair = |a, b| _mm256_add_epi64(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
    _mm256_sub_epi64(add_halves(pair(totals[0], totals[1]), pair(totals[2], totals[3])), begun)
}

/// sums[row][digit] += digits times features of `vectors` vectors from `column` on.
///
/// # Safety
/// The processor has AVX2; rows and digits hold these vectors.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn add_panel(
    rows: &[*const i16; ROWS],
    digits: [*const i16; 2],
    mut column: usize,
    vectors: usize,
    sums: &mut [[__m256i; 2]; ROWS],
) {
    // SAFETY: the caller's; `column` counts as many vectors as there are.
    unsafe {
        for _ in 0..vectors / 2 {
            add_products(rows, digits, column, sums);
            add_products(rows, digits, column.wrapping_add(WIDE), sums);
            column = column.wrapping_add(2 * WIDE);
        }
        if vectors % 2 == 1 {
            add_products(rows, digits, column, sums);
        }
    }
}

/// sums[row][digit] += digits times features of a vector of columns.
///
/// # Safety
/// The processor has AVX2; rows and digits hold a vector at `column`.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn add_products(
    rows: &[*const i16; ROWS],
    digits: [*const i16; 2],
    column: usize,
    sums: &mut [[__m256i; 2]; ROWS],
) {
    // SAFETY: the caller's.
    let load = |place: *const i16| unsafe { _mm256_loadu_si256(place.wrapping_add(column).cast()) };
    let multipliers = digits.map(load);
    for (&row, sums) in rows.iter().zip(sums) {
        let q = load(row);
        for (sum, multipliers) in sums.iter_mut().zip(multipliers) {
            *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(q, multipliers));
        }
    }
}

/// low + 2^12 high, lanes 2j and 2j+1 added, in 64 bits, for 32-bit lanes without sign.
#[target_feature(enable = "avx2")]
#[inline]
fn widen(low: __m256i, high: __m256i) -> __m256i {
    let lower_half = _mm256_set1_epi64x(0xffff_ffff);
    let [low, high] =
        [low, high].map(|x| _mm256_add_epi64(_mm256_and_si256(x, lower_half), _mm256_srli_epi64::<32>(x)));
    _mm256_add_epi64(low, _mm256_slli_epi64::<{ DIGIT_BITS as i32 }>(high))
}

/// The lower halves of two vectors plus the upper halves: lanes 0 and 1 are of the first, 2 and 3 of the second.
#[target_feature(enable = "avx2")]
#[inline]
fn add_halves(a: __m256i, b: __m256i) -> __m256i {
    _mm256_add_epi64(_mm256_permute2x128_si256::<0x20>(a, b), _mm256_permute2x128_si256::<0x31>(a, b))
}

/// Sums for so many coefficients of a row are computed together.
const TOGETHER: usize = 16;

/// # Safety
/// The processor has AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn accumulate(block: &impl DenseBlock, each: &mut [Weighted<'_>]) {
    let (places, upcoming) = (block.places(), block.upcoming());
    let (pairs, vectors) = (block.len().div_ceil(2), block.width().div_ceil(WIDE));
    for each in each.chunks_mut(TOGETHER) {
        // SAFETY: the features are those of this function.
        unsafe {
            if each.iter().all(|weighted| two_digits(weighted.coefficients)) {
                accumulate_digits::<2>(&places, upcoming, pairs, vectors, each);
            } else {
                accumulate_digits::<3>(&places, upcoming, pairs, vectors, each);
            }
        }
    }
}

/// # Safety
/// The processor has AVX2; rows hold `vectors` vectors.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn accumulate_digits<const DIGITS: usize>(
    places: &impl Places,
    upcoming: &Upcoming,
    pairs: usize,
    vectors: usize,
    each: &mut [Weighted<'_>],
) {
    // As many running sums as registers hold: of two vectors of columns, or of one for two coefficients.
    // SAFETY: the features are those of this function, and rows extend to whole vectors.
    if let [Weighted { coefficients, sums }] = each {
        let digits = Digits::of::<DIGITS>(coefficients);
        let asked = upcoming.share(summing(1), if DIGITS == 2 { vectors.div_ceil(2) } else { vectors });
        let mut vector = 0;
        while DIGITS == 2 && vector + 2 <= vectors {
            upcoming.ask(asked);
            unsafe { tile::<2, 1, DIGITS>(places, pairs, vector, [&digits], [sums]) };
            vector += 2;
        }
        for vector in vector..vectors {
            upcoming.ask(asked);
            unsafe { tile::<1, 1, DIGITS>(places, pairs, vector, [&digits], [sums]) };
        }
        return;
    }
    let mut digits = [Digits::NONE; TOGETHER];
    for (digits, weighted) in digits.iter_mut().zip(&*each) {
        *digits = Digits::of::<DIGITS>(weighted.coefficients);
    }
    let asked = upcoming.share(summing(each.len()), vectors * each.len().div_ceil(2));
    for vector in 0..vectors {
        for (two, [first, second]) in each.chunks_mut(2).zip(digits.as_chunks().0) {
            upcoming.ask(asked);
            // SAFETY: as above.
            match two {
                [one, other] => unsafe {
                    tile::<1, 2, DIGITS>(places, pairs, vector, [first, second], [one.sums, other.sums]);
                },
                [one] => unsafe { tile::<1, 1, DIGITS>(places, pairs, vector, [first], [one.sums]) },
                _ => {}
            }
        }
    }
}

/// Adds up `VECTORS` vectors of columns from `first_vector` on, for each of `EACH` coefficients.
///
/// # Safety
/// The processor has AVX2; rows hold these vectors.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn tile<const VECTORS: usize, const EACH: usize, const DIGITS: usize>(
    places: &impl Places,
    pairs: usize,
    first_vector: usize,
    digits: [&Digits; EACH],
    sums: [&mut [i64]; EACH],
) {
    let first_column = first_vector * WIDE;
    // Beginning at 2^31 instead of 0, lanes have no sign and are widened by fewer instructions.
    let mut lanes = [[[[_mm256_set1_epi32(i32::MIN); 2]; VECTORS]; DIGITS]; EACH];
    for pair in 0..pairs {
        // a lone last row is paired with one whose digits are zero
        let starts = [places.row(2 * pair), places.row(2 * pair + 1)];
        let halves: [[__m256i; 2]; VECTORS] = std::array::from_fn(|vector| {
            let column = first_column.wrapping_add(vector * WIDE);
            // SAFETY: rows extend to whole vectors.
            let [a, b] = starts.map(|start| unsafe { _mm256_loadu_si256(start.wrapping_add(column).cast()) });
            [_mm256_unpacklo_epi16(a, b), _mm256_unpackhi_epi16(a, b)]
        });
        for (digits, lanes) in digits.iter().zip(&mut lanes) {
            for (digit, lanes) in lanes.iter_mut().enumerate() {
                let multipliers = _mm256_set1_epi32(digits.of_pair(digit, pair));
                for (sum, &q) in lanes.as_flattened_mut().iter_mut().zip(halves.as_flattened()) {
                    *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(q, multipliers));
                }
            }
        }
    }
    let lower_half = _mm256_set1_epi64x(0xffff_ffff);
    let worth = if DIGITS == 3 { (1 << 24) + (1 << 12) + 1 } else { (1 << 12) + 1 };
    let begun = _mm256_set1_epi64x((1 << 31) * worth);
    for (lanes, sums) in lanes.iter().zip(sums) {
        let sums = &mut sums[first_column..][..VECTORS * WIDE];
        for (half, sums) in sums.as_chunks_mut::<{ WIDE / 2 }>().0.iter_mut().enumerate() {
            let (mut even, mut odd) = (_mm256_setzero_si256(), _mm256_setzero_si256());
            for digit in lanes.iter().rev() {
                // Horner's rule in base 2^12
                let digit = digit[half / 2][half % 2];
                even = _mm256_slli_epi64::<{ COEFFICIENT_DIGIT_BITS as i32 }>(even);
                odd = _mm256_slli_epi64::<{ COEFFICIENT_DIGIT_BITS as i32 }>(odd);
                even = _mm256_add_epi64(even, _mm256_and_si256(digit, lower_half));
                odd = _mm256_add_epi64(odd, _mm256_srli_epi64::<32>(digit));
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

/// Where in its vector [`accumulate`] keeps a column of it.
///
/// Unpacking puts columns 0..4 and 8..12 of a vector into its first half, the others into the second; widening puts even lanes
/// before odd ones.
#[inline(always)]
pub(super) fn place_of(column: usize) -> usize {
    let (half, lane) = (column % 8 / 4, column / 8 * 4 + column % 4);
    half * (WIDE / 2) + lane % 2 * 4 + lane / 2
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
