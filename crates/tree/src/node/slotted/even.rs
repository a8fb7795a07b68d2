//! Evening out with a neighbour, and merging with it, both by bytes.
//!
//! A node without room gives entries to a neighbour under the same parent, so many that both are about
//! equally full, if that makes room for the very entry that asks. So nodes are fuller than splits alone would
//! leave them. It is not worth it if the neighbour is nearly full itself. Keys that are cut and long fences
//! are left to splits: the new separator would take whole keys.
//!
//! Two neighbours that fit into one node are merged: the left one becomes both. Bytes are counted as they
//! will be, because a node between wider fences has a shorter prefix and longer suffixes.

use everleaf_pmem::{Change, Medium, Page, Result};

use super::entry::entry_bytes;
use super::fit::{MERGED_EIGHTHS, may_take};
use super::format::{SLOT_BYTES, room};
use super::image::{Bounds, Image, OwnedFence, prefix_limit};
use super::note::{self, ADD_BACK, ADD_FRONT, TRIM_BACK, TRIM_FRONT};
use super::read::{Fence, View};
use super::redo::{self, Addition};

/// Bytes by which the lengths in an entry may grow with its suffix.
const LENGTHS_GROW: usize = 2;

/// The entry that finds no room in a node.
#[derive(Debug, Clone, Copy)]
pub struct Asking<'a> {
    /// Whether the node is the left one of the two.
    pub in_left: bool,
    /// The entry's key or separator.
    pub key: &'a [u8],
    /// Its position in that node.
    pub pos: usize,
    /// How many bytes it takes there, its slot too.
    pub bytes: usize,
    /// Whether it takes the place of the one that is there.
    pub replaces: bool,
}

impl Asking<'_> {
    /// At most how many bytes it takes in a node with another prefix than the one that it asks.
    fn bytes_behind(&self, own: usize, other: usize) -> usize {
        self.bytes + if own > other { own - other + LENGTHS_GROW } else { 0 }
    }
}

/// An evening out, ready to be done.
pub struct Even {
    separator: Vec<u8>,
    from_left: bool,
    given: Image,
    taken: Addition,
    trim: Vec<u8>,
    add: Vec<u8>,
}

/// A node that gives, one that takes, and who asks.
struct Pair<'v, 'm> {
    giver: &'v View<'m>,
    taker: &'v View<'m>,
    asking: &'v Asking<'v>,
}

impl Pair<'_, '_> {
    /// Between which of the giver's entries both nodes are about equally full, the entry that asks counted:
    /// looks at those that go only. None if there is no such place.
    fn cut(&self) -> Option<usize> {
        let Self { giver, taker, asking } = self;
        let count = giver.count();
        let old = if asking.replaces { SLOT_BYTES + giver.entry(asking.pos).bytes() } else { 0 };
        let asks = asking.bytes.saturating_sub(old);
        let mut more = (giver.used_bytes() + asks).checked_sub(taker.used_bytes())? / 2;
        // A new entry goes behind those before it, one that is there with itself.
        let asks_at = if asking.replaces { asking.pos } else { asking.pos.saturating_sub(1) };
        for moved in 1..count {
            let at = if asking.in_left { count - moved } else { moved - 1 };
            let asks_too = if at == asks_at { asks } else { 0 };
            let bytes = SLOT_BYTES + giver.entry(at).bytes() + asks_too;
            if bytes >= more || moved + 1 == count {
                return Some(if asking.in_left { at } else { moved });
            }
            more -= bytes;
        }
        None
    }
}

impl Even {
    /// Makes ready to even out two neighbours, one of which has no room for an entry. None if that is of no
    /// use: the neighbour is nearly full, it would not make room for this entry, or a key or a fence is too
    /// long.
    ///
    /// # Errors
    /// Corrupt, NoMemory.
    pub fn plan(left: &View<'_>, right: &View<'_>, asking: &Asking<'_>) -> Result<Option<Self>> {
        let (giver, taker) = if asking.in_left { (left, right) } else { (right, left) };
        if !may_take(taker) || giver.count() < 2 {
            return Ok(None);
        }
        if giver.has_long_fence() || taker.has_long_fence() {
            return Ok(None);
        }
        let pair = Pair { giver, taker, asking };
        let Some(cut) = pair.cut() else { return Ok(None) };
        let Some(separator) = giver.separator(cut)? else { return Ok(None) };
        pair.even(cut, separator)
    }

    /// What is between the two nodes afterwards: the parent's entry for the right one gets it.
    pub fn separator(&self) -> &[u8] {
        &self.separator
    }

