//! The trees that the papers measure theirs against ([`everleaf_rivals`]), sound or as published.
//!
//! Each has the shape of page that its source or its paper has; only NV-tree's leaves are as large as asked for.

use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use anyhow::{Result, bail};
use everleaf_file::Dax;
use everleaf_pmem::{Buffered, BufferedOptions, Counted, Counts, Dram, Medium};
use everleaf_pool::PageCounts;
use everleaf_rivals::leaf::Leaf;
use everleaf_rivals::{
    AsPublished, Chained, FpTree, FpTree56, LbTree, Montage, NvTree, PacTree, SkipList, Sound,
    UTree, Version, WbTree, Wort,
};
use everleaf_tree::named::Named;
use everleaf_tree::{INDEX_ANCHOR, Index};
use tempfile::TempDir;

use super::space::bytes;
use super::strict::Strict;
use super::subject::{Ended, Footprint, Subject};
use crate::memory::Counting;
use crate::wear::medium::Traffic;

/// What comes behind the name of a tree with the bugs of its source.
const PUBLISHED: &str = "AsPublished";

/// A rival as it is made.
struct Rival {
    name: &'static str,
    /// Slots of a page; `None`: as asked for.
    slots: Option<u32>,
    /// Keys that a page has at least, for each 32 slots, in a tree that has grown.
    keys: u32,
    /// Whether keys have older versions for some epochs.
    versions: bool,
}

const fn rival(name: &'static str, slots: u32, keys: u32) -> Rival {
    Rival { name, slots: Some(slots), keys, versions: false }
}

/// All of them. Nodes of WORT, and their cells, are of 8 slots.
const RIVALS: [Rival; 10] = [
    rival("FpTree", 32, 16),
    rival("FpTree56", 64, 14),
    rival("LbTree", 16, 14),
    Rival { slots: None, ..rival("NvTree", 0, 10) },
    rival("PacTree", 128, 10),
    rival("WbTree", 64, 14),
    rival("Wort", 8, 8),
    rival("SkipList", 32, 16),
    rival("UTree", 32, 16),
    Rival { versions: true, ..rival("Montage", 32, 8) },
];

/// The names of all, sound.
pub fn names() -> impl Iterator<Item = &'static str> {
    RIVALS.iter().map(|rival| rival.name)
}

fn find(name: &str) -> Option<&'static Rival> {
    let name = name.strip_suffix(PUBLISHED).unwrap_or(name);
    RIVALS.iter().find(|rival| rival.name == name)
}

/// Slots and number of the pages that a rival of this name needs; `None` if there is none of this name.
pub fn shape(name: &str, slots: u32, keys: u64) -> Option<(u32, u64)> {
    let rival = find(name)?;
    let slots = rival.slots.unwrap_or(slots);
    let per_page = f64::from(rival.keys) * f64::from(slots) / 32.0;
    let versions = if rival.versions { 4.0 } else { 1.25 };
    Some((slots, (keys as f64 * versions / per_page) as u64 + 1024))
}

/// Montage's, which is durable by the end of the epoch.
struct ByEpochs<M: Medium, V: Version> {
    tree: Montage<M, V>,
    _dir: Option<TempDir>,
}

impl<M: Counting, V: Version> Subject for ByEpochs<M, V> {
    fn index(&self) -> &dyn Index {
        &self.tree
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
        let own = self.tree.tree().pool();
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
}

/// A tree of leaves in a chain, and inner nodes in DRAM; durable by the end of each operation.
struct OnChain<M: Medium, L: Leaf> {
    tree: Chained<M, L>,
    _dir: Option<TempDir>,
}

impl<M: Counting, L: Leaf> Subject for OnChain<M, L> {
    fn index(&self) -> &dyn Index {
        &self.tree
    }
    fn counts(&self) -> Option<Counts> {
        self.tree.pool().medium().counts()
    }
    fn traffic(&self) -> Option<MutexGuard<'_, Traffic>> {
        self.tree.pool().medium().traffic()
    }
    fn pages(&self) -> Result<PageCounts> {
        Ok(self.tree.pool().stats()?)
    }
    fn space(&self) -> Result<Footprint> {
        let [pool, frames] = bytes(self.tree.pool().geometry(), self.pages()?);
        let own = self.tree.inner_pool();
        let [inner, inner_frames] = bytes(own.geometry(), own.stats()?);
        Ok(Footprint { pool, frames: frames + inner_frames, inner })
    }
}

/// Whether this is the name of one with the bugs of its source. Those are made to be counted, on memory that counts.
pub fn is_published(name: &str) -> bool {
    name.ends_with(PUBLISHED) && find(name).is_some()
}

