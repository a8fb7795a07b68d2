//! The types of trees.
//!
//! | | [`Scan`] | [`Segment`] | [`Binary`] | [`Sentinel`] | [`Fingerprint`] |
//! |---|---|---|---|---|---|
//! | [`Linear`] | [`FastFair`] | | [`FastFairBinary`] | [`FastFairS`] | [`FastFairF`] |
//! | [`Circular`] | [`CircTreeLs`] | [`CircTreeSegment`] | [`CircTreeBinary`] | [`CircTree`] | [`CircTreeF`] |
//!
//! The volatile trees that the papers compare with are the same types on
//! [`Dram`], where a flush and a fence cost nothing.

use everleaf_pmem::Dram;

use crate::blink::Blink;
use crate::slots::{
    Binary, Circular, Fingerprint, Linear, Logged, Scan, Segment, Sentinel, Strings, Words,
};
use crate::slotted::Slotted;

/// Circ-Tree with sentinels: u64 → u64 on any medium.
pub type CircTree<M> = Blink<M, (Circular, Sentinel, Words)>;

/// Circ-Tree with binary search in the node.
pub type CircTreeBinary<M> = Blink<M, (Circular, Binary, Words)>;

/// Circ-Tree with its paper's search of one contiguous piece (§5.1).
pub type CircTreeSegment<M> = Blink<M, (Circular, Segment, Words)>;

/// `Circ-Tree_ls`: linear search from the base (Circ-Tree §6.1).
pub type CircTreeLs<M> = Blink<M, (Circular, Scan, Words)>;

/// Circ-Tree with fingerprints.
pub type CircTreeF<M> = Blink<M, (Circular, Fingerprint, Words)>;

/// FAST+FAIR: linear nodes, linear search.
pub type FastFair<M> = Blink<M, (Linear, Scan, Words)>;

/// FAST+FAIR with binary search in the node.
pub type FastFairBinary<M> = Blink<M, (Linear, Binary, Words)>;

/// FAST+FAIR with sentinels.
pub type FastFairS<M> = Blink<M, (Linear, Sentinel, Words)>;

/// FAST+FAIR with fingerprints.
pub type FastFairF<M> = Blink<M, (Linear, Fingerprint, Words)>;

/// FAST+Logging: shifts as FAST+FAIR's, splits under an undo log (FAST+FAIR §6).
pub type FastLogging<M> = Blink<M, (Logged<Linear>, Scan, Words)>;

/// `Volatile_std`: a linear B+-tree in memory (Circ-Tree §6.1).
pub type VolatileStd = FastFair<Dram>;

/// `Volatile_circ`: a circular B+-tree in memory, searched from the base (Circ-Tree §6.1).
pub type VolatileCirc = CircTreeLs<Dram>;

/// The Db's tree on persistent memory: byte strings in records, circular nodes, sentinels over heads.
pub type StringTree<M> = Blink<M, (Circular, Sentinel, Strings)>;

/// The Db's tree on a file: byte strings in slotted nodes.
pub type SlottedTree<M> = Blink<M, Slotted>;
