//! A tree that is in use, and what it was before it was cleared or dropped.
//!
//! A tree that is *cleared* gets an empty one in its place, and one that is *dropped* gets none. The former tree goes on
//! as a tree of its own, without a name, until its pages are free (see [`dropped`](super::dropped)). Nobody writes to
//! it; snapshots from before read it. How often a tree was cleared is its *life*: readers look at it before and
//! after, since what they have read may be of the former tree, or of pages that are another's by now.
//!
//! A [`TreeHandle`] is a tree of either medium without its store, which is what a commit changes.
//!
//! A value may come from a reader. That is the user's: it may take its time, fail, panic, and use the pool that it writes to. So it
//! is called while nothing is held. Between its calls what it has given is written, a piece at a time, as
//! any writer does: past the gate, and refused where a put would be.

use std::io::Read;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

#[cfg(feature = "dax")]
use everleaf_file::Dax;
use everleaf_file::File;
use everleaf_file::io::uninterrupted;
use everleaf_pmem::{PageNo, Retries, fallible};
use everleaf_tree::blink::{BatchChange, Condition, Cursor, KeyPlace, Stage, Stepped};

use super::admission::Store;
use super::medium::{DbMedium, DbTree};
use super::sync::{RwLock, read, write};
use super::versions::{Cut, ImageKeeper, Images, KeepOld, Versions};
use crate::{Error, Result};

/// Names in errors a read that is tried again because somebody has cleared the tree meanwhile.
pub(crate) const CLEARED: &str = "reading a tree that is cleared again and again";

/// The life of a tree that nobody uses any more.
const ENDED: u32 = u32::MAX;

/// A tree that is open. Handles may outlive it in the pool.
pub(crate) struct OpenTree<M: DbMedium> {
    tree: DbTree<M>,
    life: AtomicU32,
    versions: Arc<Versions>,
    /// The values that its keys had at cuts.
    images: Arc<Images>,
    /// The stamp at which it was cleared or dropped.
    until: u64,
    former: Former<M>,
}

/// A place of a tree as a reader has seen it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SeenPlace {
    pub place: KeyPlace,
    life: u32,
}

/// The trees that a tree was before, for cuts that may need them.
struct Former<M: DbMedium> {
    /// By rising stamps.
    trees: RwLock<Vec<Arc<OpenTree<M>>>>,
    count: AtomicU32,
}

impl<M: DbMedium> OpenTree<M> {
    pub fn new(tree: DbTree<M>, versions: &Arc<Versions>) -> Arc<Self> {
        Arc::new(Self::of(tree, versions, Arc::default(), u64::MAX))
    }

    fn of(tree: DbTree<M>, versions: &Arc<Versions>, images: Arc<Images>, until: u64) -> Self {
        let former = Former { trees: RwLock::default(), count: AtomicU32::new(0) };
        let versions = Arc::clone(versions);
        Self { tree, life: AtomicU32::new(0), versions, images, until, former }
    }

    /// A tree without a name that this process finds in the pool, and no snapshot knows.
    pub fn found(tree: DbTree<M>, versions: &Arc<Versions>) -> Arc<Self> {
        Arc::new(Self::of(tree, versions, Arc::default(), 0))
    }

    /// This tree as a tree of its own, by another handle `tree` of the same pages. The caller keeps
    /// writers out, and ends the life of this one.
    pub fn as_former(&self, tree: DbTree<M>, until: u64) -> Arc<Self> {
        debug_assert_eq!(tree.anchor(), self.tree.anchor());
        Arc::new(Self::of(tree, &self.versions, Arc::clone(&self.images), until))
    }

    /// Sees to it that [`leave`](Self::leave) needs no memory.
    pub fn make_room(&self) -> Result<()> {
        let mut trees = write(&self.former.trees);
        fallible::more(&mut trees, 1, "what a tree was before")
    }

    /// This tree is not any more what it was: it is empty from now on if it has `next`, and nobody may use it if
    /// it has not. A read at a cut from before goes to `former`.
    pub fn leave(&self, former: &Arc<Self>, next: Option<DbTree<M>>) {
        let mut trees = write(&self.former.trees);
        trees.push(Arc::clone(former));
        // Before the first sight of the new tree.
        self.former.count.store(trees.len() as u32, Ordering::Release);
        // With the list in hand, for those who wait until this is done.
        match next {
            None => self.life.store(ENDED, Ordering::SeqCst),
            Some(next) => {
                self.tree.take_over(next);
                let life = self.life.load(Ordering::Relaxed);
                debug_assert!(life != ENDED, "a dropped tree is not cleared");
                self.life.store(life.wrapping_add(1) % ENDED, Ordering::SeqCst);
            }
        }
    }

