//! Choosing the descent: steps, step sizes, and what is expected of them.

use super::clip_norm::default_clip_norm;
use super::levels::Noise;
use super::newton::{self, Curvature, no_curvature};
use super::parts::{Average, Clip, Combiner, Descent, DescentChoice, PublicPart, Sampling, Start};
use super::plan::Plan;
use super::posterior::{self, Shape, equivalent_rows};
use super::public::{Length, PublicRows};
use super::sampler::PublicBatch;
use super::schedule::{self, Scales, Schedule};
use super::statement::Takers;
use super::{Params, Split};
use crate::mechanisms::{MechanismError, prior_radius, public_rows};
use crate::problem::Problem;
use halflit_convex::kernel::LatticeWeights;
use halflit_privacy::calibrate::Budget;
use std::num::NonZeroU64;

/// The ridge of the public preconditioner, in mean second moments of a public feature.
const RIDGE: f64 = 0.01;

/// Calibrates the noise of so many steps, growing so much.
type Calibrate<'a> = dyn Fn(NonZeroU64, f64) -> Result<Noise, MechanismError> + 'a;

impl Plan {
    /// The given descent; or Newton steps from the public fit where there are some, else momentum as the schedule advises.
    pub(super) fn choose_descent(
        &mut self,
        problem: &Problem,
        params: &Params,
        single_multiplier: f64,
        calibrated: &Calibrate<'_>,
    ) -> Result<Noise, MechanismError> {
        match params.descent {
            Some(DescentChoice::Posterior) => self.choose_posterior(problem, params, calibrated),
            Some(DescentChoice::Preconditioned { step_size, ridge, average }) => {
                self.choose_preconditioned(problem, params, (step_size, ridge, average), calibrated)
            }
            Some(DescentChoice::Newton) => {
                let curvature = public_curvature(problem)?.ok_or_else(no_curvature)?;
                self.choose_newton(problem, params, &curvature, calibrated)
            }
            Some(DescentChoice::Momentum { .. } | DescentChoice::Accelerated { .. }) => {
                self.choose_steps(problem, params, single_multiplier, calibrated)
            }
            None => {
                let is_plain = self.sampling == Sampling::FullBatch && self.combiner == Combiner::Sum;
                match public_curvature(problem)? {
                    Some(curvature) if is_plain && self.start == Start::PublicMinimizer => {
                        self.choose_newton(problem, params, &curvature, calibrated)
                    }
                    _ => self.choose_steps(problem, params, single_multiplier, calibrated),
                }
            }
        }
    }

    /// The posterior descent: a fixed number of steps.
    fn choose_posterior(
        &mut self,
        problem: &Problem,
        params: &Params,
        calibrated: &Calibrate<'_>,
    ) -> Result<Noise, MechanismError> {
        let (rows, labels) = problem.public_data();
        let public = PublicRows::new(problem.loss(), rows, labels, problem.row_norm_bound())?
            .ok_or(MechanismError::NoPublicRows)?;
        let shape = Shape::of(&public, problem.dimension())?;
        if !shape.is_certain() {
            return Err(MechanismError::part(
                "the posterior descent",
                "enough public rows to see whether their second moments are the same in every direction; take another descent",
            ));
        }
        if !shape.is_round() {
            return Err(MechanismError::part(
                "the posterior descent",
                "public rows whose second moments are about the same in every direction; take another descent",
            ));
        }
        self.curvature = shape.curvature;
        let default = posterior::default_steps(public.len(), problem.dimension());
        let (steps, noise) = calibrated_steps(params, default, calibrated)?;
        self.steps = steps.get();
        // Every private row is worth a part of a public one: phi d / 2n.
        let precision: f64 = noise.levels.iter().map(|(s, steps)| *steps as f64 / (s * s)).sum();
        let dimension = problem.dimension() as f64;
        let worth = equivalent_rows(problem.private_units() as f64, dimension, precision.sqrt());
        let phi = public_rows::dispersion(problem)?;
        self.predicted_excess = 0.5 * phi * dimension / (public.len() as f64 + worth);
        Ok(noise)
    }

    /// Newton steps with the public rows' curvature.
    fn choose_newton(
        &mut self,
        problem: &Problem,
        params: &Params,
        curvature: &Curvature,
        calibrated: &Calibrate<'_>,
    ) -> Result<Noise, MechanismError> {
        let (steps, noise) = calibrated_steps(params, newton::STEPS, calibrated)?;
        let noise_per_step =
            self.typical_clip_norm(problem)? * noise.root_mean_square() / problem.total_weight();
        self.steps = steps.get();
        self.descent = Descent::Newton { noise: noise_per_step };
        if is_predictable(params) {
            let in_one = noise_per_step / (self.steps as f64).sqrt();
            self.predicted_excess = curvature.excess_of_newton(self.steps, in_one);
        }
        Ok(noise)
    }

