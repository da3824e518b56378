//! Double-precision passes for the solvers: values, gradients, Hessians, the same bits on any number of threads.
//!
//! The rows are cut into a fixed number of chunks; a chunk adds up blocks of rows, the chunks are added in order. How many threads
//! ran them cannot be seen in the result, and the number of roundings on the way of one row's term is known
//! ([`roundings`]), which is what the certificates need.

use crate::kernel::Level;
use crate::loss::{Form, Kink, Loss, ScalarLoss, Softmax, with_scalar};
use crate::rows::{FEATURE_SCALE, Rows};
use rayon::prelude::*;
use std::ops::Range;

/// Rows whose terms are added one after the other before they join the chunk's sum.
const BLOCK: usize = 256;

/// Number of chunks, fixed so that results do not depend on the machine.
const CHUNKS: usize = 32;

/// What one lattice unit of a feature is worth.
pub(super) const FEATURE_UNIT: f64 = 1.0 / FEATURE_SCALE as f64;

/// Roundings that one row's term of a sum over `rows` rows passes through, at most.
pub(super) fn roundings(rows: usize) -> f64 {
    let blocks_per_chunk = rows.div_ceil(CHUNKS).div_ceil(BLOCK);
    (BLOCK + blocks_per_chunk + CHUNKS) as f64
}

/// How a kink is smoothed, where the loss has one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Smoothing {
    /// Not at all: the loss as it is.
    None,
    /// By a logarithmic barrier of this weight on the slope: smooth enough for Newton's method.
    Barrier(f64),
}

/// The sum over rows of share_i * loss(z_i, y_i), seen through passes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Passes<'a> {
    pub(super) rows: &'a Rows,
    pub(super) loss: Loss,
    /// One label per row; absent: the part A(z) of a canonical loss, without its label term.
    pub(super) labels: Option<&'a [f64]>,
    /// One weight per row; absent: 1 each.
    pub(super) weights: Option<&'a [f64]>,
    /// What weights are divided by.
    pub(super) total_weight: f64,
}

/// What a pass found.
pub(super) struct Evaluation {
    pub(super) value: f64,
    pub(super) gradient: Vec<f64>,
    /// Lower triangle, row-major, when asked for.
    pub(super) hessian: Option<Vec<f64>>,
}

/// Sums of one chunk.
struct Chunk {
    value: f64,
    gradient: Vec<f64>,
    hessian: Option<Vec<f64>>,
}

