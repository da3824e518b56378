//! Normal mixtures put on a grid of losses.
//!
//! With z_a < z_b the outcomes at which the loss equals the ends a, b of a cell, connect-the-dots gives
//!
//! - mass at b: int (dP - e^a dQ) / (1 - e^{a-b}), mass at a: int (e^b dQ - dP) / (e^{b-a} - 1),
//!
//! both over [z_a, z_b]. The integrands are the normal density times sums of positive terms expm1(+-k(z - z_a)) (see
//! `mixture.rs`), entire functions of z, so Gauss quadrature on short panels has a proved relative error below
//! 2e-14 (`proof.md`, section 3.3) and no difference of nearly equal tails is ever formed.

use super::fft::UNIT_ROUNDOFF;
use super::lattice::{Cell, Decisive, Lattice, cell_ends};
use super::mixture::Mixture;
use crate::special::{mills_difference, normal_cdf, normal_density, normal_quantile_of_log};
use libm::{exp, expm1, log};

/// Relative error of one quadrature and of the roundings around it, apart from what grows with the exponents.
const QUADRATURE_ERROR: f64 = 5e-14;

/// Relative error of a tail that is cut off: generous, because it is negligible by construction.
const TAIL_ERROR: f64 = 1e-6;

/// How wide the cells may be far from the bulk: (from this many grid steps away from zero, this many steps wide),
/// increasing. A wide cell costs accuracy in proportion to its mass; it is never unsound.
#[derive(Debug, Clone, Default)]
pub struct Widths {
    /// For losses above zero.
    pub right: Vec<(i64, i64)>,
    /// For losses below zero.
    pub left: Vec<(i64, i64)>,
}

/// The outcome at which the loss equals a grid point, moved down by its own error.
#[derive(Clone, Copy)]
struct Boundary {
    index: i64,
    loss: f64,
    z: f64,
    /// How far below the grid point the loss at z may be.
    slack: f64,
}

/// Puts the pair on the grid; outcomes of P-mass (right) or Q-mass (left) at most `tail_mass` are cut off and charged,
/// outcomes with losses from the index `decisive` on are kept apart.
pub fn mixture(pair: &Mixture, spacing: f64, tail_mass: f64, decisive: i64, widths: &Widths) -> Lattice {
    let reach = Reach::of(pair, tail_mass);
    let first = (pair.loss(reach.low_z).max(pair.infimum()) / spacing).floor() as i64;
    let last = (pair.loss(reach.high_z) / spacing).ceil() as i64;
    let boundaries = boundaries(pair, spacing, first.min(-1), last.min(decisive).max(1), widths);
    let mut lattice = Lattice::empty(spacing);
    add_lower_tail(&mut lattice, pair, boundaries[0]);
    for ends in boundaries.windows(2) {
        add_cell(&mut lattice, pair, ends[0], ends[1]);
    }
    add_upper_tail(&mut lattice, pair, boundaries[boundaries.len() - 1], last > decisive);
    lattice
}