/// Opens the sound tree of this name on persistent memory, or makes it if there is none. It is one of those whose
/// upper part is built anew. Epochs, of a tree that has them, end by themselves.
///
/// # Errors
/// There is no memory or no room; what is there is not such a tree.
pub fn open(name: &str, dax: Dax, epochs: &BufferedOptions) -> Result<Box<dyn Subject>> {
    Ok(match name {
        "FpTree" => Box::new(OnChain { tree: FpTree::<Dax, Sound>::on(dax)?, _dir: None }),
        "LbTree" => Box::new(OnChain { tree: LbTree::<Dax, Sound>::on(dax)?, _dir: None }),
        "PacTree" => {
            Box::new(OnChain { tree: PacTree::<Dax, Sound>::on(dax)?.start()?, _dir: None })
        }
        "Montage" => {
            type Tree = Montage<Dax, Sound>;
            let is_unmade = everleaf_pool::Pool::is_unmade(&dax)?;
            let medium = Buffered::new(dax, epochs)?;
            let pool = if is_unmade { Tree::format_pool(medium) } else { Tree::open_pool(medium) };
            let (tree, _) = Tree::open(Arc::new(pool?))?;
            tree.medium().start()?;
            Box::new(ByEpochs { tree, _dir: None })
        }
        other => bail!("{other} is not opened by this"),
    })
}

/// The sound tree of this name, empty.
///
/// # Errors
/// There is no memory or no room.
pub fn make<M: Counting + 'static>(
    name: &str,
    medium: M,
    epoch: Option<Duration>,
    dir: Option<TempDir>,
) -> Result<Box<dyn Subject>> {
    version::<M, Sound>(name, medium, epoch, dir)
}

/// The tree of this name with the bugs of its source, empty.
///
/// # Errors
/// There is no memory or no room.
pub fn make_published(
    name: &str,
    medium: Counted<Dram>,
    epoch: Option<Duration>,
) -> Result<Box<dyn Subject>> {
    let name = name.strip_suffix(PUBLISHED).unwrap_or(name);
    version::<_, AsPublished>(name, medium, epoch, None)
}

fn version<M: Counting + 'static, V: Version>(
    name: &str,
    medium: M,
    epoch: Option<Duration>,
    dir: Option<TempDir>,
) -> Result<Box<dyn Subject>> {
    macro_rules! strict {
        ($tree:ty) => {{
            let pool = Arc::new(<$tree>::format_pool(medium)?);
            let index: Box<dyn Index> = Box::new(<$tree>::create(Arc::clone(&pool), INDEX_ANCHOR)?);
            Named { index, pool }
        }};
    }
    macro_rules! chained {
        ($tree:ty) => {
            return Ok(Box::new(OnChain { tree: <$tree>::on(medium)?, _dir: dir }))
        };
    }
    let tree = match name {
        "FpTree" => chained!(FpTree<M, V>),
        "FpTree56" => chained!(FpTree56<M, V>),
        "LbTree" => chained!(LbTree<M, V>),
        "PacTree" => {
            let tree = PacTree::<M, V>::on(medium)?;
            // Counts are exact without another thread: writers drain when the logs run out.
            let is_counted = tree.medium().counts().is_some();
            let tree = if is_counted { tree } else { tree.start()? };
            return Ok(Box::new(OnChain { tree, _dir: dir }));
        }
        "NvTree" => strict!(NvTree<M, V>),
        "WbTree" => strict!(WbTree<M, V>),
        "Wort" => strict!(Wort<M, V>),
        "SkipList" => strict!(SkipList<M, V>),
        "UTree" => strict!(UTree<M, V>),
        _ => {
            let options =
                epoch.map_or_else(Default::default, |interval| BufferedOptions { interval });
            let pool = Montage::<M, V>::format_pool(Buffered::new(medium, &options)?)?;
            let (tree, _) = Montage::<M, V>::open(Arc::new(pool))?;
            if epoch.is_some() {
                tree.medium().start()?;
            }
            return Ok(Box::new(ByEpochs { tree, _dir: dir }));
        }
    };
    Ok(Box::new(Strict::new(tree, dir)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::{Readers, SystemSpec, fill};
    use std::path::Path;

    #[test]
    fn each_rival_is_made_by_its_name_and_has_room_for_its_keys() {
        for name in names() {
            for medium in ["counted", "dram"] {
                let spec = SystemSpec {
                    name,
                    medium: medium.parse().expect("a medium"),
                    slots: 64,
                    keys: 100_000,
                    readers: Readers::default(),
                    epoch: None,
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
                let has_inner =
                    ["FpTree", "FpTree56", "LbTree", "PacTree", "Montage"].contains(&name);
                assert_eq!(space.inner > 0, has_inner, "{name}");
            }
        }
    }

    #[test]
    fn rivals_as_published_have_names_of_their_own() {
        assert_eq!(shape("LbTreeAsPublished", 64, 0), shape("LbTree", 64, 0));
        assert!(is_published("LbTreeAsPublished") && !is_published("LbTree"));
        assert!(!is_published("BdTreeAsPublished"));
        assert_eq!(shape("NvTree", 64, 0), Some((64, 1024)));
        assert_eq!(shape("BdTree", 64, 0), None);
    }
}
