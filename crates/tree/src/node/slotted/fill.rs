//! Many pairs at once: a leaf is filled up at its end, and the leaf behind it begins with the next pair.
//!
//! A split moves entries, and the left node keeps the prefix that its fences had before. Here both leaves are made of
//! pairs that are known, so the fence between them is, too, and the left one is as full as its final prefix allows.
//! Both are noted whole: the left one has little beside what is new, if it was made like that itself.

use everleaf_pmem::{Medium, Page, Result};

use super::bytes::Flat;
use super::entry::{Value, ValueSize, entry_bytes, is_cut};
use super::format::{LONG_RUN, SLOT_BYTES, inline_value_max, room};
use super::image::{Bounds, Image, prefix_limit};
use super::read::{Fence, Node, View};
use super::redo;
use super::source::Source;
use super::split::shortest_between;

/// A key and its value.
type Pair<'p> = (&'p [u8], &'p [u8]);

/// A leaf that is filled, and the one behind it, ready to be stored.
#[derive(Debug)]
pub struct Fill {
    left: Image,
    right: Image,
    separator: Vec<u8>,
    len: usize,
}

/// Whether a pair lives in its leaf.
#[inline(always)]
pub fn is_inline(key: usize, value: usize, page_bytes: usize) -> bool {
    value <= inline_value_max(page_bytes) && !is_cut(key, page_bytes)
}

impl Fill {
    /// Puts the first of some pairs behind the entries of a leaf until it is full, and one more into a new leaf. The
    /// keys ascend from above the leaf's last one to below its high fence. None if the pairs do not fill the leaf, or
    /// if one of them does not live in its leaf.
    ///
    /// # Errors
    /// Corrupt, NoMemory.
    pub fn plan(view: &View<'_>, pairs: &[Pair<'_>]) -> Result<Option<Self>> {
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
        // Who goes on pair by pair fills it from left to right.
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

    /// What is between the leaves.
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
        redo::build(m, op, right, &mut self.right);
        redo::build(m, op, left, &mut self.left);
    }
}

fn push_all(image: &mut Image, pairs: &[Pair<'_>]) -> bool {
    let prefix = image.prefix_len();
    pairs.iter().all(|(key, value)| {
        key.get(prefix..).is_some_and(|suffix| image.push(suffix, false, Value::Inline(value)))
    })
}

/// With how many of the pairs the leaf is full, if they fill it and there is one more.
fn kept_by(node: &Node<Flat<'_>>, own: &Bounds<'_>, pairs: &[Pair<'_>]) -> Option<usize> {
    let page_bytes = node.page_bytes();
    let is_inline = |(key, value): Pair<'_>| is_inline(key.len(), value.len(), page_bytes);
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
fn weight((key, value): Pair<'_>, prefix: usize) -> usize {
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
