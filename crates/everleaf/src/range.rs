//! Iteration in both directions, on a cursor at each end.
//!
//! The pairs that an iterator has not given yet lie between its two cursors:
//!
//! ```text
//!   given from the front | front cursor … keys in between … back cursor | given from the back
//! ```
//!
//! At the beginning the cursors are at the bounds. An end takes a step, and what it finds belongs to the
//! iterator if it lies before the other cursor. So the two meet without giving a pair twice or missing one.

use std::fmt;
use std::iter::FusedIterator;
use std::ops::Bound;

use everleaf_pmem::fallible;
use everleaf_tree::blink;
use everleaf_tree::blink::Stepped;

use crate::cursor::{Pair, Source, unused};
use crate::{Bytes, Error, KeyRange, Result};

/// An iterator over a part of a [`Tree`](crate::Tree), from both ends, or over a part of a
/// [`SnapshotTree`](crate::SnapshotTree).
///
/// It holds no lock between two pairs. That of a `Tree` is no snapshot: each step shows the tree as it is then. A key
/// that is inserted or removed meanwhile may be seen or not. A key that stays is seen exactly once, and
/// the order always holds.
///
/// A pair that cannot be read, or whose old value [was not kept](crate::Error::SnapshotTooOld), is an error in its place,
/// and the next call goes on behind it. After an error that concerns more than one pair the iterator ends.
///
/// Keys and values are copied to [`Bytes`](crate::Bytes): short ones allocate nothing, and longer ones share allocations.
/// A [`Cursor`](crate::Cursor) lends keys and values instead.
pub struct Range(Ends);

/// An iterator over the keys of a part of a [`Tree`](crate::Tree), from both ends, by
/// [`Tree::keys`](crate::Tree::keys) or [`Range::keys`]. It promises what [`Range`] does, and reads no values.
pub struct Keys(Ends);

/// The two ends of an iterator.
struct Ends {
    source: Source,
    front: blink::Cursor,
    back: blink::Cursor,
    /// Whether nothing is left in between.
    ended: bool,
    /// There was no memory for the bounds.
    failed: Option<Error>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum RangeEnd {
    Front,
    Back,
}

impl Ends {
    /// The first answer is the error of bounds that could not be kept.
    fn new(source: Source, bounds: OwnedBounds) -> Self {
        let (from, to, failed) = match bounds {
            (Ok(from), Ok(to)) => (from, to, None),
            (Err(error), _) | (_, Err(error)) => (Bound::Unbounded, Bound::Unbounded, Some(error)),
        };
        let ended = is_empty(&from, &to);
        let mut front = unused().beside(from, true);
        let mut back = blink::Cursor::default().beside(to, false);
        source.tree.buffers().note_cursor(&mut front);
        source.tree.buffers().note_cursor(&mut back);
        Ends { source, front, back, ended, failed }
    }

    /// Takes the cursor of an end to the next pair in between.
    #[inline(always)]
    fn step(&mut self, end: RangeEnd) -> Option<Result<()>> {
        if self.ended {
            return None;
        }
        if self.failed.is_some() {
            return self.fail();
        }
        let (own, other) = match end {
            RangeEnd::Front => (&mut self.front, &self.back),
            RangeEnd::Back => (&mut self.back, &self.front),
        };
        let error = match self.source.step(own, end == RangeEnd::Front) {
            Ok(Stepped::Pair) => {
                let is_between =
                    own.key().is_some_and(|key| other.is_beyond(key, end == RangeEnd::Back));
                self.ended = !is_between;
                return is_between.then_some(Ok(()));
            }
            Ok(Stepped::End) => {
                self.ended = true;
                return None;
            }
            Ok(Stepped::Damaged(error)) => {
                match self.source.is_short_of(own, other, end == RangeEnd::Front) {
                    Ok(true) => return Some(Err(error)),
                    Ok(false) => {
                        self.ended = true;
                        return None;
                    }
                    Err(error) => error,
                }
            }
            Err(error) => error,
        };
        self.failed = Some(error);
        self.fail()
    }

    /// The end is an error.
    #[cold]
    fn fail(&mut self) -> Option<Result<()>> {
        self.ended = true;
        self.failed.take().map(Err)
    }

    #[inline(always)]
    fn pair(&mut self, end: RangeEnd) -> Option<Result<Pair>> {
        loop {
            if let Err(error) = self.step(end)? {
                return Some(Err(error));
            }
            let own = match end {
                RangeEnd::Front => &mut self.front,
                RangeEnd::Back => &mut self.back,
            };
            match self.source.read_value(own) {
                Ok(true) => {
                    let pair = self.source.take_pair(own).transpose();
                    self.ended = matches!(pair, Some(Err(_)));
                    return pair;
                }
                // It was removed before its value was read.
                Ok(false) => {}
                Err(error) => {
                    self.ended = !is_of_a_pair(&error);
                    return Some(Err(error));
                }
            }
        }
    }

    fn key(&mut self, end: RangeEnd) -> Option<Result<Bytes>> {
        if let Err(error) = self.step(end)? {
            return Some(Err(error));
        }
        let own = match end {
            RangeEnd::Front => &mut self.front,
            RangeEnd::Back => &mut self.back,
        };
        let key = self.source.take_key(own).transpose();
        self.ended = matches!(key, Some(Err(_)));
        key
    }

