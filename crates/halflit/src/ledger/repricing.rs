//! What a release made under one relation costs in an account kept under another.
//!
//! An account's promise is about its own neighbours. A release costs what its event says if every pair of neighbours of the account is
//! also a pair of neighbours of the release, up to the kind of change; otherwise nothing is known, and the cost is unbounded.

use halflit_privacy::{
    Change, Event, L1Sensitivity, L2Sensitivity, Mu, ParameterError, PrivateRows, Relation, Rho,
    SensitiveColumns, Unit,
};

/// The event that a release counts as in an account, or why it has no bounded cost there.
pub fn price_in(account: &Relation, release: &Relation, event: &Event) -> Result<Event, Unbounded> {
    covers(account, release)?;
    if account.change() == release.change() {
        return Ok(event.clone());
    }
    under(event, account.change())
}

/// Why a release has no bounded cost in an account.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Unbounded {
    /// The account protects users, the release protected single rows.
    #[error("the account protects whole users, the release only single rows")]
    RowsOnly,
    /// The release rests on a column that the account protects.
    #[error("the release took {column} as public, the account protects it")]
    StructureIsProtected {
        /// The user id or selector column.
        column: String,
    },
    /// The account protects columns that the release did not.
    #[error("the account protects {columns}, which the release took as public")]
    Columns {
        /// The columns.
        columns: String,
    },
    /// The account protects rows that the release did not.
    #[error("the account protects rows that the release took as public")]
    Rows,
    /// The event says nothing about the account's kind of change.
    #[error(
        "the release was made under another kind of change than {change}, and its event cannot be converted"
    )]
    Change {
        /// The account's change.
        change: Change,
    },
}

/// Whether neighbours of the account are neighbours of the release, but for the kind of change.
fn covers(account: &Relation, release: &Relation) -> Result<(), Unbounded> {
    if *account.unit() != Unit::Row && account.unit() != release.unit() {
        return Err(Unbounded::RowsOnly);
    }
    let structure = structural_columns(release);
    if let Some(column) = structure.iter().find(|column| is_protected(account, column)) {
        return Err(Unbounded::StructureIsProtected { column: (*column).to_owned() });
    }
    match (account.sensitive(), release.sensitive()) {
        (_, SensitiveColumns::All) => {}
        (SensitiveColumns::All, SensitiveColumns::Named(_)) => {
            return Err(Unbounded::Columns { columns: "every column".to_owned() });
        }
        (SensitiveColumns::Named(wanted), SensitiveColumns::Named(given)) => {
            let missing: Vec<&str> = wanted
                .as_slice()
                .iter()
                .map(String::as_str)
                .filter(|column| !given.contains(column))
                .collect();
            if !missing.is_empty() {
                return Err(Unbounded::Columns { columns: missing.join(", ") });
            }
        }
    }
    match (account.private_rows(), release.private_rows()) {
        (_, PrivateRows::All) => Ok(()),
        (PrivateRows::All, PrivateRows::Outside(_)) => Err(Unbounded::Rows),
        (PrivateRows::Outside(account), PrivateRows::Outside(release)) => {
            let same_column = account.column() == release.column();
            let fewer_are_public = release.values().iter().all(|value| account.values().contains(value));
            if same_column && fewer_are_public { Ok(()) } else { Err(Unbounded::Rows) }
        }
    }
}

/// The columns whose cells decide who is who and which rows are public.
fn structural_columns(relation: &Relation) -> Vec<&str> {
    let user = match relation.unit() {
        Unit::Row => None,
        Unit::User { id_column } => Some(id_column.as_str()),
    };
    let selector = match relation.private_rows() {
        PrivateRows::All => None,
        PrivateRows::Outside(public) => Some(public.column()),
    };
    user.into_iter().chain(selector).collect()
}

/// Whether a neighbour under this relation may have another value in the column.
fn is_protected(relation: &Relation, column: &str) -> bool {
    match relation.sensitive() {
        SensitiveColumns::All => !structural_columns(relation).contains(&column),
        SensitiveColumns::Named(names) => names.contains(column),
    }
}

