//! Media for ordered data that must survive a crash.
//!
//! This is the only Everleaf crate with `unsafe`: memory mappings, vector loads and checked page
//! handles live here. Above it, trees ask a [`Medium`] to store, flush and fence, and never write
//! memory themselves. Pools on files are media too: the crate `everleaf-file` makes them from what is
//! here.
//!
//! | medium | flush, fence | note | durable |
//! |---|---|---|---|
//! | [`Dram`] | nothing | nothing | never |
//! | [`Sim`] | recorded | nothing | every legal crash image of the record |
//! | [`Mapped`] | those of the processor | nothing | what is flushed and fenced |
//! | [`Buffered`] | as inside, or at the end of the epoch | nothing | epochs, `sync` on demand |
//! | [`Latency`], [`Counted`] | slower, counted | passed on | as inside |
//!
//! Those who write media of their own find what these are made of in [`region`] (memory), [`door`]
//! (stores), [`epoch`] (a clock of epochs), [`life`] (ends of handles), [`locks`] and [`sync`] (locks and their order).

pub mod aside;
pub mod buffered;
mod bytes;
pub mod dram;
pub mod epoch;
pub mod error;
pub mod fallible;
pub mod flush;
pub mod latch;
pub mod life;
pub mod lines_read;
pub mod locks;
pub mod mapped;
pub mod medium;
mod order;
pub mod page;
pub mod page_span;
pub mod region;
pub mod retries;
pub mod rules;
pub mod shared;
pub mod sim;
mod simd;
pub mod sync;
mod target;
pub mod wrap;
pub use aside::Aside;
pub use buffered::{Buffered, BufferedOp, BufferedOptions, BufferedStats};
pub use dram::Dram;
pub use epoch::EpochPin;
pub use error::{Error, Result};
pub use flush::Flush;
pub use latch::{Backoff, Latch, LatchGuard, Seen, Version};
pub use life::Life;
pub use mapped::Mapped;
pub use medium::{COUNTED_TREES, Change, FEW_CHANGES, Medium, NOTED_PAGES, Redo, door};
pub use page::{Geometry, HEAD_WORDS, LINE_BYTES, Page, PageNo, SEQ_WORD, SUM_WORD, Stay, Word};
pub use retries::Retries;
pub use shared::{PAIRS_AHEAD, SharedPair, SharedPart, SharedRoom};
pub use sim::Sim;
pub use simd::Vectors;
pub use sync::{schedule, thread_number};
pub use wrap::{Counted, Counts, Latency};

/// Keeps the code of the README true.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
