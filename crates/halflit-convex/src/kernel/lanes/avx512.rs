//! The primitives with 512-bit vectors. What is written here is what `avx2` does with 256 bits, except that lanes keep their sign: these
//! vectors have the instructions for it.

use super::blocks::Places;
use super::digits::{Digits, two_digits};
use super::*;
use crate::rows::FEATURE_SCALE;
use std::arch::x86_64::*;
use std::ops::Range;

/// 16-bit integers in a vector.
pub(super) const WIDE: usize = 32;

/// Rows whose scores are computed together, so that one vector holds their eight 64-bit sums at the end.
const ROWS: usize = 8;

/// Outputs whose scores are computed together, of four rows at a time: as many running sums as registers hold.
const TOGETHER: usize = 3;

/// # Safety
/// The processor has the features below.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(super) unsafe fn dots(block: &impl DenseBlock, weights: &LatticeWeights, scores: &mut [i64]) {
    let (len, outputs) = (block.len(), weights.outputs());
    let vectors = block.width().div_ceil(WIDE);
    let small = block.largest() <= FEATURE_SCALE;
    let columns = Columns { vectors, panel: if small { VECTORS_PER_SMALL_PANEL } else { VECTORS_PER_PANEL } };
    let places = block.places();
    let cached_rows = (CACHED_FEATURES / block.width().max(1) / ROWS).max(1) * ROWS;
    let groups = outputs.div_ceil(TOGETHER);
    let upcoming = block.upcoming();
    let turns = len.div_ceil(if outputs == 1 { ROWS } else { ROWS / 2 }) * groups;
    let asks = (upcoming, upcoming.share(scoring(outputs), turns));
    for first in (0..len).step_by(cached_rows) {
        let rows = first..(first + cached_rows).min(len);
        for group in 0..groups {
            // of one size, or nearly so
            let (output, next) = (group * outputs / groups, (group + 1) * outputs / groups);
            let scores = &mut scores[output * len..];
            let digits = |own: usize| {
                let (low, high) = weights.digits(output + own);
                assert!(low.len() * LANES >= vectors * WIDE && high.len() * LANES >= vectors * WIDE);
                [low.as_ptr().cast(), high.as_ptr().cast()]
            };
            // SAFETY: the features are those of this function; rows and digits extend to whole vectors.
            unsafe {
                match next - output {
                    1 if vectors <= SHORT_ROW => {
                        one_output::<true>(&places, rows.clone(), digits(0), columns, asks, scores);
                    }
                    1 => one_output::<false>(&places, rows.clone(), digits(0), columns, asks, scores),
                    2 => {
                        let digits = [digits(0), digits(1)];
                        several_outputs(&places, rows.clone(), digits, columns, asks, len, scores);
                    }
                    _ => {
                        let digits = [digits(0), digits(1), digits(2)];
                        several_outputs(&places, rows.clone(), digits, columns, asks, len, scores);
                    }
                }
            }
        }
    }
}

/// How a row's columns are gone through.
#[derive(Clone, Copy)]
struct Columns {
    /// Vectors of a row.
    vectors: usize,
    /// Vectors whose digit products fit into a lane.
    panel: usize,
}

/// The scores of some rows for one output, asking for so many upcoming lines with every eight rows; `SHORT` if there are at most
/// [`SHORT_ROW`] vectors.
///
/// # Safety
/// The processor has the features below; digits and rows hold these vectors.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
// on its own it has the registers to itself
#[inline(never)]
unsafe fn one_output<const SHORT: bool>(
    places: &impl Places,
    rows: Range<usize>,
    digits: [*const i16; 2],
    columns: Columns,
    (upcoming, asked): (&Upcoming, usize),
    scores: &mut [i64],
) {
    for (eight, scores) in scores[rows.clone()].chunks_mut(ROWS).enumerate() {
        let row = rows.start.wrapping_add(eight.wrapping_mul(ROWS));
        upcoming.ask(asked);
        let rows = std::array::from_fn(|own| places.row(row.wrapping_add(own)));
        // SAFETY: the caller's.
        let totals = unsafe {
            if SHORT {
                short_products(&rows, digits, columns.vectors)
            } else {
                long_products(&rows, digits, columns)
            }
        };
        let mut sums = [0i64; ROWS];
        // SAFETY: `sums` is one vector long.
        unsafe { _mm512_storeu_si512(sums.as_mut_ptr().cast(), totals) };
        match scores.first_chunk_mut() {
            Some(scores) => *scores = sums,
            None => scores.copy_from_slice(&sums[..scores.len()]),
        }
    }
}

