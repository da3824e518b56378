//! Beliefs about the sensitive values of rows, and the fused passes over them.
//!
//! Every private row has one of k sensitive values, the same k for all rows. A belief is a distribution over them per row, stored as
//! f32 logits whose largest is zero. A query gives every row k vectors f(x_i, y); a pass computes, reading every row once,
//!
//! * the believed sum  sum_i sum_y p_i(y) f(x_i, y),
//! * the actual sum    sum_i f(x_i, y_i),
//! * the largest distance between two vectors of one row,
//!
//! all on integers (the distance rounded up), so that neither threads nor instructions can change a bit. The believed sum
//! and the distance are functions of public values alone; the actual sum is the only one that reads the secret values, and
//! it picks among vectors that the same code has computed for every value.

use super::KernelError;
use rayon::prelude::*;

/// Most sensitive values of a row: a value is a 16-bit index, and a pass looks at all pairs of them.
pub const MAX_VALUES: usize = 1024;

/// Magnitudes of sums stay below this, so that a difference of two still fits into 62 bits.
pub(super) const BELIEF_SUM_LIMIT: u64 = 1 << 61;

/// A distribution over the same k values for each of n rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Beliefs {
    values: usize,
    /// Row after row; the largest logit of a row is zero.
    logits: Vec<f32>,
}

impl Beliefs {
    /// Every value equally likely, for every row. At least one value.
    pub fn uniform(rows: usize, values: usize) -> Self {
        let values = values.max(1);
        Beliefs { values, logits: vec![0.0; rows * values] }
    }

    /// The same prior for every row, as probabilities (any positive multiple of them).
    ///
    /// What is not a positive number counts as the smallest positive one: no value is ever ruled out.
    pub fn with_prior(rows: usize, prior: &[f64]) -> Self {
        let mut beliefs = Beliefs::uniform(rows, prior.len());
        for row in beliefs.logits.chunks_exact_mut(beliefs.values) {
            for (logit, &probability) in row.iter_mut().zip(prior) {
                let positive = if probability > 1e-30 { probability } else { 1e-30 };
                *logit = positive.ln() as f32;
            }
            normalise(row);
        }
        beliefs
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.logits.len() / self.values
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
        let mut shares = vec![0.0; self.values];
        shares_of(&self.logits[row * self.values..][..self.values], &mut shares);
        let total: f64 = shares.iter().map(|&share| f64::from(share)).sum();
        shares.iter().map(|&share| f64::from(share) / total).collect()
    }

    pub(super) fn of_rows(&self, first: usize, len: usize) -> &[f32] {
        &self.logits[first * self.values..][..len * self.values]
    }

    /// Calls `change` with the first row's index and the logits of every run of `rows` rows, then normalises each row.
    pub(super) fn change_runs(&mut self, rows: usize, change: impl Fn(usize, &mut [f32]) + Sync) {
        let values = self.values;
        self.logits.par_chunks_mut(rows * values).enumerate().for_each(|(run, logits)| {
            change(run * rows, logits);
            for row in logits.chunks_exact_mut(values) {
                normalise(row);
            }
        });
    }
}

/// Moves a row's logits so that the largest is zero. A logit that is not a number becomes zero too.
#[inline(always)]
fn normalise(row: &mut [f32]) {
    let largest =
        row.iter().fold(f32::NEG_INFINITY, |largest, &logit| if logit > largest { logit } else { largest });
    for logit in row {
        let moved = *logit - largest;
        *logit = if moved > LEAST_LOGIT {
            moved
        } else if moved <= LEAST_LOGIT {
            LEAST_LOGIT
        } else {
            0.0
        };
    }
}

/// e^-80 is still a normal f32.
const LEAST_LOGIT: f32 = -80.0;

/// e^logit for every logit: unnormalised probabilities.
#[inline(always)]
pub(super) fn shares_of(logits: &[f32], shares: &mut [f32]) {
    for (share, &logit) in shares.iter_mut().zip(logits) {
        *share = exp_single(logit);
    }
}

