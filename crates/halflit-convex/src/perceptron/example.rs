//! A block of examples on its way forward and back. Everything is computed row by row: vectors run over rows, never across them.

use super::model::{Perceptron, PerceptronShape};
use super::{ACTIVATION_BITS, MAX_ACTIVATION};
use crate::kernel::lanes::{Panel, Upcoming};
use crate::kernel::weights::LANES;
use crate::kernel::{BLOCK_ROWS, Batch, Block, Level, MAX_COEFFICIENT, clamp_coefficient};
use crate::loss::{Loss, LossSpec, Softmax};
use crate::math::ROUNDING_MAGIC;
use crate::rows::{FEATURE_BITS, MAX_FEATURE, Rows};
use std::ops::Range;

/// Squares of coefficients (below 2^58) that a 64-bit sum holds.
const SQUARES: usize = 32;

/// One block of rows, its activations and its probabilities. Buffers have room for a whole block; positions beyond `len` are
/// computed like the others and never used.
pub(super) struct Forward {
    pub(super) len: usize,
    stride: usize,
    activation_stride: usize,
    /// Row-major, padded with zeros to whole vectors.
    pub(super) rows: Vec<i16>,
    /// Row-major, hidden activations, then a one, then zeros.
    pub(super) activations: Vec<i16>,
    /// Whether a hidden unit lets its delta through: 1 or 0, unit-major.
    active: Vec<f64>,
    integers: Vec<i64>,
    scores: Vec<f64>,
    /// Class-major.
    pub(super) probabilities: Vec<f64>,
    softmax: Softmax,
    hidden: usize,
}

impl Forward {
    pub(super) fn new(shape: PerceptronShape) -> Self {
        let PerceptronShape { inputs, hidden, classes } = shape;
        let (stride, activation_stride) =
            (inputs.next_multiple_of(LANES), (hidden + 1).next_multiple_of(LANES));
        let mut activations = vec![0; BLOCK_ROWS * activation_stride];
        activations.chunks_exact_mut(activation_stride).for_each(|row| row[hidden] = 1 << ACTIVATION_BITS);
        let softmax = match Loss::new(LossSpec::Softmax { classes }).map(|loss| loss.form()) {
            Ok(crate::loss::Form::Softmax(softmax)) => softmax,
            _ => unreachable!("the shape was checked"),
        };
        Forward {
            len: 0,
            stride,
            activation_stride,
            rows: vec![0; BLOCK_ROWS * stride],
            activations,
            active: vec![0.0; BLOCK_ROWS * hidden],
            integers: vec![0; BLOCK_ROWS * hidden.max(classes)],
            scores: vec![0.0; BLOCK_ROWS * classes],
            probabilities: vec![0.0; BLOCK_ROWS * classes],
            softmax,
            hidden,
        }
    }

    /// Copies the rows at the batch's positions `range`.
    pub(super) fn load(&mut self, rows: &Rows, batch: Batch<'_>, range: Range<usize>) {
        self.len = range.len();
        let block = Block::of(batch, range.start, range.end);
        for position in 0..self.len {
            let slot = &mut self.rows[position * self.stride..][..self.stride];
            match rows {
                Rows::Dense(dense) => slot[..dense.width()].copy_from_slice(dense.row(block.row(position))),
                Rows::Sparse(sparse) => {
                    slot.fill(0);
                    for (column, value) in sparse.row(block.row(position)).iter() {
                        slot[column] = value;
                    }
                }
            }
        }
    }

    /// Overwrites columns of every row.
    pub(super) fn fill(&mut self, columns: &[u32], values: &[i16]) {
        for row in self.rows.chunks_exact_mut(self.stride).take(self.len) {
            for (&column, &value) in columns.iter().zip(values) {
                row[column as usize] = value;
            }
        }
    }

