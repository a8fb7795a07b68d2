//! The answers of slotted nodes to the spine, given with the pool, in the order of the traits of [`node`](crate::node).
//!
//! A value is in the entry, or in the record that it refers to. A key that a node keeps in part is compared and read
//! where it is whole. The records of pairs and of fences that do not fit come and go with them.

use std::cmp::Ordering;
use std::convert::Infallible;
use std::ops::Range;

use everleaf_pmem::{Change, Error, Geometry, LINE_BYTES, Medium, Page, PageNo, Result, fallible};
use everleaf_pool::{Large, LargeValue, Pool, RecordRef, Step, Stop, StoredValue};

use crate::node::{
    Asking, ChildEntry, EntryView, Filling, FoundValue, InLeaf, MAX_LEVEL, NodeAt, NodeBytes,
    NodeChanges, NodeChecks, NodeReads, NodeRestructures, NodeRoom, PutPoint, Rank, Shape,
    Siblings, TreeKey, UnderLog, check_limits, damaged,
};
use crate::record::{self, PendingRecord, key_of_record, read};
use crate::slots::Slot;
use crate::slotted::copy::LeafCopy;
use crate::slotted::{
    self, DetachedEdit, Edit, Entry, Even, FenceAt, Fill, Image, Merge, Room, Slotted, Split,
    Value, ValueSize, View, is_inline,
};

/// Lines of slots that a search asks for before it knows how many there are: those of 128 slots.
const SLOT_LINES: usize = 16;

/// An entry of a slotted node.
#[derive(Clone, Copy)]
pub struct EntryAt<'m> {
    pub(super) view: View<'m>,
    pub(super) pos: usize,
    pub(super) parts: Entry,
}

impl NodeReads for Slotted {
    type Key = [u8];
    type View<'m> = View<'m>;
    type Entry<'m> = EntryAt<'m>;
    const LOCK_FREE: bool = false;
    const PREFIXED: bool = true;
    type Value = Vec<u8>;
    type Far<'p, M: Medium> = LargeValue<'p, M>;

