//! What a certificate says about the mechanism: enough for anyone to rebuild its event and check its numbers.

use super::check::Parts;
use super::parts::{Centre, Clip, Combiner, Descent, PublicPart, Sampling, Start};
use crate::mechanisms::{Inconsistency, weights_belong_to};
use halflit_noise::{Probability, SumLattice};
use halflit_privacy::{
    BatchStatistic, Change, Event, L2Radius, NoiseMultiplier, NoiseStd, ParameterError, PrivateRows,
    Relation, SamplingRate, SensitiveColumns, Unit,
};
use serde::{Deserialize, Serialize};

/// The facts of a noisy-gradient run that privacy depends on, and those needed to repeat it on the same data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    /// What was subtracted before the clamp.
    pub centre: Centre,
    /// How much the clamped and noisy part counted beside the known part.
    pub hidden_weight: f64,
    /// How a unit may change; decides the sensitivity.
    pub change: Change,
    /// Number of steps.
    pub steps: u64,
    /// The exact probability that a unit takes part in a step; none for all units in every step, or for one pass.
    pub sampling_rate: Option<Rate>,
    /// Number of disjoint batches, if every unit took part in one step only.
    pub batches: Option<u64>,
    /// The probability that a unit's known part was taken in a step, if it was not that of the hidden part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known_rate: Option<Rate>,
    /// Largest norm of a unit's hidden contribution.
    pub clip: Clip,
    /// The noise of the gradients, step after step: runs of equal steps.
    pub levels: Vec<Level>,
    /// The noise of the histogram of norms, released once per step, if the clip norm was measured.
    pub spread: Option<Level>,
    /// The clip norm of every step, if it was measured: read off the released histograms.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clip_norms: Vec<f64>,
    /// Number of protected units, a public constant.
    pub units: u64,
    /// What gradient sums are divided by, a public constant.
    pub total_weight: f64,
    /// Where the descent began.
    pub start: Start,
    /// How private and public gradients were combined.
    pub combiner: Combiner,
    /// What was taken from the public rows.
    pub public: PublicPart,
    /// How gradients became weights.
    pub descent: Descent,
    /// The l2 penalty.
    pub regularization: f64,
    /// Radius of the ball that the weights stay in, if declared.
    pub radius: Option<f64>,
}

/// Noise on sums of contributions whose norm is at most the clip norm (for histograms: at most 1).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Level {
    /// In how many consecutive steps.
    pub steps: u64,
    /// k: the noise is round(2^k Z) lattice units.
    pub lattice_bits: u32,
    /// B: the clip norm in lattice units, enforced in integers.
    pub lattice_radius: u64,
    /// What was priced: at most 2^k / B.
    pub noise_multiplier: f64,
    /// Noise standard deviation of each coordinate of the sum, if the clip norm was fixed; otherwise it is the multiplier times the
    /// measured clip norm.
    pub noise_std: Option<f64>,
}

impl Level {
    pub(super) fn of(lattice: &SumLattice, steps: u64, clip_norm: Option<f64>) -> Self {
        Level {
            steps,
            lattice_bits: lattice.bits().get(),
            lattice_radius: lattice.radius(),
            noise_multiplier: lattice.noise_multiplier(),
            noise_std: clip_norm.map(|norm| norm * lattice.noise_scale()),
        }
    }

    fn check(&self, clip_norm: Option<f64>, units: u64) -> Result<(), Inconsistency> {
        if self.steps == 0 {
            return Err(Inconsistency::new("levels", "at least one step each"));
        }
        if !(16..=44).contains(&self.lattice_bits) || self.lattice_radius == 0 {
            return Err(Inconsistency::new("lattice", "16 to 44 fraction bits and a radius of at least 1"));
        }
        if u128::from(units) * u128::from(self.lattice_radius) >= 1 << 62 {
            return Err(Inconsistency::new(
                "lattice",
                "coarse enough for a sum over all units to stay below 2^62",
            ));
        }
        // s B <= 2^k: both factors are rounded up by one step, so an honest product never fails by rounding alone.
        let scale = (1u64 << self.lattice_bits) as f64;
        let honest = (self.noise_multiplier.next_down() * (self.lattice_radius as f64).next_down()) <= scale;
        // And not much less: it is that quotient, rounded down.
        let is_quotient = self.noise_multiplier * self.lattice_radius as f64 >= scale * (1.0 - 1e-9);
        if !(self.noise_multiplier.is_finite() && honest && is_quotient) {
            return Err(Inconsistency::new("noise_multiplier", "2^lattice_bits / lattice_radius"));
        }
        // B is a whole number, so the real noise is up to one part in B above clip norm times multiplier.
        let slack = 1.0 / self.lattice_radius as f64 + 1e-9;
        let is_std_right = match (self.noise_std, clip_norm) {
            (Some(std), Some(norm)) => (std / (norm * self.noise_multiplier) - 1.0).abs() <= slack,
            (None, None) => true,
            _ => false,
        };
        if !is_std_right {
            return Err(Inconsistency::new("noise_std", "clip norm times noise_multiplier"));
        }
        Ok(())
    }
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
    fn rounded_up(self) -> Result<SamplingRate, ParameterError> {
        SamplingRate::at_least(self.numerator, self.denominator)
    }
}

