//! Planning: which parts, how many steps, how much noise; from declared constants, public cells and public rows alone.

use super::newton::{self, Curvature, no_curvature};
use super::parts::{Average, Centre, Clip, Combiner, Descent, PublicPart, Sampling, Start};
use super::posterior::{self, Shape, equivalent_rows};
use super::public::PublicRows;
use super::schedule::{self, Scales, Schedule};
use super::statement::{self, Level, Rate, Statement, Takers};
use super::{NAME, Params, Split, precondition};
use crate::mechanisms::{MechanismError, prior_radius, public_rows, zero_model_loss};
use crate::plan::Summary;
use crate::problem::{FEATURE_UNIT, Problem, UnitWeighting};
use halflit_convex::LabelDomain;
use halflit_convex::kernel::{MAX_COEFFICIENT, QUICK_COEFFICIENT, SUM_LIMIT};
use halflit_noise::{SumLattice, SumRequest};
use halflit_privacy::calibrate::{self, Budget};
use halflit_privacy::{Change, Event, SensitiveColumns};
use halflit_table::PublicFeatures;
use std::num::NonZeroU64;

/// Share of the squared mu that a measured clip norm may spend.
const SPREAD_SHARE: f64 = 0.03;

/// A checked, calibrated plan. It owns no private cell and reads none.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(super) centre: Centre,
    pub(super) hidden_weight: f64,
    pub(super) split: Split,
    pub(super) change: Change,
    pub(super) sampling: Sampling,
    pub(super) steps: u64,
    pub(super) clip: Clip,
    pub(super) combiner: Combiner,
    pub(super) public: PublicPart,
    pub(super) start: Start,
    pub(super) descent: Descent,
    /// The lattice of each run of equal steps, for a clip norm of 1.
    pub(super) levels: Vec<(SumLattice, u64)>,
    /// The lattice of the histograms of norms.
    pub(super) spread: Option<SumLattice>,
    pub(super) lambda: f64,
    /// Curvature per coordinate, for the posterior descent.
    pub(super) curvature: f64,
    predicted_excess: f64,
}

/// The noise of a whole run, before it is put on lattices.
struct Noise {
    /// Multiplier and number of steps, run after run.
    levels: Vec<(f64, u64)>,
    spread: Option<f64>,
}

impl Noise {
    /// Step t of T spends growth^t times what the first one spends; the last one has multiplier `last`.
    fn new(last: f64, steps: u64, growth: f64, has_spread: bool) -> Self {
        let levels: Vec<(f64, u64)> = if growth == 1.0 {
            vec![(last, steps)]
        } else {
            (1..=steps).rev().map(|left| (last * growth.powf((left - 1) as f64 / 2.0), 1)).collect()
        };
        let spent: f64 = levels.iter().map(|(multiplier, steps)| *steps as f64 / multiplier.powi(2)).sum();
        // steps / spread^2 = SPREAD_SHARE / (1 - SPREAD_SHARE) of what the gradients spend
        let spread = (steps as f64 * (1.0 - SPREAD_SHARE) / (SPREAD_SHARE * spent)).sqrt();
        Noise { levels, spread: has_spread.then_some(spread) }
    }

    /// The noise multiplier of a typical step.
    fn root_mean_square(&self) -> f64 {
        let steps: f64 = self.levels.iter().map(|(_, steps)| *steps as f64).sum();
        let squares: f64 = self.levels.iter().map(|(s, steps)| *steps as f64 * s * s).sum();
        (squares / steps).sqrt()
    }

