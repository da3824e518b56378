//! The noise of one update block, as integers, and what it costs.
//!
//! Legend: e' the epsilon of AboveThreshold and of the size estimate, mu = D/s of the Gaussian answer. All three compare or release a
//! private integer plus `round(2^bits Z)`; the public integers `steps` and `radius` say how far one row moves it.

use crate::mechanisms::{Inconsistency, MechanismError};
use halflit_noise::{FractionBits, Law, Stream};
use halflit_privacy::{
    Epsilon, Event, L1Sensitivity, L2Sensitivity, LaplaceScale, NoiseStd, ParameterError, Rho,
};
use serde::{Deserialize, Serialize};

/// Bits of the Laplace lattices: the threshold's noise has scale 2^42, a query's 2^43.
const THRESHOLD_BITS: u32 = 42;
const SIZE_BITS: u32 = 43;

/// Private integers are cut off here before they meet their noise. Cutting off moves no two of them further apart.
const CUT_OFF: i128 = 1 << 61;

/// A Gaussian release of an integer vector that one row moves by at most `radius`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnswerNoise {
    /// k: the noise is round(2^k Z) in every coordinate.
    pub bits: u32,
    /// The most that one row moves the integer vector, in l2 norm.
    pub radius: u64,
}

/// The Laplace noise of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TestNoise {
    /// b: the threshold's noise has scale 2^b, a query's 2^(b+1).
    pub threshold_bits: u32,
    /// M: one row moves the compared integer by at most this.
    pub threshold_steps: u64,
    /// The size estimate's noise has scale 2^bits.
    pub size_bits: u32,
    /// One row moves the size by at most this.
    pub size_steps: u64,
}

impl AnswerNoise {
    /// The finest lattice for sensitivity over noise of at most `mu` and sums over `rows` rows.
    pub fn new(mu: f64, rows: u64) -> Result<Self, MechanismError> {
        if !(mu.is_finite() && mu > 0.0) {
            return Err(MechanismError::not_positive("mu of an answer", mu));
        }
        let most = (1u64 << 61) as f64 / (rows as f64 + 1.0);
        // mu 2^bits is exact: floor is the only rounding, and it lowers the price
        let radius = |bits: u32| (mu * (1u64 << bits) as f64).floor();
        let bits = (16..=44).rev().find(|&bits| radius(bits) < most && radius(bits) < 9e15);
        match bits {
            Some(bits) if radius(bits) >= 1024.0 => Ok(AnswerNoise { bits, radius: radius(bits) as u64 }),
            _ => Err(MechanismError::Lattice(halflit_noise::LatticeError::NoSignal {
                noise_multiplier: 1.0 / mu,
            })),
        }
    }

    /// Sensitivity over noise standard deviation.
    pub fn mu(&self) -> f64 {
        self.radius as f64 / self.scale()
    }

    pub(super) fn scale(&self) -> f64 {
        (1u64 << self.bits) as f64
    }

    /// What one release costs.
    pub fn event(&self) -> Result<Event, ParameterError> {
        Ok(Event::GaussianDiameter {
            sensitivity: L2Sensitivity::new(self.radius as f64)?,
            noise_std: NoiseStd::new(self.scale())?,
        })
    }

    pub(super) fn check(&self) -> Result<(), Inconsistency> {
        // below 2^53 the radius is a double
        if (16..=44).contains(&self.bits) && (1..1 << 53).contains(&self.radius) {
            Ok(())
        } else {
            Err(Inconsistency::new("answer", "16 to 44 bits and a radius of at least 1 and below 2^53"))
        }
    }

    pub(super) fn add(&self, stream: &mut Stream, values: &mut [i64]) -> Result<(), MechanismError> {
        let mut noise = vec![0; values.len()];
        stream.fill_rounded(Law::Normal, FractionBits::new(self.bits)?, &mut noise);
        for (value, noise) in values.iter_mut().zip(noise) {
            *value = value.saturating_add(noise);
        }
        Ok(())
    }
}

