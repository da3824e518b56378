//! The short way where only the label is hidden and enters the loss linearly: loss = A(z) - y z, without shifts.
//!
//! Then c(y) = A'(z) - y, so that the believed mean needs no more than the mean label, and two coefficients of a row differ by the
//! distance of two labels.

use super::super::lanes::Vectors;
use super::super::single::{SINGLE_COEFFICIENT, bounds, power_of_two, round, to_single, within};
use super::columns::{Column, PARTS};
use crate::loss::{Form, ScalarLoss, with_scalar};

/// The labels that the values stand for. With m their midrange, the coefficient of value y is
///
/// ```text
/// C(y) = round(clamp(start - deviation_y))    start = (A'(z) - m) scale, deviation_y = (y - m) scale
/// ```
///
/// in single precision: the same operations for every y, and the only thing about y in them is its deviation.
#[derive(Debug, Clone)]
pub(super) struct HiddenLabels {
    form: Form,
    first: f64,
    middle: f64,
    scale: f64,
    limit: f32,
    deviations: Vec<f32>,
}

impl HiddenLabels {
    /// Refuses labels that are not numbers of sensible size, and coefficients that single precision does not hold.
    pub(super) fn new(form: Form, labels: &[f64], scale: f64, limit: u32) -> Option<Self> {
        let lowest = labels.iter().copied().fold(f64::INFINITY, f64::min);
        let highest = labels.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let middle = lowest + 0.5 * (highest - lowest);
        // NaN, which the extremes pass over, fails here
        let sensible = labels.iter().all(|label| ((label - middle) * scale).abs() <= 1e30);
        (sensible && limit <= SINGLE_COEFFICIENT).then(|| {
            let deviations = labels.iter().map(|label| ((label - middle) * scale) as f32).collect();
            HiddenLabels { form, first: labels[0], middle, scale, limit: limit as f32, deviations }
        })
    }

    /// What is left of every coefficient without the label: finite, whatever the score.
    #[inline(always)]
    fn starts(&self, scores: &Column<f64>) -> Column<f32> {
        /// Labels that the loss allows deviate by less than the limit: beyond twice that a coefficient is at the limit, whatever the label.
        const MOST: f64 = (2 * SINGLE_COEFFICIENT) as f64;
        with_scalar!(
            self.form,
            loss => Column::each(|row| {
                let slope = loss.derivative(scores.0[row], self.first) + self.first;
                to_single((slope - self.middle) * self.scale, MOST)
            }),
            _ => Column::of(0.0)
        )
    }

    /// C(y) for a deviation.
    #[inline(always)]
    fn coefficients<V: Vectors>(&self, v: V, starts: V::Floats, deviations: V::Floats) -> V::Integers {
        round(v, within(v, starts - deviations, bounds(v, self.limit)))
    }

    /// Believed and actual coefficients of a block.
    #[inline(always)]
    pub(super) fn reduce<V: Vectors>(
        &self,
        v: V,
        scores: &Column<f64>,
        logits: &[Column<f32>],
        secret: &Column<i32>,
        [believed, actual]: [&mut Column<i32>; 2],
    ) {
        let starts = self.starts(scores);
        for part in 0..PARTS {
            let (starts, secret) = (v.load(starts.part(part)), v.load_integers(secret.part(part)));
            let (mut total, mut weighted) = (v.splat(0.0), v.splat(0.0));
            let (mut chosen, mut value) = (v.splat_integer(0), v.splat_integer(0));
            for (logits, &deviation) in logits.iter().zip(&self.deviations) {
                let (share, deviation) = (power_of_two(v, v.load(logits.part(part))), v.splat(deviation));
                total = total + share;
                weighted = weighted + share * deviation;
                // looks at every value: which one a row has shows in no address and no time
                chosen = v.or(chosen, v.where_equal(secret, value, v.bits(deviation)));
                value = value + v.splat_integer(1);
            }
            v.store_integers(self.coefficients(v, starts, weighted / total), believed.part_mut(part));
            v.store_integers(self.coefficients(v, starts, v.as_floats(chosen)), actual.part_mut(part));
        }
    }

    /// At least |C(y) - C(y')| for any two values of any row; zero only if they are all equal.
    ///
    /// Let a = start - deviation as a real number and b the same computed. If |a| < 2^23, they differ by at most 1/4: single-precision
    /// numbers there are at most 1/2 apart. Else |b| >= 2^23 too, and both are cut off at the same limit, which is at most 2^22. So
    /// clamp(b) is within 1/4 of clamp(a), and C(y), rounded, within 1. Cutting off brings no two numbers apart:
    /// |C(y) - C(y')| <= |deviation_y - deviation_y'| + 2.
    pub(super) fn coefficient_range(&self) -> f64 {
        let deviations = || self.deviations.iter().map(|&deviation| f64::from(deviation));
        let (lowest, highest) =
            (deviations().fold(f64::INFINITY, f64::min), deviations().fold(f64::NEG_INFINITY, f64::max));
        if lowest == highest {
            return 0.0;
        }
        ((highest - lowest).next_up() + 2.0).min(2.0 * f64::from(self.limit))
    }

