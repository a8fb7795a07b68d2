//! YCSB's core workloads: a load, then one or more workloads over the same records.
//!
//! The workloads run on [`Where::Heap`], records on a medium behind any tree, as the Circ-Tree and
//! Sentinel Array papers have it, or [`Where::Bytes`], an embedded store whose values are whole
//! records. There an update of a field is a read and a write of the record, as in YCSB's bindings.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use everleaf_pmem::Counts;
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Deserialize;

use super::kind::{Context, Figures, Measure};
use crate::clock::Times;
use crate::kv::{self, Heap, Room};
use crate::medium::MediumName;
use crate::store::{self, How, KvStore, SyncMode};
use crate::system::{Readers, Subject, SystemSpec};
use crate::ycsb::core::{Core, YcsbKind, YcsbOp};
use crate::ycsb::{self, FIELD_BYTES, RECORD_BYTES};

/// Bytes of the text that values are cut from.
const TEXT_BYTES: usize = 1 << 20;

/// Where records are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Where {
    /// On a medium; a tree holds their numbers.
    Heap,
    /// In a store of byte strings.
    Bytes,
}

/// The type of keys.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeyType {
    /// The number behind `user`, 8 bytes (Circ-Tree §6.1).
    #[default]
    U64,
    /// `user` and the number.
    String,
}

/// The parameters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ycsb {
    system: String,
    store: Where,
    /// Core workloads, one after the other, joined by `+`: a to f.
    workload: String,
    /// Records that each thread loads.
    keys: u64,
    /// Operations of each thread in each workload.
    ops: u64,
    #[serde(default = "super::kind::one")]
    threads: u64,
    #[serde(default)]
    key: KeyType,
    /// Of the heap and of the tree.
    medium: Option<MediumName>,
    /// Of the tree.
    slots: Option<u32>,
    /// Of a store of byte strings.
    #[serde(default)]
    mode: SyncMode,
}

/// The target as one thread works with it.
trait Client {
    fn insert(&mut self, item: u64, record: &[u8]) -> Result<()>;
    fn read(&mut self, item: u64) -> Result<()>;
    fn update(&mut self, item: u64, field: usize, bytes: &[u8]) -> Result<()>;
    fn scan(&mut self, item: u64, limit: usize) -> Result<()>;
}

/// The target that threads work on.
trait YcsbTarget: Sync {
    fn client(&self) -> Box<dyn Client + '_>;

    /// Counts of what the tree and the heap have flushed, if their media count.
    fn counts(&self) -> Option<[Counts; 2]> {
        None
    }
}

/// A tree and the records behind it.
struct TreeTarget {
    tree: Box<dyn Subject>,
    heap: Box<dyn Heap>,
}

struct TreeClient<'a> {
    of: &'a TreeTarget,
    room: Room,
    record: Vec<u8>,
}

impl YcsbTarget for TreeTarget {
    fn client(&self) -> Box<dyn Client + '_> {
        let (room, record) = (Room::default(), vec![0; RECORD_BYTES]);
        Box::new(TreeClient { of: self, room, record })
    }

    fn counts(&self) -> Option<[Counts; 2]> {
        Some([self.tree.counts()?, self.heap.counts()?])
    }
}

impl TreeClient<'_> {
    fn find(&self, item: u64) -> Result<u64> {
        self.of.tree.index().get(ycsb::hash(item))?.context("a record is not there")
    }
}

impl Client for TreeClient<'_> {
    fn insert(&mut self, item: u64, record: &[u8]) -> Result<()> {
        let number = self.of.heap.add(&mut self.room, record)?;
        let old = self.of.tree.index().insert(ycsb::hash(item), number)?;
        ensure!(old.is_none(), "a record was there before");
        Ok(())
    }

    fn read(&mut self, item: u64) -> Result<()> {
        self.of.heap.read(self.find(item)?, &mut self.record)?;
        black_box(&self.record);
        Ok(())
    }

    fn update(&mut self, item: u64, field: usize, bytes: &[u8]) -> Result<()> {
        let record = self.find(item)?;
        self.of.heap.write(&mut self.room, record, field, bytes)
    }

    fn scan(&mut self, item: u64, limit: usize) -> Result<()> {
        let from = Bound::Included(ycsb::hash(item));
        let found = self.of.tree.index().range(from, Bound::Unbounded, limit)?;
        ensure!(!found.is_empty(), "a record is not there");
        for (_, number) in found {
            self.of.heap.read(number, &mut self.record)?;
            black_box(&self.record);
        }
        Ok(())
    }
}

/// A store of byte strings.
struct ByteTarget {
    store: Box<dyn KvStore>,
    key: KeyType,
}

struct ByteClient<'a> {
    of: &'a ByteTarget,
    record: Vec<u8>,
}

