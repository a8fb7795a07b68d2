//! Insert, update and remove of one key, also those that keep what they replace, for readers of an earlier moment.
//!
//! The old value is handed over under the latch of its leaf, before the leaf changes. A reader that reads the leaf first
//! and then looks for what was kept therefore misses nothing: what has changed before the leaf was read was
//! kept before that.

use everleaf_pmem::{Error, Medium, Result, Retries};
use everleaf_pool::{LargeWriter, Pool, Stop, StoredValue, retry};

use crate::blink::descend::{Blink, Lag, Latched, Seek};
use crate::node::{
    FarValue, InLeaf, InputOf, KeyOf, Kind, NodeBytes, NodeChanges, NodeReads, PutPoint, TreeKey,
    TreeValue, ValueOf,
};

/// Under which condition a write happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// Always.
    Always,
    /// Only if the key is there.
    Present,
    /// Only if the key is not there.
    Absent,
}

/// The verdict of a look at an old entry on the write that replaces it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Go on.
    Write,
    /// The value has to be [`read`](Old::read) first, and then looked at again.
    Read,
    /// Change nothing.
    Refuse,
}

/// The use that a write makes of the value that it replaces.
pub(super) trait Old<'p, M: Medium, K: Kind> {
    type Value;
    /// Looks at the entry of a key, under the leaf's latch; the answer of the last look counts.
    fn find(
        &mut self,
        pool: &'p Pool<M>,
        key: &KeyOf<K>,
        entry: Option<K::Entry<'_>>,
    ) -> Result<Verdict>;
    /// Reads what `find` has found, if it has not been read yet. Nothing is latched.
    fn read(&mut self) -> Result<()>;
    /// The value, if there was one.
    fn take(&mut self) -> Option<Self::Value>;
}

/// The caller wants the old value. A large one is read first, between two looks at the leaf; that it
/// is still the same then is sure, since its extents are kept. So a value that cannot be read is an
/// error before anything is changed. Each further turn means that somebody else replaced the value.
pub(super) struct Wanted<V, F> {
    value: Option<V>,
    far: Option<F>,
}

impl<V, F> Default for Wanted<V, F> {
    fn default() -> Self {
        Self { value: None, far: None }
    }
}

impl<V, F> Wanted<V, F> {
    /// The value, if there was one.
    #[inline(always)]
    pub(super) fn value(self) -> Option<V> {
        self.value
    }
}

impl<'p, M: Medium, K: Kind> Old<'p, M, K> for Wanted<ValueOf<K>, <K as NodeReads>::Far<'p, M>> {
    type Value = ValueOf<K>;

    #[inline(always)]
    fn find(
        &mut self,
        pool: &'p Pool<M>,
        _: &KeyOf<K>,
        entry: Option<K::Entry<'_>>,
    ) -> Result<Verdict> {
        let (value, far) = match entry.map(|entry| K::found(pool, entry)).transpose()? {
            Some(StoredValue::External(far)) if self.far.as_ref() == Some(&far) => {
                return Ok(Verdict::Write);
            }
            Some(StoredValue::External(far)) => (None, Some(far)),
            Some(StoredValue::Inline(value)) => (Some(value), None),
            None => (None, None),
        };
        (self.value, self.far) = (value, far);
        Ok(if self.far.is_none() { Verdict::Write } else { Verdict::Read })
    }

    fn read(&mut self) -> Result<()> {
        if let (None, Some(far)) = (&self.value, &self.far) {
            self.value = Some(far.read()?);
        }
        Ok(())
    }

    #[inline(always)]
    fn take(&mut self) -> Option<ValueOf<K>> {
        self.value.take()
    }
}

/// The caller does not want it: whether there was one is all that is kept.
#[derive(Default)]
pub(super) struct Unwanted {
    was_there: bool,
}

