//! How much noise each step gets.

use super::statement::{self, Takers};
use crate::mechanisms::MechanismError;
use halflit_privacy::calibrate::{self, Budget};
use halflit_privacy::{Change, Event};
use std::num::NonZeroU64;

/// Share of the squared mu that a measured clip norm may spend.
const SPREAD_SHARE: f64 = 0.03;

/// The noise of a whole run, before it is put on lattices.
pub(super) struct Noise {
    /// Multiplier and number of steps, run after run.
    pub levels: Vec<(f64, u64)>,
    pub spread: Option<f64>,
}

impl Noise {
    /// Step t of T spends growth^t times what the first one spends; the last one has multiplier `last`.
    fn new(last: f64, steps: u64, growth: f64, has_spread: bool) -> Self {
        let levels: Vec<(f64, u64)> = if growth == 1.0 {
            vec![(last, steps)]
        } else {
            (1..=steps).rev().map(|left| (last * growth.powf((left - 1) as f64 / 2.0), 1)).collect()
        };
        let spent: f64 = levels.iter().map(|(multiplier, steps)| *steps as f64 / multiplier.powi(2)).sum();
        // steps / spread^2 = SPREAD_SHARE / (1 - SPREAD_SHARE) of what the gradients spend
        let spread = (steps as f64 * (1.0 - SPREAD_SHARE) / (SPREAD_SHARE * spent)).sqrt();
        Noise { levels, spread: has_spread.then_some(spread) }
    }

    /// The noise multiplier of a typical step.
    pub fn root_mean_square(&self) -> f64 {
        let steps: f64 = self.levels.iter().map(|(_, steps)| *steps as f64).sum();
        let squares: f64 = self.levels.iter().map(|(s, steps)| *steps as f64 * s * s).sum();
        (squares / steps).sqrt()
    }

    /// The least noise that fits the budget.
    pub fn calibrated(
        budget: Budget,
        takers: Takers,
        change: Change,
        steps: NonZeroU64,
        growth: f64,
        has_spread: bool,
    ) -> Result<Self, MechanismError> {
        let noise = |last: f64| Noise::new(last, steps.get(), growth, has_spread);
        let found = calibrate::noise_multiplier(budget, |multiplier| {
            let noise = noise(multiplier.get());
            // An extreme growth may leave no multiplier: whatever is found then, the lattice or the price refuses it.
            statement::event(takers, &noise.levels, noise.spread, change)
                .unwrap_or(Event::Gaussian { noise_multiplier: multiplier, change })
        })?;
        Ok(noise(found.value.get()))
    }
}