    /// The least noise that fits the budget.
    fn calibrated(
        budget: Budget,
        takers: Takers,
        change: Change,
        steps: NonZeroU64,
        growth: f64,
        has_spread: bool,
    ) -> Result<Self, MechanismError> {
        let noise = |last: f64| Noise::new(last, steps.get(), growth, has_spread);
        let found = calibrate::noise_multiplier(budget, |multiplier| {
            let noise = noise(multiplier.get());
            // Products of positive finite numbers of ordinary size; were one not a multiplier, the plain event is dearer than none.
            statement::event(takers, &noise.levels, noise.spread, change)
                .unwrap_or(Event::Gaussian { noise_multiplier: multiplier, change })
        })?;
        Ok(noise(found.value.get()))
    }
}

impl Plan {
    /// Chooses what `params` leaves open and calibrates the noise to the budget.
    ///
    /// # Errors
    /// Parts that the relation or the problem does not allow, numbers outside their ranges, a budget that no noise can meet.
    pub fn new(problem: &Problem, params: &Params, budget: Budget) -> Result<Self, MechanismError> {
        check(problem, params)?;
        let split = split(problem, params.centre)?;
        let default_centre = if split == Split::Nothing { Centre::Zero } else { Centre::Midrange };
        let change = problem.relation().change();
        let sampling = params.sampling.unwrap_or_default();
        let takers = Takers::of(sampling)?;
        let clip = match params.clip {
            Some(clip) => clip,
            None => {
                Clip::Fixed { norm: default_clip_norm(problem, split)?.min(usual_clip_norm(problem, split)) }
            }
        };
        let mut plan = Plan {
            centre: params.centre.unwrap_or(default_centre),
            hidden_weight: params.hidden_weight.unwrap_or(1.0),
            split,
            change,
            sampling,
            steps: 0,
            clip,
            combiner: params.combiner.unwrap_or(Combiner::Sum),
            public: params.public.unwrap_or_default(),
            start: params.start.unwrap_or_default(),
            descent: Descent::Posterior,
            levels: Vec::new(),
            spread: None,
            // Without a declared penalty the length of the descent regularizes.
            lambda: problem.declared_penalty(),
            curvature: 0.0,
            predicted_excess: f64::INFINITY,
        };
        let calibrated = |steps: NonZeroU64, growth: f64| {
            Noise::calibrated(budget, takers, change, steps, growth, clip.is_measured())
        };
        let noise = if params.descent == Some(Descent::Posterior) {
            plan.choose_posterior(problem, params, &calibrated)?
        } else {
            let single = Noise::calibrated(budget, Takers::All, change, NonZeroU64::MIN, 1.0, false)?;
            plan.choose_descent(problem, params, single.levels[0].0, &calibrated)?
        };
        let request = |multiplier: f64| SumRequest {
            radius_cap: radius_cap(problem, split),
            contribution_step: problem.integer_row_norm_bound(),
            ..SumRequest::l2(1.0, multiplier, problem.private_units())
        };
        for (multiplier, steps) in noise.levels {
            let finest = request(multiplier);
            // Fine enough is enough, and quicker; refused if it is not.
            let quick_radius = u64::from(QUICK_COEFFICIENT).saturating_mul(finest.contribution_step);
            let quick = SumRequest { radius_cap: finest.radius_cap.min(quick_radius), ..finest.clone() };
            let lattice = SumLattice::plan(&quick).or_else(|_| SumLattice::plan(&finest))?;
            plan.levels.push((lattice, steps));
        }
        if let Some(multiplier) = noise.spread {
            let request = SumRequest::l2(1.0, multiplier, problem.private_units());
            plan.spread = Some(SumLattice::plan(&request)?);
        }
        Ok(plan)
    }

