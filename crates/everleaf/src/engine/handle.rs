//! Trees of either medium behind one handle, and the changes of a batch.

use std::ops::Bound;
use std::sync::Arc;

use everleaf_file::{Dax, File};
use everleaf_pmem::PageNo;
use everleaf_tree::blink::{Condition, Cursor, End, Stage, Step, Swap};

use super::admission::Store;
use super::incoming::{self, ValueSource};
use super::open_tree::OpenTree;
use super::versions::{Cut, Images};
use crate::Result;

/// A tree inside the engine.
#[derive(Clone)]
pub(crate) enum TreeHandle {
    File(Arc<OpenTree<File>>),
    Dax(Arc<OpenTree<Dax>>),
}

/// One change of a batch: a new value, or none.
pub(crate) struct BatchChange {
    pub tree: TreeHandle,
    pub key: Vec<u8>,
    pub value: Option<Vec<u8>>,
}

/// Runs the same code on the tree of either medium.
macro_rules! on_tree {
    ($id:expr, $tree:ident => $body:expr) => {
        match $id {
            TreeHandle::File($tree) => $body,
            TreeHandle::Dax($tree) => $body,
        }
    };
}

impl TreeHandle {
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        on_tree!(self, tree => tree.read(|tree| tree.get(key)))
    }
    pub fn contains(&self, key: &[u8]) -> Result<bool> {
        on_tree!(self, tree => tree.read(|tree| tree.contains(key)))
    }
    pub fn anchor(&self) -> PageNo {
        on_tree!(self, tree => tree.anchor())
    }
    pub fn insert(&self, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>> {
        on_tree!(self, tree => tree.write(
            |tree| Ok(tree.put(key, value, Condition::Always)?.old),
            |tree, keeper| Ok(tree.put_keeping(keeper, key, value, Condition::Always)?.old),
        ))
    }
    pub fn remove(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        on_tree!(self, tree => tree.write(
            |tree| Ok(tree.remove(key)?.old),
            |tree, keeper| Ok(tree.remove_keeping(keeper, key)?.old),
        ))
    }
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        on_tree!(self, tree => tree.set(key, value))
    }
    pub fn put_from(
        &self,
        store: &impl Store,
        key: &[u8],
        source: &mut ValueSource<'_>,
    ) -> Result<()> {
        on_tree!(self, tree => incoming::put(store, tree, key, source))
    }
    pub fn delete(&self, key: &[u8]) -> Result<()> {
        on_tree!(self, tree => tree.write(
            |tree| tree.delete(key).map(drop),
            |tree, keeper| tree.delete_keeping(keeper, key).map(drop),
        ))
    }
    /// Puts a pair if its key is there, or if it is not; says whether it did.
    pub fn put_if(&self, key: &[u8], value: &[u8], condition: Condition) -> Result<bool> {
        on_tree!(self, tree => tree.write(
            |tree| Ok(tree.set(key, value, condition)?.epoch.is_some()),
            |tree, keeper| Ok(tree.set_keeping(keeper, key, value, condition)?.epoch.is_some()),
        ))
    }
    /// Changes a value if it is the expected one.
    pub fn swap(&self, key: &[u8], expected: Option<&[u8]>, new: Option<&[u8]>) -> Result<Swap> {
        on_tree!(self, tree => tree.write(
            |tree| tree.swap(key, expected, new),
            |tree, keeper| tree.swap_keeping(keeper, key, expected, new),
        ))
    }
    pub fn pop(&self, end: End) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        on_tree!(self, tree => tree.write(
            |tree| tree.pop(end),
            |tree, keeper| tree.pop_keeping(keeper, end),
        ))
    }
    /// Removes a key; says whether it was there.
    pub fn take_away(&self, key: &[u8]) -> Result<bool> {
        on_tree!(self, tree => tree.write(
            |tree| Ok(tree.delete(key)?.old.is_some()),
            |tree, keeper| Ok(tree.delete_keeping(keeper, key)?.old.is_some()),
        ))
    }
    /// The keys of a leaf between two bounds, downwards, and where the next ones begin.
    pub fn keys_down(&self, range: (Bound<&[u8]>, Bound<&[u8]>), limit: usize) -> Result<KeysDown> {
        on_tree!(self, tree => tree.read(|tree| tree.keys_down(range, limit)))
    }
    pub fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        on_tree!(self, tree => tree.read(|tree| tree.get_into(key, value)))
    }
    pub fn read_at(&self, key: &[u8], offset: u64, buf: &mut [u8]) -> Result<Option<usize>> {
        on_tree!(self, tree => tree.read(|tree| tree.read_at(key, offset, buf)))
    }
    pub fn value_len(&self, key: &[u8]) -> Result<Option<u64>> {
        on_tree!(self, tree => tree.read(|tree| tree.value_len(key)))
    }
    #[inline(always)]
    pub fn go(&self, cursor: &mut Cursor, to: Move<'_>) -> Result<Step> {
        let is_seek = !matches!(to, Move::Next | Move::Prev);
        on_tree!(self, tree => tree.go(cursor, is_seek, |tree, cursor| match to {
            Move::First => tree.cursor_first(cursor),
            Move::Last => tree.cursor_last(cursor),
            Move::Seek(key) => tree.cursor_seek(cursor, key),
            Move::SeekDown(key) => tree.cursor_seek_down(cursor, key),
            Move::Next => tree.cursor_next(cursor),
            Move::Prev => tree.cursor_prev(cursor),
        }))
    }
    /// Whether a step of a cursor was but one in memory of its own.
    #[inline(always)]
    pub fn slides(&self, cursor: &mut Cursor, up: bool) -> bool {
        match self {
            TreeHandle::File(tree) => tree.slides(cursor, up),
            // There pairs are not in their leaf.
            TreeHandle::Dax(_) => false,
        }
    }
    /// Reads the value of a cursor's pair; says whether the pair is still there.
    #[inline(always)]
    pub fn read_value(&self, cursor: &mut Cursor) -> Result<bool> {
        on_tree!(self, tree => tree.read_value(cursor))
    }
    /// What its keys had at cuts.
    pub fn images(&self) -> &Images {
        on_tree!(self, tree => tree.images())
    }
    /// The stamp at which it was cleared or dropped, if that is what it is: changes after that are not its own.
    pub fn until(&self) -> u64 {
        on_tree!(self, tree => tree.until())
    }
    /// The tree that this one was at a cut, if it was cleared or dropped since.
    #[inline]
    pub fn former(&self, cut: &Cut) -> Option<TreeHandle> {
        match self {
            TreeHandle::File(tree) => tree.former(cut).map(TreeHandle::File),
            TreeHandle::Dax(tree) => tree.former(cut).map(TreeHandle::Dax),
        }
    }
    /// What all handles of one tree of a pool have in common, and no others while there is one.
    pub fn id(&self) -> usize {
        on_tree!(self, tree => Arc::as_ptr(tree).addr())
    }
    /// Refuses if the tree was dropped.
    pub fn expect_there(&self) -> Result<()> {
        on_tree!(self, tree => tree.writable().map(drop))
    }
    pub fn is_short_of(&self, cursor: &Cursor, limit: &Cursor, up: bool) -> Result<bool> {
        on_tree!(self, tree => tree.read(|tree| tree.cursor_is_short_of(cursor, limit, up)))
    }
}

