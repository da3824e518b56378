use super::*;
use crate::table::{Cells, ColumnType};
use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use std::io::Write;

/// Writes the bytes to a file of this name in a new folder and reads it in blocks of this length.
fn read_bytes(
    name: &str,
    bytes: &[u8],
    options: &ReadOptions,
    block_len: usize,
) -> Result<Table, TableError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    let separator = if name.contains(".tsv") { b'\t' } else { b',' };
    let source = CsvFile { path: &path, file: name.to_owned(), separator, gzip: name.ends_with(".gz") };
    read_in_blocks(&source, options, block_len)
}

fn read_text(text: &str) -> Result<Table, TableError> {
    read_bytes("data.csv", text.as_bytes(), &ReadOptions::default(), BLOCK_LEN)
}

/// Every cell as text; `-` for missing, `?` before an unreadable one.
fn cells(table: &Table) -> Vec<Vec<String>> {
    let show = |cells: &Cells, row: usize| match cells {
        Cells::Numbers(numbers) => match numbers.unreadable_text(row) {
            Some(text) => format!("?{text}"),
            None if numbers.values[row].is_nan() => "-".to_owned(),
            None => numbers.values[row].to_string(),
        },
        Cells::Text(texts) => texts.get(row).unwrap_or("-").to_owned(),
        Cells::NotRead(_) => "skipped".to_owned(),
    };
    table
        .columns()
        .iter()
        .map(|column| (0..table.rows()).map(|row| show(&column.cells, row)).collect())
        .collect()
}

fn types(table: &Table) -> Vec<ColumnType> {
    table.columns().iter().map(|column| column.cells.column_type()).collect()
}

#[test]
fn types_come_from_the_whole_column() {
    let table =
        read_text("n,t,mixed,empty,flag\n1, a ,1,,true\n2.5,\"b,\"\"c\"\"\",x,,false\n,,3,,\n").unwrap();
    assert_eq!(
        types(&table),
        [ColumnType::Number, ColumnType::Text, ColumnType::Text, ColumnType::Number, ColumnType::Text]
    );
    assert_eq!(
        cells(&table),
        [["1", "2.5", "-"], ["a", "b,\"c\"", "-"], ["1", "x", "3"], ["-", "-", "-"], ["true", "false", "-"]]
    );
}

#[test]
fn the_reader_of_a_declared_column_keeps_unreadable_cells() {
    let options =
        ReadOptions::default().column("n", ReadAs::Number).column("t", ReadAs::Text).others(ReadAs::Skipped);
    let text = "n,t,u\n1,01,x\nNA,1.0,x\nNaN,1,x\ninf,,x\n1e999,2,x\n,3,x\n";
    let table = read_bytes("data.csv", text.as_bytes(), &options, 8).unwrap();
    assert_eq!(types(&table), [ColumnType::Number, ColumnType::Text, ColumnType::NotRead]);
    assert_eq!(cells(&table)[0], ["1", "?NA", "?NaN", "?inf", "?1e999", "-"]);
    assert_eq!(cells(&table)[1], ["01", "1.0", "1", "-", "2", "3"]);
}

#[test]
fn refused_files() {
    let error = |text: &str| read_text(text).unwrap_err();
    assert!(matches!(error(""), TableError::Empty { .. }));
    assert!(matches!(error("\n\r\n\n"), TableError::Empty { .. }));
    assert!(matches!(error("a,b\n"), TableError::NoRows { columns: 2, .. }));
    assert!(matches!(
        error("a,b,a\n1,2,3\n"),
        TableError::DuplicateColumn { first: 1, second: 3, line: 1, .. }
    ));
    assert!(matches!(error("\na, a\n1,2\n"), TableError::DuplicateColumn { line: 2, .. }));
    assert!(matches!(error(",b\n1,2\n"), TableError::EmptyName { column: 1, .. }));
    assert!(matches!(
        error("a,b,c\n1,2,3\n\n4,5\n"),
        TableError::Ragged { line: 4, expected: 3, found: 2, first_missing: Some(name), .. } if name == "c"
    ));
    assert!(matches!(
        error("a,b\r\n\"x\r\ny\",2\r\n\r\n1,2,3\r\n"),
        TableError::Ragged { line: 5, expected: 2, found: 3, first_missing: None, .. }
    ));
    assert!(matches!(error("a,b\n1,2\n3,\"4\n5,6\n"), TableError::UnclosedQuote { line: 3, .. }));
    assert!(matches!(error("a,b\n1,2\n\"3,4\n5,6\n"), TableError::UnclosedQuote { line: 3, .. }));
    let not_utf8 = read_bytes("data.csv", b"a,b\n1,ok\n2,\xff\n", &ReadOptions::default(), 4).unwrap_err();
    assert!(matches!(&not_utf8, TableError::NotUtf8 { line: 3, column, .. } if column == "b"), "{not_utf8}");
    let not_utf8 = read_bytes("data.csv", b"a,\xff\n1,2\n", &ReadOptions::default(), 4).unwrap_err();
    assert!(matches!(&not_utf8, TableError::NotUtf8 { line: 1, column, .. } if column == "2"), "{not_utf8}");
}

