//! One evaluation of the gradient: the hidden part under the clamp, the known part and the public rows exactly.

use super::centre::AroundPublicPart;
use super::layout::{Layout, Part};
use super::{MechanismError, Split};
use crate::problem::FEATURE_UNIT;
use halflit_convex::Rows;
use halflit_convex::kernel::{Batch, LatticeWeights, MAX_COEFFICIENT, RowSums, Rule, SUM_LIMIT, UnitSums};
use halflit_convex::loss::LossRule;
use halflit_table::Encoding;

/// The passes over one layout for one lattice.
pub(super) struct Passes<'a> {
    layout: &'a Layout<'a>,
    encoding: &'a Encoding,
    hidden: Hidden<'a>,
    /// Coefficient steps per unit of derivative in the hidden part.
    hidden_scale: f64,
    known: Option<ExactSums<'a>>,
    public: Option<ExactSums<'a>>,
}

enum Hidden<'a> {
    Rows(RowSums<'a>),
    Units(UnitSums<'a>),
}

/// Sums that need no clamp: public numbers, on the finest lattice that cannot overflow.
struct ExactSums<'a> {
    sums: RowSums<'a>,
    largest_coefficient: f64,
}

impl<'a> Passes<'a> {
    /// `radius` bounds every unit's contribution in lattice units of size `unit`.
    pub fn new(
        layout: &'a Layout<'a>,
        encoding: &'a Encoding,
        radius: u64,
        unit: f64,
    ) -> Result<Self, MechanismError> {
        let hidden = match &layout.hidden_offsets {
            None => Hidden::Rows(RowSums::new(&layout.hidden.rows, radius)?),
            Some(offsets) => Hidden::Units(UnitSums::new(
                &layout.hidden.rows,
                offsets,
                layout.rows_per_unit as usize,
                radius,
            )?),
        };
        let known = layout.known.as_ref().map(ExactSums::new).transpose()?;
        let public = (!layout.public.rows.is_empty()).then(|| ExactSums::new(&layout.public)).transpose()?;
        Ok(Passes { layout, encoding, hidden, hidden_scale: FEATURE_UNIT / unit, known, public })
    }

    /// The clamped sum over a batch of units, in lattice units: the only function of private cells.
    pub fn hidden(&self, weights: &LatticeWeights, batch: Batch<'_>) -> Result<Vec<i64>, MechanismError> {
        let Part { labels, weights: row_weights, .. } = &self.layout.hidden;
        let rule = match self.layout.split {
            Split::Nothing => LossRule::derivative(self.layout.loss, labels, self.hidden_scale),
            Split::AllFeatures => LossRule::around_midrange(self.layout.loss, labels, self.hidden_scale),
            Split::SomeFeatures { .. } => {
                let rule = self.around(&self.layout.hidden, weights, self.hidden_scale).interleaved();
                return self.hidden_sum(weights, &rule, batch);
            }
        };
        match row_weights {
            None => self.hidden_sum(weights, &rule, batch),
            Some(row_weights) => self.hidden_sum(weights, &rule.weighted(row_weights), batch),
        }
    }

    fn hidden_sum(
        &self,
        weights: &LatticeWeights,
        rule: &impl Rule,
        batch: Batch<'_>,
    ) -> Result<Vec<i64>, MechanismError> {
        Ok(match &self.hidden {
            Hidden::Rows(sums) => sums.sum(weights, rule, batch)?,
            Hidden::Units(sums) => sums.sum(weights, rule, None, batch)?,
        })
    }

    /// The sum of the centres over a batch of units (all of them if `None`): public cells only.
    pub fn known(&self, weights: &LatticeWeights, units: Option<&[u32]>) -> Result<Vec<f64>, MechanismError> {
        let (Some(exact), Some(part)) = (&self.known, &self.layout.known) else {
            return Ok(vec![0.0; weights.width() * weights.outputs()]);
        };
        let rows = units.map(|units| self.layout.known_rows_of(units));
        let batch = rows.as_deref().map_or(Batch::All, Batch::Only);
        let scale = self.exact_scale(exact, weights);
        let midrange = LossRule::midrange(self.layout.loss, scale);
        let sums = match (self.layout.split, &part.weights) {
            (Split::SomeFeatures { .. }, _) => {
                exact.sums.sum(weights, &self.around(part, weights, scale), batch)?
            }
            (_, None) => exact.sums.sum(weights, &midrange, batch)?,
            (_, Some(row_weights)) => exact.sums.sum(weights, &midrange.weighted(row_weights), batch)?,
        };
        Ok(to_real(&sums, scale))
    }

    /// The gradient sum of the public rows.
    pub fn public(&self, weights: &LatticeWeights) -> Result<Vec<f64>, MechanismError> {
        let Some(exact) = &self.public else {
            return Ok(vec![0.0; weights.width() * weights.outputs()]);
        };
        let scale = self.exact_scale(exact, weights);
        let rule = LossRule::derivative(self.layout.loss, &self.layout.public.labels, scale);
        Ok(to_real(&exact.sums.sum(weights, &rule, Batch::All)?, scale))
    }

    /// Coefficient steps per unit of derivative in an exact sum: as many as fit for every derivative at these weights.
    fn exact_scale(&self, exact: &ExactSums<'_>, weights: &LatticeWeights) -> f64 {
        let squares: f64 = weights.rounded().iter().map(|w| w * w).sum();
        let largest_score = squares.sqrt() * self.encoding.row_norm_bound();
        0.9 * exact.largest_coefficient / self.layout.loss.derivative_bound(largest_score).max(1e-6)
    }

    fn around<'b>(&self, part: &'b Part<'b>, weights: &LatticeWeights, scale: f64) -> AroundPublicPart<'b> {
        let label_is_public = self.layout.split == Split::SomeFeatures { label_is_public: true };
        AroundPublicPart::new(self.layout.loss, self.encoding, weights, &part.labels, label_is_public, scale)
            .weighted(part.weights.as_deref())
    }
}

impl<'a> ExactSums<'a> {
    fn new(part: &'a Part<'a>) -> Result<Self, MechanismError> {
        let rows: &Rows = &part.rows;
        let bound = (SUM_LIMIT - 1) / (rows.len() as u64).max(1);
        let longest_row = (rows.max_squared_norm().isqrt() + 1) as f64;
        let largest_coefficient = (bound as f64 / longest_row).min(f64::from(MAX_COEFFICIENT));
        Ok(ExactSums { sums: RowSums::new(rows, bound)?, largest_coefficient })
    }
}

fn to_real(sums: &[i64], scale: f64) -> Vec<f64> {
    sums.iter().map(|&sum| sum as f64 * (FEATURE_UNIT / scale)).collect()
}