impl YcsbTarget for ByteTarget {
    fn client(&self) -> Box<dyn Client + '_> {
        Box::new(ByteClient { of: self, record: Vec::with_capacity(RECORD_BYTES) })
    }
}

impl ByteClient<'_> {
    fn key(&self, item: u64) -> Vec<u8> {
        match self.of.key {
            KeyType::U64 => ycsb::hash(item).to_be_bytes().into(),
            KeyType::String => ycsb::name(item).into(),
        }
    }

    fn copy(&mut self, key: &[u8]) -> Result<()> {
        let record = &mut self.record;
        record.clear();
        let found = self.of.store.get(key, &mut |bytes| record.extend_from_slice(bytes))?;
        ensure!(found && self.record.len() == RECORD_BYTES, "a record is not there");
        Ok(())
    }
}

impl Client for ByteClient<'_> {
    fn insert(&mut self, item: u64, record: &[u8]) -> Result<()> {
        self.of.store.put(&self.key(item), record)
    }

    fn read(&mut self, item: u64) -> Result<()> {
        self.copy(&self.key(item))?;
        black_box(&self.record);
        Ok(())
    }

    fn update(&mut self, item: u64, field: usize, bytes: &[u8]) -> Result<()> {
        let key = self.key(item);
        self.copy(&key)?;
        self.record[field * FIELD_BYTES..(field + 1) * FIELD_BYTES].copy_from_slice(bytes);
        self.of.store.put(&key, &self.record)
    }

    fn scan(&mut self, item: u64, limit: usize) -> Result<()> {
        let (key, record) = (self.key(item), &mut self.record);
        let found = self.of.store.scan_cursor(&key, limit, &mut |_, bytes| {
            record.clear();
            record.extend_from_slice(bytes);
            black_box(&record);
        })?;
        ensure!(found > 0, "a record is not there");
        Ok(())
    }
}

/// The state that all threads share.
struct YcsbRun<'a> {
    target: &'a dyn YcsbTarget,
    text: &'a [u8],
    threads: u64,
    /// Items that are there before the workloads.
    loaded: u64,
    /// Whether an item that a workload inserts is there, from `loaded` on.
    inserted: Vec<AtomicBool>,
    failed: AtomicBool,
}

/// The times of each kind of operation, of one phase.
type Kinds = BTreeMap<YcsbKind, Times>;

impl YcsbRun<'_> {
    /// Bytes for item or operation i.
    fn cut(&self, i: u64, bytes: usize) -> &[u8] {
        let from = crate::keys::key(i) as usize % (self.text.len() - bytes);
        &self.text[from..from + bytes]
    }

    /// Waits until an item is there, if another thread is to insert it; returns whether it waited.
    fn wait(&self, op: YcsbOp) -> Result<bool> {
        let Some(at) = u64::from(op.item).checked_sub(self.loaded) else { return Ok(false) };
        let there =
            || op.kind == YcsbKind::Insert || self.inserted[at as usize].load(Ordering::Acquire);
        if there() {
            return Ok(false);
        }
        while !there() {
            ensure!(!self.failed.load(Ordering::Relaxed), "another thread has failed");
            std::thread::yield_now();
        }
        Ok(true)
    }

    fn one(&self, client: &mut dyn Client, i: u64, op: YcsbOp) -> Result<()> {
        let (item, extra) = (u64::from(op.item), usize::from(op.extra));
        match op.kind {
            YcsbKind::Read => client.read(item),
            YcsbKind::Update => client.update(item, extra, self.cut(i, FIELD_BYTES)),
            YcsbKind::Scan => client.scan(item, extra),
            YcsbKind::Modify => {
                client.read(item)?;
                client.update(item, extra, self.cut(i, FIELD_BYTES))
            }
            YcsbKind::Insert => {
                client.insert(item, self.cut(item, RECORD_BYTES))?;
                if let Some(at) = item.checked_sub(self.loaded) {
                    self.inserted[at as usize].store(true, Ordering::Release);
                }
                Ok(())
            }
        }
    }

    /// The operations of thread t.
    fn thread(&self, ops: impl Iterator<Item = (u64, YcsbOp)>) -> Result<Kinds> {
        let mut client = self.target.client();
        let mut kinds = Kinds::new();
        let mut before = Instant::now();
        for (i, op) in ops {
            if self.wait(op)? {
                before = Instant::now();
            }
            self.one(&mut *client, i, op)?;
            let now = Instant::now();
            kinds.entry(op.kind).or_default().add((now - before).as_nanos() as u64);
            before = now;
        }
        Ok(kinds)
    }

    /// A phase on all threads.
    fn phase<I: Iterator<Item = (u64, YcsbOp)>>(
        &self,
        name: &str,
        ops: impl Fn(u64) -> I + Sync,
    ) -> Result<Figures> {
        let before = self.target.counts();
        let start = Instant::now();
        let all = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..self.threads)
                .map(|t| {
                    let ops = &ops;
                    scope.spawn(move || {
                        let kinds = self.thread(ops(t));
                        self.failed.fetch_or(kinds.is_err(), Ordering::Relaxed);
                        kinds
                    })
                })
                .collect();
            let joined = threads.into_iter().map(|thread| thread.join().expect("no panic"));
            joined.collect::<Result<Vec<Kinds>>>()
        })?;
        let took = start.elapsed();
        let mut kinds = Kinds::new();
        for (kind, times) in all.iter().flatten() {
            kinds.entry(*kind).or_default().merge(times);
        }
        let count = kinds.values().map(Times::count).sum::<u64>() as f64;
        if let (Some([tree, heap]), Some(first)) = (self.target.counts(), before) {
            let (tree, heap) = (tree - first[0], heap - first[1]);
            return Ok(vec![
                (format!("{name}_tree_lines"), tree.flushes as f64 / count),
                (format!("{name}_heap_lines"), heap.flushes as f64 / count),
                (format!("{name}_fences"), (tree.fences + heap.fences) as f64 / count),
            ]);
        }
        let mut figures = vec![(format!("{name}_kops"), count / took.as_secs_f64() / 1e3)];
        for (kind, times) in kinds {
            figures.extend(times.figures(&format!("{name}_{}", kind.name())));
        }
        Ok(figures)
    }
}

