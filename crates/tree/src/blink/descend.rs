//! The tree's handle, and the way from its root to a node without latches: version, read, validate. And what is read at
//! its end: a leaf, and one key of it.
//!
//! A search waits for a writer that is inside a node on the way. How it passes one is a [policy](Passing): readers of
//! some of the papers' trees do not wait (`beside.rs`). A reader that has read its leaf looks whether anybody wrote
//! meanwhile; the papers' trees can be read [otherwise](crate::blink::Reading).

use std::cmp::Ordering as Order;
use std::mem;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError};

use everleaf_pmem::locks::Mutex;
use everleaf_pmem::{Latch, LatchGuard, Medium, Page, PageNo, Result, Retries, Seen, Version};
use everleaf_pool::{LargeValue, Pool, StoredValue};

use crate::blink::reading::Reading;
use crate::node::{
    FoundValue, KeyOf, Kind, NodeAt, NodeBytes, OwnedKeyOf, Rank, Shape, ValueOf, damaged, settled,
};
use crate::slots::racing::Racing;

/// An ordered map in a pool. `K` says how nodes are laid out and searched, and what keys are.
pub struct Blink<M: Medium, K: Kind> {
    pub(super) pool: Arc<Pool<M>>,
    /// Another one after the tree was [cleared](Self::take_over).
    anchor: AtomicU32,
    /// The root while the tree is open; the anchor holds it for the next open.
    pub(super) root: AtomicU32,
    pub(super) pending: Mutex<PendingMerges<K>>,
    /// Held while nodes merge, or must not merge.
    pub(super) merging: Mutex<()>,
    pub(super) reading: Reading,
}

impl<M: Medium, K: Kind> Blink<M, K> {
    pub(super) fn with_root(pool: Arc<Pool<M>>, anchor: PageNo, root: PageNo) -> Self {
        Self {
            pool,
            anchor: anchor.into(),
            root: root.into(),
            pending: Mutex::default(),
            merging: Mutex::default(),
            reading: Reading::default(),
        }
    }

    /// The page that names this tree in its pool.
    #[inline(always)]
    pub fn anchor(&self) -> PageNo {
        self.anchor.load(Ordering::Relaxed)
    }

    /// This handle is now one of the tree that `new` is a handle of, which nobody else has: what it was a handle of
    /// is not its own any more. No writer is in either, nor will be in `new`. Readers that are under way, and
    /// cursors, still read what they have begun with: the user of the handle tells them afterwards.
    pub fn take_over(&self, new: Self) {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).places.clear();
        self.anchor.store(new.anchor(), Ordering::Relaxed);
        self.root.store(new.root(), Ordering::Release);
    }

    /// The pool that the tree is in.
    pub fn pool(&self) -> &Arc<Pool<M>> {
        &self.pool
    }

    #[inline]
    pub(crate) fn medium(&self) -> &M {
        self.pool.medium()
    }

    #[inline]
    pub(crate) fn root(&self) -> PageNo {
        self.root.load(Ordering::Acquire)
    }

    /// The version of a page that may be read; touches it first if nobody has in this open.
    #[inline(always)]
    pub(crate) fn read_version(&self, page: Page<'_>) -> Result<Version> {
        match page.latch().read_version() {
            Seen::Ready(version) => Ok(version),
            Seen::Absent => self.fetch(page, Latch::read_version),
        }
    }

    /// Brings a page into memory, until `see` finds it there: it may leave again in between.
    #[cold]
    #[inline(never)]
    pub(super) fn fetch(&self, page: Page<'_>, see: impl Fn(&Latch) -> Seen) -> Result<Version> {
        let mut turns = Retries::default();
        loop {
            drop(self.pool.latch(page.no())?);
            if let Seen::Ready(version) = see(page.latch()) {
                return Ok(version);
            }
            turns.go_on("fetching a page")?;
        }
    }
}

