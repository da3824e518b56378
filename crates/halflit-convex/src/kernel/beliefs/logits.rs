//! How beliefs are stored.

use super::super::block::BLOCK_ROWS;
use super::super::lanes::{Arrays, Level, SIXTEEN, Vectors};
use super::super::single::power_of_two;
use super::columns::{Column, Span};
use rayon::prelude::*;

/// A distribution over the same k values for each of n rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Beliefs {
    rows: usize,
    values: usize,
    /// Binary logarithms of shares. Block after block of rows, and within a block value after value: what concerns one row never crosses
    /// the lanes of a vector. The largest of a row is zero, the least [`LEAST_LOGIT`]; rows that only fill up the last block have zeros.
    logits: Vec<Column<f32>>,
}

/// 2^-115 = e^-80 is still a normal f32, and so is its share of the most values there can be.
const LEAST_LOGIT: f32 = -115.0;

impl Beliefs {
    /// Every value equally likely, for every row. At least one value.
    pub fn uniform(rows: usize, values: usize) -> Self {
        let values = values.max(1);
        Beliefs { rows, values, logits: vec![Column::of(0.0); rows.div_ceil(BLOCK_ROWS) * values] }
    }

    /// The same prior for every row, as probabilities (any positive multiple of them).
    ///
    /// What is not a positive number counts as the smallest positive one: no value is ever ruled out.
    pub fn with_prior(rows: usize, prior: &[f64]) -> Self {
        let logit = |&probability: &f64| {
            let positive = if probability > 1e-30 { probability } else { 1e-30 };
            positive.log2() as f32
        };
        let mut beliefs = Beliefs::uniform(rows, prior.len());
        beliefs.change_blocks(
            Level::best(),
            64,
            || (),
            |(), _, logits| {
                for (logits, logit) in logits.iter_mut().zip(prior.iter().map(logit)) {
                    *logits = Column::of(logit);
                }
            },
        );
        beliefs
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// k: number of values.
    pub fn values(&self) -> usize {
        self.values
    }

    /// Bytes of the logits.
    pub fn memory_bytes(&self) -> usize {
        size_of_val(&self.logits[..])
    }

    /// The probabilities of one row.
    ///
    /// # Panics
    /// When there is no such row.
    pub fn probabilities(&self, row: usize) -> Vec<f64> {
        let mut shares = self.shares(row);
        let total: f64 = shares.iter().sum();
        shares.iter_mut().for_each(|share| *share /= total);
        shares
    }

    /// One row's unnormalised probabilities.
    pub(super) fn shares(&self, row: usize) -> Vec<f64> {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        let share = |logits: &Column<f32>| {
            let mut share = [0.0; SIXTEEN];
            Arrays.store(power_of_two(Arrays, Arrays.splat(logits.0[row % BLOCK_ROWS])), &mut share);
            f64::from(share[0])
        };
        self.block(row - row % BLOCK_ROWS).iter().map(share).collect()
    }

    /// The logits of the block that begins with row `first`: one column per value.
    #[inline(always)]
    pub(super) fn block(&self, first: usize) -> &[Column<f32>] {
        &self.logits[first / BLOCK_ROWS * self.values..][..self.values]
    }

    /// Calls `change` with every block's logits, a column per value, and normalises them afterwards. A thread takes `blocks`
    /// blocks at a time, and what `memory` makes for them.
    pub(super) fn change_blocks<M>(
        &mut self,
        level: Level,
        blocks: usize,
        memory: impl Fn() -> M + Sync,
        change: impl Fn(&mut M, Span, &mut [Column<f32>]) + Sync,
    ) {
        let (rows, values) = (self.rows, self.values);
        self.logits.par_chunks_mut(blocks * values).enumerate().for_each(|(run, logits)| {
            let mut memory = memory();
            for (block, logits) in logits.chunks_exact_mut(values).enumerate() {
                let first = (run * blocks + block) * BLOCK_ROWS;
                let len = BLOCK_ROWS.min(rows - first);
                change(&mut memory, Span { first, len }, logits);
                level.run(
                    #[inline(always)]
                    || normalise(logits),
                );
                if len < BLOCK_ROWS {
                    logits.iter_mut().for_each(|column| column.0[len..].fill(0.0));
                }
            }
        });
    }
}

/// Moves every row's logits so that the largest is zero. A logit that is not a number becomes zero too.
#[inline(always)]
fn normalise(logits: &mut [Column<f32>]) {
    let mut largest = Column::of(f32::NEG_INFINITY);
    for Column(logits) in &*logits {
        for (largest, &logit) in largest.0.iter_mut().zip(logits) {
            *largest = if logit > *largest { logit } else { *largest };
        }
    }
    for Column(logits) in logits {
        for (logit, &largest) in logits.iter_mut().zip(&largest.0) {
            let moved = *logit - largest;
            let held = if moved > LEAST_LOGIT { moved } else { LEAST_LOGIT };
            *logit = if moved.is_nan() { 0.0 } else { held };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beliefs_are_distributions() {
        let beliefs = Beliefs::with_prior(70, &[1.0, 3.0, 0.0, f64::NAN]);
        for row in [0, 31, 32, 69] {
            let shares = beliefs.probabilities(row);
            assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-12, "{shares:?}");
            assert!((shares[1] - 0.75).abs() < 1e-6 && shares[2] < 1e-29 && shares[3] > 0.0, "{shares:?}");
        }
        assert_eq!(Beliefs::uniform(3, 4).probabilities(2), [0.25; 4]);
        assert_eq!((beliefs.rows(), beliefs.values(), beliefs.memory_bytes()), (70, 4, 96 * 4 * 4));
    }

    #[test]
    #[should_panic(expected = "row 3 of 3")]
    fn a_row_that_only_fills_up_a_block_is_none() {
        Beliefs::uniform(3, 4).probabilities(3);
    }

    #[test]
    fn wild_logits_become_tame_ones() {
        let wild = [f32::NAN, 1.0, f32::INFINITY, -3.0, f32::NEG_INFINITY, 1e38, -1e38];
        for &level in Level::available() {
            for kept in 0..wild.len() {
                let mut beliefs = Beliefs::uniform(40, wild.len());
                beliefs.change_blocks(
                    level,
                    1,
                    || (),
                    |(), _, logits| {
                        for (value, logits) in logits.iter_mut().enumerate() {
                            *logits = Column::of(if value >= kept { wild[value] } else { -1.0 });
                        }
                    },
                );
                for Column(logits) in &beliefs.logits {
                    assert!(logits.iter().all(|logit| (LEAST_LOGIT..=0.0).contains(logit)), "{logits:?}");
                }
                assert!(beliefs.block(32).iter().all(|Column(logits)| logits[8..] == [0.0; 24]));
                assert!(beliefs.block(0).iter().any(|Column(logits)| logits[0] == 0.0));
            }
        }
    }
}
