//! The table unsealed and laid out for the kernel: what is summed under the clamp, what is known, what is public.

use super::Split;
use super::parts::Centre;
use crate::problem::{Problem, UnitWeighting};
use halflit_convex::{DenseRows, FEATURE_SCALE, LabelDomain, Loss, Rows, RowsError, SparseRows};
use halflit_table::{ColumnDomain, Encoding, PublicFeatures, Units, Unsealed};
use std::borrow::Cow;

/// Everything the passes of one run read.
pub(super) struct Layout<'a> {
    pub loss: Loss,
    pub split: Split,
    pub hidden: Part<'a>,
    /// Where each unit's rows start in the hidden part; none if every row is a unit.
    pub hidden_offsets: Option<Vec<usize>>,
    /// The public features of the private rows, in the same order; none if nothing is known.
    pub known: Option<Part<'a>>,
    /// Where each unit's rows start in the known part; none if every row is a unit.
    pub known_offsets: Option<Vec<usize>>,
    pub rows_per_unit: u64,
    /// Labels that stand for a sensitive label in an imputed row.
    pub imputed_labels: Vec<f64>,
}

/// Rows with their labels and weights.
pub(super) struct Part<'a> {
    pub rows: Cow<'a, Rows>,
    pub labels: Cow<'a, [f64]>,
    /// One weight per row, or 1 for every row.
    pub weights: Option<Vec<f64>>,
}

impl<'a> Layout<'a> {
    /// Opens the sealed cells: the ledger has been charged.
    pub fn open(
        problem: &'a Problem,
        token: &Unsealed,
        split: Split,
        centre: Centre,
    ) -> Result<Self, RowsError> {
        let encoded = problem.encoded();
        let rows = encoded.private_rows().open(token);
        let labels = encoded.private_labels().open(token).as_slice();
        let offsets = match encoded.private_units().open(token) {
            Units::Rows(_) => None,
            Units::Users { offsets } => Some(offsets.clone()),
        };
        let weights = offsets.as_deref().map(|offsets| row_weights(problem.unit_weighting(), offsets));

        let plain =
            Part { rows: Cow::Borrowed(rows), labels: Cow::Borrowed(labels), weights: weights.clone() };
        let rows_per_unit = problem.rows_per_unit();
        let mut layout = Layout {
            loss: problem.loss(),
            split,
            hidden: plain,
            hidden_offsets: offsets.clone(),
            known: None,
            known_offsets: offsets.clone(),
            rows_per_unit,
            imputed_labels: typical_labels(problem.public_data().1, problem.loss().label_domain()),
        };
        match split {
            // A common centre is subtracted unit by unit.
            Split::Nothing if centre.is_common() => {
                layout.hidden_offsets = Some(offsets.unwrap_or_else(|| (0..=rows.len()).collect()));
            }
            Split::Nothing => {}
            Split::AllFeatures => {
                layout.known = Some(Part { rows: Cow::Borrowed(rows), labels: Cow::Borrowed(&[]), weights })
            }
            Split::SomeFeatures { .. } | Split::Imputed { .. } => {
                let public_rows = match encoded.public_view()?.features {
                    PublicFeatures::All(rows) => rows.clone(),
                    PublicFeatures::Some(rows) => rows,
                    PublicFeatures::None => Rows::Sparse(SparseRows::new(rows.width())?),
                };
                let public_rows = match split {
                    Split::Imputed { .. } => filled_in(problem, public_rows)?,
                    _ => public_rows,
                };
                layout.hidden = Part {
                    rows: Cow::Owned(interleaved(rows, &public_rows)?),
                    labels: Cow::Owned(twice(labels)),
                    weights: weights.as_deref().map(twice),
                };
                let units = offsets.unwrap_or_else(|| (0..=rows.len()).collect());
                layout.hidden_offsets = Some(units.iter().map(|start| 2 * start).collect());
                layout.rows_per_unit = 2 * rows_per_unit;
                layout.known =
                    Some(Part { rows: Cow::Owned(public_rows), labels: Cow::Borrowed(labels), weights });
            }
        }
        Ok(layout)
    }

    /// Number of units in this table.
    pub fn units(&self) -> usize {
        match &self.hidden_offsets {
            Some(offsets) => offsets.len() - 1,
            None => self.hidden.rows.len(),
        }
    }

    /// The known part's rows of a batch of units.
    pub fn known_rows_of(&self, units: &[u32]) -> Vec<u32> {
        match &self.known_offsets {
            None => units.to_vec(),
            Some(offsets) => units
                .iter()
                .flat_map(|&unit| offsets[unit as usize] as u32..offsets[unit as usize + 1] as u32)
                .collect(),
        }
    }
}

/// At most this many labels stand for a sensitive one.
const TYPICAL_LABELS: usize = 16;

