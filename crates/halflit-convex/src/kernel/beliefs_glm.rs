//! Gradient queries of a linear model whose rows have sensitive values.
//!
//! A private row is x_i(y) = a_i + v(y): its public features a_i and the coordinates that value y fills, which no public feature
//! uses. Its gradient is c_i(y) x_i(y) with c_i(y) the derivative of the loss at the score <w, a_i> + <w, v(y)>. So a pass over n rows
//! and k values needs n * k scalars and one reading of the a_i, also when features are sensitive:
//!
//! ```text
//! sum_i c_i a_i  +  sum_y v(y) sum_(i: value y) c_i
//! ```

use super::KernelError;
use super::beliefs::{
    BELIEF_SUM_LIMIT, BeliefQuery, BeliefSums, BeliefUpdate, Beliefs, MAX_VALUES, Partial, check, over_rows,
    sealed, shares_of,
};
use super::block::{BLOCK_ROWS, Block, Starts};
use super::clamp::{MAX_COEFFICIENT, clamp_coefficient};
use super::lanes::{Level, Panel};
use super::weights::{LANES, LatticeWeights};
use crate::loss::{Loss, ScalarLoss, with_scalar};
use crate::rows::{FEATURE_BITS, Rows};

/// What one feature unit is worth.
const FEATURE_UNIT: f64 = 1.0 / (1u32 << FEATURE_BITS) as f64;

/// Rows handed to a thread at a time.
const RUN_ROWS: usize = 64 * BLOCK_ROWS;

/// Relative error of a squared distance computed in doubles, at most: a dozen roundings of 2^-53 each.
const DISTANCE_SLACK: f64 = 1.0 / (1u64 << 45) as f64;

/// Up to this many values all pairs are looked at; beyond, a bound that is nearly attained costs k instead of k^2.
const MOST_EXACT_VALUES: usize = 6;

/// The sensitive values that a row may have: the coordinates each fills, and the label it stands for.
#[derive(Debug, Clone, PartialEq)]
pub struct SensitiveValues {
    shifts: Vec<Vec<(u32, i16)>>,
    labels: Option<Vec<f64>>,
    /// k x k inner products of the shifts: exact integers.
    products: Vec<f64>,
    has_shifts: bool,
    /// The largest squared norm of a shift.
    longest: f64,
    /// The largest inner product of two different shifts; negative if one of them is.
    overlap: f64,
}

impl SensitiveValues {
    /// One entry per value: the (column, value) pairs it fills, columns increasing; and its label, if the label is sensitive.
    pub fn new(shifts: Vec<Vec<(u32, i16)>>, labels: Option<Vec<f64>>) -> Result<Self, KernelError> {
        let count = shifts.len();
        if count == 0 || count > MAX_VALUES {
            return Err(KernelError::Length { name: "the sensitive values", found: count, rows: MAX_VALUES });
        }
        if let Some(found) = labels.as_ref().map(Vec::len).filter(|&found| found != count) {
            return Err(KernelError::Length { name: "the labels of the values", found, rows: count });
        }
        let product = |one: &[(u32, i16)], other: &[(u32, i16)]| -> f64 {
            let matching = |&(column, value): &(u32, i16)| {
                other
                    .iter()
                    .filter(move |(c, _)| *c == column)
                    .map(move |&(_, v)| i64::from(v) * i64::from(value))
            };
            one.iter().flat_map(matching).sum::<i64>() as f64
        };
        let mut products = Vec::with_capacity(count * count);
        for one in &shifts {
            products.extend(shifts.iter().map(|other| product(one, other)));
        }
        let has_shifts = shifts.iter().any(|shift| !shift.is_empty());
        let (mut longest, mut overlap, mut least) = (0.0f64, 0.0f64, 0.0f64);
        for (at, &product) in products.iter().enumerate() {
            if at / count == at % count {
                longest = longest.max(product);
            } else {
                overlap = overlap.max(product);
                least = least.min(product);
            }
        }
        let overlap = if least < 0.0 { least } else { overlap };
        Ok(SensitiveValues { shifts, labels, products, has_shifts, longest, overlap })
    }

    /// k.
    pub fn len(&self) -> usize {
        self.shifts.len()
    }

