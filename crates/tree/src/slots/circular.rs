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
//! How slots are shifted line by line is in `writer`.
//!
//! The states that a crash leaves, with `live` = slots that are not void and `n` = the committed count:
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
//! crash can turn into loss (docs/PAPERS.md, C10); here everything is finished in the direction in
//! which it ran, so each state of the repair is again one of the states above.

use everleaf_pmem::{Medium, Page, Result};

use crate::node::{Run, Shape, damaged};
use crate::slots::layout::Layout;
use crate::slots::probe::{Binary, Probe};
use crate::slots::writer::Slot;
use crate::slots::writer::{Limits, NodeWriter, Order};

/// Sorted circular slots, one 8-byte commit.
#[derive(Debug, Clone, Copy)]
pub struct Circular;

impl<M: Medium> NodeWriter<'_, M> {
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
        self.void_last::<P>();
        self.commit(base, count);
    }
}

impl Layout for Circular {
    const NAME: &'static str = "circular";
    const HASH: u64 = 0x6369_7263_0010_0001;
    const LOCK_FREE: bool = false;

    /// All slots. Byte strings on media without a journal leave one free: whether an insert into
    /// the last one went left or right is told by the order of the keys, which words of slots do not
    /// decide alone there.
    #[inline(always)]
    fn capacity<M: Medium>(slots: usize, shape: Shape) -> usize {
        if !M::JOURNALED && shape.bytes { slots - 1 } else { slots }
    }

    #[inline]
    fn insert<M: Medium, P: Probe>(m: &M, page: Page<'_>, shape: Shape, pos: usize, slot: Slot) {
        let w = NodeWriter::new(m, page, shape);
        let (n, at) = (w.run.count, pos.cast_signed());
        debug_assert!(pos <= n && n < Self::capacity::<M>(page.slots(), shape));
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
        let w = NodeWriter::new(m, page, shape);
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

    fn recover<M: Medium>(m: &M, page: Page<'_>, shape: Shape) -> Result<()> {
        let w = NodeWriter::new(m, page, shape);
        w.settle_high()?;
        let limits = Limits::of(page);
        let live: Vec<bool> =
            (0..page.slots()).map(|p| !limits.is_void(shape, Slot::read(page, p))).collect();
        recover_run(&w, &live)
    }
}

/// Finds the run of live slots and finishes what was under way in it.
fn recover_run<M: Medium>(w: &NodeWriter<'_, M>, live: &[bool]) -> Result<()> {
    let (slots, total) = (live.len(), live.iter().filter(|l| **l).count());
    let Run { base, count: n } = w.run;
    let damaged =
        |what: &str| Err(damaged(w.page, format!("{what} ({total} live slots, count {n})")));
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
fn outer<M: Medium>(w: &NodeWriter<'_, M>) -> usize {
    w.at(-1)
}

/// The physical slot where the run of live slots begins; `None` if they are not one run.
fn first_live<M: Medium>(w: &NodeWriter<'_, M>, live: &[bool], total: usize) -> Option<usize> {
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
fn finish_shift<M: Medium>(w: &NodeWriter<'_, M>, total: usize, start: usize, pair: usize) -> bool {
    let Run { base, count: n } = w.run;
    let (end, at) = (n.cast_signed(), pair.cast_signed());
    if total == n + 1 && start == base {
        // An insert was shifting to the right; slot `pair` is the hole.
        w.shift_right::<Binary>(0..at, Order::PayloadFirst);
        w.close_first::<Binary>(n);
    } else if total == n + 1 && start == outer(w) {
        // An insert was shifting to the left; seen from the base, position `pair` is the hole.
        w.shift_left::<Binary>(at + 1..end, Order::PayloadFirst);
        w.close_last::<Binary>(start, n);
    } else if total == n && start == base && pair >= n.div_ceil(2) {
        w.shift_left::<Binary>(at + 1..end, Order::IdentFirst);
        w.close_last::<Binary>(base, n - 1);
    } else if total == n && start == base {
        w.shift_right::<Binary>(0..at + 1, Order::IdentFirst);
        w.close_first::<Binary>(n - 1);
    } else {
        return false;
    }
    true
}
