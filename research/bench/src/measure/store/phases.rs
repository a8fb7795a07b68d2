//! The phases that threads share.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};

use super::data::{Pair, batch};
use super::disk;
use super::part::{BLOCK, ThreadTimes, figures, mean_ns};
use super::setting::{Bench, Loading, Timing};
use crate::clock::Times;
use crate::measure::child::Written;
use crate::measure::kind::Figures;
use crate::store::SyncMode;
use crate::workload::{OpKind, Skew, Workload, deal};

/// Pairs that the walks of a thread pass at least, in few walks.
const WALK_PAIRS: u64 = 5_000_000;

/// Walks of a thread at most.
const WALKS: u64 = 5;

/// How a phase scans.
#[derive(Clone, Copy)]
enum Way {
    Cursor,
    CursorBack,
    Iterator,
}

/// The phases that scan: how, and how many pairs.
const SCANS: [(&str, Way, usize); 4] = [
    ("scan", Way::Cursor, 100),
    ("scan10", Way::Cursor, 10),
    ("back", Way::CursorBack, 100),
    ("range", Way::Iterator, 100),
];

/// Whether a phase scans from random places.
pub fn is_scan(phase: &str) -> bool {
    SCANS.iter().any(|(name, ..)| *name == phase)
}

/// The arguments of a call.
#[derive(Default)]
pub struct Args {
    pub id: u64,
    pub key: Vec<u8>,
    value: Vec<u8>,
}

