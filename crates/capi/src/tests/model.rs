//! Random operations through the C functions, beside maps that say what they must answer.
//!
//! Two trees of a pool on a file, opened again now and then. All functions of the header are called: the test compares
//! those that it has called with those that the header has.
//!
//! Why the calls are sound: all handles are those of [`World`], which frees them once, all lengths are those of slices, and
//! there is one thread.

#![allow(clippy::undocumented_unsafe_blocks, reason = "there is one reason for all of them, above")]

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound;

use everleaf_testing::{Rng, seed_or, times};
use tempfile::TempDir;

use super::*;
use crate::batch::*;
use crate::codes::*;
use crate::cursor::*;
use crate::epochs::*;
use crate::lists::*;
use crate::memory::*;
use crate::pairs::*;
use crate::snapshot::*;
use crate::stats::*;
use crate::writer::*;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;
/// A tree, a key, and the value that it gets; none if it goes.
type Change = (usize, Vec<u8>, Option<Vec<u8>>);

const NAMES: [&CStr; 2] = [c"orders", c"sums"];
const SPARE: &CStr = c"spare";
const OPERATIONS: u64 = 1_000_000;
/// Kinds of operations that come rarely.
const KINDS: u64 = 14;

struct World {
    rng: Rng,
    options: Own<everleaf_options>,
    db: Own<everleaf_db>,
    trees: [Own<everleaf_tree>; 2],
    maps: [Map; 2],
    copies: u64,
    dir: TempDir,
}

#[test]
fn a_million_operations_answer_as_maps_do_and_call_every_function() {
    called();
    let mut world = World::new(Rng(seed_or(71)));
    for operation in 0..times(OPERATIONS) {
        let at = world.rng.below(2) as usize;
        match world.rng.below(1000) {
            0..400 => world.write(at),
            400..700 => world.read(at),
            700..940 => world.walk(at),
            940..985 => world.together(at),
            985..999 => world.look_back(at),
            _ => {
                let kind = world.rng.below(KINDS);
                world.rarely(at, kind);
            }
        }
        if operation % 100_000 == 99_999 {
            world.open_again(operation % 200_000 == 99_999);
        }
    }
    world.compare_all();
    world.the_end();
    drop(world);
    assert_eq!(called(), exported());
}

/// A folder in memory if there is one: a disk would be waited for most of the time.
fn directory() -> TempDir {
    let shm = Path::new("/dev/shm");
    if shm.is_dir() { tempfile::tempdir_in(shm) } else { tempfile::tempdir() }.expect("a folder")
}

fn options() -> Own<everleaf_options> {
    let options = Own(everleaf_options_new(), everleaf_options_free);
    let budget = Own(everleaf_budget_new(16 << 20), everleaf_budget_free);
    // SAFETY: the handle is good.
    unsafe {
        assert_eq!(everleaf_budget_bytes(budget.0), 16 << 20);
        assert_eq!((everleaf_budget_used(budget.0), everleaf_budget_pools(budget.0)), (0, 0));
    }
    let to = options.0;
    // SAFETY: the handle is good.
    let codes = unsafe {
        [
            everleaf_options_interval(to, 2_000),
            everleaf_options_durability(to, EVERLEAF_BUFFERED),
            everleaf_options_journal_bytes(to, 8 << 20),
            everleaf_options_pending_bytes(to, 1 << 20),
            everleaf_options_page_bytes(to, 4096),
            everleaf_options_max_bytes(to, 1 << 30),
            everleaf_options_create(to, 1),
            everleaf_options_read_only(to, 0),
            everleaf_options_storage(to, EVERLEAF_STORAGE_FILE),
            everleaf_options_background(to, 1),
            everleaf_options_manual_epochs(to, 0),
            everleaf_options_compression(to, EVERLEAF_COMPRESSION_LZ4),
            everleaf_options_budget(to, budget.0),
            everleaf_options_memory(to, 16 << 20),
            everleaf_options_snapshot_memory(to, 32 << 20),
            everleaf_options_transaction_memory(to, 32 << 20),
        ]
    };
    assert_eq!(codes, [EVERLEAF_OK; 16]);
    options
}

impl World {
    fn new(rng: Rng) -> World {
        let (dir, options) = (directory(), options());
        let db = open(&dir.path().join("p.ever"), options.0);
        let trees = NAMES.map(|name| tree(&db, name));
        World { dir, rng, options, db, trees, maps: Default::default(), copies: 0 }
    }

    fn key(&mut self) -> Vec<u8> {
        let number = self.rng.below(3_000);
        match number {
            0 => Vec::new(),
            _ if number.is_multiple_of(97) => [&number.to_be_bytes()[..], &[7; 700]].concat(),
            _ => number.to_be_bytes()[6 - (number % 3) as usize..].to_vec(),
        }
    }