impl TestNoise {
    /// Noise for an AboveThreshold and a size estimate of at most `epsilon` each.
    pub fn new(epsilon: f64) -> Result<Self, MechanismError> {
        if !(epsilon.is_finite() && epsilon > 0.0) {
            return Err(MechanismError::not_positive("epsilon of the threshold test", epsilon));
        }
        // Powers of two are exact, floors lower the price: e' >= 2 M / 2^b and e' >= m / 2^bits.
        let steps = |factor: f64, bits: u32| (factor * epsilon * (1u64 << bits) as f64).floor().min(4e15);
        let noise = TestNoise {
            threshold_bits: THRESHOLD_BITS,
            threshold_steps: steps(0.5, THRESHOLD_BITS) as u64,
            size_bits: SIZE_BITS,
            size_steps: steps(1.0, SIZE_BITS) as u64,
        };
        if noise.threshold_steps < 1024 {
            return Err(MechanismError::Lattice(halflit_noise::LatticeError::NoSignal {
                noise_multiplier: 1.0 / epsilon,
            }));
        }
        Ok(noise)
    }

    /// e' of AboveThreshold: M/2^b for the threshold and 2M/2^(b+1) for the query that crosses it.
    pub fn threshold_epsilon(&self) -> f64 {
        2.0 * self.threshold_steps as f64 / (1u64 << self.threshold_bits) as f64
    }

    /// e' of the size estimate.
    pub fn size_epsilon(&self) -> f64 {
        self.size_steps as f64 / (1u64 << self.size_bits) as f64
    }

    /// What the test and the size estimate of one block cost.
    pub fn events(&self) -> Result<[Event; 2], ParameterError> {
        Ok([
            Event::PureDp { epsilon: Epsilon::new(self.threshold_epsilon())? },
            Event::Laplace {
                sensitivity: L1Sensitivity::new(self.size_steps as f64)?,
                scale: LaplaceScale::new((1u64 << self.size_bits) as f64)?,
            },
        ])
    }

    pub(super) fn check(&self) -> Result<(), Inconsistency> {
        let exact = |steps: u64| (1..1 << 53).contains(&steps);
        let fits = (16..=43).contains(&self.threshold_bits) && (16..=44).contains(&self.size_bits);
        if fits && exact(self.threshold_steps) && exact(self.size_steps) {
            Ok(())
        } else {
            Err(Inconsistency::new(
                "test",
                "16 to 43 bits for the threshold, to 44 for the size, steps below 2^53",
            ))
        }
    }

    /// chi: the noise of a block's threshold.
    pub(super) fn threshold(&self, stream: &mut Stream) -> Result<i64, MechanismError> {
        Ok(stream.rounded(Law::Laplace, FractionBits::new(self.threshold_bits)?))
    }

    /// Whether (distance - tau)/diameter + Lap(4/e') >= chi, in integers. `diameter` is at least 1.
    pub(super) fn is_above(
        &self,
        stream: &mut Stream,
        distance: u64,
        tau: u64,
        diameter: u64,
        chi: i64,
    ) -> Result<bool, MechanismError> {
        let noise = stream.rounded(Law::Laplace, FractionBits::new(self.threshold_bits + 1)?);
        let compared = in_steps(i128::from(distance) - i128::from(tau), self.threshold_steps, diameter);
        Ok(compared.saturating_add(noise) >= chi)
    }

    /// A noisy distance, in lattice units of the query.
    pub(super) fn size(
        &self,
        stream: &mut Stream,
        distance: u64,
        diameter: u64,
    ) -> Result<f64, MechanismError> {
        let noise = stream.rounded(Law::Laplace, FractionBits::new(self.size_bits)?);
        let noisy = in_steps(i128::from(distance), self.size_steps, diameter).saturating_add(noise);
        // after the noise: ordinary arithmetic
        Ok(noisy as f64 / self.size_steps as f64 * diameter as f64)
    }
}

