//! Bytes of pages through their handles and through the door: nothing leaves the page, and what a
//! medium does at once is what it would do word by word. Miri runs most of these, too.

use everleaf_pmem::{Counted, Dram, Geometry, Medium, Page};

/// Miri looks at one in `n`: it takes seconds for what a processor does in no time.
fn every(n: usize) -> usize {
    if cfg!(miri) { n } else { 1 }
}

fn pattern(n: usize, salt: usize) -> Vec<u8> {
    (0..n).map(|i| (i * 7 + i / 256 * 3 + salt) as u8).collect()
}

fn medium(geometry: Geometry) -> (Dram, Vec<u8>) {
    let medium = Dram::new(geometry, 3).expect("memory");
    let image = pattern(geometry.page_bytes(), 3);
    let page = medium.page(1).expect("inside");
    for i in 0..geometry.page_words() {
        let word = image[8 * i..8 * i + 8].try_into().expect("8 bytes");
        medium.store(page.word(i), u64::from_le_bytes(word));
    }
    (medium, image)
}
fn both() -> [Geometry; 2] {
    [Geometry::new(4).expect("a power of two"), Geometry::whole(512).expect("a power of two")]
}

#[test]
fn nothing_is_read_behind_the_end_of_a_page() {
    for geometry in both() {
        let (medium, image) = medium(geometry);
        let (page, end) = (medium.page(1).expect("inside"), geometry.page_bytes());
        let places = (0..end + 20).chain([usize::MAX - 8, usize::MAX - 1, usize::MAX]);
        for at in places.filter(|at| at % every(61) == 0 || at.abs_diff(end) < 5) {
            let there = |n: usize| (at < end).then(|| &image[at..end.min(at.saturating_add(n))]);
            let mut word = [0; 8];
            there(8).inspect(|some| word[..some.len()].copy_from_slice(some));
            assert_eq!(page.load_le(at), u64::from_le_bytes(word), "at {at}");
            for n in [0, 1, 5, 8, 9, 20, 100, usize::MAX] {
                let inside = at <= end && n <= end - at;
                let mut out = Vec::with_capacity(101);
                out.push(7);
                assert_eq!(page.append_to(at, n, &mut out), inside, "{n} bytes at {at}");
                let want = [&[7][..], if inside { &image[at..at + n] } else { &[] }].concat();
                assert_eq!(out, want, "{n} bytes at {at}");
                if n <= 100 {
                    let mut buf = vec![0; n];
                    assert_eq!(page.copy_out(at, &mut buf), inside);
                    assert!(!inside || buf == want[1..], "{n} bytes at {at}");
                }
                compare_all(page, at, n, there(n).unwrap_or_default());
            }
        }
    }
}

/// Compares with what is there, and with all that differs from it a little.
fn compare_all(page: Page<'_>, at: usize, n: usize, there: &[u8]) {
    let mut others = vec![there.to_vec(), [there, &[0]].concat(), pattern(40, 0), Vec::new()];
    for i in (0..there.len()).step_by(every(17)) {
        others.push(there[..i].to_vec());
        for by in [1, 255] {
            let mut other = there.to_vec();
            other[i] = other[i].wrapping_add(by);
            others.push(other);
        }
    }
    for other in others {
        assert_eq!(page.cmp_bytes(at, n, &other), there.cmp(&other), "{n} at {at}: {other:?}");
    }
}

#[test]
fn a_vector_without_room_is_left_alone() {
    let (medium, _) = medium(both()[1]);
    let page = medium.page(1).expect("inside");
    let mut out = Vec::with_capacity(8);
    let room = out.capacity();
    assert!(!page.append_to(64, room + 1, &mut out) && out.is_empty());
    assert!(page.append_to(64, room, &mut out) && out.len() == room);
    assert!(!page.append_to(64, 1, &mut out) && page.append_to(64, 0, &mut out));
}

#[test]
fn words_are_counted_inside_of_the_page_alone() {
    for geometry in both() {
        let medium = Dram::new(geometry, 3).expect("memory");
        let (page, all) = (medium.page(1).expect("inside"), geometry.page_words());
        (0..all).for_each(|i| medium.store(page.word(i), 2 * i as u64));
        for (first, n) in
            (0..all + 3).step_by(every(5)).flat_map(|first| [0, 1, 7, all].map(|n| (first, n)))
        {
            for key in [0, 2 * first as u64 + 3, u64::MAX] {
                let inside = first.min(all)..first.saturating_add(n).min(all);
                let want = inside.filter(|&i| 2 * i as u64 <= key).count();
                assert_eq!(page.words_le(first, n, key), want, "{n} from {first}, {key}");
            }
        }
        assert_eq!(page.words_le(usize::MAX, usize::MAX, 0), 0);
    }
}

#[test]
fn bytes_go_in_at_once_as_they_do_word_by_word() {
    for geometry in both() {
        let (fast, _) = medium(geometry);
        let slow = Counted::new(medium(geometry).0);
        let (a, b) = (fast.page(1).expect("inside"), slow.page(1).expect("inside"));
        let same = || (0..geometry.page_words()).all(|i| a.word(i).load() == b.word(i).load());
        let end = geometry.page_bytes();
        let starts = (0..end).step_by(every(43));
        for (at, n) in starts.flat_map(|at| [0, 1, 3, 8, 17, 40].map(|n| (at, n))) {
            if at + n <= 48 || (at >= 64 && at + n <= end) {
                let new = pattern(n, at);
                fast.copy_in(a, at, &new);
                slow.copy_in(b, at, &new);
                assert!(same(), "{n} bytes at {at}");
            }
        }
        let starts = (0..end / 8).step_by(every(7));
        for (from, to) in starts.flat_map(|from| [8, 9, 10].map(|to| (from, to))) {
            let n = (end / 8 - from.max(to)).min(40);
            fast.move_words(a, from, to, n);
            slow.move_words(b, from, to, n);
            assert!(same(), "{n} words from {from} to {to}");
        }
    }
}

#[test]
fn what_does_not_fit_or_would_reach_the_words_of_the_medium_is_refused() {
    let (fast, image) = medium(both()[1]);
    let slow = Counted::new(medium(both()[1]).0);
    let refused = |run: &dyn Fn()| {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).expect_err("a bug");
    };
    for (at, n) in [(0, 49), (41, 8), (48, 1), (63, 1), (40, 100), (505, 8), (513, 0), (!0, 2)] {
        refused(&|| fast.copy_in(fast.page(1).expect("inside"), at, &vec![0; n]));
        refused(&|| slow.copy_in(slow.page(1).expect("inside"), at, &vec![0; n]));
    }
    for (from, to, n) in [
        (8, 5, 2),
        (8, 6, 1),
        (8, 7, 1),
        (60, 8, 5),
        (8, 60, 5),
        (8, !0, 1),
        (!0, 8, 1),
        (8, 8, !0),
    ] {
        refused(&|| fast.move_words(fast.page(1).expect("inside"), from, to, n));
        refused(&|| slow.move_words(slow.page(1).expect("inside"), from, to, n));
    }
    for page in [fast.page(1), slow.page(1)] {
        let page = page.expect("inside");
        let now: Vec<u8> = (0..64).flat_map(|i| page.word(i).load().to_le_bytes()).collect();
        assert_eq!(now, image);
    }
}
