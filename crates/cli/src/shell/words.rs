//! A line as words, and a word as it is written.
//!
//! Blanks part words. Quotes of either kind keep blanks, and each other, and may stand anywhere in a
//! word, as in `a" b"`. A backslash has no meaning here: what a word stands for, `escape` says.

use crate::escape::{escape, unescape};

/// The words of a line without their quotes; escapes are still in them.
///
/// # Errors
///
/// A quote that is not closed.
pub fn split(line: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let mut words = Vec::new();
    let (_, open) = scan(line, &mut |word| words.push(word));
    match open {
        Some(quote) => Err(format!(
            "a quote is not closed: {}; \\x{quote:02x} stands for it in a word",
            char::from(quote)
        )),
        None => Ok(words),
    }
}

/// Where the last word of a line begins, which may be unfinished: at the end, after a blank.
pub fn last_start(line: &[u8]) -> usize {
    scan(line, &mut |_| {}).0
}

/// Gives each word, and returns where the last one began and the quote that is open at the end.
fn scan(line: &[u8], give: &mut dyn FnMut(Vec<u8>)) -> (usize, Option<u8>) {
    let (mut start, mut word, mut quote) = (0, None::<Vec<u8>>, None);
    for (at, &byte) in line.iter().enumerate() {
        match (quote, byte) {
            (None, b' ' | b'\t') => {
                word.take().map(&mut *give);
                start = at + 1;
            }
            (None, b'"' | b'\'') => {
                quote = Some(byte);
                word.get_or_insert_default();
            }
            (Some(open), _) if byte == open => quote = None,
            _ => word.get_or_insert_default().push(byte),
        }
    }
    if quote.is_none() {
        word.map(give);
    }
    (start, quote)
}

/// The bytes that a word stands for.
///
/// # Errors
///
/// A message that says what is wrong with an escape.
pub fn bytes(word: &[u8]) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(word.len());
    unescape(word, &mut bytes)?;
    Ok(bytes)
}

/// A name inside of double quotes, if it is written there.
pub fn inside_quotes(name: &str) -> String {
    let mut text = Vec::new();
    escape(name.as_bytes(), &mut text);
    let text = String::from_utf8(text).expect("escaped text is text");
    text.replace('"', "\\x22").replace('\'', "\\x27")
}

/// A name as a word.
pub fn write(name: &str) -> String {
    let text = inside_quotes(name);
    if text.is_empty() || text.contains(' ') { format!("\"{text}\"") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        let words = split(line.as_bytes()).unwrap();
        words.into_iter().map(|word| String::from_utf8(word).unwrap()).collect()
    }

    #[test]
    fn blanks_part_words_and_quotes_keep_them() {
        assert_eq!(words(""), [""; 0]);
        assert_eq!(words(" \t "), [""; 0]);
        assert_eq!(words("  put t\tk v "), ["put", "t", "k", "v"]);
        assert_eq!(
            words(r#"put "a b" 'c "d"' "" e"f g"h"#),
            ["put", "a b", "c \"d\"", "", "ef gh"]
        );
        assert_eq!(words(r#"a\x22 "b\" \n"#), [r"a\x22", r"b\", r"\n"]);
        assert_eq!(split(b"\xff \x00").unwrap(), [&b"\xff"[..], b"\x00"]);
        for open in ["\"a b", "a 'b", "'"] {
            assert!(split(open.as_bytes()).unwrap_err().contains("not closed"), "{open}");
        }
    }

    #[test]
    fn the_last_word_begins_after_the_last_blank_outside_of_quotes() {
        for (line, start) in
            [("", 0), ("ge", 0), ("get ", 4), ("get t", 4), ("get \"a b", 4), ("get \"a b\" ", 10)]
        {
            assert_eq!(last_start(line.as_bytes()), start, "{line}");
        }
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        for name in ["t", "a b", "it's", "a\"b c", "tab\tnewline\n\\", "\u{9b}ü", "#"] {
            let line = format!("use {}", write(name));
            let words = split(line.as_bytes()).unwrap();
            assert_eq!(words.len(), 2, "{line}");
            assert_eq!(bytes(&words[1]).unwrap(), name.as_bytes(), "{line}");
        }
    }
}
