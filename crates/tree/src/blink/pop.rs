//! Takes the smallest pair out of a tree, or the greatest one.
//!
//! The leaf at the end of the tree is latched, and its last pair there is removed as any other. So two
//! threads never get one pair, and none passes by a pair that is nearer to the end.
//!
//! ```text
//! leaf at the end   not empty: its first (last) pair is the one
//! empty             the next leaf is latched, too, from left to right: nobody puts a pair into the
//!                   empty one before the pair behind it is out
//! all are empty     the tree is
//! ```
//!
//! Empty leaves are rare: a thread that takes the last pair of a leaf merges the leaf away.

use std::borrow::Borrow;

use everleaf_pmem::{Medium, Result, Retries, fallible};
use everleaf_pool::{Stop, retry};

use crate::blink::descend::{Blink, FoundNode, Lag, Latched, Seek};
use crate::blink::write::{Condition, KeepBefore, Keeping, Old, Verdict, Wanted};
use crate::node::{KeyOf, Kind, NodeAt, OwnedKeyOf, TreeKey, ValueOf, damaged, sibling};

/// An end of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Where the smallest key is.
    First,
    /// Where the greatest key is.
    Last,
}

/// So many pairs are stripped in one step, at most.
const STRIPPED: usize = 256;

/// The name of this memory in errors.
const EMPTIES: &str = "the latches of empty leaves";

/// The leaf nearest to the end that has a pair, and the empty ones from there to the end, all latched.
struct Tip<'m, K: Kind> {
    node: Latched<'m, K>,
    empties: Vec<Latched<'m, K>>,
}

/// A pair that was taken out.
struct Popped<K: Kind> {
    key: OwnedKeyOf<K>,
    lag: Option<Lag>,
    /// Whether the leaf may fit beside a neighbour.
    due: bool,
    /// Whether empty leaves lie between it and the end.
    passed: bool,
}

/// How an attempt ended.
enum Attempt<K: Kind> {
    Popped(Popped<K>),
    /// The tree is empty.
    Empty,
    /// The value has to be read first.
    Read,
}

impl<M: Medium, K: Kind> Blink<M, K> {
    /// Removes the pair at one end of the tree and returns it; `None` if the tree is empty. Of several
    /// threads each gets another pair. A large value is read first, with nothing latched.
    ///
    /// # Errors
    /// As [`remove`](Self::remove); nothing is removed then.
    #[allow(clippy::type_complexity)]
    pub fn pop(&self, end: End) -> Result<Option<(OwnedKeyOf<K>, ValueOf<K>)>> {
        self.pop_for(&mut Wanted::default(), end)
    }

    /// As [`pop`](Self::pop), for a caller that keeps what it removes.
    ///
    /// # Errors
    /// As [`pop`](Self::pop).
    #[allow(clippy::type_complexity)]
    pub fn pop_keeping(
        &self,
        keeper: &impl KeepBefore<KeyOf<K>, ValueOf<K>>,
        end: End,
    ) -> Result<Option<(OwnedKeyOf<K>, ValueOf<K>)>> {
        let mut old = Keeping::new(Wanted::default(), keeper, Condition::Present);
        self.pop_for(&mut old, end)
    }

    #[allow(clippy::type_complexity)]
    fn pop_for<'s, O: Old<'s, M, K, Value = ValueOf<K>>>(
        &'s self,
        old: &mut O,
        end: End,
    ) -> Result<Option<(OwnedKeyOf<K>, ValueOf<K>)>> {
        self.pool().throttle(false)?;
        let mut turns = Retries::default();
        let popped = loop {
            match retry(|| self.try_pop(&mut *old, end))? {
                Attempt::Popped(popped) => break popped,
                Attempt::Empty => return Ok(None),
                Attempt::Read => old.read()?,
            }
            turns.go_on("the removal of the first or last pair")?;
        };
        // Upkeep, as in `remove`.
        let _ = self.complete(popped.lag);
        if popped.due || popped.passed {
            let _ = self.merge_at(popped.key.borrow());
        }
        if popped.passed {
            let _ = self.merge_end(end);
        }
        let value = old.take();
        debug_assert!(value.is_some(), "a pair has a value");
        Ok(value.map(|value| (popped.key, value)))
    }

