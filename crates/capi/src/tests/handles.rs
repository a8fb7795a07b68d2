//! Every function, with handles that are NULL, closed, of a parent process, or in the middle of a panic.
//!
//! Why the calls are sound: all handles are those of [`All`], which frees them once, and the rest is NULL or a local.

#![allow(clippy::undocumented_unsafe_blocks, reason = "there is one reason for all of them, above")]

use super::*;
use crate::batch::*;
use crate::call::inject::everleaf_test_panic_in;
use crate::codes::*;
use crate::cursor::*;
use crate::epochs::*;
use crate::lists::*;
use crate::memory::*;
use crate::pairs::*;
use crate::snapshot::*;
use crate::stats::*;
use crate::writer::*;

/// A pool in memory, and a handle of each kind that comes from it.
struct All {
    db: *mut everleaf_db,
    tree: *mut everleaf_tree,
    batch: *mut everleaf_batch,
    cursor: *mut everleaf_cursor,
    scan: *mut everleaf_scan,
    snapshot: *mut everleaf_snapshot,
    txn: *mut everleaf_txn,
    writer: *mut everleaf_writer,
}

impl All {
    const NONE: All = All {
        db: null_mut(),
        tree: null_mut(),
        batch: null_mut(),
        cursor: null_mut(),
        scan: null_mut(),
        snapshot: null_mut(),
        txn: null_mut(),
        writer: null_mut(),
    };

    fn new() -> All {
        let mut all = All::NONE;
        let codes = unsafe {
            [
                everleaf_open_in_memory(null(), &raw mut all.db),
                everleaf_tree_create(all.db, c"t".as_ptr(), &raw mut all.tree),
                everleaf_put(all.tree, c"k".as_ptr().cast(), 1, c"v".as_ptr().cast(), 1),
                everleaf_batch_new(all.db, 0, &raw mut all.batch),
                everleaf_cursor_new(all.tree, &raw mut all.cursor),
                everleaf_cursor_first(all.cursor),
                everleaf_scan_new(all.tree, null(), 0, null(), 0, 0, &raw mut all.scan),
                everleaf_snapshot_new(all.db, &raw mut all.snapshot),
                everleaf_txn_begin(all.db, 0, 0, &raw mut all.txn),
                everleaf_writer_new(all.tree, null(), 0, 10, &raw mut all.writer),
            ]
        };
        assert_eq!(codes, [EVERLEAF_OK; 10], "{}", message());
        all
    }

    fn put(&self) -> c_int {
        unsafe { everleaf_put(self.tree, null(), 0, null(), 0) }
    }

    /// Frees one kind of handle, by the function's name, or all.
    fn free(&mut self, only: Option<&str>) {
        let is_it = |name| only.is_none_or(|only| only == name);
        macro_rules! free {
            ($($free:ident($handle:ident)),*) => { $(
                if is_it(stringify!($free)) {
                    unsafe { $free(std::mem::replace(&mut self.$handle, null_mut())) };
                }
            )* };
        }
        free!(
            everleaf_writer_free(writer),
            everleaf_txn_free(txn),
            everleaf_db_free(db),
            everleaf_tree_free(tree),
            everleaf_batch_free(batch),
            everleaf_cursor_free(cursor),
            everleaf_scan_free(scan),
            everleaf_snapshot_free(snapshot)
        );
    }
}

impl Drop for All {
    fn drop(&mut self) {
        self.free(None);
    }
}

