//! The journal: one block an epoch, in two files that take turns.
//!
//! ```text
//! header, 4096 B  0 magic "EVLFJRNL"  8 version u32  12 floor u32  16 uuid, 16 bytes
//!                 32 generation u64   40 first epoch u64          48 crc32c of bytes 0 … 47
//!                 52 … 2047 zero      2048 magic "EVLFJRID"       2056 uuid, 16 bytes
//!                 2072 crc32c of bytes 2048 … 2071                2076 … 4095 zero
//! block           0 magic u32         4 crc u32      8 generation u64
//!                 16 epoch u64        24 payload bytes u64        32 header crc u32   36 link u32
//!                 40 payload: records back to back; then zeros up to a multiple of 4096
//! record          0 tag u8   1 bytes u16   3 page u32   7 seq u32   11 bytes …
//! ```
//!
//! Bytes 2048 … 2559 say whose the file is. They are written when it is made, under another name, and
//! never again, so that no torn write takes them away; a header is written by its first 512 bytes. A
//! file that nobody needs, because its pool was closed or never written to, has 2560 bytes.
//!
//! A block is the commit record of its epoch: it counts if both checksums hold. They are seeded with
//! the pool's uuid and the generation, so a block of another pool or of an earlier use of the file
//! never counts. The *header crc* covers bytes 0 … 3, 8 … 31 and 36 … 39, the *crc* bytes 8 … 31 and the
//! payload. The *link* is the crc of the block before, also across the two files, 0 for the first of
//! all: a block that is missing between two others is noticed. The *floor* says how many units of 4096
//! bytes of the generation before were durable when the header was written: if there are fewer, its
//! tail is damaged and not merely torn. Blocks start at multiples of 4096 bytes, so no sector that
//! holds a committed block is ever written again. A block is written only after the block before it is
//! durable; hence a good head behind a bad block proves damage, whereas a bad one with nothing behind
//! it is the torn write of an epoch that was never acknowledged.

use everleaf_pmem::epoch::NO_EPOCH;
use everleaf_pmem::error::{Error, Result};
use everleaf_pmem::fallible;

use crate::format::{u32_at, u64_at};
use crate::io::IoFile;

pub(crate) const HEADER_BYTES: u64 = 4096;
pub(crate) const BLOCK_ALIGN: u64 = 4096;
pub(crate) const BLOCK_HEAD: usize = 40;
pub(crate) const RECORD_HEAD: usize = 11;

const MAGIC: [u8; 8] = *b"EVLFJRNL";
const VERSION: u32 = 1;
/// Bytes of the header that are written each time.
pub(crate) const HEAD_BYTES: usize = 512;
const ID_MAGIC: [u8; 8] = *b"EVLFJRID";
const ID_AT: usize = 2048;
/// The length of a journal file that nobody needs.
pub(crate) const IDLE_BYTES: u64 = 2560;
pub(crate) const BLOCK_MAGIC: u32 = 0x4b4c_4245;
const WINDOW: u64 = 4 << 20;

const _: () = {
    assert!(HEADER_BYTES.is_multiple_of(BLOCK_ALIGN) && WINDOW.is_multiple_of(BLOCK_ALIGN));
    assert!(HEAD_BYTES >= 52 && HEAD_BYTES == 512, "a sector holds what changes of the header");
    assert!(HEAD_BYTES <= ID_AT && ID_AT.is_multiple_of(512), "no torn write takes the mark away");
    assert!(ID_AT + 28 <= IDLE_BYTES as usize && IDLE_BYTES < HEADER_BYTES);
    assert!(BLOCK_HEAD == 4 + 4 + 8 + 8 + 8 + 4 + 4, "magic to link");
    assert!(RECORD_HEAD == 1 + 2 + 4 + 4, "tag, bytes, page, seq");
};

/// The names that errors give the journal files.
pub(crate) const NAMES: [&str; 2] = ["journal 0", "journal 1"];

pub(crate) fn read_error(name: &str, e: std::io::Error) -> Error {
    Error::io(format!("reading {name}"), e)
}

/// The header of a journal file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JournalHeader {
    pub uuid: [u8; 16],
    pub generation: u64,
    /// No block of this file has a lower epoch.
    pub first_epoch: u64,
    /// So many bytes of the file of the generation before were durable; 0 = not known.
    pub floor: u64,
}

