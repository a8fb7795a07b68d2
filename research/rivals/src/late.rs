//! Leaves that the inner nodes learn of later (PACTree): a writer that has split a leaf answers when the chain is
//! durable, and somebody else enters the new leaf.
//!
//! ```text
//! split    the chain has the new leaf; its log stays; the leaf goes into the queue       by the writer
//! apply    enter it in the inner nodes; end its log ->                                   1 line, 1 fence
//! ```
//!
//! Until then a search that is led to the old leaf moves right, as it does in the short time between a split and its
//! entry in any such tree. A thread of its own ([`Worker`]) [drains](Late::drain) the queue and applies its entries; a
//! writer that finds no log free does so, too, and one that is about to free a leaf, so that no log names a page that is
//! used again. A queue is never longer than there are logs.
//!
//! A crash can leave logs of splits that are complete. The next open ends them, and builds the inner nodes anew.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use everleaf_pmem::{Error, Medium, PageNo, Result};
use everleaf_pool::Pool;

use crate::spine::Spine;
use crate::ulog::{About, Logs};

/// A leaf that the inner nodes do not know yet.
#[derive(Debug, Clone, Copy)]
struct Entry {
    low: u64,
    leaf: PageNo,
    /// The line of its log.
    line: usize,
}

#[derive(Debug, Default)]
struct Queue {
    entries: VecDeque<Entry>,
    /// Nobody adds anything any more.
    is_over: bool,
}

/// The leaves that the inner nodes of one tree do not know yet.
pub struct Late<M: Medium> {
    pool: Arc<Pool<M>>,
    spine: Arc<Spine>,
    logs: Arc<Logs>,
    queue: Mutex<Queue>,
    /// Something was added, or it is over.
    more: Condvar,
    /// Held by the thread that applies entries, so that another that drains waits for those that the first has taken.
    applying: Mutex<()>,
}

impl<M: Medium> Late<M> {
    /// Nothing yet.
    pub fn new(pool: Arc<Pool<M>>, spine: Arc<Spine>, logs: Arc<Logs>) -> Self {
        let (queue, more, applying) = Default::default();
        Self { pool, spine, logs, queue, more, applying }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a leaf that begins with `low`, and the line of the log of its split. The caller has latched the leaf.
    pub fn push(&self, low: u64, leaf: PageNo, line: usize) {
        self.queue().entries.push_back(Entry { low, leaf, line });
        self.more.notify_one();
    }

    /// Applies all entries that were added before; says how many it has applied itself. Their logs are ended, durably.
    ///
    /// # Errors
    /// Poisoned, errors of the medium; the entries that are left stay.
    pub fn drain(&self) -> Result<u64> {
        let _applying = self.applying.lock().unwrap_or_else(PoisonError::into_inner);
        let mut applied = 0;
        loop {
            let Some(entry) = self.queue().entries.front().copied() else { return Ok(applied) };
            let m = self.pool.medium();
            let _op = m.enter()?;
            self.spine.enter(entry.low, entry.leaf);
            self.logs.line(m, entry.line)?.end(About::Split);
            self.queue().entries.pop_front();
            applied += 1;
        }
    }

    /// Waits for entries; false when it is over and none is left.
    fn wait(&self) -> bool {
        let mut queue = self.queue();
        while queue.entries.is_empty() && !queue.is_over {
            queue = self.more.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        !queue.entries.is_empty()
    }

    fn end(&self) {
        self.queue().is_over = true;
        self.more.notify_all();
    }
}

/// The thread that applies entries. It ends, with none left, when this is dropped.
pub struct Worker {
    end: Box<dyn Fn() + Send + Sync>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts it.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start<M: Medium>(late: &Arc<Late<M>>) -> Result<Self> {
        let (own, ended) = (Arc::clone(late), Arc::clone(late));
        let run = move || while own.wait() && own.drain().is_ok() {};
        let thread = thread::Builder::new()
            .name("search-layer".into())
            .spawn(run)
            .map_err(|e| Error::io("starting the thread of the search layer", e))?;
        Ok(Self { end: Box::new(move || ended.end()), thread: Some(thread) })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        (self.end)();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed; the logs that it has left are ended by the next open.
            let _ = thread.join();
        }
    }
}
