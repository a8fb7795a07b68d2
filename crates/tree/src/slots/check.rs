//! What a check, a first touch and a redo ask of nodes of slots.

use everleaf_pmem::{Change, Geometry, LINE_BYTES, Medium, Page, Result};
use everleaf_pool::RecordRef;

use crate::damaged::damaged;
use crate::node::{EntryView, NodeChecks, Run, Shape};
use crate::slots::{Inspect, Keys, Layout, Probe, Slot, notes};

impl<L: Layout, P: Probe, K: Keys> NodeChecks for (L, P, K) {
    const HASH: u64 = L::HASH;
    const NAME: &'static str = L::NAME;

    fn nodes() -> &'static str {
        std::any::type_name::<(L, P)>()
    }

    /// They go round in the body, which has a power of two of slots.
    fn fits(geometry: Geometry) -> bool {
        !geometry.is_whole()
    }

    fn check_medium<M: Medium>() -> Result<()> {
        Ok(())
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

    fn look<'m>(page: Page<'m>, run: Run, pos: usize) -> EntryView<'m, Self> {
        let p = run.slot(page, pos);
        let entry = Slot::read(page, p);
        EntryView { offset: LINE_BYTES + 16 * p, identity: Some(entry.ident), entry }
    }

    fn entry_fits(shape: Shape, slot: Slot, key: &K::Owned) -> bool {
        K::slot_fits(shape, slot, key)
    }

    fn bounds_fit(page: Page<'_>, shape: Shape, low: &K::Owned, high: Option<&K::Owned>) -> bool {
        <K as Inspect>::bounds_fit(page, shape, low, high)
    }

    fn bound_records(page: Page<'_>) -> [Option<RecordRef>; 2] {
        <K as Inspect>::bound_records(page)
    }

    fn fill(page: Page<'_>, run: Run) -> (usize, usize) {
        (run.count, page.slots())
    }
}
