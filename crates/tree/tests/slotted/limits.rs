//! Each limit of a node by itself.

use everleaf_pmem::Medium;
use everleaf_testing::Rng;
use everleaf_tree::node::Rank;
use everleaf_tree::slotted::{
    Asking, Edit, Even, Merge, Room, Value, ValueSize, View, entry_bytes, inline_value_max,
    may_take, shortest_between, whole_key_max,
};

use super::world::World;

const PAGES: [usize; 7] = [512, 1024, 2048, 4096, 8192, 16384, 32768];

/// A world of one empty leaf.
fn leaf(page_bytes: usize) -> World {
    World::new(page_bytes, 0, &mut Rng(7))
}

#[test]
fn values_around_every_length_come_back() {
    for page_bytes in PAGES {
        let mut world = leaf(page_bytes);
        let most = inline_value_max(page_bytes);
        for n in [0, 1, 12, 13, 14, 15, 255, 256, 257, most - 1, most, most + 1] {
            for suffix in [0, 1, 5, 6, 7, 13, 14, 15] {
                let key = vec![b'k'; suffix];
                world.put(&key, &vec![n as u8; n]);
                world.compare_all(std::slice::from_ref(&key));
                world.put(&key, &vec![!(n as u8); n]);
            }
        }
        world.compare_all(&[]);
    }
}

#[test]
fn keys_around_every_length_come_back() {
    for page_bytes in PAGES {
        let mut world = leaf(page_bytes);
        let whole = whole_key_max(page_bytes);
        let lengths = [0, 1, 5, 6, 7, 13, 14, 15, 255, 256, 257, whole - 1, whole, whole + 1];
        for n in lengths.into_iter().chain([whole + 25, whole + 26, whole + 27, 65_535, 65_536]) {
            for last in [0, 1, b'z'] {
                let mut key = vec![b'k'; n];
                if let Some(byte) = key.last_mut() {
                    *byte = last;
                }
                world.put(&key, b"value");
            }
        }
        let probes: Vec<Vec<u8>> = (0..100).map(|n| vec![b'k'; n * whole / 40]).collect();
        world.compare_all(&probes);
    }
}

#[test]
fn zeros_that_pad_a_head_are_no_bytes_of_the_key() {
    let mut world = leaf(512);
    let keys: Vec<Vec<u8>> =
        (0..10).flat_map(|n| [vec![0; n], [b"ab", &vec![0; n][..]].concat()]).collect();
    for key in &keys {
        world.put(key, &[key.len() as u8]);
    }
    world.compare_all(&keys);
    for key in keys.iter().step_by(2) {
        assert!(world.remove(key));
    }
    world.compare_all(&keys);
}

#[test]
fn an_insert_of_a_number_notes_at_most_twenty_bytes() {
    let m = super::medium::Noted::new(4096, 1);
    let page = m.page(0).expect("inside");
    let _held = page.latch().lock();
    let mut image = everleaf_tree::slotted::Image::empty(4096, 0).expect("memory");
    everleaf_tree::slotted::build(&m, &mut (), page, &mut image);
    let (view, mut edit) = (View::read(page), Edit::default());
    let rank = Rank { le: 0, exact: false };
    assert!(edit.put(&view, (rank, None), &[7; 8], Value::Inline(&[8; 8])));
    m.take_notes();
    edit.apply(&m, &mut (), &view);
    let view = View::read(page);
    let (rank, old) = (Rank { le: 1, exact: true }, view.entry(0));
    assert!(edit.put(&view, (rank, Some(&old)), &[7; 8], Value::Inline(&[9; 8])));
    edit.apply(&m, &mut (), &view);
    let sizes: Vec<_> = m.take_notes().iter().map(|note| note.2.len()).collect();
    assert_eq!(sizes, [19, 11]);
}

#[test]
fn what_is_loaded_in_order_fills_its_nodes() {
    for page_bytes in PAGES {
        let mut world = leaf(page_bytes);
        let each = entry_bytes(8, false, ValueSize::Inline(8)) + 8;
        let n = 8 * page_bytes / each;
        for i in 0..n as u64 {
            world.put(&i.to_be_bytes(), &[1; 8]);
        }
        let nodes = world.nodes.len();
        for at in 0..nodes - 1 {
            // One entry went to the right half. The last node has no prefix.
            let fits = (page_bytes - 64 - 16) / each;
            assert!(world.view(at).count() + 1 >= fits, "node {at} of {nodes} is not full");
        }
        assert!(nodes <= 10, "{nodes} nodes of {page_bytes} bytes for eight pages of entries");
    }
}

