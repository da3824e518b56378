//! One cap of (epsilon, delta) for releases of any kind, each chosen after seeing the earlier ones.
//!
//! Proof: `docs/accounting/filters.md`. In short: a history of releases is admitted if it satisfies at least one rule,
//!
//! | rule | what is added up | what it may use of delta |
//! |---|---|---|
//! | alone | nothing: the first release, by its own profile | all |
//! | pure | epsilon of pure releases | nothing |
//! | Gaussian | squared mu of Gaussian and pure releases | 7/8 if the first release is of that kind, else nothing |
//! | Renyi | Renyi divergences at one order, for any release | 1/16 if the first release is Gaussian or pure, else 15/16 |
//! | (revealed) | the deltas of (epsilon, delta) releases under the Renyi rule | 1/16 |
//!
//! and the shares add up to at most delta, because histories under different rules are different outcomes. The first
//! release is chosen before anything was seen, so the shares and the order may depend on it, and on the cap, but on
//! nothing else. A pure release at the beginning may instead be set aside: whatever follows it then has the rest of
//! epsilon and a beginning of its own.

use crate::calibrate::Budget;
use crate::closed_form::{gaussian_delta, renyi_log_delta};
use crate::composition::{Composition, add_up, alternatives, change_of, times_up};
use crate::error::AccountingError;
use crate::event::Event;
use crate::number::Epsilon;
use crate::pld::{Direction, Pair};
use crate::profile::Profile;
use crate::renyi::RenyiCurve;
use crate::special::normal_quantile_of_log;
use libm::{exp, log, log1p, sqrt};
use serde::Serialize;
use thiserror::Error;

/// What a Gaussian history may use of delta, if the first release is Gaussian or pure.
const GAUSSIAN_SHARE: f64 = 0.875;
/// What a history under the Renyi rule may then use.
const MIXED_SHARE: f64 = 0.0625;
/// What releases may use that reveal everything with some probability.
const REVEALED_SHARE: f64 = 0.0625;
/// Taken off every share: more than the sums and conversions behind it are rounded.
const SAFETY: f64 = 1.0 - 1e-9;

/// Why a history is within the cap.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(tag = "rule", rename_all = "kebab-case")]
pub enum Rule {
    /// Nothing has been released at all.
    Nothing,
    /// The only release so far, by its own profile.
    Alone {
        /// delta at the cap's epsilon.
        delta: f64,
    },
    /// Only pure releases: their epsilons add up.
    Pure {
        /// The sum, at most the cap's epsilon.
        epsilon: f64,
    },
    /// Only Gaussian and pure releases: their squared mu add up.
    Gaussian {
        /// The root of the sum.
        mu: f64,
        /// The largest mu that the cap allows.
        most: f64,
    },
    /// Any releases: their Renyi divergences of one order add up.
    Renyi {
        /// The order, fixed by the cap and the first release.
        order: f64,
        /// The sum.
        divergence: f64,
        /// The largest divergence that the cap allows.
        most: f64,
    },
}

/// A release that must not happen under the cap.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum CapError {
    /// The cap would be exceeded.
    #[error(
        "with this release the cap of epsilon = {epsilon}, delta = {delta:e} is exceeded; the largest further Gaussian release that \
         fits has mu = {gaussian_left:.4}: add noise, plan less, or stop"
    )]
    Exceeded {
        /// The cap's epsilon.
        epsilon: f64,
        /// The cap's delta.
        delta: f64,
        /// The largest mu (sensitivity over noise std) of an unsampled Gaussian release that still fits.
        gaussian_left: f64,
    },
    /// The release, or one before it, has no price.
    #[error(transparent)]
    Accounting(#[from] AccountingError),
}

/// Whether `next` may follow `charges` under the cap, although each of them was chosen after seeing the outputs of those
/// before it. The rule that admits it, or an error.
///
/// What makes the answer a filter, and the caller must keep:
///
/// - the cap, and the first charge, do not depend on outputs that the cap covers;
/// - every charge since then is in the list, in order, also those whose release was never finished;
/// - each event is fixed before its own release begins. Inside one event nothing may adapt but what its price covers:
///   one plan of a thousand sampled steps is one event with that many repetitions, not a thousand charges.
///
/// ```
/// use halflit_privacy::{Delta, Epsilon, Event, Mu, calibrate::Budget, filter};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let cap = Budget { epsilon: Epsilon::new(1.0)?, delta: Delta::new(1e-6)? };
/// let release = |mu: f64| Mu::new(mu).map(|mu| Event::Gdp { mu });
/// assert!(filter::fits(cap, &[], &release(0.15)?).is_ok());
/// assert!(filter::fits(cap, &[release(0.15)?], &release(0.1)?).is_ok());
/// assert!(filter::fits(cap, &[release(0.15)?, release(0.1)?], &release(0.2)?).is_err());
/// # Ok(())
/// # }
/// ```
pub fn fits(cap: Budget, charges: &[Event], next: &Event) -> Result<Rule, CapError> {
    Room::new(cap, charges)?.admit(next)
}

