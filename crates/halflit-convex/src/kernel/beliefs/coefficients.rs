//! The integer coefficients of a block: one for every output, value and row.

use super::super::block::BLOCK_ROWS;
use super::super::clamp::clamp_coefficient;
use super::super::lanes::Vectors;
use super::super::single::{SINGLE_COEFFICIENT, bounds, power_of_two, round, to_single, within};
use super::columns::{Column, PARTS, Span};
use super::gradient::GradientQuery;
use crate::loss::{Form, ScalarLoss, one_hot, with_scalar};
use crate::math::exp;

/// The logistic loss where values move the score by moderate amounts: sigma(z + a_y) = 1 / (1 + e^-z e^-a_y), one exponential per row
/// instead of k.
///
/// Single precision: coefficients of 22 bits hardly tell it from double.
#[derive(Debug, Clone)]
pub(super) struct Sigmoids {
    /// The midrange of the shifts, taken to z.
    middle: f64,
    /// e^-(a_y - middle).
    factors: Vec<f32>,
    /// Every value's label in coefficient units; zeros if the label is public.
    labels: Vec<f32>,
    scale: f64,
    limit: f32,
}

impl Sigmoids {
    /// Beyond this the score is held: with shifts of up to `MOST_SHIFT` sigma is within 2^-25 of 0 or 1 there, and e^(50 + 32) is
    /// a single-precision number.
    const MOST_SCORE: f64 = 50.0;
    const MOST_SHIFT: f64 = 32.0;
    /// Far above every coefficient.
    const MOST_LABEL: f64 = 1e30;

    /// If the shifts are moderate and the coefficients fit.
    pub(super) fn new(shifts: &[f64], labels: Option<&[f64]>, scale: f64, limit: u32) -> Option<Self> {
        let lowest = shifts.iter().copied().fold(f64::INFINITY, f64::min);
        let highest = shifts.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let moderate = highest - lowest <= 2.0 * Self::MOST_SHIFT;
        (moderate && limit <= SINGLE_COEFFICIENT).then(|| {
            let middle = lowest + 0.5 * (highest - lowest);
            let factors = shifts.iter().map(|&shift| exp(middle - shift) as f32).collect();
            let in_units = |label: &f64| to_single(label * scale, Self::MOST_LABEL);
            let labels =
                labels.map_or(vec![0.0; shifts.len()], |labels| labels.iter().map(in_units).collect());
            Sigmoids { middle, factors, labels, scale, limit: limit as f32 }
        })
    }

    /// `labels` are the rows' own; zeros if the label is sensitive.
    #[inline(always)]
    fn fill<V: Vectors>(
        &self,
        v: V,
        scores: &Column<f64>,
        labels: &Column<f64>,
        integers: &mut [Column<i32>],
    ) {
        const MOST_POWER: f64 = Sigmoids::MOST_SCORE * std::f64::consts::LOG2_E;
        let binary_scores = Column::each(|row| {
            to_single(-(scores.0[row] + self.middle) * std::f64::consts::LOG2_E, MOST_POWER)
        });
        let row_labels = Column::each(|row| to_single(labels.0[row] * self.scale, Self::MOST_LABEL));
        let (one, scale, limits) = (v.splat(1.0), v.splat(self.scale as f32), bounds(v, self.limit));
        let (factors, labels) = (&self.factors[..integers.len()], &self.labels[..integers.len()]);
        for part in 0..PARTS {
            // e^-z
            let powers = power_of_two(v, v.load(binary_scores.part(part)));
            let row_labels = v.load(row_labels.part(part));
            for value in 0..integers.len() {
                let sigma = one / (one + powers * v.splat(factors[value]));
                // one of the two labels is zero
                let coefficient = sigma * scale - (row_labels + v.splat(labels[value]));
                let integer = round(v, within(v, coefficient, limits));
                v.store_integers(integer, integers[value].part_mut(part));
            }
        }
    }
}

/// Memory for the classes of a block.
#[derive(Debug, Clone, Default)]
pub(super) struct Classes {
    scores: Vec<f64>,
    probabilities: Vec<f64>,
}

