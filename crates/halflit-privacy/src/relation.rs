//! What is protected: which pairs of tables must be indistinguishable.
//!
//! A relation is declared by the data owner, never inferred, and travels from the declaration to the accountant and
//! into the certificate. It is a product of three choices and a kind of change:
//!
//! | axis | choices |
//! |---|---|
//! | unit | a row, or all rows of one user |
//! | sensitive columns | all, or a named subset |
//! | private rows | all, or those outside a public-row selector |
//! | change | replace (any other value), or zero-out (the unit's contribution vanishes) |
//!
//! # Preconditions
//!
//! | what | enforced by |
//! |---|---|
//! | the user id and the public-row selector are not sensitive | [`Relation::new`] |
//! | a named subset is not empty, has no repeated and no empty name | [`ColumnNames::new`] |
//! | a selector has at least one value | [`PublicRows::new`] |
//! | the same for relations read from a file | deserialization goes through the same constructors |

use serde::{Deserialize, Serialize};
use std::fmt;
use thiserror::Error;

/// A relation that cannot mean anything.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RelationError {
    /// An empty list of sensitive columns would protect nothing.
    #[error(
        "sensitive columns: the list is empty, so nothing would be protected; name at least one column or use all"
    )]
    NoSensitiveColumn,
    /// A column without a name.
    #[error("{place}: a column name is empty; give every column a name")]
    EmptyName {
        /// Where the empty name stood.
        place: &'static str,
    },
    /// The same column listed twice.
    #[error("sensitive columns: {column} is listed twice; list it once")]
    RepeatedColumn {
        /// The repeated name.
        column: String,
    },
    /// A public-row selector that selects nothing.
    #[error(
        "public rows: no value of {column} marks a row as public; give at least one value or use private rows = all"
    )]
    NoPublicValue {
        /// The selector column.
        column: String,
    },
    /// A structural column that is itself sensitive: a replaced unit could then change user or become public.
    #[error(
        "{place}: the column {column} is sensitive, so a replaced row could change it; choose a column that is not sensitive"
    )]
    StructureIsSensitive {
        /// What the column is used for.
        place: &'static str,
        /// The offending column.
        column: String,
    },
}

/// Whose data is protected as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Unit {
    /// One row.
    Row,
    /// All rows that share one value of the id column.
    User {
        /// The column that says which user a row belongs to.
        id_column: String,
    },
}

/// A non-empty set of column names, kept sorted so that equal sets compare equal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct ColumnNames(Vec<String>);

impl ColumnNames {
    /// Checks and sorts the names; refuses an empty list, an empty name and a repeated name.
    pub fn new(names: impl IntoIterator<Item = impl Into<String>>) -> Result<Self, RelationError> {
        let mut names: Vec<String> = names.into_iter().map(Into::into).collect();
        names.sort_unstable();
        if names.is_empty() {
            return Err(RelationError::NoSensitiveColumn);
        }
        if names[0].is_empty() {
            return Err(RelationError::EmptyName { place: "sensitive columns" });
        }
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(RelationError::RepeatedColumn { column: pair[0].clone() }),
            None => Ok(ColumnNames(names)),
        }
    }

    /// Whether a column is in the set.
    pub fn contains(&self, column: &str) -> bool {
        self.0.binary_search_by(|name| name.as_str().cmp(column)).is_ok()
    }

    /// The names, sorted.
    pub fn as_slice(&self) -> &[String] {
        &self.0
    }
}

impl TryFrom<Vec<String>> for ColumnNames {
    type Error = RelationError;

    fn try_from(names: Vec<String>) -> Result<Self, RelationError> {
        ColumnNames::new(names)
    }
}

impl From<ColumnNames> for Vec<String> {
    fn from(names: ColumnNames) -> Self {
        names.0
    }
}

/// Which cells of a private row are secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SensitiveColumns {
    /// Every column, apart from the user id and the public-row selector.
    All,
    /// These columns; the others are public.
    Named(ColumnNames),
}

