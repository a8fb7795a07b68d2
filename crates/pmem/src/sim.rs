//! Simulated persistent memory: records what passes the door, so that every legal crash image can
//! be built from the record (the `everleaf-crash-check` crate does that).
//!
//! The medium itself behaves like plain memory; the record says which stores a power cut may lose.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::dram::outside;
use crate::error::{Error, Result};
use crate::fallible;
use crate::locks::Mutex;
use crate::medium::{Change, Medium, Redo};
use crate::page::{Geometry, LINE_BYTES, Page, PageNo, Word};
use crate::region::Region;
use crate::sync::schedule::before_write;
use crate::sync::thread_number;

/// One thing that passed the door. Lines and words are numbered over the whole medium:
/// word = byte offset / 8, line = byte offset / 64.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// An 8-byte store became visible.
    Store {
        /// Word of the medium.
        word: u32,
        /// The value stored.
        value: u64,
    },
    /// A line's write-back was started by a thread (clwb).
    Flush {
        /// Line of the medium.
        line: u32,
        /// The thread that asked.
        thread: u32,
    },
    /// A thread's flushes are complete (sfence).
    Fence {
        /// The thread that fenced.
        thread: u32,
    },
    /// An operation mark, placed by [`Sim::mark`]: the meaning is the caller's.
    Mark {
        /// The thread that placed it.
        thread: u32,
        /// The caller's number.
        mark: u64,
    },
}

/// Simulated persistent memory of a few pages. For tests: each store takes a lock.
#[derive(Debug)]
pub struct Sim {
    region: Region,
    record: Mutex<SimRecord>,
    /// The words that [`Sim::rewind`] goes back to.
    start: Vec<u64>,
    /// Pages handed out since then: their frames may have been written.
    touched: Box<[AtomicBool]>,
}

#[derive(Debug, Default)]
struct SimRecord {
    events: Vec<Event>,
    /// Words stored to since the last rewind, with repetitions.
    stored: Vec<u32>,
}

impl Sim {
    /// An empty medium (all zero) of `limit` pages with an empty record.
    ///
    /// # Errors
    /// [`Error::Invalid`] for more words than the record has numbers for, which are 32 GiB of pages;
    /// [`Error::Io`] or [`Error::NoMemory`] if there is no memory.
    pub fn new(geometry: Geometry, limit: PageNo) -> Result<Self> {
        let words = u64::from(limit) * geometry.page_words() as u64;
        let Ok(words) = u32::try_from(words) else {
            let what =
                format!("{limit} pages of {} words are more than 2^32", geometry.page_words());
            return Err(Error::Invalid { what });
        };
        Ok(Self {
            region: Region::new(geometry, limit)?,
            record: Mutex::default(),
            start: fallible::filled(0, words as usize, "the start of a record")?,
            touched: (0..limit).map(|_| AtomicBool::new(false)).collect(),
        })
    }

    /// A medium that starts from an image of all its words, as after a reboot: frames are fresh,
    /// the record is empty. Missing words are zero.
    ///
    /// # Errors
    /// As [`Sim::new`].
    pub fn from_image(geometry: Geometry, limit: PageNo, image: &[u64]) -> Result<Self> {
        let mut sim = Self::new(geometry, limit)?;
        sim.reset(image);
        Ok(sim)
    }

    /// Starts again from an image, as [`Sim::from_image`] does, in the same memory. Exclusive
    /// access shows that no page handle or latch of the past is in use.
    pub fn reset(&mut self, image: &[u64]) {
        let per_page = self.geometry().page_words();
        let mut changes = Vec::new();
        for (at, old) in (0..).step_by(per_page).zip(self.start.chunks(per_page)) {
            let new = image.get(at.min(image.len())..).unwrap_or_default();
            let new = &new[..new.len().min(per_page)];
            if old != new {
                let new = new.iter().copied().chain(std::iter::repeat(0));
                let pairs = (at as u32..).zip(old.iter().zip(new));
                changes.extend(pairs.filter(|(_, (o, n))| *o != n).map(|(w, (_, n))| (w, n)));
            }
        }
        self.rewind(changes);
    }

