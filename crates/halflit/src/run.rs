//! Running a charged plan: the only place where sealed cells are opened.

use crate::ledger::{Charged, Receipt};
use crate::mechanisms::{MechanismError, Watch};
use crate::plan::Plan;
use halflit_noise::NoiseSource;

/// The noisy weights and how they came about. Not yet a release: [`RawOutput::release`](crate::release) makes the files.
#[derive(Debug)]
pub struct RawOutput {
    pub(crate) plan: Plan,
    pub(crate) receipt: Receipt,
    /// One vector per output.
    pub(crate) weights: Vec<Vec<f64>>,
    pub(crate) is_seeded: bool,
}

impl Charged<Plan> {
    /// Runs the mechanism. Consumes the plan: one charge, one run.
    ///
    /// # Errors
    /// [`MechanismError::Interrupted`] if the watch breaks; sizes and shapes otherwise. The charge stays in every case.
    pub fn run(self, source: &mut NoiseSource, watch: &mut dyn Watch) -> Result<RawOutput, MechanismError> {
        let Charged { plan, receipt, key } = self;
        let weights = plan.mechanism.run(&plan.problem, &key, source, watch)?;
        let width = plan.problem.encoding().width();
        let weights = weights.chunks(width.max(1)).map(<[f64]>::to_vec).collect();
        Ok(RawOutput { plan, receipt, weights, is_seeded: source.is_seeded() })
    }
}

impl RawOutput {
    /// What the ledger wrote down for this run.
    pub fn receipt(&self) -> &Receipt {
        &self.receipt
    }
}
