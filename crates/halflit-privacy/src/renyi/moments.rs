//! Renyi divergences of normal mixtures by quadrature with a proved relative error; the proof is `docs/accounting/renyi.md`.
//!
//! The integrand phi(z) A(z)^a B(z)^b, with A = 1-q+qE(z) and B one or 1-q+qE(-z), is analytic in the strip |Im z| < pi/k
//! and decays like a normal density: the trapezoid rule errs by less than e^-36 of the integral. Half-lines, which
//! subsets of a fixed size need, are what Gauss panels leave of a whole line.

use super::log_add;
use crate::pld::Mixture;
use crate::special::log_normal_cdf;
use libm::{cos, exp, log, log1p, sqrt};

/// order * shift and shift beyond which sampling is given no credit: it helps little there, and the number of nodes grows.
const LARGEST_ORDER_TIMES_SHIFT: f64 = 200.0;
const LARGEST_SHIFT: f64 = 20.0;
/// log of one over the relative error of the trapezoid rule.
const LOG_ACCURACY: f64 = 36.0;
/// Relative error of the quadratures alone.
const QUADRATURE_ERROR: f64 = 1e-14;
const LOG_SQRT_2PI: f64 = 0.918_938_533_204_672_8;

/// The larger of the two directions' Renyi divergences of order a.
pub fn mixture_renyi(mixture: &Mixture, order: f64) -> f64 {
    let distance = if mixture.two_sided { 2.0 * mixture.shift } else { mixture.shift };
    if !is_worthwhile(mixture, order) {
        return unsampled(distance, order);
    }
    // P over Q: phi A^a B^(1-a).
    let forward = Integral { mixture, powers: (order, if mixture.two_sided { 1.0 - order } else { 0.0 }) };
    let mut log_moment = forward.log_upper();
    if !mixture.two_sided {
        // Q over P: phi A^(1-a).
        log_moment = log_moment.max(Integral { mixture, powers: (1.0 - order, 0.0) }.log_upper());
    }
    (log_moment.max(0.0) / (order - 1.0)).min(unsampled(distance, order))
}

fn is_worthwhile(mixture: &Mixture, order: f64) -> bool {
    order * mixture.shift <= LARGEST_ORDER_TIMES_SHIFT && mixture.shift <= LARGEST_SHIFT
}

/// Sampling never costs, because divergences are jointly quasi-convex: also a bound where rounding hides a better one.
fn unsampled(distance: f64, order: f64) -> f64 {
    0.5 * order * distance * distance
}

/// The same for subsets of a fixed size: losses above zero, their mirror image, and the atom at zero.
pub fn fixed_size_renyi(mixture: &Mixture, order: f64) -> f64 {
    if !is_worthwhile(mixture, order) {
        return unsampled(mixture.shift, order);
    }
    let above = Integral { mixture, powers: (order, 0.0) }.log_growing_right_part();
    let below = Integral { mixture, powers: (1.0 - order, 0.0) }.log_falling_right_part();
    let half = 0.5 * mixture.shift * std::f64::consts::FRAC_1_SQRT_2;
    let log_atom = log1p(-mixture.rate) + log(libm::erf(half)) + 8.0 * f64::EPSILON;
    let log_moment = log_add(log_add(above, below), log_atom);
    (log_moment.max(0.0) / (order - 1.0)).min(unsampled(mixture.shift, order))
}

/// int phi(z) A(z)^powers.0 B(z)^powers.1 dz, with B = 1 for one-sided pairs.
struct Integral<'a> {
    mixture: &'a Mixture,
    powers: (f64, f64),
}

/// A sum of terms e^{x}, kept as a multiple of e^scale, with what its roundings may amount to.
struct LogSum {
    log_value: f64,
    relative_error: f64,
}

