//! One evaluation of the gradient of the private units: the hidden part under the clamp, the known part exactly.

use super::centre::{AroundPublicPart, Middle, swing};
use super::layout::{Layout, Part};
use super::public::{ExactSums, to_real};
use super::run::on_lattice;
use super::sampler::{HiddenBatch, KnownBatch};
use super::spread::{BINS, NormCounter, Window};
use super::{MechanismError, Split};
use crate::problem::FEATURE_UNIT;
use halflit_convex::kernel::{
    Batch, Centre, LatticeWeights, MAX_COEFFICIENT, RowSums, Rule, SUM_LIMIT, UnitSums,
};
use halflit_convex::loss::LossRule;
use halflit_table::Encoding;

/// The passes over one layout.
pub(super) struct Passes<'a> {
    layout: &'a Layout<'a>,
    encoding: &'a Encoding,
    known: Option<ExactSums<'a>>,
}

/// The clamp for one lattice radius: every sum over private units goes through it.
pub(super) enum Clamp<'a> {
    Rows(RowSums<'a>),
    Units(UnitSums<'a>),
}

impl Clamp<'_> {
    fn sum(
        &self,
        weights: &LatticeWeights,
        rule: &impl Rule,
        centre: Option<&[i64]>,
        batch: &HiddenBatch,
    ) -> Result<Vec<i64>, MechanismError> {
        let centre = centre.map(|vector| Centre { vector, multiples: None });
        Ok(match self {
            Clamp::Rows(sums) => sums.sum(weights, rule, batch.as_batch())?,
            Clamp::Units(sums) => sums.sum(weights, rule, centre, batch.as_batch())?,
        })
    }
}

impl<'a> Passes<'a> {
    pub fn new(layout: &'a Layout<'a>, encoding: &'a Encoding) -> Result<Self, MechanismError> {
        let known = layout.known.as_ref().map(|part| ExactSums::new(&part.rows)).transpose()?;
        Ok(Passes { layout, encoding, known })
    }

