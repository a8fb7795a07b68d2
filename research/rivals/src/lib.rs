//! The persistent indexes that the papers measure their trees against, the data layer of PACTree, and NBTree.
//!
//! Each one has one file for its nodes and one for what leads to them, runs on any
//! [`Medium`](everleaf_pmem::Medium), is an [`Index`](everleaf_tree::Index), and comes in two versions by one
//! parameter: [`AsPublished`] with the bugs of its source, and [`Sound`]. Nothing of this is for programs that keep
//! data: it is there to be measured, and to be judged by the crash checker.
//!
//! Latches are in frames, in memory that a crash takes, whatever the source does: a lock bit that is persisted is a
//! bug of its own. Where a source changes its lock bit and commits by the same store, that store is there.
//!
//! | rival | leaves | what leads to them |
//! |---|---|---|
//! | [`FpTree`], [`FpTree56`] | [`fptree::Fp`] | [`chained::Chained`]: inner nodes in DRAM |
//! | [`LbTree`] | [`lbtree::Lb`] | the same |
//! | [`NbTree`] | [`nbtree::Nb`], which give way to [copies](copied) | the same |
//! | [`PacTree`] | [`pactree::Pac`] | the same, told of new leaves [later](late) |
//! | [`NvTree`] | logs of pairs | one array in DRAM |
//! | [`WbTree`] | slot arrays and bitmaps | the same nodes, persistent |
//! | [`Wort`] | cells of a pair | a persistent radix tree |
//! | [`SkipList`] | cells of a pair and a link | towers in DRAM |
//! | [`Montage`] | payloads, durable by epochs | a tree in DRAM |
//! | [`UTree`] | the same | a tree in DRAM |

#![forbid(unsafe_code)]

pub mod cells;
pub mod chain;
pub mod chained;
pub mod copied;
mod dram;
pub mod fptree;
pub mod late;
pub mod lbtree;
pub mod leaf;
pub mod limbo;
pub mod list;
pub mod montage;
pub mod named;
pub mod nbtree;
pub mod nvtree;
pub mod pactree;
pub mod parts;
mod scan;
pub mod skiplist;
mod span;
pub mod spine;
pub mod ulog;
pub mod utree;
mod version;
pub mod wbtree;
pub mod wort;

pub use chained::Chained;
pub use fptree::{FpTree, FpTree56};
pub use lbtree::LbTree;
pub use list::{List, ListOpened};
pub use montage::{Montage, MontageOpened};
pub use nbtree::NbTree;
pub use nvtree::{NvOpened, NvTree};
pub use pactree::PacTree;
pub use skiplist::SkipList;
pub use utree::UTree;
pub use version::{AsPublished, Only, Sound, Version};
pub use wbtree::{WbOpened, WbTree};
pub use wort::{Wort, WortOpened};
