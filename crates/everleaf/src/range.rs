//! Iteration in both directions, a chunk of pairs at a time.
//!
//! What an iterator has not given yet is, in key order:
//!
//! ```text
//!   front buffer | keys in (from, to), not fetched yet | back buffer
//! ```
//!
//! A fetch at one end moves that end's bound past what it got. When the middle is exhausted, each end
//! takes from the other's buffer, so that the two meet without giving a pair twice or missing one. A
//! buffer is a leaf's chunk as the tree gave it; a pair is moved out of it once.
//!
//! Each chunk shows the tree at the moment of its fetch. A key that is inserted or removed while an
//! iterator is open may be seen or not. A key that stays is seen exactly once, and the order always
//! holds.

use std::collections::VecDeque;
use std::fmt;
use std::iter::FusedIterator;
use std::ops::Bound;
use std::sync::Arc;
use std::vec::IntoIter;

use everleaf_pmem::fallible;

use crate::engine::{Engine, TreeHandle};
use crate::{Error, Result};

/// A key and its value.
pub type Pair = (Vec<u8>, Vec<u8>);

/// The first fetch is small, for callers that want one pair. Each further one is twice as large, so that
/// a caller that stops has fetched less than three times what it took, except for the first few pairs.
const CHUNK_PAIRS_FIRST: usize = 16;
const CHUNK_PAIRS_MAX: usize = 1024;

const _: () = assert!(0 < CHUNK_PAIRS_FIRST && CHUNK_PAIRS_FIRST <= CHUNK_PAIRS_MAX);

/// An iterator over a part of a [`Tree`](crate::Tree), from both ends.
///
/// It reads a few pairs at a time, up to 1,024, and holds no lock in between. It is no snapshot: each
/// such read shows the tree as it is then. A key that is inserted or removed meanwhile may be seen or
/// not. A key that stays is seen exactly once, and the order always holds.
///
/// A pair that cannot be read is an error in its place, and the next call goes on behind it. After an
/// error that concerns more than one pair the iterator ends.
pub struct Range {
    engine: Arc<Engine>,
    tree: TreeHandle,
    /// The tree's name, for who prints the iterator.
    name: Arc<str>,
    from: Bound<Vec<u8>>,
    to: Bound<Vec<u8>>,
    front: Buffer,
    back: Buffer,
    /// Whether the middle is known to be empty.
    exhausted: bool,
    chunk_pairs: usize,
    /// There was no memory for the bounds.
    failed: Option<Error>,
}

/// A chunk that is being given, in the order in which it was scanned.
#[derive(Default)]
struct Buffer {
    pairs: IntoIter<Pair>,
    /// How many pairs have been given from the start.
    given: usize,
    /// Pairs that cannot be read, and how many others are before each.
    damages: VecDeque<(usize, Error)>,
}

impl Buffer {
    #[inline]
    fn first(&mut self) -> Option<Result<Pair>> {
        if self.damages.front().is_some_and(|(at, _)| *at <= self.given)
            && let Some((_, error)) = self.damages.pop_front()
        {
            return Some(Err(error));
        }
        let pair = self.pairs.next()?;
        self.given += 1;
        Some(Ok(pair))
    }

    fn is_empty(&self) -> bool {
        self.pairs.len() == 0 && self.damages.is_empty()
    }

