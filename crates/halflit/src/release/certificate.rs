//! The certificate: what was promised, what was done, and everything needed to check the one against the other.

use super::{Model, Secrets};
use crate::digest::sha256;
use crate::mechanisms::{Inconsistency, Statement};
use halflit_privacy::{
    AccountingError, Change, Delta, Epsilon, Event, Interval, ParameterError, PrivateRows, Profile,
    ProfilePoint, Relation,
};
use serde::{Deserialize, Serialize};

/// Format of `certificate.json`; grows when its meaning changes.
pub const CERTIFICATE_FORMAT: u32 = 2;

/// How many points of the profile a certificate lists.
pub const PROFILE_POINTS: usize = 20;

/// The statement that goes with a release.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Certificate {
    /// The format; [`CERTIFICATE_FORMAT`].
    pub halflit_certificate: u32,
    /// What wrote it.
    pub software: String,
    /// When the charge was recorded, UTC.
    pub charged_at: String,
    /// The ledger's random id of the dataset.
    pub dataset: String,
    /// Number of the charge in the ledger.
    pub charge: i64,
    /// Which tables are indistinguishable.
    pub relation: Relation,
    /// The same in English.
    pub sentence: String,
    /// Whose cells in which columns the mechanism hid, by its own account.
    pub secrets: Secrets,
    /// The promise.
    pub guarantee: Guarantee,
    /// Points of the privacy profile: for each epsilon an interval for delta, whose upper end holds.
    pub profile: Vec<ProfilePoint>,
    /// The mu of Gaussian differential privacy, where the whole release has one.
    pub gdp_mu: Option<f64>,
    /// The rho of zero-concentrated differential privacy, where the whole release has one.
    pub zcdp_rho: Option<f64>,
    /// What happened, as the accountant sees it.
    pub event: Event,
    /// What the mechanism did: every sensitivity, clip norm, noise scale and rate.
    pub mechanism: Statement,
    /// Where the mechanism comes from and where it departs from the source.
    pub citation: String,
    /// How sums and noise were computed.
    pub numerics: Numerics,
    /// Where the random numbers came from.
    pub randomness: String,
    /// How everything that was not declared was chosen.
    pub hyperparameters: String,
    /// What the promise rests on besides arithmetic.
    pub conditions: Vec<String>,
    /// SHA-256 of the model file.
    pub model_sha256: String,
    /// SHA-256 of the file of released statistics, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statistics_sha256: Option<String>,
    /// SHA-256 of this certificate with an empty seal.
    pub seal: String,
}

/// The promise: (epsilon, delta) under the relation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Guarantee {
    /// The promised epsilon.
    pub epsilon: f64,
    /// The promised delta.
    pub delta: f64,
    /// What the accountant found for epsilon at that delta: the truth lies inside, the promise is not below its upper end.
    pub accountant: Interval,
}

/// How the private sum met its noise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Numerics {
    /// Integer sums, integer clamp, exact rounded noise: no floating point between a private value and its noise.
    ExactLattice,
    /// Exact coins decided what each private cell was reported as.
    ExactCoins,
    /// A continuous law evaluated in floating point.
    Idealized,
    /// No private value was used.
    NoNoiseNeeded,
}

/// Randomness from the operating system.
pub const SYSTEM_RANDOMNESS: &str = "ChaCha12, 256-bit key from the operating system";
/// Randomness that anyone can repeat.
pub const SEEDED_RANDOMNESS: &str = "FIXED TEST SEED: THIS RELEASE PROTECTS NOBODY";

