//! Opening and making a pool on a file.

pub(crate) mod born;
pub(crate) mod data;
pub(crate) mod recovery;
pub(crate) mod replay;

use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

use everleaf_pmem::epoch::{Epochs, NO_EPOCH, SLOTS};
use everleaf_pmem::error::{Error, Grouped, Result};
use everleaf_pmem::fallible;
use everleaf_pmem::life::Life;
use everleaf_pmem::locks::{Condvar, Mutex, RwLock};
use everleaf_pmem::page::{Geometry, PageNo};
use everleaf_pmem::region::Region;

use crate::FileOptions;
use crate::epochs::barrier::READ_ONLY;
use crate::epochs::slots::Need;
use crate::epochs::ticker::Ticker;
use crate::inner::{Commit, Counters, Inner, Stream};
use crate::io::{Io, IoFile, refused};
use crate::limits::bounds::{Spills, WriteBounds};
use crate::limits::reserve::Reserve;
use crate::memory::residents::Residents;
use crate::memory::warm::{Addresses, Warmth, default_address_bytes};
use crate::store::ahead::Ahead;
use crate::store::image::{FIRST_IMAGE, ImageKey};
use crate::store::superblock::Super;
use crate::store::table::RootCounts;

/// The file, locked. Made if it is missing and may be made.
fn data_file(io: &dyn Io, path: &Path, options: &FileOptions) -> Result<Box<dyn IoFile>> {
    let prepare = |data: &dyn IoFile| {
        let failed = |e| Error::io(format!("making {}", path.display()), e);
        data.set_len(FIRST_IMAGE).map_err(failed)
    };
    let make = || {
        let new = Super::new(0, options.slots, options.layout_hash, 0);
        data::make(io, path, new, &prepare)
    };
    data::open_or_make(io, path, options.read_only, options.create.then_some(&make))
}

/// Reads the superblock and holds it against the file and the options. Says how long the file is, too.
fn read_super(data: &dyn IoFile, options: &FileOptions) -> Result<(Super, Geometry, u64)> {
    let (superblock, g, len) = data::read_super(data, 0, options.layout_hash)?;
    if superblock.durable_epoch >= NO_EPOCH {
        return Err(Error::corrupt(72, "impossible epoch"));
    }
    // It counts opens, and blocks are signed with it, also with that of the next one.
    if superblock.open_generation >= u64::from(u32::MAX) {
        return Err(Error::corrupt(56, "impossible open generation"));
    }
    // They count up, by one with each block.
    if superblock.journal.number > u64::MAX / 2 || superblock.journal_floor > u64::MAX / 2 {
        return Err(Error::corrupt(104, "impossible number of a block"));
    }
    if superblock.clean != (superblock.journal.place == 0) {
        return Err(Error::corrupt(96, "a closed pool with a journal, or an open one without"));
    }
    Ok((Super { unborn: false, ..superblock }, g, len))
}

/// Memory for as many pages as the options say, or as the system gives.
fn reserve(g: Geometry, pages_end: u64, options: &FileOptions) -> Result<Region> {
    let wanted = match options.max_pages {
        // A pool that is there can double at least.
        0 => {
            let pages = (default_address_bytes() / g.page_bytes() as u64).max(2 * pages_end);
            u32::try_from(pages).unwrap_or(u32::MAX)
        }
        n => n,
    };
    let mut limit = wanted;
    let fits_half = |limit: u32| pages_end <= u64::from(limit / 2);
    let mut region = loop {
        match Region::sparse(g, limit) {
            Ok(region) => break region,
            Err(_) if options.max_pages == 0 && limit > 4096 && fits_half(limit) => limit /= 2,
            Err(e) => return Err(e),
        }
    };
    if limit < wanted && fits_half(limit) {
        // The rest of a limited address space is for all else that the process does.
        drop(region);
        limit /= 2;
        region = Region::sparse(g, limit)?;
    }
    if pages_end > u64::from(limit) {
        let bytes = |pages| Grouped(pages * g.page_bytes() as u64);
        let (has, limit) = (bytes(pages_end), bytes(limit.into()));
        let what = format!("the pool has {has} bytes of pages; its limit was set to {limit}");
        return Err(Error::InvalidOption { option: "max_bytes", what });
    }
    Ok(region)
}

/// A list for each slot of the clock.
fn spares() -> Result<Vec<Vec<u8>>> {
    let mut spares = fallible::list(SLOTS, "an epoch's records")?;
    spares.resize_with(SLOTS, Vec::new);
    Ok(spares)
}

