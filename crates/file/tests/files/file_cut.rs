//! A file that another program cuts off while the pool is open. The next checkpoint or close says so, and
//! nothing more is written; or all that was needed is still there.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};

use everleaf_file::io::{Fault, SimIo};
use everleaf_file::{FileOptions, PageUse};
use everleaf_pmem::{Error, Result};

use crate::raw::{EXTENT, Raw};
use crate::toy::{State, Toy, options, path, read_all};

thread_local! {
    /// The disk that is cut by the next checkpoint of this thread, when it copies a page.
    static CUT: RefCell<Option<SimIo>> = const { RefCell::new(None) };
}

/// Cuts off all but the first extent, once.
fn cut_within(_page: &[u8]) -> PageUse {
    if let Some(io) = CUT.take() {
        io.truncate(&path(), EXTENT);
    }
    PageUse::But(0..0)
}

thread_local! {
    /// Whether the next checkpoint of this thread panics when it copies its second page.
    static PANICS: Cell<Option<u32>> = const { Cell::new(None) };
}

fn panic_within(_page: &[u8]) -> PageUse {
    match PANICS.get() {
        Some(0) => panic!("a page that nobody expected"),
        left => PANICS.set(left.map(|left| left - 1)),
    }
    PageUse::But(0..0)
}

/// Pages that a checkpoint has copied before it panics count as clean, and no root knows of them. A later one would free
/// what the journal has of them.
#[test]
fn nothing_is_written_after_a_checkpoint_that_has_panicked() {
    let io = SimIo::new(6);
    let options = FileOptions { gap: panic_within, ..options() };
    let toy = Toy::open_with(&io, &path(), &options).expect("new");
    toy.set(&[(1, 0, 7), (2, 0, 8), (3, 0, 9)]).expect("set");
    toy.file.sync().expect("sync");
    PANICS.set(Some(1));
    let cut_off = catch_unwind(AssertUnwindSafe(|| toy.checkpoint()));
    PANICS.set(None);
    assert!(cut_off.is_err(), "it was to panic");
    for _ in 0..2 {
        let refused = toy.checkpoint();
        assert!(matches!(refused, Err(Error::Poisoned { .. })), "{refused:?}");
    }
    assert!(matches!(toy.set(&[(1, 1, 1)]), Err(Error::Poisoned { .. })));
    let again = Toy::open_with(&io.kill(), &path(), &options).expect("sound");
    let found = [1, 2, 3].map(|no| again.get(no, 0).expect("sound"));
    assert_eq!(found, [7, 8, 9]);
}

fn length(io: &SimIo) -> u64 {
    io.peek(&path()).expect("there").len() as u64
}

/// An open pool with images in two extents, and blocks in another one that no checkpoint has seen.
fn pool() -> (SimIo, Toy, State) {
    let io = SimIo::new(5);
    let toy = Toy::open_with(&io, &path(), &FileOptions { gap: cut_within, ..options() });
    let toy = toy.expect("new");
    let mut state = State::default();
    for (i, no) in (1..).zip([0, 1, 2, 3, 4]) {
        toy.set(&[(no, 0, i)]).expect("set");
        state[no as usize][0] = i;
        if i < 5 {
            toy.checkpoint().expect("checkpoint");
        }
    }
    toy.file.sync().expect("sync");
    (io, toy, state)
}

/// Expects that the cut was told, and that writes have stopped.
fn expect_told(told: Result<()>, toy: &Toy, len: u64, what: &str) {
    match told {
        Err(Error::Corrupt { file: "data", offset, .. }) => assert_eq!(offset, len, "{what}"),
        other => panic!("{what}: {other:?}"),
    }
    let refused = toy.set(&[(1, 1, 1)]);
    assert!(matches!(refused, Err(Error::Poisoned { .. } | Error::Closed)), "{what}: {refused:?}");
}

