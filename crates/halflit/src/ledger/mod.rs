//! The ledger: what has been spent on a dataset, written down before anything is touched.
//!
//! One ledger belongs to one dataset. It holds accounts (a relation with a cap) and charges (a relation with an event). Every charge is
//! counted in every open account under that account's relation; a charge that would exceed a cap, or whose cost in
//! some open account is unbounded, is refused and nothing is written. At least one account must be open.
//!
//! Whoever charges has seen the earlier releases, so an account is a filter ([`halflit_privacy::filter`]), not a sum of
//! privacy-loss distributions. `proof.md` has the argument, `docs/ledger.md` the story.
//!
//! ```text
//! plan --charge--> Charged<Plan> --run--> output --release--> files
//!        |
//!        the entry is on disk before `charge` returns; only `Charged` can open sealed cells
//! ```
//!
//! A process killed before the commit has charged nothing and can release nothing; killed after it, the charge stays and at worst a budget is
//! wasted. Nothing else can happen.

mod log;
mod repricing;
mod state;

pub use log::LogError;
pub use repricing::{Unbounded, price_in};

use crate::digest::random_id;
use crate::plan::Priced;
use halflit_noise::NoiseSource;
use halflit_privacy::{AccountingError, Delta, Epsilon, Event, Interval, ParameterError, Relation};
use halflit_table::{Budget, Unsealed};
use log::{Entry, Log};
use serde::{Deserialize, Serialize};
use state::State;
use std::path::Path;

/// The account that `train` opens when a ledger has none.
pub const DEFAULT_ACCOUNT: &str = "default";

/// Why the ledger refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LedgerError {
    /// The file.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The charge would exceed a cap.
    #[error(
        "account {account} allows epsilon {} at delta {}; this release would bring it to epsilon {}{}, or \
         give the account's promise up: open one with a higher cap (halflit ledger open) and close this one",
        crate::figures::declared(cap.epsilon), crate::figures::delta(cap.delta), crate::figures::at_most(*after, 4), what_is_left(*cap, *left)
    )]
    OverCap {
        /// Which account.
        account: String,
        /// Its cap.
        cap: Budget,
        /// The smallest epsilon at the cap's delta that would have admitted this release too.
        after: f64,
        /// The largest further Gaussian release that fits, as an epsilon at the cap's delta; the largest pure one if that is 0.
        left: Option<f64>,
    },
    /// A release without a pure price meets an account without a delta.
    #[error(
        "account {account} allows pure differential privacy only (delta 0), and {} not pure; plan with --delta 0, or give the \
         account's promise up: open one with a delta above 0 (halflit ledger open) and close this one",
        if *is_new { "this release is" } else { "an earlier charge is" }
    )]
    NotPure {
        /// Which account.
        account: String,
        /// Whether it is the release that asks to be charged.
        is_new: bool,
    },
    /// The charge has no bounded cost in an open account.
    #[error(
        "this release has no bounded cost in the open account {account}: {why}; close that account first (halflit ledger close DATA --account {account}), which gives its promise up for later releases"
    )]
    Unbounded {
        /// Which account.
        account: String,
        /// Why.
        why: Unbounded,
    },
    /// No account is open, so nothing would limit the charge.
    #[error(
        "every account of this ledger is closed ({}), so nothing would limit what is spent; open one first (halflit ledger open)",
        closed.join(", ")
    )]
    NothingOpen {
        /// The closed accounts.
        closed: Vec<String>,
    },
    /// There is no charge that waits for an outcome under this number.
    #[error("the ledger has no charge {charge} without an outcome")]
    NoCharge {
        /// What was asked for.
        charge: i64,
    },
    /// There is no such open account.
    #[error("there is no open account named {account}; open accounts: {}", open.join(", "))]
    NoAccount {
        /// What was asked for.
        account: String,
        /// What there is.
        open: Vec<String>,
    },
    /// A name that nobody could read or write.
    #[error(
        "the account name {name:?} must be a visible text without control characters; choose another name, such as yearly"
    )]
    AccountName {
        /// The name.
        name: String,
    },
    /// The name is taken.
    #[error("the ledger already has an account named {account}; choose another name")]
    AccountExists {
        /// The name.
        account: String,
    },
    /// The dataset's random id could not be drawn.
    #[error(transparent)]
    Noise(#[from] halflit_noise::NoiseError),
    /// The events cannot be priced.
    #[error(transparent)]
    Accounting(#[from] AccountingError),
    /// A number outside its range.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
}

fn what_is_left(cap: Budget, left: Option<f64>) -> String {
    match left {
        Some(left) => format!(
            "; a further {} release of at most epsilon {} fits: plan with a smaller --epsilon",
            if cap.delta > 0.0 { "Gaussian" } else { "pure" },
            crate::figures::at_least(left, 4)
        ),
        None => "; nothing is left but for releases that cost nothing (of public rows or columns alone)"
            .to_owned(),
    }
}

/// One line of the ledger.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "kebab-case", deny_unknown_fields)]
enum Line {
    /// The first line.
    Dataset {
        id: String,
        software: String,
    },
    AccountOpened {
        name: String,
        relation: Relation,
        epsilon: f64,
        delta: f64,
    },
    AccountClosed {
        name: String,
    },
    Charge {
        relation: Relation,
        event: Event,
        mechanism: String,
    },
    Outcome {
        charge: i64,
        outcome: Outcome,
    },
}

/// What became of a charge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The release was written; its model has this SHA-256.
    Released {
        /// SHA-256 of the model file.
        model_sha256: String,
    },
    /// The run stopped and nothing was released.
    NothingReleased {
        /// Why, in public words.
        reason: String,
    },
}

