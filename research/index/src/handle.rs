//! The handle: open, close, free.

use std::ffi::{CStr, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use everleaf_pmem::{Error, Life};
use everleaf_tree::Index;

use crate::call::{self, Handle, expect_place};
use crate::codes::EVERLEAF_INDEX_OK;
use crate::failure::{Failure, Result};
use crate::options::{everleaf_index_options, wanted};
use crate::trees::{self, Tree};

/// An open tree.
pub struct everleaf_index {
    /// Operations use it: one hand-over, not two.
    pub(crate) index: Arc<dyn Index>,
    state: AtomicU8,
    life: Life,
    /// Held during a close, so that a second one waits for the first.
    closing: Mutex<()>,
    // Dropped last: it keeps what the index needs.
    pub(crate) tree: Box<dyn Tree>,
}

const OPEN: u8 = 0;
const CLOSED: u8 = 1;
const BROKEN: u8 = 2;

impl everleaf_index {
    fn new(tree: Box<dyn Tree>) -> Self {
        let (state, closing) = (AtomicU8::new(OPEN), Mutex::new(()));
        Self { index: tree.index(), state, life: Life::default(), closing, tree }
    }

    #[cold]
    fn shut(&self) -> Failure {
        match self.state.load(Ordering::Acquire) {
            BROKEN => {
                let cause = Error::Interrupted { what: "a call has met a defect of the library" };
                Failure::Tree(Error::Poisoned { cause: Arc::new(cause) })
            }
            _ => Failure::Tree(Error::Closed),
        }
    }

    fn close(&self) -> Result<()> {
        self.life.check()?;
        let _alone = self.closing.lock().unwrap_or_else(PoisonError::into_inner);
        let open = self.state.compare_exchange(OPEN, CLOSED, Ordering::AcqRel, Ordering::Acquire);
        if open.is_err() {
            return Err(self.shut());
        }
        Ok(self.tree.close()?)
    }
}

impl Handle for everleaf_index {
    #[inline(always)]
    fn expect_open(&self) -> Result<()> {
        if self.state.load(Ordering::Acquire) != OPEN {
            return Err(self.shut());
        }
        Ok(self.life.check()?)
    }

    #[cold]
    fn broke(&self) {
        self.state.store(BROKEN, Ordering::Release);
        // A failure here cannot be reported, and nothing relies on success.
        let _ = catch_unwind(AssertUnwindSafe(|| self.tree.broke()));
    }
}

/// Returns the version of this library, such as "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn everleaf_index_version() -> *const c_char {
    const VERSION: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(version) => version,
            Err(_) => panic!("a version without a 0"),
        };
    call::lend("everleaf_index_version", VERSION.as_ptr(), || VERSION.as_ptr())
}

/// Opens the tree of this name and makes a handle to it in `*out`, which is yours to free with everleaf_index_free; `*out` is
/// NULL after an error. `options` may be NULL, which stands for the defaults: a tree in memory for a million keys. A tree whose
/// inner nodes are in memory reads all of its leaves.
///
/// Errors: EVERLEAF_INDEX_UNSUPPORTED for a name that everleaf_index_name does not have, a medium that
/// everleaf_index_media does not have, or a way of reading that the tree lacks; EVERLEAF_INDEX_INVALID_OPTION;
/// EVERLEAF_INDEX_IO; EVERLEAF_INDEX_NO_MEMORY; EVERLEAF_INDEX_LOCKED; EVERLEAF_INDEX_NOT_DAX; EVERLEAF_INDEX_FOREIGN if the
/// file is no pool, or that of a tree of other pages; EVERLEAF_INDEX_WRONG_LAYOUT; EVERLEAF_INDEX_CORRUPT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_index_open(
    name: *const c_char,
    options: *const everleaf_index_options,
    out: *mut *mut everleaf_index,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe { call::give(out, ptr::null_mut()) };
    call::plain("everleaf_index_open", || {
        expect_place(out, 1, "the place for the handle")?;
        // SAFETY: the promise of a caller.
        let (name, wanted) = unsafe { (call::text(name, "the name")?, wanted(options)?) };
        let handle = Box::new(everleaf_index::new(trees::open(name, &wanted)?));
        // SAFETY: the promise of a caller.
        unsafe { out.write(Box::into_raw(handle)) };
        Ok(EVERLEAF_INDEX_OK)
    })
}

/// Makes all durable that was done, marks the pool as cleanly closed, and gives its file back. Nobody may be in another call
/// with the handle. All calls with it return EVERLEAF_INDEX_CLOSED from then on, a second close too; free it as always.
///
/// Errors: those of everleaf_index_sync. The file is given back in any case.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_index_close(index: *mut everleaf_index) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        call::on("everleaf_index_close", index, |index| {
            index.close()?;
            Ok(EVERLEAF_INDEX_OK)
        })
    }
}

/// Frees the handle, and closes it if nobody has: an error of that is lost, so call everleaf_index_close before. NULL may be
/// freed. Nobody may be in a call with it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_index_free(index: *mut everleaf_index) {
    if index.is_null() {
        return;
    }
    call::lend("everleaf_index_free", (), || {
        // SAFETY: it came from `everleaf_index_open`, and nobody uses it.
        let index = unsafe { Box::from_raw(index) };
        // A caller that wants the outcome has closed it before.
        let _ = index.close();
        drop(index);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codes::{EVERLEAF_INDEX_PANIC, EVERLEAF_INDEX_POISONED};
    use crate::last::{everleaf_index_last_code, everleaf_index_last_message};

    #[test]
    fn a_panic_is_told_and_its_handle_is_of_no_use_any_more() {
        let mut index = ptr::null_mut();
        // SAFETY: a name, defaults, and a place.
        let code = unsafe { everleaf_index_open(c"CircTree".as_ptr(), ptr::null(), &mut index) };
        assert_eq!(code, EVERLEAF_INDEX_OK);
        let panics = |_: &everleaf_index| panic!("on purpose");
        // SAFETY: the handle is open.
        let code = unsafe { call::on("everleaf_index_get", index, panics) };
        assert_eq!((code, everleaf_index_last_code()), (EVERLEAF_INDEX_PANIC, code));
        // SAFETY: the text is this thread's, and good until its next failure.
        let told = unsafe { CStr::from_ptr(everleaf_index_last_message()) };
        assert!(told.to_str().expect("UTF-8").contains("everleaf_index_get met a defect"));
        assert!(told.to_str().expect("UTF-8").contains("on purpose"));
        // SAFETY: the handle was not freed.
        let code = unsafe { call::on("everleaf_index_get", index, |_| Ok(EVERLEAF_INDEX_OK)) };
        assert_eq!(code, EVERLEAF_INDEX_POISONED);
        // SAFETY: nobody uses it.
        unsafe { everleaf_index_free(index) };
    }
}