    fn try_pop<'s, O: Old<'s, M, K>>(&'s self, old: &mut O, end: End) -> Result<Attempt<K>, Stop> {
        let m = self.medium();
        let Some(Tip { node: (leaf, held), empties }) = self.latch_tip(end)? else {
            return Ok(Attempt::Empty);
        };
        let node = leaf.node;
        let pos = if end == End::First { 0 } else { node.count() - 1 };
        let entry = node.entry(pos);
        let key = K::key(&self.pool, node.shape(), entry)?;
        if old.find(&self.pool, key.borrow(), Some(entry))? != Verdict::Write {
            unlock_all(empties);
            held.unlock_unchanged();
            return Ok(Attempt::Read);
        }
        let mut step = self.pool.step();
        K::release(&mut step, entry)?;
        let mut op = step.enter()?;
        K::remove(m, &mut op, node.page(), node.shape(), pos);
        m.count(&mut op, self.anchor(), -1);
        let due = K::node(node.page()).is_some_and(|left| K::is_sparse(&left));
        step.publish_free(&mut op);
        drop(op);
        let passed = !empties.is_empty();
        drop(held);
        unlock_all(empties);
        Ok(Attempt::Popped(Popped { key, lag: leaf.lag, due, passed }))
    }

    /// Removes some pairs at the upper end of the tree, those of one leaf at most; says whether there was one. For
    /// a tree that nobody reads any more: no value is looked at, and what pairs had is not kept.
    ///
    /// # Errors
    /// As [`delete`](Self::delete).
    pub fn strip(&self) -> Result<bool> {
        self.pool().throttle(false)?;
        let Some((key, lag, passed)) = retry(|| self.try_strip())? else { return Ok(false) };
        let _ = self.complete(lag);
        let _ = self.merge_at(key.borrow());
        if passed {
            let _ = self.merge_end(End::Last);
        }
        Ok(true)
    }

    #[allow(clippy::type_complexity)]
    fn try_strip(&self) -> Result<Option<(OwnedKeyOf<K>, Option<Lag>, bool)>, Stop> {
        let m = self.medium();
        let Some(Tip { node: (leaf, held), empties }) = self.latch_tip(End::Last)? else {
            return Ok(None);
        };
        let node = leaf.node;
        let (count, page, shape) = (node.count(), node.page(), node.shape());
        let key = K::key(&self.pool, shape, node.entry(count - 1))?;
        let mut step = self.pool.step();
        let mut some = 0;
        // Those that free nothing but their place go together, and one that frees something.
        while some < STRIPPED.min(count) && step.is_empty() {
            some += 1;
            K::release(&mut step, node.entry(count - some))?;
        }
        let mut op = step.enter_for(some)?;
        (1..=some).for_each(|n| K::remove(m, &mut op, page, shape, count - n));
        m.count(&mut op, self.anchor(), -(some as i64));
        step.publish_free(&mut op);
        drop(op);
        let passed = !empties.is_empty();
        drop(held);
        unlock_all(empties);
        Ok(Some((key, leaf.lag, passed)))
    }

