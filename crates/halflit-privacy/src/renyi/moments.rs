//! Renyi divergences of normal mixtures by Gauss quadrature with a proved relative error.
//!
//! The integrand phi(z) A(z)^a B(z)^(1-a), with A = 1-q+qE(z) and B one or 1-q+qE(-z), changes its logarithm by at most
//! (|z| + 2ak) per unit of z. On panels of half-width r <= 0.5/(|z| + 2ak), r <= 1/4, the eight-point rule errs by less
//! than 1e-13 of the panel (the argument of `pld/proof.md`, section 3.3, with 2ak in place of 2k).

use super::log_add;
use crate::pld::Mixture;
use crate::special::log_normal_cdf;
use libm::{exp, log, log1p};

/// order * shift beyond which no bound is offered: the number of panels grows with its square.
const LARGEST_ORDER_TIMES_SHIFT: f64 = 50.0;
/// Relative error allowed for quadrature and rounding together.
const QUADRATURE_ERROR: f64 = 1e-12;
const LOG_SQRT_2PI: f64 = 0.918_938_533_204_672_8;

/// The larger of the two directions' Renyi divergences of order a; infinite if a bound is not offered.
pub fn mixture_renyi(mixture: &Mixture, order: f64) -> f64 {
    if !(order * mixture.shift <= LARGEST_ORDER_TIMES_SHIFT) {
        return f64::INFINITY;
    }
    let k = mixture.shift;
    // P over Q: phi A^a B^(1-a).
    let forward = Integral { mixture, powers: (order, 1.0 - order), from: f64::NEG_INFINITY };
    let high = if mixture.two_sided { (2.0 * order - 1.0) * k } else { order * k };
    let mut log_moment = forward.log_value(high);
    if !mixture.two_sided {
        // Q over P: phi A^(1-a).
        let reversed = Integral { mixture, powers: (1.0 - order, 0.0), from: f64::NEG_INFINITY };
        log_moment = log_moment.max(reversed.log_value(0.0));
    }
    log_moment.max(0.0) / (order - 1.0)
}

/// The same for subsets of a fixed size: losses above zero, their mirror image, and the atom at zero.
pub fn fixed_size_renyi(mixture: &Mixture, order: f64) -> f64 {
    if !(order * mixture.shift <= LARGEST_ORDER_TIMES_SHIFT) {
        return f64::INFINITY;
    }
    let from = 0.5 * mixture.shift;
    let above = Integral { mixture, powers: (order, 0.0), from }.log_value(order * mixture.shift);
    let below = Integral { mixture, powers: (1.0 - order, 0.0), from }.log_value(0.0);
    let atom = (1.0 - mixture.rate) * libm::erf(from * std::f64::consts::FRAC_1_SQRT_2);
    log_add(log_add(above, below), log(atom) + 8.0 * f64::EPSILON).max(0.0) / (order - 1.0)
}

/// int over z >= from of phi(z) A(z)^powers.0 B(z)^powers.1, with B = 1 for one-sided pairs.
struct Integral<'a> {
    mixture: &'a Mixture,
    powers: (f64, f64),
    from: f64,
}

const GAUSS_8: [(f64, f64); 4] = crate::pld::GAUSS_8;

impl Integral<'_> {
    fn log_integrand(&self, z: f64) -> f64 {
        let (a, b) = self.mixture.log_densities(z);
        let second = if self.mixture.two_sided { self.powers.1 * b } else { 0.0 };
        -0.5 * z * z - LOG_SQRT_2PI + self.powers.0 * a + second
    }

    /// log of an upper bound on the integral; the mass sits at or below `centre`.
    fn log_value(&self, centre: f64) -> f64 {
        let reach = 14.0 + libm::sqrt(2.0 * self.powers.0.abs() * -log1p(-self.mixture.rate).max(-700.0));
        let (low, high) = (self.from.max(-reach - self.mixture.shift), centre + reach);
        let steepness = 2.0 * self.powers.0.abs().max(1.0) * self.mixture.shift;
        // The largest exponent over a coarse grid scales the sum; its exact value does not matter.
        let coarse = (0..=256).map(|j| self.log_integrand(low + (high - low) * f64::from(j) / 256.0));
        let scale = coarse.fold(f64::NEG_INFINITY, f64::max);
        let mut sum = 0.0;
        let mut z = low;
        while z < high {
            let half =
                (0.5 / (z.abs().max((z + 0.5).abs()) + steepness)).min(0.25).min(0.5 * (high - z).max(1e-12));
            let middle = z + half;
            let at_middle = self.log_integrand(middle) - scale;
            if at_middle < -60.0 {
                // The integrand varies by less than a factor e over the panel.
                sum += 2.0 * half * exp(at_middle + 1.0);
            } else {
                let panel: f64 = GAUSS_8
                    .iter()
                    .map(|&(node, weight)| {
                        let values =
                            [middle - half * node, middle + half * node].map(|z| self.log_integrand(z));
                        weight * (exp(values[0] - scale) + exp(values[1] - scale))
                    })
                    .sum();
                sum += half * panel;
            }
            z += 2.0 * half;
        }
        let inside = scale + log(sum) + QUADRATURE_ERROR * (1.0 + scale.abs());
        log_add(inside, self.log_tails(low, z))
    }

    /// log of a bound on what lies outside [low, high].
    fn log_tails(&self, low: f64, high: f64) -> f64 {
        let (q, k) = (self.mixture.rate, self.mixture.shift);
        let order = self.powers.0;
        // B >= 1 - q everywhere and B >= 1 left of -k/2, so B^(1-a) is at most (1-q)^(1-a) and 1 there.
        let log_b = if self.mixture.two_sided { self.powers.1 * log1p(-q) } else { 0.0 };
        let left = if low > self.from { log_normal_cdf(low) } else { f64::NEG_INFINITY };
        let right = if order > 1.0 {
            // A^a <= (1-q) + q E^a, and int phi E^a = e^{(a^2-a) k^2/2} N(ak, 1).
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
