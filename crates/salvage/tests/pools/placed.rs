//! Damage to what says which image counts: the page table, and images of which there are others.

use crate::damaged;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::damaged::sample::{End, PAGE_BYTES, expect, said, sample};
use crate::damaged::{Files, NODE, OLD, all_pairs, missing, salvage};
use everleaf::io::SimIo;
use everleaf::{Db, Options};
use everleaf_testing::size;

#[test]
fn the_root_and_the_leaves_of_the_table_can_be_gone() {
    for end in [End::Closed, End::Killed] {
        let (files, now) = sample(end);
        let mut images: Vec<_> = files.leaves.values().cloned().collect();
        assert!(!images.is_empty() && !files.root.is_empty());
        images.push(files.root.clone());
        for image in images {
            let is_root = image == files.root;
            let mut files = files.clone();
            files.data[image.start + 60] ^= 1;
            let (report, out) = expect(&files, "of the page table");
            assert!(out == now, "{:#?}", report.losses);
            // As much is alive as the root says, so the newest images are the pages.
            assert_eq!(said(&report, "may be older than the page was"), 0);
            assert_eq!(said(&report, "pages may be older than they were") > 0, is_root);
        }
    }
}

#[test]
fn superblocks_root_and_leaves_can_be_gone_together() {
    for end in [End::Closed, End::Killed] {
        let (mut files, now) = sample(end);
        files.forget_old();
        files.data[..8192].fill(0);
        let table: Vec<_> = files.leaves.values().cloned().chain([files.root.clone()]).collect();
        table.into_iter().for_each(|image| files.data[image].fill(0));
        let (report, out) = expect(&files, "pages may be older than they were");
        // Pages that no step has touched since have no image and no change, like free ones.
        assert!(out == now, "{:#?}", report.losses);
    }
}

#[test]
fn of_a_lost_leaf_a_page_that_has_an_older_image_is_doubted() {
    let (files, _) = sample(End::Killed);
    let mut doubted = 0;
    for (no, _) in files.old_images() {
        if !files.is_good(no) {
            continue;
        }
        let mut files = files.clone();
        files.data[files.leaves[&(no / 512)].start + 60] ^= 1;
        let at = files.at(no, 3);
        files.data[at] ^= 1;
        let (report, _) = expect(&files, "of the page table");
        // The journal may even prove that changes lie between.
        let says = ["may be older than the page was", "the next that is left is"];
        let mut own = report.losses.iter().filter(|loss| loss.page == Some(no as u32));
        let is_said = own.any(|loss| says.iter().any(|what| loss.what.contains(what)));
        assert!(is_said, "page {no}: {:#?}", report.losses);
        doubted += 1;
    }
    assert!(doubted > 10, "{doubted} pages");
}

#[test]
fn each_page_of_a_large_value_costs_that_value() {
    let (files, now) = sample(End::Closed);
    let is_value = |no: &usize| files.data[files.image(*no).expect("one").start + 20] == 2;
    let values: Vec<_> = files.imaged().into_iter().filter(is_value).collect();
    assert!(values.len() > 20, "{values:?}");
    for no in values {
        let image = files.image(no).expect("one");
        let mut files = files.clone();
        files.forget_old();
        files.data[image.end - 1] ^= 1;
        let (report, out) = expect(&files, "fails its checksum");
        assert_eq!((missing(&now, &out), report.pairs_lost), (1, 1), "page {no}");
    }
}

#[test]
fn blocks_count_without_the_superblock_that_says_where_they_begin() {
    let (files, now) = sample(End::Killed);
    for (at, len) in &files.blocks {
        let mut files = files.clone();
        files.data[..8192].fill(0x5a);
        let (_, out) = expect(&files, "superblock copy");
        assert!(out == now);
        files.data[at + len - 3] ^= 1;
        let (_, out) = expect(&files, "superblock copy");
        assert!(missing(&now, &out) > 0);
    }
}

/// The pairs of all trees, with those that may be older.
fn with_older(trees: &damaged::Trees) -> damaged::Trees {
    let mut all = damaged::Trees::new();
    for (name, pairs) in trees {
        let name = name.strip_prefix("lost+found/older/").unwrap_or(name).trim_end_matches('~');
        all.entry(name.to_owned()).or_default().extend(pairs.clone());
    }
    all
}

