//! What can be wrong with a file, told with the place where it is wrong.

use std::io;
use thiserror::Error;

/// Why a file did not become a table.
///
/// These messages are for the owner of the file. Structural faults only: a cell outside its declared domain is not an
/// error of the file but a finding of the owner-side check (see [`crate::Findings`]).
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TableError {
    /// The file could not be opened or read.
    #[error("{file}: cannot be read: {source}")]
    Io {
        /// The file as the caller named it.
        file: String,
        /// What the operating system said.
        source: io::Error,
    },
    /// The name does not end in a known extension.
    #[error("{file}: unknown file type; known are {known}")]
    UnknownExtension {
        /// The file as the caller named it.
        file: String,
        /// The extensions this build reads.
        known: &'static str,
    },
    /// The bytes are not what the extension promises: not gzip, not Parquet, truncated.
    #[error("{file}: not readable as {format}: {reason}")]
    Unreadable {
        /// The file as the caller named it.
        file: String,
        /// The format that was tried.
        format: &'static str,
        /// What the decoder said.
        reason: String,
    },
    /// There is no header.
    #[error("{file}: the file is empty; a table needs a header line and at least one row")]
    Empty {
        /// The file as the caller named it.
        file: String,
    },
    /// There is a header and nothing below it.
    #[error("{file}: the file has {columns} column names and no rows")]
    NoRows {
        /// The file as the caller named it.
        file: String,
        /// How many columns the header names.
        columns: usize,
    },
    /// A column without a name.
    #[error(
        "{file}:{line}: column {column} has no name in the header; name it, or write the file without its index column"
    )]
    EmptyName {
        /// The file as the caller named it.
        file: String,
        /// Line of the header.
        line: u64,
        /// Position in the header, counted from 1.
        column: usize,
    },
    /// Two columns with one name.
    #[error("{file}:{line}: columns {first} and {second} are both named `{name}`; names must be distinct")]
    DuplicateColumn {
        /// The file as the caller named it.
        file: String,
        /// Line of the header.
        line: u64,
        /// The name used twice.
        name: String,
        /// Position of its first use, counted from 1.
        first: usize,
        /// Position of its second use.
        second: usize,
    },
    /// A row with too few or too many cells.
    #[error("{file}:{line}: the row has {found} cells but the header names {expected} columns; {}", ragged_place(*expected, *found, first_missing))]
    Ragged {
        /// The file as the caller named it.
        file: String,
        /// Line on which the row starts.
        line: u64,
        /// Number of columns in the header.
        expected: usize,
        /// Number of cells in the row.
        found: usize,
        /// The first column without a cell, if cells are missing.
        first_missing: Option<String>,
    },
    /// A quoted cell that never ends.
    #[error("{file}:{line}: a quoted cell starting in this row is never closed; add the closing quote")]
    UnclosedQuote {
        /// The file as the caller named it.
        file: String,
        /// Line on which the row starts.
        line: u64,
    },
    /// Text that is not UTF-8.
    #[error("{file}:{line}: column {column}: the text is not UTF-8; convert the file to UTF-8")]
    NotUtf8 {
        /// The file as the caller named it.
        file: String,
        /// Line on which the row starts; for Parquet and Arrow the row number.
        line: u64,
        /// Name of the column, or its position in the header.
        column: String,
    },
    /// The file changed between the two passes that a late change of type needs.
    #[error("{file}: the file changed while it was being read; read it again")]
    Changed {
        /// The file as the caller named it.
        file: String,
    },
    /// More rows than row numbers.
    #[error("{file}: {rows} rows are more than the {most} that a table can hold")]
    TooManyRows {
        /// The file as the caller named it.
        file: String,
        /// Rows found.
        rows: u64,
        /// The most rows of a table.
        most: u64,
    },
    /// Columns given in memory with different lengths.
    #[error("column `{column}` has {found} rows but the first column has {expected}")]
    UnequalLengths {
        /// Name of the shorter or longer column.
        column: String,
        /// Rows of the first column.
        expected: usize,
        /// Rows of this column.
        found: usize,
    },
}

fn ragged_place(expected: usize, found: usize, first_missing: &Option<String>) -> String {
    match first_missing {
        Some(name) => format!("column `{name}` and what follows are missing"),
        None => {
            format!("{} too many; quote cells that contain the separator", found.saturating_sub(expected))
        }
    }
}
