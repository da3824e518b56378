use crate::Outcome;
use crate::adult;
use crate::datasets::shared_data;
use crate::kernel_bench::scramble;
use crate::sample::write_unless_closed;
use halflit::mechanisms::public_rows;
use halflit::noise::NoiseSource;
use halflit::plot::{LineChart, Scale, Series};
use halflit::table::{Budget, Column, Declaration, Declared, Encoding, OutOfDomain, Table};
use halflit::{Ledger, Plans, Problem, Request};
use halflit_convex::{Loss, Rows};
use serde::Serialize;
use std::fmt::Write;
use std::path::PathBuf;
use std::time::Instant;

/// Sensitive features and a public label: excess risk against the number of sensitive values and the dimension, and two real tables.
///
/// Synthetic part: sensitive features of k joint values, ten factors shown by d public numbers, logistic loss; excess of the training loss over the
/// minimum, which only the lab may see. Real part: Adult and the Dutch census with some categories sensitive; test loss and accuracy of
/// belief-centred gradient, belief updates and the noisy gradient with the public columns known, against full DP, against
/// dropping the sensitive columns (which costs no privacy), and without privacy. delta = 1e-6, replace; all hyperparameters by public
/// rules or rehearsal.
#[derive(clap::Args)]
pub struct Args {
    /// Print one JSON object instead of tables.
    #[arg(long)]
    json: bool,
    /// Fewer and smaller settings, one run each.
    #[arg(long)]
    quick: bool,
    /// Runs per setting.
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Rows of the synthetic tables.
    #[arg(long, default_value_t = 8_000)]
    rows: usize,
    /// The numbers of joint values k of the synthetic tables, powers of two.
    #[arg(long, value_delimiter = ',', default_values_t = [2, 4, 8, 16, 32, 64])]
    values: Vec<usize>,
    /// The numbers of public columns d of the synthetic tables, at k = 8.
    #[arg(long, value_delimiter = ',', default_values_t = [10, 40, 160, 320])]
    dimensions: Vec<usize>,
    /// Leave out the real tables.
    #[arg(long)]
    synthetic_only: bool,
    /// Leave out the synthetic tables.
    #[arg(long)]
    real_only: bool,
    /// The mechanisms.
    #[arg(long, value_delimiter = ',', default_values_t = MECHANISMS.map(str::to_owned))]
    mechanisms: Vec<String>,
    /// A folder for semi-sensitive.csv and the charts.
    #[arg(long)]
    out: Option<PathBuf>,
}

/// One cell of a table.
#[derive(Serialize, Clone)]
struct Cell {
    table: String,
    mechanism: String,
    epsilon: f64,
    values: usize,
    dimension: usize,
    runs: usize,
    /// What the plan predicts for the excess of the training loss.
    predicted: Option<f64>,
    /// Mean excess of the training loss (synthetic tables).
    excess: Option<f64>,
    excess_sd: Option<f64>,
    /// Mean test loss and accuracy (real tables).
    test_loss: Option<f64>,
    test_accuracy: Option<f64>,
}

const FULL_DP: &str = "full DP noisy_gradient";
/// What `halflit train` takes when it is not told.
const PLANNED: &str = "the planner's choice";
const MECHANISMS: [&str; 6] =
    [PLANNED, "belief_statistics", "belief_centred", "belief_updates", "noisy_gradient", FULL_DP];
const BELIEFS: [&str; 3] = ["belief_statistics", "belief_centred", "belief_updates"];
const PUBLIC: &str = "visibility = \"public\"";
const DELTA: f64 = 1e-6;

/// What the synthetic tables vary, and how it is called on a chart.
const AXES: [(&str, &str); 3] = [
    ("k in binary columns", "joint values k of log2 k binary sensitive columns"),
    ("k in one column", "values k of one sensitive column"),
    ("d", "public numbers d"),
];

