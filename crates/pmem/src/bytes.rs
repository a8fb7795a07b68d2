//! Bytes of a page, copied, compared and moved while other threads may store to them.
//!
//! The words of a page are atomics. Nodes also keep entries that begin and end at any byte, and Rust
//! has no atomic copy of bytes. So each load and store of bytes here is an `asm!` block of 1, 2,
//! 4, 8, 16, 32 or 64 of them: what races with it yields old or new bytes in any mixture, and nothing
//! worse. A reader validates its latch version afterwards, as after any other read.
//!
//! On x86-64 every plain load is an Acquire and every plain store a Release, whatever its width, and
//! the compiler moves no access to memory across a block that may write to it, nor a load of a block
//! before an Acquire or behind a fence. So a block stands for the Acquire loads and Release stores that
//! [`scalar`] makes of whole words: that is what Miri and other processors run.
//!
//! A short copy is two loads that may overlap: the first bytes and the last ones.
//!
//! The rank of a word among words that ascend is found by ruling out halves until a few lines are left, which are
//! compared one and all by the widest vectors that the processor has.

use std::cmp::Ordering;
use std::hint::select_unpredictable;
#[cfg(all(target_arch = "x86_64", not(miri)))]
use std::sync::atomic::AtomicU8;
use std::sync::atomic::{self, AtomicU64};

use crate::lines_read::{LINE_BYTES, loaded};
use crate::page::{HEAD_WORDS, Page, SEQ_WORD};
use crate::sync::schedule::{before_read, before_write, scheduled};

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
use scalar as imp;
#[cfg(all(target_arch = "x86_64", not(miri)))]
use x86 as imp;

