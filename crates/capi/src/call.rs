//! The code that all exported functions have in common.
//!
//! A call looks at its handle, runs its body, and turns the outcome into a code. Nothing unwinds into C: a panic stops the
//! writes of the handle's pool, because nobody knows how far it came, and the caller gets `EVERLEAF_PANIC`.

use std::any::Any;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice;

use db::Db;

use crate::codes::{EVERLEAF_NOT_FOUND, EVERLEAF_OK};
use crate::failure::{Failure, Result, invalid, keep};

/// Something that C has a pointer to.
pub(crate) trait Handle {
    /// The pool that it is of, if it is of one.
    fn db(&self) -> Option<&Db>;
}

/// Runs a call that has a handle, and reads it. The handle's pool must be open.
///
/// # Safety
///
/// The handle is NULL or good, and no other thread changes it meanwhile.
#[inline(always)]
pub(crate) unsafe fn on<H: Handle>(
    name: &'static str,
    handle: *const H,
    body: impl FnOnce(&H) -> Result<c_int>,
) -> c_int {
    // SAFETY: the caller's promise.
    let Some(handle) = (unsafe { handle.as_ref() }) else { return no_handle(name) };
    if let Some(db) = handle.db()
        && let Err(error) = db.expect_open()
    {
        return keep(error.into());
    }
    finish(name, catch_unwind(AssertUnwindSafe(|| run(name, || body(handle)))), handle)
}

/// Runs a call that has a handle, whether its pool is open or not: the body asks that, or need not know it.
///
/// # Safety
///
/// That of [`on`].
#[inline(always)]
pub(crate) unsafe fn on_any<H: Handle>(
    name: &'static str,
    handle: *const H,
    body: impl FnOnce(&H) -> Result<c_int>,
) -> c_int {
    // SAFETY: the caller's promise.
    let Some(handle) = (unsafe { handle.as_ref() }) else { return no_handle(name) };
    finish(name, catch_unwind(AssertUnwindSafe(|| run(name, || body(handle)))), handle)
}

/// Runs a call that changes its handle. The handle's pool must be open.
///
/// # Safety
///
/// The handle is NULL or good, and no other thread uses it meanwhile.
#[inline(always)]
pub(crate) unsafe fn on_mut<H: Handle>(
    name: &'static str,
    handle: *mut H,
    body: impl FnOnce(&mut H) -> Result<c_int>,
) -> c_int {
    // SAFETY: the caller's promise.
    let Some(handle) = (unsafe { handle.as_mut() }) else { return no_handle(name) };
    if let Some(db) = handle.db()
        && let Err(error) = db.expect_open()
    {
        return keep(error.into());
    }
    let ran = catch_unwind(AssertUnwindSafe(|| run(name, || body(handle))));
    finish(name, ran, handle)
}

/// Runs a call that has no handle.
pub(crate) fn plain(name: &'static str, body: impl FnOnce() -> Result<c_int>) -> c_int {
    match catch_unwind(AssertUnwindSafe(|| run(name, body))) {
        Ok(ran) => ran.unwrap_or_else(keep),
        Err(panic) => keep(Failure::Panic(told(name, &*panic))),
    }
}

/// Runs a call that returns something else than a code, and returns `otherwise` after a panic.
#[inline(always)]
pub(crate) fn lend<T>(name: &'static str, otherwise: T, body: impl FnOnce() -> T) -> T {
    match catch_unwind(AssertUnwindSafe(|| run(name, body))) {
        Ok(answer) => answer,
        Err(panic) => {
            keep(Failure::Panic(told(name, &*panic)));
            otherwise
        }
    }
}

/// Drops a handle; NULL is none.
///
/// # Safety
///
/// The handle is NULL or good, and nobody uses it any more.
pub(crate) unsafe fn free<H: Handle>(name: &'static str, handle: *mut H) {
    if handle.is_null() {
        return;
    }
    // SAFETY: it came from `boxed`, and nobody uses it.
    let handle = unsafe { Box::from_raw(handle) };
    let db = handle.db().cloned();
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run(name, || drop(handle)))) {
        broke(name, &*panic, db.as_ref());
    }
}

#[inline(always)]
fn run<T>(name: &'static str, body: impl FnOnce() -> T) -> T {
    #[cfg(test)]
    crate::tests::note(name);
    #[cfg(any(test, feature = "test-panic"))]
    inject::panic_in(name);
    let _ = name;
    body()
}

#[inline(always)]
fn finish<H: Handle>(
    name: &'static str,
    ran: std::result::Result<Result<c_int>, Box<dyn Any + Send>>,
    handle: &H,
) -> c_int {
    match ran {
        Ok(Ok(code)) => code,
        Ok(Err(failure)) => keep(failure),
        Err(panic) => broke(name, &*panic, handle.db()),
    }
}

#[cold]
#[inline(never)]
fn no_handle(name: &'static str) -> c_int {
    keep(invalid(format!("{name}: the handle is NULL")))
}

/// Stops the writes of a pool in which a call has panicked.
#[cold]
fn broke(name: &'static str, panic: &(dyn Any + Send), db: Option<&Db>) -> c_int {
    if let Some(db) = db {
        db.poison("a call of the C library met a defect");
    }
    keep(Failure::Panic(told(name, panic)))
}

fn told(name: &'static str, panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("{name} met a defect of the library, please report it: {}", text.unwrap_or("no text"))
}

