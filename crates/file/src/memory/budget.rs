//! Memory that pools share: how much all of them take together, and how much of it one of them may.
//!
//! Each pool tells what it takes, part by part, and the budget has the sums. **Pages and large values** leave memory when
//! the sum is too large, whichever pool they are of: a hand goes from pool to pool, and in each the pool's own
//! [hand](super::evict) goes on a little, in proportion to the pages that are there. So a round comes to all pages of all
//! pools about once, and what leaves is what nobody has used since the last one. **All else stays** until its pool has done
//! something about it: frames, leaves of the table, changed pages, changes that are not durable, old values. Each of these
//! parts has a bound, and a pool may take of it
//!
//! ```text
//! what the others leave, or as much as each would have if all took the same: whichever is more
//! ```
//!
//! So one busy pool beside many idle ones has nearly all; pools that come later are never refused what is fair; and all
//! together take at most twice the bound. With one pool that is the bound itself.
//!
//! A fetch of a page never waits here: while one thread evicts, the others go on and take a little more. Only the end of
//! a checkpoint waits for it, as nothing may come after it in a pool that rests.

use std::fmt;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, TryLockError, Weak};

use everleaf_pmem::error::Result;
use everleaf_pmem::fallible;
use everleaf_pmem::life::Life;
use everleaf_pmem::locks::Mutex;
use everleaf_pmem::sync::lock_plain as lock;

/// The hand needs so many goes for a round over a pool at least, unless there are fewer pages; and over all pools. So a page
/// stays while so many others are fetched, and a step that needs some pages at once gets them, however many of the others
/// are changed.
pub(crate) const GOES: usize = 16;
/// This part of the memory that pools may take is for what is not counted: buffers and lists.
const BUFFERS_PART: u64 = 32;
/// This part of it is for pages, whatever the rest takes.
pub(crate) const LEAST_PART: u64 = 8;
/// A figure of the layer above is told again when it has changed by so many bytes.
const TELL_BYTES: u64 = 64 << 10;

const WHAT: &str = "the list of pools that share memory";

/// A purpose that memory is taken for.
#[derive(Debug, Clone, Copy)]
pub enum Part {
    /// Pages, large values, and memory that was made ready: all that eviction gives back.
    Pages,
    /// Frames of pages.
    Frames,
    /// The page table, as far as it is in memory, counts of pairs, and what a checkpoint takes for a moment.
    Table,
    /// Records that are not in the file yet.
    Pending,
    /// Old values that snapshots and transactions see.
    Versions,
    /// Pages that were changed and not written. They are a part of the pages.
    Changed,
}

const PARTS: usize = 6;
/// Those that no eviction gives back.
const FIXED: [Part; 4] = [Part::Frames, Part::Table, Part::Pending, Part::Versions];

/// Memory for one pool or many.
#[derive(Clone)]
pub struct Budget(Arc<Shared>);

struct Shared {
    bytes: u64,
    sums: [AtomicU64; PARTS],
    /// Pages that have left memory, of all pools.
    evictions: AtomicU64,
    /// How many pools there are.
    count: AtomicU64,
    pools: Mutex<Pools>,
    /// A fork has a copy of it, with locks that may be nobody's.
    life: Life,
}

/// A pool that shares memory.
pub(crate) trait Member: Send + Sync {
    /// Others have changed what this pool may take.
    fn feel_others(&self);
    /// Evicts what it can, a part of its own. Never waits.
    fn evict_some(&self);
}

#[derive(Default)]
struct Pools {
    list: Vec<Weak<dyn Member>>,
    /// The pool that the hand comes to next.
    hand: usize,
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Budget");
        out.field("bytes", &self.bytes()).field("used", &self.used());
        out.field("pools", &self.pools()).finish()
    }
}

impl Budget {
    /// So many bytes. Any number will do: what operations need is in memory, however low it is.
    pub fn new(bytes: u64) -> Self {
        Self(Arc::new(Shared {
            bytes,
            sums: Default::default(),
            evictions: AtomicU64::new(0),
            count: AtomicU64::new(0),
            pools: Mutex::default(),
            life: Life::default(),
        }))
    }

    /// How many bytes there are.
    pub fn bytes(&self) -> u64 {
        self.0.bytes
    }

