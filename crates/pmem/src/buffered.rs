//! A strict medium whose lines may wait for the end of an epoch: buffered durability, as BD+Tree
//! has it (§3.1).
//!
//! [`flush`](Medium::flush) and [`fence`](Medium::fence) act at once, as on the medium inside. A
//! step may [`defer`](Buffered::defer) a line instead: it is written back when the step's epoch
//! ends. Persist order of a commit of epoch e:
//!
//! 1. all lines deferred in e, then a fence, because
//! 2. the word [`SEQ_WORD`] of page 0, 8 bytes := e, says that they are durable; then a fence, before
//! 3. anybody is told (else an acknowledged epoch could be rolled back).
//!
//! Deferred lines may reach memory early, in part, and so may those of the epoch after. Data
//! stored there must therefore say its epoch and keep what was there at the end of the last durable
//! one; while the [clock](Buffered::clock) shows e, that is e - 2 or e - 1. After a crash the layer
//! above goes back to [`recovered_epoch`](Buffered::recovered_epoch).

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;

use crate::epoch::{EpochPin, EpochTorn, Epochs, NO_EPOCH, SLOTS, SlotGuard, epoch_is_pinned};
use crate::error::{Error, Result};
use crate::life::{CloseOnce, Life};
use crate::locks::{Condvar, Mutex, of_last_owner};
use crate::medium::{Change, Medium, Redo};
use crate::page::{Geometry, Page, PageNo, SEQ_WORD, Word};
use crate::rules::Stepping;
use crate::sync::lock_plain as lock;

/// The page whose [`SEQ_WORD`] says which epoch is durable.
const CLOCK_PAGE: PageNo = 0;
/// The time that the system needs to put a thread to sleep and wake it: shorter intervals are waited for by
/// yielding the processor.
const SLEEPABLE: Duration = Duration::from_micros(200);

/// Bits of [`BufferedState::barrier`]: why no step may begin.
const POISONED: u32 = 1;
const CLOSED: u32 = 2;
/// Commits are over too.
const ABANDONED: u32 = 4;

const _: () = {
    assert!(POISONED & CLOSED == 0 && (POISONED | CLOSED) & ABANDONED == 0, "bits of their own");
    assert!(SEQ_WORD != crate::page::SUM_WORD, "the clock is no checksum");
};

/// How a [`Buffered`] medium ends its epochs.
#[derive(Debug, Clone)]
pub struct BufferedOptions {
    /// The longest time that a deferred line waits for the end of its epoch, 1 µs to 10 s; 10 ms
    /// unless set. The thread that [`Buffered::start`] starts sleeps meanwhile; with less than
    /// 200 µs it keeps a processor busy.
    pub interval: Duration,
    /// The most operations of an epoch, from 1 on; `None`, as it is unless set: only time ends epochs, and who waits
    /// for one. An operation is what announces itself by [`Medium::throttle`], which trees do once for each put and each
    /// removal; those of a batch stay together, however many. The first operation that an epoch has no room for ends it,
    /// and waits until it is durable. On one thread the count is exact; with more, an epoch has at most two operations
    /// of each thread beyond it. All threads count in one place. Without [`Buffered::start`] only the count
    /// ends epochs.
    pub operations: Option<u64>,
}

impl Default for BufferedOptions {
    fn default() -> Self {
        Self { interval: Duration::from_millis(10), operations: None }
    }
}

/// Figures of a [`Buffered`] medium since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BufferedStats {
    /// Epochs that were made durable.
    pub commits: u64,
    /// Lines flushed at the ends of epochs.
    pub lines_deferred: u64,
}

/// A slot's part of the running steps' epochs: the lines to write back, for even and for odd
/// epochs.
#[derive(Debug, Default)]
struct Deferred([Vec<(PageNo, u32)>; 2]);

/// A running step on a [`Buffered`] medium. It lands whole in one epoch. Keep it short: the end of
/// its epoch waits for it.
#[derive(Debug)]
pub struct BufferedOp<'m, M: Medium> {
    // Before the slot, so that the step inside ends within the epoch.
    _inner: M::Op<'m>,
    slot: SlotGuard<'m, Deferred>,
    epoch: u64,
    _step: Stepping,
}

