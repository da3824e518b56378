use crate::Failure;
use crate::commands::dataset::{EncodedDataset, default_release, ledger_of};
use crate::commands::options::PlanOptions;
use crate::commands::outcome::{beyond_declared, charge, must_take_a_release, nothing_released, publish};
use crate::failure::warn;
use crate::progress::Progress;
use halflit::figures::{about, at_most, delta};
use halflit::ledger::Standing;
use halflit::noise::NoiseSource;
use halflit::table::Budget;
use halflit::{MechanismError, Plan, Release};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Train a private model: plan, charge the ledger, run, write model, certificate and report.
///
/// The price is recorded in the ledger before anything is computed from private cells; until then they are only checked against their declared
/// domain, and a refusal names the column, not the cell. If anything stops the run after that, the charge stays and nothing is
/// released. The files appear together or not at all: model.json, certificate.json and report.html, and statistics.json where further models can be had
/// of the same release (refit).
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  halflit train patients.csv\n  halflit train patients.csv --epsilon 0.5 --out half-budget\n  halflit train clicks.parquet --sampling-rate 1/64 --steps 2000"
)]
pub struct Args {
    #[command(flatten)]
    input: EncodedDataset,
    /// The ledger of the dataset [default: NAME.ledger beside the data].
    #[arg(long, value_name = "FILE")]
    ledger: Option<PathBuf>,
    /// The folder to write; it must not exist [default: NAME-release beside the data].
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    #[command(flatten)]
    options: PlanOptions,
}

pub fn run(args: Args, json: bool) -> Result<(), Failure> {
    let data = &args.input.dataset.data;
    let out = args.out.clone().unwrap_or_else(|| default_release(data));
    let ledger_path = ledger_of(args.ledger.as_deref(), data)?;
    must_take_a_release(&out, &ledger_path)?;

    let problem = args.input.problem()?;
    let mut progress = Progress::unguarded("planning");
    let plans = args.options.plans(problem, &mut progress)?;
    let worth = plans.worth_of_public_rows().map(|worth| worth.sentence());
    let plan = plans.best().map_err(Failure::bad_input)?;
    let spent = Budget { epsilon: plan.epsilon().upper, delta: plan.budget().delta };
    let not_worth_it = plan.summary().is_hopeless.then(|| NOT_WORTH_IT.to_owned());
    let warnings: Vec<String> =
        beyond_declared(spent, plan.declared_budget()).into_iter().chain(not_worth_it).collect();
    if !json {
        println!("{}\n", plan.relation().sentence());
        let summary = plan.summary();
        let plural = if summary.releases == 1 { "" } else { "s" };
        println!("{}: {}, {} noisy release{plural}.", summary.mechanism, summary.variant, summary.releases);
        if let Some(worth) = worth {
            println!("{worth}");
        }
    }
    for warning in &warnings {
        warn(warning, json);
    }
    let trained = train(plan, &ledger_path, &out)?;
    trained.print(&ledger_path, &out, &warnings, json);
    Ok(())
}

/// Said before the charge: whoever reads it in time can still stop.
const NOT_WORTH_IT: &str = "at this budget the model is predicted to be no better than the zero model; halflit plan shows what more would buy";

/// A release on disk, and how the accounts stand after it.
pub struct Trained {
    pub release: Release,
    pub standings: Vec<Standing>,
    speed: Option<Speed>,
}

/// How fast a run was. There is none where the number of private rows is a secret: the time would tell it.
#[derive(Clone, Copy)]
struct Speed {
    seconds: f64,
    unit_steps: f64,
}

/// Charges, runs, writes: in this order.
pub fn train(plan: Plan, ledger_path: &Path, out: &Path) -> Result<Trained, Failure> {
    let has_public_time = plan.problem().facts().private_rows.is_some();
    let unit_steps = plan.summary().passes * plan.problem().private_units() as f64;
    let mut noise = NoiseSource::from_os().map_err(Failure::failed)?;
    let mut progress = Progress::new("training");
    let (mut ledger, charged) = charge(ledger_path, plan)?;
    let charge = charged.receipt().charge;
    let start = Instant::now();
    let output = match charged.run(&mut noise, &mut progress) {
        Ok(output) => output,
        Err(error) => {
            let interrupted = matches!(error, MechanismError::Interrupted);
            return Err(nothing_released(&mut ledger, charge, &error, interrupted));
        }
    };
    let speed = has_public_time.then(|| Speed { seconds: start.elapsed().as_secs_f64(), unit_steps });
    let standings = ledger.overview().map_err(Failure::failed)?.accounts;
    let release = output.release(&standings).map_err(Failure::failed)?;
    let mut files = vec![
        ("model.json", release.model_json.as_bytes()),
        ("certificate.json", release.certificate_json.as_bytes()),
        ("report.html", release.report_html.as_bytes()),
    ];
    files.extend(release.statistics_json.as_ref().map(|text| ("statistics.json", text.as_bytes())));
    publish(&mut ledger, charge, out, &files, &release.certificate.model_sha256)?;
    Ok(Trained { release, standings, speed })
}

impl Trained {
    fn print(&self, ledger: &Path, out: &Path, warnings: &[String], json: bool) {
        let guarantee = self.release.certificate.guarantee;
        if json {
            println!(
                "{}",
                json!({
                    "folder": out,
                    "ledger": ledger,
                    "guarantee": guarantee,
                    "sentence": self.release.certificate.sentence,
                    "charge": self.release.certificate.charge,
                    "mechanism": self.release.certificate.mechanism,
                    "accounts": self.standings,
                    "warnings": warnings,
                })
            );
            return;
        }
        println!(
            "Spent epsilon {} at delta {}; charge {} in {}.",
            at_most(guarantee.accountant.upper, 4),
            delta(guarantee.delta),
            self.release.certificate.charge,
            ledger.display()
        );
        for standing in self.standings.iter().filter(|standing| standing.account.is_open) {
            println!("Account {}.", crate::commands::ledger::standing_line(standing));
        }
        let statistics = if self.release.statistics_json.is_some() { ", statistics.json" } else { "" };
        println!("\nWrote model.json, certificate.json{statistics} and report.html in {}.", out.display());
        if self.release.statistics_json.is_some() {
            println!("Further models at no cost: halflit refit DATA --release {}.", out.display());
        }
        // For the owner at the terminal; not part of the release.
        if let Some(Speed { seconds, unit_steps }) = self.speed {
            eprintln!("({seconds:.2} s, {} units/s)", about(unit_steps / seconds, 3));
        }
    }
}
