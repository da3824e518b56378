//! The sections `[columns.*]`: what every column is, and who may see it.

use super::problem::{Refusal, listed};
use super::section::{At, Page, Section, nearest};
use super::words::{conflict, not_allowed, one_of};
use super::{ColumnDomain, DeclaredColumn, Role, Visibility};
use crate::encoding::Affine;
use crate::value::{comparable, parse_number};
use std::collections::HashMap;

/// A column section as written.
pub(super) struct Draft {
    pub(super) name: At<String>,
    header: String,
    pub(super) domain: Option<At<ColumnDomain>>,
    /// A domain was written, well or badly: its absence need not be reported.
    domain_written: bool,
    visibility: Option<At<Visibility>>,
    used: Option<At<bool>>,
    default: Option<At<String>>,
}

/// The columns that play a part of their own.
pub(super) struct Parts<'a> {
    pub(super) label: Option<&'a At<String>>,
    pub(super) user: Option<&'a At<String>>,
    pub(super) selector: Option<&'a At<String>>,
    /// Rows belong to users, but no column is named that says to whom.
    pub(super) misses_the_user: bool,
}

pub(super) fn drafts(page: &Page, section: &Section) -> Vec<Draft> {
    let children = section.children(page, "columns");
    children
        .into_iter()
        .map(|child| draft(page, At { value: child.value.0, span: child.span }, &child.value.1))
        .collect()
}

fn draft(page: &Page, name: At<String>, section: &Section) -> Draft {
    section.check_keys(page, &["bounds", "values", "visibility", "use", "default"]);
    let visibilities = [("public", Visibility::Public), ("sensitive", Visibility::Sensitive)];
    let visibility = section.text(page, "visibility", "\"public\" or \"sensitive\"");
    Draft {
        header: section.name.clone(),
        domain: domain(page, &name.value, section),
        domain_written: section.has("bounds") || section.has("values"),
        visibility: visibility.and_then(|visibility| one_of(page, "visibility", visibility, &visibilities)),
        used: section.boolean(page, "use"),
        default: section.cell(page, "default", "a text, a finite number, true or false"),
        name,
    }
}

fn domain(page: &Page, name: &str, section: &Section) -> Option<At<ColumnDomain>> {
    if section.has("bounds") && section.has("values") {
        let why = "a column has bounds or values, not both".to_owned();
        conflict(page, &section.span_of("values"), "values", why, "keep one of the two");
        return None;
    }
    for (key, advice) in [
        (
            "bounds",
            "the lowest and the highest number that can occur, from what the column means and not from the data",
        ),
        (
            "values",
            "every text that can occur, from what the column means and not from the data; or set `use = false`",
        ),
    ] {
        if let Some(span) = section.unfilled(key) {
            page.refuse(&span, Refusal::Unfilled { what: format!("the {key} of column `{name}`"), advice });
            return None;
        }
    }
    bounds(page, section).or_else(|| values(page, section))
}

/// `columns.age.bounds`: in a long file the key alone does not say whose it is.
fn key_of(section: &Section, key: &str) -> String {
    format!("{}.{key}", section.name.trim_matches(['[', ']']))
}

fn bounds(page: &Page, section: &Section) -> Option<At<ColumnDomain>> {
    let bounds = section.numbers(page, "bounds", "two numbers such as [17, 90]")?;
    let refuse = |allowed: &str, fix: &str| {
        not_allowed(page, &bounds.span, &key_of(section, "bounds"), allowed, fix);
        None
    };
    let &[low, high] = bounds.value.as_slice() else {
        return refuse("exactly two numbers", "write the lowest and the highest, such as [17, 90]");
    };
    if !(low.is_finite() && high.is_finite()) {
        return refuse(
            "two finite numbers",
            "choose numbers that no honest cell exceeds; cells beyond them are refused or clamped",
        );
    }
    if low > high {
        return refuse("the lower bound first", &format!("write bounds = [{high}, {low}]"));
    }
    if !Affine::new(low, high).is_sound() {
        return refuse(
            "two different numbers",
            "a column with one possible value teaches nothing: set `use = false`",
        );
    }
    Some(At { value: ColumnDomain::Bounds { low, high }, span: bounds.span })
}

fn values(page: &Page, section: &Section) -> Option<At<ColumnDomain>> {
    let values = section.cells(page, "values", "a list such as [\"yes\", \"no\"]")?;
    if values.value.is_empty() {
        not_allowed(
            page,
            &values.span,
            &key_of(section, "values"),
            "a list of at least one value",
            "list every text that can occur, or set `use = false`",
        );
        return None;
    }
    let distinct = distinct_values(page, &key_of(section, "values"), values.value)?;
    let texts = distinct.into_iter().map(|value| value.value).collect();
    Some(At { value: ColumnDomain::Values(texts), span: values.span })
}

