//! Runs transactions and plain operations on threads, and records what they have read and written.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use everleaf::{Db, Error, Isolation, Transaction, TransactionOptions, Tree};
use everleaf_testing::Rng;

use super::{
    Done, Entry, FORK, History, Kind, List, Plan, QUEUE, SHORT, Seen, queue_key, queue_range,
};

/// After so many transactions of all threads they use other keys, so that lists stay short.
const AGE: u64 = 160;
/// In so many trees there is one list each.
const FORKS: u64 = 4;
/// So many places a queue has; any number of keys stands at each.
const PLACES: u64 = 64;

fn key(n: u64) -> [u8; 8] {
    n.to_be_bytes()
}

fn list(value: Option<&[u8]>) -> List {
    let number = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("four bytes"));
    let entries = value.unwrap_or_default().chunks(8);
    entries.map(|entry| (number(&entry[..4]), number(&entry[4..]))).collect()
}

fn value(list: &List) -> Vec<u8> {
    list.iter().flat_map(|(tx, n)| [tx.to_le_bytes(), n.to_le_bytes()].concat()).collect()
}

fn number(key: &[u8]) -> u64 {
    u64::from_be_bytes(key.try_into().expect("eight bytes"))
}

fn place(n: u64) -> u64 {
    n >> 40 & 0xff
}

/// Why a transaction has not committed.
enum Stop {
    NotDone,
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::Failed(error)
    }
}

/// A transaction, what it has seen, and its entry at this step.
struct Step<'a> {
    tx: &'a Transaction,
    seen: &'a mut Seen,
    entry: Entry,
}

impl Step<'_> {
    /// Appends to what was read.
    fn append(&mut self, tree: &Tree, n: u64, entries: List) -> everleaf::Result<()> {
        let entries = self.seen.append(n, entries, self.entry);
        self.tx.put(tree, key(n), value(&entries))
    }

    fn get(&mut self, tree: &Tree, n: u64) -> everleaf::Result<List> {
        let entries = list(self.tx.get(tree, key(n))?.as_deref());
        self.seen.read(n, entries.clone());
        Ok(entries)
    }

    fn get_and_append(&mut self, tree: &Tree, n: u64) -> everleaf::Result<()> {
        let entries = self.get(tree, n)?;
        self.append(tree, n, entries)
    }

    /// Removes a range that was read, or all, and appends to what was there: one that came between would be lost.
    fn take_range(&mut self, tree: &Tree, all: Vec<(u64, List)>) -> everleaf::Result<()> {
        let (first, last) = (all[0].0, all[all.len() - 1].0);
        let there: Vec<_> = all.into_iter().filter(|(_, list)| !list.is_empty()).collect();
        let removed = if first < SHORT {
            self.tx.remove_range(tree, key(first)..=key(last))?
        } else {
            self.tx.clear(tree)?
        };
        assert_eq!(removed, there.len() as u64, "it reads at one moment");
        let mut left = self.tx.range(tree, key(first)..=key(last));
        assert!(left.next().is_none(), "it sees its own removals");
        there.into_iter().try_for_each(|(n, list)| self.append(tree, n, list))
    }

    /// Pops the last pair and puts it back with an entry more. So the key is read, and that none is behind it.
    fn take_last(&mut self, tree: &Tree) -> everleaf::Result<()> {
        let Some((key, value)) = self.tx.pop_last(tree)? else { return Ok(()) };
        let (n, entries) = (number(&key), list(Some(&value)));
        self.seen.read(n, entries.clone());
        (1..4).for_each(|i| self.seen.read(n + 2 * i, List::new()));
        self.append(tree, n, entries)
    }

    /// Pops the first pair and puts it back with an entry more. So the key is read, and that none is before it in
    /// `all`.
    fn take_first(&mut self, tree: &Tree, all: Range<u64>) -> everleaf::Result<()> {
        let popped = self.tx.pop_first(tree)?;
        let popped = popped.map(|(key, value)| (number(&key), list(Some(&value))));
        let end = popped.as_ref().map_or(all.end, |(n, _)| *n);
        (all.start..end).step_by(2).for_each(|n| self.seen.read(n, List::new()));
        let Some((n, entries)) = popped else { return Ok(()) };
        self.seen.read(n, entries.clone());
        self.append(tree, n, entries)
    }

    /// Appends by a function of the old list.
    fn update(&mut self, tree: &Tree, n: u64) -> everleaf::Result<()> {
        let Step { tx, seen, entry } = self;
        let appended = tx.update(tree, key(n), |old| {
            let entries = list(old);
            seen.read(n, entries.clone());
            Some(value(&seen.append(n, entries, *entry)))
        })?;
        assert!(appended.is_some());
        Ok(())
    }
}

