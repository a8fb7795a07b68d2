//! A BD+Tree in a pool that something has damaged: it is refused, or what can be read of it is read;
//! no panic, no endless loop, nothing outside the pool.

use std::ops::Bound::Unbounded;
use std::sync::Arc;

use everleaf_pmem::{Buffered, BufferedOptions, Error, Geometry, Sim};
use everleaf_tree::hybrid::{Hybrid, Rebuild};
use everleaf_tree::{BdTree, INDEX_ANCHOR, Index};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const SLOTS: u32 = 8;
const PAGES: u32 = 40;

fn open(image: &[u64]) -> Result<BdTree<Sim>, Error> {
    let geometry = Geometry::new(SLOTS).expect("a power of two");
    let sim = Sim::from_image(geometry, PAGES, image)?;
    let pool = Hybrid::open_pool(Buffered::new(sim, &BufferedOptions::default())?)?;
    let how = Rebuild { threads: 1, ..Rebuild::default() };
    Ok(Hybrid::open(Arc::new(pool), INDEX_ANCHOR, &how)?.0)
}

/// A tree of several leaves and epochs, cut off in the middle of one.
fn image() -> Vec<u64> {
    let geometry = Geometry::new(SLOTS).expect("a power of two");
    let medium =
        Buffered::new(Sim::new(geometry, PAGES).expect("memory"), &BufferedOptions::default());
    let pool = Hybrid::format_pool(medium.expect("valid")).expect("room");
    let tree = Hybrid::create(Arc::new(pool), INDEX_ANCHOR).expect("room");
    for i in 0..60u64 {
        tree.insert(i * 7 % 61, i).expect("room");
        if i % 9 == 8 {
            Index::remove(&tree, i).expect("no fault");
            tree.medium().tick().expect("no fault");
        }
    }
    let image = tree.medium().inner().image();
    tree.medium().abandon();
    image
}

/// Uses all of a tree that could be opened.
fn use_it(tree: &BdTree<Sim>) {
    let report = tree.check().expect("the map was read at the open");
    let entries = tree.range(Unbounded, Unbounded, 10_000);
    let _ = tree.range_back(Unbounded, Unbounded, 10_000);
    if report.damages.is_empty() {
        assert_eq!(entries.expect("sound").len() as u64, report.entries);
    }
    for key in 0..70 {
        let _ = tree.get(key);
        let _ = tree.insert(key, 1);
        let _ = Index::remove(tree, key + 1);
    }
    let _ = tree.medium().tick();
    let _ = tree.reclaim_empty();
}

#[test]
fn every_word_may_be_damaged() {
    let sound = image();
    use_it(&open(&sound).expect("sound"));
    let per_page = Geometry::new(SLOTS).expect("a power of two").page_words();
    let (mut refused, mut opened) = (0, 0);
    for word in 0..sound.len() {
        let mut values = vec![0, u64::MAX, 1 << 63, sound[word] ^ 1, sound[word].wrapping_add(1)];
        values.extend((8..64).step_by(8).map(|bit| sound[word] ^ 1 << bit));
        // Headers decide what is done; of slots a few changes are enough.
        values.truncate(if word % per_page < 8 { 12 } else { 3 });
        for value in values.into_iter().filter(|value| *value != sound[word]) {
            let mut image = sound.clone();
            image[word] = value;
            match open(&image) {
                Ok(tree) => {
                    opened += 1;
                    use_it(&tree);
                }
                Err(Error::Corrupt { .. } | Error::Foreign { .. } | Error::Full { .. }) => {
                    refused += 1;
                }
                Err(error) => panic!("word {word} := {value:#x}: {error}"),
            }
        }
    }
    println!("{refused} damaged pools refused, {opened} opened");
    assert!(refused > 200 && opened > 200);
}

#[test]
fn many_words_may_be_damaged() {
    let (sound, seed) = (image(), 11);
    println!("seed {seed}");
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    for _ in 0..3000 {
        let mut image = sound.clone();
        for _ in 0..rng.random_range(2..12) {
            let (to, from) = (rng.random_range(0..image.len()), rng.random_range(0..image.len()));
            image[to] = if rng.random() { image[from] } else { rng.random() };
        }
        if let Ok(tree) = open(&image) {
            use_it(&tree);
        }
    }
}
