//! Objects of JSON as an input has them: one a line, or those of one array; and the fields of them that were
//! chosen as a pair.

use std::borrow::Cow;
use std::io::BufRead;

use serde_json::Value;

use super::fields::{content, field};
use super::json::{printable, read};
use super::lines::{InputItem, InputPair, Lines, PairSource, grow, set, too_long};
use super::select::{Selection, ValueForm, join};
use crate::failure::{CommandError, Result};

/// A pair an object.
pub struct JsonPairs {
    objects: Objects,
    chosen: Option<Chosen>,
}

/// Which fields are the key and which the value; the whole object if none is.
struct Chosen {
    key: Vec<Vec<String>>,
    value: Vec<Vec<String>>,
    /// The value is an object, also if it has one field.
    is_object: bool,
}

impl JsonPairs {
    /// Pairs of objects with the fields `key` and `value`, or of fields that are chosen.
    ///
    /// # Errors
    ///
    /// [`CommandError::Usage`] for a choice that JSON has no form for.
    pub fn new(lines: Lines, chosen: Option<&Selection>) -> Result<Self> {
        let usage = |what: &str| Err(CommandError::Usage(what.into()));
        let chosen = match chosen {
            Some(chosen) if chosen.form == Some(ValueForm::Csv) => {
                return usage("--value-format csv is for --format csv");
            }
            Some(chosen) if chosen.no_header => return usage("--no-header is for --format csv"),
            Some(Selection { key, value, form, .. }) => {
                let is_object = value.len() > 1 || form.is_some() && !value.is_empty();
                Some(Chosen { key: key.clone(), value: value.clone(), is_object })
            }
            None => None,
        };
        Ok(JsonPairs { objects: Objects::new(lines), chosen })
    }
}

impl PairSource for JsonPairs {
    fn next(&mut self, pair: &mut InputPair) -> Result<InputItem> {
        let taken = match self.objects.next()? {
            None => return Ok(InputItem::End),
            Some(Err(what)) => Err(what),
            Some(Ok(text)) => text_of(text).and_then(|text| match &self.chosen {
                Some(chosen) => chosen.pair(text, pair),
                None => read(text, pair),
            }),
        };
        Ok(taken.map_or_else(InputItem::Bad, |()| InputItem::Pair))
    }

    fn line(&self) -> u64 {
        self.objects.line
    }

    fn bytes(&self) -> u64 {
        self.objects.lines.bytes
    }
}

fn text_of(object: &[u8]) -> Result<&str, String> {
    str::from_utf8(object).map_err(|_| "no JSON: it is not UTF-8".into())
}

/// The objects of an input as they stand there.
struct Objects {
    lines: Lines,
    /// Whether they are in an array; unknown at first.
    form: Option<Form>,
    text: Vec<u8>,
    /// The line in which the last one began.
    line: u64,
}

#[derive(Clone, Copy, PartialEq)]
enum Form {
    Lines,
    /// An array has begun.
    Array,
    /// Another element of it comes.
    Element,
    /// The array has ended.
    Ended,
}

impl Objects {
    fn new(lines: Lines) -> Self {
        Objects { lines, form: None, text: Vec::new(), line: 0 }
    }

    fn next(&mut self) -> Result<Option<Result<&[u8], String>>> {
        let form = match self.form {
            Some(form) => form,
            None => self.begin()?,
        };
        match form {
            Form::Lines => self.next_line(),
            Form::Array | Form::Element => self.element(form == Form::Array),
            Form::Ended => {
                self.line = self.lines.number + 1;
                match skip_blanks(&mut self.lines)? {
                    None => Ok(None),
                    Some(_) => Err(self.wrong("something stands behind the array")),
                }
            }
        }
    }

    /// Whether lines begin or an array.
    fn begin(&mut self) -> Result<Form> {
        let form = match skip_blanks(&mut self.lines)? {
            Some(b'[') => {
                self.lines.input.consume(1);
                self.lines.bytes += 1;
                Form::Array
            }
            _ => Form::Lines,
        };
        self.form = Some(form);
        Ok(form)
    }

    fn next_line(&mut self) -> Result<Option<Result<&[u8], String>>> {
        // Blank lines are no objects.
        skip_blanks(&mut self.lines)?;
        self.line = self.lines.number + 1;
        Ok(self.lines.next()?.map(|line| line.map(<[u8]>::trim_ascii)))
    }

    fn wrong(&self, what: &str) -> CommandError {
        CommandError::Usage(format!("line {}: {what}", self.line))
    }

