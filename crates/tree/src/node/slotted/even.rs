//! Evening out with a neighbour, and merging with it, both by bytes.
//!
//! A node without room gives entries to a neighbour under the same parent, so many that both are about
//! equally full, if that makes room for the very entry that asks. So nodes are fuller than splits alone would
//! leave them. It is not worth it if the neighbour is nearly full itself. Keys that are cut and long fences
//! are left to splits: the new separator would take whole keys.
//!
//! Two neighbours that fit into one node are merged: the left one becomes both. Bytes are counted as they
//! will be, because a node between wider fences has a shorter prefix and longer suffixes.

use everleaf_pmem::{Medium, Page, Result, fallible};

use super::entry::entry_bytes;
use super::format::{SLOT_BYTES, room};
use super::image::{Bounds, Image, OwnedFence, prefix_limit};
use super::note::{self, ADD_BACK, ADD_FRONT, TRIM_BACK, TRIM_FRONT};
use super::read::{Fence, View};
use super::redo;

/// A neighbour that is fuller, in percent of its room, gets nothing.
pub(super) const TAKER_MAX: usize = 85;
/// Two nodes are merged if they take so many eighths of a node's room.
pub(super) const MERGED_EIGHTHS: usize = 7;
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
#[derive(Debug)]
pub struct Even {
    separator: Vec<u8>,
    from_left: bool,
    given: Image,
    taken: Image,
    trim: Vec<u8>,
    add: Vec<u8>,
}

/// What each entry of a node takes behind some prefix, its slot too; none if a key is cut.
fn weights(view: &View<'_>, prefix: usize) -> Result<Option<Vec<usize>>> {
    let (count, own) = (view.count(), view.prefix_len());
    let mut weights = fallible::list(count, "the sizes of entries")?;
    for pos in 0..count {
        let entry = view.entry(pos);
        if entry.cut {
            return Ok(None);
        }
        let suffix = (entry.suffix + own).saturating_sub(prefix);
        weights.push(SLOT_BYTES + entry_bytes(suffix, false, entry.value));
    }
    Ok(Some(weights))
}

/// A node that gives, one that takes, and who asks.
struct Pair<'v, 'm> {
    giver: &'v View<'m>,
    taker: &'v View<'m>,
    asking: &'v Asking<'v>,
}

impl Pair<'_, '_> {
    /// Between which of the giver's entries both nodes are about equally full, if the giver gets the first
    /// of these prefixes and the taker the second. None if there is no such place, or a key is cut.
    fn cut(&self, [of_giver, of_taker]: [usize; 2]) -> Result<Option<usize>> {
        let Some(stay) = weights(self.giver, of_giver)? else { return Ok(None) };
        let Some(go) = weights(self.giver, of_taker)? else { return Ok(None) };
        let Some(there) = weights(self.taker, of_taker)? else { return Ok(None) };
        let (asking, own) = (self.asking, self.giver.prefix_len());
        let old = |of: &[usize]| if asking.replaces { of[asking.pos] } else { 0 };
        let asks = |prefix| asking.bytes_behind(own, prefix);
        let asks_giver = asks(of_giver).saturating_sub(old(&stay));
        let asks_taker = asks(of_taker).saturating_sub(old(&go));
        // Bytes of the giver's entries before the cut and behind it, in the node where they then are.
        let (mut before, mut behind) = match asking.in_left {
            true => (0, go.iter().sum::<usize>()),
            false => (0, stay.iter().sum::<usize>()),
        };
        let there = there.iter().sum::<usize>();
        let (left, right) = if asking.in_left { (&stay, &go) } else { (&go, &stay) };
        let (mut best, mut found) = (usize::MAX, None);
        for cut in 1..left.len() {
            before += left[cut - 1];
            behind -= right[cut - 1];
            let asks_before = asking.pos < cut;
            let (stays, goes) = match asking.in_left {
                true => (before, behind),
                false => (behind, before),
            };
            let asks_here =
                if asks_before == asking.in_left { [asks_giver, 0] } else { [0, asks_taker] };
            let uneven = (stays + asks_here[0]).abs_diff(there + goes + asks_here[1]);
            if uneven < best {
                (best, found) = (uneven, Some(cut));
            }
        }
        Ok(found)
    }
}

/// The fence of a node that stays where it is, if no fence of the node is long.
fn outer_fence(view: &View<'_>, low: bool) -> Result<Option<Option<OwnedFence>>> {
    if [view.low(), view.high()].into_iter().flatten().any(|fence| fence.record.is_some()) {
        return Ok(None);
    }
    OwnedFence::read(view, if low { view.low() } else { view.high() }).map(Some)
}

/// The prefix between a fence and another one.
fn prefix_between(outer: &Option<OwnedFence>, separator: &[u8], page_bytes: usize) -> usize {
    let low = outer.as_ref().map(OwnedFence::lend);
    Bounds { low, high: Some(Fence::whole(separator)), sibling: 0 }.prefix(page_bytes)
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
        let page_bytes = left.page_bytes();
        if 100 * taker.used_bytes() > TAKER_MAX * room(page_bytes) || giver.count() < 2 {
            return Ok(None);
        }
        let of_giver = outer_fence(giver, asking.in_left)?;
        let of_taker = outer_fence(taker, !asking.in_left)?;
        let (Some(of_giver), Some(of_taker)) = (of_giver, of_taker) else { return Ok(None) };
        let pair = Pair { giver, taker, asking };
        let mut prefixes = [giver.prefix_len(), taker.prefix_len()];
        let mut found = None;
        // The new separator decides the prefixes, and these how much the entries weigh.
        for _ in 0..2 {
            let Some(cut) = pair.cut(prefixes)? else { return Ok(None) };
            let Some(separator) = giver.separator(cut)? else { return Ok(None) };
            let then =
                [&of_giver, &of_taker].map(|outer| prefix_between(outer, &separator, page_bytes));
            found = Some((cut, separator));
            if then == prefixes {
                break;
            }
            prefixes = then;
        }
        match found {
            Some((cut, separator)) => pair.even(cut, separator),
            None => Ok(None),
        }
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
        redo::rebuild(m, op, taker, &self.taken, (add, &self.add));
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
        let back = !asking.in_left;
        let taken = taker.extended(back, fence, |image| image.copy(giver, moved.clone()))?;
        let (Some(given), Some(taken)) = (given, taken) else { return Ok(None) };
        let stays = (asking.key < &separator[..]) == asking.in_left;
        let image = if stays { &given } else { &taken };
        let given_up = match asking.replaces {
            true => {
                let old = giver.entry(asking.pos);
                let suffix = (old.suffix + giver.prefix_len()).saturating_sub(image.prefix_len());
                SLOT_BYTES + entry_bytes(suffix, false, old.value)
            }
            false => 0,
        };
        let need = asking.bytes_behind(giver.prefix_len(), image.prefix_len());
        if need > image.gap() + given_up {
            return Ok(None);
        }
        let first = if back { taker.count() } else { 0 };
        let add = note::add(fence, &taken, first..first + moved.len())?;
        Ok(Some(Even { from_left: asking.in_left, given, taken, trim, add, separator }))
    }
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