#[test]
fn messages_name_file_line_and_column() {
    for (text, message) in [
        (
            "a,b\n1\n",
            "data.csv:2: the row has 1 cells but the header names 2 columns; column `b` and what follows are missing",
        ),
        (
            "a,b\n1,2,3,4\n",
            "data.csv:2: the row has 4 cells but the header names 2 columns; 2 too many; quote cells that contain the separator",
        ),
        ("a,a\n1,2\n", "data.csv:1: columns 1 and 2 are both named `a`; names must be distinct"),
    ] {
        assert_eq!(read_text(text).unwrap_err().to_string(), message);
    }
}

#[test]
fn the_first_bad_line_wins_whatever_the_blocks() {
    let mut text = String::from("a,b\n");
    (0..500).for_each(|row| text.push_str(if row == 300 || row == 417 { "1\n" } else { "1,2\n" }));
    for block_len in [1, 7, 64, 1000, 100_000] {
        let error = read_bytes("data.csv", text.as_bytes(), &ReadOptions::default(), block_len).unwrap_err();
        assert!(matches!(error, TableError::Ragged { line: 302, .. }), "{error}");
    }
}

#[test]
fn text_that_appears_late_is_read_again() {
    let mut text = String::from("late,number,early\n");
    (0..400).for_each(|row| {
        text.push_str(&format!("{},{row},x{}\n", if row < 390 { "007" } else { "seven" }, row % 3))
    });
    let whole = read_bytes("data.csv", text.as_bytes(), &ReadOptions::default(), BLOCK_LEN).unwrap();
    assert_eq!(types(&whole), [ColumnType::Text, ColumnType::Number, ColumnType::Text]);
    assert_eq!(cells(&whole)[0][..2], ["007", "007"]);
    for block_len in [1, 50, 700] {
        let blocks = read_bytes("data.csv", text.as_bytes(), &ReadOptions::default(), block_len).unwrap();
        assert_eq!(cells(&blocks), cells(&whole));
    }
}

#[test]
fn separators_and_line_ends() {
    let expected = [["1", "3"], ["x", "y"]];
    for (name, text) in [
        ("data.csv", "a;b\n1;x\n3;y\n"),
        ("data.csv", "\u{feff}a,b\r\n1,x\r\n3,y"),
        ("data.csv", "a,b\r1,x\r3,y\r"),
        ("data.csv", "\n\na,b\n\n1,x\n\n\n3,y\n\n"),
        ("data.tsv", "a\tb\n1\tx\n3\ty\n"),
        ("data.csv", "a|b\n1|x\n3|y\n"),
        ("data.csv", "\"a\",\"b\"\n\"1\",\"x\"\n\"3\",y\n"),
    ] {
        let table = read_bytes(name, text.as_bytes(), &ReadOptions::default(), 5).unwrap();
        assert_eq!(cells(&table), expected, "{text:?}");
        assert_eq!(table.names().collect::<Vec<_>>(), ["a", "b"]);
    }
}

