//! How an input begins: with a byte order mark, or without.
//!
//! Forms of text are UTF-8, or bytes that mean the same in ASCII. A mark of UTF-8 is no part of the
//! first line there: it is dropped, with a note. UTF-16 is refused with a way to convert it, since as bytes
//! it would be read as something else. Without a mark nobody knows, so text that begins as UTF-16 does is read as
//! bytes, with a note. `raw` has bytes: all of them are kept, with a note if there is a mark.

use std::io::{self, BufRead, Cursor, Read};

use crate::failure::{CommandError, Result};

const UTF_8: &[u8] = b"\xEF\xBB\xBF";
const UTF_16: [&[u8]; 2] = [b"\xFF\xFE", b"\xFE\xFF"];

/// Whether those bytes at the beginning of an input would not be taken for what they are.
pub fn is_mark(bytes: &[u8]) -> bool {
    bytes.starts_with(UTF_8) || UTF_16.iter().any(|mark| bytes.starts_with(mark))
}

/// The input behind its mark, and what is to be told of it. `are_bytes`: no byte has a meaning. No signal interrupts
/// reads of what is returned, unless they come without end.
///
/// # Errors
///
/// [`CommandError::Usage`] for UTF-16; what the system says when it does not give the input.
pub fn behind_mark(
    input: Box<dyn BufRead>,
    are_bytes: bool,
) -> Result<(Box<dyn BufRead>, Option<String>)> {
    let mut input = Uninterrupted(input);
    let mut begin = Vec::new();
    // No byte more than needed, for the writer may wait for an answer.
    while [UTF_8, UTF_16[0], UTF_16[1]].iter().any(|mark| is_begun(mark, &begin)) {
        if !push_byte(&mut input, &mut begin)? {
            break;
        }
    }
    // A newline is a complete line: a byte behind it would be waited for in vain.
    if !are_bytes && begin.len() == 1 && begin != b"\n" {
        push_byte(&mut input, &mut begin)?;
    }
    let utf_16 = UTF_16.iter().any(|mark| *mark == begin);
    let note = match (begin == UTF_8, are_bytes) {
        (true, true) => Some(
            "a byte order mark of UTF-8 (EF BB BF) begins the input and is in the first key, since raw keeps all bytes",
        ),
        (true, false) => {
            Some("a byte order mark of UTF-8 (EF BB BF) begins the input and was dropped")
        }
        (false, true) if utf_16 => Some(
            "the input begins with a byte order mark of UTF-16; raw takes it for the bytes that it has",
        ),
        (false, false) if utf_16 => {
            let what = "the input is UTF-16, by the byte order mark that it begins with; convert it before: \
                        iconv -f UTF-16 -t UTF-8 FILE | everleaf …";
            return Err(CommandError::Usage(what.into()));
        }
        (false, false) if matches!(begin[..], [a, b] if (a == 0) != (b == 0)) => Some(
            "the input begins as UTF-16 does, without a byte order mark, and is taken for the bytes that it has; \
             if it is UTF-16, convert it before: iconv -f UTF-16LE (or UTF-16BE) -t UTF-8",
        ),
        _ => None,
    };
    if begin == UTF_8 && !are_bytes {
        begin.clear();
    }
    Ok((Box::new(Cursor::new(begin).chain(input)), note.map(str::to_owned)))
}

/// Adds the next byte of an input; false at its end.
fn push_byte(input: &mut impl Read, bytes: &mut Vec<u8>) -> Result<bool> {
    let mut byte = [0];
    match input.read(&mut byte) {
        Ok(0) => Ok(false),
        Ok(_) => {
            bytes.push(byte[0]);
            Ok(true)
        }
        Err(error) => Err(CommandError::input(&error)),
    }
}

/// Reads again what a signal has interrupted.
struct Uninterrupted(Box<dyn BufRead>);

/// So many times in a row: with more the input has failed.
const INTERRUPTS_MOST: u32 = 10_000;

impl BufRead for Uninterrupted {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        for _ in 1..INTERRUPTS_MOST {
            match self.0.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
                // The end, which a terminal would be asked for once more.
                Ok([]) => return Ok(&[]),
                Ok(_) => break,
            }
        }
        self.0.fill_buf()
    }

    fn consume(&mut self, bytes: usize) {
        self.0.consume(bytes);
    }
}

