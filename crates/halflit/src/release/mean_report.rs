//! `report.html` of a mean: the same promises as for a model, with the means in place of the weights.

use super::report::{STYLE, drawn, made, next, protected, spent};
use super::{Certificate, Left};
use crate::figures::{about, whole};
use crate::ledger::Standing;
use crate::mechanisms::Statement;
use crate::mechanisms::weighted_mean::{self, MeanFile, NoiseLaw, Variant};
use crate::plot::BarChart;
use halflit_table::PublicFacts;
use maud::{DOCTYPE, Markup, PreEscaped, html};

/// The page: one file, no scripts, nothing fetched.
pub(crate) fn render(
    certificate: &Certificate,
    mean: &MeanFile,
    chart: &BarChart,
    facts: &PublicFacts,
    standings: &[Standing],
) -> String {
    let left: Vec<Left> =
        standings.iter().filter(|standing| standing.account.is_open).map(Left::of).collect();
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "halflit release report" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    p.kicker { "halflit release report" }
                    h1 { @match &mean.columns[..] {
                        [column] => { "The private mean of " (column.name) }
                        columns => { "Private means of " (whole(columns.len() as u64)) " columns" } } }
                    p { "Charged " (certificate.charged_at) ", charge " (certificate.charge) " of dataset "
                        code { (certificate.dataset.chars().take(8).collect::<String>()) } "." }
                    @if certificate.randomness == super::certificate::SEEDED_RANDOMNESS {
                        p.alarm { (certificate.randomness) }
                    }
                }
                (means(certificate, mean, chart))
                (protected(certificate, facts))
                (spent(certificate, &left))
                (made(certificate))
                (next("means"))
                footer { p { (certificate.software) ". The certificate beside this page is what counts; this page explains it." } }
            }
        }
    }
    .into_string()
}

/// How the means were made, in a sentence or two.
fn how(certificate: &Certificate, mean: &MeanFile) -> String {
    let said = match mean.variant {
        Variant::PublicOnly => "The public rows alone: no private row was used.",
        Variant::Gaussian => "Every row counts the same.",
        Variant::Weighted if mean.public_rows == 0 => {
            "Every unit counts as much as makes the expected squared error smallest."
        }
        Variant::Weighted => {
            "Private rows count as much as makes the expected squared error smallest, public rows the rest."
        }
        Variant::CentredWeighted => {
            "Private rows are clipped to a ball around the public mean and weighed against the public rows."
        }
        Variant::Exact => "Every chosen column is public: the means are exact.",
    };
    match &certificate.mechanism {
        Statement::WeightedMean(weighted_mean::Statement {
            noise: Some(noise), sensitive_columns, ..
        }) if mean.variant == Variant::CentredWeighted => {
            let columns = sensitive_columns.len() as f64;
            let (norm, whole) = match noise.law {
                NoiseLaw::Gaussian => ("l2", columns.sqrt()),
                NoiseLaw::Laplace => ("l1", columns),
            };
            format!(
                "{said} The noise is in proportion to the ball's radius: {} instead of the {} of the declared bounds ({norm} norm, columns mapped to −1 … 1).",
                about(noise.clip_norm, 3),
                about(whole, 3)
            )
        }
        _ => said.to_owned(),
    }
}

fn means(certificate: &Certificate, mean: &MeanFile, chart: &BarChart) -> Markup {
    let is_exact = |column: &str| match &certificate.mechanism {
        Statement::WeightedMean(statement) => statement.is_exact(column),
        _ => false,
    };
    html! {
        section {
            h2 { "The means" }
            p { (how(certificate, mean)) " " (whole(mean.private_units)) " private units, " (whole(mean.public_rows)) " public rows." }
            (drawn(chart.to_inline_svg()))
            div.scroll { table.numbers.many {
                tr { th { "column" } th { "mean" } th { "noise" } th { "standard error" } th { "bounds" } }
                @for column in &mean.columns {
                    tr {
                        th { (column.name) }
                        td { (about(column.mean, 4)) }
                        td { (about(column.noise_deviation, 4)) }
                        td { @match column.standard_error {
                            Some(error) => { (about(error, 4)) }
                            None if is_exact(&column.name) => "exact",
                            None => "unknown" } }
                        td { (about(column.bounds.0, 4)) " to " (about(column.bounds.1, 4)) }
                    }
                }
            } }
            p { "Noise: the standard deviation of the privacy noise; the standard error adds the scatter of the rows, where public rows tell it." }
            @if mean.predicted_clipping_bias > 0.0 {
                p { "Clipping may pull the means towards the public mean, by about " (about(mean.predicted_clipping_bias, 4))
                    " together (columns mapped to −1 … 1), as far as the public rows tell. The standard errors leave that out." }
            }
        }
    }
}
