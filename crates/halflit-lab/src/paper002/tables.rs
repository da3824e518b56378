//! Tables 5 to 10: linear regression with public rows, every method beside what the paper prints.

use super::Args;
use super::printed::{Cell, TABLES, Table};
use super::regression::{Draw, Result, Setting, budget, choice, train};
use super::tuning::{Method, Trial, Tuned, tune};
use crate::Outcome;
use crate::record::{COMMIT, Measured, write};
use halflit::mechanisms::noisy_gradient::{Params, modes};
use halflit::plot::{LineChart, Scale, Series};
use halflit_privacy::Change;
use serde_json::json;
use std::fmt::Write;

/// The paper's sizes.
const ROWS: usize = 30_000;
const DIMENSION: usize = 2000;

/// What was measured in one cell.
struct Row {
    cell: Cell,
    /// halflit's default.
    ours: Measured,
    /// The same under replace, if the rest is under zero-out.
    ours_replace: Option<Measured>,
    public_only: Measured,
    /// The paper's methods with the constants found on the first draw.
    tuned: Vec<(Tuned, Measured)>,
}

/// One of Tables 5 to 10.
pub fn run(number: u32, args: &Args) -> Outcome {
    let table = TABLES.iter().find(|table| table.number == number).ok_or("no such table")?;
    let draws = args.draws.unwrap_or(if args.quick { 2 } else { 20 }).max(1);
    let mut rows = Vec::new();
    let wanted = |cell: &Cell| match &args.ratios {
        Some(ratios) => ratios.contains(&cell.ratio),
        None => !args.quick || table.cells.len() < 8 || [0.01, 0.1, 0.25, 0.75].contains(&cell.ratio),
    };
    if !table.cells.iter().any(wanted) {
        let known: Vec<f64> = table.cells.iter().map(|cell| cell.ratio).collect();
        return Err(format!("--ratios: table {number} has the shares {known:?}").into());
    }
    for cell in table.cells.iter().filter(|cell| wanted(cell)) {
        rows.push(measure(table, *cell, args, draws)?);
        // Cells take long: what there is so far is on disk.
        write(&args.out, &format!("table{number}.csv"), &csv(table, &rows, args, draws)?)?;
        eprintln!("table {number}: n_pub/n = {}, epsilon = {}: done", cell.ratio, cell.epsilon);
    }
    report(table, &rows, args, draws)
}

fn measure(table: &Table, cell: Cell, args: &Args, draws: usize) -> Result<Row> {
    let public_rows = (cell.ratio * ROWS as f64).round() as usize;
    let (mut ours, mut ours_replace, mut public_only) = (Vec::new(), Vec::new(), Vec::new());
    let mut tuned: Vec<(Tuned, Vec<f64>)> = Vec::new();
    let change = if args.replace { Change::Replace } else { Change::ZeroOut };
    for index in 0..draws {
        let draw = Draw::new(ROWS, DIMENSION, args.seed + index as u64);
        if index == 0 {
            let chosen = choice(draw.problem(Setting { public_rows, change })?, cell.epsilon)?;
            if !chosen.contains("posterior") {
                return Err(format!("halflit would choose {chosen} here").into());
            }
        }
        if change == Change::ZeroOut {
            let replace = draw.problem(Setting { public_rows, change: Change::Replace })?;
            ours_replace.push(default_risk(&draw, replace, cell.epsilon)?.0);
        }
        let problem = draw.problem(Setting { public_rows, change })?;
        let (risk, problem) = default_risk(&draw, problem, cell.epsilon)?;
        ours.push(risk);
        let (weights, mut problem) = train(problem, Params::default(), "public_rows", budget(cell.epsilon))?;
        let trial = Trial { draw: &draw, epsilon: cell.epsilon, public_only: draw.risk(&weights) };
        public_only.push(trial.public_only);
        if args.untuned {
            continue;
        }
        if index == 0 {
            for method in [Method::Algorithm1, Method::PdaMd, Method::DpSgd] {
                let found = tune(method, table.warm, &trial, problem)?;
                problem = found.1;
                tuned.push((found.0, Vec::new()));
            }
        }
        for (method, risks) in &mut tuned {
            let (risk, back) = method.run(&trial, problem)?;
            problem = back;
            risks.push(risk);
        }
    }
    let measured = |risks: &[f64]| Measured::of(risks).ok_or("no draws");
    Ok(Row {
        cell,
        ours: measured(&ours)?,
        ours_replace: Measured::of(&ours_replace),
        public_only: measured(&public_only)?,
        tuned: tuned
            .into_iter()
            .map(|(method, risks)| Ok((method, measured(&risks)?)))
            .collect::<std::result::Result<_, &str>>()?,
    })
}