#[test]
fn a_run_ends_with_an_insert_in_the_middle() {
    let mut world = leaf(4096);
    for i in 0..20u8 {
        assert_eq!(world.view(0).run(), usize::from(i));
        world.put(&[i, i], b"in a row");
    }
    assert!(world.view(0).is_appending(20) && !world.view(0).is_appending(19));
    world.put(&[3], b"in the middle");
    assert_eq!(world.view(0).run(), 0);
    for i in 0..280u16 {
        world.put(&[&[20], &i.to_be_bytes()[..]].concat(), b"");
    }
    assert_eq!((world.view(0).run(), world.nodes.len()), (255, 1), "it is not counted further");
}

#[test]
fn a_split_halves_the_bytes() {
    let mut world = leaf(4096);
    let mut rng = Rng(3);
    // A few large pairs below many small ones.
    for i in 0..4u8 {
        world.put(&[1, i], &vec![i; 400]);
    }
    while world.nodes.len() == 1 {
        world.put(&[&[2], &rng.next().to_be_bytes()[..]].concat(), b"x");
    }
    let used = [0, 1].map(|at| world.view(at).used_bytes());
    assert!(used[0].abs_diff(used[1]) < 500, "{used:?}");
    assert!(world.view(0).count() < world.view(1).count() / 2);
}

#[test]
fn a_page_that_is_full_of_dead_bytes_has_room_again() {
    for page_bytes in PAGES {
        let mut world = leaf(page_bytes);
        let value = vec![5; inline_value_max(page_bytes)];
        // In turn longer and shorter: no update fits in place of the one before.
        for i in 0..100 {
            world.put(b"a", &value[..value.len() - (i % 2)]);
            world.put(b"b", &value[..value.len() - (i + 1) % 2]);
            assert_eq!(world.nodes.len(), 1);
        }
        assert!(world.done["compacted for it"] > 0);
    }
}

#[test]
fn a_longer_key_is_updated_in_a_node_whose_prefix_has_grown() {
    // A cut key keeps fewer bytes behind a longer prefix than it would if it came now.
    let mut world = leaf(512);
    let key = |i: u8| [&vec![b'l'; 30][..], &[i], &vec![b'l'; 100][..]].concat();
    for i in 0..40 {
        world.put(&key(i), b"old");
    }
    assert!((0..world.nodes.len()).any(|at| world.view(at).prefix_len() >= 20));
    for i in 0..40 {
        world.put(&key(i), b"new");
    }
    world.compare_all(&[key(7), key(50)]);
}

#[test]
fn the_same_prefix_is_as_long_as_there_is_room_for() {
    // Keys that agree in more bytes than a prefix may have.
    for page_bytes in [512, 4096] {
        let mut world = leaf(page_bytes);
        let same = vec![b's'; whole_key_max(page_bytes) - 3];
        for i in 0..page_bytes as u8 / 2 + 40 {
            world.put(&[&same[..], &[i]].concat(), b"");
            world.put(&[&same[..], &[i, 0, 0, 0, 0]].concat(), b"cut");
        }
        let longest = (0..world.nodes.len()).map(|at| world.view(at).prefix_len()).max();
        assert!(longest > Some(17), "{longest:?}");
        world.compare_all(&[same.clone(), [&same[..], &[200]].concat()]);
    }
}

#[test]
fn a_root_has_two_children() {
    use everleaf_tree::slotted::{Image, build, check_page};
    let m = super::medium::Noted::new(512, 1);
    let page = m.page(0).expect("inside");
    let _held = page.latch().lock();
    let mut image = Image::root(512, 3, 5, b"separator", Value::Child(6)).expect("memory");
    build(&m, &mut (), page, &mut image);
    check_page(page).expect("sound");
    let view = View::of(page).expect("a node");
    assert_eq!((view.level(), view.count(), view.child(0), view.child(1)), (3, 2, 5, 6));
    let mut key = Vec::new();
    assert_eq!(view.key_into(1, &mut key).expect("sound"), None);
    assert_eq!(key, b"separator");
    // Another separator, and then a longer one.
    let mut edit = Edit::default();
    for separator in [&b"other"[..], &[b'p'; 64]] {
        let view = View::read(page);
        assert!(edit.rekey(&view, 1, separator, 6));
        edit.apply(&m, &mut (), &view);
        check_page(page).expect("sound");
        let mut key = Vec::new();
        View::read(page).key_into(1, &mut key).expect("sound");
        assert!(separator.starts_with(&key) && View::read(page).child(1) == 6);
    }
}

