//! What the journal holds for each page after an open, applied when the page is fetched.
//!
//! The journal's bytes stay as they were read. Over them lies an index made by a counting sort: for
//! each page that occurs, in a row, the places of its changes. Nothing is allocated per change or
//! per page.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::error::{Error, Result};
use crate::medium::{Change, Redo};
use crate::page::{Page, PageNo, SEQ_WORD};

use super::journal::{HEADER_BYTES, RECORD_HEAD, Scan};
use super::layout::u32_at;

/// The blocks of one journal file.
#[derive(Debug)]
pub(super) struct Part {
    pub name: &'static str,
    pub scan: Scan,
}

#[derive(Debug)]
pub(super) struct Replay {
    parts: Vec<Part>,
    /// Page number → index of the page in `pages`, plus 1; 0 = the journal has nothing for it.
    ids: Vec<u32>,
    pages: Vec<PageNo>,
    /// The entries of page `i` are `starts[i] .. starts[i + 1]`.
    starts: Vec<usize>,
    /// Part in the top bit, byte in [`Scan::bytes`] below.
    entries: Vec<u64>,
    done: Vec<AtomicBool>,
    left: AtomicUsize,
    cursor: AtomicUsize,
}

const PART_SHIFT: u32 = 63;

/// Calls `f` with page and byte of each record; says where a malformed one is.
fn walk(scan: &Scan, mut f: impl FnMut(PageNo, usize)) -> std::result::Result<(), usize> {
    for block in &scan.blocks {
        let (mut at, end) = (block.start, block.start + block.len);
        while at < end {
            if end - at < RECORD_HEAD {
                return Err(at);
            }
            let head = &scan.bytes[at..at + RECORD_HEAD];
            let next = at + RECORD_HEAD + usize::from(u16::from_le_bytes([head[1], head[2]]));
            if head[0] == 0 || next > end {
                return Err(at);
            }
            f(u32_at(head, 3), at);
            at = next;
        }
    }
    Ok(())
}

/// Makes room for page `no`, in memory that the system backs only where it is used.
#[cold]
fn grow(ids: &mut Vec<u32>, no: PageNo, limit: PageNo) {
    let room = (no as usize + 1).next_power_of_two().min(limit as usize);
    let mut larger = vec![0; room];
    larger[..ids.len()].copy_from_slice(ids);
    *ids = larger;
}

impl Replay {
    /// Indexes the changes in `parts`, in order of generation.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for a record that is malformed or names a page at or behind `limit`.
    pub(super) fn new(parts: Vec<Part>, limit: PageNo) -> Result<Self> {
        let mut ids = Vec::new();
        let (mut pages, mut counts) = (Vec::new(), Vec::<usize>::new());
        for part in &parts {
            let mut outside = None;
            let malformed = walk(&part.scan, |no, at| {
                if no >= limit {
                    outside.get_or_insert((no, at));
                    return;
                }
                if no as usize >= ids.len() {
                    grow(&mut ids, no, limit);
                }
                let id = &mut ids[no as usize];
                if *id == 0 {
                    pages.push(no);
                    counts.push(0);
                    *id = pages.len() as u32;
                }
                counts[*id as usize - 1] += 1;
            });
            let bad = match (malformed, outside) {
                (Err(at), _) => Some((at, "malformed record".into())),
                (Ok(()), Some((no, at))) => Some((at, format!("page {no} of a pool of {limit}"))),
                (Ok(()), None) => None,
            };
            if let Some((at, what)) = bad {
                let offset = HEADER_BYTES + at as u64;
                return Err(Error::Corrupt { file: part.name, offset, what });
            }
        }
        let mut starts = Vec::with_capacity(counts.len() + 1);
        let mut sum = 0;
        for count in &mut counts {
            starts.push(sum);
            sum += std::mem::replace(count, sum);
        }
        starts.push(sum);
        let mut entries = vec![0_u64; sum];
        for (i, part) in parts.iter().enumerate() {
            let _ = walk(&part.scan, |no, at| {
                let next = &mut counts[ids[no as usize] as usize - 1];
                entries[*next] = (i as u64) << PART_SHIFT | at as u64;
                *next += 1;
            });
        }
        let done = pages.iter().map(|_| AtomicBool::new(false)).collect();
        let (left, cursor) = (AtomicUsize::new(pages.len()), AtomicUsize::new(0));
        Ok(Self { parts, ids, pages, starts, entries, done, left, cursor })
    }

