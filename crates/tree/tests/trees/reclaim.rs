//! Eager recovery of sound trees changes nothing, of damaged ones neither; trees that cannot be made
//! or named leave nothing behind.

use std::ops::Bound::Unbounded;
use std::sync::Arc;

use everleaf_file::FileOptions;
use everleaf_pmem::{Counted, Dram, Error, Geometry, Medium, PageNo, Result};
use everleaf_pool::Pool;
use everleaf_tree::blink::{Blink, Condition};
use everleaf_tree::node::{HIGH_WORD, LOW_WORD, RUN_WORD, SIBLING_WORD};
use everleaf_tree::slots::Keys;
use everleaf_tree::slots::{Circular, Sentinel};
use everleaf_tree::{
    CircTree, FilePool, INDEX_ANCHOR, Index, Leaks, StringTree, format, leaks, reclaim, recover,
};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

type Plain = Counted<Dram>;

fn pool(slots: u32, limit: PageNo) -> Arc<Pool<Plain>> {
    let dram = Dram::new(Geometry::new(slots).expect("valid"), limit).expect("memory");
    Arc::new(format(Counted::new(dram)).expect("formats"))
}

fn words(n: u64) -> CircTree<Plain> {
    let tree = CircTree::create(pool(4, 4096), INDEX_ANCHOR).expect("space");
    for i in 0..n {
        Index::insert(&tree, i.wrapping_mul(0x9e37_79b9_7f4a_7c15), i).expect("space");
    }
    tree
}

fn fill_strings<M: Medium>(tree: &StringTree<M>, n: u64) {
    let key = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_string().into_bytes();
    for i in 0..n {
        tree.put(&key(i), &vec![7; i as usize % 50], Condition::Always).expect("space");
    }
    for i in (0..n).filter(|i| i % 3 > 0) {
        tree.remove(&key(i)).expect("memory");
    }
}

/// Recovers a sound tree: nothing passes the door.
fn nothing_to_do<K: Keys>(tree: &Blink<Plain, (Circular, Sentinel, K)>) {
    let before = tree.pool().medium().counts();
    let recovery = recover(tree).expect("sound");
    let mut seen = Vec::new();
    assert_eq!(tree.recover_all(|nodes| seen.push(nodes)).expect("sound"), recovery.walked);
    assert_eq!(tree.pool().medium().counts(), before);
    let report = tree.check().expect("memory");
    assert_eq!(recovery.returned, Leaks::default());
    assert_eq!(recovery.walked.nodes_by_level, report.nodes_by_level);
    assert_eq!((recovery.walked.entries_added, recovery.walked.levels_grown), (0, 0));
    assert!(seen.iter().copied().eq(1..=report.nodes_by_level.iter().sum::<u64>()));
}

#[test]
fn a_sound_tree_is_left_as_it_is() {
    let tree = words(5000);
    assert!(tree.check().expect("memory").nodes_by_level.len() > 4);
    nothing_to_do(&tree);
    nothing_to_do(&words(0));
    let tree = StringTree::create(pool(32, 4096), INDEX_ANCHOR).expect("space");
    nothing_to_do(&tree);
    fill_strings(&tree, 3000);
    nothing_to_do(&tree);
}

#[test]
fn on_a_journal_there_is_nothing_to_give_back() {
    let dir = tempfile::tempdir().expect("a place for files");
    let options = FileOptions { create: true, ..Default::default() };
    let path = dir.path().join("pool");
    let pool = FilePool::open(&path, &options).expect("opens");
    let tree = StringTree::create(Arc::clone(pool.pool()), INDEX_ANCHOR).expect("space");
    fill_strings(&tree, 3000);
    let before = pool.pool().stats().expect("readable");
    let recovery = recover(&tree).expect("sound");
    assert_eq!((recovery.returned, recovery.walked.entries_added), (Leaks::default(), 0));
    assert_eq!(pool.pool().stats().expect("readable"), before);
    let report = tree.check().expect("readable");
    assert_eq!(leaks(pool.pool(), &[report]).expect("readable"), Leaks::default());
}

/// Damages one word, and recovers the tree both ways. Answers whether `check` sees the damage and
/// whether the eager walk does.
fn damaged<K: Keys>(
    tree: &Blink<Plain, (Circular, Sentinel, K)>,
    (no, word, value): (PageNo, usize, u64),
) -> (bool, bool) {
    let m = tree.pool().medium();
    let is_corrupt = |error: &Error| matches!(error, Error::Corrupt { .. });
    m.store(m.page(no).expect("inside").word(word), value);
    let is_seen = !tree.check().expect("memory does not fail").damages.is_empty();
    let before = m.counts();
    if is_seen {
        let answer = recover(tree);
        assert!(answer.as_ref().is_err_and(is_corrupt), "page {no}, {word} = {value}: {answer:?}");
        assert_eq!(m.counts(), before, "page {no}, {word} = {value}");
    }
    // It enters only once whatever damage that it does not see can lead it to enter.
    let walked: Result<_> = tree.recover_all(|_| {});
    let is_refused = walked.as_ref().is_err_and(is_corrupt);
    assert!(walked.is_ok() || is_refused, "page {no}, {word} = {value}: {walked:?}");
    (is_seen, is_refused)
}