    /// Whether there is no value; never so.
    pub fn is_empty(&self) -> bool {
        self.shifts.is_empty()
    }

    /// The coordinates that a value fills.
    pub fn shift(&self, value: usize) -> &[(u32, i16)] {
        &self.shifts[value]
    }

    /// The labels of the values, if the label is sensitive.
    pub fn labels(&self) -> Option<&[f64]> {
        self.labels.as_deref()
    }

    /// The largest squared norm of a value's coordinates, in units of 2^-28.
    pub fn max_squared_norm(&self) -> f64 {
        self.longest
    }
}

/// Rows whose sensitive values are to be believed in: everything public about them.
#[derive(Debug, Clone, Copy)]
pub struct BeliefRows<'a> {
    rows: &'a Rows,
    labels: &'a [f64],
    values: &'a SensitiveValues,
    level: Level,
}

impl<'a> BeliefRows<'a> {
    /// `rows` holds the public features, zero in sensitive coordinates; `labels` the public labels, or nothing if the label is
    /// sensitive.
    pub fn new(rows: &'a Rows, labels: &'a [f64], values: &'a SensitiveValues) -> Result<Self, KernelError> {
        if values.labels.is_none() && labels.len() != rows.len() {
            return Err(KernelError::Length { name: "the labels", found: labels.len(), rows: rows.len() });
        }
        let widest =
            values.shifts.iter().flatten().map(|&(column, _)| column as usize + 1).max().unwrap_or(0);
        if widest > rows.width() {
            return Err(KernelError::Length {
                name: "the values' columns",
                found: widest,
                rows: rows.width(),
            });
        }
        Ok(BeliefRows { rows, labels, values, level: Level::best() })
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
            (self.rows.max_squared_norm() as f64 + self.values.max_squared_norm()).sqrt().next_up().ceil()
                + 1.0;
        let rounded = lattice.rounded();
        let longest = rounded.iter().map(|w| w * w).sum::<f64>().sqrt();
        let largest = loss.derivative_bound(1.001 * longest * norm * FEATURE_UNIT).max(1e-6);
        // n * limit * norm < 2^61
        let limit = (BELIEF_SUM_LIMIT as f64 / ((self.rows.len() as f64 + 1.0) * norm))
            .min(f64::from(MAX_COEFFICIENT));
        let limit = limit.floor().max(0.0) as u32;
        let scale = 0.99 * f64::from(limit) / largest;
        let scale = if scale.is_finite() && scale > 0.0 { scale } else { 1.0 };
        let shifts = self.along_values(&rounded, loss.outputs());
        Ok(GradientQuery { rows: *self, loss, weights: lattice, shifts, limit, scale })
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

/// The gradient of a loss at given weights, over rows with sensitive values.
#[derive(Debug, Clone)]
pub struct GradientQuery<'a> {
    rows: BeliefRows<'a>,
    loss: Loss,
    weights: LatticeWeights,
    /// Per output and value: what the value adds to the score.
    shifts: Vec<f64>,
    limit: u32,
    scale: f64,
}

/// A thread's working memory: one block.
struct Scratch {
    starts: Starts,
    ahead: Starts,
    integer_scores: Vec<i64>,
    scores: Vec<f64>,
    spread_scores: Vec<f64>,
    spread_labels: Vec<f64>,
    /// c: output-major, then row, then value.
    derivatives: Vec<f64>,
    integers: Vec<i32>,
    shares: Vec<f32>,
    believed: Vec<i32>,
    actual: Vec<i32>,
}

impl Scratch {
    fn new(outputs: usize, values: usize) -> Self {
        let (rows, spread) = (outputs * BLOCK_ROWS, outputs * BLOCK_ROWS * values);
        Scratch {
            starts: Starts::NONE.clone(),
            ahead: Starts::NONE.clone(),
            integer_scores: vec![0; rows],
            scores: vec![0.0; rows],
            spread_scores: vec![0.0; BLOCK_ROWS * values],
            spread_labels: vec![0.0; BLOCK_ROWS * values],
            derivatives: vec![0.0; spread],
            integers: vec![0; spread],
            shares: vec![0.0; BLOCK_ROWS * values],
            believed: vec![0; rows],
            actual: vec![0; rows],
        }
    }
}

impl GradientQuery<'_> {
    fn columns(&self) -> usize {
        match self.rows.rows {
            Rows::Dense(rows) => rows.width().next_multiple_of(LANES),
            Rows::Sparse(rows) => rows.width(),
        }
    }

