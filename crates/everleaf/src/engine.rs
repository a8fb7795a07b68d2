//! The store behind the facade: trees of byte strings in a pool on a file.
//!
//! The catalog is itself a tree, at the anchor that every pool has: name → page of the tree's
//! anchor (u32, little-endian). A tree's first nodes and its entry in the catalog are one epoch.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Bound;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use everleaf_pmem::PageNo;
use everleaf_pmem::file::File;
use everleaf_tree::blink::Only;
use everleaf_tree::{FilePool, INDEX_ANCHOR, StringTree};

use crate::batch::Step;
use crate::{Error, Options, Pair, Result};

/// A tree inside the engine.
pub(crate) type TreeId = Arc<Tree>;
pub(crate) type Tree = StringTree<File>;

pub(crate) struct Engine {
    pool: RwLock<FilePool>,
    /// The same pool, so that operations need not lock.
    file: Arc<everleaf_pool::Pool<File>>,
    /// `None` in a pool that is open read-only and was never written to.
    catalog: Option<Tree>,
    trees: Mutex<HashMap<PageNo, TreeId>>,
    read_only: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Engine {
    pub(crate) fn open(path: &Path, options: &Options) -> Result<Engine> {
        let pool = FilePool::open(path, &options.file_options()?)?;
        let file = Arc::clone(pool.pool());
        let catalog = if pool.is_blank() {
            None
        } else {
            // Held, so that a new pool's catalog is there as a whole or not at all.
            let _hold = (!options.read_only).then(|| file.medium().hold());
            Some(Tree::open(Arc::clone(&file), INDEX_ANCHOR)?)
        };
        let (pool, trees, read_only) = (RwLock::new(pool), Mutex::default(), options.read_only);
        Ok(Engine { pool, file, catalog, trees, read_only })
    }

    pub(crate) fn medium(&self) -> &File {
        self.file.medium()
    }

    fn tree_at(&self, anchor: PageNo) -> Result<TreeId> {
        match lock(&self.trees).entry(anchor) {
            Entry::Occupied(tree) => Ok(Arc::clone(tree.get())),
            Entry::Vacant(place) => {
                let tree = Arc::new(Tree::open(Arc::clone(&self.file), anchor)?);
                Ok(Arc::clone(place.insert(tree)))
            }
        }
    }

    pub(crate) fn create_tree(&self, name: &str) -> Result<TreeId> {
        if let Some(tree) = self.find_tree(name)? {
            return Ok(tree);
        }
        let Some(catalog) = &self.catalog else { return Err(Error::ReadOnly) };
        let _hold = self.medium().hold();
        let mut trees = lock(&self.trees);
        // Another thread may have been faster.
        if let Some(anchor) = self.anchor_of(name)? {
            if let Some(tree) = trees.get(&anchor) {
                return Ok(Arc::clone(tree));
            }
            let tree = Arc::new(Tree::open(Arc::clone(&self.file), anchor)?);
            trees.insert(anchor, Arc::clone(&tree));
            return Ok(tree);
        }
        let tree = Tree::create_new(Arc::clone(&self.file))?;
        let anchor = tree.anchor();
        if let Err(error) = catalog.put(name.as_bytes(), &anchor.to_le_bytes(), Only::Ever) {
            // Best effort: a pool that is poisoned keeps nothing of this epoch anyway.
            let _ = tree.discard();
            return Err(error);
        }
        let tree = Arc::new(tree);
        trees.insert(anchor, Arc::clone(&tree));
        Ok(tree)
    }

    fn anchor_of(&self, name: &str) -> Result<Option<PageNo>> {
        let Some(catalog) = &self.catalog else { return Ok(None) };
        let Some(value) = catalog.get(name.as_bytes())? else { return Ok(None) };
        anchor_from(name.as_bytes(), &value).map(Some)
    }

    pub(crate) fn find_tree(&self, name: &str) -> Result<Option<TreeId>> {
        self.anchor_of(name)?.map(|anchor| self.tree_at(anchor)).transpose()
    }

    /// Names and anchors of all trees, by name.
    pub(crate) fn catalog_entries(&self) -> Result<Vec<(String, PageNo)>> {
        let mut entries = Vec::new();
        let mut next = self.catalog.as_ref().map(|catalog| (catalog, Bound::Unbounded));
        while let Some((catalog, from)) = next {
            let chunk = catalog.chunk_up(from.as_ref().map(|k: &Vec<u8>| &k[..]), 1024)?;
            for (name, value) in chunk.entries {
                let anchor = anchor_from(&name, &value)?;
                entries.push((String::from_utf8_lossy(&name).into_owned(), anchor));
            }
            next = chunk.next.map(|bound| (catalog, bound));
        }
        Ok(entries)
    }

    pub(crate) fn catalog(&self) -> Option<&Tree> {
        self.catalog.as_ref()
    }

    pub(crate) fn pool(&self) -> &everleaf_pool::Pool<File> {
        &self.file
    }

    pub(crate) fn open_tree(&self, anchor: PageNo) -> Result<TreeId> {
        self.tree_at(anchor)
    }

    pub(crate) fn tree_names(&self) -> Result<Vec<String>> {
        Ok(self.catalog_entries()?.into_iter().map(|(name, _)| name).collect())
    }

    pub(crate) fn get(&self, tree: &TreeId, key: &[u8]) -> Result<Option<Vec<u8>>> {
        tree.get(key)
    }

    pub(crate) fn contains(&self, tree: &TreeId, key: &[u8]) -> Result<bool> {
        tree.contains(key)
    }

    pub(crate) fn insert(
        &self,
        tree: &TreeId,
        key: &[u8],
        value: &[u8],
    ) -> Result<Option<Vec<u8>>> {
        Ok(tree.put(key, value, Only::Ever)?.old)
    }

    pub(crate) fn remove(&self, tree: &TreeId, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(tree.remove(key)?.old)
    }

    /// Applies all steps in one epoch. A failure between them (a full pool, say) stops the file's
    /// writes before the epoch is committed, so that a part of the batch is never durable.
    pub(crate) fn commit(&self, steps: &[Step]) -> Result<()> {
        if self.read_only {
            return Err(Error::ReadOnly);
        }
        let _hold = self.medium().hold();
        for (done, step) in steps.iter().enumerate() {
            let result = match &step.value {
                Some(value) => step.tree.put(&step.key, value, Only::Ever).map(drop),
                None => step.tree.remove(&step.key).map(drop),
            };
            if let Err(error) = result {
                if done > 0 {
                    self.medium().poison(&error);
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// Appends pairs between the bounds to `out`, from the low end upwards or, with `reverse`,
    /// from the high end downwards; about `limit` of them at most, and at least one if there is
    /// one. Returns whether more may follow.
    pub(crate) fn scan(
        &self,
        tree: &TreeId,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        reverse: bool,
        limit: usize,
        out: &mut Vec<Pair>,
    ) -> Result<bool> {
        let before = out.len();
        let mut next = Some(if reverse { to } else { from }.map(<[u8]>::to_vec));
        while let Some(bound) = next {
            let at = bound.as_ref().map(|key| &key[..]);
            let chunk =
                if reverse { tree.chunk_down(at, limit)? } else { tree.chunk_up(at, limit)? };
            for pair in chunk.entries {
                let inside = if reverse { is_above(&pair.0, from) } else { is_below(&pair.0, to) };
                if !inside {
                    return Ok(false);
                }
                out.push(pair);
            }
            next = chunk.next;
            if out.len() > before {
                return Ok(next.is_some());
            }
        }
        Ok(false)
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.medium().clock()
    }

    pub(crate) fn durable_epoch(&self) -> u64 {
        self.medium().durable_epoch()
    }

    pub(crate) fn sync(&self) -> Result<()> {
        if self.read_only { Ok(()) } else { self.medium().sync() }
    }

    pub(crate) fn close(&self) -> Result<()> {
        self.pool.write().unwrap_or_else(PoisonError::into_inner).close()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // Who wants to hear of an error calls `Db::close`.
        let _ = self.close();
    }
}

fn anchor_from(name: &[u8], value: &[u8]) -> Result<PageNo> {
    value.try_into().map(PageNo::from_le_bytes).map_err(|_| {
        let name = String::from_utf8_lossy(name);
        Error::corrupt(0, format!("the catalog's entry for {name:?} is no page number"))
    })
}

fn is_below(key: &[u8], to: Bound<&[u8]>) -> bool {
    match to {
        Bound::Included(end) => key <= end,
        Bound::Excluded(end) => key < end,
        Bound::Unbounded => true,
    }
}

fn is_above(key: &[u8], from: Bound<&[u8]>) -> bool {
    match from {
        Bound::Included(start) => key >= start,
        Bound::Excluded(start) => key > start,
        Bound::Unbounded => true,
    }
}
