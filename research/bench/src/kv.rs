//! Records on a medium, beside a tree that finds them: the key-value store of the Circ-Tree paper
//! (§6.1), for any tree.
//!
//! A record is an array of ten pointers, each to a field of 100 bytes. All lines of a new record are
//! flushed and fenced before the tree learns of it. An update writes the field elsewhere, flushes
//! and fences it, and swaps the pointer in the array: 8 bytes, flushed and fenced. The old field
//! is not used again, so a reader needs no latch: a field does not change once a pointer names it.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, ensure};
use everleaf_pmem::{Counts, Medium, PageNo};
use tempfile::TempDir;

use crate::medium::MediumName;
use crate::memory::{self, Counting, OnMedium, Size};
use crate::ycsb::{FIELD_BYTES, FIELDS, RECORD_BYTES};

/// Words of a block: two lines, for a field or for the pointers of a record.
const BLOCK_WORDS: usize = 16;

/// Words of a field.
const FIELD_WORDS: usize = FIELD_BYTES.div_ceil(8);

/// Slots of a page, which are nothing but room here.
const SLOTS: u32 = 1024;

/// Blocks of a page.
const PAGE_BLOCKS: u64 = 2 * SLOTS as u64 / BLOCK_WORDS as u64;

/// Blocks of a record with its fields.
const RECORD_BLOCKS: u64 = 1 + FIELDS as u64;

/// Blocks that one thread takes from, so that threads do not share lines: `next..end`.
#[derive(Debug, Default)]
pub struct Room {
    next: u64,
    end: u64,
}

/// Records on a medium.
pub trait Heap: Send + Sync {
    /// Writes a record; returns its number.
    fn add(&self, room: &mut Room, record: &[u8]) -> Result<u64>;

    /// Copies all fields of a record.
    fn read(&self, record: u64, to: &mut [u8]) -> Result<()>;

    /// Replaces a field of a record.
    fn write(&self, room: &mut Room, record: u64, field: usize, bytes: &[u8]) -> Result<()>;

    /// Counts of what passed the door so far, if the medium counts.
    fn counts(&self) -> Option<Counts>;
}

/// Makes an empty heap for so many records, with so many updates of fields, from so many rooms. All
/// of its memory is touched once, so that no operation pays for that.
///
/// # Errors
/// Heaps are not on such media; there is no memory or no room.
pub fn make(
    medium: MediumName,
    [records, updates, rooms]: [u64; 3],
    scratch: &Path,
    dax: Option<&Path>,
) -> Result<Box<dyn Heap>> {
    let blocks = records * RECORD_BLOCKS + updates + rooms * PAGE_BLOCKS;
    let pages = PageNo::try_from(blocks.div_ceil(PAGE_BLOCKS) + 1).context("too many records")?;
    memory::make(medium, &Size { slots: SLOTS, pages, scratch, dax }, Records)
}

/// Makes an empty heap of all of a medium.
struct Records;

impl OnMedium for Records {
    type Made = Box<dyn Heap>;

    fn on<M: Counting + 'static>(self, medium: M, dir: Option<TempDir>) -> Result<Self::Made> {
        for no in 1..medium.limit() {
            let page = medium.page(no)?;
            (0..2 * SLOTS as usize).step_by(512).for_each(|word| medium.store(page.body(word), 0));
        }
        Ok(Box::new(On { medium, next: AtomicU64::new(1), _dir: dir }))
    }
}

/// The heap. Block b is in page `1 + b / PAGE_BLOCKS`.
struct On<M> {
    medium: M,
    /// The first page that no thread has taken.
    next: AtomicU64,
    _dir: Option<TempDir>,
}

impl<M: Medium> On<M> {
    fn take(&self, room: &mut Room) -> u64 {
        if room.next == room.end {
            room.next = (self.next.fetch_add(1, Ordering::Relaxed) - 1) * PAGE_BLOCKS;
            room.end = room.next + PAGE_BLOCKS;
        }
        room.next += 1;
        room.next - 1
    }

    /// The page of a block, and the block's first word there.
    fn at(&self, block: u64) -> Result<(everleaf_pmem::Page<'_>, usize)> {
        let no = PageNo::try_from(1 + block / PAGE_BLOCKS).context("no such block")?;
        Ok((self.medium.page(no)?, (block % PAGE_BLOCKS) as usize * BLOCK_WORDS))
    }