    fn value(&mut self) -> Vec<u8> {
        let bytes = match self.rng.below(1000) {
            0..900 => self.rng.below(40),
            900..998 => self.rng.below(900),
            _ => self.rng.below(20_000),
        };
        self.rng.bytes(bytes as usize)
    }

    /// A key of the tree, as a rule.
    fn known(&mut self, at: usize) -> Vec<u8> {
        let key = self.key();
        let next = self.maps[at].range(key.clone()..).next();
        next.map_or(key, |(key, _)| key.clone())
    }

    /// Single writes.
    fn write(&mut self, at: usize) {
        let (key, value, tree) = (self.known(at), self.value(), self.trees[at].0);
        let ((k, kn), (v, vn)) = (place(&key), place(&value));
        let new = self.key();
        let is_there = self.maps[at].contains_key(&key);
        match self.rng.below(9) {
            0..3 => {
                let (k, kn) = place(&new);
                assert!(fine(unsafe { everleaf_put(tree, k, kn, v, vn) }));
                self.maps[at].insert(new, value);
            }
            3 => {
                assert_eq!(fine(unsafe { everleaf_insert_new(tree, k, kn, v, vn) }), !is_there);
                self.maps[at].entry(key).or_insert(value);
            }
            4 => {
                assert_eq!(fine(unsafe { everleaf_replace(tree, k, kn, v, vn) }), is_there);
                self.maps[at].entry(key).and_modify(|old| *old = value);
            }
            5 => {
                assert!(fine(unsafe { everleaf_delete(tree, k, kn) }));
                self.maps[at].remove(&key);
            }
            6 => {
                let old = copied(|out, len| unsafe { everleaf_take(tree, k, kn, out, len) });
                assert_eq!(old, self.maps[at].remove(&key));
            }
            7 => {
                let old = copied(|out, len| unsafe { everleaf_swap(tree, k, kn, v, vn, out, len) });
                assert_eq!(old, self.maps[at].insert(key, value));
            }
            _ => self.compare_and_swap(at, key, value),
        }
    }

    fn compare_and_swap(&mut self, at: usize, key: Vec<u8>, value: Vec<u8>) {
        let is = self.maps[at].get(&key).cloned();
        let expected = match self.rng.below(3) {
            0 => None,
            1 => Some(vec![1]),
            _ => is.clone(),
        };
        let desired = (!self.rng.one_in(4)).then_some(value);
        let ((k, kn), (e, en), (d, dn)) =
            (place(&key), maybe(expected.as_deref()), maybe(desired.as_deref()));
        let (mut found, mut len, tree) = (ptr::dangling_mut(), 9, self.trees[at].0);
        let code = unsafe {
            everleaf_compare_and_swap(tree, k, kn, e, en, d, dn, &raw mut found, &raw mut len)
        };
        if is == expected {
            assert!(fine(code) && found.is_null() && len == 0);
            match desired {
                Some(value) => self.maps[at].insert(key, value),
                None => self.maps[at].remove(&key),
            };
            return;
        }
        assert!(!fine(code) && found.is_null() == is.is_none());
        let copy = (!found.is_null())
            .then(|| unsafe { slice::from_raw_parts(found.cast::<u8>(), len) }.to_vec());
        assert_eq!(copy, is);
        unsafe { everleaf_bytes_free(found) };
    }

    /// Single reads.
    fn read(&mut self, at: usize) {
        let key = if self.rng.one_in(2) { self.key() } else { self.known(at) };
        let tree = self.trees[at].0;
        read_one(&mut self.rng, tree, &key, self.maps[at].get(&key));
    }

    /// Cursors and scans.
    fn walk(&mut self, at: usize) {
        let (from, to, flags) = (self.key(), self.key(), self.rng.below(16) as u32);
        match self.rng.below(100) {
            0..79 => step_about(&mut self.rng, self.trees[at].0, &self.maps[at]),
            79..99 => {
                let scan = scan_of(self.trees[at].0, (&from, &to), flags);
                let most = self.rng.below(100) as usize;
                let found = filled(&scan, &mut self.rng, most);
                assert_eq!(found, expected(&self.maps[at], (&from, &to), flags, found.len(), most));
            }
            _ => {
                let scan = scan_of(self.trees[at].0, (&[], &[]), 0);
                let found = filled(&scan, &mut self.rng, usize::MAX);
                assert!(found.iter().map(|(key, value)| (key, value)).eq(&self.maps[at]));
            }
        }
    }

