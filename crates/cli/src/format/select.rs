//! Which parts of a record or an object become the key, and which the value.
//!
//! The key of several parts keeps their order: keys compare as their first parts do, then as their
//! second ones, and so on. Between two parts is one zero byte. A zero byte within a part is written `01 01`
//! and a byte 1 `01 02`, so that no two lists of parts have the same key. The key of one part is that part.

use super::lines::grow;

/// How the parts that become the value are put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ValueForm {
    /// A record of comma-separated values without its newline; with --format csv, unless one --value is named
    Csv,
    /// An object of JSON with the names of the parts; an array if they have none
    Json,
}

/// The choice made by --key and --value: columns, or fields as paths of names.
#[derive(Debug, Clone)]
pub struct Selection {
    pub key: Vec<Vec<String>>,
    pub value: Vec<Vec<String>>,
    pub form: Option<ValueForm>,
    /// Columns are numbers, for the input does not name them.
    pub no_header: bool,
}

/// Reads the names of an option. A comma parts names, and a dot parts the steps of a path; a backslash
/// before either, or before itself, takes that from it.
pub fn names(text: &str) -> Vec<Vec<String>> {
    let mut names = vec![vec![String::new()]];
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        let path = names.last_mut().expect("one name at least");
        match char {
            ',' => names.push(vec![String::new()]),
            '.' => path.push(String::new()),
            _ => {
                let escaped = char == '\\' && matches!(chars.peek(), Some(',' | '.' | '\\'));
                let char = if escaped { chars.next().unwrap_or(char) } else { char };
                path.last_mut().expect("one step at least").push(char);
            }
        }
    }
    names
}

/// Puts a key of those parts into `key`.
pub fn join<'p>(
    parts: impl ExactSizeIterator<Item = &'p [u8]>,
    key: &mut Vec<u8>,
) -> Result<(), String> {
    key.clear();
    let is_one = parts.len() == 1;
    for (at, part) in parts.enumerate() {
        if is_one {
            return grow(key, part);
        }
        if at > 0 {
            grow(key, &[0])?;
        }
        for run in part.chunk_by(|a, b| *a > 1 && *b > 1) {
            match run {
                [byte @ 0..=1] => grow(key, &[1, byte + 1])?,
                _ => grow(key, run)?,
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(parts: &[&[u8]]) -> Vec<u8> {
        let mut key = vec![9];
        join(parts.iter().copied(), &mut key).unwrap();
        key
    }

    #[test]
    fn keys_of_several_parts_compare_as_the_parts_do() {
        assert_eq!(joined(&[b"\0\x01a"]), b"\0\x01a");
        assert_eq!(joined(&[b"DE", b"Berlin"]), b"DE\0Berlin");
        assert_eq!(joined(&[b"a\0\0b", b"\x01\x02", b""]), b"a\x01\x01\x01\x01b\0\x01\x02\x02\0");
        let bytes = [0, 1, 2, 255];
        let mut parts: Vec<Vec<u8>> = vec![vec![]];
        parts.extend(bytes.map(|a| vec![a]));
        parts.extend(bytes.iter().flat_map(|a| bytes.map(|b| vec![*a, b])));
        let lists: Vec<_> =
            parts.iter().flat_map(|a| parts.iter().map(move |b| [&a[..], &b[..]])).collect();
        let keys: Vec<_> = lists.iter().map(|list| joined(list)).collect();
        for (a, key_a) in lists.iter().zip(&keys) {
            for (b, key_b) in lists.iter().zip(&keys) {
                assert_eq!(key_a.cmp(key_b), a.cmp(b), "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn names_are_parted_by_commas_and_dots() {
        let is = |text: &str, known: &[&[&str]]| {
            let known: Vec<Vec<_>> =
                known.iter().map(|path| path.iter().map(|s| (*s).to_owned()).collect()).collect();
            assert_eq!(names(text), known, "{text}");
        };
        is("id", &[&["id"]]);
        is("a,b.c", &[&["a"], &["b", "c"]]);
        is(r"a\,b,c\.d,e\\,f\g", &[&["a,b"], &["c.d"], &[r"e\"], &[r"f\g"]]);
        is(",", &[&[""], &[""]]);
    }
}
