//! The answers of nodes of slots to the spine, in the order of the traits of [`node`](crate::node).
//!
//! Pairs get in and out one by one, since on media without a journal each store is a step of its own. Full nodes are
//! never evened out: the papers' trees split them. A sparse leaf of linear nodes gets entries of a full one ([`give`]).

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::convert::Infallible;

use everleaf_pmem::{Change, Geometry, LINE_BYTES, Medium, Page, PageNo, Result, fallible};
use everleaf_pool::{Large, LargeValue, Pool, RecordRef, Step, Stop, StoredValue};

use crate::node::{
    Asking, ChildEntry, EntryView, FLAG_BYTES, Filling, FoundValue, InLeaf, LOW_WORD, NodeAt,
    NodeBytes, NodeChanges, NodeChecks, NodeReads, NodeRestructures, NodeRoom, NodeView, PutPoint,
    Rank, RightBounds, Run, Shape, Siblings, TreeKey, UnderLog, damaged, sibling,
};
use crate::record::{self, PendingRecord};
use crate::slots::give::{self, SlotGift};
use crate::slots::notes::{self, ImageNote};
use crate::slots::streak::Streak;
use crate::slots::{
    Inspect, KeyBounds, KeyOrder, KeySplits, Keys, Layout, OwnedOf, Probe, Slot, SlotsImage,
    SplitBounds, Strings, ValueWrites, Values,
};

/// Lines of the search aid that a search may read.
fn aid_lines<P: Probe>(page: Page<'_>) -> usize {
    (page.slots() * P::AID_BYTES).div_ceil(LINE_BYTES)
}

/// The header of a node of slots.
#[derive(Clone, Copy)]
pub struct SlotsView<'m> {
    page: Page<'m>,
    shape: Shape,
    /// Cut to the page.
    run: Run,
}

impl<'m> NodeView<'m> for SlotsView<'m> {
    #[inline(always)]
    fn page(self) -> Page<'m> {
        self.page
    }
    #[inline(always)]
    fn shape(self) -> Shape {
        self.shape
    }
    #[inline(always)]
    fn count(self) -> usize {
        self.run.count
    }
    #[inline(always)]
    fn sibling(self) -> Option<PageNo> {
        sibling(self.page)
    }
}

impl<L: Layout, P: Probe, K: Keys> NodeReads for (L, P, K) {
    type Key = K::Key;
    type View<'m> = SlotsView<'m>;
    type Entry<'m> = Slot;
    const LOCK_FREE: bool = L::LOCK_FREE && !K::BYTES;
    const PREFIXED: bool = K::BYTES;
    type Value = K::Value;
    type Far<'p, M: Medium> = K::Far<'p, M>;

    #[inline(always)]
    fn node(page: Page<'_>) -> Option<NodeAt<'_, Self>> {
        let shape = Shape::with_flags(page, if K::BYTES { FLAG_BYTES } else { 0 })?;
        let run = Run::of(page);
        let run = Run { count: run.count.min(page.slots()), ..run };
        Some(NodeAt { view: SlotsView { page, shape, run } })
    }

    #[inline(always)]
    fn entry<'m>(at: &NodeAt<'m, Self>, pos: usize) -> Slot {
        Slot::read(at.page(), at.view.run.slot(at.page(), pos))
    }

    #[inline(always)]
    fn prefetch(page: Page<'_>) {
        page.prefetch(aid_lines::<P>(page));
    }

    fn prefetch_whole(page: Page<'_>) {
        page.prefetch_whole(aid_lines::<P>(page));
    }

    #[inline(always)]
    fn rank<M: Medium>(pool: &Pool<M>, at: &NodeAt<'_, Self>, key: &K::Key) -> Result<Rank> {
        <K as KeyOrder>::rank::<M, P>(pool, at.page(), at.shape(), at.view.run, key)
    }

    #[inline(always)]
    fn find<'m, M: Medium, T>(
        pool: &Pool<M>,
        at: &NodeAt<'m, Self>,
        key: &K::Key,
        read: impl FnOnce(Self::Entry<'m>) -> Result<T>,
    ) -> Result<Option<T>> {
        let found = <K as KeyOrder>::find::<M, P>(pool, at.page(), at.shape(), at.view.run, key)?;
        found.map(read).transpose()
    }

