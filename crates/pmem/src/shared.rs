//! A key and a value in memory that several threads hold at once, without a copy.
//!
//! It is what `Arc<[u8]>` is, but that a lack of memory is an answer and no end of the process, and that it says where
//! the value begins. The count of holders stands in front of the bytes: whoever takes hold of a short pair touches one
//! line of memory.

use std::alloc::{Layout, alloc, dealloc};
use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Whoever reads one pair after the other asks the processor for so many at once.
pub const PAIRS_AHEAD: usize = 4;

/// Bytes of a key and of the value behind it. They never change. A clone is another hold of the same bytes, O(1).
pub struct SharedPair {
    /// Holders, and then the bytes of both.
    holders: NonNull<AtomicUsize>,
    key_bytes: u32,
    value_bytes: u32,
}

// SAFETY: the bytes are written before there is a second holder and never again, the count is atomic, and the last
// holder alone frees both: any thread may hold, read and drop it, as an `Arc` of bytes.
unsafe impl Send for SharedPair {}
// SAFETY: as above; what goes through a reference reads the bytes or counts a holder.
unsafe impl Sync for SharedPair {}

/// So many holders at most. Each takes memory, so that more could only have been forgotten without a drop.
const HOLDERS_MAX: usize = isize::MAX as usize;

impl SharedPair {
    /// A copy of both; none if there is no memory for it, or if one of them is longer than 4 GiB. O(bytes).
    #[must_use]
    pub fn copy(key: &[u8], value: &[u8]) -> Option<Self> {
        let key_bytes = u32::try_from(key.len()).ok()?;
        let value_bytes = u32::try_from(value.len()).ok()?;
        let layout = Self::layout(key.len().checked_add(value.len())?)?;
        // SAFETY: the layout has room for a count, so it is not of no bytes.
        let holders = NonNull::new(unsafe { alloc(layout) })?.cast::<AtomicUsize>();
        // SAFETY: the memory is of that layout, is nobody else's, and is aligned for a count; behind that there is room
        // for the bytes of the key and then for those of the value, which overlap nothing that was there before.
        unsafe {
            holders.write(AtomicUsize::new(1));
            let bytes = holders.add(1).cast::<u8>();
            bytes.copy_from_nonoverlapping(NonNull::from(key).cast(), key.len());
            let behind = bytes.add(key.len());
            behind.copy_from_nonoverlapping(NonNull::from(value).cast(), value.len());
        }
        Some(Self { holders, key_bytes, value_bytes })
    }

    fn layout(bytes: usize) -> Option<Layout> {
        let head = Layout::new::<AtomicUsize>();
        let size = head.size().checked_add(bytes)?;
        Layout::from_size_align(size, head.align()).ok()
    }

    /// Bytes that it is allocated with, its count among them.
    #[must_use]
    pub fn memory(&self) -> usize {
        size_of::<AtomicUsize>() + self.len()
    }

    /// Bytes of key and value.
    #[must_use]
    pub fn len(&self) -> usize {
        self.key_bytes as usize + self.value_bytes as usize
    }

    /// Whether both are empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where its memory begins, to be asked for from the processor.
    #[must_use]
    pub fn place(&self) -> *const u8 {
        self.holders.as_ptr().cast_const().cast()
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: behind the count are as many bytes, which were written at the beginning, are not written again, and
        // stay for as long as this holder is there.
        unsafe { std::slice::from_raw_parts(self.holders.add(1).cast::<u8>().as_ptr(), self.len()) }
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.bytes()[..self.key_bytes as usize]
    }

    /// The value.
    #[must_use]
    pub fn value(&self) -> &[u8] {
        &self.bytes()[self.key_bytes as usize..]
    }

    fn count(&self) -> &AtomicUsize {
        // SAFETY: the count was written at the beginning, and stays for as long as this holder is there.
        unsafe { self.holders.as_ref() }
    }
}

impl Clone for SharedPair {
    #[inline]
    fn clone(&self) -> Self {
        // Relaxed, as for an `Arc`: whoever clones has it already.
        if self.count().fetch_add(1, Ordering::Relaxed) > HOLDERS_MAX {
            std::process::abort();
        }
        Self { ..*self }
    }
}

impl Drop for SharedPair {
    #[inline]
    fn drop(&mut self) {
        // What this holder has read it has read before the last one frees it.
        if self.count().fetch_sub(1, Ordering::Release) == 1 {
            self.count().load(Ordering::Acquire);
            if let Some(layout) = Self::layout(self.len()) {
                // SAFETY: this was the last holder, and the memory was allocated with this layout.
                unsafe { dealloc(self.holders.as_ptr().cast(), layout) }
            }
        }
    }
}

impl fmt::Debug for SharedPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lens = (self.key_bytes, self.value_bytes);
        f.debug_tuple("SharedPair").field(&lens.0).field(&lens.1).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn pair(key: &[u8], value: &[u8]) -> SharedPair {
        SharedPair::copy(key, value).expect("memory")
    }

    #[test]
    fn it_has_a_copy_of_both_whatever_their_lengths() {
        let bytes: Vec<u8> = (0..=255).cycle().take(5000).collect();
        for (key, value) in [(0, 0), (0, 1), (1, 0), (7, 9), (64, 64), (511, 4000), (0, 5000)] {
            let shared = pair(&bytes[..key], &bytes[5000 - value..]);
            assert_eq!((shared.key(), shared.value()), (&bytes[..key], &bytes[5000 - value..]));
            assert_eq!((shared.len(), shared.is_empty()), (key + value, key + value == 0));
            assert_eq!(shared.memory(), shared.len() + size_of::<usize>());
        }
    }

    #[test]
    fn the_bytes_stay_for_as_long_as_somebody_holds_them() {
        let first = pair(b"key", b"value");
        let place = first.place();
        let second = first.clone();
        drop(first);
        assert_eq!((second.key(), second.value()), (&b"key"[..], &b"value"[..]));
        let third = second.clone();
        drop(second);
        assert_eq!((third.value(), third.place()), (&b"value"[..], place));
    }

    #[test]
    fn any_threads_may_hold_read_and_drop_it() {
        let shared = pair(&[1; 8], &[2; 100]);
        thread::scope(|scope| {
            for _ in 0..4 {
                let mine = shared.clone();
                scope.spawn(move || {
                    for _ in 0..if cfg!(miri) { 20 } else { 2000 } {
                        let again = mine.clone();
                        assert!(again.value().iter().all(|byte| *byte == 2));
                    }
                });
            }
        });
        assert_eq!(shared.count().load(Ordering::Relaxed), 1);
    }
}
