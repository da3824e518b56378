//! Which parts go together: the same rules for what a caller asks for and for what a certificate states.

use super::parts::{Centre, Clip, Combiner, Descent, DescentChoice, PublicPart, Sampling, Start};
use super::{Params, Split, modes};
use crate::mechanisms::MechanismError;
use crate::problem::{Problem, UnitWeighting};

/// Refuses parts that do not fit the problem or each other, and numbers outside their ranges.
pub(super) fn check(problem: &Problem, params: &Params) -> Result<(), MechanismError> {
    let positive = |name: &'static str, value: Option<f64>| match value {
        Some(value) if !(value.is_finite() && value > 0.0) => Err(MechanismError::not_positive(name, value)),
        _ => Ok(()),
    };
    let fixed_clip = match params.clip {
        Some(Clip::Fixed { norm }) => Some(norm),
        _ => None,
    };
    positive("clip norm", fixed_clip)?;
    positive("hidden weight", params.hidden_weight)?;
    positive("budget growth", params.budget_growth)?;
    let parts = Parts::of(problem, params)?;
    if parts.use_public_rows() && problem.facts().public_rows == 0 {
        return Err(MechanismError::NoPublicRows);
    }
    parts.go_together().map_err(|(part, needs)| MechanismError::part(part, needs))?;
    match params.descent {
        Some(DescentChoice::Momentum { step_size, .. }) => positive("step size", step_size)?,
        Some(DescentChoice::Preconditioned { step_size, ridge, .. }) => {
            positive("step size", step_size)?;
            positive("ridge", ridge)?;
            if !modes::has_pda_md(problem) {
                return Err(MechanismError::part(
                    "the public preconditioner",
                    "squared loss, at most 4096 weights and public rows that are not all zero",
                ));
            }
        }
        Some(DescentChoice::Accelerated { damping }) => positive("damping", damping)?,
        Some(DescentChoice::Posterior) => {
            let is_regression = problem.loss().name() == "squared";
            if !(is_regression && problem.unit_weighting() == UnitWeighting::SingleRow) {
                return Err(MechanismError::part("the posterior descent", "squared loss and rows as units"));
            }
        }
        Some(DescentChoice::Newton) | None => {}
    }
    match params.sampling {
        Some(Sampling::OnePass { batches }) if params.steps.is_some_and(|steps| steps > batches.get()) => {
            Err(MechanismError::part("one pass", "no more steps than batches"))
        }
        Some(Sampling::OnePass { .. }) if problem.private_units() >= u64::from(u32::MAX) => {
            Err(MechanismError::part("one pass", "a declared number of units below 2^32 - 1"))
        }
        _ => Ok(()),
    }
}

/// The parts of a run as far as they depend on each other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts {
    pub centre: Centre,
    pub hidden_weight: f64,
    /// Whether the known part has a rate of its own.
    pub has_known_rate: bool,
    /// Poisson batches, or one pass.
    pub is_sampled: bool,
    /// Whether steps have different budgets.
    pub is_growing: bool,
    pub clip: Clip,
    pub combiner: Combiner,
    pub public: PublicPart,
    pub start: Start,
    pub descent: Descends,
}

/// How a descent depends on other parts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Descends {
    /// By gradients alone; the share of the velocity that survives a step.
    Plainly {
        momentum: f64,
    },
    Preconditioned,
    Newton,
    Posterior,
}

impl From<Descent> for Descends {
    fn from(descent: Descent) -> Self {
        match descent {
            Descent::Momentum { momentum, .. } => Descends::Plainly { momentum },
            Descent::Accelerated { .. } => Descends::Plainly { momentum: 0.0 },
            Descent::Preconditioned { .. } => Descends::Preconditioned,
            Descent::Newton { .. } => Descends::Newton,
            Descent::Posterior => Descends::Posterior,
        }
    }
}