impl JournalHeader {
    /// The part of the header that changes.
    pub(crate) fn encode(&self) -> [u8; HEAD_BYTES] {
        let mut b = [0; HEAD_BYTES];
        b[..8].copy_from_slice(&MAGIC);
        b[8..12].copy_from_slice(&VERSION.to_le_bytes());
        debug_assert!(self.floor.is_multiple_of(BLOCK_ALIGN), "floor {}", self.floor);
        let floor = u32::try_from(self.floor / BLOCK_ALIGN).unwrap_or(0);
        b[12..16].copy_from_slice(&floor.to_le_bytes());
        b[16..32].copy_from_slice(&self.uuid);
        b[32..40].copy_from_slice(&self.generation.to_le_bytes());
        b[40..48].copy_from_slice(&self.first_epoch.to_le_bytes());
        let crc = crc32c::crc32c(&b[..48]);
        b[48..52].copy_from_slice(&crc.to_le_bytes());
        b
    }

    /// The header of a journal file, or `None` if the file has no good one, or is idle.
    pub(crate) fn read(file: &dyn IoFile, name: &'static str) -> Result<Option<JournalHeader>> {
        let mut b = [0; HEADER_BYTES as usize];
        let n = file.read_at(&mut b, 0).map_err(|e| read_error(name, e))?;
        // A file that ends within its header is idle.
        if n < b.len() || b[..8] != MAGIC || u32_at(&b, 48) != crc32c::crc32c(&b[..48]) {
            return Ok(None);
        }
        if u32_at(&b, 8) != VERSION {
            return Err(Error::foreign(format!("{name} has version {}", u32_at(&b, 8))));
        }
        let mut uuid = [0; 16];
        uuid.copy_from_slice(&b[16..32]);
        let floor = u64::from(u32_at(&b, 12)) * BLOCK_ALIGN;
        Ok(Some(JournalHeader {
            uuid,
            generation: u64_at(&b, 32),
            first_epoch: u64_at(&b, 40),
            floor,
        }))
    }
}

/// A journal file of that pool without a header. Its first [`IDLE_BYTES`] are a new file.
pub(crate) fn birth(uuid: &[u8; 16]) -> [u8; HEADER_BYTES as usize] {
    let mut b = [0; HEADER_BYTES as usize];
    let id = &mut b[ID_AT..ID_AT + 28];
    id[..8].copy_from_slice(&ID_MAGIC);
    id[8..24].copy_from_slice(uuid);
    let crc = crc32c::crc32c(&id[..24]);
    id[24..].copy_from_slice(&crc.to_le_bytes());
    b
}

/// What a file says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Says {
    /// Nothing: it is empty.
    Empty,
    /// The journal of the pool with this uuid.
    Journal { uuid: [u8; 16], is_idle: bool },
    /// Nothing that a journal says.
    Other,
}

/// What the file says of itself, as far as journals go. One of the pool `own` is known by its uuid
/// alone, in either place: a crash may have torn the header, and a disk may damage either.
pub(crate) fn says(file: &dyn IoFile, own: Option<&[u8; 16]>) -> std::io::Result<Says> {
    let mut b = [0; IDLE_BYTES as usize];
    let n = file.read_at(&mut b, 0)?;
    if n == 0 {
        return Ok(Says::Empty);
    }
    let (mut first, mut second) = ([0; 16], [0; 16]);
    first.copy_from_slice(&b[16..32]);
    second.copy_from_slice(&b[ID_AT + 8..ID_AT + 24]);
    let has_id = b[ID_AT..ID_AT + 8] == ID_MAGIC;
    let is_own = |uuid: &[u8; 16]| own == Some(uuid);
    let uuid = if is_own(&second) || has_id && !is_own(&first) {
        second
    } else if is_own(&first) || b[..8] == MAGIC {
        first
    } else {
        return Ok(Says::Other);
    };
    Ok(Says::Journal { uuid, is_idle: has_id && file.len()? == IDLE_BYTES })
}

/// Checks and makes blocks of one pool and one generation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockKey {
    seed: u32,
    generation: u64,
}

impl BlockKey {
    pub(crate) fn new(uuid: &[u8; 16], generation: u64) -> Self {
        let seed = crc32c::crc32c(uuid);
        Self { seed: crc32c::crc32c_append(seed, &generation.to_le_bytes()), generation }
    }

    pub(crate) fn head_crc(self, head: &[u8]) -> u32 {
        let crc = crc32c::crc32c_append(self.seed, &head[..4]);
        let crc = crc32c::crc32c_append(crc, &head[8..32]);
        crc32c::crc32c_append(crc, &head[36..40])
    }

    pub(crate) fn crc(self, head: &[u8], payload: &[u8]) -> u32 {
        crc32c::crc32c_append(crc32c::crc32c_append(self.seed, &head[8..32]), payload)
    }

