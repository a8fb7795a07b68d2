//! Which page numbers are free: bits in DRAM, built from the map at open, the truth for
//! reservations. A number leaves the bits when a step plans to use it, before the map says so,
//! and returns when the step is given up or when what the step freed may be used again.
//!
//! Runs stay inside one group. The lowest free number of the fitting role is preferred, so that
//! pools stay short. Freed extents wait in *limbo* until the epoch that freed them is durable: an
//! extent is written directly, and a crash may bring its former owner back. They also wait for those
//! who were reading extents when they were freed ([`pins`](crate::pins)).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use everleaf_pmem::locks::{Mutex, MutexGuard};
use everleaf_pmem::{Error, Geometry, PageNo, Result, fallible, thread_number};

use crate::map::{PageRun, Role, group_pages};
use crate::pins::Pins;

/// The name of this memory in errors.
const MAP: &str = "the bits of free pages";

/// How many free pages some steps need at most.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wants {
    /// For nodes and records.
    pub pages: u64,
    /// For extents.
    pub extents: u64,
}

impl std::ops::AddAssign for Wants {
    fn add_assign(&mut self, other: Wants) {
        self.pages = self.pages.saturating_add(other.pages);
        self.extents = self.extents.saturating_add(other.extents);
    }
}

#[derive(Debug)]
struct GroupSpace {
    role: Role,
    free: Vec<u64>,
    count: u32,
}

/// A freed extent that is not to be used again yet.
#[derive(Debug)]
struct FreedRun {
    run: PageRun,
    /// The epoch that must be durable before.
    epoch: u64,
    /// When it was freed, by the clock of those who read extents.
    freed: u64,
}

#[derive(Debug, Default)]
struct FreePages {
    groups: Vec<GroupSpace>,
    /// For each role: no group before this one has a free page.
    hints: [usize; 2],
    /// Groups whose map page exists on the medium; always the first ones.
    made: usize,
    /// Freed extents.
    limbo: VecDeque<FreedRun>,
    /// Room that is kept for the steps of one thread.
    promised: Option<Promised>,
    /// Pages that have changed owner since somebody began to watch; `None` for want of memory.
    touched: Option<Vec<u64>>,
}

/// The free pages of a pool.
#[derive(Debug)]
pub(crate) struct FreeSpace {
    inner: Mutex<FreePages>,
    per_group: u32,
    limit: PageNo,
    /// The limit in bytes, as errors say it.
    limit_bytes: AtomicU64,
    /// How many watch who owns pages.
    watchers: AtomicU32,
}

/// While it lives, pages that change owner are remembered.
pub(crate) struct Watch<'p>(&'p FreeSpace);

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        let before = self.0.watchers.fetch_sub(1, Ordering::SeqCst);
        debug_assert!(before > 0, "each watch ends once");
    }
}

impl Watch<'_> {
    /// Whether a page has changed owner meanwhile, or may have.
    pub fn has_touched(&self, no: PageNo) -> bool {
        let inner = self.0.inner();
        let word = |bits: &Vec<u64>| bits.get(no as usize / 64).copied().unwrap_or_default();
        inner.touched.as_ref().is_none_or(|bits| word(bits) >> (no % 64) & 1 != 0)
    }
}

impl FreeSpace {
    pub fn new(geometry: Geometry, limit: PageNo) -> Self {
        let limit_bytes = u64::from(limit) * geometry.page_bytes() as u64;
        let (inner, per_group) = (Mutex::default(), group_pages(geometry));
        let watchers = AtomicU32::new(0);
        Self { inner, per_group, limit, limit_bytes: limit_bytes.into(), watchers }
    }

