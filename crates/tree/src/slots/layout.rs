//! How slots are kept in a node.

use everleaf_pmem::{Medium, Page, Result};

use crate::node::{LOW_WORD, RightBounds, Run, Shape};
use crate::slots::probe::{Binary, Probe};
use crate::slots::writer::{self, NodeWriter, Slot, SlotsImage};

/// How slots are kept in a node. All functions run under the node's latch, on a page whose header
/// has been checked; positions are logical (0 = smallest key). Each flushes and fences as media
/// without a journal need it, and updates the probe `P` for the slots that it stores.
pub trait Layout: Send + Sync + 'static {
    /// The layout's name, which a pool remembers.
    const NAME: &'static str;
    /// A pool remembers this number, so that a build with another layout does not open it. It consists of
    /// the layout's name in ASCII, 16 for the bytes of a slot, and a version.
    const HASH: u64;
    /// Whether each 8-byte store leaves a node that [`racing`](crate::slots::racing) can read.
    const LOCK_FREE: bool;
    /// Whether splits on media without a journal keep an undo log, though the layout needs none.
    const LOGGED: bool = false;
    /// How many of the slots of a node can be live.
    fn capacity<M: Medium>(slots: usize, shape: Shape) -> usize;
    /// Inserts at `pos ≤ count`, which is below the capacity. Commits by one 8-byte store.
    fn insert<M: Medium, P: Probe>(m: &M, page: Page<'_>, shape: Shape, pos: usize, slot: Slot);
    /// Removes position `pos < count`.
    fn remove<M: Medium, P: Probe>(m: &M, page: Page<'_>, shape: Shape, pos: usize);
    /// Appends `slots` after the last position of a node whose bounds are about to widen to
    /// `high` and `sibling` (a merge), and then widens them: one fence, then one header line commits
    /// everything.
    fn absorb<M: Medium, P: Probe>(
        m: &M,
        page: Page<'_>,
        shape: Shape,
        slots: &[Slot],
        to: RightBounds,
    ) {
        let w = NodeWriter::new(m, page, shape);
        let n = w.run.count + slots.len();
        debug_assert!(n <= Self::capacity::<M>(page.slots(), shape));
        w.append_unseen::<Binary>(slots);
        w.widen(to);
        w.commit(w.run.base, n);
        P::rebuild(page, Run::of(page), shape.key_word());
    }
    /// Keeps the first `keep` slots and narrows the bounds: the left half of a split.
    fn trim<M: Medium, P: Probe>(
        m: &M,
        page: Page<'_>,
        shape: Shape,
        keep: usize,
        to: RightBounds,
    ) {
        let w = NodeWriter::new(m, page, shape);
        debug_assert!(keep <= w.run.count, "a split keeps a part of what is there");
        w.narrow(to);
        w.commit(w.run.base, keep);
        w.scrub(keep);
        P::rebuild(page, Run::of(page), shape.key_word());
    }
    /// Puts `slots` before the first position and lowers the lower bound to `low`: what the right leaf does in
    /// [a gift](crate::slots::give). Only of layouts that are [`LOCK_FREE`](Self::LOCK_FREE): there each insert is
    /// complete by itself, and one below the lower bound is void until that goes down.
    fn take_before<M: Medium, P: Probe>(
        m: &M,
        page: Page<'_>,
        shape: Shape,
        slots: &[Slot],
        low: u64,
    ) {
        debug_assert!(Self::LOCK_FREE, "an insert into this layout needs a commit");
        let w = NodeWriter::new(m, page, shape);
        debug_assert!(w.run.count + slots.len() <= Self::capacity::<M>(page.slots(), shape));
        w.scrub_above(low);
        for &slot in slots.iter().rev() {
            Self::insert::<M, P>(m, page, shape, 0, slot);
        }
        m.store(page.head(LOW_WORD), low);
        w.flush_header();
    }
    /// Writes a whole node that nobody can reach yet, or that a journal protects.
    fn build<M: Medium, P: Probe>(m: &M, page: Page<'_>, image: &SlotsImage<'_>) {
        writer::build::<M, P>(m, page, image);
    }
    /// Finishes what a crash left half done in this node. Reads the sibling's low key, else nothing
    /// but this page. Idempotent, and may itself be cut off by a crash.
    ///
    /// # Errors
    /// Corrupt, if no crash of this code can have left the node so.
    fn recover<M: Medium>(m: &M, page: Page<'_>, shape: Shape) -> Result<()>;
}