    /// Inner products of a block's public features with every output's weights, output-major, in real units.
    fn scores(&self, weights: &LatticeWeights, first: usize, len: usize, scratch: &mut Scratch) {
        let outputs = weights.outputs();
        let unit = weights.score_unit();
        match self.rows.rows {
            Rows::Dense(rows) => {
                let (values, width) = (rows.padded_values(), rows.width());
                for output in 0..outputs {
                    let ahead = if output == 0 { &scratch.ahead[..] } else { &[] };
                    let panel = Panel { values, offsets: &scratch.starts, ahead, width };
                    self.rows.level.dots(
                        &panel,
                        weights,
                        output,
                        &mut scratch.integer_scores[output * len..][..len],
                    );
                }
            }
            Rows::Sparse(rows) => {
                for output in 0..outputs {
                    let integers = weights.integers(output);
                    for position in 0..len {
                        let row = rows.row(first + position);
                        let products = row.iter().map(|(c, q)| i64::from(integers[c]) * i64::from(q));
                        scratch.integer_scores[output * len + position] =
                            products.fold(0i64, i64::wrapping_add);
                    }
                }
            }
        }
        for (score, &integer) in scratch.scores[..outputs * len].iter_mut().zip(&scratch.integer_scores) {
            *score = integer as f64 * unit;
        }
    }

    /// c for every output, row and value of the block, from `scratch.scores`.
    #[inline(always)]
    fn derivatives(&self, first: usize, len: usize, scratch: &mut Scratch) {
        let k = self.rows.values.len();
        let row_labels =
            if self.rows.values.labels.is_none() { &self.rows.labels[first..first + len] } else { &[] };
        let value_labels = self.rows.values.labels.as_deref();
        let Scratch { scores, spread_scores, spread_labels, derivatives, .. } = scratch;
        with_scalar!(self.loss.form(), loss => {
            match value_labels {
                // A(z) - y z: the derivatives differ by the labels alone
                Some(labels) if loss.is_canonical() && !self.rows.values.has_shifts => {
                    for (derivatives, &z) in derivatives.chunks_exact_mut(k).zip(&scores[..len]) {
                        let base = loss.derivative(z, labels[0]) + labels[0];
                        for (derivative, &label) in derivatives.iter_mut().zip(labels) {
                            *derivative = base - label;
                        }
                    }
                }
                _ => {
                    for row in 0..len {
                        let z = scores[row];
                        for (spread, &shift) in spread_scores[row * k..][..k].iter_mut().zip(&self.shifts) {
                            *spread = z + shift;
                        }
                        match value_labels {
                            Some(labels) => spread_labels[row * k..][..k].copy_from_slice(labels),
                            None => spread_labels[row * k..][..k].fill(row_labels[row]),
                        }
                    }
                    let spread = spread_scores[..len * k].iter().zip(&spread_labels[..len * k]);
                    for (derivative, (&z, &y)) in derivatives.iter_mut().zip(spread) {
                        *derivative = loss.derivative(z, y);
                    }
                }
            }
        }, _ => self.vector_derivatives(row_labels, len, scratch));
    }

    fn vector_derivatives(&self, row_labels: &[f64], len: usize, scratch: &mut Scratch) {
        let (k, outputs) = (self.rows.values.len(), self.loss.outputs());
        let (mut z, mut own) = (vec![0.0; outputs], vec![0.0; outputs]);
        let label_of = |row: usize, value: usize| match &self.rows.values.labels {
            Some(labels) => labels[value],
            None => row_labels[row],
        };
        for row in 0..len {
            for value in 0..k {
                for (output, z) in z.iter_mut().enumerate() {
                    *z = scratch.scores[output * len + row] + self.shifts[output * k + value];
                }
                self.loss.derivative(&z, label_of(row, value), &mut own);
                for (output, &own) in own.iter().enumerate() {
                    scratch.derivatives[(output * len + row) * k + value] = own;
                }
            }
        }
    }

