//! Memory ahead of need: a thread that has the system back the pages that come next.
//!
//! The first touch of a huge page makes the system clear it, and in a virtual machine find the
//! memory first, which takes milliseconds. A pool that grows would meet that in the middle of a
//! step every few thousand inserts; this thread meets it instead, some way ahead of the highest
//! page in use. It never runs further ahead than the pool has grown already, so that small pools
//! stay small.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

use crate::page::PageNo;
use crate::region::Region;

use super::inner::lock;

/// How far ahead memory is made ready, in bytes of pages.
const AHEAD_BYTES: usize = 32 << 20;
/// How much is made ready between two looks at what is needed.
const CHUNK_BYTES: usize = 2 << 20;

/// How far pages are in use and memory is ready.
#[derive(Debug, Default)]
pub(super) struct Warmth {
    used: AtomicU32,
    ready: AtomicU32,
    stop: AtomicBool,
    sleeping: Mutex<bool>,
    wake: Condvar,
}

impl Warmth {
    /// A page is touched for the first time in this open.
    pub fn touch(&self, no: PageNo, region: &Region) {
        let used = self.used.fetch_max(no, Ordering::Relaxed).max(no);
        let ready = self.ready.load(Ordering::Relaxed);
        if ready < used.saturating_add(ahead(used, region) / 2) {
            // Nobody waits here: if the thread is about to sleep, the next page wakes it.
            if self.sleeping.try_lock().is_ok_and(|sleeping| *sleeping) {
                self.wake.notify_one();
            }
        }
    }

    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        drop(lock(&self.sleeping));
        self.wake.notify_all();
    }

    /// The thread's life.
    pub fn run(&self, region: &Region) {
        let chunk = (CHUNK_BYTES / region.geometry().page_bytes()).max(1) as PageNo;
        loop {
            let used = self.used.load(Ordering::Relaxed);
            let from = self.ready.load(Ordering::Relaxed).max(used);
            let end = used.saturating_add(ahead(used, region)).min(region.limit());
            if from < end {
                let to = from.saturating_add(chunk).min(end);
                region.populate(from, to);
                self.ready.store(to, Ordering::Relaxed);
            } else {
                let mut sleeping = lock(&self.sleeping);
                *sleeping = true;
                if !self.stop.load(Ordering::Acquire) {
                    sleeping = self.wake.wait(sleeping).unwrap_or_else(PoisonError::into_inner);
                }
                *sleeping = false;
            }
            if self.stop.load(Ordering::Acquire) {
                return;
            }
        }
    }
}

/// How many pages ahead of page `used` memory should be ready.
fn ahead(used: PageNo, region: &Region) -> PageNo {
    used.min((AHEAD_BYTES / region.geometry().page_bytes()) as PageNo)
}