    #[inline(always)]
    fn node(page: Page<'_>) -> Option<NodeAt<'_, Self>> {
        View::at(page).map(|view| NodeAt { view })
    }

    #[inline(always)]
    fn entry<'m>(at: &NodeAt<'m, Self>, pos: usize) -> EntryAt<'m> {
        EntryAt { view: at.view, pos, parts: at.view.entry(pos) }
    }

    #[inline(always)]
    fn prefetch(page: Page<'_>) {
        page.prefetch(0);
        (1..=SLOT_LINES).for_each(|line| page.prefetch_at(LINE_BYTES * line));
    }

    fn prefetch_whole(page: Page<'_>) {
        page.prefetch_whole(0);
    }

    #[inline(always)]
    fn rank<M: Medium>(pool: &Pool<M>, at: &NodeAt<'_, Self>, key: &[u8]) -> Result<Rank> {
        at.view.rank(key, |place| compare(pool, place, key))
    }

    #[inline(always)]
    fn locate<'m, M: Medium>(
        pool: &Pool<M>,
        at: &NodeAt<'m, Self>,
        key: &[u8],
    ) -> Result<(Rank, Option<EntryAt<'m>>)> {
        let (rank, parts) = at.view.locate(key, |place| compare(pool, place, key))?;
        Ok((rank, parts.map(|parts| EntryAt { view: at.view, pos: rank.le - 1, parts })))
    }

    #[inline]
    fn key<M: Medium>(pool: &Pool<M>, shape: Shape, entry: EntryAt<'_>) -> Result<Vec<u8>> {
        let mut key = Vec::new();
        Self::key_into(pool, shape, entry, &mut key).map(|()| key)
    }

    #[inline]
    fn key_into<M: Medium>(
        pool: &Pool<M>,
        _: Shape,
        entry: EntryAt<'_>,
        key: &mut Vec<u8>,
    ) -> Result<()> {
        if let Some(place) = entry.view.key_into(entry.pos, key)? {
            *key = whole(pool, place)?;
        }
        Ok(())
    }

    #[inline(always)]
    fn child<M: Medium>(_: &Pool<M>, entry: EntryAt<'_>) -> Result<PageNo> {
        Ok(entry.view.child_of(&entry.parts))
    }

    fn raced(_: Slot) -> EntryAt<'static> {
        unreachable!("no reader goes on beside a writer of a slotted node")
    }

    #[inline(always)]
    fn cmp_high<M: Medium>(pool: &Pool<M>, at: &NodeAt<'_, Self>, key: &[u8]) -> Result<Ordering> {
        at.view.cmp_high(key, |place| compare(pool, place, key))
    }

    fn low<M: Medium>(pool: &Pool<M>, page: Page<'_>) -> Result<Option<Vec<u8>>> {
        let view = View::read(page);
        view.low().map(|low| fence(pool, &view, low)).transpose()
    }

    fn high<M: Medium>(pool: &Pool<M>, page: Page<'_>) -> Result<Vec<u8>> {
        let view = View::read(page);
        match view.high() {
            Some(high) => fence(pool, &view, high),
            None => Err(damaged(page, "has a sibling but no upper bound")),
        }
    }

    #[inline]
    fn found<'p, M: Medium>(
        pool: &'p Pool<M>,
        entry: EntryAt<'_>,
    ) -> Result<StoredValue<Vec<u8>, LargeValue<'p, M>>> {
        if let Some(record) = entry.view.reference_of(&entry.parts) {
            return found_in_record(pool, record);
        }
        let mut value = Vec::new();
        entry.view.value_onto(&entry.parts, &mut value)?;
        Ok(StoredValue::Inline(value))
    }

    fn value_inside(entry: EntryAt<'_>) -> Option<usize> {
        match entry.parts.value {
            ValueSize::Inline(bytes) => Some(bytes),
            ValueSize::Reference => None,
        }
    }

    fn append_inside(entry: EntryAt<'_>, to: &mut Vec<u8>) -> Result<()> {
        entry.view.value_onto(&entry.parts, to)
    }

    #[inline]
    fn pair<'p, M: Medium>(
        pool: &'p Pool<M>,
        shape: Shape,
        entry: EntryAt<'_>,
    ) -> Result<(Vec<u8>, StoredValue<Vec<u8>, LargeValue<'p, M>>)> {
        match entry.view.reference_of(&entry.parts) {
            // One visit of the record for both.
            Some(record) if entry.parts.cut => {
                read(pool, RecordRef::from_bits(record), |record| pool.find_pair(record))
            }
            _ => Ok((Self::key(pool, shape, entry)?, Self::found(pool, entry)?)),
        }
    }

    fn fill(at: &NodeAt<'_, Self>) -> (usize, usize) {
        (at.view.used_bytes(), slotted::room(at.view.page_bytes()))
    }

    #[inline(always)]
    fn record(shape: Shape, entry: EntryAt<'_>) -> Option<RecordRef> {
        let is_leaf = shape.level == 0;
        let reference = entry.view.reference_of(&entry.parts).filter(|_| is_leaf);
        reference.map(RecordRef::from_bits)
    }
}

/// Values in memory of so many bytes are copied while their leaf stands still. Longer ones wait until it is left alone.
const SHORT_BYTES: usize = 64 << 10;

#[cold]
fn found_in_record<M: Medium>(
    pool: &Pool<M>,
    record: u64,
) -> Result<StoredValue<Vec<u8>, LargeValue<'_, M>>> {
    let record = RecordRef::from_bits(record);
    match pool.lend(record).filter(|pair| pair.value().len() <= SHORT_BYTES) {
        Some(pair) => fallible::copy(pair.value(), "a large value").map(StoredValue::Inline),
        None => read(pool, record, |record| pool.find_value(record)),
    }
}

/// The order of a key that a record holds to another one.
#[cold]
pub(super) fn compare<M: Medium>(pool: &Pool<M>, record: u64, key: &[u8]) -> Result<Ordering> {
    record::compare(pool, RecordRef::from_bits(record), key)
}

/// All of a key that a record holds.
#[cold]
pub(super) fn whole<M: Medium>(pool: &Pool<M>, record: u64) -> Result<Vec<u8>> {
    key_of_record(pool, RecordRef::from_bits(record))
}