/// An account.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Account {
    /// Its name.
    pub name: String,
    /// Whom it protects.
    pub relation: Relation,
    /// What may be spent.
    pub epsilon: f64,
    /// What may be spent.
    pub delta: f64,
    /// Whether later charges must fit into it.
    pub is_open: bool,
}

/// A charge as shown to the owner.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChargeLine {
    /// Its number in the ledger.
    pub number: i64,
    /// When it was recorded.
    pub charged_at: String,
    /// Under which relation it was made.
    pub relation: Relation,
    /// What happened.
    pub event: Event,
    /// By which mechanism.
    pub mechanism: String,
    /// What became of it, if that was recorded.
    pub outcome: Option<Outcome>,
}

/// How an account stands.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Standing {
    /// The account.
    pub account: Account,
    /// Epsilon spent at the account's delta; none if some charge has no bounded cost in it. The upper end is the smallest cap that would
    /// have admitted the charges, each chosen after seeing the earlier ones; the lower end is what they cost had all been planned in advance.
    /// A closed account counts what was charged until it was closed.
    pub spent: Option<Interval>,
    /// The largest further Gaussian release that fits, as an epsilon at the account's delta; the largest pure one if that is 0.
    pub left: Option<f64>,
}

/// Everything in a ledger.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Overview {
    /// The dataset's random id.
    pub dataset: String,
    /// The accounts, in order of opening.
    pub accounts: Vec<Standing>,
    /// The charges, in order.
    pub charges: Vec<ChargeLine>,
}

/// An open ledger.
#[derive(Debug)]
pub struct Ledger {
    log: Log,
}

/// A plan whose price is on disk. Only this value can run: it holds the key to the sealed cells.
///
/// ```compile_fail,E0599
/// # fn story(plan: halflit::Plan, noise: &mut halflit::noise::NoiseSource) {
/// plan.run(noise, &mut ()); // a plan that was not charged cannot run
/// # }
/// ```
///
/// ```
/// # fn story(plan: halflit::Charged<halflit::Plan>, noise: &mut halflit::noise::NoiseSource) {
/// let output = plan.run(noise, &mut ());
/// # }
/// ```
///
/// Nor can a charged plan be made by hand, or used twice:
///
/// ```compile_fail,E0451
/// # fn story(plan: halflit::Plan, receipt: halflit::Receipt, key: halflit::table::Unsealed) {
/// let charged = halflit::Charged { plan, receipt, key };
/// # }
/// ```
///
/// ```compile_fail,E0382
/// # fn story(plan: halflit::Charged<halflit::Plan>, noise: &mut halflit::noise::NoiseSource) {
/// let once = plan.run(noise, &mut ());
/// let twice = plan.run(noise, &mut ());
/// # }
/// ```
#[derive(Debug)]
pub struct Charged<P> {
    pub(crate) plan: P,
    pub(crate) receipt: Receipt,
    pub(crate) key: Unsealed,
}

impl<P> Charged<P> {
    /// The plan.
    pub fn plan(&self) -> &P {
        &self.plan
    }

    /// What the ledger wrote down.
    pub fn receipt(&self) -> &Receipt {
        &self.receipt
    }
}

/// What the ledger wrote down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Receipt {
    /// The dataset's random id.
    pub dataset: String,
    /// The number of the charge.
    pub charge: i64,
    /// When it was recorded, UTC.
    pub charged_at: String,
}

impl Ledger {
    /// Opens the ledger of a dataset, creating one with a random id where there is none.
    ///
    /// # Errors
    /// A file that is there but is not a whole ledger: an emptied or shortened one is never taken for a new one.
    pub fn open_or_create(path: &Path) -> Result<Self, LedgerError> {
        let first = Line::Dataset { id: dataset_id()?, software: crate::SOFTWARE.to_owned() };
        Self::checked(Log::open_or_create(path, &first)?)
    }

    /// Opens the ledger that a plan is to be charged to, creating one where there is none and the plan fits its own declared budget: a
    /// charge that is refused leaves no empty ledger behind.
    ///
    /// # Errors
    /// As [`Ledger::open_or_create`], and as [`Ledger::charge`] where there is no ledger yet.
    pub fn open_or_create_for(path: &Path, plan: &impl Priced) -> Result<Self, LedgerError> {
        // A link that leads nowhere is something, too.
        if std::fs::symlink_metadata(path).is_err() {
            State::of(&[], path)?.admit(plan.relation(), plan.event(), plan.declared_budget())?;
        }
        Self::open_or_create(path)
    }

