//! Threads that share the leaves of a check: they find what one thread finds, whatever writers do, and whichever leaf is the
//! first or the last one of a share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use everleaf_file::io::SimIo;
use everleaf_pmem::Medium;
use everleaf_pool::Glance;
use everleaf_testing::{Rng, seed_or};
use everleaf_tree::blink::Condition;
use everleaf_tree::node::{HIGH_WORD, SIBLING_WORD};
use everleaf_tree::{Shares, TreeReport};

use super::watched::{Tree, open};

/// Keys that stay; between them come and go others.
const STAY: u64 = 600;
const BETWEEN: u64 = 10;

fn key(i: u64) -> Vec<u8> {
    format!("{i:08}{}", &"xxxxxxxx"[(i % 8) as usize..]).into_bytes()
}

fn put(tree: &Tree, i: u64) {
    tree.set(&key(i), &vec![7; i as usize % 40], Condition::Always).expect("room");
}

fn filled(seed: u64) -> Tree {
    let tree = open(&SimIo::new(seed), 512);
    (0..STAY).for_each(|i| put(&tree, BETWEEN * i));
    tree
}

fn check(tree: &Tree, threads: usize) -> TreeReport {
    let (owners, glance) = (tree.pool().map_bytes().expect("memory"), Glance::new(tree.pool()));
    let shares = Shares { threads, leaves: 1 };
    tree.check_in(&owners, Some(&glance), shares).expect("readable")
}

#[test]
fn threads_report_what_one_does() {
    let tree = filled(1);
    let whole = check(&tree, 1);
    assert_eq!((whole.entries, whole.damages.as_slice()), (STAY, &[][..]));
    assert!(whole.nodes_by_level[0] > 40 && whole.nodes_by_level.len() > 2, "{whole:?}");
    for threads in [2, 3, 7, 1000] {
        assert_eq!(format!("{:?}", check(&tree, threads)), format!("{whole:?}"), "{threads}");
    }
}

#[test]
fn a_link_that_is_wrong_is_found_at_each_end_of_a_share() {
    let tree = filled(2);
    let whole = check(&tree, 1);
    let leaves = &whole.pages[whole.pages.len() - whole.nodes_by_level[0] as usize..];
    let medium = tree.pool().medium();
    for (i, no) in leaves.iter().enumerate() {
        let page = medium.page(*no).expect("inside");
        let other = u64::from(leaves[(i + 2) % leaves.len()]);
        for (word, value) in [(SIBLING_WORD, 0), (SIBLING_WORD, other), (HIGH_WORD, 0)] {
            let old = page.head(word).load();
            if old == value {
                continue;
            }
            everleaf_pmem::door::put(page.head(word), value);
            for threads in [1, 2, 3, 1000] {
                let found = check(&tree, threads).damages;
                assert!(!found.is_empty(), "leaf {i}: word {word} = {value}, {threads} threads");
            }
            everleaf_pmem::door::put(page.head(word), old);
        }
    }
    assert_eq!(check(&tree, 1000).damages, []);
}

/// Leaves even out, are split and merge at the ends of shares while these are walked.
/// An entry that leads past where its node begins, also if it is the last one of a share.
#[test]
fn an_inner_node_that_is_wrong_is_found_whoever_walks_below_it() {
    let tree = filled(3);
    let whole = check(&tree, 1);
    let inner = whole.nodes_by_level[1..].iter().sum::<u64>() as usize;
    let mut found = 0;
    for no in &whole.pages[..inner] {
        let page = tree.pool().medium().page(*no).expect("inside");
        for word in 0..page.geometry().page_words() {
            for bit in [2, 20, 41, 59] {
                let old = page.word(word).load();
                everleaf_pmem::door::put(page.word(word), old ^ 1 << bit);
                let is_wrong = !check(&tree, 1).damages.is_empty();
                for threads in [2, 1000] {
                    let damages = check(&tree, threads).damages;
                    assert_eq!(is_wrong, !damages.is_empty(), "{no}, {word}, {bit}: {damages:?}");
                }
                everleaf_pmem::door::put(page.word(word), old);
                found += u64::from(is_wrong);
            }
        }
    }
    assert!(found > 100, "{found}");
}

#[test]
fn threads_count_each_key_once_whatever_writers_do() {
    /// Where runs of keys come and go, and how many keys one of a writer has.
    const PLACES: u64 = 6;
    const RUN: u64 = 8 * (BETWEEN - 2) / 2;
    let (tree, stop, runs) = (filled(3), AtomicBool::new(false), AtomicU64::new(0));
    let seed = seed_or(4);
    let writes = |own: u64| {
        let mut rng = Rng(seed + own);
        while !stop.load(Ordering::Relaxed) {
            // A run of keys comes, and goes, so that leaves are split and merge.
            runs.fetch_add(1, Ordering::SeqCst);
            let first = BETWEEN * rng.below(PLACES) * (STAY / PLACES);
            let run = || {
                (first..first + 8 * BETWEEN).filter(|i| i % BETWEEN % 2 == own && i % BETWEEN > 1)
            };
            run().for_each(|i| put(&tree, i));
            for i in run() {
                tree.delete(&key(i)).expect("memory");
            }
        }
    };
    std::thread::scope(|scope| {
        for own in 0..2 {
            scope.spawn(move || writes(own));
        }
        let look = |i: usize| {
            let before = runs.load(Ordering::SeqCst);
            let report = check(&tree, [1, 2, 5, 1000][i % 4]);
            (report, runs.load(Ordering::SeqCst) - before)
        };
        let reports: Vec<_> = (0..200).map(look).collect();
        stop.store(true, Ordering::Relaxed);
        for (i, (report, begun)) in reports.iter().enumerate() {
            assert_eq!(report.damages, [], "{i}");
            // Leaf after leaf is read, so runs that come one after the other may all be met: those that were there when the
            // check began, and those that came until its end, in each place once.
            let most = STAY + RUN * (2 + begun).min(2 * PLACES);
            let found = report.entries;
            assert!((STAY..=most).contains(&found), "{i}: {found} keys, at most {most}");
        }
    });
    assert_eq!(check(&tree, 5).entries, STAY);
}