/// The record of a node's low fence, if it is long. Waits for a thread that changes the node.
pub(super) fn low_record<M: Medium>(pool: &Pool<M>, no: PageNo) -> Result<Option<u64>> {
    let record = |page| View::read(page).low().and_then(|low| low.record);
    pool.read(no, "reading a fence", record)
}

/// All of a fence.
pub(super) fn fence<M: Medium>(pool: &Pool<M>, view: &View<'_>, at: FenceAt) -> Result<Vec<u8>> {
    if let Some(record) = at.record {
        return key_of_record(pool, RecordRef::from_bits(record));
    }
    let mut key = Vec::new();
    view.fence_into(at, &mut key)?;
    Ok(key)
}

/// The record of a fence, if it is long.
pub(super) fn record(fence: Option<FenceAt>) -> Option<RecordRef> {
    fence.and_then(|fence| fence.record).map(RecordRef::from_bits)
}

/// All of the key at a position.
#[inline]
pub(super) fn key_at<M: Medium>(pool: &Pool<M>, page: Page<'_>, pos: usize) -> Result<Vec<u8>> {
    let mut key = Vec::new();
    match View::read(page).key_into(pos, &mut key)? {
        None => Ok(key),
        Some(far) => whole(pool, far),
    }
}

/// A pair whose value is in a record, or whose leaf has to give one back: all that its step needs.
pub struct PlannedPair<'a> {
    record: Option<RecordRef>,
    edit: Edit<'a>,
}

impl Slotted {
    /// Makes ready to put a pair that lives in its leaf, if the leaf has room for it and the pair that it replaces lives
    /// there, too.
    #[inline(always)]
    fn ready_inline<'a>(
        ready: &mut Edit<'a>,
        at: &PutPoint<'_, Self>,
        (key, value): (&'a [u8], &'a [u8]),
    ) -> bool {
        let old = at.found.as_ref().map(|entry| &entry.parts);
        let frees = old.is_some_and(|old| old.value == ValueSize::Reference);
        !frees && ready.put(&at.node.view, (at.rank, old), key, Value::Inline(value))
    }

    /// The needs of a pair that is not just put into its leaf.
    #[cold]
    fn needs(at: &PutPoint<'_, Self>, key: &[u8], value: &Value<'_>) -> InLeaf {
        let (view, size) = (&at.node.view, value.size());
        let room = match &at.found {
            None => view.room_for(key, size),
            Some(entry) => view.room_for_update(entry.pos, value),
        };
        if room != Room::Full {
            return InLeaf::NeedsStep;
        }
        let bytes = view.bytes_for(key, size) + slotted::SLOT_BYTES;
        InLeaf::NeedsRoom(Asking { rank: at.rank, bytes, slot: None })
    }
}

impl NodeChanges for Slotted {
    const VALUES_GROW: bool = true;
    type Input = [u8];
    /// The record of the pair, if it does not live in its leaf.
    type Prepared<'p, M: Medium> = Option<PendingRecord<'p, M>>;
    type Ready<'a> = Edit<'a>;
    type Plan<'a> = PlannedPair<'a>;
    const FILLS: bool = true;
    type FilledLeaves = Fill;

