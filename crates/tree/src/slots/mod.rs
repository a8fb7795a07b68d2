//! Nodes of equal slots, as the spine asks for them: a [layout](crate::node::Layout) says how slots lie
//! in the node, a [probe](crate::node::Probe) which of them a search looks at, and
//! [keys](crate::keys::Keys) what their words mean. Any tuple of the three is a [kind](crate::Kind) of
//! tree.

mod checks;
mod copies;
mod evens;
mod fills;
mod keys;
mod merges;
mod splits;
mod values;
mod writes;
