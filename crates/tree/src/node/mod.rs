//! Nodes: one page each, in three choices that combine freely: how slots are laid out
//! ([`Layout`]), which slots a search looks at ([`Probe`]), and what keys are
//! ([`Keys`](crate::keys::Keys)).
//!
//! ```text
//! header line   w0 run: base | count << 16
//!               w1 sibling: page to the right, 0 = none, which also means that high is +infinity
//!               w2 high: u64 key, or head of the high key       w3 low: u64 key, or low key's record
//!               w4 bytes only: record of the high key           w5 kind | level << 8 | flags << 16 | prefix << 32
//!               w6 sequence number, w7 checksum: the medium's
//! slot p        body word 2p: identity, word 2p + 1: payload
//! ```
//!
//! **Identity and payload** (docs/PAPERS.md, *Identity and payload*): the identity word is unique
//! in the node and has a void state, the payload word may be anything. In a u64 leaf the identity
//! is the key and the payload the value; void is a key outside `[low, high)`, so no key is
//! reserved. In inner nodes the identity is the child and the payload the separator; in byte-string
//! nodes the identity is a record and the payload a head of the key; void is 0.
//!
//! Invariants kept here: the run's slots are sorted by key and have distinct identities; every slot
//! outside the run is void (media without a journal); `low` never changes while the node lives;
//! `high` is the sibling's `low`. Not kept here: that a parent has an entry for the node.

pub mod binary;
pub mod change;
pub mod circular;
mod delegate;
pub mod epoch_bitmap;
pub mod fingerprint;
pub mod linear;
pub mod logged;
pub mod racing;
pub mod scan;
pub mod segment;
pub mod sentinel;
mod writer;

use everleaf_pmem::{Medium, Page, PageNo, Result};
use everleaf_pool::kind::{self, KIND_WORD};

pub use binary::Binary;
pub use circular::Circular;
pub use fingerprint::Fingerprint;
pub use linear::Linear;
pub use logged::Logged;
pub use scan::Scan;
pub use segment::Segment;
pub use sentinel::Sentinel;
pub use writer::Limits;
use writer::Writer;

/// Header word: base and count.
pub const RUN_WORD: usize = 0;
/// Header word: the page to the right.
pub const SIBLING_WORD: usize = 1;
/// Header word: the upper bound, exclusive.
pub const HIGH_WORD: usize = 2;
/// Header word: the lower bound, inclusive.
pub const LOW_WORD: usize = 3;
/// Header word: the record of the upper bound, for byte strings.
pub const HIGH_RECORD_WORD: usize = 4;
/// Flag in the kind word: keys are byte strings.
pub const FLAG_BYTES: u16 = 1;

/// No node has a higher level: each one takes at least twice as many inserts as the one below.
pub const MAX_LEVEL: u8 = 64;

/// Where the live slots are: `count` slots from physical slot `base` on, modulo the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// Physical slot of the smallest key.
    pub base: usize,
    /// Live slots.
    pub count: usize,
}

impl Run {
    /// Reads the run of a node.
    #[inline(always)]
    pub fn of(page: Page<'_>) -> Self {
        let word = page.head(RUN_WORD).load();
        let mask = page.slots() - 1;
        // Masked, so that a reader that races or a damaged page cannot leave the node.
        Self { base: word as usize & 0xffff & mask, count: (word >> 16) as usize & 0xffff }
    }
    /// As the header word.
    pub fn word(self) -> u64 {
        self.base as u64 | (self.count as u64) << 16
    }
    /// Physical slot of logical position `pos`.
    #[inline(always)]
    pub fn slot(self, page: Page<'_>, pos: usize) -> usize {
        self.base.wrapping_add(pos) & (page.slots() - 1)
    }
}

/// One slot's two words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// Unique in the node, has a void state.
    pub ident: u64,
    /// Any bits.
    pub payload: u64,
}

impl Slot {
    /// Reads physical slot `p`.
    #[inline(always)]
    pub fn read(page: Page<'_>, p: usize) -> Self {
        Self { ident: page.body(2 * p).load(), payload: page.body(2 * p + 1).load() }
    }
    /// The word that orders it among the slots of a node.
    #[inline(always)]
    pub fn key(self, shape: Shape) -> u64 {
        if shape.key_word() == 0 { self.ident } else { self.payload }
    }
}

/// What the kind word says of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// 0 for leaves.
    pub level: u8,
    /// Keys are byte strings.
    pub bytes: bool,
    /// Bytes that all keys of the node share (byte strings).
    pub prefix: usize,
}

impl Shape {
    /// Reads the shape of a page; `None` if it is not a node.
    #[inline(always)]
    pub fn of(page: Page<'_>) -> Option<Self> {
        Self::from_word(page.head(KIND_WORD).load())
    }
    /// Unpacks a kind word; `None` if it is not a node's.
    #[inline(always)]
    pub fn from_word(word: u64) -> Option<Self> {
        let is_node = kind::kind_of(word) == kind::NODE && kind::level_of(word) <= MAX_LEVEL;
        is_node.then_some(Self {
            level: kind::level_of(word),
            bytes: kind::flags_of(word) & FLAG_BYTES != 0,
            prefix: kind::prefix_of(word) as usize,
        })
    }
    /// As the kind word.
    pub fn word(self) -> u64 {
        kind::pack(
            kind::NODE,
            self.level,
            if self.bytes { FLAG_BYTES } else { 0 },
            self.prefix as u32,
        )
    }
    /// Which word of a slot orders it: 0 the identity (u64 leaves), 1 the payload.
    #[inline(always)]
    pub fn key_word(self) -> usize {
        usize::from(self.bytes || self.level > 0)
    }
}

