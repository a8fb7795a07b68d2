#![doc = include_str!("../README.md")]
//! # Modules
//!
//! | module | what |
//! |---|---|
//! | [`durable`](mod@durable) | the front door: is a structure of one thread durable? |
//! | [`trace`] | records a workload with its operations |
//! | [`images`](mod@images) | the legal crash images of a record |
//! | [`explore`] | recovers and checks each of them, and crashes inside recovery |
//! | [`mutant`] | drops or swaps one flush, fence or store: the checker must notice |
//! | [`oracle`] | what a map may hold after a crash |
//! | [`epochs`] | the same for maps that are durable by epochs, also with threads |
//! | [`history`] | whether threads' operations are linearizable, also across a crash |
//! | `schedule` | runs threads in an order that a seed decides; by the feature `schedule` |
//! | [`conformance`] | what any ordered index must do |
#![forbid(unsafe_code)]

pub mod conformance;
pub mod durable;
pub mod epochs;
mod exploration;
pub mod explore;
pub mod failure;
pub mod history;
pub mod images;
pub mod index;
pub mod mutant;
pub mod oracle;
mod picks;
#[cfg(feature = "schedule")]
pub mod schedule;
mod settings;
pub mod trace;

pub use durable::{Durable, Mutant, Mutants, OfOp, Tested, durable};
pub use epochs::{Act, Answer, Answers, EpochMap, EpochScript, Written};

pub use failure::{Choice, Coverage, Crash, Failure};
pub use history::{History, MapOp, OpInterval, linearizable};
pub use images::{Persistency, images, sample};
pub use index::Index;
pub use mutant::{Mutate, Mutation, Report, SharedMedium, mutants};
pub use oracle::{MapWrite, Script};
pub use settings::Explorer;
pub use trace::{CrashPoint, Recording, Trace};
