//! Pairs of normal mixtures in one dimension: every sampled Gaussian mechanism reduces to one of them.
//!
//! Legend: q rate, k shift (sensitivity over noise std), z the outcome in units of the noise std,
//! E(z) = exp(kz - k^2/2) the likelihood ratio of N(k,1) to N(0,1), u the unit roundoff.
//!
//! | kind | P | Q |
//! |---|---|---|
//! | one-sided | (1-q) N(0,1) + q N(k,1) | N(0,1) |
//! | two-sided | (1-q) N(0,1) + q N(k,1) | (1-q) N(0,1) + q N(-k,1) |
//!
//! The likelihood ratio increases in z, so the set where the loss exceeds eps is a half-line [z(eps), inf), and
//!
//! - dP/dN - e^eps dQ/dN = q [E(z) - E(z(eps))], plus q e^eps [E(-z(eps)) - E(-z)] for two-sided pairs,
//!
//! which is zero at z(eps): every hockey-stick divergence is a sum of positive terms, without cancellation.

use super::fft::UNIT_ROUNDOFF;
use crate::special::{log_normal_cdf, mills_difference, mills_ratio, normal_cdf, normal_density};
use libm::{asinh, exp, expm1, log, log1p, sinh};

/// One of the two kinds of pairs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mixture {
    /// Probability of the shifted component.
    pub rate: f64,
    /// Distance of the shifted component from the centre, in noise standard deviations.
    pub shift: f64,
    /// Whether Q has a component of its own, on the other side.
    pub two_sided: bool,
}

impl Mixture {
    /// log(1 - q + q e^y) without cancellation or overflow.
    fn log_mixed(&self, y: f64) -> f64 {
        let q = self.rate;
        if q == 1.0 {
            return y;
        }
        if y > 30.0 {
            // q e^y dominates: log q + y + log(1 + (1-q)/q e^-y)
            return log(q) + y + log1p((1.0 - q) / q * exp(-y));
        }
        let moved = q * expm1(y);
        if moved > -0.5 { log1p(moved) } else { log((1.0 - q) + q * exp(y)) }
    }

    /// The privacy loss log dP/dQ at outcome z.
    pub fn loss(&self, z: f64) -> f64 {
        let half_square = 0.5 * self.shift * self.shift;
        let forward = self.log_mixed(self.shift * z - half_square);
        if self.two_sided { forward - self.log_mixed(-self.shift * z - half_square) } else { forward }
    }

    /// Log densities of P and of Q's own component relative to N(0, 1): log A(z) and log B(z), B as if two-sided.
    pub fn log_densities(&self, z: f64) -> (f64, f64) {
        let half_square = 0.5 * self.shift * self.shift;
        (self.log_mixed(self.shift * z - half_square), self.log_mixed(-self.shift * z - half_square))
    }

    /// The smallest possible loss: log(1 - q) for one-sided pairs.
    pub fn infimum(&self) -> f64 {
        if self.two_sided { f64::NEG_INFINITY } else { log1p(-self.rate) }
    }

    /// The z at which the loss is eps; -inf at or below the infimum.
    pub fn threshold(&self, eps: f64) -> f64 {
        let (q, k) = (self.rate, self.shift);
        if self.two_sided {
            // sinh(kz - eps/2) = (1-q)/q e^{k^2/2} sinh(eps/2)
            let odds = (1.0 - q) / q;
            let log_size = log(odds) + 0.5 * k * k + 0.5 * eps.abs();
            let offset = if log_size > 600.0 {
                // log(2x) of the argument x of asinh, by sinh(a) = e^a (1 - e^-2a)/2; asinh(x) = log(2x) + O(x^-2)
                let log_twice = log_size + log(-expm1(-eps.abs()));
                let size = if log_twice > 40.0 { log_twice } else { asinh(0.5 * exp(log_twice)) };
                size.copysign(eps)
            } else {
                asinh(odds * exp(0.5 * k * k) * sinh(0.5 * eps))
            };
            return (0.5 * eps + offset) / k;
        }
        // kz = k^2/2 + log((e^eps - (1-q))/q)
        let log_excess = if q == 1.0 {
            eps
        } else if eps > 1.0 {
            eps + log1p(-(1.0 - q) * exp(-eps)) - log(q)
        } else if eps < -0.5 {
            log((exp(eps) - (1.0 - q)) / q)
        } else {
            let ratio = expm1(eps) / q;
            if ratio > -0.5 { log1p(ratio) } else { log((expm1(eps) + q) / q) }
        };
        if log_excess.is_nan() { f64::NEG_INFINITY } else { (0.5 * k * k + log_excess) / k }
    }

