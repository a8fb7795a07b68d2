//! The parameters, and threads that do what they say.

use std::sync::Barrier;
use std::time::Instant;

use anyhow::Result;
use everleaf::Tree;
use serde::Deserialize;

use crate::clock::Times;
use crate::measure::kind::one;

/// The wealth of every account at the beginning.
pub const WEALTH: i64 = 1_000_000;

/// The work that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Task {
    /// Transfers between accounts, while somebody adds all of them up.
    Ledger,
    /// The first pair is taken, again and again.
    Queue,
    /// Reads of a tree and of a snapshot of it.
    Snapshot,
    /// As many reads as updates, some in each transaction.
    Mixed,
    /// Walks of a tree's cursor and of a snapshot's, by what has changed.
    Cursors,
    /// Walks of a new transaction's iterator, also beside an older snapshot.
    Iterators,
    /// Snapshots, lengths and transactions that only read, beside writers.
    Waits,
}

impl Task {
    /// Whether it is done by transactions alone, so that other stores can do it, too.
    pub fn is_by_transactions(self) -> bool {
        matches!(self, Self::Ledger | Self::Mixed)
    }
}

/// The parameters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Apart {
    /// The store.
    pub system: String,
    /// The work that is measured.
    pub task: Task,
    /// Pairs at the beginning.
    pub keys: u64,
    /// Operations of each thread: transfers, claims, reads, transactions. Walks; or how often each of those that wait
    /// is done, while threads write.
    pub ops: u64,
    /// Threads that do it at once.
    #[serde(default = "one")]
    pub threads: u64,
    /// Reads and updates of a transaction.
    #[serde(default = "one")]
    pub per_transaction: u64,
    /// Length of the values of cursors, iterators and waits.
    #[serde(default = "sixteen")]
    pub value_bytes: usize,
}

fn sixteen() -> usize {
    16
}

/// The key of a number.
pub fn key(n: u64) -> [u8; 8] {
    n.to_be_bytes()
}

impl Apart {
    /// Operations of all threads.
    pub fn all_ops(&self) -> u64 {
        self.ops * self.threads
    }

    /// Gives so many keys, which lie all over the tree, a value of the same length.
    pub fn change(&self, tree: &Tree, keys: u64) -> Result<()> {
        let value = vec![1; self.value_bytes];
        for n in 0..keys {
            tree.put(key(n * self.keys / keys), &value)?;
        }
        Ok(())
    }

    /// Runs something on all threads, each with what `begin` has made for it; says what each operation took,
    /// and how many thousand there were a second.
    pub fn on_threads<S>(
        &self,
        begin: impl Fn() -> Result<S> + Sync,
        op: impl Fn(&mut S, u64) -> Result<()> + Sync,
    ) -> Result<(Times, f64)> {
        let barrier = Barrier::new(self.threads as usize + 1);
        let (times, took) = std::thread::scope(|scope| {
            let run = |thread| {
                let (begin, op, barrier) = (&begin, &op, &barrier);
                scope.spawn(move || {
                    let session = begin();
                    // Others wait for it, also if it failed.
                    barrier.wait();
                    let mut session = session?;
                    let mut times = Times::default();
                    let items = (0..self.ops).map(|i| i * self.threads + thread);
                    times.of(items, |i| op(&mut session, i)).map(|()| times)
                })
            };
            let threads: Vec<_> = (0..self.threads).map(run).collect();
            barrier.wait();
            let begun = Instant::now();
            let times = threads.into_iter().try_fold(Times::default(), |mut all, thread| {
                all.merge(&thread.join().expect("no panic")?);
                Ok::<_, anyhow::Error>(all)
            })?;
            Ok::<_, anyhow::Error>((times, begun.elapsed()))
        })?;
        Ok((times, self.all_ops() as f64 / took.as_secs_f64() / 1e3))
    }
}
