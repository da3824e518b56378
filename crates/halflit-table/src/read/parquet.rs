//! Parquet through the column readers of the parquet crate, without its arrow half.

use super::sink::{NotUtf8, Sink};
use super::{ReadAs, ReadOptions, TableError};
use crate::table::{Cells, LineMap, Table, TableColumn};
use crate::value::trim;
use bytes::Bytes;
use parquet::basic::{ConvertedType, LogicalType, TimeUnit, Type as PhysicalType};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::DataType;
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::schema::types::ColumnDescriptor;
use rayon::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Rows decoded at once.
const BATCH_ROWS: usize = 1 << 14;

/// Reads the table from the bytes of a file.
///
/// The file is in memory because threads read its columns at once, and because a file handle has only one position.
pub(super) fn read(bytes: Vec<u8>, file: &str, options: &ReadOptions) -> Result<Table, TableError> {
    // The decoder asserts some properties of well-formed files; on a malformed one that is an error, not a crash.
    catch_unwind(AssertUnwindSafe(|| read_columns(Bytes::from(bytes), file, options)))
        .unwrap_or_else(|_| Err(unreadable(file, "the file is malformed")))
}

fn unreadable(file: &str, reason: impl ToString) -> TableError {
    TableError::Unreadable { file: file.to_owned(), format: "Parquet", reason: reason.to_string() }
}

fn read_columns(bytes: Bytes, file: &str, options: &ReadOptions) -> Result<Table, TableError> {
    let reader = SerializedFileReader::new(bytes).map_err(|error| unreadable(file, error))?;
    let metadata = reader.metadata().file_metadata();
    let rows = usize::try_from(metadata.num_rows()).map_err(|error| unreadable(file, error))?;
    let schema = metadata.schema_descr();
    let fields = schema.root_schema().get_fields();
    let columns = fields.par_iter().map(|field| {
        let name = field.name().to_owned();
        let leaf = schema.columns().iter().position(|leaf| leaf.path().parts().first() == Some(&name));
        let cells = match leaf {
            Some(leaf) if field.is_primitive() => {
                read_column(&reader, leaf, schema.columns()[leaf].as_ref(), options.of(&name))
            }
            _ => Ok(Cells::NotRead("it is a nested Parquet column".to_owned())),
        };
        let cells = cells.map_err(|error| match error {
            ColumnError::Parquet(error) => unreadable(file, error),
            ColumnError::NotUtf8 { row } => {
                TableError::NotUtf8 { file: file.to_owned(), line: row as u64 + 1, column: name.clone() }
            }
        })?;
        Ok(TableColumn { name, cells })
    });
    let columns = columns.collect::<Result<Vec<_>, TableError>>()?;
    Table::checked(file.to_owned(), rows, columns, LineMap::default())
}

enum ColumnError {
    Parquet(ParquetError),
    NotUtf8 { row: usize },
}

impl From<ParquetError> for ColumnError {
    fn from(error: ParquetError) -> Self {
        ColumnError::Parquet(error)
    }
}

/// What the stored values of a column stand for.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Meaning {
    Text,
    Float,
    Integer,
    Unsigned,
    /// An integer to be divided: a decimal, or a time in a unit smaller than a second.
    Scaled(f64),
}

fn meaning(column: &ColumnDescriptor) -> Option<Meaning> {
    use ConvertedType as Converted;
    let per_second = |unit: &TimeUnit| match unit {
        TimeUnit::MILLIS => Meaning::Scaled(1e3),
        TimeUnit::MICROS => Meaning::Scaled(1e6),
        TimeUnit::NANOS => Meaning::Scaled(1e9),
    };
    let decimal = || Some(Meaning::Scaled(10f64.powi(column.type_scale())));
    match column.logical_type_ref() {
        Some(LogicalType::Decimal(_)) => return decimal(),
        Some(LogicalType::Timestamp(timestamp)) => return Some(per_second(&timestamp.unit)),
        Some(LogicalType::Time(time)) => return Some(per_second(&time.unit)),
        Some(LogicalType::Integer(integer)) if !integer.is_signed => return Some(Meaning::Unsigned),
        Some(LogicalType::Date | LogicalType::Integer(_)) => return Some(Meaning::Integer),
        Some(LogicalType::String | LogicalType::Enum | LogicalType::Json) => return Some(Meaning::Text),
        Some(_) => return None,
        None => {}
    }
    match (column.converted_type(), column.physical_type()) {
        (Converted::DECIMAL, _) => decimal(),
        (Converted::TIME_MILLIS | Converted::TIMESTAMP_MILLIS, _) => Some(Meaning::Scaled(1e3)),
        (Converted::TIME_MICROS | Converted::TIMESTAMP_MICROS, _) => Some(Meaning::Scaled(1e6)),
        (Converted::UINT_8 | Converted::UINT_16 | Converted::UINT_32 | Converted::UINT_64, _) => {
            Some(Meaning::Unsigned)
        }
        (Converted::BSON | Converted::INTERVAL, _) => None,
        (_, PhysicalType::FLOAT | PhysicalType::DOUBLE) => Some(Meaning::Float),
        (_, PhysicalType::INT32 | PhysicalType::INT64) => Some(Meaning::Integer),
        (_, PhysicalType::BOOLEAN | PhysicalType::BYTE_ARRAY) => Some(Meaning::Text),
        (_, PhysicalType::INT96) => Some(Meaning::Scaled(1e9)),
        (_, PhysicalType::FIXED_LEN_BYTE_ARRAY) => None,
    }
}

