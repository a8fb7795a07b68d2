//! Lines and fences of each operation of the rivals, exactly, and their means over random keys. The allocator's
//! flushes, a line and a fence for each new page, are not counted.

use std::sync::Arc;

use everleaf_crash_check::SharedMedium;
use everleaf_pmem::{Counted, Counts, Dram, Geometry};
use everleaf_rivals::fptree::Fp;
use everleaf_rivals::lbtree::Lb;
use everleaf_rivals::leaf::Leaf;
use everleaf_rivals::nbtree::Nb;
use everleaf_rivals::pactree::{PAIRS, Pac};
use everleaf_rivals::{AsPublished, Chained, Only, Sound};
use everleaf_testing::Rng;
use everleaf_tree::Index;

type Memory = Counted<Dram>;

struct Measured<L: Leaf> {
    memory: Arc<Memory>,
    tree: Chained<SharedMedium<Memory>, L>,
}

impl<L: Leaf> Measured<L> {
    fn new(slots: u32, pages: u32) -> Self {
        let geometry = Geometry::new(slots).expect("a power of two");
        let memory = Arc::new(Counted::new(Dram::new(geometry, pages).expect("memory")));
        let tree = Chained::on(SharedMedium::new(&memory)).expect("space");
        Self { memory, tree }
    }

    /// Lines and fences of something.
    fn cost(&self, run: impl FnOnce(&Chained<SharedMedium<Memory>, L>)) -> (u64, u64) {
        let before = self.memory.counts();
        run(&self.tree);
        let Counts { flushes, fences, .. } = self.memory.counts() - before;
        (flushes, fences)
    }

    fn insert(&self, key: u64) -> (u64, u64) {
        self.cost(|tree| assert_eq!(tree.insert(key, key).expect("room"), None))
    }
}

/// Lines and fences of the pool for a new page: the byte of its map.
const ALLOCATION: (u64, u64) = (1, 1);

fn fptree_costs<const PAIRS: usize, V: everleaf_rivals::Version>(
    slots: u32,
    split: (u64, u64),
    header: u64,
) {
    let it = Measured::<Fp<PAIRS, V>>::new(slots, 64);
    for key in 0..PAIRS as u64 {
        assert_eq!(it.insert(2 * key), (3, 3), "an insert into a leaf with room");
    }
    let (lines, fences) = it.insert(1);
    let alone = (lines - 3 - ALLOCATION.0 - header, fences - 3 - ALLOCATION.1);
    assert_eq!((it.tree.splits(), alone), (1, split), "a split without the insert");
    let update = it.cost(|tree| assert_eq!(tree.update(2, 7).expect("room"), Some(2)));
    let remove = it.cost(|tree| assert_eq!(Index::remove(tree, 2).expect("there"), Some(7)));
    assert_eq!((update, remove), ((3, 3), (1, 1)));
    let none = it.cost(|tree| {
        assert_eq!(Index::remove(tree, 2).expect("reads"), None);
        assert_eq!(tree.update(2, 7).expect("reads"), None);
        assert_eq!(Index::get(tree, 4).expect("reads"), Some(4));
    });
    assert_eq!(none, (0, 0));
}

#[test]
fn fptree_has_its_lines() {
    // 9 lines of a leaf, and 6; the page's own header is a line of the pool's with 56 pairs.
    fptree_costs::<32, Sound>(32, (15, 7), 0);
    fptree_costs::<56, Sound>(64, (22, 7), 1);
    // The source flushes its log's line twice, and its allocator links the leaf in place of naming it.
    fptree_costs::<32, AsPublished>(32, (16, 8), 0);
    fptree_costs::<56, AsPublished>(64, (23, 8), 1);
}

/// Lines, fences and splits for each insert of so many random keys.
fn means<L: Leaf>(slots: u32, keys: u64, header: u64) -> (f64, f64, f64) {
    let it = Measured::<L>::new(slots, 1 << 16);
    let mut rng = Rng(1);
    let (lines, fences) = it.cost(|tree| {
        for _ in 0..keys {
            tree.insert(rng.next(), 0).expect("room");
        }
    });
    let splits = it.tree.splits();
    let each = |n: u64| n as f64 / keys as f64;
    let (lines, fences) =
        (lines - splits * (ALLOCATION.0 + header), fences - splits * ALLOCATION.1);
    println!(
        "{}: {} lines, {} fences, {} splits",
        L::NAME,
        each(lines),
        each(fences),
        each(splits)
    );
    (each(lines), each(fences), each(splits))
}

