//! Domains of the weights: projection, diameter, membership.
//!
//! # Rounding
//!
//! [`Domain::project`] lands inside the domain, not near it: balls are shrunk by a few units in the last place first, boxes are
//! exact; a point whose computed distance from the centre is at most the radius stays where it is. Two exceptions carry a stated slack ([`Domain::slack`]): the simplex, whose coordinates sum to 1 up to
//! rounding, and two balls that merely touch, which have no inside to aim at.

mod ball;
mod number;
mod simplex;

pub use ball::Ball;
pub(crate) use number::Number;

use ball::TwoBalls;

/// Unit roundoff of a double.
pub(crate) const ROUNDOFF: f64 = f64::EPSILON / 2.0;

/// A closed convex set of weights.
#[derive(Debug, Clone, PartialEq)]
pub struct Domain(Shape);

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Shape {
    Whole { dimension: usize, prior_radius: Option<f64> },
    Ball(Ball),
    Box { low: Vec<f64>, high: Vec<f64> },
    TwoBalls(TwoBalls),
    Simplex { dimension: usize },
}

/// Why a domain was refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum DomainError {
    /// A radius that is not a positive number.
    #[error("the radius is {value}; it must be between 1e-100 and 1e12")]
    Radius {
        /// The refused radius.
        value: f64,
    },
    /// A coordinate that is not a number of sensible size.
    #[error("coordinate {index} is {value}; it must be finite and at most 1e12 in magnitude")]
    Coordinate {
        /// Which coordinate.
        index: usize,
        /// Its value.
        value: f64,
    },
    /// A box side with its ends exchanged, or sides of different number.
    #[error("box side {index} has low {low} above high {high}")]
    Side {
        /// Which side.
        index: usize,
        /// Its lower end.
        low: f64,
        /// Its upper end.
        high: f64,
    },
    /// Parts of different dimensions, or dimension zero.
    #[error("dimensions {first} and {second} must be equal and positive")]
    Dimension {
        /// First dimension.
        first: usize,
        /// Second dimension.
        second: usize,
    },
    /// Two balls without a common point.
    #[error("the balls have no common point: their centres are {distance} apart, their radii sum to {reach}")]
    Disjoint {
        /// Distance of the centres.
        distance: f64,
        /// Sum of the radii.
        reach: f64,
    },
}

impl Domain {
    /// All weights. `prior_radius` is prior knowledge of the size of the solution, which some utility theorems need.
    pub fn whole(dimension: usize, prior_radius: Option<f64>) -> Result<Self, DomainError> {
        check_dimension(dimension, dimension)?;
        prior_radius.map_or(Ok(0.0), ball::check_radius)?;
        Ok(Domain(Shape::Whole { dimension, prior_radius }))
    }

    /// A ball.
    pub fn ball(centre: Vec<f64>, radius: f64) -> Result<Self, DomainError> {
        Ok(Domain(Shape::Ball(Ball::new(centre, radius)?)))
    }

    /// The ball of the given radius around the origin.
    pub fn centred_ball(dimension: usize, radius: f64) -> Result<Self, DomainError> {
        Domain::ball(vec![0.0; dimension], radius)
    }

    /// All weights between `low` and `high`, coordinate by coordinate.
    pub fn boxed(low: Vec<f64>, high: Vec<f64>) -> Result<Self, DomainError> {
        check_dimension(low.len(), high.len())?;
        check_coordinates(&low)?;
        check_coordinates(&high)?;
        match low.iter().zip(&high).position(|(low, high)| low > high) {
            Some(index) => Err(DomainError::Side { index, low: low[index], high: high[index] }),
            None => Ok(Domain(Shape::Box { low, high })),
        }
    }

    /// The common part of two balls, which must meet.
    pub fn two_balls(first: Ball, second: Ball) -> Result<Self, DomainError> {
        let both = TwoBalls::new(first, second)?;
        Ok(Domain(match both.nested() {
            Some(ball) => Shape::Ball(ball),
            None => Shape::TwoBalls(both),
        }))
    }

