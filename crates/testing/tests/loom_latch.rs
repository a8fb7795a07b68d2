//! The latch under loom: the code of `latch.rs` itself, with loom's atomics in place of the
//! processor's, in every order of two threads and with every value that loom's memory model lets a
//! load return. Nothing is bounded: all of it takes about a second.

#[path = "../../pmem/src/latch.rs"]
#[allow(dead_code, reason = "not every operation is modelled")]
mod latch;

/// Knows which thread holds which latch: as `rules.rs` of everleaf-pmem does, for loom's threads.
mod rules {
    use std::cell::RefCell;

    loom::thread_local! {
        static LATCHES: RefCell<Vec<usize>> = RefCell::new(Vec::new());
    }
    pub(crate) fn latched(latch: usize) {
        LATCHES.with(|held| held.borrow_mut().push(latch));
    }
    pub(crate) fn unlatched(latch: usize) {
        LATCHES.with(|held| held.borrow_mut().retain(|&one| one != latch));
    }
    pub(crate) fn waits_for_itself(latch: usize) -> bool {
        holds_latch(latch)
    }
    pub(crate) fn holds_latch(latch: usize) -> bool {
        LATCHES.with(|held| held.borrow().contains(&latch))
    }
}

/// Loom's primitives, of which the latch is made here.
mod sync {
    pub(crate) use loom::hint::spin_loop;
    pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};
    pub(crate) use loom::thread::yield_now;

    /// Loom switches at each access by itself.
    pub(crate) fn before_read() {}
    pub(crate) fn before_write() {}

    /// Runs a test in every order.
    pub(crate) fn model(test: impl Fn() + Send + Sync + 'static) {
        loom::model(test);
    }
}

use latch::{Latch, Seen, Version};
use loom::sync::Arc;
use loom::thread;
use sync::{AtomicU64, Ordering, model};

/// A page: its latch, and words that are stored with Release and loaded with Acquire.
struct Page<const N: usize> {
    latch: AtomicU64,
    words: [AtomicU64; N],
}

impl<const N: usize> Page<N> {
    fn new(words: [u64; N]) -> Self {
        Self { latch: AtomicU64::new(0), words: words.map(AtomicU64::new) }
    }
    /// A page that readers may use.
    fn ready(words: [u64; N]) -> Self {
        let page = Self::new(words);
        page.latch().lock().set_ready();
        page
    }
    fn latch(&self) -> &Latch {
        Latch::of(&self.latch)
    }
    fn load(&self, i: usize) -> u64 {
        self.words[i].load(Ordering::Acquire)
    }
    fn store(&self, i: usize, value: u64) {
        self.words[i].store(value, Ordering::Release);
    }
    fn read(&self) -> [u64; N] {
        std::array::from_fn(|i| self.load(i))
    }
    /// One attempt of a reader that waits for writers.
    fn try_read(&self) -> Option<[u64; N]> {
        let Seen::Ready(version) = self.latch().read_version() else { return None };
        let words = self.read();
        self.latch().validate(version).then_some(words)
    }
}

#[test]
fn one_writer_at_a_time() {
    model(|| {
        let page = Arc::new(Page::ready([0]));
        let add = |page: Arc<Page<1>>| {
            move || {
                let _held = page.latch().lock();
                page.store(0, page.load(0) + 1);
            }
        };
        let other = thread::spawn(add(Arc::clone(&page)));
        add(Arc::clone(&page))();
        other.join().expect("no panic");
        assert_eq!(page.load(0), 2);
    });
}