/// The bytes of a page. While another thread stores to them they may be old and new ones, mixed.
impl Page<'_> {
    /// The 8 bytes from byte `at` of the page on, little-endian. Bytes behind the page's end count as
    /// 0, whatever `at` is. As with all bytes that are read here: while another thread stores to them
    /// they may be old and new ones, mixed, and the reader validates the latch's version afterwards.
    #[inline(always)]
    pub fn load_le(self, at: usize) -> u64 {
        before_read();
        let last = self.geometry().page_bytes() - 8;
        if at > last {
            return self.load_at_end(at);
        }
        // SAFETY: at + 8 is no more than the page's bytes.
        unsafe { load(self.words(), at) }
    }
    #[cold]
    fn load_at_end(self, at: usize) -> u64 {
        let last = self.geometry().page_bytes() - 8;
        // SAFETY: these are the page's last 8 bytes.
        let word = unsafe { load(self.words(), last) };
        u32::try_from(8 * (at - last).min(8)).ok().and_then(|by| word.checked_shr(by)).unwrap_or(0)
    }
    /// Whether the page has all of the bytes `at .. at + len`.
    #[inline(always)]
    fn has(self, at: usize, len: usize) -> bool {
        at.checked_add(len).is_some_and(|end| end <= self.geometry().page_bytes())
    }
    /// Copies the bytes `at .. at + buf.len()` of the page. False, and `buf` holds anything, if they are
    /// not all in the page.
    #[inline(always)]
    pub fn copy_out(self, at: usize, buf: &mut [u8]) -> bool {
        before_read();
        let inside = self.has(at, buf.len());
        if inside {
            // SAFETY: the bytes are in the page, as was asked.
            unsafe { self.read(at, buf.as_mut_ptr(), buf.len()) };
        }
        inside
    }
    /// Appends the bytes `at .. at + len` of the page to `out`, which has the capacity. False, and
    /// nothing is appended, if it has not or if they are not all in the page.
    #[inline(always)]
    pub fn append_to(self, at: usize, len: usize, out: &mut Vec<u8>) -> bool {
        before_read();
        let fits = self.has(at, len) && len <= out.capacity() - out.len();
        if fits {
            // SAFETY: the bytes are in the page, and the vector has room for them behind its own, which
            // are then set.
            unsafe {
                self.read(at, out.as_mut_ptr().add(out.len()), len);
                out.set_len(out.len() + len);
            }
        }
        fits
    }
    /// Under a test's scheduler line by line: others may store in between, as they may anyway.
    ///
    /// # Safety
    /// The page has the bytes `at .. at + n`, and `to` is valid for writes of as many.
    #[inline(always)]
    unsafe fn read(self, at: usize, to: *mut u8, n: usize) {
        if scheduled() {
            for (i, len) in pieces(at, n, LINE_BYTES) {
                before_read();
                // SAFETY: a part of the caller's.
                unsafe { read(self.words(), at + i, to.add(i), len) };
            }
            return;
        }
        // SAFETY: the caller's contract.
        unsafe { read(self.words(), at, to, n) };
    }
    /// Compares the bytes `at .. at + len` of the page with `other`, lexicographically, and then by
    /// length. Bytes outside of the page are as if they were not there.
    #[inline(always)]
    pub fn cmp_bytes(self, at: usize, len: usize, other: &[u8]) -> Ordering {
        before_read();
        let at = at.min(self.geometry().page_bytes());
        let len = len.min(self.geometry().page_bytes() - at);
        let common = len.min(other.len());
        let order = if at + common < 8 {
            self.cmp_first_word(at, &other[..common])
        } else {
            // SAFETY: the bytes are in the page, and at least 8 bytes end with them.
            unsafe { compare(self.words(), at, &other[..common]) }
        };
        order.then(len.cmp(&other.len()))
    }
    /// Compares bytes of the page's first word: entries and fences lie far behind it.
    #[cold]
    fn cmp_first_word(self, at: usize, other: &[u8]) -> Ordering {
        // SAFETY: a page has more than 8 bytes.
        let word = unsafe { load(self.words(), 0) }.to_le_bytes();
        word[at..at + other.len()].cmp(other)
    }
    /// How many of the `n` words from word `first` of the page on, which ascend, are ≤ `key`; those
    /// outside of the page do not count. Any number up to `n`, if another thread stores to them.
    #[inline(always)]
    pub fn words_le(self, first: usize, n: usize, key: u64) -> usize {
        before_read();
        let first = first.min(self.geometry().page_words());
        let n = n.min(self.geometry().page_words() - first);
        // SAFETY: first + n is no more than the page's words.
        unsafe { rank_le(self.words().add(first), n, key) }
    }
    /// Whether bytes may be stored at `at .. at + len`: they are in the page, and not among the words
    /// that belong to the medium.
    #[inline(always)]
    pub(crate) fn takes(self, at: usize, len: usize) -> bool {
        at >= LINE_BYTES && self.has(at, len) || at <= 8 * SEQ_WORD && len <= 8 * SEQ_WORD - at
    }
    /// Stores `bytes` at byte `at`, in any order. The caller holds the latch. Panics if the page does
    /// not take them.
    #[inline(always)]
    pub(crate) fn copy_in(self, at: usize, bytes: &[u8]) {
        if !self.takes(at, bytes.len()) {
            misplaced(at, bytes.len());
        }
        if scheduled() {
            for (i, len) in pieces(at, bytes.len(), LINE_BYTES) {
                before_write();
                // SAFETY: a part of what follows.
                unsafe { write(self.words(), at + i, &bytes[i..i + len]) };
            }
            return;
        }
        // SAFETY: the place is in the page, and the caller holds the latch.
        unsafe { write(self.words(), at, bytes) };
    }
    /// Copies `n` words from word `from` to word `to`; the two may overlap. The caller holds the latch.
    /// Panics if they are not all in the page, or if the page does not take them.
    #[inline(always)]
    pub(crate) fn move_words(self, from: usize, to: usize, n: usize) {
        if !self.moves(from, to, n) {
            misplaced(from.max(to).saturating_mul(8), n.saturating_mul(8));
        }
        if scheduled() {
            let mut parts: Vec<_> = pieces(to, n, HEAD_WORDS).collect();
            if to > from {
                parts.reverse();
            }
            for (i, len) in parts {
                before_write();
                // SAFETY: a part of what follows.
                unsafe { move_words(self.words(), from + i, to + i, len) };
            }
            return;
        }
        // SAFETY: both places are in the page, and the caller holds the latch.
        unsafe { move_words(self.words(), from, to, n) };
    }
    /// Whether `n` words may be copied from word `from` to word `to`.
    #[inline(always)]
    pub(crate) fn moves(self, from: usize, to: usize, n: usize) -> bool {
        let words = self.geometry().page_words();
        n <= words && from.max(to) <= words - n && (to >= HEAD_WORDS || to + n <= SEQ_WORD)
    }
}

