//! Journal replay: a sound pool, left as a crash would, with more blocks behind its journal.
//!
//! ```text
//! input   bytes of the script u8 | the script (script.rs) | blocks until the end
//! block   flags u8 | records u8 (mod 16) | the records
//! record  tag u8 | page u8 | how the sequence number is wrong u8 | bytes of the operands u8 | operands
//! ```

use std::collections::BTreeMap;

use crate::exercise::exercise;
use crate::format::{self, BLOCK_HEAD, EXTENT, Facts};
use crate::input::Input;
use crate::parts::{Block, Parts};
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
    uuid: [u8; 16],
    /// Of the next block, if nothing is wrong with it.
    next: Facts,
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
        for block in &parts.blocks {
            let payload = block.bytes.get(BLOCK_HEAD..format::block_end(&block.bytes))?;
            for (page, seq) in format::records(payload) {
                let now = seqs.entry(page).or_default();
                *now = seq.max(*now);
            }
        }
        let last = parts.blocks.last()?;
        let facts = format::facts(&last.bytes);
        let next = Facts {
            number: facts.number + 1,
            epoch: facts.epoch,
            place: (last.place + last.bytes.len()) as u64,
            link: format::u32_at(&last.bytes, 4),
            ..facts
        };
        Some(Self { uuid, next, seqs })
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
        let mut facts = Facts { epoch: self.next.epoch.wrapping_add(1), ..self.next };
        match flags >> 4 {
            1 => facts.epoch = input.u64(),
            2 => facts.link = facts.link.wrapping_add(1),
            3 => facts.epoch = self.next.epoch,
            4 => facts.epoch = facts.epoch.wrapping_add(1 << 32),
            5 => facts.number = input.u64(),
            6 => facts.place = input.u64(),
            7 => facts.next_extent = input.u32(),
            8 => facts.generation = facts.generation.wrapping_add(1),
            9 => facts.generation = facts.generation.wrapping_sub(1),
            10 => facts.next_extent = u32::from(input.u8() % 8),
            11 => self.next.place = u64::from(facts.next_extent) * EXTENT as u64,
            _ => {}
        }
        if flags >> 4 == 11 {
            // The block goes where the chain does when its extent is full.
            facts.place = self.next.place;
        }
        let bytes = format::block(&self.uuid, &facts, &payload);
        let place = self.next.place as usize;
        self.next = Facts {
            number: self.next.number + 1,
            epoch: facts.epoch,
            place: (place + bytes.len()) as u64,
            link: format::u32_at(&bytes, 4),
            ..self.next
        };
        parts.blocks.push(Block { place, bytes });
    }

    fn record(&mut self, input: &mut Input<'_>) -> Vec<u8> {
        let tags = [
            7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 0, 1, 5, 24, 254, 255,
        ];
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