/// Subsets of a fixed size: losses above zero come from the one-sided pair, losses below zero are their mirror image
/// with P and Q exchanged, and what is left sits exactly at zero.
pub fn fixed_size(pair: &Mixture, spacing: f64, tail_mass: f64, decisive: i64, widths: &Widths) -> Lattice {
    let (gamma, k) = (pair.rate, pair.shift);
    let reach = Reach::of(pair, tail_mass);
    let last = ((pair.loss(reach.high_z) / spacing).ceil() as i64).max(1);
    let mut right = Lattice::empty(spacing);
    let mut boundaries = boundaries(pair, spacing, 0, last.min(decisive).max(1), widths);
    // The loss is zero at z = k/2 exactly.
    boundaries[0] = Boundary { index: 0, loss: 0.0, z: 0.5 * k, slack: 0.0 };
    for ends in boundaries.windows(2) {
        add_cell(&mut right, pair, ends[0], ends[1]);
    }
    let end = boundaries[boundaries.len() - 1];
    add_upper_tail(&mut right, pair, end, last > decisive);
    let mut lattice = right.clone().reversed();
    lattice.infinite = right.infinite;
    lattice.infinite_reversed = right.infinite;
    // Left cells [-(i+1), -i] got index -i from the reversal; shift them so that all cells lie above their index.
    for cell in &mut lattice.cells {
        cell.index -= 1;
        cell.q_lifted *= exp(-spacing);
        cell.error += 4.0 * UNIT_ROUNDOFF;
    }
    // The mirror image of what is kept apart: its loss is rounded up, its Q-mass (the P-mass on the right) charged.
    let Decisive { loss, p, q_lifted } = right.decisive;
    if p > 0.0 {
        let q = q_lifted * exp(-loss);
        lattice.upper[0].1 += q * (1.0 + TAIL_ERROR) + f64::MIN_POSITIVE;
        lattice.infinite_reversed += p * (1.0 + TAIL_ERROR);
        let lifted = p * exp((-end.index - 1) as f64 * spacing);
        lattice.cells.insert(0, Cell { index: -end.index - 1, p: q, q_lifted: lifted, error: TAIL_ERROR });
    }
    lattice.decisive = right.decisive;
    // P-mass of the atom at zero: (1 - gamma) [Phi(k/2) - Phi(-k/2)]
    let atom = (1.0 - gamma) * libm::erf(0.5 * k * std::f64::consts::FRAC_1_SQRT_2);
    lattice.add_mass(0, atom * (1.0 + 16.0 * UNIT_ROUNDOFF));
    lattice.cells.push(Cell { index: 0, p: atom, q_lifted: atom, error: 16.0 * UNIT_ROUNDOFF });
    for (index, mass) in right.upper {
        lattice.add_mass(index, mass);
    }
    lattice.cells.extend(right.cells);
    lattice
}

/// How far out the outcomes matter.
struct Reach {
    low_z: f64,
    high_z: f64,
}

impl Reach {
    fn of(pair: &Mixture, tail_mass: f64) -> Self {
        let (q, k) = (pair.rate, pair.shift);
        let log_half = log(0.5 * tail_mass);
        // (1-q) Phi(-z) + q Phi(k-z) <= tail_mass when each normal tail is at most half its share.
        let shifted = k - normal_quantile_of_log((log_half - log(q)).min(-std::f64::consts::LN_2));
        let high_z = shifted.max(-normal_quantile_of_log(log_half));
        let low_z = if pair.two_sided { -high_z } else { normal_quantile_of_log(log(tail_mass)) };
        Reach { low_z, high_z }
    }
}

/// Below this outcome a normal law has less mass than any double.
const FAR_LEFT: f64 = -45.0;
/// Charged for what lies beyond every reach: far more than there is.
const UNREACHED: f64 = f64::MIN_POSITIVE;
fn boundaries(pair: &Mixture, spacing: f64, first: i64, last: i64, widths: &Widths) -> Vec<Boundary> {
    let width = |steps: &[(i64, i64)], distance: i64| {
        steps.iter().rev().find(|&&(from, _)| distance >= from).map_or(1, |&(_, width)| width)
    };
    let wanted = (|left: i64| width(&widths.left, left), |right: i64| width(&widths.right, right));
    let ends = cell_ends((first, last), spacing, wanted);
    // Exact: the grid step has few significant bits.
    ends.into_iter().map(|index| boundary(pair, index, index as f64 * spacing)).collect()
}

fn boundary(pair: &Mixture, index: i64, loss: f64) -> Boundary {
    let (z, slack) = pair.threshold_below(loss);
    Boundary { index, loss, z, slack }
}

