//! Pool open on raw bytes.
//!
//! ```text
//! input   pieces: file u8 (mod 3: data, journal 0, journal 1) | offset u32 | bytes u16 | the bytes
//!         offsets in the data file from 1 MiB on count from page 0 on
//! ```

use std::path::Path;

use everleaf_pmem::io::SimIo;

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
    let mut input = Input::new(data);
    let disk = SimIo::new(1);
    disk.poke(Path::new(POOL), 0, &[]);
    while !input.is_empty() {
        let (file, offset, n) = (input.u8(), u64::from(input.u32() % SPAN), input.u16());
        let bytes = input.bytes(usize::from(n));
        let path = [POOL, JOURNALS[0], JOURNALS[1]][usize::from(file % 3)];
        let in_pages = file % 3 == 0 && offset >= 1 << 20;
        let at = if in_pages { offset - (1 << 20) + PAGES as u64 } else { offset };
        disk.poke(Path::new(path), at, bytes);
    }
    exercise(&disk, data.len().is_multiple_of(16));
}

/// The input that makes this pool, but for the double-write area: a seed.
pub fn encode(parts: &Parts) -> Vec<u8> {
    let mut input = Vec::new();
    let mut piece = |file: u8, offset: usize, bytes: &[u8]| {
        for (i, chunk) in bytes.chunks(4096).enumerate() {
            let used = chunk.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            let ends = (i + 1) * 4096 >= bytes.len();
            let used = if ends { chunk.len() } else { used };
            if used > 0 {
                input.push(file);
                input.extend(((offset + 4096 * i) as u32).to_le_bytes());
                input.extend((used as u16).to_le_bytes());
                input.extend(&chunk[..used]);
            }
        }
    };
    piece(0, 0, &parts.supers);
    piece(0, 1 << 20, &parts.pages);
    for (i, journal) in parts.journals.iter().enumerate() {
        piece(1 + i as u8, 0, journal.as_deref().unwrap_or_default());
    }
    input
}