    /// Batches and transactions.
    fn together(&mut self, at: usize) {
        let change = |world: &mut Self| {
            let (tree, key) = (world.rng.below(2) as usize, world.known(at));
            (tree, key, (!world.rng.one_in(3)).then(|| world.value()))
        };
        let changes: Vec<_> = (0..self.rng.below(20)).map(|_| change(self)).collect();
        match self.rng.below(3) {
            0 => {
                if self.batch(&changes) {
                    self.apply(&changes);
                }
            }
            1 => {
                let before = self.apply(&changes);
                if !self.transaction(&changes, at) {
                    self.apply(&before);
                }
            }
            _ => self.conflict(&changes, at),
        }
    }

    /// Changes the maps, and says what takes that back.
    fn apply(&mut self, changes: &[Change]) -> Vec<Change> {
        let mut before = Vec::new();
        for (tree, key, value) in changes {
            let map = &mut self.maps[*tree];
            let old = match value {
                Some(value) => map.insert(key.clone(), value.clone()),
                None => map.remove(key),
            };
            before.push((*tree, key.clone(), old));
        }
        before.reverse();
        before
    }

    fn batch(&mut self, changes: &[Change]) -> bool {
        let durability = if self.rng.one_in(500) { EVERLEAF_SYNC } else { EVERLEAF_AS_OPENED };
        let made = made(everleaf_batch_free, |out| unsafe {
            everleaf_batch_new(self.db.0, durability, out)
        });
        let batch = made.expect("a batch");
        for (tree, key, value) in changes {
            let (tree, (k, kn)) = (self.trees[*tree].0, place(key));
            assert!(fine(match value {
                Some(value) => unsafe {
                    let (v, vn) = place(value);
                    everleaf_batch_put(batch.0, tree, k, kn, v, vn)
                },
                None => unsafe { everleaf_batch_delete(batch.0, tree, k, kn) },
            }));
        }
        let mut len = 0;
        assert!(fine(unsafe { everleaf_batch_len(batch.0, &raw mut len) }) && len == changes.len());
        let commits = !self.rng.one_in(10);
        if commits {
            assert!(fine(unsafe { everleaf_batch_commit(batch.0) }));
            assert!(fine(unsafe { everleaf_batch_len(batch.0, &raw mut len) }) && len == 0);
        }
        commits
    }

    fn begin(&mut self, isolation: c_int) -> Own<everleaf_txn> {
        let begin =
            |out| unsafe { everleaf_txn_begin(self.db.0, isolation, EVERLEAF_AS_OPENED, out) };
        made(everleaf_txn_free, begin).expect("a transaction")
    }

    fn change(&self, txn: &Own<everleaf_txn>, changes: &[Change]) {
        for (tree, key, value) in changes {
            let (tree, (k, kn)) = (self.trees[*tree].0, place(key));
            assert!(fine(match value {
                Some(value) => unsafe {
                    let (v, vn) = place(value);
                    everleaf_txn_put(txn.0, tree, k, kn, v, vn)
                },
                None => unsafe { everleaf_txn_delete(txn.0, tree, k, kn) },
            }));
        }
    }

    /// A transaction that sees its own writes; says whether it was committed.
    fn transaction(&mut self, changes: &[Change], at: usize) -> bool {
        let txn = self.begin(EVERLEAF_SERIALIZABLE);
        self.change(&txn, changes);
        let (key, tree) = (self.known(at), self.trees[at].0);
        let ((k, kn), value) = (place(&key), self.maps[at].get(&key));
        assert_eq!(fine(unsafe { everleaf_txn_contains(txn.0, tree, k, kn) }), value.is_some());
        let copy =
            copied(|out, len| unsafe { everleaf_txn_get_alloc(txn.0, tree, k, kn, out, len) });
        assert_eq!(copy.as_ref(), value);
        let (mut buf, mut len) = (vec![0; 20_000], 1);
        let code = unsafe {
            everleaf_txn_get(txn.0, tree, k, kn, buf.as_mut_ptr().cast(), buf.len(), &raw mut len)
        };
        assert_eq!(fine(code).then_some(&buf[..len]), value.map(|value| &value[..]));
        let (from, to, flags, most) =
            (self.key(), self.key(), self.rng.below(16) as u32, self.rng.below(50) as usize);
        let ((f, fn_), (t, tn)) = bounds(&from, &to);
        let scan = made(everleaf_scan_free, |out| unsafe {
            everleaf_txn_scan_new(txn.0, tree, f, fn_, t, tn, flags, out)
        });
        let scan = scan.expect("a walk");
        let found = filled(&scan, &mut self.rng, most);
        assert_eq!(found, expected(&self.maps[at], (&from, &to), flags, found.len(), most));
        let commits = !self.rng.one_in(5);
        let ends = if commits { everleaf_txn_commit } else { everleaf_txn_abort };
        assert!(fine(unsafe { ends(txn.0) }));
        assert_eq!(unsafe { everleaf_txn_commit(txn.0) }, EVERLEAF_INVALID);
        commits
    }

