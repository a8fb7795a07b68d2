//! The reads and writes of a transaction, and the moment that it reads at.
//!
//! A read is noted before its answer is given, and nothing is noted when something is dropped: what an iterator or a
//! cursor has shown counts as read, whatever becomes of it afterwards. A pair that cannot be noted is not shown.
//!
//! # Reads without a cut
//!
//! A transaction that is tried again if others are in its way begins without a cut, so that
//! nobody has to keep anything for it. Its reads look at the tree as it is, and remember the leaf, by the version of its
//! latch. Each read asks then whether all leaves that were read are as they were, while no commit and no batch is half
//! made: then all that was read was so at that moment, and whatever of a commit it shows has happened before its end. If not, the transaction has been overtaken: the
//! read fails, as the commit would, and the next attempt has a cut. So has this one from the moment on in which it wants
//! a range, or one key more than it can remember; all that was read before must be so then.
//!
//! After NOrec (Dalessandro, Spear and Scott, PPoPP 2010), which validates values by one sequence lock, and Silo (Tu and
//! others, SOSP 2013), which validates versions at the commit. The versions of leaves are there in any case; and the lock that
//! says whether commits are under way is only read here.

use std::cell::{Cell, OnceCell, RefCell};
use std::mem;
use std::ops::Bound;
use std::sync::Arc;
use std::time::{Duration, Instant};

use everleaf_pmem::fallible;
use everleaf_pmem::fallible::taken;

use crate::engine::{
    Alone, Buffer, Change, Engine, IsHeld, KeyPlace, LockPlace, SeenPlace, Share, TreeChanges,
};
use crate::limits::check_key;
use crate::snapshot::KeysAt;
use crate::sorted::Sorted;
use crate::spans::{Reads, Spans, Upto};
use crate::tree::NamedTree;
use crate::{Bytes, Error, Result, Snapshot, SnapshotTree, Tree};

/// Names this memory in errors.
const WRITES: &str = "the writes of a transaction";

/// So many writes, and so many trees, are listed for the commit without an allocation.
const FEW: usize = 4;
const NO_CHANGE: Change<'_> = Change { key: &[], value: None };
const UNBOUNDED: Bound<&[u8]> = Bound::Unbounded;

/// A transaction without a cut remembers so many leaves.
const LEAVES: usize = 8;

/// New values by their keys, and keys that go.
type Written = Sorted<Option<Bytes>>;

/// The state of a transaction.
pub(crate) struct Work {
    engine: Share<Engine>,
    /// Whether reads count at the commit.
    notes_reads: bool,
    /// The moment of the first read.
    cut: OnceCell<Snapshot>,
    /// Whether it reads without a cut, as long as it can.
    by_leaves: Cell<bool>,
    /// Whether it has found that something has changed that it had read without a cut, and said so.
    is_overtaken: Cell<bool>,
    /// It locks with this, if it does. The attempts of one run share it.
    locker: Option<Locker>,
    /// Whether it has lost its locks to a deadlock.
    in_deadlock: Cell<bool>,
    /// Not borrowed while something of the user's runs.
    state: RefCell<State>,
}

struct State {
    /// In the order in which they came.
    trees: Vec<TreeWork>,
    /// Where each is, by what its handles have in common, if they are more than a few.
    places: Vec<(usize, usize)>,
    /// Where it has read without a cut.
    leaves: Leaves,
    buffer: Buffer,
}

/// A key that was read without a cut, and its leaf.
#[derive(Clone, Copy, Default)]
struct ReadPlace {
    /// The place of its tree.
    tree: u32,
    /// Where the key is among those that were read there, if it is short.
    mark: Option<u32>,
    seen: SeenPlace,
}

/// Leaves as they were read.
#[derive(Default)]
struct Leaves {
    seen: [ReadPlace; LEAVES],
    count: usize,
}

impl Leaves {
    fn is_full(&self) -> bool {
        self.count == LEAVES
    }

    fn push(&mut self, read: ReadPlace) {
        self.seen[self.count] = read;
        self.count += 1;
    }

    fn all(&self) -> &[ReadPlace] {
        &self.seen[..self.count]
    }
}