    /// The next element of the array: all up to a comma or a bracket that is in no string and no other
    /// bracket.
    fn element(&mut self, is_first: bool) -> Result<Option<Result<&[u8], String>>> {
        let first = skip_blanks(&mut self.lines)?;
        self.line = self.lines.number + 1;
        self.text.clear();
        let (mut refused, mut scan) = (None, ElementScan::default());
        if first == Some(b']') && is_first {
            self.pass(1);
            self.form = Some(Form::Ended);
            return self.next();
        }
        loop {
            let part = self.lines.input.fill_buf().map_err(|error| CommandError::input(&error))?;
            if part.is_empty() {
                return Err(self.wrong("the array does not end"));
            }
            let end = part.iter().position(|byte| scan.ends_at(*byte));
            let piece = &part[..end.unwrap_or(part.len())];
            self.lines.number += piece.iter().filter(|byte| **byte == b'\n').count() as u64;
            if refused.is_none() {
                let fits = self.text.len() + piece.len() <= self.lines.bytes_max;
                refused = match fits {
                    true => grow(&mut self.text, piece).err(),
                    false => Some(too_long(self.lines.bytes_max)),
                };
                if refused.is_some() {
                    self.text = Vec::new();
                }
            }
            let (taken, last) = (piece.len(), end.map(|end| part[end]));
            self.pass(taken + usize::from(last.is_some()));
            if let Some(last) = last {
                self.form = Some(if last == b']' { Form::Ended } else { Form::Element });
                return Ok(Some(match refused {
                    Some(what) => Err(what),
                    None => Ok(self.text.trim_ascii()),
                }));
            }
        }
    }

    fn pass(&mut self, bytes: usize) {
        self.lines.input.consume(bytes);
        self.lines.bytes += bytes as u64;
    }
}

/// Passes over blanks and ends of lines; the byte behind them.
fn skip_blanks(lines: &mut Lines) -> Result<Option<u8>> {
    loop {
        let part = lines.input.fill_buf().map_err(|error| CommandError::input(&error))?;
        let Some(first) = part.first() else { return Ok(None) };
        let blanks = part.iter().take_while(|byte| byte.is_ascii_whitespace());
        let (mut count, mut ends) = (0, 0);
        blanks.for_each(|byte| (count, ends) = (count + 1, ends + u64::from(*byte == b'\n')));
        if count == 0 {
            return Ok(Some(*first));
        }
        lines.input.consume(count);
        (lines.bytes, lines.number) = (lines.bytes + count as u64, lines.number + ends);
    }
}

/// Where in an element the next byte is.
#[derive(Default)]
struct ElementScan {
    depth: u64,
    in_string: bool,
    escaped: bool,
}

