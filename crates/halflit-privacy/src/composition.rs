//! An event tree taken apart into what composes: Gaussians, Renyi bounds and dominating pairs with their counts.
//!
//! Parallel composition leaves a choice: the one differing unit took part in one branch only, which branch is decided
//! by public facts. Every choice gives a composition of its own and the tree costs the largest of them.

use crate::error::AccountingError;
use crate::event::{Event, Family, Price};
use crate::pld::{BoundCurve, Pair};
use crate::relation::Change;
use crate::renyi::RenyiCurve;
use std::rc::Rc;

/// How many choices of parallel branches are priced one by one.
const MOST_ALTERNATIVES: usize = 64;
/// How deep a tree may be nested.
const DEEPEST: usize = 64;
/// The largest number of repetitions of one release, over the whole tree.
const MOST_REPETITIONS: u64 = 1 << 50;

/// Releases that all happened to the same unit.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Composition {
    /// What an upper bound must cover.
    pub upper: Parts,
    /// Mechanisms that are possible under the tree, for a lower bound.
    pub lower: Parts,
    /// Renyi bounds of repeat-and-select events, to be added to the upper side.
    pub selected: Option<RenyiCurve>,
    /// Total rho of zero-concentrated events, to be added to the upper side.
    pub rho: f64,
}

/// Gaussians and pairs.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Parts {
    /// Sum of squared mu of all unsampled Gaussians.
    pub mu_squared: f64,
    /// Dominating pairs with their counts, no two equal.
    pub pairs: Vec<(Pair, u64)>,
}

impl Parts {
    fn add(&mut self, pair: &Pair, count: u64) -> Result<(), AccountingError> {
        match self.pairs.iter_mut().find(|(other, _)| other == pair) {
            Some((_, total)) => *total = repetitions(total.checked_add(count))?,
            None => self.pairs.push((pair.clone(), repetitions(Some(count))?)),
        }
        Ok(())
    }

    fn merge(&mut self, other: &Parts, count: u64) -> Result<(), AccountingError> {
        if count == 0 {
            return Ok(());
        }
        // Sums of squares are rounded up; the lower side takes the roundings back when it asks.
        self.mu_squared = add_up(self.mu_squared, times_up(count, other.mu_squared));
        for (pair, each) in &other.pairs {
            self.add(pair, repetitions(each.checked_mul(count))?)?;
        }
        Ok(())
    }

    /// The total mu of the Gaussians, rounded up.
    pub(crate) fn mu(&self) -> f64 {
        if self.mu_squared == 0.0 { 0.0 } else { libm::sqrt(self.mu_squared).next_up() }
    }

    /// The total mu, rounded down.
    pub(crate) fn mu_below(&self) -> f64 {
        below(libm::sqrt(self.mu_squared))
    }

    /// Everything as pairs, the Gaussians as one with the given mu.
    pub(crate) fn with_gaussian(&self, mu: f64) -> Vec<(Pair, u64)> {
        let mut pairs = self.pairs.clone();
        if mu > 0.0 {
            pairs.push((Pair::gaussian(mu), 1));
        }
        pairs
    }
}

impl Parts {
    /// Everything in Renyi terms, the Gaussians with the given mu.
    pub(crate) fn renyi(&self, mu: f64) -> RenyiCurve {
        let sum =
            |total: RenyiCurve, (pair, count): &(Pair, u64)| total.plus(&RenyiCurve::of_pair(pair), *count);
        self.pairs.iter().fold(RenyiCurve::gaussian(mu), sum)
    }
}

impl Composition {
    /// Everything the two compositions hold, the second one `count` times.
    fn merge(&mut self, other: &Composition, count: u64) -> Result<(), AccountingError> {
        if count == 0 {
            return Ok(());
        }
        self.upper.merge(&other.upper, count)?;
        self.lower.merge(&other.lower, count)?;
        self.rho = add_up(self.rho, times_up(count, other.rho));
        if let Some(curve) = &other.selected {
            self.selected = Some(self.selected.take().unwrap_or_else(RenyiCurve::zero).plus(curve, count));
        }
        Ok(())
    }

