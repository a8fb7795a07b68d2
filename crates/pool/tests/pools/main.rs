//! Tests of pools that do not run long, in one program, so that they are linked once.

#[path = "../common/mod.rs"]
mod common;

mod glance;
mod model;
mod reclaim;
mod steps;
