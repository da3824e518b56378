//! The composed law while planning: its cumulant generating function, and the tilts that put it where it is wanted.
//!
//! Nothing that is claimed rests on it.

use super::sketch::{Cumulant, Point, cumulant};
use crate::special::{mills_difference, mills_ratio};
use libm::{exp, log, sqrt};

/// How far above epsilon a single loss is decisive, at least, relative to epsilon.
const DECISIVE_PART: f64 = 0.1;
/// How much of what decisive losses add may be lost because others could take them back (natural log).
const LOG_TAKEN_BACK: f64 = -11.0;

/// The composed law without the far tails of its parts.
pub struct Law {
    /// Outcomes of one release, and how often it happens.
    pub parts: Vec<(Vec<Point>, f64)>,
}

impl Law {
    /// K and its derivatives at theta.
    pub fn cumulant(&self, theta: f64) -> Cumulant {
        let mut total = Cumulant { value: 0.0, mean: 0.0, variance: 0.0 };
        for (points, count) in &self.parts {
            let part = cumulant(points, theta);
            total.value += count * part.value;
            total.mean += count * part.mean;
            total.variance += count * part.variance;
        }
        total
    }

    /// The size of the third central moment at theta, over the standard deviation cubed.
    pub fn skewness(&self, theta: f64) -> f64 {
        let total = self.cumulant(theta);
        let third = |(points, count): &(Vec<Point>, f64)| {
            let part = cumulant(points, theta);
            let term = |point: &Point| {
                let distance = point.loss - part.mean;
                point.p * exp(theta * point.loss - part.value) * distance * distance * distance
            };
            count * points.iter().map(term).sum::<f64>()
        };
        let third: f64 = self.parts.iter().map(third).sum();
        (third / (total.variance * sqrt(total.variance))).abs()
    }

    /// The smallest single loss that decides alone at epsilon, and a tilt that shows why: under Q all other releases
    /// together take it back with probability e^LOG_TAKEN_BACK at most.
    pub fn decisive(&self, epsilon: f64) -> (f64, f64) {
        // e^{K(s) - (s+1) K'(s)} bounds Q(S < K'(s)).
        let likely = self.solve_tilt(-1.0, -1.0, |tilt, cumulant| {
            cumulant.value - (tilt + 1.0) * cumulant.mean - LOG_TAKEN_BACK
        });
        let drop = (-1.1 * self.cumulant(likely).mean).max(DECISIVE_PART * epsilon).max(0.0);
        // With more room than that a smaller tilt is enough.
        let down = self
            .solve_tilt(-1.0, -1.0, |tilt, cumulant| cumulant.value + (tilt + 1.0) * drop - LOG_TAKEN_BACK);
        (epsilon + drop, down)
    }

    /// The tilt, from `start` on in the direction of `sign`, that moves the mean to a place.
    pub fn tilt_to(&self, place: f64, start: f64, sign: f64) -> f64 {
        // In standard deviations, so that the solver's accuracy means the same for small losses and large ones.
        self.solve_tilt(start, sign, |_, cumulant| {
            sign * (place - cumulant.mean) / sqrt(cumulant.variance).max(1e-300)
        })
    }

    /// The highest bottom of a window such that what lies below it, once it has come up by a multiple of the width, adds
    /// e^limit at most to what is asked for; and the tilt that shows it. (Under Q it adds relatively less: what comes up
    /// to epsilon or above has a loss that is smaller by the distance, and Q-mass is P-mass times e^-loss.)
    ///
    /// What comes up m widths counts e^{-theta m width}. With a tilt above zero, P(S >= bottom - m width) bounds its mass;
    /// with one below, P(S < bottom - (m-1) width); with none, one.
    pub fn bottom(&self, top: f64, theta: f64, limit: f64) -> (f64, f64) {
        let above = |tilt: f64, cumulant: Cumulant| {
            let (bottom, width) = (0.5 * (cumulant.mean + top), 0.5 * (top - cumulant.mean));
            cumulant.value - tilt * bottom - (theta - tilt) * width - limit
        };
        if let Some(tilt) = self.first_tilt_below(theta, 0.0, above) {
            return (tilt, 0.5 * (self.cumulant(tilt).mean + top));
        }
        let certain = top + limit / theta;
        if certain >= self.cumulant(0.0).mean {
            return (0.0, certain);
        }
        let tilt = self.solve_tilt(0.0, -1.0, |tilt, cumulant| {
            cumulant.value - tilt * cumulant.mean - theta * (top - cumulant.mean) - limit
        });
        (tilt, self.cumulant(tilt).mean)
    }

