//! The journal: a chain of blocks through extents of the pool's file.
//!
//! ```text
//! block   0 magic u32 "EBLK"    4 crc u32         8 number u64       16 epoch u64
//!         24 payload bytes u32  28 flags u32      32 place u64       40 next extent u32
//!         44 generation u32     48 link u32       52 piece u32       56 head crc u32    60 zero u32
//!         64 payload: records back to back
//! record  0 tag u8   1 bytes u16   3 page u32   7 seq u32   11 bytes …
//! ```
//!
//! A block starts at a multiple of 4096 and lies in one extent. The *crc* covers bytes 8 … 55 and the
//! payload, the *head crc* bytes 0 … 3 and 8 … 55. Both are seeded with the pool's uuid. The *number*
//! rises by one with each block, for ever. The *link* is the crc of the block before. The *generation*
//! is that of the open that wrote the block.
//!
//! An epoch is one block or several *pieces*. Bit 0 of the flags marks the last one, which is the
//! commit record: the epoch counts if that block and all pieces before it are good. Blocks of one
//! epoch are written without a sync between them. The next epoch begins only after the last block was
//! synced.
//!
//! The next block follows at the next multiple of 4096, or at the start of the *next extent* if it does
//! not fit. `scan` says how the end of the chain is found.

mod evidence;
mod reader;
mod scan;
#[cfg(test)]
mod tests;

use everleaf_pmem::epoch::NO_EPOCH;
use everleaf_pmem::error::Error;

use crate::store::format::{EXTENT_BYTES, SECTOR, u32_at, u64_at};

pub(crate) use scan::{JournalScan, scan};

pub(crate) const BLOCK_ALIGN: u64 = SECTOR;
pub(crate) const BLOCK_HEAD: usize = 64;
pub(crate) const RECORD_HEAD: usize = 11;
/// Tags from here on are the medium's own.
pub(crate) const TAG_OWN: u8 = TAG_COUNTS;
/// The tag of a record that says how many pairs an epoch has added to trees.
pub(crate) const TAG_COUNTS: u8 = 253;
/// The tag of a record that gives places to the pages of a large value.
pub(crate) const TAG_ADOPT: u8 = 254;
/// The tag of a record that takes the places away again.
pub(crate) const TAG_FORGET: u8 = 255;
pub(crate) const BLOCK_MAGIC: u32 = 0x4b4c_4245;
const ENDS_EPOCH: u32 = 1;

const _: () = {
    assert!(EXTENT_BYTES.is_multiple_of(BLOCK_ALIGN), "blocks fill an extent");
    assert!(BLOCK_HEAD + RECORD_HEAD + (u16::MAX as usize) < EXTENT_BYTES as usize);
    assert!(BLOCK_HEAD == 56 + 4 + 4 && RECORD_HEAD == 1 + 2 + 4 + 4);
};

/// Damage of the pool's file.
fn corrupt(offset: u64, what: impl Into<String>) -> Error {
    Error::corrupt(offset, what)
}

/// The byte where an extent starts.
fn start_of(extent: u32) -> u64 {
    u64::from(extent) * EXTENT_BYTES
}

/// Where the chain goes on.
///
/// A `place` at a multiple of the extent's length is the end of an extent: the next block is then at
/// the start of `next_extent`. Zero as `next_extent` means that there is none, for the pool was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Position {
    pub place: u64,
    pub number: u64,
    pub link: u32,
    pub next_extent: u32,
}

impl Position {
    /// Where a chain begins whose first block is to be at the start of `extent`.
    pub(crate) fn begin(extent: u32, number: u64, link: u32) -> Self {
        Self { place: start_of(extent), number, link, next_extent: extent }
    }

    /// The bytes where the next block can be: in this extent, and in the next one.
    pub(crate) fn spots(self) -> [Option<u64>; 2] {
        let here = (!self.place.is_multiple_of(EXTENT_BYTES)).then_some(self.place);
        [here, (self.next_extent != 0).then(|| start_of(self.next_extent))]
    }

    /// The byte where the next block would be if it fits there.
    pub(crate) fn spot(self) -> u64 {
        let [here, next] = self.spots();
        here.or(next).unwrap_or(self.place)
    }
}

/// Where the journal is at some time: what was done before is in no block behind that.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JournalMark {
    pub next: Position,
    /// Bytes of blocks before it.
    pub written: u64,
    /// The last epoch before it.
    pub epoch: u64,
}

/// The facts in the head of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockFacts {
    pub number: u64,
    pub epoch: u64,
    pub ends_epoch: bool,
    pub place: u64,
    pub next_extent: u32,
    pub generation: u32,
    pub link: u32,
    pub piece: u32,
}

/// Checks and makes blocks of one pool.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockKey {
    seed: u32,
}

impl BlockKey {
    pub(crate) fn new(uuid: &[u8; 16]) -> Self {
        Self { seed: crc32c::crc32c(uuid) }
    }