    /// Activations and probabilities.
    pub(super) fn run(&mut self, model: &Perceptron, level: Level) {
        let shape = model.shape();
        let offsets: [usize; BLOCK_ROWS] = std::array::from_fn(|position| position * self.stride);
        let panel = Panel {
            values: &self.rows,
            offsets: &offsets,
            width: shape.inputs,
            largest: MAX_FEATURE,
            upcoming: &Upcoming::nothing(),
        };
        let unit = model.hidden_unit() * f64::from(1u32 << ACTIVATION_BITS);
        let integers = &mut self.integers[..shape.hidden * BLOCK_ROWS];
        level.dots(&panel, &model.first, integers);
        let (active, integers) =
            (self.active.chunks_exact_mut(BLOCK_ROWS), integers.chunks_exact(BLOCK_ROWS));
        for (j, (integers, active)) in integers.zip(active).enumerate() {
            let mut rounded = [0i16; BLOCK_ROWS];
            level.run(|| activate(integers, unit, active, &mut rounded));
            for (row, &value) in self.activations.chunks_exact_mut(self.activation_stride).zip(&rounded) {
                row[j] = value;
            }
        }
        let offsets: [usize; BLOCK_ROWS] = std::array::from_fn(|position| position * self.activation_stride);
        let panel = Panel {
            values: &self.activations,
            offsets: &offsets,
            width: shape.hidden + 1,
            largest: MAX_FEATURE,
            upcoming: &Upcoming::nothing(),
        };
        let unit = model.class_unit();
        let integers = &mut self.integers[..shape.classes * BLOCK_ROWS];
        level.dots(&panel, &model.second, integers);
        for (score, &integer) in self.scores.iter_mut().zip(&*integers) {
            *score = integer as f64 * unit;
        }
        let (softmax, scores, probabilities) = (self.softmax, &self.scores, &mut self.probabilities);
        level.run(|| softmax.probabilities(scores, BLOCK_ROWS, probabilities));
    }

    pub(super) fn row(&self, position: usize) -> &[i16] {
        &self.rows[position * self.stride..][..self.stride]
    }

    pub(super) fn activation(&self, position: usize) -> &[i16] {
        &self.activations[position * self.activation_stride..][..self.activation_stride]
    }
}

/// ReLU, cut off at the largest activation and rounded to the lattice; `active` is its derivative.
#[inline(always)]
fn activate(integers: &[i64], unit: f64, active: &mut [f64], rounded: &mut [i16; BLOCK_ROWS]) {
    let most = f64::from(MAX_ACTIVATION);
    for ((&integer, active), rounded) in integers.iter().zip(active).zip(rounded) {
        let value = integer as f64 * unit;
        *active = if value > 0.0 && value < most { 1.0 } else { 0.0 };
        let value = if value < most { value } else { most };
        let value = if value > 0.0 { value } else { 0.0 };
        *rounded = (value + ROUNDING_MAGIC).to_bits() as i16;
    }
}

/// Integer deltas of a block, unit-major and class-major, with the squares of their norms.
pub(super) struct Deltas {
    pub(super) hidden: Vec<i32>,
    pub(super) output: Vec<i32>,
    residuals: Vec<f64>,
}

impl Deltas {
    pub(super) fn new(shape: PerceptronShape) -> Self {
        Deltas {
            hidden: vec![0; BLOCK_ROWS * shape.hidden],
            output: vec![0; BLOCK_ROWS * shape.classes],
            residuals: vec![0.0; BLOCK_ROWS * shape.classes],
        }
    }

