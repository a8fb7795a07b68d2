//! The thread that frees empty leaves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use everleaf_pmem::{Error, Life, Medium, Result};

use crate::hybrid::tree::Hybrid;

/// Frees the empty leaves of a tree from time to time, until it is dropped.
pub struct Keeper {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    life: Life,
}

impl Keeper {
    /// Starts the thread; it looks every `interval` (the paper: 50 ms, or 500 ms), and at most
    /// ten thousand times a second.
    ///
    /// # Errors
    /// I/O errors if there can be no thread.
    pub fn start<M: Medium>(tree: &Arc<Hybrid<M>>, interval: Duration) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let interval = interval.max(Duration::from_micros(100));
        let (tree, stopped) = (Arc::clone(tree), Arc::clone(&stop));
        let run = move || {
            while !stopped.load(Ordering::Acquire) {
                std::thread::park_timeout(interval);
                if stopped.load(Ordering::Acquire) {
                    return;
                }
                // An error stops the medium's writes, or shows again to the next thread that meets the leaf.
                let _ = tree.reclaim_empty();
                if tree.waiting_empty() > 0 {
                    // Without other writes no epoch would end, and the leaves would wait for ever.
                    let _ = tree.medium().tick();
                }
            }
        };
        let thread = std::thread::Builder::new().name("everleaf-reclaim".into()).spawn(run);
        let thread = thread.map_err(|e| Error::io("starting the keeper thread", e))?;
        Ok(Self { stop, thread: Some(thread), life: Life::default() })
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if self.life.is_forked() {
            // The thread is not in this process; joining it would never end.
            std::mem::forget(self.thread.take());
            return;
        }
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic in it has been printed; nothing else depends on it.
            let _ = thread.join();
        }
    }
}