    /// The clamp that keeps every unit's contribution within `radius` lattice units.
    pub fn clamp(&self, radius: u64) -> Result<Clamp<'a>, MechanismError> {
        Ok(match &self.layout.hidden_offsets {
            None => Clamp::Rows(RowSums::new(&self.layout.hidden.rows, radius)?),
            Some(offsets) => Clamp::Units(UnitSums::new(
                &self.layout.hidden.rows,
                offsets,
                self.layout.rows_per_unit as usize,
                radius,
            )?),
        })
    }

    /// The clamped sum over a batch of units, in lattice units of size `unit`, each unit's vector reduced by the common centre if there is
    /// one. This and [`Passes::spread`] are the only functions of private cells.
    pub fn hidden(
        &self,
        clamp: &Clamp<'_>,
        weights: &LatticeWeights,
        unit: f64,
        centre: Option<&[i64]>,
        batch: &HiddenBatch,
    ) -> Result<Vec<i64>, MechanismError> {
        // Coefficient steps per unit of derivative.
        let scale = FEATURE_UNIT / unit;
        match self.layout.split {
            Split::Nothing | Split::AllFeatures => clamp.sum(weights, &self.plain(scale), centre, batch),
            Split::SomeFeatures { .. } | Split::Imputed { .. } => {
                let rule = self.around(&self.layout.hidden, weights, scale).interleaved();
                clamp.sum(weights, &rule, centre, batch)
            }
        }
    }

    /// The hidden coefficients of rows that are units' rows and nothing else.
    fn plain(&self, scale: f64) -> LossRule<'_> {
        let Part { labels, weights, .. } = &self.layout.hidden;
        let rule = match self.layout.split {
            Split::AllFeatures => LossRule::around_midrange(self.layout.loss, labels, scale),
            _ => LossRule::derivative(self.layout.loss, labels, scale),
        };
        match weights {
            None => rule,
            Some(weights) => rule.weighted(weights),
        }
    }

    /// How many units of the batch contribute vectors of which norm before the clamp, in multiples of `whole`: a unit adds `whole` to one bin of the
    /// window, which is public.
    pub fn spread(
        &self,
        clamp: &Clamp<'_>,
        weights: &LatticeWeights,
        centre: Option<&[f64]>,
        batch: &HiddenBatch,
        whole: u64,
    ) -> Result<(Window, Vec<i64>), MechanismError> {
        let row_norm = self.encoding.row_norm_bound();
        let squares: f64 = weights.rounded().iter().map(|w| w * w).sum();
        let largest = self.layout.loss.derivative_bound(squares.sqrt() * row_norm);
        let centre_norm = centre.map_or(0.0, |centre| centre.iter().map(|c| c * c).sum::<f64>().sqrt());
        let window = Window::up_to(largest * row_norm + centre_norm);
        let counts = match clamp {
            Clamp::Rows(sums) => {
                let squared_norms = self.layout.hidden.rows.squared_norms();
                let counter = NormCounter::new(self.plain(1.0), self.layout.loss, squared_norms, window);
                sums.sum(weights, &counter, batch.as_batch())?;
                counter.into_counts()
            }
            Clamp::Units(sums) => {
                // As fine as coefficients of these weights can be without being cut off: what the kernel allows a row of a unit, from constants.
                let per_row = (SUM_LIMIT / 2 / self.layout.rows_per_unit.max(1)) as f64;
                let most = f64::from(MAX_COEFFICIENT).min(per_row * FEATURE_UNIT / row_norm);
                let scale = most / (2.0 * largest.max(1e-6));
                let unit = FEATURE_UNIT / scale;
                let centre = centre.and_then(|centre| on_lattice(centre, unit));
                let centre = centre.as_deref().map(|vector| Centre { vector, multiples: None });
                let bin_of = |squared: u128| window.bin(squared as f64 * unit * unit);
                match self.layout.split {
                    Split::Nothing | Split::AllFeatures => {
                        let rule = self.plain(scale);
                        sums.count(weights, &rule, centre, batch.as_batch(), BINS, bin_of)?
                    }
                    Split::SomeFeatures { .. } | Split::Imputed { .. } => {
                        let rule = self.around(&self.layout.hidden, weights, scale).interleaved();
                        sums.count(weights, &rule, centre, batch.as_batch(), BINS, bin_of)?
                    }
                }
            }
        };
        // At most 2^62 in all: whole is a lattice radius.
        Ok((window, counts.into_iter().map(|count| count.saturating_mul(whole as i64)).collect()))
    }

    /// The sum of the row centres over a batch of units: public cells only.
    pub fn known(&self, weights: &LatticeWeights, batch: &KnownBatch) -> Result<Vec<f64>, MechanismError> {
        let (Some(exact), Some(part)) = (&self.known, &self.layout.known) else {
            return Ok(vec![0.0; weights.width() * weights.outputs()]);
        };
        let rows = batch.units().map(|units| self.layout.known_rows_of(units));
        let batch = rows.as_deref().map_or(Batch::All, Batch::Only);
        let squares: f64 = weights.rounded().iter().map(|w| w * w).sum();
        let longest = (part.rows.max_squared_norm() as f64).sqrt() * FEATURE_UNIT;
        let largest_score = squares.sqrt() * longest.max(self.encoding.row_norm_bound());
        let scale = exact.scale(self.layout.loss.derivative_bound(largest_score));
        let midrange = LossRule::midrange(self.layout.loss, scale);
        let sums = match (self.layout.split, &part.weights) {
            (Split::SomeFeatures { .. } | Split::Imputed { .. }, _) => {
                exact.sums.sum(weights, &self.around(part, weights, scale), batch)?
            }
            (_, None) => exact.sums.sum(weights, &midrange, batch)?,
            (_, Some(row_weights)) => exact.sums.sum(weights, &midrange.weighted(row_weights), batch)?,
        };
        Ok(to_real(&sums, scale))
    }

    fn around<'b>(
        &'b self,
        part: &'b Part<'b>,
        weights: &LatticeWeights,
        scale: f64,
    ) -> AroundPublicPart<'b> {
        let (middle, label_is_public) = match self.layout.split {
            Split::Imputed { label_is_public } => {
                (Middle::Imputed(&self.layout.imputed_labels), label_is_public)
            }
            Split::SomeFeatures { label_is_public } => {
                (Middle::Range(swing(self.encoding, weights)), label_is_public)
            }
            Split::Nothing | Split::AllFeatures => (Middle::Range(swing(self.encoding, weights)), false),
        };
        AroundPublicPart::new(self.layout.loss, middle, &part.labels, label_is_public, scale)
            .weighted(part.weights.as_deref())
    }
}
