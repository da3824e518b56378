//! A table in memory: named columns of numbers or text, whose cells only this crate can read.

use crate::read::TableError;
use std::collections::HashMap;
use std::fmt;

/// A table: named columns of equal length.
///
/// The public interface shows the shape, the names and the types. No method hands out a cell: the cells of private
/// rows leave this crate only inside a [`crate::Sealed`] value.
///
/// ```
/// use halflit_table::{Column, Table};
/// let table = Table::from_columns(vec![
///     ("age".to_owned(), Column::Numbers(vec![31.0, 47.0])),
///     ("answer".to_owned(), Column::Text(vec!["yes".to_owned(), "no".to_owned()])),
/// ])?;
/// assert_eq!((table.rows(), table.width()), (2, 2));
/// # Ok::<(), halflit_table::TableError>(())
/// ```
pub struct Table {
    source: String,
    rows: usize,
    columns: Vec<TableColumn>,
    lines: LineMap,
}

/// A column given in memory.
pub enum Column {
    /// Numbers; NaN marks a missing cell. An infinite number lies outside every bound.
    Numbers(Vec<f64>),
    /// Texts; the empty text marks a missing cell. Spaces around a text are dropped, as in files.
    Text(Vec<String>),
}

/// What a column holds, as far as the public may know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    /// Every cell that is not empty is a finite number.
    Number,
    /// Text.
    Text,
    /// The column was skipped when reading, or has a type that cannot be encoded (a list, a nested record).
    NotRead,
}

impl fmt::Display for ColumnType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            ColumnType::Number => "number",
            ColumnType::Text => "text",
            ColumnType::NotRead => "not read",
        })
    }
}

pub(crate) struct TableColumn {
    pub(crate) name: String,
    pub(crate) cells: Cells,
}

/// The cells of a column.
pub(crate) enum Cells {
    Numbers(Numbers),
    Text(Texts),
    /// Why there are no cells.
    NotRead(String),
}

/// The cells of a column that has been read.
#[derive(Clone, Copy)]
pub(crate) enum ReadCells<'a> {
    Numbers(&'a Numbers),
    Text(&'a Texts),
}

impl ReadCells<'_> {
    /// What a cell says, as far as that was kept; none if it is missing.
    pub(crate) fn written(&self, row: usize) -> Option<String> {
        match self {
            ReadCells::Numbers(numbers) if !numbers.values[row].is_nan() => {
                Some(numbers.values[row].to_string())
            }
            ReadCells::Numbers(numbers) => numbers.unreadable_text(row).map(str::to_owned),
            ReadCells::Text(texts) => texts.get(row).map(str::to_owned),
        }
    }
}

impl TableColumn {
    /// The cells, or why there are none.
    pub(crate) fn read(&self) -> Result<ReadCells<'_>, &str> {
        match &self.cells {
            Cells::Numbers(numbers) => Ok(ReadCells::Numbers(numbers)),
            Cells::Text(texts) => Ok(ReadCells::Text(texts)),
            Cells::NotRead(reason) => Err(reason),
        }
    }
}

/// Numbers, with NaN for a missing cell.
#[derive(Default)]
pub(crate) struct Numbers {
    pub(crate) values: Vec<f64>,
    /// Rows whose text was not a number although the column was read as numbers, in row order. Their value is NaN.
    /// Only the first [`KEPT_UNREADABLE`] are kept, for messages.
    pub(crate) unreadable: Vec<(usize, Box<str>)>,
}

/// How many unreadable cells of a column keep their text.
pub(crate) const KEPT_UNREADABLE: usize = 1000;

impl Numbers {
    /// The text of an unreadable cell, if it was kept.
    pub(crate) fn unreadable_text(&self, row: usize) -> Option<&str> {
        let position = self.unreadable.binary_search_by_key(&row, |(at, _)| *at).ok()?;
        Some(&self.unreadable[position].1)
    }
}

/// Texts as codes into the distinct texts, in order of first appearance.
#[derive(Default)]
pub(crate) struct Texts {
    pub(crate) codes: Vec<u32>,
    pub(crate) distinct: Vec<Box<str>>,
}

/// The code of a missing text.
pub(crate) const MISSING: u32 = u32::MAX;

/// The most rows of a table: every row number and every code fits in 32 bits, with [`MISSING`] left over.
pub(crate) const MOST_ROWS: usize = u32::MAX as usize - 1;

impl Texts {
    pub(crate) fn get(&self, row: usize) -> Option<&str> {
        let code = self.codes[row];
        (code != MISSING).then(|| &*self.distinct[code as usize])
    }
}

/// Gives every distinct text its code.
#[derive(Default)]
pub(crate) struct TextsBuilder {
    codes: Vec<u32>,
    code_of: HashMap<Box<str>, u32>,
    /// Neighbouring rows often repeat a text; comparing with the last one is cheaper than hashing.
    last: (String, u32),
}