type Call = (&'static str, fn(&All) -> c_int);

/// Each function once, with the arguments that follow its handle: none does anything before it has looked at the handle.
macro_rules! calls {
    ($($name:ident($handle:ident $(, $argument:expr)*);)*) => {
        &[$((stringify!($name), |all| unsafe { $name(all.$handle $(, $argument)*) })),*]
    };
}

/// NULL of any type.
fn no<T>() -> *mut T {
    null_mut()
}

/// All functions that need an open pool.
const OPEN: &[Call] = calls! {
    everleaf_sync(db);
    everleaf_checkpoint(db);
    everleaf_compact(db, no(), no());
    everleaf_backup(db, no(), no());
    everleaf_epoch(db, no());
    everleaf_durable_epoch(db, no());
    everleaf_end_epoch(db, no());
    everleaf_pending_bytes(db, no());
    everleaf_wait_durable(db, 1, 1);
    everleaf_tree_names(db, no());
    everleaf_check(db, no());
    everleaf_db_stats(db, no());
    everleaf_tree_create(db, c"t".as_ptr(), no());
    everleaf_tree_open(db, c"t".as_ptr(), no());
    everleaf_tree_drop(db, c"t".as_ptr());
    everleaf_tree_rename(db, c"t".as_ptr(), c"u".as_ptr());
    everleaf_batch_new(db, 0, no());
    everleaf_snapshot_new(db, no());
    everleaf_txn_begin(db, 0, 0, no());
    everleaf_tree_with(tree, 0, no());
    everleaf_tree_name(tree, no());
    everleaf_tree_len(tree, no());
    everleaf_tree_clear(tree, no());
    everleaf_put(tree, no(), 0, no(), 0);
    everleaf_insert_new(tree, no(), 0, no(), 0);
    everleaf_replace(tree, no(), 0, no(), 0);
    everleaf_compare_and_swap(tree, no(), 0, no(), 0, no(), 0, no(), no());
    everleaf_delete(tree, no(), 0);
    everleaf_take(tree, no(), 0, no(), no());
    everleaf_swap(tree, no(), 0, no(), 0, no(), no());
    everleaf_remove_range(tree, no(), 0, no(), 0, 0, no());
    everleaf_pop_first(tree, no(), no(), no(), no());
    everleaf_pop_last(tree, no(), no(), no(), no());
    everleaf_contains(tree, no(), 0);
    everleaf_get(tree, no(), 0, no(), 0, no());
    everleaf_get_alloc(tree, no(), 0, no(), no());
    everleaf_value_len(tree, no(), 0, no());
    everleaf_read_at(tree, no(), 0, 0, no(), 0, no());
    everleaf_writer_new(tree, no(), 0, 1, no());
    everleaf_cursor_new(tree, no());
    everleaf_scan_new(tree, no(), 0, no(), 0, 0, no());
    everleaf_writer_write(writer, no(), 0);
    everleaf_writer_finish(writer);
    everleaf_batch_put(batch, no(), no(), 0, no(), 0);
    everleaf_batch_delete(batch, no(), no(), 0);
    everleaf_batch_len(batch, no());
    everleaf_batch_commit(batch);
    everleaf_cursor_first(cursor);
    everleaf_cursor_last(cursor);
    everleaf_cursor_seek(cursor, no(), 0);
    everleaf_cursor_seek_for_prev(cursor, no(), 0);
    everleaf_cursor_next(cursor);
    everleaf_cursor_prev(cursor);
    everleaf_cursor_key(cursor, no(), no());
    everleaf_cursor_value(cursor, no(), no());
    everleaf_cursor_pair(cursor, no(), no(), no(), no());
    everleaf_scan_fill(scan, no(), 0, no(), no(), no());
    everleaf_snapshot_tree(snapshot, c"t".as_ptr(), no());
    everleaf_snapshot_of(snapshot, no(), no());
    everleaf_snapshot_tree_names(snapshot, no());
    everleaf_txn_get(txn, no(), no(), 0, no(), 0, no());
    everleaf_txn_get_alloc(txn, no(), no(), 0, no(), no());
    everleaf_txn_contains(txn, no(), no(), 0);
    everleaf_txn_put(txn, no(), no(), 0, no(), 0);
    everleaf_txn_delete(txn, no(), no(), 0);
    everleaf_txn_scan_new(txn, no(), no(), 0, no(), 0, 0, no());
    everleaf_txn_commit(txn);
    everleaf_txn_abort(txn);
};

/// Functions that work with a pool that is closed.
const ANY: &[Call] = calls! {
    everleaf_close(db);
    everleaf_abandon(db);
};

/// Functions that free a handle of a pool.
const FREES: [&str; 8] = [
    "everleaf_writer_free",
    "everleaf_txn_free",
    "everleaf_db_free",
    "everleaf_tree_free",
    "everleaf_batch_free",
    "everleaf_cursor_free",
    "everleaf_scan_free",
    "everleaf_snapshot_free",
];

fn panic_in(name: &str) {
    let name = CString::new(name).expect("a name");
    unsafe { everleaf_test_panic_in(name.as_ptr()) };
}

#[test]
fn null_is_no_handle_and_may_be_freed() {
    for (name, call) in OPEN.iter().chain(ANY) {
        assert_eq!(call(&All::NONE), EVERLEAF_INVALID, "{name}");
        assert_eq!(message(), format!("{name}: the handle is NULL"));
    }
    drop(All::NONE);
    let (names, damages): (*mut everleaf_names, *mut everleaf_damages) = (no(), no());
    unsafe {
        everleaf_names_free(names);
        everleaf_damages_free(damages);
        everleaf_options_free(no());
        everleaf_budget_free(no());
        everleaf_bytes_free(no());
        assert_eq!((everleaf_names_len(names), everleaf_damages_len(damages)), (0, 0));
        assert_eq!(everleaf_names_at(names, 0, no(), no()), EVERLEAF_INVALID);
        assert_eq!(everleaf_damages_at(damages, 0, no(), no()), EVERLEAF_INVALID);
        assert_eq!(everleaf_options_memory(no(), 1), EVERLEAF_INVALID);
        assert_eq!(everleaf_options_budget(no(), no()), EVERLEAF_INVALID);
    }
}

#[test]
fn every_call_after_the_close_says_so() {
    let all = All::new();
    assert_eq!(unsafe { everleaf_close(all.db) }, EVERLEAF_OK);
    for (name, call) in OPEN {
        assert_eq!(call(&all), EVERLEAF_CLOSED, "{name}");
    }
    assert_eq!(unsafe { everleaf_close(all.db) }, EVERLEAF_OK);
    let mut other = All::new();
    // Without a close, the free of the pool is one.
    other.free(Some("everleaf_db_free"));
    for (name, call) in OPEN {
        let code = call(&other);
        // Of those that are for the pool itself there is no handle any more.
        assert!(
            code == EVERLEAF_CLOSED || code == EVERLEAF_INVALID && message().ends_with("NULL"),
            "{name}: {code}"
        );
    }
    assert_eq!(other.put(), EVERLEAF_CLOSED);
}

#[test]
fn every_call_in_a_fork_says_so() {
    let all = All::new();
    let child = unsafe { libc::fork() };
    if child == 0 {
        let calls = OPEN.iter().chain(ANY);
        let wrong = calls.filter(|(_, call)| call(&all) != EVERLEAF_FORKED).count();
        // Frees do nothing but free.
        drop(all);
        unsafe { libc::_exit(if wrong == 0 { 0 } else { 1 }) };
    }
    let mut status = -1;
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "calls in the child said something else, or it died");
    assert_eq!(all.put(), EVERLEAF_OK);
}