pub fn run(args: Args) -> Outcome {
    let runs = if args.quick { 1 } else { args.runs.max(1) };
    let mut cells = Vec::new();
    if !args.real_only {
        let rows = if args.quick { 2_000 } else { args.rows };
        let (values, dimensions): (&[usize], &[usize]) =
            if args.quick { (&[2, 16], &[10, 80]) } else { (&args.values, &args.dimensions) };
        if let Some(k) = values.iter().find(|k| !(k.is_power_of_two() && (2..=1024).contains(*k))) {
            return Err(format!("--values has {k}; it takes powers of two from 2 to 1024").into());
        }
        for &k in values {
            cells.extend(synthetic(
                "k in binary columns",
                rows,
                Sensitive::Binary { columns: k.ilog2() as usize },
                10,
                runs,
                &args.mechanisms,
            )?);
        }
        for &k in values {
            cells.extend(synthetic(
                "k in one column",
                rows,
                Sensitive::OneColumn { values: k },
                10,
                runs,
                &args.mechanisms,
            )?);
        }
        for &d in dimensions {
            cells.extend(synthetic("d", rows, Sensitive::Binary { columns: 3 }, d, runs, &args.mechanisms)?);
        }
    }
    if !args.synthetic_only {
        let epsilons: &[f64] = if args.quick { &[1.0] } else { &[0.1, 0.3, 1.0] };
        for table in real_tables()? {
            for &epsilon in epsilons {
                cells.extend(table.compare(epsilon, runs, &args.mechanisms)?);
            }
        }
    }
    if let Some(folder) = &args.out {
        std::fs::create_dir_all(folder)?;
        std::fs::write(folder.join("semi-sensitive.csv"), csv(&cells))?;
        for (axis, name) in AXES {
            let file = format!("semi-sensitive-{}.svg", axis.replace(' ', "-"));
            std::fs::write(folder.join(file), chart(&cells, axis, name))?;
        }
    }
    let text = if args.json {
        serde_json::to_string_pretty(&serde_json::json!({ "experiment": "semi-sensitive", "cells": cells }))?
            + "\n"
    } else {
        human(&cells)
    };
    write_unless_closed(&mut std::io::stdout(), text.as_bytes())?;
    Ok(())
}

// ---- synthetic ----

/// A number in [0, 1) for a place.
fn uniform(place: u64) -> f64 {
    (scramble(place) >> 11) as f64 / (1u64 << 53) as f64
}

/// The sensitive columns of a synthetic table.
#[derive(Clone, Copy)]
enum Sensitive {
    /// Columns of two values each: k = 2^columns, and the dimension grows like log k.
    Binary { columns: usize },
    /// One column of k values: the dimension grows like k, and every value's rows are 1/k of the table.
    OneColumn { values: usize },
}

impl Sensitive {
    fn columns(self) -> usize {
        match self {
            Sensitive::Binary { columns } => columns,
            Sensitive::OneColumn { .. } => 1,
        }
    }

    fn values_of_a_column(self) -> usize {
        match self {
            Sensitive::Binary { .. } => 2,
            Sensitive::OneColumn { values } => values,
        }
    }

    fn joint_values(self) -> usize {
        self.values_of_a_column().pow(self.columns() as u32)
    }

    /// What a value adds to the score; all columns together add about as much as one does alone.
    fn effect(self, column: usize, value: usize) -> f64 {
        let sign = match self {
            Sensitive::Binary { .. } => value == 0,
            Sensitive::OneColumn { .. } => scramble(value as u64 + 99).is_multiple_of(2),
        };
        let sign = if sign == column.is_multiple_of(2) { 1.0 } else { -1.0 };
        1.5 * sign / (self.columns() as f64).sqrt()
    }
}

const EPSILON: f64 = 1.0;

/// What rows of synthetic tables differ in, however many public numbers show it: rows and weights have the same norms for every d, as in Theorems 18 and 19.
const FACTORS: usize = 10;

