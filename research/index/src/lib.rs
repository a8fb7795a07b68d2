//! The C library of the trees by name: `libeverleaf_index.so` and `include/everleaf_index.h`, for harnesses in C and C++.
//!
//! The header is made of this source by `cargo xtask header`, so the comments of exported items are written for
//! programmers of C. Promises that hold for all functions are in the head of the header (`cbindgen.toml`).
//!
//! # The promise of a caller
//!
//! All `unsafe` here rests on the same promise, which C cannot express and the header states: a pointer is NULL or points
//! to as much as the function says; a handle is NULL or comes from `everleaf_index_open` and was not freed; and no handle is
//! closed or freed while a call uses it.

#![allow(non_camel_case_types)]

// The header has their items in this order.
mod codes;

mod failure;

mod call;

mod last;

mod names;

mod options;

mod figures;

mod trees;

mod handle;

mod pairs;

mod stats;

mod record;

mod check;

/// Checks what the header says of threads.
const _: () = {
    const fn by_several<T: Send + Sync>() {}
    by_several::<handle::everleaf_index>();
};
