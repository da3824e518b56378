//! What a certificate says about the mechanism: enough for anyone to rebuild its event and check its numbers.

use super::lattice::{LabelSteps, check_movement};
use crate::mechanisms::Inconsistency;
use crate::mechanisms::summed_noise::{SummedNoise, check_total_weight};
use halflit_privacy::{Change, Event, ParameterError};
use serde::{Deserialize, Serialize};

/// The facts of a release of label statistics that privacy depends on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    /// How a unit may change; decides the sensitivity.
    pub change: Change,
    /// Whether the sum went through a public matrix that shapes the noise (it is part of statistics.json); then sensitivity and noise are those of its image.
    pub is_shaped: bool,
    /// What labels may be.
    pub labels: LabelSteps,
    /// The largest norm of a unit's features, or of their image: the maximum over the private rows or users, rounded up.
    pub unit_norm: f64,
    /// The noise, and how far one unit can move the sum: its norm times how far labels are from each other, or from the middle.
    pub noise: SummedNoise,
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
        self.noise.event()
    }

    /// Checks that the numbers belong together.
    pub fn check(&self) -> Result<(), Inconsistency> {
        self.noise.check(self.units)?;
        check_movement(self.labels, self.change, self.unit_norm, &self.noise)?;
        check_total_weight(self.total_weight, self.units)
    }
}
