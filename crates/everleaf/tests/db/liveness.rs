//! No call waits for a disk that it does not need: values are read with nothing latched and nothing to
//! be validated afterwards, old values only for those who want them, and damage stops at its pair.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use everleaf::{Db, Error, Options, Pair, Tree};
use everleaf_file::io::SimIo;

use crate::cut;
use crate::cut::disk::{Call, Disk};

/// For what happens at once, or never.
const PATIENCE: Duration = Duration::from_secs(300);
const MIB: usize = 1 << 20;

/// So little that no value of 20,000 bytes or more stays in memory, and enough for all pages.
const MEMORY: u64 = 16 * 19_000;

fn open(disk: &Disk, max_bytes: u64) -> (Db, Tree) {
    let options = Options::new().background(false).max_bytes(max_bytes).memory(MEMORY);
    let db = options.open_on(Arc::new(disk.clone()), cut::PATH).expect("opens");
    let tree = db.tree("t").expect("room");
    (db, tree)
}

fn new(seed: u64) -> (Disk, Db, Tree) {
    let disk = Disk::new(SimIo::new(seed));
    let (db, tree) = open(&disk, 64 << 20);
    (disk, db, tree)
}

/// Bytes that no other value has.
fn value(seed: u64, len: usize) -> Vec<u8> {
    cut::Rng(seed).bytes(len)
}

fn reads(disk: &Disk) -> usize {
    disk.take_record().into_iter().filter(|call| *call == Call::Read).count()
}

/// Runs an operation in a thread of its own and says what came out.
fn beside<T: Send + 'static>(
    tree: &Tree,
    operation: impl FnOnce(&Tree) -> T + Send + 'static,
) -> Receiver<T> {
    let ((say, said), tree) = (channel(), tree.clone());
    std::thread::spawn(move || {
        // Nobody may be waiting any more.
        let _ = say.send(operation(&tree));
    });
    said
}

/// Flips bits of a value where it lies on the disk: in the image of its page.
fn damage(disk: &Disk, value: &[u8]) {
    let path = Path::new(cut::PATH);
    let file = disk.sim.peek(path).expect("there");
    let part = &value[..value.len().min(64)];
    let at = everleaf_testing::images::find(&file, part).expect("it lies there");
    disk.sim.poke(path, at as u64, &[!value[0]; 8]);
}

fn is_corrupt<T: std::fmt::Debug>(result: &Result<T, Error>) -> bool {
    matches!(result, Err(Error::Corrupt { .. }))
}

/// B3.
#[test]
fn overwriting_and_removing_read_no_old_value() {
    let (disk, db, tree) = new(1);
    for key in ["a", "b", "c", "d"] {
        tree.put(key, value(1, MIB)).expect("room");
    }
    disk.record();
    tree.put("a", "small").expect("room");
    tree.delete("b").expect("room");
    tree.delete("nothing").expect("room");
    let mut batch = db.batch();
    batch.put(&tree, "c", "small").expect("memory");
    batch.delete(&tree, "d").expect("memory");
    batch.commit().expect("room");
    assert_eq!(reads(&disk), 0);
    let pairs: Vec<_> = tree.iter().map(|pair| pair.expect("sound")).collect();
    assert_eq!(pairs, [("a", "small"), ("c", "small")].map(|(k, v)| (k.into(), v.into())));
    assert_eq!(db.check().expect("reads"), []);
}

#[test]
fn what_returns_the_old_value_does() {
    let (_, _, tree) = new(2);
    for old in [value(1, MIB), value(2, 10), value(3, 100_000), Vec::new()] {
        tree.put("k", &old).expect("room");
        assert_eq!(tree.insert("k", value(4, 50_000)).expect("room"), Some(old.clone().into()));
        tree.put("k", &old).expect("room");
        assert_eq!(tree.remove("k").expect("room"), Some(old.into()));
        assert_eq!(tree.remove("k").expect("room"), None);
        assert_eq!(tree.insert("k", "").expect("room"), None);
    }
}

