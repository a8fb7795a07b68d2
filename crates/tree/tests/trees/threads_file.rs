//! Threads that write, read and sync on a real file until the process is "killed": afterwards each
//! thread's operations are there up to one epoch, the same for all, and nothing else.
//!
//! `EVERLEAF_SCALE` says how many kills of each kind of tree (default 8), `EVERLEAF_SEED` where the
//! random numbers start; threads make each run different all the same.

use everleaf_testing::{seed_or, times};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use everleaf_file::File;
use everleaf_file::FileOptions;
use everleaf_file::io::RealIo;
use everleaf_tree::blink::Condition;
use everleaf_tree::{CircTree, FilePool, SlottedTree, StringTree};

use crate::cut::{Bytes, Content, Rng, Subject, compare, inspect};

const WRITERS: u64 = 4;
const READERS: u64 = 2;
const KEYS: u64 = 150;

/// The pairs that threads write: the number of an operation tells its key and its value.
trait Kind: Subject {
    fn key(thread: u64, place: u64) -> Bytes;
    fn value(thread: u64, i: u64) -> Bytes;
    /// Thread and number of the operation that wrote the value.
    fn origin(value: &[u8]) -> (u64, u64);
}

impl Kind for CircTree<File> {
    fn key(thread: u64, place: u64) -> Bytes {
        (place << 40 | thread).to_be_bytes().to_vec()
    }
    fn value(thread: u64, i: u64) -> Bytes {
        (thread << 56 | i).to_be_bytes().to_vec()
    }
    fn origin(value: &[u8]) -> (u64, u64) {
        let word = u64::from_be_bytes(value.try_into().expect("a word"));
        (word >> 56, word & ((1 << 56) - 1))
    }
}

impl Kind for StringTree<File> {
    fn key(thread: u64, place: u64) -> Bytes {
        let length = place % 7 * 9;
        format!("{place:03}/{:1$}/{thread}", "", length as usize).into_bytes()
    }
    /// All classes of records, and extents.
    fn value(thread: u64, i: u64) -> Bytes {
        let mut rng = Rng(thread << 56 | i);
        let filler = if rng.below(30) == 0 { rng.below(4000) } else { rng.below(240) };
        let mut value = (thread << 56 | i).to_be_bytes().to_vec();
        value.extend(crate::cut::bytes(&mut rng, filler as usize));
        value
    }
    fn origin(value: &[u8]) -> (u64, u64) {
        CircTree::origin(&value[..8])
    }
}

impl Kind for SlottedTree<File> {
    /// Neighbours of other threads in the same leaf; some keys are cut, and tie with others for long.
    fn key(thread: u64, place: u64) -> Bytes {
        let length = [0, 9, 40, 3, 58, 0, 200, 18][place as usize / 4 % 8];
        format!("{:02}/{:2$}/{place:03}/{thread}", place / 4, "", length as usize).into_bytes()
    }
    /// In the entry, around what an entry holds, in records and in extents.
    fn value(thread: u64, i: u64) -> Bytes {
        let mut rng = Rng(thread << 56 | i);
        let filler = match rng.below(30) {
            0 => rng.below(4000),
            1..6 => 50 + rng.below(12),
            _ => rng.below(70),
        };
        let mut value = (thread << 56 | i).to_be_bytes().to_vec();
        value.extend(crate::cut::bytes(&mut rng, filler as usize));
        value
    }
    fn origin(value: &[u8]) -> (u64, u64) {
        CircTree::origin(&value[..8])
    }
}

/// Operation `i` of a thread: a key, and its new value unless it is removed.
fn operation<T: Kind>(thread: u64, i: u64) -> (Bytes, Option<Bytes>) {
    let mut rng = Rng(!(thread << 56 | i));
    // Times of growth and times of shrinkage.
    let keep = if (i / 3000).is_multiple_of(2) { 8 } else { 3 };
    let key = T::key(thread, rng.below(KEYS));
    (key, (rng.below(10) < keep).then(|| T::value(thread, i)))
}

/// The work that a writer has done in this life of the process.
#[derive(Default)]
struct Done {
    /// For each operation the epoch that it landed in; the one before if it changed nothing.
    epochs: Vec<u64>,
    /// An epoch that was durable with all before it.
    synced: u64,
}

