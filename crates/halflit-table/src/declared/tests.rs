#![allow(clippy::disallowed_methods, reason = "these tests look inside what they have sealed themselves")]

use super::*;
use crate::findings::Fault;
use crate::sealed::Unsealed;
use crate::table::Column;
use halflit_convex::{FEATURE_SCALE, Rows};
use halflit_privacy::{SensitiveColumns, Unit};

const ONE: i16 = FEATURE_SCALE;

/// Six rows of three users; user `2` is written in two ways, and rows of users interleave.
fn table() -> Table {
    let text = |cells: [&str; 6]| Column::Text(cells.map(str::to_owned).to_vec());
    let columns = vec![
        ("id", text(["2", "10", "2.0", "1", "10", "2"])),
        ("consent", text(["no", "yes", "no", "no", "", "no"])),
        ("age", Column::Numbers(vec![0.0, 1.0, 0.5, 0.25, 0.75, 1.0])),
        ("sex", text(["f", "m", "f", "m", "f", "m"])),
        ("y", text(["a", "b", "a", "a", "b", "b"])),
        ("extra", Column::Numbers(vec![1.0; 6])),
    ];
    Table::from_columns(columns.into_iter().map(|(name, column)| (name.to_owned(), column)).collect())
        .unwrap()
}

fn declaration(protect: &str, age: &str, sex: &str, y: &str) -> Declaration {
    let text = format!(
        "[budget]\nepsilon = 1\ndelta = 1e-6\n[protect]\n{protect}\n[task]\nlabel = 'y'\nloss = 'logistic'\n\
         [columns.age]\nbounds = [0, 1]\n{age}\n[columns.sex]\nvalues = ['f', 'm']\n{sex}\n\
         [columns.y]\nvalues = ['a', 'b']\ndefault = 'a'\n{y}\n\
         [columns.id]\nvisibility = 'public'\nuse = false\n[columns.consent]\nvisibility = 'public'\nuse = false\n"
    );
    Declaration::parse(&text, "privacy.toml").unwrap_or_else(|error| panic!("{error}"))
}

const PUBLIC: &str = "visibility = 'public'";
const SELECTOR: &str = "public_rows = { column = 'consent', equals = 'yes' }";

fn bind(protect: &str, age: &str, sex: &str, y: &str) -> Declared {
    Declared::bind(declaration(protect, age, sex, y), table()).unwrap_or_else(|error| panic!("{error}"))
}

fn encode(declared: &Declared) -> EncodedTable {
    declared.encode(OutOfDomain::Refuse).unwrap_or_else(|error| panic!("{error}"))
}

fn ages(rows: &Rows) -> Vec<i16> {
    (0..rows.len()).map(|row| rows.dense_row(row).unwrap()[0]).collect()
}

#[test]
fn rows_are_split_by_the_selector() {
    let declared = bind(&format!("unit = 'row'\n{SELECTOR}"), "", "", "");
    let facts = declared.facts();
    assert_eq!((facts.private_units, facts.private_rows, facts.public_rows), (5, Some(5), 1));
    assert_eq!(facts.undeclared_columns, ["extra"]);
    let encoded = encode(&declared);
    let token = Unsealed::charge_was_recorded();
    assert_eq!(ages(encoded.public_rows()), [ONE]);
    assert_eq!(encoded.public_labels(), [1.0]);
    // A missing selector cell (row 5) is private.
    assert_eq!(ages(encoded.private_rows().open(&token)), [-ONE, 0, -ONE / 2, ONE / 2, ONE]);
    assert_eq!(*encoded.private_labels().open(&token), [0.0, 0.0, 0.0, 1.0, 1.0]);
    assert_eq!(*encoded.private_units().open(&token), Units::Rows(5));
}

