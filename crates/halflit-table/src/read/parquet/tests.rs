use super::*;
use crate::table::ColumnType;
use parquet::basic::Compression;
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DoubleType, FixedLenByteArray, FixedLenByteArrayType, FloatType,
    Int32Type, Int64Type,
};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use proptest::prelude::*;
use std::sync::Arc;

const SCHEMA: &str = "message table {
    required boolean flag;
    optional int32 age;
    required int64 id;
    required int32 small (INTEGER(8, false));
    required float share;
    optional double amount;
    optional binary town (UTF8);
    required fixed_len_byte_array(2) price (DECIMAL(4, 2));
    required int32 day (DATE);
    required int64 at (TIMESTAMP(MILLIS, true));
    repeated int32 many;
    required group nested { required int32 inner; }
}";

/// Two rows of every kind of column; `age`, `amount` and `town` are missing in the second.
fn file(compression: Compression) -> Vec<u8> {
    let properties = WriterProperties::builder().set_compression(compression).build();
    let schema = Arc::new(parse_message_type(SCHEMA).unwrap());
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties)).unwrap();
    let mut group = writer.next_row_group().unwrap();
    macro_rules! column {
        ($type:ty, $values:expr, $definition:expr, $repetition:expr) => {{
            let mut column = group.next_column().unwrap().unwrap();
            column.typed::<$type>().write_batch(&$values, $definition, $repetition).unwrap();
            column.close().unwrap();
        }};
    }
    let text = |text: &str| ByteArray::from(text);
    let fixed = |bytes: [u8; 2]| FixedLenByteArray::from(bytes.to_vec());
    column!(BoolType, [true, false], None, None);
    column!(Int32Type, [40], Some(&[1, 0]), None);
    column!(Int64Type, [9007199254740993, -5], None, None);
    column!(Int32Type, [200, 7], None, None);
    column!(FloatType, [0.5, f32::NAN], None, None);
    column!(DoubleType, [f64::INFINITY], Some(&[1, 0]), None);
    column!(ByteArrayType, [text(" Bern ")], Some(&[1, 0]), None);
    column!(FixedLenByteArrayType, [fixed([0x04, 0xD2]), fixed([0xFF, 0x9C])], None, None);
    column!(Int32Type, [19000, -1], None, None);
    column!(Int64Type, [1500, 0], None, None);
    column!(Int32Type, [1, 2], Some(&[1, 1]), Some(&[0, 0]));
    column!(Int32Type, [1, 2], None, None);
    group.close().unwrap();
    writer.into_inner().unwrap()
}

fn show(table: &Table, name: &str) -> Vec<String> {
    let missing = || "-".to_owned();
    (0..table.rows())
        .map(|row| match &table.column(name).unwrap().cells {
            Cells::Numbers(numbers) if numbers.values[row].is_nan() => missing(),
            Cells::Numbers(numbers) => numbers.values[row].to_string(),
            Cells::Text(texts) => texts.get(row).map_or_else(missing, str::to_owned),
            Cells::NotRead(_) => "not read".to_owned(),
        })
        .collect()
}

#[test]
fn every_type_and_compression() {
    let compressions = [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::GZIP(Default::default()),
        Compression::LZ4_RAW,
        Compression::ZSTD(Default::default()),
    ];
    for compression in compressions {
        let table = read(file(compression), "data.parquet", &ReadOptions::default()).unwrap();
        for (name, expected) in [
            ("flag", ["true", "false"]),
            ("age", ["40", "-"]),
            ("small", ["200", "7"]),
            ("share", ["0.5", "-"]),
            ("amount", ["inf", "-"]),
            ("town", ["Bern", "-"]),
            ("price", ["12.34", "-1"]),
            ("day", ["19000", "-1"]),
            ("at", ["1.5", "0"]),
            ("many", ["not read", "not read"]),
            ("nested", ["not read", "not read"]),
        ] {
            assert_eq!(show(&table, name), expected, "{name} {compression:?}");
        }
        assert_eq!(table.column_type("flag"), Some(ColumnType::Text));
        assert_eq!(table.column_type("id"), Some(ColumnType::Number));
    }
}

#[test]
fn identifiers_read_as_text_keep_their_digits() {
    let options = ReadOptions::default().column("id", ReadAs::Text).column("town", ReadAs::Number);
    let table = read(file(Compression::UNCOMPRESSED), "data.parquet", &options).unwrap();
    assert_eq!(show(&table, "id"), ["9007199254740993", "-5"]);
    let Cells::Numbers(town) = &table.column("town").unwrap().cells else { panic!("declared a number") };
    assert_eq!(town.unreadable_text(0), Some("Bern"));
}

#[test]
fn damaged_files_are_named() {
    let good = file(Compression::SNAPPY);
    for bytes in [Vec::new(), b"PAR1".to_vec(), good[..good.len() / 2].to_vec(), b"a,b\n1,2\n".to_vec()] {
        let error = read(bytes, "data.parquet", &ReadOptions::default()).unwrap_err();
        assert!(matches!(error, TableError::Unreadable { format: "Parquet", .. }), "{error}");
    }
}

#[test]
fn two_complement_of_any_length() {
    for (bytes, value) in
        [(&[][..], 0.0), (&[0x7F], 127.0), (&[0x80], -128.0), (&[0xFF, 0xFF, 0xFE], -2.0), (&[0; 9], 0.0)]
    {
        assert_eq!(big_endian(bytes), value, "{bytes:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn a_flipped_byte_does_not_panic(at in any::<prop::sample::Index>(), to: u8) {
        let mut bytes = file(Compression::SNAPPY);
        let at = at.index(bytes.len());
        bytes[at] = to;
        let _ = read(bytes, "data.parquet", &ReadOptions::default());
    }
}
