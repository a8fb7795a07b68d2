//! Media as they are made by their names: pages in memory, or on what stands in for persistent memory.

use std::path::Path;
use std::sync::MutexGuard;

use anyhow::{Context, Result, bail};
use everleaf_file::{Dax, DaxOptions};
use everleaf_pmem::{Counted, Counts, Dram, Flush, Geometry, Latency, Medium, PageNo};
use tempfile::TempDir;

use crate::medium::MediumName;
use crate::wear::medium::{Cached, Traffic};

/// A medium that may count.
pub trait Counting: Medium {
    /// Counts of what has passed its door, if it counts.
    fn counts(&self) -> Option<Counts> {
        None
    }

    /// The traffic that has left the cache before it, if it has one.
    fn traffic(&self) -> Option<MutexGuard<'_, Traffic>> {
        None
    }
}

impl Counting for Dram {}
impl Counting for Dax {}
impl Counting for Latency<Dram> {}
impl Counting for Latency<Dax> {}

impl<M: Medium> Counting for Counted<M> {
    fn counts(&self) -> Option<Counts> {
        Some(Self::counts(self))
    }
}

impl<M: Medium> Counting for Cached<M> {
    fn traffic(&self) -> Option<MutexGuard<'_, Traffic>> {
        Some(Self::traffic(self))
    }
}

/// A thing that is made on a medium, whatever the medium's type is.
pub trait OnMedium {
    /// The type of the thing.
    type Made;

    /// Makes it. `dir` has the medium's file and goes away with it.
    ///
    /// # Errors
    /// It cannot be made.
    fn on<M: Counting + 'static>(self, medium: M, dir: Option<TempDir>) -> Result<Self::Made>;
}

/// How large a medium is, and where.
#[derive(Debug, Clone, Copy)]
pub struct Size<'a> {
    /// Slots of a page (16 bytes each).
    pub slots: u32,
    /// Its pages.
    pub pages: PageNo,
    /// Where files are made.
    pub scratch: &'a Path,
    /// A folder on persistent memory.
    pub dax: Option<&'a Path>,
}

impl Size<'_> {
    /// Memory of this size.
    ///
    /// # Errors
    /// No page has so many slots; there is no memory.
    pub fn memory(&self) -> Result<Dram> {
        let geometry = Geometry::new(self.slots).context("slots of a page")?;
        Ok(Dram::new(geometry, self.pages)?)
    }

    fn persistent(&self, flush: Option<Flush>) -> Result<(Dax, TempDir)> {
        let dir = tempfile::tempdir_in(self.dax.unwrap_or(self.scratch))?;
        let options = DaxOptions {
            slots: self.slots,
            pages: self.pages,
            create: true,
            emulate: self.dax.is_none(),
            flush,
            ..Default::default()
        };
        Ok((Dax::open(&dir.path().join("pool"), &options)?, dir))
    }
}

/// Makes something on a medium of this name and size.
///
/// # Errors
/// There is no memory or no room; the medium is a file, which has no lines that are flushed.
pub fn make<T: OnMedium>(name: MediumName, size: &Size, what: T) -> Result<T::Made> {
    match name {
        MediumName::Dram => what.on(size.memory()?, None),
        MediumName::Counted => what.on(Counted::new(size.memory()?), None),
        MediumName::Cached(shape) => what.on(Cached::new(size.memory()?, shape), None),
        MediumName::Latency(add) => {
            what.on(Latency::new(size.memory()?, add.flush, add.fence), None)
        }
        MediumName::Dax(flush, add) => {
            let (dax, dir) = size.persistent(flush)?;
            what.on(Latency::new(dax, add.flush, add.fence), Some(dir))
        }
        MediumName::Floor(floor) => {
            let (dax, dir) = size.persistent(Some(Flush::Clflush))?;
            what.on(Latency::floor(dax, floor), Some(dir))
        }
        MediumName::File(_) => bail!("nothing is flushed line by line to a file"),
    }
}
