//! Privacy-loss distributions: discretized, composed by Fourier transform, every error charged.
//!
//! The proof that the answers are bounds is `proof.md` beside this file, with a map to the code.

mod compose;
mod curve;
mod fft;
mod lattice;
mod law;
mod lower;
mod mixture;
mod mixture_lattice;
mod pair;
mod plan;
mod sketch;
mod tail_sums;
#[cfg(test)]
mod tests;
mod upper;

pub use curve::BoundCurve;
pub use mixture::Mixture;
pub use mixture_lattice::GAUSS_8;
pub use pair::{Direction, Pair};

use crate::number::Interval;
use fft::RealFft;
use lattice::Lattice;
use libm::log;
use lower::LowerTail;
use plan::{Composition, Place, Plan, Tolerance};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use upper::UpperTail;

/// How closely the grid follows the truth when epsilon is asked for.
const FOR_EPSILON: Tolerance = Tolerance { epsilon: 3e-4, delta: f64::INFINITY };
/// The same when delta is asked for.
const FOR_DELTA: Tolerance = Tolerance { epsilon: 3e-4, delta: 5e-3 };
/// The same where a rough answer may be enough.
const COARSE: Tolerance = Tolerance { epsilon: 1e-2, delta: f64::INFINITY };
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
    fft: Rc<RealFft>,
    upper: UpperTail,
}

impl Composer {
    fn transform(&self, len: usize) -> Rc<RealFft> {
        let mut transforms = self.transforms.borrow_mut();
        Rc::clone(transforms.entry(len).or_insert_with(|| Rc::new(RealFft::new(len))))
    }

    /// `None` if some part has no finite loss at all, or if the grid would be too coarse to say anything.
    fn tails(&self, composition: &Composition, place: Place, refinement: u32) -> Option<Tails> {
        let (pairs, direction) = (composition.pairs(), composition.direction());
        if !pairs.iter().all(|(pair, _)| pair.fits_a_grid()) {
            return None;
        }
        let plan = composition.plan(place, refinement);
        if !(plan.spacing > 0.0 && plan.spacing <= COARSEST) {
            return None;
        }
        let lattices: Vec<(Lattice, u64)> = pairs
            .iter()
            .zip(&plan.widths)
            .map(|((pair, count), widths)| {
                (pair.lattice(direction, plan.spacing, plan.tail_mass, plan.decisive, widths), *count)
            })
            .collect();
        if lattices.iter().any(|(lattice, _)| lattice.upper.is_empty() || !lattice.is_exact()) {
            return None;
        }
        let fft = self.transform(plan.len);
        let upper = UpperTail::new(&lattices, &plan, &fft);
        Some(Tails { plan, lattices, fft, upper })
    }

    /// The tails for delta at an epsilon, planned again while the plan expected another delta.
    fn tails_at(&self, composition: &Composition, mut place: Place, refinement: u32) -> Option<Tails> {
        let mut tails = self.tails(composition, place, refinement)?;
        for _ in 0..8 {
            let mut found = tails.place(place.epsilon);
            if found.log_delta >= place.log_delta - MOST_MISFIT && tails.is_fine_enough(composition, found) {
                break;
            }
            if tails.upper.is_mostly_outside(place.epsilon) {
                // Only what was left out is seen: delta may be much smaller still.
                found.log_delta -= (place.log_delta - found.log_delta).max(0.0);
            }
            place = found;
            tails = self.tails(composition, place, refinement)?;
        }
        Some(tails)
    }

    /// The saddle-point approximation to log delta(eps): no bound, for starting values.
    pub fn approximate_log_delta(&self, pairs: &[(Pair, u64)], direction: Direction, eps: f64) -> f64 {
        Composition::new(pairs, direction, FOR_DELTA).place_of_epsilon(eps).log_delta
    }

    /// An upper bound on delta(eps) in one direction, and whether round-off has a large part in it. One that is at most
    /// `enough` need not be tight.
    pub fn delta_upper(
        &self,
        pairs: &[(Pair, u64)],
        direction: Direction,
        eps: f64,
        enough: f64,
    ) -> (f64, bool) {
        for tolerance in tolerances(enough, FOR_DELTA) {
            let composition = Composition::new(pairs, direction, tolerance);
            let Some(tails) = self.tails_at(&composition, composition.place_of_epsilon(eps), 0) else {
                break;
            };
            let delta = tails.upper.delta(eps).max(f64::MIN_POSITIVE);
            if delta <= enough || tolerance == FOR_DELTA {
                return (delta, !(tails.upper.round_off_share(eps) < 0.05));
            }
        }
        (1.0, true)
    }

