//! Numbers whose mix-up or range error would break a guarantee: each has its own checked type.
//!
//! Guards are positive, so NaN fails every one of them. Reading from a file goes through the same guards.

use serde::{Deserialize, Serialize};
use std::fmt;
use thiserror::Error;

/// A number outside its range.
#[derive(Debug, Clone, PartialEq, Error)]
#[error("{name} = {}: must be {allowed}; {remedy}", Readable(*value))]
pub struct ParameterError {
    /// Which number.
    pub name: &'static str,
    /// What was given.
    pub value: f64,
    /// What is allowed.
    pub allowed: &'static str,
    /// How to fix it.
    pub remedy: &'static str,
}

/// A number in a message: with an exponent where plain digits would be mostly zeros (1e-300, not 300 of them).
pub(crate) struct Readable(pub(crate) f64);

impl fmt::Display for Readable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = self.0.abs();
        let is_plain = size == 0.0 || (1e-4..1e16).contains(&size) || !size.is_finite();
        if is_plain { fmt::Display::fmt(&self.0, f) } else { fmt::LowerExp::fmt(&self.0, f) }
    }
}

macro_rules! checked_number {
    ($(#[$doc:meta])* $type:ident, $name:literal, $allowed:literal, $remedy:literal, |$x:ident| $guard:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
        #[serde(try_from = "f64", into = "f64")]
        pub struct $type(f64);

        impl $type {
            /// Checks the range; the error names the number, what is allowed and how to fix it.
            pub fn new(value: f64) -> Result<Self, ParameterError> {
                let $x = value;
                if $x.is_finite() && $guard {
                    Ok($type(value))
                } else {
                    Err(ParameterError { name: $name, value, allowed: $allowed, remedy: $remedy })
                }
            }

            /// The number.
            pub fn get(self) -> f64 {
                self.0
            }
        }

        impl TryFrom<f64> for $type {
            type Error = ParameterError;

            fn try_from(value: f64) -> Result<Self, ParameterError> {
                $type::new(value)
            }
        }

        impl From<$type> for f64 {
            fn from(number: $type) -> f64 {
                number.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                Readable(self.0).fmt(f)
            }
        }
    };
}

checked_number! {
    /// The epsilon of a guarantee.
    Epsilon, "epsilon", "between 0 and 1e9", "use a small positive number such as 1", |x| (0.0..=1e9).contains(&x)
}
checked_number! {
    /// The delta of a guarantee.
    Delta, "delta", "at least 0 and below 1", "use much less than one over the number of units, such as 1e-6",
    |x| (0.0..1.0).contains(&x)
}
checked_number! {
    /// Noise standard deviation over the enforced l2 norm bound (radius) of one unit's contribution.
    ///
    /// How far a unit can move the sum (once or twice the radius) follows from the [`Change`](crate::Change), never
    /// from this number. Round it down when it comes from a quotient: [`NoiseMultiplier::of`].
    ///
    /// A proven diameter is an [`L2Sensitivity`] and makes no multiplier, so no sampled event can be stated with it:
    ///
    /// ```compile_fail,E0308
    /// use halflit_privacy::{L2Sensitivity, NoiseMultiplier, NoiseStd};
    /// # fn story() -> Result<(), halflit_privacy::ParameterError> {
    /// let diameter = L2Sensitivity::new(0.1)?;
    /// let multiplier = NoiseMultiplier::of(NoiseStd::new(1.0)?, diameter)?;
    /// # Ok(()) }
    /// ```
    NoiseMultiplier, "noise multiplier", "between 0.01 and 1e9",
    "give noise std / clip norm; below 0.01 there is no privacy left to account for", |x| (0.01..=1e9).contains(&x)
}
checked_number! {
    /// The probability that a unit is in a batch, or the fixed fraction of units in a batch.
    SamplingRate, "rate", "above 1e-15 and at most 1", "give expected batch size / number of units", |x| x > 1e-15 && x <= 1.0
}
checked_number! {
    /// A proven bound on how far one unit's change moves a statistic in l2 norm (a diameter, not a radius).
    L2Sensitivity, "l2 sensitivity", "above 0 and at most 1e300", "give the enforced bound", |x| x > 0.0 && x <= 1e300
}
checked_number! {
    /// A proven bound on how far one unit's change moves a statistic in l1 norm.
    L1Sensitivity, "l1 sensitivity", "above 0 and at most 1e300", "give the enforced bound", |x| x > 0.0 && x <= 1e300
}
checked_number! {
    /// The enforced l2 norm bound of one unit's contribution.
    L2Radius, "l2 radius", "above 0 and at most 1e300", "give the clip norm", |x| x > 0.0 && x <= 1e300
}
checked_number! {
    /// The standard deviation of Gaussian noise.
    NoiseStd, "noise std", "above 0 and at most 1e300", "add some noise", |x| x > 0.0 && x <= 1e300
}
checked_number! {
    /// The scale of Laplace noise: density proportional to exp(-|x|/scale).
    LaplaceScale, "Laplace scale", "above 0 and at most 1e300", "add some noise", |x| x > 0.0 && x <= 1e300
}
checked_number! {
    /// The rho of zero-concentrated differential privacy.
    Rho, "rho", "between 0 and 1e12", "use a small positive number such as 0.5", |x| (0.0..=1e12).contains(&x)
}
checked_number! {
    /// The mu of Gaussian differential privacy: sensitivity over noise standard deviation.
    Mu, "mu", "between 0 and 1e6", "use a small positive number such as 1", |x| (0.0..=1e6).contains(&x)
}

impl NoiseMultiplier {
    /// Noise std over radius, rounded down: less noise is assumed than there is.
    pub fn of(noise_std: NoiseStd, l2_radius: L2Radius) -> Result<Self, ParameterError> {
        NoiseMultiplier::new((noise_std.get() / l2_radius.get()).next_down())
    }
}

impl SamplingRate {
    /// The smallest double that is surely not below `numerator / denominator`: a larger rate costs more.
    ///
    /// The noise crate samples an exact rational rate; this is what the accountant is told.
    pub fn at_least(numerator: u64, denominator: u64) -> Result<Self, ParameterError> {
        let (n, d) = (numerator as f64, denominator as f64);
        let quotient = n / d;
        // Up to 2^53 the integers are doubles and the sign of the remainder is exact.
        let exact_integers = numerator <= 1 << 53 && denominator <= 1 << 53;
        let rate = if numerator == denominator {
            quotient
        } else if exact_integers {
            if quotient.mul_add(d, -n) >= 0.0 { quotient } else { quotient.next_up() }
        } else {
            // Three roundings of at most half an ulp each; a proper fraction is at most one.
            let rounded_up = quotient.next_up().next_up();
            if numerator < denominator && rounded_up > 1.0 { 1.0 } else { rounded_up }
        };
        SamplingRate::new(rate)
    }
}

/// An answer with both ends: the truth lies between `lower` and `upper`. Claims use the upper end.
///
/// An infinite upper end (no finite epsilon holds) is `null` in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "IntervalRecord", into = "IntervalRecord")]
pub struct Interval {
    /// The truth is not below this.
    pub lower: f64,
    /// The truth is not above this.
    pub upper: f64,
}

impl Interval {
    /// An interval; a lower end above the upper one (rounding of two equal ends) is pulled down to it.
    pub(crate) fn new(lower: f64, upper: f64) -> Self {
        debug_assert!(
            lower <= upper * (1.0 + 1e-9) + 1e-300,
            "the bounds contradict each other: {lower} > {upper}"
        );
        Interval { lower: lower.min(upper), upper }
    }

    /// Both ends moved outward by a relative error.
    pub(crate) fn around(value: f64, relative_error: f64) -> Self {
        Interval::new(value * (1.0 - relative_error), value * (1.0 + relative_error))
    }

    /// For probabilities.
    pub(crate) fn at_most_one(self) -> Self {
        Interval { lower: self.lower.min(1.0), upper: self.upper.min(1.0) }
    }

    /// Whether this is narrower than before by a tenth; a first finite interval always is.
    pub(crate) fn improves(self, before: Interval) -> bool {
        self.upper > 0.0 && !(self.upper - self.lower > 0.9 * (before.upper - before.lower))
    }

    /// For probabilities that are positive but may be too small for a double, or for one with all its digits.
    pub(crate) fn never_zero(self) -> Self {
        let lower = if self.lower < f64::MIN_POSITIVE { 0.0 } else { self.lower };
        Interval { lower, upper: self.upper.max(f64::MIN_POSITIVE) }
    }

    /// Another truth that is at most this leaves the larger of the two as well known as this one, nearly.
    pub(crate) fn enough(self) -> f64 {
        self.upper.max(1.0005 * self.lower)
    }

    /// The interval of the larger of two truths.
    pub(crate) fn max(self, other: Interval) -> Self {
        Interval { lower: self.lower.max(other.lower), upper: self.upper.max(other.upper) }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct IntervalRecord {
    lower: Option<f64>,
    upper: Option<f64>,
}

impl From<Interval> for IntervalRecord {
    fn from(interval: Interval) -> Self {
        let finite = |x: f64| x.is_finite().then_some(x);
        IntervalRecord { lower: finite(interval.lower), upper: finite(interval.upper) }
    }
}

impl TryFrom<IntervalRecord> for Interval {
    type Error = ParameterError;

    fn try_from(record: IntervalRecord) -> Result<Self, ParameterError> {
        let (lower, upper) = (record.lower.unwrap_or(f64::INFINITY), record.upper.unwrap_or(f64::INFINITY));
        if lower <= upper {
            Ok(Interval { lower, upper })
        } else {
            let allowed = "at most the upper end of its interval";
            Err(ParameterError { name: "lower end", value: lower, allowed, remedy: "exchange the two ends" })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_checked_number_refuses_what_is_no_number() {
        fn check<T: std::fmt::Debug>(new: impl Fn(f64) -> Result<T, ParameterError>, name: &str) {
            for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, -1e-300] {
                let error = new(value).expect_err(name);
                assert_eq!(error.name, name);
                let message = error.to_string();
                assert!(message.contains(name) && message.contains("must be"), "{message}");
            }
            assert!(new(0.5).is_ok(), "{name}");
        }
        check(Epsilon::new, "epsilon");
        check(Delta::new, "delta");
        check(NoiseMultiplier::new, "noise multiplier");
        check(SamplingRate::new, "rate");
        check(L2Sensitivity::new, "l2 sensitivity");
        check(L1Sensitivity::new, "l1 sensitivity");
        check(L2Radius::new, "l2 radius");
        check(NoiseStd::new, "noise std");
        check(LaplaceScale::new, "Laplace scale");
        check(Rho::new, "rho");
        check(Mu::new, "mu");
    }

    #[test]
    fn tiny_and_huge_numbers_are_told_with_an_exponent() {
        for (value, text) in
            [(1e-300, "1e-300"), (2.5e-5, "2.5e-5"), (1e-4, "0.0001"), (0.0, "0"), (0.3, "0.3")]
        {
            assert_eq!(Delta::new(value).unwrap().to_string(), text);
        }
        assert_eq!(L2Radius::new(1e300).unwrap().to_string(), "1e300");
        assert!(Delta::new(-1e-300).unwrap_err().to_string().starts_with("delta = -1e-300: "));
        assert!(Delta::new(f64::INFINITY).unwrap_err().to_string().starts_with("delta = inf: "));
    }

    #[test]
    fn the_ends_of_the_ranges() {
        assert!(Epsilon::new(0.0).is_ok() && Delta::new(0.0).is_ok());
        assert!(Delta::new(1.0).is_err());
        assert!(SamplingRate::new(0.0).is_err() && SamplingRate::new(1.0).is_ok());
        assert!(SamplingRate::new(1.0f64.next_up()).is_err());
        assert!(NoiseMultiplier::new(0.0).is_err() && NoiseStd::new(0.0).is_err());
    }

    #[test]
    fn a_rational_rate_is_rounded_up_and_not_far() {
        for (n, d) in
            [(1u64, 3u64), (500, 29_700), (1, 60), (7, 8), (1, 1 << 60), (u64::MAX - 1, u64::MAX), (3, 7)]
        {
            let rate = SamplingRate::at_least(n, d);
            if n as f64 / d as f64 <= 1e-15 {
                assert!(rate.is_err());
                continue;
            }
            let rate = rate.unwrap().get();
            // rate = mantissa / 2^shift; n/d <= rate in exact integers.
            let (mantissa, shift) = mantissa_and_shift(rate);
            assert!(u128::from(n) << shift <= u128::from(mantissa) * u128::from(d), "{n}/{d}");
            assert!(rate <= n as f64 / d as f64 * (1.0 + 1e-15), "{n}/{d}");
        }
        assert_eq!(SamplingRate::at_least(1, 4).unwrap().get(), 0.25);
        assert_eq!(SamplingRate::at_least(5, 5).unwrap().get(), 1.0);
        assert!(SamplingRate::at_least(0, 5).is_err());
        assert!(SamplingRate::at_least(6, 5).is_err());
        assert!(SamplingRate::at_least(1, 0).is_err());
        assert!(SamplingRate::at_least(0, 0).is_err());
    }

    fn mantissa_and_shift(x: f64) -> (u64, u32) {
        let bits = x.to_bits();
        let exponent = (bits >> 52) as i32 - 1075;
        ((bits & ((1 << 52) - 1)) | (1 << 52), u32::try_from(-exponent).unwrap())
    }

    #[test]
    fn quotients_of_noise_and_radius_are_rounded_down() {
        let multiplier =
            NoiseMultiplier::of(NoiseStd::new(1.0).unwrap(), L2Radius::new(3.0).unwrap()).unwrap().get();
        // 3 * multiplier < 1 exactly.
        assert!(multiplier.mul_add(3.0, -1.0) < 0.0);
        assert!(multiplier > 0.333_333_333_333_333);
    }

    #[test]
    fn intervals_survive_json_also_when_unbounded() {
        for interval in [Interval { lower: 0.1, upper: 0.3 }, Interval { lower: 2.0, upper: f64::INFINITY }] {
            let text = serde_json::to_string(&interval).unwrap();
            assert_eq!(serde_json::from_str::<Interval>(&text).unwrap(), interval);
        }
        assert!(serde_json::from_str::<Interval>(r#"{"lower":2.0,"upper":1.0}"#).is_err());
        assert!(serde_json::from_str::<Epsilon>("-1.0").is_err());
        assert_eq!(serde_json::from_str::<Epsilon>("1.5").unwrap().get(), 1.5);
    }
}
