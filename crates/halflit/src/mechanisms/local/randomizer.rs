//! One person's vector becomes one message: the randomizer, its constants and its exact privacy loss.

use super::LocalError;
use super::cap::{CapLaw, cap_mass, cap_moment};
use halflit_noise::{FractionBits, Law, Probability, Stream};
use serde::{Deserialize, Serialize};

/// Which randomizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A half-sphere: Duchi, Jordan and Wainwright 2013.
    Duchi,
    /// The cap of least variance: Bhowmick et al. 2018; Asi, Feldman and Talwar 2022.
    Privunit,
}

impl Kind {
    /// Its name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Duchi => "duchi",
            Kind::Privunit => "privunit",
        }
    }
}

/// The largest dimension.
pub const MOST_DIMENSIONS: usize = 10_000_000;
/// The range of epsilons: below, rounding is no longer small beside epsilon; above, there is nothing to protect.
pub const EPSILONS: (f64, f64) = (1e-6, 200.0);

/// The incomplete beta function is within 1e-12 of sixty-digit values (tests of `halflit-privacy`, and of this folder for caps in
/// up to a million dimensions and for caps as thin as large epsilons want them); the privacy loss is computed for a cap smaller by this share.
const MASS_SLACK: f64 = 1e-11;
/// Denominator of the coin.
const COIN: u64 = 1 << 63;

/// An epsilon-locally private, unbiased map of the unit ball to a sphere.
#[derive(Clone, Debug, PartialEq)]
pub struct Randomizer {
    kind: Kind,
    epsilon: f64,
    dimension: usize,
    gamma: f64,
    outside: u64,
    radius: f64,
    cap: CapLaw,
}

impl Randomizer {
    /// The randomizer of this kind; for `privunit` the cap and the coin that minimise the variance within epsilon.
    ///
    /// # Errors
    /// A dimension of 0 or above [`MOST_DIMENSIONS`], an epsilon outside [`EPSILONS`].
    pub fn new(kind: Kind, dimension: usize, epsilon: f64) -> Result<Self, LocalError> {
        if !(1..=MOST_DIMENSIONS).contains(&dimension) {
            return Err(LocalError::Dimension { dimension });
        }
        if !(EPSILONS.0..=EPSILONS.1).contains(&epsilon) {
            return Err(LocalError::Epsilon { epsilon });
        }
        let gamma = match kind {
            Kind::Duchi => 0.0,
            Kind::Privunit => best_cap(dimension, epsilon),
        };
        let cap = CapLaw::new(dimension, gamma);
        let outside = fewest_outside(dimension, gamma, epsilon);
        let radius = 1.0 / agreement(dimension, gamma, outside);
        Ok(Randomizer { kind, epsilon, dimension, gamma, outside, radius, cap })
    }

    /// Which randomizer.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// What one message costs the person it is about.
    pub fn epsilon(&self) -> f64 {
        self.epsilon
    }

    /// Coordinates of a vector.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// The cap is where a direction's inner product with the vector is at least this.
    pub fn gamma(&self) -> f64 {
        self.gamma
    }

    /// The probability that a message points into the cap, as a numerator over 2^63.
    pub fn inside_numerator(&self) -> u64 {
        COIN - self.outside
    }

    /// The length of every message.
    pub fn radius(&self) -> f64 {
        self.radius
    }

    /// The expected squared distance of a message from a vector of this norm: exact, because the length of a message is fixed.
    pub fn squared_error(&self, norm: f64) -> f64 {
        self.radius * self.radius - norm * norm
    }

    /// The largest log-ratio of two messages' densities, rounded up: at most epsilon.
    pub fn privacy_loss(&self) -> f64 {
        privacy_loss(self.dimension, self.gamma, self.outside)
    }

    /// Randomizes one vector. What is longer than 1 is shortened to 1 first.
    ///
    /// For the person's own device: an error here says something about the vector, so it must not be sent on.
    ///
    /// # Errors
    /// A vector of another length, or with a coordinate that is no number.
    pub fn randomize(&self, stream: &mut Stream, vector: &[f64]) -> Result<Vec<f64>, LocalError> {
        if vector.len() != self.dimension {
            return Err(LocalError::WrongLength { given: vector.len(), planned: self.dimension });
        }
        if let Some(coordinate) = vector.iter().position(|x| !x.is_finite()) {
            return Err(LocalError::NotFinite { coordinate });
        }
        let (mut direction, norm) = polar(vector);

        // 1. A sign whose mean is the norm: E[sign * direction] = vector. Any law of the sign keeps the promise, see proof.md.
        let agrees = Probability::at_most((0.5 + 0.5 * norm).min(1.0))?;
        if !stream.bernoulli(agrees) {
            direction.iter_mut().for_each(|x| *x = -*x);
        }
        // 2. The coin on which privacy rests, thrown exactly.
        let inside = Probability::new(self.inside_numerator(), COIN)?;
        let t = if stream.bernoulli(inside) { self.cap.inside(stream) } else { self.cap.outside(stream) };
        // 3. A uniform direction among those at inner product t.
        self.around(stream, direction, t)
    }