    /// The posterior descent: a fixed number of steps.
    fn choose_posterior(
        &mut self,
        problem: &Problem,
        params: &Params,
        calibrated: &dyn Fn(NonZeroU64, f64) -> Result<Noise, MechanismError>,
    ) -> Result<Noise, MechanismError> {
        let (rows, labels) = problem.public_data();
        let public = PublicRows::new(problem.loss(), rows, labels, problem.row_norm_bound())?
            .ok_or(MechanismError::NoPublicRows)?;
        let shape = Shape::of(&public, problem.dimension())?;
        if !shape.is_round() {
            return Err(MechanismError::part(
                "the posterior descent",
                "public rows whose second moments are about the same in every direction; take another descent",
            ));
        }
        self.curvature = shape.curvature;
        let default = posterior::default_steps(public.len(), problem.dimension());
        self.steps = params.steps.unwrap_or(default);
        let steps =
            NonZeroU64::new(self.steps).ok_or(MechanismError::not_positive("number of steps", 0.0))?;
        let noise = calibrated(steps, params.budget_growth.unwrap_or(1.0))?;
        // Every private row is worth a part of a public one; d/2n, the classical rate, times the variance of what is to be explained.
        let precision: f64 = noise.levels.iter().map(|(s, steps)| *steps as f64 / (s * s)).sum();
        let dimension = problem.dimension() as f64;
        let worth = equivalent_rows(problem.private_units() as f64, dimension, precision.sqrt());
        let noise_variance = public.mean_square_label().min(1.0);
        self.predicted_excess = 0.5 * noise_variance * dimension / (public.len() as f64 + worth);
        Ok(noise)
    }

    /// The given descent; or Newton steps from the public fit, or momentum as the schedule advises.
    fn choose_descent(
        &mut self,
        problem: &Problem,
        params: &Params,
        single_multiplier: f64,
        calibrated: &dyn Fn(NonZeroU64, f64) -> Result<Noise, MechanismError>,
    ) -> Result<Noise, MechanismError> {
        let weight = problem.total_weight();
        // A measured clip norm is not known yet; the default stands in for it.
        let clip_norm = match self.clip {
            Clip::Fixed { norm } => norm,
            Clip::Quantile { .. } | Clip::ResidualScale => default_clip_norm(problem, self.split)?,
        };
        let single_release_noise = clip_norm * single_multiplier / weight;
        let curvature = public_curvature(problem)?;
        let is_warm = self.start == Start::PublicMinimizer && params.descent.is_none();
        if matches!(params.descent, Some(Descent::Newton { .. })) && curvature.is_none() {
            return Err(no_curvature());
        }
        if let Some(curvature) = &curvature
            && is_warm
            && self.sampling == Sampling::FullBatch
            && self.combiner == Combiner::Sum
        {
            let steps = NonZeroU64::new(params.steps.unwrap_or(newton::STEPS))
                .ok_or(MechanismError::not_positive("number of steps", 0.0))?;
            let noise = calibrated(steps, params.budget_growth.unwrap_or(1.0))?;
            self.steps = steps.get();
            self.descent = Descent::Newton { noise: clip_norm * noise.root_mean_square() / weight };
            self.predicted_excess = curvature.excess_of_newton(self.steps, single_release_noise);
            return Ok(noise);
        }
        let guess = public_rows::weights_norm(problem)?;
        let scales = Scales {
            dimension: problem.dimension(),
            single_release_noise,
            smoothness: schedule::curvature(problem.loss()) * problem.row_norm_bound().powi(2),
            prior_radius: if is_warm {
                public_uncertainty(problem)?.hypot(newton::left_open(problem)?).min(guess)
            } else {
                guess
            },
        };
        let mut best: Option<(Schedule, Noise)> = None;
        for steps in candidate_steps(&scales, params, self.sampling) {
            let noise = calibrated(steps, params.budget_growth.unwrap_or(1.0))?;
            let schedule = Schedule::with_steps(&scales, steps.get());
            let per_step = clip_norm * noise.root_mean_square() / (self.sampling.share() * weight);
            let predicted = match &curvature {
                Some(curvature) if self.start == Start::Zero => {
                    curvature.excess_of_descent(schedule.time(), per_step / (steps.get() as f64).sqrt())
                }
                _ => schedule.predicted_excess(&scales, per_step),
            };
            if best.is_none() || predicted < self.predicted_excess {
                self.predicted_excess = predicted;
                best = Some((schedule, noise));
            }
        }
        let (schedule, noise) = best.ok_or(MechanismError::not_positive("number of steps", 0.0))?;
        self.steps = schedule.steps;
        self.descent = params.descent.unwrap_or(Descent::Momentum {
            step_size: schedule.step_size,
            momentum: schedule.momentum,
            average: Average::Suffix,
        });
        Ok(noise)
    }

