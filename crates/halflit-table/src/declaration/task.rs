//! The section `[task]`: the label, the loss and the shape of the model.

use super::problem::Refusal;
use super::section::{At, Page, Section};
use super::words::{A_NUMBER, above_zero, conflict, keep, missing, nearest_or_list, not_allowed, one_of};
use super::{DeclaredLoss, Regularization};
use crate::encoding::SMALLEST_ROW_NORM;

pub(super) struct TaskDraft {
    pub(super) label: Option<At<String>>,
    pub(super) loss: Option<At<DeclaredLoss>>,
    pub(super) regularization: Option<Regularization>,
    pub(super) radius: Option<f64>,
    pub(super) row_norm: Option<f64>,
    pub(super) intercept: bool,
}

pub(super) fn task(page: &Page, section: &Section) -> TaskDraft {
    let known = [
        "label",
        "loss",
        "regularization",
        "radius",
        "row_norm",
        "intercept",
        "quantile",
        "huber_threshold",
        "smoothing",
        "max_abs_score",
    ];
    section.check_keys(page, &known);
    let label = named(page, section, "label", "the column to predict", "label = \"income\"");
    let loss = loss(page, section);
    let regularization = match section.text_or_number(page, "regularization", "\"auto\" or a number") {
        None => (!section.has("regularization")).then_some(Regularization::Auto),
        Some(Ok(text)) => {
            one_of(page, "regularization", text, &[("auto", Regularization::Auto)]).map(|auto| auto.value)
        }
        Some(Err(number)) => {
            let allowed = number.value.is_finite() && number.value >= 0.0;
            keep(
                page,
                allowed,
                "regularization",
                number,
                "\"auto\" or a finite number of at least 0",
                "\"auto\" lets the planner choose",
            )
            .map(|number| Regularization::Fixed(number.value))
        }
    };
    let radius = section.number(page, "radius", A_NUMBER);
    let radius = above_zero(page, "radius", radius, "remove it for weights without a ball");
    let row_norm = section.number(page, "row_norm", A_NUMBER).and_then(|norm| {
        let allowed = norm.value.is_finite() && norm.value >= SMALLEST_ROW_NORM;
        keep(
            page,
            allowed,
            "row_norm",
            norm,
            "a finite number of at least 1/64",
            "remove it for rows of full length",
        )
    });
    let intercept = section.boolean(page, "intercept").is_none_or(|intercept| intercept.value);
    TaskDraft { label, loss, regularization, radius, row_norm: row_norm.map(|norm| norm.value), intercept }
}

/// A text that must be there and filled in.
fn named(page: &Page, section: &Section, key: &'static str, why: &str, fix: &str) -> Option<At<String>> {
    if let Some(span) = section.unfilled(key) {
        let what = format!("`{key}` in {}: {why}", section.name);
        page.refuse(&span, Refusal::Unfilled { what, advice: "the comment beside it lists the choices" });
        return None;
    }
    if !section.has(key) {
        return missing(page, section, key, why, fix);
    }
    section.text(page, key, "a text")
}

pub(super) const LOSSES: [&str; 10] = [
    "logistic",
    "softmax",
    "hinge",
    "smoothed-hinge",
    "squared",
    "huber",
    "pseudo-huber",
    "absolute",
    "quantile",
    "poisson",
];

fn loss(page: &Page, section: &Section) -> Option<At<DeclaredLoss>> {
    let name = named(page, section, "loss", "how errors are measured", "loss = \"logistic\"");
    let parameters = [
        ("quantile", &["quantile"][..]),
        ("huber_threshold", &["huber", "pseudo-huber"]),
        ("smoothing", &["smoothed-hinge"]),
        ("max_abs_score", &["poisson"]),
    ];
    if let Some(name) = &name {
        for (parameter, losses) in parameters {
            if section.has(parameter)
                && !losses.contains(&name.value.as_str())
                && LOSSES.contains(&name.value.as_str())
            {
                let why = format!("the loss \"{}\" does not use it", name.value);
                let fix = format!("remove it, or use the loss \"{}\"", losses[0]);
                conflict(page, &section.span_of(parameter), parameter, why, &fix);
            }
        }
    }
    let quantile = section.number(page, "quantile", A_NUMBER).and_then(|quantile| {
        let inside = quantile.value > 0.0 && quantile.value < 1.0;
        keep(page, inside, "quantile", quantile, "a number strictly between 0 and 1", "0.5 is the median")
    });
    let threshold = section.number(page, "huber_threshold", A_NUMBER);
    let threshold = above_zero(page, "huber_threshold", threshold, "it is in units of the label");
    let smoothing = section.number(page, "smoothing", A_NUMBER).and_then(|smoothing| {
        let inside = (1e-6..=1e6).contains(&smoothing.value);
        keep(page, inside, "smoothing", smoothing, "a number from 1e-6 to 1e6", "1.0 is a common choice")
    });
    let max_abs_score = section.number(page, "max_abs_score", A_NUMBER).and_then(|score| {
        let inside = score.value > 0.0 && score.value <= LARGEST_SCORE;
        keep(
            page,
            inside,
            "max_abs_score",
            score,
            "a number above 0 and at most 30",
            "the expected count is at most exp(max_abs_score)",
        )
    });

    let name = name?;
    let needed = |key: &'static str, value: Option<f64>, why: &str, fix: &str| match value {
        Some(value) => Some(value),
        None if section.has(key) => None,
        None => missing(page, section, key, why, fix),
    };
    let loss = match name.value.as_str() {
        "logistic" => DeclaredLoss::Logistic,
        "softmax" => DeclaredLoss::Softmax,
        "hinge" => DeclaredLoss::Hinge,
        "squared" => DeclaredLoss::Squared,
        "absolute" => DeclaredLoss::Absolute,
        "smoothed-hinge" => {
            let why = "the width of the rounded corner";
            DeclaredLoss::SmoothedHinge {
                smoothing: needed("smoothing", smoothing.map(|at| at.value), why, "smoothing = 1.0")?,
            }
        }
        "quantile" => {
            let why = "which quantile to predict";
            DeclaredLoss::Quantile {
                quantile: needed("quantile", quantile.map(|at| at.value), why, "quantile = 0.9")?,
            }
        }
        "poisson" => {
            let why = "scores must be bounded, for exp(score) bounds the gradient";
            let max_abs_score =
                needed("max_abs_score", max_abs_score.map(|at| at.value), why, "max_abs_score = 3.0")?;
            DeclaredLoss::Poisson { max_abs_score }
        }
        "huber" | "pseudo-huber" => {
            let why = "the residual beyond which errors count linearly, in units of the label";
            let threshold = needed("huber_threshold", threshold, why, "huber_threshold = 1.0")?;
            if name.value == "huber" {
                DeclaredLoss::Huber { threshold }
            } else {
                DeclaredLoss::PseudoHuber { threshold }
            }
        }
        _ => {
            let fix = nearest_or_list(&name.value, &LOSSES);
            not_allowed(page, &name.span, "loss", &format!("one of {}", LOSSES.join(", ")), &fix);
            return None;
        }
    };
    Some(At { value: loss, span: name.span })
}

/// exp(30) is about 10^13: beyond any count, and far from overflow.
const LARGEST_SCORE: f64 = 30.0;
