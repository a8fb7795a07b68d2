//! Trees on their media, as the library has them: beside the index itself, what only their types know.

use std::sync::{Arc, Mutex, PoisonError};

use everleaf_file::{Dax, DaxOptions, File, FileOptions};
use everleaf_pmem::{Counted, Counts, Dram, Error, Geometry, Medium, PageNo, Result};
use everleaf_rivals::named::{self, How, Opened, Pages};
use everleaf_tree::named::NAMES;
use everleaf_tree::{FilePool, Index, Reading, Recovery};

use crate::figures::everleaf_index_stats;
use crate::names;
use crate::options::{Place, Wanted};

/// How often BdTree frees empty leaves.
const RECLAIM: std::time::Duration = std::time::Duration::from_millis(50);

/// Slots of a page if nobody says: 512 bytes of pairs, as in the papers; 4 KiB on a file.
const SLOTS: u32 = 32;
const SLOTS_ON_FILE: u32 = 256;

/// An open tree.
pub(crate) trait Tree: Send + Sync {
    fn index(&self) -> Arc<dyn Index>;
    fn sync(&self) -> Result<()>;
    /// The running epoch, and the last one that is durable; none if a write is durable when it returns, or never.
    fn epochs(&self) -> Option<[u64; 2]>;
    fn recover(&self) -> Result<Recovery>;
    fn stats(&self, stats: &mut everleaf_index_stats) -> Result<()>;
    /// Makes all durable and gives the file back.
    fn close(&self) -> Result<()>;
    /// A call has ended half-way: what is there must be recovered when it is opened again.
    fn broke(&self);
}

/// A medium whose lines are memory.
trait Lines: Medium {
    fn counts(&self) -> Option<Counts> {
        None
    }
    fn close(&self) {}
    fn broke(&self) {}
}

impl Lines for Dram {}
impl Lines for Counted<Dram> {
    fn counts(&self) -> Option<Counts> {
        Some(Self::counts(self))
    }
}
impl Lines for Dax {
    fn close(&self) {
        Self::close(self);
    }
    fn broke(&self) {
        self.set_recovering(true);
    }
}

const BROKEN: Error = Error::Interrupted { what: "a call of the library met a defect" };

/// Adds pages to the bytes of a pool and its frames.
fn add((geometry, pages): Pages, bytes: &mut u64, frames: &mut u64) {
    let used = u64::from(pages.nodes + pages.records + pages.maps + pages.anchors);
    *bytes += used * geometry.page_bytes() as u64;
    *frames += used * geometry.frame_bytes() as u64;
}

fn add_pages<M: Medium>(tree: &Opened<M>, stats: &mut everleaf_index_stats) -> Result<()> {
    let pages = tree.pages()?;
    stats.free_bytes = u64::from(pages.1.free) * pages.0.page_bytes() as u64;
    add(pages, &mut stats.pool_bytes, &mut stats.frame_bytes);
    if let Some(pages) = tree.inner_pages()? {
        add(pages, &mut stats.inner_bytes, &mut stats.frame_bytes);
    }
    Ok(())
}

impl<M: Lines> Tree for Opened<M> {
    fn index(&self) -> Arc<dyn Index> {
        Opened::index(self)
    }
    fn sync(&self) -> Result<()> {
        Opened::sync(self)
    }
    fn epochs(&self) -> Option<[u64; 2]> {
        self.clock().map(|clock| [clock.clock(), clock.persisted_epoch()])
    }
    fn recover(&self) -> Result<Recovery> {
        Opened::recover(self)
    }
    fn stats(&self, stats: &mut everleaf_index_stats) -> Result<()> {
        add_pages(self, stats)?;
        if let Some(counts) = self.medium().counts() {
            stats.stores = counts.stores;
            stats.flushes = counts.flushes;
            stats.fences = counts.fences;
        }
        if let Some(clock) = self.clock() {
            let ended = clock.stats();
            stats.epochs_ended = ended.commits;
            stats.lines_deferred = ended.lines_deferred;
        }
        Ok(())
    }
    fn close(&self) -> Result<()> {
        let closed = self.clock().map_or(Ok(()), |clock| clock.close());
        self.medium().close();
        closed
    }
    fn broke(&self) {
        if let Some(clock) = self.clock() {
            clock.poison(&BROKEN);
        }
        self.medium().broke();
    }
}