/// The target of a descent, by keys of type `Q`.
pub enum Seek<'k, Q: ?Sized> {
    /// The leftmost node.
    Min,
    /// The rightmost node.
    Max,
    /// The node that covers the key.
    At(&'k Q),
    /// The node that covers the keys just below the key.
    Below(&'k Q),
}

impl<Q: ?Sized> Clone for Seek<'_, Q> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<Q: ?Sized> Copy for Seek<'_, Q> {}

/// The merges of a tree that are still to be done. They are done one at a time: the anchor has room
/// for one announcement.
pub(super) struct PendingMerges<K: Kind> {
    /// Somebody is at it, and does what comes in meanwhile.
    pub busy: bool,
    /// Keys and levels of nodes to look at.
    pub places: Vec<(OwnedKeyOf<K>, u8)>,
}

impl<K: Kind> Default for PendingMerges<K> {
    fn default() -> Self {
        Self { busy: false, places: Vec::new() }
    }
}

/// After how many moves to the right the pool is asked whether it has so many nodes at all: if not,
/// the sibling chain has a cycle.
const HOPS: u32 = 1 << 10;

/// After so many failed attempts an optimistic reader keeps writers out.
const TRIES: u32 = 8;

/// A node that a search left by its sibling link, and its version then.
pub(crate) type Lag = (PageNo, Version);

/// A node that a search has come to.
pub(crate) struct FoundNode<'m, K: Kind> {
    /// As it was in that version.
    pub node: NodeAt<'m, K>,
    pub version: Version,
    /// The last node that the search left by its sibling link: its parent may lack an entry.
    pub lag: Option<Lag>,
}

/// Where a key is, or would be, while its leaf is as it was in this version.
#[derive(Debug, Clone, Copy, Default)]
pub struct KeyPlace {
    pub(super) leaf: PageNo,
    pub(super) version: Version,
    pub(super) rank: Rank,
}

/// A node and its latch.
pub(super) type Latched<'m, K> = (FoundNode<'m, K>, LatchGuard<'m>);

/// Where a search goes from a node.
pub(super) enum Onward {
    /// To its sibling.
    Right(PageNo),
    /// To a child.
    Down(PageNo),
}

/// The outcome of one attempt: a result, or a reason to start again.
type Attempt<T> = Result<Option<T>>;

/// How a search passes a writer that is inside a node on its way.
pub(super) trait Passing<M: Medium, K: Kind> {
    /// The version of a page that may be read.
    fn version(tree: &Blink<M, K>, page: Page<'_>) -> Result<Version>;

    /// Whether the node does not lie to the right of what is sought: a search cannot move to the left.
    fn has_arrived(page: Page<'_>, seek: Seek<'_, KeyOf<K>>) -> bool;

    /// The child of an inner node that covers what is sought.
    fn child(
        tree: &Blink<M, K>,
        node: &NodeAt<'_, K>,
        version: Version,
        seek: Seek<'_, KeyOf<K>>,
    ) -> Result<PageNo>;
}

/// The search waits until the writer has left the node.
pub(super) struct WaitsForWriter;

impl<M: Medium, K: Kind> Passing<M, K> for WaitsForWriter {
    #[inline(always)]
    fn version(tree: &Blink<M, K>, page: Page<'_>) -> Result<Version> {
        tree.read_version(page)
    }

    #[inline(always)]
    fn has_arrived(_: Page<'_>, _: Seek<'_, KeyOf<K>>) -> bool {
        true
    }

    #[inline(always)]
    fn child(
        tree: &Blink<M, K>,
        node: &NodeAt<'_, K>,
        _: Version,
        seek: Seek<'_, KeyOf<K>>,
    ) -> Result<PageNo> {
        tree.child_of(node, seek)
    }
}

impl<M: Medium, K: Kind> Blink<M, K> {
    /// The node of `level` that covers what is sought; `None` if the tree is not that high (yet).
    #[inline(always)]
    pub(crate) fn descend(
        &self,
        seek: Seek<'_, KeyOf<K>>,
        level: u8,
    ) -> Result<Option<FoundNode<'_, K>>> {
        let mut turns = Retries::default();
        loop {
            if let Some(found) = self.try_descend::<WaitsForWriter>(seek, level)? {
                return Ok(found);
            }
            turns.again("a search for a node")?;
        }
    }

    /// Completes the split of a node that a search left by its sibling link: its parent may lack
    /// an entry since a crash. A node that has changed since is somebody's work and left alone.
    #[inline]
    pub(crate) fn complete(&self, lag: Option<Lag>) -> Result<()> {
        match lag {
            Some(lag) => self.complete_split_of(lag),
            None => Ok(()),
        }
    }

