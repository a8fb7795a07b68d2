//! Pools that lie under right checksums (see [`everleaf_fuzz::hostile`]), seen by calls that only look: each page, the
//! journal, the trees, and what a salvage copies.
//!
//! `EVERLEAF_SEED` is the seed of one trial, to be made alone.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use everleaf::Options;
use everleaf_file::io::SimIo;
use everleaf_fuzz::exercise::{TIME_MAX, typed};
use everleaf_fuzz::hostile;
use everleaf_fuzz::mutate::Random;
use everleaf_fuzz::parts::POOL;
use everleaf_salvage::look::Look;
use everleaf_salvage::{Loss, SalvageOptions, salvage_on};
use everleaf_testing::{at_seed, count, seed};

/// Where a salvage copies to.
const NEW: &str = "/pool/new.ever";
/// So many pages are looked at, from either end: a lie may name millions.
const PAGES: u32 = 120;
/// The kind of a page with records, in byte 40 of its header.
const RECORD: u8 = 2;

fn look(disk: &SimIo) {
    let Some(mut look) = typed(Look::open_on(disk, POOL)) else { return };
    let pages = look.pages();
    for number in (0..pages.min(PAGES)).chain(pages.saturating_sub(PAGES)..pages) {
        let page = typed(look.page(number)).expect("it is one of the pool's");
        assert_eq!(page.number, number);
    }
    assert!(look.page(pages).is_err());
    for block in look.journal() {
        assert!(block.records.iter().all(|record| record.bytes <= block.payload_bytes));
    }
    for name in ["a", "b", "going", "one of some trees, 4", "one of some trees, 3", "no tree"] {
        let Some(tree) = typed(look.tree(name)) else { continue };
        assert_eq!(tree.nodes.len(), tree.entries.len());
        for node in &tree.nodes {
            assert!((0.0..=1.0).contains(&node.fill()), "{node:?}");
        }
    }
}

fn salvage(disk: SimIo) {
    let io = Arc::new(disk);
    let Some(salvaged) = typed(salvage_on(io.clone(), POOL, NEW, &SalvageOptions::new())) else {
        return;
    };
    let db = Options::new().read_only(true).open_on(io, NEW).expect("a sound pool");
    assert_eq!(db.check().expect("readable"), []);
    let mut pairs = 0;
    for tree in &salvaged.trees {
        let found = db.open_tree(&tree.name).expect("sound").expect("it was salvaged");
        assert_eq!(
            found.iter().filter(|pair| pair.is_ok()).count() as u64,
            tree.pairs,
            "{}",
            tree.name
        );
        pairs += tree.pairs;
    }
    let counted: u64 = db.count().expect("sound").trees.iter().map(|tree| tree.entries).sum();
    assert_eq!(pairs, counted);
}

#[test]
fn pools_that_lie_are_looked_into_and_salvaged_without_harm() {
    let first = seed().unwrap_or(1 << 33);
    let trials = if seed().is_some() { 1 } else { count(150, 5_000) };
    for trial in first..first + trials {
        println!("run it again: EVERLEAF_SEED={trial}");
        let random = &mut Random(at_seed(trial));
        let n = 2 + 10 * (1 + random.below(4));
        let input: Vec<u8> = (0..n).map(|_| random.draw() as u8).collect();
        let (disk, _) = hostile::disk(&input);
        let before = disk.peek(Path::new(POOL)).expect("a pool");
        let begin = Instant::now();
        look(&disk);
        salvage(disk.clone());
        assert!(begin.elapsed() < TIME_MAX, "it takes {:?}", begin.elapsed());
        assert!(
            disk.peek(Path::new(POOL)).expect("a pool") == before,
            "who only looks has written"
        );
    }
}

#[test]
fn a_record_page_in_the_place_of_a_map_page_has_no_records() {
    let mut found = 0;
    for parts in hostile::pools() {
        let mut parts = parts.clone();
        let is_record = |no: &usize| parts.pages[no * parts.page_bytes + 40] == RECORD;
        let Some(record) = (0..parts.page_count()).find(is_record) else { continue };
        found += 1;
        let bytes = parts.page_mut(record).to_vec();
        parts.page_mut(0).copy_from_slice(&bytes);
        parts.seal(&[]);
        let disk = parts.disk();
        let page = Look::open_on(&disk, POOL).expect("a pool").page(0).expect("the first page");
        assert!(!page.damages.is_empty(), "{page:?}");
        look(&disk);
        salvage(disk);
    }
    assert!(found > 0, "no pool has records");
}

#[test]
fn a_leaf_of_the_table_whose_pages_cannot_be_counts_for_nothing() {
    let mut told = 0;
    for parts in hostile::pools() {
        let mut parts = parts.clone();
        // Without the root all leaves in the file count, but for those of a checkpoint that has not ended.
        parts.root_edits.push((0, vec![0xFF; 4]));
        parts.head_edits.push((3, 0, 16, u32::MAX.to_le_bytes().to_vec()));
        parts.seal(&[]);
        let disk = parts.disk();
        let seen = Look::open_on(&disk, POOL).expect("there is a superblock");
        let tells = |loss: &Loss| loss.what.contains("of no page that can be");
        told += u32::from(seen.damages().iter().any(tells));
        assert!(seen.pages() < 1 << 24, "{} pages", seen.pages());
        look(&disk);
        salvage(disk);
    }
    assert!(told > 0, "no such leaf was met");
}
