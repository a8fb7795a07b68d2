//! The native part of the Java library: the native methods of the class `io.everleaf.Native`.
//!
//! **Handles.** An object of Java has a number, never an address. [`table`] knows what a number stands for, and each call
//! holds what it has found there: a close in another thread, in any order, takes the number away and nothing else.
//!
//! **Bytes.** Keys and values are copied from and to arrays of Java by regions. A *critical* region would keep the garbage
//! collector from running, and a put may wait for the disk. [`scan`] fills a buffer that both sides see.
//!
//! **Errors.** A call that fails leaves an exception behind, which Java makes from a code, a text and a few details; so
//! does a panic, which stops the writes of its pool ([`call`]).

#![deny(unsafe_code)]

mod batch;
mod budget;
mod bytes;
mod call;
mod callback;
mod cursor;
mod failure;
mod options;
mod pool;
mod read;
mod scan;
mod snapshot;
mod table;
mod transaction;
mod write;
