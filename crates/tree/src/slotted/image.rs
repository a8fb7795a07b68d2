//! A whole node in memory of its own: what a split, a merge, an evening out and a compaction write.
//!
//! An image is made before the step begins, because it takes memory. It is a function of what is in it:
//! entries lie one below the other from the page's end down, behind the fences, nothing is dead, and the
//! gap is zero. A journal that knows what is in it (all of it, or what came and went) makes the same bytes.
//!
//! The prefix is what both fences share of what the node keeps of them, up to a limit. A cut key may shorten
//! it: behind the prefix it keeps at least the six bytes for its slot.
//!
//! A heap in the making: entries one below the other from the page's end down, and their slots.
//!
//! Code that makes a node anew spends its time here. So an entry that goes from one place to another
//! as it is costs the length of its code, looked up, and one copy of a fixed number of bytes that ends where
//! the entry ends. The bytes that such a copy brings along lie below the entry, where the next one comes.
//!
//! A node as it is, in memory, from which another one is made: plain memory is read faster than a page that
//! others may change.

use std::ops::Range;

use everleaf_pmem::{PageNo, Result, fallible};
use everleaf_pool::kind;

use crate::slotted::entry::{Code, kept_of};
use crate::slotted::view::{
    Entry, FENCES_WORD, Fence, FenceAt, Flat, HEAD_BYTES, HIGH_HEAD_WORD, HIGH_IS_LONG, KIND_FLAGS,
    LOW_IS_LONG, NO_FENCE, Node, NumberBuf, REFERENCE_BYTES, RUN_MAX, RUN_SHIFT, RUN_WORD,
    SIBLING_WORD, SLOT_BYTES, SLOTS_AT, Value, View, fence_max, head_behind, head_of, padded,
    prefix_max, short_len, slot_head,
};

/// The parts of a node beside its entries.
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

