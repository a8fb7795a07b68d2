//! Backups: a copy of an open pool at one moment, while others write.
//!
//! ```text
//! sync -> one moment: superblock, end of the journal, extents in use, all held -> copy them, each to
//! the same place of a file with another name -> sync -> superblock -> sync -> name -> let go
//! ```
//!
//! Nothing that is in use at one moment is written over as long as it is held, so the moment can be
//! copied for as long as that takes: the root with all that it names, and the journal behind it up to
//! the end of the last whole epoch. Checkpoints, cleaning and cuts go on. Bytes that are written meanwhile take other
//! extents, or follow the end of the journal.
//!
//! The copy opens like the pool after a crash at that moment, or like a closed one if it was closed.
//! Its checksums are seeded with the uuid, so it has the same one.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use everleaf_pmem::epoch::EpochPin;
use everleaf_pmem::error::{Error, Result};
use everleaf_pmem::fallible;
use everleaf_pmem::sync::lock_plain as lock;

use crate::epochs::barrier::READ_ONLY;
use crate::inner::{Chain, Inner};
use crate::io::{Io, IoFile};
use crate::journal::Position;
use crate::open::born::Unborn;
use crate::store::format::{EXTENT_BYTES, SUPER_BYTES};
use crate::store::image::FIRST_IMAGE;
use crate::store::superblock::Super;

/// Zeros in pieces of this length are left out of the copy.
const HOLE_BYTES: usize = 64 << 10;
/// Where no epoch begins for so long, nobody writes.
const CALM: Duration = Duration::from_millis(50);
/// Names this memory in errors.
const WHAT: &str = "a backup";

/// Bytes of the file that a copy needs: of one extent, which is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part {
    extent: u32,
    from: u64,
    end: u64,
}

/// Whether others write meanwhile. They get half of the time then: a copy takes as much of the processors
/// and of the memory's speed as several writers.
struct Turns {
    epoch: u64,
    /// When an epoch was seen to begin last.
    seen: Option<Instant>,
}

impl Turns {
    fn are_wanted(&mut self, epoch: u64) -> bool {
        if epoch != self.epoch {
            *self = Self { epoch, seen: Some(Instant::now()) };
        }
        self.seen.is_some_and(|seen| seen.elapsed() < CALM)
    }
}

/// A pool at one moment. Its extents are held until this is dropped.
struct Moment<'a> {
    inner: &'a Inner,
    superblock: Super,
    /// The last epoch that is in it.
    epoch: u64,
    /// Length of the file.
    len: u64,
    parts: Vec<Part>,
}

/// Where the blocks of a chain are up to the end of its last whole epoch. In the extent that is the next
/// one there are none of them, nor behind it.
fn blocks_of(chain: &Chain) -> impl Iterator<Item = Part> {
    let (Position { place, next_extent, .. }, _) = chain.whole_end();
    let used = chain.extents.iter().copied().take_while(move |no| *no != next_extent);
    used.map(move |no| {
        let from = u64::from(no) * EXTENT_BYTES;
        let is_last = !place.is_multiple_of(EXTENT_BYTES) && place / EXTENT_BYTES == u64::from(no);
        Part { extent: no, from, end: if is_last { place } else { from + EXTENT_BYTES } }
    })
}

impl<'a> Moment<'a> {
    /// This moment, of which everything is durable that the copy says.
    fn take(inner: &'a Inner) -> Result<Self> {
        // Epochs do not end, and the root does not change, while these are held.
        let commit = lock(&inner.commit);
        let current = lock(&inner.superblock);
        let mut places = inner.places_mut();
        let chain = &commit.chain;
        let len = inner.data.len().map_err(|e| Error::io("reading the length of the file", e))?;
        let (images, blocks) = (places.extents.with_others()?, chain.extents.len());
        let mut parts = fallible::list(images.len() + blocks, WHAT)?;
        parts.extend(blocks_of(chain));
        parts.extend(images.into_iter().map(|extent| {
            let start = u64::from(extent) * EXTENT_BYTES;
            Part { extent, from: start.max(FIRST_IMAGE), end: start + EXTENT_BYTES }
        }));
        parts.iter().for_each(|part| places.extents.hold(part.extent));
        let mut superblock = current.clone();
        if !superblock.clean {
            superblock.journal_floor = chain.whole_end().0.number;
        }
        let epoch = inner.epochs.durable();
        Ok(Self { inner, superblock, epoch, len, parts })
    }

    /// Copies everything but the superblock.
    fn copy_to(&self, copy: &dyn IoFile, progress: &mut dyn FnMut(u64, u64)) -> Result<()> {
        let failed = |e| Error::io("writing a backup", e);
        copy.set_len(self.len).map_err(failed)?;
        let mut bytes = fallible::filled(0_u8, EXTENT_BYTES as usize, WHAT)?;
        let all = self.parts.iter().map(|part| part.end - part.from).sum();
        let mut done = 0;
        progress(done, all);
        let mut turns = Turns { epoch: self.inner.epochs.now(), seen: None };
        for part in &self.parts {
            let begun = Instant::now();
            let wanted = &mut bytes[..(part.end - part.from) as usize];
            let n = self.inner.data.read_at(wanted, part.from);
            // After a close somebody else may have written what was read.
            self.inner.life.check()?;
            let n = n.map_err(|e| Error::io("reading for a backup", e))?;
            write_sparsely(copy, &wanted[..n], part.from).map_err(failed)?;
            let took = begun.elapsed();
            done += part.end - part.from;
            progress(done, all);
            if turns.are_wanted(self.inner.epochs.now()) {
                std::thread::sleep(took);
            }
        }
        copy.sync_data().map_err(failed)
    }
}

