//! The skip list and the uTree, cut off anywhere: by one thread, and with a second one between a store and its flush.

mod scripts {
    pub mod lists;
    pub mod meeting;
    pub mod ops;
}

use everleaf_crash_check::Failure;
use everleaf_crash_check::Persistency::X86;
use everleaf_rivals::list::Above;
use everleaf_rivals::skiplist::Towers;
use everleaf_rivals::utree::Entries;
use everleaf_rivals::{AsPublished, Only, Sound, Version};
use scripts::lists::{FIRST, Op, SCRIPT, check};
use scripts::meeting::{
    BEHIND_A_LINK, BEHIND_A_REMOVE, Before, IN_ITS_PLACE, Meeting, READS_A_REMOVE, READS_A_VALUE,
    READS_AN_ENTRY, READS_AN_INSERT, meet,
};

fn survives<V: Version, A: Above>(ops: &[Op]) {
    let coverage =
        check::<V, A>(X86, ops).unwrap_or_else(|failure| panic!("{}: {failure}", A::NAME));
    assert!(coverage.is_exhaustive() && coverage.nested > 0, "{coverage}");
    println!("{}, {}: {coverage}", A::NAME, V::NAME);
}

#[test]
fn one_thread_survives() {
    survives::<AsPublished, Towers>(&SCRIPT);
    survives::<Sound, Towers>(&SCRIPT);
    survives::<Only<'a'>, Entries>(&SCRIPT);
    survives::<Only<'c'>, Entries>(&SCRIPT);
    survives::<Sound, Entries>(&SCRIPT);
}

#[test]
fn the_first_insert_of_the_utree_is_lost() {
    let failure = check::<Only<'b'>, Entries>(X86, &FIRST).expect_err("a bug");
    println!("{failure}");
    assert!(failure.message.contains("Insert(7), had answered"), "{failure}");
    check::<Sound, Entries>(X86, &FIRST).expect("mended");
}

/// The failure of a meeting in which bug `a` loses what `Sound` keeps.
fn differs<V: Version, A: Above>(meeting: &Meeting) -> Box<Failure> {
    let coverage = meet::<Sound, A>(X86, meeting).unwrap_or_else(|f| panic!("{f}"));
    assert!(coverage.is_exhaustive(), "{coverage}");
    println!("{}, sound: {coverage}", A::NAME);
    let failure = meet::<V, A>(X86, meeting).expect_err("a bug of the paper");
    println!("{}, as published: {failure}", A::NAME);
    failure
}

#[test]
fn an_insert_behind_an_unflushed_link_is_lost() {
    for differs in [differs::<AsPublished, Towers>, differs::<Only<'a'>, Entries>] {
        let failure = differs(&BEHIND_A_LINK);
        let lost = "found {a: fffffffffffffff5, b: fffffffffffffff4}";
        assert!(
            failure.message.contains(lost),
            "20 and 30 are lost, and 30 was answered: {failure}"
        );
    }
}

#[test]
fn a_reader_answers_an_insert_that_a_crash_takes_back() {
    for differs in [differs::<AsPublished, Towers>, differs::<Only<'a'>, Entries>] {
        let failure = differs(&READS_AN_INSERT);
        assert!(failure.message.contains("had answered Some(ffffffffffffffeb)"), "{failure}");
    }
}

#[test]
fn the_utree_answers_what_is_not_in_its_list() {
    let failure = meet::<Only<'a'>, Entries>(X86, &READS_AN_ENTRY).expect_err("a bug");
    assert!(failure.message.contains("had answered Some(ffffffffffffffeb)"), "{failure}");
    let finds_nothing = Meeting { answer: None, holds: |_| true, ..READS_AN_ENTRY };
    meet::<Sound, Entries>(X86, &finds_nothing).unwrap_or_else(|f| panic!("{f}"));
}

#[test]
fn a_remove_of_the_utree_loses_an_insert_behind_it() {
    let failure = meet::<Only<'c'>, Entries>(X86, &BEHIND_A_REMOVE).expect_err("a bug");
    println!("{failure}");
    for flushes in 0..2 {
        let meeting = Meeting { at: (Before::Flush, flushes), ..BEHIND_A_REMOVE };
        meet::<Sound, Entries>(X86, &meeting).unwrap_or_else(|f| panic!("{f}"));
    }
}

#[test]
fn a_reader_answers_a_remove_that_a_crash_takes_back() {
    for differs in [differs::<AsPublished, Towers>, differs::<Only<'a'>, Entries>] {
        let failure = differs(&READS_A_REMOVE);
        assert!(failure.message.contains("14: ffffffffffffffeb"), "20 is back: {failure}");
    }
}

#[test]
fn a_reader_answers_a_value_that_a_crash_takes_back() {
    for differs in [differs::<AsPublished, Towers>, differs::<Only<'a'>, Entries>] {
        let failure = differs(&READS_A_VALUE);
        assert!(failure.message.contains("14: ffffffffffffffeb"), "the old value: {failure}");
    }
}

/// A remove that is stopped before its unlinking is durable, and an insert that finds the node unlinked.
#[test]
fn an_insert_in_the_place_of_a_removed_node_survives() {
    for flushes in [0, 1] {
        let meeting = Meeting { at: (Before::Flush, flushes), ..IN_ITS_PLACE };
        let meets = [meet::<AsPublished, Towers>, meet::<Sound, Towers>, meet::<Sound, Entries>];
        for meet in meets {
            let coverage = meet(X86, &meeting);
            coverage.unwrap_or_else(|failure| panic!("{flushes}: {failure}"));
        }
    }
}
