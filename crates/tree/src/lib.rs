//! Ordered trees that survive a crash, out of exchangeable parts.
//!
//! | part | what it decides | here |
//! |---|---|---|
//! | [`Medium`](everleaf_pmem::Medium) | where bytes are and when they are durable | `everleaf-pmem` |
//! | [`slots::Layout`] | how slots are kept in a node | [`slots::Circular`] (Circ-Tree), [`slots::Linear`] (FAST) |
//! | [`slots::Probe`] | which slots a search looks at | [`slots::Sentinel`], [`slots::Fingerprint`], [`slots::Binary`], [`slots::Scan`], [`slots::Segment`] |
//! | [`slots::Keys`] | what keys are | [`slots::Words`], [`slots::Strings`] |
//! | [`Kind`] | what a tree's nodes are | any tuple of layout, probe and keys; [`slotted::Slotted`], which keeps pairs of any length inside |
//! | [`blink::Blink`] | the spine: B-link with FAIR's splits | |
//! | [`hybrid::Hybrid`] | the spine of BD+Tree: leaves in the pool, inner nodes in DRAM | [`hybrid::epoch_bitmap`] |
//! | [`Reading`] | how readers get along with writers | optimistic, lock-free, latched |
//!
//! ```
//! use std::sync::Arc;
//! use everleaf_pmem::{Dram, Geometry};
//! use everleaf_tree::{CircTree, Index};
//!
//! let pool = everleaf_tree::format(Dram::new(Geometry::new(128).unwrap(), 1 << 12)?)?;
//! let tree: CircTree<Dram> = CircTree::create(Arc::new(pool), everleaf_tree::INDEX_ANCHOR)?;
//! assert_eq!(Index::insert(&tree, u64::MAX, 0)?, None);
//! assert_eq!(Index::get(&tree, u64::MAX)?, Some(0));
//! # Ok::<(), everleaf_pmem::Error>(())
//! ```

#![forbid(unsafe_code)]

pub mod blink;
#[cfg(feature = "bugs")]
pub mod bug;
#[cfg(not(feature = "bugs"))]
mod bug;
pub mod check;
pub mod hybrid;
pub mod index;
pub mod named;
mod new_tree;
pub mod node;
mod open;
mod record;
pub mod recovery;
pub mod salvage;
pub mod slots;
pub mod slotted;

pub use blink::Reading;
pub use check::{NamedPages, Shares, TreeReport, compare, leaks, misnamed};
pub use everleaf_pool::Leaks;
pub use hybrid::BdTree;
pub use index::Index;
pub use named::{
    CircTree, CircTreeBinary, CircTreeF, CircTreeLeafF, CircTreeLs, CircTreeSegment, CircTreeWalk,
    FastFair, FastFairBinary, FastFairF, FastFairLeafF, FastFairS, FastFairWalk, FastLogging,
    SlottedTree, StringTree, VolatileCirc, VolatileStd,
};
pub use new_tree::after_undo;
pub use node::{FoundValue, Kind};
pub use open::{
    FilePool, INDEX_ANCHOR, format, most_in_record, open, open_bd_dax, open_dax, page_use,
};
pub use recovery::{Recovery, Walked, reclaim, recover};

/// Keeps the code of the README true.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
