//! Iteration over a part of a tree as a transaction sees it.
//!
//! The rest of the part lies between two places that close up. An end looks for the next key in what there was at
//! the first read and in what the transaction has written by now, takes the nearer one, and comes to the place behind
//! it. So what the transaction writes meanwhile is met if it lies ahead, and nothing is lent from it in between.

use std::fmt;
use std::iter::FusedIterator;
use std::ops::Bound;

use everleaf_pmem::fallible;

use super::work::Work;
use crate::cursor::Pair;
use crate::range::{Keys, OwnedBounds, Range, is_of_a_pair};
use crate::spans::{Upto, behind};
use crate::{Bytes, Error, ReadTree, Result, Tree};

/// Names this memory in errors.
const WALK: &str = "a range of a transaction";

/// An item that an iterator gives.
pub(crate) trait Item: Sized {
    fn key(&self) -> &[u8];

    /// A copy of what the transaction has written.
    fn own(key: &[u8], value: &[u8]) -> Result<Self>;
}

impl Item for Pair {
    fn key(&self) -> &[u8] {
        &self.0
    }

    fn own(key: &[u8], value: &[u8]) -> Result<Self> {
        Ok((Bytes::copy(key, "a key")?, Bytes::copy(value, "a value")?))
    }
}

impl Item for Bytes {
    fn key(&self) -> &[u8] {
        self
    }

    fn own(key: &[u8], _value: &[u8]) -> Result<Self> {
        Bytes::copy(key, "a key")
    }
}

/// Two places: where a part begins, and before what it ends, if it does not go to the end.
type Part = (Vec<u8>, Option<Vec<u8>>);

/// The part between two bounds.
fn part((low, high): OwnedBounds) -> Result<Part> {
    let low = match low? {
        Bound::Unbounded => Vec::new(),
        Bound::Included(key) => key,
        Bound::Excluded(key) => behind(&key)?,
    };
    let high = match high? {
        Bound::Unbounded => None,
        Bound::Excluded(key) => Some(key),
        Bound::Included(key) => Some(behind(&key)?),
    };
    Ok((low, high))
}

/// The next one of an end.
enum Found<T> {
    Item(T),
    /// A key that the transaction has removed.
    Gone(Vec<u8>),
    End,
}

struct Walk<'t, I: Iterator> {
    work: &'t Work,
    tree: Tree,
    /// The rest lies in here.
    from: Vec<u8>,
    to: Option<Vec<u8>>,
    /// The items at the first read; `None` at the end.
    then: Option<I>,
    /// Items that were taken from those at either end, and not given yet.
    front: Option<I::Item>,
    back: Option<I::Item>,
    failed: Option<Error>,
}

impl<'t> Walk<'t, Range> {
    fn new(work: &'t Work, tree: &Tree, bounds: OwnedBounds) -> Self {
        let begin = || -> Result<_> {
            let (from, to) = part(bounds)?;
            if to.as_ref().is_some_and(|to| from >= *to) {
                return Ok((from, to, None));
            }
            let low = Bound::Included(fallible::copy(&from, WALK)?);
            let high = to.as_deref().map(|to| fallible::copy(to, WALK)).transpose()?;
            let high = high.map_or(Bound::Unbounded, Bound::Excluded);
            Ok((from, to, Some(work.then(tree)?.between((Ok(low), Ok(high))))))
        };
        let (from, to, then, failed) = match begin() {
            Ok((from, to, then)) => (from, to, then, None),
            Err(error) => (Vec::new(), None, None, Some(error)),
        };
        let tree = tree.clone();
        Walk { work, tree, from, to, then, front: None, back: None, failed }
    }

    /// The rest, by its keys.
    fn keys(self) -> Walk<'t, Keys> {
        let key = |item: Result<Pair>| item.map(|(key, _)| key);
        Walk {
            work: self.work,
            tree: self.tree,
            from: self.from,
            to: self.to,
            then: self.then.map(Range::keys),
            front: self.front.map(key),
            back: self.back.map(key),
            failed: self.failed,
        }
    }
}