impl Statement {
    /// The event that this run was.
    pub fn event(&self) -> Result<Event, ParameterError> {
        let takers = match (self.sampling_rate, self.batches) {
            (Some(rate), _) => Takers::Poisson(rate.rounded_up()?),
            (None, Some(_)) => Takers::OnePass,
            (None, None) => Takers::All,
        };
        let levels: Vec<(f64, u64)> =
            self.levels.iter().map(|level| (level.noise_multiplier, level.steps)).collect();
        event(takers, &levels, self.spread.as_ref().map(|level| level.noise_multiplier), self.change)
    }

    /// The clip norm, if it was fixed.
    pub fn clip_norm(&self) -> Option<f64> {
        match self.clip {
            Clip::Fixed { norm } => Some(norm),
            Clip::Quantile { .. } | Clip::ResidualScale => None,
        }
    }

    /// The smallest noise multiplier of a gradient: what the dearest step was priced at.
    pub fn least_noise_multiplier(&self) -> f64 {
        self.levels.iter().map(|level| level.noise_multiplier).fold(f64::INFINITY, f64::min)
    }

    /// Checks that the numbers belong together.
    pub fn check(&self) -> Result<(), Inconsistency> {
        let clip_norm = match self.clip {
            Clip::Fixed { norm } if norm.is_finite() && norm > 0.0 => Some(norm),
            Clip::Fixed { .. } => return Err(Inconsistency::new("clip", "a finite norm above 0")),
            Clip::Quantile { .. } | Clip::ResidualScale => None,
        };
        for level in &self.levels {
            level.check(clip_norm, self.units)?;
        }
        if let Some(level) = &self.spread {
            level.check(None, self.units)?;
        }
        if self.spread.is_some() != self.clip.is_measured() {
            return Err(Inconsistency::new("spread", "there exactly if the clip norm was measured"));
        }
        if self.levels.is_empty() {
            return Err(Inconsistency::new("levels", "at least one"));
        }
        let steps = self.levels.iter().try_fold(0u64, |sum, level| sum.checked_add(level.steps));
        if steps != Some(self.steps) || self.spread.as_ref().is_some_and(|level| level.steps != self.steps) {
            return Err(Inconsistency::new("levels", "as many steps as the run"));
        }
        if self.batches.is_some_and(|batches| batches < self.steps) {
            return Err(Inconsistency::new("batches", "at least the number of steps"));
        }
        if self.batches.is_some() && self.sampling_rate.is_some() {
            return Err(Inconsistency::new("sampling_rate", "absent in one pass"));
        }
        if self.sampling_rate.is_some() && self.levels.len() != 1 {
            return Err(Inconsistency::new("levels", "one level when batches are sampled"));
        }
        if !(self.total_weight.is_finite() && self.total_weight >= self.units as f64) {
            return Err(Inconsistency::new("total_weight", "at least the number of units"));
        }
        if self.units == 0 {
            return Err(Inconsistency::new("units", "at least 1"));
        }
        let is_positive = |value: f64| value.is_finite() && value > 0.0;
        let is_sensible = match self.descent {
            Descent::Momentum { step_size, .. } => is_positive(step_size),
            Descent::Preconditioned { step_size, ridge, .. } => is_positive(step_size) && is_positive(ridge),
            Descent::Newton { noise } => is_positive(noise),
            Descent::Accelerated { damping, strong_convexity } => {
                is_positive(damping) && strong_convexity == self.regularization
            }
            Descent::Posterior => true,
        };
        if !is_sensible {
            return Err(Inconsistency::new("descent", "steps above 0, as convex as the penalty"));
        }
        if self.known_rate.is_some_and(|rate| rate.rounded_up().is_err()) {
            return Err(Inconsistency::new("known_rate", "a probability above 0"));
        }
        let is_measured = self.clip.is_measured();
        let has_all =
            self.clip_norms.is_empty() || (is_measured && self.clip_norms.len() as u64 == self.steps);
        if !(has_all && self.clip_norms.iter().all(|&norm| is_positive(norm))) {
            return Err(Inconsistency::new(
                "clip_norms",
                "one above 0 for every step, if they were measured",
            ));
        }
        self.parts().go_together().map_err(|(part, needs)| Inconsistency::new(part, needs))?;
        if !is_positive(self.hidden_weight) {
            return Err(Inconsistency::new("hidden_weight", "a finite number above 0"));
        }
        if !(self.regularization.is_finite() && self.regularization >= 0.0) {
            return Err(Inconsistency::new("regularization", "a finite number of at least 0"));
        }
        if !self.radius.is_none_or(is_positive) {
            return Err(Inconsistency::new("radius", "a finite number above 0, or absent"));
        }
        Ok(())
    }