#[test]
fn links_and_bounds_that_no_crash_leaves_are_refused() {
    let n = 60;
    let pages: Vec<_> = words(n).check().expect("memory").pages.into_iter().collect();
    for no in pages {
        let sound = words(n);
        let page = sound.pool().medium().page(no).expect("inside");
        let head = |word: usize| page.head(word).load();
        let mut wrong = vec![
            (RUN_WORD, head(RUN_WORD) + (9 << 16)),
            (LOW_WORD, head(LOW_WORD) ^ 1),
            (SIBLING_WORD, u64::from(no)),
            (SIBLING_WORD, 4000),
            (SIBLING_WORD, 99_999),
            (5, head(5) + 0x100),
            (5, 0),
        ];
        if head(SIBLING_WORD) != 0 {
            wrong.extend([(HIGH_WORD, head(HIGH_WORD) ^ 1), (SIBLING_WORD, 0)]);
        }
        for (word, value) in wrong {
            let found = damaged(&words(n), (no, word, value));
            assert_eq!(found, (true, true), "page {no}: word {word} = {value}");
        }
    }
}

/// Any word of any page with any bits: recovery ends, and says what is wrong if it sees it.
fn any_bytes<K: Keys>(make: impl Fn() -> Blink<Plain, (Circular, Sentinel, K)>, seed: u64) {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    for _ in 0..500 {
        let tree = make();
        let report = tree.check().expect("memory");
        let records = report.records.iter().map(|r| r.page());
        let mut pages: Vec<PageNo> = report.pages.iter().copied().chain(records).collect();
        pages.sort_unstable();
        let no = pages[rng.random_range(0..pages.len())];
        let page = tree.pool().medium().page(no).expect("inside");
        let word = rng.random_range(0..page.geometry().page_words());
        let value = match rng.random_range(0..4) {
            0 => rng.random(),
            1 => page.word(word).load() ^ 1 << rng.random_range(0..64),
            2 => u64::from(pages[rng.random_range(0..pages.len())]),
            _ => [0, u64::MAX][rng.random_range(0..2)],
        };
        damaged(&tree, (no, word, value));
    }
}

#[test]
fn any_bytes_are_answered() {
    any_bytes(|| words(60), 1);
    let strings = || {
        let tree = StringTree::create(pool(32, 1024), INDEX_ANCHOR).expect("space");
        fill_strings(&tree, 200);
        tree
    };
    any_bytes(strings, 2);
}

#[test]
fn a_tree_without_a_report_is_given_back() {
    let pool = pool(4, 4096);
    let tree = |n: u64| {
        let tree = CircTree::create_new(Arc::clone(&pool)).expect("space");
        (0..n).for_each(|i| assert_eq!(Index::insert(&tree, i, i).expect("space"), None));
        tree
    };
    let first = CircTree::create(Arc::clone(&pool), INDEX_ANCHOR).expect("space");
    let (second, third) = (tree(100), tree(50));
    let [a, b, c] = [&first, &second, &third].map(|tree| tree.check().expect("memory"));
    let all = [a.clone(), b.clone(), c.clone()];
    assert_eq!(leaks(&pool, &all).expect("memory"), Leaks::default());
    let before = pool.medium().counts();
    assert!(matches!(reclaim(&pool, &[b.clone(), c.clone()]), Err(Error::Invalid { .. })));
    assert_eq!(pool.medium().counts(), before);
    let found = reclaim(&pool, &[a.clone(), c.clone()]).expect("memory");
    assert_eq!((found.anchors, found.nodes.len()), (vec![second.anchor()], b.pages.len()));
    assert_eq!(pool.check(), []);
    assert_eq!(leaks(&pool, &[a, c]).expect("memory"), Leaks::default());
    assert_eq!(Index::range(&third, Unbounded, Unbounded, usize::MAX).expect("memory").len(), 50);
}

#[test]
fn a_tree_that_finds_no_room_leaves_nothing_behind() {
    for limit in 8..14 {
        let pool = pool(4, limit);
        let made = std::iter::from_fn(|| CircTree::create_new(Arc::clone(&pool)).ok());
        let trees: Vec<_> = made.collect();
        let pages = pool.stats().expect("memory");
        assert_eq!(pages.anchors as usize, 1 + trees.len(), "{limit} pages");
        assert_eq!(pages.nodes as usize, 3 * trees.len());
        for tree in trees {
            let report = tree.check_empty().expect("empty");
            tree.discard(&report).expect("nobody names it");
        }
        let pages = pool.stats().expect("memory");
        assert_eq!((pages.nodes, pages.anchors, pages.free), (0, 1, limit - 2));
        assert_eq!(pool.check(), []);
    }
    let tree = words(1);
    assert!(matches!(tree.check_empty(), Err(Error::NotEmpty)));
}
