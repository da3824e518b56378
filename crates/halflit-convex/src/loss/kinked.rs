//! Losses made of two straight lines: max(a (z - k), b (z - k)) with slopes a < b and a kink k that depend on the label.

use super::{Interval, Kink, LabelDomain, LossError, ScalarLoss, check, check_labels};

/// Everything but the lines, the labels, the steepest slope and half the label range is the same for all of them.
macro_rules! two_lines {
    ($loss:ty) => {
        impl ScalarLoss for $loss {
            fn value(&self, z: f64, y: f64) -> f64 {
                let Kink { at, low_slope, high_slope } = self.lines(y);
                (low_slope * (z - at)).max(high_slope * (z - at))
            }

            #[inline(always)]
            fn derivative(&self, z: f64, y: f64) -> f64 {
                let Kink { at, low_slope, high_slope } = self.lines(y);
                let right = if z > at { high_slope } else { 0.0 };
                if z < at { low_slope } else { right }
            }

            #[inline(always)]
            fn curvature(&self, _z: f64, _y: f64) -> f64 {
                0.0
            }

            fn conjugate(&self, slope: f64, y: f64) -> f64 {
                let Kink { at, low_slope, high_slope } = self.lines(y);
                if (low_slope..=high_slope).contains(&slope) { slope * at } else { f64::INFINITY }
            }

            #[inline(always)]
            fn label_domain(&self) -> LabelDomain {
                self.labels()
            }

            fn derivative_bound(&self, _max_abs_score: f64) -> f64 {
                self.steepest()
            }

            fn curvature_bound(&self) -> Option<f64> {
                None
            }

            fn kink(&self, y: f64) -> Option<Kink> {
                Some(self.lines(y))
            }

            fn midrange_radius(&self, _max_abs_score: f64) -> f64 {
                self.half_range()
            }
        }
    };
}

/// max(0, 1 - y z) for labels -1 and +1; derivative -y where y z < 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hinge;

impl Hinge {
    #[inline(always)]
    fn lines(&self, y: f64) -> Kink {
        // y = +1: slopes -1, 0 around 1; y = -1: slopes 0, +1 around -1
        let positive = y > 0.0;
        let (low_slope, high_slope) = if positive { (-1.0, 0.0) } else { (0.0, 1.0) };
        Kink { at: if positive { 1.0 } else { -1.0 }, low_slope, high_slope }
    }

    #[inline(always)]
    fn labels(&self) -> LabelDomain {
        LabelDomain::Signs
    }

    fn steepest(&self) -> f64 {
        1.0
    }

    fn half_range(&self) -> f64 {
        1.0 // between the kinks the two labels pull in opposite directions
    }
}

two_lines!(Hinge);

/// |z - y|; derivative the sign of z - y.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Absolute {
    pub(super) labels: Interval,
}

impl Absolute {
    pub(super) fn new(labels: Interval) -> Result<Self, LossError> {
        Ok(Absolute { labels: check_labels("absolute", labels)? })
    }

    #[inline(always)]
    fn lines(&self, y: f64) -> Kink {
        Kink { at: y, low_slope: -1.0, high_slope: 1.0 }
    }

    #[inline(always)]
    fn labels(&self) -> LabelDomain {
        LabelDomain::Within(self.labels)
    }

    fn steepest(&self) -> f64 {
        1.0
    }

    fn half_range(&self) -> f64 {
        1.0
    }
}

two_lines!(Absolute);

/// t (y - z) below the label, (1 - t) (z - y) above it: minimised by the conditional t-quantile.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quantile {
    pub(super) level: f64,
    pub(super) labels: Interval,
}

impl Quantile {
    pub(super) fn new(level: f64, labels: Interval) -> Result<Self, LossError> {
        let inside = level > 0.0 && level < 1.0;
        let level = check("quantile", "level", level, "strictly between 0 and 1", inside)?;
        Ok(Quantile { level, labels: check_labels("quantile", labels)? })
    }

    #[inline(always)]
    fn lines(&self, y: f64) -> Kink {
        Kink { at: y, low_slope: -self.level, high_slope: 1.0 - self.level }
    }

    #[inline(always)]
    fn labels(&self) -> LabelDomain {
        LabelDomain::Within(self.labels)
    }

    fn steepest(&self) -> f64 {
        self.level.max(1.0 - self.level)
    }

    fn half_range(&self) -> f64 {
        0.5
    }
}

two_lines!(Quantile);
