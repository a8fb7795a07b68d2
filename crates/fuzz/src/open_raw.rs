//! Pool open on raw bytes.
//!
//! ```text
//! input   pieces: file u8 (mod 3: data, journal 0, journal 1) | offset u32 | bytes u16 | the bytes
//!         offsets in the data file from 1 MiB on count from page 0 on
//! ```

use std::path::Path;

use everleaf_file::io::SimIo;

use crate::exercise::exercise;
use crate::format::PAGES;
use crate::input::Input;
use crate::parts::{JOURNALS, POOL, Parts};

/// Places are taken modulo this, so that no piece makes a file of terabytes.
const SPAN: u32 = 1 << 21;

/// Opens and uses what the pieces make.
///
/// # Panics
/// On a violation.
pub fn run(data: &[u8]) {
    exercise(&disk(data), data.len().is_multiple_of(16));
}

/// The input that makes this pool, but for the double-write area: a seed.
pub fn encode(parts: &Parts) -> Vec<u8> {
    let mut input = Vec::new();
    let mut piece = |file: u8, offset: usize, bytes: &[u8]| {
        let lines: Vec<&[u8]> = bytes.chunks(64).collect();
        let mut at = 0;
        // Runs of lines that are not zero, and the last line, which says how long the file is.
        for run in lines.chunk_by(|a, b| is_blank(a) == is_blank(b)) {
            let n: usize = run.iter().map(|line| line.len()).sum();
            let ends = at + n == bytes.len();
            let from = if is_blank(run[0]) { at + n - 1 } else { at };
            if ends || from == at {
                for (i, part) in bytes[from..at + n].chunks(1 << 15).enumerate() {
                    input.push(file);
                    input.extend(((offset + from + (i << 15)) as u32).to_le_bytes());
                    input.extend((part.len() as u16).to_le_bytes());
                    input.extend(part);
                }
            }
            at += n;
        }
    };
    piece(0, 0, &parts.supers);
    piece(0, 1 << 20, &parts.pages);
    for (i, journal) in parts.journals.iter().enumerate() {
        piece(1 + i as u8, 0, journal.as_deref().unwrap_or_default());
    }
    input
}

fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

/// The disk that an input makes.
pub fn disk(data: &[u8]) -> SimIo {
    let mut input = Input::new(data);
    let disk = SimIo::new(1);
    disk.poke(Path::new(POOL), 0, &[]);
    while !input.is_empty() {
        let (file, offset, n) = (input.u8(), u64::from(input.u32() % SPAN), input.u16());
        let bytes = input.bytes(usize::from(n));
        let path = [POOL, JOURNALS[0], JOURNALS[1]][usize::from(file % 3)];
        let in_pages = file.is_multiple_of(3) && offset >= 1 << 20;
        let at = if in_pages { offset - (1 << 20) + PAGES as u64 } else { offset };
        disk.poke(Path::new(path), at, bytes);
    }
    disk
}
