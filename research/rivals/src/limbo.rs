//! Holds items that were taken out of a structure that others search without a latch, until none of them can still look
//! at these items.
//!
//! Each search [pins](Limbo::pin) the epoch that runs. The epoch ends only when nobody has pinned the one before it, so
//! two ends after an item was taken out, all searches that could have seen it are over.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};

use everleaf_pmem::thread_number;

/// In parts, so that threads do not share a line.
const PARTS: usize = 16;

/// How many have pinned each of three epochs, by the number modulo 3.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Pinned([AtomicU64; 3]);

/// Items that wait to be used again.
#[derive(Debug)]
pub struct Limbo<T> {
    epoch: AtomicU64,
    pinned: Box<[Pinned; PARTS]>,
    waiting: Mutex<VecDeque<(u64, T)>>,
}

impl<T> Default for Limbo<T> {
    fn default() -> Self {
        let pinned = Box::new(std::array::from_fn(|_| Pinned::default()));
        Self { epoch: AtomicU64::new(0), pinned, waiting: Mutex::default() }
    }
}

/// Somebody who may look at what is being taken out.
#[derive(Debug)]
pub struct Pin<'l>(&'l AtomicU64);

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

impl<T> Limbo<T> {
    /// Until this is dropped, nothing is used again that is taken out from now on.
    pub fn pin(&self) -> Pin<'_> {
        let part = &self.pinned[thread_number() % PARTS].0;
        loop {
            let epoch = self.epoch.load(SeqCst);
            let pin = Pin(&part[epoch as usize % 3]);
            pin.0.fetch_add(1, SeqCst);
            if self.epoch.load(SeqCst) == epoch {
                return pin;
            }
        }
    }

    /// Nothing leads to `what` any more.
    pub fn retire(&self, what: T) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        // Under the lock, so that epochs rise along the queue.
        waiting.push_back((self.epoch.load(SeqCst), what));
    }

    /// Hands out what can be used again. O(parts + log n + what is handed out).
    pub fn collect(&self, mut free: impl FnMut(T)) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.is_empty() {
            return;
        }
        // Only the holder of the lock ends an epoch.
        let epoch = self.epoch.load(SeqCst);
        let before = (epoch + 2) as usize % 3;
        if self.pinned.iter().all(|part| part.0[before].load(SeqCst) == 0) {
            self.epoch.store(epoch + 1, SeqCst);
        }
        let now = self.epoch.load(SeqCst);
        let ready = waiting.partition_point(|(then, _)| *then + 2 <= now);
        waiting.drain(..ready).for_each(|(_, what)| free(what));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collected(limbo: &Limbo<u32>) -> Vec<u32> {
        let mut all = Vec::new();
        limbo.collect(|what| all.push(what));
        all
    }

    #[test]
    fn what_is_taken_out_waits_for_who_came_before() {
        let limbo = Limbo::default();
        let pin = limbo.pin();
        limbo.retire(1);
        for _ in 0..9 {
            assert_eq!(collected(&limbo), []);
        }
        // A pin that comes later does not matter.
        let later = limbo.pin();
        drop(pin);
        assert_eq!(collected(&limbo), [1]);
        limbo.retire(2);
        for _ in 0..9 {
            assert_eq!(collected(&limbo), []);
        }
        drop(later);
        assert_eq!([collected(&limbo), collected(&limbo)].concat(), [2]);
    }
}
