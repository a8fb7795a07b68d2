//! Versions for snapshots: values that were replaced after a snapshot was made, in memory only.
//!
//! ```text
//! clock   s          s + 1
//!         ───────────┼─────────────────────────►   a cut: while no writer is inside of the gate
//! writes  seen       kept by the first one of each key, with the stamp s + 1, before the leaf changes
//! ```
//!
//! A snapshot is the number of its cut. A write bears the clock's number as its stamp. If somebody reads at a cut
//! and a key changes for the first time since, what the key had goes to the *images* of its tree, with the stamp
//! of the write. A read of a key at cut s takes the first of the key's images with a stamp above s; if there is none, the
//! key has not changed since, and the tree has it. Readers look at the tree first and at the images after that, so
//! that no change falls between. While nobody has a snapshot a write costs one load and a branch more.
//!
//! After *Memory-Optimized Multi-Version Concurrency Control for Disk-Based Database Systems* (Freitag, Kemper and
//! Neumann, VLDB 2022). There before-images hang off pages. Here they are kept by key: splits, merges and
//! evictions have nothing to do with them.
//!
//! A cursor at a cut copies a leaf, and is [told](Images::tell_changes) once what of its keys has changed.
//!
//! A write puts what it keeps behind what others have kept; the first one who looks for an image sorts them by their keys, or a
//! write when they are many. So a cut that nobody reads at, such as a snapshot at each end of an epoch, costs a write
//! a copy of the key and of the value, and no search ([`kept.rs`](super::kept)).
//!
//! Images go when no cut needs them: at once with the last cut, those that nobody has looked for with the oldest one, and
//! else when they have become twice as many. They have a bound; the oldest cut is given up first.
//!
//! The [`Gate`] lets many writers pass, or one thread that must be alone, to make a cut or to validate a transaction.

use std::cell::Cell;
use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool as StdAtomicBool, AtomicU64 as StdAtomicU64};

use crossbeam_utils::CachePadded;
use everleaf_file::{Part, Share, observe};
use everleaf_pmem::fallible;
use everleaf_pmem::fallible::taken;
use everleaf_tree::blink::{self, Before, KeepBefore};

use super::kept::{IMAGES, Kept, Recents, Stamps};
use super::spread::Sum;
use super::sync::{
    AtomicBool, AtomicU64, AtomicUsize, Mutex, Ordering, PARTS, RwLock, RwLockReadGuard,
    RwLockWriteGuard, lock, read, thread_local, thread_number, write,
};
use crate::sorted::{Place, Sorted, behind};
use crate::{Error, Result};

/// So many images are not worth a sweep.
const FEW: u64 = 1024;
/// Listeners hear of images again when these take so many bytes more, or fewer.
const TELL_BYTES: u64 = 64 << 10;

/// So many changed keys of a leaf are told to a cursor at once, at most.
const MOST_AT_ONCE: usize = 512;

/// So many images are recent at most, and take this part of the memory for all: whoever looks for one waits until they are
/// sorted, which takes some milliseconds.
const RECENT_MOST: usize = 32 << 10;
const RECENT_PART: u64 = 16;

type KeyBound<'k> = Bound<&'k [u8]>;
/// A key, and what it had.
pub(crate) type KeyBefore = (Vec<u8>, Before<Vec<u8>>);

/// The value that a key had until a stamp.
#[derive(Debug)]
struct KeyImage {
    until: u64,
    before: Kept,
}

/// The images of a key by rising stamps: as a rule there is one.
#[derive(Debug)]
enum Chain {
    Empty,
    One(KeyImage),
    Many(Vec<KeyImage>),
}

impl Chain {
    fn images(&self) -> &[KeyImage] {
        match self {
            Chain::Empty => &[],
            Chain::One(image) => std::slice::from_ref(image),
            Chain::Many(images) => images,
        }
    }

    /// Bytes of the memory that it leads to.
    fn bytes(&self) -> u64 {
        let list = match self {
            Chain::Empty | Chain::One(_) => 0,
            Chain::Many(images) => taken(images.capacity() * size_of::<KeyImage>()),
        };
        list + self.images().iter().map(|image| image.before.bytes()).sum::<u64>()
    }

    /// Makes room for one more.
    fn make_room(&mut self) -> Result<()> {
        match self {
            Chain::Empty => {}
            Chain::One(_) => {
                let mut images = fallible::list(2, IMAGES)?;
                if let Chain::One(first) = std::mem::replace(self, Chain::Empty) {
                    images.push(first);
                }
                *self = Chain::Many(images);
            }
            Chain::Many(images) => fallible::more(images, 1, IMAGES)?,
        }
        Ok(())
    }