/// Why a certificate does not hold.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// Written by a later version.
    #[error(
        "certificate format {found} is not known to this version, which reads format {CERTIFICATE_FORMAT}; update halflit"
    )]
    Format {
        /// The file's format.
        found: u32,
    },
    /// The text was changed after it was written.
    #[error("the certificate was altered: its seal does not match its content")]
    Seal,
    /// A field does not follow from the others.
    #[error(
        "{field} does not follow from the rest of the certificate: it says {found}, recomputed {expected}"
    )]
    Mismatch {
        /// Which field.
        field: &'static str,
        /// What the file says.
        found: String,
        /// What it should say.
        expected: String,
    },
    /// The release was made under a fixed seed.
    #[error(
        "the release was made under a fixed test seed: its noise is known to everyone and protects nobody"
    )]
    Seeded,
    /// The event holds a number outside its range.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    /// The event cannot be priced.
    #[error(transparent)]
    Accounting(#[from] AccountingError),
}

/// What a verified certificate amounts to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verified {
    /// The promised epsilon, recomputed to hold.
    pub epsilon: f64,
    /// The promised delta.
    pub delta: f64,
    /// The recomputed interval for epsilon at that delta.
    pub recomputed_epsilon: Interval,
    /// The relation in English.
    pub sentence: String,
}

/// Recomputed numbers may differ from the written ones by this share: another build may round differently.
const TOLERANCE: f64 = 1e-6;

impl Certificate {
    /// The seal that belongs to the content.
    pub fn computed_seal(&self) -> String {
        let unsealed = Certificate { seal: String::new(), ..self.clone() };
        // A certificate is plain data with text keys: it always serializes.
        sha256(serde_json::to_string(&unsealed).unwrap_or_default().as_bytes())
    }

    /// The same certificate under its seal.
    pub fn sealed(self) -> Self {
        let seal = self.computed_seal();
        Certificate { seal, ..self }
    }

    /// Whether these are the bytes of the certified model file.
    pub fn is_for_model(&self, model_file: &[u8]) -> bool {
        self.model_sha256 == sha256(model_file)
    }

    /// Whether the model was made of the columns that the certificate speaks of.
    ///
    /// # Errors
    /// The first column that is not in both, or sensitive in one and public in the other.
    pub fn agrees_with(&self, model: &Model) -> Result<(), VerifyError> {
        self.secrets.agree_with(model)
    }

    /// Whether these are the bytes of the certified statistics file.
    pub fn is_for_statistics(&self, statistics_file: &[u8]) -> bool {
        self.statistics_sha256.as_ref().is_some_and(|digest| *digest == sha256(statistics_file))
    }

    /// Recomputes the promise from the file alone.
    ///
    /// # Errors
    /// The first thing that does not hold.
    pub fn verify(&self) -> Result<Verified, VerifyError> {
        if self.halflit_certificate != CERTIFICATE_FORMAT {
            return Err(VerifyError::Format { found: self.halflit_certificate });
        }
        if self.seal != self.computed_seal() {
            return Err(VerifyError::Seal);
        }
        let inconsistent = |inconsistency: Inconsistency| VerifyError::Mismatch {
            field: inconsistency.field,
            found: "something else".to_owned(),
            expected: inconsistency.expected.to_owned(),
        };
        self.mechanism.check().map_err(inconsistent)?;
        self.mechanism.belongs_to(&self.relation).map_err(inconsistent)?;
        self.secrets.belong_to(&self.relation).map_err(inconsistent)?;
        if let Some(change) = self.mechanism.change() {
            same("the mechanism's change", &change.to_string(), &self.relation.change().to_string())?;
        }
        let event = self.mechanism.event()?;
        same("event", &json(&self.event), &json(&event))?;
        same("sentence", &self.sentence, &self.relation.sentence())?;
        same("citation", &self.citation, self.mechanism.citation())?;
        same("numerics", &json(&self.numerics), &json(&self.mechanism.numerics()))?;
        for condition in conditions(&self.relation) {
            let is_there = self.conditions.contains(&condition);
            same("conditions", if is_there { &condition } else { "nothing of the kind" }, &condition)?;
        }
        self.check_names()?;

        let profile = Profile::of(&event)?;
        let Guarantee { epsilon, delta, accountant } = self.guarantee;
        let recomputed_epsilon = profile.epsilon(Delta::new(delta)?);
        at_least("guarantee.epsilon", epsilon, recomputed_epsilon.upper)?;
        at_least("guarantee.accountant.upper", accountant.upper, recomputed_epsilon.upper)?;
        at_least("guarantee.accountant.lower", recomputed_epsilon.upper, accountant.lower)?;
        same("number of profile points", &self.profile.len().to_string(), &PROFILE_POINTS.to_string())?;
        for point in &self.profile {
            let recomputed = profile.delta(Epsilon::new(point.epsilon)?).upper;
            at_least("profile", point.delta.upper, recomputed)?;
            at_least("profile", recomputed, point.delta.lower)?;
        }
        for (field, found, expected) in
            [("gdp_mu", self.gdp_mu, profile.gdp_mu()), ("zcdp_rho", self.zcdp_rho, profile.zcdp_rho())]
        {
            match (found, expected) {
                (Some(found), Some(expected)) => at_least(field, found, expected)?,
                (None, _) => {}
                (Some(found), None) => same(field, &found.to_string(), "nothing: the event has none")?,
            }
        }
        if self.randomness == SEEDED_RANDOMNESS {
            return Err(VerifyError::Seeded);
        }
        same("randomness", &self.randomness, SYSTEM_RANDOMNESS)?;
        Ok(Verified { epsilon, delta, recomputed_epsilon, sentence: self.sentence.clone() })
    }
}

