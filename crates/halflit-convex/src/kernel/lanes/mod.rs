//! The two integer primitives of a pass, in AVX-512, AVX2 and portable code. The only module with `unsafe`.
//!
//! * `dots`: exact scores sum_j W_j q_j of a block of rows.
//! * `accumulate`: exact sums_j += sum_i s_i q_ij over a block of rows.
//!
//! Both are integer sums, so the three versions agree bit for bit by arithmetic, not by luck; tests check it. `vectors` has the operations
//! of IEEE arithmetic on sixteen numbers at a time.
//!
//! # Integer layout
//!
//! The fast instruction multiplies 16-bit integers in adjacent pairs and adds into 32-bit lanes. Weights are two balanced
//! digits in base 2^12 (|digit| <= 2^11): |digit * q| <= 2^11 (2^15 - 1), so 32 products fit in a lane, which is 16 vectors; then
//! the lanes are widened to 64 bits. Of features in [-1, 1], which is what tables are encoded to, twice as many fit. Coefficients are three balanced digits in base 2^12 (|digit| <= 2^11):
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
mod avx512;
mod blocks;
mod digits;
mod portable;
#[cfg(test)]
mod tests;
mod upcoming;
mod vectors;

pub(crate) use blocks::{DenseBlock, Panel, Run};
pub(crate) use upcoming::{Upcoming, in_between};
pub(crate) use vectors::{Arrays, SIXTEEN, VectorWork, Vectors};

use super::block::{Block, Rule};
use super::clamp::clamp_block;
use super::weights::{DIGIT_BITS, LANES, LatticeWeights};
use std::sync::OnceLock;
#[cfg(target_arch = "x86_64")]
use upcoming::{scoring, summing};

/// Base of the three digits of a coefficient.
const COEFFICIENT_DIGIT_BITS: u32 = 12;

/// Vectors whose digit products fit into one 32-bit lane: 2 products per vector, 32 * 2^11 (2^15 - 1) < 2^31.
const VECTORS_PER_PANEL: usize = 16;

/// The same for features in [-1, 1]: 62 * 2^11 * 2^14 < 2^31.
#[cfg(target_arch = "x86_64")]
const VECTORS_PER_SMALL_PANEL: usize = 31;

/// Features that stay in the first cache while every output is computed.
#[cfg(target_arch = "x86_64")]
const CACHED_FEATURES: usize = 1 << 13;

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

    /// Exact scores of a block's rows in score units: output after output, `block.len()` integers each.
    pub(crate) fn dots(self, block: &impl DenseBlock, weights: &LatticeWeights, scores: &mut [i64]) {
        assert_eq!(weights.width(), block.width());
        assert_eq!(scores.len(), block.len() * weights.outputs());
        at_level!(self, dots(block, weights, scores), {
            block.as_panel(|panel| {
                for (output, scores) in scores.chunks_exact_mut(block.len()).enumerate() {
                    portable::dots(panel, weights.integers(output), scores);
                }
            });
        });
    }

    /// sums += sum_i coefficients[i] * row_i, for each of several coefficients and sums at once. The sums are in this level's column
    /// order; see [`Level::unscramble`].
    ///
    /// |coefficient| <= MAX_COEFFICIENT.
    pub(crate) fn accumulate(self, block: &impl DenseBlock, each: &mut [Weighted<'_>]) {
        for Weighted { coefficients, sums } in &mut *each {
            assert_eq!(coefficients.len(), block.len());
            assert_eq!(sums.len(), block.width().next_multiple_of(LANES));
        }
        at_level!(self, accumulate(block, each), {
            block.as_panel(|panel| {
                for Weighted { coefficients, sums } in each {
                    portable::accumulate(panel, coefficients, sums);
                }
            });
        });
    }

    /// Writes sums out in column order, dropping the padding. Vectors keep columns in an order of their own.
    pub(crate) fn unscramble(self, sums: &[i64], columns: &mut [i64]) {
        /// `place_of` a column within a vector of `WIDE`, of which so many exist.
        fn write<const WIDE: usize>(
            sums: &[i64],
            columns: &mut [i64],
            place_of: impl Fn(usize, usize) -> usize,
        ) {
            for (columns, sums) in columns.chunks_mut(WIDE).zip(sums.as_chunks::<WIDE>().0) {
                if let Ok(all) = <&mut [i64; WIDE]>::try_from(&mut *columns) {
                    *all = std::array::from_fn(|column| sums[place_of(column, WIDE)]);
                    continue;
                }
                let count = columns.len();
                for (column, slot) in columns.iter_mut().enumerate() {
                    *slot = sums[place_of(column, count)];
                }
            }
        }
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 => write::<{ avx512::WIDE }>(sums, columns, avx512::place_of),
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => write::<{ avx2::WIDE }>(sums, columns, |column, _| avx2::place_of(column)),
            Instructions::Portable => columns.copy_from_slice(&sums[..columns.len()]),
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

/// One number per row of a block, and the sums of the rows times these numbers.
pub(crate) struct Weighted<'a> {
    /// At most MAX_COEFFICIENT in size.
    pub(crate) coefficients: &'a [i32],
    /// One per column, in the level's order.
    pub(crate) sums: &'a mut [i64],
}

/// Asks for the entries of a per-row column that a block of scattered rows will read: nothing is read now.
#[inline(always)]
pub(crate) fn prefetch_values<T>(column: &[T], rows: &[u32]) {
    for &row in rows {
        ask_for(column.as_ptr().wrapping_add(row as usize));
    }
}

/// Asks for one place's cache line, into the second cache: the first has room for few lines on their way and lets the work wait
/// for them.
#[inline(always)]
fn ask_for<T>(place: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: a prefetch reads and writes nothing, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(place.cast()) };
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
