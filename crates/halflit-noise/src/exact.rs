//! Rigorous bounds on exponentials in integer arithmetic: the slow path of every sampler, and the builder of its
//! tables. Nothing here rounds to nearest: lower bounds round down, upper bounds round up, at every step.

use num_bigint::BigUint;

/// The number `numerator / 2^fraction_bits`.
pub(crate) struct Dyadic {
    pub(crate) numerator: BigUint,
    pub(crate) fraction_bits: u64,
}

/// Integers around a real number: `lower <= number * 2^precision <= upper` for the precision they were asked at.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) lower: BigUint,
    pub(crate) upper: BigUint,
}

/// Bounds on `e^-q * 2^precision`, a few units apart at most.
pub(crate) fn exp_neg(q: &Dyadic, precision: u64) -> Bounds {
    // Each squaring about doubles the relative error: `halvings` bits are lost, and 32 more keep the result tight.
    let excess = halvings(q) + 32;
    let Bounds { lower, upper } = exp_neg_without_spare_digits(q, precision + excess);
    Bounds { lower: lower >> excess, upper: shift_right_up(upper, excess) }
}

/// How often q is halved to come below 2^-8.
fn halvings(q: &Dyadic) -> u64 {
    q.numerator.bits().saturating_sub(q.fraction_bits) + 8
}

/// Bounds on `e^-q * 2^working`, valid but loose by the rounding of every step.
///
/// With r = q / 2^h below 2^-8 the Taylor series of e^-r alternates and its terms decrease, so partial sums that end in
/// a negative (positive) term are lower (upper) bounds; then h squarings. Each step rounds outward.
fn exp_neg_without_spare_digits(q: &Dyadic, working: u64) -> Bounds {
    let halvings = halvings(q);
    let r = rescale(q, halvings, working);
    // 2^-8m < 2^-working at m = working / 8 + 1; the parity of the last term decides the side.
    let last_term = 2 * (working / 16 + 1);
    let exponential = Bounds {
        lower: alternating_series(&r.upper, working, last_term + 1),
        upper: alternating_series(&r.lower, working, last_term),
    };
    (0..halvings).fold(exponential, |bounds, _| square(&bounds, working))
}

/// Bounds on the square of a number, in the same units of `2^-working`.
fn square(bounds: &Bounds, working: u64) -> Bounds {
    Bounds {
        lower: (&bounds.lower * &bounds.lower) >> working,
        upper: shift_right_up(&bounds.upper * &bounds.upper, working),
    }
}

/// Bounds on `q / 2^halvings` in units of `2^-working`.
fn rescale(q: &Dyadic, halvings: u64, working: u64) -> Bounds {
    let wanted = q.fraction_bits + halvings;
    if working >= wanted {
        let exact = &q.numerator << (working - wanted);
        Bounds { lower: exact.clone(), upper: exact }
    } else {
        let excess = wanted - working;
        Bounds { lower: &q.numerator >> excess, upper: shift_right_up(q.numerator.clone(), excess) }
    }
}

/// The sum over m = 0..=last_term of (-r)^m / m!, r and the result in units of `2^-working`: rounded up if the last
/// term is positive (even), down if it is negative (odd).
fn alternating_series(r: &BigUint, working: u64, last_term: u64) -> BigUint {
    let round_up = last_term.is_multiple_of(2);
    let one = BigUint::from(1u8) << working;
    let (mut term_down, mut term_up) = (one.clone(), one.clone());
    let (mut positive, mut negative) = (one, BigUint::ZERO);
    for m in 1..=last_term {
        term_down = ((term_down * r) >> working) / m;
        term_up = divide_up(shift_right_up(term_up * r, working), m);
        if m.is_multiple_of(2) {
            positive += if round_up { &term_up } else { &term_down };
        } else {
            negative += if round_up { &term_down } else { &term_up };
        }
    }
    positive - negative
}

/// The quotient by `2^bits`, rounded up.
pub(crate) fn shift_right_up(value: BigUint, bits: u64) -> BigUint {
    let down = &value >> bits;
    if &down << bits == value { down } else { down + 1u8 }
}

fn divide_up(value: BigUint, divisor: u64) -> BigUint {
    (value + (divisor - 1)) / divisor
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn dyadic(numerator: u64, fraction_bits: u64) -> Dyadic {
        Dyadic { numerator: numerator.into(), fraction_bits }
    }

    #[test]
    fn exponential_of_zero_is_exactly_one() {
        let one = BigUint::from(1u8) << 100u32;
        assert_eq!(exp_neg(&dyadic(0, 7), 100), Bounds { lower: one.clone(), upper: one });
    }

    /// Values of floor(e^-q * 2^192) made with mpmath 1.3.0 at 400 digits (golden/exponentials.py).
    #[test]
    fn bounds_enclose_values_from_arbitrary_precision_software() {
        for line in include_str!("../golden/exponentials.csv").lines().filter(|line| !line.starts_with('#')) {
            let fields: Vec<&str> = line.split(',').collect();
            let q = dyadic(fields[0].parse().unwrap(), fields[1].parse().unwrap());
            let golden: BigUint = fields[2].parse().unwrap();
            let Bounds { lower, upper } = exp_neg(&q, 192);
            assert!(lower <= golden && golden <= upper, "e^-({}/2^{})", fields[0], fields[1]);
            assert!(upper - lower <= BigUint::from(2u8), "{line}");
        }
    }

    proptest! {
        /// e^-(a+b) = e^-a e^-b: the product of bounds must meet the bounds of the sum.
        #[test]
        fn products_agree(a in 0u64..1 << 40, b in 0u64..1 << 40) {
            let precision = 90;
            let (left, right) = (exp_neg(&dyadic(a, 36), precision), exp_neg(&dyadic(b, 36), precision));
            let sum = exp_neg(&dyadic(a + b, 36), precision);
            prop_assert!((&left.lower * &right.lower) >> precision <= sum.upper);
            prop_assert!(shift_right_up(&left.upper * &right.upper, precision) >= sum.lower);
        }

        /// With no spare digits every rounding shows: one in the wrong direction would let the truth escape.
        #[test]
        fn every_rounding_is_outward(a in prop_oneof![0u64..1 << 42, 1u64..1 << 10], working in 12u64..80) {
            let (loose, fine) = (exp_neg_without_spare_digits(&dyadic(a, 40), working), exp_neg(&dyadic(a, 40), working + 64));
            prop_assert!(loose.lower << 64u32 <= fine.lower);
            prop_assert!(loose.upper << 64u32 >= fine.upper);
        }

        #[test]
        fn squares_round_outward(lower in any::<u64>(), upper in any::<u64>(), working in 1u64..64) {
            let squared = square(&Bounds { lower: lower.into(), upper: upper.into() }, working);
            prop_assert!(squared.lower << working <= BigUint::from(lower).pow(2));
            prop_assert!(squared.upper << working >= BigUint::from(upper).pow(2));
        }

        #[test]
        fn more_precision_stays_inside(a in 0u64..1 << 44, precision in 10u64..200) {
            let (coarse, fine) = (exp_neg(&dyadic(a, 40), precision), exp_neg(&dyadic(a, 40), precision + 64));
            prop_assert!(&coarse.lower << 64u32 <= fine.upper);
            prop_assert!(coarse.upper << 64u32 >= fine.lower);
        }
    }
}
