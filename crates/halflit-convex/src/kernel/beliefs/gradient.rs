//! Gradient queries of a linear model whose rows have sensitive values.
//!
//! A private row is x_i(y) = a_i + v(y): its public features a_i and the coordinates that value y fills, which no public feature
//! uses. Its gradient is c_i(y) x_i(y) with c_i(y) the derivative of the loss at the score <w, a_i> + <w, v(y)>. So a pass over n rows
//! and k values needs n * k scalars and one reading of the a_i, also when features are sensitive:
//!
//! ```text
//! sum_i c_i a_i  +  sum_y v(y) sum_(i: value y) c_i
//! ```

use super::super::KernelError;
use super::super::block::{BLOCK_ROWS, Block};
use super::super::clamp::MAX_COEFFICIENT;
use super::super::lanes::{Level, Run, Upcoming, Weighted};
use super::super::single::SINGLE_COEFFICIENT;
use super::super::weights::{LANES, LatticeWeights};
use super::coefficients::Sigmoids;
use super::columns::Span;
use super::diameter::{DISTANCE_SLACK, larger};
use super::labels::HiddenLabels;
use super::logits::Beliefs;
use super::pass::{ReduceBlock, Scratch, Steps, UpdateBlock};
use super::values::SensitiveValues;
use super::{BELIEF_SUM_LIMIT, BeliefQuery, BeliefSums, BeliefUpdate, Partial, check, over_rows, sealed};
use crate::loss::{Form, Loss};
use crate::rows::{DenseRows, FEATURE_BITS, Rows};
use rayon::prelude::*;
use std::ops::Range;

/// What one feature unit is worth.
const FEATURE_UNIT: f64 = 1.0 / (1u32 << FEATURE_BITS) as f64;

/// Blocks handed to a thread at a time. So many coefficients of 22 bits fit into 32.
const RUN_BLOCKS: usize = 64;

/// Coefficients keep to [`SINGLE_COEFFICIENT`] where half the range of labels is still this many steps: far finer than any noise.
const FINE_ENOUGH: f64 = 65_536.0;

/// Rows whose sensitive values are to be believed in: everything public about them.
#[derive(Debug, Clone, Copy)]
pub struct BeliefRows<'a> {
    pub(super) rows: &'a Rows,
    pub(super) labels: &'a [f64],
    pub(super) values: &'a SensitiveValues,
    max_squared_norm: u64,
    level: Level,
}

impl<'a> BeliefRows<'a> {
    /// `rows` holds the public features, zero where values fill in (or they are refused: diameters rest on it); `labels` the public
    /// labels, or nothing if the label is sensitive.
    pub fn new(rows: &'a Rows, labels: &'a [f64], values: &'a SensitiveValues) -> Result<Self, KernelError> {
        if values.labels.is_none() && labels.len() != rows.len() {
            return Err(KernelError::Length { name: "the labels", found: labels.len(), rows: rows.len() });
        }
        let mut filled: Vec<usize> =
            values.shifts.iter().flatten().map(|&(column, _)| column as usize).collect();
        filled.sort_unstable();
        filled.dedup();
        let widest = filled.last().map_or(0, |last| last + 1);
        if widest > rows.width() {
            return Err(KernelError::Length {
                name: "the values' columns",
                found: widest,
                rows: rows.width(),
            });
        }
        if !are_zero(rows, &filled) {
            return Err(KernelError::Filled);
        }
        let max_squared_norm = rows.max_squared_norm();
        Ok(BeliefRows { rows, labels, values, max_squared_norm, level: Level::best() })
    }

    /// The same passes with other instructions; the results are the same.
    pub fn at_level(mut self, level: Level) -> Self {
        self.level = level;
        self
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The values.
    pub fn values(&self) -> &'a SensitiveValues {
        self.values
    }

