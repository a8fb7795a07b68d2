//! Which lines of memory a thread loads: by the cargo feature `lines-read`, for experiments that ask
//! what an operation would cost on memory with slow reads. Without it the calls are nothing.
//!
//! Reported are loads of words and bytes of pages, by vectors too, and loads of search aids. Not
//! reported are latch words and marks of frames, which the papers' trees do not have, and prefetches:
//! what they fetch counts once it is loaded. A line that is stored to and never loaded does not count.
//!
//! A line is known by its address; [`PageSpan`](crate::page_span::PageSpan) says which are of one medium.

use std::collections::BTreeSet;

#[cfg(feature = "lines-read")]
pub(crate) use recorded::loaded;

/// Bytes of a cache line, the unit of flushing.
pub const LINE_BYTES: usize = 64;

/// Whether this build records loads.
pub const RECORDS: bool = cfg!(feature = "lines-read");

/// Distinct lines that were loaded: their addresses, divided by the bytes of a line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LinesRead(pub(crate) BTreeSet<usize>);

/// Does something, and says which lines this thread has loaded meanwhile: none without the feature.
/// A record that is made within another one is no part of it.
pub fn record<T>(what: impl FnOnce() -> T) -> (T, LinesRead) {
    #[cfg(feature = "lines-read")]
    return recorded::record(what);
    #[cfg(not(feature = "lines-read"))]
    (what(), LinesRead::default())
}

#[cfg(feature = "lines-read")]
mod recorded {
    use std::cell::RefCell;

    use super::{LINE_BYTES, LinesRead};

    // Lines in the order of their loads, if anybody asks; the same line twice in a row is there once.
    thread_local!(static LINES: RefCell<Option<Vec<usize>>> = const { RefCell::new(None) });

    pub(super) fn record<T>(what: impl FnOnce() -> T) -> (T, LinesRead) {
        let outer = LINES.replace(Some(Vec::new()));
        let made = what();
        let lines = LINES.replace(outer).unwrap_or_default();
        (made, LinesRead(lines.into_iter().collect()))
    }

    /// This thread loads `n` bytes from `at` on.
    #[inline]
    pub(crate) fn loaded<T>(at: *const T, n: usize) {
        LINES.with_borrow_mut(|lines| {
            let Some(lines) = lines else { return };
            if n == 0 {
                return;
            }
            let first = at.addr() / LINE_BYTES;
            let known = usize::from(lines.last() == Some(&first));
            lines.extend(first + known..(at.addr() + n).div_ceil(LINE_BYTES));
        });
    }
}

#[cfg(not(feature = "lines-read"))]
#[inline(always)]
pub(crate) fn loaded<T>(_: *const T, _: usize) {}
