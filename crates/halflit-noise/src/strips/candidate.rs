use super::curve::{COARSE_BITS, EXPONENT_BITS};
use super::table::Crossing;
use super::{Curve, STRIPS, Strips};
use crate::exact::{Dyadic, exp_neg};
use crate::keystream::RandomBytes;
use num_bigint::BigUint;

/// Digits of the height, and extra digits of the position, in the second word of a draw.
const SECOND_WORD_DIGITS: u32 = 32;

/// A box: x from cell * width, one width long; height from `level` to `level + 1` times the box height
/// scale / (LEVELS 2^scale_bits).
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) cell: u64,
    pub(super) width_bits: u32,
    pub(super) level: u64,
    pub(super) scale: u64,
    pub(super) scale_bits: u64,
    /// The number of the tail block, if this is one.
    pub(super) tail_block: Option<u64>,
}

impl Place {
    pub(super) fn strip<C: Curve>(crossing: Crossing) -> Self {
        Place {
            cell: crossing.strip.into(),
            width_bits: C::STRIP_BITS,
            level: crossing.level.into(),
            scale: 1,
            scale_bits: 0,
            tail_block: None,
        }
    }

    /// Block n of the tail has TAIL_SLOTS 2^-(n+1) slots, each of area 2^-STRIP_BITS / LEVELS, on a width of
    /// 2^-TAIL_BITS: its box is TAIL_SLOTS 2^(TAIL_BITS - STRIP_BITS - 1 - n) / LEVELS high.
    pub(super) fn tail<C: Curve>(block: u64) -> Self {
        let first_cell = (STRIPS as u64) << C::TAIL_BITS >> C::STRIP_BITS;
        Place {
            cell: first_cell.saturating_add(block),
            width_bits: C::TAIL_BITS,
            level: 0,
            scale: C::TAIL_SLOTS,
            scale_bits: block.saturating_add(u64::from(C::STRIP_BITS + 1 - C::TAIL_BITS)),
            tail_block: Some(block),
        }
    }
}

/// A uniform point in a box, known to finitely many binary digits; the others are not drawn yet.
pub(crate) struct Candidate {
    place: Place,
    /// Leading digits of the position across the box.
    position: u128,
    position_digits: u32,
    /// Leading digits of the height inside the box.
    height: u64,
}

impl Candidate {
    /// The point with the position digits left over from the first word and the digits of a second one.
    pub(super) fn new(place: Place, first_digits: u32, first: u64, second: u64) -> Self {
        let (height, more) = (second >> SECOND_WORD_DIGITS, second & ((1 << SECOND_WORD_DIGITS) - 1));
        Candidate {
            place,
            position: u128::from(first) << SECOND_WORD_DIGITS | u128::from(more),
            position_digits: first_digits + SECOND_WORD_DIGITS,
            height,
        }
    }

    /// `floor(2^precision * x)`, from the digits in hand: they always suffice.
    ///
    /// Saturates at 2^63 - 1, which takes a tail block beyond 2^18: a run of 2^18 heads of a fair coin.
    pub(super) fn floor_at(&self, precision: u32) -> u64 {
        let kept = precision - self.place.width_bits;
        let floor = (u128::from(self.place.cell) << kept) + (self.position >> (self.position_digits - kept));
        u64::try_from(floor).unwrap_or(u64::MAX).min(i64::MAX as u64)
    }

    /// Whether the point is under the curve, from integer bounds; nothing if they cannot tell.
    fn quick_decision<C: Curve>(&self, strips: &Strips) -> Option<bool> {
        let Place { cell, width_bits, level, .. } = self.place;
        let base = strips.base(&self.place)?;
        let position = (self.position >> (self.position_digits - COARSE_BITS)) as u64;
        let curve = scaled_exponential(strips, base, C::coarse_exponent(cell, width_bits, position));
        // The point's height is in [height, height + 1) in units of 2^-24 box heights.
        let height = level << COARSE_BITS | self.height >> (SECOND_WORD_DIGITS - COARSE_BITS);
        let margin = error_bound(base);
        if height + 1 + margin <= curve {
            Some(true)
        } else if height >= curve + margin {
            Some(false)
        } else {
            None
        }
    }

    /// Whether the point is under the curve, from bounds of growing precision on a growing number of digits.
    ///
    /// Ends with probability one: the point is on the curve with probability zero, and the bounds close in on it.
    pub(super) fn exact_decision<C: Curve>(&self, random: &mut impl RandomBytes) -> bool {
        let Place { cell, width_bits, level, scale, scale_bits, .. } = self.place;
        let mut x_bits = u64::from(self.position_digits + width_bits);
        let mut x = (BigUint::from(cell) << self.position_digits) + self.position;
        let mut height_bits = u64::from(SECOND_WORD_DIGITS);
        let mut height = (BigUint::from(level) << height_bits) + self.height;
        loop {
            let precision = scale_bits + x_bits.max(height_bits) + 64;
            let exponential = |x: BigUint| {
                exp_neg(&C::exponent(&Dyadic { numerator: x, fraction_bits: x_bits }), precision)
            };
            // scale * (level + u) against LEVELS * 2^scale_bits * f(x), both in units of 2^-(precision + height_bits).
            // f decreases: its least value on the known digits is at their right end, its greatest at their left end.
            let on_curve = |f: BigUint| (f * C::LEVELS) << (scale_bits + height_bits);
            let at_height = |height: BigUint| (height * scale) << precision;
            if at_height(&height + 1u8) <= on_curve(exponential(&x + 1u8).lower) {
                return true;
            }
            if at_height(height.clone()) >= on_curve(exponential(x.clone()).upper) {
                return false;
            }
            x = (x << 64u32) + random.word();
            x_bits += 64;
            height = (height << 64u32) + random.word();
            height_bits += 64;
        }
    }
}

/// `base * e^-t` for t in units of 2^-30 below 2, within [`error_bound`] of the true value.
pub(super) fn scaled_exponential(strips: &Strips, base: u64, t: u64) -> u64 {
    const ONE: u64 = 1 << EXPONENT_BITS;
    // e^-t = e^(-m/16) e^-r with r < 1/16; e^-r by four terms of its series.
    let r = t % (ONE / 16);
    let r2 = (r * r) >> EXPONENT_BITS;
    let r3 = (r2 * r) >> EXPONENT_BITS;
    let r4 = (r3 * r) >> EXPONENT_BITS;
    let series = ONE - r + r2 / 2 - r3 / 6 + r4 / 24;
    let exponential = (strips.step(t / (ONE / 16)) * series) >> EXPONENT_BITS;
    // base < 2^33, exponential <= 2^30
    (base * exponential) >> EXPONENT_BITS
}

/// How far [`scaled_exponential`] at the known digits can be from the curve at the point, rounding and the unknown
/// digits included: at most 2^-22 of the base plus 4 (proof.md, section 4).
pub(super) fn error_bound(base: u64) -> u64 {
    (base >> 22) + 4
}

/// How a sampler decides whether a point is under the curve.
pub(crate) trait Decide {
    fn is_under_curve<C: Curve>(
        strips: &Strips,
        candidate: &Candidate,
        random: &mut impl RandomBytes,
    ) -> bool;
}

/// The only decision outside tests: never wrong.
pub(crate) struct Certain;

impl Decide for Certain {
    fn is_under_curve<C: Curve>(
        strips: &Strips,
        candidate: &Candidate,
        random: &mut impl RandomBytes,
    ) -> bool {
        candidate.quick_decision::<C>(strips).unwrap_or_else(|| candidate.exact_decision::<C>(random))
    }
}
