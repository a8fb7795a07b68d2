//! How readers and writers of one leaf get along (FAST+FAIR §5): four ways to read, of which a
//! tree uses one.
//!
//! | | waits for | one key, one leaf | can return what a crash takes back |
//! |---|---|---|---|
//! | [`Reading::Optimistic`] | a writer inside the leaf or on the way | linearizable; a leaf is one moment | no: a writer leaves after its last fence |
//! | [`Reading::LockFree`] | nobody, but for a page's first touch | linearizable; a leaf is one moment | yes (docs/PAPERS.md, F16) |
//! | [`Reading::Latched`] | a writer, and then keeps writers out | as optimistic, and never starts again | no |
//! | `Reading::Crabbing` | anybody inside a node on the way, readers too | as latched | no |
//!
//! In all four a scan over several leaves is not one moment (docs/PAPERS.md, F19). On media with a
//! journal each way can return what a crash takes back, up to the durable epoch.
//!
//! *Starting again is bounded.* An optimistic reader that has failed eight times, because writers came
//! in between, stops merges and latches one node after the other down to the leaf, and reads under the
//! leaf's latch. Without merges no node dies, so it cannot lose its way. A lock-free reader never
//! latches: each time that it starts again somebody else has got on. A large value is not read in a
//! leaf at all, but after it ([`everleaf_pool::LargeValue`]).
//!
//! *The anomaly of lock-free reading*, by name: **unflushed read**: a reader sees a store before its
//! writer has flushed it; if power fails then, the reader has told somebody of a value that never
//! was. Another one is ruled out here: **torn leaf**: of two changes of one leaf that a scan runs
//! beside, it would show the later and miss the earlier. The paper's readers look again only if
//! writers changed direction meanwhile; ours validate the whole latch word, so they run beside one
//! change at most, which commits by one store.

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
    /// Latch every node on the way, one after the other, to read and to write; nodes never merge. This is the
    /// B-link tree that FAST+FAIR is measured against (§6.7), whose readers hold up each other. Needs the
    /// feature `crabbing`.
    #[cfg(feature = "crabbing")]
    Crabbing,
}

impl Reading {
    /// Whether every node on the way is latched.
    #[inline(always)]
    pub(super) fn is_crabbing(self) -> bool {
        #[cfg(feature = "crabbing")]
        return matches!(self, Self::Crabbing);
        #[cfg(not(feature = "crabbing"))]
        false
    }
}