    /// A transaction whose read another write overtakes: it must not happen.
    fn conflict(&mut self, changes: &[Change], at: usize) {
        let txn = self.begin(EVERLEAF_SERIALIZABLE);
        let (key, tree, value) = (self.known(at), self.trees[at].0, self.value());
        let ((k, kn), (v, vn)) = (place(&key), place(&value));
        fine(unsafe { everleaf_txn_contains(txn.0, tree, k, kn) });
        self.change(&txn, changes);
        assert!(fine(unsafe { everleaf_put(tree, k, kn, v, vn) }));
        self.maps[at].insert(key.clone(), value);
        if changes.is_empty() {
            assert!(fine(unsafe { everleaf_txn_commit(txn.0) }));
            return;
        }
        assert_eq!(unsafe { everleaf_txn_commit(txn.0) }, EVERLEAF_CONFLICT);
        assert_eq!((everleaf_last_code(), everleaf_last_errno()), (EVERLEAF_CONFLICT, 0));
        assert_eq!(unsafe { CStr::from_ptr(everleaf_last_conflict_tree()) }, NAMES[at]);
        let mut len = 0;
        let last = unsafe { everleaf_last_conflict_key(&raw mut len) };
        assert_eq!(unsafe { slice::from_raw_parts(last.cast::<u8>(), len) }, key);
        let name = unsafe { CStr::from_ptr(everleaf_code_name(EVERLEAF_CONFLICT)) };
        assert!(
            name == c"EVERLEAF_CONFLICT" && message().contains(NAMES[at].to_str().expect("UTF-8"))
        );
    }

    /// Snapshots.
    fn look_back(&mut self, at: usize) {
        let then = self.maps[at].clone();
        let snapshot =
            made(everleaf_snapshot_free, |out| unsafe { everleaf_snapshot_new(self.db.0, out) });
        let snapshot = snapshot.expect("a snapshot");
        for _ in 0..self.rng.below(30) {
            self.write(at);
        }
        let old = match self.rng.one_in(2) {
            true => made(everleaf_tree_free, |out| unsafe {
                everleaf_snapshot_tree(snapshot.0, NAMES[at].as_ptr(), out)
            }),
            false => made(everleaf_tree_free, |out| unsafe {
                everleaf_snapshot_of(snapshot.0, self.trees[at].0, out)
            }),
        };
        let old = old.expect("it was there");
        for _ in 0..20 {
            let key = self.key();
            read_one(&mut self.rng, old.0, &key, then.get(&key));
        }
        step_about(&mut self.rng, old.0, &then);
        let (from, to, flags) = (self.key(), self.key(), self.rng.below(16) as u32);
        let scan = scan_of(old.0, (&from, &to), flags);
        let found = filled(&scan, &mut self.rng, 200);
        assert_eq!(found, expected(&then, (&from, &to), flags, found.len(), 200));
        assert_eq!(unsafe { everleaf_put(old.0, null(), 0, null(), 0) }, EVERLEAF_READ_ONLY);
        let names = made(everleaf_names_free, |out| unsafe {
            everleaf_snapshot_tree_names(snapshot.0, out)
        });
        assert_eq!(names_of(&names.expect("names")), NAMES);
    }

    /// An operation on the whole pool, or on all of a tree.
    fn rarely(&mut self, at: usize, kind: u64) {
        let (db, tree) = (self.db.0, self.trees[at].0);
        match kind {
            0 => assert!(fine(unsafe { everleaf_sync(db) })),
            1 => assert!(fine(unsafe { everleaf_checkpoint(db) })),
            2 => self.compact(),
            3 => self.back_up(),
            4 => {
                let list = made(everleaf_damages_free, |out| unsafe { everleaf_check(db, out) });
                let list = list.expect("a list");
                assert_eq!(unsafe { everleaf_damages_len(list.0) }, 0);
                let (offset, what) = (null_mut(), null_mut());
                assert_eq!(
                    unsafe { everleaf_damages_at(list.0, 0, offset, what) },
                    EVERLEAF_INVALID
                );
            }
            5 => self.epochs(),
            6 => self.remove(at),
            7 => [true, false].into_iter().for_each(|is_first| self.pop(at, is_first)),
            8 => self.by_pieces(at),
            9 => self.trees_by_name(),
            10 => {
                let mut pairs = 0;
                assert!(fine(unsafe { everleaf_tree_len(tree, &raw mut pairs) }));
                assert_eq!(pairs, self.maps[at].len() as u64);
            }
            11 => {
                let other = made(everleaf_tree_free, |out| unsafe {
                    everleaf_tree_with(tree, EVERLEAF_SYNC, out)
                });
                let (other, mut epoch, mut durable) = (other.expect("another handle"), 0, 0);
                assert!(fine(unsafe { everleaf_epoch(db, &raw mut epoch) }));
                assert!(fine(unsafe { everleaf_put(other.0, null(), 0, null(), 0) }));
                assert!(fine(unsafe { everleaf_durable_epoch(db, &raw mut durable) }));
                assert!(durable >= epoch);
                self.maps[at].insert(Vec::new(), Vec::new());
            }
            12 => {
                let mut pairs = 0;
                assert!(fine(unsafe { everleaf_tree_clear(tree, &raw mut pairs) }));
                assert_eq!(pairs, std::mem::take(&mut self.maps[at]).len() as u64);
            }
            _ => self.stats(),
        }
    }

