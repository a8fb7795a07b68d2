//! BD+Tree's leaf (§3.2): unsorted slots, and for each of the last epochs a bitmap of the slots that
//! were visible in it. A change of an epoch leaves alone what the two epochs before it show, so a
//! crash can go back to either.
//!
//! ```text
//! w0          epoch x of the last change
//! w1, w2      ring of bitmaps, by epoch mod 4 (u32 each; 64 slots: u64 each, w1 to w4)
//! w5          kind | sibling << 32
//! w3 w4 w6 w7 fingerprints, one byte a slot (64 slots: body line 1, whose 4 slots are given up)
//! slot p      body word 2p: key, word 2p + 1: value
//!
//! visible(t)  ring[t] if t < x, else ring[x]                       for t = x - 2, x - 1, x, …
//! occupied    in epoch e: visible in e, e - 1 or e - 2
//! begin(e)    x < e: ring[e], ring[e-1], ring[e-2] := what they mean now; w0 := e
//! insert      a slot that is not occupied := key, value, fingerprint; set its bit of ring[e]
//! update      slot not visible in e-1, e-2: value in place; else insert, and clear the old bit
//! remove      clear the bit of ring[e]
//! ```
//!
//! The paper swaps epoch and bitmaps by one store of 16 bytes. Eight are what hardware promises
//! (docs/PAPERS.md, B7); but the epoch's word and the ring are in one line, and stores to a line
//! are not reordered. So `begin` stores the ring first and the epoch after it: a crash in between
//! leaves the old epoch, whose bitmaps were not touched, or were stored with what they held.
//!
//! Nothing is flushed by a change: lines that it touches are [deferred](Buffered::defer) to the end
//! of the epoch, each once per leaf and epoch. Only a split flushes ([`build_right`], [`give_up`]).
//!
//! Departures: latch, key bounds and the set of lines that are deferred already stand in the page's
//! frame, since nothing of them is meant to survive.

use std::sync::atomic::Ordering;

use everleaf_pmem::buffered::BufferedOp;
use everleaf_pmem::{Buffered, Geometry, Medium, Page, PageNo, Word};
use everleaf_pool::kind::{self, KIND_WORD};

use crate::bug::{self, Bug};
use crate::slots::fingerprint::hash;

/// A pool remembers this number, so that only builds with this layout open it.
pub const HASH: u64 = 0x6264_2b74_0010_0001;
/// Slots of the largest leaf: the ring must fit the line of its epoch.
pub const SLOTS_MAX: usize = 64;

const EPOCH_WORD: usize = 0;
const RING_WORD: usize = 1;
/// Epochs of which the ring knows.
const RING: u64 = 4;
/// Header words of the fingerprints, 8 slots each.
const PRINT_WORDS: [usize; 4] = [3, 4, 6, 7];
/// Line of the fingerprints of a leaf of 64 slots.
const PRINT_LINE: usize = 1;
/// Mark of the frame: bit i is set while line i of the leaf is deferred in the leaf's epoch.
pub(crate) const TRACKED_MARK: usize = 4;

const _: () = {
    // A step of epoch e writes what e − 1 and e − 2 do not show: their bitmaps and its own.
    assert!(RING > 2);
    // A bitmap and the mark have a bit for each slot and for each line.
    assert!(SLOTS_MAX <= 64 && SLOTS_MAX / 4 < 64);
    // The ring of the largest leaf lies between the epoch and the kind, in their line.
    assert!(EPOCH_WORD < RING_WORD && RING_WORD + RING as usize <= KIND_WORD);
    // That of smaller ones is half as long and ends before the fingerprints.
    assert!(
        RING_WORD + RING as usize / 2 <= PRINT_WORDS[0] && PRINT_WORDS.len() * 8 == SLOTS_MAX / 2
    );
};

/// Whether leaves can have this shape. The inner nodes need an aid.
pub fn fits(geometry: Geometry) -> bool {
    geometry.slots() <= SLOTS_MAX && !geometry.is_whole()
}

#[inline(always)]
fn is_wide(page: Page<'_>) -> bool {
    page.slots() == SLOTS_MAX
}