impl Drop for Moment<'_> {
    fn drop(&mut self) {
        let mut places = self.inner.places_mut();
        self.parts.iter().for_each(|part| places.extents.let_go(part.extent));
    }
}

/// Writes bytes to a file that has holes there, and leaves these where the bytes are zero.
fn write_sparsely(copy: &dyn IoFile, bytes: &[u8], at: u64) -> std::io::Result<()> {
    let is_hole = |piece: &[u8]| piece.iter().all(|byte| *byte == 0);
    let mut pieces = bytes.chunks(HOLE_BYTES).peekable();
    let mut from = 0;
    while let Some(piece) = pieces.next() {
        let mut end = from + piece.len();
        if !is_hole(piece) {
            while let Some(more) = pieces.next_if(|piece| !is_hole(piece)) {
                end += more.len();
            }
            copy.write_at(&bytes[from..end], at + from as u64)?;
        }
        from = end;
    }
    Ok(())
}

/// Writes both copies of a superblock, newer than what is there, and makes them durable.
fn write_supers(copy: &dyn IoFile, superblock: &mut Super) -> Result<()> {
    let failed = |e| Error::io("writing a backup", e);
    for _ in 0..2 {
        superblock.counter += 1;
        let at = superblock.copy() * SUPER_BYTES as u64;
        copy.write_at(&superblock.encode(), at).map_err(failed)?;
    }
    copy.sync_data().map_err(failed)
}

/// A copy that is being made. It is removed unless it gets its name.
struct Unfinished<'a> {
    io: &'a dyn Io,
    unborn: Option<Unborn>,
}

impl Unfinished<'_> {
    fn file(&self) -> &dyn IoFile {
        &*self.unborn.as_ref().expect("it has no name yet").file
    }

    /// Gives it its name. False if something has that.
    fn give_name(&mut self, path: &Path) -> Result<bool> {
        let unborn = self.unborn.take().expect("it has no name yet");
        unborn.give_name(self.io, path).map(|file| file.is_some())
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if let Some(unborn) = self.unborn.take() {
            unborn.remove(self.io);
        }
    }
}

fn is_taken(path: &Path) -> Error {
    Error::FileExists { path: path.to_owned(), what: "is there already" }
}

impl Inner {
    /// Copies the pool as it is at the end of an epoch to a new file, and says which epoch.
    pub(crate) fn backup(
        &self,
        io: &dyn Io,
        path: &Path,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<u64> {
        EpochPin::refuse_inside()?;
        let failed = |e| Error::io(format!("making {}", path.display()), e);
        if io.exists(path).map_err(failed)? {
            return Err(is_taken(path));
        }
        if self.barrier.load(Ordering::SeqCst) & READ_ONLY == 0 {
            self.check_writable()?;
            self.keep_ended_epochs()?;
        }
        let mut copy = Unfinished { io, unborn: Some(Unborn::new(io, path)?) };
        let epoch = self.fill_copy(copy.file(), progress)?;
        io.sync_dir(path).map_err(failed)?;
        if !copy.give_name(path)? {
            return Err(is_taken(path));
        }
        io.sync_dir(path).map_err(failed)?;
        Ok(epoch)
    }

    /// Copies the pool as it is now to an empty file.
    fn fill_copy(&self, copy: &dyn IoFile, progress: &mut dyn FnMut(u64, u64)) -> Result<u64> {
        let moment = Moment::take(self)?;
        // As long as it is not whole it says that nobody needs it.
        let Super { features, slots, layout_hash, uuid, counter, .. } = moment.superblock;
        let new = Super::new(features, slots, layout_hash, 0);
        write_supers(copy, &mut Super { unborn: true, uuid, counter, ..new })?;
        moment.copy_to(copy, progress)?;
        let mut superblock = Super { counter: counter + 2, ..moment.superblock.clone() };
        write_supers(copy, &mut superblock)?;
        Ok(moment.epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::{Access, SimIo};

    #[test]
    fn zeros_are_left_out_and_the_rest_is_where_it_was() {
        let io = SimIo::new(1);
        let file = io.open(Path::new("/pool/copy"), Access::New).expect("new");
        let (at, mut bytes) = (8192, vec![0_u8; 7 * HOLE_BYTES + 100]);
        for piece in [1, 4, 5, 7] {
            bytes[piece * HOLE_BYTES + 50] = piece as u8;
        }
        let len = at + bytes.len() as u64;
        file.set_len(len).expect("room");
        write_sparsely(&*file, &bytes, at).expect("room");
        let mut found = vec![1; len as usize];
        assert_eq!(file.read_at(&mut found, 0).expect("no fault"), found.len());
        assert!(
            found[..at as usize].iter().all(|byte| *byte == 0) && found[at as usize..] == bytes
        );
    }
}
