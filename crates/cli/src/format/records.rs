//! Records of comma-separated values (RFC 4180), one after the other, in bounded memory.
//!
//! A quote has a meaning at the beginning of a field only, and there it keeps commas, newlines and, twice,
//! itself. A record ends with a newline, a return, or both; blank lines are none. A record that is too long
//! is passed over up to its end, and so are the lines inside of its quotes.

use std::io::BufRead;

use super::lines::grow;
use crate::failure::{CommandError, Result};
use crate::numbers::grouped;

/// Bytes that the end of a field takes in memory.
const END_BYTES: usize = size_of::<usize>();

/// The records of an input.
pub struct Records {
    input: Box<dyn BufRead>,
    bytes_max: usize,
    record: Record,
    /// Why the record that is being read cannot be taken.
    refused: Option<String>,
    /// Bytes that were taken.
    pub bytes: u64,
    /// The line in which the last record began, counted from 1.
    pub line: u64,
    /// Ends of lines that were passed, and whether the last byte was a return.
    ends: u64,
    returned: bool,
}

/// The fields of one record.
#[derive(Default)]
pub struct Record {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Record {
    /// How many fields there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// A field, counted from 0; empty if there is none.
    pub fn field(&self, at: usize) -> &[u8] {
        let from = at.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied());
        let field = from.zip(self.ends.get(at)).and_then(|(from, to)| self.bytes.get(from..*to));
        field.unwrap_or_default()
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }
}

/// Where in a record the next byte is.
#[derive(Clone, Copy, PartialEq)]
enum At {
    /// Before the first field: a newline here ends no record.
    Record,
    /// Before a field.
    Field,
    /// In a field without quotes, or behind its closing quote.
    Plain,
    /// Inside of quotes.
    Quoted,
    /// Behind a quote inside of quotes, which closes them unless another one follows.
    Quote,
}

impl Records {
    /// Records of at most so many bytes.
    pub fn new(input: Box<dyn BufRead>, bytes_max: usize) -> Self {
        let (record, refused) = (Record::default(), None);
        Records { input, bytes_max, record, refused, bytes: 0, line: 0, ends: 0, returned: false }
    }

    /// The record that was read last.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Reads the next record. `None` at the end; else why it cannot be taken, maybe.
    pub fn next(&mut self) -> Result<Option<Result<(), String>>> {
        self.record.clear();
        self.refused = None;
        let mut at = At::Record;
        loop {
            let part = self.input.fill_buf().map_err(|error| CommandError::input(&error))?;
            if part.is_empty() {
                return Ok(self.end_of_input(at));
            }
            let mut done = 0;
            let mut ended = false;
            while let (false, Some(&byte)) = (ended, part.get(done)) {
                let rest = &part[done..];
                let run = match at {
                    At::Plain => rest.iter().position(|byte| matches!(byte, b',' | b'\n' | b'\r')),
                    At::Quoted => rest.iter().position(|byte| matches!(byte, b'"' | b'\n' | b'\r')),
                    _ => Some(0),
                };
                let run = run.unwrap_or(rest.len());
                if run > 0 {
                    keep(&mut self.record, &rest[..run], self.bytes_max, &mut self.refused);
                    (done, self.returned) = (done + run, false);
                    continue;
                }
                done += 1;
                if at == At::Record && !matches!(byte, b'\n' | b'\r') {
                    self.line = self.ends + 1;
                }
                // A return and a newline are one end.
                self.ends += u64::from(byte == b'\r' || (byte == b'\n' && !self.returned));
                self.returned = byte == b'\r';
                (at, ended) = step(at, byte, &mut self.record, self.bytes_max, &mut self.refused);
            }
            self.input.consume(done);
            self.bytes += done as u64;
            if ended {
                return Ok(Some(self.refused.take().map_or(Ok(()), Err)));
            }
        }
    }

