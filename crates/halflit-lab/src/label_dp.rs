//! Label privacy on real tables: one release of label sums beside randomized response, noisy gradients and no privacy at all.

use crate::Outcome;
use crate::label_tables::{LabelTable, TABLES};
use crate::record::{self, COMMIT, Measured, write};
use halflit::mechanisms::noisy_gradient::parts::Sampling;
use halflit::mechanisms::noisy_gradient::{Centre, Params};
use halflit::mechanisms::public_rows;
use halflit::noise::{NoiseSource, Probability};
use halflit::plot::{LineChart, Scale, Series};
use halflit::table::{Budget, Declaration, Declared, OutOfDomain, Table};
use halflit::{Ledger, Model, Plans, Problem, Request};
use serde_json::json;
use std::path::PathBuf;

/// Label privacy (replace, rows) on real tables: accuracy, log loss and excess training loss of every mechanism over epsilon.
///
/// Hyperparameters are those that the mechanisms choose from public information; nothing here is tuned.
#[derive(clap::Args)]
pub struct Args {
    /// The tables.
    #[arg(long, value_delimiter = ',', default_values_t = TABLES.map(|table| table.name.to_owned()))]
    tables: Vec<String>,
    /// The epsilons.
    #[arg(long, value_delimiter = ',', default_values_t = [0.1, 0.25, 0.5, 1.0, 2.0, 4.0])]
    epsilons: Vec<f64>,
    /// Delta.
    #[arg(long, default_value_t = 1e-6)]
    delta: f64,
    /// The mechanisms.
    #[arg(long, value_delimiter = ',', default_values_t = CONTENDERS.map(|contender| contender.name.to_owned()))]
    mechanisms: Vec<String>,
    /// Runs per table, epsilon and mechanism.
    #[arg(long, default_value_t = 20)]
    runs: usize,
    /// Adult alone, two epsilons, three runs.
    #[arg(long)]
    quick: bool,
    /// Where label-dp.csv and one SVG per table go.
    #[arg(long, value_name = "FOLDER", default_value = record::FOLDER)]
    out: PathBuf,
    /// Answer in JSON.
    #[arg(long)]
    json: bool,
}

/// A mechanism with what distinguishes it here.
#[derive(Clone, Copy)]
struct Contender {
    name: &'static str,
    mechanism: &'static str,
    centre: Option<Centre>,
    /// One over the sampling rate.
    batches: Option<u64>,
}

const CONTENDERS: [Contender; 8] = [
    by_name("noisy_statistics"),
    by_name("randomized_response"),
    by_name("belief_centred"),
    by_name("belief_updates"),
    gradient("gradient_midrange", Centre::Midrange, None),
    gradient("gradient_zero", Centre::Zero, None),
    // The case study of Mahloujifar et al. 2023, Section 2.1, and what it is compared with there.
    gradient("feature_dp_sgd", Centre::Imputed, Some(16)),
    gradient("dp_sgd", Centre::Zero, Some(16)),
];

const fn by_name(name: &'static str) -> Contender {
    Contender { name, mechanism: name, centre: None, batches: None }
}

const fn gradient(name: &'static str, centre: Centre, batches: Option<u64>) -> Contender {
    Contender { name, mechanism: "noisy_gradient", centre: Some(centre), batches }
}

/// What one model does.
#[derive(Clone, Copy, Default)]
struct Score {
    accuracy: f64,
    log_loss: f64,
    excess: f64,
}

/// Mean and standard error of the mean over runs.
struct Row {
    table: &'static str,
    mechanism: &'static str,
    epsilon: f64,
    runs: usize,
    mean: Score,
    error: Score,
    predicted: f64,
    seconds: f64,
}

