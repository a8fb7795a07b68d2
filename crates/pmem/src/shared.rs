//! Bytes in memory that several threads hold at once, without a copy: a key and a value, and parts of a room.
//!
//! Both are what `Arc<[u8]>` is, but that a lack of memory is an answer and no end of the process. A pair says where the
//! value begins. A room gets one string after the other, each of which others hold as a part:
//!
//! ```text
//! holders, bytes | part | part | part | free
//!                                     ^ the room's owner alone writes here
//! ```
//!
//! The count of holders stands in front of the bytes: whoever takes hold of a short pair touches one line of memory. The
//! owner of a room has counted so many holders beforehand that it gives parts away without a look at the count.

use std::alloc::{Layout, alloc, dealloc};
use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A reader of one pair after the other asks the processor for so many at once.
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
        // This holder's reads come before the last holder frees the bytes.
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

/// The head in front of the bytes of a room.
struct RoomHead {
    holders: AtomicUsize,
    /// How many bytes are behind it.
    bytes: usize,
}

/// Memory for one string after the other, each of which others may hold for as long as they like.
pub struct SharedRoom {
    head: NonNull<RoomHead>,
    /// So many bytes are parts.
    used: u32,
    /// Holders that are counted, and of which none holds a part yet. One of them is the owner.
    ahead: usize,
}

/// A part of a room. Its bytes never change. A clone is another hold of the same bytes, O(1).
pub struct SharedPart {
    head: NonNull<RoomHead>,
    start: u32,
    bytes: u32,
}

// SAFETY: the owner alone writes, and only to bytes that are no part of anybody; the count is atomic.
unsafe impl Send for SharedRoom {}
// SAFETY: what goes through a reference reads what the owner knows.
unsafe impl Sync for SharedRoom {}
// SAFETY: its bytes were written before it was made and are not written while it is there, the count is atomic, and the
// last holder alone frees the room: any thread may hold, read and drop it, as an `Arc` of bytes.
unsafe impl Send for SharedPart {}
// SAFETY: as above; what goes through a reference reads the bytes or counts a holder.
unsafe impl Sync for SharedPart {}

/// So many holders are counted beforehand. No room has as many bytes.
const HOLDERS_AHEAD: usize = 1 << 40;

impl SharedRoom {
    /// A room of so many bytes; none if there is no memory for it.
    #[must_use]
    pub fn new(bytes: u32) -> Option<Self> {
        let bytes = bytes as usize;
        // SAFETY: the layout has room for a head, so it is not of no bytes.
        let head = NonNull::new(unsafe { alloc(room_layout(bytes)?) })?.cast::<RoomHead>();
        let holders = AtomicUsize::new(HOLDERS_AHEAD);
        // SAFETY: the memory is of that layout, is nobody else's, and is aligned for a head.
        unsafe { head.write(RoomHead { holders, bytes }) }
        Some(Self { head, used: 0, ahead: HOLDERS_AHEAD })
    }

    fn head(&self) -> &RoomHead {
        // SAFETY: the head was written at the beginning, and stays for as long as this holder is there.
        unsafe { self.head.as_ref() }
    }

    /// A copy of some bytes; none if there is not so much room left. O(bytes).
    #[must_use]
    #[inline]
    pub fn add(&mut self, bytes: &[u8]) -> Option<SharedPart> {
        let (start, end) = (self.used as usize, (self.used as usize).checked_add(bytes.len())?);
        if end > self.head().bytes || self.ahead == 1 {
            return None;
        }
        // SAFETY: behind the head are as many bytes as it says, which `end` does not pass. Those from `used` on are no
        // part of anybody, so nobody reads them, and only the owner, which is here, writes to them.
        unsafe {
            let to = self.head.add(1).cast::<u8>().add(start);
            to.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len());
        }
        (self.used, self.ahead) = (end as u32, self.ahead - 1);
        Some(SharedPart { head: self.head, start: start as u32, bytes: bytes.len() as u32 })
    }

    /// Is empty again if nobody holds a part any more; says whether it is.
    pub fn clear(&mut self) -> bool {
        // Holders that are no longer counted have read their parts before.
        let is_alone = self.head().holders.load(Ordering::Acquire) == self.ahead;
        if is_alone {
            self.head().holders.store(HOLDERS_AHEAD, Ordering::Relaxed);
            (self.used, self.ahead) = (0, HOLDERS_AHEAD);
        }
        is_alone
    }

    /// Bytes that it is allocated with, its head among them.
    #[must_use]
    pub fn memory(&self) -> usize {
        size_of::<RoomHead>() + self.head().bytes
    }
}

impl SharedPart {
    /// Its bytes.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: these bytes behind the head were written before this part was made, are not written while it is
        // there, and stay for as long.
        unsafe {
            let start = self.head.add(1).cast::<u8>().add(self.start as usize);
            std::slice::from_raw_parts(start.as_ptr(), self.bytes as usize)
        }
    }
}

