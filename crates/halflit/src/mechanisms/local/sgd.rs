//! Semi-LDP-SGD (Lowy et al. 2024, Algorithm 4): one pass in random order, private gradients through a randomizer, public ones raw.

use super::LocalError;
use super::randomizer::Randomizer;
use halflit_noise::{NoiseError, Stream};

/// Whose gradient is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Person {
    /// A private row: its gradient stays on its owner's device and leaves it randomized.
    Private(usize),
    /// A public row.
    Public(usize),
}

/// How steps are taken and iterates averaged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Curvature {
    /// Convex losses: constant steps, the plain average.
    Convex,
    /// Losses that are strongly convex with this modulus: steps 2/(mu (t + 1)), iterate t weighs t (Lacoste-Julien, Schmidt and Bach 2012).
    StronglyConvex {
        /// mu
        modulus: f64,
    },
}

/// What a pass is asked to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Pass {
    /// Number of private rows.
    pub private: usize,
    /// Number of public rows.
    pub public: usize,
    /// L: private gradients longer than this are shortened to it.
    pub clip_norm: f64,
    /// D/2: weights stay in the ball of this radius around zero.
    pub radius: f64,
    /// How steps are taken.
    pub curvature: Curvature,
}

impl Pass {
    /// D / sqrt(n_priv b^2 + n_pub L^2), b = L * the randomizer's radius: the steps that balance distance against noise.
    pub fn step_size(&self, randomizer: &Randomizer) -> f64 {
        let noisy = self.clip_norm * randomizer.radius();
        let squares =
            self.private as f64 * noisy * noisy + self.public as f64 * self.clip_norm * self.clip_norm;
        2.0 * self.radius / squares.sqrt()
    }

    /// Runs one pass from zero. `gradient(person, weights, out)` fills in the loss gradient of one row.
    ///
    /// Each private row is asked once, and what comes back is epsilon-locally private whatever was asked: the whole pass is epsilon-DP
    /// for every private row. Gradients that are no numbers count as zero.
    ///
    /// # Errors
    /// Settings that are not positive, no rows, or more than 2^32 of them.
    pub fn run(
        &self,
        randomizer: &Randomizer,
        stream: &mut Stream,
        mut gradient: impl FnMut(Person, &[f64], &mut [f64]),
    ) -> Result<Vec<f64>, LocalError> {
        self.check()?;
        let rows = u32::try_from(self.private + self.public)
            .ok()
            .filter(|&rows| rows > 0)
            .ok_or(LocalError::Rows { rows: self.private + self.public })?;
        let width = randomizer.dimension();
        let constant_step = self.step_size(randomizer);
        let (mut weights, mut average, mut total) = (vec![0.0; width], vec![0.0; width], 0.0);
        let mut raw = vec![0.0; width];
        for (step, &place) in stream.permutation(rows).iter().enumerate() {
            let place = place as usize;
            let person = if place < self.private {
                Person::Private(place)
            } else {
                Person::Public(place - self.private)
            };
            raw.fill(0.0);
            gradient(person, &weights, &mut raw);
            raw.iter_mut().filter(|x| !x.is_finite()).for_each(|x| *x = 0.0);
            let direction = match person {
                Person::Private(_) => {
                    // clip_L, then the unit ball.
                    raw.iter_mut().for_each(|x| *x = (*x / self.clip_norm).clamp(-f64::MAX, f64::MAX));
                    let mut message = randomizer.randomize(stream, &raw)?;
                    message.iter_mut().for_each(|x| *x *= self.clip_norm);
                    message
                }
                Person::Public(_) => raw.clone(),
            };
            let time = step as f64 + 1.0;
            let (length, share) = match self.curvature {
                Curvature::Convex => (constant_step, 1.0),
                Curvature::StronglyConvex { modulus } => (2.0 / (modulus * (time + 1.0)), time),
            };
            for (weight, along) in weights.iter_mut().zip(&direction) {
                *weight -= length * along;
            }
            project(&mut weights, self.radius);
            for (mean, weight) in average.iter_mut().zip(&weights) {
                *mean += share * weight;
            }
            total += share;
        }
        average.iter_mut().for_each(|sum| *sum /= total);
        Ok(average)
    }

    fn check(&self) -> Result<(), LocalError> {
        let modulus = match self.curvature {
            Curvature::Convex => 1.0,
            Curvature::StronglyConvex { modulus } => modulus,
        };
        let settings =
            [("the clip norm", self.clip_norm), ("the radius", self.radius), ("the modulus", modulus)];
        match settings.into_iter().find(|(_, value)| !(value.is_finite() && *value > 0.0)) {
            Some((name, value)) => Err(LocalError::NotPositive { name, value }),
            None => Ok(()),
        }
    }
}

fn project(weights: &mut [f64], radius: f64) {
    let norm = weights.iter().map(|x| x * x).sum::<f64>().sqrt();
    if norm > radius {
        weights.iter_mut().for_each(|x| *x *= radius / norm);
    }
}

impl From<NoiseError> for LocalError {
    fn from(error: NoiseError) -> Self {
        LocalError::Noise(error)
    }
}
