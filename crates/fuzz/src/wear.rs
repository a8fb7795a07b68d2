//! Uses a pool that may lie, for writing, until all work in the background is done: reads and writes of
//! all kinds, walks that write on their way, transactions, snapshots, trees that come and go, checkpoints,
//! a compaction, a backup, a close, and all of that again.
//!
//! There must be no panic, no step without an end, no memory that the file does not justify, and no
//! error that blames the disk.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use everleaf::{Db, Options, Pair, Tree};
use everleaf_file::io::{Access, Fault, Io, SimIo};

use crate::exercise::typed;
use crate::parts::POOL;
use crate::script;

/// Trees that are used, at most.
const TREES_MAX: usize = 12;
/// Calls of the disk that one use of a pool may make. The most that was seen in 100,000 trials is a tenth.
const CALLS_MAX: u64 = 200_000;
/// Where copies go.
const COPY: &str = "/pool/copy.ever";

/// How a pool is used.
#[derive(Debug, Clone, Copy)]
pub struct Use {
    how: u8,
}

impl Use {
    /// The use that a byte encodes.
    pub fn of(how: u8) -> Self {
        Self { how }
    }

    fn options(self, read_only: bool) -> Options {
        let options = Options::new().background(false).create(false).journal_bytes(1 << 20);
        let options = options.read_only(read_only);
        let options = if self.how & 1 == 0 { options } else { options.memory(1 << 20) };
        match self.how & 6 {
            0 => options.max_bytes(1 << 28),
            2 => options.max_bytes(1 << 40),
            _ => options,
        }
    }
}

/// Opens the pool and uses all of it, twice.
///
/// # Panics
/// On a violation.
pub fn wear(disk: &SimIo, how: &Use) {
    let limit = disk.calls() + CALLS_MAX;
    disk.fail_at(limit, Fault::Io);
    if how.how & 8 != 0 {
        once(disk, &how.options(true), *how, 2);
    }
    for time in 0..2 {
        once(disk, &how.options(false), *how, time);
    }
    assert!(disk.calls() < limit, "{CALLS_MAX} calls, and no end");
}

/// No walk gives more pairs than there are slots of 8 bytes in images of pages, or in the journal.
fn pairs_bound(disk: &SimIo) -> usize {
    let file = disk.open(Path::new(POOL), Access::Read).ok();
    file.map_or(0, |file| file.len().expect("no fault") as usize) / 8 + 1000
}

/// The longest time that an open of a pool has taken of the processor, in ns.
static LONGEST_OPEN: AtomicU64 = AtomicU64::new(0);

/// The longest time that an open has taken of the processor so far: it is the same on a busy machine.
pub fn longest_open() -> Duration {
    Duration::from_nanos(LONGEST_OPEN.load(Relaxed))
}

/// The most memory that a simulated disk took when somebody looked.
static DISK_BYTES: AtomicU64 = AtomicU64::new(0);

/// The most memory that a simulated disk took when somebody looked, since the last call of this: a root that names very
/// many pages makes the file many times as long, since each checkpoint writes it.
pub fn take_disk_bytes() -> u64 {
    DISK_BYTES.swap(0, Relaxed)
}

/// How long this thread has run, in ns; 0 if the system does not say.
fn thread_time() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

fn once(disk: &SimIo, options: &Options, how: Use, time: u8) {
    let bound = pairs_bound(disk);
    let begun = thread_time();
    let opened = script::open(disk, options);
    LONGEST_OPEN.fetch_max(thread_time().saturating_sub(begun), Relaxed);
    let Some(db) = typed(opened) else { return };
    if how.how & 16 != 0 {
        typed(db.check());
    }
    let trees = trees(&db);
    for tree in &trees {
        read(tree, bound);
    }
    let snapshot = typed(db.snapshot());
    for (no, tree) in trees.iter().enumerate() {
        write(tree, no, time);
        write_on_the_way(tree, time, bound);
        transact(&db, tree, time, bound);
    }
    typed(db.sync());
    if how.how & 32 != 0 {
        typed(db.checkpoint());
    }
    come_and_go(&db, &trees, time);
    if let Some(snapshot) = &snapshot {
        for tree in &trees {
            if let Some(before) = typed(snapshot.of(tree)) {
                walk(before.iter(), bound);
                walk(before.iter().rev(), bound);
            }
        }
    }
    drop(snapshot);
    typed(db.sync());
    typed(db.checkpoint());
    if how.how & 64 != 0 {
        typed(db.compact());
        typed(db.backup(format!("{COPY}{time}")));
    }
    DISK_BYTES.fetch_max(disk.memory_bytes(), Relaxed);
    trees.iter().for_each(|tree| read(tree, bound));
    typed(db.stats());
    typed(db.count());
    typed(db.check());
    if how.how & 128 == 0 {
        typed(db.close());
    }
}

