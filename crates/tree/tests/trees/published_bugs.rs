//! Every published defect of FAST_FAIR (F) and of Circ-Tree (C) that a tree of words can have, by its
//! number in docs/PAPERS.md, and the test that shows that it is not here.
//!
//! | id | shown by |
//! |---|---|
//! | F1, F2 | algorithms that cannot run as printed: `crash_node.rs` runs each change of each node |
//! | F3 | `f3_equal_values_and_value_0_hide_nothing`; `f3_values_that_tell_duplicates_lose_keys` |
//! | F4 | `f4_values_that_are_page_numbers_mislead_nobody` |
//! | F5, F6 | `racing.rs`, and with threads `schedules.rs` |
//! | F7 | `f7_voiding_the_first_slot_first_is_noticed`; `crash_node.rs` removes each position |
//! | F8 | `f8_flushing_at_the_wrong_end_of_a_line_is_noticed`; `mutants.rs` drops each flush |
//! | F9 | `f9_trusting_the_count_is_noticed`; each image of `crash_node.rs` has an old count |
//! | F10, F14 | `crash_tree.rs`: scripts with splits and growths, cut off anywhere; `interrupted.rs` |
//! | F11, F12, C13, C14 | `f11_keys_that_are_separators_are_found_where_they_belong` |
//! | F13 | `schedules.rs`; separators are compared with bounds by `check`, which `model.rs` calls |
//! | F15 | `f15_versions_do_not_come_back` |
//! | F16 | documented: `Reading` names it *unflushed read*; latched and optimistic readers are checked in `schedules.rs` |
//! | F17 | `f17_removing_what_is_not_there_changes_nothing`; merges in `crash_tree.rs` |
//! | F18 | `crash_tree.rs`: scripts that drain trees, cut off anywhere |
//! | F19 | documented in `Reading`; nobody claims more |
//! | C1 | `c1_a_key_that_is_there_is_replaced` |
//! | C2, C3, C8, C10 | `crash_node.rs`: each base, count and position, with crashes in recovery |
//! | C4 – C7 | `crash_node.rs`: keys 0 and MAX, stale keys, equal values and 0 |
//! | C9 | `mutants.rs`: the void of a remove is one store |
//! | C11, C12 | `crash_node.rs`: each split of each node |
//! | C15, C17, C19 | `crash_tree.rs`: recovery at first touch, pages used again, leaks |
//! | C16 | `crash_tree.rs`, `conformance.rs`: merges wherever they come, under any parents |
//! | C18 | `c18_a_latch_that_was_held_is_free_after_a_crash` |
//! | C20 | `interrupted.rs`: missing entries are entered in parents that are full, too |

use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::Arc;

use crate::common::change::{Change, Scene, explorer};
use crate::common::faults::{insert, leaf, scene};
use crate::common::{Node, Nodes, sim};
use everleaf_crash_check::{Persistency, SharedMedium, Trace, sample};
use everleaf_pmem::{Medium, Page, Result, Seen, Sim};
use everleaf_tree::blink::Blink;
use everleaf_tree::node::{LOW_WORD, RUN_WORD, Run, Shape};
use everleaf_tree::slots::Words;
use everleaf_tree::slots::{Circular, Layout, Linear, Probe, Scan, Sentinel, Slot};
use everleaf_tree::{INDEX_ANCHOR, Index};

type Tree<L, P> = Blink<SharedMedium<Sim>, (L, P, Words)>;

const PAGES: u32 = 1 << 11;

fn tree<L: Layout, P: Probe>(sim: &Arc<Sim>) -> Tree<L, P> {
    let pool = Tree::<L, P>::format_pool(SharedMedium::new(sim)).expect("formats");
    Tree::create(Arc::new(pool), INDEX_ANCHOR).expect("space")
}

