use crate::Failure;
use crate::commands::dataset::{Dataset, ledger_of, must_be_there};
use crate::commands::options::{budget, number};
use halflit::Ledger;
use halflit::figures::{at_least, at_most, declared, delta};
use halflit::ledger::{Outcome, Overview, Standing};
use serde_json::json;
use std::path::PathBuf;

/// See what has been spent on a dataset, and manage its accounts.
///
/// Every release on a dataset is recorded in its ledger before the data is touched, and counts in every account: an account is a
/// relation (who is protected) with a cap. The ledger belongs to the owner of the data; keep it with the data.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// List accounts and charges.
    #[command(after_help = "Example:\n  halflit ledger show patients.csv")]
    Show(Place),
    /// Open an account with the relation and the budget of a declaration.
    #[command(
        after_help = "Example:\n  halflit ledger open patients.csv --account yearly --epsilon 4 --delta 1e-6"
    )]
    Open(Open),
    /// Close an account: its promise then covers only what was charged until now.
    #[command(after_help = "Example:\n  halflit ledger close patients.csv --account yearly")]
    Close(Close),
}

/// Which ledger.
#[derive(clap::Args)]
struct Place {
    /// The data file whose ledger is meant.
    #[arg(required_unless_present = "ledger")]
    data: Option<PathBuf>,
    /// The ledger itself [default: NAME.ledger beside the data].
    #[arg(long, value_name = "FILE")]
    ledger: Option<PathBuf>,
}

#[derive(clap::Args)]
struct Open {
    #[command(flatten)]
    dataset: Dataset,
    /// The name of the new account.
    #[arg(long, value_name = "NAME")]
    account: String,
    /// Its cap: the most epsilon [default: the declared budget].
    #[arg(long, allow_negative_numbers = true, value_parser = number)]
    epsilon: Option<f64>,
    /// Its cap: at this delta [default: the declared budget].
    #[arg(long, allow_negative_numbers = true, value_parser = number)]
    delta: Option<f64>,
    /// The ledger [default: NAME.ledger beside the data].
    #[arg(long, value_name = "FILE")]
    ledger: Option<PathBuf>,
}

#[derive(clap::Args)]
struct Close {
    #[command(flatten)]
    place: Place,
    /// The name of the account to close.
    #[arg(long, value_name = "NAME")]
    account: String,
}

impl Place {
    fn path(&self) -> Result<PathBuf, Failure> {
        match (&self.ledger, &self.data) {
            (Some(ledger), _) => ledger_of(Some(ledger), ledger),
            (None, Some(data)) => {
                let ledger = ledger_of(None, data)?;
                // A ledger outlives its data.
                if ledger.exists() { Ok(ledger) } else { must_be_there(data).map(|()| ledger) }
            }
            (None, None) => Err(Failure::BadInput("name a data file, or a ledger with --ledger".to_owned())),
        }
    }
}

pub fn run(args: Args, json: bool) -> Result<(), Failure> {
    match args.action {
        Action::Show(place) => {
            let ledger = Ledger::open(&place.path()?).map_err(Failure::bad_input)?;
            let overview = ledger.overview().map_err(Failure::bad_input)?;
            if json {
                println!("{}", json!(overview));
            } else {
                show(&overview);
            }
        }
        Action::Open(open) => {
            let protection = open.dataset.protection()?;
            let cap = budget(open.epsilon, open.delta, protection.budget())?;
            let path = ledger_of(open.ledger.as_deref(), &open.dataset.data)?;
            // Before a ledger is made for it.
            halflit::ledger::check_account_name(&open.account).map_err(Failure::bad_input)?;
            let mut ledger = Ledger::open_or_create(&path).map_err(Failure::bad_input)?;
            ledger.open_account(&open.account, protection.relation(), cap).map_err(Failure::bad_input)?;
            done(json, &open.account, "opened", &path);
        }
        Action::Close(close) => {
            let path = close.place.path()?;
            let mut ledger = Ledger::open(&path).map_err(Failure::bad_input)?;
            ledger.close_account(&close.account).map_err(Failure::bad_input)?;
            done(json, &close.account, "closed", &path);
        }
    }
    Ok(())
}

fn done(json: bool, account: &str, what: &str, path: &std::path::Path) {
    if json {
        println!("{}", json!({ "account": account, "done": what, "ledger": path }));
    } else {
        println!("Account {account} {what} in {}.", path.display());
    }
}

fn show(overview: &Overview) {
    println!("Dataset {}\n\nAccounts", overview.dataset);
    if overview.accounts.is_empty() {
        println!("  none yet: the first charge opens one");
    }
    for standing in &overview.accounts {
        println!("  {}", standing_line(standing));
        println!("      {}", standing.account.relation.sentence());
    }
    println!("\nCharges");
    if overview.charges.is_empty() {
        println!("  none yet");
    }
    for charge in &overview.charges {
        let outcome = match &charge.outcome {
            Some(Outcome::Released { model_sha256 }) => {
                format!("released, model {}", &model_sha256[..model_sha256.len().min(12)])
            }
            Some(Outcome::NothingReleased { reason }) => format!("nothing released: {reason}"),
            None => "no outcome recorded".to_owned(),
        };
        println!("  {:>4}  {}  {:<16} {outcome}", charge.number, charge.charged_at, charge.mechanism);
    }
}

/// One line on how an account stands.
pub fn standing_line(standing: &Standing) -> String {
    let account = &standing.account;
    let state = if account.is_open { "" } else { " (closed)" };
    let spent = standing.spent.map_or("a charge has no bounded cost in it".to_owned(), |spent| {
        format!("spent epsilon {} of {}", at_most(spent.upper, 4), declared(account.epsilon))
    });
    let left = match (account.is_open, standing.left) {
        (false, _) => String::new(),
        (true, Some(left)) => {
            let kind = if account.delta > 0.0 { "Gaussian" } else { "pure" };
            format!(", {} left for one further {kind} release", at_least(left, 3))
        }
        (true, None) => ", nothing left".to_owned(),
    };
    format!("{}{state}: {spent} at delta {}{left}", account.name, delta(account.delta))
}
