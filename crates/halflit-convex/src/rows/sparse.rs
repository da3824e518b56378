use super::{RowsError, check_room, check_values, squared_norm};

/// Sparse rows: for each row its (column, value) pairs, columns increasing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SparseRows {
    width: usize,
    /// `len + 1` positions: row i owns the entries `starts[i]..starts[i + 1]`.
    starts: Vec<usize>,
    columns: Vec<u32>,
    values: Vec<i16>,
    squared_norms: Vec<u64>,
}

/// One sparse row: equally many columns and values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SparseRow<'a> {
    /// Columns, increasing.
    pub columns: &'a [u32],
    /// The value in each of them.
    pub values: &'a [i16],
}

impl SparseRow<'_> {
    /// The (column, value) pairs.
    pub fn iter(&self) -> impl Iterator<Item = (usize, i16)> + '_ {
        self.columns.iter().zip(self.values).map(|(&column, &value)| (column as usize, value))
    }
}

impl SparseRows {
    /// No rows yet, of `width` features each.
    pub fn new(width: usize) -> Result<Self, RowsError> {
        SparseRows::with_capacity(width, 0, 0)
    }

    /// No rows yet, with room for `rows` rows and `entries` entries in all.
    pub fn with_capacity(width: usize, rows: usize, entries: usize) -> Result<Self, RowsError> {
        check_room(rows, width)?;
        let mut starts = Vec::with_capacity(rows.saturating_add(1));
        starts.push(0);
        Ok(SparseRows {
            width,
            starts,
            columns: Vec::with_capacity(entries),
            values: Vec::with_capacity(entries),
            squared_norms: Vec::with_capacity(rows),
        })
    }

    /// Appends one row given by its columns, strictly increasing, and their values. Zeros are not stored.
    pub fn push_row(&mut self, columns: &[u32], values: &[i16]) -> Result<(), RowsError> {
        let row = self.len();
        if columns.len() != values.len() {
            return Err(RowsError::Width { row, found: values.len(), expected: columns.len() });
        }
        check_room(row + 1, self.width)?;
        check_values(row, values)?;
        let mut least = 0u64;
        for &column in columns {
            if u64::from(column) < least || column as usize >= self.width {
                return Err(RowsError::Column { row, column, width: self.width });
            }
            least = u64::from(column) + 1;
        }
        let kept = || columns.iter().zip(values).filter(|&(_, &value)| value != 0);
        self.columns.extend(kept().map(|(&column, _)| column));
        self.values.extend(kept().map(|(_, &value)| value));
        self.starts.push(self.columns.len());
        self.squared_norms.push(squared_norm(values));
        Ok(())
    }

    /// Appends one row given as `width` values.
    pub fn push_dense_row(&mut self, row: &[i16]) -> Result<(), RowsError> {
        if row.len() != self.width {
            return Err(RowsError::Width { row: self.len(), found: row.len(), expected: self.width });
        }
        let columns: Vec<u32> = (0..self.width as u32).collect();
        self.push_row(&columns, row)
    }

    /// Rows from slices of equal width, written out in full.
    pub fn from_rows<R: AsRef<[i16]>>(width: usize, rows: &[R]) -> Result<Self, RowsError> {
        let mut built = SparseRows::with_capacity(width, rows.len(), 0)?;
        for row in rows {
            built.push_dense_row(row.as_ref())?;
        }
        Ok(built)
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

    /// Number of stored entries.
    pub fn entries(&self) -> usize {
        self.columns.len()
    }

    /// One row.
    ///
    /// # Panics
    /// When `row >= len()`, as indexing a slice does.
    pub fn row(&self, row: usize) -> SparseRow<'_> {
        let entries = self.starts[row]..self.starts[row + 1];
        SparseRow { columns: &self.columns[entries.clone()], values: &self.values[entries] }
    }

    /// Exact squared norms, in units of 2^-28.
    pub fn squared_norms(&self) -> &[u64] {
        &self.squared_norms
    }

    /// Bytes held in memory.
    pub fn memory_bytes(&self) -> usize {
        self.starts.capacity() * size_of::<usize>()
            + self.columns.capacity() * size_of::<u32>()
            + self.values.capacity() * size_of::<i16>()
            + self.squared_norms.capacity() * size_of::<u64>()
    }

    /// The rows at `indices`, in that order.
    pub fn select(&self, indices: &[u32]) -> Result<Self, RowsError> {
        let mut chosen = SparseRows::with_capacity(self.width, indices.len(), 0)?;
        for &index in indices {
            let row = index as usize;
            if row >= self.len() {
                return Err(RowsError::NoSuchRow { row, len: self.len() });
            }
            let SparseRow { columns, values } = self.row(row);
            chosen.push_row(columns, values)?;
        }
        Ok(chosen)
    }
}
