//! The gate and what snapshots see, under loom: the code of `versions.rs` itself, in the orders of
//! their threads and with the values that loom's memory model lets a load return; and the same with one thing done
//! wrong, which loom must find.
//!
//! A tree is two keys with a latch each. The model is what writers, readers, cuts, commits and sweeps ask of
//! the gate and of the versions, in the order in which the engine asks it: `OpenTree::write`, `Keeping::find`,
//! `Source::at_cut`, `FileStore::commit`. Orders are those of at most `PREEMPTIONS` switches that nobody asked for;
//! a wait that has no end is found, too.

#[path = "../../everleaf/src/bytes.rs"]
#[allow(dead_code, reason = "images are made of few of them")]
mod bytes;
#[path = "../../everleaf/src/engine/kept.rs"]
mod kept;
#[path = "../../everleaf/src/sorted.rs"]
#[allow(dead_code, reason = "not every operation is modelled")]
mod sorted;
#[path = "../../everleaf/src/engine/spread.rs"]
mod spread;
#[path = "../../everleaf/src/engine/versions.rs"]
#[allow(dead_code, reason = "not every operation is modelled")]
mod versions;

/// Loom's primitives, of which they are made here.
mod sync {
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
    pub(crate) use loom::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
    pub(crate) use loom::thread_local;
    use std::cell::Cell;

    pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().expect("no panic")
    }
    pub(crate) fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
        lock.read().expect("no panic")
    }
    pub(crate) fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
        lock.write().expect("no panic")
    }

    /// Of a gate: two, so that writers may or may not share one.
    pub(crate) const PARTS: usize = 2;

    thread_local! {
        static NUMBER: Cell<usize> = Cell::new(0);
    }
    /// The number of this thread; it is 0 until the test says otherwise.
    pub(crate) fn thread_number() -> usize {
        NUMBER.with(Cell::get)
    }
    pub(crate) fn be_thread(number: usize) {
        NUMBER.with(|n| n.set(number));
    }
}

use bytes::Bytes;
use everleaf_file::{Budget, Share};
use everleaf_pmem::{Error, Result};
use everleaf_tree::blink::{Before, KeepBefore};
use loom::thread;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use sync::{Mutex, be_thread, lock};
use versions::{Cut, Gate, ImageKeeper, Images, Versions};

/// Switches from a thread that could go on.
const PREEMPTIONS: usize = 3;

fn model(test: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS);
    builder.check(test);
}

/// Whether loom finds an order in which the model fails.
#[track_caller]
fn assert_found(what: &str, test: impl Fn() + Send + Sync + 'static) {
    let ran = catch_unwind(AssertUnwindSafe(|| model(test)));
    let panic = ran.expect_err("loom finds nothing wrong");
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or_default();
    assert!(text.contains(what), "another failure: {text}");
}

/// A pool with one tree of two keys, 0 and 1.
struct Store {
    gate: Gate,
    versions: Arc<Versions>,
    images: Arc<Images>,
    leaves: [Mutex<u8>; 2],
}

/// A cut of a [`Store`].
type CutOf = Arc<Cut>;

impl Store {
    fn new(bytes_max: u64) -> Arc<Self> {
        let share = Share::new(&Budget::new(u64::MAX));
        Arc::new(Self {
            gate: Gate::new(),
            versions: Versions::new([0; 16], (bytes_max, true), share),
            images: Arc::default(),
            leaves: [Mutex::new(0), Mutex::new(0)],
        })
    }

