//! Trees that are wrong in a way that only threads, or only threads and crashes, can show.

use std::cell::{Cell, RefCell};
use std::ops::Bound;
use std::sync::Arc;

use everleaf_crash_check::SharedMedium;
use everleaf_pmem::{Backoff, Medium, Page, PageNo, Result, Seen, Sim, Version, Word};
use everleaf_pool::Pool;
use everleaf_tree::blink::Blink;
use everleaf_tree::node::{HIGH_WORD, Run, Shape, sibling};
use everleaf_tree::slots::Words;
use everleaf_tree::slots::{Circular, Probe, Sentinel, Slot};
use everleaf_tree::{INDEX_ANCHOR, Index, TreeReport};

use super::{Kind, open_on, report};

/// The tree that is sound.
pub type Sound = (Circular, Sentinel);
type Tree<M> = Blink<M, (Circular, Sentinel, Words)>;

/// A tree of which one operation is another's doing.
pub struct Mutant<T> {
    inner: T,
    get: fn(&T, u64) -> Result<Option<u64>>,
    update: fn(&T, u64, u64) -> Result<Option<u64>>,
}

impl<T: Index> Mutant<T> {
    fn new(inner: T) -> Self {
        Self { inner, get: T::get, update: T::update }
    }
}

impl<T: Index> Index for Mutant<T> {
    fn get(&self, key: u64) -> Result<Option<u64>> {
        (self.get)(&self.inner, key)
    }
    fn insert(&self, key: u64, value: u64) -> Result<Option<u64>> {
        self.inner.insert(key, value)
    }
    fn add(&self, key: u64, value: u64) -> Result<Option<u64>> {
        self.inner.add(key, value)
    }
    fn update(&self, key: u64, value: u64) -> Result<Option<u64>> {
        (self.update)(&self.inner, key, value)
    }
    fn remove(&self, key: u64) -> Result<Option<u64>> {
        self.inner.remove(key)
    }
    fn first(&self) -> Result<Option<(u64, u64)>> {
        self.inner.first()
    }
    fn last(&self) -> Result<Option<(u64, u64)>> {
        self.inner.last()
    }
    fn range(&self, from: Bound<u64>, to: Bound<u64>, limit: usize) -> Result<Vec<(u64, u64)>> {
        self.inner.range(from, to, limit)
    }
    fn range_back(
        &self,
        from: Bound<u64>,
        to: Bound<u64>,
        limit: usize,
    ) -> Result<Vec<(u64, u64)>> {
        self.inner.range_back(from, to, limit)
    }
}

/// An update that looks and then inserts, under two latches instead of one.
pub struct TwoStepUpdate;

impl Kind for TwoStepUpdate {
    type Tree = Mutant<Tree<SharedMedium<Sim>>>;

    fn open(sim: &Arc<Sim>) -> Result<Self::Tree> {
        let update = |tree: &Tree<_>, key, value| match Index::get(tree, key)? {
            Some(_) => tree.insert(key, value),
            None => Ok(None),
        };
        Ok(Mutant { update, ..Mutant::new(open_on(SharedMedium::new(sim))?) })
    }
    fn report(tree: &Self::Tree) -> Result<TreeReport> {
        report(&tree.inner)
    }
}

/// Faults of an [`UnsafeUpdate`].
pub const NO_FLUSH: u8 = 0;
pub const NO_FENCE: u8 = 1;
/// It flushes and fences once it has unlocked: what it answers is durable, but others may have
/// answered what was not.
pub const LATE_FLUSH: u8 = 2;

/// A tree whose updates make their store durable in a wrong way. `READS`: whether reads are
/// expected to be durable.
pub struct UnsafeUpdate<const FAULT: u8, const READS: bool = true>;

thread_local! {
    static UPDATING: Cell<bool> = const { Cell::new(false) };
    static LATE: RefCell<Vec<(PageNo, usize)>> = const { RefCell::new(Vec::new()) };
}

/// A medium with this fault in its updates.
pub struct Unsafe<const FAULT: u8>(SharedMedium<Sim>);

