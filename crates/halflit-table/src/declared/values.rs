//! Chosen numeric columns of a declared table, each mapped to [-1, 1]: what means are taken of.

use super::split::{Split, public_and_private};
use super::{
    BindError, Protected, PublicFacts, Shape, Units, add_unit_findings, check_columns, checked_split,
    is_sensitive, public_facts,
};
use crate::declaration::{ColumnDomain, DeclaredColumn, Protection, Role, listed, nearest, quoted_key};
use crate::encoding::{
    Affine, DomainCells, EncodeError, OutOfDomain, default_number, find, inspect, or_default,
};
use crate::findings::Findings;
use crate::read::{ReadAs, ReadOptions};
use crate::sealed::Sealed;
use crate::table::Table;
use halflit_convex::FEATURE_BITS;
use halflit_privacy::PrivateRows;
use std::fmt;
use thiserror::Error;

/// Why chosen columns could not be taken from a table.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ValuesError {
    /// No column was chosen.
    #[error("no column was chosen; name at least one column with bounds, such as --columns age,income")]
    NoColumns,
    /// A chosen column is not declared.
    #[error(
        "{declaration}: column `{column}` is not declared{}; declared with bounds are: {}; if the file has it, add [columns.{}] with bounds = [lowest, highest]",
        hint(nearest),
        listed(has),
        quoted_key(column)
    )]
    NotDeclared {
        /// The declaration's file.
        declaration: String,
        /// What was asked for.
        column: String,
        /// The declared column closest in spelling.
        nearest: Option<String>,
        /// The columns that could be chosen.
        has: Vec<String>,
    },
    /// A chosen column has no bounds.
    #[error(
        "{declaration}: column `{column}` has no bounds, so one row could move its mean without limit; declare bounds = [lowest, highest] \
         (0 and 1 for a yes-or-no column)"
    )]
    NoBounds {
        /// The declaration's file.
        declaration: String,
        /// The column.
        column: String,
    },
    /// A chosen column is declared as not used.
    #[error(
        "{declaration}: column `{column}` is not in use, so it has no mean to release; remove `use = false`"
    )]
    NotUsed {
        /// The declaration's file.
        declaration: String,
        /// The column.
        column: String,
    },
    /// A chosen column is the user id or the selector, which are used only on request.
    #[error(
        "{declaration}: column `{column}` says whose a row is or whether it is public, and is not averaged unless it says so; if its mean is wanted, \
         set `use = true` and bounds = [lowest, highest]"
    )]
    Structural {
        /// The declaration's file.
        declaration: String,
        /// The column.
        column: String,
    },
    /// A declaration that marks no row as public.
    #[error(
        "{declaration}: no row is public, because [protect] has no `public_rows`; declare which rows are, or say that every row of the file is \
         (--all-rows-public)"
    )]
    NoPublicRows {
        /// The declaration's file.
        declaration: String,
    },
    /// A column was chosen twice.
    #[error("column `{column}` was chosen twice; name it once")]
    Repeated {
        /// The column.
        column: String,
    },
    /// The declaration does not fit the file.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// Cells outside their bounds.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

fn hint(nearest: &Option<String>) -> String {
    nearest.as_ref().map_or(String::new(), |nearest| format!(" (did you mean `{nearest}`?)"))
}

/// A numeric column and its map to [-1, 1].
#[derive(Clone, Debug, PartialEq)]
pub struct ValueColumn {
    name: String,
    affine: Affine,
    bounds: (f64, f64),
    sensitive: bool,
    default: Option<String>,
}

impl ValueColumn {
    /// A column known from elsewhere, such as a message; none unless the bounds are finite, in order and apart.
    pub fn new(name: &str, low: f64, high: f64) -> Option<ValueColumn> {
        let affine = Affine::new(low, high);
        let column = || ValueColumn {
            name: name.to_owned(),
            affine,
            bounds: (low, high),
            sensitive: true,
            default: None,
        };
        affine.is_sound().then(column)
    }

    /// Its name in the file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The declared bounds.
    pub fn bounds(&self) -> (f64, f64) {
        self.bounds
    }

    /// Whether its cells are secret in private rows.
    pub fn is_sensitive(&self) -> bool {
        self.sensitive
    }

    /// From [-1, 1] back to the units of the column.
    pub fn decode(&self, encoded: f64) -> f64 {
        self.affine.decode(encoded)
    }

