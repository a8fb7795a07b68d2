//! How nodes of slots are built, cut in two and merged. They are never evened out: the papers' trees split a full node.

use std::borrow::Borrow;
use std::convert::Infallible;

use everleaf_pmem::{Medium, Page, PageNo, Result, fallible};
use everleaf_pool::{Pool, Step, Stop};

use crate::node::{
    Asking, LOW_WORD, NodeEvens, NodeMerges, NodeRoom, NodeSplits, Rank, RightBounds, Run, Shape,
    Siblings, UnderLog, sibling,
};
use crate::slots::notes::{self, ImageNote};
use crate::slots::{Image, KeyBounds, KeyOrder, KeySplits, Keys, Layout, Probe, Slot, SplitBounds};

/// A split of a node of slots, before its step.
pub struct SlotSplit<'p, M: Medium, K: Keys> {
    cut: K::PreparedSplit<'p, M>,
    /// The shape of the left node.
    left: Shape,
    /// How many slots stay there.
    keep: usize,
    /// The shape of the right node, and its slots.
    shape: Shape,
    slots: Vec<Slot>,
}

/// A new node of slots, before its step.
pub struct NewNode {
    shape: Shape,
    low: u64,
    right: RightBounds,
    slots: [Slot; 2],
    count: usize,
    note: ImageNote,
}

/// The bounds of a node that is the last of its level.
const OPEN_END: RightBounds = RightBounds { sibling: 0, high: 0, high_record: 0 };

impl<L: Layout, P: Probe, K: Keys> NodeSplits for (L, P, K) {
    const LOGGED: bool = K::BYTES || L::LOGGED;
    type Child = PageNo;
    type Built = NewNode;
    type Entering<'a> = Slot;
    type PreparedSplit<'p, M: Medium> = SlotSplit<'p, M, K>;
    type SplitPlan = K::SplitPlan;
    type SplitReady = ImageNote;

    fn first_separator() -> Option<K::Owned> {
        <K as KeySplits>::first_separator().and_then(K::from_order)
    }

    fn new_leaf<M: Medium>(
        _: &Pool<M>,
        low: Option<&K::Key>,
        right: Option<(&K::Key, PageNo)>,
    ) -> Result<NewNode> {
        let word = |key: &K::Key| K::order(key).unwrap_or_default();
        let right = right.map_or(OPEN_END, |(high, no)| RightBounds {
            sibling: no,
            high: word(high),
            high_record: 0,
        });
        let shape = Shape { level: 0, bytes: K::BYTES, slotted: false, prefix: 0 };
        let (slots, note) = ([Slot { ident: 0, payload: 0 }; 2], ImageNote::new::<M>(0)?);
        Ok(NewNode { shape, low: low.map_or(0, word), right, slots, count: 0, note })
    }

    fn new_root<M: Medium>(
        _: &Pool<M>,
        level: u8,
        (left, separator, right): (PageNo, &K::Key, PageNo),
    ) -> Result<NewNode> {
        let shape = Shape { level, bytes: K::BYTES, slotted: false, prefix: 0 };
        let lowest = <K as KeyOrder>::lowest();
        let slots = [K::entry(shape, lowest.borrow(), left), K::entry(shape, separator, right)];
        let note = ImageNote::new::<M>(slots.len())?;
        Ok(NewNode { shape, low: 0, right: OPEN_END, slots, count: slots.len(), note })
    }

    #[inline(always)]
    fn child_at<M: Medium>(_: &Pool<M>, _: &K::Key, child: PageNo) -> Result<PageNo> {
        Ok(child)
    }

    #[inline(always)]
    fn held_child<M: Medium>(_: &Pool<M>, _: &K::Key, child: Page<'_>) -> Result<PageNo> {
        Ok(child.no())
    }

