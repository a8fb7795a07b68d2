//! The epochs that a crash takes: whole epochs, the last two at most, on persistent memory and on a journal.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use everleaf_file::{Dax, DaxOptions, File, FileOptions};
use everleaf_pmem::BufferedOptions;
use everleaf_tree::hybrid::Rebuild;
use everleaf_tree::{BdTree, CircTree, FilePool, INDEX_ANCHOR, Index, open_bd_dax};

use crate::keys::key;

/// Length of an epoch.
const INTERVAL: Duration = Duration::from_millis(4);

/// Epochs that are durable before the crash.
const EPOCHS: u64 = 6;

/// A tree whose process can be lost, and that can be opened again.
trait Mortal: Sized {
    /// Opens it, or makes it.
    fn open(path: &Path) -> Self;
    fn index(&self) -> &dyn Index;
    /// The running epoch, and the last durable one.
    fn epochs(&self) -> (u64, u64);
    /// Ends as if the process had been killed.
    fn crash(self);
}

struct OnMemory(BdTree<Dax>);

impl Mortal for OnMemory {
    fn open(path: &Path) -> Self {
        let (slots, pages) = (16, 20_000);
        let options =
            DaxOptions { slots, pages, create: true, emulate: true, ..DaxOptions::default() };
        let epochs = BufferedOptions { interval: INTERVAL, ..BufferedOptions::default() };
        Self(open_bd_dax(path, &options, &epochs, &Rebuild::default()).expect("room").0)
    }

    fn index(&self) -> &dyn Index {
        &self.0
    }

    fn epochs(&self) -> (u64, u64) {
        (self.0.medium().clock(), self.0.medium().persisted_epoch())
    }

    fn crash(self) {
        self.0.medium().abandon();
    }
}

struct OnJournal {
    tree: CircTree<File>,
    _pool: FilePool,
}

impl Mortal for OnJournal {
    fn open(path: &Path) -> Self {
        let options = FileOptions { create: true, interval: INTERVAL, ..FileOptions::default() };
        let pool = FilePool::open(path, &options).expect("room");
        let tree = CircTree::open(Arc::clone(pool.pool()), INDEX_ANCHOR).expect("a tree");
        Self { tree, _pool: pool }
    }

    fn index(&self) -> &dyn Index {
        &self.tree
    }

    fn epochs(&self) -> (u64, u64) {
        let file = self.tree.pool().medium();
        (file.clock(), file.durable_epoch())
    }

    fn crash(self) {
        self.tree.pool().medium().abandon_and_release().expect("no batch runs");
    }
}

/// Writes for some epochs, crashes, and looks what is there.
fn crash<T: Mortal>() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("pool");
    let tree = T::open(&path);
    let first = tree.epochs().1;
    // The epoch of each write, or one after it.
    let mut epochs = Vec::new();
    while tree.epochs().1 < first + EPOCHS {
        let k = key(epochs.len() as u64);
        tree.index().insert(k, !k).expect("room");
        epochs.push(tree.epochs().0);
        std::thread::sleep(Duration::from_micros(100));
    }
    let (running, durable) = tree.epochs();
    assert!(durable + 2 >= running, "epoch {running} runs, and only {durable} is durable");
    tree.crash();
    let tree = T::open(&path);
    let is_there = |i: &usize| {
        let k = key(*i as u64);
        tree.index().get(k).expect("no damage").is_some_and(|value| value == !k)
    };
    let kept = (0..epochs.len()).take_while(is_there).count();
    assert_eq!((kept..epochs.len()).filter(is_there).count(), 0, "a later write is there");
    let old = epochs.iter().filter(|epoch| **epoch + 2 <= running).count();
    assert!(old > 0 && kept >= old, "{kept} of {} are there, not {old}", epochs.len());
}

#[test]
fn a_crash_on_persistent_memory_takes_the_last_two_epochs_at_most() {
    crash::<OnMemory>();
}

#[test]
fn a_crash_on_a_journal_takes_the_last_two_epochs_at_most() {
    crash::<OnJournal>();
}
