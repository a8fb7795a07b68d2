//! The rivals where caches survive a power cut (eADR, and CXL memory with Global Persistent Flush): the same scripts as
//! in their crash tests, with an image after each store and none without one that came before.
//!
//! A flush is nothing there, so what passes here passes with every flush left out. A bug that is a flush or a fence too
//! few is gone; one of the order of stores, of recovery, or of what lies in DRAM is still one.

mod scripts {
    pub mod chained;
    pub mod fptree;
    pub mod lbtree;
    pub mod lists;
    pub mod meeting;
    pub mod montage;
    pub mod nbtree;
    pub mod nvtree;
    pub mod ops;
    pub mod pactree;
    pub mod wbtree;
    pub mod wort;
}

use everleaf_crash_check::Persistency::Eadr;
use everleaf_crash_check::{Coverage, Failure};
use everleaf_rivals::list::Above;
use everleaf_rivals::skiplist::Towers;
use everleaf_rivals::utree::Entries;
use everleaf_rivals::{AsPublished, Only, Sound, Version};
use scripts::meeting::{Before, Meeting, meet};
use scripts::{fptree, lbtree, lists, meeting, montage, nbtree, nvtree, pactree, wbtree, wort};

type Checked = Result<Coverage, Box<Failure>>;

/// Scripts of which none loses anything, and how many images they have together at least.
fn keeps(what: &str, images: u64, scripts: impl IntoIterator<Item = Checked>) {
    let mut all = Coverage::default();
    for checked in scripts {
        all += checked.unwrap_or_else(|failure| panic!("{what}: {failure}"));
    }
    println!("{what}: {all}");
    assert!(all.is_exhaustive() && all.images >= images && all.nested > 0, "{what}: {all}");
}

/// A bug that loses something; the message says what.
fn loses(what: &str, checked: Checked, lost: &str) {
    let message = checked.expect_err(what).message;
    println!("{what}: {message}");
    assert!(message.contains(lost), "{what}: {message}");
}

fn fptree_all<V: Version>() -> [Checked; 3] {
    let all = [&fptree::SPLITS[..], &fptree::UPDATES, &fptree::REMOVALS];
    all.map(|acts| fptree::crash::<V>(Eadr, acts))
}

/// A log that names the wrong leaf, a link that is stored too early, a recovery that inverts twice: no flush helps.
#[test]
fn fptree_keeps_its_three_bugs() {
    keeps("FPTree, sound", 450, fptree_all::<Sound>());
    keeps("FPTree, g", 450, fptree_all::<Only<'g'>>());
    let splits = &fptree::SPLITS;
    let found = "found [(20, 120), (40, 140)], expected";
    loses("FPTree, a", fptree::crash::<Only<'a'>>(Eadr, splits), found);
    let found = "found [(10, 110), (20, 120), (30, 130), (40, 140)], expected";
    loses("FPTree, b", fptree::crash::<Only<'b'>>(Eadr, splits), found);
    let found = "found [(60, 160), (80, 180)], expected";
    loses("FPTree, c", fptree::crash::<Only<'c'>>(Eadr, splits), found);
    let found = "found [(40, 140), (60, 160), (70, 170), (80, 180)], expected";
    loses("FPTree, as published", fptree::crash::<AsPublished>(Eadr, splits), found);
}

/// The header's words in the other order.
#[test]
fn lbtree_keeps_its_bug() {
    let all = [lbtree::splits(), lbtree::removals()];
    keeps("LB+-Tree, sound", 450, all.map(|acts| lbtree::crash::<Sound>(Eadr, &acts)));
    let found = "found [(110, 210), (130, 230), (140, 240)], expected";
    let published = lbtree::crash::<AsPublished>(Eadr, &lbtree::splits());
    loses("LB+-Tree, as published", published, found);
}

