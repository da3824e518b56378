use super::{Strips, table};
use crate::exact::Dyadic;
use num_bigint::BigUint;
use std::sync::LazyLock;

/// Digits of the position that the integer bounds look at.
pub(super) const COARSE_BITS: u32 = 24;
/// Fraction bits of exponents and exponentials in the integer bounds.
pub(super) const EXPONENT_BITS: u32 = 30;

/// A density on [0, inf), up to a constant factor: f(x) = e^-q(x) with q(0) = 0 and q increasing.
///
/// The constants are chosen so that the boxes fit into the slot table (checked when it is built, and by a test):
/// LEVELS is the largest number that does.
pub(crate) trait Curve {
    /// A strip is 2^-STRIP_BITS wide.
    const STRIP_BITS: u32;
    /// A tail block is 2^-TAIL_BITS wide; f at least halves over one such width beyond the last strip.
    const TAIL_BITS: u32;
    /// Boxes in a strip of height f(0) = 1.
    const LEVELS: u64;
    /// Slots given to the tail.
    const TAIL_SLOTS: u64;

    /// q(x), exactly.
    fn exponent(x: &Dyadic) -> Dyadic;

    /// q(x) - q(x0) for x0 = cell * width and x = x0 + position * 2^-COARSE_BITS * width, width = 2^-width_bits, in
    /// units of 2^-EXPONENT_BITS, rounded down. Cells stay below 2^9 where this is called.
    fn coarse_exponent(cell: u64, width_bits: u32, position: u64) -> u64;

    /// The slot table of this curve, built at first use.
    fn strips() -> &'static Strips;
}

/// f(x) = e^(-x^2 / 2): with a fair sign, the standard normal. Strips end at 4.
pub(crate) struct HalfNormal;

impl Curve for HalfNormal {
    const STRIP_BITS: u32 = 6;
    const TAIL_BITS: u32 = 2; // f(x + 1/4) / f(x) <= e^(-1 - 1/32) < 1/2 for x >= 4
    const LEVELS: u64 = 201;
    const TAIL_SLOTS: u64 = 3;

    fn exponent(x: &Dyadic) -> Dyadic {
        Dyadic { numerator: &x.numerator * &x.numerator, fraction_bits: 2 * x.fraction_bits + 1 }
    }

    fn coarse_exponent(cell: u64, width_bits: u32, position: u64) -> u64 {
        // With y = position / 2^24: q(x) - q(x0) = y (2 cell + y) / 2^(2 width_bits + 1).
        // Largest product: 2^24 * 2^34.
        let product = position * (((2 * cell) << COARSE_BITS) + position);
        product >> (2 * COARSE_BITS + 2 * width_bits + 1 - EXPONENT_BITS)
    }

    fn strips() -> &'static Strips {
        static STRIPS: LazyLock<Strips> = LazyLock::new(table::build::<HalfNormal>);
        &STRIPS
    }
}

/// f(x) = e^-x: the standard exponential; with a fair sign, the standard Laplace. Strips end at 8.
pub(crate) struct UnitExponential;

impl Curve for UnitExponential {
    const STRIP_BITS: u32 = 5;
    const TAIL_BITS: u32 = 0; // f(x + 1) / f(x) = e^-1 < 1/2
    const LEVELS: u64 = 499;
    const TAIL_SLOTS: u64 = 11;

    fn exponent(x: &Dyadic) -> Dyadic {
        Dyadic { numerator: BigUint::clone(&x.numerator), fraction_bits: x.fraction_bits }
    }

    fn coarse_exponent(_cell: u64, width_bits: u32, position: u64) -> u64 {
        // y * width, exactly.
        position << (EXPONENT_BITS - COARSE_BITS - width_bits)
    }

    fn strips() -> &'static Strips {
        static STRIPS: LazyLock<Strips> = LazyLock::new(table::build::<UnitExponential>);
        &STRIPS
    }
}
