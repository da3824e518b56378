//! Queries written down by the caller: n * k vectors, rounded to a lattice that cannot overflow.

use super::super::KernelError;
use super::super::block::BLOCK_ROWS;
use super::super::lanes::Level;
use super::{
    BELIEF_SUM_LIMIT, BeliefQuery, BeliefSums, BeliefUpdate, Beliefs, Partial, VectorQuery, check, over_rows,
    sealed,
};

/// Blocks handed to a thread at a time.
const RUN_BLOCKS: usize = 8;

/// Coordinates are rounded to at most this many steps per unit.
const MOST_STEPS: u64 = 1 << 40;

/// A [`VectorQuery`] over a known number of rows and values.
pub struct PlainQuery<'a, Q> {
    query: &'a Q,
    rows: usize,
    values: usize,
    /// Lattice steps per unit.
    steps: f64,
}

impl<'a, Q: VectorQuery> PlainQuery<'a, Q> {
    /// The query over `rows` rows with `values` values each.
    pub fn new(query: &'a Q, rows: usize, values: usize) -> Self {
        // rows * steps * sqrt(dimension) < 2^61; a coordinate is at most `steps`
        let room = (rows as f64 + 1.0) * ((query.dimension() as f64).sqrt() + 1.0);
        let steps = (BELIEF_SUM_LIMIT as f64 / room).floor().min(MOST_STEPS as f64).max(1.0);
        PlainQuery { query, rows, values, steps }
    }

    /// The lattice vectors of one row.
    fn fill(&self, row: usize, values: &mut [f64], integers: &mut [i64]) {
        values.fill(0.0);
        self.query.fill(row, values);
        for (integer, &value) in integers.iter_mut().zip(&*values) {
            // a float that is no number becomes the integer zero
            *integer = (value.clamp(-1.0, 1.0) * self.steps).round_ties_even() as i64;
        }
    }
}

impl<Q: VectorQuery> sealed::Sealed for PlainQuery<'_, Q> {}

impl<Q: VectorQuery> BeliefQuery for PlainQuery<'_, Q> {
    fn dimension(&self) -> usize {
        self.query.dimension()
    }

    fn unit(&self) -> f64 {
        1.0 / self.steps
    }

    fn sums(&self, beliefs: &Beliefs, secret: &[u16]) -> Result<BeliefSums, KernelError> {
        check(beliefs, Some(secret), self.rows, self.values)?;
        let (d, k) = (self.query.dimension(), self.values);
        let memory = || (vec![0.0; d * k], vec![0i64; d * k]);
        let run = RUN_BLOCKS * BLOCK_ROWS;
        let total = over_rows(self.rows, run, d, memory, |(values, integers), part, rows| {
            for (row, &value) in rows.clone().zip(&secret[rows]) {
                self.fill(row, values, integers);
                let shares = beliefs.shares(row);
                let inverse = 1.0 / shares.iter().sum::<f64>();
                for (column, believed) in part.believed.iter_mut().enumerate() {
                    let mean: f64 = (0..k).map(|y| shares[y] * integers[y * d + column] as f64).sum();
                    *believed += (mean * inverse).round_ties_even() as i64;
                }
                let chosen = usize::from(value).min(k - 1);
                for y in 0..k {
                    let own = &integers[y * d..][..d];
                    // looks at every value, like the other passes
                    let mask = -i64::from(y == chosen);
                    part.actual.iter_mut().zip(own).for_each(|(actual, &value)| *actual += value & mask);
                    for other in 0..y {
                        let distance = squared_distance(own, &integers[other * d..][..d]);
                        part.squared_diameter = part.squared_diameter.max(distance);
                    }
                }
            }
        });
        let Partial { believed, actual, squared_diameter } = total;
        Ok(BeliefSums { believed, actual, squared_diameter })
    }

    fn update(&self, beliefs: &mut Beliefs, update: &BeliefUpdate) -> Result<(), KernelError> {
        check(beliefs, None, self.rows, self.values)?;
        let (d, k) = (self.query.dimension(), self.values);
        if update.direction.len() != d {
            return Err(KernelError::Length {
                name: "the direction",
                found: update.direction.len(),
                rows: d,
            });
        }
        let memory = || (vec![0.0; d * k], vec![0i64; d * k]);
        beliefs.change_blocks(Level::best(), RUN_BLOCKS, memory, |(values, integers), span, logits| {
            for row in 0..span.len {
                self.fill(span.first + row, values, integers);
                for (y, logits) in logits.iter_mut().enumerate() {
                    let own = integers[y * d..][..d].iter().zip(&update.direction);
                    let product: f64 = own.map(|(&value, direction)| value as f64 * direction).sum();
                    logits.0[row] += update.step(product / self.steps);
                }
            }
        });
        Ok(())
    }
}

/// ||one - other||^2, rounded up.
fn squared_distance(one: &[i64], other: &[i64]) -> f64 {
    // coordinates are at most 2^40, so the sum is exact
    let exact: u128 = one.iter().zip(other).map(|(one, other)| u128::from(one.abs_diff(*other)).pow(2)).sum();
    if exact == 0 { 0.0 } else { (exact as f64).next_up() }
}
