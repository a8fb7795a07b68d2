//! Opening and making a pool on persistent memory.
//!
//! Persist order of an open for writing: blocks are reserved and the file's length is durable before
//! the superblock counts the pages; the superblock says "not clean" before any page is changed.

use std::io::{self, ErrorKind};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use everleaf_pmem::error::{Error, Grouped, Result};
use everleaf_pmem::locks::{Mutex, RwLock};
use everleaf_pmem::mapped::{self, Mapped};
use everleaf_pmem::page::{Geometry, PageNo};
use everleaf_pmem::region::{Region, Share};
use rustix::fs::{fstat, fstatvfs};

use crate::io::{Io, IoFile, RealIo, refused};
use crate::open::data;
use crate::store::format::{FIRST_PAGE_OFFSET, page_offset};
use crate::store::superblock::{DAX, Super};

use super::{Dax, DaxOptions};

fn descriptor(file: &dyn IoFile) -> io::Result<BorrowedFd<'_>> {
    file.descriptor().ok_or_else(|| ErrorKind::Unsupported.into())
}

/// Reserves blocks for the first `pages` pages and makes the file's length durable. Bytes that are there
/// stay; a file that has all its blocks is left as it is.
fn reserve(file: &dyn IoFile, g: Geometry, pages: PageNo) -> Result<()> {
    let bytes = page_offset(pages, g);
    let failed = |e| Error::io(format!("reserving {} bytes for the pool", Grouped(bytes)), e);
    // A file that cannot be mapped gets no blocks.
    let fd = descriptor(file).map_err(failed)?;
    let before = file.len().map_err(failed)?;
    // A device that cannot have them is not filled until it says so, which others would feel.
    if lacks(fd, bytes).map_err(failed)? {
        return Err(failed(ErrorKind::StorageFull.into()));
    }
    if let Err(e) = file.allocate(0..bytes) {
        // Gives back what was reserved before the device was full, as far as that works.
        if file.len().is_ok_and(|len| len > before) {
            let _ = file.set_len(before);
        }
        return Err(failed(e));
    }
    file.sync_data().map_err(failed)
}

/// Whether the file's device has no blocks for so many bytes, those that the file has included.
fn lacks(fd: BorrowedFd<'_>, bytes: u64) -> io::Result<bool> {
    let (file, device) = (fstat(fd)?, fstatvfs(fd)?);
    let has = u64::try_from(file.st_blocks).unwrap_or(0).saturating_mul(512);
    let free = device.f_bavail.saturating_mul(device.f_frsize);
    // A device that says nothing of its size has what it has.
    Ok(device.f_blocks > 0 && bytes > has.saturating_add(free))
}

/// Maps pages that the file has.
fn map(
    file: &dyn IoFile,
    path: &Path,
    g: Geometry,
    pages: PageNo,
    options: &DaxOptions,
) -> Result<Region> {
    let share = match (options.read_only, options.emulate) {
        (true, _) => Share::Private,
        (_, true) => Share::Shared,
        _ => Share::Durable,
    };
    let failed = |e| Error::io(format!("mapping {}", path.display()), e);
    let fd = descriptor(file).map_err(failed)?;
    let len = file.len().map_err(failed)?;
    if len < page_offset(pages, g) {
        return Err(Error::corrupt(len, format!("the file ends here, within its {pages} pages")));
    }
    match Region::of_file(g, pages, FIRST_PAGE_OFFSET as usize, fd, share)? {
        Some(region) => Ok(region),
        None => Err(Error::NotDax { path: path.to_owned() }),
    }
}

/// The pool's file, locked. Made if it is missing and may be made: with all its blocks, and only
/// where it can be mapped.
fn pool_file(io: &dyn Io, path: &Path, options: &DaxOptions) -> Result<Box<dyn IoFile>> {
    let make = || {
        let Some(g) = Geometry::new(options.slots).filter(|_| options.pages > 0) else {
            let (slots, pages) = (options.slots, options.pages);
            let what = "a new pool wants a power of two in 4..=1024 slots, and a page or more";
            let what = format!("{slots} slots, {pages} pages: {what}");
            return Err(Error::InvalidOption { option: "slots, pages", what });
        };
        let new = Super::new(DAX, options.slots, options.layout_hash, options.pages);
        data::make(io, path, new, &|file| {
            // Asked first with the superblock alone, since reserving may take long.
            file.set_len(FIRST_PAGE_OFFSET)
                .map_err(|e| Error::io(format!("making {}", path.display()), e))?;
            map(file, path, g, 0, options)?;
            reserve(file, g, options.pages)
        })
    };
    data::open_or_make(io, path, options.read_only, options.create.then_some(&make))
}

impl Dax {
    /// Opens the pool at `path` and maps it. A writer announces itself in the superblock, durably,
    /// before this returns; recovery is left to the layer above. O(1), apart from the reservation
    /// of blocks.
    ///
    /// # Errors
    /// [`Error::NotDax`]; [`Error::Foreign`] if it is no DAX pool of this version and layout;
    /// [`Error::Locked`]; [`Error::Corrupt`] if both superblocks are damaged or the file is shorter
    /// than they say; [`Error::InvalidOption`]; [`Error::Unsupported`] for an instruction that the
    /// processor lacks; [`Error::Io`], which says so when the device is full.
    pub fn open(path: &Path, options: &DaxOptions) -> Result<Dax> {
        let io = RealIo;
        let flusher = mapped::flusher(options.flush)?;
        let file = pool_file(&io, path, options)?;
        let read = data::read_super(&*file, DAX, options.layout_hash);
        let (superblock, g, _) = read.map_err(|e| e.of(path))?;
        // read_super has seen that it is a page number.
        let has = superblock.pages_end as PageNo;
        let pages = if options.read_only { has } else { has.max(options.pages) };
        if !options.read_only {
            // Of a file that cannot be mapped nothing is changed.
            map(&*file, path, g, has, options)?;
            reserve(&*file, g, pages)?;
            if superblock.open_generation == 0 {
                // Its maker may have failed to make its name durable.
                io.sync_dir(path).map_err(|e| refused(path, e))?;
            }
        }
        let mapped = Mapped::new(map(&*file, path, g, pages, options)?, flusher);
        let fresh = mapped.is_blank();
        let dax = Dax {
            mapped,
            recovering: AtomicBool::new(false),
            emulated: options.emulate && !options.read_only,
            fresh,
            was_clean: superblock.clean,
            open_generation: superblock.open_generation + u64::from(!options.read_only),
            superblock: Mutex::new(superblock),
            counts: RwLock::default(),
            file,
        };
        if !options.read_only {
            let generation = dax.open_generation;
            dax.write_super(|s| {
                (s.clean, s.unborn) = (false, false);
                s.open_generation = generation;
                s.pages_end = pages.into();
            });
            dax.mapped.allow_steps();
        }
        Ok(dax)
    }
}
