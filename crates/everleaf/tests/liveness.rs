//! Nobody waits for a disk that he does not need: values are read with nothing latched and nothing to
//! be validated afterwards, old values only for those who want them, and damage stops at its pair.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use everleaf::{Db, Error, Options, Tree};
use everleaf_pmem::io::SimIo;

mod cut;
use cut::disk::{Call, Disk};

/// For what happens at once, or never.
const PATIENCE: Duration = Duration::from_secs(20);
const MIB: usize = 1 << 20;

fn open(disk: &Disk, max_bytes: u64) -> (Db, Tree) {
    let options = Options::new().background(false).max_bytes(max_bytes);
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
    cut::Rng(seed).bytes(len).to_vec()
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

/// Flips bits of a value where it lies on the disk.
fn damage(disk: &Disk, value: &[u8]) {
    let path = Path::new(cut::PATH);
    let file = disk.sim.peek(path).expect("there");
    let part = &value[..64];
    let at = file.windows(part.len()).position(|bytes| bytes == part).expect("it lies there");
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
    batch.insert(&tree, "c", "small").expect("memory");
    batch.remove(&tree, "d").expect("memory");
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
        assert_eq!(tree.insert("k", value(4, 50_000)).expect("room"), Some(old.clone()));
        tree.put("k", &old).expect("room");
        assert_eq!(tree.remove("k").expect("room"), Some(old));
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
        // Who asks for the old value is told, and nothing is changed.
        assert!(is_corrupt(&tree.insert(key, "new")));
        assert!(is_corrupt(&tree.remove(key)));
        assert!(is_corrupt(&tree.get(key)));
        assert!(tree.contains(key).expect("the key is sound"));
    }
    assert_eq!(db.check().expect("reads").len(), keys.len());
    tree.put("put", "new").expect("room");
    tree.delete("delete").expect("room");
    let mut batch = db.batch();
    batch.insert(&tree, "batch put", "new").expect("memory");
    batch.remove(&tree, "batch delete").expect("memory");
    batch.commit().expect("room");
    let pairs: Vec<_> = tree.iter().map(|pair| pair.expect("sound")).collect();
    assert_eq!(pairs, [("batch put", "new"), ("put", "new")].map(|(k, v)| (k.into(), v.into())));
    assert_eq!(db.check().expect("reads"), []);
    db.sync().expect("not poisoned");
}

/// B2, as a count: a value is read once, whatever is written beside it meanwhile.
#[test]
fn a_get_reads_its_value_once_beside_a_writer_of_its_neighbour() {
    let (disk, _db, tree) = new(4);
    tree.put("large", value(1, 8 * MIB)).expect("room");
    tree.put("neighbour", "0").expect("room");
    disk.record();
    assert_eq!(tree.get("large").expect("sound"), Some(value(1, 8 * MIB)));
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
    assert_eq!(got.expect("sound"), Some(value(1, 8 * MIB)));
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
        assert_eq!(meanwhile, (Some(b"2".to_vec()), b"2".to_vec()));
        drop(go_on);
        let old = old.recv_timeout(PATIENCE).expect("it comes back").expect("sound");
        assert_eq!(old, Some(value(1, 8 * MIB)), "{write}");
        tree.put("large", value(1, 8 * MIB)).expect("room");
    }
}

/// A value that is removed while it is read: its place is not used again before it is read.
#[test]
fn a_value_that_is_removed_while_it_is_read_keeps_its_place_until_then() {
    let disk = Disk::new(SimIo::new(6));
    let (db, tree) = open(&disk, 16 << 20);
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
    assert_eq!(got.expect("whole"), Some(old));
    tree.put("other", value(2, 8 * MIB)).expect("room again");
    assert_eq!(tree.get("other").expect("sound"), Some(value(2, 8 * MIB)));
    assert_eq!(db.check().expect("reads"), []);
}
