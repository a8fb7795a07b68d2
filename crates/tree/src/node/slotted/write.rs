//! Changes of a node: an insert, an update, a removal, a compaction, and a whole new node.
//!
//! An insert writes the entry into the gap, right below the heap, and moves the slots behind it by one
//! word. A removal closes the slots and leaves the entry's bytes dead, but for the lowest entry of the
//! heap: the gap takes that. An update stores the value where the old one is, if it is no longer and the
//! code is as long; otherwise it writes a new entry.
//!
//! Each function is a function of the page's bytes and its operands alone, so that its redo leaves the same
//! bytes. The caller holds the latch and has seen that there is room; the pages of a journal make the step
//! whole, so stores need no order. `view` is the node as it is.

use everleaf_pmem::{Medium, Page};
use everleaf_pool::kind::KIND_WORD;

use super::bytes::Flat;
use super::entry::{Code, NewEntry, NumberBuf, Value, slot_head};
use super::format::{
    FENCES_WORD, FIRST_SLOT, NO_FENCE, PAGE_BYTES_MAX, RUN_MAX, RUN_SHIFT, RUN_WORD, SLOT_BYTES,
    SLOTS_AT, SPARE_WORD,
};
use super::image::Image;
use super::pack::Pack;
use super::read::{FenceAt, Node, View};

/// Bytes that are copied within a page at a time.
const PIECE: usize = 64;

/// The numbers of the run word.
struct Run {
    count: usize,
    heap_start: usize,
    dead: usize,
    flags: u16,
}

impl Run {
    fn of(view: &View<'_>) -> Self {
        Self {
            count: view.count(),
            heap_start: view.heap_start(),
            dead: view.dead_bytes(),
            flags: view.flags(),
        }
    }
    #[inline(always)]
    fn store<M: Medium>(self, m: &M, page: Page<'_>) {
        debug_assert!(SLOTS_AT + SLOT_BYTES * self.count <= self.heap_start);
        debug_assert!(self.heap_start + self.dead <= page.geometry().page_bytes());
        let word = self.count as u64
            | (self.heap_start as u64) << 16
            | (self.dead as u64) << 32
            | u64::from(self.flags) << 48;
        m.store(page.head(RUN_WORD), word);
    }
}

/// Inserts an entry before position `pos`, which is at most the count; the gap has room for it and a slot.
pub(super) fn insert<M: Medium>(m: &M, view: &View<'_>, pos: usize, entry: &NewEntry<'_>) {
    insert_by(m, view, pos, (entry.head(), entry.bytes()), |at| {
        put_entry(m, view.page(), at, entry)
    });
}

/// Inserts an entry of so many bytes, which `put` writes, with this head in its slot.
#[inline(always)]
pub(super) fn insert_by<M: Medium>(
    m: &M,
    view: &View<'_>,
    pos: usize,
    (head, bytes): (u64, usize),
    put: impl FnOnce(usize),
) {
    let page = view.page();
    debug_assert!(page.latch().is_held(), "page {} changes without its latch", page.no());
    let mut run = Run::of(view);
    debug_assert!(pos <= run.count && bytes + SLOT_BYTES <= view.gap());
    let long = run.flags & ((1 << RUN_SHIFT) - 1);
    let in_a_row = if pos == run.count { (view.run() + 1).min(RUN_MAX) } else { 0 };
    run.heap_start -= bytes;
    put(run.heap_start);
    m.move_words(page, FIRST_SLOT + pos, FIRST_SLOT + pos + 1, run.count - pos);
    m.store(page.word(FIRST_SLOT + pos), head | run.heap_start as u64);
    run.count += 1;
    run.flags = long | (in_a_row as u16) << RUN_SHIFT;
    run.store(m, page);
}

/// Removes the entry at a position below the count.
#[inline]
pub(super) fn remove<M: Medium>(m: &M, view: &View<'_>, pos: usize) {
    let page = view.page();
    debug_assert!(page.latch().is_held(), "page {} changes without its latch", page.no());
    let (mut run, entry) = (Run::of(view), view.entry(pos));
    debug_assert!(pos < run.count && entry.at >= run.heap_start);
    if entry.at == run.heap_start {
        run.heap_start = entry.end();
    } else {
        run.dead += entry.bytes();
    }
    m.move_words(page, FIRST_SLOT + pos + 1, FIRST_SLOT + pos, run.count - pos - 1);
    run.count -= 1;
    run.store(m, page);
}

/// What an update of an entry would take.
pub(super) enum Update {
    /// Nothing: the new value goes where the old one is.
    InPlace,
    /// A new entry of so many bytes.
    Anew(usize),
}

/// How the value of an entry is replaced by another one.
#[inline]
pub(super) fn update_of(view: &View<'_>, pos: usize, value: &Value<'_>) -> Update {
    let entry = view.entry(pos);
    if value.size() == entry.value {
        return Update::InPlace;
    }
    let code = Code::new(entry.suffix, entry.cut, value.size());
    let (code, bytes) = (code.bytes().len(), value.size().bytes());
    if code == entry.code_bytes() && bytes <= entry.value.bytes() {
        Update::InPlace
    } else {
        Update::Anew(code + entry.rest() + bytes)
    }
}

