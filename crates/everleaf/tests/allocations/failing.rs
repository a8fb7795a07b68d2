//! The system's allocator, refusing where a test says so: the one file of these tests that needs
//! `unsafe`.
//!
//! Only the thread that armed it is counted and refused, and only while it is [`armed`]: neither the
//! test's own memory nor that of the harness is in the count.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

thread_local!(static ARMED: Cell<bool> = const { Cell::new(false) });

/// Allocations while armed.
static COUNT: AtomicU64 = AtomicU64::new(0);
/// Those of them that were refused.
static REFUSED: AtomicU64 = AtomicU64::new(0);
static FIRST: AtomicU64 = AtomicU64::new(u64::MAX);
static LAST: AtomicU64 = AtomicU64::new(u64::MAX);
static ABOVE: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Which allocations fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fail {
    None,
    /// That one, counted from 0.
    Only(u64),
    /// That one and the next: where twice as much as needed was asked for first, both are refused.
    Two(u64),
    /// That one and all after it.
    From(u64),
    /// Those of more bytes.
    Above(usize),
}

/// Sets which allocations fail from now on, while armed.
pub fn fail(which: Fail) {
    let (first, last, above) = match which {
        Fail::None => (u64::MAX, u64::MAX, usize::MAX),
        Fail::Only(n) => (n, n, usize::MAX),
        Fail::Two(n) => (n, n + 1, usize::MAX),
        Fail::From(n) => (n, u64::MAX, usize::MAX),
        Fail::Above(bytes) => (u64::MAX, u64::MAX, bytes),
    };
    FIRST.store(first, Relaxed);
    LAST.store(last, Relaxed);
    ABOVE.store(above, Relaxed);
}

/// Runs `f` with allocations of this thread counted and refused as was said. Outside of it there is
/// always memory.
pub fn armed<T>(f: impl FnOnce() -> T) -> T {
    ARMED.set(true);
    let out = f();
    ARMED.set(false);
    out
}

/// How many allocations were counted, and how many of them refused.
pub fn counts() -> (u64, u64) {
    (COUNT.load(Relaxed), REFUSED.load(Relaxed))
}

fn refuses(bytes: usize) -> bool {
    if !ARMED.get() {
        return false;
    }
    let n = COUNT.fetch_add(1, Relaxed);
    let refuses = (FIRST.load(Relaxed)..=LAST.load(Relaxed)).contains(&n) && n != u64::MAX
        || bytes > ABOVE.load(Relaxed);
    REFUSED.fetch_add(u64::from(refuses), Relaxed);
    refuses
}

struct Failing;

#[global_allocator]
static FAILING: Failing = Failing;

// SAFETY: each call is passed on as it came, or answered with null, which means that there is no
// memory. A realloc that is refused leaves the block as it was. Nothing here allocates or unwinds.
unsafe impl GlobalAlloc for Failing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if refuses(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if refuses(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: as the caller promised.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        if refuses(bytes) {
            return std::ptr::null_mut();
        }
        // SAFETY: as the caller promised.
        unsafe { System.realloc(at, layout, bytes) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(at, layout) }
    }
}
