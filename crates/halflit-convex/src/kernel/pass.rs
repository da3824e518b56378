use super::block::{BLOCK_ROWS, Batch, Block, Rule, Starts};
use super::clamp::coefficient_limit;
use super::lanes::{Coefficients, DenseBlock, Level, Panel, Run, Upcoming, Weighted, in_between};
use super::slopes::SlopesBlock;
use super::sparse;
use super::weights::{LANES, LatticeWeights};
use super::{KernelError, SUM_LIMIT};
use crate::rows::Rows;
use rayon::prelude::*;

/// Multiplications that are worth a task of their own.
const PARALLEL_WORK: usize = 1 << 16;

/// Rows that are worth sums of their own: adding up two sums costs as much as a few rows.
const PARALLEL_ROWS: usize = 4 * BLOCK_ROWS;

/// Fewer tasks than this are done by the calling thread.
const FEWEST_TASKS: usize = 4;

/// Tasks for each thread, so that none waits long for another at the end.
const TASKS_PER_THREAD: usize = 16;

/// Exact sums of row contributions s * q, each of norm at most a bound, for one table and one bound.
///
/// # Guarantee
///
/// [`RowSums::sum`] returns sum_i s_i q_i over the batch with ||s_i q_i||_2 <= bound for every row i (jointly over the outputs),
/// in exact integers, where s_i is a function of row i, of the weights and of the rule alone.
#[derive(Debug, Clone)]
pub struct RowSums<'a> {
    rows: &'a Rows,
    limits: Vec<u32>,
    level: Level,
}

impl<'a> RowSums<'a> {
    /// Computes every row's limit for contributions of norm at most `bound` lattice units (feature unit times coefficient unit).
    ///
    /// Refused when `rows * bound` reaches 2^62.
    pub fn new(rows: &'a Rows, bound: u64) -> Result<Self, KernelError> {
        check_overflow(rows.len(), bound)?;
        Ok(RowSums { rows, limits: limits(rows, bound), level: Level::best() })
    }

    /// The same sums with other instructions; the results are the same integers.
    pub fn at_level(mut self, level: Level) -> Self {
        self.level = level;
        self
    }

    /// The rows.
    pub fn rows(&self) -> &'a Rows {
        self.rows
    }

    /// One pass: the sum over the batch, output after output (`outputs * width` integers).
    pub fn sum<R: Rule>(
        &self,
        weights: &LatticeWeights,
        rule: &R,
        batch: Batch<'_>,
    ) -> Result<Vec<i64>, KernelError> {
        let count = batch.check(self.rows.len())?;
        let pass = Pass::new(self.rows, weights, rule, &self.limits, self.level)?;
        let sum_range = |start: usize, end: usize| {
            let mut scratch = Scratch::new(weights.outputs());
            let mut sums = pass.zero();
            pass.prefetch(&Block::of(batch, start, (start + BLOCK_ROWS).min(end)));
            for from in (start..end).step_by(BLOCK_ROWS) {
                let to = (from + BLOCK_ROWS).min(end);
                let next = Block::of(batch, to, (to + BLOCK_ROWS).min(end));
                pass.coefficients(&Block::of(batch, from, to), &next, &mut scratch);
                pass.add(&scratch, 0, to - from, &mut sums);
            }
            sums
        };
        let sums = in_parallel(count, self.rows.width() * weights.outputs(), sum_range)
            .unwrap_or_else(|| pass.zero());
        Ok(pass.finish(&sums))
    }
}

/// The largest coefficient of every row.
pub(super) fn limits(rows: &Rows, bound: u64) -> Vec<u32> {
    rows.squared_norms().par_iter().map(|&norm| coefficient_limit(bound, norm)).collect()
}

/// count * bound < 2^62.
pub(crate) fn check_overflow(count: usize, bound: u64) -> Result<(), KernelError> {
    match (count as u64).checked_mul(bound) {
        Some(total) if total < SUM_LIMIT => Ok(()),
        _ => Err(KernelError::Overflow { count, bound }),
    }
}

/// Sums integer vectors over ranges of `0..count`, on the current thread pool when the work is worth it.
///
/// Integers: the way the range is cut cannot change the result.
pub(crate) fn in_parallel(
    count: usize,
    work_per_item: usize,
    sum_range: impl Fn(usize, usize) -> Vec<i64> + Sync,
) -> Option<Vec<i64>> {
    let threads = rayon::current_num_threads();
    let worthwhile = (count.saturating_mul(work_per_item) / PARALLEL_WORK).min(count.div_ceil(PARALLEL_ROWS));
    if threads == 1 || worthwhile < FEWEST_TASKS {
        return Some(sum_range(0, count));
    }
    let parts = worthwhile.min(TASKS_PER_THREAD * threads);
    let size = count.div_ceil(parts).next_multiple_of(BLOCK_ROWS);
    (0..parts)
        .into_par_iter()
        .map(|part| (part * size, ((part + 1) * size).min(count)))
        .filter(|(start, end)| start < end)
        .map(|(start, end)| sum_range(start, end))
        .reduce_with(|mut total, part| {
            add_into(&mut total, &part);
            total
        })
}

