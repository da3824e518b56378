//! The public features that models are fitted on: those of the private rows and the public rows.

use super::lattice::{LabelSteps, rows_sharing_a_weight};
use super::statistics::LabelColumn;
use crate::digest::sha256;
use crate::mechanisms::MechanismError;
use crate::problem::{FEATURE_UNIT, Problem, add_row};
use halflit_convex::solver::{self, ProblemSpec};
use halflit_convex::{Domain, DomainError, Interval, Loss, LossSpec, Rows};
use halflit_privacy::Unit;
use halflit_table::{PublicFeatures, PublicView, Units};

/// Features, weights and constants of a problem whose label alone is hidden. Every field is public.
#[derive(Clone, Debug)]
pub(crate) struct Design {
    pub loss: Loss,
    pub label: LabelColumn,
    pub labels: LabelSteps,
    /// The private rows, then the public ones.
    pub rows: Rows,
    /// The labels of the public rows.
    pub public_labels: Vec<f64>,
    /// One weight per row; none if every weight is 1.
    pub weights: Option<Vec<f64>>,
    pub total_weight: f64,
    pub row_norm: f64,
    pub radius: Option<f64>,
    pub units_are_rows: bool,
    /// sum_i omega_i x_i over all rows.
    pub feature_sums: Vec<f64>,
}

/// The private rows' features and units, where the relation makes them public and the label sensitive.
pub(crate) fn public_parts<'a>(view: &PublicView<'a>) -> Result<(&'a Rows, &'a Units), MechanismError> {
    match (&view.features, view.units, view.labels) {
        (PublicFeatures::All(rows), Some(units), None) => Ok((rows, units)),
        _ => Err(MechanismError::NeedsHiddenLabelOnly),
    }
}

/// How the labels of a loss enter, if they enter linearly.
pub(crate) fn label_steps(loss: Loss) -> Result<LabelSteps, MechanismError> {
    LabelSteps::of(loss.label_domain())
        .filter(|_| loss.is_canonical())
        .ok_or(MechanismError::NotCanonical { loss: loss.name() })
}

impl Design {
    /// Lays out the public features, for the problem's own loss and labels.
    pub fn new(problem: &Problem, steps_per_weight: u64) -> Result<Self, MechanismError> {
        let view = problem.encoded().public_view()?;
        let (private, units) = public_parts(&view)?;
        let (public, public_labels) = problem.public_data();
        let rows = private.concat(public)?;
        let design =
            Design::on_rows(problem, rows, public_labels.to_vec(), units, problem.loss(), steps_per_weight)?;
        Ok(Design { row_norm: problem.row_norm_bound(), radius: problem.radius(), ..design })
    }

    /// A design on any public numbers of the rows (private rows first, then the public ones, whose labels are given) for any canonical loss. Private rows get exactly the weights that they have in an
    /// integer sum with this many steps per unit of weight: floor(M omega_i) / M.
    pub fn on_rows(
        problem: &Problem,
        rows: Rows,
        public_labels: Vec<f64>,
        units: &Units,
        loss: Loss,
        steps_per_weight: u64,
    ) -> Result<Self, MechanismError> {
        let weights = rows_sharing_a_weight(problem.unit_weighting(), units).map(|one_in| {
            let weight = |one_in: &u64| (steps_per_weight / one_in) as f64 / steps_per_weight as f64;
            let mut weights: Vec<f64> = one_in.iter().map(weight).collect();
            weights.resize(rows.len(), problem.public_row_weight());
            weights
        });
        let longest = ((rows.max_squared_norm() + 1) as f64).sqrt() * FEATURE_UNIT;
        let mut design = Design {
            loss,
            label: LabelColumn::of(problem),
            labels: label_steps(loss)?,
            rows,
            public_labels,
            weights,
            total_weight: problem.total_weight(),
            // Rounding of the root and of the product is far below the unit that was added.
            row_norm: longest * (1.0 + 1e-12),
            radius: None,
            units_are_rows: *problem.relation().unit() == Unit::Row,
            feature_sums: Vec::new(),
        };
        design.feature_sums = design.weighted_sum(|_| 1.0);
        Ok(design)
    }

    /// How many of the rows are private; they come first.
    pub fn private_rows(&self) -> usize {
        self.rows.len() - self.public_labels.len()
    }

    /// sum_i omega_i value(i) x_i.
    pub fn weighted_sum(&self, value: impl Fn(usize) -> f64) -> Vec<f64> {
        let mut sum = vec![0.0; self.rows.width()];
        for row in 0..self.rows.len() {
            add_row(&self.rows, row, self.weight(row) * value(row), &mut sum);
        }
        sum
    }

    /// sum_i omega_i x_i t(y_i)^T with the public rows' labels and one label statistic for every private row and output; output after output.
    pub fn sums_with(&self, private: f64) -> Vec<f64> {
        let of_output = |output: usize| {
            self.weighted_sum(|row| match row.checked_sub(self.private_rows()) {
                None => private,
                Some(public) => self.labels.statistic(self.public_labels[public], output),
            })
        };
        (0..self.loss.outputs()).flat_map(of_output).collect()
    }

    /// sum_i omega_i x_i x_i^T, row-major.
    pub fn moments(&self) -> Result<Vec<f64>, MechanismError> {
        let width = self.rows.width();
        // The Hessian of the squared loss is the mean of x x^T.
        let squared = Loss::new(LossSpec::Squared { labels: Interval { low: -1.0, high: 1.0 } })?;
        let problem = solver::Problem::new(self.spec(squared, 1.0, None, Domain::whole(width, None)?))?;
        let mut moments = problem.second_order(&vec![0.0; width]).hessian;
        moments.iter_mut().for_each(|entry| *entry *= self.total_weight);
        Ok(moments)
    }

    pub fn weight(&self, row: usize) -> f64 {
        self.weights.as_ref().map_or(1.0, |weights| weights[row])
    }

    /// Number of weights of a model.
    pub fn size(&self) -> usize {
        self.rows.width() * self.loss.outputs()
    }

    /// The average of A on all rows, with what else an objective may have.
    pub fn spec<'a>(
        &'a self,
        loss: Loss,
        regularization: f64,
        linear: Option<&'a [f64]>,
        domain: Domain,
    ) -> ProblemSpec<'a> {
        ProblemSpec {
            rows: &self.rows,
            row_norm: self.row_norm,
            labels: None,
            row_weights: self.weights.as_deref(),
            total_weight: self.total_weight,
            loss,
            regularization,
            anchor: None,
            linear,
            domain,
        }
    }

    /// Where the weights live.
    pub fn domain(&self) -> Result<Domain, DomainError> {
        ball_or_whole(self.size(), self.radius)
    }

    /// A digest of the features: squared norms of all rows in order and sums of all columns.
    pub fn digest(&self) -> String {
        let mut bytes: Vec<u8> = Vec::with_capacity(8 * (self.rows.len() + self.rows.width()));
        for norm in self.rows.squared_norms() {
            bytes.extend(norm.to_le_bytes());
        }
        let columns = Design { weights: None, ..self.clone() }.weighted_sum(|_| 1.0);
        for sum in columns {
            // Whole multiples of 2^-14: exact below 2^39 in magnitude, so the same on every machine.
            bytes.extend(sum.to_le_bytes());
        }
        sha256(&bytes)
    }
}

/// The ball of a declared radius, or everything.
pub(crate) fn ball_or_whole(size: usize, radius: Option<f64>) -> Result<Domain, DomainError> {
    match radius {
        Some(radius) => Domain::centred_ball(size, radius),
        None => Domain::whole(size, None),
    }
}
