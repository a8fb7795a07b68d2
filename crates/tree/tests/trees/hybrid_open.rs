//! BD+Trees that are opened twice, made twice, full, or without what should lead to their leaves.

use std::sync::Arc;

use everleaf_file::{Dax, DaxOptions};
use everleaf_pmem::{Buffered, BufferedOptions, Dram, Error, Geometry};
use everleaf_tree::hybrid::{Hybrid, Rebuild};
use everleaf_tree::{BdTree, INDEX_ANCHOR, Index, open_bd_dax};

fn create(slots: u32, pages: u32) -> BdTree<Dram> {
    let dram = Dram::new(Geometry::new(slots).expect("a power of two"), pages).expect("memory");
    let medium = Buffered::new(dram, &BufferedOptions::default()).expect("valid");
    let pool = Hybrid::format_pool(medium).expect("room");
    Hybrid::create(Arc::new(pool), INDEX_ANCHOR).expect("room")
}

/// Old versions fill leaves, and a split leaves a half that shows nothing any more.
#[test]
fn a_queue_does_not_fill_the_pool() {
    let tree = create(32, 300);
    let mut full = None;
    for n in 0..20_000u64 {
        if tree.insert(n, n).is_err() {
            full = full.or(Some(n));
        }
        if n >= 12 {
            Index::remove(&tree, n - 12).expect("no fault");
        }
        if n % 12 == 11 {
            tree.medium().tick().expect("no fault");
            tree.reclaim_empty().expect("no fault");
        }
    }
    for _ in 0..3 {
        tree.medium().tick().expect("no fault");
        tree.reclaim_empty().expect("no fault");
    }
    let report = tree.check().expect("a map");
    let (leaves, empty, entries) = (report.leaves, report.empty_leaves, report.entries);
    println!("{entries} entries, {leaves} leaves, {empty} empty, full at {full:?}");
    let refused = (0..1000u64).filter(|n| tree.insert(1 << 40 | n, 0).is_err()).count();
    assert!(leaves < 10 && refused == 0, "{empty} of {leaves} leaves are empty, {refused} refused");
}

/// The pool outlives its tree. A second rebuild would go back to where the medium began, whether
/// epochs have ended since or not.
#[test]
fn a_pool_that_has_been_used_is_not_opened_again() {
    for ended in 0..5 {
        let tree = create(32, 300);
        for n in 0..ended {
            tree.insert(n, n).expect("room");
            tree.sync().expect("no fault");
        }
        let pool = Arc::clone(tree.pool());
        drop(tree);
        let again = Hybrid::open(pool, INDEX_ANCHOR, &Rebuild::default()).map(drop);
        assert!(matches!(again, Err(Error::InUse { .. })), "{ended} epochs: {again:?}");
    }
}

#[test]
fn creating_on_an_anchor_that_has_a_root_is_refused() {
    let tree = create(32, 300);
    tree.insert(1, 10).expect("room");
    tree.sync().expect("no fault");
    let second = Hybrid::create(Arc::clone(tree.pool()), INDEX_ANCHOR);
    assert!(matches!(second.map(drop), Err(Error::InUse { .. })));
}

#[test]
fn a_refused_geometry_leaves_no_pool_behind() {
    let dir = tempfile::tempdir().expect("dir");
    let path = dir.path().join("pool");
    let (epochs, how) = (BufferedOptions::default(), Rebuild::default());
    let options = DaxOptions { pages: 300, create: true, emulate: true, ..DaxOptions::default() };
    let refused = open_bd_dax(&path, &options, &epochs, &how).map(drop);
    assert!(matches!(refused, Err(Error::InvalidOption { .. })), "256 slots do not fit");
    let options = DaxOptions { slots: 32, ..options };
    open_bd_dax(&path, &options, &epochs, &how).map(drop).expect("nothing was made before");
}

