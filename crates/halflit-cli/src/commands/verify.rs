use crate::Failure;
use halflit::Certificate;
use halflit::figures::{at_least, at_most};
use serde_json::json;
use std::path::PathBuf;

/// Recompute a certificate's promise from the file alone.
///
/// Rebuilds the event from the mechanism's own numbers, prices it again, and compares with what is claimed. With --model, or given
/// the folder of a release, also checks that the model file is the certified one. Exit code 1 if anything does not hold.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  halflit verify patients-release\n  halflit verify certificate.json --model model.json"
)]
pub struct Args {
    /// The certificate, or the folder of a release: then its model is checked too.
    certificate: PathBuf,
    /// The model it belongs to [default: none, or that of the folder].
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
}

pub fn run(args: Args, json: bool) -> Result<(), Failure> {
    let is_folder = args.certificate.is_dir();
    let place = if is_folder { args.certificate.join("certificate.json") } else { args.certificate.clone() };
    let checked_model = args.model.or_else(|| is_folder.then(|| args.certificate.join("model.json")));
    let path = place.display();
    let text = std::fs::read_to_string(&place)
        .map_err(|error| Failure::BadInput(format!("the certificate {path} cannot be read: {error}")))?;
    let certificate: Certificate = serde_json::from_str(&text)
        .map_err(|error| Failure::Failed(format!("{path} is not a valid certificate: {error}")))?;
    let verified = certificate.verify().map_err(|error| Failure::Failed(format!("{path}: {error}")))?;
    if let Some(model) = &checked_model {
        let bytes = std::fs::read(model).map_err(|error| {
            Failure::BadInput(format!("the model {} cannot be read: {error}", model.display()))
        })?;
        if !certificate.is_for_model(&bytes) {
            return Err(Failure::Failed(format!(
                "{} is not the model that {path} certifies",
                model.display()
            )));
        }
    }
    if json {
        println!(
            "{}",
            json!({ "valid": true, "verified": verified, "model_checked": checked_model.is_some() })
        );
        return Ok(());
    }
    println!("The certificate holds: epsilon {} at delta {:e}.", verified.epsilon, verified.delta);
    println!("{}", verified.sentence);
    println!(
        "Recomputed epsilon lies between {} and {}.",
        at_least(verified.recomputed_epsilon.lower, 6),
        at_most(verified.recomputed_epsilon.upper, 6)
    );
    match checked_model {
        Some(model) => println!("{} is the certified model.", model.display()),
        None => println!("The model was not checked: add --model model.json."),
    }
    Ok(())
}
