//! Beliefs about the sensitive values of rows, and the fused passes over them.
//!
//! Every private row has one of k sensitive values, the same k for all rows. A belief is a distribution over them per row. A query
//! gives every row k vectors f(x_i, y); a pass computes, reading every row once,
//!
//! * the believed sum  sum_i sum_y p_i(y) f(x_i, y),
//! * the actual sum    sum_i f(x_i, y_i),
//! * the largest distance between two vectors of one row,
//!
//! all on integers (the distance rounded up), so that neither threads nor instructions can change a bit. The believed sum
//! and the distance are functions of public values alone; the actual sum is the only one that reads the secret values, and
//! it picks among vectors that the same code computes for every value, by comparing and not by looking up: no address
//! depends on them.
//!
//! # Layout
//!
//! Rows are worked on in blocks of [`BLOCK_ROWS`](super::BLOCK_ROWS) consecutive ones. Beliefs are f32 logits (to base 2, the largest
//! of a row zero), block after block, and within a block value after value ([`Column`](columns::Column)): a row stays in its lane of every vector,
//! and sums over values run along registers. A block's way through a pass (`pass.rs`): scores from integers; coefficients by output
//! and value (`coefficients.rs`); what beliefs, secrets and distances make of them (`sums.rs`, `diameter.rs`); sums over columns.
//! Where only a label is hidden there is a shorter way (`labels.rs`).

mod coefficients;
mod columns;
mod diameter;
mod gradient;
mod labels;
mod logits;
mod pass;
mod plain;
mod sums;
mod values;

#[cfg(test)]
mod hostile;
#[cfg(test)]
mod tests;

pub use gradient::{BeliefRows, GradientQuery};
pub use logits::Beliefs;
pub use plain::PlainQuery;
pub use values::SensitiveValues;

use super::KernelError;
use rayon::prelude::*;

/// Most sensitive values of a row: a value is a 16-bit index, and a pass looks at all pairs of them.
pub const MAX_VALUES: usize = 1024;

/// Magnitudes of sums stay below this, so that a difference of two still fits into 62 bits.
const BELIEF_SUM_LIMIT: u64 = 1 << 61;

/// What one pass over all rows found, in lattice units.
#[derive(Debug, Clone, PartialEq)]
pub struct BeliefSums {
    /// sum_i sum_y p_i(y) f(x_i, y), each row's share rounded to the lattice.
    pub believed: Vec<i64>,
    /// sum_i f(x_i, y_i): exact, and private.
    pub actual: Vec<i64>,
    /// At least the largest ||f(x_i, y) - f(x_i, y')||^2; zero only if every row's vectors are all equal.
    pub squared_diameter: f64,
}

impl BeliefSums {
    /// An integer at least as large as any row's diameter, plus one; zero if the sum does not depend on the secret values.
    pub fn diameter(&self) -> u64 {
        if self.squared_diameter == 0.0 { 0 } else { ceil_root(self.squared_diameter).saturating_add(1) }
    }

    /// floor(||believed - actual||): the integer square root of an exact integer. Private.
    pub fn distance(&self) -> u64 {
        let square = |(&believed, &actual): (&i64, &i64)| {
            // both are below 2^61, so the difference is below 2^62 and all squares together below 2^126
            u128::from(believed.abs_diff(actual)).pow(2)
        };
        let sum = self.believed.iter().zip(&self.actual).map(square).fold(0u128, u128::saturating_add);
        u64::try_from(sum.isqrt()).unwrap_or(u64::MAX)
    }
}

/// An integer at least sqrt(x).
fn ceil_root(square: f64) -> u64 {
    // sqrt is correctly rounded, so one step up is above the true root
    let root = square.sqrt().next_up().ceil();
    if root < 9e18 { root as u64 } else { u64::MAX }
}

/// A multiplicative update: p_i(y) is multiplied by exp(rate * trunc(<direction, f(x_i, y)> / size)).
#[derive(Debug, Clone, PartialEq)]
pub struct BeliefUpdate {
    /// One entry per coordinate of the query, in real units.
    pub direction: Vec<f64>,
    /// eta.
    pub rate: f64,
    /// iota: what the inner product is divided by.
    pub size: f64,
    /// c: where the quotient is cut off.
    pub truncation: f64,
}

impl BeliefUpdate {
    /// What a unit of the inner product adds to a binary logit before it is cut off. May be infinite.
    fn logit_per_product(&self) -> f64 {
        std::f64::consts::LOG2_E * self.rate / self.size
    }

    /// The largest magnitude of what is added to a binary logit: finite, and zero if it is not a number.
    fn largest_step(&self) -> f32 {
        finite((self.rate * self.truncation).abs() * std::f64::consts::LOG2_E, 1e30) as f32
    }

    /// What is added to the logit of a value whose inner product is `product`.
    #[inline(always)]
    fn step(&self, product: f64) -> f32 {
        let quotient = product / self.size;
        // NaN fails both comparisons and is dropped at the end
        let quotient = if quotient > self.truncation { self.truncation } else { quotient };
        let quotient = if quotient < -self.truncation { -self.truncation } else { quotient };
        let step = self.rate * quotient * std::f64::consts::LOG2_E;
        if step.abs() <= f64::from(f32::MAX) { step as f32 } else { 0.0 }
    }
}

