//! Damage that something on the disk proves is told, and does not pass for a commit that was cut off.

use crate::raw;
use std::path::PathBuf;

use everleaf_file::FileOptions;
use everleaf_file::io::{Fault, Io, SimIo};
use everleaf_pmem::Error;

use crate::raw::{EXTENT, Live, Raw};
use crate::toy::{Model, Rng, Toy, options, path, read_all};

fn flip(io: &SimIo, at: u64) {
    let byte = io.peek(&path()).expect("there")[at as usize];
    io.poke(&path(), at, &[byte ^ 1]);
}

fn set(toy: &Toy, no: u32, value: u64) {
    toy.set(&[(no, 0, value)]).expect("set");
    toy.file.sync().expect("sync");
}

fn open_error(io: &SimIo) -> Error {
    match Toy::open(io) {
        Ok(toy) => panic!("opened, epoch {}", toy.file.durable_epoch()),
        Err(e) => e,
    }
}

fn is_corrupt_at(error: &Error, at: u64) -> bool {
    matches!(error, Error::Corrupt { offset, .. } if *offset == at)
}

#[test]
fn a_damaged_superblock_does_not_hide_what_was_written_since() {
    let io = SimIo::new(1);
    Toy::open(&io).expect("new").close().expect("close");
    let toy = Toy::open(&io).expect("open");
    set(&toy, 1, 7);
    toy.abandon();
    for copy in [0, 4096] {
        let io = io.kill();
        flip(&io, copy + 100);
        // Neither copy says any more that the pool was closed.
        assert_eq!(Toy::open(&io).expect("one is good").get(1, 0).expect("get"), 7);
    }
    flip(&io, 100);
    flip(&io, 4096 + 100);
    assert!(is_corrupt_at(&open_error(&io), 0));
}

#[test]
fn a_damaged_superblock_does_not_hide_a_checkpoint() {
    let io = SimIo::new(1);
    let toy = Toy::open(&io).expect("new");
    for value in [6, 7] {
        set(&toy, 1, value);
        toy.checkpoint().expect("checkpoint");
    }
    toy.abandon();
    let blocks = Raw::of(&io).blocks(Raw::of(&io).newest());
    assert!(blocks.is_empty(), "the root has everything");
    for copy in [0, 4096] {
        let io = io.kill();
        flip(&io, copy + 100);
        assert_eq!(Toy::open(&io).expect("one is good").get(1, 0).expect("get"), 7);
    }
}

#[test]
fn a_closed_pool_needs_one_copy_of_its_superblock() {
    for copy in [0, 4096] {
        let io = SimIo::new(1);
        let toy = Toy::open(&io).expect("new");
        set(&toy, 1, 7);
        toy.close().expect("close");
        flip(&io, copy + 60);
        assert_eq!(Toy::open(&io).expect("one is good").get(1, 0).expect("get"), 7);
    }
}

#[test]
fn an_old_image_does_not_replace_a_damaged_page() {
    let io = SimIo::new(1);
    let toy = Toy::open(&io).expect("new");
    let mut stamp = 0;
    for value in [4, 5] {
        set(&toy, 1, value);
        toy.checkpoint().expect("checkpoint");
        let raw = Raw::of(&io);
        let newer = raw::u64_at(&raw.0, raw.page(1).place as usize + 40);
        assert!(newer > stamp, "salvage takes the newest");
        stamp = newer;
    }
    toy.close().expect("close");
    let (old, toy) = (Raw::of(&io).page(1), Toy::open(&io).expect("open"));
    set(&toy, 1, 6);
    toy.checkpoint().expect("checkpoint");
    set(&toy, 3, 1);
    toy.abandon();
    let now = Raw::of(&io);
    assert!(now.payload(now.newest(), old).is_some(), "the old image is still there");
    let home = now.page(1).place;
    assert_ne!(home, old.place);
    flip(&io, home + 70);
    let toy = Toy::open(&io).expect("open");
    match toy.get(1, 0) {
        Err(Error::Corrupt { file: "data", offset, .. }) => assert_eq!(offset, home),
        other => panic!("{other:?}"),
    }
    assert_eq!(toy.get(3, 0).expect("another page"), 1);
}