/// Out of the way, so that those who check need no room for the message.
#[cold]
fn misplaced(at: usize, n: usize) -> ! {
    panic!("{n} bytes at {at} of a page, which does not take them");
}

/// Parts of `n` from `at` on that do not cross a multiple of `unit`: where each begins, counted from `at`,
/// and how many it has.
fn pieces(at: usize, n: usize, unit: usize) -> impl Iterator<Item = (usize, usize)> {
    let first = (unit - at % unit).min(n);
    let more = (first..n).step_by(unit).map(move |i| (i, unit.min(n - i)));
    std::iter::once((0, first)).chain(more)
}

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

/// The widest vectors that the processor has, as far as it was asked.
///
/// Std's own answer is as cheap, but its first question is made where it is asked: each caller then saves
/// registers for a call that comes once in a process.
#[cfg(all(target_arch = "x86_64", not(miri)))]
static WIDTH: AtomicU8 = AtomicU8::new(UNKNOWN);
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(crate) const UNKNOWN: u8 = 0;
/// None that are used here.
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(crate) const NO_AVX: u8 = 1;
/// Those of 32 bytes, by AVX2.
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(crate) const AVX2: u8 = 2;
/// Those of 64 bytes, by AVX-512F.
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(crate) const AVX512: u8 = 3;

/// The widest vectors that the processor has. 0: nobody has asked it yet, see [`find_width`].
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
pub(crate) fn width() -> u8 {
    WIDTH.load(atomic::Ordering::Relaxed)
}

/// Asks the processor.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[cold]
pub(crate) fn find_width() {
    let width = if std::arch::is_x86_feature_detected!("avx512f") {
        AVX512
    } else if std::arch::is_x86_feature_detected!("avx2") {
        AVX2
    } else {
        NO_AVX
    };
    WIDTH.store(width, atomic::Ordering::Relaxed);
}

/// Words that are compared one and all; of more than these, halves are ruled out first.
const WINDOW: usize = 32;

/// How many of the `n` words at `at`, which ascend, are ≤ `key`; any number up to `n` if they do not.
///
/// # Safety
/// `at` must point to `n` readable atomics.
#[inline(always)]
unsafe fn rank_le(at: *const AtomicU64, n: usize, key: u64) -> usize {
    // SAFETY: the caller's contract, and the processor has what it says.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    unsafe {
        let width = width();
        if width == AVX512 {
            x86::rank_le_avx512(at, n, key)
        } else if width == AVX2 {
            x86::rank_le_avx2(at, n, key)
        } else if width == NO_AVX {
            rank_le_scalar(at, n, key)
        } else {
            x86::rank_le_first(at, n, key)
        }
    }
    // SAFETY: the caller's contract.
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    unsafe {
        rank_le_scalar(at, n, key)
    }
}

/// How many of the `n` words at `at` are ≤ `key`.
///
/// # Safety
/// `at` must point to `n` readable atomics.
unsafe fn count_le_scalar(at: *const AtomicU64, n: usize, key: u64) -> usize {
    // SAFETY: the caller promises n readable atomics.
    let words = unsafe { std::slice::from_raw_parts(at, n) };
    words.iter().filter(|w| w.load(atomic::Ordering::Acquire) <= key).count()
}

