//! Poisson subsampling: every unit is included independently with one rational probability.
//!
//! The list of included units is drawn by jumping from one to the next, so that the time is proportional to the sample
//! and not to the table. The argument is in proof.md, section 8.

use crate::discrete::Coin;
use crate::exact::{Bounds, Dyadic, exp_neg};
use crate::keystream::RandomBytes;
use crate::strips::{Certain, Curve, Layout, UnitExponential, draw};
use crate::{FractionBits, Probability, Stream};
use num_bigint::BigUint;

/// A sampling rate prepared for many subsamples: making it takes microseconds, using it nanoseconds per unit drawn.
#[derive(Clone, Debug)]
pub struct PoissonSampler {
    rate: Probability,
    method: Method,
}

#[derive(Clone, Debug)]
enum Method {
    /// Rate zero.
    Nobody,
    /// A coin for every unit: rates above one quarter, where jumping saves nothing.
    EveryUnit(Coin),
    /// Jumps to candidates, each kept by a coin.
    Gaps(Thinning),
}

impl PoissonSampler {
    /// Prepares the rate.
    pub fn new(rate: Probability) -> Self {
        let ratio = rate.ratio();
        let method = if ratio.numerator() == 0 {
            Method::Nobody
        } else if u128::from(ratio.numerator()) * 4 > u128::from(ratio.denominator().get()) {
            Method::EveryUnit(Coin::new(rate))
        } else {
            Method::Gaps(Thinning::new(rate))
        };
        PoissonSampler { rate, method }
    }

    /// The probability with which each unit is included.
    pub fn rate(&self) -> Probability {
        self.rate
    }

    fn draw(&self, units: u32, random: &mut impl RandomBytes) -> Vec<u32> {
        match &self.method {
            Method::Nobody => Vec::new(),
            Method::EveryUnit(coin) => (0..units).filter(|_| coin.throw(random)).collect(),
            Method::Gaps(thinning) => {
                let ratio = self.rate.ratio();
                let expected = u64::from(units) as u128 * u128::from(ratio.numerator())
                    / u128::from(ratio.denominator().get());
                let mut included = Vec::with_capacity((expected + expected / 8) as usize + 16);
                let mut unit = thinning.gap(random);
                while let Ok(candidate) = u32::try_from(unit)
                    && candidate < units
                {
                    if thinning.keeps(random) {
                        included.push(candidate);
                    }
                    unit = unit + 1 + thinning.gap(random);
                }
                included
            }
        }
    }
}

/// Candidates with probability c = 1 - e^(-2^-shift) >= rate, one by one, each kept with probability rate / c.
#[derive(Clone, Debug)]
struct Thinning {
    rate: Probability,
    shift: u32,
    /// The integer part of 2^64 rate / c, which is irrational and below 2^64.
    keep_digit: u64,
}

impl Thinning {
    /// For a rate in (0, 1/4].
    fn new(rate: Probability) -> Self {
        // The sparsest candidates that are frequent enough: c >= 2^-s - 2^-(2s+1) >= rate. Holds at s = 1.
        let enough = |&shift: &u32| {
            let (numerator, denominator) = (rate.ratio().numerator(), rate.ratio().denominator().get());
            BigUint::from(numerator) << (2 * shift + 1) <= ((BigUint::from(2u8) << shift) - 1u8) * denominator
        };
        let shift = (1..=FractionBits::MOST.get()).rev().find(enough).unwrap_or(1);
        let mut thinning = Thinning { rate, shift, keep_digit: 0 };
        for extra in (64u64..).step_by(64) {
            let Bounds { lower, upper } = thinning.keep_bounds(64 + extra);
            if (&lower >> extra) == (&upper >> extra) {
                thinning.keep_digit = (lower >> extra).iter_u64_digits().next().unwrap_or(0);
                break;
            }
        }
        thinning
    }

    /// Bounds on 2^bits rate / (1 - e^(-2^-shift)).
    fn keep_bounds(&self, bits: u64) -> Bounds {
        let precision = bits + 2 * u64::from(self.shift) + 64;
        let lambda = Dyadic { numerator: BigUint::from(1u8), fraction_bits: self.shift.into() };
        let exponential = exp_neg(&lambda, precision);
        let one = BigUint::from(1u8) << precision;
        let numerator = BigUint::from(self.rate.ratio().numerator()) << (precision + bits);
        let denominator = self.rate.ratio().denominator().get();
        Bounds {
            lower: &numerator / ((&one - exponential.lower) * denominator),
            upper: numerator / ((one - exponential.upper) * denominator) + 1u8,
        }
    }

    /// Units before the next candidate: g with probability (1 - c)^g c.
    #[inline]
    fn gap(&self, random: &mut impl RandomBytes) -> u64 {
        const PRECISION: u32 = FractionBits::MOST.precision();
        let layout = const { Layout::new::<UnitExponential>(PRECISION) };
        // floor(2^shift E) >= g iff E >= g 2^-shift, which has probability e^(-g 2^-shift) = (1 - c)^g.
        draw::<UnitExponential, Certain>(UnitExponential::strips(), layout, random).magnitude
            >> (PRECISION - self.shift)
    }

    /// Whether a candidate is kept: U < rate / c for a uniform U, one 64-bit digit at a time.
    #[inline]
    fn keeps(&self, random: &mut impl RandomBytes) -> bool {
        let word = random.word();
        if word == self.keep_digit { self.settle_tie(word, random) } else { word < self.keep_digit }
    }

    #[cold]
    fn settle_tie(&self, first: u64, random: &mut impl RandomBytes) -> bool {
        let (mut uniform, mut bits) = (BigUint::from(first), 64);
        loop {
            let Bounds { lower, upper } = self.keep_bounds(bits);
            if uniform < lower {
                return true;
            }
            if uniform >= upper {
                return false;
            }
            uniform = (uniform << 64u32) + random.word();
            bits += 64;
        }
    }
}

impl Stream {
    /// The units of `0..units` that a Poisson subsample includes, in increasing order.
    ///
    /// The list and its length are as private as the noise: never release either.
    pub fn poisson_subsample(&mut self, units: u32, sampler: &PoissonSampler) -> Vec<u32> {
        sampler.draw(units, self.bytes())
    }
}

#[cfg(test)]
mod tests;
