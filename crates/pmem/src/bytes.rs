//! Bytes of a page, copied, compared and moved while other threads may store to them.
//!
//! The words of a page are atomics. Nodes also keep entries that begin and end at any byte, and Rust
//! has no atomic copy of bytes. So each load and store of page memory here is an `asm!` block of 1, 2,
//! 4, 8, 16, 32 or 64 bytes: what races with it yields old or new bytes in any mixture, and nothing
//! worse. A reader validates its latch version afterwards, as after any other read.
//!
//! On x86-64 every plain load is an Acquire and every plain store a Release, whatever its width, and
//! the compiler moves no access to memory across a block that may write to it, nor a load of a block
//! before an Acquire or behind a fence. So a block stands for the Acquire loads and Release stores that
//! [`scalar`] makes of whole words: that is what Miri and other processors run.
//!
//! A short copy is two loads that may overlap: the first bytes and the last ones.

use std::cmp::Ordering;
use std::sync::atomic::AtomicU64;

use crate::lines_read::loaded;

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
use scalar as imp;
#[cfg(all(target_arch = "x86_64", not(miri)))]
use x86 as imp;

/// The 8 bytes from byte `at` behind `words` on, as a little-endian number.
///
/// # Safety
/// The bytes must lie in readable atomics at `words`.
#[inline(always)]
pub(crate) unsafe fn load(words: *const AtomicU64, at: usize) -> u64 {
    loaded(words.cast::<u8>().wrapping_add(at), 8);
    // SAFETY: the caller's contract.
    unsafe { imp::load(words, at) }
}

/// Copies `n` bytes from byte `at` behind `words` on to `to`.
///
/// # Safety
/// The bytes must lie in readable atomics at `words`; `to` must be valid for writes of `n` bytes that
/// are not among them.
#[inline(always)]
pub(crate) unsafe fn read(words: *const AtomicU64, at: usize, to: *mut u8, n: usize) {
    loaded(words.cast::<u8>().wrapping_add(at), n);
    // SAFETY: the caller's contract.
    unsafe { imp::read(words, at, to, n) }
}

/// Copies `bytes` to byte `at` behind `words` and those after it.
///
/// # Safety
/// The place must lie in atomics at `words` of one page, whose latch the caller holds: no other thread
/// stores to them.
#[inline(always)]
pub(crate) unsafe fn write(words: *const AtomicU64, at: usize, bytes: &[u8]) {
    // SAFETY: the caller's contract; a slice is valid for reads.
    unsafe { imp::write(words, at, bytes.as_ptr(), bytes.len()) }
}

/// Copies `n` words from word `from` behind `words` on to word `to`; the two may overlap.
///
/// # Safety
/// Both must lie in atomics at `words` of one page, whose latch the caller holds: no other thread
/// stores to them.
#[inline(always)]
pub(crate) unsafe fn move_words(words: *const AtomicU64, from: usize, to: usize, n: usize) {
    loaded(words.wrapping_add(from), 8 * n);
    // SAFETY: the caller's contract.
    unsafe { imp::move_words(words, from, to, n) }
}

/// Compares as many bytes from byte `at` behind `words` on as `other` has.
///
/// # Safety
/// The bytes must lie in readable atomics at `words`, and if they are fewer than 8, the 8 bytes that end
/// with them must.
#[inline(always)]
pub(crate) unsafe fn compare(words: *const AtomicU64, at: usize, other: &[u8]) -> Ordering {
    let n = other.len();
    let in_order = |ours: u64, theirs: u64| ours.swap_bytes().cmp(&theirs.swap_bytes());
    if n < 8 {
        // SAFETY: the caller's contract.
        let ours = unsafe { load(words, at + n - 8) };
        // Of the 8 bytes the last n; none if n is 0.
        return in_order(ours >> 8 >> (8 * (7 - n)), short(other));
    }
    let pair = |i: usize| {
        // SAFETY: i + 8 <= n below, so that both lie among the bytes that the caller promises.
        let ours = unsafe { load(words, at + i) };
        // SAFETY: as above; a slice is valid for reads.
        let theirs = unsafe { other.as_ptr().add(i).cast::<u64>().read_unaligned() };
        (ours, u64::from_le(theirs))
    };
    let mut i = 0;
    while i < n - 8 {
        let (ours, theirs) = pair(i);
        if ours != theirs {
            return in_order(ours, theirs);
        }
        i += 8;
    }
    // The last word. It may begin with bytes that are known to be equal.
    let (ours, theirs) = pair(n - 8);
    in_order(ours, theirs)
}