impl ElementScan {
    /// Takes a byte. Whether it stands behind the element.
    fn ends_at(&mut self, byte: u8) -> bool {
        match byte {
            _ if self.escaped => self.escaped = false,
            b'\\' if self.in_string => self.escaped = true,
            b'"' => self.in_string = !self.in_string,
            _ if self.in_string => {}
            b',' | b']' if self.depth == 0 => return true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        false
    }
}

impl Chosen {
    fn pair(&self, text: &str, pair: &mut InputPair) -> Result<(), String> {
        let parts = self.key.iter().map(|path| key_part(text, path));
        let parts = parts.collect::<Result<Vec<_>, _>>()?;
        join(parts.iter().map(|part| part.as_bytes()), &mut pair.key)?;
        match &self.value[..] {
            [] => set(&mut pair.value, text.as_bytes()),
            [path] if !self.is_object => {
                let field = field(text, path)?;
                match field.get().starts_with('"') {
                    true => set(&mut pair.value, content(field)?.as_bytes()),
                    false => set(&mut pair.value, field.get().as_bytes()),
                }
            }
            paths => {
                pair.value.clear();
                for (at, path) in paths.iter().enumerate() {
                    grow(&mut pair.value, if at == 0 { b"{" } else { b"," })?;
                    let name = printable(&Value::from(path.join(".")));
                    grow(&mut pair.value, name.as_bytes())?;
                    grow(&mut pair.value, b":")?;
                    grow(&mut pair.value, field(text, path)?.get().as_bytes())?;
                }
                grow(&mut pair.value, b"}")
            }
        }
    }
}

/// A field as a part of the key: the content of a string; a number or a truth as it is written.
fn key_part<'t>(text: &'t str, path: &[String]) -> Result<Cow<'t, str>, String> {
    let field = field(text, path)?;
    let is = match field.get().as_bytes().first() {
        Some(b'"') => return content(field),
        Some(b'{') => "an object",
        Some(b'[') => "an array",
        Some(b'n') => "null",
        _ => return Ok(field.get().into()),
    };
    Err(format!("the field {:?} is {is}, and no key", path.join(".")))
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Cursor, Read};

    use super::super::select::names;
    use super::*;

    type Taken = (u64, Result<(String, String), String>);

    fn pairs(input: impl Read + 'static, max: usize, key: &str, value: &str) -> Vec<Taken> {
        let value = if value.is_empty() { Vec::new() } else { names(value) };
        let chosen = Selection { key: names(key), value, form: None, no_header: false };
        let lines = Lines::new(Box::new(BufReader::with_capacity(5, input)), false, max);
        let mut source = JsonPairs::new(lines, Some(&chosen)).unwrap();
        let (mut all, mut pair) = (Vec::new(), InputPair::default());
        loop {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let item = match source.next(&mut pair).unwrap() {
                InputItem::Pair => Ok((text(&pair.key), text(&pair.value))),
                InputItem::Bad(what) => Err(what),
                _ => return all,
            };
            all.push((source.line(), item));
        }
    }

    #[test]
    fn lines_and_arrays_have_the_same_objects() {
        let lines = "{\"id\":1,\"a\":{\"b\":\"x\\n\"}}\n\n  {\"a\":{\"b\":[1, 2]},\"id\":\"two\"} \r\n{}\n{\"id\":3,\"a\":4}\n7";
        let one = |line, key: &str, value: &str| (line, Ok((key.to_owned(), value.to_owned())));
        let bad = |line, what: &str| (line, Err(what.to_owned()));
        let known = [
            one(1, "1", "x\n"),
            one(3, "two", "[1, 2]"),
            bad(4, "no field \"id\""),
            bad(5, "no field \"a.b\""),
            bad(6, "no object of JSON"),
        ];
        assert_eq!(pairs(Cursor::new(lines), 100, "id", "a.b"), known);
        let array = format!("\n[\n{}]\n", lines.replace("\n", ",\n").replace(",\n,\n", ",\n"));
        let of_array = pairs(Cursor::new(array), 100, "id", "a.b");
        assert_eq!(of_array.len(), known.len());
        for ((_, found), (_, known)) in of_array.iter().zip(&known) {
            assert_eq!(found, known);
        }
        assert_eq!(pairs(Cursor::new("[]"), 100, "id", ""), []);
        assert_eq!(pairs(Cursor::new(""), 100, "id", ""), []);
    }

    #[test]
    fn keys_are_strings_numbers_and_truths() {
        let key = |field: &str| {
            let text = format!("{{\"k\":{field}}}");
            pairs(Cursor::new(text), 1000, "k", "").pop().unwrap().1.map(|(key, _)| key)
        };
        for (field, known) in
            [("\"\\u00e9\\\"\"", "é\""), ("-1.50e3", "-1.50e3"), ("true", "true"), ("\"\"", "")]
        {
            assert_eq!(key(field).unwrap(), known);
        }
        for field in ["null", "{}", "[1]", "\"\\ud800\"", "01", "\"open"] {
            assert!(key(field).is_err(), "{field}");
        }
        let twice = pairs(Cursor::new("{\"k\":1,\"k\":2}"), 100, "k", "");
        assert_eq!(twice[0].1.as_ref().unwrap().0, "2");
        let several = pairs(
            Cursor::new("{\"a\":1,\"b\":{\"c\":\"d\"},\"e.f\":null}"),
            100,
            "b.c,a",
            "e\\.f,a",
        );
        assert_eq!(several[0].1, Ok(("d\u{0}1".into(), "{\"e.f\":null,\"a\":1}".into())));
    }

    #[test]
    fn neither_depth_nor_length_takes_more_than_the_text() {
        let deep = format!("{{\"k\":1,\"v\":{}{}}}", "[".repeat(1 << 20), "]".repeat(1 << 20));
        let read = pairs(Cursor::new(deep.clone()), 4 << 20, "k", "");
        assert_eq!(read[0].1, Ok(("1".into(), deep.clone())));
        let unclosed = format!("{{\"v\":{}\n{{\"k\":2}}", "[".repeat(1 << 20));
        let read = pairs(Cursor::new(unclosed), 4 << 20, "k", "");
        assert!(read[0].1.is_err() && read[1] == (2, Ok(("2".into(), "{\"k\":2}".into()))));
        for input in [format!("{deep}\n{{\"k\":2}}"), format!("[{deep},\n{{\"k\":2}}]")] {
            let read = pairs(Cursor::new(input), 1 << 20, "k", "");
            assert!(read[0].1.as_ref().unwrap_err().contains("--max-line"), "{:?}", read[0]);
            assert_eq!(read[1].1, Ok(("2".into(), "{\"k\":2}".into())));
        }
    }
}
