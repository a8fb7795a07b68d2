//! What keys are in nodes of slots: [`Words`] (u64 → u64, the papers' interface) or
//! [`Strings`] (byte strings in records, the Db on persistent memory).
//!
//! The spine, the layouts and the probes serve both kinds of keys. What differs between the two stands
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

mod bounds;
mod inspect;
mod order;
mod strings;
mod values;
mod words;

pub use bounds::{KeyBounds, KeySplits, SplitBounds};
pub use inspect::Inspect;
pub use order::{KeyOrder, Rank};
pub use strings::Strings;
pub use values::{ValueWrites, Values};
pub use words::Words;

/// A kind of keys and of the values that go with them.
pub trait Keys: KeySplits + ValueWrites + Inspect {}

impl<K: KeySplits + ValueWrites + Inspect> Keys for K {}
