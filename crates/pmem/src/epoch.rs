//! The epoch clock: which steps an epoch holds, and who makes it durable. Media with epochs use it;
//! what they keep of a running epoch is `S`, one for each slot.
//!
//! A step locks the slot of its thread and then reads the clock; it is in that epoch until it
//! unlocks. To close epoch e, the leader sets the clock to e + 1 and then locks each slot in turn
//! and takes what it holds of e. So a step that locks its slot after the leader did sees e + 1, and
//! a step that is inside is waited for, alone: the cut is exact, and nobody waits for anybody else.
//! An [`EpochPin`] keeps the clock still for the steps of a batch.
//!
//! - The latches of a step come before its slot. So no page is changed in epoch e after it was
//!   changed in e + 1 (BD+Tree §3.4), and who has seen a store of epoch e is in e or later with its
//!   next step.
//! - Epoch e + 1 is closed after e was [published](Epochs::publish) as durable. So while the clock
//!   shows e, the durable epoch is e - 2 or e - 1, and two sets in a slot, for even and for odd
//!   epochs, are enough.
//!
//! A thread that needs an epoch durable becomes the leader if there is none, and otherwise waits: one
//! commit serves all that came in the meantime.

use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::PoisonError;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;

use crate::error::{Error, Result};
use crate::sync::{
    AtomicBool, AtomicU64, Condvar, Mutex, MutexGuard, Ordering, RwLock, RwLockReadGuard,
    before_read, before_write, fence, lock, read_lock, thread_local, thread_number, wait,
    wait_timeout, write_lock, yield_now,
};

/// Slots of a clock, unless it says otherwise. A thread always uses the same one, so its mutex is
/// free unless the slot is being emptied or more threads than this write.
pub const SLOTS: usize = 64;
/// Epochs from here on are no epochs, but damage. No clock gets there by counting.
pub const NO_EPOCH: u64 = 1 << 62;

const _: () = assert!(SLOTS <= 64, "a bit for each slot");

thread_local! {
    #[allow(clippy::missing_const_for_thread_local, reason = "loom's macro knows no const")]
    static PINS: Cell<u32> = Cell::new(0);
}

/// Whether this thread runs a batch, of whatever clock.
pub fn epoch_is_pinned() -> bool {
    PINS.with(Cell::get) != 0
}

/// Keeps the clock still: all steps of a batch land in one epoch.
///
/// Take it before any latch and let it go soon: nothing becomes durable while it is held, and one
/// that is forgotten keeps its medium from ending. A thread has one at a time, whatever the medium;
/// waiting for durability, of any medium, and closing one are refused meanwhile.
///
/// If the thread panics with it in hand, neither its epoch nor a later one becomes durable. The
/// caller decides what to do about an error inside: undo what was done, or `poison` the medium
/// before this is dropped; else the part that was done becomes durable.
#[derive(Debug)]
pub struct EpochPin<'m> {
    _gate: RwLockReadGuard<'m, ()>,
    torn: &'m AtomicBool,
    /// The panic that runs is older than the batch, which runs in a destructor.
    panicking: bool,
    _here: PhantomData<*const ()>,
}

impl EpochPin<'_> {
    /// Refuses what would wait for this thread itself. Also inside a batch of another clock, for two
    /// threads could each wait for the other's batch.
    ///
    /// # Errors
    /// [`Error::InsideBatch`] then.
    pub fn refuse_inside() -> Result<()> {
        if epoch_is_pinned() {
            return Err(Error::InsideBatch);
        }
        Ok(())
    }
}

impl Drop for EpochPin<'_> {
    fn drop(&mut self) {
        if thread::panicking() && !self.panicking {
            before_write();
            // The gate, which is let go after this, hands it to the next closer.
            self.torn.store(true, Ordering::Relaxed);
        }
        debug_assert!(epoch_is_pinned(), "a batch ends in a thread that runs none");
        PINS.with(|holds| holds.set(holds.get() - 1));
    }
}

/// No epoch may become durable any more: a step or a batch panicked half-way, an epoch was closed
/// and never published, or no epoch is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochTorn;

