//! One noisy release of how sensitive values go with public columns; beliefs about every row follow from it, and the model from the beliefs.
//!
//! Sensitive cells of a row take one of k joint values s; everything else about it is public, in numbers a_i (`features.rs`). For a belief of the form p_i(s) proportional to exp(<theta_s, a_i>) the
//! table enters through S = sum_i omega_i a_i e_{s_i}^T alone. So S is released once, with Gaussian noise; the most likely theta gives a belief about every row (`noisy_statistics`, with the joint
//! value in place of a label), and the model minimises the loss that is expected under the beliefs (`believed.rs`). Where the noise drowns what the values say, beliefs follow the prior and the
//! model is the one that the public columns give, which costs no privacy at all.
//!
//! Citation: sufficient-statistics perturbation (Vu and Slavkovic 2009) for a model of the sensitive values, with public features as under label privacy; expected losses as
//! in Ghazi et al. 2024 [GKKMMZ24], whose beliefs p_i these are. Legend: k values, a_i public numbers of row i, p_i its belief, T the shape of the noise.
//!
//! # Guarantee
//!
//! Under the declared relation (some categories sensitive, at least one feature public; unit row or user; replace or zero-out) the release has the privacy profile
//! of `GaussianDiameter { sensitivity: D, noise_std: 2^k }` in lattice units. See `proof.md`.
//!
//! # Preconditions
//!
//! | what | enforced by |
//! |---|---|
//! | the a_i and all row counts are public | they are made from the public view ([`halflit_table::PublicView`]), or the plan is refused |
//! | one unit moves the sum by at most D | integer coefficients on public integers, D from the exact norms of these rows (`noisy_statistics::lattice`) |
//! | a row's coefficient depends on its own value and public numbers | `LabelSteps::coefficient` is given nothing else |
//! | the noise is exactly normal with standard deviation 2^k | [`halflit_noise::SumLattice`] |
//! | everything after the noise reads public cells and the noisy sum | `Plan::fitted` is given no key |
//!
//! # Edge cases
//!
//! | case | what happens |
//! |---|---|
//! | a cell coerced to none of its values | counts as the first value |
//! | the label is sensitive, too | it is part of the joint value |
//! | more than 128 joint values, a sensitive number, a loss with kinks | refused, with the reason |
//! | more than 256 public numbers | round noise |

mod features;
mod statement;

#[cfg(test)]
mod tests;

pub use statement::Statement;

use crate::mechanisms::believed::{self, Believed, CLOSELY};
use crate::mechanisms::noisy_statistics::design::Design;
use crate::mechanisms::noisy_statistics::fit::{Fitter, soft_label};
use crate::mechanisms::noisy_statistics::lattice::{LabelLattice, LabelSteps, SummedRows, TRIAL_STEPS};
use crate::mechanisms::noisy_statistics::one_output::OneOutput;
use crate::mechanisms::noisy_statistics::prior::Prior;
use crate::mechanisms::noisy_statistics::shape::Shape;
use crate::mechanisms::noisy_statistics::{LabelStatistics, gaussian_std_per_sensitivity};
use crate::mechanisms::sensitive_domain::SensitiveDomain;
use crate::mechanisms::{Fitted, MechanismError, MechanismPlan, Watch};
use crate::plan::Summary;
use crate::problem::Problem;
use crate::rehearsal::{MadeUp, Rehearsal};
use crate::release::StandardErrors;
use features::BeliefFeatures;
use halflit_convex::{Loss, LossSpec};
use halflit_noise::NoiseSource;
use halflit_privacy::calibrate::Budget;
use halflit_privacy::{Change, SensitiveColumns};
use halflit_table::{PublicFeatures, Units, Unsealed};
use std::borrow::Cow;

/// The name of the mechanism in plans, certificates and on the command line.
pub const NAME: &str = "belief_statistics";

/// Where it comes from.
pub(crate) const CITATION: &str = "One Gaussian release of the sums of public columns over the rows of every sensitive value (after Vu and Slavkovic 2009), noise shaped by a public \
    matrix; beliefs about every row by the most likely model of the sensitive values, and the model with the smallest loss expected under them (beliefs as in Ghazi et al. 2024).";

/// How its free parameters are chosen.
pub(crate) const CHOICES: &str = "Before the release the noise is fixed: its scale by the budget, its shape by public columns. What follows is a function of the noisy sum and of public \
    columns; no private cell was used.";

/// The most joint values: every row has a belief about each.
const MOST_VALUES: usize = 128;

