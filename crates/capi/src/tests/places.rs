//! A call puts its result into a place of the caller, who frees what is there: after an error of any kind that is NULL.

use super::*;
use crate::batch::everleaf_batch_new;
use crate::codes::*;
use crate::cursor::everleaf_cursor_new;
use crate::lists::*;
use crate::pairs::*;
use crate::snapshot::*;
use crate::writer::everleaf_writer_new;

/// A call that makes something, with the place for it.
type Make<'a> = Box<dyn Fn(*mut *mut c_void) -> c_int + 'a>;

/// Handles, all of which may be NULL.
struct Handles {
    db: *mut everleaf_db,
    tree: *mut everleaf_tree,
    snapshot: *mut everleaf_snapshot,
    txn: *mut everleaf_txn,
}

/// Calls of all functions that give something to the caller.
fn makers(at: &Handles) -> Vec<Make<'_>> {
    let &Handles { db, tree, snapshot, txn } = at;
    let (name, key, none) = (c"tree".as_ptr(), c"k".as_ptr().cast(), null());
    let no_len = null_mut();
    macro_rules! list {
        ($($out:ident => $call:expr,)+) => {
            // SAFETY: handles are NULL or good, and so are all places.
            vec![$(Box::new(move |$out: *mut *mut c_void| unsafe { $call }) as Make<'_>,)+]
        };
    }
    list! {
        out => everleaf_tree_create(db, name, out.cast()),
        out => everleaf_tree_open(db, name, out.cast()),
        out => everleaf_tree_names(db, out.cast()),
        out => everleaf_check(db, out.cast()),
        out => everleaf_batch_new(db, 0, out.cast()),
        out => everleaf_snapshot_new(db, out.cast()),
        out => everleaf_txn_begin(db, 0, 0, out.cast()),
        out => everleaf_tree_with(tree, 1, out.cast()),
        out => everleaf_cursor_new(tree, out.cast()),
        out => everleaf_scan_new(tree, none, 0, none, 0, 0, out.cast()),
        out => everleaf_writer_new(tree, key, 1, 1, out.cast()),
        out => everleaf_snapshot_tree(snapshot, name, out.cast()),
        out => everleaf_snapshot_of(snapshot, tree, out.cast()),
        out => everleaf_snapshot_tree_names(snapshot, out.cast()),
        out => everleaf_txn_scan_new(txn, tree, none, 0, none, 0, 0, out.cast()),
        out => everleaf_get_alloc(tree, key, 1, out, no_len),
        out => everleaf_take(tree, key, 1, out, no_len),
        out => everleaf_swap(tree, key, 1, none, 0, out, no_len),
        out => everleaf_pop_first(tree, out, no_len, out, no_len),
        out => everleaf_pop_last(tree, out, no_len, out, no_len),
        out => everleaf_compare_and_swap(tree, key, 1, none, 0, none, 0, out, no_len),
        out => everleaf_txn_get_alloc(txn, tree, key, 1, out, no_len),
    }
}

/// Each call must fail so, and leave NULL.
fn expect_empty(at: &Handles, code: c_int) {
    for (no, make) in makers(at).iter().enumerate() {
        let mut place: *mut c_void = ptr::dangling_mut();
        assert_eq!(make(&raw mut place), code, "call {no}: {}", message());
        assert!(place.is_null(), "call {no} left something");
    }
}

#[test]
fn a_place_is_empty_after_an_error_of_any_kind() {
    let db = made(everleaf_db_free, |out| {
        // SAFETY: the place is good.
        unsafe { everleaf_open_in_memory(null(), out) }
    });
    let db = db.expect("a pool");
    let tree = tree(&db, c"tree");
    // SAFETY: all pointers are good.
    let (snapshot, txn) = unsafe {
        (
            made(everleaf_snapshot_free, |out| everleaf_snapshot_new(db.0, out)),
            made(everleaf_txn_free, |out| everleaf_txn_begin(db.0, 0, 0, out)),
        )
    };
    let (snapshot, txn) = (snapshot.expect("a snapshot"), txn.expect("a transaction"));
    let none = Handles { db: null_mut(), tree: null_mut(), snapshot: null_mut(), txn: null_mut() };
    expect_empty(&none, EVERLEAF_INVALID);
    // SAFETY: the handle is good.
    assert!(fine(unsafe { everleaf_close(db.0) }));
    let all = Handles { db: db.0, tree: tree.0, snapshot: snapshot.0, txn: txn.0 };
    expect_empty(&all, EVERLEAF_CLOSED);
    // SAFETY: each pointer is NULL or good.
    unsafe {
        let mut place = ptr::dangling_mut();
        assert_eq!(everleaf_open(null(), null(), &raw mut place), EVERLEAF_INVALID);
        assert!(place.is_null());
    }
}
