//! The encoded table: public rows open, private rows sealed, and a view of what is public in private rows.

use super::split::Split;
use super::{Declared, PublicFacts, is_sensitive};
use crate::encoding::{EncodeError, Encoding, OutOfDomain};
use crate::sealed::Sealed;
use crate::table::Table;
use halflit_convex::{DenseRows, Rows, RowsError, SparseRows};

/// A table on the feature lattice.
///
/// Private rows stand unit after unit: in file order if the unit is a row; user after user, users sorted by id, if the unit
/// is a user.
#[derive(Debug)]
pub struct EncodedTable {
    encoding: Encoding,
    facts: PublicFacts,
    public_rows: Rows,
    public_labels: Vec<f64>,
    private_rows: Sealed<Rows>,
    private_labels: Sealed<Vec<f64>>,
    private_units: Sealed<Units>,
    lacks_private_labels: bool,
    label_is_sensitive: bool,
}

/// How the private rows fall into units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Units {
    /// Every row is its own unit; this many.
    Rows(usize),
    /// User u owns the rows `offsets[u]..offsets[u + 1]`.
    Users {
        /// One more than there are users; the first is 0.
        offsets: Vec<usize>,
    },
}

impl Units {
    /// Number of units.
    pub fn len(&self) -> usize {
        match self {
            Units::Rows(rows) => *rows,
            Units::Users { offsets } => offsets.len().saturating_sub(1),
        }
    }

    /// Whether there is no unit.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What the relation makes public in the private rows. All of it is the same for every neighbouring table.
#[derive(Debug)]
pub struct PublicView<'a> {
    /// The public features.
    pub features: PublicFeatures<'a>,
    /// The labels, if the label column is public.
    pub labels: Option<&'a [f64]>,
    /// The units, if the number of rows of every unit is public.
    pub units: Option<&'a Units>,
}

/// The public features of private rows.
#[derive(Debug)]
pub enum PublicFeatures<'a> {
    /// Every feature is public: the encoded rows themselves.
    All(&'a Rows),
    /// Some are: rows of full width with zeros in place of the sensitive coordinates.
    Some(Rows),
    /// None is.
    None,
}

impl EncodedTable {
    pub(super) fn new(
        declared: &Declared,
        table: &Table,
        split: &Split,
        out_of_domain: OutOfDomain,
    ) -> Result<EncodedTable, EncodeError> {
        let encoding = declared.encoding().clone();
        let units = match &split.offsets {
            None => Units::Rows(split.private.len()),
            Some(offsets) => Units::Users { offsets: offsets.clone() },
        };
        let label_is_sensitive = is_sensitive(declared.relation(), encoding.label_name());
        // The column may be missing where nobody asks for a label.
        let labels = |rows: &[u32], are_needed: bool| match are_needed {
            true => encoding.labels(table, rows, out_of_domain),
            false => Ok(Vec::new()),
        };
        let has_private_labels = declared.has_private_labels;
        Ok(EncodedTable {
            public_rows: encoding.rows(table, &split.public)?,
            public_labels: labels(&split.public, has_private_labels || !split.public.is_empty())?,
            private_rows: Sealed::new(encoding.rows(table, &split.private)?),
            private_labels: Sealed::new(labels(&split.private, has_private_labels)?),
            private_units: Sealed::new(units),
            facts: declared.facts().clone(),
            lacks_private_labels: !has_private_labels,
            label_is_sensitive,
            encoding,
        })
    }