/// Trees whose keys are those of one age.
struct Age {
    no: u64,
    short: Tree,
    queue: Tree,
}

impl Age {
    fn new(db: &Db, no: u64) -> Self {
        let tree = |name| db.tree(&format!("{name} {no}")).expect("room");
        Age { no, short: tree("short"), queue: tree("queue") }
    }
}

/// One thread.
pub struct Runner {
    db: Db,
    trees: [Tree; 2],
    forks: Vec<Tree>,
    age: Age,
    clock: Arc<AtomicU64>,
    plan: Plan,
    own: u64,
    rng: Rng,
}

impl Runner {
    /// All threads of a plan.
    pub fn all(db: &Db, plan: Plan, seed: u64) -> Vec<Runner> {
        let trees = ["a", "b"].map(|name| db.tree(name).expect("room"));
        let fork = |no| db.tree(&format!("fork {no}")).expect("room");
        let forks: Vec<_> = (0..FORKS).map(fork).collect();
        let clock = Arc::<AtomicU64>::default();
        let runner = |own| Runner {
            db: db.clone(),
            trees: trees.clone(),
            forks: forks.clone(),
            age: Age::new(db, 0),
            clock: Arc::clone(&clock),
            plan,
            own,
            rng: Rng(seed * plan.threads + own),
        };
        (0..plan.threads).map(runner).collect()
    }

    /// Lets others come in between now and then.
    fn pause(&mut self) {
        match self.rng.below(8) {
            0 => std::thread::yield_now(),
            1 => (0..self.rng.below(200)).for_each(|_| std::hint::spin_loop()),
            _ => {}
        }
    }

    /// The lists of this age.
    fn lists(&self) -> Range<u64> {
        let base = self.age.no * self.plan.keys;
        base..base + self.plan.keys
    }

    /// Those of the short tree: each second one.
    fn short_keys(&self) -> Range<u64> {
        let Range { start, end } = self.lists();
        SHORT + 2 * start..SHORT + 2 * end
    }

    /// All keys of the queue of this age.
    fn queue_keys(&self, places: Range<u64>) -> Range<u64> {
        queue_range(self.age.no, places)
    }

    fn fork_key(&self, no: u64) -> u64 {
        FORK + self.age.no * FORKS + no
    }

    /// The tree of a list, or of a key of a queue.
    fn tree(&self, n: u64) -> Tree {
        let tree = match n {
            QUEUE.. => &self.age.queue,
            FORK.. => &self.forks[(n % FORKS) as usize],
            SHORT.. => &self.age.short,
            _ => &self.trees[n as usize % 2],
        };
        tree.clone()
    }

    /// The keys that readers of all of a kind read, in one of their orders.
    fn all_of(&mut self, kind: Kind) -> Vec<u64> {
        let mut all: Vec<u64> = match kind {
            Kind::Lists => self.lists().chain(self.short_keys().step_by(2)).collect(),
            Kind::Forks => (0..FORKS).map(|no| self.fork_key(no)).collect(),
            Kind::Queue => Vec::new(),
        };
        if self.rng.one_in(2) {
            all.reverse();
        }
        all
    }

