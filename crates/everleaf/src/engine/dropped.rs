//! Trees that were dropped, or what trees had when they were cleared, until their pages are free.
//!
//! A drop takes a tree's name away and gives the tree a key of the catalog that no name can be: 0xff and the page of
//! its anchor. That is all that the caller waits for. From then on it is [reclaimed](super::reclaim): it goes away step
//! by step, some pairs at a time, as it would if somebody deleted them, so that it is a sound tree at each moment; then
//! its pages go with its key. A crash leaves what was not removed yet, and the next open for writing goes on.
//!
//! ```text
//! name -> anchor                        in use
//! 0xff anchor -> anchor                 dropped; snapshots from before read it, then it is stripped
//! nothing                               free
//! ```

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use everleaf_pmem::{PageNo, fallible};

use super::medium::DbMedium;
use super::open_tree::OpenTree;
use super::sync::{Mutex, MutexGuard, lock};
use super::versions::Cut;
use crate::{Error, Result};

/// The first byte of a key in the catalog that is no name: no UTF-8 begins so.
pub(super) const NAMELESS: u8 = 0xff;

/// The key of a tree without a name.
pub(super) type NamelessKey = [u8; 5];

pub(super) fn nameless_key(anchor: PageNo) -> NamelessKey {
    let [a, b, c, d] = anchor.to_be_bytes();
    [NAMELESS, a, b, c, d]
}

/// A tree on its way out.
pub(crate) struct Dropped<M: DbMedium> {
    pub tree: Arc<OpenTree<M>>,
    /// The tree that it was, if this process has dropped or cleared that.
    pub was: Option<Arc<OpenTree<M>>>,
    /// Damage is in its way. It is tried again by the next open.
    pub is_stuck: AtomicBool,
}

impl<M: DbMedium> Dropped<M> {
    pub fn new(tree: Arc<OpenTree<M>>, was: Option<Arc<OpenTree<M>>>) -> Arc<Self> {
        Arc::new(Self { tree, was, is_stuck: AtomicBool::new(false) })
    }
}

/// Those of a pool.
pub(crate) struct DroppedTrees<M: DbMedium> {
    /// Those that this process has dropped by rising stamps.
    list: Mutex<VecDeque<Arc<Dropped<M>>>>,
    /// Held by who removes a part of one, and by who must see them all as they are.
    turn: Mutex<()>,
}

impl<M: DbMedium> Default for DroppedTrees<M> {
    fn default() -> Self {
        Self { list: Mutex::default(), turn: Mutex::default() }
    }
}

pub(super) const DROPPED: &str = "the list of dropped trees";

impl<M: DbMedium> DroppedTrees<M> {
    /// The first one that nothing is in the way of but snapshots: those behind it wait for the same, or more.
    pub fn first(&self) -> Option<Arc<Dropped<M>>> {
        lock(&self.list).iter().find(|one| !one.is_stuck.load(Ordering::Relaxed)).cloned()
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        lock(&self.list).len() as u64
    }

    /// Nothing of them goes until this is dropped.
    pub fn hold(&self) -> MutexGuard<'_, ()> {
        lock(&self.turn)
    }

    /// The same, if nobody else holds it.
    pub fn try_hold(&self) -> Option<MutexGuard<'_, ()>> {
        self.turn.try_lock().ok()
    }

    pub fn all(&self) -> Result<Vec<Arc<Dropped<M>>>> {
        let list = lock(&self.list);
        let mut all = fallible::list(list.len(), DROPPED)?;
        all.extend(list.iter().cloned());
        Ok(all)
    }

    /// Sees to it that [`add`](Self::add) needs no memory.
    pub fn make_room(&self) -> Result<()> {
        let bytes = size_of::<Arc<Dropped<M>>>();
        lock(&self.list).try_reserve(1).map_err(|_| Error::NoMemory { what: DROPPED, bytes })
    }

    pub fn add(&self, dropped: Arc<Dropped<M>>) {
        lock(&self.list).push_back(dropped);
    }

    /// Those that were found in the pool.
    pub fn set(&self, found: Vec<Arc<Dropped<M>>>) {
        *lock(&self.list) = found.into();
    }

    pub fn remove(&self, dropped: &Arc<Dropped<M>>) {
        let mut list = lock(&self.list);
        // Among the first ones.
        if let Some(at) = list.iter().position(|one| Arc::ptr_eq(one, dropped)) {
            list.remove(at);
        }
    }

    /// The tree that had this anchor at a cut, if it was dropped since.
    pub fn find(&self, anchor: PageNo, cut: &Cut) -> Option<Arc<OpenTree<M>>> {
        let is_it = |tree: &OpenTree<M>| tree.anchor() == anchor && cut.is_before(tree.until());
        let list = lock(&self.list);
        list.iter().find(|one| is_it(&one.tree)).map(|one| Arc::clone(&one.tree))
    }
}
