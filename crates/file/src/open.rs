//! Opening and making a pool on files.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Arc, Condvar, Mutex, RwLock};

use everleaf_pmem::epoch::{Epochs, NO_EPOCH, SLOTS};
use everleaf_pmem::error::{Error, Result};
use everleaf_pmem::fallible;
use everleaf_pmem::life::Life;
use everleaf_pmem::page::{Geometry, PageNo};
use everleaf_pmem::region::Region;

use crate::FileOptions;
use crate::barrier::READ_ONLY;
use crate::born;
use crate::bounds::WriteBounds;
use crate::data;
use crate::double::TornHomes;
use crate::format::{FIRST_PAGE_OFFSET, Super, first_link};
use crate::inner::{Commit, Inner, JournalState};
use crate::io::{Access, Io, IoFile};
use crate::journal::{self, HEADER_BYTES, NAMES, Says, read_error};
use crate::names::{journal_path, refused, take_lock};
use crate::recover::{self, Recovered};
use crate::replay::Replay;
use crate::slots::Need;
use crate::warm::Warmth;

/// Address space that a pool gets unless the options say otherwise.
const DEFAULT_BYTES: u64 = 256 << 30;

/// The data file, locked. Made if it is missing and may be made, after its journal files.
fn data_file(io: &dyn Io, path: &Path, options: &FileOptions) -> Result<Box<dyn IoFile>> {
    let prepare = |data: &dyn IoFile, uuid: &[u8; 16]| {
        let failed = |e| Error::io(format!("making {}", path.display()), e);
        data.set_len(FIRST_PAGE_OFFSET).map_err(failed)?;
        (0..2).try_for_each(|i| born::expect_room(io, &journal_path(path, i)))?;
        (0..2).try_for_each(|i| born::journal(io, &journal_path(path, i), uuid).map(drop))
    };
    let make = || {
        let new = Super::new(0, options.slots, options.layout_hash, 0);
        let new = Super { journal_generation: 1, first_link: first_link(0), ..new };
        data::make(io, path, new, &prepare)
    };
    data::open_or_make(io, path, options.read_only, options.create.then_some(&make))
}

/// What there is of a journal file.
enum JournalFile {
    /// The pool's own, locked: shared by readers.
    Own(Box<dyn IoFile>),
    /// Nothing that anybody needs, and the pool was closed.
    Nothing,
}

/// Looks for a journal file.
///
/// # Errors
/// [`Error::Missing`]; [`Error::InTheWay`] if what has its name is not the pool's;
/// [`Error::Corrupt`] if the same happens to a pool that was not closed.
fn find_journal(
    io: &dyn Io,
    path: &Path,
    i: usize,
    (superblock, alone): (&Super, bool),
    read_only: bool,
) -> Result<JournalFile> {
    let name = journal_path(path, i);
    let file = match io.open(&name, Access::Read) {
        Ok(file) => file,
        Err(e) if e.kind() != ErrorKind::NotFound => return Err(refused(&name, e)),
        Err(_) if !superblock.clean => return Err(Error::Missing { path: name }),
        // A clean pool needs no journal, so its data file may be copied alone.
        Err(_) => return Ok(JournalFile::Nothing),
    };
    let said = journal::says(&*file, Some(&superblock.uuid));
    match said.map_err(|e| read_error(NAMES[i], e))? {
        Says::Empty => {}
        Says::Journal { uuid, .. } if uuid == superblock.uuid => {}
        Says::Journal { is_idle: true, .. } if superblock.clean => return Ok(JournalFile::Nothing),
        said if superblock.clean => return Err(born::in_the_way(&name, born::alien(&*file, said))),
        said => {
            let what = match said {
                Says::Journal { .. } => "belongs to another pool",
                _ => "is no journal",
            };
            let what = format!("{} {what}", name.display());
            return Err(Error::Corrupt { file: NAMES[i], offset: 0, what });
        }
    }
    let file = if read_only {
        file
    } else {
        io.open(&name, Access::Write).map_err(|e| refused(&name, e))?
    };
    take_lock(&*file, &name, read_only)?;
    if superblock.clean && !alone {
        // What is older was home before the pool was closed. If a copy of the superblock is damaged,
        // `distrust` sees to it.
        let generation = superblock.journal_generation;
        if journal::since(&*file, NAMES[i], &superblock.uuid, generation)?.is_some() {
            let what = "it holds changes that were made after this copy of the pool was closed: put \
                        the data file back that they belong to, or move the journal away";
            return Err(born::in_the_way(&name, what));
        }
    }
    Ok(JournalFile::Own(file))
}

