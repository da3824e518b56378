//! Feature DP (Mahloujifar et al. 2023, Figure 1): a perceptron when some features and the label are public.
//!
//! Purchase100 is not to be had. Stand-ins: Location-30 (real, smaller) and a synthetic mixture of its shape. Neither reproduces the paper's
//! figure; what can be compared is how much the public features buy at equal epsilon.

mod data;
mod training;

use crate::Outcome;
use crate::record::{self, COMMIT, write};
use data::{Data, Mixture, Padding, location30};
use halflit::plot::{LineChart, Scale, Series};
use halflit::privacy::{Delta, Profile};
use serde_json::json;
use std::path::PathBuf;
use training::{Method, Settings, event, train};

/// Train a perceptron when some features and the label are public: feature DP beside DP-SGD, public features alone and no privacy.
///
/// Two independent Poisson batches per step (rate 1/16, noise multiplier 1, as in the paper); the private gradient is centred at the gradient of the padded
/// row and clipped to a radius, priced under replace. The model is not convex.
#[derive(clap::Args)]
pub struct Args {
    /// The table: a synthetic mixture of the shape of Purchase100, or Location-30.
    #[arg(long, value_enum, default_value_t = Source::Synthetic)]
    data: Source,
    /// Rows of the synthetic mixture.
    #[arg(long, default_value_t = 197_324)]
    rows: usize,
    /// Features of the synthetic mixture.
    #[arg(long, default_value_t = 600)]
    features: usize,
    /// Classes of the synthetic mixture.
    #[arg(long, default_value_t = 100)]
    classes: usize,
    /// How many features are public, chosen by lot.
    #[arg(long, default_value_t = 100)]
    public: usize,
    /// Hidden units.
    #[arg(long, default_value_t = 300)]
    hidden: usize,
    /// Passes over the table.
    #[arg(long, default_value_t = 10)]
    epochs: u64,
    /// What stands in for private features in public rows.
    #[arg(long, value_enum, default_value_t = Padding::Zero)]
    padding: Padding,
    /// Noise standard deviation over clip norm.
    #[arg(long, default_value_t = 1.0)]
    noise_multiplier: f64,
    /// Clip norm of the private gradient; by default the best of a rehearsal on a mixture with another seed, for every method by itself.
    #[arg(long)]
    clip_norm: Option<f64>,
    /// Weight of the private gradient beside the public one; by default likewise.
    #[arg(long)]
    alpha: Option<f64>,
    /// Weight of the public regularizer: the public loss once more.
    #[arg(long, default_value_t = 0.0)]
    public_regularizer: f64,
    /// Learning rate; by default likewise.
    #[arg(long)]
    learning_rate: Option<f64>,
    /// Momentum.
    #[arg(long, default_value_t = 0.9)]
    momentum: f64,
    /// Delta of the guarantee.
    #[arg(long, default_value_t = 1e-6)]
    delta: f64,
    /// Seed of the table, the public columns and the first weights; the noise always comes from the operating system.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// A mixture of 20,000 rows, 200 features (50 public) and 20 classes, 64 hidden units.
    #[arg(long)]
    quick: bool,
    /// Where feature-dp.csv and feature-dp.svg go.
    #[arg(long, value_name = "FOLDER", default_value = record::FOLDER)]
    out: PathBuf,
    /// Answer in JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Source {
    Synthetic,
    Location30,
}

/// The paper's sampling rate is 1/16.
const ONE_IN: u64 = 16;

/// How often a run is evaluated.
const CHECKPOINTS: u64 = 8;

/// A method's test accuracy at a price.
struct Row {
    method: Method,
    step: u64,
    epsilon: f64,
    accuracy: f64,
    loss: f64,
}