    /// A snapshot is a transaction that only reads.
    fn look(&mut self, kind: Kind, seen: &mut Seen) -> everleaf::Result<bool> {
        let snapshot = self.db.snapshot()?;
        for n in self.all_of(kind) {
            self.pause();
            let found = snapshot.of(&self.tree(n))?.get(key(n))?;
            seen.read(n, list(found.as_deref()));
        }
        if kind == Kind::Queue {
            // With a list to which those append who have read the queue.
            let n = self.fork_key(0);
            let found = snapshot.of(&self.tree(n))?.get(key(n))?;
            seen.read(n, list(found.as_deref()));
            self.pause();
            let range = self.queue_keys(0..PLACES);
            let mut found = Vec::new();
            for pair in snapshot.of(&self.age.queue)?.iter() {
                let (key, value) = pair?;
                found.push((number(&key), list(Some(&value))));
            }
            seen.range(range, &found);
        }
        Ok(true)
    }

    /// A single operation is a transaction of its own.
    fn update(&mut self, id: u32, n: u64, seen: &mut Seen) -> everleaf::Result<bool> {
        let updated = self.tree(n).update(key(n), |old| {
            let mut entries = list(old);
            entries.push((id, 0));
            Some(value(&entries))
        })?;
        let mut entries = list(updated.as_deref());
        let entry = entries.pop().expect("it has appended one");
        seen.read(n, entries.clone());
        seen.append(n, entries, entry);
        Ok(true)
    }

    /// A plain operation on the queue.
    fn use_plainly(&mut self, id: u32, seen: &mut Seen) -> everleaf::Result<bool> {
        let queue = self.age.queue.clone();
        match self.rng.below(8) {
            0..3 => {
                let all = self.queue_keys(0..PLACES);
                let popped = queue.pop_first()?;
                let popped = popped.map(|(key, value)| (number(&key), list(Some(&value))));
                let end = popped.as_ref().map_or(all.end, |(n, _)| *n);
                seen.range(all.start..end, &[]);
                if let Some((n, entries)) = popped {
                    seen.read(n, entries.clone());
                    seen.take(n, entries);
                }
            }
            3 => {
                let from = self.rng.below(PLACES);
                let range = self.queue_keys(from..PLACES.min(from + PLACES / 2));
                let removed = queue.remove_range(key(range.start)..key(range.end))?;
                seen.sweep(range, removed);
            }
            _ => {
                let n = queue_key(self.age.no, self.rng.below(PLACES), (id, 0));
                let entries = seen.append(n, List::new(), (id, 0));
                queue.put(key(n), value(&entries))?;
            }
        }
        Ok(true)
    }

