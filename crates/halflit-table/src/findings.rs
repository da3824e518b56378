//! The owner-side check: which cells lie outside their declared domain.

use std::fmt;

/// How many findings are listed one by one.
pub const LISTED_FINDINGS: usize = 100;

/// Cells outside their declared domains.
///
/// **For the data owner only.** A finding names a row and its cell, so nothing of this type may leave the owner's hands or
/// enter a release. The check is a separate step that releases nothing; the guarantee quantifies over tables without
/// findings (or, when coercing, over tables in which each finding was replaced by a rule that looks at its own unit alone).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Findings {
    file: String,
    total: u64,
    listed: Vec<Finding>,
    by_column: Vec<(String, u64)>,
    remarks: Vec<String>,
}

/// One cell, or one user, outside what was declared.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Data row, counted from 1 without the header.
    pub row: usize,
    /// Line of the file, where the file has lines.
    pub line: Option<u64>,
    /// Column of the cell.
    pub column: String,
    /// What is wrong with it.
    pub fault: Fault,
}

/// Why a cell is outside its domain.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// The cell is empty.
    Missing,
    /// The column has bounds, but the cell is not a finite number.
    NotANumber {
        /// What the cell says.
        text: String,
    },
    /// A number outside the bounds.
    OutOfBounds {
        /// The number.
        value: f64,
        /// The lower bound.
        low: f64,
        /// The upper bound.
        high: f64,
    },
    /// A text that is not among the declared values.
    NotListed {
        /// The text.
        text: String,
    },
    /// A user with more private rows than declared. The row is the first one too many.
    TooManyRows {
        /// The user id.
        user: String,
        /// Private rows of the user.
        rows: u64,
        /// The declared maximum.
        rows_per_user: u64,
    },
}

impl Findings {
    pub(crate) fn new(file: &str) -> Findings {
        Findings { file: file.to_owned(), ..Findings::default() }
    }

    /// Adds what one column (or the users) gave: how many, and the first of them in row order.
    pub(crate) fn add(&mut self, column: &str, total: u64, first: Vec<Finding>) {
        if total > 0 {
            self.total += total;
            self.by_column.push((column.to_owned(), total));
            self.listed.extend(first);
            self.listed.sort_by_key(|finding| finding.row);
            self.listed.truncate(LISTED_FINDINGS);
        }
    }

    pub(crate) fn remark(&mut self, remark: String) {
        self.remarks.push(remark);
    }

    /// Whether every cell is in its domain.
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// How many there are in all.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The first [`LISTED_FINDINGS`] in row order.
    pub fn listed(&self) -> &[Finding] {
        &self.listed
    }

    /// How many there are in each column that has any.
    pub fn by_column(&self) -> &[(String, u64)] {
        &self.by_column
    }

    /// What the owner should know but need not mend.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }
}

/// What may be said of findings to anyone: public cells one by one, of private cells the columns alone.
///
/// Which rows have them, what they say and how many they are would be a release without noise. That some are there is
/// said: a table with findings is outside the guarantee and is not trained on.
#[derive(Clone, Debug, PartialEq)]
pub struct PublicFindings {
    shown: Findings,
    private_columns: Vec<String>,
    crowded_users: Option<u64>,
}

impl PublicFindings {
    pub(crate) fn new(file: &str) -> PublicFindings {
        PublicFindings { shown: Findings::new(file), private_columns: Vec::new(), crowded_users: None }
    }

    /// Findings that everyone may see.
    pub(crate) fn show(&mut self, column: &str, total: u64, first: Vec<Finding>) {
        self.shown.add(column, total, first);
    }

    /// A column with findings that nobody but the owner may see.
    pub(crate) fn withhold(&mut self, column: &str) {
        self.private_columns.push(column.to_owned());
    }

    /// Users with more rows than `rows_per_user`, where the number of rows of a user is private.
    pub(crate) fn withhold_users(&mut self, rows_per_user: u64) {
        self.crowded_users = Some(rows_per_user);
    }

    /// The findings that everyone may see.
    pub fn shown(&self) -> &Findings {
        &self.shown
    }

    /// The columns with findings that are private.
    pub fn private_columns(&self) -> &[String] {
        &self.private_columns
    }
}

impl fmt::Display for PublicFindings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = &self.shown.file;
        let mut said: Vec<String> = Vec::new();
        if !self.shown.is_empty() {
            said.push(self.shown.to_string());
        }
        for column in &self.private_columns {
            said.push(format!("{file}: column `{column}` has private cells outside its declared domain"));
        }
        if let Some(rows) = self.crowded_users {
            said.push(format!(
                "{file}: some users have more private rows than rows_per_user, which is {rows}"
            ));
        }
        if !self.private_columns.is_empty() || self.crowded_users.is_some() {
            let owner = "what they are is private and is not said here; `halflit check` lists it for the owner of the data";
            said.push(owner.to_owned());
        }
        formatter.write_str(&said.join("\n"))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Missing => formatter.write_str("the cell is empty"),
            Fault::NotANumber { text } => write!(formatter, "`{text}` is not a number"),
            Fault::OutOfBounds { value, low, high } => {
                write!(formatter, "{value} is outside [{low}, {high}]")
            }
            Fault::NotListed { text } => write!(formatter, "`{text}` is not among the declared values"),
            Fault::TooManyRows { user, rows, rows_per_user } => {
                write!(
                    formatter,
                    "user `{user}` has {rows} private rows, but rows_per_user is {rows_per_user}"
                )
            }
        }
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            formatter.write_str("every cell is in its declared domain")?;
        } else {
            let findings = if self.total == 1 { "finding" } else { "findings" };
            write!(formatter, "{} {findings} outside what was declared:", self.total)?;
            for (column, count) in &self.by_column {
                write!(formatter, "\n  column `{column}`: {count}")?;
            }
        }
        for finding in &self.listed {
            match finding.line {
                Some(line) => write!(formatter, "\n{}:{line}", self.file)?,
                None => write!(formatter, "\n{}: row {}", self.file, finding.row)?,
            }
            write!(formatter, ": column `{}`: {}", finding.column, finding.fault)?;
        }
        let unlisted = self.total.saturating_sub(self.listed.len() as u64);
        if unlisted > 0 {
            write!(formatter, "\nand {unlisted} more")?;
        }
        self.remarks.iter().try_for_each(|remark| write!(formatter, "\n{remark}"))
    }
}