/// A strict medium with an epoch clock; see [the module](self).
///
/// It starts no thread: [`start`](Self::start) does, or [`tick`](Self::tick) ends epochs by hand.
/// Dropping it makes what was done durable and joins the thread.
///
/// ```
/// use everleaf_pmem::{Buffered, BufferedOptions, Dram, Geometry, Medium};
/// let dram = Dram::new(Geometry::new(4).unwrap(), 2)?;
/// let medium = Buffered::new(dram, &BufferedOptions::default())?;
/// let page = medium.page(1)?;
/// let held = page.latch().lock();
/// let mut op = medium.enter()?;
/// medium.store(page.body(0), 42);
/// medium.defer(&mut op, page, page.line_of(0));
/// let epoch = medium.epoch(&op);
/// drop((op, held));
/// medium.wait_durable(epoch)?;
/// assert_eq!(medium.persisted_epoch(), epoch);
/// # Ok::<(), everleaf_pmem::Error>(())
/// ```
#[derive(Debug)]
pub struct Buffered<M: Medium> {
    shared: Arc<BufferedState<M>>,
    ticker: Mutex<Option<JoinHandle<()>>>,
    /// The answer of the first [`close`](Self::close); held while it runs.
    end: CloseOnce,
}

/// How many operations an epoch has, and had.
#[derive(Debug)]
struct OperationBudget {
    /// The most of an epoch.
    most: u64,
    /// All that were announced.
    seen: CachePadded<AtomicU64>,
    /// Of these, those before the running epoch.
    before: AtomicU64,
}

/// The state that the handle and its ticker share.
#[derive(Debug)]
struct BufferedState<M> {
    inner: M,
    epochs: Epochs<Deferred>,
    /// Read by each step, so apart from what steps and commits write.
    barrier: CachePadded<AtomicU32>,
    /// The last epoch in which a line was deferred.
    active: AtomicU64,
    /// Only the leader of a commit touches these: for each slot a list to swap for its own.
    spares: Mutex<Vec<Vec<(PageNo, u32)>>>,
    cause: OnceLock<Arc<Error>>,
    recovered: u64,
    interval: Duration,
    /// The budget that ends epochs which have had so many operations, if there is one.
    budget: Option<OperationBudget>,
    /// A fork of the process that made this has no ticker.
    life: Life,
    /// Whether the ticker is to stop.
    stop: Mutex<bool>,
    tick: Condvar,
    commits: AtomicU64,
    lines: AtomicU64,
}

impl<M: Medium> Buffered<M> {
    /// Puts a clock on a strict medium, of whose page 0 header word [`SEQ_WORD`] is the medium's
    /// own: it names the last durable epoch D, 0 to begin with. The clock shows D + 1.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] if the interval is out of range or epochs are to have no operations,
    /// [`Error::Corrupt`] if there is no page 0 or its word is no epoch.
    pub fn new(inner: M, options: &BufferedOptions) -> Result<Self> {
        const { assert!(!M::JOURNALED, "a journal has epochs of its own") };
        let interval = options.interval;
        if interval < Duration::from_micros(1) || interval > Duration::from_secs(10) {
            let what = format!("the interval is {interval:?}; it must be 1 us to 10 s");
            return Err(Error::InvalidOption { option: "interval", what });
        }
        if options.operations == Some(0) {
            let what = "an epoch of no operations".to_owned();
            return Err(Error::InvalidOption { option: "operations", what });
        }
        let page = inner.page(CLOCK_PAGE)?;
        let recovered = page.head(SEQ_WORD).load();
        if recovered >= NO_EPOCH {
            let at = page.file_offset() + 8 * SEQ_WORD as u64;
            return Err(Error::corrupt(at, format!("{recovered:#x} is no durable epoch")));
        }
        let shared = BufferedState {
            inner,
            epochs: Epochs::new(recovered)?,
            barrier: CachePadded::new(AtomicU32::new(0)),
            active: AtomicU64::new(0),
            spares: Mutex::new(vec![Vec::new(); SLOTS]),
            cause: OnceLock::new(),
            recovered,
            interval,
            budget: options.operations.map(OperationBudget::new),
            life: Life::default(),
            stop: Mutex::new(false),
            tick: Condvar::new(),
            commits: AtomicU64::new(0),
            lines: AtomicU64::new(0),
        };
        Ok(Self { shared: Arc::new(shared), ticker: Mutex::new(None), end: CloseOnce::default() })
    }

