use super::candidate::{Place, error_bound, scaled_exponential};
use super::curve::COARSE_BITS;
use super::reference::{self, Reference};
use super::table::Crossing;
use super::*;
use crate::exact::{Dyadic, exp_neg};
use crate::keystream::{Key, Keystream};
use num_bigint::BigUint;

/// Pretends that the integer bounds never decide, so that every tested point takes the arbitrary-precision path.
struct AlwaysRefine;

impl Decide for AlwaysRefine {
    fn is_under_curve<C: Curve>(_: &Strips, candidate: &Candidate, random: &mut impl RandomBytes) -> bool {
        candidate.exact_decision::<C>(random)
    }
}

fn keystream(seed: u8) -> Box<Keystream> {
    Keystream::from_key(&Key::new([seed; 32]))
}

/// Given bytes first, then a keystream; counts what was taken.
struct Scripted {
    script: Vec<u8>,
    then: Box<Keystream>,
    taken: usize,
}

impl RandomBytes for Scripted {
    fn take(&mut self, bytes: u32) -> u64 {
        self.taken += bytes as usize;
        if self.script.is_empty() {
            return self.then.take(bytes);
        }
        let rest = self.script.split_off(bytes as usize);
        let taken = std::mem::replace(&mut self.script, rest);
        taken.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
    }
}

fn replays<C: Curve, D: Decide>(seed: u8, draws: usize) {
    let reference = Reference::new::<C>();
    for bits in [16, 22, 23, 32, 44] {
        let precision = bits + 1;
        let layout = Layout::new::<C>(precision);
        let (mut fast, mut slow) = (keystream(seed), keystream(seed));
        for i in 0..draws {
            let got = draw::<C, D>(C::strips(), layout, &mut *fast);
            let expected = reference.draw::<C>(precision, &mut *slow);
            assert_eq!(got, expected, "draw {i} at {bits} bits");
            assert_eq!(fast.bytes_drawn(), slow.bytes_drawn(), "bytes after draw {i} at {bits} bits");
        }
    }
}

#[test]
fn normal_draws_equal_the_reference() {
    replays::<HalfNormal, Certain>(1, 20_000);
}

#[test]
fn exponential_draws_equal_the_reference() {
    replays::<UnitExponential, Certain>(2, 20_000);
}

#[test]
fn forced_refinement_draws_equal_the_reference() {
    replays::<HalfNormal, AlwaysRefine>(3, 4_000);
    replays::<UnitExponential, AlwaysRefine>(4, 4_000);
}

/// Points whose known digits straddle the curve: the first comparison cannot be decided by any arithmetic, so both
/// samplers must draw more digits, and then agree. Checked on every strip, and both verdicts must occur.
fn straddling_points_are_refined<C: Curve>() {
    let strips = C::strips();
    let reference = Reference::new::<C>();
    let layout = Layout::new::<C>(33);
    let (mut kept, mut dropped) = (0, 0);
    for (index, &Crossing { strip, level }) in strips.crossing.iter().enumerate() {
        // The position digits of both words are zero: x is in [x0, x0 + 2^-x_bits). The height digits are the leading
        // 32 of the curve at x0 + 2^-(x_bits + 1), if the curve is inside the box there.
        let x_bits = u64::from(layout.digits + 32 + C::STRIP_BITS);
        let numerator = (BigUint::from(2 * strip) << (layout.digits + 32)) + 1u8;
        let x = Dyadic { numerator, fraction_bits: x_bits + 1 };
        let scaled = (exp_neg(&C::exponent(&x), 128).lower * C::LEVELS) >> 96u32;
        let curve = u64::try_from(scaled).unwrap();
        if curve >> 32 != u64::from(level) {
            continue;
        }
        let slot = (strips.plain_slots + index) as u64;
        let mut script = slot.to_le_bytes()[..layout.bytes as usize].to_vec();
        script.extend((curve << 32).to_le_bytes());
        let scripted = || Scripted { script: script.clone(), then: keystream(strip as u8), taken: 0 };

        let (mut fast, mut slow) = (scripted(), scripted());
        let got = draw::<C, Certain>(strips, layout, &mut fast);
        let expected = reference.draw::<C>(33, &mut slow);
        assert_eq!((got, fast.taken), (expected, slow.taken), "strip {strip}");
        // First word, second word, and at least one more word for each of position and height.
        assert!(fast.taken >= layout.bytes as usize + 24, "strip {strip} was decided without refinement");
        let first_verdict = fast.taken == layout.bytes as usize + 24;
        if first_verdict { kept += 1 } else { dropped += 1 }
    }
    assert!(kept > 20 && dropped > 20, "kept {kept}, dropped {dropped}");
}

