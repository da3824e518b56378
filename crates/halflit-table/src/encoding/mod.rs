//! From cells to the feature lattice, and the record of how it was done.
//!
//! | column | becomes | length |
//! |---|---|---|
//! | `bounds = [low, high]` | one coordinate: [low, high] mapped to [-1, 1], in steps of 2^-14 | at most 1 |
//! | `values = [v1, v2, ...]` | one coordinate per value: 1 where the cell has it, else 0 | at most 1 |
//! | intercept | one coordinate, always 1, the last | 1 |
//!
//! So a row of p columns and an intercept has length at most sqrt(p + 1), whatever its cells: the clamp and the one-hot
//! code make it true, nothing is assumed. A declared `row_norm` shortens rows further ([`clip`]).
//!
//! The encoding is a value made from the declaration alone. It is stored in the model, and applied to new files.

mod affine;
mod cells;
mod clip;
mod label;
mod record;
mod rows;
#[cfg(test)]
mod tests;

pub(crate) use affine::Affine;
pub(crate) use cells::{DomainCells, inspect, number_texts};
pub use label::{ClassCoding, LabelEncoding};
pub use record::EncodingError;
pub(crate) use record::SMALLEST_ROW_NORM;
pub(crate) use rows::{Storage, default_number, or_default};

use crate::declaration::{ColumnDomain, Declaration, DeclaredColumn, DeclaredLoss, Role, Visibility};
use crate::findings::{Findings, PublicFindings};
use crate::read::{ReadAs, ReadOptions};
use crate::table::{ReadCells, Table};
use clip::{Clip, Group};
use halflit_convex::{FEATURE_BITS, Rows};
use rayon::prelude::*;
use record::{ColumnRecord, EncodingRecord, LabelRecord};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// How the cells of a table become rows of integers, and how labels become numbers.
///
/// Two equal encodings give equal rows for equal cells, on any machine. A deserialized encoding has been checked like a
/// declared one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "EncodingRecord", into = "EncodingRecord")]
pub struct Encoding {
    columns: Vec<EncodedColumn>,
    intercept: bool,
    row_norm: Option<f64>,
    clip: Option<Clip>,
    label: EncodedLabel,
    width: usize,
}

/// A source column and the coordinates it becomes.
#[derive(Clone, Debug, PartialEq)]
pub struct EncodedColumn {
    name: String,
    domain: ColumnDomain,
    sensitive: bool,
    default: Option<String>,
    first: usize,
}

impl EncodedColumn {
    /// Its name in the file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What its cells may be.
    pub fn domain(&self) -> &ColumnDomain {
        &self.domain
    }

    /// Whether its cells are secret in private rows.
    pub fn is_sensitive(&self) -> bool {
        self.sensitive
    }

    /// The coordinates it becomes.
    pub fn coordinates(&self) -> std::ops::Range<usize> {
        let width = match &self.domain {
            ColumnDomain::Bounds { .. } => 1,
            ColumnDomain::Values(values) => values.len(),
        };
        self.first..self.first + width
    }
}

#[derive(Clone, Debug, PartialEq)]
struct EncodedLabel {
    name: String,
    default: Option<String>,
    encoding: LabelEncoding,
}

/// What to do with a cell outside its domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutOfDomain {
    /// Refuse the table and tell its owner which cells.
    Refuse,
    /// Never fail: a number is clamped to its bounds; a missing, unreadable or unlisted cell becomes the declared default.
    /// Without a default it becomes the middle of the bounds, or none of the values.
    Coerce,
}

/// Why a table could not be encoded.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// A column of the encoding is not in the table, or was not read.
    #[error("column `{column}` of the encoding is not in {file}{reason}")]
    MissingColumn {
        /// The column.
        column: String,
        /// The table's file.
        file: String,
        /// Why, if the column is there but was not read.
        reason: String,
    },
    /// Cells lie outside their domains, in a file that nobody protects: the message shows them.
    #[error("{0}\nmend the cells, widen the declaration, or coerce them (--coerce)")]
    OutOfDomain(Findings),
    /// Cells of a protected table lie outside their domains.
    #[error("{0}\nmend the cells, widen the declaration, or coerce them (--coerce)")]
    ProtectedOutOfDomain(Box<PublicFindings>),
    /// Coercing a label needs to know what a missing one becomes.
    #[error(
        "coercing needs a default for the label `{label}`; add `default = ...` to its column in the declaration"
    )]
    NoLabelDefault {
        /// The label column.
        label: String,
    },
    /// The rows do not fit their storage.
    #[error("{0}")]
    Rows(#[from] halflit_convex::RowsError),
}

