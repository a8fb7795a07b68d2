//! The B-link spine (Lehman and Yao 1981; FAST+FAIR §4; Circ-Tree §5.2–5.4): every node has a
//! right sibling and a high key, so a split needs no parent at once and a search that comes too
//! early moves right.
//!
//! ```text
//! search   version of node; move right while key ≥ high; child of the greatest separator ≤ key;
//!          version of child; validate node; down                      (no latch, no store)
//! insert   latch the leaf; full: even out (slotted nodes) or split; insert into the node
//! split    latch L; build R; L := (sibling R, high, count)            (step 1: L, R)
//!          latch the parent while L is still held; insert R's entry   (step 2: parent)
//! fill     latch L; build R; L := its entries and pairs in ascending order, sibling R (step 1: L, R); parent as above
//! even out latch L, R, their parent; the full one of L and R gives entries to the other; R's entry := its
//!          new separator
//! give     latch L, its right sibling R, their parent; R takes L's greatest entries (linear leaves of words); R's entry :=
//!          its new separator
//! merge    latch L, its right sibling R, their parent; L absorbs R; remove R's entry; free R
//! ```
//!
//! Latches go from left to right and from the leaves up, so nobody waits in a circle; everything
//! else that a step changes (records, map, anchor) is taken by `try_lock`, or last. A writer holds
//! one node, two while it fixes the parent of a split, three in a merge, a gift or an evening out: so each of
//! these is one step and one epoch, and no crash on a file leaves a parent that points to a dead node.
//!
//! A writer that sees a parent without an entry for a node (a crash came between the two steps of a
//! split) enters the node, and reads work meanwhile. It also renews a separator that a gift has left behind. On media
//! without a journal a merge is announced in the tree's anchor first and completed at open.
//!
//! Freed pages are used again at once: a latch's version never goes back, and a search validates
//! the node that it came from after it has the next node's version, so it can never take a page in
//! its new life for the old one. This is the whole of reclamation here; no reader registers.
//!
//! A get in a tree of words first tries a way straight down that stops where anything is odd (`straight.rs`).
//!
//! A search that evening out has overtaken, since its key went to the left, finds that the parent or the
//! leaf has changed. One that latches its way down looks at lower bounds instead (`walk.rs`).

mod batch;
mod beside;
mod create;
mod cursor;
mod descend;
mod load;
pub(crate) mod log;
mod merge;
mod past;
mod pop;
mod reading;
mod room;
mod scan;
mod split;
mod steps;
mod straight;
mod swap;
mod together;
mod upkeep;
mod walk;
mod words;
mod write;

pub use batch::{BatchChange, Stage};
pub use create::{first_touch, gap, redo};
pub use cursor::{Cursor, InPast, Stepped};
pub use descend::{Blink, KeyPlace, Seek};
pub(crate) use merge::announced;
pub use past::Was;
pub use pop::End;
pub use reading::Reading;
pub use scan::Chunk;
pub use swap::Swap;
pub use together::HeldLeaf;
pub use write::{Before, Condition, KeepBefore, Put};