/// The journal files, locked. A pool that was closed gets those that it lacks, unless it is opened to
/// be read.
fn journal_files(
    io: &dyn Io,
    path: &Path,
    superblock: (&Super, bool),
    read_only: bool,
) -> Result<[Option<Box<dyn IoFile>>; 2]> {
    let find = |i| find_journal(io, path, i, superblock, read_only);
    // Both are looked for before one is made, so that a refusal leaves no traces.
    let [a, b] = [find(0)?, find(1)?];
    let have = |i, found| match found {
        JournalFile::Own(file) => Ok(Some(file)),
        JournalFile::Nothing if read_only => Ok(None),
        JournalFile::Nothing => {
            born::journal(io, &journal_path(path, i), &superblock.0.uuid).map(Some)
        }
    };
    Ok([have(0, a)?, have(1, b)?])
}

/// Reads the superblock and holds it against the file and the options. Says also whether it is the
/// only good copy.
fn read_super(data: &dyn IoFile, options: &FileOptions) -> Result<(Super, Geometry, bool)> {
    let (superblock, g, alone) = data::read_super(data, 0, options.layout_hash)?;
    if superblock.journal_generation == 0 || superblock.journal_generation > u64::MAX / 2 {
        return Err(Error::corrupt(80, "impossible journal generation"));
    }
    if superblock.durable_epoch >= NO_EPOCH {
        return Err(Error::corrupt(72, "impossible epoch"));
    }
    Ok((superblock, g, alone))
}

/// Whether somebody may have made a file and not lived, or failed, to make its name durable: the pool
/// before its first checkpoint, or a journal file that is idle since.
fn names_in_doubt(superblock: &Super, journals: &[Option<Box<dyn IoFile>>; 2]) -> Result<bool> {
    let mut doubt = superblock.durable_epoch == 0;
    for journal in journals.iter().flatten().filter(|_| superblock.clean) {
        let len = journal.len().map_err(|e| Error::io("reading the journal", e))?;
        doubt |= len < HEADER_BYTES;
    }
    Ok(doubt)
}

/// If one copy of the superblock is damaged, a newer one may be lost, and with it the word that an
/// open has written since.
fn distrust(
    path: &Path,
    superblock: &mut Super,
    journals: &[Option<Box<dyn IoFile>>; 2],
) -> Result<()> {
    // That open may have used the next number.
    superblock.open_generation += 1;
    for (i, journal) in journals.iter().enumerate() {
        if let Some(journal) = journal
            && recover::written(&**journal, i, superblock)?
        {
            superblock.clean = false;
        }
    }
    let lacks = journals.iter().position(Option::is_none);
    if let (false, Some(i)) = (superblock.clean, lacks) {
        return Err(Error::Missing { path: journal_path(path, i) });
    }
    Ok(())
}

/// Memory for as many pages as the options say, or as the system gives.
fn reserve(g: Geometry, superblock: &Super, options: &FileOptions) -> Result<Region> {
    let wanted = match options.max_pages {
        0 => u32::try_from(DEFAULT_BYTES / g.page_bytes() as u64).unwrap_or(u32::MAX),
        n => n,
    };
    let mut limit = wanted;
    let fits_half = |limit: u32| superblock.pages_end <= u64::from(limit / 2);
    let mut region = loop {
        match Region::sparse(g, limit) {
            Ok(region) => break region,
            Err(_) if options.max_pages == 0 && limit > 4096 && fits_half(limit) => limit /= 2,
            Err(e) => return Err(e),
        }
    };
    if limit < wanted && fits_half(limit) {
        // What is left of a limited address space is for all else that the process does.
        drop(region);
        limit /= 2;
        region = Region::sparse(g, limit)?;
    }
    if superblock.pages_end > u64::from(limit) {
        let bytes = |pages| pages * g.page_bytes() as u64;
        let (has, limit) = (bytes(superblock.pages_end), bytes(limit.into()));
        let what = format!("the pool has {has} bytes of pages; its limit was set to {limit}");
        return Err(Error::InvalidOption { option: "max_bytes", what });
    }
    Ok(region)
}

fn recover(
    data: &dyn IoFile,
    journals: &[Option<Box<dyn IoFile>>; 2],
    superblock: &Super,
    region: &Region,
    read_only: bool,
) -> Result<(Recovered, TornHomes)> {
    let (true, [Some(a), Some(b)]) = (!superblock.clean, journals) else {
        // The first step of this open begins the generation; what the files hold is older.
        let len = |i: usize| match &journals[i] {
            Some(file) => file.len().map_err(|e| Error::io("reading the journal", e)),
            None => Ok(0),
        };
        let generation = superblock.journal_generation;
        let first = JournalState { generation, len: len(0)?, ..JournalState::default() };
        let second = JournalState { len: len(1)?, ..JournalState::default() };
        let recovered = Recovered {
            files: [first, second],
            last_epoch: superblock.durable_epoch,
            ..Recovered::default()
        };
        return Ok((recovered, TornHomes::new()));
    };
    // The journal first: if it is damaged, nothing should have been changed.
    let recovered = recover::journal(&[&**a, &**b], superblock, region.limit(), read_only)?;
    debug_assert!(recovered.is_consistent());
    let torn = recover::homes(data, superblock, &recovered, region.geometry(), read_only)?;
    Ok((recovered, torn))
}