/// The factors as d columns: themselves, or sums of them with signs by lot, which keeps norms and angles of rows about as they are.
fn embedded(factors: &[Vec<f64>], d: usize) -> Vec<Vec<f64>> {
    if d == factors.len() {
        return factors.to_vec();
    }
    let sign = |j: usize, l: usize| {
        if scramble((j * FACTORS + l) as u64 + 31_337).is_multiple_of(2) { 1.0 } else { -1.0 }
    };
    (0..d)
        .map(|j| {
            let sum = |i: usize| factors.iter().enumerate().map(|(l, z)| sign(j, l) * z[i]).sum::<f64>();
            (0..factors[0].len()).map(|i| sum(i) / (d as f64).sqrt()).collect()
        })
        .collect()
}

fn synthetic(
    axis: &str,
    rows: usize,
    sensitive: Sensitive,
    d: usize,
    runs: usize,
    mechanisms: &[String],
) -> Result<Vec<Cell>, Box<dyn std::error::Error>> {
    let (epsilon, size) = (EPSILON, (3.0 / FACTORS as f64).sqrt());
    let factors: Vec<Vec<f64>> = (0..FACTORS)
        .map(|l| (0..rows).map(|i| size * (2.0 * uniform((l * rows + i) as u64 + 1_000_003) - 1.0)).collect())
        .collect();
    let x = embedded(&factors, d);
    let secrets: Vec<Vec<usize>> = (0..sensitive.columns())
        .map(|column| {
            let values = sensitive.values_of_a_column() as f64;
            (0..rows).map(|i| (uniform((column * rows + i) as u64 + 7_777_777) * values) as usize).collect()
        })
        .collect();
    let labels: Vec<String> = (0..rows)
        .map(|i| {
            // a direction of norm 2 sqrt(3): scores of the public part have standard deviation 2
            let along: f64 =
                factors.iter().enumerate().map(|(l, z)| if l % 2 == 0 { z[i] } else { -z[i] }).sum();
            let hidden: f64 =
                secrets.iter().enumerate().map(|(column, values)| sensitive.effect(column, values[i])).sum();
            let z = 2.0 * along + hidden;
            if uniform(i as u64 + 55_555_555) < 1.0 / (1.0 + (-z).exp()) { "yes" } else { "no" }.to_owned()
        })
        .collect();
    let table = || {
        let mut columns: Vec<(String, Column)> =
            x.iter().enumerate().map(|(j, x)| (format!("x{j}"), Column::Numbers(x.clone()))).collect();
        for (column, values) in secrets.iter().enumerate() {
            columns
                .push((format!("c{column}"), Column::Text(values.iter().map(|y| format!("v{y}")).collect())));
        }
        columns.push(("y".to_owned(), Column::Text(labels.clone())));
        Table::from_columns(columns)
    };
    let declaration = |visibility: &str| -> Result<Declaration, Box<dyn std::error::Error>> {
        let names: Vec<String> = (0..sensitive.values_of_a_column()).map(|y| format!("\"v{y}\"")).collect();
        let mut text = format!(
            "[budget]\nepsilon = {epsilon}\ndelta = {DELTA}\n[protect]\nunit = \"row\"\n[task]\nlabel = \"y\"\nloss = \"logistic\"\n\
             [columns.y]\nvalues = [\"no\", \"yes\"]\ndefault = \"no\"\n{visibility}\n"
        );
        for column in 0..sensitive.columns() {
            let _ = write!(text, "[columns.c{column}]\nvalues = [{}]\n", names.join(", "));
        }
        for j in 0..d {
            let _ = write!(text, "[columns.x{j}]\nbounds = [-1.8, 1.8]\n{visibility}\n");
        }
        Ok(Declaration::parse(&text, "synthetic")?)
    };
    let k = sensitive.joint_values();
    let (semi, full) = (declaration(PUBLIC)?, declaration("")?);
    let encoded = Encoded::new(&semi, &table()?)?;
    // A smaller penalty would leave the solver no tolerance that it can prove.
    let best = encoded.fit(1e-5)?;
    let least = encoded.loss(&best)?;
    let mut cells = Vec::new();
    for shown in mechanisms {
        let (name, declaration) = contender(shown, &semi, &full);
        let (mut excess, mut predicted, started) = (Vec::new(), None, Instant::now());
        for _ in 0..runs {
            let (weights, prediction) = train(declaration, table()?, name, epsilon)?;
            predicted = Some(prediction);
            excess.push(encoded.loss(&weights)? - least);
        }
        progress(&format!("k = {k}, d = {d}"), shown, started);
        let (mean, sd) = mean_and_sd(&excess);
        cells.push(Cell {
            table: format!("synthetic, {axis}"),
            mechanism: shown.clone(),
            epsilon,
            values: k,
            dimension: d,
            runs,
            predicted,
            excess: Some(mean),
            excess_sd: Some(sd),
            test_loss: None,
            test_accuracy: None,
        });
    }
    Ok(cells)
}

