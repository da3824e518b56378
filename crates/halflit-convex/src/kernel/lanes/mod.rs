//! The two integer primitives of a pass, in AVX-512, AVX2 and portable code. The only module with `unsafe`.
//!
//! * `dots`: exact scores sum_j W_j q_j of a block of rows.
//! * `accumulate`: exact sums_j += sum_i s_i q_ij over a block of rows.
//!
//! Both are integer sums, so the three versions agree bit for bit by arithmetic, not by luck; tests check it. `runs` has both for rows that
//! follow one another, `vectors` the operations of IEEE arithmetic on eight numbers at a time.
//!
//! # Integer layout
//!
//! The fast instruction multiplies 16-bit integers in adjacent pairs and adds into 32-bit lanes. Weights are two balanced
//! digits in base 2^12 (|digit| <= 2^11): |digit * q| <= 2^11 (2^15 - 1), so 32 products fit in a lane, which is 16 vectors; then
//! the lanes are widened to 64 bits. Coefficients are three balanced digits in base 2^12 (|digit| <= 2^11):
//! |digit * q| <= 2^11 (2^15 - 1), so 32 rows fit in a lane: the block size. Where two digits hold a block's coefficients the third
//! is left out.
//!
//! # Why the unsafe code is sound
//!
//! * Calls into `#[target_feature]` functions: a [`Level`] other than portable exists only after the processor reported
//!   the features (`Level::available`).
//! * Vector loads from rows: [`Panel::starts`] and [`Run::new`] check that every row's padded extent lies inside the slice.
//! * Loads and stores of digits and sums: their lengths are asserted to be whole vectors first.
//! * A prefetch reads and writes nothing, whatever the address.
//! * Registers of numbers ([`Vectors`]) come from a value that only [`Level::work`] makes, on a level that has them.
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx2_runs;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod runs;
mod vectors;

pub(crate) use runs::Run;
pub(crate) use vectors::{Arrays, EIGHT, VectorWork, Vectors};

use super::block::{BLOCK_ROWS, Block, Rule};
use super::clamp::{QUICK_COEFFICIENT, clamp_block};
use super::weights::{DIGIT_BITS, LANES, LatticeWeights};
use std::sync::OnceLock;

/// Base of the three digits of a coefficient.
const COEFFICIENT_DIGIT_BITS: u32 = 12;

/// Vectors whose digit products fit into one 32-bit lane: 2 products per vector, 32 * 2^11 (2^15 - 1) < 2^31.
const VECTORS_PER_PANEL: usize = 16;

/// 16-bit integers in a cache line.
pub(crate) const LINE: usize = 32;

/// Which instructions a pass uses. The result never depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Level(Instructions);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Instructions {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    Portable,
}