impl<M: Medium, K: Kind> Old<'_, M, K> for Unwanted {
    type Value = ();

    #[inline(always)]
    fn find(&mut self, _: &Pool<M>, _: &KeyOf<K>, entry: Option<K::Entry<'_>>) -> Result<Verdict> {
        self.was_there = entry.is_some();
        Ok(Verdict::Write)
    }

    fn read(&mut self) -> Result<()> {
        Ok(())
    }

    #[inline(always)]
    fn take(&mut self) -> Option<()> {
        self.was_there.then_some(())
    }
}

/// The epoch that a write is in, if anything was written, and the split that its search found incomplete.
pub(super) type Written = (Option<u64>, Option<Lag>);

/// The same of a removal, and whether its leaf has become sparse.
pub(super) type Removed = (Option<u64>, Option<Lag>, bool);

/// The result of a write: what it found, and when it will be durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Put<V> {
    /// The value that the key had before; if the caller did not want it, only that there was one.
    pub old: Option<V>,
    /// The epoch that the write is in; `None` if nothing was written.
    pub epoch: Option<u64>,
}

impl<M: Medium, K: Kind> Blink<M, K> {
    /// Stores a value under a key, if `condition` allows it, and returns the value that was there.
    /// The write is failure-atomic: after a crash the key has the old value or the new one. It latches
    /// one leaf and stores at most half of the node's slots. A large old value is read first, with
    /// nothing latched; call [`set`](Self::set) if you do not want the old value.
    ///
    /// # Errors
    /// KeyTooLong, ValueTooLong, RecordTooLong, Full, I/O errors, Poisoned, Corrupt. Nothing
    /// is stored then.
    #[inline]
    pub fn put(
        &self,
        key: &KeyOf<K>,
        value: &InputOf<K>,
        condition: Condition,
    ) -> Result<Put<ValueOf<K>>> {
        self.put_for(&mut Wanted::default(), key, value, condition)
    }

    /// Like [`put`](Self::put), but does not look at the old value, which may be large or damaged.
    ///
    /// # Errors
    /// The same as for [`put`](Self::put).
    #[inline]
    pub fn set(&self, key: &KeyOf<K>, value: &InputOf<K>, condition: Condition) -> Result<Put<()>> {
        self.put_for(&mut Unwanted::default(), key, value, condition)
    }

    #[inline(always)]
    pub(super) fn put_for<'s, O: Old<'s, M, K>>(
        &'s self,
        old: &mut O,
        key: &KeyOf<K>,
        value: &InputOf<K>,
        condition: Condition,
    ) -> Result<Put<O::Value>> {
        self.pool().throttle(true)?;
        let prepared = K::prepare(&self.pool, key, value)?;
        self.put_prepared(old, key, value, &prepared, condition)
    }

    #[inline(always)]
    fn put_prepared<'s, 'p: 's, O: Old<'p, M, K>>(
        &'p self,
        old: &mut O,
        key: &KeyOf<K>,
        value: &InputOf<K>,
        prepared: &'s <K as NodeChanges>::Prepared<'p, M>,
        condition: Condition,
    ) -> Result<Put<O::Value>> {
        let mut turns = Retries::default();
        loop {
            if let Some((epoch, lag)) =
                retry(|| self.try_put(&mut *old, key, value, prepared, condition))?
            {
                // The write is done. Upkeep that fails, for want of space say, is no failure of
                // it: the next writer that passes tries again.
                let _ = self.complete(lag);
                return Ok(Put { old: old.take(), epoch });
            }
            // It was split, or gave pairs away, so that there is more room than before; or its old value is read, and
            // only another writer makes that of no use.
            old.read()?;
            turns.go_on("a write of a pair")?;
        }
    }

    /// `None` if it has to be tried again: after a split, or with the old value at hand.
    #[inline]
    fn try_put<'s, 'p: 's, O: Old<'p, M, K>>(
        &'p self,
        old: &mut O,
        key: &KeyOf<K>,
        value: &InputOf<K>,
        prepared: &'s <K as NodeChanges>::Prepared<'p, M>,
        condition: Condition,
    ) -> Result<Option<Written>, Stop> {
        let Some(leaf) = self.latch_at(Seek::At(key), 0)? else { return Ok(None) };
        self.put_at(leaf, old, (key, value), prepared, condition)
    }

