//! What is public about a row, as numbers that a belief about its sensitive value can follow from. No privacy in here: every cell is public.
//!
//! A row's numbers are its public features, a constant, and, if the label is public, the label and the derivative of the loss at the model that knows the public columns
//! alone: what the public columns leave unexplained is what a sensitive value may explain.

use crate::mechanisms::{MechanismError, public_rows};
use crate::problem::{FEATURE_UNIT, Problem, scores};
use halflit_convex::{DenseRows, FEATURE_SCALE, LabelDomain, Loss, MAX_FEATURE, Rows, SparseRows};
use halflit_table::PublicFeatures;
use std::borrow::Cow;

/// The numbers of all rows.
#[derive(Clone, Debug)]
pub(super) struct BeliefFeatures {
    /// Those of the private rows.
    pub private: Rows,
    /// Those of the public rows.
    pub public: Rows,
}

impl BeliefFeatures {
    /// Reads the public view and the public rows.
    ///
    /// # Errors
    /// Every feature is sensitive.
    pub fn of(problem: &Problem) -> Result<Self, MechanismError> {
        let view = problem.encoded().public_view()?;
        let private = match view.features {
            PublicFeatures::All(rows) => Cow::Borrowed(rows),
            PublicFeatures::Some(rows) => Cow::Owned(rows),
            PublicFeatures::None => return Err(MechanismError::NoPublicFeature),
        };
        let encoding = problem.encoding();
        let is_sensitive = encoding.sensitive_coordinates();
        let known: Vec<usize> = (0..encoding.width()).filter(|&at| !is_sensitive[at]).collect();
        let constant = encoding.intercept().is_none();
        let (public, public_labels) = problem.public_data();
        let private = kept(&private, &known)?;
        let public = kept(public, &known)?;
        let constant: &[i16] = if constant { &[FEATURE_SCALE] } else { &[] };
        let Some(private_labels) = view.labels else {
            let nothing = |_: usize| constant.to_vec();
            return Ok(BeliefFeatures {
                private: extended(&private, constant.len(), nothing)?,
                public: extended(&public, constant.len(), nothing)?,
            });
        };
        let loss = problem.loss();
        let labels = [private_labels, public_labels].concat();
        let weights = known_model(problem, &private.concat(&public)?, &labels)?;
        let about = |rows: &Rows, labels: &[f64], row: usize| {
            [&about_label(loss, &scores(rows, row, &weights), labels[row]), constant].concat()
        };
        let further = about_label(loss, &vec![0.0; loss.outputs()], 0.0).len() + constant.len();
        Ok(BeliefFeatures {
            private: extended(&private, further, |row| about(&private, private_labels, row))?,
            public: extended(&public, further, |row| about(&public, public_labels, row))?,
        })
    }
}

/// The model of the public columns alone.
fn known_model(problem: &Problem, rows: &Rows, labels: &[f64]) -> Result<Vec<f64>, MechanismError> {
    let (loss, radius) = (problem.loss(), problem.radius());
    let dimension = rows.width() * loss.outputs();
    let penalty = public_rows::default_penalty(loss, dimension, rows.len().max(1) as f64, radius);
    public_rows::fit(loss, rows, labels, problem.row_norm_bound(), penalty, radius)
}

/// The label, and the derivative of the loss at it.
fn about_label(loss: Loss, scores: &[f64], label: f64) -> Vec<i16> {
    let mut numbers: Vec<f64> = match loss.label_domain() {
        LabelDomain::Binary => vec![label],
        LabelDomain::Signs => vec![0.5 * (label + 1.0)],
        LabelDomain::Classes(classes) => {
            (0..classes).map(|class| f64::from(u8::from(label == class as f64))).collect()
        }
        LabelDomain::Within(labels) => vec![label / labels.magnitude().max(f64::MIN_POSITIVE)],
        LabelDomain::None => Vec::new(),
    };
    let mut derivative = vec![0.0; loss.outputs()];
    loss.derivative(scores, label, &mut derivative);
    let bound = loss.derivative_bound(0.0).max(f64::MIN_POSITIVE);
    numbers.extend(derivative.iter().map(|slope| slope / bound));
    numbers.into_iter().map(on_lattice).collect()
}

/// The nearest feature; what is not a number becomes zero.
fn on_lattice(number: f64) -> i16 {
    let most = f64::from(MAX_FEATURE);
    (number / FEATURE_UNIT).round().clamp(-most, most) as i16
}

/// The rows with these coordinates only.
fn kept(rows: &Rows, known: &[usize]) -> Result<Rows, MechanismError> {
    Ok(match rows {
        Rows::Dense(rows) => {
            let mut kept = DenseRows::with_capacity(known.len(), rows.len())?;
            for row in 0..rows.len() {
                let cells = rows.row(row);
                kept.push_row(&known.iter().map(|&at| cells[at]).collect::<Vec<_>>())?;
            }
            Rows::Dense(kept)
        }
        Rows::Sparse(rows) => {
            let place: Vec<Option<u32>> = {
                let mut place = vec![None; rows.width()];
                known.iter().enumerate().for_each(|(new, &old)| place[old] = Some(new as u32));
                place
            };
            let mut kept = SparseRows::with_capacity(known.len(), rows.len(), rows.entries())?;
            for row in 0..rows.len() {
                let cells = rows.row(row);
                let (columns, values): (Vec<u32>, Vec<i16>) =
                    cells.iter().filter_map(|(column, q)| place[column].map(|new| (new, q))).unzip();
                kept.push_row(&columns, &values)?;
            }
            Rows::Sparse(kept)
        }
    })
}

/// The rows with so many further numbers at their ends.
fn extended(rows: &Rows, further: usize, end: impl Fn(usize) -> Vec<i16>) -> Result<Rows, MechanismError> {
    let width = rows.width() + further;
    Ok(match rows {
        Rows::Dense(rows) => {
            let mut extended = DenseRows::with_capacity(width, rows.len())?;
            for row in 0..rows.len() {
                extended.push_row(&[rows.row(row), &end(row)].concat())?;
            }
            Rows::Dense(extended)
        }
        Rows::Sparse(rows) => {
            let entries = rows.entries() + rows.len() * further;
            let mut extended = SparseRows::with_capacity(width, rows.len(), entries)?;
            for row in 0..rows.len() {
                let (mut columns, mut values): (Vec<u32>, Vec<i16>) =
                    rows.row(row).iter().map(|(column, q)| (column as u32, q)).unzip();
                for (place, q) in end(row).into_iter().enumerate().filter(|(_, q)| *q != 0) {
                    columns.push((rows.width() + place) as u32);
                    values.push(q);
                }
                extended.push_row(&columns, &values)?;
            }
            Rows::Sparse(extended)
        }
    })
}
