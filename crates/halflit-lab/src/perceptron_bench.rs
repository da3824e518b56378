use crate::Outcome;
use crate::kernel_bench::{Table, pool, scramble};
use crate::peers::{median_seconds, python};
use crate::sample::write_unless_closed;
use halflit_convex::kernel::{Batch, Level};
use halflit_convex::perceptron::{Centre, Perceptron, PerceptronShape, PerceptronSums};
use serde::Serialize;
use std::fmt::Write;
use std::hint::black_box;

/// Measure clipped gradient sums of the perceptron (one hidden layer, ReLU, softmax) beside numpy, in one run.
///
/// The shape is that of paper 003's experiment; a batch is every sixteenth row. A step is the forward pass, ghost norms, the exact clip and the
/// 64-bit sums; with a centre, twice that (the row and its imputed row). numpy does the same in floats without a centre.
#[derive(clap::Args)]
pub struct Args {
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
    /// Rows of the table.
    #[arg(long, default_value_t = 197_324)]
    rows: usize,
    /// Columns.
    #[arg(long, default_value_t = 600)]
    columns: usize,
    /// Hidden units.
    #[arg(long, default_value_t = 300)]
    hidden: usize,
    /// Classes.
    #[arg(long, default_value_t = 100)]
    classes: usize,
    /// Timed repetitions.
    #[arg(long, default_value_t = 3)]
    repeats: usize,
}

#[derive(Serialize)]
struct Report {
    rows: usize,
    columns: usize,
    hidden: usize,
    classes: usize,
    batch: usize,
    instructions: &'static str,
    steps: Vec<Step>,
}

#[derive(Serialize)]
struct Step {
    name: String,
    threads: usize,
    seconds: Option<f64>,
    examples_per_second: Option<f64>,
    missing: Option<String>,
}

pub fn run(args: Args) -> Outcome {
    let mut table = Table::dense(args.rows, args.columns)?;
    for (row, label) in table.labels.iter_mut().enumerate() {
        *label = (scramble(row as u64) % args.classes as u64) as f64;
    }
    let shape = PerceptronShape { inputs: args.columns, hidden: args.hidden, classes: args.classes };
    let weights: Vec<f64> =
        (0..shape.weights() as u64).map(|j| (scramble(j) % 2001) as f64 / 2e4 - 0.05).collect();
    let model = Perceptron::new(shape, &weights)?;
    let batch: Vec<u32> =
        (0..args.rows as u32).filter(|&row| scramble(u64::from(row)).is_multiple_of(16)).collect();
    // 100 public columns, as in the paper: the others are filled with zeros
    let columns: Vec<u32> = (100.min(args.columns as u32)..args.columns as u32).collect();
    let values = vec![0; columns.len()];
    let centre = Centre::Filled { columns: &columns, values: &values };
    let mut steps = Vec::new();
    for (name, centre) in [("without a centre", None), ("with an imputed centre", Some(centre))] {
        // one unit of gradient is 2^34 lattice units; the clip norm is 1
        let sums =
            PerceptronSums::new(&table.rows, &table.labels, centre, shape, 1 << 34, (1u64 << 34) as f64)?;
        for threads in [1, 2] {
            let pool = pool(threads)?;
            let step = || drop(black_box(sums.sum(&model, Batch::Only(&batch))));
            let seconds = pool.install(|| median_seconds(args.repeats, step));
            steps.push(Step::timed(name, threads, seconds, batch.len()));
        }
    }
    for (kind, threads) in [("float64", 1), ("float64", 2), ("float32", 1), ("float32", 2)] {
        let arguments = [batch.len(), args.columns, args.hidden, args.classes, args.repeats, threads]
            .map(|value| value.to_string())
            .into_iter()
            .chain([kind.to_owned()])
            .collect::<Vec<_>>();
        let name = format!("numpy {kind}, no centre");
        steps.push(match python(NUMPY, &arguments) {
            Ok(answer) => {
                Step::timed(&name, threads, answer["seconds"].as_f64().unwrap_or(f64::NAN), batch.len())
            }
            Err(reason) => {
                Step { name, threads, seconds: None, examples_per_second: None, missing: Some(reason) }
            }
        });
    }
    let Args { rows, columns, hidden, classes, .. } = args;
    let instructions = Level::best().name();
    let report = Report { rows, columns, hidden, classes, batch: batch.len(), instructions, steps };
    let text = if args.json { serde_json::to_string_pretty(&report)? + "\n" } else { human(&report) };
    write_unless_closed(&mut std::io::stdout(), text.as_bytes())?;
    Ok(())
}

impl Step {
    fn timed(name: &str, threads: usize, seconds: f64, examples: usize) -> Self {
        let rate = examples as f64 / seconds;
        Step {
            name: name.to_owned(),
            threads,
            seconds: Some(seconds),
            examples_per_second: Some(rate),
            missing: None,
        }
    }
}

fn human(report: &Report) -> String {
    let Report { rows, columns, hidden, classes, batch, instructions, steps } = report;
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{rows} x {columns}, {hidden} hidden, {classes} classes, batch of {batch}, {instructions} instructions\n"
    );
    let _ = writeln!(text, "{:<28} {:>7} {:>10} {:>14}", "step", "threads", "seconds", "examples/s");
    for Step { name, threads, seconds, examples_per_second, missing } in steps {
        let _ = match (seconds, examples_per_second) {
            (Some(seconds), Some(rate)) => {
                writeln!(text, "{name:<28} {threads:>7} {seconds:>10.3} {rate:>14.0}")
            }
            _ => writeln!(
                text,
                "{name:<28} {threads:>7} skipped: {}",
                missing.as_deref().unwrap_or("gave no time")
            ),
        };
    }
    text
}

/// Forward, ghost norms, clip, sums: matrix products only.
const NUMPY: &str = r#"
import os, sys
batch, columns, hidden, classes, repeats, threads = map(int, sys.argv[1:7])
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = str(threads)
import json, time
import numpy as np
kind = np.dtype(sys.argv[7])
rng = np.random.default_rng(1)
x = rng.uniform(-1, 1, (batch, columns)).astype(kind)
y = rng.integers(0, classes, batch)
w1 = (rng.standard_normal((columns, hidden)) * 0.03).astype(kind)
w2 = (rng.standard_normal((hidden + 1, classes)) * 0.03).astype(kind)
one = np.ones((batch, 1), kind)
def step():
    a = np.hstack([np.maximum(x @ w1, 0), one])
    z = a @ w2
    p = np.exp(z - z.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    p[np.arange(batch), y] -= 1
    s = (p @ w2[:-1].T) * (a[:, :-1] > 0)
    norm = np.sqrt((x * x).sum(1) * (s * s).sum(1) + (a * a).sum(1) * (p * p).sum(1))
    factor = np.minimum(1, 1 / np.maximum(norm, 1e-12))[:, None]
    return x.T @ (s * factor), a.T @ (p * factor)
step()
seconds = []
for _ in range(repeats):
    start = time.perf_counter()
    step()
    seconds.append(time.perf_counter() - start)
print(json.dumps({"seconds": sorted(seconds)[len(seconds) // 2], "version": np.__version__}))
"#;
