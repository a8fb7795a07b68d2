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
//! | file | what it is about |
//! |---|---|
//! | `format` | where everything is, and the limits |
//! | `entry` | the bytes of an entry |
//! | `bytes` | the bytes of a node, in its page or copied |
//! | `read` | what a node says, also to a reader that races |
//! | `rank` | where a key belongs |
//! | `copy` | a leaf in memory of its own, whose pairs are lent |
//! | `source` | a node in memory, from which another one is made |
//! | `pack` | a heap in the making |
//! | `image` | a whole node in the making |
//! | `write` | changes of a page |
//! | `edit` | one entry comes or changes: room, compaction, and the change |
//! | `fit` | what can be said of a node's room without making anything |
//! | `split` | where a node is cut in two |
//! | `even` | evening out and merging with a neighbour |
//! | `fill` | many pairs that fill a leaf |
//! | `note` | what a journal keeps of a change |
//! | `redo` | changes and their notes, and how they are done again |
//! | `check` | whether a page can be a node |

mod bytes;
mod check;
mod copy;
mod edit;
mod entry;
mod even;
mod fill;
mod fit;
mod format;
mod image;
mod note;
mod pack;
mod rank;
mod read;
mod redo;
mod source;
mod split;
mod write;

pub use check::{check_header, check_page, flaw, gap_of, is_entry};
pub use copy::LeafCopy;
pub use edit::{DetachedEdit, Edit, Room};
pub use entry::{Entry, Value, ValueSize, entry_bytes, is_cut, kept_of};
pub use even::{Asking, Even, Merge};
pub use fill::{Fill, is_inline};
pub use fit::{entry_bytes_for, is_sparse, may_merge, may_take};
pub use format::{SLOT_BYTES, fence_max, inline_value_max, room, whole_key_max};
pub use image::{Bounds, Image, common};
pub use read::{Fence, FenceAt, Node, View, is_long_fence};
pub use redo::{build, compact, is_whole, redo, remove};
pub use split::{Split, shortest_between};