pub fn run(mut args: Args) -> Outcome {
    if args.quick {
        (args.rows, args.features, args.public, args.classes, args.hidden) = (20_000, 200, 50, 20, 64);
    }
    let Some(data) = table(&args)? else {
        println!("skipped: ../shared/data/location30 is not there");
        return Ok(());
    };
    let rehearsal = Rehearsal::new(&args, &data)?;
    let padded = data.padded(args.padding, args.seed)?;
    let steps = (args.epochs * ONE_IN).max(1);
    let checkpoints: Vec<u64> = (1..=CHECKPOINTS).map(|part| (steps * part).div_ceil(CHECKPOINTS)).collect();
    let (mut rows, mut chosen) = (Vec::new(), Vec::new());
    for method in Method::ALL {
        let settings = rehearsal.choose(&args, method, steps)?;
        let Settings { learning_rate, clip_norm, alpha, .. } = settings;
        eprintln!("  {}: learning rate {learning_rate}, clip norm {clip_norm}, alpha {alpha}", method.name());
        chosen.push(json!({ "method": method.name(), "settings": settings }));
        for checkpoint in train(&data, &padded, method, &settings, &checkpoints, args.seed)? {
            let epsilon = match method {
                Method::NotPrivate => f64::INFINITY,
                Method::PublicOnly => 0.0,
                Method::DpSgd | Method::FeatureDp => {
                    Profile::of(&event(&settings, checkpoint.step)?)?.epsilon(Delta::new(args.delta)?).upper
                }
            };
            let (accuracy, loss) = (checkpoint.evaluation.accuracy, checkpoint.evaluation.average_loss);
            rows.push(Row { method, step: checkpoint.step, epsilon, accuracy, loss });
        }
    }
    write_files(&args.out, &args, &rows)?;
    if args.json {
        let rows: Vec<_> = rows.iter().map(Row::json).collect();
        println!(
            "{}",
            json!({
                "experiment": "feature-dp", "commit": COMMIT, "data": what(&args, &data), "padding": format!("{:?}", args.padding),
                "delta": args.delta, "seed": args.seed, "chosen": chosen, "rows": rows,
            })
        );
        return Ok(());
    }
    println!("{}; seed {}, commit {COMMIT}\n", what(&args, &data), args.seed);
    println!("  {:<22} {:>6} {:>9} {:>10} {:>10}", "method", "step", "epsilon", "accuracy", "log loss");
    for Row { method, step, epsilon, accuracy, loss } in &rows {
        println!("  {:<22} {step:>6} {epsilon:>9.3} {accuracy:>10.4} {loss:>10.4}", method.name());
    }
    Ok(())
}

/// A made-up table of the same shape on which every method's settings are chosen: no cell of the real one is used.
struct Rehearsal {
    data: Data,
    padded: halflit_convex::Rows,
    /// Rows of the real table over rows of this one.
    ratio: f64,
}

/// Rows of a rehearsal at most, and steps.
const REHEARSAL_ROWS: usize = 20_000;
const REHEARSAL_STEPS: u64 = 160;

const LEARNING_RATES: [f64; 5] = [0.1, 0.2, 0.5, 1.0, 2.0];
const CLIP_NORMS: [f64; 3] = [0.25, 0.5, 1.0];
const ALPHAS: [f64; 4] = [1.0, 2.0, 4.0, 8.0];

impl Rehearsal {
    fn new(args: &Args, data: &Data) -> Result<Self, Box<dyn std::error::Error>> {
        let rows = data.train.rows.len().min(REHEARSAL_ROWS);
        let mixture = Mixture {
            rows,
            test_rows: (rows / 10).max(1),
            features: data.train.rows.width() - 1,
            public: data.public_columns.len() - 1,
            classes: data.classes,
            seed: args.seed ^ 0xface,
        };
        let made_up = mixture.draw()?;
        let padded = made_up.padded(args.padding, args.seed)?;
        Ok(Rehearsal { data: made_up, padded, ratio: data.train.rows.len() as f64 / rows as f64 })
    }

