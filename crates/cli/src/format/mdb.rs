//! The format that LMDB's mdb_dump writes and mdb_load reads, VERSION=3, after Berkeley DB's db_dump:
//!
//! ```text
//! VERSION=3
//! format=bytevalue      two hexadecimal digits a byte; `print` has text, \\ and \HH, though
//!                       mdb_dump up to 0.9.24 writes a lone \ for itself
//! database=NAME         but for the main database
//! escapes=1             only before a NAME with control characters, which a line cannot hold: then it has
//!                       the escapes of `text`. Everleaf alone writes and reads it; mdb_load passes it over
//! type=btree            mapsize, maxreaders, db_pagesize and others say nothing about pairs
//! HEADER=END
//!  6b6579               a key, behind a space
//!  76616c7565           its value
//! DATA=END              another database may follow
//! ```

use super::lines::{InputItem, InputPair, Lines, OutputLine, PairSource};
use crate::escape::{escaped, unescape};
use crate::failure::{CommandError, Result};
use crate::numbers::grouped;

/// A dump of one database or several.
pub struct Dump {
    lines: Lines,
    /// Whether pairs come next, and not a header.
    in_data: bool,
    /// Whether they are text.
    print: bool,
    /// Where the last thing began.
    line: u64,
}

impl Dump {
    pub fn new(lines: Lines) -> Self {
        Dump { lines, in_data: false, print: false, line: 0 }
    }

    fn wrong(&self, what: &str) -> CommandError {
        CommandError::Usage(format!("line {}: {what}", self.lines.number))
    }

    /// Reads a header, up to its end; the name of the database.
    fn header(&mut self) -> Result<InputItem> {
        let (mut name, mut version, mut escapes) = (None, false, false);
        self.print = false;
        loop {
            let number = self.lines.number + 1;
            let wrong = |what: &str| CommandError::Usage(format!("line {number}: {what}"));
            let Some(line) = self.lines.next()? else {
                if version {
                    return Err(self.wrong("the dump ends in a header"));
                }
                return Ok(InputItem::End);
            };
            let line = line.map_err(|what| wrong(&what))?;
            let Ok(line) = str::from_utf8(line) else {
                return Err(wrong("a line of a header that is not UTF-8"));
            };
            match line.split_once('=') {
                Some(("VERSION", "3")) => version = true,
                Some(("VERSION", _)) => return Err(wrong("VERSION is not 3")),
                _ if !version => return Err(wrong("no dump of mdb_dump: no VERSION=3")),
                Some(("format", "bytevalue")) => self.print = false,
                Some(("format", "print")) => self.print = true,
                Some(("format", _)) => {
                    return Err(wrong("a format that is neither bytevalue nor print"));
                }
                Some(("type", "btree")) => {}
                Some(("type", _)) => return Err(wrong("a type other than btree")),
                Some(("escapes", "1")) => escapes = true,
                Some(("database", "")) => {}
                Some(("database", text)) => name = Some(text.to_owned()),
                Some(("duplicates" | "dupsort", "1")) => {
                    return Err(wrong("keys with several values, of which one would be left"));
                }
                Some(("HEADER", "END")) => break,
                Some(_) => {}
                None => return Err(wrong("no line of a header")),
            }
        }
        self.in_data = true;
        let wrong = |what: &str| self.wrong(what);
        if let (true, Some(name)) = (escapes, &mut name) {
            let mut bytes = Vec::new();
            unescape(name.as_bytes(), &mut bytes).map_err(|what| wrong(&what))?;
            *name = String::from_utf8(bytes).map_err(|_| wrong("a name that is not UTF-8"))?;
        }
        Ok(InputItem::Tree(name))
    }

    /// Reads a line of data into `out`. `None` for DATA=END; else what is wrong with it, maybe.
    fn datum(&mut self, out: &mut Vec<u8>) -> Result<Option<Result<(), String>>> {
        let print = self.print;
        match self.lines.next()? {
            Some(Err(what)) => Ok(Some(Err(what))),
            Some(Ok(b"DATA=END")) => Ok(None),
            Some(Ok([b' ', text @ ..])) if print => Ok(Some(unprint(text, out))),
            Some(Ok([b' ', text @ ..])) => Ok(Some(unhex(text, out))),
            Some(Ok(_)) => Err(self.wrong("neither a space before data nor DATA=END")),
            None => Err(self.wrong("the dump ends without DATA=END")),
        }
    }
}

