//! Hostile pools: functions that make a pool, or operations on one, of arbitrary bytes, and panic if
//! the store does what it must not.
//!
//! | target | the bytes are |
//! |---|---|
//! | [`open_raw`] | pieces of the pool's file |
//! | [`open_structured`] | a script that makes a sound pool, then changes of it; all checksums are right again after |
//! | [`hostile`](mod@hostile) | changes of structures of a sound pool; all checksums are right again after, and it is used for writing |
//! | [`journal`] | a script, then journal blocks with the right checksums |
//! | [`operations`] | operations on a pool, held against `BTreeMap` |
//! | [`node`] | changes of one slotted node: as a tree makes them, as a journal may say them, and of any byte |
//! | [`crash`] | operations, a power cut at one call, maybe another inside recovery |
//!
//! Everything is in memory ([`SimIo`](everleaf_file::io::SimIo)) and has one thread, so that an input
//! always does the same. [`format`](mod@format) is a second reading of docs/FORMAT.md, written from
//! that text alone: where it and the store differ, one of the three is wrong.

#![forbid(unsafe_code)]

pub mod crash;
pub mod exercise;
pub mod format;
pub mod hostile;
pub mod input;
pub mod journal;
pub mod mutate;
pub mod node;
pub mod open_raw;
pub mod open_structured;
pub mod operations;
pub mod parts;
pub mod script;
pub mod wear;

/// A fuzz target: its name, and the function that panics on a violation.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [Target; 7] = [
    ("open_raw", open_raw::run),
    ("open_structured", open_structured::run),
    ("hostile", hostile::run),
    ("journal", journal::run),
    ("operations", operations::run),
    ("crash", crash::run),
    ("node", node::run),
];
