//! Calls that fail.

use std::io::{self, ErrorKind};

use super::disk::{Disk, SECTOR};

/// A failure that strikes one call. One that does not fit the call does nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// Any call: an I/O error, without effect. The same call works when it is tried again.
    Io,
    /// A read or a write: an I/O error after a part is done.
    PartialIo,
    /// A read: an I/O error because of one of its sectors, which cannot be read until it is written
    /// over, also by the next process and after a power cut.
    BadSector,
    /// A write, a change of length or a new file: no space, after a part of the write is done.
    NoSpace,
    /// As [`NoSpace`](Self::NoSpace), and the disk stays full: writes over bytes that have been
    /// written before work, others do not, until [`SimIo::heal`](super::SimIo::heal).
    Full,
    /// A sync: an I/O error; half of what was to be synced is dropped, and the file then passes for
    /// clean, so that another sync succeeds and saves nothing.
    LostSync,
}

impl Fault {
    /// All of them.
    pub const ALL: [Fault; 6] = [
        Fault::Io,
        Fault::PartialIo,
        Fault::BadSector,
        Fault::NoSpace,
        Fault::Full,
        Fault::LostSync,
    ];
}

/// What a disk does without being asked for it at a certain call. The default is nothing. The disk
/// after a cut has the weather of the one before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Weather {
    /// Of so many attempts to read or write one is interrupted, or does a part only; 0: none.
    pub short: u32,
    /// Of so many calls one fails; 0: none.
    pub storm: u32,
    /// What a call in a storm fails by: one of these that fits it.
    pub faults: &'static [Fault],
    /// Whether a power cut sends one unsynced sector to a wrong place.
    pub misdirects: bool,
}

/// The calls, as far as faults tell them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    Read,
    Write,
    /// A new file, or a new length.
    Room,
    Sync,
    Other,
}

impl Fault {
    fn fits(self, call: Call) -> bool {
        match self {
            Fault::Io => true,
            Fault::PartialIo => matches!(call, Call::Read | Call::Write),
            Fault::BadSector => call == Call::Read,
            Fault::NoSpace | Fault::Full => matches!(call, Call::Write | Call::Room),
            Fault::LostSync => call == Call::Sync,
        }
    }
}

pub(super) fn eio() -> io::Error {
    io::Error::other("simulated I/O error")
}

pub(super) fn no_space() -> io::Error {
    ErrorKind::StorageFull.into()
}

impl Disk {
    /// Counts a call, cuts the power before it if that is due, and says what strikes it.
    /// [`Fault::Io`] needs no more said.
    pub(super) fn call(&mut self, call: Call) -> io::Result<Option<Fault>> {
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
                self.full = true;
                Ok(Some(Fault::NoSpace))
            }
            other => Ok(other),
        }
    }

    fn storm(&mut self, call: Call) -> Option<Fault> {
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
