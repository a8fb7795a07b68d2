//! Reading a linear node beside the writer that is changing it (FAST+FAIR §5): no wait, no latch.
//!
//! ```text
//! slot i    identity, identity of i+1, payload, again both identities: changed? read it again
//!           equal identities: void, the right one counts
//! insert    slots move to the right: read from left to right, so that none slips past
//! remove    slots move to the left: read from right to left
//! ```
//!
//! One writer is inside for as long as the latch word stays as it was seen, and the word says in
//! which direction it moves; the caller validates the word afterwards, so nothing here has to
//! notice a second writer. The identities are read on both sides of the payload: in an insert the
//! payload is stored first, and the right neighbour's identity shows that the slot is void by then;
//! in a remove the identity is stored first, and shows its equal until the payload has followed.
//! The paper reads the left neighbour before the slot itself and can return the value of another
//! key (docs/PAPERS.md, F5); in an inner node it can skip a void slot and then take a child too far
//! to the right (F6), which the child's lower bound tells the caller.
//!
//! Behind the last slot of an inner node lies what was there before, void by its separator. Should its
//! child be that of the last slot, the last slot looks void to a reader, who then goes to the child
//! before and from there along the siblings: a longer way, not another answer.
//!
//! An entry that is read may not be durable yet: a crash can take back what was returned (F16).

use everleaf_pmem::{Page, Result, fallible};

use crate::node::{Run, Shape};
use crate::slots::writer::Limits;
use crate::slots::writer::Slot;

/// A slot, as a reader meets it.
enum RacingSlot {
    Live(Slot),
    /// Half copied, so that its right neighbour counts; or outside the bounds.
    Void,
}

/// A node that a writer is changing, as a reader meets it. The bounds are read once, before any
/// slot: a split or merge that moves them meanwhile leaves every slot within the old ones where it
/// is, so a reader who goes on with those reads the state before.
#[derive(Clone, Copy)]
pub struct Racing<'m> {
    page: Page<'m>,
    /// The node's shape.
    pub shape: Shape,
    leftward: bool,
    /// The bounds as they were at first.
    pub limits: Limits,
}

impl<'m> Racing<'m> {
    /// A node of words; `leftward` if its latch says so.
    pub fn new(page: Page<'m>, shape: Shape, leftward: bool) -> Self {
        debug_assert!(!shape.bytes, "only nodes of words are read beside a writer");
        Self { page, shape, leftward, limits: Limits::of(page) }
    }

    fn read(&self, p: usize) -> RacingSlot {
        let ident = |p: usize| self.page.body(2 * p).load();
        let next = |p: usize| if p + 1 < self.page.slots() { Some(ident(p + 1)) } else { None };
        loop {
            let (own, right) = (ident(p), next(p));
            let slot = Slot { ident: own, payload: self.page.body(2 * p + 1).load() };
            // The writer has moved this slot just now: it moves each slot a few times at most while it is inside.
            if (next(p), ident(p)) != (right, own) {
                continue;
            }
            return match () {
                () if self.limits.is_void(self.shape, slot) || right == Some(own) => {
                    RacingSlot::Void
                }
                () => RacingSlot::Live(slot),
            };
        }
    }

    /// Calls `f` with each live slot: in ascending order of keys, or descending if the writer moves to the left, until
    /// it answers false. A key that is there all the time is met; one that comes or goes meanwhile may be. A key that has
    /// been met may be met again, also behind a greater key: a [gift](crate::slots::give) moves all slots several times.
    fn each(&self, mut f: impl FnMut(Slot) -> bool) {
        let slots = self.page.slots();
        if self.leftward {
            for p in (0..Run::of(self.page).count.min(slots)).rev() {
                match self.read(p) {
                    RacingSlot::Live(slot) if !f(slot) => return,
                    _ => {}
                }
            }
        } else {
            for p in 0..slots {
                match self.read(p) {
                    RacingSlot::Live(slot) if !f(slot) => return,
                    _ => {}
                }
            }
        }
    }

    /// The slot with the greatest key that `below` holds for; it must hold for all smaller keys,
    /// too. O(slots).
    pub fn last_below(&self, below: impl Fn(u64) -> bool) -> Option<Slot> {
        let mut best = None;
        self.each(|slot| {
            let is_below = below(slot.key(self.shape));
            if is_below {
                best = Some(slot);
            }
            // Ascending: on while it holds. Descending: on until it does.
            is_below != self.leftward
        });
        best
    }

    /// All slots in the order of their keys. O(slots).
    ///
    /// # Errors
    /// [`Error::NoMemory`](everleaf_pmem::Error::NoMemory).
    pub fn slots(&self) -> Result<Vec<Slot>> {
        let mut slots: Vec<Slot> = fallible::list(self.page.slots(), "the slots of a node")?;
        let key = |slot: &Slot| slot.key(self.shape);
        self.each(|slot| {
            let goes_on = |last: &Slot| match self.leftward {
                true => key(&slot) < key(last),
                false => key(last) < key(&slot),
            };
            if slots.last().is_none_or(goes_on) {
                slots.push(slot);
            }
            true
        });
        if self.leftward {
            slots.reverse();
        }
        Ok(slots)
    }
}