    /// Starts the thread that ends an epoch each interval, if it does not run. An epoch in which
    /// nothing was deferred goes on.
    ///
    /// # Errors
    /// [`Error::Io`] if the system gives no thread, [`Error::Closed`].
    pub fn start(&self) -> Result<()> {
        let mut ticker = lock(&self.ticker);
        if ticker.is_some() {
            return Ok(());
        }
        if self.shared.barrier.load(Ordering::SeqCst) & (CLOSED | ABANDONED) != 0 {
            return Err(Error::Closed);
        }
        let shared = Arc::clone(&self.shared);
        let thread = thread::Builder::new().name("everleaf-tick".into());
        let spawned = thread.spawn(move || shared.tick_on());
        *ticker = Some(spawned.map_err(|e| Error::io("starting the thread everleaf-tick", e))?);
        Ok(())
    }

    /// The medium inside.
    #[inline(always)]
    pub fn inner(&self) -> &M {
        &self.shared.inner
    }
    /// The running epoch.
    pub fn clock(&self) -> u64 {
        self.shared.epochs.now()
    }
    /// The last epoch that is durable, with all before it.
    pub fn persisted_epoch(&self) -> u64 {
        self.shared.epochs.durable()
    }
    /// The last durable epoch as it was found when this was made: what recovery goes back to the
    /// end of.
    pub fn recovered_epoch(&self) -> u64 {
        self.shared.recovered
    }
    /// Waits until `epoch` is durable, ending it if it runs. All who wait share one commit.
    ///
    /// # Errors
    /// [`Error::Poisoned`]; [`Error::Closed`]; [`Error::InsideBatch`] inside an [`EpochPin`] of any medium;
    /// what the medium inside says if it cannot be written.
    pub fn wait_durable(&self, epoch: u64) -> Result<()> {
        self.shared.wait_durable(epoch)
    }
    /// Makes all steps that have ended durable: the running epoch is ended, which waits for the
    /// running steps.
    ///
    /// # Errors
    /// As [`wait_durable`](Self::wait_durable); but where nothing can be written and nothing was
    /// deferred, all is durable.
    pub fn sync(&self) -> Result<()> {
        let shared = &*self.shared;
        shared.check()?;
        if shared.active.load(Ordering::Relaxed) == 0 && shared.inner.enter().is_err() {
            return Ok(());
        }
        shared.wait_durable(self.clock())
    }
    /// Ends the running epoch and makes it durable, also if nothing happened in it.
    ///
    /// # Errors
    /// As [`sync`](Self::sync).
    pub fn tick(&self) -> Result<()> {
        self.sync()
    }
    /// Keeps all steps of a batch in one epoch. Take it before any latch; waiting for durability
    /// inside is refused. A batch that panics never becomes durable, nor does anything after it; one
    /// that fails half-way becomes so, unless the caller undoes it or [poisons](Self::poison) the
    /// medium before the hold is dropped.
    ///
    /// # Panics
    /// If this thread holds another, of this medium or of any.
    pub fn pin_epoch(&self) -> EpochPin<'_> {
        // A hold cannot be refused; its steps can.
        let _ = self.shared.inner.throttle(false).and_then(|()| self.shared.end_if_full());
        self.shared.epochs.pin_epoch()
    }
    /// Has line `line` of `page` (0 is the header) written back at the end of the step's epoch. The
    /// caller holds the page's latch. Lines of one thread are written back in the order in which
    /// they were deferred, each as often as it was.
    #[inline]
    pub fn defer(&self, op: &mut BufferedOp<'_, M>, page: Page<'_>, line: usize) {
        let epoch = op.epoch;
        debug_assert!(line <= page.slots() / 4, "line {line} is outside the page");
        let list = &mut op.slot.0[(epoch & 1) as usize];
        if list.is_empty() {
            self.shared.active.fetch_max(epoch, Ordering::Relaxed);
        }
        list.push((page.no(), line as u32));
    }
    /// Makes everything durable, stops the thread, and refuses further steps. Reads go on. Whoever
    /// closes it again is told the same, after it is done.
    ///
    /// # Errors
    /// As [`sync`](Self::sync). Inside an [`EpochPin`] of any medium it is refused and changes nothing.
    pub fn close(&self) -> Result<()> {
        self.shared.life.check()?;
        self.end.once(|| {
            self.shared.barrier.fetch_or(CLOSED, Ordering::SeqCst);
            let result = self.sync();
            self.abandon();
            result
        })
    }
    /// Stops as if the process had been killed: no epoch becomes durable any more, except one whose
    /// steps have ended already and whose lines are being written back. For tests.
    pub fn abandon(&self) {
        if self.shared.life.is_forked() {
            return;
        }
        self.shared.barrier.fetch_or(CLOSED | ABANDONED, Ordering::SeqCst);
        self.shared.epochs.wake();
        self.tell_ticker();
        // Inside a batch the ticker may wait for this thread; it ends after the batch.
        if !epoch_is_pinned() {
            self.join_ticker();
        }
    }
    fn tell_ticker(&self) {
        *lock(&self.shared.stop) = true;
        self.shared.tick.notify_all();
    }
    fn join_ticker(&self) {
        let ticker = lock(&self.ticker).take();
        if let Some(ticker) = ticker {
            // It does not panic; and if it did, there is nothing left for it to do.
            let _ = ticker.join();
        }
    }
    /// Stops all writing for good because of `error`: the running epoch never becomes durable, also
    /// if somebody waits to commit it. Called in a step or a batch, that is its epoch. For layers
    /// that cannot complete what must be whole.
    pub fn poison(&self, error: &Error) {
        self.shared.poison(error.clone());
    }
    /// Why steps are refused, if something failed.
    pub fn poisoned(&self) -> Option<Error> {
        self.shared.poisoned()
    }
    /// Figures since this was made.
    pub fn stats(&self) -> BufferedStats {
        BufferedStats {
            commits: self.shared.commits.load(Ordering::Relaxed),
            lines_deferred: self.shared.lines.load(Ordering::Relaxed),
        }
    }
}