impl TextsBuilder {
    pub(crate) fn with_capacity(rows: usize) -> Self {
        TextsBuilder { codes: Vec::with_capacity(rows), ..TextsBuilder::default() }
    }

    /// Appends a cell; the empty text is a missing cell.
    pub(crate) fn push(&mut self, text: &str) {
        let code = if text.is_empty() { MISSING } else { self.code(text) };
        self.codes.push(code);
    }

    pub(crate) fn code(&mut self, text: &str) -> u32 {
        if self.last.0 == text && !text.is_empty() {
            return self.last.1;
        }
        let code = match self.code_of.get(text) {
            Some(&code) => code,
            None => {
                // At most one new code per row, so MOST_ROWS keeps this below MISSING.
                let code = self.code_of.len() as u32;
                self.code_of.insert(text.into(), code);
                code
            }
        };
        self.last.0.clear();
        self.last.0.push_str(text);
        self.last.1 = code;
        code
    }

    /// Appends all cells of another column.
    pub(crate) fn append(&mut self, texts: &Texts) {
        let codes: Vec<u32> = texts.distinct.iter().map(|text| self.code(text)).collect();
        self.codes.extend(
            texts.codes.iter().map(|&code| if code == MISSING { MISSING } else { codes[code as usize] }),
        );
    }

    pub(crate) fn finish(self) -> Texts {
        let mut distinct: Vec<Box<str>> = vec![Box::default(); self.code_of.len()];
        for (text, code) in self.code_of {
            distinct[code as usize] = text;
        }
        Texts { codes: self.codes, distinct }
    }
}

/// Which line of the file a row starts on, kept as runs of rows on consecutive lines.
#[derive(Default)]
pub(crate) struct LineMap {
    /// (first row of the run, its line)
    runs: Vec<(usize, u64)>,
}

impl LineMap {
    pub(crate) fn push(&mut self, row: usize, line: u64) {
        if self.line(row) != Some(line) {
            self.runs.push((row, line));
        }
    }

    /// Appends the runs of a block whose first row is `first_row`.
    pub(crate) fn append(&mut self, first_row: usize, block: &LineMap) {
        for &(row, line) in &block.runs {
            self.push(first_row + row, line);
        }
    }

    /// The line of a row; none for a table that did not come from lines.
    pub(crate) fn line(&self, row: usize) -> Option<u64> {
        let after = self.runs.partition_point(|&(first, _)| first <= row);
        let (first, line) = self.runs.get(after.checked_sub(1)?)?;
        Some(line + (row - first) as u64)
    }
}

impl Table {
    /// A table from columns in memory, for generated data and tests.
    ///
    /// # Errors
    /// Columns of unequal length, two columns of one name, an empty name, no rows.
    pub fn from_columns(columns: Vec<(String, Column)>) -> Result<Table, TableError> {
        let rows = columns.first().map_or(0, |(_, column)| column.len());
        let columns = columns.into_iter().map(|(name, column)| {
            let cells = match column {
                Column::Numbers(values) => Cells::Numbers(Numbers { values, unreadable: Vec::new() }),
                Column::Text(texts) => {
                    let mut builder = TextsBuilder::with_capacity(texts.len());
                    texts.iter().for_each(|text| builder.push(text.trim_ascii()));
                    Cells::Text(builder.finish())
                }
            };
            TableColumn { name, cells }
        });
        Table::checked("table in memory".to_owned(), rows, columns.collect(), LineMap::default())
    }

    /// The last step of every reader: what must hold for any table.
    pub(crate) fn checked(
        source: String,
        rows: usize,
        columns: Vec<TableColumn>,
        lines: LineMap,
    ) -> Result<Table, TableError> {
        check_names(&source, 1, columns.iter().map(|column| column.name.as_str()))?;
        for column in &columns {
            let found = column.cells.len().unwrap_or(rows);
            if found != rows {
                return Err(TableError::UnequalLengths {
                    column: column.name.clone(),
                    expected: rows,
                    found,
                });
            }
        }
        if rows == 0 {
            return Err(TableError::NoRows { file: source, columns: columns.len() });
        }
        if rows > MOST_ROWS {
            return Err(TableError::TooManyRows { file: source, rows: rows as u64, most: MOST_ROWS as u64 });
        }
        Ok(Table { source, rows, columns, lines })
    }

