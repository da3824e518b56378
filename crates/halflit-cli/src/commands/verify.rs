use crate::Failure;
use halflit::figures::{at_least, at_most, declared, delta};
use halflit::mechanisms::Statement;
use halflit::{Certificate, Model};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Recompute a certificate's promise from the file alone.
///
/// Rebuilds the event from the mechanism's own numbers, prices it again, and compares with what is claimed. With --model, or given
/// the folder of a release, also checks that the files beside the certificate are the certified ones. Exit code 1 if anything does not hold.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  halflit verify patients-release\n  halflit verify certificate.json --model model.json"
)]
pub struct Args {
    /// The certificate, or the folder of a release: then its model and statistics are checked too.
    certificate: PathBuf,
    /// The model, mean or messages it belongs to [default: none, or that of the folder].
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
}

pub fn run(args: Args, json: bool) -> Result<(), Failure> {
    let is_folder = args.certificate.is_dir();
    let place = if is_folder { args.certificate.join("certificate.json") } else { args.certificate.clone() };
    let path = place.display();
    let text = std::fs::read_to_string(&place)
        .map_err(|error| Failure::BadInput(format!("the certificate {path} cannot be read: {error}")))?;
    let certificate: Certificate = serde_json::from_str(&text)
        .map_err(|error| Failure::Failed(format!("{path} is not a valid certificate: {error}")))?;
    let verified = certificate.verify().map_err(|error| Failure::Failed(format!("{path}: {error}")))?;
    let (kind, name) = released(&certificate.mechanism);
    let checked_model = args.model.or_else(|| is_folder.then(|| args.certificate.join(name)));
    let checked_statistics = (is_folder && certificate.statistics_sha256.is_some())
        .then(|| args.certificate.join("statistics.json"));
    let check_file = |kind: &str, file: &Path, is_certified: &dyn Fn(&[u8]) -> bool| {
        let bytes = std::fs::read(file).map_err(|error| {
            Failure::BadInput(format!("the {kind} {} cannot be read: {error}", file.display()))
        })?;
        if is_certified(&bytes) {
            return Ok(());
        }
        Err(Failure::Failed(format!("{} is not the {kind} that {path} certifies", file.display())))
    };
    if let Some(file) = &checked_model {
        check_file(kind, file, &|bytes| certificate.is_for_model(bytes))?;
        if kind == MODEL {
            check_columns(&certificate, file)
                .map_err(|reason| Failure::Failed(format!("{path}: {reason}")))?;
        }
    }
    if let Some(statistics) = &checked_statistics {
        check_file("statistics", statistics, &|bytes| certificate.is_for_statistics(bytes))?;
    }
    if json {
        println!(
            "{}",
            json!({
                "valid": true,
                "verified": verified,
                "model_checked": checked_model.is_some(),
                "statistics_checked": checked_statistics.is_some(),
            })
        );
        return Ok(());
    }
    let pure = if verified.delta == 0.0 { " (pure differential privacy)" } else { "" };
    println!(
        "The certificate holds: epsilon {} at delta {}{pure}.",
        declared(verified.epsilon),
        delta(verified.delta)
    );
    println!("{}", verified.sentence);
    println!(
        "Recomputed epsilon lies between {} and {}.",
        at_least(verified.recomputed_epsilon.lower, 6),
        at_most(verified.recomputed_epsilon.upper, 6)
    );
    match checked_model {
        Some(file) => println!("{} is the certified {kind}.", file.display()),
        None => println!("The {kind} was not checked: add --model {name}."),
    }
    if let Some(statistics) = checked_statistics {
        println!("{} holds the certified statistics.", statistics.display());
    }
    Ok(())
}

/// What a certificate is about, and what the folder of a release calls it.
fn released(mechanism: &Statement) -> (&'static str, &'static str) {
    match mechanism {
        Statement::WeightedMean(_) => ("mean", "mean.json"),
        Statement::Local(_) => ("file of messages", "messages.ndjson"),
        _ => (MODEL, "model.json"),
    }
}

const MODEL: &str = "model";

/// The certificate speaks of the columns that the model was made of.
fn check_columns(certificate: &Certificate, file: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let model: Model = serde_json::from_slice(&std::fs::read(file)?)?;
    Ok(certificate.agrees_with(&model)?)
}
