//! Each kind of damage by itself: what a salvage gets out in spite of it, and what it says.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::damaged::sample::{
    End, LONG_NAMES, PAGE_BYTES, anchors, expect, leaves, root, sample, sample_of,
};
use crate::damaged::{Files, LeafEntry, MAP, NEW, NODE, OLD, RECORD, all_pairs, missing, salvage};
use everleaf::io::{Access, Fault, Io, SimIo};
use everleaf::{Error, Options};
use everleaf_salvage::{Origin, SalvageOptions, salvage_on};

#[test]
fn a_sound_pool_comes_out_whole() {
    for end in [End::Closed, End::Killed] {
        let (files, now) = sample(end);
        let (report, out) = salvage(&files.disk()).expect("sound");
        assert!(report.is_complete(), "{:#?}", report.losses);
        assert!(out == now);
        assert_eq!((report.pairs(), report.pairs_stray()), (800, 0));
    }
}

#[test]
fn a_pool_that_nobody_wrote_to_comes_out_empty() {
    let io = SimIo::new(1);
    let options = Options::new().page_bytes(PAGE_BYTES).background(false);
    options.open_on(Arc::new(io.clone()), OLD).expect("new").close().expect("no fault");
    let (report, out) = salvage(&io).expect("sound");
    assert!(report.is_complete() && out.is_empty(), "{report:?}");
}

#[test]
fn either_superblock_and_both_can_be_gone() {
    for end in [End::Closed, End::Killed] {
        for gone in [&[0][..], &[1], &[0, 1]] {
            let (mut files, now) = sample(end);
            for copy in gone {
                files.data[4096 * copy..4096 * (copy + 1)].fill(0xaa);
            }
            let (_, out) = expect(&files, "superblock copy");
            assert!(out == now, "without {gone:?}");
        }
    }
}

#[test]
fn a_journal_counts_although_the_pool_says_that_it_was_closed() {
    let (mut files, now) = sample(End::Killed);
    let newest = files.newest_super();
    files.data[4096 * newest + 44] |= 1;
    files.seal_super(newest);
    let (_, out) = expect(&files, "says that the pool was closed");
    assert!(out == now);
}

#[test]
fn without_a_journal_what_was_in_the_table_comes_out() {
    let (mut files, now) = sample(End::Killed);
    assert!(files.blocks.len() >= 2, "{:?}", files.blocks);
    for (at, len) in files.blocks.clone() {
        files.data[at + len - 3] ^= 1;
    }
    let (_, out) = expect(&files, "was torn by a crash");
    // The checkpoint had three quarters.
    let kept: usize = ["left", "right"].iter().map(|name| out[*name].len()).sum();
    assert_eq!(kept, 600);
    assert_eq!(missing(&now, &out), 200);
}

#[test]
fn pages_that_a_lost_block_changed_are_stale_and_others_are_not() {
    let (files, now) = sample(End::Killed);
    let blocks = files.blocks.clone();
    assert!(blocks.len() >= 2, "{blocks:?}");
    for (i, (at, len)) in blocks.iter().enumerate() {
        let mut files = files.clone();
        files.data[at + len - 3] ^= 1;
        if i + 1 == blocks.len() {
            let (_, out) = expect(&files, "was torn by a crash");
            assert!(missing(&now, &out) > 0);
        } else {
            let (_, out) = expect(&files, "no good block");
            let (report, _) = expect(&files, "the next that is left is");
            let all: usize = out.values().map(|pairs| pairs.len()).sum();
            assert!(all > 500, "{all} pairs, {:#?}", report.trees);
        }
    }
}

#[test]
fn a_journal_of_the_last_generation_of_all_is_read() {
    let (mut files, now) = sample(End::Killed);
    for (at, _) in files.blocks.clone() {
        files.data[at + 44..at + 48].fill(0xff);
    }
    files.seal_blocks();
    let (_, out) = salvage(&files.disk()).expect("sound");
    assert!(out == now);
}

#[test]
fn a_truncated_file_keeps_what_is_before() {
    let (mut files, now) = sample(End::Closed);
    files.forget_old();
    let mut places: Vec<_> = files.imaged().into_iter().map(|no| files.at(no, 0)).collect();
    places.sort_unstable();
    let cut = places[places.len() * 7 / 8];
    assert!(files.root.start > cut, "the table is written behind the pages");
    for has_table in [true, false] {
        let mut files = files.clone();
        if has_table {
            let table = files.leaves.values().map(|leaf| leaf.start).min().expect("a leaf");
            files.data[cut..table].fill(0);
        } else {
            files.data.truncate(cut);
        }
        let (report, out) = expect(&files, if has_table { "checksum" } else { "the file ends" });
        let missing = missing(&now, &out);
        // Every pair that can be read is somewhere.
        let there: usize = out.values().map(|pairs| pairs.len()).sum();
        assert!(missing > 0 && there > 400, "{missing}, {there}");
        assert!(report.pages_lost > 10, "{}", report.pages_lost);
    }
}

