//! Pairs as all forms read and write them, and input line by line: `text` and `raw`. A line has a bound, and is never
//! longer in memory.

use std::io::BufRead;

use crate::escape::{escape, unescape};
use crate::failure::{CommandError, Result};
use crate::numbers::grouped;

/// The most bytes of a line if nobody says otherwise, and always of a line of the shell.
pub const LINE_BYTES_MAX: usize = 256 << 20;

/// Where pairs are written before they are printed.
pub type OutputLine = Vec<u8>;

/// A key and its value.
#[derive(Debug, Default)]
pub struct InputPair {
    pub key: Vec<u8>,
    pub value: Vec<u8>,
}

/// The next item of an input.
#[derive(Debug)]
pub enum InputItem {
    /// A pair.
    Pair,
    /// A line, or a record, that cannot be understood, and why.
    Bad(String),
    /// The pairs of another tree begin, of this name if it has one.
    Tree(Option<String>),
    End,
}

/// An input, pair by pair.
pub trait PairSource {
    /// Returns the next item; puts a pair into `pair`.
    ///
    /// # Errors
    ///
    /// A failure after which going on makes no sense.
    fn next(&mut self, pair: &mut InputPair) -> Result<InputItem>;

    /// The line in which that began, counted from 1.
    fn line(&self) -> u64;

    /// Bytes of input that were taken.
    fn bytes(&self) -> u64;

    /// A hint for a user who wonders about the result.
    fn hint(&self) -> Option<String> {
        None
    }
}

/// The lines of an input. The last one may lack its newline; one that is too long is passed over.
pub struct Lines {
    pub input: Box<dyn BufRead>,
    line: Vec<u8>,
    crlf: bool,
    /// The most bytes of a line, without its end.
    pub bytes_max: usize,
    /// How many lines were read, and how many of them end in a carriage return that was kept.
    pub number: u64,
    pub returns: u64,
    pub bytes: u64,
}

/// A line without its end, or why it cannot be taken.
pub type Line<'l> = Result<&'l [u8], String>;

impl Lines {
    pub fn new(input: Box<dyn BufRead>, crlf: bool, bytes_max: usize) -> Self {
        let line = Vec::new();
        Lines { input, line, crlf, bytes_max, number: 0, returns: 0, bytes: 0 }
    }

    /// The next line.
    pub fn next(&mut self) -> Result<Option<Line<'_>>> {
        self.line.clear();
        let (before, mut refused) = (self.bytes, None);
        loop {
            let part = self.input.fill_buf().map_err(|error| CommandError::input(&error))?;
            let end = part.iter().position(|byte| *byte == b'\n');
            let piece = &part[..end.unwrap_or(part.len())];
            // One more for the return before the newline.
            if refused.is_none() {
                let fits = self.line.len() + piece.len() <= self.bytes_max.saturating_add(1);
                let grown = if fits { grow(&mut self.line, piece) } else { Err(String::new()) };
                refused = grown.err();
            }
            let taken = piece.len() + usize::from(end.is_some());
            self.input.consume(taken);
            self.bytes += taken as u64;
            if end.is_some() || taken == 0 {
                break;
            }
        }
        if self.bytes == before {
            return Ok(None);
        }
        self.number += 1;
        if self.crlf {
            self.line.pop_if(|byte| *byte == b'\r');
        }
        if refused.as_ref().is_some_and(String::is_empty) || self.line.len() > self.bytes_max {
            refused = Some(too_long(self.bytes_max));
        }
        if let Some(what) = refused {
            self.line = Vec::new();
            return Ok(Some(Err(what)));
        }
        self.returns += u64::from(self.line.last() == Some(&b'\r'));
        Ok(Some(Ok(&self.line)))
    }
}

/// Why a line cannot be taken that has more bytes than it may.
pub fn too_long(bytes_max: usize) -> String {
    format!("longer than {} bytes; --max-line of load allows more", grouped(bytes_max as u64))
}

/// Appends bytes of an input, if there is memory for them.
pub fn grow(out: &mut Vec<u8>, bytes: &[u8]) -> Result<(), String> {
    // Doubled if possible, so that growing is cheap.
    let more = out.try_reserve(bytes.len()).or_else(|_| out.try_reserve_exact(bytes.len()));
    more.map_err(|_| format!("no memory for {} bytes", out.len() + bytes.len()))?;
    out.extend_from_slice(bytes);
    Ok(())
}

