//! What happened, as a closed enum: separate from what it costs, and with a meaning that never changes.
//!
//! # The rules that the types enforce
//!
//! | rule | how |
//! |---|---|
//! | radius, not diameter, under sampling | the sampled events take a [`NoiseMultiplier`] (noise std over radius) only; a proven diameter goes into [`Event::GaussianDiameter`], which cannot be sampled |
//! | | (a diameter that someone divides by as a plain number is that caller's word: the mechanisms take theirs from the radius that the lattice enforces) |
//! | one batch, one event | several statistics of one Poisson batch are one [`Event::poisson_batch`] |
//! | public normalisation | no event has a place for a realised batch size |
//! | the sensitivity follows from the relation | the sampled and clipped events carry a [`Change`]; one function turns it into a sensitivity; mixing two changes in one tree is refused |
//!
//! # JSON
//!
//! Every event is an object with a `kind`; see `docs/accounting/events.md`. Reading goes through an unchecked record
//! and the same constructors as the code, so that a file cannot hold what the code could not build.

mod price;
mod record;
mod runs;

pub(crate) use price::Price;
pub(crate) use runs::Family;
pub use runs::RunCount;

use crate::number::{
    Delta, Epsilon, L1Sensitivity, L2Radius, L2Sensitivity, LaplaceScale, Mu, NoiseMultiplier, NoiseStd,
    ParameterError, Rho, SamplingRate,
};
use crate::relation::Change;
use record::EventRecord;
use serde::{Deserialize, Serialize};
use std::num::NonZeroU64;

/// One release, or a tree of releases.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "EventRecord", into = "EventRecord")]
pub enum Event {
    /// Gaussian noise on a sum of contributions clipped to a radius.
    Gaussian {
        /// Noise std over radius.
        noise_multiplier: NoiseMultiplier,
        /// Decides whether one unit moves the sum by one radius or two.
        change: Change,
    },
    /// Gaussian noise on a statistic whose change has a proven bound. Not sampled.
    GaussianDiameter {
        /// How far one unit's change moves the statistic.
        sensitivity: L2Sensitivity,
        /// Standard deviation of the noise in each coordinate.
        noise_std: NoiseStd,
    },
    /// Laplace noise on a statistic whose change has a proven l1 bound.
    Laplace {
        /// How far one unit's change moves the statistic in l1 norm.
        sensitivity: L1Sensitivity,
        /// Scale of the noise in each coordinate.
        scale: LaplaceScale,
    },
    /// Any epsilon-differentially private release: AboveThreshold, randomized response, a local randomizer.
    PureDp {
        /// Its epsilon.
        epsilon: Epsilon,
    },
    /// Any (epsilon, delta)-differentially private release, such as propose-test-release.
    ApproxDp {
        /// Its epsilon.
        epsilon: Epsilon,
        /// Its delta.
        delta: Delta,
    },
    /// Any rho-zero-concentrated differentially private release.
    Zcdp {
        /// Its rho.
        rho: Rho,
    },
    /// Any mu-Gaussian differentially private release.
    Gdp {
        /// Its mu.
        mu: Mu,
    },
    /// Gaussian noise on a sum over a batch that contains each unit independently with the same probability.
    ///
    /// It has no place for how near two units' contributions are to each other, only for how near they are to zero
    /// (see `a_diameter_under_sampling_understates`):
    ///
    /// ```compile_fail,E0559
    /// # use halflit_privacy::{Change, Event, L2Sensitivity, NoiseStd, SamplingRate};
    /// # fn story(rate: SamplingRate, sensitivity: L2Sensitivity, noise_std: NoiseStd) {
    /// let step = Event::PoissonGaussian { rate, sensitivity, noise_std };
    /// # }
    /// ```
    PoissonGaussian {
        /// Probability that a unit is in the batch.
        rate: SamplingRate,
        /// Noise std over radius.
        noise_multiplier: NoiseMultiplier,
        /// Decides the dominating pair.
        change: Change,
    },
    /// Gaussian noise on a sum over a uniformly random batch of fixed size, without replacement. Replace only.
    FixedSizeGaussian {
        /// Batch size over number of units.
        fraction: SamplingRate,
        /// Noise std over a common radius of all contributions.
        noise_multiplier: NoiseMultiplier,
    },
    /// All of these happened, each possibly chosen after seeing the earlier outputs. Empty: nothing happened.
    Composed(Vec<Event>),
    /// The same event, this many times.
    Repeated {
        /// What was repeated.
        event: Box<Event>,
        /// How often.
        count: NonZeroU64,
    },
    /// These happened on disjoint sets of units, split by public facts: each unit took part in one of them only.
    Parallel(Vec<Event>),
    /// The event ran a random hidden number of times and the best output was kept (Papernot and Steinke 2022). The
    /// score is part of the private output.
    RepeatAndSelect {
        /// One run, its score included.
        event: Box<Event>,
        /// The law of the number of runs.
        runs: RunCount,
    },
}

