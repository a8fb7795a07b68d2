//! Slotted nodes, as the spine asks for them: pairs live in their leaf, separators in their node.
//!
//! [`node::slotted`](crate::node::slotted) knows one page. Here it meets the pool: what does not fit a node
//! is in a *record*, and a step makes and frees records together with the entries and fences that name
//! them.
//!
//! | what | where |
//! |---|---|
//! | a pair of a short key and a short value | the leaf's entry |
//! | a pair of a long key or a long value | a record with both, in extents if it fits no page; the entry refers to it |
//! | a long separator | the record of the child's low fence; the parent's entry refers to it, too |
//! | a long fence | a record with all of it; each of the two nodes that it is between has one of its own |
//!
//! These nodes need a journal, which makes each step whole: their stores have no order.

mod checks;
mod copies;
mod evens;
mod far;
mod fills;
mod keys;
mod merges;
mod splits;
mod values;
mod writes;

/// The kind of the Db's trees on a file: byte strings to byte strings in slotted nodes.
#[derive(Debug, Clone, Copy)]
pub struct Slotted;