/// A8.
#[test]
fn a_damaged_large_value_can_be_overwritten_and_removed() {
    let (disk, db, tree) = new(3);
    let keys = ["put", "delete", "batch put", "batch delete"];
    for (seed, key) in (1..).zip(keys) {
        tree.put(key, value(seed, MIB)).expect("room");
        damage(&disk, &value(seed, MIB));
    }
    for key in keys {
        assert!(is_corrupt(&tree.get(key)));
        // A call that asks for the old value gets the error, and changes nothing.
        assert!(is_corrupt(&tree.insert(key, "new")));
        assert!(is_corrupt(&tree.remove(key)));
        assert!(is_corrupt(&tree.get(key)));
        assert!(tree.contains(key).expect("the key is sound"));
    }
    assert_eq!(db.check().expect("reads").len(), keys.len());
    tree.put("put", "new").expect("room");
    tree.delete("delete").expect("room");
    let mut batch = db.batch();
    batch.put(&tree, "batch put", "new").expect("memory");
    batch.delete(&tree, "batch delete").expect("memory");
    batch.commit().expect("room");
    let pairs: Vec<_> = tree.iter().map(|pair| pair.expect("sound")).collect();
    assert_eq!(pairs, [("batch put", "new"), ("put", "new")].map(|(k, v)| (k.into(), v.into())));
    assert_eq!(db.check().expect("reads"), []);
    db.sync().expect("not poisoned");
}

/// A8.
#[test]
fn a_tree_with_a_damaged_large_value_can_be_dropped() {
    let (disk, db, tree) = new(9);
    for (seed, key) in (1..).zip(["a", "damaged", "z"]) {
        tree.put(key, value(seed, MIB)).expect("room");
    }
    damage(&disk, &value(2, MIB));
    assert!(is_corrupt(&tree.get("damaged")));
    let names = db.tree_names().expect("reads");
    disk.record();
    assert!(db.drop_tree(&names[0]).expect("the keys are sound"));
    assert_eq!(reads(&disk), 0);
    assert_eq!(db.tree_names().expect("reads"), names[1..]);
    assert_eq!(db.check().expect("reads"), []);
    assert!(matches!(tree.get("a"), Err(Error::NoTree)));
}

/// B2, as a count: a value is read once, whatever is written beside it meanwhile.
#[test]
fn a_get_reads_its_value_once_beside_a_writer_of_its_neighbour() {
    let (disk, _db, tree) = new(4);
    tree.put("large", value(1, 8 * MIB)).expect("room");
    tree.put("neighbour", "0").expect("room");
    disk.record();
    assert_eq!(tree.get("large").expect("sound"), Some(value(1, 8 * MIB).into()));
    let alone = reads(&disk);
    assert!(alone > 0);

    disk.record();
    let mut next = disk.pause_after(0);
    let got = beside(&tree, |tree| tree.get("large"));
    for i in 0..alone {
        next.0.recv_timeout(PATIENCE).expect("it reads");
        tree.put("neighbour", i.to_string()).expect("room");
        let now = std::mem::replace(&mut next, disk.pause_after(0));
        drop(now.1);
    }
    disk.pause_no_more();
    drop(next);
    let got = got.recv_timeout(PATIENCE).expect("it comes back");
    assert_eq!(got.expect("sound"), Some(value(1, 8 * MIB).into()));
    assert_eq!(reads(&disk), alone);
}

