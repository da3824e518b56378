//! From TOML values to a checked declaration: everything that can be refused without seeing a file is refused here.

use super::columns::{self, Draft, Parts};
use super::problem::{DeclarationError, Problem, Refusal};
use super::protect::{Protect, Selector, UnitKind, protect};
use super::section::{At, Page, Section};
use super::task::{TaskDraft, task};
use super::words::{conflict, keep, nearest_or_list, not_allowed, required_number};
use super::{
    Budget, ColumnDomain, Declaration, DeclaredColumn, Predicts, Protection, Role, Task, Visibility,
};
use crate::value::comparable;
use halflit_convex::Loss;
use halflit_privacy::{PrivateRows, PublicRows, Relation, SensitiveColumns, Unit};
use std::ops::Range;
use toml::de::DeTable;

pub(super) fn parse(text: &str, file: &str) -> Result<Declaration, DeclarationError> {
    read(text, file, |page, root| {
        let (protection, task) = check(page, file, root, true);
        let (task, loss) = task?;
        Some(Declaration { protection: protection?, task, loss })
    })
}

/// A declaration whose task may be missing.
pub(super) fn parse_protection(text: &str, file: &str) -> Result<Protection, DeclarationError> {
    read(text, file, |page, root| check(page, file, root, root.has("task")).0)
}

/// The sections of a declaration.
const SECTIONS: [&str; 4] = ["budget", "protect", "task", "columns"];

/// Reads the text as TOML, checks it, and gives everything that was found wrong.
fn read<T>(
    text: &str,
    file: &str,
    check: impl FnOnce(&Page, &Section) -> Option<T>,
) -> Result<T, DeclarationError> {
    let failed = |mut problems: Vec<Problem>| {
        problems.sort_by_key(|problem| (problem.line, problem.column));
        DeclarationError { file: file.to_owned(), problems }
    };
    let (root, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        let syntax = |error: toml::de::Error| {
            let refusal = Refusal::Syntax { message: error.message().to_owned() };
            Problem::at(text, error.span().unwrap_or(0..0), refusal)
        };
        let mut problems: Vec<Problem> = errors.into_iter().map(syntax).collect();
        if !SECTIONS.iter().any(|section| Section::root(&root).has(section)) {
            problems = vec![Problem::no_declaration(&problems)];
        }
        return Err(failed(problems));
    }
    let page = Page::new(text);
    let declaration = check(&page, &Section::root(&root));
    let problems = page.into_problems();
    match declaration {
        Some(declaration) if problems.is_empty() => Ok(declaration),
        _ => Err(failed(problems)),
    }
}

/// The protection and the task, if nothing needed is missing. Every `None` below has recorded its problem, but for a task
/// that is not asked for.
fn check(
    page: &Page,
    file: &str,
    root: &Section,
    with_task: bool,
) -> (Option<Protection>, Option<(Task, Loss)>) {
    root.check_keys(page, &SECTIONS);
    let budget = budget(page, &root.child(page, "budget"));
    let protect = protect(page, &root.child(page, "protect"));
    let task = with_task.then(|| task(page, &root.child(page, "task")));
    let columns_section = root.child(page, "columns");
    let drafts = columns::drafts(page, &columns_section);

    let parts = Parts {
        label: task.as_ref().and_then(|task| task.label.as_ref()),
        user: protect.user.as_ref(),
        selector: protect.selector.as_ref().map(|selector| &selector.column),
        misses_the_user: protect.user.is_none()
            && protect.unit.as_ref().is_some_and(|unit| unit.value == UnitKind::User),
    };
    let columns = columns::check(page, &drafts, &parts);
    check_selector_values(page, protect.selector.as_ref(), &drafts);
    let loss = task.as_ref().and_then(|task| loss_on_label(page, task, &drafts));
    let relation = relation(page, &protect, &columns, &columns_section.span);
    let protection = || {
        Some(Protection {
            file: file.to_owned(),
            budget: budget?,
            relation: relation?,
            declared_units: protect.units,
            rows_per_user: protect.rows_per_user,
            columns,
            has_task: with_task,
        })
    };
    (protection(), task.and_then(|task| Some((checked_task(task)?, loss?))))
}

fn checked_task(task: TaskDraft) -> Option<Task> {
    Some(Task {
        label: task.label?.value,
        loss: task.loss?.value,
        regularization: task.regularization?,
        radius: task.radius,
        row_norm: task.row_norm,
        intercept: task.intercept,
    })
}

fn budget(page: &Page, section: &Section) -> Option<Budget> {
    section.check_keys(page, &["epsilon", "delta"]);
    let epsilon = required_number(page, section, "epsilon", "how much privacy may be spent", "epsilon = 1.0");
    let delta =
        required_number(page, section, "delta", "the chance that the guarantee may fail", "delta = 1e-6");
    let epsilon = epsilon.and_then(|epsilon| {
        let inside = epsilon.value > 0.0 && epsilon.value <= Budget::MOST_EPSILON;
        keep(page, inside, "epsilon", epsilon, "a number above 0 and at most 1e9", "1.0 is a common choice")
    });
    let delta = delta.and_then(|delta| {
        let inside = (0.0..=Budget::MOST_DELTA).contains(&delta.value);
        let fix = "choose it well below one over the number of units, for instance 1e-6; 0 asks for pure differential privacy";
        keep(page, inside, "delta", delta, "a number of at least 0 and at most 0.5", fix)
    });
    Some(Budget { epsilon: epsilon?.value, delta: delta?.value })
}

