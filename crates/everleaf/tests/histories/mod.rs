//! What threads have read and written in transactions, held against any order in which these could have run one
//! after the other.
//!
//! After *Elle: Inferring Isolation Anomalies from Experimental Observations* (Kingsbury and Alvaro, VLDB 2020).
//! Values are lists to which transactions append, so the last list of a key names all its writers in their order,
//! and each list that was read says after which of them. Then there are edges between transactions
//!
//! ```text
//! ww   the one appended just before the other
//! wr   the other has read what the one appended
//! rw   the one has read what the other then appended to; also a list that is not there yet
//! rt   the one had ended before the other began
//! ```
//!
//! and a cycle is an anomaly. Without rw it is one of G0 or G1c (Adya), with one it is G-single (a lost update or a
//! read skew), with more it is G2 (a write skew or a phantom). A list that is no beginning of the last one is G1a (of
//! an aborted transaction), G1b (of the midst of one), or a lost update. An append that the last list does not have
//! is a lost update, too (P4).

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use everleaf::{Db, Error, Isolation, Transaction, TransactionOptions, Tree};
use everleaf_testing::Rng;

/// After so many transactions of a thread these are others, so that lists stay short.
const AGE: u64 = 40;
const THREADS: u64 = 4;
/// Numbers from here on are those of short trees, each of which has the keys of one age.
const SHORT: u64 = 1 << 32;

/// Who runs transactions, and on what.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    pub isolation: Isolation,
    pub threads: u64,
    /// Keys in use at a time.
    pub keys: u64,
}

/// An append: its transaction, and the how manyth of it.
type Entry = (u32, u32);
type List = Vec<Entry>;

/// What a transaction has read, and when.
#[derive(Debug)]
pub struct Done {
    begun: u64,
    ended: u64,
    is_committed: bool,
    seen: Seen,
}

/// What one transaction has read and appended, by key.
#[derive(Debug, Default)]
struct Seen {
    reads: Vec<(u64, List)>,
    appends: Vec<(u64, Entry)>,
}

/// What a run of threads has seen.
#[derive(Debug, Default)]
pub struct History {
    done: BTreeMap<u32, Done>,
    last: HashMap<u64, List>,
    pub conflicts: u64,
}

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

/// Appends to what a transaction has read.
fn append(
    tx: &Transaction,
    tree: &Tree,
    n: u64,
    mut entries: List,
    seen: &mut Seen,
    entry: Entry,
) -> everleaf::Result<()> {
    entries.push(entry);
    seen.appends.push((n, entry));
    tx.put(tree, key(n), value(&entries))
}

/// Removes a range that was read, or all, and appends to what was there: one that came between would be lost.
fn take_range(
    tx: &Transaction,
    tree: &Tree,
    all: Vec<(u64, List)>,
    seen: &mut Seen,
    entry: Entry,
) -> everleaf::Result<()> {
    let (first, last) = (all[0].0, all[all.len() - 1].0);
    let there: Vec<_> = all.into_iter().filter(|(_, list)| !list.is_empty()).collect();
    let removed = if first < SHORT {
        tx.remove_range(tree, key(first)..=key(last))?
    } else {
        tx.clear(tree)?
    };
    assert_eq!(removed, there.len() as u64, "it reads at one moment");
    assert!(tx.range(tree, key(first)..=key(last)).next().is_none(), "it sees its own removals");
    there.into_iter().try_for_each(|(n, list)| append(tx, tree, n, list, seen, entry))
}

/// Pops the last pair and puts it back with an entry more. So the key is read, and that none is behind it.
fn take_last(tx: &Transaction, tree: &Tree, seen: &mut Seen, entry: Entry) -> everleaf::Result<()> {
    let Some((key, value)) = tx.pop_last(tree)? else { return Ok(()) };
    let (n, entries) = (number(&key), list(Some(&value)));
    seen.reads.push((n, entries.clone()));
    seen.reads.extend((1..4).map(|i| (n + 2 * i, List::new())));
    append(tx, tree, n, entries, seen, entry)
}

/// Pops the first pair and puts it back with an entry more. So the key is read, and that none is before it in `all`.
fn take_first(
    tx: &Transaction,
    tree: &Tree,
    all: Range<u64>,
    seen: &mut Seen,
    entry: Entry,
) -> everleaf::Result<()> {
    let popped = tx.pop_first(tree)?.map(|(key, value)| (number(&key), list(Some(&value))));
    let end = popped.as_ref().map_or(all.end, |(n, _)| *n);
    seen.reads.extend((all.start..end).step_by(2).map(|n| (n, List::new())));
    let Some((n, entries)) = popped else { return Ok(()) };
    seen.reads.push((n, entries.clone()));
    append(tx, tree, n, entries, seen, entry)
}