    /// Plain steps along gradients that the public rows precondition.
    fn choose_preconditioned(
        &mut self,
        problem: &Problem,
        params: &Params,
        (step_size, ridge, average): (Option<f64>, Option<f64>, Average),
        calibrated: &Calibrate<'_>,
    ) -> Result<Noise, MechanismError> {
        let default = match self.sampling {
            Sampling::OnePass { batches } => batches.get(),
            Sampling::FullBatch | Sampling::Poisson(_) => newton::STEPS,
        };
        let (steps, noise) = calibrated_steps(params, default, calibrated)?;
        self.steps = steps.get();
        let (rows, labels) = problem.public_data();
        let public = PublicRows::new(problem.loss(), rows, labels, problem.row_norm_bound())?
            .ok_or(MechanismError::NoPublicRows)?;
        let ridge = ridge.unwrap_or(RIDGE * public.mean_squared_norm() / problem.dimension() as f64);
        let step_size = match (step_size, public_curvature(problem)?) {
            (Some(step_size), _) => step_size,
            (None, Some(curvature)) => {
                let noise_per_step = self.noise_per_step(problem, &noise)?;
                let units = problem.private_units() as f64;
                let (step_size, excess) =
                    curvature.best_preconditioned(ridge, units, self.steps, noise_per_step);
                let is_papers = self.start == Start::PublicMinimizer
                    && self.sampling == Sampling::FullBatch
                    && self.combiner == Combiner::Constant { alpha: 1.0 }
                    && average == Average::Last;
                let is_safe = curvature.shows_all_directions(problem.facts().public_rows);
                if params.clip.is_none() && is_papers && is_safe {
                    self.predicted_excess = excess;
                }
                step_size
            }
            // The preconditioner has no eigenvalue above 1: what is stable without it is stable with it.
            (None, None) => 1.0 / smoothness(problem),
        };
        self.descent = Descent::Preconditioned { step_size, ridge, average };
        Ok(noise)
    }

    /// Momentum or accelerated steps, by default as the schedule advises.
    fn choose_steps(
        &mut self,
        problem: &Problem,
        params: &Params,
        single_multiplier: f64,
        calibrated: &Calibrate<'_>,
    ) -> Result<Noise, MechanismError> {
        let is_warm = self.start == Start::PublicMinimizer;
        let guess = public_rows::weights_norm(problem)?;
        let scales = Scales {
            dimension: problem.dimension(),
            single_release_noise: self.typical_clip_norm(problem)? * single_multiplier
                / self.private_weight(problem),
            smoothness: smoothness(problem),
            prior_radius: if is_warm {
                public_uncertainty(problem)?.hypot(newton::left_open(problem)?).min(guess)
            } else {
                guess
            },
        };
        let curvature = public_curvature(problem)?;
        let mut best: Option<(Schedule, Noise, f64)> = None;
        for steps in candidate_steps(&scales, params, self.sampling) {
            let noise = calibrated(steps, params.budget_growth.unwrap_or(1.0))?;
            let noise_per_step = self.noise_per_step(problem, &noise)?;
            // All steps together are as noisy as one release of this noise; sampled ones are noisier than full ones.
            let single_release_noise = noise_per_step / (steps.get() as f64).sqrt();
            let schedule = Schedule::with_steps(&Scales { single_release_noise, ..scales }, steps.get());
            let predicted = match &curvature {
                Some(curvature) if self.start == Start::Zero => {
                    curvature.excess_of_descent(schedule.time(), single_release_noise)
                }
                _ => schedule.predicted_excess(&scales, noise_per_step),
            };
            if best.is_none() || predicted < self.predicted_excess {
                self.predicted_excess = predicted;
                best = Some((schedule, noise, noise_per_step));
            }
        }
        if !is_predictable(params) {
            self.predicted_excess = f64::INFINITY;
        }
        let (schedule, noise, noise_per_step) =
            best.ok_or(MechanismError::not_positive("number of steps", 0.0))?;
        self.steps = schedule.steps;
        self.descent = match params.descent {
            Some(DescentChoice::Accelerated { damping }) => {
                let variance = self.gradient_variance(problem, noise_per_step)?;
                let advised = default_damping(&scales, schedule.steps, variance, self.lambda);
                Descent::Accelerated { damping: damping.unwrap_or(advised), strong_convexity: self.lambda }
            }
            Some(DescentChoice::Momentum { step_size, momentum, average }) => {
                let (step_size, momentum) = steps_of(schedule, &scales, step_size, momentum);
                Descent::Momentum { step_size, momentum, average }
            }
            _ => Descent::Momentum {
                step_size: schedule.step_size,
                momentum: schedule.momentum,
                average: Average::Suffix,
            },
        };
        Ok(noise)
    }

