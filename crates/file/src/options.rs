//! How a pool on an ordinary file is opened.

use std::ops::Range;
use std::time::Duration;

use everleaf_pmem::page::{Page, Stay};

use crate::memory::budget::Budget;

/// The bytes of a page that its image on disk has to keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PageUse {
    /// None: the page is free. Only its sequence number counts.
    Unused,
    /// All but these, which lie behind the header and within the page; all if there are none. Where
    /// they are read back as zeros, the page means the same.
    But(Range<usize>),
}

/// How images of pages and large values are compressed before they go to the disk. Existing images
/// stay as they are until they are written again, and are read whatever the choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Compression {
    /// They are not compressed.
    #[default]
    None,
    /// Each is an LZ4 block by itself, if that saves more than an eighth.
    Lz4,
}

/// How a pool is opened.
#[derive(Debug, Clone)]
pub struct FileOptions {
    /// Slots of 16 bytes in a page, for a new pool; an existing one keeps its own. A power of two in
    /// 4..=1024, or four less than one in 32..=2048: then a page is a power of two of bytes, its header
    /// inside (252 slots are 4 KiB).
    pub slots: u32,
    /// The hash of what the layer above puts into pages; a pool with another one is not opened.
    pub layout_hash: u64,
    /// The longest time that a change waits to become durable, apart from the time of the sync. Less than
    /// [`INTERVAL_LEAST`] counts as that, more than [`INTERVAL_MOST`] as that.
    pub interval: Duration,
    /// Bytes of journal above which steps wait for the checkpoint, if the file
    /// is [kept](crate::File::set_kept). A checkpoint is due at half of it. More than [`BYTES_MOST`] counts as
    /// that, here and in the other numbers of bytes.
    pub journal_bytes: u64,
    /// Bytes that are not durable, above which steps wait for a commit, if there is a thread that ends
    /// epochs; fewer on a slow disk. If there is none: bytes of the running epoch in memory, above which steps wait for
    /// the sync of the epoch before, because nothing can be spilled until then. Memory takes up to five times as much
    /// while they are written.
    pub pending_bytes: u64,
    /// Bytes that the running epoch notes in memory before they are written to the journal, without being
    /// durable by that, if there is no thread that ends epochs; fewer where many pools share memory.
    pub spill_bytes: u64,
    /// How what is written to the file is compressed, but for the journal.
    pub compression: Compression,
    /// Extents of 1 MiB that the file may have, beside 1.5 times what is alive, before checkpoints clean
    /// those of which little is alive.
    pub spare_extents: u32,
    /// Extents in use from which on the file has blocks on the disk before they are needed, so that a full disk
    /// refuses what is added rather than what makes room. From twice as many on, a closed file keeps some.
    pub reserve_from: u32,
    /// Pages for which address space is reserved; 0 = 256 GiB, or less beside more than a hundred other
    /// pools, or what the system gives. A number that the system has no addresses for is an error of the open.
    pub max_pages: u32,
    /// Whether to make the pool if it is missing.
    pub create: bool,
    /// Whether to change nothing, on disk or in memory.
    pub read_only: bool,
    /// Whether a [task](crate::workers) ends an epoch an `interval` after its first step. Without it, call
    /// [`File::tick`](crate::File::tick); steps never wait for turns then, and an epoch may be as long as
    /// one likes. With [`manual_epochs`](Self::manual_epochs) it makes epochs durable that the program has ended.
    pub background: bool,
    /// Whether nothing but the program ends epochs, by [`File::end_epoch`](crate::File::end_epoch),
    /// [`File::sync`](crate::File::sync) and the like: no checkpoint, compaction or backup does, and no
    /// [task](Self::background). Epochs may be as long as one likes; pages that the running one has changed leave
    /// memory, too.
    pub manual_epochs: bool,
    /// Says what has to be kept of a page, by its bytes: the header first, and the length of a page. The
    /// bytes may be those of any page, and hostile.
    pub gap: fn(&[u8]) -> PageUse,
    /// Bytes that pages, their frames and the page table may take in memory, about; pages that have not
    /// been written yet count half of it at most, and then writers wait, as for the journal. For pages
    /// that are whole pages of the system; others stay.
    pub memory_bytes: u64,
    /// In place of that: memory that this pool shares with others.
    pub budget: Option<Budget>,
    /// Whether pages that are no whole pages of the system leave memory, too, although that gives nothing
    /// back. For tests, which have small pages.
    pub evicts_small: bool,
    /// How soon a page that nobody uses leaves memory. The page may be changing.
    pub stay: fn(Page<'_>) -> Stay,
    /// Whether the frame of a page that has left memory, or its [mark](Page::mark) of the layer above, has to stay. Asked
    /// under the page's latch.
    pub frame_stays: fn(Page<'_>) -> bool,
    /// Whether those who write [take turns](crate::File::turn) themselves, before they take what others want. Then
    /// [`throttle`](everleaf_pmem::Medium::throttle) never waits.
    pub turns_are_taken: bool,
}

/// The shortest [interval](FileOptions::interval).
pub const INTERVAL_LEAST: Duration = Duration::from_micros(100);
/// The longest one: a day.
pub const INTERVAL_MOST: Duration = Duration::from_secs(24 * 60 * 60);
/// As many bytes as an option may say: 1 PiB, which no journal has and no memory. So whatever is computed from
/// options fits its type.
pub const BYTES_MOST: u64 = 1 << 50;

impl FileOptions {
    /// Whether a task ends epochs.
    pub(crate) fn ticks(&self) -> bool {
        self.background && !self.manual_epochs && !self.read_only
    }

    /// The same, each number within what it may be.
    pub(crate) fn within_bounds(&self) -> Self {
        Self {
            interval: self.interval.clamp(INTERVAL_LEAST, INTERVAL_MOST),
            journal_bytes: self.journal_bytes.min(BYTES_MOST),
            pending_bytes: self.pending_bytes.min(BYTES_MOST),
            spill_bytes: self.spill_bytes.min(BYTES_MOST),
            // That there is no bound is said by more than there can be.
            memory_bytes: if self.memory_bytes > BYTES_MOST { u64::MAX } else { self.memory_bytes },
            ..self.clone()
        }
    }
}

impl Default for FileOptions {
    fn default() -> Self {
        Self {
            slots: 256,
            layout_hash: 0,
            interval: Duration::from_millis(10),
            journal_bytes: 256 << 20,
            pending_bytes: 8 << 20,
            spill_bytes: 128 << 10,
            compression: Compression::None,
            spare_extents: 8,
            reserve_from: 16,
            max_pages: 0,
            create: false,
            read_only: false,
            background: true,
            manual_epochs: false,
            gap: |_| PageUse::But(0..0),
            memory_bytes: u64::MAX,
            budget: None,
            evicts_small: false,
            stay: |_| Stay::Always,
            frame_stays: |_| true,
            turns_are_taken: false,
        }
    }
}
