//! What a certificate says about the mechanism: enough for anyone to rebuild its event and check its numbers.

use crate::mechanisms::Inconsistency;
use crate::mechanisms::noisy_statistics::{LabelSteps, check_movement};
use crate::mechanisms::summed_noise::{SummedNoise, check_total_weight};
use halflit_privacy::{Change, Event, ParameterError};
use serde::{Deserialize, Serialize};

/// The facts of a release of value statistics that privacy depends on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    /// How a unit may change; decides the sensitivity.
    pub change: Change,
    /// Whether the sum went through a public matrix that shapes the noise; then sensitivity and noise are those of its image.
    pub is_shaped: bool,
    /// The largest norm of a unit's public numbers, or of their image: the maximum over the private rows or users, rounded up.
    pub unit_norm: f64,
    /// The noise, and how far one unit can move the sum: its norm times how far two joint values are from each other, or one from the middle.
    pub noise: SummedNoise,
    /// k: number of joint values of the sensitive columns.
    pub values: u64,
    /// Number of released numbers: values times public numbers of a row.
    pub released: u64,
    /// Number of protected units, a public constant.
    pub units: u64,
    /// What sums are divided by, a public constant.
    pub total_weight: f64,
    /// The l2 penalty of the model.
    pub regularization: f64,
    /// Radius of the ball that the weights stay in, if declared.
    pub radius: Option<f64>,
}

impl Statement {
    /// The event that the release was: one Gaussian, in lattice units.
    pub fn event(&self) -> Result<Event, ParameterError> {
        self.noise.event()
    }

    /// Checks that the numbers belong together.
    pub fn check(&self) -> Result<(), Inconsistency> {
        self.noise.check(self.units)?;
        if !(self.values >= 2 && self.released >= self.values && self.released.is_multiple_of(self.values)) {
            return Err(Inconsistency::new("released", "a multiple of the number of values, at least 2"));
        }
        check_movement(
            LabelSteps::Classes { classes: self.values },
            self.change,
            self.unit_norm,
            &self.noise,
        )?;
        check_total_weight(self.total_weight, self.units)
    }
}
