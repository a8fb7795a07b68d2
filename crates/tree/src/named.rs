//! The trees by name: their types, and those of words as tools and experiments choose them. The macro `names!` is
//! the only place that matches a name to a type.
//!
//! | | [`Scan`] | [`Segment`] | [`Binary`] | [`Sentinel`] | [`Fingerprint`] |
//! |---|---|---|---|---|---|
//! | [`Linear`] | [`FastFair`] | | [`FastFairBinary`] | [`FastFairS`] | [`FastFairF`] |
//! | [`Circular`] | [`CircTreeLs`] | [`CircTreeSegment`] | [`CircTreeBinary`] | [`CircTree`] | [`CircTreeF`] |
//!
//! With sentinels as printed, [`SentinelWalk`], the two are [`FastFairWalk`] and [`CircTreeWalk`]; with fingerprints in
//! leaves alone, [`FingerprintInLeaves`], [`FastFairLeafF`] and [`CircTreeLeafF`].
//!
//! The volatile trees that the papers compare with are the same types on
//! [`Dram`], where a flush and a fence cost nothing.

use std::sync::Arc;

use everleaf_pmem::{Dram, Error, Medium, Result};
use everleaf_pool::{CATALOG_ANCHOR, Pool};

use crate::blink::{Blink, Reading};
use crate::index::Index;
use crate::recovery::{self, Recovery};
use crate::slots::{
    Binary, Circular, Fingerprint, FingerprintInLeaves, Layout, Linear, Logged, Probe, Scan,
    Segment, Sentinel, SentinelWalk, Strings, Words,
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

/// Circ-Tree with the Sentinel Array as printed: in leaves, walked (Sentinel Array §3).
pub type CircTreeWalk<M> = Blink<M, (Circular, SentinelWalk, Words)>;

/// Circ-Tree with fingerprints in leaves alone (Sentinel Array §4).
pub type CircTreeLeafF<M> = Blink<M, (Circular, FingerprintInLeaves, Words)>;

/// FAST+FAIR: linear nodes, linear search.
pub type FastFair<M> = Blink<M, (Linear, Scan, Words)>;

/// FAST+FAIR with binary search in the node.
pub type FastFairBinary<M> = Blink<M, (Linear, Binary, Words)>;

/// FAST+FAIR with sentinels.
pub type FastFairS<M> = Blink<M, (Linear, Sentinel, Words)>;

/// FAST+FAIR with fingerprints.
pub type FastFairF<M> = Blink<M, (Linear, Fingerprint, Words)>;

/// FAST+FAIR with the Sentinel Array as printed: in leaves, walked (Sentinel Array §3).
pub type FastFairWalk<M> = Blink<M, (Linear, SentinelWalk, Words)>;

/// FAST+FAIR with fingerprints in leaves alone (Sentinel Array §4).
pub type FastFairLeafF<M> = Blink<M, (Linear, FingerprintInLeaves, Words)>;

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

/// A tree that can be completed after a crash, and gives back then what has leaked.
pub trait Recovers: Index {
    /// Does that, as [`recover`](recovery::recover) says.
    ///
    /// # Errors
    /// As [`recover`](recovery::recover).
    fn recover(&self) -> Result<Recovery>;
}

impl<M: Medium, L: Layout, P: Probe> Recovers for Blink<M, (L, P, Words)> {
    fn recover(&self) -> Result<Recovery> {
        recovery::recover(self)
    }
}

/// A tree that was chosen by its name, and the pool that it is in.
pub struct Named<M: Medium> {
    /// The tree.
    pub index: Box<dyn Recovers>,
    /// Its pool, which holds nothing else.
    pub pool: Arc<Pool<M>>,
}

impl<M: Medium> Named<M> {
    /// The tree of these nodes in a pool that holds nothing else.
    ///
    /// # Errors
    /// The same as for [`Blink::open`]; Unsupported for a way of reading that the tree does not have.
    pub fn in_pool<L: Layout, P: Probe>(pool: Arc<Pool<M>>, reading: Reading) -> Result<Self> {
        let tree: Blink<M, (L, P, Words)> = Blink::open(Arc::clone(&pool), CATALOG_ANCHOR)?;
        Ok(Self { index: Box::new(tree.reading(reading)?), pool })
    }
}

/// An operation on the nodes that a name stands for.
pub trait OnNodes {
    /// Its result.
    type Made;

    /// Carries it out.
    ///
    /// # Errors
    /// Those of the operation.
    fn on<L: Layout, P: Probe>(self) -> Result<Self::Made>;
}

macro_rules! names {
    ($($name:literal => $layout:ty, $probe:ty;)*) => {
        /// The names of the trees of words, for tools and experiments.
        pub const NAMES: &[&str] = &[$($name),*];

        /// Does something with the nodes of the tree of that name.
        ///
        /// # Errors
        /// Unsupported for a name that is not among [`NAMES`]; errors of the operation.
        pub fn on_nodes<T: OnNodes>(name: &str, what: T) -> Result<T::Made> {
            match name {
                $($name => what.on::<$layout, $probe>(),)*
                _ => Err(unknown(name)),
            }
        }
    };
}

names! {
    "FastFair" => Linear, Scan;
    "FastFairBinary" => Linear, Binary;
    "FastFairF" => Linear, Fingerprint;
    "FastFairS" => Linear, Sentinel;
    "FastFairWalk" => Linear, SentinelWalk;
    "FastFairLeafF" => Linear, FingerprintInLeaves;
    "FastLogging" => Logged<Linear>, Scan;
    "CircTreeLs" => Circular, Scan;
    "CircTreeSegment" => Circular, Segment;
    "CircTreeBinary" => Circular, Binary;
    "CircTreeF" => Circular, Fingerprint;
    "CircTree" => Circular, Sentinel;
    "CircTreeWalk" => Circular, SentinelWalk;
    "CircTreeLeafF" => Circular, FingerprintInLeaves;
}

/// A medium on which a tree is to be made, or is.
struct OnMedium<M> {
    medium: M,
    reading: Reading,
    is_new: bool,
}

impl<M: Medium> OnNodes for OnMedium<M> {
    type Made = Named<M>;

    fn on<L: Layout, P: Probe>(self) -> Result<Named<M>> {
        let pool = match self.is_new {
            true => Blink::<M, (L, P, Words)>::format_pool(self.medium)?,
            false => Blink::<M, (L, P, Words)>::open_pool(self.medium)?,
        };
        Named::in_pool::<L, P>(Arc::new(pool), self.reading)
    }
}

/// Makes a tree of that name in a new pool on a medium that is all zero.
///
/// # Errors
/// Unsupported for a name that is not among [`NAMES`], or a way of reading that the tree does
/// not have; otherwise the same as for [`Blink::create`].
pub fn create<M: Medium>(name: &str, reading: Reading, medium: M) -> Result<Named<M>> {
    on_nodes(name, OnMedium { medium, reading, is_new: true })
}

/// Opens the tree of that name in the pool on a medium.
///
/// # Errors
/// The same as for [`create`] and [`Blink::open`].
pub fn open<M: Medium>(name: &str, reading: Reading, medium: M) -> Result<Named<M>> {
    on_nodes(name, OnMedium { medium, reading, is_new: false })
}

fn unknown(name: &str) -> Error {
    Error::Unsupported {
        what: format!("no tree is called {name:?}: there are {}", NAMES.join(", ")),
    }
}
