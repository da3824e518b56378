use super::LabelDomain;

/// A convex loss of one score and one label.
///
/// `derivative` is part of the privacy argument (see `kernel`): additions, multiplications, divisions, square roots and
/// comparisons only, so that it gives the same bits everywhere. The other functions serve solvers and plans.
pub trait ScalarLoss: Copy + Send + Sync {
    /// The loss at score z for label y.
    fn value(&self, z: f64, y: f64) -> f64;

    /// Its derivative in z; at a kink, one of its slopes.
    fn derivative(&self, z: f64, y: f64) -> f64;

    /// Its second derivative in z; zero where there is none.
    fn curvature(&self, z: f64, y: f64) -> f64;

    /// sup over z of slope * z - value(z, y): infinite for slopes the loss never has.
    fn conjugate(&self, slope: f64, y: f64) -> f64;

    /// Which labels it takes.
    fn label_domain(&self) -> LabelDomain;

    /// Bound on |derivative| over the label domain and |z| <= max_abs_score; infinite where there is none.
    fn derivative_bound(&self, max_abs_score: f64) -> f64;

    /// Bound on the second derivative; `None` for a loss with a kink.
    fn curvature_bound(&self) -> Option<f64>;

    /// Bound on the loss over the label domain and |z| <= max_abs_score, if the loss is never negative.
    fn value_bound(&self, max_abs_score: f64) -> Option<f64> {
        // convex in z and in z - y: the largest value is at a corner
        let (low, high) = self.label_domain().ends()?;
        let corners =
            [(-max_abs_score, low), (-max_abs_score, high), (max_abs_score, low), (max_abs_score, high)];
        let most = corners.into_iter().map(|(z, y)| self.value(z, y)).fold(0.0, f64::max);
        Some(most * (1.0 + 1e-12) + 1e-12)
    }

    /// Whether the label enters linearly.
    fn is_canonical(&self) -> bool {
        false
    }

    /// The kink, for a loss made of two straight lines.
    fn kink(&self, _y: f64) -> Option<Kink> {
        None
    }

    /// Lowest and highest derivative at z over the label domain.
    #[inline(always)]
    fn derivative_range(&self, z: f64) -> (f64, f64) {
        match self.label_domain().ends() {
            // The derivative is monotone in the label, so its extremes are at the ends.
            Some((low, high)) => {
                let (a, b) = (self.derivative(z, low), self.derivative(z, high));
                if a < b { (a, b) } else { (b, a) }
            }
            None => (0.0, 0.0),
        }
    }

    /// Half the widest label range of the derivative over |z| <= max_abs_score.
    fn midrange_radius(&self, max_abs_score: f64) -> f64 {
        self.derivative_bound(max_abs_score)
    }
}

/// A loss max(low_slope (z - at), high_slope (z - at)): what duality gaps and smoothings of it need.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Kink {
    /// Where the two lines meet.
    pub at: f64,
    /// Slope to the left.
    pub low_slope: f64,
    /// Slope to the right.
    pub high_slope: f64,
}

impl Kink {
    /// value + conjugate - slope z for a slope between the two: zero exactly when the slope is a derivative at z.
    ///
    /// `distance` is z - at. A sum of two products of nonnegative numbers: nothing cancels.
    #[inline(always)]
    pub(crate) fn fenchel_young(&self, distance: f64, slope: f64) -> f64 {
        let right = if distance > 0.0 { distance } else { 0.0 };
        let left = if distance < 0.0 { -distance } else { 0.0 };
        (self.high_slope - slope) * right + (slope - self.low_slope) * left
    }
}