    /// Begins to watch. Complete for each map page that is latched after this.
    pub fn watch(&self) -> Watch<'_> {
        let mut inner = self.inner();
        if self.watchers.fetch_add(1, Ordering::SeqCst) == 0 {
            inner.touched = Some(Vec::new());
        }
        Watch(self)
    }

    /// Pages are about to change owner; the caller holds the latch of their map page.
    #[inline]
    pub fn touch(&self, first: PageNo, len: u32) {
        if self.watchers.load(Ordering::Relaxed) != 0 {
            self.inner().touch(first, len);
        }
    }

    /// Sets the limit in bytes as the caller asked for it, for errors.
    pub fn say_limit(&self, bytes: u64) {
        self.limit_bytes.store(bytes, Ordering::Relaxed);
    }

    /// There are no more pages.
    #[cold]
    pub fn full(&self) -> Error {
        Error::Full { bytes: self.limit_bytes.load(Ordering::Relaxed) }
    }

    fn inner(&self) -> MutexGuard<'_, FreePages> {
        self.inner.lock().expect("nothing panics with this lock")
    }

    /// Adds a group that exists on the medium, while opening. `is_free` tells of each index.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn add_group(&self, role: Role, is_free: impl Fn(u32) -> bool) -> Result<()> {
        let mut inner = self.inner();
        let pages = self.pages_in(inner.groups.len()).expect("the medium has the map page");
        let group = self.group(role, |i| i < pages && is_free(i))?;
        fallible::push(&mut inner.groups, group, MAP)?;
        debug_assert_eq!(inner.made + 1, inner.groups.len(), "groups are added while opening only");
        inner.made += 1;
        Ok(())
    }

    /// How many pages group `g` has below the limit, or none if not even its map page.
    fn pages_in(&self, g: usize) -> Option<u32> {
        let start = g as u64 * u64::from(self.per_group);
        let left = u64::from(self.limit).checked_sub(start).filter(|n| *n > 0)?;
        Some(left.min(u64::from(self.per_group)) as u32)
    }

    fn group(&self, role: Role, is_free: impl Fn(u32) -> bool) -> Result<GroupSpace> {
        let mut free = fallible::filled(0_u64, self.per_group.div_ceil(64) as usize, MAP)?;
        for i in (1..self.per_group).filter(|i| is_free(*i)) {
            free[i as usize / 64] |= 1 << (i % 64);
        }
        let count = free.iter().map(|w| w.count_ones()).sum();
        Ok(GroupSpace { role, free, count })
    }

    /// Reserves `n` consecutive pages of one group. Usually O(1) for one page; O(groups + G) at
    /// worst.
    ///
    /// # Errors
    /// [`Error::Full`] at the limit; [`Error::Invalid`] if a group never has so many;
    /// [`Error::NoMemory`].
    pub fn reserve(&self, role: Role, n: u32) -> Result<PageNo> {
        if n == 0 || n >= self.per_group {
            return Err(Error::Invalid {
                what: format!("runs have 1 to {} pages", self.per_group),
            });
        }
        let inner = &mut *self.inner();
        if inner.is_kept_from_me() {
            self.leave_promised(inner, role, n)?;
        }
        let hint = &mut inner.hints[role as usize];
        while inner.groups.get(*hint).is_some_and(|g| g.role != role || g.count == 0) {
            *hint += 1;
        }
        let from = *hint;
        for (g, group) in inner.groups.iter_mut().enumerate().skip(from) {
            if group.role == role
                && let Some(index) = group.take(n)
            {
                inner.use_promised(role, n);
                return Ok(g as u32 * self.per_group + index);
            }
        }
        let g = inner.groups.len();
        let pages = self.pages_in(g).filter(|pages| *pages > n);
        let pages = pages.ok_or_else(|| self.full())?;
        fallible::more(&mut inner.groups, 1, MAP)?;
        let mut group = self.group(role, |i| i < pages)?;
        let index = group.take(n).expect("a new group has room");
        inner.groups.push(group);
        inner.use_promised(role, n);
        Ok(g as u32 * self.per_group + index)
    }

    /// Keeps room for the steps of this thread, of which only one does so at a time.
    ///
    /// # Errors
    /// [`Error::Full`] if there is not so much.
    pub fn promise(&self, wants: Wants, counted: bool) -> Result<()> {
        let inner = &mut *self.inner();
        if !self.has_room(inner, wants) {
            return Err(self.full());
        }
        debug_assert!(inner.promised.is_none(), "one promise at a time");
        let left = [wants.pages, wants.extents];
        inner.promised = Some(Promised { thread: thread_number(), most: left, left, counted });
        Ok(())
    }

    /// Whether a group is for extents. O(groups).
    pub fn has_extents(&self) -> bool {
        self.inner().groups.iter().any(|group| group.role == Role::Extents)
    }

    /// Whether this thread was promised room that was counted from nodes.
    pub fn is_counted(&self) -> bool {
        let is_mine = |promised: &Promised| promised.thread == thread_number() && promised.counted;
        self.inner().promised.as_ref().is_some_and(is_mine)
    }

    pub fn end_promise(&self) {
        self.inner().promised = None;
    }

    /// Whether so many pages of either role are free, in groups that there are or can be.
    fn has_room(&self, inner: &FreePages, wants: Wants) -> bool {
        let free = |role| -> u64 {
            let groups = inner.groups.iter().filter(|group| group.role == role);
            groups.map(|group| u64::from(group.count)).sum()
        };
        let pages = wants.pages.saturating_sub(free(Role::Pages));
        let extents = wants.extents.saturating_sub(free(Role::Extents));
        // The last group may be cut off by the limit; it serves one role.
        let start = inner.groups.len() as u64 * u64::from(self.per_group);
        let left = u64::from(self.limit).saturating_sub(start);
        let (whole, rest) = (left / u64::from(self.per_group), left % u64::from(self.per_group));
        let in_group = u64::from(self.per_group) - 1;
        if pages == 0 || extents == 0 {
            return pages + extents <= whole * in_group + rest.saturating_sub(1);
        }
        pages.div_ceil(in_group) + extents.div_ceil(in_group) <= whole
    }

    /// Refuses what would use up the room that another thread was promised.
    #[cold]
    fn leave_promised(&self, inner: &FreePages, role: Role, n: u32) -> Result<()> {
        let Some(promised) = &inner.promised else { return Ok(()) };
        let mut left = promised.left;
        left[role as usize] += u64::from(n);
        // A run of several pages may need a group of its own.
        if n > 1 && !inner.groups.iter().any(|g| g.role == role && g.has_run(n)) {
            left[role as usize] += u64::from(self.per_group);
        }
        match self.has_room(inner, Wants { pages: left[0], extents: left[1] }) {
            true => Ok(()),
            false => Err(self.full()),
        }
    }

    /// Returns a run that nobody uses. O(pages).
    pub fn give_back(&self, run: PageRun) {
        self.inner().give_back(run, self.per_group);
    }

    /// Returns freed extents once `epoch` is durable and whoever reads them now is done; for want of
    /// memory to remember them, with the next open.
    pub fn give_back_later(&self, epoch: u64, run: PageRun, pins: &Pins) {
        let limbo = &mut self.inner().limbo;
        if limbo.try_reserve(1).is_ok() {
            limbo.push_back(FreedRun { run, epoch, freed: pins.freed() });
        }
    }

    /// Returns the extents whose epoch is durable by now and that nobody reads, and says which. O(extents
    /// returned).
    pub fn settle(&self, durable: u64, pins: &Pins, mut release: impl FnMut(PageRun)) -> bool {
        let first = self.inner().limbo.front().map(|first| first.epoch);
        // As a rule, since epochs are longer than writes: then nobody is asked who reads.
        if first.is_none_or(|epoch| epoch > durable) {
            return first.is_some();
        }
        let oldest = pins.oldest();
        while let Some(run) = self.leave_limbo(durable, oldest) {
            // Unlocked, for it may wait; and before somebody else gets the numbers.
            release(run);
            self.inner().give_back(run, self.per_group);
        }
        !self.inner().limbo.is_empty()
    }

    /// Takes the first freed extent whose epoch is durable by now and that nobody reads.
    fn leave_limbo(&self, durable: u64, oldest: u64) -> Option<PageRun> {
        // Steps of neighbouring epochs may have queued out of order; the few behind wait.
        let may_return = |waiting: &FreedRun| waiting.epoch <= durable && waiting.freed < oldest;
        let limbo = &mut self.inner().limbo;
        let may_return = limbo.front().is_some_and(may_return);
        if may_return { limbo.pop_front() } else { None }.map(|waiting| waiting.run)
    }

    /// The groups up to `g` that have no map page on the medium yet, with their roles.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn missing(&self, g: u32) -> Result<Vec<(u32, Role)>> {
        let inner = self.inner();
        let missing = inner.made..(g as usize + 1).max(inner.made);
        let mut groups = fallible::list(missing.len(), "the groups to make")?;
        groups.extend(missing.map(|g| (g as u32, inner.groups[g].role)));
        Ok(groups)
    }

    /// Whether group `g` is there, or planned by somebody.
    pub fn has_group(&self, g: u32) -> bool {
        (g as usize) < self.inner().groups.len()
    }

    /// The map page of group `g` now exists (and those before it).
    pub fn group_made(&self, g: u32) {
        let mut inner = self.inner();
        debug_assert!((g as usize) < inner.groups.len(), "a group is planned before it is made");
        inner.made = inner.made.max(g as usize + 1);
    }

    /// Groups whose map page exists.
    pub fn groups(&self) -> u32 {
        self.inner().made as u32
    }
}

