use crate::Failure;
use crate::commands::dataset::{ChosenColumns, beside_named, ledger_of};
use crate::commands::options::{budget, number};
use crate::commands::outcome::{beyond_declared, charge, must_take_a_release, nothing_released, publish};
use crate::failure::warn;
use clap::ValueEnum;
use halflit::MechanismError;
use halflit::figures::{at_most, count_of, delta};
use halflit::ledger::Standing;
use halflit::mechanisms::Statement;
use halflit::mechanisms::weighted_mean::{
    MeanPlans, MeanRelease, MeanRequest, MeanSummary, NoiseLaw, Variant,
};
use halflit::noise::NoiseSource;
use halflit::table::Budget;
use serde_json::json;
use std::path::{Path, PathBuf};

/// Release the means of numeric columns: plan, charge the ledger, compute, write means, certificate, chart and report.
///
/// Public rows are used without noise and decide how much the private ones count; public columns are released exactly. The declaration needs no [task]. The
/// price is recorded in the ledger before anything is computed from private cells.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  halflit mean patients.csv --columns age,bmi\n  halflit mean patients.csv --columns age,bmi --epsilon 0.5 --plan\n  halflit mean patients.csv --columns bmi --variant weighted --noise laplace --out bmi"
)]
pub struct Args {
    #[command(flatten)]
    input: ChosenColumns,
    /// Spend at most this epsilon in this release [default: the declared budget].
    #[arg(long, allow_negative_numbers = true, value_parser = number)]
    epsilon: Option<f64>,
    /// With this delta; 0 asks for pure differential privacy, and so for Laplace noise [default: the declared budget].
    #[arg(long, allow_negative_numbers = true, value_parser = number)]
    delta: Option<f64>,
    /// The estimator [default: the one with the smallest predicted error].
    #[arg(long, value_enum)]
    variant: Option<VariantName>,
    /// The law of the noise; not with --variant public-only, which adds none [default: the better one].
    #[arg(long, value_enum)]
    noise: Option<NoiseName>,
    /// Only show the candidates, best first; nothing is spent or written.
    #[arg(long)]
    plan: bool,
    /// The ledger of the dataset [default: NAME.ledger beside the data].
    #[arg(long, value_name = "FILE")]
    ledger: Option<PathBuf>,
    /// The folder to write; it must not exist [default: NAME-mean beside the data].
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum VariantName {
    /// The public rows alone; costs nothing.
    PublicOnly,
    /// Every row counts the same.
    Gaussian,
    /// Private rows count as much as makes the error smallest.
    Weighted,
    /// The same, clipped to a ball around the public mean.
    CentredWeighted,
}

/// Said whenever cells may have been coerced, whether or not any were: how many is private.
const COERCED: &str = "with --coerce, a cell that is empty counts as its column's default (without one: the middle of its bounds), and one outside its bounds as the \
nearest bound: such cells move the means, and no standard error knows of them";

#[derive(Clone, Copy, ValueEnum)]
enum NoiseName {
    Gaussian,
    Laplace,
}

pub fn run(args: Args, json: bool) -> Result<(), Failure> {
    let data = &args.input.dataset.data;
    let out = args.out.clone().unwrap_or_else(|| beside_named(data, "mean"));
    let ledger_path = ledger_of(args.ledger.as_deref(), data)?;
    if !args.plan {
        must_take_a_release(&out, &ledger_path)?;
    }
    if let (Some(VariantName::PublicOnly), Some(noise)) = (args.variant, args.noise) {
        return Err(Failure::BadInput(format!(
            "--noise {}: --variant public-only adds no noise; leave out --noise",
            noise.to_possible_value().map_or_else(String::new, |name| name.get_name().to_owned())
        )));
    }
    let values = args.input.values()?;
    let asked = budget(args.epsilon, args.delta, values.protection().budget())?;
    let request = MeanRequest {
        budget: Some(asked),
        variant: args.variant.map(|variant| match variant {
            VariantName::PublicOnly => Variant::PublicOnly,
            VariantName::Gaussian => Variant::Gaussian,
            VariantName::Weighted => Variant::Weighted,
            VariantName::CentredWeighted => Variant::CentredWeighted,
        }),
        noise: args.noise.map(|noise| match noise {
            NoiseName::Gaussian => NoiseLaw::Gaussian,
            NoiseName::Laplace => NoiseLaw::Laplace,
        }),
    };
    let plans = MeanPlans::new(values, &request).map_err(Failure::bad_input)?;
    if !json {
        println!("{}\n", plans.values().facts().sentence);
    }
    if args.plan {
        print_plans(&plans, json);
        return Ok(());
    }
    let declared = plans.values().protection().budget();
    let plan = plans.best().map_err(Failure::bad_input)?;
    let spent = Budget { epsilon: plan.epsilon().upper, delta: asked.delta };
    let coerced = args.input.coerce.then(|| COERCED.to_owned());
    let warnings: Vec<String> = beyond_declared(spent, declared).into_iter().chain(coerced).collect();
    warnings.iter().for_each(|warning| warn(warning, json));
    let mut noise = NoiseSource::from_os().map_err(Failure::failed)?;
    let (mut ledger, charged) = charge(&ledger_path, plan)?;
    let charge = charged.receipt().charge;
    let output = match charged.run(&mut noise) {
        Ok(output) => output,
        Err(error) => {
            let interrupted = matches!(error, MechanismError::Interrupted);
            return Err(nothing_released(&mut ledger, charge, &error, interrupted));
        }
    };
    let standings = ledger.overview().map_err(Failure::failed)?.accounts;
    let release = output.release(&standings).map_err(Failure::failed)?;
    let files = [
        ("mean.json", release.mean_json.as_bytes()),
        ("certificate.json", release.certificate_json.as_bytes()),
        ("mean.svg", release.chart_svg.as_bytes()),
        ("report.html", release.report_html.as_bytes()),
    ];
    publish(&mut ledger, charge, &out, &files, &release.certificate.model_sha256)?;
    print(&release, &standings, &ledger_path, &out, &warnings, json);
    Ok(())
}

fn print_plans(plans: &MeanPlans, json: bool) {
    let summaries = plans.summaries();
    if json {
        println!("{}", json!({ "candidates": summaries, "facts": plans.values().facts() }));
        return;
    }
    println!(
        "  {:<18} {:<9} {:>15} {:>12} {:>12} {:>10}",
        "variant", "noise", "predicted error", "unit weight", "row weight", "clip norm"
    );
    for summary in &summaries {
        let MeanSummary { variant, noise, predicted_error, weight, public_row_weight, clip_norm, .. } =
            summary;
        println!(
            "  {:<18} {:<9} {predicted_error:>15.6} {weight:>12.3e} {public_row_weight:>12.3e} {:>10}",
            variant.name(),
            noise.map_or("none", NoiseLaw::name),
            clip_norm.map_or("none".to_owned(), |norm| format!("{norm:.4}")),
        );
    }
    println!(
        "\nErrors are root mean squares over the columns, as a share of half a column's bounds. Nothing was spent."
    );
}

fn print(
    release: &MeanRelease,
    standings: &[Standing],
    ledger: &Path,
    out: &Path,
    warnings: &[String],
    json: bool,
) {
    let certificate = &release.certificate;
    if json {
        println!(
            "{}",
            json!({
                "folder": out, "ledger": ledger, "guarantee": certificate.guarantee, "sentence": certificate.sentence,
                "charge": certificate.charge, "mechanism": certificate.mechanism, "mean": release.mean, "accounts": standings,
                "warnings": warnings,
            })
        );
        return;
    }
    let mean = &release.mean;
    let noise = mean.noise.map_or(String::new(), |law| format!(", {} noise", law.name()));
    println!(
        "{}{noise}: {}, {}.\n",
        mean.variant.name(),
        count_of(mean.private_units, "private unit"),
        count_of(mean.public_rows, "public row")
    );
    let width = mean.columns.iter().map(|column| column.name.chars().count()).max().unwrap_or(0).max(6);
    println!("  {:<width$} {:>16} {:>14} {:>16}", "column", "mean", "noise", "standard error");
    let is_exact = |column: &str| match &certificate.mechanism {
        Statement::WeightedMean(statement) => statement.is_exact(column),
        _ => false,
    };
    for column in &mean.columns {
        let error = match column.standard_error {
            Some(error) => format!("{error:.6}"),
            None if is_exact(&column.name) => "exact".to_owned(),
            None => "unknown".to_owned(),
        };
        println!(
            "  {:<width$} {:>16.6} {:>14.6} {error:>16}",
            column.name, column.mean, column.noise_deviation
        );
    }
    let guarantee = certificate.guarantee;
    println!(
        "\nSpent epsilon {} at delta {}; charge {} in {}.",
        at_most(guarantee.accountant.upper, 4),
        delta(guarantee.delta),
        certificate.charge,
        ledger.display()
    );
    for standing in standings.iter().filter(|standing| standing.account.is_open) {
        println!("Account {}.", crate::commands::ledger::standing_line(standing));
    }
    println!("\nWrote {0}/mean.json, {0}/certificate.json, {0}/mean.svg and {0}/report.html.", out.display());
}
