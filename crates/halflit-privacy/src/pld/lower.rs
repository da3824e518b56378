//! The lower ends: an explicit test that tells the two tables apart.
//!
//! Outcomes are merged into cells and each cell is given its grid index; the test adds up the indices over all releases
//! and says "P" when the sum S reaches a threshold. Whatever the cells, P(S >= J) - e^eps Q(S >= J) <= delta(eps), so
//! the best threshold gives a lower bound. Both probabilities are composed like the upper law, the first rounded down
//! and the second rounded up. See `proof.md`, section 5.

use super::compose::{Composed, Factor, Method, compose, log_chernoff, tilted_mean_index};
use super::fft::UNIT_ROUNDOFF;
use super::lattice::{Cell, Lattice, Law, merged};
use super::plan::Plan;
use libm::{exp, expm1, log, log1p};
use std::ops::Range;

/// Probabilities that the test statistic reaches each threshold.
pub struct LowerTail {
    /// For each threshold: a lower bound on its P-probability, an upper bound on the log of its Q-probability.
    thresholds: Vec<(f64, f64)>,
    /// P-probability of an outcome that Q never produces, rounded down.
    revealed: f64,
}

impl LowerTail {
    /// Composes the statistic under both laws, in the window of the plan.
    pub fn new(lattices: &[(Lattice, u64)], plan: &Plan, method: Method) -> Self {
        let under_p = Side::new(lattices, |cell| cell.p, -1.0);
        let under_q = Side::new(lattices, |cell| cell.q, 1.0);
        // Losses lie above the index of their cell by less than a step; over all releases the window moves by the mean.
        let start = plan.start - under_p.mean_offset(lattices, plan).round() as i64;
        // The best threshold is close to epsilon; others would be sound but useless.
        let centre =
            ((plan.epsilon / plan.spacing) as i64 - plan.start).clamp(0, plan.len as i64 - 1) as usize;
        let reach = plan.len / 16 + 64;
        let useful = centre.saturating_sub(reach)..(centre + reach).min(plan.len);
        let p = under_p.at_least(plan, start, useful.clone(), method);
        let q = under_q.log_at_least(plan, start, useful, method);
        let log_hidden: f64 =
            lattices.iter().map(|(lattice, count)| *count as f64 * log1p(-lattice.revealed)).sum();
        LowerTail { thresholds: p.into_iter().zip(q).collect(), revealed: -expm1(log_hidden) * (1.0 - 1e-12) }
    }

    /// A lower bound on delta(eps).
    pub fn delta(&self, eps: f64) -> f64 {
        let gap = |&(p, log_q): &(f64, f64)| p - exp(eps + log_q) * (1.0 + 4.0 * UNIT_ROUNDOFF);
        // Taken down once more, by more than the quotients behind the pairs were rounded up.
        (self.revealed + self.thresholds.iter().map(gap).fold(0.0, f64::max)) * (1.0 - 1e-11)
    }

    /// A lower bound on the smallest epsilon >= 0 with delta(epsilon) <= delta.
    pub fn epsilon(&self, delta: f64) -> f64 {
        // P + revealed - e^eps Q > delta holds for every eps below log((P + revealed - delta)/Q).
        let missing = delta - self.revealed;
        let reached = |&(p, log_q): &(f64, f64)| if p > missing { log(p - missing) - log_q } else { 0.0 };
        let best = self.thresholds.iter().map(reached).fold(0.0, f64::max);
        // Taken down once more, by more than the quotients behind the pairs were rounded up.
        (best * (1.0 - 1e-12) - 1e-13).max(0.0)
    }
}

/// The cells of every part under one of the two measures.
struct Side {
    laws: Vec<(Law, u64)>,
}

impl Side {
    /// Cell masses, moved by their error in the direction of `sign`.
    fn new(lattices: &[(Lattice, u64)], mass: fn(&Cell) -> f64, sign: f64) -> Self {
        let moved =
            |cell: &Cell| (cell.index, mass(cell) * (1.0 + sign * (cell.error + 4.0 * UNIT_ROUNDOFF)));
        let law = |lattice: &Lattice| merged(lattice.cells.iter().map(moved).collect());
        Side { laws: lattices.iter().map(|(lattice, count)| (law(lattice), *count)).collect() }
    }

