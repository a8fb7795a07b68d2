//! Options with any value: what is computed from them fits, in the open and in all that follows.

use std::sync::Arc;
use std::time::Duration;

use everleaf_file::io::SimIo;
use everleaf_file::{Compression, File, FileOptions};
use everleaf_pmem::{Error, Stay};

use crate::toy::{Toy, options, path};

/// Sets one option to one value.
type Setting = (&'static str, fn(&mut FileOptions));

const SETTINGS: &[Setting] = &[
    ("interval 0", |o| o.interval = Duration::ZERO),
    ("interval MAX", |o| o.interval = Duration::MAX),
    ("journal_bytes 0", |o| o.journal_bytes = 0),
    ("journal_bytes MAX", |o| o.journal_bytes = u64::MAX),
    ("pending_bytes 0", |o| o.pending_bytes = 0),
    ("pending_bytes MAX", |o| o.pending_bytes = u64::MAX),
    ("spill_bytes 0", |o| o.spill_bytes = 0),
    ("spill_bytes MAX", |o| o.spill_bytes = u64::MAX),
    ("spare_extents 0", |o| o.spare_extents = 0),
    ("spare_extents MAX", |o| o.spare_extents = u32::MAX),
    ("reserve_from 0", |o| o.reserve_from = 0),
    ("reserve_from MAX", |o| o.reserve_from = u32::MAX),
    ("max_pages MAX", |o| o.max_pages = u32::MAX),
    ("memory_bytes 0", |o| {
        (o.memory_bytes, o.evicts_small) = (0, true);
        o.stay = |_| Stay::Rounds;
    }),
    ("memory_bytes MAX - 1", |o| (o.memory_bytes, o.evicts_small) = (u64::MAX - 1, true)),
    ("compression", |o| o.compression = Compression::Lz4),
    ("background", |o| o.background = true),
];

/// Changes pages, ends epochs and writes checkpoints; says what a word must be at the end.
fn exercise(toy: &Toy, name: &str) -> u64 {
    let mut last = 0;
    for i in 1..=3000 {
        match toy.set(&[(1, 0, i), (2, 1, i)]) {
            Ok(_) => last = i,
            Err(Error::EpochTooLarge { .. }) => toy.file.sync().expect("no fault"),
            Err(e) => panic!("{name}: {e}"),
        }
        if i % 700 == 0 {
            toy.file.sync().unwrap_or_else(|e| panic!("{name}: {e}"));
            toy.file.checkpoint().unwrap_or_else(|e| panic!("{name}: {e}"));
        }
    }
    toy.file.sync().unwrap_or_else(|e| panic!("{name}: {e}"));
    last
}

fn try_out(settings: &[&Setting]) {
    let name = settings.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let mut options = options();
    settings.iter().for_each(|(_, set)| set(&mut options));
    let io = SimIo::new(1);
    let open = || Toy::open_with(&io, &path(), &options).unwrap_or_else(|e| panic!("{name}: {e}"));
    let toy = open();
    let last = exercise(&toy, &name);
    toy.file.close().unwrap_or_else(|e| panic!("{name}: {e}"));
    let toy = open();
    assert_eq!([toy.get(1, 0), toy.get(2, 1)].map(|n| n.expect("sound")), [last; 2], "{name}");
}

#[test]
fn extremes_do_alone_and_in_pairs() {
    for (i, a) in SETTINGS.iter().enumerate() {
        try_out(&[a]);
        SETTINGS[i + 1..].iter().for_each(|b| try_out(&[a, b]));
    }
}

/// The time that a long commit takes is measured, and what an epoch may hold follows from that and the interval.
#[test]
fn a_long_epoch_ends_whatever_the_interval_is() {
    for interval in [Duration::ZERO, Duration::MAX] {
        let options = FileOptions { interval, journal_bytes: 64 << 20, ..options() };
        let toy = Toy::open_with(&SimIo::new(1), &path(), &options).expect("new");
        for round in 0..3 {
            for i in 0..20_000 {
                toy.set(&[(1, 0, i), (2, 1, i)]).expect("room");
            }
            assert!(toy.file.stats().pending_bytes > 256 << 10, "too short to be measured");
            toy.file.sync().unwrap_or_else(|e| panic!("{interval:?}, round {round}: {e}"));
        }
    }
}

#[test]
fn shapes_that_cannot_be_are_refused_by_name() {
    let io = SimIo::new(1);
    for slots in [0, 1, 2, 3, 5, 6, 2048, 4096, 1 << 31, u32::MAX] {
        let options = FileOptions { slots, ..options() };
        let refused = File::open(Arc::new(io.clone()), &path(), &options).map(drop);
        match refused {
            Err(Error::InvalidOption { option: "slots", what }) => {
                assert!(what.contains(&slots.to_string()) && what.contains("4..=1024"), "{what}");
            }
            other => panic!("{slots}: {other:?}"),
        }
        assert!(io.peek(&path()).is_none(), "{slots}");
    }
}
