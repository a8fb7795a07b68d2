//! Trees of slotted nodes, whole: against a model, as any ordered index, their readers beside evening out,
//! who makes room in them, and the space that they give back.

mod batches;
mod drains;
mod model;
mod readers;
mod room;
mod shares;
#[path = "../trees/texts/mod.rs"]
mod texts;
mod watched;