    /// delta(eps) in one direction; every pair must be exact. If it is surely at most `enough`, no lower end is sought.
    pub fn delta(&self, pairs: &[(Pair, u64)], direction: Direction, eps: f64, enough: f64) -> Interval {
        if enough > 0.0 {
            let upper = self.delta_upper(pairs, direction, eps, enough).0;
            if upper <= enough {
                return Interval { lower: 0.0, upper };
            }
        }
        let composition = Composition::new(pairs, direction, FOR_DELTA);
        let mut place = composition.place_of_epsilon(eps);
        let mut answer = Interval { lower: 0.0, upper: 1.0 };
        for refinement in 0..=REFINEMENTS {
            let Some(tails) = self.tails_at(&composition, place, refinement) else {
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
            place = tails.place(eps);
        }
        answer
    }

    /// The smallest epsilon with delta(epsilon) <= delta, in one direction, and the tails that gave it; infinite if
    /// there is none.
    fn solve(
        &self,
        composition: &Composition,
        delta: f64,
        mut place: Place,
        refinement: u32,
    ) -> (f64, Option<Tails>) {
        let mut best = f64::INFINITY;
        let mut tails = None;
        for _ in 0..6 {
            let Some(found) = self.tails(composition, place, refinement) else {
                return (best, None);
            };
            let Some(eps) = found.upper.epsilon(delta) else {
                // The sketch placed the window too low.
                place = Place { epsilon: 2.0 * place.epsilon.max(found.upper.top()), ..place };
                continue;
            };
            best = best.min(eps);
            let next = Place { log_delta: place.log_delta, ..found.place(eps) };
            // At the bottom of the window the true answer may lie below it.
            let is_close = found.upper.slope(eps) * (eps - place.epsilon).abs() < MOST_MISFIT
                && !found.upper.is_bottom(eps);
            let is_done = is_close && found.is_fine_enough(composition, next);
            tails = Some(found);
            if is_done {
                break;
            }
            place = next;
        }
        (best, tails)
    }

    /// An upper bound on the smallest epsilon with delta(epsilon) <= delta, in one direction. One that is at most `enough`
    /// need not be tight.
    pub fn epsilon_upper(&self, pairs: &[(Pair, u64)], direction: Direction, delta: f64, enough: f64) -> f64 {
        let mut best = f64::INFINITY;
        for tolerance in tolerances(enough, FOR_EPSILON) {
            let composition = Composition::new(pairs, direction, tolerance);
            best = best.min(self.solve(&composition, delta, composition.place_of_delta(delta), 0).0);
            if best <= enough {
                break;
            }
        }
        best
    }

    /// The smallest epsilon with delta(epsilon) <= delta, in one direction; every pair must be exact. If it is surely at
    /// most `enough`, no lower end is sought.
    pub fn epsilon(&self, pairs: &[(Pair, u64)], direction: Direction, delta: f64, enough: f64) -> Interval {
        if enough > 0.0 {
            let upper = self.epsilon_upper(pairs, direction, delta, enough);
            if upper <= enough {
                return Interval { lower: 0.0, upper };
            }
        }
        let composition = Composition::new(pairs, direction, FOR_EPSILON);
        let mut place = composition.place_of_delta(delta);
        let mut answer = Interval { lower: 0.0, upper: f64::INFINITY };
        for refinement in 0..=REFINEMENTS {
            let (upper, Some(tails)) = self.solve(&composition, delta, place, refinement) else {
                break;
            };
            let before = answer;
            answer = Interval::new(answer.lower.max(tails.lower().epsilon(delta)), answer.upper.min(upper));
            let width = answer.upper - answer.lower;
            if width <= 1e-3 * answer.upper || tails.is_final() || !answer.improves(before) {
                break;
            }
            place = Place { log_delta: place.log_delta, ..tails.place(answer.upper) };
        }
        answer
    }
}

/// A coarse grid first where a rough answer may be enough.
fn tolerances(enough: f64, fine: Tolerance) -> impl Iterator<Item = Tolerance> {
    let coarse = (enough > 0.0).then_some(COARSE);
    coarse.into_iter().chain([fine])
}

impl Tails {
    /// Whether a finer grid is not to be had.
    fn is_final(&self) -> bool {
        self.plan.len >= plan::LONGEST
    }

    /// The point of the curve at this epsilon, as the upper bound sees it.
    fn place(&self, epsilon: f64) -> Place {
        let log_delta = log(self.upper.delta(epsilon).max(1e-300));
        Place { epsilon, log_delta, slope: Some(self.upper.slope(epsilon)) }
    }

    /// Whether the grid is as fine as the slope of the curve asks for.
    fn is_fine_enough(&self, composition: &Composition, place: Place) -> bool {
        self.is_final() || composition.coarseness(&self.plan, place) <= 2.0
    }

    fn lower(&self) -> LowerTail {
        LowerTail::new(&self.lattices, &self.plan, &self.fft)
    }
}
