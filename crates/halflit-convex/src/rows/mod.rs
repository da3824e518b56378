//! Rows of features on the integer lattice: x = q * 2^-14 with |q| <= 32767.
//!
//! A row is stored once, dense (16-bit integers, row after row) or sparse (column, value). Its squared norm is an exact
//! integer, computed when the row is pushed, because every bound on a unit's contribution starts from it.

mod dense;
mod sparse;

pub use dense::DenseRows;
#[cfg(test)]
use dense::TAIL;
pub use sparse::{SparseRow, SparseRows};

/// Fractional bits of the feature lattice: a stored integer q means the real feature q * 2^-14.
pub const FEATURE_BITS: u32 = 14;

/// 2^14: what a feature of 1.0 is stored as.
pub const FEATURE_SCALE: i16 = 1 << FEATURE_BITS;

/// Largest magnitude of a stored feature. -32768 is refused: the lattice is symmetric, so that negating never overflows.
pub const MAX_FEATURE: i16 = i16::MAX;

/// Largest number of rows: a row is addressed by a `u32`.
pub const MAX_ROWS: usize = u32::MAX as usize;

/// Why rows were refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RowsError {
    /// A row of another width than the rows before it.
    #[error(
        "row {row} has {found} features, the rows have {expected}; encode every row with the same encoding"
    )]
    Width {
        /// Index of the row.
        row: usize,
        /// Features it has.
        found: usize,
        /// Features it should have.
        expected: usize,
    },
    /// A stored value outside the symmetric lattice.
    #[error(
        "row {row}, column {column}: the value {value} is outside -32767..=32767; clamp features to (-2, 2) first"
    )]
    Value {
        /// Index of the row.
        row: usize,
        /// Index of the column.
        column: usize,
        /// The refused value.
        value: i16,
    },
    /// A sparse entry outside the declared width, or out of order.
    #[error(
        "row {row}: column {column} is not larger than the column before it and below the width {width}; sort the columns"
    )]
    Column {
        /// Index of the row.
        row: usize,
        /// The refused column.
        column: u32,
        /// Number of columns.
        width: usize,
    },
    /// More rows than a `u32` can address.
    #[error("{rows} rows are more than the {MAX_ROWS} that one table may have; split the table")]
    TooMany {
        /// Number of rows asked for.
        rows: usize,
    },
    /// A width that a 32-bit column index cannot address.
    #[error("{width} columns are more than the 2^31 that rows may have")]
    TooWide {
        /// Number of columns asked for.
        width: usize,
    },
    /// A row index that does not exist.
    #[error("row {row} does not exist: there are {len} rows")]
    NoSuchRow {
        /// The index asked for.
        row: usize,
        /// Number of rows.
        len: usize,
    },
}

/// The rows of a table, in the storage that suits them.
///
/// Both storages mean the same numbers: a pass over a table gives bit-identical coefficients and sums in either.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rows {
    /// 16-bit integers, row after row.
    Dense(DenseRows),
    /// Compressed rows of (column, value): for one-hot heavy tables.
    Sparse(SparseRows),
}

impl Rows {
    /// Number of rows.
    pub fn len(&self) -> usize {
        match self {
            Rows::Dense(rows) => rows.len(),
            Rows::Sparse(rows) => rows.len(),
        }
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of features of every row.
    pub fn width(&self) -> usize {
        match self {
            Rows::Dense(rows) => rows.width(),
            Rows::Sparse(rows) => rows.width(),
        }
    }

    /// Exact squared norms of the rows, in units of 2^-28.
    pub fn squared_norms(&self) -> &[u64] {
        match self {
            Rows::Dense(rows) => rows.squared_norms(),
            Rows::Sparse(rows) => rows.squared_norms(),
        }
    }

    /// The largest squared norm, in units of 2^-28; zero when there are no rows.
    pub fn max_squared_norm(&self) -> u64 {
        self.squared_norms().iter().copied().max().unwrap_or(0)
    }

    /// Bytes held in memory.
    pub fn memory_bytes(&self) -> usize {
        match self {
            Rows::Dense(rows) => rows.memory_bytes(),
            Rows::Sparse(rows) => rows.memory_bytes(),
        }
    }

    /// One row, written out as `width` integers.
    pub fn dense_row(&self, row: usize) -> Result<Vec<i16>, RowsError> {
        if row >= self.len() {
            return Err(RowsError::NoSuchRow { row, len: self.len() });
        }
        Ok(match self {
            Rows::Dense(rows) => rows.row(row).to_vec(),
            Rows::Sparse(rows) => {
                let mut values = vec![0; rows.width()];
                for (column, value) in rows.row(row).iter() {
                    values[column] = value;
                }
                values
            }
        })
    }

    /// The rows at `indices`, in that order, in the same storage. An index may repeat.
    pub fn select(&self, indices: &[u32]) -> Result<Rows, RowsError> {
        Ok(match self {
            Rows::Dense(rows) => Rows::Dense(rows.select(indices)?),
            Rows::Sparse(rows) => Rows::Sparse(rows.select(indices)?),
        })
    }

    /// These rows followed by `other`'s, in the storage of `self`.
    pub fn concat(&self, other: &Rows) -> Result<Rows, RowsError> {
        let mut joined = self.clone();
        for row in 0..other.len() {
            match (&mut joined, other) {
                (Rows::Dense(all), Rows::Dense(more)) => all.push_row(more.row(row))?,
                (Rows::Dense(all), Rows::Sparse(_)) => all.push_row(&other.dense_row(row)?)?,
                (Rows::Sparse(all), Rows::Dense(more)) => all.push_dense_row(more.row(row))?,
                (Rows::Sparse(all), Rows::Sparse(more)) => {
                    let row = more.row(row);
                    all.push_row(row.columns, row.values)?;
                }
            }
        }
        Ok(joined)
    }
}

impl From<DenseRows> for Rows {
    fn from(rows: DenseRows) -> Self {
        Rows::Dense(rows)
    }
}

impl From<SparseRows> for Rows {
    fn from(rows: SparseRows) -> Self {
        Rows::Sparse(rows)
    }
}

/// Squared norm of a slice of lattice values. At most 2^30 per column, so it cannot overflow below 2^34 columns.
fn squared_norm(values: &[i16]) -> u64 {
    values.iter().map(|&value| u64::from(value.unsigned_abs()).pow(2)).sum()
}

/// Refuses the one 16-bit integer that is not on the symmetric lattice.
fn check_values(row: usize, values: &[i16]) -> Result<(), RowsError> {
    match values.iter().position(|&value| value < -MAX_FEATURE) {
        None => Ok(()),
        Some(column) => Err(RowsError::Value { row, column, value: values[column] }),
    }
}

fn check_room(rows: usize, width: usize) -> Result<(), RowsError> {
    if width > (1 << 31) {
        return Err(RowsError::TooWide { width });
    }
    if rows > MAX_ROWS {
        return Err(RowsError::TooMany { rows });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
