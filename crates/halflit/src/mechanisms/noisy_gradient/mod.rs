//! Descent along noisy gradients: every step releases one clamped, noisy gradient sum.
//!
//! The gradient at the current weights is split into what is known without any private cell (public rows, and a public centre per
//! private unit) and what is hidden; only the hidden part is clamped and gets noise. With no public column and no public row this
//! is the full-batch or Poisson-sampled noisy gradient descent that everyone knows.
//!
//! Citation: Bassily, Smith, Thakurta 2014; Abadi et al. 2016 (Poisson sampling); Lowy et al. 2024 (public rows); Mahloujifar et al. 2023 and Ghazi et al.
//! 2024 (public columns). Legend: C clip norm, B the same in lattice units, s noise multiplier, T steps, q sampling rate.
//!
//! # Guarantee
//!
//! Under the declared relation the released gradients, hence the model, have the privacy profile of T-fold `Gaussian { s, change }`
//! (full batch) or T-fold `PoissonGaussian { q, s, change }`. See `proof.md`.
//!
//! # Preconditions
//!
//! | what | enforced by |
//! |---|---|
//! | a unit's contribution has norm at most B | the kernel's integer clamp ([`halflit_convex::kernel`]), always applied |
//! | it is a function of the unit's own cells and public values | the kernel's contract; weights come from earlier releases |
//! | the centre needs no private cell | it is computed from the masked public view and, if public, the label |
//! | the noise is exactly normal, 2^k / B >= s | [`halflit_noise::SumLattice`] |
//! | hidden and known batches are independent | two draws from the stream; the known batch never meets the hidden sum |
//! | T, q, s, C are fixed in advance | [`Plan`] is made before any private cell is readable |
//!
//! # Edge cases
//!
//! | case | what happens |
//! |---|---|
//! | an empty batch | an ordinary batch: the release is noise |
//! | one private unit | an ordinary plan, with a useless model |
//! | a unit whose rows are all zero | contributes zero |
//! | weights that overflow | the descent starts again at zero |

mod centre;
pub(super) mod descent;
mod layout;
mod passes;
pub(super) mod schedule;
mod statement;
#[cfg(test)]
mod tests;

pub use schedule::Schedule;
pub use statement::Statement;

use crate::mechanisms::{MechanismError, Watch, prior_radius, zero_model_loss};
use crate::plan::Summary;
use crate::problem::{FEATURE_UNIT, Problem};
use descent::Descent;
use halflit_convex::LabelDomain;
use halflit_convex::kernel::{Batch, LatticeWeights, MAX_COEFFICIENT, SUM_LIMIT};
use halflit_noise::{NoiseSource, PoissonSampler, Probability, SumLattice, SumRequest};
use halflit_privacy::calibrate::{self, Budget};
use halflit_privacy::{Change, SensitiveColumns};
use halflit_table::{PublicFeatures, Regularization, Unsealed};
use layout::Layout;
use passes::Passes;
use schedule::Scales;
use serde::{Deserialize, Serialize};
use std::num::NonZeroU64;

/// The name of the mechanism in plans, certificates and on the command line.
pub const NAME: &str = "noisy_gradient";

/// Where it comes from.
pub(crate) const CITATION: &str = "Noisy gradient descent (Bassily, Smith, Thakurta 2014; Abadi et al. 2016) on the split gradient: the part of the \
    gradient that follows from public rows and columns is added exactly, the rest is clamped and gets noise.";

/// How its free parameters are chosen.
pub(crate) const CHOICES: &str = "Number of steps, step size, momentum and clip norm follow from the declared constants and public columns by a \
    fixed formula; no private cell was used.";

/// What a caller may fix; everything else is chosen from public constants.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Params {
    /// The centre; by default midrange if some column is public, else zero.
    pub centre: Option<Centre>,
    /// The probability with which each unit takes part in a step; by default every unit takes part in every step.
    pub sampling_rate: Option<Probability>,
    /// The number of steps.
    pub steps: Option<u64>,
    /// The largest norm of a unit's hidden contribution.
    pub clip_norm: Option<f64>,
}

/// What is subtracted from a unit's gradient before it is clamped, and added back exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Centre {
    /// Nothing.
    Zero,
    /// The middle of the values that the gradient's coefficient can take over the sensitive cells, times the public features.
    Midrange,
}

/// What is known of a private row without its sensitive cells: what the centre rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Split {
    /// Zero centre.
    Nothing,
    /// Midrange; all features are public, the label is sensitive.
    AllFeatures,
    /// Midrange; some features are public.
    SomeFeatures {
        /// Whether the label is public too.
        label_is_public: bool,
    },
}

