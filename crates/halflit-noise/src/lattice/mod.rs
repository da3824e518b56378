//! The lattice: integers that meet their noise exactly.
//!
//! A private statistic is a sum of integer vectors, one per unit, each of norm at most an integer radius B. The noise
//! has scale exactly 2^k in the same integers, so the ratio that privacy depends on, 2^k / B, is a ratio of integers.
//! Real numbers appear before (what an integer stands for) and after (the released value), never in between.
//!
//! | rounding | direction | why it is safe |
//! |---|---|---|
//! | B = floor(2^k / noise multiplier) | down, exactly | a smaller B means relatively more noise |
//! | [`SumLattice::noise_multiplier`] | down, at least the one asked for | what is priced is not more than what is done |
//! | [`SumLattice::unit`] | to nearest | only gives integers a meaning; privacy does not depend on it |
//! | [`RealLattice`]: g | up | more noise than asked for |
//! | [`RealLattice::noise_multiplier`] | down at every operation | as above |
//! | real value to integer | to nearest, exactly | moves each coordinate by at most half a unit, which is priced |

mod clip;
mod real;
mod sum;

pub use clip::{clip, coefficient_limit};
pub use real::{RealLattice, RealRequest};
pub use sum::{SumLattice, SumRequest};

use crate::{FractionBits, Law, Stream};
use thiserror::Error;
use zeroize::Zeroizing;

/// The norm that bounds what one unit contributes; it decides the law of the noise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Norm {
    /// Sum of absolute values: Laplace noise, pure differential privacy.
    L1,
    /// Euclidean: normal noise.
    L2,
}

impl Norm {
    /// The law of the noise that hides a contribution bounded in this norm.
    pub fn law(self) -> Law {
        match self {
            Norm::L1 => Law::Laplace,
            Norm::L2 => Law::Normal,
        }
    }
}

/// Quantization must be at least 2^10 finer than the noise.
const FINENESS_BITS: u32 = 10;
/// Sums and rounded values stay below 2^62, so that adding noise cannot leave the 64-bit range.
const RANGE_BITS: u32 = 62;

/// Why no lattice fits a request.
#[derive(Debug, Error, Clone, PartialEq)]
#[non_exhaustive]
pub enum LatticeError {
    /// A number that must be finite and positive is not.
    #[error("{name} is {value}; it must be a finite number above 0")]
    NotPositive {
        /// Which number.
        name: &'static str,
        /// Its value.
        value: f64,
    },
    /// The product of two numbers leaves the range of doubles.
    #[error("{name} is {value}, outside the range of doubles; rescale the data")]
    OutOfRange {
        /// Which number.
        name: &'static str,
        /// What came out.
        value: f64,
    },
    /// A sum could overflow even on the coarsest lattice.
    #[error(
        "units * headroom * radius must stay below 2^62 and the radius at most {radius_cap}, but even the coarsest \
         lattice gives {units} * {headroom} * {radius}; use fewer units, more noise or a larger cap"
    )]
    SumTooLarge {
        /// The number of units in the sum.
        units: u64,
        /// How many times over the sum must fit.
        headroom: u64,
        /// The integer radius on the coarsest lattice.
        radius: u64,
        /// The largest radius wanted.
        radius_cap: u64,
    },
    /// The noise is so large that a contribution rounds to nothing.
    #[error(
        "a noise multiplier of {noise_multiplier:.2e} is above 2^44 and leaves no signal; use less noise, which takes a larger epsilon"
    )]
    NoSignal {
        /// The noise multiplier asked for.
        noise_multiplier: f64,
    },
    /// Values span too many units even on the coarsest lattice.
    #[error(
        "a value bound of {value_bound} is {units:e} units of the coarsest lattice, at most 2^61 fit; \
         lower the bound, or rescale the values"
    )]
    ValueBound {
        /// The bound asked for.
        value_bound: f64,
        /// How many lattice units that is.
        units: f64,
    },
    /// Rounding so many coordinates costs too much sensitivity even on the finest lattice.
    #[error(
        "rounding {dimension} coordinates would take more than 2^-10 of the noise; release fewer at once"
    )]
    Dimension {
        /// The number of coordinates.
        dimension: usize,
    },
    /// The finest lattice that fits quantizes too coarsely.
    #[error(
        "the finest lattice that fits has {bits} fraction bits, but the rounding of {units} units needs {needed}; \
         use a smaller step, fewer units or a larger radius cap"
    )]
    TooCoarse {
        /// The fraction bits that fit.
        bits: u32,
        /// The number of units in the sum.
        units: u64,
        /// The fraction bits needed.
        needed: u32,
    },
    /// A vector does not have the planned number of coordinates.
    #[error("the vector has {given} coordinates, the lattice was planned for {planned}")]
    WrongDimension {
        /// The length given.
        given: usize,
        /// The length planned.
        planned: usize,
    },
}

/// `value` if it is finite and above zero.
fn positive(name: &'static str, value: f64) -> Result<f64, LatticeError> {
    if value.is_finite() && value > 0.0 { Ok(value) } else { Err(LatticeError::NotPositive { name, value }) }
}

/// `value` if it is a normal double: far enough from zero and infinity that scaling by powers of two is exact.
fn in_range(name: &'static str, value: f64) -> Result<f64, LatticeError> {
    if value.is_normal() { Ok(value) } else { Err(LatticeError::OutOfRange { name, value }) }
}

/// Adds `round(2^bits * Z)` to every coordinate, in parallel when there are many.
///
/// Saturates instead of wrapping. With sums below 2^62 that takes |Z| >= 2^(62 - bits) >= 2^18.
fn add_rounded(law: Law, bits: FractionBits, stream: &mut Stream, sums: &mut [i64]) {
    let mut noise = Zeroizing::new(vec![0; sums.len()]);
    stream.par_fill_rounded(law, bits, &mut noise);
    for (sum, noise) in sums.iter_mut().zip(noise.iter()) {
        *sum = sum.saturating_add(*noise);
    }
}