#[test]
fn what_is_blank_is_no_empty_page_and_no_empty_table() {
    let io = SimIo::new(1);
    let toy = Toy::open(&io).expect("new");
    set(&toy, 1, 7);
    toy.close().expect("close");
    let raw = Raw::of(&io);
    for (live, placed) in raw.images(raw.newest()) {
        let io = io.kill();
        io.poke(&path(), placed.place, &vec![0; placed.bytes as usize]);
        let toy = match Toy::open(&io) {
            Ok(toy) => toy,
            Err(error) => {
                assert!(live == Live::Root && is_corrupt_at(&error, placed.place), "{error}");
                continue;
            }
        };
        for no in 0..6 {
            let found = toy.get(no, 0);
            match live {
                Live::Page(page) if page != no => {
                    assert_eq!(found.expect("another page"), if no == 1 { 7 } else { 0 });
                }
                _ => assert!(is_corrupt_at(&found.expect_err("it is blank"), placed.place)),
            }
        }
    }
}

/// A pool with one checkpoint, and then a block for each of the pages 1, 2 and 3. Where these are.
fn three_blocks() -> (SimIo, Vec<u64>) {
    let io = SimIo::new(1);
    let toy = Toy::open(&io).expect("new");
    set(&toy, 5, 1);
    toy.checkpoint().expect("checkpoint");
    for no in 1..=3 {
        set(&toy, no, 7);
    }
    toy.abandon();
    let raw = Raw::of(&io);
    let blocks = raw.blocks(raw.newest());
    assert_eq!(blocks.len(), 3);
    (io, blocks.into_iter().map(|block| block.bytes.start).collect())
}

#[test]
fn the_head_of_a_torn_block_proves_that_the_one_before_was_durable() {
    let (io, at) = three_blocks();
    flip(&io, at[2] + 70);
    assert_eq!(Toy::open(&io).expect("a torn tail").get(3, 0).expect("get"), 0);
    let (io, at) = three_blocks();
    flip(&io, at[1] + 70);
    flip(&io, at[2] + 70);
    assert!(is_corrupt_at(&open_error(&io), at[1]));
}

#[test]
fn a_torn_head_proves_nothing() {
    let (io, at) = three_blocks();
    let last = at[2] as usize;
    let number = raw::u64_at(&Raw::of(&io).0, last + 8);
    io.poke(&path(), at[2] + 8, &(number + 1).to_le_bytes());
    assert_eq!(Toy::open(&io).expect("a torn tail").get(3, 0).expect("get"), 0);
}

#[test]
fn a_long_epoch_is_there_or_not_after_a_cut_at_any_call() {
    cut_a_long_epoch(u64::MAX, 3);
}

#[test]
fn a_spilled_epoch_is_there_or_not_after_a_cut_at_any_call() {
    cut_a_long_epoch(1 << 20, 6);
    // So many that there is a sync among them.
    cut_a_long_epoch(32 << 10, 60);
}

/// An epoch of several blocks, whose process is killed or loses its power at each call. At `least` so
/// many calls are made before the last one.
fn cut_a_long_epoch(spill_bytes: u64, least: u64) {
    let (mut seen, mut call) = ([0, 0], 0);
    loop {
        let io = SimIo::new(1);
        let spilling = FileOptions { spill_bytes, ..options() };
        let toy = Toy::open_with(&io, &path(), &spilling).expect("new");
        toy.file.sync().expect("sync");
        const STEPS: u64 = 30_000;
        io.cut_at(io.calls() + call, (call % 2 == 1).then_some(call));
        for i in 1..=STEPS {
            toy.set(&[(1, 0, i), (2, 0, i), (3, 0, i), (4, 0, i)]).expect("set");
        }
        toy.file.sync().expect("no fault");
        let Some(cut) = io.take_cut() else { break };
        toy.abandon();
        call += 1;
        let toy = Toy::open(&cut).expect("a torn tail or nothing");
        let found = [1, 2, 3, 4].map(|no| toy.get(no, 0).expect("get"));
        let is_there = usize::from(found == [STEPS; 4]);
        assert!(is_there == 1 || found == [0; 4], "call {call}: {found:?}");
        seen[is_there] += 1;
    }
    assert!(seen[0] >= least, "{seen:?}");
}

/// A full disk ends a checkpoint at any call; the next one is whole, with no change in between, or with one of a page
/// of which another leaf of the table knows.
#[test]
fn what_a_full_disk_kept_from_a_root_is_in_the_next_one() {
    let mut failed = 0;
    let faults = [Fault::NoSpace, Fault::Full];
    let each = |call| faults.map(|fault| [None, Some(700)].map(|other| (call, fault, other)));
    for (call, fault, other) in (0..20).flat_map(each).flatten() {
        let io = SimIo::new(1);
        let open = || Toy::open_with(&io, &path(), &FileOptions { max_pages: 1024, ..options() });
        let toy = open().expect("new");
        set(&toy, 1, 7);
        io.fail_at(io.calls() + call, fault);
        let first = toy.checkpoint();
        io.fail_at(u64::MAX, Fault::NoSpace);
        io.heal();
        if toy.file.poisoned().is_none() {
            failed += usize::from(first.is_err());
            other.iter().for_each(|no| set(&toy, *no, 8));
            toy.checkpoint().expect("there is room now");
        }
        toy.abandon();
        let toy = open().expect("sound");
        assert_eq!(toy.get(1, 0).expect("get"), 7, "{fault:?} at {call}, then page {other:?}");
    }
    assert!(failed > 0, "no checkpoint met a full disk");
}

