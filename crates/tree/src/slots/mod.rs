//! Nodes of equal slots: the nodes of the papers' trees, and of the Db on persistent memory.
//!
//! They are three choices that combine freely: how slots are laid out ([`Layout`]), which slots a search
//! looks at ([`Probe`]), and what keys are ([`Keys`]). Any tuple of the three is a [kind](crate::Kind) of tree.
//!
//! ```text
//! header line   w0 run: base | count << 16
//!               w1 sibling: page to the right, 0 = none, which also means that high is +infinity
//!               w2 high: u64 key, or head of the high key       w3 low: u64 key, or low key's record
//!               w4 bytes only: record of the high key           w5 kind | level << 8 | flags << 16 | prefix << 32
//!               w6 sequence number, w7 checksum: the medium's
//! slot p        body word 2p: identity, word 2p + 1: payload
//! ```
//!
//! **Identity and payload** (docs/PAPERS.md, *Identity and payload*): the identity word is unique
//! in the node and has a void state, the payload word may be anything. In a u64 leaf the identity
//! is the key and the payload the value; void is a key outside `[low, high)`, so no key is
//! reserved. In inner nodes the identity is the child and the payload the separator; in byte-string
//! nodes the identity is a record and the payload a head of the key; void is 0.
//!
//! Invariants kept here: the run's slots are sorted by key and have distinct identities; every slot
//! outside the run is void (media without a journal); `low` never changes while the node lives;
//! `high` is the sibling's `low`. Not kept here: that a parent has an entry for the node.
//!
//! Keys are [`Words`] (u64 → u64, the papers' interface) or
//! [`Strings`] (byte strings in records, the Db on persistent memory).
//!
//! The spine, the layouts and the probes serve both kinds of keys. The differences between the two stand
//! here, in traits that are small enough to read one at a time:
//!
//! | trait | question that it answers |
//! |---|---|
//! | [`KeyOrder`] | where does a key rank in a node, and what do a node's slots say? |
//! | [`KeyBounds`] | between which keys does a node lie, and what do two nodes merge into? |
//! | [`KeySplits`] | which bounds does a split put between two nodes? |
//! | [`Values`] | what value does a leaf's slot lead to? |
//! | [`ValueWrites`] | what does a step reserve and write for a pair, beside the node? |
//! | [`Inspect`] | do a node's words and records fit its keys? For checks |
//! | [`Keys`] | all of these |

mod answers;
pub mod circular;
#[macro_use]
mod delegate;
pub mod fingerprint;
pub mod give;
mod keys;
mod layout;
pub mod linear;
pub mod notes;
pub mod probe;
pub mod racing;
pub mod sentinel;
mod streak;
mod strings;
pub mod walk;
mod words;
mod writer;

pub use circular::Circular;
pub use fingerprint::Fingerprint;
pub use keys::{
    Inspect, KeyBounds, KeyOrder, KeySplits, OwnedOf, SplitBounds, ValueWrites, Values,
};
pub use layout::Layout;
pub use linear::{Linear, Logged};
pub use probe::{Binary, Probe, Scan, Segment};
pub use sentinel::Sentinel;
pub use strings::Strings;
pub use walk::{FingerprintInLeaves, InLeaves, SentinelWalk, Walk};
pub use words::Words;
pub use writer::{Limits, Slot, SlotsImage};

/// A kind of keys and of the values that go with them.
pub trait Keys: KeySplits + ValueWrites + Inspect {}

impl<K: KeySplits + ValueWrites + Inspect> Keys for K {}
