//! Most tests of the Db, in one program, so that they are linked once: `cargo test -p everleaf --test db
//! memory::` runs those of one file. Tests that need a process of their own, measure time, or run
//! long stand beside it.

#[path = "../cut/mod.rs"]
mod cut;
#[path = "../histories/mod.rs"]
#[allow(dead_code, unused_imports, reason = "no thread is scheduled")]
mod histories;
#[path = "../readers/mod.rs"]
mod readers;

mod abandon;
mod anomalies;
mod at_the_compiler;
mod attempts;
mod backup;
mod batches;
mod batches_full;
mod budget;
mod bytes;
mod close;
mod compaction;
mod cursors;
mod disk_full;
mod dropping;
mod durability;
mod examples;
mod facade;
mod half_made;
mod in_memory;
mod isolation;
mod keys;
mod len;
mod liveness;
mod load;
mod locks;
mod many_trees;
mod memory;
mod names;
mod options;
mod pools;
mod read_tree;
mod roots_full;
mod single;
mod snapshots;
mod transactions;
mod transactions_by_leaves;
mod transactions_full;
mod transactions_leaked;
mod transactions_model;
mod values;
mod values_in_memory;
mod waiting;