    /// Nobody reads at a cut from before `former` any more.
    pub fn forget(&self, former: &Arc<Self>) {
        let mut trees = write(&self.former.trees);
        trees.retain(|tree| !Arc::ptr_eq(tree, former));
        self.former.count.store(trees.len() as u32, Ordering::Release);
    }

    /// Nobody may use it from now on, until it [goes on](Self::go_on). Says which life has ended.
    pub fn end(&self) -> u32 {
        self.life.swap(ENDED, Ordering::SeqCst)
    }

    /// It can be used again, after the life that has ended: what was seen in that one may be gone.
    pub fn go_on(&self, ended: u32) {
        self.life.store(ended.wrapping_add(1) % ENDED, Ordering::SeqCst);
    }

    /// The tree that this one was at a cut, if it is another one now.
    #[inline]
    pub fn former(&self, cut: &Cut) -> Option<Arc<Self>> {
        if self.former.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let trees = read(&self.former.trees);
        trees.iter().find(|tree| cut.is_before(tree.until)).cloned()
    }

    /// Whether it has anything that its pages do not say: what snapshots see of it.
    pub fn is_remembered(&self) -> bool {
        !self.images.is_empty() || self.former.count.load(Ordering::Acquire) > 0
    }

    /// The stamp at which it was cleared or dropped.
    pub fn until(&self) -> u64 {
        self.until
    }

    /// Refuses if the tree was dropped. For writers, inside of the gate.
    #[inline(always)]
    pub fn writable(&self) -> Result<&DbTree<M>> {
        if self.life.load(Ordering::Acquire) == ENDED { Err(Error::NoTree) } else { Ok(&self.tree) }
    }

    /// The tree, whoever may use it.
    pub fn tree(&self) -> &DbTree<M> {
        &self.tree
    }

    /// The values that its keys had at cuts.
    pub fn images(&self) -> &Images {
        &self.images
    }

    /// Runs a write; the caller is inside of the gate, and holds no latch. It has someone who keeps what it
    /// replaces if there is a cut that may need it.
    #[inline(always)]
    pub fn write<T>(
        &self,
        plain: impl FnOnce(&DbTree<M>) -> Result<T>,
        keeping: impl FnOnce(&DbTree<M>, &ImageKeeper<'_>) -> Result<T>,
    ) -> Result<T> {
        let tree = self.writable()?;
        self.versions.write(&self.images, || plain(tree), |keeper| keeping(tree, keeper))
    }

    /// As [`write`](Self::write), for a write that is the same with and without a keeper.
    pub fn write_kept<T>(
        &self,
        write: impl FnOnce(&DbTree<M>, Option<&KeepOld<'_>>) -> Result<T>,
    ) -> Result<T> {
        let tree = self.writable()?;
        self.versions.write_kept(&self.images, |keeper| write(tree, keeper))
    }

    /// Keeps what a write replaces that somebody may want who reads at a cut.
    pub fn keeper(&self) -> ImageKeeper<'_> {
        ImageKeeper { versions: &self.versions, images: &self.images }
    }

    /// After a write that may have kept something; nothing is latched.
    pub fn catch_up(&self) {
        self.versions.catch_up(&self.images);
    }

    /// Sets a value.
    #[inline(always)]
    pub fn set(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.write(
            |tree| tree.set(key, value, Condition::Always).map(drop),
            |tree, keeper| tree.set_keeping(keeper, key, value, Condition::Always).map(drop),
        )
    }

    /// Removes a key.
    #[inline(always)]
    pub fn delete(&self, key: &[u8]) -> Result<()> {
        self.write(
            |tree| tree.delete(key).map(drop),
            |tree, keeper| tree.delete_keeping(keeper, key).map(drop),
        )
    }

    /// The answer of a read, unless the tree was cleared or dropped meanwhile: its pages may be another's. A reader
    /// that has seen anything of their new life sees that, too, by the latch that came with it.
    #[inline(always)]
    pub fn read<T>(&self, mut read: impl FnMut(&DbTree<M>) -> Result<T>) -> Result<T> {
        // Again only if somebody has cleared the tree meanwhile: then it is short.
        let mut turns = Retries::default();
        loop {
            let life = self.life.load(Ordering::Acquire);
            if life == ENDED {
                return Err(Error::NoTree);
            }
            let found = read(&self.tree);
            if self.life.load(Ordering::Acquire) == life {
                return found;
            }
            turns.go_on(CLEARED)?;
        }
    }

    /// The same, with the place in which it was found.
    #[inline(always)]
    pub fn read_seen<T>(
        &self,
        read: impl FnMut(&DbTree<M>) -> Result<(T, KeyPlace)>,
    ) -> Result<(T, SeenPlace)> {
        // Before the read: if the tree is cleared in between, the leaf is not as it was seen.
        let life = self.life.load(Ordering::Acquire);
        let (found, place) = self.read(read)?;
        Ok((found, SeenPlace { place, life }))
    }

    /// Whether nobody has changed the leaf since it was seen, nor cleared the tree. It may say no although nobody has. The
    /// caller may hold the leaf.
    #[inline]
    pub fn is_as_seen(&self, seen: SeenPlace, is_held: IsHeld<'_>) -> Result<bool> {
        let is_as_seen = is_held(seen.place) || self.tree.is_as_seen(seen.place)?;
        Ok(is_as_seen && self.life.load(Ordering::Acquire) == seen.life)
    }

    #[cfg(feature = "dax")]
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.read(|tree| tree.get(key))
    }

