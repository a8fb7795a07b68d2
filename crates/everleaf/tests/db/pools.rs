//! Pools for tests, on either medium.

use std::path::Path;
use std::sync::Arc;

use everleaf::{Db, Options, Storage};
use everleaf_file::io::SimIo;

use crate::cut;

/// A pool on a simulated disk.
pub fn file(page_bytes: u32) -> Db {
    let options = Options::new().background(false).max_bytes(512 << 20).page_bytes(page_bytes);
    options.open_on(Arc::new(SimIo::new(1)), cut::PATH).expect("opens")
}

/// A pool in memory, with threads.
pub fn memory(page_bytes: u32) -> Db {
    Options::new().page_bytes(page_bytes).in_memory().expect("opens")
}

/// A pool on persistent memory that a file stands for.
pub fn dax(dir: &Path, page_bytes: u32) -> Db {
    let options = Options::new().storage(Storage::EmulatedDax).max_bytes(64 << 20);
    options.page_bytes(page_bytes).open(dir.join("pool")).expect("opens")
}

pub const STORAGES: [Storage; 2] = [Storage::File, Storage::EmulatedDax];

/// How a small pool with threads is opened.
pub fn options(storage: Storage) -> Options {
    Options::new().storage(storage).max_bytes(64 << 20).page_bytes(1024)
}

/// Runs a test on each storage, with a name for a pool.
pub fn on_each(test: impl Fn(&Path, Storage)) {
    for storage in STORAGES {
        let dir = tempfile::tempdir().expect("a directory");
        test(&dir.path().join("pool"), storage);
    }
}