/// Replaces the value of the entry at a position below the count.
#[inline]
pub(super) fn update<M: Medium>(m: &M, view: &View<'_>, pos: usize, value: Value<'_>) {
    let page = view.page();
    debug_assert!(page.latch().is_held(), "page {} changes without its latch", page.no());
    debug_assert!(pos < view.count());
    let (old, mut number) = (view.entry(pos), NumberBuf::default());
    let bytes = value.bytes(&mut number);
    if value.size() == old.value {
        return m.copy_in(page, old.value_at, bytes);
    }
    let (code, mut run) = (Code::new(old.suffix, old.cut, value.size()), Run::of(view));
    match update_of(view, pos, &value) {
        Update::InPlace => {
            m.copy_in(page, old.value_at, bytes);
            m.copy_in(page, old.at, code.bytes());
            run.dead += old.value.bytes() - bytes.len();
        }
        Update::Anew(len) => {
            debug_assert!(len <= view.gap(), "room was found before");
            run.heap_start -= len;
            run.dead += old.bytes();
            let (at, rest_at) = (run.heap_start, run.heap_start + code.bytes().len());
            m.copy_in(page, at, code.bytes());
            copy_within(m, page, old.rest_at, rest_at, old.rest());
            m.copy_in(page, rest_at + old.rest(), bytes);
            let slot = slot_head(view.slot(pos)) | at as u64;
            m.store(page.word(FIRST_SLOT + pos), slot);
        }
    }
    run.store(m, page);
}

/// Copies bytes to another place in their page, which they do not share.
fn copy_within<M: Medium>(m: &M, page: Page<'_>, from: usize, to: usize, len: usize) {
    let mut piece = [0; PIECE];
    for done in (0..len).step_by(PIECE) {
        let piece = &mut piece[..PIECE.min(len - done)];
        let is_inside = page.copy_out(from + done, piece);
        debug_assert!(is_inside, "page {} was checked", page.no());
        m.copy_in(page, to + done, piece);
    }
}

/// Puts the entries and fences of a node, but for one entry, one below the other from the page's end down,
/// and nothing else: dead bytes become a part of the gap, and the gap zero. The prefix stays, though it might
/// grow, so that room that was found for an entry stays, too. False, and nothing is done, if the page is
/// damaged.
pub(super) fn compact<M: Medium>(m: &M, view: &View<'_>, without: Option<usize>) -> bool {
    debug_assert!(view.page().latch().is_held(), "page {} changes unlatched", view.page().no());
    // Memory that is sure to be there, because the step has begun.
    match view.page_bytes() {
        ..=512 => compact_over(m, view, without, &mut [[0; 512]; 2]),
        513..=4096 => compact_over(m, view, without, &mut [[0; 4096]; 2]),
        4097..=8192 => compact_over(m, view, without, &mut [[0; 8192]; 2]),
        _ => compact_over(m, view, without, &mut [[0; PAGE_BYTES_MAX]; 2]),
    }
}

#[inline(never)]
fn compact_over<const N: usize, M: Medium>(
    m: &M,
    view: &View<'_>,
    without: Option<usize>,
    [old, new]: &mut [[u8; N]; 2],
) -> bool {
    let (page, page_bytes) = (view.page(), view.page_bytes());
    let (Some(old), Some(new)) = (old.get_mut(..page_bytes), new.get_mut(..page_bytes)) else {
        return false;
    };
    let is_copied = page.copy_out(0, old);
    let old = Flat::new(old, page.no(), page.file_offset());
    let Some((count, heap_start, fences)) = gather(&Node::new(old), without, new) else {
        return false;
    };
    m.copy_in(page, SLOTS_AT, &new[SLOTS_AT..]);
    m.store(page.head(FENCES_WORD), fences);
    Run { count, heap_start, dead: 0, flags: view.flags() }.store(m, page);
    is_copied
}

/// Gathers what a compaction keeps, in memory that is zero: the number of entries, where the heap starts,
/// and where the fences are.
fn gather(
    node: &Node<Flat<'_>>,
    without: Option<usize>,
    to: &mut [u8],
) -> Option<(usize, usize, u64)> {
    let end = to.len();
    let mut pack = Pack::new(to, 0, end);
    let mut fence = |fence: Option<FenceAt>| match fence {
        Some(fence) => {
            let at = pack.put(node.bytes().get(fence.at, fence.bytes())?)?;
            Some(at as u64 | (fence.kept as u64) << 16)
        }
        None => Some(u64::from(NO_FENCE) << 16),
    };
    let fences = fence(node.low())? | fence(node.high())? << 32;
    let (count, all) = (node.count(), node.bytes().bytes);
    let hole = without.unwrap_or(count).min(count);
    let fits = pack.copy(all, 0..hole) && pack.copy(all, (hole + 1).min(count)..count);
    let (count, heap_start) = pack.end();
    fits.then_some((count, heap_start, fences))
}

/// Writes the bytes of an entry.
#[inline(always)]
fn put_entry<M: Medium>(m: &M, page: Page<'_>, at: usize, entry: &NewEntry<'_>) {
    let (code, rest, mut number) = (entry.code(), entry.rest(), NumberBuf::default());
    let value = entry.value.bytes(&mut number);
    let rest_at = at + code.bytes().len();
    m.copy_in(page, at, code.bytes());
    m.copy_in(page, rest_at, rest);
    m.copy_in(page, rest_at + rest.len(), value);
}

/// Makes a page the node of an image: all of its words but the medium's.
pub(super) fn build<M: Medium>(m: &M, page: Page<'_>, image: &Image) {
    debug_assert!(page.latch().is_held(), "page {} changes without its latch", page.no());
    debug_assert_eq!(image.bytes.len(), page.geometry().page_bytes());
    m.copy_in(page, SLOTS_AT, &image.bytes[SLOTS_AT..]);
    for (word, value) in image.words() {
        m.store(page.head(word), value);
    }
    m.store(page.head(SPARE_WORD), 0);
    m.store(page.head(KIND_WORD), image.kind);
}
