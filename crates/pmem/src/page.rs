//! Pages: the unit of latching, residency and checksums, seen through a checked handle.
//!
//! A page is one header line of 64 bytes and a body of `slots` × 16 bytes. There are two shapes: a body
//! of a power of two of slots, for nodes that go round in it, and a *whole* page, which is itself a power
//! of two of bytes, its header inside. It has four slots less than a power of two, which is how the two are
//! told apart wherever a number of slots is all that is kept. Beside each page stands a *frame* in DRAM: the latch word, marks
//! of the medium, and the search aid (one word per body line, none for whole pages). Nothing in a frame
//! ever reaches the disk.
//!
//! ```text
//! pool   | w0 | w1 | w2 | w3 | w4 | w5 | seq | sum | body word 0 … 2*slots-1 |
//! frame  | latch | m1 | m2 | m3 | m4 | m5 | m6 | m7 | aid 0 … aid_words-1 |
//! ```
//!
//! Invariant kept here: a [`Page`] and a [`Word`] point into a live [`Region`](crate::region::Region)
//! for their whole lifetime and every index is masked or checked into the page, so callers cannot leave
//! it.

use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::latch::Latch;
pub use crate::lines_read::LINE_BYTES;
use crate::lines_read::loaded;
use crate::sync::schedule::{before_read, before_write};

/// The number of a page in its pool; its byte offset is `no × page_bytes` from the first page.
pub type PageNo = u32;

/// Where page 0 lies in a data file, in bytes from its start: what is before it belongs to the file.
pub const FIRST_PAGE_OFFSET: u64 = (2 << 12) + 2 * (2 << 20);
/// Words of 8 bytes in the header line.
pub const HEAD_WORDS: usize = 8;
/// Header word that the medium owns: on media with a journal the number of changes that the page
/// has seen; on [`Buffered`](crate::Buffered), in page 0 alone, the last durable epoch. Other media
/// leave it alone.
pub const SEQ_WORD: usize = 6;
/// Header word that the medium owns: the checksum of the page on disk, 0 in memory.
pub const SUM_WORD: usize = 7;

const _: () = {
    assert!(8 * HEAD_WORDS == LINE_BYTES, "the header is a line");
    assert!(SEQ_WORD < HEAD_WORDS && SUM_WORD < HEAD_WORDS && SEQ_WORD != SUM_WORD);
    assert!(HEAD_WORDS.is_power_of_two(), "indexes are masked");
    assert!(FIRST_PAGE_OFFSET.is_multiple_of(4096), "pages can be mapped");
};

/// A word of a page that a medium may store to. Made only by [`Page::head`], [`Page::body`] and
/// [`Page::body_word`].
#[derive(Clone, Copy)]
pub struct Word<'m> {
    cell: &'m AtomicU64,
    page: PageNo,
    index: u32,
    /// The page's latch, for the rules that debug builds assert.
    #[cfg(debug_assertions)]
    latch: &'m Latch,
}

impl<'m> Word<'m> {
    /// Load with Acquire.
    #[inline(always)]
    pub fn load(self) -> u64 {
        before_read();
        loaded(self.cell, 8);
        self.cell.load(Ordering::Acquire)
    }
    /// As [`load`](Self::load), for an assertion: it is no point of a test's schedule.
    pub fn peek(self) -> u64 {
        self.cell.load(Ordering::Relaxed)
    }
    /// The page that the word is in.
    pub fn page(self) -> PageNo {
        self.page
    }
    /// Index of the word in its page, the header first.
    pub fn index(self) -> usize {
        self.index as usize
    }
    /// The line of its page that the word is in (0 = header).
    pub fn line(self) -> usize {
        self.index() / HEAD_WORDS
    }
    /// Whether this thread holds the latch of the word's page. Without debug assertions nobody knows,
    /// and the answer is yes.
    #[inline(always)]
    pub fn is_latched_here(self) -> bool {
        #[cfg(debug_assertions)]
        return self.latch.is_held_here();
        #[cfg(not(debug_assertions))]
        true
    }
    /// Store with Release. Only media call this: everybody else goes through
    /// [`Medium::store`](crate::Medium::store).
    #[inline(always)]
    pub(crate) fn put(self, value: u64) {
        self.cell.store(value, Ordering::Release);
    }
}

