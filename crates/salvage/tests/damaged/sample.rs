//! Two trees of several levels, and what a salvage of them says.

use std::sync::Arc;

use everleaf::Options;
use everleaf::io::SimIo;
use everleaf_salvage::Salvaged;

use super::{ANCHOR, Files, NODE, OLD, Trees, all_pairs, salvage};

pub const PAGE_BYTES: u32 = 512;

/// How a sample ends.
#[derive(Clone, Copy, PartialEq)]
pub enum End {
    Closed,
    /// With checkpoints, and changes in the journal behind the last one.
    Killed,
}

/// Two trees of several levels, with some values in records and some in extents.
pub fn sample(end: End) -> (Files, Trees) {
    sample_of(end, ["left", "right"])
}

/// Names of trees that are too long for a leaf, so that they are in records.
pub const LONG_NAMES: [&str; 2] = [
    "left, the tree whose name is longer than an eighth of a page of 512 bytes",
    "right, the tree whose name is longer than an eighth of a page of 512 bytes",
];

pub fn sample_of(end: End, names: [&str; 2]) -> (Files, Trees) {
    let io = SimIo::new(5);
    let options = Options::new().page_bytes(PAGE_BYTES).background(false).max_bytes(64 << 20);
    let db = options.open_on(Arc::new(io.clone()), OLD).expect("new");
    let trees = names.map(|name| db.tree(name).expect("new"));
    let put = |from: u32, to: u32| {
        for i in from..to {
            for (tree, space) in trees.iter().zip(['l', 'r']) {
                let len = match i % 40 {
                    7 => 700,
                    n if n % 5 == 3 => 100,
                    _ => 40,
                };
                let value = format!("{i:04}{}", "v".repeat(len));
                tree.insert(format!("{space}{:03}", i * 37 % 400), value).expect("space");
            }
        }
        db.sync().expect("no fault");
    };
    put(0, 200);
    db.checkpoint().expect("no fault");
    put(200, 300);
    db.checkpoint().expect("no fault");
    put(300, 340);
    put(340, 400);
    let now = all_pairs(&db).expect("sound");
    if end == End::Closed {
        drop(trees);
        db.close().expect("no fault");
    }
    (Files::of(&io, PAGE_BYTES), now)
}

pub fn said(report: &Salvaged, what: &str) -> usize {
    report.losses.iter().filter(|loss| loss.what.contains(what)).count()
}

/// Salvages, and expects one loss at least that says `what`.
#[track_caller]
pub fn expect(files: &Files, what: &str) -> (Salvaged, Trees) {
    let (report, trees) = salvage(&files.disk()).expect("damage is no error");
    assert!(said(&report, what) > 0, "{what}: {:#?}", report.losses);
    (report, trees)
}

/// The anchors of the trees.
pub fn anchors(files: &Files) -> Vec<usize> {
    files.all(ANCHOR, 0).into_iter().filter(|no| *no > 1).collect()
}

pub fn root(files: &Files, anchor: usize) -> usize {
    files.word(anchor, 1) as usize
}

/// The leaves of the two trees.
pub fn leaves(files: &Files) -> Vec<usize> {
    let catalog = root(files, 1);
    files.all(NODE, 0).into_iter().filter(|no| *no != catalog).collect()
}