/// The slots that hold entries, as a bitmap.
#[inline(always)]
pub fn usable(slots: usize) -> u64 {
    if slots == SLOTS_MAX { !0xf } else { (1 << slots) - 1 }
}

/// The slots whose bits are set, ascending.
pub fn ones(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let slot = bits.trailing_zeros() as usize;
        (bits != 0).then(|| {
            bits &= bits - 1;
            slot
        })
    })
}

/// The epoch of the leaf's last change.
#[inline(always)]
pub fn epoch_of(page: Page<'_>) -> u64 {
    page.head(EPOCH_WORD).load()
}

/// The page to the right.
#[inline(always)]
pub fn sibling(page: Page<'_>) -> Option<PageNo> {
    Some(kind::prefix_of(page.head(KIND_WORD).load())).filter(|no| *no != 0)
}

fn kind_word(sibling: PageNo) -> u64 {
    kind::pack(kind::NODE, 0, 0, sibling)
}

/// Whether the page says that it is a node.
pub fn is_leaf(page: Page<'_>) -> bool {
    kind::kind_of(page.head(KIND_WORD).load()) == kind::NODE
}

/// The word of an epoch's bitmap, and where in it the bitmap begins.
#[inline(always)]
fn ring_place(page: Page<'_>, epoch: u64) -> (Word<'_>, u32) {
    let i = (epoch % RING) as usize;
    if is_wide(page) {
        (page.head(RING_WORD + i), 0)
    } else {
        (page.head(RING_WORD + i / 2), 32 * (i as u32 % 2))
    }
}

#[inline(always)]
fn ring(page: Page<'_>, epoch: u64) -> u64 {
    let (word, shift) = ring_place(page, epoch);
    word.load() >> shift & usable(page.slots())
}

fn set_ring<M: Medium>(m: &M, page: Page<'_>, epoch: u64, bits: u64) {
    let (word, shift) = ring_place(page, epoch);
    let width = if is_wide(page) { !0 } else { 0xffff_ffff << shift };
    m.store(word, word.load() & !width | bits << shift);
}

/// The slots that are visible at the end of an epoch, at most two before the leaf's own.
#[inline(always)]
pub fn visible(page: Page<'_>, epoch: u64) -> u64 {
    if bug::is(Bug::B14) && page.head(KIND_WORD).load() & DELETED != 0 {
        return 0;
    }
    ring(page, epoch.min(epoch_of(page)))
}

/// The slots that are visible now.
#[inline(always)]
pub fn current(page: Page<'_>) -> u64 {
    ring(page, epoch_of(page))
}

/// The slots that a leaf shows in the running epoch and in the two that a crash may go back to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Views {
    /// In the running epoch.
    pub now: u64,
    /// At the end of the one before.
    pub last: u64,
    /// At the end of the one before that.
    pub before: u64,
}

impl Views {
    /// Those of running epoch `epoch`, where no crash goes back behind the end of `oldest`: the epoch
    /// that this open has recovered. Nothing that leaves may still show of earlier ones counts any more.
    #[inline(always)]
    pub fn at(page: Page<'_>, epoch: u64, oldest: u64) -> Self {
        debug_assert!(oldest < epoch, "epoch {epoch} has been recovered already");
        Self {
            now: visible(page, epoch),
            last: visible(page, oldest.max(epoch - 1)),
            before: visible(page, oldest.max(epoch.saturating_sub(2))),
        }
    }
    /// Slots that must stay as they are, or may only change in place.
    #[inline(always)]
    pub fn occupied(self) -> u64 {
        self.now | self.last | self.before
    }
    /// A slot that may be used.
    #[inline(always)]
    pub fn free_slot(self, slots: usize) -> Option<usize> {
        let free = usable(slots) & !self.occupied();
        (free != 0).then_some(free.trailing_zeros() as usize)
    }
    /// Whether only the running epoch shows the slot.
    #[inline(always)]
    pub fn is_new(self, slot: usize) -> bool {
        (self.last | self.before) >> slot & 1 == 0
    }
}

/// The key in a slot.
#[inline(always)]
pub fn key_of(page: Page<'_>, slot: usize) -> u64 {
    page.body(2 * slot).load()
}

