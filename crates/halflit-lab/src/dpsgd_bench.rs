use crate::Outcome;
use crate::kernel_bench::{Table, pool, scramble};
use crate::peers::python;
use crate::record::COMMIT;
use crate::sample::write_unless_closed;
use crate::whole_steps::{self, WholeSteps};
use halflit_convex::kernel::{Batch, LatticeWeights, Level, QUICK_COEFFICIENT, RowSums};
use halflit_convex::loss::LossRule;
use halflit_convex::{FEATURE_SCALE, Loss, LossSpec};
use halflit_noise::{NoiseSource, PoissonSampler, Probability, SumLattice, SumRequest};
use serde::Serialize;
use std::fmt::Write;
use std::time::Instant;

/// Measure whole steps of Poisson DP-SGD with exact noise beside numpy, Opacus and JAX Privacy, in one run.
///
/// A step draws the Poisson batch, computes every example's clipped gradient and their exact sum, adds exact normal noise and moves the weights.
/// The numpy step knows the model is linear: it clips by |residual| * ||x|| and makes two products with the gathered rows.
/// The deep-learning peers run without a data loader, on batches already in memory. At the end: steps of the mechanism itself, through plan, charge and
/// run, beside the kernel's own rate.
#[derive(clap::Args)]
pub struct Args {
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
    /// Threads, for us and for every peer.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Seconds spent on each measurement.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// This loss alone: logistic or softmax.
    #[arg(long, value_parser = ["logistic", "softmax"])]
    loss: Option<String>,
}

struct Case {
    name: &'static str,
    rows: usize,
    columns: usize,
    classes: usize,
    batch: usize,
}

const CASES: [Case; 4] = [
    Case { name: "logistic", rows: 500_000, columns: 100, classes: 1, batch: 500 },
    Case { name: "logistic", rows: 500_000, columns: 100, classes: 1, batch: 5_000 },
    Case { name: "softmax", rows: 60_000, columns: 784, classes: 10, batch: 500 },
    Case { name: "softmax", rows: 60_000, columns: 784, classes: 10, batch: 5_000 },
];

#[derive(Serialize)]
struct Report {
    commit: &'static str,
    threads: usize,
    instructions: &'static str,
    cases: Vec<Measured>,
    /// Logistic steps of the mechanism itself.
    mechanism: Option<WholeSteps>,
    /// The kernel's pass over all rows of a table of that size.
    kernel_rows_per_second: Option<f64>,
}

#[derive(Serialize)]
struct Measured {
    loss: &'static str,
    rows: usize,
    columns: usize,
    classes: usize,
    expected_batch: usize,
    /// Whole steps.
    examples_per_second: f64,
    /// The gradient of a batch alone, and of all rows: the batch should reach half the rate.
    batch_gradient_rows_per_second: f64,
    full_pass_rows_per_second: f64,
    /// Resident memory of this process with the table loaded, and the most it ever was.
    resident_bytes: Option<u64>,
    peak_resident_bytes: Option<u64>,
    peers: Vec<Peer>,
}

#[derive(Serialize)]
struct Peer {
    name: &'static str,
    version: Option<String>,
    examples_per_second: Option<f64>,
    /// Our whole step over theirs.
    ratio: Option<f64>,
    skipped: Option<String>,
}

