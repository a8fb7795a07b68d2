//! Pages and notes that a check and a redo refuse, each by itself: they are sound but for one thing.

use everleaf_pmem::{Change, Error, Medium, Page};
use everleaf_testing::Rng;
use everleaf_tree::slotted::{
    Asking, Even, Image, LeafCopy, Value, View, Went, build, check_page, compact, redo,
};

use super::medium::{Noted, bytes, set_bytes};
use super::world::World;

const PAGE_BYTES: usize = 512;

/// Tags of notes.
const INSERT: u8 = 7;
const REMOVE: u8 = 9;
const IMAGE: u8 = 11;

/// Why a page is refused.
fn refusal(page: Page<'_>) -> String {
    match check_page(page) {
        Err(Error::Corrupt { what, .. }) => what,
        other => panic!("{other:?}"),
    }
}

/// Three leaves or more whose keys begin with the same bytes.
fn leaves() -> World {
    let mut world = World::new(PAGE_BYTES, 0, &mut Rng(5));
    for i in 0..60 {
        world.put(format!("user {:02}", i * 7 % 60).as_bytes(), &[b'v'; 9]);
    }
    assert!(world.nodes.len() > 2 && world.view(1).prefix_len() >= 5);
    world
}

/// Changes bytes of a page.
fn patch(m: &Noted, page: Page<'_>, change: impl FnOnce(&mut [u8])) {
    let mut all = bytes(page);
    change(&mut all);
    set_bytes(m, page, &all);
}

#[test]
fn a_cut_key_does_not_hide_that_keys_descend() {
    let m = Noted::new(PAGE_BYTES, 1);
    let page = m.page(0).expect("inside");
    let _held = page.latch().lock();
    for (last, is_sound) in [(&b"abcdefn"[..], true), (b"abcdefm", false), (b"abcdefa", false)] {
        let mut image = Image::empty(PAGE_BYTES, 0).expect("memory");
        // Of the key in the middle six bytes are known, and that it goes on.
        assert!(image.push(b"abcdefm", false, Value::Inline(b"1")));
        assert!(image.push(b"abcdef", true, Value::Reference(1)));
        assert!(image.push(last, false, Value::Inline(b"3")));
        build(&m, &mut (), page, &mut image);
        match is_sound {
            true => check_page(page).expect("they can ascend"),
            false => assert!(refusal(page).contains("its keys do not ascend")),
        }
    }
}

#[test]
fn a_key_is_below_the_high_fence() {
    let world = leaves();
    let view = world.view(0);
    let slot = 64 + 8 * (view.count() - 1);
    // The first byte of the key stands last in its slot.
    patch(&world.m, view.page(), |all| all[slot + 7] = 0xff);
    assert!(refusal(view.page()).contains("not below the high fence"));
}

#[test]
fn a_copy_lends_no_pair_that_is_not_whole_in_its_leaf() {
    let m = Noted::new(PAGE_BYTES, 1);
    let page = m.page(0).expect("inside");
    let _held = page.latch().lock();
    // The last bytes of the page are the entry's, or would be if it were as long as it says; and a key of
    // which a part is kept would have a value of eight bytes in the leaf, where no record holds the rest.
    for (is_cut, value, bits) in
        [(false, Value::Inline(b"12"), 0xc0), (true, Value::Reference(1), 0x80)]
    {
        let mut image = Image::empty(PAGE_BYTES, 0).expect("memory");
        assert!(image.push(b"abcdef", is_cut, value));
        build(&m, &mut (), page, &mut image);
        let at = View::read(page).entry(0).at;
        let mut copy = LeafCopy::default();
        assert!(copy.fill(&View::read(page)).expect("memory"));
        assert_eq!(copy.go(0), if is_cut { Went::Not } else { Went::Whole });
        patch(&m, page, |all| all[at] = all[at] & 0x0f | bits);
        assert!(copy.fill(&View::read(page)).expect("memory"));
        assert_eq!(copy.go(0), Went::Not, "cut: {is_cut}");
    }
}

