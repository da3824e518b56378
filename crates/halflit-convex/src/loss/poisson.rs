use super::{Interval, LabelDomain, LossError, ScalarLoss, check};
use crate::math::{EXP_RELATIVE_ERROR, exp};

/// e^z - y z for counts y, continued in straight lines for |z| beyond a bound m; derivative e^clamp(z, -m, m) - y.
///
/// Without the continuation neither the derivative nor the curvature would be bounded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Poisson {
    pub(super) max_count: f64,
    pub(super) max_abs_score: f64,
}

impl Poisson {
    pub(super) fn new(max_count: f64, max_abs_score: f64) -> Result<Self, LossError> {
        let positive = "positive and at most 1e6";
        let max_count =
            check("poisson", "max_count", max_count, positive, max_count > 0.0 && max_count <= 1e6)?;
        let allowed = "positive and at most 30";
        let fits = max_abs_score > 0.0 && max_abs_score <= 30.0;
        let max_abs_score = check("poisson", "max_abs_score", max_abs_score, allowed, fits)?;
        Ok(Poisson { max_count, max_abs_score })
    }

    #[inline(always)]
    fn clamp(&self, z: f64) -> f64 {
        let z = if z > self.max_abs_score { self.max_abs_score } else { z };
        if z < -self.max_abs_score { -self.max_abs_score } else { z }
    }

    /// e^m, rounded up.
    fn largest_rate(&self) -> f64 {
        exp(self.max_abs_score) * (1.0 + 2.0 * EXP_RELATIVE_ERROR)
    }
}

impl ScalarLoss for Poisson {
    fn value(&self, z: f64, y: f64) -> f64 {
        let inside = self.clamp(z);
        exp(inside) * (1.0 + (z - inside)) - y * z
    }

    #[inline(always)]
    fn derivative(&self, z: f64, y: f64) -> f64 {
        exp(self.clamp(z)) - y
    }

    #[inline(always)]
    fn curvature(&self, z: f64, _y: f64) -> f64 {
        if z.abs() <= self.max_abs_score { exp(z) } else { 0.0 }
    }

    fn conjugate(&self, slope: f64, y: f64) -> f64 {
        // t log t - t for a rate t = slope + y within [e^-m, e^m]
        let (least, most) = (exp(-self.max_abs_score), exp(self.max_abs_score));
        let t = slope + y;
        // the sum forgets the last bits of a slope at the end of the range
        let slack = 4.0 * f64::EPSILON * (y + most);
        if !(t >= least - slack && t <= most + slack) {
            return f64::INFINITY;
        }
        let t = t.clamp(least, most);
        t * t.ln() - t
    }

    #[inline(always)]
    fn label_domain(&self) -> LabelDomain {
        LabelDomain::Within(Interval { low: 0.0, high: self.max_count })
    }

    fn derivative_bound(&self, _max_abs_score: f64) -> f64 {
        // between e^-m - max_count and e^m
        self.largest_rate().max(self.max_count)
    }

    fn value_bound(&self, _max_abs_score: f64) -> Option<f64> {
        None // e^z - y z is negative for large counts
    }

    fn curvature_bound(&self) -> Option<f64> {
        Some(self.largest_rate())
    }

    fn is_canonical(&self) -> bool {
        true
    }

    fn midrange_radius(&self, _max_abs_score: f64) -> f64 {
        0.5 * self.max_count
    }
}
