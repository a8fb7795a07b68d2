//! Pool open on a sound pool with changed fields and right checksums.
//!
//! ```text
//! input   bytes of the script u8 | the script (script.rs) | changes until the end
//! change  kind u8 | operands by kind
//! ```

use crate::exercise::exercise;
use crate::format::{self, BLOCK};
use crate::input::Input;
use crate::parts::Parts;
use crate::script;

/// Changes that one input makes at most.
const CHANGES_MAX: usize = 64;

/// Makes the pool, changes it, puts the checksums right, opens and uses it.
///
/// # Panics
/// On a violation.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let n = usize::from(input.u8());
    let mut parts = Parts::take(&script::small_pool(&mut Input::new(input.bytes(n))));
    let mut torn = Vec::new();
    for _ in 0..CHANGES_MAX {
        if input.is_empty() {
            break;
        }
        change(&mut input, &mut parts, &mut torn);
    }
    parts.seal(&torn);
    exercise(&parts.disk(), data.len().is_multiple_of(16));
}

fn change(input: &mut Input<'_>, parts: &mut Parts, torn: &mut Vec<u32>) {
    let pages = parts.page_count();
    if pages == 0 {
        return;
    }
    match input.u8() % 16 {
        0..=4 => page_word(input, parts),
        5 => slot(input, parts),
        6 => entry(input, parts),
        7 => copy_page(input, parts),
        8 => owner(input, parts),
        9 => {
            // Words of the superblock, and the checksum of the root among them.
            let (copy, field) = (input.below(3), input.below(17));
            let at = 8 * field + 8;
            for copy in if copy == 2 { 0..2 } else { copy..copy + 1 } {
                let value = number(&mut input.clone(), format::u64_at(&parts.supers, at));
                format::put(&mut parts.supers, copy * BLOCK + at, &value.to_le_bytes());
            }
            number(input, 0);
        }
        10 => {
            // A field of a block's head.
            let at = [0, 8, 16, 24, 28, 32, 40, 44, 48, 52][input.below(10)];
            block_field(input, parts, at);
        }
        11 => {
            // A field of its first records.
            let at = format::BLOCK_HEAD + [0, 1, 3, 7, 11, 14, 18, 22][input.below(8)];
            block_field(input, parts, at);
        }
        12 => {
            // A page's entry in the table: a word of its place, or its length and checksum.
            let at = 8 * input.below(2 * pages);
            let value = number(input, format::u64_at(&parts.table, at));
            format::put(&mut parts.table, at, &value.to_le_bytes());
        }
        13 => {
            let no = input.below(pages);
            torn.push(no as u32);
            if input.u8() & 1 == 0 {
                parts.page_mut(no).fill(0);
            }
        }
        14 => shorten(input, parts),
        _ => {
            // The bytes of a record page, or anything else.
            let (no, at) = (input.below(pages), 64 + input.u16() as usize % 2048);
            let n = usize::from(input.u8() % 32);
            let bytes = input.bytes(n).to_vec();
            let page = parts.page_mut(no);
            let at = at % page.len();
            format::put(page, at, &bytes);
        }
    }
}

/// A value for a field that has `old`: near it, of another field's kind, extreme, or arbitrary.
pub(crate) fn number(input: &mut Input<'_>, old: u64) -> u64 {
    let (kind, n) = (input.u8(), input.u8());
    match kind % 12 {
        0 => old ^ 1 << (n % 64),
        1 => old.wrapping_add(u64::from(n)),
        2 => old.wrapping_sub(u64::from(n)),
        3 => u64::from(n),
        4 => 0,
        5 => u64::MAX >> (n % 64),
        6 => u64::from(n) << 16,
        7 => u64::from(n) << 32,
        8 => old & !0xff | u64::from(n),
        9 => old & !0xff00 | u64::from(n) << 8,
        10 => u64::from(input.u32()),
        _ => input.u64(),
    }
}

pub(crate) fn page_word(input: &mut Input<'_>, parts: &mut Parts) {
    let pages = parts.page_count();
    let (no, word) = (input.below(pages), input.u8());
    let words = parts.page_bytes / 8;
    // Header words half of the time.
    let word = if word < 128 { usize::from(word % 8) } else { 8 + usize::from(word) % (words - 8) };
    let at = 8 * word;
    let old = format::u64_at(parts.page_mut(no), at);
    let value = number(input, old);
    format::put(parts.page_mut(no), at, &value.to_le_bytes());
}

/// A page with the bytes of another one.
pub(crate) fn copy_page(input: &mut Input<'_>, parts: &mut Parts) {
    let (from, to) = (input.below(parts.page_count()), input.below(parts.page_count()));
    let image = parts.page_mut(from).to_vec();
    parts.page_mut(to).copy_from_slice(&image);
}

/// An owner in the first map page.
pub(crate) fn owner(input: &mut Input<'_>, parts: &mut Parts) {
    let (at, owner) = (input.below(parts.page_count()), input.u8() % 9);
    format::put(parts.page_mut(0), 64 + at, &[owner]);
}

/// A slot with a word of another slot, of this node or another one.
pub(crate) fn slot(input: &mut Input<'_>, parts: &mut Parts) {
    let (pages, slots) = (parts.page_count(), (parts.page_bytes - 64) / 8);
    let (from, to) = (input.below(pages), input.below(pages));
    let (a, b) = (input.below(slots), input.below(slots));
    let word = format::u64_at(parts.page_mut(from), 64 + 8 * a);
    // All of it, its key, or its place.
    let mask = [u64::MAX, !0xffff, 0xffff][usize::from(input.u8() % 3)];
    let old = format::u64_at(parts.page_mut(to), 64 + 8 * b);
    format::put(parts.page_mut(to), 64 + 8 * b, &(word & mask | old & !mask).to_le_bytes());
}

/// The code of an entry, the lengths behind it, or what follows.
pub(crate) fn entry(input: &mut Input<'_>, parts: &mut Parts) {
    let (no, which, at) =
        (input.below(parts.page_count()), input.u8(), usize::from(input.u8() % 8));
    let page = parts.page_mut(no);
    let count = usize::from(u16::from_le_bytes([page[0], page[1]])).max(1);
    let place = format::u64_at(page, 64 + 8 * (usize::from(which) % count)) as usize & 0xffff;
    let old = format::u64_at(page, place + at);
    let value = number(input, old);
    format::put(page, place + at, &value.to_le_bytes()[..1]);
}

fn block_field(input: &mut Input<'_>, parts: &mut Parts, at: usize) {
    let which = input.below(parts.blocks.len());
    if let Some(block) = parts.blocks.get_mut(which) {
        let value = number(input, format::u64_at(&block.bytes, at));
        format::put(&mut block.bytes, at, &value.to_le_bytes());
    }
}

pub(crate) fn shorten(input: &mut Input<'_>, parts: &mut Parts) {
    let (which, by) = (input.u8() % 4, usize::from(input.u16()));
    match which {
        0 => parts.cut = by,
        1 => parts.cut = by << 8,
        2 => drop(parts.blocks.pop()),
        _ => {
            if let Some(block) = parts.blocks.last_mut() {
                block.bytes.truncate(block.bytes.len().saturating_sub(by));
            }
        }
    }
}
