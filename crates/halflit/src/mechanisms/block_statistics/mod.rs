//! Least squares when some features are sensitive: one noisy release of the blocks of the Gram matrix that touch a hidden coordinate.
//!
//! Split a private row (features, label) into its known part a (public features, intercept, a public label) and its hidden part s. The blocks sum a a^T are
//! public; sum a s^T and sum s s^T are released together with Gaussian noise; least squares follows by post-processing. With every column hidden this is the classical
//! perturbation of sufficient statistics.
//!
//! Citation: Vu and Slavkovic 2009; Wang 2018 (AdaSSP: adaptive ridge); joint sensitivity of the blocks: `proof.md`. Legend: A, B norms of the known
//! and the hidden part, h hidden coordinates.
//!
//! # Guarantee
//!
//! For unit row, replace or zero-out, the release has the profile of `GaussianDiameter { M D, 2^k }` in lattice units, D the joint sensitivity at the largest
//! known norm of this table's private rows. See `proof.md`.
//!
//! # Preconditions
//!
//! | what | enforced by |
//! |---|---|
//! | the hidden part has norm at most B | `halflit_noise::clip` on integers, always applied |
//! | the known part has norm at most A | A is the maximum over the private rows, from public cells |
//! | the number of private rows is public | the plan is refused otherwise |
//! | sums do not overflow, the noise is exact | [`halflit_noise::SumLattice`] |
//! | everything after the noise reads public cells and the release | `Plan::fitted` is given no key |
//!
//! # Edge cases
//!
//! | case | what happens |
//! |---|---|
//! | a noisy matrix that is not positive semidefinite | negative eigenvalues become zero, the ridge is at least what the noise could hide |
//! | no hidden feature | refused: label statistics do it better |
//! | users | refused: declare rows, or take noisy_gradient |

mod gram;
mod sensitivity;
#[cfg(test)]
mod tests;

use crate::mechanisms::noisy_statistics::gaussian_std_per_sensitivity;
use crate::mechanisms::summed_noise::SummedNoise;
use crate::mechanisms::{Fitted, Inconsistency, MechanismError, Watch, prior_radius};
use crate::plan::Summary;
use crate::problem::{FEATURE_UNIT, Problem};
use crate::release::StandardErrors;
use gram::{Coordinates, KnownParts};
use halflit_noise::{NoiseSource, SumLattice, SumRequest};
use halflit_privacy::calibrate::Budget;
use halflit_privacy::{Change, Event, ParameterError, Relation, SensitiveColumns, Unit};
use halflit_table::{Regularization, Unsealed};
use sensitivity::joint_sensitivity;
use serde::{Deserialize, Serialize};

/// The name of the mechanism in plans, certificates and on the command line.
pub const NAME: &str = "block_statistics";

/// Where it comes from.
pub(crate) const CITATION: &str = "One Gaussian release of the blocks of the Gram matrix that touch a hidden coordinate (after Vu and Slavkovic 2009), with their \
    joint sensitivity; positive-semidefinite repair and adaptive ridge as in AdaSSP (Wang 2018).";

/// How its free parameters are chosen.
pub(crate) const CHOICES: &str = "Nothing but the noise scale is fixed before the release, and that follows from the budget. The ridge follows from the \
    noise scale and the released matrix by a fixed rule, which is post-processing; no private cell was used.";

/// The most weights: eigenvectors of the Gram matrix are computed.
const MOST_WEIGHTS: usize = 1024;

/// A checked, calibrated plan. It owns no private cell and reads none.
#[derive(Clone, Debug)]
pub struct Plan {
    change: Change,
    coordinates: Coordinates,
    private_rows: usize,
    known_norm: f64,
    /// B in feature units.
    hidden_radius: u64,
    /// M: the integer sum is multiplied by it.
    steps: u64,
    lattice: SumLattice,
    sensitivity: u64,
    ridge: f64,
    predicted_excess: f64,
}

/// What the certificate says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    /// How a row may change; decides the sensitivity.
    pub change: Change,
    /// A: the largest norm of the known part of a private row, rounded up.
    pub known_norm: f64,
    /// B: the norm that hidden parts are clipped to.
    pub hidden_radius: f64,
    /// h: number of hidden coordinates, a hidden label included.
    pub hidden_coordinates: u64,
    /// The noise, and how far one row can move the sums.
    pub noise: SummedNoise,
    /// Number of released numbers.
    pub released: u64,
    /// Number of protected rows, a public constant.
    pub units: u64,
    /// What sums are divided by, a public constant.
    pub total_weight: f64,
    /// Radius of the ball that the weights stay in, if declared.
    pub radius: Option<f64>,
}

impl Statement {
    /// The event that the release was: one Gaussian, in lattice units.
    pub fn event(&self) -> Result<Event, ParameterError> {
        self.noise.event()
    }

