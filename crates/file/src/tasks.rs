//! The work that a file has done by the [threads of the process](crate::workers).

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use everleaf_pmem::error::{Error, Result};
use everleaf_pmem::sync::lock_plain as lock;

use crate::epochs::barrier::FULL;
use crate::epochs::ended::Syncs;
use crate::inner::Inner;
use crate::workers::{Job, Length, Task};

/// Starts what every file needs that ends its epochs by itself, or makes those durable that the program ends.
///
/// # Errors
/// Those of [`Task::new`].
pub(crate) fn start(inner: &Arc<Inner>) -> Result<[Task; 2]> {
    let weak = || Arc::downgrade(inner);
    let is_manual = inner.ahead.is_manual;
    let tick: Box<dyn Job> = match is_manual {
        true => Box::new(Syncs::new(inner)),
        false => Box::new(Tick { inner: weak(), seen: 0 }),
    };
    let tick = Task::new(Length::Short, tick)?;
    let warm = Task::new(Length::Short, Box::new(Warm { inner: weak() }))?;
    if is_manual {
        let is_first = inner.ahead.syncs.set(tick.waker().clone()).is_ok();
        debug_assert!(is_first, "one task for each open");
    } else {
        inner.ticker.start(tick.waker().clone());
    }
    inner.warmth.start(warm.waker().clone());
    Ok([tick, warm])
}

/// Ends epochs.
struct Tick {
    inner: Weak<Inner>,
    /// The last epoch of which it knows that it is to end.
    seen: u64,
}

impl Job for Tick {
    fn run(&mut self) -> Option<Duration> {
        let inner = self.inner.upgrade()?;
        if lock(&inner.work).stop {
            return None;
        }
        let begun = inner.ticker.take();
        // Turns of writers lapse with epochs, also with empty ones.
        let is_full = || inner.barrier.load(Ordering::Relaxed) & FULL != 0;
        let is_waited_for = is_full();
        if begun <= self.seen && !is_waited_for {
            return None;
        }
        self.seen = begun;
        let last = if is_waited_for { inner.epochs.now() } else { begun };
        // A failure has poisoned the handle and is told to whoever writes or syncs next; for want of
        // memory it is tried again.
        let is_to_do = inner.wait_durable(last).is_err() && inner.poisoned().is_none();
        if is_to_do {
            self.seen = 0;
        }
        inner.wake_keeper(false);
        Some(if is_to_do || is_full() { inner.ticker.soon() } else { inner.interval })
    }

    fn broke(&mut self) {
        if let Some(inner) = self.inner.upgrade() {
            inner.poison(Error::Interrupted { what: "the end of an epoch was cut off" });
        }
    }
}

/// Makes memory ready.
struct Warm {
    inner: Weak<Inner>,
}

impl Job for Warm {
    fn run(&mut self) -> Option<Duration> {
        let inner = self.inner.upgrade()?;
        let stops = lock(&inner.work).stop;
        (!stops && inner.warmth.run(&inner.region, &inner.residents)).then_some(Duration::ZERO)
    }

    /// The system finds the rest when it is touched.
    fn broke(&mut self) {}
}