impl GradientQuery<'_> {
    /// Every coefficient of a block from its scores, clamped: entry `output * k + value`, then the row. Zero for rows that are not there.
    #[inline(always)]
    pub(super) fn coefficients(
        &self,
        v: impl Vectors,
        span: Span,
        scores: &[Column<f64>],
        classes: &mut Classes,
        integers: &mut [Column<i32>],
    ) {
        let labels = match self.rows.values.labels {
            Some(_) => Column::of(0.0),
            None => Column::padded(span.of(self.rows.labels), 0.0),
        };
        if let Some(sigmoids) = &self.sigmoids {
            sigmoids.fill(v, &scores[0], &labels, integers);
        } else {
            with_scalar!(
                self.loss.form(),
                loss => self.scalar_coefficients(loss, &scores[0], &labels, integers),
                form => self.vector_coefficients(form, scores, &labels, classes, integers)
            );
        }
        if span.len < BLOCK_ROWS {
            for integers in integers {
                integers.0[span.len..].fill(0);
            }
        }
    }

    #[inline(always)]
    fn scalar_coefficients(
        &self,
        loss: impl ScalarLoss,
        scores: &Column<f64>,
        row_labels: &Column<f64>,
        integers: &mut [Column<i32>],
    ) {
        for (value, (integers, &shift)) in integers.iter_mut().zip(&self.shifts).enumerate() {
            let labels = self.labels_with(value, row_labels);
            *integers = Column::each(|row| {
                let derivative = loss.derivative(scores.0[row] + shift, labels.0[row]);
                clamp_coefficient(derivative * self.scale, self.limit)
            });
        }
    }

    /// Every row's label if it had this value.
    #[inline(always)]
    fn labels_with(&self, value: usize, row_labels: &Column<f64>) -> Column<f64> {
        match &self.rows.values.labels {
            Some(labels) => Column::of(labels[value]),
            None => *row_labels,
        }
    }

    #[inline(always)]
    fn vector_coefficients(
        &self,
        form: Form,
        scores: &[Column<f64>],
        row_labels: &Column<f64>,
        classes: &mut Classes,
        integers: &mut [Column<i32>],
    ) {
        let (k, outputs) = (self.rows.values.len(), self.loss.outputs());
        let Form::Softmax(loss) = form else {
            // the mean: the derivative is -1 whatever the row
            let constant = clamp_coefficient(-self.scale, self.limit);
            return integers.fill(Column::of(constant));
        };
        let Classes { scores: shifted, probabilities } = classes;
        shifted.resize(outputs * BLOCK_ROWS, 0.0);
        probabilities.resize(outputs * BLOCK_ROWS, 0.0);
        for value in 0..k {
            if value == 0 || self.rows.values.has_shifts {
                for (output, shifted) in shifted.as_chunks_mut::<BLOCK_ROWS>().0.iter_mut().enumerate() {
                    let shift = self.shifts[output * k + value];
                    for (shifted, &score) in shifted.iter_mut().zip(&scores[output].0) {
                        *shifted = score + shift;
                    }
                }
                loss.probabilities(shifted, BLOCK_ROWS, probabilities);
            }
            let labels = self.labels_with(value, row_labels);
            for (output, probabilities) in probabilities.as_chunks::<BLOCK_ROWS>().0.iter().enumerate() {
                integers[output * k + value] = Column::each(|row| {
                    let one = one_hot(output, labels.0[row]);
                    clamp_coefficient((probabilities[row] - one) * self.scale, self.limit)
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::lanes::{Level, VectorWork};
    use super::*;
    use crate::math::sigmoid;

    struct Fill<'a>(&'a Sigmoids, &'a Column<f64>, &'a Column<f64>, &'a mut [Column<i32>]);

    impl VectorWork for Fill<'_> {
        #[inline(always)]
        fn run(self, v: impl Vectors) {
            self.0.fill(v, self.1, self.2, self.3);
        }
    }

    /// Shifts at both ends of what is moderate, scores far beyond it: within four steps of the real coefficient, 2^-20 of the largest.
    #[test]
    fn factored_sigmoids_are_sigmoids() {
        let limit = SINGLE_COEFFICIENT;
        let scale = 0.99 * f64::from(limit);
        for (middle, values) in [(0.0, None), (-90.0, Some([0.0, 1.0, 0.5, 0.0, 1.0]))] {
            let shifts = [-32.0, -3.0, 0.0, 0.7, 32.0].map(|shift| middle + shift);
            let sigmoids = Sigmoids::new(&shifts, values.as_ref().map(|v| &v[..]), scale, limit).unwrap();
            for case in 0..400 {
                let scores =
                    Column::each(|row| (f64::from(case) - 200.0) * 0.31 + row as f64 * 0.013 - middle);
                let scores = if case == 7 { Column::of(1e300) } else { scores };
                let labels =
                    Column::each(|row| if values.is_some() { 0.0 } else { [0.0, 1.0, 0.3][row % 3] });
                for &level in Level::available() {
                    let mut found = vec![Column::of(0); 5];
                    level.work(Fill(&sigmoids, &scores, &labels, &mut found));
                    for (value, found) in found.iter().enumerate() {
                        for row in 0..BLOCK_ROWS {
                            let label = values.map_or(labels.0[row], |values| values[value]);
                            let exact = scale * (sigmoid(scores.0[row] + shifts[value]) - label);
                            let step = f64::from(found.0[row]);
                            assert!((step - exact).abs() <= 4.0, "{} {step} {exact}", scores.0[row]);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn what_does_not_fit_goes_the_long_way() {
        let new = |shifts: &[f64], limit| Sigmoids::new(shifts, None, 1e6, limit).is_some();
        assert!(new(&[3.0, 67.0], SINGLE_COEFFICIENT));
        assert!(!new(&[3.0, 67.1], SINGLE_COEFFICIENT));
        assert!(!new(&[3.0, 4.0], SINGLE_COEFFICIENT + 1));
    }
}