/// # Safety
/// As [`rank_le`].
unsafe fn rank_le_scalar(at: *const AtomicU64, n: usize, key: u64) -> usize {
    // SAFETY: the caller's contract; first + left is no more than n.
    unsafe {
        let (first, left) = narrow(at, n, key);
        first + count_le_scalar(at.add(first), left, key)
    }
}

/// Rules halves out until a window is left: its first word, with as many that are ≤ `key` before it,
/// and how many it has.
///
/// # Safety
/// As [`rank_le`].
#[inline(always)]
unsafe fn narrow(at: *const AtomicU64, n: usize, key: u64) -> (usize, usize) {
    let (mut first, mut left) = (0, n);
    while left > WINDOW {
        // Whole lines, so that what is left begins with a line if the words do. If the half is not
        // passed over, what lies behind it stays in the window: it is greater and counts nothing.
        let half = (left / 2) & !7;
        // SAFETY: first + half < first + left <= n.
        let word = unsafe { (*at.add(first + half)).load(atomic::Ordering::Acquire) };
        loaded(at.wrapping_add(first + half), 8);
        // Which half it is cannot be foreseen, so a branch would cost more than all else.
        first += select_unpredictable(word <= key, half, 0);
        left -= half;
    }
    // The caller loads the whole window.
    loaded(at.wrapping_add(first), 8 * left);
    (first, left)
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
    use std::arch::x86_64::*;
    use std::sync::atomic::AtomicU64;

    use super::{AVX2, AVX512, count_le_scalar, find_width, width};

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

    /// # Safety
    /// As [`super::rank_le`].
    #[cold]
    pub unsafe fn rank_le_first(at: *const AtomicU64, n: usize, key: u64) -> usize {
        super::find_width();
        // SAFETY: the caller's contract.
        unsafe { super::rank_le(at, n, key) }
    }

    /// How many of the `n` words at `at` are ≤ `key`.
    ///
    /// # Safety
    /// `at` must point to `n` readable atomics, a multiple of 8, on a processor with AVX-512F.
    #[target_feature(enable = "avx512f,popcnt")]
    pub unsafe fn count_le_avx512(at: *const AtomicU64, n: usize, key: u64) -> usize {
        let key = _mm512_set1_epi64(key.cast_signed());
        let mut count = 0;
        let mut i = 0;
        while i < n {
            let lanes: __m512i;
            // SAFETY: the caller promises n words, a multiple of 8; the block reads 64 bytes.
            unsafe {
                asm!("vmovdqu64 {v}, [{p}]", v = out(zmm_reg) lanes, p = in(reg) at.add(i),
                     options(nostack, preserves_flags, readonly));
            }
            count += _mm512_cmple_epu64_mask(lanes, key).count_ones() as usize;
            i += 8;
        }
        count
    }

    /// # Safety
    /// As [`super::rank_le`], on a processor with AVX-512F.
    #[target_feature(enable = "avx512f,popcnt")]
    pub unsafe fn rank_le_avx512(at: *const AtomicU64, n: usize, key: u64) -> usize {
        // SAFETY: the caller's contract.
        let (first, left) = unsafe { super::narrow(at, n, key) };
        let whole = left & !7;
        // SAFETY: words of the window, which are the caller's.
        let (at, count) = unsafe { (at.add(first), count_le_avx512(at.add(first), whole, key)) };
        if whole == left {
            return first + count;
        }
        let mask: __mmask8 = (1 << (left - whole)) - 1;
        let lanes: __m512i;
        // SAFETY: the block reads the words that the mask names, which are the window's last.
        unsafe {
            asm!("vmovdqu64 {v}{{{m}}}{{z}}, [{p}]", v = out(zmm_reg) lanes, m = in(kreg) mask,
                 p = in(reg) at.add(whole), options(nostack, preserves_flags, readonly));
        }
        let key = _mm512_set1_epi64(key.cast_signed());
        let last = _mm512_mask_cmple_epu64_mask(mask, lanes, key).count_ones() as usize;
        first + count + last
    }

    /// # Safety
    /// As [`super::rank_le`], on a processor with AVX2.
    #[target_feature(enable = "avx2")]
    pub unsafe fn rank_le_avx2(at: *const AtomicU64, n: usize, key: u64) -> usize {
        // SAFETY: the caller's contract; of the window first a multiple of 4, and then the rest.
        unsafe {
            let (first, left) = super::narrow(at, n, key);
            let (at, whole) = (at.add(first), left & !3);
            let last = count_le_scalar(at.add(whole), left - whole, key);
            first + whole - count_gt_avx2(at, whole, key) + last
        }
    }

    /// How many of the `n` words at `at` are > `key`. Each lane counts for itself.
    ///
    /// # Safety
    /// `at` must point to `n` readable atomics, a multiple of 4, on a processor with AVX2.
    #[target_feature(enable = "avx2")]
    unsafe fn count_gt_avx2(at: *const AtomicU64, n: usize, key: u64) -> usize {
        // AVX2 compares signed words only: flipping the top bit of both sides keeps the order.
        let flip = _mm256_set1_epi64x(i64::MIN);
        let key = _mm256_xor_si256(_mm256_set1_epi64x(key.cast_signed()), flip);
        let mut greater = _mm256_setzero_si256();
        for i in (0..n).step_by(4) {
            let lanes: __m256i;
            // SAFETY: the caller promises n words, a multiple of 4; the block reads 32 bytes.
            unsafe {
                asm!("vmovdqu {v}, [{p}]", v = out(ymm_reg) lanes, p = in(reg) at.add(i),
                     options(nostack, preserves_flags, readonly));
            }
            // Where a lane is greater it is -1.
            let gt = _mm256_cmpgt_epi64(_mm256_xor_si256(lanes, flip), key);
            greater = _mm256_sub_epi64(greater, gt);
        }
        let (low, high) = (_mm256_castsi256_si128(greater), _mm256_extracti128_si256(greater, 1));
        let both = _mm_add_epi64(low, high);
        (_mm_cvtsi128_si64(both) + _mm_extract_epi64(both, 1)).cast_unsigned() as usize
    }
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

    #[test]
    fn all_variants_rank_alike() {
        let step = if cfg!(miri) { 33 } else { 1 };
        for n in (0..100).step_by(step) {
            let words: Vec<AtomicU64> = (0..n).map(|i| AtomicU64::new(i * 3 + 1)).collect();
            for key in (0..3 * n + 2).step_by(step).chain([u64::MAX]) {
                let want =
                    words.iter().filter(|w| w.load(atomic::Ordering::Relaxed) <= key).count();
                // SAFETY: n words are there, features are checked.
                unsafe {
                    assert_eq!(rank_le(words.as_ptr(), n as usize, key), want, "{key} of {n}");
                    #[cfg(all(target_arch = "x86_64", not(miri)))]
                    if std::arch::is_x86_feature_detected!("avx2") {
                        assert_eq!(x86::rank_le_avx2(words.as_ptr(), n as usize, key), want);
                    }
                }
            }
        }
        let wild: Vec<AtomicU64> =
            (0..100u64).map(|i| AtomicU64::new(i * 0x9e37_79b9 % 64)).collect();
        let lengths = (0..100).step_by(step);
        for (n, key) in lengths.flat_map(|n| (0..64).step_by(step).map(move |key| (n, key))) {
            // SAFETY: n words are there.
            assert!(unsafe { rank_le(wild.as_ptr(), n, key) } <= n);
        }
    }
}