/// The sibling of a node, if it has one.
#[inline(always)]
pub fn sibling(page: Page<'_>) -> Option<PageNo> {
    match page.head(SIBLING_WORD).load() as PageNo {
        0 => None,
        no => Some(no),
    }
}

/// How slots are kept in a node. All functions run under the node's latch, on a page whose header
/// has been checked; positions are logical (0 = smallest key). Each flushes and fences as media
/// without a journal need it, and updates the probe `P` for the slots that it stores.
pub trait Layout: Send + Sync + 'static {
    /// The layout's name, which a pool remembers.
    const NAME: &'static str;
    /// Says in a pool how its nodes are laid out, so that a build that reads them otherwise does not
    /// open it: the layout's name in ASCII, 16 for the bytes of a slot, and a version.
    const HASH: u64;
    /// Whether each 8-byte store leaves a node that [`racing`] can read.
    const LOCK_FREE: bool;
    /// Whether splits on media without a journal keep an undo log, though the layout needs none.
    const LOGGED: bool = false;
    /// How many of the slots of a node can be live.
    fn capacity<M: Medium>(slots: usize, shape: Shape) -> usize;
    /// Inserts at `pos ≤ count`, which is below the capacity. Commits by one 8-byte store.
    fn insert<M: Medium, P: Probe>(m: &M, page: Page<'_>, shape: Shape, pos: usize, slot: Slot);
    /// Removes position `pos < count`.
    fn remove<M: Medium, P: Probe>(m: &M, page: Page<'_>, shape: Shape, pos: usize);
    /// Appends `slots` after the last position of a node whose bounds are about to widen to
    /// `high` and `sibling` (a merge), and then widens them: one fence, then one header line commits
    /// everything.
    fn absorb<M: Medium, P: Probe>(
        m: &M,
        page: Page<'_>,
        shape: Shape,
        slots: &[Slot],
        to: Bounds,
    ) {
        let w = Writer::new(m, page, shape);
        let n = w.run.count + slots.len();
        debug_assert!(n <= Self::capacity::<M>(page.slots(), shape));
        w.append_unseen::<Binary>(slots);
        w.widen(to);
        w.commit(w.run.base, n);
        P::rebuild(page, Run::of(page), shape.key_word());
    }
    /// Keeps the first `keep` slots and narrows the bounds: the left half of a split.
    fn trim<M: Medium, P: Probe>(m: &M, page: Page<'_>, shape: Shape, keep: usize, to: Bounds) {
        let w = Writer::new(m, page, shape);
        w.narrow(to);
        w.commit(w.run.base, keep);
        w.scrub(keep);
        P::rebuild(page, Run::of(page), shape.key_word());
    }
    /// Writes a whole node that nobody can reach yet, or that a journal protects.
    fn build<M: Medium, P: Probe>(m: &M, page: Page<'_>, image: &Image<'_>) {
        writer::build::<M, P>(m, page, image);
    }
    /// Finishes what a crash left half done in this node. Reads the sibling's low key, else nothing
    /// but this page. Idempotent, and may itself be cut off by a crash.
    ///
    /// # Errors
    /// Corrupt, if no crash of this code can have left the node so.
    fn recover<M: Medium>(m: &M, page: Page<'_>, shape: Shape) -> Result<()>;
}

/// Which slots a search looks at. A probe is volatile: rebuilt at first touch, never flushed.
pub trait Probe: Send + Sync + 'static {
    /// The aid keeps something for each physical slot whose number is a multiple of this; 0: for
    /// none, there is no aid.
    const STRIDE: usize;
    /// Bytes of the aid for each slot that a search may read; 0: there is no aid.
    const AID_BYTES: usize = 0;
    /// How many live slots have a key word ≤ `head`. Under a race the answer may be anything up to
    /// the count; the reader validates the latch afterwards.
    fn rank(page: Page<'_>, run: Run, key_word: usize, head: u64) -> usize;
    /// The logical position of the live slot whose key word is `head`, in nodes where that is
    /// unique. Under a race as [`rank`](Self::rank).
    #[inline(always)]
    fn find(page: Page<'_>, run: Run, key_word: usize, head: u64) -> Option<usize> {
        let last = Self::rank(page, run, key_word, head).checked_sub(1)?;
        (page.body(2 * run.slot(page, last) + key_word).load() == head).then_some(last)
    }
    /// Physical slot `p`, a multiple of the stride, now holds `head`.
    fn stored(_page: Page<'_>, _p: usize, _head: u64) {}
    /// Physical slot `p`, a multiple of the stride, is no longer live.
    fn cleared(_page: Page<'_>, _p: usize) {}
    /// Builds the aid from the slots.
    fn rebuild(_page: Page<'_>, _run: Run, _key_word: usize) {}
}

/// Right-hand bounds of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// The page to the right, 0 = none.
    pub sibling: PageNo,
    /// The exclusive upper bound; without meaning if there is no sibling.
    pub high: u64,
    /// Byte strings: the record of the upper bound, 0 = +infinity.
    pub high_record: u64,
}

impl Bounds {
    /// Reads a node's right-hand bounds.
    pub fn of(page: Page<'_>) -> Self {
        Self {
            sibling: page.head(SIBLING_WORD).load() as PageNo,
            high: page.head(HIGH_WORD).load(),
            high_record: page.head(HIGH_RECORD_WORD).load(),
        }
    }
}

/// A whole node: header and slots in order.
#[derive(Debug, Clone, Copy)]
pub struct Image<'a> {
    /// Level, kind of keys, prefix.
    pub shape: Shape,
    /// Inclusive lower bound: u64 key (0 = -infinity), or record of the low key (0 = -infinity).
    pub low: u64,
    /// Right-hand bounds.
    pub right: Bounds,
    /// Slots in key order.
    pub slots: &'a [Slot],
}
