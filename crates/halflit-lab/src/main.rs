//! The papers' experiments and the benchmarks, one file per experiment.
//!
//! `cargo run --release -p halflit-lab -- <experiment>`; nothing here is published.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr)]

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
mod paper002;
mod peers;
mod perceptron_bench;
mod record;
mod sample;
mod semi_ldp_sgd;
mod semi_sensitive;
mod solver_check;
mod whole_steps;

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
    SemiLdpSgd(semi_ldp_sgd::Args),
    /// Paper 002, Figure 12: means of 500 rows of 1,000 coin flips, error against the share of public rows.
    Figure12(means::FigureArgs),
    /// Paper 002, Figure 13: means of 1,000 rows of 1,000 coin flips, error against the share of public rows.
    Figure13(means::FigureArgs),
    /// Paper 002, Figure 14: means of 2,000 rows of 1,000 coin flips, error against the share of public rows.
    Figure14(means::FigureArgs),
    MeanCheck(means::CheckArgs),
    Adult(adult::Args),
    LabelDp(label_dp::Args),
    BeliefBench(belief_bench::Args),
    #[command(name = "hard-instance-000")]
    HardInstance000(hard_instance_000::Args),
    SemiSensitive(semi_sensitive::Args),
    FeatureDp(feature_dp::Args),
    /// The survey of docs/examples/public-rows.md: what consenting people buy at each epsilon.
    ConsentSurvey(paper002::Args),
    /// Paper 002, Table 5: linear regression, epsilon 2, share of public rows.
    Table5(paper002::Args),
    /// Paper 002, Table 6: the same at epsilon 4.
    Table6(paper002::Args),
    /// Paper 002, Table 7: 10 % public rows, epsilon.
    Table7(paper002::Args),
    /// Paper 002, Table 8: 25 % public rows, epsilon.
    Table8(paper002::Args),
    /// Paper 002, Table 9: epsilon 4, cold start.
    Table9(paper002::Args),
    /// Paper 002, Table 10: 10 % public rows, cold start.
    Table10(paper002::Args),
    /// Paper 002, Tables 5 to 10 together: draws, and what is computed from public rows, are shared.
    #[command(name = "tables5-10")]
    Tables5To10(paper002::Args),
    /// Paper 002, Table 11: noise multipliers at epsilon 2.
    Table11(paper002::Args),
    /// Paper 002, Table 12: noise multipliers at epsilon 4.
    Table12(paper002::Args),
    /// Paper 002, Figure 6: DP-SGD diverges, methods that use public rows converge.
    Figure6(paper002::Args),
    /// Paper 002, Figure 15: softmax regression on images, epsilon 0.1 to 1, accuracy against the share of public rows.
    Figure15(paper002::ImageArgs),
    /// Paper 002, Figure 16: softmax regression on images, the same for epsilon 2 to 8.
    Figure16(paper002::ImageArgs),
    /// Paper 002, Figure 17: softmax regression on images, 1 to 4 % public rows, accuracy against epsilon.
    Figure17(paper002::ImageArgs),
    /// Paper 002, Figure 18: softmax regression on images, the same for 10 to 30 % public rows.
    Figure18(paper002::ImageArgs),
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
        Experiment::SemiLdpSgd(args) => semi_ldp_sgd::run(args),
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
        Experiment::ConsentSurvey(args) => paper002::consent(&args),
        Experiment::Table5(args) => paper002::tables(&[5], &args),
        Experiment::Table6(args) => paper002::tables(&[6], &args),
        Experiment::Table7(args) => paper002::tables(&[7], &args),
        Experiment::Table8(args) => paper002::tables(&[8], &args),
        Experiment::Table9(args) => paper002::tables(&[9], &args),
        Experiment::Table10(args) => paper002::tables(&[10], &args),
        Experiment::Tables5To10(args) => paper002::tables(&[5, 6, 7, 8, 9, 10], &args),
        Experiment::Table11(args) => paper002::multipliers(11, &args),
        Experiment::Table12(args) => paper002::multipliers(12, &args),
        Experiment::Figure6(args) => paper002::figure6(&args),
        Experiment::Figure15(args) => paper002::images(paper002::Figure::numbered(15), &args),
        Experiment::Figure16(args) => paper002::images(paper002::Figure::numbered(16), &args),
        Experiment::Figure17(args) => paper002::images(paper002::Figure::numbered(17), &args),
        Experiment::Figure18(args) => paper002::images(paper002::Figure::numbered(18), &args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