#[test]
fn without_a_map_pages_say_what_they_are() {
    let (mut files, now) = sample(End::Closed);
    for no in files.all(MAP, 0) {
        files.ruin(no);
    }
    let (_, out) = expect(&files, "a map page");
    assert!(out == now);
}

#[test]
fn names_come_back_by_records_or_leaves_of_the_catalog() {
    let (mut files, now) = sample_of(End::Closed, LONG_NAMES);
    let catalog = root(&files, 1);
    files.ruin(catalog);
    let (_, out) = expect(&files, "the catalog has no first leaf");
    assert_eq!(missing(&now, &out), 0);

    let (mut files, now) = sample(End::Closed);
    files.ruin(1);
    let (_, out) = expect(&files, "an anchor");
    assert!(out == now, "{:?}", out.keys());
}

#[test]
fn trees_whose_names_are_lost_are_named_after_their_anchors() {
    // Short names are in the catalog's leaf, long ones in records that it names.
    for names in [["left", "right"], LONG_NAMES] {
        let (mut files, now) = sample_of(End::Closed, names);
        let catalog = root(&files, 1);
        let mut pages: Vec<_> = files.records_of(catalog).into_iter().map(|r| r.0).collect();
        pages.dedup();
        assert_eq!(pages.is_empty(), names != LONG_NAMES);
        if pages.is_empty() {
            pages.push(catalog);
        }
        pages.iter().for_each(|no| files.ruin(*no));
        expect_trees_without_names(&files, names.map(|name| &now[name]));
    }
}

#[track_caller]
fn expect_trees_without_names(files: &Files, now: [&BTreeMap<Vec<u8>, Vec<u8>>; 2]) {
    let (report, out) = expect(files, "the name of the tree of page");
    let unnamed: Vec<_> = report.trees.iter().filter(|t| t.origin == Origin::Unnamed).collect();
    let wanted: Vec<_> = anchors(files).iter().map(|no| format!("lost+found/tree-{no}")).collect();
    assert_eq!(unnamed.iter().map(|tree| tree.name.clone()).collect::<Vec<_>>(), wanted);
    let lost: u64 = report.trees.iter().map(|tree| tree.pairs_lost).sum();
    assert_eq!(report.pairs() + lost, 800);
    let by_anchor = wanted.iter().map(|name| &out[name]);
    for (own, old) in by_anchor.zip(now) {
        assert!(own.iter().all(|(key, value)| old.get(key) == Some(value)));
    }
}

#[test]
fn a_tree_without_its_anchor_is_put_together_and_two_are_not_mixed() {
    let (files, now) = sample(End::Closed);
    let mut one = files.clone();
    one.ruin(anchors(&files)[0]);
    let (_, out) = expect(&one, "an anchor");
    assert!(out == now);
    // Of two it cannot be told which is which.
    let mut two = files.clone();
    anchors(&files).iter().for_each(|no| two.ruin(*no));
    let (report, out) = expect(&two, "nothing says of which tree");
    assert_eq!(report.pairs_stray(), 800);
    let strays = out.iter().filter(|(name, _)| name.starts_with("lost+found/leaf-"));
    let sizes: Vec<_> = strays.map(|(_, pairs)| pairs.len()).collect();
    assert_eq!(sizes, [400, 400]);
}

#[test]
fn leaves_are_reached_without_their_inner_nodes() {
    let (files, now) = sample(End::Closed);
    for anchor in anchors(&files) {
        let mut files = files.clone();
        let root = root(&files, anchor);
        assert!(files.level(root) > 0);
        files.ruin(root);
        let (_, out) = expect(&files, "a node");
        assert!(out == now);
    }
    let mut all = files.clone();
    (1..9).flat_map(|level| files.all(NODE, level)).for_each(|no| all.ruin(no));
    let (report, out) = expect(&all, "a node");
    // The left neighbours lead to all leaves; nothing says whose the first ones are.
    let pairs: usize = out.values().map(|pairs| pairs.len()).sum();
    // Those that are strays are not in their trees.
    assert_eq!((pairs as u64, report.pairs_lost), (800, report.pairs_stray()));
    assert!(report.pairs_lost_is_exact);
}

