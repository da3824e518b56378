use super::candidate::{Place, error_bound, scaled_exponential};
use super::curve::COARSE_BITS;
use super::reference::{self, Reference};
use super::table::Crossing;
use super::*;
use crate::Law;
use crate::exact::{Dyadic, exp_neg};
use crate::keystream::testing::{Scripted, keystream};
use crate::statistics::{above, counts_fit, frequency_fits};
use num_bigint::BigUint;

/// Pretends that the integer bounds never decide, so that every tested point takes the arbitrary-precision path.
struct AlwaysRefine;

impl Decide for AlwaysRefine {
    fn is_under_curve<C: Curve>(_: &Strips, candidate: &Candidate, random: &mut impl RandomBytes) -> bool {
        candidate.exact_decision::<C>(random)
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
        let scripted = || Scripted::new(&script, strip as u8);

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

/// A broken sampler: the integer bounds cannot tell, and nobody refines. The verdict is fixed instead.
struct NeverRefine<const VERDICT: bool>;

impl<const VERDICT: bool> Decide for NeverRefine<VERDICT> {
    fn is_under_curve<C: Curve>(_: &Strips, _: &Candidate, _: &mut impl RandomBytes) -> bool {
        VERDICT
    }
}

/// Chi-square over 32 cells of [0, 4) and the rest, at level 1e-6.
fn magnitudes_fit<C: Curve, D: Decide>(law: Law, draws: usize) -> bool {
    let (precision, mut random) = (17, keystream(9));
    let mut counts = [0; 33];
    for _ in 0..draws {
        let draw = draw::<C, D>(C::strips(), Layout::new::<C>(precision), &mut *random);
        counts[(draw.magnitude >> (precision - 3)).min(32) as usize] += 1;
    }
    let sides = if law == Law::Normal { 2.0 } else { 1.0 };
    let tails: Vec<f64> = (0..=32).map(|i| sides * above(law, f64::from(i) / 8.0)).collect();
    let inner = tails.windows(2).map(|pair| pair[0] - pair[1]);
    counts_fit(&counts, &inner.chain([tails[32]]).collect::<Vec<_>>())
}

/// Hypothesis: the magnitudes have the exact law. With every tested point sent through refinement the test accepts; with
/// refinement missing (points kept, or dropped, without looking) it rejects.
#[test]
fn a_missing_refinement_is_rejected() {
    let draws = 500_000;
    assert!(magnitudes_fit::<HalfNormal, AlwaysRefine>(Law::Normal, draws));
    assert!(magnitudes_fit::<UnitExponential, AlwaysRefine>(Law::Exponential, draws));
    for (kept, dropped) in [
        (
            magnitudes_fit::<HalfNormal, NeverRefine<true>>(Law::Normal, 4_000_000),
            magnitudes_fit::<HalfNormal, NeverRefine<false>>(Law::Normal, 4_000_000),
        ),
        (
            magnitudes_fit::<UnitExponential, NeverRefine<true>>(Law::Exponential, 4_000_000),
            magnitudes_fit::<UnitExponential, NeverRefine<false>>(Law::Exponential, 4_000_000),
        ),
    ] {
        assert!(!kept, "points kept without looking are not seen");
        assert!(!dropped, "points dropped without looking are not seen");
    }
}

/// Tails that no plain sample reaches, block by block. The probability of a block is its slots (integers, compared one by
/// one above) times 2^-(block + 1) (coin runs, tested below) times the probability that a point of its box is kept. The last
/// is measured here by drawing in the box directly, for every block to 8 sigma (exponential: to 24), and compared with the
/// exact area under the curve, at level 1e-6 per block; so every exceedance P(X >= block start) is confirmed as their sum.
/// Power, wherever a block keeps at least 100 points (normal: all blocks to 7 sigma): the same counts reject a scale wrong by
/// 2 %, and a box twice as high or half as high.
fn tail_blocks_keep_what_they_should<C: Curve>(law: Law, trials: u64) {
    let total = if law == Law::Normal { (std::f64::consts::PI * 2.0).sqrt() } else { 1.0 };
    let mut random = keystream(11);
    for block in 0..16 {
        let place = || Place::tail::<C>(block);
        let mut position = [0; 10];
        for _ in 0..trials {
            let candidate = Candidate::new(place(), 20, random.take(3) >> 4, random.word());
            if Certain::is_under_curve::<C>(C::strips(), &candidate, &mut *random) {
                let inside = candidate.floor_at(20) as f64 / 2f64.powi(20 - C::TAIL_BITS as i32);
                position[(10.0 * (inside - place().cell as f64)) as usize] += 1;
            }
        }
        let kept: u64 = position.iter().sum();

        let width = 0.5f64.powi(C::TAIL_BITS as i32);
        let start = place().cell as f64 * width;
        let box_height = place().scale as f64 / (C::LEVELS as f64 * 2f64.powi(place().scale_bits as i32));
        let area_with_scale = |scale: f64| {
            total * (above(law, start / scale) - above(law, (start + width) / scale)) / (width * box_height)
        };
        assert!(frequency_fits(kept, trials, area_with_scale(1.0)), "block {block} kept {kept}");
        let wrong = [
            area_with_scale(0.98),
            area_with_scale(1.02),
            area_with_scale(1.0) * 2.0,
            area_with_scale(1.0) / 2.0,
        ];
        if trials as f64 * area_with_scale(1.0) >= 100.0 {
            assert!(wrong.iter().all(|&area| !frequency_fits(kept, trials, area.min(1.0))), "block {block}");
        } else {
            assert!(law == Law::Normal && start > 7.0, "no power in block {block}");
        }
        // Inside the block: ten cells, wherever each expects enough.
        let edge = |i: i32| above(law, start + width * f64::from(i) / 10.0);
        let inner: Vec<f64> = (0..10).map(|i| (edge(i) - edge(i + 1)) / (edge(0) - edge(10))).collect();
        if kept as f64 * inner[9] > 25.0 {
            assert!(counts_fit(&position, &inner), "inside block {block}");
        }
    }
}

#[test]
fn tails_are_exact_to_eight_sigma() {
    tail_blocks_keep_what_they_should::<HalfNormal>(Law::Normal, 3_000_000);
}

#[test]
fn exponential_tails_are_exact_to_twenty_four() {
    tail_blocks_keep_what_they_should::<UnitExponential>(Law::Exponential, 3_000_000);
}

/// Hypothesis: a run of n heads has probability 2^-(n+1). Runs of 15 and more share a cell. A run beyond one word is scripted.
#[test]
fn coin_runs_are_geometric_and_unbounded() {
    let mut random = keystream(12);
    let mut counts = [0; 16];
    for _ in 0..2_000_000 {
        counts[table::fair_run(&mut *random).min(15) as usize] += 1;
    }
    let mut probabilities: Vec<f64> = (1..16).map(|n| 0.5f64.powi(n)).collect();
    probabilities.push(0.5f64.powi(15));
    assert!(counts_fit(&counts, &probabilities));
    let biased: Vec<f64> = (0..15).map(|n| 0.495 * 0.505f64.powi(n)).chain([0.505f64.powi(15)]).collect();
    assert!(!counts_fit(&counts, &biased), "a coin wrong by 1 % is not rejected");

    let script = [[0xff; 16].as_slice(), &[0b111, 0, 0, 0, 0, 0, 0, 0]].concat();
    assert_eq!(table::fair_run(&mut Scripted::new(&script, 1)), 131);
}