    /// The clip norm; the default stands in for one that will be measured.
    fn typical_clip_norm(&self, problem: &Problem) -> Result<f64, MechanismError> {
        match self.clip {
            Clip::Fixed { norm } => Ok(norm),
            Clip::Quantile { .. } | Clip::ResidualScale => default_clip_norm(problem, self.split),
        }
    }

    /// What a sum over all private units is divided by before it counts in a step.
    fn private_weight(&self, problem: &Problem) -> f64 {
        let weight = match self.combiner {
            Combiner::Constant { alpha } => problem.private_units() as f64 / alpha,
            Combiner::Sum | Combiner::Automatic => problem.total_weight(),
        };
        weight / self.hidden_weight
    }

    /// The variance of a step's gradient: noise in every coordinate, and the spread of the gradients of a batch as the public rows show it; without public
    /// rows their squared bound stands for it.
    fn gradient_variance(&self, problem: &Problem, noise_per_step: f64) -> Result<f64, MechanismError> {
        let (rows, labels) = problem.public_data();
        let public = PublicRows::new(problem.loss(), rows, labels, problem.row_norm_bound())?;
        let spread = match &public {
            Some(public) => {
                let at = LatticeWeights::new(&self.starting_point(problem)?, problem.loss().outputs())?;
                public.gradient(&at, &PublicBatch::all(), Length::AsItIs)?.variance
            }
            None => self.typical_clip_norm(problem)?.powi(2),
        };
        let batch = self.sampling.share() * self.private_weight(problem);
        Ok(problem.dimension() as f64 * noise_per_step.powi(2) + spread / batch)
    }

    /// The standard deviation that noise puts on every coordinate of a step's gradient.
    fn noise_per_step(&self, problem: &Problem, noise: &Noise) -> Result<f64, MechanismError> {
        let weight = self.sampling.share() * self.private_weight(problem);
        Ok(self.typical_clip_norm(problem)? * noise.root_mean_square() / weight)
    }
}

/// So many steps as are given, or the default, and their noise.
fn calibrated_steps(
    params: &Params,
    default: u64,
    calibrated: &Calibrate<'_>,
) -> Result<(NonZeroU64, Noise), MechanismError> {
    let steps = NonZeroU64::new(params.steps.unwrap_or(default))
        .ok_or(MechanismError::not_positive("number of steps", 0.0))?;
    Ok((steps, calibrated(steps, params.budget_growth.unwrap_or(1.0))?))
}

/// A bound on the curvature of the mean loss.
fn smoothness(problem: &Problem) -> f64 {
    schedule::curvature(problem.loss()) * problem.row_norm_bound().powi(2)
}

/// The predicted excess of the mean loss if the public rows were not there: the default descent on the private rows alone.
///
/// # Errors
/// A budget that no noise can meet.
pub fn predicted_without_public_rows(problem: &Problem, budget: Budget) -> Result<f64, MechanismError> {
    let change = problem.relation().change();
    let calibrated = |steps| Noise::calibrated(budget, Takers::All, change, steps, 1.0, false);
    let clip_norm = default_clip_norm(problem, Split::of(problem, None)?)?;
    let units = problem.private_units().max(1) as f64;
    let scales = Scales {
        dimension: problem.dimension(),
        single_release_noise: clip_norm * calibrated(NonZeroU64::MIN)?.levels[0].0 / units,
        smoothness: smoothness(problem),
        prior_radius: prior_radius(problem.loss(), problem.dimension(), problem.radius()),
    };
    let schedule = Schedule::recommended(&scales);
    if let Some(curvature) = public_curvature(problem)? {
        return Ok(curvature.excess_of_descent(schedule.time(), scales.single_release_noise));
    }
    let steps = NonZeroU64::new(schedule.steps).unwrap_or(NonZeroU64::MIN);
    let noise = clip_norm * calibrated(steps)?.levels[0].0 / units;
    Ok(schedule.predicted_excess(&scales, noise))
}