    /// Clip norm over noise std of one release on this lattice, whatever the change: what a measurement's accuracy depends on.
    pub(super) fn clip_over_noise(lattice: &SumLattice) -> f64 {
        1.0 / lattice.noise_multiplier()
    }

    /// The lattice of every step.
    pub(super) fn step_lattices(&self) -> impl Iterator<Item = &SumLattice> {
        self.levels.iter().flat_map(|(lattice, steps)| (0..*steps).map(move |_| lattice))
    }

    /// Where the descent begins.
    pub(super) fn starting_point(&self, problem: &Problem) -> Result<Vec<f64>, MechanismError> {
        match self.start {
            Start::Zero => Ok(vec![0.0; problem.dimension()]),
            Start::PublicMinimizer => public_rows::Plan::new(problem)?.run(problem),
        }
    }

    /// What the certificate says about the noise: enough to rebuild the event.
    pub fn statement(&self, problem: &Problem) -> Statement {
        let clip_norm = match self.clip {
            Clip::Fixed { norm } => Some(norm),
            Clip::Quantile { .. } | Clip::ResidualScale => None,
        };
        let (sampling_rate, batches) = match self.sampling {
            Sampling::FullBatch => (None, None),
            Sampling::Poisson(rate) => (Some(Rate::of(rate)), None),
            Sampling::OnePass { batches } => (None, Some(batches.get())),
        };
        Statement {
            centre: self.centre,
            hidden_weight: self.hidden_weight,
            change: self.change,
            steps: self.steps,
            sampling_rate,
            batches,
            clip: self.clip,
            levels: self
                .levels
                .iter()
                .map(|(lattice, steps)| Level::of(lattice, *steps, clip_norm))
                .collect(),
            spread: self.spread.as_ref().map(|lattice| Level::of(lattice, self.steps, None)),
            units: problem.private_units(),
            total_weight: problem.total_weight(),
            start: self.start,
            combiner: self.combiner,
            public: self.public,
            descent: self.descent,
            regularization: self.lambda,
            radius: problem.radius(),
        }
    }

    /// The plan as shown in a table.
    pub(crate) fn summary(&self, problem: &Problem) -> Summary {
        let share = self.sampling.share();
        let mut variant = match self.sampling {
            Sampling::FullBatch => "full batch".to_owned(),
            Sampling::Poisson(rate) => format!("Poisson batches, rate {}", rate.ratio()),
            Sampling::OnePass { batches } => format!("one pass in {batches} batches"),
        };
        if self.descent == Descent::Posterior {
            variant += ", posterior of public rows";
        } else {
            variant += &format!(", centre {}", self.centre.name());
            if self.start == Start::PublicMinimizer {
                variant += ", from the public fit";
            }
        }
        let typical_clip = match self.clip {
            Clip::Fixed { norm } => norm,
            Clip::Quantile { .. } | Clip::ResidualScale => 1.0,
        };
        let noise = self.levels.last().map_or(0.0, |(lattice, _)| typical_clip * lattice.noise_scale());
        Summary {
            mechanism: NAME.to_owned(),
            variant,
            predicted_excess: self.predicted_excess,
            is_rehearsed: false,
            releases: self.steps * if self.spread.is_some() { 2 } else { 1 },
            passes: share * self.steps as f64 * if self.spread.is_some() { 2.0 } else { 1.0 },
            noise_per_release: noise / (share * problem.total_weight()),
            is_hopeless: self.predicted_excess >= zero_model_loss(problem.loss()),
        }
    }

