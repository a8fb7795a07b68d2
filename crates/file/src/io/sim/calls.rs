//! What strikes a call to the simulated disk.

use std::io;

use super::disk::{Disk, SECTOR};
use super::fault::{Fault, IoCall, Weather, eio};

impl Disk {
    /// Counts a call, cuts the power before it if that is due, and says what strikes it.
    /// [`Fault::Io`] needs no more said.
    pub(super) fn call(&mut self, call: IoCall) -> io::Result<Option<Fault>> {
        let no = self.calls;
        if let Some((_, seed)) = self.cut_at.take_if(|(at, _)| *at <= no) {
            self.cut =
                Some(Box::new(seed.map_or_else(|| self.kill(), |seed| self.power_cut(seed))));
        }
        self.calls += 1;
        let asked = self.fault.filter(|(at, fault)| *at == no && fault.fits(call));
        let fault = asked.map(|(_, fault)| fault).or_else(|| self.storm(call));
        self.struck += u64::from(fault.is_some());
        match fault {
            Some(Fault::Io) => Err(eio()),
            Some(Fault::Full) => {
                // The call meets it if it needs room.
                self.full = true;
                Ok(None)
            }
            other => Ok(other),
        }
    }

    fn storm(&mut self, call: IoCall) -> Option<Fault> {
        let Weather { storm, faults, .. } = self.weather;
        if storm == 0 || self.rng.below(storm.into()) != 0 {
            return None;
        }
        let fitting = || faults.iter().filter(|fault| fault.fits(call));
        let n = self.rng.below(fitting().count() as u64);
        fitting().nth(n as usize).copied()
    }

    /// Makes one of the sectors that a read asks for a bad one, if it asks for any.
    pub(super) fn spoil(&mut self, inode: usize, offset: u64, len: usize) {
        let end = (offset + len as u64).min(self.inodes[inode].live.len());
        if offset < end {
            let (first, last) = (offset / SECTOR, (end - 1) / SECTOR);
            let sector = first + self.rng.below(last - first + 1);
            self.inodes[inode].bad.insert(sector);
        }
    }
}
