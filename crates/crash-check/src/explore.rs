//! Walks through a record, builds the legal crash images, and has each one recovered and checked.
//!
//! Legal sets only grow between rises of the floors, so the crash points are: just before each
//! fence, after each response, and at the end; and before an invocation if something was stored
//! since, because from there on the checker must forgive more.
//!
//! Images are told apart by their bytes *and* by the marks before the crash: an image without an
//! operation is right while that operation runs and wrong after it has answered.

use std::sync::Arc;

use everleaf_pmem::Sim;
use everleaf_pmem::sim::Event;

use crate::exploration::{CrashLevel, Exploration};
use crate::failure::{Coverage, Crash, Failure};
use crate::images::ImageWalk;
pub use crate::settings::Explorer;
use crate::trace::{CrashPoint, Operations, Recording};

impl Explorer {
    /// Recovers each legal crash image of the recording by `recover` and passes the outcome to
    /// `verify`. Recovery is itself crashed, down to the chosen depth. `verify` may go on to use what was
    /// recovered; it is not crashed. A panic in either of them refuses the image.
    ///
    /// # Errors
    /// The first image that was refused.
    pub fn explore<T>(
        &self,
        record: &Recording,
        recover: impl FnMut(&Arc<Sim>) -> Result<T, String>,
        verify: impl FnMut(T, &Arc<Sim>, &CrashPoint<'_>) -> Result<(), String>,
    ) -> Result<Coverage, Box<Failure>> {
        let mut run = Exploration::new(self, record, recover, verify)?;
        let walk = ImageWalk::new(self.mode, record.initial.clone());
        let mut level = CrashLevel::new(1, walk, record.initial.clone());
        level.workload(&mut run, record)?;
        run.stats.tally();
        Ok(run.stats)
    }

    /// Like [`Explorer::explore`], for structures that need no recovery: it crashes the workload only.
    ///
    /// # Errors
    /// The first image that was refused.
    pub fn check(
        &self,
        record: &Recording,
        mut check: impl FnMut(&Arc<Sim>, &CrashPoint<'_>) -> Result<(), String>,
    ) -> Result<Coverage, Box<Failure>> {
        let shallow = self.clone().depth(1);
        shallow.explore(record, |_| Ok(()), |(), sim, crash| check(sim, crash))
    }

    /// Runs one image again: that of a [`Failure`], by its `crashes`.
    ///
    /// # Errors
    /// The failure, if it still happens.
    ///
    /// # Panics
    /// If the crashes are not those of this recording.
    pub fn replay<T>(
        &self,
        record: &Recording,
        crashes: &[Crash],
        recover: impl FnMut(&Arc<Sim>) -> Result<T, String>,
        verify: impl FnMut(T, &Arc<Sim>, &CrashPoint<'_>) -> Result<(), String>,
    ) -> Result<(), Box<Failure>> {
        let shallow = self.clone().depth(1);
        let mut run = Exploration::new(&shallow, record, recover, verify)?;
        let (first, mut rest) = crashes.split_first().expect("at least one crash");
        let mut operations = Operations::default();
        for event in &record.events[..first.event] {
            if let Event::Mark { mark, .. } = event {
                operations.see(*mark);
            }
        }
        let point = CrashPoint::new(&record.events, first.event, &operations);
        let walk = ImageWalk::new(self.mode, record.initial.clone());
        let mut image = walk.image_of(&record.events, first);
        while let Some((crash, deeper)) = rest.split_first() {
            let events = run.events_of_recovery(&image);
            image = ImageWalk::new(self.mode, image).image_of(&events, crash);
            rest = deeper;
        }
        run.once(&image, &point).map_err(|mut failure| {
            failure.crashes = crashes.to_vec();
            failure
        })
    }
}