    /// d loss / d(kz) at z: the posterior probability of the shifted component, summed over both sides.
    fn slope(&self, z: f64) -> f64 {
        let half_square = 0.5 * self.shift * self.shift;
        let posterior = |y: f64| {
            // exp may overflow; times zero it must not become NaN.
            if self.rate == 1.0 { 1.0 } else { self.rate / (self.rate + (1.0 - self.rate) * exp(-y)) }
        };
        let forward = posterior(self.shift * z - half_square);
        if self.two_sided { forward + posterior(-self.shift * z - half_square) } else { forward }
    }

    /// How far the loss at [`threshold`](Self::threshold)`(eps)` may be from eps, and the slope there.
    ///
    /// The error of the threshold, pushed through the slope, is bounded term by term in `proof.md`, section 3.2.
    pub fn loss_error(&self, eps: f64, z: f64) -> (f64, f64) {
        let (k, slope) = (self.shift, self.slope(z));
        let log_rate = if eps > 1.0 { -log(self.rate) } else { 0.0 };
        let argument_error = (k * z).abs() + k * k + log_rate;
        (8.0 * UNIT_ROUNDOFF * (slope * argument_error + expm1(-eps).abs().min(2.0) + eps.abs()), slope)
    }

    /// A z whose loss is surely at most eps, and how far below eps its loss can be.
    pub fn threshold_below(&self, eps: f64) -> (f64, f64) {
        let z = self.threshold(eps);
        if z == f64::NEG_INFINITY {
            return (z, 0.0);
        }
        let (error, slope) = self.loss_error(eps, z);
        (z - error / (slope.max(1e-280) * self.shift), 2.0 * error)
    }

    /// delta(eps) = H_{e^eps}(P || Q), for any real eps.
    pub fn delta(&self, eps: f64) -> f64 {
        let (q, k) = (self.rate, self.shift);
        let z = self.threshold(eps);
        if z == f64::NEG_INFINITY {
            // Every outcome has a larger loss.
            return -expm1(eps);
        }
        if !self.two_sided {
            return q * tail_gap(z, k);
        }
        // e^eps phi(z + k) = exp(eps - 2kz) phi(z - k)
        let mirrored = exp(eps - 0.5 * (z + k) * (z + k)) / (2.0 * std::f64::consts::PI).sqrt();
        q * (tail_gap(z, k) + mirrored * mills_difference(z, k))
    }

    /// The same in the other direction: H_{e^eps}(Q || P).
    pub fn delta_reversed(&self, eps: f64) -> f64 {
        if self.two_sided {
            // z -> -z exchanges P and Q.
            return self.delta(eps);
        }
        let (q, k) = (self.rate, self.shift);
        let z = self.threshold(-eps);
        if z == f64::NEG_INFINITY {
            return 0.0;
        }
        // Phi(z) - e^eps [(1-q) Phi(z) + q Phi(z-k)] = e^eps q [E(z) Phi(z) - Phi(z-k)]
        //                                            = e^eps q phi(z-k) [R(-z) - R(k-z)]
        if z > 5.0 {
            // R(-z) overflows far to the right; there E(z) Phi(z) <= 1 is far above Phi(z-k) and nothing cancels.
            return exp(eps) * q * (exp(k * z - 0.5 * k * k) * normal_cdf(z) - normal_cdf(z - k));
        }
        exp(eps) * q * normal_density(z - k) * mills_difference(-z, k)
    }

    /// P - e^eps Q of the half-line [z, inf), eps the loss at z.
    pub fn upper_excess(&self, z: f64) -> f64 {
        if self.two_sided { self.delta(self.loss(z)) } else { self.rate * tail_gap(z, self.shift) }
    }

    /// e^eps times the Q-mass of the half-line [z, inf), also where that mass is below every double.
    pub fn lifted_q_tail(&self, z: f64, eps: f64) -> f64 {
        let centre = exp(eps + log_normal_cdf(-z));
        if !self.two_sided {
            return centre;
        }
        (1.0 - self.rate) * centre + self.rate * exp(eps + log_normal_cdf(-z - self.shift))
    }

    /// P-mass and Q-mass of the half-line (-inf, z].
    pub fn lower_tail(&self, z: f64) -> (f64, f64) {
        let (q, k) = (self.rate, self.shift);
        let p_mass = (1.0 - q) * normal_cdf(z) + q * normal_cdf(z - k);
        let q_mass =
            if self.two_sided { (1.0 - q) * normal_cdf(z) + q * normal_cdf(z + k) } else { normal_cdf(z) };
        (p_mass, q_mass)
    }

    /// Densities of P and Q at z.
    pub fn densities(&self, z: f64) -> (f64, f64) {
        let (q, k) = (self.rate, self.shift);
        let centre = (1.0 - q) * normal_density(z);
        let p = centre + q * normal_density(z - k);
        (p, if self.two_sided { centre + q * normal_density(z + k) } else { normal_density(z) })
    }
}

