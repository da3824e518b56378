//! Pairs put on a grid of losses: a law that dominates the pair, and the masses of its cells for a lower bound.
//!
//! Connect the dots [DGKKM22]: the mass of a cell [a, b] of losses is divided between its two ends so that its P-mass
//! and its Q-mass are both kept. The hockey-stick curve of the result agrees with the true one at grid points and lies
//! above it in between, because the true curve is convex in e^eps. See `proof.md`, sections 2 and 3.
//!
//! Directions of rounding: masses of `upper` are rounded up, each by its own proved relative error; the masses of
//! `cells` are rounded to nearest and carry theirs.

use super::fft::UNIT_ROUNDOFF;
use libm::{exp, expm1, sinh};

/// A law on the grid: index and mass, increasing in the index.
pub type Law = Vec<(i64, f64)>;

/// A set of outcomes that the lower bound does not tell apart.
#[derive(Debug, Clone, Copy)]
pub struct Cell {
    /// Its place in the statistic of the lower bound, in grid steps.
    pub index: i64,
    /// Its probability under P.
    pub p: f64,
    /// Its probability under Q times e^{index spacing}: close to p, where the probability itself may be below every double.
    pub q_lifted: f64,
    /// Bound on the relative error of both.
    pub error: f64,
}

/// A discretized pair.
#[derive(Debug, Clone)]
pub struct Lattice {
    /// The grid step.
    pub spacing: f64,
    /// The dominating law under P.
    pub upper: Law,
    /// P-mass of infinite loss in the dominating law.
    pub infinite: f64,
    /// The same for the reversed pair.
    pub infinite_reversed: f64,
    /// The outcomes, merged into cells.
    pub cells: Vec<Cell>,
    /// P-mass of outcomes that Q never produces; the reversed pair has the same.
    pub revealed: f64,
    /// Outcomes with losses so large that each decides alone; on neither the law nor the cells.
    pub decisive: Decisive,
}

/// Outcomes of large losses, known by their probabilities only.
#[derive(Debug, Clone, Copy, Default)]
pub struct Decisive {
    /// Their smallest loss.
    pub loss: f64,
    /// Their probability under P.
    pub p: f64,
    /// Their probability under Q times e^loss.
    pub q_lifted: f64,
}

impl Decisive {
    /// Bound on the relative error of both.
    pub const ERROR: f64 = 1e-9;
}

impl Lattice {
    /// Nothing yet, on a grid of this spacing.
    pub fn empty(spacing: f64) -> Self {
        Lattice {
            spacing,
            upper: Vec::new(),
            infinite: 0.0,
            infinite_reversed: 0.0,
            cells: Vec::new(),
            revealed: 0.0,
            decisive: Decisive::default(),
        }
    }

    /// Whether every index times the step is a double: the step has 24 significant bits, so indices may have 29.
    pub fn is_exact(&self) -> bool {
        let ends = [self.upper.first(), self.upper.last()];
        ends.into_iter().flatten().all(|entry| entry.0.unsigned_abs() < 1 << 29)
    }

    /// Adds mass to the dominating law; indices must not decrease.
    pub(super) fn add_mass(&mut self, index: i64, mass: f64) {
        match self.upper.last_mut() {
            Some(last) if last.0 == index => last.1 += mass,
            _ => self.upper.push((index, mass)),
        }
    }

    /// Adds a single outcome of a given loss and P-mass, divided between the grid points around it.
    ///
    /// Indices must not decrease from call to call.
    pub fn add_atom(&mut self, loss: f64, p: f64) {
        let h = self.spacing;
        let index = (loss / h).floor();
        // The grid has few significant bits, so index * h is exact; so is the difference of two close numbers.
        let above = (loss - index * h).clamp(0.0, h);
        // p_high = p (1 - e^-above)/(1 - e^-h), p_low = p (e^{h-above} - 1)/(e^h - 1)
        let high = p * (expm1(-above) / expm1(-h));
        let low = p * (expm1(h - above) / expm1(h));
        // Two quotients of two functions with one ulp each, and the rounding of `above` (half an ulp of a number <= h).
        let up = 1.0 + 32.0 * UNIT_ROUNDOFF;
        let index = index as i64;
        self.add_mass(index, low * up);
        self.add_mass(index + 1, high * up);
        let error = UNIT_ROUNDOFF * (16.0 + loss.abs());
        let nearest = (loss / h).round();
        self.cells.push(Cell { index: nearest as i64, p, q_lifted: p * exp(nearest * h - loss), error });
    }

    /// The pair with P and Q exchanged: losses change sign, masses change measure. No loss may be kept apart.
    pub fn reversed(mut self) -> Self {
        let h = self.spacing;
        self.upper.reverse();
        for (index, mass) in &mut self.upper {
            let loss = *index as f64 * h;
            // Q'(i) = P'(i) e^{-loss}; up by the error of the exponential, and where it is below every double.
            *mass = *mass * (exp(-loss) * (1.0 + 4.0 * UNIT_ROUNDOFF)) + f64::MIN_POSITIVE;
            *index = -*index;
        }
        self.cells.reverse();
        for cell in &mut self.cells {
            let lowered = exp(-(cell.index as f64) * h);
            (cell.p, cell.q_lifted) = (cell.q_lifted * lowered, cell.p * lowered);
            cell.error += 4.0 * UNIT_ROUNDOFF;
            cell.index = -cell.index;
        }
        std::mem::swap(&mut self.infinite, &mut self.infinite_reversed);
        self
    }
}