/// How large the weights of the belief model are expected to be when the noise is shaped: scores of order one per standard deviation.
const BELIEF_WEIGHT_VARIANCE: f64 = 1.0;

/// Rows of the made-up table on which the excess is predicted. Many, because the minimizer of a small table fits its scatter, which beliefs cannot.
const REHEARSED_ROWS: usize = 20_000;

/// Whether the declaration is of the kind that this mechanism is for.
pub(crate) fn fits(problem: &Problem) -> bool {
    // A sensitive label that enters linearly needs no detour over beliefs.
    let label_alone = problem.encoding().columns().iter().all(|column| !column.is_sensitive());
    !(label_alone && problem.loss().is_canonical()) && checked_domain(problem).is_ok()
}

/// The joint values, if the mechanism can work with them.
fn checked_domain(problem: &Problem) -> Result<SensitiveDomain, MechanismError> {
    let domain = SensitiveDomain::of(problem)?;
    if domain.len() > MOST_VALUES {
        let columns = match problem.relation().sensitive() {
            SensitiveColumns::Named(names) => names.as_slice().to_vec(),
            SensitiveColumns::All => Vec::new(),
        };
        return Err(MechanismError::SensitiveDomain { columns, values: domain.len(), most: MOST_VALUES });
    }
    if !problem.loss().is_smooth() {
        return Err(MechanismError::part(
            NAME,
            "a smooth loss; take smoothed-hinge, huber or pseudo-huber instead of a loss with kinks",
        ));
    }
    match problem.encoded().public_view()?.units {
        Some(_) => Ok(domain),
        None => Err(MechanismError::NothingToRehearse),
    }
}

/// A checked, calibrated plan. It owns no private cell and reads none.
#[derive(Clone, Debug)]
pub struct Plan {
    change: Change,
    domain: SensitiveDomain,
    features: BeliefFeatures,
    lattice: LabelLattice,
    /// T; none is the identity.
    shape: Option<Shape>,
    regularization: f64,
    predicted_excess: f64,
}

impl Plan {
    /// Calibrates the noise to the budget.
    ///
    /// # Errors
    /// A relation or a sensitive column without a finite set of values, no public feature, a loss with kinks, a budget that no noise can meet.
    pub fn new(problem: &Problem, budget: Budget) -> Result<Self, MechanismError> {
        let multiplier = gaussian_std_per_sensitivity(budget)?;
        let mut plan = Plan::with_noise(problem, multiplier)?;
        plan.predicted_excess = rehearsed_excess(problem, multiplier)?;
        Ok(plan)
    }

    /// The plan for noise of so many sensitivities.
    fn with_noise(problem: &Problem, multiplier: f64) -> Result<Self, MechanismError> {
        let domain = checked_domain(problem)?;
        let view = problem.encoded().public_view()?;
        let units = view.units.ok_or(MechanismError::NothingToRehearse)?;
        let features = BeliefFeatures::of(problem)?;
        let change = problem.relation().change();
        let design = design(problem, &domain, &features, units, TRIAL_STEPS)?;
        let labels = LabelSteps::Classes { classes: domain.len() as u64 };
        let prior = Prior::of(&design);
        let shape = OneOutput::flat(&design, &prior, BELIEF_WEIGHT_VARIANCE)?
            .and_then(|output| output.best_shape(&features.private, multiplier * labels.movement(change)));
        let summed = SummedRows { rows: &features.private, shape: shape.as_ref() };
        let lattice = LabelLattice::plan(problem, summed, units, labels, multiplier)?;
        let regularization = believed::penalty(problem);
        let predicted_excess = f64::INFINITY;
        Ok(Plan { change, domain, features, lattice, shape, regularization, predicted_excess })
    }

    /// What the certificate says about the noise: enough to rebuild the event.
    pub fn statement(&self, problem: &Problem) -> Statement {
        Statement {
            change: self.change,
            is_shaped: self.shape.is_some(),
            unit_norm: self.lattice.unit_norm(self.change),
            noise: self.lattice.noise(),
            values: self.domain.len() as u64,
            released: (self.domain.len() * self.features.private.width()) as u64,
            units: problem.private_units(),
            total_weight: problem.total_weight(),
            regularization: self.regularization,
            radius: problem.radius(),
        }
    }

    /// The plan as shown in a table.
    pub(crate) fn summary(&self, problem: &Problem) -> Summary {
        let variant = format!("one release about {} joint values", self.domain.len());
        let noise = self.lattice.noise_std() / problem.total_weight();
        Summary::of_one_release(problem, NAME, variant, self.predicted_excess, noise)
    }