    /// The same in the leaf that covers the key.
    #[inline(always)]
    pub(super) fn put_at<'s, 'p: 's, O: Old<'p, M, K>>(
        &'p self,
        (spot, held): Latched<'p, K>,
        old: &mut O,
        pair: (&KeyOf<K>, &InputOf<K>),
        prepared: &'s <K as NodeChanges>::Prepared<'p, M>,
        condition: Condition,
    ) -> Result<Option<Written>, Stop> {
        let (m, key) = (self.medium(), pair.0);
        let node = spot.node;
        let (rank, found) = K::locate(&self.pool, &node, key)?;
        let look = old.find(&self.pool, key, found)?;
        if look == Verdict::Read {
            held.unlock_unchanged();
            return Ok(None);
        }
        let is_met =
            condition == Condition::Always || (condition == Condition::Present) == rank.exact;
        if look == Verdict::Refuse || !is_met {
            held.unlock_unchanged();
            return Ok(Some((None, spot.lag)));
        }
        let at = PutPoint { node, rank, found };
        let mut ready = K::Ready::default();
        match K::ready(&mut ready, &at, pair, Some(prepared)) {
            InLeaf::Ready => {}
            InLeaf::NeedsRoom(asking) => {
                let wants = |at: &PutPoint<'_, K>| match K::ready(
                    &mut K::Ready::default(),
                    at,
                    pair,
                    Some(prepared),
                ) {
                    InLeaf::NeedsRoom(asking) => Some(asking),
                    InLeaf::Ready | InLeaf::NeedsStep => None,
                };
                self.make_room(&node, held, key, asking, wants)?;
                return Ok(None);
            }
            InLeaf::NeedsStep => {
                let epoch = self.put_with_step(&at, pair, prepared)?;
                drop(held);
                return Ok(Some((Some(epoch), spot.lag)));
            }
        }
        let mut op = m.enter()?;
        K::put_in_leaf(m, &mut op, &at, pair, &ready);
        if !rank.exact {
            self.count_new(&mut op);
        }
        let epoch = Some(m.epoch(&op));
        drop(op);
        drop(held);
        Ok(Some((epoch, spot.lag)))
    }

    /// Puts a pair that needs more than its leaf, which has room for it. Answers the epoch.
    #[inline(always)]
    fn put_with_step<'s, 'p: 's>(
        &'p self,
        at: &PutPoint<'_, K>,
        pair: (&KeyOf<K>, &InputOf<K>),
        prepared: &'s <K as NodeChanges>::Prepared<'p, M>,
    ) -> Result<u64, Stop> {
        let mut step = self.pool.step();
        let plan = K::plan(&mut step, at, pair, prepared)?;
        let mut op = step.enter()?;
        step.publish_alloc(&mut op);
        K::put(&mut step, &mut op, at, &plan, pair, prepared);
        if !at.rank.exact {
            self.count_new(&mut op);
        }
        // The old record goes only after nothing names it.
        step.publish_free(&mut op);
        Ok(self.medium().epoch(&op))
    }

    /// Apart: a change of a value has no use for it.
    #[inline(never)]
    fn count_new(&self, op: &mut M::Op<'_>) {
        self.medium().count(op, self.anchor(), 1);
    }

    /// Removes a key and returns its value. The removal is failure-atomic. If the leaf then fits into
    /// one node with a neighbour, the two are merged.
    ///
    /// # Errors
    /// The same as for [`put`](Self::put).
    pub fn remove(&self, key: &KeyOf<K>) -> Result<Put<ValueOf<K>>> {
        self.remove_for(&mut Wanted::default(), key)
    }

    /// Like [`remove`](Self::remove), but does not look at the value, which may be large or damaged.
    ///
    /// # Errors
    /// The same as for [`put`](Self::put).
    pub fn delete(&self, key: &KeyOf<K>) -> Result<Put<()>> {
        self.remove_for(&mut Unwanted::default(), key)
    }

    pub(super) fn remove_for<'s, O: Old<'s, M, K>>(
        &'s self,
        old: &mut O,
        key: &KeyOf<K>,
    ) -> Result<Put<O::Value>> {
        key.check()?;
        self.pool().throttle(false)?;
        let mut turns = Retries::default();
        let removed = loop {
            if let Some(removed) = retry(|| self.try_remove(&mut *old, key))? {
                break removed;
            }
            old.read()?;
            turns.go_on("the removal of a pair")?;
        };
        Ok(Put { old: old.take(), epoch: self.tidy_after(key, removed) })
    }

    /// The upkeep after a removal, whose epoch it says; as in `put`.
    pub(super) fn tidy_after(&self, key: &KeyOf<K>, (epoch, lag, due): Removed) -> Option<u64> {
        let _ = self.complete(lag);
        if due {
            let _ = self.merge_at(key);
        }
        epoch
    }

    /// `None` if it has to be tried again with the old value at hand.
    fn try_remove<'s, O: Old<'s, M, K>>(
        &'s self,
        old: &mut O,
        key: &KeyOf<K>,
    ) -> Result<Option<Removed>, Stop> {
        let Some(leaf) = self.latch_at(Seek::At(key), 0)? else { return Err(Stop::Busy) };
        self.remove_at(leaf, old, key)
    }

    /// The same in the leaf that covers the key.
    #[inline(always)]
    pub(super) fn remove_at<'s, O: Old<'s, M, K>>(
        &'s self,
        (spot, held): Latched<'s, K>,
        old: &mut O,
        key: &KeyOf<K>,
    ) -> Result<Option<Removed>, Stop> {
        let m = self.medium();
        let node = spot.node;
        let (rank, found) = K::locate(&self.pool, &node, key)?;
        let look = old.find(&self.pool, key, found)?;
        let Some(entry) = found.filter(|_| look == Verdict::Write) else {
            held.unlock_unchanged();
            return Ok((look != Verdict::Read).then_some((None, spot.lag, false)));
        };
        let mut step = self.pool.step();
        K::release(&mut step, entry)?;
        let mut op = step.enter()?;
        K::remove(m, &mut op, node.page(), node.shape(), rank.le - 1);
        m.count(&mut op, self.anchor(), -1);
        let sparse = K::node(node.page()).is_some_and(|left| K::is_sparse(&left));
        step.publish_free(&mut op);
        let epoch = Some(m.epoch(&op));
        drop(op);
        drop(held);
        Ok(Some((epoch, spot.lag, sparse)))
    }
}

