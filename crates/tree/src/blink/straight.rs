//! The way straight down, for trees of words: one attempt while nothing is in the way.
//!
//! ```text
//! at each node   ready and unlatched now; a node of the level that its parent says; key < high; rank of the key ≥ 1;
//!                the number of the child; the child's version; then the node's version is still the same
//! in the leaf    the value, and then the leaf's version is still the same
//! ```
//!
//! These are the steps of [`try_descend`](Blink::try_descend) without its other ways out: here none waits, moves to a
//! sibling, fetches a page, remembers a split, or says what is damaged. Anything odd ends the attempt, and the search
//! begins anew by the long way, which knows what to do. So nothing rests on this file but speed: between two misses of
//! the caches a search waits as long as it computes for a few hundred instructions, and the next search begins meanwhile if
//! this one has fewer.
//!
//! A write latches the leaf if it is still in the version that the search saw: as after the long way. No sibling link led to
//! it, so there is no split to complete.
//!
//! One validation a node is enough. The number of the child is right, and the version that was read of it is of its life
//! under that number, if the parent has not changed until then. A number that is wrong leads to another page of the
//! medium, or to none, and what is read there is forgotten.

use everleaf_pmem::{Medium, Page, PageNo, Result, Vectors, Version};
use everleaf_pool::Stop;
use everleaf_pool::kind::{self, KIND_WORD};

use crate::blink::descend::{Blink, FoundNode, Latched};
use crate::blink::write::{Condition, Wanted};
use crate::node::{HIGH_WORD, NodeReads, sibling};
use crate::slots::{Layout, Probe, Words};

/// The kind word of a leaf of words. A level more is `LEVEL_ONE` more.
const LEAF: u64 = kind::pack(kind::NODE, 0, 0, 0);
const LEVEL_ONE: u64 = kind::pack(kind::NODE, 1, 0, 0) - LEAF;

/// Keys that go down side by side. The misses of so many nodes are under way at once, as many as a processor keeps account of.
pub(super) const GROUP: usize = 16;

/// A node, as it was in that version.
#[derive(Clone, Copy)]
pub(super) struct SeenNode<'m> {
    page: Page<'m>,
    version: Version,
}

impl<M: Medium, L: Layout, P: Probe> Blink<M, (L, P, Words)> {
    /// The value of a key, if there is one; `None` if something was in the way.
    #[inline(always)]
    pub(super) fn get_straight(&self, key: u64) -> Option<Option<u64>> {
        let vectors = Vectors::of_processor();
        let leaf = self.leaf_straight(vectors, key)?;
        let value = value_in::<P>(leaf.page, vectors, key);
        leaf.page.latch().validate(leaf.version).then_some(value)
    }

    /// The root, and its kind word.
    #[inline(always)]
    fn root_straight(&self) -> Option<(SeenNode<'_>, u64)> {
        let root = self.root();
        let page = self.medium().page_if_any(root)?;
        let version = page.latch().read_version_now()?;
        let kind = page.head(KIND_WORD).load();
        (self.root() == root && is_node(kind)).then_some((SeenNode { page, version }, kind))
    }

    /// The values of at most [`GROUP`] keys, each as [`get_straight`](Self::get_straight) has it.
    pub(super) fn get_group(&self, keys: &[u64], values: &mut [Option<Option<u64>>; GROUP]) {
        let vectors = Vectors::of_processor();
        let leaves = self.leaves_straight(keys);
        for ((leaf, key), value) in leaves.iter().zip(keys).zip(values) {
            let Some(leaf) = leaf else { continue };
            let found = value_in::<P>(leaf.page, vectors, *key);
            *value = leaf.page.latch().validate(leaf.version).then_some(found);
        }
    }

