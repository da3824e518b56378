//! The report: one self-contained page that a person can read on a phone, on paper, or in ten years.

use super::certificate::{Certificate, Numerics};
use super::errors::StandardErrors;
use super::model::Model;
use crate::figures::{about, at_least, at_most, whole};
use crate::mechanisms::noisy_gradient::parts::Descent;
use crate::mechanisms::weighted_mean::NoiseLaw;
use crate::mechanisms::{Statement, SummedNoise, noisy_gradient};
use crate::plan::PublicRowsWorth;
use crate::plot::{Bar, BarChart, profile_chart};
use crate::release::Left;
use halflit_privacy::{Change, PrivateRows, SensitiveColumns, Unit};
use halflit_table::{LabelEncoding, PublicFacts};
use maud::{DOCTYPE, Markup, PreEscaped, html};

/// The most coefficients that the bar plot shows; the table below it has all of them.
const PLOTTED_COEFFICIENTS: usize = 25;

/// What most releases are.
const MODEL: &str = "model";

/// Significant figures of an epsilon or delta; always rounded up.
const CLAIM_FIGURES: usize = 4;

/// Renders the page.
pub(super) fn render(
    certificate: &Certificate,
    model: &Model,
    facts: &PublicFacts,
    left: &[Left],
    worth: Option<PublicRowsWorth>,
) -> String {
    let label = model.encoding().label_name();
    let title = format!("halflit release: a model of {label}");
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    p.kicker { "halflit release report" }
                    h1 { "A private model of " code { (label) } }
                    p { "Loss " code { (model.loss().name()) } ", " (whole(model.encoding().columns().len() as u64)) " columns, "
                        (whole(model.encoding().width() as u64)) " coordinates. Charged " (certificate.charged_at) ", charge "
                        (certificate.charge) " of dataset " code { (certificate.dataset.chars().take(8).collect::<String>()) } "." }
                    @if certificate.randomness == super::certificate::SEEDED_RANDOMNESS {
                        p.alarm { (certificate.randomness) }
                    }
                }
                (protected(certificate, facts))
                (spent(certificate, left))
                (noise(certificate, model))
                @if let Some(worth) = worth { (bought(&worth)) }
                (coefficients(model, certificate))
                (made(certificate))
                (next(MODEL))
                footer { p { (certificate.software) ". The certificate beside this page is what counts; this page explains it." } }
            }
        }
    }
    .into_string()
}

pub(super) fn protected(certificate: &Certificate, facts: &PublicFacts) -> Markup {
    let relation = &certificate.relation;
    let unit = match relation.unit() {
        Unit::Row => "one row".to_owned(),
        Unit::User { id_column } => format!("all private rows of one user (column {id_column})"),
    };
    let columns = match relation.sensitive() {
        SensitiveColumns::All => "all".to_owned(),
        SensitiveColumns::Named(names) => names.as_slice().join(", "),
    };
    let rows = match relation.private_rows() {
        PrivateRows::All => "all".to_owned(),
        PrivateRows::Outside(public) => {
            format!("all except those whose {} is {}", public.column(), public.values().join(" or "))
        }
    };
    let change = match relation.change() {
        Change::Replace => "replaced by any other values of the declared domain",
        Change::ZeroOut => "removed: the unit contributes nothing in one of the two tables",
    };
    html! {
        section {
            h2 { "What is protected" }
            blockquote { (certificate.sentence) }
            table {
                tr { th { "Unit" } td { (unit) } }
                tr { th { "Sensitive columns" } td { (columns) } }
                @if !certificate.secrets.public_columns.is_empty() {
                    tr { th { "Public columns" } td { (certificate.secrets.public_columns.join(", ")) } }
                }
                tr { th { "Private rows" } td { (rows) } }
                tr { th { "The change" } td { (change) } }
                tr { th { "Protected units" } td { (whole(facts.private_units)) } }
                @if facts.public_rows > 0 {
                    tr { th { "Public rows" } td { (whole(facts.public_rows)) } }
                }
            }
        }
    }
}

