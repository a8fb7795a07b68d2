//! How slotted nodes are built, cut in two, merged and evened out, with the records of their fences.

use everleaf_pmem::{Medium, Page, PageNo, Result, fallible};
use everleaf_pool::{Pool, RecordRef, Step, Stop};

use crate::damaged::damaged;
use crate::node::{
    Asking, MAX_LEVEL, NodeEvens, NodeMerges, NodeRoom, NodeSplits, Rank, Shape, Siblings, UnderLog,
};
use crate::record::PendingRecord;
use crate::slotted::{
    self, DetachedEdit, Edit, Even, Image, Merge, Room, Slotted, Split, Value, ValueSize, View,
    read,
};

/// A split of a slotted node, before its step.
pub struct PendingSplit<'p, M: Medium> {
    keep: usize,
    separator: Vec<u8>,
    /// The records of the left node's high fence and the right node's low fence, if they are long.
    records: Option<[PendingRecord<'p, M>; 2]>,
}

/// The value of an entry of an inner node whose separator is not cut.
const CHILD: ValueSize = ValueSize::Inline(size_of::<PageNo>());

/// The value of an entry of an inner node.
#[inline(always)]
fn child_size(separator: &[u8], page_bytes: usize) -> ValueSize {
    match slotted::is_cut(separator.len(), page_bytes) {
        false => CHILD,
        true => Value::LongChild(0, 0).size(),
    }
}

/// A child, and the record of its low fence, which is long.
fn with_bound(child: Page<'_>, record: Option<u64>) -> Result<(PageNo, Option<u64>)> {
    match record {
        Some(record) => Ok((child.no(), Some(record))),
        None => Err(damaged(child, "its lower bound is not the one that it was")),
    }
}

fn child_value((no, record): (PageNo, Option<u64>)) -> Value<'static> {
    match record {
        None => Value::Child(no),
        Some(record) => Value::LongChild(no, record),
    }
}

/// All of the separator of a split that keeps `keep` entries.
fn separator_at<M: Medium>(pool: &Pool<M>, left: Page<'_>, keep: usize) -> Result<Vec<u8>> {
    let view = View::read(left);
    if let Some(separator) = view.separator(keep)? {
        return Ok(separator);
    }
    let mut separator = read::key_at(pool, left, keep)?;
    if view.is_leaf() {
        let below = read::key_at(pool, left, keep - 1)?;
        let bytes = slotted::shortest_between(&below, &separator).len();
        separator.truncate(bytes);
    }
    Ok(separator)
}

impl NodeSplits for Slotted {
    const LOGGED: bool = false;
    /// Its page, and the record of its low fence if that is long.
    type Child = (PageNo, Option<u64>);
    type Built = Image;
    type Entering<'a> = Edit<'a>;
    type PreparedSplit<'p, M: Medium> = PendingSplit<'p, M>;
    type SplitPlan = Option<[RecordRef; 2]>;
    type SplitReady = Split;

    fn first_separator() -> Option<Vec<u8>> {
        None
    }

    fn new_leaf<M: Medium>(
        pool: &Pool<M>,
        _: Option<&[u8]>,
        _: Option<(&[u8], PageNo)>,
    ) -> Result<Image> {
        Image::empty(pool.geometry().page_bytes(), 0)
    }

    fn new_root<M: Medium>(
        pool: &Pool<M>,
        level: u8,
        (left, separator, right): (PageNo, &[u8], (PageNo, Option<u64>)),
    ) -> Result<Image> {
        debug_assert!(level <= MAX_LEVEL);
        let page_bytes = pool.geometry().page_bytes();
        Image::root(page_bytes, level, left, separator, child_value(right))
    }

    fn child_at<M: Medium>(
        pool: &Pool<M>,
        separator: &[u8],
        child: PageNo,
    ) -> Result<(PageNo, Option<u64>)> {
        if !slotted::is_cut(separator.len(), pool.geometry().page_bytes()) {
            return Ok((child, None));
        }
        // It is the same as long as the child lives: long fences do not move between nodes.
        with_bound(pool.page(child)?, read::low_record(pool, child)?)
    }

    fn held_child<M: Medium>(
        pool: &Pool<M>,
        separator: &[u8],
        child: Page<'_>,
    ) -> Result<(PageNo, Option<u64>)> {
        if !slotted::is_cut(separator.len(), pool.geometry().page_bytes()) {
            return Ok((child.no(), None));
        }
        with_bound(child, View::read(child).low().and_then(|low| low.record))
    }