/// What `halflit train` chooses on its own in every cell (the first draw makes sure of that): here without planning all the rest again.
fn default_risk(draw: &Draw, problem: halflit::Problem, epsilon: f64) -> Result<(f64, halflit::Problem)> {
    let (weights, problem) = train(problem, modes::posterior(), "noisy_gradient", budget(epsilon))?;
    Ok((draw.risk(&weights), problem))
}

fn csv(
    table: &Table,
    rows: &[Row],
    args: &Args,
    draws: usize,
) -> std::result::Result<String, std::fmt::Error> {
    let mut csv = format!(
        "# table {}, {}, commit {COMMIT}, seeds {}..{}, {draws} draws\n",
        table.number,
        if args.replace { "replace" } else { "zero-out" },
        args.seed,
        args.seed + draws as u64 - 1
    );
    csv += "ratio,epsilon,method,printed,risk,standard_error,draws,step_size,alpha,at_grid_edge\n";
    for row in rows {
        let Cell { ratio, epsilon, .. } = row.cell;
        for (method, printed, Measured { mean, standard_error, draws }, tuned) in row.entries() {
            let constants = tuned.map_or(",,".to_owned(), |t| {
                format!("{},{},{}", t.step_size, number_or_empty(t.alpha), t.is_at_edge())
            });
            let printed = number_or_empty(printed);
            writeln!(
                csv,
                "{ratio},{epsilon},{method},{printed},{mean},{standard_error},{draws},{constants}"
            )?;
        }
    }
    Ok(csv)
}

fn report(table: &Table, rows: &[Row], args: &Args, draws: usize) -> Outcome {
    let number = table.number;
    let start =
        if table.warm { "all start at the public minimizer" } else { "the paper's methods start at zero" };
    let svg_path = write(&args.out, &format!("table{number}.svg"), &chart(table, rows).to_svg())?;
    let csv_path = args.out.join(format!("table{number}.csv"));
    if args.json {
        let record = |row: &Row| {
            let Cell { ratio, epsilon, .. } = row.cell;
            row.entries()
                .into_iter()
                .map(|(method, printed, Measured { mean, standard_error, draws }, tuned)| {
                    json!({
                        "ratio": ratio, "epsilon": epsilon, "method": method, "printed": printed,
                        "risk": mean, "standard_error": standard_error, "draws": draws,
                        "step_size": tuned.map(|t| t.step_size), "alpha": tuned.and_then(|t| t.alpha),
                        "at_grid_edge": tuned.map(|t| t.is_at_edge()),
                    })
                })
                .collect::<Vec<_>>()
        };
        let records: Vec<_> = rows.iter().flat_map(record).collect();
        println!(
            "{}",
            json!({ "experiment": format!("table{number}"), "commit": COMMIT, "seed": args.seed, "rows": records })
        );
        return Ok(());
    }
    println!(
        "Table {number}: linear regression, d = {DIMENSION}, n = {ROWS}, delta = 1e-5; population risk, the best possible is 1; {start}."
    );
    println!(
        "{} {draws} draws, seeds from {}, commit {COMMIT}.\n",
        if args.replace {
            "Replace; the paper's own numbers are for zero-out."
        } else {
            "Zero-out as in the paper, and halflit under replace."
        },
        args.seed
    );
    println!(
        "  {:>5} {:>7}  {:<14} {:>10} {:>10} {:>8}  constants",
        "n_pub", "epsilon", "method", "printed", "risk", "s.e."
    );
    for row in rows {
        for (method, printed, found, tuned) in row.entries() {
            println!(
                "  {:>5} {:>7}  {:<14} {:>10} {:>10.4} {:>8.4}  {}",
                row.cell.ratio,
                row.cell.epsilon,
                method,
                printed.map_or("-".to_owned(), |value| format!("{value:.4}")),
                found.mean,
                found.standard_error,
                tuned.map_or(String::new(), constants),
            );
        }
    }
    println!("\nWrote {} and {}.", csv_path.display(), svg_path.display());
    Ok(())
}

