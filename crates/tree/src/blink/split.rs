//! Splits, parents' entries, growth of the root (docs/PAPERS.md, *Split*; FAST+FAIR §4.1).
//!
//! ```text
//! build R completely; flush; fence              a crash leaves R unreachable
//! L: sibling := R, high, count; flush; fence    a crash inside shows high ≠ R.low: the first touch
//!                                               of L finishes; after it R is reachable through L
//! parent: insert (separator → R)                a crash before leaves the entry missing: searches
//!                                               move right, the next writer that does completes it
//! ```
//!
//! This is FAIR: no log. Byte strings on strict media keep one of the left node ([`log`]).

use std::borrow::Borrow;
use std::sync::atomic::Ordering;

use everleaf_pmem::{LatchGuard, Medium, Page, PageNo, Result, Retries};
use everleaf_pool::{Stop, anchor, kind, retry};

use crate::blink::descend::{Blink, Lag};
use crate::blink::log;
use crate::node::{
    Asking, ChildEntry, KeyOf, Kind, MAX_LEVEL, NodeAt, OwnedKeyOf, damaged, sibling,
};

/// The attempt that is repeated while others change the parent.
const ENTER: &str = "entering a node in its parent";

/// The outcome of an attempt to enter a node in its parent.
enum Entered {
    /// The entry is there.
    Yes,
    /// The tree has changed: look again.
    Again,
    /// Somebody else has what it takes, and may wait for what the caller holds.
    NotNow,
}

impl<M: Medium, K: Kind> Blink<M, K> {
    /// Splits a full node for an entry that has no room in it, and enters the new node in its parent. Others may keep
    /// it from that: the caller looks again.
    ///
    /// The parent must have an entry for the node's sibling first, which a crash may have kept from
    /// it: the new node's prefix is what its bounds share, so no search for a key above them may be
    /// led to it.
    #[cold]
    pub(crate) fn split(
        &self,
        node: &NodeAt<'_, K>,
        held: LatchGuard<'_>,
        asking: Asking,
    ) -> Result<()> {
        let page = node.page();
        if let (true, Some(right)) = (K::PREFIXED, sibling(page)) {
            let separator = K::high(&self.pool, page)?;
            if !self.enter_in_parent(page, separator.borrow(), right)? {
                held.unlock_unchanged();
                return Ok(());
            }
        }
        let keep = K::split_point(node, asking)?;
        self.renew_before(node, keep)?;
        let (separator, right) = retry(|| self.try_split(node, keep, asking))?;
        let entered = self.enter_in_parent(page, separator.borrow(), right);
        drop(held);
        entered.map(drop)
    }

    /// A node begins where the child does that it names first. A crash may have left a separator that is greater than the
    /// bound of its child, which only the parent's holder lowers: no node may begin there.
    fn renew_before(&self, node: &NodeAt<'_, K>, pos: usize) -> Result<()> {
        if !K::GIVES || M::JOURNALED || node.level() != 1 || pos >= node.count() {
            return Ok(());
        }
        let child = K::child(&self.pool, node.entry(pos))?;
        let Some(low) = K::low(&self.pool, self.medium().page(child)?)? else { return Ok(()) };
        self.renew(node, pos, (low.borrow(), child)).map(drop)
    }

    /// Whether the entry at `pos` is the child's, with a separator that had to be renewed.
    fn renew(&self, node: &NodeAt<'_, K>, pos: usize, child: (&KeyOf<K>, PageNo)) -> Result<bool> {
        if !K::GIVES || M::JOURNALED {
            return Ok(false);
        }
        let _op = self.medium().enter()?;
        Ok(K::renew(self.medium(), node, pos, child))
    }