    /// Adds one, for which there is room.
    fn add(&mut self, image: KeyImage) {
        match self {
            Chain::Empty => *self = Chain::One(image),
            Chain::One(_) => debug_assert!(false, "no room was made"),
            Chain::Many(images) => images.push(image),
        }
    }

    fn retain(&mut self, mut keep: impl FnMut(&KeyImage) -> bool) {
        match self {
            Chain::Empty => {}
            Chain::One(image) => {
                if !keep(image) {
                    *self = Chain::Empty;
                }
            }
            Chain::Many(images) => {
                images.retain(keep);
                if images.len() < 2 {
                    *self = images.pop().map_or(Chain::Empty, Chain::One);
                }
            }
        }
    }
}

/// The images of a tree: for each key by rising stamps; and those that came since somebody last looked for one, as they
/// came. So who writes beside a cut that nobody reads at searches for nothing.
#[derive(Debug, Default)]
struct KeyImages {
    keys: Sorted<Chain>,
    recent: Recents,
}

impl KeyImages {
    fn len(&self) -> usize {
        self.keys.len() + self.recent.len()
    }

    /// How many there are, and one for room: as long as it is not 0 a sweep comes by.
    fn count(&self) -> usize {
        self.len() + usize::from(!self.recent.is_bare())
    }

    /// Bytes that the lists take, without what chains lead to.
    fn bytes(&self) -> u64 {
        self.keys.bytes() + self.recent.bytes()
    }

    /// Whether so many are recent that it would take long to look for one, or more memory than it should.
    fn is_behind(&self, bytes_max: u64) -> bool {
        self.recent.len() >= RECENT_MOST || self.recent.bytes_used() > bytes_max / RECENT_PART
    }

    /// Puts recent images to their keys, and drops those of keys that had one already.
    ///
    /// # Errors
    /// NoMemory: some are recent still.
    fn sort(&mut self, versions: &Versions) -> Result<()> {
        if self.recent.is_empty() {
            return Ok(());
        }
        let (before, mut chains, mut gone) = (self.bytes(), 0_u64, 0);
        let (keys, mut near) = (&mut self.keys, (0, 0));
        let done = self.recent.sort_out(|key, stamps, kept| {
            let is_kept = sorted_in(keys, (key, &mut near), stamps, kept, &mut chains)?;
            gone += u64::from(!is_kept);
            Ok(())
        });
        versions.images.fetch_sub(gone, Ordering::Relaxed);
        let more = self.bytes().wrapping_add(chains).wrapping_sub(before);
        versions.bytes.fetch_add(more, Ordering::Relaxed);
        done
    }
}

/// Puts a recent image to its key, which is not below the entry at a place, unless the key has one already: says whether it
/// has put it there. Counts how much more memory the chain leads to, also after an error.
fn sorted_in(
    keys: &mut Sorted<Chain>,
    (key, near): (&[u8], &mut Place),
    Stamps { until, newest }: Stamps,
    kept: &mut dyn FnMut() -> Result<Kept>,
    chains: &mut u64,
) -> Result<bool> {
    let chain = keys.entry_behind(key, near, || Chain::Empty, IMAGES)?;
    if chain.images().last().is_some_and(|last| last.until >= newest) {
        return Ok(false);
    }
    let before = chain.bytes();
    // A key without images stays if there is no memory, until a sweep.
    let added = chain.make_room().and_then(|()| kept());
    let is_added = added.map(|before| chain.add(KeyImage { until, before }));
    *chains += chain.bytes() - before;
    is_added.map(|()| true)
}

/// The images of one tree.
#[derive(Debug, Default)]
pub(crate) struct Images {
    keys: RwLock<KeyImages>,
    /// Keys in there, or more; 0 if nothing is there, nor room for it.
    count: AtomicUsize,
    /// So many are recent that a writer is to sort them, once it holds no latch.
    is_behind: StdAtomicBool,
}

type Cuts = VecDeque<(u64, Arc<AtomicBool>)>;