    fn last(&mut self) -> Option<Result<Pair>> {
        let end = self.given + self.pairs.len();
        if self.damages.back().is_some_and(|(at, _)| *at >= end)
            && let Some((_, error)) = self.damages.pop_back()
        {
            return Some(Err(error));
        }
        self.pairs.next_back().map(Ok)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum RangeEnd {
    Front,
    Back,
}

impl Range {
    /// The first answer is the error of bounds that could not be kept.
    pub(crate) fn new(
        (engine, tree, name): (Arc<Engine>, TreeHandle, Arc<str>),
        from: Result<Bound<Vec<u8>>>,
        to: Result<Bound<Vec<u8>>>,
    ) -> Self {
        let (from, to, failed) = match (from, to) {
            (Ok(from), Ok(to)) => (from, to, None),
            (Err(error), _) | (_, Err(error)) => (Bound::Unbounded, Bound::Unbounded, Some(error)),
        };
        let exhausted = is_empty(&from, &to);
        Range {
            engine,
            tree,
            name,
            from,
            to,
            front: Buffer::default(),
            back: Buffer::default(),
            exhausted,
            chunk_pairs: CHUNK_PAIRS_FIRST,
            failed,
        }
    }

    /// So many pairs are wanted.
    pub(crate) fn expect(&mut self, pairs: usize) {
        debug_assert!(pairs > 0, "a fetch of nothing gets no further");
        self.chunk_pairs = pairs;
    }

    #[inline]
    fn step(&mut self, end: RangeEnd) -> Option<Result<Pair>> {
        loop {
            let (own, other) = match end {
                RangeEnd::Front => (&mut self.front, &mut self.back),
                RangeEnd::Back => (&mut self.back, &mut self.front),
            };
            if let Some(pair) = own.first() {
                return Some(pair);
            }
            if self.exhausted {
                return other.last();
            }
            if let Err(error) = self.failed.take().map_or_else(|| self.fetch(end), Err) {
                self.exhausted = true;
                (self.front, self.back) = (Buffer::default(), Buffer::default());
                return Some(Err(error));
            }
        }
    }

    /// Moves pairs from the end of the middle to that end's buffer, which is empty.
    fn fetch(&mut self, end: RangeEnd) -> Result<()> {
        debug_assert!(!self.exhausted, "the middle is empty");
        debug_assert!(
            match end {
                RangeEnd::Front => self.front.is_empty(),
                RangeEnd::Back => self.back.is_empty(),
            },
            "a fetch would overwrite what was not given yet"
        );
        let within = (borrow(&self.from), borrow(&self.to));
        let chunk =
            self.engine.chunk(&self.tree, within, end == RangeEnd::Back, self.chunk_pairs)?;
        self.chunk_pairs = (self.chunk_pairs * 2).min(CHUNK_PAIRS_MAX);
        let (pairs, damages) = (chunk.entries.into_iter(), chunk.damages.into());
        let buffer = Buffer { pairs, given: 0, damages };
        match end {
            RangeEnd::Front => self.front = buffer,
            RangeEnd::Back => self.back = buffer,
        }
        match (chunk.next, end) {
            (None, _) => self.exhausted = true,
            (Some(next), RangeEnd::Front) => self.from = next,
            (Some(next), RangeEnd::Back) => self.to = next,
        }
        self.exhausted |= is_empty(&self.from, &self.to);
        Ok(())
    }
}

impl Iterator for Range {
    type Item = Result<Pair>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step(RangeEnd::Front)
    }
}

impl DoubleEndedIterator for Range {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.step(RangeEnd::Back)
    }
}

impl FusedIterator for Range {}

impl fmt::Debug for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Range")
            .field("tree", &self.name)
            .field("from", &self.from)
            .field("to", &self.to)
            .finish_non_exhaustive()
    }
}

/// A bound of its own.
pub(crate) fn copy_bound(bound: Bound<&[u8]>) -> Result<Bound<Vec<u8>>> {
    Ok(match bound {
        Bound::Included(key) => Bound::Included(fallible::copy(key, "a bound")?),
        Bound::Excluded(key) => Bound::Excluded(fallible::copy(key, "a bound")?),
        Bound::Unbounded => Bound::Unbounded,
    })
}

/// The upper bound of the keys that start with `prefix`, for a [`Tree::range`](crate::Tree::range) that
/// has other bounds, too: the prefix with its last byte below 0xFF raised and what follows cut off.
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
fn is_empty(from: &Bound<Vec<u8>>, to: &Bound<Vec<u8>>) -> bool {
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

fn borrow(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
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