    /// radius * (t v + sqrt(1 - t^2) h), h a uniform unit vector orthogonal to v.
    fn around(&self, stream: &mut Stream, direction: Vec<f64>, t: f64) -> Result<Vec<f64>, LocalError> {
        let mut message = direction;
        if self.dimension == 1 {
            message[0] *= t * self.radius;
            return Ok(message);
        }
        let mut normals = vec![0; self.dimension];
        loop {
            stream.fill_rounded(Law::Normal, FractionBits::MOST, &mut normals);
            let along: f64 = normals.iter().zip(&message).map(|(&z, v)| z as f64 * v).sum();
            let rest = |(&z, v): (&i64, &f64)| z as f64 - along * v;
            let squared: f64 = normals.iter().zip(&message).map(|pair| rest(pair).powi(2)).sum();
            // Zero has probability zero in the ideal; draw again.
            if squared > 0.0 {
                let across = self.radius * ((1.0 - t) * (1.0 + t)).max(0.0).sqrt() / squared.sqrt();
                let forward = self.radius * t;
                for (v, &z) in message.iter_mut().zip(&normals) {
                    *v = forward * *v + across * (z as f64 - along * *v);
                }
                // A normal vector almost along v leaves a rest of few digits: put the length right.
                let length = message.iter().map(|x| x * x).sum::<f64>().sqrt();
                message.iter_mut().for_each(|x| *x *= self.radius / length);
                return Ok(message);
            }
        }
    }
}

/// Direction and norm, the norm at most 1. The zero vector gets the first axis: its sign is then a fair coin, so its mean is zero.
fn polar(vector: &[f64]) -> (Vec<f64>, f64) {
    let largest = vector.iter().fold(0.0f64, |largest, x| largest.max(x.abs()));
    if !(largest > 0.0) {
        let mut axis = vec![0.0; vector.len()];
        axis[0] = 1.0;
        return (axis, 0.0);
    }
    // Dividing by the largest coordinate keeps squares away from zero and infinity.
    let scaled: Vec<f64> = vector.iter().map(|x| x / largest).collect();
    let length = scaled.iter().map(|x| x * x).sum::<f64>().sqrt();
    (scaled.iter().map(|x| x / length).collect(), (largest * length).min(1.0))
}

/// The gamma of least variance: the one with E<message direction, v> = gamma (proof.md, section 4).
fn best_cap(dimension: usize, epsilon: f64) -> f64 {
    let gain = epsilon.exp_m1();
    // m(gamma) rises while m > gamma and falls after: the crossing is the maximum.
    let mean = |gamma: f64| cap_moment(dimension, gamma) * gain / (1.0 + gain * cap_mass(dimension, gamma));
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if mean(middle) > middle { low = middle } else { high = middle }
    }
    // A multiple of 2^-52 below 1: then (1 - gamma)/2 is exact, and the cap whose mass is computed is the cap that is drawn from.
    let steps = (1u64 << 52) as f64;
    ((low * steps).floor() / steps).min(1.0 - 1.0 / steps)
}

/// E<message direction, v> for a unit vector v: m = F (p/c - (1 - p)/(1 - c)).
pub(super) fn agreement(dimension: usize, gamma: f64, outside: u64) -> f64 {
    let mass = cap_mass(dimension, gamma);
    let (inside, outside) = shares(outside);
    cap_moment(dimension, gamma) * (inside / mass - outside / (1.0 - mass))
}

/// The smallest probability outside the cap (over 2^63) that keeps the privacy loss within epsilon.
fn fewest_outside(dimension: usize, gamma: f64, epsilon: f64) -> u64 {
    let mass = least_mass(dimension, gamma);
    let odds = (epsilon + mass.ln() - (-mass).ln_1p()).exp();
    let mut outside = ((COIN as f64 / (1.0 + odds)).ceil() as u64).clamp(1, COIN - 1);
    while privacy_loss(dimension, gamma, outside) > epsilon && outside < COIN / 2 {
        outside += 1 + (outside >> 44);
    }
    outside
}

/// ln[p (1 - c) / ((1 - p) c)], rounded up.
pub(super) fn privacy_loss(dimension: usize, gamma: f64, outside: u64) -> f64 {
    let mass = least_mass(dimension, gamma);
    let (inside, outside) = shares(outside);
    // The ratio falls with c, so the smaller mass bounds it from above.
    let coin = inside.ln() - outside.ln();
    let cap = mass.ln() - (-mass).ln_1p();
    // Logarithms err by less than 2 units in the last place, the shares by one.
    coin - cap + 1e-15 * (4.0 + 4.0 * coin.abs() + 4.0 * cap.abs())
}

/// The cap's mass, rounded down; a half-sphere's is exact.
fn least_mass(dimension: usize, gamma: f64) -> f64 {
    let mass = cap_mass(dimension, gamma);
    if dimension == 1 || gamma == 0.0 { mass } else { mass * (1.0 - MASS_SLACK) }
}

/// Probabilities inside and outside the cap.
fn shares(outside: u64) -> (f64, f64) {
    (COIN.saturating_sub(outside) as f64 / COIN as f64, outside as f64 / COIN as f64)
}