/// The reads and writes of one tree.
struct TreeWork {
    on: Share<NamedTree>,
    reads: Reads,
    writes: Written,
    /// Bytes that the new values take.
    value_bytes: u64,
}

impl TreeWork {
    fn read_bytes(&self) -> u64 {
        self.reads.bytes()
    }

    fn written_bytes(&self) -> u64 {
        self.writes.bytes() + self.value_bytes
    }
}

impl State {
    /// Where the work on a tree is, if there is some.
    #[inline]
    fn place(&self, tree: &Tree) -> Option<usize> {
        let id = tree.on.id();
        if self.trees.len() <= FEW {
            return self.trees.iter().position(|work| work.on.tree.id() == id);
        }
        let at = self.places.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        Some(self.places[at].1)
    }

    #[inline]
    fn of(&self, tree: &Tree) -> Option<&TreeWork> {
        self.place(tree).map(|no| &self.trees[no])
    }

    /// The work on a tree, which gets some if it has none.
    #[inline]
    fn entry(&mut self, tree: &Tree) -> Result<&mut TreeWork> {
        let no = match self.place(tree) {
            Some(no) => no,
            None => self.add(tree)?,
        };
        Ok(&mut self.trees[no])
    }

    /// Adds a tree; says where it is.
    fn add(&mut self, tree: &Tree) -> Result<usize> {
        self.buffer.admit(size_of::<TreeWork>() as u64)?;
        let (no, before) = (self.trees.len(), self.list_bytes());
        fallible::more(&mut self.trees, 1, WRITES)?;
        if no >= FEW {
            fallible::more(&mut self.places, FEW + 1, WRITES)?;
            if no == FEW {
                self.places.extend((0..no).map(|no| (self.trees[no].on.tree.id(), no)));
                self.places.sort_unstable();
            }
            let id = tree.on.id();
            let at = self.places.partition_point(|(other, _)| *other < id);
            self.places.insert(at, (id, no));
        }
        self.trees.push(TreeWork {
            on: tree.share(),
            reads: Reads::default(),
            writes: Written::default(),
            value_bytes: 0,
        });
        let bytes = self.buffer.bytes() + self.list_bytes() - before;
        self.buffer.set(tree.on.buffers(), bytes);
        Ok(no)
    }

    fn list_bytes(&self) -> u64 {
        taken(self.trees.capacity() * size_of::<TreeWork>())
            + taken(self.places.capacity() * size_of::<(usize, usize)>())
    }

    /// Changes a part of the work on a tree, and counts what that takes then.
    #[inline(always)]
    fn change<T>(
        &mut self,
        tree: &Tree,
        bytes: impl Fn(&TreeWork) -> u64,
        change: impl FnOnce(&mut TreeWork) -> Result<T>,
    ) -> Result<T> {
        let work = self.entry(tree)?;
        let before = bytes(work);
        let answer = change(work);
        let after = bytes(work);
        self.buffer.set(tree.on.buffers(), self.buffer.bytes() - before + after);
        answer
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.state.get_mut().buffer.forget(self.engine.buffers());
    }
}

impl Work {
    #[inline(always)]
    pub fn new(
        engine: Share<Engine>,
        (notes_reads, by_leaves): (bool, bool),
        mut locker: Option<Locker>,
    ) -> Self {
        let mut buffer = Buffer::new(engine.buffers());
        if let Some(locker) = &mut locker {
            // Those of earlier attempts.
            buffer.set(engine.buffers(), locker.begin());
        }
        let (trees, places, leaves) = (Vec::new(), Vec::new(), Leaves::default());
        let state = RefCell::new(State { trees, places, leaves, buffer });
        let (cut, in_deadlock, is_overtaken) =
            (OnceCell::new(), Cell::new(false), Cell::new(false));
        let by_leaves = Cell::new(by_leaves && notes_reads && locker.is_none());
        Self { engine, notes_reads, cut, by_leaves, is_overtaken, locker, in_deadlock, state }
    }

    /// Whether others have changed what it had read without a cut, which an error has said.
    pub fn is_overtaken(&self) -> bool {
        self.is_overtaken.get()
    }

    /// Whether it has lost its locks to a deadlock, and said so.
    pub fn in_deadlock(&self) -> bool {
        self.in_deadlock.get()
    }