    /// A length in encoded units, in units of the column.
    pub fn decode_length(&self, encoded: f64) -> f64 {
        encoded * (self.bounds.1 / 2.0 - self.bounds.0 / 2.0)
    }

    fn domain(&self) -> ColumnDomain {
        ColumnDomain::Bounds { low: self.bounds.0, high: self.bounds.1 }
    }

    /// The cells of these rows, encoded.
    fn encoded(&self, table: &Table, order: &[u32]) -> Result<Vec<f64>, EncodeError> {
        let cells = DomainCells::new(find(table, &self.name)?, &self.domain());
        let default = default_number(self.default.as_deref());
        let cell = |&row: &u32| self.affine.encode(or_default(cells.number(row as usize), default));
        Ok(order.iter().map(cell).collect())
    }

    /// Encodes columns of a file whose rows are all public, row after row. Whoever calls this says that they are.
    ///
    /// # Errors
    /// A missing column; cells outside their bounds if they are refused.
    pub fn encode_all_as_public(
        columns: &[ValueColumn],
        table: &Table,
        out_of_domain: OutOfDomain,
    ) -> Result<Vec<f64>, EncodeError> {
        let rows: Vec<u32> = (0..table.rows() as u32).collect();
        ValueColumn::encode_rows(columns, table, &rows, out_of_domain)
    }

    /// Encodes columns of the rows that a declaration marks as public, row after row. Of the other rows nothing but the selector is looked at.
    ///
    /// # Errors
    /// The declaration marks no rows; a missing column; cells outside their bounds if they are refused.
    pub fn encode_public(
        columns: &[ValueColumn],
        protection: &Protection,
        table: &Table,
        out_of_domain: OutOfDomain,
    ) -> Result<Vec<f64>, ValuesError> {
        if *protection.relation().private_rows() == PrivateRows::All {
            return Err(ValuesError::NoPublicRows { declaration: protection.file().to_owned() });
        }
        let (public, _) = public_and_private(protection, table)?;
        Ok(ValueColumn::encode_rows(columns, table, &public, out_of_domain)?)
    }

    fn encode_rows(
        columns: &[ValueColumn],
        table: &Table,
        rows: &[u32],
        out_of_domain: OutOfDomain,
    ) -> Result<Vec<f64>, EncodeError> {
        if out_of_domain == OutOfDomain::Refuse {
            let findings = findings(columns, table, rows)?;
            if !findings.is_empty() {
                return Err(EncodeError::OutOfDomain(findings));
            }
        }
        cells(columns, table, rows)
    }

    /// How such a file is read. With a declaration, its selector of public rows is read as well.
    pub fn read_options(columns: &[ValueColumn], protection: Option<&Protection>) -> ReadOptions {
        let mut options = ReadOptions::default().others(ReadAs::Skipped);
        for column in columns {
            options = options.column(&column.name, ReadAs::Number);
        }
        match protection.map(|protection| protection.relation().private_rows()) {
            Some(PrivateRows::Outside(selector)) => options.column(selector.column(), ReadAs::Text),
            _ => options,
        }
    }
}

/// Chosen columns of a declared table, row after row, every cell in [-1, 1]. Private rows are sealed.
pub struct Values {
    protection: Protection,
    columns: Vec<ValueColumn>,
    facts: PublicFacts,
    public: Vec<f64>,
    private: Sealed<Vec<f64>>,
    units: Sealed<Units>,
}

impl Values {
    /// The chosen columns of a declaration, checked before any file is read.
    ///
    /// # Errors
    /// A column that is not declared, has no bounds, is not in use, or is named twice.
    pub fn choose(protection: &Protection, chosen: &[String]) -> Result<Vec<ValueColumn>, ValuesError> {
        let declaration = || protection.file().to_owned();
        if chosen.is_empty() {
            return Err(ValuesError::NoColumns);
        }
        let mut columns: Vec<ValueColumn> = Vec::new();
        for name in chosen {
            let column = name.clone();
            let Some(declared) = protection.column(name) else {
                let usable = protection.columns().iter().filter(|column| column.role != Role::Unused);
                let usable =
                    usable.filter(|column| matches!(column.domain, Some(ColumnDomain::Bounds { .. })));
                let has: Vec<&str> = usable.map(|column| column.name.as_str()).collect();
                let nearest = nearest(name, &has).map(str::to_owned);
                let has = has.into_iter().map(str::to_owned).collect();
                return Err(ValuesError::NotDeclared { declaration: declaration(), column, nearest, has });
            };
            if declared.role == Role::Unused {
                let declaration = declaration();
                return Err(match protection.structural_columns().any(|structural| structural == name) {
                    true => ValuesError::Structural { declaration, column },
                    false => ValuesError::NotUsed { declaration, column },
                });
            }
            let Some(ColumnDomain::Bounds { low, high }) = declared.domain else {
                return Err(ValuesError::NoBounds { declaration: declaration(), column });
            };
            if columns.iter().any(|earlier| earlier.name == *name) {
                return Err(ValuesError::Repeated { column });
            }
            let sensitive = is_sensitive(protection.relation(), name);
            columns.push(ValueColumn {
                name: column,
                affine: Affine::new(low, high),
                bounds: (low, high),
                sensitive,
                default: declared.default.clone(),
            });
        }
        Ok(columns)
    }

