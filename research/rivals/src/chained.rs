//! A tree of leaves in the pool and inner nodes in DRAM: what is the same for every kind of leaf.
//!
//! ```text
//! get      find the leaf; read; validate its version
//! insert   latch the leaf at the version that was found; change it
//! split    latch a new page; the leaf's own split; enter the new leaf in the inner nodes, now or later;
//!          or copies take the leaf's place, and the insert begins again
//! remove   the last key of a leaf: latch the leaf to the left, too, unlink, free the page
//! ```
//!
//! The first leaf stays when it is empty, where the sources move the head of the chain: the count of lines is the same.
//! Latches and key ranges are in frames. A pool holds one such tree.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use everleaf_pmem::{Backoff, Dram, Error, LatchGuard, Medium, Page, PageNo, Result};
use everleaf_pool::{CATALOG_ANCHOR, Hooks, Pool, Stop, anchor, kind, note_free, retry};
use everleaf_tree::blink::Condition;

use crate::chain::{self, Rebuilt};
use crate::late::{Late, Worker};
use crate::leaf::{Leaf, Neighbours};
use crate::spine::{Found, LeafRange, Spine, range, set_dead, set_range};
use crate::ulog::{Log, Logs};

/// Word of the anchor's header that names the page of the logs, 0 for none. Beside the root, in its line.
const LOGS_WORD: usize = 2;
const _: () = assert!(LOGS_WORD != anchor::ROOT_WORD);

/// An ordered map from u64 to u64 on persistent memory, durable when an operation returns.
pub struct Chained<M: Medium, L: Leaf> {
    pub(crate) pool: Arc<Pool<M>>,
    pub(crate) anchor: PageNo,
    pub(crate) spine: Arc<Spine>,
    logs: Option<Arc<Logs>>,
    /// The leaves that the inner nodes do not know yet.
    late: Option<Arc<Late<M>>>,
    /// The thread that tells them.
    worker: Option<Worker>,
    rebuilt: Rebuilt,
    pub(crate) splits: AtomicU64,
    unlinked: AtomicU64,
    leaf: PhantomData<L>,
}

impl<M: Medium, L: Leaf> Chained<M, L> {
    /// The facts about the leaves that a pool must know.
    pub fn hooks() -> Hooks<M> {
        Hooks { nodes: std::any::type_name::<L>(), fits: L::fits, ..Hooks::default() }
    }

    /// Opens the tree on a medium, and makes pool and tree if it is all zero, or if a crash has interrupted that.
    ///
    /// # Errors
    /// Those of [`Pool::format`], [`Pool::open`] and [`Chained::open`].
    pub fn on(medium: M) -> Result<Self> {
        let pool = if Pool::is_unmade(&medium)? {
            Pool::format(medium, Self::hooks())?
        } else {
            Pool::open(medium, Self::hooks())?
        };
        Self::open(Arc::new(pool), CATALOG_ANCHOR)
    }

    /// Opens the tree of an anchor: finishes what a crash has interrupted, walks the leaves, and returns what has
    /// leaked. Makes the tree if the anchor has no root yet. Reads the whole tree. All repairs are durable when it
    /// returns.
    ///
    /// # Errors
    /// Corrupt for leaves that no crash leaves; WrongLayout for a pool that was opened for other leaves; errors of the
    /// medium.
    pub fn open(pool: Arc<Pool<M>>, anchor: PageNo) -> Result<Self> {
        pool.expect_nodes(Self::hooks().nodes)?;
        let head = match pool.anchor(anchor)? {
            0 => {
                let owners = pool.map_bytes()?;
                chain::give_back(&pool, &owners, |_| false)?;
                Self::make(&pool, anchor)?
            }
            head => head,
        };
        let spine = Arc::new(Spine::new(&pool, head)?);
        let log = pool.page(anchor)?.head(LOGS_WORD).load() as PageNo;
        let logs = if L::LOGS { Some(Arc::new(Logs::open(pool.page(log)?))) } else { None };
        let finished = logs.as_ref().map_or(Ok(0), |logs| L::finish(&pool, logs))?;
        let rebuilt = chain::rebuild::<M, L>(&pool, &spine, logs.as_ref().map(|logs| logs.page()))?;
        let rebuilt = Rebuilt { finished, ..rebuilt };
        let late = logs.as_ref().filter(|_| L::LATE).map(|logs| {
            Arc::new(Late::new(Arc::clone(&pool), Arc::clone(&spine), Arc::clone(logs)))
        });
        let (worker, splits, unlinked) = Default::default();
        Ok(Self {
            pool,
            anchor,
            spine,
            logs,
            late,
            worker,
            rebuilt,
            splits,
            unlinked,
            leaf: PhantomData,
        })
    }

