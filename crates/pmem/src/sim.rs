//! Simulated persistent memory: records what passes the door, so that every legal crash image can
//! be built from the record (the `everleaf-check` crate does that).
//!
//! The medium itself behaves like plain memory; the record says which stores a power cut may lose.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::dram::outside;
use crate::error::Result;
use crate::medium::{Change, Medium, Redo};
use crate::page::{Geometry, LINE_BYTES, Page, PageNo, Word};
use crate::region::Region;

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
    events: Mutex<Vec<Event>>,
}

/// A small number for each thread, in order of first use.
fn thread_number() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    thread_local!(static MINE: u32 = NEXT.fetch_add(1, Ordering::Relaxed));
    MINE.with(|n| *n)
}

impl Sim {
    /// An empty medium (all zero) of `limit` pages with an empty record.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io) if memory cannot be reserved.
    pub fn new(geometry: Geometry, limit: PageNo) -> Result<Self> {
        Ok(Self { region: Region::new(geometry, limit)?, events: Mutex::default() })
    }

    /// A medium that starts from an image of all its words, as after a reboot: frames are fresh,
    /// the record is empty. Missing words are zero.
    ///
    /// # Errors
    /// As [`Sim::new`].
    pub fn from_image(geometry: Geometry, limit: PageNo, image: &[u64]) -> Result<Self> {
        let sim = Self::new(geometry, limit)?;
        sim.load_image(image);
        Ok(sim)
    }

    fn load_image(&self, image: &[u64]) {
        let per_page = self.geometry().page_words();
        for (no, words) in image.chunks(per_page).enumerate().take(self.limit() as usize) {
            let page = self.region.page(no as PageNo).expect("below the limit");
            for (i, &value) in words.iter().enumerate().filter(|(_, v)| **v != 0) {
                page.word(i).put(value);
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
        self.push(Event::Mark { thread: thread_number(), mark });
    }

    /// The record so far, leaving an empty one.
    pub fn take_events(&self) -> Vec<Event> {
        std::mem::take(&mut self.events.lock().expect("no panic while recording"))
    }

    fn push(&self, event: Event) {
        self.events.lock().expect("no panic while recording").push(event);
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
        self.region
            .page(no)
            .ok_or_else(|| outside(no, self.limit(), self.geometry(), "memory"))
    }
    fn fetch(&self, _: Page<'_>, _: &mut Redo<'_>) -> Result<()> {
        Ok(())
    }
    fn store(&self, word: Word<'_>, value: u64) {
        let per_page = self.geometry().page_words();
        let at = word.page() as usize * per_page + word.index();
        // The lock covers the store, so that the record's order is the memory's order.
        let mut events = self.events.lock().expect("no panic while recording");
        word.put(value);
        events.push(Event::Store { word: at as u32, value });
    }
    fn flush(&self, page: Page<'_>, line: usize) {
        let per_page = self.geometry().page_bytes() / LINE_BYTES;
        let line = (page.no() as usize * per_page + line) as u32;
        self.push(Event::Flush { line, thread: thread_number() });
    }
    fn fence(&self) {
        self.push(Event::Fence { thread: thread_number() });
    }
    fn enter(&self) -> Result<()> {
        Ok(())
    }
    fn note(&self, (): &mut (), _: Page<'_>, _: Change<'_>) {}
    fn epoch(&self, (): &()) -> u64 {
        0
    }
}