/// Everything at or below the first boundary is treated as having that loss, which is rounding up.
fn add_lower_tail(lattice: &mut Lattice, pair: &Mixture, first: Boundary) {
    if first.z == f64::NEG_INFINITY {
        return;
    }
    let (p, q) = pair.lower_tail(first.z);
    lattice.add_mass(first.index, p * (1.0 + TAIL_ERROR));
    lattice.infinite_reversed += q * (1.0 + TAIL_ERROR);
    lattice.cells.push(Cell { index: first.index, p, q_lifted: q * exp(first.loss), error: TAIL_ERROR });
}

/// Beyond the last boundary: kept apart if it is decisive; otherwise all P-mass at it, and what it cannot explain at
/// infinity (`proof.md`, sections 2.3 and 2.6).
fn add_upper_tail(lattice: &mut Lattice, pair: &Mixture, last: Boundary, is_decisive: bool) {
    let p = (1.0 - pair.rate) * normal_cdf(-last.z) + pair.rate * normal_cdf(pair.shift - last.z);
    lattice.infinite_reversed += UNREACHED;
    if is_decisive {
        let loss = last.loss - last.slack;
        let q_lifted = pair.lifted_q_tail(last.z, loss);
        lattice.decisive = Decisive { loss, p, q_lifted };
        return;
    }
    lattice.add_mass(last.index, p * (1.0 + TAIL_ERROR));
    lattice.infinite += pair.upper_excess(last.z) * (1.0 + TAIL_ERROR) + UNREACHED;
    let q_lifted = pair.lifted_q_tail(last.z, last.loss);
    lattice.cells.push(Cell { index: last.index, p, q_lifted, error: TAIL_ERROR });
}

fn add_cell(lattice: &mut Lattice, pair: &Mixture, a: Boundary, b: Boundary) {
    let Some(cell) = split(pair, a, b) else {
        return;
    };
    lattice.add_mass(a.index, cell.mass(cell.low));
    lattice.add_mass(b.index, cell.mass(cell.high));
    if (a.index, b.index) != (-1, 0) {
        let index = a.index + (b.index - a.index - 1) / 2;
        lattice.cells.push(cell.outcome(index, lattice.spacing, a, b));
        return;
    }
    // Losses just below zero belong to zero: where nearly all are tiny, their sign would only be noise.
    let middle = boundary(pair, b.index, -0.5 * lattice.spacing);
    let mut add_half = |index: i64, a: Boundary, b: Boundary| {
        if a.z < b.z
            && let Some(half) = split(pair, a, b)
        {
            lattice.cells.push(half.outcome(index, lattice.spacing, a, b));
        }
    };
    add_half(-1, a, middle);
    add_half(0, middle, b);
}

/// The mass of a cell divided between its ends so that its P-mass and its Q-mass are both kept: in units of e^`log_unit`,
/// because P-masses at very negative losses are below every double while their Q-masses are not.
struct Split {
    low: f64,
    high: f64,
    log_unit: f64,
    error: f64,
}

impl Split {
    /// A P-mass, rounded up.
    fn mass(&self, scaled: f64) -> f64 {
        scaled * exp(self.log_unit) * (1.0 + self.error) + f64::MIN_POSITIVE
    }

    /// The cell as one outcome, at the given index.
    fn outcome(&self, index: i64, spacing: f64, a: Boundary, b: Boundary) -> Cell {
        let place = self.log_unit + index as f64 * spacing;
        let q_lifted = self.low * exp(place - a.loss) + self.high * exp(place - b.loss);
        Cell { index, p: (self.low + self.high) * exp(self.log_unit), q_lifted, error: self.error }
    }
}