fn trees(db: &Db) -> Vec<Tree> {
    let names = typed(db.tree_names()).unwrap_or_default();
    let found = names.iter().take(TREES_MAX).map(|name| db.open_tree(name));
    let mut trees: Vec<Tree> = found.filter_map(|tree| typed(tree).flatten()).collect();
    trees.extend(typed(db.tree("made now")));
    trees
}

fn walk(pairs: impl Iterator<Item = everleaf::Result<Pair>>, bound: usize) {
    for (n, pair) in pairs.enumerate() {
        assert!(n <= bound, "an iteration without an end");
        if typed(pair).is_none() {
            break;
        }
    }
}

fn read(tree: &Tree, bound: usize) {
    walk(tree.iter(), bound);
    walk(tree.iter().rev(), bound);
    for key in [&b""[..], b"k", &[37, 0], &[0xff; 40], b"a common prefix of some length 005, 0"] {
        typed(tree.get(key));
        typed(tree.value_len(key));
        let mut some = [0; 40];
        typed(tree.read_at(key, 3000, &mut some));
    }
    typed(tree.first());
    typed(tree.last());
    typed(tree.len());
}

fn write(tree: &Tree, no: usize, time: u8) {
    let keys = tree.keys().take(24).map_while(typed);
    let keys: Vec<_> = keys.collect();
    for (i, key) in keys.iter().enumerate() {
        match (i + no) % 4 {
            0 => drop(typed(tree.remove(key))),
            1 => drop(typed(tree.put(key, [time; 30]))),
            2 => drop(typed(tree.put(key, [time; 200]))),
            _ => drop(typed(tree.put([key, &b"x"[..]].concat(), b""))),
        }
    }
    for i in 0..24_u8 {
        typed(tree.put([i.wrapping_mul(53), i, time], [i; 20]));
    }
    typed(tree.put(b"large", vec![time; 3000 + 500 * no]));
    typed(tree.put(b"a larger one", vec![time; 20_000]));
    typed(tree.delete(b"large"));
    typed(tree.pop_first());
    typed(tree.pop_last());
    typed(tree.remove_range(&[100_u8][..]..&[140_u8][..]));
}

/// Writes what it walks over, so that each step finds another leaf than the one before.
fn write_on_the_way(tree: &Tree, time: u8, bound: usize) {
    let write = |nth: usize, key: &[u8]| {
        if nth.is_multiple_of(2) {
            typed(tree.put(key, [time; 20]));
        }
    };
    for (n, key) in tree.keys().map_while(typed).enumerate() {
        assert!(n <= bound, "an iteration without an end");
        write(n, &key);
    }
    for (n, key) in tree.keys().rev().map_while(typed).enumerate() {
        assert!(n <= bound, "a reverse iteration without an end");
        write(n, &key);
    }
}

/// Reads a tree both ways in a transaction, writes to it, and commits.
fn transact(db: &Db, tree: &Tree, time: u8, bound: usize) {
    let tx = db.begin();
    typed(tx.put(tree, b"in a transaction", [time; 30]));
    let mut cursor = tx.cursor(tree);
    let mut n = 0;
    while typed(cursor.next()) == Some(true) {
        assert!(n <= bound, "a cursor without an end");
        n += 1;
        if n % 3 == 0 {
            typed(cursor.key().map_or(Ok(()), |key| tx.delete(tree, key)));
        }
    }
    drop(cursor);
    walk(tx.iter(tree).rev(), bound);
    typed(tx.floor(tree, [100]));
    typed(tx.pop_first(tree));
    typed(tx.pop_last(tree));
    typed(tx.commit());
}

/// Trees that are dropped, cleared, renamed and made.
fn come_and_go(db: &Db, trees: &[Tree], time: u8) {
    let mut batch = db.batch();
    for tree in trees.iter().take(3) {
        typed(batch.put(tree, b"of a batch", [time; 40]));
        typed(batch.delete(tree, b"a larger one"));
    }
    typed(batch.commit());
    for (no, tree) in trees.iter().enumerate() {
        match (no + usize::from(time)) % 4 {
            0 => drop(typed(db.drop_tree(tree.name()))),
            1 => drop(typed(tree.clear())),
            2 => drop(typed(db.rename_tree(tree.name(), &format!("{}, {time}", tree.name())))),
            _ => {}
        }
    }
    if let Some(new) = typed(db.tree("a new one")) {
        typed(new.put(b"large", vec![time; 6000]));
        typed(new.put(b"small", [time]));
    }
}
