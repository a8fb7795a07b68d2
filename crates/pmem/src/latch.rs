//! The latch word: version, lock and readiness of a page in one DRAM word.
//!
//! Optimistic readers take nothing: they remember the word, read the page, and look at the word
//! again (*version, read, validate*). Writers set `LOCKED` by compare-and-swap and leave with a
//! higher version. `READY` says that the page may be used in this open of the pool: its bytes are
//! in memory, recovery has looked at it, and its search aid is built. Fresh frames are zero, hence
//! not ready, so the first touch of a page has one place to happen. The version never goes back,
//! also when a page is freed and used again, so a reader that was on its way to a page that has
//! died cannot take the new one for it. It does not go back either when an absent page's frame is given back to the system
//! with the version in it: a page that is made ready has none below those that were forgotten.
//!
//! A page that is ready may be *cold* (after vmcache, Leis et al., SIGMOD 2023): nobody has come since
//! somebody looked for pages that memory could do without. Then `COLD` stands in the place of `READY`,
//! so that who meets a hot page pays nothing. The first one who comes makes it hot again.
//!
//! Memory order: pages are stored with Release and loaded with Acquire. A reader that saw a value
//! of a running writer therefore also sees that writer's `LOCKED` (or a later word) when it
//! validates.

use std::marker::PhantomData;

use crate::rules;
use crate::sync::{AtomicU64, Ordering, before_read, before_write, fence, spin_loop, yield_now};

const LOCKED: u64 = 1;
const READY: u64 = 2;
const LEFTWARD: u64 = 4;
const COLD: u64 = 8;
const VERSION_ONE: u64 = 1 << 8;

const _: () = assert!(
    LOCKED < READY && READY < LEFTWARD && LEFTWARD < COLD && COLD < VERSION_ONE,
    "a version has bits of its own"
);

/// No version that was forgotten is as high, or higher. Of all pools: it is not a part of what a model of threads looks at.
static FORGOTTEN_BELOW: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

/// The word of a page that is about to be ready: its version is none that was forgotten.
fn raised(word: u64) -> u64 {
    let least = FORGOTTEN_BELOW.load(std::sync::atomic::Ordering::SeqCst);
    word.max(least | word & (VERSION_ONE - 1))
}

/// The word of a page that is not cold.
#[inline(always)]
const fn hot(word: u64) -> u64 {
    if word & COLD == 0 { word } else { word & !COLD | READY }
}

/// The state of a latch that a reader remembers in order to validate later.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Version(u64);

impl Version {
    /// Whether a writer was inside when this was seen: what is read with it may be half done.
    #[inline(always)]
    pub fn is_racing(self) -> bool {
        self.0 & LOCKED != 0
    }
    /// The latch's word, for search aids that remember which version of a page they were built
    /// for: it is back only if nothing changed since, as versions only rise.
    #[inline(always)]
    pub fn stamp(self) -> u64 {
        self.0
    }
    /// Whether that writer moves slots to the left.
    pub fn is_leftward(self) -> bool {
        self.0 & LEFTWARD != 0
    }
}

/// The state in which a reader finds a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// The page may be read; validate with this version.
    Ready(Version),
    /// The page must be fetched and recovered first, under its latch.
    Absent,
}

/// The latch of one page.
#[repr(transparent)]
#[derive(Debug)]
pub struct Latch(AtomicU64);

impl Latch {
    #[inline(always)]
    pub(crate) fn of(word: &AtomicU64) -> &Self {
        // SAFETY: Latch is a transparent wrapper of AtomicU64.
        unsafe { &*std::ptr::from_ref(word).cast::<Latch>() }
    }

    #[inline(always)]
    fn load(&self, order: Ordering) -> u64 {
        before_read();
        self.0.load(order)
    }

    #[inline(always)]
    fn store(&self, word: u64) {
        before_write();
        self.0.store(word, Ordering::Release);
    }