#[test]
fn a_later_block_in_the_place_of_the_first_is_noticed() {
    let (io, at) = three_blocks();
    let last = Raw::of(&io).0[at[2] as usize..][..4096].to_vec();
    io.poke(&path(), at[0], &last);
    assert!(is_corrupt_at(&open_error(&io), at[0]));
}

#[test]
fn a_block_that_an_open_has_read_is_missed_by_the_next_one() {
    let (io, at) = three_blocks();
    // This open writes nothing but the superblock, which says that the three were durable.
    let toy = Toy::open(&io).expect("open");
    set(&toy, 4, 7);
    toy.abandon();
    let raw = Raw::of(&io);
    let last = raw.blocks(raw.newest())[3].bytes.clone();
    io.poke(&path(), last.start, &vec![0; (last.end - last.start) as usize]);
    assert_eq!(Toy::open(&io.kill()).expect("a torn tail").get(4, 0).expect("get"), 0);
    io.poke(&path(), at[2], &[0; 4096]);
    assert!(is_corrupt_at(&open_error(&io), at[2]));
}

#[test]
fn each_block_says_which_open_wrote_it() {
    let io = SimIo::new(1);
    for no in 1..=3 {
        let toy = Toy::open(&io).expect("open");
        set(&toy, no, 7);
        toy.abandon();
    }
    let raw = Raw::of(&io);
    let blocks = raw.blocks(raw.newest());
    let opens: Vec<u32> = blocks.iter().map(|block| raw::u32_at(&block.head, 44)).collect();
    assert!(opens.is_sorted(), "{opens:?}");
    let mut distinct = opens.clone();
    distinct.dedup();
    assert_eq!((distinct, raw.newest().generation), (vec![1, 2, 3], 3));
}

#[test]
fn a_pool_that_is_closed_before_it_is_recovered_has_everything() {
    let io = SimIo::new(1);
    let toy = Toy::open(&io).expect("new");
    set(&toy, 1, 7);
    toy.abandon();
    // The journal holds changes for pages that nobody has touched since.
    Toy::open(&io).expect("open").file.close().expect("close");
    assert_eq!(Toy::open(&io).expect("open").get(1, 0).expect("get"), 7);
}

#[test]
fn each_block_is_missed_at_each_moment_of_a_checkpoint() {
    let (mut told, mut torn, mut superseded, mut call) = (0, 0, 0, 0);
    loop {
        let (io, mut model, mut rng) = (SimIo::new(1), Model::new(), Rng(3));
        let toy = Toy::open(&io).expect("new");
        let mut step = |toy: &Toy| {
            let changes = model.transfer(&mut rng);
            let epoch = toy.set(&changes).expect("set");
            model.set(epoch, &changes);
        };
        for _ in 0..6 {
            step(&toy);
            toy.file.sync().expect("sync");
        }
        // The checkpoint commits this one itself.
        step(&toy);
        io.cut_at(io.calls() + call, None);
        toy.checkpoint().expect("no fault");
        let Some(killed) = io.take_cut() else { break };
        toy.abandon();
        call += 1;
        let raw = Raw::of(&killed);
        let newest = raw.newest();
        let chain: Vec<_> = raw.blocks(newest).into_iter().map(|b| (b.number, b.epoch)).collect();
        let everything = chain.last().map_or(newest.durable_epoch, |(_, epoch)| *epoch);
        for block in raw.all_blocks(newest) {
            // A copy, as an open may change it.
            let io = killed.kill();
            let what = format!("call {call}, block {} at {}", block.number, block.bytes.start);
            flip(&io, block.bytes.start + 70);
            let is_needed = chain.iter().any(|(number, _)| *number == block.number);
            match Toy::open(&io) {
                Ok(toy) => {
                    let epoch = toy.file.durable_epoch();
                    let found = read_all(&toy).unwrap_or_else(|e| panic!("{what}: {e}"));
                    assert_eq!(found, model.at(epoch).1, "{what}: epoch {epoch}");
                    if is_needed {
                        // Only the last of all may pass for torn.
                        let is_last = chain.last().is_some_and(|(last, _)| *last == block.number);
                        assert!(is_last && block.number >= newest.floor, "{what}: nobody said so");
                        torn += 1;
                    } else {
                        assert_eq!(epoch, everything, "{what}: nobody needs it");
                        superseded += 1;
                    }
                }
                Err(error) => {
                    assert!(
                        is_needed && is_corrupt_at(&error, block.bytes.start),
                        "{what}: {error}"
                    );
                    told += 1;
                }
            }
        }
    }
    assert!(told > 30 && torn > 3 && superseded > 10, "{told} told, {torn} torn, {superseded} not");
}

