//! The changes of an epoch, how it is committed, and when it is durable.

pub(crate) mod commit;
pub(crate) mod counts;
pub(crate) mod durable;
pub(crate) mod ended;
pub(crate) mod slots;
pub(crate) mod spill;
pub(crate) mod ticker;
pub(crate) mod waits;

/// Why a step may not begin, or has to wait: the bits of the one word that each step reads first.
pub(crate) mod barrier {
    /// Why no step may begin. These bits are below [`FULL`].
    pub(crate) const POISONED: u32 = 1;
    pub(crate) const READ_ONLY: u32 = 2;
    pub(crate) const CLOSED: u32 = 4;
    /// No commit may begin either.
    pub(crate) const ABANDONED: u32 = 8;
    /// Writers take turns. This refuses nothing.
    pub(crate) const FULL: u32 = 16;
    /// The next writer spills the running epoch, see [`crate::epochs::spill`]. This refuses nothing, either.
    pub(crate) const SPILL: u32 = 32;
    /// The disk had no room for records of an epoch, which are in memory: see [`crate::limits::room`]. Writers ask again.
    pub(crate) const NO_ROOM: u32 = 64;
    /// The running epoch has changed more pages than memory may hold. Writers ask again, too.
    pub(crate) const CROWDED: u32 = 128;
    /// The disk may have no room for what a checkpoint would have to write: see [`crate::limits::ready`]. Writers see
    /// to it.
    pub(crate) const SCANT: u32 = 256;

    const _: () = assert!(
        POISONED | READ_ONLY | CLOSED | ABANDONED == FULL - 1,
        "a word from FULL on refuses nothing by itself"
    );
}