#[test]
fn a_copy_knows_whether_its_keys_ascend() {
    let m = Noted::new(PAGE_BYTES, 1);
    let page = m.page(0).expect("inside");
    let _held = page.latch().lock();
    let ascends = |keys: [(&[u8], bool); 2]| {
        let mut image = Image::empty(PAGE_BYTES, 0).expect("memory");
        for (key, is_cut) in keys {
            let value = if is_cut { Value::Reference(1) } else { Value::Inline(b"1") };
            assert!(image.push(key, is_cut, value));
        }
        build(&m, &mut (), page, &mut image);
        let mut copy = LeafCopy::default();
        assert!(copy.fill(&View::read(page)).expect("memory"));
        copy.ascends()
    };
    let pairs: [[&[u8]; 2]; 7] = [
        [b"", b"a"],
        [b"a", b"a\0"],
        [b"a", b"b"],
        [b"abcdef", b"abcdef\0"],
        [b"abcdef", b"abcdefg"],
        [b"abcdefg", b"abcdefh"],
        [b"abcdefg12", b"abcdefh"],
    ];
    for [left, right] in pairs {
        assert!(ascends([(left, false), (right, false)]), "{left:?} {right:?}");
        assert!(!ascends([(right, false), (left, false)]), "{right:?} {left:?}");
        assert!(!ascends([(left, false), (left, false)]), "{left:?} twice");
    }
    // Of a key that is cut nobody knows here how it goes on.
    assert!(ascends([(b"abcdefg", true), (b"abcdefg", true)]));
    assert!(ascends([(b"abcdefg", true), (b"abcdefgh", false)]));
    assert!(ascends([(b"abcdefgh", false), (b"abcdefg", true)]));
    assert!(!ascends([(b"abcdefh", true), (b"abcdefg", true)]));
    assert!(!ascends([(b"abcdefh", false), (b"abcdefg", true)]));
}

#[test]
fn both_fences_begin_with_the_prefix() {
    let world = leaves();
    let view = world.view(1);
    for fence in [view.low(), view.high()].into_iter().flatten() {
        for byte in 0..view.prefix_len() {
            patch(&world.m, view.page(), |all| all[fence.at + byte] ^= 1);
            assert!(refusal(view.page()).contains("do not begin with its prefix"));
            patch(&world.m, view.page(), |all| all[fence.at + byte] ^= 1);
        }
    }
    check_page(view.page()).expect("as it was");
}

#[test]
fn a_compaction_finds_fences_anywhere() {
    let world = leaves();
    let view = world.view(1);
    let page = view.page();
    let (Some(low), Some(high)) = (view.low(), view.high()) else { panic!("no fences") };
    assert_eq!((high.at + high.kept, low.at + low.kept), (low.at, PAGE_BYTES), "as images have it");
    // The other way round.
    patch(&world.m, page, |all| {
        all[high.at..].rotate_left(high.kept);
        let (low_at, high_at) = (high.at as u16, (high.at + low.kept) as u16);
        all[16..18].copy_from_slice(&low_at.to_le_bytes());
        all[20..22].copy_from_slice(&high_at.to_le_bytes());
    });
    check_page(page).expect("sound");
    world.compare_all(&[]);
    let _held = page.latch().lock();
    compact(&*world.m, &mut (), &View::read(page), None);
    drop(_held);
    world.compare_all(&[]);
}

#[test]
fn the_right_half_of_a_split_goes_on_with_the_run() {
    let mut world = World::new(PAGE_BYTES, 0, &mut Rng(5));
    let mut n = 0u8;
    while world.nodes.len() < 3 {
        n += 1;
        world.put(&[n], b"in a row");
    }
    assert_eq!(world.view(2).run(), usize::from(n));
}

#[test]
fn a_long_fence_is_not_evened_out() {
    let long = |last: u8| [&[b'm'; 600][..], &[last]].concat();
    for in_left in [true, false] {
        let mut world = World::new(4096, 0, &mut Rng(5));
        world.put(&long(1), b"");
        world.put(&long(2), b"");
        world.split(0, 1, 60);
        assert!(world.view(0).high().is_some_and(|high| high.record.is_some()));
        let begin = if in_left { b"a" } else { b"z" };
        for i in 0..50u8 {
            world.put(&[&begin[..], &[i]].concat(), &[1; 60]);
        }
        assert!(world.remove(&long(1)) && world.remove(&long(2)));
        let key = [begin[0], 25, 0];
        let asking = Asking { in_left, key: &key, pos: 26, bytes: 80, replaces: false };
        let even = Even::plan(&world.view(0), &world.view(1), &asking).expect("sound");
        assert!(even.is_none(), "the records of the old fence would be forgotten");
    }
}

