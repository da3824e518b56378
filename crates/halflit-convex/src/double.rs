//! Pairs of doubles: numbers of about 106 bits, for the few places where 53 do not suffice.
//!
//! The accelerated finisher of the solver keeps its iterates in them and evaluates steep derivatives from them, so that
//! rounding of the iterate drops out of its error bound (see `solver/proof.md`).

use std::ops::{Add, Div, Mul, Neg, Sub};

/// The unevaluated sum `high + low` with |low| at most half a unit in the last place of `high`.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub(crate) struct Double {
    high: f64,
    low: f64,
}

/// Relative error of one operation on [`Double`]s, generously: the textbook bounds are below 2^-101.
pub(crate) const DOUBLE_ROUNDOFF: f64 = 1.0 / (1u128 << 100) as f64;

/// a + b = sum + error exactly (no order needed).
#[inline(always)]
pub(crate) fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let b_part = sum - a;
    let a_part = sum - b_part;
    (sum, (a - a_part) + (b - b_part))
}

/// a * b = product + error exactly, barring underflow.
#[inline(always)]
fn two_product(a: f64, b: f64) -> (f64, f64) {
    let product = a * b;
    (product, a.mul_add(b, -product))
}

impl Double {
    pub(crate) const ZERO: Double = Double { high: 0.0, low: 0.0 };

    /// The sum of two doubles, exactly.
    #[inline(always)]
    pub(crate) fn sum(a: f64, b: f64) -> Self {
        let (high, low) = two_sum(a, b);
        Double { high, low }
    }

    /// The product of two doubles, exactly.
    #[inline(always)]
    pub(crate) fn product(a: f64, b: f64) -> Self {
        let (high, low) = two_product(a, b);
        Double { high, low }
    }

    /// The nearest double.
    #[inline(always)]
    pub(crate) fn to_f64(self) -> f64 {
        self.high
    }

    /// What rounding to [`to_f64`](Self::to_f64) leaves out.
    #[inline(always)]
    pub(crate) fn remainder(self) -> f64 {
        self.low
    }

    /// The square root; zero for what is not positive.
    pub(crate) fn sqrt(self) -> Self {
        if !(self.high > 0.0) {
            return Double::ZERO;
        }
        let root = self.high.sqrt();
        let residual = (self - Double::product(root, root)).high;
        Double::sum(root, residual / (2.0 * root))
    }
}

impl From<f64> for Double {
    #[inline(always)]
    fn from(value: f64) -> Self {
        Double { high: value, low: 0.0 }
    }
}

impl Add for Double {
    type Output = Double;
    #[inline(always)]
    fn add(self, other: Double) -> Double {
        let (high, low) = two_sum(self.high, other.high);
        let (carry, rest) = two_sum(self.low, other.low);
        let (high, low) = two_sum(high, low + carry);
        Double::sum(high, low + rest)
    }
}

impl Neg for Double {
    type Output = Double;
    #[inline(always)]
    fn neg(self) -> Double {
        Double { high: -self.high, low: -self.low }
    }
}

impl Sub for Double {
    type Output = Double;
    #[inline(always)]
    fn sub(self, other: Double) -> Double {
        self + -other
    }
}

impl Mul for Double {
    type Output = Double;
    #[inline(always)]
    fn mul(self, other: Double) -> Double {
        let (high, low) = two_product(self.high, other.high);
        Double::sum(high, low + (self.high * other.low + self.low * other.high))
    }
}

impl Div for Double {
    type Output = Double;
    fn div(self, other: Double) -> Double {
        let first = self.high / other.high;
        let rest = self - other * Double::from(first);
        let second = rest.high / other.high;
        let rest = rest - other * Double::from(second);
        Double::sum(first, second) + Double::from(rest.high / other.high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_keep_a_hundred_bits() {
        // (1/3 + 1/7) * 21 - 10 = 0, (sqrt 2)^2 - 2 = 0: the residues show the precision.
        let third = Double::from(1.0) / Double::from(3.0);
        let seventh = Double::from(1.0) / Double::from(7.0);
        let residue = (third + seventh) * Double::from(21.0) - Double::from(10.0);
        assert!(residue.to_f64().abs() <= 30.0 * DOUBLE_ROUNDOFF, "{:e}", residue.to_f64());
        let root = Double::from(2.0).sqrt();
        let residue = root * root - Double::from(2.0);
        assert!(residue.to_f64().abs() <= 8.0 * DOUBLE_ROUNDOFF, "{:e}", residue.to_f64());
        assert!(root.remainder() != 0.0);
        assert_eq!(Double::from(-1.0).sqrt(), Double::ZERO);
    }

    #[test]
    fn cancellation_is_exact() {
        let tiny = 2f64.powi(-80);
        let sum = Double::from(1.0) + Double::from(tiny);
        assert_eq!((sum - Double::from(1.0)).to_f64(), tiny);
        assert_eq!(
            Double::product(1.0 + f64::EPSILON, 1.0 - f64::EPSILON).remainder(),
            -f64::EPSILON * f64::EPSILON
        );
    }
}
