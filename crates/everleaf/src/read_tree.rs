//! Reads of a tree, for code that takes a tree as it is now, as it was at a moment, or as a transaction sees it.
//!
//! `Tree` documents each read; it says here only in which way a type has it. The types have all of them as methods of
//! their own, too, so that nobody needs to import the traits: `own_reads!` writes those of the types that are no `Tree`.

use std::iter::FusedIterator;

use everleaf_pmem::fallible;

use crate::bytes::with_spare;
use crate::cursor::{Cursor, Pair};
use crate::range::{ALL, OwnedBounds, bounds_of, bounds_of_prefix};
use crate::{AsBytes, Bytes, KeyRange, Result};

/// No type of another crate may implement the traits, so that they may get more functions.
pub(crate) mod sealed {
    pub trait Sealed {}
}

/// The reads of a tree: of a [`Tree`](crate::Tree) now, of a [`SnapshotTree`](crate::SnapshotTree) at the moment of its
/// snapshot, and of a [`TransactionTree`](crate::TransactionTree), which has the transaction's own writes, too. Code that
/// takes `&impl ReadTree` reads from any of them.
///
/// [`Tree`](crate::Tree) documents the functions; each is called there as it is here. A `SnapshotTree` may also return
/// [`SnapshotTooOld`](crate::Error::SnapshotTooOld), and a `TransactionTree` the errors of
/// [a transaction's reads](crate::Transaction#reads).
///
/// Each of these types has all of the functions as methods of its own, so only generic code needs to import the trait.
/// Other types cannot implement it.
///
/// ```
/// use everleaf::{ReadTree, Result, keys};
///
/// fn sum(accounts: &impl ReadTree) -> Result<i64> {
///     accounts.iter().map(|pair| keys::decode::<i64>(pair?.1)).sum()
/// }
///
/// # fn main() -> Result<()> {
/// # let db = everleaf::Db::in_memory()?;
/// let accounts = db.tree("accounts")?;
/// accounts.put("ada", keys::encode(70))?;
/// let before = db.snapshot()?;
/// let after = db.transact(|tx| {
///     tx.put(&accounts, "bob", keys::encode(10))?;
///     sum(&tx.of(&accounts)?)
/// })?;
/// assert_eq!((sum(&before.of(&accounts)?)?, after, sum(&accounts)?), (70, 80, 80));
/// # Ok(())
/// # }
/// ```
pub trait ReadTree: sealed::Sealed {
    /// An iterator over pairs, from both ends. [`into`](Into::into) makes it one over the keys of the pairs that are left.
    type Range: DoubleEndedIterator<Item = Result<Pair>> + FusedIterator + Into<Self::Keys>;
    /// An iterator over keys, from both ends.
    type Keys: DoubleEndedIterator<Item = Result<Bytes>> + FusedIterator;
    /// A place in the tree.
    type Cursor: ReadCursor;

    /// See [`Tree::name`](crate::Tree::name).
    fn name(&self) -> &str;

    /// See [`Tree::get`](crate::Tree::get).
    fn get(&self, key: impl AsBytes) -> Result<Option<Bytes>>;

    /// See [`Tree::get_many`](crate::Tree::get_many).
    fn get_many<K: AsBytes>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Bytes>>> {
        let mut values = Vec::new();
        for key in keys {
            fallible::push(&mut values, self.get(key)?, "the values of many keys")?;
        }
        Ok(values)
    }

    /// See [`Tree::get_into`](crate::Tree::get_into).
    fn get_into(&self, key: impl AsBytes, value: &mut Vec<u8>) -> Result<bool>;

    /// See [`Tree::get_with`](crate::Tree::get_with).
    #[inline]
    fn get_with<T>(&self, key: impl AsBytes, read: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        with_spare(|value| {
            let found = self.get_into(key, value)?;
            Ok(found.then(|| read(value)))
        })
    }

    /// See [`Tree::read_at`](crate::Tree::read_at).
    fn read_at(&self, key: impl AsBytes, offset: u64, buf: &mut [u8]) -> Result<Option<usize>>;

