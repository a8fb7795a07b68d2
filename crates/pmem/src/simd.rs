//! Slots of a page, and bytes of the aid of a search in them, compared and moved by vectors: what the papers' nodes ask.
//!
//! A plain vector load of memory that another thread stores to has no defined meaning in Rust, so
//! the loads are `asm!` blocks; what they yield is compared with ordinary intrinsics. Each aligned
//! 8-byte lane is read whole, and a reader validates its latch version afterwards. The widest
//! variant is picked once at run time; other processors, and Miri, use the scalar path.
//!
//! **The rank of a key** in a ring, in one function: what a search in a node of the papers costs most.
//!
//! A ring is a body whose slots ascend by their key words from a slot on, its base, and go round at the body's end. Its
//! search aid has a *sentinel* for each line of four slots: the key word of the line's first slot, or the greatest word if
//! that slot is not live. A search looks at the sentinel of each eighth line, then at the seven behind one of these, and
//! then at the line:
//!
//! ```text
//! aid, b = lines / 8   word q < b: sentinel of line 8q | words b + 7q ...: those of the seven lines behind it, of each q
//!                      their top bits flipped: signed words are what vectors of all widths compare
//! block                the last one, in the order of keys, whose first sentinel is ≤ key
//! line                 the last one in the block whose sentinel is ≤ key
//! slot                 the last one in the line whose key word is ≤ key
//! ```
//!
//! So it loads three lines of the aid, of eight in a node of 4 KiB. The *number* of sentinels ≤ key, among all first ones or in
//! a block, does not depend on where the base is; what it means in the block of the base is reckoned modulo the block.
//!
//! No branch depends on what a line holds: it has just been asked for, and a wrong guess would wait for it to arrive. Dead
//! slots may hold anything, so of the slots of a line those count that come before the first greater one, and no more than
//! the node has. The blocks of a rank use registers that no caller has a value in, so they need no call, and no function that
//! is compiled for one processor.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(all(target_arch = "x86_64", not(miri)))]
use crate::bytes::{AVX2, AVX512, UNKNOWN, find_width, width};
use crate::lines_read::{LINE_BYTES, loaded};
use crate::page::{HEAD_WORDS, Page, Word};
use crate::sync::schedule::before_read;

/// The questions of a search to the slots of a page and to their aid, and moves of slots.
impl Page<'_> {
    /// Which of the 64 bytes of the header line, its words taken as little-endian, are equal to
    /// `byte`: bit i for byte i.
    #[inline(always)]
    pub fn head_bytes_eq(self, byte: u8) -> u64 {
        before_read();
        // SAFETY: each page begins with HEAD_WORDS = 8 words.
        unsafe { match_bytes(self.words(), byte) }
    }
    /// As [`head_bytes_eq`](Self::head_bytes_eq), for body line `line`, counted from 1 and taken
    /// modulo the body.
    #[inline(always)]
    pub fn line_bytes_eq(self, line: usize, byte: u8) -> u64 {
        before_read();
        let lines = self.slots() / 4;
        let line = line.wrapping_sub(1) & (lines - 1);
        // SAFETY: the body holds `lines` lines of 8 words after the header, and line is masked to no
        // more than the last one's number.
        unsafe { match_bytes(self.words().add(HEAD_WORDS * (1 + line)), byte) }
    }
    /// Which of the 64 bytes from byte `64 × block` of the search aid on are equal to `byte`.
    #[inline(always)]
    pub fn aid_bytes_eq(self, block: usize, byte: u8) -> u64 {
        before_read();
        let blocks = self.geometry().aid_words() / 8;
        debug_assert!(blocks > 0, "whole pages have no aid");
        let line = if blocks > 0 { 1 + (block & (blocks - 1)) } else { 0 };
        // SAFETY: the aid holds `blocks` lines of 64 bytes (a power of two) after the first line, which
        // there is in any case.
        unsafe {
            let at = self.frame().add(HEAD_WORDS * line);
            match_bytes(at, byte)
        }
    }
    /// Copies the `n` slots from physical slot `from` on, modulo the node, by one slot to the right
    /// or to the left. The caller holds the latch, and the order of the stores does not matter.
    pub(crate) fn move_slots(self, from: usize, n: usize, right: bool) {
        let slots = self.slots();
        debug_assert!(n < slots && from < slots);
        let run = |first: usize, count: usize| {
            debug_assert!(first + count + usize::from(right) <= slots);
            debug_assert!(right || first > 0 || count == 0);
            // SAFETY: the run and the slot beside it lie in the body (asserted above, and by the
            // cases below), and the caller holds the latch.
            unsafe {
                let at = self.words().add(HEAD_WORDS + 2 * first);
                move_by_slot(at, 2 * count, right);
            }
        };
        // The slot whose copy goes over the end of the body, if there is one, goes by itself.
        let (edge, crossing) = match right {
            true => (slots - 1, slots - 1 - from),
            false => (0, if from == 0 { 0 } else { slots - from }),
        };
        if n == 0 {
            return;
        }
        if crossing >= n {
            return run(from, n);
        }
        let behind = n - crossing - 1;
        let wrap = |word: usize| {
            let to = if right { 0 } else { slots - 1 };
            self.body_word(2 * to + word).put(self.body_word(2 * edge + word).load());
        };
        if right {
            run(0, behind);
            (0..2).for_each(wrap);
            run(from, crossing);
        } else {
            run(from, crossing);
            (0..2).for_each(wrap);
            run(1, behind);
        }
    }
}