    /// Writes a block and flushes its lines; no fence.
    fn put(&self, block: u64, words: impl Iterator<Item = u64>) -> Result<()> {
        let (page, first) = self.at(block)?;
        let mut end = first;
        for word in words {
            self.medium.store(page.body(end), word);
            end += 1;
        }
        (first..end).step_by(8).for_each(|word| self.medium.flush(page, page.line_of(word)));
        Ok(())
    }

    fn put_field(&self, room: &mut Room, bytes: &[u8]) -> Result<u64> {
        ensure!(bytes.len() == FIELD_BYTES, "a field has {FIELD_BYTES} bytes");
        let block = self.take(room);
        let word = |chunk: &[u8]| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_le_bytes(word)
        };
        self.put(block, bytes.chunks(8).map(word))?;
        Ok(block)
    }
}

impl<M: Counting> Heap for On<M> {
    fn add(&self, room: &mut Room, record: &[u8]) -> Result<u64> {
        ensure!(record.len() == RECORD_BYTES, "a record has {RECORD_BYTES} bytes");
        let mut fields = [0; FIELDS];
        for (field, bytes) in fields.iter_mut().zip(record.chunks(FIELD_BYTES)) {
            *field = self.put_field(room, bytes)?;
        }
        let block = self.take(room);
        self.put(block, fields.into_iter())?;
        self.medium.fence();
        Ok(block)
    }

    fn read(&self, record: u64, to: &mut [u8]) -> Result<()> {
        let (pointers, first) = self.at(record)?;
        for (i, to) in to.chunks_mut(FIELD_BYTES).enumerate() {
            let (page, first) = self.at(pointers.body(first + i).load())?;
            for (word, to) in (first..first + FIELD_WORDS).zip(to.chunks_mut(8)) {
                to.copy_from_slice(&page.body(word).load().to_le_bytes()[..to.len()]);
            }
        }
        Ok(())
    }

    fn write(&self, room: &mut Room, record: u64, field: usize, bytes: &[u8]) -> Result<()> {
        let block = self.put_field(room, bytes)?;
        self.medium.fence();
        let (page, first) = self.at(record)?;
        self.medium.store(page.body(first + field), block);
        self.medium.flush(page, page.line_of(first + field));
        self.medium.fence();
        Ok(())
    }

    fn counts(&self) -> Option<Counts> {
        self.medium.counts()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(i: u8) -> Vec<u8> {
        (0..RECORD_BYTES).map(|at| (at as u8).wrapping_mul(7) ^ i).collect()
    }

    fn heap(medium: &str, sizes: [u64; 3]) -> Box<dyn Heap> {
        make(medium.parse().expect("a medium"), sizes, Path::new("."), None).expect("a heap")
    }

    #[test]
    fn records_are_read_as_they_were_written() {
        let heap = heap("dram", [200, 200, 2]);
        let mut rooms = [Room::default(), Room::default()];
        let numbers: Vec<u64> = (0..200u8)
            .map(|i| heap.add(&mut rooms[usize::from(i % 2)], &record(i)).expect("room"))
            .collect();
        for (i, number) in (0..200u8).zip(&numbers) {
            let field = usize::from(i) % FIELDS;
            heap.write(&mut rooms[0], *number, field, &[i; FIELD_BYTES]).expect("room");
        }
        let mut found = vec![0; RECORD_BYTES];
        for (i, number) in (0..200u8).zip(&numbers) {
            heap.read(*number, &mut found).expect("it is there");
            let mut expected = record(i);
            let field = usize::from(i) % FIELDS;
            expected[field * FIELD_BYTES..(field + 1) * FIELD_BYTES].fill(i);
            assert_eq!(found, expected);
        }
        assert!(heap.add(&mut rooms[0], &[0; 3]).is_err());
    }

    #[test]
    fn a_record_costs_22_lines_and_an_update_3() {
        let heap = heap("counted", [10, 10, 1]);
        let room = &mut Room::default();
        let before = heap.counts().expect("it counts");
        let number = heap.add(room, &record(1)).expect("room");
        let added = heap.counts().expect("it counts") - before;
        heap.write(room, number, 9, &[0; FIELD_BYTES]).expect("room");
        let written = heap.counts().expect("it counts") - before;
        assert_eq!((added.flushes, added.fences, added.stores), (22, 1, 140));
        assert_eq!((written.flushes - 22, written.fences - 1), (3, 2));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let heap = heap("dram", [1, 0, 1]);
        let room = &mut Room::default();
        assert!((0..100).any(|i| heap.add(room, &record(i)).is_err()));
        assert!(make(MediumName::File(Default::default()), [1; 3], Path::new("."), None).is_err());
    }
}
