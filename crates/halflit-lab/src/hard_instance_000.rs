use crate::Outcome;
use crate::record::COMMIT;
use crate::sample::write_unless_closed;
use halflit::mechanisms::belief_updates::{Answer, Choice, OnlinePlan, Optimizer, Releases, Settings};
use halflit::noise::NoiseSource;
use halflit::table::{Budget, Column, Declaration, Declared, OutOfDomain, Table};
use halflit::{Ledger, Problem};
use halflit_convex::kernel::VectorQuery;
use serde::Serialize;
use std::fmt::Write;

/// Play the lower-bound instance of paper 000 (Appendix C) against the online answerer.
///
/// Groups of r = floor(ln k / epsilon) rows share a secret value; row i of group g with value y contributes the unit vector number
/// (g, y), and the loss is -<w, vector> over the unit ball. The lower bound holds for r copies; with more copies of every row the problem gets easier. The model
/// is the answer scaled to the ball; a FAIL leaves the uniform beliefs' model. Queries repeat, as an optimizer's would.
#[derive(clap::Args)]
pub struct Args {
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
    /// Fewer and smaller settings.
    #[arg(long)]
    quick: bool,
    /// Runs per setting.
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// epsilon of the whole answerer, at delta = 1e-6.
    #[arg(long, default_value_t = 1.0)]
    epsilon: f64,
}

#[derive(Serialize)]
struct Row {
    values: usize,
    groups: usize,
    rows: usize,
    /// Rows per group over the r of the lower bound.
    copies: usize,
    /// tau + 6/e' ln(20 (T + L)) D: what the proof of Theorem 13 states with probability 0.9, for the settings used.
    stated_error: f64,
    /// Mean distance of answers from the truth.
    measured_error: Option<f64>,
    /// Share of runs that failed.
    failed: f64,
    /// Mean number of updates, of at most `most_updates`. The eta used here is far above Condition 14, so Theorem 15 says nothing about it;
    /// the tests of `belief_updates` check that theorem where it applies.
    updates: f64,
    most_updates: u64,
    /// Mean excess risk of the model, in units of R G.
    excess: f64,
    /// The lower bound of Theorem 35 through group privacy; holds for copies = 1.
    lower_bound: f64,
    /// Excess of the model that knows nothing.
    ignorant: f64,
}

const GROUPS: usize = 24;
const QUERIES: usize = 5;
const DELTA: f64 = 1e-6;

struct Instance {
    rows_per_group: usize,
    values: usize,
}

impl VectorQuery for Instance {
    fn dimension(&self) -> usize {
        GROUPS * self.values
    }

    fn fill(&self, row: usize, values: &mut [f64]) {
        let group = row / self.rows_per_group;
        for y in 0..self.values {
            values[y * self.dimension() + group * self.values + y] = 1.0;
        }
    }
}

pub fn run(args: Args) -> Outcome {
    let (values, copies): (&[usize], &[usize]) =
        if args.quick { (&[4], &[1, 64]) } else { (&[2, 4, 8], &[1, 16, 64, 256]) };
    let runs = if args.quick { 2 } else { args.runs.max(1) };
    let mut rows = Vec::new();
    for &k in values {
        for &copies in copies {
            rows.push(play(k, copies, runs, args.epsilon)?);
        }
    }
    let text = if args.json {
        serde_json::to_string_pretty(
            &serde_json::json!({ "experiment": "hard-instance-000", "commit": COMMIT, "epsilon": args.epsilon, "rows": rows }),
        )? + "\n"
    } else {
        human(&rows, args.epsilon)
    };
    write_unless_closed(&mut std::io::stdout(), text.as_bytes())?;
    Ok(())
}

