//! Readers beside evening out, which moves keys to the left, as else only merges do: a key that stays is
//! found, whatever happens between the pages that a reader asks for.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::ops::Bound::{Included, Unbounded};
use std::rc::Rc;
use std::sync::Arc;

use everleaf_file::io::SimIo;
use everleaf_pmem::{Medium, PageNo};
use everleaf_testing::{Rng, seed_or, times};
use everleaf_tree::blink::{Condition, Cursor, Stepped};

use super::watched::{Tree, Watched, kill, open, tidy, with_each_page};

/// Keys that stay; others come and go between them.
const STAY: u64 = 40;
/// Tags of notes: the first entries of a node have gone, and have come to the end of another one.
const TRIM_FRONT: usize = 13;
const ADD_BACK: usize = 14;

/// About a fourth of a leaf with its value.
fn key(i: u64, between: u64) -> Vec<u8> {
    format!("key/{i:04}/{between:02}/{:.>30}", "").into_bytes()
}

fn value(rng: &mut Rng) -> Vec<u8> {
    vec![7; [0, 20, 50, 60][rng.below(4) as usize]]
}

fn put(tree: &Tree, key: &[u8], value: &[u8]) {
    tree.set(key, value, Condition::Always).expect("room");
}

/// The changes of a writer near a key that stays: leaves there even out and are split, and if pairs may go,
/// they merge.
fn burst(tree: &Tree, rng: &mut Rng, i: u64, may_remove: bool) {
    for _ in 0..1 + rng.below(6) {
        let near = (i + rng.below(5)).saturating_sub(2).min(STAY - 1);
        let passing = key(near, 1 + rng.below(9));
        match rng.below(6) {
            0 | 1 if may_remove => drop(tree.delete(&passing).expect("memory")),
            // Of another length.
            2 => put(tree, &key(near, 0), &value(rng)),
            _ => put(tree, &passing, &value(rng)),
        }
    }
}

/// Removes pairs that have come until few are left.
fn sweep(tree: &Tree, rng: &mut Rng) {
    for i in 0..STAY {
        for between in (1..10).filter(|_| rng.below(10) > 0) {
            tree.delete(&key(i, between)).expect("memory");
        }
    }
}

/// Each way to read one key that stays.
fn finds(tree: &Tree, way: u64, i: u64) -> bool {
    let stays = key(i, 0);
    let stays = &stays[..];
    match way {
        0 => tree.get(stays).expect("sound").is_some(),
        1 => tree.contains(stays).expect("sound"),
        2 => tree.floor(stays).expect("sound").is_some_and(|pair| pair.0 == stays),
        3 => {
            // A leaf may have nothing from there on.
            let mut chunk = tree.chunk_up(Included(stays), 1).expect("sound");
            while let (true, Some(next)) = (chunk.entries.is_empty(), chunk.next) {
                let next = next.as_ref().map(Vec::as_slice);
                chunk = tree.chunk_up(next, 1).expect("sound");
            }
            chunk.entries.first().is_some_and(|pair| pair.0 == stays)
        }
        4 => {
            let mut chunk = tree.chunk_down(Included(stays), 1).expect("sound");
            while let (true, Some(next)) = (chunk.entries.is_empty(), chunk.next) {
                let next = next.as_ref().map(Vec::as_slice);
                chunk = tree.chunk_down(next, 1).expect("sound");
            }
            chunk.entries.first().is_some_and(|pair| pair.0 == stays)
        }
        _ => {
            let first = tree.chunk((Unbounded, Unbounded), true, 1).expect("sound");
            first.entries.first().is_some_and(|pair| pair.0 == key(0, 0))
        }
    }
}

/// Lets a writer change what the reader met last, so that it has to start again.
fn disturb(m: &Watched, last: PageNo) {
    if let Some(held) = m.file().page(last).expect("it was met").latch().try_lock() {
        drop(held);
    }
}