    /// Stores both nodes and notes what came and went.
    pub fn apply<'m, M: Medium>(
        &self,
        m: &'m M,
        op: &mut M::Op<'m>,
        left: Page<'_>,
        right: Page<'_>,
    ) {
        let (giver, trim, taker, add) = match self.from_left {
            true => (left, TRIM_BACK, right, ADD_FRONT),
            false => (right, TRIM_FRONT, left, ADD_BACK),
        };
        let fence = Fence::whole(&self.separator);
        let entries = &self.add[note::entries_at(fence)..];
        let back = !self.from_left;
        redo::add(m, &View::read(taker), back, (fence, entries), &self.taken);
        m.note(op, taker, Change { tag: add, bytes: &self.add });
        redo::rebuild(m, op, giver, &self.given, (trim, &self.trim));
    }
}

impl Pair<'_, '_> {
    /// Makes both nodes as they are with this separator at this place; none if that makes no room.
    fn even(&self, cut: usize, separator: Vec<u8>) -> Result<Option<Even>> {
        let &Self { giver, taker, asking } = self;
        let fence = Fence::whole(&separator);
        let (given, trim, moved) = if asking.in_left {
            let sibling = giver.sibling().unwrap_or(0);
            let given = giver.trimmed_back(cut, sibling, fence)?;
            (given, note::trim_back(cut, sibling, fence)?, cut..giver.count())
        } else {
            (giver.trimmed_front(cut, fence)?, note::trim_front(cut, fence)?, 0..cut)
        };
        let Some(given) = given else { return Ok(None) };
        let back = !asking.in_left;
        let prefix = taker.prefix_of_extended(back, fence)?;
        let Some(add) = note::add(fence, giver, moved, prefix)? else { return Ok(None) };
        let entries = &add[note::entries_at(fence)..];
        let Some(taken) = redo::addition(taker, back, fence, entries)? else { return Ok(None) };
        let stays = (asking.key < &separator[..]) == asking.in_left;
        let (free, prefix) = match (&taken, stays) {
            (_, true) => (given.gap(), given.prefix_len()),
            (Addition::Anew(image), false) => (image.gap(), image.prefix_len()),
            (Addition::InPlace, false) => (in_place_free(taker, fence, entries), prefix),
        };
        let given_up = match asking.replaces {
            true => {
                let old = giver.entry(asking.pos);
                let suffix = (old.suffix + giver.prefix_len()).saturating_sub(prefix);
                SLOT_BYTES + entry_bytes(suffix, false, old.value)
            }
            false => 0,
        };
        let need = asking.bytes_behind(giver.prefix_len(), prefix);
        if need > free + given_up {
            return Ok(None);
        }
        Ok(Some(Even { from_left: asking.in_left, given, taken, trim, add, separator }))
    }
}

/// What is free, after a compaction, in a node that has taken in entries of a note into its gap.
fn in_place_free(taker: &View<'_>, fence: Fence<'_>, entries: &[u8]) -> usize {
    let mut args = note::Operands(entries);
    let bytes = std::iter::from_fn(|| args.entry()).map(|entry| entry.bytes() + SLOT_BYTES);
    taker.free_bytes().saturating_sub(bytes.sum::<usize>() + fence.kept.len())
}

/// Two neighbours as one node, ready to be stored.
#[derive(Debug)]
pub struct Merge(Image);

impl Merge {
    /// Makes one node of two neighbours; none if they take more than seven eighths of a node, or, if one of
    /// them has no more than `nothing` entries, if they do not fit.
    ///
    /// # Errors
    /// Corrupt, NoMemory.
    pub fn plan(left: &View<'_>, right: &View<'_>, nothing: usize) -> Result<Option<Self>> {
        let page_bytes = left.page_bytes();
        let all = room(page_bytes);
        let is_empty = left.count().min(right.count()) <= nothing;
        let most = if is_empty { all } else { all / 8 * MERGED_EIGHTHS };
        let between = [left.high(), right.low()];
        let between = between.iter().flatten().map(|fence| fence.bytes()).sum::<usize>();
        // The merged node's prefix is not longer: its entries take no less.
        if (left.used_bytes() + right.used_bytes()).saturating_sub(between) > most {
            return Ok(None);
        }
        let low = OwnedFence::read(left, left.low())?;
        let high = OwnedFence::read(right, right.high())?;
        let bounds = Bounds {
            low: low.as_ref().map(OwnedFence::lend),
            high: high.as_ref().map(OwnedFence::lend),
            sibling: right.sibling().unwrap_or(0),
        };
        let (all_left, all_right) = (0..left.count(), 0..right.count());
        let prefix = bounds.prefix(page_bytes);
        let prefix = prefix_limit(left, all_left.clone(), prefix);
        let prefix = prefix_limit(right, all_right.clone(), prefix);
        let mut image = Image::new(page_bytes, left.level(), &bounds, prefix)?;
        let fits = image.copy(left, all_left)? && image.copy(right, all_right)?;
        Ok((fits && image.used_bytes() <= most).then_some(Self(image)))
    }

    /// Stores the merged node into the left one's page and notes it.
    pub fn apply<'m, M: Medium>(&mut self, m: &'m M, op: &mut M::Op<'m>, left: Page<'_>) {
        redo::build(m, op, left, &mut self.0);
    }
}
