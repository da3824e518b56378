//! Public constants: what can be said about a problem without looking at a row. The letters are those of `proof.md`.

use super::length_up;
use super::passes::{Passes, roundings};
use crate::domain::{Domain, ROUNDOFF, Shape};
use crate::double::DOUBLE_ROUNDOFF;
use crate::loss::{Form, ScalarLoss, with_scalar};

/// Roundings k cost a relative error of at most this, for k below 10^13.
pub(super) fn gamma(roundings: f64) -> f64 {
    1.01 * roundings * ROUNDOFF
}

/// The constants of a problem; every one is an upper bound, rounding included.
#[derive(Debug, Clone)]
pub(super) struct Bounds {
    /// Strong convexity mu.
    pub(super) strong_convexity: f64,
    /// sum_i omega_i / W.
    average_weight: f64,
    /// ||x_i|| <= R.
    row_norm: f64,
    /// |loss'| <= G on the region.
    slope: f64,
    /// Half the width of the slopes of a kinked loss.
    half_range: f64,
    /// loss'' <= c; `None` for a kink.
    curvature: Option<f64>,
    /// ||w|| <= reach on the region.
    pub(super) reach: f64,
    /// Diameter of the region.
    pub(super) diameter: f64,
    /// ||grad F|| on the region.
    gradient: f64,
    /// Roundings in a score, and in a sum over rows.
    score_roundings: f64,
    sum_roundings: f64,
    /// Roundings of a slope, in units of its size, at least of 1.
    slope_roundings: f64,
    /// Sizes of everything that is added up in a gradient: 6 roundings of it cover the assembly.
    assembly: f64,
    /// Norm of the free minimizer of the mean loss, before it is projected.
    free_reach: f64,
    is_mean: bool,
    /// The domain; for the whole space the ball around the anchor that holds the minimizer.
    pub(super) region: Domain,
}

/// How the finisher will run: smoothing, steps, and the number of passes after which its error is proved.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    /// Moreau smoothing of the kink; zero for a smooth loss.
    pub(super) smoothing: f64,
    /// 2 beta: curvature of the model used in a step.
    pub(super) curvature: f64,
    /// mu / 2: strong convexity used in a step.
    pub(super) convexity: f64,
    /// sqrt(convexity / curvature).
    pub(super) rate: f64,
    /// Iterations needed.
    pub(super) passes: u64,
    /// What the distance is proved to be then.
    pub(super) distance: f64,
}

impl Bounds {
    pub(super) fn new(
        passes: &Passes<'_>,
        row_norm: f64,
        regularization: f64,
        anchor: &[f64],
        linear: &[f64],
        domain: &Domain,
    ) -> Self {
        let rows = passes.rows.len();
        let sum_roundings = roundings(rows) + 8.0;
        let weights = match passes.weights {
            Some(weights) => weights.iter().sum::<f64>() * (1.0 + 2.0 * gamma(rows as f64)),
            None => rows as f64,
        };
        let average_weight = (weights / passes.total_weight).next_up();
        // the same sum rounded down: what convexity may rely on
        let least_weight = (average_weight * (1.0 - 8.0 * gamma(rows as f64 + 2.0))).max(0.0);
        let centre = anchor;
        let (anchor, linear) = (length_up(anchor), length_up(linear));
        let is_mean = passes.loss.is_mean();
        // ||w* - w_0|| <= ||grad F(w_0)|| / mu, and the slopes at w_0 belong to scores up to R ||w_0||
        let slope_at = |reach: f64| match is_mean {
            true => (row_norm + reach) / row_norm,
            false => passes.loss.derivative_bound(row_norm * reach * (1.0 + 1e-9)),
        };
        let strong_convexity =
            if is_mean { (regularization + least_weight).next_down() } else { regularization };
        // not below 1e-12, so that nothing computed from it underflows
        let radius =
            (1.01 * (average_weight * slope_at(anchor) * row_norm + linear) / strong_convexity).max(1e-12);
        let reach = domain.max_norm().unwrap_or(anchor + radius) * 1.01;
        let slope = slope_at(reach);
        let half_range = with_scalar!(passes.loss.form(), loss => match loss.kink(1.0) {
            Some(kink) => 0.5 * (kink.high_slope - kink.low_slope),
            None => 0.0,
        }, _form => 0.0);
        let assembly = average_weight * slope * row_norm + regularization * (reach + anchor) + linear;
        let pull = average_weight * row_norm + regularization * anchor + linear;
        let region = match domain.shape() {
            Shape::Whole { .. } => Domain::around(centre.to_vec(), radius),
            _ => domain.clone(),
        };
        Bounds {
            strong_convexity,
            average_weight,
            row_norm,
            slope,
            half_range,
            curvature: passes.loss.curvature_bound(),
            reach,
            diameter: domain.diameter().unwrap_or(2.0 * radius),
            gradient: assembly * (1.0 + 1e-9),
            score_roundings: passes.rows.width() as f64 + 8.0,
            sum_roundings,
            // softmax adds up one power per class
            slope_roundings: 16.0 + passes.outputs() as f64,
            assembly,
            free_reach: 1.01 * pull / strong_convexity,
            is_mean,
            region,
        }
    }

