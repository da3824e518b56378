//! Reading files. The extension chooses the format: `.csv`, `.tsv`, either with `.gz`, `.parquet`, and with the cargo
//! feature `arrow` also `.arrow`, `.feather` and `.ipc`.
//! The rules that all formats share are on the crate's page.

#[cfg(feature = "arrow")]
mod arrow;
mod blocks;
mod csv;
mod error;
mod joined;
mod parquet;
mod sink;

pub use error::TableError;

use crate::table::Table;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

/// How the cells of a column become numbers or text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadAs {
    /// Numbers if every cell is one, else text.
    #[default]
    Inferred,
    /// Numbers; other cells are kept as unreadable.
    Number,
    /// Text, even if every cell is a number.
    Text,
    /// Not at all.
    Skipped,
}

/// Which columns to read, and as what. The default infers every column.
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    columns: BTreeMap<String, ReadAs>,
    others: ReadAs,
}

impl ReadOptions {
    /// Reads the named column in this way.
    #[must_use]
    pub fn column(mut self, name: impl Into<String>, read_as: ReadAs) -> Self {
        self.columns.insert(name.into(), read_as);
        self
    }

    /// Reads all columns that were not named in this way.
    #[must_use]
    pub fn others(mut self, read_as: ReadAs) -> Self {
        self.others = read_as;
        self
    }

    pub(crate) fn of(&self, name: &str) -> ReadAs {
        self.columns.get(name).copied().unwrap_or(self.others)
    }
}

#[cfg(feature = "arrow")]
const KNOWN_EXTENSIONS: &str = ".csv, .tsv, .csv.gz, .tsv.gz, .parquet, .arrow, .feather, .ipc";
#[cfg(not(feature = "arrow"))]
const KNOWN_EXTENSIONS: &str =
    ".csv, .tsv, .csv.gz, .tsv.gz and .parquet (.arrow needs a build with the cargo feature `arrow`)";

/// The reason a skipped column has no cells.
const SKIPPED: &str = "it was skipped when the file was read";

impl Table {
    /// Reads a file, its format chosen by the extension (the crate's page has the rules of reading).
    ///
    /// CSV is read in blocks on the current rayon pool; what is in memory at any time is the table and a few blocks.
    ///
    /// # Errors
    /// [`TableError`], naming the file and, where there is one, the line and the column.
    pub fn read(path: &Path, options: &ReadOptions) -> Result<Table, TableError> {
        let file = path.display().to_string();
        let name = file.to_lowercase();
        let (stem, gzip) = match name.strip_suffix(".gz") {
            Some(stem) => (stem, true),
            None => (name.as_str(), false),
        };
        let csv = |separator| csv::read(&csv::CsvFile { path, file: file.clone(), separator, gzip }, options);
        match stem.rsplit_once('.').map_or("", |(_, extension)| extension) {
            "csv" => csv(b','),
            "tsv" => csv(b'\t'),
            "parquet" if !gzip => parquet::read(read_whole(path, &file)?, &file, options),
            #[cfg(feature = "arrow")]
            "arrow" | "feather" | "ipc" if !gzip => arrow::read(&read_whole(path, &file)?, &file, options),
            _ => Err(TableError::UnknownExtension { file, known: KNOWN_EXTENSIONS }),
        }
    }
}

fn open(path: &Path, file: &str) -> Result<File, TableError> {
    File::open(path).map_err(|source| TableError::Io { file: file.to_owned(), source })
}

fn read_whole(path: &Path, file: &str) -> Result<Vec<u8>, TableError> {
    let mut bytes = Vec::new();
    BufReader::new(open(path, file)?)
        .read_to_end(&mut bytes)
        .map_err(|source| TableError::Io { file: file.to_owned(), source })?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_and_missing_files_are_named() {
        let error = Table::read(Path::new("data.xlsx"), &ReadOptions::default()).unwrap_err();
        assert!(
            matches!(&error, TableError::UnknownExtension { file, .. } if file == "data.xlsx"),
            "{error}"
        );
        let error = Table::read(Path::new("/no/such/file.csv"), &ReadOptions::default()).unwrap_err();
        assert!(matches!(&error, TableError::Io { .. }), "{error}");
        assert!(error.to_string().starts_with("/no/such/file.csv: "), "{error}");
    }
}
