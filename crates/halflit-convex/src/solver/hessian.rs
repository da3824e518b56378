//! Second derivatives: assembled for few weights, applied to vectors for many.

use super::passes::{FEATURE_UNIT, Passes, Smoothing, add};
use crate::rows::Rows;
use std::ops::Range;

/// hessian += sum over the block's rows of share_i * (curvature of row i), lower triangle.
///
/// `curvatures` holds second derivatives for one output, probabilities p for softmax, whose curvature is diag(p) - p p^T.
#[inline(always)]
pub(super) fn add_block(passes: &Passes<'_>, rows: Range<usize>, curvatures: &[f64], hessian: &mut [f64]) {
    let (len, outputs, width, size) = (rows.len(), passes.outputs(), passes.rows.width(), passes.size());
    let mut row_values = vec![0.0; width];
    for (position, row) in rows.enumerate() {
        let share = passes.share(row);
        let entries: Option<Vec<(usize, f64)>> = match passes.rows {
            Rows::Dense(dense) => {
                for (value, &q) in row_values.iter_mut().zip(dense.row(row)) {
                    *value = f64::from(q);
                }
                None
            }
            Rows::Sparse(sparse) => {
                Some(sparse.row(row).iter().map(|(column, q)| (column, f64::from(q))).collect())
            }
        };
        for first in 0..outputs {
            for second in 0..=first {
                let weight = share * curvature(curvatures, len, position, first, second, outputs);
                if weight == 0.0 {
                    continue;
                }
                // block (first, second): weight * q q^T; below the diagonal of the whole when first > second
                match &entries {
                    None => {
                        for (i, &value) in row_values.iter().enumerate() {
                            let factor = weight * value;
                            let end = if first == second { i + 1 } else { width };
                            let line = &mut hessian[(first * width + i) * size + second * width..][..end];
                            for (h, &other) in line.iter_mut().zip(&row_values) {
                                *h += factor * other;
                            }
                        }
                    }
                    Some(entries) => {
                        for &(i, value) in entries {
                            for &(j, other) in entries.iter().filter(|&&(j, _)| first > second || j <= i) {
                                hessian[(first * width + i) * size + second * width + j] +=
                                    weight * value * other;
                            }
                        }
                    }
                }
            }
        }
    }
}

/// sum_i weight(i) x_i x_i^T for one output, lower triangle.
pub(super) fn weighted(passes: &Passes<'_>, weight: impl Fn(usize) -> f64 + Sync) -> Vec<f64> {
    let size = passes.size();
    let chunks = passes.chunks(|range| {
        let mut matrix = vec![0.0; size * size];
        for row in range {
            // add_block multiplies by the row's share
            let share = passes.share(row);
            let curvature = if share > 0.0 { weight(row) / share } else { 0.0 };
            if curvature != 0.0 {
                add_block(passes, row..row + 1, &[curvature], &mut matrix);
            }
        }
        matrix
    });
    let mut total = vec![0.0; size * size];
    chunks.iter().for_each(|chunk| add(&mut total, chunk));
    total.iter_mut().for_each(|value| *value *= FEATURE_UNIT * FEATURE_UNIT);
    total
}

#[inline(always)]
fn curvature(
    curvatures: &[f64],
    len: usize,
    position: usize,
    first: usize,
    second: usize,
    outputs: usize,
) -> f64 {
    if outputs == 1 {
        return curvatures[position];
    }
    let (p, q) = (curvatures[first * len + position], curvatures[second * len + position]);
    if first == second { p * (1.0 - p) } else { -p * q }
}

/// The Hessian at a point, applied without being assembled.
pub(super) struct Operator<'a> {
    passes: Passes<'a>,
    weights: &'a [f64],
    smoothing: Smoothing,
}

impl<'a> Operator<'a> {
    pub(super) fn new(passes: Passes<'a>, weights: &'a [f64], smoothing: Smoothing) -> Self {
        Operator { passes, weights, smoothing }
    }

    /// The Hessian's diagonal: what conjugate gradients divide by.
    pub(super) fn diagonal(&self) -> Vec<f64> {
        let (passes, outputs, width) = (&self.passes, self.passes.outputs(), self.passes.rows.width());
        let chunks = passes.chunks(|range| {
            let mut sum = vec![0.0; passes.size()];
            let mut scores = vec![0.0; outputs];
            let mut slopes = vec![0.0; outputs];
            let mut curvatures = vec![0.0; outputs];
            for row in range {
                passes.scores(self.weights, row..row + 1, &mut scores);
                passes.derivatives(self.smoothing, row..row + 1, &scores, &mut slopes, &mut curvatures);
                let share = passes.share(row);
                for output in 0..outputs {
                    let weight = share * curvature(&curvatures, 1, 0, output, output, outputs);
                    let sum = &mut sum[output * width..][..width];
                    match passes.rows {
                        Rows::Dense(dense) => {
                            for (s, &q) in sum.iter_mut().zip(dense.row(row)) {
                                *s += weight * f64::from(q) * f64::from(q);
                            }
                        }
                        Rows::Sparse(sparse) => {
                            for (column, q) in sparse.row(row).iter() {
                                sum[column] += weight * f64::from(q) * f64::from(q);
                            }
                        }
                    }
                }
            }
            sum
        });
        let mut total = vec![0.0; passes.size()];
        chunks.iter().for_each(|chunk| add(&mut total, chunk));
        total.iter_mut().for_each(|value| *value *= FEATURE_UNIT * FEATURE_UNIT);
        total
    }

    /// Hessian times `direction`.
    pub(super) fn apply(&self, direction: &[f64]) -> Vec<f64> {
        let (passes, outputs, size) = (&self.passes, self.passes.outputs(), self.passes.size());
        let chunks = passes.chunks(|range| {
            const BLOCK: usize = 256;
            let mut sum = vec![0.0; size];
            let mut scores = vec![0.0; outputs * BLOCK];
            let mut slopes = vec![0.0; outputs * BLOCK];
            let mut curvatures = vec![0.0; outputs * BLOCK];
            let mut moved = vec![0.0; outputs * BLOCK];
            for start in range.clone().step_by(BLOCK) {
                let rows = start..(start + BLOCK).min(range.end);
                let len = rows.len();
                passes.scores(self.weights, rows.clone(), &mut scores);
                passes.derivatives(self.smoothing, rows.clone(), &scores, &mut slopes, &mut curvatures);
                passes.scores(direction, rows.clone(), &mut moved);
                for (position, row) in rows.clone().enumerate() {
                    let share = passes.share(row);
                    // softmax: p (u - <p, u>)
                    let mean: f64 = match outputs {
                        1 => 0.0,
                        _ => (0..outputs)
                            .map(|k| curvatures[k * len + position] * moved[k * len + position])
                            .sum(),
                    };
                    for k in 0..outputs {
                        let at = k * len + position;
                        moved[at] = share * curvatures[at] * (moved[at] - mean);
                    }
                }
                passes.add_rows(rows, &moved[..outputs * len], &mut sum);
            }
            sum
        });
        let mut total = vec![0.0; size];
        chunks.iter().for_each(|chunk| add(&mut total, chunk));
        total.iter_mut().for_each(|value| *value *= FEATURE_UNIT);
        total
    }
}
