use super::PerceptronError;
use super::example::{Deltas, Forward, dot, inner_products};
use super::model::{Perceptron, PerceptronShape, check_rows};
use crate::kernel::clamp::ceil_sqrt;
use crate::kernel::lanes::{Panel, Upcoming, Weighted};
use crate::kernel::pass::{check_overflow, in_parallel};
use crate::kernel::weights::LANES;
use crate::kernel::{BLOCK_ROWS, Batch, Block, Level};
use crate::rows::{MAX_FEATURE, Rows};
use std::ops::Range;

/// The row whose gradient is subtracted: the unit's own row with its sensitive cells imputed from public knowledge.
///
/// It keeps the row's own label, so the label must be public for the centre to be.
#[derive(Debug, Clone, Copy)]
pub enum Centre<'a> {
    /// Another table, row by row.
    Rows(&'a Rows),
    /// The row itself with these columns replaced.
    Filled {
        /// The sensitive columns, increasing.
        columns: &'a [u32],
        /// What stands in for each.
        values: &'a [i16],
    },
}

/// Exact sums of clipped gradients of a perceptron, each of norm at most a bound.
///
/// # Guarantee
///
/// [`PerceptronSums::sum`] returns the sum over the batch of contributions U_i with ||U_i|| <= bound (over both layers jointly), in exact
/// integers, where U_i is a function of row i, its label, its centre and the model alone.
#[derive(Debug, Clone)]
pub struct PerceptronSums<'a> {
    rows: &'a Rows,
    labels: &'a [f64],
    centre: Option<Centre<'a>>,
    shape: PerceptronShape,
    bound: u64,
    scale: f64,
    level: Level,
}

impl<'a> PerceptronSums<'a> {
    /// Contributions of norm at most `bound` lattice units, of which `scale` make one unit of gradient.
    ///
    /// Refused when `rows * bound` reaches 2^62.
    pub fn new(
        rows: &'a Rows,
        labels: &'a [f64],
        centre: Option<Centre<'a>>,
        shape: PerceptronShape,
        bound: u64,
        scale: f64,
    ) -> Result<Self, PerceptronError> {
        check_rows(shape, rows, labels)?;
        check_overflow(rows.len(), bound)?;
        if !(1e-9..=1e15).contains(&scale) {
            return Err(PerceptronError::Scale { value: scale });
        }
        let fits = match centre {
            None => true,
            Some(Centre::Rows(other)) => other.len() == rows.len() && other.width() == rows.width(),
            Some(Centre::Filled { columns, values }) => {
                columns.len() == values.len()
                    && columns.is_sorted_by(|a, b| a < b)
                    && columns.last().is_none_or(|&last| (last as usize) < rows.width())
                    && values.iter().all(|&value| value >= -MAX_FEATURE)
            }
        };
        if !fits {
            return Err(PerceptronError::Centre { columns: rows.width() });
        }
        Ok(PerceptronSums { rows, labels, centre, shape, bound, scale, level: Level::best() })
    }

    /// The same sums with other instructions; the results are the same integers.
    pub fn at_level(mut self, level: Level) -> Self {
        self.level = level;
        self
    }

    /// One pass: the sum over the batch, in the order of the model's weights.
    pub fn sum(&self, model: &Perceptron, batch: Batch<'_>) -> Result<Vec<i64>, PerceptronError> {
        self.check_model(model)?;
        let count = batch.check(self.rows.len())?;
        let sum_range = |start: usize, end: usize| {
            let mut worker = Worker::new(self, model);
            for from in (start..end).step_by(BLOCK_ROWS) {
                worker.deltas(batch, from..(from + BLOCK_ROWS).min(end));
                worker.clip();
                worker.add();
            }
            worker.finish()
        };
        let work = self.shape.weights();
        Ok(in_parallel(count, work, sum_range).unwrap_or_else(|| vec![0; work]))
    }

