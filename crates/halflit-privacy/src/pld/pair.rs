//! The dominating pairs, one per kind of release: curve, grid and sketch of each.

use super::curve::BoundCurve;
use super::lattice::{self, Lattice};
use super::mixture::Mixture;
use super::mixture_lattice::{self, Widths};
use super::sketch::Sketch;
use crate::closed_form::CLOSED_FORM_ERROR;
use crate::number::Interval;
use libm::{exp, expm1};
use std::rc::Rc;

/// Which of the two tables plays P.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// (P, Q) as listed below.
    Forward,
    /// P and Q exchanged.
    Reversed,
}

/// A pair of laws that dominates every pair of outputs a release can have on neighbouring tables.
#[derive(Debug, Clone, PartialEq)]
pub enum Pair {
    /// Zero-out or replace with Poisson sampling; an unsampled Gaussian is rate one.
    Mixture(Mixture),
    /// Replace with subsets of a fixed size; the mixture is one-sided with twice the shift.
    FixedSize(Mixture),
    /// Laplace noise with this sensitivity over scale.
    Laplace(f64),
    /// Randomized response that reveals all with probability `delta`.
    RandomizedResponse {
        /// Its epsilon.
        eps: f64,
        /// Its delta.
        delta: f64,
    },
    /// Whatever lies under a curve; an upper bound only.
    Curve(Rc<BoundCurve>),
}

impl Pair {
    /// A Gaussian pair with this mean difference in noise standard deviations.
    pub fn gaussian(mu: f64) -> Self {
        Pair::Mixture(Mixture { rate: 1.0, shift: mu, two_sided: false })
    }

    /// Whether exchanging P and Q gives the same curve.
    pub fn is_symmetric(&self) -> bool {
        match self {
            Pair::Mixture(mixture) => mixture.two_sided || mixture.rate == 1.0,
            Pair::FixedSize(_) | Pair::Laplace(_) | Pair::RandomizedResponse { .. } | Pair::Curve(_) => true,
        }
    }

    /// Whether the pair's losses are worth a grid: beyond, epsilon is in the tens of thousands.
    pub fn fits_a_grid(&self) -> bool {
        match self {
            Pair::Mixture(mixture) | Pair::FixedSize(mixture) => mixture.shift <= 200.0,
            Pair::Laplace(_) | Pair::RandomizedResponse { .. } | Pair::Curve(_) => true,
        }
    }

    /// The largest finite loss, where it is bounded.
    pub fn largest_loss(&self, direction: Direction) -> f64 {
        match self {
            Pair::Mixture(mixture) if !mixture.two_sided && direction == Direction::Reversed => {
                -mixture.infimum()
            }
            Pair::Mixture(_) | Pair::FixedSize(_) | Pair::Curve(_) => f64::INFINITY,
            Pair::Laplace(ratio) => *ratio,
            Pair::RandomizedResponse { eps, .. } => *eps,
        }
    }

    /// delta(eps) of one such release, in closed form, for eps >= 0.
    pub fn delta(&self, eps: f64, direction: Direction) -> f64 {
        match self {
            Pair::Mixture(mixture) => match direction {
                Direction::Forward => mixture.delta(eps),
                Direction::Reversed => mixture.delta_reversed(eps),
            },
            // For eps >= 0 the curve is that of the one-sided pair, in both directions.
            Pair::FixedSize(mixture) => mixture.delta(eps),
            Pair::Laplace(ratio) => {
                if eps < *ratio {
                    -expm1(0.5 * (eps - ratio))
                } else {
                    0.0
                }
            }
            // delta + (1 - delta) (e^e0 - e^eps)/(1 + e^e0)
            Pair::RandomizedResponse { eps: e0, delta } => {
                let inside = if eps < *e0 { -expm1(eps - e0) / (1.0 + exp(-e0)) } else { 0.0 };
                delta + (1.0 - delta) * inside
            }
            Pair::Curve(curve) => curve.renyi().delta_at(eps),
        }
    }

