//! Tests of the command that do not run long, in one program, so that they are linked once.

#[path = "../common/mod.rs"]
mod common;

mod asking;
mod bad_input;
mod closed_pipes;
mod commands;
mod compact;
mod debug;
mod disk_full;
mod documents;
mod import;
mod lmdb;
mod load;
mod making;
mod on_terminal;
mod places;
mod salvage;
mod shell;
mod shell_on_terminal;