/// Which of the 64 bytes at `at` are equal to `byte`: bit i for byte i.
///
/// # Safety
/// `at` must point to 8 readable atomics.
#[inline(always)]
unsafe fn match_bytes(at: *const AtomicU64, byte: u8) -> u64 {
    loaded(at, 64);
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        if std::arch::is_x86_feature_detected!("avx512bw") {
            // SAFETY: the caller's contract, and the feature is present.
            return unsafe { x86::match_bytes_avx512(at, byte) };
        }
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: as above.
            return unsafe { x86::match_bytes_avx2(at, byte) };
        }
    }
    // SAFETY: the caller's contract.
    unsafe { match_bytes_scalar(at, byte) }
}

/// # Safety
/// As [`match_bytes`].
unsafe fn match_bytes_scalar(at: *const AtomicU64, byte: u8) -> u64 {
    // SAFETY: the caller promises 8 readable atomics.
    let words = unsafe { std::slice::from_raw_parts(at, 8) };
    let bytes = words.iter().flat_map(|w| w.load(Ordering::Acquire).to_le_bytes());
    bytes.enumerate().fold(0, |mask, (i, b)| mask | u64::from(b == byte) << i)
}

/// Copies `n` words from `at` to the place two words (one slot) behind, or before, `at`.
///
/// # Safety
/// The words `at - 2 .. at + n + 2` that are read or written must be atomics of one page, whose
/// latch the caller holds: no other thread stores to them.
#[inline(always)]
unsafe fn move_by_slot(at: *const AtomicU64, n: usize, right: bool) {
    loaded(at, 8 * n);
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if n >= 8 && std::arch::is_x86_feature_detected!("avx512f") {
        // SAFETY: the caller's contract, and the feature is present.
        return unsafe { x86::move_avx512(at, n, right) };
    }
    // SAFETY: the caller's contract.
    unsafe { move_scalar(at, n, right) }
}

/// # Safety
/// As [`move_by_slot`].
unsafe fn move_scalar(at: *const AtomicU64, n: usize, right: bool) {
    let copy = |i: usize| {
        // SAFETY: i < n, and the target is two words beside it: all in the caller's range.
        unsafe {
            let from = at.add(i);
            let to = if right { from.add(2) } else { from.sub(2) };
            (*to).store((*from).load(Ordering::Relaxed), Ordering::Release);
        }
    };
    if right { (0..n).rev().for_each(copy) } else { (0..n).for_each(copy) }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod x86 {
    use super::AtomicU64;
    use std::arch::asm;
    use std::arch::x86_64::*;

    /// # Safety
    /// As [`super::match_bytes`], on a processor with AVX-512BW.
    #[target_feature(enable = "avx512f,avx512bw")]
    pub unsafe fn match_bytes_avx512(at: *const AtomicU64, byte: u8) -> u64 {
        let lanes: __m512i;
        // SAFETY: the caller promises 64 bytes.
        unsafe {
            asm!("vmovdqu64 {v}, [{p}]", v = out(zmm_reg) lanes, p = in(reg) at,
                 options(nostack, preserves_flags, readonly));
        }
        _mm512_cmpeq_epi8_mask(lanes, _mm512_set1_epi8(byte.cast_signed()))
    }

    /// # Safety
    /// As [`super::match_bytes`], on a processor with AVX2.
    #[target_feature(enable = "avx2")]
    pub unsafe fn match_bytes_avx2(at: *const AtomicU64, byte: u8) -> u64 {
        let byte = _mm256_set1_epi8(byte.cast_signed());
        let mut mask = 0;
        for half in 0..2 {
            let lanes: __m256i;
            // SAFETY: the caller promises 64 bytes; each half reads 32.
            unsafe {
                asm!("vmovdqu {v}, [{p}]", v = out(ymm_reg) lanes, p = in(reg) at.add(4 * half),
                     options(nostack, preserves_flags, readonly));
            }
            let equal = _mm256_movemask_epi8(_mm256_cmpeq_epi8(lanes, byte)).cast_unsigned();
            mask |= u64::from(equal) << (32 * half);
        }
        mask
    }

    /// Each block is loaded before it is stored, and blocks go against the direction of the move,
    /// so nothing is overwritten before it is read.
    ///
    /// # Safety
    /// As [`super::move_by_slot`], on a processor with AVX-512F; `n` at least 8.
    #[target_feature(enable = "avx512f")]
    pub unsafe fn move_avx512(at: *const AtomicU64, n: usize, right: bool) {
        let rest = n % 8;
        let (mut from, step, by): (_, isize, isize) =
            // SAFETY: both starts are inside the caller's range.
            if right { (unsafe { at.add(n - 8) }, -8, 2) } else { (at, 8, -2) };
        for _ in 0..n / 8 {
            // SAFETY: reads 8 of the n words and writes two words beside them, in the caller's
            // range; the latch keeps other writers away, and readers validate.
            unsafe {
                let lanes: __m512i;
                asm!("vmovdqu64 {v}, [{p}]", v = out(zmm_reg) lanes, p = in(reg) from,
                     options(nostack, preserves_flags, readonly));
                asm!("vmovdqu64 [{p}], {v}", v = in(zmm_reg) lanes, p = in(reg) from.offset(by),
                     options(nostack, preserves_flags));
                from = from.wrapping_offset(step);
            }
        }
        // SAFETY: what is left lies at the end that the blocks moved towards.
        unsafe {
            let left = if right { at } else { at.add(n - rest) };
            super::move_scalar(left, rest, right);
        }
    }
}

/// Slots of a line.
const PER_LINE: usize = LINE_BYTES / 16;
/// Lines of a block.
const BLOCK: usize = 8;
/// Slots of a block.
const IN_BLOCK: usize = PER_LINE * BLOCK;
/// Unsigned words with this bit flipped are in the order of signed ones.
const TOP: u64 = 1 << 63;
/// Slots of a node of 4 KiB, for which there is code of its own.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const SLOTS: usize = 256;

/// The aid's answer for a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct AidLook {
    /// The first slot of the block to which the first sentinels lead.
    block: usize,
    /// From there on, unless the base is in the block: the first slot of the line to which its others lead, or less than 0 if no
    /// sentinel is ≤ the key.
    slot: i32,
}

