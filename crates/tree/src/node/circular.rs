//! Circ-Tree's node (Circ-Tree, journal version §5.1–5.5): a sorted array seen as a circle.
//!
//! ```text
//! insert(pos, x): if pos < n - pos  copy slots 0 … pos-1 one to the left,   base := base - 1
//!                 else              copy slots n-1 … pos one to the right
//!                 write x at pos; commit (base, n + 1) by one 8-byte store
//! remove(pos):    if pos ≥ ⌈n/2⌉    copy slots pos+1 … n-1 one to the left
//!                 else              copy slots pos-1 … 0 one to the right,  base := base + 1
//!                 void the outer slot; commit (base, n - 1)
//! ```
//!
//! A line is flushed and fenced before a store to the next one, so at a crash at most one slot of
//! the shift is half copied. Order within a slot (errata, *identity/payload rule*): an insert
//! stores payload, then identity; a remove stores identity, then payload. So a half-copied slot
//! always shows as two neighbours with the same identity, and the one that was copied *from* an
//! insert, or *to* by a remove, is the one to overwrite.
//!
//! What a crash leaves, with `live` = slots that are not void and `n` = the committed count:
//!
//! ```text
//! live = n+1, all identities differ   insert written, not committed     commit it
//! live = n+1, a pair is equal         insert was shifting               shift on to the end: undone
//! live = n,   a pair is equal         remove was shifting               shift on to the end: done
//! live = n-1                          remove voided, not committed      commit it
//! high ≠ sibling.low                  split or merge                    high := sibling.low, as above
//! ```
//!
//! The paper undoes an insert by shifting back from the logical leftmost slot, which a second
//! crash can turn into loss (errata C10); here everything is finished in the direction in which it
//! ran, so each state of the repair is again one of the states above.

use everleaf_pmem::{Error, Medium, Page, Result};

use super::{
    Bounds, HIGH_RECORD_WORD, HIGH_WORD, Image, LOW_WORD, Layout, Probe, RUN_WORD, Run,
    SIBLING_WORD, Scan, Shape, Slot, sibling,
};
use everleaf_pool::kind::KIND_WORD;

const PER_LINE: usize = 4;

/// Sorted circular slots, one 8-byte commit.
#[derive(Debug, Clone, Copy)]
pub struct Circular;

/// The order of the two stores of a copied slot.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    PayloadFirst,
    IdentFirst,
}

/// A node under its latch, with everything that the loops below need.
struct Writer<'m, M> {
    m: &'m M,
    page: Page<'m>,
    shape: Shape,
    run: Run,
}

impl<'m, M: Medium> Writer<'m, M> {
    fn new(m: &'m M, page: Page<'m>, shape: Shape) -> Self {
        Self { m, page, shape, run: Run::of(page) }
    }

    /// Physical slot of a logical position, which may be -1.
    #[inline(always)]
    fn at(&self, pos: isize) -> usize {
        self.run.slot(self.page, pos.cast_unsigned())
    }

    #[inline(always)]
    fn write<P: Probe>(&self, p: usize, slot: Slot, order: Order) {
        let (ident, payload) = (self.page.body(2 * p), self.page.body(2 * p + 1));
        if order == Order::PayloadFirst {
            self.m.store(payload, slot.payload);
            self.m.store(ident, slot.ident);
        } else {
            self.m.store(ident, slot.ident);
            self.m.store(payload, slot.payload);
        }
        P::stored(self.page, p, if self.shape.key_word() == 0 { slot.ident } else { slot.payload });
    }

    #[inline(always)]
    fn flush_slot(&self, p: usize) {
        self.m.flush(self.page, self.page.line_of(2 * p));
        self.m.fence();
    }

    fn flush_header(&self) {
        self.m.flush(self.page, 0);
        self.m.fence();
    }

