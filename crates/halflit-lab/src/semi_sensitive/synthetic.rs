//! Made-up tables: sensitive features of k joint values beside d public numbers.

use super::{Cell, DELTA, Encoded, PUBLIC, contender, progress, train};
use crate::kernel_bench::scramble;
use crate::record::Measured;
use halflit::table::{Column, Declaration, Table};
use std::fmt::Write;
use std::time::Instant;

/// A number in [0, 1) for a place.
fn uniform(place: u64) -> f64 {
    (scramble(place) >> 11) as f64 / (1u64 << 53) as f64
}

/// The sensitive columns of a synthetic table.
#[derive(Clone, Copy)]
pub enum Sensitive {
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

pub fn synthetic(
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
        cells.push(Cell {
            table: format!("synthetic, {axis}"),
            mechanism: shown.clone(),
            epsilon,
            values: k,
            dimension: d,
            runs,
            predicted,
            excess: Measured::of(&excess),
            test_loss: None,
            test_accuracy: None,
        });
    }
    Ok(cells)
}