    /// Runs on another thread, as a writer of another part of the gate.
    fn spawn<T: 'static>(
        self: &Arc<Self>,
        number: usize,
        run: impl FnOnce(&Store) -> T + 'static,
    ) -> thread::JoinHandle<T> {
        let store = Arc::clone(self);
        thread::spawn(move || {
            be_thread(number);
            run(&store)
        })
    }

    /// A change of one key; the caller is inside of the gate.
    fn change(&self, key: u8, value: u8) {
        if !self.versions.is_watched() {
            *lock(&self.leaves[usize::from(key)]) = value;
            return;
        }
        let keeper = ImageKeeper { versions: &self.versions, images: &self.images };
        let mut leaf = lock(&self.leaves[usize::from(key)]);
        if keeper.is_due(&[key]) {
            keeper.keep(&[key], Before::Value(vec![*leaf])).expect("memory");
        }
        *leaf = value;
        drop(leaf);
        self.versions.settle();
    }

    /// Changes keys as a batch does, or one as a single write.
    fn put(&self, keys: &[u8], value: u8) {
        let _pass = self.gate.pass();
        keys.iter().for_each(|key| self.change(*key, value));
    }

    fn cut(&self) -> CutOf {
        let _closed = self.gate.close();
        self.versions.cut()
    }

    fn get(&self, key: u8) -> u8 {
        *lock(&self.leaves[usize::from(key)])
    }

    /// The value of a key at a cut: the kept one, else that of the tree, if nothing was kept meanwhile.
    fn get_at(&self, cut: &Cut, key: u8) -> Result<u8> {
        let kept = |before: Before<Vec<u8>>| match before {
            Before::Value(value) => value[0],
            other => panic!("{other:?} was kept"),
        };
        let mut before = self.images.find(cut, u64::MAX, &[key])?;
        let mut answer = None;
        if before.is_none() {
            answer = Some(self.get(key));
            before = self.images.find(cut, u64::MAX, &[key])?;
        }
        cut.alive()?;
        Ok(before.map_or_else(|| answer.expect("one of them was asked"), kept))
    }

    /// Adds 1 to a key as a transaction; whether it could.
    fn add_one(&self, key: u8) -> bool {
        let cut = self.cut();
        let Ok(value) = self.get_at(&cut, key) else { return false };
        let _closed = self.gate.close();
        if cut.alive().is_err() || self.images.has_changed(&cut, &[key]).expect("memory") {
            return false;
        }
        self.write_unseen(&cut, key, value + 1);
        true
    }

    /// The only write of a transaction that is alone.
    fn write_unseen(&self, cut: &Cut, key: u8, value: u8) {
        let write = || {
            self.change(key, value);
            Ok(())
        };
        let kept = (&*self.images, &[key][..]);
        self.versions.unseen_by(cut, kept, write).expect("it is not refused");
    }

    /// The same of key 0, which finds no room.
    fn write_refused(&self, cut: &Cut) {
        let kept = (&*self.images, &[0][..]);
        let refused = self.versions.unseen_by(cut, kept, || {
            self.change(0, self.get(0));
            Err::<(), _>(Error::Full { bytes: 0 })
        });
        assert!(refused.is_err());
    }

    /// When nobody reads at a cut any more nothing is kept.
    fn expect_empty(&self) {
        let left = self.versions.figures();
        assert_eq!((left.bytes, left.snapshots), (0, 0), "images are left, or cuts");
    }
}

/// A batch beside a cut: a reader at it sees all of the batch or nothing, whenever it looks.
fn cut_beside_a_batch(cut: impl Fn(&Store) -> CutOf, get: impl Fn(&Store, &Cut, u8) -> u8) {
    let store = Store::new(1 << 20);
    let writes = store.spawn(1, |store| {
        store.put(&[0, 1], 1);
        store.put(&[0], 2);
    });
    let cut = cut(&store);
    let [first, second, again] = [0, 1, 0].map(|key| get(&store, &cut, key));
    assert_eq!(first, again, "a cut that changes");
    assert!(first == second || (first, second) == (2, 1), "a part of a batch");
    writes.join().expect("no panic");
    assert_eq!(get(&store, &cut, 0), first, "a cut that changes");
    drop(cut);
    store.expect_empty();
}

fn get_at(store: &Store, cut: &Cut, key: u8) -> u8 {
    store.get_at(cut, key).expect("memory")
}

#[test]
fn a_cut_has_all_of_a_batch_or_nothing_and_stays() {
    model(|| cut_beside_a_batch(Store::cut, get_at));
}

#[test]
fn a_cut_that_is_made_beside_a_batch_is_caught() {
    assert_found("a part of a batch", || {
        let store = Store::new(1 << 20);
        let writes = store.spawn(1, |store| store.put(&[0, 1], 1));
        let cut = store.versions.cut();
        writes.join().expect("no panic");
        let [first, second] = [0, 1].map(|key| get_at(&store, &cut, key));
        assert_eq!(first, second, "a part of a batch");
    });
}

