//! The phases that threads share.

use std::time::Instant;

use anyhow::{Result, ensure};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::disk;
use super::part::{ThreadTimes, figures};
use super::setting::{BATCH, Bench, Loading, SCAN};
use crate::clock::Times;
use crate::keys::key;
use crate::measure::kind::Figures;
use crate::store::SyncMode;
use crate::workload::{OpKind, Skew, Workload, deal};

impl Bench<'_> {
    /// Runs a phase on all threads.
    fn spread(&self, run: impl Fn(u64) -> Result<ThreadTimes> + Sync) -> Result<Vec<ThreadTimes>> {
        let run = &run;
        std::thread::scope(|scope| {
            let spawn = |thread| scope.spawn(move || run(thread));
            let threads: Vec<_> = (0..self.work.threads).map(spawn).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        })
    }

    /// Runs a phase of single calls on all threads: `op` for each of `ops` numbers.
    fn singles(
        &self,
        phase: &str,
        ops: u64,
        op: impl Fn(&mut Buffers, u64) -> Result<()> + Sync,
    ) -> Result<Figures> {
        let parts = self.spread(|thread| {
            let (mut times, mut buffers) = (Times::default(), Buffers::default());
            times.of(self.work.share(thread, ops), |i| op(&mut buffers, i))?;
            Ok(ThreadTimes { ops: times.count(), times })
        })?;
        Ok(figures(phase, &parts))
    }

    /// The item of the i-th random lookup.
    fn pick(&self, i: u64) -> u64 {
        key(i ^ (self.seed << 40) ^ (1 << 63)) % self.work.keys
    }

    fn put(&self, buffers: &mut Buffers, key: u64) -> Result<()> {
        let Buffers { key: key_bytes, value } = buffers;
        self.data.key(key, key_bytes);
        self.data.value(key, 0, value);
        self.store.put(key_bytes, value)
    }

    fn look_up(&self, buffers: &mut Buffers, key: u64) -> Result<()> {
        self.data.key(key, &mut buffers.key);
        let mut version = Ok(u64::MAX);
        let is =
            self.store.get(&buffers.key, &mut |value| version = self.data.version(key, value))?;
        ensure!(is && version? == 0, "a key is not there, or has a wrong value");
        Ok(())
    }

    /// Random keys into an empty store.
    pub fn load(&self) -> Result<Figures> {
        let keys = self.work.keys;
        if self.work.load == Loading::Single {
            return self.singles("load", keys, |buffers, i| self.put(buffers, key(i)));
        }
        let parts = self.spread(|thread| {
            let mut part = ThreadTimes { times: Times::default(), ops: 0 };
            let mut pairs = vec![(Vec::new(), Vec::new()); BATCH as usize];
            for batch in self.work.share(thread, keys.div_ceil(BATCH)) {
                let items = batch * BATCH..((batch + 1) * BATCH).min(keys);
                pairs.truncate((items.end - items.start) as usize);
                for ((key_bytes, value), item) in pairs.iter_mut().zip(items) {
                    self.data.key(key(item), key_bytes);
                    self.data.value(key(item), 0, value);
                }
                let start = Instant::now();
                self.store.put_all(&pairs)?;
                part.times.add(start.elapsed().as_nanos() as u64);
                part.ops += pairs.len() as u64;
            }
            Ok(part)
        })?;
        Ok(figures("load", &parts))
    }

    /// Random keys that are there.
    pub fn get(&self) -> Result<Figures> {
        self.singles("get", self.work.ops(), |buffers, i| self.look_up(buffers, key(self.pick(i))))
    }

    /// Scans from random places.
    pub fn scan(&self) -> Result<Figures> {
        let limit = SCAN.min(self.work.keys as usize);
        self.singles("scan", self.work.ops(), |buffers, i| {
            self.data.key(key(self.pick(i)), &mut buffers.key);
            let mut bytes = 0;
            let found = self.store.scan(&buffers.key, limit, &mut |key, value| {
                bytes += key.len() + value.len();
            })?;
            let each = self.work.key_bytes + self.work.value_bytes;
            // Fewer at the end of the key space.
            ensure!((1..=limit).contains(&found) && bytes == found * each, "a wrong scan");
            Ok(())
        })
    }

    /// YCSB's A: half reads, half updates, Zipfian.
    pub fn mixed(&self) -> Result<Figures> {
        let workload = Workload {
            items: self.work.keys,
            picks: Skew::Zipf(0.99),
            reads: 50,
            puts_only: true,
            seed: self.seed,
        };
        let streams = deal(&workload.stream(self.work.ops())?, self.work.threads as usize);
        let parts = self.spread(|thread| {
            let (mut times, mut buffers) = (Times::default(), Buffers::default());
            times.of(streams[thread as usize].iter(), |op| match op.kind {
                OpKind::Get => self.look_up(&mut buffers, op.key()),
                _ => self.put(&mut buffers, op.key()),
            })?;
            Ok(ThreadTimes { ops: times.count(), times })
        })?;
        Ok(figures("run", &parts))
    }

    /// All keys, in another order than they came in.
    pub fn delete(&self) -> Result<Figures> {
        let mut items: Vec<u64> = (0..self.work.keys).collect();
        items.shuffle(&mut Xoshiro256PlusPlus::seed_from_u64(self.seed));
        let found = self.singles("delete", self.work.keys, |buffers, i| {
            self.data.key(key(items[i as usize]), &mut buffers.key);
            ensure!(self.store.remove(&buffers.key)?, "a key is not there");
            Ok(())
        })?;
        let mut first = Vec::new();
        self.data.key(0, &mut first);
        ensure!(self.store.scan(&first, 1, &mut |_, _| ())? == 0, "something is left");
        Ok(found)
    }

    /// What it takes on disk while it is open.
    pub fn size(&self) -> Result<Figures> {
        if self.work.mode == SyncMode::Buffered {
            self.store.sync()?;
        }
        Ok(vec![("size_open_mib".into(), disk::mib(self.dir.path())?)])
    }
}

/// Where a thread makes its keys and values.
#[derive(Default)]
pub struct Buffers {
    key: Vec<u8>,
    value: Vec<u8>,
}
