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
#[cfg(test)]
mod tests;
mod upper;

pub use curve::BoundCurve;
pub use mixture::Mixture;
pub use mixture_lattice::GAUSS_8;
pub use pair::{Direction, Pair};

use crate::number::Interval;
use compose::Method;
use fft::RealFft;
use lattice::Lattice;
use libm::log;
use lower::LowerTail;
use plan::{Composition, Plan, Target};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use upper::UpperTail;

/// How closely the grid follows the truth: the relative error of epsilon that the planned grid allows itself.
const TOLERANCE: f64 = 1e-4;
/// The share of delta that may be round-off of the transforms before they are replaced by sums of products.
const MOST_ROUND_OFF: f64 = 0.002;
/// The coarsest grid: losses so large that they need more are not composed numerically.
const COARSEST: f64 = 4.0;
/// How far, in log delta, an answer may be from what its plan expected.
const MOST_MISFIT: f64 = 1.0;
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
    fft: Option<Rc<RealFft>>,
    upper: UpperTail,
}

impl Composer {
    fn transform(&self, len: usize) -> Rc<RealFft> {
        let mut transforms = self.transforms.borrow_mut();
        Rc::clone(transforms.entry(len).or_insert_with(|| Rc::new(RealFft::new(len))))
    }

    /// `None` if some part has no finite loss at all, or if the grid would be too coarse to say anything.
    fn tails(&self, pairs: &[(Pair, u64)], direction: Direction, plan: Plan) -> Option<Tails> {
        if !(plan.spacing > 0.0 && plan.spacing <= COARSEST) {
            return None;
        }
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
        let fft = (!plan.is_direct).then(|| self.transform(plan.len));
        let upper = UpperTail::new(&lattices, &plan, method(&fft, &plan));
        Some(Tails { plan, lattices, fft, upper })
    }

    /// The tails for a question; without transforms if their round-off would matter at `eps`.
    fn smooth_tails(
        &self,
        composition: &Composition,
        target: Target,
        eps: f64,
        refinement: u32,
    ) -> Option<Tails> {
        let (pairs, direction) = (composition.pairs(), composition.direction());
        let tails = self.tails(pairs, direction, composition.plan(target, refinement, false))?;
        if composition.allows_direct() && tails.upper.round_off_share(eps) > MOST_ROUND_OFF {
            return self.tails(pairs, direction, composition.plan(target, refinement, true));
        }
        Some(tails)
    }

    /// The tails for delta at an epsilon, planned again while the plan expected another delta.
    fn tails_at(&self, composition: &Composition, eps: f64, refinement: u32) -> Option<Tails> {
        let mut tails = self.smooth_tails(composition, Target::Epsilon(eps), eps, refinement)?;
        for _ in 0..4 {
            let delta = tails.upper.delta(eps);
            if (log(delta.max(1e-300)) - tails.plan.log_delta).abs() <= MOST_MISFIT {
                break;
            }
            tails = self.smooth_tails(composition, Target::Both(eps, delta), eps, refinement)?;
        }
        Some(tails)
    }

    /// The saddle-point approximation to log delta(eps): no bound, for starting values.
    pub fn approximate_log_delta(&self, pairs: &[(Pair, u64)], direction: Direction, eps: f64) -> f64 {
        Composition::new(pairs, direction, TOLERANCE).approximate_log_delta(eps)
    }

    /// An upper bound on delta(eps) in one direction, and whether round-off has a large part in it.
    pub fn delta_upper(&self, pairs: &[(Pair, u64)], direction: Direction, eps: f64) -> (f64, bool) {
        let composition = Composition::new(pairs, direction, TOLERANCE);
        let Some(tails) = self.tails_at(&composition, eps, 0) else {
            return (1.0, true);
        };
        let delta = tails.upper.delta(eps).max(f64::MIN_POSITIVE);
        (delta, !(tails.upper.round_off_share(eps) < 0.05))
    }

    /// delta(eps) in one direction; every pair must be exact.
    pub fn delta(&self, pairs: &[(Pair, u64)], direction: Direction, eps: f64) -> Interval {
        let composition = Composition::new(pairs, direction, TOLERANCE);
        let mut answer = Interval { lower: 0.0, upper: 1.0 };
        for refinement in 0..=REFINEMENTS {
            let Some(tails) = self.tails_at(&composition, eps, refinement) else {
                break;
            };
            let before = answer;
            answer = Interval::new(
                answer.lower.max(tails.lower().delta(eps)),
                answer.upper.min(tails.upper.delta(eps).max(f64::MIN_POSITIVE)),
            );
            if answer.upper - answer.lower <= 0.02 * answer.upper
                || tails.is_final()
                || !answer.improves(before)
            {
                break;
            }
        }
        answer
    }

    /// The smallest epsilon with delta(epsilon) <= delta, in one direction, and the tails that gave it; infinite if
    /// there is none.
    fn solve(&self, composition: &Composition, delta: f64, refinement: u32) -> (f64, Option<Tails>) {
        let (pairs, direction) = (composition.pairs(), composition.direction());
        let mut tails =
            self.tails(pairs, direction, composition.plan(Target::Delta(delta), refinement, false));
        let mut best = f64::INFINITY;
        // Sums of products are slow: four rounds of them are enough.
        let mut direct = 0;
        for _ in 0..6 {
            let Some(found) = &tails else {
                break;
            };
            let upper = found.upper.epsilon(delta);
            let before = best;
            best = best.min(upper.unwrap_or(f64::INFINITY));
            // The sketch placed the window badly: place it where the answer says, or further up.
            let next = match upper {
                Some(eps) => {
                    let is_rough = !found.plan.is_direct
                        && composition.allows_direct()
                        && found.upper.round_off_share(eps) > MOST_ROUND_OFF;
                    direct += u32::from(found.plan.is_direct);
                    if found.upper.misfit(eps) < MOST_MISFIT && !is_rough || direct == 4 {
                        break;
                    }
                    // Nor are rounds that no longer help.
                    if is_rough && best > 0.99 * before && direct > 0 {
                        break;
                    }
                    eps
                }
                None => 2.0 * found.upper.top() + 1.0,
            };
            tails = self.smooth_tails(composition, Target::Both(next, delta), next, refinement);
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
            let before = answer;
            answer = Interval::new(answer.lower.max(tails.lower().epsilon(delta)), answer.upper.min(upper));
            let width = answer.upper - answer.lower;
            if width <= 1e-3 * answer.upper || tails.is_final() || !answer.improves(before) {
                break;
            }
        }
        answer
    }
}

impl Tails {
    /// Whether a finer grid is not to be had.
    fn is_final(&self) -> bool {
        self.plan.len >= if self.plan.is_direct { plan::LONGEST_DIRECT } else { plan::LONGEST }
    }

    fn lower(&self) -> LowerTail {
        LowerTail::new(&self.lattices, &self.plan, method(&self.fft, &self.plan))
    }
}

fn method<'a>(fft: &'a Option<Rc<RealFft>>, plan: &Plan) -> Method<'a> {
    fft.as_ref().map_or(Method::Direct(plan.len), |fft| Method::Transform(fft))
}
