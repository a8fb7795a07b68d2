//! Montage's B+-tree: what any index must do, and what each change costs.

mod tally;

use std::cell::RefCell;
use std::ops::Bound::Unbounded;
use std::sync::Arc;

use everleaf_crash_check::SharedMedium;
use everleaf_crash_check::conformance::Suite;
use everleaf_pmem::{Buffered, BufferedOptions, Geometry, Medium, PageNo, Sim};
use everleaf_rivals::{AsPublished, Montage, MontageOpened, Only, Sound, Version};
use everleaf_testing::Rng;
use everleaf_tree::Index;
use tally::{Cost, Tally};

fn opened<M: Medium, V: Version>(medium: M, is_new: bool) -> (Montage<M, V>, MontageOpened) {
    let medium = Buffered::new(medium, &BufferedOptions::default()).expect("a clock");
    let make = if is_new { Montage::<M, V>::format_pool } else { Montage::<M, V>::open_pool };
    Montage::open(Arc::new(make(medium).expect("a pool"))).expect("opens")
}

const PAGES: PageNo = 1 << 12;

fn conforms<V: Version>(slots: u32) {
    let suite = Suite { keys: 400, threads: 3, ..Suite::default() };
    let geometry = Geometry::new(slots).expect("a power of two");
    let used = RefCell::new(Arc::new(Sim::new(geometry, PAGES).expect("memory")));
    let make = || {
        *used.borrow_mut() = Arc::new(Sim::new(geometry, PAGES).expect("memory"));
        let tree = opened::<_, V>(SharedMedium::new(&used.borrow()), true).0;
        tree.medium().start().expect("a thread");
        tree
    };
    let reboot = |tree: Montage<SharedMedium<Sim>, V>| {
        let before = tree.range(Unbounded, Unbounded, usize::MAX).expect("reads").len() as u64;
        tree.sync().expect("open");
        drop(tree);
        let image = used.borrow().image();
        let sim = Sim::from_image(geometry, PAGES, &image).expect("memory");
        *used.borrow_mut() = Arc::new(sim);
        let (tree, opened) = opened::<_, V>(SharedMedium::new(&used.borrow()), false);
        assert_eq!(opened.keys, before);
        tree
    };
    suite.run(make, reboot).unwrap_or_else(|what| panic!("{slots} slots: {what}"));
}

#[test]
fn conforms_mended_and_with_lines_that_are_flushed_twice() {
    conforms::<Sound>(4);
    conforms::<Sound>(32);
    conforms::<Only<'a'>>(32);
}

/// Lines that each change makes wait for the end of its epoch; none is flushed before.
fn costs<V: Version>(each: u64) {
    let tree = opened::<_, V>(Tally::new(32, 1 << 10), true).0;
    let m = tree.medium();
    let deferred = |change: &dyn Fn()| {
        m.sync().expect("open");
        let before = m.stats().lines_deferred;
        assert_eq!(m.inner().of(change), Cost { lines: 0, fences: 0 }, "nothing is flushed");
        m.sync().expect("open");
        m.stats().lines_deferred - before
    };
    let insert = |key: u64, value| {
        tree.insert(key, value).expect("space");
    };
    assert_eq!(deferred(&|| (0..10).for_each(|key| insert(key, 1))), 10 * each);
    let of_one_epoch = || {
        insert(10, 1);
        insert(10, 2);
        tree.remove(10).expect("space");
    };
    assert_eq!(deferred(&of_one_epoch), each, "in place");
    // With two ends of epochs between each two changes, what the one leaves is done by the next.
    m.tick().expect("open");
    assert_eq!(deferred(&|| insert(0, 2)), each, "a new payload");
    m.tick().expect("open");
    assert_eq!(deferred(&|| insert(1, 2)), 2 * each, "and the old one of key 0 is none");
    m.tick().expect("open");
    assert_eq!(deferred(&|| drop(tree.remove(2))), 2 * each, "an anti-payload, and that of key 1");
    m.tick().expect("open");
    assert_eq!(deferred(&|| drop(tree.remove(3))), 2 * each, "an anti-payload, and that of key 2");
    m.tick().expect("open");
    assert_eq!(deferred(&|| insert(50, 2)), 2 * each, "a payload, and that of key 3");
    assert_eq!(deferred(&|| drop(tree.remove(99))), 0);
    assert_eq!(deferred(&|| drop(tree.update(99, 1))), 0);
}

#[test]
fn each_change_defers_what_the_source_says() {
    costs::<Sound>(1);
    costs::<Only<'b'>>(1);
    costs::<AsPublished>(2);
}

/// Old payloads and anti-payloads are used again.
#[test]
fn space_is_bounded_by_what_is_alive() {
    let tree = opened::<_, Sound>(Tally::new(32, 1 << 10), true).0;
    let mut rng = Rng(1);
    for round in 0..20_000u64 {
        let key = rng.below(500);
        if rng.one_in(3) {
            tree.remove(key).expect("space");
        } else {
            tree.insert(key, round).expect("space");
        }
        if round % 50 == 0 {
            tree.medium().tick().expect("open");
        }
    }
    let pages = u64::from(tree.pool().stats().expect("a map").nodes);
    // 8 payloads in a page: 500 alive, and those of 4 epochs.
    assert!(pages * 8 < 500 + 4 * 100 + 100, "{pages} pages");
}

/// BD+Tree's table 3 says 20.2 bytes a key of persistent memory.
#[test]
fn a_key_takes_a_line_of_persistent_memory() {
    let tree = opened::<_, Sound>(Tally::new(32, 1 << 13), true).0;
    for key in 0..50_000u64 {
        tree.insert(key, key).expect("space");
    }
    let pages = u64::from(tree.pool().stats().expect("a map").nodes);
    assert_eq!(pages, 50_000 / 8, "64 bytes a key, and an eighth for the pages' headers");
    assert!(tree.medium().inner().allocator().lines >= pages, "a line for each page");
}
