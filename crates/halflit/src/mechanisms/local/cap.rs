//! The law of t = <u, v> for u uniform on the unit sphere, inside a cap t >= gamma and outside it.
//!
//! The density of t is proportional to (1 - t^2)^((d-3)/2). In up to four dimensions t comes from the inverse of its distribution function (an
//! incomplete beta function); from five on, where the density is log-concave and such inverses are slow, from a rejection step whose
//! acceptance does not fall with the cap's mass: caps of mass 1e-80 cost as little as half-spheres.

use halflit_noise::{FractionBits, Law, Stream};
use halflit_privacy::special::{incomplete_beta, inverse_incomplete_beta, log_gamma};
use std::num::NonZeroU64;

/// Up to here the distribution function is inverted.
const INVERTED_DIMENSIONS: usize = 4;
/// Fraction bits of the draws: the finest there are.
const BITS: FractionBits = FractionBits::MOST;

/// The law of t on both sides of gamma.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CapLaw {
    dimension: usize,
    gamma: f64,
    /// The probability that t >= gamma.
    mass: f64,
    /// (d - 3)/2
    power: f64,
    /// Where the exponential envelope of the cap touches the density.
    touch: f64,
    /// Decay rate of that envelope.
    rate: f64,
}

impl CapLaw {
    pub(super) fn new(dimension: usize, gamma: f64) -> Self {
        let power = (dimension as f64 - 3.0) / 2.0;
        let rate_at = |s: f64| 2.0 * power * s / ((1.0 - s) * (1.0 + s));
        // log f is concave, so every tangent lies above it; on [gamma, inf) the tangent at s has the least mass where s - gamma = 1/rate(s).
        let (mut low, mut high) = (gamma, 1.0);
        for _ in 0..80 {
            let middle = 0.5 * (low + high);
            if (middle - gamma) * rate_at(middle) < 1.0 { low = middle } else { high = middle }
        }
        let touch = 0.5 * (low + high);
        CapLaw { dimension, gamma, mass: cap_mass(dimension, gamma), power, touch, rate: rate_at(touch) }
    }

    /// t given t >= gamma.
    pub(super) fn inside(&self, stream: &mut Stream) -> f64 {
        match self.dimension {
            1 => 1.0,
            2..=INVERTED_DIMENSIONS => self.inverse(uniform(stream) * self.mass).max(self.gamma),
            _ => loop {
                let [step, patience] = exponentials(stream);
                let t = self.gamma + step / self.rate;
                // f(t) / envelope(t) = ((1 - t^2)/(1 - s^2))^power e^(rate (t - s)) <= 1
                let ratio = ((1.0 - t) * (1.0 + t)) / ((1.0 - self.touch) * (1.0 + self.touch));
                if t < 1.0 && patience >= -(self.power * ratio.ln() + self.rate * (t - self.touch)) {
                    break t;
                }
            },
        }
    }

    /// t given t < gamma.
    pub(super) fn outside(&self, stream: &mut Stream) -> f64 {
        match self.dimension {
            1 => -1.0,
            2..=INVERTED_DIMENSIONS => {
                self.inverse(self.mass + uniform(stream) * (1.0 - self.mass)).min(self.gamma)
            }
            _ => loop {
                // (1 - t^2)^power <= e^(-power t^2): a normal of variance 1/(2 power) is above.
                let t = normal(stream) / (2.0 * self.power).sqrt();
                let patience = exponentials(stream)[0];
                let square = t * t;
                if t < self.gamma && square < 1.0 && patience >= -self.power * ((-square).ln_1p() + square) {
                    break t;
                }
            },
        }
    }

    /// The t that a uniform direction exceeds with this probability: (1 - t)/2 has law Beta((d-1)/2, (d-1)/2).
    fn inverse(&self, probability: f64) -> f64 {
        let alpha = (self.dimension as f64 - 1.0) / 2.0;
        1.0 - 2.0 * inverse_incomplete_beta(alpha, alpha, probability)
    }
}

/// P(t >= gamma) for gamma >= 0. In one dimension the sphere is two points.
pub(super) fn cap_mass(dimension: usize, gamma: f64) -> f64 {
    if dimension == 1 || gamma == 0.0 {
        return 0.5;
    }
    let alpha = (dimension as f64 - 1.0) / 2.0;
    incomplete_beta(alpha, alpha, (1.0 - gamma) / 2.0)
}

/// E[t; t >= gamma] for gamma >= 0: (1 - gamma^2)^((d-1)/2) E|t| / 2.
pub(super) fn cap_moment(dimension: usize, gamma: f64) -> f64 {
    let alpha = (dimension as f64 - 1.0) / 2.0;
    // log(1 - gamma^2), accurate at both ends.
    let log = if gamma < 0.5 { (-gamma * gamma).ln_1p() } else { ((1.0 - gamma) * (1.0 + gamma)).ln() };
    let shrink = if dimension == 1 { 1.0 } else { (alpha * log).exp() };
    0.5 * shrink * mean_abs(dimension)
}

/// E|t| = Gamma(d/2) / (sqrt(pi) Gamma((d+1)/2)).
fn mean_abs(dimension: usize) -> f64 {
    let x = dimension as f64 / 2.0;
    let ratio = if x < 100.0 {
        (log_gamma(x + 0.5) - log_gamma(x)).exp()
    } else {
        // Gamma(x + 1/2)/Gamma(x) in powers of 1/x; the first term left out is below 1e-14 of the sum.
        let y = 1.0 / x;
        x.sqrt() * (1.0 - y / 8.0 + y * y / 128.0 + 5.0 * y.powi(3) / 1024.0 - 21.0 * y.powi(4) / 32768.0)
    };
    1.0 / (std::f64::consts::PI.sqrt() * ratio)
}

/// Two exponentials.
fn exponentials(stream: &mut Stream) -> [f64; 2] {
    let mut draws = [0; 2];
    stream.fill_rounded(Law::Exponential, BITS, &mut draws);
    draws.map(|draw| draw as f64 / BITS.scale())
}

fn normal(stream: &mut Stream) -> f64 {
    stream.rounded(Law::Normal, BITS) as f64 / BITS.scale()
}

/// The middle of one of 2^53 equal parts of [0, 1].
fn uniform(stream: &mut Stream) -> f64 {
    const PARTS: NonZeroU64 = NonZeroU64::new(1 << 53).expect("not zero");
    (stream.uniform_below(PARTS) as f64 + 0.5) / PARTS.get() as f64
}