impl<M: Medium> Drop for Buffered<M> {
    fn drop(&mut self) {
        if self.shared.life.is_forked() {
            // After a fork the ticker is not in this process; joining it would never end.
            let ticker = self.ticker.get_mut().unwrap_or_else(PoisonError::into_inner);
            std::mem::forget(ticker.take());
            return;
        }
        self.tell_ticker();
        self.join_ticker();
        // Steps and holds borrow the handle: nobody is left to be waited for, also if this thread
        // runs a batch of another medium.
        if self.shared.barrier.load(Ordering::SeqCst) == 0 && !thread::panicking() {
            // A failure has poisoned the handle; nobody is left to be told.
            let _ = of_last_owner(|| self.shared.commit());
        }
    }
}

impl OperationBudget {
    fn new(most: u64) -> Self {
        Self { most, seen: CachePadded::default(), before: 0.into() }
    }

    /// Whether the running epoch has had all its operations.
    fn is_spent(&self) -> bool {
        let before = self.before.load(Ordering::Relaxed);
        // Signed: `before` may be of a later moment than what is read of `seen`.
        let in_epoch = self.seen.load(Ordering::Relaxed).wrapping_sub(before) as i64;
        u64::try_from(in_epoch).is_ok_and(|in_epoch| in_epoch >= self.most)
    }

    /// Another epoch begins to run: called before the clock shows it, so that who has read the clock does not take the
    /// operations of the epoch before for its own.
    fn renew(&self) {
        self.before.store(self.seen.load(Ordering::Relaxed), Ordering::Release);
    }
}

impl<M: Medium> BufferedState<M> {
    /// Ends the running epoch if it has had all its operations; not in a batch, which stays together.
    #[inline]
    fn end_if_full(&self) -> Result<()> {
        let Some(budget) = &self.budget else { return Ok(()) };
        // Before the count: if others end this epoch meanwhile, the next one is not ended for it.
        let epoch = self.epochs.now();
        if budget.is_spent() && !epoch_is_pinned() { self.wait_durable(epoch) } else { Ok(()) }
    }