    fn compact(&mut self) {
        let (mut before, mut after) = (0, 0);
        assert!(fine(unsafe { everleaf_compact(self.db.0, &raw mut before, &raw mut after) }));
        assert!(before > 0 && after > 0);
    }

    fn back_up(&mut self) {
        self.copies += 1;
        let path = self.dir.path().join(format!("{}.ever", self.copies));
        let (name, mut epoch) = (c_path(&path), 0);
        assert!(
            fine(unsafe { everleaf_backup(self.db.0, name.as_ptr(), &raw mut epoch) }) && epoch > 0
        );
        assert_eq!(
            unsafe { everleaf_backup(self.db.0, name.as_ptr(), null_mut()) },
            EVERLEAF_FILE_EXISTS
        );
        let db = open(&path, null());
        for (name, map) in NAMES.into_iter().zip(&self.maps) {
            let tree = made(everleaf_tree_free, |out| unsafe {
                everleaf_tree_open(db.0, name.as_ptr(), out)
            });
            let scan = scan_of(tree.as_ref().expect("a tree").0, (&[], &[]), 0);
            let found = filled(&scan, &mut self.rng, usize::MAX);
            assert!(found.iter().map(|(key, value)| (key, value)).eq(map));
        }
        drop(db);
        std::fs::remove_file(path).expect("removed");
    }

    fn epochs(&mut self) {
        let (mut epoch, mut durable) = (0, 0);
        assert!(fine(unsafe { everleaf_epoch(self.db.0, &raw mut epoch) }));
        assert!(fine(unsafe { everleaf_wait_durable(self.db.0, epoch, -1) }));
        assert!(
            fine(unsafe { everleaf_durable_epoch(self.db.0, &raw mut durable) })
                && durable >= epoch
        );
        assert!(!fine(unsafe { everleaf_wait_durable(self.db.0, u64::MAX, 1) }));
        let (mut ended, mut bytes) = (0, u64::MAX);
        assert!(fine(unsafe { everleaf_end_epoch(self.db.0, &raw mut ended) }));
        assert!(ended >= epoch);
        assert!(fine(unsafe { everleaf_wait_durable(self.db.0, ended, -1) }));
        assert!(fine(unsafe { everleaf_pending_bytes(self.db.0, &raw mut bytes) }));
        assert!(bytes < 1 << 30, "{bytes} bytes");
    }

    fn remove(&mut self, at: usize) {
        let (a, b, flags) = (self.key(), self.key(), self.rng.below(4) as u32);
        let (from, to) = if a <= b { (a, b) } else { (b, a) };
        let to = to[..to.len().min(from.len() + 1)].to_vec();
        let ((f, fn_), (t, tn)) = bounds(&from, &to);
        let mut pairs = 0;
        let tree = self.trees[at].0;
        assert!(fine(unsafe { everleaf_remove_range(tree, f, fn_, t, tn, flags, &raw mut pairs) }));
        let gone = expected(&self.maps[at], (&from, &to), flags, usize::MAX, usize::MAX);
        gone.iter().for_each(|(key, _)| drop(self.maps[at].remove(key)));
        assert_eq!(pairs, gone.len() as u64);
    }

    fn pop(&mut self, at: usize, is_first: bool) {
        let tree = self.trees[at].0;
        let pop = if is_first { everleaf_pop_first } else { everleaf_pop_last };
        let mut value = None;
        let key = copied(|key, key_len| {
            let mut code = 0;
            value = copied(|out, len| {
                code = unsafe { pop(tree, key, key_len, out, len) };
                code
            });
            code
        });
        let map = &mut self.maps[at];
        assert_eq!(key.zip(value), if is_first { map.pop_first() } else { map.pop_last() });
    }

