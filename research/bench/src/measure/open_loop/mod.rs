//! The latency that a user sees when operations arrive at a rate, and not when the last one has ended.
//!
//! A closed loop asks for the next operation when the last one is done. If one takes 5 ms, the operations that
//! would have come meanwhile are never asked for, and the pause counts once. Here operations arrive at random
//! moments that are fixed before: those that find their thread busy wait, and the wait is in their latency, which
//! is from the moment of the arrival to the end of the operation.
//!
//! How much a system can do is measured first, in the same cell, by a closed loop of the same operations. Arrivals
//! then come at a share of that: `load` percent. Each thread has a queue of its own and an equal part
//! of the rate. A cell with a medium is one of a tree, all others are of stores.
//!
//! | work | operations |
//! |---|---|
//! | `insert` | new keys, in random order, into what grows by them |
//! | `mixed` | gets and updates of keys that are there, half of each, Zipfian with α = 0.99 |

mod arrivals;
mod client;
mod drive;

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

use self::client::{Client, StoreClient, Stream, TreeClient, Work, fill_store};
use super::kind::{Context, Figures, Measure};
use super::store::data::{Data, KeyForm};
use crate::keys::seeded;
use crate::medium::MediumName;
use crate::store::{self, How, SyncMode};
use crate::system::{Readers, SystemSpec, fill};
use crate::workload::deal;

/// The longest that operations arrive, in seconds.
const LONGEST: f64 = 3600.0;

/// The most threads: a thread spins while nothing arrives, so more than there are cores make no sense.
const MOST_THREADS: u64 = 1024;

/// The most keys that operations can pick from.
const MOST_KEYS: u64 = 1 << 31;

/// Bytes of a key of a store.
const KEY_BYTES: usize = 16;

/// The parameters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenLoop {
    system: String,
    work: Work,
    /// The rate of arrivals in percent of the capacity.
    load: u32,
    /// Keys that are there before.
    keys: u64,
    /// The most operations of the closed loop, and the most arrivals, of all threads together: both end when there
    /// were so many. A tree has room for as many inserts.
    ops: u64,
    /// How long operations arrive.
    seconds: f64,
    /// How long the closed loop lasts.
    closed_seconds: f64,
    #[serde(default = "super::kind::one")]
    threads: u64,
    /// Of a tree.
    medium: Option<MediumName>,
    /// Of a tree.
    slots: Option<u32>,
    /// Of a tree that is durable by epochs.
    epoch_ms: Option<u64>,
    /// Of a store.
    value_bytes: Option<usize>,
}

impl OpenLoop {
    fn tree<'a>(&'a self, context: &'a Context, medium: MediumName) -> Result<SystemSpec<'a>> {
        ensure!(self.value_bytes.is_none(), "value_bytes: the values of a tree are words");
        // Leaves that updates append to (NV-tree's) come to hold few pairs that are alive.
        let new = if self.work == Work::Insert { 2 * self.ops } else { 3 * self.keys };
        Ok(SystemSpec {
            name: &self.system,
            medium,
            slots: self.slots.context("slots: a tree has nodes")?,
            keys: self.keys + new,
            readers: Readers::default(),
            epoch: self.epoch_ms.map(Duration::from_millis),
            epoch_ops: None,
            scratch: &context.scratch,
            dax: context.dax.as_deref(),
        })
    }

    /// The values of a store.
    fn data(&self) -> Result<Data> {
        let of_trees = self.slots.is_some() || self.epoch_ms.is_some();
        ensure!(!of_trees, "slots, epoch_ms: those are of a tree, and a tree has a medium");
        let bytes = self.value_bytes.context("value_bytes: a store has values")?;
        ensure!(bytes >= 8, "value_bytes is {bytes}: 8 or more");
        Ok(Data::new(KeyForm::Plain, (KEY_BYTES, bytes), false))
    }

