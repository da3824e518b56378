//! Poisson subsampling: every unit is included independently with one rational probability.
//!
//! The list of included units is drawn by jumping from one to the next, so that the time is proportional to the sample
//! and not to the table. The argument is in proof.md, section 8.

use crate::discrete::Coin;
use crate::exact::{Bounds, Dyadic, exp_neg};
use crate::keystream::RandomBytes;
use crate::strips::{Certain, Curve, Layout, Strips, UnitExponential, draw};
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
                let strips = UnitExponential::strips();
                let mut unit = thinning.gap(strips, random);
                while let Ok(candidate) = u32::try_from(unit)
                    && candidate < units
                {
                    if thinning.keeps(random) {
                        included.push(candidate);
                    }
                    unit = unit + 1 + thinning.gap(strips, random);
                }
                included
            }
        }
    }
}

/// Candidates with probability c = 1 - e^-lambda >= rate, lambda = steps / 2^shift, one by one; each is kept with
/// probability rate / c.
#[derive(Clone, Debug)]
struct Thinning {
    rate: Probability,
    steps: u64,
    shift: u32,
    layout: Layout,
    /// The integer part of 2^32 rate / c, which is irrational and below 2^32.
    keep_digit: u64,
}

/// Steps stay below this, yet high enough that c is within two per cent of all rates but the tiniest: few candidates are
/// dropped.
const MOST_STEPS: u64 = 256;
/// Bytes of the first digit of the number that decides whether a candidate is kept.
const KEEP_BYTES: u32 = 4;

impl Thinning {
    /// For a rate in (0, 1/4].
    fn new(rate: Probability) -> Self {
        let finest = FractionBits::MOST.get();
        // Shift 5 with 16 steps always qualifies: lambda - lambda^2 / 2 = 3/8 there.
        let (shift, steps) = (UnitExponential::STRIP_BITS..=finest)
            .rev()
            .find_map(|shift| Some((shift, fewest_steps(rate, shift)?)))
            .unwrap_or((UnitExponential::STRIP_BITS, 16));
        let layout = Layout::new::<UnitExponential>(shift);
        let mut thinning = Thinning { rate, steps, shift, layout, keep_digit: 0 };
        for extra in (64u64..).step_by(64) {
            let Bounds { lower, upper } = thinning.keep_bounds(u64::from(8 * KEEP_BYTES) + extra);
            let (lower, upper) = (lower >> extra, upper >> extra);
            if lower == upper {
                thinning.keep_digit = lower.iter_u64_digits().next().unwrap_or(0);
                break;
            }
        }
        thinning
    }

    /// Bounds on 2^bits rate / c.
    fn keep_bounds(&self, bits: u64) -> Bounds {
        let precision = bits + 2 * u64::from(self.shift) + 64;
        let lambda = Dyadic { numerator: self.steps.into(), fraction_bits: self.shift.into() };
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
    fn gap(&self, strips: &Strips, random: &mut impl RandomBytes) -> u64 {
        // floor(floor(2^shift E) / steps) >= g iff E >= g lambda, which has probability e^(-g lambda) = (1 - c)^g.
        draw::<UnitExponential, Certain>(strips, self.layout, random).magnitude / self.steps
    }

    /// Whether a candidate is kept: U < rate / c for a uniform U, digit by digit.
    #[inline]
    fn keeps(&self, random: &mut impl RandomBytes) -> bool {
        let digit = random.take(KEEP_BYTES);
        if digit == self.keep_digit { self.settle_tie(digit, random) } else { digit < self.keep_digit }
    }

    #[cold]
    fn settle_tie(&self, first: u64, random: &mut impl RandomBytes) -> bool {
        let (mut uniform, mut bits) = (BigUint::from(first), u64::from(8 * KEEP_BYTES));
        loop {
            // U is in [uniform, uniform + 1) / 2^bits.
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

/// The fewest steps m below [`MOST_STEPS`] with c >= lambda - lambda^2 / 2 >= rate at lambda = m / 2^shift, if any.
fn fewest_steps(rate: Probability, shift: u32) -> Option<u64> {
    // rate <= m 2^-shift - m^2 2^-(2 shift + 1)  iff  numerator 2^(2 shift + 1) <= denominator m (2^(shift+1) - m)
    let (numerator, denominator) = (rate.ratio().numerator(), rate.ratio().denominator().get());
    let needed = BigUint::from(numerator) << (2 * shift + 1);
    let double = 2u64 << shift;
    // The right side grows with m up to 2^shift.
    (1..MOST_STEPS.min(1 << shift))
        .find(|&steps| BigUint::from(denominator) * steps * (double - steps) >= needed)
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
