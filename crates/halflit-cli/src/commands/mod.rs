//! One file per subcommand: its arguments, its help text and what it does.

pub mod account;
mod accounting;
pub mod calibrate;
pub mod check;
pub mod completions;
mod dataset;
pub mod demo;
mod gradient;
pub mod init;
pub mod ledger;
pub mod local;
pub mod mean;
mod options;
mod outcome;
pub mod plan;
pub mod predict;
pub mod refit;
pub mod train;
pub mod verify;
