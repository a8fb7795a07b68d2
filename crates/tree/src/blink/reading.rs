//! The ways to read a leaf beside writers.

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
        return self == Self::Crabbing;
        #[cfg(not(feature = "crabbing"))]
        false
    }
}