    #[inline(always)]
    fn prepare<'p, M: Medium>(
        pool: &'p Pool<M>,
        key: &[u8],
        value: &[u8],
    ) -> Result<Option<PendingRecord<'p, M>>> {
        check_limits(key, value)?;
        if is_inline(key.len(), value.len(), pool.geometry().page_bytes()) {
            return Ok(None);
        }
        PendingRecord::new(pool, key, value).map(Some)
    }

    #[inline(always)]
    fn ready<'a, M: Medium>(
        ready: &mut Edit<'a>,
        at: &PutPoint<'_, Self>,
        (key, value): (&'a [u8], &'a [u8]),
        prepared: Option<&Option<PendingRecord<'_, M>>>,
    ) -> InLeaf {
        let is_inline = match prepared {
            Some(record) => record.is_none(),
            None => is_inline(key.len(), value.len(), at.node.view.page_bytes()),
        };
        if is_inline && Self::ready_inline(ready, at, (key, value)) {
            return InLeaf::Ready;
        }
        let value = if is_inline { Value::Inline(value) } else { Value::Reference(0) };
        Self::needs(at, key, &value)
    }

    #[inline(always)]
    fn put_in_leaf<'m, M: Medium>(
        m: &'m M,
        op: &mut M::Op<'m>,
        at: &PutPoint<'_, Self>,
        _: (&[u8], &[u8]),
        ready: &Edit<'_>,
    ) {
        ready.apply(m, op, &at.node.view);
    }

    fn plan<'s, 'p: 's, 'a, M: Medium>(
        step: &mut Step<'s, M>,
        at: &PutPoint<'_, Self>,
        (key, value): (&'a [u8], &'a [u8]),
        prepared: &'s Option<PendingRecord<'p, M>>,
    ) -> Result<PlannedPair<'a>, Stop> {
        let record = prepared.as_ref().map(|record| record.plan(step)).transpose()?;
        if let Some(entry) = at.found {
            Self::release(step, entry)?;
        }
        let value = match record {
            Some(record) => Value::Reference(record.bits()),
            None => Value::Inline(value),
        };
        let (mut edit, old) = (Edit::default(), at.found.as_ref().map(|entry| &entry.parts));
        match edit.put(&at.node.view, (at.rank, old), key, value) {
            true => Ok(PlannedPair { record, edit }),
            false => Err(damaged(at.node.page(), "has less room than it says").into()),
        }
    }

    fn put<'s, 'p: 's, M: Medium>(
        step: &mut Step<'s, M>,
        op: &mut M::Op<'s>,
        at: &PutPoint<'_, Self>,
        plan: &PlannedPair<'_>,
        (key, value): (&[u8], &[u8]),
        prepared: &'s Option<PendingRecord<'p, M>>,
    ) {
        if let (Some(prepared), Some(record)) = (prepared, plan.record) {
            prepared.write(step, op, record, key, value);
        }
        plan.edit.apply(step.medium(), op, &at.node.view);
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

    fn plan_fill(at: &NodeAt<'_, Self>, pairs: &[(&[u8], &[u8])]) -> Result<Option<Filling<Self>>> {
        let Some(leaves) = Fill::plan(&at.view, pairs)? else { return Ok(None) };
        let (count, separator) = (leaves.count(), leaves.separator().own()?);
        Ok(Some(Filling { count, separator, leaves }))
    }
    fn fill_leaf<'m, M: Medium>(
        m: &'m M,
        op: &mut M::Op<'m>,
        pages: (Page<'_>, Page<'_>),
        leaves: &mut Fill,
    ) {
        leaves.apply(m, op, pages);
    }
}

/// A split of a slotted node, before its step.
pub struct PendingSplit<'p, M: Medium> {
    keep: usize,
    separator: Vec<u8>,
    /// The records of the left node's high fence and the right node's low fence, if they are long.
    records: Option<[PendingRecord<'p, M>; 2]>,
}

/// A split of a slotted node, in its step.
pub struct PlannedSplit {
    records: Option<[RecordRef; 2]>,
    nodes: Split,
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
    let mut separator = key_at(pool, left, keep)?;
    if view.is_leaf() {
        let below = key_at(pool, left, keep - 1)?;
        let bytes = slotted::shortest_between(&below, &separator).len();
        separator.truncate(bytes);
    }
    Ok(separator)
}

/// An evening out: both leaves, and the parent's entry for the right one.
pub struct EvenPlan {
    even: Even,
    entry: DetachedEdit,
}

