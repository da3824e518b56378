//! A pool of made-up sensitive cells, and drawing from it row by row.

use crate::mechanisms::MechanismError;
use crate::problem::{FEATURE_UNIT, PublicSide, scores};
use halflit_convex::{DenseRows, Loss, Rows, SparseRows};
use halflit_noise::{FractionBits, Law, Stream};
use halflit_table::{Column, ColumnDomain, LabelEncoding, OutOfDomain, PublicFeatures, Table};
use std::num::NonZeroU64;

/// Joint values are listed if there are at most this many, else this many are drawn.
const MOST_ENTRIES: usize = 512;

/// Sensitive cells that a row may get: the coordinates they fill, the label, and how likely they are beforehand.
pub(super) struct Pool {
    entries: Vec<Entry>,
}

struct Entry {
    coordinates: Vec<(u32, i16)>,
    label: f64,
    prior: f64,
}

impl Pool {
    /// The joint values of the sensitive columns, or a sample of them.
    pub fn of_domain(
        public: &PublicSide<'_>,
        prior: Option<&[f64]>,
        stream: &mut Stream,
    ) -> Result<Pool, MechanismError> {
        let encoding = public.encoding;
        let label_is_sensitive = public.view.labels.is_none();
        let mut sizes: Vec<Option<usize>> = Vec::new();
        for column in encoding.columns().iter().filter(|column| column.is_sensitive()) {
            sizes.push(match column.domain() {
                ColumnDomain::Values(values) => Some(values.len()),
                ColumnDomain::Bounds { .. } => None,
            });
        }
        if label_is_sensitive {
            sizes.push(encoding.label().classes().map(<[String]>::len));
        }
        let listed =
            sizes.iter().try_fold(1usize, |product, size| size.and_then(|size| product.checked_mul(size)));
        let listed = listed.filter(|&count| count <= MOST_ENTRIES);
        let count = listed.unwrap_or(MOST_ENTRIES);
        if let Some(prior) = prior
            && listed != Some(prior.len())
        {
            let columns = vec!["the prior's".to_owned()];
            return Err(MechanismError::SensitiveDomain { columns, values: prior.len(), most: count });
        }
        // The cell of entry `row` in the sensitive column number `place`: in turn if listed, else drawn.
        let mut period = count;
        let mut positions = |size: usize, stream: &mut Stream| -> Vec<usize> {
            period /= if listed.is_some() { size } else { 1 };
            let size_or_one = NonZeroU64::new(size as u64).unwrap_or(NonZeroU64::MIN);
            (0..count)
                .map(|row| match listed {
                    Some(_) => row / period.max(1) % size,
                    None => stream.uniform_below(size_or_one) as usize,
                })
                .collect()
        };
        let mut table = Vec::new();
        for column in encoding.columns() {
            let cells = match (column.domain(), column.is_sensitive()) {
                (ColumnDomain::Bounds { low, .. }, false) => Column::Numbers(vec![*low; count]),
                (ColumnDomain::Bounds { low, high }, true) => {
                    Column::Numbers(spread(*low, *high, count, stream))
                }
                (ColumnDomain::Values(values), false) => Column::Text(vec![values[0].clone(); count]),
                (ColumnDomain::Values(values), true) => Column::Text(
                    positions(values.len(), stream).into_iter().map(|at| values[at].clone()).collect(),
                ),
            };
            table.push((column.name().to_owned(), cells));
        }
        let label = match encoding.label() {
            LabelEncoding::Classes { values, .. } if label_is_sensitive => Column::Text(
                positions(values.len(), stream).into_iter().map(|at| values[at].clone()).collect(),
            ),
            LabelEncoding::Classes { values, .. } => Column::Text(vec![values[0].clone(); count]),
            LabelEncoding::Scaled { low, high } => Column::Numbers(spread(*low, *high, count, stream)),
            LabelEncoding::Counts { low, high } => {
                Column::Numbers(spread(*low, *high, count, stream).into_iter().map(f64::floor).collect())
            }
        };
        table.push((encoding.label_name().to_owned(), label));
        let table = Table::from_columns(table)?;
        let rows = encoding.encode_features(&table, OutOfDomain::Coerce)?;
        let labels = encoding.encode_labels(&table, OutOfDomain::Refuse)?;
        Pool::from_rows(public, &rows, &labels, |row| prior.map_or(1.0, |prior| prior[row]))
    }

    /// The sensitive cells of public rows: what occurs together there occurs together here.
    pub fn of_public_rows(public: &PublicSide<'_>) -> Result<Pool, MechanismError> {
        let (rows, labels) = public.public;
        let count = rows.len().min(MOST_ENTRIES);
        let chosen: Vec<u32> = (0..count).map(|i| (i * rows.len() / count) as u32).collect();
        let labels: Vec<f64> = chosen.iter().map(|&row| labels[row as usize]).collect();
        Pool::from_rows(public, &rows.select(&chosen)?, &labels, |_| 1.0)
    }

