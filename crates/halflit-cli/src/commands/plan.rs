use crate::Failure;
use crate::commands::dataset::{EncodedDataset, default_ledger, quoted};
use crate::commands::options::PlanOptions;
use crate::progress::Progress;
use halflit::Ledger;
use halflit::figures::{about, declared, delta};
use halflit::ledger::Standing;
use halflit::plan::Summary;
use serde_json::json;
use std::path::Path;

/// Show every mechanism that fits the declaration, ranked by predicted error. Nothing is spent.
///
/// The predictions are formulas in public constants or rehearsals on made-up sensitive cells: good for ranking, not promises. Private cells are
/// looked at for one thing only, whether they lie in their declared domain; a refusal names the column, not the
/// cell, and everything else that is printed depends on public facts alone.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  halflit plan patients.csv --epsilon 0.5")]
pub struct Args {
    #[command(flatten)]
    input: EncodedDataset,
    #[command(flatten)]
    options: PlanOptions,
}

pub fn run(args: Args, json: bool) -> Result<(), Failure> {
    let problem = args.input.problem()?;
    let mut progress = Progress::unguarded("planning");
    let mut plans = args.options.plans(problem, &mut progress)?;
    plans.rehearse_unpredicted(&mut progress).map_err(Failure::failed)?;
    let budget = plans.budget();
    let sentence = plans.problem().relation().sentence();
    let summaries: Vec<Summary> = plans.summaries().cloned().collect();
    let (without_public_rows, worth) =
        (plans.without_public_rows(), plans.worth_of_public_rows().map(|worth| worth.sentence()));
    if json {
        let chosen = plans.best().map_err(Failure::failed)?;
        println!(
            "{}",
            json!({
                "relation": sentence,
                "budget": { "epsilon": budget.epsilon, "delta": budget.delta },
                "candidates": summaries,
                "predicted_without_public_rows": without_public_rows,
                "epsilon": chosen.epsilon(),
                "event": chosen.event(),
            })
        );
        return Ok(());
    }
    println!("{sentence}\n");
    println!("Budget: epsilon {}, delta {}. Best first:\n", declared(budget.epsilon), delta(budget.delta));
    let names = summaries.iter().map(|row| row.mechanism.len()).max().unwrap_or_default().max(18);
    let width = summaries.iter().map(|row| row.variant.len()).max().unwrap_or_default();
    println!(
        "  {:<names$} {:<width$} {:>10} {:>9} {:>8} {:>11}",
        "mechanism", "variant", "predicted", "releases", "passes", "noise"
    );
    for row in &summaries {
        println!(
            "  {:<names$} {:<width$} {:>10} {:>9} {:>8.1} {:>11}{}",
            row.mechanism,
            row.variant,
            if row.predicted_excess.is_finite() {
                about(row.predicted_excess, 2)
            } else {
                "unknown".to_owned()
            },
            row.releases,
            row.passes,
            about(row.noise_per_release, 3),
            if row.is_hopeless { "  not worth it" } else { "" }
        );
    }
    println!(
        "\n`predicted` is the expected excess of the mean loss; `noise` is the standard deviation per coordinate of the mean gradient."
    );
    if summaries.iter().any(|row| !row.predicted_excess.is_finite()) {
        println!(
            "`unknown`: no formula says what comes of parts that are fixed by hand, and a rehearsal is not possible or would take long."
        );
    }
    if summaries.iter().any(|row| row.is_rehearsed) {
        println!(
            "Predictions are from a rehearsal: each mechanism was tried on the public columns with made-up sensitive cells."
        );
    }
    if let Some(worth) = worth {
        println!("{worth}");
    }
    if summaries.iter().all(|row| row.is_hopeless) {
        println!("No mechanism is predicted to beat the zero model at this budget: it would buy nothing.");
    } else if let Some(account) = exhausted_account(&args.input.dataset.data) {
        println!(
            "Account {account} of the ledger beside the data has nothing left: halflit train would be refused unless the release costs nothing. See \
             halflit ledger show {}",
            args.input.dataset.quoted_data()
        );
    } else {
        println!("Next: halflit train {}", own_arguments());
    }
    Ok(())
}

/// An open account, in the ledger beside the data, that has no room for any further noisy release. A ledger that cannot be read is for `train` to refuse.
fn exhausted_account(data: &Path) -> Option<String> {
    let ledger = Some(default_ledger(data)).filter(|path| path.is_file())?;
    let accounts = Ledger::open(&ledger).and_then(|ledger| ledger.overview()).ok()?.accounts;
    let is_exhausted = |standing: &Standing| standing.account.is_open && standing.left.is_none();
    accounts.into_iter().find(is_exhausted).map(|standing| standing.account.name)
}

/// What stands behind `plan` on the command line: `train` takes the same.
fn own_arguments() -> String {
    let behind = std::env::args_os().skip_while(|word| word != "plan").skip(1);
    behind.map(|word| quoted(word.to_string_lossy().into_owned())).collect::<Vec<_>>().join(" ")
}