impl SensitiveColumns {
    /// A named subset; refuses what [`ColumnNames::new`] refuses.
    pub fn named(names: impl IntoIterator<Item = impl Into<String>>) -> Result<Self, RelationError> {
        ColumnNames::new(names).map(SensitiveColumns::Named)
    }

    fn names(&self, column: &str) -> bool {
        match self {
            SensitiveColumns::All => false,
            SensitiveColumns::Named(names) => names.contains(column),
        }
    }
}

/// The rows that are public: those whose selector column has one of the listed values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "PublicRowsRecord", into = "PublicRowsRecord")]
pub struct PublicRows {
    column: String,
    values: Vec<String>,
}

impl PublicRows {
    /// Rows are public where `column` has one of `values` (kept sorted, repeats dropped).
    pub fn new(
        column: impl Into<String>,
        values: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<Self, RelationError> {
        let column = column.into();
        if column.is_empty() {
            return Err(RelationError::EmptyName { place: "public rows" });
        }
        let mut values: Vec<String> = values.into_iter().map(Into::into).collect();
        values.sort_unstable();
        values.dedup();
        if values.is_empty() {
            return Err(RelationError::NoPublicValue { column });
        }
        Ok(PublicRows { column, values })
    }

    /// The selector column.
    pub fn column(&self) -> &str {
        &self.column
    }

    /// The values that mark a row as public, sorted.
    pub fn values(&self) -> &[String] {
        &self.values
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PublicRowsRecord {
    column: String,
    values: Vec<String>,
}

impl TryFrom<PublicRowsRecord> for PublicRows {
    type Error = RelationError;

    fn try_from(record: PublicRowsRecord) -> Result<Self, RelationError> {
        PublicRows::new(record.column, record.values)
    }
}

impl From<PublicRows> for PublicRowsRecord {
    fn from(rows: PublicRows) -> Self {
        PublicRowsRecord { column: rows.column, values: rows.values }
    }
}

/// Which rows hold secrets at all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PrivateRows {
    /// Every row.
    All,
    /// Every row that the selector does not mark as public.
    Outside(PublicRows),
}

/// How the protected cells of the one unit may differ between neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// They take any other values of the declared domain. Every paper's definition, and the stronger promise.
    Replace,
    /// The unit's contribution vanishes in one of the two tables, as in the add/remove relation of DP-SGD tools.
    ZeroOut,
}

impl Change {
    /// How far one unit moves a sum of contributions of norm at most one.
    ///
    /// This is the only place where a noise multiplier (noise std / clip norm) meets the kind of change.
    ///
    /// - replace: ||a - b|| <= ||a|| + ||b|| <= 2
    /// - zero-out: ||a - 0|| <= 1
    pub fn sensitivity_per_radius(self) -> f64 {
        match self {
            Change::Replace => 2.0,
            Change::ZeroOut => 1.0,
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Change::Replace => "replace",
            Change::ZeroOut => "zero-out",
        })
    }
}

/// The neighbouring relation: two tables are neighbours when they agree on everything except the sensitive columns of
/// the private rows of one unit, which change as `change` says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "RelationRecord", into = "RelationRecord")]
pub struct Relation {
    unit: Unit,
    sensitive: SensitiveColumns,
    private_rows: PrivateRows,
    change: Change,
}

impl Relation {
    /// Puts the declared choices together; refuses a user id or a selector that is itself sensitive.
    pub fn new(
        unit: Unit,
        sensitive: SensitiveColumns,
        private_rows: PrivateRows,
        change: Change,
    ) -> Result<Self, RelationError> {
        if let Unit::User { id_column } = &unit {
            if id_column.is_empty() {
                return Err(RelationError::EmptyName { place: "user id" });
            }
            if sensitive.names(id_column) {
                return Err(RelationError::StructureIsSensitive {
                    place: "user id",
                    column: id_column.clone(),
                });
            }
        }
        if let PrivateRows::Outside(public) = &private_rows
            && sensitive.names(public.column())
        {
            let column = public.column().to_owned();
            return Err(RelationError::StructureIsSensitive { place: "public rows", column });
        }
        Ok(Relation { unit, sensitive, private_rows, change })
    }