    /// Starts the thread that tells the inner nodes of new leaves, if they learn of them later. Without it a writer
    /// does so when the logs run out, so that counts are the same each time. It ends with the tree.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(mut self) -> Result<Self> {
        self.worker = self.late.as_ref().map(Worker::start).transpose()?;
        Ok(self)
    }

    /// Tells the inner nodes of all leaves that they do not know yet; says of how many. None if they always know all.
    ///
    /// # Errors
    /// Poisoned, errors of the medium.
    pub fn drain(&self) -> Result<u64> {
        self.late.as_ref().map_or(Ok(0), |late| late.drain())
    }

    /// A log for this thread.
    fn log(&self) -> Result<Option<Log<'_, M>>, Stop> {
        let Some(logs) = &self.logs else { return Ok(None) };
        if let Some(log) = logs.acquire(self.medium())? {
            return Ok(Some(log));
        }
        self.drain()?;
        Err(Stop::Busy)
    }

    /// Makes the first leaf and the page of logs, and links both to the anchor by one line.
    fn make(pool: &Pool<M>, anchor: PageNo) -> Result<PageNo> {
        let m = pool.medium();
        retry(|| {
            let mut step = pool.step();
            let (head, _head_held) = step.new_page(kind::NODE)?;
            let log = if L::LOGS { Some(step.new_page(kind::LOG)?) } else { None };
            let (anchor_page, anchor_held) = pool.latch(anchor)?;
            if anchor::root_of(anchor_page)? != 0 {
                return Err(Error::InUse { what: "the anchor has a tree already" }.into());
            }
            let mut op = step.enter()?;
            step.publish_alloc(&mut op);
            L::build_empty(m, head);
            if let Some((page, _)) = &log {
                Logs::build(m, *page);
            }
            let log = log.as_ref().map_or(0, |(page, _)| page.no());
            m.store(anchor_page.head(LOGS_WORD), u64::from(log));
            anchor::set_root(m, &mut op, anchor_page, head.no());
            drop(op);
            drop(anchor_held);
            Ok(head.no())
        })
    }

    /// The pool that the tree is in.
    pub fn pool(&self) -> &Arc<Pool<M>> {
        &self.pool
    }

    /// The pages above the leaves, in DRAM.
    pub fn inner_pool(&self) -> &Arc<Pool<Dram>> {
        self.spine.pool()
    }

    /// The medium.
    pub fn medium(&self) -> &M {
        self.pool.medium()
    }

    /// The report of what opening has found and done.
    pub fn rebuilt(&self) -> Rebuilt {
        self.rebuilt
    }

    /// Leaves that were split since the tree was opened.
    pub fn splits(&self) -> u64 {
        self.splits.load(Ordering::Relaxed)
    }

    /// Leaves that were unlinked since the tree was opened.
    pub fn unlinked(&self) -> u64 {
        self.unlinked.load(Ordering::Relaxed)
    }

    /// The leaf of a key.
    pub(crate) fn leaf(&self, key: u64) -> Result<Found<'_>> {
        let mut wait = Backoff::default();
        loop {
            if let Some(found) = self.spine.leaf::<M, L>(self.medium(), key)? {
                return Ok(found);
            }
            wait.pause();
        }
    }

    /// The value of a key. Sees writes that are not durable yet; latches nothing.
    ///
    /// # Errors
    /// Corrupt.
    pub fn get(&self, key: u64) -> Result<Option<u64>> {
        let mut wait = Backoff::default();
        loop {
            let found = self.leaf(key)?;
            let value = L::find(found.page, key);
            if found.page.latch().validate(found.version) {
                return Ok(value);
            }
            wait.pause();
        }
    }

    /// Stores a value, if `condition` allows it, and answers the old one. Durable when it returns.
    ///
    /// # Errors
    /// Full, Poisoned, Corrupt; nothing is stored then.
    pub fn put(&self, key: u64, value: u64, condition: Condition) -> Result<Option<u64>> {
        retry(|| self.try_put(key, value, condition))
    }

    pub(crate) fn latch_for(&self, key: u64) -> Result<(Page<'_>, LatchGuard<'_>), Stop> {
        let found = self.leaf(key)?;
        let held = found.page.latch().upgrade(found.version).ok_or(Stop::Busy)?;
        Ok((found.page, held))
    }

    fn try_put(&self, key: u64, value: u64, condition: Condition) -> Result<Option<u64>, Stop> {
        let (page, held) = self.latch_for(key)?;
        let old = L::find(page, key);
        let unwanted = match condition {
            Condition::Always => false,
            Condition::Present => old.is_none(),
            Condition::Absent => old.is_some(),
        };
        if unwanted {
            held.unlock_unchanged();
            return Ok(old);
        }
        let done = {
            let _op = self.medium().enter()?;
            self.store(page, (key, value), old.is_some())
        };
        if !done && L::COPIED {
            let low = range(page).ok_or(Stop::Busy)?.low;
            held.unlock_unchanged();
            self.replace(page, low)?;
            return self.try_put(key, value, condition);
        }
        if !done {
            self.split_and_store(page, (key, value), old.is_some())?;
        }
        Ok(old)
    }

    fn store(&self, page: Page<'_>, (key, value): (u64, u64), is_there: bool) -> bool {
        if is_there {
            L::update(self.medium(), page, key, value)
        } else {
            L::insert(self.medium(), page, key, value)
        }
    }

    #[cold]
    fn split_and_store(
        &self,
        page: Page<'_>,
        pair: (u64, u64),
        is_there: bool,
    ) -> Result<(), Stop> {
        let m = self.medium();
        let log = self.log()?;
        let own = range(page).ok_or(Stop::Busy)?;
        let mut step = self.pool.step();
        let (right, right_held) = step.new_page(kind::NODE)?;
        let mut op = step.enter()?;
        let halves = Neighbours { left: page, right };
        let publish = || step.publish_alloc(&mut op);
        let cut = L::split(m, log.as_ref(), halves, pair, publish);
        set_range(right, LeafRange { low: cut.key, ..own });
        set_range(page, LeafRange { high: Some(cut.key), ..own });
        if !cut.stored {
            let half = if pair.0 >= cut.key { right } else { page };
            let stored = self.store(half, pair, is_there);
            assert!(stored, "half a leaf has room");
        }
        drop(op);
        self.splits.fetch_add(1, Ordering::Relaxed);
        // While the new leaf is latched, so that it cannot be unlinked before it has been entered.
        match (&self.late, log) {
            (Some(late), Some(log)) => late.push(cut.key, right.no(), log.keep()),
            _ => self.spine.enter(cut.key, right.no()),
        }
        drop(right_held);
        Ok(())
    }

    /// Removes a key and answers its value. Durable when it returns.
    ///
    /// # Errors
    /// Poisoned, Corrupt; nothing is removed then.
    pub fn remove(&self, key: u64) -> Result<Option<u64>> {
        retry(|| self.try_remove(key))
    }

    fn try_remove(&self, key: u64) -> Result<Option<u64>, Stop> {
        let (page, held) = self.latch_for(key)?;
        let Some(old) = L::find(page, key) else {
            held.unlock_unchanged();
            return Ok(None);
        };
        if L::count(page) == 1 && page.no() != self.spine.head() {
            let low = range(page).ok_or(Stop::Busy)?.low;
            held.unlock_unchanged();
            self.unlink(page, low, key)?;
            return Ok(Some(old));
        }
        let _op = self.medium().enter()?;
        L::remove(self.medium(), page, key);
        Ok(Some(old))
    }

    /// Removes the last key of a leaf, and the leaf. Latches go from left to right; the second is only tried.
    #[cold]
    fn unlink(&self, page: Page<'_>, low: u64, key: u64) -> Result<(), Stop> {
        let m = self.medium();
        let log = self.log()?;
        // Before the latches, to go after them: a page is given back when it can be latched again.
        let mut step = self.pool.step();
        let (left, left_held) = self.latch_for(low.checked_sub(1).ok_or(Stop::Busy)?)?;
        let Some(held) = page.latch().try_lock_briefly() else {
            left_held.unlock_unchanged();
            return Err(Stop::Busy);
        };
        let (own, left_range) = (range(page), range(left));
        let still = own.is_some_and(|own| own.low == low)
            && left_range.is_some_and(|range| range.high == Some(low))
            && L::next(left) == page.no()
            && L::count(page) == 1
            && L::find(page, key).is_some();
        let (Some(own), Some(left_range), true) = (own, left_range, still) else {
            left_held.unlock_unchanged();
            held.unlock_unchanged();
            return Err(Stop::Busy);
        };
        // No log may name a page that is used again.
        self.drain()?;
        step.free_page(page.no())?;
        let mut op = step.enter()?;
        let publish = || {
            step.publish_free(&mut op);
            note_free(m, &mut op, page);
        };
        L::unlink(m, log.as_ref(), Neighbours { left, right: page }, publish);
        set_range(left, LeafRange { high: own.high, ..left_range });
        set_dead(page);
        drop(op);
        self.unlinked.fetch_add(1, Ordering::Relaxed);
        // The left leaf is latched: nobody splits it and enters a leaf with the same lowest key.
        self.spine.forget(low);
        Ok(())
    }
}
