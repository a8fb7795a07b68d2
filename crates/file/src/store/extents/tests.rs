//! Extents that are given out, and figures that are counted.

use super::*;

fn placed(extent: u32, at: u64, bytes: u32) -> Placed {
    Placed { place: u64::from(extent) * EXTENT_BYTES + at, bytes, crc: 1 }
}

#[test]
fn nothing_that_a_crash_could_need_is_given_out() {
    let mut extents = Extents::default();
    let first = extents.take().expect("memory");
    let image = placed(first, 8192, 100);
    extents.exchange(Placed::default(), image).expect("memory");
    extents.let_go(first);
    let live = extents.live().expect("memory");
    assert_eq!(live, [112]);
    extents.switch(&live);
    // The page moves; until the next root is durable its old image may be needed.
    let second = extents.take().expect("memory");
    assert_ne!(second, first);
    extents.exchange(Placed::default(), placed(second, 0, 100)).expect("memory");
    extents.sub(image);
    extents.let_go(second);
    let live = extents.live().expect("memory");
    assert_eq!(live, [0, 112]);
    let third = extents.take().expect("memory");
    assert_eq!(third, 2);
    extents.let_go(third);
    extents.switch(&live);
    assert_eq!(extents.take().expect("memory"), first);
    assert_eq!(extents.end(), 2);
}

#[test]
fn free_extents_with_blocks_are_ready_until_they_are_taken_or_cut_off() {
    let mut extents = Extents::default();
    (0..6).for_each(|no| assert_eq!(extents.take().expect("memory"), no));
    assert_eq!((extents.ready(), extents.in_use(), extents.len()), (0, 6, 6));
    (1..6).for_each(|no| extents.let_go(no));
    [2, 3, 5].into_iter().for_each(|no| extents.note_blocks(no));
    assert_eq!((extents.ready(), extents.in_use()), (3, 1));
    assert_eq!(extents.take_without_blocks(0).expect("memory"), 1, "the first one is in use");
    extents.let_go(1);
    assert_eq!(extents.end_with_ready(1, 2), 1, "the first one behind has no blocks");
    extents.note_blocks(1);
    assert_eq!((extents.end_with_ready(1, 2), extents.end_with_ready(1, 9)), (3, 4));
    assert_eq!((extents.end_with_ready(4, 4), extents.end_with_ready(5, 4)), (4, 6));
    assert_eq!((extents.take_ready(), extents.take_ready_for_journal()), (Some(1), Some(5)));
    assert_eq!(extents.ready(), 2);
    extents.let_go(1);
    extents.release_journal(5);
    extents.cut(4, 2 * EXTENT_BYTES + 4096);
    assert_eq!((extents.ready(), extents.len()), (1, 4), "half an extent is none");
    assert!(extents.has_blocks(1) && !extents.has_blocks(2) && !extents.has_blocks(3));
    assert_eq!(extents.take_without_blocks(0).expect("memory"), 2);
    assert_eq!(extents.take_without_blocks(4).expect("memory"), 4, "behind all");
}

#[test]
fn what_is_counted_with_each_change_is_what_a_walk_counts() {
    let mut rng = everleaf_testing::Rng(1);
    let mut extents = Extents::default();
    let (mut images, mut holds) = (Vec::new(), Vec::new());
    for round in 0..4000 {
        match rng.below(9) {
            0 => holds.push(extents.take().expect("memory")),
            1 if !holds.is_empty() => {
                extents.let_go(holds.swap_remove(rng.below(holds.len() as u64) as usize));
            }
            2 => drop(extents.take_journal().expect("memory")),
            3 => {
                let journal = |no: &u32| extents.is_journal(*no);
                let found = (0..extents.end()).rfind(journal);
                found.into_iter().for_each(|no| extents.release_journal(no));
            }
            4 if !images.is_empty() => {
                let image = images.swap_remove(rng.below(images.len() as u64) as usize);
                extents.sub(image);
                extents.keep_until_switch(image);
            }
            5 if round % 7 == 0 => {
                let live = extents.live().expect("memory");
                extents.switch(&live);
            }
            6 if round % 3 == 1 && extents.len() > 0 => {
                extents.note_blocks(rng.below(extents.len()) as u32);
            }
            6 if round % 5 == 0 => {
                extents.cut(extents.end(), u64::from(extents.end()) * EXTENT_BYTES)
            }
            7 if round % 11 == 0 => {
                let first = extents.take_run(3).expect("memory");
                holds.extend(first..first + 3);
            }
            _ => {
                let at = placed(rng.below(40) as u32, 4096 * rng.below(200), 5000);
                extents.exchange(Placed::default(), at).expect("memory");
                images.push(at);
            }
        }
        assert_eq!(extents.totals, Totals::of(&extents.all), "round {round}");
        let within = rng.below(50);
        let walk = extents.all.iter().take(within as usize).filter(|e| e.is_free()).count();
        assert_eq!(extents.free_within(within << 20), walk as u64, "round {round}");
    }
}