/// The scores of some rows for several outputs, `len` scores each: features are loaded once for all of them.
///
/// # Safety
/// The processor has the features below; digits and rows hold these vectors.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline(never)]
unsafe fn several_outputs<const OUTPUTS: usize>(
    places: &impl Places,
    rows: Range<usize>,
    digits: [[*const i16; 2]; OUTPUTS],
    Columns { vectors, panel }: Columns,
    (upcoming, asked): (&Upcoming, usize),
    len: usize,
    scores: &mut [i64],
) {
    const FOUR: usize = ROWS / 2;
    for row in rows.clone().step_by(FOUR) {
        upcoming.ask(asked);
        let four: [*const i16; FOUR] = std::array::from_fn(|own| places.row(row.wrapping_add(own)));
        let mut totals = [[_mm512_setzero_si512(); FOUR]; OUTPUTS];
        for first in (0..vectors).step_by(panel) {
            let mut sums = [[[_mm512_setzero_si512(); FOUR]; 2]; OUTPUTS];
            for vector in first..(first + panel).min(vectors) {
                let column = vector.wrapping_mul(WIDE);
                // SAFETY: the caller's.
                let load =
                    |place: *const i16| unsafe { _mm512_loadu_si512(place.wrapping_add(column).cast()) };
                let features = four.map(load);
                for (digits, sums) in digits.iter().zip(&mut sums) {
                    for (&digits, sums) in digits.iter().zip(sums) {
                        let multiplier = load(digits);
                        for (sum, &q) in sums.iter_mut().zip(&features) {
                            *sum = _mm512_dpwssd_epi32(*sum, q, multiplier);
                        }
                    }
                }
            }
            for (totals, [low, high]) in totals.iter_mut().zip(&sums) {
                for own in 0..FOUR {
                    let [even, odd] = even_and_odd(&[low[own], high[own]]);
                    totals[own] = _mm512_add_epi64(totals[own], _mm512_add_epi64(even, odd));
                }
            }
        }
        let count = (rows.end - row).min(FOUR);
        for (totals, scores) in totals.iter().zip(scores.chunks_mut(len)) {
            let mut sums = [0i64; FOUR];
            let [a, b] = [pair(totals[0], totals[1]), pair(totals[2], totals[3])];
            let folded = fold(a, b);
            let sum = _mm256_add_epi64(
                _mm512_castsi512_si256(_mm512_shuffle_i64x2::<0x08>(folded, folded)),
                _mm512_castsi512_si256(_mm512_shuffle_i64x2::<0x0d>(folded, folded)),
            );
            // SAFETY: four 64-bit integers.
            unsafe { _mm256_storeu_si256(sums.as_mut_ptr().cast(), sum) };
            scores[row..row + count].copy_from_slice(&sums[..count]);
        }
    }
}

/// Vectors whose digit products leave room in a lane for those of three others: |8 products| < 2^29.
const SHORT_ROW: usize = VECTORS_PER_PANEL / 4;

/// Weights times features of eight rows of at most [`SHORT_ROW`] vectors.
///
/// # Safety
/// The processor has the features below; digits and rows hold these vectors.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline]
unsafe fn short_products(rows: &[*const i16; ROWS], digits: [*const i16; 2], vectors: usize) -> __m512i {
    let mut sums = [[_mm512_setzero_si512(); ROWS]; 2];
    // SAFETY: the caller's.
    unsafe { add_panel(rows, digits, 0, vectors, &mut sums) };
    let [low, high] = &sums;
    let first = add_digits(four_rows(low, 0), four_rows(high, 0));
    let second = add_digits(four_rows(low, 4), four_rows(high, 4));
    // both hold their four rows twice
    _mm512_add_epi64(_mm512_shuffle_i64x2::<0x44>(first, second), _mm512_shuffle_i64x2::<0xee>(first, second))
}

/// The sums of four rows from one on, each in two parts: lanes 0 to 3 and 4 to 7 have one of each. |lane| < 2^29.
#[target_feature(enable = "avx512f")]
#[inline]
fn four_rows(sums: &[__m512i; ROWS], row: usize) -> __m512i {
    // two rows share a vector: even lanes the first, odd lanes the second; then four, with a sum of four lanes in every 128 bits
    let two = |a, b| _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    let (a, b) = (two(sums[row], sums[row + 1]), two(sums[row + 2], sums[row + 3]));
    let four = _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
    let (lower, upper) = (_mm512_castsi512_si256(four), _mm512_extracti64x4_epi64::<1>(four));
    _mm512_add_epi64(_mm512_cvtepi32_epi64(lower), _mm512_cvtepi32_epi64(upper))
}