    fn of_price(price: &Price) -> Result<Self, AccountingError> {
        let mut composition = Composition::default();
        match price {
            Price::Gaussian(mu) => {
                // Also where the square underflows; but no shift is no shift.
                composition.upper.mu_squared = if *mu == 0.0 { 0.0 } else { (mu * mu).next_up() };
                composition.lower.mu_squared = mu * mu;
            }
            Price::Zcdp(rho) => {
                composition.rho = *rho;
                // The Gaussian with mu^2/2 = rho is rho-zero-concentrated.
                composition.lower.mu_squared = 2.0 * rho;
            }
            Price::Pair(pair) => {
                composition.upper.add(pair, 1)?;
                composition.lower.add(pair, 1)?;
            }
        }
        Ok(composition)
    }

    /// The Renyi bounds that have no exact pair, if there are any.
    pub(crate) fn renyi_part(&self) -> Option<RenyiCurve> {
        let rho = (self.rho > 0.0).then(|| RenyiCurve::from_bounds(|order| order * self.rho));
        match (&self.selected, rho) {
            (Some(selected), Some(rho)) => Some(selected.plus(&rho, 1)),
            (Some(selected), None) => Some(selected.clone()),
            (None, rho) => rho,
        }
    }

    /// Everything in Renyi terms.
    pub(crate) fn renyi_total(&self) -> RenyiCurve {
        let parts = self.upper.renyi(self.upper.mu());
        self.renyi_part().map_or_else(|| parts.clone(), |rest| parts.plus(&rest, 1))
    }

    /// The pairs of the upper side, the Renyi part as a curve.
    pub(crate) fn upper_pairs(&self) -> Vec<(Pair, u64)> {
        let mut pairs = self.upper.with_gaussian(self.upper.mu());
        if let Some(curve) = self.renyi_part() {
            pairs.push((Pair::Curve(Rc::new(BoundCurve::new(curve))), 1));
        }
        pairs
    }

    /// Whether this costs at least as much as the other at every epsilon, by inspection.
    fn covers(&self, other: &Composition) -> bool {
        let has =
            |(pair, count): &(Pair, u64)| self.upper.pairs.iter().any(|(own, n)| own == pair && n >= count);
        self.upper.mu_squared >= other.upper.mu_squared
            && self.rho >= other.rho
            && (other.selected.is_none() || self.selected == other.selected)
            && other.upper.pairs.iter().all(has)
    }
}

/// The compositions that a tree may amount to, the ones that cost less by inspection left out.
pub(crate) fn alternatives(event: &Event) -> Result<Vec<Composition>, AccountingError> {
    one_change(event, 0)?;
    walk(event)
}

/// All events of a tree must assume the same change; also refuses endless nesting.
fn one_change(event: &Event, depth: usize) -> Result<Option<Change>, AccountingError> {
    if depth > DEEPEST {
        return Err(AccountingError::TooDeep { deepest: DEEPEST });
    }
    let mut change = event.own_change();
    for child in event.children() {
        match (change, one_change(child, depth + 1)?) {
            (Some(one), Some(other)) if one != other => return Err(AccountingError::MixedChanges),
            (known, found) => change = known.or(found),
        }
    }
    Ok(change)
}

/// The change that the whole tree assumes, if any of its events assumes one.
pub fn change_of(event: &Event) -> Result<Option<Change>, AccountingError> {
    one_change(event, 0)
}

