//! A tree of a pool, as handles have it: with the store that it is on.
//!
//! Here an operation on a tree asks which medium it is on, once; what is below is written for both. A read is
//! made [while the pool is open](read), and a write is [admitted](Store::admit). The last handle
//! closes the pool.
//!
//! Among them are writes that look at what is there, each one operation of its tree; and loads, leaf by leaf where
//! pairs fill leaves.

use std::ops::Bound;
use std::sync::Arc;

use everleaf_file::is_want_of_room;
use everleaf_pmem::{Geometry, PageNo};
use everleaf_tree::FoundValue;
use everleaf_tree::blink::{Condition, Cursor, End, Stepped, Swap};

use super::admission::Store;
use super::buffers::Buffers;
#[cfg(feature = "dax")]
use super::dax::DaxStore;
use super::file::FileStore;
use super::medium::{DbTree, on_medium};
use super::open_tree::{OpenTree, SeenPlace, TreeHandle, ValueSource, put_from};
use super::reclaim::{Background, Reclaim};
use super::versions::{Cut, ImageKeeper, Images};
use crate::{Bytes, Durability, Error, Result};

/// So many keys of a range are removed before the next ones are looked up.
const CHUNK_KEYS: usize = 1024;

/// A value of so many bytes that is in its leaf is copied to the stack, and from there.
const HERE_BYTES: usize = 128;

/// A value that was copied, or found elsewhere.
#[inline(always)]
fn bytes_of(copied: Option<usize>, here: &[u8], value: &mut FoundValue) -> Result<Bytes> {
    match copied.and_then(|bytes| here.get(..bytes)) {
        Some(bytes) => Bytes::copy(bytes, "a value"),
        None => Bytes::found(value, "a value"),
    }
}

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

/// A tree of a pool on either medium.
#[derive(Clone)]
pub(crate) enum PoolTree {
    File(On<FileStore>),
    #[cfg(feature = "dax")]
    Dax(On<DaxStore>),
}

/// A tree that is open, and its store.
pub(crate) struct On<S: Reclaim> {
    /// Before the tree: the pool is closed while that is there.
    pub pool: Arc<Background<S>>,
    tree: Arc<OpenTree<S::Medium>>,
}

impl<S: Reclaim> Clone for On<S> {
    fn clone(&self) -> Self {
        Self::new(&self.pool, Arc::clone(&self.tree))
    }
}

impl PoolTree {
    /// The tree alone, for who has its pool.
    pub fn tree(&self) -> TreeHandle {
        match self {
            PoolTree::File(on) => TreeHandle::File(Arc::clone(&on.tree)),
            #[cfg(feature = "dax")]
            PoolTree::Dax(on) => TreeHandle::Dax(Arc::clone(&on.tree)),
        }
    }

    /// A number that all handles of one tree of a pool have in common, and no others while there is one.
    pub fn id(&self) -> usize {
        on_medium!(self, on => Arc::as_ptr(&on.tree).addr())
    }

    /// The tree that this one was at a cut, if it was cleared or dropped since.
    #[inline]
    pub fn former(&self, cut: &Cut) -> Option<PoolTree> {
        match self {
            PoolTree::File(on) => on.former(cut).map(PoolTree::File),
            #[cfg(feature = "dax")]
            PoolTree::Dax(on) => on.former(cut).map(PoolTree::Dax),
        }
    }

    /// The values that its keys had at cuts.
    pub fn images(&self) -> &Images {
        on_medium!(self, on => on.tree.images())
    }

    /// The stamp at which it was cleared or dropped, if that is what it is: changes after that are not its own.
    pub fn until(&self) -> u64 {
        on_medium!(self, on => on.tree.until())
    }

    /// Whether a write may wait before it begins.
    #[inline]
    pub fn may_wait(&self) -> bool {
        match self {
            PoolTree::File(on) => {
                on.store().way().is_in_the_way() || on.pool.trees().medium().may_wait()
            }
            #[cfg(feature = "dax")]
            PoolTree::Dax(on) => on.store().way().is_in_the_way(),
        }
    }

