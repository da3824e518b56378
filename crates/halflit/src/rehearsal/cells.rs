//! A pool of made-up sensitive cells, and drawing from it row by row.

use crate::mechanisms::MechanismError;
use crate::problem::{FEATURE_UNIT, PublicSide, scores};
use halflit_convex::{DenseRows, Loss, Rows, SparseRows};
use halflit_noise::{FractionBits, Law, Stream};
use halflit_table::{Column, ColumnDomain, LabelEncoding, OutOfDomain, PublicFeatures, Table};
use std::num::NonZeroU64;

/// Joint values are listed if there are at most this many, else this many are drawn.
const MOST_ENTRIES: usize = 512;

/// A row gets cells of one of the public rows nearest to it: of so many in all, one.
const ONE_IN: usize = 10;

/// Sensitive cells that a row may get: the coordinates they fill, the label, and how likely they are beforehand.
pub(super) struct Pool {
    entries: Vec<Entry>,
    /// Entries that are of the same public row stand together, so many; cells go to rows like theirs only. None: to any row.
    of_one_row: Option<usize>,
}

struct Entry {
    coordinates: Vec<(u32, i16)>,
    /// The other coordinates of the row that these cells are from.
    known: Vec<i16>,
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
        let entries = entries(public, &rows, &labels, |row| prior.map_or(1.0, |prior| prior[row]))?;
        Ok(Pool { entries, of_one_row: None })
    }

    /// The sensitive cells of public rows: what occurs together there occurs together here, and secrets go with public columns as they do there. A sensitive class is any of those seen, whatever the other
    /// cells: how often it goes with them is for the model to say, which has learned it from these rows already.
    pub fn of_public_rows(public: &PublicSide<'_>) -> Result<Pool, MechanismError> {
        let (rows, labels) = public.public;
        let mut classes: Vec<f64> = Vec::new();
        if public.view.labels.is_none() && public.encoding.label().classes().is_some() {
            classes.extend(labels);
            classes.sort_unstable_by(f64::total_cmp);
            classes.dedup();
        }
        let of_one_row = classes.len().max(1);
        let count = rows.len().min((MOST_ENTRIES / of_one_row).max(ONE_IN));
        let mut chosen = Vec::new();
        let mut entry_labels = Vec::new();
        for row in (0..count).map(|i| i * rows.len() / count) {
            let own = [labels[row]];
            let possible: &[f64] = if classes.is_empty() { &own } else { &classes };
            chosen.extend(possible.iter().map(|_| row as u32));
            entry_labels.extend(possible);
        }
        let entries = entries(public, &rows.select(&chosen)?, &entry_labels, |_| 1.0)?;
        let has_likeness = !matches!(public.view.features, PublicFeatures::None);
        Ok(Pool { entries, of_one_row: has_likeness.then_some(of_one_row) })
    }

    /// The entries that a row with these public cells may get.
    fn like(&self, known: &[i16]) -> Vec<u32> {
        let Some(of_one_row) = self.of_one_row else { return (0..self.entries.len() as u32).collect() };
        let distances: Vec<i64> = self
            .entries
            .iter()
            .step_by(of_one_row)
            .map(|entry| squared_distance(&entry.known, known))
            .collect();
        let mut rows: Vec<u32> = (0..distances.len() as u32).collect();
        let kept = rows.len().div_ceil(ONE_IN);
        if kept < rows.len() {
            // Among equally near ones the order of the pool decides: the same for everyone.
            rows.select_nth_unstable_by_key(kept, |&row| (distances[row as usize], row));
            rows.truncate(kept);
        }
        let entries = |row: u32| (row * of_one_row as u32)..((row + 1) * of_one_row as u32);
        rows.into_iter().flat_map(entries).collect()
    }

    /// Draws cells for so many rows of so many coordinates: of those for rows like it, entry e with probability proportional to prior(e) exp(-loss with e).
    pub fn fill(
        &self,
        (count, width): (usize, usize),
        known: Option<&Rows>,
        known_labels: Option<&[f64]>,
        model: Option<(Loss, &[f64])>,
        stream: &mut Stream,
    ) -> Result<(Rows, Vec<f64>), MechanismError> {
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
            let mut cells = match known {
                Some(known) => known.dense_row(row)?,
                None => vec![0; width],
            };
            let mut best = (f64::INFINITY, 0);
            for at in self.like(&cells).into_iter().map(|at| at as usize) {
                let entry = &self.entries[at];
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
            for &(at, cell) in &entry.coordinates {
                cells[at as usize] = cell;
            }
            if sparse { compressed.push_dense_row(&cells)? } else { dense.push_row(&cells)? }
        }
        let rows = if sparse { Rows::Sparse(compressed) } else { Rows::Dense(dense) };
        Ok((rows, labels))
    }
}

/// One entry for every row.
fn entries(
    public: &PublicSide<'_>,
    rows: &Rows,
    labels: &[f64],
    prior: impl Fn(usize) -> f64,
) -> Result<Vec<Entry>, MechanismError> {
    // If nothing is public the whole row is made up, its intercept included.
    let everything = matches!(public.view.features, PublicFeatures::None);
    let is_sensitive = public.encoding.sensitive_coordinates();
    let entry = |(row, &label): (usize, &f64)| {
        let mut known = rows.dense_row(row)?;
        let mut coordinates = Vec::new();
        for (at, cell) in known.iter_mut().enumerate() {
            if *cell != 0 && (everything || is_sensitive[at]) {
                coordinates.push((at as u32, std::mem::take(cell)));
            }
        }
        Ok(Entry { coordinates, known, label, prior: prior(row) })
    };
    labels.iter().enumerate().map(entry).collect()
}

fn squared_distance(one: &[i16], other: &[i16]) -> i64 {
    one.iter().zip(other).map(|(&a, &b)| (i64::from(a) - i64::from(b)).pow(2)).sum()
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
