//! A crash checker for everything that runs on an Everleaf [`Medium`], and a conformance suite for
//! ordered indexes. For tests: Everleaf's own, and those of structures that others put on a medium.
//!
//! ```
//! use std::sync::Arc;
//! use everleaf_check::{Explorer, Shared, Trace};
//! use everleaf_pmem::{Geometry, Medium, Sim};
//!
//! /// Two words that are always equal: stored in one line, told apart by recovery.
//! fn set<M: Medium>(m: &M, value: u64) {
//!     let page = m.page(0).unwrap();
//!     m.store(page.body(0), value);
//!     m.store(page.body(1), value);
//!     m.flush(page, page.line_of(0));
//!     m.fence();
//! }
//! fn recover<M: Medium>(m: &M) -> u64 {
//!     let (a, b) = (m.page(0).unwrap().body(0).load(), m.page(0).unwrap().body(1).load());
//!     if a != b {
//!         set(m, b); // the second one counts
//!     }
//!     b
//! }
//!
//! let sim = Arc::new(Sim::new(Geometry::new(4).unwrap(), 1)?);
//! let trace = Trace::new(&sim);
//! for value in 1..=3 {
//!     trace.op(value, || set(&Shared::new(&sim), value));
//! }
//! let stats = Explorer::new().explore(
//!     &trace.finish(),
//!     |sim| Ok(recover(&**sim)),
//!     |value, _, crash| {
//!         let done = crash.responded().last().copied().unwrap_or(0);
//!         let begun = crash.invoked().last().copied().unwrap_or(0);
//!         if value == done || value == begun { Ok(()) } else { Err(format!("{value}?")) }
//!     },
//! )?;
//! assert!(stats.images > 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | module | what |
//! |---|---|
//! | [`trace`] | records a workload with its operations |
//! | [`images`](mod@images) | the legal crash images of a record |
//! | [`explore`] | recovers and checks each of them, and crashes inside recovery |
//! | [`mutant`] | drops or swaps one flush, fence or store: the checker must notice |
//! | [`oracle`] | what a map may hold after a crash |
//! | [`epochs`] | the same for maps that are durable by epochs, also with threads |
//! | [`history`] | whether threads' operations are linearizable, also across a crash |
//! | `schedule` | runs threads in an order that a seed decides; by the feature `schedule` |
//! | [`conformance`] | what any ordered index must do |
//!
//! [`Medium`]: everleaf_pmem::Medium
#![forbid(unsafe_code)]

pub mod conformance;
pub mod epochs;
pub mod explore;
pub mod failure;
pub mod history;
pub mod images;
pub mod index;
pub mod mutant;
pub mod oracle;
mod picks;
mod run;
#[cfg(feature = "schedule")]
pub mod schedule;
pub mod trace;

pub use epochs::{Act, Answer, Answers, EpochMap, Epochs, Written};
pub use explore::Explorer;
pub use failure::{Crash, Failure, Stats};
pub use history::{Call, History, Op, linearizable};
pub use images::{Choice, Mode, images, sample};
pub use index::Index;
pub use mutant::{Fault, Mutate, Report, Shared, mutants};
pub use oracle::{Script, Step};
pub use trace::{CrashPoint, Record, Trace};