impl Encoding {
    /// The encoding that a declaration asks for.
    ///
    /// # Errors
    /// None for a checked declaration in practice; the same checks as for a stored encoding are made again.
    pub fn from_declaration(declaration: &Declaration) -> Result<Encoding, EncodingError> {
        let record = |column: &DeclaredColumn| ColumnRecord {
            name: column.name.clone(),
            // A used column has a domain; an empty list is refused below.
            domain: column.domain.clone().unwrap_or(ColumnDomain::Values(Vec::new())),
            sensitive: column.visibility == Visibility::Sensitive,
            default: column.default.clone(),
        };
        let task = declaration.task();
        let label = declaration.columns().iter().find(|column| column.role == Role::Label).map(record);
        let label = label.ok_or(EncodingError::NoLabel)?;
        let encoding = label_encoding(task.loss, label.domain);
        EncodingRecord {
            columns: declaration.features().map(record).collect(),
            intercept: task.intercept,
            row_norm: task.row_norm,
            label: LabelRecord { name: label.name, default: label.default, encoding },
        }
        .try_into()
    }

    /// The source columns, in declared order.
    pub fn columns(&self) -> &[EncodedColumn] {
        &self.columns
    }

    /// Number of coordinates of a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The coordinate that is always 1 before rows are shortened, if there is one.
    pub fn intercept(&self) -> Option<usize> {
        self.intercept.then(|| self.width - 1)
    }

    /// The name of every coordinate: `age`, `workclass=Private`, `workclass=(empty)`, `intercept`.
    pub fn coordinate_names(&self) -> Vec<String> {
        let of_column = |column: &EncodedColumn| match &column.domain {
            ColumnDomain::Bounds { .. } => vec![column.name.clone()],
            ColumnDomain::Values(values) => {
                let shown =
                    |value: &String| if value.is_empty() { "(empty)".to_owned() } else { value.clone() };
                values.iter().map(|value| format!("{}={}", column.name, shown(value))).collect()
            }
        };
        let intercept = self.intercept.then(|| "intercept".to_owned());
        self.columns.iter().flat_map(of_column).chain(intercept).collect()
    }

    /// For every coordinate, whether it comes from a sensitive column. The intercept does not.
    pub fn sensitive_coordinates(&self) -> Vec<bool> {
        let of_column = |column: &EncodedColumn| vec![column.sensitive; column.coordinates().len()];
        self.columns.iter().flat_map(of_column).chain(self.intercept.then_some(false)).collect()
    }

    /// The largest possible squared norm of a row, in units of 2^-28: a fact about the encoding, not about any table.
    pub fn largest_squared_norm(&self) -> u64 {
        match &self.clip {
            Some(clip) => clip.largest_squared_norm(),
            None => self.nonzeros() << (2 * FEATURE_BITS),
        }
    }

    /// The largest possible norm of a row, rounded up.
    pub fn row_norm_bound(&self) -> f64 {
        let unit = f64::from(1u32 << FEATURE_BITS);
        // sqrt is correctly rounded, so one step up is above the true root.
        ((self.largest_squared_norm() as f64).next_up().sqrt() / unit).next_up()
    }

    /// The most coordinates of a row that are not zero: one per source column, and the intercept.
    fn nonzeros(&self) -> u64 {
        self.columns.len() as u64 + u64::from(self.intercept)
    }

    /// The label column.
    pub fn label_name(&self) -> &str {
        &self.label.name
    }

    /// What a label may be.
    pub(crate) fn label_domain(&self) -> ColumnDomain {
        self.label.domain()
    }

    /// How labels become numbers, and back.
    pub fn label(&self) -> &LabelEncoding {
        &self.label.encoding
    }

    /// How a new file is read for this encoding; `with_label` also reads the label, to measure the model on it.
    pub fn read_options(&self, with_label: bool) -> ReadOptions {
        let mut options = ReadOptions::default().others(ReadAs::Skipped);
        for column in &self.columns {
            options = options.column(&column.name, column.domain.read_as());
        }
        if with_label {
            options = options.column(&self.label.name, self.label.domain().read_as());
        }
        options
    }

    /// Encodes the features of a new file, in row order, to predict with a released model.
    ///
    /// The rows come out unsealed: they belong to whoever holds the new file. A table that is trained on goes through
    /// [`crate::Declared`] instead, which seals it.
    ///
    /// # Errors
    /// A missing column; cells outside their domains if they are refused.
    pub fn encode_features(&self, table: &Table, out_of_domain: OutOfDomain) -> Result<Rows, EncodeError> {
        self.refuse_findings(table, Inspected::Features, out_of_domain)?;
        let order: Vec<u32> = (0..table.rows() as u32).collect();
        self.rows(table, &order)
    }

