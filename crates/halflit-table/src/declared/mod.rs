//! The declaration meets the file.

mod encoded;
mod facts;
mod split;
#[cfg(test)]
mod tests;
mod values;

pub use encoded::{EncodedTable, PublicFeatures, PublicView, Units};
pub use facts::PublicFacts;
pub use split::MOST_ROWS_PER_USER;
pub use values::{ValueColumn, Values, ValuesError};

use crate::declaration::{ColumnDomain, Declaration, DeclaredColumn, Protection, Role, listed, nearest};
use crate::encoding::{self, EncodeError, Encoding, EncodingError, Inspected, OutOfDomain, Storage, inspect};
use crate::findings::{Finding, Findings, PublicFindings};
use crate::sealed::Sealed;
use crate::table::{ReadCells, Table};
use facts::Counts;
use halflit_privacy::{Change, PrivateRows, Relation, SensitiveColumns, Unit};
use rayon::prelude::*;
use split::Split;
use std::fmt;
use thiserror::Error;

/// A table under a declaration. Its cells are sealed; what it shows is public.
pub struct Declared {
    declaration: Declaration,
    encoding: Encoding,
    facts: PublicFacts,
    table: Sealed<Table>,
    split: Sealed<Split>,
    has_private_labels: bool,
}

/// Why a declaration does not fit a file. The messages depend on public columns and counts alone; [`BindError::for_the_owner`] says what more there is to say.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BindError {
    /// A declared column is not in the file.
    #[error(
        "{declaration}: column `{column}` is declared but is not in {file}{}; the file has: {}",
        did_you_mean(nearest),
        listed(has)
    )]
    MissingColumn {
        /// The declaration's file.
        declaration: String,
        /// The column.
        column: String,
        /// The table's file.
        file: String,
        /// The column of the file closest in spelling.
        nearest: Option<String>,
        /// The columns of the file.
        has: Vec<String>,
    },
    /// A used column has no cells.
    #[error("column `{column}` of {file} cannot be used: {reason}")]
    NotRead {
        /// The column.
        column: String,
        /// The table's file.
        file: String,
        /// Why it was not read.
        reason: String,
    },
    /// A private row that belongs to nobody.
    #[error(
        "{file}: {}: column `{column}` is empty, so it is unknown whom the row belongs to; fill it in or remove the row{}",
        if *place_is_public { row_and_line(*row, line) } else { "some row".to_owned() },
        if *place_is_public { "" } else { " (halflit check says which)" }
    )]
    NoUser {
        /// The user id column.
        column: String,
        /// The table's file.
        file: String,
        /// Data row, counted from 1.
        row: usize,
        /// Line of the file, where the file has lines.
        line: Option<u64>,
        /// Whether everyone knows how many private rows stand above it.
        place_is_public: bool,
    },
    /// No private row is left.
    #[error(
        "every row of {file} is public under the declared selector, so there is nothing to protect; train without privacy, or mend `public_rows`"
    )]
    NothingPrivate {
        /// The table's file.
        file: String,
    },
    /// The declared number of units is wrong.
    #[error(
        "the declaration says there are {declared} private {unit}s, but {file} has {found}; correct it or remove it"
    )]
    WrongCount {
        /// `row` or `user`.
        unit: &'static str,
        /// The declared number.
        declared: u64,
        /// The table's file.
        file: String,
        /// The number in the file.
        found: u64,
    },
    /// More units than the number declared for zero-out. How many is private.
    #[error(
        "the declaration fixes the number of private {unit}s at {declared}, but {file} has more; sums are sized for the declared \
         number, so raise it (it is a constant that every neighbour shares)"
    )]
    TooManyUnits {
        /// `row` or `user`.
        unit: &'static str,
        /// The declared number.
        declared: u64,
        /// The table's file.
        file: String,
        /// The number in the file.
        found: u64,
    },
    /// The declaration has no sound encoding.
    #[error("{0}")]
    Encoding(#[from] EncodingError),
}

fn did_you_mean(nearest: &Option<String>) -> String {
    nearest.as_ref().map_or(String::new(), |nearest| format!(" (did you mean `{nearest}`?)"))
}

fn row_and_line(row: usize, line: &Option<u64>) -> String {
    line.map_or(format!("row {row}"), |line| format!("row {row} (line {line})"))
}