    /// The gradient of the summed loss at these weights, as a query.
    pub fn gradient(&self, loss: Loss, weights: &[f64]) -> Result<GradientQuery<'a>, KernelError> {
        let lattice = LatticeWeights::new(weights, loss.outputs())?;
        if lattice.width() != self.rows.width() {
            let (width, outputs) = (lattice.width(), lattice.outputs());
            return Err(KernelError::Shape {
                width,
                outputs,
                rows_width: self.rows.width(),
                rule_outputs: loss.outputs(),
            });
        }
        let norm =
            (self.max_squared_norm as f64 + self.values.max_squared_norm()).sqrt().next_up().ceil() + 1.0;
        let rounded = lattice.rounded();
        let longest = rounded.iter().map(|w| w * w).sum::<f64>().sqrt();
        let most_score = 1.001 * longest * norm * FEATURE_UNIT;
        let largest = loss.derivative_bound(most_score).max(1e-6);
        // n * limit * norm < 2^61
        let room = BELIEF_SUM_LIMIT as f64 / ((self.rows.len() as f64 + 1.0) * norm);
        let (single, finest) =
            (room.min(f64::from(SINGLE_COEFFICIENT)), room.min(f64::from(MAX_COEFFICIENT)));
        let is_fine = loss.midrange_radius(most_score) * single >= FINE_ENOUGH * largest;
        let limit = (if is_fine { single } else { finest }).floor().max(0.0) as u32;
        let scale = 0.99 * f64::from(limit) / largest;
        let scale = if scale.is_finite() && scale > 0.0 { scale } else { 1.0 };
        let shifts = self.along_values(&rounded, loss.outputs());
        let labels = self.values.labels();
        let only_label = loss.is_canonical() && loss.outputs() == 1 && !self.values.has_shifts;
        let hidden_labels = labels
            .filter(|_| only_label)
            .and_then(|labels| HiddenLabels::new(loss.form(), labels, scale, limit));
        let sigmoids = match loss.form() {
            Form::Logistic(_) => Sigmoids::new(&shifts, labels, scale, limit),
            _ => None,
        };
        Ok(GradientQuery {
            rows: *self,
            loss,
            weights: lattice,
            shifts,
            limit,
            scale,
            hidden_labels,
            sigmoids,
        })
    }

    /// <w_o, v(y)> for every output and value, in real units.
    fn along_values(&self, weights: &[f64], outputs: usize) -> Vec<f64> {
        let width = self.rows.width();
        let along = |output: usize, shift: &[(u32, i16)]| {
            shift
                .iter()
                .map(|&(column, q)| weights[output * width + column as usize] * f64::from(q))
                .sum::<f64>()
                * FEATURE_UNIT
        };
        (0..outputs)
            .flat_map(|output| self.values.shifts.iter().map(move |shift| along(output, shift)))
            .collect()
    }
}

/// Whether all rows are zero in these columns, which are in order.
fn are_zero(rows: &Rows, columns: &[usize]) -> bool {
    columns.is_empty()
        || (0..rows.len()).into_par_iter().all(|row| match rows {
            Rows::Dense(rows) => {
                let row = rows.row(row);
                columns.iter().all(|&column| row[column] == 0)
            }
            Rows::Sparse(rows) => {
                rows.row(row).iter().all(|(column, q)| q == 0 || columns.binary_search(&column).is_err())
            }
        })
}

/// The gradient of a loss at given weights, over rows with sensitive values.
#[derive(Debug, Clone)]
pub struct GradientQuery<'a> {
    pub(super) rows: BeliefRows<'a>,
    pub(super) loss: Loss,
    pub(super) weights: LatticeWeights,
    /// Per output and value: what the value adds to the score.
    pub(super) shifts: Vec<f64>,
    pub(super) limit: u32,
    pub(super) scale: f64,
    /// Two short ways, where they are open.
    pub(super) hidden_labels: Option<HiddenLabels>,
    pub(super) sigmoids: Option<Sigmoids>,
}