/// The cuts of a pool that somebody reads at, and the images that they need.
#[derive(Debug)]
pub(crate) struct Versions {
    /// The stamp of a write. Changed only while no writer is inside of the gate.
    clock: AtomicU64,
    /// The newest cut that somebody reads at, and 1; 0 if there is none.
    newest: AtomicU64,
    /// Each of them, the oldest first, and whether it was given up.
    cuts: Mutex<Cuts>,
    /// Counts each change of several keys at its begin and at its end: it is odd while one is under way.
    wholes: CachePadded<AtomicU64>,
    /// Trees that have images.
    touched: Mutex<Vec<Arc<Images>>>,
    bytes: AtomicU64,
    bytes_max: u64,
    /// Whether the bound is for this pool alone. Else it is for all that share memory with it.
    is_own: bool,
    share: Share,
    images: AtomicU64,
    /// How many images make the next sweep due.
    due: AtomicU64,
    pool: observe::Uuid,
    /// Bytes of images when figures were told last.
    told: StdAtomicU64,
    counters: Counters,
}

/// Counts of events since the open. No thread orders anything by these, so they are not a part of what loom checks.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Transactions that were committed and had writes.
    pub transactions: Sum,
    /// Transactions that others were in the way of.
    pub conflicts: StdAtomicU64,
    /// Cuts that were given up.
    pub given_up: StdAtomicU64,
}

/// A moment that somebody reads at, until this is dropped.
#[derive(Debug)]
pub(crate) struct Cut {
    versions: Arc<Versions>,
    at: u64,
    is_too_old: Arc<AtomicBool>,
}

impl Cut {
    /// Refuses if the images for it are gone. To be asked after what counts was read.
    pub fn alive(&self) -> Result<()> {
        match self.is_too_old.load(Ordering::Acquire) {
            false => Ok(()),
            true => Err(self.too_old()),
        }
    }

    /// The error of a cut whose old values are not kept.
    pub fn too_old(&self) -> Error {
        Error::SnapshotTooOld { bytes_max: self.versions.bytes_max }
    }

    /// Whether it comes before the end of a stamp.
    pub fn is_before(&self, until: u64) -> bool {
        self.at < until
    }

    /// Nobody reads at it any more.
    pub fn end(&self) {
        self.versions.unregister(self.at);
    }
}

impl Drop for Cut {
    fn drop(&mut self) {
        self.end();
    }
}

/// A change of several keys is under way until this is dropped.
pub(crate) struct Whole<'v>(&'v AtomicU64);

impl Drop for Whole<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Release);
    }
}

impl Versions {
    /// Of a pool whose old values may take so many bytes, by itself or together with those that share memory with it.
    pub fn new(pool: observe::Uuid, (bytes_max, is_own): (u64, bool), share: Share) -> Arc<Self> {
        Arc::new(Self {
            clock: AtomicU64::new(1),
            newest: AtomicU64::new(0),
            cuts: Mutex::default(),
            wholes: CachePadded::new(AtomicU64::new(0)),
            touched: Mutex::default(),
            bytes: AtomicU64::new(0),
            bytes_max,
            is_own,
            share,
            images: AtomicU64::new(0),
            due: AtomicU64::new(FEW),
            pool,
            told: StdAtomicU64::new(0),
            counters: Counters::default(),
        })
    }

    /// Whether somebody reads at a cut, so that writes have to keep what they replace. That does not begin while a
    /// writer is inside of the gate; it may end.
    #[inline(always)]
    pub fn is_watched(&self) -> bool {
        self.newest.load(Ordering::Relaxed) != 0
    }