    /// See [`Tree::value_len`](crate::Tree::value_len).
    fn value_len(&self, key: impl AsBytes) -> Result<Option<u64>>;

    /// See [`Tree::contains`](crate::Tree::contains).
    fn contains(&self, key: impl AsBytes) -> Result<bool>;

    /// See [`Tree::len`](crate::Tree::len), but O(n) for a snapshot and for a transaction, which count the keys.
    fn len(&self) -> Result<u64>;

    /// See [`Tree::is_empty`](crate::Tree::is_empty).
    fn is_empty(&self) -> Result<bool> {
        self.keys().next().transpose().map(|key| key.is_none())
    }

    /// See [`Tree::first`](crate::Tree::first).
    fn first(&self) -> Result<Option<Pair>> {
        self.iter().next().transpose()
    }

    /// See [`Tree::last`](crate::Tree::last).
    fn last(&self) -> Result<Option<Pair>> {
        self.iter().next_back().transpose()
    }

    /// See [`Tree::floor`](crate::Tree::floor).
    fn floor(&self, key: impl AsBytes) -> Result<Option<Pair>> {
        self.range(..=key.as_bytes()).next_back().transpose()
    }

    /// See [`Tree::ceiling`](crate::Tree::ceiling).
    fn ceiling(&self, key: impl AsBytes) -> Result<Option<Pair>> {
        self.range(key.as_bytes()..).next().transpose()
    }

    /// See [`Tree::cursor`](crate::Tree::cursor).
    fn cursor(&self) -> Self::Cursor;

    /// See [`Tree::range`](crate::Tree::range).
    #[inline]
    fn range(&self, range: impl KeyRange) -> Self::Range {
        self.between(bounds_of(&range))
    }

    /// See [`Tree::prefix`](crate::Tree::prefix).
    fn prefix(&self, prefix: impl AsBytes) -> Self::Range {
        self.between(bounds_of_prefix(prefix.as_bytes()))
    }

    /// See [`Tree::iter`](crate::Tree::iter).
    #[inline]
    fn iter(&self) -> Self::Range {
        self.between(ALL)
    }

    /// See [`Tree::keys`](crate::Tree::keys).
    #[inline]
    fn keys(&self) -> Self::Keys {
        self.iter().into()
    }

    /// The pairs between two bounds, whose first item is the error if there was no memory for one of them.
    #[doc(hidden)]
    fn between(&self, bounds: OwnedBounds) -> Self::Range;
}

/// The steps of a cursor: of a [`Cursor`](crate::Cursor), which documents them, and of a
/// [`TransactionCursor`](crate::TransactionCursor). Both have them as methods of their own, so only generic code needs to
/// import the trait. Other types cannot implement it.
///
/// ```
/// use everleaf::{ReadCursor, ReadTree, Result};
///
/// /// The first key of each group of keys that have their first byte in common.
/// fn groups(tree: &impl ReadTree) -> Result<Vec<Vec<u8>>> {
///     let (mut cursor, mut groups) = (tree.cursor(), Vec::new());
///     let mut found = cursor.first()?;
///     while let (true, Some(key)) = (found, cursor.key()) {
///         let group = key.first().copied();
///         groups.push(key.to_vec());
///         found = match group.map_or(Some(0), |byte| byte.checked_add(1)) {
///             Some(next) => cursor.seek([next])?,
///             None => false,
///         };
///     }
///     Ok(groups)
/// }
///
/// # fn main() -> Result<()> {
/// # let db = everleaf::Db::in_memory()?;
/// let tree = db.tree("t")?;
/// for key in ["apple", "avocado", "banana", "cherry", "citron"] {
///     tree.put(key, "")?;
/// }
/// assert_eq!(groups(&tree)?, [&b"apple"[..], b"banana", b"cherry"]);
/// # Ok(())
/// # }
/// ```
pub trait ReadCursor: sealed::Sealed {
    /// See [`Cursor::first`](crate::Cursor::first).
    fn first(&mut self) -> Result<bool>;