/// The bytes that a caller names by their place and number. Without any, the place does not matter.
///
/// # Safety
///
/// They are there, and stay as they are for as long as the result is used.
#[inline(always)]
pub(crate) unsafe fn bytes<'a>(place: *const c_void, len: usize) -> Result<&'a [u8]> {
    if len == 0 {
        return Ok(&[]);
    }
    expect_place(place, len)?;
    // SAFETY: the caller's promise; the length is one that a slice can have.
    Ok(unsafe { slice::from_raw_parts(place.cast(), len) })
}

/// The bytes that a caller names, if there are at most so many and their place is not NULL: what is frequent, of which
/// nothing more need be asked.
///
/// # Safety
///
/// That of [`bytes`].
#[inline(always)]
pub(crate) unsafe fn plain_bytes<'a>(
    place: *const c_void,
    len: usize,
    most: usize,
) -> Option<&'a [u8]> {
    if len > most || place.is_null() {
        return None;
    }
    // SAFETY: the caller's promise; the length is one that a slice can have.
    Some(unsafe { slice::from_raw_parts(place.cast(), len) })
}

/// The buffer that a caller lends. Without bytes, the place does not matter.
///
/// # Safety
///
/// It is there, and nobody else uses it for as long as the result is used.
pub(crate) unsafe fn buffer<'a>(place: *mut c_void, len: usize) -> Result<&'a mut [u8]> {
    if len == 0 {
        return Ok(&mut []);
    }
    expect_place(place, len)?;
    // SAFETY: the caller's promise. Bytes of a caller in C have values, even if it has not written them.
    Ok(unsafe { slice::from_raw_parts_mut(place.cast(), len) })
}

#[inline(always)]
pub(crate) fn expect_place(place: *const c_void, len: usize) -> Result<()> {
    if place.is_null() || len > isize::MAX as usize { Err(no_place(place, len)) } else { Ok(()) }
}

#[cold]
fn no_place(place: *const c_void, len: usize) -> Failure {
    match place.is_null() {
        true => invalid(format!("a pointer is NULL, and its length is {len}")),
        false => invalid(format!("a length of {len} is more than memory can have")),
    }
}

/// A list has no such place.
#[cold]
pub(crate) fn invalid_index(index: usize) -> Failure {
    invalid(format!("the list has nothing at index {index}"))
}

/// A text that ends with 0, in UTF-8.
///
/// # Safety
///
/// The pointer is NULL, or such a text is there and stays as it is for as long as the result is used.
pub(crate) unsafe fn name<'a>(name: *const c_char) -> Result<&'a str> {
    // SAFETY: the caller's promise.
    let name = unsafe { text(name, "a name") }?;
    name.to_str().map_err(|_| invalid("the name of a tree is not UTF-8"))
}

/// A text that ends with 0.
///
/// # Safety
///
/// That of [`name`].
pub(crate) unsafe fn text<'a>(text: *const c_char, what: &str) -> Result<&'a CStr> {
    if text.is_null() {
        return Err(invalid(format!("{what} is NULL")));
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { CStr::from_ptr(text) })
}

/// Writes a result that the caller may or may not want.
///
/// # Safety
///
/// The place is NULL, or has room for it.
#[inline(always)]
pub(crate) unsafe fn give<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: the caller's promise.
        unsafe { place.write(value) };
    }
}

/// A place for a result that makes no sense to leave out.
#[inline(always)]
pub(crate) fn expect_out<T>(place: *mut T) -> Result<()> {
    match place.is_null() {
        true => Err(invalid("the pointer to the result is NULL")),
        false => Ok(()),
    }
}

/// Gives a caller a handle of its own. The caller of this has written NULL to its place before anything could fail, the
/// look at the pool included: C frees what is there also after an error.
///
/// # Safety
///
/// The place is NULL, or has room for a pointer.
pub(crate) unsafe fn boxed<H>(
    out: *mut *mut H,
    make: impl FnOnce() -> Result<Option<H>>,
) -> Result<c_int> {
    expect_out(out)?;
    let Some(made) = make()? else { return Ok(EVERLEAF_NOT_FOUND) };
    // SAFETY: the caller's promise.
    unsafe { out.write(Box::into_raw(Box::new(made))) };
    Ok(EVERLEAF_OK)
}

/// Done, or not there.
#[inline(always)]
pub(crate) fn found(is_there: bool) -> c_int {
    if is_there { EVERLEAF_OK } else { EVERLEAF_NOT_FOUND }
}

/// Panics on demand, for tests of what follows.
#[cfg(any(test, feature = "test-panic"))]
pub(crate) mod inject {
    use std::cell::RefCell;
    use std::ffi::{CStr, CString, c_char};

    thread_local! {
        static NEXT: RefCell<Option<CString>> = const { RefCell::new(None) };
    }

    /// Has this thread's next call of the function with this name panic. For tests: the header does not have it.
    #[unsafe(no_mangle)]
    pub unsafe extern "C" fn everleaf_test_panic_in(name: *const c_char) {
        // SAFETY: a test gives a name.
        let name = unsafe { CStr::from_ptr(name) }.to_owned();
        NEXT.set(Some(name));
    }

    pub(super) fn panic_in(name: &str) {
        let is_next = |next: &CString| next.as_bytes() == name.as_bytes();
        if NEXT.with_borrow(|next| next.as_ref().is_some_and(is_next)) {
            NEXT.set(None);
            panic!("as the test asked for");
        }
    }
}