impl<T: Item, I: DoubleEndedIterator<Item = Result<T>>> Walk<'_, I> {
    fn high(&self) -> Bound<&[u8]> {
        self.to.as_deref().map_or(Bound::Unbounded, Bound::Excluded)
    }

    /// The next item of an end.
    fn next(&mut self, up: bool) -> Option<Result<T>> {
        if let Some(error) = self.failed.take() {
            return Some(Err(error));
        }
        while self.then.is_some() {
            let passed = self.find(up).and_then(|found| {
                self.pass(up, &found)?;
                Ok(found)
            });
            match passed {
                Ok(Found::Item(item)) => return Some(Ok(item)),
                Ok(Found::Gone(_)) => {}
                Ok(Found::End) => self.then = None,
                Err(error) => {
                    // One pair that cannot be read ends nothing. If the transaction is too old, nothing more comes.
                    if !is_of_a_pair(&error) {
                        self.then = None;
                    }
                    return Some(Err(error));
                }
            }
        }
        None
    }

    /// The nearest key of both sides.
    fn find(&mut self, up: bool) -> Result<Found<T>> {
        let Some(then) = &mut self.then else { return Ok(Found::End) };
        let (near, far) = match up {
            true => (&mut self.front, &mut self.back),
            false => (&mut self.back, &mut self.front),
        };
        if near.is_none() {
            let next = if up { then.next() } else { then.next_back() };
            *near = next.or_else(|| far.take());
        }
        if let Some(Err(error)) = near.take_if(|near| near.is_err()) {
            return Err(error);
        }
        let (low, high) = (Bound::Included(&self.from[..]), self.high());
        let near = if up { &self.front } else { &self.back };
        let key = near.as_ref().and_then(|near| near.as_ref().ok()).map(Item::key);
        let own = self.work.own_between(&self.tree, (low, high), up, |own| {
            let (own, value) = own?;
            // A key of both is the transaction's.
            if key.is_some_and(|key| if up { *key < *own } else { *key > *own }) {
                return None;
            }
            Some((
                key == Some(own),
                match value {
                    Some(value) => T::own(own, value).map(Found::Item),
                    None => fallible::copy(own, WALK).map(Found::Gone),
                },
            ))
        });
        let near = if up { &mut self.front } else { &mut self.back };
        match own {
            Some((is_both, own)) => {
                let own = own?;
                if is_both {
                    *near = None;
                }
                Ok(own)
            }
            None => near.take().map_or(Ok(Found::End), |near| near.map(Found::Item)),
        }
    }

    /// Notes what an end has passed, and takes it out of what is left.
    fn pass(&mut self, up: bool, found: &Found<T>) -> Result<()> {
        let key = match found {
            Found::Item(item) => Some(item.key()),
            Found::Gone(key) => Some(&key[..]),
            Found::End => None,
        };
        let upto = self.to.as_deref().map_or(Upto::End, Upto::Before);
        let Some(key) = key else { return self.work.note(&self.tree, &self.from, upto) };
        if up {
            let next = behind(key)?;
            self.work.note(&self.tree, &self.from, Upto::Before(&next))?;
            self.from = next;
        } else {
            self.work.note(&self.tree, key, upto)?;
            let to = self.to.get_or_insert_default();
            to.clear();
            fallible::append(to, key, WALK)?;
        }
        Ok(())
    }
}

/// An iterator over a part of a tree as a [`Transaction`](crate::Transaction) sees it, from both ends.
///
/// All keys from where it began up to the last one that it gave count as read, and all of the part when it has ended. They
/// count as soon as they are given, even if the iterator is leaked.
///
/// It lends nothing, so the transaction may write meanwhile. It sees the tree of the first read, in which others
/// change nothing, and the transaction's own writes as they are at each step: it meets a key that the transaction puts
/// ahead of it, and does not meet one that is removed there; a change behind it makes no difference. So an iteration that
/// puts keys ahead of itself may go on until [memory](crate::Options::transaction_memory) ends: collect the keys first.
///
/// A pair that cannot be read, or whose old value [was not kept](crate::Error::SnapshotTooOld), is an error in its place,
/// and the next call goes on behind it. After an error that concerns more than one pair the iterator ends.
pub struct TransactionRange<'t>(Walk<'t, Range>);

/// An iterator over the keys of a part of a tree as a [`Transaction`](crate::Transaction) sees it, from both ends. It
/// promises what [`TransactionRange`] does, and reads no values.
pub struct TransactionKeys<'t>(Walk<'t, Keys>);

impl<'t> TransactionRange<'t> {
    pub(crate) fn new(work: &'t Work, tree: &Tree, bounds: OwnedBounds) -> Self {
        Self(Walk::new(work, tree, bounds))
    }

    /// Returns an iterator over the keys of the pairs that are left, which reads no values.
    pub fn keys(self) -> TransactionKeys<'t> {
        TransactionKeys(self.0.keys())
    }
}

impl<'t> From<TransactionRange<'t>> for TransactionKeys<'t> {
    /// Does what [`TransactionRange::keys`] does.
    fn from(range: TransactionRange<'t>) -> Self {
        range.keys()
    }
}

impl Iterator for TransactionRange<'_> {
    type Item = Result<Pair>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next(true)
    }
}

impl DoubleEndedIterator for TransactionRange<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.next(false)
    }
}

impl FusedIterator for TransactionRange<'_> {}

impl Iterator for TransactionKeys<'_> {
    type Item = Result<Bytes>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next(true)
    }
}

impl DoubleEndedIterator for TransactionKeys<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.next(false)
    }
}

impl FusedIterator for TransactionKeys<'_> {}

impl fmt::Debug for TransactionRange<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransactionRange").field("tree", &self.0.tree).finish_non_exhaustive()
    }
}

impl fmt::Debug for TransactionKeys<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransactionKeys").field("tree", &self.0.tree).finish_non_exhaustive()
    }
}