    #[inline(always)]
    fn key<M: Medium>(pool: &Pool<M>, shape: Shape, slot: Slot) -> Result<OwnedOf<K>> {
        <K as KeyOrder>::key(pool, shape, slot)
    }

    #[inline(always)]
    fn key_into<M: Medium>(
        pool: &Pool<M>,
        shape: Shape,
        slot: Slot,
        key: &mut OwnedOf<K>,
    ) -> Result<()> {
        <K as KeyOrder>::key_into(pool, shape, slot, key)
    }

    #[inline(always)]
    fn child<M: Medium>(pool: &Pool<M>, slot: Slot) -> Result<PageNo> {
        <K as KeyOrder>::child(pool, slot)
    }

    fn raced(slot: Slot) -> Slot {
        slot
    }

    #[inline(always)]
    fn cmp_high<M: Medium>(
        pool: &Pool<M>,
        at: &NodeAt<'_, Self>,
        key: &K::Key,
    ) -> Result<Ordering> {
        <K as KeyBounds>::cmp_high(pool, at.page(), at.shape(), key)
    }

    fn low<M: Medium>(pool: &Pool<M>, page: Page<'_>) -> Result<Option<OwnedOf<K>>> {
        <K as KeyBounds>::low(pool, page)
    }

    fn high<M: Medium>(pool: &Pool<M>, page: Page<'_>) -> Result<OwnedOf<K>> {
        <K as KeyBounds>::high(pool, page)
    }

    #[inline(always)]
    fn found<'p, M: Medium>(
        pool: &'p Pool<M>,
        slot: Slot,
    ) -> Result<StoredValue<K::Value, K::Far<'p, M>>> {
        <K as Values>::found(pool, slot)
    }

    #[inline]
    fn pair<'p, M: Medium>(
        pool: &'p Pool<M>,
        shape: Shape,
        slot: Slot,
    ) -> Result<(OwnedOf<K>, StoredValue<K::Value, K::Far<'p, M>>)> {
        <K as Values>::pair(pool, shape, slot)
    }

    fn fill(at: &NodeAt<'_, Self>) -> (usize, usize) {
        (at.count(), at.page().slots())
    }
    #[inline(always)]
    fn record(shape: Shape, slot: Slot) -> Option<RecordRef> {
        <K as Inspect>::record(shape, slot)
    }
}

/// Puts a slot into its place in a leaf: over the old one with the same key, or between two.
#[inline(always)]
fn link<'s, M: Medium, L: Layout, P: Probe, K: Keys>(
    m: &'s M,
    op: &mut M::Op<'s>,
    at: &PutPoint<'_, (L, P, K)>,
    slot: Slot,
) {
    let (SlotsView { page, shape, .. }, rank) = (at.node.view, at.rank);
    debug_assert!(page.latch().is_held(), "page {} changes without its latch", page.no());
    if !rank.exact {
        L::insert::<M, P>(m, page, shape, rank.le, slot);
        Streak::goes_on(page, rank.le);
        notes::note_insert(m, op, page, rank.le, slot);
    } else if K::REPLACES_PAYLOAD {
        notes::set_payload(m, op, page, rank.le - 1, slot.payload);
    } else {
        notes::set_ident(m, op, page, rank.le - 1, slot.ident);
    }
}

/// An entry that asks for room for a slot, which it may show.
fn asking(rank: Rank, slot: Option<Slot>) -> Asking {
    Asking { rank, bytes: size_of::<Slot>(), slot }
}

impl<L: Layout, P: Probe, K: Keys> NodeChanges for (L, P, K) {
    const VALUES_GROW: bool = false;
    type Input = K::Input;
    type Prepared<'p, M: Medium> = K::Prepared<'p, M>;
    type Ready<'a> = ();
    type Plan<'a> = K::Plan;
    const FILLS: bool = false;
    type FilledLeaves = Infallible;

