//! Any bytes as text on one line, and back.
//!
//! Written are `\t`, `\n`, `\\`, and `\xHH` for each byte of other control characters, of the byte
//! order mark, and of what is not UTF-8; all other text stands for itself. Read are the same four
//! escapes, `\xHH` with digits of either case and for any byte. So what was written reads back byte
//! for byte, and has no TAB, no newline and nothing that a terminal acts upon.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Appends `bytes` to `out`, escaped.
pub fn escape(bytes: &[u8], out: &mut Vec<u8>) {
    translate(bytes, out, |char| match char {
        '\t' => Some("\\t"),
        '\n' => Some("\\n"),
        '\\' => Some("\\\\"),
        _ => None,
    });
}

/// Appends `bytes` to `out` for somebody who looks at them: newlines, TABs and backslashes stand for
/// themselves, so that what is escaped already is not escaped again.
pub fn show(bytes: &[u8], out: &mut Vec<u8>) {
    translate(bytes, out, |char| match char {
        '\t' => Some("\t"),
        '\n' => Some("\n"),
        _ => None,
    });
}

/// Appends `bytes` escaped, as a text.
pub fn escaped(bytes: &[u8]) -> String {
    let mut text = Vec::new();
    escape(bytes, &mut text);
    String::from_utf8(text).expect("escaped bytes are text")
}

/// Appends `bytes` with what `form` has for a character, and `\xHH` for control characters without one.
fn translate(bytes: &[u8], out: &mut Vec<u8>, form: fn(char) -> Option<&'static str>) {
    for chunk in bytes.utf8_chunks() {
        for char in chunk.valid().chars() {
            match form(char) {
                Some(text) => out.extend(text.bytes()),
                // A byte order mark at the beginning of a file would be taken for no part of it.
                None if char.is_control() || char == '\u{feff}' => {
                    hex(char.encode_utf8(&mut [0; 4]).as_bytes(), out);
                }
                None => out.extend(char.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        hex(chunk.invalid(), out);
    }
}

fn hex(bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for &byte in bytes {
        out.extend([b'\\', b'x', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
}

/// Replaces the contents of `out` by the bytes that `text` stands for.
///
/// # Errors
///
/// A bad escape; then `out` holds what came before it. Or a lack of memory.
pub fn unescape(text: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    out.clear();
    out.try_reserve(text.len()).map_err(|_| format!("no memory for {} bytes", text.len()))?;
    let mut rest = text;
    while let Some(at) = rest.iter().position(|&byte| byte == b'\\') {
        out.extend(&rest[..at]);
        let (byte, length) = match &rest[at + 1..] {
            [b't', ..] => (b'\t', 2),
            [b'n', ..] => (b'\n', 2),
            [b'\\', ..] => (b'\\', 2),
            [b'x', high, low, ..] => match (digit(*high), digit(*low)) {
                (Some(high), Some(low)) => (high << 4 | low, 4),
                _ => return Err(bad(&rest[at..])),
            },
            _ => return Err(bad(&rest[at..])),
        };
        out.push(byte);
        rest = &rest[at + length..];
    }
    out.extend(rest);
    Ok(())
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

fn bad(rest: &[u8]) -> String {
    let length = if rest.get(1) == Some(&b'x') { 4 } else { 2 };
    let start = String::from_utf8_lossy(&rest[..length.min(rest.len())]);
    format!("bad escape {start:?}: only \\t \\n \\\\ and \\xHH are known")
}

/// Bytes given as an argument. Its value parser, [`argument`], has undone the escapes.
#[derive(Debug, Clone)]
pub struct ByteArg(pub Vec<u8>);

/// The parser of KEY and VALUE arguments.
pub fn argument() -> impl clap::builder::TypedValueParser<Value = ByteArg> {
    use clap::builder::{OsStringValueParser, TypedValueParser};
    OsStringValueParser::new().try_map(|text| parse(&text))
}

fn parse(text: &OsStr) -> Result<ByteArg, String> {
    let mut bytes = Vec::new();
    unescape(text.as_bytes(), &mut bytes)?;
    Ok(ByteArg(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unescaped(text: &[u8]) -> Result<Vec<u8>, String> {
        let mut out = Vec::new();
        unescape(text, &mut out).map(|()| out)
    }

    #[test]
    fn every_pair_of_bytes_comes_back() {
        for pair in 0..=u16::MAX {
            let bytes = pair.to_be_bytes();
            let text = escaped(&bytes);
            assert_eq!(unescaped(text.as_bytes()).unwrap(), bytes);
            assert!(!text.chars().any(char::is_control), "{text:?}");
        }
    }

    #[test]
    fn text_stands_for_itself_and_the_rest_is_escaped() {
        assert_eq!(escaped("Zürich 東京".as_bytes()), "Zürich 東京");
        assert_eq!(escaped(b"a\tb\nc\\d"), "a\\tb\\nc\\\\d");
        assert_eq!(escaped(b"\x00\x1b\x7f\xff"), "\\x00\\x1b\\x7f\\xff");
        assert_eq!(escaped("\u{9b}".as_bytes()), "\\xc2\\x9b");
        assert_eq!(escaped("\u{feff}a".as_bytes()), "\\xef\\xbb\\xbfa");
        assert_eq!(escaped(b"\xe6\x9d"), "\\xe6\\x9d");
    }

    #[test]
    fn bad_escapes_are_named() {
        assert_eq!(unescaped(b"\\x0A\\x0a\\x41").unwrap(), b"\n\nA");
        for text in [&b"\\"[..], b"a\\q", b"\\x", b"\\x1", b"\\x1g", b"\\xg1", b"\\0", b"\\X41"] {
            assert!(unescaped(text).unwrap_err().starts_with("bad escape"), "{text:?}");
        }
    }
}
