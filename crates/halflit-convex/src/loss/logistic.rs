use super::{LabelDomain, ScalarLoss};
use crate::math::{exp, sigmoid};

/// log(1 + e^z) - y z for labels 0 and 1; derivative sigma(z) - y.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Logistic;

impl ScalarLoss for Logistic {
    fn value(&self, z: f64, y: f64) -> f64 {
        // log(1 + e^z) = max(z, 0) + log(1 + e^-|z|)
        z.max(0.0) - y * z + exp(-z.abs()).ln_1p()
    }

    #[inline(always)]
    fn derivative(&self, z: f64, y: f64) -> f64 {
        sigmoid(z) - y
    }

    #[inline(always)]
    fn curvature(&self, z: f64, _y: f64) -> f64 {
        // sigma (1 - sigma) = e / (1 + e)^2 with e = e^-|z|
        let e = exp(-z.abs());
        e / ((1.0 + e) * (1.0 + e))
    }

    fn conjugate(&self, slope: f64, y: f64) -> f64 {
        // entropy of t = slope + y in [0, 1]
        let t = slope + y;
        if !(0.0..=1.0).contains(&t) {
            return f64::INFINITY;
        }
        let entropy = |p: f64| if p > 0.0 { p * p.ln() } else { 0.0 };
        entropy(t) + entropy(1.0 - t)
    }

    #[inline(always)]
    fn label_domain(&self) -> LabelDomain {
        LabelDomain::Binary
    }

    fn derivative_bound(&self, _max_abs_score: f64) -> f64 {
        1.0
    }

    fn curvature_bound(&self) -> Option<f64> {
        Some(0.25)
    }

    fn is_canonical(&self) -> bool {
        true
    }

    fn midrange_radius(&self, _max_abs_score: f64) -> f64 {
        0.5
    }
}
