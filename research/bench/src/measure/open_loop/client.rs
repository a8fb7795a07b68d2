//! The work of a thread when an operation arrives: the next one of its stream, on a tree or on a store.

use std::hint::black_box;

use anyhow::{Result, ensure};
use everleaf_tree::Index;
use serde::Deserialize;

use super::super::store::data::{Data, Pair, batches};
use crate::keys::seeded;
use crate::store::KvStore;
use crate::workload::{OpKind, Operation, Skew, Workload};

/// The most operations of `mixed` that are drawn. A thread that needs more begins again.
const DRAWN: u64 = 1 << 20;

/// How many operations of a hundred are gets.
const READS: u32 = 50;

/// Which items gets and updates pick.
const PICKS: Skew = Skew::Zipf(0.99);

/// The kind of work that operations do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// They insert new keys.
    Insert,
    /// They get and update keys that are there.
    Mixed,
}

impl Work {
    /// Gets and updates of all threads, made before any clock starts: `ops`, or as many as are drawn at most; none
    /// of `insert`.
    pub fn picks(self, items: u64, ops: u64, seed: u64) -> Result<Vec<Operation>> {
        let workload = Workload { items, picks: PICKS, reads: READS, puts_only: true, seed };
        workload.stream(if self == Self::Mixed { ops.min(DRAWN) } else { 0 })
    }
}

/// An operation and the item that it is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Of an item that is not there.
    Insert(u64),
    /// Of an item that is there.
    Get(u64),
    /// Of an item that is there.
    Update(u64),
}

/// The operations of one thread, without an end.
#[derive(Debug)]
pub enum Stream {
    /// Items that no other thread inserts: each `step`-th.
    Inserts {
        /// The next one.
        next: u64,
        /// How far the one after it is.
        step: u64,
    },
    /// Gets and updates, again and again.
    Picks {
        /// They.
        picks: Vec<Operation>,
        /// How many were done of this turn.
        done: usize,
    },
}

impl Stream {
    /// Inserts of `first`, `first + step` and so on.
    pub fn of_inserts(first: u64, step: u64) -> Self {
        Self::Inserts { next: first, step }
    }

    /// These gets and updates, of which there is one at least.
    pub fn of_picks(picks: Vec<Operation>) -> Self {
        Self::Picks { picks, done: 0 }
    }

    /// The next one.
    pub fn step(&mut self) -> Step {
        match self {
            Self::Inserts { next, step } => {
                let item = *next;
                *next += *step;
                Step::Insert(item)
            }
            Self::Picks { picks, done } => {
                let pick = picks[*done];
                *done = if *done + 1 == picks.len() { 0 } else { *done + 1 };
                let item = pick.item().into();
                if pick.kind == OpKind::Get { Step::Get(item) } else { Step::Update(item) }
            }
        }
    }
}

/// A client does the operations of one thread.
pub trait Client: Send {
    /// Does the next one.
    ///
    /// # Errors
    /// It failed, or did not find what is there.
    fn serve(&mut self) -> Result<()>;
}

/// A thread's client of a tree.
pub struct TreeClient<'a> {
    /// The tree.
    pub index: &'a dyn Index,
    /// Its operations.
    pub stream: Stream,
    /// The seed that keys are made of, beside the items.
    pub seed: u64,
}

impl Client for TreeClient<'_> {
    fn serve(&mut self) -> Result<()> {
        let of = |item| seeded(self.seed, item);
        match self.stream.step() {
            Step::Insert(item) => {
                let key = of(item);
                ensure!(black_box(self.index.insert(key, !key)?).is_none(), "a new key is there");
            }
            Step::Get(item) => {
                ensure!(black_box(self.index.get(of(item))?).is_some(), "a key is not there");
            }
            Step::Update(item) => {
                let key = of(item);
                ensure!(black_box(self.index.update(key, key)?).is_some(), "a key is not there");
            }
        }
        Ok(())
    }
}

/// A thread's client of a store.
pub struct StoreClient<'a> {
    store: &'a dyn KvStore,
    data: &'a Data,
    stream: Stream,
    seed: u64,
    /// Updates until now: what tells values apart.
    updates: u64,
    pair: Pair,
}

impl<'a> StoreClient<'a> {
    /// One that does these operations.
    pub fn new(store: &'a dyn KvStore, data: &'a Data, stream: Stream, seed: u64) -> Self {
        Self { store, data, stream, seed, updates: 0, pair: Pair::default() }
    }

    fn put(&mut self, item: u64, version: u64) -> Result<()> {
        let (id, (key, value)) = (seeded(self.seed, item), &mut self.pair);
        self.data.key(id, key);
        self.data.value(id, version, value);
        self.store.put(key, value)
    }
}

impl Client for StoreClient<'_> {
    fn serve(&mut self) -> Result<()> {
        match self.stream.step() {
            Step::Insert(item) => self.put(item, 0),
            Step::Update(item) => {
                self.updates += 1;
                self.put(item, self.updates)
            }
            Step::Get(item) => {
                let key = &mut self.pair.0;
                self.data.key(seeded(self.seed, item), key);
                let is_there = self.store.get(key, &mut |value| {
                    black_box(value);
                })?;
                ensure!(is_there, "a key is not there");
                Ok(())
            }
        }
    }
}

/// Fills a store with so many items, in batches.
///
/// # Errors
/// It fails.
pub fn fill_store(store: &dyn KvStore, data: &Data, items: u64, seed: u64) -> Result<()> {
    let mut pairs = Vec::new();
    for batch in batches(items) {
        pairs.clear();
        for item in batch {
            let (id, mut pair) = (seeded(seed, item), Pair::default());
            data.key(id, &mut pair.0);
            data.value(id, 0, &mut pair.1);
            pairs.push(pair);
        }
        store.put_all(&pairs)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::deal;

    #[test]
    fn threads_insert_items_of_their_own_and_picks_begin_again() {
        let mut first = Stream::of_inserts(100, 2);
        let mut second = Stream::of_inserts(101, 2);
        let items: Vec<Step> = (0..3).flat_map(|_| [first.step(), second.step()]).collect();
        assert_eq!(items, (100..106).map(Step::Insert).collect::<Vec<_>>());

        let picks = Work::Mixed.picks(50, 10, 1).expect("valid");
        let mut dealt = deal(&picks, 2).into_iter().map(Stream::of_picks);
        let mut stream = dealt.next().expect("a thread");
        let steps: Vec<Step> = (0..10).map(|_| stream.step()).collect();
        assert_eq!(steps[..5], steps[5..], "five of ten operations, twice");
        assert!(Work::Insert.picks(50, 10, 1).expect("none").is_empty());
    }

    #[test]
    fn half_of_the_picks_are_gets_of_items_that_are_there() {
        let picks = Work::Mixed.picks(50, 10_000, 1).expect("valid");
        let gets = picks.iter().filter(|pick| pick.kind == OpKind::Get).count();
        assert!(gets.abs_diff(5000) < 300, "{gets}");
        assert!(picks.iter().all(|pick| pick.item() < 50 && pick.kind != OpKind::Remove));
    }
}
