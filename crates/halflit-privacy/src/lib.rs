//! Relations, events, profiles, privacy-loss distributions, calibration and filters.
//!
//! No data and no randomness: this crate answers what a release costs, from a description of what happened.
#![forbid(unsafe_code)]

mod relation;
pub mod special;

pub use relation::{
    Change, ColumnNames, PrivateRows, PublicRows, Relation, RelationError, SensitiveColumns, Unit,
};
