//! Cuts a stream of CSV bytes into blocks that end where a record ends.
//!
//! Where a record ends is decided exactly as the csv crate decides it: a quote opens a quoted cell only at the start of a
//! cell; inside, a doubled quote is a quote; after the closing quote, and in an unquoted cell, quotes are ordinary bytes.

use memchr::{memchr, memchr_iter, memrchr};
use std::io::{self, Read};

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A run of whole records.
pub(super) struct Block {
    /// Position in the file, counted from 0.
    pub(super) index: usize,
    pub(super) bytes: Vec<u8>,
    /// Line of the file on which the block starts.
    pub(super) first_line: u64,
    /// Number of line feeds: at least the number of rows, less one.
    pub(super) line_feeds: usize,
    /// The block is the last one and ends inside a quoted cell.
    pub(super) unclosed_quote: bool,
}

/// Hands out the blocks of a stream in order.
pub(super) struct Blocks<R> {
    stream: R,
    separator: u8,
    block_len: usize,
    /// The start of a record that the last block did not contain whole.
    carry: Vec<u8>,
    next_index: usize,
    next_line: u64,
    at_end: bool,
}

impl<R: Read> Blocks<R> {
    pub(super) fn new(stream: R, separator: u8, block_len: usize) -> Self {
        Blocks { stream, separator, block_len, carry: Vec::new(), next_index: 0, next_line: 1, at_end: false }
    }

    /// To be called first: drops a byte order mark and blank lines, and shows the first line, which stays in the stream.
    pub(super) fn first_line(&mut self) -> io::Result<&[u8]> {
        while self.carry.len() < BYTE_ORDER_MARK.len() && !self.at_end {
            self.read_more()?;
        }
        if self.carry.starts_with(BYTE_ORDER_MARK) {
            self.carry.drain(..BYTE_ORDER_MARK.len());
        }
        loop {
            let blank = self.carry.iter().take_while(|&&byte| byte == b'\n' || byte == b'\r').count();
            self.next_line += memchr_iter(b'\n', &self.carry[..blank]).count() as u64;
            self.carry.drain(..blank);
            if self.at_end || memchr(b'\n', &self.carry).is_some() {
                break;
            }
            self.read_more()?;
        }
        let end = memchr(b'\n', &self.carry).unwrap_or(self.carry.len());
        Ok(&self.carry[..end])
    }

    pub(super) fn set_separator(&mut self, separator: u8) {
        self.separator = separator;
    }

    /// The next block, or none at the end of the stream.
    pub(super) fn next(&mut self) -> io::Result<Option<Block>> {
        let cut = loop {
            while self.carry.len() < self.block_len && !self.at_end {
                self.read_more()?;
            }
            if self.carry.is_empty() {
                return Ok(None);
            }
            let scan = scan_records(&self.carry, self.separator, self.at_end);
            if self.at_end {
                break Cut { len: self.carry.len(), unclosed_quote: scan.open_quote };
            }
            if let Some(len) = scan.last_end {
                break Cut { len, unclosed_quote: false };
            }
            // One record longer than the block: doubling keeps the repeated scans linear in total.
            let len = self.carry.len();
            while self.carry.len() < 2 * len && !self.at_end {
                self.read_more()?;
            }
        };
        let rest = self.carry.split_off(cut.len);
        let bytes = std::mem::replace(&mut self.carry, rest);
        let line_feeds = memchr_iter(b'\n', &bytes).count();
        let block = Block {
            index: self.next_index,
            first_line: self.next_line,
            line_feeds,
            unclosed_quote: cut.unclosed_quote,
            bytes,
        };
        self.next_index += 1;
        self.next_line += line_feeds as u64;
        Ok(Some(block))
    }

    fn read_more(&mut self) -> io::Result<()> {
        let want = self.block_len.max(1) as u64;
        self.carry.reserve(self.block_len);
        let read = self.stream.by_ref().take(want).read_to_end(&mut self.carry)?;
        self.at_end = read == 0;
        Ok(())
    }
}

struct Cut {
    len: usize,
    unclosed_quote: bool,
}