impl Parts {
    /// As asked for; what is left open stands for its default.
    fn of(problem: &Problem, params: &Params) -> Result<Self, MechanismError> {
        let default_centre = match Split::of(problem, params.centre)? {
            Split::Nothing => Centre::Zero,
            _ => Centre::Midrange,
        };
        let descent = match params.descent {
            None | Some(DescentChoice::Accelerated { .. }) => Descends::Plainly { momentum: 0.0 },
            Some(DescentChoice::Momentum { momentum, .. }) => {
                Descends::Plainly { momentum: momentum.unwrap_or(0.0) }
            }
            Some(DescentChoice::Preconditioned { .. }) => Descends::Preconditioned,
            Some(DescentChoice::Newton) => Descends::Newton,
            Some(DescentChoice::Posterior) => Descends::Posterior,
        };
        Ok(Parts {
            centre: params.centre.unwrap_or(default_centre),
            hidden_weight: params.hidden_weight.unwrap_or(1.0),
            has_known_rate: params.known_rate.is_some(),
            is_sampled: matches!(params.sampling, Some(Sampling::Poisson(_) | Sampling::OnePass { .. })),
            is_growing: params.budget_growth.is_some_and(|growth| growth != 1.0),
            clip: params.clip.unwrap_or(Clip::Fixed { norm: 1.0 }),
            combiner: params.combiner.unwrap_or(Combiner::Sum),
            public: params.public.unwrap_or_default(),
            start: params.start.unwrap_or_default(),
            descent,
        })
    }

    /// The first part that does not fit, and what it needs.
    pub fn go_together(&self) -> Result<(), (&'static str, &'static str)> {
        let is_around_public_cells = matches!(self.centre, Centre::Midrange | Centre::Imputed);
        let takes_all = !self.is_sampled && self.combiner == Combiner::Sum;
        let rules = [
            (
                "a clip quantile",
                "a level strictly between 0 and 1",
                !matches!(self.clip, Clip::Quantile { level } if !(level > 0.0 && level < 1.0)),
            ),
            (
                "the residual scale",
                "the posterior descent; or take a clip quantile",
                self.clip != Clip::ResidualScale || self.descent == Descends::Posterior,
            ),
            (
                "a constant weight",
                "an alpha between 0 and 1",
                !matches!(self.combiner, Combiner::Constant { alpha } if !(0.0..=1.0).contains(&alpha)),
            ),
            (
                "momentum",
                "a share of at least 0 and below 1",
                !matches!(self.descent, Descends::Plainly { momentum } if !(0.0..1.0).contains(&momentum)),
            ),
            (
                "a hidden weight",
                "the centre midrange or imputed",
                self.hidden_weight == 1.0 || is_around_public_cells,
            ),
            (
                "a rate of the known part",
                "the centre midrange or imputed",
                !self.has_known_rate || is_around_public_cells,
            ),
            (
                "a growing budget",
                "full batches: sampled steps must be alike",
                !(self.is_growing && self.is_sampled),
            ),
            (
                "public rows treated as private",
                "the centre zero, no weight alpha, and steps along gradients alone",
                self.public != PublicPart::AsPrivate
                    || (self.centre == Centre::Zero
                        && self.combiner == Combiner::Sum
                        && matches!(self.descent, Descends::Plainly { .. })),
            ),
            (
                "Newton steps",
                "full batches, no weight alpha, and a start at the public rows' own fit",
                self.descent != Descends::Newton || (takes_all && self.start == Start::PublicMinimizer),
            ),
            (
                "the posterior descent",
                "full batches, the centre zero, the residual scale as clip rule, a start at the public rows' own fit, all public rows as they are",
                self.descent != Descends::Posterior
                    || (takes_all
                        && self.centre == Centre::Zero
                        && self.clip == Clip::ResidualScale
                        && self.start == Start::PublicMinimizer
                        && self.public == PublicPart::default()),
            ),
        ];
        rules.into_iter().find(|(_, _, holds)| !holds).map_or(Ok(()), |(part, needs, _)| Err((part, needs)))
    }

    /// Whether they mean nothing without public rows.
    pub fn use_public_rows(&self) -> bool {
        self.start == Start::PublicMinimizer
            || self.centre == Centre::PublicMean
            || self.combiner != Combiner::Sum
            || !matches!(self.descent, Descends::Plainly { .. })
            || matches!(self.public, PublicPart::Mean { batch: Some(_), .. })
    }
}
