//! Waits and refusals: bounds, room on the disk, and what is kept in reserve.

pub(crate) mod bounds;
pub(crate) mod ready;
pub(crate) mod reserve;
pub(crate) mod room;
