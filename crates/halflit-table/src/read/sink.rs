//! Where the cells of one column go while a file is read.

use super::ReadAs;
use crate::table::{Cells, KEPT_UNREADABLE, Numbers, Texts, TextsBuilder};
use crate::value::parse_number;

/// A cell's text is not UTF-8.
pub(super) struct NotUtf8;

/// Collects the cells of one column.
pub(super) enum Sink {
    Skip,
    Numbers { numbers: Numbers, on_text: OnText },
    Text(TextsBuilder),
}

/// What a cell that is not a number does to a column of numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum OnText {
    /// The column was declared to hold numbers: the cell is unreadable.
    Unreadable,
    /// The type is inferred: the column holds text.
    BecomesText,
    /// It has become text; its cells are not collected here any more.
    BecameText,
}

/// What a sink collected: the cells of a column in one block, or in a whole typed file.
pub(super) enum Piece {
    Skip,
    Numbers(Numbers),
    Text(Texts),
    /// The column turned out to be text: it must be read again as such.
    BecameText,
}

impl Sink {
    pub(super) fn new(read_as: ReadAs, rows: usize) -> Sink {
        let numbers = |on_text| Sink::Numbers {
            numbers: Numbers { values: Vec::with_capacity(rows), unreadable: Vec::new() },
            on_text,
        };
        match read_as {
            ReadAs::Skipped => Sink::Skip,
            ReadAs::Number => numbers(OnText::Unreadable),
            ReadAs::Inferred => numbers(OnText::BecomesText),
            ReadAs::Text => Sink::Text(TextsBuilder::with_capacity(rows)),
        }
    }

    /// Appends a cell whose surrounding spaces are gone; empty is missing.
    pub(super) fn push(&mut self, row: usize, cell: &[u8]) -> Result<(), NotUtf8> {
        match self {
            Sink::Skip => Ok(()),
            Sink::Text(texts) => {
                texts.push(std::str::from_utf8(cell).map_err(|_| NotUtf8)?);
                Ok(())
            }
            Sink::Numbers { numbers, on_text } => match parse_number(cell) {
                Some(value) => {
                    numbers.values.push(value);
                    Ok(())
                }
                None => push_not_a_number(numbers, on_text, row, cell),
            },
        }
    }

    /// Appends a missing cell.
    pub(super) fn push_missing(&mut self) {
        match self {
            Sink::Skip => {}
            Sink::Text(texts) => texts.push(""),
            Sink::Numbers { numbers, .. } => numbers.values.push(f64::NAN),
        }
    }

    /// Appends a number of a typed file; NaN is missing. As text it is its shortest decimal.
    pub(super) fn push_number(&mut self, value: f64) {
        match self {
            Sink::Numbers { numbers, .. } => numbers.values.push(value),
            Sink::Text(texts) if !value.is_nan() => texts.push(&value.to_string()),
            _ => self.push_missing(),
        }
    }

    /// Appends an integer of a typed file. As text it keeps all its digits, so that 64-bit identifiers stay apart.
    pub(super) fn push_integer(&mut self, value: i128) {
        match self {
            Sink::Text(texts) => texts.push(&value.to_string()),
            _ => self.push_number(value as f64),
        }
    }

    pub(super) fn finish(self) -> Piece {
        match self {
            Sink::Skip => Piece::Skip,
            Sink::Text(texts) => Piece::Text(texts.finish()),
            Sink::Numbers { on_text: OnText::BecameText, .. } => Piece::BecameText,
            Sink::Numbers { numbers, .. } => Piece::Numbers(numbers),
        }
    }
}

impl From<Piece> for Cells {
    fn from(piece: Piece) -> Cells {
        match piece {
            Piece::Numbers(numbers) => Cells::Numbers(numbers),
            Piece::Text(texts) => Cells::Text(texts),
            Piece::Skip | Piece::BecameText => Cells::NotRead(super::SKIPPED.to_owned()),
        }
    }
}

#[cold]
fn push_not_a_number(
    numbers: &mut Numbers,
    on_text: &mut OnText,
    row: usize,
    cell: &[u8],
) -> Result<(), NotUtf8> {
    numbers.values.push(f64::NAN);
    if cell.is_empty() {
        return Ok(());
    }
    let text = std::str::from_utf8(cell).map_err(|_| NotUtf8)?;
    match on_text {
        OnText::Unreadable if numbers.unreadable.len() < KEPT_UNREADABLE => {
            numbers.unreadable.push((row, text.into()));
        }
        OnText::Unreadable => {}
        OnText::BecomesText | OnText::BecameText => *on_text = OnText::BecameText,
    }
    Ok(())
}