/// Reads with a burst before one page that the reader asks for. If it is starved, it has to start again
/// each time until then, and latches its way at last.
fn read_beside_a_burst(tree: &Arc<Tree>, rng: &mut Rng, starved: bool) {
    let (i, way) = (rng.below(STAY), rng.below(6));
    let at = rng.below(if starved { 36 } else { 4 });
    let (mut asked, mut last) = (0, None::<PageNo>);
    let (writer, mut own) = (Arc::clone(tree), Rng(rng.next()));
    let act = move |m: &Watched, no: PageNo| {
        if let Some(last) = last.filter(|_| starved && asked <= at) {
            disturb(m, last);
        }
        // A reader that holds a leaf only prefetches: a writer there would wait for it.
        let holds = last.is_some_and(|last| m.file().page(last).expect("met").latch().is_locked());
        if asked == at && !holds {
            // A starved reader has stopped merges.
            burst(&writer, &mut own, i, !starved);
        }
        (asked, last) = (asked + 1, Some(no));
    };
    let found = with_each_page(Box::new(act), || finds(tree, way, i));
    assert!(found, "key {i} stays; way {way}, page {at}, starved: {starved}");
}

#[test]
fn a_key_that_stays_is_found_whatever_comes_between_two_pages() {
    let seed = seed_or(1);
    println!("EVERLEAF_SEED={seed}");
    let mut rng = Rng(seed);
    let io = SimIo::new(1);
    let tree = Arc::new(open(&io, 512));
    (0..STAY).for_each(|i| put(&tree, &key(i, 0), &value(&mut rng)));
    let rounds = times(30_000);
    for round in 0..rounds {
        read_beside_a_burst(&tree, &mut rng, round % 2 == 0);
        if round % 25 == 0 {
            sweep(&tree, &mut rng);
        }
        if round % 400 == 0 {
            tidy(&tree);
            let report = tree.check().expect("readable");
            assert!(report.damages.is_empty(), "{:?}", report.damages);
        }
    }
    let notes = tree.pool().medium().notes();
    assert!(notes[TRIM_FRONT].min(notes[ADD_BACK]) > rounds / 50, "{notes:?}");
}

/// B2, for slotted nodes: a bounded number of attempts.
#[test]
fn a_reader_whose_way_is_never_left_alone_comes_back() {
    /// The pages of eight attempts, and of one more that goes on in a neighbour; twice for a second leaf.
    const MOST: u64 = 100;
    let io = SimIo::new(2);
    let tree = Arc::new(open(&io, 512));
    let mut rng = Rng(2);
    (0..STAY).for_each(|i| put(&tree, &key(i, 0), &value(&mut rng)));
    for i in 0..STAY {
        for way in 0..6 {
            let asked = Rc::new(Cell::new(0));
            let (counted, mut last) = (Rc::clone(&asked), None);
            let act = move |m: &Watched, no: PageNo| {
                if let Some(last) = last {
                    disturb(m, last);
                }
                counted.set(counted.get() + 1);
                last = Some(no);
            };
            assert!(with_each_page(Box::new(act), || finds(&tree, way, i)), "key {i}, way {way}");
            assert!((16..MOST).contains(&asked.get()), "key {i}, way {way}: {}", asked.get());
        }
    }
}

/// A reader that is kept from a leaf goes down by latches, and begins again where a node lies to the right of what it
/// seeks: in a damaged tree it does so each time.
#[test]
fn a_reader_that_is_disturbed_in_a_damaged_tree_comes_to_an_end() {
    const LOW_FENCE_WORD: usize = 2;
    let tree = open(&SimIo::new(5), 512);
    for i in 0..STAY {
        put(&tree, &key(i, 0), &[7; 20]);
    }
    let wanted = key(STAY / 2, 0);
    let way = Rc::new(std::cell::RefCell::new(Vec::new()));
    let note = Rc::clone(&way);
    let found =
        with_each_page(Box::new(move |_, no| note.borrow_mut().push(no)), || tree.get(&wanted[..]));
    assert!(found.expect("sound").is_some());
    let way = way.take();
    let medium = tree.pool().medium();
    {
        // The low fence of the leaf becomes greater than all keys.
        let leaf = medium.page(*way.last().expect("a leaf")).expect("there");
        let _held = leaf.latch().lock();
        let _op = medium.enter().expect("open");
        let fence = leaf.head(LOW_FENCE_WORD).load();
        let at = (fence & 0xffff) as usize - 64;
        assert!((1..0xffff).contains(&(fence >> 16 & 0xffff)), "it is not the first leaf");
        let (word, shift) = (leaf.body_word(at / 8), at % 8 * 8);
        let bytes = word.load();
        assert_eq!(bytes >> shift & 0xff, u64::from(b'k'), "a key");
        medium.store(leaf.body_word(at / 8), bytes ^ u64::from(b'k' ^ b'z') << shift);
    }
    // All nodes on the way change whenever a page is asked for.
    let disturb = move |medium: &Watched, _| {
        for no in &way {
            let page = medium.file().page(*no).expect("there");
            drop(page.latch().try_lock());
        }
    };
    let found = with_each_page(Box::new(disturb), || tree.get(&wanted[..]));
    let error = found.expect_err("its leaf lies to the right of it");
    assert!(matches!(error, everleaf_pmem::Error::Corrupt { .. }), "{error}");
}

