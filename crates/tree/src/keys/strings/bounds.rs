//! The bounds of nodes of byte strings: records that each node owns.

use std::cmp::Ordering;

use everleaf_pmem::{Medium, Page, Result};
use everleaf_pool::{Pool, RecordRef, Step, Stop};

use super::record::bound;
use super::slot::{Strings, common, head, place_of, record_of, slot_for};
use crate::damaged::damaged;
use crate::keys::bounds::{KeyBounds, KeySplits, SplitBounds};
use crate::keys::order::KeyOrder;
use crate::node::{HIGH_RECORD_WORD, HIGH_WORD, LOW_WORD, RightBounds, Shape, Slot, sibling};
use crate::record::{PendingRecord, key_of_record, read};

impl KeyBounds for Strings {
    #[inline]
    fn cmp_high<M: Medium>(
        pool: &Pool<M>,
        page: Page<'_>,
        shape: Shape,
        key: &[u8],
    ) -> Result<Ordering> {
        let order = head(key, shape.prefix).cmp(&page.head(HIGH_WORD).load());
        let Some(record) = bound(page, HIGH_RECORD_WORD).filter(|_| order == Ordering::Equal)
        else {
            return Ok(order);
        };
        let rest = key.get(shape.prefix..).unwrap_or_default();
        read(pool, record, |r| pool.compare_key(r, shape.prefix, rest)).map(Ordering::reverse)
    }

    fn low<M: Medium>(pool: &Pool<M>, page: Page<'_>) -> Result<Option<Vec<u8>>> {
        bound(page, LOW_WORD).map(|r| key_of_record(pool, r)).transpose()
    }

    fn high<M: Medium>(pool: &Pool<M>, page: Page<'_>) -> Result<Vec<u8>> {
        match bound(page, HIGH_RECORD_WORD) {
            Some(r) => key_of_record(pool, r),
            None => Err(damaged(page, "has a sibling but no upper bound")),
        }
    }

    fn reshape<M: Medium>(pool: &Pool<M>, slot: Slot, from: Shape, to: Shape) -> Result<Slot> {
        if from.prefix == to.prefix {
            return Ok(slot);
        }
        Ok(slot_for(&Self::key(pool, from, slot)?, to.prefix, place_of(slot)))
    }

    fn merged<M: Medium>(
        pool: &Pool<M>,
        left: Page<'_>,
        right: Page<'_>,
        shape: Shape,
    ) -> Result<(Shape, RightBounds)> {
        let old = RightBounds::of(right);
        if sibling(right).is_none() {
            return Ok((Shape { prefix: 0, ..shape }, old));
        }
        let high = Self::high(pool, right)?;
        let prefix = Self::low(pool, left)?.map_or(0, |low| common(&low, &high));
        Ok((Shape { prefix, ..shape }, RightBounds { high: head(&high, prefix), ..old }))
    }

    fn release_bound<M: Medium>(
        step: &mut Step<'_, M>,
        left: Page<'_>,
        right: Page<'_>,
    ) -> Result<(), Stop> {
        for record in [bound(left, HIGH_RECORD_WORD), bound(right, LOW_WORD)].into_iter().flatten()
        {
            step.release(record)?;
        }
        Ok(())
    }
}

/// The bounds of a split, before its step.
pub struct PendingSplit<'p, M: Medium> {
    separator: Vec<u8>,
    /// The right node's upper bound, if finite.
    high: Option<Vec<u8>>,
    prefix: usize,
    records: [PendingRecord<'p, M>; 2],
}

impl KeySplits for Strings {
    type PreparedSplit<'p, M: Medium> = PendingSplit<'p, M>;
    type SplitPlan = [RecordRef; 2];

    fn first_separator() -> Option<u64> {
        None
    }

    fn prepare_split<'p, M: Medium>(
        pool: &'p Pool<M>,
        left: Page<'_>,
        shape: Shape,
        last: Slot,
        first: Slot,
    ) -> Result<PendingSplit<'p, M>> {
        let mut separator = Self::key(pool, shape, first)?;
        if shape.level == 0 {
            // The shortest string that is above the left keys and not above the right ones.
            let below = key_of_record(pool, record_of(last))?;
            separator.truncate(common(&below, &separator) + 1);
        }
        let high = bound(left, HIGH_RECORD_WORD).map(|r| key_of_record(pool, r)).transpose()?;
        let prefix = high.as_ref().map_or(0, |high| common(&separator, high));
        let records = [
            PendingRecord::new(pool, &separator, &[])?,
            PendingRecord::new(pool, &separator, &[])?,
        ];
        Ok(PendingSplit { separator, high, prefix, records })
    }

    fn right_prefix<M: Medium>(prepared: &PendingSplit<'_, M>) -> usize {
        prepared.prefix
    }

    fn separator<M: Medium>(prepared: &PendingSplit<'_, M>) -> Result<Vec<u8>> {
        Self::own(&prepared.separator)
    }

    fn plan_split<'s, 'p: 's, M: Medium>(
        step: &mut Step<'s, M>,
        prepared: &'s PendingSplit<'p, M>,
    ) -> Result<[RecordRef; 2], Stop> {
        Ok([prepared.records[0].plan(step)?, prepared.records[1].plan(step)?])
    }

    fn write_split<'s, 'p: 's, M: Medium>(
        step: &mut Step<'s, M>,
        op: &mut M::Op<'s>,
        left: Page<'_>,
        plan: &[RecordRef; 2],
        prepared: &'s PendingSplit<'p, M>,
    ) -> SplitBounds {
        let separator = &prepared.separator;
        for (r, record) in plan.iter().zip(&prepared.records) {
            record.write(step, op, *r, separator, &[]);
        }
        let left_prefix = Shape::of(left).map_or(0, |shape| shape.prefix);
        // The right node takes over the old upper bound, with its record.
        let right = RightBounds {
            high: prepared.high.as_ref().map_or(0, |high| head(high, prepared.prefix)),
            ..RightBounds::of(left)
        };
        SplitBounds {
            high: head(separator, left_prefix),
            high_record: plan[0].bits(),
            low: plan[1].bits(),
            right,
        }
    }
}