    /// Integer coefficients, their believed mean, the actual ones, the distances; per-value sums go behind the columns.
    #[inline(always)]
    fn reduce(
        &self,
        first: usize,
        len: usize,
        logits: &[f32],
        secret: &[u16],
        scratch: &mut Scratch,
        part: &mut Partial,
    ) {
        let (k, outputs) = (self.rows.values.len(), self.loss.outputs());
        let values_at = outputs * self.columns();
        let Scratch { derivatives, integers, shares, believed, actual, .. } = scratch;
        for (integer, &derivative) in integers.iter_mut().zip(&derivatives[..outputs * len * k]) {
            *integer = clamp_coefficient(derivative * self.scale, self.limit);
        }
        shares_of(logits, &mut shares[..len * k]);
        let norms = &self.rows.rows.squared_norms()[first..first + len];
        for row in 0..len {
            let shares = &shares[row * k..][..k];
            let total: f32 = shares.iter().sum();
            let inverse = 1.0 / f64::from(total);
            let chosen = usize::from(secret[row]).min(k - 1);
            for output in 0..outputs {
                let own = &integers[(output * len + row) * k..][..k];
                let mean: f64 =
                    own.iter().zip(shares).map(|(&s, &share)| f64::from(s) * f64::from(share)).sum();
                believed[output * len + row] = clamp_coefficient(mean * inverse, self.limit);
                actual[output * len + row] = own[chosen];
                if self.rows.values.has_shifts {
                    let sums = &mut part.believed[values_at + output * k..][..k];
                    for ((sum, &s), &share) in sums.iter_mut().zip(own).zip(shares) {
                        *sum += i64::from(clamp_coefficient(
                            f64::from(s) * f64::from(share) * inverse,
                            self.limit,
                        ));
                    }
                    part.actual[values_at + output * k + chosen] += i64::from(own[chosen]);
                }
            }
            let of = |output: usize| &integers[(output * len + row) * k..][..k];
            part.squared_diameter =
                part.squared_diameter.max(self.squared_diameter(norms[row] as f64, outputs, of));
        }
    }