fn near(what: &str, found: f64, expected: f64) {
    assert!((found / expected - 1.0).abs() < 0.01, "{what}: {found}, expected {expected}");
}

const KEYS: u64 = 200_000;

#[test]
fn fptree_has_its_means() {
    let (lines, fences, splits) = means::<Fp<32, Sound>>(32, KEYS, 0);
    near("lines", lines, 3.671);
    near("fences", fences, 3.313);
    near("splits", splits, 0.0447);
    let (lines, fences, splits) = means::<Fp<56, Sound>>(64, KEYS, 1);
    near("lines", lines, 3.566);
    near("fences", fences, 3.180);
    near("splits", splits, 0.02571);
}

#[test]
fn lbtree_has_its_lines() {
    fn check<V: everleaf_rivals::Version>() {
        let it = Measured::<Lb<V>>::new(16, 64);
        let costs: Vec<_> = (0..14).map(|key| it.insert(10 * key)).collect();
        let (one, two) = ((1, 1), (2, 2));
        let first = [one, one, one, two, one, one, one, two, one, one, one, two, one, one];
        assert_eq!(costs, first, "17 lines for 14 inserts into an empty leaf");
        // A split with the map's byte and the header of the page; a key of the right leaf is in it.
        let split = (6 + ALLOCATION.0 + 1, 2 + ALLOCATION.1);
        assert_eq!((it.insert(135), it.tree.splits()), (split, 1));
        assert_eq!(it.cost(|tree| assert_eq!(tree.update(135, 7).expect("room"), Some(135))), one);
        assert_eq!(
            it.cost(|tree| assert_eq!(Index::remove(tree, 20).expect("there"), Some(20))),
            one
        );
    }
    check::<Sound>();
    check::<AsPublished>();
}

#[test]
fn lbtree_has_its_means() {
    let (lines, fences, splits) = means::<Lb<Sound>>(16, KEYS, 1);
    near("lines", lines, 1.802);
    near("fences", fences, 1.397);
    near("splits", splits, 0.1012);
}

/// Lines and fences of the pool for a split that gives way to copies: two bytes of its map, which are flushed one by one
/// and have one fence, and that of the old leaf. The headers of the copies are the pool's, too.
const COPIES: (u64, u64) = (2 + 1 + 2, 1 + 1);

fn nbtree_costs<V: everleaf_rivals::Version>(split: (u64, u64)) {
    let it = Measured::<Nb<V>>::new(32, 64);
    let one = (1, 1);
    for key in 1..=31 {
        assert_eq!(it.insert(2 * key), one, "an insert into a leaf with room");
    }
    let update = |key: u64| it.cost(|tree| assert!(tree.update(key, 7).expect("room").is_some()));
    let remove =
        |key: u64| it.cost(|tree| assert!(Index::remove(tree, key).expect("there").is_some()));
    assert_eq!((update(2), update(62)), (one, one), "a full leaf has room for updates");
    let (lines, fences) = it.insert(1);
    let alone = (lines - 1 - COPIES.0, fences - 1 - COPIES.1);
    assert_eq!((it.tree.splits(), alone), (1, split), "a split without the insert");
    assert_eq!((update(2), remove(2)), (one, one));
    let none = it.cost(|tree| {
        assert_eq!(Index::remove(tree, 2).expect("reads"), None);
        assert_eq!(tree.update(2, 7).expect("reads"), None);
        assert_eq!(Index::get(tree, 4).expect("reads"), Some(4));
    });
    assert_eq!(none, (0, 0));
    // All but one pair of the right leaf, then the leaf: the link, and the map.
    (17..=31).for_each(|key| assert_eq!(remove(2 * key), one));
    assert_eq!(it.tree.unlinked(), 0);
    assert_eq!(remove(32), (1 + ALLOCATION.0, 1 + ALLOCATION.1));
    assert_eq!((it.tree.splits(), it.tree.unlinked()), (1, 1));
}

#[test]
fn nbtree_has_its_lines() {
    // 8 lines of each copy, and the link.
    nbtree_costs::<Sound>((17, 2));
    // The source fences what it does not flush. The link of the first leaf is the anchor's, which is the pool's.
    nbtree_costs::<Only<'a'>>((1, 2));
    nbtree_costs::<Only<'d'>>((17, 2));
}