    /// One attempt; `None` if a node has changed on the way.
    #[inline(always)]
    pub(super) fn try_descend<P: Passing<M, K>>(
        &self,
        seek: Seek<'_, KeyOf<K>>,
        level: u8,
    ) -> Attempt<Option<FoundNode<'_, K>>> {
        let m = self.medium();
        let root = self.root();
        let mut page = m.page(root)?;
        let mut version = P::version(self, page)?;
        if self.root() != root {
            return Ok(None);
        }
        let (mut lag, mut hops) = (None, 0_u32);
        let mut expected = None;
        loop {
            let Some(node) =
                K::node(page).filter(|at| expected.is_none_or(|level| level == at.level()))
            else {
                return self.damage(page, version, "is not the node that its parent names");
            };
            let own_level = node.level();
            if own_level < level {
                return Ok(page.latch().validate(version).then_some(None));
            }
            if !P::has_arrived(page, seek) {
                return Ok(None);
            }
            let to_right = match self.is_left_of(&node, seek) {
                Ok(answer) => answer,
                Err(e) => return self.unless_changed(page, version, || e),
            };
            let next = if to_right {
                hops += 1;
                if hops.is_multiple_of(HOPS) && hops > self.pool.pages_in_groups() {
                    return self.damage(page, version, "siblings form a cycle");
                }
                lag = Some((page.no(), version));
                expected = Some(own_level);
                // A merge that a reader runs beside may have taken it away meanwhile.
                let Some(right) = node.sibling() else { return Ok(None) };
                right
            } else if own_level == level {
                let spot = FoundNode { node, version, lag };
                return Ok(page.latch().validate(version).then_some(Some(spot)));
            } else {
                expected = Some(own_level - 1);
                match P::child(self, &node, version, seek) {
                    Ok(child) => child,
                    Err(e) => return self.unless_changed(page, version, || e),
                }
            };
            // The number is right if the node has not changed; and if it still has not when the
            // next node's version is known, that version belongs to the node's life under it.
            if !page.latch().validate(version) {
                return Ok(None);
            }
            let next = m.page(next)?;
            K::prefetch(next);
            if next.latch().is_locked() && !Self::may_be(next, expected) {
                // Damage may lead to a page that this very thread holds: not to be waited for.
                return self.damage(page, version, "names a page that is no node of its level");
            }
            let next_version = P::version(self, next)?;
            if !page.latch().validate(version) {
                return Ok(None);
            }
            (page, version) = (next, next_version);
        }
    }

    /// An error about a node, if it is still as it was seen.
    #[cold]
    fn damage<T>(&self, page: Page<'_>, version: Version, what: &str) -> Attempt<T> {
        self.unless_changed(page, version, || damaged(page, what))
    }

    /// Whether a page that somebody holds may be a node of that level. One that is still to be fetched
    /// may be anything; a node keeps its level while it lives.
    #[cold]
    pub(super) fn may_be(page: Page<'_>, level: Option<u8>) -> bool {
        if !page.latch().is_ready() {
            return true;
        }
        let Seen::Ready(version) = page.latch().read_version_racing() else { return true };
        let is_one = Shape::of(page).is_some_and(|s| Some(s.level) == level);
        is_one || !page.latch().validate(version)
    }

    /// An error that was met while reading a page counts only if the page did not change and nobody
    /// was changing it.
    #[cold]
    fn unless_changed<T>(
        &self,
        page: Page<'_>,
        version: Version,
        error: impl FnOnce() -> everleaf_pmem::Error,
    ) -> Attempt<T> {
        if !version.is_racing() && page.latch().validate(version) { Err(error()) } else { Ok(None) }
    }

    /// Whether what is sought lies to the right of the node.
    #[inline(always)]
    pub(super) fn is_left_of(
        &self,
        node: &NodeAt<'_, K>,
        seek: Seek<'_, KeyOf<K>>,
    ) -> Result<bool> {
        if node.sibling().is_none() {
            return Ok(false);
        }
        Ok(match seek {
            Seek::Min => false,
            Seek::Max => true,
            Seek::At(key) => K::cmp_high(&self.pool, node, key)? != Order::Less,
            Seek::Below(key) => K::cmp_high(&self.pool, node, key)? == Order::Greater,
        })
    }

    /// Where a search for a node of `level` goes from a node that stands still; `None`: this is the one.
    pub(super) fn onwards(
        &self,
        node: &NodeAt<'_, K>,
        seek: Seek<'_, KeyOf<K>>,
        level: u8,
    ) -> Result<Option<Onward>> {
        if self.is_left_of(node, seek)? {
            return Ok(node.sibling().map(Onward::Right));
        }
        if node.level() == level {
            return Ok(None);
        }
        self.child_of(node, seek).map(|child| Some(Onward::Down(child)))
    }

    /// The child of an inner node that covers what is sought. Nobody is changing the node.
    #[inline(always)]
    pub(super) fn child_of(
        &self,
        node: &NodeAt<'_, K>,
        seek: Seek<'_, KeyOf<K>>,
    ) -> Result<PageNo> {
        let count = node.count();
        let index = match seek {
            Seek::Min => 1,
            Seek::Max => count,
            Seek::At(key) => K::rank(&self.pool, node, key)?.le,
            // Below the lowest key there is nothing; the first leaf says so.
            Seek::Below(key) => K::rank(&self.pool, node, key)?.lt().max(1),
        };
        if index == 0 || index > count {
            return Err(damaged(node.page(), "has no child for a key within its bounds"));
        }
        K::child(&self.pool, node.entry(index - 1))
    }

    /// The node of `level` that covers what is sought, latched.
    #[inline(always)]
    pub(crate) fn latch_at(
        &self,
        seek: Seek<'_, KeyOf<K>>,
        level: u8,
    ) -> Result<Option<Latched<'_, K>>> {
        if self.reading.is_crabbing() {
            return self.walk(seek, level);
        }
        let mut turns = Retries::default();
        loop {
            let Some(spot) = self.descend(seek, level)? else { return Ok(None) };
            if let Some(held) = spot.node.page().latch().upgrade(spot.version) {
                return Ok(Some((spot, held)));
            }
            turns.again("latching a node")?;
        }
    }

    /// The node of `level` for a key, latched. A copy of all of the way: a frequent caller calls
    /// [`latch_at`](Self::latch_at).
    pub(crate) fn latch_for(&self, key: &KeyOf<K>, level: u8) -> Result<Option<Latched<'_, K>>> {
        self.latch_at(Seek::At(key), level)
    }
}

