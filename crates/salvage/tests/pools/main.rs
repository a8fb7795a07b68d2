//! Salvage of small pools, in one program, so that they are linked once.

#[path = "../damaged/mod.rs"]
mod damaged;

mod invented;
mod kinds;
mod placed;