impl AidLook {
    /// The first slot of the line to which the sentinels lead, in a ring from `base` on.
    #[inline(always)]
    fn line(self, base: usize, mask: usize) -> usize {
        let from_block = (base + PER_LINE - 1) ^ self.block;
        let turned = if from_block < IN_BLOCK { from_block } else { 0 };
        self.block | (self.slot as usize).wrapping_add(turned) & (IN_BLOCK - PER_LINE) & mask
    }
}

/// A ring: the page's words, its aid, and how many slots it has.
#[derive(Clone, Copy)]
struct Ring {
    words: *const AtomicU64,
    aid: *const AtomicU64,
    slots: usize,
    base: usize,
    count: usize,
}

/// The ring of slots in a page, and its sentinels.
impl<'m> Page<'m> {
    #[inline(always)]
    fn ring(self, base: usize, count: usize) -> Ring {
        debug_assert!(!self.geometry().is_whole(), "nothing goes round in a whole page");
        let aid = self.frame().wrapping_add(HEAD_WORDS);
        Ring { words: self.words(), aid, slots: self.slots(), base, count }
    }

    /// How many of the `count` live slots from physical slot `base` on have a word `key_word` (0 or 1) that is ≤ `key`. While
    /// another thread stores to the page, any number up to `count`.
    #[inline(always)]
    pub fn rank_in_ring(self, base: usize, count: usize, key_word: usize, key: u64) -> usize {
        let ring = self.ring(base, count.min(self.slots()));
        // SAFETY: a page has the slots of its ring, and the aid.
        let Some(word) = (unsafe { ring.last(Vectors::of_processor(), key_word, key) }) else {
            return 0;
        };
        let slot = (word.as_ptr().addr() - ring.words.addr()) / 16 - HEAD_WORDS / 2;
        ((slot.wrapping_sub(base) & (ring.slots - 1)) + 1).min(ring.count)
    }

    /// The words of the last one of these slots. While another thread stores to the page, those of any slot.
    #[inline(always)]
    pub fn last_in_ring(
        self,
        vectors: Vectors,
        (base, count): (usize, usize),
        key_word: usize,
        key: u64,
    ) -> Option<[Word<'m>; 2]> {
        // SAFETY: a page has the slots of its ring, and the aid.
        let word = unsafe { self.ring(base, count).last(vectors, key_word, key) }?;
        // SAFETY: this is the first word of one of the slots.
        Some(unsafe { self.words_of(word) })
    }

