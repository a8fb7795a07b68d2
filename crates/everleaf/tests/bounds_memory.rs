//! The bounds of memory count for images, for transactions and for batches what the allocator has given for them. How
//! often reads ask it is counted, too. A program of its own, because memory is counted for the whole process.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use everleaf::{Db, Error, Options};

/// Bytes that are allocated, as an allocator rounds them: with a head of its own, and in pieces of 16.
static ALLOCATED: AtomicU64 = AtomicU64::new(0);
/// How often somebody has asked for memory.
static CALLS: AtomicU64 = AtomicU64::new(0);

struct Counting;

fn rounded(bytes: usize) -> u64 {
    (bytes as u64 + 8).next_multiple_of(16).max(32)
}

// SAFETY: all is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(rounded(layout.size()), Ordering::Relaxed);
        CALLS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(rounded(layout.size()), Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// One test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How often memory is asked for.
fn calls(during: impl FnOnce()) -> u64 {
    let before = CALLS.load(Ordering::Relaxed);
    during();
    CALLS.load(Ordering::Relaxed) - before
}

fn allocated() -> u64 {
    ALLOCATED.load(Ordering::Relaxed)
}

/// Keys that are spread, and those that rise.
fn key(i: u64, bytes: usize, is_spread: bool) -> Vec<u8> {
    let n = if is_spread { i.wrapping_mul(0x9E37_79B9_7F4A_7C15) } else { i };
    let mut key = n.to_be_bytes().to_vec();
    key.resize(bytes, 7);
    key
}

/// The lengths of keys and values.
const PAIRS: [(usize, usize); 4] = [(8, 8), (8, 100), (16, 1000), (16, 0)];
const BOUND: u64 = 2 << 20;
/// A bound is kept to within a list of keys, and the list of those.
const LIST_BYTES: u64 = 16 << 10;

/// Whether a figure is what was allocated, give or take a quarter.
#[track_caller]
fn assert_like(figure: u64, taken: u64, what: &str) {
    println!("{what}: {figure} bytes by the figures, {taken} by the allocator");
    assert!(figure.abs_diff(taken) <= taken / 4, "{what}: {figure} and not {taken} bytes");
}

fn open(dir: &std::path::Path) -> Db {
    let options = Options::new().snapshot_memory(BOUND).transaction_memory(BOUND);
    // No thread but this one allocates.
    options.background(false).memory(256 << 20).open(dir.join("p")).expect("opens")
}

#[test]
fn what_snapshots_keep_is_counted_as_it_is_allocated() {
    let _alone = alone();
    for (key_bytes, value_bytes) in PAIRS {
        for is_spread in [false, true] {
            let what = format!("images of {key_bytes} + {value_bytes}, spread: {is_spread}");
            let dir = tempfile::tempdir().expect("a directory");
            let db = open(dir.path());
            let tree = db.tree("t").expect("room");
            // So many that the bound is nearly reached; twice, so that pages and buffers are there.
            let n = (BOUND - (BOUND >> 4)) / (170 + value_bytes as u64);
            let put_all = |byte: u8| {
                let value = vec![byte; value_bytes];
                for i in 0..n {
                    tree.put(key(i, key_bytes, is_spread), &value).expect("room");
                    if i % 256 == 0 {
                        db.sync().expect("no fault");
                    }
                }
                db.sync().expect("no fault");
                db.checkpoint().expect("no fault");
            };
            put_all(1);
            put_all(2);
            let before = allocated();
            put_all(3);
            let noise = allocated().abs_diff(before);
            let snapshot = db.snapshot().expect("open");
            let before = allocated();
            put_all(4);
            // A reader that looks for one has all of them sorted.
            let seen = snapshot.tree("t").expect("open").expect("there");
            assert!(seen.contains(key(0, key_bytes, is_spread)).expect("sound"));
            drop(seen);
            let taken = allocated() - before;
            let stats = db.stats().expect("open");
            assert_eq!(stats.snapshot_values, n, "{what}: the snapshot was given up");
            assert!(noise < taken / 10, "{what}: {noise} bytes of {taken} are something else");
            assert_like(stats.snapshot_bytes, taken, &what);
            // A second version of each key, and then none.
            let second = db.snapshot().expect("open");
            let few = (n / 20).max(1);
            (0..few).for_each(|i| tree.put(key(i, key_bytes, is_spread), [5]).expect("room"));
            // A write that found no room in its leaf may have kept it twice, until they are sorted; and the list's room was
            // counted before, so they may fit.
            let more = db.stats().expect("open");
            assert!(more.snapshot_values >= n + few, "{what}: {}", more.snapshot_values);
            assert!(more.snapshot_bytes >= stats.snapshot_bytes, "{what}");
            drop((snapshot, second));
            let stats = db.stats().expect("open");
            assert_eq!((stats.snapshot_bytes, stats.snapshot_values), (0, 0), "{what}");
            assert!(allocated().abs_diff(before) < taken / 5, "{what}: something is left");
        }
    }
}

/// Fills until it is refused; says how many went in.
fn fill(mut add: impl FnMut(u64) -> everleaf::Result<()>) -> u64 {
    for i in 0.. {
        match add(i) {
            Ok(()) => {}
            Err(Error::TransactionTooLarge { bytes, bytes_max }) => {
                assert!(bytes > bytes_max && bytes_max == BOUND, "{bytes} of {bytes_max}");
                return i;
            }
            Err(error) => panic!("{error}"),
        }
    }
    unreachable!("a number has an end")
}

#[test]
fn a_transaction_takes_what_it_may_and_no_more() {
    let _alone = alone();
    let dir = tempfile::tempdir().expect("a directory");
    let db = open(dir.path());
    let tree = db.tree("t").expect("room");
    for (key_bytes, value_bytes) in PAIRS {
        for is_spread in [false, true] {
            let what = format!("writes of {key_bytes} + {value_bytes}, spread: {is_spread}");
            let (tx, value) = (db.begin(), vec![1; value_bytes]);
            let before = allocated();
            let n = fill(|i| tx.put(&tree, key(i, key_bytes, is_spread), &value));
            assert!(n > 500, "{what}: {n} writes");
            let taken = allocated() - before;
            assert_like(db.stats().expect("open").transaction_bytes, taken, &what);
            assert!(taken <= BOUND + LIST_BYTES, "{what}: {taken} bytes");
            // It is as it was: what it has can be read, changed and removed, and it can be rolled back.
            let first = key(0, key_bytes, is_spread);
            assert_eq!(tx.get(&tree, &first).expect("its own").as_deref(), Some(&value[..]));
            assert!(!tx.contains(&tree, key(n, key_bytes, is_spread)).unwrap_or(false));
            tx.delete(&tree, &first).expect("that takes nothing");
            tx.abort();
            assert_eq!(db.stats().expect("open").transaction_bytes, 0, "{what}");
        }
    }
    assert!(tree.is_empty().expect("sound"));
}

#[test]
fn what_a_transaction_has_read_counts() {
    let _alone = alone();
    let dir = tempfile::tempdir().expect("a directory");
    let db = open(dir.path());
    let tree = db.tree("t").expect("room");
    tree.put("there", "").expect("room");
    let tx = db.begin();
    assert!(tx.contains(&tree, "there").expect("sound"));
    let before = allocated();
    let n = fill(|i| tx.get(&tree, key(i, 16, true)).map(drop));
    assert!(n > 500, "{n} reads");
    let taken = allocated() - before;
    assert_like(db.stats().expect("open").transaction_bytes, taken, "reads");
    // Earlier reads are still validated.
    tree.put("there", "changed").expect("room");
    assert!(tx.put(&tree, "k", "").is_err(), "there is no room");
    drop(tx);
    // A scan is one span, however long it is.
    (0..5_000).for_each(|i| tree.put(key(i, 16, true), [0; 8]).expect("room"));
    for down in [false, true] {
        let tx = db.begin();
        let range = tx.iter(&tree);
        assert_eq!(if down { range.rev().count() } else { range.count() }, 5_001);
        assert!(db.stats().expect("open").transaction_bytes < 8192);
        tx.put(&tree, "last", "").expect("room");
        tx.commit().expect("nobody is in its way");
        tree.delete("last").expect("memory");
    }
}

#[test]
fn to_remove_a_range_that_is_too_large_removes_nothing() {
    let _alone = alone();
    let dir = tempfile::tempdir().expect("a directory");
    let db = open(dir.path());
    let tree = db.tree("t").expect("room");
    (0..40_000).for_each(|i| tree.put(key(i, 16, false), "").expect("room"));
    let tx = db.begin();
    let removed = tx.clear(&tree);
    assert!(matches!(removed, Err(Error::TransactionTooLarge { .. })), "{removed:?}");
    assert_eq!(tx.len(&tree).expect("sound"), 40_000);
    assert_eq!(tx.remove_range(&tree, ..key(1000, 16, false)).expect("room"), 1000);
    tx.commit().expect("nobody is in its way");
    assert_eq!(tree.len().expect("sound"), 39_000);
}

#[test]
fn a_batch_takes_what_it_may_and_no_more() {
    let _alone = alone();
    let dir = tempfile::tempdir().expect("a directory");
    let db = open(dir.path());
    let tree = db.tree("t").expect("room");
    for (key_bytes, value_bytes) in PAIRS {
        let what = format!("a batch of {key_bytes} + {value_bytes}");
        let (mut batch, value) = (db.batch(), vec![1; value_bytes]);
        let before = allocated();
        let n = fill(|i| batch.put(&tree, key(i, key_bytes, false), &value));
        let taken = allocated() - before;
        assert_eq!(batch.len() as u64, n);
        assert!(taken <= BOUND + LIST_BYTES, "{what}: {taken} bytes");
        assert_like(db.stats().expect("open").transaction_bytes, taken, &what);
        if key_bytes == 16 && value_bytes == 1000 {
            batch.commit().expect("room");
            assert_eq!(tree.len().expect("sound"), n);
        } else {
            drop(batch);
        }
        assert_eq!(db.stats().expect("open").transaction_bytes, 0, "{what}");
    }
}

#[test]
fn what_cursors_keep_is_counted_as_it_is_allocated() {
    let _alone = alone();
    // The last ones are read when they are asked for.
    for (key_bytes, value_bytes) in PAIRS.into_iter().chain([(3000, 8), (16, 20_000)]) {
        let what = format!("cursors of {key_bytes} + {value_bytes}");
        let dir = tempfile::tempdir().expect("a directory");
        let db = open(dir.path());
        let tree = db.tree("t").expect("room");
        for i in 0..500 {
            tree.put(key(i, key_bytes, false), vec![1; value_bytes]).expect("room");
        }
        let snapshot = db.snapshot().expect("open");
        let then = snapshot.tree("t").expect("open").expect("it was there");
        tree.put(key(3, key_bytes, false), vec![2; value_bytes]).expect("room");
        let bytes = || db.stats().expect("open").cursor_bytes;
        // So that all is in memory, and a thread's spare cursor is in use.
        let pairs: Vec<_> = tree.iter().collect::<Result<_, _>>().expect("whole");
        assert_eq!((pairs.len(), bytes()), (500, 0), "{what}: the iterator is gone");
        let mut own = tree.cursor();
        assert!(own.first().expect("whole"));
        let (mut cursors, mut ranges) = (Vec::with_capacity(128), Vec::with_capacity(64));
        let (before, told_before) = (allocated(), bytes());
        for i in 0..128 {
            let mut cursor = if i % 2 == 0 { tree.cursor() } else { then.cursor() };
            assert!(cursor.seek(key(i, key_bytes, false)).expect("whole"));
            for _ in 0..20 {
                assert!(cursor.next().expect("whole"));
            }
            assert_eq!(cursor.value().expect("whole").map(<[u8]>::len), Some(value_bytes));
            cursors.push(cursor);
        }
        for i in 0..64 {
            let mut range = tree.range(key(i, key_bytes, false)..key(400, key_bytes, false));
            for _ in 0..10 {
                range.next().expect("more").expect("whole");
                range.next_back().expect("more").expect("whole");
            }
            ranges.push(range);
        }
        let (taken, told) = (allocated() - before, bytes() - told_before);
        assert_like(told, taken, &what);
        // Another thread drops half of them.
        std::thread::scope(|scope| drop(scope.spawn(|| drop(cursors.split_off(64)))));
        drop((cursors, ranges, own));
        assert_eq!(bytes(), 0, "{what}");
    }
}

#[test]
fn a_range_asks_for_little_more_memory_than_a_cursor() {
    let _alone = alone();
    for (key_bytes, value_bytes) in [(8, 8), (30, 30), (16, 100), (60, 8)] {
        let what = format!("pairs of {key_bytes} + {value_bytes}");
        let dir = tempfile::tempdir().expect("a directory");
        let db = open(dir.path());
        let tree = db.tree("t").expect("room");
        for i in 0..1000 {
            tree.put(key(i, key_bytes, false), vec![1; value_bytes]).expect("room");
        }
        let mut cursor = tree.cursor();
        let (mut up, mut down) = (0, 0);
        for _ in 0..2 {
            up = calls(|| while cursor.next().expect("sound") {});
            down = calls(|| while cursor.prev().expect("sound") {});
        }
        drop(cursor);
        let from = key(200, key_bytes, false);
        let pass = || tree.range(&from..).take(100).for_each(|pair| drop(pair.expect("sound")));
        // The thread keeps memory of the first one.
        pass();
        let passed = calls(pass);
        // For bounds, and where a leaf ends.
        assert!(passed <= 8, "{what}: {passed} allocations for 100 pairs that nobody keeps");
        // Long keys and values share pieces of 4 KiB, at most one a leaf.
        let pieces = |bytes: usize| if bytes > 30 { 1000 * bytes as u64 / 3800 + 1 } else { 0 };
        let mut kept = Vec::with_capacity(1000);
        let taken = calls(|| kept.extend(tree.iter().map(|pair| pair.expect("sound"))));
        let most = up + 4 + pieces(key_bytes) + pieces(value_bytes);
        println!("{what}: {passed} for 100, {taken} for 1,000 that are kept; {up} for a cursor");
        assert!(taken <= most, "{what}: {taken} allocations for 1,000 pairs that are kept");
        assert_eq!(kept.len(), 1000);
        let keys = calls(|| tree.keys().rev().for_each(|key| drop(key.expect("sound"))));
        assert!(keys <= down + 8, "{what}: {keys} for 1,000 keys down; {down} for a cursor");
    }
}
