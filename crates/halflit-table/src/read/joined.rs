//! The columns of a file, joined from blocks that arrive in any order.
//!
//! A block is copied as soon as all blocks before it are there, and dropped: what is in memory is the table so far and the
//! few blocks in flight.

use super::sink::Piece;
use crate::table::{Cells, KEPT_UNREADABLE, LineMap, Numbers, TextsBuilder};
use std::collections::BTreeMap;

/// The rows of one block.
pub(super) struct ParsedBlock {
    /// Position in the file, counted from 0.
    pub(super) index: usize,
    pub(super) rows: usize,
    pub(super) lines: LineMap,
    pub(super) pieces: Vec<Piece>,
}

/// The columns so far.
pub(super) struct Joined {
    pub(super) columns: Vec<JoinedColumn>,
    pub(super) rows: usize,
    pub(super) lines: LineMap,
    next: usize,
    waiting: BTreeMap<usize, ParsedBlock>,
}

/// One column so far.
pub(super) enum JoinedColumn {
    /// No block yet.
    Empty,
    Skipped,
    Numbers(Numbers),
    Text(TextsBuilder),
    /// Numbers in one block and text in another: to be read again as text.
    Mixed,
}

impl Joined {
    pub(super) fn new(columns: usize) -> Joined {
        Joined {
            columns: (0..columns).map(|_| JoinedColumn::Empty).collect(),
            rows: 0,
            lines: LineMap::default(),
            next: 0,
            waiting: BTreeMap::new(),
        }
    }

    /// Takes a block, and appends all blocks that are next in order.
    pub(super) fn add(&mut self, block: ParsedBlock) {
        self.waiting.insert(block.index, block);
        while let Some(block) = self.waiting.remove(&self.next) {
            self.lines.append(self.rows, &block.lines);
            for (column, piece) in self.columns.iter_mut().zip(block.pieces) {
                column.append(self.rows, piece);
            }
            self.rows += block.rows;
            self.next += 1;
        }
    }
}

impl JoinedColumn {
    fn append(&mut self, first_row: usize, piece: Piece) {
        if let JoinedColumn::Empty = self {
            *self = match &piece {
                Piece::Skip => JoinedColumn::Skipped,
                Piece::Numbers(_) => JoinedColumn::Numbers(Numbers::default()),
                Piece::Text(_) => JoinedColumn::Text(TextsBuilder::default()),
                Piece::BecameText => JoinedColumn::Mixed,
            };
        }
        match (&mut *self, piece) {
            (JoinedColumn::Skipped, Piece::Skip) => {}
            (JoinedColumn::Text(texts), Piece::Text(piece)) => texts.append(&piece),
            (JoinedColumn::Numbers(numbers), Piece::Numbers(piece)) => {
                numbers.values.extend_from_slice(&piece.values);
                let room = KEPT_UNREADABLE - numbers.unreadable.len();
                let shifted = piece.unreadable.into_iter().map(|(row, text)| (first_row + row, text));
                numbers.unreadable.extend(shifted.take(room));
            }
            (column, _) => *column = JoinedColumn::Mixed,
        }
    }

    /// The cells; none if the column must be read again.
    pub(super) fn finish(self) -> Option<Cells> {
        match self {
            JoinedColumn::Numbers(numbers) => Some(Cells::Numbers(numbers)),
            JoinedColumn::Text(texts) => Some(Cells::Text(texts.finish())),
            JoinedColumn::Skipped | JoinedColumn::Empty => Some(Cells::NotRead(super::SKIPPED.to_owned())),
            JoinedColumn::Mixed => None,
        }
    }
}