    fn try_split(
        &self,
        node: &NodeAt<'_, K>,
        keep: usize,
        asking: Asking,
    ) -> Result<(OwnedKeyOf<K>, PageNo), Stop> {
        let page = node.page();
        debug_assert!(page.latch().is_held(), "page {} is split without its latch", page.no());
        debug_assert!(0 < keep && keep <= node.count(), "the left node holds entries");
        let (separator, cut) = K::prepare_split(&self.pool, page, node.shape(), keep, asking)?;
        let mut step = self.pool.step();
        let (right, mut right_held) = step.new_page(kind::NODE)?;
        let mut plan = K::plan_split(&mut step, page, &cut)?;
        let logs = log::logs_splits::<M, K>();
        let anchor = logs.then(|| self.pool.latch(self.anchor())).transpose()?;
        let mut op = step.enter()?;
        step.publish_alloc(&mut op);
        let nodes = (page, right);
        K::split(&mut step, &mut op, nodes, &mut plan, &cut, &mut |trim| {
            right_held.set_ready();
            match &anchor {
                Some((anchor, _held)) => self.logged(*anchor, page, trim),
                None => trim(),
            }
        });
        step.publish_free(&mut op);
        drop(op);
        Ok((separator, right.no()))
    }

    /// Inserts `right`, the sibling of `left`, into the parent. The caller holds `left`'s latch, so
    /// `right` cannot be merged away meanwhile. Does nothing if the entry is there.
    ///
    /// False if there is no parent yet and another thread holds the root and may be waiting for `left`: then it is
    /// left to the next writer that comes by, as after a crash.
    pub(super) fn enter_in_parent(
        &self,
        left: Page<'_>,
        separator: &KeyOf<K>,
        right: PageNo,
    ) -> Result<bool> {
        debug_assert!(left.latch().is_held(), "page {} may lose its sibling", left.no());
        debug_assert_eq!(sibling(left), Some(right));
        let level = Self::level_above(left);
        if level > MAX_LEVEL {
            return Err(damaged(left, "is higher than any tree"));
        }
        let child = K::child_at(&self.pool, separator, right, false)?;
        let mut turns = Retries::default();
        loop {
            let entered = retry(|| {
                if self.root() == left.no() {
                    self.grow(left, separator, child)
                } else {
                    self.try_enter(left, (separator, child, right), level)
                }
            });
            match entered? {
                Entered::Yes => return Ok(true),
                Entered::NotNow => return Ok(false),
                Entered::Again => turns.go_on(ENTER)?,
            }
        }
    }

    fn try_enter(
        &self,
        left: Page<'_>,
        (separator, right, no): (&KeyOf<K>, K::Child, PageNo),
        level: u8,
    ) -> Result<Entered, Stop> {
        let m = self.medium();
        let root = m.page(self.root())?;
        if Self::may_be(root, Some(level - 1)) {
            return self.complete_root(root, left);
        }
        let (spot, held) = self.latch_for(separator, level)?.ok_or(Stop::Busy)?;
        let node = spot.node;
        let rank = K::rank(&self.pool, &node, separator)?;
        if rank.exact {
            held.unlock_unchanged();
            return Ok(Entered::Yes);
        }
        if self.renew(&node, rank.le, (separator, no))? {
            return Ok(Entered::Yes);
        }
        let mut entry = match K::new_entry::<M>(&node, rank, (separator, right))? {
            ChildEntry::Ready(entry) => entry,
            ChildEntry::NeedsRoom(asking) => {
                self.split(&node, held, asking)?;
                return Ok(Entered::Again);
            }
        };
        let mut op = m.enter()?;
        K::enter(m, &mut op, node.page(), node.shape(), rank, &mut entry);
        drop(op);
        drop(held);
        Ok(Entered::Yes)
    }

