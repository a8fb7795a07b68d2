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
