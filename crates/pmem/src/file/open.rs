//! Opening and making a pool on files.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Arc, Condvar, Mutex, RwLock};

use crate::error::{Error, Result};
use crate::io::{Access, Io, IoFile};
use crate::page::{Geometry, PageNo};
use crate::region::Region;

use super::Options;
use super::double::Torn;
use super::inner::{Commit, Inner, JournalState, READ_ONLY};
use super::journal::NAMES;
use super::layout::{FIRST_PAGE_OFFSET, SUPER_BYTES, Super, page_offset};
use super::recover::{self, Recovered};

/// Address space that a pool gets unless the options say otherwise.
const DEFAULT_BYTES: u64 = 256 << 30;

fn sibling(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn journal_path(path: &Path, i: usize) -> PathBuf {
    sibling(path, if i == 0 { "-j0" } else { "-j1" })
}

/// An open that failed: what is not a regular file is not a pool.
fn refused(path: &Path, e: std::io::Error) -> Error {
    if e.kind() == ErrorKind::Unsupported {
        return Error::Foreign { what: format!("{} is {e}", path.display()) };
    }
    Error::io(format!("opening {}", path.display()), e)
}

fn take_lock(file: &dyn IoFile, path: &Path, shared: bool) -> Result<()> {
    match file.lock(shared) {
        Ok(true) => Ok(()),
        Ok(false) => Err(Error::Locked { path: path.to_owned() }),
        Err(e) => Err(Error::io(format!("locking {}", path.display()), e)),
    }
}

/// The data file, locked. Made if it is missing and may be made.
fn data_file(io: &dyn Io, path: &Path, options: &Options) -> Result<Box<dyn IoFile>> {
    let access = if options.read_only { Access::Read } else { Access::Write };
    for _ in 0..2 {
        match io.open(path, access) {
            Ok(file) => {
                take_lock(&*file, path, options.read_only)?;
                return Ok(file);
            }
            Err(e) if e.kind() != ErrorKind::NotFound || !options.create || options.read_only => {
                return Err(refused(path, e));
            }
            Err(_) => {}
        }
        if let Some(file) = make(io, path, options)? {
            return Ok(file);
        }
    }
    Err(Error::io(format!("opening {}", path.display()), ErrorKind::NotFound.into()))
}

/// Makes a pool under another name, and gives it its name when it is durable. `None` if somebody
/// else was faster. The lock on the unfinished file keeps a second maker out.
fn make(io: &dyn Io, path: &Path, options: &Options) -> Result<Option<Box<dyn IoFile>>> {
    let failed = |e| Error::io(format!("making {}", path.display()), e);
    if Geometry::new(options.slots).is_none() {
        let what = format!("{} slots; a power of two in 4..=1024 is wanted", options.slots);
        return Err(Error::Invalid { what });
    }
    let unfinished = sibling(path, "-new");
    let file = io.open(&unfinished, Access::Create).map_err(|e| refused(&unfinished, e))?;
    take_lock(&*file, path, false)?;
    if io.exists(path).map_err(failed)? {
        return Ok(None);
    }
    let mut superblock = Super {
        uuid: io.entropy().map_err(failed)?,
        slots: options.slots,
        clean: true,
        layout_hash: options.layout_hash,
        open_generation: 0,
        counter: 0,
        durable_epoch: 0,
        journal_generation: 1,
        journal_floor: 0,
        pages_end: 0,
    };
    file.set_len(0).map_err(failed)?;
    for counter in 0..2 {
        superblock.counter = counter;
        let bytes = superblock.encode();
        file.write_at(&bytes, superblock.copy() * SUPER_BYTES as u64).map_err(failed)?;
    }
    file.set_len(FIRST_PAGE_OFFSET).map_err(failed)?;
    file.sync_data().map_err(failed)?;
    for i in 0..2 {
        // One may be left over from a pool that was removed.
        let name = journal_path(path, i);
        let journal = io.open(&name, Access::Create).map_err(|e| refused(&name, e))?;
        journal.set_len(0).map_err(failed)?;
        journal.sync_data().map_err(failed)?;
    }
    io.sync_dir(path).map_err(failed)?;
    io.rename(&unfinished, path).map_err(failed)?;
    io.sync_dir(path).map_err(failed)?;
    Ok(Some(file))
}

fn journal_file(
    io: &dyn Io,
    path: &Path,
    i: usize,
    superblock: &Super,
    read_only: bool,
) -> Result<Option<Box<dyn IoFile>>> {
    let name = journal_path(path, i);
    let access = if read_only { Access::Read } else { Access::Write };
    match io.open(&name, access) {
        Ok(file) => Ok(Some(file)),
        Err(e) if e.kind() != ErrorKind::NotFound => Err(refused(&name, e)),
        Err(_) if !superblock.clean => {
            let what = format!("{} is missing", name.display());
            Err(Error::Corrupt { file: NAMES[i], offset: 0, what })
        }
        Err(_) if read_only => Ok(None),
        Err(_) => {
            // A clean pool needs no journal, so its data file may be copied alone.
            let file = io.open(&name, Access::Create).map_err(|e| refused(&name, e))?;
            io.sync_dir(path).map_err(|e| refused(&name, e))?;
            Ok(Some(file))
        }
    }
}

/// Reads the superblock and holds it against the file and the options.
fn read_super(data: &dyn IoFile, options: &Options) -> Result<(Super, Geometry)> {
    let failed = |e| Error::io("reading the superblock", e);
    let len = data.len().map_err(failed)?;
    if len == 0 {
        return Err(Error::Foreign { what: "the file is empty".into() });
    }
    data.drop_cache(0, 2 * SUPER_BYTES as u64).map_err(failed)?;
    let mut copies = vec![0; 2 * SUPER_BYTES];
    let n = data.read_at(&mut copies, 0).map_err(failed)?;
    copies.truncate(n);
    let (a, b) = copies.split_at(n.min(SUPER_BYTES));
    let superblock = Super::choose(a, b)?;
    let Some(g) = Geometry::new(superblock.slots) else {
        return Err(Error::corrupt(40, format!("{} slots a page", superblock.slots)));
    };
    if superblock.layout_hash != options.layout_hash {
        let (is, wanted) = (superblock.layout_hash, options.layout_hash);
        return Err(Error::Foreign { what: format!("layout {is:#x}, not {wanted:#x}") });
    }
    let Ok(pages_end) = PageNo::try_from(superblock.pages_end) else {
        return Err(Error::corrupt(96, format!("{} pages", superblock.pages_end)));
    };
    if len < page_offset(pages_end, g) {
        let what = format!("the file ends here, within its {pages_end} pages");
        return Err(Error::corrupt(len, what));
    }
    if superblock.journal_generation == 0 || superblock.journal_generation > u64::MAX / 2 {
        return Err(Error::corrupt(80, "impossible journal generation"));
    }
    if superblock.durable_epoch > u64::MAX / 2 {
        return Err(Error::corrupt(72, "impossible epoch"));
    }
    Ok((superblock, g))
}

/// Memory for as many pages as the options say, or as the system gives.
fn reserve(g: Geometry, superblock: &Super, options: &Options) -> Result<Region> {
    let wanted = match options.max_pages {
        0 => u32::try_from(DEFAULT_BYTES / g.page_bytes() as u64).unwrap_or(u32::MAX),
        n => n,
    };
    let mut limit = wanted;
    let region = loop {
        match Region::new(g, limit) {
            Ok(region) => break region,
            Err(_) if options.max_pages == 0 && limit > 4096 => limit /= 2,
            Err(e) => return Err(e),
        }
    };
    if superblock.pages_end > u64::from(limit) {
        let what = format!("the pool has {} pages; max_pages is {limit}", superblock.pages_end);
        return Err(Error::Invalid { what });
    }
    Ok(region)
}

fn recover(
    data: &dyn IoFile,
    journals: &[Option<Box<dyn IoFile>>; 2],
    superblock: &Super,
    region: &Region,
    read_only: bool,
) -> Result<(Recovered, Torn)> {
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
        return Ok((recovered, Torn::new()));
    };
    // The journal first: if it is damaged, nothing should have been changed.
    let recovered = recover::journal(&[&**a, &**b], superblock, region.limit(), read_only)?;
    let torn = recover::homes(data, superblock, region.geometry(), read_only)?;
    Ok((recovered, torn))
}