    /// beta = omega c R^2 + lambda.
    pub(super) fn smoothness(&self) -> Option<f64> {
        self.curvature.map(|curvature| self.smoothness_at(curvature))
    }

    fn smoothness_at(&self, curvature: f64) -> f64 {
        if self.is_mean {
            return (self.average_weight + self.strong_convexity) * (1.0 + 1e-12);
        }
        (self.average_weight * curvature * self.row_norm * self.row_norm + self.strong_convexity)
            * (1.0 + 1e-12)
    }

    /// e_g: error of a computed gradient whose scores are off by `score_error` under curvature `curvature`.
    fn gradient_error_with(&self, curvature: f64, score_error: f64) -> f64 {
        let slope_error = self.slope_roundings * ROUNDOFF * (self.slope + 1.0) + curvature * score_error;
        self.average_weight * self.row_norm * slope_error + self.sum_error() + 6.0 * ROUNDOFF * self.assembly
    }

    /// Error of sum_i share_i s_i x_i for given slopes.
    pub(super) fn sum_error(&self) -> f64 {
        gamma(self.sum_roundings) * self.average_weight * self.slope * self.row_norm
    }

    /// Error of a gradient evaluated in doubles, at weights of norm up to `reach`.
    pub(super) fn gradient_error(&self) -> f64 {
        let score_error = gamma(self.score_roundings) * self.row_norm * self.reach;
        self.gradient_error_with(self.curvature.unwrap_or(0.0), score_error)
    }

    /// Error of a score evaluated in pairs of doubles (see `fine`).
    pub(super) fn fine_score_error(&self) -> f64 {
        let k = self.score_roundings;
        // the tail is a sum of k terms of size u (each the error of a partial sum, or a low half), rounded k times; adding the
        // eight running sums costs a few roundings of pairs
        (8.0 * k * k * ROUNDOFF * ROUNDOFF + 32.0 * DOUBLE_ROUNDOFF) * self.row_norm * self.reach
    }

    /// Width of the slopes times the average weight: what an error of the scores costs a duality gap.
    pub(super) fn gap_error(&self) -> f64 {
        2.0 * self.half_range * self.average_weight * self.fine_score_error()
    }

    /// Relative error of a sum of nonnegative terms over the rows.
    pub(super) fn relative_sum_error(&self) -> f64 {
        gamma(self.sum_roundings)
    }

    /// Error of a projection in pairs of doubles of a point of norm up to `size`, its own arithmetic included.
    pub(super) fn projection_error(&self, size: f64) -> f64 {
        self.region.double_error(size) + 16.0 * DOUBLE_ROUNDOFF * (size + self.reach)
    }

    /// Rounding a point to doubles and moving it inside the domain.
    pub(super) fn landing_error(&self) -> f64 {
        self.region.landing_error(self.reach)
    }

