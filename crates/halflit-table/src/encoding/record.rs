//! The stored form of an encoding, and the checks that every encoding has passed.

use super::affine::Affine;
use super::label::{ClassCoding, LabelEncoding};
use super::{ColumnDomain, EncodedColumn, EncodedLabel, Encoding, clip};
use crate::value::{comparable, parse_number};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use thiserror::Error;

/// Why a stored encoding is refused. A model file can be damaged or tampered with.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum EncodingError {
    /// Nothing to encode.
    #[error("the encoding has no columns; it needs at least one feature")]
    NoColumns,
    /// No label column.
    #[error("the encoding has no label column")]
    NoLabel,
    /// A column without a name, or two with one.
    #[error("the encoding names column `{column}` twice or leaves a name empty")]
    Names {
        /// The name.
        column: String,
    },
    /// Bounds that no map to [-1, 1] can have.
    #[error("column `{column}`: the bounds [{low}, {high}] must be finite and in order")]
    Bounds {
        /// The column.
        column: String,
        /// The lower bound.
        low: f64,
        /// The upper bound.
        high: f64,
    },
    /// An empty list of values, or one listed twice.
    #[error("column `{column}`: the values must be at least one, and distinct")]
    Values {
        /// The column.
        column: String,
    },
    /// A default outside the domain.
    #[error("column `{column}`: the default `{default}` is outside the column's domain")]
    Default {
        /// The column.
        column: String,
        /// The default.
        default: String,
    },
    /// Classes that do not fit their coding.
    #[error("label `{column}`: {classes} classes do not fit this coding; two classes are coded 0/1 or -1/+1")]
    Classes {
        /// The label column.
        column: String,
        /// Number of classes.
        classes: usize,
    },
    /// A row norm that is too small, or not a number.
    #[error("the row norm {row_norm} must be finite and at least 1/64")]
    RowNorm {
        /// The norm.
        row_norm: f64,
    },
    /// More coordinates than a row can have.
    #[error("{width} coordinates are more than the {most} of a row; shorten the lists of values")]
    TooWide {
        /// The width.
        width: usize,
        /// The widest row.
        most: usize,
    },
}

/// Rows shorter than this would keep fewer than 8 bits per feature.
pub(crate) const SMALLEST_ROW_NORM: f64 = 1.0 / 64.0;

/// Column indices are 32-bit, and squared norms of full rows stay below 2^53.
const WIDEST: usize = 1 << 24;

/// An encoding as stored; unchecked.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EncodingRecord {
    pub(super) columns: Vec<ColumnRecord>,
    pub(super) intercept: bool,
    pub(super) row_norm: Option<f64>,
    pub(super) label: LabelRecord,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ColumnRecord {
    pub(super) name: String,
    pub(super) domain: ColumnDomain,
    pub(super) sensitive: bool,
    pub(super) default: Option<String>,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LabelRecord {
    pub(super) name: String,
    pub(super) default: Option<String>,
    pub(super) encoding: LabelEncoding,
}

impl TryFrom<EncodingRecord> for Encoding {
    type Error = EncodingError;

    fn try_from(record: EncodingRecord) -> Result<Encoding, EncodingError> {
        let EncodingRecord { columns, intercept, row_norm, label } = record;
        if columns.is_empty() {
            return Err(EncodingError::NoColumns);
        }
        let mut names = HashSet::new();
        for name in columns.iter().map(|column| &column.name).chain([&label.name]) {
            if name.is_empty() || !names.insert(name.as_str()) {
                return Err(EncodingError::Names { column: name.clone() });
            }
        }
        let label = EncodedLabel { name: label.name, default: label.default, encoding: label.encoding };
        check_domain(&label.name, &label.domain(), label.default.as_deref())?;
        check_classes(&label)?;

        let mut encoded = Vec::with_capacity(columns.len());
        let mut width = 0usize;
        for ColumnRecord { name, domain, sensitive, default } in columns {
            check_domain(&name, &domain, default.as_deref())?;
            let column = EncodedColumn { name, domain, sensitive, default, first: width };
            width = column.coordinates().end;
            encoded.push(column);
        }
        width += usize::from(intercept);
        if width > WIDEST {
            return Err(EncodingError::TooWide { width, most: WIDEST });
        }
        let clip = match row_norm {
            None => None,
            Some(row_norm) if row_norm.is_finite() && row_norm >= SMALLEST_ROW_NORM => {
                Some(clip(&encoded, intercept, row_norm))
            }
            Some(row_norm) => return Err(EncodingError::RowNorm { row_norm }),
        };
        Ok(Encoding { columns: encoded, intercept, row_norm, clip, label, width })
    }
}

impl From<Encoding> for EncodingRecord {
    fn from(encoding: Encoding) -> EncodingRecord {
        let Encoding { columns, intercept, row_norm, label, .. } = encoding;
        let columns = columns.into_iter().map(|column| {
            let EncodedColumn { name, domain, sensitive, default, .. } = column;
            ColumnRecord { name, domain, sensitive, default }
        });
        let EncodedLabel { name, default, encoding } = label;
        EncodingRecord {
            columns: columns.collect(),
            intercept,
            row_norm,
            label: LabelRecord { name, default, encoding },
        }
    }
}

fn check_domain(column: &str, domain: &ColumnDomain, default: Option<&str>) -> Result<(), EncodingError> {
    let column = || column.to_owned();
    let fits = match domain {
        ColumnDomain::Bounds { low, high } => {
            let bounds = Affine::new(*low, *high);
            if !bounds.is_sound() {
                return Err(EncodingError::Bounds { column: column(), low: *low, high: *high });
            }
            default.is_none_or(|default| {
                parse_number(default.as_bytes()).is_some_and(|number| bounds.contains(number))
            })
        }
        ColumnDomain::Values(values) => {
            let distinct: HashSet<_> = values.iter().map(|value| comparable(value)).collect();
            if values.is_empty() || distinct.len() != values.len() {
                return Err(EncodingError::Values { column: column() });
            }
            default.is_none_or(|default| distinct.contains(&comparable(default)))
        }
    };
    let default = default.unwrap_or_default().to_owned();
    if fits { Ok(()) } else { Err(EncodingError::Default { column: column(), default }) }
}

fn check_classes(label: &EncodedLabel) -> Result<(), EncodingError> {
    match &label.encoding {
        LabelEncoding::Classes { values, coding } if *coding != ClassCoding::Index && values.len() != 2 => {
            Err(EncodingError::Classes { column: label.name.clone(), classes: values.len() })
        }
        LabelEncoding::Counts { low, high } if !(*low >= 0.0) => {
            Err(EncodingError::Bounds { column: label.name.clone(), low: *low, high: *high })
        }
        _ => Ok(()),
    }
}