/// Values that come piece by piece.
impl<M: Medium, K: Kind + NodeBytes> Blink<M, K> {
    /// Begins a pair whose value comes piece by piece and has so many bytes; nothing of that is in the tree
    /// before [`set_large`](Self::set_large). `None` if the pair is so short that it is kept in a page:
    /// then it is put as a whole.
    ///
    /// # Errors
    /// KeyTooLong, ValueTooLong, RecordTooLong, Full, I/O errors, Poisoned; nothing is kept then.
    pub fn begin_large(&self, key: &[u8], value_bytes: u64) -> Result<Option<LargeWriter<'_, M>>> {
        let fits = |bytes| self.pool.holds_record(key.len(), bytes);
        match usize::try_from(value_bytes).is_ok_and(fits) {
            true => Ok(None),
            false => self.pool.begin_large(key, value_bytes).map(Some),
        }
    }

    /// As [`set`](Self::set), with the value that [`begin_large`](Self::begin_large) has begun for this key,
    /// and of which all is written.
    ///
    /// # Errors
    /// As [`put`](Self::put); the value is discarded then.
    pub fn set_large<'p>(
        &'p self,
        key: &[u8],
        value: LargeWriter<'p, M>,
        condition: Condition,
    ) -> Result<Put<()>> {
        self.set_large_for(&mut Unwanted::default(), key, value, condition)
    }

    pub(super) fn set_large_for<'p, O: Old<'p, M, K>>(
        &'p self,
        old: &mut O,
        key: &[u8],
        value: LargeWriter<'p, M>,
        condition: Condition,
    ) -> Result<Put<O::Value>> {
        let prepared = K::prepared(value.finish()?);
        // Nothing of a value that is in extents goes into the leaf.
        self.put_prepared(old, key, &[], &prepared, condition)
    }
}

