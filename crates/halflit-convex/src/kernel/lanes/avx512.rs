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
                        let (rows, half) = (rows.clone(), ends_in_half(block.width()));
                        match (vectors, half) {
                            (4, false) => short_rows::<4, false>(&places, rows, digits(0), asks, scores),
                            (4, true) => short_rows::<4, true>(&places, rows, digits(0), asks, scores),
                            (3, false) => short_rows::<3, false>(&places, rows, digits(0), asks, scores),
                            (3, true) => short_rows::<3, true>(&places, rows, digits(0), asks, scores),
                            (2, false) => short_rows::<2, false>(&places, rows, digits(0), asks, scores),
                            (2, true) => short_rows::<2, true>(&places, rows, digits(0), asks, scores),
                            (_, false) => short_rows::<1, false>(&places, rows, digits(0), asks, scores),
                            (_, true) => short_rows::<1, true>(&places, rows, digits(0), asks, scores),
                        }
                    }
                    1 => one_output(&places, rows.clone(), digits(0), columns, asks, scores),
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

/// The scores of some rows for one output, asking for so many upcoming lines with every eight rows.
///
/// # Safety
/// The processor has the features below; digits and rows hold these vectors.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
// on its own it has the registers to itself
#[inline(never)]
unsafe fn one_output(
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
        store_scores(unsafe { long_products(&rows, digits, columns) }, scores);
    }
}

/// Writes out as many of eight scores as there are rows.
#[target_feature(enable = "avx512f")]
#[inline]
fn store_scores(totals: __m512i, scores: &mut [i64]) {
    let mut sums = [0i64; ROWS];
    // SAFETY: `sums` is one vector long.
    unsafe { _mm512_storeu_si512(sums.as_mut_ptr().cast(), totals) };
    match scores.first_chunk_mut() {
        Some(scores) => *scores = sums,
        None => scores.copy_from_slice(&sums[..scores.len()]),
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
            let scores = &mut scores[row..row + count];
            match scores.first_chunk_mut() {
                Some(scores) => *scores = sums,
                None => scores.copy_from_slice(&sums[..count]),
            }
        }
    }
}

/// Vectors whose digit products leave room in a lane for those of three others: |8 products| < 2^29.
const SHORT_ROW: usize = VECTORS_PER_PANEL / 4;

/// The scores of some rows for one output, asking for so many upcoming lines with every eight rows. Rows of `VECTORS` vectors, at most
/// [`SHORT_ROW`], the last one half empty if `HALF`: the digits stay in registers.
///
/// # Safety
/// The processor has the features below; digits and rows hold these vectors.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline(never)]
unsafe fn short_rows<const VECTORS: usize, const HALF: bool>(
    places: &impl Places,
    rows: Range<usize>,
    digits: [*const i16; 2],
    (upcoming, asked): (&Upcoming, usize),
    scores: &mut [i64],
) {
    let whole = VECTORS - usize::from(HALF);
    // SAFETY: the caller's.
    let load = |place: *const i16, vector: usize| unsafe {
        _mm512_loadu_si512(place.wrapping_add(vector * WIDE).cast())
    };
    // SAFETY: the caller's.
    let load_half =
        |place: *const i16| unsafe { _mm256_loadu_si256(place.wrapping_add(whole * WIDE).cast()) };
    let multipliers: [[__m512i; VECTORS]; 2] =
        digits.map(|digits| std::array::from_fn(|vector| load(digits, vector)));
    for (eight, scores) in scores[rows.clone()].chunks_mut(ROWS).enumerate() {
        let row = rows.start.wrapping_add(eight.wrapping_mul(ROWS));
        upcoming.ask(asked);
        let mut sums = [[_mm512_setzero_si512(); ROWS]; 2];
        for own in 0..ROWS {
            let place = places.row(row.wrapping_add(own));
            if HALF {
                let q = load_half(place);
                for (sums, multipliers) in sums.iter_mut().zip(&multipliers) {
                    let multiplier = _mm512_castsi512_si256(multipliers[whole]);
                    sums[own] = _mm512_zextsi256_si512(_mm256_madd_epi16(q, multiplier));
                }
            }
            for vector in 0..whole {
                let q = load(place, vector);
                for (sums, multipliers) in sums.iter_mut().zip(&multipliers) {
                    sums[own] = _mm512_dpwssd_epi32(sums[own], q, multipliers[vector]);
                }
            }
        }
        let [low, high] = &sums;
        let first = add_digits(four_rows(low, 0), four_rows(high, 0));
        let second = add_digits(four_rows(low, 4), four_rows(high, 4));
        // both hold their four rows twice
        let totals = _mm512_add_epi64(
            _mm512_shuffle_i64x2::<0x44>(first, second),
            _mm512_shuffle_i64x2::<0xee>(first, second),
        );
        store_scores(totals, scores);
    }
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
    for each in each.chunks_mut(AT_HAND) {
        // SAFETY: the features are those of this function.
        unsafe {
            if each.iter().all(|weighted| two_digits(weighted.coefficients)) {
                accumulate_digits::<2>(block, each);
            } else {
                accumulate_digits::<3>(block, each);
            }
        }
    }
}