/// Where the pages of a region are, and their frames.
#[derive(Debug)]
pub(crate) struct Pages {
    words: *const AtomicU64,
    frames: *const AtomicU64,
    limit: PageNo,
    geometry: Geometry,
    /// Derived from the geometry, since each search for a page needs it.
    page_bytes: usize,
    frame_bytes: usize,
}

// SAFETY: what is there is reached through atomics only.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Pages {
    /// # Safety
    /// `words` and `frames` must point to `limit` pages of that shape and to their frames, atomics that begin at a
    /// multiple of 64 and live for as long as this.
    pub(crate) unsafe fn new(
        words: *const AtomicU64,
        frames: *const AtomicU64,
        limit: PageNo,
        geometry: Geometry,
    ) -> Self {
        let (page_bytes, frame_bytes) = (geometry.page_bytes(), geometry.frame_bytes());
        Self { words, frames, limit, geometry, page_bytes, frame_bytes }
    }

    /// The shape of the pages.
    #[inline(always)]
    pub(crate) fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// How many there are.
    #[inline(always)]
    pub(crate) fn limit(&self) -> PageNo {
        self.limit
    }

    /// The page of that number.
    #[inline(always)]
    pub(crate) fn get(&self, no: PageNo) -> Option<Page<'_>> {
        if no >= self.limit {
            return None;
        }
        // SAFETY: no < limit, so both places are among those that `new` was promised; a page's bytes and those of a
        // frame are multiples of 64.
        unsafe {
            let words = self.words.cast::<u8>().add(no as usize * self.page_bytes);
            let frame = self.frames.cast::<u8>().add(no as usize * self.frame_bytes);
            Some(Page::new(words.cast(), frame.cast(), no, self.geometry))
        }
    }

    /// The memory of the first page, by another number: that of the page whose copy is there.
    ///
    /// # Panics
    /// If there is no page.
    pub(crate) fn first_as(&self, no: PageNo) -> Page<'_> {
        assert!(self.limit > 0, "a region without a page");
        // SAFETY: there is a first page. A page's number is no part of where it is.
        unsafe { Page::new(self.words, self.frames, no, self.geometry) }
    }
}

/// A checked handle of one page and its frame.
#[derive(Clone, Copy)]
pub struct Page<'m> {
    words: *const AtomicU64,
    frame: *const AtomicU64,
    no: PageNo,
    geometry: Geometry,
    _region: PhantomData<&'m AtomicU64>,
}

// SAFETY: a Page is a shared reference to atomics, nothing else.
unsafe impl Send for Page<'_> {}
// SAFETY: as above.
unsafe impl Sync for Page<'_> {}

impl<'m> Page<'m> {
    /// # Safety
    /// `words` must point to `geometry.page_words()` and `frame` to `geometry.frame_bytes() / 8`
    /// atomics, 64-byte aligned, that live for `'m`.
    #[inline(always)]
    unsafe fn new(
        words: *const AtomicU64,
        frame: *const AtomicU64,
        no: PageNo,
        geometry: Geometry,
    ) -> Self {
        Self { words, frame, no, geometry, _region: PhantomData }
    }