#[test]
fn a_panic_in_any_function_does_not_get_out_and_stops_writes() {
    let mut tried: BTreeSet<&str> = BTreeSet::new();
    for (name, call) in OPEN.iter().chain(ANY) {
        let all = All::new();
        panic_in(name);
        assert_eq!(call(&all), EVERLEAF_PANIC, "{name}");
        let text =
            format!("{name} met a defect of the library, please report it: as the test asked for");
        assert_eq!(message(), text);
        assert_eq!(all.put(), EVERLEAF_POISONED, "{name}");
        assert_eq!(unsafe { everleaf_contains(all.tree, c"k".as_ptr().cast(), 1) }, EVERLEAF_OK);
        tried.insert(name);
    }
    for name in FREES {
        let mut all = All::new();
        panic_in(name);
        all.free(Some(name));
        assert_eq!(everleaf_last_code(), EVERLEAF_PANIC, "{name}");
        let is_left = !all.tree.is_null() && !all.db.is_null();
        assert!(!is_left || all.put() == EVERLEAF_POISONED, "{name}");
        tried.insert(name);
    }
    tried.extend(panics_without_a_pool());
    tried.extend(panics_of_options());
    assert_eq!(tried, exported());
}

/// The same in functions that are for no pool.
#[allow(clippy::cmp_null, reason = "answers of all types are compared in one way")]
fn panics_without_a_pool() -> Vec<&'static str> {
    let mut tried = Vec::new();
    let (names, damages) = (no::<everleaf_names>(), no::<everleaf_damages>());
    let mut try_one = |name: &'static str, call: &mut dyn FnMut()| {
        panic_in(name);
        call();
        assert!(message().starts_with(name), "{name}: {}", message());
        tried.push(name);
    };
    macro_rules! try_all {
        ($($name:ident($($argument:expr),*) == $answer:expr;)*) => { $(
            // Some are not unsafe.
            #[allow(unused_unsafe)]
            try_one(stringify!($name), &mut || assert!(unsafe { $name($($argument),*) } == $answer));
        )* };
    }
    let all = All::new();
    let (mut names_there, mut damages_there) = (names, damages);
    unsafe {
        assert_eq!(everleaf_tree_names(all.db, &raw mut names_there), EVERLEAF_OK);
        assert_eq!(everleaf_check(all.db, &raw mut damages_there), EVERLEAF_OK);
    }
    let bytes = {
        let mut bytes = no();
        assert_eq!(
            unsafe { everleaf_get_alloc(all.tree, c"k".as_ptr().cast(), 1, &raw mut bytes, no()) },
            EVERLEAF_OK
        );
        bytes
    };
    try_all! {
        everleaf_version() == everleaf_version();
        everleaf_options_new() == no();
        everleaf_open(no(), no(), no()) == EVERLEAF_PANIC;
        everleaf_open_in_memory(no(), no()) == EVERLEAF_PANIC;
        everleaf_names_len(names_there) == 0;
        everleaf_names_at(names_there, 0, no(), no()) == EVERLEAF_PANIC;
        everleaf_damages_len(damages_there) == 0;
        everleaf_damages_at(damages_there, 0, no(), no()) == EVERLEAF_PANIC;
        everleaf_names_free(names_there) == ();
        everleaf_damages_free(damages_there) == ();
        everleaf_bytes_free(bytes) == ();
        everleaf_options_free(everleaf_options_new()) == ();
        everleaf_budget_new(1) == no();
        everleaf_budget_bytes(no()) == 0;
        everleaf_budget_used(no()) == 0;
        everleaf_budget_pools(no()) == 0;
        everleaf_budget_free(everleaf_budget_new(1)) == ();
        everleaf_code_name(0) == c"unknown".as_ptr();
        everleaf_last_conflict_key(no()) == null();
        everleaf_last_errno() == 0;
    }
    drop(all);
    // Those tell of the last failure, so the answer of the next call is the text of this one.
    for (name, text) in [
        ("everleaf_last_message", everleaf_last_message as extern "C" fn() -> *const c_char),
        ("everleaf_last_conflict_tree", everleaf_last_conflict_tree),
    ] {
        panic_in(name);
        assert_eq!(unsafe { CStr::from_ptr(text()) }, c"");
        assert!(message().starts_with(name));
        tried.push(name);
    }
    panic_in("everleaf_last_code");
    assert_eq!((everleaf_last_code(), everleaf_last_code()), (EVERLEAF_OK, EVERLEAF_PANIC));
    tried.push("everleaf_last_code");
    tried
}