/// `None` for a cell without outcomes.
fn split(pair: &Mixture, a: Boundary, b: Boundary) -> Option<Split> {
    // Exact for neighbouring doubles and on the grid.
    let width = b.loss - a.loss;
    let log_unit = if a.z.is_finite() { a.loss.min(0.0) } else { 0.0 };
    let (excess, deficit) = if b.z == f64::NEG_INFINITY {
        return None;
    } else if a.z == f64::NEG_INFINITY {
        half_infinite_cell(pair, a, b)
    } else {
        quadrature(pair, a, b, log_unit)
    };
    // The ends of the cell are known to within their slack, so its true width w is too; the divisors e^w - 1 and 1 - e^-w
    // change by at most 1 + 1/w times as much, relatively.
    let spread = (a.slack + b.slack) * (1.0 + 1.0 / width);
    // No outcome is further out than this.
    let reach = a.z.abs().max(b.z.abs()).min(pair.shift - FAR_LEFT);
    let exponents = reach * reach + pair.shift * (reach + pair.shift);
    let error = QUADRATURE_ERROR
        + 8.0 * UNIT_ROUNDOFF * (exponents + a.loss.abs() + b.loss.abs() + 1.0)
        + 4.0 * spread;
    Some(Split { low: deficit / expm1(width), high: -excess / expm1(-width), log_unit, error })
}

/// The cell (-inf, z_b] of a one-sided pair, whose left end lies at or below the smallest loss.
fn half_infinite_cell(pair: &Mixture, a: Boundary, b: Boundary) -> (f64, f64) {
    let (q, k, z) = (pair.rate, pair.shift, b.z);
    // P - e^a Q = (1 - q - e^a) Phi(z) + q Phi(z-k); the bracket is rounded up by its own error.
    let bracket = (-(expm1(a.loss) + q)).max(0.0) + 4.0 * UNIT_ROUNDOFF * q;
    let excess = bracket * normal_cdf(z) + q * normal_cdf(z - k);
    // e^b Q - P = q [E(z) Phi(z) - Phi(z-k)], in the form that does not cancel at this z.
    let y = k * z - 0.5 * k * k;
    let deficit = if z <= 5.0 {
        normal_density(z - k) * mills_difference(-z, k)
    } else if y > 0.0 {
        // E Phi(z) - Phi(z-k) = (E - 1) + [Phi(k-z) - E Phi(-z)]
        expm1(y) + normal_density(z - k) * mills_difference(z - k, k)
    } else {
        exp(y) * normal_cdf(z) - normal_cdf(z - k)
    };
    (excess, q * deficit)
}

/// Positive nodes and weights of the Gauss rules on [-1, 1]; the five-point rule also has a node at zero.
const GAUSS_5: [(f64, f64); 2] =
    [(0.538_469_310_105_683_1, 0.478_628_670_499_366_47), (0.906_179_845_938_664, 0.236_926_885_056_189_1)];
const GAUSS_5_CENTRE: f64 = 0.568_888_888_888_888_9;
pub const GAUSS_8: [(f64, f64); 4] = [
    (0.183_434_642_495_649_8, 0.362_683_783_378_362),
    (0.525_532_409_916_329, 0.313_706_645_877_887_27),
    (0.796_666_477_413_626_7, 0.222_381_034_453_374_48),
    (0.960_289_856_497_536_3, 0.101_228_536_290_376_26),
];

/// (int dP - e^a dQ, int e^b dQ - dP) over [z_a, z_b], in units of e^log_unit.
fn quadrature(pair: &Mixture, a: Boundary, b: Boundary, log_unit: f64) -> (f64, f64) {
    let integrand = Integrand::new(pair, a, b, log_unit);
    // Beyond the reach of all components lies less mass than any double; `UNREACHED` stands for it.
    let reached = pair.shift - FAR_LEFT;
    let (start, end) = (a.z.max(-reached), b.z.min(reached));
    if !(start < end) {
        return (0.0, 0.0);
    }
    let half = 0.5 * (end - start);
    let reach = start.abs().max(end.abs()) + 2.0 * pair.shift;
    let mut sums = (0.0, 0.0);
    if half <= 0.06 && half * reach <= 0.1 {
        let middle = 0.5 * (start + end);
        integrand.add(&mut sums, middle, GAUSS_5_CENTRE);
        for (node, weight) in GAUSS_5 {
            integrand.add(&mut sums, middle - half * node, weight);
            integrand.add(&mut sums, middle + half * node, weight);
        }
        return (sums.0 * half, sums.1 * half);
    }
    let panels = (half / 0.25).max(half * reach / 0.5).ceil();
    let panel_half = half / panels;
    for panel in 0..panels as i64 {
        let middle = start + panel_half * (2 * panel + 1) as f64;
        for (node, weight) in GAUSS_8 {
            integrand.add(&mut sums, middle - panel_half * node, weight);
            integrand.add(&mut sums, middle + panel_half * node, weight);
        }
    }
    (sums.0 * panel_half, sums.1 * panel_half)
}

