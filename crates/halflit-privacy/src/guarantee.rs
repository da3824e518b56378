//! A claim: what is promised, to whom, and how much of it is slack of the accounting.

use crate::composition::change_of;
use crate::error::AccountingError;
use crate::event::Event;
use crate::number::{Delta, Interval};
use crate::profile::Profile;
use crate::relation::Relation;
use serde::Serialize;
use std::fmt;

/// An (epsilon, delta) guarantee under a relation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Guarantee {
    /// Which tables are indistinguishable.
    relation: Relation,
    /// The same, in English.
    sentence: String,
    /// epsilon at delta; the upper end is the claim.
    epsilon: Interval,
    /// delta of the claim.
    delta: Delta,
}

impl Guarantee {
    /// What the events promise under the relation; refuses events that were priced for another kind of change.
    pub fn new(relation: Relation, event: &Event, delta: Delta) -> Result<Self, AccountingError> {
        let declared = relation.change();
        match change_of(event)? {
            Some(assumed) if assumed != declared => {
                Err(AccountingError::ChangeMismatch { assumed, declared })
            }
            _ => {
                let epsilon = Profile::of(event)?.epsilon(delta);
                Ok(Guarantee { sentence: relation.sentence(), relation, epsilon, delta })
            }
        }
    }

    /// The relation it holds under.
    pub fn relation(&self) -> &Relation {
        &self.relation
    }

    /// epsilon at delta.
    pub fn epsilon(&self) -> Interval {
        self.epsilon
    }

    /// delta.
    pub fn delta(&self) -> Delta {
        self.delta
    }
}

impl fmt::Display for Guarantee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Interval { lower, upper } = self.epsilon;
        if upper.is_finite() {
            // Four decimals, rounded up: the printed claim must hold.
            let claim = (upper * 1e4).ceil() / 1e4;
            if self.delta.get() > 0.0 {
                write!(f, "({claim:.4}, {})-differentially private", self.delta)?;
            } else {
                write!(f, "{claim:.4}-differentially private")?;
            }
            write!(f, " (epsilon is at least {:.4}). {}", (lower * 1e4).floor() / 1e4, self.sentence)
        } else {
            write!(f, "Not differentially private at delta = {}. {}", self.delta, self.sentence)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::NoiseMultiplier;
    use crate::relation::Change;

    fn event(change: Change) -> Event {
        Event::Gaussian { noise_multiplier: NoiseMultiplier::new(2.0).unwrap(), change }
    }

    #[test]
    fn a_guarantee_prints_its_claim_and_its_relation() {
        let delta = Delta::new(1e-5).unwrap();
        let guarantee =
            Guarantee::new(Relation::full(Change::Replace), &event(Change::Replace), delta).unwrap();
        // mu = 2/2 = 1 at delta 1e-5: epsilon = 4.37718 (scipy), the claim rounded up, the lower end down.
        assert_eq!(
            guarantee.to_string(),
            "(4.3772, 1e-5)-differentially private (epsilon is at least 4.3771). \
             Two tables are neighbours if they differ only in all columns of one row."
        );
        let json = serde_json::to_value(&guarantee).unwrap();
        assert_eq!(json["delta"], 1e-5);
        assert_eq!(json["relation"]["change"], "replace");
        assert!(json["epsilon"]["upper"].as_f64().unwrap() >= json["epsilon"]["lower"].as_f64().unwrap());
    }

    #[test]
    fn events_of_another_change_are_refused() {
        let delta = Delta::new(1e-5).unwrap();
        let error =
            Guarantee::new(Relation::full(Change::Replace), &event(Change::ZeroOut), delta).unwrap_err();
        let expected =
            AccountingError::ChangeMismatch { assumed: Change::ZeroOut, declared: Change::Replace };
        assert_eq!(error, expected);
        let mixed = Event::Composed(vec![event(Change::ZeroOut), event(Change::Replace)]);
        let error = Guarantee::new(Relation::full(Change::Replace), &mixed, delta).unwrap_err();
        assert_eq!(error, AccountingError::MixedChanges);
    }

    #[test]
    fn an_unbounded_epsilon_is_said_in_words() {
        let delta = Delta::new(0.0).unwrap();
        let guarantee =
            Guarantee::new(Relation::full(Change::Replace), &event(Change::Replace), delta).unwrap();
        assert!(guarantee.to_string().starts_with("Not differentially private"));
    }
}