/// So many zeros. A processor sets some hundred at once as fast as it sets many.
fn zeros(n: usize) -> Result<Vec<u8>> {
    const SOME: usize = 512;
    let mut zeros = fallible::list(n, "a node")?;
    while zeros.len() < n {
        zeros.extend_from_slice(&[0; SOME][..SOME.min(n - zeros.len())]);
    }
    Ok(zeros)
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
            bytes: zeros(page_bytes)?,
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

    /// Calls `fill` with the heap and the slots that are still to come.
    #[inline(always)]
    fn pack<T>(&mut self, fill: impl FnOnce(&mut Pack<'_>) -> T) -> T {
        let mut pack = Pack::new(&mut self.bytes, self.count, self.heap_start);
        let out = fill(&mut pack);
        (self.count, self.heap_start) = pack.end();
        out
    }

    /// Adds an entry behind the others; false if it does not fit.
    pub fn push(&mut self, suffix: &[u8], cut: bool, value: Value<'_>) -> bool {
        self.pack(|pack| pack.push(suffix, cut, value))
    }

    /// Adds entries of a node behind the others; false if they do not fit.
    ///
    /// # Errors
    /// Corrupt, NoMemory.
    pub(super) fn copy(&mut self, node: &Node<Flat<'_>>, range: Range<usize>) -> Result<bool> {
        let prefix = self.prefix;
        self.pack(|pack| {
            if prefix == node.prefix_len() {
                return Ok(pack.copy(node.bytes().bytes, range));
            }
            let mut suffixes = Suffixes::of(node, prefix)?;
            for pos in range {
                if !suffixes.copy(node, pos, pack)? {
                    return Ok(false);
                }
            }
            pack.tidy();
            Ok(true)
        })
    }
}

/// Suffixes of a node's keys as they are behind another prefix.
struct Suffixes {
    /// The bytes by which the node's prefix is longer than the other one, and behind them a suffix.
    bytes: Vec<u8>,
    /// How many bytes longer it is, and those bytes as the first ones of a big-endian number.
    more: usize,
    more_head: u64,
    /// How many bytes longer the other prefix is.
    fewer: usize,
    /// Whether both are less than what a slot has of a suffix.
    is_near: bool,
}

/// Bytes of a suffix whose length is in its code, and that are two numbers: those in the slot, and up to 8.
const SHORT_SUFFIX: usize = 13;
const _: () = assert!(SHORT_SUFFIX <= HEAD_BYTES + 8);

impl Suffixes {
    fn of(node: &Node<Flat<'_>>, prefix: usize) -> Result<Self> {
        let own = node.prefix_len();
        let (more, fewer) = (own.saturating_sub(prefix), prefix.saturating_sub(own));
        let mut bytes = Vec::new();
        if more > 0 {
            node.append(node.prefix_at() + prefix, more, &mut bytes)?;
        }
        let more_head = head_of(&bytes[..more.min(HEAD_BYTES)]);
        let is_near = more.max(fewer) < HEAD_BYTES;
        Ok(Self { bytes, more, more_head, fewer, is_near })
    }

    /// Adds the entry at a position of the node; false if it does not fit.
    #[inline(always)]
    fn copy(&mut self, node: &Node<Flat<'_>>, pos: usize, to: &mut Pack<'_>) -> Result<bool> {
        let slot = node.slot(pos);
        let entry = node.entry_of(slot);
        let suffix = entry.suffix + self.more;
        if self.is_near && !entry.cut && (self.fewer..=SHORT_SUFFIX).contains(&suffix) {
            let rest = padded(node.bytes(), entry.rest_at, entry.rest());
            let (head, rest) = self.moved(slot_head(slot), rest);
            if let Some(Value::Inline(value)) = node.value_of(&entry)
                && to.push_short((head, rest, suffix - self.fewer), value)
            {
                return Ok(true);
            }
        }
        self.copy_long(node, slot, &entry, to)
    }

    /// A short suffix behind the other prefix: its bytes in the slot, and those that follow.
    #[inline(always)]
    fn moved(&self, head: u64, rest: u64) -> (u64, u64) {
        let (more, fewer) = (8 * self.more, 8 * self.fewer);
        if more > 0 {
            // The bytes that the slot has no room for come before the rest.
            let out = head >> 16 << (64 - more);
            (slot_head(self.more_head | head >> more), out | rest >> more)
        } else {
            (slot_head(head << fewer | rest >> (HEAD_BITS - fewer)), rest << fewer)
        }
    }

    #[inline(never)]
    fn copy_long(
        &mut self,
        node: &Node<Flat<'_>>,
        slot: u64,
        entry: &Entry,
        to: &mut Pack<'_>,
    ) -> Result<bool> {
        let Some(value) = node.value_of(entry) else {
            return Err(node.damage("an entry is outside"));
        };
        self.bytes.truncate(self.more);
        node.suffix_onto(slot, entry, &mut self.bytes)?;
        match self.bytes.get(self.fewer..) {
            Some(suffix) if !entry.cut || suffix.len() >= HEAD_BYTES => {
                Ok(to.push(suffix, entry.cut, value))
            }
            _ => Err(node.damage(TOO_SHORT)),
        }
    }
}

/// Bits of a suffix that are in its slot.
const HEAD_BITS: usize = 8 * HEAD_BYTES;
const TOO_SHORT: &str = "a key is shorter than what its node begins with";

/// The longest prefix that cut keys among some entries of a node allow, if it is below `prefix`.
pub(super) fn prefix_limit(node: &Node<Flat<'_>>, range: Range<usize>, prefix: usize) -> usize {
    let own = node.prefix_len();
    if prefix <= own {
        return prefix;
    }
    let cut = range.filter(|pos| node.may_be_cut(*pos)).map(|pos| node.entry(pos));
    cut.filter(|entry| entry.cut).fold(prefix, |prefix, entry| {
        prefix.min((own + entry.suffix).saturating_sub(HEAD_BYTES).max(own))
    })
}

impl<'a> Node<Flat<'a>> {
    /// This node with other bounds and some of its entries; none if they do not fit.
    pub(super) fn remade(&self, bounds: &Bounds<'_>, range: Range<usize>) -> Result<Option<Image>> {
        let limit = prefix_limit(self, range.clone(), bounds.prefix(self.page_bytes()));
        let mut image = Image::new(self.page_bytes(), self.level(), bounds, limit)?;
        Ok(image.copy(self, range)?.then_some(image))
    }

    /// Between which fences this node is, and its sibling.
    pub(super) fn bounds(&self) -> Result<Bounds<'a>> {
        let fence = |fence: Option<FenceAt>| match fence {
            None => Ok(None),
            Some(FenceAt { at, kept, record }) => match self.bytes().get(at, kept) {
                Some(kept) if kept.len() <= fence_max(self.page_bytes()) => {
                    Ok(Some(Fence { kept, record }))
                }
                _ => Err(self.damage("a fence is none that it can have")),
            },
        };
        let (low, high) = (fence(self.low())?, fence(self.high())?);
        Ok(Bounds { low, high, sibling: self.sibling().unwrap_or(0) })
    }

    /// The first `keep` entries of this node, below another high fence.
    pub(super) fn trimmed_back(
        &self,
        keep: usize,
        sibling: PageNo,
        high: Fence<'_>,
    ) -> Result<Option<Image>> {
        self.remade(&Bounds { high: Some(high), sibling, ..self.bounds()? }, 0..keep)
    }

    /// The entries of this node from `first` on, above another low fence.
    pub(super) fn trimmed_front(&self, first: usize, low: Fence<'_>) -> Result<Option<Image>> {
        self.remade(&Bounds { low: Some(low), ..self.bounds()? }, first..self.count())
    }

    /// This node with entries of a neighbour, which `add` adds, and the fence beyond them: behind its own
    /// entries or before them. None if they do not fit, or if `add` says no.
    pub(super) fn extended(
        &self,
        back: bool,
        fence: Fence<'_>,
        add: impl FnOnce(&mut Image) -> Result<bool>,
    ) -> Result<Option<Image>> {
        let own = self.bounds()?;
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

/// Bytes of a short copy.
const SHORT: usize = 16;

/// Bytes of the entry at `at`. They may not all be there.
#[inline(always)]
fn entry_len(bytes: &[u8], at: usize) -> Option<usize> {
    match short_len(*bytes.get(at)?) {
        0 => Some(long_len(&bytes[at..])),
        len => Some(len),
    }
}

#[inline(never)]
fn long_len(bytes: &[u8]) -> usize {
    let mut word = [0; 8];
    let n = bytes.len().min(8);
    word[..n].copy_from_slice(&bytes[..n]);
    Entry::parse(0, u64::from_le_bytes(word)).end()
}

/// A page in the making.
pub(super) struct Pack<'b> {
    bytes: &'b mut [u8],
    count: usize,
    start: usize,
}

impl<'b> Pack<'b> {
    /// Goes on behind `count` slots and below `start`; what is between is zero.
    pub fn new(bytes: &'b mut [u8], count: usize, start: usize) -> Self {
        Self { bytes, count, start }
    }
    /// How many slots there are, and where the heap starts.
    pub fn end(self) -> (usize, usize) {
        (self.count, self.start)
    }

    /// Room for an entry of `len` bytes, whose slot begins with `head`; none if it does not fit.
    #[inline(always)]
    pub fn take(&mut self, head: u64, len: usize) -> Option<&mut [u8]> {
        let slot = SLOTS_AT + SLOT_BYTES * self.count;
        if slot + SLOT_BYTES + len > self.start {
            return None;
        }
        self.start -= len;
        self.count += 1;
        let word = (head | self.start as u64).to_le_bytes();
        self.bytes[slot..slot + SLOT_BYTES].copy_from_slice(&word);
        Some(&mut self.bytes[self.start..self.start + len])
    }

    /// Adds bytes that have no slot; answers where they are, if they fit.
    pub fn put(&mut self, bytes: &[u8]) -> Option<usize> {
        let slots_end = SLOTS_AT + SLOT_BYTES * self.count;
        let at = self.start.checked_sub(bytes.len()).filter(|at| *at >= slots_end)?;
        self.bytes[at..self.start].copy_from_slice(bytes);
        self.start = at;
        Some(at)
    }

    /// Adds entries of another page as they are. False if they do not fit, or if they are none.
    pub fn copy(&mut self, from: &[u8], range: Range<usize>) -> bool {
        let slots = from.get(SLOTS_AT..).unwrap_or_default().as_chunks::<SLOT_BYTES>().0;
        let Some(slots) = slots.get(range) else { return false };
        let first = SLOTS_AT + SLOT_BYTES * self.count;
        let heap_at = first + SLOT_BYTES * slots.len();
        let Some(mut left) = self.start.checked_sub(heap_at) else { return false };
        // The heap begins where the new slots will end: no entry can go where a slot is to be.
        let (to_slots, heap) = self.bytes.split_at_mut(heap_at);
        let to_slots = to_slots[first..].as_chunks_mut::<SLOT_BYTES>().0;
        for (to_slot, slot) in to_slots.iter_mut().zip(slots) {
            let slot = u64::from_le_bytes(*slot);
            let at = slot as usize & 0xffff;
            let Some(len) = entry_len(from, at) else { return false };
            if at + len > from.len() || len > left {
                return false;
            }
            let (source, target) = (&from[..at + len], &mut heap[..left]);
            if let (Some(source), true) = (source.last_chunk::<SHORT>(), len <= SHORT)
                && let Some(target) = target.last_chunk_mut::<SHORT>()
            {
                *target = *source;
            } else {
                target[left - len..].copy_from_slice(&source[at..]);
            }
            left -= len;
            *to_slot = (slot & !0xffff | (heap_at + left) as u64).to_le_bytes();
        }
        // Clears the bytes that came along below the last one.
        heap[left.saturating_sub(SHORT)..left].fill(0);
        (self.count, self.start) = (self.count + slots.len(), heap_at + left);
        true
    }
}

impl Pack<'_> {
    /// Adds an entry; false if it does not fit.
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

    /// As [`push`](Self::push), of a whole key: its head as the slot has it, what follows as the first bytes of
    /// a big-endian number, and how many bytes that are. False also if the entry is long, or if few bytes are
    /// left: then nothing is done. The caller calls [`tidy`](Self::tidy) at the end.
    #[inline(always)]
    pub fn push_short(&mut self, (head, rest, suffix): (u64, u64, usize), value: &[u8]) -> bool {
        let rest_len = suffix.saturating_sub(HEAD_BYTES);
        let len = 1 + rest_len + value.len();
        let slot = SLOTS_AT + SLOT_BYTES * self.count;
        if len > SHORT || value.len() > 8 || slot + SLOT_BYTES + SHORT > self.start {
            return false;
        }
        let code = suffix as u64 | (value.len() as u64) << 4;
        let value = u128::from(head_of(value).swap_bytes());
        let entry =
            u128::from(code) | u128::from(rest.swap_bytes()) << 8 | value << (8 * (1 + rest_len));
        let to = &mut self.bytes[self.start - SHORT..self.start];
        to.copy_from_slice(&(entry << (8 * (SHORT - len))).to_le_bytes());
        self.start -= len;
        self.count += 1;
        let word = (head | self.start as u64).to_le_bytes();
        self.bytes[slot..slot + SLOT_BYTES].copy_from_slice(&word);
        true
    }

    /// Makes zero again what short copies brought along below the last entry.
    pub fn tidy(&mut self) {
        let slots_end = SLOTS_AT + SLOT_BYTES * self.count;
        self.bytes[self.start.saturating_sub(SHORT).max(slots_end)..self.start].fill(0);
    }
}

/// The bytes that a node uses, copied out of its page.
#[derive(Debug)]
pub(super) struct Source {
    bytes: Vec<u8>,
    page: PageNo,
    offset: u64,
}

impl Source {
    /// Copies a node, which does not change meanwhile.
    pub fn of(view: &View<'_>) -> Result<Self> {
        let (page, page_bytes) = (view.page(), view.page_bytes());
        let mut bytes = fallible::list(page_bytes, "a copy of a node")?;
        let (slots_end, heap_start) = (view.slots_end(), view.heap_start());
        let is_copied = if slots_end < heap_start && heap_start <= page_bytes {
            let slots = page.append_to(0, slots_end, &mut bytes);
            bytes.resize(heap_start, 0);
            slots && page.append_to(heap_start, page_bytes - heap_start, &mut bytes)
        } else {
            page.append_to(0, page_bytes, &mut bytes)
        };
        debug_assert!(is_copied && bytes.len() == page_bytes, "there is memory for a page");
        Ok(Self { bytes, page: page.no(), offset: page.file_offset() })
    }

    /// The node.
    pub fn node(&self) -> Node<Flat<'_>> {
        Node::new(Flat::new(&self.bytes, self.page, self.offset))
    }
}
