//! Input line by line: `text` and `raw`.

use std::io::BufRead;

use super::source::{InputItem, InputPair, OutputLine, PairSource};
use crate::escape::{escape, unescape};
use crate::failure::{CommandError, Result};

/// The lines of an input, of any length. The last one may lack its newline.
pub struct Lines {
    input: Box<dyn BufRead>,
    line: Vec<u8>,
    crlf: bool,
    /// How many lines were read, and how many of them end in a carriage return that was kept.
    pub number: u64,
    pub returns: u64,
    pub bytes: u64,
}

impl Lines {
    pub fn new(input: Box<dyn BufRead>, crlf: bool) -> Self {
        Lines { input, line: Vec::new(), crlf, number: 0, returns: 0, bytes: 0 }
    }

    /// The next line without its end.
    pub fn next(&mut self) -> Result<Option<&[u8]>> {
        self.line.clear();
        let bytes = self
            .input
            .read_until(b'\n', &mut self.line)
            .map_err(|error| CommandError::Blocked(format!("cannot read the input: {error}")))?;
        if bytes == 0 {
            return Ok(None);
        }
        self.bytes += bytes as u64;
        self.number += 1;
        self.line.pop_if(|byte| *byte == b'\n');
        if self.crlf {
            self.line.pop_if(|byte| *byte == b'\r');
        }
        self.returns += u64::from(self.line.last() == Some(&b'\r'));
        Ok(Some(&self.line))
    }
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
        Ok((self.parse)(line, pair).map_or_else(InputItem::Bad, |()| InputItem::Pair))
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
    pair.key.clear();
    pair.key.extend(key);
    pair.value.clear();
    pair.value.extend(value);
    Ok(())
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