    /// The leaves that cover at most [`GROUP`] keys, each as [`leaf_straight`](Self::leaf_straight) has it. All keys go down one
    /// level before one goes down two, and what the next level reads is asked for meanwhile.
    #[inline(always)]
    pub(super) fn leaves_straight(&self, keys: &[u64]) -> [Option<SeenNode<'_>>; GROUP] {
        let vectors = Vectors::of_processor();
        let mut at = [None; GROUP];
        let Some((root, mut kind)) = self.root_straight() else { return at };
        let mut next = [None; GROUP];
        // The greatest word is none of the keys that go down here.
        for (at, key) in at.iter_mut().zip(keys) {
            *at = (*key < u64::MAX).then_some(root);
        }
        while kind != LEAF {
            kind -= LEVEL_ONE;
            for ((next, at), key) in next.iter_mut().zip(&at).zip(keys) {
                *next = at.and_then(|at| self.child_ahead(vectors, at, *key));
            }
            for (at, next) in at.iter_mut().zip(next) {
                *at = at.zip(next).and_then(|(at, next)| arrived(at, next, kind));
            }
        }
        for (at, key) in at.iter_mut().zip(keys) {
            *at = at.filter(|at| covers(at.page, *key));
            if let Some(at) = at {
                P::prefetch_slots(at.page, vectors, *key);
            }
        }
        at
    }

    /// A leaf, latched, if it is still as it was seen.
    #[inline(always)]
    fn latch_straight<'m>(&'m self, leaf: SeenNode<'m>) -> Option<Latched<'m, (L, P, Words)>> {
        let SeenNode { page, version } = leaf;
        let node = <(L, P, Words) as NodeReads>::node(page)?;
        let held = page.latch().upgrade(version)?;
        Some((FoundNode { node, version, lag: None }, held))
    }

    /// Puts a pair into the leaf that covers its key, as [`put`](Self::put) does, and answers the old value; `None` if
    /// something was in the way, and nothing is stored then.
    #[inline(always)]
    pub(super) fn put_straight(
        &self,
        leaf: SeenNode<'_>,
        pair: (u64, u64),
        condition: Condition,
    ) -> Result<Option<Option<u64>>> {
        // A pair of words needs nothing that is prepared.
        let Some(leaf) = self.latch_straight(leaf) else { return Ok(None) };
        let mut old = Wanted::default();
        let pair = (&pair.0, &pair.1);
        match self.put_at(leaf, &mut old, pair, &(), condition) {
            Ok(written) => Ok(written.map(|_| old.value())),
            Err(Stop::Busy) => Ok(None),
            Err(Stop::Failed(error)) => Err(error),
        }
    }

    /// Removes a key from the leaf that covers it, as [`remove`](Self::remove) does, and answers its value; `None` if something
    /// was in the way, and nothing is removed then.
    #[inline(always)]
    pub(super) fn remove_straight(
        &self,
        leaf: SeenNode<'_>,
        key: u64,
    ) -> Result<Option<Option<u64>>> {
        let Some(leaf) = self.latch_straight(leaf) else { return Ok(None) };
        let mut old = Wanted::default();
        match self.remove_at(leaf, &mut old, &key) {
            Ok(removed) => Ok(removed.map(|removed| {
                self.tidy_after(&key, removed);
                old.value()
            })),
            Err(Stop::Busy) => Ok(None),
            Err(Stop::Failed(error)) => Err(error),
        }
    }

    /// The page of the child of an inner node that covers a key, whose lines are asked for.
    #[inline(always)]
    fn child_ahead<'m>(&'m self, vectors: Vectors, at: SeenNode<'m>, key: u64) -> Option<Page<'m>> {
        let child = child_in::<P>(at.page, vectors, key)?;
        let page = self.medium().page_if_any(child)?;
        <(L, P, Words) as NodeReads>::prefetch(page);
        Some(page)
    }

    /// The leaf that covers a key, if nothing is in the way.
    #[inline(always)]
    pub(super) fn leaf_straight(&self, vectors: Vectors, key: u64) -> Option<SeenNode<'_>> {
        if key == u64::MAX {
            return None;
        }
        let m = self.medium();
        let (SeenNode { mut page, mut version }, mut kind) = self.root_straight()?;
        while kind != LEAF {
            let child = child_in::<P>(page, vectors, key)?;
            let next = m.page_if_any(child)?;
            kind -= LEVEL_ONE;
            SeenNode { page, version } = arrived(SeenNode { page, version }, next, kind)?;
        }
        covers(page, key).then_some(SeenNode { page, version })
    }
}