    fn build<'m, M: Medium>(m: &'m M, op: &mut M::Op<'m>, page: Page<'_>, new: &mut NewNode) {
        let slots = &new.slots[..new.count];
        let image = Image { shape: new.shape, low: new.low, right: new.right, slots };
        L::build::<M, P>(m, page, &image);
        notes::note_image(m, op, page, &image, &mut new.note);
        debug_assert!(Shape::of(page) == Some(new.shape) && Run::of(page).count == new.count);
    }

    #[inline(always)]
    fn entry_wants<M: Medium>(
        page: Page<'_>,
        shape: Shape,
        run: Run,
        rank: Rank,
        _: &K::Key,
    ) -> Option<Asking> {
        let full = run.count >= L::capacity::<M>(page.slots(), shape);
        full.then_some(Asking { rank, bytes: size_of::<Slot>() })
    }

    #[inline(always)]
    fn new_entry(
        _: Page<'_>,
        shape: Shape,
        _: Run,
        _: Rank,
        (separator, child): (&K::Key, PageNo),
    ) -> Result<Slot> {
        Ok(K::entry(shape, separator, child))
    }

    fn enter<'m, M: Medium>(
        m: &'m M,
        op: &mut M::Op<'m>,
        page: Page<'_>,
        shape: Shape,
        rank: Rank,
        slot: &mut Slot,
    ) {
        L::insert::<M, P>(m, page, shape, rank.le, *slot);
        notes::note_insert(m, op, page, rank.le, *slot);
    }

    fn stage<M: Medium>(page: Page<'_>, shape: Shape, run: Run, _: &K::Key, _: usize) -> NodeRoom {
        let room = L::capacity::<M>(page.slots(), shape);
        NodeRoom { load: run.count.min(page.slots()), room, entry: 1, gain: (room / 2).max(1) }
    }

    fn split_point(page: Page<'_>, run: Run, asking: Asking) -> Result<usize> {
        // Keys that only ascend leave the rightmost node full instead of half full.
        let appends = asking.rank.le == run.count && sibling(page).is_none();
        Ok(if appends { run.count - 1 } else { run.count / 2 })
    }

    fn prepare_split<'p, M: Medium>(
        pool: &'p Pool<M>,
        left: Page<'_>,
        shape: Shape,
        keep: usize,
    ) -> Result<SlotSplit<'p, M, K>> {
        let run = Run::of(left);
        debug_assert!(0 < keep && keep < run.count, "both nodes of a split hold entries");
        let at = |pos| Slot::read(left, run.slot(left, pos));
        // All records are read before the step holds record pages.
        let cut = <K as KeySplits>::prepare_split(pool, left, shape, at(keep - 1), at(keep))?;
        let right = Shape { prefix: K::right_prefix(&cut), ..shape };
        let mut slots = fallible::list(run.count - keep, "a node")?;
        for pos in keep..run.count {
            slots.push(K::reshape(pool, at(pos), shape, right)?);
        }
        Ok(SlotSplit { cut, left: shape, keep, shape: right, slots })
    }

    fn separator<M: Medium>(prepared: &SlotSplit<'_, M, K>) -> Result<K::Owned> {
        <K as KeySplits>::separator(&prepared.cut)
    }

    fn plan_split<'s, 'p: 's, M: Medium>(
        step: &mut Step<'s, M>,
        prepared: &'s SlotSplit<'p, M, K>,
    ) -> Result<K::SplitPlan, Stop> {
        <K as KeySplits>::plan_split(step, &prepared.cut)
    }

    fn ready_split<M: Medium>(
        _: Page<'_>,
        _: Page<'_>,
        _: &K::SplitPlan,
        prepared: &SlotSplit<'_, M, K>,
    ) -> Result<ImageNote> {
        ImageNote::new::<M>(prepared.slots.len())
    }

    fn split<'s, 'p: 's, M: Medium>(
        step: &mut Step<'s, M>,
        op: &mut M::Op<'s>,
        (left, right): (Page<'_>, Page<'_>),
        plan: &K::SplitPlan,
        prepared: &'s SlotSplit<'p, M, K>,
        note: &mut ImageNote,
        under_log: &mut UnderLog<'_>,
    ) {
        let m = step.medium();
        let SplitBounds { high, high_record, low, right: bounds } =
            K::write_split(step, op, left, plan, &prepared.cut);
        let &SlotSplit { left: shape, keep, shape: right_shape, ref slots, .. } = prepared;
        let image = Image { shape: right_shape, low, right: bounds, slots };
        L::build::<M, P>(m, right, &image);
        notes::note_image(m, op, right, &image, note);
        let to = RightBounds { sibling: right.no(), high, high_record };
        // The order of publishing: the right node is whole before anything leads to it.
        debug_assert!(sibling(left) != Some(right.no()) && Run::of(right).count == slots.len());
        under_log(&mut || L::trim::<M, P>(m, left, shape, keep, to));
        notes::note_trim(m, op, left, keep, to);
    }
}

/// How many slots two nodes may fill together to be merged.
fn room_for_two(slots: usize) -> usize {
    slots * 7 / 8
}