    /// Counts an operation, before which the running epoch ends if it is full.
    #[inline]
    fn count(&self) -> Result<()> {
        self.end_if_full()?;
        if let Some(budget) = &self.budget {
            budget.seen.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    #[cold]
    fn poison(&self, error: Error) -> Error {
        let cause = Arc::clone(self.cause.get_or_init(|| Arc::new(error)));
        self.barrier.fetch_or(POISONED, Ordering::SeqCst);
        self.epochs.wake();
        Error::Poisoned { cause }
    }

    fn poisoned(&self) -> Option<Error> {
        self.cause.get().map(|cause| Error::Poisoned { cause: Arc::clone(cause) })
    }

    #[cold]
    fn torn(&self) -> Error {
        self.poison(EpochTorn.error())
    }

    /// Whether an epoch may still become durable.
    fn check(&self) -> Result<()> {
        self.life.check()?;
        match self.poisoned() {
            Some(error) => Err(error),
            None if self.barrier.load(Ordering::SeqCst) & ABANDONED != 0 => Err(Error::Closed),
            None => Ok(()),
        }
    }

    fn wait_durable(&self, epoch: u64) -> Result<()> {
        self.life.check()?;
        self.epochs.wait_durable(epoch, || self.check(), || self.commit())
    }

    /// Ends the running epoch and makes it durable. Only the leader comes here.
    fn commit(&self) -> Result<()> {
        let Ok(mut spares) = self.spares.lock() else { return Err(self.torn()) };
        self.check()?;
        let _op = self.inner.enter()?;
        // Slots are not held while lines are flushed: steps of the next epoch go on.
        let swap = |epoch: u64, i: usize, mut slot: SlotGuard<'_, Deferred>| {
            std::mem::swap(&mut slot.0[(epoch & 1) as usize], &mut spares[i]);
        };
        if let Some(budget) = &self.budget {
            budget.renew();
        }
        let epoch = self.epochs.close(swap).map_err(|_| self.torn())?;
        // Again: a step or a batch that was waited for may have poisoned the medium.
        self.check()?;
        let mut lines = 0;
        for list in &mut *spares {
            lines += list.len() as u64;
            for (no, line) in list.drain(..) {
                let page = self.inner.page(no).map_err(|e| self.poison(e))?;
                self.inner.flush(page, line as usize);
            }
        }
        self.inner.fence();
        let page = self.inner.page(CLOCK_PAGE).map_err(|e| self.poison(e))?;
        self.inner.store(page.head(SEQ_WORD), epoch);
        self.inner.flush(page, 0);
        self.inner.fence();
        self.lines.fetch_add(lines, Ordering::Relaxed);
        self.commits.fetch_add(1, Ordering::Relaxed);
        debug_assert!(page.head(SEQ_WORD).peek() == epoch, "the word is durable by now");
        self.epochs.publish(epoch);
        Ok(())
    }

    /// The ticker: ends an epoch each interval in which something was deferred, until told to stop.
    fn tick_on(&self) {
        let mut last = Instant::now();
        while !self.rest(last) {
            last = Instant::now();
            if self.active.load(Ordering::Relaxed) >= self.epochs.now() {
                // A failure is told to whoever writes or syncs next.
                let _ = self.wait_durable(self.epochs.now());
            }
            if self.cause.get().is_some() {
                return;
            }
        }
    }

    /// Waits for the end of the interval that began at `from`; true if the ticker is to stop.
    fn rest(&self, from: Instant) -> bool {
        let mut stop = lock(&self.stop);
        while !*stop {
            let left = self.interval.saturating_sub(from.elapsed());
            if left.is_zero() {
                break;
            }
            if left < SLEEPABLE {
                drop(stop);
                thread::yield_now();
                stop = lock(&self.stop);
            } else {
                stop = self.tick.wait_timeout(stop, left).unwrap_or_else(PoisonError::into_inner).0;
            }
        }
        *stop
    }

    /// Why no step may begin.
    #[cold]
    fn refusal(&self) -> Error {
        self.poisoned().unwrap_or(Error::Closed)
    }
}

impl<M: Medium> Medium for Buffered<M> {
    type Op<'m> = BufferedOp<'m, M>;
    const ORDERED: bool = M::ORDERED;
    const JOURNALED: bool = false;

