//! A small case of each proof that docs/PAPERS.md names, for `cargo test`. A module here has the name of the file of
//! `tests/trees` whose whole is behind the feature `heavy`; `cargo xtask heavy ci/papers.txt` runs all of those.

#[path = "../trees/bd/mod.rs"]
mod bd;
#[path = "../trees/common/mod.rs"]
mod common;
#[path = "../trees/tree.rs"]
mod tree;

mod epochs;
mod nodes;
mod whole;
