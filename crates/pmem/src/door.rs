//! For those who write media: how a medium changes the words of its pages.
//!
//! Every other layer stores through [`Medium::store`](crate::Medium::store), which counts, records
//! and orders what is stored. Only the implementation of a medium calls these functions.

use crate::page::{Page, Word};
use crate::rules::{is_in_step, is_redoing};

/// Stores 8 bytes with Release. The caller holds the page's latch, or nobody else can see the page.
#[inline(always)]
pub fn put(word: Word<'_>, value: u64) {
    word.put(value);
}

/// Copies the `n` slots of 16 bytes from physical slot `from` on (modulo the body) by one slot to
/// the right or to the left, in any order. The caller holds the page's latch; `from` and `n` are
/// less than the number of slots.
#[inline(always)]
pub fn move_slots(page: Page<'_>, from: usize, n: usize, right: bool) {
    page.move_slots(from, n, right);
}

/// Stores bytes at byte `at` of a page, in any order. The caller holds the page's latch.
///
/// # Panics
/// If they are not all in the page, or would reach into the two words of the medium.
#[inline(always)]
pub fn copy_in(page: Page<'_>, at: usize, bytes: &[u8]) {
    page.copy_in(at, bytes);
}

/// Copies `n` words of a page from word `from` to word `to`, in any order; the two may overlap. The
/// caller holds the page's latch.
///
/// # Panics
/// As [`copy_in`], and if what is copied is not all in the page.
#[inline(always)]
pub fn move_words(page: Page<'_>, from: usize, to: usize, n: usize) {
    page.move_words(from, to, n);
}

/// Whether this thread may store to a word of a medium that must be entered: it holds the page's
/// latch, and it is inside a step or redoes changes of one. For assertions; without debug assertions
/// the answer is yes.
#[inline(always)]
pub fn may_store(word: Word<'_>) -> bool {
    word.is_latched_here() && (is_in_step() || is_redoing())
}