/// A tree on a file, and the pool that keeps it.
struct OnFile {
    tree: Opened<File>,
    pool: Mutex<FilePool>,
}

impl Tree for OnFile {
    fn index(&self) -> Arc<dyn Index> {
        self.tree.index()
    }
    fn sync(&self) -> Result<()> {
        self.tree.medium().sync()
    }
    fn epochs(&self) -> Option<[u64; 2]> {
        let file = self.tree.medium();
        Some([file.clock(), file.durable_epoch()])
    }
    fn recover(&self) -> Result<Recovery> {
        self.tree.recover()
    }
    fn stats(&self, stats: &mut everleaf_index_stats) -> Result<()> {
        add_pages(&self.tree, stats)?;
        stats.journal_bytes = self.tree.medium().stats().journal_bytes_written;
        // Of address space, which is no room that anybody has.
        stats.free_bytes = 0;
        Ok(())
    }
    fn close(&self) -> Result<()> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner).close()
    }
    fn broke(&self) {
        self.tree.medium().poison(&BROKEN);
    }
}

/// Opens the tree of this name.
pub(crate) fn open(name: &str, wanted: &Wanted<'_>) -> Result<Box<dyn Tree>> {
    if names::media(name)? & wanted.medium == 0 {
        let what = format!("{name} is on lines of memory alone: not on a file");
        return Err(Error::Unsupported { what });
    }
    if wanted.reading == Reading::LockFree && !NAMES.contains(&name) {
        let what = format!("readers of {name} cannot go on beside a writer");
        return Err(Error::Unsupported { what });
    }
    let how = How {
        reading: wanted.reading,
        epoch: wanted.epoch,
        reclaim: wanted.epoch.map(|_| RECLAIM),
        threads: wanted.threads,
        ..How::default()
    };
    match wanted.place {
        Place::Dram => Ok(Box::new(named::open(name, memory(name, wanted)?, &how)?)),
        Place::Counted => {
            let how = How { epoch: None, reclaim: None, worker: false, ..how };
            Ok(Box::new(named::open(name, Counted::new(memory(name, wanted)?), &how)?))
        }
        Place::Dax { path, emulate } => {
            let (slots, pages) = shape(name, wanted)?;
            let (create, flush) = (wanted.create, wanted.flush);
            let options =
                DaxOptions { slots, pages, create, emulate, flush, ..DaxOptions::default() };
            Ok(Box::new(named::open_dax(name, path, &options, &how)?))
        }
        Place::File(path) => {
            let default = FileOptions::default();
            let options = FileOptions {
                slots: wanted.slots.unwrap_or(SLOTS_ON_FILE),
                interval: wanted.epoch.unwrap_or(default.interval),
                background: wanted.epoch.is_some(),
                create: wanted.create,
                ..default
            };
            let (tree, pool) = named::open_file(name, path, &options, &how)?;
            Ok(Box::new(OnFile { tree, pool: Mutex::new(pool) }))
        }
    }
}

/// Slots and pages.
fn shape(name: &str, wanted: &Wanted<'_>) -> Result<(u32, PageNo)> {
    let shape = named::shape(name, wanted.slots.unwrap_or(SLOTS), wanted.keys);
    let (slots, pages) = shape.expect("a name that was looked at");
    let pages = PageNo::try_from(pages).map_err(|_| Error::InvalidOption {
        option: "keys",
        what: format!("{} keys: more pages of {slots} slots than have numbers", wanted.keys),
    })?;
    Ok((slots, pages))
}

fn memory(name: &str, wanted: &Wanted<'_>) -> Result<Dram> {
    let (slots, pages) = shape(name, wanted)?;
    let geometry = Geometry::new(slots).expect("slots that were looked at");
    Dram::new(geometry, pages)
}