    /// Copies logical positions `from` one slot to the left, in ascending order.
    fn shift_left<P: Probe>(&self, from: std::ops::Range<isize>, order: Order) {
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
    fn shift_right<P: Probe>(&self, from: std::ops::Range<isize>, order: Order) {
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
        // The aid has a word for each slot that starts a line.
        let first = self.at(from.start + if right { 1 } else { -1 });
        let mut i = first.wrapping_neg() % PER_LINE;
        while i < n {
            let p = (first + i) & (self.page.slots() - 1);
            P::stored(self.page, p, self.page.body(2 * p + self.shape.key_word()).load());
            i += PER_LINE;
        }
    }

    /// Makes the identity of physical slot `p` void.
    fn void<P: Probe>(&self, p: usize) {
        self.m.store(self.page.body(2 * p), void_ident(self.page, self.shape));
        P::cleared(self.page, p);
    }

    fn commit(&self, base: usize, count: usize) {
        let run = Run { base: base & (self.page.slots() - 1), count };
        self.m.store(self.page.head(RUN_WORD), run.word());
        self.flush_header();
    }

    /// Voids the first slot and commits what is behind it.
    #[inline(always)]
    fn close_first<P: Probe>(&self, count: usize) {
        self.void::<P>(self.run.base);
        self.flush_slot(self.run.base);
        self.commit(self.at(1), count);
    }

    /// Voids the last slot and commits what is before it.
    #[inline(always)]
    fn close_last<P: Probe>(&self, base: usize, count: usize) {
        let last = self.at(self.run.count.cast_signed() - 1);
        self.void::<P>(last);
        self.flush_slot(last);
        self.commit(base, count);
    }

    fn bounds(&self, to: Bounds) {
        // High before sibling: a crash between them shows high ≠ sibling.low and is undone.
        self.m.store(self.page.head(HIGH_WORD), to.high);
        if self.shape.bytes {
            self.m.store(self.page.head(HIGH_RECORD_WORD), to.high_record);
        }
        self.m.store(self.page.head(SIBLING_WORD), u64::from(to.sibling));
    }

    /// An inner node's free slot may hold a stale child whose separator lies outside the bounds;
    /// it must not come alive when a separator inside the bounds is stored beside it.
    #[inline(always)]
    fn clear_stale(&self, p: usize) {
        if self.shape.key_word() == 1 && self.page.body(2 * p).load() != 0 {
            self.m.store(self.page.body(2 * p), 0);
        }
    }
}

/// An identity that is void in the node: outside its bounds, or 0.
fn void_ident(page: Page<'_>, shape: Shape) -> u64 {
    // A u64 leaf never has both bounds infinite, so one of the ends is outside.
    if shape.key_word() == 0 && page.head(LOW_WORD).load() == 0 { u64::MAX } else { 0 }
}

/// Whether a slot is void in a node with these bounds.
fn is_void(page: Page<'_>, shape: Shape, slot: Slot) -> bool {
    let low = page.head(LOW_WORD).load();
    let inside =
        |key: u64| key >= low && (sibling(page).is_none() || key < page.head(HIGH_WORD).load());
    match (shape.key_word(), shape.bytes) {
        (0, _) => !inside(slot.ident),
        (_, false) => slot.ident == 0 || !inside(slot.payload),
        (_, true) => slot.ident == 0,
    }
}

impl Layout for Circular {
    #[inline]
    fn insert<M: Medium, P: Probe>(m: &M, page: Page<'_>, shape: Shape, pos: usize, slot: Slot) {
        let w = Writer::new(m, page, shape);
        let (n, at) = (w.run.count, pos.cast_signed());
        debug_assert!(pos <= n && n < page.slots());
        if pos < n - pos {
            w.clear_stale(w.at(-1));
            w.shift_left::<P>(0..at, Order::PayloadFirst);
            let p = w.at(at - 1);
            w.write::<P>(p, slot, Order::PayloadFirst);
            w.flush_slot(p);
            w.commit(w.at(-1), n + 1);
        } else {
            w.clear_stale(w.at(n.cast_signed()));
            w.shift_right::<P>(at..n.cast_signed(), Order::PayloadFirst);
            let p = w.at(at);
            w.write::<P>(p, slot, Order::PayloadFirst);
            w.flush_slot(p);
            w.commit(w.run.base, n + 1);
        }
    }

    #[inline]
    fn remove<M: Medium, P: Probe>(m: &M, page: Page<'_>, shape: Shape, pos: usize) {
        let w = Writer::new(m, page, shape);
        let (n, at) = (w.run.count, pos.cast_signed());
        debug_assert!(pos < n);
        if pos >= n.div_ceil(2) {
            w.shift_left::<P>(at + 1..n.cast_signed(), Order::IdentFirst);
            w.close_last::<P>(w.run.base, n - 1);
        } else {
            w.shift_right::<P>(0..at, Order::IdentFirst);
            w.close_first::<P>(n - 1);
        }
    }

    fn absorb<M: Medium, P: Probe>(
        m: &M,
        page: Page<'_>,
        shape: Shape,
        slots: &[Slot],
        to: Bounds,
    ) {
        let w = Writer::new(m, page, shape);
        let n = w.run.count;
        debug_assert!(n + slots.len() <= page.slots());
        // Nothing here is live until the bounds widen: what is copied lies beyond the old ones, and
        // so does what a split left in the other free slots, which the wider bounds would bring to
        // life. One fence, then one header line commits everything.
        let (void, mut dirty) = (void_ident(page, shape), None);
        for pos in n..page.slots() {
            let p = w.at(pos.cast_signed());
            match slots.get(pos - n) {
                Some(&slot) => w.write::<Scan>(p, slot, Order::PayloadFirst),
                None if !M::JOURNALED && page.body(2 * p).load() != void => w.void::<Scan>(p),
                None => continue,
            }
            let line = page.line_of(2 * p);
            if let Some(full) = dirty.replace(line).filter(|full| *full != line) {
                m.flush(page, full);
            }
        }
        if let Some(line) = dirty {
            m.flush(page, line);
        }
        m.fence();
        w.bounds(to);
        w.commit(w.run.base, n + slots.len());
        P::rebuild(page, Run::of(page), shape.key_word());
    }

