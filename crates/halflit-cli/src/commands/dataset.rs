//! What several commands share: finding the declaration and the ledger of a data file, and reading both.

use crate::Failure;
use halflit::Problem;
use halflit::table::{BindError, Declaration, Declared, OutOfDomain, Protection, ReadOptions, Table, Values};
use std::path::{Path, PathBuf};

/// A data file and its declaration.
#[derive(clap::Args)]
pub struct Dataset {
    /// The table: .csv or .tsv, either with .gz, or .parquet.
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

/// A data file of which some numeric columns are wanted; its declaration needs no task.
#[derive(clap::Args)]
pub struct ChosenColumns {
    #[command(flatten)]
    pub dataset: Dataset,
    /// The columns, separated by commas; each must have bounds in the declaration.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', required = true)]
    pub columns: Vec<String>,
    /// Map cells outside their declared bounds into them (numbers to the nearest bound, others to the declared default) instead of
    /// refusing the file.
    #[arg(long)]
    pub coerce: bool,
}

impl ChosenColumns {
    /// Reads the declaration and the chosen columns; private rows come out sealed.
    pub fn values(&self) -> Result<Values, Failure> {
        let protection = self.dataset.protection()?;
        // "age, hours" names two columns.
        let wanted: Vec<String> = self.columns.iter().map(|name| name.trim().to_owned()).collect();
        let columns = Values::choose(&protection, &wanted).map_err(Failure::bad_input)?;
        let options = Values::read_options(&protection, &columns);
        let table = self.dataset.table(&options)?;
        let out_of_domain = if self.coerce { OutOfDomain::Coerce } else { OutOfDomain::Refuse };
        Values::bind(protection, columns, &table, out_of_domain).map_err(Failure::bad_input)
    }
}

/// As one word of a command.
pub fn quoted(word: String) -> String {
    if word.contains(char::is_whitespace) { format!("'{word}'") } else { word }
}

fn quoted_path(path: &Path) -> String {
    quoted(path.display().to_string())
}

impl Dataset {
    /// The arguments as given, for the next command.
    pub fn arguments(&self) -> String {
        let privacy = self.privacy.as_deref().map(|file| format!(" --privacy {}", quoted_path(file)));
        self.quoted_data() + &privacy.unwrap_or_default()
    }

    /// The data file as one word of a command.
    pub fn quoted_data(&self) -> String {
        quoted_path(&self.data)
    }

    /// Where the declaration is.
    pub fn privacy_path(&self) -> PathBuf {
        self.privacy.clone().unwrap_or_else(|| beside(&self.data, "privacy.toml"))
    }

    /// The declaration's text and its name.
    fn privacy_text(&self) -> Result<(String, String), Failure> {
        // A wrong name of the data would otherwise be told as a declaration that is missing beside it.
        must_be_there(&self.data)?;
        let path = self.privacy_path();
        self.privacy_is_not_the_data()?;
        must_be_no_folder(&path, "--privacy", "the declaration")?;
        let text = std::fs::read_to_string(&path).map_err(|error| {
            Failure::BadInput(format!(
                "the declaration {} cannot be read: {error}; `halflit init {}` writes one to start from",
                path.display(),
                self.arguments()
            ))
        })?;
        Ok((text, path.display().to_string()))
    }

    /// Refuses the data as its own declaration: a private table would be told line by line as wrong TOML, or overwritten.
    pub fn privacy_is_not_the_data(&self) -> Result<(), Failure> {
        let path = self.privacy_path();
        let real = |path: &Path| path.canonicalize().ok();
        if path == self.data || real(&path).is_some_and(|privacy| Some(privacy) == real(&self.data)) {
            return Err(Failure::BadInput(format!(
                "--privacy {} is the data file itself; name another file for the declaration",
                path.display()
            )));
        }
        Ok(())
    }

