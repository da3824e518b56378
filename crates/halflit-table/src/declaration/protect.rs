//! The section `[protect]`: whose data, which rows, what change.

use super::columns::distinct_values;
use super::section::{At, Page, Section};
use super::words::{conflict, keep, missing, not_allowed, one_of, whole_number};
use halflit_privacy::Change;

pub(super) struct Protect {
    pub(super) unit: Option<At<UnitKind>>,
    pub(super) user: Option<At<String>>,
    pub(super) change: Option<Change>,
    pub(super) selector: Option<Selector>,
    pub(super) units: Option<u64>,
    pub(super) rows_per_user: Option<u64>,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum UnitKind {
    Row,
    User,
}

pub(super) struct Selector {
    pub(super) column: At<String>,
    pub(super) values: Vec<At<String>>,
}

pub(super) fn protect(page: &Page, section: &Section) -> Protect {
    section.check_keys(page, &["unit", "user", "change", "public_rows", "rows", "users", "rows_per_user"]);
    let unit = match section.text(page, "unit", "\"row\" or \"user\"") {
        Some(unit) => one_of(page, "unit", unit, &[("row", UnitKind::Row), ("user", UnitKind::User)]),
        None if section.has("unit") => None,
        None => {
            let why = "it says whether a row or all rows of a user are protected together";
            missing(page, section, "unit", why, "unit = \"row\"")
        }
    };
    let kind = unit.as_ref().map(|unit| unit.value);
    let user = section.text(page, "user", "the name of a column");
    if kind == Some(UnitKind::User) && !section.has("user") {
        let why = "with unit = \"user\" a column must say whose row it is";
        missing::<()>(page, section, "user", why, "user = \"patient_id\"");
    }
    let only_with = [
        ("user", UnitKind::User),
        ("users", UnitKind::User),
        ("rows_per_user", UnitKind::User),
        ("rows", UnitKind::Row),
    ];
    for (key, needed) in only_with {
        if section.has(key) && kind.is_some_and(|kind| kind != needed) {
            let fix = match needed {
                UnitKind::User => "set `unit = \"user\"` or remove it",
                UnitKind::Row => "declare the number of users as `users = ...` instead",
            };
            conflict(page, &section.span_of(key), key, "nothing would use it with this unit".to_owned(), fix);
        }
    }
    let changes = [("replace", Change::Replace), ("zero-out", Change::ZeroOut)];
    let change = match section.text(page, "change", "\"replace\" or \"zero-out\"") {
        Some(change) => one_of(page, "change", change, &changes).map(|change| change.value),
        None => (!section.has("change")).then_some(Change::Replace),
    };
    let rows = whole_number(page, section, "rows");
    let users = whole_number(page, section, "users");
    let units_key = if kind == Some(UnitKind::User) { "users" } else { "rows" };
    if change == Some(Change::ZeroOut) && kind.is_some() && !section.has(units_key) {
        let why =
            "under zero-out the number of private units is a constant of the declaration, never measured";
        let fix = if units_key == "users" { "users = 1000" } else { "rows = 1000" };
        missing::<()>(page, section, units_key, why, fix);
    }
    let selector =
        if section.has("public_rows") { selector(page, &section.child(page, "public_rows")) } else { None };
    Protect {
        unit,
        user,
        change,
        selector,
        units: rows.or(users),
        rows_per_user: whole_number(page, section, "rows_per_user"),
    }
}

fn selector(page: &Page, section: &Section) -> Option<Selector> {
    const EXAMPLE: &str = "public_rows = { column = \"consent\", equals = \"yes\" }";
    section.check_keys(page, &["column", "equals", "in"]);
    let column = section.text(page, "column", "the name of a column");
    if !section.has("column") {
        missing::<()>(page, section, "column", "a public column must say which rows are public", EXAMPLE);
    }
    if section.has("equals") && section.has("in") {
        conflict(
            page,
            &section.span_of("in"),
            "in",
            "`equals` is there too".to_owned(),
            "keep one of the two",
        );
    } else if !section.has("equals") && !section.has("in") {
        missing::<()>(page, section, "equals", "some value must mark a row as public", EXAMPLE);
    }
    let one = section.cell(page, "equals", "a text, a finite number, true or false").map(|cell| vec![cell]);
    let several =
        section.cells(page, "in", "a list of values such as [\"yes\", \"licensed\"]").and_then(|list| {
            let some = !list.value.is_empty();
            keep(
                page,
                some,
                "in",
                list,
                "a list of at least one value",
                "name the values that mark a row as public",
            )
        });
    let values = one.or(several.map(|list| list.value))?;
    let key = if section.has("in") { "in" } else { "equals" };
    let values = distinct_values(page, key, values)?;
    if let Some(empty) = values.iter().find(|value| value.value.is_empty()) {
        let fix = "a row whose selector is empty is private; name a value instead";
        not_allowed(page, &empty.span, key, "a text that is not empty", fix);
        return None;
    }
    Some(Selector { column: column?, values })
}