impl EpochTorn {
    /// The error that a caller gets. No `From`: a second type that becomes an [`Error`] would keep the compiler from finding
    /// out the error of a closure that uses `?`.
    #[cold]
    pub fn error(self) -> Error {
        let what = "no epoch may become durable any more: a step, a batch or a commit was cut off \
                    half-way, or no epoch is left";
        Error::Interrupted { what }
    }
}

#[derive(Debug, Default)]
struct Content<S> {
    /// The slot's bit in [`Epochs::used`] is set.
    used: bool,
    state: S,
}

/// A locked slot. A panic with it in hand tears the clock.
#[derive(Debug)]
pub struct SlotGuard<'m, S>(MutexGuard<'m, Content<S>>);

impl<S> Deref for SlotGuard<'_, S> {
    type Target = S;
    #[inline(always)]
    fn deref(&self) -> &S {
        &self.0.state
    }
}

impl<S> DerefMut for SlotGuard<'_, S> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut S {
        &mut self.0.state
    }
}

/// Words that each step reads, and that only ends of epochs and a slot's first use write.
#[derive(Debug)]
struct Face {
    /// The running epoch.
    clock: AtomicU64,
    /// The slots that have ever been used, one bit each.
    used: AtomicU64,
    durable: AtomicU64,
}

/// The clock of one medium, with `N` slots of `S`; `N` is at most 64.
#[derive(Debug)]
pub struct Epochs<S, const N: usize = SLOTS> {
    /// Apart from what batches and those who wait write.
    face: CachePadded<Face>,
    gate: RwLock<()>,
    /// Whether a batch panicked.
    torn: AtomicBool,
    slots: Box<[CachePadded<Mutex<Content<S>>>; N]>,
    /// Whether somebody commits.
    leading: Mutex<bool>,
    done: Condvar,
}

impl<S: Default, const N: usize> Epochs<S, N> {
    /// A clock that runs in the epoch after `durable`, which is below [`NO_EPOCH`].
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn new(durable: u64) -> Result<Self> {
        const { assert!(N > 0 && N <= 64, "a bit for each slot") };
        debug_assert!(durable < NO_EPOCH, "{durable:#x} is no durable epoch");
        let bytes = N * size_of::<CachePadded<Mutex<Content<S>>>>();
        let refused = || Error::NoMemory { what: "the slots of an epoch clock", bytes };
        let mut slots = Vec::new();
        slots.try_reserve_exact(N).map_err(|_| refused())?;
        slots.resize_with(N, || CachePadded::new(Mutex::new(Content::default())));
        let slots = slots.into_boxed_slice().try_into().map_err(|_| refused())?;
        Ok(Self {
            face: CachePadded::new(Face {
                clock: AtomicU64::new(durable + 1),
                used: AtomicU64::new(0),
                durable: AtomicU64::new(durable),
            }),
            gate: RwLock::new(()),
            torn: AtomicBool::new(false),
            slots,
            leading: Mutex::new(false),
            done: Condvar::new(),
        })
    }
}

impl<S, const N: usize> Epochs<S, N> {
    /// The running epoch.
    #[inline]
    pub fn now(&self) -> u64 {
        before_read();
        self.face.clock.load(Ordering::SeqCst)
    }

    /// The last epoch that is durable, with all before it.
    #[inline]
    pub fn durable(&self) -> u64 {
        before_read();
        self.face.durable.load(Ordering::Acquire)
    }

    /// The last durable epoch and the running one, for an assertion or an estimate: no point of a test's schedule.
    pub fn peek(&self) -> (u64, u64) {
        (self.face.durable.load(Ordering::Relaxed), self.face.clock.load(Ordering::Relaxed))
    }

    /// Begins a step of this thread, which has latched all that it changes. It is in the epoch that
    /// is returned until the slot is dropped.
    ///
    /// # Errors
    /// [`EpochTorn`] if an earlier step in this slot panicked.
    #[inline]
    pub fn enter(&self) -> Result<(SlotGuard<'_, S>, u64), EpochTorn> {
        let i = thread_number() % N;
        let mut slot = lock(&self.slots[i]).map_err(|_| EpochTorn)?;
        if !slot.used {
            slot.used = true;
            self.show(i);
        }
        let epoch = self.now();
        Ok((SlotGuard(slot), epoch))
    }