/// What is left under a cap after a list of charges; see [`fits`] for what the caller must keep.
#[derive(Debug, Clone)]
pub struct Room {
    cap: Budget,
    /// What is left of the cap's epsilon after the pure charges at the beginning that were set aside.
    epsilon: f64,
    /// The first charge that costs anything decides the shares and the order.
    terms: Option<Terms>,
    spent: Spent,
    /// The charges together, to refuse events that were priced for different changes.
    charges: Vec<Event>,
}

/// The shares of delta and the order, fixed by the cap and the first charge.
#[derive(Debug, Clone, Copy)]
struct Terms {
    /// delta of the Gaussian rule; zero if that rule is closed.
    gaussian: f64,
    /// The largest mu under it.
    most_mu: f64,
    /// delta of the Renyi rule.
    renyi: f64,
    /// Place of the order in every Renyi curve.
    place: usize,
    /// The order itself.
    order: f64,
    /// Sum of deltas of (epsilon, delta) releases.
    revealed: f64,
}

/// Sums over the charges, each rounded up; infinite where a charge has no such cost.
#[derive(Debug, Clone, Copy, Default)]
struct Spent {
    pure: f64,
    mu_squared: f64,
    renyi: f64,
    revealed: f64,
}

/// What one event costs under every rule, the largest over parallel branches.
struct Cost {
    pure: f64,
    mu_squared: f64,
    renyi: RenyiCurve,
    revealed: f64,
}

impl Room {
    /// Prices the charges in the order in which they were made.
    pub fn new(cap: Budget, charges: &[Event]) -> Result<Self, AccountingError> {
        let epsilon = cap.epsilon.get();
        let mut room = Room { cap, epsilon, terms: None, spent: Spent::default(), charges: Vec::new() };
        let mut priced: Vec<(&Event, Cost)> = Vec::new();
        for charge in charges {
            let position = match priced.iter().position(|(event, _)| *event == charge) {
                Some(position) => position,
                None => {
                    priced.push((charge, Cost::of(charge)?));
                    priced.len() - 1
                }
            };
            let cost = &priced[position].1;
            if cost.is_nothing() {
                continue;
            }
            room.charges.push(charge.clone());
            if room.terms.is_none() && set_aside(room.epsilon, cap.delta.get(), cost) {
                room.epsilon = -add_up(-room.epsilon, cost.pure);
                continue;
            }
            let terms = *room.terms.get_or_insert_with(|| Terms::new(room.epsilon, cap.delta.get(), cost));
            room.spent = room.spent.plus(cost, terms);
        }
        change_of(&Event::Composed(room.charges.clone()))?;
        Ok(room)
    }

    /// The rule under which the release may happen; an error means that it must not.
    pub fn admit(&self, next: &Event) -> Result<Rule, CapError> {
        let cost = Cost::of(next)?;
        if cost.is_nothing() {
            return Ok(self.rule_of(self.spent).unwrap_or(Rule::Nothing));
        }
        change_of(&Event::Composed(self.charges.iter().chain([next]).cloned().collect()))?;
        let Some(terms) = self.terms else {
            // Nothing was seen when this was chosen, apart from what was set aside: its own profile decides.
            let epsilon = Epsilon::new(self.epsilon).map_err(AccountingError::Parameter)?;
            let delta = Profile::of(next)?.delta(epsilon).upper;
            return if delta <= self.cap.delta.get() {
                Ok(Rule::Alone { delta })
            } else {
                Err(self.exceeded())
            };
        };
        self.rule_of(self.spent.plus(&cost, terms)).ok_or_else(|| self.exceeded())
    }

