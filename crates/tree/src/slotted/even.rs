//! Evening out with a neighbour, and merging with it, both by bytes.
//!
//! A node without room gives entries to a neighbour under the same parent, so many that both are about
//! equally full, if that makes room for the very entry that asks. So nodes are fuller than splits alone would
//! leave them. It is not worth it if the neighbour is nearly full itself. Keys that are cut and long fences
//! are left to splits: the new separator would take whole keys.
//!
//! Two neighbours that fit into one node are merged: the left one becomes both. Bytes are counted as they
//! will be, because a node between wider fences has a shorter prefix and longer suffixes.
//!
//! Many pairs at once are a *fill*: a leaf is filled up at its end, and the leaf behind it begins with the next pair.
//!
//! A split moves entries, and the left node keeps the prefix that its fences had before. Here both leaves are made of
//! pairs that are known, so the fence between them is, too, and the left one is as full as its final prefix allows.
//! Both are noted whole: the left one has little beside what is new, if it was made like that itself.

use everleaf_pmem::{Medium, Page, Result};

use crate::slotted::edit;
use crate::slotted::entry::{entry_bytes, is_inline};
use crate::slotted::image::{Bounds, Image, Source, prefix_limit};
use crate::slotted::note::{self, ADD_BACK, ADD_FRONT, TRIM_BACK, TRIM_FRONT};
use crate::slotted::split::{MERGED_EIGHTHS, may_take, shortest_between};
use crate::slotted::view::{
    Fence, Flat, LONG_RUN, Node, SLOT_BYTES, Value, ValueSize, View, is_long_fence, room,
};

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

/// A node that gives, one that takes, and the entry that asks.
struct Pair<'a> {
    giver: Node<Flat<'a>>,
    taker: Node<Flat<'a>>,
    asking: &'a Asking<'a>,
}

/// How many bytes an entry of a node takes more behind another prefix, about.
fn growth(node: &Node<Flat<'_>>, prefix: usize) -> isize {
    node.prefix_len().cast_signed() - prefix.cast_signed()
}

/// Bytes that a node uses behind another prefix, about.
fn used_behind(node: &Node<Flat<'_>>, prefix: usize) -> isize {
    node.used_bytes().cast_signed() + node.count().cast_signed() * growth(node, prefix)
}

impl Pair<'_> {
    /// Between which of the giver's entries both nodes are about equally full, if the giver gets the first
    /// of these prefixes and the taker the second. None if there is no such place, or a key that goes is cut.
    fn cut(&self, [of_giver, of_taker]: [usize; 2]) -> Option<usize> {
        let (count, asking, giver) = (self.giver.count(), self.asking, &self.giver);
        let old = if asking.replaces { giver.weight(asking.pos) } else { 0 };
        let asks = asking.bytes.saturating_sub(old).cast_signed();
        let (shrinks, grows) = (growth(giver, of_giver), growth(giver, of_taker));
        let mut stays = used_behind(giver, of_giver);
        let mut goes = used_behind(&self.taker, of_taker);
        let (mut best, mut found) = (usize::MAX, None);
        // Entry by entry, from the end where the taker is, until that is the fuller one.
        for moved in 1..count {
            let (pos, cut) =
                if asking.in_left { (count - moved, count - moved) } else { (moved - 1, moved) };
            if giver.may_be_cut(pos) && giver.entry(pos).cut {
                return None;
            }
            let weight = giver.weight(pos).cast_signed();
            (stays, goes) = (stays - weight - shrinks, goes + weight + grows);
            let goes_too = (asking.pos < cut) != asking.in_left;
            let more = if goes_too { goes + asks - stays } else { goes - stays - asks };
            if more.unsigned_abs() < best {
                (best, found) = (more.unsigned_abs(), Some(cut));
            }
            if more > 0 {
                break;
            }
        }
        found
    }
}

/// The prefix between a fence and another one.
fn prefix_between(outer: Option<Fence<'_>>, separator: &[u8], page_bytes: usize) -> usize {
    Bounds { low: outer, high: Some(Fence::whole(separator)), sibling: 0 }.prefix(page_bytes)
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
        if !may_take(taker) || giver.count() < 2 {
            return Ok(None);
        }
        if giver.has_long_fence() || taker.has_long_fence() {
            return Ok(None);
        }
        let (giver, taker) = (Source::of(giver)?, Source::of(taker)?);
        let pair = Pair { giver: giver.node(), taker: taker.node(), asking };
        let bounds = [pair.giver.bounds()?, pair.taker.bounds()?];
        let outer = match asking.in_left {
            true => [bounds[0].low, bounds[1].high],
            false => [bounds[0].high, bounds[1].low],
        };
        let mut prefixes = [pair.giver.prefix_len(), pair.taker.prefix_len()];
        let mut found = None;
        // The new separator decides the prefixes, and these how much the entries weigh.
        for _ in 0..2 {
            let Some(cut) = pair.cut(prefixes) else { return Ok(None) };
            let separator = pair.giver.separator(cut)?;
            let fits = |separator: &Vec<u8>| !is_long_fence(separator.len(), page_bytes);
            let Some(separator) = separator.filter(fits) else { return Ok(None) };
            let then = outer.map(|outer| prefix_between(outer, &separator, page_bytes));
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

    /// The separator of the two nodes afterwards: the parent's entry for the right one gets it.
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
        edit::rebuild(m, op, taker, &self.taken, (add, &self.add));
        edit::rebuild(m, op, giver, &self.given, (trim, &self.trim));
    }
}

