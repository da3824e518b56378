//! The certified solvers beside scikit-learn on real tables: one optimum, found twice.

use crate::Outcome;
use crate::datasets::shared_data;
use crate::peers::python;
use crate::sample::write_unless_closed;
use halflit_convex::solver::{Problem, ProblemSpec, minimize};
use halflit_convex::{DenseRows, Domain, FEATURE_SCALE, Interval, Loss, LossSpec, Rows};
use serde::Serialize;
use serde_json::Value;
use std::fmt::Write;
use std::path::Path;
use std::time::Instant;

/// Compare the certified solvers with scikit-learn on real tables (../shared/data) and print the largest difference.
///
/// Python encodes each table, rounds it to the feature lattice and fits scikit-learn's models; the same integers are then minimized here. The
/// objective is the average loss plus lambda/2 ||w||^2, the intercept being a column like the others.
#[derive(clap::Args)]
pub struct Args {
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
    /// The regularization lambda.
    #[arg(long, default_value_t = 0.01)]
    regularization: f64,
}

/// The tables: folder, file, label column.
const TABLES: [(&str, &str, &str); 4] = [
    ("wine_quality", "wine_quality.csv.gz", "quality"),
    ("adult", "adult_train.csv.gz", "income"),
    ("bank_marketing", "bank_additional_full.csv.gz", "y"),
    ("california_housing", "california_housing.csv.gz", "median_house_value"),
];

#[derive(Serialize)]
struct Report {
    regularization: f64,
    scikit_learn: Option<String>,
    fits: Vec<Fit>,
    skipped: Vec<String>,
    largest_difference: f64,
}

#[derive(Serialize)]
struct Fit {
    table: String,
    rows: usize,
    columns: usize,
    loss: String,
    /// Distance between the two answers; what exceeds `certified` is the peer's.
    difference: f64,
    /// Proved distance of ours to the optimum.
    certified: f64,
    evidence: String,
    seconds: f64,
    scikit_learn_seconds: f64,
}

pub fn run(args: Args) -> Outcome {
    let mut report = Report {
        regularization: args.regularization,
        scikit_learn: None,
        fits: Vec::new(),
        skipped: Vec::new(),
        largest_difference: 0.0,
    };
    for (name, file, label) in TABLES {
        let Some(path) = shared_data(name).map(|folder| folder.join(file)).filter(|path| path.is_file())
        else {
            report.skipped.push(format!("skipped: ../shared/data/{name}/{file} is not there"));
            continue;
        };
        let folder = tempfile::tempdir()?;
        let arguments = [&*path.to_string_lossy(), label, &*folder.path().to_string_lossy()]
            .map(str::to_owned)
            .into_iter()
            .chain([args.regularization.to_string()])
            .collect::<Vec<_>>();
        match python(PEER, &arguments) {
            Err(reason) => report.skipped.push(format!("skipped: {name}: {reason}")),
            Ok(answer) => compare(&mut report, name, folder.path(), &answer)?,
        }
    }
    report.largest_difference = report.fits.iter().map(|fit| fit.difference).fold(0.0, f64::max);
    let text = if args.json { serde_json::to_string_pretty(&report)? + "\n" } else { human(&report) };
    write_unless_closed(&mut std::io::stdout(), text.as_bytes())?;
    Ok(())
}

/// Minimizes what scikit-learn minimized.
fn compare(report: &mut Report, table: &str, folder: &Path, answer: &Value) -> Outcome {
    report.scikit_learn = answer["version"].as_str().map(str::to_owned);
    let columns = answer["columns"].as_u64().ok_or("the peer gave no width")? as usize;
    let bytes = std::fs::read(folder.join("rows"))?;
    let values = bytes.as_chunks::<2>().0.iter().map(|&pair| i16::from_le_bytes(pair)).collect();
    let rows: Rows = DenseRows::from_values(columns, values)?.into();
    let row_norm = (rows.max_squared_norm() as f64).sqrt() / f64::from(FEATURE_SCALE) * (1.0 + 1e-12);
    for model in answer["models"].as_array().into_iter().flatten() {
        let name = model["loss"].as_str().ok_or("a model without a loss")?;
        let labels = std::fs::read(folder.join(name))?;
        let labels: Vec<f64> =
            labels.as_chunks::<8>().0.iter().map(|&eight| f64::from_le_bytes(eight)).collect();
        let (loss, scale) = loss_named(name, &labels)?;
        let theirs: Vec<f64> = serde_json::from_value(model["weights"].clone())?;
        let problem = Problem::new(ProblemSpec {
            rows: &rows,
            row_norm,
            labels: Some(&labels),
            row_weights: None,
            total_weight: rows.len() as f64,
            loss,
            regularization: report.regularization / scale,
            anchor: None,
            linear: None,
            domain: Domain::whole(theirs.len(), None)?,
        })?;
        let start = Instant::now();
        let tolerance = problem.smallest_tolerance().max(if loss.is_smooth() { 1e-10 } else { 1e-7 });
        let solution = minimize(&problem, tolerance)?;
        let squared: f64 = solution.weights.iter().zip(&theirs).map(|(a, b)| (a - b) * (a - b)).sum();
        report.fits.push(Fit {
            table: table.to_owned(),
            rows: rows.len(),
            columns,
            loss: name.to_owned(),
            difference: squared.sqrt(),
            certified: solution.certificate.distance,
            evidence: format!("{:?}", solution.certificate.evidence),
            seconds: start.elapsed().as_secs_f64(),
            scikit_learn_seconds: model["seconds"].as_f64().unwrap_or(f64::NAN),
        });
    }
    Ok(())
}

