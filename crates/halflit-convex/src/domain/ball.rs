use super::{DomainError, Number, ROUNDOFF, check_coordinates, check_dimension, norm_up};
use crate::double::DOUBLE_ROUNDOFF;

/// The points within `radius` of `centre`.
#[derive(Debug, Clone, PartialEq)]
pub struct Ball {
    centre: Vec<f64>,
    radius: f64,
}

pub(super) fn check_radius(radius: f64) -> Result<f64, DomainError> {
    if radius > 0.0 && radius <= 1e12 { Ok(radius) } else { Err(DomainError::Radius { value: radius }) }
}

impl Ball {
    /// A ball of positive radius.
    pub fn new(centre: Vec<f64>, radius: f64) -> Result<Self, DomainError> {
        check_dimension(centre.len(), centre.len())?;
        check_coordinates(&centre)?;
        Ok(Ball { centre, radius: check_radius(radius)? })
    }

    /// Its centre.
    pub fn centre(&self) -> &[f64] {
        &self.centre
    }

    /// Its radius.
    pub fn radius(&self) -> f64 {
        self.radius
    }

    /// Largest norm of its points, rounded up.
    pub(crate) fn max_norm(&self) -> f64 {
        (norm_up(self.centre.iter().copied()) + self.radius).next_up()
    }

    /// A radius small enough that a projection onto it, with all its roundings, stays inside the ball and is left alone
    /// by the next projection.
    pub(super) fn inner_radius(&self) -> f64 {
        let dimension = self.centre.len() as f64;
        // norm and scaling: relative (d + 10) u; adding the centre: absolute u (||c|| + r) each way
        let shrunk = self.radius * (1.0 - (dimension + 10.0) * ROUNDOFF) - 4.0 * ROUNDOFF * self.max_norm();
        shrunk.max(0.0)
    }

    fn distance<T: Number>(&self, weights: &[T]) -> T {
        let squared = weights.iter().zip(&self.centre).fold(T::from(0.0), |sum, (&w, &c)| {
            let difference = w - T::from(c);
            sum + difference * difference
        });
        squared.root()
    }

    pub(super) fn contains(&self, weights: &[f64], slack: f64) -> bool {
        self.distance(weights) <= self.radius + slack
    }

    /// Projection onto the ball of this centre and another radius. Points of this ball stay where they are.
    pub(super) fn project<T: Number>(&self, weights: &mut [T], radius: f64) {
        let distance = self.distance(weights);
        if distance <= T::from(self.radius) {
            return;
        }
        let factor = T::from(radius) / distance;
        for (w, &c) in weights.iter_mut().zip(&self.centre) {
            let c = T::from(c);
            *w = c + factor * (*w - c);
        }
    }
}

/// The common part of two balls.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TwoBalls {
    pub(crate) first: Ball,
    pub(crate) second: Ball,
    /// Distance of the centres.
    distance: f64,
    /// A point well inside both: the middle of the lens on the line of the centres.
    pub(crate) middle: Vec<f64>,
    /// How deep inside both the middle is; zero when the balls merely touch.
    pub(crate) depth: f64,
}

impl TwoBalls {
    pub(super) fn new(first: Ball, second: Ball) -> Result<Self, DomainError> {
        check_dimension(first.centre.len(), second.centre.len())?;
        let distance = first.distance(&second.centre);
        let reach = first.radius + second.radius;
        if !(distance <= reach) {
            return Err(DomainError::Disjoint { distance, reach });
        }
        // On the line of the centres, at position t from the first centre, the lens spans
        // [max(-r1, D - r2), min(r1, D + r2)].
        let from = (-first.radius).max(distance - second.radius);
        let to = first.radius.min(distance + second.radius);
        let position = 0.5 * (from + to);
        let share = if distance > 0.0 { position / distance } else { 0.0 };
        let middle: Vec<f64> =
            first.centre.iter().zip(&second.centre).map(|(a, b)| a + share * (b - a)).collect();
        let depth = [&first, &second]
            .map(|ball| ball.radius - ball.distance(&middle))
            .into_iter()
            .fold(f64::MAX, f64::min);
        // the distances carry relative (d + 10) u and absolute u ||c|| errors
        let error = (first.centre.len() as f64 + 10.0) * ROUNDOFF * (first.max_norm() + second.max_norm());
        Ok(TwoBalls { first, second, distance, middle, depth: (depth - error).max(0.0) })
    }

    pub(super) fn diameter(&self) -> f64 {
        2.0 * self.first.radius.min(self.second.radius)
    }

    /// Half the distance between the two spheres' common points, squared: r1^2 - a^2.
    fn half_width_squared(&self) -> f64 {
        let (r1, r2, distance) = (self.first.radius, self.second.radius, self.distance);
        let along = (distance * distance + r1 * r1 - r2 * r2) / (2.0 * distance);
        r1 * r1 - along * along
    }

