//! What a release kept secret, by its own account: a certificate that was given another relation no longer agrees with it.

use super::{Model, VerifyError};
use crate::mechanisms::{Inconsistency, columns_belong_to};
use crate::problem::Problem;
use halflit_privacy::{PrivateRows, Relation, SensitiveColumns, Unit};
use halflit_table::Values;
use serde::{Deserialize, Serialize};

/// Whose cells in which columns met noise, and which columns were used as they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Secrets {
    /// The column that says whose a row is, if all rows of a user were hidden together.
    pub user_column: Option<String>,
    /// Whose cells were hidden: every row's, or those of rows that some column did not mark as public.
    pub private_rows: PrivateRows,
    /// Whether every column of the table was secret, and with it the number of a user's rows.
    pub all_columns: bool,
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
            sensitive_columns: names(sensitive),
            public_columns: names(public),
            ..Secrets::declared(relation)
        }
    }

    /// What the relation alone says.
    fn declared(relation: &Relation) -> Self {
        Secrets {
            user_column: match relation.unit() {
                Unit::User { id_column } => Some(id_column.clone()),
                Unit::Row => None,
            },
            private_rows: relation.private_rows().clone(),
            all_columns: *relation.sensitive() == SensitiveColumns::All,
            sensitive_columns: Vec::new(),
            public_columns: Vec::new(),
        }
    }

    /// Whether the relation protects these units, rows and columns, and no others that were used.
    pub(super) fn belong_to(&self, relation: &Relation) -> Result<(), Inconsistency> {
        let declared = Secrets::declared(relation);
        for (is_same, field, allowed) in [
            (self.user_column == declared.user_column, "secrets.user_column", "the relation's user column"),
            (
                self.private_rows == declared.private_rows,
                "secrets.private_rows",
                "the relation's private rows",
            ),
            (
                self.all_columns == declared.all_columns,
                "secrets.all_columns",
                "true where all columns are sensitive",
            ),
        ] {
            if !is_same {
                return Err(Inconsistency::new(field, allowed));
            }
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
