//! What the latch is made of. `tests/loom_latch.rs` compiles the latch with another module of this
//! name, of loom's types, and so checks the code that runs.

pub(crate) use std::hint::spin_loop;
pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};
pub(crate) use std::thread::yield_now;
