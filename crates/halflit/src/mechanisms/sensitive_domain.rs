//! The finite set of values that a row's sensitive cells can take together, and every row's place in it.

use crate::mechanisms::MechanismError;
use crate::problem::Problem;
use halflit_convex::Rows;
use halflit_convex::kernel::{MAX_VALUES, SensitiveValues};
use halflit_privacy::SensitiveColumns;
use halflit_table::{Column, ColumnDomain, Encoding, LabelEncoding, OutOfDomain, Table, Unsealed};

/// Y: the joint values of the sensitive columns.
#[derive(Clone, Debug, PartialEq)]
pub struct SensitiveDomain {
    values: SensitiveValues,
    /// The sensitive feature columns, as positions in the encoding, with their numbers of values; the first varies slowest.
    features: Vec<(usize, usize)>,
    /// The encoded labels of the classes, if the label is sensitive; they vary fastest.
    classes: Vec<f64>,
}

impl SensitiveDomain {
    /// The domain of a problem's sensitive columns, from the declaration alone.
    ///
    /// # Errors
    /// Every column is sensitive, a sensitive column is a number, or there are too many values together.
    pub fn of(problem: &Problem) -> Result<Self, MechanismError> {
        let encoding = problem.encoding();
        let SensitiveColumns::Named(names) = problem.relation().sensitive() else {
            return Err(MechanismError::NoPublicFeature);
        };
        let columns = encoding.columns();
        if columns.iter().all(|column| column.is_sensitive()) {
            return Err(MechanismError::NoPublicFeature);
        }
        let mut features = Vec::new();
        for (position, column) in columns.iter().enumerate().filter(|(_, column)| column.is_sensitive()) {
            match column.domain() {
                ColumnDomain::Values(values) => features.push((position, values.len())),
                ColumnDomain::Bounds { .. } => {
                    return Err(MechanismError::SensitiveNumber { column: column.name().to_owned() });
                }
            }
        }
        let label_is_sensitive = names.contains(encoding.label_name());
        let classes = match (label_is_sensitive, encoding.label()) {
            (false, _) => 1,
            (true, LabelEncoding::Classes { values, .. }) => values.len(),
            (true, _) => {
                return Err(MechanismError::SensitiveNumber { column: encoding.label_name().to_owned() });
            }
        };
        let sizes = features.iter().map(|(_, size)| *size).chain([classes]);
        let count = sizes.fold(1usize, usize::saturating_mul);
        if !(2..=MAX_VALUES).contains(&count) {
            let mut columns: Vec<String> =
                features.iter().map(|(at, _)| columns[*at].name().to_owned()).collect();
            columns.extend(label_is_sensitive.then(|| encoding.label_name().to_owned()));
            return Err(MechanismError::SensitiveDomain { columns, values: count, most: MAX_VALUES });
        }
        let table = every_value(encoding, &features, label_is_sensitive.then_some(classes), count)?;
        let rows = encoding.encode_features(&table, OutOfDomain::Coerce)?;
        let shifts = shifts(&rows, &encoding.sensitive_coordinates())?;
        let labels = if label_is_sensitive {
            Some(encoding.encode_labels(&table, OutOfDomain::Refuse)?)
        } else {
            None
        };
        let classes = labels.as_ref().map_or_else(Vec::new, |labels| labels[..classes].to_vec());
        Ok(SensitiveDomain { values: SensitiveValues::new(shifts, labels)?, features, classes })
    }

    /// The values as the kernel sees them.
    pub fn values(&self) -> &SensitiveValues {
        &self.values
    }

    /// k.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there is no value; never so.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Every private row's value.
    pub(crate) fn private_positions(
        &self,
        problem: &Problem,
        token: &Unsealed,
    ) -> Result<Vec<u16>, MechanismError> {
        let encoded = problem.encoded();
        let (rows, labels) = (encoded.private_rows().open(token), encoded.private_labels().open(token));
        self.positions(rows, labels, problem.encoding())
    }

    /// Every row's value, from its own cells. A cell that was coerced to none of its values counts as the first one.
    pub(crate) fn positions(
        &self,
        rows: &Rows,
        labels: &[f64],
        encoding: &Encoding,
    ) -> Result<Vec<u16>, MechanismError> {
        let columns = encoding.columns();
        let position = |row: usize| -> Result<u16, MechanismError> {
            let cells = rows.dense_row(row)?;
            let mut value = 0usize;
            for &(at, size) in &self.features {
                let own = &cells[columns[at].coordinates()];
                value = value * size + own.iter().position(|&cell| cell != 0).unwrap_or(0);
            }
            if !self.classes.is_empty() {
                let class = self.classes.iter().position(|&class| class == labels[row]).unwrap_or(0);
                value = value * self.classes.len() + class;
            }
            Ok(value as u16)
        };
        (0..rows.len()).map(position).collect()
    }
}

/// A table with one row per value: sensitive cells as the value says, any cell of the domain elsewhere. Encoding it gives the coordinates
/// that each value fills, by the same code that encodes the data.
fn every_value(
    encoding: &Encoding,
    features: &[(usize, usize)],
    classes: Option<usize>,
    count: usize,
) -> Result<Table, MechanismError> {
    let mut table = Vec::new();
    for (position, column) in encoding.columns().iter().enumerate() {
        // how many values share a cell of this column before it changes
        let period = |at: usize| {
            features[at + 1..].iter().map(|(_, size)| size).product::<usize>() * classes.unwrap_or(1)
        };
        let place = features.iter().position(|(at, _)| *at == position);
        let cells = match (column.domain(), place) {
            (ColumnDomain::Bounds { low, .. }, _) => Column::Numbers(vec![*low; count]),
            (ColumnDomain::Values(values), None) => Column::Text(vec![values[0].clone(); count]),
            (ColumnDomain::Values(values), Some(place)) => Column::Text(
                (0..count).map(|value| values[value / period(place) % values.len()].clone()).collect(),
            ),
        };
        table.push((column.name().to_owned(), cells));
    }
    let label = match (encoding.label(), classes) {
        (LabelEncoding::Classes { values, .. }, classes) => {
            let class = |value: usize| values[value % classes.unwrap_or(1)].clone();
            Column::Text((0..count).map(class).collect())
        }
        (LabelEncoding::Scaled { low, .. } | LabelEncoding::Counts { low, .. }, _) => {
            Column::Numbers(vec![*low; count])
        }
    };
    table.push((encoding.label_name().to_owned(), label));
    Ok(Table::from_columns(table)?)
}

/// The sensitive coordinates of each row.
fn shifts(rows: &Rows, is_sensitive: &[bool]) -> Result<Vec<Vec<(u32, i16)>>, MechanismError> {
    let shift = |row: usize| -> Result<Vec<(u32, i16)>, MechanismError> {
        let cells = rows.dense_row(row)?;
        let filled = cells.iter().enumerate().filter(|(column, cell)| is_sensitive[*column] && **cell != 0);
        Ok(filled.map(|(column, &cell)| (column as u32, cell)).collect())
    };
    (0..rows.len()).map(shift).collect()
}