impl Ycsb {
    fn cores(&self) -> Result<Vec<(&str, Core)>> {
        self.workload.split('+').map(|name| Ok((name, name.parse()?))).collect()
    }

    /// The operations of each workload: what one inserts is there for the next.
    fn streams(&self, seed: u64) -> Result<Vec<(&str, Vec<YcsbOp>)>> {
        let mut items = self.keys * self.threads;
        let mut streams = Vec::new();
        for (i, (name, core)) in self.cores()?.into_iter().enumerate() {
            let stream = core.stream(items, self.ops * self.threads, seed + i as u64)?;
            items += stream.iter().filter(|op| op.kind == YcsbKind::Insert).count() as u64;
            streams.push((name, stream));
        }
        Ok(streams)
    }

    fn tree<'a>(&'a self, keys: u64, context: &'a Context) -> Result<SystemSpec<'a>> {
        Ok(SystemSpec {
            name: &self.system,
            medium: self.medium.context("a tree is on a medium")?,
            slots: self.slots.context("a tree has slots")?,
            keys,
            readers: Readers::default(),
            epoch: Some(Duration::from_millis(50)),
            epoch_ops: None,
            scratch: &context.scratch,
            dax: context.dax.as_deref(),
        })
    }

    fn trees(&self, records: u64, updates: u64, context: &Context) -> Result<TreeTarget> {
        let make = self.tree(records, context)?;
        // Each thread takes room of its own in the load and in each workload.
        let rooms = self.threads * (1 + self.cores()?.len() as u64);
        let sizes = [records, updates, rooms];
        let heap = kv::make(make.medium, sizes, &context.scratch, context.dax.as_deref())?;
        Ok(TreeTarget { tree: make.make()?, heap })
    }

    /// All phases.
    fn phases(
        &self,
        target: &dyn YcsbTarget,
        streams: &[(&str, Vec<YcsbOp>)],
        inserts: usize,
        seed: u64,
    ) -> Result<Figures> {
        let run = YcsbRun {
            target,
            text: &ycsb::text(TEXT_BYTES, &mut Xoshiro256PlusPlus::seed_from_u64(seed)),
            threads: self.threads,
            loaded: self.keys * self.threads,
            inserted: (0..inserts).map(|_| AtomicBool::new(false)).collect(),
            failed: AtomicBool::new(false),
        };
        let insert = |item| (item, YcsbOp { kind: YcsbKind::Insert, extra: 0, item: item as u32 });
        let mut figures =
            run.phase("load", |t| (t * self.keys..(t + 1) * self.keys).map(insert))?;
        for (name, stream) in streams {
            let threads = self.threads as usize;
            figures.extend(run.phase(name, |t| {
                let dealt = stream.iter().enumerate().skip(t as usize).step_by(threads);
                dealt.map(|(i, op)| (i as u64, *op))
            })?);
        }
        Ok(figures)
    }
}

