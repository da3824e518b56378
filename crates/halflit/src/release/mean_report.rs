//! `report.html` of a mean: the same promises as for a model, with the means in place of the weights.

use super::report::{STYLE, drawn, made, protected, spent};
use super::{Certificate, Left};
use crate::figures::{about, whole};
use crate::ledger::Standing;
use crate::mechanisms::weighted_mean::{MeanFile, Variant};
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
                    h1 { "Private means of " (whole(mean.columns.len() as u64)) " columns" }
                    p { "Charged " (certificate.charged_at) ", charge " (certificate.charge) " of dataset "
                        code { (certificate.dataset.chars().take(8).collect::<String>()) } "." }
                    @if certificate.randomness == super::certificate::SEEDED_RANDOMNESS {
                        p.alarm { (certificate.randomness) }
                    }
                }
                (means(mean, chart))
                (protected(certificate, facts))
                (spent(certificate, &left))
                (made(certificate))
                footer { p { (certificate.software) ". The certificate beside this page is what counts; this page explains it." } }
            }
        }
    }
    .into_string()
}

fn means(mean: &MeanFile, chart: &BarChart) -> Markup {
    let how = match mean.variant {
        Variant::PublicOnly => {
            "The public rows alone: private rows would have added more noise than knowledge."
        }
        Variant::Gaussian => "Every row counts the same.",
        Variant::Weighted => {
            "Private rows count as much as makes the expected squared error smallest, public rows the rest."
        }
        Variant::CentredWeighted => {
            "Private rows are clipped to a ball around the public mean, which needs much less noise, and weighed against the public rows."
        }
        Variant::Exact => "Every chosen column is public: the means are exact.",
    };
    html! {
        section {
            h2 { "The means" }
            p { (how) " " (whole(mean.private_units)) " private units, " (whole(mean.public_rows)) " public rows." }
            (drawn(chart.to_inline_svg()))
            table.numbers {
                tr { th { "column" } th { "mean" } th { "noise (standard deviation)" } th { "standard error" } th { "bounds" } }
                @for column in &mean.columns {
                    tr {
                        th { (column.name) }
                        td { (about(column.mean, 4)) }
                        td { (about(column.noise_deviation, 4)) }
                        td { @match column.standard_error { Some(error) => { (about(error, 4)) } None => "unknown" } }
                        td { (about(column.bounds.0, 4)) " to " (about(column.bounds.1, 4)) }
                    }
                }
            }
            @if mean.predicted_clipping_bias > 0.0 {
                p { "Clipping may pull the means towards the public mean, by about " (about(mean.predicted_clipping_bias, 4))
                    " together (columns mapped to −1 … 1), as far as the public rows tell. The standard errors leave that out." }
            }
        }
    }
}
