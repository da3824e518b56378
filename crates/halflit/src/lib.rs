//! Train convex models under differential privacy when only part of the data is private.
#![forbid(unsafe_code)]

mod digest;
pub mod ledger;
pub mod plot;