    /// Checks that the numbers belong together.
    pub fn check(&self) -> Result<(), Inconsistency> {
        self.noise.check(self.units)?;
        let is_norm = |value: f64| value.is_finite() && value >= 0.0;
        let is_positive = |value: f64| value.is_finite() && value > 0.0;
        if !(is_norm(self.known_norm)
            && is_positive(self.hidden_radius)
            && is_positive(self.noise.sensitivity))
        {
            return Err(Inconsistency::new("norms", "finite, the hidden radius and the sensitivity above 0"));
        }
        if self.hidden_coordinates == 0 {
            return Err(Inconsistency::new("hidden_coordinates", "at least 1"));
        }
        let needed = joint_sensitivity(
            self.known_norm,
            self.hidden_radius,
            self.hidden_coordinates as usize,
            self.change,
        );
        // It is that number, rounded up to a whole number of squared feature units.
        let most = (needed + FEATURE_UNIT * FEATURE_UNIT) * (1.0 + 1e-9);
        if !(self.noise.sensitivity >= needed * (1.0 - 1e-12) && self.noise.sensitivity <= most) {
            return Err(Inconsistency::new(
                "sensitivity",
                "what the norms of the known and hidden parts imply",
            ));
        }
        Ok(())
    }

    /// Where all columns are sensitive the intercept is all that is known of a row, and under zero-out not even how many rows there are.
    pub(crate) fn belongs_to(&self, relation: &Relation) -> Result<(), Inconsistency> {
        match (relation.sensitive(), relation.change()) {
            (SensitiveColumns::Named(_), _) => Ok(()),
            (SensitiveColumns::All, Change::ZeroOut) => {
                Err(Inconsistency::new("mechanism", "another one: the number of rows is not public"))
            }
            (SensitiveColumns::All, Change::Replace) if self.known_norm > 1.0 => {
                Err(Inconsistency::new("known_norm", "at most 1, because no column is public"))
            }
            (SensitiveColumns::All, Change::Replace) => Ok(()),
        }
    }
}

/// Whether the declaration is of the kind that this mechanism is for.
pub(crate) fn fits(problem: &Problem) -> bool {
    check(problem).is_ok()
}

fn check(problem: &Problem) -> Result<usize, MechanismError> {
    let loss = problem.loss().name();
    let sensitive = problem.encoding().columns().iter().any(|column| column.is_sensitive());
    let rows = problem.facts().private_rows.filter(|_| *problem.relation().unit() == Unit::Row);
    match rows {
        Some(rows) if loss == "squared" && sensitive && problem.encoding().width() <= MOST_WEIGHTS => {
            Ok(rows as usize)
        }
        _ => Err(MechanismError::NeedsHiddenFeaturesAndSquaredLoss),
    }
}

impl Plan {
    /// Calibrates the noise to the budget.
    ///
    /// # Errors
    /// Another loss than squared, no hidden feature, users, a number of rows that is not public, a budget that no noise can meet.
    pub fn new(problem: &Problem, budget: Budget) -> Result<Self, MechanismError> {
        let private_rows = check(problem)?;
        let change = problem.relation().change();
        let coordinates = Coordinates::of(problem)?;
        let known = KnownParts::of(problem, &coordinates, private_rows)?;
        let known_norm = root_rounded_up(known.largest_squared_norm()) as f64;
        let hidden_radius = hidden_radius(problem, &coordinates);
        let h = coordinates.hidden.len();
        // In squared feature units, a whole number.
        let one_step = joint_sensitivity(known_norm, hidden_radius as f64, h, change).ceil() as u64;
        let multiplier = gaussian_std_per_sensitivity(budget)?;
        let square = FEATURE_UNIT * FEATURE_UNIT;
        let lattice =
            SumLattice::plan(&SumRequest::l2(one_step as f64 * square, multiplier, problem.private_units()))?;
        let steps = lattice.radius() / one_step;
        if steps == 0 {
            return Err(MechanismError::TooLittleBudget { multiplier });
        }
        let mut plan = Plan {
            change,
            coordinates,
            private_rows,
            known_norm,
            hidden_radius,
            steps,
            lattice,
            sensitivity: steps * one_step,
            ridge: 0.0,
            predicted_excess: f64::INFINITY,
        };
        (plan.ridge, plan.predicted_excess) = plan.expectations(problem, &known)?;
        Ok(plan)
    }

    /// What one integer of the release is worth.
    fn unit(&self) -> f64 {
        FEATURE_UNIT * FEATURE_UNIT / self.steps as f64
    }

    fn noise_std(&self) -> f64 {
        self.unit() * self.lattice.bits().scale()
    }

