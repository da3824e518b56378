//! Tables 5 to 10: linear regression with public rows, every method beside what the paper prints.

use super::Args;
use super::printed::{Cell, TABLES, Table};
use super::regression::{Draw, Result, Setting, budget, plan, run_plan, train};
use super::tuning::{Memory, Method, Trial, Tuned, tune};
use crate::Outcome;
use crate::record::{COMMIT, Measured, write};
use halflit::Problem;
use halflit::mechanisms::noisy_gradient::{Params, modes};
use halflit::plan::Summary;
use halflit::plot::{LineChart, Scale, Series};
use halflit_privacy::Change;
use serde_json::{Value, json};
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

/// Some of Tables 5 to 10. Cells with the same share of public rows are measured on the same draws, and share what is computed from the
/// public rows.
pub fn run(numbers: &[u32], args: &Args) -> Outcome {
    let draws = args.draws.unwrap_or(if args.quick { 2 } else { 20 }).max(1);
    let mut parts: Vec<Part> = TABLES
        .iter()
        .filter(|table| numbers.contains(&table.number))
        .map(|table| Part { table, cells: wanted(table, args), rows: Vec::new() })
        .collect();
    let mut shares: Vec<f64> =
        parts.iter().flat_map(|part| part.cells.iter().map(|cell| cell.ratio)).collect();
    shares.sort_by(f64::total_cmp);
    shares.dedup();
    if shares.is_empty() {
        let known: Vec<f64> =
            parts.iter().flat_map(|part| part.table.cells.iter().map(|cell| cell.ratio)).collect();
        return Err(format!("--ratios: these tables have the shares {known:?}").into());
    }
    let mut memory = Memory::default();
    for share in shares {
        let mut wanted: Vec<Wanted> = Vec::new();
        for part in &parts {
            for cell in part.cells.iter().filter(|cell| cell.ratio == share) {
                let one = Wanted { epsilon: cell.epsilon, warm: part.table.warm };
                if !wanted.contains(&one) {
                    wanted.push(one);
                }
            }
        }
        let found = measure(share, &wanted, args, draws, &mut memory)?;
        for part in &mut parts {
            for cell in part.cells.iter().filter(|cell| cell.ratio == share) {
                let one = Wanted { epsilon: cell.epsilon, warm: part.table.warm };
                let found = wanted.iter().zip(&found).find(|(wanted, _)| **wanted == one);
                part.rows.push(found.ok_or("a cell was not measured")?.1.row(*cell)?);
            }
            // Shares take long: what there is so far is on disk.
            if !part.rows.is_empty() {
                let name = format!("table{}.csv", part.table.number);
                write(&args.out, &name, &csv(part.table, &part.rows, args, draws)?)?;
            }
        }
    }
    let measured = || parts.iter().filter(|part| !part.rows.is_empty());
    for Part { table, rows, .. } in measured() {
        write(&args.out, &format!("table{}.svg", table.number), &chart(table, rows).to_svg())?;
        if !args.json {
            report(table, rows, args, draws);
        }
    }
    if args.json {
        let mut tables: Vec<_> = measured().map(|part| json(part.table, &part.rows, args)).collect();
        let answer = if numbers.len() == 1 { tables.remove(0) } else { tables.into() };
        println!("{answer}");
    }
    Ok(())
}

/// One table, as far as it was measured.
struct Part<'a> {
    table: &'a Table,
    cells: Vec<Cell>,
    rows: Vec<Row>,
}

/// The cells of a table that were asked for.
fn wanted(table: &Table, args: &Args) -> Vec<Cell> {
    let is_wanted = |cell: &&Cell| match &args.ratios {
        Some(ratios) => ratios.contains(&cell.ratio),
        None => !args.quick || table.cells.len() < 8 || [0.01, 0.1, 0.25, 0.75].contains(&cell.ratio),
    };
    table.cells.iter().filter(is_wanted).copied().collect()
}

/// A setting to be measured: cells of several tables may want the same one.
#[derive(Clone, Copy, PartialEq)]
struct Wanted {
    epsilon: f64,
    /// Whether the paper's methods start at the public minimizer.
    warm: bool,
}

/// The risks of every draw in one setting.
#[derive(Default)]
struct Risks {
    ours: Vec<f64>,
    ours_replace: Vec<f64>,
    public_only: Vec<f64>,
    tuned: Vec<(Tuned, Vec<f64>)>,
}