    /// Makes a block of `block`: room for its head, then the payload. Returns the next block's link.
    pub(crate) fn seal(self, block: &mut [u8], epoch: u64, link: u32) -> u32 {
        debug_assert!(epoch != 0 && epoch < NO_EPOCH, "epoch {epoch}");
        let (head, payload) = block.split_at_mut(BLOCK_HEAD);
        head.fill(0);
        head[..4].copy_from_slice(&BLOCK_MAGIC.to_le_bytes());
        head[8..16].copy_from_slice(&self.generation.to_le_bytes());
        head[16..24].copy_from_slice(&epoch.to_le_bytes());
        head[24..32].copy_from_slice(&(payload.len() as u64).to_le_bytes());
        head[36..40].copy_from_slice(&link.to_le_bytes());
        let (crc, head_crc) = (self.crc(head, payload), self.head_crc(head));
        head[4..8].copy_from_slice(&crc.to_le_bytes());
        head[32..36].copy_from_slice(&head_crc.to_le_bytes());
        debug_assert!(self.head(head, u64::MAX) == Some((epoch, payload.len() as u64)));
        crc
    }

    /// Epoch and payload length of a block whose head is good and which ends within `room` bytes.
    pub(crate) fn head(self, head: &[u8], room: u64) -> Option<(u64, u64)> {
        let len = u64_at(head, 24);
        (u32_at(head, 0) == BLOCK_MAGIC
            && u64_at(head, 8) == self.generation
            && u32_at(head, 32) == self.head_crc(head)
            && len <= room.saturating_sub(BLOCK_HEAD as u64))
        .then(|| (u64_at(head, 16), len))
    }
}

/// Where the next block starts after a block with that payload.
pub(crate) fn next_block(at: u64, payload: u64) -> u64 {
    debug_assert!(at.is_multiple_of(BLOCK_ALIGN), "no block starts at byte {at}");
    (at + BLOCK_HEAD as u64 + payload).next_multiple_of(BLOCK_ALIGN)
}

/// One good block, its payload at `start .. start + len` of [`JournalScan::bytes`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct JournalBlock {
    pub epoch: u64,
    pub start: usize,
    pub len: usize,
    pub crc: u32,
    pub link: u32,
}

/// What one journal file holds.
#[derive(Debug, Default)]
pub(crate) struct JournalScan {
    /// The file from byte [`HEADER_BYTES`] up to `end`.
    pub bytes: Vec<u8>,
    pub blocks: Vec<JournalBlock>,
    /// Byte of the file where the next block belongs.
    pub end: u64,
    pub file_len: u64,
}

struct Reader<'a> {
    file: &'a dyn IoFile,
    name: &'static str,
    /// What has been read from [`HEADER_BYTES`] on, with room for as much as the file has, up to
    /// 1 GiB, which the system backs when it is used.
    bytes: Vec<u8>,
    len: u64,
}

impl Reader<'_> {
    /// Reads on until `bytes` holds the file up to byte `end`, which lies within the file.
    fn need(&mut self, end: u64) -> Result<()> {
        let have = HEADER_BYTES + self.bytes.len() as u64;
        if end <= have {
            return Ok(());
        }
        debug_assert!(end <= self.len, "byte {end} of a file of {} bytes", self.len);
        let to = end.max(have + WINDOW).min(self.len);
        let (old, new) = (self.bytes.len(), (to - HEADER_BYTES) as usize);
        fallible::more(&mut self.bytes, new - old, "what a journal holds")?;
        self.bytes.resize(new, 0);
        let n = self.file.read_at(&mut self.bytes[old..], have);
        let n = n.map_err(|e| read_error(self.name, e))?;
        if have + (n as u64) < to {
            self.bytes.truncate(old);
            return Err(Error::Corrupt {
                file: self.name,
                offset: have + n as u64,
                what: "the file became shorter while it was read".into(),
            });
        }
        Ok(())
    }

    /// The good block at byte `at` of the file.
    fn block(&mut self, key: BlockKey, at: u64) -> Result<Option<JournalBlock>> {
        if at + BLOCK_HEAD as u64 > self.len {
            return Ok(None);
        }
        self.need(at + BLOCK_HEAD as u64)?;
        let i = (at - HEADER_BYTES) as usize;
        let Some((epoch, len)) = key.head(&self.bytes[i..i + BLOCK_HEAD], self.len - at) else {
            return Ok(None);
        };
        self.need(at + BLOCK_HEAD as u64 + len)?;
        let (head, rest) = self.bytes[i..].split_at(BLOCK_HEAD);
        let (len, crc) = (len as usize, u32_at(head, 4));
        let good = crc == key.crc(head, &rest[..len]);
        let link = u32_at(head, 36);
        Ok(good.then_some(JournalBlock { epoch, start: i + BLOCK_HEAD, len, crc, link }))
    }
}

