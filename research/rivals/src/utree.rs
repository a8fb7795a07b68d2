//! uTree (Chen et al., VLDB '20), after the code in thustorage/nvm-datastructure: a [`List`] on persistent memory, and
//! a tree in DRAM that leads to each of its nodes.
//!
//! A search asks the tree for the node and reads one line of persistent memory; a scan follows the list. An insert
//! costs two lines and two fences however full the tree's nodes are, since those are never flushed: the paper's point
//! is that no write waits for a split. The tree here is a [`CircTree`] on [`Dram`] where the source has a FAST+FAIR
//! tree; that changes times and no count of flushes.
//!
//! [`AsPublished`](crate::AsPublished) has the bugs **a**, **b** and **c** of the list, and enters a node in the tree
//! before the node is in the list. With **c** a remove costs one line and one fence. A fourth bug of the source is
//! not here, since no crash shows it: an insert that finds the list changed ten times returns as if it had been made.

use everleaf_pmem::{Dram, PageNo, Result};
use everleaf_tree::CircTree;
use everleaf_tree::blink::Condition;

use crate::cells::Cell;
use crate::dram;
use crate::list::link::Link;
use crate::list::{Above, List};
use crate::version::Sound;

/// The uTree.
pub type UTree<M, V = Sound> = List<M, V, Entries>;

/// An entry for every node.
pub struct Entries(CircTree<Dram>);

fn node(value: u64) -> Option<Cell> {
    Link(value).node()
}

impl Above for Entries {
    const NAME: &'static str = "uTree";
    const BUGS: &'static str = "abc";
    const FIRST: bool = true;
    type Gone = ();

    fn new(pages: PageNo, per_page: usize) -> Result<Self> {
        dram::tree(u64::from(pages) * per_page as u64).map(Self)
    }
    fn height_of(_key: u64) -> usize {
        1
    }
    fn below(&self, key: u64) -> Result<Option<(u64, Cell)>> {
        let Some(below) = key.checked_sub(1) else { return Ok(None) };
        let found = self.0.floor(&below)?;
        Ok(found.and_then(|(key, value)| node(value).map(|node| (key, node))))
    }
    fn exact(&self, key: u64) -> Result<Option<Cell>> {
        Ok(self.0.get(&key)?.and_then(node))
    }
    fn add(&self, key: u64, node: Cell, _height: usize) {
        let _ = self.0.put(&key, &Link::to(node).0, Condition::Always);
    }
    /// If another node of the key has been entered meanwhile, that one loses its entry: a search finds it along the
    /// list.
    fn remove(&self, key: u64, _node: Cell) -> Option<()> {
        let _ = self.0.remove(&key);
        None
    }
    fn put_back(&self, (): ()) {}
}
