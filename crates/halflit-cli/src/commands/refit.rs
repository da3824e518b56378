use crate::Failure;
use crate::commands::dataset::EncodedDataset;
use crate::commands::options::number;
use crate::files::{must_be_new, write_folder_atomically};
use halflit::Certificate;
use halflit::figures::declared;
use halflit::mechanisms::noisy_statistics::{Fit, Fitter, LabelStatistics, Sums};
use halflit::release::{Refitted, StandardErrors};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Fit another model to statistics that were released before. Nothing is charged.
///
/// A release by `noisy_statistics` writes statistics.json. Whatever is computed from it and from public columns has the same guarantee as the
/// release itself: other penalties, a whole path of them. The private labels of the data file are not used: they may be anything, and where
/// no row is public the column may be missing (the labels of public rows are used). Noise is removed from the statistics first: as far as weights
/// of an expected size explain them, or by projecting them onto what labels can add up to.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  halflit refit clicks.csv --release clicks-release --regularization 0.001 --out weaker-penalty\n  halflit refit clicks.csv --release clicks-release --weight-size 0.5 --out smaller-weights\n  halflit refit clicks.csv --release clicks-release --sums projected --regularization 0.001 --out projected\n  halflit refit clicks.csv --release clicks-release --path"
)]
pub struct Args {
    #[command(flatten)]
    input: EncodedDataset,
    /// The folder of the release: certificate.json and statistics.json.
    #[arg(long, value_name = "FOLDER")]
    release: PathBuf,
    /// The l2 penalty of the mean loss, or `stein`: the one of the path with the least estimated loss [default: chosen from the released statistics].
    #[arg(long, value_name = "LAMBDA", allow_hyphen_values = true)]
    regularization: Option<String>,
    /// What the model is fitted to.
    #[arg(long, value_enum, default_value_t)]
    sums: Source,
    /// The size that weights are expected to have when the sums are denoised [default: chosen from the released statistics].
    #[arg(long, value_name = "TAU", allow_negative_numbers = true, value_parser = number)]
    weight_size: Option<f64>,
    /// Only show a path of penalties from 1 down to 1e-7, each with the loss that Stein's identity estimates for it; nothing is written.
    #[arg(long, conflicts_with_all = ["regularization", "out"])]
    path: bool,
    /// The folder to write; it must not exist. Needed unless --path is given.
    #[arg(long, value_name = "FOLDER", required_unless_present = "path")]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, Default, PartialEq, clap::ValueEnum)]
enum Source {
    /// The sums of the most likely weights.
    #[default]
    Denoised,
    /// The nearest sums that labels can have; no estimates of losses and no standard errors.
    Projected,
    /// The noisy sums as they were released; no labels may have such sums, so weak penalties give useless models.
    Released,
}

/// The penalties of a path: two per power of ten.
fn path() -> Vec<f64> {
    (0..=14).map(|step| 10f64.powf(-0.5 * f64::from(step))).collect()
}

/// How the penalty is chosen.
enum Penalty {
    Given(f64),
    Stein,
}

impl Args {
    /// What the model is fitted to; none: denoised for weights of the size under which the sums are most likely.
    fn sums(&self) -> Result<Option<Sums>, Failure> {
        if let Some(size) = self.weight_size.filter(|size| !(1e-9..=1e9).contains(size)) {
            let size = declared(size);
            return Err(Failure::BadInput(format!(
                "--weight-size {size}: must be a number from 1e-9 to 1e9"
            )));
        }
        let sums = match self.sums {
            Source::Denoised => {
                return Ok(self.weight_size.map(|weight_size| Sums::Denoised { weight_size }));
            }
            Source::Projected => Sums::Projected,
            Source::Released => Sums::AsReleased,
        };
        let refused = match self {
            Args { weight_size: Some(_), .. } => {
                "--weight-size is for sums that are denoised: leave it out, or --sums"
            }
            Args { path: false, regularization: None, .. } => {
                "without --regularization the most likely weights are taken, which are those of denoised sums: give one, e.g. 0.001"
            }
            _ => return Ok(Some(sums)),
        };
        Err(Failure::BadInput(refused.to_owned()))
    }

