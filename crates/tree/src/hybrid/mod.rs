//! The hybrid spine (BD+Tree §3; also FPTree's and LB+Tree's): a chain of leaves in the pool, and
//! inner nodes in DRAM that lead to them. The inner nodes are a [`CircTree`](crate::CircTree) on
//! [`Dram`](everleaf_pmem::Dram), from the lowest key of a leaf to its page; they are rebuilt at each open.
//!
//! ```text
//! DRAM   CircTree<Dram>: low key -> leaf          frames: latch, range of keys, order of slots
//!            |        |          |
//! pool     leaf ---> leaf ---> leaf ---> …        epoch_bitmap.rs, on Buffered<M>
//!
//! get      floor(key) in the inner nodes; move right while the leaf ends before the key;
//!          version, find, validate
//! insert   latch the leaf; enter an epoch; change it; nothing is flushed before the epoch ends
//! split    latch L; build R, flush, fence; L := (sibling R, without what moved), flush, fence;
//!          enter R in the inner nodes
//! load     ascending pairs: what the last leaf has room for; then a leaf of as many as it takes, built as in a split
//! reclaim  latch P, and the leaf behind it that shows nothing in any of three epochs; P := (sibling
//!          behind it), flush, fence; free it
//! merge    if the tree is told so: latch L and R; L := what R shows, flush, fence; L := (bitmaps of both,
//!          sibling behind R), flush, fence; free R
//! ```
//!
//! **Epochs.** A step latches all that it changes and registers *then* (`Buffered::enter`), so
//! a leaf never sees a change of an epoch after one of the next (§3.4, problem 1); and a thread that has read
//! what a step of epoch e wrote finds every leaf latched by a step of e − 1 still latched, or changed
//! (problem 2). The paper registers first and has to look again.
//!
//! **The inner nodes are a hint.** A leaf knows its range of keys; a search that is led too far to
//! the left moves right, and one that finds no leaf of its key starts again. So an entry may come
//! late, after its leaf has been linked.
//!
//! **Links are not versioned.** Splits and unlinking are durable at once and hold for every epoch
//! that a crash may go back to: a new leaf shows in each epoch what its entries showed in the old
//! one, a merged leaf shows in each what both leaves showed, and an unlinked one shows nothing in any. That is why a
//! page that is freed can be used again at once, where the paper waits for two epochs, and why no reader
//! registers: a version never goes back, and a leaf in its next life either has the key's range or has not.
//!
//! One pool holds one such tree.

mod check;
pub mod epoch_bitmap;
mod frame;
mod keeper;
mod load;
mod merge;
mod read;
mod rebuild;
mod reclaim;
mod scan;
mod tree;
mod write;

pub use check::HybridReport;
pub use keeper::Keeper;
pub use load::Loaded;
pub use rebuild::{Progress, Rebuild, Rebuilt};
pub(crate) use tree::fits;
pub use tree::{BdTree, Hybrid};
