//! The release: a model, a certificate that anyone can check, and a report that a person can read.

mod certificate;
mod errors;
mod model;
mod report;
#[cfg(test)]
mod tests;

pub use certificate::{CERTIFICATE_FORMAT, Certificate, Guarantee, Numerics, Verified, VerifyError};
pub use errors::StandardErrors;
pub use model::{Evaluation, MODEL_FORMAT, Model, ModelError, Predictions};

use crate::digest::sha256;
use crate::figures::{at_least, at_most};
use crate::ledger::Standing;
use crate::mechanisms::Fitted;
use crate::run::RawOutput;
use certificate::{PROFILE_POINTS, SEEDED_RANDOMNESS, SYSTEM_RANDOMNESS};
use halflit_privacy::{AccountingError, Interval, Profile};
use halflit_table::Budget;

/// Why a release could not be put together.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReleaseError {
    /// The weights do not make a model.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The event could not be priced.
    #[error(transparent)]
    Accounting(#[from] AccountingError),
    /// A file could not be put into words.
    #[error("the release could not be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// What may be published.
#[derive(Clone, Debug)]
pub struct Release {
    /// The model.
    pub model: Model,
    /// Its certificate.
    pub certificate: Certificate,
    /// `model.json`.
    pub model_json: String,
    /// `certificate.json`.
    pub certificate_json: String,
    /// `report.html`.
    pub report_html: String,
    /// `statistics.json`, if the mechanism released statistics from which further models can be fitted.
    pub statistics_json: Option<String>,
}

/// What an account has left, in the words of the report.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Left {
    pub account: String,
    cap: (f64, f64),
    spent: Option<f64>,
    left: Option<f64>,
}

impl Left {
    fn of(standing: &Standing) -> Self {
        Left {
            account: standing.account.name.clone(),
            cap: (standing.account.epsilon, standing.account.delta),
            spent: standing.spent.map(|spent| spent.upper),
            left: standing.left,
        }
    }

    pub(crate) fn sentence(&self) -> String {
        let (epsilon, delta) = self.cap;
        let spent = self
            .spent
            .map_or("an unknown amount".to_owned(), |spent| format!("epsilon {}", at_most(spent, 4)));
        let left = self.left.map_or("nothing more fits".to_owned(), |left| {
            format!("a further Gaussian release of epsilon {} fits", at_least(left, 3))
        });
        format!("{spent} of {epsilon} is spent at delta {delta:e}; {left}.")
    }
}

impl RawOutput {
    /// Puts the three files together. `standings` are the accounts after the charge, for the report.
    ///
    /// # Errors
    /// None in practice for the output of a run.
    pub fn release(self, standings: &[Standing]) -> Result<Release, ReleaseError> {
        let RawOutput { plan, receipt, fitted, is_seeded } = self;
        let problem = plan.problem();
        let model = fitted_model(problem, &fitted)?;
        let statistics_json =
            fitted.statistics.map(|statistics| serde_json::to_string_pretty(&statistics)).transpose()?;
        let statistics_json = statistics_json.map(|text| text + "\n");
        let model_json = serde_json::to_string_pretty(&model)? + "\n";
        let statement = plan.mechanism.statement(problem);
        let profile = Profile::of(plan.event())?;
        let budget = plan.budget();
        let certificate = Certificate {
            halflit_certificate: CERTIFICATE_FORMAT,
            software: crate::SOFTWARE.to_owned(),
            charged_at: receipt.charged_at,
            dataset: receipt.dataset,
            charge: receipt.charge,
            relation: plan.relation().clone(),
            sentence: plan.relation().sentence(),
            guarantee: guarantee(budget, plan.epsilon()),
            profile: profile.points(PROFILE_POINTS),
            gdp_mu: profile.gdp_mu(),
            zcdp_rho: profile.zcdp_rho(),
            event: plan.event().clone(),
            citation: statement.citation().to_owned(),
            numerics: statement.numerics(),
            mechanism: statement,
            randomness: if is_seeded { SEEDED_RANDOMNESS } else { SYSTEM_RANDOMNESS }.to_owned(),
            hyperparameters: [&[plan.mechanism.choices().to_owned()], &*fitted.notes].concat().join(" "),
            conditions: conditions(problem),
            model_sha256: sha256(model_json.as_bytes()),
            statistics_sha256: statistics_json.as_ref().map(|text| sha256(text.as_bytes())),
            seal: String::new(),
        }
        .sealed();
        let certificate_json = serde_json::to_string_pretty(&certificate)? + "\n";
        let left: Vec<Left> =
            standings.iter().filter(|standing| standing.account.is_open).map(Left::of).collect();
        let report_html = report::render(&certificate, &model, problem.facts(), &left);
        Ok(Release { model, certificate, model_json, certificate_json, report_html, statistics_json })
    }
}

/// Another model from released statistics: what `refit` writes.
#[derive(Clone, Debug)]
pub struct Refitted {
    /// The model.
    pub model: Model,
    /// The certificate of the release, for this model.
    pub certificate: Certificate,
    /// `model.json`.
    pub model_json: String,
    /// `certificate.json`.
    pub certificate_json: String,
}

impl Refitted {
    /// A model fitted to released statistics under the certificate of their release: post-processing, so the promise is the same and nothing is charged.
    ///
    /// # Errors
    /// Weights that make no model.
    pub fn new(
        problem: &crate::Problem,
        fitted: &Fitted,
        release: &Certificate,
    ) -> Result<Self, ReleaseError> {
        let model = fitted_model(problem, fitted)?;
        let model_json = serde_json::to_string_pretty(&model)? + "\n";
        let refit = "Fitted again to the released statistics, at no cost.".to_owned();
        let certificate = Certificate {
            model_sha256: sha256(model_json.as_bytes()),
            hyperparameters: [&[refit], &*fitted.notes].concat().join(" "),
            ..release.clone()
        }
        .sealed();
        let certificate_json = serde_json::to_string_pretty(&certificate)? + "\n";
        Ok(Refitted { model, certificate, model_json, certificate_json })
    }
}

/// The model of a problem with fitted weights.
fn fitted_model(problem: &crate::Problem, fitted: &Fitted) -> Result<Model, ModelError> {
    let width = problem.encoding().width();
    let weights = fitted.weights.chunks(width.max(1)).map(<[f64]>::to_vec).collect();
    Model::new(problem.loss(), problem.encoding().clone(), weights)?
        .with_standard_errors(fitted.standard_errors.clone())
}

/// The budget that was asked for; nothing at all if nothing was spent.
fn guarantee(budget: Budget, accountant: Interval) -> Guarantee {
    let Budget { epsilon, delta } =
        if accountant.upper > 0.0 { budget } else { Budget { epsilon: 0.0, delta: 0.0 } };
    Guarantee { epsilon, delta, accountant }
}

/// What the promise rests on besides arithmetic.
fn conditions(problem: &crate::Problem) -> Vec<String> {
    let mut conditions = vec![
        "The table's cells lie in their declared domains, or were mapped into them cell by cell.".to_owned(),
        "Bounds, value lists, the budget and the choice of public columns and rows were declared without looking at private cells.".to_owned(),
        "The operating system's randomness is unpredictable.".to_owned(),
    ];
    let facts = problem.facts();
    if facts.public_rows > 0 {
        conditions.push("The rows marked as public may indeed be known to everyone.".to_owned());
    }
    if matches!(facts.relation.change(), halflit_privacy::Change::ZeroOut) {
        conditions.push(format!(
            "The number of protected units, {}, is a constant of the declaration; the promise hides whether one unit contributes.",
            facts.private_units
        ));
    }
    conditions
}
