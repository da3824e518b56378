use super::{DomainError, Number, ROUNDOFF, check_coordinates, check_dimension, norm_up};
use crate::double::{DOUBLE_ROUNDOFF, Double};

/// The points within `radius` of `centre`.
#[derive(Debug, Clone, PartialEq)]
pub struct Ball {
    centre: Vec<f64>,
    radius: f64,
}

pub(super) fn check_radius(radius: f64) -> Result<f64, DomainError> {
    // smaller than 1e-100 and squares of distances would underflow
    if (1e-100..=1e12).contains(&radius) { Ok(radius) } else { Err(DomainError::Radius { value: radius }) }
}

impl Ball {
    /// A ball of positive radius.
    pub fn new(centre: Vec<f64>, radius: f64) -> Result<Self, DomainError> {
        check_dimension(centre.len(), centre.len())?;
        check_coordinates(&centre)?;
        Ok(Ball { centre, radius: check_radius(radius)? })
    }

    /// A ball of any size: what a solver puts around a minimizer that may lie farther than any domain reaches.
    pub(crate) fn around(centre: Vec<f64>, radius: f64) -> Self {
        Ball { centre, radius }
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

    /// How far beyond the sphere a point lies, rounded up; at least the rounding of this very computation.
    pub(super) fn outside(&self, weights: &[f64]) -> f64 {
        let fine: Vec<Double> = weights.iter().map(|&w| Double::from(w)).collect();
        let beyond = (self.distance(&fine) - Double::from(self.radius)).to_f64().max(0.0);
        let rounding = (self.centre.len() as f64 + 8.0) * DOUBLE_ROUNDOFF;
        beyond * (1.0 + 4.0 * ROUNDOFF) + rounding * (self.max_norm() + beyond)
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

    /// Whether one ball holds the other, up to 2^-100 of its size: then the common part is the smaller ball.
    pub(super) fn nested(&self) -> Option<Ball> {
        let [first, second] = [&self.first, &self.second];
        let distance = self.fine_distance() * Double::from(1.0 + 4.0 * f64::EPSILON);
        let holds =
            |large: &Ball, small: &Ball| distance + Double::from(small.radius) <= Double::from(large.radius);
        if holds(first, second) {
            return Some(second.clone());
        }
        holds(second, first).then(|| first.clone())
    }

    /// Distance of the centres in pairs of doubles.
    fn fine_distance(&self) -> Double {
        let centre: Vec<Double> = self.second.centre.iter().map(|&c| Double::from(c)).collect();
        self.first.distance(&centre)
    }

    pub(super) fn diameter(&self) -> f64 {
        self.grown_diameter(0.0)
    }

    /// Bounds on the square of half the width of the circle in which the spheres meet, radii grown by `growth`, and whether
    /// that circle lies between the centres: h^2 = r1^2 - a^2 with a = (D^2 + r1^2 - r2^2)/(2D).
    fn half_width_squared(&self, growth: f64) -> (f64, f64, bool) {
        let grown = |ball: &Ball| Double::sum(ball.radius, growth);
        let (r1, r2, distance) = (grown(&self.first), grown(&self.second), self.fine_distance());
        let along = (distance * distance + r1 * r1 - r2 * r2) / (Double::from(2.0) * distance);
        let squared = (r1 * r1 - along * along).to_f64();
        let scale = self.first.radius + self.second.radius + self.distance + growth;
        let spread = scale * (1.0 + scale / self.distance.max(f64::MIN_POSITIVE));
        // the distance alone takes d + 8 roundings; squares, quotient and difference a dozen more
        let roundings = 4.0 * (self.first.centre.len() as f64 + 32.0);
        let error = roundings * DOUBLE_ROUNDOFF * spread * spread + 4.0 * ROUNDOFF * squared.abs();
        let between = along >= Double::ZERO && along <= distance;
        (squared - error, squared + error, between)
    }

    /// Diameter of the common part when both radii grow by `growth`, rounded up.
    ///
    /// With the circle between the centres both caps are smaller than half a ball, so the ball over that circle holds them.
    fn grown_diameter(&self, growth: f64) -> f64 {
        let widest = 2.0 * (self.first.radius.min(self.second.radius) + growth);
        match self.half_width_squared(growth) {
            (_, most, true) => (2.0 * most.max(0.0).sqrt() * (1.0 + 8.0 * ROUNDOFF)).min(widest),
            _ => widest,
        }
    }

    /// How far from the common part a point may lie that is at most `outside` beyond either sphere.
    ///
    /// Moving the share t = outside/(outside + depth) of the way to the middle brings it inside; the way is no longer than
    /// the diameter of the grown lens.
    pub(super) fn spread(&self, outside: f64) -> f64 {
        let share = if outside > 0.0 { outside / (outside + self.depth) } else { 0.0 };
        share * self.grown_diameter(outside) * (1.0 + 16.0 * ROUNDOFF)
    }

    /// Distance of a point from the common part, rounded up.
    pub(super) fn outside(&self, weights: &[f64]) -> f64 {
        self.spread(self.first.outside(weights).max(self.second.outside(weights)))
    }

    /// Error of [`TwoBalls::project_inside`] for points of norm up to `reach`: the projection in pairs of doubles, rounding to
    /// doubles, and the pull toward the middle.
    pub(super) fn landing_error(&self, reach: f64) -> f64 {
        let scale = self.first.max_norm() + self.second.max_norm() + reach;
        let rounding = (self.first.centre.len() as f64 + 32.0) * 2.0 * ROUNDOFF * scale;
        let fine = self.double_error(reach);
        rounding + fine + self.spread(rounding + fine)
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

    /// Projection pulled toward the middle until it is inside both balls; points inside both stay.
    pub(super) fn project_inside(&self, weights: &mut [f64]) {
        let inside =
            |weights: &[f64]| self.first.contains(weights, 0.0) && self.second.contains(weights, 0.0);
        if inside(weights) {
            return;
        }
        // in pairs of doubles: where the spheres meet at a small angle, rounding is magnified
        let mut fine: Vec<Double> = weights.iter().map(|&w| Double::from(w)).collect();
        self.project(&mut fine, self.first.radius, self.second.radius);
        weights.iter_mut().zip(&fine).for_each(|(w, fine)| *w = fine.to_f64());
        if inside(weights) {
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
        let height = self.half_width_squared(0.0).0.max(0.0).sqrt();
        // a is off by base scale / D; h^2 by 2 scale times that, so h by that over h, and never by more than the root of it;
        // a test whether a point is inside the other ball errs no farther along the sphere
        let position = base * (1.0 + scale / self.distance.max(f64::MIN_POSITIVE));
        let magnified = position * (1.0 + 4.0 * scale / height.max(f64::MIN_POSITIVE));
        magnified.min(2.0 * (position * scale).sqrt() + position).min(scale)
    }
}
