//! The `halflit` command: every subcommand is one file in `commands/`.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr)]

/// Like the standard macro, but through [`say`]. Defined before the modules, so that all of them use it.
macro_rules! println {
    ($($words:tt)*) => { $crate::say(format_args!("{}\n", format_args!($($words)*))) };
}

/// The same without the end of the line.
macro_rules! print {
    ($($words:tt)*) => { $crate::say(format_args!($($words)*)) };
}

mod commands;
mod failure;
mod files;
mod progress;

use clap::{Parser, Subcommand};
use failure::Failure;
use std::process::ExitCode;

/// Train convex models under differential privacy when only part of the data is private.
///
/// Declare what is protected (which columns, which rows, whose), and halflit plans, charges a ledger, trains, and writes a model, a certificate that
/// anyone can check, and a report that a person can read.
#[derive(Parser)]
#[command(
    name = "halflit",
    version,
    arg_required_else_help = true,
    after_help = "A first look:  halflit demo\n\
                  Your own file: halflit init data.csv; edit privacy.toml; halflit check data.csv; halflit plan data.csv; halflit train data.csv\n\n\
                  Exit codes: 0 done, 1 it could not be done, 2 wrong input (nothing was written or spent)."
)]
struct Cli {
    /// Answer in JSON on standard output.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Demo(commands::demo::Args),
    Init(commands::init::Args),
    Check(commands::check::Args),
    Plan(commands::plan::Args),
    Train(commands::train::Args),
    Predict(commands::predict::Args),
    Refit(commands::refit::Args),
    Verify(commands::verify::Args),
    Mean(commands::mean::Args),
    Local(commands::local::Args),
    Ledger(commands::ledger::Args),
    Account(commands::account::Args),
    Calibrate(commands::calibrate::Args),
    Completions(commands::completions::Args),
}

fn main() -> ExitCode {
    let Cli { json, command } = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return not_understood(&error),
    };
    let outcome = match command {
        Command::Demo(args) => commands::demo::run(args, json),
        Command::Init(args) => commands::init::run(args, json),
        Command::Check(args) => commands::check::run(args, json),
        Command::Plan(args) => commands::plan::run(args, json),
        Command::Train(args) => commands::train::run(args, json),
        Command::Predict(args) => commands::predict::run(args, json),
        Command::Refit(args) => commands::refit::run(args, json),
        Command::Verify(args) => commands::verify::run(args, json),
        Command::Mean(args) => commands::mean::run(args, json),
        Command::Local(args) => commands::local::run(args, json),
        Command::Ledger(args) => commands::ledger::run(args, json),
        Command::Account(args) => commands::account::run(args, json),
        Command::Calibrate(args) => commands::calibrate::run(args, json),
        Command::Completions(args) => commands::completions::run(args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(json),
    }
}

/// Prints on standard output, with nothing that a terminal would obey. A reader that has seen enough (`| head`) is no failure; a full disk is.
fn say(words: std::fmt::Arguments) {
    write_out(&failure::shown(&words.to_string()));
}

/// Prints as it is. A file or a pipe gets every character of the data.
fn write_out(text: &str) {
    use std::io::{ErrorKind, Write};
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            eprintln!("error: standard output cannot be written: {error}");
            std::process::exit(1);
        }
        _ => {}
    }
}

/// Prints help and versions as asked, and refuses wrong words: in JSON if --json is among them.
fn not_understood(error: &clap::Error) -> ExitCode {
    if error.use_stderr() && std::env::args_os().any(|word| word == "--json") {
        let message = error.to_string();
        let message = message.trim().trim_start_matches("error: ");
        return Failure::BadInput(message.to_owned()).report(true);
    }
    // Nothing can be done about a closed pipe.
    let _ = error.print();
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}
