//! Tests of the checker, in one program, so that they are linked once. Those of schedules, and of what the
//! checker must find, stand beside it.

mod buffered;
mod complete;
mod conformance;
mod durable;
mod epochs;
mod script;