    /// Error of the closed formula for the mean.
    pub(super) fn closed_form_error(&self) -> f64 {
        // (sum_i share_i x_i + lambda w_0 + S) / (sum_i share_i + lambda): both sums over the rows are rounded, and an error of
        // the divisor moves the quotient in proportion to its size
        let sums = gamma(self.sum_roundings) * self.average_weight * (self.row_norm + self.free_reach);
        let error = (sums + 8.0 * ROUNDOFF * self.strong_convexity * self.free_reach) / self.strong_convexity;
        let error = error * (1.0 + 1e-9);
        error + self.projection_error(self.free_reach + error) + self.landing_error()
    }

    /// How the finisher reaches `tolerance` from a point within `start` of the minimizer; `None` below the floor.
    pub(super) fn plan(&self, tolerance: f64, start: f64) -> Option<Plan> {
        let mu = self.strong_convexity;
        let room = tolerance - self.landing_error();
        if !(room > 0.0) {
            return None;
        }
        // F(x) - F* <= allowed proves ||x - w*|| <= room
        let allowed = 0.5 * mu * room * room * (1.0 - 1e-12);
        let (smoothing, beta, gradient_error) = match self.curvature {
            Some(curvature) => {
                let beta = self.smoothness_at(curvature);
                // the iterate is rounded to doubles before the gradient is evaluated there
                (0.0, beta, self.gradient_error() + beta * ROUNDOFF * self.reach)
            }
            None => {
                // smoothing costs at most omega s h^2 / 2 = allowed / 2
                let smoothing = allowed / (self.average_weight * self.half_range * self.half_range);
                let error = self.gradient_error_with(1.0 / smoothing, self.fine_score_error());
                (smoothing, self.smoothness_at(1.0 / smoothing), error)
            }
        };
        let (curvature, convexity) = (2.0 * beta, 0.5 * mu);
        // rounded down: the proof needs curvature * rate^2 <= convexity
        let rate = (convexity / curvature).sqrt() * (1.0 - 1e-12);
        // the largest argument of a projection: w - (rate / convexity) g
        let size = self.reach + 2.0 * (self.gradient + gradient_error) / (convexity * curvature).sqrt();
        let drift = self.projection_error(size);
        let error = gradient_error + beta * drift;
        let per_step =
            1.5 * error * error / mu + 4.0 * (self.gradient + mu * self.diameter + beta * drift) * drift;
        // half of what is allowed for smoothing, a fifth each for the steps' errors and for what is left of the start; the
        // rest pays for the last point lying a drift outside the domain
        if !(per_step / rate <= 0.2 * allowed) {
            return None;
        }
        let excess = (self.gradient + mu * start) * start;
        let passes = ((excess / (0.2 * allowed)).ln() / rate).ceil().max(1.0);
        Some(Plan { smoothing, curvature, convexity, rate, passes: passes as u64, distance: tolerance })
    }

    /// The smallest tolerance for which there is a plan, to within a per cent.
    pub(super) fn smallest_tolerance(&self) -> f64 {
        let works = |tolerance: f64| self.plan(tolerance, self.diameter).is_some();
        let (mut low, mut high) = (1e-300f64, 1e300f64);
        // bisection in the exponent: 600 decades, halved until the ends are half a per cent apart
        for _ in 0..60 {
            let middle = low.sqrt() * high.sqrt();
            if works(middle) {
                high = middle
            } else {
                low = middle
            }
            if high / low < 1.005 {
                break;
            }
        }
        high
    }

    /// ||grad F|| on the region.
    pub(super) fn gradient_bound(&self) -> f64 {
        self.gradient
    }

    /// Cost of smoothing a kink in the objective: omega s h^2 / 2.
    pub(super) fn smoothing_cost(&self, smoothing: f64) -> f64 {
        0.5 * self.average_weight * smoothing * self.half_range * self.half_range * (1.0 + 1e-12)
    }

    /// Error of a gradient at a pair-of-doubles point under a plan.
    pub(super) fn planned_gradient_error(&self, plan: &Plan) -> f64 {
        match self.curvature {
            Some(_) => self.gradient_error(),
            None => self.gradient_error_with(1.0 / plan.smoothing, self.fine_score_error()),
        }
    }
}

/// Whether the loss has a kink.
pub(super) fn has_kink(form: Form) -> bool {
    with_scalar!(form, loss => loss.kink(1.0).is_some(), _other => false)
}