/// The curvature at the public fit; none where it cannot be had.
fn public_curvature(problem: &Problem) -> Result<Option<Curvature>, MechanismError> {
    match problem.facts().public_rows {
        0 => Ok(None),
        _ => Curvature::of_public_rows(problem, &public_rows::fitted(problem)?),
    }
}

/// The predicted excess of the mean loss of the public rows' own fit.
///
/// # Errors
/// There are no public rows.
pub(crate) fn predicted_of_public_fit(problem: &Problem) -> Result<f64, MechanismError> {
    if let Some(curvature) = public_curvature(problem)? {
        return Ok(curvature.excess_of_public_fit());
    }
    let rows = problem.facts().public_rows as f64;
    Ok(public_rows::dispersion(problem)? * problem.dimension() as f64 / (2.0 * rows))
}

/// Whether the formulas know what comes of these parts: those that a caller gives numbers for may be anything.
fn is_predictable(params: &Params) -> bool {
    params.clip.is_none()
        && matches!(params.descent, None | Some(DescentChoice::Newton))
        && matches!(params.combiner, None | Some(Combiner::Sum))
        && matches!(
            params.public,
            None | Some(PublicPart::AsPrivate | PublicPart::Mean { batch: None, rescaled: false })
        )
        && params.hidden_weight.is_none()
}

/// Step size and momentum, as far as they are not given: such that the descent goes as far as the schedule says and no step is too long to be stable.
fn steps_of(
    schedule: Schedule,
    scales: &Scales,
    step_size: Option<f64>,
    momentum: Option<f64>,
) -> (f64, f64) {
    match (step_size, momentum) {
        (Some(step_size), momentum) => (step_size, momentum.unwrap_or(0.0)),
        (None, None) => (schedule.step_size, schedule.momentum),
        (None, Some(momentum)) => {
            let wanted = (1.0 - momentum) * schedule.time() / schedule.steps.max(1) as f64;
            (wanted.min(1.0 / scales.smoothness), momentum)
        }
    }
}

/// gamma = max(2 L, sqrt(2 s^2 N (N+1) (N+2) / 3) / R), s^2 the variance of a gradient (Ghadimi and Lan 2012, Proposition 8). Strong convexity mu that holds the noise by itself,
/// s^2 / (mu N) below R s / sqrt(N), needs 2 L only (Proposition 9).
fn default_damping(scales: &Scales, steps: u64, variance: f64, strong_convexity: f64) -> f64 {
    let n = steps as f64;
    let smooth = 2.0 * scales.smoothness;
    if variance.sqrt() < strong_convexity * scales.prior_radius * n.sqrt() {
        return smooth;
    }
    let noisy = (2.0 * variance * n * (n + 1.0) * (n + 2.0) / 3.0).sqrt() / scales.prior_radius;
    noisy.max(smooth)
}

/// How far the public fit is from where it would be with many more rows: fits of the two halves of the public rows differ by about twice that.
fn public_uncertainty(problem: &Problem) -> Result<f64, MechanismError> {
    let (rows, labels) = problem.public_data();
    let half = rows.len() / 2;
    if half == 0 {
        return Ok(f64::INFINITY);
    }
    let norm = public_rows::weights_norm(problem)?;
    let fit = |from: usize, to: usize| -> Result<Vec<f64>, MechanismError> {
        let picked: Vec<u32> = (from as u32..to as u32).collect();
        let penalty = problem.dimension() as f64 / ((to - from) as f64 * norm.powi(2));
        let selected = rows.select(&picked)?;
        public_rows::fit(
            problem.loss(),
            &selected,
            &labels[from..to],
            problem.row_norm_bound(),
            penalty,
            problem.radius(),
        )
    };
    let (one, other) = (fit(0, half)?, fit(half, rows.len())?);
    Ok(0.5 * one.iter().zip(&other).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt())
}

/// The numbers of steps worth pricing: sampled batches are noisier, so more steps may pay.
fn candidate_steps(scales: &Scales, params: &Params, sampling: Sampling) -> Vec<NonZeroU64> {
    let recommended = Schedule::recommended(scales).steps;
    let steps = match (params.steps, sampling) {
        (Some(steps), _) => vec![steps],
        (None, Sampling::FullBatch) => vec![recommended],
        (None, Sampling::Poisson(_)) => [1, 2, 4, 8].map(|factor| factor * recommended).to_vec(),
        (None, Sampling::OnePass { batches }) => vec![batches.get()],
    };
    steps.into_iter().filter_map(NonZeroU64::new).collect()
}