/// Replaces the contents of `out` by bytes of an input, if there is memory for them.
pub fn set(out: &mut Vec<u8>, bytes: &[u8]) -> Result<(), String> {
    out.clear();
    grow(out, bytes)
}

/// Puts what a line says into a pair, or says what is wrong with it.
pub type Parse = fn(&[u8], &mut InputPair) -> Result<(), String>;

/// A pair a line.
pub struct ByLine {
    lines: Lines,
    parse: Parse,
    /// A carriage return at the end of a line becomes a part of the value.
    keeps_returns: bool,
}

impl ByLine {
    pub fn new(lines: Lines, parse: Parse, keeps_returns: bool) -> Self {
        ByLine { lines, parse, keeps_returns }
    }
}

impl PairSource for ByLine {
    fn next(&mut self, pair: &mut InputPair) -> Result<InputItem> {
        let Some(line) = self.lines.next()? else { return Ok(InputItem::End) };
        let taken = line.and_then(|line| (self.parse)(line, pair));
        Ok(taken.map_or_else(InputItem::Bad, |()| InputItem::Pair))
    }

    fn line(&self) -> u64 {
        self.lines.number
    }

    fn bytes(&self) -> u64 {
        self.lines.bytes
    }

    fn hint(&self) -> Option<String> {
        let Lines { number, returns, .. } = self.lines;
        let what = "every line ends in a carriage return, which is in the values now: --crlf takes it \
                    for a part of the line's end";
        (self.keeps_returns && number > 0 && number == returns).then(|| what.into())
    }
}

fn halves(line: &[u8]) -> Result<(&[u8], &[u8]), String> {
    let tab = line.iter().position(|&byte| byte == b'\t');
    let tab = tab.ok_or("no TAB between KEY and VALUE")?;
    Ok((&line[..tab], &line[tab + 1..]))
}

pub fn text(line: &[u8], pair: &mut InputPair) -> Result<(), String> {
    let (key, value) = halves(line)?;
    unescape(key, &mut pair.key)?;
    unescape(value, &mut pair.value)
}

pub fn raw(line: &[u8], pair: &mut InputPair) -> Result<(), String> {
    let (key, value) = halves(line)?;
    set(&mut pair.key, key)?;
    set(&mut pair.value, value)
}

pub fn write_text(key: &[u8], value: &[u8], out: &mut OutputLine) {
    escape(key, out);
    out.push(b'\t');
    escape(value, out);
    out.push(b'\n');
}

/// A key or a value alone.
pub fn write_one(bytes: &[u8], out: &mut OutputLine) {
    escape(bytes, out);
    out.push(b'\n');
}

pub fn write_raw(key: &[u8], value: &[u8], out: &mut OutputLine) -> Result<(), String> {
    if key.iter().any(|byte| matches!(byte, b'\t' | b'\n')) {
        return Err("a TAB or a newline is in the key".into());
    }
    if value.contains(&b'\n') {
        return Err("a newline is in the value".into());
    }
    out.extend(key);
    out.push(b'\t');
    out.extend(value);
    out.push(b'\n');
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Read, repeat};

    use super::*;

    #[test]
    fn a_line_that_is_too_long_is_passed_over_in_bounded_memory() {
        let long = |bytes| repeat(b'x').take(bytes).chain(&b"\r\nnext\r\n\n"[..]);
        for (crlf, bytes, fits) in
            [(true, 1000, true), (true, 1001, false), (false, 999, true), (false, 1000, false)]
        {
            let input = BufReader::with_capacity(7, long(bytes));
            let mut lines = Lines::new(Box::new(input), crlf, 1000);
            assert_eq!(lines.next().unwrap().unwrap().is_ok(), fits, "{crlf} {bytes}");
            let next = if crlf { &b"next"[..] } else { b"next\r" };
            assert_eq!(lines.next().unwrap().unwrap(), Ok(next));
            assert_eq!(lines.next().unwrap().unwrap(), Ok(&b""[..]));
            assert_eq!(lines.number, 3);
            assert!(lines.next().unwrap().is_none());
            assert_eq!(lines.bytes, bytes + 9);
        }
        let mut lines = Lines::new(Box::new(BufReader::new(long(256 << 20))), true, 1 << 20);
        assert!(lines.next().unwrap().unwrap().unwrap_err().contains("--max-line"));
        assert!(lines.line.capacity() <= 2 << 20);
    }
}
