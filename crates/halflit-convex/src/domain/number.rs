use crate::double::Double;
use std::ops::{Add, Div, Mul, Sub};

/// What projections compute with: doubles, or pairs of them where the solver's bound needs more digits.
pub(crate) trait Number:
    Copy
    + PartialOrd
    + From<f64>
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
{
    /// The square root; zero for what is not positive.
    fn root(self) -> Self;
}

impl Number for f64 {
    fn root(self) -> Self {
        if self > 0.0 { self.sqrt() } else { 0.0 }
    }
}

impl Number for Double {
    fn root(self) -> Self {
        self.sqrt()
    }
}
