//! Pairs on their way into leaves of slots and out of them: one by one, since on media without a journal each store is
//! a step of its own.

use std::convert::Infallible;

use everleaf_pmem::{Medium, Page, Result};
use everleaf_pool::{Large, Pool, Step, Stop};

use crate::node::{Asking, NodeFills, NodeStreams, NodeWrites, PutPoint, Run, Shape};
use crate::record::PendingRecord;
use crate::slots::{Keys, Layout, Probe, Slot, Strings, ValueWrites, notes};

/// Puts a slot into its place in a leaf: over the old one with the same key, or between two.
#[inline(always)]
fn link<'s, M: Medium, L: Layout, P: Probe, K: Keys>(
    m: &'s M,
    op: &mut M::Op<'s>,
    at: &PutPoint<'_, (L, P, K)>,
    slot: Slot,
) {
    let &PutPoint { page, shape, rank, .. } = at;
    debug_assert!(page.latch().is_held(), "page {} changes without its latch", page.no());
    if !rank.exact {
        L::insert::<M, P>(m, page, shape, rank.le, slot);
        notes::note_insert(m, op, page, rank.le, slot);
    } else if K::REPLACES_PAYLOAD {
        notes::set_payload(m, op, page, rank.le - 1, slot.payload);
    } else {
        notes::set_ident(m, op, page, rank.le - 1, slot.ident);
    }
}

impl<L: Layout, P: Probe> NodeStreams for (L, P, Strings) {
    fn prepared<M: Medium>(large: Large<'_, M>) -> PendingRecord<'_, M> {
        PendingRecord::of_large(large)
    }
}

impl<L: Layout, P: Probe, K: Keys> NodeWrites for (L, P, K) {
    const VALUES_GROW: bool = false;
    type Input = K::Input;
    type Prepared<'p, M: Medium> = K::Prepared<'p, M>;
    type Plan = K::Plan;
    type Ready<'a> = ();

    fn check(key: &K::Key, value: Option<&K::Input>) -> Result<()> {
        <K as ValueWrites>::check(key, value)
    }
    #[inline(always)]
    fn prepare<'p, M: Medium>(
        pool: &'p Pool<M>,
        key: &K::Key,
        value: &K::Input,
    ) -> Result<K::Prepared<'p, M>> {
        <K as ValueWrites>::prepare(pool, key, value)
    }

    #[inline(always)]
    fn ready_alone<'a, M: Medium>(
        (): &mut (),
        at: &PutPoint<'_, Self>,
        (key, value): (&'a K::Key, &'a K::Input),
        prepared: &K::Prepared<'_, M>,
    ) -> bool {
        K::PLAIN && Self::wants(at, key, value, prepared).is_none()
    }

    #[inline(always)]
    fn wants<M: Medium>(
        at: &PutPoint<'_, Self>,
        _: &K::Key,
        _: &K::Input,
        _: &K::Prepared<'_, M>,
    ) -> Option<Asking> {
        let full = at.view.count >= L::capacity::<M>(at.page.slots(), at.shape);
        (full && at.found.is_none()).then_some(Asking { rank: at.rank, bytes: size_of::<Slot>() })
    }

    #[inline(always)]
    fn ready<'a>(
        (): &mut (),
        _: &PutPoint<'_, Self>,
        _: (&'a K::Key, &'a K::Input),
        _: &K::Plan,
    ) -> Result<()> {
        Ok(())
    }

    #[inline(always)]
    fn put_alone<'m, M: Medium>(
        m: &'m M,
        op: &mut M::Op<'m>,
        at: &PutPoint<'_, Self>,
        (key, value): (&K::Key, &K::Input),
        (): &mut (),
    ) {
        if let Some(slot) = K::plain_slot(key, value) {
            link(m, op, at, slot);
        }
    }

    #[inline(always)]
    fn plan<'s, 'p: 's, M: Medium>(
        step: &mut Step<'s, M>,
        at: &PutPoint<'_, Self>,
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
        (): &mut (),
    ) {
        let slot = <K as ValueWrites>::write(step, op, at.shape, plan, pair, prepared);
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
}

impl<L: Layout, P: Probe, K: Keys> NodeFills for (L, P, K) {
    const FILLS: bool = false;
    type FillPlan = Infallible;

    fn ready_in_leaf<'a>(
        (): &mut (),
        _: &PutPoint<'_, Self>,
        _: (&'a K::Key, &'a K::Input),
    ) -> bool {
        false
    }
    fn plan_fill(_: Run, _: &[(&K::Key, &K::Input)]) -> Result<Option<Infallible>> {
        Ok(None)
    }
    fn fill_count(plan: &Infallible) -> usize {
        match *plan {}
    }
    fn fill_separator(plan: &Infallible) -> &K::Key {
        match *plan {}
    }
    fn fill_leaf<'m, M: Medium>(
        _: &'m M,
        _: &mut M::Op<'m>,
        _: (Page<'_>, Page<'_>),
        plan: &mut Infallible,
    ) {
        match *plan {}
    }
}