#[test]
fn the_shortest_separator_is_found() {
    for (below, above, wanted) in [
        (&b"abc"[..], &b"abd"[..], &b"abd"[..]),
        (b"abc", b"b", b"b"),
        (b"abc", b"bcd", b"b"),
        (b"ab", b"ab\0", b"ab\0"),
        (b"", b"\0\0", b"\0"),
        (b"ab", b"abcd", b"abc"),
    ] {
        assert_eq!(shortest_between(below, above), wanted);
    }
}

/// Two leaves with so many entries of 71 bytes, in pages of 4096 bytes; `key 1` is between them.
fn two_leaves(left: usize, right: usize) -> World {
    let mut world = leaf(4096);
    let key = |i: usize| format!("key {i:03}").into_bytes();
    for i in [0, 199] {
        world.put(&key(i), &[1; 60]);
    }
    world.split(0, 1, 60);
    for i in (1..left).chain(200 - right..199) {
        world.put(&key(i), &[1; 60]);
    }
    assert_eq!((world.view(0).count(), world.view(1).count()), (left, right));
    world
}

#[test]
fn a_neighbour_that_is_nearly_full_takes_nothing() {
    let mut evened = vec![];
    for right in [20, 40, 44, 48, 49, 50, 52] {
        let world = two_leaves(56, right);
        let (a, b) = (world.view(0), world.view(1));
        let asking = Asking { in_left: true, key: b"key 056", pos: 56, bytes: 80, replaces: false };
        let even = Even::plan(&a, &b, &asking).expect("sound");
        let percent = 100 * b.used_bytes() / (4096 - 64);
        assert_eq!(even.is_some(), may_take(&b), "{percent} %");
        evened.push(even.is_some());
    }
    assert!(evened.contains(&true) && evened.contains(&false));
}

#[test]
fn evening_out_makes_both_about_equally_full() {
    for (left, right) in [(56, 10), (10, 54), (56, 36)] {
        let mut world = two_leaves(left, right);
        let in_left = left > right;
        let (key, pos): (&[u8], _) =
            if in_left { (b"key 005x", 6) } else { (b"key 198x", right - 1) };
        let asking = Asking { in_left, key, pos, bytes: 80, replaces: false };
        assert!(world.even(0, &asking));
        world.replay();
        world.compare_all(&[]);
        let used = [0, 1].map(|at| world.view(at).used_bytes());
        assert!(used[0].abs_diff(used[1]) < 160, "{used:?}");
    }
}

#[test]
fn neighbours_merge_if_they_take_seven_eighths() {
    let mut merged = vec![];
    for right in [1, 10, 20, 30, 38, 40, 42] {
        let mut world = two_leaves(10, right);
        let all: usize = [0, 1].iter().map(|at| world.view(*at).used_bytes()).sum();
        let fits = Merge::plan(&world.view(0), &world.view(1), 0).expect("sound").is_some();
        assert_eq!(fits, world.merge(0));
        // The fences between them go, and the prefix is as short as theirs.
        assert!(!fits || all - 40 <= 4032 / 8 * 7);
        assert!(fits || all + 40 > 4032 / 8 * 7);
        world.compare_all(&[]);
        merged.push(fits);
    }
    assert!(merged.contains(&true) && merged.contains(&false));
}

#[test]
fn an_emptied_leaf_goes_though_the_other_one_is_full() {
    for empty in [0, 1] {
        let mut world = two_leaves(56, 54);
        let keys: Vec<_> = world.model.keys().cloned().collect();
        for key in &keys {
            if world.at(key) == empty {
                assert!(world.remove(key));
            }
        }
        assert!(world.merge(0));
        world.compare_all(&keys);
    }
}

#[test]
fn room_is_what_an_edit_finds() {
    let mut world = leaf(512);
    let mut seen = [false; 3];
    for i in 0..60u8 {
        let view = world.view(0);
        if world.nodes.len() > 1 {
            break;
        }
        let room = view.room_for(&[i; 4], ValueSize::Inline(20));
        seen[room as usize] = true;
        world.put(&[i; 4], &[0; 20]);
        if i % 4 == 3 {
            world.remove(&[i - 1; 4]);
        }
    }
    assert_eq!(seen, [true; 3], "{:?}", [Room::Fits, Room::AfterCompaction, Room::Full]);
}
