//! Which trees there are, and what each can be on.

use std::ffi::{CString, c_char};
use std::ptr;
use std::sync::OnceLock;

use everleaf_pmem::{Error, Result};
use everleaf_rivals::named;
use everleaf_tree::named::NAMES;

use crate::call;
use crate::failure::{Failure, keep};

/// Memory: a flush and a fence are nothing, and nothing outlives the process.
pub const EVERLEAF_INDEX_DRAM: u32 = 1;
/// The same, but stores, flushed lines and fences are counted, as everleaf_index_stats tells. Trees have no threads of their
/// own there, so that counts are the same each time.
pub const EVERLEAF_INDEX_COUNTED: u32 = 2;
/// Any file in place of persistent memory, mapped. Lines are flushed; what is stored survives a crash of the process, and is
/// lost with the power.
pub const EVERLEAF_INDEX_EMULATED_DAX: u32 = 4;
/// A file on a DAX file system, mapped: persistent memory.
pub const EVERLEAF_INDEX_DAX: u32 = 8;
/// An ordinary file with a journal; writes are durable by epochs.
pub const EVERLEAF_INDEX_FILE: u32 = 16;

/// All that are memory or mapped: every tree can be there.
const LINES: u32 =
    EVERLEAF_INDEX_DRAM | EVERLEAF_INDEX_COUNTED | EVERLEAF_INDEX_EMULATED_DAX | EVERLEAF_INDEX_DAX;

/// The media that the tree of this name can be on.
pub(crate) fn media(name: &str) -> Result<u32> {
    if NAMES.contains(&name) {
        return Ok(LINES | EVERLEAF_INDEX_FILE);
    }
    if named::names().any(|other| other == name) {
        return Ok(LINES);
    }
    let all: Vec<_> = named::names().collect();
    let what = format!("no tree is called {name:?}: there are {}", all.join(", "));
    Err(Error::Unsupported { what })
}

fn texts() -> &'static [CString] {
    static TEXTS: OnceLock<Vec<CString>> = OnceLock::new();
    TEXTS
        .get_or_init(|| named::names().map(|name| CString::new(name).unwrap_or_default()).collect())
}

/// Returns how many trees there are.
#[unsafe(no_mangle)]
pub extern "C" fn everleaf_index_count() -> usize {
    call::lend("everleaf_index_count", 0, || texts().len())
}

/// Returns the name of the tree at a place in the list of all, from 0 on, or NULL behind the last one.
#[unsafe(no_mangle)]
pub extern "C" fn everleaf_index_name(at: usize) -> *const c_char {
    call::lend("everleaf_index_name", ptr::null(), || {
        texts().get(at).map_or(ptr::null(), |name| name.as_ptr())
    })
}

/// Returns the media that the tree of this name can be on, as the sum of their numbers, or 0 if no tree has this name. That
/// the machine has each of them is not said.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_index_media(name: *const c_char) -> u32 {
    call::lend("everleaf_index_media", 0, || {
        // SAFETY: the promise of a caller.
        let name = unsafe { call::text(name, "the name") };
        let media = name.and_then(|name| media(name).map_err(Failure::from));
        media.unwrap_or_else(|failure| {
            keep(failure);
            0
        })
    })
}
