//! Smooth losses of the residual z - y.

use super::{Interval, LabelDomain, LossError, ScalarLoss, check, check_labels};

/// (z - y)^2 / 2; derivative z - y.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Squared {
    pub(super) labels: Interval,
}

impl Squared {
    pub(super) fn new(labels: Interval) -> Result<Self, LossError> {
        Ok(Squared { labels: check_labels("squared", labels)? })
    }
}

impl ScalarLoss for Squared {
    fn value(&self, z: f64, y: f64) -> f64 {
        0.5 * (z - y) * (z - y)
    }

    #[inline(always)]
    fn derivative(&self, z: f64, y: f64) -> f64 {
        z - y
    }

    #[inline(always)]
    fn curvature(&self, _z: f64, _y: f64) -> f64 {
        1.0
    }

    fn conjugate(&self, slope: f64, y: f64) -> f64 {
        0.5 * slope * slope + slope * y
    }

    #[inline(always)]
    fn label_domain(&self) -> LabelDomain {
        LabelDomain::Within(self.labels)
    }

    fn derivative_bound(&self, max_abs_score: f64) -> f64 {
        // rounded up by one unit in the last place
        (max_abs_score + self.labels.magnitude()).next_up()
    }

    fn curvature_bound(&self) -> Option<f64> {
        Some(1.0)
    }

    fn is_canonical(&self) -> bool {
        true
    }

    fn midrange_radius(&self, _max_abs_score: f64) -> f64 {
        half_width(self.labels)
    }
}

/// Half the length of the label interval, rounded up: a derivative with slope at most 1 in the label moves no further.
fn half_width(labels: Interval) -> f64 {
    (0.5 * (labels.high - labels.low)).next_up()
}

/// Squared for |z - y| up to the threshold k, linear beyond; derivative clamp(z - y, -k, k).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Huber {
    pub(super) threshold: f64,
    pub(super) labels: Interval,
}

impl Huber {
    pub(super) fn new(threshold: f64, labels: Interval) -> Result<Self, LossError> {
        Ok(Huber { threshold: check_threshold("huber", threshold)?, labels: check_labels("huber", labels)? })
    }
}

fn check_threshold(loss: &'static str, threshold: f64) -> Result<f64, LossError> {
    check(loss, "threshold", threshold, "between 1e-6 and 1e6", (1e-6..=1e6).contains(&threshold))
}

/// x clamped to [-k, k] by comparisons alone.
#[inline(always)]
fn clamp(x: f64, k: f64) -> f64 {
    let x = if x > k { k } else { x };
    if x < -k { -k } else { x }
}

impl ScalarLoss for Huber {
    fn value(&self, z: f64, y: f64) -> f64 {
        let inside = clamp(z - y, self.threshold);
        // r^2/2 inside, k |r| - k^2/2 outside: inside (r - inside/2)
        inside * ((z - y) - 0.5 * inside)
    }

    #[inline(always)]
    fn derivative(&self, z: f64, y: f64) -> f64 {
        clamp(z - y, self.threshold)
    }

    #[inline(always)]
    fn curvature(&self, z: f64, y: f64) -> f64 {
        if (z - y).abs() <= self.threshold { 1.0 } else { 0.0 }
    }

    fn conjugate(&self, slope: f64, y: f64) -> f64 {
        if slope.abs() <= self.threshold { 0.5 * slope * slope + slope * y } else { f64::INFINITY }
    }

    #[inline(always)]
    fn label_domain(&self) -> LabelDomain {
        LabelDomain::Within(self.labels)
    }

    fn derivative_bound(&self, _max_abs_score: f64) -> f64 {
        self.threshold
    }

    fn curvature_bound(&self) -> Option<f64> {
        Some(1.0)
    }

    fn midrange_radius(&self, _max_abs_score: f64) -> f64 {
        self.threshold.min(half_width(self.labels))
    }
}

/// k^2 (sqrt(1 + (r/k)^2) - 1) for the residual r = z - y; derivative r / sqrt(1 + (r/k)^2).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PseudoHuber {
    pub(super) threshold: f64,
    pub(super) labels: Interval,
}

impl PseudoHuber {
    pub(super) fn new(threshold: f64, labels: Interval) -> Result<Self, LossError> {
        let threshold = check_threshold("pseudo-huber", threshold)?;
        Ok(PseudoHuber { threshold, labels: check_labels("pseudo-huber", labels)? })
    }

    /// sqrt(1 + (r/k)^2).
    #[inline(always)]
    fn root(&self, residual: f64) -> f64 {
        let ratio = residual / self.threshold;
        (1.0 + ratio * ratio).sqrt()
    }
}

impl ScalarLoss for PseudoHuber {
    fn value(&self, z: f64, y: f64) -> f64 {
        let residual = z - y;
        // k^2 (root - 1) = r^2 / (root + 1), which does not cancel
        residual * (residual / (self.root(residual) + 1.0))
    }

    #[inline(always)]
    fn derivative(&self, z: f64, y: f64) -> f64 {
        let residual = z - y;
        residual / self.root(residual)
    }

    #[inline(always)]
    fn curvature(&self, z: f64, y: f64) -> f64 {
        let root = self.root(z - y);
        1.0 / (root * root * root)
    }

    fn conjugate(&self, slope: f64, y: f64) -> f64 {
        let ratio = slope / self.threshold;
        if ratio.abs() > 1.0 {
            return f64::INFINITY;
        }
        // k^2 (1 - sqrt(1 - (a/k)^2)) = a^2 / (1 + sqrt(1 - (a/k)^2))
        slope * y + slope * slope / (1.0 + (1.0 - ratio * ratio).sqrt())
    }

    #[inline(always)]
    fn label_domain(&self) -> LabelDomain {
        LabelDomain::Within(self.labels)
    }

    fn derivative_bound(&self, _max_abs_score: f64) -> f64 {
        self.threshold.next_up()
    }

    fn curvature_bound(&self) -> Option<f64> {
        Some(1.0)
    }

    fn midrange_radius(&self, _max_abs_score: f64) -> f64 {
        self.threshold.next_up().min(half_width(self.labels))
    }
}