    fn parts(&self) -> Parts {
        Parts {
            centre: self.centre,
            hidden_weight: self.hidden_weight,
            has_known_rate: self.known_rate.is_some(),
            is_sampled: self.sampling_rate.is_some() || self.batches.is_some(),
            is_growing: self.levels.len() > 1,
            clip: self.clip,
            combiner: self.combiner,
            public: self.public,
            start: self.start,
            descent: self.descent.into(),
        }
    }

    /// Checks that a run under this relation can have been like this.
    pub fn belongs_to(&self, relation: &Relation) -> Result<(), Inconsistency> {
        let needs_public_columns = matches!(self.centre, Centre::Midrange | Centre::Imputed);
        if needs_public_columns && *relation.sensitive() == SensitiveColumns::All {
            return Err(Inconsistency::new("centre", "one that needs no public column"));
        }
        let has_public_rows =
            *relation.private_rows() != PrivateRows::All && self.total_weight > self.units as f64;
        if self.parts().use_public_rows() && !has_public_rows {
            return Err(Inconsistency::new(
                "centre, start, combiner and descent",
                "such as need no public row",
            ));
        }
        if self.descent == Descent::Posterior && matches!(relation.unit(), Unit::User { .. }) {
            return Err(Inconsistency::new("descent", "another one: the posterior descent is for rows"));
        }
        weights_belong_to(relation, self.units, self.total_weight)
    }
}

/// Who takes part in a step, as the accountant sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Takers {
    All,
    Poisson(SamplingRate),
    OnePass,
}

impl Takers {
    pub fn of(sampling: Sampling) -> Result<Self, ParameterError> {
        Ok(match sampling {
            Sampling::FullBatch => Takers::All,
            Sampling::Poisson(rate) => Takers::Poisson(Rate::of(rate).rounded_up()?),
            Sampling::OnePass { .. } => Takers::OnePass,
        })
    }
}

/// All steps: runs of (noise multiplier, steps), and the histogram's multiplier if every step releases one.
///
/// The two releases of a step see the same batch. Without sampling they compose like any two; with Poisson sampling they are ONE event.
pub(super) fn event(
    takers: Takers,
    levels: &[(f64, u64)],
    spread: Option<f64>,
    change: Change,
) -> Result<Event, ParameterError> {
    let gaussian = |multiplier: f64| -> Result<Event, ParameterError> {
        Ok(Event::Gaussian { noise_multiplier: NoiseMultiplier::new(multiplier)?, change })
    };
    let steps: u64 = levels.iter().map(|(_, steps)| steps).sum();
    let mut events = Vec::with_capacity(levels.len() + 1);
    for &(multiplier, count) in levels {
        let one = match (takers, spread) {
            (Takers::All, _) | (Takers::OnePass, None) => gaussian(multiplier)?,
            (Takers::OnePass, Some(spread)) => {
                Event::Composed(vec![gaussian(multiplier)?, gaussian(spread)?])
            }
            (Takers::Poisson(rate), None) => {
                Event::PoissonGaussian { rate, noise_multiplier: NoiseMultiplier::new(multiplier)?, change }
            }
            (Takers::Poisson(rate), Some(spread)) => {
                let statistic = |multiplier: f64| -> Result<BatchStatistic, ParameterError> {
                    Ok(BatchStatistic {
                        l2_radius: L2Radius::new(1.0)?,
                        noise_std: NoiseStd::new(multiplier)?,
                    })
                };
                Event::poisson_batch(rate, &[statistic(multiplier)?, statistic(spread)?], change)?
            }
        };
        match takers {
            // Disjoint units: each is charged for its own step only, the dearest at worst.
            Takers::OnePass => events.push(one),
            Takers::All | Takers::Poisson(_) => events.push(one.repeated(count)?),
        }
    }
    if let (Takers::All, Some(spread)) = (takers, spread) {
        events.push(gaussian(spread)?.repeated(steps)?);
    }
    Ok(match (takers, events.len()) {
        (Takers::OnePass, _) => Event::Parallel(events),
        (_, 1) => events.swap_remove(0),
        _ => Event::Composed(events),
    })
}