    fn end_of_input(&mut self, at: At) -> Option<Result<(), String>> {
        match at {
            At::Record => return None,
            At::Quoted => {
                let lines = self.ends + 1 - self.line;
                let what = match lines {
                    0 => "a quote that is not closed".into(),
                    _ => format!(
                        "a quote that is not closed: it takes {lines} more lines, to the end"
                    ),
                };
                return Some(Err(what));
            }
            At::Field | At::Plain | At::Quote => {}
        }
        end_field(&mut self.record, self.bytes_max, &mut self.refused);
        Some(self.refused.take().map_or(Ok(()), Err))
    }
}

/// Takes a byte that is no part of a run. Returns where the next one is, and whether this one ends the record.
fn step(
    at: At,
    byte: u8,
    record: &mut Record,
    bytes_max: usize,
    refused: &mut Option<String>,
) -> (At, bool) {
    match (at, byte) {
        (At::Record, b'\n' | b'\r') => (At::Record, false),
        (At::Record | At::Field, b'"') => (At::Quoted, false),
        (At::Quoted, b'"') => (At::Quote, false),
        (At::Quote, b'"') | (At::Quoted, _) => {
            keep(record, &[byte], bytes_max, refused);
            (At::Quoted, false)
        }
        (_, b',') => {
            end_field(record, bytes_max, refused);
            (At::Field, false)
        }
        (_, b'\n' | b'\r') => {
            end_field(record, bytes_max, refused);
            (At::Record, true)
        }
        _ => {
            keep(record, &[byte], bytes_max, refused);
            (At::Plain, false)
        }
    }
}

fn end_field(record: &mut Record, bytes_max: usize, refused: &mut Option<String>) {
    if fits(record, END_BYTES, bytes_max, refused) {
        match record.ends.try_reserve(1) {
            Ok(()) => record.ends.push(record.bytes.len()),
            Err(_) => *refused = Some("no memory for its fields".into()),
        }
    }
}

fn keep(record: &mut Record, bytes: &[u8], bytes_max: usize, refused: &mut Option<String>) {
    if fits(record, bytes.len(), bytes_max, refused)
        && let Err(what) = grow(&mut record.bytes, bytes)
    {
        *refused = Some(what);
    }
}

/// Whether there is room for so many bytes more. The ends of fields count, for they take memory, too.
fn fits(record: &mut Record, more: usize, bytes_max: usize, refused: &mut Option<String>) -> bool {
    let bytes = record.bytes.len() + record.ends.len() * END_BYTES + more;
    if refused.is_none() && bytes > bytes_max {
        *refused = Some(format!(
            "longer than {} bytes, with 8 for each field; --max-line of load allows more",
            grouped(bytes_max as u64)
        ));
    }
    if refused.is_some() {
        record.clear();
    }
    refused.is_none()
}

