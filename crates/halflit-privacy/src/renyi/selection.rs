//! Private selection among a random hidden number of runs (Papernot and Steinke 2022), with its own proof in
//! `docs/accounting/repeat-and-select.md`.
//!
//! Legend: f the probability generating function of the number of runs, (a, R(a)) the Renyi curve of one run.

use super::{RenyiCurve, log_add, orders};
use crate::event::{Family, RunCount};
use libm::{log, log1p};

/// The curve of the selected output.
pub fn select(base: &RenyiCurve, runs: &RunCount) -> RenyiCurve {
    let log_mean = log(runs.mean()) + 8.0 * f64::EPSILON;
    match runs.family() {
        Family::TruncatedNegativeBinomial { eta, gamma } => {
            // R'(a) = R(a) + (1 + eta) min_b [(1 - 1/b) R(b) + log(1/gamma)/b] + log(E K)/(a - 1)
            let per_ratio = base
                .points()
                .map(|(order, bound)| (1.0 - 1.0 / order) * bound - log(gamma) / order)
                .fold(f64::INFINITY, f64::min);
            let curve =
                combine(base, |order, bound| bound + (1.0 + eta) * per_ratio + log_mean / (order - 1.0));
            monotone(curve)
        }
        Family::Poisson { mean } => {
            // e^{(a-1) R'(a)} = e^{-mean} + mean e^{(a-1)(R(a) + mean delta(log(a/(a-1))))}: the first term is the
            // output "no run", which the published bound leaves out.
            let curve = combine(base, |order, bound| {
                let delta = base.delta_at(-log1p(-1.0 / order));
                log_add(-mean, log_mean + (order - 1.0) * (bound + mean * delta)) / (order - 1.0)
            });
            monotone(curve)
        }
    }
}

fn combine(base: &RenyiCurve, bound: impl Fn(f64, f64) -> f64) -> RenyiCurve {
    let up = |value: f64| if value.is_nan() { f64::INFINITY } else { value.max(0.0) * (1.0 + 1e-14) };
    let bounds = orders().zip(&base.bounds).map(|(order, base)| up(bound(order, *base))).collect();
    RenyiCurve { bounds }
}

/// Renyi divergences increase with the order: a bound at a larger order is one at a smaller order too.
fn monotone(mut curve: RenyiCurve) -> RenyiCurve {
    let mut smallest = f64::INFINITY;
    for bound in curve.bounds.iter_mut().rev() {
        smallest = smallest.min(*bound);
        *bound = smallest;
    }
    curve
}