struct Scan {
    /// Just after the last line feed that ends a record.
    last_end: Option<usize>,
    /// The bytes end inside a quoted cell.
    open_quote: bool,
}

/// Finds the last record end in bytes that start with a record.
fn scan_records(bytes: &[u8], separator: u8, at_end: bool) -> Scan {
    let mut last_end = None;
    let mut plain_from = 0;
    let mut look_from = 0;
    while let Some(offset) = memchr(b'"', &bytes[look_from..]) {
        let quote = look_from + offset;
        let starts_cell = quote == 0 || [separator, b'\n', b'\r'].contains(&bytes[quote - 1]);
        if !starts_cell {
            look_from = quote + 1;
            continue;
        }
        if let Some(feed) = memrchr(b'\n', &bytes[plain_from..quote]) {
            last_end = Some(plain_from + feed + 1);
        }
        match closing_quote(bytes, quote + 1, at_end) {
            Some(after) => {
                plain_from = after;
                look_from = after;
            }
            None => return Scan { last_end, open_quote: true },
        }
    }
    if let Some(feed) = memrchr(b'\n', &bytes[plain_from..]) {
        last_end = Some(plain_from + feed + 1);
    }
    Scan { last_end, open_quote: false }
}

/// The position after the quote that closes a quoted cell. A quote in the last byte may be half of a doubled one, so
/// it closes only at the end of the file.
fn closing_quote(bytes: &[u8], from: usize, at_end: bool) -> Option<usize> {
    let mut look_from = from;
    loop {
        let quote = look_from + memchr(b'"', &bytes[look_from..])?;
        match bytes.get(quote + 1) {
            Some(b'"') => look_from = quote + 2,
            Some(_) => return Some(quote + 1),
            None => return at_end.then_some(quote + 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn records(bytes: &[u8]) -> Vec<csv::ByteRecord> {
        // The line feed keeps the reader from taking a byte order mark off the start of a block.
        let stream = b"\n".chain(bytes);
        let reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(stream);
        reader.into_byte_records().map(Result::unwrap).collect()
    }

    /// Bytes in which the interesting ones are common.
    fn csv_like() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(
            proptest::sample::select(b"\"\"\"\n\n\r,,ab \xef\xbb\xbf\xff".to_vec()),
            0..60,
        )
    }

    proptest! {
        #[test]
        fn blocks_parse_like_the_whole(bytes in csv_like(), block_len in 1usize..20) {
            let mut blocks = Blocks::new(bytes.as_slice(), b',', block_len);
            let mut joined = Vec::new();
            let mut parsed = Vec::new();
            let mut line = 1;
            while let Some(block) = blocks.next().unwrap() {
                prop_assert_eq!(block.first_line, line);
                line += block.bytes.iter().filter(|&&byte| byte == b'\n').count() as u64;
                parsed.extend(records(&block.bytes));
                joined.extend(block.bytes);
            }
            prop_assert_eq!(&joined, &bytes);
            prop_assert_eq!(parsed, records(&bytes));
        }
    }

    #[test]
    fn an_unclosed_quote_is_seen() {
        for (text, unclosed) in [
            ("a,b\n1,\"2\n3,4\n", true),
            ("a,b\n1,\"2\"\n", false),
            ("a\n\"x\"\"", true),
            ("a\n\"x\"\"\"", false),
            ("a\n5\" tall\n", false),
            ("a\n\"", true),
        ] {
            let mut blocks = Blocks::new(text.as_bytes(), b',', 1 << 20);
            assert_eq!(blocks.next().unwrap().unwrap().unclosed_quote, unclosed, "{text}");
        }
    }

    #[test]
    fn the_first_line_is_still_in_the_first_block() {
        let mut blocks = Blocks::new(&b"\xef\xbb\xbf\n\r\na;b\r\n1;2\n"[..], b',', 2);
        assert_eq!(blocks.first_line().unwrap(), b"a;b\r");
        let first = blocks.next().unwrap().unwrap();
        assert_eq!(first.first_line, 3);
        let mut joined = first.bytes;
        while let Some(block) = blocks.next().unwrap() {
            joined.extend(block.bytes);
        }
        assert_eq!(joined, b"a;b\r\n1;2\n");
    }
}
