//! What the journal holds for each page after an open, applied when the page is fetched.
//!
//! The journal's bytes stay as they were read. Over them lies an index made by a counting sort: for
//! each page that occurs, in a row, the places of its changes. Nothing is allocated per change or
//! per page.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use everleaf_pmem::door::put;
use everleaf_pmem::error::{Error, Result};
use everleaf_pmem::fallible;
use everleaf_pmem::medium::{Change, Redo};
use everleaf_pmem::page::{Page, PageNo, SEQ_WORD};
use everleaf_pmem::rules::Redoing;

use crate::format::u32_at;
use crate::journal::{HEADER_BYTES, JournalScan, RECORD_HEAD};

/// The blocks of one journal file.
#[derive(Debug)]
pub(crate) struct ScannedJournal {
    pub name: &'static str,
    pub scan: JournalScan,
}

#[derive(Debug)]
pub(crate) struct Replay {
    parts: Vec<ScannedJournal>,
    ids: Ids,
    pages: Vec<PageNo>,
    /// The entries of page `i` are `starts[i] .. starts[i + 1]`.
    starts: Vec<usize>,
    /// Part in the top bit, byte in [`JournalScan::bytes`] below.
    entries: Vec<u64>,
    done: Vec<AtomicBool>,
    left: AtomicUsize,
    cursor: AtomicUsize,
}

const PART_SHIFT: u32 = 63;
/// What memory is asked for.
const INDEX: &str = "the index of a journal";

/// Why a walk over records ended early.
enum Bad {
    /// A record is malformed, or names a page outside the pool.
    Record(usize, String),
    Failed(Error),
}

/// Calls `f` with page and byte of each record.
fn walk(
    scan: &JournalScan,
    mut f: impl FnMut(PageNo, usize) -> std::result::Result<(), Bad>,
) -> std::result::Result<(), Bad> {
    let malformed = |at| Err(Bad::Record(at, "malformed record".into()));
    for block in &scan.blocks {
        let (mut at, end) = (block.start, block.start + block.len);
        while at < end {
            if end - at < RECORD_HEAD {
                return malformed(at);
            }
            let head = &scan.bytes[at..at + RECORD_HEAD];
            let next = at + RECORD_HEAD + usize::from(u16::from_le_bytes([head[1], head[2]]));
            if head[0] == 0 || next > end {
                return malformed(at);
            }
            f(u32_at(head, 3), at)?;
            at = next;
        }
    }
    Ok(())
}

/// The array has a place for one of the file's pages for each so many bytes of the journal, so that
/// it never needs more memory than the journal has.
const OLD_PAGE_BYTES: u64 = 8;
/// And one for a new page, whose number is behind the file's, for each so many.
const NEW_PAGE_BYTES: u64 = 64;

/// Page number → index of the page in [`Replay::pages`], plus 1; 0 = the journal has nothing for it.
///
/// An array for as many pages as the journal's size speaks for. A number behind it, as the first one
/// behind an extent group has, or one of a damaged journal, must not make the array as long as it
/// says: it goes to a map.
#[derive(Debug)]
struct Ids {
    near: Vec<u32>,
    far: HashMap<PageNo, u32>,
}

impl Ids {
    fn new(parts: &[ScannedJournal], pages_end: u64, limit: PageNo) -> Result<Self> {
        let bytes: u64 = parts.iter().map(|part| part.scan.bytes.len() as u64).sum();
        let near = pages_end.min(bytes / OLD_PAGE_BYTES) + bytes / NEW_PAGE_BYTES;
        let near = near.min(u64::from(limit)) as usize;
        Ok(Self { near: fallible::filled(0, near, INDEX)?, far: HashMap::new() })
    }
    fn of(&self, no: PageNo) -> Option<usize> {
        let id = self.near.get(no as usize).or_else(|| self.far.get(&no))?;
        id.checked_sub(1).map(|index| index as usize)
    }
    fn entry(&mut self, no: PageNo) -> Result<&mut u32> {
        if let Some(id) = self.near.get_mut(no as usize) {
            return Ok(id);
        }
        let refused = |_| Error::NoMemory { what: INDEX, bytes: size_of::<(PageNo, u32)>() };
        self.far.try_reserve(1).map_err(refused)?;
        Ok(self.far.entry(no).or_default())
    }
}

impl Replay {
    /// The page behind the last one that occurs.
    pub(crate) fn end(&self) -> PageNo {
        self.pages.iter().max().map_or(0, |no| no + 1)
    }

