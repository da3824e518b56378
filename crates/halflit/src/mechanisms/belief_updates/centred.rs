//! The practical sibling, belief-centred gradient: every step asks the table, and every answer teaches the beliefs.

use super::answerer::{Secret, noisy_difference};
use super::gradient::PublicParts;
use super::noise::AnswerNoise;
use super::optimizer::{Optimizer, Solution};
use crate::mechanisms::noisy_gradient::remove_common_part;
use crate::mechanisms::sensitive_domain::SensitiveDomain;
use crate::mechanisms::{MechanismError, Watch};
use halflit_convex::Loss;
use halflit_convex::kernel::{BeliefQuery, BeliefUpdate, Beliefs};
use halflit_noise::Stream;
use serde::{Deserialize, Serialize};

/// How releases are used. All of it is public and fixed before the run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Centring {
    /// The share of a noisy difference between table and belief that enters the gradient: 1 trusts the release, 0 the beliefs.
    pub trust: f64,
    /// eta: how fast beliefs change; 0 leaves them alone.
    pub rate: f64,
    /// c: where the exponent of an update is cut off.
    pub truncation: f64,
    /// G: what the norms of gradients are measured in.
    pub vector_bound: f64,
}

impl Centring {
    pub(super) fn check(&self) -> Result<(), MechanismError> {
        let positive =
            [("truncation of the belief updates", self.truncation), ("vector bound", self.vector_bound)];
        if let Some((name, value)) =
            positive.into_iter().find(|(_, value)| !(value.is_finite() && *value > 0.0))
        {
            return Err(MechanismError::not_positive(name, value));
        }
        if !(self.trust > 0.0 && self.trust <= 1.0) {
            return Err(MechanismError::not_positive("trust in a release (at most 1)", self.trust));
        }
        if self.rate.is_finite() && self.rate >= 0.0 {
            Ok(())
        } else {
            Err(MechanismError::not_positive("rate of the belief updates", self.rate))
        }
    }
}

/// One run's fixed ingredients.
pub(super) struct CentredRun<'a> {
    pub parts: &'a PublicParts<'a>,
    pub domain: &'a SensitiveDomain,
    pub loss: Loss,
    pub lambda: f64,
    pub radius: Option<f64>,
    pub optimizer: Optimizer,
    pub centring: Centring,
    pub noise: AnswerNoise,
}

impl CentredRun<'_> {
    /// All steps, numbered as in `proof.md`, section "Belief-centred gradient".
    pub fn run(
        &self,
        dimension: usize,
        secret: &Secret,
        stream: &mut Stream,
        watch: &mut dyn Watch,
    ) -> Result<Solution, MechanismError> {
        self.centring.check()?;
        let believed = self.parts.believed_rows(self.domain)?;
        let rows = believed.len();
        let mut beliefs = Beliefs::uniform(rows, self.domain.len());
        let steps = self.optimizer.steps();
        self.optimizer.run(dimension, self.radius, |step, weights| {
            if watch.progress(step, steps).is_break() {
                return Err(MechanismError::Interrupted);
            }
            // 1. One pass.
            let query = believed.gradient(self.loss, weights)?;
            let sums = query.sums(&beliefs, &secret.0)?;
            let scale = query.unit() / rows.max(1) as f64;
            let mut mean: Vec<f64> = sums.believed.iter().map(|&sum| sum as f64 * scale).collect();
            if sums.diameter() > 0 {
                // 2. The noisy difference: the step's only release.
                let mut difference = noisy_difference(&self.noise, stream, &sums, scale)?;
                remove_common_part(&mut difference, self.loss.outputs());
                // 3. Post-processing: the gradient, and the beliefs.
                for (mean, difference) in mean.iter_mut().zip(&difference) {
                    *mean += self.centring.trust * difference;
                }
                if self.centring.rate > 0.0 {
                    let noise_std = scale * sums.diameter() as f64 / self.noise.mu();
                    let size = self.centring.vector_bound * size(&difference, noise_std);
                    let Centring { rate, truncation, .. } = self.centring;
                    query.update(
                        &mut beliefs,
                        &BeliefUpdate { direction: difference, rate, size, truncation },
                    )?;
                }
            }
            self.parts.objective(self.loss, self.lambda, weights, &mean).map(Some)
        })
    }
}

/// An estimate of the difference's norm without its noise, at least the noise of one coordinate: a function of the release.
fn size(difference: &[f64], noise_std: f64) -> f64 {
    let square: f64 = difference.iter().map(|value| value * value).sum();
    (square - difference.len() as f64 * noise_std * noise_std).max(noise_std * noise_std).sqrt()
}