    /// What the declaration says about protection; it needs no task.
    pub fn protection(&self) -> Result<Protection, Failure> {
        let (text, name) = self.privacy_text()?;
        Protection::parse(&text, &name).map_err(Failure::bad_input)
    }

    /// The declaration with its task.
    pub fn declaration(&self) -> Result<Declaration, Failure> {
        let (text, name) = self.privacy_text()?;
        Declaration::parse(&text, &name).map_err(Failure::bad_input)
    }

    /// Reads the table as the declaration says.
    pub fn table(&self, options: &ReadOptions) -> Result<Table, Failure> {
        Table::read(&self.data, options).map_err(Failure::bad_input)
    }
}

impl EncodedDataset {
    /// Everything up to the problem: read, declared, checked, encoded, sealed.
    pub fn problem(&self) -> Result<Problem, Failure> {
        self.posed(Declared::bind)
    }

    /// The same for whoever needs no private labels. What comes out cannot be trained on.
    pub fn problem_without_private_labels(&self) -> Result<Problem, Failure> {
        self.posed(Declared::bind_without_private_labels)
    }

    fn posed(
        &self,
        bind: impl FnOnce(Declaration, Table) -> Result<Declared, BindError>,
    ) -> Result<Problem, Failure> {
        let declaration = self.dataset.declaration()?;
        let table = self.dataset.table(&declaration.read_options())?;
        let declared = bind(declaration, table).map_err(Failure::bad_input)?;
        let out_of_domain = if self.coerce { OutOfDomain::Coerce } else { OutOfDomain::Refuse };
        Problem::pose(declared, out_of_domain).map_err(Failure::bad_input)
    }
}

/// Refuses the name of a data file that is not there.
pub fn must_be_there(data: &Path) -> Result<(), Failure> {
    match std::fs::metadata(data) {
        Ok(_) => Ok(()),
        Err(error) => Err(Failure::BadInput(format!("the data {} cannot be read: {error}", data.display()))),
    }
}

/// Refuses a folder where a file is wanted. `what` is the file, `option` names it.
fn must_be_no_folder(path: &Path, option: &str, what: &str) -> Result<(), Failure> {
    if path.is_dir() {
        return Err(Failure::BadInput(format!(
            "{option} {}: this is a folder, but {what} is a file; name the file",
            path.display()
        )));
    }
    Ok(())
}

/// The ledger that was named, else the one that belongs to the data.
pub fn ledger_of(named: Option<&Path>, data: &Path) -> Result<PathBuf, Failure> {
    let path = named.map_or_else(|| default_ledger(data), Path::to_owned);
    must_be_no_folder(&path, "--ledger", "the ledger")?;
    Ok(path)
}

/// The ledger that belongs to a data file unless told otherwise. A link to the data is the data: another name is no new budget.
pub fn default_ledger(data: &Path) -> PathBuf {
    let real = if data.is_symlink() { data.canonicalize().ok() } else { None };
    let data = real.as_deref().unwrap_or(data);
    beside(data, &format!("{}.ledger", stem(data)))
}

/// The folder that a release goes to unless told otherwise.
pub fn default_release(data: &Path) -> PathBuf {
    beside_named(data, "release")
}

/// NAME-`what` beside the data.
pub fn beside_named(data: &Path, what: &str) -> PathBuf {
    beside(data, &format!("{}-{what}", stem(data)))
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

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_link_to_the_data_has_the_ledger_of_the_data() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("patients.csv");
        std::fs::write(&data, "a\n1\n").unwrap();
        let link = folder.path().join("copy.csv");
        std::os::unix::fs::symlink(&data, &link).unwrap();
        let ledger = default_ledger(&link);
        assert_eq!(ledger.file_name(), default_ledger(&data).file_name());
        assert_eq!(ledger.parent().unwrap(), folder.path().canonicalize().unwrap());
        assert_eq!(default_ledger(Path::new("patients.csv.gz")), Path::new("patients.ledger"));
    }
}