    /// Locks a place, if the transaction locks what it uses.
    #[inline(always)]
    fn lock(&self, tree: &Tree, start: &[u8], upto: Upto<'_>) -> Result<()> {
        match &self.locker {
            Some(locker) => self.lock_by(locker, tree, start, upto),
            None => Ok(()),
        }
    }

    #[cold]
    #[inline(never)]
    fn lock_by(&self, locker: &Locker, tree: &Tree, start: &[u8], upto: Upto<'_>) -> Result<()> {
        // While it waits, nothing is borrowed.
        self.state.borrow().buffer.admit(Spans::bytes_of(start, upto))?;
        let place = LockPlace { tree: tree.on.id(), start, upto };
        let locked = locker.lock(tree.name(), place);
        self.in_deadlock.set(matches!(locked, Err(Error::Deadlock { .. })));
        let buffer = &mut self.state.borrow_mut().buffer;
        let (before, after) = locked?;
        buffer.set(tree.on.buffers(), buffer.bytes() + after - before);
        Ok(())
    }

    pub fn engine(&self) -> &Share<Engine> {
        &self.engine
    }

    /// The moment of the first read.
    #[inline]
    fn snapshot(&self) -> Result<&Snapshot> {
        if let Some(snapshot) = self.cut.get() {
            return Ok(snapshot);
        }
        let snapshot = Snapshot::new(Engine::clone(&self.engine))?;
        if self.by_leaves.replace(false) {
            // A fact that held until after the cut held at the cut.
            self.expect_leaves(&self.state.borrow())?;
        }
        Ok(self.cut.get_or_init(|| snapshot))
    }

    /// Refuses if a leaf may have changed that was read without a cut.
    fn expect_leaves(&self, state: &State) -> Result<()> {
        let expected = state.validate_leaves(&|_| false);
        if let Err(Error::Conflict { .. }) = &expected {
            // For good: a page that was cold may be hot again, and whoever was told so has gone on without the read.
            self.is_overtaken.set(true);
        }
        expected
    }

    /// Reads a key of the tree as it is, unless the transaction has a cut, or needs one now.
    #[inline]
    fn get_by_leaf(&self, tree: &Tree, key: &[u8]) -> Result<Option<Option<Bytes>>> {
        if !self.by_leaves.get() || self.state.borrow().leaves.is_full() {
            return Ok(None);
        }
        // A read that fails counts as one, too, and is noted as that of a key, which only a cut validates.
        let Ok((value, seen)) = tree.on.get_seen(key) else { return Ok(None) };
        let mut state = self.state.borrow_mut();
        // It was noted.
        let Some(no) = state.place(tree) else { return Ok(None) };
        // Also for the first one: who has seen a part of a commit may not end before that does.
        if !self.engine.is_whole() {
            return Ok(None);
        }
        let mark = state.trees[no].reads.mark(key);
        state.leaves.push(ReadPlace { tree: no as u32, mark, seen });
        self.expect_leaves(&state)?;
        Ok(Some(value))
    }

    /// The tree as it was at the first read.
    pub fn then(&self, tree: &Tree) -> Result<SnapshotTree> {
        self.snapshot()?.of(tree)
    }

    /// Notes that something of a tree is read.
    pub fn note(&self, tree: &Tree, start: &[u8], upto: Upto<'_>) -> Result<()> {
        if !self.notes_reads {
            return Ok(());
        }
        self.lock(tree, start, upto)?;
        let mut state = self.state.borrow_mut();
        state.buffer.admit(Spans::bytes_of(start, upto))?;
        state.change(tree, TreeWork::read_bytes, |work| work.reads.add(start, upto))
    }

    /// The transaction's own write for a key; if there is none, notes that the key is read.
    #[inline]
    fn read_own<T>(
        &self,
        tree: &Tree,
        key: &[u8],
        own: impl FnOnce(Option<&[u8]>) -> Result<T>,
    ) -> Result<Option<T>> {
        let state = self.state.borrow();
        if let Some(value) = state.of(tree).and_then(|work| work.writes.get(key)) {
            return own(value.as_deref()).map(Some);
        }
        drop(state);
        tree.expect_of(&self.engine)?;
        // If it waits for a lock, its moment comes after that.
        self.note(tree, key, Upto::Itself)?;
        Ok(None)
    }