    #[inline(always)]
    fn prepare<'p, M: Medium>(
        pool: &'p Pool<M>,
        key: &K::Key,
        value: &K::Input,
    ) -> Result<K::Prepared<'p, M>> {
        <K as ValueWrites>::prepare(pool, key, value)
    }

    #[inline(always)]
    fn ready<'a, M: Medium>(
        (): &mut (),
        at: &PutPoint<'_, Self>,
        (key, value): (&'a K::Key, &'a K::Input),
        _: Option<&K::Prepared<'_, M>>,
    ) -> InLeaf {
        let full = at.node.count() >= L::capacity::<M>(at.node.page().slots(), at.node.shape());
        match full && at.found.is_none() {
            true => InLeaf::NeedsRoom(asking(at.rank, K::plain_slot(key, value))),
            false if K::PLAIN => InLeaf::Ready,
            false => InLeaf::NeedsStep,
        }
    }

    #[inline(always)]
    fn put_in_leaf<'m, M: Medium>(
        m: &'m M,
        op: &mut M::Op<'m>,
        at: &PutPoint<'_, Self>,
        (key, value): (&K::Key, &K::Input),
        (): &(),
    ) {
        if let Some(slot) = K::plain_slot(key, value) {
            link(m, op, at, slot);
        }
    }

    #[inline(always)]
    fn plan<'s, 'p: 's, 'a, M: Medium>(
        step: &mut Step<'s, M>,
        at: &PutPoint<'_, Self>,
        _: (&'a K::Key, &'a K::Input),
        prepared: &'s K::Prepared<'p, M>,
    ) -> Result<K::Plan, Stop> {
        <K as ValueWrites>::plan(step, prepared, at.found)
    }

    #[inline(always)]
    fn put<'s, 'p: 's, M: Medium>(
        step: &mut Step<'s, M>,
        op: &mut M::Op<'s>,
        at: &PutPoint<'_, Self>,
        plan: &K::Plan,
        pair: (&K::Key, &K::Input),
        prepared: &'s K::Prepared<'p, M>,
    ) {
        let slot = <K as ValueWrites>::write(step, op, at.node.shape(), plan, pair, prepared);
        link(step.medium(), op, at, slot);
    }

    fn release<M: Medium>(step: &mut Step<'_, M>, slot: Slot) -> Result<(), Stop> {
        <K as ValueWrites>::release(step, slot)
    }

    #[inline(always)]
    fn remove<'m, M: Medium>(
        m: &'m M,
        op: &mut M::Op<'m>,
        page: Page<'_>,
        shape: Shape,
        pos: usize,
    ) {
        L::remove::<M, P>(m, page, shape, pos);
        notes::note_remove(m, op, page, pos);
    }

    fn plan_fill(
        _: &NodeAt<'_, Self>,
        _: &[(&K::Key, &K::Input)],
    ) -> Result<Option<Filling<Self>>> {
        Ok(None)
    }
    fn fill_leaf<'m, M: Medium>(
        _: &'m M,
        _: &mut M::Op<'m>,
        _: (Page<'_>, Page<'_>),
        leaves: &mut Infallible,
    ) {
        match *leaves {}
    }
}

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

impl<L: Layout, P: Probe, K: Keys> NodeRestructures for (L, P, K) {
    const LOGGED: bool = K::BYTES || L::LOGGED;
    const FIRST_SEPARATOR: Option<u64> = K::FIRST_SEPARATOR;
    type Child = PageNo;
    type Built = NewNode;
    type Entering<'a> = Slot;
    type PreparedSplit<'p, M: Medium> = SlotSplit<'p, M, K>;
    type SplitPlan = (K::SplitPlan, ImageNote);
    type MergePlan = SlotMerge;
    const GIVES: bool = L::LOCK_FREE && !K::BYTES;
    type GivePlan = SlotGift;
    const EVENS: bool = false;
    type EvenPlan = Infallible;

    fn new_leaf<M: Medium>(
        _: &Pool<M>,
        low: Option<&K::Key>,
        right: Option<(&K::Key, PageNo)>,
    ) -> Result<NewNode> {
        let word = |key: &K::Key| key.order().unwrap_or_default();
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
        let lowest = K::Key::lowest();
        let slots = [K::entry(shape, lowest.borrow(), left), K::entry(shape, separator, right)];
        let note = ImageNote::new::<M>(slots.len())?;
        Ok(NewNode { shape, low: 0, right: OPEN_END, slots, count: slots.len(), note })
    }

