//! The cells of a column as its declared domain sees them.

use super::affine::Affine;
use crate::declaration::ColumnDomain;
use crate::findings::{Fault, Finding, LISTED_FINDINGS};
use crate::table::{MISSING, ReadCells, Table, Texts, TextsBuilder};
use crate::value::{comparable, parse_number};
use std::borrow::Cow;
use std::collections::HashMap;

/// Cells converted, where the file's type differs, to what the domain speaks about.
pub(crate) enum DomainCells<'a> {
    /// Numbers, NaN for missing and for what is not a number.
    Numbers(Cow<'a, [f64]>),
    /// Texts as codes; for every code its position among the declared values.
    Positions {
        codes: Cow<'a, [u32]>,
        /// [`MISSING`] for a text that is not declared.
        positions: Vec<u32>,
        /// The position of the empty text, if empty cells are declared.
        of_empty: Option<u32>,
    },
}

impl<'a> DomainCells<'a> {
    pub(crate) fn new(cells: ReadCells<'a>, domain: &ColumnDomain) -> DomainCells<'a> {
        match (domain, cells) {
            (ColumnDomain::Bounds { .. }, ReadCells::Numbers(numbers)) => {
                DomainCells::Numbers(Cow::Borrowed(&numbers.values))
            }
            (ColumnDomain::Bounds { .. }, ReadCells::Text(texts)) => {
                let number = |text: &str| parse_number(text.as_bytes()).unwrap_or(f64::NAN);
                let parsed: Vec<f64> = texts.distinct.iter().map(|text| number(text)).collect();
                let cell = |&code: &u32| parsed.get(code as usize).copied().unwrap_or(f64::NAN);
                DomainCells::Numbers(texts.codes.iter().map(cell).collect())
            }
            (ColumnDomain::Values(values), ReadCells::Text(texts)) => DomainCells::Positions {
                codes: Cow::Borrowed(&texts.codes),
                positions: positions(values, &texts.distinct),
                of_empty: of_empty(values),
            },
            (ColumnDomain::Values(values), ReadCells::Numbers(numbers)) => {
                let texts = number_texts(&numbers.values);
                let positions = positions(values, &texts.distinct);
                DomainCells::Positions {
                    codes: Cow::Owned(texts.codes),
                    positions,
                    of_empty: of_empty(values),
                }
            }
        }
    }

    /// The position of a row's text among the declared values; none if it is not among them.
    pub(crate) fn position(&self, row: usize) -> Option<u32> {
        match self {
            DomainCells::Numbers(_) => None,
            DomainCells::Positions { codes, of_empty, .. } if codes[row] == MISSING => *of_empty,
            DomainCells::Positions { codes, positions, .. } => {
                Some(positions[codes[row] as usize]).filter(|&position| position != MISSING)
            }
        }
    }

    /// The number in a row; NaN if there is none.
    pub(crate) fn number(&self, row: usize) -> f64 {
        match self {
            DomainCells::Numbers(values) => values[row],
            DomainCells::Positions { .. } => f64::NAN,
        }
    }
}

/// The position of each distinct text among the declared values.
fn positions(values: &[String], distinct: &[Box<str>]) -> Vec<u32> {
    let position_of: HashMap<Cow<str>, u32> = values.iter().map(|value| comparable(value)).zip(0..).collect();
    distinct.iter().map(|text| position_of.get(&comparable(text)).copied().unwrap_or(MISSING)).collect()
}

/// The position of the empty text, which stands for an empty cell.
fn of_empty(values: &[String]) -> Option<u32> {
    values.iter().zip(0..).find(|(value, _)| value.is_empty()).map(|(_, position)| position)
}

/// Numbers as the texts they have in a file.
pub(crate) fn number_texts(values: &[f64]) -> Texts {
    let mut texts = TextsBuilder::with_capacity(values.len());
    for value in values {
        if value.is_nan() { texts.push("") } else { texts.push(&value.to_string()) }
    }
    texts.finish()
}

/// Counts the cells of a column outside their domain in these rows, and describes the first of them.
pub(crate) fn inspect(
    table: &Table,
    name: &str,
    cells: ReadCells,
    domain: &ColumnDomain,
    rows: impl Iterator<Item = usize>,
) -> (u64, Vec<Finding>) {
    let seen = DomainCells::new(cells, domain);
    let in_domain = |row: usize| match domain {
        ColumnDomain::Bounds { low, high } => Affine::new(*low, *high).contains(seen.number(row)),
        ColumnDomain::Values(_) => seen.position(row).is_some(),
    };
    let mut total = 0;
    let mut first = Vec::new();
    for row in rows.filter(|&row| !in_domain(row)) {
        total += 1;
        if first.len() < LISTED_FINDINGS {
            let fault = fault(cells, domain, row);
            first.push(Finding { row: row + 1, line: table.line(row), column: name.to_owned(), fault });
        }
    }
    (total, first)
}

/// Why a cell is outside its domain. Only the first findings of a column are described, and for those the text of an
/// unreadable cell has been kept.
fn fault(cells: ReadCells, domain: &ColumnDomain, row: usize) -> Fault {
    let number = match cells {
        ReadCells::Numbers(numbers) => Some(numbers.values[row]).filter(|number| !number.is_nan()),
        ReadCells::Text(texts) => texts.get(row).and_then(|text| parse_number(text.as_bytes())),
    };
    match (domain, number, cells.written(row)) {
        (_, _, None) => Fault::Missing,
        (ColumnDomain::Values(_), _, Some(text)) => Fault::NotListed { text },
        (ColumnDomain::Bounds { low, high }, Some(value), _) => {
            Fault::OutOfBounds { value, low: *low, high: *high }
        }
        (ColumnDomain::Bounds { .. }, None, Some(text)) => Fault::NotANumber { text },
    }
}
