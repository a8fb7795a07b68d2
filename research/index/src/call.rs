//! The steps that all exported functions share: a call looks at its handle, runs its body, and turns the outcome into a
//! code. Nothing unwinds into C. After a panic nobody knows how far the call came, so its handle is of no use any more.

use std::any::Any;
use std::ffi::{CStr, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::failure::{Failure, Result, invalid, keep};

/// Something that C has a pointer to.
pub(crate) trait Handle {
    /// That calls may use it.
    fn expect_open(&self) -> Result<()>;
    /// A call with it has panicked.
    fn broke(&self);
}

/// Runs a call that has a handle, which must be open.
///
/// # Safety
///
/// The handle is NULL or good.
#[inline(always)]
pub(crate) unsafe fn on<H: Handle>(
    name: &'static str,
    handle: *const H,
    body: impl FnOnce(&H) -> Result<c_int>,
) -> c_int {
    // SAFETY: the caller's promise.
    let Some(handle) = (unsafe { handle.as_ref() }) else { return no_handle(name) };
    if let Err(failure) = handle.expect_open() {
        return keep(failure);
    }
    match catch_unwind(AssertUnwindSafe(|| body(handle))) {
        Ok(Ok(code)) => code,
        Ok(Err(failure)) => keep(failure),
        Err(panic) => {
            handle.broke();
            keep(Failure::Panic(told(name, &*panic)))
        }
    }
}

/// Runs a call that has no handle, or one of which it need not know whether it is open.
pub(crate) fn plain(name: &'static str, body: impl FnOnce() -> Result<c_int>) -> c_int {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(ran) => ran.unwrap_or_else(keep),
        Err(panic) => keep(Failure::Panic(told(name, &*panic))),
    }
}

/// Runs a call that returns something else than a code, and returns `otherwise` after a panic.
pub(crate) fn lend<T>(name: &'static str, otherwise: T, body: impl FnOnce() -> T) -> T {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(answer) => answer,
        Err(panic) => {
            keep(Failure::Panic(told(name, &*panic)));
            otherwise
        }
    }
}

#[cold]
#[inline(never)]
fn no_handle(name: &'static str) -> c_int {
    keep(invalid(format!("{name}: the handle is NULL")))
}

fn told(name: &'static str, panic: &(dyn Any + Send)) -> String {
    format!("{name} met a defect of the library, please report it: {}", text_of(panic))
}

/// The text of a panic.
pub(crate) fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no text")
}

/// A text that ends with 0, in UTF-8.
///
/// # Safety
///
/// The pointer is NULL, or such a text is there and stays as it is for as long as the result is used.
pub(crate) unsafe fn text<'a>(text: *const c_char, what: &str) -> Result<&'a str> {
    if text.is_null() {
        return Err(invalid(format!("{what} is NULL")));
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| invalid(format!("{what} is not UTF-8")))
}

/// That a place for `count` of something is one: not NULL, aligned, and no larger than memory can be. Without any, the
/// place does not matter.
pub(crate) fn expect_place<T>(place: *const T, count: usize, what: &str) -> Result<()> {
    if count == 0 {
        return Ok(());
    }
    if place.is_null() {
        return Err(invalid(format!("{what} is NULL")));
    }
    if !place.is_aligned() {
        return Err(invalid(format!("{what} is not aligned to {} bytes", align_of::<T>())));
    }
    if count > isize::MAX as usize / size_of::<T>().max(1) {
        return Err(invalid(format!("{what}: {count} elements are more than memory can have")));
    }
    Ok(())
}

/// Writes a result that the caller may or may not want.
///
/// # Safety
///
/// The place is NULL, or has room for it.
#[inline(always)]
pub(crate) unsafe fn give<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: the caller's promise. It may be aligned as it likes.
        unsafe { place.write_unaligned(value) };
    }
}