    #[inline(always)]
    fn child_at<M: Medium>(_: &Pool<M>, _: &K::Key, child: PageNo, _: bool) -> Result<PageNo> {
        Ok(child)
    }

    fn build<'m, M: Medium>(m: &'m M, op: &mut M::Op<'m>, page: Page<'_>, new: &mut NewNode) {
        let slots = &new.slots[..new.count];
        let image = SlotsImage { shape: new.shape, low: new.low, right: new.right, slots };
        L::build::<M, P>(m, page, &image);
        Streak::default().keep(page);
        notes::note_image(m, op, page, &image, &mut new.note);
        debug_assert!(Shape::of(page) == Some(new.shape) && Run::of(page).count == new.count);
    }

    #[inline(always)]
    fn new_entry<M: Medium>(
        at: &NodeAt<'_, Self>,
        rank: Rank,
        (separator, child): (&K::Key, PageNo),
    ) -> Result<ChildEntry<Slot>> {
        let is_full = at.count() >= L::capacity::<M>(at.page().slots(), at.shape());
        let slot = K::entry(at.shape(), separator, child);
        Ok(match is_full {
            true => ChildEntry::NeedsRoom(asking(rank, K::PLAIN.then_some(slot))),
            false => ChildEntry::Ready(slot),
        })
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
        Streak::goes_on(page, rank.le);
        notes::note_insert(m, op, page, rank.le, *slot);
    }

    fn stage<M: Medium>(at: &NodeAt<'_, Self>, _: &K::Key, _: usize) -> NodeRoom {
        let room = L::capacity::<M>(at.page().slots(), at.shape());
        NodeRoom { load: at.count(), room, entry: 1, gain: (room / 2).max(1) }
    }

    fn split_point(at: &NodeAt<'_, Self>, asking: Asking) -> Result<usize> {
        let count = at.count();
        if !Self::is_run(at, asking) {
            return Ok(count / 2);
        }
        // Without the entry itself the right node takes the last one along.
        let most = if asking.slot.is_some() { count } else { count - 1 };
        Ok(asking.rank.le.clamp(1, most))
    }

    fn prepare_split<'p, M: Medium>(
        pool: &'p Pool<M>,
        left: Page<'_>,
        shape: Shape,
        keep: usize,
        asking: Asking,
    ) -> Result<(OwnedOf<K>, SlotSplit<'p, M, K>)> {
        let run = Run::of(left);
        let begins = asking.slot.filter(|_| keep == run.count);
        debug_assert!(0 < keep && (keep < run.count || begins.is_some()), "the right node begins");
        let at = |pos| Slot::read(left, run.slot(left, pos));
        let (last, first) = (at(keep - 1), begins.unwrap_or_else(|| at(keep)));
        // All records are read before the step holds record pages.
        let cut = <K as KeySplits>::prepare_split(pool, left, shape, last, first)?;
        let right = Shape { prefix: K::right_prefix(&cut), ..shape };
        let mut slots = fallible::list(run.count - keep + 1, "a node")?;
        for pos in keep..run.count {
            slots.push(K::reshape(pool, at(pos), shape, right)?);
        }
        // A child is in a node from the moment on at which its key is within its bounds.
        slots.extend(begins.filter(|_| shape.level > 0));
        let separator = <K as KeySplits>::separator(&cut)?;
        Ok((separator, SlotSplit { cut, left: shape, keep, shape: right, slots }))
    }

    fn plan_split<'s, 'p: 's, M: Medium>(
        step: &mut Step<'s, M>,
        _: Page<'_>,
        prepared: &'s SlotSplit<'p, M, K>,
    ) -> Result<(K::SplitPlan, ImageNote), Stop> {
        let bounds = <K as KeySplits>::plan_split(step, &prepared.cut)?;
        Ok((bounds, ImageNote::new::<M>(prepared.slots.len())?))
    }

    fn split<'s, 'p: 's, M: Medium>(
        step: &mut Step<'s, M>,
        op: &mut M::Op<'s>,
        (left, right): (Page<'_>, Page<'_>),
        (plan, note): &mut (K::SplitPlan, ImageNote),
        prepared: &'s SlotSplit<'p, M, K>,
        under_log: &mut UnderLog<'_>,
    ) {
        let m = step.medium();
        let SplitBounds { high, high_record, low, right: bounds } =
            K::write_split(step, op, left, plan, &prepared.cut);
        let &SlotSplit { left: shape, keep, shape: right_shape, ref slots, .. } = prepared;
        Streak::part(left, right, (keep, Run::of(left).count));
        if keep == Run::of(left).count && !slots.is_empty() {
            Streak::goes_on(right, 0);
        }
        let image = SlotsImage { shape: right_shape, low, right: bounds, slots };
        L::build::<M, P>(m, right, &image);
        notes::note_image(m, op, right, &image, note);
        let to = RightBounds { sibling: right.no(), high, high_record };
        // The order of publishing: the right node is whole before anything leads to it.
        debug_assert!(sibling(left) != Some(right.no()) && Run::of(right).count == slots.len());
        under_log(&mut || L::trim::<M, P>(m, left, shape, keep, to));
        notes::note_trim(m, op, left, keep, to);
    }

    /// Not each removal asks: two nodes that are looked at each time lose less than a sixteenth of a
    /// node unseen.
    #[inline(always)]
    fn is_sparse(at: &NodeAt<'_, Self>) -> bool {
        let (count, slots) = (at.count(), at.page().slots());
        count <= room_for_two(slots) && count.is_multiple_of(slots / 32 + 1)
    }

    fn takes_another<M: Medium>(at: &NodeAt<'_, Self>) -> bool {
        at.count() < L::capacity::<M>(at.page().slots(), at.shape())
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

    fn plan_merge<M: Medium>(
        step: &mut Step<'_, M>,
        left: Page<'_>,
        right: Page<'_>,
        shape: Shape,
    ) -> Result<Option<SlotMerge>, Stop> {
        // All records are read before the step holds record pages.
        let pool = step.pool();
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
        <K as KeyBounds>::release_bound(step, left, right)?;
        Ok(Some(SlotMerge { left: shape, shape: merged_shape, bounds, slots, own, note }))
    }

    fn merge<'m, M: Medium>(
        m: &'m M,
        op: &mut M::Op<'m>,
        left: Page<'_>,
        plan: &mut SlotMerge,
        under_log: &mut UnderLog<'_>,
    ) {
        let SlotMerge { left: shape, shape: merged, bounds, slots, own, note } = plan;
        let low = left.head(LOW_WORD).load();
        let image = SlotsImage { shape: *merged, low, right: *bounds, slots };
        if K::BYTES {
            under_log(&mut || L::build::<M, P>(m, left, &image));
        } else {
            L::absorb::<M, P>(m, left, *shape, &slots[*own..], *bounds);
        }
        notes::note_image(m, op, left, &image, note);
    }

    fn should_give(left: &NodeAt<'_, Self>, right: &NodeAt<'_, Self>) -> bool {
        let slots = left.page().slots();
        Self::GIVES
            && right.level() == 0
            && give::share(left.count(), right.count(), slots).is_some()
    }

    fn plan_give<M: Medium>(siblings: &Siblings<'_>) -> Result<Option<SlotGift>> {
        if Self::GIVES { give::plan::<M>(siblings) } else { Ok(None) }
    }

    fn give<'m, M: Medium>(
        m: &'m M,
        op: &mut M::Op<'m>,
        siblings: &Siblings<'_>,
        gift: &mut SlotGift,
    ) {
        give::give::<M, L, P, K>(m, op, siblings, gift);
    }

    fn renew<M: Medium>(
        m: &M,
        at: &NodeAt<'_, Self>,
        pos: usize,
        (separator, child): (&K::Key, PageNo),
    ) -> bool {
        let slot = K::entry(at.shape(), separator, child);
        Self::GIVES && give::renew::<M, L, P, K>(m, at, pos, slot)
    }

    fn is_run(at: &NodeAt<'_, Self>, asking: Asking) -> bool {
        Streak::of(at.page()).is_long_at(asking.rank.le)
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

impl<L: Layout, P: Probe, K: Keys> NodeChecks for (L, P, K) {
    const HASH: u64 = L::HASH;
    const NEEDS_JOURNAL: bool = false;
    const NAME: &'static str = L::NAME;

    fn nodes() -> &'static str {
        std::any::type_name::<(L, P)>()
    }

    /// They go round in the body, which has a power of two of slots.
    fn fits(geometry: Geometry) -> bool {
        !geometry.is_whole()
    }

    fn redo<M: Medium>(m: &M, page: Page<'_>, change: Change<'_>) -> Result<()> {
        notes::redo::<M, L>(m, page, change)
    }

    fn first_touch<M: Medium>(m: &M, page: Page<'_>) -> Result<()> {
        debug_assert!(page.latch().is_held(), "the first touch of page {} is latched", page.no());
        let Some(shape) = Shape::of(page) else { return Ok(()) };
        let run = Run::of(page);
        // No crash leaves that, also where the count is not flushed with each change: a node is
        // flushed whole before anything names it, and each count stored later is within the node.
        if run.count > page.slots() {
            return Err(damaged(page, format!("count {} is above {}", run.count, page.slots())));
        }
        if !M::JOURNALED {
            L::recover(m, page, shape)?;
        }
        P::rebuild(page, Run::of(page), shape.key_word());
        Ok(())
    }

    fn flaw(page: Page<'_>, _: Shape) -> Option<(usize, String)> {
        let count = Run::of(page).count;
        let at = 8 * crate::node::RUN_WORD;
        (count > page.slots()).then(|| (at, format!("holds {count} entries")))
    }

    fn look<'m>(at: &NodeAt<'m, Self>, pos: usize) -> EntryView<'m, Self> {
        let p = at.view.run.slot(at.page(), pos);
        let entry = Slot::read(at.page(), p);
        EntryView { offset: LINE_BYTES + 16 * p, identity: Some(entry.ident), entry }
    }

    fn entry_fits(shape: Shape, slot: Slot, key: &OwnedOf<K>) -> bool {
        K::slot_fits(shape, slot, key)
    }

    fn bounds_fit(at: &NodeAt<'_, Self>, low: &OwnedOf<K>, high: Option<&OwnedOf<K>>) -> bool {
        <K as Inspect>::bounds_fit(at.page(), at.shape(), low, high)
    }

    fn bound_records(page: Page<'_>) -> [Option<RecordRef>; 2] {
        <K as Inspect>::bound_records(page)
    }
}