/// Builds a tree of 4 slots a node, cuts the power, and opens it.
fn cut<L: Layout, P: Probe>(work: impl FnOnce(&Tree<L, P>)) -> Tree<L, P> {
    let before = sim(4, PAGES);
    let trace = Trace::new(&before);
    work(&tree(&before));
    let record = trace.finish();
    let image = sample(&record, record.events.len(), Persistency::X86, 1);
    let after = Sim::from_image(record.geometry, PAGES, &image).expect("memory");
    let pool = Tree::<L, P>::open_pool(SharedMedium::new(&Arc::new(after))).expect("opens");
    Tree::open(Arc::new(pool), INDEX_ANCHOR).expect("opens")
}

fn all(tree: &impl Index) -> Vec<(u64, u64)> {
    tree.range(Unbounded, Unbounded, usize::MAX).expect("memory")
}

fn keeps_values<L: Layout, P: Probe>(value: impl Fn(u64) -> u64) {
    let tree = cut(|tree: &Tree<L, P>| {
        for key in 0..200 {
            tree.insert(key, value(key)).expect("space");
        }
        for key in (0..200).step_by(3) {
            assert_eq!(Index::remove(tree, key).expect("memory"), Some(value(key)));
        }
    });
    let expected: Vec<_> = (0..200).filter(|k| k % 3 != 0).map(|k| (k, value(k))).collect();
    assert_eq!(all(&tree), expected);
    for key in 0..200 {
        assert_eq!(Index::get(&tree, key).expect("memory"), (key % 3 != 0).then(|| value(key)));
    }
}

/// F3: equal neighbouring values hide a key, the value 0 ends the node.
#[test]
fn f3_equal_values_and_value_0_hide_nothing() {
    for value in [0, 7, u64::MAX] {
        keeps_values::<Linear, Scan>(|_| value);
        keeps_values::<Circular, Sentinel>(|_| value);
    }
    keeps_values::<Linear, Scan>(|key| key / 2 % 2);
}

/// F4: a value that equals an address is taken for the sibling.
#[test]
fn f4_values_that_are_page_numbers_mislead_nobody() {
    keeps_values::<Linear, Scan>(|key| key % u64::from(PAGES));
    keeps_values::<Circular, Sentinel>(|key| key % u64::from(PAGES));
}

/// The lower bounds of all leaves but the first.
fn separators<L: Layout, P: Probe>(tree: &Tree<L, P>) -> Vec<u64> {
    let m = tree.pool().medium();
    let pages = tree.check().expect("memory").pages.into_iter();
    let nodes = pages.map(|no| m.page(no).expect("inside"));
    let leaves = nodes.filter(|page| Shape::of(*page).is_some_and(|shape| shape.level == 0));
    let mut lows: Vec<u64> = leaves.map(|page| page.head(LOW_WORD).load()).collect();
    lows.sort_unstable();
    lows.split_off(1)
}

fn separators_are_keys<L: Layout, P: Probe>() {
    let sim = sim(4, PAGES);
    let tree: Tree<L, P> = tree(&sim);
    for i in 0..100 {
        tree.insert(10 * i, i).expect("space");
    }
    let separators = separators(&tree);
    assert!(separators.len() > 20, "{separators:?}");
    let value = |key: u64| key.is_multiple_of(10).then_some(key / 10).filter(|i| *i < 100);
    let range = |from, to| tree.range(from, to, usize::MAX).expect("memory");
    for key in separators {
        for near in [key - 1, key, key + 1] {
            assert_eq!(Index::get(&tree, near).expect("memory"), value(near), "{near}");
        }
        let present: Vec<_> = value(key).map(|v| (key, v)).into_iter().collect();
        assert_eq!(range(Included(key), Excluded(key + 1)), present);
        assert_eq!(range(Excluded(key - 1), Included(key)), present);
        assert_eq!(range(Excluded(key), Excluded(key + 1)), []);
        // It goes and comes back, and so does its neighbour below.
        for near in [key - 1, key] {
            assert_eq!(Index::remove(&tree, near).expect("memory"), value(near));
            assert_eq!(Index::get(&tree, near).expect("memory"), None);
            assert_eq!(tree.insert(near, 1).expect("space"), None);
            assert_eq!(Index::remove(&tree, near).expect("memory"), Some(1));
            if let Some(v) = value(near) {
                assert_eq!(tree.insert(near, v).expect("space"), None);
            }
        }
    }
    assert_eq!(all(&tree), (0..100).map(|i| (10 * i, i)).collect::<Vec<_>>());
    assert_eq!(tree.check().expect("memory").damages, []);
}