    /// Bytes that pools take, all together, as they have told.
    pub fn used(&self) -> u64 {
        self.sum(Part::Pages) + self.fixed()
    }

    /// How many pools are open that share it.
    pub fn pools(&self) -> u64 {
        self.0.count.load(Relaxed)
    }

    /// The part of so many bytes that each would have if all took the same.
    pub(crate) fn each(&self, all: u64) -> u64 {
        all / self.pools().max(1)
    }

    /// One of as many bytes, if this is of a process of which this one is a fork.
    pub(crate) fn of_this_process(&self) -> Self {
        if self.0.life.is_forked() { Self::new(self.bytes()) } else { self.clone() }
    }

    /// Bytes for pages and what is kept beside them: a little less than all. None if there is no bound.
    pub(crate) fn most(&self) -> Option<u64> {
        let bytes = self.bytes();
        (bytes != u64::MAX).then_some(bytes - self.for_buffers())
    }

    /// Bytes for buffers.
    pub(crate) fn for_buffers(&self) -> u64 {
        self.bytes() / BUFFERS_PART
    }

    fn sum(&self, part: Part) -> u64 {
        // Below zero while one thread is told and another one not yet.
        (self.0.sums[part as usize].load(Relaxed) as i64).max(0) as u64
    }

    /// Bytes of which no eviction gives anything back.
    fn fixed(&self) -> u64 {
        FIXED.iter().map(|part| self.sum(*part)).sum()
    }

    /// Bytes that pages and values of all pools may take beside all else; a part of the memory in any case, or nobody
    /// could do anything.
    pub(crate) fn room(&self) -> Option<u64> {
        self.most().map(|most| most.saturating_sub(self.fixed()).max(most / LEAST_PART))
    }

    /// Bytes that pages and values may still take, if there is a bound: fewer than none if they take too much.
    pub(crate) fn left(&self) -> Option<i64> {
        self.room().map(|room| room as i64 - self.sum(Part::Pages) as i64)
    }

    /// Pages and values that are in memory, of all pools.
    pub(crate) fn page_bytes(&self) -> u64 {
        self.sum(Part::Pages)
    }

    /// Pages that have left memory, of all pools.
    pub(crate) fn evictions(&self) -> u64 {
        self.0.evictions.load(Relaxed)
    }

    pub(crate) fn note_evictions(&self, pages: u64) {
        self.0.evictions.fetch_add(pages, Relaxed);
    }

    /// A pool shares this from now on.
    ///
    /// # Errors
    /// [`Error::NoMemory`](everleaf_pmem::Error::NoMemory).
    pub(crate) fn join(&self, pool: Weak<dyn Member>) -> Result<()> {
        let mut pools = lock(&self.0.pools);
        fallible::push(&mut pools.list, pool, WHAT)?;
        self.0.count.store(pools.list.len() as u64, Relaxed);
        Ok(())
    }

    /// A pool does so no more. Nobody evicts anything of it afterwards, and nobody is left who would end it.
    pub(crate) fn leave(&self, pool: &impl Member) {
        let mut pools = lock(&self.0.pools);
        let Some(at) = pools.list.iter().position(|one| ptr::addr_eq(one.as_ptr(), pool)) else {
            return;
        };
        // The order of the others stays, so that the hand misses none.
        pools.list.remove(at);
        pools.hand -= usize::from(at < pools.hand);
        self.0.count.store(pools.list.len() as u64, Relaxed);
    }

    /// Has some pools evict what they can, each a part of its own, until `is_done`. If another thread does it just now, a
    /// caller that has the time `waits` for that, and others leave it to that thread.
    pub(crate) fn evict(&self, caller: &impl Member, waits: bool, is_done: impl Fn() -> bool) {
        let mut pools = match self.0.pools.try_lock() {
            Ok(pools) => pools,
            Err(TryLockError::Poisoned(pools)) => pools.into_inner(),
            Err(TryLockError::WouldBlock) if waits => lock(&self.0.pools),
            Err(TryLockError::WouldBlock) => return,
        };
        // As many goes come to all pools as come to all pages of one.
        for go in 0..pools.list.len().div_ceil(GOES) {
            if go > 0 && is_done() {
                return;
            }
            pools.hand %= pools.list.len();
            // It does not end here: it would leave before, and wait for that.
            if let Some(pool) = pools.list[pools.hand].upgrade() {
                if !ptr::addr_eq(Arc::as_ptr(&pool), caller) {
                    pool.feel_others();
                }
                pool.evict_some();
            }
            pools.hand += 1;
        }
    }
}

