//! Tables, the privacy declaration and the encoding to the feature lattice.
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
    Budget, ColumnDomain, Declaration, DeclarationError, DeclaredColumn, DeclaredLoss, Problem, Refusal,
    Regularization, Role, Task, Visibility,
};
pub use declared::{BindError, Declared, EncodedTable, PublicFacts, PublicFeatures, PublicView, Units};
pub use encoding::{
    ClassCoding, EncodeError, EncodedColumn, Encoding, EncodingError, LabelEncoding, Labels, OutOfDomain,
};
pub use findings::{Fault, Finding, Findings, LISTED_FINDINGS};
pub use read::{ReadAs, ReadOptions, TableError};
pub use sealed::{Sealed, Unsealed};
pub use skeleton::skeleton;
pub use table::{Column, ColumnType, Table};