#[test]
fn of_a_lost_leaf_the_records_are_found_by_their_keys_and_the_rest_is_said() {
    let (files, now) = sample(End::Closed);
    let (mut all_found, mut all_lost) = (0, 0);
    for leaf in leaves(&files).into_iter().step_by(9) {
        let entries = files.entries_of(leaf);
        let mut files = files.clone();
        files.ruin(leaf);
        let (report, out) = expect(&files, "has no");
        let found: u64 = report.trees.iter().map(|tree| tree.pairs_found).sum();
        let in_records = entries.iter().filter(|entry| entry.record.is_some()).count();
        assert_eq!(found as usize, in_records);
        let lost = entries.len() - in_records;
        assert_eq!(missing(&now, &out), lost, "what no page holds any more");
        assert_eq!((report.pairs_lost, report.pairs_lost_is_exact), (lost as u64, true));
        (all_found, all_lost) = (all_found + found, all_lost + lost);
        let hole = report.losses.iter().find(|loss| loss.keys.is_some()).expect("a range");
        assert!(hole.page.is_none_or(|no| no as usize == leaf), "{hole:?}");
        assert_eq!(hole.pairs, Some(lost as u64), "{hole:?}");
        let keys = hole.keys.as_ref().expect("a range");
        for entry in entries {
            assert!(keys.from.as_ref().is_none_or(|from| *from <= entry.key), "{hole:?}");
            assert!(keys.to.as_ref().is_none_or(|to| entry.key < *to), "{hole:?}");
        }
    }
    assert!(all_found > 10 && all_lost > 10, "{all_found} found, {all_lost} lost");
}

#[test]
fn records_that_two_trees_may_have_lost_are_put_into_neither() {
    let io = SimIo::new(3);
    let options = Options::new().page_bytes(PAGE_BYTES).background(false).max_bytes(64 << 20);
    let db = options.open_on(Arc::new(io.clone()), OLD).expect("new");
    for name in ["one", "two"] {
        let tree = db.tree(name).expect("new");
        let value = name.repeat(40);
        (0..300).for_each(|i| drop(tree.insert(format!("k{i:03}"), &value).expect("space")));
    }
    let now = all_pairs(&db).expect("sound");
    db.close().expect("no fault");
    let mut files = Files::of(&io, PAGE_BYTES);
    // The leaf of each tree that has this key.
    let is_it = |entry: &LeafEntry| entry.record.is_some() && entry.key == b"k150";
    let has = |leaf: &usize| files.entries_of(*leaf).iter().any(is_it);
    let hit: Vec<_> = leaves(&files).into_iter().filter(has).collect();
    assert_eq!(hit.len(), 2);
    hit.iter().for_each(|leaf| files.ruin(*leaf));
    let (report, out) = expect(&files, "that no node names");
    let missing = missing(&now, &out);
    assert!(missing > 0 && report.pairs_stray() >= missing as u64, "{missing}, {report:#?}");
    let strays: Vec<_> = ["lost+found/records", "lost+found/records~"]
        .map(|name| out[name].get(&b"k150"[..]).expect("of either tree").clone())
        .into();
    assert!(["one", "two"].iter().all(|name| strays.contains(&name.repeat(40).into_bytes())));
}

#[test]
fn what_was_on_lost_record_pages_is_counted_with_its_range() {
    let (files, now) = sample(End::Closed);
    for no in files.all(RECORD, 0).into_iter().step_by(5) {
        let mut files = files.clone();
        files.ruin(no);
        let (report, out) = expect(&files, "a record page");
        assert_eq!(missing(&now, &out) as u64, report.pairs_lost);
        let said: u64 = report.losses.iter().filter_map(|loss| loss.pairs).sum();
        assert_eq!(said, report.pairs_lost);
        // Each lost key lies in a range that is said.
        for (name, pairs) in &now {
            for key in pairs.keys().filter(|key| !out[name].contains_key(*key)) {
                let covers = |keys: &everleaf_salvage::KeyRange| {
                    keys.from.as_ref().is_none_or(|from| from <= key)
                        && keys.to.as_ref().is_none_or(|to| key < to)
                };
                let mut own = report.losses.iter().filter(|l| l.tree.as_ref() == Some(name));
                assert!(own.any(|loss| loss.keys.as_ref().is_some_and(covers)), "{key:?}");
            }
        }
    }
}