    /// How a file is read for the chosen columns.
    pub fn read_options(protection: &Protection, columns: &[ValueColumn]) -> ReadOptions {
        protection.read_options(|declared| columns.iter().any(|column| column.name == declared.name))
    }

    /// Takes the chosen columns from a table. The private part comes out sealed.
    ///
    /// # Errors
    /// The declaration does not fit the file; with [`OutOfDomain::Refuse`], cells outside their bounds; of private ones the columns are named.
    pub fn bind(
        protection: Protection,
        mut columns: Vec<ValueColumn>,
        table: &Table,
        out_of_domain: OutOfDomain,
    ) -> Result<Values, ValuesError> {
        // Who is protected is decided by the declaration that the table is bound to, wherever the columns come from.
        for column in &mut columns {
            column.sensitive = is_sensitive(protection.relation(), &column.name);
        }
        let is_chosen = |name: &str| columns.iter().any(|column| column.name == name);
        check_columns(&protection, table, |_| true, |declared| is_chosen(&declared.name))?;
        let split = checked_split(&protection, table)?;
        if out_of_domain == OutOfDomain::Refuse {
            let domains: Vec<(&str, ColumnDomain)> =
                columns.iter().map(|column| (column.name(), column.domain())).collect();
            Protected { protection: &protection, table, split: &split }
                .refuse_findings(&domains, |_| true)?;
        }
        let facts = public_facts(&protection, shape(columns.len()), table, &split);
        let Split { public, private, offsets, .. } = split;
        let units = match offsets {
            None => Units::Rows(private.len()),
            Some(offsets) => Units::Users { offsets },
        };
        Ok(Values {
            public: cells(&columns, table, &public)?,
            private: Sealed::new(cells(&columns, table, &private)?),
            units: Sealed::new(units),
            protection,
            columns,
            facts,
        })
    }

    /// The owner-side check of a declaration that needs no task: what everyone may know of a table from which all numeric columns are
    /// taken, and every cell outside its declared domain. The findings are **for the data owner only**.
    ///
    /// # Errors
    /// The declaration does not fit the file.
    pub fn check_everything(
        protection: &Protection,
        table: &Table,
    ) -> Result<(PublicFacts, Findings), ValuesError> {
        let is_used = |column: &DeclaredColumn| column.role != Role::Unused;
        check_columns(protection, table, |_| true, is_used)?;
        let split = checked_split(protection, table)?;
        let mut findings = Findings::new(table.source());
        let mut numbers = 0;
        for column in protection.columns().iter().filter(|column| is_used(column)) {
            let Some(domain) = &column.domain else { continue };
            numbers += usize::from(matches!(domain, ColumnDomain::Bounds { .. }));
            let cells = find(table, &column.name)?;
            let (total, first) = inspect(table, &column.name, cells, domain, 0..table.rows());
            findings.add(&column.name, total, first);
        }
        add_unit_findings(&mut findings, protection, table, &split);
        Ok((public_facts(protection, shape(numbers), table, &split), findings))
    }

    /// The declaration's protection.
    pub fn protection(&self) -> &Protection {
        &self.protection
    }

    /// The chosen columns, in the order of the rows' cells.
    pub fn columns(&self) -> &[ValueColumn] {
        &self.columns
    }

    /// What everyone may know.
    pub fn facts(&self) -> &PublicFacts {
        &self.facts
    }

    /// The public rows, one after the other, in file order.
    pub fn public_rows(&self) -> &[f64] {
        &self.public
    }

    /// The private rows, one after the other, unit by unit.
    pub fn private_rows(&self) -> &Sealed<Vec<f64>> {
        &self.private
    }

    /// Which private rows form a unit.
    pub fn units(&self) -> &Sealed<Units> {
        &self.units
    }

