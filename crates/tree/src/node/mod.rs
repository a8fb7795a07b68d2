//! Nodes: one page each, of two families.
//!
//! [`slotted`] nodes keep pairs of any length inside. *Nodes of slots*, which the rest of this page is
//! about, are three choices that combine freely: how slots are laid out ([`Layout`]), which slots a
//! search looks at ([`Probe`]), and what keys are ([`Keys`](crate::keys::Keys)).
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

pub mod binary;
pub mod change;
pub mod circular;
#[macro_use]
mod delegate;
pub mod epoch_bitmap;
pub mod fingerprint;
mod header;
mod layout;
pub mod linear;
pub mod logged;
mod probe;
pub mod racing;
pub mod scan;
pub mod segment;
pub mod sentinel;
mod slot;
pub mod slotted;
mod writer;

pub use binary::Binary;
pub use circular::Circular;
pub use fingerprint::Fingerprint;
pub use header::{
    FLAG_BYTES, FLAG_SLOTTED, HIGH_RECORD_WORD, HIGH_WORD, LOW_WORD, MAX_LEVEL, RUN_WORD,
    RightBounds, Run, SIBLING_WORD, Shape, sibling,
};
pub use layout::Layout;
pub use linear::Linear;
pub use logged::Logged;
pub use probe::Probe;
pub use scan::Scan;
pub use segment::Segment;
pub use sentinel::Sentinel;
pub use slot::{Image, Slot};
pub use writer::Limits;