/// A merge of two nodes of slots, before its step.
pub struct SlotMerge {
    /// The shape of the left node as it is.
    left: Shape,
    /// And as it will be.
    shape: Shape,
    bounds: RightBounds,
    slots: Vec<Slot>,
    /// How many of them are the left node's.
    own: usize,
    note: ImageNote,
}

impl<L: Layout, P: Probe, K: Keys> NodeMerges for (L, P, K) {
    type PreparedMerge = SlotMerge;

    /// Not each removal asks: two nodes that are looked at each time lose less than a sixteenth of a
    /// node unseen.
    #[inline(always)]
    fn is_sparse(page: Page<'_>, run: Run) -> bool {
        let slots = page.slots();
        run.count <= room_for_two(slots) && run.count.is_multiple_of(slots / 32 + 1)
    }

    fn load(_: Page<'_>, run: Run) -> usize {
        run.count
    }

    fn takes_another<M: Medium>(page: Page<'_>, shape: Shape, run: Run) -> bool {
        run.count < L::capacity::<M>(page.slots(), shape)
    }

    fn fit<M: Medium>(left: Page<'_>, right: Page<'_>, shape: Shape) -> bool {
        let [nl, nr] = [left, right].map(|page| Run::of(page).count);
        let nothing = usize::from(shape.level > 0);
        let most = L::capacity::<M>(left.slots(), shape);
        let most = if nl.min(nr) <= nothing { most } else { most.min(room_for_two(left.slots())) };
        // Void, in a leaf of words, is a key outside its bounds.
        let both_infinite = !K::BYTES
            && shape.level == 0
            && left.head(LOW_WORD).load() == 0
            && sibling(right).is_none();
        nl + nr <= most && !both_infinite
    }

    fn prepare_merge<M: Medium>(
        pool: &Pool<M>,
        left: Page<'_>,
        right: Page<'_>,
        shape: Shape,
    ) -> Result<Option<SlotMerge>> {
        let (merged_shape, bounds) = K::merged(pool, left, right, shape)?;
        let right_shape = Shape::of(right).expect("checked under its latch");
        let own = Run::of(left).count;
        let count = own + Run::of(right).count;
        debug_assert!(count <= left.slots(), "two nodes that do not fit into one");
        let mut slots = fallible::list(count, "a node")?;
        let note = ImageNote::new::<M>(count)?;
        for (page, from) in [(left, shape), (right, right_shape)] {
            let run = Run::of(page);
            for pos in 0..run.count {
                let slot = Slot::read(page, run.slot(page, pos));
                slots.push(K::reshape(pool, slot, from, merged_shape)?);
            }
        }
        Ok(Some(SlotMerge { left: shape, shape: merged_shape, bounds, slots, own, note }))
    }

    fn release_bound<M: Medium>(
        step: &mut Step<'_, M>,
        left: Page<'_>,
        right: Page<'_>,
    ) -> Result<(), Stop> {
        <K as KeyBounds>::release_bound(step, left, right)
    }

    fn merge<'m, M: Medium>(
        m: &'m M,
        op: &mut M::Op<'m>,
        left: Page<'_>,
        prepared: &mut SlotMerge,
        under_log: &mut UnderLog<'_>,
    ) {
        let SlotMerge { left: shape, shape: merged, bounds, slots, own, note } = prepared;
        let low = left.head(LOW_WORD).load();
        let image = Image { shape: *merged, low, right: *bounds, slots };
        if K::BYTES {
            under_log(&mut || L::build::<M, P>(m, left, &image));
        } else {
            L::absorb::<M, P>(m, left, *shape, &slots[*own..], *bounds);
        }
        notes::note_image(m, op, left, &image, note);
    }
}

impl<L: Layout, P: Probe, K: Keys> NodeEvens for (L, P, K) {
    const EVENS: bool = false;
    type EvenPlan = Infallible;

    fn is_run(_: Page<'_>, _: Run, _: Asking) -> bool {
        false
    }
    fn may_take(_: Page<'_>) -> bool {
        false
    }
    fn plan_even<M: Medium>(
        _: &Pool<M>,
        _: &Siblings<'_>,
        _: Asking,
        _: bool,
        _: &K::Key,
    ) -> Result<Option<Infallible>> {
        Ok(None)
    }
    fn even<'m, M: Medium>(_: &'m M, _: &mut M::Op<'m>, _: &Siblings<'_>, plan: &mut Infallible) {
        match *plan {}
    }
}