    /// The settings with the smallest log loss in the rehearsal, where they are not given. Every method has the same choice.
    fn choose(
        &self,
        args: &Args,
        method: Method,
        steps: u64,
    ) -> Result<Settings, Box<dyn std::error::Error>> {
        let is_noisy = matches!(method, Method::DpSgd | Method::FeatureDp);
        let options = |given: Option<f64>, list: &[f64], matters: bool| match given {
            Some(value) => vec![value],
            None if matters => list.to_vec(),
            None => vec![1.0],
        };
        let mut best: Option<(f64, Settings)> = None;
        for &learning_rate in &options(args.learning_rate, &LEARNING_RATES, true) {
            for &clip_norm in &options(args.clip_norm, &CLIP_NORMS, is_noisy) {
                for &alpha in &options(args.alpha, &ALPHAS, method == Method::FeatureDp) {
                    let settings = Settings {
                        hidden: args.hidden,
                        steps,
                        one_in: ONE_IN,
                        noise_multiplier: args.noise_multiplier,
                        clip_norm,
                        alpha,
                        public_regularizer: args.public_regularizer,
                        learning_rate,
                        momentum: args.momentum,
                    };
                    // A smaller batch with less noise has the same noise per example.
                    let small = Settings {
                        steps: steps.min(REHEARSAL_STEPS),
                        noise_multiplier: args.noise_multiplier / self.ratio,
                        ..settings
                    };
                    let end = [small.steps];
                    let reached = train(&self.data, &self.padded, method, &small, &end, args.seed)?;
                    let loss = reached.last().map_or(f64::INFINITY, |last| last.evaluation.average_loss);
                    if best.is_none_or(|(least, _)| loss < least) {
                        best = Some((loss, settings));
                    }
                }
            }
        }
        best.map(|(_, settings)| settings).ok_or("there was nothing to choose from".into())
    }
}

fn table(args: &Args) -> Result<Option<Data>, Box<dyn std::error::Error>> {
    match args.data {
        Source::Location30 => location30(args.public, args.seed),
        Source::Synthetic => {
            let mixture = Mixture {
                rows: args.rows,
                test_rows: (args.rows / 10).max(1),
                features: args.features,
                public: args.public,
                classes: args.classes,
                seed: args.seed,
            };
            mixture.draw().map(Some)
        }
    }
}

/// One sentence on what was trained on and under which relation.
fn what(args: &Args, data: &Data) -> String {
    let name = match args.data {
        Source::Synthetic => "SYNTHETIC Bernoulli mixture (a stand-in for Purchase100, not the paper's data)",
        Source::Location30 => "Location-30 (a stand-in for Purchase100, not the paper's data)",
    };
    format!(
        "{name}: {} rows, {} features of which {} public, {} classes; neighbours differ in the private features of one row (DP-SGD: in the whole row), \
         replace, delta {:e}",
        data.train.rows.len(),
        data.train.rows.width() - 1,
        data.public_columns.len() - 1,
        data.classes,
        args.delta
    )
}

impl Row {
    fn json(&self) -> serde_json::Value {
        // JSON has no infinity: no epsilon means no privacy
        let epsilon = self.epsilon.is_finite().then_some(self.epsilon);
        json!({ "method": self.method.name(), "step": self.step, "epsilon": epsilon, "accuracy": self.accuracy, "log_loss": self.loss })
    }
}