impl GradientQuery<'_> {
    fn columns(&self) -> usize {
        match self.rows.rows {
            Rows::Dense(rows) => rows.width().next_multiple_of(LANES),
            Rows::Sparse(rows) => rows.width(),
        }
    }

    /// Sets what to ask for during a block: the rows and public labels of the next one, which it returns.
    fn look_ahead(&self, span: Span, upcoming: &mut Upcoming) -> Span {
        let first = span.first + span.len;
        let next = Span { first, len: BLOCK_ROWS.min(self.rows.len() - first) };
        match self.rows.rows {
            Rows::Dense(rows) => {
                upcoming.set(rows.padded_values(), rows.width(), &Block::run(next.first, next.len));
            }
            Rows::Sparse(_) => upcoming.clear(),
        }
        if self.rows.values.labels.is_none() {
            upcoming.and(next.of(self.rows.labels));
        }
        next
    }

    /// Inner products of a block's public features with every output's weights, in units of [`LatticeWeights::score_unit`].
    fn scores(
        &self,
        weights: &LatticeWeights,
        span: Span,
        upcoming: &Upcoming,
        tail: &mut Vec<i16>,
        scores: &mut [[i64; BLOCK_ROWS]],
    ) {
        match self.rows.rows {
            Rows::Dense(rows) => {
                let run = run_of(rows, span, tail, upcoming);
                self.rows.level.dots(&run, weights, scores.as_flattened_mut());
            }
            Rows::Sparse(rows) => {
                for (output, scores) in scores.iter_mut().enumerate() {
                    let integers = weights.integers(output);
                    for (position, score) in scores.iter_mut().enumerate().take(span.len) {
                        let row = rows.row(span.first + position);
                        let products = row.iter().map(|(c, q)| i64::from(integers[c]) * i64::from(q));
                        *score = products.fold(0i64, i64::wrapping_add);
                    }
                }
            }
        }
    }

    /// sums += coefficients times public features over a block, believed and actual.
    fn add(&self, span: Span, scratch: &mut Scratch, [believed, actual]: [&mut [i64]; 2]) {
        let columns = self.columns();
        let (tail, upcoming) = (&mut scratch.tail, &scratch.upcoming);
        for (output, coefficients) in scratch.believed.iter().zip(&scratch.actual).enumerate() {
            let own = output * columns..(output + 1) * columns;
            let (believed, actual) = (&mut believed[own.clone()], &mut actual[own]);
            match self.rows.rows {
                Rows::Dense(rows) => {
                    let run = run_of(rows, span, tail, upcoming);
                    self.rows.level.accumulate(
                        &run,
                        &mut [
                            Weighted { coefficients: &coefficients.0.0, sums: believed },
                            Weighted { coefficients: &coefficients.1.0, sums: actual },
                        ],
                    );
                }
                Rows::Sparse(rows) => {
                    for position in 0..span.len {
                        for (column, q) in rows.row(span.first + position).iter() {
                            believed[column] += i64::from(coefficients.0.0[position]) * i64::from(q);
                            actual[column] += i64::from(coefficients.1.0[position]) * i64::from(q);
                        }
                    }
                }
            }
        }
    }

    /// From a pass's own order to `outputs * width` sums, the per-value sums spread over their coordinates.
    fn finish(&self, sums: &[i64]) -> Vec<i64> {
        let (outputs, columns, width, k) =
            (self.loss.outputs(), self.columns(), self.rows.rows.width(), self.rows.values.len());
        let mut finished = vec![0i64; outputs * width];
        for (output, finished) in finished.chunks_exact_mut(width.max(1)).enumerate() {
            let own = &sums[output * columns..][..columns];
            match self.rows.rows {
                Rows::Dense(_) => self.rows.level.unscramble(own, finished),
                Rows::Sparse(_) => finished.copy_from_slice(own),
            }
            for (value, shift) in self.rows.values.shifts.iter().enumerate() {
                let total = sums[outputs * columns + output * k + value];
                for &(column, q) in shift {
                    finished[column as usize] += total * i64::from(q);
                }
            }
        }
        finished
    }
}

/// A block of rows for the kernels; where the table ends within it, rows of zeros are added in `tail`.
#[inline(always)]
fn run_of<'r>(rows: &'r DenseRows, span: Span, tail: &'r mut Vec<i16>, upcoming: &'r Upcoming) -> Run<'r> {
    let (values, width) = (&rows.padded_values()[span.first * rows.width()..], rows.width());
    if span.len == BLOCK_ROWS {
        return Run::new(values, width, rows.largest(), upcoming);
    }
    tail.clear();
    tail.extend_from_slice(&values[..span.len * width]);
    tail.resize(BLOCK_ROWS * width + LANES, 0);
    Run::new(tail, width, rows.largest(), upcoming)
}

impl sealed::Sealed for GradientQuery<'_> {}