impl<L: Layout, P: Probe> NodeBytes for (L, P, Strings) {
    fn pair_into<M: Medium>(
        pool: &Pool<M>,
        shape: Shape,
        slot: Slot,
        key: &mut Vec<u8>,
        value: &mut Vec<u8>,
    ) -> Result<bool> {
        record::pair_into(pool, of::<Self>(shape, slot), key, value)
    }

    fn value_into<'p, M: Medium>(
        pool: &'p Pool<M>,
        shape: Shape,
        slot: Slot,
        value: &mut FoundValue,
    ) -> Result<StoredValue<(), LargeValue<'p, M>>> {
        record::value_into(pool, of::<Self>(shape, slot), value)
    }

    fn part_into<'p, M: Medium>(
        pool: &'p Pool<M>,
        shape: Shape,
        slot: Slot,
        from: u64,
        buf: &mut [u8],
    ) -> Result<StoredValue<usize, LargeValue<'p, M>>> {
        record::part_into(pool, of::<Self>(shape, slot), from, buf)
    }

    fn value_bytes<M: Medium>(pool: &Pool<M>, shape: Shape, slot: Slot) -> Result<u64> {
        record::value_bytes(pool, of::<Self>(shape, slot))
    }

    fn prepared<M: Medium>(large: Large<'_, M>) -> PendingRecord<'_, M> {
        PendingRecord::of_large(large)
    }
}

/// The record of a leaf's slot. One that no leaf has leads to no record, which reading it says.
fn of<'m, K: NodeReads<Entry<'m> = Slot>>(shape: Shape, slot: Slot) -> RecordRef {
    K::record(shape, slot).unwrap_or(RecordRef::from_bits(0))
}