#[test]
fn users_are_consecutive_and_sorted_by_id() {
    let declared = bind("unit = 'user'\nuser = 'id'", PUBLIC, "", "");
    let facts = declared.facts();
    assert_eq!((facts.private_units, facts.private_rows, facts.largest_user), (3, Some(6), Some(3)));
    let encoded = encode(&declared);
    let token = Unsealed::charge_was_recorded();
    // Ids sort by their comparable text: 10 is 1e1, 1 is 1e0, 2 is 2e0.
    assert_eq!(*encoded.private_units().open(&token), Units::Users { offsets: vec![0, 1, 3, 6] });
    assert_eq!(ages(encoded.private_rows().open(&token)), [-ONE / 2, ONE, ONE / 2, -ONE, 0, ONE]);
}

#[test]
fn what_is_public_follows_the_relation() {
    let zero_out = "change = 'zero-out'";
    for (protect, age, private_units, private_rows, largest_user) in [
        ("unit = 'row'".to_owned(), "", 6, Some(6), None),
        ("unit = 'row'".to_owned(), PUBLIC, 6, Some(6), None),
        (format!("unit = 'row'\n{zero_out}\nrows = 100"), "", 100, None, None),
        (format!("unit = 'row'\n{zero_out}\nrows = 100"), PUBLIC, 100, Some(6), None),
        ("unit = 'user'\nuser = 'id'".to_owned(), "", 3, None, None),
        ("unit = 'user'\nuser = 'id'".to_owned(), PUBLIC, 3, Some(6), Some(3)),
        (format!("unit = 'user'\nuser = 'id'\n{zero_out}\nusers = 7"), "", 7, None, None),
        (format!("unit = 'user'\nuser = 'id'\n{zero_out}\nusers = 7"), PUBLIC, 7, Some(6), Some(3)),
    ] {
        let declared = bind(&protect, age, "", "");
        let facts = declared.facts();
        let seen = (facts.private_units, facts.private_rows, facts.largest_user);
        assert_eq!(seen, (private_units, private_rows, largest_user), "{protect} {age}");
        let encoded = encode(&declared);
        assert_eq!(encoded.public_view().unwrap().units.is_some(), private_rows.is_some(), "{protect} {age}");
        let all = matches!(facts.relation.sensitive(), SensitiveColumns::All);
        assert_eq!(all, age.is_empty());
        assert_eq!(facts.sentence, facts.relation.sentence());
    }
}

#[test]
fn the_view_shows_public_cells_only() {
    let token = Unsealed::charge_was_recorded();
    // All features public: the rows themselves. The label is not.
    let encoded = encode(&bind("unit = 'row'", PUBLIC, PUBLIC, ""));
    let view = encoded.public_view().unwrap();
    assert!(
        matches!(view.features, PublicFeatures::All(rows) if rows == encoded.private_rows().open(&token))
    );
    assert!(view.labels.is_none());
    // Everything sensitive: nothing.
    let encoded = encode(&bind("unit = 'row'", "", "", ""));
    let view = encoded.public_view().unwrap();
    assert!(matches!(view.features, PublicFeatures::None) && view.labels.is_none());
    // One feature and the label public: the other feature is zeroed.
    let encoded = encode(&bind("unit = 'row'", PUBLIC, "", PUBLIC));
    let view = encoded.public_view().unwrap();
    assert!(view.labels.is_some_and(|labels| labels == encoded.private_labels().open(&token)));
    let PublicFeatures::Some(rows) = view.features else { panic!("some features are public") };
    let all = encoded.private_rows().open(&token);
    for row in 0..rows.len() {
        let (seen, full) = (rows.dense_row(row).unwrap(), all.dense_row(row).unwrap());
        assert_eq!(seen, [full[0], 0, 0, ONE]);
        assert_eq!(full[1] + full[2], ONE);
    }
}