impl NodeRestructures for Slotted {
    const LOGGED: bool = false;
    const FIRST_SEPARATOR: Option<u64> = None;
    /// Its page, and the record of its low fence if that is long.
    type Child = (PageNo, Option<u64>);
    type Built = Image;
    type Entering<'a> = Edit<'a>;
    type PreparedSplit<'p, M: Medium> = PendingSplit<'p, M>;
    type SplitPlan = PlannedSplit;
    type MergePlan = Merge;
    const GIVES: bool = false;
    type GivePlan = Infallible;
    const EVENS: bool = true;
    type EvenPlan = EvenPlan;

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
        holds: bool,
    ) -> Result<(PageNo, Option<u64>)> {
        if !slotted::is_cut(separator.len(), pool.geometry().page_bytes()) {
            return Ok((child, None));
        }
        // It is the same as long as the child lives: long fences do not move between nodes.
        let page = pool.page(child)?;
        let record = match holds {
            true => View::read(page).low().and_then(|low| low.record),
            false => low_record(pool, child)?,
        };
        match record {
            Some(_) => Ok((child, record)),
            None => Err(damaged(page, "its lower bound is not the one that it was")),
        }
    }

    fn build<'m, M: Medium>(m: &'m M, op: &mut M::Op<'m>, page: Page<'_>, built: &mut Image) {
        slotted::build(m, op, page, built);
    }

    #[inline(always)]
    fn new_entry<'a, M: Medium>(
        at: &NodeAt<'_, Self>,
        rank: Rank,
        (separator, child): (&'a [u8], (PageNo, Option<u64>)),
    ) -> Result<ChildEntry<Edit<'a>>> {
        let size = child_size(separator, at.view.page_bytes());
        if at.view.room_for(separator, size) == Room::Full {
            let bytes = at.view.bytes_for(separator, size) + slotted::SLOT_BYTES;
            return Ok(ChildEntry::NeedsRoom(Asking { rank, bytes, slot: None }));
        }
        let mut edit = Edit::default();
        let old = rank.exact.then(|| at.view.entry(rank.le - 1));
        match edit.put(&at.view, (rank, old.as_ref()), separator, child_value(child)) {
            true => Ok(ChildEntry::Ready(edit)),
            false => Err(damaged(at.page(), "has less room than it says")),
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

    fn stage<M: Medium>(at: &NodeAt<'_, Self>, key: &[u8], value_bytes: usize) -> NodeRoom {
        let page_bytes = at.view.page_bytes();
        let value = match value_bytes {
            bytes if bytes > slotted::inline_value_max(page_bytes) => ValueSize::Reference,
            bytes => ValueSize::Inline(bytes),
        };
        // Without the prefix: nodes that are still to come may have none.
        let pair = slotted::entry_bytes_for(key.len(), value, page_bytes);
        let longest =
            slotted::entry_bytes_for(slotted::whole_key_max(page_bytes), CHILD, page_bytes);
        let separator = if at.shape().level == 0 {
            slotted::entry_bytes_for(key.len(), CHILD, page_bytes)
        } else {
            longest
        };
        let room = slotted::room(page_bytes);
        // Inner nodes get nothing but separators.
        let entry = if at.shape().level == 0 { pair.max(separator) } else { separator };
        let entry = slotted::SLOT_BYTES + entry;
        NodeRoom { load: at.view.used_bytes(), room, entry, gain: (room / 4).max(1) }
    }

    fn split_point(at: &NodeAt<'_, Self>, asking: Asking) -> Result<usize> {
        at.view.split_point(asking.rank.lt(), asking.bytes)
    }

    fn prepare_split<'p, M: Medium>(
        pool: &'p Pool<M>,
        left: Page<'_>,
        _: Shape,
        keep: usize,
        _: Asking,
    ) -> Result<(Vec<u8>, PendingSplit<'p, M>)> {
        let separator = separator_at(pool, left, keep)?;
        let is_long = slotted::is_long_fence(separator.len(), pool.geometry().page_bytes());
        let record = || PendingRecord::new(pool, &separator, &[]);
        let records = if is_long { Some([record()?, record()?]) } else { None };
        Ok((separator.own()?, PendingSplit { keep, separator, records }))
    }

    fn plan_split<'s, 'p: 's, M: Medium>(
        step: &mut Step<'s, M>,
        left: Page<'_>,
        prepared: &'s PendingSplit<'p, M>,
    ) -> Result<PlannedSplit, Stop> {
        let PendingSplit { keep, separator, records } = prepared;
        let records = match records {
            Some([left, right]) => Some([left.plan(step)?, right.plan(step)?]),
            None => None,
        };
        let nodes = Split::new(&View::read(left), *keep, separator.own()?)?;
        Ok(PlannedSplit { records, nodes })
    }

    fn split<'s, 'p: 's, M: Medium>(
        step: &mut Step<'s, M>,
        op: &mut M::Op<'s>,
        nodes: (Page<'_>, Page<'_>),
        plan: &mut PlannedSplit,
        prepared: &'s PendingSplit<'p, M>,
        under_log: &mut UnderLog<'_>,
    ) {
        if let (Some(planned), Some(records)) = (&plan.records, &prepared.records) {
            for (r, record) in planned.iter().zip(records) {
                record.write(step, op, *r, &prepared.separator, &[]);
            }
        }
        let records = plan.records.map_or([0; 2], |planned| planned.map(RecordRef::bits));
        plan.nodes.apply(step.medium(), op, nodes, records);
        // Nothing to cut any more, but the right node is there.
        under_log(&mut || {});
    }

    /// Not each removal asks, but the one of the last pair does: an empty leaf always goes.
    #[inline(always)]
    fn is_sparse(at: &NodeAt<'_, Self>) -> bool {
        let count = at.count();
        slotted::is_sparse(&at.view) && (count < 4 || count.is_multiple_of(4))
    }

    fn takes_another<M: Medium>(at: &NodeAt<'_, Self>) -> bool {
        2 * at.view.used_bytes() <= slotted::room(at.view.page_bytes())
    }

    fn fit<M: Medium>(left: Page<'_>, right: Page<'_>, shape: Shape) -> bool {
        // An inner node with one child has to go, like an empty leaf.
        let nothing = usize::from(shape.level > 0);
        slotted::may_merge(&View::read(left), &View::read(right), nothing)
    }

    fn plan_merge<M: Medium>(
        step: &mut Step<'_, M>,
        left: Page<'_>,
        right: Page<'_>,
        shape: Shape,
    ) -> Result<Option<Merge>, Stop> {
        let (left, right) = (View::read(left), View::read(right));
        let nothing = usize::from(shape.level > 0);
        let Some(merge) = Merge::plan(&left, &right, nothing)? else { return Ok(None) };
        for record in [record(left.high()), record(right.low())].into_iter().flatten() {
            step.release(record)?;
        }
        Ok(Some(merge))
    }

    fn merge<'m, M: Medium>(
        m: &'m M,
        op: &mut M::Op<'m>,
        left: Page<'_>,
        plan: &mut Merge,
        _: &mut UnderLog<'_>,
    ) {
        plan.apply(m, op, left);
    }

    fn should_give(_: &NodeAt<'_, Self>, _: &NodeAt<'_, Self>) -> bool {
        false
    }

    fn plan_give<M: Medium>(_: &Siblings<'_>) -> Result<Option<Infallible>> {
        Ok(None)
    }

    fn give<'m, M: Medium>(_: &'m M, _: &mut M::Op<'m>, _: &Siblings<'_>, plan: &mut Infallible) {
        match *plan {}
    }

    fn renew<M: Medium>(_: &M, _: &NodeAt<'_, Self>, _: usize, _: (&[u8], PageNo)) -> bool {
        false
    }

    fn is_run(at: &NodeAt<'_, Self>, asking: Asking) -> bool {
        at.view.is_appending(asking.rank.lt())
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

impl NodeChecks for Slotted {
    /// "slotted", the 16 bits of a slot's head and its offset, and a version.
    const HASH: u64 = u64::from_be_bytes(*b"slotted\x01");
    const NEEDS_JOURNAL: bool = true;
    const NAME: &'static str = "slotted";

    fn nodes() -> &'static str {
        "slotted"
    }

    fn fits(geometry: Geometry) -> bool {
        geometry.is_whole()
    }

    fn redo<M: Medium>(m: &M, page: Page<'_>, change: Change<'_>) -> Result<()> {
        slotted::redo(m, page, change)
    }

    fn first_touch<M: Medium>(_: &M, page: Page<'_>) -> Result<()> {
        debug_assert!(page.latch().is_held(), "the first touch of page {} is latched", page.no());
        if Shape::of(page).is_none() { Ok(()) } else { slotted::check_page(page) }
    }

    fn gap(bytes: &[u8]) -> Range<usize> {
        slotted::gap_of(bytes)
    }

    fn flaw(page: Page<'_>, _: Shape) -> Option<(usize, String)> {
        match slotted::check_page(page) {
            Err(Error::Corrupt { offset, what, .. }) => {
                let at = offset.saturating_sub(page.file_offset()) as usize;
                let what = what.strip_prefix(&format!("page {}: ", page.no())).unwrap_or(&what);
                Some((at, what.to_owned()))
            }
            _ => None,
        }
    }

    fn look<'m>(at: &NodeAt<'m, Self>, pos: usize) -> EntryView<'m, Self> {
        let entry = at.entry(pos);
        EntryView { offset: entry.parts.at, identity: None, entry }
    }

    fn entry_fits(_: Shape, entry: EntryAt<'_>, key: &Vec<u8>) -> bool {
        entry.view.fits(entry.pos, key)
    }

    fn bounds_fit(at: &NodeAt<'_, Self>, low: &Vec<u8>, high: Option<&Vec<u8>>) -> bool {
        at.view.bounds_fit(low, high.map(Vec::as_slice))
    }

    fn bound_records(page: Page<'_>) -> [Option<RecordRef>; 2] {
        let view = View::read(page);
        [record(view.low()), record(view.high())]
    }
}