    /// See [`Cursor::last`](crate::Cursor::last).
    fn last(&mut self) -> Result<bool>;

    /// See [`Cursor::seek`](crate::Cursor::seek).
    fn seek(&mut self, key: impl AsBytes) -> Result<bool>;

    /// See [`Cursor::seek_for_prev`](crate::Cursor::seek_for_prev).
    fn seek_for_prev(&mut self, key: impl AsBytes) -> Result<bool>;

    /// See [`Cursor::next`](crate::Cursor::next).
    fn next(&mut self) -> Result<bool>;

    /// See [`Cursor::prev`](crate::Cursor::prev).
    fn prev(&mut self) -> Result<bool>;

    /// See [`Cursor::key`](crate::Cursor::key).
    fn key(&self) -> Option<&[u8]>;

    /// See [`Cursor::value`](crate::Cursor::value).
    fn value(&mut self) -> Result<Option<&[u8]>>;

    /// See [`Cursor::pair`](crate::Cursor::pair).
    fn pair(&mut self) -> Result<Option<(&[u8], &[u8])>>;
}

/// Has a cursor's own steps be those of [`ReadCursor`].
macro_rules! read_cursor {
    ($Cursor:ty) => {
        impl $crate::read_tree::sealed::Sealed for $Cursor {}

        impl $crate::ReadCursor for $Cursor {
            fn first(&mut self) -> Result<bool> {
                <$Cursor>::first(self)
            }

            fn last(&mut self) -> Result<bool> {
                <$Cursor>::last(self)
            }

            fn seek(&mut self, key: impl AsBytes) -> Result<bool> {
                <$Cursor>::seek(self, key)
            }

            fn seek_for_prev(&mut self, key: impl AsBytes) -> Result<bool> {
                <$Cursor>::seek_for_prev(self, key)
            }

            #[inline]
            fn next(&mut self) -> Result<bool> {
                <$Cursor>::next(self)
            }

            #[inline]
            fn prev(&mut self) -> Result<bool> {
                <$Cursor>::prev(self)
            }

            #[inline]
            fn key(&self) -> Option<&[u8]> {
                <$Cursor>::key(self)
            }

            #[inline]
            fn value(&mut self) -> Result<Option<&[u8]>> {
                <$Cursor>::value(self)
            }

            #[inline]
            fn pair(&mut self) -> Result<Option<(&[u8], &[u8])>> {
                <$Cursor>::pair(self)
            }
        }
    };
}

read_cursor!(Cursor);

