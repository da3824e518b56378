//! A curve that is known only as an upper bound, such as a Renyi conversion, made into a dominating law.
//!
//! The true profile is convex in e^eps and lies below the curve, hence below the largest convex function under the
//! curve's values at grid points; that function is the profile of a law on the grid (Zhu, Dong, Wang 2022,
//! Proposition 10). Negative eps follow from the other direction: delta(-e) = 1 - e^-e + e^-e delta'(e).

use super::fft::UNIT_ROUNDOFF;
use super::lattice::Lattice;
use super::sketch::Sketch;
use crate::closed_form::smallest_epsilon;
use crate::renyi::RenyiCurve;
use libm::{exp, expm1};

/// The bound of a Renyi curve, valid in both directions.
#[derive(Debug, Clone, PartialEq)]
pub struct BoundCurve {
    renyi: RenyiCurve,
}

/// Grid points per curve; a coarser step than the common grid costs tightness, never soundness.
const POINTS: f64 = 3000.0;

impl BoundCurve {
    /// Takes the bound at every epsilon from the best order.
    pub fn new(renyi: RenyiCurve) -> Self {
        BoundCurve { renyi }
    }

    /// The Renyi bounds behind the curve.
    pub fn renyi(&self) -> &RenyiCurve {
        &self.renyi
    }

    /// An upper bound on delta(eps), for any real eps.
    fn value(&self, eps: f64) -> f64 {
        if eps >= 0.0 {
            self.renyi.delta_at(eps)
        } else {
            (-expm1(eps) + exp(eps) * self.renyi.delta_at(-eps)) * (1.0 + 8.0 * UNIT_ROUNDOFF)
        }
    }

    /// A law on the grid that dominates every mechanism under the curve.
    pub fn lattice(&self, spacing: f64, tail_mass: f64) -> Lattice {
        let far = smallest_epsilon(1.0, |eps| self.renyi.delta_at(eps) <= tail_mass);
        let mut lattice = Lattice::empty(spacing);
        if !far.is_finite() {
            // No order has a bound: everything may be revealed.
            lattice.infinite = 1.0;
            lattice.infinite_reversed = 1.0;
            return lattice;
        }
        let width = (2.0 * far / spacing / POINTS).ceil().max(1.0) as i64;
        let last = (far / spacing / width as f64).ceil().max(1.0) as i64;
        let grid = |index: i64| (index * width) as f64 * spacing;
        let points = (-last..=last).map(|index| (index * width, self.value(grid(index))));
        let hull = lower_hull(points, spacing);
        for (position, &(index, value)) in hull.iter().enumerate() {
            let gap = |other: i64| (other - index) as f64 * spacing;
            // Mass at x_i: x_i times the change of slope. With drops of the value on both sides,
            //   drop before/(1 - e^-gap) - drop after/(e^gap - 1); the first vertex continues to (0, 1).
            let before = match position.checked_sub(1).map(|previous| hull[previous]) {
                Some((left, left_value)) => (left_value - value) / -expm1(gap(left)),
                None => 1.0 - value,
            };
            let after = match hull.get(position + 1) {
                Some(&(right, right_value)) => (value - right_value) / expm1(gap(right)),
                None => 0.0,
            };
            // The two nearly cancel; what that may have cost is added.
            let mass = (before - after).max(0.0) + 16.0 * UNIT_ROUNDOFF * (before.abs() + after.abs());
            lattice.add_mass(index, mass);
        }
        lattice.infinite = hull.last().map_or(1.0, |point| point.1);
        lattice.infinite_reversed = lattice.infinite;
        lattice
    }

    /// For planning.
    pub fn sketch(&self) -> Sketch {
        let far = smallest_epsilon(1.0, |eps| self.renyi.delta_at(eps) <= 1e-16).min(1e9);
        let lattice = self.lattice(far.max(1e-9) / 200.0, 1e-16);
        let spacing = lattice.spacing;
        Sketch::from_losses(lattice.upper.into_iter().map(|(index, mass)| (index as f64 * spacing, mass)))
    }
}

/// The vertices of the largest convex function of x = e^eps under the points and under (0, 1).
fn lower_hull(points: impl Iterator<Item = (i64, f64)>, spacing: f64) -> Vec<(i64, f64)> {
    let mut hull: Vec<(i64, f64)> = Vec::new();
    // Slope from a to b, times x_a: (v_b - v_a)/(e^{gap} - 1); from (0, 1) to a, times x_a: v_a - 1.
    let slope = |a: (i64, f64), b: (i64, f64)| (b.1 - a.1) / expm1((b.0 - a.0) as f64 * spacing);
    for next in points {
        while let Some(&top) = hull.last() {
            let incoming = match hull.len() {
                1 => top.1 - 1.0,
                len => {
                    let previous = hull[len - 2];
                    (top.1 - previous.1) / -expm1((previous.0 - top.0) as f64 * spacing)
                }
            };
            // Keep the top if the slope increases there.
            if incoming <= slope(top, next) {
                break;
            }
            hull.pop();
        }
        hull.push(next);
    }
    hull
}
