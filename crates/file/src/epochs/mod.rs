//! What an epoch changed, how it is committed, and when it is durable.

pub(crate) mod barrier;
pub(crate) mod commit;
pub(crate) mod counts;
pub(crate) mod durable;
pub(crate) mod slots;
pub(crate) mod spill;
pub(crate) mod ticker;
pub(crate) mod waits;
