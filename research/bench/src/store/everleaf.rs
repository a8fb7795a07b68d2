//! Everleaf's own two: the index of words on a file, and the store of byte strings.

use std::ops::Bound;
use std::sync::Arc;

use anyhow::Result;
use everleaf::{Cursor, Db, Durability, Options, Tree};
use everleaf_file::{File, FileOptions};
use everleaf_tree::blink::Condition;
use everleaf_tree::{CircTree, FilePool, INDEX_ANCHOR, Index};

use super::api::{How, KvCursor, KvStore, SyncMode, show_pairs, word};
use super::transact::{Access, Body, Session, Transaction, Transactional};

/// `CircTree` on an ordinary file. Keys and values are eight bytes, big-endian.
pub struct WordStore {
    tree: CircTree<File>,
    pool: FilePool,
    mode: SyncMode,
}

impl WordStore {
    /// Opens the pool in a folder, or makes it.
    pub fn open(how: &How) -> Result<Box<dyn KvStore>> {
        let options = FileOptions { create: true, ..FileOptions::default() };
        let pool = FilePool::open(&how.dir.join("words.ever"), &options)?;
        let tree = CircTree::open(Arc::clone(pool.pool()), INDEX_ANCHOR)?;
        Ok(Box::new(Self { tree, pool, mode: how.mode }))
    }

    /// Waits for the epoch of a write, if each is synced.
    fn settle(&self, epoch: Option<u64>) -> Result<()> {
        match (self.mode, epoch) {
            (SyncMode::SyncEach, Some(epoch)) => {
                Ok(self.pool.pool().medium().wait_durable(epoch)?)
            }
            _ => Ok(()),
        }
    }
}

impl KvStore for WordStore {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let put = self.tree.put(&word(key)?, &word(value)?, Condition::Always)?;
        self.settle(put.epoch)
    }

    fn put_all(&self, pairs: &[(Vec<u8>, Vec<u8>)]) -> Result<()> {
        let mut epoch = None;
        {
            // All in one epoch: after a crash all are there or none is.
            let _hold = self.pool.pool().medium().pin_epoch();
            for (key, value) in pairs {
                epoch = self.tree.put(&word(key)?, &word(value)?, Condition::Always)?.epoch;
            }
        }
        self.settle(epoch)
    }

    fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let found = self.tree.get(&word(key)?)?;
        Ok(found.map(|value| read(&value.to_be_bytes())).is_some())
    }

    fn remove(&self, key: &[u8]) -> Result<bool> {
        let put = self.tree.remove(&word(key)?)?;
        self.settle(put.epoch)?;
        Ok(put.old.is_some())
    }

    fn scan_range(
        &self,
        from: &[u8],
        limit: usize,
        each: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize> {
        let pairs = self.tree.range(Bound::Included(word(from)?), Bound::Unbounded, limit)?;
        pairs.iter().for_each(|(key, value)| each(&key.to_be_bytes(), &value.to_be_bytes()));
        Ok(pairs.len())
    }

    fn sync(&self) -> Result<()> {
        Ok(self.pool.pool().medium().sync()?)
    }

    fn journal_bytes(&self) -> Result<Option<u64>> {
        Ok(Some(self.pool.pool().medium().stats().journal_bytes_written))
    }

    fn replay_bytes(&self) -> Option<u64> {
        Some(self.pool.pool().medium().stats().journal_replay_bytes)
    }

    fn close(mut self: Box<Self>) -> Result<()> {
        Ok(self.pool.close()?)
    }
}

/// One tree of a [`Db`].
pub struct StringStore {
    db: Db,
    tree: Tree,
}

impl StringStore {
    /// Opens the pool in a folder, or makes it.
    pub fn open(how: &How) -> Result<Self> {
        let mut options = Options::new();
        if how.page_bytes > 0 {
            options = options.page_bytes(how.page_bytes);
        }
        if how.memory_bytes > 0 {
            options = options.memory(how.memory_bytes);
        }
        let options = options.compression(how.compression);
        let path = how.dir.join("strings.ever");
        let db = match &how.meter {
            Some(meter) => options.open_on(meter.io(), path)?,
            None => options.open(path)?,
        };
        let durability = match how.mode {
            SyncMode::Buffered => Durability::Buffered,
            SyncMode::SyncEach => Durability::Sync,
        };
        Ok(Self { tree: db.tree("bench")?.with(durability), db: db.with(durability) })
    }
}