/// Runs `$name` of the level's module: compiled for its vectors there, or as plain code.
macro_rules! at_level {
    ($level:expr, $name:ident($($argument:expr),*), $portable:expr) => {
        match $level.0 {
            // SAFETY: the level exists because the processor reported its features.
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 => unsafe { avx512::$name($($argument),*) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => unsafe { avx2::$name($($argument),*) },
            Instructions::Portable => $portable,
        }
    };
}

impl Level {
    /// Every level this processor can run, best first.
    pub fn available() -> &'static [Level] {
        static LEVELS: OnceLock<Vec<Level>> = OnceLock::new();
        LEVELS.get_or_init(|| {
            let mut levels = Vec::new();
            #[cfg(target_arch = "x86_64")]
            {
                if is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512vnni")
                {
                    levels.push(Level(Instructions::Avx512));
                }
                if is_x86_feature_detected!("avx2") {
                    levels.push(Level(Instructions::Avx2));
                }
            }
            levels.push(Level(Instructions::Portable));
            levels
        })
    }

    /// The best level of this processor.
    pub fn best() -> Level {
        Level::available()[0]
    }

    /// Name for reports.
    pub fn name(self) -> &'static str {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 => "avx512",
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => "avx2",
            Instructions::Portable => "portable",
        }
    }

    /// Exact scores of the panel's rows for one output, in score units.
    pub(crate) fn dots(self, panel: &Panel<'_>, weights: &LatticeWeights, output: usize, scores: &mut [i64]) {
        assert_eq!(weights.width(), panel.width);
        assert_eq!(scores.len(), panel.offsets.len());
        at_level!(self, dots(panel, weights.digits(output), scores), {
            let weights = weights.integers(output);
            for (score, &offset) in scores.iter_mut().zip(panel.offsets) {
                let row = &panel.values[offset..offset + panel.width];
                // |W q| < 2^38: no overflow below 2^24 columns, and the vector levels wrap alike
                *score = row
                    .iter()
                    .zip(weights)
                    .fold(0, |sum, (&q, &w)| sum.wrapping_add(i64::from(w) * i64::from(q)));
            }
        });
    }

    /// sums += sum_i coefficients[i] * row_i. `sums` is in this level's column order; see [`Level::unscramble`].
    ///
    /// |coefficient| <= MAX_COEFFICIENT, at most BLOCK_ROWS rows.
    pub(crate) fn accumulate(self, panel: &Panel<'_>, coefficients: &[i32], sums: &mut [i64]) {
        assert_eq!(coefficients.len(), panel.offsets.len());
        assert_eq!(sums.len(), panel.width.next_multiple_of(LANES));
        at_level!(self, accumulate(panel, coefficients, sums), {
            for (&coefficient, &offset) in coefficients.iter().zip(panel.offsets) {
                let row = &panel.values[offset..offset + panel.width];
                for (sum, &q) in sums.iter_mut().zip(row) {
                    *sum = sum.wrapping_add(i64::from(coefficient) * i64::from(q));
                }
            }
        });
    }

    /// Writes sums out in column order, dropping the padding. The vector levels interleave columns in groups of four.
    pub(crate) fn unscramble(self, sums: &[i64], columns: &mut [i64]) {
        let lanes = match self.0 {
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 => avx512::WIDE,
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => avx2::WIDE,
            Instructions::Portable => return columns.copy_from_slice(&sums[..columns.len()]),
        };
        // Unpacking interleaves within 128-bit lanes of 8 columns: lane L puts its columns 0..4 into the first half of
        // the vector's sums and 4..8 into the second half, four per lane.
        for (vector, columns) in columns.chunks_mut(lanes).enumerate() {
            let sums = &sums[vector * lanes..][..lanes];
            for (place, value) in columns.iter_mut().enumerate() {
                *value = sums[place % 8 / 4 * (lanes / 2) + place / 8 * 4 + place % 4];
            }
        }
    }

    /// Runs `work` compiled for this level's vectors, as far as it is inlined. The result is the same: no operation is fused or
    /// reordered.
    pub(crate) fn run<T>(self, work: impl FnOnce() -> T) -> T {
        at_level!(self, run(work), work())
    }

    /// From integer scores to clamped integer coefficients, compiled for this level's vectors.
    ///
    /// Plain IEEE arithmetic row by row: the same bits at every level.
    pub(crate) fn coefficients<R: Rule>(self, rule: &R, block: &Block<'_>, work: Coefficients<'_>) {
        at_level!(self, coefficients(rule, block, work), work.fill(rule, block));
    }
}

/// Asks for the entries of a per-row column that a block of scattered rows will read: nothing is read now.
#[inline(always)]
pub(crate) fn prefetch_values<T>(column: &[T], rows: &[u32]) {
    for &row in rows {
        prefetch_line(column, row as usize);
    }
}

/// Asks for the cache line of one entry.
#[inline(always)]
pub(crate) fn prefetch_line<T>(column: &[T], index: usize) {
    ask_for(column.as_ptr().wrapping_add(index));
}

/// Asks for one place's cache line.
#[inline(always)]
fn ask_for<T>(place: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads and writes nothing, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// A block's way from scores to coefficients; all slices are output-major.
pub(crate) struct Coefficients<'a> {
    pub(crate) integer_scores: &'a [i64],
    pub(crate) score_unit: f64,
    pub(crate) limits: &'a [u32],
    pub(crate) scores: &'a mut [f64],
    pub(crate) values: &'a mut [f64],
    pub(crate) coefficients: &'a mut [i32],
}

