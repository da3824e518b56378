//! Which rows are public, and which private rows belong together. Decided by public columns alone.

use super::BindError;
use crate::declaration::Declaration;
use crate::findings::{Fault, Finding, LISTED_FINDINGS};
use crate::table::{ReadCells, Table};
use crate::value::comparable;
use halflit_privacy::{PrivateRows, Unit};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

/// The rows of a table, sorted into public ones and private units.
pub(super) struct Split {
    /// Public rows, in file order.
    pub(super) public: Vec<u32>,
    /// Private rows: in file order, or user by user (users sorted by id, rows of a user in file order).
    pub(super) private: Vec<u32>,
    /// Where each user's rows start in `private`, and the end; none if the unit is a row.
    pub(super) offsets: Option<Vec<usize>>,
    /// Users with more rows than declared: how many, and the first of them. Their later rows are left out.
    pub(super) too_many: (u64, Vec<Finding>),
}

impl Split {
    pub(super) fn new(declaration: &Declaration, table: &Table) -> Result<Split, BindError> {
        let is_public = public_rows(declaration, table)?;
        let rows = 0..table.rows() as u32;
        let (public, private): (Vec<u32>, Vec<u32>) = rows.partition(|&row| is_public(row as usize));
        let split = Split { public, private, offsets: None, too_many: (0, Vec::new()) };
        match declaration.relation().unit() {
            Unit::Row => Ok(split),
            Unit::User { id_column } => split.by_user(table, id_column, declaration.rows_per_user()),
        }
    }

    fn by_user(self, table: &Table, id_column: &str, most: Option<u64>) -> Result<Split, BindError> {
        let ids = texts(table, id_column)?;
        // Sorted by id: the place of a user among the units depends on the public ids alone, not on where rows stand.
        let mut rows_of: BTreeMap<Cow<str>, Vec<u32>> = BTreeMap::new();
        for &row in &self.private {
            let id = ids.get(row as usize).ok_or_else(|| BindError::NoUser {
                column: id_column.to_owned(),
                file: table.source().to_owned(),
                row: row as usize + 1,
                line: table.line(row as usize),
            })?;
            rows_of.entry(id).or_default().push(row);
        }
        let mut split = Split { private: Vec::with_capacity(self.private.len()), offsets: None, ..self };
        let mut offsets = vec![0];
        for rows in rows_of.into_values() {
            let kept = most
                .and_then(|most| usize::try_from(most).ok())
                .map_or(rows.len(), |most| most.min(rows.len()));
            if let (Some(&extra), Some(rows_per_user)) = (rows.get(kept), most) {
                split.too_many.0 += 1;
                if split.too_many.1.len() < LISTED_FINDINGS {
                    let user = super::find(table, id_column)?.written(extra as usize).unwrap_or_default();
                    let fault = Fault::TooManyRows { user, rows: rows.len() as u64, rows_per_user };
                    let (row, line) = (extra as usize + 1, table.line(extra as usize));
                    split.too_many.1.push(Finding { row, line, column: id_column.to_owned(), fault });
                }
            }
            split.private.extend_from_slice(&rows[..kept]);
            offsets.push(split.private.len());
        }
        split.offsets = Some(offsets);
        Ok(split)
    }

    /// The most rows of one user.
    pub(super) fn largest_user(&self) -> Option<u64> {
        let offsets = self.offsets.as_ref()?;
        offsets.windows(2).map(|pair| (pair[1] - pair[0]) as u64).max()
    }

    pub(super) fn units(&self) -> u64 {
        self.offsets.as_ref().map_or(self.private.len(), |offsets| offsets.len() - 1) as u64
    }
}

/// Whether a row is public. A row whose selector cell is empty is private.
fn public_rows<'t>(
    declaration: &Declaration,
    table: &'t Table,
) -> Result<Box<dyn Fn(usize) -> bool + 't>, BindError> {
    let PrivateRows::Outside(selector) = declaration.relation().private_rows() else {
        return Ok(Box::new(|_| false));
    };
    let cells = texts(table, selector.column())?;
    let wanted: HashSet<String> =
        selector.values().iter().map(|value| comparable(value).into_owned()).collect();
    Ok(Box::new(move |row| cells.get(row).is_some_and(|value| wanted.contains(value.as_ref()))))
}

/// The cells of a column as comparable texts.
struct ComparableTexts<'t> {
    codes: Cow<'t, [u32]>,
    distinct: Vec<Cow<'t, str>>,
}

impl<'t> ComparableTexts<'t> {
    fn get(&self, row: usize) -> Option<Cow<'t, str>> {
        self.distinct.get(self.codes[row] as usize).cloned()
    }
}

fn texts<'t>(table: &'t Table, column: &str) -> Result<ComparableTexts<'t>, BindError> {
    match super::find(table, column)? {
        ReadCells::Text(texts) => Ok(ComparableTexts {
            codes: Cow::Borrowed(&texts.codes),
            distinct: texts.distinct.iter().map(|text| comparable(text)).collect(),
        }),
        ReadCells::Numbers(numbers) => {
            let texts = crate::encoding::number_texts(&numbers.values);
            let distinct =
                texts.distinct.iter().map(|text| Cow::Owned(comparable(text).into_owned())).collect();
            Ok(ComparableTexts { codes: Cow::Owned(texts.codes), distinct })
        }
    }
}