    /// Runs a write to the tree that these images are of; the caller is inside of the gate, and holds no latch. It
    /// has someone who keeps what it replaces if there is a cut that may need it.
    #[inline(always)]
    pub fn write<T>(
        &self,
        images: &Arc<Images>,
        plain: impl FnOnce() -> Result<T>,
        keeping: impl FnOnce(&ImageKeeper<'_>) -> Result<T>,
    ) -> Result<T> {
        if !self.is_watched() {
            return plain();
        }
        let answer = keeping(&ImageKeeper { versions: self, images });
        self.catch_up(images);
        answer
    }

    /// As [`write`](Self::write), for a write that is the same with and without a keeper.
    pub fn write_kept<T>(
        &self,
        images: &Arc<Images>,
        write: impl FnOnce(Option<&KeepOld<'_>>) -> Result<T>,
    ) -> Result<T> {
        if !self.is_watched() {
            return write(None);
        }
        let answer = write(Some(&ImageKeeper { versions: self, images }));
        self.catch_up(images);
        answer
    }

    /// After a write that may have kept something, of the tree with these images; the caller holds no latch.
    pub fn catch_up(&self, images: &Images) {
        images.catch_up(self);
        self.settle();
    }

    /// Begins a change of several keys that is one. They come one after the other.
    pub fn begin_whole(&self) -> Whole<'_> {
        let before = self.wholes.fetch_add(1, Ordering::AcqRel);
        debug_assert!(before.is_multiple_of(2), "another one is under way");
        Whole(&self.wholes)
    }

    /// Whether no such change is under way. A reader that has seen a part of one, and hears that none is,
    /// has all of it before it.
    #[inline]
    pub fn is_whole(&self) -> bool {
        self.wholes.load(Ordering::Acquire).is_multiple_of(2)
    }

    /// Ends the time of a stamp, which it says: later writes have another one. The caller keeps writers out.
    pub fn end_stamp(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether somebody reads at a cut from before a stamp.
    pub fn is_needed(&self, until: u64) -> bool {
        lock(&self.cuts).front().is_some_and(|(at, _)| *at < until)
    }

    /// Makes a cut. The caller keeps writers out.
    pub fn cut(self: &Arc<Self>) -> Arc<Cut> {
        let mut cuts = lock(&self.cuts);
        let at = self.clock.load(Ordering::Relaxed);
        let is_too_old = Arc::new(AtomicBool::new(false));
        cuts.push_back((at, Arc::clone(&is_too_old)));
        self.newest.store(at + 1, Ordering::Relaxed);
        self.clock.store(at + 1, Ordering::Relaxed);
        drop(cuts);
        self.tell();
        Arc::new(Cut { versions: Arc::clone(self), at, is_too_old })
    }

    fn unregister(&self, at: u64) {
        let mut cuts = lock(&self.cuts);
        let Ok(no) = cuts.binary_search_by_key(&at, |(at, _)| *at) else { return };
        cuts.remove(no);
        self.show_newest(&cuts);
        let oldest = cuts.front().map(|(at, _)| *at);
        drop(cuts);
        match oldest {
            None => self.sweep(),
            // Its images are recent as a rule, and then they are the first ones.
            Some(oldest) if no == 0 && self.images.load(Ordering::Relaxed) >= FEW => {
                self.drop_recent(oldest);
            }
            Some(_) => {}
        }
        self.tell();
    }

    fn show_newest(&self, cuts: &Cuts) {
        let newest = cuts.back().map_or(0, |(at, _)| at + 1);
        self.newest.store(newest, Ordering::Relaxed);
    }

    /// Runs the write of a transaction that is alone: what that replaces is kept for other cuts than its own, which ends
    /// with it. If it fails, the cut goes on. If it has found no room, nothing has changed, and nothing is kept that would
    /// say so: the transaction may be tried again.
    pub fn unseen_by<T>(
        &self,
        cut: &Cut,
        (images, key): (&Images, &[u8]),
        write: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let before = images.last_change(key, self)?;
        let cuts = lock(&self.cuts);
        let other = cuts.iter().rev().find(|(at, _)| *at != cut.at);
        self.newest.store(other.map_or(0, |(at, _)| at + 1), Ordering::Relaxed);
        drop(cuts);
        let done = write();
        match &done {
            Ok(_) => cut.end(),
            Err(error) => {
                if matches!(error, Error::Full { .. }) {
                    images.take_back(key, before, self);
                }
                self.show_newest(&lock(&self.cuts));
            }
        }
        done
    }

    /// Figures of what snapshots and transactions take.
    pub fn figures(&self) -> observe::Versions {
        observe::Versions {
            snapshots: lock(&self.cuts).len() as u64,
            values: self.images.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }

    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Tells the figures to who listens. The caller holds no lock of this.
    fn tell(&self) {
        if observe::IS_ON {
            let figures = self.figures();
            self.told.store(figures.bytes, Ordering::Relaxed);
            observe::versions_changed(&self.pool, &figures);
        }
    }

    /// The same, if they have changed by much.
    fn tell_growth(&self) {
        let told = self.told.load(Ordering::Relaxed);
        if observe::IS_ON && self.bytes.load(Ordering::Relaxed).abs_diff(told) >= TELL_BYTES {
            self.tell();
        }
    }

    /// How a transaction that has writes came out.
    pub fn count_commit(&self, outcome: &Result<()>) {
        match outcome {
            Ok(()) => {
                self.counters.transactions.add(1);
                observe::transaction_committed(&self.pool);
            }
            Err(Error::Conflict { tree, .. }) => {
                self.counters.conflicts.fetch_add(1, Ordering::Relaxed);
                observe::transaction_conflicted(&self.pool, tree);
            }
            Err(_) => {}
        }
    }

    /// After a write that may have kept something; the caller holds no latch. Gives up cuts while images take too
    /// much, and removes images that nobody needs.
    pub fn settle(&self) {
        self.tell_memory();
        let images = self.images.load(Ordering::Relaxed);
        // The last cut may have ended while the write kept something for it.
        let is_due = images >= self.due.load(Ordering::Relaxed) || images > 0 && !self.is_watched();
        if !is_due && !self.is_over() {
            return self.tell_growth();
        }
        if self.is_over() {
            self.sort();
        }
        self.sweep();
        while self.is_over() && self.give_up_oldest() {}
        self.tell();
    }

    fn is_over(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) > self.most()
    }

    /// Bytes that images may take now.
    fn most(&self) -> u64 {
        if self.is_own { self.bytes_max } else { self.share.of(Part::Versions, self.bytes_max) }
    }

    /// Tells those who share memory with this pool what images take.
    fn tell_memory(&self) {
        self.share.tell_roughly(Part::Versions, self.bytes.load(Ordering::Relaxed));
    }

    /// Gives up all cuts: what they see is not kept any more. The caller keeps writers out.
    pub fn give_up_all(&self) {
        while self.give_up_oldest() {}
        self.tell();
    }

    /// Says whether there was one.
    fn give_up_oldest(&self) -> bool {
        let mut cuts = lock(&self.cuts);
        let Some((_, oldest)) = cuts.pop_front() else { return false };
        oldest.store(true, Ordering::Release);
        self.show_newest(&cuts);
        drop(cuts);
        self.sweep();
        self.counters.given_up.fetch_add(1, Ordering::Relaxed);
        observe::snapshot_given_up(&self.pool, self.bytes_max);
        true
    }

    /// Sorts recent images of all trees, so that those go that no key needs.
    fn sort(&self) {
        let tree = |no: usize| lock(&self.touched).get(no).cloned();
        for tree in (0..).map_while(tree) {
            // Without memory some stay recent.
            let _ = write(&tree.keys).sort(self);
        }
    }

    /// Removes images that no cut needs.
    fn sweep(&self) {
        // A tree that gets images after this is swept by its writer, who sees then what has ended.
        if lock(&self.touched).is_empty() {
            return;
        }
        let tree = |no: usize| lock(&self.touched).get(no).cloned();
        for tree in (0..).map_while(tree) {
            let mut from = 0;
            while let Some(next) = tree.sweep(from, self) {
                from = next;
            }
        }
        lock(&self.touched).retain(|tree| tree.count.load(Ordering::Relaxed) > 0);
        let left = self.images.load(Ordering::Relaxed);
        self.due.store((2 * left).max(FEW), Ordering::Relaxed);
        self.tell_memory();
    }

    /// Drops recent images of all trees from up to a cut.
    fn drop_recent(&self, upto: u64) {
        let tree = |no: usize| lock(&self.touched).get(no).cloned();
        for tree in (0..).map_while(tree) {
            tree.drop_recent(upto, self);
        }
    }

    /// So many images are gone, and so many bytes.
    fn forget(&self, images: usize, bytes: u64) {
        self.images.fetch_sub(images as u64, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Images {
    /// Drops recent images from up to a cut: there is no older one.
    fn drop_recent(&self, upto: u64, versions: &Versions) {
        let mut keys = write(&self.keys);
        let before = keys.bytes();
        let gone = keys.recent.drop_until(upto);
        versions.forget(gone, before - keys.bytes());
        self.count.store(keys.count(), Ordering::Release);
    }

    /// Removes images that no cut needs from some of the keys; says where to go on, if there may be more.
    fn sweep(&self, from: usize, versions: &Versions) -> Option<usize> {
        let mut keys = write(&self.keys);
        // Under that lock: what is kept for a cut that is made after this comes after it, too.
        let cuts = lock(&versions.cuts);
        if cuts.is_empty() {
            drop(cuts);
            let all = std::mem::take(&mut *keys);
            self.count.store(0, Ordering::Release);
            drop(keys);
            let (mut gone, mut bytes) = (all.recent.len(), all.bytes());
            for (_, chain) in all.keys {
                (gone, bytes) = (gone + chain.images().len(), bytes + chain.bytes());
            }
            versions.forget(gone, bytes);
            return None;
        }
        let (before, mut gone, mut bytes) = (keys.bytes(), 0, 0);
        if from == 0 {
            let oldest = cuts.front().map_or(0, |(at, _)| *at);
            gone += keys.recent.drop_until(oldest);
        }
        let next = keys.keys.retain_in(from, |_, chain| {
            bytes += chain.bytes();
            let mut since = 0;
            chain.retain(|image| {
                let first = cuts.partition_point(|(at, _)| *at < since);
                let is_needed = cuts.get(first).is_some_and(|(at, _)| *at < image.until);
                since = image.until;
                gone += usize::from(!is_needed);
                is_needed
            });
            bytes -= chain.bytes();
            !chain.images().is_empty()
        });
        if versions.is_over() {
            keys.recent.give_back();
        }
        versions.forget(gone, bytes + before - keys.bytes());
        self.count.store(keys.count(), Ordering::Release);
        next
    }

    /// Whether nothing is kept. A reader that is told so because of a sweep sees that its cut was given up.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Sorts recent images if they are many. The caller holds no latch.
    fn catch_up(&self, versions: &Versions) {
        if self.is_behind.load(Ordering::Relaxed) && self.is_behind.swap(false, Ordering::Relaxed) {
            // Without memory some stay recent.
            let _ = write(&self.keys).sort(versions);
        }
    }

    /// The images by their keys: all that were kept before this was asked. Those that come meanwhile are of changes that
    /// whoever asks has not seen in the tree.
    fn sorted(&self, versions: &Versions) -> Result<RwLockReadGuard<'_, KeyImages>> {
        let keys = read(&self.keys);
        if keys.recent.is_empty() {
            return Ok(keys);
        }
        drop(keys);
        write(&self.keys).sort(versions)?;
        Ok(read(&self.keys))
    }

    /// The value that a key had at a cut, if it has changed since, and before `until`. To be asked after the tree was read.
    pub fn find(&self, cut: &Cut, until: u64, key: &[u8]) -> Result<Option<Before<Vec<u8>>>> {
        if self.is_empty() {
            return Ok(None);
        }
        let keys = self.sorted(&cut.versions)?;
        let image = keys.keys.get(key).and_then(|chain| seen(chain.images(), cut));
        let image = image.filter(|image| image.until <= until);
        image.map(|image| image.before.shown()).transpose()
    }

    /// The first key between two bounds, from below or from above, that had another value at a cut than the tree
    /// has now, with that value. `at` is a key that the tree has now: of the others those that were absent at the
    /// cut are left out. Changes after `until` do not count.
    pub fn next(
        &self,
        (cut, until): (&Cut, u64),
        (low, high): (KeyBound<'_>, KeyBound<'_>),
        up: bool,
        at: Option<&[u8]>,
    ) -> Result<Option<KeyBefore>> {
        if self.is_empty() {
            return Ok(None);
        }
        let keys = self.sorted(&cut.versions)?;
        let seen = |(key, chain): (&[u8], &Chain)| {
            let image = seen(chain.images(), cut).filter(|image| image.until <= until)?;
            let counts = !matches!(image.before, Kept::Absent) || at == Some(key);
            counts.then(|| Ok((fallible::copy(key, IMAGES)?, image.before.shown()?)))
        };
        let mut range = keys.keys.range(low, high);
        if up { range.find_map(seen) } else { range.rev().find_map(seen) }.transpose()
    }

    /// Tells a cursor that has copied a leaf, to go on from a bound upwards or downwards, what of its keys had another
    /// value at a cut, but for what has changed after `until`. The leaf was read before.
    pub fn tell_changes(
        &self,
        (cut, until): (&Cut, u64),
        at: &mut blink::Cursor,
        (from, up): (KeyBound<'_>, bool),
    ) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        let keys = &self.sorted(&cut.versions)?.keys;
        let Some(next) = told(keys, (cut, until), at)? else { return Ok(()) };
        // A leaf that had many pairs. The cursor gets those that it comes to first.
        let (low, high) = at.past_range();
        let begin = match from {
            Bound::Unbounded => None,
            Bound::Included(key) if !up => Some(behind(key, IMAGES)?),
            Bound::Included(key) | Bound::Excluded(key) => Some(fallible::copy(key, IMAGES)?),
        };
        let end = match (up, &begin) {
            // They were told from there on.
            (true, None) => Some(next),
            (true, Some(begin)) if low == Bound::Included(&begin[..]) => Some(next),
            (true, Some(begin)) => {
                let mut behind = keys.range(Bound::Included(&begin[..]), high);
                behind.nth(MOST_AT_ONCE).map(|(key, _)| key)
            }
            (false, _) => keys.range(low, from).nth_back(MOST_AT_ONCE - 1).map(|(key, _)| key),
        };
        let is_told = up && end == Some(next);
        let end = end.map(|key| fallible::copy(key, IMAGES)).transpose()?;
        let (begin, end) = if up { (begin, end) } else { (end, begin) };
        if !is_told {
            at.begin_past_at(begin);
        }
        if let Some(end) = end {
            at.cut_off_past(end);
        }
        if !is_told {
            let rest = told(keys, (cut, until), at)?;
            debug_assert_eq!(rest, None, "so many fit");
        }
        Ok(())
    }

    /// When a key was changed last, if that is known.
    fn last_change(&self, key: &[u8], versions: &Versions) -> Result<Option<u64>> {
        if self.is_empty() {
            return Ok(None);
        }
        let keys = self.sorted(versions)?;
        let last = keys.keys.get(key).and_then(|chain| chain.images().last());
        Ok(last.map(|image| image.until))
    }

    /// Forgets what a write has kept of a key that was last changed `before`, and was not changed by it. The caller keeps
    /// other writers out.
    fn take_back(&self, key: &[u8], before: Option<u64>, versions: &Versions) {
        let mut keys = write(&self.keys);
        let with = keys.bytes();
        if keys.recent.take_back(key, |until| Some(until) != before) {
            return versions.forget(1, with - keys.bytes());
        }
        let Some(chain) = keys.keys.get_mut(key) else { return };
        let bytes = chain.bytes();
        let last = chain.images().last().map(|image| image.until);
        if let Some(last) = last.filter(|last| Some(*last) != before) {
            chain.retain(|image| image.until != last);
            // The key stays until a sweep.
            versions.forget(1, bytes - chain.bytes());
        }
    }

    /// Whether a key was changed after a cut.
    ///
    /// # Errors
    /// NoMemory.
    pub fn has_changed(&self, cut: &Cut, key: &[u8]) -> Result<bool> {
        if self.is_empty() {
            return Ok(false);
        }
        let keys = self.sorted(&cut.versions)?;
        Ok(keys.keys.get(key).is_some_and(|chain| seen(chain.images(), cut).is_some()))
    }

    /// The first key between two bounds that was changed after a cut.
    ///
    /// # Errors
    /// NoMemory.
    pub fn changed(
        &self,
        cut: &Cut,
        (low, high): (KeyBound<'_>, KeyBound<'_>),
    ) -> Result<Option<Vec<u8>>> {
        if self.is_empty() {
            return Ok(None);
        }
        let keys = self.sorted(&cut.versions)?;
        let mut range = keys.keys.range(low, high);
        let found = range.find(|(_, chain)| seen(chain.images(), cut).is_some());
        Ok(found.map(|(key, _)| key.to_vec()))
    }
}

/// Tells a cursor what of a leaf's keys had another value at a cut: of so many that have changed at most. Says which one
/// comes next if that was not all.
fn told<'i>(
    keys: &'i Sorted<Chain>,
    (cut, until): (&Cut, u64),
    at: &mut blink::Cursor,
) -> Result<Option<&'i [u8]>> {
    let low = match at.past_range().0 {
        Bound::Included(low) => low,
        _ => &[],
    };
    let mut range = keys.range_near(low, at.near);
    for n in 0.. {
        at.near = range.place();
        range.prefetch();
        let Some((key, chain)) = range.next() else { break };
        if n == MOST_AT_ONCE {
            return Ok(at.is_below_past(key).then_some(key));
        }
        let image = seen(chain.images(), cut).filter(|image| image.until <= until);
        let is_within = match image {
            Some(image) => at.change_past(key, image.before.was())?,
            None => at.is_below_past(key),
        };
        if !is_within {
            break;
        }
    }
    Ok(None)
}

/// The image that counts at a cut.
fn seen<'i>(images: &'i [KeyImage], cut: &Cut) -> Option<&'i KeyImage> {
    images.iter().find(|image| image.until > cut.at)
}