pub fn run(mut args: Args) -> Outcome {
    if args.quick {
        (args.tables, args.epsilons, args.runs) = (vec!["adult".to_owned()], vec![0.25, 1.0], 3);
    }
    let mut rows = Vec::new();
    let mut references = Vec::new();
    for name in &args.tables {
        let Some(table) = TABLES.iter().find(|table| table.name == *name) else {
            return Err(format!(
                "there is no table {name}; there are: {}",
                TABLES.map(|table| table.name).join(", ")
            )
            .into());
        };
        let Some(bench) = Bench::new(table)? else {
            println!("skipped: ../shared/data/{name} is not there");
            continue;
        };
        references.push((table.name, bench.reference, bench.train_loss));
        for &epsilon in &args.epsilons {
            for contender in CONTENDERS.iter().filter(|c| args.mechanisms.iter().any(|name| name == c.name)) {
                let row = bench.measure(contender, epsilon, args.delta, args.runs.max(1))?;
                if !args.json {
                    eprintln!("  {} {} {}: {:.1} s", row.table, row.mechanism, row.epsilon, row.seconds);
                }
                rows.push(row);
            }
        }
    }
    write_files(&args.out, args.delta, &rows)?;
    if args.json {
        let references: Vec<_> = references
            .iter()
            .map(|(table, score, _)| json!({ "table": table, "accuracy": score.accuracy, "log_loss": score.log_loss }))
            .collect();
        let rows: Vec<_> = rows.iter().map(Row::json).collect();
        println!(
            "{}",
            json!({ "experiment": "label-dp", "commit": COMMIT, "delta": args.delta, "non_private": references, "rows": rows })
        );
        return Ok(());
    }
    println!(
        "Label privacy, unit row, replace, delta = {:e}, {} runs, commit {COMMIT}. Excess: mean training loss above the non-private fit.\n",
        args.delta, args.runs
    );
    for (table, score, train_loss) in references {
        println!(
            "{table}: non-private accuracy {:.4}, log loss {:.4} (training {train_loss:.4})",
            score.accuracy, score.log_loss
        );
        println!(
            "  {:>7} {:<20} {:>16} {:>16} {:>18} {:>10}",
            "epsilon", "mechanism", "accuracy", "log loss", "excess", "predicted"
        );
        for row in rows.iter().filter(|row| row.table == table) {
            println!(
                "  {:>7} {:<20} {:.4} ± {:.4}  {:.4} ± {:.4}  {:.5} ± {:.5}  {:>9.5}",
                row.epsilon,
                row.mechanism,
                row.mean.accuracy,
                row.error.accuracy,
                row.mean.log_loss,
                row.error.log_loss,
                row.mean.excess,
                row.error.excess,
                row.predicted
            );
        }
        println!();
    }
    Ok(())
}

/// A table split into training and test rows, and what can be reached without privacy.
struct Bench {
    table: &'static LabelTable,
    declaration: Declaration,
    train: PathBuf,
    test: Table,
    /// Held so that the split files live as long as the bench.
    _files: tempfile::TempDir,
    reference: Score,
    train_loss: f64,
}

impl Bench {
    fn new(table: &'static LabelTable) -> Result<Option<Self>, Box<dyn std::error::Error>> {
        let files = tempfile::tempdir()?;
        let Some((train, test)) = table.split_files(files.path())? else { return Ok(None) };
        let declaration = Declaration::parse(&table.declaration(), table.name)?;
        let problem = pose(&declaration, &train)?;
        let encoding = problem.encoding().clone();
        let training = Table::read(&train, &encoding.read_options(true))?;
        let rows = encoding.encode_features(&training, OutOfDomain::Coerce)?;
        let labels = encoding.encode_labels(&training, OutOfDomain::Coerce)?;
        // A penalty that moves the loss by less than what is reported.
        let weights = public_rows::fit(problem.loss(), &rows, &labels, problem.row_norm_bound(), 1e-7, None)?;
        let weights = weights.chunks(encoding.width()).map(<[f64]>::to_vec).collect();
        let model = Model::new(problem.loss(), encoding.clone(), weights)?;
        let train_loss = model.evaluate(&training, OutOfDomain::Coerce)?.mean_loss;
        let test = Table::read(&test, &encoding.read_options(true))?;
        let evaluation = model.evaluate(&test, OutOfDomain::Coerce)?;
        let accuracy = evaluation.accuracy.unwrap_or(f64::NAN);
        let reference = Score { accuracy, log_loss: evaluation.mean_loss, excess: 0.0 };
        Ok(Some(Bench { table, declaration, train, test, _files: files, reference, train_loss }))
    }