/// The loss, if the label's domain is what it is about.
fn loss_on_label(page: &Page, task: &TaskDraft, drafts: &[Draft]) -> Option<Loss> {
    let (Some(label), Some(loss)) = (&task.label, &task.loss) else { return None };
    let draft = drafts.iter().find(|draft| draft.name.value == label.value)?;
    let domain = draft.domain.as_ref()?;
    let name = loss.value.name();
    let (why, fix) = match (loss.value.predicts(), &domain.value) {
        (_, ColumnDomain::Values(values)) if values.iter().any(String::is_empty) => (
            "an empty label cannot be learned".to_owned(),
            "remove \"\" from its values, and rows without a label",
        ),
        (Predicts::OneOfTwo, ColumnDomain::Values(values)) if values.len() != 2 => (
            format!("the loss \"{name}\" separates two classes, but the label has {}", values.len()),
            "list exactly two values, or use the loss \"softmax\"",
        ),
        (Predicts::OneOfMany, ColumnDomain::Values(values)) if values.len() < 3 => (
            format!("the loss \"{name}\" is for three classes or more, but the label has {}", values.len()),
            "use the loss \"logistic\", which needs half the weights",
        ),
        (Predicts::OneOfTwo | Predicts::OneOfMany, ColumnDomain::Bounds { .. }) => (
            format!("the loss \"{name}\" predicts a class, but the label has bounds"),
            "replace the bounds by `values = [...]`, or use a regression loss such as \"squared\"",
        ),
        (Predicts::Number | Predicts::Count, ColumnDomain::Values(_)) => (
            format!("the loss \"{name}\" predicts a number, but the label has a list of values"),
            "replace the values by `bounds = [lowest, highest]`, or use \"logistic\" or \"softmax\"",
        ),
        (Predicts::Count, ColumnDomain::Bounds { low, .. }) if *low < 0.0 => {
            ("counts cannot be below 0".to_owned(), "set the lower bound to 0")
        }
        (_, domain) => {
            let encoded = loss.value.on_encoded_labels(domain);
            let fix =
                "lengths are relative to half the width of the label's bounds; change them or the bounds";
            return encoded.map_err(|error| conflict(page, &loss.span, "loss", error.to_string(), fix)).ok();
        }
    };
    conflict(page, &domain.span, &format!("columns.{}", label.value), why, fix);
    None
}

/// If the selector column lists its values, the public ones must be among them.
fn check_selector_values(page: &Page, selector: Option<&Selector>, drafts: &[Draft]) {
    let Some(selector) = selector else { return };
    let Some(draft) = drafts.iter().find(|draft| draft.name.value == selector.column.value) else { return };
    let Some(At { value: ColumnDomain::Values(listed), .. }) = &draft.domain else { return };
    for value in &selector.values {
        if !listed.iter().any(|listed| comparable(listed) == comparable(&value.value)) {
            let listed: Vec<&str> = listed.iter().map(String::as_str).collect();
            let fix = nearest_or_list(&value.value, &listed);
            let allowed = format!("one of the values of column `{}`", selector.column.value);
            not_allowed(page, &value.span, "public_rows", &allowed, &fix);
        }
    }
}

fn relation(
    page: &Page,
    protect: &Protect,
    columns: &[DeclaredColumn],
    span: &Range<usize>,
) -> Option<Relation> {
    let used = || columns.iter().filter(|column| column.role != Role::Unused);
    if !columns.is_empty() && !used().any(|column| column.role == Role::Feature) {
        page.refuse(span, Refusal::NoFeature);
    }
    let is_sensitive = |column: &&DeclaredColumn| column.visibility == Visibility::Sensitive;
    if !used().any(|column| is_sensitive(&column)) {
        if used().next().is_some() {
            page.refuse(span, Refusal::NothingSensitive);
        }
        return None;
    }
    let unit = match protect.unit.as_ref()?.value {
        UnitKind::Row => Unit::Row,
        UnitKind::User => Unit::User { id_column: protect.user.as_ref()?.value.clone() },
    };
    let sensitive = if used().all(|column| is_sensitive(&column)) {
        SensitiveColumns::All
    } else {
        // A declared secret is protected whether or not this task uses it. A sensitive user id or selector was refused above.
        let selector = protect.selector.as_ref().map(|selector| &selector.column);
        let structural = [protect.user.as_ref(), selector];
        let is_structural =
            |column: &&DeclaredColumn| structural.into_iter().flatten().any(|at| at.value == column.name);
        let named = columns.iter().filter(is_sensitive).filter(|column| !is_structural(column));
        SensitiveColumns::named(named.map(|column| column.name.as_str())).ok()?
    };
    let private_rows = match &protect.selector {
        None => PrivateRows::All,
        Some(selector) => {
            let values = selector.values.iter().map(|value| value.value.as_str());
            PrivateRows::Outside(PublicRows::new(selector.column.value.as_str(), values).ok()?)
        }
    };
    let relation = Relation::new(unit, sensitive, private_rows, protect.change?);
    // The parts were checked one by one above with better places; this is the second lock on the same door.
    relation
        .map_err(|error| {
            let fix = "change the section [protect]".to_owned();
            page.refuse(span, Refusal::Conflict { key: "protect".to_owned(), why: error.to_string(), fix });
        })
        .ok()
}
