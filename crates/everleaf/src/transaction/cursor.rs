//! A place in a tree as a transaction sees it.

use std::fmt;
use std::ops::Bound;

use everleaf_pmem::fallible;

use super::work::Work;
use crate::read_tree::read_cursor;
use crate::spans::{Upto, behind};
use crate::{AsBytes, Cursor, Result, Tree};

/// Names this memory in errors.
const CURSOR: &str = "the key of a cursor";

/// A place in a tree as a [`Transaction`](crate::Transaction) sees it. It moves as a [`Cursor`] does, whose documentation
/// says more.
///
/// The keys that a step has passed count as read. The cursor borrows nothing that the transaction writes to, so the
/// transaction may write meanwhile: each step sees the transaction's own writes as they are then, and the pair under the
/// cursor stays as it was found.
///
/// **Errors.** Each method returns those of [a cursor](Cursor), [`OtherPool`](crate::Error::OtherPool),
/// [`SnapshotTooOld`](crate::Error::SnapshotTooOld) and [`TransactionTooLarge`](crate::Error::TransactionTooLarge).
/// After an error of a step the cursor has no pair. After one of `value` or `pair` it stays where it was, as it does if
/// there was no memory to begin a step. If one pair could not be read, the next step in that direction goes on behind
/// it.
///
/// ```
/// # fn main() -> everleaf::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = everleaf::Db::open(dir.path().join("p.ever"))?;
/// let tree = db.tree("t")?;
/// tree.put("a", "1")?;
/// let tx = db.begin();
/// tx.put(&tree, "b", "2")?;
/// let mut cursor = tx.cursor(&tree);
/// assert!(cursor.last()?);
/// assert_eq!(cursor.pair()?, Some((&b"b"[..], &b"2"[..])));
/// assert!(cursor.prev()?);
/// assert_eq!(cursor.key(), Some(&b"a"[..]));
/// # Ok(())
/// # }
/// ```
pub struct TransactionCursor<'t> {
    work: &'t Work,
    tree: Tree,
    /// In the tree of the first read, once there was a step.
    then: Option<Cursor>,
    /// `then` is at the first pair on this side of the place, or at the end if there is none: up, or down.
    ahead: Option<bool>,
    /// `then` has come to its end.
    ended: bool,
    /// Whether there was no step yet.
    is_new: bool,
    /// The key of the pair; if there is none, the place before this.
    place: Vec<u8>,
    pair: At,
}

/// Where the pair is.
enum At {
    Nowhere,
    Then,
    /// Written by the transaction.
    Own(Vec<u8>),
}

/// The outcome of a step.
enum Found {
    Then(Vec<u8>),
    Own(Vec<u8>, Vec<u8>),
    End,
}

impl<'t> TransactionCursor<'t> {
    pub(crate) fn new(work: &'t Work, tree: &Tree) -> Self {
        Self {
            work,
            tree: tree.clone(),
            then: None,
            ahead: None,
            ended: false,
            is_new: true,
            place: Vec::new(),
            pair: At::Nowhere,
        }
    }

    /// Goes to the pair with the smallest key, as [`Cursor::first`] does.
    ///
    /// # Errors
    ///
    /// Those of [a cursor](TransactionCursor).
    pub fn first(&mut self) -> Result<bool> {
        self.go(Vec::new(), true, false)
    }

    /// Goes to the pair with the largest key, as [`Cursor::last`] does.
    ///
    /// # Errors
    ///
    /// Those of [a cursor](TransactionCursor).
    pub fn last(&mut self) -> Result<bool> {
        self.go(Vec::new(), false, true)
    }

    /// Goes to the first pair whose key is `key` or above it, as [`Cursor::seek`] does.
    ///
    /// # Errors
    ///
    /// Those of [a cursor](TransactionCursor).
    pub fn seek(&mut self, key: impl AsBytes) -> Result<bool> {
        self.go(fallible::copy(key.as_bytes(), CURSOR)?, true, false)
    }

    /// Goes to the last pair whose key is `key` or below it, as [`Cursor::seek_for_prev`] does.
    ///
    /// # Errors
    ///
    /// Those of [a cursor](TransactionCursor).
    pub fn seek_for_prev(&mut self, key: impl AsBytes) -> Result<bool> {
        self.go(behind(key.as_bytes())?, false, false)
    }

    /// Goes to the next pair, as [`Cursor::next`] does.
    ///
    /// # Errors
    ///
    /// Those of [a cursor](TransactionCursor).
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<bool> {
        let place = match self.pair {
            At::Nowhere => fallible::copy(&self.place, CURSOR)?,
            _ => behind(&self.place)?,
        };
        self.step(place, true, false)
    }

    /// Goes to the pair before this one, as [`Cursor::prev`] does.
    ///
    /// # Errors
    ///
    /// Those of [a cursor](TransactionCursor).
    pub fn prev(&mut self) -> Result<bool> {
        let place = fallible::copy(&self.place, CURSOR)?;
        self.step(place, false, self.is_new)
    }

    /// Returns the key of the pair that the cursor is at, or `None` if it is at no pair.
    pub fn key(&self) -> Option<&[u8]> {
        match self.pair {
            At::Nowhere => None,
            _ => Some(&self.place),
        }
    }

