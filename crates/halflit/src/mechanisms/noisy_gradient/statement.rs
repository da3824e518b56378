//! What a certificate says about the mechanism: enough for anyone to rebuild its event and check its numbers.

use super::Centre;
use crate::mechanisms::{Inconsistency, weights_belong_to};
use halflit_noise::Probability;
use halflit_privacy::{
    Change, Event, NoiseMultiplier, ParameterError, Relation, SamplingRate, SensitiveColumns,
};
use serde::{Deserialize, Serialize};
use std::num::NonZeroU64;

/// The facts of a noisy-gradient run that privacy depends on, and those needed to repeat it on the same data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    /// What was subtracted before the clamp.
    pub centre: Centre,
    /// How a unit may change; decides the sensitivity.
    pub change: Change,
    /// Number of releases.
    pub steps: u64,
    /// The exact probability that a unit takes part in a step; none for all units in every step.
    pub sampling_rate: Option<Rate>,
    /// Largest norm of a unit's hidden contribution.
    pub clip_norm: f64,
    /// k: the noise is round(2^k Z) lattice units.
    pub lattice_bits: u32,
    /// B: the clip norm in lattice units, enforced in integers.
    pub lattice_radius: u64,
    /// What was priced: at most 2^k / B.
    pub noise_multiplier: f64,
    /// Noise standard deviation of each coordinate of the gradient sum.
    pub noise_std: f64,
    /// Number of protected units, a public constant.
    pub units: u64,
    /// What gradient sums are divided by, a public constant.
    pub total_weight: f64,
    /// Length of a descent step.
    pub step_size: f64,
    /// Share of the velocity that survives a step.
    pub momentum: f64,
    /// The l2 penalty.
    pub regularization: f64,
    /// Radius of the ball that the weights stay in, if declared.
    pub radius: Option<f64>,
}

/// An exact sampling rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    /// Above the line.
    pub numerator: u64,
    /// Below the line.
    pub denominator: u64,
}

impl Rate {
    pub(super) fn of(rate: Probability) -> Self {
        Rate { numerator: rate.ratio().numerator(), denominator: rate.ratio().denominator().get() }
    }

    /// What the accountant is told: not below the exact rate.
    pub(super) fn rounded_up(self) -> Result<SamplingRate, ParameterError> {
        SamplingRate::at_least(self.numerator, self.denominator)
    }
}

impl Statement {
    /// The event that this run was.
    pub fn event(&self) -> Result<Event, ParameterError> {
        let rate = self.sampling_rate.map(Rate::rounded_up).transpose()?;
        one_step(rate, NoiseMultiplier::new(self.noise_multiplier)?, self.change).repeated(self.steps)
    }

    /// Checks that the numbers belong together.
    pub fn check(&self) -> Result<(), Inconsistency> {
        if !(16..=44).contains(&self.lattice_bits) || self.lattice_radius == 0 {
            return Err(Inconsistency::new("lattice", "16 to 44 fraction bits and a radius of at least 1"));
        }
        // s B <= 2^k: both factors are rounded up by one step, so an honest product never fails by rounding alone.
        let scale = (1u64 << self.lattice_bits) as f64;
        let honest = (self.noise_multiplier.next_down() * (self.lattice_radius as f64).next_down()) <= scale;
        // And not much less: it is that quotient, rounded down.
        let is_quotient = self.noise_multiplier * self.lattice_radius as f64 >= scale * (1.0 - 1e-9);
        if !(self.noise_multiplier.is_finite() && honest && is_quotient) {
            return Err(Inconsistency::new("noise_multiplier", "2^lattice_bits / lattice_radius"));
        }
        let expected = self.clip_norm * self.noise_multiplier;
        // B is a whole number, so the real noise is up to one part in B above clip norm times multiplier.
        let slack = 1.0 / self.lattice_radius as f64 + 1e-9;
        if !((self.noise_std / expected - 1.0).abs() <= slack) {
            return Err(Inconsistency::new("noise_std", "clip_norm times noise_multiplier"));
        }
        if !(self.total_weight.is_finite() && self.total_weight >= self.units as f64) {
            return Err(Inconsistency::new("total_weight", "at least the number of units"));
        }
        if self.units == 0 {
            return Err(Inconsistency::new("units", "at least 1"));
        }
        let is_positive = |value: f64| value.is_finite() && value > 0.0;
        if !is_positive(self.step_size) || !(0.0..1.0).contains(&self.momentum) {
            return Err(Inconsistency::new("step_size", "above 0, with a momentum from 0 to below 1"));
        }
        if !(self.regularization.is_finite() && self.regularization >= 0.0) {
            return Err(Inconsistency::new("regularization", "a finite number of at least 0"));
        }
        if !self.radius.is_none_or(is_positive) {
            return Err(Inconsistency::new("radius", "a finite number above 0, or absent"));
        }
        Ok(())
    }

    /// Checks that a run under this relation can have been like this.
    pub fn belongs_to(&self, relation: &Relation) -> Result<(), Inconsistency> {
        if self.centre == Centre::Midrange && *relation.sensitive() == SensitiveColumns::All {
            return Err(Inconsistency::new("centre", "zero, because no column is public"));
        }
        weights_belong_to(relation, self.units, self.total_weight)
    }
}

/// All steps.
pub(super) fn event(
    rate: Option<SamplingRate>,
    noise_multiplier: NoiseMultiplier,
    change: Change,
    steps: NonZeroU64,
) -> Event {
    Event::Repeated { event: Box::new(one_step(rate, noise_multiplier, change)), count: steps }
}

fn one_step(rate: Option<SamplingRate>, noise_multiplier: NoiseMultiplier, change: Change) -> Event {
    match rate {
        None => Event::Gaussian { noise_multiplier, change },
        Some(rate) => Event::PoissonGaussian { rate, noise_multiplier, change },
    }
}