    fn build<'m, M: Medium>(m: &'m M, op: &mut M::Op<'m>, page: Page<'_>, built: &mut Image) {
        slotted::build(m, op, page, built);
    }

    #[inline(always)]
    fn entry_wants<M: Medium>(
        _: Page<'_>,
        _: Shape,
        view: View<'_>,
        rank: Rank,
        separator: &[u8],
    ) -> Option<Asking> {
        let child = child_size(separator, view.page_bytes());
        (view.room_for(separator, child) == Room::Full).then(|| {
            let bytes = view.bytes_for(separator, child) + slotted::SLOT_BYTES;
            Asking { rank, bytes }
        })
    }

    fn new_entry<'a>(
        page: Page<'_>,
        _: Shape,
        view: View<'_>,
        rank: Rank,
        (separator, child): (&'a [u8], (PageNo, Option<u64>)),
    ) -> Result<Edit<'a>> {
        let mut edit = Edit::default();
        match edit.put(&view, rank, separator, child_value(child)) {
            true => Ok(edit),
            false => Err(damaged(page, "has less room than it says")),
        }
    }

    fn enter<'m, M: Medium>(
        m: &'m M,
        op: &mut M::Op<'m>,
        page: Page<'_>,
        _: Shape,
        _: Rank,
        entry: &mut Edit<'_>,
    ) {
        entry.apply(m, op, &View::read(page));
    }

    fn stage<M: Medium>(
        page: Page<'_>,
        shape: Shape,
        view: View<'_>,
        key: &[u8],
        value_bytes: usize,
    ) -> NodeRoom {
        let page_bytes = page.geometry().page_bytes();
        let value = match value_bytes {
            bytes if bytes > slotted::inline_value_max(page_bytes) => ValueSize::Reference,
            bytes => ValueSize::Inline(bytes),
        };
        // Without the prefix: nodes that are still to come may have none.
        let pair = slotted::entry_bytes_for(key.len(), value, page_bytes);
        let longest =
            slotted::entry_bytes_for(slotted::whole_key_max(page_bytes), CHILD, page_bytes);
        let separator = if shape.level == 0 {
            slotted::entry_bytes_for(key.len(), CHILD, page_bytes)
        } else {
            longest
        };
        let room = slotted::room(page_bytes);
        // Inner nodes get nothing but separators.
        let entry = if shape.level == 0 { pair.max(separator) } else { separator };
        let entry = slotted::SLOT_BYTES + entry;
        NodeRoom { load: view.used_bytes(), room, entry, gain: (room / 4).max(1) }
    }

    fn split_point(_: Page<'_>, view: View<'_>, asking: Asking) -> Result<usize> {
        view.split_point(asking.rank.lt(), asking.bytes)
    }

    fn prepare_split<'p, M: Medium>(
        pool: &'p Pool<M>,
        left: Page<'_>,
        _: Shape,
        keep: usize,
    ) -> Result<PendingSplit<'p, M>> {
        let separator = separator_at(pool, left, keep)?;
        let is_long = slotted::is_long_fence(separator.len(), pool.geometry().page_bytes());
        let record = || PendingRecord::new(pool, &separator, &[]);
        let records = if is_long { Some([record()?, record()?]) } else { None };
        Ok(PendingSplit { keep, separator, records })
    }

    fn separator<M: Medium>(prepared: &PendingSplit<'_, M>) -> Result<Vec<u8>> {
        fallible::copy(&prepared.separator, "a key")
    }

    fn plan_split<'s, 'p: 's, M: Medium>(
        step: &mut Step<'s, M>,
        prepared: &'s PendingSplit<'p, M>,
    ) -> Result<Option<[RecordRef; 2]>, Stop> {
        match &prepared.records {
            Some([left, right]) => Ok(Some([left.plan(step)?, right.plan(step)?])),
            None => Ok(None),
        }
    }

    fn ready_split<M: Medium>(
        left: Page<'_>,
        _: Page<'_>,
        _: &Option<[RecordRef; 2]>,
        prepared: &PendingSplit<'_, M>,
    ) -> Result<Split> {
        let PendingSplit { keep, separator, .. } = prepared;
        Split::new(&View::read(left), *keep, fallible::copy(separator, "a key")?)
    }

    fn split<'s, 'p: 's, M: Medium>(
        step: &mut Step<'s, M>,
        op: &mut M::Op<'s>,
        nodes: (Page<'_>, Page<'_>),
        plan: &Option<[RecordRef; 2]>,
        prepared: &'s PendingSplit<'p, M>,
        ready: &mut Split,
        under_log: &mut UnderLog<'_>,
    ) {
        if let (Some(plan), Some(records)) = (plan, &prepared.records) {
            for (r, record) in plan.iter().zip(records) {
                record.write(step, op, *r, &prepared.separator, &[]);
            }
        }
        let records = plan.map_or([0; 2], |plan| plan.map(RecordRef::bits));
        ready.apply(step.medium(), op, nodes, records);
        // Nothing to cut any more, but the right node is there.
        under_log(&mut || {});
    }
}