/// Quantiles of the public rows' labels, or of the label's domain if there are none: every label there is, if there are few.
fn typical_labels(public: &[f64], domain: LabelDomain) -> Vec<f64> {
    let mut sorted = match domain {
        _ if !public.is_empty() => public.to_vec(),
        LabelDomain::Binary => vec![0.0, 1.0],
        LabelDomain::Signs => vec![-1.0, 1.0],
        LabelDomain::Classes(classes) => (0..classes).map(|class| class as f64).collect(),
        LabelDomain::Within(labels) => {
            let place = |part: usize| (part as f64 + 0.5) / TYPICAL_LABELS as f64;
            (0..TYPICAL_LABELS).map(|part| labels.low + place(part) * (labels.high - labels.low)).collect()
        }
        LabelDomain::None => vec![0.0],
    };
    sorted.sort_by(f64::total_cmp);
    if sorted.len() <= TYPICAL_LABELS {
        return sorted;
    }
    (0..TYPICAL_LABELS).map(|part| sorted[(2 * part + 1) * sorted.len() / (2 * TYPICAL_LABELS)]).collect()
}

/// The public parts of the private rows with a typical value in every sensitive coordinate: the public rows' mean, or the middle of the domain.
fn filled_in(problem: &Problem, public_parts: Rows) -> Result<Rows, RowsError> {
    let sensitive = problem.encoding().sensitive_coordinates();
    if !sensitive.contains(&true) {
        return Ok(public_parts);
    }
    let (examples, _) = problem.public_data();
    let means = if examples.is_empty() { middles(problem.encoding()) } else { column_means(examples)? };
    let mut filled = DenseRows::with_capacity(public_parts.width(), public_parts.len())?;
    for index in 0..public_parts.len() {
        let mut row = public_parts.dense_row(index)?;
        for ((value, mean), sensitive) in row.iter_mut().zip(&means).zip(&sensitive) {
            if *sensitive {
                *value = mean.round() as i16;
            }
        }
        filled.push_row(&row)?;
    }
    Ok(Rows::Dense(filled))
}

fn column_means(rows: &Rows) -> Result<Vec<f64>, RowsError> {
    let mut means = vec![0.0; rows.width()];
    for index in 0..rows.len() {
        for (mean, value) in means.iter_mut().zip(rows.dense_row(index)?) {
            *mean += f64::from(value) / rows.len() as f64;
        }
    }
    Ok(means)
}

/// Every number in the middle of its bounds, which is zero, and every value of a category equally likely.
fn middles(encoding: &Encoding) -> Vec<f64> {
    let mut middles = vec![0.0; encoding.width()];
    for column in encoding.columns() {
        if let ColumnDomain::Values(values) = column.domain() {
            middles[column.coordinates()].fill(f64::from(FEATURE_SCALE) / values.len() as f64);
        }
    }
    middles
}

/// What each row counts inside its unit.
fn row_weights(weighting: UnitWeighting, offsets: &[usize]) -> Vec<f64> {
    offsets
        .windows(2)
        .flat_map(|unit| {
            let rows = unit[1] - unit[0];
            let weight = match weighting {
                UnitWeighting::SingleRow => 1.0,
                UnitWeighting::Mean => 1.0 / rows as f64,
                UnitWeighting::Share { rows_per_user } => 1.0 / rows_per_user as f64,
            };
            std::iter::repeat_n(weight, rows)
        })
        .collect()
}

/// Row 2i is row i of `rows`, row 2i + 1 its public part: together they form a unit's gradient and its centre.
fn interleaved(rows: &Rows, public: &Rows) -> Result<Rows, RowsError> {
    match (rows, public) {
        (Rows::Sparse(rows), Rows::Sparse(public)) => {
            let entries = rows.entries() + public.entries();
            let mut both = SparseRows::with_capacity(rows.width(), 2 * rows.len(), entries)?;
            let (mut columns, mut values) = (Vec::new(), Vec::new());
            for index in 0..rows.len() {
                for row in [rows.row(index), public.row(index)] {
                    columns.clear();
                    values.clear();
                    for (column, value) in row.iter() {
                        columns.push(column as u32);
                        values.push(value);
                    }
                    both.push_row(&columns, &values)?;
                }
            }
            Ok(Rows::Sparse(both))
        }
        _ => {
            let mut both = DenseRows::with_capacity(rows.width(), 2 * rows.len())?;
            for index in 0..rows.len() {
                both.push_row(&rows.dense_row(index)?)?;
                both.push_row(&public.dense_row(index)?)?;
            }
            Ok(Rows::Dense(both))
        }
    }
}

/// Every entry two times in a row.
fn twice(values: &[f64]) -> Vec<f64> {
    values.iter().flat_map(|&value| [value, value]).collect()
}
