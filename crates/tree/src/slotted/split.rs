//! Splits: where a full node is cut in two, by bytes, and both halves.
//!
//! Both halves get about as many bytes, the entry that asks for room counted where it goes. A node that was
//! filled at its end for some time is full for good: it keeps all but its last entry, so that what is loaded
//! in ascending order lies in full nodes. The right half is noted whole, the left one as a trim.
//!
//! A look at a node's room, which makes nothing, decides what to do next. It is taken beside writers,
//! too, and may then be mistaken; the step that acts on it plans again under latches.

use everleaf_pmem::{Medium, Page, Result};

use crate::slotted::edit;
use crate::slotted::entry::{entry_bytes, is_cut, kept_of};
use crate::slotted::image::{Image, Source, common};
use crate::slotted::note::{self, TRIM_BACK};
use crate::slotted::view::{
    Bytes, Fence, HEAD_BYTES, HIGH_HEAD_WORD, KEPT_BYTES, LONG_RUN, Node, REFERENCE_BYTES,
    ValueSize, View, fence_max, head_behind, is_long_fence, room, slot_head,
};

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

    /// The separator of the halves.
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
        edit::build(m, op, right, &mut self.right);
        edit::rebuild(m, op, left, &self.left, (TRIM_BACK, &self.trim));
    }
}

/// A neighbour that is fuller, in percent of its room, gets nothing.
const TAKER_MAX: usize = 70;
/// Two nodes are merged if they take so many eighths of a node's room.
pub(super) const MERGED_EIGHTHS: usize = 7;
/// Most bytes by which the code of an entry grows with its suffix.
const CODE_GROWS: usize = 2;

/// Bytes of the entry of a key of so many bytes in a node without a prefix, without its slot.
pub fn entry_bytes_for(key_bytes: usize, value: ValueSize, page_bytes: usize) -> usize {
    let cut = is_cut(key_bytes, page_bytes);
    let kept = if cut { KEPT_BYTES } else { key_bytes };
    entry_bytes(kept, cut, value)
}

/// Whether a neighbour is not too full to take entries of a full node.
pub fn may_take(neighbour: &View<'_>) -> bool {
    100 * neighbour.used_bytes() <= TAKER_MAX * room(neighbour.page_bytes())
}

/// Whether a removal that leaves a node so full should look for a neighbour to merge with.
pub fn is_sparse(view: &View<'_>) -> bool {
    view.used_bytes() <= room(view.page_bytes()) / 8 * MERGED_EIGHTHS
}

/// Whether two neighbours surely fit into one node. One with `nothing` or fewer entries may fill the other
/// one up.
pub fn may_merge(left: &View<'_>, right: &View<'_>, nothing: usize) -> bool {
    let all = room(left.page_bytes());
    let most = match left.count().min(right.count()) <= nothing {
        true => all,
        false => all / 8 * MERGED_EIGHTHS,
    };
    // The merged prefix may be shorter: then each suffix is longer.
    let prefix = left.shared_prefix(right);
    let grows = |view: &View<'_>| match view.prefix_len().saturating_sub(prefix) {
        0 => 0,
        more => view.count() * (more + CODE_GROWS),
    };
    left.used_bytes() + right.used_bytes() + grows(left) + grows(right) <= most
}

impl View<'_> {
    /// At least how many bytes of prefix this node keeps if it takes in its right neighbour.
    fn shared_prefix(&self, right: &View<'_>) -> usize {
        let (Some(low), Some(high)) = (self.low(), right.high()) else { return 0 };
        if low.record.is_some() || high.record.is_some() {
            return 0;
        }
        let most = self.prefix_len().min(right.prefix_len()).min(low.kept).min(high.kept);
        let same = |at: usize| {
            let byte = |view: &View<'_>, from: usize| view.page().load_le(from + at) as u8;
            byte(self, low.at) == byte(right, high.at)
        };
        (0..most).find(|&at| !same(at)).unwrap_or(most)
    }

    /// Whether the entry at a position is just the one of `key`.
    pub fn fits(&self, pos: usize, key: &[u8]) -> bool {
        let entry = self.entry(pos);
        let (suffix, cut) = kept_of(key, self.prefix_len(), self.page_bytes());
        if entry.cut != cut || (!cut && entry.suffix != suffix.len()) {
            return false;
        }
        // In place: a check must not take a lack of memory for damage.
        let (prefix, page) = (self.prefix_len(), self.page());
        let known = prefix + entry.suffix;
        if known > key.len() || cut && known == key.len() {
            return false;
        }
        let (begin, suffix) = (&key[..prefix], &key[prefix..known]);
        let same = |at: usize, part: &[u8]| page.cmp_bytes(at, part.len(), part).is_eq();
        let head = slot_head(head_behind(&key[..known], prefix));
        self.slot(pos) | 0xffff == head | 0xffff
            && (begin.is_empty() || same(self.prefix_at(), begin))
            && (entry.rest() == 0 || same(entry.rest_at, &suffix[HEAD_BYTES..]))
    }

    /// Whether the prefix and the words of the fences are those that these bounds ask for.
    pub fn bounds_fit(&self, low: &[u8], high: Option<&[u8]>) -> bool {
        let prefix = self.prefix_len();
        let Some(high) = high else { return prefix == 0 };
        prefix <= common(low, high)
            && self.page().head(HIGH_HEAD_WORD).load() == head_behind(high, prefix)
    }
}
