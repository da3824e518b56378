//! Ratios of 64-bit integers: the only numbers that exact discrete samplers take.

use crate::{NoiseError, float};
use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

/// A nonnegative ratio of two 64-bit integers, kept exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rational {
    numerator: u64,
    denominator: NonZeroU64,
}

impl Rational {
    /// The ratio `numerator / denominator`; refuses a zero denominator.
    pub fn new(numerator: u64, denominator: u64) -> Result<Self, NoiseError> {
        let denominator = NonZeroU64::new(denominator).ok_or(NoiseError::ZeroDenominator { numerator })?;
        Ok(Rational { numerator, denominator })
    }

    /// The number above the line.
    pub fn numerator(self) -> u64 {
        self.numerator
    }

    /// The number below the line.
    pub fn denominator(self) -> NonZeroU64 {
        self.denominator
    }

    /// The nearest double, for display only: it may lie on either side.
    pub fn to_f64(self) -> f64 {
        self.numerator as f64 / self.denominator.get() as f64
    }
}

impl fmt::Display for Rational {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.numerator, self.denominator)
    }
}

impl FromStr for Rational {
    type Err = NoiseError;

    /// Reads `3/8`, `0.01` or `2` exactly. No exponent, sign or spaces.
    fn from_str(text: &str) -> Result<Self, NoiseError> {
        let refused = || NoiseError::NotARatio { text: text.to_owned() };
        let digits = |part: &str| -> Result<u64, NoiseError> {
            if !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()) {
                part.parse().map_err(|_| refused())
            } else {
                Err(refused())
            }
        };
        if let Some((numerator, denominator)) = text.split_once('/') {
            return Rational::new(digits(numerator)?, digits(denominator)?).map_err(|_| refused());
        }
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        let places = u32::try_from(fraction.len()).map_err(|_| refused())?;
        let denominator = 10u64.checked_pow(places).ok_or_else(refused)?;
        let numerator = digits(whole)?
            .checked_mul(denominator)
            .and_then(|scaled| scaled.checked_add(digits(fraction).ok()?))
            .ok_or_else(refused)?;
        Rational::new(numerator, denominator)
    }
}

/// A ratio between zero and one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Probability(Rational);

impl Probability {
    /// The probability `numerator / denominator`; refuses a ratio above one.
    pub fn new(numerator: u64, denominator: u64) -> Result<Self, NoiseError> {
        Rational::new(numerator, denominator)?.try_into()
    }

    /// The largest multiple of 2^-63 that is at most `value`: sampling at it never exceeds a rate priced at `value`.
    pub fn at_most(value: f64) -> Result<Self, NoiseError> {
        if !(0.0..=1.0).contains(&value) {
            return Err(NoiseError::NotAProbability { value: value.to_string() });
        }
        // Scaling by a power of two is exact; the cast rounds down.
        Probability::new((value * (1u64 << 63) as f64) as u64, 1 << 63)
    }

    /// The ratio itself.
    pub fn ratio(self) -> Rational {
        self.0
    }

    /// A double that is at least this probability: what an accountant may price.
    pub fn to_f64_rounded_up(self) -> f64 {
        let mut value = self.0.to_f64();
        while !self.is_at_most(value) {
            value = value.next_up();
        }
        value
    }

    /// Whether this probability is at most `value`, decided exactly; `value` is finite, not negative and within a few
    /// units in the last place of it.
    fn is_at_most(self, value: f64) -> bool {
        let Rational { numerator, denominator } = self.0;
        if numerator == 0 {
            return true;
        }
        let (mantissa, exponent) = float::decompose(value);
        // numerator / denominator <= mantissa * 2^exponent, with -117 <= exponent <= -52 because 2^-64 <= p <= 1;
        // both sides are below 2^119 because they are nearly equal.
        u128::from(numerator) << exponent.unsigned_abs()
            <= u128::from(mantissa) * u128::from(denominator.get())
    }
}

impl TryFrom<Rational> for Probability {
    type Error = NoiseError;

    fn try_from(ratio: Rational) -> Result<Self, NoiseError> {
        if ratio.numerator <= ratio.denominator.get() {
            Ok(Probability(ratio))
        } else {
            Err(NoiseError::NotAProbability { value: ratio.to_string() })
        }
    }
}

impl fmt::Display for Probability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Probability {
    type Err = NoiseError;

    fn from_str(text: &str) -> Result<Self, NoiseError> {
        text.parse::<Rational>()?.try_into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ratios_are_read_exactly() {
        for (text, numerator, denominator) in
            [("3/8", 3, 8), ("0.01", 1, 100), ("2", 20, 10), ("1.5", 15, 10), ("0.0", 0, 10)]
        {
            let ratio: Rational = text.parse().unwrap();
            assert_eq!((ratio.numerator(), ratio.denominator().get()), (numerator, denominator), "{text}");
        }
    }

    #[test]
    fn what_is_not_a_ratio_is_refused() {
        for text in [
            "",
            "/",
            "1/0",
            "1/",
            "/2",
            "-1",
            "+1",
            "1e-3",
            "NaN",
            ".5",
            "1.",
            "1 / 2",
            "0.00000000000000000001",
        ] {
            assert!(text.parse::<Rational>().is_err(), "{text:?}");
        }
        assert!("99999999999999999999".parse::<Rational>().is_err());
        assert!("3/2".parse::<Probability>().is_err());
        assert_eq!(Rational::new(3, 0), Err(NoiseError::ZeroDenominator { numerator: 3 }));
    }

    #[test]
    fn doubles_outside_the_unit_interval_are_refused() {
        for value in [f64::NAN, -1e-300, 1.0 + 1e-15, f64::INFINITY] {
            assert!(Probability::at_most(value).is_err(), "{value}");
        }
        assert_eq!(Probability::at_most(0.25), Probability::new(1 << 61, 1 << 63));
        assert_eq!(Probability::at_most(1e-300), Probability::new(0, 1 << 63));
    }

    #[test]
    fn representable_probabilities_are_not_moved() {
        for (numerator, denominator, value) in
            [(1, 2, 0.5), (0, 3, 0.0), (7, 7, 1.0), (1, 1 << 63, 2f64.powi(-63))]
        {
            assert_eq!(Probability::new(numerator, denominator).unwrap().to_f64_rounded_up(), value);
        }
    }

    proptest! {
        #[test]
        fn rounding_up_is_up_and_close(denominator in 1u64.., share in 0u64..) {
            let numerator = ((u128::from(share) * u128::from(denominator)) >> 64) as u64;
            let probability = Probability::new(numerator, denominator).unwrap();
            let up = probability.to_f64_rounded_up();
            prop_assert!(up <= 1.0);
            // Up, and by at most three steps: four steps down are below the ratio.
            if numerator > 0 {
                prop_assert!(probability.is_at_most(up));
                prop_assert!(!probability.is_at_most(up.next_down().next_down().next_down().next_down()));
            }
        }

        #[test]
        fn at_most_never_exceeds_the_double(value in 0.0f64..=1.0) {
            prop_assert!(Probability::at_most(value).unwrap().ratio().to_f64() <= value);
        }
    }
}