#[test]
fn a_cut_that_is_made_beside_a_write_is_caught() {
    assert_found("a cut that changes", || {
        let store = Store::new(1 << 20);
        let writes = store.spawn(1, |store| store.put(&[0], 1));
        let cut = store.versions.cut();
        let first = get_at(&store, &cut, 0);
        writes.join().expect("no panic");
        assert_eq!(get_at(&store, &cut, 0), first, "a cut that changes");
    });
}

/// The tree is looked at first: between two looks what was kept may come.
#[test]
fn a_read_that_does_not_look_again_is_caught() {
    assert_found("a cut that changes", || {
        cut_beside_a_batch(Store::cut, |store, cut, key| {
            match store.images.find(cut, u64::MAX, &[key]).expect("memory") {
                Some(Before::Value(value)) => value[0],
                _ => store.get(key),
            }
        });
    });
}

/// Two cuts, one of which ends beside a writer: the other one stays as it was, and in the end nothing is kept.
#[test]
fn a_cut_that_ends_takes_nothing_from_another() {
    model(|| {
        let store = Store::new(1 << 20);
        let old = store.cut();
        store.put(&[0], 1);
        let writes = store.spawn(1, |store| store.put(&[0], 2));
        let young = store.cut();
        let seen = get_at(&store, &young, 0);
        assert!(seen == 1 || seen == 2);
        drop(old);
        assert_eq!(get_at(&store, &young, 0), seen, "a cut that changes");
        writes.join().expect("no panic");
        assert_eq!(get_at(&store, &young, 0), seen, "a cut that changes");
        drop(young);
        store.expect_empty();
    });
}

#[test]
fn a_cut_goes_on_when_the_write_of_its_transaction_is_refused() {
    model(|| {
        let store = Store::new(1 << 20);
        let cut = store.cut();
        let closed = store.gate.close();
        let kept = (&*store.images, &[0][..]);
        let refused = store.versions.unseen_by(&cut, kept, || Err::<(), _>(Error::Closed));
        assert!(refused.is_err());
        drop(closed);
        store.put(&[0], 1);
        assert!(store.images.has_changed(&cut, &[0]).expect("memory"), "nothing is kept for it");
        assert_eq!(get_at(&store, &cut, 0), 0, "a cut that changes");
        drop(cut);
        store.expect_empty();
    });
}

/// Values that such a write has kept for others are no change that the transaction meets when it is tried again.
#[test]
fn a_write_that_finds_no_room_is_no_change() {
    model(|| {
        let store = Store::new(1 << 20);
        let (other, own) = (store.cut(), store.cut());
        let at = Arc::clone(&other);
        let reads = store.spawn(1, move |store| get_at(store, &at, 0));
        let closed = store.gate.close();
        store.write_refused(&own);
        assert!(!store.images.has_changed(&own, &[0]).expect("memory"), "it meets itself");
        drop(closed);
        store.put(&[0], 1);
        assert!(store.images.has_changed(&own, &[0]).expect("memory"), "nothing is kept for it");
        assert_eq!(reads.join().expect("no panic"), 0, "a cut that changes");
        for cut in [own, other] {
            assert_eq!(get_at(&store, &cut, 0), 0, "a cut that changes");
        }
        store.expect_empty();
    });
}

/// It takes nothing back that an earlier writer has kept.
#[test]
fn a_write_that_finds_no_room_leaves_what_others_have_kept() {
    model(|| {
        let store = Store::new(1 << 20);
        let (other, own) = (store.cut(), store.cut());
        store.put(&[0], 1);
        let closed = store.gate.close();
        store.write_refused(&own);
        drop(closed);
        assert!(store.images.has_changed(&own, &[0]).expect("memory"), "it was changed");
        for cut in [own, other] {
            assert_eq!(get_at(&store, &cut, 0), 0, "a cut that changes");
        }
        store.expect_empty();
    });
}

/// A transaction keeps what it replaces for cuts that others read at, whichever is the newest.
#[test]
fn a_write_that_its_own_cut_does_not_see_is_seen_by_others() {
    for own in [0, 1] {
        model(move || {
            let store = Store::new(1 << 20);
            let cuts = [store.cut(), store.cut()];
            let closed = store.gate.close();
            store.write_unseen(&cuts[own], 0, 1);
            drop(closed);
            assert_eq!(get_at(&store, &cuts[1 - own], 0), 0, "a cut that changes");
            drop(cuts);
            store.expect_empty();
        });
    }
}