    /// Moves a cursor. `is_seek` if it goes there from anywhere.
    #[inline(always)]
    pub fn go(
        &self,
        cursor: &mut Cursor,
        is_seek: bool,
        mut go: impl FnMut(&DbTree<M>, &mut Cursor) -> Result<Stepped>,
    ) -> Result<Stepped> {
        let mut turns = Retries::default();
        loop {
            let life = self.renew(cursor)?;
            let step = go(&self.tree, cursor);
            if self.life.load(Ordering::Acquire) == life {
                return step;
            }
            // A part of the way may have led through pages that are another's.
            cursor.clear();
            if !is_seek {
                self.writable()?;
                // At some time of this step there was nothing beside it, nor anywhere.
                return Ok(Stepped::End);
            }
            turns.go_on(CLEARED)?;
        }
    }

    /// Copies the leaf in which a cursor that reads at a cut goes on.
    pub fn copy_leaf(&self, cursor: &mut Cursor, from: Bound<&[u8]>, up: bool) -> Result<()> {
        let mut turns = Retries::default();
        loop {
            let life = self.renew(cursor)?;
            let copied = self.tree.cursor_copies(cursor, from, up);
            if self.life.load(Ordering::Acquire) == life {
                return copied;
            }
            turns.go_on(CLEARED)?;
        }
    }

    /// Reads the value of a cursor's pair, which has none yet; says whether the pair is still there.
    #[inline(always)]
    pub fn read_value(&self, cursor: &mut Cursor) -> Result<bool> {
        let mut turns = Retries::default();
        loop {
            let life = self.renew(cursor)?;
            let found = self.tree.cursor_value(cursor);
            if found.is_err() {
                // A pair whose leaf is of the former tree is not found in this one, which looks like damage:
                // if the tree is about to change its life, it has done so after this.
                drop(read(&self.former.trees));
            }
            if self.life.load(Ordering::Acquire) == life {
                return found;
            }
            cursor.forget_value();
            turns.go_on(CLEARED)?;
        }
    }

    /// Has a cursor know no leaf of what the tree was before. Says in which life the tree is.
    #[inline(always)]
    fn renew(&self, cursor: &mut Cursor) -> Result<u32> {
        let life = self.life.load(Ordering::Acquire);
        if life == ENDED {
            return Err(Error::NoTree);
        }
        if cursor.life != life {
            cursor.forget_leaf()?;
            cursor.life = life;
        }
        Ok(life)
    }

    /// Whether a step of a cursor was but one in memory of its own, in a tree that was not dropped.
    #[inline(always)]
    pub fn slides(&self, cursor: &mut Cursor, up: bool) -> bool {
        cursor.life == self.life.load(Ordering::Acquire) && self.tree.cursor_slides(cursor, up)
    }

    pub fn anchor(&self) -> PageNo {
        self.tree.anchor()
    }
}

