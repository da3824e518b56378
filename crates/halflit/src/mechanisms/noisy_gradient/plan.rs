//! Planning: which parts, how many steps, how much noise; from declared constants, public cells and public rows alone.

use super::check::check;
use super::clip_norm::{default_clip_norm, radius_cap, usual_clip_norm};
use super::levels::Noise;
use super::parts::{Centre, Clip, Combiner, Descent, PublicPart, Sampling, Start};
use super::statement::{Level, Rate, Statement, Takers};
use super::{NAME, Params, Split};
use crate::mechanisms::{MechanismError, is_hopeless, public_rows};
use crate::plan::Summary;
use crate::problem::Problem;
use halflit_convex::kernel::QUICK_COEFFICIENT;
use halflit_noise::{Probability, SumLattice, SumRequest};
use halflit_privacy::Change;
use halflit_privacy::calibrate::Budget;
use std::num::NonZeroU64;

/// A checked, calibrated plan. It owns no private cell and reads none.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(super) centre: Centre,
    pub(super) hidden_weight: f64,
    pub(super) split: Split,
    pub(super) change: Change,
    pub(super) sampling: Sampling,
    pub(super) known_rate: Option<Probability>,
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
    pub(super) predicted_excess: f64,
}

impl Plan {
    /// Chooses what `params` leaves open and calibrates the noise to the budget.
    ///
    /// # Errors
    /// Parts that the relation or the problem does not allow, numbers outside their ranges, a budget that no noise can meet.
    pub fn new(problem: &Problem, params: &Params, budget: Budget) -> Result<Self, MechanismError> {
        check(problem, params)?;
        let split = Split::of(problem, params.centre)?;
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
            known_rate: params.known_rate,
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
        let single = Noise::calibrated(budget, Takers::All, change, NonZeroU64::MIN, 1.0, false)?;
        let noise = plan.choose_descent(problem, params, single.levels[0].0, &calibrated)?;
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
            Start::PublicMinimizer => public_rows::fitted(problem),
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
            known_rate: self.known_rate.map(Rate::of),
            clip: self.clip,
            levels: self
                .levels
                .iter()
                .map(|(lattice, steps)| Level::of(lattice, *steps, clip_norm))
                .collect(),
            spread: self.spread.as_ref().map(|lattice| Level::of(lattice, self.steps, None)),
            clip_norms: Vec::new(),
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

    pub(crate) fn treats_public_rows_as_private(&self) -> bool {
        self.public == PublicPart::AsPrivate
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
        } else if self.treats_public_rows_as_private() {
            variant += ", public rows treated as private";
        } else if matches!(self.descent, Descent::Preconditioned { .. }) {
            variant += ", PDA-MD";
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
            releases: self.steps.saturating_mul(if self.spread.is_some() { 2 } else { 1 }),
            passes: share * self.steps as f64 * if self.spread.is_some() { 2.0 } else { 1.0 },
            noise_per_release: noise / (share * problem.total_weight()),
            is_hopeless: is_hopeless(self.predicted_excess, problem),
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
