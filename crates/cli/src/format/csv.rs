//! Pairs as records of comma-separated values: two columns, or those that are chosen.

use std::io::BufRead;

use serde_json::Value;

use super::json::printable;
use super::lines::{InputItem, InputPair, OutputLine, PairSource, set};
use super::records::{Record, Records, write_record};
use super::select::{Selection, ValueForm, join};
use crate::escape::escaped;
use crate::failure::{CommandError, Result};

/// The most columns that the message about a missing one names.
const TOLD: usize = 40;

/// A pair a record.
pub struct CsvPairs {
    records: Records,
    /// A record that was looked at and is a pair.
    has_next: bool,
    columns: Option<Columns>,
}

/// Which columns are the key and which the value.
struct Columns {
    count: usize,
    key: Vec<usize>,
    value: Vec<usize>,
    /// How those of the value are put together; `None`: it is one field as it is.
    form: Option<ValueForm>,
    /// As strings of JSON, for values of that form; empty if columns have no names.
    names: Vec<String>,
}

impl CsvPairs {
    /// Pairs of two columns, the first record passed over if it is a header.
    pub fn of_two(input: Box<dyn BufRead>, bytes_max: usize, header: bool) -> Result<Self> {
        let mut records = Records::new(input, bytes_max);
        if header {
            records.next()?;
        }
        Ok(CsvPairs { records, has_next: false, columns: None })
    }

    /// Pairs of chosen columns. Reads the first record, which says which columns there are.
    ///
    /// # Errors
    ///
    /// [`CommandError::Usage`] if one of them is not there, or names are not clear.
    pub fn of_chosen(
        input: Box<dyn BufRead>,
        bytes_max: usize,
        chosen: &Selection,
    ) -> Result<Self> {
        let mut records = Records::new(input, bytes_max);
        let usage = |what: String| CommandError::Usage(what);
        let first = match records.next()? {
            Some(Err(what)) => Err(usage(format!("line {}: {what}", records.line))),
            Some(Ok(())) => Ok(true),
            None if chosen.no_header => Ok(false),
            None => Err(usage("the input is empty: it has no header that names columns".into())),
        }?;
        let columns = match first {
            true => Some(Columns::new(records.record(), chosen)?),
            false => None,
        };
        Ok(CsvPairs { records, has_next: first && chosen.no_header, columns })
    }
}

impl Columns {
    fn new(first: &Record, chosen: &Selection) -> Result<Self> {
        let count = first.len();
        let find = |paths: &[Vec<String>]| {
            let of = |path: &Vec<String>| column(first, &path.join("."), chosen.no_header);
            paths.iter().map(of).collect::<Result<Vec<_>>>()
        };
        let (key, mut value) = (find(&chosen.key)?, find(&chosen.value)?);
        let one = value.len() == 1;
        if value.is_empty() {
            value.extend((0..count).filter(|column| !key.contains(column)));
        }
        let form = chosen.form.or((!one).then_some(ValueForm::Csv));
        let mut names = Vec::new();
        if form == Some(ValueForm::Json) && !chosen.no_header {
            for column in 0..count {
                let name = str::from_utf8(first.field(column));
                let what = || format!("the name of column {} is not UTF-8", column + 1);
                names.push(string(name.map_err(|_| CommandError::Usage(what()))?));
            }
        }
        Ok(Columns { count, key, value, form, names })
    }

    fn pair(&self, record: &Record, pair: &mut InputPair) -> Result<(), String> {
        if record.len() != self.count {
            return Err(format!("columns: {}, and not {}", record.len(), self.count));
        }
        join(self.key.iter().map(|column| record.field(*column)), &mut pair.key)?;
        let mut fields = self.value.iter().map(|column| record.field(*column));
        match self.form {
            None => return set(&mut pair.value, fields.next().unwrap_or_default()),
            Some(ValueForm::Csv) => {
                pair.value.clear();
                write_record(fields, &mut pair.value);
            }
            Some(ValueForm::Json) => self.object(record, &mut pair.value)?,
        }
        Ok(())
    }

    /// The fields of the value by their names, or in a row.
    fn object(&self, record: &Record, out: &mut Vec<u8>) -> Result<(), String> {
        let named = !self.names.is_empty();
        out.clear();
        out.push(if named { b'{' } else { b'[' });
        for (at, &column) in self.value.iter().enumerate() {
            let text = str::from_utf8(record.field(column));
            let text = text.map_err(|_| {
                format!("column {} is not UTF-8, and JSON has no other", column + 1)
            })?;
            if at > 0 {
                out.push(b',');
            }
            if let Some(name) = self.names.get(column) {
                out.extend(name.bytes());
                out.push(b':');
            }
            out.extend(string(text).bytes());
        }
        out.push(if named { b'}' } else { b']' });
        Ok(())
    }
}

/// A text as a string of JSON.
fn string(text: &str) -> String {
    printable(&Value::from(text))
}

/// The column of that name, or else of that number.
fn column(first: &Record, name: &str, no_header: bool) -> Result<usize> {
    let count = first.len();
    let named = |column: &usize| !no_header && first.field(*column) == name.as_bytes();
    let found: Vec<_> = (0..count).filter(named).collect();
    let number = name.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    match (&found[..], number.filter(|column| *column < count)) {
        ([column], _) => Ok(*column),
        ([], Some(column)) => Ok(column),
        ([], None) => Err(CommandError::Usage(missing(first, name, no_header))),
        ([one, two, ..], _) => Err(CommandError::Usage(format!(
            "columns {} and {} are both called {name:?}: say a number",
            one + 1,
            two + 1
        ))),
    }
}

/// Says which columns there are.
fn missing(first: &Record, name: &str, no_header: bool) -> String {
    let count = first.len();
    if no_header {
        return format!(
            "no column {name:?}: without a header columns are numbers, from 1 to {count}"
        );
    }
    let told = |column| escaped(&first.field(column)[..first.field(column).len().min(100)]);
    let names: Vec<_> = (0..count.min(TOLD)).map(told).collect();
    let more = if count > TOLD { ", and more" } else { "" };
    format!("no column is called {name:?}; there are: {}{more}", names.join(", "))
}

impl PairSource for CsvPairs {
    fn next(&mut self, pair: &mut InputPair) -> Result<InputItem> {
        let read = match std::mem::take(&mut self.has_next) {
            true => Some(Ok(())),
            false => self.records.next()?,
        };
        let taken = match read {
            None => return Ok(InputItem::End),
            Some(Err(what)) => Err(what),
            Some(Ok(())) => match &self.columns {
                Some(columns) => columns.pair(self.records.record(), pair),
                None => two(self.records.record(), pair),
            },
        };
        Ok(taken.map_or_else(InputItem::Bad, |()| InputItem::Pair))
    }

    fn line(&self) -> u64 {
        self.records.line
    }

    fn bytes(&self) -> u64 {
        self.records.bytes
    }
}

fn two(record: &Record, pair: &mut InputPair) -> Result<(), String> {
    if record.len() != 2 {
        let what = format!("columns: {}, and not two; --key says which is the key", record.len());
        return Err(what);
    }
    set(&mut pair.key, record.field(0))?;
    set(&mut pair.value, record.field(1))
}

/// Appends a pair as a line.
pub fn write(key: &[u8], value: &[u8], out: &mut OutputLine) {
    write_record([key, value], out);
    out.push(b'\n');
}

/// Appends a key or a value alone: a record of one column.
pub fn write_one(bytes: &[u8], out: &mut OutputLine) {
    write_record([bytes], out);
    out.push(b'\n');
}