    /// The ridge in the scale of sums, and the predicted excess of the mean loss.
    ///
    /// At weights w the noise moves the normal equations by about sigma sqrt(1 + ||w||^2) in every coordinate; weights are taken to be of size R/sqrt(d) with
    /// the guessed radius R. Coordinates are taken one by one, hidden ones as if spread evenly over their domain.
    fn expectations(&self, problem: &Problem, known: &KnownParts) -> Result<(f64, f64), MechanismError> {
        let (width, weight) = (self.coordinates.width, problem.total_weight());
        let radius = prior_radius(problem.loss(), width, problem.radius());
        let variance = radius * radius / width as f64;
        let noise = self.noise_std() * radius.hypot(1.0);
        let ridge = match problem.regularization() {
            Regularization::Auto => noise / variance.sqrt(),
            Regularization::Fixed(lambda) => lambda * weight,
        };
        let mut curvature = vec![0.0; width];
        for row in 0..known.len {
            let part = known.part(row, self.coordinates.size())?;
            for (curvature, a) in curvature.iter_mut().zip(part) {
                *curvature += (a as f64 * FEATURE_UNIT).powi(2);
            }
        }
        for column in problem.encoding().columns().iter().filter(|column| column.is_sensitive()) {
            let coordinates = column.coordinates();
            let share = if coordinates.len() == 1 { 1.0 / 3.0 } else { 1.0 / coordinates.len() as f64 };
            coordinates.for_each(|coordinate| curvature[coordinate] = share * weight);
        }
        let excess: f64 = curvature
            .iter()
            .map(|h| 0.5 * h * (noise * noise + ridge * ridge * variance) / (h + ridge).powi(2))
            .sum();
        Ok((ridge, excess / weight))
    }

    /// What the certificate says about the noise: enough to rebuild the event.
    pub fn statement(&self, problem: &Problem) -> Statement {
        Statement {
            change: self.change,
            known_norm: self.known_norm * FEATURE_UNIT,
            hidden_radius: self.hidden_radius as f64 * FEATURE_UNIT,
            hidden_coordinates: self.coordinates.hidden.len() as u64,
            noise: SummedNoise::new(self.lattice.bits().get(), self.sensitivity, self.unit()),
            released: self.coordinates.released() as u64,
            units: problem.private_units(),
            total_weight: problem.total_weight(),
            radius: problem.radius(),
        }
    }

    /// The plan as shown in a table.
    pub(crate) fn summary(&self, problem: &Problem) -> Summary {
        let variant = format!("{} hidden coordinates", self.coordinates.hidden.len());
        let noise = self.noise_std() / problem.total_weight();
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
        if watch.progress(0, 1).is_break() {
            return Err(MechanismError::Interrupted);
        }
        let known = KnownParts::of(problem, &self.coordinates, self.private_rows)?;
        // 1. The exact integer sums of the hidden blocks, hidden parts clipped.
        let encoded = problem.encoded();
        let (rows, labels) = (encoded.private_rows().open(token), encoded.private_labels().open(token));
        let mut release = gram::hidden_sum(&self.coordinates, &known, rows, labels, self.hidden_radius)?;
        // At most units * M * D < 2^62.
        release.iter_mut().for_each(|sum| *sum *= self.steps as i64);
        // 2. Their noise: the only release.
        self.lattice.add_noise(&mut source.stream()?, &mut release);
        // 3. Post-processing.
        let fitted = self.fitted(problem, &known, &release)?;
        watch.progress(1, 1).is_break();
        Ok(fitted)
    }

    /// Least squares on the repaired matrix.
    fn fitted(
        &self,
        problem: &Problem,
        known: &KnownParts,
        release: &[i64],
    ) -> Result<Fitted, MechanismError> {
        let release: Vec<f64> = release.iter().map(|&sum| sum as f64 * self.unit()).collect();
        let matrix = gram::assembled(problem, &self.coordinates, known, &release)?;
        let (size, width) = (self.coordinates.size(), self.coordinates.width);
        let (repaired, least) = gram::repaired(&matrix, size);
        // What the noise alone can do to an eigenvalue (Gaussian blocks): directions below it are not to be trusted.
        let (p, h) = (self.coordinates.known.len() as f64, self.coordinates.hidden.len() as f64);
        let doubt = self.noise_std() * (p.sqrt() + h.sqrt());
        let ridge = self.ridge.max(doubt - least.max(0.0)).max(1e-9 * problem.total_weight());
        let weights = gram::ridge(&repaired, width, ridge, problem.radius())
            .ok_or(MechanismError::not_positive("ridge", ridge))?;
        let note = format!("Fitted with l2 penalty {:.3e}.", ridge / problem.total_weight());
        let errors = StandardErrors::absent(
            "hidden features are noisy themselves, and the residual variance was not released",
        );
        Ok(Fitted { standard_errors: Some(errors), notes: vec![note], ..Fitted::from(weights) })
    }
}

/// B in feature units: every sensitive column has length at most 1, and so has a hidden label; a declared row norm may be shorter.
fn hidden_radius(problem: &Problem, coordinates: &Coordinates) -> u64 {
    let one = 1u64 << (2 * halflit_convex::FEATURE_BITS);
    let sensitive = problem.encoding().columns().iter().filter(|column| column.is_sensitive()).count() as u64;
    let features = (sensitive * one).min(problem.encoding().largest_squared_norm());
    root_rounded_up(features + if coordinates.label_is_hidden() { one } else { 0 })
}

fn root_rounded_up(square: u64) -> u64 {
    let root = square.isqrt();
    if root * root == square { root } else { root + 1 }
}
