//! What a release kept secret, by its own account: a certificate that was given another relation no longer agrees with it.

use super::{Model, VerifyError};
use crate::mechanisms::{Inconsistency, columns_belong_to};
use crate::problem::Problem;
use halflit_privacy::{Relation, Unit};
use halflit_table::Values;
use serde::{Deserialize, Serialize};

/// Whose cells in which columns met noise, and which columns were used as they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Secrets {
    /// Whether all rows of a user were hidden together, or single rows.
    pub of_users: bool,
    /// The columns used whose cells are secret in private rows.
    pub sensitive_columns: Vec<String>,
    /// The columns used whose cells anyone may know.
    pub public_columns: Vec<String>,
}

impl Secrets {
    /// Of a model: its features, then its label.
    pub(crate) fn of_problem(problem: &Problem) -> Self {
        let features = problem.encoding().columns().iter();
        let features = features.map(|column| (column.name(), column.is_sensitive()));
        let label = (problem.encoding().label_name(), problem.encoded().label_is_sensitive());
        Secrets::new(problem.relation(), features.chain([label]))
    }

    /// Of means and messages.
    pub(crate) fn of_values(values: &Values) -> Self {
        let columns = values.columns().iter().map(|column| (column.name(), column.is_sensitive()));
        Secrets::new(values.protection().relation(), columns)
    }

    fn new<'a>(relation: &Relation, columns: impl Iterator<Item = (&'a str, bool)>) -> Self {
        let (sensitive, public): (Vec<_>, Vec<_>) = columns.partition(|(_, is_sensitive)| *is_sensitive);
        let names = |columns: Vec<(&str, bool)>| columns.iter().map(|(name, _)| (*name).to_owned()).collect();
        Secrets {
            of_users: matches!(relation.unit(), Unit::User { .. }),
            sensitive_columns: names(sensitive),
            public_columns: names(public),
        }
    }

    /// Whether the relation protects these units and columns, and no others that were used.
    pub(super) fn belong_to(&self, relation: &Relation) -> Result<(), Inconsistency> {
        if self.of_users != matches!(relation.unit(), Unit::User { .. }) {
            return Err(Inconsistency::new(
                "secrets.of_users",
                "true if the unit is a user, false if it is a row",
            ));
        }
        columns_belong_to(relation, &self.sensitive_columns, &self.public_columns)
    }

    /// Whether a model was made of these columns.
    pub(super) fn agree_with(&self, model: &Model) -> Result<(), VerifyError> {
        let label = model.encoding().label_name();
        let named = |is_sensitive: bool| {
            let columns = model.encoding().columns().iter();
            let names = columns.filter(|column| column.is_sensitive() == is_sensitive);
            names.map(|column| column.name().to_owned()).collect::<Vec<_>>()
        };
        for (field, columns, is_sensitive) in [
            ("secrets.sensitive_columns", &self.sensitive_columns, true),
            ("secrets.public_columns", &self.public_columns, false),
        ] {
            let features: Vec<String> = columns.iter().filter(|name| *name != label).cloned().collect();
            let expected = named(is_sensitive);
            if features != expected {
                return Err(VerifyError::Mismatch {
                    field,
                    found: features.join(", "),
                    expected: format!("{} as in the model", expected.join(", ")),
                });
            }
        }
        let is_label = |columns: &[String]| columns.iter().any(|name| name == label);
        if is_label(&self.sensitive_columns) != is_label(&self.public_columns) {
            return Ok(());
        }
        Err(VerifyError::Mismatch {
            field: "secrets",
            found: "something else".to_owned(),
            expected: format!("the model's label {label}, sensitive or public"),
        })
    }
}
