//! The interface of all stores.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use everleaf::Compression;
use serde::Deserialize;

use super::meter::Meter;

/// Shows pairs; returns how many.
///
/// # Errors
/// The first one among the pairs.
pub fn show_pairs<K: AsRef<[u8]>, V: AsRef<[u8]>, E: Into<anyhow::Error>>(
    pairs: impl Iterator<Item = Result<(K, V), E>>,
    each: &mut dyn FnMut(&[u8], &[u8]),
) -> Result<usize> {
    let mut count = 0;
    for pair in pairs {
        let (key, value) = pair.map_err(Into::into)?;
        each(key.as_ref(), value.as_ref());
        count += 1;
    }
    Ok(count)
}

/// An ordered map from byte strings to byte strings. Any number of threads use it at once.
pub trait KvStore: Send + Sync {
    /// Sets the value of a key.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()>;

    /// Sets all of them in one transaction or batch.
    fn put_all(&self, pairs: &[(Vec<u8>, Vec<u8>)]) -> Result<()>;

    /// Shows the value of a key to `read`; returns whether it is there.
    fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool>;

    /// Removes a key. Returns whether it was there if the store can tell without another read, else
    /// true.
    fn remove(&self, key: &[u8]) -> Result<bool>;

    /// Shows up to `limit` pairs from a key on, ascending, by the iterator that programs use most;
    /// returns how many.
    fn scan_range(
        &self,
        from: &[u8],
        limit: usize,
        each: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize>;

    /// The same by a cursor that lends its pairs, if the store has one beside its iterator.
    fn scan_cursor(
        &self,
        from: &[u8],
        limit: usize,
        each: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize> {
        self.scan_range(from, limit, each)
    }

    /// Shows up to `limit` pairs from a key on, descending, by the means of
    /// [`scan_cursor`](Self::scan_cursor); returns how many.
    ///
    /// # Errors
    /// The store fails, or does not [go back](super::goes_back).
    fn scan_back(
        &self,
        _from: &[u8],
        _limit: usize,
        _each: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize> {
        bail!("this store is not measured backwards")
    }

    /// Takes the first pair and shows it; returns whether there is one. Stores without a call for that look for
    /// it from `least` on, a key that none is below, and remove it then.
    fn pop_first(&self, least: &[u8], each: &mut dyn FnMut(&[u8], &[u8])) -> Result<bool> {
        let mut first = Vec::new();
        let found = self.scan_range(least, 1, &mut |key, value| {
            first.extend(key);
            each(key, value);
        })?;
        if found > 0 {
            self.remove(&first)?;
        }
        Ok(found > 0)
    }

    /// A cursor that stays open, of stores where that is measured on its own.
    fn cursor(&self) -> Option<Box<dyn KvCursor + '_>> {
        None
    }

    /// Makes durable all that was done so far.
    fn sync(&self) -> Result<()>;

    /// Does now what writes have left for the background, as far as the store can be asked to, so
    /// that reads after it run alone.
    fn settle(&self) -> Result<()> {
        self.sync()
    }

    /// Bytes that were written to the log since the open, if the store tells.
    fn journal_bytes(&self) -> Result<Option<u64>> {
        Ok(None)
    }

    /// Bytes of log that an open after a kill would read now, if the store tells.
    fn replay_bytes(&self) -> Option<u64> {
        None
    }

    /// Bytes of memory that its pages take, if the store tells.
    fn memory_bytes(&self) -> Option<u64> {
        None
    }

    /// Pages that checkpoints have written since the open, if the store tells.
    fn checkpoint_pages(&self) -> Option<u64> {
        None
    }

    /// Closes it as a program does that ends well.
    fn close(self: Box<Self>) -> Result<()>;
}

/// A place in a store that goes in both directions. Each step shows the pair that is there; returns
/// whether there is one.
pub trait KvCursor {
    /// Goes to a key, or to the one after it.
    fn seek(&mut self, key: &[u8], each: &mut dyn FnMut(&[u8], &[u8])) -> Result<bool>;

    /// Goes to the next pair.
    fn next(&mut self, each: &mut dyn FnMut(&[u8], &[u8])) -> Result<bool>;

    /// Goes to the pair before.
    fn prev(&mut self, each: &mut dyn FnMut(&[u8], &[u8])) -> Result<bool>;
}

/// When an operation is durable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SyncMode {
    /// Some time after it returned.
    #[default]
    Buffered,
    /// When it returns.
    SyncEach,
}

/// How a store is opened.
#[derive(Debug, Clone, Default)]
pub struct How {
    /// A folder of its own; what is there is opened again.
    pub dir: PathBuf,
    /// When operations are durable.
    pub mode: SyncMode,
    /// Bytes of a page of a new store whose pages can be chosen; its default if 0.
    pub page_bytes: u32,
    /// Bytes of memory that pages may take; as many as there is a use for if 0.
    pub memory_bytes: u64,
    /// Of Everleaf's store of byte strings: how pages and large values are compressed.
    pub compression: Compression,
    /// Of Everleaf's store of byte strings: what counts its writes.
    pub meter: Option<Arc<Meter>>,
}

#[cfg(any(
    feature = "fjall",
    feature = "redb",
    feature = "rocksdb",
    feature = "sled",
    feature = "sqlite"
))]
impl How {
    /// The bytes that a store may keep in memory.
    pub fn cache_bytes(&self) -> u64 {
        if self.memory_bytes == 0 { CACHE_BYTES } else { self.memory_bytes }
    }
}

/// The bytes that a store may keep in memory: more than any experiment has, so that nothing is read from disk.
#[cfg(any(
    feature = "fjall",
    feature = "redb",
    feature = "rocksdb",
    feature = "sled",
    feature = "sqlite"
))]
const CACHE_BYTES: u64 = 4 << 30;

/// Eight bytes as a number that orders as they do.
pub fn word(bytes: &[u8]) -> Result<u64> {
    let bytes = bytes.try_into().with_context(|| format!("{} bytes, not 8", bytes.len()))?;
    Ok(u64::from_be_bytes(bytes))
}