/// B3: the disk stands still under the removal, and a neighbour is read, written and scanned.
#[test]
fn a_one_byte_get_does_not_wait_for_the_removal_of_a_large_neighbour() {
    let (disk, _db, tree) = new(5);
    tree.put("large", value(1, 8 * MIB)).expect("room");
    tree.put("small", "1").expect("room");
    for write in ["remove", "insert"] {
        let (stopped, go_on) = disk.pause_after(0);
        let old = beside(&tree, move |tree| match write {
            "remove" => tree.remove("large"),
            _ => tree.insert("large", "new"),
        });
        stopped.recv_timeout(PATIENCE).expect("it reads the old value");
        let meanwhile = beside(&tree, |tree| {
            tree.put("small", "2").expect("room");
            let small = tree.prefix("s").next().expect("there").expect("sound");
            (tree.get("small").expect("sound"), small.1)
        });
        let meanwhile = meanwhile.recv_timeout(PATIENCE).expect("nobody waits");
        assert_eq!(meanwhile, (Some(b"2".into()), "2".into()));
        drop(go_on);
        let old = old.recv_timeout(PATIENCE).expect("it comes back").expect("sound");
        assert_eq!(old, Some(value(1, 8 * MIB).into()), "{write}");
        tree.put("large", value(1, 8 * MIB)).expect("room");
    }
}

/// A value that is removed while it is read: its place is not used again before it is read.
#[test]
fn a_value_that_is_removed_while_it_is_read_keeps_its_place_until_then() {
    let disk = Disk::new(SimIo::new(6));
    // A group of nodes, and one of extents in which two such values do not fit.
    let (db, tree) = open(&disk, 31 << 20);
    let old = value(1, 8 * MIB);
    tree.put("k", &old).expect("room");
    let (stopped, go_on) = disk.pause_after(0);
    let got = beside(&tree, |tree| tree.get("k"));
    stopped.recv_timeout(PATIENCE).expect("it reads");
    tree.delete("k").expect("room");
    db.sync().expect("no fault");
    let full = tree.put("other", value(2, 8 * MIB));
    assert!(matches!(full, Err(Error::Full { .. })), "{full:?}");
    tree.put("less", value(3, MIB)).expect("room elsewhere");
    drop(go_on);
    let got = got.recv_timeout(PATIENCE).expect("it comes back");
    assert_eq!(got.expect("whole"), Some(old.into()));
    tree.put("other", value(2, 8 * MIB)).expect("room again");
    assert_eq!(tree.get("other").expect("sound"), Some(value(2, 8 * MIB).into()));
    assert_eq!(db.check().expect("reads"), []);
}

/// A transaction that goes on after a read that has failed is tried again if another thread mends what it has not read.
#[test]
fn a_read_that_has_failed_counts_as_read() {
    let (disk, db, tree) = new(11);
    tree.put("k", value(1, MIB)).expect("room");
    db.checkpoint().expect("no fault");
    damage(&disk, &value(1, MIB));
    let mut runs = 0;
    let done = db.transact(|tx| {
        runs += 1;
        let read = tx.get(&tree, "k");
        if runs == 1 {
            assert!(is_corrupt(&read), "{read:?}");
            tree.put("k", "mended")?;
        }
        tx.put(&tree, "copy", read.ok().flatten().unwrap_or_default())
    });
    done.expect("nobody is in the way of the second one");
    assert_eq!((runs, tree.get("copy").expect("sound")), (2, Some("mended".into())));
}

/// A transaction that goes on after many of them writes each key in its own place.
#[test]
fn after_reads_that_have_failed_each_key_is_written_in_its_place() {
    let (disk, db, tree) = new(12);
    // As many as it takes until the notes of what was read are put in order.
    let keys: Vec<String> = (0..33).map(|n| format!("k{n:02}")).collect();
    let (first, last) = (&keys[0], &keys[32]);
    tree.put(first, "first").expect("room");
    for (seed, key) in (1..).zip(&keys[1..]) {
        tree.put(key, value(seed, MIB)).expect("room");
        damage(&disk, &value(seed, MIB));
    }
    let done = db.transact(|tx| {
        assert_eq!(tx.get(&tree, first)?, Some("first".into()));
        for key in &keys[1..] {
            let read = tx.get(&tree, key);
            assert!(is_corrupt(&read), "{key}: {read:?}");
        }
        tx.put(&tree, last, "new")
    });
    done.expect("room");
    assert_eq!(tree.get(first).expect("sound"), Some("first".into()));
    assert_eq!(tree.get(last).expect("sound"), Some("new".into()));
}

