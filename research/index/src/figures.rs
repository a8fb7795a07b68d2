//! Figures of a tree, as C sees them.

/// Figures of a tree. A figure that does not apply is 0.
#[repr(C)]
#[derive(Default)]
pub struct everleaf_index_stats {
    /// Bytes of pages in use, on the medium.
    pub pool_bytes: u64,
    /// Bytes of pages that are free, on media of a fixed size.
    pub free_bytes: u64,
    /// Bytes of frames, in DRAM: latches, and what searches use beside the pages.
    pub frame_bytes: u64,
    /// Bytes of inner nodes in pages in DRAM.
    pub inner_bytes: u64,
    /// Stores of 8 bytes, since the open; on EVERLEAF_INDEX_COUNTED alone, and so the next two.
    pub stores: u64,
    /// Lines flushed.
    pub flushes: u64,
    /// Fences.
    pub fences: u64,
    /// Epochs that were made durable, of BdTree and Montage.
    pub epochs_ended: u64,
    /// Lines that they have written back at their ends.
    pub lines_deferred: u64,
    /// Bytes that were written to the journal of a file.
    pub journal_bytes: u64,
}
