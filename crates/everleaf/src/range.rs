//! Iteration in both directions, a chunk of pairs at a time.
//!
//! What an iterator has still to give is, in key order,
//!
//! ```text
//!   front buffer | keys in (from, to), not fetched yet | back buffer
//! ```
//!
//! A fetch at one end moves its bound past the last key that it got. When the middle is exhausted,
//! each end takes from the other's buffer, so the two meet without giving a pair twice or missing
//! one.
//!
//! Each chunk is fetched as it is then. A key that is inserted or removed while an iterator is
//! open may or may not be seen; one that stays is seen exactly once, and the order always holds.

use std::collections::VecDeque;
use std::fmt;
use std::iter::FusedIterator;
use std::ops::Bound;

use everleaf_pmem::room;

use crate::{Error, Result, Tree};

/// A key and its value.
pub type Pair = (Vec<u8>, Vec<u8>);

/// The first fetch is small, for those who want one pair; each next one is twice the last, so that
/// whoever stops has fetched less than thrice of what was taken, but for the first few.
const CHUNK_PAIRS_FIRST: usize = 16;
const CHUNK_PAIRS_MAX: usize = 1024;

/// An iterator over a part of a [`Tree`], from both ends.
///
/// Holds no lock between two pairs. After an error it ends.
pub struct Range {
    tree: Tree,
    from: Bound<Vec<u8>>,
    to: Bound<Vec<u8>>,
    front: VecDeque<Pair>,
    back: VecDeque<Pair>,
    /// Whether the middle is known to be empty.
    exhausted: bool,
    chunk_pairs: usize,
    /// Where the engine puts a chunk; kept for its capacity.
    chunk: Vec<Pair>,
    /// There was no memory for the bounds.
    failed: Option<Error>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Front,
    Back,
}

impl Range {
    /// The first answer is the error of bounds that could not be kept.
    pub(crate) fn new(
        tree: Tree,
        from: Result<Bound<Vec<u8>>>,
        to: Result<Bound<Vec<u8>>>,
    ) -> Self {
        let (from, to, failed) = match (from, to) {
            (Ok(from), Ok(to)) => (from, to, None),
            (Err(error), _) | (_, Err(error)) => (Bound::Unbounded, Bound::Unbounded, Some(error)),
        };
        let exhausted = is_empty(&from, &to);
        Range {
            tree,
            from,
            to,
            front: VecDeque::new(),
            back: VecDeque::new(),
            exhausted,
            chunk_pairs: CHUNK_PAIRS_FIRST,
            chunk: Vec::new(),
            failed,
        }
    }

    fn step(&mut self, end: End) -> Option<Result<Pair>> {
        loop {
            let pair = match end {
                End::Front => self.front.pop_front(),
                End::Back => self.back.pop_back(),
            };
            if let Some(pair) = pair {
                return Some(Ok(pair));
            }
            if self.exhausted {
                return match end {
                    End::Front => self.back.pop_front(),
                    End::Back => self.front.pop_back(),
                }
                .map(Ok);
            }
            if let Err(error) = self.failed.take().map_or_else(|| self.fetch(end), Err) {
                self.exhausted = true;
                self.front.clear();
                self.back.clear();
                return Some(Err(error));
            }
        }
    }

    /// Moves pairs from the end of the middle to that end's buffer, which is empty.
    fn fetch(&mut self, end: End) -> Result<()> {
        self.chunk.clear();
        let (from, to) = (borrow(&self.from), borrow(&self.to));
        let Tree { engine, id, .. } = &self.tree;
        let reverse = end == End::Back;
        let more = engine.scan(id, from, to, reverse, self.chunk_pairs, &mut self.chunk)?;
        self.chunk_pairs = (self.chunk_pairs * 2).min(CHUNK_PAIRS_MAX);
        let Some((last, _)) = self.chunk.last() else {
            self.exhausted = true;
            return Ok(());
        };
        let bound = Bound::Excluded(room::copy(last, "a bound")?);
        let buffer = if reverse { &mut self.back } else { &mut self.front };
        make_room(buffer, self.chunk.len())?;
        match end {
            End::Front => {
                self.from = bound;
                self.front.extend(self.chunk.drain(..));
            }
            End::Back => {
                self.to = bound;
                self.back.extend(self.chunk.drain(..).rev());
            }
        }
        self.exhausted = !more || is_empty(&self.from, &self.to);
        Ok(())
    }
}

impl Iterator for Range {
    type Item = Result<Pair>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step(End::Front)
    }
}

impl DoubleEndedIterator for Range {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.step(End::Back)
    }
}

impl FusedIterator for Range {}

impl fmt::Debug for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Range")
            .field("tree", &self.tree.name())
            .field("from", &self.from)
            .field("to", &self.to)
            .finish_non_exhaustive()
    }
}

fn make_room(buffer: &mut VecDeque<Pair>, n: usize) -> Result<()> {
    let bytes = n * size_of::<Pair>();
    buffer.try_reserve(n).map_err(|_| Error::NoMemory { what: "the pairs of a range", bytes })
}

/// The end of the keys that start with `prefix`: the prefix with its last byte below 0xFF raised
/// and what follows cut off.
pub(crate) fn prefix_end(prefix: &[u8]) -> Result<Bound<Vec<u8>>> {
    let Some(at) = prefix.iter().rposition(|&byte| byte < 0xFF) else {
        return Ok(Bound::Unbounded);
    };
    let mut end = room::copy(&prefix[..=at], "a bound")?;
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