fn play(k: usize, copies: usize, runs: usize, epsilon: f64) -> Result<Row, Box<dyn std::error::Error>> {
    let r = ((k as f64).ln() / epsilon).floor().max(1.0) as usize;
    let rows_per_group = r * copies;
    let n = GROUPS * rows_per_group;
    let instance = Instance { rows_per_group, values: k };
    let secret_of = |group: usize| (group * group + 3 * group) % k;
    // The truth is a mean of GROUPS unit vectors; at the start the beliefs are off by sqrt((1 - 1/k)/GROUPS).
    let start = ((1.0 - 1.0 / k as f64) / GROUPS as f64).sqrt();
    let eta = 2.0;
    let settings = Settings {
        rate: eta,
        truncation: 3.0,
        threshold: start / 2.0,
        size_floor: start / 4.0,
        vector_bound: 1.0,
        max_updates: 12,
    };
    let (mut errors, mut failed, mut updates, mut excess) = (Vec::new(), 0, 0, 0.0);
    let mut stated_error = f64::NAN;
    for _ in 0..runs {
        let problem = problem(k, n, |row| secret_of(row / rows_per_group), epsilon)?;
        let optimizer = Optimizer::subgradient(QUERIES as u64, 1.0, 1.0);
        let plan = OnlinePlan::new(
            problem,
            Choice::Online { settings, optimizer },
            Budget { epsilon, delta: DELTA },
        )?;
        if let Releases::Online { test, .. } = plan.statement().releases {
            let tail = (20.0 * (QUERIES as u64 + settings.max_updates) as f64).ln();
            stated_error =
                settings.threshold + 6.0 / test.threshold_epsilon() * tail * 2f64.sqrt() / n as f64;
        }
        let folder = tempfile::tempdir()?;
        let charged = Ledger::open_or_create(&folder.path().join("ledger"))?.charge(plan)?;
        let mut online = charged.online(&mut NoiseSource::from_os()?)?;
        let mut last = vec![1.0 / (GROUPS * k) as f64; GROUPS * k];
        let truth = |at: usize| if at % k == secret_of(at / k) { 1.0 / GROUPS as f64 } else { 0.0 };
        for _ in 0..QUERIES {
            match online.ask(&instance)? {
                Answer::Mean(mean) => {
                    errors.push(
                        mean.iter().enumerate().map(|(at, x)| (x - truth(at)).powi(2)).sum::<f64>().sqrt(),
                    );
                    last = mean;
                }
                Answer::Fail => break,
            }
        }
        failed += usize::from(online.has_failed());
        updates += online.updates();
        let norm = last.iter().map(|x| x * x).sum::<f64>().sqrt().max(1e-12);
        let gained: f64 = last.iter().enumerate().map(|(at, x)| x / norm * truth(at)).sum();
        excess += (1.0 / GROUPS as f64).sqrt() - gained;
    }
    let count = runs as f64;
    let found = (k as f64) / (2.0 * k as f64 - 1.0) + k as f64 * DELTA / epsilon;
    Ok(Row {
        values: k,
        groups: GROUPS,
        rows: n,
        copies,
        stated_error,
        measured_error: (!errors.is_empty()).then(|| errors.iter().sum::<f64>() / errors.len() as f64),
        failed: failed as f64 / count,
        updates: updates as f64 / count,
        most_updates: settings.max_updates,
        excess: excess / count,
        // R G (1 - sqrt(1/2 + p/2)) / sqrt(n') with p the chance to find a group's value
        lower_bound: (1.0 - (0.5 + 0.5 * found).sqrt()).max(0.0) / (GROUPS as f64).sqrt(),
        ignorant: (1.0 / GROUPS as f64).sqrt() * (1.0 - 1.0 / (k as f64).sqrt()),
    })
}

/// A table with a public column that says nothing and a sensitive column of k values.
fn problem(
    k: usize,
    n: usize,
    value: impl Fn(usize) -> usize,
    epsilon: f64,
) -> Result<Problem, Box<dyn std::error::Error>> {
    let names: Vec<String> = (0..k).map(|y| format!("\"v{y}\"")).collect();
    let declaration = format!(
        "[budget]\nepsilon = {epsilon}\ndelta = {DELTA}\n[protect]\nunit = \"row\"\n[task]\nlabel = \"y\"\nloss = \"logistic\"\n\
         [columns.x]\nbounds = [-1, 1]\nvisibility = \"public\"\n[columns.c]\nvalues = [{}]\n\
         [columns.y]\nvalues = [\"no\", \"yes\"]\nvisibility = \"public\"\n",
        names.join(", ")
    );
    let columns = vec![
        ("x".to_owned(), Column::Numbers(vec![0.0; n])),
        ("c".to_owned(), Column::Text((0..n).map(|row| format!("v{}", value(row))).collect())),
        ("y".to_owned(), Column::Text((0..n).map(|row| ["no", "yes"][row % 2].to_owned()).collect())),
    ];
    let declared =
        Declared::bind(Declaration::parse(&declaration, "hard instance")?, Table::from_columns(columns)?)?;
    Ok(Problem::pose(declared, OutOfDomain::Refuse)?)
}

fn human(rows: &[Row], epsilon: f64) -> String {
    let mut text = format!(
        "paper 000, Appendix C, against the online answerer: epsilon = {epsilon}, delta = 1e-6, R = G = 1\n\n"
    );
    let _ = writeln!(
        text,
        "{:>3} {:>7} {:>7} {:>9} {:>9} {:>7} {:>8} {:>10} {:>8} {:>12} {:>9}",
        "k",
        "copies",
        "rows",
        "stated",
        "error",
        "failed",
        "updates",
        "of at most",
        "excess",
        "lower bound",
        "ignorant"
    );
    for row in rows {
        let error = row.measured_error.map_or("-".to_owned(), |error| format!("{error:.4}"));
        let bound = if row.copies == 1 { format!("{:.4}", row.lower_bound) } else { "-".to_owned() };
        let _ = writeln!(
            text,
            "{:>3} {:>7} {:>7} {:>9.4} {:>9} {:>6.0} % {:>8.1} {:>10} {:>8.4} {:>12} {:>9.4}",
            row.values,
            row.copies,
            row.rows,
            row.stated_error,
            error,
            100.0 * row.failed,
            row.updates,
            row.most_updates,
            row.excess,
            bound,
            row.ignorant
        );
    }
    text
}