    fn factors(&self) -> Vec<Factor<'_>> {
        self.laws.iter().map(|(law, count)| Factor { law, count: *count }).collect()
    }

    /// How many steps the composed loss lies above the composed statistic, in the mean of the tilted laws.
    fn mean_offset(&self, lattices: &[(Lattice, u64)], plan: &Plan) -> f64 {
        let mean = |law: &[(i64, f64)]| tilted_mean_index(law, plan.spacing, plan.theta);
        let mut total = 0.0;
        for ((lattice, count), (law, _)) in lattices.iter().zip(&self.laws) {
            total += *count as f64 * (mean(&lattice.upper) - mean(law));
        }
        total
    }

    /// Lower bounds on the probability that the statistic is at least each threshold of the window.
    fn at_least(&self, plan: &Plan, start: i64, useful: Range<usize>, method: Method) -> Vec<f64> {
        let factors = self.factors();
        let composed = compose(&factors, plan.spacing, plan.theta, start, method);
        let wrapped = Wrapped::new(&factors, plan, start);
        let sums = suffix_sums(&composed, -1.0);
        let bounds = useful.map(|j| {
            let threshold = (start + j as i64) as f64 * plan.spacing;
            let exponent = plan.theta * threshold;
            let slack = composed.weight_error
                + 4.0 * UNIT_ROUNDOFF * (1.0 + composed.log_scale.abs() + exponent.abs());
            sums[j] * exp(composed.log_scale - exponent - slack) - wrapped.bound(threshold)
        });
        // An overflow is not a bound; zero is.
        bounds.map(|bound| if bound > 0.0 && bound <= 1.0 { bound } else { 0.0 }).collect()
    }

    /// Upper bounds on the logarithms of the same probabilities.
    fn log_at_least(&self, plan: &Plan, start: i64, useful: Range<usize>, method: Method) -> Vec<f64> {
        let factors = self.factors();
        let theta = plan.theta + 1.0;
        let composed = compose(&factors, plan.spacing, theta, start, method);
        let top = (start + plan.len as i64) as f64 * plan.spacing;
        let log_beyond = log_chernoff(&factors, plan.spacing, plan.outer_tilts.top + 1.0, top);
        let sums = suffix_sums(&composed, 1.0);
        let logs = useful.map(|j| {
            let exponent = theta * ((start + j as i64) as f64 * plan.spacing);
            let slack = composed.weight_error
                + 8.0 * UNIT_ROUNDOFF * (1.0 + composed.log_scale.abs() + exponent.abs());
            let log_inside = composed.log_scale - exponent;
            // log(sum e^x + e^b) = x + log(sum + e^{b-x})
            log_inside + log(sums[j] + exp((log_beyond - log_inside).min(700.0))) + slack
        });
        // An overflow is not a bound; an infinite probability is.
        logs.map(|bound| if bound.is_nan() { f64::INFINITY } else { bound }).collect()
    }
}

/// sum_{i>=j} (r_i + sign error) e^{-theta (i-j) h}, itself moved by its round-off in the direction of `sign`.
fn suffix_sums(composed: &Composed, sign: f64) -> Vec<f64> {
    let len = composed.tilted.len();
    let decay = exp(-composed.theta * composed.spacing);
    let relative = UNIT_ROUNDOFF * (4.0 * len as f64 + 16.0);
    let mut sums = vec![0.0; len];
    let (mut sum, mut size) = (0.0, 0.0);
    for j in (0..len).rev() {
        let mass = composed.tilted[j] + sign * composed.entry_error;
        sum = mass + decay * sum;
        size = mass.abs() + decay * size;
        sums[j] = sum + sign * relative * size;
    }
    sums
}

/// What the cycle puts into the wrong place: entry J of the window also holds the tilted masses at J + mN for m = 1, 2,
/// .. and at J - mN. After the tilt is undone, a sum from threshold J on contains too much by at most
///
/// - sum_m e^{theta m N h} P(S >= J + mN) <= e^{K(t) - t J h} x/(1-x), x = e^{-(t-theta) N h}, for any t > theta (Chernoff),
/// - e^{-theta N h} P(S < start), because the blocks below the window are disjoint.
struct Wrapped {
    log_above: f64,
    tilt_above: f64,
    log_below: f64,
}

impl Wrapped {
    fn new(factors: &[Factor], plan: &Plan, start: i64) -> Self {
        let (theta, length) = (plan.theta, plan.len as f64 * plan.spacing);
        let tilt_above = plan.outer_tilts.wrap;
        let bottom = start as f64 * plan.spacing;
        // K(t) - t N h + theta N h - log(1 - x)
        let log_first = log_chernoff(factors, plan.spacing, tilt_above, length) + theta * length;
        let log_geometric = log(-expm1(-(tilt_above - theta) * length));
        // P(S < bottom) <= 1 needs no tilt.
        let log_below =
            log_chernoff(factors, plan.spacing, plan.outer_tilts.bottom.min(0.0), bottom).min(0.0);
        Wrapped { log_above: log_first - log_geometric, tilt_above, log_below: log_below - theta * length }
    }

    /// NaN where the tilt does not exceed theta; the caller then has no bound.
    fn bound(&self, threshold: f64) -> f64 {
        (exp(self.log_above - self.tilt_above * threshold) + exp(self.log_below)) * (1.0 + 1e-9)
    }
}
