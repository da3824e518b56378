//! Training on the public rows alone: the baseline that costs nothing.
//!
//! # Guarantee
//!
//! No private cell is read, so nothing is spent: the event is the empty composition. See `proof.md`.
//!
//! # Preconditions
//!
//! | what | enforced by |
//! |---|---|
//! | only public rows are read | the run is given the public part of the table, never the key |
//! | which rows are public does not depend on private cells | the declaration refuses a sensitive selector |
//!
//! # Edge cases
//!
//! | case | what happens |
//! |---|---|
//! | no public rows | refused when planning |
//! | fewer rows than weights | the penalty makes the minimizer unique |

mod certainty;
mod size;
#[cfg(test)]
mod tests;

pub(crate) use certainty::dispersion;
pub(crate) use size::weights_norm;

use crate::mechanisms::{Inconsistency, MechanismError, is_hopeless, noisy_gradient, prior_radius};
use crate::plan::Summary;
use crate::problem::Problem;
use halflit_convex::solver::{self, ProblemSpec};
use halflit_convex::{Domain, Loss, Rows};
use halflit_privacy::{PrivateRows, Relation};
use halflit_table::Regularization;
use serde::{Deserialize, Serialize};

/// The name of the mechanism in plans, certificates and on the command line.
pub const NAME: &str = "public_rows";

/// Where it comes from.
pub(crate) const CITATION: &str =
    "Penalised empirical risk minimization on the public rows alone (Lowy et al. 2024 call it throw-away).";

/// How its free parameters are chosen.
pub(crate) const CHOICES: &str = "The penalty is declared, or follows from the number of public rows and of weights and from how well fits to some public rows predict the others; no private cell was used.";

/// How near the minimizer the weights should be: far below what the sampling error of any table allows to see.
const TOLERANCE: f64 = 1e-6;

/// A checked plan.
#[derive(Clone, Debug)]
pub struct Plan {
    regularization: f64,
    predicted_excess: f64,
}

/// What the certificate says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    /// Number of public rows.
    pub rows: u64,
    /// The l2 penalty.
    pub regularization: f64,
    /// Radius of the ball that the weights stay in, if declared.
    pub radius: Option<f64>,
}

impl Statement {
    pub(crate) fn check(&self) -> Result<(), Inconsistency> {
        let is_positive = |value: f64| value.is_finite() && value > 0.0;
        if self.rows == 0 {
            return Err(Inconsistency::new("rows", "at least 1"));
        }
        if !is_positive(self.regularization) {
            return Err(Inconsistency::new("regularization", "a finite number above 0"));
        }
        if !self.radius.is_none_or(is_positive) {
            return Err(Inconsistency::new("radius", "a finite number above 0, or absent"));
        }
        Ok(())
    }

    /// Checks that the relation has public rows at all.
    pub(crate) fn belongs_to(&self, relation: &Relation) -> Result<(), Inconsistency> {
        match relation.private_rows() {
            PrivateRows::Outside(_) => Ok(()),
            PrivateRows::All => {
                Err(Inconsistency::new("mechanism", "another one: the relation has no public rows"))
            }
        }
    }
}

impl Plan {
    /// Plans the fit.
    ///
    /// # Errors
    /// The declaration has no public rows.
    pub fn new(problem: &Problem) -> Result<Self, MechanismError> {
        if problem.facts().public_rows == 0 {
            return Err(MechanismError::NoPublicRows);
        }
        let predicted_excess = noisy_gradient::predicted_of_public_fit(problem)?;
        Ok(Plan { regularization: penalty(problem)?, predicted_excess })
    }

    pub(crate) fn summary(&self, problem: &Problem) -> Summary {
        Summary {
            mechanism: NAME.to_owned(),
            variant: format!("{} public rows only, costs nothing", problem.facts().public_rows),
            predicted_excess: self.predicted_excess,
            is_rehearsed: false,
            releases: 0,
            passes: 0.0,
            noise_per_release: 0.0,
            is_hopeless: is_hopeless(self.predicted_excess, problem),
        }
    }

    pub(crate) fn statement(&self, problem: &Problem) -> Statement {
        Statement {
            rows: problem.facts().public_rows,
            regularization: self.regularization,
            radius: problem.radius(),
        }
    }

    /// Minimises the penalised mean loss of the public rows.
    pub(crate) fn run(&self, problem: &Problem) -> Result<Vec<f64>, MechanismError> {
        fitted_with(problem, self.regularization)
    }
}

/// The declared penalty, or one for weights as large as the public rows suggest.
fn penalty(problem: &Problem) -> Result<f64, MechanismError> {
    Ok(match problem.regularization() {
        Regularization::Fixed(lambda) if lambda > 0.0 => lambda,
        _ => {
            let rows = problem.facts().public_rows as f64;
            problem.dimension() as f64 / (rows * weights_norm(problem)?.powi(2))
        }
    })
}

/// The minimizer of the public rows' penalised mean loss.
///
/// # Errors
/// There are no public rows.
pub(crate) fn fitted(problem: &Problem) -> Result<Vec<f64>, MechanismError> {
    match problem.facts().public_rows {
        0 => Err(MechanismError::NoPublicRows),
        _ => fitted_with(problem, penalty(problem)?),
    }
}

/// The same for a given penalty; the first one is kept with the problem.
fn fitted_with(problem: &Problem, regularization: f64) -> Result<Vec<f64>, MechanismError> {
    let key = regularization.to_bits();
    if let Some((_, known)) = problem.public_fit().get().filter(|(fitted, _)| *fitted == key) {
        return Ok(known.clone());
    }
    let (rows, labels) = problem.public_data();
    let (loss, bound, radius) = (problem.loss(), problem.row_norm_bound(), problem.radius());
    let weights = fit(loss, rows, labels, bound, regularization, radius)?;
    problem.public_fit().get_or_init(|| (key, weights.clone()));
    Ok(weights)
}

/// The penalty of a Gaussian prior with the guessed radius: lambda = d / (n R^2).
pub fn default_penalty(loss: Loss, dimension: usize, rows: f64, radius: Option<f64>) -> f64 {
    dimension as f64 / (rows * prior_radius(loss, dimension, radius).powi(2))
}

/// The minimizer of the penalised mean loss of some rows that need no protection.
pub fn fit(
    loss: Loss,
    rows: &Rows,
    labels: &[f64],
    row_norm: f64,
    regularization: f64,
    radius: Option<f64>,
) -> Result<Vec<f64>, MechanismError> {
    let problem = posed(loss, rows, labels, row_norm, regularization, radius)?;
    Ok(solver::minimize_as_far_as_possible(&problem, TOLERANCE, None)?.weights)
}

fn posed<'a>(
    loss: Loss,
    rows: &'a Rows,
    labels: &'a [f64],
    row_norm: f64,
    regularization: f64,
    radius: Option<f64>,
) -> Result<solver::Problem<'a>, MechanismError> {
    let dimension = rows.width() * loss.outputs();
    let domain = match radius {
        Some(radius) => Domain::centred_ball(dimension, radius)?,
        None => Domain::whole(dimension, None)?,
    };
    Ok(solver::Problem::new(ProblemSpec {
        rows,
        row_norm,
        labels: Some(labels),
        row_weights: None,
        total_weight: rows.len() as f64,
        loss,
        regularization,
        anchor: None,
        linear: None,
        domain,
    })?)
}
