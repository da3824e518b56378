//! Arrow IPC files and streams, behind the cargo feature `arrow`.

use super::sink::Sink;
use super::{ReadAs, ReadOptions, TableError};
use crate::table::{Cells, LineMap, Table, TableColumn};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Date64Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, RecordBatch};
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::{ArrowError, DataType, SchemaRef, TimeUnit};
use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Milliseconds in a day, the unit of the 64-bit dates.
const DAY_MILLISECONDS: f64 = 86_400_000.0;

/// Reads the table from the bytes of a file.
pub(super) fn read(bytes: &[u8], file: &str, options: &ReadOptions) -> Result<Table, TableError> {
    // The decoder asserts some properties of well-formed files; on a malformed one that is an error, not a crash.
    catch_unwind(AssertUnwindSafe(|| read_batches(bytes, file, options)))
        .unwrap_or_else(|_| Err(unreadable(file, "the file is malformed")))
}

fn unreadable(file: &str, reason: impl ToString) -> TableError {
    TableError::Unreadable { file: file.to_owned(), format: "Arrow IPC", reason: reason.to_string() }
}

fn read_batches(bytes: &[u8], file: &str, options: &ReadOptions) -> Result<Table, TableError> {
    let (schema, batches) = decode(bytes).map_err(|error| unreadable(file, error))?;
    let rows = batches.iter().map(RecordBatch::num_rows).sum();
    let columns = schema.fields().iter().enumerate().map(|(index, field)| {
        let name = field.name().clone();
        let mut sink = match (options.of(&name), is_text(field.data_type())) {
            (ReadAs::Inferred, true) => Sink::new(ReadAs::Text, rows),
            (read_as, _) => Sink::new(read_as, rows),
        };
        let mut row = 0;
        for batch in &batches {
            let column = batch.column(index);
            if !push_column(&mut sink, column.as_ref(), row) {
                let reason = format!("its Arrow type is {}", field.data_type());
                return TableColumn { name, cells: Cells::NotRead(reason) };
            }
            row += column.len();
        }
        let cells = sink.finish().into();
        TableColumn { name, cells }
    });
    Table::checked(file.to_owned(), rows, columns.collect(), LineMap::default())
}

/// A file has a footer to start from; anything else is tried as a stream.
fn decode(bytes: &[u8]) -> Result<(SchemaRef, Vec<RecordBatch>), ArrowError> {
    if bytes.starts_with(b"ARROW1") {
        let reader = FileReader::try_new(Cursor::new(bytes), None)?;
        return Ok((reader.schema(), reader.collect::<Result<_, _>>()?));
    }
    let reader = StreamReader::try_new(Cursor::new(bytes), None)?;
    Ok((reader.schema(), reader.collect::<Result<_, _>>()?))
}

fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Boolean | DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, values) => is_text(values),
        _ => false,
    }
}

/// Appends a column of a batch; false if its type is neither a number nor text.
fn push_column(sink: &mut Sink, column: &dyn Array, first_row: usize) -> bool {
    match column.data_type() {
        DataType::Boolean => {
            let values = column.as_boolean().iter();
            push_texts(
                sink,
                first_row,
                values.map(|value| value.map(|value| if value { "true" } else { "false" })),
            );
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            push_texts(sink, first_row, texts(column).into_iter());
        }
        DataType::Dictionary(_, values) if is_text(values) && **values != DataType::Boolean => {
            let dictionary = column.as_any_dictionary();
            let texts = texts(dictionary.values().as_ref());
            // Without values there are no keys to ask for, and every cell is missing.
            let keys = if texts.is_empty() { vec![0; column.len()] } else { dictionary.normalized_keys() };
            let cell =
                |row: usize| if column.is_null(row) { None } else { texts.get(keys[row]).copied().flatten() };
            push_texts(sink, first_row, (0..column.len()).map(cell));
        }
        DataType::Int8 => push_integers::<Int8Type>(sink, column),
        DataType::Int16 => push_integers::<Int16Type>(sink, column),
        DataType::Int32 => push_integers::<Int32Type>(sink, column),
        DataType::Int64 => push_integers::<Int64Type>(sink, column),
        DataType::UInt8 => push_integers::<UInt8Type>(sink, column),
        DataType::UInt16 => push_integers::<UInt16Type>(sink, column),
        DataType::UInt32 => push_integers::<UInt32Type>(sink, column),
        DataType::UInt64 => push_integers::<UInt64Type>(sink, column),
        DataType::Date32 => push_integers::<Date32Type>(sink, column),
        DataType::Float32 => push_numbers::<Float32Type>(sink, column, f64::from),
        DataType::Float64 => push_numbers::<Float64Type>(sink, column, f64::from),
        DataType::Date64 => push_numbers::<Date64Type>(sink, column, |value| value as f64 / DAY_MILLISECONDS),
        DataType::Timestamp(unit, _) => match unit {
            TimeUnit::Second => push_integers::<TimestampSecondType>(sink, column),
            TimeUnit::Millisecond => {
                push_numbers::<TimestampMillisecondType>(sink, column, |value| value as f64 / 1e3);
            }
            TimeUnit::Microsecond => {
                push_numbers::<TimestampMicrosecondType>(sink, column, |value| value as f64 / 1e6);
            }
            TimeUnit::Nanosecond => {
                push_numbers::<TimestampNanosecondType>(sink, column, |value| value as f64 / 1e9)
            }
        },
        _ => return false,
    }
    true
}

