//! Many writers in front of a disk that is slower than they: how long after a put has returned its pair is
//! durable, and what memory that takes.
//!
//! Each thread notes when puts returned, and the epoch that was running then: the pair is durable when that
//! epoch is, or earlier. Another thread notes when epochs became durable.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use everleaf::{Db, Options, Tree};
use serde::{Deserialize, Serialize};

use super::child;
use super::kind::{Context, Figures, Measure};
use super::lag::{DurableAt, Noted, until_durable};
use super::store::data::{Data, KeyForm};
use crate::clock::Times;
use crate::keys::seeded;
use crate::store::{Disk, Meter};

/// One of so many puts is noted, beside the first of each epoch, whose pair waits the longest.
const NOTED: u64 = 8;

/// How often somebody looks what is durable.
const LOOK: Duration = Duration::from_micros(200);

/// The parameters.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Writers {
    system: String,
    threads: u64,
    /// Different keys, of 16 bytes.
    keys: u64,
    value_bytes: usize,
    /// The rate of the disk in MiB a second; this machine's own disk if 0.
    disk_mib_s: u64,
    interval_ms: u64,
    /// The memory that pages may take.
    memory_mib: u64,
    seconds: f64,
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

impl Writers {
    /// A folder in memory if the disk is not the machine's, so that nothing else is waited for.
    fn folder(&self, context: &Context) -> Result<tempfile::TempDir> {
        let memory = Path::new("/dev/shm");
        let is_there = self.disk_mib_s > 0 && memory.is_dir();
        Ok(tempfile::tempdir_in(if is_there { memory } else { &context.scratch })?)
    }

    fn write(
        &self,
        seed: u64,
        (db, tree): (&Db, &Tree),
        end: Instant,
    ) -> Result<(u64, Vec<Noted>)> {
        let data = Data::new(KeyForm::Plain, (16, self.value_bytes), false);
        let (mut key, mut value, mut puts) = (Vec::new(), Vec::new(), Vec::new());
        let (mut count, mut last) = (0, 0);
        loop {
            let id = data.id(seeded(seed, count) % self.keys);
            data.key(id, &mut key);
            data.value(id, count, &mut value);
            tree.put(&key, &value)?;
            let now = Instant::now();
            let epoch = db.epoch();
            if epoch != last || count.is_multiple_of(NOTED) {
                puts.push((now, epoch));
                last = epoch;
            }
            count += 1;
            if now > end {
                return Ok((count, puts));
            }
        }
    }

    /// When epochs were durable, until writers have ended and all they wrote is; and the most memory that
    /// pages took.
    fn watch(&self, db: &Db, have_ended: &AtomicBool) -> Result<(DurableAt, u64)> {
        let (mut times, mut pages) = (DurableAt::new(), 0);
        let mut last = None;
        loop {
            if last.is_none() && have_ended.load(Ordering::SeqCst) {
                last = Some(db.epoch());
            }
            let durable = db.durable_epoch();
            times.entry(durable).or_insert_with(Instant::now);
            pages = pages.max(db.stats()?.memory.bytes);
            if last.is_some_and(|last| durable >= last) {
                return Ok((times, pages));
            }
            std::thread::sleep(LOOK);
        }
    }

    fn measure(&self, context: &Context) -> Result<Figures> {
        let rate = self.disk_mib_s << 20;
        let meter = Meter::new(if rate > 0 { Disk::Slow(rate) } else { Disk::Real });
        let options = Options::new()
            .interval(Duration::from_millis(self.interval_ms))
            .memory(self.memory_mib << 20);
        let db = options.open_on(meter.io(), context.scratch.join("p.ever"))?;
        let tree = db.tree("t")?;
        db.sync()?;
        meter.longest_sync();
        meter.most_in_a_sync();
        let (syncs, written) = (meter.syncs(), meter.written());
        let have_ended = AtomicBool::new(false);
        let begun = Instant::now();
        let end = begun + Duration::from_secs_f64(self.seconds);
        let (puts, (durable, pages)) = std::thread::scope(|scope| -> Result<_> {
            let watcher = scope.spawn(|| self.watch(&db, &have_ended));
            let write = |thread| {
                let (db, tree) = (&db, &tree);
                scope.spawn(move || self.write(thread, (db, tree), end))
            };
            let threads: Vec<_> = (0..self.threads).map(write).collect();
            let puts: Vec<_> = threads.into_iter().map(|t| t.join().expect("no panic")).collect();
            have_ended.store(true, Ordering::SeqCst);
            let watched = watcher.join().expect("no panic")?;
            Ok((puts.into_iter().collect::<Result<Vec<_>>>()?, watched))
        })?;
        let took = begun.elapsed();
        let sync = meter.longest_sync();
        let (mut times, mut count) = (Times::default(), 0);
        for (number, noted) in &puts {
            count += number;
            for (returned, epoch) in noted {
                let lag = until_durable(&durable, (*returned, *epoch));
                times.add(lag.context("an epoch was never durable")?.as_nanos() as u64);
            }
        }
        let user = (count * (16 + self.value_bytes as u64)) as f64;
        let mut figures = vec![
            ("written_share".into(), (meter.written() - written) as f64 / user),
            ("syncs_peak_count".into(), (meter.syncs() - syncs) as f64),
            ("sync_peak_mib".into(), meter.most_in_a_sync() as f64 / (1 << 20) as f64),
            ("put_kops".into(), count as f64 / ms(took)),
            (
                "put_mib_s".into(),
                (count * (16 + self.value_bytes as u64)) as f64
                    / took.as_secs_f64()
                    / (1 << 20) as f64,
            ),
            ("sync_max_ms".into(), ms(sync)),
            ("bound_ms".into(), 10.0 * self.interval_ms as f64 + 2.0 * ms(sync)),
            ("pages_peak_mib".into(), pages as f64 / (1 << 20) as f64),
        ];
        for (name, ns) in times.figures("durable") {
            if ["p50", "p99", "p999", "max"].iter().any(|of| name.ends_with(&format!("{of}_ns"))) {
                figures.push((name.replace("_ns", "_ms"), ns / 1e6));
            }
        }
        drop(tree);
        db.close()?;
        Ok(figures)
    }
}

impl Measure for Writers {
    fn check(&self) -> Result<()> {
        ensure!(self.system == "everleaf", "only everleaf says when an epoch is durable");
        ensure!(self.threads > 0 && self.keys > 0 && self.value_bytes >= 8, "nothing to write");
        Ok(())
    }

    fn run(&self, context: &Context, _round: u32) -> Result<Figures> {
        let dir = self.folder(context)?;
        let place = (dir.path(), context.seed, None);
        let (mut figures, peak) = child::run("writers", self, "write", place)?;
        figures.push(("anon_peak_mib".into(), peak.anon as f64 / (1 << 20) as f64));
        Ok(figures)
    }

    fn part(&self, _phase: &str, context: &Context) -> Result<Figures> {
        self.measure(context)
    }
}