    /// The file the table came from, as the caller named it.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn width(&self) -> usize {
        self.columns.len()
    }

    /// Names of the columns, in file order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(|column| column.name.as_str())
    }

    /// What a column holds, if there is a column of this name.
    pub fn column_type(&self, name: &str) -> Option<ColumnType> {
        self.column(name).map(|column| column.cells.column_type())
    }

    pub(crate) fn column(&self, name: &str) -> Option<&TableColumn> {
        self.columns.iter().find(|column| column.name == name)
    }

    pub(crate) fn columns(&self) -> &[TableColumn] {
        &self.columns
    }

    /// The line of the file on which a row starts.
    pub(crate) fn line(&self, row: usize) -> Option<u64> {
        self.lines.line(row)
    }
}

impl Cells {
    fn len(&self) -> Option<usize> {
        match self {
            Cells::Numbers(numbers) => Some(numbers.values.len()),
            Cells::Text(texts) => Some(texts.codes.len()),
            Cells::NotRead(_) => None,
        }
    }

    pub(crate) fn column_type(&self) -> ColumnType {
        match self {
            Cells::Numbers(_) => ColumnType::Number,
            Cells::Text(_) => ColumnType::Text,
            Cells::NotRead(_) => ColumnType::NotRead,
        }
    }
}

/// Refuses empty and repeated names.
pub(crate) fn check_names<'a>(
    file: &str,
    line: u64,
    names: impl Iterator<Item = &'a str>,
) -> Result<(), TableError> {
    let mut seen: HashMap<&str, usize> = HashMap::new();
    for (index, name) in names.enumerate() {
        let column = index + 1;
        if name.is_empty() {
            return Err(TableError::EmptyName { file: file.to_owned(), line, column });
        }
        if let Some(first) = seen.insert(name, column) {
            return Err(TableError::DuplicateColumn {
                file: file.to_owned(),
                line,
                name: name.to_owned(),
                first,
                second: column,
            });
        }
    }
    Ok(())
}

/// The shape only: a debug print of a table must not show its cells.
impl fmt::Debug for Table {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Table({}: {} rows, {} columns)", self.source, self.rows, self.columns.len())
    }
}

impl Column {
    fn len(&self) -> usize {
        match self {
            Column::Numbers(values) => values.len(),
            Column::Text(texts) => texts.len(),
        }
    }
}

impl fmt::Debug for Column {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Column({} rows)", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_survive_gaps() {
        let mut lines = LineMap::default();
        for (row, line) in [(0, 2), (1, 3), (2, 7), (3, 8), (4, 8)] {
            lines.push(row, line);
        }
        let read: Vec<_> = (0..5).map(|row| lines.line(row)).collect();
        assert_eq!(read, [Some(2), Some(3), Some(7), Some(8), Some(8)]);
        assert_eq!(lines.runs.len(), 3);
    }

    #[test]
    fn printing_a_table_shows_no_cell() {
        let table = Table::from_columns(vec![
            ("secret".to_owned(), Column::Text(vec!["attack at dawn".to_owned()])),
            ("amount".to_owned(), Column::Numbers(vec![271828.0])),
        ])
        .unwrap();
        let printed = format!("{table:?}");
        assert!(printed.contains("1 rows, 2 columns"));
        assert!(!printed.contains("dawn") && !printed.contains("271828"));
    }

    #[test]
    fn codes_are_in_order_of_first_appearance() {
        let mut builder = TextsBuilder::default();
        for text in ["b", "a", "", "b", "c"] {
            builder.push(text);
        }
        let texts = builder.finish();
        assert_eq!(texts.codes, [0, 1, MISSING, 0, 2]);
        assert_eq!(texts.distinct.iter().map(|text| &**text).collect::<Vec<_>>(), ["b", "a", "c"]);
        let mut joined = TextsBuilder::default();
        joined.push("c");
        joined.append(&texts);
        assert_eq!(joined.finish().codes, [0, 1, 2, MISSING, 1, 0]);
    }

    #[test]
    fn unequal_repeated_and_empty_columns_are_refused() {
        let numbers = |rows: usize| Column::Numbers(vec![0.0; rows]);
        let make = |columns: Vec<(&str, Column)>| {
            Table::from_columns(columns.into_iter().map(|(name, column)| (name.to_owned(), column)).collect())
        };
        assert!(matches!(
            make(vec![("a", numbers(2)), ("b", numbers(3))]),
            Err(TableError::UnequalLengths { expected: 2, found: 3, .. })
        ));
        assert!(matches!(
            make(vec![("a", numbers(2)), ("a", numbers(2))]),
            Err(TableError::DuplicateColumn { first: 1, second: 2, .. })
        ));
        assert!(matches!(make(vec![("", numbers(2))]), Err(TableError::EmptyName { column: 1, .. })));
        assert!(matches!(make(vec![]), Err(TableError::NoRows { columns: 0, .. })));
        assert!(matches!(make(vec![("a", numbers(0))]), Err(TableError::NoRows { columns: 1, .. })));
    }
}
