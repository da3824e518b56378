//! The JSON form of events: unchecked numbers in, checked events out.

use super::runs::Family;
use super::{Event, RunCount};
use crate::number::{
    Delta, Epsilon, L1Sensitivity, L2Sensitivity, LaplaceScale, Mu, NoiseMultiplier, NoiseStd,
    ParameterError, Rho, SamplingRate,
};
use crate::relation::Change;
use serde::{Deserialize, Serialize};

/// What a file says; nothing in it has been checked.
#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum EventRecord {
    Gaussian { noise_multiplier: f64, change: Change },
    GaussianDiameter { sensitivity: f64, noise_std: f64 },
    Laplace { sensitivity: f64, scale: f64 },
    PureDp { epsilon: f64 },
    ApproxDp { epsilon: f64, delta: f64 },
    Zcdp { rho: f64 },
    Gdp { mu: f64 },
    PoissonGaussian { rate: f64, noise_multiplier: f64, change: Change },
    FixedSizeGaussian { fraction: f64, noise_multiplier: f64 },
    Composed { events: Vec<EventRecord> },
    Repeated { event: Box<EventRecord>, count: u64 },
    Parallel { events: Vec<EventRecord> },
    RepeatAndSelect { event: Box<EventRecord>, runs: RunCountRecord },
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "family", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum RunCountRecord {
    TruncatedNegativeBinomial { eta: f64, gamma: f64 },
    Poisson { mean: f64 },
}

impl TryFrom<EventRecord> for Event {
    type Error = ParameterError;

    fn try_from(record: EventRecord) -> Result<Self, ParameterError> {
        let all = |records: Vec<EventRecord>| {
            records.into_iter().map(Event::try_from).collect::<Result<Vec<_>, _>>()
        };
        Ok(match record {
            EventRecord::Gaussian { noise_multiplier, change } => {
                Event::Gaussian { noise_multiplier: NoiseMultiplier::new(noise_multiplier)?, change }
            }
            EventRecord::GaussianDiameter { sensitivity, noise_std } => Event::GaussianDiameter {
                sensitivity: L2Sensitivity::new(sensitivity)?,
                noise_std: NoiseStd::new(noise_std)?,
            },
            EventRecord::Laplace { sensitivity, scale } => Event::Laplace {
                sensitivity: L1Sensitivity::new(sensitivity)?,
                scale: LaplaceScale::new(scale)?,
            },
            EventRecord::PureDp { epsilon } => Event::PureDp { epsilon: Epsilon::new(epsilon)? },
            EventRecord::ApproxDp { epsilon, delta } => {
                Event::ApproxDp { epsilon: Epsilon::new(epsilon)?, delta: Delta::new(delta)? }
            }
            EventRecord::Zcdp { rho } => Event::Zcdp { rho: Rho::new(rho)? },
            EventRecord::Gdp { mu } => Event::Gdp { mu: Mu::new(mu)? },
            EventRecord::PoissonGaussian { rate, noise_multiplier, change } => Event::PoissonGaussian {
                rate: SamplingRate::new(rate)?,
                noise_multiplier: NoiseMultiplier::new(noise_multiplier)?,
                change,
            },
            EventRecord::FixedSizeGaussian { fraction, noise_multiplier } => Event::FixedSizeGaussian {
                fraction: SamplingRate::new(fraction)?,
                noise_multiplier: NoiseMultiplier::new(noise_multiplier)?,
            },
            EventRecord::Composed { events } => Event::Composed(all(events)?),
            EventRecord::Repeated { event, count } => Event::try_from(*event)?.repeated(count)?,
            EventRecord::Parallel { events } => Event::Parallel(all(events)?),
            EventRecord::RepeatAndSelect { event, runs } => Event::RepeatAndSelect {
                event: Box::new(Event::try_from(*event)?),
                runs: RunCount::try_from(runs)?,
            },
        })
    }
}

impl TryFrom<RunCountRecord> for RunCount {
    type Error = ParameterError;

    fn try_from(record: RunCountRecord) -> Result<Self, ParameterError> {
        match record {
            RunCountRecord::TruncatedNegativeBinomial { eta, gamma } => {
                RunCount::truncated_negative_binomial(eta, gamma)
            }
            RunCountRecord::Poisson { mean } => RunCount::poisson(mean),
        }
    }
}

impl From<Event> for EventRecord {
    fn from(event: Event) -> Self {
        let all = |events: Vec<Event>| events.into_iter().map(EventRecord::from).collect();
        match event {
            Event::Gaussian { noise_multiplier, change } => {
                EventRecord::Gaussian { noise_multiplier: noise_multiplier.get(), change }
            }
            Event::GaussianDiameter { sensitivity, noise_std } => {
                EventRecord::GaussianDiameter { sensitivity: sensitivity.get(), noise_std: noise_std.get() }
            }
            Event::Laplace { sensitivity, scale } => {
                EventRecord::Laplace { sensitivity: sensitivity.get(), scale: scale.get() }
            }
            Event::PureDp { epsilon } => EventRecord::PureDp { epsilon: epsilon.get() },
            Event::ApproxDp { epsilon, delta } => {
                EventRecord::ApproxDp { epsilon: epsilon.get(), delta: delta.get() }
            }
            Event::Zcdp { rho } => EventRecord::Zcdp { rho: rho.get() },
            Event::Gdp { mu } => EventRecord::Gdp { mu: mu.get() },
            Event::PoissonGaussian { rate, noise_multiplier, change } => EventRecord::PoissonGaussian {
                rate: rate.get(),
                noise_multiplier: noise_multiplier.get(),
                change,
            },
            Event::FixedSizeGaussian { fraction, noise_multiplier } => EventRecord::FixedSizeGaussian {
                fraction: fraction.get(),
                noise_multiplier: noise_multiplier.get(),
            },
            Event::Composed(events) => EventRecord::Composed { events: all(events) },
            Event::Repeated { event, count } => {
                EventRecord::Repeated { event: Box::new(EventRecord::from(*event)), count: count.get() }
            }
            Event::Parallel(events) => EventRecord::Parallel { events: all(events) },
            Event::RepeatAndSelect { event, runs } => EventRecord::RepeatAndSelect {
                event: Box::new(EventRecord::from(*event)),
                runs: RunCountRecord::from(runs),
            },
        }
    }
}

impl From<RunCount> for RunCountRecord {
    fn from(runs: RunCount) -> Self {
        match runs.family() {
            Family::TruncatedNegativeBinomial { eta, gamma } => {
                RunCountRecord::TruncatedNegativeBinomial { eta, gamma }
            }
            Family::Poisson { mean } => RunCountRecord::Poisson { mean },
        }
    }
}