    /// Waits until no writer holds the latch and says what is there.
    #[inline(always)]
    pub fn read_version(&self) -> Seen {
        let word = self.load(Ordering::Acquire);
        if word & (LOCKED | READY) == READY {
            Seen::Ready(Version(word))
        } else {
            self.read_version_slow()
        }
    }

    /// As [`read_version`](Self::read_version), without waiting and without a change of the latch: `None` unless the page may be
    /// read now.
    #[inline(always)]
    pub fn read_version_now(&self) -> Option<Version> {
        let word = self.load(Ordering::Acquire);
        (word & (LOCKED | READY) == READY).then_some(Version(word))
    }

    #[cold]
    fn read_version_slow(&self) -> Seen {
        let mut wait = Backoff::default();
        loop {
            let word = self.load(Ordering::Acquire);
            if word & COLD != 0 {
                self.warm(word);
                continue;
            }
            if word & LOCKED == 0 {
                return if word & READY != 0 { Seen::Ready(Version(word)) } else { Seen::Absent };
            }
            wait.pause();
        }
    }

    /// Somebody uses the page, so it is not cold any more.
    fn warm(&self, word: u64) {
        debug_assert!(word & (LOCKED | READY) == 0, "a cold page is neither latched nor hot");
        before_write();
        // Else somebody else did, or it is being evicted.
        let _ = self.0.compare_exchange(word, hot(word), Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Calls a ready page cold, unless somebody holds it. Says whether it was hot.
    pub fn cool(&self) -> bool {
        let word = self.load(Ordering::Relaxed);
        let cold = word & !READY | COLD;
        before_write();
        word & (LOCKED | READY) == READY
            && self.0.compare_exchange(word, cold, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Latches a page that is still cold, in order to evict it: to all others it is absent at once.
    /// [`LatchGuard::set_ready`] takes that back.
    pub fn try_lock_cold(&self) -> Option<LatchGuard<'_>> {
        let word = self.load(Ordering::Relaxed);
        let absent = word & !COLD;
        before_write();
        let order = (Ordering::AcqRel, Ordering::Relaxed);
        (word & COLD != 0
            && self.0.compare_exchange(word, absent | LOCKED, order.0, order.1).is_ok())
        .then(|| LatchGuard::new(self, absent))
    }

    /// The version of a page that is absent, unless somebody holds its latch. It is valid until somebody fetches
    /// the page.
    pub fn read_absent(&self) -> Option<Version> {
        let word = self.load(Ordering::Acquire);
        (word & (LOCKED | READY | COLD) == 0).then_some(Version(word))
    }

    /// Latches a page that is absent, unless somebody holds its latch, so that its frame can be given back to the system:
    /// as if it had never been touched, which unlatches it, too. [`put_back`](Self::put_back) takes that back.
    pub(crate) fn take_absent(&self) -> bool {
        let Some(Version(word)) = self.read_absent() else { return false };
        before_write();
        let order = (Ordering::AcqRel, Ordering::Relaxed);
        let is_taken = self.0.compare_exchange(word, word | LOCKED, order.0, order.1).is_ok();
        if is_taken {
            // Before anybody can find the page without its version.
            let above = (word | (VERSION_ONE - 1)) + 1;
            FORGOTTEN_BELOW.fetch_max(above, std::sync::atomic::Ordering::SeqCst);
        }
        is_taken
    }

    /// Unlatches what [was taken](Self::take_absent), and is not given back after all.
    pub(crate) fn put_back(&self) {
        let word = self.load(Ordering::Relaxed);
        debug_assert!(word & (LOCKED | READY | COLD) == LOCKED, "an absent page that was taken");
        self.store(word & !LOCKED);
    }

    /// Says what is there without waiting: with a writer inside, the version is
    /// [racing](Version::is_racing), and is valid until that writer leaves or turns. Only a page
    /// that is not ready is waited for.
    #[inline(always)]
    pub fn read_version_racing(&self) -> Seen {
        let word = self.load(Ordering::Acquire);
        if word & READY != 0 { Seen::Ready(Version(word)) } else { self.read_version_slow() }
    }

    /// The writer that holds the latch is about to move slots to the left. Ends with the latch.
    #[inline(always)]
    pub fn turn_leftward(&self) {
        let word = self.load(Ordering::Relaxed);
        debug_assert!(word & LOCKED != 0 && self.is_held_here(), "only the holder turns");
        self.store(word | LEFTWARD);
    }

    /// Whether nothing changed since `version` was seen.
    #[inline(always)]
    pub fn validate(&self, version: Version) -> bool {
        fence(Ordering::Acquire);
        self.load(Ordering::Relaxed) == version.0
    }

    /// Latches if nothing changed since `version` was seen.
    #[inline(always)]
    pub fn upgrade(&self, version: Version) -> Option<LatchGuard<'_>> {
        debug_assert!(!version.is_racing(), "somebody else's latch");
        before_write();
        self.0
            .compare_exchange(version.0, version.0 | LOCKED, Ordering::Acquire, Ordering::Relaxed)
            .ok()
            .map(|word| LatchGuard::new(self, word))
    }

    /// Latches, waiting as long as it takes.
    pub fn lock(&self) -> LatchGuard<'_> {
        debug_assert!(!rules::waits_for_itself(self.address()), "it would wait for ever");
        let mut wait = Backoff::default();
        loop {
            if let Some(held) = self.try_lock() {
                return held;
            }
            wait.pause();
        }
    }

    /// Latches if nobody holds it.
    #[inline(always)]
    pub fn try_lock(&self) -> Option<LatchGuard<'_>> {
        let word = self.load(Ordering::Relaxed);
        if word & COLD != 0 {
            return self.try_lock_warm(word);
        }
        if word & LOCKED != 0 { None } else { self.upgrade(Version(word)) }
    }