impl NodeBytes for Slotted {
    #[inline(always)]
    fn pair_into<M: Medium>(
        pool: &Pool<M>,
        shape: Shape,
        entry: EntryAt<'_>,
        key: &mut Vec<u8>,
        value: &mut Vec<u8>,
    ) -> Result<bool> {
        if let Some(bits) = entry.view.reference_of(&entry.parts) {
            return pair_of_record(pool, (shape, entry), RecordRef::from_bits(bits), key, value);
        }
        Self::key_into(pool, shape, entry, key)?;
        value.clear();
        entry.view.value_onto(&entry.parts, value)?;
        Ok(true)
    }

    fn leaf_into(at: &NodeAt<'_, Self>, copy: &mut LeafCopy) -> Result<bool> {
        copy.fill(&at.view)
    }

    #[inline]
    fn value_into<'p, M: Medium>(
        pool: &'p Pool<M>,
        _: Shape,
        entry: EntryAt<'_>,
        value: &mut FoundValue,
    ) -> Result<StoredValue<(), LargeValue<'p, M>>> {
        if let Some(bits) = entry.view.reference_of(&entry.parts) {
            return record::value_into(pool, RecordRef::from_bits(bits), value);
        }
        let value = value.own();
        value.clear();
        entry.view.value_onto(&entry.parts, value)?;
        Ok(StoredValue::Inline(()))
    }

    #[inline]
    fn part_into<'p, M: Medium>(
        pool: &'p Pool<M>,
        _: Shape,
        entry: EntryAt<'_>,
        from: u64,
        buf: &mut [u8],
    ) -> Result<StoredValue<usize, LargeValue<'p, M>>> {
        if let Some(bits) = entry.view.reference_of(&entry.parts) {
            return record::part_into(pool, RecordRef::from_bits(bits), from, buf);
        }
        entry.view.value_part(&entry.parts, from, buf).map(StoredValue::Inline)
    }

    fn value_bytes<M: Medium>(pool: &Pool<M>, _: Shape, entry: EntryAt<'_>) -> Result<u64> {
        match Self::value_inside(entry) {
            Some(bytes) => Ok(bytes as u64),
            None => {
                let bits = entry.view.reference_of(&entry.parts).unwrap_or_default();
                record::value_bytes(pool, RecordRef::from_bits(bits))
            }
        }
    }

    fn prepared<M: Medium>(large: Large<'_, M>) -> Option<PendingRecord<'_, M>> {
        Some(PendingRecord::of_large(large))
    }
}

/// The pair of an entry that names a record.
#[cold]
fn pair_of_record<M: Medium>(
    pool: &Pool<M>,
    (shape, entry): (Shape, EntryAt<'_>),
    record: RecordRef,
    key: &mut Vec<u8>,
    value: &mut Vec<u8>,
) -> Result<bool> {
    if entry.parts.cut {
        return record::pair_into(pool, record, key, value);
    }
    Slotted::key_into(pool, shape, entry, key)?;
    record::if_readable(record::value_in_memory(pool, record, value))
}