#[test]
fn a_large_value_with_a_changed_byte_does_not_come_out() {
    let (mut files, now) = sample(End::Closed);
    let body = files.data.windows(400).position(|bytes| bytes.iter().all(|b| *b == b'v'));
    files.data[body.expect("a large value")] ^= 1;
    let (report, out) = expect(&files, "fails its checksum");
    assert_eq!((missing(&now, &out), report.pairs_lost), (1, 1));
}

#[test]
fn a_record_that_two_leaves_name_is_kept_for_whoever_knows() {
    let (mut files, now) = sample(End::Closed);
    let leaves = leaves(&files);
    let in_record = |files: &Files, leaf: usize| {
        files.entries_of(leaf).into_iter().find(|entry| entry.record.is_some()).expect("one")
    };
    let (from, to) = (in_record(&files, leaves[3]), in_record(&files, leaves[20]));
    let key = from.key;
    files.data.copy_within(from.value_at..from.value_at + 8, to.value_at);
    assert!(files.seal(leaves[20]));
    files.forget_old();
    let (report, out) = expect(&files, "a record that two nodes name");
    assert_eq!(report.pairs_lost, 2);
    let (_, own) = now.iter().find(|(_, pairs)| pairs.contains_key(&key)).expect("durable");
    let kept = out.get("lost+found/records").and_then(|pairs| pairs.get(&key));
    assert_eq!(kept, own.get(&key), "{:?}", String::from_utf8_lossy(&key));
    missing(&now, &out);
}

#[test]
fn cycles_of_siblings_end() {
    let (files, now) = sample(End::Closed);
    let leaves = leaves(&files);
    for (leaf, to) in
        [(leaves[5], leaves[5]), (leaves[9], leaves[3]), (leaves[2], 1), (leaves[2], 1 << 30)]
    {
        let mut files = files.clone();
        let at = files.at(leaf, 8);
        files.data[at..at + 8].copy_from_slice(&(to as u64).to_le_bytes());
        assert!(files.seal(leaf));
        let (_, out) = salvage(&files.disk()).expect("damage is no error");
        assert_eq!(missing(&now, &out), 0);
    }
}

#[test]
fn a_page_of_another_pool_does_not_count_as_the_lost_one() {
    let (files, now) = sample(End::Closed);
    let io = SimIo::new(9);
    let options = Options::new().page_bytes(PAGE_BYTES).background(false);
    let db = options.open_on(Arc::new(io.clone()), OLD).expect("new");
    let tree = db.tree("foreign").expect("new");
    (0..900).for_each(|i| drop(tree.insert(format!("z{i:03}"), "foreign").expect("space")));
    drop(tree);
    db.close().expect("no fault");
    let other = Files::of(&io, PAGE_BYTES);
    for no in leaves(&files).into_iter().filter(|no| *no < other.pages()).step_by(7) {
        let mut files = files.clone();
        let (Some(from), Some(to)) = (other.image(no), files.image(no)) else { continue };
        let bytes = from.len().min(to.len());
        files.data[to.start..to.start + bytes].copy_from_slice(&other.data[from][..bytes]);
        files.forget_old();
        let (report, out) = salvage(&files.disk()).expect("damage is no error");
        assert!(!report.is_complete());
        // Every pair that is in its tree is right; the others' are in no tree of this pool.
        missing(&now, &out);
    }
}

#[test]
fn a_pool_on_persistent_memory_or_of_an_older_format_is_refused() {
    for (at, value, why) in [(16, 2, "persistent memory"), (8, 1, "format version 1; this build")] {
        let (mut files, _) = sample(End::Closed);
        for copy in 0..2 {
            files.data[4096 * copy + at] = value;
            files.seal_super(copy);
        }
        let refused = salvage(&files.disk()).expect_err("it is of another kind");
        assert!(matches!(&refused, Error::Foreign { what, .. } if what.contains(why)), "{refused}");
    }
}

