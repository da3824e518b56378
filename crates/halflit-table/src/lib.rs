//! Files, the privacy declaration, the encoding to the feature lattice, and sealing.
//!
//! ```text
//! Table::read -> Declaration::parse -> Declared::bind -> Declared::encode -> EncodedTable
//!    file           privacy.toml          the two meet     on the lattice      private part sealed
//! ```
//!
//! | step | reads | shows |
//! |---|---|---|
//! | [`Table::read`] | the file | names, types, shape |
//! | [`Declaration::parse`] | `privacy.toml` | everything in it, and the relation |
//! | [`Declared::bind`] | the header, the user id and the selector of public rows | [`PublicFacts`], the [`Encoding`] |
//! | [`Declared::findings`] | every cell | [`Findings`], to the data owner only |
//! | [`Declared::encode`] | every cell | public rows; private rows as [`Sealed`] values |
//!
//! Cells are readable inside this crate only. What leaves it is public under the declared relation, sealed, or a message to
//! the data owner.
//!
//! # How files are read
//!
//! - An empty cell (or a null) is missing. ASCII spaces around a cell are dropped. Blank lines of a CSV file are skipped.
//! - A column holds numbers if every cell that is not empty is a finite number, else text. The whole column decides, never
//!   a sample. The declaration overrides this: a column with `bounds` is read as numbers, a column with `values`, the
//!   user id and the selector of public rows as text.
//! - A number has digits, perhaps a sign, a point and an exponent. `NaN`, `inf` and `NA` are texts: in a column with
//!   `bounds` the owner-side check lists them with their line, and coercing treats them as missing.
//! - Parquet and Arrow: NaN is missing, an infinity lies outside every bound, booleans are the texts `true` and `false`,
//!   dates are days and timestamps seconds since 1970-01-01, nested columns are not read.
//! - Two texts are the same value if they are equal, or if both are numbers and equal as numbers: `1`, `1.0` and `01` are
//!   one value, one class and one user.
#![forbid(unsafe_code)]

mod declaration;
mod declared;
mod encoding;
mod findings;
mod read;
mod sealed;
mod skeleton;
mod table;
mod value;

pub use declaration::{
    Budget, ColumnDomain, Declaration, DeclarationError, DeclaredColumn, DeclaredLoss, Problem, Protection,
    Refusal, Regularization, Role, Task, Visibility,
};
pub use declared::{
    BindError, Declared, EncodedTable, MOST_ROWS_PER_USER, PublicFacts, PublicFeatures, PublicView, Units,
    ValueColumn, Values, ValuesError,
};
pub use encoding::{
    ClassCoding, EncodeError, EncodedColumn, Encoding, EncodingError, LabelEncoding, OutOfDomain,
};
pub use findings::{Fault, Finding, Findings, LISTED_FINDINGS, PublicFindings};
pub use read::{ReadAs, ReadOptions, TableError};
pub use sealed::{Sealed, Unsealed};
pub use skeleton::skeleton;
pub use table::{Column, ColumnType, Table};
