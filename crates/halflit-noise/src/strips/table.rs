use super::candidate::Place;
use super::curve::{COARSE_BITS, EXPONENT_BITS};
use super::{Curve, SLOTS, STRIPS};
use crate::exact::{Bounds, Dyadic, exp_neg, shift_right_up};
use crate::keystream::RandomBytes;
use num_bigint::BigUint;

/// Tail blocks for which integer bounds are tabulated; later ones (probability 2^-16 of a tail draw) go straight to
/// arbitrary precision.
const TAIL_BASES: usize = 16;
/// e^(-m/16) for m below this: covers the exponent across one tabulated tail block, at most 63/32.
const STEPS: usize = 32;
/// Precision of the exponentials that the table is built from.
const BUILD_PRECISION: u64 = 96;

/// What each of the 2^14 slots stands for, and the heights that the integer bounds start from.
pub(crate) struct Strips {
    /// Slots below this are boxes wholly under the curve: no test is needed.
    pub(super) plain_slots: usize,
    /// The strip of each plain slot.
    pub(super) strip_of_slot: Box<[u8; SLOTS]>,
    /// The boxes crossing the curve: they own the slots after the plain ones, in this order; the tail comes next.
    pub(super) crossing: Vec<Crossing>,
    /// 2^24 LEVELS f(strip start), rounded down.
    strip_base: [u64; STRIPS],
    /// 2^24 f(block start) / (height of the block's box), rounded down.
    tail_base: [u64; TAIL_BASES],
    /// 2^30 e^(-m/16), rounded down.
    step: [u64; STEPS],
}

/// A box whose top is above the curve somewhere in its strip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Crossing {
    pub(super) strip: u16,
    pub(super) level: u16,
}

impl Strips {
    /// Which box a slot that is not plain stands for; nothing for an unused slot. Draws the block number in the tail.
    pub(super) fn place<C: Curve>(&self, slot: usize, random: &mut impl RandomBytes) -> Option<Place> {
        let index = slot - self.plain_slots;
        if let Some(crossing) = self.crossing.get(index) {
            return Some(Place::strip::<C>(*crossing));
        }
        (index - self.crossing.len() < C::TAIL_SLOTS as usize).then(|| Place::tail::<C>(fair_run(random)))
    }

    /// The height that the integer bounds start from, in units of 2^-24 box heights, if it is tabulated.
    pub(super) fn base(&self, place: &Place) -> Option<u64> {
        match place.tail_block {
            None => self.strip_base.get(place.cell as usize).copied(),
            Some(block) => self.tail_base.get(usize::try_from(block).ok()?).copied(),
        }
    }

    /// 2^30 e^(-m/16), rounded down.
    pub(super) fn step(&self, sixteenths: u64) -> u64 {
        self.step[sixteenths as usize]
    }
}

/// The number of heads before the first tail of a fair coin: n with probability 2^-(n+1), without a limit.
pub(super) fn fair_run(random: &mut impl RandomBytes) -> u64 {
    let mut run = 0;
    loop {
        let word = random.word();
        run += u64::from(word.trailing_ones());
        if word != u64::MAX {
            return run;
        }
    }
}

/// Bounds on 2^BUILD_PRECISION f(cell / 2^width_bits).
fn height<C: Curve>(cell: u64, width_bits: u32) -> Bounds {
    let x = Dyadic { numerator: cell.into(), fraction_bits: width_bits.into() };
    exp_neg(&C::exponent(&x), BUILD_PRECISION)
}

/// Builds the table of a curve from rigorous bounds on its heights: about a millisecond, once per process.
pub(super) fn build<C: Curve>() -> Strips {
    let heights: Vec<Bounds> = (0..=STRIPS as u64).map(|i| height::<C>(i, C::STRIP_BITS)).collect();
    let mut strip_of_slot = Box::new([0; SLOTS]);
    let mut plain_slots = 0;
    let mut crossing = Vec::new();
    for strip in 0..STRIPS {
        // A box is plain if its top is at most f at the right end (rounded down), and needed if its bottom is below f
        // at the left end (rounded up).
        let plain = to_u64((&heights[strip + 1].lower * C::LEVELS) >> BUILD_PRECISION);
        let needed = to_u64(shift_right_up(&heights[strip].upper * C::LEVELS, BUILD_PRECISION));
        for slot in &mut strip_of_slot[plain_slots..plain_slots + plain as usize] {
            *slot = strip as u8;
        }
        plain_slots += plain as usize;
        crossing.extend((plain..needed).map(|level| Crossing { strip: strip as u16, level: level as u16 }));
    }
    assert!(plain_slots + crossing.len() + C::TAIL_SLOTS as usize <= SLOTS, "boxes outnumber slots");

    // 2^24 LEVELS f 2^scale_bits / scale, rounded down.
    let base = |bounds: &Bounds, place: &Place| {
        let scaled = ((&bounds.lower * C::LEVELS) << place.scale_bits) / place.scale;
        to_u64(scaled >> (BUILD_PRECISION - u64::from(COARSE_BITS)))
    };
    Strips {
        plain_slots,
        strip_of_slot,
        crossing,
        strip_base: std::array::from_fn(|strip| {
            base(&heights[strip], &Place::strip::<C>(Crossing { strip: strip as u16, level: 0 }))
        }),
        tail_base: std::array::from_fn(|block| {
            let place = Place::tail::<C>(block as u64);
            base(&height::<C>(place.cell, place.width_bits), &place)
        }),
        step: std::array::from_fn(|m| {
            let q = Dyadic { numerator: m.into(), fraction_bits: 4 };
            to_u64(exp_neg(&q, BUILD_PRECISION).lower >> (BUILD_PRECISION - u64::from(EXPONENT_BITS)))
        }),
    }
}

/// Heights and counts in a table are below 2^34 by construction.
fn to_u64(value: BigUint) -> u64 {
    value.iter_u64_digits().next().unwrap_or(0)
}
