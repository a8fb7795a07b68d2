//! bf-tree: Microsoft's B-tree of small pages in a ring buffer, with its pages in memory.
//!
//! Its write-ahead log makes each write wait until the log was flushed, a millisecond by default,
//! and a file instead of memory keeps nothing without a snapshot. So it is measured as a map in
//! memory: the fastest that it can be.

use std::cell::RefCell;

use anyhow::{Result, bail};
use bf_tree::{BfTree, Config, LeafInsertResult, LeafReadResult, ScanReturnField};

use super::api::KvStore;

/// Room for small pages: more than any experiment needs, a power of two.
const BUFFER_BYTES: usize = 1 << 30;

/// The longest key. A leaf keeps room for two such in its header.
const KEY_BYTES: usize = 64;

/// The longest pair that a leaf of 4 KiB takes beside such keys.
const RECORD_BYTES: usize = 1900;

thread_local! {
    /// Where pairs are copied to: it has no way to lend them.
    static COPY: RefCell<Vec<u8>> = RefCell::new(vec![0; KEY_BYTES + RECORD_BYTES]);
}

/// The tree.
pub struct Bf(BfTree);

impl Bf {
    /// Makes an empty tree.
    pub fn open() -> Result<Box<dyn KvStore>> {
        let mut config = Config::new(":memory:", BUFFER_BYTES);
        config.cb_max_key_len(KEY_BYTES).cb_max_record_size(RECORD_BYTES);
        match BfTree::with_config(config, None) {
            Ok(tree) => Ok(Box::new(Self(tree))),
            Err(error) => bail!("{error:?}"),
        }
    }
}

impl KvStore for Bf {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        match self.0.insert(key, value) {
            LeafInsertResult::Success => Ok(()),
            LeafInsertResult::InvalidKV(why) => bail!(why),
        }
    }

    fn put_all(&self, pairs: &[(Vec<u8>, Vec<u8>)]) -> Result<()> {
        pairs.iter().try_for_each(|(key, value)| self.put(key, value))
    }

    fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        COPY.with_borrow_mut(|copy| match self.0.read(key, copy) {
            LeafReadResult::Found(len) => {
                read(&copy[..len as usize]);
                Ok(true)
            }
            LeafReadResult::Deleted | LeafReadResult::NotFound => Ok(false),
            LeafReadResult::InvalidKey => bail!("a key of {} bytes", key.len()),
        })
    }

    fn remove(&self, key: &[u8]) -> Result<bool> {
        self.0.delete(key);
        Ok(true)
    }

    fn scan_range(
        &self,
        from: &[u8],
        limit: usize,
        each: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize> {
        if limit == 0 {
            return Ok(0);
        }
        let scan = self.0.scan_with_count(from, limit, ScanReturnField::KeyAndValue);
        let Ok(mut pairs) = scan else { bail!("no scan from a key of {} bytes", from.len()) };
        COPY.with_borrow_mut(|copy| {
            let mut count = 0;
            while let Some((key, value)) = pairs.next(copy) {
                each(&copy[..key], &copy[key..key + value]);
                count += 1;
            }
            Ok(count)
        })
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
