//! Systems by name: the trees of the workspace, each on a medium of its own.
//!
//! Beside the trees that [have names](everleaf_rivals::named) there are the rivals with the bugs of their sources, and
//! std's `BTreeMap` behind a lock, which is not durable at all.

mod map;
mod opened;
mod space;
mod subject;

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use everleaf_file::{DaxOptions, File, FileOptions};
use everleaf_pmem::page_span::PageSpan;
use everleaf_pmem::{BufferedOptions, Geometry};
use everleaf_pool::PageCounts;
pub use everleaf_rivals::named::BUFFERED;
use everleaf_rivals::named::{self, How};
use everleaf_tree::{CircTree, FilePool, INDEX_ANCHOR, Index, Reading};
use serde::Deserialize;
use tempfile::TempDir;

use crate::medium::{Delays, MediumName};
use crate::memory::{self, Counting, OnMedium, Size};
use crate::store::{Disk, Meter};
use opened::OnMemory;
use space::bytes;
pub use subject::{Footprint, Subject};

/// Std's map, behind a lock.
pub const MAP: &str = "BTreeMap";

/// The Circ-Tree paper's trees that flush nothing (§6.1), and the trees that they are here. They are
/// in memory: of a medium they get the delays alone.
const VOLATILE: [(&str, &str); 2] = [("VolatileStd", "FastFair"), ("VolatileCirc", "CircTreeLs")];

/// The tree that FAST+FAIR's threads are compared with (§6.7): its nodes in memory, nothing flushed, and every
/// node latched on the way.
const B_LINK: &str = "BLink";

/// How often BdTree frees empty leaves (BD+Tree §4.1.3).
const RECLAIM: Duration = Duration::from_millis(50);

/// How readers get along with writers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Readers {
    /// They validate.
    #[default]
    Optimistic,
    /// They read beside a writer (FAST+FAIR §5).
    LockFree,
    /// They latch the leaf (FAST+FAIR §5.1).
    Latched,
    /// They latch every node on the way, and so do writers (FAST+FAIR §6.7).
    Crabbing,
}

impl From<Readers> for Reading {
    fn from(readers: Readers) -> Self {
        match readers {
            Readers::Optimistic => Self::Optimistic,
            Readers::LockFree => Self::LockFree,
            Readers::Latched => Self::Latched,
            Readers::Crabbing => Self::Crabbing,
        }
    }
}

/// The parameters that a system is made with.
#[derive(Debug, Clone, Copy)]
pub struct SystemSpec<'a> {
    /// Its name.
    pub name: &'a str,
    /// The medium that it is on.
    pub medium: MediumName,
    /// Slots of a node (16 bytes each).
    pub slots: u32,
    /// The most keys that it will hold, in all versions of them.
    pub keys: u64,
    /// How its readers read.
    pub readers: Readers,
    /// Length of an epoch of `BdTree`; `None`: epochs end by [`Subject::tick`] only.
    pub epoch: Option<Duration>,
    /// The most puts and removals of an epoch of `BdTree`; `None`: any number.
    pub epoch_ops: Option<u64>,
    /// Where files are made.
    pub scratch: &'a Path,
    /// A folder on persistent memory.
    pub dax: Option<&'a Path>,
}

/// `CircTree` on an ordinary file.
struct OnFile {
    tree: CircTree<File>,
    meter: Arc<Meter>,
    _pool: FilePool,
    _dir: TempDir,
}

impl Subject for OnFile {
    fn index(&self) -> &dyn Index {
        &self.tree
    }

    fn pages(&self) -> Result<PageCounts> {
        Ok(self.tree.pool().stats()?)
    }

    fn space(&self) -> Result<Footprint> {
        let [pool, frames] = bytes(self.tree.pool().geometry(), self.pages()?);
        Ok(Footprint { pool, frames, inner: 0 })
    }

    fn sync(&self) -> Result<()> {
        Ok(self.tree.pool().medium().sync()?)
    }

    fn epoch(&self) -> Option<u64> {
        Some(self.tree.pool().medium().clock())
    }

    fn durable_epoch(&self) -> Option<u64> {
        Some(self.tree.pool().medium().durable_epoch())
    }

    fn longest_sync(&self) -> Duration {
        self.meter.longest_sync()
    }

    fn journal_bytes(&self) -> u64 {
        self.tree.pool().medium().stats().journal_bytes_written
    }
}