#[test]
fn an_upgrade_succeeds_only_if_nothing_changed() {
    model(|| {
        let page = Arc::new(Page::ready([0]));
        // Each adds to what it has read, without a latch, if it gets the latch with that version.
        let add = |page: Arc<Page<1>>| {
            move || {
                let Seen::Ready(version) = page.latch().read_version() else {
                    unreachable!("made ready")
                };
                let old = page.load(0);
                let held = page.latch().upgrade(version);
                held.is_some_and(|held| {
                    page.store(0, old + 1);
                    drop(held);
                    true
                })
            }
        };
        let other = thread::spawn(add(Arc::clone(&page)));
        let mine = add(Arc::clone(&page))();
        let theirs = other.join().expect("no panic");
        assert_eq!(page.load(0), u64::from(mine) + u64::from(theirs));
        assert!(mine || theirs);
    });
}

#[test]
fn no_validated_reader_has_a_torn_pair() {
    model(|| {
        let page = Arc::new(Page::ready([0, 0]));
        let writer = Arc::clone(&page);
        let writes = thread::spawn(move || {
            for value in 1..=2 {
                let _held = writer.latch().lock();
                writer.store(0, value);
                writer.store(1, value);
            }
        });
        if let Some([a, b]) = page.try_read() {
            assert_eq!(a, b);
        }
        writes.join().expect("no panic");
    });
}

/// The checker has teeth: the same reader without its second look is caught.
#[test]
#[should_panic(expected = "a torn pair")]
fn a_reader_that_does_not_validate_is_caught() {
    model(|| {
        let page = Arc::new(Page::ready([0, 0]));
        let writer = Arc::clone(&page);
        let writes = thread::spawn(move || {
            let _held = writer.latch().lock();
            writer.store(0, 1);
            writer.store(1, 1);
        });
        let Seen::Ready(_) = page.latch().read_version() else { unreachable!("made ready") };
        let [a, b] = page.read();
        assert_eq!(a, b, "a torn pair");
        writes.join().expect("no panic");
    });
}

#[test]
fn readers_of_unchanged_pages_need_not_start_again() {
    model(|| {
        let page = Arc::new(Page::ready([7]));
        let writer = Arc::clone(&page);
        let Seen::Ready(version) = page.latch().read_version() else { unreachable!("made ready") };
        let looks = thread::spawn(move || writer.latch().lock().unlock_unchanged());
        assert_eq!(page.load(0), 7);
        let held_now = !page.latch().validate(version);
        looks.join().expect("no panic");
        assert!(page.latch().validate(version), "held while it was read: {held_now}");
    });
}

#[test]
fn a_page_is_ready_after_its_contents_are_there() {
    model(|| {
        let page = Arc::new(Page::new([0, 0]));
        let maker = Arc::clone(&page);
        let makes = thread::spawn(move || {
            let mut held = maker.latch().lock();
            if !held.is_ready() {
                maker.store(0, 5);
                maker.store(1, 6);
                held.set_ready();
            }
        });
        if let Seen::Ready(version) = page.latch().read_version_racing() {
            assert_eq!(page.read(), [5, 6]);
            assert!(page.latch().validate(version), "nobody changes it again");
        }
        assert!(!page.latch().is_ready() || page.read() == [5, 6]);
        makes.join().expect("no panic");
        assert!(page.latch().is_ready());
    });
}

/// A node of three slots with one free: a writer moves a slot to the right, then turns and moves
/// one to the left. A key is in two slots meanwhile; a reader who goes the way that the slots move
/// meets it in one of them.
struct Shifting(Page<4>);

impl Shifting {
    fn shift_both_ways(&self) {
        let held = self.0.latch().lock();
        self.0.store(3, 20); // [0 10 20 _] → [0 10 20 20]
        self.0.store(2, 10); // [0 10 10 20]
        self.0.latch().turn_leftward();
        self.0.store(0, 10); // [10 10 10 20]
        self.0.store(1, 10);
        self.0.store(2, 20); // [10 10 20 20]
        drop(held);
    }
    /// A reader that does not wait finds out the writer's direction, and reads the slots from left to
    /// right, or from right to left.
    fn glance(&self) -> Option<(Version, [u64; 4])> {
        let Seen::Ready(version) = self.0.latch().read_version_racing() else { return None };
        let mut slots = [0; 4];
        let mut read = |i: usize| slots[i] = self.0.load(i);
        if version.is_racing() && version.is_leftward() {
            (0..4).rev().for_each(&mut read);
        } else {
            (0..4).for_each(&mut read);
        }
        self.0.latch().validate(version).then_some((version, slots))
    }
}