/// Makes the name of a new pool durable: its maker may not have lived to do so, or may have failed.
/// A read-only open leaves that to others.
fn keep_name(io: &dyn Io, path: &Path, reads_only: bool, superblock: &Super) -> Result<()> {
    match superblock.durable_epoch {
        0 if !reads_only => io.sync_dir(path).map_err(|e| refused(path, e)),
        _ => Ok(()),
    }
}

pub(crate) fn open(io: &dyn Io, path: &Path, options: &FileOptions) -> Result<Inner> {
    let data = data_file(io, path, options)?;
    let (superblock, g, len) = read_super(&*data, options).map_err(|e| e.of(path))?;
    keep_name(io, path, options.read_only, &superblock)?;
    let image_key = ImageKey::new(&superblock.uuid);
    let (places, counts) = recovery::root(&*data, image_key, &superblock)?;
    let pages_end = places.last_page_end();
    let region = reserve(g, pages_end, options)?;
    let (ticks, residents) = (options.ticks(), Residents::new(g, options));
    let mut inner = Inner {
        warmth: Box::new(Warmth::new(0, &region)?),
        _addresses: Addresses::of(u64::from(region.limit()) * g.page_bytes() as u64),
        region,
        data,
        length: AtomicU64::new(len),
        data_sync: Mutex::new(()),
        image_key,
        places: RwLock::new(places),
        values: Mutex::new(Stream::default()),
        pending_values: Mutex::default(),
        table_epoch: AtomicU64::new(0),
        root: Mutex::new(superblock.root),
        changed: Mutex::default(),
        forgotten: Mutex::default(),
        lingering: Box::new(Mutex::default()),
        released: Mutex::default(),
        // Of this open, if it writes.
        stamp: AtomicU64::new((superblock.open_generation + 1) << 32),
        compression: options.compression,
        spare_extents: options.spare_extents,
        reserve: Box::new(Reserve::new(options.reserve_from)),
        gap: options.gap,
        stay: options.stay,
        journal_bound: options.journal_bytes,
        bounds: WriteBounds::new(ticks, options, &residents)?,
        residents,
        interval: options.interval,
        life: Life::default(),
        writing: RwLock::default(),
        fresh: false,
        uuid: superblock.uuid,
        barrier: AtomicU32::new(if options.read_only { READ_ONLY } else { 0 }),
        cause: Mutex::default(),
        need: Need::of_few(g),
        spills: Spills::new(ticks, options.spill_bytes),
        epochs: Epochs::new(superblock.durable_epoch)?,
        extents: AtomicBool::new(false),
        commit: Box::new(Mutex::new(Commit { spares: spares()?, ..Commit::default() })),
        counts: Box::new(Mutex::default()),
        started: AtomicBool::new(false),
        begins: Mutex::default(),
        counters: Box::new(Counters::of_open(superblock.open_generation)),
        superblock: Mutex::new(superblock),
        checkpointing: Mutex::default(),
        runs: Mutex::default(),
        ran: Condvar::new(),
        callers: AtomicU32::new(0),
        replaying: AtomicBool::new(false),
        replay: RwLock::new(None),
        recovered: Mutex::default(),
        work: Mutex::default(),
        wake: Condvar::new(),
        ticker: Ticker::new(options.interval),
        waits: Box::default(),
        keeper: OnceLock::new(),
        ahead: Box::new(Ahead::new(options.manual_epochs)),
    };
    find_pages(&mut inner, pages_end, counts)?;
    Ok(inner)
}

/// Recovers, and says which memory is to be made ready: that behind the pages that there are, and
/// those that the journal has changes for.
fn find_pages(inner: &mut Inner, pages_end: u64, counts: RootCounts) -> Result<()> {
    inner.recover(counts)?;
    let replay = inner.replay.get_mut().unwrap_or_else(|e| e.into_inner());
    let end = pages_end.max(replay.as_ref().map_or(0, |replay| replay.end()).into());
    let end = end.min(inner.region.limit().into()) as PageNo;
    *inner.warmth = Warmth::new(end, &inner.region)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::{Access, SimIo};

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
        assert!(inner.commit_now(u64::MAX).is_err(), "the next open would refuse it");
        drop(inner);
        set(NO_EPOCH);
        assert!(matches!(open(&io, path, &options), Err(Error::Corrupt { .. })));
    }
}
