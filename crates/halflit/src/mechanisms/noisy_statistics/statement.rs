//! What a certificate says about the mechanism: enough for anyone to rebuild its event and check its numbers.

use crate::mechanisms::Inconsistency;
use halflit_privacy::{Change, Event, L2Sensitivity, NoiseStd, ParameterError};
use serde::{Deserialize, Serialize};

/// The facts of a release of label statistics that privacy depends on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    /// How a unit may change; decides the sensitivity.
    pub change: Change,
    /// Whether the sum went through a public matrix that shapes the noise (it is part of statistics.json); then sensitivity and noise are those of its image.
    pub is_shaped: bool,
    /// k: the noise is round(2^k Z) lattice units.
    pub lattice_bits: u32,
    /// How far one unit can move the integer sum, in lattice units: the maximum over the private rows or users, from their public features.
    pub lattice_sensitivity: u64,
    /// The same in real units.
    pub sensitivity: f64,
    /// Noise standard deviation of each coordinate of the sum, in real units.
    pub noise_std: f64,
    /// Number of released coordinates.
    pub coordinates: u64,
    /// Number of protected units, a public constant.
    pub units: u64,
    /// What sums are divided by, a public constant.
    pub total_weight: f64,
    /// Radius of the ball that the weights stay in, if declared.
    pub radius: Option<f64>,
}

impl Statement {
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

    /// Checks that the numbers belong together.
    pub fn check(&self) -> Result<(), Inconsistency> {
        if !(16..=44).contains(&self.lattice_bits) {
            return Err(Inconsistency::new("lattice_bits", "from 16 to 44"));
        }
        // Below 2^53 the integer is a double.
        if !(1..1 << 53).contains(&self.lattice_sensitivity) {
            return Err(Inconsistency::new("lattice_sensitivity", "from 1 to 2^53"));
        }
        let (integers, reals) =
            (self.scale() / self.lattice_sensitivity as f64, self.noise_std / self.sensitivity);
        if !((reals / integers - 1.0).abs() <= 1e-9) {
            return Err(Inconsistency::new(
                "noise_std",
                "sensitivity times 2^lattice_bits / lattice_sensitivity",
            ));
        }
        if !(self.total_weight.is_finite() && self.total_weight >= self.units as f64) {
            return Err(Inconsistency::new("total_weight", "at least the number of units"));
        }
        Ok(())
    }
}