    /// The largest mu (sensitivity over noise std) of an unsampled Gaussian release that fits now; zero if none does.
    pub fn gaussian_left(&self) -> f64 {
        let Some(terms) = self.terms else {
            return largest_mu(self.epsilon, self.cap.delta.get()) * SAFETY;
        };
        let by_mu = sqrt((terms.most_mu * terms.most_mu - self.spent.mu_squared).max(0.0));
        // order mu^2/2 <= what is left
        let left = terms.most_divergence(self.epsilon) - self.spent.renyi;
        let by_renyi =
            if self.spent.revealed <= terms.revealed { sqrt(2.0 * left.max(0.0) / terms.order) } else { 0.0 };
        by_mu.max(by_renyi) * SAFETY
    }

    /// The largest pure release that fits now by the rule for pure releases, which uses nothing of delta.
    pub fn pure_left(&self) -> f64 {
        // Rounded down: the charges' sum is rounded up.
        -add_up(-self.epsilon, self.spent.pure).min(0.0)
    }

    fn exceeded(&self) -> CapError {
        let Budget { epsilon, delta } = self.cap;
        let gaussian_left = self.gaussian_left();
        CapError::Exceeded { epsilon: epsilon.get(), delta: delta.get(), gaussian_left }
    }

    /// The first rule that sums like these satisfy.
    fn rule_of(&self, spent: Spent) -> Option<Rule> {
        let terms = self.terms?;
        if spent.pure <= self.epsilon {
            return Some(Rule::Pure { epsilon: spent.pure });
        }
        if spent.mu_squared <= (terms.most_mu * terms.most_mu).next_down() {
            return Some(Rule::Gaussian { mu: sqrt(spent.mu_squared), most: terms.most_mu });
        }
        let log_delta = renyi_log_delta(terms.order, spent.renyi, self.epsilon);
        let within = log_delta <= log(terms.renyi) && spent.revealed <= terms.revealed;
        within.then(|| Rule::Renyi {
            order: terms.order,
            divergence: spent.renyi,
            most: terms.most_divergence(self.epsilon),
        })
    }
}

/// Whether a pure release at the beginning is better subtracted from epsilon than added to what follows: whichever
/// leaves more for Gaussians.
fn set_aside(eps: f64, delta: f64, cost: &Cost) -> bool {
    if !(cost.pure <= eps) {
        return false;
    }
    let whole = largest_mu(eps, delta);
    let added = sqrt((whole * whole - cost.mu_squared).max(0.0));
    largest_mu(eps - cost.pure, delta) >= added
}

impl Terms {
    fn new(eps: f64, cap_delta: f64, first: &Cost) -> Self {
        let delta = cap_delta * SAFETY;
        let is_gaussian = first.mu_squared.is_finite();
        let gaussian = if is_gaussian { GAUSSIAN_SHARE * delta } else { 0.0 };
        let renyi = if is_gaussian { MIXED_SHARE * delta } else { (1.0 - REVEALED_SHARE) * delta };
        let revealed = REVEALED_SHARE * delta;
        let most_mu = largest_mu(eps, gaussian);
        let mut terms = Terms { gaussian, most_mu, renyi, place: 0, order: f64::NAN, revealed };
        // The order at which the first release uses the smallest part of what the cap allows.
        let mut best = f64::INFINITY;
        for (place, (order, bound)) in first.renyi.all_points().enumerate() {
            let most = most_divergence(order, renyi, eps);
            // Where no order fits the first release, the largest allowance per order does.
            let part = if bound.is_finite() { bound / most } else { 1e9 * order / most };
            if most > 0.0 && (terms.order.is_nan() || part < best) {
                (best, terms.place, terms.order) = (part, place, order);
            }
        }
        if terms.order.is_nan() {
            // No order converts to this cap: the rule admits nothing.
            (terms.order, terms.renyi) = (2.0, 0.0);
        }
        debug_assert!(terms.gaussian + terms.renyi + terms.revealed <= cap_delta);
        terms
    }

    fn most_divergence(&self, eps: f64) -> f64 {
        most_divergence(self.order, self.renyi, eps)
    }
}

/// The largest Renyi divergence of this order that gives delta at eps; for display and for choosing an order.
fn most_divergence(order: f64, delta: f64, eps: f64) -> f64 {
    // renyi_log_delta is (order - 1)(R - eps) plus a constant.
    let constant = order * log1p(-1.0 / order) - log(order - 1.0);
    eps + (log(delta) - constant) / (order - 1.0)
}

