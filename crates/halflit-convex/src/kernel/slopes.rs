//! The slopes of logistic and softmax losses in single precision, from exact scores to integer coefficients in one go.
//!
//! Before they are rounded, the coefficients are within 2^-21 of the scale of those of double precision (`proof.md`, section 2): a million
//! rows together move a sum by less than half of what one row may.

use super::block::{BLOCK_ROWS, Block};
use super::clamp::{MAX_COEFFICIENT, clip_rows};
use super::lanes::{SIXTEEN, VectorWork, Vectors};
use super::single::{bounds, power_of_two, to_single, within};
use crate::math::to_float;
use std::f64::consts::LOG2_E;

/// The derivative of a loss whose slopes are probabilities minus labels, in units of 1 / `scale`.
#[derive(Debug, Clone, Copy)]
pub struct SingleSlopes<'a> {
    /// Which probabilities.
    pub of: Probabilities,
    /// One per row of the table: 0 or 1, or the class.
    pub labels: &'a [f64],
    /// Coefficient units per unit of derivative.
    pub scale: f64,
}

/// How scores become probabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probabilities {
    /// 1 / (1 + e^-z).
    Logistic,
    /// e^z_k / sum_j e^z_j.
    Softmax,
}

/// Up to this size 2^x is a normal number.
const MOST: f64 = 125.0;

/// A block's way from exact scores to coefficients; slices with several outputs are output-major.
pub(super) struct SlopesBlock<'a> {
    pub(super) slopes: SingleSlopes<'a>,
    pub(super) block: &'a Block<'a>,
    pub(super) integer_scores: &'a [i64],
    pub(super) score_unit: f64,
    pub(super) limits: &'a [u32],
    /// Memory for as many blocks as there are outputs.
    pub(super) powers: &'a mut [[f32; BLOCK_ROWS]],
    pub(super) coefficients: &'a mut [i32],
}

impl VectorWork for SlopesBlock<'_> {
    #[inline(always)]
    fn run(self, v: impl Vectors) {
        let mut buffer = [0.0; BLOCK_ROWS];
        let labels = self.block.values(self.slopes.labels, &mut buffer);
        let mut limits = [0i32; BLOCK_ROWS];
        for (limit, &row_limit) in limits.iter_mut().zip(self.limits) {
            *limit = row_limit as i32;
        }
        match self.slopes.of {
            Probabilities::Logistic => self.logistic(v, labels, &limits),
            Probabilities::Softmax => self.softmax(v, labels, &limits),
        }
    }
}