impl Bench<'_> {
    /// Runs a phase on all threads.
    pub fn spread(
        &self,
        run: impl Fn(u64) -> Result<ThreadTimes> + Sync,
    ) -> Result<Vec<ThreadTimes>> {
        let run = &run;
        std::thread::scope(|scope| {
            let spawn = |thread| scope.spawn(move || run(thread));
            let threads: Vec<_> = (0..self.work.threads).map(spawn).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        })
    }

    /// Runs a phase of single calls on all threads: `op` with what `prepare` makes of each of `ops`
    /// numbers.
    fn singles(
        &self,
        phase: &str,
        ops: u64,
        prepare: impl Fn(&mut Args, u64) + Sync,
        op: impl Fn(&Args) -> Result<()> + Sync,
    ) -> Result<Figures> {
        Ok(figures(phase, &self.single_parts(ops, prepare, op)?))
    }

    fn single_parts(
        &self,
        ops: u64,
        prepare: impl Fn(&mut Args, u64) + Sync,
        op: impl Fn(&Args) -> Result<()> + Sync,
    ) -> Result<Vec<ThreadTimes>> {
        self.spread(|thread| {
            let share = self.work.share(thread, ops);
            if self.work.timing == Timing::Bulk {
                return ThreadTimes::of_blocks(BLOCK, share, &prepare, &op);
            }
            let (mut times, mut args) = (Times::default(), Args::default());
            times.of(share, |i| {
                prepare(&mut args, i);
                op(&args)
            })?;
            let ops = times.count();
            Ok(ThreadTimes::new(times, ops))
        })
    }

    pub fn prepare_key(&self, args: &mut Args, item: u64) {
        args.id = self.data.id(item);
        self.data.key(args.id, &mut args.key);
    }

    fn prepare_pair(&self, args: &mut Args, item: u64, version: u64) {
        self.prepare_key(args, item);
        self.data.value(args.id, version, &mut args.value);
    }

    fn put(&self, args: &Args) -> Result<()> {
        self.store.put(&args.key, &args.value)
    }

    fn look_up(&self, args: &Args) -> Result<()> {
        let mut version = Ok(u64::MAX);
        let is = self.store.get(&args.key, &mut |value| {
            version = self.data.version(args.id, value);
        })?;
        ensure!(is && version? == 0, "a key is not there, or has a wrong value");
        Ok(())
    }

    /// Distinct keys into an empty store.
    pub fn load(&self) -> Result<Figures> {
        let (keys, order) = (self.work.keys, self.work.load_order());
        let item = |i: u64| order.as_ref().map_or(i, |order| order[i as usize].into());
        let parts = match self.work.load {
            Loading::Single => {
                let prepare = |args: &mut Args, i| self.prepare_pair(args, item(i), 0);
                self.single_parts(keys, prepare, |args| self.put(args))?
            }
            Loading::Batch => self.spread(|thread| self.load_batches(thread, item))?,
        };
        let mut found = figures("load", &parts);
        found.push(("load_pair_ns".into(), mean_ns(&parts)));
        Ok(found)
    }

    /// The batches of one thread.
    fn load_batches(&self, thread: u64, item: impl Fn(u64) -> u64) -> Result<ThreadTimes> {
        let (keys, size) = (self.work.keys, self.work.batch);
        let of = |no| batch(no, keys, size);
        let share = || self.work.share(thread, keys.div_ceil(size));
        let fill = |pairs: &mut Vec<Pair>, no| self.data.fill(of(no).map(&item), pairs);
        let ops = share().map(|no| of(no).end - of(no).start).sum();
        if self.work.timing == Timing::Bulk {
            // As many pairs between two looks at the clock as there are single puts, or one batch.
            let len = BLOCK.div_ceil(size as usize);
            let put = |pairs: &Vec<Pair>| self.store.put_all(pairs);
            let mut part = ThreadTimes::of_blocks(len, share(), fill, put)?;
            part.ops = ops;
            return Ok(part);
        }
        let (mut times, mut pairs) = (Times::default(), Vec::new());
        for no in share() {
            fill(&mut pairs, no);
            let start = Instant::now();
            self.store.put_all(&pairs)?;
            times.add(start.elapsed().as_nanos() as u64);
        }
        Ok(ThreadTimes::new(times, ops))
    }

    /// Bytes written for each byte that was loaded, since the store was made and until it has settled. Nobody
    /// else writes in this process meanwhile.
    pub fn written(&self) -> Result<Figures> {
        self.store.settle()?;
        let now = Written::now();
        let of =
            |bytes: u64| bytes as f64 / (self.work.keys * self.data.pair_bytes() as u64) as f64;
        Ok(vec![
            ("load_calls_share".into(), of(now.calls - self.begun.calls)),
            ("load_disk_share".into(), of(now.disk - self.begun.disk)),
        ])
    }

    /// A queue of as many pairs as were loaded: one is put at the end, and the first is taken. A rate of both
    /// together.
    pub fn queue(&self) -> Result<Figures> {
        let (keys, least) = (self.work.keys, self.data.least());
        let prepare = |args: &mut Args, i: u64| self.prepare_pair(args, keys + i, 0);
        self.singles("queue", self.work.ops(), prepare, |args| {
            self.put(args)?;
            let mut version = Ok(u64::MAX);
            let is = self.store.pop_first(&least, &mut |_, value| {
                version = self.data.version(args.id - keys, value);
            })?;
            ensure!(is && version? == 0, "another pair than the first, or none");
            Ok(())
        })
    }

    /// Keys that are there.
    pub fn get(&self) -> Result<Figures> {
        let ops = self.work.ops();
        let picker = self.work.picker(self.seed, ops, 1)?;
        let prepare = |args: &mut Args, i| self.prepare_key(args, picker.item(i));
        self.singles("get", ops, prepare, |args| self.look_up(args))
    }

    /// New values for keys that are there.
    pub fn update(&self) -> Result<Figures> {
        let ops = self.work.ops();
        let picker = self.work.picker(self.seed, ops, 1)?;
        let prepare = |args: &mut Args, i| self.prepare_pair(args, picker.item(i), 1);
        self.singles("update", ops, prepare, |args| self.put(args))
    }

    /// Scans from keys that are there.
    pub fn scan(&self, phase: &str) -> Result<Figures> {
        let of = SCANS.iter().find(|(name, ..)| *name == phase);
        let (_, way, pairs) = of.with_context(|| format!("no scan is called {phase:?}"))?;
        let (limit, ops) = (self.work.keys.min(*pairs as u64), self.work.scans());
        let picker = self.work.picker(self.seed, ops, limit)?;
        let prepare = |args: &mut Args, i| self.prepare_key(args, picker.item(i));
        let limit = limit as usize;
        self.singles(phase, ops, prepare, |args| {
            let mut bytes = 0;
            let mut each = |key: &[u8], value: &[u8]| bytes += key.len() + value.len();
            let found = match way {
                Way::Cursor => self.store.scan_cursor(&args.key, limit, &mut each)?,
                Way::CursorBack => self.store.scan_back(&args.key, limit, &mut each)?,
                Way::Iterator => self.store.scan_range(&args.key, limit, &mut each)?,
            };
            // Fewer at the ends of the key space.
            let is_whole = bytes == found * self.data.pair_bytes();
            ensure!((1..=limit).contains(&found) && is_whole, "a wrong scan");
            Ok(())
        })
    }

    /// All pairs in order, a few times; a rate of pairs.
    pub fn walk(&self) -> Result<Figures> {
        let (keys, first) = (self.work.keys, self.data.least());
        let walks = (WALK_PAIRS / keys).clamp(1, WALKS);
        let parts = self.spread(|_| {
            let mut times = Times::default();
            times.of(0..walks, |_| {
                let mut bytes = 0;
                let found = self.store.scan_cursor(&first, usize::MAX, &mut |key, value| {
                    bytes += key.len() + value.len();
                })?;
                let is_whole = bytes == found * self.data.pair_bytes();
                ensure!(found as u64 == keys && is_whole, "a wrong walk: {found} pairs");
                Ok(())
            })?;
            Ok(ThreadTimes::new(times, walks * keys))
        })?;
        // The times of whole walks tell nothing that the rate does not.
        Ok(figures("walk", &parts).into_iter().take(1).collect())
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
            let (mut times, mut args) = (Times::default(), Args::default());
            times.of(streams[thread as usize].iter(), |op| match op.kind {
                OpKind::Get => {
                    self.prepare_key(&mut args, op.item().into());
                    self.look_up(&args)
                }
                _ => {
                    self.prepare_pair(&mut args, op.item().into(), 0);
                    self.put(&args)
                }
            })?;
            let ops = times.count();
            Ok(ThreadTimes::new(times, ops))
        })?;
        Ok(figures("run", &parts))
    }

    /// All keys, in another order than they came in unless they ascend.
    pub fn delete(&self) -> Result<Figures> {
        let items = self.work.delete_order(self.seed);
        let prepare = |args: &mut Args, i: u64| self.prepare_key(args, items[i as usize].into());
        let found = self.singles("delete", self.work.keys, prepare, |args| {
            ensure!(self.store.remove(&args.key)?, "a key is not there");
            Ok(())
        })?;
        let left = self.store.scan_range(&self.data.least(), 1, &mut |_, _| ())?;
        ensure!(left == 0, "something is left");
        Ok(found)
    }

    /// The size of the store on disk while it is open.
    pub fn size(&self) -> Result<Figures> {
        if self.work.mode == SyncMode::Buffered {
            self.store.sync()?;
        }
        Ok(vec![("size_open_mib".into(), disk::mib(self.dir.path())?)])
    }

    /// Bytes of journal for each pair that was loaded.
    pub fn journal(&self) -> Result<Figures> {
        self.store.sync()?;
        let bytes = self.store.journal_bytes()?.context("the store does not tell")?;
        Ok(vec![("journal_put_bytes".into(), bytes as f64 / self.work.keys as f64)])
    }
}