    /// The page's words, for readers of bytes or slots.
    #[inline(always)]
    pub(crate) fn words(self) -> *const AtomicU64 {
        self.words
    }
    /// The words of its frame: a line, and the aid behind it.
    #[inline(always)]
    pub(crate) fn frame(self) -> *const AtomicU64 {
        self.frame
    }
    /// The page's number.
    #[inline(always)]
    pub fn no(self) -> PageNo {
        self.no
    }
    /// Where the page's home is in a data file, in bytes from its start: the place that an error
    /// names.
    pub fn file_offset(self) -> u64 {
        FIRST_PAGE_OFFSET + u64::from(self.no) * self.geometry().page_bytes() as u64
    }
    /// Slots of 16 bytes in the body.
    #[inline(always)]
    pub fn slots(self) -> usize {
        self.geometry.slots()
    }
    /// The pool's geometry.
    #[inline(always)]
    pub fn geometry(self) -> Geometry {
        self.geometry
    }
    /// Header word `i & 7`.
    #[inline(always)]
    pub fn head(self, i: usize) -> Word<'m> {
        let i = i & (HEAD_WORDS - 1);
        // SAFETY: each page has HEAD_WORDS words and i is masked below that.
        let cell = unsafe { &*self.words.add(i) };
        self.word_of(cell, i)
    }
    /// Body word `j`, taken modulo the body: slot `p` has the words `2p` and `2p + 1`. Whole pages have
    /// no power of two of words, so nothing goes round in them: there it is
    /// [`body_word`](Self::body_word).
    #[inline(always)]
    pub fn body(self, j: usize) -> Word<'m> {
        debug_assert!(!self.geometry.is_whole(), "nothing goes round in a whole page");
        let i = HEAD_WORDS + (j & (2 * self.slots() - 1));
        // SAFETY: the body has 2 * slots words, and j is masked to no more than the last one's number,
        // whatever the number of slots is.
        let cell = unsafe { &*self.words.add(i) };
        self.word_of(cell, i)
    }
    /// Body word `j` of a page of either shape; the last one if there is no such word, so that nothing
    /// that a damaged page says leads out of it.
    #[inline(always)]
    pub fn body_word(self, j: usize) -> Word<'m> {
        let i = HEAD_WORDS + j.min(2 * self.slots() - 1);
        // SAFETY: the body has 2 * slots words.
        let cell = unsafe { &*self.words.add(i) };
        self.word_of(cell, i)
    }
    /// Both words of a slot.
    ///
    /// # Safety
    /// The first one must be that of a slot of the page.
    #[inline(always)]
    pub(crate) unsafe fn words_of(self, first: NonNull<AtomicU64>) -> [Word<'m>; 2] {
        // SAFETY: the caller's contract.
        let cells = unsafe { [first.as_ref(), first.add(1).as_ref()] };
        cells.map(|cell| self.word_of(cell, (ptr::from_ref(cell).addr() - self.words.addr()) / 8))
    }
    #[inline(always)]
    fn word_of(self, cell: &'m AtomicU64, i: usize) -> Word<'m> {
        Word {
            cell,
            page: self.no,
            index: i as u32,
            #[cfg(debug_assertions)]
            latch: self.latch(),
        }
    }
    /// Word `i` of the whole page, header first. Panics outside the page.
    pub fn word(self, i: usize) -> Word<'m> {
        if i < HEAD_WORDS {
            self.head(i)
        } else {
            assert!(i < self.geometry().page_words(), "word {i} is outside the page");
            self.body_word(i - HEAD_WORDS)
        }
    }
    /// The line (0 = header) that holds body word `j`, which is taken as [`body`](Self::body) takes it.
    #[inline(always)]
    pub fn line_of(self, j: usize) -> usize {
        debug_assert!(!self.geometry.is_whole(), "nothing goes round in a whole page");
        1 + (j & (2 * self.slots() - 1)) / 8
    }
    /// The first word of line `line` (0 = header): what a flush instruction is given. The last line's if
    /// there is no such line.
    #[inline(always)]
    pub(crate) fn line(self, line: usize) -> &'m AtomicU64 {
        debug_assert!(line < self.geometry.page_bytes() / LINE_BYTES, "line {line}");
        if line == 0 { self.head(0).cell } else { self.body_word(8 * (line - 1)).cell }
    }
    #[inline(always)]
    fn frame_word(self, i: usize) -> &'m AtomicU64 {
        debug_assert!(i < self.geometry().frame_bytes() / 8);
        // SAFETY: callers pass indices below frame_bytes() / 8 (constants below 8, or masked).
        unsafe { &*self.frame.add(i) }
    }
    /// Zeroes the whole frame, as after a reboot. Nobody may be using it.
    pub(crate) fn clear_frame(self) {
        for i in 0..self.geometry().frame_bytes() / 8 {
            self.frame_word(i).store(0, Ordering::Relaxed);
        }
    }
    /// The page's latch.
    #[inline(always)]
    pub fn latch(self) -> &'m Latch {
        Latch::of(self.frame_word(0))
    }
    /// Volatile mark `i` (1..=7) of the frame: 1–4 belong to the medium, 5 and 6 to the pool, 7 to the
    /// tree. Media without a journal use none and leave 1–4 to the tree, too.
    #[inline(always)]
    pub fn mark(self, i: usize) -> &'m AtomicU64 {
        assert!((1..HEAD_WORDS).contains(&i));
        self.frame_word(i)
    }
    #[inline(always)]
    fn aid_cell(self, i: usize) -> &'m AtomicU64 {
        let n = self.geometry().aid_words();
        debug_assert!(n > 0, "whole pages have no aid");
        // A word of the frame in any case, without a branch.
        self.frame_word(if n > 0 { HEAD_WORDS + (i & (n - 1)) } else { HEAD_WORDS - 1 })
    }
    /// Word `i` of the search aid. Volatile: zero after each open.
    #[inline(always)]
    pub fn aid(self, i: usize) -> u64 {
        before_read();
        loaded(self.aid_cell(i), 8);
        self.aid_cell(i).load(Ordering::Acquire)
    }
    /// Sets word `i` of the search aid.
    #[inline(always)]
    pub fn set_aid(self, i: usize, value: u64) {
        before_write();
        self.aid_cell(i).store(value, Ordering::Release);
    }
    /// Sets byte `i` of the search aid, its words taken as little-endian. The caller holds the latch.
    #[inline(always)]
    pub fn set_aid_byte(self, i: usize, value: u8) {
        debug_assert!(i < 8 * self.geometry().aid_words(), "byte {i} is outside the aid");
        let shift = 8 * (i % 8);
        let word = self.aid(i / 8);
        self.set_aid(i / 8, word & !(0xff << shift) | u64::from(value) << shift);
    }
    /// Asks the processor to fetch the header, the latch, and the first lines of the aid.
    #[inline(always)]
    pub fn prefetch(self, aid_lines: usize) {
        prefetch(self.words.cast());
        let mut at: *const u8 = self.frame.cast();
        for _ in 0..1 + aid_lines {
            prefetch(at);
            at = at.wrapping_add(LINE_BYTES);
        }
    }
    /// Asks the processor to fetch the whole page, its latch, and the first lines of the aid.
    #[inline]
    pub fn prefetch_whole(self, aid_lines: usize) {
        self.prefetch(aid_lines);
        let lines = self.geometry.page_bytes() / LINE_BYTES;
        (1..lines).for_each(|line| prefetch(std::ptr::from_ref(self.line(line)).cast()));
    }
    /// Asks the processor to fetch the line of byte `at`. There need be no such byte.
    #[inline(always)]
    pub fn prefetch_at(self, at: usize) {
        prefetch(self.words.cast::<u8>().wrapping_add(at));
    }
    /// Asks the processor to fetch the line of body word `j`, which is taken as [`body`](Self::body)
    /// takes it.
    #[inline(always)]
    pub fn prefetch_body(self, j: usize) {
        prefetch(std::ptr::from_ref(self.body(j).cell).cast());
    }
}