fn progress(setting: &str, mechanism: &str, started: Instant) {
    eprintln!("  {setting}: {mechanism}: {:.1} s", started.elapsed().as_secs_f64());
}

/// The mechanism behind a name, and the declaration that it is given.
fn contender<'a>(
    shown: &'a str,
    semi: &'a Declaration,
    full: &'a Declaration,
) -> (Option<&'a str>, &'a Declaration) {
    match shown {
        FULL_DP => (Some("noisy_gradient"), full),
        PLANNED => (None, semi),
        name => (Some(name), semi),
    }
}

/// Plans, charges, runs and releases one mechanism.
fn train(
    declaration: &Declaration,
    table: Table,
    mechanism: Option<&str>,
    epsilon: f64,
) -> Result<(Vec<f64>, f64), Box<dyn std::error::Error>> {
    let problem = Problem::pose(Declared::bind(declaration.clone(), table)?, OutOfDomain::Refuse)?;
    let budget = Some(Budget { epsilon, delta: DELTA });
    let request = Request { budget, mechanism: mechanism.map(str::to_owned), ..Request::default() };
    let plan = Plans::new(problem, &request)?.best()?;
    let predicted = plan.summary().predicted_excess;
    let folder = tempfile::tempdir()?;
    let charged = Ledger::open_or_create(&folder.path().join("ledger"))?.charge(plan)?;
    let output = charged.run(&mut NoiseSource::from_os()?, &mut ())?;
    Ok((output.release(&[])?.model.weights().concat(), predicted))
}

fn mean_and_sd(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let square: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (square / (count - 1.0).max(1.0)).sqrt())
}

/// A table that the lab may look at.
struct Encoded {
    rows: Rows,
    labels: Vec<f64>,
    loss: Loss,
    row_norm: f64,
}

impl Encoded {
    fn new(declaration: &Declaration, table: &Table) -> Result<Self, Box<dyn std::error::Error>> {
        let encoding = Encoding::from_declaration(declaration)?;
        Ok(Encoded {
            rows: encoding.encode_features(table, OutOfDomain::Coerce)?,
            labels: encoding.encode_labels(table, OutOfDomain::Coerce)?,
            loss: declaration.loss(),
            row_norm: encoding.row_norm_bound(),
        })
    }

    fn fit(&self, penalty: f64) -> Result<Vec<f64>, Box<dyn std::error::Error>> {
        Ok(public_rows::fit(self.loss, &self.rows, &self.labels, self.row_norm, penalty, None)?)
    }

    fn scores(&self, row: usize, weights: &[f64]) -> f64 {
        let unit = 1.0 / 16384.0;
        match &self.rows {
            Rows::Dense(rows) => {
                rows.row(row).iter().zip(weights).map(|(&q, w)| f64::from(q) * w).sum::<f64>() * unit
            }
            Rows::Sparse(rows) => {
                rows.row(row).iter().map(|(at, q)| f64::from(q) * weights[at]).sum::<f64>() * unit
            }
        }
    }

    fn loss(&self, weights: &[f64]) -> Result<f64, Box<dyn std::error::Error>> {
        let total: f64 = self
            .labels
            .iter()
            .enumerate()
            .map(|(row, &y)| self.loss.value(&[self.scores(row, weights)], y))
            .sum();
        Ok(total / self.labels.len() as f64)
    }

    fn accuracy(&self, weights: &[f64]) -> f64 {
        let right = |(row, &y): (usize, &f64)| (self.scores(row, weights) > 0.0) == (y > 0.5);
        self.labels.iter().enumerate().filter(|&pair| right(pair)).count() as f64 / self.labels.len() as f64
    }
}