#[test]
fn an_extent_that_is_let_go_is_the_next_one_if_it_is_the_first() {
    let mut extents = Extents::default();
    assert_eq!([(); 3].map(|()| extents.take().expect("memory")), [0, 1, 2]);
    extents.let_go(1);
    assert_eq!(extents.take().expect("memory"), 1);
    extents.let_go(0);
    assert_eq!(extents.take().expect("memory"), 0);
    assert_eq!(extents.take().expect("memory"), 3);
}

#[test]
fn a_journal_that_is_found_is_where_nothing_else_is() {
    let mut extents = Extents::of_root([0, 16, 0, 0].into_iter()).expect("memory");
    extents.hold_found(2).expect("memory");
    let claimed = [0, 1, 2, 3, 9].map(|no| extents.claim_journal(no).expect("memory"));
    assert_eq!(claimed, [false, false, false, true, true]);
}

#[test]
fn the_journal_has_the_last_free_extent_and_never_the_first() {
    let mut extents = Extents::default();
    assert_eq!(extents.take_journal().expect("memory"), 1);
    assert_eq!(extents.take_journal().expect("memory"), 2);
    extents.release_journal(1);
    assert_eq!(extents.take().expect("memory"), 0);
    assert_eq!(extents.take().expect("memory"), 1);
    extents.let_go(1);
    assert_eq!(extents.take_journal().expect("memory"), 1);
    assert_eq!(extents.take_journal().expect("memory"), 3);
    assert_eq!(extents.take_run(2).expect("memory"), 4);
    assert_eq!((extents.counts(), extents.free_within(6 << 20)), ((0, 3), 0));
    for no in 1..4 {
        extents.release_journal(no);
    }
    (4..6).for_each(|no| extents.let_go(no));
    assert_eq!(extents.end(), 1);
}
#[test]
fn the_journal_of_a_file_that_was_long_goes_on_near_what_is_in_use() {
    let far = 3 * JOURNAL_NEAR as u32;
    let mut extents = Extents::default();
    extents.grow(far as usize + 1).expect("memory");
    assert_eq!(extents.take().expect("memory"), 0);
    assert!(extents.claim_journal(far).expect("memory"));
    // All before it are free.
    assert_eq!(extents.take_journal().expect("memory"), JOURNAL_NEAR as u32);
    (1..=JOURNAL_NEAR).for_each(|no| extents.change(no, |extent| extent.journal = true));
    assert_eq!(extents.take_journal().expect("memory"), JOURNAL_NEAR as u32 + 1, "the nearest");
}

#[test]
fn what_somebody_fills_or_the_journal_has_is_not_cleaned() {
    let mut extents = Extents::default();
    for no in 0..4 {
        extents.exchange(Placed::default(), placed(no, 8192, 100 * (4 - no))).expect("memory");
    }
    extents.hold(1);
    extents.claim_journal(2).expect("memory");
    assert_eq!(extents.sparse(EXTENT_BYTES as u32, 0..0).expect("memory"), [(3, 112), (0, 400)]);
    assert_eq!(extents.sparse(400, 0..0).expect("memory"), [(3, 112)]);
    extents.let_go(1);
    assert_eq!(extents.sparse(400, 0..0).expect("memory"), [(3, 112), (1, 304)]);
}

#[test]
fn an_extent_that_the_journal_has_reserved_may_be_cut_off_until_it_has_bytes() {
    let mut extents = Extents::default();
    let (first, reserved) = (extents.take_journal(), extents.take_journal());
    let (first, reserved) = (first.expect("memory"), reserved.expect("memory"));
    assert_eq!((first, reserved), (1, 2));
    assert_eq!((extents.bytes_end(Some(reserved)), extents.bytes_end(None)), (2, 3));
    extents.fill(reserved, 4096);
    assert_eq!(extents.bytes_end(Some(reserved)), 3, "blocks are there");
}