/// Writes until the pool is closed, or until told to stop.
fn write<T: Kind>(file: &File, tree: &T, thread: u64, first: u64, stop: &AtomicBool) -> Done {
    let mut done = Done::default();
    let mut last = 0;
    for i in first.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let (key, value) = operation::<T>(thread, i);
        let wrote = match &value {
            Some(value) => tree.put(&key, value, Condition::Always),
            None => tree.remove(&key),
        };
        // The kill comes as a refusal of the next step.
        let Ok((_, epoch)) = wrote else { break };
        last = epoch.unwrap_or(last);
        done.epochs.push(last);
        if i % 1999 == 0 && file.sync().is_ok() {
            done.synced = last;
        }
    }
    done
}

/// Reads what others write: each value is one that was written to its key, whole, and no older than
/// one seen before.
fn read<T: Kind>(tree: &T, seed: u64, stop: &AtomicBool) {
    let (mut rng, mut seen) = (Rng(seed), BTreeMap::<Bytes, u64>::new());
    let mut look = |key: Bytes, value: Bytes| {
        let (thread, i) = T::origin(&value);
        assert_eq!(operation::<T>(thread, i), (key.clone(), Some(value)), "never written");
        let before = seen.insert(key, i);
        assert!(before.is_none_or(|before| before <= i), "{i} after {before:?}");
    };
    while !stop.load(Ordering::Relaxed) {
        if rng.below(200) > 0 {
            let key = T::key(rng.below(WRITERS), rng.below(KEYS));
            if let Some(value) = tree.get(&key).expect("it reads") {
                look(key, value);
            }
        } else {
            let upwards = rng.below(2) == 0;
            let pairs = tree.all(upwards).expect("it reads");
            assert!(pairs.is_sorted_by(|a, b| a.0 != b.0 && (a.0 < b.0) == upwards), "unordered");
            pairs.into_iter().for_each(|(key, value)| look(key, value));
        }
    }
}

/// A pool over many lives of a process.
struct Lives {
    rng: Rng,
    /// How many operations of each thread are in the pool, and what it therefore holds.
    counts: [u64; WRITERS as usize],
    content: Content,
    /// The epoch that the last judgement recovered. The clock is no measure: epochs without changes
    /// end, too, and leave nothing behind.
    recovered: u64,
    operations: u64,
    lost: u64,
    checkpoints: u64,
}

impl Lives {
    /// Lets all threads run for a while, then kills the process or closes the pool.
    fn live<T: Kind>(&mut self, path: &Path) {
        let options = FileOptions {
            slots: T::SLOTS.max(16),
            max_pages: 20_000,
            journal_bytes: 512 << 10,
            interval: Duration::from_millis(1 + self.rng.below(5)),
            create: true,
            ..FileOptions::default()
        };
        let mut pool =
            FilePool::open_for::<T::Kind>(Arc::new(RealIo), path, &options).expect("it opens");
        let tree = T::open(pool.pool()).expect("it opens");
        if self.rng.below(2) == 0 {
            compare(&tree, &self.content, "after the open");
            inspect(pool.pool(), &tree, self.content.len(), "after the open");
        }
        let kill = self.rng.below(4) != 0;
        let life = Duration::from_millis(self.rng.below(300));
        let file = pool.pool().medium();
        let done = self.run(file, &tree, kill, life);
        self.checkpoints += file.stats().checkpoints;
        if !kill {
            pool.close().expect("it closes");
        }
        drop((pool, tree));
        self.judge::<T>(path, &options, &done, kill);
    }

    fn run<T: Kind>(&mut self, file: &File, tree: &T, kill: bool, life: Duration) -> Vec<Done> {
        let (stop_writers, stop_readers) = (&AtomicBool::new(false), &AtomicBool::new(false));
        std::thread::scope(|scope| {
            let stop = |flag: &AtomicBool| flag.store(true, Ordering::Relaxed);
            let writing = scopeguard::guard(stop_writers, stop);
            let reading = scopeguard::guard(stop_readers, stop);
            let writers: Vec<_> = (0..)
                .zip(self.counts)
                .map(|(t, first)| scope.spawn(move || write(file, tree, t, first, stop_writers)))
                .collect();
            for _ in 0..READERS {
                let seed = self.rng.next();
                scope.spawn(move || read(tree, seed, stop_readers));
            }
            std::thread::sleep(life);
            if kill {
                file.abandon();
            } else {
                drop(writing);
            }
            let done = writers.into_iter().map(|w| w.join().expect("it ends")).collect();
            drop(reading);
            done
        })
    }