    /// Nonnegative weights that sum to 1.
    pub fn simplex(dimension: usize) -> Result<Self, DomainError> {
        check_dimension(dimension, dimension)?;
        Ok(Domain(Shape::Simplex { dimension }))
    }

    pub(crate) fn shape(&self) -> &Shape {
        &self.0
    }

    /// Number of coordinates.
    pub fn dimension(&self) -> usize {
        match &self.0 {
            Shape::Whole { dimension, .. } | Shape::Simplex { dimension } => *dimension,
            Shape::Ball(ball) => ball.centre().len(),
            Shape::Box { low, .. } => low.len(),
            Shape::TwoBalls(balls) => balls.first.centre().len(),
        }
    }

    /// Largest distance between two of its points, rounded up; `None` when there is none.
    pub fn diameter(&self) -> Option<f64> {
        match &self.0 {
            Shape::Whole { .. } => None,
            Shape::Ball(ball) => Some(2.0 * ball.radius()),
            Shape::Box { low, high } => Some(norm_up(low.iter().zip(high).map(|(low, high)| high - low))),
            Shape::TwoBalls(balls) => Some(balls.diameter()),
            Shape::Simplex { dimension: 1 } => Some(0.0),
            Shape::Simplex { .. } => Some(std::f64::consts::SQRT_2.next_up()),
        }
    }

    /// Largest norm of its points, rounded up; `None` when there is none.
    pub fn max_norm(&self) -> Option<f64> {
        match &self.0 {
            Shape::Whole { .. } => None,
            Shape::Ball(ball) => Some(ball.max_norm()),
            Shape::Box { low, high } => {
                Some(norm_up(low.iter().zip(high).map(|(low, high)| low.abs().max(high.abs()))))
            }
            Shape::TwoBalls(balls) => Some(balls.first.max_norm().min(balls.second.max_norm())),
            Shape::Simplex { .. } => Some(1.0),
        }
    }

    /// The prior-knowledge radius of an unconstrained domain, or the radius that the domain itself gives.
    pub fn prior_radius(&self) -> Option<f64> {
        match &self.0 {
            Shape::Whole { prior_radius, .. } => *prior_radius,
            Shape::Ball(ball) => Some(ball.radius()),
            _ => self.diameter(),
        }
    }

    /// How far outside the domain a projected point may lie.
    pub fn slack(&self) -> f64 {
        match &self.0 {
            Shape::TwoBalls(balls) => balls.slack(),
            // each coordinate is off by a few roundings of numbers up to 1 after subtracting the threshold
            Shape::Simplex { dimension } => 8.0 * *dimension as f64 * ROUNDOFF,
            _ => 0.0,
        }
    }

    /// Whether a point belongs to the domain, up to its slack. Points of another dimension and NaN do not.
    pub fn contains(&self, weights: &[f64]) -> bool {
        if weights.len() != self.dimension() {
            return false;
        }
        match &self.0 {
            Shape::Whole { .. } => weights.iter().all(|w| w.is_finite()),
            Shape::Ball(ball) => ball.contains(weights, 0.0),
            Shape::Box { low, high } => {
                weights.iter().zip(low.iter().zip(high)).all(|(w, (low, high))| w >= low && w <= high)
            }
            Shape::TwoBalls(balls) => balls.contains(weights),
            Shape::Simplex { .. } => {
                let sum: f64 = weights.iter().sum();
                weights.iter().all(|&w| w >= 0.0) && (sum - 1.0).abs() <= self.slack()
            }
        }
    }

    /// The nearest point of the domain, inside it (up to [`Domain::slack`]).
    ///
    /// # Panics
    /// When the number of weights is not the dimension.
    pub fn project(&self, weights: &mut [f64]) {
        assert_eq!(weights.len(), self.dimension());
        match &self.0 {
            Shape::Ball(ball) => ball.project(weights, ball.inner_radius()),
            Shape::TwoBalls(balls) => balls.project_inside(weights),
            Shape::Simplex { .. } => {
                // a far point rounds coarsely the first time, a near one does not
                simplex::project(weights);
                simplex::project(weights);
                simplex::balance(weights);
            }
            _ => self.project_number(weights),
        }
    }

