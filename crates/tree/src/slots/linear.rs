//! FAST: the failure-atomic shift in a linear node (FAST+FAIR §3), in the form whose duplicates are
//! told by keys and not by values (docs/PAPERS.md, *FAST-K*).
//!
//! ```text
//! insert(pos, x): copy slots n-1 … pos one to the right: payload, then identity, of each
//!                 write x at pos: payload, then identity             the last store commits
//! remove(pos):    copy slots pos+1 … n-1 one to the left: identity, then payload, of each
//!                 void slot n-1                                      the first store commits
//! slot i is void  if slot i+1 has its identity (the right one wins), or if it lies outside the
//!                 node's bounds
//! ```
//!
//! After each 8-byte store the node is one that a reader can use: it holds the state before or
//! after the change, and readers skip at most one void slot. So the change needs no commit of its
//! own and no header line: where the paper flushes L lines, so do we. How this departs from it:
//!
//! - The paper compares neighbouring *pointers*, so equal values hide a key and the value 0 ends the
//!   node (docs/PAPERS.md, F3, F4). Identities are unique in a node whatever the values are.
//! - Removing the first key is no special case: the paper's would store NULL into slot 0, the end
//!   of the node, for a moment (F7).
//! - The terminator is not shifted. Every slot outside the run is void to begin with, so there is
//!   always one behind the last slot; `N - 1` slots are used.
//! - The count in the header serves writers and is not flushed; the first touch after an open
//!   counts anew (the paper's `last_index` is trusted, F9).
//! - A line is flushed when the *next* one is about to be stored to, in both directions, and the last
//!   one at the end (F8).
//!
//! A crash leaves at most one slot whose right neighbour has its identity, and in front of the others slots that
//! were being [given](crate::slots::give) and lie below the node's bounds; these are removed.
//! Both changes that leave the former are settled by moving what is behind it to the left: that undoes an
//! insert, which had not committed, and ends a remove, which had. Each state on the way is again
//! one of those, so a crash in the repair needs nothing else.
//!
//! [`Logged`] is a layout whose splits are logged: the control of FAST+FAIR's experiments (§6, *FAST+Logging*),
//! which shows what a split without a log saves. All else is the layout inside.

use std::marker::PhantomData;

use everleaf_pmem::{Medium, Page, Result};

use crate::node::{Run, Shape, damaged};
use crate::slots::layout::Layout;
use crate::slots::probe::{Binary, Probe};
use crate::slots::writer::Slot;
use crate::slots::writer::{Limits, NodeWriter, Order, void_ident};

/// Sorted slots from the first one on; no commit but the stores themselves.
#[derive(Debug, Clone, Copy)]
pub struct Linear;

impl Layout for Linear {
    const NAME: &'static str = "linear";
    const HASH: u64 = 0x6c69_6e65_0010_0001;
    const LOCK_FREE: bool = true;

    /// All but one, which ends the node for readers that do not wait.
    #[inline(always)]
    fn capacity<M: Medium>(slots: usize, _: Shape) -> usize {
        slots - 1
    }

    #[inline]
    fn insert<M: Medium, P: Probe>(m: &M, page: Page<'_>, shape: Shape, pos: usize, slot: Slot) {
        let w = NodeWriter::new(m, page, shape);
        let n = w.run.count;
        debug_assert!(pos <= n && n < Self::capacity::<M>(page.slots(), shape));
        w.clear_stale(n);
        w.shift_right::<P>(pos.cast_signed()..n.cast_signed(), Order::PayloadFirst);
        w.write::<P>(pos, slot, Order::PayloadFirst);
        w.flush_slot(pos);
        w.set_run(0, n + 1);
    }

    #[inline]
    fn remove<M: Medium, P: Probe>(m: &M, page: Page<'_>, shape: Shape, pos: usize) {
        let w = NodeWriter::new(m, page, shape);
        let n = w.run.count;
        debug_assert!(pos < n);
        page.latch().turn_leftward();
        w.shift_left::<P>(pos.cast_signed() + 1..n.cast_signed(), Order::IdentFirst);
        w.void_last::<P>();
        w.set_run(0, n - 1);
    }

    fn recover<M: Medium>(m: &M, page: Page<'_>, shape: Shape) -> Result<()> {
        let mut w = NodeWriter::new(m, page, shape);
        w.settle_high()?;
        let limits = Limits::of(page);
        let void = |p: usize| limits.is_void(shape, Slot::read(page, p));
        let ident = |p: usize| page.body(2 * p).load();
        let empty = void_ident(page, shape);
        let is_gift =
            |p: &usize| shape.key_word() == 0 && ident(*p) != empty && ident(*p) < limits.low;
        let in_front = (0..page.slots()).take_while(is_gift).count();
        let ungiven = if in_front < page.slots() && !void(in_front) { in_front } else { 0 };
        let n = (ungiven..page.slots()).find(|&p| void(p)).unwrap_or(page.slots());
        if n == page.slots() {
            return Err(damaged(page, "no slot is free: a linear node has one"));
        }
        if (n..page.slots()).any(|p| !void(p)) {
            return Err(damaged(page, "live slots are not one run"));
        }
        // The count is not durable by itself; here it serves what follows.
        if (w.run != Run { base: 0, count: n }) {
            w.set_run(0, n);
            w.run = Run { base: 0, count: n };
        }
        let copied = (ungiven + 1..n).find(|&p| ident(p - 1) == ident(p));
        for p in copied.into_iter().chain((0..ungiven).map(|_| 1)) {
            w.shift_left::<Binary>(p.cast_signed()..w.run.count.cast_signed(), Order::IdentFirst);
            w.void_last::<Binary>();
            w.run.count -= 1;
            w.set_run(0, w.run.count);
        }
        Ok(())
    }
}

/// `L`, with the undo log of [`blink`](crate::blink) around each split on media without a journal.
#[derive(Debug, Clone, Copy)]
pub struct Logged<L>(PhantomData<L>);

impl<L: Layout> Layout for Logged<L> {
    layout_as!(L: NAME, LOCK_FREE, capacity, insert, remove, absorb, take_before, trim, build, recover);
    // A pool whose trees have logs: only a tree that looks at them may open it.
    const HASH: u64 = L::HASH | 1 << 24;
    const LOGGED: bool = true;
}