impl Read for Uninterrupted {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.fill_buf()?.read(out)?;
        self.consume(read);
        Ok(read)
    }
}

/// Whether `begin` is the beginning of a mark, and not all of it.
fn is_begun(mark: &[u8], begin: &[u8]) -> bool {
    begin.len() < mark.len() && mark.starts_with(begin)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(bytes: &'static [u8], are_bytes: bool) -> Result<(Vec<u8>, bool)> {
        let (mut input, note) = behind_mark(Box::new(bytes), are_bytes)?;
        let mut all = Vec::new();
        input.read_to_end(&mut all).unwrap();
        Ok((all, note.is_some()))
    }

    #[test]
    fn marks_are_dropped_refused_or_kept_and_always_told() {
        assert_eq!(start(b"\xEF\xBB\xBFa", false).unwrap(), (b"a".to_vec(), true));
        assert_eq!(start(b"\xEF\xBB\xBF", false).unwrap(), (vec![], true));
        for bytes in [&b"\xFF\xFEa\0"[..], b"\xFE\xFF\0a", b"\xFF\xFE", b"\xEF\xBB\xBFa"] {
            assert_eq!(start(bytes, true).unwrap(), (bytes.to_vec(), true));
            let refused = matches!(start(bytes, false), Err(CommandError::Usage(_)));
            assert_eq!(refused, bytes[0] != 0xEF, "{bytes:?}");
        }
        for bytes in [&b""[..], b"a", b"\xEF", b"\xEF\xBB", b"\xEF\xBBa", b"\xFF", b"\xFE\xFE"] {
            for are_bytes in [false, true] {
                assert_eq!(start(bytes, are_bytes).unwrap(), (bytes.to_vec(), false));
            }
        }
    }

    #[test]
    fn what_begins_as_utf_16_is_told_and_read_as_bytes() {
        for (bytes, is_told) in [
            (&b"k\0,\0"[..], true),
            (b"\0k\0,", true),
            (b"k\0", true),
            (b"\0\0", false),
            (b"\0", false),
            (b"k", false),
            (b"\n\0", false),
            (b"kk\0", false),
        ] {
            assert_eq!(start(bytes, false).unwrap(), (bytes.to_vec(), is_told), "{bytes:?}");
            assert_eq!(start(bytes, true).unwrap(), (bytes.to_vec(), false), "{bytes:?}");
        }
    }

    /// Gives one byte after so many interrupted calls each, and asks whether somebody reads behind its end.
    struct Stormy {
        bytes: &'static [u8],
        interrupts: u32,
        left: u32,
    }

    impl Read for Stormy {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            if self.left > 0 {
                self.left -= 1;
                return Err(io::ErrorKind::Interrupted.into());
            }
            self.left = self.interrupts;
            let most = out.len().min(1);
            self.bytes.read(&mut out[..most])
        }
    }

    #[test]
    fn signals_interrupt_no_input_unless_they_come_without_end() {
        let all = |bytes, interrupts| -> Result<Vec<u8>> {
            let stormy = Stormy { bytes, interrupts, left: interrupts };
            let (input, _) = behind_mark(Box::new(io::BufReader::new(stormy)), false)?;
            let mut lines = super::super::Lines::new(input, false, 100);
            let mut all = Vec::new();
            while let Some(line) = lines.next()? {
                all.extend_from_slice(line.unwrap());
            }
            Ok(all)
        };
        for bytes in [&b"\xEF\xBB\xBFa\nb\n"[..], b"a\nb"] {
            assert_eq!(all(bytes, 3).unwrap(), b"ab");
            assert_eq!(all(bytes, INTERRUPTS_MOST - 1).unwrap(), b"ab");
            let stopped = all(bytes, INTERRUPTS_MOST);
            assert!(matches!(stopped, Err(CommandError::Blocked(_))), "{stopped:?}");
        }
    }

    #[test]
    fn no_more_is_read_than_tells_that_there_is_no_mark() {
        struct Silent;
        impl Read for Silent {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                panic!("it is asked for more")
            }
        }
        let input = io::BufReader::new(Cursor::new(b"\xEFa").chain(Silent));
        behind_mark(Box::new(input), false).unwrap();
    }
}