/// Neighbours: the sensitive cells of one row change, and every public fact and view stays the same, clipped rows included.
#[test]
fn neighbours_look_alike_from_outside() {
    let seen = |sex: &str, y: &str| {
        let text = "[budget]\nepsilon = 1\ndelta = 1e-6\n[protect]\nunit = 'row'\n[task]\nlabel = 'y'\nloss = 'logistic'\n\
                    row_norm = 0.8\n[columns.age]\nbounds = [0, 1]\nvisibility = 'public'\n[columns.sex]\n\
                    values = ['f', 'm']\n[columns.y]\nvalues = ['a', 'b']\ndefault = 'a'\n";
        let texts = |first: &str, second: &str| Column::Text(vec![first.to_owned(), second.to_owned()]);
        let columns =
            vec![("age", Column::Numbers(vec![1.0, 0.0])), ("sex", texts(sex, "f")), ("y", texts(y, "a"))];
        let columns = columns.into_iter().map(|(name, column)| (name.to_owned(), column)).collect();
        let declaration = Declaration::parse(text, "privacy.toml").unwrap();
        let declared = Declared::bind(declaration, Table::from_columns(columns).unwrap()).unwrap();
        let encoded = declared.encode(OutOfDomain::Coerce).unwrap();
        let view = encoded.public_view().unwrap();
        let PublicFeatures::Some(rows) = view.features else { panic!("age is public") };
        (declared.facts().clone(), rows, view.units.cloned(), format!("{declared:?} {encoded:?}"))
    };
    let reference = seen("f", "a");
    for (sex, y) in [("m", "a"), ("f", "b"), ("", ""), ("unlisted", "unlisted")] {
        assert_eq!(seen(sex, y), reference, "{sex} {y}");
    }
}

#[test]
fn rows_beyond_the_declared_maximum_are_found_or_left_out() {
    let declared = bind("unit = 'user'\nuser = 'id'\nrows_per_user = 2", "", "", "");
    let refused = declared.encode(OutOfDomain::Refuse).unwrap_err().to_string();
    assert!(
        refused.contains("some users have more private rows than rows_per_user, which is 2"),
        "{refused}"
    );
    let findings = declared.findings().unwrap();
    assert_eq!(findings.total(), 1);
    let finding = &findings.listed()[0];
    assert_eq!((finding.row, finding.column.as_str()), (6, "id"));
    assert_eq!(finding.fault, Fault::TooManyRows { user: "2".to_owned(), rows: 3, rows_per_user: 2 });
    let encoded = declared.encode(OutOfDomain::Coerce).unwrap();
    let token = Unsealed::charge_was_recorded();
    assert_eq!(*encoded.private_units().open(&token), Units::Users { offsets: vec![0, 1, 3, 5] });
    assert_eq!(ages(encoded.private_rows().open(&token)), [-ONE / 2, ONE, ONE / 2, -ONE, 0]);
}

/// Of cells outside their domains everyone may see those of public columns and rows; of others the column is named, where places
/// are public at all.
#[test]
fn a_refusal_shows_public_cells_alone() {
    let cells = |age: [f64; 3], y: [&str; 3]| {
        let text = |cells: [&str; 3]| Column::Text(cells.map(str::to_owned).to_vec());
        let columns = [
            ("id", text(["1", "2", "3"])),
            ("consent", text(["yes", "no", "no"])),
            ("age", Column::Numbers(age.to_vec())),
            ("sex", text(["f"; 3])),
            ("y", text(y)),
        ];
        Table::from_columns(columns.map(|(name, column)| (name.to_owned(), column)).into()).unwrap()
    };
    let refused = |protect: &str, age: &str, table: Table| {
        let declared = Declared::bind(declaration(protect, age, "", ""), table).unwrap();
        declared.encode(OutOfDomain::Refuse).unwrap_err().to_string()
    };
    let rows = format!("unit = 'row'\n{SELECTOR}");
    let said = refused(&rows, PUBLIC, cells([0.0, 7.5, 0.0], ["odd", "a", "secret"]));
    assert!(said.contains("row 2: column `age`: 7.5 is outside [0, 1]"), "{said}");
    assert!(said.contains("row 1: column `y`: `odd` is not among"), "{said}");
    assert!(said.contains("column `y` has private cells outside its declared domain"), "{said}");
    assert!(said.contains("halflit check") && !said.contains("secret") && !said.contains("row 3"), "{said}");
    // The same words whichever private cells it is, and however many.
    for y in [["odd", "secret", "a"], ["odd", "other", "thing"]] {
        assert_eq!(refused(&rows, PUBLIC, cells([0.0, 7.5, 0.0], y)), said);
    }
    let users = format!("unit = 'user'\nuser = 'id'\n{SELECTOR}");
    let said = refused(&users, "", cells([7.5, 0.0, 0.0], ["a", "a", "a"]));
    assert!(said.contains("column `age` has private cells") && !said.contains("7.5"), "{said}");
}