/// The bytes that one of those who share a budget has told of.
#[derive(Debug)]
pub struct Share {
    budget: Budget,
    told: [AtomicU64; PARTS],
}

impl Share {
    /// One that takes nothing yet.
    pub fn new(budget: &Budget) -> Self {
        Self { budget: budget.clone(), told: Default::default() }
    }

    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }

    /// It takes so much now.
    pub(crate) fn tell(&self, part: Part, bytes: u64) {
        let told = &self.told[part as usize];
        if told.load(Relaxed) != bytes {
            // Modulo 2^64: a thread that comes in between adds the difference to what this one has said.
            let more = bytes.wrapping_sub(told.swap(bytes, Relaxed));
            self.budget.0.sums[part as usize].fetch_add(more, Relaxed);
        }
    }

    /// It takes so much now, about: only what is a good part of it is told.
    #[inline]
    pub fn tell_roughly(&self, part: Part, bytes: u64) {
        let told = self.told[part as usize].load(Relaxed);
        if bytes.abs_diff(told) >= TELL_BYTES || bytes == 0 {
            self.tell(part, bytes);
        }
    }

    /// How many bytes this may take of a part that has a bound for all.
    pub fn of(&self, part: Part, all: u64) -> u64 {
        let own = self.told[part as usize].load(Relaxed);
        let others = self.budget.sum(part).saturating_sub(own);
        all.saturating_sub(others).max(self.budget.each(all))
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        for (told, sum) in self.told.iter().zip(&self.budget.0.sums) {
            sum.fetch_sub(told.load(Relaxed), Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_what_others_leave_or_what_is_fair() {
        let budget = Budget::new(3200);
        assert_eq!(
            (budget.most(), budget.room(), budget.left()),
            (Some(3100), Some(3100), Some(3100))
        );
        let [one, two] = [Share::new(&budget), Share::new(&budget)];
        budget.0.count.store(2, Relaxed);
        assert_eq!(one.of(Part::Changed, 1000), 1000, "the other one takes nothing");
        one.tell(Part::Changed, 300);
        assert_eq!((one.of(Part::Changed, 1000), two.of(Part::Changed, 1000)), (1000, 700));
        one.tell(Part::Changed, 900);
        assert_eq!((one.of(Part::Changed, 1000), two.of(Part::Changed, 1000)), (1000, 500));
        two.tell(Part::Changed, 500);
        assert_eq!((one.of(Part::Changed, 1000), two.of(Part::Changed, 1000)), (500, 500));
        assert_eq!(two.of(Part::Frames, 1000), 1000, "each part by itself");
        drop(one);
        assert_eq!(two.of(Part::Changed, 1000), 1000);
    }

    #[test]
    fn pages_have_what_the_rest_leaves_and_a_part_in_any_case() {
        let budget = Budget::new(3200);
        let [one, two] = [Share::new(&budget), Share::new(&budget)];
        one.tell(Part::Pages, 100);
        one.tell(Part::Versions, 200);
        two.tell(Part::Table, 300);
        two.tell(Part::Changed, 50);
        assert_eq!((budget.used(), budget.room(), budget.left()), (600, Some(2600), Some(2500)));
        two.tell(Part::Pending, 1 << 20);
        assert_eq!((budget.room(), budget.left()), (Some(387), Some(287)), "an eighth");
        drop((one, two));
        assert_eq!((budget.used(), budget.left()), (0, Some(3100)));
        assert_eq!(Budget::new(u64::MAX).left(), None);
    }

    #[test]
    fn small_changes_are_not_told_until_nothing_is_left() {
        let budget = Budget::new(1 << 20);
        let share = Share::new(&budget);
        share.tell_roughly(Part::Versions, TELL_BYTES - 1);
        assert_eq!(budget.used(), 0);
        share.tell_roughly(Part::Versions, TELL_BYTES);
        share.tell_roughly(Part::Versions, 1);
        assert_eq!(budget.used(), TELL_BYTES);
        share.tell_roughly(Part::Versions, 0);
        assert_eq!(budget.used(), 0);
    }
}