/// One thread.
pub struct Runner {
    db: Db,
    trees: [Tree; 2],
    short: Tree,
    clock: Arc<AtomicU64>,
    plan: Plan,
    own: u64,
    rng: Rng,
}

/// The short tree of an age.
fn short_tree(db: &Db, age: u64) -> Tree {
    db.tree(&format!("short {age}")).expect("room")
}

impl Runner {
    /// All threads of a plan.
    pub fn all(db: &Db, plan: Plan, seed: u64) -> Vec<Runner> {
        let trees = ["a", "b"].map(|name| db.tree(name).expect("room"));
        let short = short_tree(db, 0);
        let clock = Arc::<AtomicU64>::default();
        let runner = |own| {
            let (db, trees, clock) = (db.clone(), trees.clone(), Arc::clone(&clock));
            let (short, rng) = (short.clone(), Rng(seed * plan.threads + own));
            Runner { db, trees, short, clock, plan, own, rng }
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

    fn tree(&self, n: u64) -> &Tree {
        &self.trees[n as usize % 2]
    }

    /// The numbers of keys of the short tree: each second one.
    fn short_keys(&self, base: u64) -> Range<u64> {
        SHORT + 2 * base..SHORT + 2 * (base + self.plan.keys)
    }

    /// A snapshot is a transaction that only reads.
    fn look(&mut self, base: u64, seen: &mut Seen) -> everleaf::Result<bool> {
        let snapshot = self.db.snapshot()?;
        for n in (base..base + self.plan.keys).chain(self.short_keys(base).step_by(2)) {
            self.pause();
            let tree = if n < SHORT { self.tree(n) } else { &self.short };
            let found = snapshot.of(tree)?.get(key(n))?;
            seen.reads.push((n, list(found.as_deref())));
        }
        Ok(true)
    }

    /// A single operation is a transaction of its own.
    fn update(&mut self, id: u32, base: u64, seen: &mut Seen) -> everleaf::Result<bool> {
        let n = base + self.rng.below(self.plan.keys);
        let updated = self.tree(n).update(key(n), |old| {
            let mut entries = list(old);
            entries.push((id, 0));
            Some(value(&entries))
        })?;
        let mut entries = list(updated.as_deref());
        seen.appends.extend(entries.pop().map(|entry| (n, entry)));
        seen.reads.push((n, entries));
        Ok(true)
    }

    fn transact(&mut self, id: u32, base: u64, seen: &mut Seen) -> everleaf::Result<bool> {
        let trees = self.trees.clone();
        let isolation = self.plan.isolation;
        let tx = self.db.begin_with(TransactionOptions::new().isolation(isolation));
        for step in 0..1 + self.rng.below(4) as u32 {
            self.pause();
            let n = base + self.rng.below(self.plan.keys);
            // Of one tree: each second number.
            let end = (n + 6).min(base + self.plan.keys);
            let tree = &trees[n as usize % 2];
            match self.rng.below(11) {
                0 | 1 => seen.reads.push((n, list(tx.get(tree, key(n))?.as_deref()))),
                2 => drop(self.read_range(&tx, tree, n..end, seen)?),
                3 => take_range(
                    &tx,
                    tree,
                    self.read_range(&tx, tree, n..end, seen)?,
                    seen,
                    (id, step),
                )?,
                4 => take_last(&tx, tree, seen, (id, step))?,
                5 => {
                    let appended = tx.update(tree, key(n), |old| {
                        let mut entries = list(old);
                        seen.reads.push((n, entries.clone()));
                        entries.push((id, step));
                        Some(value(&entries))
                    })?;
                    assert!(appended.is_some());
                    seen.appends.push((n, (id, step)));
                }
                6..9 => self.use_short(&tx, base, seen, (id, step))?,
                _ => {
                    let entries = list(tx.get(tree, key(n))?.as_deref());
                    seen.reads.push((n, entries.clone()));
                    append(&tx, tree, n, entries, seen, (id, step))?;
                }
            }
        }
        self.pause();
        if self.rng.one_in(20) {
            tx.abort();
            return Ok(false);
        }
        match tx.commit() {
            Ok(()) => Ok(true),
            Err(Error::Conflict { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// A step on the short tree, of which first pairs are taken, and all.
    fn use_short(
        &mut self,
        tx: &Transaction,
        base: u64,
        seen: &mut Seen,
        entry: Entry,
    ) -> everleaf::Result<()> {
        let (tree, all) = (self.short.clone(), self.short_keys(base));
        match self.rng.below(4) {
            0 => take_range(tx, &tree, self.read_range(tx, &tree, all, seen)?, seen, entry),
            1 => take_first(tx, &tree, all, seen, entry),
            _ => {
                let n = all.start + 2 * self.rng.below(self.plan.keys);
                let entries = list(tx.get(&tree, key(n))?.as_deref());
                seen.reads.push((n, entries.clone()));
                append(tx, &tree, n, entries, seen, entry)
            }
        }
    }

    /// Reads each second key of a range, from either end.
    fn read_range(
        &mut self,
        tx: &Transaction,
        tree: &Tree,
        range: Range<u64>,
        seen: &mut Seen,
    ) -> everleaf::Result<Vec<(u64, List)>> {
        let mut found = HashMap::new();
        let up = self.rng.one_in(2);
        let mut pairs = tx.range(tree, key(range.start)..key(range.end));
        while let Some(pair) = if up { pairs.next() } else { pairs.next_back() } {
            let (key, value) = pair?;
            found.insert(number(&key), list(Some(&value)));
        }
        let all = range.step_by(2).map(|n| (n, found.remove(&n).unwrap_or_default()));
        let all: Vec<_> = all.collect();
        seen.reads.extend(all.iter().cloned());
        Ok(all)
    }

    /// Runs so many transactions.
    pub fn run(&mut self, transactions: u64) -> Vec<(u32, Done)> {
        let mut done = Vec::new();
        for i in 0..transactions {
            let id = (i * self.plan.threads + self.own) as u32;
            let base = i / AGE * self.plan.keys;
            if i > 0 && i.is_multiple_of(AGE) {
                self.short = short_tree(&self.db, i / AGE);
            }
            let begun = self.clock.fetch_add(1, Ordering::SeqCst);
            let mut seen = Seen::default();
            let is_committed = match self.rng.below(10) {
                0 => self.look(base, &mut seen),
                1 => self.update(id, base, &mut seen),
                _ => self.transact(id, base, &mut seen),
            };
            let is_committed = is_committed.expect("sound");
            let ended = self.clock.fetch_add(1, Ordering::SeqCst);
            done.push((id, Done { begun, ended, is_committed, seen }));
        }
        done
    }
}

/// Runs about so many transactions on threads.
pub fn record(db: &Db, isolation: Isolation, transactions: u64, seed: u64) -> History {
    println!("seed {seed}");
    let plan = Plan { isolation, threads: THREADS, keys: 8 };
    let done = std::thread::scope(|scope| {
        let runners = Runner::all(db, plan, seed).into_iter();
        let runners: Vec<_> = runners
            .map(|mut runner| scope.spawn(move || runner.run(transactions / THREADS)))
            .collect();
        let done = runners.into_iter().flat_map(|run| run.join().expect("no thread panicked"));
        done.collect::<Vec<_>>()
    });
    History::of(db, done)
}

/// Edges from each node.
type Edges = Vec<Vec<usize>>;

impl History {
    /// What transactions have read, and what they have left.
    pub fn of(db: &Db, done: impl IntoIterator<Item = (u32, Done)>) -> Self {
        let mut history = History { done: done.into_iter().collect(), ..History::default() };
        history.conflicts = history.done.values().filter(|done| !done.is_committed).count() as u64;
        for name in db.tree_names().expect("sound") {
            let tree = db.tree(&name).expect("there");
            for pair in tree.iter() {
                let (key, value) = pair.expect("sound");
                let n = number(&key);
                history.last.insert(n, list(Some(&value)));
            }
        }
        history
    }

    fn place(&self) -> HashMap<u32, usize> {
        self.done.keys().enumerate().map(|(at, id)| (*id, at)).collect()
    }

    /// All that is wrong with it: serializable means in the order of time, too.
    pub fn anomalies(&self, isolation: Isolation) -> Vec<String> {
        let mut found = self.wrong_lists();
        if !found.is_empty() {
            return found;
        }
        let (writes, reads) = self.edges();
        if isolation == Isolation::Serializable {
            let mut all = writes;
            for (from, to) in reads {
                all[from].push(to);
            }
            self.add_times(&mut all);
            found.extend(self.cycle(&all));
        } else {
            found.extend(self.cycle(&writes));
            for (from, to) in reads {
                if reaches(&writes, to, from) {
                    found.push(format!("G-single: {:?}", [self.at(from), self.at(to)]));
                }
            }
        }
        found
    }

    fn at(&self, place: usize) -> Option<(&u32, &Done)> {
        self.done.iter().nth(place)
    }

    /// Entries that are gone, and lists that are no beginning of the last one, or end in the midst of a transaction.
    fn wrong_lists(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for (n, last) in &self.last {
            let mut seen = HashMap::new();
            for (at, (id, _)) in last.iter().enumerate() {
                if !self.done[id].is_committed {
                    wrong.push(format!("G1a: key {n} has an entry of {id}, which was aborted"));
                }
                if seen.insert(id, at).is_some_and(|before| before + 1 != at) {
                    wrong.push(format!("G0: the entries of {id} in key {n} are mixed with others"));
                }
            }
        }
        for (id, done) in self.done.iter().filter(|(_, done)| done.is_committed) {
            for (n, entry) in &done.seen.appends {
                if !self.last.get(n).is_some_and(|last| last.contains(entry)) {
                    wrong.push(format!("P4: {entry:?} is lost from key {n}"));
                }
            }
            for (n, read) in &done.seen.reads {
                let last = self.last.get(n).map_or(&[][..], |last| last);
                // Its own entries of before count as read, and are the last ones.
                let others = read.iter().take_while(|(tx, _)| tx != id).count();
                if !last.starts_with(read) {
                    wrong.push(format!("{id} has read {read:?} of key {n}, which is {last:?}"));
                } else if others > 0
                    && last.get(others).is_some_and(|(tx, _)| *tx == last[others - 1].0)
                {
                    wrong.push(format!("G1b: {id} has read {read:?} of key {n}: {last:?}"));
                }
            }
        }
        wrong
    }

    /// Edges between writers, and from writers to readers; and those from readers to writers.
    fn edges(&self) -> (Edges, Vec<(usize, usize)>) {
        let place = self.place();
        let mut writes: Edges = vec![Vec::new(); self.done.len()];
        let mut reads = Vec::new();
        for last in self.last.values() {
            for two in last.windows(2).filter(|two| two[0].0 != two[1].0) {
                writes[place[&two[0].0]].push(place[&two[1].0]);
            }
        }
        for (id, done) in self.done.iter().filter(|(_, done)| done.is_committed) {
            let own = place[id];
            for (n, read) in &done.seen.reads {
                let last = self.last.get(n).map_or(&[][..], |last| last);
                let others = read.iter().take_while(|(tx, _)| tx != id).count();
                if others > 0 {
                    writes[place[&last[others - 1].0]].push(own);
                }
                let next = last[others..].iter().find(|(tx, _)| tx != id);
                reads.extend(next.map(|(tx, _)| (own, place[tx])));
            }
        }
        (writes, reads)
    }

    /// Who had ended comes before who began then: by way of nodes for the ends, one after the other.
    fn add_times(&self, edges: &mut Edges) {
        let first = edges.len();
        let committed = self.done.values().enumerate().filter(|(_, done)| done.is_committed);
        let mut ends: Vec<_> = committed.clone().map(|(at, done)| (done.ended, at)).collect();
        ends.sort_unstable();
        for (n, (_, at)) in ends.iter().enumerate() {
            edges[*at].push(first + n);
            let next = (n + 1 < ends.len()).then_some(first + n + 1);
            edges.push(next.into_iter().collect());
        }
        for (at, done) in committed {
            let before = ends.partition_point(|(ended, _)| *ended < done.begun);
            if before > 0 {
                edges[first + before - 1].push(at);
            }
        }
    }

    /// Transactions that lie on cycles, or behind one.
    fn cycle(&self, edges: &Edges) -> Option<String> {
        let mut entering = vec![0_u32; edges.len()];
        edges.iter().flatten().for_each(|to| entering[*to] += 1);
        let mut free: Vec<_> = (0..edges.len()).filter(|at| entering[*at] == 0).collect();
        let mut passed = 0;
        while let Some(at) = free.pop() {
            passed += 1;
            for to in &edges[at] {
                entering[*to] -= 1;
                if entering[*to] == 0 {
                    free.push(*to);
                }
            }
        }
        if passed == edges.len() {
            return None;
        }
        let left = (0..self.done.len()).filter(|at| entering[*at] > 0);
        let some: Vec<_> = left.take(4).map(|at| self.at(at)).collect();
        Some(format!("a cycle, among what is left of {} nodes: {some:?}", edges.len()))
    }
}

fn reaches(edges: &Edges, from: usize, to: usize) -> bool {
    let (mut seen, mut next) = (vec![false; edges.len()], vec![from]);
    while let Some(at) = next.pop() {
        if at == to {
            return true;
        }
        for other in &edges[at] {
            if !std::mem::replace(&mut seen[*other], true) {
                next.push(*other);
            }
        }
    }
    false
}
