//! One file per subcommand: its arguments, its help text and what it does.

pub mod account;
pub mod calibrate;