/// Fewer than 8 bytes as a little-endian number.
#[inline(always)]
fn short(bytes: &[u8]) -> u64 {
    let n = bytes.len();
    let four = |i: usize| u64::from(u32::from_le_bytes([0, 1, 2, 3].map(|j| bytes[i + j])));
    let two = |i: usize| u64::from(u16::from_le_bytes([0, 1].map(|j| bytes[i + j])));
    match n {
        0 => 0,
        1 => u64::from(bytes[0]),
        2 | 3 => two(0) | two(n - 2) << (8 * (n - 2)),
        _ => four(0) | four(n - 4) << (8 * (n - 4)),
    }
}

#[cfg_attr(all(target_arch = "x86_64", not(miri)), allow(dead_code, reason = "the tests' twin"))]
mod scalar {
    use std::sync::atomic::{AtomicU64, Ordering};

    /// # Safety
    /// As [`super::load`].
    pub unsafe fn load(words: *const AtomicU64, at: usize) -> u64 {
        let (word, shift) = (at / 8, at % 8 * 8);
        // SAFETY: the first byte is in this word.
        let low = unsafe { (*words.add(word)).load(Ordering::Acquire) };
        if shift == 0 {
            return low;
        }
        // SAFETY: the last byte is in the next one.
        let high = unsafe { (*words.add(word + 1)).load(Ordering::Acquire) };
        low >> shift | high << (64 - shift)
    }

    /// The parts of words that `n` bytes from `at` on are in: which word, its first byte that counts,
    /// how many count, and how many bytes came before.
    fn parts(at: usize, n: usize) -> impl Iterator<Item = (usize, usize, usize, usize)> {
        let mut done = 0;
        std::iter::from_fn(move || {
            let (word, first) = ((at + done) / 8, (at + done) % 8);
            let part = (word, first, (8 - first).min(n - done), done);
            done += part.2;
            (part.2 > 0).then_some(part)
        })
    }

    /// # Safety
    /// As [`super::read`].
    pub unsafe fn read(words: *const AtomicU64, at: usize, to: *mut u8, n: usize) {
        for (word, first, count, done) in parts(at, n) {
            // SAFETY: some of the word's bytes are among those asked for.
            let bytes = unsafe { (*words.add(word)).load(Ordering::Acquire) }.to_le_bytes();
            // SAFETY: first + count <= 8 and done + count <= n, and the caller's contract.
            unsafe { to.add(done).copy_from_nonoverlapping(bytes.as_ptr().add(first), count) };
        }
    }

    /// # Safety
    /// As [`super::write`], of the `n` bytes at `from`.
    pub unsafe fn write(words: *const AtomicU64, at: usize, from: *const u8, n: usize) {
        for (word, first, count, done) in parts(at, n) {
            // SAFETY: some of the word's bytes are in the place to be written.
            let word = unsafe { &*words.add(word) };
            let mut bytes = word.load(Ordering::Relaxed).to_le_bytes();
            // SAFETY: first + count <= 8 and done + count <= n, and the caller's contract.
            unsafe {
                bytes.as_mut_ptr().add(first).copy_from_nonoverlapping(from.add(done), count);
            }
            word.store(u64::from_le_bytes(bytes), Ordering::Release);
        }
    }