impl Certificate {
    /// What names the release has the form of a name. Whether it names this release only the ledger and the model can tell.
    fn check_names(&self) -> Result<(), VerifyError> {
        let is_hexadecimal = |text: &str, length: usize| {
            text.len() == length && text.bytes().all(|byte| byte.is_ascii_hexdigit())
        };
        let forms = [
            ("dataset", &self.dataset, is_hexadecimal(&self.dataset, 32), "32 hexadecimal digits"),
            (
                "model_sha256",
                &self.model_sha256,
                is_hexadecimal(&self.model_sha256, 64),
                "64 hexadecimal digits",
            ),
        ];
        for (field, found, is_right, expected) in forms {
            same(field, if is_right { expected } else { found }, expected)?;
        }
        if let Some(digest) = &self.statistics_sha256 {
            let expected = "64 hexadecimal digits";
            same("statistics_sha256", if is_hexadecimal(digest, 64) { expected } else { digest }, expected)?;
        }
        let charge = self.charge.to_string();
        same("charge", if self.charge >= 1 { "at least 1" } else { &charge }, "at least 1")
    }
}

/// What the promise rests on besides arithmetic, for every release under a relation.
pub(super) fn conditions(relation: &Relation) -> Vec<String> {
    let mut conditions = vec![
        "The table's cells lie in their declared domains, or were mapped into them cell by cell.",
        "Bounds, value lists, the budget and the choice of public columns and rows were declared without looking at private cells.",
        "The operating system's randomness is unpredictable.",
    ];
    if matches!(relation.private_rows(), PrivateRows::Outside(_)) {
        conditions.push("The rows marked as public may indeed be known to everyone.");
    }
    if relation.change() == Change::ZeroOut {
        conditions.push(
            "The number of protected units is a constant of the declaration; the promise hides whether one unit contributes.",
        );
    }
    conditions.into_iter().map(str::to_owned).collect()
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

fn same(field: &'static str, found: &str, expected: &str) -> Result<(), VerifyError> {
    if found == expected {
        return Ok(());
    }
    Err(VerifyError::Mismatch { field, found: found.to_owned(), expected: expected.to_owned() })
}

/// Claims may be larger than what is recomputed, never smaller. NaN is smaller.
fn at_least(field: &'static str, claimed: f64, recomputed: f64) -> Result<(), VerifyError> {
    if claimed >= recomputed * (1.0 - TOLERANCE) {
        return Ok(());
    }
    Err(VerifyError::Mismatch {
        field,
        found: claimed.to_string(),
        expected: format!("at least {recomputed}"),
    })
}