/// The same in functions that set an option.
fn panics_of_options() -> Vec<&'static str> {
    type Set<T> = unsafe extern "C" fn(*mut everleaf_options, T) -> c_int;
    macro_rules! all {
        ($($name:ident),*) => { [$((stringify!($name), $name as Set<_>)),*] };
    }
    let longs: [(&str, Set<u64>); _] = all![
        everleaf_options_interval,
        everleaf_options_journal_bytes,
        everleaf_options_pending_bytes,
        everleaf_options_max_bytes,
        everleaf_options_memory,
        everleaf_options_snapshot_memory,
        everleaf_options_transaction_memory
    ];
    let ints: [(&str, Set<c_int>); _] = all![
        everleaf_options_durability,
        everleaf_options_create,
        everleaf_options_read_only,
        everleaf_options_storage,
        everleaf_options_background,
        everleaf_options_manual_epochs,
        everleaf_options_compression
    ];
    let options = Own(everleaf_options_new(), everleaf_options_free);
    let mut tried = Vec::new();
    let mut try_one = |name: &'static str, set: &dyn Fn() -> c_int| {
        panic_in(name);
        assert_eq!(set(), EVERLEAF_PANIC, "{name}");
        assert!(message().starts_with(name), "{name}: {}", message());
        tried.push(name);
    };
    longs.iter().for_each(|(name, set)| try_one(name, &|| unsafe { set(options.0, 1) }));
    ints.iter().for_each(|(name, set)| try_one(name, &|| unsafe { set(options.0, 1) }));
    try_one("everleaf_options_page_bytes", &|| unsafe {
        everleaf_options_page_bytes(options.0, 1)
    });
    try_one("everleaf_options_budget", &|| unsafe { everleaf_options_budget(options.0, no()) });
    tried
}