/// Appends a record, without its end.
pub fn write_record<'f>(fields: impl IntoIterator<Item = &'f [u8]>, out: &mut Vec<u8>) {
    let (start, mut count) = (out.len(), 0);
    for field in fields {
        if count > 0 {
            out.push(b',');
        }
        count += 1;
        // A field that begins a file must not be taken for a byte order mark.
        let quoted = |byte: &u8| matches!(byte, b',' | b'"' | b'\n' | b'\r');
        if field.iter().any(quoted) || super::start::is_mark(field) {
            out.push(b'"');
            for part in field.split_inclusive(|byte| *byte == b'"') {
                out.extend(part);
                out.extend(part.last().filter(|byte| **byte == b'"'));
            }
            out.push(b'"');
        } else {
            out.extend(field);
        }
    }
    // A blank line would be no record.
    if count == 1 && out.len() == start {
        out.extend(b"\"\"");
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Read};

    use super::*;

    type Read1 = (u64, Result<Vec<Vec<u8>>, String>);

    fn read(text: &[u8], bytes_max: usize, buffer: usize) -> Vec<Read1> {
        let input = std::io::Cursor::new(text.to_vec());
        let mut records =
            Records::new(Box::new(BufReader::with_capacity(buffer, input)), bytes_max);
        let mut all = Vec::new();
        while let Some(read) = records.next().unwrap() {
            let record = records.record();
            let fields = (0..record.len()).map(|at| record.field(at).to_vec()).collect();
            all.push((records.line, read.map(|()| fields)));
        }
        assert_eq!(records.bytes, text.len() as u64);
        all
    }

    fn fields(text: &str) -> Vec<Vec<Vec<u8>>> {
        let all = read(text.as_bytes(), 1000, 7);
        all.into_iter().map(|(_, record)| record.unwrap()).collect()
    }

    #[test]
    fn records_are_read_in_pieces_of_any_size() {
        let text = b"a,b\r\n\r\n\n\"x \"\"y\"\"\r\nz\",,\nlone\rq\"r,\"s\"t\"\n\"\"\n,\n\xFF,\"\"";
        let expected: [(u64, &[&[u8]]); 7] = [
            (1, &[b"a", b"b"]),
            (4, &[b"x \"y\"\r\nz", b"", b""]),
            (6, &[b"lone"]),
            (7, &[b"q\"r", b"st\""]),
            (8, &[b""]),
            (9, &[b"", b""]),
            (10, &[b"\xFF", b""]),
        ];
        for buffer in 1..text.len() {
            let read = read(text, 1000, buffer);
            let read: Vec<_> = read.into_iter().map(|(line, r)| (line, r.unwrap())).collect();
            assert_eq!(read.len(), expected.len());
            for ((line, fields), (known_line, known)) in read.iter().zip(expected) {
                assert_eq!(
                    (*line, &fields[..]),
                    (known_line, &known.iter().map(|f| f.to_vec()).collect::<Vec<_>>()[..])
                );
            }
        }
        assert!(read(b"", 10, 1).is_empty() && read(b"\n\r\n", 10, 1).is_empty());
    }

    #[test]
    fn what_is_too_long_is_passed_over_up_to_its_end() {
        let long = "v".repeat(100);
        let text =
            format!("a,b\n{long},c\n\"{long}\n,\n\",d\ne,f\n{}\ng,h\n\"open\n\n", ",".repeat(20));
        let all = read(text.as_bytes(), 60, 8);
        let lines: Vec<_> = all.iter().map(|(line, record)| (*line, record.is_ok())).collect();
        assert_eq!(
            lines,
            [(1, true), (2, false), (3, false), (6, true), (7, false), (8, true), (9, false)]
        );
        let why = |at: usize| all[at].1.clone().unwrap_err();
        assert!(why(1).contains("--max-line") && why(6).contains("takes 2 more lines"), "{all:?}");
    }

    #[test]
    fn memory_is_bounded_by_the_longest_record() {
        let input = BufReader::new(
            std::io::repeat(b'"').take(1).chain(std::io::repeat(b'x').take(64 << 20)),
        );
        let mut records = Records::new(Box::new(input), 1 << 20);
        assert!(records.next().unwrap().unwrap().is_err());
        assert!(records.record.bytes.capacity() <= 2 << 20);
        let input = BufReader::new(std::io::repeat(b',').take(64 << 20));
        let mut records = Records::new(Box::new(input), 1 << 20);
        assert!(records.next().unwrap().unwrap().is_err());
        assert!(records.record.ends.capacity() * END_BYTES <= 2 << 20);
    }

    #[test]
    fn what_is_written_is_read() {
        let parts: [&[u8]; 9] =
            [b"", b"a", b"\"", b",", b"\r", b"\n", b"\xEF\xBB\xBF", b"\xFF\xFE", b"a\"\"b"];
        for one in parts {
            for two in parts {
                for record in [&[one][..], &[one, two], &[one, two, one]] {
                    let mut text = Vec::new();
                    write_record(record.iter().copied(), &mut text);
                    assert!(!crate::format::start::is_mark(&text));
                    text.push(b'\n');
                    let back = read(&text, 1000, 3);
                    let known: Vec<_> = record.iter().map(|field| field.to_vec()).collect();
                    assert_eq!(back, [(1, Ok(known))]);
                }
            }
        }
        assert_eq!(fields("a b, c\n"), [[b"a b".to_vec(), b" c".to_vec()]]);
    }
}