fn write_files(folder: &std::path::Path, args: &Args, rows: &[Row]) -> Outcome {
    let mut csv = format!("# feature-dp, {:?} data, commit {COMMIT}, seed {}\n", args.data, args.seed);
    csv += "method,step,epsilon,accuracy,log_loss\n";
    for Row { method, step, epsilon, accuracy, loss } in rows {
        csv.push_str(&format!("{},{step},{epsilon},{accuracy},{loss}\n", method.name()));
    }
    write(folder, "feature-dp.csv", &csv)?;
    // References without an epsilon are drawn over the steps of the others.
    let priced: Vec<&Row> = rows.iter().filter(|row| row.method == Method::FeatureDp).collect();
    let series = Method::ALL.map(|method| {
        let own = rows.iter().filter(|row| row.method == method);
        let points = own.zip(&priced).map(|(row, priced)| (priced.epsilon, row.accuracy)).collect();
        let line = Series::line(method.name(), points).marked();
        if matches!(method, Method::NotPrivate | Method::PublicOnly) { line.dashed() } else { line }
    });
    let chart = LineChart {
        title: format!("Feature DP, {:?} data: test accuracy", args.data),
        x_label: format!("epsilon at delta {:e} (dashed: the same steps at no price)", args.delta),
        y_label: "test accuracy".to_owned(),
        x_scale: Scale::Linear,
        y_scale: Scale::Linear,
        series: series.to_vec(),
    };
    write(folder, "feature-dp.svg", &chart.to_svg())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use halflit::privacy::{Change, Event, NoiseMultiplier, SamplingRate};

    fn small() -> Data {
        let mixture = Mixture { rows: 400, test_rows: 100, features: 20, public: 5, classes: 3, seed: 7 };
        mixture.draw().unwrap()
    }

    #[test]
    fn padding_keeps_public_columns_and_hides_the_others() {
        let data = small();
        for padding in [Padding::Zero, Padding::Gaussian] {
            let padded = data.padded(padding, 1).unwrap();
            for row in 0..20 {
                let (own, public) = (data.train.rows.dense_row(row).unwrap(), padded.dense_row(row).unwrap());
                for column in 0..own.len() {
                    let is_public = data.public_columns.contains(&(column as u32));
                    assert!(!is_public || own[column] == public[column]);
                    assert!(is_public || padding != Padding::Zero || public[column] == 0);
                }
            }
        }
    }

    /// Two tables that differ in private features have the same padded rows, whatever the padding.
    #[test]
    fn padded_rows_do_not_depend_on_private_features() {
        let data = small();
        let mut other = small();
        let rows: Vec<Vec<i16>> = (0..other.train.rows.len())
            .map(|row| {
                let mut cells = other.train.rows.dense_row(row).unwrap();
                for (column, cell) in cells.iter_mut().enumerate() {
                    if !other.public_columns.contains(&(column as u32)) {
                        *cell = 0;
                    }
                }
                cells
            })
            .collect();
        other.train.rows = halflit_convex::DenseRows::from_rows(21, &rows).unwrap().into();
        for padding in [Padding::Zero, Padding::Gaussian] {
            assert_eq!(data.padded(padding, 3).unwrap(), other.padded(padding, 3).unwrap());
        }
    }

    #[test]
    fn every_method_trains_and_the_price_is_that_of_replace() {
        let data = small();
        let padded = data.padded(Padding::Zero, 1).unwrap();
        let settings = Settings {
            hidden: 8,
            steps: 40,
            one_in: 4,
            noise_multiplier: 1.0,
            clip_norm: 1.0,
            alpha: 1.0,
            public_regularizer: 0.0,
            learning_rate: 0.2,
            momentum: 0.9,
        };
        for method in Method::ALL {
            let reached = train(&data, &padded, method, &settings, &[40], 1).unwrap();
            assert_eq!(reached.len(), 1);
            assert!(reached[0].evaluation.average_loss.is_finite());
        }
        // Zero-out would understate it: a replaced row takes one contribution away and puts another in its place.
        let epsilon = |event: &Event| Profile::of(event).unwrap().epsilon(Delta::new(1e-6).unwrap());
        let step = |change| Event::PoissonGaussian {
            rate: SamplingRate::at_least(1, 4).unwrap(),
            noise_multiplier: NoiseMultiplier::new(1.0).unwrap(),
            change,
        };
        let priced = event(&settings, 40).unwrap();
        assert_eq!(priced, step(Change::Replace).repeated(40).unwrap());
        assert!(epsilon(&priced).lower > epsilon(&step(Change::ZeroOut).repeated(40).unwrap()).upper);
    }
}
