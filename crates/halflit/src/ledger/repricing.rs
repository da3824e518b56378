//! What a release made under one relation costs in an account kept under another. `proof.md` proves every line of the table.
//!
//! An account's promise is about its own neighbours. A release costs what its event says if every pair of neighbours of the account is
//! also a pair of neighbours of the release; where only the kind of change or the unit differs, some events can be converted; otherwise
//! nothing is known, and the cost is unbounded.
//!
//! | release | account | same unit | release by user, account by row |
//! |---|---|---|---|
//! | replace | replace | as it is | as it is |
//! | zero-out | replace | two zero-outs | two zero-outs |
//! | zero-out | zero-out | as it is | clipped sums, at the price of a replacement |
//! | replace | zero-out of named columns | clipped sums, at the price of a zero-out | clipped sums, at the price of a replacement |
//! | replace | zero-out of all columns | unbounded: the release took the number of units as public | unbounded |

use halflit_privacy::{
    Change, Event, L1Sensitivity, L2Sensitivity, Mu, NoiseStd, ParameterError, PrivateRows, Relation, Rho,
    SensitiveColumns, Unit,
};

/// The event that a release counts as in an account, or why it has no bounded cost there.
pub fn price_in(account: &Relation, release: &Relation, event: &Event) -> Result<Event, Unbounded> {
    covers(account, release)?;
    let is_part_of_a_unit = account.unit() != release.unit();
    match (release.change(), account.change()) {
        (Change::Replace, Change::Replace) => Ok(event.clone()),
        (Change::ZeroOut, Change::Replace) => two_zero_outs(event),
        (Change::Replace, Change::ZeroOut) if *account.sensitive() == SensitiveColumns::All => {
            Err(Unbounded::CountsAreProtected)
        }
        // A user that loses one of several rows has another contribution, not none.
        (_, Change::ZeroOut) if is_part_of_a_unit => moved_inside_the_ball(event),
        (Change::ZeroOut, Change::ZeroOut) => Ok(event.clone()),
        (Change::Replace, Change::ZeroOut) => nulled(event),
    }
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
    /// The account hides whether a unit is there at all; the release counted the units.
    #[error(
        "the account hides whether a unit is there at all (zero-out of all columns), the release took the number of units as public (replace)"
    )]
    CountsAreProtected,
    /// The event says nothing about the account's kind of change or unit.
    #[error(
        "the release was priced for other neighbours than the account's (change {change}), and its event cannot be converted"
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
    if let Some(column) =
        release.structural_columns().into_iter().find(|column| account.may_differ_in(column))
    {
        return Err(Unbounded::StructureIsProtected { column: column.to_owned() });
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

/// The event of a zero-out release for a replaced unit: removing it and putting another in its place are two zero-outs.
///
/// A clipped contribution has norm at most its radius whatever it is, so those events only change their sensitivity.
fn two_zero_outs(event: &Event) -> Result<Event, Unbounded> {
    let change = Change::Replace;
    let refused = || Unbounded::Change { change };
    let twice = |_: ParameterError| refused();
    match event {
        Event::Gaussian { noise_multiplier, .. } => {
            Ok(Event::Gaussian { noise_multiplier: *noise_multiplier, change })
        }
        Event::PoissonGaussian { rate, noise_multiplier, .. } => {
            Ok(Event::PoissonGaussian { rate: *rate, noise_multiplier: *noise_multiplier, change })
        }
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
        Event::Composed(_) | Event::Parallel(_) | Event::Repeated { .. } => each(event, two_zero_outs),
    }
}

/// The event of a replace release for a unit whose named cells become null: its clipped contribution becomes zero, which is inside the
/// ball. Other events were priced for tables without null cells and say nothing.
fn nulled(event: &Event) -> Result<Event, Unbounded> {
    let change = Change::ZeroOut;
    match event {
        Event::Gaussian { noise_multiplier, .. } => {
            Ok(Event::Gaussian { noise_multiplier: *noise_multiplier, change })
        }
        Event::PoissonGaussian { rate, noise_multiplier, .. } => {
            Ok(Event::PoissonGaussian { rate: *rate, noise_multiplier: *noise_multiplier, change })
        }
        Event::Composed(_) | Event::Parallel(_) | Event::Repeated { .. } => each(event, nulled),
        _ => Err(Unbounded::Change { change }),
    }
}

/// The event of a release for a unit whose clipped contribution moves from one point of the ball to another, in an account of
/// zero-outs: two radii. Written without a kind of change, because it is neither of the two.
fn moved_inside_the_ball(event: &Event) -> Result<Event, Unbounded> {
    let refused = || Unbounded::Change { change: Change::ZeroOut };
    let radii = Change::Replace.sensitivity_per_radius();
    match event {
        Event::Gaussian { noise_multiplier, .. } => Ok(Event::GaussianDiameter {
            sensitivity: L2Sensitivity::new(radii).map_err(|_| refused())?,
            noise_std: NoiseStd::new(noise_multiplier.get()).map_err(|_| refused())?,
        }),
        Event::Composed(_) | Event::Parallel(_) | Event::Repeated { .. } => {
            each(event, moved_inside_the_ball)
        }
        _ => Err(refused()),
    }
}

/// The same tree with every leaf converted. Parallel parts stay parallel: a row lies in its user's part.
fn each(event: &Event, convert: fn(&Event) -> Result<Event, Unbounded>) -> Result<Event, Unbounded> {
    let all = |events: &[Event]| events.iter().map(convert).collect::<Result<Vec<_>, _>>();
    match event {
        Event::Composed(events) => Ok(Event::Composed(all(events)?)),
        Event::Parallel(events) => Ok(Event::Parallel(all(events)?)),
        Event::Repeated { event, count } => {
            Ok(Event::Repeated { event: Box::new(convert(event)?), count: *count })
        }
        leaf => convert(leaf),
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
    fn a_zero_out_release_is_two_zero_outs_for_a_replaced_unit() {
        let replace = relation(Unit::Row, &["label"], None, Change::Replace);
        let zero_out = relation(Unit::Row, &["label"], None, Change::ZeroOut);
        let repeated = gaussian(Change::ZeroOut).repeated(3).unwrap();
        assert_eq!(
            price_in(&replace, &zero_out, &repeated),
            Ok(gaussian(Change::Replace).repeated(3).unwrap())
        );
        let pure = Event::PureDp { epsilon: halflit_privacy::Epsilon::new(0.5).unwrap() };
        let doubled = Event::PureDp { epsilon: halflit_privacy::Epsilon::new(1.0).unwrap() };
        assert_eq!(price_in(&replace, &zero_out, &pure), Ok(doubled));
        // Through a row of a user as well: the user's contribution goes from one place to another.
        let by_user = relation(user(), &["label"], None, Change::ZeroOut);
        assert_eq!(price_in(&replace, &by_user, &gaussian(Change::ZeroOut)), Ok(gaussian(Change::Replace)));
    }

    #[test]
    fn a_replace_release_says_nothing_about_a_unit_that_vanishes() {
        // Named columns: the row stays and is counted, its clipped contribution becomes zero.
        let label = relation(Unit::Row, &["label"], None, Change::ZeroOut);
        let full = relation(Unit::Row, &[], None, Change::Replace);
        let replaced_label = relation(Unit::Row, &["label"], None, Change::Replace);
        for release in [&full, &replaced_label] {
            assert_eq!(price_in(&label, release, &gaussian(Change::Replace)), Ok(gaussian(Change::ZeroOut)));
            let pure = Event::PureDp { epsilon: halflit_privacy::Epsilon::new(0.5).unwrap() };
            assert!(matches!(price_in(&label, release, &pure), Err(Unbounded::Change { .. })));
        }
        // All columns: the unit vanishes, and the release has published how many there are.
        for unit in [Unit::Row, user()] {
            for public in [None, Some(&["yes"][..])] {
                let account = relation(unit.clone(), &[], public, Change::ZeroOut);
                let release = relation(unit.clone(), &[], public, Change::Replace);
                let nothing = Event::Composed(Vec::new());
                for event in [gaussian(Change::Replace), nothing] {
                    assert_eq!(price_in(&account, &release, &event), Err(Unbounded::CountsAreProtected));
                }
                assert!(price_in(&account, &account, &gaussian(Change::ZeroOut)).is_ok());
            }
        }
    }

    #[test]
    fn one_row_of_a_user_costs_a_replacement_of_the_user() {
        let delta = halflit_privacy::Delta::new(1e-6).unwrap();
        let epsilon = |event: &Event| halflit_privacy::Profile::of(event).unwrap().epsilon(delta).upper;
        let account = relation(Unit::Row, &["label"], None, Change::ZeroOut);
        for change in [Change::Replace, Change::ZeroOut] {
            let release = relation(user(), &["label"], None, change);
            let steps = gaussian(change).repeated(5).unwrap();
            let priced = price_in(&account, &release, &steps).unwrap();
            let as_replacement = epsilon(&gaussian(Change::Replace).repeated(5).unwrap());
            assert!((epsilon(&priced) - as_replacement).abs() < 1e-9 * as_replacement);
            assert!(epsilon(&priced) > 1.9 * epsilon(&gaussian(Change::ZeroOut).repeated(5).unwrap()));
            // It composes with a release of the account's own relation.
            let both = Event::Composed(vec![priced, gaussian(Change::ZeroOut)]);
            assert!(epsilon(&both) > as_replacement);
            let gdp = Event::Gdp { mu: Mu::new(0.5).unwrap() };
            assert!(matches!(price_in(&account, &release, &gdp), Err(Unbounded::Change { .. })));
        }
    }

    /// Every pair of relations over tables of two rows and four columns of two values each. Where `covers` says yes, every pair of
    /// neighbours of the account must be a pair of neighbours of the release.
    #[test]
    fn covering_holds_on_every_small_table() {
        let relations = small_relations();
        let tables: Vec<[u8; 2]> = (0..16).flat_map(|a| (0..16).map(move |b| [a, b])).collect();
        let (mut covered, mut refused_with_reason) = (0, 0);
        for account in &relations {
            let pairs: Vec<([u8; 2], [u8; 2])> = tables
                .iter()
                .flat_map(|&one| tables.iter().map(move |&other| (one, other)))
                .filter(|(one, other)| are_neighbours(account, *one, *other))
                .collect();
            assert!(!pairs.is_empty(), "{account}");
            for release in &relations {
                let outside = pairs.iter().find(|(one, other)| !are_neighbours(release, *one, *other));
                match (covers(account, release), outside) {
                    (Ok(()), None) => covered += 1,
                    (Ok(()), Some(pair)) => panic!("{account}\n{release}\n{pair:?}"),
                    (Err(_), Some(_)) => refused_with_reason += 1,
                    (Err(_), None) => {}
                }
            }
        }
        assert!(covered > 100 && refused_with_reason > 1000, "{covered} {refused_with_reason}");
    }

    const COLUMNS: [&str; 4] = ["id", "consent", "income", "label"];

    fn small_relations() -> Vec<Relation> {
        let mut columns = vec![SensitiveColumns::All];
        for mask in 1..16 {
            let names = (0..4).filter(|column| mask >> column & 1 == 1).map(|column| COLUMNS[column]);
            columns.push(SensitiveColumns::named(names).unwrap());
        }
        let mut rows = vec![PrivateRows::All];
        for column in COLUMNS {
            for values in [&["0"][..], &["1"]] {
                rows.push(PrivateRows::Outside(PublicRows::new(column, values.iter().copied()).unwrap()));
            }
        }
        let mut relations = Vec::new();
        for unit in [Unit::Row, user()] {
            for sensitive in &columns {
                for private in &rows {
                    // A sensitive user id or selector is refused.
                    relations.extend(
                        Relation::new(unit.clone(), sensitive.clone(), private.clone(), Change::Replace).ok(),
                    );
                }
            }
        }
        relations
    }

    /// The definition, word by word: the tables agree on everything except the sensitive columns of the private rows of one unit.
    fn are_neighbours(relation: &Relation, one: [u8; 2], other: [u8; 2]) -> bool {
        let cell =
            |row: u8, column: &str| row >> COLUMNS.iter().position(|name| *name == column).unwrap() & 1;
        let is_private = |row: u8| match relation.private_rows() {
            PrivateRows::All => true,
            PrivateRows::Outside(public) => {
                !public.values().contains(&cell(row, public.column()).to_string())
            }
        };
        let is_sensitive = |column: &str| match relation.sensitive() {
            SensitiveColumns::Named(names) => names.contains(column),
            SensitiveColumns::All => {
                let is_user = matches!(relation.unit(), Unit::User { id_column } if id_column == column);
                let is_selector = matches!(relation.private_rows(), PrivateRows::Outside(public) if public.column() == column);
                !is_user && !is_selector
            }
        };
        let changed: Vec<usize> = (0..2).filter(|&row| one[row] != other[row]).collect();
        let is_allowed = |&row: &usize| {
            let (before, after) = (one[row], other[row]);
            is_private(before)
                && is_private(after)
                && COLUMNS.iter().all(|name| is_sensitive(name) || cell(before, name) == cell(after, name))
        };
        let is_one_unit = match (relation.unit(), &changed[..]) {
            (_, [] | [_]) => true,
            (Unit::Row, _) => false,
            (Unit::User { id_column }, rows) => {
                let ids =
                    rows.iter().flat_map(|&row| [cell(one[row], id_column), cell(other[row], id_column)]);
                ids.collect::<std::collections::BTreeSet<u8>>().len() == 1
            }
        };
        is_one_unit && changed.iter().all(is_allowed)
    }
}
