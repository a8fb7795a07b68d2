//! Bugs of the published BD+Tree (docs/PAPERS.md, B1–B17) that tests put back, one at a time, to
//! show that the checker finds them. By the cargo feature `bugs`, for tests only; without it the
//! sound code is all there is.

/// A published bug, by its number in docs/PAPERS.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Bug {
    /// A split masks bits of old slots by positions of the new node.
    B1 = 1,
    /// After a split the old version is sought where it was before.
    B2,
    /// The left node of a split is not flushed before its moved slots are used again.
    B3,
    /// An insert into the new node of a split is not tracked.
    B4,
    /// An update in place does not track its line.
    B5,
    /// A split by count parts two versions of a key.
    B6,
    /// The epoch is stored before the bitmaps that belong to it.
    B7,
    /// A removal that empties a node does not unlatch it.
    B12,
    /// A lookup says "absent" without a look whether the node has changed.
    B13,
    /// A flag says that a node is deleted, and may persist when the deletion does not.
    B14,
    /// A node is freed before it is durably unlinked.
    B15,
    /// A writer does not look again, after it has latched a node, whether its key is still there.
    B16,
    /// Recovery leaves nodes of the lost epochs as they are.
    B17,
    /// A step registers before it has latched what it changes: problems 1 and 2 of §3.4.
    EnterFirst,
}

#[cfg(feature = "bugs")]
static PUT_BACK: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);

/// Puts a bug back into all trees of the process, or none any more.
#[cfg(feature = "bugs")]
pub fn put_back(bug: Option<Bug>) {
    PUT_BACK.store(bug.map_or(0, |bug| bug as u8), std::sync::atomic::Ordering::SeqCst);
}

/// Whether no bug has been put back: what assertions state holds then.
#[inline(always)]
pub(crate) fn is_sound() -> bool {
    #[cfg(feature = "bugs")]
    return PUT_BACK.load(std::sync::atomic::Ordering::Relaxed) == 0;
    #[cfg(not(feature = "bugs"))]
    true
}

/// Whether a bug has been put back.
#[inline(always)]
pub(crate) fn is(bug: Bug) -> bool {
    #[cfg(feature = "bugs")]
    return PUT_BACK.load(std::sync::atomic::Ordering::Relaxed) == bug as u8;
    #[cfg(not(feature = "bugs"))]
    {
        let _ = bug;
        false
    }
}