impl KvStore for StringStore {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.tree.put(key, value)?)
    }

    fn put_all(&self, pairs: &[(Vec<u8>, Vec<u8>)]) -> Result<()> {
        let mut batch = self.db.batch();
        for (key, value) in pairs {
            batch.put(&self.tree, key, value)?;
        }
        Ok(batch.commit()?)
    }

    fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(self.tree.get_with(key, |value| read(value))?.is_some())
    }

    fn remove(&self, key: &[u8]) -> Result<bool> {
        self.tree.delete(key)?;
        Ok(true)
    }

    fn scan_range(
        &self,
        from: &[u8],
        limit: usize,
        each: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize> {
        show_pairs(self.tree.range(from..).take(limit), each)
    }

    fn scan_cursor(
        &self,
        from: &[u8],
        limit: usize,
        each: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize> {
        let mut cursor = self.tree.cursor();
        let is_there = limit > 0 && cursor.seek(from)?;
        show_all(cursor, is_there, Cursor::next, limit, each)
    }

    fn scan_back(
        &self,
        from: &[u8],
        limit: usize,
        each: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize> {
        let mut cursor = self.tree.cursor();
        let is_there = limit > 0 && cursor.seek_for_prev(from)?;
        show_all(cursor, is_there, Cursor::prev, limit, each)
    }

    fn pop_first(&self, _least: &[u8], each: &mut dyn FnMut(&[u8], &[u8])) -> Result<bool> {
        Ok(self.tree.pop_first()?.map(|(key, value)| each(&key, &value)).is_some())
    }

    fn cursor(&self) -> Option<Box<dyn KvCursor + '_>> {
        Some(Box::new(StringCursor(self.tree.cursor())))
    }

    fn sync(&self) -> Result<()> {
        Ok(self.db.sync()?)
    }

    fn settle(&self) -> Result<()> {
        Ok(self.db.checkpoint()?)
    }

    fn journal_bytes(&self) -> Result<Option<u64>> {
        Ok(Some(self.db.stats()?.journal_written_bytes))
    }

    fn memory_bytes(&self) -> Option<u64> {
        Some(self.db.stats().ok()?.memory.bytes)
    }

    fn checkpoint_pages(&self) -> Option<u64> {
        Some(self.db.stats().ok()?.memory.write_backs)
    }

    fn close(self: Box<Self>) -> Result<()> {
        drop(self.tree);
        Ok(self.db.close()?)
    }
}

impl Transactional for StringStore {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(self))
    }

    fn scan_snapshot(&self, each: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        show_pairs(self.db.snapshot()?.of(&self.tree)?.iter(), each).map(drop)
    }

    fn settle(&self) -> Result<()> {
        KvStore::settle(self)
    }
}

impl Session for &StringStore {
    fn transact(&mut self, _access: Access, body: Body<'_>) -> Result<()> {
        self.db.try_transact(|tx| body(&mut InTree { tx, tree: &self.tree }))
    }
}

/// A transaction and the tree that it is about.
struct InTree<'t> {
    tx: &'t everleaf::Transaction,
    tree: &'t Tree,
}

impl Transaction for InTree<'_> {
    fn get(&mut self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(self.tx.get(self.tree, key)?.map(|value| read(&value)).is_some())
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.tx.put(self.tree, key, value)?)
    }
}

/// A cursor of the tree.
struct StringCursor(Cursor);

/// Shows the pair under a cursor; returns whether there is one.
fn show(cursor: &mut Cursor, each: &mut dyn FnMut(&[u8], &[u8])) -> Result<bool> {
    let pair = cursor.pair()?;
    Ok(pair.map(|(key, value)| each(key, value)).is_some())
}

/// Shows up to `limit` pairs from a cursor on, if it is at one; returns how many.
fn show_all(
    mut cursor: Cursor,
    mut is_there: bool,
    step: impl Fn(&mut Cursor) -> everleaf::Result<bool>,
    limit: usize,
    each: &mut dyn FnMut(&[u8], &[u8]),
) -> Result<usize> {
    let mut count = 0;
    while is_there {
        // A pair that was removed meanwhile is not shown.
        count += usize::from(show(&mut cursor, each)?);
        is_there = count < limit && step(&mut cursor)?;
    }
    Ok(count)
}

impl KvCursor for StringCursor {
    fn seek(&mut self, key: &[u8], each: &mut dyn FnMut(&[u8], &[u8])) -> Result<bool> {
        Ok(self.0.seek(key)? && show(&mut self.0, each)?)
    }

    fn next(&mut self, each: &mut dyn FnMut(&[u8], &[u8])) -> Result<bool> {
        Ok(self.0.next()? && show(&mut self.0, each)?)
    }

    fn prev(&mut self, each: &mut dyn FnMut(&[u8], &[u8])) -> Result<bool> {
        Ok(self.0.prev()? && show(&mut self.0, each)?)
    }
}