/// phi(z) times the four positive terms, with their exponents kept together so that nothing overflows.
struct Integrand {
    shift: f64,
    two_sided: bool,
    z: (f64, f64),
    /// Logs of the weights of expm1(k(z-z_a)), -expm1(-k(z-z_a)), -expm1(k(z-z_b)), expm1(-k(z-z_b)).
    logs: [f64; 4],
    /// The largest of them, taken out of the weights.
    log_scale: f64,
    weights: [f64; 4],
}

/// Beyond this exponent a growing term is formed with its weight inside the exponential.
const LARGE_EXPONENT: f64 = 300.0;

impl Integrand {
    fn new(pair: &Mixture, a: Boundary, b: Boundary, log_unit: f64) -> Self {
        let k = pair.shift;
        // q E(z)/sqrt(2 pi) and q e^eps E(-z)/sqrt(2 pi)
        let base = log(pair.rate) - 0.5 * k * k - 0.918_938_533_204_672_8 - log_unit;
        let mirrored =
            |loss: f64, z: f64| if pair.two_sided { base + loss - k * z } else { f64::NEG_INFINITY };
        let logs = [base + k * a.z, mirrored(a.loss, a.z), base + k * b.z, mirrored(b.loss, b.z)];
        let log_scale = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Integrand {
            shift: k,
            two_sided: pair.two_sided,
            z: (a.z, b.z),
            logs,
            log_scale,
            weights: logs.map(|value| exp(value - log_scale)),
        }
    }

    /// Adds weight times the two integrands at z.
    #[inline]
    fn add(&self, sums: &mut (f64, f64), z: f64, weight: f64) {
        let k = self.shift;
        let density = weight * exp(self.log_scale - 0.5 * z * z);
        let (right, left) = (k * (z - self.z.0), k * (self.z.1 - z));
        // weight e^{log} (e^x - 1) phi(z), x >= 0
        let growing = |term: usize, x: f64| {
            if x < LARGE_EXPONENT {
                return density * self.weights[term] * expm1(x);
            }
            weight * exp(self.logs[term] + x - 0.5 * z * z)
        };
        sums.0 += growing(0, right);
        sums.1 += density * self.weights[2] * -expm1(-left);
        if self.two_sided {
            sums.0 += density * self.weights[1] * -expm1(-right);
            sums.1 += growing(3, left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// e^w - 1 moves by a factor e^s where w moves by s, however wide the cell: a charge of s/w alone, enough for narrow
    /// cells, would be 1/8 of that for the widest one here. The slack is made large so that nothing else covers for it.
    #[test]
    fn the_slack_of_a_wide_cell_is_charged_in_full() {
        let pair = Mixture { rate: 0.01, shift: 1.0, two_sided: false };
        let slack = 1e-6;
        for width in [1e-3, 1.0, 8.0, 32.0] {
            let end = |loss: f64| Boundary { slack, ..boundary(&pair, 0, loss) };
            let error = split(&pair, end(0.0), end(width)).unwrap().error;
            for moved in [width - 2.0 * slack, width + 2.0 * slack] {
                let low = (expm1(width) / expm1(moved) - 1.0).abs();
                let high = (expm1(-width) / expm1(-moved) - 1.0).abs();
                assert!(low <= error && high <= error, "{width}: {low} {high} {error}");
            }
        }
    }
}
