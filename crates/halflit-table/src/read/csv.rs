//! CSV: blocks of whole records, parsed by the csv crate on all threads of the current pool.
//!
//! A column is numbers until a cell says otherwise. The block in which that happens reads the column again as text, later
//! blocks know, and earlier blocks that saw only numbers are read again from the file in a second pass over that column.

use super::blocks::{Block, Blocks};
use super::joined::{Joined, JoinedColumn, ParsedBlock};
use super::sink::{NotUtf8, Piece, Sink};
use super::{ReadAs, ReadOptions, TableError, open};
use crate::table::{LineMap, Table, TableColumn, check_names};
use crate::value::trim;
use flate2::read::MultiGzDecoder;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Large enough that threads rarely meet, small enough that a few fit in the cache of a server.
const BLOCK_LEN: usize = 1 << 21;

pub(super) struct CsvFile<'a> {
    pub(super) path: &'a Path,
    pub(super) file: String,
    pub(super) separator: u8,
    pub(super) gzip: bool,
}

/// Reads the table.
pub(super) fn read(source: &CsvFile, options: &ReadOptions) -> Result<Table, TableError> {
    read_in_blocks(source, options, BLOCK_LEN)
}

fn read_in_blocks(source: &CsvFile, options: &ReadOptions, block_len: usize) -> Result<Table, TableError> {
    let opened = source.start(block_len)?;
    let names = opened.names.clone();
    let wanted: Vec<ReadAs> = names.iter().map(|name| options.of(name)).collect();
    let mut joined = parse_all(source, opened, &wanted)?;
    if joined.rows == 0 {
        return Err(TableError::NoRows { file: source.file.clone(), columns: names.len() });
    }
    reread_mixed(source, block_len, &mut joined)?;
    let columns = names.into_iter().zip(joined.columns).map(|(name, column)| {
        let cells = column.finish().ok_or_else(|| source.changed())?;
        Ok(TableColumn { name, cells })
    });
    let columns = columns.collect::<Result<Vec<_>, TableError>>()?;
    Table::checked(source.file.clone(), joined.rows, columns, joined.lines)
}

/// A file whose header has been read.
struct Opened {
    blocks: Blocks<Box<dyn Read + Send>>,
    separator: u8,
    names: Vec<String>,
    /// The first block, and where in it the rows start.
    first: Block,
    rows_from: usize,
}

impl CsvFile<'_> {
    fn start(&self, block_len: usize) -> Result<Opened, TableError> {
        let file = open(self.path, &self.file)?;
        let stream: Box<dyn Read + Send> =
            if self.gzip { Box::new(MultiGzDecoder::new(BufReader::new(file))) } else { Box::new(file) };
        let mut blocks = Blocks::new(stream, self.separator, block_len);
        let line = blocks.first_line().map_err(|error| self.io(error))?;
        let separator = separator_of(line, self.separator);
        blocks.set_separator(separator);
        let first = blocks.next().map_err(|error| self.io(error))?.ok_or_else(|| self.empty())?;

        let mut reader = reader(&first.bytes, separator);
        let mut header = csv::ByteRecord::new();
        if !read_record(&mut reader, &mut header) {
            return Err(self.empty());
        }
        let rows_from = in_block(reader.position());
        let line = first.first_line;
        let mut names = Vec::with_capacity(header.len());
        for (index, name) in header.iter().enumerate() {
            let name = std::str::from_utf8(trim(name)).map_err(|_| TableError::NotUtf8 {
                file: self.file.clone(),
                line,
                column: (index + 1).to_string(),
            })?;
            names.push(name.to_owned());
        }
        check_names(&self.file, line, names.iter().map(String::as_str))?;
        Ok(Opened { blocks, separator, names, first, rows_from })
    }

    fn io(&self, error: io::Error) -> TableError {
        let file = self.file.clone();
        // What a decoder reports about the bytes, as against what the system reports about the file.
        let of_decoder =
            [io::ErrorKind::InvalidData, io::ErrorKind::InvalidInput, io::ErrorKind::UnexpectedEof]
                .contains(&error.kind());
        if self.gzip && of_decoder {
            TableError::Unreadable { file, format: "gzip", reason: error.to_string() }
        } else {
            TableError::Io { file, source: error }
        }
    }

    fn changed(&self) -> TableError {
        TableError::Changed { file: self.file.clone() }
    }

    fn empty(&self) -> TableError {
        TableError::Empty { file: self.file.clone() }
    }
}