pub(crate) fn open(io: &dyn Io, path: &Path, options: &FileOptions) -> Result<Inner> {
    let data = data_file(io, path, options)?;
    let (mut superblock, g, alone) = read_super(&*data, options).map_err(|e| e.of(path))?;
    superblock.unborn = false;
    let read_only = options.read_only;
    let journals = journal_files(io, path, (&superblock, alone), read_only)?;
    if !read_only && names_in_doubt(&superblock, &journals)? {
        io.sync_dir(path).map_err(|e| refused(path, e))?;
    }
    if alone {
        distrust(path, &mut superblock, &journals)?;
    }
    let region = reserve(g, &superblock, options)?;
    let (recovered, images) = recover(&*data, &journals, &superblock, &region, read_only)?;
    let Recovered { active, files, link, last_epoch, last_block, replay } = recovered;
    let mut spares = fallible::list(SLOTS, "an epoch's records")?;
    spares.resize_with(SLOTS, Vec::new);
    debug_assert!(spares.len() == SLOTS && last_epoch < NO_EPOCH);
    debug_assert!(replay.is_none() || !superblock.clean, "a closed pool has nothing to recover");
    debug_assert!(images.is_empty() || read_only, "a writer has restored what was torn");
    let commit = Commit { active, files, link, spares, ..Commit::default() };
    let touched = replay.as_ref().map_or(0, Replay::left);
    let end = superblock.pages_end.max(replay.as_ref().map_or(0, Replay::end).into());
    let threaded = options.background && !read_only;
    let warmth = Warmth::new(end.min(region.limit().into()) as PageNo, &region, threaded)?;
    Ok(Inner {
        region,
        warmth,
        data,
        data_sync: Mutex::new(()),
        journals,
        journal_bound: options.journal_bytes,
        bounds: WriteBounds::new(threaded, options.pending_bytes, options.journal_bytes),
        interval: options.interval,
        life: Life::default(),
        writing: RwLock::default(),
        fresh: superblock.durable_epoch == 0 && last_block == 0,
        barrier: AtomicU32::new(if read_only { READ_ONLY } else { 0 }),
        cause: Mutex::default(),
        need: Need::of_few(g),
        epochs: Epochs::new(last_epoch)?,
        last_block: AtomicU64::new(last_block),
        extents: AtomicBool::new(false),
        commit: Mutex::new(commit),
        pages_end: AtomicU64::new(superblock.pages_end),
        superblock: Mutex::new(superblock),
        checkpointing: Mutex::new(0),
        runs: Mutex::default(),
        ran: Condvar::new(),
        callers: AtomicU32::new(0),
        replaying: AtomicBool::new(replay.is_some()),
        replay: RwLock::new(replay.map(Arc::new)),
        recovered: Mutex::new(fallible::list(touched, "the list of recovered pages")?),
        images,
        work: Mutex::default(),
        wake: Condvar::new(),
        tick: Condvar::new(),
        hurry: AtomicBool::new(false),
        counters: crate::inner::Counters::default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::SimIo;

    #[test]
    fn the_last_epoch_that_an_open_accepts_is_the_last_one() {
        let (io, path) = (SimIo::new(1), Path::new("/pool/p.ever"));
        let options =
            FileOptions { slots: 4, max_pages: 64, create: true, ..FileOptions::default() };
        drop(open(&io, path, &options).expect("new"));
        let set = |durable_epoch| {
            let file = io.open(path, Access::Write).expect("it is there");
            let (mut superblock, ..) = read_super(&*file, &options).expect("sound");
            superblock.counter += 1;
            superblock.durable_epoch = durable_epoch;
            file.write_at(&superblock.encode(), superblock.copy() * 4096).expect("no fault");
        };
        set(NO_EPOCH - 1);
        let inner = open(&io, path, &options).expect("an epoch");
        assert!(inner.commit_now().is_err(), "the next open would refuse it");
        drop(inner);
        set(NO_EPOCH);
        assert!(matches!(open(&io, path, &options), Err(Error::Corrupt { .. })));
    }
}