    /// Encodes the labels of a new file, to measure a released model on it.
    ///
    /// # Errors
    /// A missing column; cells outside their domain if they are refused; no default if they are coerced.
    pub fn encode_labels(&self, table: &Table, out_of_domain: OutOfDomain) -> Result<Vec<f64>, EncodeError> {
        self.refuse_findings(table, Inspected::Label, out_of_domain)?;
        let order: Vec<u32> = (0..table.rows() as u32).collect();
        self.labels(table, &order, out_of_domain)
    }

    /// The cells outside their domains, column by column.
    pub(crate) fn findings(&self, table: &Table, with: Inspected) -> Result<Findings, EncodeError> {
        let features = self.columns.iter().map(|column| (&column.name, column.domain.clone()));
        let label = [(&self.label.name, self.label.domain())];
        let columns: Vec<(&String, ColumnDomain)> = match with {
            Inspected::Features => features.collect(),
            Inspected::Label => label.into(),
            Inspected::All => features.chain(label).collect(),
        };
        let inspected = columns.into_par_iter().map(|(name, domain)| {
            let (total, first) = inspect(table, name, find(table, name)?, &domain, 0..table.rows());
            Ok((name, total, first))
        });
        let mut findings = Findings::new(table.source());
        for (name, total, first) in inspected.collect::<Result<Vec<_>, EncodeError>>()? {
            findings.add(name, total, first);
        }
        Ok(findings)
    }

    fn refuse_findings(
        &self,
        table: &Table,
        of: Inspected,
        out_of_domain: OutOfDomain,
    ) -> Result<(), EncodeError> {
        if out_of_domain == OutOfDomain::Coerce {
            return Ok(());
        }
        let findings = self.findings(table, of)?;
        if findings.is_empty() { Ok(()) } else { Err(EncodeError::OutOfDomain(findings)) }
    }
}

/// Which columns are looked at for cells outside their domain.
#[derive(Clone, Copy)]
pub(crate) enum Inspected {
    Features,
    Label,
    All,
}

/// The cells of the column of this name.
pub(crate) fn find<'t>(table: &'t Table, name: &str) -> Result<ReadCells<'t>, EncodeError> {
    let missing = |reason: String| EncodeError::MissingColumn {
        column: name.to_owned(),
        file: table.source().to_owned(),
        reason,
    };
    let column = table.column(name).ok_or_else(|| missing(String::new()))?;
    column.read().map_err(|reason| missing(format!(" as a column of cells: {reason}")))
}

impl EncodedLabel {
    fn domain(&self) -> ColumnDomain {
        match &self.encoding {
            LabelEncoding::Classes { values, .. } => ColumnDomain::Values(values.clone()),
            LabelEncoding::Scaled { low, high } | LabelEncoding::Counts { low, high } => {
                ColumnDomain::Bounds { low: *low, high: *high }
            }
        }
    }
}

fn label_encoding(loss: DeclaredLoss, domain: ColumnDomain) -> LabelEncoding {
    match domain {
        ColumnDomain::Values(values) => {
            let coding = match loss {
                DeclaredLoss::Hinge | DeclaredLoss::SmoothedHinge { .. } => ClassCoding::PlusMinus,
                DeclaredLoss::Softmax => ClassCoding::Index,
                _ => ClassCoding::ZeroOne,
            };
            LabelEncoding::Classes { values, coding }
        }
        ColumnDomain::Bounds { low, high } if matches!(loss, DeclaredLoss::Poisson { .. }) => {
            LabelEncoding::Counts { low, high }
        }
        ColumnDomain::Bounds { low, high } => LabelEncoding::Scaled { low, high },
    }
}

/// The groups that rows are shortened by. One group if no coordinate, or every column, is sensitive: then there is no
/// public part to keep apart.
fn clip(columns: &[EncodedColumn], intercept: bool, row_norm: f64) -> Clip {
    let sensitive = columns.iter().filter(|column| column.sensitive).count() as u64;
    let all = columns.len() as u64 + u64::from(intercept);
    if sensitive == 0 || sensitive == columns.len() as u64 {
        let width = columns.last().map_or(0, |column| column.coordinates().end) + usize::from(intercept);
        return Clip::new(row_norm, vec![Group::Sensitive; width], 0, all);
    }
    let group = |column: &EncodedColumn| if column.sensitive { Group::Sensitive } else { Group::Public };
    let of_columns = columns.iter().flat_map(|column| vec![group(column); column.coordinates().len()]);
    let group_of = of_columns.chain(intercept.then_some(Group::Public)).collect();
    Clip::new(row_norm, group_of, all - sensitive, sensitive)
}
