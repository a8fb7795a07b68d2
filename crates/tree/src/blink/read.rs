//! How readers and writers of one leaf get along (FAST+FAIR §5): three ways to read, of which a
//! tree uses one.
//!
//! | | waits for | one key, one leaf | can return what a crash takes back |
//! |---|---|---|---|
//! | [`Reading::Optimistic`] | a writer inside the leaf or on the way | linearizable; a leaf is one moment | no: a writer leaves after its last fence |
//! | [`Reading::LockFree`] | nobody, but for a page's first touch | linearizable; a leaf is one moment | yes (errata F16) |
//! | [`Reading::Latched`] | a writer, and then keeps writers out | as optimistic, and never starts again | no |
//!
//! In all three a scan over several leaves is not one moment (errata F19). On media with a journal
//! each way can return what a crash takes back, up to the durable epoch.
//!
//! *The anomaly of lock-free reading*, by name: **unflushed read**: a reader sees a store before its
//! writer has flushed it; if power fails then, the reader has told somebody of a value that never
//! was. Another one is ruled out here: **torn leaf**: of two changes of one leaf that a scan runs
//! beside, it would show the later and miss the earlier. The paper's readers look again only if
//! writers changed direction meanwhile; ours validate the whole latch word, so they run beside one
//! change at most, which commits by one store.

use everleaf_pmem::{Backoff, Error, Medium, Result, Version};

use super::descend::Spot;
use super::{Blink, Seek};
use crate::keys::Keys;
use crate::node::racing::Racing;
use crate::node::{Layout, Probe, Run};

/// How a tree reads leaves beside writers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reading {
    /// Read, and look whether anybody wrote meanwhile. The default.
    #[default]
    Optimistic,
    /// Read beside the writer (FAST+FAIR §5). For layouts and media whose every 8-byte store leaves
    /// a readable node, and for keys that are words.
    LockFree,
    /// Latch the leaf (FAST+FAIR §5.1, *leaf locks*).
    Latched,
}

impl<M: Medium, L: Layout, P: Probe, K: Keys> Blink<M, L, P, K> {
    /// The tree with another way to read. Volatile: each open chooses.
    ///
    /// # Errors
    /// Invalid for [`Reading::LockFree`] where a store can leave a node that readers cannot use:
    /// other layouts than [`Linear`](crate::node::Linear), byte strings, and media that move slots by
    /// vectors ([`Medium::ORDERED`] is false).
    pub fn reading(mut self, reading: Reading) -> Result<Self> {
        if reading == Reading::LockFree && !(L::LOCK_FREE && M::ORDERED && !K::BYTES) {
            return Err(Error::Invalid {
                what: format!(
                    "readers of {} nodes cannot go on beside a writer here: lock-free reading needs \
                     linear nodes of words on a medium with ordered stores",
                    L::NAME
                ),
            });
        }
        self.reading = reading;
        Ok(self)
    }

    /// Reads one leaf: by `settled` if nobody is changing it, by `racing` beside a writer.
    #[inline]
    pub(super) fn read_leaf<T>(
        &self,
        seek: Seek<'_, K>,
        settled: impl Fn(&Spot<'_>, Run) -> Result<T>,
        racing: impl Fn(Racing<'_>) -> Result<T>,
    ) -> Result<T> {
        let mut wait = Backoff::default();
        loop {
            let spot = match self.reading {
                Reading::Optimistic => self.leaf::<false>(seek)?,
                Reading::LockFree => self.leaf::<true>(seek)?,
                Reading::Latched => return self.read_latched(seek, settled),
            };
            let answer = if spot.version.is_racing() {
                let leaf = Racing::new(spot.page, spot.shape, spot.version.is_leftward());
                if !Self::covers(leaf.limits, seek) {
                    wait.pause();
                    continue;
                }
                racing(leaf)
            } else {
                settled(&spot, live_run(&spot))
            };
            if spot.page.latch().validate(spot.version) {
                return answer;
            }
            wait.pause();
        }
    }

    #[cold]
    fn read_latched<T>(
        &self,
        seek: Seek<'_, K>,
        settled: impl Fn(&Spot<'_>, Run) -> Result<T>,
    ) -> Result<T> {
        let Some((spot, held)) = self.latch_at(seek, 0)? else {
            unreachable!("every tree has leaves")
        };
        let answer = settled(&spot, live_run(&spot));
        held.unlock_unchanged();
        answer
    }

    /// As [`see`](Self::see), but with the version of a writer that is inside.
    pub(super) fn glance(&self, page: everleaf_pmem::Page<'_>) -> Result<Version> {
        loop {
            match page.latch().glance() {
                everleaf_pmem::Seen::Ready(version) => return Ok(version),
                everleaf_pmem::Seen::Absent => drop(self.pool.latch(page.no())?),
            }
        }
    }
}

/// The run of a leaf, cut to the node, as a race may show anything.
fn live_run(spot: &Spot<'_>) -> Run {
    let run = Run::of(spot.page);
    Run { count: run.count.min(spot.page.slots()), ..run }
}