impl Measure for Ycsb {
    fn check(&self) -> Result<()> {
        self.cores()?;
        ensure!(self.keys >= 3 && self.ops > 0 && self.threads > 0, "too few keys, ops or threads");
        let items = self.keys + self.ops * self.cores()?.len() as u64;
        ensure!(items * self.threads < 1 << 32, "too many keys");
        match self.store {
            Where::Heap => {
                let here = Context::default();
                ensure!(self.key == KeyType::U64, "trees of a heap have keys of 8 bytes");
                ensure!(self.mode == SyncMode::Buffered, "mode is for stores of byte strings");
                let make = self.tree(self.keys, &here)?;
                ensure!(!matches!(make.medium, MediumName::File(_)), "no heap is on a file");
                make.check()
            }
            Where::Bytes => {
                ensure!(
                    self.medium.is_none() && self.slots.is_none(),
                    "medium and slots are for heaps"
                );
                ensure!(!store::has_words_only(&self.system), "its values have 8 bytes");
                store::check(&self.system, self.mode)
            }
        }
    }

    fn lacks(&self, _context: &Context) -> Option<String> {
        match self.store {
            Where::Heap => None,
            Where::Bytes => store::lacks(&self.system),
        }
    }

    fn run(&self, context: &Context, _round: u32) -> Result<Figures> {
        let streams = self.streams(context.seed)?;
        let count = |kinds: &[YcsbKind]| {
            let ops = streams.iter().flat_map(|(_, stream)| stream);
            ops.filter(|op| kinds.contains(&op.kind)).count()
        };
        let inserts = count(&[YcsbKind::Insert]);
        let updates = count(&[YcsbKind::Update, YcsbKind::Modify]) as u64;
        let records = self.keys * self.threads + inserts as u64;
        if self.store == Where::Heap {
            let trees = self.trees(records, updates, context)?;
            return self.phases(&trees, &streams, inserts, context.seed);
        }
        let dir = tempfile::tempdir_in(&context.scratch)?;
        let how = How { dir: dir.path().into(), mode: self.mode, ..How::default() };
        let bytes = ByteTarget { store: store::open(&self.system, &how)?, key: self.key };
        let figures = self.phases(&bytes, &streams, inserts, context.seed)?;
        bytes.store.close()?;
        Ok(figures)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ycsb(text: &str) -> Result<Ycsb> {
        Ok(toml::from_str(text)?)
    }

    fn figures(text: &str) -> Figures {
        let scratch = tempfile::tempdir().expect("a folder");
        let context = Context { seed: 1, scratch: scratch.path().into(), dax: None };
        let ycsb = ycsb(text).expect("parameters");
        ycsb.check().expect("they make sense");
        ycsb.run(&context, 1).expect("it runs")
    }

    #[test]
    fn all_workloads_run_on_both_kinds_of_store() {
        let rest = "workload = 'a+b+c+d+e+f'\nkeys = 200\nops = 300\nthreads = 2";
        let heap = "system = 'CircTree'\nstore = 'heap'\nmedium = 'dram'\nslots = 32";
        let bytes = "system = 'btreemap'\nstore = 'bytes'\nkey = 'string'";
        for target in [heap, bytes] {
            let figures = figures(&format!("{target}\n{rest}"));
            for metric in ["load_insert_p99_ns", "a_update_geo_ns", "d_insert_max_ns", "e_kops"] {
                assert!(figures.iter().any(|(name, _)| name == metric), "{metric}: {figures:?}");
            }
        }
    }

    #[test]
    fn a_heap_counts_the_lines_of_records_and_of_updates() {
        let figures = figures(
            "system = 'FastFair'\nstore = 'heap'\nmedium = 'counted'\nslots = 32\n\
             workload = 'a'\nkeys = 500\nops = 1000",
        );
        let of = |name: &str| figures.iter().find(|(own, _)| own == name).expect("there").1;
        assert_eq!(of("load_heap_lines"), 22.0);
        // Half of the operations are updates, of three lines each; the tree is not touched.
        assert!((of("a_heap_lines") - 1.5).abs() < 0.2 && of("a_tree_lines") == 0.0);
        assert!(of("load_tree_lines") > 3.0);
    }

    #[test]
    fn parameters_that_make_no_sense_are_refused() {
        let rest = "workload = 'a'\nkeys = 10\nops = 10\n";
        for wrong in [
            "system = 'CircTree'\nstore = 'heap'\nmedium = 'dram'",
            "system = 'CircTree'\nstore = 'heap'\nslots = 32",
            "system = 'CircTree'\nstore = 'heap'\nmedium = 'dram'\nslots = 32\nkey = 'string'",
            "system = 'CircTree'\nstore = 'heap'\nmedium = 'file'\nslots = 32",
            "system = 'btreemap'\nstore = 'bytes'\nmedium = 'dram'",
            "system = 'everleaf-index'\nstore = 'bytes'",
        ] {
            assert!(
                ycsb(&format!("{rest}{wrong}")).expect("it parses").check().is_err(),
                "{wrong}"
            );
        }
    }
}
