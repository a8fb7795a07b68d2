//! The slotted node: pairs live in their leaf, and separators in their node.
//!
//! ```text
//!       0         2           4           6
//!    0  count     heap start  dead bytes  flags             flags: 0 the low fence is long, 1 the high one,
//!    8  sibling u32           0                                    8..16 inserts in a row at the end
//!   16  low fence at, length  high fence at, length         length 0xffff: there is none
//!   24  first 8 bytes of the high fence behind the prefix   big-endian, padded with zeros
//!   32  0
//!   40  kind, level, flags, prefix length                   as in every page
//!   48  sequence number, checksum: the medium's
//!   64  slots, ascending: 6 bytes of the key behind the prefix (big-endian) in the top 48 bits,
//!       offset of the entry in the low 16
//!       … gap …
//!       heap: entries and fences, in any order, and dead bytes
//! ```
//!
//! Numbers are little-endian. The *prefix* is what all keys of the node begin with; it is read from the low
//! fence. Behind it a key has its *suffix*: six bytes are in the slot, the rest in the entry.
//!
//! **Long keys.** Of a key that is longer than an eighth of the page the entry keeps the first bytes: it is
//! *cut*. A record holds the whole key: that of the pair, or of a separator the one of the child's low
//! fence. Of a *long* fence the node keeps an eighth of a page, and behind it the name of a record that
//! holds all.
//!
//! **Records.** Bytes that do not fit a node are in a *record* of the pool, and a step makes and frees records
//! together with the entries and fences that name them.
//!
//! | what | where |
//! |---|---|
//! | a pair of a short key and a short value | the leaf's entry |
//! | a pair of a long key or a long value | a record with both, in extents if it fits no page; the entry refers to it |
//! | a long separator | the record of the child's low fence; the parent's entry refers to it, too |
//! | a long fence | a record with all of it; each of the two nodes that it is between has one of its own |
//!
//! These nodes need a journal, which makes each step whole: their stores have no order.
//!
//! | file | its subject |
//! |---|---|
//! | `entry` | the bytes of an entry, where everything is in a page, limits |
//! | `view` | what a node says, also to a reader that races, and where a key belongs |
//! | `edit` | one entry comes, changes or goes: room, compaction, the change of the page |
//! | `note` | what a journal keeps of a change, and how it is done again |
//! | `image` | a whole node in the making |
//! | `split`, `even` | where a node is cut in two; evening out, merging, filling |
//! | `copy` | a leaf in memory of its own, whose pairs are lent |
//! | `flaws` | whether a page can be a node |
//! | `answers` | what the spine asks, answered with the pool |

mod answers;
mod copy;
mod edit;
mod entry;
mod even;
mod flaws;
mod image;
mod note;
mod split;
mod view;

pub use copy::{LeafCopy, Went, Window};
pub use edit::{DetachedEdit, Edit, Room, build, compact, is_whole, name_of, redo, remove};
pub use entry::{entry_bytes, is_cut, is_inline, kept_of};
pub use even::{Asking, Even, Fill, Merge};
pub use flaws::{check_header, check_page, flaw, gap_of, is_entry};
pub use image::{Bounds, Image, common};
pub use split::{Split, entry_bytes_for, is_sparse, may_merge, may_take, shortest_between};
pub use view::{
    Entry, Fence, FenceAt, Node, SLOT_BYTES, Value, ValueSize, View, fence_max, inline_value_max,
    is_long_fence, room, whole_key_max,
};

/// The kind of the Db's trees on a file: byte strings to byte strings in slotted nodes.
#[derive(Debug, Clone, Copy)]
pub struct Slotted;