    /// # Safety
    /// As [`super::move_words`].
    pub unsafe fn move_words(words: *const AtomicU64, from: usize, to: usize, n: usize) {
        let copy = |i: usize| {
            // SAFETY: i < n, and the caller's contract.
            unsafe {
                let value = (*words.add(from + i)).load(Ordering::Relaxed);
                (*words.add(to + i)).store(value, Ordering::Release);
            }
        };
        if to > from { (0..n).rev().for_each(copy) } else { (0..n).for_each(copy) }
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod x86 {
    use std::arch::asm;
    use std::arch::x86_64::{__m128i, __m256i, __m512i};
    use std::sync::atomic::AtomicU64;

    use crate::simd::{AVX2, AVX512, find_width, width};

    /// Defines a load and a store of page memory, by one instruction each: at a place, or of the last of
    /// the `n` bytes from there on.
    ///
    /// # Safety
    /// The bytes must be mapped; nobody else stores to the place of a store.
    macro_rules! access {
        ($(#[$how:meta])* $load:ident, $store:ident: $type:ty, $class:ident,
         $get:literal, $put:literal $(, $n:ident)?) => {
            $(#[$how])*
            unsafe fn $load(at: *const u8 $(, $n: usize)?) -> $type {
                let value;
                // SAFETY: the caller promises the bytes, and the block writes nothing.
                unsafe {
                    asm!($get, v = out($class) value, p = in(reg) at $(, $n = in(reg) $n)?,
                         options(nostack, preserves_flags, readonly));
                }
                value
            }
            $(#[$how])*
            unsafe fn $store(at: *mut u8, value: $type $(, $n: usize)?) {
                // SAFETY: the caller promises the bytes.
                unsafe {
                    asm!($put, v = in($class) value, p = in(reg) at $(, $n = in(reg) $n)?,
                         options(nostack, preserves_flags));
                }
            }
        };
    }
    access!(#[inline(always)] load1, store1: u8, reg_byte, "mov {v}, [{p}]", "mov [{p}], {v}");
    access!(#[inline(always)] load2, store2: u16, reg, "movzx {v:e}, word ptr [{p}]", "mov [{p}], {v:x}");
    access!(#[inline(always)] load4, store4: u32, reg, "mov {v:e}, [{p}]", "mov [{p}], {v:e}");
    access!(#[inline(always)] load8, store8: u64, reg, "mov {v}, [{p}]", "mov [{p}], {v}");
    access!(#[inline(always)] load16, store16: __m128i, xmm_reg, "movups {v}, [{p}]", "movups [{p}], {v}");
    access!(#[inline] #[target_feature(enable = "avx")] load32, store32: __m256i, ymm_reg,
            "vmovdqu {v}, [{p}]", "vmovdqu [{p}], {v}");
    access!(#[inline] #[target_feature(enable = "avx512f")] load64, store64: __m512i, zmm_reg,
            "vmovdqu64 {v}, [{p}]", "vmovdqu64 [{p}], {v}");
    access!(#[inline(always)] last2, set_last2: u16, reg,
            "movzx {v:e}, word ptr [{p} + {n} - 2]", "mov [{p} + {n} - 2], {v:x}", n);
    access!(#[inline(always)] last4, set_last4: u32, reg,
            "mov {v:e}, [{p} + {n} - 4]", "mov [{p} + {n} - 4], {v:e}", n);
    access!(#[inline(always)] last8, set_last8: u64, reg,
            "mov {v}, [{p} + {n} - 8]", "mov [{p} + {n} - 8], {v}", n);

    /// # Safety
    /// As [`super::load`].
    #[inline(always)]
    pub unsafe fn load(words: *const AtomicU64, at: usize) -> u64 {
        // SAFETY: the caller's contract.
        unsafe { load8(words.cast::<u8>().add(at)) }
    }

    /// # Safety
    /// As [`super::read`].
    #[inline(always)]
    pub unsafe fn read(words: *const AtomicU64, at: usize, to: *mut u8, n: usize) {
        // SAFETY: the caller's contract.
        unsafe { copy(words.cast::<u8>().add(at), to, n) }
    }

    /// # Safety
    /// As [`super::write`], of the `n` bytes at `from`.
    #[inline(always)]
    pub unsafe fn write(words: *const AtomicU64, at: usize, from: *const u8, n: usize) {
        // SAFETY: the caller's contract.
        unsafe { copy(from, words.cast::<u8>().add(at).cast_mut(), n) }
    }

    /// Copies `n` bytes to a place that does not overlap them.
    ///
    /// # Safety
    /// Both must be mapped; nobody else stores to the latter.
    #[inline(always)]
    unsafe fn copy(from: *const u8, to: *mut u8, n: usize) {
        /// The first and the last bytes, by two loads and two stores that may overlap.
        macro_rules! ends {
            ($load:ident, $store:ident, $last:ident, $set_last:ident) => {{
                let (first, last) = ($load(from), $last(from, n));
                $store(to, first);
                $set_last(to, last, n);
            }};
        }
        // SAFETY: each case knows that the bytes that it copies are among the n.
        unsafe {
            if n > 16 {
                copy_long(from, to, n);
            } else if n >= 8 {
                ends!(load8, store8, last8, set_last8);
            } else if n >= 4 {
                ends!(load4, store4, last4, set_last4);
            } else if n >= 2 {
                ends!(load2, store2, last2, set_last2);
            } else if n == 1 {
                store1(to, load1(from));
            }
        }
    }

    /// Defines the copies by blocks of one width.
    macro_rules! by_blocks {
        ($(#[$how:meta])* $up:ident, $down:ident: $bytes:literal, $load:ident, $store:ident) => {
            /// Copies `n` bytes, the lowest first. The last block is loaded before anything is stored.
            ///
            /// # Safety
            /// As [`copy`], of at least a block; `to` may also overlap `from` from below.
            $(#[$how])*
            pub(super) unsafe fn $up(from: *const u8, to: *mut u8, n: usize) {
                // SAFETY: blocks begin before n - $bytes, or there.
                unsafe {
                    let last = $load(from.add(n - $bytes));
                    let mut i = 0;
                    while i < n - $bytes {
                        $store(to.add(i), $load(from.add(i)));
                        i += $bytes;
                    }
                    $store(to.add(n - $bytes), last);
                }
            }
            /// Copies `n` bytes, the highest first. The first block is loaded before anything is stored.
            ///
            /// # Safety
            /// As [`copy`], of at least a block; `to` may also overlap `from` from above.
            $(#[$how])*
            pub(super) unsafe fn $down(from: *const u8, to: *mut u8, n: usize) {
                // SAFETY: blocks begin at most at n - $bytes.
                unsafe {
                    let first = $load(from);
                    let mut i = n;
                    while i > $bytes {
                        i -= $bytes;
                        $store(to.add(i), $load(from.add(i)));
                    }
                    $store(to, first);
                }
            }
        };
    }
    by_blocks!(up16, down16: 16, load16, store16);
    by_blocks!(#[target_feature(enable = "avx")] up32, down32: 32, load32, store32);
    by_blocks!(#[target_feature(enable = "avx512f")] up64, down64: 64, load64, store64);

    /// # Safety
    /// As [`copy`], of more than 16 bytes.
    unsafe fn copy_long(from: *const u8, to: *mut u8, n: usize) {
        // SAFETY: the caller's contract; a block is not longer than n, and the processor has what it says.
        unsafe {
            match width() {
                _ if n <= 64 => up16(from, to, n),
                AVX512 => up64(from, to, n),
                AVX2 => up32(from, to, n),
                _ => up16_asking(from, to, n),
            }
        }
    }

    /// # Safety
    /// As [`up16`].
    #[cold]
    unsafe fn up16_asking(from: *const u8, to: *mut u8, n: usize) {
        find_width();
        // SAFETY: the caller's contract.
        unsafe { up16(from, to, n) }
    }

    /// # Safety
    /// As [`super::move_words`].
    #[inline(always)]
    pub unsafe fn move_words(words: *const AtomicU64, from: usize, to: usize, n: usize) {
        // SAFETY: the caller's contract.
        unsafe {
            let (from, to) = (words.add(from).cast::<u8>(), words.add(to).cast::<u8>().cast_mut());
            if to.cast_const() < from {
                move_up(from, to, 8 * n)
            } else {
                move_down(from, to, 8 * n)
            }
        }
    }

    /// Defines the moves in one direction, each length by the blocks that are the fastest for it.
    macro_rules! moves {
        ($name:ident: $by16:ident, $by32:ident, $by64:ident) => {
            /// # Safety
            /// As [`$by16`], of any whole words.
            unsafe fn $name(from: *const u8, to: *mut u8, n: usize) {
                // SAFETY: the caller's contract; a block is not longer than n, and the processor has
                // what it says.
                unsafe {
                    match width() {
                        _ if n < 16 => {
                            if n == 8 {
                                store8(to, load8(from));
                            }
                        }
                        _ if n < 128 => $by16(from, to, n),
                        AVX512 => $by64(from, to, n),
                        AVX2 => $by32(from, to, n),
                        _ => $by16(from, to, n),
                    }
                }
            }
        };
    }
    moves!(move_up: up16, up32, up64);
    moves!(move_down: down16, down32, down64);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    /// Lengths that take each branch: all short ones, and some on both sides of each longer block.
    fn lengths(most: usize) -> impl Iterator<Item = usize> {
        let long = [95, 96, 97, 127, 128, 129, 191, 192, 193, 255, 256, 257, 319, 511, 512];
        let short = (0..=80).step_by(if cfg!(miri) { 11 } else { 1 });
        short.chain(long).filter(move |&n| n <= most && (!cfg!(miri) || n < 100))
    }
    /// Miri takes seconds for what a processor does in no time.
    fn starts() -> std::ops::Range<usize> {
        if cfg!(miri) { 6..10 } else { 0..72 }
    }
    fn pattern(n: usize, salt: usize) -> Vec<u8> {
        (0..n).map(|i| (i * 7 + i / 256 * 3 + salt) as u8).collect()
    }
    fn words(bytes: &[u8]) -> Vec<AtomicU64> {
        let word = |chunk: &[u8]| u64::from_le_bytes(chunk.try_into().expect("8 bytes"));
        bytes.chunks(8).map(|chunk| AtomicU64::new(word(chunk))).collect()
    }
    fn bytes(words: &[AtomicU64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.load(Relaxed).to_le_bytes()).collect()
    }

    #[test]
    fn both_twins_copy_the_same_bytes_at_every_place_and_length() {
        let page = pattern(if cfg!(miri) { 128 } else { 640 }, 1);
        let shared = words(&page);
        for (at, n) in starts().flat_map(|at| lengths(568).map(move |n| (at, n))) {
            let what = format!("{n} bytes at {at}");
            let (from, mut out) = (shared.as_ptr(), [vec![0xee; n + 2], vec![0xee; n + 2]]);
            // SAFETY: at + n is less than the bytes that there are.
            unsafe {
                read(from, at, out[0].as_mut_ptr().add(1), n);
                scalar::read(from, at, out[1].as_mut_ptr().add(1), n);
                let word = u64::from_le_bytes(page[at..at + 8].try_into().expect("8 bytes"));
                assert_eq!((load(from, at), scalar::load(from, at)), (word, word), "{what}");
            }
            let want = [&[0xee], &page[at..at + n], &[0xee]].concat();
            assert!(out == [want.clone(), want], "{what}");

            let (a, b, new) = (words(&page), words(&page), pattern(n, 99));
            // SAFETY: as above, and nobody else uses these words.
            unsafe {
                write(a.as_ptr(), at, &new);
                scalar::write(b.as_ptr(), at, new.as_ptr(), n);
            }
            let want = [&page[..at], &new, &page[at + n..]].concat();
            assert!(bytes(&a) == want && bytes(&b) == want, "{what}");
        }
    }

    /// The copies by blocks that this processor has: one of them is all that [`read`] would pick.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[test]
    fn blocks_of_every_width_copy_and_move_alike() {
        use std::arch::is_x86_feature_detected;
        type Copy = unsafe fn(*const u8, *mut u8, usize);
        let (avx, avx512) = (is_x86_feature_detected!("avx"), is_x86_feature_detected!("avx512f"));
        let all: [(bool, usize, Copy, Copy); 3] = [
            (true, 16, x86::up16, x86::down16),
            (avx, 32, x86::up32, x86::down32),
            (avx512, 64, x86::up64, x86::down64),
        ];
        let page = pattern(1024, 8);
        for (_, block, up, down) in all.into_iter().filter(|way| way.0) {
            for (n, by) in (block..300).flat_map(|n| [1, 8, 9, 16, 40, 64, 300].map(|by| (n, by))) {
                for (way, from, to) in [(up, 70 + by, 70), (down, 70, 70 + by)] {
                    let moved = words(&page);
                    let start = moved.as_ptr().cast::<u8>();
                    // SAFETY: 70 + 300 + 300 is less than the 1024 bytes that there are.
                    unsafe { way(start.add(from), start.add(to).cast_mut(), n) };
                    let mut want = page.clone();
                    want.copy_within(from..from + n, to);
                    assert!(bytes(&moved) == want, "{n} bytes from {from} to {to} by {block}");
                }
            }
        }
    }

    #[test]
    fn both_twins_move_words_that_overlap() {
        let page = pattern(1024, 5);
        let places: &[usize] = if cfg!(miri) { &[1, 2, 9] } else { &[0, 1, 2, 3, 7, 8, 9, 16, 30] };
        let lengths = (0..90).step_by(if cfg!(miri) { 45 } else { 1 });
        let pairs = places.iter().flat_map(|&from| places.iter().map(move |&to| (from, to)));
        for ((from, to), n) in pairs.flat_map(|pair| lengths.clone().map(move |n| (pair, n))) {
            let (a, b) = (words(&page), words(&page));
            // SAFETY: 30 + 89 is less than the 128 words that there are; nobody else uses them.
            unsafe {
                move_words(a.as_ptr(), from, to, n);
                scalar::move_words(b.as_ptr(), from, to, n);
            }
            let mut want = page.clone();
            want.copy_within(8 * from..8 * (from + n), 8 * to);
            assert!(bytes(&a) == want && bytes(&b) == want, "{n} words from {from} to {to}");
        }
    }
}