/// The event of the same release under the other kind of change.
///
/// A clipped contribution has norm at most its radius whatever it is, so those events only change their sensitivity. For
/// the others: replacing a unit is removing it and putting another in its place, two zero-outs; removing a unit is not a replacement.
fn under(event: &Event, change: Change) -> Result<Event, Unbounded> {
    let refused = || Unbounded::Change { change };
    let twice = |_: ParameterError| refused();
    let all =
        |events: &[Event]| events.iter().map(|event| under(event, change)).collect::<Result<Vec<_>, _>>();
    match event {
        Event::Gaussian { noise_multiplier, .. } => {
            Ok(Event::Gaussian { noise_multiplier: *noise_multiplier, change })
        }
        Event::PoissonGaussian { rate, noise_multiplier, .. } => {
            Ok(Event::PoissonGaussian { rate: *rate, noise_multiplier: *noise_multiplier, change })
        }
        Event::Composed(events) => Ok(Event::Composed(all(events)?)),
        Event::Parallel(events) => Ok(Event::Parallel(all(events)?)),
        Event::Repeated { event, count } => {
            Ok(Event::Repeated { event: Box::new(under(event, change)?), count: *count })
        }
        _ if change == Change::ZeroOut => Err(refused()),
        Event::GaussianDiameter { sensitivity, noise_std } => Ok(Event::GaussianDiameter {
            sensitivity: L2Sensitivity::new(2.0 * sensitivity.get()).map_err(twice)?,
            noise_std: *noise_std,
        }),
        Event::Laplace { sensitivity, scale } => Ok(Event::Laplace {
            sensitivity: L1Sensitivity::new(2.0 * sensitivity.get()).map_err(twice)?,
            scale: *scale,
        }),
        Event::Gdp { mu } => Ok(Event::Gdp { mu: Mu::new(2.0 * mu.get()).map_err(twice)? }),
        Event::Zcdp { rho } => Ok(Event::Zcdp { rho: Rho::new(4.0 * rho.get()).map_err(twice)? }),
        // Group privacy of two: an epsilon-DP release is 2 epsilon-DP for two changes.
        Event::PureDp { epsilon } => {
            Ok(Event::PureDp { epsilon: halflit_privacy::Epsilon::new(2.0 * epsilon.get()).map_err(twice)? })
        }
        Event::ApproxDp { .. } | Event::FixedSizeGaussian { .. } | Event::RepeatAndSelect { .. } => {
            Err(refused())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halflit_privacy::{NoiseMultiplier, PublicRows};

    fn relation(unit: Unit, columns: &[&str], public: Option<&[&str]>, change: Change) -> Relation {
        let sensitive = if columns.is_empty() {
            SensitiveColumns::All
        } else {
            SensitiveColumns::named(columns.iter().copied()).unwrap()
        };
        let rows = match public {
            None => PrivateRows::All,
            Some(values) => PrivateRows::Outside(PublicRows::new("consent", values.iter().copied()).unwrap()),
        };
        Relation::new(unit, sensitive, rows, change).unwrap()
    }

    fn user() -> Unit {
        Unit::User { id_column: "id".to_owned() }
    }

    fn gaussian(change: Change) -> Event {
        Event::Gaussian { noise_multiplier: NoiseMultiplier::new(2.0).unwrap(), change }
    }

    #[test]
    fn a_full_release_also_spends_a_label_account_but_not_the_other_way_round() {
        let full = relation(Unit::Row, &[], None, Change::Replace);
        let label = relation(Unit::Row, &["label"], None, Change::Replace);
        let event = gaussian(Change::Replace);
        assert_eq!(price_in(&label, &full, &event), Ok(event.clone()));
        assert!(matches!(price_in(&full, &label, &event), Err(Unbounded::Columns { .. })));
        let two = relation(Unit::Row, &["income", "label"], None, Change::Replace);
        assert!(price_in(&label, &two, &event).is_ok());
        let refused = price_in(&two, &label, &event).unwrap_err().to_string();
        assert!(refused.contains("income") && !refused.contains("label,"), "{refused}");
    }

    #[test]
    fn users_cover_rows_only_where_the_id_is_public_to_both() {
        let event = gaussian(Change::Replace);
        let by_user = relation(user(), &["label"], None, Change::Replace);
        let by_row = relation(Unit::Row, &["label"], None, Change::Replace);
        assert!(price_in(&by_row, &by_user, &event).is_ok());
        assert_eq!(price_in(&by_user, &by_row, &event), Err(Unbounded::RowsOnly));
        // A row that may change all its cells may change its owner: two users would change.
        let full_rows = relation(Unit::Row, &[], None, Change::Replace);
        let full_users = relation(user(), &[], None, Change::Replace);
        assert!(matches!(
            price_in(&full_rows, &full_users, &event),
            Err(Unbounded::StructureIsProtected { .. })
        ));
    }

    #[test]
    fn public_rows_must_be_public_in_the_account_too() {
        let event = gaussian(Change::Replace);
        let all = relation(Unit::Row, &["label"], None, Change::Replace);
        let some = relation(Unit::Row, &["label"], Some(&["yes"]), Change::Replace);
        let more = relation(Unit::Row, &["label"], Some(&["yes", "maybe"]), Change::Replace);
        assert!(price_in(&some, &all, &event).is_ok());
        assert_eq!(price_in(&all, &some, &event), Err(Unbounded::Rows));
        assert!(price_in(&more, &some, &event).is_ok());
        assert_eq!(price_in(&some, &more, &event), Err(Unbounded::Rows));
    }

    #[test]
    fn the_kind_of_change_is_converted_where_that_is_sound() {
        let replace = relation(Unit::Row, &["label"], None, Change::Replace);
        let zero_out = relation(Unit::Row, &["label"], None, Change::ZeroOut);
        let repeated = gaussian(Change::ZeroOut).repeated(3).unwrap();
        assert_eq!(
            price_in(&replace, &zero_out, &repeated),
            Ok(gaussian(Change::Replace).repeated(3).unwrap())
        );
        assert_eq!(price_in(&zero_out, &replace, &gaussian(Change::Replace)), Ok(gaussian(Change::ZeroOut)));
        let pure = Event::PureDp { epsilon: halflit_privacy::Epsilon::new(0.5).unwrap() };
        let doubled = Event::PureDp { epsilon: halflit_privacy::Epsilon::new(1.0).unwrap() };
        assert_eq!(price_in(&replace, &zero_out, &pure), Ok(doubled));
        assert!(matches!(price_in(&zero_out, &replace, &pure), Err(Unbounded::Change { .. })));
    }
}