    /// Returns the value of the pair that the cursor is at, or `None` if it is at no pair. See [`Cursor::value`].
    ///
    /// # Errors
    ///
    /// Those of [a cursor](TransactionCursor).
    pub fn value(&mut self) -> Result<Option<&[u8]>> {
        match (&self.pair, &mut self.then) {
            (At::Own(value), _) => Ok(Some(value)),
            (At::Then, Some(then)) => then.value(),
            _ => Ok(None),
        }
    }

    /// Returns the key and the value of the pair that the cursor is at, or `None` if it is at no pair. See
    /// [`Cursor::pair`].
    ///
    /// # Errors
    ///
    /// Those of [a cursor](TransactionCursor).
    pub fn pair(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        let value = match (&self.pair, &mut self.then) {
            (At::Own(value), _) => Some(&value[..]),
            (At::Then, Some(then)) => then.value()?,
            _ => None,
        };
        Ok(value.map(|value| (&self.place[..], value)))
    }

    /// Goes anywhere.
    fn go(&mut self, place: Vec<u8>, up: bool, from_end: bool) -> Result<bool> {
        // Behind the end of all is where one stays that has not come to the last pair.
        (self.ahead, self.is_new) = (None, from_end);
        self.step(place, up, from_end)
    }

    /// Goes to the first pair from a place on, or to the last one before it, or before the end of all.
    fn step(&mut self, place: Vec<u8>, up: bool, from_end: bool) -> Result<bool> {
        // So it stays if this fails.
        (self.place, self.pair) = (place, At::Nowhere);
        let found = self.find(up, from_end)?;
        let key = match &found {
            Found::Then(key) | Found::Own(key, _) => Some(&key[..]),
            Found::End => None,
        };
        let (work, tree, place) = (self.work, &self.tree, &self.place[..]);
        match key {
            Some(key) if up => work.note(tree, place, Upto::Before(&behind(key)?))?,
            None if up => work.note(tree, place, Upto::End)?,
            key => {
                let end = if from_end { Upto::End } else { Upto::Before(place) };
                work.note(tree, key.unwrap_or_default(), end)?;
            }
        }
        self.is_new = false;
        match found {
            Found::Then(key) => (self.place, self.pair) = (key, At::Then),
            Found::Own(key, value) => (self.place, self.pair) = (key, At::Own(value)),
            Found::End => return Ok(false),
        }
        Ok(true)
    }

    /// The nearest pair of both sides.
    fn find(&mut self, up: bool, mut from_end: bool) -> Result<Found> {
        let mut place = fallible::copy(&self.place, CURSOR)?;
        loop {
            self.go_then(&place, up, from_end)?;
            let then = self.then.as_ref().and_then(Cursor::key);
            let range = match up {
                true => (Bound::Included(&place[..]), Bound::Unbounded),
                false if from_end => (Bound::Unbounded, Bound::Unbounded),
                false => (Bound::Unbounded, Bound::Excluded(&place[..])),
            };
            let own = self.work.own_between(&self.tree, range, up, |own| {
                let (key, value) = own?;
                // A key of both is the transaction's.
                if then.is_some_and(|then| if up { *then < *key } else { *then > *key }) {
                    return None;
                }
                let value = value.map(|value| fallible::copy(value, "a value")).transpose();
                Some(value.and_then(|value| Ok((fallible::copy(key, CURSOR)?, value))))
            });
            match own.transpose()? {
                Some((key, Some(value))) => return Ok(Found::Own(key, value)),
                // Removed by the transaction.
                Some((key, None)) => {
                    from_end = false;
                    place = if up { behind(&key)? } else { key };
                }
                None => {
                    let key = then.map(|key| fallible::copy(key, CURSOR)).transpose()?;
                    return Ok(key.map_or(Found::End, Found::Then));
                }
            }
        }
    }

    /// Takes `then` to its first pair from a place on, or its last one before it.
    fn go_then(&mut self, place: &[u8], up: bool, from_end: bool) -> Result<()> {
        let is_beyond = |key: &[u8]| from_end || (key >= place) == up;
        if let (true, Some(then)) = (self.ahead == Some(up), &mut self.then) {
            if self.ended || then.key().is_some_and(is_beyond) {
                return Ok(());
            }
            // Also behind what could not be read.
            let found = if up { then.next() } else { then.prev() }?;
            if !found || then.key().is_some_and(is_beyond) {
                self.ended = !found;
                return Ok(());
            }
        }
        (self.ahead, self.ended) = (None, false);
        // One that is at no pair says by that, after a failure, that it is at one that cannot be read.
        let then = match &mut self.then {
            Some(then) if then.key().is_some() => then,
            then => then.insert(self.work.then(&self.tree)?.cursor()),
        };
        let found = match up {
            true => then.seek(place),
            false if from_end => then.last(),
            false => then.seek_for_prev(place).and_then(|found| match found {
                true if then.key() == Some(place) => then.prev(),
                found => Ok(found),
            }),
        };
        if found.is_ok() || then.key().is_none() {
            self.ahead = Some(up);
        }
        self.ended = !found?;
        Ok(())
    }
}

read_cursor!(TransactionCursor<'_>);

impl fmt::Debug for TransactionCursor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransactionCursor")
            .field("tree", &self.tree)
            .field("key", &self.key())
            .finish_non_exhaustive()
    }
}