/// Reads the blocks of one journal file, whose epochs rise from above `after` and whose first block
/// follows the block with the crc `link`, if that is known.
///
/// # Errors
/// [`Error::Corrupt`] if a later block's good head lies behind a bad block, or if a block does not
/// follow the one before it.
pub(crate) fn scan(
    file: &dyn IoFile,
    name: &'static str,
    key: BlockKey,
    mut after: u64,
    mut link: Option<u32>,
) -> Result<JournalScan> {
    let len = file.len().map_err(|e| read_error(name, e))?;
    let room = len.saturating_sub(HEADER_BYTES).min(1 << 30) as usize;
    let mut reader =
        Reader { file, name, bytes: fallible::list(room, "what a journal holds")?, len };
    let (mut blocks, mut at, before) = (Vec::new(), HEADER_BYTES, after);
    while let Some(block) = reader.block(key, at)? {
        if block.epoch <= after {
            // Not what was written here, but a copy of an older block that the disk had in this
            // place before the file grew into it.
            break;
        }
        if link.is_some_and(|link| link != block.link) {
            return Err(Error::Corrupt {
                file: name,
                offset: at,
                what: format!("the blocks between epochs {after} and {} are missing", block.epoch),
            });
        }
        (after, link) = (block.epoch, Some(block.crc));
        at = next_block(at, block.len as u64);
        fallible::push(&mut blocks, block, "the blocks of a journal")?;
    }
    // Blocks before the last are durable, for each was synced before the next was written. The last
    // may be one whose sync failed, of which memory knows more than the disk.
    if let Some(last) = blocks.last() {
        let start = HEADER_BYTES + (last.start - BLOCK_HEAD) as u64;
        file.drop_cached(0..u64::MAX).map_err(|e| read_error(name, e))?;
        if !reader.alone(key, start)? {
            at = start;
            blocks.pop();
            after = blocks.last().map_or(before, |block| block.epoch);
        }
    }
    let end = at;
    let mut bytes = std::mem::take(&mut reader.bytes);
    bytes.truncate((end - HEADER_BYTES).min(len.saturating_sub(HEADER_BYTES)) as usize);
    // At `end` may be the torn block itself.
    if let Some(found) = look_ahead(file, name, len, end + BLOCK_ALIGN, key, after)? {
        return Err(Error::Corrupt {
            file: name,
            offset: end,
            what: format!("no good block here, yet a later epoch at byte {found}"),
        });
    }
    debug_assert!(end >= HEADER_BYTES && end.is_multiple_of(BLOCK_ALIGN));
    debug_assert!(bytes.len() as u64 <= end - HEADER_BYTES);
    debug_assert!(blocks.is_sorted_by(|a, b| a.epoch < b.epoch), "epochs rise");
    debug_assert!(blocks.iter().all(|block| block.start + block.len <= bytes.len()));
    Ok(JournalScan { bytes, blocks, end, file_len: len })
}

/// Whether the head of the first block is good.
pub(crate) fn begun(file: &dyn IoFile, name: &'static str, key: BlockKey) -> Result<bool> {
    let mut head = [0; BLOCK_HEAD];
    let n = file.read_at(&mut head, HEADER_BYTES).map_err(|e| read_error(name, e))?;
    Ok(n == BLOCK_HEAD && key.head(&head, u64::MAX).is_some())
}

/// The first good head of a block at or behind byte `from`, with an epoch above `after`. The block
/// itself may be torn: that anything of it was written proves that those before it were durable.
pub(crate) fn look_ahead(
    file: &dyn IoFile,
    name: &'static str,
    len: u64,
    from: u64,
    key: BlockKey,
    after: u64,
) -> Result<Option<u64>> {
    let is_later = |head: &[u8]| key.head(head, u64::MAX).is_some_and(|(epoch, _)| epoch > after);
    find_head(file, name, len, from, is_later)
}

/// Where the pool has written a block since it was closed before that generation.
pub(crate) fn since(
    file: &dyn IoFile,
    name: &'static str,
    uuid: &[u8; 16],
    generation: u64,
) -> Result<Option<u64>> {
    let len = file.len().map_err(|e| read_error(name, e))?;
    let is_later = |head: &[u8]| {
        let own = u64_at(head, 8);
        own >= generation && BlockKey::new(uuid, own).head(head, u64::MAX).is_some()
    };
    find_head(file, name, len, HEADER_BYTES, is_later)
}