/// The texts of a column of any of the three text types; empty for other types.
fn texts(column: &dyn Array) -> Vec<Option<&str>> {
    match column.data_type() {
        DataType::Utf8 => column.as_string::<i32>().iter().collect(),
        DataType::LargeUtf8 => column.as_string::<i64>().iter().collect(),
        DataType::Utf8View => column.as_string_view().iter().collect(),
        _ => Vec::new(),
    }
}

fn push_texts<'a>(sink: &mut Sink, first_row: usize, texts: impl Iterator<Item = Option<&'a str>>) {
    for (offset, text) in texts.enumerate() {
        // Arrow has checked that its texts are UTF-8, so no cell is refused here.
        let _ = sink.push(first_row + offset, text.unwrap_or("").trim_ascii().as_bytes());
    }
}

fn push_numbers<T: ArrowPrimitiveType>(
    sink: &mut Sink,
    column: &dyn Array,
    number: impl Fn(T::Native) -> f64,
) {
    for value in column.as_primitive::<T>() {
        sink.push_number(value.map_or(f64::NAN, &number));
    }
}

fn push_integers<T: ArrowPrimitiveType>(sink: &mut Sink, column: &dyn Array)
where
    i128: From<T::Native>,
{
    for value in column.as_primitive::<T>() {
        match value {
            Some(value) => sink.push_integer(i128::from(value)),
            None => sink.push_missing(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::ColumnType;
    use arrow_array::{
        ArrayRef, BooleanArray, DictionaryArray, Float64Array, Int64Array, LargeStringArray, StringArray,
    };
    use arrow_ipc::writer::{FileWriter, StreamWriter};
    use std::sync::Arc;

    fn batch() -> RecordBatch {
        let towns: DictionaryArray<Int32Type> = vec![Some("Bern"), None, Some("Bern")].into_iter().collect();
        let nothing: DictionaryArray<Int32Type> = vec![None::<&str>; 3].into_iter().collect();
        let large = LargeStringArray::from(vec!["x", "y", "z"]);
        RecordBatch::try_from_iter([
            ("id", Arc::new(Int64Array::from(vec![9007199254740993, 2, 3])) as ArrayRef),
            ("amount", Arc::new(Float64Array::from(vec![Some(0.5), None, Some(f64::NAN)]))),
            ("name", Arc::new(StringArray::from(vec![Some(" a "), None, Some("b")]))),
            ("town", Arc::new(towns)),
            ("nothing", Arc::new(nothing)),
            ("large", Arc::new(large)),
            ("flag", Arc::new(BooleanArray::from(vec![true, false, true]))),
        ])
        .unwrap()
    }

    fn read_bytes(bytes: &[u8]) -> Result<Table, TableError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.arrow");
        std::fs::write(&path, bytes).unwrap();
        Table::read(&path, &ReadOptions::default().column("id", ReadAs::Text))
    }

    #[test]
    fn files_and_streams() {
        let batch = batch();
        let mut file = FileWriter::try_new(Vec::new(), &batch.schema()).unwrap();
        file.write(&batch).unwrap();
        file.write(&batch).unwrap();
        let mut stream = StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
        stream.write(&batch).unwrap();
        stream.write(&batch).unwrap();
        for bytes in [file.into_inner().unwrap(), stream.into_inner().unwrap()] {
            let table = read_bytes(&bytes).unwrap();
            assert_eq!(table.rows(), 6);
            let Cells::Numbers(amount) = &table.column("amount").unwrap().cells else { panic!("numbers") };
            assert_eq!(amount.values[3], 0.5);
            assert!(amount.values[1].is_nan() && amount.values[2].is_nan());
            for (name, expected) in [
                ("id", [Some("9007199254740993"), Some("2"), Some("3")]),
                ("name", [Some("a"), None, Some("b")]),
                ("town", [Some("Bern"), None, Some("Bern")]),
                ("nothing", [None, None, None]),
                ("large", [Some("x"), Some("y"), Some("z")]),
                ("flag", [Some("true"), Some("false"), Some("true")]),
            ] {
                let Cells::Text(texts) = &table.column(name).unwrap().cells else { panic!("{name} is text") };
                let read: Vec<_> = (0..6).map(|row| texts.get(row)).collect();
                assert_eq!(read, [expected, expected].concat(), "{name}");
            }
            assert_eq!(table.column_type("town"), Some(ColumnType::Text));
            assert!(read_bytes(&bytes[..bytes.len() / 2]).is_err());
        }
    }
}
