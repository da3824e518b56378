//! Fused passes over rows: scores, coefficients and exact integer sums, reading every row once.
//!
//! A pass computes, for every row of a batch, the score z = <w, x>, a real coefficient from a [`Rule`], the integer coefficient
//! s nearest to it within the row's limit, and adds s * q to a sum of 64-bit integers. Three facts carry the privacy
//! argument, and tests pin each:
//!
//! * the clamp is always applied ([`RowSums`], [`UnitSums`] own the limits; no pass exists without them);
//! * a row's coefficient is a function of that row and of public values alone: the score is an exact integer, the rule is
//!   evaluated row by row in plain IEEE arithmetic, so neither the batch, nor the position in a block, nor the
//!   instruction set, nor the number of threads, nor the storage can change a bit of it;
//! * the sums are integers, so their order does not matter; the bound `rows * bound < 2^62` excludes overflow.

mod beliefs;
mod block;
pub(crate) mod clamp;
pub(crate) mod lanes;
pub(crate) mod pass;
mod single;
mod slopes;
mod sparse;
mod units;
pub(crate) mod weights;

pub use beliefs::{
    BeliefQuery, BeliefRows, BeliefSums, BeliefUpdate, Beliefs, GradientQuery, MAX_VALUES, PlainQuery,
    SensitiveValues, VectorQuery,
};
pub use block::{BLOCK_ROWS, Batch, Block, PerRow, Rule};
pub use clamp::{MAX_COEFFICIENT, QUICK_COEFFICIENT, clamp_coefficient, coefficient_limit};
pub use lanes::Level;
pub use pass::RowSums;
pub use slopes::{Probabilities, SingleSlopes};
pub use units::{Centre, UnitSums};
pub use weights::LatticeWeights;

/// Sums of contributions stay below this magnitude, so that no 64-bit addition overflows.
pub const SUM_LIMIT: u64 = 1 << 62;

/// Why a pass was refused. Nothing in here depends on a private cell of the table.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum KernelError {
    /// `contributions * bound` reaches 2^62.
    #[error(
        "{count} contributions of norm up to {bound} may sum to 2^62 or more; take a coarser lattice unit (a smaller bound)"
    )]
    Overflow {
        /// Number of contributions.
        count: usize,
        /// Norm bound of each, in lattice units.
        bound: u64,
    },
    /// The weights do not fit the rows or the rule.
    #[error(
        "the weights have {width} features and {outputs} outputs, the rows have {rows_width} features and the rule {rule_outputs} outputs"
    )]
    Shape {
        /// Features of the weights.
        width: usize,
        /// Outputs of the weights.
        outputs: usize,
        /// Features of the rows.
        rows_width: usize,
        /// Outputs of the rule.
        rule_outputs: usize,
    },
    /// Weights that are not `outputs` vectors of equal length.
    #[error("{weights} weights cannot be split into {outputs} equal vectors")]
    Outputs {
        /// Number of weights.
        weights: usize,
        /// Number of outputs.
        outputs: usize,
    },
    /// A weight that is not a number of sensible size.
    #[error("weight {index} is {value}; weights must be finite and at most 1e100 in magnitude")]
    Weight {
        /// Its index.
        index: usize,
        /// Its value.
        value: f64,
    },
    /// A batch that names a row or unit twice, out of order, or beyond the end.
    #[error(
        "the batch names {index} at position {position}; a batch must be strictly increasing and below {len}"
    )]
    Batch {
        /// Position in the list.
        position: usize,
        /// What is named there.
        index: u32,
        /// Number of rows or units.
        len: usize,
    },
    /// Offsets that do not cut the rows into units.
    #[error(
        "the unit offsets must start at 0, never decrease, end at the number of rows ({rows}), and leave no unit with more than {rows_per_unit} rows"
    )]
    Offsets {
        /// Number of rows.
        rows: usize,
        /// Declared largest number of rows of one unit.
        rows_per_unit: usize,
    },
    /// A column of per-row values that is not as long as the rows.
    #[error("{name} has {found} entries, there are {rows} rows")]
    Length {
        /// What it is.
        name: &'static str,
        /// Its length.
        found: usize,
        /// The number of rows or units.
        rows: usize,
    },
    /// Rows with public features in columns that belong to the sensitive values.
    #[error(
        "the public rows must be zero in the columns that sensitive values fill; clear those columns first"
    )]
    Filled,
    /// A centre that does not fit the sums or is too long a vector.
    #[error("the centre must have {expected} entries and, with its multiples, a norm below 2^61")]
    Centre {
        /// Entries it should have.
        expected: usize,
    },
}

#[cfg(test)]
mod tests;
