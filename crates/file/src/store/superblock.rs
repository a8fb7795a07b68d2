//! The superblock: what a pool is, and where its last checkpoint is.
//!
//! ```text
//!   0  magic "EVERLEAF"    8  format version u32     12 endianness mark u32
//!  16  feature flags u64  24  uuid, 16 bytes         40 slots u32
//!  44  state u32: bit 0 clean, bit 1 unborn          48 layout hash u64
//!  56  open generation u64                           64 counter u64 (higher = newer)
//!  72  durable epoch u64: the last one before the journal
//!  80  root: place u64    88  bytes u32              92 crc32c u32
//!  96  journal: place of the first block u64        104 its number u64
//! 112  crc of the block before it u32               116 the extent after its own u32
//! 120  journal floor u64                            128 pages end u64
//! 136 … 4091 zero         4092 crc32c of bytes 0 … 4091
//! ```
//!
//! The two copies are written one after the other, each synced: first over the older one. A crash
//! leaves one of them whole, and when a change is over both say the same but for the counter, so that
//! a copy that rots takes nothing with it.
//!
//! *Root*: of the page table; no place if no checkpoint was made. *Journal*: where the first block is,
//! or will be, that holds changes which the root does not; no place if the pool was closed. *Journal
//! floor*: blocks with lower numbers were durable when this was written, so a journal that ends before
//! it is damaged and not merely torn. *Pages end*: of a DAX pool, the number of pages that have blocks on
//! the device.
//!
//! *Unborn*: the pool is being made under another name and holds nothing. An open that makes a pool and finds
//! such a file that nobody has locked may remove it: its maker was killed.
//!
//! A DAX pool has feature bit 1. Its pages are updated in place, so that root and journal stay zero.

use everleaf_pmem::error::{Error, Result};
use everleaf_pmem::page::PageNo;

use crate::journal::Position;
use crate::store::format::{FORMAT_VERSION, SUPER_BYTES, u32_at, u64_at};
use crate::store::image::Placed;

/// Feature bit 1: a DAX pool, whose pages are updated in place, without a journal.
pub(crate) const DAX: u64 = 1 << 1;

const MAGIC: [u8; 8] = *b"EVERLEAF";
const ENDIAN_MARK: u32 = 0x0102_0304;
const CLEAN: u32 = 1;
const UNBORN: u32 = 2;
const CRC_AT: usize = SUPER_BYTES - 4;
const FIELDS_END: usize = 136;

const _: () = {
    assert!(FIELDS_END <= CRC_AT, "the fields end before the checksum");
    assert!(CLEAN & UNBORN == 0, "a bit for each state");
};

/// The superblock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Super {
    pub features: u64,
    pub uuid: [u8; 16],
    pub slots: u32,
    pub clean: bool,
    pub unborn: bool,
    pub layout_hash: u64,
    pub open_generation: u64,
    pub counter: u64,
    pub durable_epoch: u64,
    pub root: Placed,
    pub journal: Position,
    pub journal_floor: u64,
    pub pages_end: u64,
}

enum SuperCopy {
    Good(Box<Super>),
    /// Has the magic number; its checksum fails.
    Damaged,
    /// Intact but not for this build.
    Unusable(String),
    Alien,
}

impl Super {
    /// That of a new pool, still without its uuid.
    pub(crate) fn new(features: u64, slots: u32, layout_hash: u64, pages_end: PageNo) -> Self {
        Self {
            features,
            uuid: [0; 16],
            slots,
            clean: true,
            unborn: false,
            layout_hash,
            open_generation: 0,
            counter: 0,
            durable_epoch: 0,
            root: Placed::default(),
            journal: Position::default(),
            journal_floor: 0,
            pages_end: pages_end.into(),
        }
    }