/// low + 2^12 high.
#[target_feature(enable = "avx512f")]
#[inline]
fn add_digits(low: __m512i, high: __m512i) -> __m512i {
    _mm512_add_epi64(low, _mm512_slli_epi64::<DIGIT_BITS>(high))
}

/// Weights times features of eight rows.
///
/// # Safety
/// The processor has the features below; digits and rows hold these vectors.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline]
unsafe fn long_products(rows: &[*const i16; ROWS], digits: [*const i16; 2], columns: Columns) -> __m512i {
    let mut totals = [_mm512_setzero_si512(); ROWS];
    for first in (0..columns.vectors).step_by(columns.panel) {
        let mut sums = [[_mm512_setzero_si512(); ROWS]; 2];
        let vectors = (columns.vectors - first).min(columns.panel);
        // SAFETY: the caller's.
        unsafe { add_panel(rows, digits, first * WIDE, vectors, &mut sums) };
        let [low, high] = sums;
        for ((total, low), high) in totals.iter_mut().zip(low).zip(high) {
            let [even, odd] = even_and_odd(&[low, high]);
            *total = _mm512_add_epi64(*total, _mm512_add_epi64(even, odd));
        }
    }
    let [a, b, c, d] = [0, 2, 4, 6].map(|row| pair(totals[row], totals[row + 1]));
    fold(fold(a, b), fold(c, d))
}

/// Two rows share a vector: even lanes the first row, odd lanes the second.
#[target_feature(enable = "avx512f")]
#[inline]
fn pair(a: __m512i, b: __m512i) -> __m512i {
    _mm512_add_epi64(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b))
}

/// 128-bit lanes 0+1 and 2+3 of each.
#[target_feature(enable = "avx512f")]
#[inline]
fn fold(a: __m512i, b: __m512i) -> __m512i {
    _mm512_add_epi64(_mm512_shuffle_i64x2::<0x88>(a, b), _mm512_shuffle_i64x2::<0xdd>(a, b))
}

/// sums[digit][row] += digits times features of `vectors` vectors from `first_column` on.
///
/// # Safety
/// The processor has the features below; rows and digits hold these vectors.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline]
unsafe fn add_panel(
    rows: &[*const i16; ROWS],
    digits: [*const i16; 2],
    first_column: usize,
    vectors: usize,
    sums: &mut [[__m512i; ROWS]; 2],
) {
    let mut column = first_column;
    for _ in 0..vectors {
        // SAFETY: the caller's; `column` counts as many vectors as there are.
        let load = |place: *const i16| unsafe { _mm512_loadu_si512(place.wrapping_add(column).cast()) };
        let multipliers = digits.map(load);
        for (row, &place) in rows.iter().enumerate() {
            let q = load(place);
            for (sums, multiplier) in sums.iter_mut().zip(multipliers) {
                sums[row] = _mm512_dpwssd_epi32(sums[row], q, multiplier);
            }
        }
        column = column.wrapping_add(WIDE);
    }
}

/// The numbers with these digits in base 2^12, of the even and of the odd 32-bit lanes, in 64 bits.
#[target_feature(enable = "avx512f")]
#[inline]
fn even_and_odd<const DIGITS: usize>(digits: &[__m512i; DIGITS]) -> [__m512i; 2] {
    let (mut even, mut odd) = (_mm512_setzero_si512(), _mm512_setzero_si512());
    for (digit, &lanes) in digits.iter().enumerate() {
        // The product of two even lanes has their signs: widening and shifting in one instruction.
        let place = _mm512_set1_epi64(1 << (digit as u32 * DIGIT_BITS));
        even = _mm512_add_epi64(even, _mm512_mul_epi32(lanes, place));
        odd = _mm512_add_epi64(odd, _mm512_mul_epi32(_mm512_srli_epi64::<32>(lanes), place));
    }
    [even, odd]
}

/// So many coefficients of a row have their digits at hand.
const AT_HAND: usize = 15;