pub(super) fn open(io: &dyn Io, path: &Path, options: &Options) -> Result<Inner> {
    let data = data_file(io, path, options)?;
    let (superblock, g) = read_super(&*data, options)?;
    let read_only = options.read_only;
    if superblock.durable_epoch == 0 && !read_only {
        // Whoever made it may have failed to make its name durable.
        io.sync_dir(path).map_err(|e| refused(path, e))?;
    }
    let journal = |i| journal_file(io, path, i, &superblock, read_only);
    let journals = [journal(0)?, journal(1)?];
    let region = reserve(g, &superblock, options)?;
    let (recovered, images) = recover(&*data, &journals, &superblock, &region, read_only)?;
    let Recovered { active, files, link, last_epoch, replay } = recovered;
    let commit = Commit { active, files, link, ..Commit::default() };
    Ok(Inner {
        region,
        warmth: super::warm::Warmth::default(),
        data,
        data_sync: Mutex::new(()),
        journals,
        journal_bound: options.journal_bytes,
        interval: options.interval,
        pid: std::process::id(),
        fresh: last_epoch == 0,
        barrier: AtomicU32::new(if read_only { READ_ONLY } else { 0 }),
        cause: Mutex::new(None),
        clock: AtomicU64::new(last_epoch + 1),
        durable: AtomicU64::new(last_epoch),
        gate: RwLock::new(()),
        slots: Inner::empty_slots(),
        extents: AtomicBool::new(false),
        leading: Mutex::new(false),
        done: Condvar::new(),
        commit: Mutex::new(commit),
        pages_end: AtomicU64::new(superblock.pages_end),
        superblock: Mutex::new(superblock),
        checkpointing: Mutex::new(0),
        replaying: AtomicBool::new(replay.is_some()),
        replay: RwLock::new(replay.map(Arc::new)),
        recovered: Mutex::new(Vec::new()),
        images,
        work: Mutex::default(),
        wake: Condvar::new(),
        tick: Condvar::new(),
        hurry: AtomicBool::new(false),
        crowded: AtomicU32::new(0),
        counters: super::inner::Counters::default(),
    })
}