    /// The leaf at one end that has a pair; `None` if there is none in the tree.
    #[inline(always)]
    fn latch_tip(&self, end: End) -> Result<Option<Tip<'_, K>>, Stop> {
        let seek = if end == End::First { Seek::Min } else { Seek::Max };
        let Some(node) = self.latch_at(seek, 0)? else { return Err(Stop::Busy) };
        if has_pair::<K>(&node) {
            return Ok(Some(Tip { node, empties: Vec::new() }));
        }
        match end {
            End::First => self.latch_first(node),
            End::Last => {
                let low = K::low(&self.pool, node.0.node.page())?;
                node.1.unlock_unchanged();
                self.latch_last(low)
            }
        }
    }

    /// The first leaf that has a pair, when `first`, the first leaf, has none.
    #[cold]
    fn latch_first<'s>(&'s self, first: Latched<'s, K>) -> Result<Option<Tip<'s, K>>, Stop> {
        let mut empties = fallible::list(1, EMPTIES)?;
        empties.push(first);
        while let Some(node) = self.latch_right(&empties)? {
            if has_pair::<K>(&node) {
                return Ok(Some(Tip { node, empties }));
            }
            fallible::push(&mut empties, node, EMPTIES)?;
        }
        unlock_all(empties);
        Ok(None)
    }

    /// The last leaf that has a pair, when the last leaf, which begins at `low`, has none. Latches go from
    /// left to right, so each leaf further to the left is a new beginning.
    #[cold]
    fn latch_last(&self, mut low: Option<OwnedKeyOf<K>>) -> Result<Option<Tip<'_, K>>, Stop> {
        while let Some(bound) = low {
            let found = self.latch_at(Seek::Below(bound.borrow()), 0)?;
            let Some(node) = found else { return Err(Stop::Busy) };
            let is_tip = has_pair::<K>(&node);
            low = if is_tip { None } else { K::low(&self.pool, node.0.node.page())? };
            if low.as_ref().is_some_and(|low| *low >= bound) {
                let page = node.0.node.page();
                return Err(damaged(page, "is not to the left of where it was looked for").into());
            }
            let mut latched = fallible::list(1, EMPTIES)?;
            latched.push(node);
            let mut tip = is_tip.then_some(0);
            while let Some(right) = self.latch_right(&latched)? {
                if has_pair::<K>(&right) {
                    // It has got a pair meanwhile.
                    tip = Some(latched.len());
                }
                fallible::push(&mut latched, right, EMPTIES)?;
            }
            if let Some(at) = tip {
                latched.drain(..at).for_each(|(_, held)| held.unlock_unchanged());
                let node = latched.remove(0);
                return Ok(Some(Tip { node, empties: latched }));
            }
            unlock_all(latched);
        }
        // The first leaf is empty, and so were all behind it.
        Ok(None)
    }

    /// The right sibling of the last of these leaves, latched.
    fn latch_right(&self, latched: &[Latched<'_, K>]) -> Result<Option<Latched<'_, K>>> {
        let Some((last, _)) = latched.last() else { return Ok(None) };
        let last = last.node.page();
        debug_assert!(last.latch().is_held(), "its sibling could change");
        let Some(right) = sibling(last) else { return Ok(None) };
        if latched.iter().any(|(leaf, _)| leaf.node.page().no() == right) {
            return Err(damaged(last, "siblings form a cycle"));
        }
        let page = self.medium().page(right)?;
        let mut held = page.latch().lock();
        self.pool.ensure(page, &mut held)?;
        let Some(node) = NodeAt::of(page, 0) else {
            return Err(damaged(last, "its sibling is no leaf"));
        };
        let version = held.before();
        Ok(Some((FoundNode { node, version, lag: None }, held)))
    }

    /// Merges an empty leaf at an end of the tree away.
    #[cold]
    fn merge_end(&self, end: End) -> Result<()> {
        let low = match end {
            End::First => None,
            End::Last => {
                let Some((leaf, held)) = self.latch_at(Seek::Max, 0)? else { return Ok(()) };
                let low = K::low(&self.pool, leaf.node.page());
                held.unlock_unchanged();
                low?
            }
        };
        self.merge_at(low.unwrap_or_else(K::Key::lowest).borrow())
    }
}

fn has_pair<K: Kind>((leaf, _): &Latched<'_, K>) -> bool {
    leaf.node.count() > 0
}

/// Unlocks leaves that have not changed.
fn unlock_all<K: Kind>(leaves: Vec<Latched<'_, K>>) {
    leaves.into_iter().for_each(|(_, held)| held.unlock_unchanged());
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use everleaf_file::FileOptions;
    use everleaf_file::io::SimIo;
    use everleaf_pmem::{Dram, Geometry};

    use super::*;
    use crate::blink::Condition;
    use crate::node::NodeBytes;
    use crate::slotted::Slotted;
    use crate::{FilePool, INDEX_ANCHOR, SlottedTree, StringTree};

    type Popped = Option<(Vec<u8>, Vec<u8>)>;

    fn on_both(test: fn(&dyn Ends)) {
        let dram = Dram::new(Geometry::new(16).expect("valid"), 1 << 12).expect("memory");
        let pool = Arc::new(StringTree::<Dram>::format_pool(dram).expect("formats"));
        test(&StringTree::create(pool, INDEX_ANCHOR).expect("space"));
        let options = FileOptions { slots: 28, max_pages: 1 << 12, ..FileOptions::default() };
        let options = FileOptions { create: true, background: false, ..options };
        let disk = Arc::new(SimIo::new(1));
        let file = FilePool::open_for::<Slotted>(disk, Path::new("/p"), &options).expect("opens");
        test(&SlottedTree::create(Arc::clone(file.pool()), INDEX_ANCHOR).expect("space"));
    }

    /// A tree of either family.
    trait Ends {
        fn put(&self, n: u32);
        fn delete(&self, n: u32);
        fn pop(&self, end: End) -> Popped;
        /// As if another thread were merging, and never came to an end.
        fn stop_merges(&self, stop: bool);
        fn leaves(&self) -> u64;
    }

    impl<M, K> Ends for Blink<M, K>
    where
        M: Medium,
        K: Kind + NodeBytes,
    {
        fn put(&self, n: u32) {
            self.set(&n.to_be_bytes(), b"value", Condition::Always).expect("space");
        }
        fn delete(&self, n: u32) {
            Blink::delete(self, &n.to_be_bytes()).expect("no fault");
        }
        fn pop(&self, end: End) -> Popped {
            Blink::pop(self, end).expect("no fault")
        }
        fn stop_merges(&self, stop: bool) {
            self.pending.lock().expect("nobody panics").busy = stop;
        }
        fn leaves(&self) -> u64 {
            let report = self.check().expect("no fault");
            assert!(report.damages.is_empty(), "{:?}", report.damages);
            report.nodes_by_level[0]
        }
    }

    fn pair(n: u32) -> Popped {
        Some((n.to_be_bytes().to_vec(), b"value".to_vec()))
    }

    #[test]
    fn a_pop_finds_the_pair_behind_any_number_of_empty_leaves() {
        for end in [End::First, End::Last] {
            on_both(match end {
                End::First => |tree| behind_empties(tree, End::First),
                End::Last => |tree| behind_empties(tree, End::Last),
            });
        }
    }

    fn behind_empties(tree: &dyn Ends, end: End) {
        const N: u32 = 400;
        let nth = |i| if end == End::First { i } else { N - 1 - i };
        (0..N).for_each(|n| tree.put(n));
        let full = tree.leaves();
        tree.stop_merges(true);
        (0..300).for_each(|i| tree.delete(nth(i)));
        assert_eq!(tree.leaves(), full, "the empty leaves have stayed");
        assert_eq!(tree.pop(end), pair(nth(300)));
        // A leaf at the end has got a pair again.
        tree.put(nth(0));
        tree.put(nth(150));
        assert_eq!(tree.pop(end), pair(nth(0)));
        assert_eq!(tree.pop(end), pair(nth(150)));
        assert_eq!(tree.pop(end), pair(nth(301)));
        // A pop that comes by when merges go on does those that have waited, too.
        tree.stop_merges(false);
        assert_eq!(tree.pop(end), pair(nth(302)));
        assert!(tree.leaves() <= full / 2, "{} of {full} leaves have stayed", tree.leaves());
        (303..N).for_each(|i| assert_eq!(tree.pop(end), pair(nth(i))));
        assert_eq!((tree.pop(end), tree.leaves()), (None, 1));
    }

    #[test]
    fn a_tree_of_empty_leaves_is_empty() {
        on_both(|tree| {
            (0..300).for_each(|n| tree.put(n));
            tree.stop_merges(true);
            (0..300).for_each(|n| tree.delete(n));
            assert!(tree.leaves() > 3);
            assert_eq!((tree.pop(End::First), tree.pop(End::Last)), (None, None));
        });
    }

    #[test]
    fn what_is_drained_from_both_ends_leaves_no_leaf() {
        on_both(|tree| {
            (0..1000).for_each(|n| tree.put(n));
            let most = tree.leaves();
            for n in 0..500 {
                assert_eq!(tree.pop(End::First), pair(n));
                assert_eq!(tree.pop(End::Last), pair(999 - n));
                let left = u64::from(500 - n) * most / 500;
                assert!(tree.leaves() <= left * 5 / 2 + 4, "{} at {n}", tree.leaves());
            }
            assert_eq!((tree.pop(End::First), tree.pop(End::Last), tree.leaves()), (None, None, 1));
        });
    }
}