#[test]
fn a_poisoned_medium_is_not_a_full_pool() {
    let tree = create(4, 8);
    let key = (0..).find(|n| matches!(tree.insert(*n, 0), Err(Error::Full { .. })));
    let error = {
        // Ends nothing and gives back nothing: the first attempt finds the pool full, and is over
        // before the medium is closed; what follows cannot succeed any more.
        std::thread::scope(|scope| {
            let hold = tree.medium().pin_epoch();
            let put = scope.spawn(|| tree.insert(key.expect("few pages"), 1));
            std::thread::sleep(std::time::Duration::from_millis(100)); // it waits for the batch
            tree.medium().poison(&Error::ReadOnly);
            drop(hold);
            put.join().expect("no panic").expect_err("poisoned")
        })
    };
    assert!(matches!(error, Error::Poisoned { .. }), "{error:?}");
}

#[test]
fn a_read_only_open_of_a_pool_without_a_tree_is_refused() {
    let dir = tempfile::tempdir().expect("dir");
    let path = dir.path().join("pool");
    let options = DaxOptions {
        slots: 32,
        pages: 300,
        create: true,
        emulate: true,
        layout_hash: everleaf_tree::hybrid::epoch_bitmap::HASH,
        ..DaxOptions::default()
    };
    let dax = Dax::open(&path, &options).expect("room");
    let medium = Buffered::new(dax, &BufferedOptions::default()).expect("valid");
    drop(Hybrid::format_pool(medium).expect("room"));
    let options = DaxOptions { read_only: true, create: false, ..options };
    let how = Rebuild::default();
    let error = open_bd_dax(&path, &options, &BufferedOptions::default(), &how).map(drop);
    assert!(matches!(error, Err(Error::NoTree)), "{error:?}");
}

fn reopen(image: &[u64]) -> Result<BdTree<everleaf_pmem::Sim>, Error> {
    let geometry = Geometry::new(8).expect("a power of two");
    let sim = everleaf_pmem::Sim::from_image(geometry, 300, image)?;
    let pool = Hybrid::open_pool(Buffered::new(sim, &BufferedOptions::default())?)?;
    Ok(Hybrid::open(Arc::new(pool), INDEX_ANCHOR, &Rebuild::default())?.0)
}

/// A synced tree of 500 entries, and what one page's header word is in it.
fn image_of_500(damage: impl Fn(&BdTree<everleaf_pmem::Sim>) -> (u32, usize, u64)) -> Vec<u64> {
    let geometry = Geometry::new(8).expect("a power of two");
    let sim = everleaf_pmem::Sim::new(geometry, 300).expect("memory");
    let medium = Buffered::new(sim, &BufferedOptions::default()).expect("valid");
    let pool = Hybrid::format_pool(medium).expect("room");
    let tree = Hybrid::create(Arc::new(pool), INDEX_ANCHOR).expect("room");
    for key in 0..500 {
        tree.insert(key, key).expect("room");
    }
    tree.sync().expect("no fault");
    let mut image = tree.medium().inner().image();
    let (page, word, value) = damage(&tree);
    image[page as usize * geometry.page_words() + word] = value;
    image
}

#[test]
fn a_lost_root_is_damage_and_not_an_empty_tree() {
    let image = image_of_500(|_| (INDEX_ANCHOR, 1, 0));
    match reopen(&image) {
        Err(Error::Corrupt { .. }) => {}
        Err(error) => panic!("{error}"),
        Ok(tree) => panic!("opened, with {} entries", tree.check().expect("a map").entries),
    }
}

#[test]
fn a_chain_that_ends_early_is_damage_and_not_a_leak() {
    let image = image_of_500(|tree| {
        let second =
            Index::range(tree.inner(), std::ops::Bound::Unbounded, std::ops::Bound::Unbounded, 2);
        let (_, page) = second.expect("no fault")[1];
        (page as u32, 5, 1)
    });
    match reopen(&image) {
        Err(Error::Corrupt { .. }) => {}
        Err(error) => panic!("{error}"),
        Ok(tree) => panic!("opened, with {} entries", tree.check().expect("a map").entries),
    }
}
