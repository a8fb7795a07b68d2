//! Comma-separated values: records of two columns.

use std::collections::VecDeque;
use std::io::{self, BufRead, Chain, Read};

use super::source::{InputItem, InputPair, OutputLine, PairSource};
use crate::failure::{CommandError, Result};

/// Stands behind the input: a field that holds it was opened by a quote that nobody closed.
const END: &[u8] = b"\n\0the end of the input of everleaf\0";

pub struct CsvRecords {
    reader: csv::Reader<CountedInput>,
    record: csv::ByteRecord,
    line: u64,
}

/// The input, and where its newlines are that no record has passed yet: what the reader of records
/// says of lines leaves out blank ones, and the second half of CRLF.
struct CountedInput {
    input: Chain<Box<dyn BufRead>, &'static [u8]>,
    bytes: u64,
    newlines: VecDeque<u64>,
    passed: u64,
}

impl Read for CountedInput {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(out)?;
        let newlines = (self.bytes..).zip(&out[..read]).filter(|(_, byte)| **byte == b'\n');
        self.newlines.extend(newlines.map(|(at, _)| at));
        self.bytes += read as u64;
        Ok(read)
    }
}

impl CountedInput {
    /// The number of the line that holds a byte.
    fn line_at(&mut self, byte: u64) -> u64 {
        while self.newlines.front().is_some_and(|newline| *newline < byte) {
            self.newlines.pop_front();
            self.passed += 1;
        }
        self.passed + 1
    }
}

impl CsvRecords {
    pub fn new(input: Box<dyn BufRead>, header: bool) -> Self {
        let mut builder = csv::ReaderBuilder::new();
        let (bytes, newlines, passed) = (0, VecDeque::new(), 0);
        let input = CountedInput { input: input.chain(END), bytes, newlines, passed };
        let reader = builder.flexible(true).has_headers(header).from_reader(input);
        CsvRecords { reader, record: csv::ByteRecord::new(), line: 0 }
    }
}

impl PairSource for CsvRecords {
    fn next(&mut self, pair: &mut InputPair) -> Result<InputItem> {
        let read = self.reader.read_byte_record(&mut self.record);
        let more =
            read.map_err(|error| CommandError::Blocked(format!("cannot read the input: {error}")))?;
        // Its last byte is what ended it, maybe with a second one behind.
        let end = self.reader.position().byte().saturating_sub(1);
        let inside = self.record.as_slice().iter().filter(|byte| **byte == b'\n').count();
        let last_line = self.reader.get_mut().line_at(end);
        self.line = last_line.saturating_sub(inside as u64);
        let last = self.record.get(self.record.len().wrapping_sub(1)).unwrap_or_default();
        if !more || (self.record.len() == 1 && last == &END[1..]) {
            return Ok(InputItem::End);
        }
        if last.ends_with(END) {
            return Ok(InputItem::Bad("a quote that is not closed".into()));
        }
        let (Some(key), Some(value), 2) =
            (self.record.get(0), self.record.get(1), self.record.len())
        else {
            return Ok(InputItem::Bad(format!("columns: {}, and not two", self.record.len())));
        };
        pair.key.clear();
        pair.key.extend(key);
        pair.value.clear();
        pair.value.extend(value);
        Ok(InputItem::Pair)
    }

    fn line(&self) -> u64 {
        self.line
    }

    fn bytes(&self) -> u64 {
        self.reader.position().byte()
    }
}

pub fn write(key: &[u8], value: &[u8], out: &mut OutputLine) {
    record(&[key, value], out);
}

/// A key or a value alone: a record of one column.
pub fn write_one(bytes: &[u8], out: &mut OutputLine) {
    record(&[bytes], out);
}

fn record(columns: &[&[u8]], out: &mut OutputLine) {
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record(columns).expect("a vector takes all");
    writer.flush().expect("a vector takes all");
}
