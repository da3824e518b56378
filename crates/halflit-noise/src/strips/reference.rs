//! The same sampler written a second time for trust, not speed: no table, no integer bounds, no shared exponential.
//!
//! Every height is recomputed from its definition and every comparison is made with big integers. It reads the same
//! random bytes in the same order, so it must return the same draws.

use super::{Curve, Draw, SLOT_BITS, SLOTS, STRIPS};
use crate::exact::Dyadic;
use crate::keystream::RandomBytes;
use num_bigint::BigUint;

/// Bounds on 2^precision e^-q as (lower, upper), from the Taylor series of e^q with exact powers and factorials.
pub(crate) fn exp_neg(q: &Dyadic, precision: u64) -> (BigUint, BigUint) {
    // The larger e^q is, the more digits its reciprocal needs: e^q < 4^q.
    let integer_part = &q.numerator >> q.fraction_bits;
    let extra = 2 * integer_part.iter_u64_digits().next().unwrap_or(0) + 8;
    let working = precision + 2 * extra;
    let one = BigUint::from(1u8) << working;
    let (mut sum, mut power, mut factorial) = (BigUint::ZERO, one.clone(), BigUint::from(1u8));
    let mut terms = 0u64;
    loop {
        let term = (&power >> (terms * q.fraction_bits)) / &factorial;
        sum += &term;
        terms += 1;
        // Past terms > 2 q each further term is less than half the one before.
        if term == BigUint::ZERO && terms > extra {
            break;
        }
        power *= &q.numerator;
        factorial *= terms;
    }
    // Each term lost less than one unit to rounding; the terms left out are below two units together.
    let sum_above = &sum + terms + 2u8;
    let unit = one << precision;
    (&unit / sum_above, unit / sum + 1u8)
}

/// The curve at `cell / 2^width_bits`.
fn height<C: Curve>(cell: u64, width_bits: u32) -> (BigUint, BigUint) {
    let x = Dyadic { numerator: cell.into(), fraction_bits: width_bits.into() };
    exp_neg(&C::exponent(&x), 200)
}

fn small(value: BigUint) -> u64 {
    u64::try_from(value).expect("counts are small")
}

/// Boxes of a strip wholly under the curve, and boxes that reach below it.
pub(super) fn box_counts<C: Curve>(strip: u64) -> (u64, u64) {
    let under = (height::<C>(strip + 1, C::STRIP_BITS).0 * C::LEVELS) >> 200u32;
    let mut above = height::<C>(strip, C::STRIP_BITS).1;
    if strip == 0 {
        above = BigUint::from(1u8) << 200u32; // f(0) = 1, exactly
    }
    let needed = (above * C::LEVELS + ((BigUint::from(1u8) << 200u32) - 1u8)) >> 200u32;
    (small(under), small(needed))
}

/// A box: its left end in cells, its cell width, and its bottom and height as multiples of `unit.0 / unit.1`.
struct Region {
    cell: u64,
    width_bits: u32,
    level: u64,
    unit: (BigUint, BigUint),
}

pub(super) struct Reference {
    /// For every slot that is not plain: (strip, level). Plain strips in order with their number of boxes.
    plain: Vec<u64>,
    crossing: Vec<(u64, u64)>,
}

impl Reference {
    pub(super) fn new<C: Curve>() -> Self {
        let counts: Vec<(u64, u64)> = (0..STRIPS as u64).map(box_counts::<C>).collect();
        let crossing = counts
            .iter()
            .enumerate()
            .flat_map(|(strip, &(under, needed))| (under..needed).map(move |level| (strip as u64, level)))
            .collect();
        Reference { plain: counts.into_iter().map(|(under, _)| under).collect(), crossing }
    }

    pub(super) fn draw<C: Curve>(&self, precision: u32, random: &mut impl RandomBytes) -> Draw {
        let bytes = (SLOT_BITS + 1 + precision - C::STRIP_BITS).div_ceil(8);
        let digits = 8 * bytes - SLOT_BITS - 1;
        loop {
            let word = random.take(bytes);
            let mut slot = word % SLOTS as u64;
            let sign = word / SLOTS as u64 % 2;
            let position = BigUint::from(word >> (SLOT_BITS + 1));
            let Some(strip) = self.plain.iter().position(|&boxes| {
                let inside = slot < boxes;
                if !inside {
                    slot -= boxes;
                }
                inside
            }) else {
                match self.tested::<C>(precision, slot, (position, digits), random) {
                    Some(magnitude) => return Draw { sign, magnitude },
                    None => continue,
                }
            };
            let x = (BigUint::from(strip) << digits) + position;
            return Draw { sign, magnitude: scaled_floor(&x, digits + C::STRIP_BITS, precision) };
        }
    }

    fn tested<C: Curve>(
        &self,
        precision: u32,
        slot: u64,
        (position, digits): (BigUint, u32),
        random: &mut impl RandomBytes,
    ) -> Option<u64> {
        let region = if let Some(&(strip, level)) = self.crossing.get(slot as usize) {
            let unit = (BigUint::from(1u8), BigUint::from(C::LEVELS));
            Region { cell: strip, width_bits: C::STRIP_BITS, level, unit }
        } else if slot < self.crossing.len() as u64 + C::TAIL_SLOTS {
            let mut block = 0;
            loop {
                let word = random.word();
                let heads = (0..64).take_while(|bit| word >> bit & 1 == 1).count() as u64;
                block += heads;
                if heads < 64 {
                    break;
                }
            }
            // area = TAIL_SLOTS / 2^(block + 1) slots; height = area / width.
            let slot_area = (BigUint::from(1u8), BigUint::from(C::LEVELS) << C::STRIP_BITS);
            let numerator = (slot_area.0 * C::TAIL_SLOTS) << C::TAIL_BITS;
            let denominator = slot_area.1 << (block + 1);
            let cell = ((STRIPS as u64) << C::TAIL_BITS >> C::STRIP_BITS) + block;
            Region { cell, width_bits: C::TAIL_BITS, level: 0, unit: (numerator, denominator) }
        } else {
            return None;
        };

        let second = random.word();
        let mut x = (((BigUint::from(region.cell) << digits) + position) << 32u32) + (second & 0xffff_ffff);
        let mut x_bits = digits + 32 + region.width_bits;
        let magnitude = scaled_floor(&x, x_bits, precision);
        let mut level = (BigUint::from(region.level) << 32u32) + (second >> 32);
        let mut level_bits = 32u32;
        loop {
            let working = 2 * u64::from(x_bits + level_bits) + 128 + region.unit.1.bits();
            let curve = |x: BigUint| {
                exp_neg(&C::exponent(&Dyadic { numerator: x, fraction_bits: x_bits.into() }), working)
            };
            // level * unit against f, both times unit.1 * 2^(level_bits + working).
            let above = |level: BigUint| (level * &region.unit.0) << working;
            let below = |f: BigUint| (f * &region.unit.1) << level_bits;
            if above(&level + 1u8) <= below(curve(&x + 1u8).0) {
                return Some(magnitude);
            }
            if above(level.clone()) >= below(curve(x.clone()).1) {
                return None;
            }
            x = (x << 64u32) + random.word();
            level = (level << 64u32) + random.word();
            x_bits += 64;
            level_bits += 64;
        }
    }
}

/// floor(2^precision * x / 2^x_bits)
fn scaled_floor(x: &BigUint, x_bits: u32, precision: u32) -> u64 {
    small(x >> (x_bits - precision))
}
