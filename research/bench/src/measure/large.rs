//! A store that is larger than the memory it may have: load, lookups, scans, a kill, an open. All of it in
//! processes of one control group, so that what the system caches of the files counts, too.
//!
//! Lookups and scans go on for some seconds instead of a number of times: where each needs the disk, nobody
//! knows beforehand how many there are time for.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use everleaf::Compression;
use serde::{Deserialize, Serialize};

use super::child::{self, Peak};
use super::group::Group;
use super::kind::{Context, Figures, Measure};
use super::store::data::{Data, KeyForm, batches};
use super::store::disk;
use crate::clock::Times;
use crate::keys::key;
use crate::store::{self, How, KvStore};

/// Pairs of a scan.
const SCAN: usize = 100;

/// The contents of values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Values {
    /// Random bytes: nothing is gained by compression.
    #[default]
    Random,
    /// Words of a small language.
    Text,
}

/// The parameters.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Large {
    system: String,
    keys: u64,
    value_bytes: usize,
    #[serde(default)]
    values: Values,
    /// Whether keys are loaded in their order.
    #[serde(default)]
    ascending: bool,
    /// The memory that pages may take.
    memory_mib: u64,
    /// The memory that the group may take; without a group if 0.
    group_mib: u64,
    /// `lz4`, or nothing.
    #[serde(default)]
    compression: String,
    /// Seconds of lookups, and of scans.
    seconds: f64,
    /// Overwrites before the kill.
    dirty: u64,
}

/// A store with its keys and values.
struct Opened<'a> {
    work: &'a Large,
    data: Data,
    store: Box<dyn KvStore>,
    pages: u64,
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / (1 << 20) as f64
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

impl Large {
    fn open(&self, dir: &Path) -> Result<Opened<'_>> {
        let how = How {
            dir: dir.into(),
            memory_bytes: self.memory_mib << 20,
            compression: if self.compression == "lz4" {
                Compression::Lz4
            } else {
                Compression::None
            },
            ..How::default()
        };
        let data = Data::new(KeyForm::Plain, (16, self.value_bytes), self.ascending);
        let data = if self.values == Values::Text { data.of_words() } else { data };
        Ok(Opened { work: self, data, store: store::open(&self.system, &how)?, pages: 0 })
    }

    /// The item of the i-th overwrite.
    fn overwritten(&self, i: u64) -> u64 {
        key(i ^ (1 << 62)) % self.keys
    }

    fn fill(&self, context: &Context) -> Result<Figures> {
        let mut opened = self.open(&context.scratch)?;
        let mut figures = opened.load()?;
        figures.push(("size_mib".into(), disk::mib(&context.scratch)?));
        figures.extend(opened.gets("get", 1)?);
        figures.extend(opened.scans()?);
        figures.extend(opened.overwrite()?);
        figures.push(("pages_peak_mib".into(), mib(opened.pages)));
        child::wait_for_the_end(&figures)?;
        Ok(figures)
    }

    fn reopen(&self, context: &Context, phase: &str) -> Result<Figures> {
        let (begun, mut bytes) = (Instant::now(), Vec::new());
        let mut opened = self.open(&context.scratch)?;
        opened.data.key(opened.data.id(self.keys / 2), &mut bytes);
        ensure!(opened.store.get(&bytes, &mut |_| ())?, "a key is gone");
        let mut figures = vec![
            (format!("{phase}_ms"), ms(begun.elapsed())),
            (format!("{phase}_resident_mib"), mib(child::anon_bytes())),
        ];
        opened.expect_overwritten()?;
        if phase == "open_killed" {
            figures.extend(opened.gets("again", 2)?);
        }
        let begun = Instant::now();
        opened.store.close()?;
        figures.push((format!("{phase}_close_ms"), ms(begun.elapsed())));
        Ok(figures)
    }
}