    /// For a public column, its cells in the private rows with the units they belong to: the same for all neighbours.
    ///
    /// A column is public only where some columns are sensitive by name, and then every unit's rows are known to everyone.
    pub fn open_column(&self, column: usize) -> Option<(Vec<f64>, &Units)> {
        self.columns.get(column).filter(|column| !column.sensitive)?;
        let cells = self.private.content_for_public_part();
        let cells = cells.iter().skip(column).step_by(self.columns.len()).copied().collect();
        Some((cells, self.units.content_for_public_part()))
    }
}

/// The public facts only.
impl fmt::Debug for Values {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Values").field("facts", &self.facts).finish_non_exhaustive()
    }
}

/// Rows with one coordinate from each of these numeric columns.
fn shape(columns: usize) -> Shape {
    Shape {
        features: columns,
        width: columns,
        row_norm_bound: (columns as f64).sqrt().next_up(),
        largest_squared_norm: (columns as u64) << (2 * FEATURE_BITS),
        sparse: false,
    }
}

/// The cells outside their bounds in these rows.
fn findings(columns: &[ValueColumn], table: &Table, rows: &[u32]) -> Result<Findings, EncodeError> {
    let mut findings = Findings::new(table.source());
    for column in columns {
        let (cells, rows) = (find(table, &column.name)?, rows.iter().map(|&row| row as usize));
        let (total, first) = inspect(table, &column.name, cells, &column.domain(), rows);
        findings.add(&column.name, total, first);
    }
    Ok(findings)
}

