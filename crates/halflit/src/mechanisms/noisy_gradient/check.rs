//! Which parts go together.

use super::parts::{Centre, Clip, Combiner, DescentChoice, PublicPart, Sampling, Start};
use super::{Params, Split, modes};
use crate::mechanisms::MechanismError;
use crate::problem::{Problem, UnitWeighting};

/// Refuses parts that do not fit the problem or each other, and numbers outside their ranges.
pub(super) fn check(problem: &Problem, params: &Params) -> Result<(), MechanismError> {
    let positive = |name: &'static str, value: f64| {
        if value.is_finite() && value > 0.0 { Ok(()) } else { Err(MechanismError::not_positive(name, value)) }
    };
    let is_sampled = matches!(params.sampling, Some(Sampling::Poisson(_) | Sampling::OnePass { .. }));
    let has_public_rows = problem.facts().public_rows > 0;
    let is_regression = problem.loss().name() == "squared";
    match params.clip {
        Some(Clip::Fixed { norm }) => positive("clip norm", norm)?,
        Some(Clip::Quantile { level }) if !(level > 0.0 && level < 1.0) => {
            return Err(MechanismError::part("a clip quantile", "a level strictly between 0 and 1"));
        }
        Some(Clip::ResidualScale) if params.descent != Some(DescentChoice::Posterior) => {
            return Err(MechanismError::part(
                "the residual scale",
                "the posterior descent; or take a clip quantile",
            ));
        }
        _ => {}
    }
    if params.clip.is_some_and(Clip::is_measured) && Split::of(problem, params.centre)? != Split::Nothing {
        return Err(MechanismError::part(
            "a measured clip norm",
            "the centre zero, public-mean or last-release",
        ));
    }
    if let Some(weight) = params.hidden_weight {
        positive("hidden weight", weight)?;
        if Split::of(problem, params.centre)? == Split::Nothing {
            return Err(MechanismError::part("a hidden weight", "the centre midrange or imputed"));
        }
    }
    if let Some(growth) = params.budget_growth {
        positive("budget growth", growth)?;
        if growth != 1.0 && is_sampled {
            return Err(MechanismError::part(
                "a growing budget",
                "full batches: sampled steps must be alike",
            ));
        }
    }
    match params.sampling {
        Some(Sampling::OnePass { batches }) if params.steps.is_some_and(|steps| steps > batches.get()) => {
            return Err(MechanismError::part("one pass", "no more steps than batches"));
        }
        Some(Sampling::OnePass { .. }) if problem.private_units() >= u64::from(u32::MAX) => {
            return Err(MechanismError::part("one pass", "a declared number of units below 2^32 - 1"));
        }
        _ => {}
    }
    if matches!(params.combiner, Some(Combiner::Constant { alpha }) if !(0.0..=1.0).contains(&alpha)) {
        return Err(MechanismError::part("a constant weight", "an alpha between 0 and 1"));
    }
    let needs_public_rows = params.start == Some(Start::PublicMinimizer)
        || params.centre == Some(Centre::PublicMean)
        || params.combiner == Some(Combiner::Automatic)
        || params.descent.is_some_and(DescentChoice::needs_public_rows);
    if needs_public_rows && !has_public_rows {
        return Err(MechanismError::NoPublicRows);
    }
    if params.public == Some(PublicPart::AsPrivate)
        && !(matches!(params.combiner, None | Some(Combiner::Sum)) && params.centre == Some(Centre::Zero))
    {
        return Err(MechanismError::part(
            "public rows treated as private",
            "the centre zero and no weight alpha",
        ));
    }
    let given = |name: &'static str, value: Option<f64>| value.map_or(Ok(()), |value| positive(name, value));
    match params.descent {
        Some(DescentChoice::Momentum { step_size, momentum, .. }) => {
            given("step size", step_size)?;
            if !momentum.is_none_or(|momentum| (0.0..1.0).contains(&momentum)) {
                return Err(MechanismError::part("momentum", "a share of at least 0 and below 1"));
            }
        }
        Some(DescentChoice::Preconditioned { step_size, ridge, .. }) => {
            given("step size", step_size)?;
            given("ridge", ridge)?;
            if !modes::has_pda_md(problem) {
                return Err(MechanismError::part(
                    "the public preconditioner",
                    "squared loss and at most 4096 weights",
                ));
            }
        }
        Some(DescentChoice::Newton) if is_sampled || params.combiner.is_some() => {
            return Err(MechanismError::part("Newton steps", "full batches and no weight alpha"));
        }
        Some(DescentChoice::Newton) => {}
        Some(DescentChoice::Accelerated { damping }) => given("damping", damping)?,
        Some(DescentChoice::Posterior) => {
            let is_plain = params.centre == Some(Centre::Zero)
                && !is_sampled
                && params.clip == Some(Clip::ResidualScale)
                && problem.unit_weighting() == UnitWeighting::SingleRow
                && matches!(params.combiner, None | Some(Combiner::Sum));
            if !(is_plain && is_regression) {
                return Err(MechanismError::part(
                    "the posterior descent",
                    "squared loss, rows as units, full batches, the centre zero, the residual scale as clip rule",
                ));
            }
        }
        None => {}
    }
    Ok(())
}