fn nbtree_all<V: Version>() -> [Checked; 3] {
    let all = [(4, &nbtree::SPLITS[..]), (4, &nbtree::REMOVALS), (8, &nbtree::SEVENS)];
    all.map(|(slots, acts)| nbtree::crash::<V>(Eadr, slots, acts))
}

/// NBTree is for this machine: a split need not flush anything. Losses that come from values and keys remain.
#[test]
fn nbtree_keeps_three_bugs_of_four() {
    keeps("NBTree, sound", 700, nbtree_all::<Sound>());
    keeps("NBTree, a", 700, nbtree_all::<Only<'a'>>());
    let splits = &nbtree::SPLITS;
    let marked = [40, 50, 60].map(|key: u64| (key, 3 << 62 | (100 + key)));
    let found = format!("found {marked:?}, expected [(40, 140)");
    loses("NBTree, b", nbtree::crash::<Only<'b'>>(Eadr, 4, splits), &found);
    let found = "found [(10, 110)], expected [(0, 100), (10, 110)]";
    loses("NBTree, c", nbtree::asked::<Only<'c'>>(Eadr, &nbtree::ZERO), found);
    let found = "found [(30, 0)], expected [] or [(30, 130)]";
    loses("NBTree, d", nbtree::crash::<Only<'d'>>(Eadr, 4, &nbtree::TWO), found);
    let found = "found [(40, 0)], expected [] or [(40, 140)]";
    loses("NBTree, as published", nbtree::crash::<AsPublished>(Eadr, 4, splits), found);
}

/// A recovery that splits again, and a bound that is stored before the link: no flush helps.
#[test]
fn pactree_keeps_its_two_bugs() {
    let all = || [pactree::SPLITS.to_vec(), pactree::drained(), pactree::removals()];
    keeps("PACTree, sound", 500, all().map(|acts| pactree::crash::<Sound>(Eadr, &acts, 2)));
    keeps("PACTree, a", 500, all().map(|acts| pactree::crash::<Only<'a'>>(Eadr, &acts, 2)));
    let splits = &pactree::SPLITS;
    let found = "operation 13, Put(5), in flight: found";
    loses("PACTree, b", pactree::crash::<Only<'b'>>(Eadr, splits, 1), found);
    loses("PACTree, c", pactree::crash::<Only<'c'>>(Eadr, splits, 1), found);
    let found = "operation 10, Put(3), in flight: found";
    loses("PACTree, as published", pactree::crash::<AsPublished>(Eadr, splits, 1), found);
}

fn nvtree_all<V: Version>() -> [Checked; 3] {
    let all = [(8, &nvtree::ONE_LEAF[..]), (4, &nvtree::LEAVES), (8, &nvtree::LEAVES)];
    all.map(|(slots, ops)| nvtree::check::<V>(Eadr, slots, ops))
}

/// Bug `a` still loses what it loses without a crash (`nvtree.rs`); a crash takes nothing more.
#[test]
fn nvtree_loses_nothing_by_a_crash() {
    keeps("NV-tree, sound", 1_800, nvtree_all::<Sound>());
    keeps("NV-tree, b", 1_800, nvtree_all::<Only<'b'>>());
    keeps("NV-tree, a", 110, [nvtree::check::<Only<'a'>>(Eadr, 8, &nvtree::SIX)]);
}

fn wbtree_all<V: Version>() -> [Checked; 3] {
    let all = [&wbtree::ONE_NODE[..], &wbtree::LEAVES, &wbtree::inner()];
    all.map(|ops| wbtree::check::<V>(Eadr, ops))
}

/// The log that ends before the parent has the new node.
#[test]
fn wbtree_keeps_one_bug_of_three() {
    keeps("wB+-tree, sound", 1_000, wbtree_all::<Sound>());
    keeps("wB+-tree, a", 1_000, wbtree_all::<Only<'a'>>());
    keeps("wB+-tree, b", 1_000, wbtree_all::<Only<'b'>>());
    for (what, checked) in [
        ("wB+-tree, c", wbtree::check::<Only<'c'>>(Eadr, &wbtree::LEAVES)),
        ("wB+-tree, as published", wbtree::check::<AsPublished>(Eadr, &wbtree::LEAVES)),
    ] {
        loses(what, checked, "Insert(50), in flight: found");
    }
}