    /// An upper bound of the squared diameter of one row's vectors; `public` is the squared norm of its public features.
    #[inline(always)]
    fn squared_diameter<'s>(&self, public: f64, outputs: usize, of: impl Fn(usize) -> &'s [i32]) -> f64 {
        let values = self.rows.values;
        let k = values.len();
        if outputs == 1 && !values.has_shifts {
            let (low, high) =
                of(0).iter().fold((i32::MAX, i32::MIN), |(low, high), &s| (low.min(s), high.max(s)));
            let range = f64::from(high) - f64::from(low);
            return range * range * public * (1.0 + DISTANCE_SLACK);
        }
        if outputs == 1 && k > MOST_EXACT_VALUES && values.overlap >= 0.0 {
            return self.squared_diameter_bound(public, of(0));
        }
        let mut diameter = 0.0f64;
        for y in 0..k {
            for other in 0..y {
                let (mut square, mut magnitude) = (0.0, 0.0);
                for output in 0..outputs {
                    let (s, t) = (f64::from(of(output)[y]), f64::from(of(output)[other]));
                    let apart = (s - t) * (s - t) * public;
                    let own = s * s * values.products[y * k + y] + t * t * values.products[other * k + other];
                    let cross = 2.0 * s * t * values.products[y * k + other];
                    square += apart + own - cross;
                    magnitude += apart + own + cross.abs();
                }
                diameter = diameter.max(square.max(0.0) + DISTANCE_SLACK * magnitude);
            }
        }
        diameter
    }

    /// The same without looking at pairs. For coefficients s, t between the lowest and the highest,
    /// (s-t)^2 A + s^2 V + t^2 V is convex, so its largest value is at a corner; what two values share, -2 s t <v, v'>, only helps
    /// where s and t have one sign and inner products are not negative.
    #[inline(always)]
    fn squared_diameter_bound(&self, public: f64, own: &[i32]) -> f64 {
        let values = self.rows.values;
        let (low, high) = own.iter().fold((i32::MAX, i32::MIN), |(low, high), &s| (low.min(s), high.max(s)));
        let (low, high) = (f64::from(low), f64::from(high));
        let (low_square, high_square) = (low * low, high * high);
        let largest = if low_square > high_square { low_square } else { high_square };
        let range = high - low;
        let opposite = if low * high < 0.0 { -2.0 * low * high * values.overlap } else { 0.0 };
        let corner = range * range * public + (low_square + high_square) * values.longest + opposite;
        let same = 2.0 * largest * values.longest;
        (if corner > same { corner } else { same }) * (1.0 + DISTANCE_SLACK)
    }

    /// sums += coefficients times public features over a block.
    fn add(&self, first: usize, len: usize, coefficients: &[i32], scratch: &Scratch, sums: &mut [i64]) {
        let (outputs, columns) = (self.loss.outputs(), self.columns());
        for output in 0..outputs {
            let coefficients = &coefficients[output * len..][..len];
            let sums = &mut sums[output * columns..][..columns];
            match self.rows.rows {
                Rows::Dense(rows) => {
                    let (values, width) = (rows.padded_values(), rows.width());
                    let panel = Panel { values, offsets: &scratch.starts, ahead: &[], width };
                    self.rows.level.accumulate(&panel, coefficients, sums);
                }
                Rows::Sparse(rows) => {
                    for (position, &coefficient) in coefficients.iter().enumerate() {
                        for (column, q) in rows.row(first + position).iter() {
                            sums[column] += i64::from(coefficient) * i64::from(q);
                        }
                    }
                }
            }
        }
    }

    /// Prepares the addresses of a block and of the one after it.
    fn locate(&self, first: usize, len: usize, end: usize, scratch: &mut Scratch) {
        if let Rows::Dense(rows) = self.rows.rows {
            scratch.starts.set(&Block::run(first, len), rows.width());
            let next = first + len;
            scratch.ahead.set(&Block::run(next, (next + BLOCK_ROWS).min(end) - next), rows.width());
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
        let size = outputs * (self.columns() + k);
        let total = over_rows(rows, RUN_ROWS, size, |start, end| {
            let (mut scratch, mut part) = (Scratch::new(outputs, k), Partial::zero(size));
            for first in (start..end).step_by(BLOCK_ROWS) {
                let len = BLOCK_ROWS.min(end - first);
                self.locate(first, len, end, &mut scratch);
                self.scores(&self.weights, first, len, &mut scratch);
                let logits = beliefs.of_rows(first, len);
                self.rows.level.run(
                    #[inline(always)]
                    || {
                        self.derivatives(first, len, &mut scratch);
                        self.reduce(first, len, logits, &secret[first..first + len], &mut scratch, &mut part);
                    },
                );
                self.add(first, len, &scratch.believed, &scratch, &mut part.believed);
                self.add(first, len, &scratch.actual, &scratch, &mut part.actual);
            }
            part
        });
        Ok(BeliefSums {
            believed: self.finish(&total.believed),
            actual: self.finish(&total.actual),
            squared_diameter: total.squared_diameter,
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
        beliefs.change_runs(RUN_ROWS, |start, logits| {
            let mut scratch = Scratch::new(outputs, k);
            let mut products = vec![0.0; outputs * BLOCK_ROWS];
            let end = start + logits.len() / k;
            for first in (start..end).step_by(BLOCK_ROWS) {
                let len = BLOCK_ROWS.min(end - first);
                self.locate(first, len, end, &mut scratch);
                self.scores(&direction, first, len, &mut scratch);
                products[..outputs * len].copy_from_slice(&scratch.scores[..outputs * len]);
                self.scores(&self.weights, first, len, &mut scratch);
                let logits = &mut logits[(first - start) * k..][..len * k];
                self.rows.level.run(
                    #[inline(always)]
                    || {
                        self.derivatives(first, len, &mut scratch);
                        for row in 0..len {
                            for value in 0..k {
                                let mut product = 0.0;
                                for output in 0..outputs {
                                    let inner = products[output * len + row] + along[output * k + value];
                                    product += scratch.derivatives[(output * len + row) * k + value] * inner;
                                }
                                logits[row * k + value] += update.step(product);
                            }
                        }
                    },
                );
            }
        });
        Ok(())
    }
}