/// A checked, calibrated plan. It owns no private cell and reads none.
#[derive(Clone, Debug)]
pub struct Plan {
    centre: Centre,
    split: Split,
    change: Change,
    rate: Option<Probability>,
    schedule: Schedule,
    lattice: SumLattice,
    clip_norm: f64,
    lambda: f64,
    predicted_excess: f64,
}

impl Plan {
    /// Chooses what `params` leaves open and calibrates the noise to the budget.
    ///
    /// # Errors
    /// A centre that the relation does not allow, numbers outside their ranges, a budget that no noise can meet.
    pub fn new(problem: &Problem, params: &Params, budget: Budget) -> Result<Self, MechanismError> {
        let split = split(problem, params.centre)?;
        let centre = if split == Split::Nothing { Centre::Zero } else { Centre::Midrange };
        let change = problem.relation().change();
        let clip_norm = match params.clip_norm {
            Some(norm) if norm.is_finite() && norm > 0.0 => norm,
            Some(value) => return Err(MechanismError::not_positive("clip norm", value)),
            None => default_clip_norm(problem, split)?,
        };
        let rate = params.sampling_rate.map(statement::Rate::of);
        let single = calibrate::noise_multiplier(budget, |multiplier| {
            statement::event(None, multiplier, change, NonZeroU64::MIN)
        })?;
        let weight = problem.total_weight();
        let scales = Scales {
            dimension: problem.dimension(),
            single_release_noise: clip_norm * single.value.get() / weight,
            smoothness: schedule::curvature(problem.loss()) * problem.row_norm_bound().powi(2),
            prior_radius: prior_radius(problem.loss(), problem.dimension(), problem.radius()),
        };
        let share = params.sampling_rate.map_or(1.0, |rate| rate.ratio().to_f64());
        let sampling_rate = rate.map(|rate| rate.rounded_up()).transpose()?;
        let mut candidates = Vec::new();
        for steps in candidate_steps(&scales, params) {
            let found = calibrate::noise_multiplier(budget, |multiplier| {
                statement::event(sampling_rate, multiplier, change, steps)
            })?;
            let multiplier = found.value.get();
            let schedule = Schedule::with_steps(&scales, steps.get());
            let noise = clip_norm * multiplier / (share * weight);
            candidates.push((schedule.predicted_excess(&scales, noise), schedule, multiplier));
        }
        let best = candidates.into_iter().min_by(|a, b| a.0.total_cmp(&b.0));
        let (predicted_excess, schedule, multiplier) =
            best.ok_or(MechanismError::not_positive("number of steps", 0.0))?;
        let lattice = SumLattice::plan(&SumRequest {
            radius_cap: radius_cap(problem, split),
            contribution_step: problem.integer_row_norm_bound(),
            ..SumRequest::l2(clip_norm, multiplier, problem.private_units())
        })?;
        let lambda = match problem.regularization() {
            // The length of the descent regularizes.
            Regularization::Auto => 0.0,
            Regularization::Fixed(lambda) => lambda,
        };
        let rate = params.sampling_rate;
        Ok(Plan { centre, split, change, rate, schedule, lattice, clip_norm, lambda, predicted_excess })
    }

    /// What the certificate says about the noise: enough to rebuild the event.
    pub fn statement(&self, problem: &Problem) -> Statement {
        Statement {
            centre: self.centre,
            change: self.change,
            steps: self.schedule.steps,
            sampling_rate: self.rate.map(statement::Rate::of),
            clip_norm: self.clip_norm,
            lattice_bits: self.lattice.bits().get(),
            lattice_radius: self.lattice.radius(),
            noise_multiplier: self.lattice.noise_multiplier(),
            noise_std: self.lattice.noise_scale(),
            units: problem.private_units(),
            total_weight: problem.total_weight(),
            step_size: self.schedule.step_size,
            momentum: self.schedule.momentum,
            regularization: self.lambda,
            radius: problem.radius(),
        }
    }

    /// The plan as shown in a table.
    pub(crate) fn summary(&self, problem: &Problem) -> Summary {
        let share = self.rate.map_or(1.0, |rate| rate.ratio().to_f64());
        let batch = self
            .rate
            .map_or("full batch".to_owned(), |rate| format!("Poisson batches, rate {}", rate.ratio()));
        let centre = match self.centre {
            Centre::Zero => "zero",
            Centre::Midrange => "midrange",
        };
        Summary {
            mechanism: NAME.to_owned(),
            variant: format!("{batch}, centre {centre}"),
            predicted_excess: self.predicted_excess,
            releases: self.schedule.steps,
            passes: share * self.schedule.steps as f64,
            noise_per_release: self.lattice.noise_scale() / (share * problem.total_weight()),
            is_hopeless: self.predicted_excess >= zero_model_loss(problem.loss()),
        }
    }