    #[cold]
    fn try_lock_warm(&self, word: u64) -> Option<LatchGuard<'_>> {
        self.warm(word);
        self.upgrade(Version(hot(word)))
    }

    /// Latches if nobody holds it, after waiting a little: for the second latch of a step, where
    /// waiting without end could deadlock.
    pub fn try_lock_briefly(&self) -> Option<LatchGuard<'_>> {
        (0..200).find_map(|_| {
            let held = self.try_lock();
            if held.is_none() {
                spin_loop();
            }
            held
        })
    }

    /// Whether the page is ready, latched or not.
    pub fn is_ready(&self) -> bool {
        self.load(Ordering::Acquire) & (READY | COLD) != 0
    }

    /// Whether a writer holds the latch now. This is for assertions: unlike
    /// [`is_locked`](Self::is_locked), it is no point where a test's scheduler may switch threads.
    #[inline(always)]
    pub fn is_held(&self) -> bool {
        self.0.load(Ordering::Relaxed) & LOCKED != 0
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Whether this thread holds the latch. For assertions: see [`rules`].
    pub fn is_held_here(&self) -> bool {
        rules::holds_latch(self.address())
    }

    /// Whether a writer holds the latch now.
    #[inline(always)]
    pub fn is_locked(&self) -> bool {
        self.load(Ordering::Relaxed) & LOCKED != 0
    }
}

/// A held latch; dropping it unlocks with a new version.
#[derive(Debug)]
pub struct LatchGuard<'m> {
    latch: &'m Latch,
    word: u64,
    changed: bool,
    /// It stays in its thread, of which [`rules`] keep account.
    _here: PhantomData<*const ()>,
}