impl BeliefQuery for GradientQuery<'_> {
    fn dimension(&self) -> usize {
        self.loss.outputs() * self.rows.rows.width()
    }

    fn unit(&self) -> f64 {
        FEATURE_UNIT / self.scale
    }

    fn sums(&self, beliefs: &Beliefs, secret: &[u16]) -> Result<BeliefSums, KernelError> {
        let (rows, k, outputs) = (self.rows.len(), self.rows.values.len(), self.loss.outputs());
        check(beliefs, Some(secret), rows, k)?;
        let by_columns = outputs * self.columns();
        let memory = || Scratch::new(outputs, k);
        let work = |scratch: &mut Scratch, part: &mut Partial, rows: Range<usize>| {
            let (believed, believed_by_value) = part.believed.split_at_mut(by_columns);
            let (actual, actual_by_value) = part.actual.split_at_mut(by_columns);
            for first in rows.clone().step_by(BLOCK_ROWS) {
                let span = Span { first, len: BLOCK_ROWS.min(rows.end - first) };
                let next = self.look_ahead(span, &mut scratch.upcoming);
                let Scratch { upcoming, tail, integer_scores, .. } = scratch;
                if next.len > 0 {
                    upcoming.and(beliefs.block(next.first));
                }
                upcoming.and(next.of(secret));
                if self.hidden_labels.is_none() {
                    upcoming.and(next.of(self.rows.rows.squared_norms()));
                }
                self.scores(&self.weights, span, upcoming, tail, integer_scores);
                upcoming.ask(upcoming.share(1, 1));
                let (logits, secret) = (beliefs.block(first), span.of(secret));
                self.rows.level.work(ReduceBlock { query: self, span, logits, secret, scratch });
                scratch.upcoming.ask(scratch.upcoming.share(1, 1));
                self.add(span, scratch, [believed, actual]);
            }
            let sums = believed_by_value.iter_mut().zip(actual_by_value);
            for (lanes, (believed, actual)) in scratch.by_value.iter_mut().zip(sums) {
                lanes.empty_into(believed, actual);
            }
            let diameters = scratch.squared_diameters.0.iter();
            part.squared_diameter = diameters.fold(part.squared_diameter, |most, &own| larger(own, most));
        };
        let total = over_rows(rows, RUN_BLOCKS * BLOCK_ROWS, by_columns + outputs * k, memory, work);
        let squared_diameter = match &self.hidden_labels {
            Some(hidden) => {
                let (range, norm) = (hidden.coefficient_range(), self.rows.max_squared_norm as f64);
                range * range * norm * (1.0 + DISTANCE_SLACK)
            }
            None => total.squared_diameter,
        };
        Ok(BeliefSums {
            believed: self.finish(&total.believed),
            actual: self.finish(&total.actual),
            squared_diameter,
        })
    }

    fn update(&self, beliefs: &mut Beliefs, update: &BeliefUpdate) -> Result<(), KernelError> {
        let (rows, k, outputs) = (self.rows.len(), self.rows.values.len(), self.loss.outputs());
        check(beliefs, None, rows, k)?;
        let direction = LatticeWeights::new(&update.direction, outputs)?;
        if direction.width() != self.rows.rows.width() {
            let (width, rows_width) = (direction.width(), self.rows.rows.width());
            return Err(KernelError::Shape { width, outputs, rows_width, rule_outputs: outputs });
        }
        let along = self.rows.along_values(&direction.rounded(), outputs);
        let steps = Steps::new(update, direction.score_unit(), &along, self.scale);
        let level = self.rows.level;
        let memory = || Scratch::new(outputs, k);
        beliefs.change_blocks(level, RUN_BLOCKS, memory, |scratch, span, logits| {
            self.look_ahead(span, &mut scratch.upcoming);
            let Scratch { upcoming, tail, integer_products, integer_scores, .. } = scratch;
            self.scores(&direction, span, upcoming, tail, integer_products);
            self.scores(&self.weights, span, upcoming, tail, integer_scores);
            upcoming.ask(upcoming.share(2, 1));
            level.work(UpdateBlock { query: self, span, steps: &steps, scratch, logits });
        });
        Ok(())
    }
}
