//! The writes of both sorted layouts to slots: they shift them one by one, line by line, so that a crash leaves
//! at most one slot half copied.
//!
//! A line is flushed and fenced before a store to the next one. Order within a slot
//! (docs/PAPERS.md, *Identity and payload*): an insert stores payload, then identity; a remove stores
//! identity, then payload. So a half-copied slot always shows as two neighbours with the same identity, and the
//! one that was copied *from* by an insert, or *to* by a remove, is the one to overwrite.

use everleaf_pmem::{LINE_BYTES, Medium, Page};
use everleaf_pool::kind::KIND_WORD;

use crate::node::{
    HIGH_RECORD_WORD, HIGH_WORD, LOW_WORD, RUN_WORD, RightBounds, Run, SIBLING_WORD, Shape, sibling,
};
use crate::slots::probe::Probe;

/// One slot's two words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// Unique in the node, has a void state.
    pub ident: u64,
    /// Any bits.
    pub payload: u64,
}

impl Slot {
    /// Reads physical slot `p`.
    #[inline(always)]
    pub fn read(page: Page<'_>, p: usize) -> Self {
        Self { ident: page.body(2 * p).load(), payload: page.body(2 * p + 1).load() }
    }
    /// The word that orders it among the slots of a node.
    #[inline(always)]
    pub fn key(self, shape: Shape) -> u64 {
        if shape.key_word() == 0 { self.ident } else { self.payload }
    }
}

/// A whole node: header and slots in order.
#[derive(Debug, Clone, Copy)]
pub struct SlotsImage<'a> {
    /// Level, kind of keys, prefix.
    pub shape: Shape,
    /// Inclusive lower bound: u64 key (0 = -infinity), or record of the low key (0 = -infinity).
    pub low: u64,
    /// Right-hand bounds.
    pub right: RightBounds,
    /// Slots in key order.
    pub slots: &'a [Slot],
}

/// Slots in a cache line.
pub(super) const PER_LINE: usize = 4;
const _: () = assert!(PER_LINE * size_of::<Slot>() == LINE_BYTES);

/// The order of the two stores of a copied slot.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    PayloadFirst,
    IdentFirst,
}

/// A node under its latch, with everything that the loops below need.
pub(super) struct NodeWriter<'m, M> {
    pub m: &'m M,
    pub page: Page<'m>,
    pub shape: Shape,
    pub run: Run,
}

impl<'m, M: Medium> NodeWriter<'m, M> {
    pub fn new(m: &'m M, page: Page<'m>, shape: Shape) -> Self {
        debug_assert!(page.latch().is_held(), "page {} changes without its latch", page.no());
        Self { m, page, shape, run: Run::of(page) }
    }

    /// Physical slot of a logical position, which may be -1.
    #[inline(always)]
    pub fn at(&self, pos: isize) -> usize {
        self.run.slot(self.page, pos.cast_unsigned())
    }

    #[inline(always)]
    pub fn write<P: Probe>(&self, p: usize, slot: Slot, order: Order) {
        let (ident, payload) = (self.page.body(2 * p), self.page.body(2 * p + 1));
        if order == Order::PayloadFirst {
            self.m.store(payload, slot.payload);
            self.m.store(ident, slot.ident);
        } else {
            self.m.store(ident, slot.ident);
            self.m.store(payload, slot.payload);
        }
        stored::<P>(self.page, p, slot.key(self.shape));
    }

    #[inline(always)]
    pub fn flush_slot(&self, p: usize) {
        self.m.flush(self.page, self.page.line_of(2 * p));
        self.m.fence();
    }

    pub fn flush_header(&self) {
        self.m.flush(self.page, 0);
        self.m.fence();
    }

    /// Copies logical positions `from` one slot to the left, in ascending order.
    #[inline(always)]
    pub fn shift_left<P: Probe>(&self, from: std::ops::Range<isize>, order: Order) {
        debug_assert!(from.start > 0 || self.run.count < self.page.slots(), "no room to the left");
        if !M::ORDERED {
            return self.shift_at_once::<P>(from, false);
        }
        for pos in from {
            let to = self.at(pos - 1);
            self.write::<P>(to, Slot::read(self.page, self.at(pos)), order);
            if to % PER_LINE == PER_LINE - 1 {
                self.flush_slot(to);
            }
        }
    }

    /// Copies logical positions `from` one slot to the right, in descending order.
    #[inline(always)]
    pub fn shift_right<P: Probe>(&self, from: std::ops::Range<isize>, order: Order) {
        if !M::ORDERED {
            return self.shift_at_once::<P>(from, true);
        }
        for pos in from.rev() {
            let to = self.at(pos + 1);
            self.write::<P>(to, Slot::read(self.page, self.at(pos)), order);
            if to.is_multiple_of(PER_LINE) {
                self.flush_slot(to);
            }
        }
    }