/// The loss that a peer's model minimizes, and by how much the peer's is larger.
fn loss_named(name: &str, labels: &[f64]) -> Result<(Loss, f64), Box<dyn std::error::Error>> {
    let classes = labels.iter().copied().fold(0.0, f64::max) as usize + 1;
    let labels = Interval::UNIT;
    Ok(match name {
        "logistic" => (Loss::new(LossSpec::Logistic)?, 1.0),
        "softmax" => (Loss::new(LossSpec::Softmax { classes })?, 1.0),
        "squared" => (Loss::new(LossSpec::Squared { labels })?, 1.0),
        "poisson" => (Loss::new(LossSpec::Poisson { max_count: 10.0, max_abs_score: 3.0 })?, 1.0),
        "hinge" => (Loss::new(LossSpec::Hinge)?, 1.0),
        // max(0, 1 - yz)^2 is 16 times the smoothed hinge of width 8, as long as no margin is below -7
        "squared hinge" => (Loss::new(LossSpec::SmoothedHinge { smoothing: 8.0 })?, 16.0),
        "absolute" => (Loss::new(LossSpec::Absolute { labels })?, 1.0),
        _ => return Err(format!("no loss is called {name}").into()),
    })
}

fn human(report: &Report) -> String {
    let mut text = String::new();
    let version = report.scikit_learn.as_deref().unwrap_or("absent");
    let _ = writeln!(text, "scikit-learn {version}, lambda = {}\n", report.regularization);
    let _ = writeln!(
        text,
        "{:<20} {:>7} {:>5} {:<14} {:>11} {:>11} {:>9} {:>9}",
        "table", "rows", "cols", "loss", "difference", "certified", "seconds", "theirs"
    );
    for fit in &report.fits {
        let _ = writeln!(
            text,
            "{:<20} {:>7} {:>5} {:<14} {:>11.2e} {:>11.2e} {:>9.2} {:>9.2}",
            fit.table,
            fit.rows,
            fit.columns,
            fit.loss,
            fit.difference,
            fit.certified,
            fit.seconds,
            fit.scikit_learn_seconds
        );
    }
    for line in &report.skipped {
        let _ = writeln!(text, "{line}");
    }
    let _ = writeln!(
        text,
        "largest difference: {:.2e}; ours is proved to lie within `certified` of the optimum, so what exceeds that is theirs",
        report.largest_difference
    );
    text
}

/// Encodes a table, writes its lattice rows and labels, fits scikit-learn's models and prints their weights.
const PEER: &str = r#"
import json, sys, time, warnings
warnings.filterwarnings("ignore")
import numpy as np, pandas as pd, sklearn
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.svm import LinearSVC, LinearSVR
path, label, folder, lam = sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4])
table = pd.read_csv(path)
table = table[table[label].notna()]
target = table.pop(label)
parts = [np.ones((len(table), 1))]
for name in table:
    column = table[name]
    if column.dtype.kind in "if":
        low, high = column.min(), column.max()
        parts.append(((column.fillna(low) - low) / max(high - low, 1e-9) * 2 - 1).to_numpy()[:, None])
    else:
        parts.append(pd.get_dummies(column.fillna("?")).to_numpy(float))
rows = np.rint(np.hstack(parts) * 16384).astype("<i2")
rows.tofile(folder + "/rows")
x = rows / 16384
strength = 1 / (len(x) * lam)
models = []
def fit(loss, labels, model):
    labels = np.asarray(labels, dtype="<f8")
    labels.tofile(folder + "/" + loss)
    start = time.perf_counter()
    weights = model.fit(x, labels).coef_
    models.append({"loss": loss, "weights": np.ravel(weights).tolist(), "seconds": time.perf_counter() - start})
if target.dtype.kind in "if":
    low, high = target.min(), target.max()
    unit = (target - low) / (high - low) * 2 - 1
    fit("squared", unit, Ridge(alpha=1 / strength, fit_intercept=False, solver="cholesky"))
    if len(x) < 10_000:
        fit("absolute", unit, LinearSVR(C=strength, epsilon=0, fit_intercept=False, tol=1e-12, max_iter=1_000_000, random_state=0))
    if target.nunique() <= 20:
        fit("softmax", target - low, LogisticRegression(C=strength, fit_intercept=False, tol=1e-13, solver="newton-cg", max_iter=10_000))
        fit("poisson", target, PoissonRegressor(alpha=lam, fit_intercept=False, tol=1e-13, solver="newton-cholesky", max_iter=1000))
    positive = (target > target.median()).to_numpy()
else:
    positive = (target == target.value_counts().index[-1]).to_numpy()
fit("logistic", positive, LogisticRegression(C=strength, fit_intercept=False, tol=1e-13, solver="newton-cholesky", max_iter=1000))
sign = np.where(positive, 1.0, -1.0)
if len(x) < 10_000:
    fit("hinge", sign, LinearSVC(C=strength, loss="hinge", fit_intercept=False, tol=1e-12, max_iter=1_000_000, random_state=0))
fit("squared hinge", sign, LinearSVC(C=strength, loss="squared_hinge", dual=False, fit_intercept=False, tol=1e-13, max_iter=100_000))
print(json.dumps({"version": sklearn.__version__, "columns": x.shape[1], "models": models}))
"#;