    /// Bounds on delta(eps) of one such release, the larger of both directions, for eps >= 0.
    ///
    /// The closed form is exact for an epsilon within its own rounding error of the one asked for.
    pub fn delta_bounds(&self, eps: f64) -> Interval {
        let both = |eps: f64| {
            let forward = self.delta(eps, Direction::Forward);
            if self.is_symmetric() { forward } else { forward.max(self.delta(eps, Direction::Reversed)) }
        };
        let (lower, upper) = match self {
            Pair::Mixture(mixture) => {
                let error = |eps: f64| match mixture.threshold(eps) {
                    f64::NEG_INFINITY => 0.0,
                    z => mixture.loss_error(eps, z).0,
                };
                let slack = error(eps).max(error(-eps));
                (both(eps + slack), both(eps - slack))
            }
            Pair::FixedSize(mixture) => {
                let slack = mixture.loss_error(eps, mixture.threshold(eps)).0;
                // The closed form ends at eps = 0; from there on the curve falls by at most one per unit of eps.
                let below = if eps > slack { both(eps - slack) } else { both(0.0) + slack };
                (both(eps + slack), below)
            }
            Pair::Laplace(_) | Pair::RandomizedResponse { .. } => (both(eps), both(eps)),
            Pair::Curve(_) => (0.0, both(eps)),
        };
        // An overflow is not a bound; zero and one are.
        let (lower, upper) =
            (if lower.is_nan() { 0.0 } else { lower }, if upper.is_nan() { 1.0 } else { upper });
        let bounds =
            Interval::new(lower * (1.0 - CLOSED_FORM_ERROR), upper * (1.0 + CLOSED_FORM_ERROR)).at_most_one();
        match self {
            // Normal tails reach everywhere, also where they are too small for a double.
            Pair::Mixture(_) | Pair::FixedSize(_) | Pair::Curve(_) => bounds.never_zero(),
            Pair::Laplace(_) | Pair::RandomizedResponse { .. } => bounds,
        }
    }

    /// Whether the probabilities of large losses have a closed form under both laws, in this direction.
    pub fn has_exact_tail(&self, direction: Direction) -> bool {
        match self {
            Pair::Mixture(_) => direction == Direction::Forward || self.is_symmetric(),
            Pair::FixedSize(_) => true,
            Pair::Laplace(_) | Pair::RandomizedResponse { .. } | Pair::Curve(_) => false,
        }
    }

    /// The pair on a grid; what is cut off has at most `tail_mass` on either side and is charged. Losses from the index
    /// `decisive` on are kept apart where their probabilities have a closed form.
    pub fn lattice(
        &self,
        direction: Direction,
        spacing: f64,
        tail_mass: f64,
        decisive: i64,
        widths: &Widths,
    ) -> Lattice {
        let decisive = if self.has_exact_tail(direction) { decisive } else { i64::MAX };
        let lattice = match self {
            Pair::Mixture(mixture) => mixture_lattice::mixture(mixture, spacing, tail_mass, decisive, widths),
            Pair::FixedSize(mixture) => {
                mixture_lattice::fixed_size(mixture, spacing, tail_mass, decisive, widths)
            }
            Pair::Laplace(ratio) => lattice::laplace(*ratio, spacing),
            Pair::RandomizedResponse { eps, delta } => lattice::randomized_response(*eps, *delta, spacing),
            Pair::Curve(curve) => curve.lattice(spacing, tail_mass),
        };
        match direction {
            Direction::Reversed if !self.is_symmetric() => lattice.reversed(),
            _ => lattice,
        }
    }

    /// A few hundred weighted losses that stand for the pair while planning.
    pub fn sketch(&self, direction: Direction) -> Sketch {
        let sketch = match self {
            Pair::Mixture(mixture) => Sketch::of_mixture(mixture),
            Pair::FixedSize(mixture) => Sketch::of_fixed_size(mixture),
            Pair::Laplace(ratio) => Sketch::of_laplace(*ratio),
            Pair::RandomizedResponse { eps, delta } => {
                let likely = (1.0 - delta) / (1.0 + exp(-eps));
                Sketch::from_losses([(*eps, likely), (-eps, likely * exp(-eps))])
            }
            Pair::Curve(curve) => curve.sketch(),
        };
        match direction {
            Direction::Forward => sketch,
            Direction::Reversed => sketch.reversed(),
        }
    }
}
