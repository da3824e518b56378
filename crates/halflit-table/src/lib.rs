//! Tables, the privacy declaration and the encoding to the feature lattice.
#![forbid(unsafe_code)]

mod read;
mod table;
mod value;

pub use read::{ReadAs, ReadOptions, TableError};
pub use table::{Column, ColumnType, Table};
