use crate::Outcome;
use crate::peers::python;
use crate::record::COMMIT;
use crate::sample::write_unless_closed;
use halflit_convex::kernel::{Batch, LatticeWeights, Level, RowSums};
use halflit_convex::loss::LossRule;
use halflit_convex::{DenseRows, FEATURE_SCALE, Loss, LossSpec, Rows, SparseRows};
use rayon::prelude::*;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::hint::black_box;
use std::time::Instant;

/// Measure gradient passes beside the machine's memory bandwidth and numpy, in one run.
///
/// A pass computes every row's score, its loss derivative, the clamped integer coefficient and the exact 64-bit sum of coefficient
/// times row, reading the rows once. The stream is a sum over an array of 1 GiB; passes and stream alternate, so that
/// both meet the same noise; times are medians.
#[derive(clap::Args)]
pub struct Args {
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
    /// Rows of the main table.
    #[arg(long, default_value_t = 1_000_000)]
    rows: usize,
    /// Columns of the main table.
    #[arg(long, default_value_t = 100)]
    columns: usize,
    /// Timed repetitions of every pass.
    #[arg(long, default_value_t = 9)]
    repeats: usize,
}

/// Bytes of the array whose sum measures the memory's read bandwidth: larger than any cache here.
pub const STREAM_BYTES: usize = 1 << 30;

/// Coefficient units per unit of derivative, and the norm bound that lets every row keep its coefficient.
const SCALE: f64 = (1 << 22) as f64;
const BOUND: u64 = 1 << 39;

#[derive(Serialize)]
struct Report {
    commit: &'static str,
    rows: usize,
    columns: usize,
    instructions: &'static str,
    passes: Vec<Measured>,
    numpy: Vec<Numpy>,
    /// Our rows per second over numpy's, by number of threads.
    ratio_to_numpy: BTreeMap<String, f64>,
}

#[derive(Serialize)]
struct Measured {
    name: String,
    threads: usize,
    rows: usize,
    seconds: f64,
    rows_per_second: f64,
    /// Features, labels, clamp limits and row indices: each is read once.
    bytes: usize,
    #[serde(flatten)]
    shares: Shares,
}

/// Two float64 matrix-vector products and the sigmoid between them, on the same table.
#[derive(Serialize)]
struct Numpy {
    threads: usize,
    version: Option<String>,
    seconds: Option<f64>,
    rows_per_second: Option<f64>,
    missing: Option<String>,
}

pub fn run(args: Args) -> Outcome {
    let stream = vec![1u64; STREAM_BYTES / size_of::<u64>()];
    let mut passes = Vec::new();
    let (one, two) = (pool(1)?, pool(2)?);
    let bench = Bench { stream: &stream, pools: [&one, &two], repeats: args.repeats };

    let table = Table::dense(args.rows, args.columns)?;
    let logistic = Loss::new(LossSpec::Logistic)?;
    bench.passes(&mut passes, "logistic gradient", &table, logistic, None)?;
    for expected in [500, 5_000, args.rows / 10] {
        let batch = table.batch(expected);
        let name = format!("logistic, batch of about {expected}");
        bench.passes(&mut passes, &name, &table, logistic, Some(&batch))?;
    }
    let softmax = Loss::new(LossSpec::Softmax { classes: 10 })?;
    let images = Table::dense(60_000, 784)?;
    bench.passes(&mut passes, "softmax, 10 classes, 60,000 x 784", &images, softmax, None)?;
    drop(images);
    let sparse = Table::sparse(args.rows)?;
    bench.passes(&mut passes, "logistic, sparse, 109 columns, 15 entries", &sparse, logistic, None)?;
    drop((table, sparse));
    // four times the table: certainly larger than the caches
    let large = Table::dense(4 * args.rows, args.columns)?;
    let name = format!("logistic gradient, {} rows", 4 * args.rows);
    bench.passes(&mut passes, &name, &large, logistic, None)?;
    drop(large);

    let numpy: Vec<Numpy> = [1, 2].map(|threads| numpy_step(&args, threads)).into();
    let ratio_to_numpy = numpy
        .iter()
        .zip(&passes)
        .filter_map(|(peer, ours)| {
            Some((peer.threads.to_string(), ours.rows_per_second / peer.rows_per_second?))
        })
        .collect();
    let instructions = Level::best().name();
    let report = Report {
        commit: COMMIT,
        rows: args.rows,
        columns: args.columns,
        instructions,
        passes,
        numpy,
        ratio_to_numpy,
    };
    let text = if args.json { serde_json::to_string_pretty(&report)? + "\n" } else { human(&report) };
    write_unless_closed(&mut std::io::stdout(), text.as_bytes())?;
    Ok(())
}

pub fn pool(threads: usize) -> Result<rayon::ThreadPool, rayon::ThreadPoolBuildError> {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build()
}

