//! The files of a mean: `mean.json`, its certificate, a chart and a report.

use super::{Design, MeanOutput, MeanPlan, NoiseLaw, Variant, choices};
use crate::ledger::Standing;
use crate::mechanisms::Statement;
use crate::plot::{Bar, BarChart};
use crate::release::{Certificate, ReleaseError, Secrets, Subject, mean_report};
use serde::{Deserialize, Serialize};

/// Format of `mean.json`; grows when its meaning changes.
pub const MEAN_FORMAT: u32 = 1;

/// What may be published.
#[derive(Clone, Debug)]
pub struct MeanRelease {
    /// The means.
    pub mean: MeanFile,
    /// Their certificate.
    pub certificate: Certificate,
    /// `mean.json`.
    pub mean_json: String,
    /// `certificate.json`.
    pub certificate_json: String,
    /// `mean.svg`.
    pub chart_svg: String,
    /// `report.html`.
    pub report_html: String,
}

/// The content of `mean.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeanFile {
    /// The format; [`MEAN_FORMAT`].
    pub halflit_mean: u32,
    /// What wrote it.
    pub software: String,
    /// The estimator.
    pub variant: Variant,
    /// The law of the noise; none if no private cell was used.
    pub noise: Option<NoiseLaw>,
    /// Number of private units, a public constant.
    pub private_units: u64,
    /// Number of public rows.
    pub public_rows: u64,
    /// How far clipping may pull the means of the sensitive columns together (l2, columns mapped to [-1, 1]), predicted from public rows. Not part
    /// of the standard errors.
    pub predicted_clipping_bias: f64,
    /// One estimate per column.
    pub columns: Vec<ColumnEstimate>,
}

/// The estimated mean of a column, in its own units.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ColumnEstimate {
    /// The column.
    pub name: String,
    /// The declared bounds.
    pub bounds: (f64, f64),
    /// The mean. Noise may carry it past the bounds: it is not cut, so that averages of several releases stay unbiased.
    pub mean: f64,
    /// Standard deviation of the privacy noise in it: exactly known, zero for public columns.
    pub noise_deviation: f64,
    /// Standard error as an estimate for the population that public and private rows come from, noise included; none where nothing public tells the
    /// spread. For users it is too large: it takes a user's mean to vary as much as a row.
    pub standard_error: Option<f64>,
}

impl MeanOutput {
    /// Puts the files together. `standings` are the accounts after the charge, for the report.
    ///
    /// # Errors
    /// None in practice for the output of a run.
    pub fn release(self, standings: &[Standing]) -> Result<MeanRelease, ReleaseError> {
        let MeanOutput { plan, receipt, means, is_seeded } = self;
        let facts = plan.values.facts();
        let design = &plan.design;
        let mean = MeanFile {
            halflit_mean: MEAN_FORMAT,
            software: crate::SOFTWARE.to_owned(),
            variant: design.variant,
            noise: design.noise.as_ref().map(|(law, _)| *law),
            private_units: facts.private_units,
            public_rows: facts.public_rows,
            predicted_clipping_bias: design.predicted_clipping_bias,
            columns: columns(&plan, design, &means),
        };
        let mean_json = serde_json::to_string_pretty(&mean)? + "\n";
        let certificate = Subject {
            facts,
            secrets: Secrets::of_values(&plan.values),
            statement: Statement::WeightedMean(plan.statement()),
            budget: plan.budget,
            epsilon: plan.epsilon,
            choices: choices(facts.public_rows),
            receipt,
            is_seeded,
            file: mean_json.as_bytes(),
            statistics: None,
        }
        .certify()?;
        let certificate_json = serde_json::to_string_pretty(&certificate)? + "\n";
        let chart = chart(&mean);
        let report_html = mean_report::render(&certificate, &mean, &chart, facts, standings);
        Ok(MeanRelease {
            certificate,
            mean_json,
            certificate_json,
            chart_svg: chart.to_svg(),
            report_html,
            mean,
        })
    }
}

fn columns(plan: &MeanPlan, design: &Design, means: &[f64]) -> Vec<ColumnEstimate> {
    let mut sensitive = 0;
    let estimate = |(column, &mean): (&halflit_table::ValueColumn, &f64)| {
        let (noise, error) = if column.is_sensitive() {
            sensitive += 1;
            (design.noise_deviation(), design.standard_error(sensitive - 1))
        } else {
            (0.0, None)
        };
        ColumnEstimate {
            name: column.name().to_owned(),
            bounds: column.bounds(),
            mean: column.decode(mean),
            noise_deviation: column.decode_length(noise),
            standard_error: error.map(|error| column.decode_length(error)),
        }
    };
    plan.values.columns().iter().zip(means).map(estimate).collect()
}

/// Where each mean lies between its bounds; the whisker is the standard error, or the noise where that is all there is to say.
fn chart(mean: &MeanFile) -> BarChart {
    let bar = |column: &ColumnEstimate| {
        let (low, high) = column.bounds;
        // Halves first: the difference may overflow.
        let half = high / 2.0 - low / 2.0;
        let share = |length: f64| length / half / 2.0;
        let value = (column.mean / 2.0 - low / 2.0) / half;
        let error = Some(share(column.standard_error.unwrap_or(column.noise_deviation)));
        Bar { name: column.name.clone(), value, error }
    };
    let whiskers = match mean.columns.iter().any(|column| column.standard_error.is_some()) {
        true => "standard error",
        false => "noise",
    };
    BarChart {
        title: "Means between their declared bounds".to_owned(),
        x_label: format!("0: lower bound, 1: upper bound; whiskers: {whiskers}"),
        shows: vec![1.0],
        bars: mean.columns.iter().map(bar).collect(),
    }
}