fn sibling(suffix: &str) -> PathBuf {
    PathBuf::from(format!("{}{suffix}", path().display()))
}

#[test]
fn a_pool_that_a_failed_open_made_has_a_durable_name() {
    let mut failed = 0;
    for (call, fault) in (0..30).flat_map(|call| [(call, Fault::Io), (call, Fault::LostSync)]) {
        let io = SimIo::new(1);
        io.fail_at(call, fault);
        failed += usize::from(Toy::open(&io).map(Toy::abandon).is_err());
        io.fail_at(u64::MAX, fault);
        let what = format!("{fault:?} at call {call}");
        let toy = Toy::open(&io).unwrap_or_else(|e| panic!("{what}: {e}"));
        set(&toy, 1, 8);
        toy.abandon();
        for seed in 0..20 {
            let toy = Toy::open(&io.power_cut(seed)).expect("nothing is missing");
            assert_eq!(toy.get(1, 0).expect("get"), 8);
        }
    }
    assert!(failed >= 8, "{failed} opens failed");
}

#[test]
fn a_maker_that_is_killed_at_any_call_leaves_nothing_in_the_way() {
    let (foreign, mut left) = (b"somebody else's".as_slice(), 0);
    for (call, seed) in (0..40).flat_map(|call| [None, Some(1), Some(2)].map(|seed| (call, seed))) {
        for has_foreign in [false, true] {
            let io = SimIo::new(1);
            if has_foreign {
                io.poke(&sibling("-new"), 0, foreign);
            }
            io.cut_at(call, seed);
            let toy = Toy::open(&io).expect("no fault");
            toy.abandon();
            let Some(cut) = io.take_cut() else { continue };
            let made = sibling(if has_foreign { "-new1" } else { "-new" });
            left += usize::from(cut.exists(&made).expect("no fault"));
            let toy = Toy::open(&cut).expect("what is left is nobody's");
            set(&toy, 1, 8);
            toy.close().expect("close");
            // An empty file may be somebody else's, so that stays.
            let is_left = cut.peek(&made).is_some_and(|bytes| !bytes.is_empty());
            assert!(!is_left, "call {call}, seed {seed:?}: it is still there");
            assert_eq!(cut.peek(&sibling("-new")).as_deref() == Some(foreign), has_foreign);
            assert_eq!(Toy::open(&cut).expect("closed").get(1, 0).expect("get"), 8);
        }
    }
    assert!(left > 10, "{left} makers left something");
}

#[test]
fn a_closed_pool_goes_on_over_the_journal_of_an_earlier_open() {
    for checkpoints in [false, true] {
        let io = SimIo::new(1);
        let toy = Toy::open(&io).expect("new");
        set(&toy, 1, 3);
        if checkpoints {
            toy.checkpoint().expect("checkpoint");
        }
        set(&toy, 1, 7);
        let journal = Raw::of(&io).0.split_off(EXTENT as usize);
        assert!(journal.starts_with(b"EBLK"));
        toy.close().expect("close");
        let left = Raw::of(&io).0.len();
        assert!(checkpoints || left <= EXTENT as usize, "a close cuts the journal off");
        if left <= EXTENT as usize {
            // As a crash leaves it before that.
            io.poke(&path(), EXTENT, &journal);
        }
        for seed in 0..20 {
            for call in 0..40 {
                goes_on(&io.power_cut(0), call, seed);
            }
        }
    }
}

/// Opens a closed pool in which page 1 has a 7, and has its power cut at a call.
fn goes_on(disk: &SimIo, call: u64, seed: u64) {
    let toy = Toy::open(disk).expect("it was closed");
    disk.cut_at(disk.calls() + call, Some(seed));
    set(&toy, 2, 9);
    toy.abandon();
    let cut = disk.take_cut();
    let what = format!("seed {seed}, call {call}");
    let toy = Toy::open(cut.as_ref().unwrap_or(disk)).expect(&what);
    let found = [1, 2, 3].map(|no| toy.get(no, 0).expect("get"));
    assert!(found == [7, 9, 0] || cut.is_some() && found == [7, 0, 0], "{what}: {found:?}");
}
