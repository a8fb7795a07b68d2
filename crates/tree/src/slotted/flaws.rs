//! Whether a page can be a node: looked at once, when it comes from a file.
//!
//! After this everything that the header and the slots name lies in the page and apart from all else, and
//! keys ascend between the fences as far as the node knows them. Code that changes the node can rely on that.

use std::cmp::Ordering;
use std::ops::Range;

use everleaf_pmem::Page;
use everleaf_pool::kind::KIND_WORD;

use crate::slotted::entry::Code;
use crate::slotted::view::{
    Bytes, CHILD_BYTES, Entry, FENCES_WORD, FenceAt, Flat, HEAD_BYTES, HIGH_HEAD_WORD,
    HIGH_IS_LONG, KEPT_BYTES, LONG_CHILD_BYTES, LOW_IS_LONG, NO_FENCE, Node, PAGE_BYTES_MAX,
    PAGE_BYTES_MIN, RUN_SHIFT, RUN_WORD, SIBLING_WORD, SLOT_BYTES, SLOTS_AT, SPARE_WORD, ValueSize,
    View, fence_max, inline_value_max, padded, prefix_max, slot_head, slots_max, whole_key_max,
};

/// Whether an entry with this suffix (its length, and whether it is cut) and value can be in a node with
/// that prefix.
pub(super) fn entry_fits<B: Bytes>(
    view: &Node<B>,
    prefix: usize,
    (suffix, cut): (usize, bool),
    value: ValueSize,
) -> bool {
    let page_bytes = view.page_bytes();
    let key = match cut {
        true => HEAD_BYTES <= suffix && prefix + suffix <= prefix_max(page_bytes) + KEPT_BYTES,
        false => prefix + suffix <= whole_key_max(page_bytes),
    };
    let value = match value {
        ValueSize::Inline(bytes) if view.is_leaf() => !cut && bytes <= inline_value_max(page_bytes),
        ValueSize::Inline(bytes) => bytes == if cut { LONG_CHILD_BYTES } else { CHILD_BYTES },
        ValueSize::Reference => view.is_leaf(),
    };
    key && value
}

/// Whether a fence lies in the heap.
fn fence_fits<B: Bytes>(view: &Node<B>, fence: Option<FenceAt>) -> bool {
    let (most, prefix) = (fence_max(view.page_bytes()), view.prefix_len());
    match fence {
        Some(fence) => {
            view.heap_start() <= fence.at
                && fence.at + fence.bytes() <= view.page_bytes()
                && fence.kept <= most
                && (fence.record.is_none() || fence.kept == most)
                && prefix <= fence.kept
        }
        None => prefix == 0,
    }
}

/// Whether the header names no place outside the page and its parts are apart: what a change of a node
/// relies on. O(1).
pub(super) fn bounds_fit<B: Bytes>(view: &Node<B>) -> bool {
    let page_bytes = view.page_bytes();
    (PAGE_BYTES_MIN..=PAGE_BYTES_MAX).contains(&page_bytes)
        && view.count() <= slots_max(page_bytes)
        && SLOTS_AT + SLOT_BYTES * view.count() <= view.heap_start()
        && view.heap_start() + view.dead_bytes() <= page_bytes
        && fence_fits(view, view.low())
        && fence_fits(view, view.high())
}

/// Where the gap is in the bytes of a node's page. It is empty if the header is none of a slotted node, so
/// that nothing of a damaged page is lost. O(1).
pub fn gap_of(bytes: &[u8]) -> Range<usize> {
    if !(PAGE_BYTES_MIN..=PAGE_BYTES_MAX).contains(&bytes.len()) {
        return 0..0;
    }
    let node = Node::new(Flat::new(bytes, 0, 0));
    let is_one = node.says_so() && bounds_fit(&node);
    if is_one { node.slots_end()..node.heap_start() } else { 0..0 }
}

