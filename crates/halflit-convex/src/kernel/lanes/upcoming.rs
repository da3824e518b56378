//! Rows on their way from memory.

use super::super::block::{BLOCK_ROWS, Block};
use super::ask_for;
use std::cell::Cell;

const LINE_BYTES: usize = 64;

/// The rows that will be read after a block: they are asked for, a few cache lines at a time, while the block is computed.
///
/// A processor has room for only so many lines on their way and may forget what it is asked for beyond that, so the asking is
/// spread over all of a block's work: [`scoring`] of it, [`summing`] of it, and the rest in between. Work that is done in several
/// parts may ask sooner.
pub(crate) struct Upcoming {
    /// The addresses where rows, or runs of rows, begin: nothing is read there yet.
    pieces: [usize; BLOCK_ROWS],
    count: usize,
    /// Cache lines of each.
    lines: usize,
    /// The next piece to begin with.
    piece: Cell<usize>,
    /// The next address to ask for, and where its piece ends.
    place: Cell<(usize, usize)>,
}

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
            pieces: [0; BLOCK_ROWS],
            count: 0,
            lines: 0,
            piece: Cell::new(0),
            place: Cell::new((0, 0)),
        }
    }

    /// Replaces them by a block of rows of a table of `width` columns.
    #[inline]
    pub(crate) fn set(&mut self, values: &[i16], width: usize, block: &Block<'_>) {
        let start = |row: usize| values.as_ptr().wrapping_add(row.wrapping_mul(width)).addr();
        let scattered = block.scattered();
        // pieces may begin anywhere in their first line
        let lines = |rows: usize| (rows * width * size_of::<i16>()).div_ceil(LINE_BYTES) + 1;
        (self.piece, self.place) = (Cell::new(0), Cell::new((0, 0)));
        if scattered.is_empty() {
            self.count = usize::from(!block.is_empty());
            self.lines = lines(block.len());
            self.pieces[0] = start(if block.is_empty() { 0 } else { block.row(0) });
        } else {
            self.count = scattered.len();
            self.lines = lines(1);
            for (piece, &row) in self.pieces.iter_mut().zip(scattered) {
                *piece = start(row as usize);
            }
        }
    }

    /// How many lines to ask for in each of so many turns, so that they make so many eighths of all.
    #[inline]
    pub(crate) fn share(&self, eighths: usize, turns: usize) -> usize {
        (self.count * self.lines * eighths).div_ceil(8 * turns.max(1))
    }

    /// Asks for the next few lines.
    #[inline]
    pub(crate) fn ask(&self, lines: usize) {
        let (mut address, mut end) = self.place.get();
        for _ in 0..lines {
            if address >= end {
                let Some(&piece) = self.pieces[..self.count].get(self.piece.get()) else { break };
                self.piece.set(self.piece.get() + 1);
                (address, end) = (piece, piece.wrapping_add(self.lines * LINE_BYTES));
            }
            ask_for::<i16>(std::ptr::without_provenance(address));
            address = address.wrapping_add(LINE_BYTES);
        }
        self.place.set((address, end));
    }
}
