//! Copies of pages beside those in memory: what the image says, never what the journal knows better.

use std::sync::atomic::Ordering::SeqCst;

use everleaf_file::FileOptions;
use everleaf_file::io::SimIo;
use everleaf_pmem::{Aside, Error, Medium, PageNo, Result, Seen, Stay};

use crate::toy::{Toy, WORDS, options, path};

/// The words of a page as a copy has them, if there is one.
fn copied(toy: &Toy, aside: &Aside, no: PageNo) -> Result<Option<[u64; WORDS]>> {
    let page = aside.new_page(no);
    let _held = page.latch().lock();
    let is_read = toy.file.read_aside(no, page)?;
    assert!(!toy.file.page(no)?.latch().is_ready(), "page {no} has come to memory");
    Ok(is_read.then(|| std::array::from_fn(|j| page.body_word(j).load())))
}

#[test]
fn a_copy_is_the_image_of_its_page() {
    let io = SimIo::new(1);
    let toy = Toy::open(&io).expect("new");
    toy.set(&[(1, 2, 7), (2, 5, 8), (3, 0, 9)]).expect("room");
    toy.close().expect("no fault");
    let toy = Toy::open(&io).expect("sound");
    let aside = Aside::new(toy.file.geometry()).expect("memory");
    for (no, j, value) in [(1, 2, 7), (3, 0, 9), (2, 5, 8)] {
        let mut words = [0; WORDS];
        words[j] = value;
        assert_eq!(copied(&toy, &aside, no).expect("no fault"), Some(words));
        // One without an image has nothing of the page that was there before.
        assert_eq!(copied(&toy, &aside, 40).expect("no fault"), Some([0; WORDS]));
    }
    let misses = toy.file.stats().misses;
    copied(&toy, &aside, 1).expect("no fault");
    assert_eq!(toy.file.stats().misses, misses + 1, "a copy is read, too");
    let page = aside.new_page(1);
    toy.file.close().expect("no fault");
    let _held = page.latch().lock();
    assert!(matches!(toy.file.read_aside(1, page), Err(Error::Closed)));
}

#[test]
fn a_page_of_which_the_journal_has_changes_is_not_copied() {
    let io = SimIo::new(1);
    let toy = Toy::open(&io).expect("new");
    toy.set(&[(1, 2, 7), (2, 5, 8)]).expect("room");
    toy.close().expect("no fault");
    let toy = Toy::open(&io).expect("sound");
    toy.set(&[(2, 5, 9)]).expect("room");
    toy.file.sync().expect("no fault");
    let toy = Toy::open(&io.power_cut(1)).expect("sound");
    let aside = Aside::new(toy.file.geometry()).expect("memory");
    assert_eq!(copied(&toy, &aside, 2).expect("no fault"), None);
    assert_eq!(copied(&toy, &aside, 1).expect("no fault").map(|words| words[2]), Some(7));
    assert_eq!(toy.get(2, 5).expect("no fault"), 9);
}

#[test]
fn frames_go_with_their_pages_unless_somebody_keeps_them() {
    /// A mark of the layer above.
    const KEPT: usize = 5;
    let options = FileOptions {
        slots: 252,
        max_pages: 256,
        memory_bytes: 1,
        evicts_small: true,
        stay: |_| Stay::Rounds,
        frame_stays: |page| page.mark(KEPT).load(SeqCst) != 0,
        ..options()
    };
    let toy = Toy::open_with(&SimIo::new(1), &path(), &options).expect("new");
    let kept = toy.file.frames_kept().expect("they can leave");
    kept.fetch_add(1, SeqCst);
    toy.set(&[(1, 2, 7), (100, 5, 8)]).expect("room");
    toy.checkpoint().expect("no fault");
    let page = toy.file.page(1).expect("inside");
    let seen = || match page.latch().read_version() {
        Seen::Ready(version) => panic!("page 1 is in memory: {version:?}"),
        Seen::Absent => page.latch().read_absent().expect("nobody holds it").stamp(),
    };
    // At its end pages leave, and what is beside them.
    let turn = || toy.checkpoint().expect("no fault");
    turn();
    let before = seen();
    assert_ne!(before, 0, "somebody keeps them");
    page.mark(KEPT).store(1, SeqCst);
    kept.fetch_sub(1, SeqCst);
    turn();
    assert_eq!(seen(), before, "the layer above relies on it");
    page.mark(KEPT).store(0, SeqCst);
    turn();
    assert_eq!(seen(), 0, "as if nobody had ever touched it");
    assert_eq!(toy.get(1, 2).expect("sound"), 7);
    match page.latch().read_version() {
        Seen::Ready(version) => assert!(version.stamp() > before, "a version comes again"),
        Seen::Absent => panic!("it was just read"),
    }
}