    /// Squared norms of the batch's contributions before clipping, in lattice units: for tests and public rehearsals. Not private.
    pub fn squared_norms(&self, model: &Perceptron, batch: Batch<'_>) -> Result<Vec<u128>, PerceptronError> {
        self.check_model(model)?;
        let count = batch.check(self.rows.len())?;
        let mut worker = Worker::new(self, model);
        let mut norms = Vec::with_capacity(count);
        for from in (0..count).step_by(BLOCK_ROWS) {
            worker.deltas(batch, from..(from + BLOCK_ROWS).min(count));
            norms.extend_from_slice(&worker.squared_norms()[..worker.own.forward.len]);
        }
        Ok(norms)
    }

    fn check_model(&self, model: &Perceptron) -> Result<(), PerceptronError> {
        if model.shape() == self.shape {
            return Ok(());
        }
        Err(PerceptronError::Weights { found: model.shape().weights(), expected: self.shape.weights() })
    }
}

/// A block of examples and its deltas.
struct Side {
    forward: Forward,
    deltas: Deltas,
}

/// One thread's memory: a block of rows, the block of their centres, and the sums.
struct Worker<'a> {
    sums: &'a PerceptronSums<'a>,
    model: &'a Perceptron,
    own: Side,
    centre: Option<Side>,
    /// Sums of the two layers, unit after unit, in the level's column order.
    first: Vec<i64>,
    second: Vec<i64>,
}

impl<'a> Worker<'a> {
    fn new(sums: &'a PerceptronSums<'a>, model: &'a Perceptron) -> Self {
        let shape = sums.shape;
        let side = || Side { forward: Forward::new(shape), deltas: Deltas::new(shape) };
        Worker {
            sums,
            model,
            own: side(),
            centre: sums.centre.map(|_| side()),
            first: vec![0; shape.hidden * shape.inputs.next_multiple_of(LANES)],
            second: vec![0; shape.classes * (shape.hidden + 1).next_multiple_of(LANES)],
        }
    }

    /// Forward and back for the batch's positions `range`.
    fn deltas(&mut self, batch: Batch<'_>, range: Range<usize>) {
        let PerceptronSums { rows, labels, centre, scale, level, .. } = *self.sums;
        let block = Block::of(batch, range.start, range.end);
        let mut buffer = [0.0; BLOCK_ROWS];
        let labels = block.values(labels, &mut buffer);
        let len = range.len();
        self.own.forward.load(rows, batch, range.clone());
        if let (Some(side), Some(centre)) = (&mut self.centre, centre) {
            match centre {
                Centre::Rows(other) => side.forward.load(other, batch, range),
                Centre::Filled { columns, values } => {
                    side.forward.load(rows, batch, range);
                    side.forward.fill(columns, values);
                }
            }
        }
        for side in [Some(&mut self.own), self.centre.as_mut()].into_iter().flatten() {
            side.forward.run(self.model, level);
            side.deltas.fill(self.model, &side.forward, labels, scale, level);
            side.deltas.truncate(len);
        }
    }

    /// ||U||^2 of every position, exactly: |s|^2 |q|^2 + |t|^2 |a|^2, with a centre also its own and twice the inner product.
    fn squared_norms(&self) -> [u128; BLOCK_ROWS] {
        let level = self.sums.level;
        let pair = |x: &Side, y: &Side| {
            let (hidden, output) = level.run(|| {
                (
                    inner_products(&x.deltas.hidden, &y.deltas.hidden),
                    inner_products(&x.deltas.output, &y.deltas.output),
                )
            });
            let mut products = [0i128; BLOCK_ROWS];
            for (position, product) in products.iter_mut().enumerate().take(x.forward.len) {
                let (rows, activations) = level.run(|| {
                    (
                        dot(x.forward.row(position), y.forward.row(position)),
                        dot(x.forward.activation(position), y.forward.activation(position)),
                    )
                });
                // |<s, s~>| < 2^75 and |<q, q~>| < 2^47 at the largest shape: 2^122
                *product = hidden[position] * rows + output[position] * activations;
            }
            products
        };
        let own = pair(&self.own, &self.own);
        let total = match &self.centre {
            None => own,
            Some(centre) => {
                let (cross, other) = (pair(&self.own, centre), pair(centre, centre));
                std::array::from_fn(|position| own[position] + other[position] - 2 * cross[position])
            }
        };
        // a squared norm is not negative
        total.map(|squared| squared.unsigned_abs())
    }

