//! `check` counts what is there, finds every kind of damage, and survives any bytes.

use std::collections::{BTreeSet, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use everleaf_pmem::{Dram, Error, Geometry, Medium, Page};
use everleaf_pool::{Glance, Pool};
use everleaf_tree::blink::{Blink, Condition};
use everleaf_tree::node::{HIGH_WORD, Kind, LOW_WORD, RUN_WORD, SIBLING_WORD};
use everleaf_tree::slots::Keys;
use everleaf_tree::slots::{Circular, Sentinel};
use everleaf_tree::{
    CircTree, FilePool, INDEX_ANCHOR, Index, Leaks, NamedPages, Shares, StringTree, TreeReport,
    compare, format, leaks, misnamed,
};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::hooked::{Call, Hooked};
use crate::refusing::Refusing;

fn pool(slots: u32) -> Arc<Pool<Dram>> {
    let dram = Dram::new(Geometry::new(slots).expect("valid"), 4096).expect("memory");
    Arc::new(format(dram).expect("formats"))
}

fn words(n: u64) -> CircTree<Dram> {
    let tree = CircTree::create(pool(4), INDEX_ANCHOR).expect("space");
    for i in 0..n {
        Index::insert(&tree, i.wrapping_mul(0x9e37_79b9_7f4a_7c15), i).expect("space");
    }
    tree
}

fn key_of(i: u64) -> Vec<u8> {
    let stem: &[u8] = [&b""[..], b"a common prefix/", b"\0"][i as usize % 3];
    [stem, i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_string().as_bytes()].concat()
}

fn fill_strings<M: Medium>(tree: &StringTree<M>, n: u64) {
    for i in 0..n {
        tree.put(&key_of(i), &vec![7; i as usize % 50], Condition::Always).expect("space");
    }
    for i in (0..n).filter(|i| i % 3 > 0) {
        tree.remove(&key_of(i)).expect("memory");
    }
}

fn strings(n: u64) -> StringTree<Dram> {
    let tree = StringTree::create(pool(32), INDEX_ANCHOR).expect("space");
    fill_strings(&tree, n);
    tree
}

/// Checks a tree by several threads, however small it is.
fn shared<M: Medium, K: Kind>(tree: &Blink<M, K>, threads: usize) -> TreeReport {
    let (pool, shares) = (tree.pool(), Shares { threads, leaves: 1 });
    let glance = Glance::new(pool);
    tree.check_in(&pool.map_bytes().expect("memory"), Some(&glance), shares).expect("memory")
}

/// The pages that the trees of these reports name.
fn named(trees: &[TreeReport]) -> NamedPages {
    let mut named = NamedPages::default();
    trees.iter().for_each(|tree| named.add(tree).expect("memory"));
    named
}

/// That a report is of `n` entries and of the whole pool, and names no damage.
fn sound<M: Medium>(pool: &Pool<M>, report: &TreeReport, n: u64) {
    assert_eq!((report.damages.as_slice(), report.entries), (&[][..], n));
    assert_eq!(report.missing_entries, 0);
    assert_eq!(report.nodes_by_level.iter().sum::<u64>(), report.pages.len() as u64);
    assert_eq!(report.nodes_by_level.last(), Some(&1));
    assert!(report.fill > 0.05 && report.fill <= 1.0, "{report:?}");
    assert_eq!(leaks(pool, std::slice::from_ref(report)).expect("memory"), Leaks::default());
    let records: HashSet<_> = report.records.iter().collect();
    assert_eq!(records.len(), report.records.len(), "a record is named twice");
    assert_eq!(pool.records().count(), records.len());
}

#[test]
fn it_counts_what_is_there() {
    let tree = words(1000);
    let report = tree.check().expect("memory");
    sound(tree.pool(), &report, 1000);
    assert_eq!((report.key_bytes, report.value_bytes), (8000, 8000));
    let tree = strings(3000);
    let report = tree.check().expect("memory");
    sound(tree.pool(), &report, 1000);
    let left = (0..3000).step_by(3);
    assert_eq!(report.key_bytes, left.clone().map(|i| key_of(i).len() as u64).sum::<u64>());
    assert_eq!(report.value_bytes, left.map(|i| i % 50).sum::<u64>());
}

/// A report says the same, whichever thread walks which leaves.
#[test]
fn threads_that_share_the_leaves_report_what_one_does() {
    fn same<M: Medium, K: Kind>(tree: &Blink<M, K>) {
        let whole = format!("{:?}", shared(tree, 1));
        assert_eq!(whole, format!("{:?}", tree.check().expect("memory")));
        for threads in [2, 3, 7, 1000] {
            assert_eq!(format!("{:?}", shared(tree, threads)), whole, "{threads} threads");
        }
    }
    [0, 1, 5, 40, 1000].into_iter().for_each(|n| same(&words(n)));
    [0, 1, 40, 3000].into_iter().for_each(|n| same(&strings(n)));
}

#[test]
fn it_reads_pools_in_files() {
    let dir = tempfile::tempdir().expect("a place for files");
    let options = everleaf_file::FileOptions { create: true, ..Default::default() };
    let path = dir.path().join("pool");
    let mut pool = FilePool::open(&path, &options).expect("opens");
    let tree = StringTree::create(Arc::clone(pool.pool()), INDEX_ANCHOR).expect("space");
    fill_strings(&tree, 3000);
    sound(pool.pool(), &tree.check().expect("readable"), 1000);
    drop(tree);
    pool.close().expect("closes");
    drop(pool);
    let pool = FilePool::open(&path, &options).expect("opens");
    let tree = StringTree::open(Arc::clone(pool.pool()), INDEX_ANCHOR).expect("a tree");
    sound(pool.pool(), &tree.check().expect("readable"), 1000);
}

/// Stores a word, checks, and puts back what was there.
fn damaged<K: Keys>(
    tree: &Blink<Dram, (Circular, Sentinel, K)>,
    page: Page<'_>,
    word: usize,
    value: u64,
) -> TreeReport {
    let m = tree.pool().medium();
    let old = page.word(word).load();
    m.store(page.word(word), value);
    let report = tree.check().expect("memory does not fail");
    // Each leaf may be the first one of a share, or the last one.
    for threads in [2, 1000] {
        let found = shared(tree, threads).damages;
        let damages = &report.damages;
        let what = || format!("word {word} of page {}, {old:x}, is {value:x}", page.no());
        assert_eq!(found.is_empty(), damages.is_empty(), "{}: {found:?} {damages:?}", what());
    }
    m.store(page.word(word), old);
    report
}

#[test]
fn each_kind_of_damage_is_found() {
    let tree = words(300);
    let report = tree.check().expect("memory");
    let m = tree.pool().medium();
    for &no in &report.pages {
        let page = m.page(no).expect("inside");
        let run = page.head(RUN_WORD).load();
        let sibling = page.head(SIBLING_WORD).load();
        let mut wrong = vec![
            (RUN_WORD, run + (9 << 16)),
            (LOW_WORD, page.head(LOW_WORD).load() ^ 1),
            (SIBLING_WORD, u64::from(no)),
            (SIBLING_WORD, 4000),
            (SIBLING_WORD, 99_999),
            (5, page.head(5).load() + 0x100),
            (5, 0),
        ];
        if sibling != 0 {
            wrong.push((HIGH_WORD, page.head(HIGH_WORD).load() ^ 1));
            wrong.push((SIBLING_WORD, 0));
        }
        for (word, value) in wrong {
            let found = damaged(&tree, page, word, value).damages;
            assert!(!found.is_empty(), "page {no}: word {word} = {value}");
        }
    }
    assert_eq!(tree.check().expect("memory").damages, []);
}

/// A record whose place is free would be overwritten by the next insert.
#[test]
fn a_named_record_that_is_free_is_found() {
    let tree = strings(300);
    let report = tree.check().expect("memory");
    let named = std::slice::from_ref(&report);
    assert_eq!(misnamed(tree.pool(), named).expect("memory"), []);
    let twice = [report.clone(), report.clone()];
    let found = misnamed(tree.pool(), &twice).expect("memory");
    assert_eq!(found.len(), report.records.len());
    let m = tree.pool().medium();
    let page = m.page(report.records[0].page()).expect("inside");
    let gone = report.records.iter().filter(|r| r.page() == page.no()).count();
    (1..=4).for_each(|word| m.store(page.head(word), 0));
    assert_eq!(misnamed(tree.pool(), named).expect("memory").len(), gone);
}

/// Makes a node and a record that no tree names; says their pages.
fn lose<M: Medium>(pool: &Pool<M>) -> [u32; 2] {
    let mut step = pool.step();
    let (node, _held) = step.new_page(everleaf_pool::kind::NODE).expect("room");
    // A record of a size that nobody else writes: others fill no page of it.
    let record = step.record(400).expect("room");
    let mut op = step.enter().expect("memory");
    let header = everleaf_pool::pair_header(4, 388);
    step.write_record(&mut op, record, &[&header, &[7; 392]]);
    step.publish_alloc(&mut op);
    [node.no(), record.page()]
}

/// A node and a record that no tree names are found beside writers, and nothing else is.
#[test]
fn what_is_lost_is_found_beside_writers() {
    let tree = strings(3000);
    let pool = tree.pool();
    let lost = lose(pool);
    let stop = std::sync::atomic::AtomicBool::new(false);
    let is_over = || stop.load(std::sync::atomic::Ordering::Relaxed);
    std::thread::scope(|scope| {
        for own in 0..2u64 {
            let (tree, is_over) = (&tree, &is_over);
            scope.spawn(move || {
                for i in (0..).take_while(|_| !is_over()) {
                    let key = key_of((2 * i + own) % 3000);
                    tree.put(&key, &vec![7; i as usize % 50], Condition::Always).expect("space");
                    tree.remove(&key_of((2 * i * 7 + own) % 3000)).expect("memory");
                }
            });
        }
        let found: Vec<_> = (0..50)
            .map(|i| {
                let (damages, look) = pool.look().expect("memory");
                let report = shared(&tree, [1, 2, 1000][i % 3]);
                let has_node = |no| tree.has_node(no);
                let reports = std::slice::from_ref(&report);
                let mut found = compare(&look, &named(reports), has_node, true).expect("memory");
                found.extend(damages.into_iter().chain(report.damages));
                found.into_iter().map(|damage| damage.page).collect::<Vec<_>>()
            })
            .collect();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        // A page that a writer was at in the middle of a look is left for the next one.
        let is_lost = |page: &u32| lost.contains(page);
        assert!(found.iter().flatten().all(is_lost), "{lost:?}: {found:?}");
        for page in lost {
            let times = found.iter().filter(|pages| pages.contains(&page)).count();
            assert!(times >= 45, "{page} in {times} of 50: {found:?}");
        }
    });
}

/// A node that has passed by the walk is not lost: it is in no report, but a search comes to it.
#[test]
fn a_node_that_the_walk_has_not_met_is_looked_for() {
    let (tree, other) = (strings(300), words(100));
    let (_, look) = tree.pool().look().expect("memory");
    let report = tree.check().expect("memory");
    for passed in 0..report.pages.len() {
        let mut report = report.clone();
        let no = report.pages.iter().copied().nth(passed).expect("counted");
        report.pages.retain(|page| *page != no);
        let lost = |has: &dyn Fn(u32) -> everleaf_pmem::Result<bool>| {
            compare(&look, &named(&[report.clone()]), has, true).expect("memory")
        };
        assert_eq!(lost(&|no| tree.has_node(no)), []);
        assert_eq!(lost(&|_| Ok(false)).iter().map(|d| d.page).collect::<Vec<_>>(), [no]);
    }
    let lost = lose(tree.pool())[0];
    assert!(!tree.has_node(lost).expect("memory"), "it is in no tree");
    assert!(!tree.has_node(tree.anchor()).expect("memory"), "it is no node");
    assert!(
        other.check().expect("memory").pages.iter().all(|no| other.has_node(*no).expect("memory"))
    );
}

/// Any word of any page with any bits: `check` answers, and finds what is wrong in a node's run.
fn any_bytes<K: Keys>(tree: &Blink<Dram, (Circular, Sentinel, K)>, seed: u64) {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let pages: Vec<u32> = {
        let report = tree.check().expect("memory");
        let records = report.records.iter().map(|r| r.page());
        let all: BTreeSet<u32> = report.pages.iter().copied().chain(records).collect();
        all.into_iter().collect()
    };
    for _ in 0..3000 {
        let no = pages[rng.random_range(0..pages.len())];
        let page = tree.pool().medium().page(no).expect("inside");
        let word = rng.random_range(0..page.geometry().page_words());
        let old = page.word(word).load();
        let value = match rng.random_range(0..4) {
            0 => rng.random(),
            1 => old ^ 1 << rng.random_range(0..64),
            2 => u64::from(pages[rng.random_range(0..pages.len())]),
            _ => [0, u64::MAX][rng.random_range(0..2)],
        };
        damaged(tree, page, word, value);
    }
    assert_eq!(tree.check().expect("memory").damages, []);
}

#[test]
fn any_bytes_are_answered() {
    any_bytes(&words(100), 1);
    any_bytes(&strings(300), 2);
}

/// An entry that is raised leads past where its node begins, also if it is the last one of a thread's share.
#[test]
fn a_raised_entry_is_found_whoever_walks_its_leaf() {
    let tree = words(100);
    let root = tree.check().expect("memory").pages[0];
    let root = tree.pool().medium().page(root).expect("inside");
    for word in 0..root.geometry().page_words() {
        for bit in [1, 17, 33, 49] {
            damaged(&tree, root, word, root.word(word).load() ^ 1 << bit);
        }
    }
}

/// The word of an anchor that announces a merge.
const MERGE_WORD: usize = 2;

fn memory() -> Dram {
    Dram::new(Geometry::new(4).expect("valid"), 256).expect("memory")
}

/// A copy of what memory holds, for handles that only read.
fn for_readers(from: &impl Medium) -> Refusing {
    let copy = memory();
    for no in 0..from.limit() {
        let (from, to) = (from.page(no).expect("inside"), copy.page(no).expect("inside"));
        let held = to.latch().lock();
        (0..from.geometry().page_words()).for_each(|i| copy.store(to.word(i), from.word(i).load()));
        held.unlock_unchanged();
    }
    Refusing::new(copy, || Err(Error::ReadOnly))
}

/// Wherever the process ends among the stores of merges, a pool opened for reading shows no damage.
#[test]
fn a_merge_that_was_cut_off_is_no_damage_to_who_only_reads() {
    let mut absorbed = 0;
    for cut in 0.. {
        let stores = Arc::new(AtomicU64::new(u64::MAX));
        let left = Arc::clone(&stores);
        let medium = Hooked::new(memory(), move |call| {
            let is_last = call == Call::Store && left.fetch_sub(1, Ordering::Relaxed) == 0;
            assert!(!is_last, "the process has ended");
        });
        let pool = Arc::new(CircTree::format_pool(medium).expect("formats"));
        let tree = CircTree::create(Arc::clone(&pool), INDEX_ANCHOR).expect("space");
        for i in 0..40 {
            Index::insert(&tree, i, i).expect("space");
        }
        stores.store(cut, Ordering::Relaxed);
        let removes = || (0..40).filter(|i| i % 4 > 0).for_each(|i| drop(Index::remove(&tree, i)));
        let is_over = catch_unwind(AssertUnwindSafe(removes)).is_ok();
        let copy = Arc::new(CircTree::open_pool(for_readers(pool.medium())).expect("a pool"));
        std::mem::forget(tree);
        let tree = CircTree::open(Arc::clone(&copy), INDEX_ANCHOR).expect("a tree");
        for threads in [1, 3] {
            assert_eq!(shared(&tree, threads).damages, [], "{threads} threads, store {cut}");
        }
        let anchor = copy.medium().page(INDEX_ANCHOR).expect("inside");
        absorbed += u32::from(anchor.head(MERGE_WORD).load() != 0);
        if is_over {
            break;
        }
    }
    assert!(absorbed > 20, "a merge was announced at {absorbed} stores only");
}
