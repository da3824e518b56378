//! What a privacy researcher would try first: other accountants, brute force, published tables, published mistakes.

mod brute_force;
mod papers;
mod peers;
mod properties;
mod tightness;

use halflit_privacy::{Change, Delta, Epsilon, Event, NoiseMultiplier, SamplingRate};

fn delta(value: f64) -> Delta {
    Delta::new(value).unwrap()
}

fn epsilon(value: f64) -> Epsilon {
    Epsilon::new(value).unwrap()
}

fn poisson(rate: f64, noise_multiplier: f64, change: Change) -> Event {
    Event::PoissonGaussian {
        rate: SamplingRate::new(rate).unwrap(),
        noise_multiplier: NoiseMultiplier::new(noise_multiplier).unwrap(),
        change,
    }
}

fn fixed_size(fraction: f64, noise_multiplier: f64) -> Event {
    Event::FixedSizeGaussian {
        fraction: SamplingRate::new(fraction).unwrap(),
        noise_multiplier: NoiseMultiplier::new(noise_multiplier).unwrap(),
    }
}

fn times(event: Event, count: u64) -> Event {
    event.repeated(count).unwrap()
}