/// A8: what a scan gives of pairs of which some are damaged, an error in the place of each of those.
fn given(pairs: impl Iterator<Item = Result<Pair, Error>>) -> Vec<Option<u32>> {
    let number = |key: Vec<u8>| String::from_utf8(key).expect("a number").parse().expect("one");
    let pair = |pair: Result<Pair, Error>| match pair {
        Ok((key, _)) => Some(number(key.into())),
        Err(error) => {
            assert!(matches!(error, Error::Corrupt { .. }), "{error}");
            None
        }
    };
    pairs.map(pair).collect()
}

/// A8.
#[test]
fn a_scan_yields_the_sound_pairs_around_a_damaged_one() {
    const PAIRS: u32 = 300;
    let (disk, db, tree) = new(7);
    let large = |i: u32| i % 7 == 3;
    for i in 0..PAIRS {
        let len = if large(i) { 20_000 } else { 10 };
        tree.put(format!("{i:05}"), value(u64::from(i), len)).expect("room");
    }
    // Large values of late are written with the next epoch, and read from memory until then.
    db.sync().expect("no fault");
    let damaged = [3, 10, 17, 150, 297];
    for i in damaged {
        damage(&disk, &value(u64::from(i), 20_000));
    }
    let expected = |range: std::ops::Range<u32>| {
        range.map(|i| (!damaged.contains(&i)).then_some(i)).collect::<Vec<_>>()
    };
    assert_eq!(given(tree.iter()), expected(0..PAIRS));
    assert_eq!(given(tree.iter().rev()), expected(0..PAIRS).into_iter().rev().collect::<Vec<_>>());
    for (from, to) in [(0, 3), (0, 4), (3, 4), (4, 10), (11, 17), (150, 151), (151, 299)] {
        let range = || tree.range(format!("{from:05}")..format!("{to:05}"));
        assert_eq!(given(range()), expected(from..to));
        let mut back = given(range().rev());
        back.reverse();
        assert_eq!(back, expected(from..to));
    }
    // From both ends, which meet anywhere.
    for ahead in [0, 1, 2, 5, 16, 17, 18, 140, 160, 299] {
        let mut all = tree.iter();
        let mut front = given(all.by_ref().take(ahead));
        let mut back = given(all.by_ref().rev().take(40));
        front.extend(given(all));
        back.reverse();
        front.extend(back);
        assert_eq!(front, expected(0..PAIRS), "{ahead} from the front");
    }
    tree.delete("00000").and(tree.delete("00001")).and(tree.delete("00002")).expect("room");
    assert!(is_corrupt(&tree.first()));
}

/// B2, of scans: the disk stands still under a scan of large values, and nobody waits.
#[test]
fn nobody_waits_for_a_scan_of_large_values() {
    let (disk, _db, tree) = new(8);
    for i in 0..20 {
        tree.put(format!("{i:05}"), value(i, 30_000)).expect("room");
    }
    let (stopped, go_on) = disk.pause_after(10);
    let scanned = beside(&tree, |tree| tree.iter().collect::<Result<Vec<_>, _>>());
    stopped.recv_timeout(PATIENCE).expect("it reads");
    let meanwhile = beside(&tree, |tree| {
        for i in 0..20 {
            tree.put(format!("{i:05}"), "new").expect("room");
        }
    });
    meanwhile.recv_timeout(PATIENCE).expect("nobody waits");
    drop(go_on);
    let scanned = scanned.recv_timeout(PATIENCE).expect("it comes back").expect("sound");
    let (old, new): (Vec<_>, Vec<_>) = scanned.iter().partition(|(_, value)| value != b"new");
    assert!(scanned.is_sorted() && old.len() + new.len() == 20);
    // All that the scan had read when it was stopped is as it was then, and so is what it was reading.
    assert!(
        !old.is_empty()
            && old.iter().enumerate().all(|(i, pair)| pair.1 == value(i as u64, 30_000))
    );
}

