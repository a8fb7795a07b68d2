//! Where data goes, and what of it may reach a terminal.
//!
//! Data for a pipe or a file goes there as it is. On a terminal a control character is an order, and
//! data may hold any: there each is shown as `\xHH`, and so is what is no UTF-8; only newlines and TABs
//! pass, which lines consist of. The reader may be gone: that is [`CommandError::Unread`].
//!
//! No file but this one and `message.rs` writes to stdout or stderr by itself, nor by `println!`, which
//! panics when the reader is gone. A test here looks.

use std::fmt::Display;
use std::io::{self, IsTerminal, StdoutLock, Write};

use crate::escape::show;
use crate::failure::{CommandError, Result};

/// Stdout, for data.
pub fn stdout() -> Output {
    let out = io::stdout().lock();
    match is_terminal() {
        true => Output::Shown(Shown::new(out)),
        false => Output::Exact(out),
    }
}

/// Whether people read stdout.
pub fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// The writer that [`stdout`] gives.
pub enum Output {
    /// A pipe or a file: each byte as it is.
    Exact(StdoutLock<'static>),
    /// A terminal: without control characters.
    Shown(Shown<StdoutLock<'static>>),
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Output::Exact(out) => out.write(bytes),
            Output::Shown(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Output::Exact(out) => out.flush(),
            Output::Shown(out) => out.flush(),
        }
    }
}

/// Writes all of `data` to stdout.
pub fn print(data: impl AsRef<[u8]>) -> Result<()> {
    let mut out = stdout();
    out.write_all(data.as_ref()).and_then(|()| out.flush()).map_err(CommandError::stdout)
}

/// Writes a line to stdout.
pub fn say(line: impl Display) -> Result<()> {
    print(format!("{line}\n"))
}

/// Shows what is written to it. A character may come in several writes.
pub struct Shown<W: Write> {
    out: W,
    /// The beginning of a character whose end has not come.
    begun: Vec<u8>,
}

impl<W: Write> Shown<W> {
    fn new(out: W) -> Self {
        Shown { out, begun: Vec::new() }
    }
}

impl<W: Write> Write for Shown<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut all = std::mem::take(&mut self.begun);
        all.extend(bytes);
        let whole = all.len() - begun_bytes(&all);
        self.begun = all.split_off(whole);
        let mut text = Vec::with_capacity(all.len());
        show(&all, &mut text);
        self.out.write_all(&text)?;
        Ok(bytes.len())
    }

    /// After this nothing is waited for.
    fn flush(&mut self) -> io::Result<()> {
        let mut text = Vec::new();
        show(&std::mem::take(&mut self.begun), &mut text);
        self.out.write_all(&text)?;
        self.out.flush()
    }
}

/// How many bytes at the end are the beginning of a character.
fn begun_bytes(bytes: &[u8]) -> usize {
    let is_begun = |count: &usize| {
        let last = &bytes[bytes.len() - count..];
        std::str::from_utf8(last)
            .is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
    };
    (1..=bytes.len().min(3)).find(is_begun).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_in_pieces_is_shown_as_what_comes_at_once() {
        let bytes = "a\x1b[31mZürich\t東京\u{9b}\n\u{10ffff}".as_bytes();
        let bytes = [bytes, b"\xff\xe6\x9d", bytes, b"\xe6"].concat();
        let mut expected = Vec::new();
        show(&bytes, &mut expected);
        for piece in 1..bytes.len() {
            let mut out = Shown::new(Vec::new());
            for part in bytes.chunks(piece) {
                out.write_all(part).unwrap();
            }
            out.flush().unwrap();
            assert_eq!(out.out, expected, "pieces of {piece}");
        }
        let is_plain = |byte: &u8| !byte.is_ascii_control() || matches!(byte, b'\t' | b'\n');
        assert!(expected.iter().all(is_plain));
    }

    #[test]
    fn no_other_file_writes_by_itself() {
        let mut dirs = vec![std::path::PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/src"))];
        let mut files = 0;
        while let Some(dir) = dirs.pop() {
            for entry in std::fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    dirs.push(path);
                } else if !["output.rs", "message.rs"].iter().any(|file| path.ends_with(file)) {
                    let text = std::fs::read_to_string(&path).unwrap();
                    for word in ["io::stdout()", "io::stderr()", "println!", "print!("] {
                        let is_call = |line: &&str| line.contains(word);
                        assert_eq!(text.lines().find(is_call), None, "{}", path.display());
                    }
                    files += 1;
                }
            }
        }
        assert!(files > 30);
    }
}
