//! The reads and writes of threads, in transactions and by plain operations, held against any order in which these
//! could have run one after the other.
//!
//! After *Elle: Inferring Isolation Anomalies from Experimental Observations* (Kingsbury and Alvaro, VLDB 2020).
//! Values are lists to which transactions append, so the last list of a key names all its writers in their order,
//! and each list that was read says after which of them. Then there are edges between transactions
//!
//! ```text
//! ww   the one appended just before the other
//! wr   the other has read what the one appended
//! rw   the one has read what the other then appended to; also a list that is not there yet
//! rt   the one had ended before the other began
//! ```
//!
//! and a cycle is an anomaly. Without rw it is one of G0 or G1c (Adya), with one it is G-single (a lost update or a
//! read skew), with more it is G2 (a write skew or a phantom), or, if no two of them follow each other, a long fork:
//! two readers see two writes in opposite orders. A list that is no beginning of the last one is G1a (of
//! an aborted transaction), G1b (of the midst of one), or a lost update. An append that the last list does not have
//! is a lost update, too (P4).
//!
//! There are three kinds of keys, each with transactions of its own:
//!
//! - lists of some trees, and of short trees, which are never removed for good;
//! - one list in each of several trees, to which transactions append one by one and together, while readers read all;
//! - a queue: each key comes once and goes once, so that it is clear what a reader means that does not find it, after
//!   its end or before its beginning (`history.rs`). Plain operations pop keys, remove ranges and put new ones.

mod graph;
mod history;
mod runner;

use std::ops::Range;

pub use history::History;
pub use runner::{Runner, left, record};

use everleaf::Isolation;

/// From here on numbers are those of keys in short trees, each of which has the keys of one age.
const SHORT: u64 = 1 << 32;
/// From here on numbers are those of keys of which each is in a tree of its own.
const FORK: u64 = 1 << 40;
/// From here on numbers are those of keys of a queue, see [`queue_key`].
const QUEUE: u64 = 1 << 63;

/// The threads that run transactions, and the keys that these use.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    pub isolation: Isolation,
    pub threads: u64,
    /// Lists in use at a time.
    pub keys: u64,
    /// Of which kinds the keys of a transaction are: one of them.
    pub kinds: &'static [Kind],
}

/// Which keys a transaction reads and writes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    Lists,
    Forks,
    Queue,
}

impl Kind {
    pub const ALL: &[Kind] = &[Kind::Lists, Kind::Forks, Kind::Queue];
}

/// An append: its transaction, and the how manyth of it.
pub type Entry = (u32, u32);
pub type List = Vec<Entry>;

/// The number of a key of a queue: where it stands among the others of its age, and the append that makes it, for no
/// key comes twice.
pub fn queue_key(age: u64, place: u64, (id, step): Entry) -> u64 {
    QUEUE | age << 48 | place << 40 | u64::from(id) << 8 | u64::from(step)
}

/// All keys of the queue of an age that stand between two places.
pub fn queue_range(age: u64, places: Range<u64>) -> Range<u64> {
    let start = |place| (QUEUE | age << 48) + (place << 40);
    start(places.start)..start(places.end)
}

/// A transaction or a plain operation: what it has read and done, and when.
#[derive(Debug, Clone)]
pub struct Done {
    pub begun: u64,
    pub ended: u64,
    pub is_committed: bool,
    pub seen: Seen,
}

/// The reads and writes of one transaction, by the numbers of keys.
#[derive(Debug, Default, Clone)]
pub struct Seen {
    /// Lists; an empty one was not there.
    reads: Vec<(u64, List)>,
    /// Lists that it left, the last entry being its own.
    appends: Vec<(u64, List)>,
    /// Ranges of a queue that it has read, and the keys that it has found there.
    ranges: Vec<(Range<u64>, Vec<u64>)>,
    /// Keys of a queue that it has removed.
    takes: Vec<(u64, List)>,
    /// A range of a queue that it has removed, not at one moment, and of how many keys.
    sweep: Option<(Range<u64>, u64)>,
}

impl Seen {
    pub fn read(&mut self, n: u64, list: List) {
        self.reads.push((n, list));
    }

    /// Appends to what was read.
    pub fn append(&mut self, n: u64, mut list: List, entry: Entry) -> List {
        list.push(entry);
        self.appends.push((n, list.clone()));
        list
    }

    pub fn range(&mut self, range: Range<u64>, found: &[(u64, List)]) {
        self.reads.extend_from_slice(found);
        self.ranges.push((range, found.iter().map(|(n, _)| *n).collect()));
    }

    pub fn take(&mut self, n: u64, list: List) {
        self.takes.push((n, list));
    }

    /// A plain removal of a range.
    pub fn sweep(&mut self, range: Range<u64>, removed: u64) {
        self.sweep = Some((range, removed));
    }
}
