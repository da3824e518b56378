//! Continuous laws rounded to the lattice once: the noise of every release.

use crate::NoiseError;
use crate::keystream::RandomBytes;
use crate::source::{Stream, Threads};
use crate::strips::{Certain, Draw, HalfNormal, UnitExponential, fill};

/// A continuous law at scale one, from which integers are drawn as `round(2^bits * Z)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Law {
    /// Standard normal: mean 0, variance 1.
    Normal,
    /// Standard Laplace: density e^-|z| / 2.
    Laplace,
    /// Standard exponential: density e^-z on z >= 0.
    Exponential,
}

/// How many binary digits after the point a rounded draw keeps: the lattice unit is 2^-bits of the noise scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FractionBits(u32);

impl FractionBits {
    /// The fewest fraction bits: the lattice is 2^-16 of the noise scale.
    pub const LEAST: FractionBits = FractionBits(16);
    /// The most fraction bits: the lattice is 2^-44 of the noise scale.
    pub const MOST: FractionBits = FractionBits(44);

    /// Checks that `bits` is in 16..=44.
    pub fn new(bits: u32) -> Result<Self, NoiseError> {
        let (least, most) = (Self::LEAST.0, Self::MOST.0);
        if (least..=most).contains(&bits) {
            Ok(FractionBits(bits))
        } else {
            Err(NoiseError::FractionBits { value: bits, least, most })
        }
    }

    /// The number of bits.
    pub fn get(self) -> u32 {
        self.0
    }

    /// 2^bits: the scale of a rounded draw in lattice units.
    pub fn scale(self) -> f64 {
        (1u64 << self.0) as f64
    }

    /// Every allowed number, the finest lattice first.
    pub(crate) fn finest_first() -> impl Iterator<Item = FractionBits> {
        (Self::LEAST.0..=Self::MOST.0).rev().map(FractionBits)
    }

    /// Digits after the point that decide `round(2^bits * x)`: one more than the result keeps.
    pub(crate) const fn precision(self) -> u32 {
        self.0 + 1
    }
}

/// `floor(2^(k+1) x)` to `round(2^k x)`, halves up.
#[inline(always)]
fn halve_up(magnitude: u64) -> i64 {
    // Magnitudes stop at 2^63 - 1, so neither the addition nor the cast can wrap.
    (magnitude.wrapping_add(1) >> 1) as i64
}

/// The magnitude with its sign, without a branch.
#[inline(always)]
fn signed(draw: Draw) -> i64 {
    let sign = draw.sign as i64;
    (halve_up(draw.magnitude) ^ sign.wrapping_neg()).wrapping_add(sign)
}

#[inline(always)]
fn unsigned(draw: Draw) -> i64 {
    halve_up(draw.magnitude)
}

impl Law {
    /// Fills `out` with independent draws, in order, from one run of random bytes.
    pub(crate) fn fill(self, bits: FractionBits, random: &mut impl RandomBytes, out: &mut [i64]) {
        let precision = bits.precision();
        match self {
            Law::Normal => fill::<HalfNormal, Certain>(precision, random, out, signed),
            Law::Laplace => fill::<UnitExponential, Certain>(precision, random, out, signed),
            Law::Exponential => fill::<UnitExponential, Certain>(precision, random, out, unsigned),
        }
    }
}

impl Stream {
    /// One integer `round(2^bits * Z)` for an exact Z of the law. For more than a few, fill a slice.
    pub fn rounded(&mut self, law: Law, bits: FractionBits) -> i64 {
        let mut value = [0];
        law.fill(bits, self.bytes(), &mut value);
        value[0]
    }

    /// Fills `out` with independent integers `round(2^bits * Z)`, on the calling thread.
    pub fn fill_rounded(&mut self, law: Law, bits: FractionBits, out: &mut [i64]) {
        self.fill_chunks(out, Threads::Caller, |random, chunk| law.fill(bits, random, chunk));
    }

    /// Fills `out` as [`Stream::fill_rounded`] does, with the same result, on all threads of the current rayon pool.
    ///
    /// A forked child has no pool threads: use [`Stream::fill_rounded`] there.
    pub fn par_fill_rounded(&mut self, law: Law, bits: FractionBits, out: &mut [i64]) {
        self.fill_chunks(out, Threads::Pool, |random, chunk| law.fill(bits, random, chunk));
    }
}

#[cfg(test)]
mod tests;