impl<'m> LatchGuard<'m> {
    /// The latch was taken when its word was `word`.
    #[inline(always)]
    fn new(latch: &'m Latch, word: u64) -> Self {
        debug_assert!(word & (LOCKED | LEFTWARD) == 0, "the latch of a writer was taken");
        rules::latched(latch.address());
        // A thread that latches a page and then looks at the latch of another one sees the latch of a thread that has latched
        // that one and then looked at the first. On x86-64 the instruction that latches is such a fence.
        #[cfg(not(target_arch = "x86_64"))]
        fence(Ordering::SeqCst);
        Self { latch, word, changed: true, _here: PhantomData }
    }
    /// Whether the page was ready when it was latched, or was made so since.
    #[inline(always)]
    pub fn is_ready(&self) -> bool {
        self.word & READY != 0
    }
    /// The page is in memory, recovered, and its aid is built: readers may come. Those that do not
    /// wait may from now on, while the latch is still held.
    pub fn set_ready(&mut self) {
        self.word = raised(self.word) | READY;
        let turned = self.latch.load(Ordering::Relaxed) & LEFTWARD;
        self.latch.store(self.word | LOCKED | turned);
    }
    /// The page's memory has been given back: the next reader must fetch it.
    pub fn set_absent(&mut self) {
        self.word &= !READY;
    }
    /// The version at which the page was latched.
    #[inline(always)]
    pub fn before(&self) -> Version {
        Version(self.word)
    }
    /// The version that the page will have once the latch is dropped.
    #[inline(always)]
    pub fn after(&self) -> Version {
        Version(self.word.wrapping_add(VERSION_ONE))
    }
    /// Unlocks with the old version: nothing was changed, so readers need not start again.
    #[inline(always)]
    pub fn unlock_unchanged(mut self) {
        self.changed = false;
    }
}

impl Drop for LatchGuard<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        let word = if self.changed { self.word.wrapping_add(VERSION_ONE) } else { self.word };
        rules::unlatched(self.latch.address());
        self.latch.store(word);
    }
}

/// Waiting for a latch, which first spins and then gives the processor away.
///
/// It has no bound, just as a wait for a lock of the standard library has none: a thread that holds a latch ends its step
/// without anything from one that waits. A page that this very thread may hold, which only damage leads to,
/// is looked at before it is waited for. Loops that start again have [`Retries`](crate::Retries).
#[derive(Debug, Default)]
pub struct Backoff(u32);

