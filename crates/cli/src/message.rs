//! What is said to people, on stderr.
//!
//! Messages quote names of files and trees, and lines of inputs. So what a terminal would act upon is
//! shown as `\xHH`, wherever stderr goes. Whoever reads may be gone: then the exit code says the rest.

use std::fmt::Display;
use std::io::{self, Write};

use crate::escape::show;

/// Writes a message as a line to stderr.
pub fn tell(message: impl Display) {
    let mut text = shown(message).into_bytes();
    text.push(b'\n');
    let _ = io::stderr().write_all(&text);
}

/// A text without what a terminal acts upon, but for newlines and TABs.
pub fn shown(text: impl Display) -> String {
    let mut out = Vec::new();
    show(text.to_string().as_bytes(), &mut out);
    String::from_utf8(out).expect("what is shown is UTF-8")
}