    pub(crate) fn encode(&self) -> [u8; SUPER_BYTES] {
        debug_assert!(!self.unborn || self.clean, "who changes a pool has given it its name");
        let mut b = [0; SUPER_BYTES];
        let state = if self.clean { CLEAN } else { 0 } | if self.unborn { UNBORN } else { 0 };
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            b[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        put(&MAGIC);
        put(&FORMAT_VERSION.to_le_bytes());
        put(&ENDIAN_MARK.to_le_bytes());
        put(&self.features.to_le_bytes());
        put(&self.uuid);
        put(&self.slots.to_le_bytes());
        put(&state.to_le_bytes());
        let words = [self.layout_hash, self.open_generation, self.counter, self.durable_epoch];
        words.iter().for_each(|word| put(&word.to_le_bytes()));
        put(&self.root.encode());
        put(&self.journal.place.to_le_bytes());
        put(&self.journal.number.to_le_bytes());
        put(&self.journal.link.to_le_bytes());
        put(&self.journal.next_extent.to_le_bytes());
        put(&self.journal_floor.to_le_bytes());
        put(&self.pages_end.to_le_bytes());
        debug_assert!(at == FIELDS_END);
        let crc = crc32c::crc32c(&b[..CRC_AT]);
        b[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        b
    }

    /// Which copy (0 or 1) this version of the superblock goes to.
    pub(crate) fn copy(&self) -> u64 {
        self.counter & 1
    }

    /// Chooses the newer good one of the two copies.
    pub(crate) fn choose(a: &[u8], b: &[u8]) -> Result<Super> {
        match (decode(a), decode(b)) {
            (SuperCopy::Good(a), SuperCopy::Good(b)) => {
                Ok(if a.counter > b.counter { *a } else { *b })
            }
            (SuperCopy::Unusable(what), _) | (_, SuperCopy::Unusable(what)) => {
                Err(Error::foreign(what))
            }
            (SuperCopy::Good(one), _) | (_, SuperCopy::Good(one)) => Ok(*one),
            (SuperCopy::Alien, SuperCopy::Alien) => {
                Err(Error::foreign("the file has no superblock"))
            }
            _ => Err(Error::corrupt(0, "both copies of the superblock are damaged")),
        }
    }
}

fn decode(b: &[u8]) -> SuperCopy {
    if b.len() < SUPER_BYTES || b[..8] != MAGIC {
        return SuperCopy::Alien;
    }
    if u32_at(b, CRC_AT) != crc32c::crc32c(&b[..CRC_AT]) {
        return SuperCopy::Damaged;
    }
    let version = u32_at(b, 8);
    if version != FORMAT_VERSION {
        return SuperCopy::Unusable(format!(
            "format version {version}; this build has {FORMAT_VERSION}"
        ));
    }
    if u32_at(b, 12) != ENDIAN_MARK {
        return SuperCopy::Unusable("the other byte order".into());
    }
    let features = u64_at(b, 16);
    if features & !DAX != 0 {
        return SuperCopy::Unusable(format!(
            "features {features:#x}, not all of which this build knows"
        ));
    }
    let mut uuid = [0; 16];
    uuid.copy_from_slice(&b[24..40]);
    SuperCopy::Good(Box::new(Super {
        features,
        uuid,
        slots: u32_at(b, 40),
        clean: u32_at(b, 44) & CLEAN != 0,
        unborn: u32_at(b, 44) & UNBORN != 0,
        layout_hash: u64_at(b, 48),
        open_generation: u64_at(b, 56),
        counter: u64_at(b, 64),
        durable_epoch: u64_at(b, 72),
        root: Placed::decode(&b[80..96]),
        journal: Position {
            place: u64_at(b, 96),
            number: u64_at(b, 104),
            link: u32_at(b, 112),
            next_extent: u32_at(b, 116),
        },
        journal_floor: u64_at(b, 120),
        pages_end: u64_at(b, 128),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(counter: u64) -> Super {
        Super {
            uuid: [3; 16],
            open_generation: 6,
            counter,
            durable_epoch: 7,
            root: Placed { place: 8, bytes: 9, crc: 10 },
            journal: Position { place: 11, number: 12, link: 13, next_extent: 14 },
            journal_floor: 15,
            ..Super::new(DAX, 8, 5, 10)
        }
    }

    #[test]
    fn the_newer_good_copy_wins() {
        let (old, new) = (sample(4).encode(), sample(5).encode());
        assert_eq!(Super::choose(&old, &new).expect("good"), sample(5));
        let mut torn = new;
        torn[4000] ^= 1;
        assert_eq!(Super::choose(&old, &torn).expect("one is good"), sample(4));
        assert!(matches!(Super::choose(&torn, &torn), Err(Error::Corrupt { .. })));
        assert!(matches!(Super::choose(&[0; 4096], &[]), Err(Error::Foreign { .. })));
    }
}
