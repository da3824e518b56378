//! The `halflit` command: every subcommand is one file in `commands/`.
#![forbid(unsafe_code)]

mod commands;
mod failure;
mod files;

use clap::{Parser, Subcommand};
use failure::Failure;
use std::process::ExitCode;

/// Train convex models under differential privacy when only part of the data is private.
#[derive(Parser)]
#[command(name = "halflit", version, arg_required_else_help = true)]
struct Cli {
    /// Answer in JSON on standard output.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Account(commands::account::Args),
    Calibrate(commands::calibrate::Args),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome = match cli.command {
        Command::Account(args) => commands::account::run(args, cli.json),
        Command::Calibrate(args) => commands::calibrate::run(args, cli.json),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(cli.json),
    }
}
