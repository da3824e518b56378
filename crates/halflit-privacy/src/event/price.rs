//! What a single release is priced as.

use super::Event;
use crate::pld::{Mixture, Pair};
use crate::relation::Change;

/// The exact or worst-case law behind a single release.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Price {
    /// A Gaussian with this sensitivity over noise std: composes in closed form.
    Gaussian(f64),
    /// A Renyi bound order * rho: composes by adding.
    Zcdp(f64),
    /// A dominating pair: composes numerically.
    Pair(Pair),
}

impl Price {
    /// The price of a single release; `None` for events made of other events.
    ///
    /// The only place where rate, noise and change become numbers. Quotients are rounded up: more sensitivity, less noise.
    pub(crate) fn of(event: &Event) -> Option<Price> {
        Some(match event {
            Event::Gaussian { noise_multiplier, change } => {
                Price::Gaussian((change.sensitivity_per_radius() / noise_multiplier.get()).next_up())
            }
            Event::GaussianDiameter { sensitivity, noise_std } => {
                Price::Gaussian((sensitivity.get() / noise_std.get()).next_up())
            }
            Event::Gdp { mu } => Price::Gaussian(mu.get()),
            Event::Zcdp { rho } => Price::Zcdp(rho.get()),
            Event::Laplace { sensitivity, scale } => {
                Price::Pair(Pair::Laplace((sensitivity.get() / scale.get()).next_up()))
            }
            Event::PureDp { epsilon } => {
                Price::Pair(Pair::RandomizedResponse { eps: epsilon.get(), delta: 0.0 })
            }
            Event::ApproxDp { epsilon, delta } => {
                Price::Pair(Pair::RandomizedResponse { eps: epsilon.get(), delta: delta.get() })
            }
            Event::PoissonGaussian { rate, noise_multiplier, change } => {
                // Contributions have norm at most one radius under either change; replace has one on each side.
                let radius = (1.0 / noise_multiplier.get()).next_up();
                if rate.get() == 1.0 {
                    return Some(Price::Gaussian(change.sensitivity_per_radius() * radius));
                }
                let two_sided = *change == Change::Replace;
                Price::Pair(Pair::Mixture(Mixture { rate: rate.get(), shift: radius, two_sided }))
            }
            Event::FixedSizeGaussian { fraction, noise_multiplier } => {
                // The batches differ by exchanging one unit for another: twice the radius.
                let diameter = (Change::Replace.sensitivity_per_radius() / noise_multiplier.get()).next_up();
                if fraction.get() == 1.0 {
                    return Some(Price::Gaussian(diameter));
                }
                Price::Pair(Pair::FixedSize(Mixture {
                    rate: fraction.get(),
                    shift: diameter,
                    two_sided: false,
                }))
            }
            Event::Composed(_)
            | Event::Repeated { .. }
            | Event::Parallel(_)
            | Event::RepeatAndSelect { .. } => {
                return None;
            }
        })
    }
}
