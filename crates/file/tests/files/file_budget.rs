//! Pools that share memory: whose pages leave, and how much of it one of them may change.

use everleaf_file::io::SimIo;
use everleaf_file::{Budget, FileOptions};
use everleaf_pmem::{PageNo, Stay};

use crate::toy::{Toy, options, path};

/// Pages that fit, about: a little is for what is beside them.
const FIT: u64 = 128;
const PAGE: u64 = 4096;

fn budget() -> Budget {
    Budget::new(FIT * PAGE)
}

fn open(budget: &Budget, number: u64) -> Toy {
    let options = FileOptions {
        slots: 252,
        max_pages: 1024,
        budget: Some(budget.clone()),
        stay: |_| Stay::Rounds,
        frame_stays: |_| false,
        ..options()
    };
    Toy::open_with(&SimIo::new(number), &path(), &options).expect("new")
}

/// Sets a word of each page, and writes all of them.
fn fill(toy: &Toy, pages: std::ops::Range<PageNo>, word: u64) {
    for no in pages {
        toy.set(&[(no, 3, word + u64::from(no))]).expect("room");
        if no.is_multiple_of(16) {
            toy.checkpoint().expect("no fault");
        }
    }
    toy.checkpoint().expect("no fault");
}

fn holds(toy: &Toy, pages: std::ops::Range<PageNo>, word: u64) {
    for no in pages {
        assert_eq!(toy.get(no, 3).expect("sound"), word + u64::from(no), "page {no}");
    }
}

fn memory(toy: &Toy) -> u64 {
    toy.file.stats().memory_bytes
}

#[test]
fn what_nobody_uses_leaves_whichever_pool_it_is_of() {
    let budget = budget();
    let [idle, busy] = [1, 2].map(|number| open(&budget, number));
    assert_eq!(budget.pools(), 2);
    fill(&idle, 100..190, 7);
    let full = memory(&idle);
    assert!(full > 80 * PAGE && full <= FIT * PAGE, "it has nearly all: {full}");
    // The same pages again and again: those of the other pool leave, and these stay.
    fill(&busy, 200..290, 9);
    (0..3).for_each(|_| holds(&busy, 200..290, 9));
    let (left, misses) = (memory(&idle), busy.file.stats().misses);
    assert!(left < full / 3, "{left} of {full} bytes of a pool that nobody uses");
    (0..5).for_each(|_| holds(&busy, 200..290, 9));
    let again = busy.file.stats().misses - misses;
    assert!(again < 45, "{again} of 450 pages that are used had left");
    assert!(budget.used() <= budget.bytes(), "{budget:?}");
    holds(&idle, 100..190, 7);
    assert!(budget.used() <= budget.bytes(), "{budget:?}");
}

#[test]
fn a_pool_that_ends_gives_back_what_it_had() {
    let budget = budget();
    let [first, second] = [1, 2].map(|number| open(&budget, number));
    fill(&first, 100..160, 7);
    fill(&second, 100..150, 8);
    let both = budget.used();
    let had = memory(&first);
    drop(first);
    assert_eq!(budget.pools(), 1);
    assert!(had > 0 && budget.used() <= both - had, "{budget:?}, it had {had} of {both}");
    fill(&second, 200..290, 9);
    holds(&second, 200..290, 9);
    drop(second);
    assert_eq!((budget.pools(), budget.used()), (0, 0));
}

#[test]
fn what_one_pool_keeps_in_memory_no_other_one_drives_out() {
    let budget = budget();
    let [kept, other] = [1, 2].map(|number| open(&budget, number));
    fill(&kept, 100..150, 7);
    holds(&kept, 100..150, 7);
    let keep = kept.file.keep_pages();
    let before = kept.file.stats();
    for word in 0..3 {
        fill(&other, 200..300, word);
    }
    let after = kept.file.stats();
    assert_eq!((before.evictions, before.misses), (after.evictions, after.misses));
    holds(&kept, 100..150, 7);
    assert_eq!(kept.file.stats().misses, before.misses);
    drop(keep);
    fill(&other, 200..300, 4);
    (0..2).for_each(|_| holds(&other, 200..290, 4));
    assert!(kept.file.stats().evictions > before.evictions);
}

/// Each sets pages until its checkpoint is due: what one has changed, the next one finds taken, but for its part.
#[test]
fn pages_that_are_changed_are_bounded_for_all_together() {
    const MOST: u64 = 1024;
    let budget = Budget::new(MOST * PAGE);
    let pools: Vec<_> = (1..=4).map(|number| open(&budget, number)).collect();
    let changed = |toy: &Toy| {
        let mut no = 100;
        while !toy.file.is_crowded() && no < 1000 {
            toy.set(&[(no, 3, 1)]).expect("room");
            no += 1;
        }
        u64::from(no) - 100
    };
    let each: Vec<_> = pools.iter().map(changed).collect();
    println!("{each:?} pages");
    assert!(each.windows(2).all(|pair| pair[0] >= pair[1]), "{each:?}: who comes later has less");
    assert!(each[0] > MOST / 3 && each[3] > MOST / 16, "{each:?}");
    assert!(each.iter().sum::<u64>() <= MOST / 8 * 7, "{each:?} of {MOST}");
    pools.iter().for_each(|toy| toy.checkpoint().expect("no fault"));
    assert!(pools.iter().all(|toy| !toy.file.is_crowded()));
}
