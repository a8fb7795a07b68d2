//! What can be said of a node's room without making anything: for who decides what to do next.
//!
//! All of it is asked beside writers, too, and may then be mistaken; who acts on it plans again under
//! latches.

use super::entry::{ValueSize, entry_bytes, head_behind, is_cut, kept_of, slot_head};
use super::format::{HEAD_BYTES, HIGH_HEAD_WORD, KEPT_BYTES, room};
use super::image::common;
use super::read::View;

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
        // In place: whoever checks must not take a lack of memory for damage.
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