/// The value in a slot.
#[inline(always)]
pub fn value_of(page: Page<'_>, slot: usize) -> u64 {
    page.body(2 * slot + 1).load()
}

/// The slot among `among` that holds a key. One vector compare, and mostly one slot's line.
#[inline(always)]
pub fn find(page: Page<'_>, among: u64, key: u64) -> Option<usize> {
    let print = hash(key);
    let prints = if is_wide(page) {
        page.line_bytes_eq(PRINT_LINE, print)
    } else {
        let line = page.head_bytes_eq(print);
        line >> 24 & 0xffff | (line >> 48) << 16
    };
    let mut matches = prints & among;
    while matches != 0 {
        let slot = matches.trailing_zeros() as usize;
        if key_of(page, slot) == key {
            return Some(slot);
        }
        matches &= matches - 1;
    }
    None
}

/// The word and the line of a slot's fingerprint.
#[inline(always)]
fn print_place(page: Page<'_>, slot: usize) -> (Word<'_>, usize) {
    if is_wide(page) {
        (page.body(slot / 8), PRINT_LINE)
    } else {
        (page.head(PRINT_WORDS[slot / 8 % 4]), 0)
    }
}

/// A slot's fingerprint.
pub fn print_of(page: Page<'_>, slot: usize) -> u8 {
    (print_place(page, slot).0.load() >> (8 * (slot % 8))) as u8
}

/// The fingerprint that a key's slot has.
pub fn print_for(key: u64) -> u8 {
    hash(key)
}

fn put_slot<M: Medium>(m: &M, page: Page<'_>, slot: usize, key: u64, value: u64) {
    m.store(page.body(2 * slot), key);
    m.store(page.body(2 * slot + 1), value);
    let (word, shift) = (print_place(page, slot).0, 8 * (slot % 8));
    m.store(word, word.load() & !(0xff << shift) | u64::from(hash(key)) << shift);
}

/// Changes of a leaf by one step. The step has latched the leaf.
pub struct LeafWriter<'w, 'm, M: Medium> {
    m: &'m Buffered<M>,
    op: &'w mut BufferedOp<'m, M>,
    page: Page<'m>,
    epoch: u64,
}

impl<'w, 'm, M: Medium> LeafWriter<'w, 'm, M> {
    /// Brings the leaf into the step's epoch. Nothing else may be changed before.
    #[inline]
    pub fn begin(m: &'m Buffered<M>, op: &'w mut BufferedOp<'m, M>, page: Page<'m>) -> Self {
        debug_assert!(page.latch().is_held(), "page {} changes without its latch", page.no());
        let epoch = m.epoch(op);
        let mut writer = Self { m, op, page, epoch };
        let own = epoch_of(page);
        if own != epoch {
            writer.advance(own);
        }
        writer
    }

    fn advance(&mut self, own: u64) {
        let (m, page, epoch) = (self.m, self.page, self.epoch);
        let is_over = own < epoch || !bug::is_sound();
        debug_assert!(is_over, "epoch {own} of page {} is not over", page.no());
        page.mark(TRACKED_MARK).store(0, Ordering::Relaxed);
        let now = ring(page, own);
        let epochs = if own + 1 == epoch { epoch..=epoch } else { epoch - 2..=epoch };
        if bug::is(Bug::B7) {
            m.store(page.head(EPOCH_WORD), epoch);
        }
        epochs.for_each(|t| set_ring(m, page, t, now));
        m.store(page.head(EPOCH_WORD), epoch);
        self.touch(0);
    }

    /// Has a line written back at the end of the epoch.
    #[inline]
    fn touch(&mut self, line: usize) {
        let tracked = self.page.mark(TRACKED_MARK);
        let lines = tracked.load(Ordering::Relaxed);
        if lines >> line & 1 == 0 {
            tracked.store(lines | 1 << line, Ordering::Relaxed);
            self.m.defer(self.op, self.page, line);
        }
    }

    /// Whether the running epoch shows a slot.
    fn shows(&self, slot: usize) -> bool {
        ring(self.page, self.epoch) >> slot & 1 != 0
    }