fn number_or_empty(number: Option<f64>) -> String {
    number.map_or(String::new(), |number| number.to_string())
}

/// The tuned constants in words.
fn constants(tuned: Tuned) -> String {
    if tuned.step_size == 0.0 {
        return "at rest".to_owned();
    }
    let alpha = tuned.alpha.map_or(String::new(), |alpha| format!(", alpha {alpha}"));
    let edge = if tuned.is_at_edge() { ", the edge of the grid" } else { "" };
    format!("step {}{alpha}{edge}", tuned.step_size)
}

impl Row {
    fn entries(&self) -> Vec<(&'static str, Option<f64>, Measured, Option<Tuned>)> {
        let mut entries = vec![("halflit", None, self.ours, None)];
        entries.extend(self.ours_replace.map(|replace| ("halflit replace", None, replace, None)));
        entries.push(("public only", Some(self.cell.public_only), self.public_only, None));
        for (tuned, measured) in &self.tuned {
            let (name, printed) = match tuned.method {
                Method::Algorithm1 => ("Algorithm 1", self.cell.algorithm_1),
                Method::PdaMd => ("PDA-MD", self.cell.pda_md),
                Method::DpSgd => ("DP-SGD", self.cell.dp_sgd),
            };
            entries.push((name, Some(printed), *measured, Some(*tuned)));
        }
        entries
    }
}

fn chart(table: &Table, rows: &[Row]) -> LineChart {
    let by_ratio = table.cells.iter().any(|cell| cell.ratio != table.cells[0].ratio);
    let x = |row: &Row| if by_ratio { row.cell.ratio } else { row.cell.epsilon };
    let series = |name: &str, y: &dyn Fn(&Row) -> Option<f64>| {
        let points: Vec<(f64, f64)> =
            rows.iter().filter_map(|row| y(row).map(|y| (x(row), y - 1.0))).collect();
        Series::line(name, points).marked()
    };
    let tuned = |method: Method| {
        move |row: &Row| row.tuned.iter().find(|(t, _)| t.method == method).map(|(_, measured)| measured.mean)
    };
    LineChart {
        title: format!("Table {}: population risk above the best possible", table.number),
        x_label: if by_ratio { "share of public rows" } else { "epsilon" }.to_owned(),
        y_label: "risk - 1".to_owned(),
        x_scale: Scale::Log,
        y_scale: Scale::Log,
        series: [
            series("halflit", &|row| Some(row.ours.mean)),
            series("halflit, replace", &|row| row.ours_replace.map(|replace| replace.mean)),
            series("Algorithm 1", &tuned(Method::Algorithm1)),
            series("Algorithm 1, printed", &|row| Some(row.cell.algorithm_1)).dashed(),
            series("PDA-MD", &tuned(Method::PdaMd)),
            series("DP-SGD", &tuned(Method::DpSgd)),
            series("public only", &|row| Some(row.public_only.mean)),
        ]
        .into_iter()
        .filter(|series| !series.points.is_empty())
        .collect(),
    }
}
