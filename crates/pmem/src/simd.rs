//! Slots of a page, and the aid of a search in them, counted and moved by vectors: what the papers' nodes ask.
//!
//! A plain vector load of memory that another thread stores to has no defined meaning in Rust, so
//! the loads are `asm!` blocks; what they yield is compared with ordinary intrinsics. Each aligned
//! 8-byte lane is read whole, and a reader validates its latch version afterwards. The widest
//! variant is picked once at run time; other processors, and Miri, use the scalar path.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::bytes::count_le_scalar;
use crate::lines_read::loaded;
use crate::page::{HEAD_WORDS, Page};
use crate::sync::schedule::before_read;

/// What a search asks of the slots of a page and of their aid, and how slots move.
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
    /// How many aid words are ≤ `key`, by the widest vectors that the processor has.
    #[inline(always)]
    pub fn aids_le(self, key: u64) -> usize {
        before_read();
        let n = self.geometry().aid_words();
        // SAFETY: the frame holds aid_words() words (a multiple of 8, or none) after its first line.
        unsafe { count_le(self.frame().add(HEAD_WORDS), n, key) }
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

/// How many of the `n` words at `at` are ≤ `key`.
///
/// # Safety
/// `at` must point to `n` readable atomics; `n` must be a multiple of 8.
#[inline(always)]
unsafe fn count_le(at: *const AtomicU64, n: usize, key: u64) -> usize {
    loaded(at, 8 * n);
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        if std::arch::is_x86_feature_detected!("avx512f") {
            // SAFETY: the caller's contract, and the feature is present.
            return unsafe { crate::bytes::x86::count_le_avx512(at, n, key) };
        }
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: as above.
            return unsafe { x86::count_le_avx2(at, n, key) };
        }
    }
    // SAFETY: the caller's contract.
    unsafe { count_le_scalar(at, n, key) }
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

    /// # Safety
    /// As [`super::count_le`], on a processor with AVX2; `n` may also be a multiple of 4.
    #[target_feature(enable = "avx2,popcnt")]
    pub unsafe fn count_le_avx2(at: *const AtomicU64, n: usize, key: u64) -> usize {
        // AVX2 compares signed words only: flipping the top bit of both sides keeps the order.
        let flip = _mm256_set1_epi64x(i64::MIN);
        let key = _mm256_xor_si256(_mm256_set1_epi64x(key.cast_signed()), flip);
        let mut greater = 0;
        let mut i = 0;
        while i < n {
            let lanes: __m256i;
            // SAFETY: the caller promises n words, a multiple of 4; the block reads 32 bytes.
            unsafe {
                asm!("vmovdqu {v}, [{p}]", v = out(ymm_reg) lanes, p = in(reg) at.add(i),
                     options(nostack, preserves_flags, readonly));
            }
            let gt = _mm256_cmpgt_epi64(_mm256_xor_si256(lanes, flip), key);
            greater += _mm256_movemask_pd(_mm256_castsi256_pd(gt)).count_ones() as usize;
            i += 4;
        }
        n - greater
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

    #[test]
    fn all_variants_count_alike() {
        let edge = [0, 1, 2, 7, u64::MAX / 2, u64::MAX / 2 + 1, u64::MAX - 1, u64::MAX];
        let words: Vec<AtomicU64> =
            (0..64u64).map(|i| AtomicU64::new(edge[(i * 5 % 8) as usize] ^ (i / 8))).collect();
        for n in [8, 16, 64] {
            for key in edge.iter().flat_map(|&k| [k, k ^ 3, k.wrapping_add(9)]) {
                let want = words[..n].iter().filter(|w| w.load(Ordering::Relaxed) <= key).count();
                // SAFETY: n words are there, n is a multiple of 8, features are checked.
                unsafe {
                    assert_eq!(count_le_scalar(words.as_ptr(), n, key), want);
                    assert_eq!(count_le(words.as_ptr(), n, key), want);
                    #[cfg(all(target_arch = "x86_64", not(miri)))]
                    if std::arch::is_x86_feature_detected!("avx2") {
                        assert_eq!(x86::count_le_avx2(words.as_ptr(), n, key), want);
                    }
                }
            }
        }
    }
}
