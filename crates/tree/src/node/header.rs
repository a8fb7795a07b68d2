//! The header line of a node: which slots are live, its shape, its sibling and its bounds.

use std::fmt::Display;

use everleaf_pmem::{Error, Geometry, Page, PageNo, SEQ_WORD};
use everleaf_pool::kind::{self, KIND_WORD};

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
/// Flag in the kind word: the node is [slotted](crate::slotted), and has no slots of equal size.
pub const FLAG_SLOTTED: u16 = 2;

/// The bits of a kind word that say what a page is: its kind and its flags.
pub(crate) const KIND_AND_FLAGS: u64 = 0xffff_00ff;

/// Slots of the largest page: base and count are 16 bits each, and so are positions in a journal.
const SLOTS_MAX: u32 = 1024;
const _: () = {
    assert!(Geometry::new(SLOTS_MAX).is_some() && Geometry::new(2 * SLOTS_MAX).is_none());
    assert!(SLOTS_MAX as u64 <= 1 << 15);
    // The header's words are in the order of their numbers; the medium's two come last.
    assert!(RUN_WORD < SIBLING_WORD && SIBLING_WORD < HIGH_WORD && HIGH_WORD < LOW_WORD);
    assert!(LOW_WORD < HIGH_RECORD_WORD && HIGH_RECORD_WORD < KIND_WORD && KIND_WORD < SEQ_WORD);
};

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
        Self { base: word as usize & mask, count: (word >> 16) as usize & 0xffff }
    }
    /// Base and count as they are in a node's header: a page that is damaged, or changes meanwhile, may have fewer slots.
    #[inline(always)]
    pub fn word_of(page: Page<'_>) -> (usize, usize) {
        let word = page.head(RUN_WORD).load();
        (word as usize & 0xffff, (word >> 16) as usize & 0xffff)
    }
    /// The run as the header word.
    pub fn word(self) -> u64 {
        debug_assert!(self.base < SLOTS_MAX as usize && self.count <= SLOTS_MAX as usize);
        self.base as u64 | (self.count as u64) << 16
    }
    /// Physical slot of logical position `pos`.
    #[inline(always)]
    pub fn slot(self, page: Page<'_>, pos: usize) -> usize {
        self.base.wrapping_add(pos) & (page.slots() - 1)
    }
}

/// The shape of a node, as its kind word gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// 0 for leaves.
    pub level: u8,
    /// Keys are byte strings.
    pub bytes: bool,
    /// Entries are of any length.
    pub slotted: bool,
    /// Bytes that all keys of the node share (byte strings).
    pub prefix: usize,
}

impl Shape {
    /// Reads the shape of a page; `None` if it is not a node.
    #[inline(always)]
    pub fn of(page: Page<'_>) -> Option<Self> {
        Self::from_word(page.head(KIND_WORD).load())
    }
    /// Reads the shape of a page; `None` if it is not a node with just these flags.
    #[inline(always)]
    pub fn with_flags(page: Page<'_>, flags: u16) -> Option<Self> {
        let word = page.head(KIND_WORD).load();
        let is_own = word & KIND_AND_FLAGS == kind::pack(kind::NODE, 0, flags, 0);
        (is_own && kind::level_of(word) <= MAX_LEVEL).then_some(Self {
            level: kind::level_of(word),
            bytes: flags & FLAG_BYTES != 0,
            slotted: flags & FLAG_SLOTTED != 0,
            prefix: kind::prefix_of(word) as usize,
        })
    }
    /// Unpacks a kind word; `None` if it is not a node's.
    #[inline(always)]
    pub fn from_word(word: u64) -> Option<Self> {
        let is_node = kind::kind_of(word) == kind::NODE && kind::level_of(word) <= MAX_LEVEL;
        is_node.then_some(Self {
            level: kind::level_of(word),
            bytes: kind::flags_of(word) & FLAG_BYTES != 0,
            slotted: kind::flags_of(word) & FLAG_SLOTTED != 0,
            prefix: kind::prefix_of(word) as usize,
        })
    }
    /// The shape as the kind word.
    pub fn word(self) -> u64 {
        debug_assert!(self.level <= MAX_LEVEL, "a node that Shape::of would not know");
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        let flags = flag(self.bytes, FLAG_BYTES) | flag(self.slotted, FLAG_SLOTTED);
        kind::pack(kind::NODE, self.level, flags, self.prefix as u32)
    }
    /// Which word of a slot orders it: 0 the identity (u64 leaves), 1 the payload.
    #[inline(always)]
    pub fn key_word(self) -> usize {
        usize::from(self.bytes || self.level > 0)
    }
}

/// A node's header: the parts that all searches ask for as they were at one moment, the sibling as it is now.
pub trait NodeView<'m>: Copy {
    /// The page.
    fn page(self) -> Page<'m>;
    /// Its shape.
    fn shape(self) -> Shape;
    /// How many entries there are.
    fn count(self) -> usize;
    /// The page to the right, if there is one.
    fn sibling(self) -> Option<PageNo>;
}

/// The sibling of a node, if it has one.
#[inline(always)]
pub fn sibling(page: Page<'_>) -> Option<PageNo> {
    match page.head(SIBLING_WORD).load() as PageNo {
        0 => None,
        no => Some(no),
    }
}

/// Right-hand bounds of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RightBounds {
    /// The page to the right, 0 = none.
    pub sibling: PageNo,
    /// The exclusive upper bound; without meaning if there is no sibling.
    pub high: u64,
    /// Byte strings: the record of the upper bound, 0 = +infinity.
    pub high_record: u64,
}

impl RightBounds {
    /// Reads a node's right-hand bounds.
    pub fn of(page: Page<'_>) -> Self {
        Self {
            sibling: page.head(SIBLING_WORD).load() as PageNo,
            high: page.head(HIGH_WORD).load(),
            high_record: page.head(HIGH_RECORD_WORD).load(),
        }
    }
}

/// Where a key is in a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rank {
    /// Slots with a smaller or equal key.
    pub le: usize,
    /// Whether the slot before `le` has exactly this key.
    pub exact: bool,
}

impl Rank {
    /// Slots with a smaller key.
    pub fn lt(self) -> usize {
        debug_assert!(self.le > 0 || !self.exact, "an exact rank counts the slot of its key");
        self.le - usize::from(self.exact)
    }
}

/// A damaged node, by its place in the pool.
pub(crate) fn damaged(page: Page<'_>, what: impl Display) -> Error {
    everleaf_pool::damaged(page, 0, what.to_string())
}
