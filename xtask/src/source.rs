//! Rust source with what is not code blanked out, so that braces and words can be counted.

/// The same text, line for line, with comments, strings and character literals made blank.
pub fn code(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let before = out.chars().next_back();
        let length = not_code(rest, before);
        let taken = &rest[..length.unwrap_or(first.len_utf8())];
        match length {
            Some(_) => out.extend(taken.chars().map(|c| if c == '\n' { c } else { ' ' })),
            None => out.push_str(taken),
        }
        rest = &rest[taken.len()..];
    }
    out
}

/// The length in bytes of the comment or literal that `rest` starts with.
fn not_code(rest: &str, before: Option<char>) -> Option<usize> {
    let in_word = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    if rest.starts_with("//") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return Some(block_comment(rest));
    }
    if let Some(length) = raw_string(rest).filter(|_| !in_word) {
        return Some(length);
    }
    match rest.as_bytes() {
        [b'"', ..] => Some(quoted(rest, b'"')),
        // A lifetime has no second quote; a character literal has one after one character.
        [b'\'', b'\\', ..] => Some(quoted(rest, b'\'')),
        [b'\'', ..] => {
            let mut chars = rest.char_indices().skip(2);
            chars.next().filter(|(_, c)| *c == '\'').map(|(at, _)| at + 1)
        }
        _ => None,
    }
}

fn block_comment(rest: &str) -> usize {
    let (bytes, mut depth, mut at) = (rest.as_bytes(), 0, 0);
    while at < bytes.len() {
        match &bytes[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn raw_string(rest: &str) -> Option<usize> {
    let prefix = ["r", "br", "cr"].into_iter().find(|prefix| {
        rest.strip_prefix(prefix).is_some_and(|rest| rest.trim_start_matches('#').starts_with('"'))
    })?;
    let hashes = rest[prefix.len()..].bytes().take_while(|&byte| byte == b'#').count();
    let end = format!("\"{}", "#".repeat(hashes));
    let start = prefix.len() + hashes + 1;
    Some(rest[start..].find(&end).map_or(rest.len(), |at| start + at + end.len()))
}

fn quoted(rest: &str, quote: u8) -> usize {
    let bytes = rest.as_bytes();
    let mut at = 1;
    while at < bytes.len() && bytes[at] != quote {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(bytes.len())
}

/// Whether a line of code contains `word` as a whole word.
pub fn has_word(line: &str, word: &str) -> bool {
    line.split(|c: char| !c.is_alphanumeric() && c != '_').any(|found| found == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_become_blanks_of_as_many_lines() {
        let source =
            "let a = \"{ \\\" }\"; // {\n/* { /* } */ \n { */ let b = '{'; '\\''; '\\u{7b}'\n";
        let code = code(source);
        assert!(!code.contains(['{', '}', '"']), "{code}");
        assert_eq!(code.lines().count(), source.lines().count());
        assert!(code.contains("let b = "), "{code}");
    }

    #[test]
    fn raw_strings_and_lifetimes_are_told_apart_from_words_and_characters() {
        assert_eq!(code("f(r#\"{ \"q\" }\"#, x)").replace(' ', ""), "f(,x)");
        assert_eq!(code("fn f<'a>(x: &'a str) {}"), "fn f<'a>(x: &'a str) {}");
        assert_eq!(code("b\"{\" bar").replace(' ', ""), "bbar");
        assert_eq!(code("'é' {").trim(), "{");
    }

    #[test]
    fn words_are_whole() {
        assert!(has_word("pub unsafe fn x()", "unsafe"));
        assert!(!has_word("forbid(unsafe_code)", "unsafe"));
    }
}
