//! Logarithmic barriers of the domains: they keep Newton's method inside while a path leads to the boundary.

use crate::domain::{Ball, Domain, Shape};

/// A barrier's derivatives at a point.
pub(super) struct Barrier {
    pub(super) value: f64,
    pub(super) gradient: Vec<f64>,
    /// Diagonal part of the Hessian.
    pub(super) diagonal: Vec<f64>,
    /// Rank-one parts of the Hessian: factor and vector.
    pub(super) rank_one: Vec<(f64, Vec<f64>)>,
}

impl Barrier {
    /// The barrier at `weights`; `None` on or outside the boundary.
    pub(super) fn at(domain: &Domain, weights: &[f64]) -> Option<Self> {
        let size = weights.len();
        let mut barrier = Barrier {
            value: 0.0,
            gradient: vec![0.0; size],
            diagonal: vec![0.0; size],
            rank_one: Vec::new(),
        };
        match domain.shape() {
            Shape::Whole { .. } => {}
            Shape::Ball(ball) => barrier.add_ball(ball, weights)?,
            Shape::TwoBalls(balls) => {
                barrier.add_ball(&balls.first, weights)?;
                barrier.add_ball(&balls.second, weights)?;
            }
            Shape::Box { low, high } => {
                for (j, &w) in weights.iter().enumerate() {
                    if is_flat(domain, j) {
                        // no room for a barrier: a stiff spring keeps steps from moving this coordinate
                        barrier.diagonal[j] = f64::MAX.sqrt();
                        continue;
                    }
                    barrier.add_side(j, w - low[j], 1.0)?;
                    barrier.add_side(j, high[j] - w, -1.0)?;
                }
            }
            Shape::Simplex { .. } => {
                for (j, &w) in weights.iter().enumerate() {
                    barrier.add_side(j, w, 1.0)?;
                }
            }
        }
        Some(barrier)
    }

    /// - log(r^2 - ||w - c||^2).
    fn add_ball(&mut self, ball: &Ball, weights: &[f64]) -> Option<()> {
        let offset: Vec<f64> = weights.iter().zip(ball.centre()).map(|(w, c)| w - c).collect();
        let distance = offset.iter().map(|o| o * o).sum::<f64>().sqrt();
        let room = (ball.radius() - distance) * (ball.radius() + distance);
        if !(room > 0.0) {
            return None;
        }
        self.value -= room.ln();
        for (j, o) in offset.iter().enumerate() {
            self.gradient[j] += 2.0 * o / room;
            self.diagonal[j] += 2.0 / room;
        }
        self.rank_one.push((4.0 / (room * room), offset));
        Some(())
    }

    /// - log(room), where the room grows with w_j when `sign` is 1.
    fn add_side(&mut self, j: usize, room: f64, sign: f64) -> Option<()> {
        if !(room > 0.0) {
            return None;
        }
        self.value -= room.ln();
        self.gradient[j] -= sign / room;
        self.diagonal[j] += 1.0 / (room * room);
        Some(())
    }
}

/// A point well inside the domain, as near to `wish` as half the way to the boundary allows; `None` if there is no inside.
pub(super) fn interior(domain: &Domain, wish: &[f64]) -> Option<Vec<f64>> {
    let mut nearest = wish.to_vec();
    domain.project(&mut nearest);
    let middle: Vec<f64> = match domain.shape() {
        Shape::Whole { .. } => return Some(nearest),
        Shape::Ball(ball) => ball.centre().to_vec(),
        Shape::TwoBalls(balls) if balls.depth > 0.0 => balls.middle.clone(),
        Shape::TwoBalls(_) => return None,
        Shape::Box { low, high } => {
            low.iter().zip(high).map(|(low, high)| low + 0.5 * (high - low)).collect()
        }
        Shape::Simplex { dimension } => vec![1.0 / *dimension as f64; *dimension],
    };
    let half = |(j, (m, n)): (usize, (&f64, &f64))| if is_flat(domain, j) { *n } else { 0.5 * (m + n) };
    let point: Vec<f64> = middle.iter().zip(&nearest).enumerate().map(half).collect();
    Barrier::at(domain, &point).map(|_| point)
}

/// Whether a coordinate has no number strictly between its bounds: a side of a box that is a point, or nearly.
pub(super) fn is_flat(domain: &Domain, j: usize) -> bool {
    match domain.shape() {
        Shape::Box { low, high } => {
            let middle = low[j] + 0.5 * (high[j] - low[j]);
            !(low[j] < middle && middle < high[j])
        }
        _ => false,
    }
}

/// Whether steps must keep the sum of the weights: the simplex lies in a plane.
pub(super) fn keeps_sum(domain: &Domain) -> bool {
    matches!(domain.shape(), Shape::Simplex { .. })
}