/// # Safety
/// The processor has the features below.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(super) unsafe fn accumulate(block: &impl DenseBlock, each: &mut [Weighted<'_>]) {
    let (places, upcoming) = (block.places(), block.upcoming());
    let (pairs, vectors) = (block.len().div_ceil(2), block.width().div_ceil(WIDE));
    for each in each.chunks_mut(AT_HAND) {
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
/// The processor has the features below; rows hold `vectors` vectors.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline]
unsafe fn accumulate_digits<const DIGITS: usize>(
    places: &impl Places,
    upcoming: &Upcoming,
    pairs: usize,
    vectors: usize,
    each: &mut [Weighted<'_>],
) {
    let (one, mut several);
    let digits: &[Digits] = if let [only] = &*each {
        one = [Digits::of::<DIGITS>(only.coefficients)];
        &one
    } else {
        several = [Digits::NONE; AT_HAND];
        for (digits, weighted) in several.iter_mut().zip(&*each) {
            *digits = Digits::of::<DIGITS>(weighted.coefficients);
        }
        &several
    };
    // As many running sums as registers hold: for one coefficient of four vectors of columns, for two of two, for more of one.
    let (wide, together) = match (each.len(), DIGITS) {
        (1, _) => (4, 1),
        (2, _) => (2, 2),
        (_, 2) => (1, 5),
        _ => (1, 3),
    };
    let groups = each.len().div_ceil(together);
    let size = each.len().div_ceil(groups);
    let asked = upcoming.share(summing(each.len()), vectors.div_ceil(wide) * groups);
    for vector in (0..vectors).step_by(wide) {
        for (group, digits) in each.chunks_mut(size).zip(digits.chunks(size)) {
            upcoming.ask(asked);
            // SAFETY: the features are those of this function, and rows extend to whole vectors.
            unsafe {
                match (group.len(), wide.min(vectors - vector)) {
                    (1, 4) => tile::<4, 1, DIGITS>(places, pairs, vector, digits, group),
                    (1, 3) => tile::<3, 1, DIGITS>(places, pairs, vector, digits, group),
                    (1, 2) => tile::<2, 1, DIGITS>(places, pairs, vector, digits, group),
                    (1, _) => tile::<1, 1, DIGITS>(places, pairs, vector, digits, group),
                    (2, 2) => tile::<2, 2, DIGITS>(places, pairs, vector, digits, group),
                    (2, _) => tile::<1, 2, DIGITS>(places, pairs, vector, digits, group),
                    (3, _) => tile::<1, 3, DIGITS>(places, pairs, vector, digits, group),
                    (4, _) => tile::<1, 4, DIGITS>(places, pairs, vector, digits, group),
                    _ => tile::<1, 5, DIGITS>(places, pairs, vector, digits, group),
                }
            }
        }
    }
}

/// Adds up `VECTORS` vectors of columns from `first_vector` on, for each of the first `EACH` coefficients.
///
/// # Safety
/// The features below; rows hold these vectors.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline]
unsafe fn tile<const VECTORS: usize, const EACH: usize, const DIGITS: usize>(
    places: &impl Places,
    pairs: usize,
    first_vector: usize,
    digits: &[Digits],
    each: &mut [Weighted<'_>],
) {
    let (digits, each) = (&digits[..EACH], &mut each[..EACH]);
    let first_column = first_vector * WIDE;
    let mut lanes = [[[[_mm512_setzero_si512(); DIGITS]; 2]; VECTORS]; EACH];
    for pair in 0..pairs {
        // a lone last row is paired with one whose digits are zero
        let starts = [places.row(2 * pair), places.row(2 * pair + 1)];
        let halves: [[__m512i; 2]; VECTORS] = std::array::from_fn(|vector| {
            let column = first_column.wrapping_add(vector * WIDE);
            // SAFETY: rows extend to whole vectors.
            let [a, b] = starts.map(|start| unsafe { _mm512_loadu_si512(start.wrapping_add(column).cast()) });
            [_mm512_unpacklo_epi16(a, b), _mm512_unpackhi_epi16(a, b)]
        });
        for (digits, lanes) in digits.iter().zip(&mut lanes) {
            let multipliers: [__m512i; DIGITS] =
                std::array::from_fn(|digit| _mm512_set1_epi32(digits.of_pair(digit, pair)));
            for (sums, &q) in lanes.as_flattened_mut().iter_mut().zip(halves.as_flattened()) {
                for (sum, multiplier) in sums.iter_mut().zip(multipliers) {
                    *sum = _mm512_dpwssd_epi32(*sum, q, multiplier);
                }
            }
        }
    }
    for (lanes, weighted) in lanes.iter().zip(each) {
        let sums = &mut weighted.sums[first_column..][..VECTORS * WIDE];
        for (digits, sums) in lanes.as_flattened().iter().zip(sums.as_chunks_mut::<{ WIDE / 2 }>().0) {
            for (total, sums) in even_and_odd(digits).into_iter().zip(sums.as_chunks_mut::<8>().0) {
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
/// vector's sums and 4..8 into the second half, four per lane; widening puts even lanes before odd ones.
#[inline(always)]
pub(super) fn place_of(column: usize) -> usize {
    let (half, lane) = (column % 8 / 4, column / 8 * 4 + column % 4);
    half * (WIDE / 2) + lane % 2 * 8 + lane / 2
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