    pub fn geometry(&self) -> Geometry {
        on_medium!(self, on => on.tree.tree().pool().geometry())
    }

    /// Refuses if the pool is closed or the tree was dropped, for who reads what is kept beside it.
    pub fn expect_there(&self) -> Result<()> {
        on_medium!(self, on => on.expect_there())
    }

    /// Refuses what would load, whether or not there is something to load.
    pub fn expect_loadable(&self) -> Result<()> {
        on_medium!(self, on => on.expect_writable().and_then(|()| on.expect_there()))
    }

    /// How many pairs it has.
    pub fn len(&self) -> Result<u64> {
        on_medium!(self, on => {
            on.store().alive()?;
            on.store().trees().len(&on.tree)
        })
    }

    pub fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        let (mut here, mut value) = ([0; HERE_BYTES], FoundValue::default());
        let found = on_medium!(self, on => {
            on.read(|tree| tree.copy_or_find_value(key, &mut here, &mut value))
        })?;
        let Some(copied) = found else { return Ok(None) };
        bytes_of(copied, &here, &mut value).map(Some)
    }

    /// The same, with the place where it says so.
    pub fn get_seen(&self, key: &[u8]) -> Result<(Option<Bytes>, SeenPlace)> {
        let (mut here, mut value) = ([0; HERE_BYTES], FoundValue::default());
        let (found, seen) = on_medium!(self, on => read(on.store(), || {
            on.tree.read_seen(|tree| tree.copy_or_find_value_seen(key, &mut here, &mut value))
        }))?;
        let found = found.map(|copied| bytes_of(copied, &here, &mut value)).transpose()?;
        Ok((found, seen))
    }

    pub fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        on_medium!(self, on => on.read(|tree| tree.get_into(key, value)))
    }

    /// As [`get_into`](Self::get_into), but a value that is large and in memory is not copied.
    #[inline]
    pub fn find_value(&self, key: &[u8], value: &mut FoundValue) -> Result<bool> {
        on_medium!(self, on => on.read(|tree| tree.find_value(key, value)))
    }

    /// Copies a value into a buffer, if that has room for all of it; says how many bytes it has.
    #[inline]
    pub fn copy_value(&self, key: &[u8], buf: &mut [u8]) -> Result<Option<usize>> {
        on_medium!(self, on => on.read(|tree| tree.copy_value(key, buf)))
    }

    pub fn contains(&self, key: &[u8]) -> Result<bool> {
        on_medium!(self, on => on.read(|tree| tree.contains(key)))
    }

    pub fn read_at(&self, key: &[u8], offset: u64, buf: &mut [u8]) -> Result<Option<usize>> {
        on_medium!(self, on => on.read(|tree| tree.read_at(key, offset, buf)))
    }

    pub fn value_len(&self, key: &[u8]) -> Result<Option<u64>> {
        on_medium!(self, on => on.read(|tree| tree.value_len(key)))
    }

    /// The value of a key, for who is about to change it.
    pub fn get_to_change(&self, key: &[u8]) -> Result<Option<Bytes>> {
        on_medium!(self, on => on.expect_writable())?;
        self.get(key)
    }

    /// Whether a key is there, for who is about to change that.
    pub fn is_there_to_change(&self, key: &[u8]) -> Result<bool> {
        on_medium!(self, on => {
            on.expect_writable().and_then(|()| on.read(|tree| tree.contains(key)))
        })
    }

    /// Moves a cursor. If the tree is not to be used any more, the cursor forgets what it has: that may
    /// be another's.
    #[inline(always)]
    pub fn go(&self, cursor: &mut Cursor, to: Move<'_>) -> Result<Stepped> {
        let is_seek = !matches!(to, Move::Next | Move::Prev);
        let step = on_medium!(self, on => {
            read(on.store(), || on.tree.go(cursor, is_seek, |tree, cursor| match to {
                Move::First => tree.cursor_first(cursor),
                Move::Last => tree.cursor_last(cursor),
                Move::Seek(key) => tree.cursor_seek(cursor, key),
                Move::SeekDown(key) => tree.cursor_seek_down(cursor, key),
                Move::Next => tree.cursor_next(cursor),
                Move::Prev => tree.cursor_prev(cursor),
            }))
        });
        still(cursor, step)
    }

    /// Refuses if the pool is closed, for a cursor that steps in memory of its own.
    pub fn expect_open(&self, cursor: &mut Cursor) -> Result<()> {
        still(cursor, on_medium!(self, on => on.store().alive()))
    }

    /// Why a cursor at a cut does not go on.
    pub fn leads_astray(&self, no: PageNo) -> Error {
        on_medium!(self, on => on.tree.tree().leads_astray(no))
    }

    /// Copies the leaf in which a cursor that reads at a cut goes on, from a bound upwards or downwards. The cursor
    /// stays where it is, also if the tree was dropped: it may go on in what the tree was before.
    pub fn copy_leaf(&self, cursor: &mut Cursor, from: Bound<&[u8]>, up: bool) -> Result<()> {
        on_medium!(self, on => read(on.store(), || on.tree.copy_leaf(cursor, from, up)))
    }

    /// Whether a step of a cursor was but one in memory of its own. If not, it is still to be made.
    #[inline(always)]
    pub fn slides(&self, cursor: &mut Cursor, up: bool) -> bool {
        match self {
            PoolTree::File(on) => on.store().alive().is_ok() && on.tree.slides(cursor, up),
            // There pairs are not in their leaf.
            #[cfg(feature = "dax")]
            PoolTree::Dax(_) => false,
        }
    }

    /// The memory of transactions, batches and cursors.
    #[inline(always)]
    pub fn buffers(&self) -> &Buffers {
        on_medium!(self, on => &on.store().trees().buffers)
    }

    /// Reads the value of a cursor's pair, unless the cursor has it; says whether the pair is still there.
    #[inline(always)]
    pub fn read_value(&self, cursor: &mut Cursor) -> Result<bool> {
        if cursor.has_all() {
            return Ok(true);
        }
        let read = on_medium!(self, on => read(on.store(), || on.tree.read_value(cursor)));
        still(cursor, read)
    }

    /// Whether a pair that cannot be read lies before the place of `limit`.
    pub fn is_short_of(&self, cursor: &Cursor, limit: &Cursor, up: bool) -> Result<bool> {
        on_medium!(self, on => on.read(|tree| tree.cursor_is_short_of(cursor, limit, up)))
    }

    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        on_medium!(self, on => on.store().admit(|| on.at(key), || on.tree.set(key, value)))
    }

    pub fn delete(&self, key: &[u8]) -> Result<()> {
        on_medium!(self, on => on.store().admit(|| on.at(key), || on.tree.delete(key)))
    }

    pub fn insert(&self, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>> {
        on_medium!(self, on => on.write(
            Some(key),
            |tree| Ok(tree.put(key, value, Condition::Always)?.old),
            |tree, keeper| Ok(tree.put_keeping(keeper, key, value, Condition::Always)?.old),
        ))
    }

    pub fn remove(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        on_medium!(self, on => on.write(
            Some(key),
            |tree| Ok(tree.remove(key)?.old),
            |tree, keeper| Ok(tree.remove_keeping(keeper, key)?.old),
        ))
    }

    /// Sets a value that comes from a reader.
    pub fn put_from(&self, key: &[u8], source: &mut ValueSource<'_>) -> Result<()> {
        on_medium!(self, on => {
            on.expect_writable()?;
            on.store().wait_for_others(on.at(key));
            put_from(on.store(), &on.tree, key, source)
        })
    }

    /// Puts a pair if its key is there, or if it is not; says whether it did.
    pub fn put_if(&self, key: &[u8], value: &[u8], condition: Condition) -> Result<bool> {
        on_medium!(self, on => on.write_alone(
            Some(key),
            |tree| Ok(tree.set(key, value, condition)?.epoch.is_some()),
            |tree, keeper| Ok(tree.set_keeping(keeper, key, value, condition)?.epoch.is_some()),
        ))
    }

    /// Changes a value if it is the expected one.
    pub fn swap(&self, key: &[u8], expected: Option<&[u8]>, new: Option<&[u8]>) -> Result<Swap> {
        on_medium!(self, on => on.write_alone(
            Some(key),
            |tree| tree.swap(key, expected, new),
            |tree, keeper| tree.swap_keeping(keeper, key, expected, new),
        ))
    }

    /// Removes the pair at one end.
    pub fn pop(&self, end: End) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        on_medium!(self, on => on.write_alone(
            None,
            |tree| tree.pop(end),
            |tree, keeper| tree.pop_keeping(keeper, end),
        ))
    }

    /// Removes all pairs between two bounds. Says how many.
    pub fn remove_range(&self, low: Bound<&[u8]>, high: Bound<&[u8]>) -> Result<u64> {
        on_medium!(self, on => on.remove_range(low, high))
    }

    /// Takes all pairs out of the tree, and says how many there were. `likely` is a name that it had.
    pub fn clear(&self, likely: &str) -> Result<u64> {
        on_medium!(self, on => on.clear(likely))
    }

    /// Waits until what was written just now is as durable as it is to be.
    #[inline(always)]
    pub fn settle(&self, durability: Durability) -> Result<()> {
        match durability {
            Durability::Buffered => Ok(()),
            Durability::Sync => on_medium!(self, on => on.pool.sync()),
        }
    }

    /// Puts the first of some pairs, if they fill a leaf; says how many it has put. 0: the first one is to be put.
    pub fn fill_leaf(&self, pairs: &[(&[u8], &[u8])]) -> Result<usize> {
        match self {
            PoolTree::File(on) => on.fill_leaf(pairs),
            // There each pair is a step.
            #[cfg(feature = "dax")]
            PoolTree::Dax(_) => Ok(0),
        }
    }
}