    /// Reads a key: what the transaction has written for it, or else the tree of its moment.
    pub fn read<T>(
        &self,
        tree: &Tree,
        key: &[u8],
        own: impl FnOnce(Option<&[u8]>) -> Result<T>,
        then: impl FnOnce(KeysAt<'_>) -> Result<T>,
    ) -> Result<T> {
        match self.read_own(tree, key, own)? {
            Some(own) => Ok(own),
            None => then(self.snapshot()?.keys_of(tree)),
        }
    }

    /// The same, of the value itself.
    pub fn get(&self, tree: &Tree, key: &[u8]) -> Result<Option<Bytes>> {
        let own = |own: Option<&[u8]>| own.map(|own| Bytes::copy(own, "a value")).transpose();
        if let Some(own) = self.read_own(tree, key, own)? {
            return Ok(own);
        }
        match self.get_by_leaf(tree, key)? {
            Some(value) => Ok(value),
            None => self.snapshot()?.keys_of(tree).get(key),
        }
    }

    /// Shows what the transaction has written to a key between two bounds, the first or the last of them.
    pub fn own_between<T>(
        &self,
        tree: &Tree,
        (low, high): (Bound<&[u8]>, Bound<&[u8]>),
        up: bool,
        show: impl FnOnce(Option<(&[u8], Option<&[u8]>)>) -> T,
    ) -> T {
        let state = self.state.borrow();
        let own = state.of(tree).and_then(|work| {
            let mut range = work.writes.range(low, high);
            if up { range.next() } else { range.next_back() }
        });
        show(own.map(|(key, value)| (key, value.as_deref())))
    }

    /// Shows all keys of a tree that the transaction has written, and whether they have a value.
    pub fn each_own(
        &self,
        tree: &Tree,
        mut show: impl FnMut(&[u8], bool) -> Result<()>,
    ) -> Result<()> {
        let state = self.state.borrow();
        let Some(work) = state.of(tree) else { return Ok(()) };
        let mut all = work.writes.range(UNBOUNDED, UNBOUNDED);
        all.try_for_each(|(key, value)| show(key, value.is_some()))
    }

    /// Refuses keys that are too long, and trees of other pools.
    fn expect_writable(&self, tree: &Tree, key: &[u8]) -> Result<()> {
        check_key(key)?;
        tree.expect_of(&self.engine)
    }

    /// Writes a value, or that there is none.
    pub fn write(&self, tree: &Tree, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        self.expect_writable(tree, key)?;
        self.lock(tree, key, Upto::Itself)?;
        let mut state = self.state.borrow_mut();
        let value_bytes = value.map_or(0, |value| taken(value.len()));
        let refused = state.buffer.admit(Written::ENTRY_BYTES + taken(key.len()) + value_bytes);
        if refused.is_err() {
            // In the place of another value it takes less.
            let old = state.of(tree).and_then(|work| work.writes.get(key));
            let Some(old) = old else { return refused };
            let old_bytes = old.as_ref().map_or(0, Bytes::taken);
            state.buffer.admit(value_bytes.saturating_sub(old_bytes))?;
        }
        let value = value.map(|value| Bytes::copy(value, WRITES)).transpose()?;
        let value_bytes = value.as_ref().map_or(0, Bytes::taken);
        state.change(tree, TreeWork::written_bytes, |work| {
            let old = mem::replace(work.writes.entry(key, || None, WRITES)?, value);
            let old_bytes = old.map_or(0, |old| old.taken());
            work.value_bytes = work.value_bytes + value_bytes - old_bytes;
            Ok(())
        })
    }

    /// Refuses to remove keys if that would take too much: so many, of so many bytes.
    pub fn admit_removals(&self, keys: u64, key_bytes: u64) -> Result<()> {
        let bytes = keys.saturating_mul(Written::ENTRY_BYTES).saturating_add(key_bytes);
        self.state.borrow().buffer.admit(bytes)
    }

    /// How many keys were written.
    pub fn written(&self) -> usize {
        self.state.borrow().trees.iter().map(|work| work.writes.len()).sum()
    }

    /// Makes all writes in one epoch, if nobody has changed what was read: or, if reads do not count, what is
    /// written. Says whether there are any.
    pub fn commit(&mut self) -> Result<bool> {
        let state = &*self.state.get_mut();
        if self.is_overtaken.get() {
            return Err(Error::Conflict { tree: "".into(), key: Vec::new(), attempts: 1 });
        }
        let count = state.trees.iter().map(|work| work.writes.len()).sum();
        if count == 0 {
            return Ok(false);
        }
        let cut = self.cut.get();
        let (mut few, mut many) = ([NO_CHANGE; FEW], Vec::new());
        let all = fallible::short(&mut few, &mut many, count, WRITES)?;
        let (mut few, mut many) = ([None; FEW], Vec::new());
        let seen = fallible::short(&mut few, &mut many, count, WRITES)?;
        state.list_changes(all, seen, cut.is_none());
        let written = || state.trees.iter().filter(|work| !work.writes.is_empty());
        let nothing = TreeChanges { tree: &state.trees[0].on.tree, changes: &[], seen: &[] };
        let (mut few, mut many) = ([nothing; FEW], Vec::new());
        let batch = fallible::short(&mut few, &mut many, written().count(), WRITES)?;
        let mut rest = (&*all, &*seen);
        for (part, TreeWork { on, writes, .. }) in batch.iter_mut().zip(written()) {
            let (changes, others) = rest.0.split_at(writes.len());
            let (seen, of_others) = rest.1.split_at(writes.len());
            (*part, rest) = (TreeChanges { tree: &on.tree, changes, seen }, (others, of_others));
        }
        let validate = |is_held: IsHeld<'_>| match cut {
            Some(cut) if self.notes_reads => state.validate_reads(cut),
            Some(cut) => state.validate_writes(cut),
            None => state.validate_leaves(is_held),
        };
        let cut = cut.map(Snapshot::cut);
        let alone = Alone { validate: &validate, cut, has_locked: self.locker.is_some() };
        let outcome = self.engine.commit(batch, Some(&alone));
        // Without a cut it may be another key of a leaf that has changed: that is no conflict before there is one with a cut.
        if outcome.is_ok() || !self.by_leaves.get() {
            self.engine.versions().count_commit(&outcome);
        }
        outcome.map(|()| true)
    }
}