    /// Asks the processor for the line of these slots that [`last_in_ring`](Self::last_in_ring) compares.
    #[inline(always)]
    pub fn prefetch_in_ring(self, vectors: Vectors, base: usize, key: u64) {
        let mask = self.slots() - 1;
        let look_from = ((base & mask) + IN_BLOCK - 1) / BLOCK;
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if self.slots() == SLOTS {
            let aid = self.frame().wrapping_add(HEAD_WORDS);
            let is_wide = vectors.width == AVX512;
            if is_wide || vectors.width == AVX2 {
                // SAFETY: the processor has what it says, and a node of 4 KiB has eight blocks.
                let look = unsafe {
                    match is_wide {
                        true => rank_x86::look_avx512(aid, look_from, key),
                        false => rank_x86::look_avx2(aid, look_from, key),
                    }
                };
                self.prefetch_body(2 * look.line(base & mask, mask));
            }
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let _ = (vectors, look_from, key);
    }

    /// Sets the sentinel of body line `line`. The greatest word is that of a line whose first slot is not live. The caller holds
    /// the latch.
    #[inline(always)]
    pub fn set_sentinel(self, line: usize, key: u64) {
        let (blocks, block) = (self.geometry().aid_words() / BLOCK, line / BLOCK);
        let is_first = line.is_multiple_of(BLOCK);
        let word = if is_first { block } else { blocks + line - block - 1 };
        self.set_aid(word, key ^ TOP);
    }

    /// Sets the sentinels of the lines that begin among the `n` slots from physical slot `first` on, modulo the body, to the words
    /// `key_word` of their first slots. The caller holds the latch.
    #[inline]
    pub fn set_sentinels(self, first: usize, n: usize, key_word: usize) {
        let lines = self.slots() / PER_LINE;
        let from = first.wrapping_neg() % PER_LINE;
        let n = n.saturating_sub(from).div_ceil(PER_LINE);
        let mut line = ((first + from) / PER_LINE) & (lines - 1);
        for _ in 0..n {
            self.set_sentinel(line, self.body(8 * line + key_word).load());
            line = (line + 1) & (lines - 1);
        }
    }

    /// Sets no sentinel for any line. The caller holds the latch.
    pub fn clear_sentinels(self) {
        for word in 0..self.geometry().aid_words() {
            self.set_aid(word, u64::MAX ^ TOP);
        }
    }
}

/// The vectors of this processor, for a caller that searches often and asks once.
#[derive(Debug, Clone, Copy)]
pub struct Vectors {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    width: u8,
}

impl Vectors {
    /// The widest ones, as far as the processor was asked: else none, and the search asks it.
    #[inline(always)]
    pub fn of_processor() -> Self {
        Self {
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            width: width(),
        }
    }
}

impl Ring {
    /// The first word of the last slot whose word `key_word` is ≤ `key`.
    ///
    /// # Safety
    /// The words behind the header must be those of so many slots, a power of two, and the aid that of as many: all readable atomics.
    #[inline(always)]
    unsafe fn last(
        self,
        vectors: Vectors,
        key_word: usize,
        key: u64,
    ) -> Option<NonNull<AtomicU64>> {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if self.slots == SLOTS {
            let ring = Self { slots: SLOTS, ..self };
            if vectors.width == AVX512 {
                // SAFETY: the processor has what it says, and a node of 4 KiB has eight blocks.
                let look = |at, block, key| unsafe { rank_x86::look_avx512(at, block, key) };
                // SAFETY: the caller's contract.
                return unsafe { ring.last_by(key_word, key, look) };
            }
            if vectors.width == AVX2 {
                // SAFETY: as above.
                let look = |at, block, key| unsafe { rank_x86::look_avx2(at, block, key) };
                // SAFETY: the caller's contract.
                return unsafe { ring.last_by(key_word, key, look) };
            }
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let _ = vectors;
        let run = self.base | self.count << 32;
        // SAFETY: the caller's contract.
        unsafe { last_of_any(self.words, self.aid, self.slots, run, key_word, key) }
    }

    /// The same by a look at the aid: at which place, from which block on (in fourths of
    /// it, of which the last is not looked at), for which key. The key is not the greatest word.
    ///
    /// # Safety
    /// As [`last`](Self::last). The block that a look says must be one of the page's.
    #[inline(always)]
    unsafe fn last_by(
        self,
        key_word: usize,
        key: u64,
        look: impl Fn(*const AtomicU64, usize, u64) -> AidLook,
    ) -> Option<NonNull<AtomicU64>> {
        let mask = self.slots - 1;
        let base = self.base & mask;
        let word_of = |slot: usize| {
            // SAFETY: slots are masked, or were found in the page.
            unsafe { NonNull::new_unchecked(self.words.add(HEAD_WORDS + 2 * slot).cast_mut()) }
        };
        let end = |count: usize| {
            (count > 0).then(|| word_of(base.wrapping_add(count).wrapping_sub(1) & mask))
        };
        if key == u64::MAX {
            // Sentinels of dead lines would count, too.
            return end(self.count);
        }
        before_read();
        let AidLook { block, slot } = look(self.aid, (base + IN_BLOCK - 1) / BLOCK, key);
        if slot < 0 {
            // Of the base's line only slots from the base on are that small.
            let in_line = (base.wrapping_neg() % PER_LINE).min(self.count);
            let first = self.words.wrapping_add(HEAD_WORDS + 2 * (base & mask) + (key_word & 1));
            // SAFETY: the slots lie in the base's line.
            return end(unsafe { le_from(first, in_line, key) });
        }
        let first = AidLook { block, slot }.line(base, mask);
        before_read();
        // SAFETY: a line of the body begins with that slot: the block is one of the page's, and the line is in it.
        let behind = unsafe { le_behind_first(self.words, first, key_word & 1, key) };
        if (first.wrapping_sub(base) & mask) + behind >= self.count {
            return end(self.count);
        }
        Some(word_of(first + behind))
    }
}

/// The search for nodes of all sizes and for all processors. Base and count are one word, so that all arguments have a register.
///
/// # Safety
/// As [`Ring::last`].
#[inline(never)]
unsafe fn last_of_any(
    words: *const AtomicU64,
    aid: *const AtomicU64,
    slots: usize,
    run: usize,
    key_word: usize,
    key: u64,
) -> Option<NonNull<AtomicU64>> {
    let ring = Ring { words, aid, slots, base: run & 0xffff, count: run >> 32 };
    let blocks = slots.div_ceil(IN_BLOCK);
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        if width() == UNKNOWN {
            find_width();
        }
        if width() == AVX512 {
            // SAFETY: here and below, `last_by` gives the ring's own aid, and the processor has what it says.
            let look = |at, block, key| unsafe {
                look_by(at, blocks, block, |at, lanes| rank_x86::le_avx512(at, lanes, key))
            };
            // SAFETY: the caller's contract.
            return unsafe { ring.last_by(key_word, key, look) };
        }
        if width() == AVX2 && blocks < BLOCK {
            // SAFETY: as above.
            let look = |at, block, key| unsafe { rank_x86::look_few_avx2(at, blocks, block, key) };
            // SAFETY: the caller's contract.
            return unsafe { ring.last_by(key_word, key, look) };
        }
        if width() == AVX2 {
            // SAFETY: as above.
            let look = |at, block, key| unsafe {
                look_by(at, blocks, block, |at, lanes| rank_x86::le_avx2(at, lanes, key))
            };
            // SAFETY: the caller's contract.
            return unsafe { ring.last_by(key_word, key, look) };
        }
    }
    // SAFETY: as above.
    let look = |at, block, key| unsafe {
        look_by(at, blocks, block, |at, lanes| le_scalar(at, lanes, key))
    };
    // SAFETY: the caller's contract.
    unsafe { ring.last_by(key_word, key, look) }
}

/// Looks at an aid of so many blocks with a way to count the words ≤ a key among eight, a bit for each of which says whether it
/// counts.
///
/// # Safety
/// `at` must point to 8 readable atomics for each block; `le` is given places of 8 of them.
#[inline(always)]
unsafe fn look_by(
    at: *const AtomicU64,
    blocks: usize,
    block: usize,
    le: impl Fn(*const AtomicU64, u32) -> u32,
) -> AidLook {
    loaded(at, 8 * blocks);
    let mut firsts = 0;
    let mut first = 0;
    while first < blocks {
        // As many words as there are blocks, and seven times as many behind them.
        firsts += le(at.wrapping_add(first), 0xff >> BLOCK.saturating_sub(blocks - first));
        first += BLOCK;
    }
    let block = (block / 4).wrapping_add(firsts as usize).wrapping_sub(1) & (blocks - 1);
    let seven = blocks + (BLOCK - 1) * block;
    loaded(at.wrapping_add(seven), 8 * (BLOCK - 1));
    // The block's words, and the word before them, so that the last ones are not behind the end.
    let others = le(at.wrapping_add(seven - 1), 0xfe) as i32;
    AidLook { block: block * IN_BLOCK, slot: PER_LINE as i32 * (others - i32::from(firsts == 0)) }
}

/// How many of the `n` slots from `word` on, a word of the first one, have one there that is ≤ `key` and come before the first
/// greater one.
///
/// # Safety
/// The slots must be readable atomics.
#[cold]
unsafe fn le_from(word: *const AtomicU64, n: usize, key: u64) -> usize {
    let is_le = |slot: &usize| {
        before_read();
        loaded(word.wrapping_add(2 * slot), 8);
        // SAFETY: one of the caller's slots.
        unsafe { (*word.add(2 * slot)).load(Ordering::Acquire) <= key }
    };
    (0..n).take_while(is_le).count()
}

/// # Safety
/// `at` must point to 8 readable atomics.
unsafe fn le_scalar(at: *const AtomicU64, lanes: u32, key: u64) -> u32 {
    // SAFETY: the caller promises 8 readable atomics.
    let words = unsafe { std::slice::from_raw_parts(at, BLOCK) };
    let is_le = |word: &AtomicU64| u32::from(word.load(Ordering::Acquire) ^ TOP <= key);
    words.iter().enumerate().map(|(i, word)| is_le(word) & lanes >> i).sum()
}

/// How many of the three slots behind slot `first` of a page, which begins a line, have a word `key_word` that is ≤ `key`, before
/// the first greater one.
///
/// # Safety
/// The slots must be readable atomics behind the header at `words`; `key_word` must be 0 or 1.
#[inline(always)]
unsafe fn le_behind_first(
    words: *const AtomicU64,
    first: usize,
    key_word: usize,
    key: u64,
) -> usize {
    loaded(words.wrapping_add(HEAD_WORDS + 2 * first), LINE_BYTES);
    // SAFETY: the caller's contract.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    unsafe {
        match key_word {
            0 => rank_x86::le_behind_first::<0>(words, first, key),
            _ => rank_x86::le_behind_first::<8>(words, first, key),
        }
    }
    // SAFETY: the caller's contract.
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    unsafe {
        le_behind_first_scalar(words, first, key_word, key)
    }
}