#[test]
fn a_selector_that_selects_nothing_is_remarked_upon() {
    let declared = bind("unit = 'row'\npublic_rows = { column = 'consent', equals = 'Yes' }", "", "", "");
    let findings = declared.findings().unwrap();
    let remark = &findings.remarks()[0];
    assert!(remark.contains("column `consent` is never Yes") && remark.contains("it is no, yes"), "{remark}");
}

#[test]
fn whoever_needs_no_private_labels_may_come_without() {
    let without = |protect: &str, y: Option<&str>| {
        let columns = table();
        let texts = |name: &str| match columns.column(name).unwrap().read().unwrap() {
            ReadCells::Text(texts) => {
                (0..6).map(|row| texts.get(row).unwrap_or_default().to_owned()).collect()
            }
            ReadCells::Numbers(_) => panic!("{name} is text"),
        };
        let mut named = vec![
            ("id", Column::Text(texts("id"))),
            ("consent", Column::Text(texts("consent"))),
            ("age", Column::Numbers(vec![0.0; 6])),
            ("sex", Column::Text(texts("sex"))),
        ];
        named.extend(y.map(|y| ("y", Column::Text(vec![y.to_owned(); 6]))));
        let named = named.into_iter().map(|(name, column)| (name.to_owned(), column)).collect();
        let declaration = declaration(protect, PUBLIC, PUBLIC, "");
        let declared =
            Declared::bind_without_private_labels(declaration, Table::from_columns(named).unwrap());
        declared
            .map(|declared| declared.encode(OutOfDomain::Refuse).map(|encoded| encoded.public_rows().len()))
    };
    assert_eq!(without("unit = 'row'", None).unwrap().unwrap(), 0);
    assert_eq!(without("unit = 'row'", Some("unknown")).unwrap().unwrap(), 0);
    let protect = format!("unit = 'row'\n{SELECTOR}");
    assert!(matches!(without(&protect, None), Err(BindError::MissingColumn { .. })));
    let refused = without(&protect, Some("unknown")).unwrap().unwrap_err().to_string();
    assert!(refused.contains("1 finding ") && refused.contains("`unknown`"), "{refused}");
    assert_eq!(without(&protect, Some("a")).unwrap().unwrap(), 1);
}

#[test]
fn zero_out_tells_the_owner_but_does_not_refuse() {
    let declared = bind("unit = 'row'\nchange = 'zero-out'\nrows = 100", "", "", "");
    let findings = declared.findings().unwrap();
    assert!(findings.is_empty());
    assert_eq!(findings.remarks().len(), 1);
    assert!(
        findings.to_string().contains("fixes the number of private units at 100; the file has 6"),
        "{findings}"
    );
}

