//! ledger
pub mod log;