    fn from_rows(
        public: &PublicSide<'_>,
        rows: &Rows,
        labels: &[f64],
        prior: impl Fn(usize) -> f64,
    ) -> Result<Pool, MechanismError> {
        // If nothing is public the whole row is made up, its intercept included.
        let everything = matches!(public.view.features, PublicFeatures::None);
        let is_sensitive = public.encoding.sensitive_coordinates();
        let mut entries = Vec::with_capacity(rows.len());
        for (row, &label) in labels.iter().enumerate() {
            let cells = rows.dense_row(row)?;
            let kept = cells
                .iter()
                .enumerate()
                .filter(|(at, cell)| **cell != 0 && (everything || is_sensitive[*at]));
            let coordinates = kept.map(|(at, &cell)| (at as u32, cell)).collect();
            entries.push(Entry { coordinates, label, prior: prior(row) });
        }
        Ok(Pool { entries })
    }

    /// Draws cells for every row: entry e with probability proportional to prior(e) exp(-loss with e).
    pub fn fill(
        &self,
        count: usize,
        known: Option<&Rows>,
        known_labels: Option<&[f64]>,
        model: Option<(Loss, &[f64])>,
        stream: &mut Stream,
    ) -> Result<(Rows, Vec<f64>), MechanismError> {
        let width = known.map_or_else(
            || {
                self.entries
                    .iter()
                    .flat_map(|entry| entry.coordinates.last())
                    .map(|(at, _)| *at as usize + 1)
                    .max()
                    .unwrap_or(1)
            },
            Rows::width,
        );
        let shifts: Vec<Vec<f64>> = match model {
            None => Vec::new(),
            Some((_, weights)) => self.entries.iter().map(|entry| entry.scores(weights, width)).collect(),
        };
        let sparse = matches!(known, Some(Rows::Sparse(_)));
        let mut dense = DenseRows::with_capacity(width, if sparse { 0 } else { count })?;
        let mut compressed = SparseRows::new(width)?;
        let mut labels = Vec::with_capacity(count);
        let mut race = vec![0i64; self.entries.len()];
        for row in 0..count {
            let base = match (known, model) {
                (Some(known), Some((_, weights))) => scores(known, row, weights),
                (_, Some((loss, _))) => vec![0.0; loss.outputs()],
                _ => Vec::new(),
            };
            // The first of independent exponential clocks with these rates: an entry with probability proportional to its rate.
            stream.fill_rounded(Law::Exponential, FractionBits::LEAST, &mut race);
            let mut best = (f64::INFINITY, 0);
            for (at, entry) in self.entries.iter().enumerate() {
                let label = known_labels.map_or(entry.label, |labels| labels[row]);
                let log_rate = match model {
                    None => 0.0,
                    Some((loss, _)) => {
                        let own: Vec<f64> =
                            base.iter().zip(&shifts[at]).map(|(base, shift)| base + shift).collect();
                        -loss.value(&own, label)
                    }
                };
                let clock = (race[at] as f64 + 0.5) / (entry.prior.max(1e-300) * log_rate.max(-600.0).exp());
                if clock < best.0 {
                    best = (clock, at);
                }
            }
            let entry = &self.entries[best.1];
            labels.push(known_labels.map_or(entry.label, |labels| labels[row]));
            let mut cells = match known {
                Some(known) => known.dense_row(row)?,
                None => vec![0; width],
            };
            for &(at, cell) in &entry.coordinates {
                cells[at as usize] = cell;
            }
            if sparse { compressed.push_dense_row(&cells)? } else { dense.push_row(&cells)? }
        }
        let rows = if sparse { Rows::Sparse(compressed) } else { Rows::Dense(dense) };
        Ok((rows, labels))
    }
}

impl Entry {
    /// What these cells add to every score.
    fn scores(&self, weights: &[f64], width: usize) -> Vec<f64> {
        let along = |weights: &[f64]| {
            self.coordinates.iter().map(|&(at, q)| f64::from(q) * weights[at as usize]).sum::<f64>()
                * FEATURE_UNIT
        };
        weights.chunks(width.max(1)).map(along).collect()
    }
}

/// Numbers spread evenly between two bounds, in random order of place.
fn spread(low: f64, high: f64, count: usize, stream: &mut Stream) -> Vec<f64> {
    let steps = NonZeroU64::MIN.saturating_add((1 << 32) - 1);
    (0..count)
        .map(|_| {
            let share = stream.uniform_below(steps) as f64 / steps.get() as f64;
            (low * (1.0 - share) + high * share).clamp(low, high)
        })
        .collect()
}