/// All columns, zero-out: whether any private unit is there is as secret as whether one of them is. With named columns, or under
/// replace, the rows are known to everyone and their absence is an error.
#[test]
fn an_empty_private_part_looks_like_any_other_under_zero_out_of_all_columns() {
    let everyone = "public_rows = { column = 'id', in = [1, 2, 10] }";
    let all_but_one = "public_rows = { column = 'id', in = [2, 10] }";
    for (unit, count) in [("unit = 'row'", "rows = 6"), ("unit = 'user'\nuser = 'id'", "users = 6")] {
        let seen = |selector: &str| {
            let declared = bind(&format!("{unit}\nchange = 'zero-out'\n{count}\n{selector}"), "", "", "");
            let encoded = encode(&declared);
            let view = encoded.public_view().unwrap();
            assert!(view.labels.is_none() && view.units.is_none());
            assert!(matches!(view.features, PublicFeatures::None));
            let facts = declared.facts();
            (facts.private_units, facts.private_rows, facts.largest_user)
        };
        assert_eq!(seen(everyone), (6, None, None));
        assert_eq!(seen(everyone), seen(all_but_one));
        for (change, age) in [("change = 'zero-out'", PUBLIC), ("change = 'replace'", "")] {
            let count = if change.contains("zero") { count } else { "" };
            let declaration = declaration(&format!("{unit}\n{change}\n{count}\n{everyone}"), age, "", "");
            let refused = Declared::bind(declaration, table()).unwrap_err();
            assert!(matches!(refused, BindError::NothingPrivate { .. }), "{change}: {refused}");
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let error = |declaration: Declaration, table: Table| Declared::bind(declaration, table).unwrap_err();
    let row = || declaration("unit = 'row'", "", "", "");
    let renamed = |from: &str, to: &str| {
        let whole = table();
        let names = whole.names().map(|name| if name == from { to } else { name });
        let columns = names.map(|name| (name.to_owned(), Column::Numbers(vec![0.0; 6]))).collect();
        Table::from_columns(columns).unwrap()
    };
    let missing = error(row(), renamed("sex", "gender"));
    assert!(matches!(&missing, BindError::MissingColumn { column, .. } if column == "sex"), "{missing}");
    let missing = error(row(), renamed("sex", "Sex")).to_string();
    assert!(
        missing.contains("(did you mean `Sex`?)") && missing.contains("the file has: id, consent"),
        "{missing}"
    );

    let wrong = error(declaration("unit = 'row'\nrows = 7", "", "", ""), table());
    assert!(matches!(wrong, BindError::WrongCount { unit: "row", declared: 7, found: 6, .. }), "{wrong}");
    let wrong = error(declaration("unit = 'user'\nuser = 'id'\nusers = 2", "", "", ""), table());
    assert!(matches!(wrong, BindError::WrongCount { unit: "user", declared: 2, found: 3, .. }), "{wrong}");
    let many = error(declaration("unit = 'row'\nchange = 'zero-out'\nrows = 5", "", "", ""), table());
    assert!(matches!(many, BindError::TooManyUnits { unit: "row", declared: 5, found: 6, .. }), "{many}");
    let nobody = error(declaration("unit = 'user'\nuser = 'consent'", "", "", ""), table());
    assert!(matches!(nobody, BindError::NoUser { row: 5, .. }), "{nobody}");
    // How many rows another user has is private, and with it where this one stands.
    assert!(nobody.to_string().contains(": some row: column `consent` is empty"), "{nobody}");
    assert_eq!(nobody.for_the_owner().as_deref(), Some("it is row 5"));
    assert!(!many.to_string().contains('6') && many.for_the_owner().unwrap().contains('6'), "{many}");
    let nobody = error(declaration("unit = 'user'\nuser = 'consent'", PUBLIC, "", ""), table());
    assert!(nobody.to_string().contains("row 5") && nobody.for_the_owner().is_none(), "{nobody}");
    let public = "unit = 'row'\npublic_rows = { column = 'id', in = [1, 2, 10] }";
    let nothing = error(declaration(public, "", "", ""), table());
    assert!(matches!(nothing, BindError::NothingPrivate { .. }), "{nothing}");
}

#[test]
fn printing_shows_no_cell() {
    let declared = bind("unit = 'user'\nuser = 'id'", "", "", "");
    let printed = format!("{declared:?}");
    assert!(printed.contains("private_units: 3") && printed.contains("private_rows: None"), "{printed}");
    let encoded = format!("{:?}", encode(&declared));
    assert!(encoded.contains("private_rows: Sealed"), "{encoded}");
    assert!(!encoded.contains("offsets"), "{encoded}");
    assert_eq!(*declared.relation().unit(), Unit::User { id_column: "id".to_owned() });
}