    /// Opens a ledger that must be there.
    pub fn open(path: &Path) -> Result<Self, LedgerError> {
        Self::checked(Log::open(path)?)
    }

    fn checked(log: Log) -> Result<Self, LedgerError> {
        let ledger = Ledger { log };
        ledger.state()?;
        Ok(ledger)
    }

    fn state(&self) -> Result<State, LedgerError> {
        Ok(State::of(&self.log.entries::<Line>()?, self.path())?)
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        self.log.path()
    }

    /// Opens an account. Charges made before count in it too.
    ///
    /// If the cap was chosen after looking at earlier releases, its promise is about what is charged from now on; otherwise about everything.
    ///
    /// # Errors
    /// The name is taken or no name, or what was already spent does not fit.
    pub fn open_account(&mut self, name: &str, relation: &Relation, cap: Budget) -> Result<(), LedgerError> {
        check_account_name(name)?;
        let account = Account {
            name: name.to_owned(),
            relation: relation.clone(),
            epsilon: cap.epsilon,
            delta: cap.delta,
            is_open: true,
        };
        Epsilon::new(cap.epsilon)?;
        Delta::new(cap.delta)?;
        let path = self.path().to_owned();
        self.log.append(|entries: &[Entry<Line>]| {
            let state = State::of(entries, &path)?;
            if state.accounts().any(|existing| existing.name == name) {
                return Err(LedgerError::AccountExists { account: name.to_owned() });
            }
            state.must_fit(&account, None)?;
            let line = Line::AccountOpened {
                name: name.to_owned(),
                relation: relation.clone(),
                epsilon: cap.epsilon,
                delta: cap.delta,
            };
            Ok((vec![line], ()))
        })
    }

    /// Closes an account: later charges need not fit into it, so its promise covers only what was charged until now.
    pub fn close_account(&mut self, name: &str) -> Result<(), LedgerError> {
        let path = self.path().to_owned();
        self.log.append(|entries: &[Entry<Line>]| {
            State::of(entries, &path)?.open_account(name)?;
            Ok((vec![Line::AccountClosed { name: name.to_owned() }], ()))
        })
    }

    /// Records the price of a plan, or refuses it. When this returns, the charge is on disk.
    ///
    /// If the ledger has no account yet, one named `default` is opened with the plan's relation and declared budget.
    pub fn charge<P: Priced>(&mut self, plan: P) -> Result<Charged<P>, LedgerError> {
        let (relation, event) = (plan.relation().clone(), plan.event().clone());
        let receipt = self.record(&relation, &event, plan.mechanism_name(), plan.declared_budget())?;
        #[expect(clippy::disallowed_methods, reason = "the one place: the charge has just been committed")]
        let key = Unsealed::charge_was_recorded();
        Ok(Charged { plan, receipt, key })
    }

    fn record(
        &mut self,
        relation: &Relation,
        event: &Event,
        mechanism: &str,
        declared: Budget,
    ) -> Result<Receipt, LedgerError> {
        let path = self.path().to_owned();
        let number = self.log.append(|entries: &[Entry<Line>]| {
            let opened = State::of(entries, &path)?.admit(relation, event, declared)?;
            let mut lines: Vec<Line> = opened.into_iter().collect();
            let (relation, event, mechanism) = (relation.clone(), event.clone(), mechanism.to_owned());
            lines.push(Line::Charge { relation, event, mechanism });
            Ok::<_, LedgerError>((lines.clone(), (entries.len() + lines.len()) as i64))
        })?;
        let state = self.state()?;
        let charged_at = state.charge(number).map_or_else(String::new, |line| line.charged_at.clone());
        Ok(Receipt { dataset: state.dataset().to_owned(), charge: number, charged_at })
    }

    /// Notes what became of a charge, once. The charge itself stays whatever happens.
    ///
    /// # Errors
    /// There is no such charge, or its outcome is known.
    pub fn record_outcome(&mut self, charge: i64, outcome: Outcome) -> Result<(), LedgerError> {
        let path = self.path().to_owned();
        self.log.append(|entries: &[Entry<Line>]| {
            let state = State::of(entries, &path)?;
            state
                .charge(charge)
                .filter(|line| line.outcome.is_none())
                .ok_or(LedgerError::NoCharge { charge })?;
            Ok((vec![Line::Outcome { charge, outcome }], ()))
        })
    }

    /// Everything, for the owner.
    pub fn overview(&self) -> Result<Overview, LedgerError> {
        self.state()?.overview()
    }
}

/// Refuses names of accounts that are blank or could not be printed in one line.
///
/// # Errors
/// [`LedgerError::AccountName`].
pub fn check_account_name(name: &str) -> Result<(), LedgerError> {
    if name.trim().is_empty() || name.contains(char::is_control) {
        return Err(LedgerError::AccountName { name: name.to_owned() });
    }
    Ok(())
}

/// A dataset is named without saying anything about it.
fn dataset_id() -> Result<String, LedgerError> {
    Ok(random_id(&mut NoiseSource::from_os()?.stream()?))
}

#[cfg(test)]
mod tests;