    /// Has slot `i` visited from now on. The fence stands between this store and the load of the
    /// clock, as the one in [`visit`](Self::visit) between the clock's store and the load of `used`:
    /// either the leader finds the slot, or the step finds the next epoch.
    #[cold]
    fn show(&self, i: usize) {
        before_write();
        self.face.used.fetch_or(1 << i, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Locks each slot that has been used, in turn, with its index.
    ///
    /// # Errors
    /// [`EpochTorn`] if a step panicked in one of them.
    pub fn visit(&self, mut see: impl FnMut(usize, SlotGuard<'_, S>)) -> Result<(), EpochTorn> {
        fence(Ordering::SeqCst);
        before_read();
        let used = self.face.used.load(Ordering::SeqCst);
        for (i, slot) in self.slots.iter().enumerate() {
            if used >> i & 1 != 0 {
                see(i, SlotGuard(lock(slot).map_err(|_| EpochTorn)?));
            }
        }
        Ok(())
    }

    /// Ends the running epoch and has `take` see it and each slot: when this returns, all steps of
    /// the epoch have ended and been seen. One at a time; the epoch is to be made durable and
    /// [published](Self::publish) before the next is closed.
    ///
    /// # Errors
    /// [`EpochTorn`] if a step or a batch panicked, if the epoch before was closed and never published, or
    /// if this is [`NO_EPOCH`].
    pub fn close(
        &self,
        mut take: impl FnMut(u64, usize, SlotGuard<'_, S>),
    ) -> Result<u64, EpochTorn> {
        let gate = write_lock(&self.gate).unwrap_or_else(PoisonError::into_inner);
        let epoch = self.now();
        let torn = self.torn.load(Ordering::Relaxed);
        if torn || epoch >= NO_EPOCH || self.durable() + 1 != epoch {
            return Err(EpochTorn);
        }
        before_write();
        self.face.clock.store(epoch + 1, Ordering::SeqCst);
        drop(gate);
        self.visit(|i, slot| take(epoch, i, slot))?;
        Ok(epoch)
    }

    /// Says that `epoch` is durable, after it is.
    pub fn publish(&self, epoch: u64) {
        debug_assert!(epoch < NO_EPOCH, "{epoch:#x} is no epoch");
        debug_assert!(
            self.face.durable.load(Ordering::Relaxed) + 1 == epoch,
            "epochs become durable one after the other"
        );
        before_write();
        self.face.durable.store(epoch, Ordering::Release);
    }

    /// Keeps the clock still for a batch of this thread, which has none (else this panics).
    pub fn pin_epoch(&self) -> EpochPin<'_> {
        assert!(
            !epoch_is_pinned(),
            "this thread runs a batch already, of this medium or of another"
        );
        let gate = read_lock(&self.gate).unwrap_or_else(PoisonError::into_inner);
        PINS.with(|holds| holds.set(1));
        EpochPin {
            _gate: gate,
            torn: &self.torn,
            panicking: thread::panicking(),
            _here: PhantomData,
        }
    }

    fn leading(&self) -> MutexGuard<'_, bool> {
        lock(&self.leading).unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `epoch` is durable, ending it if it runs: as leader by `commit` if there is none,
    /// which closes and publishes an epoch. `check` fails once waiting is of no use.
    ///
    /// # Errors
    /// Those of `check` and `commit`; [`Error::InsideBatch`] inside an [`EpochPin`] of any clock.
    pub fn wait_durable(
        &self,
        epoch: u64,
        check: impl Fn() -> Result<()>,
        commit: impl Fn() -> Result<()>,
    ) -> Result<()> {
        let epoch = epoch.min(self.now());
        if self.durable() >= epoch {
            return Ok(());
        }
        EpochPin::refuse_inside()?;
        let mut led = self.leading();
        loop {
            if self.durable() >= epoch {
                return Ok(());
            }
            check()?;
            if *led {
                led = wait(&self.done, &self.leading, led).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            *led = true;
            drop(led);
            let lead = Lead(self);
            // Those who were woken together with this leader get to their next step first, and
            // then share its commit instead of waiting for the one after.
            yield_now();
            commit()?;
            drop(lead);
            led = self.leading();
        }
    }

    /// Waits until `epoch` is durable, and leaves it to others to end it; `until` then at the longest, if it says when.
    /// Says whether the epoch is durable. `look` comes before each wait: it says whether waiting is of use, and fails once the
    /// epoch does not become durable any more.
    ///
    /// # Errors
    /// Those of `look`; [`Error::InsideBatch`] inside an [`EpochPin`] of any clock.
    pub fn await_durable(
        &self,
        epoch: u64,
        until: Option<Instant>,
        look: impl Fn() -> Result<bool>,
    ) -> Result<bool> {
        if self.durable() >= epoch {
            return Ok(true);
        }
        EpochPin::refuse_inside()?;
        let mut led = self.leading();
        loop {
            if self.durable() >= epoch {
                return Ok(true);
            }
            if !look()? {
                return Ok(false);
            }
            led = match until.map(|until| until.saturating_duration_since(Instant::now())) {
                None => {
                    wait(&self.done, &self.leading, led).unwrap_or_else(PoisonError::into_inner)
                }
                Some(Duration::ZERO) => return Ok(false),
                Some(most) => wait_timeout(&self.done, &self.leading, led, most),
            };
        }
    }

    /// Has all who wait look again whether waiting is of use.
    pub fn wake(&self) {
        drop(self.leading());
        self.done.notify_all();
    }
}

/// The one commit that runs; also if it panics, another can lead after it.
struct Lead<'m, S, const N: usize>(&'m Epochs<S, N>);

impl<S, const N: usize> Drop for Lead<'_, S, N> {
    fn drop(&mut self) {
        *self.0.leading() = false;
        self.0.done.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::model;

    type Lists = Epochs<[Vec<u32>; 2], 2>;

    fn take(epochs: &Lists, into: &mut Vec<u32>) -> Result<u64, EpochTorn> {
        epochs.close(|epoch, _, mut slot| into.append(&mut slot[(epoch & 1) as usize]))
    }

    #[test]
    fn an_epoch_holds_the_steps_between_two_closings() {
        model(|| {
            let epochs = Lists::new(7).expect("memory");
            for n in [1, 2] {
                let (mut slot, epoch) = epochs.enter().expect("no panic");
                assert_eq!(epoch, 8);
                slot[(epoch & 1) as usize].push(n);
            }
            let mut taken = Vec::new();
            assert_eq!(take(&epochs, &mut taken), Ok(8));
            assert_eq!((epochs.now(), epochs.durable(), &taken[..]), (9, 7, &[1, 2][..]));
            epochs.publish(8);
            assert_eq!(take(&epochs, &mut taken), Ok(9));
            assert_eq!(taken, [1, 2], "each step is taken once");
        });
    }

    #[test]
    fn an_epoch_that_was_never_published_is_the_last_one() {
        model(|| {
            let epochs = Lists::new(0).expect("memory");
            assert_eq!(take(&epochs, &mut Vec::new()), Ok(1));
            assert_eq!(take(&epochs, &mut Vec::new()), Err(EpochTorn));
            assert_eq!(epochs.now(), 2);
        });
    }

    #[test]
    fn waiting_inside_a_batch_is_refused() {
        model(|| {
            let epochs = Lists::new(0).expect("memory");
            let hold = epochs.pin_epoch();
            let refused = epochs.wait_durable(1, || Ok(()), || Ok(()));
            assert!(matches!(refused, Err(Error::InsideBatch)), "{refused:?}");
            let refused = epochs.await_durable(1, None, || Ok(true));
            assert!(matches!(refused, Err(Error::InsideBatch)), "{refused:?}");
            assert!(epochs.await_durable(0, None, || Ok(true)).expect("it is durable"));
            drop(hold);
            let commit = || {
                epochs.publish(take(&epochs, &mut Vec::new()).expect("not torn"));
                Ok(())
            };
            epochs.wait_durable(9, || Ok(()), commit).expect("the running one is the last");
            assert_eq!((epochs.durable(), epochs.now()), (1, 2));
        });
    }
}
