//! Privacy-loss distributions: discretized, composed by Fourier transform, every error charged.
//!
//! The proof that the answers are bounds is `proof.md` beside this file, with a map to the code.

mod compose;
mod curve;
mod fft;
mod lattice;
mod lower;
mod mixture;
mod mixture_lattice;
mod pair;
mod plan;
mod sketch;
mod upper;

pub use curve::BoundCurve;
pub use mixture::Mixture;
pub use mixture_lattice::GAUSS_8;
pub use pair::{Direction, Pair};

use crate::number::Interval;
use fft::RealFft;
use lattice::Lattice;
use lower::LowerTail;
use plan::{Composition, Plan, Target};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use upper::UpperTail;

/// How closely the grid follows the truth: the relative error of epsilon that the planned grid allows itself.
const TOLERANCE: f64 = 1e-4;
/// How often the grid step may be halved when the interval comes out wider than planned.
const REFINEMENTS: u32 = 3;

/// Composes pairs numerically; keeps the transforms that it has planned.
#[derive(Default)]
pub struct Composer {
    transforms: RefCell<HashMap<usize, Rc<RealFft>>>,
}

/// The composed tails in one direction.
struct Tails {
    plan: Plan,
    lattices: Vec<(Lattice, u64)>,
    fft: Rc<RealFft>,
    upper: UpperTail,
}

impl Composer {
    fn transform(&self, len: usize) -> Rc<RealFft> {
        let mut transforms = self.transforms.borrow_mut();
        Rc::clone(transforms.entry(len).or_insert_with(|| Rc::new(RealFft::new(len))))
    }

    /// `None` if some part has no finite loss at all: then nothing can be promised.
    fn tails(&self, pairs: &[(Pair, u64)], direction: Direction, plan: Plan) -> Option<Tails> {
        let lattices: Vec<(Lattice, u64)> = pairs
            .iter()
            .zip(&plan.widths)
            .map(|((pair, count), widths)| {
                (pair.lattice(direction, plan.spacing, plan.tail_mass, widths), *count)
            })
            .collect();
        if lattices.iter().any(|(lattice, _)| lattice.upper.is_empty()) {
            return None;
        }
        let fft = self.transform(plan.len);
        let upper = UpperTail::new(&lattices, &plan, &fft);
        Some(Tails { plan, lattices, fft, upper })
    }

    /// The saddle-point approximation to log delta(eps): no bound, for starting values.
    pub fn approximate_log_delta(&self, pairs: &[(Pair, u64)], direction: Direction, eps: f64) -> f64 {
        Composition::new(pairs, direction, TOLERANCE).approximate_log_delta(eps)
    }

    /// An upper bound on delta(eps) in one direction.
    pub fn delta_upper(&self, pairs: &[(Pair, u64)], direction: Direction, eps: f64) -> f64 {
        let composition = Composition::new(pairs, direction, TOLERANCE);
        let plan = composition.plan(Target::Epsilon(eps), 0);
        self.tails(pairs, direction, plan).map_or(1.0, |tails| tails.upper.delta(eps).max(f64::MIN_POSITIVE))
    }

    /// delta(eps) in one direction; every pair must be exact.
    pub fn delta(&self, pairs: &[(Pair, u64)], direction: Direction, eps: f64) -> Interval {
        let composition = Composition::new(pairs, direction, TOLERANCE);
        let mut answer = Interval { lower: 0.0, upper: 1.0 };
        for refinement in 0..=REFINEMENTS {
            let plan = composition.plan(Target::Epsilon(eps), refinement);
            let Some(tails) = self.tails(pairs, direction, plan) else {
                break;
            };
            answer = Interval::new(
                answer.lower.max(tails.lower().delta(eps)),
                answer.upper.min(tails.upper.delta(eps).max(f64::MIN_POSITIVE)),
            );
            if answer.upper - answer.lower <= 0.02 * answer.upper || tails.plan.len >= plan::LONGEST {
                break;
            }
        }
        answer
    }

    /// The smallest epsilon with delta(epsilon) <= delta, in one direction, and the tails that gave it; infinite if
    /// there is none.
    fn solve(&self, composition: &Composition, delta: f64, refinement: u32) -> (f64, Option<Tails>) {
        let (pairs, direction) = (composition.pairs(), composition.direction());
        let mut tails = self.tails(pairs, direction, composition.plan(Target::Delta(delta), refinement));
        let mut best = f64::INFINITY;
        for _ in 0..6 {
            let Some(found) = &tails else {
                break;
            };
            let upper = found.upper.epsilon(delta);
            best = best.min(upper.unwrap_or(f64::INFINITY));
            // The sketch placed the window badly: place it where the answer says, or further up.
            let next = match upper {
                Some(eps) if found.upper.misfit(eps) < 8.0 => break,
                Some(eps) => eps,
                None => 2.0 * found.upper.top() + 1.0,
            };
            tails = self.tails(pairs, direction, composition.plan(Target::Epsilon(next), refinement));
        }
        (best, tails)
    }

    /// An upper bound on the smallest epsilon with delta(epsilon) <= delta, in one direction.
    pub fn epsilon_upper(&self, pairs: &[(Pair, u64)], direction: Direction, delta: f64) -> f64 {
        self.solve(&Composition::new(pairs, direction, TOLERANCE), delta, 0).0
    }

    /// The smallest epsilon with delta(epsilon) <= delta, in one direction; every pair must be exact.
    pub fn epsilon(&self, pairs: &[(Pair, u64)], direction: Direction, delta: f64) -> Interval {
        let composition = Composition::new(pairs, direction, TOLERANCE);
        let mut answer = Interval { lower: 0.0, upper: f64::INFINITY };
        for refinement in 0..=REFINEMENTS {
            let (upper, Some(tails)) = self.solve(&composition, delta, refinement) else {
                break;
            };
            answer = Interval::new(answer.lower.max(tails.lower().epsilon(delta)), answer.upper.min(upper));
            let width = answer.upper - answer.lower;
            if width <= 1e-3 * answer.upper || answer.upper == 0.0 || tails.plan.len >= plan::LONGEST {
                break;
            }
        }
        answer
    }
}

impl Tails {
    fn lower(&self) -> LowerTail {
        LowerTail::new(&self.lattices, &self.plan, &self.fft)
    }
}
