//! What several commands share: finding the declaration and the ledger of a data file, and reading both.

use crate::Failure;
use halflit::Problem;
use halflit::table::{Declaration, Declared, OutOfDomain, Table};
use std::path::{Path, PathBuf};

/// A data file and its declaration.
#[derive(clap::Args)]
pub struct Dataset {
    /// The table: .csv, .csv.gz, .tsv or .parquet.
    pub data: PathBuf,
    /// The declaration of what is private [default: privacy.toml beside the data].
    #[arg(long, value_name = "FILE")]
    pub privacy: Option<PathBuf>,
}

/// A data file that is to be encoded.
#[derive(clap::Args)]
pub struct EncodedDataset {
    #[command(flatten)]
    pub dataset: Dataset,
    /// Map cells outside their declared domain into it (numbers to the nearest bound, others to the declared default) instead of
    /// refusing the file.
    #[arg(long)]
    pub coerce: bool,
}

impl Dataset {
    /// Where the declaration is.
    pub fn privacy_path(&self) -> PathBuf {
        self.privacy.clone().unwrap_or_else(|| beside(&self.data, "privacy.toml"))
    }

    /// Reads the declaration and the table, and binds the one to the other.
    pub fn declared(&self) -> Result<Declared, Failure> {
        let path = self.privacy_path();
        let text = std::fs::read_to_string(&path).map_err(|error| {
            Failure::BadInput(format!(
                "the declaration {} cannot be read: {error}; `halflit init {}` writes one to start from",
                path.display(),
                self.data.display()
            ))
        })?;
        let declaration =
            Declaration::parse(&text, &path.display().to_string()).map_err(Failure::bad_input)?;
        let table = Table::read(&self.data, &declaration.read_options()).map_err(Failure::bad_input)?;
        Declared::bind(declaration, table).map_err(Failure::bad_input)
    }
}

impl EncodedDataset {
    /// Everything up to the problem: read, declared, checked, encoded, sealed.
    pub fn problem(&self) -> Result<Problem, Failure> {
        let out_of_domain = if self.coerce { OutOfDomain::Coerce } else { OutOfDomain::Refuse };
        Problem::pose(self.dataset.declared()?, out_of_domain).map_err(Failure::bad_input)
    }
}

/// The ledger that belongs to a data file unless told otherwise.
pub fn default_ledger(data: &Path) -> PathBuf {
    beside(data, &format!("{}.ledger", stem(data)))
}

/// The folder that a release goes to unless told otherwise.
pub fn default_release(data: &Path) -> PathBuf {
    beside(data, &format!("{}-release", stem(data)))
}

/// A file in the folder of another.
fn beside(data: &Path, name: &str) -> PathBuf {
    data.with_file_name(name)
}

/// The data file's name up to its first dot.
fn stem(data: &Path) -> String {
    let name = data.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let stem = name.trim_start_matches('.').split('.').next().unwrap_or("").to_owned();
    if stem.is_empty() { "data".to_owned() } else { stem }
}
