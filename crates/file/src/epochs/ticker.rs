//! Epochs end by themselves: an interval after somebody began to change something in one, or asked which one it
//! is. An epoch in which nobody did anything goes on, and costs nothing.
//!
//! While a pool is written to, its ticks follow each other without anybody asking for them. While writers wait for
//! room they come every 10 ms at least: an interval may be a day.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::workers::Waker;

/// An epoch whose end somebody waits for lasts no longer, however long the interval.
const WAITED_FOR: Duration = Duration::from_millis(10);

/// When epochs are to end, and by which task.
#[derive(Debug)]
pub(crate) struct Ticker {
    interval: Duration,
    /// None if only those who wait for epochs end them.
    waker: OnceLock<Waker>,
    /// The last epoch that is to end.
    begun: AtomicU64,
    /// The next tick should not wait for the end of the interval.
    hurry: AtomicBool,
}

impl Ticker {
    pub fn new(interval: Duration) -> Self {
        Self {
            interval,
            waker: OnceLock::new(),
            begun: AtomicU64::new(0),
            hurry: AtomicBool::new(false),
        }
    }

    /// The last epoch that is to end, as a tick begins.
    pub fn take(&self) -> u64 {
        self.hurry.store(false, Ordering::Relaxed);
        self.begun.load(Ordering::Acquire)
    }

    /// From now on epochs end by themselves.
    pub fn start(&self, waker: Waker) {
        let is_first = self.waker.set(waker).is_ok();
        debug_assert!(is_first, "one task for each open");
    }

    /// An epoch is to be durable after an interval.
    pub fn begin(&self, epoch: u64) {
        if self.begun.load(Ordering::Relaxed) < epoch {
            self.begun.fetch_max(epoch, Ordering::AcqRel);
            self.ask();
        }
    }

    /// Asks for a tick after an interval.
    pub fn ask(&self) {
        if let Some(waker) = self.waker.get() {
            waker.wake_in(self.interval);
        }
    }

    /// Asks for a tick after an interval, or sooner if that is long: a writer waits for room, which the end of
    /// an epoch makes.
    pub fn ask_soon(&self) {
        if let Some(waker) = self.waker.get().filter(|_| self.interval > WAITED_FOR) {
            waker.wake_before(WAITED_FOR);
        } else {
            self.ask();
        }
    }

    /// When the tick after this one is due, while a writer waits for room or an epoch could not be ended.
    pub fn soon(&self) -> Duration {
        self.interval.min(WAITED_FOR)
    }

    /// Asks for a tick now.
    pub fn hurry(&self) {
        if let Some(waker) = self.waker.get()
            && !self.hurry.swap(true, Ordering::Relaxed)
        {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_longer_for_room_than_an_epoch_takes() {
        let soon = |interval| Ticker::new(interval).soon();
        assert_eq!(soon(Duration::from_hours(24)), WAITED_FOR);
        assert_eq!(soon(Duration::from_millis(3)), Duration::from_millis(3));
    }
}