/// F11, F12, C13, C14: routing by the sibling's first record, and a strict comparison.
#[test]
fn f11_keys_that_are_separators_are_found_where_they_belong() {
    separators_are_keys::<Linear, Scan>();
    separators_are_keys::<Circular, Sentinel>();
}

/// F15: a counter of 8 bits is the same again after 256 changes of direction.
#[test]
fn f15_versions_do_not_come_back() {
    let sim = sim(4, 1);
    let latch = sim.page(0).expect("inside").latch();
    latch.lock().set_ready();
    let Seen::Ready(version) = latch.read_version() else { panic!("it was made ready") };
    for i in 0..1 << 20 {
        let held = latch.lock();
        if i % 2 == 0 {
            latch.turn_leftward();
        }
        drop(held);
        assert!(!latch.validate(version), "after {i} writers");
    }
}

/// F17: removing an absent key recurses.
#[test]
fn f17_removing_what_is_not_there_changes_nothing() {
    let sim = sim(4, PAGES);
    let tree: Tree<Linear, Scan> = tree(&sim);
    for n in 0..60 {
        let before = all(&tree);
        sim.take_events();
        for absent in (0..=2 * n + 2).step_by(2).chain([u64::MAX]) {
            assert_eq!(Index::remove(&tree, absent).expect("memory"), None);
        }
        assert_eq!((sim.take_events(), all(&tree)), (vec![], before));
        tree.insert(2 * n + 1, n).expect("space");
    }
}

/// C1: inserting a key that is there makes a second one, before it or behind it.
#[test]
fn c1_a_key_that_is_there_is_replaced() {
    fn run<L: Layout, P: Probe>() {
        let tree = cut(|tree: &Tree<L, P>| {
            for key in 0..100 {
                assert_eq!(tree.insert(key, 0).expect("space"), None);
                // Nodes of every fill, and every position in them.
                for old in 0..=key {
                    let before = key - old;
                    assert_eq!(tree.insert(old, before + 1).expect("space"), Some(before));
                }
            }
        });
        assert_eq!(all(&tree), (0..100).map(|key| (key, 100 - key)).collect::<Vec<_>>());
    }
    run::<Linear, Scan>();
    run::<Circular, Sentinel>();
}

/// C18: a lock word in persistent memory stays locked.
#[test]
fn c18_a_latch_that_was_held_is_free_after_a_crash() {
    let tree = cut(|tree: &Tree<Circular, Sentinel>| {
        tree.insert(1, 1).expect("space");
        for no in tree.check().expect("memory").pages {
            let page = tree.pool().medium().page(no).expect("inside");
            std::mem::forget(page.latch().lock());
        }
    });
    assert_eq!(tree.insert(1, 2).expect("space"), Some(1));
}

/// Linear nodes with one published bug put back.
struct Buggy<const BUG: u32>;

/// Whether two slots are one is told by their values (F3).
const VALUES_TELL: u32 = 3;
/// Removing the first key voids its slot first (F7).
const VOIDS_FIRST: u32 = 7;
/// A remove flushes where a line begins, and nothing at the end (F8).
const FLUSHES_LATE: u32 = 8;
/// The count is not taken anew after a crash (F9).
const TRUSTS_COUNT: u32 = 9;

/// A remove as released: each line is flushed once its first slot is there.
fn remove_flushing_late<M: Medium>(m: &M, page: Page<'_>, pos: usize) {
    let count = Run::of(page).count;
    for to in pos..count - 1 {
        let slot = Slot::read(page, to + 1);
        m.store(page.body(2 * to), slot.ident);
        m.store(page.body(2 * to + 1), slot.payload);
        if to.is_multiple_of(4) {
            m.flush(page, page.line_of(2 * to));
            m.fence();
        }
    }
    m.store(page.body(2 * (count - 1)), 0);
    m.store(page.head(RUN_WORD), Run { base: 0, count: count - 1 }.word());
}

