//! One noisy release of everything that a canonical loss needs of the labels; all models follow from it by post-processing.
//!
//! For a loss A(<w, x>) - t(y) <w, x> the labels enter through S = sum_i omega_i x_i t(y_i)^T alone. If the label is the only sensitive column that is
//! learned from, one Gaussian release of S is enough for a model, for a whole regularization path, and for standard errors.
//!
//! Citation: sufficient-statistics perturbation (Vu and Slavkovic 2009; McSherry and Mironov 2009) with features public under label privacy; the
//! shape of the noise is an optimal design (Silvey, Titterington, Torsney 1978); estimates of the loss follow Stein 1981.
//!
//! # Guarantee
//!
//! Under the declared relation (label sensitive, features public; unit row or user; replace or zero-out) the release has the privacy profile
//! of `GaussianDiameter { sensitivity: D, noise_std: 2^k }` in lattice units. See `proof.md`.
//!
//! # Preconditions
//!
//! | what | enforced by |
//! |---|---|
//! | the label is sensitive, all features and row counts are public | `design::public_parts`: the public view has them, or the plan is refused |
//! | one unit moves the sum by at most D | integer coefficients clamped to public steps, D from the exact norms of these rows (`lattice`) |
//! | a row's coefficient depends on its own label and public values | `LabelSteps::coefficient` is given nothing else |
//! | the noise is exactly normal with standard deviation 2^k | [`halflit_noise::SumLattice`] |
//! | sums do not overflow | `SumLattice::plan`: units * D < 2^62 |
//! | everything after the noise reads public features and the noisy sum | `LabelStatistics::fitter` is given no key |
//!
//! # Edge cases
//!
//! | case | what happens |
//! |---|---|
//! | a row of zeros | contributes zero |
//! | every row is zero | the sensitivity is one lattice unit |
//! | a noisy sum that no labels could have produced | the model's own sum is fitted to it, and the prior keeps the weights finite |
//! | a label that is NaN | contributes zero |
//! | more than 256 features | round noise |
//! | more than 512 weights | a penalised fit without second derivatives: no estimates of losses, no standard errors |

pub(crate) mod design;
mod errors;
pub(crate) mod fit;
mod large;
pub(crate) mod lattice;
pub(crate) mod matrix;
pub(crate) mod one_output;
mod posterior;
pub(crate) mod prediction;
pub(crate) mod prior;
mod projection;
pub(crate) mod shape;
mod statement;
mod statistics;
#[cfg(test)]
mod tests;

pub use fit::{Fit, Fitter, Penalties, Sums};
pub use lattice::LabelSteps;
pub(crate) use lattice::check_movement;
pub use projection::Projection;
pub use statement::Statement;
pub use statistics::{LabelColumn, LabelStatistics, STATISTICS_FORMAT, StatisticsError};

use crate::mechanisms::noisy_gradient::remove_common_part;
use crate::mechanisms::{Fitted, MechanismError, Watch, prior_radius};
use crate::plan::Summary;
use crate::problem::Problem;
use design::{Design, label_steps, public_parts};
use halflit_convex::Rows;
use halflit_noise::NoiseSource;
use halflit_privacy::calibrate::{self, Budget};
use halflit_privacy::{Change, Event, L2Sensitivity, NoiseStd};
use halflit_table::{Regularization, Unsealed};
use lattice::{LabelLattice, SummedRows};
use one_output::OneOutput;
use prediction::Rehearsal;
use prior::Prior;
use shape::Shape;

/// The name of the mechanism in plans, certificates and on the command line.
pub const NAME: &str = "noisy_statistics";

/// Where it comes from.
pub(crate) const CITATION: &str = "One Gaussian release of the sum of features times label statistic (Vu and Slavkovic 2009), sensitivity from the public \
    features of the rows at hand, noise shaped by a public matrix (optimal design); the most likely weights given the noisy sum.";

/// How its free parameters are chosen.
pub(crate) const CHOICES: &str = "Before the release the noise is fixed: its scale by the budget, its shape by public features. The expected size of weights is chosen \
    from the noisy sum and public features, which is post-processing; no private cell was used.";

/// The smallest standard deviation, in units of the sensitivity, at which one Gaussian release fits the budget.
pub(crate) fn gaussian_std_per_sensitivity(budget: Budget) -> Result<f64, MechanismError> {
    let sensitivity = L2Sensitivity::new(1.0)?;
    let range = (0.01, 1e9);
    let found =
        calibrate::continuous("noise standard deviation", budget, calibrate::Careful::Large, range, |std| {
            let noise_std = NoiseStd::new(std)?;
            Ok((std, Event::GaussianDiameter { sensitivity, noise_std }))
        })?;
    Ok(found.value)
}

