//! How often something is tried that others may be in the way of.
//!
//! First it is tried again at once, then after a little while, and from the ninth time on with the
//! [right of way](crate::engine::RightOfWay): other writers wait for it then, each for a moment. It ends in any case,
//! for the attempts are counted: also if it is in its own way, where no right of way helps.

use std::fmt;
use std::time::Duration;

use crate::Error;
use crate::engine::{Engine, Share, Way};

/// Attempts, unless the program says otherwise.
pub(crate) const ATTEMPTS: u32 = 100;
/// After so many failures it waits longer than for the processor.
const HASTY: u32 = 4;
/// After so many failures others wait for it.
const PATIENT: u32 = 8;

/// The attempts of one operation, all of one thread.
#[doc(hidden)]
pub struct Attempts {
    engine: Share<Engine>,
    most: u32,
    failed: u32,
    way: Option<Way>,
}

impl Attempts {
    /// At most so many, and at least one. The first one begins.
    pub(crate) fn new(engine: Share<Engine>, most: u32) -> Self {
        Self { engine, most, failed: 0, way: None }
    }

    /// One has failed. Returns when it is time for the next one.
    ///
    /// # Errors
    /// How many there were, if that was the last one.
    pub(crate) fn failed(&mut self) -> Result<(), u64> {
        self.end_way();
        self.failed += 1;
        if self.failed >= self.most {
            return Err(self.failed.into());
        }
        match self.failed {
            ..HASTY => std::thread::yield_now(),
            HASTY..PATIENT => self.rest(),
            PATIENT.. => self.way = self.engine.way().take(),
        }
        Ok(())
    }

    /// Longer each time, and not all for the same time.
    fn rest(&self) {
        let longest = 8 << (self.failed - HASTY);
        let own = everleaf_pmem::thread_number() as u64 * 0x9E37_79B9;
        let own = own + u64::from(self.failed) * 0x85EB_CA6B;
        std::thread::sleep(Duration::from_micros(1 + own % longest));
    }

    pub(crate) fn engine(&self) -> &Share<Engine> {
        &self.engine
    }

    /// As [`failed`](Self::failed), because of what others have done at a key.
    pub(crate) fn overtaken(&mut self, tree: Box<str>, key: Vec<u8>) -> Result<(), Error> {
        self.failed().map_err(|attempts| Error::Conflict { tree, key, attempts })
    }

    /// Others need not wait any more.
    pub(crate) fn end_way(&mut self) {
        // In a fork another thread may have the lock that says so for ever.
        if let Some(way) = self.way.take()
            && !matches!(self.engine.alive(), Err(Error::Forked))
        {
            self.engine.way().give_back(way);
        }
    }
}

impl fmt::Debug for Attempts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempts").field("failed", &self.failed).finish_non_exhaustive()
    }
}

/// Also if the thread panics.
impl Drop for Attempts {
    fn drop(&mut self) {
        self.end_way();
    }
}
