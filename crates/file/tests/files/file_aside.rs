//! Copies of pages beside those in memory: what the image says, never what the journal knows better.

use everleaf_file::io::SimIo;
use everleaf_pmem::{Aside, Error, Medium, PageNo, Result};

use crate::toy::{Toy, WORDS};

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