/// One of several statistics computed on the same Poisson batch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BatchStatistic {
    /// Enforced norm bound of one unit's contribution to this statistic (1/2 for a centred indicator).
    pub l2_radius: L2Radius,
    /// Standard deviation of this statistic's noise in each coordinate.
    pub noise_std: NoiseStd,
}

impl Event {
    /// ALL statistics computed on one Poisson batch, as the one event they are.
    ///
    /// Stacked and scaled to unit noise the contributions have squared norm at most sum_j (r_j/sigma_j)^2, so the joint
    /// multiplier is (sum_j (r_j/sigma_j)^2)^(-1/2). Charging them as separate sampled events would pretend that the
    /// batch was drawn anew for each, and understates delta by orders of magnitude.
    pub fn poisson_batch(
        rate: SamplingRate,
        statistics: &[BatchStatistic],
        change: Change,
    ) -> Result<Self, ParameterError> {
        let inverse_squares: f64 = statistics
            .iter()
            .map(|statistic| {
                let inverse = (statistic.l2_radius.get() / statistic.noise_std.get()).next_up();
                (inverse * inverse).next_up()
            })
            .sum();
        // Rounded down: the sum, the root and the quotient each err by at most one ulp per operation.
        let slack = 1.0 - (statistics.len() as f64 + 2.0) * f64::EPSILON;
        let noise_multiplier = NoiseMultiplier::new(slack / inverse_squares.sqrt())?;
        Ok(Event::PoissonGaussian { rate, noise_multiplier, change })
    }

    /// This event `count` times; zero is refused, because "it never happened" is [`Event::Composed`] of nothing.
    pub fn repeated(self, count: u64) -> Result<Self, ParameterError> {
        match NonZeroU64::new(count) {
            Some(count) => Ok(Event::Repeated { event: Box::new(self), count }),
            None => Err(ParameterError {
                name: "count",
                value: 0.0,
                allowed: "at least 1",
                remedy: "leave out what never happened",
            }),
        }
    }

    /// The events directly below this one.
    pub(crate) fn children(&self) -> &[Event] {
        match self {
            Event::Composed(events) | Event::Parallel(events) => events,
            Event::Repeated { event, .. } | Event::RepeatAndSelect { event, .. } => {
                std::slice::from_ref(event)
            }
            Event::Gaussian { .. }
            | Event::GaussianDiameter { .. }
            | Event::Laplace { .. }
            | Event::PureDp { .. }
            | Event::ApproxDp { .. }
            | Event::Zcdp { .. }
            | Event::Gdp { .. }
            | Event::PoissonGaussian { .. }
            | Event::FixedSizeGaussian { .. } => &[],
        }
    }

    /// The kind of change that this event's price assumes, if it assumes one.
    pub(crate) fn own_change(&self) -> Option<Change> {
        match self {
            Event::Gaussian { change, .. } | Event::PoissonGaussian { change, .. } => Some(*change),
            Event::FixedSizeGaussian { .. } => Some(Change::Replace),
            Event::GaussianDiameter { .. }
            | Event::Laplace { .. }
            | Event::PureDp { .. }
            | Event::ApproxDp { .. }
            | Event::Zcdp { .. }
            | Event::Gdp { .. }
            | Event::Composed(_)
            | Event::Repeated { .. }
            | Event::Parallel(_)
            | Event::RepeatAndSelect { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests;
