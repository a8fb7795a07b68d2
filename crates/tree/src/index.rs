//! The interface that the papers measure: an ordered map from u64 to u64.
//!
//! Object-safe, for tools and benches; hot paths stay generic over the tree's type.

use std::ops::Bound;

use everleaf_pmem::{Result, fallible};

/// An ordered map from u64 to u64. Every key and every value is allowed.
///
/// Any number of threads may call all operations at once. A `get` or a range sees a write from the
/// moment it is linked; when the write is durable depends on the medium.
pub trait Index: Send + Sync {
    /// The value of a key.
    ///
    /// # Errors
    /// I/O errors and Corrupt.
    fn get(&self, key: u64) -> Result<Option<u64>>;

    /// Appends the values of many keys to a list, in the order of the keys: each is that of a [`get`](Self::get) at some
    /// moment of the call. Trees that are larger than the processor's caches find many keys at once several times as fast
    /// as one by one.
    ///
    /// # Errors
    /// As [`get`](Self::get), and NoMemory; the list has the values of some of the keys then.
    fn get_many(&self, keys: &[u64], values: &mut Vec<Option<u64>>) -> Result<()> {
        fallible::more(values, keys.len(), "values of many keys")?;
        keys.iter().try_for_each(|key| {
            values.push(self.get(*key)?);
            Ok(())
        })
    }

    /// Stores a value and returns the old one.
    ///
    /// # Errors
    /// Full, I/O errors, Poisoned, Corrupt; nothing is stored then.
    fn insert(&self, key: u64, value: u64) -> Result<Option<u64>>;

    /// Stores many pairs, and appends the old values to a list, in the order of the pairs: all that [`insert`](Self::insert) does
    /// of one after the other, so that of two pairs with one key the later stays. Each is durable by itself. Trees that are
    /// larger than the processor's caches find the leaves of many keys at once.
    ///
    /// # Errors
    /// The same as for [`insert`](Self::insert), and NoMemory; the pairs whose old values the list has are stored then.
    fn put_many(&self, pairs: &[(u64, u64)], old: &mut Vec<Option<u64>>) -> Result<()> {
        fallible::more(old, pairs.len(), "old values of many keys")?;
        pairs.iter().try_for_each(|(key, value)| {
            old.push(self.insert(*key, *value)?);
            Ok(())
        })
    }

    /// Stores a value unless the key is there, and returns the one that is there. Of several threads that add the
    /// same key at once, one does.
    ///
    /// # Errors
    /// The same as for [`insert`](Self::insert).
    fn add(&self, key: u64, value: u64) -> Result<Option<u64>>;

    /// Replaces the value of a key that is there, and returns the old one.
    ///
    /// # Errors
    /// The same as for [`insert`](Self::insert).
    fn update(&self, key: u64, value: u64) -> Result<Option<u64>>;

    /// Removes a key and returns its value.
    ///
    /// # Errors
    /// The same as for [`insert`](Self::insert).
    fn remove(&self, key: u64) -> Result<Option<u64>>;

    /// Removes many keys, and appends their values to a list, in the order of the keys, as [`put_many`](Self::put_many)
    /// stores pairs.
    ///
    /// # Errors
    /// The same as for [`put_many`](Self::put_many).
    fn remove_many(&self, keys: &[u64], old: &mut Vec<Option<u64>>) -> Result<()> {
        fallible::more(old, keys.len(), "old values of many keys")?;
        keys.iter().try_for_each(|key| {
            old.push(self.remove(*key)?);
            Ok(())
        })
    }

    /// The smallest key and its value.
    ///
    /// # Errors
    /// I/O errors and Corrupt.
    fn first(&self) -> Result<Option<(u64, u64)>>;

    /// The greatest key and its value.
    ///
    /// # Errors
    /// I/O errors and Corrupt.
    fn last(&self) -> Result<Option<(u64, u64)>>;

    /// Returns up to `limit` entries between two bounds, in ascending order. The entries of one leaf are of
    /// one moment.
    ///
    /// # Errors
    /// I/O errors and Corrupt.
    fn range(&self, from: Bound<u64>, to: Bound<u64>, limit: usize) -> Result<Vec<(u64, u64)>>;

    /// Returns up to `limit` entries between two bounds, in descending order from `to`. The entries of one
    /// leaf are of one moment.
    ///
    /// # Errors
    /// I/O errors and Corrupt.
    fn range_back(&self, from: Bound<u64>, to: Bound<u64>, limit: usize)
    -> Result<Vec<(u64, u64)>>;
}
