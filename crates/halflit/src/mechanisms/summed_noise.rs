//! One noisy integer sum, as a certificate states it: enough for anyone to rebuild its event and check its numbers.

use super::Inconsistency;
use halflit_privacy::{Event, L2Sensitivity, NoiseStd, ParameterError};
use serde::{Deserialize, Serialize};

/// The noise of a sum that was released once, and how far one unit can move that sum.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SummedNoise {
    /// k: the noise is round(2^k Z) lattice units.
    pub lattice_bits: u32,
    /// How far one unit can move the integer sum, in lattice units.
    pub lattice_sensitivity: u64,
    /// The same in real units.
    pub sensitivity: f64,
    /// Noise standard deviation of each released number, in real units.
    pub noise_std: f64,
}

impl SummedNoise {
    /// Noise of 2^`lattice_bits` lattice units, each worth `unit`.
    pub(crate) fn new(lattice_bits: u32, lattice_sensitivity: u64, unit: f64) -> Self {
        let (scale, sensitivity) = ((1u64 << lattice_bits) as f64, lattice_sensitivity as f64);
        SummedNoise {
            lattice_bits,
            lattice_sensitivity,
            sensitivity: sensitivity * unit,
            noise_std: scale * unit,
        }
    }

    /// The event that the release was: one Gaussian, in lattice units.
    pub fn event(&self) -> Result<Event, ParameterError> {
        Ok(Event::GaussianDiameter {
            sensitivity: L2Sensitivity::new(self.lattice_sensitivity as f64)?,
            noise_std: NoiseStd::new(self.scale())?,
        })
    }

    /// 2^k.
    fn scale(&self) -> f64 {
        (1u64 << self.lattice_bits.min(63)) as f64
    }

    /// Checks that the numbers belong together, for a sum over so many units.
    pub fn check(&self, units: u64) -> Result<(), Inconsistency> {
        if !(16..=44).contains(&self.lattice_bits) {
            return Err(Inconsistency::new("lattice_bits", "from 16 to 44"));
        }
        // Below 2^53 the integer is a double.
        if !(1..1 << 53).contains(&self.lattice_sensitivity) {
            return Err(Inconsistency::new("lattice_sensitivity", "from 1 to 2^53"));
        }
        check_range(units, self.lattice_sensitivity)?;
        let (integers, reals) =
            (self.scale() / self.lattice_sensitivity as f64, self.noise_std / self.sensitivity);
        if !((reals / integers - 1.0).abs() <= 1e-9) {
            return Err(Inconsistency::new(
                "noise_std",
                "sensitivity times 2^lattice_bits / lattice_sensitivity",
            ));
        }
        Ok(())
    }
}

/// A sum that wraps around would be moved by more than one unit can move it.
pub(crate) fn check_range(units: u64, each: u64) -> Result<(), Inconsistency> {
    if u128::from(units) * u128::from(each) < 1 << 62 {
        return Ok(());
    }
    Err(Inconsistency::new("units", "so few that a sum over all of them stays below 2^62 on the lattice"))
}

/// A unit counts 1, and public rows count beside them.
pub(crate) fn check_total_weight(total_weight: f64, units: u64) -> Result<(), Inconsistency> {
    if total_weight.is_finite() && total_weight >= units as f64 {
        return Ok(());
    }
    Err(Inconsistency::new("total_weight", "at least the number of units"))
}