/// One who keeps what writes to one tree replace.
pub(crate) type KeepOld<'k> = dyn KeepBefore<[u8], Vec<u8>> + 'k;

/// Keeps what writes to one tree replace.
pub(crate) struct ImageKeeper<'v> {
    pub versions: &'v Versions,
    pub images: &'v Arc<Images>,
}

impl KeepBefore<[u8], Vec<u8>> for ImageKeeper<'_> {
    fn is_due(&self, _: &[u8]) -> bool {
        self.versions.newest.load(Ordering::Relaxed) != 0
    }

    fn is_kept(&self, key: &[u8]) -> Result<bool> {
        let newest = self.versions.newest.load(Ordering::Relaxed);
        let last = self.images.last_change(key, self.versions)?;
        Ok(last.is_some_and(|last| last >= newest))
    }

    fn takes(&self, bytes: usize) -> bool {
        bytes as u64 <= self.versions.bytes_max / 4
    }

    fn keep(&self, key: &[u8], before: Before<Vec<u8>>) -> Result<()> {
        self.keep_by(|recent, stamps| recent.push(key, before, stamps))
    }

    fn keep_inside(
        &self,
        key: &[u8],
        bytes: usize,
        append: &mut dyn FnMut(&mut Vec<u8>) -> Result<()>,
    ) -> Result<()> {
        self.keep_by(|recent, stamps| recent.push_copied(key, bytes, append, stamps))
    }
}

