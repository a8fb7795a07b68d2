//! The changes that the journal holds for each page after an open, applied when the page is fetched.
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

use crate::journal::{JournalScan, RECORD_HEAD, TAG_OWN};
use crate::store::format::u32_at;

#[derive(Debug)]
pub(crate) struct Replay {
    scan: JournalScan,
    ids: Ids,
    pages: Vec<PageNo>,
    /// The entries of page `i` are `starts[i] .. starts[i + 1]`.
    starts: Vec<usize>,
    /// Bytes in [`JournalScan::bytes`].
    entries: Vec<usize>,
    done: Vec<AtomicBool>,
    left: AtomicUsize,
    cursor: AtomicUsize,
}

/// Names this memory in errors.
const INDEX: &str = "the index of a journal";

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
    fn new(scan: &JournalScan, pages_end: u64, limit: PageNo) -> Result<Self> {
        let bytes = scan.bytes.len() as u64;
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
        fallible::more_keys(&mut self.far, 1, INDEX)?;
        Ok(self.far.entry(no).or_default())
    }
}

impl Replay {
    /// The page behind the last one that occurs.
    pub(crate) fn end(&self) -> PageNo {
        self.pages.iter().max().map_or(0, |no| no + 1)
    }

    /// Indexes the changes of pages in a journal. The table knows of `pages_end` pages, and the file can have
    /// those before `possible_end`.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for a record that is malformed, or names a page at or behind `limit` or that end.
    pub(crate) fn new(
        scan: JournalScan,
        pages_end: u64,
        possible_end: u64,
        limit: PageNo,
    ) -> Result<Self> {
        let mut ids = Ids::new(&scan, pages_end, limit)?;
        let (mut pages, mut counts) = (Vec::new(), Vec::<usize>::new());
        scan.walk(|record| {
            if record.tag >= TAG_OWN {
                return Ok(());
            }
            let no = record.page;
            if no >= limit {
                let what = format!("page {no} of a pool of {limit}");
                return Err(Error::corrupt(scan.place_of(record.at), what));
            }
            if u64::from(no) >= possible_end {
                let what = format!("a change of page {no}, which such a file cannot have");
                return Err(Error::corrupt(scan.place_of(record.at), what));
            }
            let id = ids.entry(no)?;
            if *id == 0 {
                fallible::push(&mut pages, no, INDEX)?;
                fallible::push(&mut counts, 0, INDEX)?;
                *id = pages.len() as u32;
            }
            counts[*id as usize - 1] += 1;
            Ok(())
        })?;
        let mut starts = fallible::list(counts.len() + 1, INDEX)?;
        let mut sum = 0;
        for count in &mut counts {
            starts.push(sum);
            sum += std::mem::replace(count, sum);
        }
        starts.push(sum);
        let mut entries = fallible::filled(0_usize, sum, INDEX)?;
        scan.walk(|record| {
            if record.tag < TAG_OWN
                && let Some(next) = ids.of(record.page).and_then(|id| counts.get_mut(id))
            {
                entries[*next] = record.at;
                *next += 1;
            }
            Ok(())
        })?;
        debug_assert!(starts.len() == pages.len() + 1 && starts.is_sorted());
        debug_assert!(counts.iter().eq(&starts[1..]), "each page has its entries, and no more");
        let mut done = fallible::list(pages.len(), INDEX)?;
        done.resize_with(pages.len(), || AtomicBool::new(false));
        let (left, cursor) = (AtomicUsize::new(pages.len()), AtomicUsize::new(0));
        Ok(Self { scan, ids, pages, starts, entries, done, left, cursor })
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

    fn record(&self, entry: usize) -> &[u8] {
        &self.scan.bytes[entry..]
    }

    fn seq(&self, entry: usize) -> u32 {
        u32_at(self.record(entry), 7)
    }

    /// Whether the journal has anything for a page, be it applied or not.
    pub(crate) fn knows(&self, no: PageNo) -> bool {
        self.ids.of(no).is_some()
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
            // Changes that are home are also in the journal, until a checkpoint is over.
            let what = format!("page {} has seen change {base}, this is the last", page.no());
            return Err(Error::corrupt(self.scan.place_of(last), what));
        }
        for entry in entries {
            let record = self.record(entry);
            let (seq, now) = (u32_at(record, 7), word.load());
            if seq.wrapping_sub(base) as i32 <= 0 {
                continue;
            }
            if seq != (now as u32).wrapping_add(1) {
                let what = format!("page {} has seen change {now}, here is {seq}", page.no());
                return Err(Error::corrupt(self.scan.place_of(entry), what));
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