/// Recovery reads a child that is not there.
#[test]
fn wort_keeps_its_bug() {
    let all = [&wort::INSERTS[..], &wort::REMOVES, &wort::ONE_CHILD, &wort::NO_CHILD];
    keeps("WORT, sound", 380, all.map(|ops| wort::check::<Sound>(Eadr, ops)));
    let published = all[..2].iter().map(|ops| wort::check::<AsPublished>(Eadr, ops));
    keeps("WORT, as published, two children", 210, published);
    let published = wort::check::<AsPublished>(Eadr, &wort::ONE_CHILD);
    loses("WORT, as published, one child", published, "recovery_prefix");
}

/// A change that others see is durable when they see it, unless they see it in DRAM first.
fn meetings<V: Version, A: Above>() -> [Checked; 5] {
    let all = [
        meeting::BEHIND_A_LINK,
        meeting::READS_AN_INSERT,
        meeting::READS_A_REMOVE,
        meeting::READS_A_VALUE,
        meeting::IN_ITS_PLACE,
    ];
    all.map(|meeting| meet::<V, A>(Eadr, &meeting))
}

#[test]
fn skiplist_loses_its_bug() {
    keeps("skip list, sound", 130, [lists::check::<Sound, Towers>(Eadr, &lists::SCRIPT)]);
    keeps("skip list, published", 90, [lists::check::<AsPublished, Towers>(Eadr, &lists::SCRIPT)]);
    keeps("skip list, sound, two threads", 170, meetings::<Sound, Towers>());
    keeps("skip list, published, two threads", 150, meetings::<AsPublished, Towers>());
}

/// A tree in DRAM that leads to a node before the list does, and a remove without a mark.
#[test]
fn utree_keeps_two_bugs_of_three() {
    keeps("uTree, sound", 130, [lists::check::<Sound, Entries>(Eadr, &lists::SCRIPT)]);
    keeps("uTree, published", 80, [lists::check::<AsPublished, Entries>(Eadr, &lists::SCRIPT)]);
    keeps("uTree, b", 30, [lists::check::<Only<'b'>, Entries>(Eadr, &lists::FIRST)]);
    keeps("uTree, a, links", 160, meetings::<Only<'a'>, Entries>());
    let sound = meetings::<Sound, Entries>().into_iter().chain((0..2).map(|flushes| {
        let meeting = Meeting { at: (Before::Flush, flushes), ..meeting::BEHIND_A_REMOVE };
        meet::<Sound, Entries>(Eadr, &meeting)
    }));
    keeps("uTree, sound, two threads", 320, sound);
    let entry = meet::<Only<'a'>, Entries>(Eadr, &meeting::READS_AN_ENTRY);
    loses("uTree, a, entries", entry, "had answered Some(ffffffffffffffeb)");
    let removed = meet::<Only<'c'>, Entries>(Eadr, &meeting::BEHIND_A_REMOVE);
    loses("uTree, c", removed, "had answered None");
}

/// A recovery that does not read the clock's word does not profit from its having survived.
#[test]
fn montage_keeps_its_bug() {
    let script = montage::script();
    keeps("Montage, sound", 780, [montage::check::<Sound>(Eadr, &script, false, 2)]);
    keeps("Montage, a", 780, [montage::check::<Only<'a'>>(Eadr, &script, false, 2)]);
    for check in [montage::check::<Only<'b'>>, montage::check::<AsPublished>] {
        let checked = check(Eadr, &montage::synced(), true, 2);
        loses("Montage, b", checked, "missing [(5, 1)]");
    }
}