impl Passes<'_> {
    pub(super) fn outputs(&self) -> usize {
        self.loss.outputs()
    }

    /// Number of weights.
    pub(super) fn size(&self) -> usize {
        self.rows.width() * self.outputs()
    }

    /// The share of a row in the average.
    #[inline(always)]
    pub(super) fn share(&self, row: usize) -> f64 {
        self.weights.map_or(1.0, |weights| weights[row]) / self.total_weight
    }

    /// The label of a row; for softmax without labels, one that names no class.
    #[inline(always)]
    pub(super) fn label(&self, row: usize) -> f64 {
        match self.labels {
            Some(labels) => labels[row],
            None if self.outputs() > 1 => -1.0,
            None => 0.0,
        }
    }

    /// Runs `work` on every chunk, in parallel; the answers come in order.
    pub(super) fn chunks<T: Send>(&self, work: impl Fn(Range<usize>) -> T + Sync) -> Vec<T> {
        let size = self.rows.len().div_ceil(CHUNKS).max(1);
        let level = Level::best();
        (0..CHUNKS)
            .into_par_iter()
            .map(|chunk| (chunk * size).min(self.rows.len())..((chunk + 1) * size).min(self.rows.len()))
            .map(|range| level.run(|| work(range)))
            .collect()
    }

    /// Value, gradient and, on request, the Hessian of the average at `weights`.
    pub(super) fn evaluate(&self, weights: &[f64], smoothing: Smoothing, with_hessian: bool) -> Evaluation {
        let size = self.size();
        let chunks = self.chunks(|range| self.evaluate_chunk(weights, smoothing, with_hessian, range));
        let mut chunks = chunks.into_iter();
        let mut total = chunks.next().unwrap_or_else(|| Chunk {
            value: 0.0,
            gradient: vec![0.0; size],
            hessian: with_hessian.then(|| vec![0.0; size * size]),
        });
        for chunk in chunks {
            total.value += chunk.value;
            add(&mut total.gradient, &chunk.gradient);
            if let (Some(total), Some(chunk)) = (&mut total.hessian, &chunk.hessian) {
                add(total, chunk);
            }
        }
        total.gradient.iter_mut().for_each(|g| *g *= FEATURE_UNIT);
        if let Some(hessian) = &mut total.hessian {
            hessian.iter_mut().for_each(|h| *h *= FEATURE_UNIT * FEATURE_UNIT);
        }
        Evaluation { value: total.value, gradient: total.gradient, hessian: total.hessian }
    }

    #[inline(always)]
    fn evaluate_chunk(
        &self,
        weights: &[f64],
        smoothing: Smoothing,
        with_hessian: bool,
        range: Range<usize>,
    ) -> Chunk {
        let (size, outputs) = (self.size(), self.outputs());
        let mut chunk = Chunk {
            value: 0.0,
            gradient: vec![0.0; size],
            hessian: with_hessian.then(|| vec![0.0; size * size]),
        };
        let mut block_gradient = vec![0.0; size];
        let mut scores = vec![0.0; outputs * BLOCK];
        let mut slopes = vec![0.0; outputs * BLOCK];
        let mut curvatures = vec![0.0; outputs * BLOCK];
        for start in range.clone().step_by(BLOCK) {
            let rows = start..(start + BLOCK).min(range.end);
            let len = rows.len();
            self.scores(weights, rows.clone(), &mut scores);
            chunk.value += self.derivatives(smoothing, rows.clone(), &scores, &mut slopes, &mut curvatures);
            for (position, row) in rows.clone().enumerate() {
                let share = self.share(row);
                for output in 0..outputs {
                    slopes[output * len + position] *= share;
                }
            }
            block_gradient.fill(0.0);
            self.add_rows(rows.clone(), &slopes[..outputs * len], &mut block_gradient);
            add(&mut chunk.gradient, &block_gradient);
            if let Some(hessian) = &mut chunk.hessian {
                super::hessian::add_block(self, rows, &curvatures[..outputs * len], hessian);
            }
        }
        chunk
    }

    /// Scores of a block of rows, output-major.
    #[inline(always)]
    pub(super) fn scores(&self, weights: &[f64], rows: Range<usize>, scores: &mut [f64]) {
        let (width, len) = (self.rows.width(), rows.len());
        for output in 0..self.outputs() {
            let weights = &weights[output * width..][..width];
            for (row, score) in rows.clone().zip(&mut scores[output * len..][..len]) {
                let sum = match self.rows {
                    Rows::Dense(dense) => dot(dense.row(row), weights),
                    Rows::Sparse(sparse) => sparse
                        .row(row)
                        .iter()
                        .fold(0.0, |sum, (column, q)| sum + f64::from(q) * weights[column]),
                };
                *score = sum * FEATURE_UNIT;
            }
        }
    }

    /// gradient += sum over the block's rows of coefficient * q, output by output.
    #[inline(always)]
    pub(super) fn add_rows(&self, rows: Range<usize>, coefficients: &[f64], gradient: &mut [f64]) {
        let (width, len) = (self.rows.width(), rows.len());
        for (coefficients, gradient) in
            coefficients.chunks_exact(len).zip(gradient.chunks_exact_mut(width.max(1)))
        {
            match self.rows {
                Rows::Dense(dense) => {
                    for (position, &coefficient) in coefficients.iter().enumerate() {
                        for (g, &q) in gradient.iter_mut().zip(dense.row(rows.start + position)) {
                            *g += coefficient * f64::from(q);
                        }
                    }
                }
                Rows::Sparse(sparse) => {
                    for (position, &coefficient) in coefficients.iter().enumerate() {
                        for (column, q) in sparse.row(rows.start + position).iter() {
                            gradient[column] += coefficient * f64::from(q);
                        }
                    }
                }
            }
        }
    }

    /// Derivatives and curvatures (softmax: the probabilities) of a block; returns its share of the value.
    #[inline(always)]
    pub(super) fn derivatives(
        &self,
        smoothing: Smoothing,
        rows: Range<usize>,
        scores: &[f64],
        slopes: &mut [f64],
        curvatures: &mut [f64],
    ) -> f64 {
        with_scalar!(self.loss.form(), loss => {
            let mut value = 0.0;
            for (position, row) in rows.enumerate() {
                let (z, y) = (scores[position], self.label(row));
                let (loss_value, slope, curvature) = match (smoothing, loss.kink(y)) {
                    (Smoothing::Barrier(weight), Some(kink)) => smoothed(kink, weight, z),
                    _ => (loss.value(z, y), loss.derivative(z, y), loss.curvature(z, y)),
                };
                value += self.share(row) * loss_value;
                slopes[position] = slope;
                curvatures[position] = curvature;
            }
            value
        }, form => match form {
            Form::Softmax(loss) => self.softmax_derivatives(loss, rows, scores, slopes, curvatures),
            // the mean loss is solved in closed form and never passes here
            _ => 0.0,
        })
    }

    #[inline(always)]
    fn softmax_derivatives(
        &self,
        loss: Softmax,
        rows: Range<usize>,
        scores: &[f64],
        slopes: &mut [f64],
        probabilities: &mut [f64],
    ) -> f64 {
        let len = rows.len();
        let classes = loss.classes();
        loss.probabilities(&scores[..classes * len], len, &mut probabilities[..classes * len]);
        slopes[..classes * len].copy_from_slice(&probabilities[..classes * len]);
        let mut value = 0.0;
        for (position, row) in rows.enumerate() {
            let most =
                (0..classes).fold(f64::NEG_INFINITY, |most, class| most.max(scores[class * len + position]));
            let sum: f64 =
                (0..classes).map(|class| crate::math::exp(scores[class * len + position] - most)).sum();
            let label = self.label(row);
            let own = if label >= 0.0 { scores[label as usize * len + position] } else { 0.0 };
            if label >= 0.0 {
                slopes[label as usize * len + position] -= 1.0;
            }
            value += self.share(row) * (sum.ln() + (most - own));
        }
        value
    }
}

