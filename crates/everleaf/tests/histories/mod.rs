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
//! an aborted transaction), G1b (of the midst of one), or a lost update.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};

use everleaf::{Db, Error, Isolation, TransactionOptions, Tree};
use everleaf_testing::Rng;

/// Keys in use at a time.
const KEYS: u64 = 8;
/// After so many transactions of a thread these are others, so that lists stay short.
const AGE: u64 = 40;
const THREADS: u64 = 4;

/// An append: its transaction, and the how manyth of it.
type Entry = (u32, u32);
type List = Vec<Entry>;

#[derive(Debug)]
struct Done {
    begun: u64,
    ended: u64,
    is_committed: bool,
    reads: Vec<(u64, List)>,
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

/// One thread.
struct Runner<'r> {
    db: &'r Db,
    trees: &'r [Tree; 2],
    clock: &'r AtomicU64,
    options: TransactionOptions,
    rng: Rng,
}

impl Runner<'_> {
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

    /// A snapshot is a transaction that only reads.
    fn look(&mut self, base: u64) -> everleaf::Result<Vec<(u64, List)>> {
        let snapshot = self.db.snapshot()?;
        let mut reads = Vec::new();
        for n in base..base + KEYS {
            self.pause();
            let found = snapshot.of(self.tree(n))?.get(key(n))?;
            reads.push((n, list(found.as_deref())));
        }
        Ok(reads)
    }

    fn transact(&mut self, id: u32, base: u64) -> everleaf::Result<(bool, Vec<(u64, List)>)> {
        let (db, trees) = (self.db, self.trees);
        let mut tx = db.begin_with(self.options);
        let mut reads = Vec::new();
        for step in 0..1 + self.rng.below(4) as u32 {
            self.pause();
            let n = base + self.rng.below(KEYS);
            let tree = &trees[n as usize % 2];
            match self.rng.below(5) {
                0 | 1 => reads.push((n, list(tx.get(tree, key(n))?.as_deref()))),
                2 => {
                    // Of one tree: each second number.
                    let end = (n + 6).min(base + KEYS);
                    let range = key(n)..key(end);
                    let mut found = HashMap::new();
                    let up = self.rng.one_in(2);
                    let pairs = if up { tx.range(tree, range) } else { tx.range_rev(tree, range) };
                    for pair in pairs {
                        let (key, value) = pair?;
                        let no = u64::from_be_bytes(key.try_into().expect("eight bytes"));
                        found.insert(no, list(Some(&value)));
                    }
                    for n in (n..end).step_by(2) {
                        reads.push((n, found.remove(&n).unwrap_or_default()));
                    }
                }
                _ => {
                    let mut entries = list(tx.get(tree, key(n))?.as_deref());
                    reads.push((n, entries.clone()));
                    entries.push((id, step));
                    tx.put(tree, key(n), value(&entries))?;
                }
            }
        }
        self.pause();
        if self.rng.one_in(20) {
            tx.abort();
            return Ok((false, reads));
        }
        match tx.commit() {
            Ok(()) => Ok((true, reads)),
            Err(Error::Conflict { .. }) => Ok((false, reads)),
            Err(error) => Err(error),
        }
    }

    fn run(&mut self, own: u64, transactions: u64) -> Vec<(u32, Done)> {
        let mut done = Vec::new();
        for i in 0..transactions {
            let id = (i * THREADS + own) as u32;
            let base = i / AGE * KEYS;
            let begun = self.clock.fetch_add(1, Ordering::SeqCst);
            let (is_committed, reads) = if self.rng.one_in(10) {
                (true, self.look(base).expect("sound"))
            } else {
                self.transact(id, base).expect("sound")
            };
            let ended = self.clock.fetch_add(1, Ordering::SeqCst);
            done.push((id, Done { begun, ended, is_committed, reads }));
        }
        done
    }
}

/// Runs about so many transactions on threads.
pub fn record(db: &Db, isolation: Isolation, transactions: u64, seed: u64) -> History {
    println!("seed {seed}");
    let trees = ["a", "b"].map(|name| db.tree(name).expect("room"));
    let clock = AtomicU64::new(0);
    let options = TransactionOptions::new().isolation(isolation);
    let mut history = History::default();
    std::thread::scope(|scope| {
        let runners = (0..THREADS).map(|own| {
            let rng = Rng(seed * THREADS + own);
            let mut runner = Runner { db, trees: &trees, clock: &clock, options, rng };
            scope.spawn(move || runner.run(own, transactions / THREADS))
        });
        let runners: Vec<_> = runners.collect();
        for runner in runners {
            history.done.extend(runner.join().expect("no thread panicked"));
        }
    });
    history.conflicts = history.done.values().filter(|done| !done.is_committed).count() as u64;
    for tree in &trees {
        for pair in tree.iter() {
            let (key, value) = pair.expect("sound");
            let n = u64::from_be_bytes(key.try_into().expect("eight bytes"));
            history.last.insert(n, list(Some(&value)));
        }
    }
    history
}

/// Edges from each node.
type Edges = Vec<Vec<usize>>;

impl History {
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

    /// Lists that are no beginning of the last one, or end in the midst of a transaction.
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
            for (n, read) in &done.reads {
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
            for (n, read) in &done.reads {
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
