//! The order of latches, as far as the pool can see to it.
//!
//! ```text
//! nodes                      waited for: left before right, children before parents
//! an anchor, then its log    waited for, by steps too: who holds them waits for nobody below
//! record pages, map pages    only tried by a step, which starts again if one is busy
//! ```
//!
//! So a thread whose step holds record or map pages waits for an anchor or a log page and for nothing
//! else, and no two threads wait for each other. Builds with debug assertions count the pages that
//! this thread's steps hold.

use everleaf_pmem::{Page, Seen};

use crate::kind::{ANCHOR, KIND_WORD, LOG, kind_of};

#[cfg(debug_assertions)]
mod count {
    use std::cell::Cell;

    thread_local!(static PAGES: Cell<usize> = const { Cell::new(0) });

    /// A step of this thread holds one page more.
    pub fn hold() {
        PAGES.set(PAGES.get() + 1);
    }

    /// A step of this thread lets `pages` go.
    pub fn let_go(pages: usize) {
        // A thread that ends has no count any more.
        let _ = PAGES.try_with(|held| held.set(held.get() - pages));
    }

    pub fn is_none() -> bool {
        PAGES.try_with(|held| held.get() == 0).unwrap_or(true)
    }
}

#[cfg(not(debug_assertions))]
mod count {
    #[inline(always)]
    pub fn hold() {}

    #[inline(always)]
    pub fn let_go(_: usize) {}

    #[inline(always)]
    pub fn is_none() -> bool {
        true
    }
}

pub(crate) use count::{hold, let_go};

/// Whether this thread may wait for the latch of a page. For assertions; without debug assertions the
/// answer is yes. A page that is not in memory, or has just left it, may be of any kind.
pub(crate) fn may_wait_for(page: Page<'_>) -> bool {
    if count::is_none() {
        return true;
    }
    let Seen::Ready(version) = page.latch().read_version_racing() else { return true };
    matches!(kind_of(page.head(KIND_WORD).load()), ANCHOR | LOG) || !page.latch().validate(version)
}