    fn measure(
        &self,
        contender: &Contender,
        epsilon: f64,
        delta: f64,
        runs: usize,
    ) -> Result<Row, Box<dyn std::error::Error>> {
        let start = std::time::Instant::now();
        let training =
            Table::read(&self.train, &pose(&self.declaration, &self.train)?.encoding().read_options(true))?;
        let rate = contender.batches.map(|batches| Probability::new(1, batches)).transpose()?;
        let sampling = rate.map(Sampling::Poisson);
        let request = Request {
            budget: Some(Budget { epsilon, delta }),
            mechanism: Some(contender.mechanism.to_owned()),
            gradient: Params { centre: contender.centre, sampling, ..Params::default() },
        };
        let mut scores = Vec::with_capacity(runs);
        let mut predicted = 0.0;
        for _ in 0..runs {
            let plan = Plans::new(pose(&self.declaration, &self.train)?, &request)?.best()?;
            predicted = plan.summary().predicted_excess;
            let ledger = tempfile::tempdir()?;
            let charged = Ledger::open_or_create(&ledger.path().join("ledger"))?.charge(plan)?;
            let model = charged.run(&mut NoiseSource::from_os()?, &mut ())?.release(&[])?.model;
            let on_test = model.evaluate(&self.test, OutOfDomain::Coerce)?;
            let on_training = model.evaluate(&training, OutOfDomain::Coerce)?;
            scores.push(Score {
                accuracy: on_test.accuracy.unwrap_or(f64::NAN),
                log_loss: on_test.mean_loss,
                excess: on_training.mean_loss - self.train_loss,
            });
        }
        let (mean, error) = summarised(&scores);
        let seconds = start.elapsed().as_secs_f64();
        Ok(Row {
            table: self.table.name,
            mechanism: contender.name,
            epsilon,
            runs,
            mean,
            error,
            predicted,
            seconds,
        })
    }
}

fn pose(declaration: &Declaration, train: &std::path::Path) -> Result<Problem, Box<dyn std::error::Error>> {
    let table = Table::read(train, &declaration.read_options())?;
    Ok(Problem::pose(Declared::bind(declaration.clone(), table)?, OutOfDomain::Refuse)?)
}

fn summarised(scores: &[Score]) -> (Score, Score) {
    let of = |value: fn(&Score) -> f64| {
        let values: Vec<f64> = scores.iter().map(value).collect();
        Measured::of(&values).map_or((f64::NAN, f64::NAN), |found| (found.mean, found.standard_error))
    };
    let (accuracy, log_loss, excess) = (of(|s| s.accuracy), of(|s| s.log_loss), of(|s| s.excess));
    (
        Score { accuracy: accuracy.0, log_loss: log_loss.0, excess: excess.0 },
        Score { accuracy: accuracy.1, log_loss: log_loss.1, excess: excess.1 },
    )
}

impl Row {
    fn json(&self) -> serde_json::Value {
        json!({
            "table": self.table, "mechanism": self.mechanism, "epsilon": self.epsilon, "runs": self.runs,
            "accuracy": self.mean.accuracy, "accuracy_error": self.error.accuracy,
            "log_loss": self.mean.log_loss, "log_loss_error": self.error.log_loss,
            "excess": self.mean.excess, "excess_error": self.error.excess,
            "predicted_excess": self.predicted,
        })
    }
}

fn write_files(folder: &std::path::Path, delta: f64, rows: &[Row]) -> Outcome {
    let mut csv =
        format!("# label-dp, commit {COMMIT}, delta {delta:e}; the tables are split by row number\n");
    csv += "table,mechanism,epsilon,runs,accuracy,accuracy_error,log_loss,log_loss_error,excess,excess_error,predicted_excess\n";
    for row in rows {
        let Row { table, mechanism, epsilon, runs, mean, error, predicted, .. } = row;
        csv.push_str(&format!(
            "{table},{mechanism},{epsilon},{runs},{},{},{},{},{},{},{predicted}\n",
            mean.accuracy, error.accuracy, mean.log_loss, error.log_loss, mean.excess, error.excess
        ));
    }
    write(folder, "label-dp.csv", &csv)?;
    for table in TABLES.iter().filter(|table| rows.iter().any(|row| row.table == table.name)) {
        let series = CONTENDERS.iter().filter_map(|contender| {
            let points: Vec<(f64, f64)> = rows
                .iter()
                .filter(|row| row.table == table.name && row.mechanism == contender.name)
                .map(|row| (row.epsilon, row.mean.excess.max(1e-6)))
                .collect();
            (!points.is_empty()).then(|| Series::line(contender.name, points).marked())
        });
        let chart = LineChart {
            title: format!("Label privacy on {}", table.name),
            x_label: "epsilon".to_owned(),
            y_label: "excess training loss".to_owned(),
            x_scale: Scale::Log,
            y_scale: Scale::Log,
            series: series.collect(),
        };
        write(folder, &format!("label-dp-{}.svg", table.name), &chart.to_svg())?;
    }
    Ok(())
}