impl<M: Medium, K: Kind> Blink<M, K> {
    /// Reads one leaf: by `settled` if nobody is changing it, by `racing` beside a writer, for which others wait. Their
    /// answer counts only after the leaf was validated; so neither reads from a disk what can be read after that.
    #[inline]
    pub(super) fn read_leaf<T>(
        &self,
        seek: Seek<'_, KeyOf<K>>,
        mut settled: impl FnMut(&NodeAt<'_, K>) -> Result<T>,
        racing: impl Fn(Racing<'_>) -> Result<T>,
    ) -> Result<T> {
        self.read_spot(seek, |spot| settled(&spot.node), racing)
    }

    /// As [`read_leaf`](Self::read_leaf), for a caller that remembers the leaf and its version.
    #[inline(always)]
    pub(super) fn read_spot<T>(
        &self,
        seek: Seek<'_, KeyOf<K>>,
        mut settled: impl FnMut(&FoundNode<'_, K>) -> Result<T>,
        racing: impl Fn(Racing<'_>) -> Result<T>,
    ) -> Result<T> {
        let Reading::Optimistic = self.reading else {
            return self.read_otherwise(seek, settled, racing);
        };
        let mut turns = Retries::default();
        loop {
            if let Some(Some(spot)) = self.try_descend::<WaitsForWriter>(seek, 0)? {
                let answer = settled(&spot);
                if spot.node.page().latch().validate(spot.version) {
                    return answer;
                }
            }
            if turns.count() + 1 == TRIES {
                return self.read_undisturbed(seek, settled);
            }
            turns.again("a search for a leaf")?;
        }
    }

    /// Reads one leaf for a reader whom writers have kept from it: its way cannot be cut off, since no
    /// node dies without a merge, and the leaf is latched.
    #[cold]
    fn read_undisturbed<T>(
        &self,
        seek: Seek<'_, KeyOf<K>>,
        settled: impl FnMut(&FoundNode<'_, K>) -> Result<T>,
    ) -> Result<T> {
        let _no_merge = self.lock_merges();
        Self::read_held(self.walk(seek, 0)?, settled)
    }

    /// Reads a leaf that was latched, and lets it go.
    #[cold]
    pub(super) fn read_held<T>(
        leaf: Option<Latched<'_, K>>,
        mut settled: impl FnMut(&FoundNode<'_, K>) -> Result<T>,
    ) -> Result<T> {
        let Some((spot, held)) = leaf else { unreachable!("every tree has leaves") };
        let answer = settled(&spot);
        held.unlock_unchanged();
        answer
    }

    /// The value of a key. The tree's [`Reading`](crate::blink::Reading) decides what it sees of writers that are
    /// under way, and whether it waits for them. On media with epochs it sees writes before they are
    /// durable.
    ///
    /// # Errors
    /// I/O errors and Corrupt.
    #[inline]
    pub fn get(&self, key: &KeyOf<K>) -> Result<Option<ValueOf<K>>> {
        let found = self.read_leaf(
            Seek::At(key),
            |at| {
                let found = |entry| K::found(&self.pool, entry);
                K::find(&self.pool, at, key, found)
            },
            |leaf| self.found_beside_writer(leaf, key),
        )?;
        // The leaf is left alone by now: a large value takes as long as it takes.
        found.map(settled).transpose()
    }

    /// Whether a key is there. Does not read its value.
    ///
    /// # Errors
    /// I/O errors and Corrupt.
    pub fn contains(&self, key: &KeyOf<K>) -> Result<bool> {
        self.read_leaf(
            Seek::At(key),
            |at| Ok(K::find(&self.pool, at, key, |_| Ok(()))?.is_some()),
            |leaf| Ok(self.found_beside_writer(leaf, key)?.is_some()),
        )
    }
}

impl<M: Medium, K: Kind + NodeBytes> Blink<M, K> {
    /// Copies the value of a key into a list, which is cleared before. Says whether the key is there.
    ///
    /// # Errors
    /// I/O errors, Corrupt, NoMemory; the list holds anything then.
    #[inline]
    pub fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let mut found = FoundValue::new(mem::take(value));
        let is_there = self.find_value(key, &mut found)?;
        *value = found.take()?;
        Ok(is_there)
    }

    /// Finds the value of a key, as [`get_into`](Self::get_into): one that is large and in memory is not copied.
    ///
    /// # Errors
    /// As [`get_into`](Self::get_into).
    #[inline]
    pub fn find_value(&self, key: &[u8], value: &mut FoundValue) -> Result<bool> {
        let found = self.read_leaf(
            Seek::At(key),
            |at| {
                let found = |entry| K::value_into(&self.pool, at.shape(), entry, value);
                K::find(&self.pool, at, key, found)
            },
            |_| Ok(None),
        )?;
        match found {
            None => {
                value.own().clear();
                Ok(false)
            }
            Some(StoredValue::Inline(())) => Ok(true),
            Some(StoredValue::External(far)) => far.read_into(value.own()).map(|()| true),
        }
    }

    /// Finds the value of a key, as [`find_value`](Self::find_value); but one that is in its leaf, and has room in a buffer,
    /// is copied there. Says how many bytes that one has.
    ///
    /// # Errors
    /// As [`get_into`](Self::get_into).
    #[inline]
    pub fn copy_or_find_value(
        &self,
        key: &[u8],
        buf: &mut [u8],
        value: &mut FoundValue,
    ) -> Result<Option<Option<usize>>> {
        self.copy_or_find_value_in(key, buf, value, |_| ())
    }

    /// The same, with the place of the key, for a caller that asks later whether its leaf [is as it was](Self::is_as_seen).
    ///
    /// # Errors
    /// As [`get_into`](Self::get_into).
    #[inline]
    pub fn copy_or_find_value_seen(
        &self,
        key: &[u8],
        buf: &mut [u8],
        value: &mut FoundValue,
    ) -> Result<(Option<Option<usize>>, KeyPlace)> {
        let mut place = KeyPlace::default();
        let found = self.copy_or_find_value_in(key, buf, value, |seen| place = seen)?;
        Ok((found, place))
    }

    /// Whether nobody has changed the leaf of a key since it was seen there. It may say no although nobody has, if somebody
    /// has looked for pages that memory could do without. Of a tree that was [taken over](Self::take_over) since it says
    /// nothing.
    ///
    /// # Errors
    /// Those of looking at a page.
    #[inline]
    pub fn is_as_seen(&self, seen: KeyPlace) -> Result<bool> {
        Ok(self.medium().page(seen.leaf)?.latch().validate(seen.version))
    }

    #[inline(always)]
    fn copy_or_find_value_in(
        &self,
        key: &[u8],
        buf: &mut [u8],
        value: &mut FoundValue,
        mut see: impl FnMut(KeyPlace),
    ) -> Result<Option<Option<usize>>> {
        let found = self.read_spot(
            Seek::At(key),
            |spot| {
                let at = &spot.node;
                let (rank, entry) = K::locate(&self.pool, at, key)?;
                see(KeyPlace { leaf: at.page().no(), version: spot.version, rank });
                let Some(entry) = entry else { return Ok(None) };
                let inside = K::value_inside(entry);
                if let Some(room) = inside.and_then(|bytes| buf.get_mut(..bytes)) {
                    K::part_into(&self.pool, at.shape(), entry, 0, room)?;
                    return Ok(Some(StoredValue::Inline(inside)));
                }
                Ok(Some(match K::value_into(&self.pool, at.shape(), entry, value)? {
                    StoredValue::Inline(()) => StoredValue::Inline(None),
                    StoredValue::External(far) => StoredValue::External(far),
                }))
            },
            |_| Ok(None),
        )?;
        match found {
            None => Ok(None),
            Some(StoredValue::Inline(copied)) => Ok(Some(copied)),
            Some(StoredValue::External(far)) => far.read_into(value.own()).map(|()| Some(None)),
        }
    }

    /// Copies the value of a key into a buffer, if that has room for all of it. Says how many bytes the value has; none if
    /// the key is not there. A value that has no room is not read, if it is not in the leaf.
    ///
    /// # Errors
    /// As [`get_into`](Self::get_into). The buffer holds anything then, and where no value was copied.
    #[inline]
    pub fn copy_value(&self, key: &[u8], buf: &mut [u8]) -> Result<Option<usize>> {
        let mut outside = FoundValue::default();
        let found = self.read_leaf(
            Seek::At(key),
            |at| {
                let copy = |entry| match K::value_inside(entry) {
                    None => Ok(match K::value_into(&self.pool, at.shape(), entry, &mut outside)? {
                        StoredValue::Inline(()) => StoredValue::Inline(None),
                        StoredValue::External(far) => StoredValue::External(far),
                    }),
                    Some(bytes) => {
                        if let Some(room) = buf.get_mut(..bytes) {
                            K::part_into(&self.pool, at.shape(), entry, 0, room)?;
                        }
                        Ok(StoredValue::Inline(Some(bytes)))
                    }
                };
                K::find(&self.pool, at, key, copy)
            },
            |_| Ok(None),
        )?;
        match found {
            None => Ok(None),
            Some(StoredValue::Inline(Some(bytes))) => Ok(Some(bytes)),
            Some(StoredValue::Inline(None)) => Ok(Some(copy_if_it_fits(outside.bytes(), buf))),
            Some(StoredValue::External(far)) => copy_far(&far, buf).map(Some),
        }
    }

    /// Fills a buffer with bytes of the value of a key, from byte `offset` of it on, all of one value. Says
    /// how many that were, fewer than asked for only at the value's end; none if the key is not there. Of a
    /// value in extents it reads the pages in which they are, and no others.
    ///
    /// # Errors
    /// I/O errors, Corrupt, NoMemory; the buffer holds anything then.
    pub fn read_at(&self, key: &[u8], offset: u64, buf: &mut [u8]) -> Result<Option<usize>> {
        let found = self.read_leaf(
            Seek::At(key),
            |at| {
                let part = |entry| K::part_into(&self.pool, at.shape(), entry, offset, buf);
                K::find(&self.pool, at, key, part)
            },
            |_| Ok(None),
        )?;
        Ok(match found {
            None => None,
            Some(StoredValue::Inline(bytes)) => Some(bytes),
            Some(StoredValue::External(far)) => Some(far.read_at(offset, buf)?),
        })
    }

    /// How many bytes the value of a key has. Does not read a value in extents.
    ///
    /// # Errors
    /// I/O errors, Corrupt.
    pub fn value_len(&self, key: &[u8]) -> Result<Option<u64>> {
        self.read_leaf(
            Seek::At(key),
            |at| {
                let bytes = |entry| K::value_bytes(&self.pool, at.shape(), entry);
                K::find(&self.pool, at, key, bytes)
            },
            |_| Ok(None),
        )
    }
}

/// Copies a value to a buffer if it has room; says how long the value is.
fn copy_if_it_fits(value: &[u8], buf: &mut [u8]) -> usize {
    if let Some(room) = buf.get_mut(..value.len()) {
        room.copy_from_slice(value);
    }
    value.len()
}

/// The same of a value that is elsewhere, which is read only if it fits.
#[cold]
fn copy_far<M: Medium>(far: &LargeValue<'_, M>, buf: &mut [u8]) -> Result<usize> {
    let bytes = far.value_bytes() as usize;
    if bytes > buf.len() {
        return Ok(bytes);
    }
    let mut value = Vec::new();
    far.read_into(&mut value)?;
    Ok(copy_if_it_fits(&value, buf))
}
