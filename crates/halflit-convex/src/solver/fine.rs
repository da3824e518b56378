//! Passes with scores in pairs of doubles, where a kink makes the last digits of a score matter.

use super::Problem;
use super::passes::{FEATURE_UNIT, Passes, add};
use crate::double::{Double, two_sum};
use crate::loss::{Kink, ScalarLoss, with_scalar};
use crate::rows::Rows;

/// Rows per block; see `passes`.
const BLOCK: usize = 256;

/// Weights split so that products with 16-bit features are exact: 36 leading bits, 17 more, and the low half of the pair.
struct SplitWeights {
    leading: Vec<f64>,
    rest: Vec<f64>,
    low: Vec<f64>,
}

impl SplitWeights {
    fn new(weights: &[Double]) -> Self {
        // clearing 17 of 52 stored bits leaves 36 significant ones
        let leading: Vec<f64> =
            weights.iter().map(|w| f64::from_bits(w.to_f64().to_bits() & !((1 << 17) - 1))).collect();
        let rest = weights.iter().zip(&leading).map(|(w, leading)| w.to_f64() - leading).collect();
        SplitWeights { leading, rest, low: weights.iter().map(|w| w.remainder()).collect() }
    }

    /// <w, x> of one row: the exact products are summed with their rounding errors, which go into a tail.
    #[inline(always)]
    fn score(&self, rows: &Rows, row: usize) -> Double {
        let (mut sums, mut rests, mut tails) = ([0.0; 8], [0.0; 8], [0.0; 8]);
        let mut add = |lane: usize, column: usize, q: i16| {
            let q = f64::from(q);
            let (sum, first_error) = two_sum(sums[lane], q * self.leading[column]);
            let (rest, second_error) = two_sum(rests[lane], q * self.rest[column]);
            (sums[lane], rests[lane]) = (sum, rest);
            tails[lane] += (first_error + second_error) + q * self.low[column];
        };
        match rows {
            Rows::Dense(dense) => {
                for (column, &q) in dense.row(row).iter().enumerate() {
                    add(column % 8, column, q);
                }
            }
            Rows::Sparse(sparse) => {
                for (index, (column, q)) in sparse.row(row).iter().enumerate() {
                    add(index % 8, column, q);
                }
            }
        }
        let total = (0..8).fold(Double::ZERO, |total, lane| {
            total + (Double::sum(sums[lane], rests[lane]) + Double::from(tails[lane]))
        });
        // a power of two: exact
        total * Double::from(FEATURE_UNIT)
    }

    /// The score's distance from the row's kink, correctly rounded but for the error of the score.
    #[inline(always)]
    fn distance(&self, passes: &Passes<'_>, row: usize, kink: Kink) -> f64 {
        (self.score(passes.rows, row) - Double::from(kink.at)).to_f64()
    }
}

/// The kink of a row's loss; losses without one never come here.
#[inline(always)]
fn kink(passes: &Passes<'_>, row: usize) -> Kink {
    let none = Kink { at: 0.0, low_slope: 0.0, high_slope: 0.0 };
    with_scalar!(passes.loss.form(), loss => loss.kink(passes.label(row)).unwrap_or(none), _form => none)
}

/// Distances of every row's score from its kink, z_i - at_i.
pub(super) fn distances(problem: &Problem<'_>, weights: &[f64]) -> Vec<f64> {
    let passes = &problem.passes;
    let split = SplitWeights::new(&weights.iter().map(|&w| Double::from(w)).collect::<Vec<_>>());
    let chunks = passes.chunks(|range| {
        range.map(|row| split.distance(passes, row, kink(passes, row))).collect::<Vec<f64>>()
    });
    chunks.concat()
}

/// The slope range and position of every row's kink.
pub(super) fn kinks(problem: &Problem<'_>) -> Vec<Kink> {
    (0..problem.passes.rows.len()).map(|row| kink(&problem.passes, row)).collect()
}

/// sum_i share_i a_i x_i, and sum_i share_i (loss(z_i) + conjugate(a_i) - a_i z_i), for one slope per row.
///
/// Every term of the second sum is nonnegative, so it has a small relative error.
pub(super) fn dual_sums(problem: &Problem<'_>, weights: &[f64], slopes: &[f64]) -> (Vec<f64>, f64) {
    let passes = &problem.passes;
    let split = SplitWeights::new(&weights.iter().map(|&w| Double::from(w)).collect::<Vec<_>>());
    let sum = row_sum(problem, |row| passes.share(row) * slopes[row]);
    let chunks = passes.chunks(|range| {
        let mut total = 0.0;
        for start in range.clone().step_by(BLOCK) {
            let rows = start..(start + BLOCK).min(range.end);
            total += rows
                .map(|row| {
                    let kink = kink(passes, row);
                    passes.share(row) * kink.fenchel_young(split.distance(passes, row, kink), slopes[row])
                })
                .sum::<f64>();
        }
        total
    });
    (sum, chunks.iter().sum())
}

/// sum_i coefficient(i) x_i.
pub(super) fn row_sum(problem: &Problem<'_>, coefficient: impl Fn(usize) -> f64 + Sync) -> Vec<f64> {
    let passes = &problem.passes;
    let size = problem.size();
    let chunks = passes.chunks(|range| {
        let mut sum = vec![0.0; size];
        let mut block = vec![0.0; size];
        let mut coefficients = vec![0.0; BLOCK];
        for start in range.clone().step_by(BLOCK) {
            let rows = start..(start + BLOCK).min(range.end);
            for (slot, row) in coefficients.iter_mut().zip(rows.clone()) {
                *slot = coefficient(row);
            }
            block.fill(0.0);
            passes.add_rows(rows.clone(), &coefficients[..rows.len()], &mut block);
            add(&mut sum, &block);
        }
        sum
    });
    let mut total = vec![0.0; size];
    chunks.iter().for_each(|chunk| add(&mut total, chunk));
    total.iter_mut().for_each(|value| *value *= FEATURE_UNIT);
    total
}

/// sum_i share_i a_i x_i with a_i the slopes of the Moreau-smoothed loss at a pair-of-doubles point.
///
/// Smoothing s around the middle m of the slopes: a = clamp(m + (z - at)/s, low, high).
pub(super) fn moreau_gradient(problem: &Problem<'_>, point: &[Double], smoothing: f64) -> Vec<f64> {
    let passes = &problem.passes;
    let split = SplitWeights::new(point);
    row_sum(problem, |row| {
        let kink = kink(passes, row);
        let middle = 0.5 * (kink.low_slope + kink.high_slope);
        let free = middle + split.distance(passes, row, kink) / smoothing;
        passes.share(row) * free.clamp(kink.low_slope, kink.high_slope)
    })
}