#[test]
fn blank_lines_claim_no_memory() {
    // Room for a row per line in every column would be 160 GB here.
    let header: Vec<String> = (0..20_000).map(|column| format!("c{column}")).collect();
    let text = header.join(",") + &"\n".repeat(1_000_000);
    assert!(matches!(read_text(&text), Err(TableError::NoRows { columns: 20_000, .. })));
}

#[test]
fn gzip_is_streamed_and_damage_is_named() {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(b"a,b\n1,x\n2,y\n").unwrap();
    let good = encoder.finish().unwrap();
    let table = read_bytes("data.csv.gz", &good, &ReadOptions::default(), 4).unwrap();
    assert_eq!(cells(&table), [["1", "2"], ["x", "y"]]);
    // Two members one after the other are one stream.
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(b"3,z\n").unwrap();
    let two = [good.clone(), encoder.finish().unwrap()].concat();
    assert_eq!(read_bytes("data.csv.gz", &two, &ReadOptions::default(), 4).unwrap().rows(), 3);

    for damaged in [&b"a,b\n1,2\n"[..], &good[..good.len() - 3], &good[..12]] {
        let error = read_bytes("data.csv.gz", damaged, &ReadOptions::default(), 4).unwrap_err();
        assert!(matches!(error, TableError::Unreadable { format: "gzip", .. }), "{error}");
    }
}

#[test]
fn lines_of_rows_are_exact() {
    let table =
        read_bytes("data.csv", b"a,b\r\n1,\"x\r\n\r\ny\"\r\n\r\n2,z\r\n3,z\r\n", &ReadOptions::default(), 3)
            .unwrap();
    assert_eq!((0..3).map(|row| table.line(row)).collect::<Vec<_>>(), [Some(2), Some(6), Some(7)]);
}

/// A cell that needs quoting or not, never with spaces at its ends.
fn any_cell() -> impl Strategy<Value = String> {
    "[a-z0-9.\"\n\r,;é -]{0,8}".prop_map(|cell| cell.trim().to_owned())
}

proptest! {
    #[test]
    fn written_cells_come_back(
        rows in proptest::collection::vec(proptest::collection::vec(any_cell(), 3), 1..20),
        block_len in 1usize..200,
    ) {
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(["first", "second", "third"]).unwrap();
        rows.iter().for_each(|row| writer.write_record(row).unwrap());
        let bytes = writer.into_inner().unwrap();
        let options = ReadOptions::default().others(ReadAs::Text);
        let table = read_bytes("data.csv", &bytes, &options, block_len).unwrap();
        for (column, read) in cells(&table).iter().enumerate() {
            let written: Vec<&str> =
                rows.iter().map(|row| if row[column].is_empty() { "-" } else { row[column].as_str() }).collect();
            prop_assert_eq!(read, &written);
        }
        // The line of a row is the number of line feeds before it: count them in the bytes as written.
        prop_assert_eq!(table.line(0), Some(2));
    }

    #[test]
    fn arbitrary_bytes_do_not_panic(bytes: Vec<u8>, block_len in 1usize..50) {
        let _ = read_bytes("data.csv", &bytes, &ReadOptions::default(), block_len);
        let _ = read_bytes("data.csv.gz", &bytes, &ReadOptions::default(), block_len);
    }

    #[test]
    fn blocks_do_not_change_the_table(
        text in "[ab1\\.]{1,3},[ab1\\.]{1,3}\n(([ab1\\.\"\n]{0,4},[ab1\\.\"]{0,4}\n){0,30})",
        block_len in 1usize..60,
    ) {
        let whole = read_bytes("data.csv", text.as_bytes(), &ReadOptions::default(), BLOCK_LEN);
        let blocks = read_bytes("data.csv", text.as_bytes(), &ReadOptions::default(), block_len);
        match (whole, blocks) {
            (Ok(whole), Ok(blocks)) => {
                prop_assert_eq!(cells(&whole), cells(&blocks));
                let lines = |table: &Table| (0..table.rows()).map(|row| table.line(row)).collect::<Vec<_>>();
                prop_assert_eq!(lines(&whole), lines(&blocks));
            }
            (whole, blocks) => prop_assert_eq!(
                whole.map_err(|error| error.to_string()).map(|_| ()),
                blocks.map_err(|error| error.to_string()).map(|_| ())
            ),
        }
    }
}