/// A8, of small pairs: a damaged page of records. Their keys are lost with them, and all keys are alike
/// in more bytes than a leaf keeps, so that searches need the records to tell them apart.
#[test]
fn a_scan_goes_around_a_damaged_page_of_records() {
    const PAIRS: u64 = 500;
    let (disk, db, tree) = new(9);
    let key = |i: u64| format!("{} {i:05}", "a long prefix of all keys".repeat(40)).into_bytes();
    for i in 0..PAIRS {
        tree.put(key(i), value(i, 40)).expect("room");
    }
    drop(tree);
    db.close().expect("no fault");
    damage(&disk, &value(250, 40));
    let (_db, tree) = open(&Disk::new(disk.sim.clone()), 64 << 20);
    for backwards in [false, true] {
        let all = tree.iter();
        let mut found: Vec<_> = if backwards { all.rev().collect() } else { all.collect() };
        if backwards {
            found.reverse();
        }
        let lost = found.iter().filter(|pair| is_corrupt(pair)).count() as u64;
        assert!(
            (1..100).contains(&lost) && found.len() as u64 == PAIRS,
            "{lost} of {}",
            found.len()
        );
        for (i, pair) in (0..).zip(found) {
            if let Ok((found, bytes)) = pair {
                assert_eq!(found, key(i));
                assert_eq!(bytes, value(i, 40));
            }
        }
    }
}

/// A writer whose turn has not come since the disk is behind holds no gate: snapshots, counts and transactions go on.
#[test]
fn whoever_waits_for_the_disk_to_write_keeps_nobody_else() {
    let disk = Disk::new(SimIo::new(1));
    let options = Options::new().interval(Duration::from_millis(1)).pending_bytes(1 << 16);
    let db =
        options.max_bytes(256 << 20).open_on(Arc::new(disk.clone()), cut::PATH).expect("opens");
    let tree = db.tree("t").expect("room");
    tree.put("first", "").expect("room");
    db.sync().expect("a disk");
    let (stopped, go_on) = disk.pause_at(Call::Sync, 0);
    let (written, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for writer in 0..2_u64 {
            let (tree, written, is_over) = (&tree, &written, &is_over);
            scope.spawn(move || {
                for i in (writer << 32..).take_while(|_| !is_over.load(Ordering::SeqCst)) {
                    // In all ways.
                    match i % 4 {
                        0 => tree.put(i.to_be_bytes(), [7; 100]),
                        1 => tree.put_from(i.to_be_bytes(), &[7; 3000][..], 3000),
                        2 => tree.delete((i - 2).to_be_bytes()),
                        _ => tree.update(i.to_be_bytes(), |_| Some(vec![7; 50])).map(drop),
                    }
                    .expect("room");
                    written.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        stopped.recv_timeout(PATIENCE).expect("an epoch is to become durable");
        // Until both wait.
        let (mut before, mut same) = (0, 0);
        while same < 50 || !tree.may_wait() {
            std::thread::sleep(Duration::from_millis(2));
            let now = written.load(Ordering::SeqCst);
            same = if now == before { same + 1 } else { 0 };
            before = now;
        }
        let reader = db.clone();
        let done = beside(&tree, move |tree| {
            let then = reader.snapshot().and_then(|then| then.of(tree)).expect("open");
            assert!(then.contains("first").expect("sound") && !tree.is_empty().expect("sound"));
            assert!(tree.len().expect("sound") > 0);
            let tx = reader.begin();
            assert!(tx.contains(tree, "first").expect("sound"));
            tx.commit().expect("it has only read");
        });
        let is_done = done.recv_timeout(PATIENCE);
        let is_waiting = written.load(Ordering::SeqCst) == before;
        drop(go_on);
        is_over.store(true, Ordering::SeqCst);
        is_done.expect("nobody waits for who waits for the disk");
        assert!(is_waiting, "the writers wait still");
    });
}