/// The largest mu whose Gaussian has at most this delta at this epsilon, on the safe side.
fn largest_mu(eps: f64, delta: f64) -> f64 {
    let fits = |mu: f64| gaussian_delta(mu, eps).upper <= delta;
    if !(delta > 0.0) {
        return 0.0;
    }
    // delta <= 1 and eps <= 1e9 put the answer below eps/mu - mu/2 = -40.
    let (mut low, mut high) = (0.0, 40.0 + sqrt(1600.0 + 2.0 * eps));
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if !(middle > low && middle < high) {
            break;
        }
        if fits(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

impl Spent {
    fn plus(self, cost: &Cost, terms: Terms) -> Self {
        Spent {
            pure: add_up(self.pure, cost.pure),
            mu_squared: add_up(self.mu_squared, cost.mu_squared),
            renyi: add_up(self.renyi, cost.renyi.at(terms.place)),
            revealed: add_up(self.revealed, cost.revealed),
        }
    }
}

impl Cost {
    fn of(event: &Event) -> Result<Self, AccountingError> {
        let mut cost = Cost { pure: 0.0, mu_squared: 0.0, renyi: RenyiCurve::zero(), revealed: 0.0 };
        for choice in alternatives(event)? {
            cost.pure = cost.pure.max(pure(&choice));
            cost.mu_squared = cost.mu_squared.max(mu_squared(&choice));
            let (renyi, revealed) = hidden_renyi(&choice);
            cost.renyi = cost.renyi.max(&renyi);
            cost.revealed = cost.revealed.max(revealed);
        }
        Ok(cost)
    }

    fn is_nothing(&self) -> bool {
        self.pure == 0.0
    }
}

/// The total epsilon of pure releases; infinite if there are others.
fn pure(composition: &Composition) -> f64 {
    if composition.upper.mu_squared > 0.0 || composition.rho > 0.0 || composition.selected.is_some() {
        return f64::INFINITY;
    }
    let mut total = 0.0;
    for (pair, count) in &composition.upper.pairs {
        let each = match pair {
            Pair::RandomizedResponse { delta, .. } if *delta > 0.0 => f64::INFINITY,
            Pair::RandomizedResponse { .. } | Pair::Laplace(_) => pair.largest_loss(Direction::Forward),
            Pair::Mixture(_) | Pair::FixedSize(_) | Pair::Curve(_) => f64::INFINITY,
        };
        total = add_up(total, times_up(*count, each));
    }
    total
}

/// The total squared mu of Gaussian and pure releases; infinite if there are others.
fn mu_squared(composition: &Composition) -> f64 {
    if composition.rho > 0.0 || composition.selected.is_some() {
        return f64::INFINITY;
    }
    let mut total = composition.upper.mu_squared;
    for (pair, count) in &composition.upper.pairs {
        let mu = match pair {
            Pair::RandomizedResponse { delta, .. } if *delta > 0.0 => f64::INFINITY,
            Pair::RandomizedResponse { eps, .. } | Pair::Laplace(eps) => pure_mu(*eps),
            Pair::Mixture(_) | Pair::FixedSize(_) | Pair::Curve(_) => f64::INFINITY,
        };
        total = add_up(total, *count as f64 * mu * mu * (1.0 + 4.0 * f64::EPSILON));
    }
    total
}

/// The smallest mu such that every eps-pure release is mu-GDP: 2 Phi^-1(e^eps/(1 + e^eps)), rounded up.
fn pure_mu(eps: f64) -> f64 {
    if eps == 0.0 {
        return 0.0;
    }
    // log(1/(1 + e^eps)); near eps = 0 the quantile is known to a few ulps of one, not of itself.
    let log_tail = -eps - log1p(exp(-eps));
    -2.0 * normal_quantile_of_log(log_tail) * (1.0 + 1e-12) + 1e-14
}

/// Renyi bounds given that no (epsilon, delta) release revealed everything, and the probability that one does.
fn hidden_renyi(composition: &Composition) -> (RenyiCurve, f64) {
    let mut hidden = composition.clone();
    let mut revealed = 0.0;
    for (pair, count) in &mut hidden.upper.pairs {
        if let Pair::RandomizedResponse { delta, .. } = pair {
            // 1 - (1-delta)^count <= count delta
            revealed = add_up(revealed, times_up(*count, *delta));
            *delta = 0.0;
        }
    }
    (hidden.renyi_total(), revealed)
}
