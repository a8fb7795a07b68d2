//! Tests of files that need no process of their own and do not run long, in one program, so that they are
//! linked once: `cargo test -p everleaf-file --test files file_proofs::` runs those of one file.

#[macro_use]
#[path = "../forward/mod.rs"]
mod forward;
#[path = "../raw/mod.rs"]
mod raw;
#[path = "../toy/mod.rs"]
mod toy;

mod buffered_dax;
mod file_aside;
mod file_budget;
mod file_close;
mod file_cut;
mod file_damage;
mod file_fresh;
mod file_hostile;
mod file_manual;
mod file_options;
mod file_proofs;
mod file_races;
mod file_reads;
mod file_real;
mod file_room;
mod file_spill;