    /// The steps of the descent.
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// The centre in use.
    pub fn centre(&self) -> Centre {
        self.centre
    }

    /// Runs the mechanism: numbered as in `proof.md`.
    pub(crate) fn run(
        &self,
        problem: &Problem,
        token: &Unsealed,
        source: &mut NoiseSource,
        watch: &mut dyn Watch,
    ) -> Result<Vec<f64>, MechanismError> {
        let outputs = problem.loss().outputs();
        let (mut noise, mut batches) = (source.stream()?, source.stream()?);
        let sampler = self.rate.map(PoissonSampler::new);
        let rate = self.rate.map_or(1.0, |rate| rate.ratio().to_f64());
        let total_weight = problem.total_weight();
        let public_weight = problem.public_row_weight();

        // 1. Open the sealed cells.
        let layout = Layout::open(problem, token, self.split)?;
        let passes = Passes::new(&layout, problem.encoding(), self.lattice.radius(), self.lattice.unit())?;
        let units = layout.units() as u32;
        let mut descent = Descent::new(self.schedule, problem.dimension(), problem.radius())?;
        for step in 0..self.schedule.steps {
            if watch.progress(step, self.schedule.steps).is_break() {
                return Err(MechanismError::Interrupted);
            }
            let weights = LatticeWeights::new(descent.weights(), outputs)?;

            // 2. Two independent batches: one for the hidden part, one for the known part.
            let draw = |batches: &mut halflit_noise::Stream| {
                sampler.as_ref().map(|rate| batches.poisson_subsample(units, rate))
            };
            let (hidden_batch, known_batch) = (draw(&mut batches), draw(&mut batches));

            // 3. The clamped integer sum of the hidden part, with its noise: the only release of the step.
            let batch = hidden_batch.as_deref().map_or(Batch::All, Batch::Only);
            let mut release = passes.hidden(&weights, batch)?;
            self.lattice.add_noise(&mut noise, &mut release);

            // 4. Post-processing: known part, public rows, penalty, one step.
            let mut gradient: Vec<f64> = release.iter().map(|&sum| self.lattice.to_real(sum)).collect();
            remove_common_part(&mut gradient, outputs);
            let known = passes.known(&weights, known_batch.as_deref())?;
            let public = passes.public(&weights)?;
            for (((gradient, known), public), weight) in
                gradient.iter_mut().zip(&known).zip(&public).zip(descent.weights())
            {
                let private = (*gradient + known) / rate;
                *gradient = (private + public_weight * public) / total_weight + self.lambda * weight;
            }
            descent.step(&gradient);
        }
        watch.progress(self.schedule.steps, self.schedule.steps).is_break();
        Ok(descent.into_average())
    }
}

/// Softmax coefficients of a row sum to zero, so whatever the classes have in common is noise (and rounding).
pub(crate) fn remove_common_part(gradient: &mut [f64], outputs: usize) {
    if outputs < 2 {
        return;
    }
    let width = gradient.len() / outputs;
    for column in 0..width {
        let mean = (0..outputs).map(|output| gradient[output * width + column]).sum::<f64>() / outputs as f64;
        for output in 0..outputs {
            gradient[output * width + column] -= mean;
        }
    }
}

/// The numbers of steps worth pricing: sampled batches are noisier, so more steps may pay.
fn candidate_steps(scales: &Scales, params: &Params) -> Vec<NonZeroU64> {
    let recommended = Schedule::recommended(scales).steps;
    let steps = match (params.steps, params.sampling_rate) {
        (Some(steps), _) => vec![steps],
        (None, None) => vec![recommended],
        (None, Some(_)) => [1, 2, 4, 8].map(|factor| factor * recommended).to_vec(),
    };
    steps.into_iter().filter_map(NonZeroU64::new).collect()
}

/// The largest lattice radius at which no single row's coefficient is cut off before its unit is clamped.
fn radius_cap(problem: &Problem, split: Split) -> u64 {
    let layout_rows = match split {
        Split::SomeFeatures { .. } => 2 * problem.rows_per_unit(),
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
        Some(Centre::Zero) => Ok(Split::Nothing),
        Some(Centre::Midrange) if best == Split::Nothing => Err(MechanismError::NoPublicFeature),
        _ => Ok(best),
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
    Ok(match (split, view.features) {
        (Split::AllFeatures, PublicFeatures::All(rows)) => {
            loss.midrange_radius(0.0) * longest(rows.max_squared_norm())
        }
        (Split::SomeFeatures { label_is_public }, PublicFeatures::Some(rows)) => {
            let from_label = if label_is_public { 0.0 } else { loss.midrange_radius(0.0) };
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