    /// There is no level above the root, and `left`, a node beside the root, needs one: the root has been split.
    /// The thread that split it is growing a new one, unless a crash came between. The caller holds `left`, which may be the
    /// very node that the new root has to name. Other latches are only tried: they lie to the left of it, and their
    /// holders may wait for it.
    #[cold]
    fn complete_root(&self, root: Page<'_>, left: Page<'_>) -> Result<Entered, Stop> {
        let Some(held) = self.try_latch(root)? else { return Ok(Entered::NotNow) };
        let level = |page| K::node(page).map(|node| node.level());
        if self.root() != root.no() || level(root) != level(left) {
            held.unlock_unchanged();
            return Ok(Entered::Again);
        }
        let Some(right) = sibling(root) else {
            return Err(damaged(left, "is beside the root, which has no sibling").into());
        };
        let right = self.medium().page(right)?;
        let is_mine = right.no() == left.no();
        let beside = if is_mine { None } else { self.try_latch(right)? };
        let can_grow = is_mine || beside.is_some();
        if can_grow {
            let separator = K::high(&self.pool, root)?;
            let child = K::child_at(&self.pool, separator.borrow(), right.no(), true)?;
            self.grow(root, separator.borrow(), child)?;
        }
        beside.into_iter().for_each(LatchGuard::unlock_unchanged);
        held.unlock_unchanged();
        Ok(if can_grow { Entered::Again } else { Entered::NotNow })
    }

    /// Latches a page and makes it ready, unless somebody holds it.
    fn try_latch<'p>(&self, page: Page<'p>) -> Result<Option<LatchGuard<'p>>> {
        let Some(mut held) = page.latch().try_lock() else { return Ok(None) };
        self.pool.ensure(page, &mut held)?;
        Ok(Some(held))
    }

    /// The level above that of a node that the caller holds.
    fn level_above(page: Page<'_>) -> u8 {
        K::node(page).expect("the caller holds a node").level() + 1
    }

    /// Puts a new root above `left`, the old one, and `right`.
    fn grow(&self, left: Page<'_>, separator: &KeyOf<K>, right: K::Child) -> Result<Entered, Stop> {
        let m = self.medium();
        debug_assert!(left.latch().is_held(), "the root grows without its latch");
        let level = Self::level_above(left);
        let mut root = K::new_root(&self.pool, level, (left.no(), separator, right))?;
        let mut step = self.pool.step();
        let (top, mut top_held) = step.new_page(kind::NODE)?;
        let (anchor_page, anchor_held) = self.pool.latch(self.anchor())?;
        if self.root() != left.no() {
            return Ok(Entered::Again);
        }
        let mut op = step.enter()?;
        step.publish_alloc(&mut op);
        K::build(m, &mut op, top, &mut root);
        top_held.set_ready();
        // The order of publishing: the new root is whole before the anchor names it.
        debug_assert!(NodeAt::<K>::of(top, level).is_some());
        anchor::set_root(m, &mut op, anchor_page, top.no());
        step.publish_free(&mut op);
        drop(op);
        drop(top_held);
        self.root.store(top.no(), Ordering::Release);
        drop(anchor_held);
        Ok(Entered::Yes)
    }

    /// Completes the split that a search has met, unless somebody has changed the node since.
    #[cold]
    pub(super) fn complete_split_of(&self, (no, version): Lag) -> Result<()> {
        let page = self.medium().page(no)?;
        page.latch()
            .upgrade(version)
            .map_or(Ok(()), |held| self.enter_sibling(page, held).map(drop))
    }

    /// As [`complete_split_of`](Self::complete_split_of), for a caller that knows that nobody else writes: waits
    /// for readers that hold the latch.
    pub(crate) fn complete_now(&self, no: PageNo) -> Result<()> {
        let mut turns = Retries::default();
        loop {
            let (page, held) = self.pool.latch(no)?;
            if self.enter_sibling(page, held)? {
                return Ok(());
            }
            turns.again(ENTER)?;
        }
    }

    fn enter_sibling(&self, page: Page<'_>, held: LatchGuard<'_>) -> Result<bool> {
        let entered = match sibling(page) {
            Some(right) => {
                let separator = K::high(&self.pool, page)?;
                self.enter_in_parent(page, separator.borrow(), right)?
            }
            None => true,
        };
        held.unlock_unchanged();
        Ok(entered)
    }
}