    fn penalty(&self) -> Result<Option<Penalty>, Failure> {
        let Some(text) = self.regularization.as_deref() else { return Ok(None) };
        match (text, text.parse::<f64>()) {
            ("stein", _) => Ok(Some(Penalty::Stein)),
            (_, Ok(lambda)) if lambda > 0.0 && lambda <= 1e9 => Ok(Some(Penalty::Given(lambda))),
            _ => Err(Failure::BadInput(format!(
                "--regularization {text}: must be a number above 0 and at most 1e9, or stein"
            ))),
        }
    }
}

pub fn run(args: Args, json: bool) -> Result<(), Failure> {
    if let Some(out) = &args.out {
        must_be_new(out, "--out")?;
    }
    let (sums, penalty) = (args.sums()?, args.penalty()?);
    let Released { certificate, statistics, statistics_text } = read_release(&args.release)?;
    let problem = args.input.problem_without_private_labels()?;
    if *problem.relation() != certificate.relation {
        return Err(Failure::BadInput(format!(
            "the declaration protects something else than the release did: {}",
            certificate.sentence
        )));
    }
    let Some(out) = &args.out else {
        let fits = statistics.path(&problem, sums, &path()).map_err(Failure::bad_input)?;
        show_path(&fits, json);
        return Ok(());
    };
    let fitted = match penalty {
        Some(Penalty::Stein) => statistics.refit_by_stein(&problem, sums, &path()),
        Some(Penalty::Given(lambda)) => statistics.refit(&problem, sums, Some(lambda)),
        None => statistics.refit(&problem, sums, None),
    };
    let fitted = fitted.map_err(Failure::bad_input)?;
    let refitted = Refitted::new(&problem, &fitted, &certificate).map_err(Failure::failed)?;
    write_folder_atomically(
        out,
        &[
            ("model.json", refitted.model_json.as_bytes()),
            ("certificate.json", refitted.certificate_json.as_bytes()),
            ("statistics.json", statistics_text.as_bytes()),
        ],
    )
    .map_err(|error| Failure::Failed(format!("{} cannot be written: {error}", out.display())))?;
    if json {
        println!(
            "{}",
            json!({ "folder": out, "charged": 0, "charge": certificate.charge, "notes": fitted.notes })
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
    println!("\nWrote {0}/model.json, {0}/certificate.json and {0}/statistics.json.", out.display());
    Ok(())
}

/// The path as a table, with what `--regularization stein` would take.
fn show_path(fits: &[Fit], json: bool) {
    let norm = |fit: &Fit| fit.weights.iter().map(|w| w * w).sum::<f64>().sqrt();
    if json {
        let rows: Vec<_> = fits
            .iter()
            .map(|fit| {
                json!({ "regularization": fit.penalties.regularization, "estimated_loss": fit.estimated_loss,
                        "estimate_deviation": fit.estimate_deviation,
                        "weights_norm": norm(fit), "weights": fit.weights })
            })
            .collect();
        println!("{}", json!({ "charged": 0, "path": rows }));
        return;
    }
    let chosen = Fitter::least_estimated(fits.to_vec()).and_then(|fit| fit.penalties.regularization);
    println!("  {:>12} {:>21} {:>13}", "penalty", "estimated loss", "weights norm");
    for fit in fits {
        let lambda = fit.penalties.regularization.unwrap_or(0.0);
        let estimate = match (fit.estimated_loss, fit.estimate_deviation) {
            (Some(loss), Some(deviation)) => format!("{loss:.5} ± {deviation:.5}"),
            _ => "-".to_owned(),
        };
        let mark = if Some(lambda) == chosen { "  what stein takes" } else { "" };
        println!("  {lambda:>12.3e} {estimate:>21} {:>13.4}{mark}", norm(fit));
    }
    if chosen.is_none() {
        println!(
            "\nThere is no estimate of the loss for projected sums and for more than 512 weights. Nothing was charged or written."
        );
        return;
    }
    println!(
        "\nEstimated by Stein's identity from the released sums alone (squared loss: up to a constant), ± what the noise does to the estimate of one model; neighbours on the path share most of it. Nothing was charged or written."
    );
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
    if certificate.statistics_sha256.is_none() {
        return Err(Failure::BadInput(format!(
            "{} is a release without statistics to fit to again; noisy_statistics makes one that has them",
            folder.display()
        )));
    }
    let statistics_text = read("statistics.json")?;
    if !certificate.is_for_statistics(statistics_text.as_bytes()) {
        return Err(bad("statistics.json", &"these are not the statistics that the certificate is about"));
    }
    let statistics =
        serde_json::from_str(&statistics_text).map_err(|error| bad("statistics.json", &error))?;
    Ok(Released { certificate, statistics, statistics_text })
}