/// floor(value * steps / diameter), cut off. If one row moves `value` by at most `diameter`, it moves this by at most `steps`:
/// floor(x + steps) = floor(x) + steps.
fn in_steps(value: i128, steps: u64, diameter: u64) -> i64 {
    // |value| < 2^64 and steps < 2^53
    (value * i128::from(steps)).div_euclid(i128::from(diameter.max(1))).clamp(-CUT_OFF, CUT_OFF) as i64
}

/// The whole run of at most `blocks` updates.
pub(super) fn block_event(
    test: &TestNoise,
    answer: &AnswerNoise,
    blocks: u64,
) -> Result<Event, ParameterError> {
    let [threshold, size] = test.events()?;
    Event::Composed(vec![threshold, size, answer.event()?]).repeated(blocks)
}

/// The same in zero-concentrated terms: e'^2/2 twice and mu^2/2 per block (Lemmas 9 and 10, Theorem 27).
pub fn zcdp_rho(test: &TestNoise, answer: &AnswerNoise, blocks: u64) -> Result<Rho, ParameterError> {
    let tests = (test.threshold_epsilon().powi(2) + test.size_epsilon().powi(2)) / 2.0;
    Rho::new(blocks as f64 * (tests + answer.mu().powi(2) / 2.0))
}

/// What the paper charges for the same noise: it writes 2/sigma^2 = 2 mu^2 for the Gaussian, four times what is needed.
pub fn paper_rho(test: &TestNoise, answer: &AnswerNoise, blocks: u64) -> Result<Rho, ParameterError> {
    let tests = (test.threshold_epsilon().powi(2) + test.size_epsilon().powi(2)) / 2.0;
    Rho::new(blocks as f64 * (tests + 2.0 * answer.mu().powi(2)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Numbers;

    /// One row moves the distance by at most the diameter; the compared integer then moves by at most M, wherever the floors fall.
    #[test]
    fn the_compared_integer_moves_by_at_most_its_steps() {
        let mut numbers = Numbers(5);
        let mut draw = |most: u64| (numbers.next() * most as f64) as u64;
        for _ in 0..20_000 {
            let (diameter, steps) = (1 + draw(1 << 40), 1 + draw(1 << 50));
            let (value, tau) = (draw(1 << 61), draw(1 << 61));
            let compared = |value: u64| in_steps(i128::from(value) - i128::from(tau), steps, diameter);
            let one = compared(value);
            let other = compared(value + draw(diameter + 1));
            assert!(other >= one && other.abs_diff(one) <= steps, "{value} {diameter} {steps}");
            // The bound is attained, so a smaller one would be wrong; only values that are cut off move less.
            let farthest = compared(value + diameter);
            let cut_off = one.abs() == 1 << 61 || farthest.abs() == 1 << 61;
            assert!(farthest.abs_diff(one) == steps || cut_off, "{value} {diameter} {steps}");
        }
    }

    #[test]
    fn noise_is_priced_at_no_less_than_it_costs() {
        for epsilon in [1e-6, 0.013, 0.3, 2.0] {
            let noise = TestNoise::new(epsilon).unwrap();
            assert!(noise.threshold_epsilon() <= epsilon && noise.size_epsilon() <= epsilon);
            assert!(noise.threshold_epsilon() > epsilon * 0.999);
            noise.check().unwrap();
        }
        for (mu, rows) in [(1e-4, 1_000_000_000), (0.05, 30_000), (1.5, 10), (3.0, u64::MAX / 4)] {
            match AnswerNoise::new(mu, rows) {
                Ok(noise) => {
                    assert!(noise.mu() <= mu && noise.mu() > mu * 0.99, "{mu} {rows}");
                    assert!(2f64.powi(61) > rows as f64 * noise.radius as f64);
                    noise.check().unwrap();
                }
                Err(error) => assert_eq!(rows, u64::MAX / 4, "{error}"),
            }
        }
        for bad in [f64::NAN, 0.0, -1.0, f64::INFINITY] {
            assert!(TestNoise::new(bad).is_err() && AnswerNoise::new(bad, 10).is_err());
        }
    }
}