    /// Ordinary differential privacy: every cell of one row, under the given change.
    pub fn full(change: Change) -> Self {
        Relation { unit: Unit::Row, sensitive: SensitiveColumns::All, private_rows: PrivateRows::All, change }
    }

    /// Whose data is protected as a whole.
    pub fn unit(&self) -> &Unit {
        &self.unit
    }

    /// Which cells of a private row are secret.
    pub fn sensitive(&self) -> &SensitiveColumns {
        &self.sensitive
    }

    /// Which rows hold secrets.
    pub fn private_rows(&self) -> &PrivateRows {
        &self.private_rows
    }

    /// How the protected cells may differ.
    pub fn change(&self) -> Change {
        self.change
    }

    /// The relation as one plain English sentence, for guarantees, certificates, reports and error messages.
    pub fn sentence(&self) -> String {
        let cells = format!("{} of {}{}", self.columns_phrase(), self.unit_phrase(), self.rows_phrase());
        match self.change {
            Change::Replace => format!("Two tables are neighbours if they differ only in {cells}."),
            Change::ZeroOut => {
                format!(
                    "Two tables are neighbours if one is the other with the contribution of {cells} set to zero."
                )
            }
        }
    }

    /// The columns on which neighbours agree because they say who is who and which rows are public: the user id and the selector,
    /// sorted, each once.
    pub fn structural_columns(&self) -> Vec<&str> {
        let user = match &self.unit {
            Unit::Row => None,
            Unit::User { id_column } => Some(id_column.as_str()),
        };
        let selector = match &self.private_rows {
            PrivateRows::All => None,
            PrivateRows::Outside(public) => Some(public.column()),
        };
        let mut columns: Vec<&str> = user.into_iter().chain(selector).collect();
        columns.sort_unstable();
        columns.dedup();
        columns
    }

    /// Whether a neighbour may have another value in this column.
    pub fn may_differ_in(&self, column: &str) -> bool {
        match &self.sensitive {
            SensitiveColumns::All => !self.structural_columns().contains(&column),
            SensitiveColumns::Named(names) => names.contains(column),
        }
    }

    fn columns_phrase(&self) -> String {
        match &self.sensitive {
            SensitiveColumns::All => match self.structural_columns().as_slice() {
                [] => "all columns".to_owned(),
                // These stay as they are in every neighbour: to say "all columns" would promise too much.
                kept => format!("all columns except {}", listed(kept, "and")),
            },
            SensitiveColumns::Named(names) => match names.as_slice() {
                [one] => format!("the column {}", quoted_if_odd(one)),
                several => format!("the columns {}", listed(several, "and")),
            },
        }
    }

    fn unit_phrase(&self) -> String {
        match &self.unit {
            Unit::Row => "one row".to_owned(),
            Unit::User { id_column } => {
                format!("the rows of one user (the rows with the same {})", quoted_if_odd(id_column))
            }
        }
    }

    fn rows_phrase(&self) -> String {
        let PrivateRows::Outside(public) = &self.private_rows else {
            return String::new();
        };
        let column = quoted_if_odd(public.column());
        let excluded = match public.values() {
            [one] => format!("is not {}", quoted_if_odd(one)),
            several => format!("is neither {}", listed(several, "nor")),
        };
        format!(", among the rows where {column} {excluded}")
    }
}

impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence())
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RelationRecord {
    unit: Unit,
    sensitive: SensitiveColumns,
    private_rows: PrivateRows,
    change: Change,
}