/// Phi(-(z-k)) - E(z) Phi(-z) = phi(z-k) [R(z-k) - R(z)], the hockey-stick divergence of two normals.
fn tail_gap(z: f64, k: f64) -> f64 {
    let a = z - k;
    if a < -5.0 {
        // R(a) overflows far to the left; there the first tail is nearly one and nothing cancels:
        // E(z) Phi(-z) = phi(z-k) R(z)
        return normal_cdf(-a) - normal_density(a) * mills_ratio(z);
    }
    normal_density(a) * mills_difference(a, k)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cases() -> Vec<Mixture> {
        let mut cases = Vec::new();
        for rate in [1e-4, 0.01, 0.3, 0.999, 1.0] {
            for shift in [0.02, 0.5, 1.0, 3.3, 20.0] {
                for two_sided in [false, true] {
                    cases.push(Mixture { rate, shift, two_sided });
                }
            }
        }
        cases
    }

    #[test]
    fn the_threshold_inverts_the_loss() {
        for pair in cases() {
            for z in [-6.0, -2.0, -0.3, 0.0, 0.7, 3.0, 9.0, 25.0] {
                let eps = pair.loss(z);
                let back = pair.loss(pair.threshold(eps));
                assert!((back - eps).abs() <= 1e-12 * (1.0 + eps.abs()), "{pair:?} {z}: {eps} {back}");
                let (below, slack) = pair.threshold_below(eps);
                assert!(
                    below <= pair.threshold(eps) && slack < 1e-10 * (1.0 + eps.abs()),
                    "{pair:?} {z}: {slack:e}"
                );
            }
        }
    }

    /// The hockey-stick divergence by its definition: Simpson's rule on the half-line where the difference is positive.
    #[test]
    fn delta_agrees_with_integration() {
        let integral = |integrand: &dyn Fn(f64) -> f64, reach: f64| {
            let panels = 2000 * (2 + (reach - 14.0) as i32);
            let step = reach / f64::from(panels);
            let weight = |j: i32| if j == 0 || j == panels { 1.0 } else { f64::from(2 + 2 * (j % 2)) };
            (0..=panels).map(|j| weight(j) * integrand(step * f64::from(j))).sum::<f64>() * step / 3.0
        };
        for pair in cases() {
            for z0 in [-1.5, -0.2, 0.4, 1.7, 4.0] {
                let eps = pair.loss(z0);
                let reach = 14.0 + pair.shift;
                let difference = |z: f64| {
                    let (p, q) = pair.densities(z);
                    p - exp(eps) * q
                };
                let above = integral(&|t| difference(z0 + t), reach);
                // The reversed pair at -eps has the same kink: H_{e^-eps}(Q||P) = e^-eps times the part below.
                let below = -exp(-eps) * integral(&|t| difference(z0 - t), reach);
                let close =
                    |value: f64, reference: f64| (value - reference).abs() <= 1e-8 * reference + 1e-14;
                assert!(close(pair.delta(eps), above), "{pair:?} {eps}: {} {above}", pair.delta(eps));
                let reversed = pair.delta_reversed(-eps);
                assert!(close(reversed, below), "{pair:?} {eps}: {reversed} {below}");
            }
        }
    }

    /// Shifts at which e^{k^2/2} overflows: the loss is zero in the middle, and the threshold still inverts it.
    #[test]
    fn huge_shifts_have_thresholds() {
        for shift in [40.0, 100.0] {
            let pair = Mixture { rate: 1e-9, shift, two_sided: true };
            assert_eq!(pair.threshold(0.0), 0.0);
            assert!((pair.delta(0.0) - 1e-9).abs() < 1e-15);
            for eps in [1e-300, 1e-9, 0.5, 30.0] {
                let z = pair.threshold(eps);
                assert!(
                    (pair.loss(z) / eps - 1.0).abs() < 1e-6 || eps < 1e-8,
                    "{shift} {eps}: {z} {}",
                    pair.loss(z)
                );
            }
            let one_sided = Mixture { rate: 0.999, shift, two_sided: false };
            for eps in [0.0, 1.0, 6.0] {
                let delta = one_sided.delta_reversed(eps);
                assert!((0.0..=1.0).contains(&delta), "{shift} {eps}: {delta}");
            }
        }
    }

    #[test]
    fn tails_add_up() {
        for pair in cases() {
            for z in [-3.0, 0.0, 0.5, 2.0] {
                let lifted = pair.lifted_q_tail(z, pair.loss(z));
                let (p_below, q_below) = pair.lower_tail(z);
                let (p_above, q_above) = (pair.upper_excess(z) + lifted, lifted * exp(-pair.loss(z)));
                assert!((p_above + p_below - 1.0).abs() < 1e-12, "{pair:?} {z}");
                assert!((q_above + q_below - 1.0).abs() < 1e-12, "{pair:?} {z}");
            }
        }
    }
}