/// e^x for -87 <= x <= 0 to within 3e-7, in plain single-precision operations: the same bits everywhere.
#[inline(always)]
fn exp_single(x: f32) -> f32 {
    /// 1.5 * 2^23: leaves the nearest integer in the low bits.
    const MAGIC: f32 = 12_582_912.0;
    let x = if x < -87.0 { -87.0 } else { x };
    let shifted = x * std::f32::consts::LOG2_E + MAGIC;
    let k = shifted - MAGIC;
    // 0.693359375 has 10 bits, so k times it is exact
    let r = (x - k * 0.693_359_4) + k * 2.121_944_4e-4;
    let mut q = 1.0 / 720.0;
    q = q * r + 1.0 / 120.0;
    q = q * r + 1.0 / 24.0;
    q = q * r + 1.0 / 6.0;
    q = q * r + 0.5;
    let series = 1.0 + (r + (r * r) * q);
    let biased = shifted.to_bits().wrapping_sub(MAGIC.to_bits()).wrapping_add(127);
    series * f32::from_bits(biased << 23)
}

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
    /// What is added to the logit of a value whose inner product is `product`.
    #[inline(always)]
    pub(super) fn step(&self, product: f64) -> f32 {
        let quotient = product / self.size;
        // NaN fails both comparisons and is dropped at the end
        let quotient = if quotient > self.truncation { self.truncation } else { quotient };
        let quotient = if quotient < -self.truncation { -self.truncation } else { quotient };
        let step = self.rate * quotient;
        if step.abs() <= f64::from(f32::MAX) { step as f32 } else { 0.0 }
    }
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

pub(super) mod sealed {
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
pub(super) fn check(
    beliefs: &Beliefs,
    secret: Option<&[u16]>,
    rows: usize,
    values: usize,
) -> Result<(), KernelError> {
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

/// Partial results of a range of rows.
pub(super) struct Partial {
    pub believed: Vec<i64>,
    pub actual: Vec<i64>,
    pub squared_diameter: f64,
}

impl Partial {
    pub fn zero(len: usize) -> Self {
        Partial { believed: vec![0; len], actual: vec![0; len], squared_diameter: 0.0 }
    }

    /// Integers and maxima: the order of merging does not matter.
    pub fn merge(mut self, other: Partial) -> Partial {
        super::pass::add_into(&mut self.believed, &other.believed);
        super::pass::add_into(&mut self.actual, &other.actual);
        self.squared_diameter = self.squared_diameter.max(other.squared_diameter);
        self
    }
}

/// Runs `work` over ranges of `0..rows` in parallel and merges the results.
pub(super) fn over_rows(
    rows: usize,
    run: usize,
    zero: usize,
    work: impl Fn(usize, usize) -> Partial + Sync,
) -> Partial {
    let runs = rows.div_ceil(run);
    (0..runs)
        .into_par_iter()
        .map(|index| work(index * run, ((index + 1) * run).min(rows)))
        .reduce(|| Partial::zero(zero), Partial::merge)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exponential_is_close_and_beliefs_are_distributions() {
        for step in 0..8_700 {
            let x = -(step as f32) / 100.0;
            let exact = f64::from(x).exp();
            assert!((f64::from(exp_single(x)) / exact - 1.0).abs() < 3e-7, "{x}");
        }
        assert_eq!(exp_single(0.0), 1.0);
        let beliefs = Beliefs::with_prior(2, &[1.0, 3.0, 0.0, f64::NAN]);
        let row = beliefs.probabilities(1);
        assert!(
            (row.iter().sum::<f64>() - 1.0).abs() < 1e-12 && (row[1] - 0.75).abs() < 1e-6 && row[2] < 1e-29,
            "{row:?}"
        );
        assert_eq!(Beliefs::uniform(3, 4).probabilities(2), [0.25; 4]);
    }

    #[test]
    fn a_wild_step_leaves_a_distribution() {
        let update = BeliefUpdate { direction: vec![], rate: 1.0, size: 0.0, truncation: 3.0 };
        assert_eq!(update.step(f64::NAN), 0.0);
        assert_eq!(update.step(1.0), 3.0);
        assert_eq!(update.step(0.0), 0.0); // 0/0
        let mut row = [f32::NAN, 1.0, f32::INFINITY, -3.0];
        normalise(&mut row);
        assert!(row.iter().all(|logit| logit.is_finite() && *logit <= 0.0), "{row:?}");
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