/// A tree for who has its pool.
#[derive(Clone)]
pub(crate) enum TreeHandle {
    File(Arc<OpenTree<File>>),
    #[cfg(feature = "dax")]
    Dax(Arc<OpenTree<Dax>>),
}

/// One change of a batch: a new value, or none.
pub(crate) type Change<'a> = BatchChange<'a, [u8], [u8]>;

/// The changes of a batch to one tree, by ascending keys, none twice.
#[derive(Clone, Copy)]
pub(crate) struct TreeChanges<'a> {
    pub tree: &'a TreeHandle,
    pub changes: &'a [Change<'a>],
    /// Where some of their keys were read, and nobody has changed the leaf since; or nothing.
    pub seen: &'a [Option<KeyPlace>],
}

/// Runs the same code on the tree of either medium.
macro_rules! on_tree {
    ($id:expr, $tree:ident => $body:expr) => {
        match $id {
            TreeHandle::File($tree) => $body,
            #[cfg(feature = "dax")]
            TreeHandle::Dax($tree) => $body,
        }
    };
}

impl TreeHandle {
    #[cfg(feature = "dax")]
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        on_tree!(self, tree => tree.get(key))
    }
    #[cfg(feature = "dax")]
    pub fn anchor(&self) -> PageNo {
        on_tree!(self, tree => tree.anchor())
    }
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        on_tree!(self, tree => tree.set(key, value))
    }
    pub fn delete(&self, key: &[u8]) -> Result<()> {
        on_tree!(self, tree => tree.delete(key))
    }
    /// Whether a longer value for a key that is there makes its leaf fuller.
    pub fn values_grow(&self) -> bool {
        match self {
            TreeHandle::File(_) => DbTree::<File>::VALUES_GROW,
            #[cfg(feature = "dax")]
            TreeHandle::Dax(_) => DbTree::<Dax>::VALUES_GROW,
        }
    }
    /// The tree, if its pool is on a file.
    pub fn on_file(&self) -> Option<&OpenTree<File>> {
        match self {
            TreeHandle::File(tree) => Some(tree),
            #[cfg(feature = "dax")]
            TreeHandle::Dax(_) => None,
        }
    }
    /// The values that its keys had at cuts.
    pub fn images(&self) -> &Images {
        on_tree!(self, tree => tree.images())
    }
    /// The tree that this one was at a cut, if it was cleared or dropped since.
    pub fn former(&self, cut: &Cut) -> Option<TreeHandle> {
        match self {
            TreeHandle::File(tree) => tree.former(cut).map(TreeHandle::File),
            #[cfg(feature = "dax")]
            TreeHandle::Dax(tree) => tree.former(cut).map(TreeHandle::Dax),
        }
    }
    /// As [`OpenTree::is_as_seen`].
    pub fn is_as_seen(&self, seen: SeenPlace, is_held: IsHeld<'_>) -> Result<bool> {
        on_tree!(self, tree => tree.is_as_seen(seen, is_held))
    }
    /// A number that all handles of one tree of a pool have in common, and no others while there is one.
    pub fn id(&self) -> usize {
        on_tree!(self, tree => Arc::as_ptr(tree).addr())
    }
    /// Refuses if the tree was dropped.
    pub fn expect_there(&self) -> Result<()> {
        on_tree!(self, tree => tree.writable().map(drop))
    }
}

/// Whether a commit holds the leaf of a place, which is as it was seen.
pub(crate) type IsHeld<'h> = &'h dyn Fn(KeyPlace) -> bool;

/// The caller that wants a commit to be alone: what the commit asks it and tells it.
pub(crate) struct Alone<'a> {
    /// Whether it may happen, while no other writer is under way, or none to the leaves that it holds. It may be asked more
    /// than once.
    pub validate: &'a dyn Fn(IsHeld<'_>) -> Result<()>,
    /// The moment that it has read at, if it has read anything.
    pub cut: Option<&'a Cut>,
    /// Whether it has locked all that it writes.
    pub has_locked: bool,
}

impl Alone<'_> {
    /// It happens now: from here on nothing is asked any more, and nothing needs to be kept for what it has read.
    pub fn begin(&self) {
        self.cut.into_iter().for_each(Cut::end);
    }
}

