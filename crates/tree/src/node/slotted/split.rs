//! Splits: where a full node is cut in two, by bytes, and both halves.
//!
//! Both halves get about as many bytes, the entry that asks for room counted where it goes. A node that was
//! filled at its end for some time is full for good: it keeps all but its last entry, so that what is loaded
//! in ascending order lies in full nodes. The right half is noted whole, the left one as a trim.

use everleaf_pmem::{Medium, Page, Result};

use super::bytes::Bytes;
use super::format::{LONG_RUN, REFERENCE_BYTES, fence_max, room};
use super::image::{Image, common};
use super::note::{self, TRIM_BACK};
use super::read::{Fence, Node, View, is_long_fence};
use super::redo;
use super::source::Source;

/// The shortest string that is above `below` and not above `above`, which is greater than `below`.
pub fn shortest_between<'a>(below: &[u8], above: &'a [u8]) -> &'a [u8] {
    &above[..above.len().min(common(below, above) + 1)]
}

impl<B: Bytes> Node<B> {
    /// Whether the next insert, at `pos`, is one of many in a row at the end.
    #[inline]
    pub fn is_appending(&self, pos: usize) -> bool {
        pos == self.count() && self.run() >= LONG_RUN
    }

    /// How many entries the left half of a split keeps. An entry of `bytes` bytes (with its slot) asks for
    /// room before position `pos`, or in place of the one that is there.
    ///
    /// # Errors
    /// Corrupt, if the node has not two entries.
    pub fn split_point(&self, pos: usize, bytes: usize) -> Result<usize> {
        let (count, room) = (self.count(), room(self.page_bytes()));
        let [low, high] = [self.low(), self.high()].map(|fence| fence.map_or(0, |f| f.bytes()));
        let all = self.used_bytes().saturating_sub(low + high);
        // The halves get a fence more, which may be as long as the first key of the right one.
        let fits = |left: usize, keep: usize| {
            let fence = self.fence_bytes_at(keep);
            left + low + fence <= room && all.saturating_sub(left) + fence + high <= room
        };
        if self.is_appending(pos) && count > 1 {
            let left = all.saturating_sub(self.weight(count - 1));
            if fits(left, count - 1) {
                return Ok(count - 1);
            }
        }
        let (total, mut left, mut asks_left) = (all + bytes, 0, 0);
        let (mut best, mut found, mut before) = (usize::MAX, None, None);
        for keep in 1..count {
            left += self.weight(keep - 1);
            if keep - 1 == pos {
                asks_left = bytes;
            }
            let twice = 2 * (left + asks_left);
            let here = (keep, left, twice.abs_diff(total));
            // Which places fit is asked from the last one before the middle on.
            if twice < total && keep + 1 < count {
                before = Some(here);
                continue;
            }
            for (keep, left, uneven) in before.take().into_iter().chain([here]) {
                if uneven < best && fits(left, keep) {
                    (best, found) = (uneven, Some(keep));
                }
            }
            if found.is_some() {
                break;
            }
        }
        let found = found.or_else(|| self.first_cut(fits));
        found.ok_or_else(|| self.damage("it cannot be cut in two"))
    }

    /// The first place of a cut that `fits`.
    #[cold]
    fn first_cut(&self, fits: impl Fn(usize, usize) -> bool) -> Option<usize> {
        let mut left = 0;
        (1..self.count()).find(|keep| {
            left += self.weight(keep - 1);
            fits(left, *keep)
        })
    }

    /// At most how many bytes a fence takes that is made of the key at a position.
    fn fence_bytes_at(&self, pos: usize) -> usize {
        let entry = self.entry(pos);
        match entry.cut {
            true => fence_max(self.page_bytes()) + REFERENCE_BYTES,
            false => self.prefix_len() + entry.suffix,
        }
    }

    /// The separator of a split that keeps `keep` entries: of a leaf the shortest there is, of an inner node
    /// that of its entry `keep`. None if it takes whole keys that the node does not have.
    ///
    /// # Errors
    /// Corrupt, NoMemory.
    pub fn separator(&self, keep: usize) -> Result<Option<Vec<u8>>> {
        let (mut below, mut above) = (Vec::new(), Vec::new());
        let above_far = self.key_into(keep, &mut above)?;
        if !self.is_leaf() {
            return Ok(above_far.is_none().then_some(above));
        }
        let below_far = self.key_into(keep - 1, &mut below)?;
        let same = common(&below, &above);
        if same == above.len() {
            return match above_far {
                Some(_) => Ok(None),
                None => Err(self.damage("its keys do not ascend")),
            };
        }
        if same == below.len() && below_far.is_some() {
            return Ok(None);
        }
        above.truncate(same + 1);
        Ok(Some(above))
    }
}

/// Both halves of a node that is split, ready to be stored.
#[derive(Debug)]
pub struct Split {
    left: Image,
    right: Image,
    keep: usize,
    separator: Vec<u8>,
    trim: Vec<u8>,
}

impl Split {
    /// Makes both halves. The left one keeps `keep` entries.
    ///
    /// # Errors
    /// Corrupt, NoMemory.
    pub fn new(view: &View<'_>, keep: usize, separator: Vec<u8>) -> Result<Self> {
        let source = Source::of(view)?;
        let (node, fence) = (source.node(), Fence::of(&separator, 0, view.page_bytes()));
        let halves = (node.trimmed_back(keep, 0, fence)?, node.trimmed_front(keep, fence)?);
        let (Some(left), Some(mut right)) = halves else {
            return Err(view.damage("half of it does not fit a page"));
        };
        // Its end is the end of both: what came there in a row came there in a row.
        right.set_run(view.run());
        let trim = note::trim_back(keep, 0, fence)?;
        Ok(Self { left, right, keep, separator, trim })
    }

    /// What is between the halves.
    pub fn separator(&self) -> &[u8] {
        &self.separator
    }

    /// Whether a node keeps the separator in part, so that two records have to hold it.
    pub fn is_long(&self) -> bool {
        is_long_fence(self.separator.len(), self.left.page_bytes())
    }

    /// Stores the right half into its page and then the left one into the page of both, and notes them.
    /// If the separator [is long](Self::is_long), `records` name those that hold it: the left half's and the
    /// right half's.
    pub fn apply<'m, M: Medium>(
        &mut self,
        m: &'m M,
        op: &mut M::Op<'m>,
        (left, right): (Page<'_>, Page<'_>),
        records: [u64; 2],
    ) {
        self.left.set_sibling(right.no());
        if self.is_long() {
            self.left.set_high_record(records[0]);
            self.right.set_low_record(records[1]);
        }
        let fence = Fence::of(&self.separator, records[0], self.left.page_bytes());
        note::trim_back_again(&mut self.trim, self.keep, right.no(), fence);
        redo::build(m, op, right, &mut self.right);
        redo::rebuild(m, op, left, &self.left, (TRIM_BACK, &self.trim));
    }
}