impl ImageKeeper<'_> {
    #[inline(always)]
    fn keep_by(&self, push: impl FnOnce(&mut Recents, Stamps) -> Result<()>) -> Result<()> {
        let ImageKeeper { versions, images } = self;
        let mut keys = write(&images.keys);
        if keys.count() == 0 {
            let mut touched = lock(&versions.touched);
            fallible::push(&mut touched, Arc::clone(images), IMAGES)?;
            // With the list in hand: a sweep that has just emptied this tree would take it off again.
            images.count.store(1, Ordering::Release);
        }
        let bytes = keys.bytes();
        let until = versions.clock.load(Ordering::Relaxed);
        let newest = versions.newest.load(Ordering::Relaxed);
        let done = push(&mut keys.recent, Stamps { until, newest });
        versions.bytes.fetch_add(keys.bytes() - bytes, Ordering::Relaxed);
        done?;
        versions.images.fetch_add(1, Ordering::Relaxed);
        if keys.is_behind(versions.bytes_max) {
            images.is_behind.store(true, Ordering::Relaxed);
        }
        images.count.store(keys.count(), Ordering::Release);
        Ok(())
    }
}

/// In parts, so that writers of different parts share no word.
pub(crate) struct Gate(Box<[CachePadded<RwLock<()>>; PARTS]>);

