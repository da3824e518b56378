//! The gradient of a problem's objective, put together from a private mean, the public rows and the penalty.

use crate::mechanisms::MechanismError;
use crate::mechanisms::believed::Believed;
use crate::mechanisms::sensitive_domain::SensitiveDomain;
use crate::problem::Problem;
use halflit_convex::kernel::{BeliefQuery, BeliefRows, Beliefs, SensitiveValues};
use halflit_convex::{Loss, Rows};
use halflit_table::PublicFeatures;
use std::borrow::Cow;

/// Everything about a problem that may be known: the public features of private rows, public rows, constants.
pub(super) struct PublicParts<'a> {
    rows: Cow<'a, Rows>,
    labels: &'a [f64],
    public: (&'a Rows, &'a [f64]),
    nothing_hidden: SensitiveValues,
    public_weight: f64,
    total_weight: f64,
}

impl<'a> PublicParts<'a> {
    pub fn of(problem: &'a Problem) -> Result<Self, MechanismError> {
        let view = problem.encoded().public_view()?;
        let rows = match view.features {
            PublicFeatures::All(rows) => Cow::Borrowed(rows),
            PublicFeatures::Some(rows) => Cow::Owned(rows),
            PublicFeatures::None => return Err(MechanismError::NoPublicFeature),
        };
        Ok(PublicParts {
            rows,
            labels: view.labels.unwrap_or(&[]),
            public: problem.public_data(),
            nothing_hidden: SensitiveValues::new(vec![Vec::new()], None)?,
            public_weight: problem.public_row_weight(),
            total_weight: problem.total_weight(),
        })
    }

    /// Number of private rows.
    pub fn private_rows(&self) -> usize {
        self.rows.len()
    }

    /// The largest norm of a private row, whatever its value, in real units.
    pub fn row_norm(&self, domain: &SensitiveDomain) -> f64 {
        let square = self.rows.max_squared_norm() as f64 + domain.values().max_squared_norm();
        square.sqrt() * crate::problem::FEATURE_UNIT
    }

    /// The private rows as far as they are public, for gradient queries. Looks at all rows: once for many queries.
    pub fn believed_rows<'b>(
        &'b self,
        domain: &'b SensitiveDomain,
    ) -> Result<BeliefRows<'b>, MechanismError> {
        Ok(BeliefRows::new(&self.rows, self.labels, domain.values())?)
    }

    /// The minimizer of the objective expected under the beliefs.
    pub fn minimizer(
        &self,
        domain: &SensitiveDomain,
        beliefs: &Beliefs,
        loss: Loss,
        (lambda, radius): (f64, Option<f64>),
        start: Vec<f64>,
        least_decrease: f64,
    ) -> Vec<f64> {
        let rows = 0..self.private_rows();
        let beliefs: Vec<f32> =
            rows.flat_map(|row| beliefs.probabilities(row)).map(|share| share as f32).collect();
        let believed = Believed {
            loss,
            rows: &self.rows,
            labels: (!self.labels.is_empty()).then_some(self.labels),
            values: domain.values(),
            beliefs: &beliefs,
            row_weights: None,
            public: self.public,
            public_weight: self.public_weight,
            total_weight: self.total_weight,
        };
        believed.minimizer(lambda, radius, start, least_decrease)
    }

    /// The gradient of the whole objective from the private rows' mean gradient.
    pub fn objective(
        &self,
        loss: Loss,
        lambda: f64,
        weights: &[f64],
        private_mean: &[f64],
    ) -> Result<Vec<f64>, MechanismError> {
        let (rows, labels) = self.public;
        let mut public = vec![0.0; weights.len()];
        if !rows.is_empty() {
            // rows without a secret: one value, believed in
            let query = BeliefRows::new(rows, labels, &self.nothing_hidden)?.gradient(loss, weights)?;
            let sums = query.sums(&Beliefs::uniform(rows.len(), 1), &vec![0; rows.len()])?;
            public = sums.actual.iter().map(|&sum| sum as f64 * query.unit()).collect();
        }
        let private = self.private_rows() as f64;
        let combined = private_mean.iter().zip(&public).zip(weights).map(|((mean, public), weight)| {
            (private * mean + self.public_weight * public) / self.total_weight + lambda * weight
        });
        Ok(combined.collect())
    }
}