    /// A value that comes in pieces, or does not come to its end.
    fn by_pieces(&mut self, at: usize) {
        let (key, bytes, tree) = (self.key(), self.rng.below(700_000) as usize, self.trees[at].0);
        let value: Vec<u8> = self.rng.bytes(bytes);
        let (k, kn) = place(&key);
        let writer = made(everleaf_writer_free, |out| unsafe {
            everleaf_writer_new(tree, k, kn, value.len() as u64, out)
        });
        let writer = writer.expect("a writer");
        let ends = if self.rng.one_in(4) { value.len() / 2 } else { value.len() };
        for piece in value[..ends].chunks(1 + self.rng.below(100_000) as usize) {
            let (p, pn) = place(piece);
            assert!(fine(unsafe { everleaf_writer_write(writer.0, p, pn) }));
        }
        let finished = unsafe { everleaf_writer_finish(writer.0) };
        if ends < value.len() {
            assert_eq!(finished, EVERLEAF_READER_ENDED);
        } else {
            assert!(fine(finished));
            self.maps[at].insert(key.clone(), value);
        }
        read_one(&mut self.rng, tree, &key, self.maps[at].get(&key));
        // Not for all that comes: it makes each walk longer.
        assert!(fine(unsafe { everleaf_delete(tree, k, kn) }));
        self.maps[at].remove(&key);
    }

    fn trees_by_name(&mut self) {
        let spare = tree(&self.db, SPARE);
        let (spare_name, other) = (SPARE.as_ptr(), c"other".as_ptr());
        let rename = |from, to| unsafe { everleaf_tree_rename(self.db.0, from, to) };
        assert!(fine(rename(spare_name, other)) && !fine(rename(spare_name, other)));
        assert_eq!(rename(other, NAMES[0].as_ptr()), EVERLEAF_TREE_EXISTS);
        let mut name = null();
        assert!(fine(unsafe { everleaf_tree_name(spare.0, &raw mut name) }));
        assert_eq!(unsafe { CStr::from_ptr(name) }, SPARE);
        let list = made(everleaf_names_free, |out| unsafe { everleaf_tree_names(self.db.0, out) });
        assert_eq!(
            names_of(&list.expect("names")),
            [NAMES[0], c"other", NAMES[1]].map(CStr::to_owned).as_slice()
        );
        let drop = || unsafe { everleaf_tree_drop(self.db.0, other) };
        assert!(fine(drop()) && !fine(drop()));
        assert_eq!(unsafe { everleaf_contains(spare.0, null(), 0) }, EVERLEAF_NO_TREE);
        assert!(
            made(everleaf_tree_free, |out| unsafe { everleaf_tree_open(self.db.0, other, out) })
                .is_none()
        );
    }

    fn stats(&mut self) {
        // SAFETY: zeros are figures.
        let mut stats: everleaf_stats = unsafe { std::mem::zeroed() };
        stats.size = size_of::<everleaf_stats>();
        assert!(fine(unsafe { everleaf_db_stats(self.db.0, &raw mut stats) }));
        assert_eq!((stats.size, stats.page_bytes), (size_of::<everleaf_stats>(), 4096));
        assert!(
            stats.uuid != [0; 16] && stats.file_bytes > 0 && stats.epoch >= stats.durable_epoch
        );
        assert!((12 << 20..16 << 20).contains(&stats.memory_most_bytes));
    }

    fn open_again(&mut self, closes: bool) {
        let path = self.dir.path().join("p.ever");
        if closes {
            assert_eq!(
                unsafe { [everleaf_close(self.db.0), everleaf_close(self.db.0)] },
                [EVERLEAF_OK; 2]
            );
        } else {
            assert!(fine(unsafe { everleaf_sync(self.db.0) }));
            assert!(fine(unsafe { everleaf_abandon(self.db.0) }));
        }
        assert_eq!(
            unsafe { everleaf_tree_len(self.trees[0].0, &raw mut self.copies) },
            EVERLEAF_CLOSED
        );
        self.db = open(&path, self.options.0);
        self.trees = NAMES.map(|name| tree(&self.db, name));
        self.compare_all();
    }

    fn compare_all(&mut self) {
        for at in 0..2 {
            let scan = scan_of(self.trees[at].0, (&[], &[]), 0);
            let found = filled(&scan, &mut self.rng, usize::MAX);
            assert!(found.iter().map(|(key, value)| (key, value)).eq(&self.maps[at]));
        }
    }