impl<const FAULT: u8> Medium for Unsafe<FAULT> {
    everleaf_pmem::pass_on!(0: SharedMedium<Sim>);
    fn store(&self, word: Word<'_>, value: u64) {
        self.0.store(word, value);
    }
    fn flush(&self, page: Page<'_>, line: usize) {
        match (UPDATING.get(), FAULT) {
            (false, _) | (true, NO_FENCE) => self.0.flush(page, line),
            (true, LATE_FLUSH) => LATE.with_borrow_mut(|late| late.push((page.no(), line))),
            (true, _) => {}
        }
    }
    fn fence(&self) {
        if !UPDATING.get() || FAULT == NO_FLUSH {
            self.0.fence();
        }
    }
}

impl<const FAULT: u8, const READS: bool> Kind for UnsafeUpdate<FAULT, READS> {
    type Tree = Mutant<Tree<Unsafe<FAULT>>>;
    const READS_ARE_DURABLE: bool = READS;

    fn open(sim: &Arc<Sim>) -> Result<Self::Tree> {
        let update = |tree: &Tree<Unsafe<FAULT>>, key, value| {
            UPDATING.set(true);
            let answer = Index::update(tree, key, value);
            UPDATING.set(false);
            let late = LATE.take();
            let m = tree.pool().medium();
            for &(page, line) in &late {
                m.0.flush(m.page(page)?, line);
            }
            if !late.is_empty() {
                m.0.fence();
            }
            answer
        };
        Ok(Mutant { update, ..Mutant::new(open_on(Unsafe(SharedMedium::new(sim)))?) })
    }
    fn report(tree: &Self::Tree) -> Result<TreeReport> {
        report(&tree.inner)
    }
}

/// How a [`Reader`] validates: as it should.
pub const FULLY: u8 = 0;
/// It does not look at the leaf's version again.
pub const NOT_THE_LEAF: u8 = 1;
/// It does not look at the parent's version again once it has the child's.
pub const NOT_THE_PARENT_AGAIN: u8 = 2;

/// A tree with a reader written out here, with less care or not.
pub struct Reader<const CARE: u8>;

impl<const CARE: u8> Kind for Reader<CARE> {
    type Tree = Mutant<Tree<SharedMedium<Sim>>>;

    fn open(sim: &Arc<Sim>) -> Result<Self::Tree> {
        let get = |tree: &Tree<_>, key| {
            let mut wait = Backoff::default();
            loop {
                if let Some(found) = attempt::<CARE, _>(tree.pool(), key) {
                    return Ok(found);
                }
                wait.pause();
            }
        };
        Ok(Mutant { get, ..Mutant::new(open_on(SharedMedium::new(sim))?) })
    }
    fn report(tree: &Self::Tree) -> Result<TreeReport> {
        report(&tree.inner)
    }
}

fn read_version<M: Medium>(pool: &Pool<M>, page: Page<'_>) -> Option<Version> {
    loop {
        match page.latch().read_version() {
            Seen::Ready(version) => return Some(version),
            Seen::Absent => drop(pool.latch(page.no()).ok()?),
        }
    }
}

/// One descent; `None` to start again.
fn attempt<const CARE: u8, M: Medium>(pool: &Pool<M>, key: u64) -> Option<Option<u64>> {
    let root = pool.anchor(INDEX_ANCHOR).ok()?;
    let mut page = pool.page(root).ok()?;
    let mut version = read_version(pool, page)?;
    if pool.anchor(INDEX_ANCHOR).ok()? != root {
        return None;
    }
    loop {
        let (shape, run) = (Shape::of(page)?, Run::of(page));
        let right = sibling(page).filter(|_| key >= page.head(HIGH_WORD).load());
        let le = Sentinel::rank(page, run, shape.key_word(), key);
        let slot = (le > 0).then(|| Slot::read(page, run.slot(page, le - 1)));
        if right.is_none() && shape.level == 0 {
            let found = slot.filter(|slot| slot.ident == key).map(|slot| slot.payload);
            let valid = CARE == NOT_THE_LEAF || page.latch().validate(version);
            return valid.then_some(found);
        }
        let next = right.or(slot.map(|slot| slot.ident as PageNo))?;
        if !page.latch().validate(version) {
            return None;
        }
        let next = pool.page(next).ok()?;
        let next_version = read_version(pool, next)?;
        if CARE != NOT_THE_PARENT_AGAIN && !page.latch().validate(version) {
            return None;
        }
        (page, version) = (next, next_version);
    }
}