impl TryFrom<RelationRecord> for Relation {
    type Error = RelationError;

    fn try_from(record: RelationRecord) -> Result<Self, RelationError> {
        Relation::new(record.unit, record.sensitive, record.private_rows, record.change)
    }
}

impl From<Relation> for RelationRecord {
    fn from(relation: Relation) -> Self {
        let Relation { unit, sensitive, private_rows, change } = relation;
        RelationRecord { unit, sensitive, private_rows, change }
    }
}

/// `a`, `a and b`, `a, b and c`.
fn listed(names: &[impl AsRef<str>], joiner: &str) -> String {
    let names: Vec<String> = names.iter().map(|name| quoted_if_odd(name.as_ref())).collect();
    match names.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} {joiner} {last}", rest.join(", ")),
        None => String::new(),
    }
}

/// Names made of letters, digits and `_ - .` read well bare; anything else could be mistaken for the sentence.
fn quoted_if_odd(name: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    if !name.is_empty() && name.chars().all(plain) { name.to_owned() } else { format!("{name:?}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relation(
        unit: Unit,
        sensitive: SensitiveColumns,
        private_rows: PrivateRows,
        change: Change,
    ) -> Relation {
        Relation::new(unit, sensitive, private_rows, change).expect("a valid relation")
    }

    /// Every combination of the axes: unit x columns (all, one, two, three) x rows (all, one value, two values, those of some users)
    /// x change. "All columns" never includes the columns that neighbours keep.
    #[test]
    fn the_sentence_of_every_combination() {
        let units = [
            (Unit::Row, "one row", None),
            (
                Unit::User { id_column: "uid".into() },
                "the rows of one user (the rows with the same uid)",
                Some("uid"),
            ),
        ];
        let columns = [
            (SensitiveColumns::All, None),
            (SensitiveColumns::named(["label"]).unwrap(), Some("the column label")),
            (SensitiveColumns::named(["label", "income"]).unwrap(), Some("the columns income and label")),
            (
                SensitiveColumns::named(["label", "income", "age"]).unwrap(),
                Some("the columns age, income and label"),
            ),
        ];
        let outside = |column: &str, values: &[&str]| {
            PrivateRows::Outside(PublicRows::new(column, values.iter().copied()).unwrap())
        };
        let rows = [
            (PrivateRows::All, "", None),
            (outside("consent", &["yes"]), ", among the rows where consent is not yes", Some("consent")),
            (
                outside("source", &["web", "synthetic"]),
                ", among the rows where source is neither synthetic nor web",
                Some("source"),
            ),
            (outside("uid", &["7"]), ", among the rows where uid is not 7", Some("uid")),
        ];
        let changes = [
            (Change::Replace, "Two tables are neighbours if they differ only in ", "."),
            (
                Change::ZeroOut,
                "Two tables are neighbours if one is the other with the contribution of ",
                " set to zero.",
            ),
        ];
        let mut sentences = std::collections::BTreeSet::new();
        for (unit, unit_words, user) in &units {
            for (sensitive, named) in &columns {
                for (private, row_words, selector) in &rows {
                    let column_words = match (named, selector, user) {
                        (Some(named), ..) => (*named).to_owned(),
                        (None, None, None) => "all columns".to_owned(),
                        (None, Some("uid"), _) | (None, None, Some(_)) => "all columns except uid".to_owned(),
                        (None, Some(selector), None) => format!("all columns except {selector}"),
                        (None, Some(selector), Some(user)) => {
                            format!("all columns except {selector} and {user}")
                        }
                    };
                    for (change, opening, closing) in changes {
                        let relation = relation(unit.clone(), sensitive.clone(), private.clone(), change);
                        let sentence = relation.sentence();
                        let expected = format!("{opening}{column_words} of {unit_words}{row_words}{closing}");
                        assert_eq!(sentence, expected);
                        for kept in user.iter().chain(selector) {
                            assert!(!relation.may_differ_in(kept), "{sentence}");
                        }
                        assert!(relation.may_differ_in("label"), "{sentence}");
                        assert_eq!(relation.may_differ_in("height"), named.is_none(), "{sentence}");
                        sentences.insert(sentence);
                    }
                }
            }
        }
        assert_eq!(sentences.len(), 2 * 4 * 4 * 2, "no two relations share a sentence");
    }

    #[test]
    fn odd_names_are_quoted() {
        let sensitive = SensitiveColumns::named(["is not, or"]).unwrap();
        let sentence = relation(Unit::Row, sensitive, PrivateRows::All, Change::Replace).sentence();
        assert_eq!(
            sentence,
            "Two tables are neighbours if they differ only in the column \"is not, or\" of one row."
        );
    }

    #[test]
    fn json_is_stable_and_round_trips() {
        let relation = relation(
            Unit::User { id_column: "uid".into() },
            SensitiveColumns::named(["label", "income"]).unwrap(),
            PrivateRows::Outside(PublicRows::new("consent", ["yes"]).unwrap()),
            Change::ZeroOut,
        );
        let json = serde_json::to_string(&relation).unwrap();
        assert_eq!(
            json,
            r#"{"unit":{"user":{"id_column":"uid"}},"sensitive":{"named":["income","label"]},"private_rows":{"outside":{"column":"consent","values":["yes"]}},"change":"zero-out"}"#
        );
        assert_eq!(serde_json::from_str::<Relation>(&json).unwrap(), relation);
        let full = Relation::full(Change::Replace);
        let json = serde_json::to_string(&full).unwrap();
        assert_eq!(json, r#"{"unit":"row","sensitive":"all","private_rows":"all","change":"replace"}"#);
        assert_eq!(serde_json::from_str::<Relation>(&json).unwrap(), full);
    }

    #[test]
    fn meaningless_relations_are_refused_also_from_a_file() {
        assert_eq!(SensitiveColumns::named(Vec::<String>::new()), Err(RelationError::NoSensitiveColumn));
        assert!(matches!(SensitiveColumns::named(["a", ""]), Err(RelationError::EmptyName { .. })));
        assert!(matches!(
            SensitiveColumns::named(["a", "b", "a"]),
            Err(RelationError::RepeatedColumn { .. })
        ));
        assert!(matches!(
            PublicRows::new("c", Vec::<String>::new()),
            Err(RelationError::NoPublicValue { .. })
        ));
        assert!(matches!(PublicRows::new("", ["x"]), Err(RelationError::EmptyName { .. })));
        let texts = [
            r#"{"unit":"row","sensitive":{"named":[]},"private_rows":"all","change":"replace"}"#,
            r#"{"unit":"row","sensitive":"all","private_rows":{"outside":{"column":"c","values":[]}},"change":"replace"}"#,
            r#"{"unit":{"user":{"id_column":""}},"sensitive":"all","private_rows":"all","change":"replace"}"#,
            r#"{"unit":{"user":{"id_column":"u"}},"sensitive":{"named":["u"]},"private_rows":"all","change":"replace"}"#,
            r#"{"unit":"row","sensitive":{"named":["c"]},"private_rows":{"outside":{"column":"c","values":["1"]}},"change":"replace"}"#,
            r#"{"unit":"row","sensitive":"all","private_rows":"all","change":"add"}"#,
            r#"{"unit":"row","sensitive":"all","private_rows":"all"}"#,
            r#"{"unit":"row","sensitive":"all","private_rows":"all","change":"replace","extra":1}"#,
        ];
        for text in texts {
            assert!(serde_json::from_str::<Relation>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn replacing_moves_a_sum_twice_as_far_as_zeroing() {
        assert_eq!(Change::Replace.sensitivity_per_radius(), 2.0);
        assert_eq!(Change::ZeroOut.sensitivity_per_radius(), 1.0);
    }
}