impl BindError {
    /// What the message leaves out because it is private. **For the data owner only.**
    pub fn for_the_owner(&self) -> Option<String> {
        match self {
            BindError::NoUser { row, line, place_is_public: false, .. } => {
                Some(format!("it is {}", row_and_line(*row, line)))
            }
            BindError::TooManyUnits { unit, found, .. } => Some(format!("it has {found} private {unit}s")),
            _ => None,
        }
    }
}

fn find<'t>(table: &'t Table, name: &str) -> Result<ReadCells<'t>, BindError> {
    let not_read = |reason: &str| BindError::NotRead {
        column: name.to_owned(),
        file: table.source().to_owned(),
        reason: reason.to_owned(),
    };
    table.column(name).ok_or_else(|| not_read("it is not there"))?.read().map_err(not_read)
}

impl Declared {
    /// Binds a declaration to a table. Reads the header, the user id and the selector of public rows, nothing else.
    ///
    /// # Errors
    /// [`BindError`]: a declared column that is missing, a row without a user, no private row, a wrong count.
    pub fn bind(declaration: Declaration, table: Table) -> Result<Declared, BindError> {
        check_columns(declaration.protection(), &table, |_| true, |column| column.role != Role::Unused)?;
        Self::bound(declaration, table, true)
    }

    /// The same for whoever needs no private labels, such as another model of statistics that were released before: the labels of private rows
    /// may be anything, and where no row is public the column may be missing. What comes out cannot be trained on.
    ///
    /// # Errors
    /// As [`Declared::bind`].
    pub fn bind_without_private_labels(
        declaration: Declaration,
        table: Table,
    ) -> Result<Declared, BindError> {
        let relation = declaration.relation();
        let has_private_labels = !is_sensitive(relation, &declaration.task().label);
        let needs_labels = has_private_labels || *relation.private_rows() != PrivateRows::All;
        let is_needed = |column: &DeclaredColumn| column.role != Role::Label || needs_labels;
        check_columns(declaration.protection(), &table, is_needed, |column| {
            column.role != Role::Unused && is_needed(column)
        })?;
        Self::bound(declaration, table, has_private_labels)
    }

    fn bound(
        declaration: Declaration,
        table: Table,
        has_private_labels: bool,
    ) -> Result<Declared, BindError> {
        let encoding = Encoding::from_declaration(&declaration)?;
        let split = checked_split(declaration.protection(), &table)?;
        let shape = Shape {
            features: encoding.columns().len(),
            width: encoding.width(),
            row_norm_bound: encoding.row_norm_bound(),
            largest_squared_norm: encoding.largest_squared_norm(),
            sparse: encoding.storage() == Storage::Sparse,
        };
        let facts = public_facts(declaration.protection(), shape, &table, &split);
        let (table, split) = (Sealed::new(table), Sealed::new(split));
        Ok(Declared { declaration, encoding, facts, table, split, has_private_labels })
    }

    /// The declaration.
    pub fn declaration(&self) -> &Declaration {
        &self.declaration
    }

    /// Which tables must be indistinguishable.
    pub fn relation(&self) -> &Relation {
        self.declaration.relation()
    }

    /// How cells become rows.
    pub fn encoding(&self) -> &Encoding {
        &self.encoding
    }

    /// What everyone may know.
    pub fn facts(&self) -> &PublicFacts {
        &self.facts
    }

    /// The owner-side check: every cell outside its declared domain. **For the data owner only**; see [`Findings`].
    ///
    /// # Errors
    /// None for a bound table in practice; a column without cells is reported by name.
    pub fn findings(&self) -> Result<Findings, EncodeError> {
        let table = self.table.content_for_public_part();
        let split = self.split.content_for_public_part();
        let mut findings = self.encoding.findings(table, Inspected::All)?;
        add_unit_findings(&mut findings, self.declaration.protection(), table, split);
        Ok(findings)
    }

    /// The columns that a row is made of, with their domains.
    fn columns_with_cells(&self) -> Vec<(&str, ColumnDomain)> {
        let features = self.encoding.columns().iter();
        let features = features.map(|column| (column.name(), column.domain().clone()));
        features.chain([(self.encoding.label_name(), self.encoding.label_domain())]).collect()
    }

