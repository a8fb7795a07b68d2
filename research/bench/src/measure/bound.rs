//! Whether the file of an open pool holds its bound while pairs change: 1.6 times what is alive, the journal, and
//! 16 MiB.
//!
//! Threads change pairs, and another one looks at the file again and again. Lengths are the store's own figures at one
//! moment, so each look is a count; at which moments there is one depends on the machine.
//!
//! | metric | |
//! |---|---|
//! | `size_worst_share` | the file's length over its bound, at the worst look |
//! | `size_over_share` | the part of all looks that found it longer than its bound |
//! | `size_excess_mib` | by how much, at most; less than 0 if it never was |
//! | `size_most_mib`, `size_alive_mib`, `journal_most_mib` | the longest file, and what was alive and in the journal at that look |
//! | `size_settled_mib` | the file after a checkpoint that followed |
//! | `written_share` | bytes that were written for each byte of the keys and values that were put |
//! | `change_kops`, `change_cpu_us` | how many pairs were changed in a second, and what the process spent on each |

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use everleaf::{Db, Options, Stats, Tree};
use serde::Deserialize;

use super::child::processor_time;
use super::kind::{Context, Figures, Measure};
use crate::keys::{key, seeded};
use crate::store::{Disk, Meter};

/// Time between two looks.
const LOOK: Duration = Duration::from_millis(2);
/// How many times what is alive the bound has, and what beside that and the journal.
const ALIVE_SHARE: f64 = 1.6;
const SPARE_BYTES: f64 = (16 << 20) as f64;
/// The longest value.
const LONGEST: usize = 64 << 10;
/// Changes of a key until its value is as short again as it was.
const PERIOD: u64 = 8;

/// How pairs change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Mix {
    /// Values of 1,000 B take the place of others, of random keys.
    Update,
    /// The same with values of 100 B, which are kept beside their keys.
    UpdateShort,
    /// The same with lengths of 8 B to 64 KiB, each power of two as often as another.
    Mixed,
    /// Three of four pairs of 1,000 B are deleted, here and there, and put again, in turns.
    SparseDeletes,
    /// All values grow from 100 B to 4,000 B, and shrink again.
    GrowAndShrink,
    /// Values of 1,000 B are put at the end, and taken away at the start.
    Queue,
}

/// The parameters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bound {
    mix: Mix,
    keys: u64,
    threads: u64,
    /// The argument of `Options::memory`; 0 is the default.
    memory_mib: u64,
    /// How long pairs change, and how many changes there are at most.
    seconds: f64,
    ops: u64,
}

struct Work<'a> {
    bound: &'a Bound,
    tree: Tree,
    /// Values are pieces of this.
    bytes: Vec<u8>,
    seed: u64,
    /// Changes that were begun, and bytes of keys and values that were put.
    begun: AtomicU64,
    put: AtomicU64,
    is_over: AtomicBool,
}

/// The length that a mixed value has.
fn mixed(random: u64) -> usize {
    let share = (key(random) % 10_000) as f64 / 10_000.0;
    (8.0 * (LONGEST as f64 / 8.0).powf(share)) as usize
}

impl Work<'_> {
    fn put(&self, number: u64, bytes: usize, version: u64) -> Result<()> {
        let at = key(number ^ version << 32) as usize % LONGEST;
        self.tree.put(number.to_be_bytes(), &self.bytes[at..at + bytes])?;
        self.put.fetch_add(8 + bytes as u64, Ordering::Relaxed);
        Ok(())
    }

    fn load(&self) -> Result<()> {
        let length = |item| match self.bound.mix {
            Mix::Update | Mix::SparseDeletes => Some(1000),
            Mix::Mixed => Some(mixed(item)),
            Mix::GrowAndShrink | Mix::UpdateShort => Some(100),
            Mix::Queue => None,
        };
        let mut pairs = (0..self.bound.keys).filter_map(|item| Some((item, length(item)?)));
        pairs.try_for_each(|(item, bytes)| self.put(key(item), bytes, 0))
    }

    /// Change `i` of all, whoever makes it.
    fn change(&self, i: u64) -> Result<()> {
        let keys = self.bound.keys;
        let random = seeded(self.seed, i);
        let item = random % keys;
        match self.bound.mix {
            Mix::Update => self.put(key(item), 1000, i),
            Mix::UpdateShort => self.put(key(item), 100, i),
            Mix::Mixed => self.put(key(item), mixed(random), i),
            Mix::SparseDeletes => {
                let item = i % keys;
                match (item % 4, (i / keys) % 2) {
                    (0, _) => Ok(()),
                    (_, 0) => Ok(self.tree.remove(key(item).to_be_bytes()).map(drop)?),
                    _ => self.put(key(item), 1000, i),
                }
            }
            Mix::GrowAndShrink => {
                let phase = (i % (PERIOD * keys)) as f64 / (PERIOD * keys) as f64;
                let height = (1.0 - (phase * std::f64::consts::TAU).cos()) / 2.0;
                self.put(key(item), (100.0 * f64::powf(40.0, height)) as usize, i)
            }
            Mix::Queue => {
                self.put(i, 1000, i)?;
                if i >= keys { Ok(self.tree.pop_first().map(drop)?) } else { Ok(()) }
            }
        }
    }

    fn run(&self, since: Instant) -> Result<()> {
        loop {
            let i = self.begun.fetch_add(1, Ordering::Relaxed);
            let is_late = since.elapsed().as_secs_f64() > self.bound.seconds;
            if i >= self.bound.ops || is_late {
                self.begun.fetch_sub(1, Ordering::Relaxed);
                return Ok(());
            }
            self.change(i)?;
        }
    }

    /// Changes pairs, and looks at the file meanwhile.
    fn watch(&self, db: &Db, since: Instant) -> Result<Looks> {
        thread::scope(|scope| {
            let looks = scope.spawn(|| {
                let mut looks = Looks::default();
                while !self.is_over.load(Ordering::Relaxed) {
                    looks.look(db)?;
                    thread::sleep(LOOK);
                }
                looks.look(db).map(|()| looks)
            });
            let threads = (0..self.bound.threads).map(|_| scope.spawn(move || self.run(since)));
            let threads: Vec<_> = threads.collect();
            let ran = threads.into_iter().map(|thread| thread.join().expect("no panic"));
            let ran: Result<()> = ran.collect();
            self.is_over.store(true, Ordering::Relaxed);
            ran.and(looks.join().expect("no panic"))
        })
    }
}

