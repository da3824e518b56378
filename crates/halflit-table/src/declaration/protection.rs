//! What a declaration says about protection: everything but the task.

use super::{Budget, DeclarationError, DeclaredColumn, check};
use crate::read::{ReadAs, ReadOptions};
use halflit_privacy::{PrivateRows, Relation, Unit};

/// The part of a declaration that every release needs: relation, budget, columns. A mean needs no more than this.
#[derive(Clone, Debug, PartialEq)]
pub struct Protection {
    pub(super) file: String,
    pub(super) budget: Budget,
    pub(super) relation: Relation,
    pub(super) declared_units: Option<u64>,
    pub(super) rows_per_user: Option<u64>,
    pub(super) columns: Vec<DeclaredColumn>,
    pub(super) has_task: bool,
}

impl Protection {
    /// Reads a declaration whose section `[task]` may be missing. If it is there, it is checked like everything else.
    ///
    /// # Errors
    /// All faults found, each with its place, not only the first.
    pub fn parse(text: &str, file_name: &str) -> Result<Protection, DeclarationError> {
        check::parse_protection(text, file_name)
    }

    /// The name given to [`Protection::parse`].
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Whether the declaration says what is to be learned; then [`super::Declaration::parse`] takes it, too.
    pub fn has_task(&self) -> bool {
        self.has_task
    }

    /// What may be spent.
    pub fn budget(&self) -> Budget {
        self.budget
    }

    /// Which tables must be indistinguishable.
    pub fn relation(&self) -> &Relation {
        &self.relation
    }

    /// The declared number of private units; see [`Declaration::declared_units`](super::Declaration::declared_units).
    pub fn declared_units(&self) -> Option<u64> {
        self.declared_units
    }

    /// The most private rows of one user that count.
    pub fn rows_per_user(&self) -> Option<u64> {
        self.rows_per_user
    }

    /// All declared columns, in the order of the file.
    pub fn columns(&self) -> &[DeclaredColumn] {
        &self.columns
    }

    /// The declared column of this name.
    pub fn column(&self, name: &str) -> Option<&DeclaredColumn> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// How a file is read: the wanted columns as declared, the user id and the selector as text, all others not at all.
    pub fn read_options(&self, is_wanted: impl Fn(&DeclaredColumn) -> bool) -> ReadOptions {
        let mut options = ReadOptions::default().others(ReadAs::Skipped);
        for column in self.columns.iter().filter(|column| is_wanted(column)) {
            if let Some(domain) = &column.domain {
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
            Unit::Row => None,
            Unit::User { id_column } => Some(id_column.as_str()),
        };
        let selector = match self.relation.private_rows() {
            PrivateRows::All => None,
            PrivateRows::Outside(public) => Some(public.column()),
        };
        user.into_iter().chain(selector)
    }
}