    fn geometry(&self) -> Geometry {
        self.shared.inner.geometry()
    }
    fn limit(&self) -> PageNo {
        self.shared.inner.limit()
    }
    #[inline(always)]
    fn page(&self, no: PageNo) -> Result<Page<'_>> {
        self.shared.inner.page(no)
    }
    fn fetch(&self, page: Page<'_>, redo: &mut Redo<'_>) -> Result<()> {
        self.shared.inner.fetch(page, redo)
    }
    fn fetch_unowned(&self, page: Page<'_>, redo: &mut Redo<'_>) -> Result<()> {
        self.shared.inner.fetch_unowned(page, redo)
    }
    #[inline(always)]
    fn store(&self, word: Word<'_>, value: u64) {
        debug_assert!(word.page() != CLOCK_PAGE || word.index() != SEQ_WORD);
        self.shared.inner.store(word, value);
    }
    #[inline(always)]
    fn move_slots(&self, page: Page<'_>, from: usize, n: usize, right: bool) {
        self.shared.inner.move_slots(page, from, n, right);
    }
    #[inline(always)]
    fn copy_in(&self, page: Page<'_>, at: usize, bytes: &[u8]) {
        self.shared.inner.copy_in(page, at, bytes);
    }
    #[inline(always)]
    fn move_words(&self, page: Page<'_>, from: usize, to: usize, n: usize) {
        self.shared.inner.move_words(page, from, to, n);
    }
    #[inline(always)]
    fn flush(&self, page: Page<'_>, line: usize) {
        self.shared.inner.flush(page, line);
    }
    #[inline(always)]
    fn fence(&self) {
        self.shared.inner.fence();
    }
    #[inline(always)]
    fn alive(&self) -> Result<()> {
        self.shared.life.check().and_then(|()| self.shared.inner.alive())
    }
    fn throttle(&self, adds: bool) -> Result<()> {
        self.shared.inner.throttle(adds)?;
        self.shared.count()
    }
    #[inline]
    fn enter(&self) -> Result<BufferedOp<'_, M>> {
        let shared = &*self.shared;
        shared.life.check()?;
        let Ok((slot, epoch)) = shared.epochs.enter() else { return Err(shared.torn()) };
        // Under the lock: whoever closes or poisons the medium and then locks this slot either
        // waits for this step or is seen by it.
        if shared.barrier.load(Ordering::SeqCst) != 0 {
            return Err(shared.refusal());
        }
        Ok(BufferedOp { _inner: shared.inner.enter()?, slot, epoch, _step: Stepping::begin() })
    }
    #[inline(always)]
    fn note(&self, _: &mut BufferedOp<'_, M>, _: Page<'_>, _: Change<'_>) {}
    #[inline(always)]
    fn epoch(&self, op: &BufferedOp<'_, M>) -> u64 {
        op.epoch
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Counted, Dram};

    fn options(interval: Duration) -> BufferedOptions {
        BufferedOptions { interval, ..BufferedOptions::default() }
    }

    fn medium() -> Buffered<Counted<Dram>> {
        let dram = Dram::new(Geometry::new(8).expect("a power of two"), 3).expect("memory");
        Buffered::new(Counted::new(dram), &options(Duration::from_millis(10))).expect("valid")
    }

    #[test]
    fn deferred_lines_are_flushed_with_the_word_at_the_end_of_their_epoch() {
        let medium = medium();
        assert_eq!((medium.clock(), medium.recovered_epoch()), (1, 0));
        let page = medium.page(1).expect("inside");
        let latched = page.latch().lock();
        let mut op = medium.enter().expect("open");
        assert_eq!(medium.epoch(&op), 1);
        medium.store(page.body(0), 5);
        medium.defer(&mut op, page, 1);
        medium.defer(&mut op, page, 2);
        drop((op, latched));
        let before = medium.inner().counts();
        assert_eq!((before.flushes, before.fences), (0, 0));
        medium.sync().expect("open");
        let after = medium.inner().counts() - before;
        assert_eq!((after.stores, after.flushes, after.fences), (1, 3, 2));
        assert_eq!(medium.page(0).expect("inside").head(SEQ_WORD).load(), 1);
        assert_eq!((medium.clock(), medium.persisted_epoch()), (2, 1));
        assert_eq!(medium.stats(), BufferedStats { commits: 1, lines_deferred: 2 });
        medium.wait_durable(1).expect("it is");
        assert_eq!(medium.stats().commits, 1);
    }

    #[test]
    fn intervals_out_of_range_and_words_that_are_no_epochs_are_refused() {
        let dram = || Dram::new(Geometry::new(4).expect("a power of two"), 1).expect("memory");
        for interval in [Duration::ZERO, Duration::from_nanos(999), Duration::from_secs(11)] {
            let refused = Buffered::new(dram(), &options(interval));
            assert!(matches!(refused, Err(Error::InvalidOption { .. })), "{interval:?}");
        }
        let damaged = dram();
        damaged.store(damaged.page(0).expect("inside").head(SEQ_WORD), u64::MAX);
        let refused = Buffered::new(damaged, &BufferedOptions::default());
        assert!(matches!(refused, Err(Error::Corrupt { .. })), "{refused:?}");
    }
}