#[test]
fn a_validated_glance_saw_one_direction() {
    model(|| {
        let node = Arc::new(Shifting(Page::ready([0, 10, 20, 0])));
        let writer = Arc::clone(&node);
        let shifts = thread::spawn(move || writer.shift_both_ways());
        if let Some((version, slots)) = node.glance() {
            let [before, rightward, after] = [
                slots == [0, 10, 20, 0],
                // Slot 0 has not been touched: that is the other direction's doing.
                slots[..2] == [0, 10] && slots[2..].contains(&20),
                slots == [10, 10, 20, 20],
            ];
            match (version.is_racing(), version.is_leftward()) {
                (false, false) => assert!(before || after, "{slots:?}"),
                (true, false) => assert!(rightward, "{slots:?}"),
                // All that the first direction did is there, and each key is in a slot.
                (true, true) => {
                    assert!(slots[3] == 20 && slots[1..].contains(&10), "{slots:?}");
                }
                (false, true) => panic!("a direction without a writer"),
            }
        }
        shifts.join().expect("no panic");
        let Seen::Ready(version) = node.0.latch().read_version_racing() else {
            unreachable!("made ready")
        };
        assert!(
            !version.is_racing() && !version.is_leftward(),
            "the direction ends with the latch"
        );
    });
}

/// A parent that names the page of its child, and two pages.
struct Tree {
    parent: Page<1>,
    pages: [Page<1>; 2],
}

/// The content of the child, in whichever page it is.
const CHILD: u64 = 100;
/// The content of another node, in the page that the child has left.
const OTHER: u64 = 999;

impl Tree {
    fn new() -> Self {
        Self { parent: Page::ready([0]), pages: [Page::ready([CHILD]), Page::new([0])] }
    }

    /// Moves the child to the other page, frees its page and uses it again for another node.
    fn replace(&self) {
        let [old, new] = &self.pages;
        let old_held = old.latch().lock();
        let parent_held = self.parent.latch().lock();
        let mut new_held = new.latch().lock();
        new.store(0, CHILD);
        new_held.set_ready();
        drop(new_held);
        self.parent.store(0, 1);
        drop((parent_held, old_held));
        let _held = old.latch().lock();
        old.store(0, OTHER);
    }

    /// One descent from the parent to the child. `validates`: the parent is looked at again once
    /// the child's version is known.
    fn descend(&self, validates: bool) -> Option<u64> {
        let Seen::Ready(version) = self.parent.latch().read_version() else { return None };
        let child = &self.pages[self.parent.load(0) as usize];
        if !self.parent.latch().validate(version) {
            return None;
        }
        let Seen::Ready(child_version) = child.latch().read_version() else { return None };
        if validates && !self.parent.latch().validate(version) {
            return None;
        }
        let found = child.load(0);
        child.latch().validate(child_version).then_some(found)
    }
}

fn descend_while_replaced(validates: bool) {
    let tree = Arc::new(Tree::new());
    let writer = Arc::clone(&tree);
    let replaces = thread::spawn(move || writer.replace());
    if let Some(found) = tree.descend(validates) {
        assert_eq!(found, CHILD, "a page in its new life");
    }
    replaces.join().expect("no panic");
}

#[test]
fn a_page_used_again_is_never_taken_for_the_old_one() {
    model(|| descend_while_replaced(true));
}

#[test]
#[should_panic(expected = "a page in its new life")]
fn a_descent_that_validates_the_parent_once_only_is_caught() {
    model(|| descend_while_replaced(false));
}
