//! The slotted node alone: against a model, against redo, and against pages that are anything.

mod hostile;
mod keys;
mod limits;
mod medium;
mod model;
mod race;
mod refused;
mod world;