/// total += part. The up-front bound excludes overflow; wrapping keeps the loop in vectors.
pub(crate) fn add_into(total: &mut [i64], part: &[i64]) {
    for (total, &part) in total.iter_mut().zip(part) {
        *total = total.wrapping_add(part);
    }
}

/// One pass's fixed ingredients.
pub(super) struct Pass<'a, R> {
    rows: &'a Rows,
    weights: &'a LatticeWeights,
    /// For sparse rows: the weights column-major, so that one column's outputs are neighbours.
    by_column: Vec<i32>,
    rule: &'a R,
    limits: &'a [u32],
    level: Level,
}

/// A thread's working memory: one block.
pub(super) struct Scratch {
    /// The first row, where a whole block of rows follows it; otherwise `starts` says where they are.
    run: Option<usize>,
    starts: Starts,
    upcoming: Upcoming,
    sparse_rows: [u32; BLOCK_ROWS],
    limits: [u32; BLOCK_ROWS],
    integer_scores: Vec<i64>,
    scores: Vec<f64>,
    values: Vec<f64>,
    powers: Vec<[f32; BLOCK_ROWS]>,
    coefficients: Vec<i32>,
    len: usize,
}

impl Scratch {
    pub(super) fn new(outputs: usize) -> Self {
        let size = outputs * BLOCK_ROWS;
        Scratch {
            run: None,
            starts: Starts::NONE.clone(),
            upcoming: Upcoming::nothing(),
            sparse_rows: [0; BLOCK_ROWS],
            limits: [0; BLOCK_ROWS],
            integer_scores: vec![0; size],
            scores: vec![0.0; size],
            values: vec![0.0; size],
            powers: vec![[0.0; BLOCK_ROWS]; outputs],
            coefficients: vec![0; size],
            len: 0,
        }
    }
}

impl<'a, R: Rule> Pass<'a, R> {
    pub(super) fn new(
        rows: &'a Rows,
        weights: &'a LatticeWeights,
        rule: &'a R,
        limits: &'a [u32],
        level: Level,
    ) -> Result<Self, KernelError> {
        let (width, outputs) = (weights.width(), weights.outputs());
        if width != rows.width() || outputs != rule.outputs() {
            let (rows_width, rule_outputs) = (rows.width(), rule.outputs());
            return Err(KernelError::Shape { width, outputs, rows_width, rule_outputs });
        }
        rule.check(rows.len())?;
        let by_column = match rows {
            Rows::Dense(_) => Vec::new(),
            Rows::Sparse(_) => (0..width)
                .flat_map(|column| (0..outputs).map(move |output| weights.integers(output)[column]))
                .collect(),
        };
        Ok(Pass { rows, weights, by_column, rule, limits, level })
    }

    /// Empty sums in the pass's own order.
    pub(super) fn zero(&self) -> Vec<i64> {
        let columns = match self.rows {
            Rows::Dense(rows) => rows.width().next_multiple_of(LANES),
            Rows::Sparse(rows) => rows.width(),
        };
        vec![0; columns * self.weights.outputs()]
    }

    /// Asks for a block of rows, all at once: they arrive together instead of one after the other.
    pub(super) fn prefetch(&self, block: &Block<'_>) {
        if let Rows::Dense(rows) = self.rows {
            let mut all = Upcoming::nothing();
            all.set(rows.padded_values(), rows.width(), block);
            all.ask(all.share(8, 1));
        }
        self.prefetch_columns(block);
    }

    /// Asks for a later block's limits and for what the rule reads.
    fn prefetch_columns(&self, block: &Block<'_>) {
        block.prefetch(self.limits);
        self.rule.prefetch(block);
    }

    /// The integer coefficients of a block, clamped. `next` is what will be asked for after it.
    pub(super) fn coefficients(&self, block: &Block<'_>, next: &Block<'_>, scratch: &mut Scratch) {
        let len = block.len();
        if len == 0 {
            return;
        }
        scratch.len = len;
        self.prefetch_columns(next);
        self.scores(block, next, scratch);
        let in_between = scratch.upcoming.share(in_between(self.weights.outputs()), 1);
        scratch.upcoming.ask(in_between);
        self.slopes(block, scratch);
        scratch.upcoming.ask(in_between);
    }