/// The separator that the extension promises if the header uses it; else the commonest of `;`, tab and `|` in the
/// header; the header alone decides, so the rows cannot.
fn separator_of(header: &[u8], promised: u8) -> u8 {
    let count = |separator: u8| memchr::memchr_iter(separator, header).count();
    if count(promised) > 0 {
        return promised;
    }
    let others = [b',', b'|', b'\t', b';'];
    others.into_iter().max_by_key(|&other| count(other)).filter(|&other| count(other) > 0).unwrap_or(promised)
}

/// Parses every block of the file; blocks are handed out in order to whichever thread is free.
fn parse_all(source: &CsvFile, opened: Opened, wanted: &[ReadAs]) -> Result<Joined, TableError> {
    let Opened { blocks, separator, names, first, rows_from } = opened;
    let parser =
        Parser { file: &source.file, names: &names, separator, wanted, became_text: flags(names.len()) };
    let queue = Mutex::new((Some(first), blocks));
    let next_block = || -> io::Result<Option<(Block, usize)>> {
        let (first, blocks) = &mut *lock(&queue);
        match first.take() {
            Some(first) => Ok(Some((first, rows_from))),
            None => Ok(blocks.next()?.map(|block| (block, 0))),
        }
    };
    let joined = Mutex::new(Joined::new(names.len()));
    let failures = Mutex::new(Vec::new());
    let stop = AtomicBool::new(false);
    let work = || {
        while !stop.load(Ordering::Relaxed) {
            let outcome = match next_block() {
                Ok(Some((block, from))) => parser.parse(&block, from).map_err(|error| (block.index, error)),
                Ok(None) => break,
                // The stream broke after every block that was handed out.
                Err(error) => Err((usize::MAX, source.io(error))),
            };
            match outcome {
                Ok(parsed) => lock(&joined).add(parsed),
                Err(failure) => {
                    lock(&failures).push(failure);
                    stop.store(true, Ordering::Relaxed);
                }
            }
        }
    };
    rayon::scope(|scope| (0..rayon::current_num_threads()).for_each(|_| scope.spawn(|_| work())));

    // Blocks before the first failure were all handed out earlier and have been parsed: the first line wins.
    let failures = failures.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, error)) = failures.into_iter().min_by_key(|(index, _)| *index) {
        return Err(error);
    }
    Ok(joined.into_inner().unwrap_or_else(PoisonError::into_inner))
}

fn flags(count: usize) -> Vec<AtomicBool> {
    (0..count).map(|_| AtomicBool::new(false)).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Columns that are text in one block and numbers in another are read again as text.
fn reread_mixed(source: &CsvFile, block_len: usize, joined: &mut Joined) -> Result<(), TableError> {
    let read_as = |column: &JoinedColumn| match column {
        JoinedColumn::Mixed => ReadAs::Text,
        _ => ReadAs::Skipped,
    };
    let wanted: Vec<ReadAs> = joined.columns.iter().map(read_as).collect();
    if !wanted.contains(&ReadAs::Text) {
        return Ok(());
    }
    let opened = source.start(block_len)?;
    if opened.names.len() != wanted.len() {
        return Err(source.changed());
    }
    let again = parse_all(source, opened, &wanted)?;
    if again.rows != joined.rows {
        return Err(source.changed());
    }
    for (column, again) in joined.columns.iter_mut().zip(again.columns) {
        if let JoinedColumn::Mixed = column {
            *column = again;
        }
    }
    Ok(())
}

struct Parser<'a> {
    file: &'a str,
    names: &'a [String],
    separator: u8,
    wanted: &'a [ReadAs],
    /// Inferred columns that some block found to be text.
    became_text: Vec<AtomicBool>,
}