/// The results of looks at the pool.
#[derive(Default)]
struct Looks {
    looks: f64,
    over: f64,
    share: f64,
    excess: Option<f64>,
    longest: Stats,
}

impl Looks {
    fn look(&mut self, db: &Db) -> Result<()> {
        let stats = db.stats()?;
        let alive = stats.live_bytes as f64 * ALIVE_SHARE;
        let bound = alive + stats.journal_file_bytes as f64 + SPARE_BYTES;
        let file = stats.file_bytes as f64;
        self.looks += 1.0;
        self.over += f64::from(file > bound);
        self.share = self.share.max(file / bound);
        self.excess = Some(self.excess.map_or(file - bound, |excess| excess.max(file - bound)));
        if stats.file_bytes > self.longest.file_bytes {
            self.longest = stats;
        }
        Ok(())
    }

    fn figures(&self) -> Figures {
        let mib = |bytes: u64| bytes as f64 / (1 << 20) as f64;
        vec![
            ("size_worst_share".into(), self.share),
            ("size_over_share".into(), self.over / self.looks),
            ("size_excess_mib".into(), self.excess.unwrap_or(0.0) / (1 << 20) as f64),
            ("size_most_mib".into(), mib(self.longest.file_bytes)),
            ("size_alive_mib".into(), mib(self.longest.live_bytes)),
            ("journal_most_mib".into(), mib(self.longest.journal_file_bytes)),
        ]
    }
}

impl Measure for Bound {
    fn check(&self) -> Result<()> {
        ensure!(self.keys > 0 && self.threads > 0, "no keys, or nobody who changes them");
        Ok(())
    }

    fn run(&self, context: &Context, _round: u32) -> Result<Figures> {
        let dir = tempfile::tempdir_in(&context.scratch)?;
        let meter = Meter::new(Disk::Real);
        let options = match self.memory_mib {
            0 => Options::new(),
            mib => Options::new().memory(mib << 20),
        };
        let db = options.open_on(meter.io(), dir.path().join("p.ever"))?;
        let work = Work {
            bound: self,
            tree: db.tree("t")?,
            bytes: (0..LONGEST as u64 / 4).flat_map(|i| key(i).to_le_bytes()).collect(),
            seed: context.seed,
            begun: AtomicU64::new(0),
            put: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
        };
        work.load()?;
        db.sync()?;
        work.put.store(0, Ordering::Relaxed);
        let (written, spent, since) = (meter.written(), processor_time(), Instant::now());
        let looks = work.watch(&db, since)?;
        db.sync()?;
        let (took, spent) = (since.elapsed().as_secs_f64(), processor_time() - spent);
        let written = (meter.written() - written) as f64;
        let put = work.put.load(Ordering::Relaxed).max(1) as f64;
        let done = work.begun.load(Ordering::Relaxed) as f64;
        drop(work);
        db.checkpoint()?;
        let settled = db.stats()?.file_bytes;
        db.close()?;
        let mut figures = looks.figures();
        figures.extend([
            ("size_settled_mib".into(), settled as f64 / (1 << 20) as f64),
            ("written_share".into(), written / put),
            ("change_kops".into(), done / took / 1e3),
            ("change_cpu_us".into(), spent.as_secs_f64() * 1e6 / done),
        ]);
        Ok(figures)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{of, run};

    #[test]
    fn each_mix_is_looked_at() {
        let updates = ["update", "update-short", "mixed"];
        let others = ["sparse-deletes", "grow-and-shrink", "queue"];
        for mix in updates.into_iter().chain(others) {
            let cell = format!(
                "mix = {mix:?}\nkeys = 200\nthreads = 2\nmemory_mib = 0\nseconds = 60.0\nops = 2000"
            );
            let figures = run("bound", &cell);
            let (share, file) = (of(&figures, "size_worst_share"), of(&figures, "size_most_mib"));
            assert!(share > 0.0 && file > 0.0, "{mix}: {figures:?}");
            let (over, excess) = (of(&figures, "size_over_share"), of(&figures, "size_excess_mib"));
            assert_eq!(
                (share > 1.0, over > 0.0),
                (excess > 0.0, excess > 0.0),
                "{mix}: {figures:?}"
            );
            assert!(of(&figures, "written_share") > 0.0 && of(&figures, "change_kops") > 0.0);
        }
    }

    #[test]
    fn mixed_values_are_as_long_as_they_may_be() {
        let lengths: Vec<usize> = (0..10_000).map(super::mixed).collect();
        assert!(lengths.iter().all(|bytes| (8..super::LONGEST).contains(bytes)));
        for power in 3..16 {
            let n = lengths.iter().filter(|bytes| bytes.ilog2() == power).count();
            assert!((600..950).contains(&n), "{n} of 2^{power}");
        }
    }
}