impl Pair<'_> {
    /// Makes both nodes as they are with this separator at this place; none if that makes no room.
    fn even(&self, cut: usize, separator: Vec<u8>) -> Result<Option<Even>> {
        let Self { giver, taker, asking } = self;
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
        let (left, right) = (Source::of(left)?, Source::of(right)?);
        let (left, right) = (&left.node(), &right.node());
        let bounds = Bounds { low: left.bounds()?.low, ..right.bounds()? };
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
        edit::build(m, op, left, &mut self.0);
    }
}

/// A key and its value.
type PairToFill<'p> = (&'p [u8], &'p [u8]);

/// A leaf that is filled, and the one behind it, ready to be stored.
#[derive(Debug)]
pub struct Fill {
    left: Image,
    right: Image,
    separator: Vec<u8>,
    len: usize,
}

impl Fill {
    /// Puts the first of some pairs behind the entries of a leaf until it is full, and one more into a new leaf. The
    /// keys ascend from above the leaf's last one to below its high fence. None if the pairs do not fill the leaf, or
    /// if one of them does not live in its leaf.
    ///
    /// # Errors
    /// Corrupt, NoMemory.
    pub fn plan(view: &View<'_>, pairs: &[PairToFill<'_>]) -> Result<Option<Self>> {
        let source = Source::of(view)?;
        let (node, own) = (source.node(), source.node().bounds()?);
        let Some(kept) = kept_by(&node, &own, pairs) else { return Ok(None) };
        let page_bytes = node.page_bytes();
        let separator = shortest_between(pairs[kept - 1].0, pairs[kept].0);
        let fence = Some(Fence::whole(separator));
        let Some(mut left) = node.remade(&Bounds { high: fence, ..own }, 0..node.count())? else {
            return Ok(None);
        };
        let bounds = Bounds { low: fence, ..own };
        let mut right = Image::new(page_bytes, 0, &bounds, usize::MAX)?;
        // A caller that goes on pair by pair fills it from left to right.
        right.set_run(LONG_RUN);
        if !push_all(&mut left, &pairs[..kept]) || !push_all(&mut right, &pairs[kept..=kept]) {
            return Ok(None);
        }
        let separator = everleaf_pmem::fallible::copy(separator, "a key")?;
        Ok(Some(Self { left, right, separator, len: kept + 1 }))
    }

    /// How many pairs are in there, one of them in the new leaf.
    pub fn count(&self) -> usize {
        self.len
    }

    /// The separator of the leaves.
    pub fn separator(&self) -> &[u8] {
        &self.separator
    }

    /// Stores the new leaf into its page and then the filled one, and notes them.
    pub fn apply<'m, M: Medium>(
        &mut self,
        m: &'m M,
        op: &mut M::Op<'m>,
        (left, right): (Page<'_>, Page<'_>),
    ) {
        self.left.set_sibling(right.no());
        edit::build(m, op, right, &mut self.right);
        edit::build(m, op, left, &mut self.left);
    }
}

fn push_all(image: &mut Image, pairs: &[PairToFill<'_>]) -> bool {
    let prefix = image.prefix_len();
    pairs.iter().all(|(key, value)| {
        key.get(prefix..).is_some_and(|suffix| image.push(suffix, false, Value::Inline(value)))
    })
}

/// With how many of the pairs the leaf is full, if they fill it and there is one more.
fn kept_by(node: &Node<Flat<'_>>, own: &Bounds<'_>, pairs: &[PairToFill<'_>]) -> Option<usize> {
    let page_bytes = node.page_bytes();
    let is_inline = |(key, value): PairToFill<'_>| is_inline(key.len(), value.len(), page_bytes);
    pairs.first().filter(|pair| is_inline(**pair))?;
    let low = node.low().map_or(0, |low| low.bytes());
    let (mut best, mut prefix, mut used) = (None, usize::MAX, 0);
    for n in 1..pairs.len() {
        if !is_inline(pairs[n]) {
            return None;
        }
        let separator = shortest_between(pairs[n - 1].0, pairs[n].0);
        let here = Bounds { high: Some(Fence::whole(separator)), ..*own }.prefix(page_bytes);
        if here == prefix {
            used += weight(pairs[n - 1], prefix);
        } else {
            // It gets shorter as the fences move apart: a few times in a leaf.
            prefix = prefix_limit(node, 0..node.count(), here);
            used = low + own_weight(node, prefix);
            used += pairs[..n].iter().map(|pair| weight(*pair, prefix)).sum::<usize>();
        }
        if used + separator.len() <= room(page_bytes) {
            best = Some(n);
        } else if used > room(page_bytes) {
            return best;
        }
    }
    None
}

/// Bytes of a pair with its slot, behind a prefix.
#[inline(always)]
fn weight((key, value): PairToFill<'_>, prefix: usize) -> usize {
    let suffix = key.len().saturating_sub(prefix);
    SLOT_BYTES + entry_bytes(suffix, false, ValueSize::Inline(value.len()))
}

/// Bytes of a node's entries with their slots, behind another prefix.
fn own_weight(node: &Node<Flat<'_>>, prefix: usize) -> usize {
    let entries = (0..node.count()).map(|pos| node.entry(pos));
    let weight = |suffix: usize, cut, value| SLOT_BYTES + entry_bytes(suffix, cut, value);
    entries
        .map(|e| weight((e.suffix + node.prefix_len()).saturating_sub(prefix), e.cut, e.value))
        .sum()
}