#[test]
fn a_file_that_is_cut_off_under_an_open_pool_is_told_or_has_everything() {
    let (all, lengths) = {
        let (io, _toy, _) = pool();
        let raw = Raw::of(&io);
        let images = raw.images(raw.newest()).into_iter().map(|(_, placed)| placed.range());
        let blocks = raw.blocks(raw.newest()).into_iter().map(|block| block.bytes);
        let ends = images.chain(blocks).flat_map(|bytes| [bytes.start, bytes.end - 1, bytes.end]);
        let all = length(&io);
        (all, ends.chain((0..=all).step_by(50_021)).chain([all - 1, all]).collect::<Vec<_>>())
    };
    let (mut told, mut whole) = (0, 0);
    for (len, closes) in lengths.into_iter().flat_map(|len| [(len, false), (len, true)]) {
        let what = format!("{len} of {all} bytes, closed: {closes}");
        let (io, toy, mut state) = pool();
        let raw = Raw::of(&io);
        let blocks = raw.blocks(raw.newest()).into_iter().map(|block| block.bytes.end);
        let images = raw.images(raw.newest()).into_iter().map(|(_, placed)| placed.range().end);
        let needed = images.chain(blocks).max().expect("there are images");
        toy.set(&[(1, 2, 9)]).expect("set");
        state[1][2] = 9;
        io.truncate(&path(), len);
        let done = if closes { toy.file.close() } else { toy.checkpoint() };
        if len < needed || done.is_err() {
            expect_told(done, &toy, len, &what);
            assert!(closes || matches!(toy.checkpoint(), Err(Error::Poisoned { .. })), "{what}");
            assert_eq!(length(&io), len, "{what}: something was written");
            told += 1;
            continue;
        }
        if !closes {
            for i in 10..20 {
                toy.set(&[(2, 3, i)]).expect("set");
                toy.checkpoint().unwrap_or_else(|e| panic!("{what}: {e}"));
            }
            state[2][3] = 19;
        }
        drop(toy);
        let toy = Toy::open(&io.kill()).unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_eq!(read_all(&toy).expect("sound"), state, "{what}");
        whole += 1;
    }
    assert!(told > 40 && whole > 1, "{told} told, {whole} whole");
}

#[test]
fn a_file_that_is_cut_off_under_a_checkpoint_gets_no_root() {
    let mut told = 0;
    for rounds in 0..8 {
        let what = format!("{rounds} rounds");
        let (io, toy, _) = pool();
        for i in 0..rounds {
            toy.set(&[(1, 2, i)]).expect("set");
            toy.checkpoint().expect("checkpoint");
        }
        toy.set(&[(1, 2, 99)]).expect("set");
        toy.file.sync().expect("sync");
        let (before, all) = (Raw::of(&io).newest().root, length(&io));
        CUT.set(Some(io.clone()));
        let done = toy.checkpoint();
        assert!(CUT.take().is_none(), "{what}");
        // Images behind the end have made the file as long as it was: nobody sees what is gone.
        if length(&io) < all {
            expect_told(done, &toy, length(&io), &what);
            assert_eq!(Raw::of(&io).newest().root, before, "{what}");
            told += 1;
        }
    }
    assert!(told > 0, "no images came before the end");
}

#[test]
fn a_length_that_cannot_be_read_is_an_error_of_one_checkpoint() {
    let mut refused = 0;
    for call in 0.. {
        let (io, toy, mut state) = pool();
        toy.set(&[(3, 3, 7)]).expect("set");
        state[3][3] = 7;
        let next = io.calls();
        io.fail_at(next + call, Fault::Io);
        let result = toy.checkpoint();
        if io.calls() <= next + call {
            break;
        }
        match result {
            Err(Error::Io { what, .. }) if what.contains("length") => refused += 1,
            _ => continue,
        }
        toy.checkpoint().expect("this one can");
        drop(toy);
        let toy = Toy::open(&io.kill()).expect("open");
        assert_eq!(read_all(&toy).expect("sound"), state);
    }
    assert_eq!(refused, 2, "before the images and behind them");
}

#[test]
fn a_free_end_that_is_gone_is_no_damage() {
    let large = FileOptions { slots: 252, max_pages: 1 << 14, journal_bytes: EXTENT, ..options() };
    for (is_ours, last) in (0..8).map(|i| (true, 500 + 32 * i)).chain([(false, 512)]) {
        let io = SimIo::new(1);
        let toy = Toy::open_with(&io, &path(), &large).expect("new");
        toy.checkpoint().expect("checkpoint");
        // Nobody adopts them, so their places are free; the second one ends near the start of the file.
        // A free end of 32 MiB is worth the trouble that the pool cuts it off itself.
        for pages in [if is_ours { 10_240 } else { 5120 }, last] {
            toy.file.extent_write(2048, 0, &vec![7; pages * 4096]).expect("write");
            toy.file.extent_discard(2048, pages as u32);
        }
        toy.set(&[(1, 1, 1)]).expect("set");
        let all = length(&io);
        toy.checkpoint().expect("checkpoint");
        if !is_ours {
            io.truncate(&path(), all - (8 << 20));
            toy.checkpoint().expect("nothing is gone");
        }
        assert!(length(&io) < all, "{} of {all} bytes", length(&io));
        // The last pages of each value are not written yet, and in an extent in which nothing is.
        for n in 0..40 {
            let (first, pages) = (2048 + 300 * n, 260);
            toy.file.extent_write(first, 0, &vec![8; pages * 4096]).expect("write");
            toy.checkpoint().unwrap_or_else(|e| panic!("value {n}, ours: {is_ours}: {e}"));
        }
        toy.close().expect("close");
    }
}