    /// Opens the pool again and holds it against the operations up to the recovered epoch.
    fn judge<T: Kind>(&mut self, path: &Path, options: &FileOptions, done: &[Done], killed: bool) {
        let options = FileOptions { background: false, ..options.clone() };
        let mut pool =
            FilePool::open_for::<T::Kind>(Arc::new(RealIo), path, &options).expect("it opens");
        let tree = T::open(pool.pool()).expect("it opens");
        let epoch = pool.pool().medium().durable_epoch();
        if !killed {
            let last = done.iter().filter_map(|done| done.epochs.last()).max();
            assert!(last.is_none_or(|last| *last <= epoch), "a clean close keeps all");
        }
        assert!(epoch >= self.recovered, "{epoch} recovered, {} was there", self.recovered);
        self.recovered = epoch;
        for (t, done) in (0..).zip(done) {
            assert!(done.synced <= epoch, "thread {t}: {} was synced, not {epoch}", done.synced);
            let kept = done.epochs.partition_point(|e| *e <= epoch) as u64;
            for i in 0..kept {
                let (key, value) = operation::<T>(t, self.counts[t as usize] + i);
                match value {
                    Some(value) => self.content.insert(key, value),
                    None => self.content.remove(&key),
                };
            }
            self.counts[t as usize] += kept;
            self.operations += kept;
            self.lost += done.epochs.len() as u64 - kept;
        }
        compare(&tree, &self.content, "after the kill");
        inspect(pool.pool(), &tree, self.content.len(), "after the kill");
        // Half of the time the next life starts with a journal.
        match self.rng.below(2) {
            0 => pool.close().expect("it closes"),
            _ => pool.pool().medium().abandon(),
        }
    }

    fn go<T: Kind>() {
        let (rounds, seed) = (times(8), seed_or(1));
        let dir = tempfile::tempdir().expect("a directory");
        let mut lives = Lives {
            rng: Rng(seed),
            counts: [0; WRITERS as usize],
            content: Content::new(),
            recovered: 0,
            operations: 0,
            lost: 0,
            checkpoints: 0,
        };
        for _ in 0..rounds {
            lives.live::<T>(&dir.path().join("p.ever"));
        }
        let Lives { operations, lost, checkpoints, .. } = lives;
        let name = T::NAME;
        println!("{name}: {rounds} lives, {operations} operations, {checkpoints} checkpoints");
        println!("{name}: kills took {lost} operations back");
        assert!(operations > 0);
    }
}

#[test]
fn threads_on_words_lose_the_same_epochs() {
    Lives::go::<CircTree<File>>();
}

#[test]
fn threads_on_strings_lose_the_same_epochs() {
    Lives::go::<StringTree<File>>();
}

#[test]
fn threads_on_slotted_nodes_lose_the_same_epochs() {
    Lives::go::<SlottedTree<File>>();
}

/// The keeper may be waiting for the batch, and closing waits for the keeper.
#[test]
fn a_pool_is_not_closed_inside_a_batch_and_goes_on_after_it() {
    use std::sync::Arc;
    let dir = tempfile::tempdir().expect("a directory");
    let options =
        FileOptions { slots: 16, max_pages: 2000, create: true, ..FileOptions::default() };
    let mut pool = FilePool::open(&dir.path().join("pool"), &options).expect("it opens");
    let shared = Arc::clone(pool.pool());
    let tree = CircTree::<File>::open(Arc::clone(&shared), everleaf_tree::INDEX_ANCHOR);
    let tree = tree.expect("room");
    {
        let _batch = shared.medium().pin_epoch();
        tree.put(&1, &1, Condition::Always).expect("room");
        let refused = pool.close();
        assert!(matches!(refused, Err(everleaf_pmem::Error::InsideBatch)), "{refused:?}");
    }
    tree.put(&2, &2, Condition::Always).expect("nothing was closed");
    shared.medium().checkpoint().expect("writes go on");
    pool.close().expect("after the batch");
}
