//! The release: a model, a certificate that anyone can check, and a report that a person can read.

mod certificate;
mod errors;
pub(crate) mod mean_report;
mod model;
#[cfg(test)]
mod outside;
mod report;
mod secrets;
#[cfg(test)]
mod tests;

pub use certificate::{CERTIFICATE_FORMAT, Certificate, Guarantee, Numerics, Verified, VerifyError};
pub use errors::StandardErrors;
pub use model::{Evaluation, MODEL_FORMAT, Model, ModelError, Predictions};
pub use secrets::Secrets;

use crate::digest::sha256;
use crate::figures::{self, at_least, at_most};
use crate::ledger::{Receipt, Standing};
use crate::mechanisms::{Fitted, Statement};
use crate::run::RawOutput;
use certificate::{PROFILE_POINTS, SEEDED_RANDOMNESS, SYSTEM_RANDOMNESS};
use halflit_privacy::{AccountingError, Event, Interval, ParameterError, Profile};
use halflit_table::{Budget, PublicFacts};

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
    /// A number outside its range.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
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
        let kind = if delta > 0.0 { "Gaussian" } else { "pure" };
        let left = self.left.map_or("nothing more fits".to_owned(), |left| {
            format!("a further {kind} release of epsilon {} fits", at_least(left, 3))
        });
        format!("{spent} of {epsilon} is spent at delta {}; {left}.", figures::delta(delta))
    }
}

impl RawOutput {
    /// Puts the files together. `standings` are the accounts after the charge, for the report.
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
        let certificate = Subject {
            facts: problem.facts(),
            secrets: Secrets::of_problem(problem),
            statement: plan.mechanism.statement(problem).with_clip_norms(&fitted.clip_norms),
            budget: plan.budget(),
            epsilon: plan.epsilon(),
            choices: [&[plan.mechanism.choices().to_owned()], &*fitted.notes].concat().join(" "),
            receipt,
            is_seeded,
            file: model_json.as_bytes(),
            statistics: statistics_json.as_deref().map(str::as_bytes),
        }
        .certify()?;
        let certificate_json = serde_json::to_string_pretty(&certificate)? + "\n";
        let left: Vec<Left> =
            standings.iter().filter(|standing| standing.account.is_open).map(Left::of).collect();
        let report_html =
            report::render(&certificate, &model, problem.facts(), &left, plan.worth_of_public_rows());
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

/// Everything that a certificate is about.
pub(crate) struct Subject<'a> {
    pub facts: &'a PublicFacts,
    pub secrets: Secrets,
    pub statement: Statement,
    /// What the release was allowed to spend.
    pub budget: Budget,
    /// What it spends at that delta.
    pub epsilon: Interval,
    /// How what was not declared was chosen.
    pub choices: String,
    pub receipt: Receipt,
    pub is_seeded: bool,
    /// The released file.
    pub file: &'a [u8],
    /// The released statistics, where there are any.
    pub statistics: Option<&'a [u8]>,
}

impl Subject<'_> {
    pub(crate) fn certify(self) -> Result<Certificate, ReleaseError> {
        let Subject {
            facts,
            secrets,
            statement,
            budget,
            epsilon,
            choices,
            receipt,
            is_seeded,
            file,
            statistics,
        } = self;
        let event = statement.event()?;
        let profile = Profile::of(&event)?;
        Ok(Certificate {
            halflit_certificate: CERTIFICATE_FORMAT,
            software: crate::SOFTWARE.to_owned(),
            charged_at: receipt.charged_at,
            dataset: receipt.dataset,
            charge: receipt.charge,
            relation: facts.relation.clone(),
            sentence: facts.sentence.clone(),
            secrets,
            guarantee: guarantee(budget, epsilon, &event),
            profile: profile.points(PROFILE_POINTS),
            gdp_mu: profile.gdp_mu(),
            zcdp_rho: profile.zcdp_rho(),
            event,
            citation: statement.citation().to_owned(),
            numerics: statement.numerics(),
            mechanism: statement,
            randomness: if is_seeded { SEEDED_RANDOMNESS } else { SYSTEM_RANDOMNESS }.to_owned(),
            hyperparameters: choices,
            conditions: certificate::conditions(&facts.relation),
            model_sha256: sha256(file),
            statistics_sha256: statistics.map(sha256),
            seal: String::new(),
        }
        .sealed())
    }
}

/// The budget that was asked for; nothing at all if no private cell was read. An epsilon of zero at some delta is not nothing.
fn guarantee(budget: Budget, accountant: Interval, event: &Event) -> Guarantee {
    let is_free = *event == Event::Composed(Vec::new());
    let Budget { epsilon, delta } = if is_free { Budget { epsilon: 0.0, delta: 0.0 } } else { budget };
    Guarantee { epsilon, delta, accountant }
}