    /// The nearest point in the given arithmetic: exact up to its rounding, see [`Domain::double_error`].
    pub(crate) fn project_number<T: Number>(&self, weights: &mut [T]) {
        match &self.0 {
            Shape::Whole { .. } => {}
            Shape::Ball(ball) => ball.project(weights, ball.radius()),
            Shape::Box { low, high } => {
                for (w, (&low, &high)) in weights.iter_mut().zip(low.iter().zip(high)) {
                    let (low, high) = (T::from(low), T::from(high));
                    *w = if *w < low { low } else { *w };
                    *w = if *w > high { high } else { *w };
                }
            }
            Shape::TwoBalls(balls) => {
                balls.project(weights, balls.first.radius(), balls.second.radius());
            }
            Shape::Simplex { .. } => simplex::project(weights),
        }
    }

    /// How far a point may lie from the domain, rounded up: zero only where membership is exact.
    ///
    /// For points that [`Domain::contains`] accepts.
    pub(crate) fn outside(&self, weights: &[f64]) -> f64 {
        match &self.0 {
            Shape::Whole { .. } | Shape::Box { .. } => 0.0,
            Shape::Ball(ball) => ball.outside(weights),
            Shape::TwoBalls(balls) => balls.outside(weights),
            // w >= 0 with sum s: w / s is in the simplex, at distance ||w|| |1 - 1/s| <= |s - 1|
            Shape::Simplex { dimension } => {
                let excess = simplex::excess(weights).abs();
                excess * (1.0 + 4.0 * ROUNDOFF) + 4.0 * *dimension as f64 * crate::double::DOUBLE_ROUNDOFF
            }
        }
    }

    /// Bound on the error of rounding a point of norm up to `reach` to doubles and projecting it with [`Domain::project`].
    pub(crate) fn landing_error(&self, reach: f64) -> f64 {
        let rounding = (self.dimension() as f64 + 32.0) * 2.0 * ROUNDOFF * reach;
        match &self.0 {
            Shape::TwoBalls(balls) => balls.landing_error(reach),
            _ => rounding + 2.0 * self.slack(),
        }
    }

    /// A ball of any size around a point.
    pub(crate) fn around(centre: Vec<f64>, radius: f64) -> Self {
        Domain(Shape::Ball(Ball::around(centre, radius)))
    }

    /// Bound on the error of [`Domain::project_number`] on pairs of doubles, for points of norm up to `reach`.
    pub(crate) fn double_error(&self, reach: f64) -> f64 {
        use crate::double::DOUBLE_ROUNDOFF;
        let dimension = self.dimension() as f64;
        match &self.0 {
            Shape::Whole { .. } | Shape::Box { .. } => 0.0,
            // norm: d/2 + 2 roundings relative; difference, scaling and sum: 4 more
            Shape::Ball(ball) => (dimension + 8.0) * DOUBLE_ROUNDOFF * (ball.max_norm() + reach),
            Shape::TwoBalls(balls) => balls.double_error(reach),
            // the threshold is a mean of at most d partial sums of numbers up to reach
            Shape::Simplex { .. } => 4.0 * dimension * dimension.sqrt() * DOUBLE_ROUNDOFF * (1.0 + reach),
        }
    }
}

fn check_dimension(first: usize, second: usize) -> Result<(), DomainError> {
    if first == second && first > 0 { Ok(()) } else { Err(DomainError::Dimension { first, second }) }
}

fn check_coordinates(values: &[f64]) -> Result<(), DomainError> {
    match values.iter().position(|value| !(value.abs() <= 1e12)) {
        Some(index) => Err(DomainError::Coordinate { index, value: values[index] }),
        None => Ok(()),
    }
}

/// The norm of a vector, rounded up: every square, sum and root is off by at most one roundoff, d/2 + 2 in all.
pub(crate) fn norm_up(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let roundings = values.len() as f64 / 2.0 + 3.0;
    values.map(|value| value * value).sum::<f64>().sqrt() * (1.0 + 2.0 * roundings * ROUNDOFF)
}

#[cfg(test)]
mod tests;