/// Room that is kept for one thread, by role.
#[derive(Debug)]
struct Promised {
    thread: usize,
    most: [u64; 2],
    left: [u64; 2],
    /// Whether the room was counted from nodes.
    counted: bool,
}

impl FreePages {
    #[inline]
    fn is_kept_from_me(&self) -> bool {
        self.promised.as_ref().is_some_and(|promised| promised.thread != thread_number())
    }

    fn use_promised(&mut self, role: Role, n: u32) {
        if let Some(promised) = &mut self.promised
            && promised.thread == thread_number()
        {
            let left = &mut promised.left[role as usize];
            *left = left.saturating_sub(u64::from(n));
        }
    }

    #[cold]
    fn touch(&mut self, first: PageNo, len: u32) {
        let Some(bits) = &mut self.touched else { return };
        let words = (first + len) as usize / 64 + 1;
        if bits.len() < words {
            if fallible::more(bits, words - bits.len(), MAP).is_err() {
                self.touched = None;
                return;
            }
            bits.resize(words, 0);
        }
        (first..first + len).for_each(|no| bits[no as usize / 64] |= 1 << (no % 64));
    }

    fn give_back(&mut self, run: PageRun, per_group: u32) {
        let g = (run.first / per_group) as usize;
        let group = &mut self.groups[g];
        let index = run.first % per_group;
        debug_assert!(index > 0, "a map page is never given back");
        debug_assert!(index + run.pages <= per_group, "a run lies in one group");
        for i in index..index + run.pages {
            debug_assert!(group.free[i as usize / 64] >> (i % 64) & 1 == 0, "given back twice");
            group.free[i as usize / 64] |= 1 << (i % 64);
        }
        group.count += run.pages;
        debug_assert!(group.count < per_group, "one page of a group is the map's");
        if let Some(promised) = &mut self.promised
            && promised.thread == thread_number()
        {
            // Reserved in vain, or freed by the thread itself.
            let role = group.role as usize;
            promised.left[role] =
                promised.most[role].min(promised.left[role] + u64::from(run.pages));
        }
        let hint = &mut self.hints[group.role as usize];
        *hint = (*hint).min(g);
    }
}