/// A reader that comes to a record which was freed on the way finds the key that was there. It must not leave it in
/// memory for the next record in that place.
#[test]
fn what_a_late_reader_finds_in_a_freed_record_is_nobodys_pair() {
    let [old, beside, new] = [b'b', b'a', b'c'].map(|last| [&[b'k'; 2000][..], &[last]].concat());
    // So long that its writer does not keep it in memory.
    let long = vec![2; (4 << 20) + 1];
    let mut late = 0;
    for at in 0.. {
        let io = SimIo::new(1);
        let tree = open(&io, 4096);
        put(&tree, &old, &[1; 9000]);
        // The page of their records stays one of records.
        put(&tree, &beside, &[1; 9000]);
        // Now the disk alone has the keys.
        let tree = Arc::new(open(&kill(tree, &io), 4096));
        let (writer, gone, asked) = (Arc::clone(&tree), old.clone(), Rc::new(Cell::new(0)));
        let counted = Rc::clone(&asked);
        let act = move |_: &Watched, _| {
            if counted.replace(counted.get() + 1) == at {
                assert!(writer.delete(&gone).expect("memory").epoch.is_some());
            }
        };
        let found = with_each_page(Box::new(act), || tree.contains(&old)).expect("sound");
        if asked.get() <= at {
            assert!(found, "nobody has removed it");
            break;
        }
        late += u64::from(!found);
        put(&tree, &new, &long);
        let found = tree.get(&new[..]).expect("sound");
        let found = found.as_ref().map(|value| (value.len(), value[0]));
        assert_eq!(found, Some((long.len(), 2)), "removed before page {at} that was asked for");
    }
    assert!(late > 2, "{late} readers have met the removal on their way");
}

/// A value is far from its leaf, so a scan waits for the memory of each unless the processor was asked before.
#[test]
fn a_cursor_asks_for_values_ahead_in_its_direction() {
    let tree = open(&SimIo::new(1), 4096);
    for i in 0..60_u64 {
        put(&tree, &i.to_be_bytes(), &[i as u8; 1000]);
    }
    let medium = tree.pool().medium();
    let mut cursor = Cursor::default();
    let walk = |cursor: &mut Cursor, up: bool, steps: usize| {
        for _ in 0..steps {
            let step = if up { tree.cursor_next(cursor) } else { tree.cursor_prev(cursor) };
            assert!(matches!(step, Ok(Stepped::Pair)));
            assert!(tree.cursor_value(cursor).expect("in memory"));
        }
        let mut ahead = medium.take_ahead();
        ahead.retain(|record| *record != 0);
        ahead
    };
    assert!(matches!(tree.cursor_first(&mut cursor), Ok(Stepped::Pair)));
    let up = walk(&mut cursor, true, 57);
    // All but the first ones: the first step copies the leaf, the second one has a direction.
    let all = BTreeSet::from_iter(&up);
    assert!((50..60).contains(&up.len()) && all.len() == up.len(), "{} of {}", all.len(), up.len());
    let down = walk(&mut cursor, false, 57);
    let common = down.iter().filter(|record| all.contains(record)).count();
    assert!(common >= 46 && down.len() < 60, "{common} of {}", down.len());
    // A cursor that looks at keys alone, or here and there, asks for nothing.
    for _ in 0..20 {
        assert!(matches!(tree.cursor_next(&mut cursor), Ok(Stepped::Pair)));
    }
    assert_eq!(medium.take_ahead(), []);
    for i in [7_u64, 50, 12, 30] {
        assert!(matches!(tree.cursor_seek(&mut cursor, &i.to_be_bytes()), Ok(Stepped::Pair)));
        assert!(tree.cursor_value(&mut cursor).expect("in memory"));
    }
    assert_eq!(medium.take_ahead(), []);
}
