//! A whole node in memory of its own: what a split, a merge, an evening out and a compaction write.
//!
//! An image is made before the step begins, because it takes memory. It is a function of what is in it:
//! entries lie one below the other from the page's end down, behind the fences, nothing is dead, and the
//! gap is zero. A journal that knows what is in it (all of it, or what came and went) makes the same bytes.
//!
//! The prefix is what both fences share of what the node keeps of them, up to a limit. A cut key may shorten
//! it: behind the prefix it keeps at least the six bytes for its slot.

use std::ops::Range;

use everleaf_pmem::{PageNo, Result, fallible};
use everleaf_pool::kind;

use super::entry::{
    Code, Entry, NumberBuf, Value, ValueSize, head_behind, head_of, kept_of, slot_head,
};
use super::format::{
    FENCES_WORD, HEAD_BYTES, HIGH_HEAD_WORD, HIGH_IS_LONG, LOW_IS_LONG, NO_FENCE, REFERENCE_BYTES,
    RUN_MAX, RUN_SHIFT, RUN_WORD, SIBLING_WORD, SLOT_BYTES, SLOTS_AT, fence_max, prefix_max,
};
use super::read::{Fence, FenceAt, KIND_FLAGS, View};

/// What a node is beside its entries.
#[derive(Debug, Clone, Copy)]
pub struct Bounds<'a> {
    /// The low fence, inclusive; none: -infinity.
    pub low: Option<Fence<'a>>,
    /// The high fence, exclusive; none: +infinity.
    pub high: Option<Fence<'a>>,
    /// The page to the right; 0: none.
    pub sibling: PageNo,
}

/// Bytes that two strings share at their beginning.
pub fn common(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

impl Bounds<'_> {
    /// The longest prefix of a node between these fences.
    pub(super) fn prefix(&self, page_bytes: usize) -> usize {
        match (self.low, self.high) {
            (Some(low), Some(high)) => common(low.kept, high.kept).min(prefix_max(page_bytes)),
            _ => 0,
        }
    }
}

/// A fence that owns its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OwnedFence {
    pub kept: Vec<u8>,
    pub record: Option<u64>,
}

impl OwnedFence {
    /// Copies a fence out of its page.
    pub fn read(view: &View<'_>, fence: Option<FenceAt>) -> Result<Option<Self>> {
        let Some(fence) = fence else { return Ok(None) };
        let mut kept = Vec::new();
        view.fence_into(fence, &mut kept)?;
        if kept.len() > fence_max(view.page_bytes()) {
            return Err(view.damage("a fence is too long"));
        }
        Ok(Some(Self { kept, record: fence.record }))
    }
    pub fn lend(&self) -> Fence<'_> {
        Fence { kept: &self.kept, record: self.record }
    }
}

/// A whole node in memory of its own.
#[derive(Debug)]
pub struct Image {
    /// As long as the page; the header's words are beside it.
    pub(super) bytes: Vec<u8>,
    pub(super) count: usize,
    pub(super) heap_start: usize,
    pub(super) flags: u16,
    pub(super) sibling: PageNo,
    pub(super) fences: u64,
    pub(super) high_head: u64,
    pub(super) kind: u64,
    prefix: usize,
}

impl Image {
    /// A node without entries. Its prefix is that of its bounds, but at most `limit`.
    ///
    /// # Errors
    /// NoMemory.
    pub(super) fn new(
        page_bytes: usize,
        level: u8,
        bounds: &Bounds<'_>,
        limit: usize,
    ) -> Result<Self> {
        let prefix = bounds.prefix(page_bytes).min(limit);
        let mut image = Self {
            bytes: fallible::filled(0, page_bytes, "a node")?,
            count: 0,
            heap_start: page_bytes,
            flags: 0,
            sibling: bounds.sibling,
            fences: 0,
            high_head: bounds.high.map_or(0, |high| head_behind(high.kept, prefix)),
            kind: kind::pack(kind::NODE, level, KIND_FLAGS, prefix as u32),
            prefix,
        };
        let low = image.put_fence(bounds.low, LOW_IS_LONG);
        image.fences = low | image.put_fence(bounds.high, HIGH_IS_LONG) << 32;
        Ok(image)
    }

    /// A node without entries and bounds.
    ///
    /// # Errors
    /// NoMemory.
    pub fn empty(page_bytes: usize, level: u8) -> Result<Self> {
        Self::new(page_bytes, level, &Bounds { low: None, high: None, sibling: 0 }, 0)
    }