/// Rows with their labels, made by a formula.
pub struct Table {
    pub rows: Rows,
    pub labels: Vec<f64>,
    bytes_per_row: usize,
}

/// A scrambled counter: data for timing, not for anything random.
pub fn scramble(index: u64) -> u64 {
    let z = index.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    z ^ (z >> 32)
}

impl Table {
    pub fn dense(rows: usize, columns: usize) -> Result<Self, Box<dyn std::error::Error>> {
        let value = |index: usize| (scramble(index as u64) % 32_769) as i32 - i32::from(FEATURE_SCALE);
        let values: Vec<i16> = (0..rows * columns).into_par_iter().map(|index| value(index) as i16).collect();
        Ok(Table {
            rows: DenseRows::from_values(columns, values)?.into(),
            ..Table::empty(rows, 2 * columns)?
        })
    }

    /// An intercept, six numbers and eight one-hot groups of 12 or 13 columns: the shape of an encoded census table.
    fn sparse(rows: usize) -> Result<Self, Box<dyn std::error::Error>> {
        let mut built = SparseRows::with_capacity(109, rows, 15 * rows)?;
        for row in 0..rows as u64 {
            let number = |j: u64| (scramble(row * 16 + j) % 32_769) as i32 - i32::from(FEATURE_SCALE);
            let group = |j: u64| 7 + 12 * j as u32 + (scramble(row * 16 + 7 + j) % 12) as u32;
            let columns: Vec<u32> = (0..7).chain((0..8).map(group)).collect();
            let mut values: Vec<i16> = (0..7).map(|j| number(j) as i16).collect();
            values.resize(15, FEATURE_SCALE);
            built.push_row(&columns, &values)?;
        }
        let bytes_per_entry = size_of::<u32>() + size_of::<i16>();
        let bytes_per_row = built.entries() / rows.max(1) * bytes_per_entry + size_of::<usize>();
        Ok(Table { rows: built.into(), ..Table::empty(rows, bytes_per_row)? })
    }

    /// Labels for `rows` rows yet to come; a label and a clamp limit are read with every row.
    fn empty(rows: usize, feature_bytes: usize) -> Result<Self, Box<dyn std::error::Error>> {
        let labels = (0..rows as u64).map(|row| (scramble(row) % 2) as f64).collect();
        let bytes_per_row = feature_bytes + size_of::<f64>() + size_of::<u32>();
        Ok(Table { rows: DenseRows::new(1)?.into(), labels, bytes_per_row })
    }

    /// About `expected` rows, each in or out independently of the others.
    fn batch(&self, expected: usize) -> Vec<u32> {
        let rows = self.rows.len() as u64;
        (0..rows)
            .filter(|&row| scramble(row ^ 0xabcd) % rows < expected as u64)
            .map(|row| row as u32)
            .collect()
    }
}

struct Bench<'a> {
    stream: &'a [u64],
    pools: [&'a rayon::ThreadPool; 2],
    repeats: usize,
}

impl Bench<'_> {
    /// Times one kind of pass on 1 and on 2 threads.
    fn passes(
        &self,
        measured: &mut Vec<Measured>,
        name: &str,
        table: &Table,
        loss: Loss,
        batch: Option<&[u32]>,
    ) -> Outcome {
        let size = table.rows.width() * loss.outputs();
        let weights: Vec<f64> = (0..size as u64).map(|j| (scramble(j) % 2001) as f64 / 1e4 - 0.1).collect();
        let weights = LatticeWeights::new(&weights, loss.outputs())?;
        let sums = RowSums::new(&table.rows, BOUND)?;
        let rule = LossRule::derivative(loss, &table.labels, SCALE);
        let rows = batch.map_or(table.rows.len(), <[u32]>::len);
        let index_bytes = batch.map_or(0, |_| size_of::<u32>());
        let bytes = rows * (table.bytes_per_row + index_bytes);
        let pass = || sums.sum(&weights, &rule, batch.map_or(Batch::All, Batch::Only)).map(black_box);
        pass()?;
        // short passes are timed many at a time
        let calls = (200_000 / rows.max(1)).max(1);
        for pool in self.pools {
            let (pass_times, stream_times) = pool.install(|| {
                alternate(
                    self.repeats,
                    || (0..calls).for_each(|_| drop(pass())),
                    || {
                        black_box(read_all(self.stream));
                    },
                )
            });
            let seconds = pass_times.median / calls as f64;
            let shares = Shares::new(bytes * calls, &pass_times, &stream_times);
            measured.push(Measured {
                name: name.to_owned(),
                threads: pool.current_num_threads(),
                rows,
                seconds,
                rows_per_second: rows as f64 / seconds,
                bytes,
                shares,
            });
        }
        Ok(())
    }
}

/// Sums the array on the current pool: reads every byte once.
pub fn read_all(array: &[u64]) -> u64 {
    let sum = |chunk: &[u64]| chunk.iter().fold(0u64, |sum, &x| sum.wrapping_add(x));
    array.par_chunks(1 << 17).map(sum).reduce(|| 0, u64::wrapping_add)
}