impl Parser<'_> {
    fn parse(&self, block: &Block, from: usize) -> Result<ParsedBlock, TableError> {
        let wanted: Vec<ReadAs> =
            self.wanted.iter().zip(&self.became_text).map(self.known_so_far()).collect();
        let mut parsed = self.collect(block, from, &wanted)?;
        let late: Vec<ReadAs> = parsed
            .pieces
            .iter()
            .map(|piece| if matches!(piece, Piece::BecameText) { ReadAs::Text } else { ReadAs::Skipped })
            .collect();
        if late.contains(&ReadAs::Text) {
            let texts = self.collect(block, from, &late)?;
            for (column, text) in texts.pieces.into_iter().enumerate() {
                if matches!(text, Piece::Text(_)) {
                    self.became_text[column].store(true, Ordering::Relaxed);
                    parsed.pieces[column] = text;
                }
            }
        }
        Ok(parsed)
    }

    fn known_so_far(&self) -> impl Fn((&ReadAs, &AtomicBool)) -> ReadAs {
        |(&read_as, became_text)| match read_as {
            ReadAs::Inferred if became_text.load(Ordering::Relaxed) => ReadAs::Text,
            other => other,
        }
    }

    fn collect(&self, block: &Block, from: usize, wanted: &[ReadAs]) -> Result<ParsedBlock, TableError> {
        let bytes = &block.bytes[from..];
        // A row has a line end, and a byte for each of its separators: blank lines must not claim room for rows.
        let most_rows = (block.line_feeds + 1).min(bytes.len() / self.names.len().max(1) + 1);
        let mut sinks: Vec<Sink> = wanted.iter().map(|&read_as| Sink::new(read_as, most_rows)).collect();
        let mut reader = reader(bytes, self.separator);
        let mut record = csv::ByteRecord::new();
        let mut lines = LineMap::default();
        let mut line = block.first_line + count_lines(&block.bytes[..from]);
        let mut counted_to = 0;
        let mut row = 0;
        while read_record(&mut reader, &mut record) {
            // Where the reader stood before the record; it may not have taken the line end before it yet.
            let start = start_of_record(bytes, record.position().map_or(0, in_block));
            line += count_lines(&bytes[counted_to..start]);
            counted_to = start;
            lines.push(row, line);
            if record.len() != self.names.len() {
                let found = record.len();
                // An unclosed quote swallows the following rows: name the cause, not the effect.
                let is_last = !read_record(&mut reader, &mut record);
                return Err(if block.unclosed_quote && is_last {
                    self.unclosed_quote(line)
                } else {
                    self.ragged(line, found)
                });
            }
            for (column, (sink, cell)) in sinks.iter_mut().zip(record.iter()).enumerate() {
                sink.push(row, trim(cell)).map_err(|NotUtf8| TableError::NotUtf8 {
                    file: self.file.to_owned(),
                    line,
                    column: self.names[column].clone(),
                })?;
            }
            row += 1;
        }
        if block.unclosed_quote {
            return Err(self.unclosed_quote(line));
        }
        let pieces = sinks.into_iter().map(Sink::finish).collect();
        Ok(ParsedBlock { index: block.index, rows: row, lines, pieces })
    }

    fn unclosed_quote(&self, line: u64) -> TableError {
        TableError::UnclosedQuote { file: self.file.to_owned(), line }
    }

    fn ragged(&self, line: u64, found: usize) -> TableError {
        TableError::Ragged {
            file: self.file.to_owned(),
            line,
            expected: self.names.len(),
            found,
            first_missing: self.names.get(found).cloned(),
        }
    }
}

/// One line feed goes before every block, so that the reader takes no byte order mark off a block's first cell.
const LEADING: usize = 1;

type BlockReader<'a> = csv::Reader<io::Chain<&'static [u8], &'a [u8]>>;

fn reader(bytes: &[u8], separator: u8) -> BlockReader<'_> {
    let stream = (&b"\n"[..LEADING]).chain(bytes);
    csv::ReaderBuilder::new().has_headers(false).flexible(true).delimiter(separator).from_reader(stream)
}

/// A flexible reader over memory has no errors to report.
fn read_record(reader: &mut BlockReader<'_>, record: &mut csv::ByteRecord) -> bool {
    reader.read_byte_record(record).unwrap_or(false)
}

/// A position of the reader as a position in the block.
fn in_block(position: &csv::Position) -> usize {
    usize::try_from(position.byte()).unwrap_or(0).saturating_sub(LEADING)
}

/// Skips the line ends before a record.
fn start_of_record(bytes: &[u8], from: usize) -> usize {
    from + bytes[from..].iter().take_while(|&&byte| byte == b'\n' || byte == b'\r').count()
}

fn count_lines(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}

#[cfg(test)]
mod tests;
