//! Filling rows and labels from cells. Nothing here can fail on a cell: what is outside its domain is coerced, and whoever
//! refuses such cells has looked for them before.

use super::affine::Affine;
use super::cells::DomainCells;
use super::label::LabelEncoding;
use super::{ColumnDomain, EncodeError, EncodedColumn, Encoding, OutOfDomain, find};
use crate::table::Table;
use crate::value::{comparable, parse_number};
use halflit_convex::{DenseRows, FEATURE_SCALE, Rows, SparseRows};
use rayon::prelude::*;
use std::borrow::Cow;

/// How rows are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Storage {
    Dense,
    Sparse,
}

/// Sparse rows pay off when at most one coordinate in this many can be nonzero (measured: decision 0044).
const SPARSE_RATIO: u64 = 16;

/// Rows filled at once by one thread: a block of 100 coordinates fits in the second-level cache.
const BLOCK_ROWS: usize = 1024;

impl Encoding {
    /// Chosen from the encoding alone, so that the storage says nothing about the cells.
    pub(crate) fn storage(&self) -> Storage {
        if self.width as u64 >= SPARSE_RATIO * self.nonzeros() { Storage::Sparse } else { Storage::Dense }
    }

    /// Encodes these rows of the table, in this order.
    pub(crate) fn rows(&self, table: &Table, order: &[u32]) -> Result<Rows, EncodeError> {
        let coders = self
            .columns
            .iter()
            .map(|column| ColumnCoder::new(table, column))
            .collect::<Result<Vec<_>, _>>()?;
        match self.storage() {
            Storage::Dense => self.dense_rows(&coders, order).map(Rows::Dense),
            Storage::Sparse => self.sparse_rows(&coders, order).map(Rows::Sparse),
        }
    }

    pub(super) fn dense_rows(&self, coders: &[ColumnCoder], order: &[u32]) -> Result<DenseRows, EncodeError> {
        let width = self.width;
        let mut values = vec![0i16; order.len() * width];
        let blocks = values.par_chunks_mut(BLOCK_ROWS * width).zip(order.par_chunks(BLOCK_ROWS));
        blocks.for_each(|(block, order)| {
            for coder in coders {
                for (row, &source) in block.chunks_exact_mut(width).zip(order) {
                    if let Some((coordinate, value)) = coder.entry(source as usize) {
                        row[coordinate] = value;
                    }
                }
            }
            for row in block.chunks_exact_mut(width) {
                if let Some(intercept) = self.intercept() {
                    row[intercept] = FEATURE_SCALE;
                }
                if let Some(clip) = &self.clip {
                    clip.apply(0..width, row);
                }
            }
        });
        Ok(DenseRows::from_values(width, values)?)
    }

    pub(super) fn sparse_rows(
        &self,
        coders: &[ColumnCoder],
        order: &[u32],
    ) -> Result<SparseRows, EncodeError> {
        let mut rows =
            SparseRows::with_capacity(self.width, order.len(), order.len() * self.nonzeros() as usize)?;
        let mut coordinates: Vec<u32> = Vec::new();
        let mut values: Vec<i16> = Vec::new();
        for &source in order {
            coordinates.clear();
            values.clear();
            let entries = coders.iter().filter_map(|coder| coder.entry(source as usize));
            for (coordinate, value) in
                entries.chain(self.intercept().map(|intercept| (intercept, FEATURE_SCALE)))
            {
                coordinates.push(coordinate as u32);
                values.push(value);
            }
            if let Some(clip) = &self.clip {
                clip.apply(coordinates.iter().map(|&coordinate| coordinate as usize), &mut values);
            }
            rows.push_row(&coordinates, &values)?;
        }
        Ok(rows)
    }

    /// Encodes the labels of these rows, in this order.
    pub(crate) fn labels(
        &self,
        table: &Table,
        order: &[u32],
        out_of_domain: OutOfDomain,
    ) -> Result<Vec<f64>, EncodeError> {
        let label = &self.label;
        if out_of_domain == OutOfDomain::Coerce && label.default.is_none() {
            return Err(EncodeError::NoLabelDefault { label: label.name.clone() });
        }
        let domain = label.domain();
        let cells = DomainCells::new(find(table, &label.name)?, &domain);
        let default_class = default_position(&domain, label.default.as_deref()).unwrap_or(0);
        let class = |source: &u32| cells.position(*source as usize).unwrap_or(default_class);
        let default = default_number(label.default.as_deref());
        let number = |source: &u32| or_default(cells.number(*source as usize), default);
        Ok(match &label.encoding {
            LabelEncoding::Classes { coding, .. } => {
                order.iter().map(|source| coding.number(class(source))).collect()
            }
            LabelEncoding::Scaled { low, high } => {
                let affine = Affine::new(*low, *high);
                order.iter().map(|source| affine.encode(number(source))).collect()
            }
            LabelEncoding::Counts { low, high } => {
                order.iter().map(|source| number(source).max(*low).min(*high)).collect()
            }
        })
    }
}

/// The cells of one column as entries of rows.
pub(super) enum ColumnCoder<'a> {
    Number { cells: Cow<'a, [f64]>, affine: Affine, coordinate: usize, default: f64 },
    OneHot { cells: DomainCells<'a>, first: usize, default: Option<u32> },
}

impl<'a> ColumnCoder<'a> {
    pub(super) fn new(table: &'a Table, column: &EncodedColumn) -> Result<ColumnCoder<'a>, EncodeError> {
        let first = column.first;
        let default = column.default.as_deref();
        let cells = DomainCells::new(find(table, &column.name)?, &column.domain);
        Ok(match (&column.domain, cells) {
            (ColumnDomain::Bounds { low, high }, DomainCells::Numbers(cells)) => {
                let affine = Affine::new(*low, *high);
                ColumnCoder::Number { cells, affine, coordinate: first, default: default_number(default) }
            }
            (domain, cells) => {
                ColumnCoder::OneHot { cells, first, default: default_position(domain, default) }
            }
        })
    }

    /// The coordinate and value of a row; none if the cell has none of the values and there is no default.
    fn entry(&self, source: usize) -> Option<(usize, i16)> {
        match self {
            ColumnCoder::Number { cells, affine, coordinate, default } => {
                Some((*coordinate, affine.encode_to_lattice(or_default(cells[source], *default))))
            }
            ColumnCoder::OneHot { cells, first, default } => {
                let position = cells.position(source).or(*default)?;
                Some((first + position as usize, FEATURE_SCALE))
            }
        }
    }
}

pub(crate) fn or_default(number: f64, default: f64) -> f64 {
    if number.is_nan() { default } else { number }
}

/// The default as a number; NaN, which encodes as the middle, if there is none.
pub(crate) fn default_number(default: Option<&str>) -> f64 {
    default.and_then(|default| parse_number(default.as_bytes())).unwrap_or(f64::NAN)
}

/// The position of the default among the values.
fn default_position(domain: &ColumnDomain, default: Option<&str>) -> Option<u32> {
    let (ColumnDomain::Values(values), Some(default)) = (domain, default) else { return None };
    (0..)
        .zip(values)
        .find(|(_, value)| comparable(value) == comparable(default))
        .map(|(position, _)| position)
}
