//! Exact discrete laws: coins, uniform integers, permutations, discrete Laplace.
//!
//! Integers only. Each sampler's argument is a few lines and stands beside it; proof.md section 7 collects them.

use crate::keystream::RandomBytes;
use crate::{NoiseError, Probability, Rational, Stream};
use std::num::NonZeroU64;

/// A coin with a rational probability p, ready to be thrown often: p written in base 2^64, digit by digit.
///
/// U < p for a uniform U with digits u1 u2 ..: the first digit in which they differ decides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Coin {
    probability: Probability,
    first_digit: u64,
    remainder: u64,
}

impl Coin {
    pub(crate) fn new(probability: Probability) -> Self {
        let (first_digit, remainder) = next_digit(probability.ratio().numerator(), probability);
        Coin { probability, first_digit, remainder }
    }

    #[inline]
    pub(crate) fn throw(&self, random: &mut impl RandomBytes) -> bool {
        let word = random.word();
        if word == self.first_digit { self.settle_tie(random) } else { word < self.first_digit }
    }

    /// The first digits are equal: compare the next ones. A remainder of zero means that only zero digits follow, so
    /// that U >= p; p = 1 has first digit 2^64 - 1 and remainder equal to its denominator, so that U < p.
    #[cold]
    fn settle_tie(&self, random: &mut impl RandomBytes) -> bool {
        let mut remainder = self.remainder;
        loop {
            if remainder == 0 || remainder == self.probability.ratio().denominator().get() {
                return remainder != 0;
            }
            let (digit, rest) = next_digit(remainder, self.probability);
            let word = random.word();
            if word != digit {
                return word < digit;
            }
            remainder = rest;
        }
    }
}

/// One step of the long division of `remainder` (at most the denominator) by the denominator of `probability`: digit
/// in base 2^64 and next remainder. For remainder = denominator the digits are all 2^64 - 1: 0.999.. = 1.
fn next_digit(remainder: u64, probability: Probability) -> (u64, u64) {
    let denominator = u128::from(probability.ratio().denominator().get());
    let shifted = u128::from(remainder) << 64;
    match u64::try_from(shifted / denominator) {
        Ok(digit) => (digit, (shifted % denominator) as u64),
        Err(_) => (u64::MAX, remainder),
    }
}

/// Uniform on 0..bound, by multiplication: word * bound / 2^64 is uniform once the words whose fraction part falls
/// below 2^64 mod bound are drawn again, because every result then owns equally many words.
#[inline]
pub(crate) fn uniform_below(bound: NonZeroU64, random: &mut impl RandomBytes) -> u64 {
    let bound = bound.get();
    loop {
        let product = u128::from(random.word()) * u128::from(bound);
        let fraction = product as u64;
        // 2^64 mod bound < bound, so the division is needed only when the fraction is small.
        if fraction >= bound || fraction >= bound.wrapping_neg() % bound {
            return (product >> 64) as u64;
        }
    }
}

/// True with probability numerator / denominator, numerator <= denominator.
fn fraction(numerator: u64, denominator: NonZeroU64, random: &mut impl RandomBytes) -> bool {
    uniform_below(denominator, random) < numerator
}

/// True with probability e^-(numerator / denominator) for numerator <= denominator: throw coins of probability r/1,
/// r/2, r/3, .. until one fails at number k. P(k > m) = r^m / m!, so P(k odd) = sum of (-r)^m / m! = e^-r.
fn exp_neg_below_one(numerator: u64, denominator: NonZeroU64, random: &mut impl RandomBytes) -> bool {
    let mut k = NonZeroU64::MIN;
    while fraction(numerator, denominator, random) && fraction(1, k, random) {
        k = k.saturating_add(1);
    }
    k.get() % 2 == 1
}

/// True with probability e^-r: e^-floor(r) by as many coins of e^-1, the rest by one of e^-(r - floor(r)).
pub(crate) fn bernoulli_exp_neg(exponent: Rational, random: &mut impl RandomBytes) -> bool {
    let denominator = exponent.denominator();
    let (whole, rest) = (exponent.numerator() / denominator, exponent.numerator() % denominator);
    // Stops at the first failure: at most 1.6 coins on average however large r is.
    (0..whole).all(|_| exp_neg_below_one(1, NonZeroU64::MIN, random))
        && exp_neg_below_one(rest, denominator, random)
}

