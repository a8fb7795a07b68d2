//! Small cells of a fixed number of words, in pages of a pool.
//!
//! ```text
//! page of cells   | header line, not used | cell 0 | cell 1 | …       each of 2 words (16 B) or 4 words (32 B)
//! ```
//!
//! A cell says nowhere whether it is in use: it is if the structure leads to it. Which cells are free is known in
//! DRAM alone, and found again at open by a walk of what is reachable ([`Cells::recover`]). So taking a cell and
//! giving it back stores nothing and flushes nothing, but for the pool's map when there is a page more: one line and
//! one fence for so many cells, and those are the allocator's. A page whose cells are all free stays a page of
//! cells until the next open, which returns it to the pool.
//!
//! A crash can leave a page that the map calls a node and that nothing leads to. The next open returns it.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use everleaf_pmem::{Error, Geometry, Medium, Page, PageNo, Result, Word, fallible};
use everleaf_pool::{Leaks, Pool, damaged, kind, retry};

/// Words of a line.
const LINE_WORDS: usize = 8;
/// Names this memory in errors.
const FREE_CELLS: &str = "the list of free cells";

/// A cell: its page, and its number there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cell {
    /// The page of cells.
    pub page: PageNo,
    /// Which cell of the page, from 0 on.
    pub at: u16,
}

/// The cells of one structure.
pub struct Cells<M: Medium> {
    pool: Arc<Pool<M>>,
    words: usize,
    /// Free cells; the last one is given out next.
    free: Mutex<Vec<Cell>>,
}

impl<M: Medium> Cells<M> {
    /// Cells of `words` words in pages of a pool that has none yet. A line has whole cells.
    ///
    /// # Panics
    /// If `words` is not 1, 2, 4 or 8.
    pub fn new(pool: Arc<Pool<M>>, words: usize) -> Self {
        assert!(LINE_WORDS.is_multiple_of(words), "a cell of {words} words would straddle lines");
        Self { pool, words, free: Mutex::default() }
    }

    /// How many cells a page has.
    pub fn per_page(&self) -> usize {
        per_page(self.pool.geometry(), self.words)
    }

    /// How many cells are free without another page. O(1).
    pub fn free(&self) -> usize {
        self.list().len()
    }

    fn list(&self) -> MutexGuard<'_, Vec<Cell>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a free cell; it holds stale words. If there is none, the pool gives a page: one line of its map and one
    /// fence, durable when this returns.
    ///
    /// # Errors
    /// Full, NoMemory, errors of the medium.
    pub fn take(&self) -> Result<Cell> {
        let mut free = self.list();
        if let Some(cell) = free.pop() {
            return Ok(cell);
        }
        let per_page = self.per_page();
        fallible::more(&mut free, per_page, FREE_CELLS)?;
        let page = new_page(&self.pool)?;
        free.extend((1..per_page).rev().map(|at| Cell { page, at: at as u16 }));
        Ok(Cell { page, at: 0 })
    }

    /// Gives a cell back that nothing leads to any more: durably, and no reader is on its way to it.
    pub fn put_back(&self, cell: Cell) {
        // Without memory for the list the cell is lost until the next open.
        let _ = fallible::push(&mut self.list(), cell, FREE_CELLS);
    }