    /// Whether the running epoch or the one before shows a slot. The leaf alone does not know whether a
    /// crash can still go back to an earlier one.
    fn is_occupied(&self, slot: usize) -> bool {
        self.shows(slot) || ring(self.page, self.epoch - 1) >> slot & 1 != 0
    }

    /// The step's epoch, which is the leaf's now.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Puts an entry into a slot that is not occupied, in place of the one in slot `old`.
    #[inline]
    pub fn insert(&mut self, slot: usize, key: u64, value: u64, old: Option<usize>) {
        debug_assert!(usable(self.page.slots()) >> slot & 1 != 0, "slot {slot} is no entry's");
        debug_assert!(!self.is_occupied(slot) || !bug::is_sound(), "slot {slot} is occupied");
        debug_assert!(old.is_none_or(|old| self.shows(old)) || !bug::is_sound());
        put_slot(self.m, self.page, slot, key, value);
        self.touch(print_place(self.page, slot).1);
        self.touch(self.page.line_of(2 * slot));
        let hidden = old.map_or(0, |old| 1 << old);
        let bits = ring(self.page, self.epoch) & !hidden | 1 << slot;
        set_ring(self.m, self.page, self.epoch, bits);
        self.flag_deleted(false);
        self.touch(0);
    }

    /// Gives another value to an entry that only the running epoch shows.
    #[inline]
    pub fn update(&mut self, slot: usize, value: u64) {
        debug_assert!(self.shows(slot) || !bug::is_sound(), "slot {slot} is not visible");
        self.m.store(self.page.body(2 * slot + 1), value);
        if !bug::is(Bug::B5) {
            self.touch(self.page.line_of(2 * slot));
        }
    }

    /// Hides an entry. Its slot stays occupied for as long as a crash may bring the entry back.
    #[inline]
    pub fn remove(&mut self, slot: usize) {
        debug_assert!(self.shows(slot) || !bug::is_sound(), "slot {slot} is not visible");
        let bits = ring(self.page, self.epoch) & !(1 << slot);
        set_ring(self.m, self.page, self.epoch, bits);
        self.flag_deleted(bits == 0);
        self.touch(0);
    }

    /// The paper's flag of empty leaves, for the test that puts it back; else nothing.
    #[inline(always)]
    fn flag_deleted(&self, is_empty: bool) {
        if bug::is(Bug::B14) {
            let (word, flag) = (self.page.head(KIND_WORD), if is_empty { DELETED } else { 0 });
            self.m.store(word, word.load() & !DELETED | flag);
        }
    }
}

/// The paper's flag of an empty leaf, which docs/PAPERS.md, B14 derives from the bitmaps instead.
const DELETED: u64 = 1 << 16;

/// Makes an empty leaf of a page that nobody can reach yet; durable when it returns.
pub fn build_empty<M: Medium>(m: &M, page: Page<'_>, epoch: u64) {
    start(m, page, epoch, 0);
    m.flush(page, 0);
    m.fence();
}

/// Header of a leaf whose bitmaps are empty, in this order: anything that shows later in the line is of
/// this epoch and of a leaf. Not flushed.
fn start<M: Medium>(m: &M, page: Page<'_>, epoch: u64, sibling: PageNo) {
    (0..RING).for_each(|t| set_ring(m, page, t, 0));
    m.store(page.head(EPOCH_WORD), epoch);
    m.store(page.head(KIND_WORD), kind_word(sibling));
    page.mark(TRACKED_MARK).store(0, Ordering::Relaxed);
}

/// How a full leaf is split.
#[derive(Debug, Clone, Copy)]
pub struct Cut {
    /// The lowest key that moves to the right.
    pub key: u64,
    /// The slots that move: all that are occupied by this key or greater ones.
    pub moved: u64,
}