    /// Encodes the table. The private part comes out sealed.
    ///
    /// # Errors
    /// With [`OutOfDomain::Refuse`], what may be said of the findings if there are any. With [`OutOfDomain::Coerce`] no error
    /// depends on a private cell: only a label without a declared default is refused.
    pub fn encode(&self, out_of_domain: OutOfDomain) -> Result<EncodedTable, EncodeError> {
        let table = self.table.content_for_public_part();
        let split = self.split.content_for_public_part();
        if out_of_domain == OutOfDomain::Refuse {
            let protected = Protected { protection: self.declaration.protection(), table, split };
            let label = self.encoding.label_name();
            let has_private_cells = |column: &str| self.has_private_labels || column != label;
            protected.refuse_findings(&self.columns_with_cells(), has_private_cells)?;
        }
        EncodedTable::new(self, table, split, out_of_domain)
    }
}

/// The rows sorted into public ones and private units, with the number of units checked.
fn checked_split(protection: &Protection, table: &Table) -> Result<Split, BindError> {
    let split = Split::new(protection, table)?;
    // Where it is a secret whether a unit is there, so is whether any is: null units make up the declared number.
    let relation = protection.relation();
    let hides_units = relation.change() == Change::ZeroOut && *relation.sensitive() == SensitiveColumns::All;
    if split.private.is_empty() && !hides_units {
        return Err(BindError::NothingPrivate { file: table.source().to_owned() });
    }
    check_units(protection, table, &split)?;
    Ok(split)
}

/// A table with the rows that its declaration protects.
struct Protected<'a> {
    protection: &'a Protection,
    table: &'a Table,
    split: &'a Split,
}

impl Protected<'_> {
    /// Whether everyone knows how many private rows there are, and so where the others stand.
    fn places_are_public(&self) -> bool {
        places_are_public(self.protection.relation())
    }

    /// Refuses cells outside their domains, and says no more of them than everyone may know. Of a column without private cells the
    /// public rows alone are looked at.
    fn refuse_findings(
        &self,
        columns: &[(&str, ColumnDomain)],
        has_private_cells: impl Fn(&str) -> bool + Sync,
    ) -> Result<(), EncodeError> {
        let found = columns.par_iter().map(|(name, domain)| {
            let in_public_rows = match self.split.public.is_empty() {
                true => (0, Vec::new()),
                false => self.inspect(name, domain, self.split.public.iter().map(|&row| row as usize))?,
            };
            let in_all_rows = match has_private_cells(name) {
                true => self.inspect(name, domain, 0..self.table.rows())?,
                false => in_public_rows.clone(),
            };
            Ok((*name, in_public_rows, in_all_rows))
        });
        let mut said = PublicFindings::new(self.table.source());
        let mut total = 0;
        for (name, in_public_rows, in_all_rows) in found.collect::<Result<Vec<_>, EncodeError>>()? {
            total += in_all_rows.0;
            let shown = match (self.places_are_public(), is_sensitive(self.protection.relation(), name)) {
                (false, _) => (0, Vec::new()),
                (true, true) => in_public_rows,
                (true, false) => in_all_rows.clone(),
            };
            if in_all_rows.0 > shown.0 {
                said.withhold(name);
            }
            said.show(name, shown.0, shown.1);
        }
        let (crowded, first) = &self.split.too_many;
        match (self.places_are_public(), self.protection.relation().unit()) {
            (true, Unit::User { id_column }) => said.show(id_column, *crowded, first.clone()),
            _ if *crowded > 0 => {
                said.withhold_users(self.protection.rows_per_user().unwrap_or(MOST_ROWS_PER_USER));
            }
            _ => {}
        }
        if total + crowded == 0 { Ok(()) } else { Err(EncodeError::ProtectedOutOfDomain(Box::new(said))) }
    }

    fn inspect(
        &self,
        column: &str,
        domain: &ColumnDomain,
        rows: impl Iterator<Item = usize>,
    ) -> Result<(u64, Vec<Finding>), EncodeError> {
        Ok(inspect(self.table, column, encoding::find(self.table, column)?, domain, rows))
    }
}

