//! The interface of all systems.

use std::sync::MutexGuard;
use std::time::Duration;

use anyhow::Result;
use everleaf_pmem::Counts;
use everleaf_pool::PageCounts;
use everleaf_tree::Index;
use everleaf_tree::hybrid::HybridReport;

use crate::wear::medium::Traffic;

/// Counts of what the ends of epochs have written back.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ended {
    /// Lines of leaves.
    pub lines: u64,
    /// Times that the clock was made durable, one line each.
    pub commits: u64,
}

/// Memory of a tree.
#[derive(Debug, Clone, Copy, Default)]
pub struct Footprint {
    /// Bytes of pages in the pool.
    pub pool: u64,
    /// Bytes of frames, in DRAM.
    pub frames: u64,
    /// Bytes of inner nodes that are in DRAM.
    pub inner: u64,
}

/// A tree in a pool of its own.
pub trait Subject: Send + Sync {
    /// The tree.
    fn index(&self) -> &dyn Index;

    /// Counts of what passed the door so far, if the medium counts.
    fn counts(&self) -> Option<Counts> {
        None
    }

    /// The traffic that has left the cache before the medium, if it has one. A call of the tree waits for as long as
    /// this is held, and a second call of this does.
    fn traffic(&self) -> Option<MutexGuard<'_, Traffic>> {
        None
    }

    /// The pages of its pool; none if it has no pool.
    fn pages(&self) -> Result<PageCounts> {
        Ok(PageCounts::default())
    }

    /// The memory that it takes.
    fn space(&self) -> Result<Footprint> {
        Ok(Footprint::default())
    }

    /// Ends the running epoch, if there are any, and writes back what was deferred in it.
    fn tick(&self) -> Result<()> {
        Ok(())
    }

    /// Counts of what the ends of epochs have written back so far.
    fn ended(&self) -> Ended {
        Ended::default()
    }

    /// Makes durable all that was done so far.
    fn sync(&self) -> Result<()> {
        Ok(())
    }

    /// The epoch that a write which has returned is in, or one after it; none if writes are durable when they
    /// return, or never.
    fn epoch(&self) -> Option<u64> {
        None
    }

    /// The last epoch that is durable, with all before it; none if there are no epochs.
    fn durable_epoch(&self) -> Option<u64> {
        None
    }

    /// The longest that a sync of the disk took since this was last asked; zero if there is no disk.
    fn longest_sync(&self) -> Duration {
        Duration::ZERO
    }

    /// The report of a walk over `BdTree`.
    fn report(&self) -> Result<Option<HybridReport>> {
        Ok(None)
    }

    /// Bytes that were written to a journal.
    fn journal_bytes(&self) -> u64 {
        0
    }
}