/// Cuts a leaf between two keys, so that all versions of a key stay together (docs/PAPERS.md, B6): in the middle, or
/// beside a new key that goes on with a streak. A leaf that the streak fills keeps a slot free, for a new
/// version. `None` if the leaf has one key only, which a full leaf has not: a key has three versions at most.
pub fn cut(page: Page<'_>, views: Views, new: Option<u64>) -> Option<Cut> {
    let mut slots: Vec<(u64, usize)> =
        ones(views.occupied()).map(|slot| (key_of(page, slot), slot)).collect();
    slots.sort_unstable();
    let n = slots.len();
    let place = new.map(|key| slots.partition_point(|(other, _)| *other < key)).filter(|place| {
        let (below, above) = slots.split_at(*place);
        is_streak(below.iter().rev(), page.slots()) || is_streak(above.iter(), page.slots())
    });
    let middle = place.map_or(n / 2, |place| place.clamp(1, n - 1));
    let is_cut = |at: usize| at > 0 && at < n && slots[at - 1].0 != slots[at].0;
    let nearest = (0..n).flat_map(|far| [middle.wrapping_sub(far), middle + far]);
    let at = nearest.clone().find(|at| is_cut(*at))?;
    let at = if bug::is(Bug::B6) { middle } else { at };
    debug_assert!(slots[0].0 < slots[at].0 || !bug::is_sound(), "the left half keeps a key");
    let moved = slots[at..].iter().fold(0, |bits, (_, slot)| bits | 1 << slot);
    Some(Cut { key: slots[at].0, moved })
}

/// Whether the entries beside a key, the nearest one first, came one after the other towards it, for half a leaf at
/// least: slots are taken in ascending order, so that the later ones are in higher slots. Random keys hardly ever do so
/// in leaves of a size that is of use.
fn is_streak<'s>(nearest: impl Iterator<Item = &'s (u64, usize)>, slots: usize) -> bool {
    let (mut length, mut later) = (0, slots);
    for (_, slot) in nearest {
        if *slot >= later {
            break;
        }
        (length, later) = (length + 1, *slot);
    }
    length >= slots / 2
}

/// Builds the right half of a split in a page that nobody can reach yet, with what its entries show
/// in all three epochs; durable when it returns. The left leaf is in the step's epoch.
pub fn build_right<M: Medium>(m: &M, left: Page<'_>, right: Page<'_>, moved: u64) {
    debug_assert!(left.latch().is_held() && right.latch().is_held(), "a split of unlatched leaves");
    debug_assert!(moved.count_ones() <= usable(right.slots()).count_ones());
    let epoch = epoch_of(left);
    start(m, right, epoch, sibling(left).unwrap_or(0));
    let places = ones(usable(right.slots()));
    let mut lines = 1;
    let mut bits = [0; 3];
    for (from, to) in ones(moved).zip(places) {
        put_slot(m, right, to, key_of(left, from), value_of(left, from));
        lines |= lines_of(right, to);
        for (back, bits) in (0..).zip(&mut bits) {
            let place = if bug::is(Bug::B1) { from } else { to };
            *bits |= (ring(left, epoch.wrapping_sub(back)) >> from & 1) << place;
        }
    }
    for (back, bits) in (0..).zip(bits) {
        set_ring(m, right, epoch.wrapping_sub(back), bits);
    }
    flush_lines(m, right, lines);
    if bug::is(Bug::B4) {
        right.mark(TRACKED_MARK).store(!0, Ordering::Relaxed);
    }
}

/// Builds a leaf without a sibling in a page that nobody can reach yet, of pairs that only `epoch` shows, in slots that
/// ascend with them; durable when it returns.
pub fn build_filled<M: Medium>(m: &M, page: Page<'_>, epoch: u64, pairs: &[(u64, u64)]) {
    debug_assert!(page.latch().is_held(), "page {} changes without its latch", page.no());
    debug_assert!(pairs.len() <= usable(page.slots()).count_ones() as usize);
    start(m, page, epoch, 0);
    let (mut lines, mut bits) = (1, 0);
    for ((key, value), slot) in pairs.iter().zip(ones(usable(page.slots()))) {
        put_slot(m, page, slot, *key, *value);
        lines |= lines_of(page, slot);
        bits |= 1 << slot;
    }
    set_ring(m, page, epoch, bits);
    flush_lines(m, page, lines);
}

