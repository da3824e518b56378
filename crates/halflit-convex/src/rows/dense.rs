use super::{RowsError, check_room, check_values, squared_norm};

/// Zeros kept after the last row, so that a 64-byte vector load that starts inside a row stays inside the allocation.
///
/// Rows themselves are packed without padding: at 100 columns, padding to 64 bytes would add 28 % to the bytes moved.
/// A load that runs over the end of a row reads the next row; its products are multiplied by zero or dropped.
pub(crate) const TAIL: usize = 64;

/// Dense rows: 16-bit integers, row after row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DenseRows {
    width: usize,
    /// `len * width` values, then `TAIL` zeros.
    values: Vec<i16>,
    squared_norms: Vec<u64>,
    /// No value is larger in size.
    largest: i16,
}

impl DenseRows {
    /// No rows yet, of `width` features each.
    pub fn new(width: usize) -> Result<Self, RowsError> {
        DenseRows::with_capacity(width, 0)
    }

    /// No rows yet, with room for `rows` of them.
    pub fn with_capacity(width: usize, rows: usize) -> Result<Self, RowsError> {
        check_room(rows, width)?;
        let mut values = Vec::with_capacity(rows.saturating_mul(width).saturating_add(TAIL));
        values.resize(TAIL, 0);
        Ok(DenseRows { width, values, squared_norms: Vec::with_capacity(rows), largest: 0 })
    }

    /// Rows from slices of equal width.
    pub fn from_rows<R: AsRef<[i16]>>(width: usize, rows: &[R]) -> Result<Self, RowsError> {
        let mut built = DenseRows::with_capacity(width, rows.len())?;
        for row in rows {
            built.push_row(row.as_ref())?;
        }
        Ok(built)
    }

    /// Rows from `len * width` values in row order, without copying them.
    pub fn from_values(width: usize, mut values: Vec<i16>) -> Result<Self, RowsError> {
        let rows = values.len().checked_div(width).unwrap_or(0);
        check_room(rows, width)?;
        if rows * width != values.len() {
            return Err(RowsError::Width { row: rows, found: values.len() - rows * width, expected: width });
        }
        let mut squared_norms = Vec::with_capacity(rows);
        let mut largest = 0;
        for (row, chunk) in values.chunks_exact(width.max(1)).enumerate() {
            check_values(row, chunk)?;
            squared_norms.push(squared_norm(chunk));
            largest = largest_of(chunk).max(largest);
        }
        values.resize(rows * width + TAIL, 0);
        Ok(DenseRows { width, values, squared_norms, largest })
    }

    /// Appends one row.
    pub fn push_row(&mut self, row: &[i16]) -> Result<(), RowsError> {
        let index = self.len();
        if row.len() != self.width {
            return Err(RowsError::Width { row: index, found: row.len(), expected: self.width });
        }
        check_room(index + 1, self.width)?;
        check_values(index, row)?;
        self.values.truncate(index * self.width);
        self.values.extend_from_slice(row);
        self.values.resize((index + 1) * self.width + TAIL, 0);
        self.squared_norms.push(squared_norm(row));
        self.largest = largest_of(row).max(self.largest);
        Ok(())
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.squared_norms.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.squared_norms.is_empty()
    }

    /// Number of features of every row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// One row.
    ///
    /// # Panics
    /// When `row >= len()`, as indexing a slice does.
    pub fn row(&self, row: usize) -> &[i16] {
        assert!(row < self.len(), "row {row} of {}", self.len());
        &self.values[row * self.width..(row + 1) * self.width]
    }

    /// Exact squared norms, in units of 2^-28.
    pub fn squared_norms(&self) -> &[u64] {
        &self.squared_norms
    }

    /// Bytes held in memory.
    pub fn memory_bytes(&self) -> usize {
        self.values.capacity() * size_of::<i16>() + self.squared_norms.capacity() * size_of::<u64>()
    }

    /// The rows at `indices`, in that order.
    pub fn select(&self, indices: &[u32]) -> Result<Self, RowsError> {
        let mut chosen = DenseRows::with_capacity(self.width, indices.len())?;
        for &index in indices {
            let row = index as usize;
            if row >= self.len() {
                return Err(RowsError::NoSuchRow { row, len: self.len() });
            }
            chosen.push_row(self.row(row))?;
        }
        Ok(chosen)
    }

    /// No value is larger in size.
    pub(crate) fn largest(&self) -> i16 {
        self.largest
    }

    /// All values, `TAIL` zeros included: what the kernels read.
    pub(crate) fn padded_values(&self) -> &[i16] {
        &self.values
    }
}

/// The size of a row's largest value, none being -32768.
fn largest_of(row: &[i16]) -> i16 {
    row.iter().fold(0, |largest, value| value.wrapping_abs().max(largest))
}
