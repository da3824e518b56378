//! Exact draws from a decreasing density: vertical strips of equal width, cut into boxes of equal area.
//!
//! The area under the curve f on [0, 256 strips) is covered by boxes one strip wide and 1/LEVELS high; the rest by
//! tail blocks, each twice as light as the one before. A box is chosen by 14 random bits (a *slot* of a table), a
//! uniform point in it by further random digits. Boxes that lie wholly under the curve need no test: they take 95 to
//! 97 % of all draws. In the others the point is kept iff it lies under the curve, decided by integer bounds or, when
//! those cannot tell, by arbitrary-precision bounds on more and more random digits. No floating point anywhere.
//!
//! The argument that the law is exact is in `proof.md`, sections 2 to 5.

mod candidate;
mod curve;
mod table;

pub(crate) use candidate::{Candidate, Certain, Decide};
pub(crate) use curve::{Curve, HalfNormal, UnitExponential};
pub(crate) use table::Strips;

use crate::keystream::RandomBytes;

/// Bits of the first word that choose a slot.
const SLOT_BITS: u32 = 14;
const SLOTS: usize = 1 << SLOT_BITS;
/// Strips before the tail: one byte in the slot table.
const STRIPS: usize = 256;

/// How the bits of a draw are spent, for a result with `precision` binary digits after the point.
///
/// First word, from its lowest bit: slot (14), sign (1), then the leading digits of the position inside the strip.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    precision: u32,
    /// Bytes of the first word: the fewest that hold slot, sign and the digits of the result.
    bytes: u32,
    /// Position digits in the first word.
    digits: u32,
    /// Position digits that the result of a plain box needs.
    kept: u32,
}

impl Layout {
    pub(crate) const fn new<C: Curve>(precision: u32) -> Self {
        let kept = precision - C::STRIP_BITS;
        let bytes = (SLOT_BITS + 1 + kept).div_ceil(8);
        Layout { precision, bytes, digits: 8 * bytes - SLOT_BITS - 1, kept }
    }
}

/// One draw: a fair sign and `floor(2^precision * X)` for X with density proportional to the curve on [0, inf).
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Draw {
    /// 1 or 0, with probability one half each, independent of the magnitude.
    pub(crate) sign: u64,
    pub(crate) magnitude: u64,
}

/// Draws once. `D` decides whether a point lies under the curve; everything but tests uses [`Certain`].
#[inline(always)]
pub(crate) fn draw<C: Curve, D: Decide>(
    strips: &Strips,
    layout: Layout,
    random: &mut impl RandomBytes,
) -> Draw {
    loop {
        let word = random.take(layout.bytes);
        let slot = word as usize % SLOTS;
        let sign = (word >> SLOT_BITS) & 1;
        let digits = word >> (SLOT_BITS + 1);
        if slot < strips.plain_slots {
            let strip = u64::from(strips.strip_of_slot[slot]);
            // floor(2^precision * (strip + position) * 2^-STRIP_BITS)
            let magnitude = strip << layout.kept | digits >> (layout.digits - layout.kept);
            return Draw { sign, magnitude };
        }
        if let Some(magnitude) = test_point::<C, D>(strips, layout, slot, digits, random) {
            return Draw { sign, magnitude };
        }
    }
}

/// Fills `out` with `finish(draw)` for one [`draw`] after the other.
pub(crate) fn fill<C: Curve, D: Decide>(
    precision: u32,
    random: &mut impl RandomBytes,
    out: &mut [i64],
    finish: impl Fn(Draw) -> i64,
) {
    let (strips, layout) = (C::strips(), Layout::new::<C>(precision));
    for value in out {
        *value = finish(draw::<C, D>(strips, layout, random));
    }
}

/// Completes a draw that fell into a box crossing the curve, into the tail, or into an unused slot: the magnitude, or
/// nothing if the point is above the curve and everything must be drawn again.
#[cold]
#[inline(never)]
fn test_point<C: Curve, D: Decide>(
    strips: &Strips,
    layout: Layout,
    slot: usize,
    digits: u64,
    random: &mut impl RandomBytes,
) -> Option<u64> {
    let place = strips.place::<C>(slot, random)?;
    let candidate = Candidate::new(place, layout.digits, digits, random.word());
    D::is_under_curve::<C>(strips, &candidate, random).then(|| candidate.floor_at(layout.precision))
}

#[cfg(test)]
pub(crate) mod reference;
#[cfg(test)]
mod tests;
