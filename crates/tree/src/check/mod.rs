//! Checking a tree: everything that its pages and records say is looked at, and nothing believed.
//!
//! Level by level from the root down, each from left to right by the sibling links. What must hold:
//! nodes are pages of nodes in the map and are met once; keys rise, lie within their node's bounds
//! and are named once; a node's lower bound is its left neighbour's upper one; each entry of a
//! parent names the node that begins at its separator; every record that is named can be read. A
//! node without an entry in its parent is no damage: a split that a crash interrupted, counted.
//!
//! Others may write meanwhile. Each node is read at one moment: version, read, validate. A link is
//! believed if the node that holds it is unchanged when the next one's version is known; else the walk
//! goes on with a search for the key that it has come to. What two nodes say of each other is damage
//! if both are as they were read.

mod leaks;
mod one;
mod report;
mod walk;
pub use leaks::{NamedPages, compare, leaks, misnamed};
pub use report::TreeReport;
