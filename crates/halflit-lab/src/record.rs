//! What experiments write down: means with their errors, the commit, the seeds of made-up data, files.

use chacha20::ChaCha12Rng;
use chacha20::rand_core::SeedableRng;
use std::path::{Path, PathBuf};

/// Where results go if nothing else is said.
pub const FOLDER: &str = "lab-results";

/// Mean and standard error.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Measured {
    pub mean: f64,
    pub standard_error: f64,
    pub draws: usize,
}

impl Measured {
    /// None of no values.
    pub fn of(values: &[f64]) -> Option<Self> {
        let draws = values.len();
        let mean = values.iter().sum::<f64>() / draws as f64;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (draws as f64 - 1.0).max(1.0);
        (draws > 0).then_some(Measured { mean, standard_error: (variance / draws as f64).sqrt(), draws })
    }
}

/// The commit that this program was built from, as far as its checkout knew.
pub const COMMIT: &str = env!("HALFLIT_LAB_COMMIT");

/// Numbers for made-up data: the same for the same seed. Noise is never drawn from these.
pub fn seeded(seed: u64) -> ChaCha12Rng {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    ChaCha12Rng::from_seed(key)
}

/// Writes a result file, making its folder.
pub fn write(folder: &Path, name: &str, content: &str) -> std::io::Result<PathBuf> {
    std::fs::create_dir_all(folder)?;
    let path = folder.join(name);
    std::fs::write(&path, content)?;
    Ok(path)
}
