//! The small words of the checks. Each records the problem it finds and answers `None`.

use super::problem::{Refusal, listed};
use super::section::{At, Page, Section, nearest};
use std::ops::Range;

pub(super) const A_NUMBER: &str = "a number";

pub(super) fn missing<T>(
    page: &Page,
    section: &Section,
    key: &'static str,
    why: &str,
    fix: &str,
) -> Option<T> {
    let (section_name, why, fix) = (section.name.clone(), why.to_owned(), fix.to_owned());
    page.refuse(&section.span, Refusal::MissingKey { section: section_name, key, why, fix });
    None
}

pub(super) fn required_number(
    page: &Page,
    section: &Section,
    key: &'static str,
    why: &str,
    fix: &str,
) -> Option<At<f64>> {
    if section.has(key) { section.number(page, key, A_NUMBER) } else { missing(page, section, key, why, fix) }
}

pub(super) fn not_allowed(page: &Page, span: &Range<usize>, key: &str, allowed: &str, fix: &str) {
    let value = page.written(span);
    let refusal =
        Refusal::NotAllowed { key: key.to_owned(), value, allowed: allowed.to_owned(), fix: fix.to_owned() };
    page.refuse(span, refusal);
}

pub(super) fn keep<T>(
    page: &Page,
    allowed: bool,
    key: &str,
    at: At<T>,
    allowed_text: &str,
    fix: &str,
) -> Option<At<T>> {
    if !allowed {
        not_allowed(page, &at.span, key, allowed_text, fix);
    }
    allowed.then_some(at)
}

pub(super) fn above_zero(page: &Page, key: &str, number: Option<At<f64>>, fix: &str) -> Option<f64> {
    let number = number?;
    let allowed = number.value.is_finite() && number.value > 0.0;
    keep(page, allowed, key, number, "a finite number above 0", fix).map(|number| number.value)
}

pub(super) fn whole_number(page: &Page, section: &Section, key: &str) -> Option<u64> {
    // Far above the rows of any table, and exact as a number.
    const LARGEST: f64 = 1e15;
    let number = section.number(page, key, "a whole number")?;
    let allowed = (1.0..=LARGEST).contains(&number.value) && number.value.fract() == 0.0;
    let fix = format!("write down how many {key} there can be");
    let fix = if key == "rows_per_user" { "write down how many private rows of a user count" } else { &fix };
    keep(page, allowed, key, number, "a whole number from 1 to 1e15", fix).map(|number| number.value as u64)
}

pub(super) fn one_of<T: Clone>(
    page: &Page,
    key: &str,
    text: At<String>,
    choices: &[(&str, T)],
) -> Option<At<T>> {
    if let Some((_, value)) = choices.iter().find(|(name, _)| *name == text.value) {
        return Some(At { value: value.clone(), span: text.span });
    }
    let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
    let quoted: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
    not_allowed(page, &text.span, key, &quoted.join(" or "), &nearest_or_list(&text.value, &names));
    None
}

pub(super) fn conflict(page: &Page, span: &Range<usize>, key: &str, why: String, fix: &str) {
    page.refuse(span, Refusal::Conflict { key: key.to_owned(), why, fix: fix.to_owned() });
}

pub(super) fn nearest_or_list(written: &str, known: &[&str]) -> String {
    match nearest(written, known) {
        Some(nearest) => format!("did you mean \"{nearest}\"?"),
        None => format!("choose from: {}", listed(known)),
    }
}