#[test]
fn what_a_root_alone_holds_is_cleaned_for_a_short_file() {
    let mut extents = Extents::default();
    for no in 0..3 {
        extents.exchange(Placed::default(), placed(no, 8192, 100)).expect("memory");
        extents.hold(no);
    }
    extents.hold(2);
    assert_eq!(extents.sparse(400, 0..0).expect("memory"), []);
    assert_eq!(extents.sparse(400, 1..3).expect("memory"), [(1, 112)], "a backup holds the last");
    assert_eq!((extents.alive(), extents.is_alive(1), extents.others_end()), (3, true, 3));
    extents.exchange(placed(1, 8192, 100), Placed::default()).expect("memory");
    assert_eq!((extents.alive(), extents.is_alive(1)), (2, false));
}

#[test]
fn the_journal_of_a_short_file_goes_on_behind_the_images() {
    let journal_at = |now: u32, images: u32, has_blocks: bool| {
        let mut extents = Extents::default();
        (0..6).for_each(|no| assert_eq!(extents.take().expect("memory"), no));
        [3, 4].into_iter().for_each(|no| extents.let_go(no));
        extents.fill(4, 9000);
        let taken = extents.take_behind_images(images, now, has_blocks);
        assert!(taken.is_none_or(|no| extents.is_journal(no) && extents.filled(no) == 0));
        taken
    };
    assert_eq!(journal_at(5, 2, false), Some(3), "nearer");
    assert_eq!(journal_at(5, 4, false), Some(4));
    assert_eq!(journal_at(3, 4, false), Some(4), "it is in the way");
    assert_eq!(journal_at(5, 5, false), None, "it is there");
    assert_eq!(journal_at(5, 5, true), Some(6), "an extent without blocks takes no bytes");
    assert_eq!(journal_at(5, 9, false), Some(9));
    assert_eq!(journal_at(5, 0, true), Some(3));
}

#[test]
fn an_extent_that_is_taken_again_has_no_bytes_yet() {
    let mut extents = Extents::default();
    assert_eq!((extents.first_free(), extents.take().expect("memory")), (0, 0));
    extents.fill(0, 70_000);
    assert_eq!((extents.filled(0), extents.first_free()), (70_000, 1));
    extents.let_go(0);
    assert_eq!((extents.first_free(), extents.take().expect("memory")), (0, 0));
    assert_eq!(extents.filled(0), 0);
    extents.fill(0, 70_000);
    extents.note_blocks(0);
    extents.let_go(0);
    assert_eq!((extents.take_ready(), extents.filled(0)), (Some(0), 0));
}

#[test]
fn the_journal_of_a_short_file_has_the_first_free_extent_before_its_own() {
    let mut extents = Extents::default();
    (0..5).for_each(|no| assert_eq!(extents.take().expect("memory"), no));
    (1..4).for_each(|no| extents.let_go(no));
    assert_eq!(extents.take_first_for_journal(1), None);
    assert_eq!(extents.take_first_for_journal(9), Some(1));
    assert_eq!(extents.take_first_for_journal(3), Some(2));
    assert_eq!(extents.take_first_for_journal(3), None);
    assert!(extents.is_journal(1) && extents.is_journal(2) && !extents.is_journal(3));
}

#[test]
fn a_leaf_claims_no_more_than_the_root_has_counted() {
    let mut extents = Extents::of_root([0, 224].into_iter()).expect("memory");
    let (one, two, three) = (placed(1, 0, 100), placed(1, 112, 100), placed(1, 224, 100));
    assert!(extents.claim(Placed::default()) && extents.claim(Placed::blank(7)));
    assert!(!extents.claim(placed(0, 8192, 100)), "nothing is alive there");
    assert!(!extents.claim(placed(2, 0, 100)), "there is no such extent");
    assert!(extents.claim(one) && extents.claim(two) && !extents.claim(three));
    extents.unclaim(two);
    assert!(extents.claim(three));
    // Images that were claimed can go, and the figures fit.
    extents.exchange(one, placed(4, 0, 48)).expect("memory");
    extents.exchange(three, Placed::default()).expect("memory");
    assert_eq!(extents.live().expect("memory"), [0, 0, 0, 0, 48]);
}

#[test]
fn a_journal_fills_no_extent_with_more_than_fits() {
    let mut extents = Extents::of_root([0, EXTENT_BYTES as u32].into_iter()).expect("memory");
    extents.expect_room().expect("all of it");
    extents.exchange(Placed::default(), placed(1, 0, 48)).expect("it may be freed later");
    assert!(matches!(extents.expect_room(), Err(Error::Corrupt { offset: EXTENT_BYTES, .. })));
    let most = placed(1, 0, u32::MAX - 15);
    assert!(matches!(extents.exchange(Placed::default(), most), Err(Error::Corrupt { .. })));
}