    /// Shifts where no crash can show the order of the stores.
    #[inline(always)]
    fn shift_at_once<P: Probe>(&self, from: std::ops::Range<isize>, right: bool) {
        let n = from.len();
        self.m.move_slots(self.page, self.at(from.start), n, right);
        if P::STRIDE == 0 {
            return;
        }
        let first = self.at(from.start + if right { 1 } else { -1 });
        P::moved(self.page, first, n, self.shape.key_word());
    }

    /// Makes the identity of physical slot `p` void.
    pub fn void<P: Probe>(&self, p: usize) {
        self.m.store(self.page.body(2 * p), void_ident(self.page, self.shape));
        if P::STRIDE != 0 && p.is_multiple_of(P::STRIDE) {
            P::cleared(self.page, p);
        }
    }

    /// Voids the last slot of the run, durably.
    #[inline(always)]
    pub fn void_last<P: Probe>(&self) {
        debug_assert!(self.run.count > 0, "an empty node has no last slot");
        let last = self.at(self.run.count.cast_signed() - 1);
        self.void::<P>(last);
        self.flush_slot(last);
    }

    /// Stores base and count; not flushed.
    #[inline(always)]
    pub fn set_run(&self, base: usize, count: usize) {
        debug_assert!(count <= self.page.slots());
        let run = Run { base: base & (self.page.slots() - 1), count };
        self.m.store(self.page.head(RUN_WORD), run.word());
    }

    /// Stores base and count, durably.
    pub fn commit(&self, base: usize, count: usize) {
        self.set_run(base, count);
        self.flush_header();
    }

    /// An inner node's free slot may hold a stale child whose separator lies outside the bounds;
    /// it must not come alive when a separator inside the bounds is stored beside it.
    #[inline(always)]
    pub fn clear_stale(&self, p: usize) {
        if self.shape.key_word() == 1 && self.page.body(2 * p).load() != 0 {
            self.m.store(self.page.body(2 * p), 0);
        }
    }

    /// Copies `slots` behind the last one of a merge's left node and voids all other free ones,
    /// durably. Nothing here is live until the bounds widen: what is copied lies beyond the old
    /// ones, and so does what a split left in the other free slots, which the wider bounds would
    /// bring to life.
    pub fn append_unseen<P: Probe>(&self, slots: &[Slot]) {
        let n = self.run.count;
        debug_assert!(n + slots.len() <= self.page.slots(), "two nodes that do not fit into one");
        let (void, mut dirty) = (void_ident(self.page, self.shape), None);
        for pos in n..self.page.slots() {
            let p = self.at(pos.cast_signed());
            match slots.get(pos - n) {
                Some(&slot) => self.write::<P>(p, slot, Order::PayloadFirst),
                None if !M::JOURNALED && self.page.body(2 * p).load() != void => self.void::<P>(p),
                None => continue,
            }
            let line = self.page.line_of(2 * p);
            if let Some(full) = dirty.replace(line).filter(|full| *full != line) {
                self.m.flush(self.page, full);
            }
        }
        if let Some(line) = dirty {
            self.m.flush(self.page, line);
        }
        self.m.fence();
    }

    /// Voids the slots from position `keep` on, which a split has moved, where only identities say
    /// which slots are void (byte strings); durable when it returns. Elsewhere the narrower bounds
    /// do that.
    pub fn scrub(&self, keep: usize) {
        debug_assert!(keep <= self.run.count);
        if M::JOURNALED || !self.shape.bytes {
            return;
        }
        for pos in keep..self.run.count {
            let p = self.at(pos.cast_signed());
            self.void::<crate::slots::probe::Binary>(p);
            self.m.flush(self.page, self.page.line_of(2 * p));
        }
        self.m.fence();
    }

    /// Voids what an earlier crash has left in free slots of a leaf of words from the key `low` on: a lower bound
    /// that goes down to there would bring it to life.
    pub fn scrub_above(&self, low: u64) {
        let old = self.page.head(LOW_WORD).load();
        debug_assert!(self.shape.key_word() == 0 && 0 < low && low < old);
        for p in (self.run.count..self.page.slots()).map(|pos| self.at(pos.cast_signed())) {
            if (low..old).contains(&self.page.body(2 * p).load()) {
                self.void::<crate::slots::probe::Binary>(p);
                self.flush_slot(p);
            }
        }
    }