impl<const BUG: u32> Layout for Buggy<BUG> {
    everleaf_tree::layout_as!(Linear: NAME, HASH);
    everleaf_tree::layout_as!(Linear: capacity, insert, absorb, trim, build);
    const LOCK_FREE: bool = false;
    fn remove<M: Medium, P: Probe>(m: &M, page: Page<'_>, shape: Shape, pos: usize) {
        if BUG == FLUSHES_LATE {
            remove_flushing_late(m, page, pos);
            return P::rebuild(page, Run::of(page), shape.key_word());
        }
        if BUG == VOIDS_FIRST && pos == 0 {
            m.store(page.body(0), 0);
            m.flush(page, 1);
            m.fence();
        }
        Linear::remove::<M, P>(m, page, shape, pos);
    }
    fn recover<M: Medium>(m: &M, page: Page<'_>, shape: Shape) -> Result<()> {
        if BUG == TRUSTS_COUNT {
            return Ok(());
        }
        Linear::recover(m, page, shape)?;
        let value = |p: usize| Slot::read(page, p).payload;
        let equal = (1..Run::of(page).count).find(|&p| value(p - 1) == value(p));
        if let Some(p) = equal.filter(|_| BUG == VALUES_TELL) {
            Linear::remove::<M, Scan>(m, page, shape, p - 1);
        }
        Ok(())
    }
}

impl<const BUG: u32> Nodes for Buggy<BUG> {
    const CIRCULAR: bool = false;
}

/// The checker refuses a change with the bug, and nothing without it.
fn is_noticed<const BUG: u32>(scene: &Scene) {
    scene.crash::<Linear, Scan>(&explorer());
    let refused = scene.crash_with::<Buggy<BUG>, Scan>(&explorer(), None);
    println!("{}", refused.expect_err("a published bug"));
}

fn inserting(node: Node, pos: usize) -> Scene {
    let change = insert(&node, pos);
    scene(node, change)
}

/// F3, put back.
#[test]
fn f3_values_that_tell_duplicates_lose_keys() {
    let mut node = leaf(0, 4);
    node.slots.iter_mut().for_each(|slot| slot.payload = 7);
    is_noticed::<VALUES_TELL>(&inserting(node, 2));
}

/// F7, put back: for a moment the whole node is empty.
#[test]
fn f7_voiding_the_first_slot_first_is_noticed() {
    is_noticed::<VOIDS_FIRST>(&scene(leaf(0, 4), Change::Remove(0)));
}

/// F8, put back: what the last line holds is not durable at the return. (Where the last copy begins
/// a line, only the void is lost, and the slot before it says so.)
#[test]
fn f8_flushing_at_the_wrong_end_of_a_line_is_noticed() {
    for pos in [0, 1, 2, 3, 5] {
        is_noticed::<FLUSHES_LATE>(&scene(leaf(0, 6), Change::Remove(pos)));
    }
}

/// F9, put back: an insert that was acknowledged is lost.
#[test]
fn f9_trusting_the_count_is_noticed() {
    is_noticed::<TRUSTS_COUNT>(&inserting(leaf(0, 4), 4));
}

/// Where caches survive a power cut, F8 is no bug any more: its lines were stored. The others are of order, or of
/// recovery.
#[test]
fn caches_that_survive_mend_what_was_not_flushed() {
    fn noticed<const BUG: u32>(scene: &Scene) -> bool {
        let refused =
            scene.crash_with::<Buggy<BUG>, Scan>(&explorer().mode(Persistency::Eadr), None);
        println!("{BUG}: {refused:?}");
        refused.is_err()
    }
    let mut node = leaf(0, 4);
    node.slots.iter_mut().for_each(|slot| slot.payload = 7);
    assert!(noticed::<VALUES_TELL>(&inserting(node, 2)));
    assert!(noticed::<VOIDS_FIRST>(&scene(leaf(0, 4), Change::Remove(0))));
    assert!(noticed::<TRUSTS_COUNT>(&inserting(leaf(0, 4), 4)));
    for pos in [0, 1, 2, 3, 5] {
        assert!(!noticed::<FLUSHES_LATE>(&scene(leaf(0, 6), Change::Remove(pos))));
    }
}