/// Makes the only change of a batch, after all that it asks was answered.
pub(super) fn apply_alone(
    versions: &Versions,
    part: &TreeChanges<'_>,
    change: &Change<'_>,
    alone: Option<&Alone<'_>>,
) -> Result<()> {
    match alone.and_then(|alone| alone.cut) {
        Some(cut) => {
            let kept = (part.tree.images(), change.key);
            versions.unseen_by(cut, kept, || part.apply_one(change))
        }
        None => part.apply_one(change),
    }
}

impl TreeChanges<'_> {
    /// Reads all that the changes will change or free, and stores where.
    pub fn touch(&self, places: &mut [Option<KeyPlace>]) -> Result<()> {
        on_tree!(&self.tree, tree => tree.writable()?.touch(self.changes, self.seen, places))
    }

    /// Reads what names the root of the tree, which may become another one.
    pub fn touch_anchor(&self) -> Result<()> {
        on_tree!(&self.tree, tree => tree.tree().pool().anchor(tree.anchor()).map(drop))
    }

    /// The nodes that a change meets; `adds` is how many changes there are.
    pub fn stages(&self, change: &Change<'_>, adds: usize) -> Result<Vec<Stage>> {
        let value = change.value.map_or(0, <[u8]>::len);
        on_tree!(&self.tree, tree => tree.writable()?.stages(change.key, value, adds))
    }

    /// Refuses if the tree was dropped.
    pub fn expect_tree(&self) -> Result<()> {
        self.tree.expect_there()
    }

    /// Makes some of the changes that are left, which were touched; says how many.
    pub fn apply(&self, done: usize, places: &mut [Option<KeyPlace>]) -> Result<usize> {
        let changes = &self.changes[done..];
        on_tree!(&self.tree, tree => tree.write_kept(|tree, keeper| {
            tree.change_leaf(keeper, changes, places)
        }))
    }

    /// Makes a change without more ado.
    pub fn apply_one(&self, change: &Change<'_>) -> Result<()> {
        match change.value {
            Some(value) => self.tree.put(change.key, value),
            None => self.tree.delete(change.key),
        }
    }
}

/// A reader, and how many bytes of it are the value.
pub(crate) struct ValueSource<'r> {
    reader: &'r mut dyn Read,
    bytes: u64,
    done: u64,
}

impl<'r> ValueSource<'r> {
    pub fn new(reader: &'r mut dyn Read, bytes: u64) -> Self {
        Self { reader, bytes, done: 0 }
    }

    /// Fills `space` with the next bytes.
    fn fill(&mut self, mut space: &mut [u8]) -> Result<()> {
        while !space.is_empty() {
            let n = match uninterrupted(|| self.reader.read(space)) {
                Err(error) => return Err(Error::Reader { source: Arc::new(error) }),
                Ok(0) => {
                    return Err(Error::ReaderEnded {
                        bytes: self.done,
                        bytes_expected: self.bytes,
                    });
                }
                Ok(n) => n,
            };
            let room = space.len();
            let Some(rest) = space.get_mut(n..) else {
                let what = format!("a reader says that it read {n} bytes into {room}");
                return Err(Error::Invalid { what });
            };
            (space, self.done) = (rest, self.done + n as u64);
        }
        Ok(())
    }

    /// All bytes of a short value.
    fn whole(&mut self) -> Result<Vec<u8>> {
        let mut value = fallible::filled(0, self.bytes as usize, "a value")?;
        self.fill(&mut value)?;
        Ok(value)
    }
}

/// Sets the value of a key to what a reader gives.
pub(super) fn put_from<M: DbMedium>(
    store: &impl Store,
    tree: &OpenTree<M>,
    key: &[u8],
    source: &mut ValueSource<'_>,
) -> Result<()> {
    let begin = || tree.writable()?.begin_large(key, source.bytes);
    let Some(mut value) = store.with_room(|| store.enter(begin))? else {
        let value = source.whole()?;
        return store.with_room(|| store.enter(|| tree.set(key, &value)));
    };
    while let Some(space) = value.space() {
        source.fill(space)?;
        store.enter(|| value.write())?;
    }
    // Whichever way it goes, it has the value.
    let (value, when) = (std::cell::Cell::new(Some(value)), Condition::Always);
    let take = || value.take().expect("one of the two ways is gone");
    store.enter(|| {
        tree.write(
            |tree| tree.set_large(key, take(), when).map(drop),
            |tree, keeper| tree.set_large_keeping(keeper, key, take(), when).map(drop),
        )
    })
}