pub fn run(args: Args) -> Outcome {
    let pool = pool(args.threads.max(1))?;
    let mut cases = Vec::new();
    let mut table: Option<Table> = None;
    for case in CASES.iter().filter(|case| args.loss.as_ref().is_none_or(|loss| loss == case.name)) {
        if table.as_ref().is_none_or(|table| table.rows.len() != case.rows) {
            drop(table.take());
            table = Some(Table::dense(case.rows, case.columns)?);
        }
        let Some(table) = &table else { continue };
        let mut measured =
            pool.install(|| measure(case, table, args.seconds)).map_err(|error| error.to_string())?;
        for (name, program) in [("numpy", NUMPY), ("opacus", OPACUS), ("jax-privacy", JAX)] {
            let arguments = [case.rows, case.columns, case.classes, case.batch, args.threads.max(1)]
                .map(|value| value.to_string())
                .into_iter()
                .chain([args.seconds.to_string()])
                .collect::<Vec<_>>();
            measured.peers.push(match python(program, &arguments) {
                Ok(answer) => {
                    let rate = answer["rate"].as_f64();
                    Peer {
                        name,
                        version: answer["version"].as_str().map(str::to_owned),
                        examples_per_second: rate,
                        ratio: rate.map(|rate| measured.examples_per_second / rate),
                        skipped: None,
                    }
                }
                Err(reason) => Peer {
                    name,
                    version: None,
                    examples_per_second: None,
                    ratio: None,
                    skipped: Some(reason),
                },
            });
        }
        cases.push(measured);
    }
    drop(table.take());
    let (mut mechanism, mut kernel_rows_per_second) = (None, None);
    if args.loss.as_deref() != Some("softmax") {
        let steps = pool.install(whole_steps::measure).map_err(|error| error.to_string())?;
        let kernel = Table::dense(steps.rows, steps.columns)?;
        let case = Case { rows: steps.rows, columns: steps.columns, ..CASES[0] };
        let measured = pool.install(|| measure(&case, &kernel, args.seconds));
        kernel_rows_per_second = Some(measured.map_err(|error| error.to_string())?.full_pass_rows_per_second);
        mechanism = Some(steps);
    }
    let (threads, instructions) = (args.threads.max(1), Level::best().name());
    let report = Report { commit: COMMIT, threads, instructions, cases, mechanism, kernel_rows_per_second };
    let text = if args.json { serde_json::to_string_pretty(&report)? + "\n" } else { human(&report) };
    write_unless_closed(&mut std::io::stdout(), text.as_bytes())?;
    Ok(())
}

/// Rows per second of `step`, which says how many rows it took, over about `seconds`.
fn rate(
    seconds: f64,
    mut step: impl FnMut() -> Result<usize, Box<dyn std::error::Error + Send + Sync>>,
) -> Result<f64, Box<dyn std::error::Error + Send + Sync>> {
    for _ in 0..3 {
        step()?;
    }
    let start = Instant::now();
    let mut rows = 0;
    while start.elapsed().as_secs_f64() < seconds {
        rows += step()?;
    }
    Ok(rows as f64 / start.elapsed().as_secs_f64())
}

fn measure(
    case: &Case,
    table: &Table,
    seconds: f64,
) -> Result<Measured, Box<dyn std::error::Error + Send + Sync>> {
    let Case { name, rows, columns, classes, batch } = *case;
    let loss = Loss::new(if classes > 1 { LossSpec::Softmax { classes } } else { LossSpec::Logistic })?;
    let labels: Vec<f64> =
        (0..rows as u64).map(|row| (scramble(row) % classes.max(2) as u64) as f64).collect();
    // clip norm 1, noise multiplier 1; a lattice 2^10 finer than the noise, on which two digits hold most coefficients
    let longest = (table.rows.max_squared_norm() as f64).sqrt().ceil() as u64;
    let request = SumRequest {
        radius_cap: longest.saturating_mul(u64::from(QUICK_COEFFICIENT)),
        contribution_step: longest,
        ..SumRequest::l2(1.0, 1.0, rows as u64)
    };
    let lattice = SumLattice::plan(&request)?;
    let scale = 1.0 / lattice.coefficient_unit(1.0 / f64::from(FEATURE_SCALE));
    let sums = RowSums::new(&table.rows, lattice.radius())?;
    let rule = LossRule::derivative(loss, &labels, scale);
    let sampler = PoissonSampler::new(Probability::new(batch as u64, rows as u64)?);
    let mut stream = NoiseSource::from_os()?.stream()?;
    let mut weights = vec![0.0; columns * loss.outputs()];
    let step_size = 0.1 / batch as f64;
    let examples_per_second = rate(seconds, || {
        let chosen = stream.poisson_subsample(rows as u32, &sampler);
        let mut sum =
            sums.sum(&LatticeWeights::new(&weights, loss.outputs())?, &rule, Batch::Only(&chosen))?;
        lattice.add_noise(&mut stream, &mut sum);
        weights.iter_mut().zip(&sum).for_each(|(w, &g)| *w -= step_size * lattice.to_real(g));
        Ok(chosen.len())
    })?;
    let fixed = LatticeWeights::new(&weights, loss.outputs())?;
    let batches: Vec<Vec<u32>> = (0..64).map(|_| stream.poisson_subsample(rows as u32, &sampler)).collect();
    let mut turn = 0;
    let batch_gradient_rows_per_second = rate(seconds / 2.0, || {
        turn += 1;
        let chosen = &batches[turn % batches.len()];
        std::hint::black_box(sums.sum(&fixed, &rule, Batch::Only(chosen))?);
        Ok(chosen.len())
    })?;
    let full_pass_rows_per_second = rate(seconds / 2.0, || {
        std::hint::black_box(sums.sum(&fixed, &rule, Batch::All)?);
        Ok(rows)
    })?;
    Ok(Measured {
        loss: name,
        rows,
        columns,
        classes,
        expected_batch: batch,
        examples_per_second,
        batch_gradient_rows_per_second,
        full_pass_rows_per_second,
        resident_bytes: memory("VmRSS:"),
        peak_resident_bytes: memory("VmHWM:"),
        peers: Vec::new(),
    })
}

