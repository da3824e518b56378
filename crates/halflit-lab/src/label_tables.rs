//! Real tables with a sensitive label and public features, declared from their codebooks and split into training and test rows.

use crate::adult;
use crate::datasets::shared_data;
use flate2::read::MultiGzDecoder;
use parquet::file::reader::{FileReader, SerializedFileReader};
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

/// A table whose label alone is sensitive.
pub struct LabelTable {
    /// Its name, which is its folder's.
    pub name: &'static str,
    source: Source,
    label: &'static str,
    label_values: &'static [&'static str],
    /// Columns with bounds.
    numbers: &'static [(&'static str, f64, f64)],
    /// Columns with values, separated by spaces.
    categories: &'static [(&'static str, &'static str)],
    unused: &'static [&'static str],
}

enum Source {
    /// A split that everyone uses.
    Split {
        train: &'static str,
        test: &'static str,
    },
    /// One file; every fifth row is a test row.
    Csv(&'static str),
    Parquet(&'static str),
}

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

impl LabelTable {
    /// The declaration: every feature public, the label sensitive, rows, replace. The budget is what the requests say.
    pub fn declaration(&self) -> String {
        if self.name == "adult" {
            return adult_declaration();
        }
        let quoted = |values: &mut dyn Iterator<Item = &str>| {
            values.map(|value| format!("\"{value}\"")).collect::<Vec<_>>().join(", ")
        };
        let mut text = format!(
            "[budget]\nepsilon = 100.0\ndelta = 1e-6\n[protect]\nunit = \"row\"\nchange = \"replace\"\n[task]\nlabel = \"{}\"\nloss = \"logistic\"\n",
            self.label
        );
        for (name, low, high) in self.numbers {
            text.push_str(&format!("[columns.{name}]\nbounds = [{low}, {high}]\nvisibility = \"public\"\n"));
        }
        for (name, values) in self.categories {
            let values = quoted(&mut values.split(' '));
            text.push_str(&format!("[columns.{name}]\nvalues = [{values}]\nvisibility = \"public\"\n"));
        }
        for name in self.unused {
            text.push_str(&format!("[columns.{name}]\nuse = false\n"));
        }
        let values = quoted(&mut self.label_values.iter().copied());
        // The command evaluates with coercion, which wants to know what an unknown label counts as.
        let default = self.label_values[0];
        text.push_str(&format!("[columns.{}]\nvalues = [{values}]\ndefault = \"{default}\"\n", self.label));
        text
    }

    /// Training and test files, the latter two made in `scratch` where the table has no split of its own; none without the data.
    pub fn split_files(&self, scratch: &Path) -> Fallible<Option<(PathBuf, PathBuf)>> {
        let Some(folder) = shared_data(self.name) else { return Ok(None) };
        let files = (scratch.join("train.csv"), scratch.join("test.csv"));
        let mut parts = Parts::new(&files)?;
        match self.source {
            Source::Split { train, test } => return Ok(Some((folder.join(train), folder.join(test)))),
            Source::Csv(name) => {
                let lines = BufReader::new(MultiGzDecoder::new(File::open(folder.join(name))?)).lines();
                for line in lines {
                    parts.line(&line?)?;
                }
            }
            Source::Parquet(name) => {
                let reader = SerializedFileReader::new(File::open(folder.join(name))?)?;
                let fields = reader.metadata().file_metadata().schema_descr().columns().to_vec();
                let names: Vec<&str> = fields.iter().map(|field| field.name()).collect();
                parts.line(&names.join(","))?;
                for row in reader.get_row_iter(None)? {
                    let cells: Vec<String> =
                        row?.get_column_iter().map(|(_, cell)| cell.to_string()).collect();
                    parts.line(&cells.join(","))?;
                }
            }
        }
        parts.finish()?;
        Ok(Some(files))
    }
}

/// Two files with the same header; every fifth row goes to the second.
struct Parts {
    train: BufWriter<File>,
    test: BufWriter<File>,
    lines: usize,
}

impl Parts {
    fn new((train, test): &(PathBuf, PathBuf)) -> Fallible<Self> {
        let file = |path: &Path| File::create(path).map(BufWriter::new);
        Ok(Parts { train: file(train)?, test: file(test)?, lines: 0 })
    }

    fn line(&mut self, line: &str) -> Fallible<()> {
        if self.lines == 0 || !self.lines.is_multiple_of(5) {
            writeln!(self.train, "{line}")?;
        }
        if self.lines.is_multiple_of(5) {
            writeln!(self.test, "{line}")?;
        }
        self.lines += 1;
        Ok(())
    }

    fn finish(mut self) -> Fallible<()> {
        self.train.flush()?;
        Ok(self.test.flush()?)
    }
}

/// The declaration of the full-privacy experiment with every feature public.
fn adult_declaration() -> String {
    let mut text = String::new();
    for line in adult::DECLARATION.lines() {
        text.push_str(line);
        text.push('\n');
        let column = line.strip_prefix("[columns.").and_then(|rest| rest.strip_suffix(']'));
        if column.is_some_and(|column| column != "income" && column != "fnlwgt") {
            text.push_str("visibility = \"public\"\n");
        }
    }
    text
}

/// The tables of the experiment.
pub const TABLES: [LabelTable; 4] = [
    LabelTable {
        name: "adult",
        source: Source::Split { train: "adult_train.csv.gz", test: "adult_test.csv.gz" },
        label: "income",
        label_values: &["<=50K", ">50K"],
        numbers: &[],
        categories: &[],
        unused: &[],
    },
    LabelTable {
        name: "bank_marketing",
        source: Source::Csv("bank_additional_full.csv.gz"),
        label: "y",
        label_values: &["no", "yes"],
        numbers: &[
            ("age", 17.0, 98.0),
            ("campaign", 1.0, 56.0),
            ("pdays", 0.0, 999.0),
            ("previous", 0.0, 7.0),
            ("emp_var_rate", -3.4, 1.4),
            ("cons_price_idx", 92.201, 94.767),
            ("cons_conf_idx", -50.8, -26.9),
            ("euribor3m", 0.634, 5.045),
            ("nr_employed", 4963.6, 5228.1),
        ],
        categories: &[
            (
                "job",
                "admin. blue-collar entrepreneur housemaid management retired self-employed services student technician unemployed unknown",
            ),
            ("marital", "divorced married single unknown"),
            (
                "education",
                "basic.4y basic.6y basic.9y high.school illiterate professional.course university.degree unknown",
            ),
            ("default", "no unknown yes"),
            ("housing", "no unknown yes"),
            ("loan", "no unknown yes"),
            ("contact", "cellular telephone"),
            ("month", "jan feb mar apr may jun jul aug sep oct nov dec"),
            ("day_of_week", "mon tue wed thu fri"),
            ("poutcome", "failure nonexistent success"),
        ],
        // Known only after the call: it leaks the label.
        unused: &["duration"],
    },
    LabelTable {
        name: "acs_employment_ma",
        source: Source::Parquet("acs_employment_ma.parquet"),
        label: "employed",
        label_values: &["0", "1"],
        numbers: &[("AGEP", 0.0, 99.0)],
        categories: &[
            ("SCHL", "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24"),
            ("MAR", "1 2 3 4 5"),
            ("RELP", "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17"),
            ("DIS", "1 2"),
            ("ESP", "0 1 2 3 4 5 6 7 8"),
            ("CIT", "1 2 3 4 5"),
            ("MIG", "0 1 2 3"),
            ("MIL", "0 1 2 3 4"),
            ("ANC", "1 2 3 4"),
            ("NATIVITY", "1 2"),
            ("DEAR", "1 2"),
            ("DEYE", "1 2"),
            ("DREM", "0 1 2"),
            ("SEX", "1 2"),
            ("RAC1P", "1 2 3 4 5 6 7 8 9"),
        ],
        unused: &["year"],
    },
    LabelTable {
        name: "dutch_census",
        source: Source::Csv("dutch_census.csv.gz"),
        label: "occupation",
        label_values: &["0", "1"],
        numbers: &[],
        categories: &[
            ("sex", "female male"),
            ("age", "4 5 6 7 8 9 10 11 12 13 14 15"),
            ("household_position", "1110 1121 1122 1131 1132 1140 1210 1220"),
            ("household_size", "111 112 113 114 125 126"),
            ("prev_residence_place", "1 2"),
            ("citizenship", "1 2 3"),
            ("country_birth", "1 2 3"),
            ("edu_level", "0 1 2 3 4 5"),
            ("economic_status", "111 112 120"),
            ("cur_eco_activity", "111 122 124 131 132 133 134 135 136 137 138 139"),
            ("marital_status", "1 2 3 4"),
        ],
        unused: &[],
    },
];
