//! Trees on memory, or on what stands in for persistent memory, as what is measured.

use std::sync::MutexGuard;

use anyhow::Result;
use everleaf_pmem::{Counted, Counts, Dram};
use everleaf_pool::PageCounts;
use everleaf_rivals::AsPublished;
use everleaf_rivals::named::{self, How, Opened};
use everleaf_tree::Index;
use everleaf_tree::hybrid::HybridReport;
use tempfile::TempDir;

use super::space::bytes;
use super::subject::{Ended, Footprint, Subject};
use crate::memory::Counting;
use crate::wear::medium::Traffic;

/// The suffix of the name of a rival with the bugs of its source.
const PUBLISHED: &str = "AsPublished";

/// Whether this is the name of a rival with the bugs of its source. Those are made to be counted, on memory that counts.
pub fn is_published(name: &str) -> bool {
    name.strip_suffix(PUBLISHED).is_some_and(|name| named::rivals().any(|rival| rival == name))
}

/// Slots and number of the pages that a tree of this name needs; `None` if there is none of this name.
pub fn shape(name: &str, slots: u32, keys: u64) -> Option<(u32, u64)> {
    let sound = if is_published(name) { name.strip_suffix(PUBLISHED) } else { None };
    named::shape(sound.unwrap_or(name), slots, keys)
}

/// A tree on such a medium.
pub struct OnMemory<M: Counting> {
    tree: Opened<M>,
    _dir: Option<TempDir>,
}

impl<M: Counting> OnMemory<M> {
    pub fn new(tree: Opened<M>, dir: Option<TempDir>) -> Self {
        Self { tree, _dir: dir }
    }
}

impl<M: Counting> Subject for OnMemory<M> {
    fn index(&self) -> &dyn Index {
        self.tree.as_index()
    }

    fn counts(&self) -> Option<Counts> {
        self.tree.medium().counts()
    }

    fn traffic(&self) -> Option<MutexGuard<'_, Traffic>> {
        self.tree.medium().traffic()
    }

    fn pages(&self) -> Result<PageCounts> {
        Ok(self.tree.pages()?.1)
    }

    fn space(&self) -> Result<Footprint> {
        let (geometry, pages) = self.tree.pages()?;
        let [pool, frames] = bytes(geometry, pages);
        let inner = self.tree.inner_pages()?;
        let [inner, inner_frames] =
            inner.map_or([0; 2], |(geometry, pages)| bytes(geometry, pages));
        Ok(Footprint { pool, frames: frames + inner_frames, inner })
    }

    fn tick(&self) -> Result<()> {
        Ok(self.tree.tick()?)
    }

    fn ended(&self) -> Ended {
        self.tree.clock().map_or_else(Ended::default, |clock| {
            let stats = clock.stats();
            Ended { lines: stats.lines_deferred, commits: stats.commits }
        })
    }

    fn sync(&self) -> Result<()> {
        Ok(self.tree.sync()?)
    }

    fn epoch(&self) -> Option<u64> {
        self.tree.clock().map(|clock| clock.clock())
    }

    fn durable_epoch(&self) -> Option<u64> {
        self.tree.clock().map(|clock| clock.persisted_epoch())
    }

    fn report(&self) -> Result<Option<HybridReport>> {
        Ok(self.tree.bd_tree().map(|tree| tree.check()).transpose()?)
    }
}

/// Makes the rival of this name with the bugs of its source.
///
/// # Errors
/// There is no memory.
pub fn make_published(name: &str, memory: Dram, how: &How) -> Result<Box<dyn Subject>> {
    let name = name.strip_suffix(PUBLISHED).unwrap_or(name);
    let tree = named::open_version::<_, AsPublished>(name, Counted::new(memory), how)?;
    Ok(Box::new(OnMemory::new(tree, None)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rivals_as_published_have_names_of_their_own() {
        assert_eq!(shape("LbTreeAsPublished", 64, 0), shape("LbTree", 64, 0));
        assert!(is_published("LbTreeAsPublished") && !is_published("LbTree"));
        assert!(!is_published("BdTreeAsPublished"));
        assert_eq!(shape("NvTree", 64, 0), Some((64, 1024)));
        assert_eq!(shape("BdTreeAsPublished", 64, 0), None);
    }
}
