//! The ledger's lines, replayed: which accounts there are, what was charged, and what still fits.

use super::log::{Entry, LogError};
use super::repricing::{Unbounded, price_in};
use super::{Account, ChargeLine, DEFAULT_ACCOUNT, LedgerError, Line, Overview, Standing};
use halflit_privacy::calibrate::Budget as Cap;
use halflit_privacy::filter::{CapError, Room, Rule};
use halflit_privacy::{Delta, Epsilon, Event, Interval, Mu, Profile, Relation};
use halflit_table::Budget;
use std::path::Path;

/// What the lines of a ledger amount to.
pub(super) struct State {
    dataset: String,
    accounts: Vec<Kept>,
    charges: Vec<ChargeLine>,
}

/// An account and the charges that count in it.
struct Kept {
    account: Account,
    /// How many charges there were when it was closed; all of them while it is open.
    closed_after: Option<usize>,
}

impl State {
    /// Replays the lines. The hash chain has been checked; this checks that the story they tell is possible.
    pub(super) fn of(entries: &[Entry<Line>], path: &Path) -> Result<Self, LogError> {
        let mut state = State { dataset: String::new(), accounts: Vec::new(), charges: Vec::new() };
        for (place, entry) in entries.iter().enumerate() {
            let is_first = matches!(entry.body, Line::Dataset { .. });
            if is_first != (place == 0) || !state.tell(entry) {
                return Err(LogError::Altered { path: path.to_owned(), entry: entry.number });
            }
        }
        Ok(state)
    }

    /// One more line; false if it cannot follow the others.
    fn tell(&mut self, entry: &Entry<Line>) -> bool {
        match entry.body.clone() {
            Line::Dataset { id, .. } => self.dataset = id,
            Line::AccountOpened { name, relation, epsilon, delta } => {
                if self.accounts().any(|account| account.name == name) {
                    return false;
                }
                self.open(Account { name, relation, epsilon, delta, is_open: true });
            }
            Line::AccountClosed { name } => {
                let charges = self.charges.len();
                let is_it = |kept: &&mut Kept| kept.account.name == name && kept.account.is_open;
                let Some(kept) = self.accounts.iter_mut().find(is_it) else { return false };
                kept.account.is_open = false;
                kept.closed_after = Some(charges);
            }
            Line::Charge { relation, event, mechanism } => self.charges.push(ChargeLine {
                number: entry.number,
                charged_at: entry.written_at.clone(),
                relation,
                event,
                mechanism,
                outcome: None,
            }),
            Line::Outcome { charge, outcome } => {
                let Some(line) = self.charges.iter_mut().find(|line| line.number == charge) else {
                    return false;
                };
                line.outcome = Some(outcome);
            }
        }
        true
    }

    pub(super) fn dataset(&self) -> &str {
        &self.dataset
    }

    pub(super) fn accounts(&self) -> impl Iterator<Item = &Account> {
        self.accounts.iter().map(|kept| &kept.account)
    }

    pub(super) fn charge(&self, number: i64) -> Option<&ChargeLine> {
        self.charges.iter().find(|line| line.number == number)
    }

    fn open(&mut self, account: Account) {
        self.accounts.push(Kept { account, closed_after: None });
    }

    pub(super) fn open_account(&self, name: &str) -> Result<&Account, LedgerError> {
        let open = || self.accounts().filter(|account| account.is_open);
        open().find(|account| account.name == name).ok_or_else(|| LedgerError::NoAccount {
            account: name.to_owned(),
            open: open().map(|account| account.name.clone()).collect(),
        })
    }

    /// Admits a release or refuses it. Where there is no account yet, one named `default` is opened with the declared budget: the line that says so.
    pub(super) fn admit(
        &mut self,
        relation: &Relation,
        event: &Event,
        declared: Budget,
    ) -> Result<Option<Line>, LedgerError> {
        let mut opened = None;
        if self.accounts().next().is_none() {
            let Budget { epsilon, delta } = declared;
            let (name, relation) = (DEFAULT_ACCOUNT.to_owned(), relation.clone());
            opened =
                Some(Line::AccountOpened { name: name.clone(), relation: relation.clone(), epsilon, delta });
            self.open(Account { name, relation, epsilon, delta, is_open: true });
        }
        self.must_admit(relation, event)?;
        Ok(opened)
    }

    /// Whether a release may be charged: some account is open, and it fits into all of them.
    fn must_admit(&self, relation: &Relation, event: &Event) -> Result<(), LedgerError> {
        if !self.accounts().any(|account| account.is_open) {
            let closed = self.accounts().map(|account| account.name.clone()).collect();
            return Err(LedgerError::NothingOpen { closed });
        }
        self.accounts()
            .filter(|account| account.is_open)
            .try_for_each(|account| self.must_fit(account, Some((relation, event))))
    }

    /// Whether all charges so far, and a further one, are within an account's cap.
    pub(super) fn must_fit(
        &self,
        account: &Account,
        further: Option<(&Relation, &Event)>,
    ) -> Result<(), LedgerError> {
        let unbounded = |why| LedgerError::Unbounded { account: account.name.clone(), why };
        let mut events = self.events_in(account, self.charges.len()).map_err(unbounded)?;
        if let Some((relation, event)) = further {
            events.push(price_in(&account.relation, relation, event).map_err(unbounded)?);
        }
        let cap = account.filter_cap()?;
        if is_within(cap, &events)? {
            return Ok(());
        }
        if let Some(place) = first_not_pure(cap, &events)? {
            let is_new = further.is_some() && place + 1 == events.len();
            return Err(LedgerError::NotPure { account: account.name.clone(), is_new });
        }
        let after = needed_epsilon(cap.delta, &events)?;
        if further.is_some() {
            events.pop();
        }
        let left = left_after(cap, &events)?;
        Err(LedgerError::OverCap { account: account.name.clone(), cap: account.cap(), after, left })
    }