/// A leaf whose places are used up by keys that come and go has one copy.
#[test]
fn nbtree_copies_a_leaf_of_one_pair_to_one() {
    let it = Measured::<Nb<Sound>>::new(32, 64);
    for turn in 0..31 {
        assert_eq!(it.insert(5), (1, 1), "turn {turn}");
        assert_eq!(
            it.cost(|tree| assert_eq!(Index::remove(tree, 5).expect("there"), Some(5))),
            (1, 1)
        );
    }
    // 8 lines of the copy and its header, the link, a byte of the map for either leaf, and the pair.
    assert_eq!(it.insert(5), (8 + 1 + 1 + 2 + 1, 2 + 2 + 1));
    assert_eq!(it.tree.splits(), 0);
}

#[test]
fn nbtree_has_its_means() {
    let it = Measured::<Nb<Sound>>::new(32, 1 << 16);
    let mut rng = Rng(1);
    let (lines, fences) = it.cost(|tree| {
        (0..KEYS).for_each(|_| assert_eq!(tree.insert(rng.next(), 0).expect("room"), None));
    });
    let splits = it.tree.splits();
    let each = |n: u64| n as f64 / KEYS as f64;
    let (lines, fences) = (each(lines - splits * COPIES.0), each(fences - splits * COPIES.1));
    let splits = each(splits);
    println!("NBTree: {lines} lines, {fences} fences, {splits} splits");
    near("splits", splits, 0.0461);
    near("lines", lines, 1.0 + 17.0 * splits);
    near("fences", fences, 1.0 + 2.0 * splits);
}

#[test]
fn pactree_has_its_lines() {
    let it = Measured::<Pac<Sound>>::new(128, 64);
    for key in 0..PAIRS as u64 {
        assert_eq!(it.insert(2 * key), (3, 2), "an insert into a leaf with room");
    }
    // The log, a new leaf of 18 lines, the header of the old one; the map's byte and the page's own header.
    let split = (20 + ALLOCATION.0 + 1, 3 + ALLOCATION.1);
    assert_eq!(it.insert(65), split, "a split whose pair is in the new leaf");
    assert_eq!(it.cost(|tree| assert_eq!(tree.drain().expect("memory"), 1)), (1, 1));
    for key in 0..32 {
        assert_eq!(it.insert(2 * key + 1), (3, 2));
    }
    let more = (split.0 + 3, split.1 + 2);
    let low = it.cost(|tree| assert_eq!(tree.insert(66, 7).expect("room"), Some(66)));
    assert_eq!(low, (1, 1), "an update in place");
    it.cost(|tree| assert_eq!(Index::remove(tree, 1).expect("there"), Some(1)));
    assert_eq!(it.insert(1), (3, 2));
    let it = Measured::<Pac<Sound>>::new(128, 64);
    (0..PAIRS as u64).for_each(|key| assert_eq!(it.insert(2 * key), (3, 2)));
    assert_eq!(it.insert(1), more, "a split and an insert into the old leaf");
    assert_eq!(it.cost(|tree| assert!(Index::remove(tree, 1).expect("there").is_some())), (1, 1));
    // All but one key of the new leaf, then the leaf: its log, its neighbour, the log's end, and the split's log.
    let remove =
        |key: u64| it.cost(|tree| assert!(Index::remove(tree, key).expect("there").is_some()));
    (33..64).for_each(|key| assert_eq!(remove(2 * key), (1, 1)));
    assert_eq!(remove(64), (3 + 1 + ALLOCATION.0, 3 + 1 + ALLOCATION.1));
    assert_eq!((it.tree.splits(), it.tree.unlinked()), (1, 1));
}

/// As it lies in the source: 16 B behind the begin of a line, and with a lock.
#[test]
fn pactree_has_more_lines_where_its_allocator_puts_it() {
    let it = Measured::<Pac<Only<'a'>>>::new(128, 64);
    let costs: Vec<_> = (0..PAIRS as u64).map(|key| it.insert(key)).collect();
    let straddling = costs.iter().filter(|cost| **cost == (5, 2)).count();
    assert_eq!((straddling, costs.iter().filter(|cost| **cost == (4, 2)).count()), (16, 48));
    // The log, 19 lines of the new leaf, two of the header.
    assert_eq!(it.insert(64), (22 + ALLOCATION.0 + 1, 3 + ALLOCATION.1));
}

#[test]
fn pactree_has_its_means() {
    let (lines, fences, splits) = means::<Pac<Sound>>(128, KEYS, 1);
    near("splits", splits, 0.0225);
    // A split, the end of its log, and every other time an insert less.
    near("lines", lines, 3.0 + splits * (21.0 - 1.5));
    near("fences", fences, 2.0 + splits * (4.0 - 1.0));
}