/// A kink smoothed by a logarithmic barrier of weight t on its slope a in (low, high):
/// max_a (a r + t log(1 - s)(1 + s)) with a = m + h s, m the middle and h half the width of the slopes, r = z - at.
///
/// The maximum is at s = p / (1 + sqrt(1 + p^2)) with p = h r / t.
#[inline(always)]
pub(super) fn smoothed(kink: Kink, weight: f64, z: f64) -> (f64, f64, f64) {
    let middle = 0.5 * (kink.low_slope + kink.high_slope);
    let half = 0.5 * (kink.high_slope - kink.low_slope);
    let r = z - kink.at;
    let p = half * r / weight;
    let root = (1.0 + p * p).sqrt();
    let s = p / (1.0 + root);
    // 1 - s^2 = 2 / (1 + root)
    let value = (middle + half * s) * r + weight * (2.0 / (1.0 + root)).ln();
    // rounding must not carry the slope beyond its range
    let slope = (middle + half * s).clamp(kink.low_slope, kink.high_slope);
    (value, slope, half * half / (weight * (root * (1.0 + root))))
}

/// <q, w> in eight fixed running sums.
#[inline(always)]
pub(super) fn dot(q: &[i16], weights: &[f64]) -> f64 {
    let mut sums = [0.0; 8];
    let (q_chunks, q_rest) = q.as_chunks::<8>();
    let (w_chunks, w_rest) = weights.as_chunks::<8>();
    for (q, w) in q_chunks.iter().zip(w_chunks) {
        for lane in 0..8 {
            sums[lane] += f64::from(q[lane]) * w[lane];
        }
    }
    for (lane, (&q, &w)) in q_rest.iter().zip(w_rest).enumerate() {
        sums[lane] += f64::from(q) * w;
    }
    ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7]))
}

/// total += part.
#[inline(always)]
pub(super) fn add(total: &mut [f64], part: &[f64]) {
    for (total, &part) in total.iter_mut().zip(part) {
        *total += part;
    }
}
