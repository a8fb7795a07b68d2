//! Named trees in a pool on any medium.
//!
//! The catalog is itself a tree, at the anchor that every pool has: name → page of the tree's
//! anchor (u32, little-endian). Names have at least one byte, so the empty key is free for the
//! engine's own use.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use everleaf_pmem::{Medium, PageNo, room};
use everleaf_pool::Pool;
use everleaf_tree::blink::Only;
use everleaf_tree::{INDEX_ANCHOR, StringTree, TreeReport, after_undo};

use crate::{Error, Options, Result};

/// A pool, its catalog, and the trees that are open.
pub(crate) struct Store<M: Medium> {
    pub pool: Arc<Pool<M>>,
    /// `None` in a pool that is open read-only and was never written to.
    pub catalog: Option<StringTree<M>>,
    trees: Mutex<HashMap<PageNo, Arc<StringTree<M>>>>,
    pub read_only: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Room for one more open tree.
fn make_room<T>(trees: &mut HashMap<PageNo, T>) -> Result<()> {
    let bytes = (trees.len() + 1) * size_of::<(PageNo, T)>();
    trees.try_reserve(1).map_err(|_| Error::NoMemory { what: "the list of open trees", bytes })
}

impl<M: Medium> Store<M> {
    /// Opens the catalog; a new pool gets one. A `blank` pool has none and cannot get one.
    pub fn open(pool: Arc<Pool<M>>, blank: bool, options: &Options) -> Result<Self> {
        let read_only = options.read_only;
        if let Some(bytes) = options.limit_bytes(pool.geometry(), pool.medium().limit()) {
            pool.say_limit(bytes);
        }
        let open = || StringTree::open(Arc::clone(&pool), INDEX_ANCHOR);
        let catalog = if blank { None } else { Some(open()?) };
        Ok(Self { pool, catalog, trees: Mutex::default(), read_only })
    }

    pub fn medium(&self) -> &M {
        self.pool.medium()
    }

    /// The tree of an anchor.
    pub fn tree_at(&self, anchor: PageNo) -> Result<Arc<StringTree<M>>> {
        let mut trees = lock(&self.trees);
        make_room(&mut trees)?;
        match trees.entry(anchor) {
            Entry::Occupied(tree) => Ok(Arc::clone(tree.get())),
            Entry::Vacant(place) => {
                let tree = Arc::new(StringTree::open(Arc::clone(&self.pool), anchor)?);
                Ok(Arc::clone(place.insert(tree)))
            }
        }
    }

    /// Makes a tree, unless another thread was faster. On a file the caller holds the epoch, so that
    /// the tree and its entry are one, and poisons it after Poisoned; on persistent memory a crash
    /// between them is a leak.
    pub fn make_tree(&self, name: &str) -> Result<Arc<StringTree<M>>> {
        let Some(catalog) = &self.catalog else { return Err(Error::ReadOnly) };
        let mut trees = lock(&self.trees);
        make_room(&mut trees)?;
        if let Some(anchor) = self.anchor_of(name)? {
            if let Some(tree) = trees.get(&anchor) {
                return Ok(Arc::clone(tree));
            }
            let tree = Arc::new(StringTree::open(Arc::clone(&self.pool), anchor)?);
            trees.insert(anchor, Arc::clone(&tree));
            return Ok(tree);
        }
        let tree = StringTree::create_new(Arc::clone(&self.pool))?;
        let anchor = tree.anchor();
        if let Err(error) = catalog.put(name.as_bytes(), &anchor.to_le_bytes(), Only::Ever) {
            return Err(after_undo(error, tree.discard()));
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

    pub fn find_tree(&self, name: &str) -> Result<Option<Arc<StringTree<M>>>> {
        self.anchor_of(name)?.map(|anchor| self.tree_at(anchor)).transpose()
    }

    /// Names and anchors of all trees, by name.
    pub fn entries(&self) -> Result<Vec<(String, PageNo)>> {
        let mut entries = Vec::new();
        // The empty name is not a tree's.
        let first = Bound::Excluded(Vec::new());
        let mut next = self.catalog.as_ref().map(|catalog| (catalog, first));
        while let Some((catalog, from)) = next {
            let chunk = catalog.chunk_up(from.as_ref().map(|k: &Vec<u8>| &k[..]), 1024)?;
            for (name, value) in chunk.entries {
                let anchor = anchor_from(&name, &value)?;
                let name = String::from_utf8_lossy(&name).into_owned();
                room::push(&mut entries, (name, anchor), "the names of all trees")?;
            }
            next = chunk.next.map(|bound| (catalog, bound));
        }
        Ok(entries)
    }

    /// The reports of all trees by name, the catalog first with an empty name.
    pub fn reports(&self) -> Result<Vec<(String, TreeReport)>> {
        let Some(catalog) = &self.catalog else { return Ok(Vec::new()) };
        let entries = self.entries()?;
        let mut reports = room::list(entries.len() + 1, "the reports of all trees")?;
        // Once, or a pool of many small trees takes the square of its size.
        let owners = self.pool.map_bytes()?;
        reports.push((String::new(), catalog.check_in(&owners)?));
        for (name, anchor) in entries {
            let report = self.tree_at(anchor)?.check_in(&owners)?;
            reports.push((name, report));
        }
        Ok(reports)
    }
}

fn anchor_from(name: &[u8], value: &[u8]) -> Result<PageNo> {
    let anchor = value.try_into().ok().map(PageNo::from_le_bytes);
    // The catalog itself has no name: two handles of one anchor would not know of each other.
    anchor.filter(|anchor| *anchor != INDEX_ANCHOR).ok_or_else(|| {
        let name = String::from_utf8_lossy(name);
        Error::corrupt(0, format!("the catalog's entry for {name:?} is no tree's page"))
    })
}