/// Randomized response with the given epsilon, revealing everything with probability delta: the worst
/// (epsilon, delta)-differentially private mechanism (Kairouz, Oh, Viswanath 2015).
pub fn randomized_response(eps: f64, delta: f64, spacing: f64) -> Lattice {
    let mut lattice = Lattice::empty(spacing);
    let remaining = 1.0 - delta;
    // (1-delta)/(1+e^eps) at loss -eps and (1-delta) e^eps/(1+e^eps) at loss eps
    let likely = remaining / (1.0 + exp(-eps));
    if eps == 0.0 {
        lattice.add_atom(0.0, remaining);
    } else {
        lattice.add_atom(-eps, likely * exp(-eps));
        lattice.add_atom(eps, likely);
    }
    // Atoms nearer than one step to each other: restore the order of indices.
    lattice.upper = merged(std::mem::take(&mut lattice.upper));
    lattice.infinite = delta;
    lattice.infinite_reversed = delta;
    lattice.revealed = delta;
    lattice
}

/// Beyond this ratio Laplace noise hides nothing that is worth a grid.
const LARGEST_SMOOTH_RATIO: f64 = 600.0;

/// Laplace noise with sensitivity over scale `ratio`: atoms at +-ratio and a density e^{(l - ratio)/2}/4 in between.
pub fn laplace(ratio: f64, spacing: f64) -> Lattice {
    let h = spacing;
    if ratio > LARGEST_SMOOTH_RATIO {
        // Any pure release is dominated by randomized response; a test may still ask whether the loss is the largest.
        let mut lattice = randomized_response(ratio, 0.0, spacing);
        let error = UNIT_ROUNDOFF * (16.0 + ratio);
        let index = (ratio / h).round();
        let largest = Cell { index: index as i64, p: 0.5, q_lifted: 0.5 * exp(index * h - ratio), error };
        lattice.cells = vec![Cell { index: 0, p: 0.5, q_lifted: 1.0, error }, largest];
        return lattice;
    }
    let mut lattice = Lattice::empty(h);
    lattice.add_atom(-ratio, 0.5 * exp(-ratio));
    let (first, last) = ((-ratio / h).floor() as i64, (ratio / h).ceil() as i64);
    let error = UNIT_ROUNDOFF * (64.0 + ratio);
    for ends in cell_ends((first, last), h, (|_| 1, |_| 1)).windows(2) {
        let (left, right) = (ends[0] as f64 * h, ends[1] as f64 * h);
        let (a, b, width) = (left.max(-ratio), right.min(ratio), (ends[1] - ends[0]) as f64 * h);
        if !(a < b) {
            continue;
        }
        // With the loss measured from the left end: F = int_a^b (1 - e^{left-l}) e^{(l-ratio)/2}/4 dl
        //   = 2 e^{(left-ratio)/2} [sinh^2((b-left)/4) - sinh^2((a-left)/4)], and from the right end likewise.
        let excess = 2.0 * exp(0.5 * (left - ratio)) * sinh_squares(b - left, a - left);
        let deficit = 2.0 * exp(0.5 * (right - ratio)) * sinh_squares(right - a, right - b);
        let (high, low) = (-excess / expm1(-width), deficit / expm1(width));
        lattice.add_mass(ends[0], low * (1.0 + error));
        lattice.add_mass(ends[1], high * (1.0 + error));
        let index = ends[0] + (ends[1] - ends[0] - 1) / 2;
        let place = index as f64 * h;
        let q_lifted = low * exp(place - left) + high * exp(place - right);
        lattice.cells.push(Cell { index, p: low + high, q_lifted, error });
    }
    lattice.add_atom(ratio, 0.5);
    lattice.upper = merged(std::mem::take(&mut lattice.upper));
    lattice
}

/// Cells are at least this part of their distance from zero (as a power of two), so that their number stays small
/// however fine the grid; wider cells are looser, never unsound.
const FINEST_PART: u32 = 10;

/// The widest cell of losses.
pub(super) const WIDEST: f64 = 16.0;

/// The ends of cells that cover first..=last, zero among them if it lies inside; wanted widths from the distance to zero,
/// to the left and to the right.
pub(super) fn cell_ends(
    (first, last): (i64, i64),
    spacing: f64,
    (left, right): (impl Fn(i64) -> i64, impl Fn(i64) -> i64),
) -> Vec<i64> {
    let widest = ((WIDEST / spacing) as i64).max(1);
    let width = |wanted: i64, distance: i64| wanted.max((distance >> FINEST_PART).min(widest));
    let mut ends = Vec::new();
    let mut index = last.min(0);
    while index > first {
        index -= width(left(-index), -index).min(index - first);
        ends.push(index);
    }
    ends.reverse();
    index = last.min(0);
    ends.push(index);
    while index < last {
        index += width(right(index), index).min(last - index);
        ends.push(index);
    }
    ends
}

/// sinh^2(a/4) - sinh^2(b/4) = sinh((a+b)/4) sinh((a-b)/4).
fn sinh_squares(a: f64, b: f64) -> f64 {
    sinh(0.25 * (a + b)) * sinh(0.25 * (a - b))
}

/// Sorted by index, equal indices added together.
pub(super) fn merged(mut law: Law) -> Law {
    law.sort_by_key(|&(index, _)| index);
    law.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same {
            kept.1 += next.1;
        }
        same
    });
    law
}