/// A note that cannot be done changes nothing.
#[track_caller]
fn refuse(m: &Noted, page: Page<'_>, tag: u8, operands: &[u8]) {
    let before = bytes(page);
    let result = redo(m, page, Change { tag, bytes: operands });
    assert!(matches!(result, Err(Error::Corrupt { .. })), "{result:?}");
    assert_eq!(bytes(page), before);
}

/// The note of an insert of a key of two bytes.
fn insert_at(pos: usize, value: usize) -> Vec<u8> {
    let code = [0xd2, value as u8];
    [&(pos as u16).to_le_bytes()[..], &code, b"zz", &vec![b'v'; value]].concat()
}

#[test]
fn redo_refuses_places_behind_the_end() {
    let mut world = World::new(PAGE_BYTES, 0, &mut Rng(5));
    world.put(b"a", b"first");
    world.put(b"b", b"second");
    let (page, n) = (world.page(0), world.view(0).count());
    let _held = page.latch().lock();
    for pos in [n + 1, n + 2, 0xffff] {
        refuse(&world.m, page, INSERT, &insert_at(pos, 20));
        refuse(&world.m, page, REMOVE, &(pos as u16 - 1).to_le_bytes());
    }
    redo(&*world.m, page, Change { tag: INSERT, bytes: &insert_at(n, 20) }).expect("fits");
    check_page(page).expect("sound");
}

#[test]
fn redo_refuses_an_entry_without_room() {
    let mut world = World::new(PAGE_BYTES, 0, &mut Rng(5));
    for key in [b"a", b"b", b"c", b"d", b"e"] {
        world.put(key, &[b'v'; 60]);
    }
    world.put(b"f", &[b'v'; 20]);
    let (page, gap) = (world.page(0), world.view(0).gap());
    let _held = page.latch().lock();
    // A slot, two bytes of code and length; the key is in the slot.
    let most = gap - 8 - 2;
    assert!(most < 64, "{most}");
    refuse(&world.m, page, INSERT, &insert_at(6, most + 1));
    redo(&*world.m, page, Change { tag: INSERT, bytes: &insert_at(6, most) }).expect("fits");
    assert_eq!(world.view(0).gap(), 0);
    check_page(page).expect("sound");
}

#[test]
fn redo_removes_entries_only() {
    let world = leaves();
    let view = world.view(1);
    let page = view.page();
    let _held = page.latch().lock();
    let (slot, sound) = (64 + 8 * 2, view.entry(2).at as u16);
    // In the header, among the slots, at the page's end.
    for at in [0, 64, view.heap_start() as u16 - 1, PAGE_BYTES as u16 - 1] {
        patch(&world.m, page, |all| all[slot..slot + 2].copy_from_slice(&at.to_le_bytes()));
        refuse(&world.m, page, REMOVE, &2u16.to_le_bytes());
    }
    patch(&world.m, page, |all| all[slot..slot + 2].copy_from_slice(&sound.to_le_bytes()));
    redo(&*world.m, page, Change { tag: REMOVE, bytes: &2u16.to_le_bytes() }).expect("an entry");
    check_page(page).expect("sound");
}

#[test]
fn redo_refuses_an_image_whose_slots_and_heap_overlap() {
    let m = Noted::new(PAGE_BYTES, 1);
    let page = m.page(0).expect("inside");
    let _held = page.latch().lock();
    let mut image = Image::empty(PAGE_BYTES, 0).expect("memory");
    build(&m, &mut (), page, &mut image);
    let all = bytes(page);
    let note = |count: usize, heap_start: usize| {
        let run = count as u64 | (heap_start as u64) << 16;
        let head = [&run.to_le_bytes()[..], &all[8..12], &all[16..32], &all[40..48]].concat();
        [head, vec![0; 8 * count + PAGE_BYTES - heap_start]].concat()
    };
    refuse(&m, page, IMAGE, &note(40, 64));
    refuse(&m, page, IMAGE, &note(2, 64 + 15));
    redo(&m, page, Change { tag: IMAGE, bytes: &note(2, 64 + 16) }).expect("as far as it knows");
}
