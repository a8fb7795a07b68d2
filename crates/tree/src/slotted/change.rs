//! Pairs on their way into slotted leaves and out of them, with the records of those that do not fit.

use everleaf_pmem::{Medium, Page, Result};
use everleaf_pool::{Large, Pool, RecordRef, Step, Stop};

use crate::damaged::damaged;
use crate::node::{Asking, NodeFills, NodeStreams, NodeWrites, PutPoint, Shape};
use crate::record::{PendingRecord, check_limits};
use crate::slotted::read::EntryAt;
use crate::slotted::{self, Edit, Fill, Room, Slotted, Value, ValueSize, View, is_inline};

impl Slotted {
    /// What the entry of a pair holds beside the key.
    fn size_of<M: Medium>(value: &[u8], prepared: &Option<PendingRecord<'_, M>>) -> ValueSize {
        match prepared {
            None => ValueSize::Inline(value.len()),
            Some(_) => ValueSize::Reference,
        }
    }

    /// Makes ready to put a pair that lives in its leaf, if the leaf has room for it and the pair that it replaces lives
    /// there, too.
    #[inline(always)]
    fn ready_inline<'a>(
        ready: &mut Edit<'a>,
        at: &PutPoint<'_, Self>,
        key: &'a [u8],
        value: &'a [u8],
    ) -> bool {
        let frees = at.found.is_some_and(|entry| entry.parts.value == ValueSize::Reference);
        !frees && ready.put(&at.view, at.rank, key, Value::Inline(value))
    }
}

impl NodeStreams for Slotted {
    fn prepared<M: Medium>(large: Large<'_, M>) -> Option<PendingRecord<'_, M>> {
        Some(PendingRecord::of_large(large))
    }
}

impl NodeWrites for Slotted {
    const VALUES_GROW: bool = true;
    type Input = [u8];
    /// The record of the pair, if it does not live in its leaf.
    type Prepared<'p, M: Medium> = Option<PendingRecord<'p, M>>;
    type Plan = Option<RecordRef>;
    type Ready<'a> = Edit<'a>;

    fn check(key: &[u8], value: Option<&[u8]>) -> Result<()> {
        check_limits(key, value)
    }

    #[inline(always)]
    fn prepare<'p, M: Medium>(
        pool: &'p Pool<M>,
        key: &[u8],
        value: &[u8],
    ) -> Result<Option<PendingRecord<'p, M>>> {
        if is_inline(key.len(), value.len(), pool.geometry().page_bytes()) {
            return Ok(None);
        }
        PendingRecord::new(pool, key, value).map(Some)
    }

    #[inline(always)]
    fn ready_alone<'a, M: Medium>(
        ready: &mut Edit<'a>,
        at: &PutPoint<'_, Self>,
        (key, value): (&'a [u8], &'a [u8]),
        prepared: &Option<PendingRecord<'_, M>>,
    ) -> bool {
        prepared.is_none() && Self::ready_inline(ready, at, key, value)
    }

    fn wants<M: Medium>(
        at: &PutPoint<'_, Self>,
        key: &[u8],
        value: &[u8],
        prepared: &Option<PendingRecord<'_, M>>,
    ) -> Option<Asking> {
        let size = Self::size_of(value, prepared);
        let room = match &at.found {
            None => at.view.room_for(key, size),
            Some(entry) => {
                let value = match size {
                    ValueSize::Inline(_) => Value::Inline(value),
                    ValueSize::Reference => Value::Reference(0),
                };
                at.view.room_for_update(entry.pos, &value)
            }
        };
        (room == Room::Full).then(|| {
            let bytes = at.view.bytes_for(key, size) + slotted::SLOT_BYTES;
            Asking { rank: at.rank, bytes }
        })
    }

    fn ready<'a>(
        ready: &mut Edit<'a>,
        at: &PutPoint<'_, Self>,
        (key, value): (&'a [u8], &'a [u8]),
        plan: &Option<RecordRef>,
    ) -> Result<()> {
        let value = match plan {
            Some(record) => Value::Reference(record.bits()),
            None => Value::Inline(value),
        };
        match ready.put(&at.view, at.rank, key, value) {
            true => Ok(()),
            false => Err(damaged(at.page, "has less room than it says")),
        }
    }

    #[inline(always)]
    fn put_alone<'m, M: Medium>(
        m: &'m M,
        op: &mut M::Op<'m>,
        at: &PutPoint<'_, Self>,
        _: (&[u8], &[u8]),
        ready: &mut Edit<'_>,
    ) {
        ready.apply(m, op, &at.view);
    }

    fn plan<'s, 'p: 's, M: Medium>(
        step: &mut Step<'s, M>,
        at: &PutPoint<'_, Self>,
        prepared: &'s Option<PendingRecord<'p, M>>,
    ) -> Result<Option<RecordRef>, Stop> {
        let record = prepared.as_ref().map(|record| record.plan(step)).transpose()?;
        if let Some(entry) = at.found {
            Self::release(step, entry)?;
        }
        Ok(record)
    }

    fn put<'s, 'p: 's, M: Medium>(
        step: &mut Step<'s, M>,
        op: &mut M::Op<'s>,
        at: &PutPoint<'_, Self>,
        plan: &Option<RecordRef>,
        (key, value): (&[u8], &[u8]),
        prepared: &'s Option<PendingRecord<'p, M>>,
        ready: &mut Edit<'_>,
    ) {
        if let (Some(prepared), Some(record)) = (prepared, plan) {
            prepared.write(step, op, *record, key, value);
        }
        ready.apply(step.medium(), op, &at.view);
    }

    #[inline(always)]
    fn release<M: Medium>(step: &mut Step<'_, M>, entry: EntryAt<'_>) -> Result<(), Stop> {
        match entry.view.reference_of(&entry.parts) {
            Some(record) => step.release(RecordRef::from_bits(record)),
            None => Ok(()),
        }
    }

    #[inline(always)]
    fn remove<'m, M: Medium>(m: &'m M, op: &mut M::Op<'m>, page: Page<'_>, _: Shape, pos: usize) {
        slotted::remove(m, op, &View::read(page), pos);
    }
}

impl NodeFills for Slotted {
    const FILLS: bool = true;
    type FillPlan = Fill;

    #[inline(always)]
    fn ready_in_leaf<'a>(
        ready: &mut Edit<'a>,
        at: &PutPoint<'_, Self>,
        (key, value): (&'a [u8], &'a [u8]),
    ) -> bool {
        is_inline(key.len(), value.len(), at.view.page_bytes())
            && Self::ready_inline(ready, at, key, value)
    }
    fn plan_fill(view: View<'_>, pairs: &[(&[u8], &[u8])]) -> Result<Option<Fill>> {
        Fill::plan(&view, pairs)
    }
    fn fill_count(plan: &Fill) -> usize {
        plan.count()
    }
    fn fill_separator(plan: &Fill) -> &[u8] {
        plan.separator()
    }
    fn fill_leaf<'m, M: Medium>(
        m: &'m M,
        op: &mut M::Op<'m>,
        leaves: (Page<'_>, Page<'_>),
        plan: &mut Fill,
    ) {
        plan.apply(m, op, leaves);
    }
}
