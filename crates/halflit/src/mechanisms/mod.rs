//! The mechanisms, one folder each, named by what they perturb; and what they have in common.

pub mod belief_statistics;
pub mod belief_updates;
mod believed;
pub mod block_statistics;
pub mod local;
pub mod means;
pub mod noisy_gradient;
pub mod noisy_statistics;
pub mod public_rows;
pub mod randomized_response;
mod sensitive_domain;
mod summed_noise;
pub mod weighted_mean;

use crate::plan::Summary;
use crate::problem::Problem;
use crate::release::{Numerics, StandardErrors};
use halflit_convex::kernel::KernelError;
use halflit_convex::solver::SolverError;
use halflit_convex::{DomainError, LabelDomain, Loss, LossError, RowsError};
use halflit_noise::{LatticeError, NoiseError, NoiseSource};
use halflit_privacy::calibrate::{Budget, CalibrationError};
use halflit_privacy::{Change, Event, ParameterError, PrivateRows, Relation, SensitiveColumns, Unit};
use halflit_table::{EncodeError, TableError, Unsealed};
use noisy_gradient::Centre;
use noisy_gradient::parts::Start;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::ControlFlow;

pub use summed_noise::SummedNoise;

/// Why a mechanism could not be planned or run. None of these depends on a private cell.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MechanismError {
    /// A parameter that must be positive is not.
    #[error("{name} = {value}: must be a finite number above 0")]
    NotPositive {
        /// Which parameter.
        name: &'static str,
        /// Its value.
        value: f64,
    },
    /// Nothing public to stand on.
    #[error(
        "a public feature is needed (for beliefs, and for the centres midrange and imputed), and every feature is sensitive; take noisy_gradient with \
         the centre zero, or declare visibility = \"public\" for a column that really is"
    )]
    NoPublicFeature,
    /// Label statistics need public features and a hidden label.
    #[error(
        "label statistics need a sensitive label and public features: declare visibility = \"public\" for every feature that really is, or take \
         another mechanism, such as noisy_gradient"
    )]
    NeedsHiddenLabelOnly,
    /// Gaussian noise has no finite epsilon at delta = 0.
    #[error(
        "{what} has no finite epsilon at delta = 0, because Gaussian noise is never pure; declare a delta above 0, such as 1e-6 (or --delta 1e-6){}",
        or_one_of(pure)
    )]
    NeedsDelta {
        /// What needs a delta.
        what: String,
        /// What would do without one.
        pure: Vec<&'static str>,
    },
    /// Randomized response protects single rows under replace.
    #[error(
        "randomized response protects single rows under replace; declare unit = \"row\" and change = \"replace\", or take noisy_statistics"
    )]
    RowsAndReplaceOnly,
    /// Block statistics are for hidden features and least squares.
    #[error(
        "block statistics need the squared loss, a sensitive feature, unit = \"row\", a public number of rows and at most 1024 coordinates; take noisy_statistics \
         if the label alone is sensitive, else noisy_gradient"
    )]
    NeedsHiddenFeaturesAndSquaredLoss,
    /// The noise is too large for the lattice of squared features.
    #[error(
        "the budget asks for noise of {multiplier} sensitivities, more than the lattice of squared features holds; raise epsilon"
    )]
    TooLittleBudget {
        /// Noise standard deviation over sensitivity.
        multiplier: f64,
    },
    /// The label does not enter linearly.
    #[error(
        "the {loss} loss is not linear in its label; label statistics fit logistic, softmax, squared and poisson"
    )]
    NotCanonical {
        /// Which loss.
        loss: &'static str,
    },
    /// A user with so many rows that each of them weighs nothing.
    #[error(
        "users may have {rows} rows, too many for one row to be seen on the lattice; declare rows_per_user"
    )]
    TooManyRowsPerUser {
        /// The most rows of a user.
        rows: u64,
    },
    /// A released statistic that belongs to another table.
    #[error(
        "the released statistics belong to another table, declaration or loss; fit them on the data they were released from"
    )]
    OtherTable,
    /// A released statistic whose label was read otherwise.
    #[error(
        "the released statistics are about the label `{name}` as it was declared then: the same values in the same order, or the same bounds; declare it so \
         again, or release anew"
    )]
    OtherLabel {
        /// The label that they are about.
        name: String,
    },
    /// Beliefs about a row's values need rows whose values are replaced.
    #[error(
        "belief updates protect the sensitive cells of one row under replace; the nearest supported declaration is unit = \"row\", \
         change = \"replace\""
    )]
    BeliefRelation,
    /// Beliefs need a finite set of values.
    #[error(
        "belief updates need listed values, and the sensitive column {column} is a number; list its values (values = [...]) or take \
         another mechanism"
    )]
    SensitiveNumber {
        /// The column.
        column: String,
    },
    /// Too many or too few values together.
    #[error(
        "the sensitive columns ({}) take {values} values together; belief updates allow 2 to {most}; merge values or take another mechanism",
        columns.join(", ")
    )]
    SensitiveDomain {
        /// The sensitive columns.
        columns: Vec<String>,
        /// Number of joint values.
        values: usize,
        /// The most allowed.
        most: usize,
    },
    /// The rows of private units are not public, so there is nothing to rehearse on.
    #[error(
        "how many rows each user has is not public here, so no table can be made up to rehearse on; fix the parameters instead"
    )]
    NothingToRehearse,
    /// Online queries need the online variant.
    #[error("online queries need a plan of {wanted}; ask for that mechanism when planning")]
    NotOnline {
        /// The mechanism that answers online.
        wanted: &'static str,
    },
    /// A release asked for the numbers of a rehearsal.
    #[error("these numbers follow from public data and protect nobody; take NoiseSource::from_os()")]
    RehearsalNoise,
    /// A made-up table could not be put together.
    #[error(transparent)]
    Table(#[from] TableError),
    /// A made-up table could not be encoded.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// Parts that do not go together, or not with this problem.
    #[error("{part} needs {needs}")]
    Part {
        /// Which part.
        part: &'static str,
        /// What it needs, and what to take instead.
        needs: &'static str,
    },
    /// There is nothing public to learn from.
    #[error("the declaration has no public rows to train on; declare public_rows, or take another mechanism")]
    NoPublicRows,
    /// The public rows could not be fitted.
    #[error(transparent)]
    Solver(#[from] SolverError),
    /// The accountant refused a number.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    /// No noise fits the budget.
    #[error(transparent)]
    Calibration(#[from] CalibrationError),
    /// No lattice fits the plan.
    #[error(transparent)]
    Lattice(#[from] LatticeError),
    /// A pass was refused: shapes or sizes.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// Rows could not be laid out.
    #[error(transparent)]
    Rows(#[from] RowsError),
    /// The loss cannot be made.
    #[error(transparent)]
    Loss(#[from] LossError),
    /// The declared ball is no ball.
    #[error(transparent)]
    Domain(#[from] DomainError),
    /// The operating system gave no randomness.
    #[error(transparent)]
    Noise(#[from] NoiseError),
    /// The caller asked to stop.
    #[error("interrupted: nothing is released, and the charge stays in the ledger")]
    Interrupted,
}

fn or_one_of(pure: &[&str]) -> String {
    if pure.is_empty() { String::new() } else { format!(", or take {}", pure.join(" or ")) }
}

impl MechanismError {
    pub(crate) fn not_positive(name: &'static str, value: f64) -> Self {
        MechanismError::NotPositive { name, value }
    }

    pub(crate) fn part(part: &'static str, needs: &'static str) -> Self {
        MechanismError::Part { part, needs }
    }
}

/// Sees how far a run is, and may stop it.
pub trait Watch {
    /// Called before every step and once at the end. Breaking stops the run; the charge stays.
    fn progress(&mut self, done: u64, total: u64) -> ControlFlow<()>;
}

/// Watches nothing.
impl Watch for () {
    fn progress(&mut self, _done: u64, _total: u64) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// What a run hands back: weights, and what some mechanisms can say about them. All of it may be released.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// The weights, output after output.
    pub weights: Vec<f64>,
    /// Standard errors of the weights, or why there are none.
    pub standard_errors: Option<StandardErrors>,
    /// The released statistics, from which further models can be fitted.
    pub statistics: Option<noisy_statistics::LabelStatistics>,
    /// The clip norm of every step, where it was measured.
    pub clip_norms: Vec<f64>,
    /// What was chosen by post-processing, in sentences for the certificate.
    pub notes: Vec<String>,
}

impl From<Vec<f64>> for Fitted {
    fn from(weights: Vec<f64>) -> Self {
        Fitted { weights, standard_errors: None, statistics: None, clip_norms: Vec::new(), notes: Vec::new() }
    }
}

/// Numbers of a certificate that do not belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inconsistency {
    /// Which field.
    pub field: &'static str,
    /// What it should be.
    pub expected: &'static str,
}

impl Inconsistency {
    pub(crate) fn new(field: &'static str, expected: &'static str) -> Self {
        Inconsistency { field, expected }
    }
}

impl fmt::Display for Inconsistency {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} must be {}", self.field, self.expected)
    }
}

/// What a certificate says about the mechanism.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case")]
#[allow(clippy::large_enum_variant, reason = "one per certificate: its size does not matter")]
pub enum Statement {
    /// One release of sums over the rows of every sensitive value.
    BeliefStatistics(belief_statistics::Statement),
    /// One release of blocks of the Gram matrix.
    BlockStatistics(block_statistics::Statement),
    /// Descent along noisy gradients.
    NoisyGradient(noisy_gradient::Statement),
    /// One release of label sums.
    NoisyStatistics(noisy_statistics::Statement),
    /// A fit of the public rows.
    PublicRows(public_rows::Statement),
    /// A report for every label.
    RandomizedResponse(randomized_response::Statement),
    /// Beliefs about sensitive values, updated by noisy answers.
    BeliefUpdates(belief_updates::Statement),
    /// Randomized messages, one per unit.
    Local(local::Statement),
    /// Means of private and public rows.
    WeightedMean(weighted_mean::Statement),
}

impl Statement {
    /// The event that the run was.
    pub fn event(&self) -> Result<Event, ParameterError> {
        match self {
            Statement::BeliefStatistics(statement) => statement.event(),
            Statement::BlockStatistics(statement) => statement.event(),
            Statement::NoisyGradient(statement) => statement.event(),
            Statement::NoisyStatistics(statement) => statement.event(),
            Statement::PublicRows(_) => Ok(Event::Composed(Vec::new())),
            Statement::RandomizedResponse(statement) => statement.event(),
            Statement::BeliefUpdates(statement) => statement.event(),
            Statement::Local(statement) => statement.event(),
            Statement::WeightedMean(statement) => statement.event(),
        }
    }

    /// Checks that the numbers belong together.
    pub fn check(&self) -> Result<(), Inconsistency> {
        match self {
            Statement::BeliefStatistics(statement) => statement.check(),
            Statement::BlockStatistics(statement) => statement.check(),
            Statement::NoisyGradient(statement) => statement.check(),
            Statement::NoisyStatistics(statement) => statement.check(),
            Statement::PublicRows(statement) => statement.check(),
            Statement::RandomizedResponse(statement) => statement.check(),
            Statement::BeliefUpdates(statement) => statement.check(),
            Statement::Local(statement) => statement.check(),
            Statement::WeightedMean(statement) => statement.check(),
        }
    }

    /// Checks that a release under this relation can have been made in this way.
    pub fn belongs_to(&self, relation: &Relation) -> Result<(), Inconsistency> {
        match self {
            Statement::NoisyGradient(statement) => statement.belongs_to(relation),
            Statement::NoisyStatistics(statement) => {
                some_column_is_public(relation)?;
                weights_belong_to(relation, statement.units, statement.total_weight)
            }
            Statement::BeliefStatistics(statement) => {
                some_column_is_public(relation)?;
                weights_belong_to(relation, statement.units, statement.total_weight)
            }
            Statement::BlockStatistics(statement) => {
                units_are_rows(relation)?;
                statement.belongs_to(relation)?;
                weights_belong_to(relation, statement.units, statement.total_weight)
            }
            Statement::PublicRows(statement) => statement.belongs_to(relation),
            Statement::RandomizedResponse(_) => {
                some_column_is_public(relation)?;
                units_are_rows(relation)
            }
            Statement::BeliefUpdates(_) => {
                some_column_is_public(relation)?;
                units_are_rows(relation)
            }
            // A message is private whatever the sender's row was before.
            Statement::Local(_) => Ok(()),
            Statement::WeightedMean(statement) => mean_belongs_to(relation, statement),
        }
    }

    /// The noise of the one sum that was released, for mechanisms that release one.
    pub fn summed_noise(&self) -> Option<&SummedNoise> {
        match self {
            Statement::BeliefStatistics(statement) => Some(&statement.noise),
            Statement::BlockStatistics(statement) => Some(&statement.noise),
            Statement::NoisyStatistics(statement) => Some(&statement.noise),
            _ => None,
        }
    }

    /// With the clip norms that a run measured.
    pub(crate) fn with_clip_norms(mut self, clip_norms: &[f64]) -> Self {
        if let Statement::NoisyGradient(statement) = &mut self {
            statement.clip_norms = clip_norms.to_vec();
        }
        self
    }

    /// The kind of change that the noise was calibrated for.
    pub fn change(&self) -> Option<Change> {
        match self {
            Statement::BeliefStatistics(statement) => Some(statement.change),
            Statement::BlockStatistics(statement) => Some(statement.change),
            Statement::NoisyGradient(statement) => Some(statement.change),
            Statement::NoisyStatistics(statement) => Some(statement.change),
            Statement::PublicRows(_) => None,
            Statement::RandomizedResponse(_) => Some(Change::Replace),
            Statement::BeliefUpdates(statement) => Some(statement.change),
            Statement::Local(statement) => Some(statement.change),
            Statement::WeightedMean(statement) => Some(statement.change),
        }
    }

    /// Where the mechanism comes from.
    pub fn citation(&self) -> &'static str {
        match self {
            Statement::BeliefStatistics(_) => belief_statistics::CITATION,
            Statement::BlockStatistics(_) => block_statistics::CITATION,
            Statement::NoisyGradient(_) => noisy_gradient::CITATION,
            Statement::NoisyStatistics(_) => noisy_statistics::CITATION,
            Statement::PublicRows(_) => public_rows::CITATION,
            Statement::RandomizedResponse(_) => randomized_response::CITATION,
            Statement::BeliefUpdates(_) => belief_updates::CITATION,
            Statement::Local(_) => local::CITATION,
            Statement::WeightedMean(_) => weighted_mean::CITATION,
        }
    }

    /// How the private sum met its noise.
    pub fn numerics(&self) -> Numerics {
        match self {
            Statement::BeliefStatistics(_)
            | Statement::BlockStatistics(_)
            | Statement::NoisyGradient(_)
            | Statement::NoisyStatistics(_) => Numerics::ExactLattice,
            Statement::PublicRows(_) => Numerics::NoNoiseNeeded,
            Statement::RandomizedResponse(_) => Numerics::ExactCoins,
            Statement::BeliefUpdates(_) => Numerics::ExactLattice,
            Statement::Local(_) => Numerics::Idealized,
            Statement::WeightedMean(statement) if statement.noise.is_none() => Numerics::NoNoiseNeeded,
            Statement::WeightedMean(_) => Numerics::ExactLattice,
        }
    }
}

/// A mechanism that needs public features cannot have run where all columns are sensitive.
fn some_column_is_public(relation: &Relation) -> Result<(), Inconsistency> {
    match relation.sensitive() {
        SensitiveColumns::Named(_) => Ok(()),
        SensitiveColumns::All => Err(Inconsistency::new("mechanism", "another one: no column is public")),
    }
}

/// A mechanism that protects single rows says nothing about users.
fn units_are_rows(relation: &Relation) -> Result<(), Inconsistency> {
    match relation.unit() {
        Unit::Row => Ok(()),
        Unit::User { .. } => Err(Inconsistency::new("mechanism", "another one: it protects single rows")),
    }
}

/// A mean without noise uses no private cell: no column is sensitive, or private units count nothing.
fn mean_belongs_to(relation: &Relation, mean: &weighted_mean::Statement) -> Result<(), Inconsistency> {
    if mean.public_rows > 0 && *relation.private_rows() == PrivateRows::All {
        return Err(Inconsistency::new("public_rows", "0, because no row is public"));
    }
    columns_belong_to(relation, &mean.sensitive_columns, &mean.public_columns)
}

/// The relation protects the columns that met noise, and none that was used as it is.
pub(crate) fn columns_belong_to(
    relation: &Relation,
    sensitive: &[String],
    public: &[String],
) -> Result<(), Inconsistency> {
    let is_protected = |column: &String| match relation.sensitive() {
        SensitiveColumns::All => true,
        SensitiveColumns::Named(names) => names.contains(column),
    };
    if !sensitive.iter().all(is_protected) {
        return Err(Inconsistency::new("sensitive_columns", "columns that the relation protects"));
    }
    if public.iter().any(is_protected) {
        return Err(Inconsistency::new("public_columns", "columns that the relation does not protect"));
    }
    Ok(())
}

/// Every unit counts 1; next to single rows a public row counts 1, too.
pub(crate) fn weights_belong_to(
    relation: &Relation,
    units: u64,
    total_weight: f64,
) -> Result<(), Inconsistency> {
    let public_weight = total_weight - units as f64;
    match (relation.private_rows(), relation.unit()) {
        (PrivateRows::All, _) if public_weight != 0.0 => {
            Err(Inconsistency::new("total_weight", "the number of units, because no row is public"))
        }
        (PrivateRows::Outside(_), Unit::Row) if public_weight.fract() != 0.0 => {
            Err(Inconsistency::new("total_weight", "the number of units and of public rows"))
        }
        _ => Ok(()),
    }
}

/// A planned mechanism.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "a handful per problem: their size does not matter")]
pub enum MechanismPlan {
    /// One release of sums over the rows of every sensitive value.
    BeliefStatistics(belief_statistics::Plan),
    /// One release of blocks of the Gram matrix.
    BlockStatistics(block_statistics::Plan),
    /// Descent along noisy gradients.
    NoisyGradient(noisy_gradient::Plan),
    /// One release of label sums.
    NoisyStatistics(noisy_statistics::Plan),
    /// A fit of the public rows.
    PublicRows(public_rows::Plan),
    /// A report for every label.
    RandomizedResponse(randomized_response::Plan),
    /// Beliefs about sensitive values, updated by noisy answers.
    BeliefUpdates(belief_updates::Plan),
}

/// Every mechanism that can be asked for by name.
const ALL_NAMES: [&str; 8] = [
    noisy_gradient::NAME,
    belief_statistics::NAME,
    block_statistics::NAME,
    noisy_statistics::NAME,
    randomized_response::NAME,
    public_rows::NAME,
    belief_updates::CENTRED_NAME,
    belief_updates::NAME,
];

impl MechanismPlan {
    /// The names of the mechanisms that the declaration is of the kind for.
    pub(crate) fn names(problem: &Problem) -> Vec<&'static str> {
        [
            (noisy_gradient::NAME, true),
            (belief_statistics::NAME, belief_statistics::fits(problem)),
            (block_statistics::NAME, block_statistics::fits(problem)),
            (noisy_statistics::NAME, noisy_statistics::fits(problem)),
            (randomized_response::NAME, randomized_response::fits(problem)),
            (public_rows::NAME, problem.facts().public_rows > 0),
            (belief_updates::CENTRED_NAME, belief_updates::fits(problem)),
            (belief_updates::NAME, belief_updates::fits(problem)),
        ]
        .into_iter()
        .filter_map(|(name, fits)| fits.then_some(name))
        .collect()
    }

    /// Every variant that the request leaves open, planned for the budget. A mechanism that is asked for by name is planned even where it does not fit: it says why.
    pub(crate) fn candidates(
        problem: &Problem,
        wanted: Option<&str>,
        gradient: &noisy_gradient::Params,
        budget: Budget,
    ) -> Vec<Result<MechanismPlan, MechanismError>> {
        let names: Vec<&str> = match wanted {
            Some(wanted) => vec![wanted],
            None => MechanismPlan::names(problem),
        };
        // Everything else adds Gaussian noise.
        let is_pure = |name: &str| matches!(name, randomized_response::NAME | public_rows::NAME);
        let planned = |name: &str| -> Vec<Result<MechanismPlan, MechanismError>> {
            match name {
                name if budget.delta.get() == 0.0 && !is_pure(name) && ALL_NAMES.contains(&name) => {
                    let pure =
                        MechanismPlan::names(problem).into_iter().filter(|name| is_pure(name)).collect();
                    vec![Err(MechanismError::NeedsDelta { what: name.to_owned(), pure })]
                }
                noisy_gradient::NAME => noisy_gradient_variants(problem, gradient)
                    .iter()
                    .map(|params| {
                        noisy_gradient::Plan::new(problem, params, budget).map(MechanismPlan::NoisyGradient)
                    })
                    .collect(),
                belief_statistics::NAME => {
                    let planned = belief_statistics::Plan::new(problem, budget);
                    vec![planned.map(MechanismPlan::BeliefStatistics)]
                }
                block_statistics::NAME => {
                    vec![block_statistics::Plan::new(problem, budget).map(MechanismPlan::BlockStatistics)]
                }
                noisy_statistics::NAME => {
                    vec![noisy_statistics::Plan::new(problem, budget).map(MechanismPlan::NoisyStatistics)]
                }
                randomized_response::NAME => {
                    let planned = randomized_response::Plan::new(problem, budget);
                    vec![planned.map(MechanismPlan::RandomizedResponse)]
                }
                public_rows::NAME => vec![public_rows::Plan::new(problem).map(MechanismPlan::PublicRows)],
                belief_updates::CENTRED_NAME => {
                    vec![belief_updates::Plan::rehearsed(problem, belief_updates::Variant::Centred, budget)]
                }
                belief_updates::NAME => {
                    vec![belief_updates::Plan::rehearsed(problem, belief_updates::Variant::Online, budget)]
                }
                _ => Vec::new(),
            }
        };
        names.into_iter().flat_map(planned).collect()
    }

    pub(crate) fn summary(&self, problem: &Problem) -> Summary {
        match self {
            MechanismPlan::BeliefStatistics(plan) => plan.summary(problem),
            MechanismPlan::BlockStatistics(plan) => plan.summary(problem),
            MechanismPlan::NoisyGradient(plan) => plan.summary(problem),
            MechanismPlan::NoisyStatistics(plan) => plan.summary(problem),
            MechanismPlan::PublicRows(plan) => plan.summary(problem),
            MechanismPlan::RandomizedResponse(plan) => plan.summary(problem),
            MechanismPlan::BeliefUpdates(plan) => plan.summary(problem),
        }
    }

    /// Whether it makes no use of rows being public.
    pub(crate) fn treats_public_rows_as_private(&self) -> bool {
        matches!(self, MechanismPlan::NoisyGradient(plan) if plan.treats_public_rows_as_private())
    }

    pub(crate) fn statement(&self, problem: &Problem) -> Statement {
        match self {
            MechanismPlan::BeliefStatistics(plan) => Statement::BeliefStatistics(plan.statement(problem)),
            MechanismPlan::BlockStatistics(plan) => Statement::BlockStatistics(plan.statement(problem)),
            MechanismPlan::NoisyGradient(plan) => Statement::NoisyGradient(plan.statement(problem)),
            MechanismPlan::NoisyStatistics(plan) => Statement::NoisyStatistics(plan.statement(problem)),
            MechanismPlan::PublicRows(plan) => Statement::PublicRows(plan.statement(problem)),
            MechanismPlan::RandomizedResponse(plan) => Statement::RandomizedResponse(plan.statement(problem)),
            MechanismPlan::BeliefUpdates(plan) => Statement::BeliefUpdates(plan.statement(problem)),
        }
    }

    /// How what was not declared was chosen.
    pub(crate) fn choices(&self) -> &'static str {
        match self {
            MechanismPlan::BeliefStatistics(_) => belief_statistics::CHOICES,
            MechanismPlan::BlockStatistics(_) => block_statistics::CHOICES,
            MechanismPlan::NoisyGradient(_) => noisy_gradient::CHOICES,
            MechanismPlan::NoisyStatistics(_) => noisy_statistics::CHOICES,
            MechanismPlan::PublicRows(_) => public_rows::CHOICES,
            MechanismPlan::RandomizedResponse(_) => randomized_response::CHOICES,
            MechanismPlan::BeliefUpdates(plan) => plan.choices(),
        }
    }

    pub(crate) fn run(
        &self,
        problem: &Problem,
        token: &Unsealed,
        source: &mut NoiseSource,
        watch: &mut dyn Watch,
    ) -> Result<Fitted, MechanismError> {
        match self {
            MechanismPlan::BeliefStatistics(plan) => plan.run(problem, token, source, watch),
            MechanismPlan::BlockStatistics(plan) => plan.run(problem, token, source, watch),
            MechanismPlan::NoisyGradient(plan) => plan.run(problem, token, source, watch),
            MechanismPlan::NoisyStatistics(plan) => plan.run(problem, token, source, watch),
            MechanismPlan::PublicRows(plan) => plan.run(problem).map(Fitted::from),
            MechanismPlan::RandomizedResponse(plan) => {
                plan.run(problem, token, source, watch).map(Fitted::from)
            }
            MechanismPlan::BeliefUpdates(plan) => plan.run(problem, token, source, watch),
        }
    }
}

/// The ways to run `noisy_gradient` that the given parts leave open, the likeliest first: some cannot be predicted.
fn noisy_gradient_variants(problem: &Problem, given: &noisy_gradient::Params) -> Vec<noisy_gradient::Params> {
    let some_column_is_public = problem.encoding().columns().iter().any(|column| !column.is_sensitive());
    let has_public_rows = problem.facts().public_rows > 0;
    let mut variants = vec![given.clone()];
    if given.centre.is_none() && some_column_is_public {
        variants.push(noisy_gradient::Params { centre: Some(Centre::Zero), ..given.clone() });
    }
    if has_public_rows && given.start.is_none() && given.descent.is_none() {
        let warm = |params: &noisy_gradient::Params| noisy_gradient::Params {
            start: Some(Start::PublicMinimizer),
            ..params.clone()
        };
        variants = variants.iter().map(warm).chain(variants.iter().cloned()).collect();
    }
    if has_public_rows && *given == noisy_gradient::Params::default() {
        variants.push(noisy_gradient::modes::posterior());
        variants.push(noisy_gradient::modes::all_rows_as_private());
        if noisy_gradient::modes::has_pda_md(problem) {
            variants.push(noisy_gradient::modes::Constants::from_public_fit().pda_md(None));
        }
    }
    variants
}

/// A guess of the norm of the minimizer: three quarters of a unit of score per coordinate, at most 8 in all; a quarter of that for
/// regression labels scaled to [-1, 1].
pub(crate) fn prior_radius(loss: Loss, dimension: usize, declared_radius: Option<f64>) -> f64 {
    let guess = (0.75 * (dimension as f64).sqrt()).min(8.0);
    let guess = match (loss.label_domain(), loss.name()) {
        (LabelDomain::Within(_), name) if name != "poisson" => guess / 4.0,
        _ => guess,
    };
    declared_radius.map_or(guess, |radius| guess.min(radius))
}

/// Whether a predicted excess is so large that the zero model does as well. What is not predicted (infinity) is not hopeless.
pub(crate) fn is_hopeless(predicted_excess: f64, problem: &Problem) -> bool {
    predicted_excess != f64::INFINITY && !(predicted_excess < zero_model_loss(problem.loss()))
}

/// The mean loss of the zero model, at most: what a plan must beat to be worth its budget.
fn zero_model_loss(loss: Loss) -> f64 {
    match loss.label_domain() {
        LabelDomain::Classes(classes) => (classes as f64).ln(),
        LabelDomain::Binary => std::f64::consts::LN_2,
        LabelDomain::Within(labels) => {
            [labels.low, labels.high].map(|label| loss.value(&[0.0], label)).into_iter().fold(0.0, f64::max)
        }
        LabelDomain::Signs | LabelDomain::None => 1.0,
    }
}
