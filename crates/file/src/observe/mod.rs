//! Events that a program may hear of while pools work: ends of epochs, checkpoints, cleaning, writers that wait, and
//! what the layer above tells of snapshots and transactions.
//!
//! With the feature `tracing` each is an event, with `metrics` it is counted; both are off by default, and then
//! nothing of this is built. Nothing here is on the way of a get, or of a put while nobody reads at a snapshot. An event
//! that is told has happened: listeners can neither delay a write before it is durable nor make it fail, and a
//! panic of theirs ends here. They must not use the pool of which they hear, for some of its locks are held.

#[cfg(feature = "tracing")]
mod events;
#[cfg(feature = "metrics")]
mod measures;

use std::time::Duration;

use everleaf_pmem::error::Error;

/// Which pool it is.
pub type Uuid = [u8; 16];

/// Whether anything is told at all: if not, figures need not be made.
pub const IS_ON: bool = cfg!(any(feature = "tracing", feature = "metrics"));

/// Figures of the snapshots and transactions of a pool, as they are now.
#[derive(Debug, Default)]
#[cfg_attr(not(all(feature = "tracing", feature = "metrics")), allow(dead_code))]
pub struct Versions {
    /// Snapshots and transactions that read.
    pub snapshots: u64,
    /// How many old values are kept for them; that a key was absent counts as one.
    pub values: u64,
    /// Bytes of memory that those take.
    pub bytes: u64,
}

/// An epoch that is durable.
#[derive(Debug)]
#[cfg_attr(not(all(feature = "tracing", feature = "metrics")), allow(dead_code))]
pub(crate) struct EpochEnd {
    pub epoch: u64,
    /// Bytes of records that were not spilled before, and of large values.
    pub record_bytes: u64,
    pub value_bytes: u64,
    /// Something was written and synced. Of an empty epoch nothing is.
    pub is_commit: bool,
    /// From its cut on.
    pub took: Duration,
    /// How the pool is after it.
    pub pool: PoolState,
}

/// Figures of a pool that is open.
#[derive(Debug, Default)]
#[cfg_attr(not(all(feature = "tracing", feature = "metrics")), allow(dead_code))]
pub(crate) struct PoolState {
    /// Bytes of journal that a crash now would read.
    pub journal_bytes: u64,
    /// Length of the file.
    pub file_bytes: u64,
    /// Pages that were changed and not written.
    pub changed_pages: u64,
}

/// A checkpoint, also that of a close.
#[derive(Debug)]
#[cfg_attr(not(all(feature = "tracing", feature = "metrics")), allow(dead_code))]
pub(crate) struct Checkpoint {
    /// Pages of which it wrote images.
    pub pages: u64,
    /// Bytes of all images that it wrote but for the root's, those that cleaning moved among them.
    pub bytes: u64,
    pub took: Duration,
}

/// Images that a checkpoint has moved out of sparse extents.
#[derive(Debug)]
#[cfg_attr(not(all(feature = "tracing", feature = "metrics")), allow(dead_code))]
pub(crate) struct Cleaning {
    pub extents: u64,
    pub bytes: u64,
    pub took: Duration,
}

/// Why a writer waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stall {
    /// The disk has not taken what was written before.
    Disk,
    /// The journal is full, and a checkpoint is under way.
    Journal,
    /// Pages that were changed take too much memory.
    Memory,
    /// Large values that replaced others take too much of the file.
    Values,
    /// It writes a part of the epoch itself, because nobody else ends epochs.
    Spill,
}

impl Stall {
    #[cfg(any(feature = "tracing", feature = "metrics"))]
    fn name(self) -> &'static str {
        match self {
            Stall::Disk => "disk",
            Stall::Journal => "journal",
            Stall::Memory => "memory",
            Stall::Values => "values",
            Stall::Spill => "spill",
        }
    }
}

/// Tells whoever wants to hear it.
macro_rules! tells {
    ($($(#[$doc:meta])* $vis:vis $name:ident($($arg:ident: $type:ty),*);)*) => {$(
        $(#[$doc])*
        #[inline]
        $vis fn $name($($arg: $type),*) {
            #[cfg(feature = "tracing")]
            guarded(|| events::$name($($arg),*));
            #[cfg(feature = "metrics")]
            guarded(|| measures::$name($($arg),*));
            #[cfg(not(any(feature = "tracing", feature = "metrics")))]
            let _ = ($($arg),*);
        }
    )*};
}

tells! {
    /// A pool was opened.
    pub(crate) opened(pool: &Uuid, state: &PoolState);
    /// It was closed, in whatever way.
    pub(crate) closed(pool: &Uuid);
    /// Writes have stopped for good.
    pub(crate) stopped(pool: &Uuid, error: &Error);
    /// An epoch is durable.
    pub(crate) epoch_ended(pool: &Uuid, end: &EpochEnd);
    /// An epoch could not be made durable. If that is for want of memory or room, it is tried again.
    pub(crate) commit_failed(pool: &Uuid, error: &Error);
    /// A checkpoint is durable.
    pub(crate) checkpoint_ended(pool: &Uuid, checkpoint: &Checkpoint);
    /// A checkpoint has failed; it changed nothing.
    pub(crate) checkpoint_failed(pool: &Uuid, error: &Error);
    /// A checkpoint has moved what was alive in some extents.
    pub(crate) cleaned(pool: &Uuid, cleaning: &Cleaning);
    /// A writer has waited so long.
    pub(crate) stalled(pool: &Uuid, why: Stall, took: Duration);
    /// A transaction that writes was committed.
    pub transaction_committed(pool: &Uuid);
    /// One has failed, because others have changed what it depends on in this tree.
    pub transaction_conflicted(pool: &Uuid, tree: &str);
    /// Snapshots have come or gone, or they need much more or less than when this was told last.
    pub versions_changed(pool: &Uuid, versions: &Versions);
    /// The values of the oldest snapshot are not kept any more, for those of all would take more than so many bytes.
    pub snapshot_given_up(pool: &Uuid, bytes_max: u64);
}

/// A panic of a listener is no failure of the pool.
#[cfg(any(feature = "tracing", feature = "metrics"))]
fn guarded(tell: impl FnOnce()) {
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(tell));
}

/// The identity of a pool as people read it.
#[cfg(any(feature = "tracing", feature = "metrics"))]
struct Name<'a>(&'a Uuid);

#[cfg(any(feature = "tracing", feature = "metrics"))]
impl std::fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().enumerate().try_for_each(|(i, byte)| {
            let dash = if matches!(i, 4 | 6 | 8 | 10) { "-" } else { "" };
            write!(f, "{dash}{byte:02x}")
        })
    }
}
