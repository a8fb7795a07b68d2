//! FAIR's redistribution (FAST+FAIR §4.2): a leaf that removals have left sparse gets entries of its left neighbour, if
//! that is too full for a merge. In linear leaves of words, log-free.
//!
//! ```text
//! R      insert each entry before the first one, by FAST, the greatest first       void: below R.low
//!        low := the smallest of them; flush, fence                                 it commits
//! L      high := the same; flush, fence                                            a split does so, too
//! parent separator of R := the same; flush, fence
//! ```
//!
//! **Readers that do not wait** find each key at every moment. Before `low` goes down they find what is given in L only,
//! and skip the same in R: it is outside the bounds. Then it is in both, and it is the same. From the narrower `high` on
//! they are sent from L to R, whose `low` they have not read before. A reader that has read a bound before it moved
//! goes on with the old one, by which the state before can be read to the end: no slot of L changes. A reader of R meets
//! slots that move to the right, several times each; a key that was passed may be met again and is no other
//! ([`racing`](crate::slots::racing)). The parent comes last: a reader that is led to R finds it ready. Entries go to the
//! right only, so no search has to go to the left.
//!
//! **A crash** before `low` is durable leaves entries in R that are void: the first touch removes them
//! ([`linear`](crate::slots::linear)). After it, `L.high ≠ R.low` shows the same as a split that was cut off, and ends in the
//! same way, at the first touch of L: `high := R.low`. Then the parent leads to L what lies in R; a search
//! goes on to the right, and the next writer that does renews the separator, as it would enter a new node. Until then
//! the separator is greater than `R.low`, so a parent is not split there before it is renewed, and L and R do not merge.
//!
//! The paper says what is done, and the order only as "the reverse of a split". It moves the separator by an insert and
//! leaves open how the old one goes; ours is one store. Circular nodes have no such order: their base and count commit an
//! insert, and they do not say which slots are to be void until a bound moves. Inner nodes are merged, and not given to.

use everleaf_pmem::{Medium, Page, Result, fallible};

use crate::node::{NodeAt, RightBounds, Run, Shape, Siblings};
use crate::slots::notes::{self, ImageNote};
use crate::slots::{Keys, Layout, Probe, Slot, SlotsImage};

/// The gift of a leaf to its right neighbour.
pub struct SlotGift {
    /// How many entries stay.
    keep: usize,
    /// Those that go; where the medium has a journal, those of the right leaf behind them.
    slots: Vec<Slot>,
    note: ImageNote,
}

/// How many of the greatest entries of `left` should go to `right`, if any: so many that both have as many. A leaf is
/// sparse with a quarter of its slots, and its neighbour gives an eighth at least.
pub(super) fn share(left: usize, right: usize, slots: usize) -> Option<usize> {
    let share = left.saturating_sub(right) / 2;
    (right <= slots / 4 && share >= (slots / 8).max(1)).then_some(share)
}

pub(super) fn plan<M: Medium>(siblings: &Siblings<'_>) -> Result<Option<SlotGift>> {
    let Siblings { left, right, .. } = *siblings;
    let [own, others] = [left, right].map(Run::of);
    let Some(share) = share(own.count, others.count, left.slots()) else { return Ok(None) };
    let keep = own.count - share;
    let all = share + others.count;
    let (mut slots, note) = (fallible::list(all, "a gift")?, ImageNote::new::<M>(all)?);
    slots.extend((keep..own.count).map(|pos| Slot::read(left, own.slot(left, pos))));
    if M::JOURNALED {
        slots.extend((0..others.count).map(|pos| Slot::read(right, others.slot(right, pos))));
    }
    Ok(Some(SlotGift { keep, slots, note }))
}

pub(super) fn give<'m, M: Medium, L: Layout, P: Probe, K: Keys>(
    m: &'m M,
    op: &mut M::Op<'m>,
    siblings: &Siblings<'_>,
    gift: &mut SlotGift,
) {
    let Siblings { left, right, parent, entry } = *siblings;
    debug_assert!([left, right, parent].iter().all(|page| page.latch().is_held()));
    let shape = Shape { level: 0, bytes: K::BYTES, slotted: false, prefix: 0 };
    let SlotGift { keep, slots, note } = gift;
    let low = slots[0].key(shape);
    if M::JOURNALED {
        let image = SlotsImage { shape, low, right: RightBounds::of(right), slots };
        L::build::<M, P>(m, right, &image);
        notes::note_image(m, op, right, &image, note);
    } else {
        L::take_before::<M, P>(m, right, shape, slots, low);
    }
    let to = RightBounds { high: low, ..RightBounds::of(left) };
    debug_assert_eq!(to.sibling, right.no());
    L::trim::<M, P>(m, left, shape, *keep, to);
    notes::note_trim(m, op, left, *keep, to);
    set_separator::<M, P>(m, parent, entry, low);
    notes::note_payload(m, op, parent, entry, low);
}

/// Gives an entry of an inner node of words another separator, durably: one store.
fn set_separator<M: Medium, P: Probe>(m: &M, page: Page<'_>, pos: usize, separator: u64) {
    notes::store_payload(m, page, pos, separator);
    let p = Run::of(page).slot(page, pos);
    if P::STRIDE != 0 && p.is_multiple_of(P::STRIDE) {
        P::stored(page, p, separator);
    }
}

/// Renews a separator that is greater than the bound of its child.
pub(super) fn renew<M: Medium, L: Layout, P: Probe, K: Keys>(
    m: &M,
    at: &NodeAt<'_, (L, P, K)>,
    pos: usize,
    child: Slot,
) -> bool {
    let is_late = |slot: Slot| slot.ident == child.ident && slot.payload > child.payload;
    let late = pos < at.count() && is_late(at.entry(pos));
    if late {
        set_separator::<M, P>(m, at.page(), pos, child.payload);
    }
    late
}