    /// The page of a cell.
    ///
    /// # Errors
    /// Corrupt for a page outside of the pool.
    #[inline(always)]
    pub fn page(&self, cell: Cell) -> Result<Page<'_>> {
        self.pool.page(cell.page)
    }

    /// Word `i` of a cell that is in `page`.
    #[inline(always)]
    pub fn word<'m>(&self, page: Page<'m>, cell: Cell, i: usize) -> Word<'m> {
        debug_assert!(page.no() == cell.page && i < self.words, "a word of the cell");
        page.body_word(usize::from(cell.at) * self.words + i)
    }

    /// Stores all words of a cell and flushes its line, unfenced: one line.
    ///
    /// # Errors
    /// Errors of the medium; nothing is stored then. The caller has entered a step.
    pub fn fill(&self, cell: Cell, words: &[u64]) -> Result<()> {
        self.store(cell, words)?;
        self.flush(cell)
    }

    /// Stores all words of a cell, and flushes nothing.
    ///
    /// # Errors
    /// As for [`fill`](Self::fill).
    pub fn store(&self, cell: Cell, words: &[u64]) -> Result<()> {
        debug_assert_eq!(words.len(), self.words, "all words of the cell");
        let (page, _held) = self.pool.latch(cell.page)?;
        for (i, &value) in words.iter().enumerate() {
            self.pool.medium().store(self.word(page, cell, i), value);
        }
        Ok(())
    }

    /// Flushes the line of a cell, unfenced.
    ///
    /// # Errors
    /// Corrupt for a page outside of the pool.
    pub fn flush(&self, cell: Cell) -> Result<()> {
        let page = self.page(cell)?;
        self.pool.medium().flush(page, self.word(page, cell, 0).line());
        Ok(())
    }

    /// Opens a pool in which a structure has the nodes `nodes` and the cells `reached`, as a walk has found them.
    /// Other cells of their pages are free, and other pages that the map calls nodes are returned to the pool.
    /// O(pages + cells · log cells); stores only what it takes to return pages. Says how many it returned.
    ///
    /// # Errors
    /// Corrupt if a cell is not in a page of cells, or is reached twice: nothing is returned then. NoMemory; errors
    /// of the medium.
    pub fn recover(
        pool: Arc<Pool<M>>,
        words: usize,
        mut reached: Vec<Cell>,
        nodes: &HashSet<PageNo>,
    ) -> Result<(Self, u64)> {
        let cells = Self::new(pool, words);
        let owners = cells.pool.map_bytes()?;
        let (per_page, mut kept) = (cells.per_page(), HashSet::new());
        reached.sort_unstable();
        let mut free = Vec::new();
        for in_page in reached.chunk_by(|a, b| a.page == b.page) {
            let no = in_page[0].page;
            let page = cells.pool.page(no)?;
            let is_node = owners.get(no as usize) == Some(&kind::NODE);
            let is_sound = in_page.is_sorted_by(|a, b| a.at < b.at)
                && in_page.iter().all(|cell| usize::from(cell.at) < per_page);
            if !is_node || nodes.contains(&no) || !is_sound {
                return Err(damaged(page, 0, "no page of cells, or a cell that is led to twice"));
            }
            fallible::insert(&mut kept, no, FREE_CELLS)?;
            let mut used = in_page.iter().peekable();
            for at in 0..per_page as u16 {
                if used.next_if(|cell| cell.at == at).is_none() {
                    fallible::push(&mut free, Cell { page: no, at }, FREE_CELLS)?;
                }
            }
        }
        // The lowest is given out first.
        free.reverse();
        *cells.list() = free;
        let returned =
            give_back(&cells.pool, &owners, |no| nodes.contains(&no) || kept.contains(&no))?;
        Ok((cells, returned))
    }
}

/// How many cells of `words` words a page has.
pub(crate) fn per_page(geometry: Geometry, words: usize) -> usize {
    2 * geometry.slots() / words
}

/// A page that the map calls a node, durably, and that nothing leads to yet: one line of the map and one fence. Its
/// bytes are stale.
///
/// # Errors
/// Full; errors of the medium.
pub(crate) fn new_page<M: Medium>(pool: &Pool<M>) -> Result<PageNo> {
    retry(|| {
        let mut step = pool.step();
        let (page, _held) = step.new_page(kind::NODE)?;
        let mut op = step.enter()?;
        step.publish_alloc(&mut op);
        drop(op);
        Ok(page.no())
    })
}

/// Returns the pages that the map calls nodes and that nothing leads to, and says how many.
///
/// # Errors
/// Those of [`Pool::reclaim`].
pub(crate) fn give_back<M: Medium>(
    pool: &Pool<M>,
    owners: &[u8],
    is_kept: impl Fn(PageNo) -> bool,
) -> Result<u64> {
    let is_lost = |no: &PageNo| owners[*no as usize] == kind::NODE && !is_kept(*no);
    let nodes: Vec<PageNo> = (0..owners.len() as PageNo).filter(is_lost).collect();
    let returned = nodes.len() as u64;
    match pool.reclaim(&Leaks { nodes, ..Leaks::default() }) {
        // A reader can do without.
        Err(Error::ReadOnly) => Ok(0),
        done => done.map(|()| returned),
    }
}
