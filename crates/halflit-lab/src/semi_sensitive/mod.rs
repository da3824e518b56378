mod output;
mod real;
mod synthetic;

use crate::Outcome;
use crate::record::{self, COMMIT, Measured, write};
use crate::sample::write_unless_closed;
use halflit::mechanisms::public_rows;
use halflit::noise::NoiseSource;
use halflit::table::{Budget, Declaration, Declared, Encoding, OutOfDomain, Table};
use halflit::{Ledger, Plans, Problem, Request};
use halflit_convex::{Loss, Rows};
use real::real_tables;
use serde::Serialize;
use std::path::PathBuf;
use std::time::Instant;
use synthetic::{Sensitive, synthetic};

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
    /// Where semi-sensitive.csv and the charts go.
    #[arg(long, value_name = "FOLDER", default_value = record::FOLDER)]
    out: PathBuf,
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
    /// Excess of the training loss (synthetic tables).
    excess: Option<Measured>,
    /// Test loss and accuracy (real tables).
    test_loss: Option<Measured>,
    test_accuracy: Option<Measured>,
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
    write(&args.out, "semi-sensitive.csv", &output::csv(&cells))?;
    for (axis, name) in AXES {
        let file = format!("semi-sensitive-{}.svg", axis.replace(' ', "-"));
        write(&args.out, &file, &output::chart(&cells, axis, name))?;
    }
    let text = if args.json {
        serde_json::to_string_pretty(
            &serde_json::json!({ "experiment": "semi-sensitive", "commit": COMMIT, "cells": cells }),
        )? + "\n"
    } else {
        output::human(&cells)
    };
    write_unless_closed(&mut std::io::stdout(), text.as_bytes())?;
    Ok(())
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