/// A writer has passed: nobody is alone until this is dropped.
pub(crate) struct Passed<'g>(
    #[expect(dead_code, reason = "held")] RwLockReadGuard<'g, ()>,
    InsideGate,
);

/// Everybody is out, and stays out until this is dropped.
pub(crate) struct Closed<'g>(
    #[expect(dead_code, reason = "held")] [RwLockWriteGuard<'g, ()>; PARTS],
    InsideGate,
);

impl Gate {
    pub fn new() -> Self {
        Self(Box::new(std::array::from_fn(|_| CachePadded::default())))
    }

    /// Waits while the gate is closed. A thread that passes or closes a second time could wait for
    /// itself for ever; debug builds refuse that.
    pub fn pass(&self) -> Passed<'_> {
        let inside = InsideGate::enter();
        let mine = thread_number() % self.0.len();
        Passed(read(&self.0[mine]), inside)
    }

    /// Waits until everybody is out, and keeps them out.
    pub fn close(&self) -> Closed<'_> {
        let inside = InsideGate::enter();
        Closed(self.0.each_ref().map(|part| write(part)), inside)
    }
}

thread_local! {
    /// Whether this thread is inside a gate, in debug builds.
    #[allow(clippy::missing_const_for_thread_local, reason = "loom's macro knows no const")]
    static INSIDE: Cell<bool> = Cell::new(false);
}