impl PairSource for Dump {
    fn next(&mut self, pair: &mut InputPair) -> Result<InputItem> {
        self.line = self.lines.number + 1;
        if !self.in_data {
            return self.header();
        }
        let Some(key) = self.datum(&mut pair.key)? else {
            self.in_data = false;
            return self.next(pair);
        };
        let Some(value) = self.datum(&mut pair.value)? else {
            return Err(self.wrong("a key without a value"));
        };
        Ok(key.and(value).map_or_else(InputItem::Bad, |()| InputItem::Pair))
    }

    fn line(&self) -> u64 {
        self.line
    }

    fn bytes(&self) -> u64 {
        self.lines.bytes
    }
}

fn byte(digits: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    match digits {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    }
}

/// Empties `out`, and has memory for so many bytes in it.
fn room(out: &mut Vec<u8>, bytes: usize) -> Result<(), String> {
    out.clear();
    out.try_reserve(bytes).map_err(|_| format!("no memory for {} bytes", grouped(bytes as u64)))
}

pub fn unhex(text: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    room(out, text.len() / 2)?;
    for digits in text.chunks(2) {
        out.push(byte(digits).ok_or("no pairs of hexadecimal digits")?);
    }
    Ok(())
}

fn unprint(text: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    room(out, text.len())?;
    let mut rest = text;
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        if *first != b'\\' {
            out.push(*first);
        } else if let Some(behind) = rest.strip_prefix(b"\\") {
            out.push(b'\\');
            rest = behind;
        } else {
            let (digits, behind) = rest.split_at(rest.len().min(2));
            out.push(byte(digits).ok_or("a backslash before neither another nor two digits")?);
            rest = behind;
        }
    }
    Ok(())
}

fn hex(bytes: &[u8], out: &mut OutputLine) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.push(b' ');
    out.extend(
        bytes
            .iter()
            .flat_map(|byte| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]),
    );
    out.push(b'\n');
}

pub fn write(key: &[u8], value: &[u8], out: &mut OutputLine) {
    hex(key, out);
    hex(value, out);
}

/// The header before the pairs of a tree.
pub struct DumpHeader<'a> {
    pub name: &'a str,
    /// For mdb_load: the most bytes that its database may take.
    pub map_bytes: u64,
}

impl DumpHeader<'_> {
    /// Behind the last pair.
    pub const END: &'static [u8] = b"DATA=END\n";

    /// The header.
    pub fn text(&self) -> Vec<u8> {
        let DumpHeader { name, map_bytes } = self;
        let name = match name.contains(char::is_control) {
            true => format!("escapes=1\ndatabase={}", escaped(name.as_bytes())),
            false => format!("database={name}"),
        };
        let text = format!(
            "VERSION=3\nformat=bytevalue\n{name}\ntype=btree\nmapsize={map_bytes}\nHEADER=END\n"
        );
        text.into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(parse: fn(&[u8], &mut Vec<u8>) -> Result<(), String>, text: &[u8]) -> Option<Vec<u8>> {
        let mut out = vec![1];
        parse(text, &mut out).ok().map(|()| out)
    }

    #[test]
    fn bytes_are_read_as_they_were_written() {
        let bytes: Vec<u8> = (0..=255).collect();
        let mut line = Vec::new();
        hex(&bytes, &mut line);
        assert_eq!(read(unhex, &line[1..line.len() - 1]), Some(bytes));
        assert_eq!(read(unhex, b""), Some(vec![]));
        assert_eq!(read(unhex, b"fF00"), Some(vec![255, 0]));
        assert!([&b"f"[..], b"fff", b"0g", b" 00"].iter().all(|text| read(unhex, text).is_none()));
        assert_eq!(read(unprint, br"a\\b\0a c"), Some(b"a\\b\n c".to_vec()));
        assert!([&br"\"[..1], br"\0", br"\zz"].iter().all(|t| read(unprint, t).is_none()));
    }
}