    /// Runs the mechanism: numbered as in `proof.md`.
    pub(crate) fn run(
        &self,
        problem: &Problem,
        token: &Unsealed,
        source: &mut NoiseSource,
        watch: &mut dyn Watch,
    ) -> Result<Fitted, MechanismError> {
        if watch.progress(0, 2).is_break() {
            return Err(MechanismError::Interrupted);
        }
        // 1. The exact integer sum: every private row's public numbers, in the place of its value.
        let values = as_labels(&self.domain.private_positions(problem, token)?);
        let mut release = self.hidden_sum(&values);

        // 2. Its noise: the only release.
        self.lattice.sums.add_noise(&mut source.stream()?, &mut release);
        if watch.progress(1, 2).is_break() {
            return Err(MechanismError::Interrupted);
        }
        // 3. Post-processing: beliefs, and the model.
        let fitted = self.fitted(problem, &release)?;
        watch.progress(2, 2).is_break();
        Ok(fitted)
    }

    fn hidden_sum(&self, values: &[f64]) -> Vec<i64> {
        let summed = SummedRows { rows: &self.features.private, shape: self.shape.as_ref() };
        self.lattice.hidden_sum(summed, values, self.domain.len())
    }

    fn fitted(&self, problem: &Problem, release: &[i64]) -> Result<Fitted, MechanismError> {
        let view = problem.encoded().public_view()?;
        let units = view.units.ok_or(MechanismError::NothingToRehearse)?;
        let steps = self.lattice.steps_per_weight;
        let design = design(problem, &self.domain, &self.features, units, steps)?;
        let row_weights = design.weights.clone();
        let shape = self.shape.as_ref();
        let statistics = LabelStatistics::assembled(&self.lattice, shape, &design, release);
        let beliefs = self.beliefs(&statistics, design)?;
        let rows = match view.features {
            PublicFeatures::All(rows) => Cow::Borrowed(rows),
            PublicFeatures::Some(rows) => Cow::Owned(rows),
            PublicFeatures::None => return Err(MechanismError::NoPublicFeature),
        };
        let believed = Believed {
            loss: problem.loss(),
            rows: &rows,
            labels: view.labels,
            values: self.domain.values(),
            beliefs: &beliefs,
            row_weights: row_weights.as_deref(),
            public: problem.public_data(),
            public_weight: problem.public_row_weight(),
            total_weight: problem.total_weight(),
        };
        let start = vec![0.0; believed.size()];
        let weights = believed.minimizer(self.regularization, problem.radius(), start, CLOSELY);
        let errors = StandardErrors::absent("the sensitive values are believed, not known");
        Ok(Fitted { standard_errors: Some(errors), ..Fitted::from(weights) })
    }

    /// p_i of every private row, row after row.
    fn beliefs(&self, statistics: &LabelStatistics, design: Design) -> Result<Vec<f32>, MechanismError> {
        let fitter = Fitter::new(statistics, design)?;
        let theta = fitter.penalised_weights()?;
        let rows = self.features.private.len();
        let of_row = |row: usize| soft_label(&fitter.design, row, &theta).into_iter().map(|p| p as f32);
        Ok((0..rows).flat_map(of_row).collect())
    }
}

/// The belief model on all rows: its classes are the joint values.
fn design(
    problem: &Problem,
    domain: &SensitiveDomain,
    features: &BeliefFeatures,
    units: &Units,
    steps_per_weight: u64,
) -> Result<Design, MechanismError> {
    let loss = Loss::new(LossSpec::Softmax { classes: domain.len() })?;
    let rows = features.private.concat(&features.public)?;
    let (public, public_labels) = problem.public_data();
    let public_values = as_labels(&domain.positions(public, public_labels, problem.encoding())?);
    Design::on_rows(problem, rows, public_values, units, loss, steps_per_weight)
}

/// Positions as the labels of a model with so many classes.
fn as_labels(positions: &[u16]) -> Vec<f64> {
    positions.iter().map(|&position| f64::from(position)).collect()
}

/// The excess of one run on a made-up table with the same noise per row.
fn rehearsed_excess(problem: &Problem, multiplier: f64) -> Result<f64, MechanismError> {
    let mut rehearsal = Rehearsal::new(&problem.public_side()?, &MadeUp::Model, REHEARSED_ROWS)?;
    let share = rehearsal.problem().total_weight() / problem.total_weight();
    let plan = MechanismPlan::BeliefStatistics(Plan::with_noise(rehearsal.problem(), multiplier * share)?);
    let weights = rehearsal.train(&plan)?;
    rehearsal.excess(&weights, rehearsal.best_loss(problem.declared_penalty())?)
}