/// A line of the kernel's account of this process, in bytes, where there is one.
fn memory(line: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let found = status.lines().find_map(|text| text.strip_prefix(line))?;
    Some(1024 * found.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?)
}

fn human(report: &Report) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "threads: {}, {} instructions; examples per second of whole steps",
        report.threads, report.instructions
    );
    for case in &report.cases {
        let _ = writeln!(
            text,
            "\n{} {} x {}, {} classes, expected batch {}",
            case.loss,
            case.rows,
            case.columns,
            case.classes.max(2),
            case.expected_batch
        );
        let _ = writeln!(text, "  {:<14} {:>12.3e}", "halflit", case.examples_per_second);
        let _ = writeln!(
            text,
            "  gradients alone: batch {:.3e} rows/s, all rows {:.3e} rows/s ({:.0} %)",
            case.batch_gradient_rows_per_second,
            case.full_pass_rows_per_second,
            100.0 * case.batch_gradient_rows_per_second / case.full_pass_rows_per_second
        );
        if let (Some(now), Some(peak)) = (case.resident_bytes, case.peak_resident_bytes) {
            let _ = writeln!(
                text,
                "  resident {:.0} MB, at most {:.0} MB so far",
                now as f64 / 1e6,
                peak as f64 / 1e6
            );
        }
        for peer in &case.peers {
            let _ = match (peer.examples_per_second, peer.ratio) {
                (Some(rate), Some(ratio)) => writeln!(
                    text,
                    "  {:<14} {rate:>12.3e}   ours is {ratio:.1} times that ({})",
                    peer.name,
                    peer.version.as_deref().unwrap_or("?")
                ),
                _ => writeln!(
                    text,
                    "  {:<14} skipped: {}",
                    peer.name,
                    peer.skipped.as_deref().unwrap_or("gave no rate")
                ),
            };
        }
    }
    if let (Some(steps), Some(kernel)) = (&report.mechanism, report.kernel_rows_per_second) {
        let WholeSteps { rows, columns, full_batch_rows_per_second: full, poisson_examples_per_second } =
            steps;
        let [small, large] = poisson_examples_per_second;
        let _ = writeln!(
            text,
            "\nthe mechanism itself, logistic {rows} x {columns}: full-batch steps {full:.3e} rows/s ({:.0} % of the kernel's pass), Poisson batches of 500 \
             {small:.3e}, of 5000 {large:.3e} examples/s",
            100.0 * full / kernel
        );
    }
    text
}

