//! A tree as a transaction sees it: what there was at its first read, and what it has written.

use std::cell::RefCell;
use std::fmt;

use everleaf_pmem::fallible;

use super::cursor::TransactionCursor;
use super::walk::{TransactionKeys, TransactionRange};
use super::work::Work;
use crate::cursor::Pair;
use crate::range::OwnedBounds;
use crate::read_tree::{copy_part, own_reads, sealed};
use crate::spans::Upto;
use crate::{AsBytes, Bytes, KeyRange, ReadTree, Result, Tree};

/// A [`Tree`] as a [`Transaction`](crate::Transaction) sees it, from [`Transaction::of`](crate::Transaction::of): for code that takes any
/// [`ReadTree`]. It reads as the transaction's own methods do, and [the same counts as read](crate::Transaction#reads).
#[derive(Clone, Copy)]
pub struct TransactionTree<'t, 'a> {
    work: &'t Work,
    tree: &'a Tree,
}

impl<'t, 'a> TransactionTree<'t, 'a> {
    #[inline(always)]
    pub(super) fn new(work: &'t Work, tree: &'a Tree) -> Self {
        Self { work, tree }
    }

    /// Returns the name that the tree was opened with.
    pub fn name(&self) -> &str {
        self.tree.name()
    }
}

impl sealed::Sealed for TransactionTree<'_, '_> {}

impl<'t> ReadTree for TransactionTree<'t, '_> {
    type Range = TransactionRange<'t>;
    type Keys = TransactionKeys<'t>;
    type Cursor = TransactionCursor<'t>;

    fn name(&self) -> &str {
        self.tree.name()
    }

    #[inline(always)]
    fn get(&self, key: impl AsBytes) -> Result<Option<Bytes>> {
        self.work.get(self.tree, key.as_bytes())
    }

    fn get_into(&self, key: impl AsBytes, value: &mut Vec<u8>) -> Result<bool> {
        let key = key.as_bytes();
        let into = RefCell::new(value);
        let own = |own: Option<&[u8]>| {
            let mut value = into.borrow_mut();
            value.clear();
            let Some(own) = own else { return Ok(false) };
            fallible::append(&mut value, own, "a value")?;
            Ok(true)
        };
        self.work.read(self.tree, key, own, |then| then.get_into(key, &mut into.borrow_mut()))
    }

    fn read_at(&self, key: impl AsBytes, offset: u64, buf: &mut [u8]) -> Result<Option<usize>> {
        let key = key.as_bytes();
        let buf = RefCell::new(buf);
        let own = |own: Option<&[u8]>| {
            Ok(own.map(|value| copy_part(value, offset, &mut buf.borrow_mut())))
        };
        self.work.read(self.tree, key, own, |then| then.read_at(key, offset, &mut buf.borrow_mut()))
    }

    fn value_len(&self, key: impl AsBytes) -> Result<Option<u64>> {
        let key = key.as_bytes();
        let own = |own: Option<&[u8]>| Ok(own.map(|value| value.len() as u64));
        self.work.read(self.tree, key, own, |then| then.value_len(key))
    }

    fn contains(&self, key: impl AsBytes) -> Result<bool> {
        let key = key.as_bytes();
        self.work.read(self.tree, key, |own| Ok(own.is_some()), |then| then.contains(key))
    }

    fn len(&self) -> Result<u64> {
        let then = self.work.then(self.tree)?;
        self.work.note(self.tree, b"", Upto::End)?;
        let mut pairs = then.len()?;
        self.work.each_own(self.tree, |key, is_there| {
            match (then.contains(key)?, is_there) {
                (false, true) => pairs += 1,
                (true, false) => pairs -= 1,
                _ => {}
            }
            Ok(())
        })?;
        Ok(pairs)
    }

    fn cursor(&self) -> TransactionCursor<'t> {
        TransactionCursor::new(self.work, self.tree)
    }

    fn between(&self, bounds: OwnedBounds) -> TransactionRange<'t> {
        TransactionRange::new(self.work, self.tree, bounds)
    }
}

own_reads!(
    impl ['t] TransactionTree<'t, '_> {
        range: TransactionRange<'t>, keys: TransactionKeys<'t>, cursor: TransactionCursor<'t>
    }
    |self| *self
);

impl fmt::Debug for TransactionTree<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TransactionTree").field(&self.name()).finish()
    }
}