    /// A page whose changes have not been applied.
    pub(super) fn pending(&self) -> Option<PageNo> {
        let mut i = self.cursor.load(Ordering::Relaxed);
        while i < self.pages.len() && self.done[i].load(Ordering::Acquire) {
            i += 1;
        }
        self.cursor.fetch_max(i, Ordering::Relaxed);
        self.pages.get(i).copied()
    }

    /// Pages whose changes have not been applied.
    pub(super) fn left(&self) -> usize {
        self.left.load(Ordering::Acquire)
    }

    fn record(&self, entry: u64) -> (&Part, usize, &[u8]) {
        let part = &self.parts[(entry >> PART_SHIFT) as usize];
        let at = (entry & !(1 << PART_SHIFT)) as usize;
        (part, at, &part.scan.bytes[at..])
    }

    fn seq(&self, entry: u64) -> u32 {
        u32_at(self.record(entry).2, 7)
    }

    /// The number of the first change that the journal has for a page, if it has any. O(changes).
    pub(super) fn first_seq(&self, no: PageNo) -> Option<u32> {
        let id = *self.ids.get(no as usize).filter(|id| **id != 0)? as usize - 1;
        let entries = &self.entries[self.starts[id]..self.starts[id + 1]];
        entries.iter().map(|&entry| self.seq(entry)).min()
    }

    /// Applies what the journal has for `page` to its home image, which the caller has put into
    /// memory. Says whether the journal has anything: then the home may be behind even if the image
    /// read from it is not, because a sync failed, and the page must be written again.
    ///
    /// Steps of one epoch come from several slots in any order, so the changes are put in order of
    /// their sequence numbers first. A change applies if its number is the page's next; lower ones
    /// are in the image already.
    pub(super) fn apply(&self, page: Page<'_>, redo: &mut Redo<'_>) -> Result<bool> {
        let Some(id) = self.ids.get(page.no() as usize).filter(|id| **id != 0) else {
            return Ok(false);
        };
        let id = *id as usize - 1;
        let mut entries = self.entries[self.starts[id]..self.starts[id + 1]].to_vec();
        let word = page.head(SEQ_WORD);
        let base = word.load() as u32;
        entries.sort_by_key(|&e| self.seq(e).wrapping_sub(base) as i32);
        for entry in entries {
            let (part, at, record) = self.record(entry);
            let (seq, now) = (u32_at(record, 7), word.load());
            if seq.wrapping_sub(base) as i32 <= 0 {
                continue;
            }
            if seq != (now as u32).wrapping_add(1) {
                return Err(Error::Corrupt {
                    file: part.name,
                    offset: HEADER_BYTES + at as u64,
                    what: format!("page {} has seen change {now}, here is {seq}", page.no()),
                });
            }
            let n = usize::from(u16::from_le_bytes([record[1], record[2]]));
            let bytes = &record[RECORD_HEAD..RECORD_HEAD + n];
            redo(page, Change { tag: record[0], bytes })?;
            word.put(now.wrapping_add(1));
        }
        Ok(true)
    }

    /// Remembers that the page is in memory with all its changes; says whether all pages are.
    pub(super) fn finish(&self, no: PageNo) -> bool {
        let Some(id) = self.ids.get(no as usize).filter(|id| **id != 0) else { return false };
        if self.done[*id as usize - 1].swap(true, Ordering::AcqRel) {
            return false;
        }
        self.left.fetch_sub(1, Ordering::AcqRel) == 1
    }
}
