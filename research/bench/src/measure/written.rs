//! Bytes that a store writes for each byte that a program gives it.
//!
//! | metric | of the bytes of all keys and values that were put |
//! |---|---|
//! | `…_written_share` | what Everleaf hands to its files: counted where it calls the system |
//! | `…_calls_share` | what the process hands to the system by calls, whatever the store |
//! | `…_disk_share` | what pages of files it made dirty, by calls or through maps: a page that is dirty already counts once |
//!
//! `load` is until all was durable, `run` what followed until that was, and `all` has the close, too. The
//! store is alone in a process.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

use super::child::{self, Written};
use super::kind::{Context, Figures, Measure};
use super::store::data::{Data, KeyForm, batches};
use super::store::disk;
use crate::keys::key;
use crate::store::{self, Disk, How, KvStore, Meter};
use crate::workload::{OpKind, Skew, Workload};

/// The work after the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Work {
    /// Nothing: pairs are put one by one, and that is all.
    Single,
    /// YCSB's A: half lookups, half updates, of keys that are picked with a Zipfian distribution.
    YcsbA,
    /// Updates of random keys.
    Update,
}

/// The parameters.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WrittenBytes {
    system: String,
    work: Work,
    keys: u64,
    key_bytes: usize,
    value_bytes: usize,
    /// Operations after the load.
    ops: u64,
}

/// Counts of writes until a moment.
#[derive(Clone, Copy)]
struct Mark {
    io: u64,
    process: Written,
    puts: u64,
    time: Instant,
}

struct Run<'a> {
    work: &'a WrittenBytes,
    data: Data,
    store: Box<dyn KvStore>,
    meter: Arc<Meter>,
    puts: u64,
}

impl Run<'_> {
    fn mark(&self) -> Mark {
        let io = self.meter.written();
        Mark { io, process: Written::now(), puts: self.puts, time: Instant::now() }
    }

    fn load(&mut self) -> Result<()> {
        let single = self.work.work == Work::Single;
        let mut pairs = Vec::new();
        for items in batches(self.work.keys) {
            self.data.fill(items, &mut pairs);
            if single {
                pairs.iter().try_for_each(|(key, value)| self.store.put(key, value))?;
            } else {
                self.store.put_all(&pairs)?;
            }
            self.puts += pairs.len() as u64;
        }
        self.store.sync()
    }

    fn update(&mut self, seed: u64) -> Result<()> {
        let (keys, ops) = (self.work.keys, self.work.ops);
        let (mut bytes, mut value) = (Vec::new(), Vec::new());
        let picks = Skew::Zipf(0.99);
        let workload = Workload { items: keys, picks, reads: 50, puts_only: true, seed };
        let is_zipf = self.work.work == Work::YcsbA;
        let stream = workload.stream(if is_zipf { ops } else { 0 })?;
        for i in 0..ops {
            let op = stream.get(i as usize);
            let item = op.map_or_else(|| key(i ^ (1 << 62)) % keys, |op| op.item().into());
            let id = self.data.id(item);
            self.data.key(id, &mut bytes);
            if op.is_some_and(|op| op.kind == OpKind::Get) {
                ensure!(self.store.get(&bytes, &mut |_| ())?, "a key is not there");
            } else {
                self.data.value(id, 1 + i, &mut value);
                self.store.put(&bytes, &value)?;
                self.puts += 1;
            }
        }
        self.store.sync()
    }
}

impl WrittenBytes {
    /// Bytes written between two moments for each byte of the pairs that were put.
    fn shares(&self, phase: &str, from: &Mark, to: &Mark) -> Figures {
        let pair = (self.key_bytes + self.value_bytes) as u64;
        let of = |bytes: u64| bytes as f64 / ((to.puts - from.puts).max(1) * pair) as f64;
        let mut figures = vec![
            (format!("{phase}_calls_share"), of(to.process.calls - from.process.calls)),
            (format!("{phase}_disk_share"), of(to.process.disk - from.process.disk)),
        ];
        if to.io > 0 {
            figures.push((format!("{phase}_written_share"), of(to.io - from.io)));
        }
        figures
    }
}

impl Measure for WrittenBytes {
    fn check(&self) -> Result<()> {
        ensure!([8, 16].contains(&self.key_bytes), "keys have 8 or 16 bytes");
        store::check_pairs(&self.system, self.keys, self.value_bytes)
    }

    fn lacks(&self, _context: &Context) -> Option<String> {
        store::lacks(&self.system)
    }

    fn run(&self, context: &Context, _round: u32) -> Result<Figures> {
        let dir = tempfile::tempdir_in(&context.scratch)?;
        let place = (dir.path(), context.seed, None);
        let (mut figures, _) = child::run("written", self, "write", place)?;
        figures.push(("size_closed_mib".into(), disk::mib(dir.path())?));
        Ok(figures)
    }

    fn part(&self, _phase: &str, context: &Context) -> Result<Figures> {
        let meter = Meter::new(Disk::Real);
        let dir = context.scratch.clone();
        let how = How { dir, meter: Some(Arc::clone(&meter)), ..How::default() };
        let store = store::open(&self.system, &how)?;
        let data = Data::new(KeyForm::Plain, (self.key_bytes, self.value_bytes), false);
        let mut run = Run { work: self, data, store, meter, puts: 0 };
        let begun = run.mark();
        run.load()?;
        let loaded = run.mark();
        let mut figures = self.shares("load", &begun, &loaded);
        let kops = |ops: u64, from: &Mark, to: &Mark| {
            ops as f64 / (to.time - from.time).as_secs_f64() / 1e3
        };
        figures.push(("load_kops".into(), kops(self.keys, &begun, &loaded)));
        if self.work != Work::Single {
            run.update(context.seed)?;
            let done = run.mark();
            figures.extend(self.shares("run", &loaded, &done));
            figures.push(("run_kops".into(), kops(self.ops, &loaded, &done)));
        }
        let (done, Run { store, meter, puts, .. }) = (run.mark(), run);
        store.close()?;
        let io = meter.written();
        let closed = Mark { io, process: Written::now(), puts, time: Instant::now() };
        figures.extend(self.shares("all", &begun, &closed));
        figures.push(("close_ms".into(), (closed.time - done.time).as_secs_f64() * 1e3));
        Ok(figures)
    }
}
