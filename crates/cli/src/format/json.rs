//! Pairs as objects of JSON, one a line.
//!
//! ```text
//! {"key":"plum","value":"blue"}
//! {"key_hex":"00ff","value":"strings of JSON are Unicode: bytes that are not UTF-8 are in a field of digits"}
//! ```
//!
//! Each half has one form: digits are written only for what is not UTF-8. Read are both, in any order.

use serde_json::Value;
use serde_json::value::RawValue;

use super::fields::{Fields, content};
use super::lines::{InputPair, OutputLine, set};
use super::mdb::unhex;

/// Reads an object.
pub fn read(text: &str, pair: &mut InputPair) -> Result<(), String> {
    let other = Some("a field that is neither \"key\" nor \"value\"; --key says which is the key");
    let found = Fields { wanted: &["key", "key_hex", "value", "value_hex"], other }.of(text)?;
    half("key", found[0], found[1], &mut pair.key)?;
    half("value", found[2], found[3], &mut pair.value)
}

fn half(
    name: &str,
    text: Option<&RawValue>,
    digits: Option<&RawValue>,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    let string = |name: String, field: &RawValue| match field.get().starts_with('"') {
        true => content(field).map(|content| content.into_owned()),
        false => Err(format!("{name:?} is no string")),
    };
    match (text, digits) {
        (Some(text), None) => set(out, string(name.into(), text)?.as_bytes()),
        (None, Some(digits)) => {
            let name = format!("{name}_hex");
            let digits = string(name.clone(), digits)?;
            unhex(digits.as_bytes(), out).map_err(|what| format!("{name:?}: {what}"))
        }
        (Some(_), Some(_)) => Err(format!("both \"{name}\" and \"{name}_hex\"")),
        (None, None) => Err(format!("no field {name:?}")),
    }
}

pub fn write(key: &[u8], value: &[u8], out: &mut OutputLine) {
    out.push(b'{');
    field("key", key, out);
    out.push(b',');
    field("value", value, out);
    out.extend(b"}\n");
}

/// Writes one half alone: `key` or `value`.
pub fn write_one(name: &str, bytes: &[u8], out: &mut OutputLine) {
    out.push(b'{');
    field(name, bytes, out);
    out.extend(b"}\n");
}

fn field(name: &str, bytes: &[u8], out: &mut OutputLine) {
    match std::str::from_utf8(bytes) {
        Ok(text) => out.extend(format!("\"{name}\":{}", printable(&Value::from(text))).bytes()),
        Err(_) => {
            let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            out.extend(format!("\"{name}_hex\":\"{digits}\"").bytes());
        }
    }
}

/// JSON on one line, without any control character: those that JSON lets stand are escaped, too, for a
/// terminal acts upon them.
pub fn printable(json: &Value) -> String {
    without_controls(&json.to_string())
}

/// The same, on several lines.
pub fn printable_lines(json: &Value) -> String {
    format!("{:#}", json).lines().map(|line| without_controls(line) + "\n").collect()
}

fn without_controls(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for char in json.chars() {
        match char {
            // They stand in strings only. A byte order mark is never shown either.
            '\u{7f}'..='\u{9f}' | '\u{feff}' => text += &format!("\\u{:04x}", u32::from(char)),
            _ => text.push(char),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(key: &[u8], value: &[u8]) -> Vec<u8> {
        let mut line = Vec::new();
        write(key, value, &mut line);
        line
    }

    #[test]
    fn every_pair_of_bytes_comes_back_and_no_control_character_is_printed() {
        let mut pair = InputPair::default();
        for bytes in 0..=u16::MAX {
            let (key, value) = (bytes.to_be_bytes(), bytes.to_le_bytes());
            let line = written(&key, &value);
            read(str::from_utf8(&line[..line.len() - 1]).unwrap(), &mut pair).unwrap();
            assert_eq!((&pair.key[..], &pair.value[..]), (&key[..], &value[..]));
            let text = String::from_utf8(line).unwrap();
            assert!(text.ends_with('\n') && !text.trim_end().contains(char::is_control), "{text}");
        }
    }

    #[test]
    fn digits_are_for_what_is_not_text() {
        assert_eq!(
            written("ü\u{9b}".as_bytes(), b""),
            "{\"key\":\"ü\\u009b\",\"value\":\"\"}\n".as_bytes()
        );
        assert_eq!(written(b"\xff", b"a"), b"{\"key_hex\":\"ff\",\"value\":\"a\"}\n");
        let mut pair = InputPair::default();
        read(r#"{"value_hex":"","key_hex":"FFaB"}"#, &mut pair).unwrap();
        assert_eq!((&pair.key[..], &pair.value[..]), (&b"\xff\xab"[..], &b""[..]));
        for (line, what) in [
            (r#"{"key_hex":"f","value":""}"#, "\"key_hex\": no pairs"),
            (r#"{"key_hex":"0g","value":""}"#, "\"key_hex\": no pairs"),
            (r#"{"key_hex":1,"value":""}"#, "\"key_hex\" is no string"),
            (r#"{"key":"a","key_hex":"61","value":""}"#, "both \"key\" and \"key_hex\""),
        ] {
            assert!(read(line, &mut pair).unwrap_err().starts_with(what), "{line}");
        }
    }
}