    /// logit_y += (start - deviation_y) * inner, at most `cap`.
    #[inline(always)]
    pub(super) fn update<V: Vectors>(
        &self,
        v: V,
        scores: &Column<f64>,
        inner: &Column<f32>,
        cap: f32,
        logits: &mut [Column<f32>],
    ) {
        let (starts, caps) = (self.starts(scores), bounds(v, cap));
        for part in 0..PARTS {
            let (starts, inner) = (v.load(starts.part(part)), v.load(inner.part(part)));
            for (logits, &deviation) in logits.iter_mut().zip(&self.deviations) {
                let step = within(v, (starts - v.splat(deviation)) * inner, caps);
                v.store(v.load(logits.part(part)) + step, logits.part_mut(part));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::lanes::Arrays;
    use super::*;
    use crate::testing::Numbers;
    use crate::{Interval, Loss, LossSpec};

    fn squared() -> Form {
        Loss::new(LossSpec::Squared { labels: Interval::UNIT }).unwrap().form()
    }

    /// C(y) of 32 rows for every value.
    fn all_coefficients(hidden: &HiddenLabels, scores: &Column<f64>) -> Vec<Column<i32>> {
        let k = hidden.deviations.len();
        let logits = vec![Column::of(0.0); k];
        let one = |value: usize| {
            let (mut believed, mut actual) = (Column::of(0), Column::of(0));
            let secret = Column::of(value as i32);
            hidden.reduce(Arrays, scores, &logits, &secret, [&mut believed, &mut actual]);
            actual
        };
        (0..k).map(one).collect()
    }

    /// The range is a bound for steps of every size, from far above one label's distance to the smallest, and it needs its slack.
    #[test]
    fn the_range_bounds_all_pairs_of_coefficients() {
        let mut numbers = Numbers::new(4);
        let mut beyond_deviations = 0.0f64;
        for case in 0..4000 {
            let k = 1 + case % 12;
            let scale = 2f64.powi(case as i32 % 45 - 20);
            let limit = [SINGLE_COEFFICIENT, 1000, 3, 0][case % 7 % 4];
            let spread = 2f64.powi(case as i32 % 31 - 15);
            let labels: Vec<f64> = (0..k).map(|_| 0.3 + spread * numbers.symmetric()).collect();
            let hidden = HiddenLabels::new(squared(), &labels, scale, limit).unwrap();
            let reach = spread + f64::from(limit) / scale;
            let scores = Column::each(|row| match row {
                0 => 1e300,
                1 => -1e300,
                _ => reach * (((row * 37 + case * 11) % 64) as f64 / 20.0 - 1.6),
            });
            let coefficients = all_coefficients(&hidden, &scores);
            let range = hidden.coefficient_range();
            let exact =
                |y: usize, other: usize| f64::from((hidden.deviations[y] - hidden.deviations[other]).abs());
            for y in 0..k {
                for other in 0..y {
                    for row in 0..32 {
                        let apart = coefficients[y].0[row].abs_diff(coefficients[other].0[row]);
                        assert!(f64::from(apart) <= range, "{apart} {range} {scale} {labels:?}");
                        assert!(coefficients[y].0[row].unsigned_abs() <= limit);
                        beyond_deviations = beyond_deviations.max(f64::from(apart) - exact(y, other));
                    }
                }
            }
            if k > 1 && scale * spread > 1.0 && limit == SINGLE_COEFFICIENT {
                assert!(range > 0.0);
            }
        }
        assert!(beyond_deviations > 0.5, "roundings do move coefficients apart: {beyond_deviations}");
    }

    #[test]
    fn equal_labels_have_no_range_and_odd_ones_no_short_way() {
        let new = |labels: &[f64], limit| HiddenLabels::new(squared(), labels, 1e6, limit);
        assert_eq!(new(&[0.7, 0.7, 0.7], 1 << 22).unwrap().coefficient_range(), 0.0);
        assert!(new(&[0.0, 1.0], 1 << 22).unwrap().coefficient_range() >= 1e6);
        for odd in [f64::NAN, f64::INFINITY, 1e40] {
            assert!(new(&[0.0, odd, 1.0], 1 << 22).is_none(), "{odd}");
        }
        assert!(new(&[0.0, 1.0], (1 << 22) + 1).is_none());
    }
}