impl Opened<'_> {
    fn look(&mut self) {
        self.pages = self.pages.max(self.store.memory_bytes().unwrap_or(0));
    }

    /// Distinct keys into an empty store, until they are durable.
    fn load(&mut self) -> Result<Figures> {
        let begun = Instant::now();
        let mut pairs = Vec::new();
        for items in batches(self.work.keys) {
            self.data.fill(items, &mut pairs);
            self.store.put_all(&pairs)?;
            self.look();
        }
        self.store.sync()?;
        let loaded = begun.elapsed();
        self.store.settle()?;
        Ok(vec![
            ("load_kops".into(), self.work.keys as f64 / ms(loaded)),
            ("load_settle_ms".into(), ms(begun.elapsed() - loaded)),
        ])
    }

    /// Calls `op` with the ids of random items until the time is over.
    fn random(&self, salt: u64, mut op: impl FnMut(u64) -> Result<u64>) -> Result<(Times, f64)> {
        let (mut times, mut done, mut i) = (Times::default(), 0, 0);
        let begun = Instant::now();
        while begun.elapsed().as_secs_f64() < self.work.seconds {
            let id = self.data.id(key(i ^ (salt << 40)) % self.work.keys);
            let start = Instant::now();
            done += op(id)?;
            times.add(start.elapsed().as_nanos() as u64);
            i += 1;
        }
        Ok((times, done as f64 / ms(begun.elapsed())))
    }

    fn gets(&mut self, phase: &str, salt: u64) -> Result<Figures> {
        let mut bytes = Vec::new();
        let (times, rate) = self.random(salt, |id| {
            self.data.key(id, &mut bytes);
            let mut version = Ok(0);
            let is = self.store.get(&bytes, &mut |value| version = self.data.version(id, value))?;
            ensure!(is && version? <= 1, "a key is not there, or has a wrong value");
            Ok(1)
        })?;
        self.look();
        let of = times.figures(phase);
        let p99 = of.iter().find(|(name, _)| name.ends_with("p99_ns")).map_or(0.0, |(_, ns)| *ns);
        Ok(vec![(format!("{phase}_kops"), rate), (format!("{phase}_p99_us"), p99 / 1e3)])
    }

    /// Scans of 100 pairs from random places, and one of all pairs until the time is over.
    fn scans(&mut self) -> Result<Figures> {
        let mut bytes = Vec::new();
        let (_, rate) = self.random(3, |id| {
            self.data.key(id, &mut bytes);
            let mut all = 0;
            let pairs = self.store.scan_cursor(&bytes, SCAN, &mut |_, value| all += value.len())?;
            ensure!(all == pairs * self.work.value_bytes, "a scan has shown something else");
            Ok(pairs as u64)
        })?;
        self.look();
        let (mut from, mut passed) = (self.data.least(), 0);
        let (begun, most) = (Instant::now(), Duration::from_secs_f64(self.work.seconds));
        while begun.elapsed() < most {
            let pairs = self.store.scan_cursor(&from.clone(), 10_000, &mut |key, _| {
                from.clear();
                from.extend(key);
            })?;
            passed += pairs;
            from.push(0);
            if pairs < 10_000 {
                break;
            }
        }
        let walk = passed as f64 / ms(begun.elapsed());
        self.look();
        Ok(vec![("scan_pairs_kops".into(), rate), ("walk_pairs_kops".into(), walk)])
    }

    /// New values for keys that are there, until they are durable.
    fn overwrite(&mut self) -> Result<Figures> {
        let (begun, mut bytes, mut value) = (Instant::now(), Vec::new(), Vec::new());
        for i in 0..self.work.dirty {
            let id = self.data.id(self.work.overwritten(i));
            self.data.key(id, &mut bytes);
            self.data.value(id, 1, &mut value);
            self.store.put(&bytes, &value)?;
            if i.is_multiple_of(1000) {
                self.look();
            }
        }
        self.store.sync()?;
        Ok(vec![("update_kops".into(), self.work.dirty as f64 / ms(begun.elapsed()))])
    }

    /// The last overwrites, which were synced before the kill, are there.
    fn expect_overwritten(&self) -> Result<()> {
        let mut bytes = Vec::new();
        for i in self.work.dirty.saturating_sub(1000)..self.work.dirty {
            let id = self.data.id(self.work.overwritten(i));
            self.data.key(id, &mut bytes);
            let mut version = Ok(0);
            let is = self.store.get(&bytes, &mut |value| version = self.data.version(id, value))?;
            ensure!(is && version? == 1, "a synced overwrite is gone");
        }
        Ok(())
    }
}

impl Measure for Large {
    fn check(&self) -> Result<()> {
        store::check_pairs(&self.system, self.keys, self.value_bytes)?;
        ensure!(["", "none", "lz4"].contains(&&self.compression[..]), "compression: none or lz4");
        Ok(())
    }

    fn lacks(&self, _context: &Context) -> Option<String> {
        let no_group = || {
            let has = self.group_mib == 0 || Group::new(self.group_mib << 20).is_some();
            (!has).then(|| "no control group can be made".into())
        };
        store::lacks(&self.system).or_else(no_group)
    }

    fn run(&self, context: &Context, _round: u32) -> Result<Figures> {
        let dir = tempfile::tempdir_in(&context.scratch)?;
        let group = if self.group_mib > 0 { Group::new(self.group_mib << 20) } else { None };
        ensure!(group.is_some() || self.group_mib == 0, "no control group can be made");
        let (mut figures, mut most) = (Figures::new(), Peak::default());
        for phase in ["fill", "open_killed", "open_clean"] {
            let place = (dir.path(), context.seed, group.as_ref().map(Group::path));
            let (found, peak) = child::run("large", self, phase, place)?;
            figures.extend(found);
            most = most.max(peak);
        }
        figures.push(("anon_peak_mib".into(), mib(most.anon)));
        figures.push(("resident_peak_mib".into(), mib(most.all)));
        if let Some(peak) = group.as_ref().and_then(Group::peak) {
            figures.push(("group_peak_mib".into(), mib(peak)));
        }
        Ok(figures)
    }

    fn part(&self, phase: &str, context: &Context) -> Result<Figures> {
        if phase == "fill" { self.fill(context) } else { self.reopen(context, phase) }
    }
}
