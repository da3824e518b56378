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
pub use images::{Figure, run as images};
pub use multipliers::run as multipliers;
pub use tables::run as tables;

use std::path::{Path, PathBuf};

/// What every experiment of the paper can be told.
#[derive(clap::Args, Clone)]
pub struct Args {
    /// A few cells and few draws: with the tuned methods a cell of Table 5 took eight minutes on one core.
    #[arg(long)]
    pub quick: bool,
    /// These shares of public rows only, in tables 5 to 10.
    #[arg(long, value_delimiter = ',')]
    pub ratios: Option<Vec<f64>>,
    /// Draws of the data per cell [default: 20, quick: 2].
    #[arg(long)]
    pub draws: Option<usize>,
    /// Leave out the methods that have to be tuned (Algorithm 1, PDA-MD, DP-SGD): seconds per cell.
    #[arg(long)]
    pub untuned: bool,
    /// Seed of the first draw of the data. The noise is the operating system's and has no seed.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Where the CSV and SVG files go.
    #[arg(long, default_value = "lab-results")]
    pub out: PathBuf,
    /// Answer in JSON.
    #[arg(long)]
    pub json: bool,
}

/// Mean and standard error.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    pub mean: f64,
    pub standard_error: f64,
    pub draws: usize,
}

impl Measured {
    pub fn of(values: &[f64]) -> Option<Self> {
        let draws = values.len();
        let mean = values.iter().sum::<f64>() / draws as f64;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (draws as f64 - 1.0).max(1.0);
        (draws > 0).then_some(Measured { mean, standard_error: (variance / draws as f64).sqrt(), draws })
    }
}

/// The commit that the numbers belong to, as far as this checkout knows.
pub fn commit() -> String {
    let output = std::process::Command::new("git")
        .args(["-C", env!("CARGO_MANIFEST_DIR"), "describe", "--always", "--dirty", "--abbrev=10"])
        .output();
    match output {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        _ => "unknown".to_owned(),
    }
}

/// Writes a result file, making its folder.
pub fn write(folder: &Path, name: &str, content: &str) -> std::io::Result<PathBuf> {
    std::fs::create_dir_all(folder)?;
    let path = folder.join(name);
    std::fs::write(&path, content)?;
    Ok(path)
}