    /// Going down from `start`, the first tilt above `end`, nearly, at which a function has fallen to zero.
    fn first_tilt_below(&self, start: f64, end: f64, height: impl Fn(f64, Cumulant) -> f64) -> Option<f64> {
        let mut step = 0.5 / sqrt(self.cumulant(start).variance.max(1e-300));
        let (mut high, mut low) = (start, start - step);
        while low > end && height(low, self.cumulant(low)) > 0.0 {
            step *= 1.5;
            (high, low) = (low, low - step);
        }
        if low <= end {
            return None;
        }
        for _ in 0..5 {
            let middle = 0.5 * (low + high);
            if height(middle, self.cumulant(middle)) > 0.0 {
                high = middle;
            } else {
                low = middle;
            }
        }
        Some(low)
    }

    /// From `start` on in the direction of `sign`, the first tilt at which a decreasing function reaches zero; the end
    /// of the useful range if it never does. Accurate to one part in a thousand, which is enough for planning.
    pub fn solve_tilt(&self, start: f64, sign: f64, height: impl Fn(f64, Cumulant) -> f64) -> f64 {
        let at_start = self.cumulant(start);
        let mut low = (start, height(start, at_start));
        if low.1 <= 0.0 {
            return start;
        }
        let mut step = 0.5 / sqrt(at_start.variance.max(1e-300));
        let mut high = loop {
            let tilt = low.0 + sign * step;
            let cumulant = self.cumulant(tilt);
            let value = height(tilt, cumulant);
            if value <= 0.0 {
                break (tilt, value);
            }
            // Tilted so far that the loss sits at the end of its range: nothing more to gain.
            if cumulant.variance * tilt * tilt < 1e-9 || !tilt.is_finite() {
                return tilt;
            }
            (low, step) = ((tilt, value), 2.0 * step);
        };
        // False position, and every other time the middle: where rare large losses take over, within a tiny part of the
        // bracket, only halving gets near.
        for round in 0..60 {
            let (near, far) = ((low.0 - start).abs(), (high.0 - start).abs());
            if far - near <= 1e-3 * far {
                break;
            }
            let tilt = if round % 2 == 0 {
                (low.0 * high.1 - high.0 * low.1) / (high.1 - low.1)
            } else if 8.0 * near < far {
                start + sign * sqrt(near.max(1e-6 * far) * far)
            } else {
                0.5 * (low.0 + high.0)
            };
            let value = height(tilt, self.cumulant(tilt));
            if value.abs() <= 1e-3 {
                return tilt;
            }
            if value <= 0.0 {
                high = (tilt, value);
            } else {
                low = (tilt, value);
            }
        }
        high.0
    }
}

/// The saddle-point approximation to log delta at the mean of the tilted law.
pub fn log_delta_at_saddle(theta: f64, cumulant: Cumulant) -> f64 {
    cumulant.value - theta * cumulant.mean + log_hockey_stick(theta, cumulant)
}

/// log of int_0^inf (e^{-theta y} - e^{-(theta+1) y}) N(0, sigma^2)(dy) = [R(theta sigma) - R((theta+1) sigma)]/sqrt(2 pi).
pub fn log_hockey_stick(theta: f64, cumulant: Cumulant) -> f64 {
    let sigma = sqrt(cumulant.variance);
    if !(sigma > 0.0) {
        return 0.0;
    }
    let difference = mills_difference(theta * sigma, sigma);
    log(difference.max(1e-300 * mills_ratio(theta * sigma))) - 0.918_938_533_204_672_8
}