#[test]
fn straddling_points_need_and_get_more_digits() {
    straddling_points_are_refined::<HalfNormal>();
    straddling_points_are_refined::<UnitExponential>();
}

/// The integer bounds hold at both ends of every coarse position, for every strip and every tabulated tail block.
fn integer_bounds_hold<C: Curve>() {
    let strips = C::strips();
    let in_strips = (0..STRIPS as u16).map(|strip| Place::strip::<C>(Crossing { strip, level: 0 }));
    let in_tail = (0..16).map(Place::tail::<C>);
    let last = (1u64 << COARSE_BITS) - 1;
    for (index, place) in in_strips.chain(in_tail).enumerate() {
        let base = strips.base(&place).unwrap();
        let spread = (0..24).map(|i| (i * 0x9e_3779 + index as u64 * 0x5_bd1e) % last);
        for position in spread.chain([0, 1, last - 1, last]) {
            let t = C::coarse_exponent(place.cell, place.width_bits, position);
            let curve = scaled_exponential(strips, base, t);
            // 2^24 LEVELS 2^scale_bits / scale f(x) at the two ends of the coarse position, times 2^100.
            let truth = |position: u64| {
                let numerator = (BigUint::from(place.cell) << COARSE_BITS) + position;
                let x = Dyadic { numerator, fraction_bits: u64::from(COARSE_BITS + place.width_bits) };
                let bounds = exp_neg(&C::exponent(&x), 140);
                let scaled = |f: BigUint| ((f * C::LEVELS) << (24 + place.scale_bits)) / place.scale;
                let scale = |f: BigUint| scaled(f) >> 40u32;
                (scale(bounds.lower), scale(bounds.upper) + 1u8)
            };
            let margin = error_bound(base);
            let shifted = |value: u64| BigUint::from(value) << 100u32;
            let (least, greatest) = (truth(position + 1).0, truth(position).1);
            assert!(shifted(curve + margin) >= greatest, "{place:?} at {position}: curve above the bound");
            assert!(
                shifted(curve.saturating_sub(margin)) <= least,
                "{place:?} at {position}: curve below the bound"
            );
        }
    }
}

#[test]
fn integer_bounds_enclose_the_curve() {
    integer_bounds_hold::<HalfNormal>();
    integer_bounds_hold::<UnitExponential>();
}

/// The table is the box cover that the proof speaks of: slot weights compared as integers, one by one.
fn slots_are_the_cover<C: Curve>() {
    let strips = C::strips();
    let mut plain = [0u64; STRIPS];
    for &strip in &strips.strip_of_slot[..strips.plain_slots] {
        plain[strip as usize] += 1;
    }
    let mut crossing = Vec::new();
    for (strip, &count) in plain.iter().enumerate() {
        let (under, needed) = reference::box_counts::<C>(strip as u64);
        assert_eq!(count, under, "plain boxes of strip {strip}");
        crossing.extend((under..needed).map(|level| Crossing { strip: strip as u16, level: level as u16 }));
    }
    assert_eq!(strips.crossing, crossing);
    assert!(strips.plain_slots + crossing.len() + C::TAIL_SLOTS as usize <= SLOTS);
}

#[test]
fn slot_weights_are_exact() {
    slots_are_the_cover::<HalfNormal>();
    slots_are_the_cover::<UnitExponential>();
}

/// Every tail box covers the curve over its block: f at the block's left end is below the box height.
fn tail_boxes_cover<C: Curve>() {
    // Far enough to see; the proof shows that f halves from block to block and so does the box.
    for block in 0..32 {
        let place = Place::tail::<C>(block);
        let x = Dyadic { numerator: place.cell.into(), fraction_bits: place.width_bits.into() };
        let (_, f) = reference::exp_neg(&C::exponent(&x), 400);
        // f <= scale / (LEVELS 2^scale_bits)
        assert!((f * C::LEVELS) << place.scale_bits <= BigUint::from(place.scale) << 400u32, "block {block}");
    }
}

#[test]
fn tail_boxes_cover_the_curve() {
    tail_boxes_cover::<HalfNormal>();
    tail_boxes_cover::<UnitExponential>();
}

#[test]
fn magnitudes_saturate_instead_of_wrapping() {
    let place = Place::tail::<HalfNormal>(u64::MAX);
    let candidate = Candidate::new(place, 20, 0, 0);
    assert_eq!(candidate.floor_at(45), i64::MAX as u64);
}
