//! The forms in which pairs come in and go out.

mod csv;
mod json;
mod lines;
mod mdb;
mod source;

use std::io::BufRead;

pub use json::printable_lines;
pub use lines::Lines;
pub use mdb::DumpHeader;
pub use source::{InputItem, InputPair, OutputLine, PairSource};

/// One form of pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Lines KEY<TAB>VALUE with the escapes \t \n \\ and \xHH
    Text,
    /// Lines KEY<TAB>VALUE without escapes: each byte stands for itself
    Raw,
    /// Two columns of comma-separated values (RFC 4180)
    Csv,
    /// Lines {"key":…,"value":…} of JSON; key_hex and value_hex for what is not UTF-8
    Json,
    /// What mdb_dump writes and mdb_load reads, of LMDB
    Mdb,
}

impl Format {
    /// What is counted: lines, or what may take several.
    pub fn unit(self) -> &'static str {
        match self {
            Format::Text | Format::Raw | Format::Json => "lines",
            Format::Csv => "records",
            Format::Mdb => "pairs",
        }
    }

    /// Reads pairs of this form. `crlf`: a carriage return before the end of a line belongs to that.
    /// `header`: the first record of `csv` is none.
    pub fn read(self, input: Box<dyn BufRead>, crlf: bool, header: bool) -> Box<dyn PairSource> {
        let lines = lines::Lines::new;
        match self {
            Format::Text => Box::new(lines::ByLine::new(lines(input, crlf), lines::text, true)),
            Format::Raw => Box::new(lines::ByLine::new(lines(input, crlf), lines::raw, true)),
            Format::Json => Box::new(lines::ByLine::new(lines(input, crlf), json::read, false)),
            Format::Csv => Box::new(csv::CsvRecords::new(input, header)),
            Format::Mdb => Box::new(mdb::Dump::new(lines(input, crlf))),
        }
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