/// Whether the number of private rows is the same for all neighbours.
fn places_are_public(relation: &Relation) -> bool {
    let some_columns_are_public = matches!(relation.sensitive(), SensitiveColumns::Named(_));
    some_columns_are_public || (*relation.unit() == Unit::Row && relation.change() == Change::Replace)
}

fn is_sensitive(relation: &Relation, column: &str) -> bool {
    match relation.sensitive() {
        SensitiveColumns::All => true,
        SensitiveColumns::Named(names) => names.contains(column),
    }
}

/// What the owner should know about the rows: users with too many, a declared number that is not the real one, a selector that selects none.
fn add_unit_findings(findings: &mut Findings, protection: &Protection, table: &Table, split: &Split) {
    let (total, first) = &split.too_many;
    if let Unit::User { id_column } = protection.relation().unit() {
        findings.add(id_column, *total, first.clone());
    }
    if let Some(declared) = protection.declared_units().filter(|&declared| declared != split.units()) {
        let found = split.units();
        findings.remark(format!(
            "the declaration fixes the number of private units at {declared}; the file has {found} (allowed under zero-out)"
        ));
    }
    if let PrivateRows::Outside(selector) = protection.relation().private_rows()
        && split.public.is_empty()
    {
        let (column, wanted) = (selector.column(), selector.values().join(" or "));
        let has = split::written_values(table, column);
        let has = if has.is_empty() { "nothing".to_owned() } else { listed(&has) };
        findings.remark(format!(
            "no row is public: column `{column}` is never {wanted}, as public_rows asks for; it is {has} (a slip in public_rows?)"
        ));
    }
}

/// Under replace a declared number of units must be right; under zero-out it must be large enough, for null units fill the rest.
fn check_units(protection: &Protection, table: &Table, split: &Split) -> Result<(), BindError> {
    let Some(declared) = protection.declared_units() else { return Ok(()) };
    let (found, file) = (split.units(), table.source().to_owned());
    let unit = if split.offsets.is_some() { "user" } else { "row" };
    match protection.relation().change() {
        Change::Replace if found != declared => Err(BindError::WrongCount { unit, declared, file, found }),
        Change::ZeroOut if found > declared => Err(BindError::TooManyUnits { unit, declared, file, found }),
        _ => Ok(()),
    }
}

fn check_columns(
    protection: &Protection,
    table: &Table,
    is_needed: impl Fn(&DeclaredColumn) -> bool,
    is_used: impl Fn(&DeclaredColumn) -> bool,
) -> Result<(), BindError> {
    for column in protection.columns().iter().filter(|column| is_needed(column)) {
        if table.column(&column.name).is_none() {
            let has: Vec<&str> = table.names().collect();
            return Err(BindError::MissingColumn {
                declaration: protection.file().to_owned(),
                column: column.name.clone(),
                file: table.source().to_owned(),
                nearest: nearest(&column.name, &has).map(str::to_owned),
                has: has.into_iter().map(str::to_owned).collect(),
            });
        }
        if is_used(column) {
            find(table, &column.name)?;
        }
    }
    Ok(())
}

/// What a row looks like once encoded.
struct Shape {
    features: usize,
    width: usize,
    row_norm_bound: f64,
    largest_squared_norm: u64,
    sparse: bool,
}

fn public_facts(protection: &Protection, shape: Shape, table: &Table, split: &Split) -> PublicFacts {
    let relation = protection.relation();
    let counts = Counts {
        private_units: split.units(),
        private_rows: split.private.len() as u64,
        largest_user: split.largest_user(),
    };
    let (private_units, private_rows, largest_user) = counts.public(relation, protection.declared_units());
    let Shape { features, width, row_norm_bound, largest_squared_norm, sparse } = shape;
    PublicFacts {
        relation: relation.clone(),
        sentence: relation.sentence(),
        private_units,
        private_rows,
        public_rows: split.public.len() as u64,
        largest_user,
        rows_per_user: protection.rows_per_user(),
        features,
        width,
        row_norm_bound,
        largest_squared_norm,
        sparse,
        undeclared_columns: table
            .names()
            .filter(|name| protection.column(name).is_none())
            .map(str::to_owned)
            .collect(),
    }
}

/// The public facts only.
impl fmt::Debug for Declared {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Declared").field("facts", &self.facts).finish_non_exhaustive()
    }
}
