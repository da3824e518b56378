//! Tables, the privacy declaration and the encoding to the feature lattice.
#![forbid(unsafe_code)]

mod declaration;
mod read;
mod table;
mod value;

pub use declaration::{
    Budget, ColumnDomain, Declaration, DeclarationError, DeclaredColumn, DeclaredLoss, Problem, Refusal,
    Regularization, Role, Task, Visibility,
};
pub use read::{ReadAs, ReadOptions, TableError};
pub use table::{Column, ColumnType, Table};