/// A binomial number of distinct rows is a Poisson batch; the generator is numpy's fastest, not a secure one.
const NUMPY: &str = r#"
import os, sys
rows, columns, classes, batch, threads = map(int, sys.argv[1:6])
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = str(threads)
import json, time
import numpy as np
rng = np.random.Generator(np.random.SFC64(1))
x = rng.uniform(-1, 1, (rows, columns))
y = rng.integers(0, max(classes, 2), rows)
norms = np.sqrt((x * x).sum(1))
w = np.zeros((columns, classes)) if classes > 1 else np.zeros(columns)
def step():
    global w
    chosen = rng.choice(rows, rng.binomial(rows, batch / rows), replace=False, shuffle=False)
    part = x[chosen]
    z = part @ w
    if classes > 1:
        p = np.exp(z - z.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        p[np.arange(len(chosen)), y[chosen]] -= 1
        length = np.sqrt((p * p).sum(1))
        p *= np.minimum(1, 1 / np.maximum(length * norms[chosen], 1e-12))[:, None]
        g = part.T @ p
    else:
        p = 1 / (1 + np.exp(-z)) - y[chosen]
        p *= np.minimum(1, 1 / np.maximum(np.abs(p) * norms[chosen], 1e-12))
        g = p @ part
    w = w - 0.1 / batch * (g + rng.standard_normal(g.shape))
    return len(chosen)
for _ in range(3):
    step()
start, count = time.perf_counter(), 0
while time.perf_counter() - start < float(sys.argv[6]):
    count += step()
print(json.dumps({"rate": count / (time.perf_counter() - start), "version": np.__version__}))
"#;

/// Opacus without its data loader: per-example gradients by hooks, and ghost clipping; the quicker one counts.
const OPACUS: &str = r#"
import sys
try:
    import opacus, torch
except ImportError as error:
    sys.exit(f"{error.name} is not installed")
import json, time, warnings
warnings.filterwarnings("ignore")
from opacus import GradSampleModule
from opacus.grad_sample import GradSampleModuleFastGradientClipping
from opacus.optimizers import DPOptimizer, DPOptimizerFastGradientClipping
from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping
rows, columns, classes, batch, threads = map(int, sys.argv[1:6])
torch.set_num_threads(threads)
is_binary = classes < 2
x = torch.rand(rows, columns) * 2 - 1
y = torch.randint(0, max(classes, 2), (rows,))
y = y.float() if is_binary else y
def linear():
    return torch.nn.Linear(columns, max(classes, 1), bias=False)
def scores(model, chosen):
    return model(x[chosen])[:, 0] if is_binary else model(x[chosen])
criterion = torch.nn.BCEWithLogitsLoss() if is_binary else torch.nn.CrossEntropyLoss()
private = dict(noise_multiplier=1.0, max_grad_norm=1.0, expected_batch_size=batch)
def by_hooks():
    model = GradSampleModule(linear())
    return model, DPOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), **private), criterion
def by_ghost_clipping():
    model = GradSampleModuleFastGradientClipping(linear(), max_grad_norm=1.0, use_ghost_clipping=True)
    optimizer = DPOptimizerFastGradientClipping(torch.optim.SGD(model.parameters(), lr=0.1), **private)
    return model, optimizer, DPLossFastGradientClipping(model, optimizer, criterion, loss_reduction="mean")
best = 0
for way in (by_hooks, by_ghost_clipping):
    model, optimizer, loss = way()
    def step():
        chosen = torch.randint(0, rows, (batch,))
        optimizer.zero_grad()
        loss(scores(model, chosen), y[chosen]).backward()
        optimizer.step()
        return batch
    for _ in range(3):
        step()
    start, count = time.perf_counter(), 0
    while time.perf_counter() - start < float(sys.argv[6]):
        count += step()
    best = max(best, count / (time.perf_counter() - start))
print(json.dumps({"rate": best, "version": opacus.__version__}))
"#;

/// Clipped gradients by JAX Privacy, compiled; one vector of weights where there are two classes.
const JAX: &str = r#"
import os, sys
rows, columns, classes, batch, threads = map(int, sys.argv[1:6])
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
try:
    import jax_privacy, jax
except ImportError as error:
    sys.exit(f"{error.name} is not installed")
import json, time
import jax.numpy as jnp
import numpy as np
is_binary = classes < 2
rng = np.random.default_rng(1)
x = rng.uniform(-1, 1, (rows, columns)).astype(np.float32)
y = rng.integers(0, max(classes, 2), rows)
def two_classes(w, x, y):
    z = x @ w
    return (jnp.logaddexp(0.0, z) - y * z).mean()
def several_classes(w, x, y):
    z = x @ w
    return (jax.nn.logsumexp(z, axis=-1) - jnp.take_along_axis(z, y[..., None], -1)[..., 0]).mean()
loss = two_classes if is_binary else several_classes
clipped = jax_privacy.clipped_grad(loss, batch_argnums=(1, 2), l2_clip_norm=1.0)
@jax.jit
def update(w, key, x, y):
    g = clipped(w, x, y)
    return w - 0.1 / batch * (g + jax.random.normal(key, g.shape))
w, key = jnp.zeros(columns if is_binary else (columns, classes), jnp.float32), jax.random.key(0)
def step():
    global w, key
    key, now = jax.random.split(key)
    chosen = rng.integers(0, rows, batch)
    w = update(w, now, x[chosen], y[chosen]).block_until_ready()
    return batch
for _ in range(3):
    step()
start, count = time.perf_counter(), 0
while time.perf_counter() - start < float(sys.argv[6]):
    count += step()
print(json.dumps({"rate": count / (time.perf_counter() - start), "version": getattr(jax_privacy, "__version__", "?")}))
"#;
