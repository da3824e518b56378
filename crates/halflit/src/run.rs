//! Running a charged plan: the only place where sealed cells are opened.

use crate::ledger::{Charged, Receipt};
use crate::mechanisms::{Fitted, MechanismError, Watch};
use crate::plan::Plan;
use crate::problem::Problem;
use halflit_noise::NoiseSource;

/// The noisy weights and how they came about. Not yet a release: [`RawOutput::release`](crate::release) makes the files.
#[derive(Debug)]
pub struct RawOutput {
    pub(crate) plan: Plan,
    pub(crate) receipt: Receipt,
    /// The weights, and what the mechanism says about them.
    pub(crate) fitted: Fitted,
    pub(crate) is_seeded: bool,
}

impl Charged<Plan> {
    /// Runs the mechanism. Consumes the plan: one charge, one run.
    ///
    /// # Errors
    /// [`MechanismError::Interrupted`] if the watch breaks; sizes and shapes otherwise. The charge stays in every case.
    pub fn run(self, source: &mut NoiseSource, watch: &mut dyn Watch) -> Result<RawOutput, MechanismError> {
        let Charged { plan, receipt, key } = self;
        refuse_rehearsal(source)?;
        let fitted = plan.mechanism.run(&plan.problem, &key, source, watch)?;
        Ok(RawOutput { plan, receipt, fitted, is_seeded: source.is_seeded() })
    }
}

/// Numbers that follow from public data protect nobody.
pub(crate) fn refuse_rehearsal(source: &NoiseSource) -> Result<(), MechanismError> {
    if source.is_rehearsal() { Err(MechanismError::RehearsalNoise) } else { Ok(()) }
}

impl RawOutput {
    /// The noisy weights on encoded columns, output after output: a function of releases and public cells.
    pub fn weights(&self) -> &[f64] {
        &self.fitted.weights
    }

    /// The problem, still sealed, for another plan.
    pub fn into_problem(self) -> Problem {
        self.plan.problem
    }

    /// What the ledger wrote down for this run.
    pub fn receipt(&self) -> &Receipt {
        &self.receipt
    }
}