    /// A root above two nodes.
    ///
    /// # Errors
    /// NoMemory.
    pub fn root(
        page_bytes: usize,
        level: u8,
        left: PageNo,
        separator: &[u8],
        right: Value<'_>,
    ) -> Result<Self> {
        let mut image = Self::empty(page_bytes, level)?;
        let (separator, cut) = kept_of(separator, 0, page_bytes);
        let both = image.push(&[], false, Value::Child(left)) && image.push(separator, cut, right);
        debug_assert!(both, "a page has room for two entries");
        Ok(image)
    }

    fn put_fence(&mut self, fence: Option<Fence<'_>>, long: u16) -> u64 {
        let Some(Fence { kept, record }) = fence else { return u64::from(NO_FENCE) << 16 };
        if let Some(record) = record {
            self.flags |= long;
            self.heap_start -= REFERENCE_BYTES;
            self.bytes[self.heap_start..][..REFERENCE_BYTES].copy_from_slice(&record.to_le_bytes());
        }
        self.heap_start -= kept.len();
        self.bytes[self.heap_start..][..kept.len()].copy_from_slice(kept);
        self.heap_start as u64 | (kept.len() as u64) << 16
    }

    /// Bytes that all keys of the node begin with.
    pub fn prefix_len(&self) -> usize {
        self.prefix
    }
    /// Entries.
    pub fn count(&self) -> usize {
        self.count
    }
    /// Bytes between slots and heap: nothing is dead in an image.
    pub fn gap(&self) -> usize {
        self.heap_start.saturating_sub(SLOTS_AT + SLOT_BYTES * self.count)
    }
    /// Bytes that slots, entries and fences use.
    pub fn used_bytes(&self) -> usize {
        self.bytes.len() - SLOTS_AT - self.gap()
    }

    /// Bytes of the page.
    pub(super) fn page_bytes(&self) -> usize {
        self.bytes.len()
    }
    /// Names the page to the right.
    pub(super) fn set_sibling(&mut self, sibling: PageNo) {
        self.sibling = sibling;
    }
    /// Names the record of the high fence, which is long.
    pub(super) fn set_high_record(&mut self, record: u64) {
        debug_assert!(self.flags & HIGH_IS_LONG != 0);
        self.set_record(self.fences >> 32, record);
    }
    /// Names the record of the low fence, which is long.
    pub(super) fn set_low_record(&mut self, record: u64) {
        debug_assert!(self.flags & LOW_IS_LONG != 0);
        self.set_record(self.fences, record);
    }
    fn set_record(&mut self, fence: u64, record: u64) {
        let at = usize::from(fence as u16) + usize::from((fence >> 16) as u16);
        self.bytes[at..][..REFERENCE_BYTES].copy_from_slice(&record.to_le_bytes());
    }

    /// Says how many inserts in a row were at the end.
    pub(super) fn set_run(&mut self, run: usize) {
        let long = self.flags & ((1 << RUN_SHIFT) - 1);
        self.flags = long | (run.min(RUN_MAX) as u16) << RUN_SHIFT;
    }

    /// Room for an entry of `len` bytes and its slot, which begins with `head`; none if it does not fit.
    #[inline(always)]
    fn take(&mut self, head: u64, len: usize) -> Option<&mut [u8]> {
        if len + SLOT_BYTES > self.gap() {
            return None;
        }
        let (at, slot) = (self.heap_start - len, SLOTS_AT + SLOT_BYTES * self.count);
        self.bytes[slot..slot + SLOT_BYTES].copy_from_slice(&(head | at as u64).to_le_bytes());
        self.heap_start = at;
        self.count += 1;
        Some(&mut self.bytes[at..at + len])
    }

    /// Adds an entry behind the others; false if it does not fit.
    #[inline]
    pub fn push(&mut self, suffix: &[u8], cut: bool, value: Value<'_>) -> bool {
        let code = Code::new(suffix.len(), cut, value.size());
        let rest = suffix.get(HEAD_BYTES..).unwrap_or_default();
        let len = code.bytes().len() + rest.len() + value.size().bytes();
        let Some(to) = self.take(slot_head(head_of(suffix)), len) else { return false };
        let (to_code, to) = to.split_at_mut(code.bytes().len());
        to_code.copy_from_slice(code.bytes());
        let (to_rest, to) = to.split_at_mut(rest.len());
        to_rest.copy_from_slice(rest);
        to.copy_from_slice(value.bytes(&mut NumberBuf::default()));
        true
    }