// Writes that keep what they replace.

/// The state of a key before a write.
#[derive(Debug, Clone)]
pub enum Before<V> {
    /// The key was not there.
    Absent,
    /// Its value.
    Value(V),
    /// It had a value that is too large to be kept.
    TooLarge,
    /// It had a value that cannot be read.
    Lost(Error),
}

/// Keeps what writes replace.
pub trait KeepBefore<Q: ?Sized, V> {
    /// Whether what this key has now may still have to be kept.
    fn is_due(&self, key: &Q) -> bool;
    /// Whether it is kept already: asked before a value is read that is not in the leaf.
    ///
    /// # Errors
    /// [`Error::NoMemory`]: then the write does not happen.
    fn is_kept(&self, key: &Q) -> Result<bool>;
    /// Whether a value of so many bytes is kept.
    fn takes(&self, bytes: usize) -> bool;
    /// Keeps what this key has now, unless another thread has done so since it was due.
    ///
    /// # Errors
    /// [`Error::NoMemory`]: then the write does not happen.
    fn keep(&self, key: &Q, before: Before<V>) -> Result<()>;
    /// The same of a value that lies in the leaf: `append` copies its bytes, so many, behind what may be there already.
    ///
    /// # Errors
    /// Those of [`keep`](Self::keep), and of `append`.
    fn keep_inside(
        &self,
        key: &Q,
        bytes: usize,
        append: &mut dyn FnMut(&mut V) -> Result<()>,
    ) -> Result<()>;
}

/// Keeps the old value, and then does with it what the caller wants.
pub(super) struct Keeping<'k, O, B: ?Sized, V, F> {
    pub(super) inner: O,
    keeper: &'k B,
    condition: Condition,
    far: Option<F>,
    /// The value that `far` leads to.
    read: Option<Before<V>>,
}

impl<'k, O, B: ?Sized, V, F> Keeping<'k, O, B, V, F> {
    pub(super) fn new(inner: O, keeper: &'k B, condition: Condition) -> Self {
        Self { inner, keeper, condition, far: None, read: None }
    }
}

impl<'p, M, K, O, B> Old<'p, M, K> for Keeping<'_, O, B, ValueOf<K>, <K as NodeReads>::Far<'p, M>>
where
    M: Medium,
    K: Kind,
    O: Old<'p, M, K>,
    B: KeepBefore<KeyOf<K>, ValueOf<K>> + ?Sized,
{
    type Value = O::Value;

    fn find(
        &mut self,
        pool: &'p Pool<M>,
        key: &KeyOf<K>,
        entry: Option<K::Entry<'_>>,
    ) -> Result<Verdict> {
        let look = self.inner.find(pool, key, entry)?;
        let happens = match self.condition {
            Condition::Always => true,
            Condition::Present => entry.is_some(),
            Condition::Absent => entry.is_none(),
        };
        if look == Verdict::Refuse || !happens || !self.keeper.is_due(key) {
            return Ok(look);
        }
        let inside = entry.and_then(|entry| Some((entry, K::value_inside(entry)?)));
        if let Some((entry, bytes)) = inside
            && self.keeper.takes(bytes)
        {
            if look == Verdict::Write {
                self.keeper.keep_inside(key, bytes, &mut |to| K::append_inside(entry, to))?;
            }
            return Ok(look);
        }
        let before = match entry.map(|entry| K::found(pool, entry)).transpose() {
            Ok(None) => Before::Absent,
            Ok(Some(StoredValue::Inline(value))) if !self.keeper.takes(value.weight()) => {
                Before::TooLarge
            }
            Ok(Some(StoredValue::Inline(value))) => Before::Value(value),
            Ok(Some(StoredValue::External(far))) if !self.keeper.takes(far.weight()) => {
                Before::TooLarge
            }
            Ok(Some(StoredValue::External(far))) => {
                if self.keeper.is_kept(key)? {
                    return Ok(look);
                }
                if self.far.as_ref() != Some(&far) {
                    (self.far, self.read) = (Some(far), None);
                }
                match self.read.take_if(|_| look == Verdict::Write) {
                    Some(read) => read,
                    None => return Ok(Verdict::Read),
                }
            }
            Err(error @ Error::NoMemory { .. }) => return Err(error),
            Err(error) => Before::Lost(error),
        };
        if look == Verdict::Write {
            self.keeper.keep(key, before)?;
        }
        Ok(look)
    }

    fn read(&mut self) -> Result<()> {
        self.inner.read()?;
        if let (Some(far), None) = (&self.far, &self.read) {
            self.read = Some(match far.read() {
                Ok(value) => Before::Value(value),
                Err(error @ Error::NoMemory { .. }) => return Err(error),
                // A caller that does not want the old value can do without it.
                Err(error) => Before::Lost(error),
            });
        }
        Ok(())
    }

    fn take(&mut self) -> Option<O::Value> {
        self.inner.take()
    }
}