    fn debug(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(name)
            .field("tree", &self.source.name)
            .field("from", &self.front.bound(true))
            .field("to", &self.back.bound(false))
            .finish_non_exhaustive()
    }
}

/// Whether an error may be of one pair, which cannot be read or was not kept. It ends no walk: the next step goes on behind
/// that pair, or finds that the whole moment is too old.
pub(crate) fn is_of_a_pair(error: &Error) -> bool {
    matches!(error, Error::Corrupt { .. } | Error::Io { .. } | Error::SnapshotTooOld { .. })
}

impl Drop for Ends {
    fn drop(&mut self) {
        self.source.tree.buffers().forget_cursor(&mut self.back);
        self.source.give_back(&mut self.front);
    }
}

impl Range {
    pub(crate) fn new(source: Source, bounds: OwnedBounds) -> Self {
        Range(Ends::new(source, bounds))
    }

    /// Returns an iterator over the keys of the pairs that are left, which reads no values.
    ///
    /// ```
    /// # fn main() -> everleaf::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = everleaf::Db::open(dir.path().join("p.ever"))?;
    /// let tree = db.tree("t")?;
    /// for key in ["a/1", "a/2", "b/1"] {
    ///     tree.put(key, vec![0; 1 << 16])?;
    /// }
    /// let keys: everleaf::Result<Vec<_>> = tree.prefix("a/").keys().rev().collect();
    /// assert_eq!(keys?, [b"a/2", b"a/1"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn keys(mut self) -> Keys {
        self.0.front.skip_values();
        self.0.back.skip_values();
        Keys(self.0)
    }
}

impl From<Range> for Keys {
    /// Does what [`Range::keys`] does.
    fn from(range: Range) -> Self {
        range.keys()
    }
}

impl Iterator for Range {
    type Item = Result<Pair>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.pair(RangeEnd::Front)
    }
}

impl DoubleEndedIterator for Range {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.pair(RangeEnd::Back)
    }
}

impl FusedIterator for Range {}

impl fmt::Debug for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.debug("Range", f)
    }
}

impl Iterator for Keys {
    type Item = Result<Bytes>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.key(RangeEnd::Front)
    }
}

impl DoubleEndedIterator for Keys {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.key(RangeEnd::Back)
    }
}

impl FusedIterator for Keys {}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.debug("Keys", f)
    }
}

/// Two bounds, or why there was no memory for one of them.
pub(crate) type OwnedBounds = (Result<Bound<Vec<u8>>>, Result<Bound<Vec<u8>>>);

/// The bounds of a range.
pub(crate) fn bounds_of(range: &impl KeyRange) -> OwnedBounds {
    (copy_bound(range.low()), copy_bound(range.high()))
}

/// The bounds of the keys that start with a prefix.
pub(crate) fn bounds_of_prefix(prefix: &[u8]) -> OwnedBounds {
    (copy_bound(Bound::Included(prefix)), prefix_end(prefix))
}

/// The bounds of all keys.
pub(crate) const ALL: OwnedBounds = (Ok(Bound::Unbounded), Ok(Bound::Unbounded));

/// A bound of its own.
pub(crate) fn copy_bound(bound: Bound<&[u8]>) -> Result<Bound<Vec<u8>>> {
    Ok(match bound {
        Bound::Included(key) => Bound::Included(fallible::copy(key, "a bound")?),
        Bound::Excluded(key) => Bound::Excluded(fallible::copy(key, "a bound")?),
        Bound::Unbounded => Bound::Unbounded,
    })
}

/// Returns the upper bound of the keys that start with `prefix`, for a [`Tree::range`](crate::Tree::range) that has
/// another lower bound. It is the prefix up to its last byte below 0xFF, with that byte raised by one; without such a byte
/// there is no bound.
///
/// # Errors
///
/// [`NoMemory`](crate::Error::NoMemory).
pub fn prefix_end(prefix: &[u8]) -> Result<Bound<Vec<u8>>> {
    let Some(at) = prefix.iter().rposition(|&byte| byte < 0xFF) else {
        return Ok(Bound::Unbounded);
    };
    let mut end = fallible::copy(&prefix[..=at], "a bound")?;
    end[at] += 1;
    Ok(Bound::Excluded(end))
}

/// Whether no key can lie between the bounds.
pub(crate) fn is_empty(from: &Bound<Vec<u8>>, to: &Bound<Vec<u8>>) -> bool {
    match (from, to) {
        (Bound::Unbounded, Bound::Excluded(to)) => to.is_empty(),
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Included(from), Bound::Included(to)) => from > to,
        (
            Bound::Excluded(from) | Bound::Included(from),
            Bound::Excluded(to) | Bound::Included(to),
        ) => from >= to,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_prefix_is_the_next_string_that_does_not_start_with_it() {
        let end = |prefix| prefix_end(prefix).expect("memory");
        assert_eq!(end(b"ab"), Bound::Excluded(b"ac".to_vec()));
        assert_eq!(end(b"a\xFF\xFF"), Bound::Excluded(b"b".to_vec()));
        assert_eq!(end(b"\xFF"), Bound::Unbounded);
        assert_eq!(end(b""), Bound::Unbounded);
    }

    #[test]
    fn a_range_is_empty_when_its_bounds_leave_no_key() {
        let at = |key: &[u8]| key.to_vec();
        assert!(!is_empty(&Bound::Included(at(b"a")), &Bound::Included(at(b"a"))));
        assert!(is_empty(&Bound::Included(at(b"a")), &Bound::Excluded(at(b"a"))));
        assert!(is_empty(&Bound::Excluded(at(b"a")), &Bound::Included(at(b"a"))));
        assert!(is_empty(&Bound::Included(at(b"b")), &Bound::Included(at(b"a"))));
        assert!(is_empty(&Bound::Unbounded, &Bound::Excluded(at(b""))));
        assert!(!is_empty(&Bound::Excluded(at(b"")), &Bound::Unbounded));
    }
}
