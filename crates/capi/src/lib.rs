//! The C library of Everleaf: `libeverleaf.so`, `libeverleaf.a` and `include/everleaf.h`.
//!
//! The header is made of this source by `cargo xtask header`, so the comments of exported items are written for
//! programmers of C. Promises that hold for all functions are in the head of the header (`cbindgen.toml`): who owns what,
//! codes, threads, forks.
//!
//! Each exported function is one call of a function of [`call`], which does what all have in common: it refuses NULL and
//! pools that are not open, catches panics, and keeps the failure for `everleaf_last_message`. The rest is in the
//! function itself: pointers to slices, codes for `Option`s.
//!
//! # The promise of a caller
//!
//! All `unsafe` here rests on the same promise, which C cannot express and the header states: a pointer is NULL or points
//! to as many bytes as the length beside it says; a handle is NULL or comes from a function of this library and was not
//! freed; a handle that is not `const` is used by one thread at a time; and no handle is freed while a call uses it.

#![allow(non_camel_case_types)]

// The header has their items in this order: what each call has to do with, then pools, trees, pairs, and what is made of
// several of them.
mod codes;

mod failure;

mod call;
mod last;
mod memory;

mod budget;
mod options;

mod pool;

mod epochs;
mod lists;
mod stats;

mod tree;

mod pairs;

mod writer;

mod batch;

mod cursor;

mod snapshot;

mod txn;

mod scan;

/// The header's rule for threads: these may be used by several at once, and those by one after the other.
const _: () = {
    const fn by_several<T: Send + Sync>() {}
    const fn by_one<T: Send>() {}
    by_several::<(pool::everleaf_db, tree::everleaf_tree, snapshot::everleaf_snapshot)>();
    by_several::<(lists::everleaf_names, lists::everleaf_damages, budget::everleaf_budget)>();
    by_one::<(options::everleaf_options, batch::everleaf_batch, cursor::everleaf_cursor)>();
    by_one::<(scan::everleaf_scan, txn::everleaf_txn, writer::everleaf_writer)>();
};

#[cfg(test)]
mod tests;
