//! The skip list and the uTree, cut off anywhere: by one thread, and with a second one between a store and its flush.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::Unbounded;
use std::sync::{Arc, Mutex, OnceLock};

use everleaf_check::{Coverage, Durable, Explorer, Failure, SharedMedium, Tested, Trace};
use everleaf_pmem::{Geometry, Medium, Page, Sim, Word};
use everleaf_pool::Pool;
use everleaf_rivals::list::Above;
use everleaf_rivals::skiplist::Towers;
use everleaf_rivals::utree::Entries;
use everleaf_rivals::{AsPublished, List, Only, Sound, Version};
use everleaf_tree::{INDEX_ANCHOR, Index};

const PAGES: u32 = 16;

#[derive(Debug, Clone, Copy)]
enum Op {
    Insert(u64),
    Update(u64),
    Remove(u64),
}
use Op::{Insert, Remove, Update};

fn geometry() -> Geometry {
    Geometry::new(8).expect("a power of two")
}

fn open<M: Medium, V: Version, A: Above>(medium: M) -> List<M, V, A> {
    let is_unmade = Pool::is_unmade(&medium).expect("two pages");
    let make = if is_unmade { List::<M, V, A>::format_pool } else { List::<M, V, A>::open_pool };
    let pool = Arc::new(make(medium).expect("a pool"));
    let (list, opened) = List::open(Arc::clone(&pool), INDEX_ANCHOR).expect("opens");
    let pages = u64::from(pool.stats().expect("a map").nodes);
    assert!((opened.nodes.div_ceil(4)..=opened.nodes).contains(&pages), "{pages}: {opened:?}");
    list
}

fn apply(list: &impl Index, op: &Op) -> Option<u64> {
    let done = match *op {
        Insert(key) => list.insert(key, !key),
        Update(key) => list.update(key, key),
        Remove(key) => list.remove(key),
    };
    done.expect("no error")
}

fn check<V: Version, A: Above>(ops: &[Op]) -> Result<Coverage, Box<Failure>> {
    let key = |op: &Op| match *op {
        Insert(key) | Update(key) | Remove(key) => key,
    };
    let keys: BTreeSet<u64> = ops.iter().map(key).collect();
    let read = |list: &List<Tested, V, A>| {
        let found: Vec<_> = keys.iter().map(|key| list.get(*key).expect("reads")).collect();
        let range = list.range(Unbounded, Unbounded, 99).expect("reads");
        let mut back = list.range_back(Unbounded, Unbounded, 99).expect("reads");
        back.reverse();
        assert_eq!(range, back);
        (found, range)
    };
    let apply = |list: &mut List<Tested, V, A>, op: &Op| {
        apply(list, op);
    };
    Durable::new(geometry(), PAGES, ops.to_vec(), open::<_, V, A>, apply, read)
        .explorer(Explorer::new().depth(2))
        .check()
}

/// Each change, at both ends and in between, and cells that are used again.
const SCRIPT: [Op; 18] = [
    Insert(0),
    Insert(50),
    Insert(20),
    Insert(u64::MAX),
    Update(20),
    Insert(50),
    Remove(20),
    Remove(0),
    Insert(30),
    Insert(20),
    Remove(u64::MAX),
    Remove(50),
    Insert(60),
    Insert(70),
    Remove(30),
    Insert(10),
    Insert(40),
    Remove(60),
];

fn survives<V: Version, A: Above>(ops: &[Op]) {
    let coverage = check::<V, A>(ops).unwrap_or_else(|failure| panic!("{}: {failure}", A::NAME));
    assert!(coverage.is_exhaustive() && coverage.nested > 0, "{coverage}");
    println!("{}, {}: {coverage}", A::NAME, V::NAME);
}

#[test]
fn one_thread_survives() {
    survives::<AsPublished, Towers>(&SCRIPT);
    survives::<Sound, Towers>(&SCRIPT);
    survives::<Only<'a'>, Entries>(&SCRIPT);
    survives::<Only<'c'>, Entries>(&SCRIPT);
    survives::<Sound, Entries>(&SCRIPT);
}

#[test]
fn the_first_insert_of_the_utree_is_lost() {
    let failure = check::<Only<'b'>, Entries>(&[Insert(7), Insert(3)]).expect_err("a bug");
    println!("{failure}");
    assert!(failure.message.contains("Insert(7), had answered"), "{failure}");
    check::<Sound, Entries>(&[Insert(7), Insert(3)]).expect("mended");
}

type Shared = SharedMedium<Sim>;