impl Risks {
    fn row(&self, cell: Cell) -> Result<Row> {
        let measured = |risks: &[f64]| Measured::of(risks).ok_or("no draws");
        Ok(Row {
            cell,
            ours: measured(&self.ours)?,
            ours_replace: Measured::of(&self.ours_replace),
            public_only: measured(&self.public_only)?,
            tuned: self
                .tuned
                .iter()
                .map(|(method, risks)| Ok((*method, measured(risks)?)))
                .collect::<std::result::Result<_, &str>>()?,
        })
    }
}

/// All settings with one share of public rows.
fn measure(
    share: f64,
    wanted: &[Wanted],
    args: &Args,
    draws: usize,
    memory: &mut Memory,
) -> Result<Vec<Risks>> {
    let public_rows = (share * ROWS as f64).round() as usize;
    let change = if args.replace { Change::Replace } else { Change::ZeroOut };
    let mut all: Vec<Risks> = wanted.iter().map(|_| Risks::default()).collect();
    for index in 0..draws {
        let draw = Draw::new(ROWS, DIMENSION, args.seed + index as u64);
        if change == Change::ZeroOut {
            let mut problem = draw.problem(Setting { public_rows, change: Change::Replace })?;
            for (&Wanted { epsilon, .. }, risks) in wanted.iter().zip(&mut all) {
                let risk;
                (risk, problem) = default_risk(&draw, problem, epsilon)?;
                risks.ours_replace.push(risk);
            }
        }
        let problem = draw.problem(Setting { public_rows, change })?;
        let (weights, mut problem) = train(problem, Params::default(), Some("public_rows"), budget(1.0))?;
        let public_only = draw.risk(&weights);
        for (&Wanted { epsilon, warm }, risks) in wanted.iter().zip(&mut all) {
            risks.public_only.push(public_only);
            let risk;
            (risk, problem) = if index == 0 {
                chosen_risk(&draw, problem, epsilon)?
            } else {
                default_risk(&draw, problem, epsilon)?
            };
            risks.ours.push(risk);
            if args.untuned || args.tuned_draws.is_some_and(|most| index >= most) {
                continue;
            }
            let trial = Trial { draw: &draw, epsilon, public_only };
            if index == 0 {
                for method in [Method::Algorithm1, Method::PdaMd, Method::DpSgd] {
                    let found;
                    (found, problem) = tune(method, warm, &trial, problem, memory)?;
                    risks.tuned.push((found, Vec::new()));
                }
            }
            for (method, found) in &mut risks.tuned {
                let risk;
                (risk, problem) = method.run(&trial, problem)?;
                found.push(risk);
            }
            eprintln!("n_pub/n = {share}, epsilon = {epsilon}, draw {} of {draws}: done", index + 1);
        }
    }
    Ok(all)
}

/// What `halflit train` does on its own: everything is planned, and the best plan is run. Makes sure that it is the posterior descent.
fn chosen_risk(draw: &Draw, problem: Problem, epsilon: f64) -> Result<(f64, Problem)> {
    let chosen = plan(problem, Params::default(), None, budget(epsilon))?;
    let Summary { mechanism, variant, .. } = chosen.summary();
    if !variant.contains("posterior") {
        return Err(format!("halflit would choose {mechanism}, {variant} here").into());
    }
    let (weights, problem) = run_plan(chosen)?;
    Ok((draw.risk(&weights), problem))
}

/// The same on another draw, without planning all the rest again.
fn default_risk(draw: &Draw, problem: Problem, epsilon: f64) -> Result<(f64, Problem)> {
    let (weights, problem) = train(problem, modes::posterior(), Some("noisy_gradient"), budget(epsilon))?;
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

fn json(table: &Table, rows: &[Row], args: &Args) -> Value {
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
    json!({ "experiment": format!("table{}", table.number), "commit": COMMIT, "seed": args.seed, "rows": records })
}

fn report(table: &Table, rows: &[Row], args: &Args, draws: usize) {
    let number = table.number;
    let start =
        if table.warm { "all start at the public minimizer" } else { "the paper's methods start at zero" };
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
    println!("\nWrote table{number}.csv and table{number}.svg to {}.\n", args.out.display());
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