/// This thread is inside a gate.
struct InsideGate;

impl InsideGate {
    fn enter() -> Self {
        if cfg!(debug_assertions) {
            let was_inside = INSIDE.with(|cell| cell.replace(true));
            assert!(!was_inside, "a thread in a gate would wait for itself");
        }
        Self
    }
}

impl Drop for InsideGate {
    fn drop(&mut self) {
        if cfg!(debug_assertions) {
            INSIDE.with(|cell| cell.set(false));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_for_which_there_is_no_memory_is_counted_as_what_it_has_taken() {
        let (mut keys, mut near, mut bytes) = (Sorted::default(), (0, 0), 0);
        let mut add = |until, kept: Result<Kept>| {
            let (at, stamps) = ((&b"k"[..], &mut near), Stamps { until, newest: until });
            let mut kept = Some(kept);
            let mut kept = || kept.take().expect("asked once");
            let added = sorted_in(&mut keys, at, stamps, &mut kept, &mut bytes);
            let counted = keys.get(b"k").map_or(0, Chain::bytes);
            assert_eq!(bytes, counted, "until {until}");
            added
        };
        assert!(add(1, Ok(Kept::TooLarge)).expect("memory"));
        add(2, Err(Error::NoMemory { what: IMAGES, bytes: 100 })).expect_err("refused");
        assert!(add(2, Ok(Kept::Absent)).expect("memory"));
    }
}