    /// Scales deltas down until every contribution's norm is at most the bound.
    fn clip(&mut self) {
        let bound = u128::from(self.sums.bound);
        let norms = self.squared_norms();
        let mut again = false;
        for (position, &squared) in norms.iter().enumerate().take(self.own.forward.len) {
            if squared <= bound * bound {
                continue;
            }
            // Truncating a delta moves its entries by less than 1, and the contribution by less than `slip`. One outer product
            // alone only shrinks; the difference of two may grow by that much.
            let slip = match &self.centre {
                None => 0,
                Some(centre) => slip(self.sums.shape, &self.own.forward, &centre.forward, position),
            };
            let factor = (bound.saturating_sub(slip) << 64) / u128::from(ceil_sqrt(squared));
            let factor = u64::try_from(factor).unwrap_or(u64::MAX);
            for side in [Some(&mut self.own), self.centre.as_mut()].into_iter().flatten() {
                side.deltas.shrink(position, factor);
            }
            again = true;
        }
        // Enforced, not assumed: whatever should still be too long contributes nothing.
        if again {
            for (position, &squared) in self.squared_norms().iter().enumerate() {
                if squared > bound * bound {
                    for side in [Some(&mut self.own), self.centre.as_mut()].into_iter().flatten() {
                        side.deltas.shrink(position, 0);
                    }
                }
            }
        }
    }

    /// sums += the block's contributions.
    fn add(&mut self) {
        let level = self.sums.level;
        let shape = self.sums.shape;
        if let Some(centre) = &mut self.centre {
            centre.deltas.negate();
        }
        for Side { forward, deltas } in [Some(&self.own), self.centre.as_ref()].into_iter().flatten() {
            accumulate(level, &forward.rows, shape.inputs, &deltas.hidden, &mut self.first);
            accumulate(level, &forward.activations, shape.hidden + 1, &deltas.output, &mut self.second);
        }
    }

    /// The sums in the order of the weights.
    fn finish(self) -> Vec<i64> {
        let PerceptronShape { inputs, hidden, .. } = self.sums.shape;
        let level = self.sums.level;
        let mut weights = vec![0; self.sums.shape.weights()];
        let (first, second) = weights.split_at_mut(hidden * inputs);
        for (layer, width, weights) in [(&self.first, inputs, first), (&self.second, hidden + 1, second)] {
            let padded = width.next_multiple_of(LANES);
            for (sums, weights) in layer.chunks_exact(padded).zip(weights.chunks_exact_mut(width)) {
                level.unscramble(sums, weights);
            }
        }
        weights
    }
}

/// sums_j += sum over the block of coefficient_j * vector.
fn accumulate(level: Level, values: &[i16], width: usize, coefficients: &[i32], sums: &mut [i64]) {
    let padded = width.next_multiple_of(LANES);
    let offsets: [usize; BLOCK_ROWS] = std::array::from_fn(|position| position * padded);
    let panel =
        Panel { values, offsets: &offsets, width, largest: MAX_FEATURE, upcoming: &Upcoming::nothing() };
    let mut each: Vec<Weighted<'_>> = coefficients
        .chunks_exact(BLOCK_ROWS)
        .zip(sums.chunks_exact_mut(padded))
        .map(|(coefficients, sums)| Weighted { coefficients, sums })
        .collect();
    level.accumulate(&panel, &mut each);
}

/// What truncating the deltas of a row and of its centre may add to the norm of the difference:
/// sqrt(hidden) (|q| + |q~|) + sqrt(classes) (|a| + |a~|), rounded up.
fn slip(shape: PerceptronShape, own: &Forward, centre: &Forward, position: usize) -> u128 {
    let length = |vector: &[i16]| u128::from(ceil_sqrt(dot(vector, vector).unsigned_abs()));
    let root = |count: usize| u128::from(ceil_sqrt(count as u128));
    root(shape.hidden) * (length(own.row(position)) + length(centre.row(position)))
        + root(shape.classes) * (length(own.activation(position)) + length(centre.activation(position)))
}