    /// From exact scores to coefficients.
    fn slopes(&self, block: &Block<'_>, scratch: &mut Scratch) {
        let size = scratch.len * self.weights.outputs();
        let (integer_scores, score_unit) = (&scratch.integer_scores[..size], self.weights.score_unit());
        let limits = block.values(self.limits, &mut scratch.limits);
        let coefficients = &mut scratch.coefficients[..size];
        if let Some(slopes) = self.rule.in_single() {
            let powers = &mut scratch.powers;
            let work =
                SlopesBlock { slopes, block, integer_scores, score_unit, limits, powers, coefficients };
            return self.level.work(work);
        }
        let (scores, values) = (&mut scratch.scores[..size], &mut scratch.values[..size]);
        let work = Coefficients { integer_scores, score_unit, limits, scores, values, coefficients };
        self.level.coefficients(self.rule, block, work);
    }

    fn scores(&self, block: &Block<'_>, next: &Block<'_>, scratch: &mut Scratch) {
        let (len, outputs) = (block.len(), self.weights.outputs());
        match self.rows {
            Rows::Dense(rows) => {
                let (values, width) = (rows.padded_values(), rows.width());
                let scores = &mut scratch.integer_scores[..len * outputs];
                scratch.upcoming.set(values, width, next);
                scratch.run = block.first_of_whole();
                // Rows that follow one another need no table of addresses.
                if let Some(first) = scratch.run {
                    let run = Run::new(&values[first * width..], width, rows.largest(), &scratch.upcoming);
                    return self.level.dots(&run, self.weights, scores);
                }
                scratch.starts.set(block, width);
                let (offsets, largest, upcoming) = (&scratch.starts[..], rows.largest(), &scratch.upcoming);
                let panel = Panel { values, offsets, width, largest, upcoming };
                self.level.dots(&panel, self.weights, scores);
            }
            Rows::Sparse(rows) => {
                for (position, row) in scratch.sparse_rows[..len].iter_mut().enumerate() {
                    *row = block.row(position) as u32;
                }
                let (indices, scores) =
                    (&scratch.sparse_rows[..len], &mut scratch.integer_scores[..len * outputs]);
                self.level.run(
                    #[inline(always)]
                    || sparse::scores(rows, indices, &self.by_column, outputs, scores),
                );
            }
        }
    }

    /// sums += sum of s * q over the block's positions `start..end`.
    pub(super) fn add(&self, scratch: &Scratch, start: usize, end: usize, sums: &mut [i64]) {
        let (len, outputs) = (scratch.len, self.weights.outputs());
        match self.rows {
            Rows::Dense(rows) => {
                let (values, width, largest) = (rows.padded_values(), rows.width(), rows.largest());
                let columns = width.next_multiple_of(LANES);
                let coefficients = scratch.coefficients.chunks_exact(len).map(|own| &own[start..end]);
                let each = coefficients
                    .zip(sums.chunks_exact_mut(columns))
                    .map(|(coefficients, sums)| Weighted { coefficients, sums });
                match scratch.run {
                    Some(first) => {
                        assert_eq!((start, end), (0, BLOCK_ROWS), "a run is added whole");
                        let run = Run::new(&values[first * width..], width, largest, &scratch.upcoming);
                        self.accumulate(&run, each);
                    }
                    None => {
                        let (offsets, upcoming) = (&scratch.starts[start..end], &scratch.upcoming);
                        self.accumulate(&Panel { values, offsets, width, largest, upcoming }, each);
                    }
                }
            }
            Rows::Sparse(rows) => {
                let (indices, coefficients) =
                    (&scratch.sparse_rows[..len], &scratch.coefficients[..len * outputs]);
                self.level.run(
                    #[inline(always)]
                    || sparse::add(rows, indices, start..end, coefficients, sums),
                );
            }
        }
    }

    fn accumulate<'s>(&self, block: &impl DenseBlock, mut each: impl Iterator<Item = Weighted<'s>>) {
        match (self.weights.outputs(), each.next()) {
            (1, Some(only)) => self.level.accumulate(block, &mut [only]),
            (_, first) => {
                self.level.accumulate(block, &mut first.into_iter().chain(each).collect::<Vec<_>>())
            }
        }
    }

    /// The sums output after output, columns in order.
    pub(super) fn finish(&self, sums: &[i64]) -> Vec<i64> {
        let (width, outputs) = (self.weights.width(), self.weights.outputs());
        let mut columns = vec![0; width * outputs];
        self.finish_into(sums, &mut columns);
        columns
    }

    /// As [`Pass::finish`], into memory the caller keeps.
    pub(super) fn finish_into(&self, sums: &[i64], columns: &mut [i64]) {
        let (width, outputs) = (self.weights.width(), self.weights.outputs());
        match self.rows {
            Rows::Dense(_) => {
                let padded = width.next_multiple_of(LANES);
                for output in 0..outputs {
                    self.level.unscramble(
                        &sums[output * padded..][..padded],
                        &mut columns[output * width..][..width],
                    );
                }
            }
            Rows::Sparse(_) => {
                for (index, &sum) in sums.iter().enumerate() {
                    columns[index % outputs * width + index / outputs] = sum;
                }
            }
        }
    }
}
