//! How often something is tried that others may be in the way of.
//!
//! First it is tried again at once, then after a little while, and from the ninth time on with the
//! [right of way](crate::engine::RightOfWay): other writers wait for it then, each for a moment. It ends in any case,
//! for the attempts are counted: also if it is in its own way, where no right of way helps.

use std::time::Duration;

use crate::Error;
use crate::engine::{Engine, Way};

/// Attempts, unless the program says otherwise.
pub(crate) const ATTEMPTS: u32 = 100;
/// After so many failures it waits longer than for the processor.
const HASTY: u32 = 4;
/// After so many failures others wait for it.
const PATIENT: u32 = 8;

/// The attempts of one operation.
pub(crate) struct Attempts<'e> {
    engine: &'e Engine,
    most: u32,
    failed: u32,
    way: Option<Way<'e>>,
}

impl<'e> Attempts<'e> {
    /// At most so many, and at least one. The first one begins.
    pub fn new(engine: &'e Engine, most: u32) -> Self {
        Self { engine, most, failed: 0, way: None }
    }

    /// One has failed. Returns when it is time for the next one.
    ///
    /// # Errors
    /// How many there were, if that was the last one.
    pub fn failed(&mut self) -> Result<(), u64> {
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

    fn end_way(&mut self) {
        if let Some(way) = self.way.take()
            && let Err(Error::Forked) = self.engine.alive()
        {
            // In a fork another thread may have the lock that says so for ever.
            std::mem::forget(way);
        }
    }
}

impl Drop for Attempts<'_> {
    fn drop(&mut self) {
        self.end_way();
    }
}