    /// The operations of each thread.
    fn streams(&self, seed: u64) -> Result<Vec<Stream>> {
        let mixed = deal(&self.work.picks(self.keys, self.ops, seed)?, self.threads as usize);
        let stream = |(thread, mixed)| match self.work {
            Work::Insert => Stream::of_inserts(self.keys + thread, self.threads),
            Work::Mixed => Stream::of_picks(mixed),
        };
        Ok((0..).zip(mixed).map(stream).collect())
    }

    /// The closed loop, then the arrivals.
    fn measure<C: Client>(&self, seed: u64, mut clients: Vec<C>) -> Result<Figures> {
        let each = self.ops / self.threads;
        let closed = Duration::from_secs_f64(self.closed_seconds);
        let capacity = drive::closed(&mut clients, closed, each)?;
        let rate = capacity * f64::from(self.load) / 100.0;
        let thread_rate = rate / self.threads as f64;
        let arrivals: Vec<Vec<u64>> = (0..self.threads)
            .map(|t| arrivals::poisson(seeded(seed, t), thread_rate, self.seconds, each))
            .collect();
        let answers = drive::open(&mut clients, &arrivals)?;
        let mut figures =
            vec![("capacity_kops".into(), capacity / 1e3), ("offered_kops".into(), rate / 1e3)];
        figures.extend(answers.figures()?);
        Ok(figures)
    }

    fn run_tree(&self, context: &Context, medium: MediumName) -> Result<Figures> {
        let subject = self.tree(context, medium)?.make()?;
        let seed = context.seed;
        fill(subject.index(), (0..self.keys).map(|item| seeded(seed, item)))?;
        subject.sync()?;
        let client = |stream| TreeClient { index: subject.index(), stream, seed };
        self.measure(seed, self.streams(seed)?.into_iter().map(client).collect())
    }

    fn run_store(&self, context: &Context) -> Result<Figures> {
        let data = self.data()?;
        let dir = tempfile::tempdir_in(&context.scratch)?;
        let how = How { dir: dir.path().into(), ..How::default() };
        let store = store::open(&self.system, &how)?;
        let seed = context.seed;
        fill_store(&*store, &data, self.keys, seed)?;
        store.settle()?;
        let before = store.checkpoint_pages();
        let client = |stream| StoreClient::new(&*store, &data, stream, seed);
        let mut figures =
            self.measure(seed, self.streams(seed)?.into_iter().map(client).collect())?;
        if let Some((after, before)) = store.checkpoint_pages().zip(before) {
            figures.push(("checkpoint_pages_count".into(), (after - before) as f64));
        }
        Ok(figures)
    }
}

impl Measure for OpenLoop {
    fn check(&self) -> Result<()> {
        let lasts = |seconds: f64| seconds > 0.0 && seconds <= LONGEST;
        ensure!((1..=100).contains(&self.load), "load is {} %: 1 to 100", self.load);
        ensure!((1..=MOST_KEYS).contains(&self.keys), "keys is {}: 1 to {MOST_KEYS}", self.keys);
        ensure!(
            (1..=MOST_THREADS).contains(&self.threads),
            "threads is {}: 1 to {MOST_THREADS}",
            self.threads
        );
        ensure!(self.ops >= self.threads, "ops is {}: less than threads", self.ops);
        ensure!(lasts(self.seconds), "seconds is {}: up to {LONGEST}", self.seconds);
        ensure!(
            lasts(self.closed_seconds),
            "closed_seconds is {}: up to {LONGEST}",
            self.closed_seconds
        );
        let Some(medium) = self.medium else {
            store::check(&self.system, SyncMode::Buffered)?;
            ensure!(!store::has_words_only(&self.system), "{} has words only", self.system);
            return self.data().map(drop);
        };
        ensure!(self.epoch_ms != Some(0), "epoch_ms is 0: an epoch has a length");
        self.tree(&Context::default(), medium)?.check()
    }

    fn lacks(&self, _context: &Context) -> Option<String> {
        if self.medium.is_none() { store::lacks(&self.system) } else { None }
    }

    fn run(&self, context: &Context, _round: u32) -> Result<Figures> {
        match self.medium {
            Some(medium) => self.run_tree(context, medium),
            None => self.run_store(context),
        }
    }
}

#[cfg(test)]
mod tests;
