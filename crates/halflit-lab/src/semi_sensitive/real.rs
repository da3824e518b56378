//! Adult and the Dutch census with some categories sensitive.

use super::{Cell, DELTA, Encoded, PUBLIC, contender, progress, train};
use crate::datasets::shared_data;
use crate::record::Measured;
use crate::{Outcome, adult};
use halflit::table::{Declaration, Table};
use std::fmt::Write;
use std::path::PathBuf;
use std::time::Instant;

/// A real table with a choice of sensitive columns; every other column and the label are public.
pub struct Real {
    name: String,
    sensitive: Vec<&'static str>,
    columns: Vec<(&'static str, String)>,
    label: (&'static str, String),
    train: PathBuf,
    test: PathBuf,
    /// Keeps the split files.
    _folder: Option<tempfile::TempDir>,
}

impl Real {
    fn declaration(
        &self,
        sensitive: impl Fn(&str) -> bool,
        dropped: bool,
    ) -> Result<Declaration, Box<dyn std::error::Error>> {
        let (label, domain) = &self.label;
        let visible = |column: &str| if sensitive(column) { "" } else { PUBLIC };
        let mut text = format!(
            "[budget]\nepsilon = 100\ndelta = {DELTA}\n[protect]\nunit = \"row\"\n[task]\nlabel = \"{label}\"\nloss = \"logistic\"\n\
             [columns.{label}]\n{domain}\n{}\n",
            visible(label)
        );
        for (column, domain) in &self.columns {
            let unused = dropped && self.sensitive.contains(column) || domain.is_empty();
            let domain = if unused { "use = false" } else { domain };
            let _ = write!(text, "[columns.{column}]\n{domain}\n{}\n", visible(column));
        }
        Ok(Declaration::parse(&text, &self.name)?)
    }

    pub fn compare(
        &self,
        epsilon: f64,
        runs: usize,
        mechanisms: &[String],
    ) -> Result<Vec<Cell>, Box<dyn std::error::Error>> {
        let semi = self.declaration(|column| self.sensitive.contains(&column), false)?;
        let full = self.declaration(|_| true, false)?;
        // What is left after dropping the sensitive columns is public; one column is declared sensitive only to have a relation.
        let dropped = self
            .declaration(|column| self.sensitive.contains(&column), true)
            .or_else(|_| self.declaration(|_| true, true))?;
        let read = |path: &PathBuf, declaration: &Declaration| Table::read(path, &declaration.read_options());
        let mut cells = Vec::new();
        let values = self.joint_values();
        let mut push =
            |mechanism: &str, predicted: Option<f64>, encoded: &Encoded, models: &[Vec<f64>]| -> Outcome {
                let losses: Vec<f64> = models.iter().map(|w| encoded.loss(w)).collect::<Result<_, _>>()?;
                let accuracies: Vec<f64> = models.iter().map(|w| encoded.accuracy(w)).collect();
                cells.push(Cell {
                    table: self.name.clone(),
                    mechanism: mechanism.to_owned(),
                    epsilon,
                    values,
                    dimension: models[0].len(),
                    runs: models.len(),
                    predicted,
                    excess: None,
                    test_loss: Measured::of(&losses),
                    test_accuracy: Measured::of(&accuracies),
                });
                Ok(())
            };
        let test = Encoded::new(&semi, &read(&self.test, &semi)?)?;
        for shown in mechanisms {
            let (name, declaration) = contender(shown, &semi, &full);
            let (mut models, mut predicted, started) = (Vec::new(), None, Instant::now());
            for _ in 0..runs {
                let (weights, prediction) =
                    train(declaration, read(&self.train, declaration)?, name, epsilon)?;
                models.push(weights);
                predicted = Some(prediction);
            }
            push(shown, predicted, &test, &models)?;
            progress(&format!("{}, epsilon {epsilon}", self.name), shown, started);
        }
        let fit = |declaration: &Declaration| -> Result<(Encoded, Vec<f64>), Box<dyn std::error::Error>> {
            let train = Encoded::new(declaration, &read(&self.train, declaration)?)?;
            let weights = train.fit(1e-5)?;
            Ok((Encoded::new(declaration, &read(&self.test, declaration)?)?, weights))
        };
        let (test, weights) = fit(&dropped)?;
        push("sensitive columns dropped", None, &test, &[weights])?;
        let (test, weights) = fit(&semi)?;
        push("no privacy", None, &test, &[weights])?;
        Ok(cells)
    }

    fn joint_values(&self) -> usize {
        let count = |domain: &str| domain.split(',').count();
        self.columns
            .iter()
            .filter(|(name, _)| self.sensitive.contains(name))
            .map(|(_, domain)| count(domain))
            .product()
    }
}

pub fn real_tables() -> Result<Vec<Real>, Box<dyn std::error::Error>> {
    let mut tables = Vec::new();
    match shared_data("adult") {
        None => eprintln!("skipped: ../shared/data/adult is not there"),
        Some(folder) => {
            for sensitive in [vec!["marital_status", "relationship"], vec!["race", "sex"]] {
                let mut columns = adult::columns();
                let label = columns.pop().ok_or("the declaration of Adult has no columns")?;
                tables.push(Real {
                    name: format!("Adult, sensitive: {}", sensitive.join(", ")),
                    sensitive,
                    columns,
                    label,
                    train: folder.join("adult_train.csv.gz"),
                    test: folder.join("adult_test.csv.gz"),
                    _folder: None,
                });
            }
        }
    }
    match shared_data("dutch_census") {
        None => eprintln!("skipped: ../shared/data/dutch_census is not there"),
        Some(folder) => {
            for sensitive in [vec!["sex", "edu_level"], vec!["citizenship", "country_birth"]] {
                let (train, test, split) = split(&folder.join("dutch_census.csv.gz"))?;
                let list = |values: &[i32]| {
                    let values: Vec<String> = values.iter().map(|value| format!("\"{value}\"")).collect();
                    format!("values = [{}]", values.join(", "))
                };
                tables.push(Real {
                    name: format!("Dutch census, sensitive: {}", sensitive.join(", ")),
                    sensitive,
                    columns: vec![
                        ("sex", "values = [\"male\", \"female\"]".to_owned()),
                        ("age", list(&(4..=15).collect::<Vec<_>>())),
                        ("household_position", list(&[1110, 1121, 1122, 1131, 1132, 1140, 1210, 1220])),
                        ("household_size", list(&[111, 112, 113, 114, 125, 126])),
                        ("prev_residence_place", list(&[1, 2])),
                        ("citizenship", list(&[1, 2, 3])),
                        ("country_birth", list(&[1, 2, 3])),
                        ("edu_level", list(&(0..=5).collect::<Vec<_>>())),
                        ("economic_status", list(&[111, 112, 120])),
                        (
                            "cur_eco_activity",
                            list(&[111, 122, 131, 132, 133, 134, 135, 136, 137, 138, 139, 124]),
                        ),
                        ("marital_status", list(&[1, 2, 3, 4])),
                    ],
                    label: ("occupation", "values = [\"0\", \"1\"]\ndefault = \"0\"".to_owned()),
                    train,
                    test,
                    _folder: Some(split),
                });
            }
        }
    }
    Ok(tables)
}

/// Every fifth row becomes test data.
fn split(
    path: &std::path::Path,
) -> Result<(PathBuf, PathBuf, tempfile::TempDir), Box<dyn std::error::Error>> {
    let output = std::process::Command::new("gzip").arg("-dc").arg(path).output()?;
    let text = String::from_utf8(output.stdout)?;
    let mut lines = text.lines();
    let header = lines.next().ok_or("an empty file")?;
    let (mut train, mut test) = (vec![header], vec![header]);
    for (row, line) in lines.enumerate() {
        if row % 5 == 4 { test.push(line) } else { train.push(line) }
    }
    let folder = tempfile::tempdir()?;
    let (train_path, test_path) = (folder.path().join("train.csv"), folder.path().join("test.csv"));
    std::fs::write(&train_path, train.join("\n") + "\n")?;
    std::fs::write(&test_path, test.join("\n") + "\n")?;
    Ok((train_path, test_path, folder))
}