/// Reads while the pool is open.
#[inline(always)]
pub(super) fn read<T>(store: &impl Store, read: impl FnOnce() -> Result<T>) -> Result<T> {
    store.alive()?;
    let answer = read();
    store.alive_after_read()?;
    answer
}

/// An answer, and a cursor that knows nothing more of a tree that nobody can use.
#[inline(always)]
pub(crate) fn still<T>(cursor: &mut Cursor, answer: Result<T>) -> Result<T> {
    if let Err(Error::Closed | Error::NoTree | Error::Forked) = answer {
        cursor.clear();
    }
    answer
}

impl<S: Reclaim> On<S> {
    pub fn new(pool: &Arc<Background<S>>, tree: Arc<OpenTree<S::Medium>>) -> Self {
        Self { pool: Arc::clone(pool), tree }
    }

    #[inline(always)]
    fn store(&self) -> &S {
        &self.pool.store
    }

    /// A key, and what all handles of the tree have in common.
    #[inline(always)]
    fn at<'k>(&self, key: &'k [u8]) -> Option<(usize, &'k [u8])> {
        Some((Arc::as_ptr(&self.tree).addr(), key))
    }

    /// Waits while a transaction has locked a key.
    fn give(&self, key: &[u8]) {
        self.store().locks().give(Arc::as_ptr(&self.tree).addr(), key);
    }

    /// The tree that has a name, or had it at a cut.
    pub fn find(pool: &Arc<Background<S>>, name: &str, cut: Option<&Cut>) -> Result<Option<Self>> {
        let trees = pool.trees();
        let found = read(&*pool.store, || match cut {
            None => trees.find_tree(name),
            Some(cut) => trees.find_tree_at(cut, name),
        })?;
        Ok(found.map(|tree| Self::new(pool, tree)))
    }

    #[inline]
    fn former(&self, cut: &Cut) -> Option<Self> {
        self.tree.former(cut).map(|tree| Self::new(&self.pool, tree))
    }

    fn expect_there(&self) -> Result<()> {
        read(self.store(), || self.tree.writable().map(drop))
    }

    #[inline]
    fn read<T>(&self, look: impl FnMut(&DbTree<S::Medium>) -> Result<T>) -> Result<T> {
        read(self.store(), || self.tree.read(look))
    }

    /// Writes to a key, if it is known which one; `keeping` if there is a cut that may need what that replaces.
    #[inline]
    fn write<T>(
        &self,
        key: Option<&[u8]>,
        plain: impl Fn(&DbTree<S::Medium>) -> Result<T>,
        keeping: impl Fn(&DbTree<S::Medium>, &ImageKeeper<'_>) -> Result<T>,
    ) -> Result<T> {
        self.store().admit(|| self.at(key?), || self.tree.write(&plain, &keeping))
    }

    /// Refuses what would write, whether or not it would come to that.
    fn expect_writable(&self) -> Result<()> {
        self.store().alive()?;
        if self.store().trees().read_only { Err(Error::ReadOnly) } else { Ok(()) }
    }

    /// Writes what depends on what is there.
    fn write_alone<T>(
        &self,
        key: Option<&[u8]>,
        plain: impl Fn(&DbTree<S::Medium>) -> Result<T>,
        keeping: impl Fn(&DbTree<S::Medium>, &ImageKeeper<'_>) -> Result<T>,
    ) -> Result<T> {
        self.expect_writable()?;
        self.write(key, plain, keeping)
    }

    /// Removes a range, the greatest key first, one by one. Looks at no large value: one may be damaged.
    fn remove_range(&self, low: Bound<&[u8]>, high: Bound<&[u8]>) -> Result<u64> {
        self.expect_writable()?;
        let (mut removed, mut behind) = (0, None);
        loop {
            // Downwards: a leaf that is emptied from its end moves no pairs, and goes into its left
            // neighbour without moving any.
            let from = behind
                .as_ref()
                .map_or(high, |bound: &Bound<Vec<u8>>| bound.as_ref().map(|key| &key[..]));
            let (keys, next) = self.read(|tree| tree.keys_down((low, from), CHUNK_KEYS))?;
            for key in &keys {
                removed += u64::from(self.write_alone(
                    Some(key),
                    |tree| Ok(tree.delete(key)?.old.is_some()),
                    |tree, keeper| Ok(tree.delete_keeping(keeper, key)?.old.is_some()),
                )?);
            }
            match next {
                Some(bound) => behind = Some(bound),
                None => return Ok(removed),
            }
        }
    }

    fn clear(&self, likely: &str) -> Result<u64> {
        let pool = &self.pool;
        pool.give_way(|| None)?;
        let clear = || pool.clear(&self.tree, likely).map_err(|error| pool.why(error));
        match pool.with_room(clear).inspect(|_| pool.reclaim_soon()) {
            // There is no room for a moment; or a full disk refuses the empty tree, which is something new, and takes
            // removals.
            Err(error) if matches!(error, Error::Full { .. }) || is_want_of_room(&error) => {
                self.remove_range(Bound::Unbounded, Bound::Unbounded)
            }
            cleared => cleared,
        }
    }
}

impl On<FileStore> {
    fn fill_leaf(&self, pairs: &[(&[u8], &[u8])]) -> Result<usize> {
        if self.store().locks().are_held() {
            pairs.iter().for_each(|(key, _)| self.give(key));
        }
        let filled = self.write(
            None,
            |tree| tree.fill_leaf(None, pairs),
            |tree, keeper| tree.fill_leaf(Some(keeper), pairs),
        );
        match filled {
            // A pair may have room where a leaf has none.
            Err(Error::Full { .. }) => Ok(0),
            filled => filled,
        }
    }
}