pub(super) fn spent(certificate: &Certificate, left: &[Left]) -> Markup {
    let guarantee = certificate.guarantee;
    let factor = guarantee.epsilon.exp();
    if guarantee.epsilon == 0.0 {
        return html! {
            section {
                h2 { "What was spent" }
                p.figure { "ε = 0, δ = 0" }
                p { "Nothing: the release is the same for every pair of neighbouring tables." }
                (accounts(left))
            }
        };
    }
    // A point without a delta has no place on a logarithmic axis.
    let promise = Some((guarantee.epsilon, guarantee.delta)).filter(|(_, delta)| *delta > 0.0);
    let chart = profile_chart(&certificate.profile, promise);
    html! {
        section {
            h2 { "What was spent" }
            p.figure { "ε = " (at_most(guarantee.epsilon, CLAIM_FIGURES)) ", δ = " (at_most(guarantee.delta, CLAIM_FIGURES)) }
            p { "For every pair of neighbouring tables and every set of outcomes, the probability under one table is at most e"
                sup { "ε" } " = " (at_most(factor, CLAIM_FIGURES)) " times that under the other, plus δ. The accountant's interval for ε at this δ is ["
                (at_least(guarantee.accountant.lower, CLAIM_FIGURES)) ", " (at_most(guarantee.accountant.upper, CLAIM_FIGURES)) "]." }
            @if let Some(mu) = certificate.gdp_mu {
                p { "The release is " (at_most(mu, CLAIM_FIGURES)) "-Gaussian differentially private"
                    @if let Some(rho) = certificate.zcdp_rho { " and " (at_most(rho, CLAIM_FIGURES)) "-zCDP" } "." }
            }
            @if promise.is_none() {
                p { "This is pure differential privacy: δ is zero from ε = " (at_most(guarantee.epsilon, CLAIM_FIGURES)) " on, where the curve below leaves its
                    logarithmic axis." }
            }
            (drawn(chart.to_inline_svg()))
            (accounts(left))
        }
    }
}

fn accounts(left: &[Left]) -> Markup {
    html! {
        @for account in left {
            p { "Account " code { (account.account) } ": " (account.sentence()) }
        }
    }
}

fn noise(certificate: &Certificate, model: &Model) -> Markup {
    match &certificate.mechanism {
        Statement::NoisyGradient(statement) => noise_on_gradients(statement, model),
        Statement::NoisyStatistics(statement) => {
            let what = "One noisy sum of features times labels was released";
            let refit = html! {
                p { "Any number of further models can be fitted to the same noisy sum at no further cost: "
                    code { "halflit refit DATA --release FOLDER" } "." }
            };
            noise_on_a_sum(what, &statement.noise, statement.coordinates, statement.units, &refit)
        }
        Statement::BlockStatistics(statement) => {
            let what = "The sums of products that touch a hidden column were released once";
            noise_on_a_sum(what, &statement.noise, statement.released, statement.units, &html! {})
        }
        Statement::BeliefStatistics(statement) => {
            let what =
                "One noisy sum of public columns was released for every joint value of the sensitive columns";
            noise_on_a_sum(what, &statement.noise, statement.released, statement.units, &html! {})
        }
        _ => html! {},
    }
}

fn noise_on_gradients(statement: &noisy_gradient::Statement, model: &Model) -> Markup {
    // A measured clip norm differs from step to step: everything is then in units of it.
    let clip_norm = statement.clip_norm().unwrap_or(1.0);
    let noise_std = clip_norm * statement.least_noise_multiplier();
    let sensitivity = clip_norm * statement.change.sensitivity_per_radius();
    let everyone = clip_norm * statement.units as f64;
    let coordinates: usize = model.weights().iter().map(Vec::len).sum();
    let total = noise_std * (coordinates as f64).sqrt();
    html! {
        section {
            h2 { "The noise against the signal" }
            p { "Each of " (whole(statement.steps)) " steps released one noisy gradient sum. One unit can move such a sum by at most "
                (about(sensitivity, 3)) " (its contribution is clamped to norm " (about(clip_norm, 3))
                @if statement.clip_norm().is_none() { ", in units of the clip norm measured in that step" }
                "); the noise has standard deviation " (about(noise_std, 3)) " in every coordinate"
                @if statement.levels.len() > 1 { " in the last step, more before" } "; all "
                (whole(statement.units)) " units together could move the sum by " (about(everyone, 3)) "." }
            (noise_chart("one step", sensitivity, total, everyone))
        }
    }
}

/// A sum of so many numbers that was released once.
fn noise_on_a_sum(what: &str, noise: &SummedNoise, numbers: u64, units: u64, more: &Markup) -> Markup {
    let total = noise.noise_std * (numbers as f64).sqrt();
    let everyone = noise.sensitivity * units as f64;
    html! {
        section {
            h2 { "The noise against the signal" }
            p { (what) ", " (whole(numbers)) " numbers in all. One unit can move them by at most " (about(noise.sensitivity, 3))
                ", computed from the public columns of this table; the noise has standard deviation " (about(noise.noise_std, 3))
                " in every number; all " (whole(units)) " units together could move the sum by " (about(everyone, 3)) "." }
            (noise_chart("the release", noise.sensitivity, total, everyone))
            (more)
        }
    }
}

fn noise_chart(what: &str, sensitivity: f64, total: f64, everyone: f64) -> Markup {
    let bars = [
        ("one unit can move the sum by", sensitivity),
        ("noise, all coordinates", total),
        ("all units together", everyone),
    ];
    let chart = BarChart {
        title: format!("Noise against signal, {what}"),
        x_label: "l2 norm, one tick per power of ten".to_owned(),
        shows: Vec::new(),
        bars: bars.map(|(name, value)| Bar { name: name.to_owned(), value, error: None }).to_vec(),
    };
    html! {
        (drawn(chart.to_inline_log_svg()))
        @if everyone < total {
            p.alarm { "The noise is larger than anything the data could say: expect a useless model. More data, fewer columns or a larger
                budget are needed." }
        }
    }
}

fn bought(worth: &PublicRowsWorth) -> Markup {
    let without = if worth.is_rehearsed { "if they were private" } else { "without the public rows" };
    let bars = if worth.is_public_alone {
        [(without, Some(worth.without)), ("as trained, of them alone", Some(worth.with)), ("", None)]
    } else {
        [
            (without, Some(worth.without)),
            ("the public rows alone", worth.alone),
            ("as trained, with both", Some(worth.with)),
        ]
    };
    let bar = |(name, value): (&str, Option<f64>)| {
        value.map(|value| Bar { name: name.to_owned(), value, error: None })
    };
    let chart = BarChart {
        title: "Predicted excess of the mean loss".to_owned(),
        x_label: "above the best model".to_owned(),
        shows: Vec::new(),
        bars: bars.into_iter().filter_map(bar).filter(|bar| bar.value.is_finite()).collect(),
    };
    html! {
        section {
            h2 { "What the public rows bought" }
            p { (worth.sentence()) " Public rows are used without noise and cost no budget. The figures are predictions, made before any private cell was
                read; they are no measurements." }
            (drawn(chart.to_inline_svg()))
        }
    }
}

fn coefficients(model: &Model, certificate: &Certificate) -> Markup {
    let how_sure = match certificate.numerics {
        Numerics::NoNoiseNeeded => "No noise was added and no private row was used.",
        _ => "The weights are noisy: small ones may have the wrong sign.",
    };
    let names = model.encoding().coordinate_names();
    let classes = model.encoding().label().classes();
    let outputs = model.weights();
    let error = |output: usize, index: usize| match model.standard_errors() {
        Some(StandardErrors::Given(errors)) => errors[output][index],
        _ => None,
    };
    let mut rows: Vec<(String, f64, Option<f64>)> = Vec::new();
    for (output, weights) in outputs.iter().enumerate() {
        for (index, (name, &weight)) in names.iter().zip(weights).enumerate() {
            let name = match classes.filter(|_| outputs.len() > 1) {
                Some(classes) => format!("{} ← {name}", classes[output]),
                None => name.clone(),
            };
            rows.push((name, weight, error(output, index)));
        }
    }
    let mut largest = rows.clone();
    largest.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
    largest.truncate(PLOTTED_COEFFICIENTS);
    let meaning = match model.encoding().label() {
        LabelEncoding::Classes { values, .. } if outputs.len() == 1 => {
            format!("Positive weights speak for {}.", values.last().map_or("", String::as_str))
        }
        LabelEncoding::Classes { .. } => "A weight speaks for or against its class.".to_owned(),
        LabelEncoding::Scaled { low, high } => {
            format!("Weights are in units of half the label's range [{low}, {high}].")
        }
        LabelEncoding::Counts { .. } => "Weights act on the logarithm of the expected count.".to_owned(),
    };
    let chart = BarChart {
        title: format!("The {} largest weights", largest.len()),
        x_label: "weight".to_owned(),
        shows: Vec::new(),
        bars: largest.into_iter().map(|(name, value, error)| Bar { name, value, error }).collect(),
    };
    let has_errors = matches!(model.standard_errors(), Some(StandardErrors::Given(_)));
    html! {
        section {
            h2 { "The model" }
            p { (meaning) " A numeric column runs from −1 at its declared lower bound to 1 at its upper bound; a categorical column has one
                coordinate per declared value. " (how_sure) }
            @match model.standard_errors() {
                Some(StandardErrors::Given(_)) => p { "Bars and ± show one standard error: the noise and the labels' own scatter under the model, not the pull of the penalty
                    towards zero. A weight without one was decided by the penalty rather than by the data." },
                Some(StandardErrors::Absent { reason }) => p { "There are no standard errors: " (reason) "." },
                None => {}
            }
            (drawn(chart.to_inline_svg()))
            p.on-paper { "All weights are in " code { "model.json" } "." }
            details {
                summary { "All " (whole(rows.len() as u64)) " weights" }
                table.numbers {
                    @for (name, weight, error) in &rows {
                        tr { th { (name) } td { (format!("{weight:.4}")) }
                            @if has_errors { td { @match error { Some(error) => { "± " (format!("{error:.4}")) } None => "–" } } } }
                    }
                }
            }
        }
    }
}

pub(super) fn made(certificate: &Certificate) -> Markup {
    let numerics = match certificate.numerics {
        Numerics::ExactLattice => {
            let law = noise_words(&certificate.mechanism);
            format!(
                "Sums are exact integers, contributions are clamped in integers, and the noise is {law}: no floating point lies between a private value and its noise."
            )
        }
        Numerics::ExactCoins => {
            "Every private cell was reported truthfully or falsely by an exact coin: no floating point decides a report.".to_owned()
        }
        Numerics::Idealized => {
            "The law of the output was evaluated in floating point; the promise assumes ideal arithmetic.".to_owned()
        }
        Numerics::NoNoiseNeeded => "No private value was used.".to_owned(),
    };
    html! {
        section {
            h2 { "How it was made" }
            p { (certificate.citation) }
            @if let Statement::NoisyGradient(statement) = &certificate.mechanism {
                table {
                    tr { th { "Steps" } td { (whole(statement.steps)) } }
                    tr { th { "Batch" } td { @match statement.sampling_rate {
                        Some(rate) => { "each unit with probability " (rate.numerator) "/" (rate.denominator) }
                        None if statement.batches.is_some() => "every unit in one step only",
                        None => "every unit in every step" } } }
                    tr { th { "Centre" } td { (statement.centre.name()) } }
                    tr { th { "Clip norm" } td { @match statement.clip_norm() { Some(norm) => (about(norm, 3)), None => "measured in every step" } } }
                    @if let Some(rate) = statement.known_rate {
                        tr { th { "Batch of the known part" } td { "each unit with probability " (rate.numerator) "/" (rate.denominator) } }
                    }
                    tr { th { "Noise multiplier" } td { (about(statement.least_noise_multiplier(), 3)) } }
                    tr { th { "Descent" } td { (descent_words(statement.descent)) } }
                }
                (every_step(statement))
            }
            @if let Some(noise) = certificate.mechanism.summed_noise() {
                table {
                    tr { th { "Releases" } td { "one" } }
                    tr { th { "Sensitivity" } td { (about(noise.sensitivity, 3)) } }
                    tr { th { "Noise standard deviation" } td { (about(noise.noise_std, 3)) } }
                }
            }
            @if let Statement::RandomizedResponse(statement) = &certificate.mechanism {
                table { tr { th { "Chance of a false report" }
                    td { (about(statement.false_numerator as f64 / statement.false_denominator as f64, 4)) } } }
            }
            p { (numerics) " Random numbers: " (certificate.randomness) "." }
            p { (certificate.hyperparameters) }
            h3 { "The promise rests on" }
            ul { @for condition in &certificate.conditions { li { (condition) } } }
        }
    }
}

/// What the noise of a mechanism on the lattice is.
fn noise_words(mechanism: &Statement) -> &'static str {
    match mechanism {
        Statement::WeightedMean(mean) if mean.law() == Some(NoiseLaw::Laplace) => {
            "an exact rounded Laplace variable"
        }
        _ => "an exact rounded normal",
    }
}

/// More steps than this are shown evenly thinned: the certificate has all of them.
const MOST_STEPS_SHOWN: usize = 200;

/// mu, clip norm and noise of every step, or of every run of equal steps.
fn every_step(statement: &noisy_gradient::Statement) -> Markup {
    let mut first = 1;
    let mut lines: Vec<(String, f64, Option<f64>)> = Vec::new();
    for level in &statement.levels {
        let last = first + level.steps - 1;
        if statement.clip_norms.is_empty() {
            let steps = if level.steps == 1 { first.to_string() } else { format!("{first} to {last}") };
            lines.push((steps, level.noise_multiplier, statement.clip_norm()));
        } else {
            let norm = |step: u64| statement.clip_norms.get(step as usize - 1).copied();
            lines.extend((first..=last).map(|step| (step.to_string(), level.noise_multiplier, norm(step))));
        }
        first = last + 1;
    }
    let apart = lines.len().div_ceil(MOST_STEPS_SHOWN).max(1);
    let shown = |norm: Option<f64>| norm.map_or("–".to_owned(), |norm| about(norm, 3));
    html! {
        details {
            summary { "Every step" }
            table.numbers.many {
                tr { th { "step" } th { "mu, before sampling" } th { "clip norm" } th { "noise standard deviation" } }
                @for (steps, multiplier, norm) in lines.iter().step_by(apart) {
                    tr { th { (steps) } td { (about(statement.change.sensitivity_per_radius() / multiplier, 3)) }
                        td { (shown(*norm)) } td { (shown(norm.map(|norm| norm * multiplier))) } }
                }
            }
        }
    }
}

/// What a reader can do with the files; only a model can be applied to others.
pub(super) fn next(what: &str) -> Markup {
    html! {
        section {
            h2 { "What to do next" }
            ul {
                li { "Check the arithmetic on another machine: " code { "halflit verify certificate.json" } "." }
                @if what == MODEL {
                    li { "Apply the model to new data: " code { "halflit predict model.json new.csv" } "." }
                }
                li { "See what is left of the budget: " code { "halflit ledger show" } " beside the data." }
                li { "All files of this release may be published: the " (what) ", the certificate, this report, and "
                    @if what == MODEL { "the statistics where there are any" } @else { "the chart" } ". The training file, the ledger and anything printed by "
                    code { "halflit check" } " may not." }
            }
        }
    }
}

fn descent_words(descent: Descent) -> String {
    match descent {
        Descent::Momentum { step_size, momentum, .. } => {
            format!("step size {}, momentum {}", about(step_size, 3), about(momentum, 3))
        }
        Descent::Preconditioned { step_size, .. } => {
            format!("step size {}, preconditioned by the public rows", about(step_size, 3))
        }
        Descent::Newton { .. } => {
            "Newton steps with the curvature of the public rows, from their own fit".to_owned()
        }
        Descent::Accelerated { damping, .. } => format!("accelerated, damping {}", about(damping, 3)),
        Descent::Posterior => "posterior of the public rows and the noisy gradients".to_owned(),
    }
}

/// A chart that scrolls sideways where the page is narrower than it can be read.
pub(super) fn drawn(svg: String) -> Markup {
    html! { div.chart { (PreEscaped(svg)) } }
}

pub(super) const STYLE: &str = include_str!("report.css");
