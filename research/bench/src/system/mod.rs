//! Systems by name: the trees of the workspace, each on a medium of its own.
//!
//! Beside the [named trees](everleaf_tree::named) there are the [rivals](rival), `BdTree`, which is
//! durable by epochs, and std's `BTreeMap` behind a lock, which is not durable at all.

mod map;
mod reopen;
pub mod rival;
mod space;
mod strict;
mod subject;

use std::hint::black_box;
use std::path::Path;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use everleaf_file::{File, FileOptions};
use everleaf_pmem::page_span::PageSpan;
use everleaf_pmem::{Buffered, BufferedOptions, Counted, Counts, Geometry, Medium};
use everleaf_pool::PageCounts;
use everleaf_tree::hybrid::{HybridReport, Keeper};
use everleaf_tree::named::{NAMES, create};
use everleaf_tree::{BdTree, CircTree, FilePool, INDEX_ANCHOR, Index, Reading};
use serde::Deserialize;
use tempfile::TempDir;

use crate::medium::{Delays, MediumName};
use crate::memory::{self, Counting, OnMedium, Size};
use crate::store::{Disk, Meter};
use crate::wear::medium::Traffic;
use space::bytes;
use strict::Strict;
pub use subject::{Ended, Footprint, Subject};

/// The tree whose leaves are written back at the ends of epochs.
pub const BUFFERED: &str = "BdTree";

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

/// What a system is made with.
#[derive(Debug, Clone, Copy)]
pub struct SystemSpec<'a> {
    /// Its name.
    pub name: &'a str,
    /// What it is on.
    pub medium: MediumName,
    /// Slots of a node (16 bytes each).
    pub slots: u32,
    /// The most keys that it will hold, in all versions of them.
    pub keys: u64,
    /// How its readers read.
    pub readers: Readers,
    /// Length of an epoch of `BdTree`; `None`: epochs end by [`Subject::tick`] only.
    pub epoch: Option<Duration>,
    /// Where files are made.
    pub scratch: &'a Path,
    /// A folder on persistent memory.
    pub dax: Option<&'a Path>,
}

/// Durable by the end of the epoch; with the thread that frees empty leaves.
struct Bd<M: Medium> {
    tree: Arc<BdTree<M>>,
    _keeper: Option<Keeper>,
    _dir: Option<TempDir>,
}

impl<M: Counting> Bd<M> {
    fn make(medium: M, epoch: Option<Duration>, dir: Option<TempDir>) -> Result<Self> {
        let options = epoch.map_or_else(Default::default, |interval| BufferedOptions { interval });
        let pool = BdTree::format_pool(Buffered::new(medium, &options)?)?;
        let tree = Arc::new(BdTree::create(Arc::new(pool), INDEX_ANCHOR)?);
        let mut keeper = None;
        if epoch.is_some() {
            tree.medium().start()?;
            keeper = Some(Keeper::start(&tree, RECLAIM)?);
        }
        Ok(Self { tree, _keeper: keeper, _dir: dir })
    }
}

impl<M: Counting> Subject for Bd<M> {
    fn index(&self) -> &dyn Index {
        &*self.tree
    }

    fn counts(&self) -> Option<Counts> {
        self.tree.medium().inner().counts()
    }

    fn traffic(&self) -> Option<MutexGuard<'_, Traffic>> {
        self.tree.medium().inner().traffic()
    }

    fn pages(&self) -> Result<PageCounts> {
        Ok(self.tree.pool().stats()?)
    }

    fn space(&self) -> Result<Footprint> {
        let [pool, frames] = bytes(self.tree.pool().geometry(), self.pages()?);
        let own = self.tree.inner().pool();
        let [inner, inner_frames] = bytes(own.geometry(), own.stats()?);
        Ok(Footprint { pool, frames: frames + inner_frames, inner })
    }

    fn tick(&self) -> Result<()> {
        Ok(self.tree.medium().tick()?)
    }

    fn ended(&self) -> Ended {
        let stats = self.tree.medium().stats();
        Ended { lines: stats.lines_deferred, commits: stats.commits }
    }

    fn sync(&self) -> Result<()> {
        Ok(self.tree.sync()?)
    }

    fn epoch(&self) -> Option<u64> {
        Some(self.tree.medium().clock())
    }

    fn durable_epoch(&self) -> Option<u64> {
        Some(self.tree.medium().persisted_epoch())
    }

    fn report(&self) -> Result<Option<HybridReport>> {
        Ok(Some(self.tree.check()?))
    }
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
            self.name == BUFFERED
                || self.name == MAP
                || self.name == B_LINK
                || self.volatile().is_some()
                || NAMES.contains(&self.name)
                || self.rival().is_some(),
            "no system is called {:?}: {BUFFERED}, {MAP}, {B_LINK}, {}, {}, {}",
            self.name,
            VOLATILE.map(|(name, _)| name).join(", "),
            NAMES.join(", "),
            rival::names().collect::<Vec<_>>().join(", ")
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
            MediumName::Dram if !rival::is_published(self.name) => Ok(()),
            _ if [MAP, B_LINK].contains(&self.name) => {
                bail!("{} is in memory: its medium is dram", self.name)
            }
            MediumName::Counted | MediumName::Cached(_) if self.volatile().is_some() => {
                bail!("{} flushes nothing that could be counted", self.name)
            }
            MediumName::Counted => Ok(()),
            _ if rival::is_published(self.name) => {
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

    /// Slots and number of the pages of a rival.
    fn rival(&self) -> Option<(u32, u64)> {
        rival::shape(self.name, self.slots, self.keys)
    }

    fn slots(&self) -> u32 {
        self.rival().map_or(self.slots, |(slots, _)| slots)
    }

    fn pages(&self) -> u32 {
        if let Some((_, pages)) = self.rival() {
            return pages as u32;
        }
        // Up to three versions of a key, in leaves that are half full.
        let versions = if self.name == BUFFERED { 6 } else { 3 };
        (self.keys * versions / u64::from(self.slots) + 1024) as u32
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
            MediumName::Counted if rival::is_published(self.name) => {
                let medium = Counted::new(self.size().memory()?);
                rival::make_published(self.name, medium, self.epoch)
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

impl OnMedium for SystemSpec<'_> {
    type Made = Box<dyn Subject>;

    fn on<M: Counting + 'static>(self, medium: M, dir: Option<TempDir>) -> Result<Self::Made> {
        if self.name == BUFFERED {
            return Ok(Box::new(Bd::make(medium, self.epoch, dir)?));
        }
        if self.rival().is_some() {
            return rival::make(self.name, medium, self.epoch, dir);
        }
        let name = if self.name == B_LINK { "FastFair" } else { self.name };
        let tree = create(name, self.readers.into(), medium)?;
        Ok(Box::new(Strict::new(tree, dir)))
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
    fn b_link_is_in_memory_and_latches_every_node() {
        let make = |medium: &str, readers| SystemSpec {
            name: B_LINK,
            medium: medium.parse().expect("a medium"),
            slots: 32,
            keys: 1000,
            readers,
            epoch: None,
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
