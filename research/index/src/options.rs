//! How a tree is opened.

use std::ffi::{c_char, c_int};
use std::path::Path;
use std::ptr;
use std::time::Duration;

use everleaf_pmem::Flush;
use everleaf_tree::Reading;

use crate::call::{self, expect_place};
use crate::codes::EVERLEAF_INDEX_OK;
use crate::failure::{Result, invalid, invalid_option};
use crate::names::{
    EVERLEAF_INDEX_COUNTED, EVERLEAF_INDEX_DAX, EVERLEAF_INDEX_DRAM, EVERLEAF_INDEX_EMULATED_DAX,
    EVERLEAF_INDEX_FILE,
};

/// Readers validate what they have read.
pub const EVERLEAF_INDEX_OPTIMISTIC: u32 = 0;
/// Readers go on beside a writer, as FAST+FAIR's do: in trees of linear nodes, on EVERLEAF_INDEX_COUNTED,
/// EVERLEAF_INDEX_EMULATED_DAX and EVERLEAF_INDEX_DAX, whose stores have an order.
pub const EVERLEAF_INDEX_LOCK_FREE: u32 = 1;
/// Readers latch the leaf.
pub const EVERLEAF_INDEX_LATCHED: u32 = 2;

/// Lines are flushed by the best instruction that the processor has; where it reports that its caches survive, fences are
/// enough.
pub const EVERLEAF_INDEX_FLUSH_BEST: u32 = 0;
/// Lines are flushed by clwb.
pub const EVERLEAF_INDEX_FLUSH_CLWB: u32 = 1;
/// Lines are flushed by clflushopt.
pub const EVERLEAF_INDEX_FLUSH_CLFLUSHOPT: u32 = 2;
/// Lines are flushed by clflush.
pub const EVERLEAF_INDEX_FLUSH_CLFLUSH: u32 = 3;
/// No line is flushed: caches survive the power.
pub const EVERLEAF_INDEX_FLUSH_NONE: u32 = 4;

/// How a tree is opened. Fill it by everleaf_index_options_init, and change what is to be otherwise.
#[repr(C)]
pub struct everleaf_index_options {
    /// Its own size, which everleaf_index_options_init sets.
    pub struct_bytes: usize,
    /// The file, for media that have one; NULL for the others. It is used during the call alone.
    pub path: *const c_char,
    /// The most keys that it holds at once: a million. A tree on a file grows as it needs.
    pub keys: u64,
    /// Microseconds of an epoch, for BdTree, Montage, and trees on a file: 10,000; from 100 to 10,000,000. 0: epochs end by
    /// everleaf_index_sync alone, and BdTree frees no empty leaves.
    pub epoch_us: u64,
    /// EVERLEAF_INDEX_DRAM, or another one of the media.
    pub medium: u32,
    /// Slots of 16 bytes in a page, for trees of which the page has no fixed size: a power of two, 4 to 1,024. 0: 32, or 256 on
    /// a file. A pool that is there keeps its own.
    pub slots: u32,
    /// EVERLEAF_INDEX_OPTIMISTIC, or another way of reading, for the trees that have a choice.
    pub reading: u32,
    /// EVERLEAF_INDEX_FLUSH_BEST, or another instruction, for EVERLEAF_INDEX_EMULATED_DAX and EVERLEAF_INDEX_DAX.
    pub flush: u32,
    /// Threads that rebuild the inner nodes of BdTree in an open: 1.
    pub threads: u32,
    /// Whether the file is made if it is not there: 1.
    pub create: u32,
}

impl everleaf_index_options {
    fn new() -> Self {
        Self {
            struct_bytes: size_of::<Self>(),
            path: ptr::null(),
            keys: 1_000_000,
            epoch_us: 10_000,
            medium: EVERLEAF_INDEX_DRAM,
            slots: 0,
            reading: EVERLEAF_INDEX_OPTIMISTIC,
            flush: EVERLEAF_INDEX_FLUSH_BEST,
            threads: 1,
            create: 1,
        }
    }
}

/// Fills options with what is usual. `struct_bytes` is sizeof(everleaf_index_options).
///
/// Errors: EVERLEAF_INDEX_INVALID for NULL and for another size, which a program has that was compiled with another header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_index_options_init(
    options: *mut everleaf_index_options,
    struct_bytes: usize,
) -> c_int {
    call::plain("everleaf_index_options_init", || {
        expect_place(options, 1, "the options")?;
        expect_size::<everleaf_index_options>(struct_bytes, "the options")?;
        // SAFETY: the promise of a caller: it has that size, which is right.
        unsafe { options.write(everleaf_index_options::new()) };
        Ok(EVERLEAF_INDEX_OK)
    })
}