/// The node on a page whose header fits it; of its entries nothing is known. O(1).
///
/// # Errors
/// Corrupt, if there is none.
pub fn check_header(page: Page<'_>) -> everleaf_pmem::Result<View<'_>> {
    let view = View::of(page).filter(bounds_fit);
    view.ok_or_else(|| everleaf_pool::damaged(page, 0, "its header is none of a slotted node"))
}

/// Whether there is an entry at a position: it lies in the heap, and can be in this node.
pub fn is_entry(view: &View<'_>, pos: usize) -> bool {
    let entry = view.entry(pos);
    pos < view.count()
        && view.heap_start() <= entry.at
        && entry.end() <= view.page_bytes()
        && entry_fits(view, view.prefix_len(), (entry.suffix, entry.cut), entry.value)
}

/// A key or a fence behind the prefix, as the node keeps it.
struct Kept {
    /// The first six bytes, where they are in a slot.
    head: u64,
    len: usize,
    /// Whether the whole is longer.
    cut: bool,
    /// Where it goes on behind the head.
    rest_at: usize,
}

impl Kept {
    fn of_entry(slot: u64, entry: &Entry) -> Self {
        let Entry { suffix, cut, rest_at, .. } = *entry;
        Self { head: slot_head(slot), len: suffix, cut, rest_at }
    }

    fn of_fence<B: Bytes>(view: &Node<B>, fence: FenceAt) -> Self {
        let (at, len) = (fence.at + view.prefix_len(), fence.kept - view.prefix_len());
        let head = slot_head(padded(view.bytes(), at, len));
        Self { head, len, cut: fence.record.is_some(), rest_at: at + HEAD_BYTES }
    }

    /// The order of two; none if the node does not know it.
    fn order<B: Bytes>(&self, other: &Self, page: B) -> Option<Ordering> {
        let (a, b) = (self, other);
        let known = a.len.min(b.len);
        let heads = a.head.cmp(&b.head);
        if heads != Ordering::Equal {
            return Some(heads);
        }
        let rest = known.saturating_sub(HEAD_BYTES);
        let mut rests = (0..rest).step_by(8).map(|at| {
            let word = |kept: &Self| padded(page, kept.rest_at + at, rest - at);
            word(a).cmp(&word(b))
        });
        let bytes = rests.find(|order| order.is_ne()).unwrap_or(Ordering::Equal);
        let lengths = a.len.cmp(&b.len);
        match (bytes, lengths) {
            (Ordering::Equal, Ordering::Less) => (!a.cut).then_some(Ordering::Less),
            (Ordering::Equal, Ordering::Greater) => (!b.cut).then_some(Ordering::Greater),
            (Ordering::Equal, Ordering::Equal) if a.cut && b.cut => None,
            (Ordering::Equal, Ordering::Equal) => Some(a.cut.cmp(&b.cut)),
            (order, _) => Some(order),
        }
    }
}

/// Which bytes of a page are something's.
struct Taken([u64; PAGE_BYTES_MAX / 64]);

impl Taken {
    /// Takes bytes of the page; false if one of them was taken before, or if they are outside.
    fn take(&mut self, at: usize, end: usize) -> bool {
        let mut is_free = end <= PAGE_BYTES_MAX;
        let mut from = at;
        while is_free && from < end {
            let n = (64 - from % 64).min(end - from);
            let bits = (u64::MAX >> (64 - n)) << (from % 64);
            let word = &mut self.0[from / 64];
            is_free = *word & bits == 0;
            *word |= bits;
            from += n;
        }
        is_free
    }
}

/// The findings of a check of a node so far.
struct Walk<'v, B> {
    view: &'v Node<B>,
    taken: Taken,
    bytes: usize,
    low: Option<FenceAt>,
    high: Option<FenceAt>,
    /// The high fence as a key.
    to: Option<Kept>,
    /// The strongest of what the next key is above: at first the low fence, then the key before it, or one
    /// before that of which the node knows more.
    above: Option<Kept>,
}

/// Whether no shorter code says the same.
fn is_shortest<B: Bytes>(page: B, entry: &Entry) -> bool {
    entry.code_bytes() == 1 || {
        let code = Code::new(entry.suffix, entry.cut, entry.value);
        page.cmp_bytes(entry.at, entry.code_bytes(), code.bytes()).is_eq()
    }
}

