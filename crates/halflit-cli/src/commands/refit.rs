use crate::Failure;
use crate::commands::dataset::EncodedDataset;
use crate::commands::train::must_be_free;
use crate::files::write_folder_atomically;
use halflit::Certificate;
use halflit::mechanisms::noisy_statistics::{LabelStatistics, Penalties};
use halflit::release::{Refitted, StandardErrors};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Fit another model to statistics that were released before. Nothing is charged.
///
/// A release by `noisy_statistics` writes statistics.json. Whatever is computed from it and from public columns has the same guarantee as the
/// release itself: other penalties, a whole path of them. The labels of the data file are not used.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  halflit refit clicks.csv --release clicks-release --regularization 0.001 --out weaker-penalty\n  halflit refit clicks.csv --release clicks-release --weight-size 0.5 --out smaller-weights"
)]
pub struct Args {
    #[command(flatten)]
    input: EncodedDataset,
    /// The folder of the release: certificate.json and statistics.json.
    #[arg(long, value_name = "FOLDER")]
    release: PathBuf,
    /// The l2 penalty of the mean loss [default: chosen from the released statistics].
    #[arg(long, value_name = "LAMBDA", allow_negative_numbers = true)]
    regularization: Option<f64>,
    /// The size that weights are expected to have when noise is removed from the statistics [default: chosen from the released statistics].
    #[arg(long, value_name = "TAU", allow_negative_numbers = true)]
    weight_size: Option<f64>,
    /// The folder to write; it must not exist.
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
}

pub fn run(args: Args, json: bool) -> Result<(), Failure> {
    must_be_free(&args.out)?;
    let Released { certificate, statistics, statistics_text } = read_release(&args.release)?;
    let problem = args.input.problem()?;
    if *problem.relation() != certificate.relation {
        return Err(Failure::BadInput(format!(
            "the declaration protects something else than the release did: {}",
            certificate.sentence
        )));
    }
    let penalties = Penalties { weight_size: args.weight_size, regularization: args.regularization };
    let fitted = statistics.refit(&problem, penalties).map_err(Failure::bad_input)?;
    let refitted = Refitted::new(&problem, &fitted, &certificate).map_err(Failure::failed)?;
    write_folder_atomically(
        &args.out,
        &[
            ("model.json", refitted.model_json.as_bytes()),
            ("certificate.json", refitted.certificate_json.as_bytes()),
            ("statistics.json", statistics_text.as_bytes()),
        ],
    )
    .map_err(|error| Failure::Failed(format!("{} cannot be written: {error}", args.out.display())))?;
    if json {
        println!(
            "{}",
            json!({ "folder": args.out, "charged": 0, "charge": certificate.charge, "notes": fitted.notes })
        );
        return Ok(());
    }
    println!("{}", fitted.notes.join(" "));
    if let Some(StandardErrors::Absent { reason }) = refitted.model.standard_errors() {
        println!("No standard errors: {reason}.");
    }
    println!(
        "Nothing was charged: the model is a function of charge {} and of public columns.",
        certificate.charge
    );
    println!("\nWrote {0}/model.json, {0}/certificate.json and {0}/statistics.json.", args.out.display());
    Ok(())
}

/// What a refit needs of a release folder.
struct Released {
    certificate: Certificate,
    statistics: LabelStatistics,
    /// The file as it was, for its digest.
    statistics_text: String,
}

/// Reads a release folder and checks that its parts belong together.
fn read_release(folder: &Path) -> Result<Released, Failure> {
    let read = |name: &str| {
        let path = folder.join(name);
        std::fs::read_to_string(&path)
            .map_err(|error| Failure::BadInput(format!("{} cannot be read: {error}", path.display())))
    };
    let bad = |name: &str, error: &dyn std::fmt::Display| {
        Failure::BadInput(format!("{}: {error}", folder.join(name).display()))
    };
    let text = read("certificate.json")?;
    let certificate: Certificate =
        serde_json::from_str(&text).map_err(|error| bad("certificate.json", &error))?;
    certificate.verify().map_err(|error| bad("certificate.json", &error))?;
    let statistics_text = read("statistics.json")?;
    if !certificate.is_for_statistics(statistics_text.as_bytes()) {
        return Err(bad("statistics.json", &"these are not the statistics that the certificate is about"));
    }
    let statistics =
        serde_json::from_str(&statistics_text).map_err(|error| bad("statistics.json", &error))?;
    Ok(Released { certificate, statistics, statistics_text })
}
