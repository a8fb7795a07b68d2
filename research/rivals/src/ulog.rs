//! Micro-logs (FPTree): two page numbers that say what a thread was about, so that recovery can finish it.
//!
//! All logs of a tree are in one page, which the tree's anchor names, a line each. A line has two logs, since a thread
//! never splits and unlinks at once:
//!
//! ```text
//! word 0, 1   split    the full leaf | the new one
//! word 2, 3   unlink   the leaf that goes | the leaf to its left
//! word 4-6    notes of a tree whose logs say more, as PACTree's
//! ```
//!
//! Which lines are in use is known in DRAM only.

use std::sync::atomic::{AtomicU64, Ordering};

use everleaf_pmem::{Medium, Page, PageNo, Result};
use everleaf_pool::kind::{self, KIND_WORD};

use crate::parts::persist;

/// Words of a line.
const LINE_WORDS: usize = 8;

/// The first word of the notes, and how many there are.
const NOTES_WORD: usize = 4;
/// How many words a tree may note beside the leaves.
pub const NOTES: usize = 3;
const _: () = assert!(NOTES_WORD + NOTES <= LINE_WORDS);

/// The subject of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum About {
    /// A split.
    Split,
    /// The removal of a leaf from the chain.
    Unlink,
}

impl About {
    /// Both of them.
    pub const ALL: [Self; 2] = [Self::Split, Self::Unlink];

    fn word(self, line: usize) -> usize {
        let first = if self == Self::Split { 0 } else { 2 };
        LINE_WORDS * line + first
    }
}

/// The logs of a tree.
#[derive(Debug)]
pub struct Logs {
    page: PageNo,
    lines: u32,
    /// A bit for each line in use.
    used: AtomicU64,
}

/// A line that one thread has.
pub struct Log<'a, M> {
    m: &'a M,
    page: Page<'a>,
    logs: &'a Logs,
    line: usize,
}

impl Logs {
    /// Makes the page of the logs of a new page that the caller has latched, durably.
    pub fn build<M: Medium>(m: &M, page: Page<'_>) {
        for i in 0..2 * page.slots() {
            m.store(page.body(i), 0);
        }
        m.store(page.head(KIND_WORD), kind::pack(kind::LOG, 0, 0, 0));
        (0..=page.slots() / 4).for_each(|line| m.flush(page, line));
        m.fence();
    }

    /// The logs in a page, none of them in use.
    pub fn open(page: Page<'_>) -> Self {
        Self { page: page.no(), lines: page.slots().div_ceil(4).min(64) as u32, used: 0.into() }
    }

    /// The page of the logs.
    pub fn page(&self) -> PageNo {
        self.page
    }

    /// A line for this thread, if one is free.
    ///
    /// # Errors
    /// Those of [`Medium::page`].
    pub fn acquire<'a, M: Medium>(&'a self, m: &'a M) -> Result<Option<Log<'a, M>>> {
        let page = m.page(self.page)?;
        let mut used = self.used.load(Ordering::Relaxed);
        loop {
            let line = used.trailing_ones();
            if line >= self.lines {
                return Ok(None);
            }
            let order = (Ordering::AcqRel, Ordering::Relaxed);
            match self.used.compare_exchange(used, used | 1 << line, order.0, order.1) {
                Ok(_) => return Ok(Some(Log { m, page, logs: self, line: line as usize })),
                Err(now) => used = now,
            }
        }
    }

    /// The content of each log that has any, after a crash.
    ///
    /// # Errors
    /// Those of [`Medium::page`].
    pub fn said<M: Medium>(&self, m: &M) -> Result<Vec<(usize, About, PageNo, PageNo)>> {
        let page = m.page(self.page)?;
        let mut said = Vec::new();
        for line in 0..self.lines as usize {
            for about in About::ALL {
                let word = |i| page.body(about.word(line) + i).load() as PageNo;
                if (word(0), word(1)) != (0, 0) {
                    said.push((line, about, word(0), word(1)));
                }
            }
        }
        Ok(said)
    }

    /// A line after a crash, in order to clear it.
    ///
    /// # Errors
    /// Those of [`Medium::page`].
    pub fn line<'a, M: Medium>(&'a self, m: &'a M, line: usize) -> Result<Log<'a, M>> {
        Ok(Log { m, page: m.page(self.page)?, logs: self, line })
    }

    /// The words that a line has noted beside the leaves.
    ///
    /// # Errors
    /// Those of [`Medium::page`].
    pub fn notes<M: Medium>(&self, m: &M, line: usize) -> Result<[u64; NOTES]> {
        let page = m.page(self.page)?;
        let first = LINE_WORDS * line + NOTES_WORD;
        Ok(std::array::from_fn(|i| page.body(first + i).load()))
    }
}

impl<M: Medium> Log<'_, M> {
    fn store(&self, about: About, which: usize, no: PageNo) {
        let word = self.page.body(about.word(self.line) + which);
        let _held = self.page.latch().lock();
        self.m.store(word, u64::from(no));
    }

    fn persist(&self) {
        persist(self.m, self.page, 1 + self.line);
    }

    /// Names the leaf that changes; durable when it returns. One line, one fence.
    pub fn begin(&self, about: About, leaf: PageNo) {
        self.store(about, 0, leaf);
        self.persist();
    }

    /// Names both leaves and makes notes; durable when it returns. One line, one fence. The leaves are stored last, so
    /// that a log which names both has its notes.
    pub fn begin_both(&self, about: About, leaves: [PageNo; 2], notes: [u64; NOTES]) {
        {
            let _held = self.page.latch().lock();
            let first = LINE_WORDS * self.line + NOTES_WORD;
            for (i, note) in notes.into_iter().enumerate() {
                self.m.store(self.page.body(first + i), note);
            }
        }
        (0..2).for_each(|which| self.store(about, which, leaves[which]));
        self.persist();
    }

    /// Keeps the line in use, and says which it is, so that another thread can end the log.
    pub fn keep(self) -> usize {
        let line = self.line;
        std::mem::forget(self);
        line
    }

    /// Names the other leaf; durable when it returns. One line, one fence.
    pub fn name(&self, about: About, other: PageNo) {
        self.store(about, 1, other);
        self.persist();
    }

    /// Names the other leaf and flushes nothing: a bug of a source.
    pub fn name_unflushed(&self, about: About, other: PageNo) {
        self.store(about, 1, other);
    }

    /// Clears the log; durable when it returns. One line, one fence.
    pub fn end(&self, about: About) {
        (0..2).for_each(|which| self.store(about, which, 0));
        self.persist();
    }

    /// Clears the log as a source does, with a flush and a fence for each of its words.
    pub fn end_twice(&self, about: About) {
        (0..2).for_each(|which| self.store(about, which, 0));
        self.persist();
        self.persist();
    }
}

impl<M> Drop for Log<'_, M> {
    fn drop(&mut self) {
        self.logs.used.fetch_and(!(1 << self.line), Ordering::AcqRel);
    }
}