/// Some keys, and where the next ones begin, if there are any.
pub(crate) type KeysDown = (Vec<Vec<u8>>, Option<Bound<Vec<u8>>>);

/// Where a cursor goes.
#[derive(Clone, Copy)]
pub(crate) enum Move<'k> {
    First,
    Last,
    Seek(&'k [u8]),
    SeekDown(&'k [u8]),
    Next,
    Prev,
}

/// What a commit asks and tells who wants it to be alone.
pub(crate) struct Alone<'a> {
    /// Whether it may happen, while no other writer is under way. If room is found only after it has answered,
    /// it is asked again.
    pub validate: &'a dyn Fn() -> Result<()>,
    /// It happens now: from here on nothing is asked any more.
    pub begin: &'a dyn Fn(),
}

impl BatchChange {
    /// Reads all that the change will change or free; whether it leaves the leaf as full as it is.
    pub fn touch(&self) -> Result<bool> {
        on_tree!(&self.tree, tree => tree.writable()?.touch(&self.key))
    }

    /// Reads what names the root of the change's tree.
    pub fn touch_anchor(&self) -> Result<()> {
        on_tree!(&self.tree, tree => tree.tree().pool().anchor(tree.anchor()).map(drop))
    }

    /// The nodes that the change meets; `adds` is how many changes there are.
    pub fn stages(&self, adds: usize) -> Result<Vec<Stage>> {
        let value = self.value.as_ref().map_or(0, Vec::len);
        on_tree!(&self.tree, tree => tree.writable()?.stages(&self.key, value, adds))
    }

    /// Refuses if the tree was dropped.
    pub fn expect_tree(&self) -> Result<()> {
        self.tree.expect_there()
    }
}

/// Makes one change of a batch.
pub(super) fn apply(change: &BatchChange) -> Result<()> {
    match &change.value {
        Some(value) => change.tree.put(&change.key, value),
        None => change.tree.delete(&change.key),
    }
}