fn walk(event: &Event) -> Result<Vec<Composition>, AccountingError> {
    if let Some(price) = Price::of(event) {
        return Ok(vec![Composition::of_price(&price)?]);
    }
    match event {
        Event::Composed(events) => {
            let mut totals = vec![Composition::default()];
            for part in events {
                totals = combined(&totals, &walk(part)?)?;
            }
            Ok(totals)
        }
        Event::Repeated { event, count } => repeated(&walk(event)?, count.get()),
        Event::Parallel(events) => {
            let mut all = vec![];
            for part in events {
                all.extend(walk(part)?);
            }
            // No branch at all: nothing happened to anyone.
            if all.is_empty() {
                all.push(Composition::default());
            }
            pruned(all)
        }
        Event::RepeatAndSelect { event: base, runs } => {
            let mut composition =
                Composition { selected: Some(RenyiCurve::of(event)), ..Composition::default() };
            if let Family::TruncatedNegativeBinomial { .. } = runs.family() {
                // There is always a run, and a constant score keeps the first: one run is possible.
                composition.lower = walk(base)?.swap_remove(0).lower;
            }
            Ok(vec![composition])
        }
        // Price::of has dealt with single releases.
        _ => Ok(vec![Composition::default()]),
    }
}

/// Every choice of the first with every choice of the second.
fn combined(first: &[Composition], second: &[Composition]) -> Result<Vec<Composition>, AccountingError> {
    let mut all = Vec::new();
    for one in first {
        for other in second {
            let mut both = one.clone();
            both.merge(other, 1)?;
            all.push(both);
        }
    }
    pruned(all)
}

/// Each repetition may choose anew: every way of dividing `count` among the choices.
fn repeated(choices: &[Composition], count: u64) -> Result<Vec<Composition>, AccountingError> {
    let (last, others) = choices.split_last().expect("a tree has at least one alternative");
    let mut all = vec![(Composition::default(), count)];
    for choice in others {
        let mut next = Vec::new();
        for (total, left) in all {
            if left >= MOST_ALTERNATIVES as u64 {
                return Err(AccountingError::TooManyAlternatives { most: MOST_ALTERNATIVES });
            }
            for taken in 0..=left {
                let mut with = total.clone();
                with.merge(choice, taken)?;
                next.push((with, left - taken));
            }
        }
        if next.len() > MOST_ALTERNATIVES {
            return Err(AccountingError::TooManyAlternatives { most: MOST_ALTERNATIVES });
        }
        all = next;
    }
    let finish = |(mut total, left): (Composition, u64)| total.merge(last, left).map(|()| total);
    pruned(all.into_iter().map(finish).collect::<Result<_, _>>()?)
}

/// Leaves out what another alternative covers.
fn pruned(all: Vec<Composition>) -> Result<Vec<Composition>, AccountingError> {
    let mut kept: Vec<Composition> = Vec::new();
    for candidate in all {
        if kept.iter().any(|other| other.covers(&candidate)) {
            continue;
        }
        kept.retain(|other| !candidate.covers(other));
        kept.push(candidate);
        if kept.len() > MOST_ALTERNATIVES {
            return Err(AccountingError::TooManyAlternatives { most: MOST_ALTERNATIVES });
        }
    }
    Ok(kept)
}

fn repetitions(count: Option<u64>) -> Result<u64, AccountingError> {
    match count {
        Some(count) if count <= MOST_REPETITIONS => Ok(count),
        _ => Err(AccountingError::TooManyRepetitions { most: MOST_REPETITIONS }),
    }
}

/// A mu taken down by far more than the sums and quotients behind it were rounded up.
pub(crate) fn below(mu: f64) -> f64 {
    mu * (1.0 - 1e-12)
}

/// a + b, rounded up unless the sum is exact.
pub(crate) fn add_up(a: f64, b: f64) -> f64 {
    let sum = a + b;
    // The error of the sum is a double itself (Knuth).
    let from_b = sum - a;
    let error = (a - (sum - from_b)) + (b - from_b);
    if error > 0.0 { sum.next_up() } else { sum }
}

/// count * x, rounded up unless the product is exact.
pub(crate) fn times_up(count: u64, x: f64) -> f64 {
    // Counts go up to 2^50: exact.
    let count = count as f64;
    let product = count * x;
    // Below the normal range the remainder may be lost: round up at once.
    let is_tiny = x > 0.0 && product < 1e-290;
    if is_tiny || count.mul_add(x, -product) > 0.0 { product.next_up() } else { product }
}