    /// That of a pool whose uuid has this checksum.
    pub(crate) fn of_seed(seed: u32) -> Self {
        Self { seed }
    }

    /// Whether `payload` is what that good head was written with.
    pub(crate) fn is_payload_good(self, head: &[u8], payload: &[u8]) -> bool {
        u32_at(head, 4) == self.crc(head, payload)
    }

    fn head_crc(self, head: &[u8]) -> u32 {
        crc32c::crc32c_append(crc32c::crc32c_append(self.seed, &head[..4]), &head[8..56])
    }

    fn crc(self, head: &[u8], payload: &[u8]) -> u32 {
        crc32c::crc32c_append(crc32c::crc32c_append(self.seed, &head[8..56]), payload)
    }

    /// Makes a block of `block`: [`BLOCK_HEAD`] bytes of room, then the payload. Returns its crc, which
    /// is the next block's link.
    pub(crate) fn seal(self, block: &mut [u8], facts: &BlockFacts) -> u32 {
        debug_assert!(facts.epoch != 0 && facts.epoch < NO_EPOCH, "epoch {}", facts.epoch);
        debug_assert!(facts.place.is_multiple_of(BLOCK_ALIGN), "place {}", facts.place);
        debug_assert!(block.len() - BLOCK_HEAD <= payload_room(facts.place), "it is in one extent");
        let (head, payload) = block.split_at_mut(BLOCK_HEAD);
        head.fill(0);
        head[..4].copy_from_slice(&BLOCK_MAGIC.to_le_bytes());
        head[8..16].copy_from_slice(&facts.number.to_le_bytes());
        head[16..24].copy_from_slice(&facts.epoch.to_le_bytes());
        head[24..28].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        head[28..32].copy_from_slice(&u32::from(facts.ends_epoch).to_le_bytes());
        head[32..40].copy_from_slice(&facts.place.to_le_bytes());
        head[40..44].copy_from_slice(&facts.next_extent.to_le_bytes());
        head[44..48].copy_from_slice(&facts.generation.to_le_bytes());
        head[48..52].copy_from_slice(&facts.link.to_le_bytes());
        head[52..56].copy_from_slice(&facts.piece.to_le_bytes());
        let (crc, head_crc) = (self.crc(head, payload), self.head_crc(head));
        head[4..8].copy_from_slice(&crc.to_le_bytes());
        head[56..60].copy_from_slice(&head_crc.to_le_bytes());
        debug_assert!(self.head(head) == Some((*facts, payload.len())));
        crc
    }

    /// The facts and the payload length of a head that is good by itself. They are not compared with
    /// any place, and the length with no room.
    pub(crate) fn head(self, head: &[u8]) -> Option<(BlockFacts, usize)> {
        let flags = u32_at(head, 28);
        let is_good = u32_at(head, 0) == BLOCK_MAGIC
            && u32_at(head, 56) == self.head_crc(head)
            && flags & !ENDS_EPOCH == 0
            && u32_at(head, 60) == 0;
        let facts = || BlockFacts {
            number: u64_at(head, 8),
            epoch: u64_at(head, 16),
            ends_epoch: flags & ENDS_EPOCH != 0,
            place: u64_at(head, 32),
            next_extent: u32_at(head, 40),
            generation: u32_at(head, 44),
            link: u32_at(head, 48),
            piece: u32_at(head, 52),
        };
        is_good.then(|| (facts(), u32_at(head, 24) as usize))
    }
}

/// Bytes of payload that fit a block at `place` before the extent ends.
pub(crate) fn payload_room(place: u64) -> usize {
    debug_assert!(place.is_multiple_of(BLOCK_ALIGN), "no block starts at byte {place}");
    (EXTENT_BYTES - place % EXTENT_BYTES) as usize - BLOCK_HEAD
}

/// How many bytes of `records`, in whole records from the start, fit into `room` bytes. 0 if not even
/// one record does.
pub(crate) fn cut(records: &[u8], room: usize) -> usize {
    if records.len() <= room {
        return records.len();
    }
    let mut at = 0;
    while at + RECORD_HEAD <= records.len() {
        let next = at + record_bytes(&records[at..]);
        debug_assert!(next <= records.len(), "half a record");
        if next > room {
            break;
        }
        at = next;
    }
    at
}

/// The length of the record whose head `bytes` begin with.
pub(crate) fn record_bytes(bytes: &[u8]) -> usize {
    RECORD_HEAD + usize::from(u16::from_le_bytes([bytes[1], bytes[2]]))
}

/// Where the next block goes after a block with that payload. The end of the extent if it is full.
pub(crate) fn next_block(place: u64, payload: usize) -> u64 {
    debug_assert!(place.is_multiple_of(BLOCK_ALIGN), "no block starts at byte {place}");
    (place + (BLOCK_HEAD + payload) as u64).next_multiple_of(BLOCK_ALIGN)
}