/// What the second thread comes before.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Before {
    Store,
    Flush,
}

/// A medium that has something done by another thread before one of its stores or flushes.
struct Between {
    inner: Shared,
    /// Which of them, and how many come before that one; 0 is now.
    at: Mutex<(Before, u64)>,
    act: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Between {
    fn comes(&self, before: Before) {
        let mut act = self.act.lock().expect("no panic inside");
        let mut at = self.at.lock().expect("no panic inside");
        if act.is_none() || at.0 != before {
            return;
        }
        if at.1 > 0 {
            at.1 -= 1;
            return;
        }
        let then = act.take().expect("it was there");
        drop((act, at));
        std::thread::spawn(then).join().expect("no panic inside");
    }
}

impl Medium for Between {
    everleaf_pmem::pass_on!(inner: Shared);
    fn store(&self, word: Word<'_>, value: u64) {
        self.comes(Before::Store);
        self.inner.store(word, value);
    }
    fn flush(&self, page: Page<'_>, line: usize) {
        self.comes(Before::Flush);
        self.inner.flush(page, line);
    }
    fn fence(&self) {
        self.inner.fence();
    }
}

/// What the second thread does.
#[derive(Debug, Clone, Copy)]
enum Second {
    Get(u64),
    Change(Op),
}

/// Two threads: the first one's change is stopped before a store or a flush, and the second one acts.
struct Meeting {
    before: &'static [Op],
    first: Op,
    at: (Before, u64),
    second: Second,
}

/// Crashes a meeting; `holds` is asked of what was recovered whether it has the second thread's doing.
fn meet<V: Version, A: Above>(
    meeting: &Meeting,
    answer: Option<u64>,
    holds: &dyn Fn(&BTreeMap<u64, u64>) -> bool,
) -> Result<Coverage, Box<Failure>> {
    let sim = Arc::new(Sim::new(geometry(), PAGES).expect("memory"));
    let trace = Arc::new(Trace::new(&sim));
    let medium = Between {
        inner: SharedMedium::new(&sim),
        at: Mutex::new(meeting.at),
        act: Mutex::default(),
    };
    let medium = Arc::new(medium);
    let list = Arc::new(open::<_, V, A>(SharedMedium::new(&medium)));
    for (id, op) in (2..).zip(meeting.before) {
        trace.op(id, || apply(&*list, op));
    }
    let answered = Arc::new(OnceLock::new());
    let (then, second) = (Arc::clone(&list), meeting.second);
    let (record, found) = (Arc::clone(&trace), Arc::clone(&answered));
    let act = move || {
        let done = record.op(1, || match second {
            Second::Get(key) => then.get(key).expect("reads"),
            Second::Change(op) => apply(&*then, &op),
        });
        found.set(done).expect("it is done once");
    };
    *medium.act.lock().expect("no panic inside") = Some(Box::new(act));
    trace.op(0, || apply(&*list, &meeting.first));
    assert_eq!(answered.get(), Some(&answer), "the second thread meets what the first has stored");
    drop(list);
    let trace = Arc::into_inner(trace).expect("the other thread has ended");
    Explorer::new().depth(2).explore(
        &trace.finish(),
        |sim| Ok(open::<_, V, A>(SharedMedium::new(sim))),
        |list, _, crash| {
            let found = list.range(Unbounded, Unbounded, 99).expect("reads").into_iter().collect();
            let is_answered = crash.responded().contains(&1);
            if is_answered && !holds(&found) {
                return Err(format!(
                    "the second thread had answered {answer:x?}: found {found:x?}"
                ));
            }
            Ok(())
        },
    )
}

/// Before the change, two nodes in one line; the next two are in another.
const TWO: &[Op] = &[Insert(10), Insert(11)];
const THREE: &[Op] = &[Insert(10), Insert(11), Insert(20)];

/// What bug `a` loses and `Sound` keeps.
fn differs<V: Version, A: Above>(
    meeting: &Meeting,
    answer: Option<u64>,
    holds: &dyn Fn(&BTreeMap<u64, u64>) -> bool,
) -> Box<Failure> {
    let coverage = meet::<Sound, A>(meeting, answer, holds).unwrap_or_else(|f| panic!("{f}"));
    assert!(coverage.is_exhaustive(), "{coverage}");
    println!("{}, sound: {coverage}", A::NAME);
    let failure = meet::<V, A>(meeting, answer, holds).expect_err("a bug of the paper");
    println!("{}, as published: {failure}", A::NAME);
    failure
}

#[test]
fn an_insert_behind_an_unflushed_link_is_lost() {
    let second = Second::Change(Insert(30));
    let meeting = Meeting { before: TWO, first: Insert(20), at: (Before::Flush, 1), second };
    for differs in [differs::<AsPublished, Towers>, differs::<Only<'a'>, Entries>] {
        let failure = differs(&meeting, None, &|found| found.contains_key(&30));
        let lost = "found {a: fffffffffffffff5, b: fffffffffffffff4}";
        assert!(
            failure.message.contains(lost),
            "20 and 30 are lost, and 30 was answered: {failure}"
        );
    }
}

#[test]
fn a_reader_answers_an_insert_that_a_crash_takes_back() {
    let meeting =
        Meeting { before: TWO, first: Insert(20), at: (Before::Flush, 1), second: Second::Get(20) };
    for differs in [differs::<AsPublished, Towers>, differs::<Only<'a'>, Entries>] {
        let failure = differs(&meeting, Some(!20), &|found| found.contains_key(&20));
        assert!(failure.message.contains("had answered Some(ffffffffffffffeb)"), "{failure}");
    }
}

/// The tree in DRAM leads to a node that is in no list yet.
#[test]
fn the_utree_answers_what_is_not_in_its_list() {
    let meeting =
        Meeting { before: TWO, first: Insert(20), at: (Before::Flush, 0), second: Second::Get(20) };
    let holds = |found: &BTreeMap<u64, u64>| found.contains_key(&20);
    let failure = meet::<Only<'a'>, Entries>(&meeting, Some(!20), &holds).expect_err("a bug");
    assert!(failure.message.contains("had answered Some(ffffffffffffffeb)"), "{failure}");
    meet::<Sound, Entries>(&meeting, None, &|_| true).unwrap_or_else(|f| panic!("{f}"));
}

/// A remove has found what is before and behind its node, which are in other pages, and another thread links a node
/// behind it.
#[test]
fn a_remove_of_the_utree_loses_an_insert_behind_it() {
    const FIVE: &[Op] = &[Insert(1), Insert(2), Insert(10), Insert(11), Insert(20)];
    let second = Second::Change(Insert(21));
    let holds = |found: &BTreeMap<u64, u64>| found.contains_key(&21);
    let at = (Before::Store, 0);
    let meeting = Meeting { before: FIVE, first: Remove(20), at, second };
    let failure = meet::<Only<'c'>, Entries>(&meeting, None, &holds).expect_err("a bug");
    println!("{failure}");
    for flushes in 0..2 {
        let at = (Before::Flush, flushes);
        let meeting = Meeting { before: FIVE, first: Remove(20), at, second };
        meet::<Sound, Entries>(&meeting, None, &holds).unwrap_or_else(|f| panic!("{f}"));
    }
}

#[test]
fn a_reader_answers_a_remove_that_a_crash_takes_back() {
    let meeting = Meeting {
        before: THREE,
        first: Remove(20),
        at: (Before::Flush, 0),
        second: Second::Get(20),
    };
    for differs in [differs::<AsPublished, Towers>, differs::<Only<'a'>, Entries>] {
        let failure = differs(&meeting, None, &|found| !found.contains_key(&20));
        assert!(failure.message.contains("14: ffffffffffffffeb"), "20 is back: {failure}");
    }
}

#[test]
fn a_reader_answers_a_value_that_a_crash_takes_back() {
    let meeting = Meeting {
        before: THREE,
        first: Update(20),
        at: (Before::Flush, 0),
        second: Second::Get(20),
    };
    for differs in [differs::<AsPublished, Towers>, differs::<Only<'a'>, Entries>] {
        let failure = differs(&meeting, Some(20), &|found| found.get(&20) == Some(&20));
        assert!(failure.message.contains("14: ffffffffffffffeb"), "the old value: {failure}");
    }
}

/// A remove that is stopped before its unlinking is durable, and an insert that finds the node unlinked.
#[test]
fn an_insert_in_the_place_of_a_removed_node_survives() {
    for flushes in [0, 1] {
        let second = Second::Change(Insert(20));
        let meeting =
            Meeting { before: THREE, first: Remove(20), at: (Before::Flush, flushes), second };
        let meets = [meet::<AsPublished, Towers>, meet::<Sound, Towers>, meet::<Sound, Entries>];
        for meet in meets {
            let coverage = meet(&meeting, None, &|found| found.contains_key(&20));
            coverage.unwrap_or_else(|failure| panic!("{flushes}: {failure}"));
        }
    }
}
