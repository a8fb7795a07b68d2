//! The persistent skip list that FAST+FAIR (Hwang et al., FAST '18, §6) compares with.
//!
//! No source of theirs is public. The paper says that only the lowest level survives a crash, upper levels are
//! volatile, inserts compare and swap, and searches take no lock. The lowest level is a [`List`]; removes are Harris' (a
//! mark in the link, then the unlinking), and the shape of a node is ours.
//!
//! Towers are searched without a lock and changed under one; a tower is there for every second node. Heights come
//! from a hash of the key, with p = ½ and 20 upper levels at most.
//!
//! [`AsPublished`](crate::AsPublished) has bug **a** of the list: others see a link before it is flushed.

mod towers;

pub use towers::{Tower, Towers};

use everleaf_pmem::{PageNo, Result};

use crate::cells::Cell;
use crate::list::{Above, List};
use crate::version::Sound;

/// The skip list.
pub type SkipList<M, V = Sound> = List<M, V, Towers>;

impl Above for Towers {
    const NAME: &'static str = "skip list";
    const BUGS: &'static str = "a";
    const FIRST: bool = false;
    type Gone = Tower;

    fn new(_pages: PageNo, _per_page: usize) -> Result<Self> {
        Towers::new()
    }
    fn height_of(key: u64) -> usize {
        towers::height_of(key)
    }
    fn below(&self, key: u64) -> Result<Option<(u64, Cell)>> {
        Ok(Towers::below(self, key))
    }
    fn add(&self, key: u64, node: Cell, height: usize) {
        Towers::add(self, key, node, height);
    }
    fn remove(&self, key: u64, node: Cell) -> Option<Tower> {
        Towers::remove(self, key, node)
    }
    fn put_back(&self, gone: Tower) {
        Towers::put_back(self, gone);
    }
}