impl SlopesBlock<'_> {
    #[inline(always)]
    fn logistic(self, v: impl Vectors, labels: &[f64], limits: &[i32; BLOCK_ROWS]) {
        let (mut exponents, mut targets) = ([0f32; BLOCK_ROWS], [0f32; BLOCK_ROWS]);
        let unit = self.score_unit * LOG2_E;
        for (exponent, &score) in exponents.iter_mut().zip(self.integer_scores) {
            *exponent = to_single(to_float(score) * unit, MOST);
        }
        for (target, &label) in targets.iter_mut().zip(labels) {
            *target = label as f32;
        }
        let (zero, one, scale) = (v.splat(0.0), v.splat(1.0), v.splat(self.slopes.scale as f32));
        let mut coefficients = [0; BLOCK_ROWS];
        for (part, coefficients) in coefficients.as_chunks_mut().0.iter_mut().enumerate() {
            let x = v.load(sixteen(&exponents, part));
            let power = power_of_two(v, v.lesser(x, zero - x));
            let probability = v.where_negative(x, power, one) / (one + power);
            let slope = scale * (probability - v.load(sixteen(&targets, part)));
            v.store_integers(rounded(v, slope, sixteen(limits, part)), coefficients);
        }
        self.coefficients.copy_from_slice(&coefficients[..labels.len()]);
    }

    #[inline(always)]
    fn softmax(self, v: impl Vectors, labels: &[f64], limits: &[i32; BLOCK_ROWS]) {
        let rows = labels.len();
        let mut largest = [i64::MIN; BLOCK_ROWS];
        for scores in self.integer_scores.chunks_exact(rows) {
            for (largest, &score) in largest.iter_mut().zip(scores) {
                *largest = if score > *largest { score } else { *largest };
            }
        }
        let unit = self.score_unit * LOG2_E;
        // With what their last addition lost (Kahan): many small powers count beside a large one.
        let (mut totals, mut lost) = ([0f32; BLOCK_ROWS], [0f32; BLOCK_ROWS]);
        for (powers, scores) in self.powers.iter_mut().zip(self.integer_scores.chunks_exact(rows)) {
            for ((power, &score), &largest) in powers.iter_mut().zip(scores).zip(&largest) {
                *power = to_single(to_float(score.wrapping_sub(largest)) * unit, MOST);
            }
            let sums = totals.as_chunks_mut().0.iter_mut().zip(lost.as_chunks_mut().0);
            for (powers, (totals, lost)) in powers.as_chunks_mut().0.iter_mut().zip(sums) {
                let power = power_of_two(v, v.load(powers));
                v.store(power, powers);
                let (total, added) = (v.load(totals), power - v.load(lost));
                let sum = total + added;
                v.store((sum - total) - added, lost);
                v.store(sum, totals);
            }
        }
        // what is not a class is none
        let mut classes = [-1i32; BLOCK_ROWS];
        for (class, &label) in classes.iter_mut().zip(labels) {
            let index = label as i32;
            *class = if f64::from(index) == label { index } else { -1 };
        }
        let (one, scale) = (v.splat(1.0), v.splat(self.slopes.scale as f32));
        let outputs = self.powers.iter().zip(self.coefficients.chunks_exact_mut(rows));
        for (class, (powers, coefficients)) in outputs.enumerate() {
            let class = v.splat_integer(class as i32);
            let mut block = [0; BLOCK_ROWS];
            for (part, block) in block.as_chunks_mut().0.iter_mut().enumerate() {
                let probability = v.load(sixteen(powers, part)) / v.load(sixteen(&totals, part));
                let own = v.where_equal(v.load_integers(sixteen(&classes, part)), class, v.bits(one));
                let slope = scale * (probability - v.as_floats(own));
                v.store_integers(rounded(v, slope, sixteen(limits, part)), block);
            }
            coefficients.copy_from_slice(&block[..rows]);
        }
        clip_rows(self.limits, self.coefficients);
    }
}

/// Eight neighbours of a block.
#[inline(always)]
fn sixteen<T>(block: &[T; BLOCK_ROWS], part: usize) -> &[T; SIXTEEN] {
    &block.as_chunks().0[part]
}

/// The nearest integers within the limits.
#[inline(always)]
fn rounded<V: Vectors>(v: V, x: V::Floats, limits: &[i32; SIXTEEN]) -> V::Integers {
    let (limits, zero) = (v.load_integers(limits), v.splat_integer(0));
    let nearest = v.to_nearest(within(v, x, bounds(v, MAX_COEFFICIENT as f32)));
    v.max(v.min(nearest, limits), zero - limits)
}

#[cfg(test)]
mod tests {
    use super::super::lanes::{Arrays, Level};
    use super::*;
    use crate::loss::{Loss, LossSpec};
    use crate::testing::Numbers;

    const UNIT: f64 = 1.0 / (1u64 << 40) as f64;

    /// Coefficients of rows that begin a table, by plain arrays; every level must agree.
    fn coefficients(scores: &[i64], slopes: SingleSlopes<'_>, limits: &[u32]) -> Vec<i32> {
        let mut powers = vec![[f32::NAN; BLOCK_ROWS]; scores.len() / limits.len()];
        let mut at_level = |level: Option<Level>| {
            let mut coefficients = vec![7; scores.len()];
            let work = SlopesBlock {
                slopes,
                block: &Block::run(0, limits.len()),
                integer_scores: scores,
                score_unit: UNIT,
                limits,
                powers: &mut powers,
                coefficients: &mut coefficients,
            };
            match level {
                Some(level) => level.work(work),
                None => work.run(Arrays),
            }
            coefficients
        };
        let plain = at_level(None);
        for &level in Level::available() {
            assert_eq!(at_level(Some(level)), plain, "{}", level.name());
        }
        plain
    }

