//! The values that a row may have in its sensitive columns.

use super::super::KernelError;
use super::MAX_VALUES;

/// The sensitive values that a row may have: the coordinates each fills, and the label it stands for.
#[derive(Debug, Clone, PartialEq)]
pub struct SensitiveValues {
    pub(super) shifts: Vec<Vec<(u32, i16)>>,
    pub(super) labels: Option<Vec<f64>>,
    /// k x k inner products of the shifts: exact integers.
    pub(super) products: Vec<f64>,
    pub(super) has_shifts: bool,
    /// The largest squared norm of a shift.
    pub(super) longest: f64,
    /// The largest inner product of two different shifts; negative if one of them is.
    pub(super) overlap: f64,
}

impl SensitiveValues {
    /// One entry per value: the (column, value) pairs it fills, columns increasing; and its label, if the label is sensitive.
    pub fn new(shifts: Vec<Vec<(u32, i16)>>, labels: Option<Vec<f64>>) -> Result<Self, KernelError> {
        let count = shifts.len();
        if count == 0 || count > MAX_VALUES {
            return Err(KernelError::Length { name: "the sensitive values", found: count, rows: MAX_VALUES });
        }
        if let Some(found) = labels.as_ref().map(Vec::len).filter(|&found| found != count) {
            return Err(KernelError::Length { name: "the labels of the values", found, rows: count });
        }
        let product = |one: &[(u32, i16)], other: &[(u32, i16)]| -> f64 {
            let matching = |&(column, value): &(u32, i16)| {
                other
                    .iter()
                    .filter(move |(c, _)| *c == column)
                    .map(move |&(_, v)| i64::from(v) * i64::from(value))
            };
            one.iter().flat_map(matching).sum::<i64>() as f64
        };
        let mut products = Vec::with_capacity(count * count);
        for one in &shifts {
            products.extend(shifts.iter().map(|other| product(one, other)));
        }
        let has_shifts = shifts.iter().any(|shift| !shift.is_empty());
        let (mut longest, mut overlap, mut least) = (0.0f64, 0.0f64, 0.0f64);
        for (at, &product) in products.iter().enumerate() {
            if at / count == at % count {
                longest = longest.max(product);
            } else {
                overlap = overlap.max(product);
                least = least.min(product);
            }
        }
        let overlap = if least < 0.0 { least } else { overlap };
        Ok(SensitiveValues { shifts, labels, products, has_shifts, longest, overlap })
    }

    /// k.
    pub fn len(&self) -> usize {
        self.shifts.len()
    }

    /// Whether there is no value; never so.
    pub fn is_empty(&self) -> bool {
        self.shifts.is_empty()
    }

    /// The coordinates that a value fills.
    pub fn shift(&self, value: usize) -> &[(u32, i16)] {
        &self.shifts[value]
    }

    /// The labels of the values, if the label is sensitive.
    pub fn labels(&self) -> Option<&[f64]> {
        self.labels.as_deref()
    }

    /// The largest squared norm of a value's coordinates, in units of 2^-28.
    pub fn max_squared_norm(&self) -> f64 {
        self.longest
    }
}