/// Takes all that the leaf to the right shows, in any of the three epochs, into slots that are `free`, and takes that leaf
/// out of the chain; durable when it returns. The left leaf is in the step's epoch. A slot is durable before a bitmap
/// shows it. In this order within the line: a crash leaves entries in both leaves rather than in none.
pub fn absorb<M: Medium>(m: &M, left: Page<'_>, right: Page<'_>, shown: Views, free: u64) {
    debug_assert!(left.latch().is_held() && right.latch().is_held(), "a merge of unlatched leaves");
    debug_assert!(shown.occupied().count_ones() <= free.count_ones(), "the left leaf has room");
    debug_assert_eq!(sibling(left), Some(right.no()), "the right leaf is the neighbour");
    let (mut lines, mut bits) = (0, [0; 3]);
    for (from, to) in ones(shown.occupied()).zip(ones(free)) {
        put_slot(m, left, to, key_of(right, from), value_of(right, from));
        lines |= lines_of(left, to);
        for (bits, view) in bits.iter_mut().zip([shown.now, shown.last, shown.before]) {
            *bits |= (view >> from & 1) << to;
        }
    }
    if lines != 0 {
        // Line 0 comes with the bitmaps.
        flush_lines(m, left, lines & !1);
    }
    let epoch = epoch_of(left);
    for (back, bits) in (0..).zip(bits) {
        let t = epoch.wrapping_sub(back);
        set_ring(m, left, t, ring(left, t) | bits);
    }
    m.store(left.head(KIND_WORD), kind_word(sibling(right).unwrap_or(0)));
    m.flush(left, 0);
    m.fence();
}

/// The lines that say what is in a slot, as a bitmap.
fn lines_of(page: Page<'_>, slot: usize) -> u64 {
    1 << page.line_of(2 * slot) | 1 << print_place(page, slot).1
}

/// Makes lines of a page durable.
fn flush_lines<M: Medium>(m: &M, page: Page<'_>, lines: u64) {
    ones(lines).for_each(|line| m.flush(page, line));
    m.fence();
}

/// Links the right half and gives up the entries that are there now; durable when it returns, so
/// that their slots may be used again (docs/PAPERS.md, B3). In this order within the line: a crash
/// leaves entries in both halves rather than in none, and recovery drops them from the left one
/// (B18).
pub fn give_up<M: Medium>(m: &M, left: Page<'_>, right: PageNo, moved: u64) {
    debug_assert!(left.latch().is_held(), "page {} changes without its latch", left.no());
    debug_assert!(right != 0 && right != left.no());
    m.store(left.head(KIND_WORD), kind_word(right));
    (0..RING).for_each(|t| set_ring(m, left, t, ring(left, t) & !moved));
    if !bug::is(Bug::B3) {
        m.flush(left, 0);
        m.fence();
    }
}

/// Links another page to the right; durable when it returns.
pub fn link<M: Medium>(m: &M, page: Page<'_>, right: PageNo) {
    debug_assert!(page.latch().is_held(), "page {} changes without its latch", page.no());
    m.store(page.head(KIND_WORD), kind_word(right));
    if !bug::is(Bug::B15) {
        m.flush(page, 0);
        m.fence();
    }
}

/// Marks a page as no leaf. The store is flushed, but not fenced.
pub fn wipe<M: Medium>(m: &M, page: Page<'_>) {
    m.store(page.head(KIND_WORD), 0);
    m.flush(page, 0);
}

/// Takes a leaf back to the end of epoch `durable`, without the slots `dropped`. Flushed, not
/// fenced. Idempotent: what the leaf shows of that epoch is stored first and read only.
pub fn roll_back<M: Medium>(m: &M, page: Page<'_>, durable: u64, dropped: u64) {
    debug_assert!(page.latch().is_held(), "page {} changes without its latch", page.no());
    let (own, shown) = (epoch_of(page), visible(page, durable));
    if own <= durable && dropped == 0 {
        return;
    }
    let bits = shown & !dropped;
    (0..RING).for_each(|back| set_ring(m, page, durable.wrapping_sub(back), bits));
    m.store(page.head(EPOCH_WORD), durable.min(own));
    m.flush(page, 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_walked_in_order() {
        assert_eq!(ones(0b1010_0001).collect::<Vec<_>>(), [0, 5, 7]);
        assert_eq!(ones(1 << 63).collect::<Vec<_>>(), [63]);
        assert_eq!((usable(4), usable(32).count_ones(), usable(64).count_ones()), (15, 32, 60));
    }
}