/// Gives a type the reads of a [`ReadTree`] as methods of its own: of itself, or of a tree that they are given. Its own
/// documentation says in which way they differ from those of a `Tree`.
macro_rules! own_reads {
    (
        impl [$($lives:tt)*] $Type:ty { range: $Range:ty, keys: $Keys:ty, cursor: $Cursor:ty }
        |$self:ident $(, $tree:ident: $Tree:ty)?| $read:expr
    ) => {
        impl<$($lives)*> $Type {
            /// Does what [`Tree::get`](crate::Tree::get) does.
            #[inline]
            pub fn get(&$self, $($tree: $Tree,)? key: impl AsBytes) -> Result<Option<Bytes>> {
                ReadTree::get(&$read, key)
            }

            /// Does what [`Tree::get_many`](crate::Tree::get_many) does.
            pub fn get_many<K: AsBytes>(
                &$self, $($tree: $Tree,)? keys: impl IntoIterator<Item = K>,
            ) -> Result<Vec<Option<Bytes>>> {
                ReadTree::get_many(&$read, keys)
            }

            /// Does what [`Tree::get_into`](crate::Tree::get_into) does.
            #[inline]
            pub fn get_into(
                &$self, $($tree: $Tree,)? key: impl AsBytes, value: &mut Vec<u8>,
            ) -> Result<bool> {
                ReadTree::get_into(&$read, key, value)
            }

            /// Does what [`Tree::get_with`](crate::Tree::get_with) does.
            #[inline]
            pub fn get_with<T>(
                &$self, $($tree: $Tree,)? key: impl AsBytes, read: impl FnOnce(&[u8]) -> T,
            ) -> Result<Option<T>> {
                ReadTree::get_with(&$read, key, read)
            }

            /// Does what [`Tree::read_at`](crate::Tree::read_at) does.
            pub fn read_at(
                &$self, $($tree: $Tree,)? key: impl AsBytes, offset: u64, buf: &mut [u8],
            ) -> Result<Option<usize>> {
                ReadTree::read_at(&$read, key, offset, buf)
            }

            /// Does what [`Tree::value_len`](crate::Tree::value_len) does.
            pub fn value_len(&$self, $($tree: $Tree,)? key: impl AsBytes) -> Result<Option<u64>> {
                ReadTree::value_len(&$read, key)
            }

            /// Does what [`Tree::contains`](crate::Tree::contains) does.
            pub fn contains(&$self, $($tree: $Tree,)? key: impl AsBytes) -> Result<bool> {
                ReadTree::contains(&$read, key)
            }

            /// Counts the pairs as [`Tree::len`](crate::Tree::len) does, but one by one: O(n).
            pub fn len(&$self $(, $tree: $Tree)?) -> Result<u64> {
                ReadTree::len(&$read)
            }

            /// Does what [`Tree::is_empty`](crate::Tree::is_empty) does.
            pub fn is_empty(&$self $(, $tree: $Tree)?) -> Result<bool> {
                ReadTree::is_empty(&$read)
            }

            /// Does what [`Tree::first`](crate::Tree::first) does.
            pub fn first(&$self $(, $tree: $Tree)?) -> Result<Option<Pair>> {
                ReadTree::first(&$read)
            }

            /// Does what [`Tree::last`](crate::Tree::last) does.
            pub fn last(&$self $(, $tree: $Tree)?) -> Result<Option<Pair>> {
                ReadTree::last(&$read)
            }

            /// Does what [`Tree::floor`](crate::Tree::floor) does.
            pub fn floor(&$self, $($tree: $Tree,)? key: impl AsBytes) -> Result<Option<Pair>> {
                ReadTree::floor(&$read, key)
            }

            /// Does what [`Tree::ceiling`](crate::Tree::ceiling) does.
            pub fn ceiling(&$self, $($tree: $Tree,)? key: impl AsBytes) -> Result<Option<Pair>> {
                ReadTree::ceiling(&$read, key)
            }

            /// Does what [`Tree::cursor`](crate::Tree::cursor) does.
            pub fn cursor(&$self $(, $tree: $Tree)?) -> $Cursor {
                ReadTree::cursor(&$read)
            }

            /// Does what [`Tree::range`](crate::Tree::range) does.
            pub fn range(&$self, $($tree: $Tree,)? range: impl KeyRange) -> $Range {
                ReadTree::range(&$read, range)
            }

            /// Does what [`Tree::prefix`](crate::Tree::prefix) does.
            pub fn prefix(&$self, $($tree: $Tree,)? prefix: impl AsBytes) -> $Range {
                ReadTree::prefix(&$read, prefix)
            }

            /// Does what [`Tree::iter`](crate::Tree::iter) does.
            pub fn iter(&$self $(, $tree: $Tree)?) -> $Range {
                ReadTree::iter(&$read)
            }

            /// Does what [`Tree::keys`](crate::Tree::keys) does.
            pub fn keys(&$self $(, $tree: $Tree)?) -> $Keys {
                ReadTree::keys(&$read)
            }
        }
    };
}

pub(crate) use {own_reads, read_cursor};

/// Copies bytes of a value from `offset` on, and returns how many that are.
pub(crate) fn copy_part(value: &[u8], offset: u64, buf: &mut [u8]) -> usize {
    let rest = usize::try_from(offset).ok().and_then(|from| value.get(from..)).unwrap_or_default();
    let bytes = rest.len().min(buf.len());
    buf[..bytes].copy_from_slice(&rest[..bytes]);
    bytes
}
