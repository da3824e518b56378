//! Sums over units of several rows: each unit's own sum is formed exactly, clipped, and only then added.

use super::KernelError;
use super::block::{BLOCK_ROWS, Batch, Block, Rule};
use super::clamp::clip_to_norm;
use super::lanes::Level;
use super::pass::{Pass, Scratch, add_into, check_overflow, in_parallel, limits};
use super::weights::LatticeWeights;
use crate::rows::Rows;

/// Norm that one unit's sum may reach before clipping: leaves room for a centre of the same size below 2^62.
const UNIT_LIMIT: u64 = 1 << 61;

/// What is subtracted from every unit's sum before clipping: a public vector, times a public multiple per unit.
#[derive(Debug, Clone, Copy)]
pub struct Centre<'a> {
    /// `outputs * width` integers, output after output.
    pub vector: &'a [i64],
    /// One multiple per unit, or 1 for every unit.
    pub multiples: Option<&'a [i32]>,
}

/// Exact sums of unit contributions, each of norm at most a bound. A unit is a run of consecutive rows.
///
/// # Guarantee
///
/// [`UnitSums::sum`] returns sum_u clip(sum_{i in u} s_i q_i - m_u c) over the batch of units, where clip scales toward zero to
/// norm at most `bound` (jointly over the outputs) in exact integers, and every term is a function of its own unit,
/// of the weights, the rule and the centre alone. A unit without rows contributes clip(-m_u c).
#[derive(Debug, Clone)]
pub struct UnitSums<'a> {
    rows: &'a Rows,
    offsets: &'a [usize],
    bound: u64,
    limits: Vec<u32>,
    level: Level,
}

impl<'a> UnitSums<'a> {
    /// Units are the rows `offsets[u]..offsets[u + 1]`, none with more than the declared `rows_per_unit`.
    ///
    /// Refused when `units * bound` reaches 2^62. Coefficients of single rows are limited so that no unit's own sum reaches 2^61.
    pub fn new(
        rows: &'a Rows,
        offsets: &'a [usize],
        rows_per_unit: usize,
        bound: u64,
    ) -> Result<Self, KernelError> {
        let increasing =
            offsets.windows(2).all(|pair| pair[0] <= pair[1] && pair[1] - pair[0] <= rows_per_unit);
        if !(offsets.first() == Some(&0) && offsets.last() == Some(&rows.len()) && increasing) {
            return Err(KernelError::Offsets { rows: rows.len(), rows_per_unit });
        }
        check_overflow(offsets.len() - 1, bound)?;
        // rows_per_unit * (2^61 / rows_per_unit) <= 2^61
        let limits = limits(rows, UNIT_LIMIT / (rows_per_unit as u64).max(1));
        Ok(UnitSums { rows, offsets, bound, limits, level: Level::best() })
    }

    /// The same sums with other instructions; the results are the same integers.
    pub fn at_level(mut self, level: Level) -> Self {
        self.level = level;
        self
    }

    /// Number of units.
    pub fn units(&self) -> usize {
        self.offsets.len() - 1
    }

    /// One pass: the sum over the batch of units, output after output (`outputs * width` integers).
    pub fn sum<R: Rule>(
        &self,
        weights: &LatticeWeights,
        rule: &R,
        centre: Option<Centre<'_>>,
        batch: Batch<'_>,
    ) -> Result<Vec<i64>, KernelError> {
        let size = weights.width() * weights.outputs();
        self.pass(weights, rule, centre, batch, size, &|vector, total| {
            clip_to_norm(vector, self.bound);
            add_into(total, vector);
        })
    }

    /// How many units of the batch have vectors of which size before they are clipped: `bin_of` gives the bin of a squared norm, below `bins`.
    pub fn count<R: Rule>(
        &self,
        weights: &LatticeWeights,
        rule: &R,
        centre: Option<Centre<'_>>,
        batch: Batch<'_>,
        bins: usize,
        bin_of: impl Fn(u128) -> usize + Sync,
    ) -> Result<Vec<i64>, KernelError> {
        self.pass(weights, rule, centre, batch, bins, &|vector, total| {
            let squares = vector.iter().map(|&v| u128::from(v.unsigned_abs()).pow(2));
            let squared = squares.fold(0, u128::saturating_add);
            if let Some(count) = total.get_mut(bin_of(squared)) {
                *count += 1;
            }
        })
    }