impl SystemSpec<'_> {
    /// Whether there is such a system, and whether it can be on such a medium.
    ///
    /// # Errors
    /// It is not, or cannot.
    pub fn check(&self) -> Result<()> {
        ensure!(
            self.name == MAP
                || self.name == B_LINK
                || self.volatile().is_some()
                || opened::shape(self.name, self.slots, self.keys).is_some(),
            "no system is called {:?}: {MAP}, {B_LINK}, {}, {}",
            self.name,
            VOLATILE.map(|(name, _)| name).join(", "),
            named::names().collect::<Vec<_>>().join(", ")
        );
        ensure!(
            Geometry::new(self.slots).is_some(),
            "{} slots: a power of two, 4 to 1024",
            self.slots
        );
        ensure!(
            (self.name == B_LINK) == (self.readers == Readers::Crabbing),
            "readers that latch every node are those of {B_LINK}, and of nothing else"
        );
        match self.medium {
            MediumName::Dram if !opened::is_published(self.name) => Ok(()),
            _ if [MAP, B_LINK].contains(&self.name) => {
                bail!("{} is in memory: its medium is dram", self.name)
            }
            MediumName::Counted | MediumName::Cached(_) if self.volatile().is_some() => {
                bail!("{} flushes nothing that could be counted", self.name)
            }
            MediumName::Counted => Ok(()),
            _ if opened::is_published(self.name) => {
                bail!("{} is there to be counted: its medium is counted", self.name)
            }
            MediumName::File(_) if self.name != "CircTree" => bail!("only CircTree runs on files"),
            _ => Ok(()),
        }
    }

    /// The tree that a volatile one is.
    fn volatile(&self) -> Option<&'static str> {
        VOLATILE.iter().find(|(name, _)| *name == self.name).map(|(_, tree)| *tree)
    }

    /// Slots and number of the pages of its tree.
    fn shape(&self) -> (u32, u64) {
        let name = if self.name == B_LINK { "FastFair" } else { self.name };
        opened::shape(name, self.slots, self.keys).unwrap_or((self.slots, 1024))
    }

    fn slots(&self) -> u32 {
        self.shape().0
    }

    fn pages(&self) -> u32 {
        self.shape().1 as u32
    }

    fn size(&self) -> Size<'_> {
        Size { slots: self.slots(), pages: self.pages(), scratch: self.scratch, dax: self.dax }
    }

    fn on_file(&self, interval: Duration) -> Result<Box<dyn Subject>> {
        let dir = tempfile::tempdir_in(self.scratch)?;
        let options = FileOptions {
            slots: self.slots,
            max_pages: self.pages(),
            interval,
            create: true,
            ..FileOptions::default()
        };
        let meter = Meter::new(Disk::Real);
        let pool = FilePool::open_on(meter.io(), &dir.path().join("bench.ever"), &options)?;
        let tree = CircTree::create(Arc::clone(pool.pool()), INDEX_ANCHOR)?;
        Ok(Box::new(OnFile { tree, meter, _pool: pool, _dir: dir }))
    }

    /// Makes an empty one.
    ///
    /// # Errors
    /// As [`check`](Self::check); there is no memory or no room.
    pub fn make(&self) -> Result<Box<dyn Subject>> {
        self.check()?;
        if self.name == MAP {
            return Ok(Box::new(map::WordMap::default()));
        }
        if let Some(name) = self.volatile() {
            let medium = match self.medium {
                MediumName::Dax(_, add) => MediumName::Latency(add),
                MediumName::Floor(flush) => {
                    MediumName::Latency(Delays { flush, ..Delays::default() })
                }
                other => other,
            };
            return SystemSpec { name, medium, ..*self }.make();
        }
        match self.medium {
            MediumName::Counted if opened::is_published(self.name) => {
                opened::make_published(self.name, self.size().memory()?, &self.how(true))
            }
            MediumName::File(interval) => self.on_file(interval),
            other => memory::make(other, &self.size(), *self),
        }
    }
}

impl SystemSpec<'_> {
    /// Whether lines of its pool can be told from other memory.
    ///
    /// # Errors
    /// As [`check`](Self::check); it has no pool, or is another tree under a name of its own, or its medium
    /// is not memory.
    pub fn check_spanned(&self) -> Result<()> {
        self.check()?;
        ensure!(self.medium == MediumName::Dram, "lines are told apart on the medium dram alone");
        ensure!(self.name != MAP && self.volatile().is_none(), "{} has no pool", self.name);
        Ok(())
    }

    /// Makes an empty one in memory, and says where the pages of its pool are.
    ///
    /// # Errors
    /// As [`check_spanned`](Self::check_spanned); there is no memory.
    pub fn make_spanned(&self) -> Result<(Box<dyn Subject>, PageSpan)> {
        self.check_spanned()?;
        let medium = self.size().memory()?;
        let span = PageSpan::of(&medium)?;
        Ok((self.on(medium, None)?, span))
    }
}