    /// Runs steps in a transaction, and says whether it has committed.
    fn transact(
        &mut self,
        id: u32,
        steps: u64,
        seen: &mut Seen,
        mut run: impl FnMut(&mut Self, Step<'_>) -> everleaf::Result<()>,
    ) -> everleaf::Result<bool> {
        let (db, options) = (self.db.clone(), TransactionOptions::new());
        let options = options.isolation(self.plan.isolation);
        let (is_tried_again, mut has_begun) = (self.rng.one_in(2), false);
        let mut run_in = |tx: &Transaction| {
            // Another attempt would be another transaction.
            if std::mem::replace(&mut has_begun, true) {
                return Err(Stop::NotDone);
            }
            for step in 0..steps as u32 {
                self.pause();
                run(self, Step { tx, seen, entry: (id, step) })?;
            }
            self.pause();
            if self.rng.one_in(20) { Err(Stop::NotDone) } else { Ok(()) }
        };
        let ran = if is_tried_again {
            // Such a transaction has no cut at first.
            db.try_transact_with(options.attempts(2), run_in)
        } else {
            let tx = db.begin_with(options);
            run_in(&tx).and_then(|()| tx.commit().map_err(Stop::from))
        };
        match ran {
            Ok(()) => Ok(true),
            Err(Stop::NotDone | Stop::Failed(Error::Conflict { .. })) => Ok(false),
            Err(Stop::Failed(error)) => Err(error),
        }
    }

    fn use_lists(&mut self, mut step: Step<'_>) -> everleaf::Result<()> {
        let lists = self.lists();
        let n = lists.start + self.rng.below(self.plan.keys);
        // Of one tree: each second number.
        let end = (n + 6).min(lists.end);
        let tree = &self.tree(n);
        match self.rng.below(11) {
            0 | 1 => step.get(tree, n).map(drop),
            2 => self.read_range(&mut step, tree, n..end).map(drop),
            3 => {
                let all = self.read_range(&mut step, tree, n..end)?;
                step.take_range(tree, all)
            }
            4 => step.take_last(tree),
            5 => step.update(tree, n),
            6..9 => self.use_short(step),
            _ => step.get_and_append(tree, n),
        }
    }

    /// A step on the short tree, of which first pairs are taken, and all.
    fn use_short(&mut self, mut step: Step<'_>) -> everleaf::Result<()> {
        let (tree, all) = (self.age.short.clone(), self.short_keys());
        match self.rng.below(4) {
            0 => {
                let all = self.read_range(&mut step, &tree, all)?;
                step.take_range(&tree, all)
            }
            1 => step.take_first(&tree, all),
            _ => step.get_and_append(&tree, all.start + 2 * self.rng.below(self.plan.keys)),
        }
    }

    /// Reads each second key of a range, from either end.
    fn read_range(
        &mut self,
        step: &mut Step<'_>,
        tree: &Tree,
        range: Range<u64>,
    ) -> everleaf::Result<Vec<(u64, List)>> {
        let found = self.pairs(step, tree, range.clone())?;
        let mut found: HashMap<_, _> = found.into_iter().collect();
        let all = range.step_by(2).map(|n| (n, found.remove(&n).unwrap_or_default()));
        let all: Vec<_> = all.collect();
        all.iter().for_each(|(n, list)| step.seen.read(*n, list.clone()));
        Ok(all)
    }

    /// The pairs of a range, read from either end.
    fn pairs(
        &mut self,
        step: &Step<'_>,
        tree: &Tree,
        range: Range<u64>,
    ) -> everleaf::Result<Vec<(u64, List)>> {
        let mut found = Vec::new();
        let up = self.rng.one_in(2);
        let mut pairs = step.tx.range(tree, key(range.start)..key(range.end));
        while let Some(pair) = if up { pairs.next() } else { pairs.next_back() } {
            let (key, value) = pair?;
            found.push((number(&key), list(Some(&value))));
        }
        Ok(found)
    }

    /// Appends to one list, or to one in each of several trees; or only reads all of them.
    fn use_forks(&mut self, id: u32, seen: &mut Seen) -> everleaf::Result<bool> {
        if self.rng.one_in(2) {
            let mut all = self.all_of(Kind::Forks).into_iter();
            return self.transact(id, FORKS, seen, |own, mut step| {
                let Some(n) = all.next() else { return Ok(()) };
                step.get(&own.tree(n), n).map(drop)
            });
        }
        let (first, count) = (self.rng.below(FORKS), self.rng.pick(&[1, 1, 2, FORKS]));
        self.transact(id, count, seen, |own, mut step| {
            let n = own.fork_key((first + u64::from(step.entry.1)) % FORKS);
            step.get_and_append(&own.tree(n), n)
        })
    }

    /// Reads what is in the queue and does something that depends on it.
    fn use_queue(&mut self, mut step: Step<'_>) -> everleaf::Result<()> {
        let (age, queue) = (self.age.no, self.age.queue.clone());
        let all = self.queue_keys(0..PLACES);
        let from = self.rng.below(PLACES);
        let part = from..PLACES.min(from + PLACES / 4);
        match self.rng.below(6) {
            what @ (0 | 1) => {
                let first = step.tx.first(&queue)?;
                let first = first.map(|(key, value)| (number(&key), list(Some(&value))));
                let end = first.as_ref().map_or(all.end, |(n, _)| n + 1);
                step.seen.range(all.start..end, first.as_slice());
                match first {
                    Some((n, entries)) if what == 1 => {
                        step.tx.delete(&queue, key(n))?;
                        step.seen.take(n, entries);
                    }
                    // Before the first one.
                    first => {
                        let first = first.map_or(PLACES / 2, |(n, _)| place(n));
                        let n = queue_key(age, first.saturating_sub(1), step.entry);
                        step.append(&queue, n, List::new())?;
                    }
                }
            }
            what => {
                let range = self.queue_keys(part.clone());
                let found = self.pairs(&step, &queue, range.clone())?;
                step.seen.range(range.clone(), &found);
                match (what, found.first().cloned()) {
                    (2, Some(_)) => {
                        // Whether that was all that it found is for the checker to say.
                        step.tx.remove_range(&queue, key(range.start)..key(range.end))?;
                        found.into_iter().for_each(|(n, list)| step.seen.take(n, list));
                    }
                    (3, Some((n, entries))) => step.append(&queue, n, entries)?,
                    (4, _) => {
                        let n = self.fork_key(0);
                        step.get_and_append(&self.tree(n), n)?;
                    }
                    _ => {
                        let n = queue_key(age, self.rng.below(PLACES), step.entry);
                        step.append(&queue, n, List::new())?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Runs one transaction, or one plain operation.
    fn one(&mut self, id: u32, seen: &mut Seen) -> everleaf::Result<bool> {
        let kind = self.rng.pick(self.plan.kinds);
        match (kind, self.rng.below(10)) {
            (_, 0) | (Kind::Queue, 1) => self.look(kind, seen),
            (Kind::Lists, 1) => {
                let n = self.lists().start + self.rng.below(self.plan.keys);
                self.update(id, n, seen)
            }
            (Kind::Forks, 1..3) => {
                let no = self.rng.below(FORKS);
                let n = self.fork_key(no);
                self.update(id, n, seen)
            }
            (Kind::Queue, 2..6) => self.use_plainly(id, seen),
            (Kind::Lists, _) => {
                let steps = 1 + self.rng.below(4);
                self.transact(id, steps, seen, Self::use_lists)
            }
            (Kind::Forks, _) => self.use_forks(id, seen),
            (Kind::Queue, _) => {
                let steps = 1 + self.rng.below(2);
                self.transact(id, steps, seen, Self::use_queue)
            }
        }
    }

    /// Runs so many transactions.
    pub fn run(&mut self, transactions: u64) -> Vec<(u32, Done)> {
        let mut done = Vec::new();
        for i in 0..transactions {
            let id = (i * self.plan.threads + self.own) as u32;
            let begun = self.clock.fetch_add(1, Ordering::SeqCst);
            let age = begun / (2 * AGE);
            if age != self.age.no {
                self.age = Age::new(&self.db, age);
            }
            let mut seen = Seen::default();
            let is_committed = self.one(id, &mut seen).expect("sound");
            let ended = self.clock.fetch_add(1, Ordering::SeqCst);
            done.push((id, Done { begun, ended, is_committed, seen }));
        }
        done
    }
}

/// Runs about so many transactions on threads.
pub fn record(
    db: &Db,
    (isolation, threads): (Isolation, u64),
    transactions: u64,
    seed: u64,
) -> History {
    println!("seed {seed}");
    let plan = Plan { isolation, threads, keys: 8, kinds: Kind::ALL };
    let done = std::thread::scope(|scope| {
        let runners = Runner::all(db, plan, seed).into_iter();
        let runners: Vec<_> = runners
            .map(|mut runner| scope.spawn(move || runner.run(transactions / threads)))
            .collect();
        let done = runners.into_iter().flat_map(|run| run.join().expect("no thread panicked"));
        done.collect::<Vec<_>>()
    });
    left(db, done)
}

/// The history of what transactions have read, and what they have left.
pub fn left(db: &Db, done: Vec<(u32, Done)>) -> History {
    let mut there = BTreeMap::new();
    for name in db.tree_names().expect("sound") {
        let tree = db.tree(&name).expect("there");
        for pair in tree.iter() {
            let (key, value) = pair.expect("sound");
            there.insert(number(&key), list(Some(&value)));
        }
    }
    History::new(done, there)
}
