//! Second derivatives: assembled for few weights, applied to vectors for many.

use super::passes::{FEATURE_UNIT, Passes, Smoothing, add};
use crate::rows::Rows;
use std::ops::Range;

/// Dense rows added together: one load and store of a Hessian entry serves this many.
const GROUP: usize = 4;

/// Features of the rows that stay in the second cache while they are added to all entries.
const CACHED: usize = 1 << 15;

/// hessian += sum over the block's rows of share_i * (curvature of row i), lower triangle.
///
/// `curvatures` holds second derivatives for one output, probabilities p for softmax, whose curvature is diag(p) - p p^T.
#[inline(always)]
pub(super) fn add_block(passes: &Passes<'_>, rows: Range<usize>, curvatures: &[f64], hessian: &mut [f64]) {
    let (len, outputs) = (rows.len(), passes.outputs());
    let weight = |position: usize, first: usize, second: usize| {
        passes.share(rows.start + position) * curvature(curvatures, len, position, first, second, outputs)
    };
    match passes.rows {
        Rows::Dense(dense) => {
            let groups: Vec<[Vec<f64>; GROUP]> = (0..len)
                .step_by(GROUP)
                .map(|start| {
                    std::array::from_fn(|member| match start + member < len {
                        true => {
                            dense.row(rows.start + start + member).iter().map(|&q| f64::from(q)).collect()
                        }
                        false => vec![0.0; dense.width()],
                    })
                })
                .collect();
            let cached = (CACHED / dense.width().max(1) / GROUP).max(1);
            for (index, groups) in groups.chunks(cached).enumerate() {
                let start = index * cached * GROUP;
                add_groups(groups, outputs, hessian, |position, first, second| {
                    if start + position < len { weight(start + position, first, second) } else { 0.0 }
                });
            }
        }
        Rows::Sparse(sparse) => {
            let (width, size) = (sparse.width(), passes.size());
            for position in 0..len {
                let row = sparse.row(rows.start + position);
                for (first, second) in pairs(outputs) {
                    let weight = weight(position, first, second);
                    for (i, value) in row.iter() {
                        let factor = weight * f64::from(value);
                        let line = &mut hessian[(first * width + i) * size + second * width..][..width];
                        for (j, other) in row.iter().take_while(|&(j, _)| first > second || j <= i) {
                            line[j] += factor * f64::from(other);
                        }
                    }
                }
            }
        }
    }
}

/// Pairs of outputs in the lower triangle of blocks.
fn pairs(outputs: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..outputs).flat_map(|first| (0..=first).map(move |second| (first, second)))
}

/// hessian += sum over the groups' rows of weight * q q^T, block by block. A line stays in the first cache while all rows are added to it.
#[inline(always)]
fn add_groups(
    groups: &[[Vec<f64>; GROUP]],
    outputs: usize,
    hessian: &mut [f64],
    weight: impl Fn(usize, usize, usize) -> f64,
) {
    let width = groups.first().map_or(0, |[row, ..]| row.len());
    let size = width * outputs;
    let mut weights = vec![[0.0; GROUP]; groups.len()];
    for (first, second) in pairs(outputs) {
        for (index, weight_of_row) in weights.as_flattened_mut().iter_mut().enumerate() {
            *weight_of_row = weight(index, first, second);
        }
        for i in 0..width {
            let end = if first == second { i + 1 } else { width };
            let line = &mut hessian[(first * width + i) * size + second * width..][..end];
            for ([a, b, c, d], weights) in groups.iter().zip(&weights) {
                let f = [weights[0] * a[i], weights[1] * b[i], weights[2] * c[i], weights[3] * d[i]];
                for ((((h, a), b), c), d) in line.iter_mut().zip(a).zip(b).zip(c).zip(d) {
                    *h += (f[0] * a + f[1] * b) + (f[2] * c + f[3] * d);
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