/// Whether the declaration is of the kind that this mechanism is for.
pub(crate) fn fits(problem: &Problem) -> bool {
    let is_hidden_label = |view: halflit_table::PublicView<'_>| {
        label_steps(problem.loss()).is_ok() && public_parts(&view).is_ok()
    };
    problem.encoded().public_view().is_ok_and(is_hidden_label)
}

/// A checked, calibrated plan. It owns no private cell and reads none.
#[derive(Clone, Debug)]
pub struct Plan {
    change: Change,
    lattice: LabelLattice,
    /// T; none is the identity.
    shape: Option<Shape>,
    predicted_excess: f64,
}

impl Plan {
    /// Calibrates the noise to the budget.
    ///
    /// # Errors
    /// A loss that is not canonical, a relation under which features are hidden or the label is not, a budget that no noise can meet.
    pub fn new(problem: &Problem, budget: Budget) -> Result<Self, MechanismError> {
        let labels = label_steps(problem.loss())?;
        let view = problem.encoded().public_view()?;
        let (rows, units) = public_parts(&view)?;
        let multiplier = gaussian_std_per_sensitivity(budget)?;
        let change = problem.relation().change();
        let design = Design::new(problem, lattice::TRIAL_STEPS)?;
        let rehearsal = Rehearsal::new(&design)?;
        let noise_per_row = multiplier * labels.movement(change);
        let prior = Prior::of(&design);
        let one_output = match &rehearsal {
            Some(rehearsal) => Some(rehearsal.one_output()),
            None => OneOutput::flat(&design, &prior, prediction::prior_variance(&design))?,
        };
        let shape = one_output.as_ref().and_then(|output| output.best_shape(rows, noise_per_row));
        let summed = SummedRows { rows, shape: shape.as_ref() };
        let lattice = LabelLattice::plan(problem, summed, units, labels, multiplier)?;
        let noise_std = lattice.noise_std();
        let predicted_excess = match (&rehearsal, &one_output) {
            (Some(rehearsal), _) => rehearsal.after_noise(shape.as_ref(), noise_std),
            (None, Some(output)) => {
                let outputs = design.loss.outputs() as f64;
                let one = output.after_noise(shape.as_ref(), noise_std).unwrap_or(f64::INFINITY);
                outputs * one / design.total_weight
            }
            // The bound that holds for any spectrum: sigma R sqrt(d) / W, what noise along the minimizer can cost.
            (None, None) => {
                let size = design.size();
                noise_std * (size as f64).sqrt() * prior_radius(design.loss, size, design.radius)
                    / design.total_weight
            }
        };
        Ok(Plan { change, lattice, shape, predicted_excess })
    }

    /// What the certificate says about the noise: enough to rebuild the event.
    pub fn statement(&self, problem: &Problem) -> Statement {
        Statement {
            change: self.change,
            is_shaped: self.shape.is_some(),
            labels: self.lattice.labels,
            unit_norm: self.lattice.unit_norm(self.change),
            noise: self.lattice.noise(),
            coordinates: problem.dimension() as u64,
            units: problem.private_units(),
            total_weight: problem.total_weight(),
            radius: problem.radius(),
        }
    }

    /// The plan as shown in a table.
    pub(crate) fn summary(&self, problem: &Problem) -> Summary {
        let variant = "one release of the label sums".to_owned();
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
        // 1. The exact integer sum of the hidden part.
        let encoded = problem.encoded();
        let (rows, labels) = (encoded.private_rows().open(token), encoded.private_labels().open(token));
        let outputs = problem.loss().outputs();
        let mut release = self.lattice.hidden_sum(self.summed(rows), labels, outputs);

        // 2. Its noise: the only release.
        self.lattice.sums.add_noise(&mut source.stream()?, &mut release);

        // 3. Post-processing: the known part and the public rows, exactly.
        let statistics = self.statistics(problem, &release)?;
        if watch.progress(1, 2).is_break() {
            return Err(MechanismError::Interrupted);
        }
        // 4. Post-processing: penalties, weights, standard errors.
        let fitted = statistics.fitted(problem)?;
        watch.progress(2, 2).is_break();
        Ok(fitted)
    }