    /// A table whose private part was made up, for rehearsals: it holds the given rows and labels and nothing else.
    ///
    /// # Errors
    /// Rows of another width than the encoding's, or another number of labels than of rows.
    pub fn made_up(
        encoding: Encoding,
        facts: PublicFacts,
        public: (Rows, Vec<f64>),
        private: (Rows, Vec<f64>),
        units: Units,
    ) -> Result<EncodedTable, RowsError> {
        for (rows, labels) in [&public, &private] {
            if rows.width() != encoding.width() {
                return Err(RowsError::Width { row: 0, found: rows.width(), expected: encoding.width() });
            }
            if labels.len() != rows.len() {
                return Err(RowsError::NoSuchRow { row: labels.len(), len: rows.len() });
            }
        }
        let label_is_sensitive = is_sensitive(&facts.relation, encoding.label_name());
        Ok(EncodedTable {
            public_rows: public.0,
            public_labels: public.1,
            private_rows: Sealed::new(private.0),
            private_labels: Sealed::new(private.1),
            private_units: Sealed::new(units),
            facts,
            lacks_private_labels: false,
            label_is_sensitive,
            encoding,
        })
    }

    /// Whether the private rows were read without their labels: good for fitting to what was released, not for training.
    pub fn lacks_private_labels(&self) -> bool {
        self.lacks_private_labels
    }

    /// Whether the labels of private rows are secret.
    pub fn label_is_sensitive(&self) -> bool {
        self.label_is_sensitive
    }

    /// How the rows were made.
    pub fn encoding(&self) -> &Encoding {
        &self.encoding
    }

    /// What everyone may know.
    pub fn facts(&self) -> &PublicFacts {
        &self.facts
    }

    /// The public rows, in file order.
    pub fn public_rows(&self) -> &Rows {
        &self.public_rows
    }

    /// The labels of the public rows.
    pub fn public_labels(&self) -> &[f64] {
        &self.public_labels
    }

    /// The private rows.
    pub fn private_rows(&self) -> &Sealed<Rows> {
        &self.private_rows
    }

    /// The labels of the private rows.
    pub fn private_labels(&self) -> &Sealed<Vec<f64>> {
        &self.private_labels
    }

    /// Which private rows form a unit.
    pub fn private_units(&self) -> &Sealed<Units> {
        &self.private_units
    }

    /// What is public in the private rows.
    ///
    /// When some features are public and some are not, this copies the rows: call it once.
    ///
    /// # Errors
    /// None in practice: the rows fit, for they are no wider than the sealed ones.
    pub fn public_view(&self) -> Result<PublicView<'_>, RowsError> {
        let rows_are_public = self.facts.private_rows.is_some();
        let units = rows_are_public.then(|| self.private_units.content_for_public_part());
        let labels =
            (!self.label_is_sensitive).then(|| self.private_labels.content_for_public_part().as_slice());
        let rows = self.private_rows.content_for_public_part();
        let sensitive = self.encoding.columns().iter().filter(|column| column.is_sensitive()).count();
        let features = if sensitive == 0 {
            PublicFeatures::All(rows)
        } else if sensitive == self.encoding.columns().len() {
            PublicFeatures::None
        } else {
            PublicFeatures::Some(masked(rows, &self.encoding.sensitive_coordinates())?)
        };
        Ok(PublicView { features, labels, units })
    }
}

/// The rows with zeros in the sensitive coordinates. What is left depends on public cells alone: every coordinate comes
/// from one column, and rows are shortened group by group.
fn masked(rows: &Rows, is_sensitive: &[bool]) -> Result<Rows, RowsError> {
    match rows {
        Rows::Dense(rows) => {
            let mut values = Vec::with_capacity(rows.len() * rows.width());
            for row in 0..rows.len() {
                let public = rows.row(row).iter().zip(is_sensitive);
                values.extend(public.map(|(&value, &sensitive)| if sensitive { 0 } else { value }));
            }
            DenseRows::from_values(rows.width(), values).map(Rows::Dense)
        }
        Rows::Sparse(rows) => {
            let mut public = SparseRows::with_capacity(rows.width(), rows.len(), rows.entries())?;
            let (mut columns, mut values) = (Vec::new(), Vec::new());
            for row in 0..rows.len() {
                columns.clear();
                values.clear();
                for (column, value) in rows.row(row).iter().filter(|(column, _)| !is_sensitive[*column]) {
                    columns.push(column as u32);
                    values.push(value);
                }
                public.push_row(&columns, &values)?;
            }
            Ok(Rows::Sparse(public))
        }
    }
}