impl Integral<'_> {
    /// (log of the integrand, the sum of the sizes of its exponents).
    fn log_integrand(&self, z: f64) -> (f64, f64) {
        let (a, b) = self.mixture.log_densities(z);
        let (first, second) = (self.powers.0 * a, self.powers.1 * b);
        let square = 0.5 * z * z;
        let size = square + first.abs() + second.abs() + self.powers.0.abs() + self.powers.1.abs();
        (first + second - square - LOG_SQRT_2PI, size)
    }

    /// Where the integrand matters.
    fn reach(&self) -> (f64, f64) {
        let (a, k) = (self.powers.0, self.mixture.shift);
        // On the left A^a is at most max(1, (1-q)^a); the exponent there is caught by the normal density.
        let wide = 14.0 + sqrt(2.0 * a.abs() * -log1p(-self.mixture.rate).max(-700.0));
        let centre = match (a > 0.0, self.mixture.two_sided) {
            (true, true) => (2.0 * a - 1.0) * k,
            (true, false) => a * k,
            (false, _) => 0.0,
        };
        (-wide - k, centre + wide)
    }

    /// The trapezoid rule's step: 2 pi d/(accuracy + log G), G the growth of the integrand at distance d from the axis.
    fn step(&self) -> f64 {
        let k = self.mixture.shift;
        let negative = (-self.powers.0).max(-self.powers.1).max(0.0);
        // |A(x + id)| >= A(x) cos(kd/2): G = e^{d^2/2} cos(kd/2)^-negative. Best near d = 8/sqrt(c).
        let curvature = 1.0 + 0.31 * negative * k * k;
        let distance = (8.0 / sqrt(curvature)).min(1.9 / k);
        let log_growth = 0.5 * distance * distance - negative * log(cos(0.5 * k * distance));
        2.0 * std::f64::consts::PI * distance / (LOG_ACCURACY + log_growth)
    }

    /// log of the integral over the whole line, without what lies outside the reach.
    fn log_inside(&self) -> (LogSum, f64, f64) {
        let (low, high) = self.reach();
        let count = ((high - low) / self.step()).ceil();
        let step = (high - low) / count;
        let nodes = (0..=count as u32).map(|j| self.log_integrand(low + step * f64::from(j)));
        (log_sum(nodes.map(|(value, size)| (value, size, step)).collect()), low, high)
    }

    /// log of an upper bound on the integral over the whole line.
    fn log_upper(&self) -> f64 {
        let (inside, low, high) = self.log_inside();
        log_add(inside.log_value + inside.relative_error, self.log_tails(low, high))
    }

    /// log of an upper bound on int_{k/2}^inf phi A^a, a > 0: the whole line less the left part, where A <= 1.
    fn log_growing_right_part(&self) -> f64 {
        let (q, k) = (self.mixture.rate, self.mixture.shift);
        let whole = self.log_upper();
        // The shifted component's share of A at z, over that of the centre.
        let odds = |z: f64| exp((log(q) - log1p(-q) + k * z - 0.5 * k * k).min(700.0));
        // |d log A/dz| in the discs of eight half-widths around a panel that begins at z (`docs/accounting/renyi.md`).
        let steepness = |z: f64| {
            if odds(z + 2.5) <= 0.25 {
                (1.34 * k * odds(z + 2.5), 0.25)
            } else {
                (k * (3.6 * odds(z)).min(1.14), 0.125 / k)
            }
        };
        // What is subtracted may leave something out.
        let left = log_sum(self.panels(-9.0, (0.5 * k).min(9.0), steepness, f64::NEG_INFINITY).0);
        let gap = -libm::expm1((left.log_value - left.relative_error - whole).min(0.0));
        // Where the difference is lost in rounding, what the rounding may hide.
        whole + log(gap + 8.0 * f64::EPSILON)
    }

    /// log of an upper bound on int_{k/2}^inf phi A^a, a < 0: A >= 1, and the integrand falls.
    fn log_falling_right_part(&self) -> f64 {
        let k = self.mixture.shift;
        let start = 0.5 * k;
        let enough = self.log_integrand(start).0 - 45.0;
        let (terms, end) = self.panels(start, start + 14.0, |_| (1.14 * k, 0.125 / k), enough);
        let inside = log_sum(terms);
        let tail = self.powers.0 * self.mixture.log_densities(end).0 + log_normal_cdf(-end) + 1e-12;
        log_add(inside.log_value + inside.relative_error, tail)
    }

    /// Terms of the eight-point Gauss rule on panels over which the logarithm of the integrand changes by about one,
    /// from `start` to `end` or to where the integrand has fallen to e^enough; and where they end.
    ///
    /// `steepness` gives |d log A/dz| near a place and the widest panel there.
    fn panels(
        &self,
        start: f64,
        end: f64,
        steepness: impl Fn(f64) -> (f64, f64),
        enough: f64,
    ) -> (Vec<(f64, f64, f64)>, f64) {
        let mut terms = Vec::new();
        let mut z = start;
        while z < end {
            let (slope, widest) = steepness(z);
            let slope = z.abs().max((z + 0.5).abs()) + self.powers.0.abs() * slope;
            let half = (0.5 / slope).min(widest).min(0.25);
            let is_last = z + 2.0 * half >= end;
            let half = if is_last { 0.5 * (end - z) } else { half };
            let middle = z + half;
            for (node, weight) in crate::pld::GAUSS_8 {
                for place in [middle - half * node, middle + half * node] {
                    let (value, size) = self.log_integrand(place);
                    terms.push((value, size, half * weight));
                }
            }
            z = if is_last { end } else { z + 2.0 * half };
            if terms.last().is_some_and(|term| term.0 < enough) {
                break;
            }
        }
        (terms, z)
    }

    /// log of a bound on what lies outside [low, high]: integrals of decreasing functions, which also bound the sums
    /// over the nodes left out.
    fn log_tails(&self, low: f64, high: f64) -> f64 {
        let (q, k) = (self.mixture.rate, self.mixture.shift);
        let order = self.powers.0;
        // B >= 1 - q everywhere and B >= 1 left of -k/2, so B^(1-a) is at most (1-q)^(1-a) and 1 there.
        let log_b = self.powers.1 * log1p(-q);
        let left = log_normal_cdf(low);
        let right = if order > 1.0 {
            // A^a <= (1-q) + q E^a, and phi E^a = e^{(a^2-a) k^2/2} N(ak, 1).
            let shifted = log(q) + 0.5 * (order * order - order) * k * k + log_normal_cdf(order * k - high);
            log_add(log1p(-q) + log_normal_cdf(-high), shifted) + log_b
        } else {
            // A^(1-a) <= 1 where A >= 1, to the right of k/2.
            log_normal_cdf(-high)
        };
        // On the left A <= 1, so A^a <= 1; A^(1-a) <= (1-q)^(1-a).
        let left = if order > 1.0 { left } else { left + order * log1p(-q) };
        log_add(left, right) + 1e-12
    }
}

/// log of sum weight e^value over (value, size of its exponents, weight), with a bound on the relative error.
fn log_sum(terms: Vec<(f64, f64, f64)>) -> LogSum {
    let scale = terms.iter().map(|term| term.0).fold(f64::NEG_INFINITY, f64::max);
    let (mut sum, mut sizes) = (0.0, 0.0);
    for &(value, size, weight) in &terms {
        let term = weight * exp(value - scale);
        sum += term;
        sizes += term * size;
    }
    // Each exponent is a sum of products within a few ulps of their sizes; a sum of n positive terms errs by n u.
    let rounding = f64::EPSILON * (8.0 * (2.0 + sizes / sum + scale.abs()) + terms.len() as f64);
    LogSum { log_value: scale + log(sum), relative_error: QUADRATURE_ERROR + rounding }
}