/// Asks the processor to fetch the line at `at`; any address is allowed.
#[inline(always)]
pub fn prefetch(at: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch never faults, whatever the address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = at;
}

/// How soon a page that nobody uses leaves memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stay {
    /// Never: somebody above relies on it.
    Always,
    /// Within two rounds of the hand of the clock.
    Rounds,
    /// Later than others, since few such pages lead to many of those: the hand looks at it in one of
    /// [so many](Stay::LONG) rounds only.
    Long,
}

impl Stay {
    /// Of so many rounds one looks at pages that stay long. A page is missed for its leaves' sake each time that a round
    /// goes by in which no thread is on its way through it.
    pub const LONG: u32 = 8;
}

/// Bytes of the largest page that there can be.
pub const LARGEST_PAGE: usize = WHOLE_MAX as usize;
/// The most slots that a page with a power of two of them can have, and the fewest.
const SLOTS_MAX: u32 = 1024;
const SLOTS_MIN: u32 = 4;
/// Bytes of the largest whole page, and of the smallest.
const WHOLE_MAX: u32 = 32 << 10;
const WHOLE_MIN: u32 = 512;
/// Slots that would be where a whole page has its header.
const HEAD_SLOTS: u32 = LINE_BYTES as u32 / 16;

const _: () = {
    assert!(SLOTS_MIN.is_power_of_two() && SLOTS_MAX.is_power_of_two());
    assert!(16 * SLOTS_MIN as usize >= LINE_BYTES, "a body has whole lines");
    assert!(LINE_BYTES + 16 * SLOTS_MAX as usize <= LARGEST_PAGE, "the other shape is smaller");
    assert!(WHOLE_MIN.is_power_of_two() && WHOLE_MAX.is_power_of_two());
    assert!(WHOLE_MIN / 16 - HEAD_SLOTS > HEAD_SLOTS, "whole pages have no power of two of slots");
    assert!(WHOLE_MAX / 16 <= u16::MAX as u32, "slots fit in 16 bits");
};