/// Geometric with ratio e^-rate, rate = a / b, a > 0: m with probability proportional to e^(-a m / b).
///
/// X = u + b v with u uniform on 0..b kept with probability e^(-u/b) and v geometric with ratio e^-1 is geometric with
/// ratio e^(-1/b); floor(X / a) then has ratio e^(-a/b).
fn geometric(rate: Rational, random: &mut impl RandomBytes) -> u128 {
    let denominator = rate.denominator();
    let unit = loop {
        let unit = uniform_below(denominator, random);
        if exp_neg_below_one(unit, denominator, random) {
            break unit;
        }
    };
    let mut whole = 0u64;
    while exp_neg_below_one(1, NonZeroU64::MIN, random) {
        whole = whole.saturating_add(1);
    }
    let sum = u128::from(unit) + u128::from(denominator.get()) * u128::from(whole);
    sum / u128::from(rate.numerator())
}

/// The truncated discrete Laplace law: r in 0..=2 centre with probability proportional to e^(-rate |r - centre|).
#[doc(alias = "TDLap")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TruncatedDiscreteLaplace {
    rate: Rational,
    centre: u64,
}

impl TruncatedDiscreteLaplace {
    /// The law with the given decay rate and centre; refuses a centre above 2^62. Rate zero is uniform.
    pub fn new(rate: Rational, centre: u64) -> Result<Self, NoiseError> {
        let most = 1 << 62;
        if centre <= most {
            Ok(TruncatedDiscreteLaplace { rate, centre })
        } else {
            Err(NoiseError::Centre { centre, most })
        }
    }

    /// The decay rate.
    pub fn rate(self) -> Rational {
        self.rate
    }

    /// The centre: the middle of the support and the most likely value.
    pub fn centre(self) -> u64 {
        self.centre
    }

    fn draw(self, random: &mut impl RandomBytes) -> u64 {
        let TruncatedDiscreteLaplace { rate, centre } = self;
        // rate * centre <= 1; true whenever the rate is zero.
        let is_flat =
            u128::from(rate.numerator()) * u128::from(centre) <= u128::from(rate.denominator().get());
        if is_flat { self.draw_flat(random) } else { self.draw_steep(random) }
    }

    /// Uniform on the support, kept with probability e^(-rate |r - centre|): at least e^-1 here.
    fn draw_flat(self, random: &mut impl RandomBytes) -> u64 {
        let values = NonZeroU64::MIN.saturating_add(2 * self.centre);
        loop {
            let value = uniform_below(values, random);
            // rate * |r - centre| <= rate * centre <= 1: no overflow.
            let exponent = self.rate.numerator() * value.abs_diff(self.centre);
            if exp_neg_below_one(exponent, self.rate.denominator(), random) {
                return value;
            }
        }
    }

    /// A geometric distance and a fair side, drawn again when the distance is beyond the support (probability below
    /// e^-1 here) or when it is zero on the left side, so that the centre is not counted twice.
    fn draw_steep(self, random: &mut impl RandomBytes) -> u64 {
        loop {
            let left = random.take(1) & 1 == 1;
            let distance = geometric(self.rate, random);
            match u64::try_from(distance) {
                Ok(0) if left => continue,
                Ok(distance) if distance <= self.centre => {
                    return if left { self.centre - distance } else { self.centre + distance };
                }
                _ => continue,
            }
        }
    }
}

impl Stream {
    /// True with exactly the given probability.
    pub fn bernoulli(&mut self, probability: Probability) -> bool {
        Coin::new(probability).throw(self.bytes())
    }

    /// True with probability exactly e^-exponent.
    pub fn bernoulli_exp_neg(&mut self, exponent: Rational) -> bool {
        bernoulli_exp_neg(exponent, self.bytes())
    }

    /// Uniform on `0..bound`.
    pub fn uniform_below(&mut self, bound: NonZeroU64) -> u64 {
        uniform_below(bound, self.bytes())
    }

    /// The numbers `0..length` in uniformly random order.
    pub fn permutation(&mut self, length: u32) -> Vec<u32> {
        let random = self.bytes();
        let mut order: Vec<u32> = (0..length).collect();
        // Place i receives a uniform choice among what places 0..=i hold: every order has probability 1 / length!.
        for i in 1..order.len() {
            let bound = NonZeroU64::MIN.saturating_add(i as u64);
            order.swap(i, uniform_below(bound, random) as usize);
        }
        order
    }

    /// One draw of the truncated discrete Laplace law.
    pub fn truncated_discrete_laplace(&mut self, law: TruncatedDiscreteLaplace) -> u64 {
        law.draw(self.bytes())
    }
}

#[cfg(test)]
mod tests;
