//! The declaration `privacy.toml`: what is protected, from whom, at what price, and what is to be learned.
//!
//! `docs/declaration.md` is the reference of every key. The text is read in three steps that only go one way: TOML with
//! places ([`section`]), checked values ([`check`]), and the [`Declaration`], which has no other constructor.

mod check;
mod columns;
mod loss;
mod problem;
mod protect;
mod protection;
mod section;
mod task;
mod words;

pub use loss::DeclaredLoss;
pub(crate) use loss::Predicts;
pub use problem::{DeclarationError, Problem, Refusal};
pub(crate) use problem::{listed, quoted_key, quoted_text};
pub use protection::Protection;
pub(crate) use section::{PLACEHOLDER, nearest};

use crate::read::{ReadAs, ReadOptions};
use halflit_convex::Loss;
use halflit_privacy::Relation;
use serde::{Deserialize, Serialize};

/// A checked declaration.
#[derive(Clone, Debug, PartialEq)]
pub struct Declaration {
    protection: Protection,
    task: Task,
    loss: Loss,
}

/// What may be spent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// Above 0 and at most 1e9.
    pub epsilon: f64,
    /// At least 0 and at most 0.5. At 0 only mechanisms with pure differential privacy fit.
    pub delta: f64,
}

impl Budget {
    /// The accountant goes no further.
    pub const MOST_EPSILON: f64 = 1e9;
    /// A promise that may fail more often than not promises nothing, and no noise is sought for it.
    pub const MOST_DELTA: f64 = 0.5;
}

/// What is to be learned.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// The column to predict.
    pub label: String,
    /// How errors are measured, as declared; see [`Declaration::loss`] for the loss on encoded labels.
    pub loss: DeclaredLoss,
    /// The strength of the l2 penalty.
    pub regularization: Regularization,
    /// Radius of the l2 ball the weights stay in, if any.
    pub radius: Option<f64>,
    /// Rows longer than this are shortened to it, if given.
    pub row_norm: Option<f64>,
    /// Whether a constant coordinate is added to every row.
    pub intercept: bool,
}

/// The strength of the l2 penalty.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Regularization {
    /// Left to the planner, which chooses from public facts.
    Auto,
    /// This lambda, at least 0.
    Fixed(f64),
}

/// A column of the declaration.
#[derive(Clone, Debug, PartialEq)]
pub struct DeclaredColumn {
    /// Its name in the file.
    pub name: String,
    /// What it is for.
    pub role: Role,
    /// Whether it is a secret.
    pub visibility: Visibility,
    /// What its cells may be. Every used column has a domain.
    pub domain: Option<ColumnDomain>,
    /// What replaces a missing or unknown cell when coercing.
    pub default: Option<String>,
}

/// What a column is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Learned from.
    Feature,
    /// Predicted.
    Label,
    /// Neither: `use = false`, or only the user id or the selector of public rows.
    Unused,
}

/// Whether a column is a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// Known to everyone; neighbours agree on it.
    Public,
    /// Protected in private rows. The default.
    Sensitive,
}

/// What the cells of a column may be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ColumnDomain {
    /// A number from `low` to `high`, both finite, `low` below `high`.
    Bounds {
        /// The smallest allowed number.
        low: f64,
        /// The largest allowed number.
        high: f64,
    },
    /// One of these texts, all different, at least one. The empty text stands for an empty cell.
    Values(Vec<String>),
}

impl Declaration {
    /// Reads and checks a declaration. `file_name` only names it in messages.
    ///
    /// # Errors
    /// All faults found, each with its place, not only the first.
    pub fn parse(text: &str, file_name: &str) -> Result<Declaration, DeclarationError> {
        check::parse(text, file_name)
    }

    /// Everything but the task: what is protected, and at what price.
    pub fn protection(&self) -> &Protection {
        &self.protection
    }

    /// The name given to [`Declaration::parse`].
    pub fn file(&self) -> &str {
        self.protection.file()
    }

    /// What may be spent.
    pub fn budget(&self) -> Budget {
        self.protection.budget()
    }

    /// Which tables must be indistinguishable. All columns count as sensitive if every used column is; otherwise the
    /// columns declared sensitive are named, those with `use = false` as well.
    pub fn relation(&self) -> &Relation {
        self.protection.relation()
    }

    /// The declared number of private units: `rows` for unit = "row", `users` for unit = "user". Always there under
    /// zero-out, where it is a constant that is never measured.
    pub fn declared_units(&self) -> Option<u64> {
        self.protection.declared_units()
    }

    /// The most private rows of one user that count.
    pub fn rows_per_user(&self) -> Option<u64> {
        self.protection.rows_per_user()
    }

    /// What is to be learned.
    pub fn task(&self) -> &Task {
        &self.task
    }

    /// The loss on encoded labels: regression labels in [-1, 1] and thresholds in the same units.
    pub fn loss(&self) -> Loss {
        self.loss
    }

    /// All declared columns, in the order of the file.
    pub fn columns(&self) -> &[DeclaredColumn] {
        self.protection.columns()
    }

    /// The columns learned from, in the order of the file.
    pub fn features(&self) -> impl Iterator<Item = &DeclaredColumn> {
        self.columns().iter().filter(|column| column.role == Role::Feature)
    }

    /// The declared column of this name.
    pub fn column(&self, name: &str) -> Option<&DeclaredColumn> {
        self.protection.column(name)
    }

    /// How a file is read for this declaration: used columns as declared, the user id and the selector as text, all
    /// other columns not at all.
    pub fn read_options(&self) -> ReadOptions {
        self.protection.read_options(|column| column.role != Role::Unused)
    }
}

impl ColumnDomain {
    pub(crate) fn read_as(&self) -> ReadAs {
        match self {
            ColumnDomain::Bounds { .. } => ReadAs::Number,
            ColumnDomain::Values(_) => ReadAs::Text,
        }
    }
}

#[cfg(test)]
mod tests;
