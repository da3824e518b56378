//! Training with public rows: the experiments of Lowy, Li, Huang, Razaviyayn 2024 (paper 002), Tables 5 to 12 and Figures 6 and 15 to 18.

mod consent;
mod figure6;
mod images;
mod multipliers;
mod printed;
mod regression;
mod tables;
mod tuning;

pub use consent::run as consent;
pub use figure6::run as figure6;
pub use images::{Args as ImageArgs, Figure, run as images};
pub use multipliers::run as multipliers;
pub use tables::run as tables;

use crate::record;
use std::path::PathBuf;

/// What every experiment of the paper can be told.
#[derive(clap::Args, Clone)]
pub struct Args {
    /// A few cells and few draws: with the tuned methods a cell of Table 5 took eight minutes on one core.
    #[arg(long)]
    pub quick: bool,
    /// These shares of public rows only, in tables 5 to 10.
    #[arg(long, value_delimiter = ',')]
    pub ratios: Option<Vec<f64>>,
    /// Every method of tables 5 to 10 under replace; the paper's relation is zero-out.
    #[arg(long)]
    pub replace: bool,
    /// Draws of the data per cell [default: 20, quick: 2].
    #[arg(long)]
    pub draws: Option<usize>,
    /// Run the methods that have to be tuned in tables 5 to 10 on so many of the draws only [default: all].
    #[arg(long)]
    pub tuned_draws: Option<usize>,
    /// Leave out the methods that have to be tuned (Algorithm 1, PDA-MD, DP-SGD): seconds per cell.
    #[arg(long)]
    pub untuned: bool,
    /// Seed of the first draw of the data. The noise is the operating system's and has no seed.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Where the CSV and SVG files go.
    #[arg(long, default_value = record::FOLDER)]
    pub out: PathBuf,
    /// Answer in JSON.
    #[arg(long)]
    pub json: bool,
}