    fn summed<'a>(&'a self, rows: &'a Rows) -> SummedRows<'a> {
        SummedRows { rows, shape: self.shape.as_ref() }
    }

    /// S~' from the noisy integers.
    fn statistics(&self, problem: &Problem, release: &[i64]) -> Result<LabelStatistics, MechanismError> {
        let design = Design::new(problem, self.lattice.steps_per_weight)?;
        Ok(LabelStatistics::assembled(&self.lattice, self.shape.as_ref(), &design, release))
    }
}

impl LabelStatistics {
    /// S~' from the noisy integers: real units, the middle label of every private row, the public rows' labels.
    pub(crate) fn assembled(
        lattice: &LabelLattice,
        shape: Option<&Shape>,
        design: &Design,
        release: &[i64],
    ) -> Self {
        let mut sums: Vec<f64> = release.iter().map(|&sum| sum as f64 * lattice.unit).collect();
        remove_common_part(&mut sums, design.loss.outputs());
        let known = posterior::shaped(shape, &design.sums_with(design.labels.middle()));
        sums.iter_mut().zip(&known).for_each(|(sum, known)| *sum += known);
        LabelStatistics {
            loss: design.loss,
            label: design.label.clone(),
            shape: shape.cloned(),
            sums,
            noise_std: lattice.noise_std(),
            total_weight: design.total_weight,
            steps_per_weight: lattice.steps_per_weight,
            features_sha256: design.digest(),
        }
    }

    /// The model with the declared penalty, or the most likely one, with standard errors where they are valid.
    ///
    /// # Errors
    /// As [`LabelStatistics::fitter`].
    pub fn fitted(&self, problem: &Problem) -> Result<Fitted, MechanismError> {
        let fitter = self.fitter(problem)?;
        let declared = match problem.regularization() {
            Regularization::Auto => None,
            Regularization::Fixed(lambda) => Some(lambda),
        };
        let fit = fitter.choose(declared)?;
        Ok(self.finished(&fitter, fit))
    }

    /// A model of other sums or with another penalty, with standard errors where they are valid. Without a choice of sums they are denoised, for weights of the size under which they are most likely.
    ///
    /// # Errors
    /// As [`LabelStatistics::fitter`] and [`Fitter::fit`].
    pub fn refit(
        &self,
        problem: &Problem,
        sums: Option<Sums>,
        regularization: Option<f64>,
    ) -> Result<Fitted, MechanismError> {
        let fitter = self.fitter(problem)?;
        let fit = match sums {
            None => fitter.choose(regularization)?,
            Some(sums) => fitter.fit(Penalties { sums, regularization })?,
        };
        Ok(self.finished(&fitter, fit))
    }

    /// A regularization path, with Stein's estimate of the loss of every model where there is one. The sums are taken as in [`LabelStatistics::refit`].
    ///
    /// # Errors
    /// As [`LabelStatistics::fitter`] and [`Fitter::path`].
    pub fn path(
        &self,
        problem: &Problem,
        sums: Option<Sums>,
        regularizations: &[f64],
    ) -> Result<Vec<Fit>, MechanismError> {
        self.fitter(problem)?.path(sums, regularizations)
    }

    /// The model of such a path whose loss is least by Stein's estimate.
    ///
    /// # Errors
    /// As [`LabelStatistics::path`]; projected sums or more than 512 weights, for which there is no estimate.
    pub fn refit_by_stein(
        &self,
        problem: &Problem,
        sums: Option<Sums>,
        regularizations: &[f64],
    ) -> Result<Fitted, MechanismError> {
        let fitter = self.fitter(problem)?;
        let best =
            Fitter::least_estimated(fitter.path(sums, regularizations)?).ok_or(MechanismError::part(
                "a choice by Stein's estimate",
                "sums that were not projected and at most 512 weights",
            ))?;
        Ok(self.finished(&fitter, best))
    }

    fn finished(&self, fitter: &Fitter<'_>, fit: Fit) -> Fitted {
        let errors = errors::standard_errors(&fitter.design, &fit, self.shape.as_ref(), self.noise_std);
        let Penalties { sums, regularization } = fit.penalties;
        let penalty = regularization
            .map_or("no further penalty".to_owned(), |lambda| format!("l2 penalty {lambda:.3e}"));
        let note = format!("Fitted to the released sums, {sums}, with {penalty}.");
        Fitted {
            standard_errors: Some(errors),
            statistics: Some(self.clone()),
            notes: vec![note],
            ..Fitted::from(fit.weights)
        }
    }
}