    /// The functions that random operations do not call, and those that few of them might not.
    fn the_end(&mut self) {
        (0..KINDS).for_each(|kind| self.rarely(0, kind));
        self.open_again(false);
        let memory =
            made(everleaf_db_free, |out| unsafe { everleaf_open_in_memory(self.options.0, out) });
        assert!(fine(unsafe { everleaf_close(memory.expect("a pool").0) }));
        assert_eq!(
            unsafe { CStr::from_ptr(everleaf_version()) }.to_str(),
            Ok(env!("CARGO_PKG_VERSION"))
        );
    }
}

fn names_of(names: &Own<everleaf_names>) -> Vec<CString> {
    let len = unsafe { everleaf_names_len(names.0) };
    let name = |at| {
        let (mut name, mut len) = (null(), 0);
        assert!(fine(unsafe { everleaf_names_at(names.0, at, &raw mut name, &raw mut len) }));
        let name = unsafe { CStr::from_ptr(name) }.to_owned();
        assert_eq!(name.as_bytes().len(), len);
        name
    };
    (0..len).map(name).collect()
}

/// One read of a key, of any kind.
fn read_one(rng: &mut Rng, tree: *const everleaf_tree, key: &[u8], value: Option<&Vec<u8>>) {
    let (k, kn) = place(key);
    match rng.below(5) {
        0 => assert_eq!(fine(unsafe { everleaf_contains(tree, k, kn) }), value.is_some()),
        1 => {
            let copy = copied(|out, len| unsafe { everleaf_get_alloc(tree, k, kn, out, len) });
            assert_eq!(copy.as_ref(), value);
        }
        2 => {
            let mut len = 7;
            assert_eq!(
                fine(unsafe { everleaf_value_len(tree, k, kn, &raw mut len) }),
                value.is_some()
            );
            assert_eq!(len, value.map_or(0, |value| value.len() as u64));
        }
        3 => {
            let (mut buf, mut copied, offset) = ([0; 60], 0, rng.below(50));
            let (b, bn) = (buf.as_mut_ptr().cast(), buf.len());
            let code = unsafe { everleaf_read_at(tree, k, kn, offset, b, bn, &raw mut copied) };
            assert_eq!(fine(code), value.is_some());
            let part =
                value.map_or(&[][..], |value| value.get(offset as usize..).unwrap_or_default());
            assert_eq!(&buf[..copied], &part[..part.len().min(60)]);
        }
        _ => {
            let (mut buf, mut len) = (vec![1; rng.below(60) as usize], 7);
            let (b, bn) = (buf.as_mut_ptr().cast(), buf.len());
            match (unsafe { everleaf_get(tree, k, kn, b, bn, &raw mut len) }, value) {
                (EVERLEAF_BUFFER_TOO_SMALL, Some(value)) => {
                    assert!(
                        len == value.len() && len > buf.len() && buf.iter().all(|byte| *byte == 1)
                    );
                }
                (code, value) => {
                    assert_eq!(fine(code), value.is_some());
                    assert_eq!(&buf[..len], value.map_or(&[][..], |value| value));
                }
            }
        }
    }
}

/// A cursor goes somewhere, and then a few steps up and down.
fn step_about(rng: &mut Rng, tree: *const everleaf_tree, map: &Map) {
    let cursor = made(everleaf_cursor_free, |out| unsafe { everleaf_cursor_new(tree, out) });
    let own = cursor.expect("a cursor");
    let cursor = own.0;
    let key = rng.below(3_000).to_be_bytes()[6..].to_vec();
    let (k, kn) = place(&key);
    let (is_there, mut at) = match rng.below(4) {
        0 => (unsafe { everleaf_cursor_first(cursor) }, map.first_key_value()),
        1 => (unsafe { everleaf_cursor_last(cursor) }, map.last_key_value()),
        2 => (unsafe { everleaf_cursor_seek(cursor, k, kn) }, map.range(key..).next()),
        _ => {
            (unsafe { everleaf_cursor_seek_for_prev(cursor, k, kn) }, map.range(..=key).next_back())
        }
    };
    assert_eq!(fine(is_there), at.is_some());
    let reads_both = rng.one_in(2);
    for _ in 0..rng.below(12) {
        let (mut key, mut key_len, mut value, mut value_len) = (null(), 3, null(), 3);
        let lent = if reads_both {
            unsafe {
                everleaf_cursor_pair(
                    cursor,
                    &raw mut key,
                    &raw mut key_len,
                    &raw mut value,
                    &raw mut value_len,
                )
            }
        } else {
            let lent = unsafe { everleaf_cursor_key(cursor, &raw mut key, &raw mut key_len) };
            assert_eq!(
                unsafe { everleaf_cursor_value(cursor, &raw mut value, &raw mut value_len) },
                lent
            );
            lent
        };
        let Some((here, there)) = at else {
            assert!(!fine(lent) && key.is_null() && key_len == 0);
            break;
        };
        assert!(fine(lent));
        assert_eq!(unsafe { slice::from_raw_parts(key.cast::<u8>(), key_len) }, here);
        assert_eq!(unsafe { slice::from_raw_parts(value.cast::<u8>(), value_len) }, there);
        let (step, next) = match rng.one_in(2) {
            true => {
                let behind = (Bound::Excluded(here), Bound::Unbounded);
                (unsafe { everleaf_cursor_next(cursor) }, map.range::<Vec<u8>, _>(behind).next())
            }
            false => {
                (unsafe { everleaf_cursor_prev(cursor) }, map.range(..here.clone()).next_back())
            }
        };
        assert_eq!(fine(step), next.is_some());
        at = next;
    }
}

