//! Writes that the disk reports as done and does wrong.

use std::path::PathBuf;

use super::disk::{Disk, Rng, SECTOR, UnsyncedChange};
use super::fault::Lie;
use super::place::{DiskPlace, Lied};

impl Disk {
    /// The lie that is due at a write, and its seed.
    pub(super) fn due_lie(&mut self) -> Option<(Lie, u64)> {
        // The call itself is counted.
        let due = self.lies.first_entry().filter(|first| *first.key() < self.calls)?;
        Some(due.remove())
    }

    /// Makes a lie of a write that is pending in pieces, from the piece `first` on.
    pub(super) fn lie(&mut self, (lie, seed): (Lie, u64), inode: usize, first: usize) {
        let mut rng = Rng(seed);
        let path = self.names.iter().find(|(_, no)| **no == inode).map(|(path, _)| path.clone());
        let file = &mut self.inodes[inode];
        let Some((start, end)) = span(&file.pending[first..]) else { return };
        file.pending.truncate(first);
        let start = start / SECTOR * SECTOR;
        let mut bytes = vec![0; (end.next_multiple_of(SECTOR) - start) as usize];
        let len = file.live.read(&mut bytes, start);
        bytes.truncate(len);
        let room = file.live.len() - len as u64;
        let to = match lie {
            Lie::Lost => None,
            Lie::Misdirected => (0..TRIES).find_map(|_| {
                let unit = if rng.below(2) == 0 { SECTOR } else { 4096 };
                let (chunk, len) = file.live.chunk(rng.next())?;
                let to = (chunk + rng.below(len)).min(room) / unit * unit;
                (to != start).then_some(to)
            }),
        };
        let from = DiskPlace { path: path.unwrap_or_else(PathBuf::new), offset: start };
        self.lied.push(Lied { from, bytes: len as u64, to });
        file.pending.push(UnsyncedChange::Astray(start, bytes, to));
    }
}

/// How often a wrong place is looked for. A file may have none.
const TRIES: u32 = 64;

/// From where to where the writes go.
fn span(pieces: &[UnsyncedChange]) -> Option<(u64, u64)> {
    let mut span: Option<(u64, u64)> = None;
    for piece in pieces {
        let UnsyncedChange::Write(offset, bytes) = piece else { continue };
        let end = offset + bytes.len() as u64;
        span = Some(span.map_or((*offset, end), |(a, b)| (a.min(*offset), b.max(end))));
    }
    span
}