fn room_layout(bytes: usize) -> Option<Layout> {
    let head = Layout::new::<RoomHead>();
    Layout::from_size_align(head.size().checked_add(bytes)?, head.align()).ok()
}

/// Some holders of a room hold it no more.
///
/// # Safety
/// They were counted, and use it no more. The room is there.
#[inline]
unsafe fn let_go(head: NonNull<RoomHead>, holders: usize) {
    // SAFETY: the caller's holders are counted still, so it is there.
    let count = unsafe { &head.as_ref().holders };
    // The reads of these holders come before the last holder frees the room.
    if count.fetch_sub(holders, Ordering::Release) == holders {
        count.load(Ordering::Acquire);
        // SAFETY: these were the last holders, and the memory was allocated with the layout of as many bytes.
        unsafe { free(head) }
    }
}

/// Frees a room.
///
/// # Safety
/// Nobody holds it.
#[cold]
unsafe fn free(head: NonNull<RoomHead>) {
    // SAFETY: the head was written at the beginning, and nobody else is there to free it.
    let bytes = unsafe { head.as_ref().bytes };
    if let Some(layout) = room_layout(bytes) {
        // SAFETY: nobody holds it, and it was allocated with this layout.
        unsafe { dealloc(head.as_ptr().cast(), layout) }
    }
}

impl Drop for SharedRoom {
    fn drop(&mut self) {
        // SAFETY: so many holders are counted that have no part: the owner, which goes, and those of parts to come.
        unsafe { let_go(self.head, self.ahead) }
    }
}

impl Clone for SharedPart {
    #[inline]
    fn clone(&self) -> Self {
        // SAFETY: the room stays for as long as this part is there.
        let holders = unsafe { &self.head.as_ref().holders };
        // Relaxed, as for an `Arc`: whoever clones has it already.
        if holders.fetch_add(1, Ordering::Relaxed) > HOLDERS_MAX {
            std::process::abort();
        }
        Self { ..*self }
    }
}

impl Drop for SharedPart {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: a part is a holder that was counted, and this is its end.
        unsafe { let_go(self.head, 1) }
    }
}

impl fmt::Debug for SharedRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedRoom").field("used", &self.used).finish_non_exhaustive()
    }
}

impl fmt::Debug for SharedPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SharedPart").field(&self.bytes).finish()
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

    #[test]
    fn a_room_gives_parts_until_it_is_full_and_again_when_nobody_holds_one() {
        let mut room = SharedRoom::new(10).expect("memory");
        assert_eq!(room.memory(), 10 + size_of::<RoomHead>());
        let (abc, none) = (room.add(b"abc").expect("room"), room.add(b"").expect("room"));
        let rest = room.add(b"defghij").expect("room");
        assert_eq!(
            (abc.bytes(), none.bytes(), rest.bytes()),
            (&b"abc"[..], &b""[..], &b"defghij"[..])
        );
        assert!(room.add(b"k").is_none() && !room.clear());
        drop((none, rest));
        let again = abc.clone();
        drop(abc);
        assert!(!room.clear() && room.add(b"k").is_none());
        assert_eq!(again.bytes(), b"abc");
        drop(again);
        assert!(room.clear());
        assert_eq!(room.add(b"0123456789").expect("room").bytes(), b"0123456789");
        assert!(SharedRoom::new(0).expect("memory").add(b"1").is_none());
    }

    #[test]
    fn parts_outlive_the_room_and_the_room_its_parts() {
        let mut room = SharedRoom::new(100).expect("memory");
        let parts: Vec<_> = (0..9).map(|n| room.add(&[n; 10]).expect("room")).collect();
        drop(room);
        for (n, part) in parts.into_iter().enumerate().rev() {
            assert_eq!(part.bytes(), [n as u8; 10]);
        }
        let mut room = SharedRoom::new(100).expect("memory");
        drop(room.add(b"part"));
        assert!(room.clear());
    }

    #[test]
    fn other_threads_read_and_drop_parts_while_the_owner_goes_on() {
        let mut room = SharedRoom::new(64).expect("memory");
        thread::scope(|scope| {
            let (tell, told) = std::sync::mpsc::channel::<(u8, SharedPart)>();
            scope.spawn(move || {
                for (n, part) in told {
                    let again = part.clone();
                    drop(part);
                    assert_eq!(again.bytes(), [n; 7]);
                }
            });
            for n in 0..if cfg!(miri) { 40 } else { 4000 } {
                let part = loop {
                    match room.add(&[n as u8; 7]) {
                        Some(part) => break part,
                        None => drop(
                            room.clear() || {
                                thread::yield_now();
                                false
                            },
                        ),
                    }
                };
                tell.send((n as u8, part)).expect("it listens");
            }
        });
        assert!(room.clear());
    }
}