    /// The derivatives in double precision, output-major.
    fn derivatives(scores: &[i64], labels: &[f64]) -> Vec<f64> {
        let (rows, outputs) = (labels.len(), scores.len() / labels.len());
        let real = |row: usize| -> Vec<f64> {
            (0..outputs).map(|output| scores[output * rows + row] as f64 * UNIT).collect()
        };
        let mut all = vec![0.0; scores.len()];
        for (row, &label) in labels.iter().enumerate() {
            let spec = if outputs == 1 { LossSpec::Logistic } else { LossSpec::Softmax { classes: outputs } };
            let own = crate::loss::tests::derivative(&Loss::new(spec).unwrap(), &real(row), label);
            own.into_iter().enumerate().for_each(|(output, slope)| all[output * rows + row] = slope);
        }
        all
    }

    #[test]
    fn coefficients_are_nearly_those_of_double_precision() {
        let mut numbers = Numbers::new(31);
        for case in 0..3000 {
            let (rows, outputs) = (1 + case % BLOCK_ROWS, [1, 2, 3, 10][case % 7 % 4]);
            let of = if outputs == 1 { Probabilities::Logistic } else { Probabilities::Softmax };
            let size = 2f64.powi(case as i32 % 26 + 24);
            let scores: Vec<i64> = (0..rows * outputs).map(|_| (numbers.symmetric() * size) as i64).collect();
            let labels: Vec<f64> = (0..rows).map(|row| ((row + case) % outputs.max(2)) as f64).collect();
            let exact = derivatives(&scores, &labels);
            for scale in [f64::from(1 << 22), 3e7, 1.0] {
                let slopes = SingleSlopes { of, labels: &labels, scale };
                let found = coefficients(&scores, slopes, &vec![MAX_COEFFICIENT; rows]);
                for (&found, exact) in found.iter().zip(&exact) {
                    let apart = (f64::from(found) - scale * exact).abs();
                    assert!(apart <= 0.5 + scale * 2f64.powi(-21), "{apart} {scale} {outputs}");
                }
            }
        }
    }

    /// Each of many classes 24 binary orders below the first: one by one they would all be lost.
    #[test]
    fn many_small_powers_count() {
        let low = (-24.0 * std::f64::consts::LN_2 / UNIT) as i64;
        for classes in [10, 100, 1000, 5000] {
            let scores: Vec<i64> = std::iter::once(0).chain(vec![low; classes - 1]).collect();
            let (labels, scale) = ([1.0], f64::from(1 << 28));
            let slopes = SingleSlopes { of: Probabilities::Softmax, labels: &labels, scale };
            let found = coefficients(&scores, slopes, &[MAX_COEFFICIENT]);
            for (&found, exact) in found.iter().zip(derivatives(&scores, &labels)) {
                let apart = (f64::from(found) - scale * exact).abs();
                assert!(apart <= 0.5 + scale * 2f64.powi(-21), "{apart} {classes}");
            }
        }
    }

    #[test]
    fn limits_hold_whatever_comes_in() {
        let scores = [i64::MAX, i64::MIN, 0, 1 << 40, 0, 0, 0, -1].repeat(4);
        let labels = [1.0, 0.0, f64::NAN, 1e300, -1e300, f64::INFINITY, 2.0, 0.5].repeat(4);
        for scale in [f64::from(1 << 22), 1e300, f64::NAN, f64::INFINITY, 0.0] {
            for limit in [0, 1, 5, (1 << 24) + 1, MAX_COEFFICIENT - 1, MAX_COEFFICIENT] {
                for (of, outputs) in [(Probabilities::Logistic, 1), (Probabilities::Softmax, 4)] {
                    let rows = scores.len() / outputs;
                    let slopes = SingleSlopes { of, labels: &labels[..rows], scale };
                    let found = coefficients(&scores, slopes, &vec![limit; rows]);
                    for row in 0..rows {
                        let own = found.iter().skip(row).step_by(rows);
                        let squared: u128 = own.map(|s| u128::from(s.unsigned_abs()).pow(2)).sum();
                        assert!(squared <= u128::from(limit).pow(2), "{found:?} {limit}");
                    }
                }
            }
        }
    }
}