    /// Adds entries of a node behind the others; false if they do not fit.
    ///
    /// # Errors
    /// Corrupt, NoMemory.
    pub(super) fn copy(&mut self, view: &View<'_>, range: Range<usize>) -> Result<bool> {
        if self.prefix != view.prefix_len() {
            return self.copy_anew(view, range);
        }
        for pos in range {
            let slot = view.slot(pos);
            let entry = view.entry_of(slot);
            let Some(to) = self.take(slot_head(slot), entry.bytes()) else { return Ok(false) };
            if !view.page().copy_out(entry.at, to) {
                return Err(view.damage("an entry is outside"));
            }
        }
        Ok(true)
    }

    /// As [`copy`](Self::copy), from a node with another prefix.
    fn copy_anew(&mut self, view: &View<'_>, range: Range<usize>) -> Result<bool> {
        let (mut suffixes, mut bytes) = (Suffixes::of(view, self.prefix)?, Vec::new());
        let (more, fewer) = (suffixes.more, suffixes.fewer);
        // Key and value of a short entry: what its suffix gets in front, its bytes in the slot, the rest.
        let mut short = [0; SHORT_BYTES];
        let has_room = more + 2 * HEAD_BYTES < SHORT_BYTES;
        if has_room {
            short[..more].copy_from_slice(&suffixes.bytes[..more]);
        }
        for pos in range {
            let slot = view.slot(pos);
            let entry = view.entry_of(slot);
            let (head, tail) = (entry.suffix.min(HEAD_BYTES), entry.end() - entry.rest_at);
            let (rest_at, end) = (more + head, more + head + tail);
            if !has_room || end > SHORT_BYTES || entry.cut || more + entry.suffix < fewer {
                let (entry, suffix) = suffixes.at(view, pos)?;
                if !self.push(suffix, entry.cut, view.value_of(&entry, &mut bytes)?) {
                    return Ok(false);
                }
                continue;
            }
            short[more..more + SLOT_BYTES].copy_from_slice(&slot.to_be_bytes());
            if !view.page().copy_out(entry.rest_at, &mut short[rest_at..end]) {
                return Err(view.damage("an entry is outside"));
            }
            if !self.push_short(&short[fewer..end], more + entry.suffix - fewer, entry.value) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Adds an entry whose suffix of `suffix` bytes and whose value lie one behind the other.
    #[inline(always)]
    fn push_short(&mut self, bytes: &[u8], suffix: usize, value: ValueSize) -> bool {
        let code = Code::new(suffix, false, value);
        let (code, tail) = (code.bytes(), &bytes[suffix.min(HEAD_BYTES)..]);
        let head = slot_head(head_of(&bytes[..suffix]));
        let Some(to) = self.take(head, code.len() + tail.len()) else { return false };
        let (to_code, to_tail) = to.split_at_mut(code.len());
        to_code.copy_from_slice(code);
        to_tail.copy_from_slice(tail);
        true
    }
}

/// Entries with no more bytes are copied without the heap.
const SHORT_BYTES: usize = 192;

/// Reads suffixes of a node's keys as they are behind another prefix.
pub(super) struct Suffixes {
    /// What the node's prefix has more than the other one, and behind it the suffix.
    bytes: Vec<u8>,
    /// How many bytes are that.
    more: usize,
    /// What the other prefix has more.
    fewer: usize,
}

impl Suffixes {
    pub fn of(view: &View<'_>, prefix: usize) -> Result<Self> {
        let own = view.prefix_len();
        let (more, fewer) = (own.saturating_sub(prefix), prefix.saturating_sub(own));
        let mut bytes = Vec::new();
        if more > 0 {
            view.append(view.prefix_at() + prefix, more, &mut bytes)?;
        }
        Ok(Self { bytes, more, fewer })
    }

    /// The entry at a position and its suffix behind the other prefix.
    pub fn at(&mut self, view: &View<'_>, pos: usize) -> Result<(Entry, &[u8])> {
        let slot = view.slot(pos);
        let entry = view.entry_of(slot);
        self.bytes.truncate(self.more);
        view.suffix_onto(slot, &entry, &mut self.bytes)?;
        match self.bytes.get(self.fewer..) {
            Some(suffix) if !entry.cut || suffix.len() >= HEAD_BYTES => Ok((entry, suffix)),
            _ => Err(view.damage("a key is shorter than what its node begins with")),
        }
    }
}

/// The longest prefix that cut keys among some entries of a node allow, if it is below `prefix`.
pub(super) fn prefix_limit(view: &View<'_>, range: Range<usize>, prefix: usize) -> usize {
    let own = view.prefix_len();
    if prefix <= own {
        return prefix;
    }
    range.map(|pos| view.entry(pos)).filter(|entry| entry.cut).fold(prefix, |prefix, entry| {
        prefix.min((own + entry.suffix).saturating_sub(HEAD_BYTES).max(own))
    })
}

impl View<'_> {
    /// This node with other bounds and some of its entries; none if they do not fit.
    pub(super) fn remade(&self, bounds: &Bounds<'_>, range: Range<usize>) -> Result<Option<Image>> {
        let limit = prefix_limit(self, range.clone(), bounds.prefix(self.page_bytes()));
        let mut image = Image::new(self.page_bytes(), self.level(), bounds, limit)?;
        Ok(image.copy(self, range)?.then_some(image))
    }

    /// Calls `make` with this node's bounds.
    fn with_bounds<T>(&self, make: impl FnOnce(Bounds<'_>) -> Result<T>) -> Result<T> {
        let low = OwnedFence::read(self, self.low())?;
        let high = OwnedFence::read(self, self.high())?;
        make(Bounds {
            low: low.as_ref().map(OwnedFence::lend),
            high: high.as_ref().map(OwnedFence::lend),
            sibling: self.sibling().unwrap_or(0),
        })
    }

    /// The first `keep` entries of this node, below another high fence.
    pub(super) fn trimmed_back(
        &self,
        keep: usize,
        sibling: PageNo,
        high: Fence<'_>,
    ) -> Result<Option<Image>> {
        self.with_bounds(|own| self.remade(&Bounds { high: Some(high), sibling, ..own }, 0..keep))
    }

    /// The entries of this node from `first` on, above another low fence.
    pub(super) fn trimmed_front(&self, first: usize, low: Fence<'_>) -> Result<Option<Image>> {
        self.with_bounds(|own| self.remade(&Bounds { low: Some(low), ..own }, first..self.count()))
    }

    /// The prefix of this node with a fence farther away.
    pub(super) fn prefix_of_extended(&self, back: bool, fence: Fence<'_>) -> Result<usize> {
        self.with_bounds(|own| {
            let bounds = match back {
                true => Bounds { high: Some(fence), ..own },
                false => Bounds { low: Some(fence), ..own },
            };
            Ok(prefix_limit(self, 0..self.count(), bounds.prefix(self.page_bytes())))
        })
    }

    /// This node with entries of a neighbour, which `add` adds, and the fence beyond them: behind its own
    /// entries or before them. None if they do not fit, or if `add` says no.
    pub(super) fn extended(
        &self,
        back: bool,
        fence: Fence<'_>,
        add: impl FnOnce(&mut Image) -> Result<bool>,
    ) -> Result<Option<Image>> {
        self.with_bounds(|own| {
            let bounds = match back {
                true => Bounds { high: Some(fence), ..own },
                false => Bounds { low: Some(fence), ..own },
            };
            let all = 0..self.count();
            let limit = prefix_limit(self, all.clone(), bounds.prefix(self.page_bytes()));
            let mut image = Image::new(self.page_bytes(), self.level(), &bounds, limit)?;
            let fits = match back {
                true => image.copy(self, all)? && add(&mut image)?,
                false => add(&mut image)? && image.copy(self, all)?,
            };
            Ok(fits.then_some(image))
        })
    }
}

impl Image {
    /// A node whose words and bytes are known.
    pub(super) fn of_words(
        bytes: Vec<u8>,
        (count, heap_start, flags): (usize, usize, u16),
        (sibling, fences): (PageNo, u64),
        (high_head, kind): (u64, u64),
    ) -> Self {
        let prefix = kind::prefix_of(kind) as usize;
        Self { bytes, count, heap_start, flags, sibling, fences, high_head, kind, prefix }
    }

    /// The header's words, by their numbers.
    pub(super) fn words(&self) -> [(usize, u64); 4] {
        let run = self.count as u64 | (self.heap_start as u64) << 16 | u64::from(self.flags) << 48;
        [
            (RUN_WORD, run),
            (SIBLING_WORD, u64::from(self.sibling)),
            (FENCES_WORD, self.fences),
            (HIGH_HEAD_WORD, self.high_head),
        ]
    }
}