    /// Goes back to the image of the last reset or rewind, with these words (numbered over the
    /// whole medium) changed in it: frames are fresh, the record is empty. Costs what has been
    /// stored since and what changes, not what the medium holds.
    ///
    /// # Panics
    /// If a word is outside the medium.
    pub fn rewind(&mut self, changes: impl IntoIterator<Item = (u32, u64)>) {
        let record = self.record.get_mut().expect("no panic while recording");
        record.events.clear();
        let per_page = self.region.geometry().page_words();
        let put = |word: u32, value| {
            let (no, index) = (word as usize / per_page, word as usize % per_page);
            let page = self.region.page(no as PageNo).expect("below the limit");
            page.word(index).put(value);
        };
        for word in record.stored.drain(..) {
            put(word, self.start[word as usize]);
        }
        for (word, value) in changes {
            self.start[word as usize] = value;
            put(word, value);
        }
        for (no, touched) in self.touched.iter_mut().enumerate() {
            if std::mem::take(touched.get_mut()) {
                self.region.page(no as PageNo).expect("below the limit").clear_frame();
            }
        }
    }

    /// All words as they are visible now.
    pub fn image(&self) -> Vec<u64> {
        let per_page = self.geometry().page_words();
        (0..self.limit())
            .flat_map(|no| {
                let page = self.region.page(no).expect("below the limit");
                (0..per_page).map(move |i| page.word(i).load())
            })
            .collect()
    }

    /// Adds a mark to the record.
    pub fn mark(&self, mark: u64) {
        self.push(Event::Mark { thread: thread_number() as u32, mark });
    }

    /// The record so far, leaving an empty one.
    pub fn take_events(&self) -> Vec<Event> {
        std::mem::take(&mut self.record.lock().expect("no panic while recording").events)
    }

    fn push(&self, event: Event) {
        self.record.lock().expect("no panic while recording").events.push(event);
    }
}

impl Medium for Sim {
    type Op<'m> = ();
    const JOURNALED: bool = false;

    fn geometry(&self) -> Geometry {
        self.region.geometry()
    }
    fn limit(&self) -> PageNo {
        self.region.limit()
    }
    fn page(&self, no: PageNo) -> Result<Page<'_>> {
        let page = self
            .region
            .page(no)
            .ok_or_else(|| outside(no, self.limit(), self.geometry(), "memory"))?;
        self.touched[no as usize].store(true, Ordering::Relaxed);
        Ok(page)
    }
    fn fetch(&self, _: Page<'_>, _: &mut Redo<'_>) -> Result<()> {
        Ok(())
    }
    fn store(&self, word: Word<'_>, value: u64) {
        let per_page = self.geometry().page_words();
        let at = word.page() as usize * per_page + word.index();
        before_write();
        // The lock covers the store, so that the record's order is the memory's order.
        let mut record = self.record.lock().expect("no panic while recording");
        word.put(value);
        record.events.push(Event::Store { word: at as u32, value });
        record.stored.push(at as u32);
    }
    fn flush(&self, page: Page<'_>, line: usize) {
        let per_page = self.geometry().page_bytes() / LINE_BYTES;
        debug_assert!(line < per_page, "line {line} is outside the page");
        let line = (page.no() as usize * per_page + line) as u32;
        before_write();
        self.push(Event::Flush { line, thread: thread_number() as u32 });
    }
    fn fence(&self) {
        before_write();
        self.push(Event::Fence { thread: thread_number() as u32 });
    }
    fn enter(&self) -> Result<()> {
        Ok(())
    }
    fn note(&self, (): &mut (), _: Page<'_>, _: Change<'_>) {}
    fn epoch(&self, (): &()) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_words_than_have_numbers_are_refused() {
        let geometry = Geometry::whole(32 << 10).expect("a power of two");
        for limit in [1 << 20, (1 << 20) + 1, PageNo::MAX] {
            assert!(matches!(Sim::new(geometry, limit), Err(Error::Invalid { .. })), "{limit}");
        }
    }

    #[test]
    fn a_rewind_leaves_no_trace_of_what_ran() {
        let geometry = Geometry::new(4).expect("a power of two");
        let mut sim = Sim::from_image(geometry, 2, &[1, 2, 3]).expect("memory");
        let first = sim.image();
        let page = sim.page(1).expect("inside");
        page.latch().lock().set_ready();
        page.set_aid(3, 9);
        page.mark(5).store(7, Ordering::Relaxed);
        sim.store(page.body(2), 8);
        sim.take_events();
        sim.store(page.body(2), 9);
        sim.rewind([]);
        let page = sim.page(1).expect("inside");
        assert_eq!(page.latch().read_version(), crate::Seen::Absent);
        assert_eq!((page.aid(3), page.mark(5).load(Ordering::Relaxed)), (0, 0));
        assert_eq!((sim.image(), sim.take_events()), (first, vec![]));
        sim.rewind([(1, 5)]);
        assert_eq!(sim.image()[..4], [1, 5, 3, 0]);
        sim.reset(&[4]);
        assert_eq!(sim.image()[..4], [4, 0, 0, 0]);
    }
}