impl State {
    /// Lists all writes, and where their keys were read, if that was without a cut.
    fn list_changes<'s>(
        &'s self,
        changes: &mut [Change<'s>],
        seen: &mut [Option<KeyPlace>],
        is_without_cut: bool,
    ) {
        let mut lists = changes.iter_mut().zip(seen);
        for (no, work) in self.trees.iter().enumerate() {
            for (key, value) in work.writes.range(UNBOUNDED, UNBOUNDED) {
                let Some((change, seen)) = lists.next() else { return };
                *change = Change { key, value: value.as_deref() };
                if is_without_cut {
                    let is_of = |read: &&ReadPlace| {
                        let is_at = |mark| work.reads.has_at(mark, key);
                        read.tree as usize == no && read.mark.is_some_and(is_at)
                    };
                    *seen = self.leaves.all().iter().find(is_of).map(|read| read.seen.place);
                }
            }
        }
    }

    /// Whether the leaves that were read without a cut are as they were; the commit may hold some of them.
    fn validate_leaves(&self, is_held: IsHeld<'_>) -> Result<()> {
        for read in self.leaves.all() {
            let on = &self.trees[read.tree as usize].on;
            if !on.tree.is_as_seen(read.seen, is_held)? {
                // Which key it was nobody knows, nor needs to: it is tried again.
                return Err(on.conflict(Vec::new()));
            }
        }
        Ok(())
    }

    /// Whether what was read is still so: the cut has made all writers, who are out, keep what they replaced.
    fn validate_reads(&self, snapshot: &Snapshot) -> Result<()> {
        let cut = snapshot.cut();
        cut.alive()?;
        for TreeWork { on, reads, .. } in &self.trees {
            let tree = &on.tree;
            for (start, upto) in reads.iter() {
                let changed = match upto {
                    // It was cleared: each key was removed.
                    _ if tree.former(cut).is_some() => Some(start.to_vec()),
                    Upto::Itself => tree.images().has_changed(cut, start)?.then(|| start.to_vec()),
                    Upto::Before(end) => {
                        let range = (Bound::Included(start), Bound::Excluded(end));
                        tree.images().changed(cut, range)?
                    }
                    Upto::End => {
                        tree.images().changed(cut, (Bound::Included(start), Bound::Unbounded))?
                    }
                };
                if let Some(key) = changed {
                    return Err(on.conflict(key));
                }
            }
        }
        Ok(())
    }