    /// The first charges as events of an account.
    fn events_in(&self, account: &Account, charges: usize) -> Result<Vec<Event>, Unbounded> {
        let lines = self.charges.iter().take(charges);
        lines.map(|line| price_in(&account.relation, &line.relation, &line.event)).collect()
    }

    fn standing(&self, kept: &Kept) -> Result<Standing, LedgerError> {
        let account = kept.account.clone();
        let counted = kept.closed_after.unwrap_or(self.charges.len());
        let Ok(events) = self.events_in(&account, counted) else {
            return Ok(Standing { account, spent: None, left: None });
        };
        let cap = account.filter_cap()?;
        let upper = needed_epsilon(cap.delta, &events)?;
        let left = left_after(cap, &events)?;
        let lower = Profile::of(&Event::Composed(events))?.epsilon(cap.delta).lower.min(upper);
        Ok(Standing { account, spent: Some(Interval { lower, upper }), left })
    }

    pub(super) fn overview(self) -> Result<Overview, LedgerError> {
        let accounts = self.accounts.iter().map(|kept| self.standing(kept)).collect::<Result<_, _>>()?;
        Ok(Overview { dataset: self.dataset, accounts, charges: self.charges })
    }
}

impl Account {
    fn cap(&self) -> Budget {
        Budget { epsilon: self.epsilon, delta: self.delta }
    }

    fn filter_cap(&self) -> Result<Cap, LedgerError> {
        Ok(Cap { epsilon: Epsilon::new(self.epsilon)?, delta: Delta::new(self.delta)? })
    }
}

/// Whether a history is within the cap. The filter's sums only grow, so it was within the cap all along if it is at its last charge
/// that costs anything.
fn is_within(cap: Cap, events: &[Event]) -> Result<bool, LedgerError> {
    for last in (0..events.len()).rev() {
        match Room::new(cap, &events[..last])?.admit(&events[last]) {
            // A charge that costs nothing says nothing about those before it.
            Ok(Rule::Nothing) => {}
            Ok(_) => return Ok(true),
            Err(CapError::Exceeded { .. }) => return Ok(false),
            Err(CapError::Accounting(error)) => return Err(error.into()),
        }
    }
    Ok(true)
}

/// Where the first event stands that has no place in an account without a delta; none if the account has one.
fn first_not_pure(cap: Cap, events: &[Event]) -> Result<Option<usize>, LedgerError> {
    if cap.delta.get() > 0.0 {
        return Ok(None);
    }
    for (place, event) in events.iter().enumerate() {
        if Profile::of(event)?.epsilon(cap.delta).upper == f64::INFINITY {
            return Ok(Some(place));
        }
    }
    Ok(None)
}

/// The smallest epsilon that would have admitted a history at this delta, to a part in a thousand and rounded up; infinite if none below 2^20 does.
fn needed_epsilon(delta: Delta, events: &[Event]) -> Result<f64, LedgerError> {
    let costly: Vec<&Event> = events.iter().filter(|event| !is_nothing(event)).collect();
    match costly[..] {
        [] => return Ok(0.0),
        // Alone it has its own profile.
        [one] => return Ok(Profile::of(one)?.epsilon(delta).upper),
        // Pure epsilons add up, whoever chose them when.
        _ if delta.get() == 0.0 => {
            return Ok(Profile::of(&Event::Composed(events.to_vec()))?.epsilon(delta).upper);
        }
        _ => {}
    }
    let holds = |epsilon: f64| is_within(Cap { epsilon: Epsilon::new(epsilon)?, delta }, events);
    let (mut low, mut high) = (0.0, 1.0 / 16.0);
    while !holds(high)? {
        if high >= LARGEST_EPSILON {
            return Ok(f64::INFINITY);
        }
        (low, high) = (high, 2.0 * high);
    }
    while high - low > 1e-3 * high && high > SMALLEST_EPSILON {
        let middle = 0.5 * (low + high);
        if holds(middle)? { high = middle } else { low = middle }
    }
    Ok(high)
}

const LARGEST_EPSILON: f64 = (1u32 << 20) as f64;
const SMALLEST_EPSILON: f64 = 1e-9;

/// Nothing happened.
fn is_nothing(event: &Event) -> bool {
    match event {
        Event::Composed(events) | Event::Parallel(events) => events.iter().all(is_nothing),
        Event::Repeated { event, .. } => is_nothing(event),
        _ => false,
    }
}

/// The largest further Gaussian release that fits, as the epsilon it would have on its own at the cap's delta; without a delta the largest pure one.
fn left_after(cap: Cap, events: &[Event]) -> Result<Option<f64>, LedgerError> {
    if events.iter().all(is_nothing) {
        // The first release has its own profile, and may use all of it.
        return Ok(Some(cap.epsilon.get()));
    }
    let room = Room::new(cap, events)?;
    if cap.delta.get() == 0.0 {
        // Rounding leaves less than this.
        return Ok(Some(room.pure_left()).filter(|&left| left > 1e-9 * cap.epsilon.get()));
    }
    let mu = Mu::new(room.gaussian_left())?;
    let left = Profile::of(&Event::Gdp { mu })?.epsilon(cap.delta).upper;
    // Less than a hundredth of the cap is what rounding leaves of a budget that is spent.
    Ok(Some(left).filter(|&left| left > 0.01 * cap.epsilon.get()))
}
