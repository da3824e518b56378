use crate::Failure;
use crate::files::{must_be_new, write_new};
use halflit::Model;
use halflit::figures::{about, count_of};
use halflit::release::Predictions;
use halflit::table::{OutOfDomain, Table};
use serde_json::{Map, Value, json};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Instant;

/// Apply a released model to a new file.
///
/// Writes one line per row: the predicted class with its probabilities, or the predicted number. The new file belongs to you: nothing about it is
/// protected here, and nothing is charged.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  halflit predict patients-release new.csv > predictions.csv\n  halflit predict model.json test.csv --evaluate --out predictions.csv"
)]
pub struct Args {
    /// The model, or the folder of a release.
    model: PathBuf,
    /// The table to predict: it needs the model's columns.
    data: PathBuf,
    /// Where to write the predictions; the file must not exist [default: standard output].
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Compare with the labels of the file and report accuracy (or R²) and mean loss. Computed from the file without noise: for you, not for
    /// publication if the file is private.
    #[arg(long)]
    evaluate: bool,
    /// Map cells outside the declared domain into it instead of refusing the file.
    #[arg(long)]
    coerce: bool,
}

pub fn run(args: Args, json: bool) -> Result<(), Failure> {
    if let Some(out) = &args.out {
        must_be_new(out, "--out")?;
    }
    let model = read_model(&args.model)?;
    let out_of_domain = if args.coerce { OutOfDomain::Coerce } else { OutOfDomain::Refuse };
    let options = model.encoding().read_options(args.evaluate);
    let table = Table::read(&args.data, &options).map_err(Failure::bad_input)?;
    let start = Instant::now();
    let predictions = model.predict(&table, out_of_domain).map_err(Failure::bad_input)?;
    let seconds = start.elapsed().as_secs_f64();
    let evaluation = args
        .evaluate
        .then(|| model.evaluate(&table, out_of_domain))
        .transpose()
        .map_err(Failure::bad_input)?;
    let label = model.encoding().label_name();
    if let Some(path) = &args.out {
        write_new(path, as_csv(&predictions, label).as_bytes())
            .map_err(|error| Failure::Failed(format!("{} cannot be written: {error}", path.display())))?;
    }
    // With --evaluate alone its numbers are what was asked for.
    let is_printed = args.out.is_none() && !args.evaluate;
    if json {
        let mut answer = json!({ "rows": predictions.len(), "evaluation": evaluation, "out": args.out });
        if is_printed {
            answer["label"] = json!(label);
            answer["predictions"] = as_json(&predictions);
        }
        println!("{answer}");
        return Ok(());
    }
    if is_printed {
        let csv = as_csv(&predictions, label);
        if std::io::stdout().is_terminal() {
            print!("{csv}");
        } else {
            crate::write_out(&csv);
        }
    }
    if let Some(path) = &args.out {
        println!("Wrote {} to {}.", count_of(predictions.len() as u64, "prediction"), path.display());
    }
    if let Some(evaluation) = evaluation {
        if let Some(accuracy) = evaluation.accuracy {
            println!("accuracy   {accuracy:.4}");
        }
        if let Some(r_squared) = evaluation.r_squared {
            println!("R squared  {r_squared:.4}");
        }
        println!("mean loss  {:.4}\nrows       {}", evaluation.mean_loss, evaluation.rows);
        eprintln!("(computed from the labels of {} without noise)", args.data.display());
    }
    eprintln!("({} rows/s)", about(predictions.len() as f64 / seconds, 2));
    Ok(())
}

/// Reads and checks a model file.
pub fn read_model(path: &std::path::Path) -> Result<Model, Failure> {
    let inside = path.join("model.json");
    let path = if path.is_dir() { &inside } else { path };
    let text = std::fs::read_to_string(path).map_err(|error| {
        Failure::BadInput(format!("the model {} cannot be read: {error}", path.display()))
    })?;
    serde_json::from_str(&text)
        .map_err(|error| Failure::BadInput(format!("{} is not a halflit model: {error}", path.display())))
}

/// One number per row, or the class with the probability of each class where the model has any.
fn as_json(predictions: &Predictions) -> Value {
    match predictions {
        Predictions::Numbers(numbers) => json!(numbers),
        Predictions::Classes { names, classes, probabilities } => {
            let row = |(row, &class): (usize, &usize)| {
                let of_row = probabilities.as_ref().map(|probabilities| &probabilities[row]);
                let named = of_row.map(|of_row| {
                    names.iter().cloned().zip(of_row.iter().map(|p| json!(p))).collect::<Map<_, _>>()
                });
                json!({ "class": names.get(class), "probabilities": named })
            };
            classes.iter().enumerate().map(row).collect()
        }
    }
}

fn as_csv(predictions: &Predictions, label: &str) -> String {
    let mut csv = String::new();
    match predictions {
        Predictions::Numbers(numbers) => {
            csv.push_str(&format!("{}\n", cell(label)));
            for number in numbers {
                csv.push_str(&format!("{number}\n"));
            }
        }
        Predictions::Classes { names, classes, probabilities } => {
            let mut header = vec![cell(label)];
            if probabilities.is_some() {
                header.extend(names.iter().map(|name| cell(&format!("probability of {name}"))));
            }
            csv.push_str(&header.join(","));
            csv.push('\n');
            for (row, &class) in classes.iter().enumerate() {
                let mut cells = vec![names.get(class).map_or_else(String::new, |name| cell(name))];
                if let Some(probabilities) = probabilities {
                    cells.extend(probabilities[row].iter().map(|probability| format!("{probability:.6}")));
                }
                csv.push_str(&cells.join(","));
                csv.push('\n');
            }
        }
    }
    csv
}

/// A text as a CSV cell.
fn cell(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
