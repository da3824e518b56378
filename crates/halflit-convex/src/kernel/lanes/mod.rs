//! The two integer primitives of a pass, in AVX-512, AVX2 and portable code. The only module with `unsafe`.
//!
//! * `dots`: exact scores sum_j W_j q_j of a block of rows.
//! * `accumulate`: exact sums_j += sum_i s_i q_ij over a block of rows.
//!
//! Both are integer sums, so the three versions agree bit for bit by arithmetic, not by luck; tests check it.
//!
//! # Integer layout
//!
//! The fast instruction multiplies 16-bit integers in adjacent pairs and adds into 32-bit lanes. Weights are two balanced
//! digits in base 2^13 (|digit| <= 2^12): |digit * q| < 2^27, so 14 products fit in a lane, which is 7 vectors; then
//! the lanes are widened to 64 bits. Coefficients are three balanced digits in base 2^10 (|digit| <= 2^9):
//! |digit * q| <= 2^9 (2^15 - 1), so 128 rows fit in a lane: the block size.
//!
//! # Why the unsafe code is sound
//!
//! * Calls into `#[target_feature]` functions: a [`Level`] other than portable exists only after the processor reported
//!   the features (`Level::available`).
//! * Vector loads from rows: [`Panel::new`] checks that every row's padded extent lies inside the slice.
//! * Loads and stores of digits and sums: slices are cut to whole vectors by `chunks_exact` or checked lengths before.

#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;

use super::block::{BLOCK_ROWS, Block, Rule};
use super::weights::{DIGIT_BITS, LANES, LatticeWeights};
use crate::rows::DenseRows;
use std::sync::OnceLock;

/// Base of the three digits of a coefficient.
const COEFFICIENT_DIGIT_BITS: u32 = 10;

/// Vectors whose digit products fit into one 32-bit lane: 2 products per vector, 14 * 2^27 < 2^31.
const VECTORS_PER_PANEL: usize = 7;

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
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the level was detected; `Panel` checked the extents; digits are padded to whole vectors.
            Instructions::Avx512 => unsafe { avx512::dots(panel, weights.digits(output), scores) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Instructions::Avx2 => unsafe { avx2::dots(panel, weights.digits(output), scores) },
            Instructions::Portable => {
                let weights = weights.integers(output);
                for (score, &offset) in scores.iter_mut().zip(panel.offsets) {
                    let row = &panel.values[offset..offset + panel.width];
                    // |W q| < 2^39: no overflow below 2^24 columns, and the vector levels wrap alike
                    *score = row
                        .iter()
                        .zip(weights)
                        .fold(0, |sum, (&q, &w)| sum.wrapping_add(i64::from(w) * i64::from(q)));
                }
            }
        }
    }

    /// sums += sum_i coefficients[i] * row_i. `sums` is in this level's column order; see [`Level::unscramble`].
    ///
    /// |coefficient| <= MAX_COEFFICIENT, at most BLOCK_ROWS rows.
    pub(crate) fn accumulate(self, panel: &Panel<'_>, coefficients: &[i32], sums: &mut [i64]) {
        assert_eq!(coefficients.len(), panel.offsets.len());
        assert_eq!(sums.len(), panel.width.next_multiple_of(LANES));
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the level was detected; `Panel` checked the extents; `sums` is a whole number of vectors.
            Instructions::Avx512 => unsafe { avx512::accumulate(panel, &Digits::of(coefficients), sums) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Instructions::Avx2 => unsafe { avx2::accumulate(panel, &Digits::of(coefficients), sums) },
            Instructions::Portable => {
                for (&coefficient, &offset) in coefficients.iter().zip(panel.offsets) {
                    let row = &panel.values[offset..offset + panel.width];
                    for (sum, &q) in sums.iter_mut().zip(row) {
                        *sum = sum.wrapping_add(i64::from(coefficient) * i64::from(q));
                    }
                }
            }
        }
    }

    /// Writes sums out in column order, dropping the padding. The vector levels interleave columns in groups of four.
    pub(crate) fn unscramble(self, sums: &[i64], columns: &mut [i64]) {
        let lanes = match self.0 {
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 => 32,
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => 16,
            Instructions::Portable => return columns.copy_from_slice(&sums[..columns.len()]),
        };
        // Unpacking interleaves within 128-bit lanes of 8 columns: lane L puts its columns 0..4 into the first half of
        // the vector's sums and 4..8 into the second half, four per lane.
        for (column, value) in columns.iter_mut().enumerate() {
            let (vector, place) = (column / lanes, column % lanes);
            let (lane, half, rest) = (place / 8, place % 8 / 4, place % 4);
            *value = sums[vector * lanes + half * (lanes / 2) + lane * 4 + rest];
        }
    }

    /// Runs the rule compiled for this level's vectors. Plain IEEE arithmetic per row: the same bits at every level.
    pub(crate) fn fill<R: Rule>(self, rule: &R, block: &Block<'_>, scores: &[f64], values: &mut [f64]) {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the level was detected.
            Instructions::Avx512 => unsafe { avx512::fill(rule, block, scores, values) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the level was detected.
            Instructions::Avx2 => unsafe { avx2::fill(rule, block, scores, values) },
            Instructions::Portable => rule.fill(block, scores, values),
        }
    }

    /// Rounds and clamps a block, compiled for this level's vectors.
    pub(crate) fn clamp(self, values: &[f64], limits: &[u32], coefficients: &mut [i32]) {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the level was detected.
            Instructions::Avx512 => unsafe { avx512::clamp(values, limits, coefficients) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the level was detected.
            Instructions::Avx2 => unsafe { avx2::clamp(values, limits, coefficients) },
            Instructions::Portable => super::clamp::clamp_block(values, limits, coefficients),
        }
    }
}

