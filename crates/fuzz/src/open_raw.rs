//! Pool open on raw bytes.
//!
//! ```text
//! input   pieces: extent u8 (mod 8) | offset in it u32 (mod 1 MiB) | bytes u16 | the bytes
//! ```

use std::path::Path;

use everleaf_file::io::SimIo;

use crate::exercise::exercise;
use crate::format::EXTENT;
use crate::input::Input;
use crate::parts::{POOL, Parts};

/// Extents are taken modulo this, so that no piece makes a file of gigabytes.
const EXTENTS: u8 = 8;

/// Opens and uses what the pieces make.
///
/// # Panics
/// On a violation.
pub fn run(data: &[u8]) {
    exercise(&disk(data), data.len().is_multiple_of(16));
}

/// The input that makes this pool: a seed.
pub fn encode(parts: &Parts) -> Vec<u8> {
    let mut input = Vec::new();
    let mut piece = |extent: u8, bytes: &[u8], is_last: bool| {
        let lines: Vec<&[u8]> = bytes.chunks(64).collect();
        let mut at = 0;
        // Runs of lines that are not zero, and the last line, which says how long the file is.
        for run in lines.chunk_by(|a, b| is_blank(a) == is_blank(b)) {
            let n: usize = run.iter().map(|line| line.len()).sum();
            let ends = is_last && at + n == bytes.len();
            let from = if is_blank(run[0]) { at + n - 1 } else { at };
            if ends || from == at {
                for (i, part) in bytes[from..at + n].chunks(1 << 15).enumerate() {
                    input.push(extent);
                    input.extend(((from + (i << 15)) as u32).to_le_bytes());
                    input.extend((part.len() as u16).to_le_bytes());
                    input.extend(part);
                }
            }
            at += n;
        }
    };
    let extents = parts.file.len().div_ceil(EXTENT);
    for (no, bytes) in parts.file.chunks(EXTENT).enumerate() {
        piece(no as u8, bytes, no + 1 == extents);
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
        let (extent, offset, n) = (input.u8() % EXTENTS, input.u32() as usize, input.u16());
        let bytes = input.bytes(usize::from(n));
        let at = usize::from(extent) * EXTENT + offset % EXTENT;
        disk.poke(Path::new(POOL), at as u64, bytes);
    }
    disk
}
