//! The entries that lead into the list from above: in DRAM, and built anew by each open.

use everleaf_pmem::{PageNo, Result};

use crate::cells::Cell;

/// Entries from keys to nodes. They are hints: a search goes on along the list from where they lead to, and a node
/// without an entry is found all the same. A thread that marks a node as removed takes its entry out, and one that has
/// entered a node looks afterwards whether it is marked.
pub trait Above: Send + Sync + Sized + 'static {
    /// The name in tables.
    const NAME: &'static str;
    /// The letters of the bugs that the source has.
    const BUGS: &'static str;
    /// Whether the source enters a node before it is in the list.
    const FIRST: bool;
    /// An entry that was taken out, and may still be looked at.
    type Gone: Send + Sync;

    /// No entries, and room for as many as nodes have room in so many pages.
    ///
    /// # Errors
    /// NoMemory.
    fn new(pages: PageNo, per_page: usize) -> Result<Self>;

    /// How high a node of this key is entered; 0 for not at all.
    fn height_of(key: u64) -> usize;

    /// Key and node of the last entry before a key. O(log n), no lock.
    ///
    /// # Errors
    /// Corrupt.
    fn below(&self, key: u64) -> Result<Option<(u64, Cell)>>;

    /// The node of a key, if that has an entry. Where few nodes have one it is not worth a look.
    ///
    /// # Errors
    /// Corrupt.
    fn exact(&self, _key: u64) -> Result<Option<Cell>> {
        Ok(None)
    }

    /// Enters a node, of a height of 1 or more. Without memory it has no entry, and searches take longer.
    fn add(&self, key: u64, node: Cell, height: usize);

    /// Takes the entry of a node out.
    fn remove(&self, key: u64, node: Cell) -> Option<Self::Gone>;

    /// Nobody can look any more at what was taken out.
    fn put_back(&self, gone: Self::Gone);
}
