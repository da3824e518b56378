//! The declaration `privacy.toml`: what is protected, from whom, at what price, and what is to be learned.
//!
//! `docs/declaration.md` is the reference of every key. The text is read in three steps that only go one way: TOML with
//! places ([`section`]), checked values ([`check`]), and the [`Declaration`], which has no other constructor.

mod check;
mod columns;
mod problem;
mod protect;
mod section;
mod task;
mod words;

pub use problem::{DeclarationError, Problem, Refusal};
pub(crate) use problem::{quoted_key, quoted_text};
pub(crate) use section::{PLACEHOLDER, nearest};

use crate::read::{ReadAs, ReadOptions};
use halflit_privacy::Relation;
use serde::{Deserialize, Serialize};

/// A checked declaration.
#[derive(Clone, Debug, PartialEq)]
pub struct Declaration {
    file: String,
    budget: Budget,
    relation: Relation,
    declared_units: Option<u64>,
    rows_per_user: Option<u64>,
    task: Task,
    columns: Vec<DeclaredColumn>,
}

/// What may be spent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// Finite and above 0.
    pub epsilon: f64,
    /// Strictly between 0 and 1.
    pub delta: f64,
}

/// What is to be learned.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// The column to predict.
    pub label: String,
    /// How errors are measured.
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

/// A loss with its parameters as declared, in units of the file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DeclaredLoss {
    /// Two classes.
    Logistic,
    /// Three classes or more.
    Softmax,
    /// Two classes, margin loss.
    Hinge,
    /// Two classes, margin loss with a rounded corner.
    SmoothedHinge {
        /// Width of the rounded corner, in units of the score.
        smoothing: f64,
    },
    /// Regression.
    Squared,
    /// Regression that limits the influence of outliers.
    Huber {
        /// Residuals beyond it count linearly; in units of the label.
        threshold: f64,
    },
    /// A smooth relative of Huber.
    PseudoHuber {
        /// Residuals well beyond it count linearly; in units of the label.
        threshold: f64,
    },
    /// Median regression.
    Absolute,
    /// Quantile regression.
    Quantile {
        /// The quantile, strictly between 0 and 1.
        quantile: f64,
    },
    /// Counts.
    Poisson {
        /// Scores are kept in [-max_abs_score, max_abs_score].
        max_abs_score: f64,
    },
}

/// What a loss is about.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Predicts {
    OneOfTwo,
    OneOfMany,
    Number,
    Count,
}

impl DeclaredLoss {
    pub(crate) fn predicts(self) -> Predicts {
        match self {
            DeclaredLoss::Logistic | DeclaredLoss::Hinge | DeclaredLoss::SmoothedHinge { .. } => {
                Predicts::OneOfTwo
            }
            DeclaredLoss::Softmax => Predicts::OneOfMany,
            DeclaredLoss::Poisson { .. } => Predicts::Count,
            DeclaredLoss::Squared
            | DeclaredLoss::Huber { .. }
            | DeclaredLoss::PseudoHuber { .. }
            | DeclaredLoss::Absolute
            | DeclaredLoss::Quantile { .. } => Predicts::Number,
        }
    }

    /// The name in the declaration.
    pub fn name(self) -> &'static str {
        match self {
            DeclaredLoss::Logistic => "logistic",
            DeclaredLoss::Softmax => "softmax",
            DeclaredLoss::Hinge => "hinge",
            DeclaredLoss::SmoothedHinge { .. } => "smoothed-hinge",
            DeclaredLoss::Squared => "squared",
            DeclaredLoss::Huber { .. } => "huber",
            DeclaredLoss::PseudoHuber { .. } => "pseudo-huber",
            DeclaredLoss::Absolute => "absolute",
            DeclaredLoss::Quantile { .. } => "quantile",
            DeclaredLoss::Poisson { .. } => "poisson",
        }
    }
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

    /// The name given to [`Declaration::parse`].
    pub fn file(&self) -> &str {
        &self.file
    }

    /// What may be spent.
    pub fn budget(&self) -> Budget {
        self.budget
    }

    /// Which tables must be indistinguishable. All columns count as sensitive if every used column is; otherwise the
    /// sensitive ones are named.
    pub fn relation(&self) -> &Relation {
        &self.relation
    }

    /// The declared number of private units: `rows` for unit = "row", `users` for unit = "user". Always there under
    /// zero-out, where it is a constant that is never measured.
    pub fn declared_units(&self) -> Option<u64> {
        self.declared_units
    }

    /// The most private rows of one user that count.
    pub fn rows_per_user(&self) -> Option<u64> {
        self.rows_per_user
    }

    /// What is to be learned.
    pub fn task(&self) -> &Task {
        &self.task
    }

    /// All declared columns, in the order of the file.
    pub fn columns(&self) -> &[DeclaredColumn] {
        &self.columns
    }

    /// The columns learned from, in the order of the file.
    pub fn features(&self) -> impl Iterator<Item = &DeclaredColumn> {
        self.columns.iter().filter(|column| column.role == Role::Feature)
    }

    /// The declared column of this name.
    pub fn column(&self, name: &str) -> Option<&DeclaredColumn> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// How a file is read for this declaration: used columns as declared, the user id and the selector as text, all
    /// other columns not at all.
    pub fn read_options(&self) -> ReadOptions {
        let mut options = ReadOptions::default().others(ReadAs::Skipped);
        for column in &self.columns {
            if let Some(domain) = column.domain.as_ref().filter(|_| column.role != Role::Unused) {
                options = options.column(&column.name, domain.read_as());
            }
        }
        for structural in self.structural_columns() {
            options = options.column(structural, ReadAs::Text);
        }
        options
    }

    /// The user id and the selector of public rows.
    pub(crate) fn structural_columns(&self) -> impl Iterator<Item = &str> {
        let user = match self.relation.unit() {
            halflit_privacy::Unit::Row => None,
            halflit_privacy::Unit::User { id_column } => Some(id_column.as_str()),
        };
        let selector = match self.relation.private_rows() {
            halflit_privacy::PrivateRows::All => None,
            halflit_privacy::PrivateRows::Outside(public) => Some(public.column()),
        };
        user.into_iter().chain(selector)
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
