//! One number for each row of a block, so that whatever concerns a row stays in its lane of a vector.

use super::super::block::BLOCK_ROWS;
use super::super::lanes::SIXTEEN;

/// One number for each row of a block, in whole cache lines.
///
/// Where a table ends within a block, the places of rows that do not exist hold zeros or are not looked at.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(C, align(64))]
pub(super) struct Column<T>(pub [T; BLOCK_ROWS]);

/// Vectors of 32-bit numbers in a column.
pub(super) const PARTS: usize = BLOCK_ROWS / SIXTEEN;

impl<T: Copy> Column<T> {
    /// The same number for all rows.
    #[inline(always)]
    pub(super) fn of(number: T) -> Self {
        Column([number; BLOCK_ROWS])
    }

    /// Every row's own number, computed from its position in the block.
    #[inline(always)]
    pub(super) fn each(number: impl Fn(usize) -> T) -> Self
    where
        T: Default,
    {
        let mut column = [T::default(); BLOCK_ROWS];
        for (row, slot) in column.iter_mut().enumerate() {
            *slot = number(row);
        }
        Column(column)
    }

    /// The numbers of up to a block of rows, filled up with `absent`.
    #[inline(always)]
    pub(super) fn padded(numbers: &[T], absent: T) -> Self {
        match <[T; BLOCK_ROWS]>::try_from(numbers) {
            Ok(numbers) => Column(numbers),
            Err(_) => {
                let mut column = Column::of(absent);
                column.0[..numbers.len()].copy_from_slice(numbers);
                column
            }
        }
    }

    /// One vector of the column.
    #[inline(always)]
    pub(super) fn part(&self, part: usize) -> &[T; SIXTEEN] {
        &self.0.as_chunks::<SIXTEEN>().0[part]
    }

    /// One vector of the column.
    #[inline(always)]
    pub(super) fn part_mut(&mut self, part: usize) -> &mut [T; SIXTEEN] {
        &mut self.0.as_chunks_mut::<SIXTEEN>().0[part]
    }
}

/// Consecutive rows: a block, or what is left of one at the end of the table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub(super) first: usize,
    pub(super) len: usize,
}

impl Span {
    /// The rows' entries of a column of the table.
    #[inline(always)]
    pub(super) fn of<T>(self, column: &[T]) -> &[T] {
        &column[self.first..][..self.len]
    }
}
