//! What a certificate says about the mechanism: enough for anyone to rebuild its event and check its numbers.

use super::answerer::Settings;
use super::centred::Centring;
use super::noise::{AnswerNoise, TestNoise, block_event, paper_rho, zcdp_rho};
use super::optimizer::Optimizer;
use crate::mechanisms::Inconsistency;
use crate::mechanisms::summed_noise::check_range;
use halflit_privacy::{Change, Event, ParameterError};
use serde::{Deserialize, Serialize};

/// The facts of a run that privacy depends on, and those needed to repeat it on the same data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    /// How a unit may change: always replace, one row's sensitive cells.
    pub change: Change,
    /// k: how many values the sensitive cells of a row can take together.
    pub values: u64,
    /// Number of private rows, public under replace.
    pub rows: u64,
    /// What was released.
    pub releases: Releases,
    /// The Gaussian noise of an answer.
    pub answer: AnswerNoise,
    /// How answers became weights.
    pub optimizer: Optimizer,
    /// The l2 penalty.
    pub regularization: f64,
    /// Radius of the ball that the weights stay in, if declared.
    pub radius: Option<f64>,
    /// How the free parameters were chosen.
    pub chosen: Chosen,
}

/// What was released.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "variant", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Releases {
    /// Online answers: a threshold test per query, an answer and a size per update.
    Online {
        /// The Laplace noise of the test and of the size.
        test: TestNoise,
        /// What steers the updates; `max_updates` blocks are charged.
        settings: Settings,
        /// rho of zero-concentrated privacy of the same blocks, for comparison.
        zcdp_rho: f64,
        /// What the paper charges for the same noise: 2/sigma^2 per Gaussian instead of 1/(2 sigma^2).
        paper_rho: f64,
    },
    /// One answer per step.
    Centred {
        /// How answers are used.
        centring: Centring,
    },
}

/// Where the free parameters come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Chosen {
    /// The formulas of the paper.
    Paper,
    /// A rehearsal on made-up sensitive cells.
    Rehearsal,
    /// The caller.
    Caller,
}

impl Statement {
    /// The event that this run was: all blocks or steps, whether or not they happened.
    pub fn event(&self) -> Result<Event, ParameterError> {
        match &self.releases {
            Releases::Online { test, settings, .. } => block_event(test, &self.answer, settings.max_updates),
            Releases::Centred { .. } => self.answer.event()?.repeated(self.optimizer.steps()),
        }
    }

    /// Checks that the numbers belong together.
    pub fn check(&self) -> Result<(), Inconsistency> {
        if self.change != Change::Replace {
            return Err(Inconsistency::new("change", "replace"));
        }
        if self.values < 2 || self.rows == 0 {
            return Err(Inconsistency::new("values and rows", "at least 2 values and 1 row"));
        }
        self.answer.check()?;
        check_range(self.rows, self.answer.radius)?;
        match &self.releases {
            Releases::Online { test, settings, zcdp_rho: rho, paper_rho: paper } => {
                test.check()?;
                if settings.check().is_err() {
                    return Err(Inconsistency::new("settings", "finite and positive"));
                }
                let same = |expected: Result<halflit_privacy::Rho, ParameterError>, stated: f64| {
                    expected.is_ok_and(|expected| (stated / expected.get() - 1.0).abs() <= 1e-9)
                };
                if !same(zcdp_rho(test, &self.answer, settings.max_updates), *rho)
                    || !same(paper_rho(test, &self.answer, settings.max_updates), *paper)
                {
                    return Err(Inconsistency::new("rho", "that of the stated noise"));
                }
                Ok(())
            }
            Releases::Centred { centring } => centring
                .check()
                .map_err(|_| Inconsistency::new("centring", "finite, positive, trust at most 1")),
        }
    }
}