    /// Forms every unit's vector and lets `ending` add it to a total of `total_size` integers.
    fn pass<R: Rule>(
        &self,
        weights: &LatticeWeights,
        rule: &R,
        centre: Option<Centre<'_>>,
        batch: Batch<'_>,
        total_size: usize,
        ending: &Ending<'_>,
    ) -> Result<Vec<i64>, KernelError> {
        let count = batch.check(self.units())?;
        let size = weights.width() * weights.outputs();
        if let Some(centre) = centre {
            self.check_centre(centre, size)?;
        }
        let pass = Pass::new(self.rows, weights, rule, &self.limits, self.level)?;
        let sum_range = |start: usize, end: usize| {
            let mut work = Units {
                pass: &pass,
                centre,
                ending,
                scratch: Scratch::new(weights.outputs()),
                unit: pass.zero(),
                vector: vec![0; size],
                total: vec![0; total_size],
            };
            let units = (start..end).map(|position| match batch {
                Batch::All => position,
                Batch::Only(list) => list[position] as usize,
            });
            work.run(self.offsets, units);
            work.total
        };
        let rows_per_unit = self.rows.len().div_ceil(self.units().max(1)).max(1);
        Ok(in_parallel(count, size * rows_per_unit, sum_range).unwrap_or_else(|| vec![0; total_size]))
    }

    /// The centre fits, and the longest multiple of it stays below 2^61.
    fn check_centre(&self, centre: Centre<'_>, size: usize) -> Result<(), KernelError> {
        let most = match centre.multiples {
            None => 1,
            Some(multiples) if multiples.len() != self.units() => {
                return Err(KernelError::Length {
                    name: "the centre's multiples",
                    found: multiples.len(),
                    rows: self.units(),
                });
            }
            Some(multiples) => multiples.iter().map(|m| m.unsigned_abs()).max().unwrap_or(0),
        };
        // the 1-norm bounds the 2-norm
        let length = centre
            .vector
            .iter()
            .try_fold(0u64, |sum, v| sum.checked_add(v.unsigned_abs()))
            .and_then(|sum| sum.checked_mul(u64::from(most)));
        match length {
            Some(length) if length < UNIT_LIMIT && centre.vector.len() == size => Ok(()),
            _ => Err(KernelError::Centre { expected: size }),
        }
    }
}

/// What becomes of a unit's vector: something is added to a total.
type Ending<'a> = dyn Fn(&mut [i64], &mut [i64]) + Sync + 'a;

/// One thread's work: forms units and ends them, evaluating coefficients for blocks of whole small units.
struct Units<'a, R> {
    pass: &'a Pass<'a, R>,
    centre: Option<Centre<'a>>,
    ending: &'a Ending<'a>,
    scratch: Scratch,
    /// The unit's sum in the pass's order.
    unit: Vec<i64>,
    /// The unit's sum in column order.
    vector: Vec<i64>,
    total: Vec<i64>,
}

impl<R: Rule> Units<'_, R> {
    fn run(&mut self, offsets: &[usize], units: impl Iterator<Item = usize>) {
        let mut rows: Vec<u32> = Vec::with_capacity(BLOCK_ROWS);
        let mut waiting: Vec<(usize, usize)> = Vec::with_capacity(BLOCK_ROWS);
        for unit in units {
            let own = offsets[unit]..offsets[unit + 1];
            if own.len() > BLOCK_ROWS {
                self.large(unit, own);
                continue;
            }
            if rows.len() + own.len() > BLOCK_ROWS {
                self.small(&rows, &waiting);
                rows.clear();
                waiting.clear();
            }
            rows.extend(own.map(|row| row as u32));
            waiting.push((unit, rows.len()));
        }
        self.small(&rows, &waiting);
    }

    /// Several whole units in one block; `ends` says where each ends.
    fn small(&mut self, rows: &[u32], ends: &[(usize, usize)]) {
        self.pass.coefficients(&Block::list(rows), &Block::list(&[]), &mut self.scratch);
        let mut start = 0;
        for &(unit, end) in ends {
            if start < end {
                self.pass.add(&self.scratch, start, end, &mut self.unit);
            }
            self.close(unit);
            start = end;
        }
    }

    /// One unit of more rows than a block.
    fn large(&mut self, unit: usize, own: std::ops::Range<usize>) {
        for from in own.clone().step_by(BLOCK_ROWS) {
            let len = BLOCK_ROWS.min(own.end - from);
            let next = Block::run(from + len, BLOCK_ROWS.min(own.end - from - len));
            self.pass.coefficients(&Block::run(from, len), &next, &mut self.scratch);
            self.pass.add(&self.scratch, 0, len, &mut self.unit);
        }
        self.close(unit);
    }

    /// Subtracts the centre, ends the unit, and starts the next one.
    fn close(&mut self, unit: usize) {
        self.pass.finish_into(&self.unit, &mut self.vector);
        if let Some(Centre { vector, multiples }) = self.centre {
            let multiple = multiples.map_or(1, |multiples| i64::from(multiples[unit]));
            for (value, &centre) in self.vector.iter_mut().zip(vector) {
                // both are below 2^61: checked when the pass was set up
                *value = value.wrapping_sub(multiple.wrapping_mul(centre));
            }
        }
        (self.ending)(&mut self.vector, &mut self.total);
        self.unit.fill(0);
    }
}