/// Refuses repeated values; `1` and `1.0` are one value.
pub(super) fn distinct_values(page: &Page, key: &str, values: Vec<At<String>>) -> Option<Vec<At<String>>> {
    let mut all_good = true;
    let mut seen: HashMap<String, String> = HashMap::new();
    for At { value, span } in &values {
        if let Some(first) = seen.insert(comparable(value).into_owned(), value.clone()) {
            all_good = false;
            page.refuse(span, Refusal::Repeated { key: key.to_owned(), value: page.written(span), first });
        }
    }
    all_good.then_some(values)
}

/// The checked columns, in file order.
pub(super) fn check(page: &Page, drafts: &[Draft], parts: &Parts) -> Vec<DeclaredColumn> {
    let declared = |at: &At<String>| drafts.iter().find(|draft| draft.name.value == at.value);
    let structural = [(parts.user, "user id"), (parts.selector, "selector of public rows")];
    for (at, role) in structural {
        let Some(at) = at else { continue };
        match declared(at) {
            None => page.refuse(&at.span, not_declared(at, role, drafts)),
            Some(draft) if !draft.is_public() => {
                page.refuse(&at.span, Refusal::NotPublic { column: at.value.clone(), role });
            }
            Some(_) => {}
        }
    }
    if let Some(label) = parts.label {
        if declared(label).is_none() {
            page.refuse(&label.span, not_declared(label, "label", drafts));
        }
        if parts.user.is_some_and(|user| user.value == label.value) {
            let why = "the user id cannot be predicted".to_owned();
            conflict(page, &label.span, "label", why, "choose another column as the label");
        }
    }
    let is_unknown = |part: Option<&At<String>>| part.is_some_and(|at| declared(at).is_none());
    let misses_a_part = parts.misses_the_user || is_unknown(parts.user) || is_unknown(parts.selector);
    drafts.iter().map(|draft| check_column(page, draft, parts, misses_a_part)).collect()
}

fn not_declared(at: &At<String>, role: &'static str, drafts: &[Draft]) -> Refusal {
    let names: Vec<&str> = drafts.iter().map(|draft| draft.name.value.as_str()).collect();
    let nearest = nearest(&at.value, &names).map(str::to_owned);
    Refusal::NotDeclared { column: at.value.clone(), nearest, role }
}

impl Draft {
    fn is_public(&self) -> bool {
        self.visibility.as_ref().is_some_and(|visibility| visibility.value == Visibility::Public)
    }
}

/// `misses_a_part`: the column that says whose a row is, or which rows are public, has not been found and so has been refused already.
fn check_column(page: &Page, draft: &Draft, parts: &Parts, misses_a_part: bool) -> DeclaredColumn {
    let name = &draft.name.value;
    let is = |part: Option<&At<String>>| part.is_some_and(|part| part.value == *name);
    let used = draft.used.as_ref().map(|used| used.value);
    let role = match used {
        _ if is(parts.label) => Role::Label,
        Some(false) => Role::Unused,
        // Saying who a row belongs to or that it is public does not make a column a feature; `use = true` does.
        None if is(parts.user) || is(parts.selector) => Role::Unused,
        _ => Role::Feature,
    };
    if let Some(At { value: false, span }) = &draft.used
        && role == Role::Label
    {
        conflict(
            page,
            span,
            "use",
            "the label is always used".to_owned(),
            "remove it, or choose another label",
        );
    }
    // A public column without a domain may be the one that is missing: it needs none then.
    let may_be_the_part = misses_a_part && draft.is_public() && role == Role::Feature;
    if role != Role::Unused && !draft.domain_written && !may_be_the_part {
        let refusal = Refusal::MissingKey {
            section: draft.header.clone(),
            key: "bounds",
            why: "what a cell may be is declared, never measured from private data".to_owned(),
            fix: "bounds = [lowest, highest]` for numbers, `values = [\"...\"]` for texts, or `use = false"
                .to_owned(),
        };
        page.refuse(&draft.name.span, refusal);
    }
    DeclaredColumn {
        name: name.clone(),
        role,
        visibility: if draft.is_public() { Visibility::Public } else { Visibility::Sensitive },
        domain: draft.domain.as_ref().map(|domain| domain.value.clone()),
        default: checked_default(page, draft),
    }
}

/// The default in the spelling of the domain.
fn checked_default(page: &Page, draft: &Draft) -> Option<String> {
    let (default, domain) = (draft.default.as_ref()?, draft.domain.as_ref()?);
    let found = match &domain.value {
        ColumnDomain::Bounds { low, high } => parse_number(default.value.as_bytes())
            .filter(|number| (low..=high).contains(&number))
            .map(|_| default.value.clone()),
        ColumnDomain::Values(values) => {
            values.iter().find(|value| comparable(value) == comparable(&default.value)).cloned()
        }
    };
    if found.is_none() {
        let allowed = match &domain.value {
            ColumnDomain::Bounds { low, high } => format!("a number from {low} to {high}"),
            ColumnDomain::Values(values) => format!("one of {}", listed(values)),
        };
        not_allowed(
            page,
            &default.span,
            "default",
            &allowed,
            "it stands in for missing cells, so it must be an allowed cell",
        );
    }
    found
}
