//! Values that are copied into lists of the caller.

use everleaf_pmem::{Medium, Result};
use everleaf_pool::StoredValue;

use super::seek::Seek;
use super::tree::Blink;
use crate::kind::{Kind, NodeCopies};

impl<M: Medium, K: Kind + NodeCopies> Blink<M, K> {
    /// Copies the value of a key into a list, which is cleared before. Says whether the key is there.
    ///
    /// # Errors
    /// I/O errors, Corrupt, NoMemory; the list holds anything then.
    #[inline]
    pub fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let found = self.read_leaf(
            Seek::At(key),
            |at| {
                let found = |entry| K::value_into(&self.pool, at.shape, entry, value);
                K::find(&self.pool, at.page, at.shape, at.view, key, found)
            },
            |_| Ok(None),
        )?;
        match found {
            None => {
                value.clear();
                Ok(false)
            }
            Some(StoredValue::Inline(())) => Ok(true),
            Some(StoredValue::External(far)) => K::read_into(&far, value).map(|()| true),
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
                let part = |entry| K::part_into(&self.pool, at.shape, entry, offset, buf);
                K::find(&self.pool, at.page, at.shape, at.view, key, part)
            },
            |_| Ok(None),
        )?;
        Ok(match found {
            None => None,
            Some(StoredValue::Inline(bytes)) => Some(bytes),
            Some(StoredValue::External(far)) => Some(K::read_at(&far, offset, buf)?),
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
                let bytes = |entry| K::value_bytes(&self.pool, at.shape, entry);
                K::find(&self.pool, at.page, at.shape, at.view, key, bytes)
            },
            |_| Ok(None),
        )
    }
}