    /// Narrows the bounds to the left half of a split; not flushed. A crash between the stores
    /// shows `high ≠ sibling.low`, and [`settle_high`](Self::settle_high) finishes. A node without
    /// a sibling gets `high` first: it has no meaning before the sibling is there, so readers that
    /// do not wait never see a new sibling without its bound.
    pub fn narrow(&self, to: RightBounds) {
        let (high, right) = (self.page.head(HIGH_WORD), self.page.head(SIBLING_WORD));
        if sibling(self.page).is_none() {
            self.m.store(high, to.high);
            self.set_high_record(to);
            self.m.store(right, u64::from(to.sibling));
        } else {
            self.m.store(right, u64::from(to.sibling));
            self.m.store(high, to.high);
            self.set_high_record(to);
        }
    }

    /// Widens the bounds over those of the right sibling (a merge); not flushed. A crash between
    /// the stores shows `high ≠ sibling.low` and is undone. A node that becomes the last one loses
    /// its sibling, which is the whole of the change.
    pub fn widen(&self, to: RightBounds) {
        let (high, right) = (self.page.head(HIGH_WORD), self.page.head(SIBLING_WORD));
        if to.sibling == 0 {
            // The upper bound has no meaning from now on. It stays, so that a reader who has seen
            // the sibling finds the bound that belongs to it.
            self.m.store(right, 0);
            self.set_high_record(to);
        } else {
            self.m.store(high, to.high);
            self.set_high_record(to);
            self.m.store(right, u64::from(to.sibling));
        }
    }

    fn set_high_record(&self, to: RightBounds) {
        if self.shape.bytes {
            self.m.store(self.page.head(HIGH_RECORD_WORD), to.high_record);
        }
    }

    /// Finishes a split, or undoes a merge, that a crash cut off between the stores of the bounds.
    ///
    /// # Errors
    /// Corrupt, if the sibling lies outside the pool.
    pub fn settle_high(&self) -> everleaf_pmem::Result<()> {
        let Some(right) = sibling(self.page).filter(|_| !self.shape.bytes) else { return Ok(()) };
        let low = self.m.page(right)?.head(LOW_WORD).load();
        if self.page.head(HIGH_WORD).load() != low {
            self.m.store(self.page.head(HIGH_WORD), low);
            self.flush_header();
        }
        Ok(())
    }
}

#[inline(always)]
fn stored<P: Probe>(page: Page<'_>, p: usize, head: u64) {
    if P::STRIDE != 0 && p.is_multiple_of(P::STRIDE) {
        P::stored(page, p, head);
    }
}

/// An identity that is void in the node: outside its bounds, or 0.
pub(super) fn void_ident(page: Page<'_>, shape: Shape) -> u64 {
    // A u64 leaf never has both bounds infinite, so one of the ends is outside.
    if shape.key_word() == 0 && page.head(LOW_WORD).load() == 0 { u64::MAX } else { 0 }
}

/// A node's bounds, read once.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Inclusive.
    pub low: u64,
    /// Exclusive; `None` is +infinity.
    pub high: Option<u64>,
}

impl Limits {
    /// Reads the bounds of a node of words.
    pub fn of(page: Page<'_>) -> Self {
        let high = sibling(page).map(|_| page.head(HIGH_WORD).load());
        Self { low: page.head(LOW_WORD).load(), high }
    }
    /// Whether a slot of a node with these bounds is void.
    pub fn is_void(self, shape: Shape, slot: Slot) -> bool {
        let inside = |key: u64| key >= self.low && self.high.is_none_or(|high| key < high);
        match (shape.key_word(), shape.bytes) {
            (0, _) => !inside(slot.ident),
            (_, false) => slot.ident == 0 || !inside(slot.payload),
            (_, true) => slot.ident == 0,
        }
    }
}

/// Writes a whole node with its first slot at the base 0; durable when it returns.
pub(super) fn build<M: Medium, P: Probe>(m: &M, page: Page<'_>, image: &SlotsImage<'_>) {
    let run = Run { base: 0, count: image.slots.len() };
    debug_assert!(run.count <= page.slots(), "more slots than the page has");
    m.store(page.head(KIND_WORD), image.shape.word());
    m.store(page.head(LOW_WORD), image.low);
    m.store(page.head(SIBLING_WORD), u64::from(image.right.sibling));
    m.store(page.head(HIGH_WORD), image.right.high);
    m.store(page.head(HIGH_RECORD_WORD), image.right.high_record);
    m.store(page.head(RUN_WORD), run.word());
    for (p, slot) in image.slots.iter().enumerate() {
        m.store(page.body(2 * p + 1), slot.payload);
        m.store(page.body(2 * p), slot.ident);
    }
    if !M::JOURNALED {
        let void = void_ident(page, image.shape);
        for p in image.slots.len()..page.slots() {
            m.store(page.body(2 * p), void);
        }
        for line in 0..=page.slots() / PER_LINE {
            m.flush(page, line);
        }
        m.fence();
    }
    P::rebuild(page, run, image.shape.key_word());
}