// ---- real tables ----

/// A real table with a choice of sensitive columns; every other column and the label are public.
struct Real {
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

    fn compare(
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
                    excess_sd: None,
                    test_loss: Some(mean_and_sd(&losses).0),
                    test_accuracy: Some(mean_and_sd(&accuracies).0),
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

fn real_tables() -> Result<Vec<Real>, Box<dyn std::error::Error>> {
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

// ---- output ----

fn csv(cells: &[Cell]) -> String {
    let mut text =
        "table,mechanism,epsilon,k,d,runs,predicted,excess,excess_sd,test_loss,test_accuracy\n".to_owned();
    let number = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.6}"));
    for cell in cells {
        let _ = writeln!(
            text,
            "\"{}\",{},{},{},{},{},{},{},{},{},{}",
            cell.table,
            cell.mechanism,
            cell.epsilon,
            cell.values,
            cell.dimension,
            cell.runs,
            number(cell.predicted),
            number(cell.excess),
            number(cell.excess_sd),
            number(cell.test_loss),
            number(cell.test_accuracy)
        );
    }
    text
}

fn chart(cells: &[Cell], axis: &str, name: &str) -> String {
    let own: Vec<&Cell> = cells.iter().filter(|cell| cell.table == format!("synthetic, {axis}")).collect();
    let mut names: Vec<&str> = own.iter().map(|cell| cell.mechanism.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let at = |cell: &Cell| if axis == "d" { cell.dimension } else { cell.values } as f64;
    let series = |mechanism: &str| {
        let points = own.iter().filter(|cell| cell.mechanism == mechanism);
        Series::line(mechanism, points.filter_map(|cell| Some((at(cell), cell.excess?))).collect()).marked()
    };
    LineChart {
        title: "Excess training loss".to_owned(),
        x_label: name.to_owned(),
        y_label: "excess loss".to_owned(),
        x_scale: Scale::Log,
        y_scale: Scale::Log,
        series: names.into_iter().map(series).collect(),
    }
    .to_svg()
}

fn human(cells: &[Cell]) -> String {
    let mut text = String::new();
    let mut last = String::new();
    for cell in cells {
        if cell.table != last {
            let _ = writeln!(text, "\n{} (delta = 1e-6, replace)", cell.table);
            let _ = writeln!(
                text,
                "  {:<28} {:>7} {:>4} {:>5} {:>10} {:>10} {:>9} {:>10} {:>9}",
                "mechanism", "epsilon", "k", "d", "predicted", "excess", "sd", "test loss", "accuracy"
            );
            last.clone_from(&cell.table);
        }
        let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.5}"));
        let _ = writeln!(
            text,
            "  {:<28} {:>7} {:>4} {:>5} {:>10} {:>10} {:>9} {:>10} {:>9}",
            cell.mechanism,
            cell.epsilon,
            cell.values,
            cell.dimension,
            number(cell.predicted),
            number(cell.excess),
            number(cell.excess_sd),
            number(cell.test_loss),
            number(cell.test_accuracy)
        );
    }
    // Theorem 18 lets the excess grow like a power of log k.
    for (axis, _) in &AXES[..2] {
        for mechanism in BELIEFS {
            let of = |k: usize| {
                let own = |cell: &&Cell| cell.table == format!("synthetic, {axis}") && cell.values == k;
                cells.iter().filter(own).find(|cell| cell.mechanism == mechanism)?.excess
            };
            if let (Some(few), Some(many)) = (of(2), of(64)) {
                let ratio = many / few;
                let powers = (ratio.ln() / 6f64.ln(), ratio.ln() / 32f64.ln());
                let _ = writeln!(
                    text,
                    "\n{mechanism}, {axis}: from k = 2 to 64 the excess is multiplied by {ratio:.2} = 6^{:.2} = 32^{:.2} \
                     (log k is multiplied by 6, k by 32)",
                    powers.0, powers.1
                );
            }
        }
    }
    text
}