/// Seconds of a work that was done several times.
pub struct Times {
    pub median: f64,
    pub least: f64,
}

/// Bytes per second of a pass, and of reading [`STREAM_BYTES`] in alternation with it.
#[derive(Serialize)]
pub struct Shares {
    pub bytes_per_second: f64,
    pub stream_bytes_per_second: f64,
    /// Of the medians.
    pub share_of_stream: f64,
    /// Of the quickest runs of both: what other work on the machine disturbs least.
    pub best_share_of_stream: f64,
}

impl Shares {
    pub fn new(bytes: usize, pass: &Times, stream: &Times) -> Self {
        let rates = |pass: f64, stream: f64| (bytes as f64 / pass, STREAM_BYTES as f64 / stream);
        let (bytes_per_second, stream_bytes_per_second) = rates(pass.median, stream.median);
        let (best, best_stream) = rates(pass.least, stream.least);
        Shares {
            bytes_per_second,
            stream_bytes_per_second,
            share_of_stream: bytes_per_second / stream_bytes_per_second,
            best_share_of_stream: best / best_stream,
        }
    }

    /// Column heads for [`Shares`] written out.
    pub const HEADS: &'static str = "    GB/s  stream GB/s  of stream  at best";
}

impl std::fmt::Display for Shares {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (own, stream) = (self.bytes_per_second / 1e9, self.stream_bytes_per_second / 1e9);
        let (share, best) = (100.0 * self.share_of_stream, 100.0 * self.best_share_of_stream);
        write!(f, "{own:>8.2} {stream:>12.2} {share:>8.0} % {best:>6.0} %")
    }
}

/// Times of two works, done in turns after one warm-up each.
pub fn alternate(repeats: usize, first: impl Fn(), second: impl Fn()) -> (Times, Times) {
    let time = |work: &dyn Fn()| {
        let start = Instant::now();
        work();
        start.elapsed().as_secs_f64()
    };
    first();
    second();
    let (mut a, mut b): (Vec<f64>, Vec<f64>) =
        (0..repeats.max(1)).map(|_| (time(&first), time(&second))).unzip();
    let times = |seconds: &mut Vec<f64>| {
        seconds.sort_by(f64::total_cmp);
        Times { median: seconds[seconds.len() / 2], least: seconds[0] }
    };
    (times(&mut a), times(&mut b))
}

fn numpy_step(args: &Args, threads: usize) -> Numpy {
    let program = r#"
import os, sys
rows, columns, repeats, threads = map(int, sys.argv[1:])
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = str(threads)
import json, time
import numpy as np
x = np.random.default_rng(1).uniform(-1.0, 1.0, (rows, columns))
y = (np.arange(rows) % 2).astype(float)
w = np.linspace(-0.1, 0.1, columns)
def step():
    return (1.0 / (1.0 + np.exp(-(x @ w))) - y) @ x
step()
seconds = []
for _ in range(repeats):
    start = time.perf_counter()
    step()
    seconds.append(time.perf_counter() - start)
print(json.dumps({"seconds": sorted(seconds)[len(seconds) // 2], "version": np.__version__}))
"#;
    let arguments = [args.rows, args.columns, args.repeats.max(1), threads].map(|value| value.to_string());
    let empty = Numpy { threads, version: None, seconds: None, rows_per_second: None, missing: None };
    match python(program, &arguments) {
        Err(reason) => Numpy { missing: Some(reason), ..empty },
        Ok(answer) => {
            let seconds = answer["seconds"].as_f64();
            let version = answer["version"].as_str().map(str::to_owned);
            Numpy { version, seconds, rows_per_second: seconds.map(|s| args.rows as f64 / s), ..empty }
        }
    }
}

fn human(report: &Report) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "{} x {}, {} instructions\n", report.rows, report.columns, report.instructions);
    let _ = writeln!(text, "{:<44} {:>7} {:>12} {}", "pass", "threads", "rows/s", Shares::HEADS);
    for pass in &report.passes {
        let _ = writeln!(
            text,
            "{:<44} {:>7} {:>12.3e} {}",
            pass.name, pass.threads, pass.rows_per_second, pass.shares
        );
    }
    for peer in &report.numpy {
        let _ =
            match (&peer.missing, peer.rows_per_second, report.ratio_to_numpy.get(&peer.threads.to_string()))
            {
                (None, Some(rate), Some(ratio)) => {
                    let version = peer.version.as_deref().unwrap_or("?");
                    writeln!(
                        text,
                        "numpy {version}, {} threads: {rate:.3e} rows/s; ours is {ratio:.1} times that",
                        peer.threads
                    )
                }
                (reason, ..) => writeln!(text, "numpy: {}", reason.as_deref().unwrap_or("gave no time")),
            };
    }
    text
}