impl Coefficients<'_> {
    #[inline(always)]
    fn fill<R: Rule>(self, rule: &R, block: &Block<'_>) {
        for (score, &integer) in self.scores.iter_mut().zip(self.integer_scores) {
            *score = crate::math::to_float(integer) * self.score_unit;
        }
        rule.fill(block, self.scores, self.values);
        clamp_block(self.values, self.limits, self.coefficients);
    }
}

/// A block of dense rows, each given by where it starts.
pub(crate) struct Panel<'a> {
    /// Row-major values, with a tail that whole vectors may run into.
    pub(crate) values: &'a [i16],
    /// Where the rows start: at most a block of them.
    pub(crate) offsets: &'a [usize],
    /// Where the rows of the next block start: they travel while this one is computed.
    pub(crate) ahead: &'a [usize],
    /// Number of columns.
    pub(crate) width: usize,
}

#[cfg(target_arch = "x86_64")]
impl Panel<'_> {
    /// The rows as pointers, after checking that every row can be read in whole vectors; the last one is repeated.
    #[inline(always)]
    fn starts(&self) -> [*const i16; BLOCK_ROWS] {
        let last = self.offsets.iter().fold(0, |last, &offset| if offset > last { offset } else { last });
        let extent = self.width.next_multiple_of(LANES);
        assert!(!self.offsets.is_empty() && self.offsets.len() <= BLOCK_ROWS);
        assert!(last <= self.values.len() && self.values.len() - last >= extent);
        let base = self.values.as_ptr();
        let mut starts = [base.wrapping_add(self.offsets[self.offsets.len() - 1]); BLOCK_ROWS];
        for (start, &offset) in starts.iter_mut().zip(self.offsets) {
            *start = base.wrapping_add(offset);
        }
        starts
    }

    /// The rows of the next block as pointers that are not read from; absent ones point to the beginning.
    #[inline(always)]
    fn ahead(&self) -> [*const i16; BLOCK_ROWS] {
        let base = self.values.as_ptr();
        let mut ahead = [base; BLOCK_ROWS];
        for (pointer, &offset) in ahead.iter_mut().zip(self.ahead) {
            *pointer = base.wrapping_add(offset);
        }
        ahead
    }
}

/// Whether two digits hold every coefficient: a third of the multiplications is saved, the sums are the same integers.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn two_digits(coefficients: &[i32]) -> bool {
    coefficients.iter().fold(0, |most, s| s.unsigned_abs().max(most)) <= QUICK_COEFFICIENT
}

/// The coefficients split into three 16-bit digits; two neighbouring rows share a 32-bit entry.
#[cfg(target_arch = "x86_64")]
type PackedDigits = [[i32; BLOCK_ROWS / 2]; 3];

/// s = d0 + 2^12 d1 + 2^24 d2 with |d| <= 2^11, for |s| <= MAX_COEFFICIENT; absent rows get zeros.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn pack(coefficients: &[i32]) -> PackedDigits {
    const HALF: i32 = 1 << (COEFFICIENT_DIGIT_BITS - 1);
    const MASK: i32 = (1 << COEFFICIENT_DIGIT_BITS) - 1;
    let mut padded = [0i32; BLOCK_ROWS];
    padded[..coefficients.len()].copy_from_slice(coefficients);
    let mut packed = [[0; BLOCK_ROWS / 2]; 3];
    for digits in &mut packed {
        for (slot, pair) in digits.iter_mut().zip(padded.chunks_exact_mut(2)) {
            let mut next = |index: usize| {
                let digit = (pair[index].wrapping_add(HALF) & MASK).wrapping_sub(HALF);
                pair[index] = pair[index].wrapping_sub(digit) >> COEFFICIENT_DIGIT_BITS;
                digit
            };
            *slot = (next(0) & 0xffff) | (next(1) << 16);
        }
    }
    packed
}