/// # Safety
/// The processor has the features below.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline]
unsafe fn accumulate_digits<const DIGITS: usize>(block: &impl DenseBlock, each: &mut [Weighted<'_>]) {
    let digits_of = |index: usize| {
        each.get(index).map_or(Digits::NONE, |weighted| Digits::of::<DIGITS>(weighted.coefficients))
    };
    let (few, many);
    let digits: &[Digits] = if each.len() <= 2 {
        few = [0, 1].map(digits_of);
        &few
    } else {
        many = std::array::from_fn::<Digits, AT_HAND, _>(digits_of);
        &many
    };
    // As many running sums as registers hold: for one coefficient of four vectors of columns, for two of two, for more of one.
    let (wide, together) = match (each.len(), DIGITS) {
        (1, _) => (4, 1),
        (2, _) => (2, 2),
        (_, 2) => (1, 5),
        _ => (1, 3),
    };
    let (places, upcoming) = (block.places(), block.upcoming());
    let (pairs, vectors) = (block.len().div_ceil(2), block.width().div_ceil(WIDE));
    let groups = each.len().div_ceil(together);
    let size = each.len().div_ceil(groups);
    let asked = upcoming.share(summing(each.len()), vectors.div_ceil(wide) * groups);
    for vector in (0..vectors).step_by(wide) {
        let count = wide.min(vectors - vector);
        let half = ends_in_half(block.width()) && vector + count == vectors;
        for (group, digits) in each.chunks_mut(size).zip(digits.chunks(size)) {
            upcoming.ask(asked);
            macro_rules! tile_of {
                ($($each:literal x $vectors:literal),* ; $most:literal x $one:literal) => {
                    match (group.len(), count, half) {
                        $(($each, $vectors, false) => tile::<$vectors, $each, DIGITS, false>(&places, pairs, vector, digits, group),
                        ($each, $vectors, true) => tile::<$vectors, $each, DIGITS, true>(&places, pairs, vector, digits, group),)*
                        (_, _, false) => tile::<$one, $most, DIGITS, false>(&places, pairs, vector, digits, group),
                        (_, _, true) => tile::<$one, $most, DIGITS, true>(&places, pairs, vector, digits, group),
                    }
                };
            }
            // SAFETY: the features are those of this function, and rows extend to whole vectors.
            unsafe { tile_of!(1 x 4, 1 x 3, 1 x 2, 1 x 1, 2 x 2, 2 x 1, 3 x 1, 4 x 1; 5 x 1) }
        }
    }
}

/// Whether the last vector of a row this wide is at most half full.
#[inline(always)]
fn ends_in_half(width: usize) -> bool {
    (1..=WIDE / 2).contains(&(width % WIDE))
}

/// Adds up `VECTORS` vectors of columns from `first_vector` on, the last one half empty if `HALF`, for each of the first `EACH` coefficients.
///
/// # Safety
/// The features below; rows hold these vectors.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline]
unsafe fn tile<const VECTORS: usize, const EACH: usize, const DIGITS: usize, const HALF: bool>(
    places: &impl Places,
    pairs: usize,
    first_vector: usize,
    digits: &[Digits],
    each: &mut [Weighted<'_>],
) {
    let (digits, each) = (&digits[..EACH], &mut each[..EACH]);
    let first_column = first_vector * WIDE;
    // the second half of a vector that is half empty has nothing to add
    let halves_used = 2 * VECTORS - usize::from(HALF);
    let mut lanes = [[[[_mm512_setzero_si512(); DIGITS]; 2]; VECTORS]; EACH];
    for pair in 0..pairs {
        // a lone last row is paired with one whose digits are zero
        let starts = [places.row(2 * pair), places.row(2 * pair + 1)];
        let halves: [[__m512i; 2]; VECTORS] = std::array::from_fn(|vector| {
            let column = first_column.wrapping_add(vector * WIDE);
            if HALF && vector + 1 == VECTORS {
                // SAFETY: rows extend to whole vectors.
                let [a, b] =
                    starts.map(|start| unsafe { _mm256_loadu_si256(start.wrapping_add(column).cast()) });
                return [interleaved(a, b), _mm512_setzero_si512()];
            }
            // SAFETY: rows extend to whole vectors.
            let [a, b] = starts.map(|start| unsafe { _mm512_loadu_si512(start.wrapping_add(column).cast()) });
            [_mm512_unpacklo_epi16(a, b), _mm512_unpackhi_epi16(a, b)]
        });
        for (digits, lanes) in digits.iter().zip(&mut lanes) {
            let multipliers: [__m512i; DIGITS] =
                std::array::from_fn(|digit| _mm512_set1_epi32(digits.of_pair(digit, pair)));
            let each_half = lanes.as_flattened_mut().iter_mut().zip(halves.as_flattened());
            for (sums, &q) in each_half.take(halves_used) {
                for (sum, multiplier) in sums.iter_mut().zip(multipliers) {
                    *sum = _mm512_dpwssd_epi32(*sum, q, multiplier);
                }
            }
        }
    }
    for (lanes, weighted) in lanes.iter().zip(each) {
        let sums = &mut weighted.sums[first_column..][..VECTORS * WIDE];
        let each_half = lanes.as_flattened().iter().zip(sums.as_chunks_mut::<{ WIDE / 2 }>().0);
        for (digits, sums) in each_half.take(halves_used) {
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

/// a_0, b_0, a_1, b_1, ...
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn interleaved(a: __m256i, b: __m256i) -> __m512i {
    // 32-bit lane i has column i of the first and, in its upper half, of the second
    let lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    let columns =
        _mm512_or_si512(lanes, _mm512_slli_epi32::<16>(_mm512_or_si512(lanes, _mm512_set1_epi32(32))));
    _mm512_permutex2var_epi16(_mm512_castsi256_si512(a), columns, _mm512_castsi256_si512(b))
}

/// Where in its vector [`accumulate`] keeps a column of it, if so many of the vector's columns exist.
///
/// Unpacking interleaves within 128-bit lanes of 8 columns: lane L puts its columns 0..4 into the first half of the
/// vector's sums and 4..8 into the second half, four per lane; widening puts even lanes before odd ones. A vector that is half empty has its columns in
/// order in its first half before they are widened.
#[inline(always)]
pub(super) fn place_of(column: usize, columns: usize) -> usize {
    let (half, lane) =
        if ends_in_half(columns) { (0, column) } else { (column % 8 / 4, column / 8 * 4 + column % 4) };
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
