//! Reading one leaf, and one key.
//!
//! A reader goes down, reads the leaf, and looks whether anybody wrote meanwhile. That is the default; the papers'
//! trees can be read [otherwise](crate::blink::Reading).

use std::mem;

use everleaf_pmem::{Medium, Result, Retries};
use everleaf_pool::StoredValue;

use crate::blink::descend::{Blink, FoundNode, Seek, Waiting};
use crate::blink::reading::Reading;
use crate::node::{FoundValue, KeyOf, Kind, NodeAt, NodeBytes, ValueOf, settled};
use crate::slots::racing::Racing;

/// After so many failed attempts an optimistic reader keeps writers out.
const TRIES: u32 = 8;

impl<M: Medium, K: Kind> Blink<M, K> {
    /// Reads one leaf: by `settled` if nobody is changing it, by `racing` beside a writer, for which others wait. What
    /// they answer counts only after the leaf was validated; so neither reads from a disk what can be read after that.
    #[inline]
    pub(super) fn read_leaf<T>(
        &self,
        seek: Seek<'_, KeyOf<K>>,
        mut settled: impl FnMut(&NodeAt<'_, K>) -> Result<T>,
        racing: impl Fn(Racing<'_>) -> Result<T>,
    ) -> Result<T> {
        self.read_spot(seek, |spot| settled(&spot.node), racing)
    }

    /// As [`read_leaf`](Self::read_leaf), for who remembers the leaf and its version.
    #[inline(always)]
    pub(super) fn read_spot<T>(
        &self,
        seek: Seek<'_, KeyOf<K>>,
        mut settled: impl FnMut(&FoundNode<'_, K>) -> Result<T>,
        racing: impl Fn(Racing<'_>) -> Result<T>,
    ) -> Result<T> {
        let Reading::Optimistic = self.reading else {
            return self.read_otherwise(seek, settled, racing);
        };
        let mut turns = Retries::default();
        loop {
            if let Some(Some(spot)) = self.try_descend::<Waiting>(seek, 0)? {
                let answer = settled(&spot);
                if spot.node.page().latch().validate(spot.version) {
                    return answer;
                }
            }
            if turns.count() + 1 == TRIES {
                return self.read_undisturbed(seek, settled);
            }
            turns.again("a search for a leaf")?;
        }
    }

    /// Reads one leaf for a reader whom writers have kept from it: its way cannot be cut off, since no
    /// node dies without a merge, and the leaf is latched.
    #[cold]
    fn read_undisturbed<T>(
        &self,
        seek: Seek<'_, KeyOf<K>>,
        mut settled: impl FnMut(&FoundNode<'_, K>) -> Result<T>,
    ) -> Result<T> {
        let _no_merge = self.lock_merges();
        let Some((spot, held)) = self.walk(seek, 0)? else { unreachable!("every tree has leaves") };
        let answer = settled(&spot);
        held.unlock_unchanged();
        answer
    }
}

impl<M: Medium, K: Kind> Blink<M, K> {
    /// The value of a key. The tree's [`Reading`](crate::blink::Reading) decides what it sees of writers that are
    /// under way, and whether it waits for them. On media with epochs it sees writes before they are
    /// durable.
    ///
    /// # Errors
    /// I/O errors and Corrupt.
    #[inline]
    pub fn get(&self, key: &KeyOf<K>) -> Result<Option<ValueOf<K>>> {
        let found = self.read_leaf(
            Seek::At(key),
            |at| {
                let found = |entry| K::found(&self.pool, entry);
                K::find(&self.pool, at, key, found)
            },
            |leaf| self.found_beside_writer(leaf, key),
        )?;
        // The leaf is left alone by now: a large value takes as long as it takes.
        found.map(settled).transpose()
    }

    /// Whether a key is there. Does not read its value.
    ///
    /// # Errors
    /// I/O errors and Corrupt.
    pub fn contains(&self, key: &KeyOf<K>) -> Result<bool> {
        self.read_leaf(
            Seek::At(key),
            |at| Ok(K::find(&self.pool, at, key, |_| Ok(()))?.is_some()),
            |leaf| Ok(self.found_beside_writer(leaf, key)?.is_some()),
        )
    }
}

impl<M: Medium, K: Kind + NodeBytes> Blink<M, K> {
    /// Copies the value of a key into a list, which is cleared before. Says whether the key is there.
    ///
    /// # Errors
    /// I/O errors, Corrupt, NoMemory; the list holds anything then.
    #[inline]
    pub fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let mut found = FoundValue::new(mem::take(value));
        let is_there = self.find_value(key, &mut found)?;
        *value = found.take()?;
        Ok(is_there)
    }

    /// Finds the value of a key, as [`get_into`](Self::get_into): one that is large and in memory is not copied.
    ///
    /// # Errors
    /// As [`get_into`](Self::get_into).
    #[inline]
    pub fn find_value(&self, key: &[u8], value: &mut FoundValue) -> Result<bool> {
        let found = self.read_leaf(
            Seek::At(key),
            |at| {
                let found = |entry| K::value_into(&self.pool, at.shape(), entry, value);
                K::find(&self.pool, at, key, found)
            },
            |_| Ok(None),
        )?;
        match found {
            None => {
                value.own().clear();
                Ok(false)
            }
            Some(StoredValue::Inline(())) => Ok(true),
            Some(StoredValue::External(far)) => far.read_into(value.own()).map(|()| true),
        }
    }

    /// Fills a buffer with bytes of the value of a key, from byte `offset` of it on, all of one value. Says
    /// how many that were, fewer than asked for only at the value's end; none if the key is not there. Of a
    /// value in extents it reads the pages in which they are, and no others.
    ///
    /// # Errors
    /// I/O errors, Corrupt, NoMemory; the buffer holds anything then.
    pub fn read_at(&self, key: &[u8], offset: u64, buf: &mut [u8]) -> Result<Option<usize>> {
        let found = self.read_leaf(
            Seek::At(key),
            |at| {
                let part = |entry| K::part_into(&self.pool, at.shape(), entry, offset, buf);
                K::find(&self.pool, at, key, part)
            },
            |_| Ok(None),
        )?;
        Ok(match found {
            None => None,
            Some(StoredValue::Inline(bytes)) => Some(bytes),
            Some(StoredValue::External(far)) => Some(far.read_at(offset, buf)?),
        })
    }

    /// How many bytes the value of a key has. Does not read a value in extents.
    ///
    /// # Errors
    /// I/O errors, Corrupt.
    pub fn value_len(&self, key: &[u8]) -> Result<Option<u64>> {
        self.read_leaf(
            Seek::At(key),
            |at| {
                let bytes = |entry| K::value_bytes(&self.pool, at.shape(), entry);
                K::find(&self.pool, at, key, bytes)
            },
            |_| Ok(None),
        )
    }
}