    /// Deltas of the block for its labels, in units of 1 / `scale` of the gradient; not yet clipped.
    pub(super) fn fill(
        &mut self,
        model: &Perceptron,
        forward: &Forward,
        labels: &[f64],
        scale: f64,
        level: Level,
    ) {
        self.residuals.copy_from_slice(&forward.probabilities);
        for (position, &label) in labels.iter().enumerate() {
            self.residuals[label as usize * BLOCK_ROWS + position] -= 1.0;
        }
        // a feature unit is 2^-14 and an activation unit 2^-11: the deltas' units make up for the difference
        let output_scale = scale / f64::from(1u32 << ACTIVATION_BITS);
        let hidden_scale = scale / f64::from(1u32 << FEATURE_BITS);
        let (residuals, hidden, output) = (&self.residuals, &mut self.hidden, &mut self.output);
        level.run(|| {
            for (coefficient, &residual) in output.iter_mut().zip(residuals) {
                *coefficient = clamp_coefficient(output_scale * residual, MAX_COEFFICIENT);
            }
        });
        for (j, hidden) in hidden.chunks_exact_mut(BLOCK_ROWS).enumerate() {
            let active = &forward.active[j * BLOCK_ROWS..][..BLOCK_ROWS];
            level.run(|| back(model, j, forward.hidden, residuals, active, hidden_scale, hidden));
        }
    }

    /// Scales the deltas of one position by `factor` / 2^64 toward zero.
    pub(super) fn shrink(&mut self, position: usize, factor: u64) {
        for buffer in [&mut self.hidden, &mut self.output] {
            for value in buffer.iter_mut().skip(position).step_by(BLOCK_ROWS) {
                let scaled = ((u128::from(value.unsigned_abs()) * u128::from(factor)) >> 64) as i32;
                *value = if *value < 0 { -scaled } else { scaled };
            }
        }
    }

    /// Forgets everything from position `len` on.
    pub(super) fn truncate(&mut self, len: usize) {
        for buffer in [&mut self.hidden, &mut self.output] {
            buffer.chunks_exact_mut(BLOCK_ROWS).for_each(|values| values[len..].fill(0));
        }
    }

    /// Turns the signs.
    pub(super) fn negate(&mut self) {
        self.hidden.iter_mut().chain(&mut self.output).for_each(|value| *value = -*value);
    }
}

/// Hidden unit j's delta of every row: sum_k residual_k W_kj where the unit is active, the classes in order.
#[inline(always)]
fn back(
    model: &Perceptron,
    j: usize,
    hidden: usize,
    residuals: &[f64],
    active: &[f64],
    scale: f64,
    coefficients: &mut [i32],
) {
    let mut sums = [0.0; BLOCK_ROWS];
    for (class, residuals) in residuals.chunks_exact(BLOCK_ROWS).enumerate() {
        let weight = model.back[class * hidden + j];
        for (sum, &residual) in sums.iter_mut().zip(residuals) {
            *sum += weight * residual;
        }
    }
    for ((coefficient, &sum), &active) in coefficients.iter_mut().zip(&sums).zip(active) {
        *coefficient = clamp_coefficient(scale * (active * sum), MAX_COEFFICIENT);
    }
}

/// Inner products of two blocks of coefficients, position by position, in exact integers.
#[inline(always)]
pub(super) fn inner_products(a: &[i32], b: &[i32]) -> [i128; BLOCK_ROWS] {
    let mut totals = [0i128; BLOCK_ROWS];
    for (a, b) in a.chunks(SQUARES * BLOCK_ROWS).zip(b.chunks(SQUARES * BLOCK_ROWS)) {
        // 32 products below 2^58 each
        let mut sums = [0i64; BLOCK_ROWS];
        for (a, b) in a.chunks_exact(BLOCK_ROWS).zip(b.chunks_exact(BLOCK_ROWS)) {
            for ((sum, &a), &b) in sums.iter_mut().zip(a).zip(b) {
                *sum = sum.wrapping_add(i64::from(a).wrapping_mul(i64::from(b)));
            }
        }
        totals.iter_mut().zip(&sums).for_each(|(total, &sum)| *total += i128::from(sum));
    }
    totals
}

/// <a, b> of two lattice vectors: below 2^30 per entry.
#[inline(always)]
pub(super) fn dot(a: &[i16], b: &[i16]) -> i128 {
    i128::from(a.iter().zip(b).fold(0i64, |sum, (&a, &b)| sum.wrapping_add(i64::from(a) * i64::from(b))))
}
