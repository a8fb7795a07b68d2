//! Readers whom writers disturb each time that they look at a leaf come back all the same, after a
//! bounded number of attempts.

use std::cell::Cell;
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::Arc;

use everleaf_pmem::{Counted, Dram, Geometry, Page};
use everleaf_tree::INDEX_ANCHOR;
use everleaf_tree::blink::{Blink, Condition, Cursor};
use everleaf_tree::node::{Run, Shape};
use everleaf_tree::slots::{Circular, Probe, Sentinel};
use everleaf_tree::slots::{Keys, Strings, Words};

thread_local! {
    /// How often a leaf was changed while this thread looked at it; none: it is left alone.
    static DISTURBED: Cell<Option<u32>> = const { Cell::new(None) };
}

/// Searches as [`Sentinel`], and somebody changes each leaf in the middle of it, unless it is latched.
struct Disturbed;

impl Probe for Disturbed {
    const STRIDE: usize = Sentinel::STRIDE;
    const AID_BYTES: usize = Sentinel::AID_BYTES;
    fn rank(page: Page<'_>, run: Run, key_word: usize, head: u64) -> usize {
        let is_leaf = Shape::of(page).is_some_and(|shape| shape.level == 0);
        if let (true, Some(times)) = (is_leaf, DISTURBED.get())
            && let Some(writer) = page.latch().try_lock()
        {
            drop(writer);
            DISTURBED.set(Some(times + 1));
        }
        Sentinel::rank(page, run, key_word, head)
    }
    fn stored(page: Page<'_>, p: usize, head: u64) {
        Sentinel::stored(page, p, head);
    }
    fn cleared(page: Page<'_>, p: usize) {
        Sentinel::cleared(page, p);
    }
    fn rebuild(page: Page<'_>, run: Run, key_word: usize) {
        Sentinel::rebuild(page, run, key_word);
    }
}

/// Runs a read, and says what came out and how often it was disturbed.
fn disturbed<T>(read: impl FnOnce() -> T) -> (T, u32) {
    DISTURBED.set(Some(0));
    let answer = read();
    (answer, DISTURBED.take().expect("set"))
}

type Tree<K> = Blink<Counted<Dram>, (Circular, Disturbed, K)>;

fn new<K: Keys>() -> Tree<K> {
    let dram = Dram::new(Geometry::new(16).expect("valid"), 1 << 12).expect("memory");
    let pool = Tree::<K>::format_pool(Counted::new(dram)).expect("memory");
    Blink::create(Arc::new(pool), INDEX_ANCHOR).expect("memory")
}

/// B2: more than the attempts that are allowed, and one more for the search of the second bound.
const MOST: u32 = 20;

#[test]
fn a_reader_latches_a_leaf_that_is_never_left_alone() {
    let tree = new::<Words>();
    for key in 0..1000_u64 {
        tree.put(&key, &(key * key), Condition::Always).expect("memory");
    }
    for key in [0, 1, 500, 999, 5000] {
        let expected = (key < 1000).then_some(key * key);
        let (found, times) = disturbed(|| tree.get(&key).expect("memory"));
        assert!(found == expected && (1..MOST).contains(&times), "{key}: {found:?}, {times}");
        let (found, times) = disturbed(|| tree.contains(&key).expect("memory"));
        assert!(found == expected.is_some() && (1..MOST).contains(&times), "{key}: {times}");
        let (found, times) = disturbed(|| tree.floor(&key).expect("memory"));
        assert_eq!(found, Some((key.min(999), key.min(999) * key.min(999))));
        assert!((1..MOST).contains(&times), "{key}: {times}");
    }
    for from in [Included(&500), Excluded(&500), Included(&0), Included(&999)] {
        let (up, times) = disturbed(|| tree.chunk_up(from, 4).expect("memory").entries);
        assert!((1..MOST).contains(&times), "{from:?}: {times}");
        assert_eq!(up, tree.chunk_up(from, 4).expect("memory").entries);
        let (down, times) = disturbed(|| tree.chunk_down(from, 4).expect("memory").entries);
        assert!((1..MOST).contains(&times), "{from:?}: {times}");
        assert_eq!(down, tree.chunk_down(from, 4).expect("memory").entries);
    }
}

#[test]
fn the_same_with_byte_strings() {
    let tree = new::<Strings>();
    let key = |i: u32| format!("{i:06}").into_bytes();
    for i in 0..1000 {
        tree.set(&key(i), &key(i + 1), Condition::Always).expect("memory");
    }
    for i in [0, 1, 500, 999] {
        let (found, times) = disturbed(|| tree.get(&key(i)).expect("memory"));
        assert!(found == Some(key(i + 1)) && (1..MOST).contains(&times), "{i}: {times}");
        let mut cursor = Cursor::default();
        let (_, times) = disturbed(|| tree.cursor_seek(&mut cursor, &key(i)).expect("memory"));
        assert!(cursor.key() == Some(&key(i)[..]) && (1..MOST).contains(&times), "{i}: {times}");
        assert_eq!(cursor.value(), Some(&key(i + 1)[..]));
        tree.set(&key(i), &key(i + 1), Condition::Always).expect("memory");
        let (_, times) = disturbed(|| tree.cursor_prev(&mut cursor).expect("memory"));
        let before = i.checked_sub(1).map(key);
        assert!(cursor.key() == before.as_deref() && (1..MOST).contains(&times), "{i}: {times}");
        tree.set(&key(i), &key(i + 1), Condition::Always).expect("memory");
        let (_, times) = disturbed(|| tree.cursor_next(&mut cursor).expect("memory"));
        assert!(cursor.key() == Some(&key(i)[..]) && (1..MOST).contains(&times), "{i}: {times}");
        let from = (Included(&key(i)[..]), Unbounded);
        let (up, times) = disturbed(|| tree.chunk(from, true, 5).expect("memory").entries);
        assert!((1..MOST).contains(&times), "{i}: {times}");
        assert_eq!(up[0], (key(i), key(i + 1)));
    }
}
