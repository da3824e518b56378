//! The ledger: what has been spent on a dataset, written down before anything is touched.
//!
//! One ledger belongs to one dataset. It holds accounts (a relation with a cap) and charges (a relation with an event). Every charge is
//! composed into every open account under that account's relation; a charge that would exceed a cap, or whose cost in
//! some open account is unbounded, is refused and nothing is written.
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

pub use log::LogError;
pub use repricing::{Unbounded, price_in};

use crate::plan::Priced;
use halflit_noise::NoiseSource;
use halflit_privacy::{
    AccountingError, Delta, Epsilon, Event, Interval, Mu, ParameterError, Profile, Relation,
};
use halflit_table::{Budget, Unsealed};
use log::{Entry, Log};
use serde::{Deserialize, Serialize};
use std::num::NonZeroU64;
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
        "account {account} allows epsilon {} at delta {:e}; this release would bring it to epsilon {}{}; plan with a smaller \
         --epsilon, or give the account's promise up: open one with a higher cap (halflit ledger open) and close this one",
        cap.epsilon, cap.delta, crate::figures::at_most(*after, 4), what_is_left(*left)
    )]
    OverCap {
        /// Which account.
        account: String,
        /// Its cap.
        cap: Budget,
        /// Epsilon at the cap's delta, with this release.
        after: f64,
        /// The largest further Gaussian release that fits, as an epsilon at the cap's delta.
        left: Option<f64>,
    },
    /// The charge has no bounded cost in an open account.
    #[error(
        "this release has no bounded cost in the open account {account}: {why}; close that account first (halflit ledger close {account}), which gives its promise up for later releases"
    )]
    Unbounded {
        /// Which account.
        account: String,
        /// Why.
        why: Unbounded,
    },
    /// There is no such open account.
    #[error("there is no open account named {account}; open accounts: {}", open.join(", "))]
    NoAccount {
        /// What was asked for.
        account: String,
        /// What there is.
        open: Vec<String>,
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

fn what_is_left(left: Option<f64>) -> String {
    match left {
        Some(left) => format!(
            "; a further Gaussian release of at most epsilon {} fits",
            crate::figures::at_least(left, 4)
        ),
        None => "; nothing is left".to_owned(),
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

impl Account {
    fn cap(&self) -> Budget {
        Budget { epsilon: self.epsilon, delta: self.delta }
    }
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
    /// Epsilon spent at the account's delta; none if some charge has no bounded cost in it.
    pub spent: Option<Interval>,
    /// The largest further Gaussian release that fits, as an epsilon at the account's delta.
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
    pub fn open_or_create(path: &Path) -> Result<Self, LedgerError> {
        let mut log = Log::open_or_create(path)?;
        let id = dataset_id()?;
        log.append(|entries: &[Entry<Line>]| {
            let first = Line::Dataset { id, software: crate::SOFTWARE.to_owned() };
            Ok::<_, LedgerError>((if entries.is_empty() { vec![first] } else { vec![] }, ()))
        })?;
        Ok(Ledger { log })
    }

    /// Opens a ledger that must be there.
    pub fn open(path: &Path) -> Result<Self, LedgerError> {
        Ok(Ledger { log: Log::open(path)? })
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        self.log.path()
    }

    /// Opens an account. Charges made before count in it too.
    ///
    /// # Errors
    /// The name is taken, or what was already spent does not fit.
    pub fn open_account(&mut self, name: &str, relation: &Relation, cap: Budget) -> Result<(), LedgerError> {
        let account = Account {
            name: name.to_owned(),
            relation: relation.clone(),
            epsilon: cap.epsilon,
            delta: cap.delta,
            is_open: true,
        };
        Epsilon::new(cap.epsilon)?;
        Delta::new(cap.delta)?;
        self.log.append(|entries: &[Entry<Line>]| {
            let state = State::of(entries);
            if state.accounts.iter().any(|existing| existing.name == name) {
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
        self.log.append(|entries: &[Entry<Line>]| {
            State::of(entries).open_account(name)?;
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
        let number = self.log.append(|entries: &[Entry<Line>]| {
            let mut state = State::of(entries);
            let mut lines = Vec::new();
            if state.accounts.is_empty() {
                let Budget { epsilon, delta } = declared;
                let (name, relation) = (DEFAULT_ACCOUNT.to_owned(), relation.clone());
                lines.push(Line::AccountOpened {
                    name: name.clone(),
                    relation: relation.clone(),
                    epsilon,
                    delta,
                });
                state.accounts.push(Account { name, relation, epsilon, delta, is_open: true });
            }
            for account in state.accounts.iter().filter(|account| account.is_open) {
                state.must_fit(account, Some((relation, event)))?;
            }
            let (relation, event, mechanism) = (relation.clone(), event.clone(), mechanism.to_owned());
            lines.push(Line::Charge { relation, event, mechanism });
            Ok::<_, LedgerError>((lines.clone(), (entries.len() + lines.len()) as i64))
        })?;
        let entries = self.log.entries::<Line>()?;
        let charged_at =
            entries.get(number as usize - 1).map_or_else(String::new, |entry| entry.written_at.clone());
        Ok(Receipt { dataset: State::of(&entries).dataset, charge: number, charged_at })
    }

    /// Notes what became of a charge. The charge itself stays whatever happens.
    pub fn record_outcome(&mut self, charge: i64, outcome: Outcome) -> Result<(), LedgerError> {
        self.log.append(|_: &[Entry<Line>]| Ok((vec![Line::Outcome { charge, outcome }], ())))
    }

    /// Everything, for the owner.
    pub fn overview(&self) -> Result<Overview, LedgerError> {
        let state = State::of(&self.log.entries::<Line>()?);
        let accounts =
            state.accounts.iter().map(|account| state.standing(account)).collect::<Result<_, _>>()?;
        Ok(Overview { dataset: state.dataset.clone(), accounts, charges: state.charges })
    }
}

/// A random 128-bit id, so that a dataset can be named without saying anything about it.
fn dataset_id() -> Result<String, LedgerError> {
    let mut stream = NoiseSource::from_os()?.stream()?;
    let words = [(); 2].map(|()| stream.uniform_below(NonZeroU64::MAX));
    Ok(words.map(|word| format!("{word:016x}")).concat())
}

/// The ledger's lines, replayed.
struct State {
    dataset: String,
    accounts: Vec<Account>,
    charges: Vec<ChargeLine>,
}

impl State {
    fn of(entries: &[Entry<Line>]) -> Self {
        let mut state = State { dataset: String::new(), accounts: Vec::new(), charges: Vec::new() };
        for entry in entries {
            match entry.body.clone() {
                Line::Dataset { id, .. } => state.dataset = id,
                Line::AccountOpened { name, relation, epsilon, delta } => {
                    state.accounts.push(Account { name, relation, epsilon, delta, is_open: true });
                }
                Line::AccountClosed { name } => {
                    for account in state.accounts.iter_mut().filter(|account| account.name == name) {
                        account.is_open = false;
                    }
                }
                Line::Charge { relation, event, mechanism } => state.charges.push(ChargeLine {
                    number: entry.number,
                    charged_at: entry.written_at.clone(),
                    relation,
                    event,
                    mechanism,
                    outcome: None,
                }),
                Line::Outcome { charge, outcome } => {
                    for line in state.charges.iter_mut().filter(|line| line.number == charge) {
                        line.outcome = Some(outcome.clone());
                    }
                }
            }
        }
        state
    }

    fn open_account(&self, name: &str) -> Result<&Account, LedgerError> {
        let open = || self.accounts.iter().filter(|account| account.is_open);
        open().find(|account| account.name == name).ok_or_else(|| LedgerError::NoAccount {
            account: name.to_owned(),
            open: open().map(|account| account.name.clone()).collect(),
        })
    }

    /// All charges as events of one account, with a further one.
    fn composed(&self, account: &Account, further: Option<(&Relation, &Event)>) -> Result<Event, Unbounded> {
        let earlier = self.charges.iter().map(|line| (&line.relation, &line.event));
        let events =
            earlier.chain(further).map(|(relation, event)| price_in(&account.relation, relation, event));
        Ok(Event::Composed(events.collect::<Result<_, _>>()?))
    }

    fn must_fit(&self, account: &Account, further: Option<(&Relation, &Event)>) -> Result<(), LedgerError> {
        let composed = self
            .composed(account, further)
            .map_err(|why| LedgerError::Unbounded { account: account.name.clone(), why })?;
        let profile = Profile::of(&composed)?;
        if fits(&profile, account.cap())? {
            return Ok(());
        }
        let left = self
            .composed(account, None)
            .ok()
            .map(|spent| left_in(&spent, account.cap()))
            .transpose()?
            .flatten();
        let after = profile.epsilon(Delta::new(account.delta)?).upper;
        Err(LedgerError::OverCap { account: account.name.clone(), cap: account.cap(), after, left })
    }

    fn standing(&self, account: &Account) -> Result<Standing, LedgerError> {
        let Ok(composed) = self.composed(account, None) else {
            return Ok(Standing { account: account.clone(), spent: None, left: None });
        };
        let spent = Profile::of(&composed)?.epsilon(Delta::new(account.delta)?);
        let left = left_in(&composed, account.cap())?;
        Ok(Standing { account: account.clone(), spent: Some(spent), left })
    }
}

/// Whether a profile stays inside a cap: at the cap's epsilon, or at its delta. Either statement implies the promise.
fn fits(profile: &Profile, cap: Budget) -> Result<bool, ParameterError> {
    let (epsilon, delta) = (Epsilon::new(cap.epsilon)?, Delta::new(cap.delta)?);
    Ok(profile.delta(epsilon).upper <= cap.delta || profile.epsilon(delta).upper <= cap.epsilon)
}

/// The largest further Gaussian release that fits, as the epsilon it would have on its own at the cap's delta.
fn left_in(spent: &Event, cap: Budget) -> Result<Option<f64>, LedgerError> {
    let holds = |mu: f64| -> Result<bool, LedgerError> {
        let with = Event::Composed(vec![spent.clone(), Event::Gdp { mu: Mu::new(mu)? }]);
        Ok(fits(&Profile::of(&with)?, cap)?)
    };
    let alone = |mu: f64| -> Result<f64, LedgerError> {
        Ok(Profile::of(&Event::Gdp { mu: Mu::new(mu)? })?.epsilon(Delta::new(cap.delta)?).upper)
    };
    let (mut low, mut high) = (0.0, 1.0);
    while holds(high)? && high < 1e3 {
        low = high;
        high *= 2.0;
    }
    while high - low > 1e-3 * high && high > 1e-4 {
        let middle = 0.5 * (low + high);
        if holds(middle)? { low = middle } else { high = middle }
    }
    // Less than a hundredth of the cap is what rounding leaves of a budget that is spent.
    Ok(Some(alone(low)?).filter(|&left| low > 0.0 && left > 0.01 * cap.epsilon))
}

#[cfg(test)]
mod tests;