/// The cells of these rows, row after row.
fn cells(columns: &[ValueColumn], table: &Table, order: &[u32]) -> Result<Vec<f64>, EncodeError> {
    let width = columns.len();
    let mut values = vec![0.0; order.len() * width];
    for (index, column) in columns.iter().enumerate() {
        let cells = column.encoded(table, order)?;
        for (row, cell) in values.chunks_exact_mut(width).zip(cells) {
            row[index] = cell;
        }
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sealed::Unsealed;
    use crate::table::Column;

    const DECLARATION: &str = "
        budget = { epsilon = 1.0, delta = 1e-6 }
        protect = { unit = 'user', user = 'who', public_rows = { column = 'consent', equals = 'yes' } }
        [columns]
        who = { visibility = 'public' }
        consent = { visibility = 'public' }
        age = { bounds = [0, 100], visibility = 'public' }
        income = { bounds = [-10, 10] }
        ward = { values = ['north', 'south'] }
        left = { use = false }";

    fn protection() -> Protection {
        Protection::parse(DECLARATION, "privacy.toml").unwrap_or_else(|error| panic!("{error}"))
    }

    fn table(income: [f64; 4]) -> Table {
        let text = |cells: [&str; 4]| Column::Text(cells.map(str::to_owned).to_vec());
        let columns = [
            ("who", text(["b", "a", "b", "c"])),
            ("consent", text(["no", "no", "no", "yes"])),
            ("age", Column::Numbers(vec![0.0, 50.0, 100.0, 75.0])),
            ("income", Column::Numbers(income.to_vec())),
            ("ward", text(["north", "north", "south", "south"])),
            ("left", text(["", "", "", ""])),
        ];
        Table::from_columns(columns.map(|(name, column)| (name.to_owned(), column)).into()).unwrap()
    }

    fn chosen(names: &[&str]) -> Result<Vec<ValueColumn>, ValuesError> {
        Values::choose(&protection(), &names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn a_declaration_needs_no_task_and_public_columns_stay_open() {
        let columns = chosen(&["income", "age"]).unwrap();
        assert!(columns[0].is_sensitive() && !columns[1].is_sensitive());
        let table = table([-10.0, 5.0, 0.0, 10.0]);
        let values = Values::bind(protection(), columns, &table, OutOfDomain::Refuse).unwrap();
        assert_eq!((values.facts().private_units, values.facts().public_rows), (2, 1));
        assert_eq!(values.public_rows(), [1.0, 0.5]);
        let users = Units::Users { offsets: vec![0, 1, 3] };
        // Users sorted by id: a, then the two rows of b.
        assert_eq!(values.open_column(1), Some((vec![0.0, -1.0, 1.0], &users)));
        assert_eq!(values.open_column(0), None, "a sensitive column is not open");
        assert_eq!(values.open_column(2), None);
        #[expect(clippy::disallowed_methods, reason = "the test opens what it sealed")]
        let token = Unsealed::charge_was_recorded();
        assert_eq!(values.private_rows().open(&token)[..], [0.5, 0.0, -1.0, -1.0, 0.0, 1.0]);
        assert_eq!(format!("{values:?}").matches("0.5").count(), 0);
    }

    /// Columns chosen under another declaration do not open what this one protects.
    #[test]
    fn the_declaration_that_is_bound_decides_what_is_open() {
        let lax = DECLARATION.replace(
            "income = { bounds = [-10, 10] }",
            "income = { bounds = [-10, 10], visibility = 'public' }",
        );
        let lax = Protection::parse(&lax, "lax.toml").unwrap_or_else(|error| panic!("{error}"));
        let columns = Values::choose(&lax, &["income".to_owned()]).unwrap();
        assert!(!columns[0].is_sensitive());
        let table = table([-10.0, 5.0, 0.0, 10.0]);
        let values = Values::bind(protection(), columns, &table, OutOfDomain::Refuse).unwrap();
        assert_eq!(values.open_column(0), None);
        assert!(values.columns()[0].is_sensitive());
    }

    #[test]
    fn what_has_no_bounded_mean_is_refused_by_name() {
        let message = |names: &[&str]| chosen(names).unwrap_err().to_string();
        assert!(message(&[]).contains("--columns"));
        assert!(message(&["incom"]).contains("did you mean `income`"));
        assert!(message(&["ward"]).contains("has no bounds"));
        assert!(message(&["left"]).contains("remove `use = false`"));
        assert!(
            message(&["consent"]).contains("set `use = true`") && !message(&["who"]).contains("use = false")
        );
        assert!(message(&["age", "age"]).contains("twice"));
    }

    #[test]
    fn cells_outside_their_bounds_are_refused_or_moved() {
        let table = table([-11.0, f64::NAN, 0.0, 10.0]);
        let columns = || chosen(&["income"]).unwrap();
        let refused =
            Values::bind(protection(), columns(), &table, OutOfDomain::Refuse).unwrap_err().to_string();
        assert!(
            refused.contains("column `income` has private cells") && !refused.contains("-11"),
            "{refused}"
        );
        Values::bind(protection(), columns(), &table, OutOfDomain::Coerce).unwrap();
        let open = ValueColumn::encode_all_as_public(&columns(), &table, OutOfDomain::Coerce).unwrap();
        assert_eq!(open, [-1.0, 0.0, 0.0, 1.0]);
        assert!(ValueColumn::encode_all_as_public(&columns(), &table, OutOfDomain::Refuse).is_err());
        assert_eq!(ValueColumn::new("x", 1.0, 1.0), None);
        assert_eq!(ValueColumn::new("x", f64::NAN, 1.0), None);
    }

    /// Rows that the selector does not mark are neither encoded nor looked at, however strange their cells.
    #[test]
    fn only_declared_rows_are_public() {
        let columns = chosen(&["income", "age"]).unwrap();
        let encoded = |income, out_of_domain| {
            ValueColumn::encode_public(&columns, &protection(), &table(income), out_of_domain)
        };
        assert_eq!(encoded([-99.0, f64::NAN, 0.0, 10.0], OutOfDomain::Refuse).unwrap(), [1.0, 0.5]);
        let refused = encoded([0.0, 0.0, 0.0, 11.0], OutOfDomain::Refuse).unwrap_err().to_string();
        assert!(refused.contains("1 finding ") && refused.contains("11 is outside"), "{refused}");
        assert_eq!(encoded([0.0, 0.0, 0.0, 11.0], OutOfDomain::Coerce).unwrap(), [1.0, 0.5]);
        let none = DECLARATION.replace(", public_rows = { column = 'consent', equals = 'yes' }", "").replace(
            "consent = { visibility = 'public' }",
            "consent = { visibility = 'public', use = false }",
        );
        let none = Protection::parse(&none, "none.toml").unwrap_or_else(|error| panic!("{error}"));
        let refused = ValueColumn::encode_public(&columns, &none, &table([0.0; 4]), OutOfDomain::Refuse);
        assert!(refused.unwrap_err().to_string().contains("--all-rows-public"));
    }

    #[test]
    fn a_task_that_is_there_is_checked() {
        let wrong = format!("{DECLARATION}\n[task]\nlabel = 'ward'\nloss = 'sqared'\n");
        assert!(Protection::parse(&wrong, "privacy.toml").unwrap_err().to_string().contains("squared"));
    }
}