impl GroupSpace {
    fn take(&mut self, n: u32) -> Option<u32> {
        if self.count < n {
            return None;
        }
        let first = if n == 1 {
            let w = self.free.iter().position(|w| *w != 0)?;
            64 * w as u32 + self.free[w].trailing_zeros()
        } else {
            self.first_run(n)?
        };
        for i in first..first + n {
            debug_assert!(self.free[i as usize / 64] >> (i % 64) & 1 != 0, "given out twice");
            self.free[i as usize / 64] &= !(1 << (i % 64));
        }
        self.count -= n;
        debug_assert!(first > 0, "the first page of a group is its map");
        Some(first)
    }

    fn has_run(&self, n: u32) -> bool {
        self.count >= n && self.first_run(n).is_some()
    }

    fn first_run(&self, n: u32) -> Option<u32> {
        let mut run = 0;
        for i in 0..64 * self.free.len() as u32 {
            run = if self.free[i as usize / 64] >> (i % 64) & 1 != 0 { run + 1 } else { 0 };
            if run == n {
                return Some(i + 1 - n);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Groups of 64 pages, of 128 bytes each.
    fn geometry() -> Geometry {
        Geometry::new(4).expect("valid")
    }

    fn run(first: PageNo, pages: u32) -> PageRun {
        PageRun { first, pages }
    }

    #[test]
    fn the_lowest_fit_comes_first_and_the_limit_holds() {
        let space = FreeSpace::new(geometry(), 100);
        assert_eq!(space.reserve(Role::Pages, 1).expect("room"), 1);
        assert_eq!(space.reserve(Role::Pages, 3).expect("room"), 2);
        space.give_back(run(2, 2));
        assert_eq!(space.reserve(Role::Pages, 3).expect("room"), 5);
        assert_eq!(space.reserve(Role::Pages, 1).expect("room"), 2);
        assert_eq!(space.reserve(Role::Extents, 35).expect("room"), 65);
        assert!(matches!(space.reserve(Role::Extents, 1), Err(Error::Full { bytes: 12_800 })));
        assert!(matches!(space.reserve(Role::Pages, 64), Err(Error::Invalid { .. })));
        let missing = |g| space.missing(g).expect("memory");
        assert_eq!(missing(1), [(0, Role::Pages), (1, Role::Extents)]);
        space.group_made(0);
        assert_eq!((space.groups(), missing(1).len()), (1, 1));
    }

    #[test]
    fn freed_extents_wait_for_their_epoch() {
        let (space, pins) = (FreeSpace::new(geometry(), 128), Pins::new());
        let first = space.reserve(Role::Extents, 63).expect("room");
        space.give_back_later(7, run(first, 63), &pins);
        space.settle(6, &pins, |_| ());
        assert_eq!(space.reserve(Role::Extents, 63).expect("another group"), 65);
        space.settle(7, &pins, |_| ());
        assert_eq!(space.reserve(Role::Extents, 63).expect("room again"), first);
    }

    #[test]
    fn freed_extents_wait_for_those_who_read_them() {
        let (space, pins) = (FreeSpace::new(geometry(), 64), Pins::new());
        let first = space.reserve(Role::Extents, 60).expect("room");
        let reader = pins.pin().expect("memory");
        space.give_back_later(7, run(first, 60), &pins);
        let later = pins.pin().expect("memory");
        space.settle(7, &pins, |_| ());
        assert!(matches!(space.reserve(Role::Extents, 60), Err(Error::Full { .. })));
        drop(reader);
        space.settle(7, &pins, |_| ());
        assert_eq!(space.reserve(Role::Extents, 60).expect("room again"), first);
        drop(later);
    }
}
