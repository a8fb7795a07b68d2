//! Tests that call the exported functions from Rust. Those that need a program of C are in `tests/`.

mod codes;
mod handles;
mod model;
mod places;
mod unreadable;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr::{self, null, null_mut};
use std::slice;

use crate::budget::*;
use crate::last::*;
use crate::memory::everleaf_bytes_free;
use crate::options::*;
use crate::pool::*;
use crate::scan::*;
use crate::tree::*;
use crate::txn::*;

thread_local! {
    /// The functions that this thread has called.
    static CALLED: RefCell<BTreeSet<&'static str>> = const { RefCell::new(BTreeSet::new()) };
}

/// A function was called.
pub(crate) fn note(name: &'static str) {
    let _ = CALLED.try_with(|called| called.borrow_mut().insert(name));
}

/// The functions that this thread has called.
fn called() -> BTreeSet<&'static str> {
    CALLED.take()
}

/// The functions that the header has.
fn exported() -> BTreeSet<&'static str> {
    let header = include_str!("../../include/everleaf.h");
    let comments = header.split("*/").map(|part| part.split("/*").next().unwrap_or_default());
    let words =
        comments.flat_map(|code| code.split(|c: char| !c.is_alphanumeric() && !"_(".contains(c)));
    let functions = words.filter_map(|word| word.split_once('('));
    functions.map(|(name, _)| name).filter(|name| name.starts_with("everleaf_")).collect()
}

fn place(bytes: &[u8]) -> (*const c_void, usize) {
    (bytes.as_ptr().cast(), bytes.len())
}

/// Bytes that may be missing.
fn maybe(bytes: Option<&[u8]>) -> (*const c_void, usize) {
    bytes.map_or((null(), 0), place)
}

/// The message of this thread's last failure.
fn message() -> String {
    // SAFETY: it ends with 0, and nothing fails in between.
    unsafe { CStr::from_ptr(everleaf_last_message()) }.to_str().expect("UTF-8").to_owned()
}

/// The code of a call that must succeed, or find nothing.
#[track_caller]
fn fine(code: c_int) -> bool {
    assert!(matches!(code, 0 | 1), "{code}: {}", message());
    code == 0
}

/// A handle of C.
struct Own<H>(*mut H, unsafe extern "C" fn(*mut H));

impl<H> Drop for Own<H> {
    fn drop(&mut self) {
        // SAFETY: it is ours, and this is the function for it.
        unsafe { (self.1)(self.0) };
    }
}

/// Has a function make a handle.
#[track_caller]
fn made<H>(
    free: unsafe extern "C" fn(*mut H),
    make: impl FnOnce(*mut *mut H) -> c_int,
) -> Option<Own<H>> {
    let mut handle = ptr::dangling_mut();
    let is_there = fine(make(&raw mut handle));
    assert_eq!(is_there, !handle.is_null());
    is_there.then(|| Own(handle, free))
}

/// Has a function give a copy.
#[track_caller]
fn copied(give: impl FnOnce(*mut *mut c_void, *mut usize) -> c_int) -> Option<Vec<u8>> {
    let (mut bytes, mut len) = (ptr::dangling_mut(), 7);
    let is_there = fine(give(&raw mut bytes, &raw mut len));
    assert_eq!(is_there, !bytes.is_null());
    // SAFETY: the library says so.
    let copy = is_there.then(|| unsafe { slice::from_raw_parts(bytes.cast::<u8>(), len) }.to_vec());
    // SAFETY: the bytes are ours, or NULL.
    unsafe { everleaf_bytes_free(bytes) };
    copy
}

fn c_path(path: &Path) -> CString {
    CString::new(path.to_str().expect("UTF-8")).expect("no 0")
}

fn open(path: &Path, options: *const everleaf_options) -> Own<everleaf_db> {
    let path = c_path(path);
    // SAFETY: all pointers are good.
    made(everleaf_db_free, |out| unsafe { everleaf_open(path.as_ptr(), options, out) })
        .expect("a pool")
}

fn tree(db: &Own<everleaf_db>, name: &CStr) -> Own<everleaf_tree> {
    // SAFETY: all pointers are good.
    made(everleaf_tree_free, |out| unsafe { everleaf_tree_create(db.0, name.as_ptr(), out) })
        .expect("a tree")
}