/// Asks the processor to fetch rows that the next block will read.
pub(crate) fn prefetch(rows: &DenseRows, indices: &[u32]) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        const VALUES_PER_LINE: usize = 64 / size_of::<i16>();
        let values = rows.padded_values();
        for &index in indices {
            let start = index as usize * rows.width();
            // one line more than the row spans when aligned, since it may start anywhere
            for column in (0..rows.width() + VALUES_PER_LINE).step_by(VALUES_PER_LINE) {
                if let Some(value) = values.get(start + column) {
                    // SAFETY: a prefetch has no effect on memory; the address is that of a live element.
                    unsafe {
                        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast());
                    }
                }
            }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (rows, indices);
}

/// A block of dense rows, each given by where it starts, checked to be readable in whole vectors.
pub(crate) struct Panel<'a> {
    values: &'a [i16],
    offsets: &'a [usize],
    width: usize,
}

impl<'a> Panel<'a> {
    /// Rows starting at `offsets` (at most a block of them).
    pub(crate) fn new(rows: &'a DenseRows, offsets: &'a [usize]) -> Self {
        let (values, width) = (rows.padded_values(), rows.width());
        let extent = width.next_multiple_of(LANES);
        assert!(offsets.len() <= BLOCK_ROWS);
        assert!(offsets.iter().all(|&offset| offset <= values.len() && values.len() - offset >= extent));
        Panel { values, offsets, width }
    }
}

/// The coefficients of pairs of rows, split into three 16-bit digits, two rows packed into each 32-bit entry.
#[cfg(target_arch = "x86_64")]
struct Digits {
    packed: [[i32; 3]; BLOCK_ROWS / 2],
}

#[cfg(target_arch = "x86_64")]
impl Digits {
    fn of(coefficients: &[i32]) -> Self {
        let mut packed = [[0; 3]; BLOCK_ROWS / 2];
        for (pair, packed) in coefficients.chunks(2).zip(&mut packed) {
            let first = digits(pair[0]);
            let second = digits(pair.get(1).copied().unwrap_or(0));
            for (slot, (a, b)) in packed.iter_mut().zip(first.into_iter().zip(second)) {
                *slot = (a & 0xffff) | (b << 16);
            }
        }
        Digits { packed }
    }
}

/// s = d0 + 2^10 d1 + 2^20 d2 with |d| <= 2^9, for |s| <= MAX_COEFFICIENT.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn digits(coefficient: i32) -> [i32; 3] {
    const HALF: i32 = 1 << (COEFFICIENT_DIGIT_BITS - 1);
    const MASK: i32 = (1 << COEFFICIENT_DIGIT_BITS) - 1;
    let first = (coefficient.wrapping_add(HALF) & MASK).wrapping_sub(HALF);
    let rest = coefficient.wrapping_sub(first) >> COEFFICIENT_DIGIT_BITS;
    let second = (rest.wrapping_add(HALF) & MASK).wrapping_sub(HALF);
    let third = rest.wrapping_sub(second) >> COEFFICIENT_DIGIT_BITS;
    [first, second, third]
}