/// The shape of all pages of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    slots: u16,
    /// Derived from the slots, since each access to an aid needs it.
    aid_words: u16,
}

impl Geometry {
    /// Pages of `slots` 16-byte slots. `slots` is a power of two in 4..=1024 (4 only makes sense
    /// in tests: it makes splits and wrap-around happen early).
    pub const fn new(slots: u32) -> Option<Self> {
        if slots.is_power_of_two() && SLOTS_MIN <= slots && slots <= SLOTS_MAX {
            let lines = slots as u16 / 4;
            Some(Self { slots: slots as u16, aid_words: if lines < 8 { 8 } else { lines } })
        } else {
            None
        }
    }
    /// Pages of `page_bytes` with the header inside: a power of two in 512..=32768. They have four
    /// slots less than a power of two, which is how they are told apart.
    pub const fn whole(page_bytes: u32) -> Option<Self> {
        if page_bytes.is_power_of_two() && WHOLE_MIN <= page_bytes && page_bytes <= WHOLE_MAX {
            Some(Self { slots: (page_bytes / 16 - HEAD_SLOTS) as u16, aid_words: 0 })
        } else {
            None
        }
    }
    /// Pages of either shape, from the number of slots that a superblock or an option says.
    pub const fn from_slots(slots: u32) -> Option<Self> {
        if slots.is_power_of_two() {
            Self::new(slots)
        } else if slots < WHOLE_MAX {
            Self::whole(16 * (slots + HEAD_SLOTS))
        } else {
            None
        }
    }
    /// Whether the header is inside of a power of two of bytes.
    pub const fn is_whole(self) -> bool {
        !self.slots.is_power_of_two()
    }
    /// Slots in one page.
    pub const fn slots(self) -> usize {
        self.slots as usize
    }
    /// Bytes of one page: the header line and the slots.
    pub const fn page_bytes(self) -> usize {
        LINE_BYTES + 16 * self.slots as usize
    }
    /// Words of one page.
    pub const fn page_words(self) -> usize {
        self.page_bytes() / 8
    }
    /// Words of the search aid beside one page, a power of two of lines: a word for each body line.
    /// Whole pages have none, for their nodes are searched without: a frame of theirs is one line.
    pub const fn aid_words(self) -> usize {
        self.aid_words as usize
    }
    /// Bytes of one frame.
    pub const fn frame_bytes(self) -> usize {
        LINE_BYTES + 8 * self.aid_words()
    }
}

#[cfg(test)]
mod tests {
    use crate::{Dram, Geometry, Medium};

