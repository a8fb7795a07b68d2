//! What the spine asks of a node, and which parts a tree is made of.
//!
//! The spine (descent, latches, readers, splits, merges, scans, checks) is written once. It knows
//! nodes only by the questions of these traits, and asks by position: 0 is the smallest key.
//!
//! | trait | question that a node answers |
//! |---|---|
//! | [`NodeKeys`] | which keys are here, in which order, and which child is it? |
//! | [`NodeBounds`] | between which keys does the node lie? |
//! | [`NodeValues`] | which value does an entry of a leaf lead to? |
//! | [`NodeCopies`] | how is a pair of byte strings, or a whole leaf, copied into memory that is used again? |
//! | [`NodeWrites`] | is there room for a pair, and how does it get in or out? |
//! | [`NodeStreams`] | how does a pair get in whose value was written before? |
//! | [`NodeSplits`] | how is a node built and cut in two? |
//! | [`NodeMerges`] | do two neighbours fit into one, and how do they become one? |
//! | [`NodeEvens`] | may a full node give entries to a neighbour instead of a split? |
//! | [`NodeFills`] | do pairs in ascending order fill a leaf at once? |
//! | [`NodeChecks`] | what did a crash or damage leave of a node? |
//!
//! Two families of nodes answer. Nodes of equal *slots* are any tuple of a [layout](crate::slots::Layout),
//! a [probe](crate::slots::Probe) and [keys](crate::slots::Keys) (`slots`); the
//! papers' trees are made of them. [`Slotted`](crate::slotted::Slotted) nodes keep whole pairs of any
//! length; the Db on a file is made of them.
//!
//! ```
//! use everleaf_pmem::Dram;
//! use everleaf_tree::blink::Blink;
//! use everleaf_tree::slots::{Circular, Sentinel, Words};
//!
//! type CircTree = Blink<Dram, (Circular, Sentinel, Words)>;
//! # let _: Option<CircTree> = None;
//! ```

mod change;
mod check;
mod header;
mod read;
mod restructure;

pub use change::{NodeFills, NodeStreams, NodeWrites, PutPoint};
pub use check::{EntryView, NodeChecks};
pub use header::{
    FLAG_BYTES, FLAG_SLOTTED, HIGH_RECORD_WORD, HIGH_WORD, LOW_WORD, MAX_LEVEL, RUN_WORD, Rank,
    RightBounds, Run, SIBLING_WORD, Shape, sibling,
};
pub use read::{NodeAt, NodeBounds, NodeCopies, NodeKeys, NodeValues};
pub use restructure::{Asking, NodeEvens, NodeMerges, NodeRoom, NodeSplits, Siblings, UnderLog};

/// A kind of tree, apart from its medium: all that the spine asks of its nodes.
pub trait Kind: NodeFills + NodeChecks {}

impl<K: NodeFills + NodeChecks> Kind for K {}

/// A key of a kind of tree, to look for.
pub type KeyOf<K> = <K as NodeKeys>::Key;
/// A key of a kind of tree that owns its bytes.
pub type OwnedKeyOf<K> = <K as NodeKeys>::Owned;
/// A value of a kind of tree, to be stored.
pub type InputOf<K> = <K as NodeWrites>::Input;
/// A value of a kind of tree that was found.
pub type ValueOf<K> = <K as NodeValues>::Value;