    /// Indexes the changes in `parts`, in order of generation. The data file has `pages_end` pages.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for a record that is malformed or names a page at or behind `limit`.
    pub(crate) fn new(parts: Vec<ScannedJournal>, pages_end: u64, limit: PageNo) -> Result<Self> {
        debug_assert!(parts.len() <= 2, "an entry has a bit for the part");
        let mut ids = Ids::new(&parts, pages_end, limit)?;
        let (mut pages, mut counts) = (Vec::new(), Vec::<usize>::new());
        for part in &parts {
            let walked = walk(&part.scan, |no, at| {
                if no >= limit {
                    return Err(Bad::Record(at, format!("page {no} of a pool of {limit}")));
                }
                let id = ids.entry(no).map_err(Bad::Failed)?;
                if *id == 0 {
                    fallible::push(&mut pages, no, INDEX).map_err(Bad::Failed)?;
                    fallible::push(&mut counts, 0, INDEX).map_err(Bad::Failed)?;
                    *id = pages.len() as u32;
                }
                counts[*id as usize - 1] += 1;
                Ok(())
            });
            walked.map_err(|bad| match bad {
                Bad::Failed(error) => error,
                Bad::Record(at, what) => {
                    Error::Corrupt { file: part.name, offset: HEADER_BYTES + at as u64, what }
                }
            })?;
        }
        let mut starts = fallible::list(counts.len() + 1, INDEX)?;
        let mut sum = 0;
        for count in &mut counts {
            starts.push(sum);
            sum += std::mem::replace(count, sum);
        }
        starts.push(sum);
        let mut entries = fallible::filled(0_u64, sum, INDEX)?;
        for (i, part) in parts.iter().enumerate() {
            let _ = walk(&part.scan, |no, at| {
                if let Some(next) = ids.of(no).and_then(|id| counts.get_mut(id)) {
                    entries[*next] = (i as u64) << PART_SHIFT | at as u64;
                    *next += 1;
                }
                Ok(())
            });
        }
        debug_assert!(starts.len() == pages.len() + 1 && starts.is_sorted());
        debug_assert!(counts.iter().eq(&starts[1..]), "each page has its entries, and no more");
        let mut done = fallible::list(pages.len(), INDEX)?;
        done.resize_with(pages.len(), || AtomicBool::new(false));
        let (left, cursor) = (AtomicUsize::new(pages.len()), AtomicUsize::new(0));
        Ok(Self { parts, ids, pages, starts, entries, done, left, cursor })
    }

    /// A page whose changes have not been applied.
    pub(crate) fn pending(&self) -> Option<PageNo> {
        let mut i = self.cursor.load(Ordering::Relaxed);
        while i < self.pages.len() && self.done[i].load(Ordering::Acquire) {
            i += 1;
        }
        self.cursor.fetch_max(i, Ordering::Relaxed);
        self.pages.get(i).copied()
    }

    /// Pages whose changes have not been applied.
    pub(crate) fn left(&self) -> usize {
        self.left.load(Ordering::Acquire)
    }

    fn record(&self, entry: u64) -> (&ScannedJournal, usize, &[u8]) {
        let part = &self.parts[(entry >> PART_SHIFT) as usize];
        let at = (entry & !(1 << PART_SHIFT)) as usize;
        (part, at, &part.scan.bytes[at..])
    }

    fn seq(&self, entry: u64) -> u32 {
        u32_at(self.record(entry).2, 7)
    }

    /// The number of the first change that the journal has for a page, if it has any. O(changes).
    pub(crate) fn first_seq(&self, no: PageNo) -> Option<u32> {
        let id = self.ids.of(no)?;
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
    pub(crate) fn apply(&self, page: Page<'_>, redo: &mut Redo<'_>) -> Result<bool> {
        let Some(id) = self.ids.of(page.no()) else { return Ok(false) };
        debug_assert!(page.latch().is_held_here(), "changes of a page that is not latched");
        debug_assert!(self.pages[id] == page.no());
        let entries = &self.entries[self.starts[id]..self.starts[id + 1]];
        let mut entries = fallible::copy(entries, "the changes of a page")?;
        let word = page.head(SEQ_WORD);
        let base = word.load() as u32;
        entries.sort_unstable_by_key(|&e| self.seq(e).wrapping_sub(base) as i32);
        if let Some(&last) = entries.last()
            && (self.seq(last).wrapping_sub(base) as i32) < 0
        {
            // What is home is also in the journal, until a checkpoint is over.
            let (part, at, _) = self.record(last);
            let what = format!("page {} has seen change {base}, this is the last", page.no());
            let offset = HEADER_BYTES + at as u64;
            return Err(Error::Corrupt { file: part.name, offset, what });
        }
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
            let redoing = Redoing::begin();
            redo(page, Change { tag: record[0], bytes })?;
            drop(redoing);
            put(word, now.wrapping_add(1));
        }
        debug_assert!(
            (word.peek() as u32).wrapping_sub(base) as i32 >= 0,
            "a page that is older than its home"
        );
        Ok(true)
    }

    /// Remembers that the page is in memory with all its changes; says whether all pages are.
    pub(crate) fn finish(&self, no: PageNo) -> bool {
        let Some(id) = self.ids.of(no) else { return false };
        if self.done[id].swap(true, Ordering::AcqRel) {
            return false;
        }
        debug_assert!(self.left.load(Ordering::Relaxed) > 0, "more pages than there were");
        self.left.fetch_sub(1, Ordering::AcqRel) == 1
    }
}
