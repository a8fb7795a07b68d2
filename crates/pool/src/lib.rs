//! The pool: which pages are in use, records of byte strings in pages, extents, and roots.
//!
//! The pool keeps everything in pages of a [`Medium`](everleaf_pmem::Medium) and changes it in
//! *steps*. A [`Step`] first plans: it reserves pages and record slots, and it latches the pages that
//! it will change. If one of them is [busy](Stop::Busy), nothing has happened and the caller tries
//! again. After [`Step::enter`] the step changes the pages and can no longer fail.
//!
//! ```text
//! plan      new_page · free_page · record · large_record · release    (may stop; a drop undoes it)
//! enter     let mut op = step.enter()?;
//! publish   write_record … and publish_alloc
//!           [the caller links]
//!           publish_free
//! end       drop(op); drop(step);                                      (the latches go last)
//! ```
//!
//! On media with a journal the step is atomic, and the order inside it does not matter. On strict
//! media each line of *publish* is durable before the next one begins. A crash between two lines
//! therefore leaves pages or records that are in use but that nothing links to. [`Pool::leaks`] finds
//! them and [`Pool::reclaim`] gives them back. A link never dangles.
//!
//! The pool guarantees that a page has one owner, that a page number is given to one step at a time,
//! and that a record's slot is not given out while the step that frees it can still be lost. It does
//! not know what a node contains, nor whether a tree still refers to a record; [`Pool::records`]
//! serves that check.

#![forbid(unsafe_code)]

pub mod anchor;
mod arena;
pub mod change;
mod check;
mod class;
mod extent;
mod glance;
mod hooks;
mod incoming;
mod inline_vec;
pub mod kind;
mod layout;
mod look;
mod map;
mod order;
mod pair;
mod pins;
mod pool;
mod promise;
mod publish;
mod reclaim;
mod record;
mod redo;
pub mod salvage;
mod search;
mod space;
mod step;
mod value;

pub use change::{TAG_MIN, damaged};
pub use check::RecordIter;
pub use class::max_record;
pub use extent::Large;
pub use glance::Glance;
pub use hooks::{ExtentIo, Hooks, KeptExtents};
pub use incoming::LargeWriter;
pub use look::{PageDamage, PoolLook};
pub use map::{PageRun, note_free};
pub use pair::{Lens, MAX_KEY_BYTES, MAX_VALUE_BYTES, pair_header};
pub use pool::{CATALOG_ANCHOR, PageCounts, Pool, Stop, frame_stays, retry, stay};
pub use promise::{PairWants, Promise};
pub use reclaim::Leaks;
pub use record::{RecordRef, RecordView};
pub use redo::{gap, kind_word, redo, zeros_at_end};
pub use space::Wants;
pub use step::Step;
pub use value::{LargeValue, StoredValue, copy_part};

/// Keeps the code of the README true.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