/// The only cut ends while a writer keeps something for it.
#[test]
fn what_is_kept_while_the_last_cut_ends_does_not_stay() {
    model(|| {
        let store = Store::new(1 << 20);
        let cut = store.cut();
        let writes = store.spawn(1, |store| store.put(&[0], 1));
        drop(cut);
        writes.join().expect("no panic");
        store.expect_empty();
    });
}

/// The last cut ends while a writer keeps something for it, and another cut comes.
#[test]
fn what_is_kept_while_a_cut_ends_and_another_comes_is_neither_lost_nor_left() {
    model(|| {
        let store = Store::new(1 << 20);
        let old = store.cut();
        store.put(&[1], 1);
        let ends = store.spawn(0, move |_| drop(old));
        let writes = store.spawn(1, |store| store.put(&[0], 1));
        let young = store.cut();
        let seen = get_at(&store, &young, 0);
        writes.join().expect("no panic");
        ends.join().expect("no panic");
        assert_eq!(get_at(&store, &young, 0), seen, "a cut that changes");
        drop(young);
        store.expect_empty();
    });
}

/// Beyond the bound the oldest cut is given up: it refuses, and never says anything else.
#[test]
fn a_cut_that_is_given_up_refuses_or_is_right() {
    model(|| {
        let store = Store::new(1);
        let cut = store.cut();
        let writes = store.spawn(1, |store| store.put(&[0, 1], 1));
        for key in [0, 1, 0] {
            match store.get_at(&cut, key) {
                Ok(value) => assert_eq!(value, 0, "what came later"),
                Err(error) => assert!(matches!(error, Error::SnapshotTooOld { .. }), "{error}"),
            }
        }
        writes.join().expect("no panic");
        store.get_at(&cut, 0).expect_err("its bound is passed");
        store.expect_empty();
    });
}

/// Transactions that add 1, beside each other and a cut: none is lost.
#[test]
fn transactions_lose_no_step() {
    model(|| {
        let store = Store::new(1 << 20);
        let other = store.spawn(1, |store| store.add_one(0));
        let own = store.add_one(0);
        let other = other.join().expect("no panic");
        assert!(own || other, "each in the other's way");
        assert_eq!(store.get(0), u8::from(own) + u8::from(other), "a lost update");
        store.expect_empty();
    });
}

/// A single write beside a transaction that has read the key: it comes before the transaction began, or after it.
fn add_beside_a_write(add: impl Fn(&Store) -> bool) {
    let store = Store::new(1 << 20);
    let writes = store.spawn(1, |store| store.put(&[0], 7));
    let added = add(&store);
    writes.join().expect("no panic");
    let value = store.get(0);
    match added {
        true => assert!(value == 7 || value == 8, "{value} from 0, 7 and 1 more"),
        false => assert_eq!(value, 7, "what did not happen is there"),
    }
    // The put came before the read, or after the commit.
    assert!(!added || value != 1, "a lost update");
    store.expect_empty();
}

#[test]
fn a_transaction_is_alone_from_its_validation_on() {
    model(|| add_beside_a_write(|store| store.add_one(0)));
}

#[test]
fn a_transaction_that_validates_before_it_is_alone_is_caught() {
    assert_found("from 0, 7 and 1 more", || {
        add_beside_a_write(|store| {
            let cut = store.cut();
            let value = get_at(store, &cut, 0);
            if store.images.has_changed(&cut, &[0]).expect("memory") {
                return false;
            }
            let _closed = store.gate.close();
            cut.end();
            store.change(0, value + 1);
            true
        });
    });
}

/// All at once: a cut, a commit, a batch and a sweep, so that nobody waits for ever.
#[test]
fn nobody_waits_for_ever() {
    model(|| {
        let store = Store::new(100);
        let batch = store.spawn(1, |store| store.put(&[0, 1], 7));
        let commit = store.spawn(0, |store| store.add_one(1));
        let cut = store.cut();
        let seen = store.get_at(&cut, 0);
        batch.join().expect("no panic");
        commit.join().expect("no panic");
        if let (Ok(first), Ok(again)) = (seen, store.get_at(&cut, 0)) {
            assert_eq!(first, again, "a cut that changes");
        }
        drop(cut);
        store.expect_empty();
    });
}
