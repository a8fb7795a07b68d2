//! The forms in which pairs come in and go out.

mod csv;
mod fields;
mod json;
mod lines;
mod mdb;
mod objects;
mod records;
mod select;
mod start;

use std::io::BufRead;

pub use json::printable_lines;
pub use lines::{InputItem, InputPair, LINE_BYTES_MAX, Lines, OutputLine, PairSource};
pub use mdb::DumpHeader;
pub use select::{Selection, ValueForm, names};
pub use start::behind_mark;

use crate::failure::Result;

/// How an input is read, whatever its form.
pub struct Reading {
    /// A carriage return before the end of a line belongs to that.
    pub crlf: bool,
    /// The first record of `csv` names columns.
    pub header: bool,
    /// The most bytes of a line, a record or an object.
    pub line_bytes_max: usize,
    /// The columns or fields that become the key and the value, of `csv` and `json`.
    pub chosen: Option<Selection>,
}

/// An input whose pairs can be read.
pub struct Started {
    pub source: Box<dyn PairSource>,
    /// A note to the user about how it begins.
    pub note: Option<String>,
}

/// One form of pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Lines KEY<TAB>VALUE with the escapes \t \n \\ and \xHH
    Text,
    /// Lines KEY<TAB>VALUE without escapes: each byte stands for itself
    Raw,
    /// Comma-separated values (RFC 4180): two columns, or those of --key and --value of load
    Csv,
    /// JSON, an object a line: {"key":…,"value":…}, with key_hex and value_hex for what is not UTF-8; load also
    /// takes an array of objects, and fields of --key and --value
    Json,
    /// The format that LMDB's mdb_dump writes and mdb_load reads
    Mdb,
}

impl Format {
    /// The unit of counts: lines, or items that may take several.
    pub fn unit(self) -> &'static str {
        match self {
            Format::Text | Format::Raw | Format::Json => "lines",
            Format::Csv => "records",
            Format::Mdb => "pairs",
        }
    }

    /// Reads pairs of this form, and says what there is to tell of how the input begins.
    ///
    /// # Errors
    ///
    /// [`CommandError::Usage`] for what makes no sense before the first pair; what the system says of the
    /// input.
    pub fn read(self, input: Box<dyn BufRead>, how: &Reading) -> Result<Started> {
        let (input, note) = start::behind_mark(input, self == Format::Raw)?;
        let (crlf, bytes_max) = (how.crlf, how.line_bytes_max);
        let by_line = |input, parse| {
            let lines = lines::Lines::new(input, crlf, bytes_max);
            Box::new(lines::ByLine::new(lines, parse, true))
        };
        let chosen = how.chosen.as_ref();
        let source: Box<dyn PairSource> = match (self, chosen) {
            (Format::Text, _) => by_line(input, lines::text),
            (Format::Raw, _) => by_line(input, lines::raw),
            (Format::Json, _) => {
                Box::new(objects::JsonPairs::new(Lines::new(input, crlf, bytes_max), chosen)?)
            }
            (Format::Csv, Some(chosen)) => {
                Box::new(csv::CsvPairs::of_chosen(input, bytes_max, chosen)?)
            }
            (Format::Csv, None) => Box::new(csv::CsvPairs::of_two(input, bytes_max, how.header)?),
            (Format::Mdb, _) => Box::new(mdb::Dump::new(Lines::new(input, crlf, bytes_max))),
        };
        Ok(Started { source, note })
    }

    /// Appends a pair in this form to `out`, or says why it has none.
    pub fn write(self, key: &[u8], value: &[u8], out: &mut OutputLine) -> Result<(), String> {
        match self {
            Format::Text => lines::write_text(key, value, out),
            Format::Raw => return lines::write_raw(key, value, out),
            Format::Json => json::write(key, value, out),
            Format::Csv => csv::write(key, value, out),
            Format::Mdb => mdb::write(key, value, out),
        }
        Ok(())
    }
}

/// A key or a value alone, for output only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Half {
    Key,
    Value,
}

impl Half {
    /// Appends one half of a pair in a form that escapes: a line of text, a record of one column, or an object
    /// of one field.
    pub fn write(self, bytes: &[u8], format: Format, out: &mut OutputLine) -> Result<(), String> {
        match format {
            Format::Text => lines::write_one(bytes, out),
            Format::Csv => csv::write_one(bytes, out),
            Format::Json => {
                let name = if self == Half::Key { "key" } else { "value" };
                json::write_one(name, bytes, out);
            }
            Format::Raw | Format::Mdb => return Err("only pairs have this form".into()),
        }
        Ok(())
    }
}
