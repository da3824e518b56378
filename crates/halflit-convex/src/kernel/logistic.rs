//! The slopes of the logistic loss in single precision, from exact scores to integer coefficients in one go.
//!
//! The coefficients differ from those of double precision by 2^-21 of the scale at most: what is added as noise is thousands of times
//! that.

use super::block::{BLOCK_ROWS, Block};
use super::clamp::MAX_COEFFICIENT;
use super::lanes::{VectorWork, Vectors};
use super::single::{bounds, power_of_two, to_single, within};
use crate::math::to_float;
use std::f64::consts::LOG2_E;

/// scale * (sigma(z) - y): the derivative of the logistic loss for labels 0 and 1.
#[derive(Debug, Clone, Copy)]
pub struct LogisticSlopes<'a> {
    /// One per row of the table.
    pub labels: &'a [f64],
    /// Coefficient units per unit of derivative.
    pub scale: f64,
}

/// Up to this size 2^x is a normal number.
const MOST: f64 = 125.0;

/// A block's way from exact scores to coefficients.
pub(super) struct LogisticBlock<'a> {
    pub(super) slopes: LogisticSlopes<'a>,
    pub(super) block: &'a Block<'a>,
    pub(super) integer_scores: &'a [i64],
    pub(super) score_unit: f64,
    pub(super) limits: &'a [u32],
    pub(super) coefficients: &'a mut [i32],
}

impl VectorWork for LogisticBlock<'_> {
    #[inline(always)]
    fn run(self, v: impl Vectors) {
        let mut buffer = [0.0; BLOCK_ROWS];
        let labels = self.block.values(self.slopes.labels, &mut buffer);
        let (mut exponents, mut targets, mut limits) =
            ([0f32; BLOCK_ROWS], [0f32; BLOCK_ROWS], [0i32; BLOCK_ROWS]);
        let unit = self.score_unit * LOG2_E;
        for (exponent, &score) in exponents.iter_mut().zip(self.integer_scores) {
            *exponent = to_single(to_float(score) * unit, MOST);
        }
        for (target, &label) in targets.iter_mut().zip(labels) {
            *target = label as f32;
        }
        for (limit, &row_limit) in limits.iter_mut().zip(self.limits) {
            *limit = row_limit as i32;
        }
        let mut coefficients = [0; BLOCK_ROWS];
        let eights = exponents.as_chunks().0.iter().zip(targets.as_chunks().0).zip(limits.as_chunks().0);
        for (coefficients, ((x, y), limits)) in coefficients.as_chunks_mut().0.iter_mut().zip(eights) {
            let limits = v.load_integers(limits);
            let slopes = slopes(v, v.load(x), v.load(y), self.slopes.scale as f32);
            v.store_integers(v.max(v.min(slopes, limits), v.splat_integer(0) - limits), coefficients);
        }
        self.coefficients.copy_from_slice(&coefficients[..self.coefficients.len()]);
    }
}

/// scale * (2^x / (1 + 2^x) - y), rounded, for |x| <= 125.
#[inline(always)]
fn slopes<V: Vectors>(v: V, x: V::Floats, y: V::Floats, scale: f32) -> V::Integers {
    let (zero, one) = (v.splat(0.0), v.splat(1.0));
    let power = power_of_two(v, v.lesser(x, zero - x));
    let probability = v.where_negative(x, power, one) / (one + power);
    let slope = v.splat(scale) * (probability - y);
    v.to_nearest(within(v, slope, bounds(v, MAX_COEFFICIENT as f32)))
}

#[cfg(test)]
mod tests {
    use super::super::lanes::{Arrays, Level};
    use super::*;
    use crate::math::sigmoid;
    use crate::testing::Numbers;

    fn coefficients(
        level: Option<Level>,
        scores: &[i64],
        slopes: LogisticSlopes<'_>,
        limits: &[u32],
    ) -> Vec<i32> {
        let mut coefficients = vec![7; scores.len()];
        let work = LogisticBlock {
            slopes,
            block: &Block::run(0, scores.len()),
            integer_scores: scores,
            score_unit: 2f64.powi(-40),
            limits,
            coefficients: &mut coefficients,
        };
        match level {
            Some(level) => level.work(work),
            None => work.run(Arrays),
        }
        coefficients
    }

    #[test]
    fn coefficients_are_nearly_those_of_double_precision_and_the_same_at_every_level() {
        let mut numbers = Numbers::new(31);
        for case in 0..2000 {
            let len = 1 + case % BLOCK_ROWS;
            let size = 2f64.powi(case as i32 % 26 + 24);
            let scores: Vec<i64> = (0..len).map(|_| (numbers.symmetric() * size) as i64).collect();
            let labels: Vec<f64> = (0..len).map(|row| ((row + case) % 2) as f64).collect();
            for scale in [f64::from(1 << 22), 3e7, 1.0] {
                let limits = vec![MAX_COEFFICIENT; len];
                let slopes = LogisticSlopes { labels: &labels, scale };
                let plain = coefficients(None, &scores, slopes, &limits);
                for &level in Level::available() {
                    assert_eq!(
                        coefficients(Some(level), &scores, slopes, &limits),
                        plain,
                        "{}",
                        level.name()
                    );
                }
                for ((&score, &y), &found) in scores.iter().zip(&labels).zip(&plain) {
                    let exact = scale * (sigmoid(score as f64 * 2f64.powi(-40)) - y);
                    assert!((f64::from(found) - exact).abs() <= 0.5 + scale * 2f64.powi(-21), "{score} {y}");
                }
            }
        }
    }

    #[test]
    fn limits_hold_whatever_comes_in() {
        let scores = [i64::MAX, i64::MIN, 0, 1 << 40, 0, 0, 0, -1];
        let labels = [1.0, 0.0, f64::NAN, 1e300, -1e300, f64::INFINITY, 1.0, 0.0];
        for scale in [f64::from(1 << 22), 1e300, f64::NAN, f64::INFINITY, 0.0] {
            for limit in [0, 1, 5, (1 << 24) + 1, MAX_COEFFICIENT - 1] {
                let slopes = LogisticSlopes { labels: &labels, scale };
                for level in Level::available().iter().copied().map(Some).chain([None]) {
                    let found = coefficients(level, &scores, slopes, &[limit; 8]);
                    assert!(found.iter().all(|s| s.unsigned_abs() <= limit), "{found:?} {limit}");
                    assert_eq!(found, coefficients(None, &scores, slopes, &[limit; 8]));
                }
            }
        }
    }
}