/// x within [-most, most]; zero if it is not a number.
fn finite(x: f64, most: f64) -> f64 {
    if x.is_nan() { 0.0 } else { x.clamp(-most, most) }
}

/// A linear vector query over rows with sensitive values: what beliefs can answer and learn from.
///
/// Sealed: a pass must compute the actual sum and the diameter from the same vectors, and only the kernels of this crate are trusted to.
/// Queries of your own implement [`VectorQuery`] and become one by [`PlainQuery`](super::PlainQuery).
pub trait BeliefQuery: sealed::Sealed + Sync {
    /// Number of coordinates of the answer.
    fn dimension(&self) -> usize;

    /// What one lattice unit of [`BeliefSums`] is worth.
    fn unit(&self) -> f64;

    /// One pass over all rows. `secret` holds every row's value.
    fn sums(&self, beliefs: &Beliefs, secret: &[u16]) -> Result<BeliefSums, KernelError>;

    /// One pass that updates every row's belief.
    fn update(&self, beliefs: &mut Beliefs, update: &BeliefUpdate) -> Result<(), KernelError>;
}

mod sealed {
    /// Implemented in this crate only.
    pub trait Sealed {}
}

/// Any query that can be written down: vectors of norm at most 1 from a row's public part and a value.
pub trait VectorQuery: Sync {
    /// Number of coordinates.
    fn dimension(&self) -> usize;

    /// Writes f(x_row, y) for y = 0, 1, ..: value after value, `dimension` numbers each. Coordinates beyond +-1 are cut off, what is
    /// not a number counts as zero.
    fn fill(&self, row: usize, values: &mut [f64]);
}

/// Checks that beliefs, secret values and rows belong together.
fn check(beliefs: &Beliefs, secret: Option<&[u16]>, rows: usize, values: usize) -> Result<(), KernelError> {
    if beliefs.rows() != rows {
        return Err(KernelError::Length { name: "the beliefs", found: beliefs.rows(), rows });
    }
    if beliefs.values() != values || values > MAX_VALUES {
        return Err(KernelError::Length {
            name: "the values of a belief",
            found: beliefs.values(),
            rows: values,
        });
    }
    match secret {
        Some(secret) if secret.len() != rows => {
            Err(KernelError::Length { name: "the sensitive values", found: secret.len(), rows })
        }
        _ => Ok(()),
    }
}

/// Partial results of some rows.
struct Partial {
    believed: Vec<i64>,
    actual: Vec<i64>,
    squared_diameter: f64,
}

impl Partial {
    fn zero(len: usize) -> Self {
        Partial { believed: vec![0; len], actual: vec![0; len], squared_diameter: 0.0 }
    }

    /// Integers and maxima: the order of merging does not matter.
    fn merge(mut self, other: Partial) -> Partial {
        super::pass::add_into(&mut self.believed, &other.believed);
        super::pass::add_into(&mut self.actual, &other.actual);
        self.squared_diameter = self.squared_diameter.max(other.squared_diameter);
        self
    }
}

/// Runs `work` over runs of `0..rows` in parallel, adding to sums of length `len`. Every thread has its own sums and memory.
fn over_rows<M: Send>(
    rows: usize,
    run: usize,
    len: usize,
    memory: impl Fn() -> M + Sync,
    work: impl Fn(&mut M, &mut Partial, std::ops::Range<usize>) + Sync,
) -> Partial {
    (0..rows.div_ceil(run))
        .into_par_iter()
        .fold(
            || (memory(), Partial::zero(len)),
            |(mut memory, mut part), index| {
                work(&mut memory, &mut part, index * run..((index + 1) * run).min(rows));
                (memory, part)
            },
        )
        .map(|(_, part)| part)
        .reduce(|| Partial::zero(len), Partial::merge)
}

#[cfg(test)]
mod unit_tests {
    use super::*;

    #[test]
    fn a_wild_step_is_none_or_the_largest() {
        let update = |rate, size, truncation| BeliefUpdate { direction: vec![], rate, size, truncation };
        let wild = update(1.0, 0.0, 3.0);
        assert_eq!(wild.step(f64::NAN), 0.0);
        assert_eq!(wild.step(1.0), 3.0 * std::f32::consts::LOG2_E);
        assert_eq!(wild.step(0.0), 0.0); // 0/0
        assert_eq!(wild.largest_step(), 3.0 * std::f32::consts::LOG2_E);
        assert_eq!(update(f64::NAN, 1.0, 1.0).largest_step(), 0.0);
        assert_eq!(update(1.0, 1.0, f64::INFINITY).largest_step(), 1e30);
        assert_eq!(
            (finite(f64::NAN, 2.0), finite(f64::NEG_INFINITY, 2.0), finite(1.0, 2.0)),
            (0.0, -2.0, 1.0)
        );
    }

    #[test]
    fn distances_are_integer_roots() {
        let sums = BeliefSums { believed: vec![3, -4, 0], actual: vec![0, 0, 1], squared_diameter: 25.0 };
        assert_eq!(sums.distance(), 5); // floor(sqrt(26))
        assert_eq!(sums.diameter(), 7); // ceil of just above 5, plus one
        let same = BeliefSums { squared_diameter: 0.0, ..sums };
        assert_eq!(same.diameter(), 0);
    }
}