/// The first place at or behind byte `from` where there is such a head of a block.
fn find_head(
    file: &dyn IoFile,
    name: &'static str,
    len: u64,
    from: u64,
    is: impl Fn(&[u8]) -> bool,
) -> Result<Option<u64>> {
    let window = WINDOW.min(len.saturating_sub(from)) as usize;
    let mut window = fallible::filled(0, window, "a part of a journal")?;
    let mut base = from.max(HEADER_BYTES);
    while base < len {
        let n = file.read_at(&mut window, base).map_err(|e| read_error(name, e))?;
        for i in (0..n.saturating_sub(BLOCK_HEAD - 1)).step_by(BLOCK_ALIGN as usize) {
            if is(&window[i..i + BLOCK_HEAD]) {
                return Ok(Some(base + i as u64));
            }
        }
        if n == 0 {
            break;
        }
        base += n as u64;
    }
    Ok(None)
}

impl Reader<'_> {
    /// Whether there is a good block at byte `at`, read without what comes before it.
    fn alone(&mut self, key: BlockKey, at: u64) -> Result<bool> {
        let read = |buf: &mut [u8], at| self.file.read_at(buf, at);
        let mut head = [0; BLOCK_HEAD];
        read(&mut head, at).map_err(|e| read_error(self.name, e))?;
        let Some((_, len)) = key.head(&head, self.len - at) else { return Ok(false) };
        let mut payload = fallible::filled(0, len as usize, "a block of a journal")?;
        let n = read(&mut payload, at + BLOCK_HEAD as u64).map_err(|e| read_error(self.name, e))?;
        Ok(n == payload.len() && u32_at(&head, 4) == key.crc(&head, &payload))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::io::{Access, Io, SimIo};

    use super::*;

    fn file(blocks: &[(u64, u32)]) -> Box<dyn IoFile> {
        let key = BlockKey::new(&[1; 16], 5);
        let file = SimIo::new(1).open(Path::new("j"), Access::New).expect("new");
        for (i, &(epoch, link)) in blocks.iter().enumerate() {
            let mut block = vec![7; BLOCK_HEAD + 100];
            key.seal(&mut block, epoch, link);
            file.write_at(&block, HEADER_BYTES + i as u64 * BLOCK_ALIGN).expect("write");
        }
        file
    }

    fn crc(epoch: u64, link: u32) -> u32 {
        BlockKey::new(&[1; 16], 5).seal(&mut [7; BLOCK_HEAD + 100], epoch, link)
    }

    #[test]
    fn blocks_must_follow_each_other() {
        let key = BlockKey::new(&[1; 16], 5);
        let scan = |blocks: &[(u64, u32)], after, link| {
            scan(&*file(blocks), NAMES[0], key, after, link).map(|s| (s.blocks.len(), s.end))
        };
        let good = [(3, 9), (4, crc(3, 9))];
        assert_eq!(scan(&good, 2, Some(9)).expect("good"), (2, HEADER_BYTES + 2 * BLOCK_ALIGN));
        assert_eq!(scan(&good, 2, None).expect("good").0, 2);
        assert!(scan(&good, 3, None).is_err(), "an epoch came twice");
        assert!(scan(&good, 2, Some(8)).is_err(), "the block before is another one");
        assert!(scan(&[(3, 9), (5, 1)], 2, None).is_err(), "a block is missing");
        assert_eq!(BlockKey::new(&[2; 16], 5).head(&[0; BLOCK_HEAD], 4096), None);
    }

    #[test]
    fn a_copy_of_an_older_block_behind_the_last_is_no_damage() {
        let key = BlockKey::new(&[1; 16], 5);
        let good = [(3, 9), (4, crc(3, 9)), (3, 9), (4, crc(3, 9))];
        let scan = scan(&*file(&good), NAMES[0], key, 2, None).expect("left over");
        assert_eq!((scan.blocks.len(), scan.end), (2, HEADER_BYTES + 2 * BLOCK_ALIGN));
    }

    #[test]
    fn blocks_of_another_pool_or_generation_do_not_count() {
        for key in [BlockKey::new(&[2; 16], 5), BlockKey::new(&[1; 16], 6)] {
            let found = scan(&*file(&[(3, 0)]), NAMES[0], key, 0, None).expect("an empty journal");
            assert!(found.blocks.is_empty() && found.end == HEADER_BYTES);
        }
    }
}
