//! The trees of the papers, and what is written for trees of every kind. A subject is a file, as in other programs of
//! tests; they are one program because each of its own would compile the code of all kinds of trees anew.
//!
//! `cargo xtask heavy` runs each file as a process of its own; `cargo test … --test trees racing::` runs one of them.

mod bd;
mod common;
mod cut;
mod file_schedule;
mod hooked;
mod schedule;
mod texts;
mod tree;

mod bd_crash;
mod bd_load;
mod bd_merge;
mod bd_mutants;
mod bd_schedules;
mod bd_space;
mod check;
mod conformance;
mod costs;
mod counts;
mod crash_format;
mod crash_node;
mod crash_reclaim;
mod crash_tree;
mod drains;
mod fair;
mod file_schedules;
mod fills;
mod gifts;
mod hybrid;
mod hybrid_damage;
mod hybrid_open;
mod interrupted;
mod liveness;
mod model;
mod mutants;
mod mutants_tree;
mod power_cut;
mod published_bugs;
mod racing;
mod racing_merge;
mod readers;
mod reclaim;
mod refusing;
mod schedules;
mod several_trees;
mod threads_file;
mod turns;