/// All pairs of all trees.
fn pairs(trees: &damaged::Trees) -> BTreeMap<Vec<u8>, Vec<u8>> {
    trees.values().flatten().map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// A small pool of one tree.
fn small(end: End) -> (Files, damaged::Trees) {
    let io = SimIo::new(8);
    let options = Options::new().page_bytes(PAGE_BYTES).background(false).max_bytes(64 << 20);
    let db = options.open_on(Arc::new(io.clone()), OLD).expect("new");
    let tree = db.tree("t").expect("new");
    let put = |numbers: std::ops::Range<u32>| {
        for i in numbers {
            let len = [30, 30, 100, 700][i as usize % 4];
            tree.insert(format!("k{i:02}"), format!("{i}{}", "v".repeat(len))).expect("space");
        }
        db.sync().expect("no fault");
    };
    put(0..20);
    if end == End::Killed {
        db.checkpoint().expect("no fault");
        // Another epoch shows that the first one was durable.
        put(20..22);
        put(24..26);
    }
    let now = all_pairs(&db).expect("sound");
    if end == End::Closed {
        drop(tree);
        db.close().expect("no fault");
    }
    (Files::of(&io, PAGE_BYTES), now)
}

/// `EVERLEAF_SCALE` says of how many bits one is flipped (331).
#[test]
fn each_bit_of_a_small_pool_costs_what_it_hits() {
    for end in [End::Closed, End::Killed] {
        let (mut files, now) = small(end);
        files.forget_old();
        let (now, step) = (pairs(&now), size([331, 331, 1]) as usize);
        // The pairs on each page, without those of a leaf that are in records: these are found.
        let mut on = BTreeMap::<usize, BTreeSet<Vec<u8>>>::new();
        for leaf in files.all(NODE, 0) {
            for entry in files.entries_of(leaf) {
                let page = entry.record.map_or(leaf, |record| record.0);
                on.entry(page).or_default().insert(entry.key);
            }
        }
        let is_live: Vec<bool> = files.live();
        for bit in (0..8 * is_live.len()).filter(|bit| is_live[bit / 8]).step_by(step) {
            let mut hurt = files.clone();
            hurt.data[bit / 8] ^= 1 << (bit % 8);
            let (report, out) = salvage(&hurt.disk()).expect("damage is no error");
            assert!(!report.is_complete(), "bit {bit} is no loss");
            let out = pairs(&out);
            let hit = files
                .imaged()
                .into_iter()
                .find(|no| files.image(*no).is_some_and(|image| image.contains(&(bit / 8))));
            let is_value = hit.is_some_and(|no| !files.is_good(no));
            let in_journal =
                files.blocks.iter().any(|(at, len)| (*at..at + len).contains(&(bit / 8)));
            let lost: Vec<_> = now.keys().filter(|key| out.get(*key) != now.get(*key)).collect();
            let own = hit.and_then(|no| on.get(&no));
            // Changes of a lost page count for nothing, so what came after the checkpoint is lost, too.
            let is_later = |key: &[u8]| end == End::Killed && key >= &b"k20"[..];
            let is_hit =
                |key: &&Vec<u8>| own.is_some_and(|own| own.contains(*key) || is_later(key));
            assert!(
                in_journal || is_value && lost.len() <= 1 || lost.iter().all(is_hit),
                "bit {bit}, page {hit:?}: {lost:?} are lost, {:#?}",
                report.losses
            );
            assert!(!in_journal || lost.len() <= 8, "bit {bit}: {lost:?}");
        }
    }
}

#[test]
fn an_image_that_may_be_older_than_the_page_is_said_to_be() {
    for end in [End::Closed, End::Killed] {
        let (files, now) = sample(end);
        let (mut doubts, mut proven) = (0, 0);
        for no in files.imaged().into_iter().filter(|no| files.is_good(*no)).step_by(7) {
            let mut files = files.clone();
            files.forget_old();
            // As the cleaner does, to which a crash came before the table named the copy.
            files.copy_image(no);
            let at = files.at(no, 3);
            files.data[at] ^= 1;
            let (report, out) = salvage(&files.disk()).expect("damage is no error");
            assert!(with_older(&out) == with_older(&now), "page {no}: {:#?}", report.losses);
            missing(&now, &out);
            let is_doubtful = said(&report, "may be older than the page was") == 1;
            let is_known = said(&report, "the journal says what the page was") == 1;
            assert!(!report.is_complete() && is_doubtful != is_known, "{:#?}", report.losses);
            *(if is_doubtful { &mut doubts } else { &mut proven }) += 1;
        }
        // Changes in the journal that follow the image show that it is the last one.
        assert!(doubts > 0 && (proven > 0) == (end == End::Killed), "{doubts}, {proven}");
    }
}

#[test]
fn an_image_that_is_older_than_the_page_is_said_to_be() {
    let (files, _) = sample(End::Killed);
    let mut older = 0;
    let mut pages: Vec<_> = files.old_images().into_iter().map(|(no, _)| no).collect();
    pages.sort_unstable();
    pages.dedup();
    for no in pages.into_iter().filter(|no| files.is_good(*no)) {
        let mut files = files.clone();
        let at = files.at(no, 3);
        files.data[at] ^= 1;
        let (report, _) = salvage(&files.disk()).expect("damage is no error");
        // The journal may even prove that changes lie between.
        let is_proven = said(&report, "the next that is left is") > 0;
        assert!(is_proven || said(&report, "may be older than the page was") == 1, "page {no}");
        older += 1;
    }
    assert!(older > 10, "{older} pages");
}

#[test]
fn what_an_older_image_brings_back_is_no_silent_loss() {
    let io = SimIo::new(3);
    let open = || {
        let options = Options::new().page_bytes(PAGE_BYTES).background(false).max_bytes(64 << 20);
        options.open_on(Arc::new(io.clone()), OLD).expect("sound")
    };
    let set = |db: &Db, name: &str, stamp: u32| {
        let tree = db.tree(name).expect("space");
        (0..20).for_each(|i| drop(tree.insert(format!("{name}{i:03}"), stamp.to_string())));
    };
    let db = open();
    // Else a close writes all of the pool to the start of its file, where the older images are.
    db.tree("long").expect("space").put("k", vec![7; 3 << 20]).expect("space");
    for stamp in [4, 5] {
        set(&db, "a", stamp);
        set(&db, "b", stamp);
        db.checkpoint().expect("no fault");
    }
    db.close().expect("no fault");
    for (name, stamp) in [("a", 6), ("b", 7)] {
        let db = open();
        set(&db, name, stamp);
        db.close().expect("no fault");
    }
    let now = all_pairs(&open()).expect("sound");
    let files = Files::of(&io, PAGE_BYTES);
    let mut older = 0;
    for (no, _) in files.old_images() {
        if !files.is_good(no) {
            continue;
        }
        let mut files = files.clone();
        let at = files.at(no, 40);
        files.data[at] ^= 1;
        let (report, out) = salvage(&files.disk()).expect("damage is no error");
        assert!(!report.is_complete(), "page {no}");
        assert_eq!(said(&report, "the journal says what the page was"), 0, "page {no}");
        older += usize::from(out != now);
    }
    assert!(older > 0, "no page has an older image");
}
