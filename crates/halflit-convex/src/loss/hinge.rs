use super::{LabelDomain, LossError, ScalarLoss, check};

/// The hinge with a parabola of width s in the margin instead of its kink; derivative -y clamp((1 - y z)/s, 0, 1).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SmoothedHinge {
    pub(super) smoothing: f64,
}

impl SmoothedHinge {
    pub(super) fn new(smoothing: f64) -> Result<Self, LossError> {
        let inside = (1e-6..=1e6).contains(&smoothing);
        let smoothing = check("smoothed-hinge", "smoothing", smoothing, "between 1e-6 and 1e6", inside)?;
        Ok(SmoothedHinge { smoothing })
    }

    /// clamp((1 - y z)/s, 0, 1): the size of the derivative.
    #[inline(always)]
    fn slope(&self, z: f64, y: f64) -> f64 {
        let slope = (1.0 - y * z) / self.smoothing;
        let slope = if slope < 1.0 { slope } else { 1.0 };
        if slope > 0.0 { slope } else { 0.0 }
    }
}

impl ScalarLoss for SmoothedHinge {
    fn value(&self, z: f64, y: f64) -> f64 {
        // with p the slope: p (1 - y z) - s p^2 / 2 on all three pieces
        let p = self.slope(z, y);
        p * (1.0 - y * z) - 0.5 * self.smoothing * p * p
    }

    #[inline(always)]
    fn derivative(&self, z: f64, y: f64) -> f64 {
        -y * self.slope(z, y)
    }

    #[inline(always)]
    fn curvature(&self, z: f64, y: f64) -> f64 {
        let slope = (1.0 - y * z) / self.smoothing;
        if slope > 0.0 && slope < 1.0 { y * y / self.smoothing } else { 0.0 }
    }

    fn conjugate(&self, slope: f64, y: f64) -> f64 {
        let p = -slope * y;
        if (0.0..=1.0).contains(&p) { 0.5 * self.smoothing * p * p - p } else { f64::INFINITY }
    }

    #[inline(always)]
    fn label_domain(&self) -> LabelDomain {
        LabelDomain::Signs
    }

    fn derivative_bound(&self, _max_abs_score: f64) -> f64 {
        1.0
    }

    fn curvature_bound(&self) -> Option<f64> {
        Some((1.0 / self.smoothing).next_up())
    }
}