    fn trim<M: Medium, P: Probe>(m: &M, page: Page<'_>, shape: Shape, keep: usize, to: Bounds) {
        let w = Writer::new(m, page, shape);
        // Sibling first: from then on a crash shows high ≠ sibling.low and is finished.
        m.store(page.head(SIBLING_WORD), u64::from(to.sibling));
        m.store(page.head(HIGH_WORD), to.high);
        if shape.bytes {
            m.store(page.head(HIGH_RECORD_WORD), to.high_record);
        }
        w.commit(w.run.base, keep);
        P::rebuild(page, Run::of(page), shape.key_word());
    }

    fn build<M: Medium, P: Probe>(m: &M, page: Page<'_>, image: &Image<'_>) {
        let run = Run { base: 0, count: image.slots.len() };
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

    fn recover<M: Medium>(m: &M, page: Page<'_>, shape: Shape) -> Result<()> {
        let w = Writer::new(m, page, shape);
        if let Some(right) = sibling(page) {
            let low = m.page(right)?.head(LOW_WORD).load();
            if page.head(HIGH_WORD).load() != low {
                m.store(page.head(HIGH_WORD), low);
                w.flush_header();
            }
        }
        let live: Vec<bool> =
            (0..page.slots()).map(|p| !is_void(page, shape, Slot::read(page, p))).collect();
        recover_run(&w, &live)
    }
}

/// Finds the run of live slots and finishes what was under way in it.
fn recover_run<M: Medium>(w: &Writer<'_, M>, live: &[bool]) -> Result<()> {
    let (slots, total) = (live.len(), live.iter().filter(|l| **l).count());
    let Run { base, count: n } = w.run;
    let damaged = |what: &str| {
        Err(Error::corrupt(
            u64::from(w.page.no()) * w.page.geometry().page_bytes() as u64,
            format!("page {}: {what} ({total} live slots, count {n})", w.page.no()),
        ))
    };
    if total == 0 {
        if n > 1 {
            return damaged("all slots are void");
        }
        if n == 1 {
            w.commit(base, 0);
        }
        return Ok(());
    }
    let Some(start) = first_live(w, live, total) else {
        return damaged("live slots are not one run");
    };
    let ident = |i: usize| w.page.body(2 * ((start + i) & (slots - 1))).load();
    match (0..total - 1).find(|&i| ident(i) == ident(i + 1)) {
        None if (Run { base: start, count: total }) != w.run => w.commit(start, total),
        None => {}
        Some(pair) if finish_shift(w, total, start, pair) => {}
        Some(_) => return damaged("two slots have one identity"),
    }
    Ok(())
}

/// The slot before the base: where a shift to the left begins.
fn outer<M: Medium>(w: &Writer<'_, M>) -> usize {
    w.at(-1)
}

/// The physical slot where the run of live slots begins; `None` if they are not one run.
fn first_live<M: Medium>(w: &Writer<'_, M>, live: &[bool], total: usize) -> Option<usize> {
    let slots = live.len();
    if total < slots {
        let mut starts = (0..slots).filter(|&p| live[p] && !live[(p + slots - 1) % slots]);
        return starts.next().filter(|_| starts.next().is_none());
    }
    // When only one slot was free, both directions used the same one: keys tell which.
    let key = |p: usize| w.page.body(2 * p + w.shape.key_word()).load();
    let to_left = w.run.count + 1 == slots && key(outer(w)) <= key(w.run.base);
    Some(if to_left { outer(w) } else { w.run.base })
}

/// Finishes the shift that left the live slots `pair` and `pair + 1` with one identity; false if no
/// shift leaves that.
fn finish_shift<M: Medium>(w: &Writer<'_, M>, total: usize, start: usize, pair: usize) -> bool {
    let Run { base, count: n } = w.run;
    let (end, at) = (n.cast_signed(), pair.cast_signed());
    if total == n + 1 && start == base {
        // An insert was shifting to the right; slot `pair` is the hole.
        w.shift_right::<Scan>(0..at, Order::PayloadFirst);
        w.close_first::<Scan>(n);
    } else if total == n + 1 && start == outer(w) {
        // An insert was shifting to the left; seen from the base, position `pair` is the hole.
        w.shift_left::<Scan>(at + 1..end, Order::PayloadFirst);
        w.close_last::<Scan>(start, n);
    } else if total == n && start == base && pair >= n.div_ceil(2) {
        w.shift_left::<Scan>(at + 1..end, Order::IdentFirst);
        w.close_last::<Scan>(base, n - 1);
    } else if total == n && start == base {
        w.shift_right::<Scan>(0..at + 1, Order::IdentFirst);
        w.close_first::<Scan>(n - 1);
    } else {
        return false;
    }
    true
}
