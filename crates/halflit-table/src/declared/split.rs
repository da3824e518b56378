//! Which rows are public, and which private rows belong together. Decided by public columns alone.

use super::BindError;
use crate::declaration::Protection;
use crate::encoding::number_texts;
use crate::findings::{Fault, Finding, LISTED_FINDINGS};
use crate::table::{MISSING, ReadCells, Table, Texts};
use crate::value::comparable;
use halflit_privacy::{PrivateRows, Unit};
use std::borrow::Cow;
use std::collections::HashSet;

/// The most private rows of one user that count when the declaration names no limit: a constant, so that how one user's rows are
/// treated never depends on how many rows another one has.
pub const MOST_ROWS_PER_USER: u64 = 1 << 24;

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
    pub(super) fn new(protection: &Protection, table: &Table) -> Result<Split, BindError> {
        let (public, private) = public_and_private(protection, table)?;
        let split = Split { public, private, offsets: None, too_many: (0, Vec::new()) };
        match protection.relation().unit() {
            Unit::Row => Ok(split),
            Unit::User { id_column } => split.by_user(table, id_column, protection),
        }
    }

    fn by_user(self, table: &Table, id_column: &str, protection: &Protection) -> Result<Split, BindError> {
        let most = protection.rows_per_user();
        let place_is_public = super::places_are_public(protection.relation());
        let ids = ComparableTexts::new(table, id_column)?;
        let users = ids.ranks();
        let mut rows_of: Vec<Vec<u32>> = vec![Vec::new(); users.iter().max().map_or(0, |last| last + 1)];
        for &row in &self.private {
            let code = ids.code(row).ok_or_else(|| BindError::NoUser {
                column: id_column.to_owned(),
                file: table.source().to_owned(),
                row: row as usize + 1,
                line: table.line(row as usize),
                place_is_public,
            })?;
            rows_of[users[code]].push(row);
        }
        let mut split = Split { private: Vec::with_capacity(self.private.len()), ..self };
        let mut offsets = vec![0];
        // A user whose rows are all public is not a unit.
        for mut rows in rows_of.into_iter().filter(|rows| !rows.is_empty()) {
            let rows_per_user = most.unwrap_or(MOST_ROWS_PER_USER);
            if rows.len() as u64 > rows_per_user {
                split.too_many(table, id_column, &rows, rows_per_user)?;
                rows.truncate(rows_per_user as usize);
            }
            split.private.append(&mut rows);
            offsets.push(split.private.len());
        }
        split.offsets = Some(offsets);
        Ok(split)
    }

    fn too_many(
        &mut self,
        table: &Table,
        id_column: &str,
        rows: &[u32],
        rows_per_user: u64,
    ) -> Result<(), BindError> {
        self.too_many.0 += 1;
        if self.too_many.1.len() < LISTED_FINDINGS {
            let extra = rows[rows_per_user as usize] as usize;
            let user = super::find(table, id_column)?.written(extra).unwrap_or_default();
            let fault = Fault::TooManyRows { user, rows: rows.len() as u64, rows_per_user };
            let column = id_column.to_owned();
            self.too_many.1.push(Finding { row: extra + 1, line: table.line(extra), column, fault });
        }
        Ok(())
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

/// The rows that the declaration's selector marks as public, and the others; both in file order.
pub(super) fn public_and_private(
    protection: &Protection,
    table: &Table,
) -> Result<(Vec<u32>, Vec<u32>), BindError> {
    let rows = 0..table.rows() as u32;
    Ok(match protection.relation().private_rows() {
        PrivateRows::All => (Vec::new(), rows.collect()),
        PrivateRows::Outside(selector) => {
            let wanted: HashSet<Cow<str>> = selector.values().iter().map(|value| comparable(value)).collect();
            let cells = ComparableTexts::new(table, selector.column())?;
            let is_wanted: Vec<bool> = cells.distinct.iter().map(|text| wanted.contains(text)).collect();
            // A row whose selector cell is empty is private.
            rows.partition(|&row| cells.code(row).is_some_and(|code| is_wanted[code]))
        }
    })
}

/// The distinct texts of a column, without the empty one.
pub(super) fn written_values(table: &Table, column: &str) -> Vec<String> {
    let texts = |texts: &Texts| texts.distinct.iter().map(|text| text.to_string()).collect();
    match super::find(table, column) {
        Ok(ReadCells::Text(cells)) => texts(cells),
        Ok(ReadCells::Numbers(cells)) => texts(&number_texts(&cells.values)),
        Err(_) => Vec::new(),
    }
}

/// The cells of a column as comparable texts.
struct ComparableTexts<'t> {
    codes: Cow<'t, [u32]>,
    distinct: Vec<Cow<'t, str>>,
}

impl<'t> ComparableTexts<'t> {
    fn new(table: &'t Table, column: &str) -> Result<ComparableTexts<'t>, BindError> {
        Ok(match super::find(table, column)? {
            ReadCells::Text(texts) => ComparableTexts {
                codes: Cow::Borrowed(&texts.codes),
                distinct: texts.distinct.iter().map(|text| comparable(text)).collect(),
            },
            ReadCells::Numbers(numbers) => {
                let texts = number_texts(&numbers.values);
                let owned = |text: &str| Cow::Owned(comparable(text).into_owned());
                let distinct = texts.distinct.iter().map(|text| owned(text)).collect();
                ComparableTexts { codes: Cow::Owned(texts.codes), distinct }
            }
        })
    }

    /// Which of the distinct texts a row has; none if it is empty.
    fn code(&self, row: u32) -> Option<usize> {
        Some(self.codes[row as usize]).filter(|&code| code != MISSING).map(|code| code as usize)
    }

    /// For each distinct text its rank among the sorted texts; texts that are the same value share a rank.
    ///
    /// Sorting makes the place of a user among the units depend on the ids alone, not on where rows stand.
    fn ranks(&self) -> Vec<usize> {
        let mut sorted: Vec<usize> = (0..self.distinct.len()).collect();
        sorted.sort_unstable_by(|&left, &right| self.distinct[left].cmp(&self.distinct[right]));
        let mut ranks = vec![0; sorted.len()];
        for pair in sorted.windows(2) {
            let differs = self.distinct[pair[0]] != self.distinct[pair[1]];
            ranks[pair[1]] = ranks[pair[0]] + usize::from(differs);
        }
        ranks
    }
}