/// Where a node is wrong, and why.
type Flaw = (usize, &'static str);

impl<B: Bytes> Walk<'_, B> {
    fn take(&mut self, at: usize, end: usize) -> Result<(), Flaw> {
        self.bytes += end - at;
        if self.taken.take(at, end) { Ok(()) } else { Err((at, "bytes have two owners")) }
    }

    fn header(&self) -> Result<(), Flaw> {
        let (view, page) = (self.view, self.view.bytes());
        let byte = |word: usize| 8 * word;
        if page.load_le(byte(SPARE_WORD)) != 0 || page.load_le(byte(SIBLING_WORD)) >> 32 != 0 {
            return Err((byte(SIBLING_WORD), "its header has bytes that mean nothing"));
        }
        if view.sibling().is_some() != self.high.is_some() {
            return Err((byte(SIBLING_WORD), "it has a sibling or a high fence alone"));
        }
        let place = |fence: u64| fence >> 16 & 0xffff != u64::from(NO_FENCE) || fence & 0xffff == 0;
        let fences = page.load_le(byte(FENCES_WORD));
        if !place(fences) || !place(fences >> 32) {
            return Err((byte(FENCES_WORD), "a fence that there is not has a place"));
        }
        let has = |fence: Option<FenceAt>, flag| if fence.is_some() { flag } else { 0 };
        let known = has(self.low, LOW_IS_LONG) | has(self.high, HIGH_IS_LONG);
        if view.flags() & ((1 << RUN_SHIFT) - 1) & !known != 0 {
            return Err((byte(RUN_WORD), "it has flags that mean nothing"));
        }
        let mut head = 0;
        if let Some(high) = self.high {
            let behind = view.prefix_len();
            head = padded(page, high.at + behind, high.kept - behind);
        }
        if page.load_le(byte(HIGH_HEAD_WORD)) != head {
            return Err((byte(HIGH_HEAD_WORD), "the head of its high fence is another"));
        }
        Ok(())
    }

    fn fences(&mut self) -> Result<(), Flaw> {
        let (view, page) = (self.view, self.view.bytes());
        for fence in [self.low, self.high].into_iter().flatten() {
            self.take(fence.at, fence.at + fence.bytes())?;
        }
        self.above = self.low.map(|low| Kept::of_fence(view, low));
        self.to = self.high.map(|high| Kept::of_fence(view, high));
        let (Some(low), Some(high)) = (self.low, self.high) else { return Ok(()) };
        let shared = (0..view.prefix_len()).step_by(8).all(|at| {
            let word = |fence: FenceAt| padded(page, fence.at + at, view.prefix_len() - at);
            word(low) == word(high)
        });
        if !shared {
            return Err((low.at, "its fences do not begin with its prefix"));
        }
        let order = self.above.as_ref().zip(self.to.as_ref());
        if order.and_then(|(from, to)| from.order(to, page)).is_some_and(Ordering::is_ge) {
            return Err((low.at, "it ends where it begins, or before"));
        }
        Ok(())
    }

    fn entry(&mut self, pos: usize) -> Result<(), Flaw> {
        let (view, page) = (self.view, self.view.bytes());
        let slot = view.slot(pos);
        let entry = view.entry_of(slot);
        let at = SLOTS_AT + SLOT_BYTES * pos;
        if entry.at < view.heap_start() || entry.end() > view.page_bytes() {
            return Err((at, "an entry is outside the heap"));
        }
        if !is_shortest(page, &entry)
            || !entry_fits(view, view.prefix_len(), (entry.suffix, entry.cut), entry.value)
        {
            return Err((entry.at, "an entry is none that this node can have"));
        }
        self.take(entry.at, entry.end())?;
        let kept = Kept::of_entry(slot, &entry);
        if entry.suffix < HEAD_BYTES && kept.head << (8 * entry.suffix) != 0 {
            return Err((at, "a slot has bytes that its key has not"));
        }
        self.order(pos, &kept).map_err(|what| (at, what))?;
        // A cut key whose order to the last one is unknown begins like it. If less of it is kept, the keys
        // behind it still have to be above what is known of the last one.
        let knows_less = |above: &Kept| kept.len < above.len && kept.order(above, page).is_none();
        if !self.above.as_ref().is_some_and(knows_less) {
            self.above = Some(kept);
        }
        Ok(())
    }

    /// Looks whether a key is in its place.
    fn order(&self, pos: usize, key: &Kept) -> Result<(), &'static str> {
        let (view, page) = (self.view, self.view.bytes());
        let to_low = match &self.above {
            Some(above) => key.order(above, page),
            None => Some(key.len.cmp(&0)),
        };
        let is_right = match to_low {
            Some(Ordering::Less) => false,
            Some(Ordering::Equal) => pos == 0,
            Some(Ordering::Greater) => pos > 0 || view.is_leaf(),
            None => true,
        };
        if !is_right {
            return Err(if pos > 0 {
                "its keys do not ascend"
            } else {
                "a key is below its fence"
            });
        }
        if self.to.as_ref().and_then(|high| key.order(high, page)).is_some_and(Ordering::is_ge) {
            return Err("a key is not below the high fence");
        }
        Ok(())
    }
}

/// Where a node is wrong, and why; none if it is sound as far as it knows its keys.
pub fn flaw<B: Bytes>(view: &Node<B>) -> Option<(usize, &'static str)> {
    look(view).err()
}

fn look<B: Bytes>(view: &Node<B>) -> Result<(), Flaw> {
    if !bounds_fit(view) {
        return Err((0, "its header does not fit it"));
    }
    let (low, high) = (view.low(), view.high());
    let taken = Taken([0; PAGE_BYTES_MAX / 64]);
    let mut walk = Walk { view, taken, bytes: 0, low, high, to: None, above: None };
    walk.header()?;
    walk.fences()?;
    for pos in 0..view.count() {
        walk.entry(pos)?;
    }
    if view.count() == 0 && !view.is_leaf() {
        return Err((0, "it is an inner node without a child"));
    }
    if walk.bytes + view.dead_bytes() != view.page_bytes() - view.heap_start() {
        return Err((0, "it counts its dead bytes wrongly"));
    }
    Ok(())
}

/// Checks a node's page.
///
/// # Errors
/// Corrupt, if it cannot be one.
pub fn check_page(page: Page<'_>) -> everleaf_pmem::Result<()> {
    match View::of(page).map(|view| flaw(&view)) {
        Some(None) => Ok(()),
        Some(Some((at, what))) => Err(everleaf_pool::damaged(page, at, what)),
        None => Err(everleaf_pool::damaged(page, 8 * KIND_WORD, "it is no slotted node")),
    }
}