    /// Whether nobody has changed what it changes.
    fn validate_writes(&self, snapshot: &Snapshot) -> Result<()> {
        let cut = snapshot.cut();
        cut.alive()?;
        for TreeWork { on, writes, .. } in &self.trees {
            let is_former = on.tree.former(cut).is_some();
            for (key, _) in writes.range(UNBOUNDED, UNBOUNDED) {
                if is_former || on.tree.images().has_changed(cut, key)? {
                    return Err(on.conflict(key.to_vec()));
                }
            }
        }
        Ok(())
    }
}

/// The locks of one transaction, in all its attempts, if it asks for them. They end when the last clone of this is dropped.
#[derive(Clone)]
pub(crate) struct Locker {
    locking: Arc<Locking>,
    /// When all locks of this attempt end, also those that come late.
    until: Instant,
}

struct Locking {
    engine: Engine,
    id: u64,
    /// How long the locks last, from the begin of an attempt on.
    lasts: Duration,
}

impl Locker {
    pub fn new(engine: &Engine, lasts: Duration) -> Self {
        let id = engine.locks().new_owner();
        let locking = Arc::new(Locking { engine: engine.clone(), id, lasts });
        Self { locking, until: Instant::now() }
    }

    /// Another attempt begins, with the locks of those before. Says how much memory these take.
    pub fn begin(&mut self) -> u64 {
        // Something may last long, and not for ever.
        const LONGEST: Duration = Duration::from_secs(1 << 30);
        let Locking { engine, id, lasts } = &*self.locking;
        self.until = Instant::now() + (*lasts).min(LONGEST);
        match self.locking.is_of_another_process() {
            false => engine.locks().renew(*id, self.until),
            true => 0,
        }
    }

    /// Locks a place in the tree of this name, after others have ended that have a part of it. Says how much memory
    /// all locks took before, and take now.
    ///
    /// # Errors
    /// Deadlock, if another one waits for this one: then nothing is locked any more. NoMemory.
    pub fn lock(&self, name: &str, place: LockPlace<'_>) -> Result<(u64, u64)> {
        if self.locking.is_of_another_process() {
            return Err(Error::Forked);
        }
        let Locking { engine, id, .. } = &*self.locking;
        let locked = engine.locks().lock(*id, self.until, place)?;
        locked.ok_or_else(|| Error::Deadlock { tree: name.into(), key: place.start.to_vec() })
    }
}

impl Locking {
    /// After a fork another thread may have the list of locks for ever.
    fn is_of_another_process(&self) -> bool {
        matches!(self.engine.alive(), Err(Error::Forked))
    }
}

impl Drop for Locking {
    fn drop(&mut self) {
        if !self.is_of_another_process() {
            self.engine.locks().end(self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use crate::engine::Place;

    #[test]
    fn all_locks_of_an_attempt_end_together() {
        let engine = Engine::open(Place::Memory(1 << 20), &Options::new()).expect("memory");
        let mut locker = Locker::new(&engine, Duration::from_millis(1));
        let (id, mut last) = (locker.locking.id, None);
        for _ in 0..2 {
            locker.begin();
            let until = locker.until;
            for key in [&b"a"[..], b"b"] {
                let place = LockPlace { tree: 1, start: key, upto: Upto::Itself };
                locker.lock("t", place).expect("nobody else locks");
                assert_eq!(engine.locks().ends(id), Some(until));
                std::thread::sleep(Duration::from_millis(2));
                // Its time has passed: whoever comes by forgets it.
                let gives = || engine.locks().give(1, key);
                std::thread::scope(|scope| scope.spawn(gives).join().expect("no panic"));
                assert_eq!(engine.locks().ends(id), None);
            }
            assert!(last.replace(until) < Some(until), "another attempt has its own time");
        }
    }
}