    /// A scheduler that lets the thread go on counts how often it is asked.
    #[cfg(feature = "schedule")]
    #[test]
    fn a_scheduler_sees_the_lines_of_a_copy() {
        use crate::sync::schedule::{Point, set_hook};
        thread_local!(static POINTS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) });
        let medium = Dram::new(Geometry::whole(512).expect("a power of two"), 2).expect("memory");
        let page = medium.page(0).expect("inside");
        let (bytes, mut out): (Vec<u8>, _) = ((0..140).collect(), [0; 140]);
        set_hook(Some(|_: Point| POINTS.set(POINTS.get() + 1)));
        medium.copy_in(page, 120, &bytes);
        let stored = POINTS.take();
        medium.move_words(page, 15, 16, 20);
        let moved = POINTS.take();
        assert!(page.copy_out(128, &mut out));
        set_hook(None);
        assert_eq!((stored, moved, POINTS.take()), (4, 3, 4));
        assert_eq!((&out[..140], out.len()), (&bytes[..140], 140));
    }

    #[test]
    fn words_of_a_whole_page_do_not_go_round() {
        let medium = Dram::new(Geometry::whole(512).expect("a power of two"), 2).expect("memory");
        let page = medium.page(0).expect("inside");
        (0..64).for_each(|i| medium.store(page.word(i), i as u64));
        for j in [0, 1, 7, 31, 32, 54, 55, 56, 64, usize::MAX] {
            let word = page.body_word(j);
            assert_eq!((word.load(), word.index()), (8 + j.min(55) as u64, 8 + j.min(55)));
        }
    }

    #[test]
    fn bytes_are_found_in_the_line_that_was_asked_for() {
        let geometry = Geometry::new(8).expect("a power of two");
        let medium = Dram::new(geometry, 2).expect("memory");
        let page = medium.page(1).expect("inside");
        medium.store(page.head(2), 0xab00);
        medium.store(page.head(7), 0xab << 56);
        medium.store(page.body(0), 0xab);
        medium.store(page.body(15), 0xab_00ab);
        assert_eq!(page.head_bytes_eq(0xab), 1 << 17 | 1 << 63);
        assert_eq!(page.line_bytes_eq(1, 0xab), 1);
        assert_eq!(page.line_bytes_eq(2, 0xab), 1 << 56 | 1 << 58);
        assert_eq!(page.line_bytes_eq(2, 0), !(1 << 56 | 1 << 58));
        // Modulo the body, whatever the number.
        assert_eq!(page.line_bytes_eq(3, 0xab), page.line_bytes_eq(1, 0xab));
        assert_eq!(page.line_bytes_eq(0, 0xab), page.line_bytes_eq(2, 0xab));
    }
}

#[cfg(test)]
mod geometry_tests {
    use super::*;

    #[test]
    fn a_number_of_slots_says_which_shape_it_is() {
        for slots in 0..if cfg!(miri) { 600 } else { 70_000 } {
            let (round, whole) = (Geometry::new(slots), Geometry::whole(16 * slots + 64));
            assert!(round.is_none() || whole.is_none());
            assert_eq!(Geometry::from_slots(slots), round.or(whole));
            for g in [round, whole].into_iter().flatten() {
                assert_eq!((g.slots(), g.is_whole()), (slots as usize, whole.is_some()));
                let has_aid = g.aid_words().is_power_of_two() && g.aid_words() >= 8;
                assert_eq!((has_aid, g.frame_bytes() == 64), (!g.is_whole(), g.is_whole()));
                assert!(g.page_bytes() <= LARGEST_PAGE && g.page_bytes().is_multiple_of(64));
            }
        }
        let bytes = |n: u32| Geometry::whole(n).map(|g| (g.slots(), g.page_bytes()));
        let all = [512, 1024, 2048, 4096, 8192, 16_384, 32_768].map(bytes);
        let slots = [28, 60, 124, 252, 508, 1020, 2044];
        assert_eq!(all, slots.map(|slots| Some((slots, 16 * slots + 64))));
        for none in [0, 64, 256, 513, 65_536, u32::MAX] {
            assert_eq!((bytes(none), Geometry::from_slots(none.saturating_mul(63))), (None, None));
        }
    }
}