    pub(super) fn slack(&self) -> f64 {
        let scale = self.first.max_norm() + self.second.max_norm();
        // touching balls have a common part as thin as the rounding of their centres allows
        if self.depth > 0.0 { 0.0 } else { (scale * ROUNDOFF).sqrt() * scale.sqrt() }
    }

    pub(super) fn contains(&self, weights: &[f64]) -> bool {
        let slack = self.slack();
        self.first.contains(weights, slack) && self.second.contains(weights, slack)
    }

    /// Projection in any arithmetic, with the given radii: onto one ball if that lands in the other, else onto the sphere
    /// where both surfaces meet.
    pub(super) fn project<T: Number>(&self, weights: &mut [T], first_radius: f64, second_radius: f64) {
        let (first, second) = (&self.first, &self.second);
        let inside = |ball: &Ball, weights: &[T]| ball.distance(weights) <= T::from(ball.radius);
        if inside(first, weights) && inside(second, weights) {
            return;
        }
        let mut candidate = weights.to_vec();
        first.project(&mut candidate, first_radius);
        if inside(second, &candidate) {
            weights.copy_from_slice(&candidate);
            return;
        }
        candidate.copy_from_slice(weights);
        second.project(&mut candidate, second_radius);
        if inside(first, &candidate) {
            weights.copy_from_slice(&candidate);
            return;
        }
        self.project_to_edge(weights, first_radius, second_radius);
    }

    /// The nearest point at distance r1 from one centre and r2 from the other: c1 + a e + h n, with e the unit vector along the
    /// centres, n the unit vector of the part of v - c1 across it, a = (D^2 + r1^2 - r2^2)/(2D), h^2 = r1^2 - a^2.
    fn project_to_edge<T: Number>(&self, weights: &mut [T], first_radius: f64, second_radius: f64) {
        let (c1, c2) = (&self.first.centre, &self.second.centre);
        let (r1, r2) = (T::from(first_radius), T::from(second_radius));
        let axis: Vec<T> = c1.iter().zip(c2).map(|(&a, &b)| T::from(b) - T::from(a)).collect();
        let dot = |a: &[T], b: &[T]| a.iter().zip(b).fold(T::from(0.0), |sum, (&a, &b)| sum + a * b);
        let squared = dot(&axis, &axis);
        if !(squared > T::from(0.0)) {
            return; // concentric: one ball holds the other, and the cases above applied
        }
        let along = (squared + r1 * r1 - r2 * r2) / (T::from(2.0) * squared);
        let offset: Vec<T> = weights.iter().zip(c1).map(|(&w, &c)| w - T::from(c)).collect();
        let share = dot(&offset, &axis) / squared;
        let across: Vec<T> = offset.iter().zip(&axis).map(|(&o, &a)| o - share * a).collect();
        let length = dot(&across, &across).root();
        let height = (r1 * r1 - along * along * squared).root();
        let factor = if length > T::from(0.0) { height / length } else { T::from(0.0) };
        for (index, w) in weights.iter_mut().enumerate() {
            *w = T::from(c1[index]) + along * axis[index] + factor * across[index];
        }
    }

    /// Projection in doubles, pulled toward the middle until it is inside both balls.
    pub(super) fn project_inside(&self, weights: &mut [f64]) {
        self.project(weights, self.first.inner_radius(), self.second.inner_radius());
        if self.first.contains(weights, 0.0) && self.second.contains(weights, 0.0) {
            return;
        }
        let outside = [&self.first, &self.second]
            .map(|ball| ball.distance(weights) - ball.inner_radius())
            .into_iter()
            .fold(0.0, f64::max);
        if outside > 0.0 && self.depth > 0.0 {
            // (1 - t)(r + o) + t (r - depth) = r at t = o / (o + depth)
            let pull = (outside / (outside + self.depth) * (1.0 + 8.0 * ROUNDOFF)).min(1.0);
            for (w, &middle) in weights.iter_mut().zip(&self.middle) {
                *w += pull * (middle - *w);
            }
        }
    }

    /// Rounding error of a projection on pairs of doubles: that of a ball, magnified where the surfaces meet at a small angle.
    pub(super) fn double_error(&self, reach: f64) -> f64 {
        let scale = self.first.max_norm() + self.second.max_norm() + reach;
        let base = (self.first.centre.len() as f64 + 16.0) * DOUBLE_ROUNDOFF * scale;
        let height = self.half_width_squared().max(0.0).sqrt();
        // a is off by base scale / D, h by scale/h times that, and never by more than the root of that
        let position = base * (1.0 + scale / self.distance.max(f64::MIN_POSITIVE));
        let magnified = position * (1.0 + scale / height.max(f64::MIN_POSITIVE));
        magnified.min((position * scale).sqrt() + position).min(scale)
    }
}