fn read_column(
    reader: &SerializedFileReader<Bytes>,
    leaf: usize,
    column: &ColumnDescriptor,
    read_as: ReadAs,
) -> Result<Cells, ColumnError> {
    let Some(meaning) = meaning(column) else {
        return Ok(Cells::NotRead("its Parquet type is neither a number nor text".to_owned()));
    };
    let repeated = column.max_rep_level() > 0;
    if repeated {
        return Ok(Cells::NotRead("it is a repeated Parquet column".to_owned()));
    }
    let mut cells = ColumnCells {
        sink: match (read_as, meaning) {
            // The file says what it holds: text is not inspected for numbers.
            (ReadAs::Inferred, Meaning::Text) => Sink::new(ReadAs::Text, 0),
            (read_as, _) => Sink::new(read_as, 0),
        },
        row: 0,
        optional: column.max_def_level() > 0,
    };
    if read_as != ReadAs::Skipped {
        for group in 0..reader.num_row_groups() {
            cells.read_group(reader.get_row_group(group)?.get_column_reader(leaf)?, meaning)?;
        }
    }
    Ok(cells.sink.finish().into())
}

struct ColumnCells {
    sink: Sink,
    row: usize,
    optional: bool,
}

impl ColumnCells {
    fn read_group(&mut self, reader: ColumnReader, meaning: Meaning) -> Result<(), ColumnError> {
        match reader {
            ColumnReader::BoolColumnReader(reader) => self.read_values(reader, |sink, row, value| {
                sink.push(row, if *value { b"true" } else { b"false" })
            }),
            ColumnReader::Int32ColumnReader(reader) => self.read_values(reader, |sink, _, value| {
                let unsigned = i128::from(value.cast_unsigned());
                push_integer(
                    sink,
                    if meaning == Meaning::Unsigned { unsigned } else { i128::from(*value) },
                    meaning,
                )
            }),
            ColumnReader::Int64ColumnReader(reader) => self.read_values(reader, |sink, _, value| {
                let unsigned = i128::from(value.cast_unsigned());
                push_integer(
                    sink,
                    if meaning == Meaning::Unsigned { unsigned } else { i128::from(*value) },
                    meaning,
                )
            }),
            ColumnReader::Int96ColumnReader(reader) => self.read_values(reader, |sink, _, value| {
                push_integer(sink, i128::from(value.to_nanos()), meaning)
            }),
            ColumnReader::FloatColumnReader(reader) => {
                self.read_values(reader, |sink, _, value| push_number(sink, f64::from(*value)))
            }
            ColumnReader::DoubleColumnReader(reader) => {
                self.read_values(reader, |sink, _, value| push_number(sink, *value))
            }
            ColumnReader::ByteArrayColumnReader(reader) => {
                self.read_values(reader, |sink, row, value| push_bytes(sink, row, value.data(), meaning))
            }
            ColumnReader::FixedLenByteArrayColumnReader(reader) => {
                self.read_values(reader, |sink, row, value| push_bytes(sink, row, value.data(), meaning))
            }
        }
    }

    fn read_values<T: DataType>(
        &mut self,
        mut reader: ColumnReaderImpl<T>,
        push: impl Fn(&mut Sink, usize, &T::T) -> Result<(), NotUtf8>,
    ) -> Result<(), ColumnError> {
        let mut values: Vec<T::T> = Vec::new();
        let mut levels: Vec<i16> = Vec::new();
        loop {
            values.clear();
            levels.clear();
            let (records, _, _) = reader.read_records(BATCH_ROWS, Some(&mut levels), None, &mut values)?;
            if records == 0 {
                return Ok(());
            }
            let mut present = values.iter();
            for record in 0..records {
                // A required column has no levels: every value is there.
                let is_null = self.optional && levels.get(record).is_none_or(|&level| level == 0);
                match (!is_null).then(|| present.next()).flatten() {
                    Some(value) => push(&mut self.sink, self.row, value)
                        .map_err(|NotUtf8| ColumnError::NotUtf8 { row: self.row })?,
                    None => self.sink.push_missing(),
                }
                self.row += 1;
            }
        }
    }
}

fn push_number(sink: &mut Sink, value: f64) -> Result<(), NotUtf8> {
    sink.push_number(value);
    Ok(())
}

fn push_integer(sink: &mut Sink, value: i128, meaning: Meaning) -> Result<(), NotUtf8> {
    match meaning {
        Meaning::Scaled(divisor) => sink.push_number(value as f64 / divisor),
        _ => sink.push_integer(value),
    }
    Ok(())
}

fn push_bytes(sink: &mut Sink, row: usize, value: &[u8], meaning: Meaning) -> Result<(), NotUtf8> {
    match meaning {
        Meaning::Scaled(divisor) => push_number(sink, big_endian(value) / divisor),
        _ => sink.push(row, trim(value)),
    }
}

/// A two's complement integer of any length, as decimals store it.
fn big_endian(bytes: &[u8]) -> f64 {
    let negative = bytes.first().is_some_and(|byte| byte & 0x80 != 0);
    // -v = not(v) + 1, and not(v) has the sign bit clear.
    let magnitude =
        bytes.iter().fold(0.0, |sum, &byte| sum * 256.0 + f64::from(if negative { !byte } else { byte }));
    if negative { -(magnitude + 1.0) } else { magnitude }
}

#[cfg(test)]
mod tests;