#[test]
fn nothing_is_overwritten_and_a_lock_is_respected() {
    let (files, _) = sample(End::Closed);
    let io = files.disk();
    let shared: Arc<dyn Io> = Arc::new(io.clone());
    let try_to =
        |new: &str| salvage_on(Arc::clone(&shared), OLD, new, &SalvageOptions::new()).map(drop);
    for taken in ["", "-salvage", "-salvage-new"] {
        let taken = format!("{NEW}{taken}");
        io.poke(Path::new(&taken), 0, b"here");
        let refused = try_to(NEW).expect_err("it may be anybody's");
        let wanted = format!("{taken} is there already");
        assert!(matches!(&refused, Error::FileExists { .. }), "{refused:?}");
        assert!(refused.to_string().starts_with(&wanted), "{refused}");
        assert_eq!(io.peek(Path::new(&taken)).as_deref(), Some(&b"here"[..]), "{taken}");
        shared.remove(Path::new(&taken)).expect("there");
    }
    for suffix in ["", "-new"] {
        let refused = try_to(&format!("{OLD}{suffix}")).expect_err("the old pool's");
        assert!(refused.to_string().contains("is the old pool's own file"), "{refused}");
    }
    let held = io.open(Path::new(OLD), Access::Write).expect("there");
    assert!(held.lock(false).expect("no fault"));
    assert!(matches!(try_to(NEW), Err(Error::Locked { .. })));
    drop(held);
    // One that is under way has its file.
    let left = format!("{NEW}-salvage");
    io.poke(Path::new(&left), 0, b"unfinished");
    let held = io.open(Path::new(&left), Access::Write).expect("there");
    assert!(held.lock(false).expect("no fault"));
    assert!(matches!(try_to(NEW), Err(Error::Locked { .. })));
    drop(held);
    assert_eq!(io.peek(Path::new(&left)).as_deref(), Some(&b"unfinished"[..]));
    shared.remove(Path::new(&left)).expect("there");
    // A pool of the same name in another directory is another pool.
    try_to("/elsewhere/old").expect("sound");
    salvage(&io).expect("sound");
    for suffix in ["-salvage", "-salvage-new"] {
        assert!(io.peek(Path::new(&format!("{NEW}{suffix}"))).is_none(), "{suffix}");
    }
}

#[test]
fn a_failing_disk_leaves_no_half_pool_and_loses_nothing_in_silence() {
    let (files, now) = sample(End::Killed);
    let whole = files.disk();
    let before = whole.calls();
    let options = SalvageOptions::new();
    salvage_on(Arc::new(whole.clone()), OLD, NEW, &options).expect("sound");
    let calls = whole.calls() - before;
    for fault in [Fault::Io, Fault::NoSpace] {
        for call in (0..calls).step_by(1 + calls as usize / 60) {
            let io = files.disk();
            io.fail_at(io.calls() + call, fault);
            let Ok((report, out)) = salvage(&io) else { continue };
            assert!(report.is_complete() <= (out == now), "call {call}, {fault:?}");
            missing(&now, &out);
        }
    }
}

#[test]
fn a_copy_of_an_open_pool_is_salvaged_whole() {
    let dir = tempfile::tempdir().expect("a directory");
    let (open, path, new) = (dir.path().join("open"), dir.path().join("p"), dir.path().join("n"));
    let options = Options::new().max_bytes(4 << 20).background(false);
    let db = options.open(&open).expect("it opens");
    let tree = db.tree("t").expect("room");
    for i in 0..1000u32 {
        tree.insert(i.to_be_bytes(), [7; 20]).expect("room");
    }
    db.sync().expect("no fault");
    // The file that a killed process has left: the journal is in it.
    std::fs::copy(&open, &path).expect("copied");
    let salvaged =
        everleaf_salvage::salvage(&path, &new, &SalvageOptions::new()).expect("readable");
    assert!(salvaged.is_complete() && salvaged.pairs() == 1000, "{:?}", salvaged.losses);
}

#[test]
fn what_is_left_of_a_dropped_tree_does_not_come_out() {
    let io = SimIo::new(1);
    let options = Options::new().page_bytes(PAGE_BYTES).background(false);
    let db = options.open_on(Arc::new(io.clone()), OLD).expect("new");
    for name in ["goes", "stays"] {
        let tree = db.tree(name).expect("room");
        for i in 0..500u32 {
            tree.put(i.to_be_bytes(), [7; 20]).expect("room");
        }
    }
    // Else it would be gone at once.
    let snapshot = db.snapshot().expect("open");
    assert!(db.drop_tree("goes").expect("room"));
    db.sync().expect("no fault");
    assert_eq!(db.stats().expect("open").dropped_trees, 1);
    let (report, out) = salvage(&io.power_cut(0)).expect("sound");
    assert!(report.is_complete(), "{:#?}", report.losses);
    assert_eq!(out.keys().collect::<Vec<_>>(), ["stays"]);
    assert_eq!(report.pairs(), 500);
    drop(snapshot);
}