/// A child as it is now, if it is a node of that kind, and its parent is still as it was.
#[inline(always)]
fn arrived<'m>(parent: SeenNode<'m>, page: Page<'m>, kind: u64) -> Option<SeenNode<'m>> {
    let version = page.latch().read_version_now()?;
    let is_it = page.head(KIND_WORD).load() == kind && parent.page.latch().validate(parent.version);
    is_it.then_some(SeenNode { page, version })
}

/// Whether a kind word is that of a node of words, of any level.
#[inline(always)]
fn is_node(kind: u64) -> bool {
    kind & !(0xff * LEVEL_ONE) == LEAF
}

/// Whether a key is below the upper bound of a node; the last one of its level has none.
#[inline(always)]
fn covers(page: Page<'_>, key: u64) -> bool {
    key < page.head(HIGH_WORD).load() || sibling(page).is_none()
}

/// The child of an inner node that covers a key.
#[inline(always)]
fn child_in<P: Probe>(page: Page<'_>, vectors: Vectors, key: u64) -> Option<PageNo> {
    if !covers(page, key) {
        return None;
    }
    let [child, _] = P::last_words(page, vectors, 1, key)?;
    Some(child.load() as PageNo)
}

/// The value of a key in a leaf, if it has one.
#[inline(always)]
fn value_in<P: Probe>(page: Page<'_>, vectors: Vectors, key: u64) -> Option<u64> {
    let [_, value] = P::find_words(page, vectors, 0, key)?;
    Some(value.load())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::Arc;

    use everleaf_pmem::{Dram, Geometry};

    use super::*;
    use crate::blink::Seek;
    use crate::node::{RUN_WORD, Run};
    use crate::slots::{Binary, Circular, Sentinel};
    use crate::{INDEX_ANCHOR, Index};

    type Tree<P> = Blink<Dram, (Circular, P, Words)>;

    const KEYS: u64 = 3000;

    /// The keys are multiples of ten.
    fn filled<P: Probe>(slots: u32) -> Tree<P> {
        let memory = Dram::new(Geometry::new(slots).expect("valid"), 4096).expect("memory");
        let pool = Arc::new(Tree::<P>::format_pool(memory).expect("formats"));
        let tree = Tree::<P>::create(pool, INDEX_ANCHOR).expect("space");
        for i in 0..KEYS {
            tree.insert(10 * i, i).expect("space");
        }
        tree
    }

    fn node<P: Probe>(tree: &Tree<P>, key: u64, level: u8) -> Page<'_> {
        let found = tree.descend(Seek::At(&key), level).expect("sound");
        found.expect("so high").node.page()
    }

    /// Both ways straight down agree, whatever the other keys are.
    fn straight<P: Probe>(tree: &Tree<P>, key: u64) -> Option<Option<u64>> {
        let one = tree.get_straight(key);
        let keys: [u64; 5] = [key, 0, key, 10 * KEYS, key];
        let mut values = [None; GROUP];
        tree.get_group(&keys, &mut values);
        assert_eq!([values[0], values[2], values[4]], [one; 3], "{key}");
        one
    }

    #[test]
    fn nothing_in_the_way_leads_to_the_value() {
        for slots in [4, 32, 256] {
            let tree = filled::<Sentinel>(slots);
            for key in 0..10 * KEYS + 20 {
                let want = (key % 10 == 0 && key < 10 * KEYS).then_some(key / 10);
                assert_eq!(straight(&tree, key), Some(want), "{key}");
                assert_eq!(Index::get(&tree, key).expect("sound"), want, "{key}");
            }
        }
    }

    #[test]
    fn a_node_that_is_latched_is_not_waited_for() {
        let tree = filled::<Sentinel>(32);
        for level in [0, 1] {
            let held = node(&tree, 5000, level).latch().lock();
            assert_eq!(straight(&tree, 5000), None);
            let other = 10 * KEYS - 10;
            assert_eq!(straight(&tree, other), Some(Some(KEYS - 1)), "another way");
            held.unlock_unchanged();
            assert_eq!(straight(&tree, 5000), Some(Some(500)));
        }
    }

    #[test]
    fn a_page_that_is_cold_or_absent_is_left_to_the_long_way() {
        let tree = filled::<Sentinel>(32);
        for level in [0, 1] {
            assert!(node(&tree, 5000, level).latch().cool());
            assert_eq!(straight(&tree, 5000), None);
            assert_eq!(Index::get(&tree, 5000).expect("sound"), Some(500));
            assert_eq!(straight(&tree, 5000), Some(Some(500)), "it is hot");
            node(&tree, 5000, level).latch().lock().set_absent();
            assert_eq!(straight(&tree, 5000), None);
            assert_eq!(Index::get(&tree, 5000).expect("sound"), Some(500));
            assert_eq!(straight(&tree, 5000), Some(Some(500)), "it was fetched");
        }
    }

    #[test]
    fn a_key_beyond_the_upper_bound_is_left_to_the_long_way() {
        for level in [0, 1] {
            let tree = filled::<Sentinel>(32);
            let page = node(&tree, 5000, level);
            let held = page.latch().lock();
            tree.medium().store(page.head(HIGH_WORD), 5000);
            drop(held);
            assert_eq!(straight(&tree, 5000), None);
            assert_eq!(straight(&tree, 4990), Some(Some(499)));
        }
    }

    #[test]
    fn what_is_no_node_of_its_level_is_left_to_the_long_way() {
        for level in [0, 1] {
            let tree = filled::<Sentinel>(32);
            let page = node(&tree, 5000, level);
            let held = page.latch().lock();
            tree.medium().store(page.head(KIND_WORD), LEAF + 7 * LEVEL_ONE);
            drop(held);
            assert_eq!(straight(&tree, 5000), None);
            assert!(Index::get(&tree, 5000).is_err(), "it is damage");
        }
        // A child's number leads out of the medium.
        let tree = filled::<Sentinel>(32);
        let page = node(&tree, 5000, 1);
        let held = page.latch().lock();
        for slot in 0..page.slots() {
            tree.medium().store(page.body(2 * slot), u64::from(PageNo::MAX) - slot as u64);
        }
        drop(held);
        assert_eq!(straight(&tree, 5000), None);
        assert!(Index::get(&tree, 5000).is_err(), "it is damage");
    }

    #[test]
    fn the_greatest_key_is_left_to_the_long_way() {
        let tree = filled::<Sentinel>(32);
        assert_eq!(straight(&tree, u64::MAX), None);
        tree.insert(u64::MAX, 7).expect("space");
        assert_eq!(Index::get(&tree, u64::MAX).expect("sound"), Some(7));
    }

    /// A search during which somebody writes to the node: as [`Binary`], if nobody does.
    struct Meddling;

    thread_local!(static WRITES_AT: Cell<Option<usize>> = const { Cell::new(None) });

    impl Probe for Meddling {
        const STRIDE: usize = 0;
        fn rank(page: Page<'_>, run: Run, key_word: usize, head: u64) -> usize {
            let rank = Binary::rank(page, run, key_word, head);
            if WRITES_AT.get() == Some(key_word) {
                WRITES_AT.set(None);
                drop(page.latch().lock());
            }
            rank
        }
    }

    #[test]
    fn a_node_that_was_changed_meanwhile_is_read_anew() {
        let tree = filled::<Meddling>(32);
        for in_leaf in [true, false] {
            let key_word = usize::from(!in_leaf);
            WRITES_AT.set(Some(key_word));
            assert_eq!(tree.get_straight(5000), None);
            WRITES_AT.set(Some(key_word));
            assert_eq!(Index::get(&tree, 5000).expect("sound"), Some(500));
            WRITES_AT.set(Some(key_word));
            let mut values = [None; GROUP];
            tree.get_group(&[5000, 20_000], &mut values);
            assert_eq!(values[..2], [None, if in_leaf { Some(Some(2000)) } else { None }]);
            WRITES_AT.set(Some(key_word));
            let mut values = Vec::new();
            tree.get_many(&[5000, 20_000, 5], &mut values).expect("sound");
            assert_eq!(values, [Some(500), Some(2000), None]);
            assert_eq!(straight(&tree, 5000), Some(Some(500)));
        }
    }

    #[test]
    fn many_values_come_in_the_order_of_their_keys() {
        let tree = filled::<Sentinel>(32);
        for n in [0, 1, 15, 16, 17, 100] {
            let keys: Vec<u64> = (0..n).map(|i| i * 7919 % (10 * KEYS) / 5 * 5).collect();
            let mut values = vec![Some(1)];
            tree.get_many(&keys, &mut values).expect("sound");
            let want = keys.iter().map(|key| Index::get(&tree, *key).expect("sound"));
            assert_eq!(values, [Some(1)].into_iter().chain(want).collect::<Vec<_>>());
        }
    }

    /// All writes of a key beside something that is put in the way before each, and in whose way it still is then.
    fn all_writes(tree: &Tree<Sentinel>, key: u64, old: u64, in_the_way: impl Fn()) {
        let lies_there = || {
            in_the_way();
            assert_eq!(straight(tree, key), None);
        };
        lies_there();
        assert_eq!(tree.insert(key, 1).expect("space"), Some(old));
        lies_there();
        assert_eq!(tree.update(key, 2).expect("space"), Some(1));
        lies_there();
        assert_eq!(tree.add(key, 3).expect("space"), Some(2));
        lies_there();
        let mut old = Vec::new();
        tree.put_many(&[(key, 4), (key + 1, 5), (key, 6)], &mut old).expect("space");
        assert_eq!(old, [Some(2), None, Some(4)]);
        lies_there();
        assert_eq!(Index::remove(tree, key).expect("sound"), Some(6));
        lies_there();
        let mut old = Vec::new();
        tree.remove_many(&[key + 1, key, key + 1], &mut old).expect("sound");
        assert_eq!(old, [Some(5), None, None]);
        assert_eq!(straight(tree, key), Some(None), "nothing is in the way");
    }

    #[test]
    fn writes_go_the_long_way_where_a_page_is_cold_or_absent() {
        for level in [0, 1] {
            let tree = filled::<Sentinel>(32);
            all_writes(&tree, 5000, 500, || assert!(node(&tree, 5000, level).latch().cool()));
            let tree = filled::<Sentinel>(32);
            all_writes(&tree, 5000, 500, || node(&tree, 5000, level).latch().lock().set_absent());
        }
    }

    /// As after a crash between the two steps of a split: a search comes to the last leaf by its sibling only.
    #[test]
    fn writes_complete_the_split_that_is_in_their_way() {
        let tree = filled::<Sentinel>(32);
        let last = 10 * KEYS - 10;
        let parent = node(&tree, last, 1);
        all_writes(&tree, last, KEYS - 1, || {
            let run = Run::of(parent);
            let held = parent.latch().lock();
            let shorter = Run { count: run.count - 1, ..run };
            tree.medium().store(parent.head(RUN_WORD), shorter.word());
            drop(held);
        });
    }

    /// A leaf that has changed since a search saw it is not written to, and nor is one that somebody has latched.
    #[test]
    fn a_leaf_that_has_changed_since_is_not_written_to() {
        let tree = filled::<Sentinel>(32);
        let leaf =
            tree.leaf_straight(Vectors::of_processor(), 5000).expect("nothing is in the way");
        let held = leaf.page.latch().lock();
        let put = || tree.put_straight(leaf, (5000, 1), Condition::Always).expect("space");
        assert_eq!(put(), None);
        assert_eq!(tree.remove_straight(leaf, 5000).expect("sound"), None);
        held.unlock_unchanged();
        assert_eq!(put(), Some(Some(500)));
        assert_eq!(put(), None, "this very write has changed it");
        assert_eq!(tree.remove_straight(leaf, 5000).expect("sound"), None);
        assert_eq!(straight(&tree, 5000), Some(Some(1)));
    }

    /// In a full leaf there is no place for another key: it is split, the long way.
    #[test]
    fn a_leaf_that_is_full_is_split() {
        let tree = filled::<Sentinel>(32);
        let batch: Vec<(u64, u64)> = (0..10 * KEYS).step_by(3).map(|key| (key, !key)).collect();
        let mut old = Vec::new();
        tree.put_many(&batch, &mut old).expect("space");
        for ((key, value), old) in batch.into_iter().zip(old) {
            assert_eq!(old, (key % 10 == 0).then_some(key / 10));
            assert_eq!(straight(&tree, key), Some(Some(value)));
        }
    }
}