impl NodeMerges for Slotted {
    type PreparedMerge = Merge;

    /// Not each removal asks, but the one of the last pair does: an empty leaf always goes.
    #[inline(always)]
    fn is_sparse(_: Page<'_>, view: View<'_>) -> bool {
        let count = view.count();
        slotted::is_sparse(&view) && (count < 4 || count.is_multiple_of(4))
    }

    fn load(_: Page<'_>, view: View<'_>) -> usize {
        view.used_bytes()
    }

    fn takes_another<M: Medium>(page: Page<'_>, _: Shape, view: View<'_>) -> bool {
        2 * view.used_bytes() <= slotted::room(page.geometry().page_bytes())
    }

    fn fit<M: Medium>(left: Page<'_>, right: Page<'_>, shape: Shape) -> bool {
        // An inner node with one child has to go, like an empty leaf.
        let nothing = usize::from(shape.level > 0);
        slotted::may_merge(&View::read(left), &View::read(right), nothing)
    }

    fn prepare_merge<M: Medium>(
        _: &Pool<M>,
        left: Page<'_>,
        right: Page<'_>,
        shape: Shape,
    ) -> Result<Option<Merge>> {
        let nothing = usize::from(shape.level > 0);
        Merge::plan(&View::read(left), &View::read(right), nothing)
    }

    fn release_bound<M: Medium>(
        step: &mut Step<'_, M>,
        left: Page<'_>,
        right: Page<'_>,
    ) -> Result<(), Stop> {
        let (left, right) = (View::read(left), View::read(right));
        for record in [read::record(left.high()), read::record(right.low())].into_iter().flatten() {
            step.release(record)?;
        }
        Ok(())
    }

    fn merge<'m, M: Medium>(
        m: &'m M,
        op: &mut M::Op<'m>,
        left: Page<'_>,
        prepared: &mut Merge,
        _: &mut UnderLog<'_>,
    ) {
        prepared.apply(m, op, left);
    }
}

/// An evening out: both leaves, and the parent's entry for the right one.
pub struct EvenPlan {
    even: Even,
    entry: DetachedEdit,
}

impl NodeEvens for Slotted {
    const EVENS: bool = true;
    type EvenPlan = EvenPlan;

    fn is_run(_: Page<'_>, view: View<'_>, asking: Asking) -> bool {
        view.is_appending(asking.rank.lt())
    }

    fn may_take(neighbour: Page<'_>) -> bool {
        slotted::may_take(&View::read(neighbour))
    }

    fn plan_even<M: Medium>(
        _: &Pool<M>,
        siblings: &Siblings<'_>,
        asking: Asking,
        asks_left: bool,
        key: &[u8],
    ) -> Result<Option<EvenPlan>> {
        let Siblings { left, right, parent, entry } = *siblings;
        let asking = slotted::Asking {
            in_left: asks_left,
            key,
            pos: asking.rank.lt(),
            bytes: asking.bytes,
            replaces: asking.rank.exact,
        };
        let planned = Even::plan(&View::read(left), &View::read(right), &asking)?;
        let Some(even) = planned else { return Ok(None) };
        let mut edit = Edit::default();
        if !edit.rekey(&View::read(parent), entry, even.separator(), right.no()) {
            return Ok(None);
        }
        let entry = edit.detach();
        Ok(Some(EvenPlan { even, entry }))
    }

    fn even<'m, M: Medium>(
        m: &'m M,
        op: &mut M::Op<'m>,
        siblings: &Siblings<'_>,
        plan: &mut EvenPlan,
    ) {
        let Siblings { left, right, parent, .. } = *siblings;
        plan.even.apply(m, op, left, right);
        let (view, separator) = (View::read(parent), plan.even.separator());
        plan.entry.attach(&view, separator, Value::Child(right.no())).apply(m, op, &view);
    }
}
