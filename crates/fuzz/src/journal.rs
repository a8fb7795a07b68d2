//! Journal replay: a sound pool, left as a crash would, with more blocks behind its journal.
//!
//! ```text
//! input   bytes of the script u8 | the script (script.rs) | blocks until the end
//! block   flags u8 | records u8 (mod 16) | the records
//! record  tag u8 | page u8 | how the sequence number is wrong u8 | bytes of the operands u8 | operands
//! ```

use std::collections::BTreeMap;

use crate::exercise::exercise;
use crate::format::{self, BLOCK, BLOCK_HEAD};
use crate::input::Input;
use crate::parts::Parts;
use crate::script;

/// Pages of a group, if pages have 512 bytes.
const GROUP: u32 = 448;
/// Blocks that one input adds at most.
const BLOCKS_MAX: usize = 16;

/// Makes the pool and its journal, opens and uses it.
///
/// # Panics
/// On a violation.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let n = usize::from(input.u8());
    let mut script = input.bytes(n).to_vec();
    if let Some(shape) = script.first_mut() {
        *shape &= 127; // not closed
    }
    let mut parts = Parts::take(&script::small_pool(&mut Input::new(&script)));
    if let Some(mut tail) = Tail::of(&parts) {
        for _ in 0..BLOCKS_MAX {
            if input.is_empty() {
                break;
            }
            tail.add(&mut input, &mut parts);
        }
    }
    exercise(&parts.disk(), data.len().is_multiple_of(16));
}

/// Where the journal ends.
struct Tail {
    file: usize,
    uuid: [u8; 16],
    generation: u64,
    at: usize,
    epoch: u64,
    link: u32,
    /// How many changes each page has seen.
    seqs: BTreeMap<u32, u32>,
}

impl Tail {
    fn of(parts: &Parts) -> Option<Self> {
        let uuid = parts.uuid();
        let mut seqs = BTreeMap::new();
        for (no, page) in parts.pages.chunks_exact(parts.page_bytes).enumerate() {
            seqs.insert(no as u32, format::u32_at(page, 48));
        }
        let mut files = [0, 1];
        let generation =
            |i: usize| parts.journals[i].as_ref().map_or(0, |bytes| format::u64_at(bytes, 32));
        files.sort_by_key(|i| generation(*i));
        let mut tail = None;
        let (mut epoch, mut link) = (0, 0);
        for file in files {
            let Some(bytes) = &parts.journals[file] else { continue };
            if bytes.len() < BLOCK {
                continue;
            }
            let mut at = BLOCK;
            while bytes.get(at..at + 4) == Some(b"EBLK") {
                let len = format::u64_at(bytes, at + 24) as usize;
                let payload = bytes.get(at + BLOCK_HEAD..at + BLOCK_HEAD + len)?;
                for (page, seq) in format::records(payload) {
                    let now = seqs.entry(page).or_default();
                    *now = seq.max(*now);
                }
                (epoch, link) = (format::u64_at(bytes, at + 16), format::u32_at(bytes, at + 4));
                at += (BLOCK_HEAD + len).next_multiple_of(BLOCK);
            }
            tail = Some((file, generation(file), at));
        }
        let (file, generation, at) = tail?;
        Some(Self { file, uuid, generation, at, epoch, link, seqs })
    }

    fn add(&mut self, input: &mut Input<'_>, parts: &mut Parts) {
        let (flags, records) = (input.u8(), input.u8() % 16);
        let mut payload = Vec::new();
        for _ in 0..records {
            payload.extend(self.record(input));
        }
        if flags & 8 != 0 {
            payload.extend(input.bytes(5));
        }
        let mut epoch = self.epoch.wrapping_add(1);
        let mut link = self.link;
        match flags >> 4 {
            1 => epoch = input.u64(),
            2 => link = link.wrapping_add(1),
            3 => epoch = self.epoch,
            4 => epoch = epoch.wrapping_add(1 << 32),
            _ => {}
        }
        let block = format::block(&self.uuid, self.generation, epoch, link, &payload);
        let Some(bytes) = &mut parts.journals[self.file] else { return };
        bytes.resize(bytes.len().max(self.at + block.len()), 0);
        format::put(bytes, self.at, &block);
        self.link = format::u32_at(&block, 4);
        self.epoch = epoch;
        self.at += block.len();
    }

    fn record(&mut self, input: &mut Input<'_>) -> Vec<u8> {
        let tags =
            [7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 0, 1, 5, 24, 255];
        let tag = tags[usize::from(input.u8()) % tags.len()];
        let (page, wrong) = (input.u8(), input.u8());
        let page = match wrong {
            250 => u32::from(page) << 24,
            249 => u32::from(page) << 16,
            248 => u32::MAX - u32::from(page),
            // First pages of groups come into being only so.
            240..=247 => u32::from(wrong - 239) * GROUP,
            _ => u32::from(page),
        };
        let n = usize::from(input.u8());
        let operands = input.bytes(n).to_vec();
        let seq = self.seqs.entry(page).or_default();
        let next = match wrong {
            1 => *seq,
            2 => seq.wrapping_add(2),
            3 => seq.wrapping_sub(1),
            4 => u32::from(wrong) << 24,
            _ => {
                *seq = seq.wrapping_add(1);
                *seq
            }
        };
        format::record(tag, page, next, &operands)
    }
}
