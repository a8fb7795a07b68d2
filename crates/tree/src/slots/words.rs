//! u64 keys and values, in the slots themselves: the papers' interface. Any key and any value.

use std::cmp::Ordering;
use std::convert::Infallible;

use everleaf_pmem::{Medium, Page, PageNo, Result};
use everleaf_pool::{Pool, RecordRef, Step, Stop, StoredValue};

use crate::node::{HIGH_WORD, LOW_WORD, Rank, RightBounds, Run, Shape};
use crate::slots::keys::{
    Inspect, KeyBounds, KeyOrder, KeySplits, SplitBounds, ValueWrites, Values,
};
use crate::slots::{Probe, Slot};

/// u64 → u64.
#[derive(Debug, Clone, Copy)]
pub struct Words;

impl KeyOrder for Words {
    type Key = u64;
    const BYTES: bool = false;

    #[inline(always)]
    fn rank<M: Medium, P: Probe>(
        _: &Pool<M>,
        page: Page<'_>,
        shape: Shape,
        run: Run,
        key: &u64,
    ) -> Result<Rank> {
        let word = shape.key_word();
        let le = P::rank(page, run, word, *key);
        let exact = le > 0 && page.body(2 * run.slot(page, le - 1) + word).load() == *key;
        Ok(Rank { le, exact })
    }

    #[inline(always)]
    fn find<M: Medium, P: Probe>(
        _: &Pool<M>,
        page: Page<'_>,
        shape: Shape,
        run: Run,
        key: &u64,
    ) -> Result<Option<Slot>> {
        let found = P::find(page, run, shape.key_word(), *key);
        Ok(found.map(|pos| Slot::read(page, run.slot(page, pos))))
    }

    fn key<M: Medium>(_: &Pool<M>, shape: Shape, slot: Slot) -> Result<u64> {
        Ok(slot.key(shape))
    }

    #[inline(always)]
    fn child<M: Medium>(_: &Pool<M>, slot: Slot) -> Result<PageNo> {
        Ok(slot.ident as PageNo)
    }

    fn entry(_: Shape, separator: &u64, child: PageNo) -> Slot {
        Slot { ident: u64::from(child), payload: *separator }
    }
}

impl KeyBounds for Words {
    #[inline(always)]
    fn cmp_high<M: Medium>(_: &Pool<M>, page: Page<'_>, _: Shape, key: &u64) -> Result<Ordering> {
        Ok(key.cmp(&page.head(HIGH_WORD).load()))
    }

    fn low<M: Medium>(_: &Pool<M>, page: Page<'_>) -> Result<Option<u64>> {
        Ok(Some(page.head(LOW_WORD).load()).filter(|&low| low > 0))
    }

    fn high<M: Medium>(_: &Pool<M>, page: Page<'_>) -> Result<u64> {
        Ok(page.head(HIGH_WORD).load())
    }

    fn reshape<M: Medium>(_: &Pool<M>, slot: Slot, _: Shape, _: Shape) -> Result<Slot> {
        Ok(slot)
    }

    fn merged<M: Medium>(
        _: &Pool<M>,
        _: Page<'_>,
        right: Page<'_>,
        shape: Shape,
    ) -> Result<(Shape, RightBounds)> {
        Ok((shape, RightBounds::of(right)))
    }

    fn release_bound<M: Medium>(_: &mut Step<'_, M>, _: Page<'_>, _: Page<'_>) -> Result<(), Stop> {
        Ok(())
    }
}

impl KeySplits for Words {
    type PreparedSplit<'p, M: Medium> = u64;
    type SplitPlan = ();
    /// A void identity is a key outside a leaf's bounds: no leaf may cover all keys.
    const FIRST_SEPARATOR: Option<u64> = Some(1 << 63);

    fn prepare_split<M: Medium>(
        _: &Pool<M>,
        _: Page<'_>,
        shape: Shape,
        _: Slot,
        first: Slot,
    ) -> Result<u64> {
        Ok(first.key(shape))
    }

    fn right_prefix<M: Medium>(_: &u64) -> usize {
        0
    }

    fn separator<M: Medium>(prepared: &u64) -> Result<u64> {
        Ok(*prepared)
    }

    fn plan_split<'s, 'p: 's, M: Medium>(_: &mut Step<'s, M>, _: &'s u64) -> Result<(), Stop> {
        Ok(())
    }

    fn write_split<'s, 'p: 's, M: Medium>(
        _: &mut Step<'s, M>,
        _: &mut M::Op<'s>,
        left: Page<'_>,
        (): &(),
        separator: &'s u64,
    ) -> SplitBounds {
        let separator = *separator;
        let right = RightBounds::of(left);
        SplitBounds { high: separator, high_record: 0, low: separator, right }
    }
}

impl Values for Words {
    type Value = u64;
    type Far<'p, M: Medium> = Infallible;

    #[inline(always)]
    fn found<M: Medium>(_: &Pool<M>, slot: Slot) -> Result<StoredValue<u64, Infallible>> {
        Ok(StoredValue::Inline(slot.payload))
    }
}

impl ValueWrites for Words {
    type Input = u64;
    type Prepared<'p, M: Medium> = ();
    type Plan = ();
    const REPLACES_PAYLOAD: bool = true;
    const PLAIN: bool = true;

    fn prepare<M: Medium>(_: &Pool<M>, _: &u64, _: &u64) -> Result<()> {
        Ok(())
    }

    #[inline(always)]
    fn plain_slot(key: &u64, value: &u64) -> Option<Slot> {
        Some(Slot { ident: *key, payload: *value })
    }

    fn plan<'s, 'p: 's, M: Medium>(
        _: &mut Step<'s, M>,
        (): &'s (),
        _: Option<Slot>,
    ) -> Result<(), Stop> {
        Ok(())
    }

    fn write<'s, 'p: 's, M: Medium>(
        _: &mut Step<'s, M>,
        _: &mut M::Op<'s>,
        _: Shape,
        (): &(),
        (key, value): (&u64, &u64),
        (): &'s (),
    ) -> Slot {
        Slot { ident: *key, payload: *value }
    }

    fn release<M: Medium>(_: &mut Step<'_, M>, _: Slot) -> Result<(), Stop> {
        Ok(())
    }
}

impl Inspect for Words {
    fn record(_: Shape, _: Slot) -> Option<RecordRef> {
        None
    }

    fn bound_records(_: Page<'_>) -> [Option<RecordRef>; 2] {
        [None; 2]
    }

    fn slot_fits(shape: Shape, slot: Slot, _: &u64) -> bool {
        shape.level == 0 || slot.ident <= u64::from(PageNo::MAX)
    }

    fn bounds_fit(_: Page<'_>, shape: Shape, _: &u64, _: Option<&u64>) -> bool {
        shape.prefix == 0
    }
}