/// # Safety
/// As [`le_behind_first`].
#[cfg_attr(all(target_arch = "x86_64", not(miri)), allow(dead_code, reason = "the tests' twin"))]
#[inline(always)]
unsafe fn le_behind_first_scalar(
    words: *const AtomicU64,
    first: usize,
    key_word: usize,
    key: u64,
) -> usize {
    let is_greater = |slot: usize| {
        // SAFETY: one of the caller's slots.
        let word = unsafe { &*words.add(HEAD_WORDS + 2 * (first + slot) + key_word) };
        u32::from(word.load(Ordering::Acquire) > key)
    };
    // A bit for each, and one behind them.
    (is_greater(1) | is_greater(2) << 1 | is_greater(3) << 2 | 8).trailing_zeros() as usize
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod rank_x86 {
    use std::arch::asm;
    use std::sync::atomic::AtomicU64;

    use super::{AidLook, BLOCK, IN_BLOCK, LINE_BYTES, SLOTS, TOP};
    use crate::lines_read::loaded;

    const _: () = assert!(SLOTS / IN_BLOCK == 8 && BLOCK == 8, "the numbers in the blocks below");

    /// A word that is greater than a sentinel if the key is not less than it. The key is not the greatest word.
    #[inline(always)]
    fn above(key: u64) -> u64 {
        (key ^ TOP).wrapping_add(1)
    }

    /// Both steps of [`look_by`](super::look_by) in one block, for eight blocks. Registers 16 to 31 hold nothing that has to be
    /// cleared afterwards.
    ///
    /// # Safety
    /// `at` must point to 64 readable atomics; the processor must have AVX-512F.
    #[inline(always)]
    pub unsafe fn look_avx512(at: *const AtomicU64, block: usize, key: u64) -> AidLook {
        let (block_slot, slot, seven): (usize, i32, u64);
        // SAFETY: the last load is of 8 of the words, from one before the seven of a block on.
        unsafe {
            asm!(
                "vpbroadcastq zmm16, {key}",
                "vpcmpgtq k1, zmm16, zmmword ptr [{p}]",
                "kmovw {n:e}, k1",
                "popcnt {n:e}, {n:e}",
                "lea {t:e}, [{t:r} + 4 * {n:r} - 4]",
                "and {t:e}, 28",
                "imul {s:e}, {t:e}, 14",
                "shl {t:e}, 3",
                "vpcmpgtq k2, zmm16, zmmword ptr [{p} + {s} + 56]",
                "kmovw {m:e}, k2",
                "shr {m:e}, 1",
                "popcnt {m:e}, {m:e}",
                // One less if no first sentinel was ≤ the key.
                "cmp {n:e}, 1",
                "sbb {m:e}, 0",
                "shl {m:e}, 2",
                key = in(reg) above(key), p = in(reg) at, n = out(reg) _,
                t = inout(reg) block => block_slot, m = out(reg) slot, s = out(reg) seven,
                out("xmm16") _, out("k1") _, out("k2") _, options(nostack, readonly),
            );
        }
        both_loaded(at, seven);
        AidLook { block: block_slot, slot }
    }

    /// How many of 8 words are ≤ `key`, of those whose bit is set.
    ///
    /// # Safety
    /// `at` must point to 8 readable atomics; the processor must have AVX-512F.
    #[inline(always)]
    pub unsafe fn le_avx512(at: *const AtomicU64, lanes: u32, key: u64) -> u32 {
        let count: u32;
        // SAFETY: the caller promises 8 words.
        unsafe {
            asm!(
                "vpbroadcastq zmm16, {key}",
                "vpcmpgtq k1, zmm16, zmmword ptr [{p}]",
                "kmovw {n:e}, k1",
                "and {n:e}, {lanes:e}",
                "popcnt {n:e}, {n:e}",
                key = in(reg) above(key), p = in(reg) at, lanes = in(reg) lanes, n = out(reg) count,
                out("xmm16") _, out("k1") _, options(nostack, readonly),
            );
        }
        count
    }

    /// A block with the registers of AVX, whose upper halves are cleared at the end: what follows need not wait for them.
    macro_rules! avx {
        ($($line:literal),*; $($operand:tt)*) => {
            asm!(
                $($line,)*
                $($operand)*
                out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _,
                out("xmm5") _, out("xmm6") _, out("xmm7") _, out("xmm8") _, out("xmm9") _,
                out("xmm10") _, out("xmm11") _, out("xmm12") _, out("xmm13") _,
                out("xmm14") _, out("xmm15") _, options(nostack, readonly),
            )
        };
    }

    /// As [`look_avx512`].
    ///
    /// # Safety
    /// `at` must point to 64 readable atomics; the processor must have AVX2.
    #[inline(always)]
    pub unsafe fn look_avx2(at: *const AtomicU64, block: usize, key: u64) -> AidLook {
        let (block_slot, slot, seven): (usize, i32, u64);
        // SAFETY: the last loads are of 8 of the words, from one before the seven of a block on.
        unsafe {
            avx!(
                "vmovq xmm0, {key}",
                "vpbroadcastq ymm0, xmm0",
                "vpcmpgtq ymm1, ymm0, ymmword ptr [{p}]",
                "vpcmpgtq ymm2, ymm0, ymmword ptr [{p} + 32]",
                // Four bits for each word; those of the first word are the lowest.
                "vpackssdw ymm1, ymm1, ymm2",
                "vpmovmskb {n:e}, ymm1",
                "popcnt {n:e}, {n:e}",
                "lea {t:e}, [{t:r} + {n:r} - 4]",
                "and {t:e}, 28",
                "imul {s:e}, {t:e}, 14",
                "shl {t:e}, 3",
                "vpcmpgtq ymm1, ymm0, ymmword ptr [{p} + {s} + 56]",
                "vpcmpgtq ymm2, ymm0, ymmword ptr [{p} + {s} + 88]",
                "vpackssdw ymm1, ymm1, ymm2",
                "vpmovmskb {m:e}, ymm1",
                "vzeroupper",
                "shr {m:e}, 4",
                "popcnt {m:e}, {m:e}",
                // Four less if no first sentinel was ≤ the key.
                "cmp {n:e}, 1",
                "sbb {n:e}, {n:e}",
                "lea {m:e}, [{m:r} + 4 * {n:r}]";
                key = in(reg) above(key), p = in(reg) at, n = out(reg) _,
                t = inout(reg) block => block_slot, m = out(reg) slot, s = out(reg) seven,
            );
        }
        both_loaded(at, seven);
        AidLook { block: block_slot, slot }
    }

    /// As [`look_avx2`], for so many blocks: 1, 2 or 4.
    ///
    /// # Safety
    /// `at` must point to 8 readable atomics for each block; the processor must have AVX2.
    #[inline(always)]
    pub unsafe fn look_few_avx2(
        at: *const AtomicU64,
        blocks: usize,
        block: usize,
        key: u64,
    ) -> AidLook {
        // Which four bits of a mask are those of the first sentinels: words 0, 1, 4, 5, 2, 3, 6, 7 are in this order.
        let lanes: u32 = match blocks {
            1 => 0xf,
            2 => 0xff,
            _ => 0xff_00ff,
        };
        let (block_slot, slot): (usize, i32);
        // SAFETY: the last loads are of 8 of the words, from one before the seven of a block on.
        unsafe {
            avx!(
                "vmovq xmm0, {key}",
                "vpbroadcastq ymm0, xmm0",
                "vpcmpgtq ymm1, ymm0, ymmword ptr [{p}]",
                "vpcmpgtq ymm2, ymm0, ymmword ptr [{p} + 32]",
                "vpackssdw ymm1, ymm1, ymm2",
                "vpmovmskb {n:e}, ymm1",
                "and {n:e}, {lanes:e}",
                "popcnt {n:e}, {n:e}",
                "lea {t:e}, [{t:r} + {n:r} - 4]",
                "and {t:e}, {last:e}",
                "imul {s:e}, {t:e}, 14",
                "shl {t:e}, 3",
                "vpcmpgtq ymm1, ymm0, ymmword ptr [{q} + {s}]",
                "vpcmpgtq ymm2, ymm0, ymmword ptr [{q} + {s} + 32]",
                "vpackssdw ymm1, ymm1, ymm2",
                "vpmovmskb {m:e}, ymm1",
                "vzeroupper",
                "shr {m:e}, 4",
                "popcnt {m:e}, {m:e}",
                "cmp {n:e}, 1",
                "sbb {n:e}, {n:e}",
                "lea {m:e}, [{m:r} + 4 * {n:r}]";
                key = in(reg) above(key), p = in(reg) at, q = in(reg) at.add(blocks - 1),
                lanes = in(reg) lanes, last = in(reg) 4 * (blocks - 1), n = out(reg) _,
                t = inout(reg) block => block_slot, m = out(reg) slot, s = out(reg) _,
            );
        }
        loaded(at, 8 * blocks);
        loaded(at.wrapping_add(blocks + (BLOCK - 1) * (block_slot / IN_BLOCK)), 8 * (BLOCK - 1));
        AidLook { block: block_slot, slot }
    }

    /// As [`le_avx512`].
    ///
    /// # Safety
    /// `at` must point to 8 readable atomics; the processor must have AVX2.
    #[inline(always)]
    pub unsafe fn le_avx2(at: *const AtomicU64, lanes: u32, key: u64) -> u32 {
        let count: u32;
        // SAFETY: the caller promises 8 words.
        unsafe {
            avx!(
                "vmovq xmm0, {key}",
                "vpbroadcastq ymm0, xmm0",
                "vpcmpgtq ymm1, ymm0, ymmword ptr [{p}]",
                "vpcmpgtq ymm2, ymm0, ymmword ptr [{p} + 32]",
                "vmovmskpd {n:e}, ymm1",
                "vmovmskpd {m:e}, ymm2",
                "vzeroupper",
                "shl {m:e}, 4",
                "or {n:e}, {m:e}",
                "and {n:e}, {lanes:e}",
                "popcnt {n:e}, {n:e}";
                key = in(reg) above(key), p = in(reg) at, lanes = in(reg) lanes, n = out(reg) count,
                m = out(reg) _,
            );
        }
        count
    }

    /// The lines of an aid that both steps load.
    #[inline(always)]
    fn both_loaded(at: *const AtomicU64, seven: u64) {
        loaded(at, LINE_BYTES);
        loaded(at.wrapping_byte_add(seven as usize + LINE_BYTES), LINE_BYTES - 8);
    }

    /// By the carry of each comparison: no vector is as short. `AT` is where the word is in its slot, in bytes.
    ///
    /// # Safety
    /// As [`super::le_behind_first`]; `AT` must be 0 or 8.
    #[inline(always)]
    pub unsafe fn le_behind_first<const AT: usize>(
        words: *const AtomicU64,
        first: usize,
        key: u64,
    ) -> usize {
        let mut greater: u32 = 1;
        // SAFETY: the words of the line's other slots behind the header, as the caller promises.
        unsafe {
            asm!(
                "cmp {key}, qword ptr [{p} + {slot} + 112 + {at}]",
                "adc {r:e}, {r:e}",
                "cmp {key}, qword ptr [{p} + {slot} + 96 + {at}]",
                "adc {r:e}, {r:e}",
                "cmp {key}, qword ptr [{p} + {slot} + 80 + {at}]",
                "adc {r:e}, {r:e}",
                r = inout(reg) greater, key = in(reg) key, p = in(reg) words,
                slot = in(reg) 16 * first, at = const AT, options(nostack, readonly),
            );
            // The bit that was there at first has moved up by three.
            std::hint::assert_unchecked(greater >= 8);
        }
        greater.trailing_zeros() as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_move_by_a_slot_in_both_directions_at_every_length() {
        for n in 0..40 {
            for right in [false, true] {
                let words: Vec<AtomicU64> = (0..50).map(AtomicU64::new).collect();
                let mut want: Vec<u64> = (0..50).collect();
                want.copy_within(4..4 + n, if right { 6 } else { 2 });
                // SAFETY: words 2..4 + n + 2 are there.
                unsafe { move_by_slot(words.as_ptr().add(4), n, right) };
                let got: Vec<u64> = words.iter().map(|w| w.load(Ordering::Relaxed)).collect();
                assert_eq!(got, want, "{n} words, right {right}");
            }
        }
    }

    #[test]
    fn all_variants_find_the_same_bytes() {
        let words: Vec<AtomicU64> =
            (0..8u64).map(|i| AtomicU64::new(0x00ff_0780_7f01_0203 ^ (i * 0x0101))).collect();
        for byte in 0..=255 {
            // SAFETY: 8 words are there, features are checked.
            unsafe {
                let want = match_bytes_scalar(words.as_ptr(), byte);
                assert_eq!(match_bytes(words.as_ptr(), byte), want);
                #[cfg(all(target_arch = "x86_64", not(miri)))]
                if std::arch::is_x86_feature_detected!("avx2") {
                    assert_eq!(x86::match_bytes_avx2(words.as_ptr(), byte), want);
                }
            }
        }
    }
}

#[cfg(test)]
mod rank_tests {
    use super::*;
    use crate::{Dram, Geometry, Medium};

    /// A stream of numbers that need not be good, only the same each time.
    struct Numbers(u64);

    impl Numbers {
        fn next(&mut self) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0
        }
        fn below(&mut self, end: usize) -> usize {
            (self.next() % end as u64) as usize
        }
        /// A key, near the ends of all keys as often as between them.
        fn key(&mut self) -> u64 {
            let near = self.next() % 50;
            match self.next() % 4 {
                0 => near,
                1 => u64::MAX - near,
                2 => TOP - 25 + near,
                _ => self.next(),
            }
        }
    }

    /// A ring at random, with its sentinels; what is not live may be anything.
    fn fill(m: &Dram, page: Page<'_>, key_word: usize, numbers: &mut Numbers) -> (usize, Vec<u64>) {
        let slots = page.slots();
        let (base, count) = (numbers.below(slots), numbers.below(slots + 1));
        let mut keys: Vec<u64> = (0..count).map(|_| numbers.key()).collect();
        keys.sort_unstable();
        for word in 0..2 * slots {
            m.store(page.body(word), numbers.key());
        }
        page.clear_sentinels();
        for (i, key) in keys.iter().enumerate() {
            let slot = (base + i) % slots;
            m.store(page.body(2 * slot + key_word), *key);
            if slot.is_multiple_of(PER_LINE) {
                page.set_sentinel(slot / PER_LINE, *key);
            }
        }
        (base, keys)
    }

    type Look = Box<dyn Fn(*const AtomicU64, usize, u64) -> AidLook>;

    /// All ways that this processor has to look at the aid of a page.
    fn ways(page: Page<'_>) -> Vec<(&'static str, Look)> {
        let blocks = page.geometry().aid_words() / BLOCK;
        let mut ways: Vec<(_, Look)> = Vec::new();
        // SAFETY: here and below, they are given the page's aid, and the processor has what it says.
        let scalar = move |at, t, key| unsafe {
            look_by(at, blocks, t, |at, lanes| le_scalar(at, lanes, key))
        };
        ways.push(("scalar", Box::new(scalar)));
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            use rank_x86::*;
            if std::arch::is_x86_feature_detected!("avx512f") {
                // SAFETY: as above.
                let any = move |at, t, key| unsafe {
                    look_by(at, blocks, t, |at, lanes| le_avx512(at, lanes, key))
                };
                ways.push(("AVX-512", Box::new(any)));
                if page.slots() == SLOTS {
                    // SAFETY: as above.
                    let one = |at, t, key| unsafe { look_avx512(at, t, key) };
                    ways.push(("AVX-512 at once", Box::new(one)));
                }
            }
            if std::arch::is_x86_feature_detected!("avx2") {
                // SAFETY: as above.
                let any = move |at, t, key| unsafe {
                    look_by(at, blocks, t, |at, lanes| le_avx2(at, lanes, key))
                };
                ways.push(("AVX2", Box::new(any)));
                if blocks < BLOCK {
                    // SAFETY: as above.
                    let few = move |at, t, key| unsafe { look_few_avx2(at, blocks, t, key) };
                    ways.push(("AVX2, few blocks", Box::new(few)));
                }
                if page.slots() == SLOTS {
                    // SAFETY: as above.
                    let one = |at, t, key| unsafe { look_avx2(at, t, key) };
                    ways.push(("AVX2 at once", Box::new(one)));
                }
            }
        }
        ways
    }

    #[test]
    fn all_variants_find_the_same_slot_in_rings_at_random() {
        let mut numbers = Numbers(12);
        let sizes: &[u32] =
            if cfg!(miri) { &[4, 32, 64] } else { &[4, 8, 16, 32, 64, 128, 256, 512, 1024] };
        for slots in sizes {
            let m = Dram::new(Geometry::new(*slots).expect("valid"), 2).expect("memory");
            // The last page: what is read behind its frame is not the region's.
            let page = m.page(1).expect("inside");
            let ways = ways(page);
            for round in 0..if cfg!(miri) { 4 } else { 400 } {
                let key_word = round % 2;
                let (base, keys) = fill(&m, page, key_word, &mut numbers);
                let beside =
                    keys.iter().flat_map(|key| [key.wrapping_sub(1), *key, key.wrapping_add(1)]);
                let probes: Vec<u64> = beside.chain([0, TOP, u64::MAX, numbers.key()]).collect();
                for key in probes.into_iter().step_by(1 + page.slots() / 64) {
                    let want = keys.partition_point(|k| *k <= key);
                    let of = format!("{key:#x} from {base} on in {keys:x?} of {slots} slots");
                    assert_eq!(page.rank_in_ring(base, keys.len(), key_word, key), want, "{of}");
                    let slot = want.checked_sub(1).map(|last| (base + last) % page.slots());
                    for (way, look) in &ways {
                        let ring = page.ring(base, keys.len());
                        // SAFETY: it is the page's.
                        let found = unsafe { ring.last_by(key_word, key, look) };
                        let want = slot.map(|slot| ring.words.wrapping_add(HEAD_WORDS + 2 * slot));
                        assert_eq!(
                            found.map(|word| word.as_ptr().cast_const()),
                            want,
                            "{way}: {of}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn a_ring_that_makes_no_sense_leads_to_a_slot_of_the_page() {
        let mut numbers = Numbers(34);
        for slots in [4, 64, 256] {
            let m = Dram::new(Geometry::new(slots).expect("valid"), 2).expect("memory");
            let page = m.page(1).expect("inside");
            let ways = ways(page);
            for _ in 0..if cfg!(miri) { 20 } else { 2000 } {
                (0..2 * page.slots()).for_each(|word| m.store(page.body(word), numbers.key()));
                (0..page.geometry().aid_words()).for_each(|word| page.set_aid(word, numbers.key()));
                let run = (numbers.below(page.slots()), numbers.below(1 << 16));
                let key = numbers.key();
                for (_, look) in &ways {
                    let ring = page.ring(run.0, run.1);
                    // SAFETY: it is the page's.
                    let found = unsafe { ring.last_by(0, key, look) };
                    let bytes = page.geometry().page_bytes();
                    let is_inside = |at: usize| (64..bytes).contains(&at) && at.is_multiple_of(16);
                    let from = ring.words.addr();
                    assert!(found.is_none_or(|word| is_inside(word.addr().get() - from)));
                }
                assert!(page.rank_in_ring(run.0, run.1, 0, key) <= run.1.min(page.slots()));
            }
        }
    }

    #[test]
    fn slots_of_a_line_are_compared_alike() {
        let mut numbers = Numbers(56);
        for _ in 0..1000 {
            let words: Vec<AtomicU64> = (0..24).map(|_| AtomicU64::new(numbers.key())).collect();
            let (at, key) = (words.as_ptr(), words[numbers.below(24)].load(Ordering::Relaxed));
            for (first, word) in [(0, 0), (0, 1), (4, 0), (4, 1)] {
                // SAFETY: eight slots are there behind a header.
                unsafe {
                    let scalar = le_behind_first_scalar(at, first, word, key);
                    assert_eq!(le_behind_first(at, first, word, key), scalar);
                }
            }
        }
    }
}
