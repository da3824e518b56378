//! From a block's coefficients and beliefs to what is added up.

use super::super::block::BLOCK_ROWS;
use super::super::clamp::clamp_coefficient;
use super::super::lanes::{SIXTEEN, Vectors};
use super::super::single::{SINGLE_COEFFICIENT, bounds, power_of_two, round, within};
use super::columns::{Column, PARTS};

/// Every row's shares in the values; returns the factors that make them probabilities.
#[inline(always)]
pub(super) fn fill_shares<V: Vectors>(
    v: V,
    logits: &[Column<f32>],
    shares: &mut [Column<f32>],
) -> Column<f32> {
    let mut normalisers = Column::of(0.0);
    for part in 0..PARTS {
        let mut total = v.splat(0.0);
        for (shares, logits) in shares.iter_mut().zip(logits) {
            let share = power_of_two(v, v.load(logits.part(part)));
            total = total + share;
            v.store(share, shares.part_mut(part));
        }
        v.store(v.splat(1.0) / total, normalisers.part_mut(part));
    }
    normalisers
}

/// A block's beliefs.
#[derive(Clone, Copy)]
pub(super) struct Shares<'a> {
    /// Per value.
    pub(super) shares: &'a [Column<f32>],
    /// What makes them probabilities.
    pub(super) normalisers: &'a Column<f32>,
}

/// What a block's coefficients of one output come to.
pub(super) struct Reduced {
    pub(super) believed: Column<i32>,
    pub(super) actual: Column<i32>,
    pub(super) lowest: Column<i32>,
    pub(super) highest: Column<i32>,
}

impl Reduced {
    fn zero() -> Self {
        let zero = Column::of(0);
        Reduced { believed: zero, actual: zero, lowest: zero, highest: zero }
    }
}

/// Believed means, the coefficients of the rows' own values, and the extremes. `integers` has one column per value.
#[inline(always)]
pub(super) fn reduce<V: Vectors>(
    v: V,
    integers: &[Column<i32>],
    Shares { shares, normalisers }: Shares<'_>,
    secret: &Column<i32>,
    limit: u32,
) -> Reduced {
    let mut reduced = Reduced::zero();
    let mut means = Column::of(0.0);
    for part in 0..PARTS {
        let secret = v.load_integers(secret.part(part));
        let first = v.load_integers(integers[0].part(part));
        let (mut mean, mut chosen, mut low, mut high) = (v.splat(0.0), v.splat_integer(0), first, first);
        let mut value = v.splat_integer(0);
        for (integers, shares) in integers.iter().zip(shares) {
            let own = v.load_integers(integers.part(part));
            // a mean of differences to the first value's: exact where all are equal
            mean = mean + v.load(shares.part(part)) * v.to_floats(own - first);
            (low, high) = (v.min(own, low), v.max(own, high));
            // looks at every value: which one a row has shows in no address and no time
            chosen = v.or(chosen, v.where_equal(secret, value, own));
            value = value + v.splat_integer(1);
        }
        let mean = mean * v.load(normalisers.part(part));
        if limit <= SINGLE_COEFFICIENT {
            let nearest = round(v, within(v, v.to_floats(first) + mean, bounds(v, limit as f32)));
            v.store_integers(nearest, reduced.believed.part_mut(part));
        }
        v.store(mean, means.part_mut(part));
        v.store_integers(chosen, reduced.actual.part_mut(part));
        v.store_integers(low, reduced.lowest.part_mut(part));
        v.store_integers(high, reduced.highest.part_mut(part));
    }
    if limit > SINGLE_COEFFICIENT {
        reduced.believed = Column::each(|row| {
            clamp_coefficient(f64::from(integers[0].0[row]) + f64::from(means.0[row]), limit)
        });
    }
    reduced
}

/// The sums of coefficients of the rows that have one value, or are believed to: lane by lane, for a run of blocks.
#[derive(Debug, Clone, Copy, Default)]
#[repr(align(64))]
pub(super) struct ByValue {
    believed: [i32; SIXTEEN],
    actual: [i32; SIXTEEN],
    /// The same for coefficients that single precision does not hold.
    wide: [i64; 2],
}

impl ByValue {
    /// Adds what was collected to the two sums, and begins anew.
    pub(super) fn empty_into(&mut self, believed: &mut i64, actual: &mut i64) {
        let sum = |lanes: &[i32; SIXTEEN]| lanes.iter().map(|&lane| i64::from(lane)).sum::<i64>();
        *believed += sum(&self.believed) + self.wide[0];
        *actual += sum(&self.actual) + self.wide[1];
        *self = ByValue::default();
    }
}

/// As [`reduce`] for coefficients of at most [`SINGLE_COEFFICIENT`], adding them up by value too. What a row is believed to have of each value is
/// rounded, and its believed mean is the sum of that.
///
/// A probability is at most one, up to a rounding that 2^22 absorbs. A block adds 2 of at most 2^22 to a lane, a run of 2^6 blocks 2^29 in all.
#[inline(always)]
pub(super) fn reduce_by_value<V: Vectors>(
    v: V,
    integers: &[Column<i32>],
    Shares { shares, normalisers }: Shares<'_>,
    secret: &Column<i32>,
    limit: u32,
    sums: &mut [ByValue],
) -> Reduced {
    let mut reduced = Reduced::zero();
    let limits = [v.splat_integer(-(limit as i32)), v.splat_integer(limit as i32)];
    for part in 0..PARTS {
        let (secret, normaliser) = (v.load_integers(secret.part(part)), v.load(normalisers.part(part)));
        let first = v.load_integers(integers[0].part(part));
        let (mut believed, mut chosen) = (v.splat_integer(0), v.splat_integer(0));
        let (mut low, mut high) = (first, first);
        let mut value = v.splat_integer(0);
        for ((integers, shares), sums) in integers.iter().zip(shares).zip(&mut *sums) {
            let own = v.load_integers(integers.part(part));
            let probability = v.load(shares.part(part)) * normaliser;
            let share = round(v, probability * v.to_floats(own));
            // looks at every value: which one a row has shows in no address and no time
            let actual = v.where_equal(secret, value, own);
            v.store_integers(v.load_integers(&sums.believed) + share, &mut sums.believed);
            v.store_integers(v.load_integers(&sums.actual) + actual, &mut sums.actual);
            (believed, chosen) = (believed + share, chosen + actual);
            (low, high) = (v.min(own, low), v.max(own, high));
            value = value + v.splat_integer(1);
        }
        // many roundings may add up to more than any coefficient
        let believed = v.max(v.min(believed, limits[1]), limits[0]);
        v.store_integers(believed, reduced.believed.part_mut(part));
        v.store_integers(chosen, reduced.actual.part_mut(part));
        v.store_integers(low, reduced.lowest.part_mut(part));
        v.store_integers(high, reduced.highest.part_mut(part));
    }
    reduced
}

/// Adds larger coefficients up by value.
pub(super) fn add_by_value_wide(
    integers: &[Column<i32>],
    Shares { shares, normalisers }: Shares<'_>,
    secret: &Column<i32>,
    limit: u32,
    sums: &mut [ByValue],
) {
    for (value, sums) in sums.iter_mut().enumerate() {
        for row in 0..BLOCK_ROWS {
            let own = integers[value].0[row];
            let probability = f64::from(shares[value].0[row]) * f64::from(normalisers.0[row]);
            sums.wide[0] += i64::from(clamp_coefficient(f64::from(own) * probability, limit));
            sums.wide[1] += i64::from(own) & -i64::from(secret.0[row] == value as i32);
        }
    }
}