/// That a struct of the caller has the size that it has here.
pub(crate) fn expect_size<T>(bytes: usize, what: &str) -> Result<()> {
    if bytes == size_of::<T>() {
        return Ok(());
    }
    Err(invalid(format!("{what} have {bytes} bytes, and {} here", size_of::<T>())))
}

/// Where a tree is.
pub(crate) enum Place<'p> {
    Dram,
    Counted,
    Dax { path: &'p Path, emulate: bool },
    File(&'p Path),
}

/// Options that were looked at.
pub(crate) struct Wanted<'p> {
    pub place: Place<'p>,
    /// Its number.
    pub medium: u32,
    pub keys: u64,
    pub epoch: Option<Duration>,
    /// `None`: what is usual.
    pub slots: Option<u32>,
    pub reading: Reading,
    pub flush: Option<Flush>,
    pub threads: usize,
    pub create: bool,
}

/// Looks at the options of a caller; NULL stands for the defaults.
///
/// # Safety
///
/// The pointer is NULL or good, and so is the path, for as long as the result is used.
pub(crate) unsafe fn wanted<'p>(options: *const everleaf_index_options) -> Result<Wanted<'p>> {
    expect_place(options, usize::from(!options.is_null()), "the options")?;
    let defaults = everleaf_index_options::new();
    // Its size first: a shorter one has not the other fields.
    // SAFETY: the caller's promise.
    let options = match unsafe { options.as_ref() } {
        Some(options) => {
            expect_size::<everleaf_index_options>(options.struct_bytes, "the options")?;
            options
        }
        None => &defaults,
    };
    let has_file = ![EVERLEAF_INDEX_DRAM, EVERLEAF_INDEX_COUNTED].contains(&options.medium);
    if !has_file && !options.path.is_null() {
        return Err(invalid_option("path", "a tree in memory has no file: its path is NULL"));
    }
    let path = || -> Result<&'p Path> {
        // SAFETY: the caller's promise.
        let path = unsafe { call::text(options.path, "the path") }?;
        Ok(Path::new(path))
    };
    let place = match options.medium {
        EVERLEAF_INDEX_DRAM => Place::Dram,
        EVERLEAF_INDEX_COUNTED => Place::Counted,
        EVERLEAF_INDEX_EMULATED_DAX => Place::Dax { path: path()?, emulate: true },
        EVERLEAF_INDEX_DAX => Place::Dax { path: path()?, emulate: false },
        EVERLEAF_INDEX_FILE => Place::File(path()?),
        other => return Err(invalid_option("medium", format!("no medium has the number {other}"))),
    };
    let slots = (options.slots != 0).then_some(options.slots);
    if slots.is_some_and(|slots| everleaf_pmem::Geometry::new(slots).is_none()) {
        let what = format!("{} slots: a power of two, 4 to 1,024", options.slots);
        return Err(invalid_option("slots", what));
    }
    if options.keys == 0 || options.keys > KEYS_MOST {
        let what = format!("{} keys: 1 to {KEYS_MOST}", options.keys);
        return Err(invalid_option("keys", what));
    }
    Ok(Wanted {
        place,
        medium: options.medium,
        keys: options.keys,
        epoch: epoch(options.epoch_us)?,
        slots,
        reading: reading(options.reading)?,
        flush: flush(options.flush)?,
        threads: options.threads.clamp(1, 1024) as usize,
        create: options.create != 0,
    })
}

/// As many as pages have numbers, about.
const KEYS_MOST: u64 = 1 << 36;

fn epoch(us: u64) -> Result<Option<Duration>> {
    match us {
        0 => Ok(None),
        100..=10_000_000 => Ok(Some(Duration::from_micros(us))),
        _ => Err(invalid_option("epoch_us", format!("{us} µs: 0, or 100 to 10,000,000"))),
    }
}

fn reading(number: u32) -> Result<Reading> {
    Ok(match number {
        EVERLEAF_INDEX_OPTIMISTIC => Reading::Optimistic,
        EVERLEAF_INDEX_LOCK_FREE => Reading::LockFree,
        EVERLEAF_INDEX_LATCHED => Reading::Latched,
        _ => {
            return Err(invalid_option(
                "reading",
                format!("no way of reading has number {number}"),
            ));
        }
    })
}

fn flush(number: u32) -> Result<Option<Flush>> {
    Ok(match number {
        EVERLEAF_INDEX_FLUSH_BEST => None,
        EVERLEAF_INDEX_FLUSH_CLWB => Some(Flush::Clwb),
        EVERLEAF_INDEX_FLUSH_CLFLUSHOPT => Some(Flush::Clflushopt),
        EVERLEAF_INDEX_FLUSH_CLFLUSH => Some(Flush::Clflush),
        EVERLEAF_INDEX_FLUSH_NONE => Some(Flush::FenceOnly),
        _ => return Err(invalid_option("flush", format!("no instruction has number {number}"))),
    })
}