    /// The number of steps.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// The centre in use.
    pub fn centre(&self) -> Centre {
        self.centre
    }

    /// Where the descent begins.
    pub fn start(&self) -> Start {
        self.start
    }
}

/// The predicted excess of the mean loss if the public rows were not there: the default descent on the private rows alone.
///
/// # Errors
/// A budget that no noise can meet.
pub fn predicted_without_public_rows(problem: &Problem, budget: Budget) -> Result<f64, MechanismError> {
    let change = problem.relation().change();
    let calibrated = |steps| Noise::calibrated(budget, Takers::All, change, steps, 1.0, false);
    let clip_norm = default_clip_norm(problem, split(problem, None)?)?;
    let units = problem.private_units().max(1) as f64;
    let scales = Scales {
        dimension: problem.dimension(),
        single_release_noise: clip_norm * calibrated(NonZeroU64::MIN)?.levels[0].0 / units,
        smoothness: schedule::curvature(problem.loss()) * problem.row_norm_bound().powi(2),
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
        _ => Curvature::of_public_rows(problem, &public_rows::Plan::new(problem)?.run(problem)?),
    }
}

/// Refuses parts that do not fit the problem or each other, and numbers outside their ranges.
fn check(problem: &Problem, params: &Params) -> Result<(), MechanismError> {
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
        Some(Clip::ResidualScale) if params.descent != Some(Descent::Posterior) => {
            return Err(MechanismError::part(
                "the residual scale",
                "the posterior descent; or take a clip quantile",
            ));
        }
        _ => {}
    }
    if params.clip.is_some_and(Clip::is_measured) && split(problem, params.centre)? != Split::Nothing {
        return Err(MechanismError::part(
            "a measured clip norm",
            "the centre zero, public-mean or last-release",
        ));
    }
    if let Some(weight) = params.hidden_weight {
        positive("hidden weight", weight)?;
        if split(problem, params.centre)? == Split::Nothing {
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
        || params.descent.is_some_and(Descent::needs_public_rows);
    if needs_public_rows && !has_public_rows {
        return Err(MechanismError::NoPublicRows);
    }
    match params.descent {
        Some(Descent::Momentum { step_size, momentum, .. }) => {
            positive("step size", step_size)?;
            if !(0.0..1.0).contains(&momentum) {
                return Err(MechanismError::part("momentum", "a share of at least 0 and below 1"));
            }
        }
        Some(Descent::Preconditioned { step_size, ridge, .. }) => {
            positive("step size", step_size)?;
            positive("ridge", ridge)?;
            if problem.loss().outputs() != 1 || problem.dimension() > precondition::MOST_WEIGHTS {
                return Err(MechanismError::part(
                    "the public preconditioner",
                    "one output and at most 4096 weights",
                ));
            }
        }
        Some(Descent::Newton { noise }) => positive("noise", noise)?,
        Some(Descent::Accelerated { damping }) => positive("damping", damping)?,
        Some(Descent::Posterior) => {
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

/// For classes without public columns and too many weights for Newton steps: the median norm of the public rows' gradients at zero. Longer gradients are few, and what
/// cutting them off spares in noise is more than they are worth. Infinite elsewhere.
fn usual_clip_norm(problem: &Problem, split: Split) -> f64 {
    let mut norms = problem.public_data().0.squared_norms().to_vec();
    let has_classes = matches!(problem.loss().label_domain(), LabelDomain::Classes(_) | LabelDomain::Binary);
    if norms.is_empty() || !has_classes || split != Split::Nothing || newton::is_open_to(problem) {
        return f64::INFINITY;
    }
    let middle = norms.len() / 2;
    let (_, &mut median, _) = norms.select_nth_unstable(middle);
    // at zero all classes are equally likely
    problem.loss().midrange_radius(0.0) * (median.max(1) as f64).sqrt() * FEATURE_UNIT
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

/// The largest lattice radius at which no single row's coefficient is cut off before its unit is clamped.
fn radius_cap(problem: &Problem, split: Split) -> u64 {
    let layout_rows = match split {
        Split::SomeFeatures { .. } | Split::Imputed { .. } => 2 * problem.rows_per_unit(),
        Split::Nothing | Split::AllFeatures => problem.rows_per_unit(),
    };
    // The kernel keeps every unit's own sum below half its limit by limiting each of its rows.
    let for_units = SUM_LIMIT / 2 / layout_rows.max(1);
    for_units.min(u64::from(MAX_COEFFICIENT).saturating_mul(problem.integer_row_norm_bound()))
}

/// What can be known of a private row's gradient, for the wanted centre.
fn split(problem: &Problem, wanted: Option<Centre>) -> Result<Split, MechanismError> {
    let label = problem.encoding().label_name();
    let label_is_public = match problem.relation().sensitive() {
        SensitiveColumns::All => false,
        SensitiveColumns::Named(names) => !names.contains(label),
    };
    let columns = problem.encoding().columns();
    let sensitive = columns.iter().filter(|column| column.is_sensitive()).count();
    let best = if sensitive == 0 {
        Split::AllFeatures
    } else if sensitive < columns.len() {
        Split::SomeFeatures { label_is_public }
    } else {
        Split::Nothing
    };
    match wanted {
        Some(Centre::Zero | Centre::PublicMean | Centre::LastRelease) => Ok(Split::Nothing),
        Some(Centre::Midrange | Centre::Imputed) if best == Split::Nothing => {
            Err(MechanismError::NoPublicFeature)
        }
        Some(Centre::Imputed) => Ok(Split::Imputed { label_is_public }),
        Some(Centre::Midrange) | None => Ok(best),
    }
}

/// How far the sensitive cells are guessed to move a score: chooses the clip norm of the midrange centre, nothing else.
const GUESSED_SWING: f64 = 1.0;

/// A clip norm at which ordinary contributions are not clipped, from declared constants and public features.
fn default_clip_norm(problem: &Problem, split: Split) -> Result<f64, MechanismError> {
    let loss = problem.loss();
    let derivative = typical_derivative(problem);
    let view = problem.encoded().public_view()?;
    let longest = |squared_norm: u64| (squared_norm as f64).sqrt() * FEATURE_UNIT;
    // What an unknown label adds: half its range around the middle, all of it around the mean of public labels.
    let unknown_label = match split {
        Split::Imputed { .. } if problem.facts().public_rows > 0 => 2.0 * loss.midrange_radius(0.0),
        _ => loss.midrange_radius(0.0),
    };
    Ok(match (split, view.features) {
        (Split::AllFeatures | Split::Imputed { .. }, PublicFeatures::All(rows)) => {
            unknown_label * longest(rows.max_squared_norm())
        }
        (
            Split::SomeFeatures { label_is_public } | Split::Imputed { label_is_public },
            PublicFeatures::Some(rows),
        ) => {
            let from_label = if label_is_public { 0.0 } else { unknown_label };
            let from_features = schedule::curvature(loss) * GUESSED_SWING;
            let half_range = (from_label + from_features).min(derivative);
            let sensitive =
                problem.encoding().columns().iter().filter(|column| column.is_sensitive()).count();
            let known = half_range * longest(rows.max_squared_norm());
            known.hypot(derivative * (sensitive as f64).sqrt())
        }
        _ => derivative * problem.row_norm_bound(),
    })
}

/// The derivative's bound where the loss has one; for squared and Poisson losses the derivative at small scores.
fn typical_derivative(problem: &Problem) -> f64 {
    let loss = problem.loss();
    match loss.label_domain() {
        LabelDomain::Within(labels) if loss.is_canonical() => labels.magnitude().max(1.0),
        _ => loss.derivative_bound(0.0),
    }
}