impl Backoff {
    /// Waits a little, longer each time.
    pub fn pause(&mut self) {
        self.0 += 1;
        if self.0 < 64 {
            spin_loop();
        } else {
            yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::model;

    #[test]
    fn a_new_page_can_be_read_while_its_maker_holds_it() {
        model(|| {
            let word = AtomicU64::new(0);
            let latch = Latch::of(&word);
            let mut held = latch.lock();
            held.set_ready();
            let Seen::Ready(v) = latch.read_version_racing() else { panic!("made ready") };
            assert!(v.is_racing() && latch.validate(v));
            drop(held);
            assert!(!latch.validate(v));
            assert!(matches!(latch.read_version_racing(), Seen::Ready(v) if !v.is_racing()));
        });
    }

    #[test]
    fn a_page_is_evicted_only_while_nobody_comes() {
        model(|| {
            let word = AtomicU64::new(0);
            let latch = Latch::of(&word);
            assert!(!latch.cool() && latch.try_lock_cold().is_none(), "it is absent");
            latch.lock().set_ready();
            let Seen::Ready(before) = latch.read_version() else { panic!("made ready") };
            let held = latch.lock();
            assert!(!latch.cool(), "a writer has it");
            held.unlock_unchanged();
            assert!(latch.try_lock_cold().is_none() && latch.cool() && !latch.cool());
            assert!(latch.is_ready() && !latch.validate(before) && latch.upgrade(before).is_none());
            // A reader that comes finds what was there.
            assert_eq!(latch.read_version_racing(), Seen::Ready(before));
            assert!(latch.validate(before) && latch.try_lock_cold().is_none() && latch.cool());
            assert!(latch.try_lock().is_some_and(|held| held.is_ready()) && latch.cool());
            let mut held = latch.try_lock_cold().expect("cold");
            assert!(!latch.is_ready() && !held.is_ready() && latch.try_lock().is_none());
            held.set_ready();
            let Seen::Ready(again) = latch.read_version_racing() else { panic!("kept") };
            held.unlock_unchanged();
            assert!(!latch.validate(again) && latch.cool());
            let Seen::Ready(kept) = latch.read_version() else { panic!("kept") };
            assert!(latch.cool());
            drop(latch.try_lock_cold().expect("cold"));
            assert!(latch.read_version() == Seen::Absent && !latch.validate(kept));
            latch.lock().set_ready();
            assert!(!latch.validate(kept), "a page that was evicted never has its old version");
        });
    }

    #[test]
    fn a_page_that_is_absent_has_a_version_until_it_is_fetched() {
        model(|| {
            let word = AtomicU64::new(0);
            let latch = Latch::of(&word);
            let absent = latch.read_absent().expect("nobody has touched it");
            assert!(latch.validate(absent) && latch.read_absent() == Some(absent));
            let mut held = latch.lock();
            assert!(
                !latch.validate(absent) && latch.read_absent().is_none(),
                "somebody fetches it"
            );
            held.set_ready();
            held.unlock_unchanged();
            assert!(!latch.validate(absent) && latch.read_absent().is_none());
            assert!(latch.cool() && latch.read_absent().is_none(), "it is there");
            drop(latch.try_lock_cold().expect("cold"));
            assert!(latch.read_absent().is_some_and(|again| again != absent));
            assert!(!latch.validate(absent), "it was there in between");
        });
    }

    #[test]
    fn a_page_that_was_forgotten_never_has_an_old_version() {
        model(|| {
            let word = AtomicU64::new(0);
            let latch = Latch::of(&word);
            let mut held = latch.lock();
            assert!(!latch.take_absent(), "somebody fetches it");
            held.set_ready();
            drop(held);
            // More often than somebody gives up a fetch below.
            (0..9).for_each(|_| drop(latch.lock()));
            let Seen::Ready(before) = latch.read_version() else { panic!("made ready") };
            assert!(!latch.take_absent() && latch.cool() && !latch.take_absent(), "it is there");
            drop(latch.try_lock_cold().expect("cold"));
            let absent = latch.read_absent().expect("nobody holds it");
            assert!(latch.take_absent() && latch.try_lock().is_none() && !latch.take_absent());
            latch.put_back();
            assert_eq!(latch.read_absent(), Some(absent));
            assert!(latch.take_absent() && latch.read_absent().is_none());
            // As the system does.
            word.store(0, Ordering::Release);
            assert!(latch.read_version() == Seen::Absent && !latch.validate(before));
            // Somebody gives up a fetch first.
            for _ in 0..3 {
                drop(latch.lock());
            }
            let mut held = latch.lock();
            held.set_ready();
            let made = held.before();
            held.unlock_unchanged();
            assert!(latch.validate(made) && made.stamp() > before.stamp().max(absent.stamp()));
        });
    }

    #[test]
    fn a_writer_invalidates_what_a_reader_saw() {
        model(|| {
            let word = AtomicU64::new(0);
            let latch = Latch::of(&word);
            assert_eq!(latch.read_version(), Seen::Absent);
            latch.lock().set_ready();
            let Seen::Ready(v) = latch.read_version() else { panic!("made ready") };
            assert!(latch.validate(v));
            let held = latch.upgrade(v).expect("nobody holds it");
            assert!(latch.is_locked() && latch.try_lock().is_none());
            held.unlock_unchanged();
            assert!(latch.validate(v));
            drop(latch.lock());
            assert!(!latch.validate(v) && latch.upgrade(v).is_none());
            assert!(
                matches!(latch.read_version(), Seen::Ready(later) if later.stamp() > v.stamp())
            );
        });
    }
}
