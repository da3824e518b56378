use crate::Outcome;
use crate::kernel_bench::{STREAM_BYTES, Shares, alternate, pool, read_all, scramble};
use crate::record::COMMIT;
use crate::sample::write_unless_closed;
use halflit_convex::kernel::{BeliefQuery, BeliefRows, BeliefUpdate, Beliefs, Level, SensitiveValues};
use halflit_convex::{DenseRows, FEATURE_SCALE, Interval, Loss, LossSpec, Rows};
use rayon::prelude::*;
use serde::Serialize;
use std::cell::RefCell;
use std::fmt::Write;
use std::hint::black_box;

/// Measure belief queries and updates beside the machine's memory bandwidth.
///
/// A query pass reads every row's public features and beliefs once and returns the believed sum, the actual sum and the diameter. An
/// update pass reads both and writes the beliefs. Two cases: the label alone is sensitive (k labels, squared loss), and a feature is
/// (k values, logistic loss). Passes and the stream alternate; times are medians.
#[derive(clap::Args)]
pub struct Args {
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
    /// Rows.
    #[arg(long, default_value_t = 1_000_000)]
    rows: usize,
    /// Columns.
    #[arg(long, default_value_t = 100)]
    columns: usize,
    /// k: sensitive values of a row.
    #[arg(long, default_value_t = 10)]
    values: usize,
    /// Timed repetitions of every pass.
    #[arg(long, default_value_t = 7)]
    repeats: usize,
}

#[derive(Serialize)]
struct Report {
    commit: &'static str,
    rows: usize,
    columns: usize,
    values: usize,
    instructions: &'static str,
    passes: Vec<Measured>,
}

#[derive(Serialize)]
struct Measured {
    case: &'static str,
    pass: &'static str,
    threads: usize,
    seconds: f64,
    /// Features, beliefs and sensitive values, and for a sensitive feature squared norms and labels: each is read once; an update also
    /// writes the beliefs.
    bytes: usize,
    #[serde(flatten)]
    shares: Shares,
}

pub fn run(args: Args) -> Outcome {
    let stream = vec![1u64; STREAM_BYTES / size_of::<u64>()];
    let (n, d, k) = (args.rows, args.columns, args.values);
    let features = d.saturating_sub(k).max(1);
    let mut passes = Vec::new();
    for case in ["sensitive label", "sensitive feature"] {
        let has_feature = case == "sensitive feature";
        // the last k columns belong to the sensitive feature and are zero in the public rows
        let public = if has_feature { features } else { d };
        let value = |index: usize| {
            if index % d >= public {
                0
            } else {
                (scramble(index as u64) % 32_769) as i32 - i32::from(FEATURE_SCALE)
            }
        };
        let cells: Vec<i16> = (0..n * d).into_par_iter().map(|index| value(index) as i16).collect();
        let rows = Rows::Dense(DenseRows::from_values(d, cells)?);
        let labels: Vec<f64> = (0..n as u64).map(|row| (scramble(row) % 2) as f64).collect();
        let secret: Vec<u16> = (0..n as u64).map(|row| (scramble(row ^ 77) % k as u64) as u16).collect();
        let (values, loss) = if has_feature {
            let shifts =
                (0..k).map(|y| vec![((public + y % (d - public).max(1)) as u32, FEATURE_SCALE)]).collect();
            (SensitiveValues::new(shifts, None)?, Loss::new(LossSpec::Logistic)?)
        } else {
            let levels = (0..k).map(|y| 2.0 * y as f64 / (k - 1).max(1) as f64 - 1.0).collect();
            let squared = LossSpec::Squared { labels: Interval::UNIT };
            (SensitiveValues::new(vec![Vec::new(); k], Some(levels))?, Loss::new(squared)?)
        };
        let weights: Vec<f64> = (0..d as u64).map(|j| (scramble(j) % 2001) as f64 / 1e4 - 0.1).collect();
        let query = BeliefRows::new(&rows, &labels, &values)?.gradient(loss, &weights)?;
        let beliefs = RefCell::new(Beliefs::uniform(n, k));
        let update = BeliefUpdate { direction: weights.clone(), rate: 0.01, size: 1.0, truncation: 3.0 };
        let label_bytes = if has_feature { 8 * n } else { 0 };
        let logits = beliefs.borrow().memory_bytes();
        let rows_bytes = 2 * n * d + label_bytes;
        for threads in [1, 2] {
            let pool = pool(threads)?;
            let mut measure = |pass: &'static str, bytes: usize, work: &dyn Fn()| {
                let (times, stream_times) = alternate(args.repeats, work, || {
                    pool.install(|| black_box(read_all(&stream)));
                });
                passes.push(Measured {
                    case,
                    pass,
                    threads,
                    seconds: times.median,
                    bytes,
                    shares: Shares::new(bytes, &times, &stream_times),
                });
            };
            let norm_bytes = if has_feature { 8 * n } else { 0 };
            measure("query", rows_bytes + logits + norm_bytes + 2 * n, &|| {
                let beliefs = beliefs.borrow();
                let (query, beliefs, secret) = (&query, &*beliefs, &secret);
                let _ = pool.install(|| black_box(query.sums(beliefs, secret)));
            });
            measure("update", rows_bytes + 2 * logits, &|| {
                let mut beliefs = beliefs.borrow_mut();
                let (query, beliefs, update) = (&query, &mut *beliefs, &update);
                let _ = pool.install(|| black_box(query.update(beliefs, update)));
            });
        }
    }
    let report =
        Report { commit: COMMIT, rows: n, columns: d, values: k, instructions: Level::best().name(), passes };
    let text = if args.json { serde_json::to_string_pretty(&report)? + "\n" } else { human(&report) };
    write_unless_closed(&mut std::io::stdout(), text.as_bytes())?;
    Ok(())
}

fn human(report: &Report) -> String {
    let Report { rows, columns, values, instructions, .. } = report;
    let mut text = format!("{rows} x {columns}, k = {values}, {instructions} instructions\n\n");
    let _ =
        writeln!(text, "{:<20} {:<8} {:>7} {:>9} {}", "case", "pass", "threads", "seconds", Shares::HEADS);
    for Measured { case, pass, threads, seconds, shares, .. } in &report.passes {
        let _ = writeln!(text, "{case:<20} {pass:<8} {threads:>7} {seconds:>9.4} {shares}");
    }
    text
}