impl SystemSpec<'_> {
    /// How it is opened, on memory that counts or on another one. Counts are exact without threads of the tree's own.
    fn how(&self, counts: bool) -> How {
        let reclaim = self.epoch.map(|_| RECLAIM);
        How {
            reading: self.readers.into(),
            epoch: self.epoch,
            epoch_ops: self.epoch_ops,
            reclaim,
            worker: !counts,
            ..How::default()
        }
    }

    /// Opens the tree in the file at `path`, or makes it. Epochs end by themselves. `threads` rebuild the inner nodes of
    /// `BdTree`.
    ///
    /// # Errors
    /// There is no room; what is there is not such a tree, or is damaged.
    pub fn open_at(&self, path: &Path, threads: usize) -> Result<Box<dyn Subject>> {
        let options = DaxOptions {
            slots: self.slots(),
            pages: self.pages(),
            create: true,
            emulate: self.dax.is_none(),
            ..DaxOptions::default()
        };
        let interval = self.epoch.unwrap_or(BufferedOptions::default().interval);
        let how = How { epoch: Some(interval), reclaim: None, threads, ..self.how(false) };
        Ok(Box::new(OnMemory::new(named::open_dax(self.name, path, &options, &how)?, None)))
    }
}

impl OnMedium for SystemSpec<'_> {
    type Made = Box<dyn Subject>;

    fn on<M: Counting + 'static>(self, medium: M, dir: Option<TempDir>) -> Result<Self::Made> {
        let name = if self.name == B_LINK { "FastFair" } else { self.name };
        let how = self.how(medium.counts().is_some());
        Ok(Box::new(OnMemory::new(named::open(name, medium, &how)?, dir)))
    }
}

/// Fills a tree with pairs.
///
/// # Errors
/// It is full, or fails.
pub fn fill(index: &dyn Index, keys: impl Iterator<Item = u64>) -> Result<()> {
    for key in keys {
        black_box(index.insert(key, !key)?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rival_is_made_by_its_name_and_has_room_for_its_keys() {
        for name in named::rivals() {
            for medium in ["counted", "dram"] {
                let spec = SystemSpec {
                    name,
                    medium: medium.parse().expect("a medium"),
                    slots: 64,
                    keys: 100_000,
                    readers: Readers::default(),
                    epoch: None,
                    epoch_ops: None,
                    scratch: Path::new("/there/is/no/such/folder"),
                    dax: None,
                };
                let subject = spec.make().unwrap_or_else(|e| panic!("{name}: {e}"));
                let keys = (0..100_000u64).map(|key| key.wrapping_mul(0x9e37_79b9_7f4a_7c15));
                fill(subject.index(), keys).unwrap_or_else(|e| panic!("{name}: {e}"));
                subject.tick().expect("memory");
                assert_eq!(subject.index().get(0).expect("memory"), Some(!0), "{name}");
                let lines = subject.counts().map(|counts| counts.flushes);
                assert_eq!(lines.is_some_and(|lines| lines >= 100_000), medium == "counted");
                let space = subject.space().expect("counted");
                assert!(space.pool > 16 * 100_000, "{name}");
                let has_inner = ["FpTree", "FpTree56", "LbTree", "NbTree", "PacTree", "Montage"]
                    .contains(&name);
                assert_eq!(space.inner > 0, has_inner, "{name}");
            }
        }
    }

    #[test]
    fn b_link_is_in_memory_and_latches_every_node() {
        let make = |medium: &str, readers| SystemSpec {
            name: B_LINK,
            medium: medium.parse().expect("a medium"),
            slots: 32,
            keys: 1000,
            readers,
            epoch: None,
            epoch_ops: None,
            scratch: Path::new("/there/is/no/such/folder"),
            dax: None,
        };
        let subject = make("dram", Readers::Crabbing).make().expect("memory");
        fill(subject.index(), 0..1000).expect("room");
        assert_eq!(subject.index().get(999).expect("memory"), Some(!999));
        assert!(make("dax:clwb:1", Readers::Crabbing).check().is_err(), "nothing is flushed");
        assert!(make("dram", Readers::Optimistic).check().is_err(), "it would be FAST+FAIR");
        let other = SystemSpec { name: "FastFair", ..make("dram", Readers::Crabbing) };
        assert!(other.check().is_err(), "it would be B-link under another name");
    }

    #[test]
    fn a_volatile_tree_is_in_memory_whatever_its_medium_and_cannot_be_counted() {
        for name in ["VolatileStd", "VolatileCirc"] {
            let make = |medium: &str| SystemSpec {
                name,
                medium: medium.parse().expect("a medium"),
                slots: 32,
                keys: 100,
                readers: Readers::default(),
                epoch: None,
                epoch_ops: None,
                scratch: Path::new("/there/is/no/such/folder"),
                dax: None,
            };
            let subject = make("dax:clwb:1").make().expect("no file is made");
            fill(subject.index(), 0..100).expect("room");
            assert_eq!(subject.index().get(99).expect("memory"), Some(!99));
            assert!(make("counted").make().is_err(), "it flushes nothing");
        }
    }
}