impl<M: Medium, K: Kind> Blink<M, K> {
    /// As [`put`](Self::put), for a caller that keeps what it replaces.
    ///
    /// # Errors
    /// Those of [`put`](Self::put).
    pub fn put_keeping(
        &self,
        keeper: &(impl KeepBefore<KeyOf<K>, ValueOf<K>> + ?Sized),
        key: &KeyOf<K>,
        value: &InputOf<K>,
        condition: Condition,
    ) -> Result<Put<ValueOf<K>>> {
        let mut old = Keeping::new(Wanted::default(), keeper, condition);
        self.put_for(&mut old, key, value, condition)
    }

    /// As [`set`](Self::set), for a caller that keeps what it replaces.
    ///
    /// # Errors
    /// Those of [`put`](Self::put).
    pub fn set_keeping(
        &self,
        keeper: &(impl KeepBefore<KeyOf<K>, ValueOf<K>> + ?Sized),
        key: &KeyOf<K>,
        value: &InputOf<K>,
        condition: Condition,
    ) -> Result<Put<()>> {
        let mut old = Keeping::new(Unwanted::default(), keeper, condition);
        self.put_for(&mut old, key, value, condition)
    }

    /// As [`remove`](Self::remove), for a caller that keeps what it removes.
    ///
    /// # Errors
    /// Those of [`put`](Self::put).
    pub fn remove_keeping(
        &self,
        keeper: &(impl KeepBefore<KeyOf<K>, ValueOf<K>> + ?Sized),
        key: &KeyOf<K>,
    ) -> Result<Put<ValueOf<K>>> {
        let mut old = Keeping::new(Wanted::default(), keeper, Condition::Present);
        self.remove_for(&mut old, key)
    }

    /// As [`delete`](Self::delete), for a caller that keeps what it removes.
    ///
    /// # Errors
    /// Those of [`put`](Self::put).
    pub fn delete_keeping(
        &self,
        keeper: &(impl KeepBefore<KeyOf<K>, ValueOf<K>> + ?Sized),
        key: &KeyOf<K>,
    ) -> Result<Put<()>> {
        let mut old = Keeping::new(Unwanted::default(), keeper, Condition::Present);
        self.remove_for(&mut old, key)
    }
}

impl<M: Medium, K: Kind + NodeBytes> Blink<M, K> {
    /// As [`set_large`](Self::set_large), for a caller that keeps what it replaces.
    ///
    /// # Errors
    /// Those of [`set_large`](Self::set_large).
    pub fn set_large_keeping<'p>(
        &'p self,
        keeper: &impl KeepBefore<[u8], ValueOf<K>>,
        key: &[u8],
        value: LargeWriter<'p, M>,
        condition: Condition,
    ) -> Result<Put<()>> {
        let mut old = Keeping::new(Unwanted::default(), keeper, condition);
        self.set_large_for(&mut old, key, value, condition)
    }
}
