//! The papers' experiments and the benchmarks, one file per experiment.
//!
//! `cargo run --release -p halflit-lab -- <experiment>`; nothing here is published.
#![forbid(unsafe_code)]

mod accounting_bench;
mod adult;
mod belief_bench;
mod csv_bench;
mod datasets;
mod dpsgd_bench;
mod feature_dp;
mod hard_instance_000;
mod kernel_bench;
mod label_dp;
mod label_tables;
mod local_bench;
mod means;
mod noise_bench;
mod peers;
mod perceptron_bench;
mod sample;
mod semi_sensitive;
mod solver_check;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Reproductions, benchmarks and raw samplers of halflit.
#[derive(Parser)]
#[command(name = "halflit-lab", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(Subcommand)]
enum Experiment {
    Sample(sample::Args),
    NoiseBench(noise_bench::Args),
    AccountingBench(accounting_bench::Args),
    KernelBench(kernel_bench::Args),
    SolverCheck(solver_check::Args),
    DpsgdBench(dpsgd_bench::Args),
    PerceptronBench(perceptron_bench::Args),
    CsvBench(csv_bench::Args),
    LocalBench(local_bench::Args),
    Figure12(means::FigureArgs),
    Figure13(means::FigureArgs),
    Figure14(means::FigureArgs),
    MeanCheck(means::CheckArgs),
    Adult(adult::Args),
    LabelDp(label_dp::Args),
    BeliefBench(belief_bench::Args),
    #[command(name = "hard-instance-000")]
    HardInstance000(hard_instance_000::Args),
    SemiSensitive(semi_sensitive::Args),
    FeatureDp(feature_dp::Args),
}

/// What an experiment returns: nothing, or a sentence about what went wrong.
type Outcome = Result<(), Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let outcome = match Cli::parse().experiment {
        Experiment::Sample(args) => sample::run(args),
        Experiment::NoiseBench(args) => noise_bench::run(args),
        Experiment::AccountingBench(args) => accounting_bench::run(args),
        Experiment::KernelBench(args) => kernel_bench::run(args),
        Experiment::SolverCheck(args) => solver_check::run(args),
        Experiment::LocalBench(args) => local_bench::run(args),
        Experiment::Figure12(args) => means::figure(args, 12, 500),
        Experiment::Figure13(args) => means::figure(args, 13, 1000),
        Experiment::Figure14(args) => means::figure(args, 14, 2000),
        Experiment::MeanCheck(args) => means::check(args),
        Experiment::DpsgdBench(args) => dpsgd_bench::run(args),
        Experiment::PerceptronBench(args) => perceptron_bench::run(args),
        Experiment::CsvBench(args) => csv_bench::run(args),
        Experiment::Adult(args) => adult::run(args),
        Experiment::LabelDp(args) => label_dp::run(args),
        Experiment::BeliefBench(args) => belief_bench::run(args),
        Experiment::HardInstance000(args) => hard_instance_000::run(args),
        Experiment::SemiSensitive(args) => semi_sensitive::run(args),
        Experiment::FeatureDp(args) => feature_dp::run(args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
