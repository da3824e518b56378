//! What everyone may know about a declared table.

use super::places_are_public;
use halflit_privacy::{Change, Relation};
use serde::Serialize;

/// Facts that hold for a table and all its neighbours, so that planning may use them freely.
///
/// Which counts are public depends on the relation:
///
/// | sensitive columns | unit | change | private units | private rows, rows of each user |
/// |---|---|---|---|---|
/// | some | any | replace | counted | counted: the public columns of every row are known |
/// | some | any | zero-out | declared | counted |
/// | all | row | replace | counted | counted |
/// | all | row | zero-out | declared | not public |
/// | all | user | replace | counted | not public: a replaced user may have another number of rows |
/// | all | user | zero-out | declared | not public |
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PublicFacts {
    /// Which tables are neighbours.
    pub relation: Relation,
    /// The relation in English.
    pub sentence: String,
    /// Number of protected units: private rows, or users with private rows.
    pub private_units: u64,
    /// Number of private rows, where it is public.
    pub private_rows: Option<u64>,
    /// Number of public rows.
    pub public_rows: u64,
    /// The most private rows that a user has, where it is public.
    pub largest_user: Option<u64>,
    /// The most private rows of a user that count, if declared.
    pub rows_per_user: Option<u64>,
    /// Number of source columns learned from.
    pub features: usize,
    /// Number of coordinates of an encoded row, intercept included.
    pub width: usize,
    /// Largest possible norm of an encoded row, rounded up.
    pub row_norm_bound: f64,
    /// Largest possible squared norm of an encoded row, in units of 2^-28.
    pub largest_squared_norm: u64,
    /// Whether rows are stored sparsely.
    pub sparse: bool,
    /// Columns of the file that the declaration does not mention: never read, so that no release depends on them.
    pub undeclared_columns: Vec<String>,
}

/// Counts of a table, of which the relation makes some public.
pub(super) struct Counts {
    pub(super) private_units: u64,
    pub(super) private_rows: u64,
    pub(super) largest_user: Option<u64>,
}

impl Counts {
    /// Keeps what the relation makes public; under zero-out the units are the declared ones.
    pub(super) fn public(
        self,
        relation: &Relation,
        declared_units: Option<u64>,
    ) -> (u64, Option<u64>, Option<u64>) {
        let rows_are_public = places_are_public(relation);
        let units = match relation.change() {
            Change::Replace => self.private_units,
            // Parsing has made sure that it is declared.
            Change::ZeroOut => declared_units.unwrap_or(self.private_units),
        };
        (units, rows_are_public.then_some(self.private_rows), self.largest_user.filter(|_| rows_are_public))
    }
}