/// Two keys as bounds; if both are empty, there are none.
fn bounds(from: &[u8], to: &[u8]) -> ((*const c_void, usize), (*const c_void, usize)) {
    let has_bounds = !from.is_empty() || !to.is_empty();
    let bound = |key| if has_bounds { place(key) } else { (null(), 0) };
    (bound(from), bound(to))
}

/// A walk over a part of a tree; two empty keys stand for no bounds.
fn scan_of(
    tree: *const everleaf_tree,
    (from, to): (&[u8], &[u8]),
    flags: u32,
) -> Own<everleaf_scan> {
    let ((f, fn_), (t, tn)) = bounds(from, to);
    let scan = made(everleaf_scan_free, |out| unsafe {
        everleaf_scan_new(tree, f, fn_, t, tn, flags, out)
    });
    scan.expect("a walk")
}

/// The pairs that a walk gives, in buffers of some lengths, until there are enough or no more.
fn filled(scan: &Own<everleaf_scan>, rng: &mut Rng, most: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    let (mut found, mut buf) = (Vec::new(), vec![0_u8; 1 + rng.below(4_000) as usize]);
    while found.len() < most {
        let (mut pairs, mut used, mut needed) = (7, 7, 7);
        let (b, bn) = (buf.as_mut_ptr().cast(), buf.len());
        let code = unsafe {
            everleaf_scan_fill(scan.0, b, bn, &raw mut pairs, &raw mut used, &raw mut needed)
        };
        if code == EVERLEAF_BUFFER_TOO_SMALL {
            assert!(needed > buf.len() && pairs == 0 && used == 0);
            buf = vec![0; needed + rng.below(100) as usize];
            continue;
        }
        if !fine(code) {
            assert!(pairs == 0 && used == 0);
            break;
        }
        let mut rest = &buf[..used];
        for _ in 0..pairs {
            let mut take = |len: usize| {
                let (part, others) = rest.split_at(len);
                rest = others;
                part
            };
            let key_len = u32::from_ne_bytes(take(4).try_into().expect("four"));
            let value_len = u32::from_ne_bytes(take(4).try_into().expect("four"));
            let key = take(key_len as usize).to_vec();
            found.push((key, take(value_len as usize).to_vec()));
        }
        assert!(rest.is_empty() && needed == 0);
    }
    found
}

/// The pairs that a walk must have given: `count` pairs if it was stopped at `most`, otherwise all.
fn expected(
    map: &Map,
    (from, to): (&[u8], &[u8]),
    flags: u32,
    count: usize,
    most: usize,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    let has = |flag| flags & flag != 0;
    let (low, high) = match (from.is_empty() && to.is_empty(), from.cmp(to)) {
        (true, _) => (Bound::Unbounded, Bound::Unbounded),
        (_, Ordering::Greater) => return Vec::new(),
        (_, Ordering::Equal) if has(EVERLEAF_FROM_EXCLUDED) || !has(EVERLEAF_TO_INCLUDED) => {
            return Vec::new();
        }
        _ => (
            if has(EVERLEAF_FROM_EXCLUDED) { Bound::Excluded(from) } else { Bound::Included(from) },
            if has(EVERLEAF_TO_INCLUDED) { Bound::Included(to) } else { Bound::Excluded(to) },
        ),
    };
    let range = map.range::<[u8], _>((low, high));
    let some = if count >= most { count } else { usize::MAX };
    let pair = |(key, value): (&Vec<u8>, &Vec<u8>)| {
        (key.clone(), if has(EVERLEAF_KEYS_ONLY) { Vec::new() } else { value.clone() })
    };
    match has(EVERLEAF_REVERSE) {
        false => range.map(pair).take(some).collect(),
        true => range.rev().map(pair).take(some).collect(),
    }
}
