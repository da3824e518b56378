//! What is on its way from memory.

use super::super::block::{BLOCK_ROWS, Block};
use super::ask_for;
use std::cell::Cell;

const LINE_BYTES: usize = 64;

/// What will be read after a block: it is asked for, a few cache lines at a time, while the block is computed.
///
/// A processor has room for only so many lines on their way and may forget what it is asked for beyond that, so the asking is
/// spread over all of a block's work: [`scoring`] of it, [`summing`] of it, and the rest in between. Work that is done in several
/// parts may ask sooner.
pub(crate) struct Upcoming {
    /// The addresses where rows, runs of rows and other slices begin, and where they end: nothing is read there yet.
    pieces: [(usize, usize); BLOCK_ROWS + OTHERS],
    count: usize,
    /// Cache lines of all of them.
    lines: usize,
    /// The next piece to begin with.
    piece: Cell<usize>,
    /// The next address to ask for, and where its piece ends.
    place: Cell<(usize, usize)>,
}

/// Slices that may come along with a block of rows.
const OTHERS: usize = 4;

/// Eighths of the lines that are asked for while rows are scored.
pub(crate) fn scoring(outputs: usize) -> usize {
    4 - in_between(outputs)
}

/// Eighths of the lines that are asked for between scoring and adding up, twice: of several outputs there is little work in between, and
/// many lines at once would keep it waiting.
pub(crate) fn in_between(outputs: usize) -> usize {
    usize::from(outputs == 1)
}

/// Eighths of the lines that are asked for while rows are added up.
pub(crate) fn summing(outputs: usize) -> usize {
    4 - in_between(outputs)
}

impl Upcoming {
    /// No rows.
    pub(crate) fn nothing() -> Self {
        Upcoming {
            pieces: [(0, 0); BLOCK_ROWS + OTHERS],
            count: 0,
            lines: 0,
            piece: Cell::new(0),
            place: Cell::new((0, 0)),
        }
    }

    /// Forgets what was upcoming.
    #[inline]
    pub(crate) fn clear(&mut self) {
        (self.count, self.lines) = (0, 0);
        (self.piece, self.place) = (Cell::new(0), Cell::new((0, 0)));
    }

    /// Replaces it by a block of rows of a table of `width` columns.
    #[inline]
    pub(crate) fn set(&mut self, values: &[i16], width: usize, block: &Block<'_>) {
        self.clear();
        let row_bytes = width * size_of::<i16>();
        let start = |row: usize| values.as_ptr().addr().wrapping_add(row.wrapping_mul(row_bytes));
        let scattered = block.scattered();
        if !scattered.is_empty() {
            for &row in scattered {
                self.add(start(row as usize), row_bytes);
            }
        } else if !block.is_empty() {
            self.add(start(block.row(0)), block.len() * row_bytes);
        }
    }

    /// Adds a slice that will be read along with the rows: up to four of them.
    #[inline]
    pub(crate) fn and<T>(&mut self, slice: &[T]) {
        self.add(slice.as_ptr().addr(), size_of_val(slice));
    }

    #[inline]
    fn add(&mut self, start: usize, bytes: usize) {
        if let Some(piece) = self.pieces.get_mut(self.count) {
            // a piece may begin anywhere in its first line
            let lines = bytes.div_ceil(LINE_BYTES) + 1;
            *piece = (start, start.wrapping_add(lines * LINE_BYTES));
            self.count += 1;
            self.lines += lines;
        }
    }

    /// How many lines to ask for in each of so many turns, so that they make so many eighths of all.
    #[inline]
    pub(crate) fn share(&self, eighths: usize, turns: usize) -> usize {
        (self.lines * eighths).div_ceil(8 * turns.max(1))
    }

    /// Asks for the next few lines.
    #[inline]
    pub(crate) fn ask(&self, lines: usize) {
        let (mut address, mut end) = self.place.get();
        for _ in 0..lines {
            if address >= end {
                let Some(&piece) = self.pieces[..self.count].get(self.piece.get()) else { break };
                self.piece.set(self.piece.get() + 1);
                (address, end) = piece;
            }
            ask_for::<i16>(std::ptr::without_provenance(address));
            address = address.wrapping_add(LINE_BYTES);
        }
        self.place.set((address, end));
    }
}
