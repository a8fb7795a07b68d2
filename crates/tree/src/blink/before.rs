//! Writes that keep what they replace, for readers of an earlier moment.
//!
//! The old value is handed over under the latch of its leaf, before the leaf changes. Who reads the leaf first
//! and then looks for what was kept therefore misses nothing: what has changed before the leaf was read was
//! kept before that.

use everleaf_pmem::{Error, Medium, Result};
use everleaf_pool::{LargeWriter, Pool, StoredValue};

use crate::blink::descend::Blink;
use crate::blink::write::{Condition, Look, Old, Put, Unwanted, Wanted};
use crate::node::{FarValue, InputOf, KeyOf, Kind, NodeBytes, NodeReads, TreeValue, ValueOf};

/// What a key had before a write.
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

/// Who keeps what writes replace.
pub trait KeepBefore<Q: ?Sized, V> {
    /// Whether what this key has now is still to be kept.
    fn is_due(&self, key: &Q) -> bool;
    /// Whether a value of so many bytes is kept.
    fn takes(&self, bytes: usize) -> bool;
    /// Keeps what this key has now, unless another thread has done so since it was due.
    ///
    /// # Errors
    /// [`Error::NoMemory`]: then the write does not happen.
    fn keep(&self, key: &Q, before: Before<V>) -> Result<()>;
}

/// Keeps the old value, and then does with it what the caller wants.
pub(super) struct Keeping<'k, O, B: ?Sized, V, F> {
    pub(super) inner: O,
    keeper: &'k B,
    condition: Condition,
    far: Option<F>,
    /// What `far` leads to.
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
    ) -> Result<Look> {
        let look = self.inner.find(pool, key, entry)?;
        let happens = match self.condition {
            Condition::Always => true,
            Condition::Present => entry.is_some(),
            Condition::Absent => entry.is_none(),
        };
        if look == Look::Refuse || !happens || !self.keeper.is_due(key) {
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
                if self.far.as_ref() != Some(&far) {
                    (self.far, self.read) = (Some(far), None);
                }
                match self.read.take_if(|_| look == Look::Write) {
                    Some(read) => read,
                    None => return Ok(Look::Read),
                }
            }
            Err(error @ Error::NoMemory { .. }) => return Err(error),
            Err(error) => Before::Lost(error),
        };
        if look == Look::Write {
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
                // Who does not want the old value can do without it.
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
    /// As [`put`](Self::put), for who keeps what it replaces.
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

    /// As [`set`](Self::set), for who keeps what it replaces.
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

    /// As [`remove`](Self::remove), for who keeps what it removes.
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

    /// As [`delete`](Self::delete), for who keeps what it removes.
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
    /// As [`set_large`](Self::set_large), for who keeps what it replaces.
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
